/* SPDX-License-Identifier: BSD-3-Clause */

/* shown.h -- what the last pull left of one shard, for a relay that shows it to other readers */
#ifndef OL_WORKER_SHOWN_H
#define OL_WORKER_SHOWN_H

#include "outlast.h"
#include "wire/layout.h"

/* Valid until the pull after the next one starts, as ol_weights() */
struct ol_shown {
	const struct ol_geometry *geo;
	const void *table; /* head and applied table; NULL: nothing was pulled yet */
	const float *weights;
	uint64_t version;
	uint32_t epoch; /* of the server; in a chain of the founding of its history */
	uint64_t history; /* identity of the history that the version is of */
};

/* ol_worker_show -- the worker belongs to the calling thread; shard is below the number of shards */
void ol_worker_show(const struct ol_worker *worker, uint32_t shard, struct ol_shown *ret_shown);

#endif /* OL_WORKER_SHOWN_H */
