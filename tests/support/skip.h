/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * skip.h -- leave a test that cannot run here
 */
#ifndef OL_TESTS_SKIP_H
#define OL_TESTS_SKIP_H

#include <stdio.h>
#include <stdlib.h>

enum {
	OL_EXIT_SKIP = 77
};

/*
 * ol_skip -- end the program as a skip; why says what is missing, in a few words
 *
 * tests/run collects the lines that begin with "skip: ".
 */
__attribute__((noreturn)) static inline void ol_skip(const char *why)
{
	printf("skip: %s\n", why);
	fflush(stdout);
	exit(OL_EXIT_SKIP);
}

#endif /* OL_TESTS_SKIP_H */
