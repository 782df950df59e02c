/* SPDX-License-Identifier: BSD-3-Clause */

/* take.c -- publishes a version that another server made */

#include <assert.h>
#include <string.h>

#include "rdma/order.h"
#include "store/store.h"

enum {
	PIECE_BYTES = 4 << 20 /* copied at once; the caller's heartbeat moves in between */
};

/* Weights that are copied, some pieces at once */
struct copy {
	uint8_t *to;
	const uint8_t *from;
	size_t bytes;
};

static void copy_piece(void *arg, unsigned index)
{
	const struct copy *copy = arg;
	const size_t first = (size_t)index * PIECE_BYTES, left = copy->bytes - first;

	memcpy(copy->to + first, copy->from + first, left < PIECE_BYTES ? left : PIECE_BYTES);
}

static void weights_copy(const struct ol_store *store, float *to, const float *from)
{
	struct copy copy = { (uint8_t *)to, (const uint8_t *)from,
			     store->geo.shard_len * sizeof(*to) };
	const unsigned pieces = (unsigned)((copy.bytes + PIECE_BYTES - 1) / PIECE_BYTES);

	if (store->run != NULL) {
		store->run(store->run_arg, copy_piece, &copy, pieces);
		return;
	}
	for (unsigned i = 0; i < pieces; i++)
		copy_piece(&copy, i);
}

void ol_store_take(struct ol_store *store, uint64_t version, const void *table,
		   const float *weights, unsigned target)
{
	struct ol_version_line *line = &store->board->line;
	struct ol_store_parts *parts = &store->parts[target];

	assert(target < OL_SNAPSHOTS && target != store->snapshot && version > store->version);
	ol_word_begin(&line->begin[target], version + 1);
	memcpy(parts->head, table, ol_layout_table_bytes(&store->geo));
	weights_copy(store, parts->weights, weights);
	ol_word_store(&line->end[target], version + 1);
	ol_word_store(&line->published, ol_published_make(version, target));
	store->version = version;
	store->snapshot = target;
}
