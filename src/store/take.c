/* SPDX-License-Identifier: BSD-3-Clause */

/* take.c -- publishes a version that another server made */

#include <assert.h>
#include <string.h>

#include "rdma/order.h"
#include "store/store.h"
#include "wire/format.h"

enum {
	PIECE_FLOATS = 1 << 20 /* copied at once; the caller's heartbeat moves in between */
};

/* Weights that are copied, some pieces at once */
struct copy {
	float *to;
	uint16_t *bf16; /* the same once more; NULL: not wanted */
	const float *from;
	size_t floats;
};

static void copy_piece(void *arg, unsigned index)
{
	const struct copy *copy = arg;
	const size_t first = (size_t)index * PIECE_FLOATS, left = copy->floats - first;
	const size_t floats = left < PIECE_FLOATS ? left : PIECE_FLOATS;

	memcpy(copy->to + first, copy->from + first, floats * sizeof(*copy->to));
	if (copy->bf16 != NULL)
		ol_format_encode(OL_FORMAT_BF16, copy->bf16 + first, copy->to + first, NULL,
				 floats);
}

static void weights_copy(const struct ol_store *store, const struct ol_store_parts *to,
			 const float *from)
{
	struct copy copy = { to->weights, to->bf16, from, store->geo.shard_len };
	const unsigned pieces = (unsigned)((copy.floats + PIECE_FLOATS - 1) / PIECE_FLOATS);

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
	weights_copy(store, parts, weights);
	ol_word_store(&line->end[target], version + 1);
	ol_word_store(&line->published, ol_published_make(version, target));
	store->version = version;
	store->snapshot = target;
}
