/* SPDX-License-Identifier: BSD-3-Clause */

/* held.h -- the resources of a process: descriptors, shared mappings, threads, memory */
#ifndef OL_TESTS_NTH_FRAME_HELD_H
#define OL_TESTS_NTH_FRAME_HELD_H

#include <stdbool.h>

enum {
	HELD_FDS_MAX = 512
};

struct held {
	bool fds[HELD_FDS_MAX];
	unsigned maps; /* of slabs and other memfds, and of devices */
	unsigned threads;
};

void held_take(struct held *ret_held);
/* held_check -- the same is held now as then; what is not goes to run_wrong(), with `when` */
void held_check(const struct held *held, const char *when);
/* held_check_leaks -- with a sanitizer that knows: no memory that nobody can reach */
void held_check_leaks(void);

#endif /* OL_TESTS_NTH_FRAME_HELD_H */
