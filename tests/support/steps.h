/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * steps.h -- counts the instructions that this thread executes, one trap each (x86-64 only)
 *
 * The processor's trap flag raises SIGTRAP after every instruction of user mode; what the kernel
 * does is not seen. A repeated string instruction counts once a repetition. All is a thousand times slower than
 * usual, so code that looks at the clock must be given another one.
 */
#ifndef OL_TESTS_SUPPORT_STEPS_H
#define OL_TESTS_SUPPORT_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct steps {
	uint64_t instructions;
	uint64_t calls; /* of the system */
};

/* steps_open -- false: this processor or system cannot */
bool steps_open(void);

/* steps_start -- count into `into` until steps_stop(), which leaves no count of itself. Not nested. */
void steps_start(struct steps *into);
void steps_stop(void);

/* steps_note -- from now on also remember where each instruction lay … */
void steps_note(bool on);
/* steps_keep -- … since the last steps_start(); else they are forgotten at the next */
void steps_keep(void);
/* steps_print -- the functions that most of them lay in, `count` at most; each count divided by `by` */
void steps_print(FILE *out, unsigned count, uint64_t by);

#endif /* OL_TESTS_SUPPORT_STEPS_H */
