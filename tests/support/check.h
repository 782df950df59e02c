/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * check.h -- checks for plain test programs: a failed one prints place and text, and ends the process
 */
#ifndef OL_TESTS_SUPPORT_CHECK_H
#define OL_TESTS_SUPPORT_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	CHECK_SKIP = 77 /* exit status of a test that cannot run here */
};

/* check_die -- what check() does when it fails; _exit(), so that no leak report buries the line */
_Noreturn static inline void check_die(const char *file, int line, const char *text)
{
	fflush(stdout);
	fprintf(stderr, "%s:%d: check failed: %s\n", file, line, text);
	_exit(1);
}

static inline void check_int_at(const char *file, int line, const char *text, intmax_t got,
				intmax_t want)
{
	char buf[512];

	if (got == want)
		return;
	snprintf(buf, sizeof(buf), "%s: got %jd (%#jx), want %jd (%#jx)", text, got, (uintmax_t)got,
		 want, (uintmax_t)want);
	check_die(file, line, buf);
}

static inline void check_true_at(const char *file, int line, const char *text, bool got)
{
	if (!got)
		check_die(file, line, text);
}

/* check -- condition holds */
#define check(cond) check_true_at(__FILE__, __LINE__, #cond, (cond))

/* check_eq -- two integers are the same; both are printed when they are not */
#define check_eq(got, want) \
	check_int_at(__FILE__, __LINE__, #got " == " #want, (intmax_t)(got), (intmax_t)(want))

/* check_ok -- a call returned 0 */
#define check_ok(call) check_int_at(__FILE__, __LINE__, #call, (intmax_t)(call), 0)

/* check_msg -- condition holds; if not, the printf-like text says what was found */
#define check_msg(cond, ...) \
	do { \
		char check_buf[512]; \
		if (!(cond)) { \
			snprintf(check_buf, sizeof(check_buf), __VA_ARGS__); \
			check_die(__FILE__, __LINE__, check_buf); \
		} \
	} while (0)

#endif /* OL_TESTS_SUPPORT_CHECK_H */
