/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * format.h -- the layout of a checkpoint file, byte by byte
 *
 *	offset          size            part
 *	0               4096            header: struct ol_ckpt_header
 *	4096            table_bytes     CRC32C of every block, 4 bytes each, zeros up to a page
 *	…               content_bytes   the content in blocks of OL_CKPT_BLOCK_BYTES, zeros up to a
 * page
 *
 * Every byte is under a checksum: the header's own, the table's (in the header), the blocks' (in
 * the table; the last block's includes the zeros behind it). All numbers are little-endian.
 *
 * Magic, format and the header's checksum have the same place in all future formats, so that a file
 * of a later format can be told from a damaged one.
 */
#ifndef OL_CHECKPOINT_FORMAT_H
#define OL_CHECKPOINT_FORMAT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/name.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a checkpoint is read and written as it lies in memory: little-endian"
#endif

enum {
	OL_CKPT_FORMAT = 3, /* 1: numbers of pushes did not name a process; 2: no rule */
	OL_CKPT_FORMAT_DELTAS = 4, /* of a running checkpoint of int8 deltas (deltas.h) */
};

#define OL_CKPT_MAGIC    UINT64_C(0x0a0d54504b434c4f) /* "OLCKPT\r\n" */
#define OL_RUNNING_MAGIC UINT64_C(0x0a0d4e524b434c4f) /* "OLCKRN\r\n" */

struct ol_ckpt_header {
	uint64_t magic;
	uint32_t format;
	uint32_t header_bytes;
	uint64_t file_bytes;
	uint64_t content_bytes; /* without the zeros behind it */
	uint64_t job_id;
	uint64_t version;
	uint64_t param_count;
	uint64_t shard_first;
	uint64_t shard_len;
	uint32_t epoch;
	uint32_t optimizer;
	uint32_t shard;
	uint32_t shard_count;
	uint32_t workers_max;
	uint32_t state_vectors;
	uint32_t block_bytes;
	uint32_t block_count;
	uint32_t table_bytes;
	uint32_t table_crc;
	uint32_t groups; /* of the rule, at most */
	uint32_t tensors_bytes; /* of the table of tensors; 0: none */
	uint64_t history; /* that the content is of; 0: not said … */
	uint32_t founded; /* … and its epoch */
	uint32_t slots; /* of int8 deltas: how many, … */
	uint8_t reserved[3936]; /* zero */
	uint64_t slot_bytes; /* … of so many bytes; else both 0 */
	uint64_t partition; /* of a running checkpoint: digest of its blocks; else 0 */
	uint32_t zero;
	uint32_t header_crc; /* of all bytes before it */
};

static_assert(sizeof(struct ol_ckpt_header) == OL_PAGE_BYTES, "a header is a page");
static_assert(offsetof(struct ol_ckpt_header, format) == 8, "the same in every format");
static_assert(offsetof(struct ol_ckpt_header, param_count) == 48, "no padding");
static_assert(offsetof(struct ol_ckpt_header, reserved) == 136, "no padding");
static_assert(offsetof(struct ol_ckpt_header, header_crc) == 4092, "the same in every format");
static_assert(OL_CKPT_BLOCK_BYTES % OL_PAGE_BYTES == 0, "blocks start on pages");
static_assert(OL_PARAM_COUNT_MAX / OL_CKPT_BLOCK_BYTES * 4 * (1 + OL_STATE_VECTORS_MAX) * 4 <
		      UINT32_MAX / 2,
	      "a table's bytes fit 32 bits");

/* ol_ckpt_crc -- CRC32C; ol_ckpt_crc_more -- with that of what goes before (nothing: 0) */
uint32_t ol_ckpt_crc(const void *bytes, size_t count);
uint32_t ol_ckpt_crc_more(uint32_t crc, const void *bytes, size_t count);

/* ol_ckpt_header_make -- all but the checksums; OL_E_GEOMETRY */
int ol_ckpt_header_make(const struct ol_ckpt_meta *meta, struct ol_ckpt_header *ret_header);

/* ol_ckpt_header_seal -- with the checksums; table: table_bytes */
void ol_ckpt_header_seal(struct ol_ckpt_header *header, const void *table);

/*
 * ol_ckpt_header_sound -- true if this header has this magic, a known format and a right checksum, and
 * version and epoch are within their bounds; its other numbers are not checked
 */
bool ol_ckpt_header_sound(const struct ol_ckpt_header *header, uint64_t magic, char *why);

/*
 * ol_ckpt_header_whole -- true if this is a header of ours that fits a file of so many bytes: then
 * every size in it is valid
 *
 * why: at least OL_CKPT_WHY_MAX; the fault and its place, for people
 */
bool ol_ckpt_header_whole(const struct ol_ckpt_header *header, uint64_t file_bytes, char *why);

/* ol_ckpt_header_wanted -- true if a whole header is of this job, shard, geometry, optimizer, history */
bool ol_ckpt_header_wanted(const struct ol_ckpt_header *header, const struct ol_ckpt_meta *meta,
			   char *why);

/* ol_ckpt_header_geo -- window and consistency are set to any valid values */
struct ol_geometry ol_ckpt_header_geo(const struct ol_ckpt_header *header);

/* ol_ckpt_content_off, ol_ckpt_padded_bytes -- where the blocks begin; how many bytes they are */
uint64_t ol_ckpt_content_off(const struct ol_ckpt_header *header);
uint64_t ol_ckpt_padded_bytes(const struct ol_ckpt_header *header);

/* ol_ckpt_block_bytes -- of block index, with the zeros behind the last */
uint32_t ol_ckpt_block_bytes(const struct ol_ckpt_header *header, uint32_t index);

#endif /* OL_CHECKPOINT_FORMAT_H */
