/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * times.h -- how long pushes take at a server: from the look at the clock before it saw that a
 * gradient had landed, to the one after the gradient took effect
 *
 * No look at the clock is made for this. The data path counts which pushes have come how far, in the
 * order in which their steps were made. The loop's next look says when that was: it comes after the event
 * at hand, or behind some empty polls, so a time may be a few microseconds too long. The histograms on
 * the board lie in lines that no peer reads to make progress. Beside them is one push that took long, by
 * which worker and number it can be found in logs: the slowest one for 15 s, and until the next.
 *
 * In a strict chain the head alone knows when a gradient landed, so it has the times of the entries
 * that it ordered, to its own weights, which come after the entry is sent on. When the tail commits is
 * not timed: a tail acknowledges to those above once for many entries.
 */
#ifndef OL_SERVER_TIMES_H
#define OL_SERVER_TIMES_H

#include <stdbool.h>
#include <stdint.h>

struct ol_board;

/* A push that has landed */
struct ol_timed {
	uint64_t landed_ns;
	uint64_t seq;
	uint32_t worker;
};

/* Pushes are numbered as their steps are made */
struct ol_times {
	struct ol_timed *pushes; /* the newest ones: number n at n & mask */
	uint64_t mask;
	uint64_t landed; /* so many there are … */
	uint64_t applied; /* … have taken effect here */
	uint64_t applied_timed; /* of these, on the board */
	bool is_due; /* some are not */
	uint64_t slow_ns; /* how long the slow one on the board took … */
	uint64_t slow_until_ns; /* … which any other one replaces from now on */

	/* Of a strict chain: entries */
	uint64_t ordered; /* the newest that was made here … */
	uint64_t applied_entry; /* … and of these the newest that is applied */
};

/* ol_times_open -- room for so many pushes that were not looked at; -ENOMEM */
int ol_times_open(struct ol_times *times, uint64_t pushes);
void ol_times_close(struct ol_times *times);

/* ol_times_take -- a look at the clock: what has ended since the last one ended now */
void ol_times_take(struct ol_times *times, struct ol_board *board, uint64_t now_ns);

/* ol_times_add -- one push more, in the step that is being made */
static inline void ol_times_add(struct ol_times *times, uint32_t worker, uint64_t seq,
				uint64_t landed_ns)
{
	struct ol_timed *push = &times->pushes[times->landed++ & times->mask];

	push->landed_ns = landed_ns;
	push->seq = seq;
	push->worker = worker;
}

/* ol_times_apply -- without entries: all pushes have taken effect */
static inline void ol_times_apply(struct ol_times *times)
{
	times->applied = times->landed;
	times->is_due = true;
}

/* ol_times_order -- the pushes that come next are an entry's */
static inline void ol_times_order(struct ol_times *times, uint64_t version)
{
	if (version != times->ordered + 1) { /* others have ordered since */
		times->applied_entry = version - 1;
		times->applied = times->applied_timed = times->landed;
	}
	times->ordered = version;
}

/* ol_times_apply_entry -- an entry of so many pushes has taken effect here, whoever ordered it */
static inline void ol_times_apply_entry(struct ol_times *times, uint64_t version, uint32_t pushes)
{
	if (version != times->applied_entry + 1 || version > times->ordered)
		return;
	times->applied_entry = version;
	times->applied += pushes;
	times->is_due = true;
}

#endif /* OL_SERVER_TIMES_H */
