/* SPDX-License-Identifier: BSD-3-Clause */

/* blocks.c -- a job's partition, cut at the ends of one shard */

#include "checkpoint/blocks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "outlast_server.h"

/* Length of block `index` of the job; without a partition all but the last are alike. */
static uint64_t length_of(const uint64_t *lengths, uint32_t index, uint64_t param_count)
{
	uint64_t left;

	if (lengths != NULL)
		return lengths[index];
	left = param_count - (uint64_t)index * OL_BLOCK_FLOATS;
	return left < OL_BLOCK_FLOATS ? left : OL_BLOCK_FLOATS;
}

static int check(const uint64_t *lengths, uint32_t count, uint64_t param_count, char *err,
		 size_t err_bytes)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; lengths != NULL && i < count; i++) {
		if (lengths[i] == 0 || lengths[i] > param_count - sum) {
			snprintf(err, err_bytes,
				 "block %" PRIu32 " of the partition: %" PRIu64
				 " floats from %" PRIu64
				 " on; a block holds at least one, and the vector has %" PRIu64,
				 i, lengths[i], sum, param_count);
			return -EINVAL;
		}
		sum += lengths[i];
	}
	if (lengths == NULL || sum == param_count)
		return 0;
	snprintf(err, err_bytes,
		 "partition: its %" PRIu32 " blocks are %" PRIu64
		 " floats, and the vector has %" PRIu64,
		 count, sum, param_count);
	return -EINVAL;
}

/* Digest of the partition; without one, of the block size and param_count */
static int digest_make(const uint64_t *lengths, uint32_t count, uint64_t param_count,
		       uint64_t *ret_digest)
{
	uint64_t alike[2] = { OL_BLOCK_FLOATS, param_count };
	char hex[OL_SHA256_HEX_BYTES];
	int rc = lengths != NULL ? ol_sha256_hex(lengths, count * sizeof(*lengths), hex)
				 : ol_sha256_hex(alike, sizeof(alike), hex);

	if (rc != 0)
		return rc;
	hex[16] = '\0';
	*ret_digest = strtoull(hex, NULL, 16) | 1;
	return 0;
}

int ol_ckpt_blocks_make(const uint64_t *lengths, uint32_t count, const struct ol_geometry *geo,
			struct ol_ckpt_blocks *ret_blocks, char *err, size_t err_bytes)
{
	struct ol_ckpt_blocks blocks = { 0 };
	uint64_t end = geo->shard_first + geo->shard_len, at = 0;
	int rc;

	if (lengths == NULL)
		count = (uint32_t)((geo->param_count + OL_BLOCK_FLOATS - 1) / OL_BLOCK_FLOATS);
	rc = check(lengths, count, geo->param_count, err, err_bytes);
	if (rc != 0)
		return rc;
	/* without a partition the job has many blocks: make room for this shard's alone */
	blocks.first =
		calloc(lengths != NULL ? (size_t)count + 1 : geo->shard_len / OL_BLOCK_FLOATS + 3,
		       sizeof(*blocks.first));
	rc = blocks.first == NULL ? -ENOMEM
				  : digest_make(lengths, count, geo->param_count, &blocks.digest);
	if (rc != 0) {
		snprintf(err, err_bytes, "partition of %" PRIu32 " blocks: no memory for it",
			 count);
		free(blocks.first);
		return rc;
	}
	for (uint32_t i = 0; i < count && at < end; i++) {
		uint64_t next = at + length_of(lengths, i, geo->param_count);

		if (next > geo->shard_first)
			blocks.first[blocks.count++] =
				at > geo->shard_first ? at - geo->shard_first : 0;
		at = next;
	}
	blocks.first[blocks.count] = geo->shard_len;
	*ret_blocks = blocks;
	return 0;
}

void ol_ckpt_blocks_fini(struct ol_ckpt_blocks *blocks)
{
	free(blocks->first);
	*blocks = (struct ol_ckpt_blocks){ 0 };
}
