/* SPDX-License-Identifier: BSD-3-Clause */

/* format.c -- a checkpoint's header, made and checked */

#include "checkpoint/format.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <isa-l/crc.h>

#include "store/kernels.h"
#include "wire/bounds.h"

/* Returns false, for the caller to return. */
__attribute__((format(printf, 2, 3))) static bool no(char *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, OL_CKPT_WHY_MAX, format, args);
	va_end(args);
	return false;
}

uint32_t ol_ckpt_crc_more(uint32_t crc, const void *bytes, size_t count)
{
	/* isa-l takes a pointer to non-const; it does not write */
	unsigned char *p = (unsigned char *)(uintptr_t)bytes;

	crc = ~crc;
	while (count > 0) {
		size_t part = count < (1u << 30) ? count : 1u << 30; /* isa-l counts in int */

		crc = crc32_iscsi(p, (int)part, crc);
		p += part;
		count -= part;
	}
	return ~crc;
}

uint32_t ol_ckpt_crc(const void *bytes, size_t count)
{
	return ol_ckpt_crc_more(0, bytes, count);
}

int ol_ckpt_header_make(const struct ol_ckpt_meta *meta, struct ol_ckpt_header *ret_header)
{
	struct ol_ckpt_header header = {
		.magic = OL_CKPT_MAGIC,
		.format = OL_CKPT_FORMAT,
		.header_bytes = sizeof(header),
		.job_id = meta->job_id,
		.version = meta->version,
		.param_count = meta->geo.param_count,
		.shard_first = meta->geo.shard_first,
		.shard_len = meta->geo.shard_len,
		.epoch = meta->epoch,
		.optimizer = meta->optimizer,
		.shard = meta->geo.shard,
		.shard_count = meta->geo.shard_count,
		.workers_max = meta->geo.workers_max,
		.state_vectors = meta->geo.state_vectors,
		.groups = meta->geo.groups,
		.tensors_bytes = meta->geo.tensors_bytes,
		.block_bytes = OL_CKPT_BLOCK_BYTES,
		.history = meta->history,
		.founded = meta->founded,
	};
	struct ol_geometry geo = ol_ckpt_header_geo(&header);

	if (ol_geometry_check(&geo) != 0)
		return OL_E_GEOMETRY;
	header.content_bytes = ol_layout_content_bytes(&geo);
	header.block_count =
		(uint32_t)((header.content_bytes + OL_CKPT_BLOCK_BYTES - 1) / OL_CKPT_BLOCK_BYTES);
	header.table_bytes = (uint32_t)ol_round_up((uint64_t)header.block_count * 4, OL_PAGE_BYTES);
	header.file_bytes = ol_ckpt_content_off(&header) + ol_ckpt_padded_bytes(&header);
	*ret_header = header;
	return 0;
}

void ol_ckpt_header_seal(struct ol_ckpt_header *header, const void *table)
{
	header->table_crc = ol_ckpt_crc(table, header->table_bytes);
	header->header_crc = ol_ckpt_crc(header, offsetof(struct ol_ckpt_header, header_crc));
}

struct ol_geometry ol_ckpt_header_geo(const struct ol_ckpt_header *header)
{
	return (struct ol_geometry){
		.param_count = header->param_count,
		.shard_first = header->shard_first,
		.shard_len = header->shard_len,
		.shard = header->shard,
		.shard_count = header->shard_count,
		.workers_max = header->workers_max,
		.window = 1,
		.state_vectors = header->state_vectors,
		.consistency = OL_CONSISTENCY_ASYNC,
		.groups = header->groups,
		.tensors_bytes = header->tensors_bytes,
	};
}

uint64_t ol_ckpt_content_off(const struct ol_ckpt_header *header)
{
	return sizeof(*header) + header->table_bytes;
}

uint64_t ol_ckpt_padded_bytes(const struct ol_ckpt_header *header)
{
	return ol_round_up(header->content_bytes, OL_PAGE_BYTES);
}

uint32_t ol_ckpt_block_bytes(const struct ol_ckpt_header *header, uint32_t index)
{
	uint64_t left = ol_ckpt_padded_bytes(header) - (uint64_t)index * OL_CKPT_BLOCK_BYTES;

	return left < OL_CKPT_BLOCK_BYTES ? (uint32_t)left : OL_CKPT_BLOCK_BYTES;
}

/* The file is shorter or longer than its header says: say where it ends */
static bool cut_off(const struct ol_ckpt_header *header, uint64_t file_bytes, char *why)
{
	uint64_t off = ol_ckpt_content_off(header);

	if (file_bytes > header->file_bytes)
		return no(why, "it has %" PRIu64 " bytes, %" PRIu64 " more than its header says",
			  file_bytes, file_bytes - header->file_bytes);
	if (file_bytes < off)
		return no(why,
			  "it is truncated: %" PRIu64 " of %" PRIu64
			  " bytes, cut off in the table of checksums",
			  file_bytes, header->file_bytes);
	return no(why,
		  "it is truncated: %" PRIu64 " of %" PRIu64 " bytes, cut off in block %" PRIu64
		  " of %" PRIu32,
		  file_bytes, header->file_bytes, (file_bytes - off) / OL_CKPT_BLOCK_BYTES,
		  header->block_count);
}

/* Version and epoch are ones that a server can have had */
static bool bounded(const struct ol_ckpt_header *header, char *why)
{
	if (header->version > OL_VERSION_MAX)
		return no(why, "header: version %" PRIu64 " is above %" PRIu64 ", the highest",
			  header->version, OL_VERSION_MAX);
	if (header->epoch >= OL_EPOCH_MAX)
		return no(why, "header: epoch %" PRIu32 " is not below %" PRIu32, header->epoch,
			  OL_EPOCH_MAX);
	/* a server may begin in epoch 0 */
	if (header->founded > header->epoch || (header->history == 0 && header->founded != 0))
		return no(why,
			  "header: it is of epoch %" PRIu32 ", and its history %016" PRIx64
			  " of %" PRIu32,
			  header->epoch, header->history, header->founded);
	return true;
}

bool ol_ckpt_header_sound(const struct ol_ckpt_header *header, uint64_t magic, char *why)
{
	uint32_t crc = ol_ckpt_crc(header, offsetof(struct ol_ckpt_header, header_crc));
	uint32_t latest = magic == OL_RUNNING_MAGIC ? OL_CKPT_FORMAT_DELTAS : OL_CKPT_FORMAT;

	if (header->magic != magic)
		return no(why, "header: it does not begin as a checkpoint does");
	if (header->header_crc != crc)
		return no(why, "header: its checksum is %08" PRIx32 ", not %08" PRIx32, crc,
			  header->header_crc);
	if (header->format > latest)
		return no(why,
			  "header: it is of format %" PRIu32 ", later than %" PRIu32
			  ", the last that this program knows; use the program "
			  "that wrote it",
			  header->format, latest);
	if (header->format < OL_CKPT_FORMAT)
		return no(why,
			  "header: it is of format %" PRIu32
			  ", of an earlier release, and this one reads format %d: begin without "
			  "it, or restore it with the release that wrote it",
			  header->format, OL_CKPT_FORMAT);
	return bounded(header, why);
}

bool ol_ckpt_header_whole(const struct ol_ckpt_header *header, uint64_t file_bytes, char *why)
{
	struct ol_ckpt_meta meta = {
		.geo = ol_ckpt_header_geo(header),
		.job_id = header->job_id,
		.version = header->version,
		.epoch = header->epoch,
		.history = header->history,
		.founded = header->founded,
		.optimizer = header->optimizer,
	};
	struct ol_ckpt_header again;

	if (!ol_ckpt_header_sound(header, OL_CKPT_MAGIC, why))
		return false;
	/* All other fields follow from a few numbers: make them again and compare. */
	if (ol_ckpt_header_make(&meta, &again) != 0)
		return no(why, "header: its numbers cannot be a shard of a job");
	again.table_crc = header->table_crc;
	again.header_crc = header->header_crc;
	if (memcmp(header, &again, sizeof(again)) != 0)
		return no(why, "header: its sizes do not follow from its geometry");
	if (file_bytes != header->file_bytes)
		return cut_off(header, file_bytes, why);
	return true;
}

static const char *optimizer_str(uint32_t optimizer)
{
	const char *name = ol_rule_name(optimizer);

	return name != NULL ? name : "?";
}

bool ol_ckpt_header_wanted(const struct ol_ckpt_header *header, const struct ol_ckpt_meta *meta,
			   char *why)
{
	const struct ol_geometry *geo = &meta->geo;

	if (header->job_id != meta->job_id)
		return no(why, "header: it is of job %016" PRIx64 ", wanted is %016" PRIx64,
			  header->job_id, meta->job_id);
	if (header->shard != geo->shard || header->shard_count != geo->shard_count)
		return no(why,
			  "header: it is of shard %" PRIu32 " of %" PRIu32 ", wanted is %" PRIu32
			  " of %" PRIu32,
			  header->shard, header->shard_count, geo->shard, geo->shard_count);
	if (header->param_count != geo->param_count || header->shard_first != geo->shard_first ||
	    header->shard_len != geo->shard_len)
		return no(why,
			  "header: it has %" PRIu64 " of %" PRIu64 " parameters from %" PRIu64
			  " on, wanted are %" PRIu64 " of %" PRIu64 " from %" PRIu64 " on",
			  header->shard_len, header->param_count, header->shard_first,
			  geo->shard_len, geo->param_count, geo->shard_first);
	if (header->optimizer != meta->optimizer || header->state_vectors != geo->state_vectors)
		return no(why,
			  "header: it is of optimizer %s with %" PRIu32
			  " vectors of state, wanted is %s with %" PRIu32,
			  optimizer_str(header->optimizer), header->state_vectors,
			  optimizer_str(meta->optimizer), geo->state_vectors);
	if (meta->of_history != 0 && header->history != 0 && header->history != meta->of_history &&
	    header->epoch >= meta->of_founded && header->epoch <= meta->of_epoch)
		return no(why,
			  "header: it is of another history than the chain's, %016" PRIx64
			  ", not %016" PRIx64,
			  header->history, meta->of_history);
	return true;
}
