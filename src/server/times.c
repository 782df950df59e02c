/* SPDX-License-Identifier: BSD-3-Clause */

/* times.c -- puts the times of pushes on the board */

#include "server/times.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hist.h"
#include "rdma/order.h"
#include "wire/wire.h"

int ol_times_open(struct ol_times *times, uint64_t pushes)
{
	uint64_t size = 1;

	while (size < pushes)
		size *= 2;
	*times = (struct ol_times){ .mask = size - 1 };
	times->landed_ns = calloc(size, sizeof(*times->landed_ns));
	return times->landed_ns != NULL ? 0 : -ENOMEM;
}

void ol_times_close(struct ol_times *times)
{
	free(times->landed_ns);
	times->landed_ns = NULL;
}

/* Put times on the board until `done` of them are there */
static inline void hist_fill(const struct ol_times *times, struct ol_board_hist *hist,
			     uint64_t *timed, uint64_t done, uint64_t now_ns)
{
	for (uint64_t i = *timed; i != done; i++) {
		const uint64_t ns = now_ns - times->landed_ns[i & times->mask];

		ol_counter_add(&hist->sum_ns, ns);
		ol_counter_add(&hist->buckets[ol_hist_bucket(ns)], 1);
	}
	*timed = done;
}

void ol_times_take(struct ol_times *times, struct ol_board *board, uint64_t now_ns)
{
	hist_fill(times, &board->push_applied, &times->applied_timed, times->applied, now_ns);
	times->is_due = false;
}
