/* SPDX-License-Identifier: BSD-3-Clause */

/* times.c -- puts the times of pushes on the board */

#include "server/times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hist.h"
#include "rdma/order.h"
#include "wire/seq.h"
#include "wire/wire.h"

enum {
	SLOW_S = 15 /* a slow push is not shown for much longer, if others come */
};

int ol_times_open(struct ol_times *times, uint64_t pushes)
{
	uint64_t size = 1;

	while (size < pushes)
		size *= 2;
	*times = (struct ol_times){ .mask = size - 1 };
	times->pushes = calloc(size, sizeof(*times->pushes));
	return times->pushes != NULL ? 0 : -ENOMEM;
}

void ol_times_close(struct ol_times *times)
{
	free(times->pushes);
	times->pushes = NULL;
}

static __attribute__((noinline)) void slow_show(struct ol_times *times, struct ol_board *board,
						const struct ol_timed *push, uint64_t now_ns)
{
	struct ol_board_slow slow = { .push = ol_seq_count(push->seq),
				      .took_ns = now_ns - push->landed_ns,
				      .at_ns = ol_clock_wall_ns(),
				      .worker = push->worker };
	uint64_t words[OL_BOARD_SLOW_WORDS];

	ol_record_seal(&slow);
	memcpy(words, &slow, sizeof(words));
	for (unsigned i = 0; i < OL_BOARD_SLOW_WORDS; i++)
		ol_word_store(&board->push_slow[i], words[i]);
	times->slow_ns = slow.took_ns;
	times->slow_until_ns = now_ns + SLOW_S * OL_NS_PER_S;
}

void ol_times_take(struct ol_times *times, struct ol_board *board, uint64_t now_ns)
{
	struct ol_board_hist *hist = &board->push_applied;

	for (uint64_t i = times->applied_timed; i != times->applied; i++) {
		const struct ol_timed *push = &times->pushes[i & times->mask];
		const uint64_t ns = now_ns - push->landed_ns;

		ol_counter_add(&hist->sum_ns, ns);
		ol_counter_add(&hist->buckets[ol_hist_bucket(ns)], 1);
		if (ns > times->slow_ns || now_ns >= times->slow_until_ns)
			slow_show(times, board, push, now_ns);
	}
	times->applied_timed = times->applied;
	times->is_due = false;
}
