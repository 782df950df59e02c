/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * blocks.h -- the blocks of one shard that a running checkpoint saves one by one
 */
#ifndef OL_CHECKPOINT_BLOCKS_H
#define OL_CHECKPOINT_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "wire/layout.h"

struct ol_ckpt_blocks {
	uint32_t count;
	uint64_t digest; /* of the job's whole partition: not 0 */
	uint64_t *first; /* owned; count + 1: where blocks begin in the shard, then its end */
};

/*
 * ol_ckpt_blocks_make -- the partition of a job, cut at the shard's ends
 *
 * lengths: floats of each block, in order; NULL: OL_BLOCK_FLOATS each. Errors: -EINVAL (one is
 * empty, or their sum is not the vector's length), -ENOMEM, with a line in err and nothing to free
 */
int ol_ckpt_blocks_make(const uint64_t *lengths, uint32_t count, const struct ol_geometry *geo,
			struct ol_ckpt_blocks *ret_blocks, char *err, size_t err_bytes);

/* ol_ckpt_blocks_fini -- a zeroed struct is fine */
void ol_ckpt_blocks_fini(struct ol_ckpt_blocks *blocks);

static inline uint64_t ol_ckpt_block_floats(const struct ol_ckpt_blocks *blocks, uint32_t index)
{
	return blocks->first[index + 1] - blocks->first[index];
}

#endif /* OL_CHECKPOINT_BLOCKS_H */
