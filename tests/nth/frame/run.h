/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * run.h -- runs a scenario once for every call that it makes, and lets that call fail
 *
 * Every run is a process of its own, so a crash is a result like any other. It tries the scenario
 * with the failure and then, in the same process, without: the second try must succeed. After each
 * try the process has exactly as many descriptors, shared mappings and threads as before and, under
 * AddressSanitizer, as much memory.
 *
 * A run that takes longer than RUN_HANG_S is a hang.
 */
#ifndef OL_TESTS_NTH_FRAME_RUN_H
#define OL_TESTS_NTH_FRAME_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	RUN_HANG_S = 40,
	RUN_TEXT_MAX = 512,
};

struct run_scenario {
	const char *name;
	/* In the first process, before the first run and after the last: what all of them meet.
	   The first process never opens a transport. May be NULL. */
	void (*start)(void);
	void (*end)(void);
	/* In each run's process before anything may fail; may fork. May be NULL. */
	void (*before)(void);
	/*
	 * What may fail, for the first or the second time (attempt 0, 1): returns 0, or a negative
	 * status and a line in text. Whatever else is wrong it says by run_wrong().
	 */
	int (*run)(unsigned attempt, char text[RUN_TEXT_MAX]);
	/* When nothing fails any more: what must be true then. May be NULL. */
	void (*after)(unsigned attempt, int status);
	unsigned max; /* failures of one fault that is often called; 0: 12 */
};

/* run_wrong -- in a run: what must not be; the run has failed, and goes on */
__attribute__((format(printf, 1, 2))) void run_wrong(const char *format, ...);

/* run_folder -- an empty folder of this process and what it has forked; removed at its end */
const char *run_folder(void);

/*
 * run_main -- all scenarios, or those whose name begins with argument 1; a table; an exit status
 *
 * --from: what fails fails from then on until the attempt ends, and not once.
 * NAME CALL HOW N: that one run, in the clear: with its output, for a debugger.
 */
int run_main(int argc, char **argv, const struct run_scenario *const *scenarios, size_t count);

#endif /* OL_TESTS_NTH_FRAME_RUN_H */
