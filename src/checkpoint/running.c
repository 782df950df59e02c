/* SPDX-License-Identifier: BSD-3-Clause */

/* running.c -- a running checkpoint: the layout of its file, and the turns that update it */

#include "checkpoint/running.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "checkpoint/deltas.h"
#include "checkpoint/folder.h"
#include "checkpoint/write.h"
#include "store/kernels.h"

struct ol_running {
	const char *dir;
	struct ol_ckpt_meta meta; /* version and epoch: of the last turn */
	struct ol_ckpt_running_opts opts;
	struct ol_ckpt_header header; /* of the file */
	struct ol_deltas *deltas; /* owned; NULL: blocks are in the file as they are */
	uint8_t *saved; /* z: a snapshot's content, its blocks of different ages */
	double *distance;
	bool measured; /* these are of the content that is taken next */
	uint32_t *chosen; /* blocks of this turn, ascending … */
	uint32_t chosen_count;
	bool whole; /* … which are all */
	uint8_t *newer; /* which copy of a block is newer, 0 or 1; the table's comes last */
	uint8_t *copy; /* room for the largest block */
	uint64_t turn;
	uint64_t bytes; /* written in this turn */
	struct ol_ckpt_file file; /* at -1: it has to be made */
};

int ol_running_header_make(const struct ol_ckpt_meta *meta, const struct ol_ckpt_blocks *blocks,
			   struct ol_ckpt_header *ret_header)
{
	struct ol_ckpt_header header;
	int rc = ol_ckpt_header_make(meta, &header);

	if (rc != 0)
		return rc;
	header.magic = OL_RUNNING_MAGIC;
	header.block_bytes = 0;
	header.block_count = blocks->count;
	header.table_bytes =
		(uint32_t)(sizeof(struct ol_running_head) + ol_layout_table_bytes(&meta->geo));
	header.partition = blocks->digest;
	header.file_bytes = sizeof(header) + 2 * ol_running_stride(header.table_bytes);
	for (uint32_t i = 0; i < blocks->count; i++)
		header.file_bytes += 2 * ol_running_stride(ol_running_bytes(&header, blocks, i));
	header.header_crc = ol_ckpt_crc(&header, offsetof(struct ol_ckpt_header, header_crc));
	*ret_header = header;
	return 0;
}

uint64_t ol_running_bytes(const struct ol_ckpt_header *header, const struct ol_ckpt_blocks *blocks,
			  uint32_t index)
{
	if (index == OL_RUNNING_TABLE)
		return header->table_bytes;
	return sizeof(struct ol_running_head) +
	       ol_ckpt_block_floats(blocks, index) * sizeof(float) * (1 + header->state_vectors);
}

uint64_t ol_running_part_off(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
			     uint32_t index, uint32_t v)
{
	return ol_layout_table_bytes(geo) + v * ol_layout_vector_bytes(geo) +
	       blocks->first[index] * sizeof(float);
}

void ol_running_gather(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
		       uint32_t index, const uint8_t *content, uint8_t *ret_block)
{
	uint64_t bytes;

	if (index == OL_RUNNING_TABLE) {
		memcpy(ret_block, content, ol_layout_table_bytes(geo));
		return;
	}
	bytes = ol_ckpt_block_floats(blocks, index) * sizeof(float);
	for (uint32_t v = 0; v <= geo->state_vectors; v++)
		memcpy(ret_block + v * bytes, content + ol_running_part_off(geo, blocks, index, v),
		       bytes);
}

void ol_running_scatter(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
			uint32_t index, const uint8_t *block, uint8_t *ret_content)
{
	uint64_t bytes;

	if (index == OL_RUNNING_TABLE) {
		memcpy(ret_content, block, ol_layout_table_bytes(geo));
		return;
	}
	bytes = ol_ckpt_block_floats(blocks, index) * sizeof(float);
	for (uint32_t v = 0; v <= geo->state_vectors; v++)
		memcpy(ret_content + ol_running_part_off(geo, blocks, index, v), block + v * bytes,
		       bytes);
}

void ol_running_copy(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
		     uint32_t index, const uint8_t *from, uint8_t *to)
{
	for (uint32_t v = 0; v <= geo->state_vectors; v++) {
		uint64_t off = ol_running_part_off(geo, blocks, index, v);

		memcpy(to + off, from + off, ol_ckpt_block_floats(blocks, index) * sizeof(float));
	}
}

static uint32_t crc_of(const struct ol_ckpt_header *header, const void *copy, uint64_t bytes)
{
	struct ol_running_head head;
	uint32_t parts[2];

	memcpy(&head, copy, sizeof(head));
	head.crc = header->header_crc;
	parts[0] = ol_ckpt_crc(&head, sizeof(head));
	parts[1] = ol_ckpt_crc((const uint8_t *)copy + sizeof(head), bytes - sizeof(head));
	return ol_ckpt_crc(parts, sizeof(parts));
}

void ol_running_seal(const struct ol_ckpt_header *header, void *copy, uint64_t bytes)
{
	uint32_t crc = crc_of(header, copy, bytes);

	memcpy((uint8_t *)copy + offsetof(struct ol_running_head, crc), &crc, sizeof(crc));
}

bool ol_running_whole(const struct ol_ckpt_header *header, const void *copy, uint64_t bytes,
		      uint32_t index)
{
	struct ol_running_head head;

	memcpy(&head, copy, sizeof(head));
	return head.index == index && head.crc == crc_of(header, copy, bytes);
}

int ol_running_create(const char *dir, const struct ol_ckpt_meta *meta,
		      const struct ol_ckpt_running_opts *opts, struct ol_running **ret_running)
{
	const struct ol_ckpt_blocks *blocks = opts->blocks;
	struct ol_running *running = calloc(1, sizeof(*running));
	uint64_t most;
	int rc;

	if (running == NULL)
		return -ENOMEM;
	running->dir = dir;
	running->meta = *meta;
	running->opts = *opts;
	running->file.at = -1;
	rc = ol_running_header_make(meta, blocks, &running->header);
	if (rc == 0 && opts->format == OL_FORMAT_INT8)
		rc = ol_deltas_create(meta, opts, &running->deltas);
	if (rc != 0)
		goto err;
	most = running->header.table_bytes;
	for (uint32_t i = 0; i < blocks->count; i++) {
		uint64_t bytes = ol_running_bytes(&running->header, blocks, i);

		most = bytes > most ? bytes : most;
	}
	running->saved = calloc(1, running->header.content_bytes);
	running->distance = calloc(blocks->count, sizeof(*running->distance));
	running->chosen = calloc(blocks->count, sizeof(*running->chosen));
	running->newer = calloc((size_t)blocks->count + 1, 1);
	running->copy = malloc(most);
	if (running->saved == NULL || running->distance == NULL || running->chosen == NULL ||
	    running->newer == NULL || running->copy == NULL) {
		rc = -ENOMEM;
		goto err;
	}
	*ret_running = running;
	return 0;
err:
	ol_running_destroy(running);
	return rc;
}

static void file_close(struct ol_running *running)
{
	if (running->file.at >= 0)
		(void)running->file.ops->close(running->file.at);
	running->file.at = -1;
}

void ol_running_destroy(struct ol_running *running)
{
	if (running == NULL)
		return;
	file_close(running);
	ol_deltas_destroy(running->deltas);
	free(running->saved);
	free(running->distance);
	free(running->chosen);
	free(running->newer);
	free(running->copy);
	free(running);
}

/* Euclidean distance. A block that has become infinite or NaN has moved infinitely far. */
static double moved(const struct ol_kernels *kernels, const float *now, const float *saved,
		    uint64_t count)
{
	double distance = sqrt(kernels->moved2(now, saved, count));

	return isfinite(distance) ? distance : (double)INFINITY;
}

bool ol_running_measure(struct ol_running *running, const void *content)
{
	const struct ol_ckpt_blocks *blocks = running->opts.blocks;
	const struct ol_kernels *kernels = ol_kernels_best();
	uint64_t off = ol_layout_table_bytes(&running->meta.geo);
	const float *now = (const float *)(const void *)((const uint8_t *)content + off);
	const float *saved = (const float *)(const void *)(running->saved + off);
	bool finite = running->opts.measure;

	for (uint32_t i = 0; running->opts.measure && i < blocks->count; i++) {
		running->distance[i] =
			moved(kernels, now + blocks->first[i], saved + blocks->first[i],
			      ol_ckpt_block_floats(blocks, i));
		finite = finite && isfinite(running->distance[i]);
	}
	running->measured = true;
	return finite;
}

static void choose(struct ol_running *running, const uint8_t *content)
{
	if (!running->measured)
		(void)ol_running_measure(running, content);
	running->chosen_count = running->opts.choose(
		running->opts.choose_arg, running->opts.measure ? running->distance : NULL,
		running->chosen);
}

static void take_all(struct ol_running *running, const void *content, bool last)
{
	const uint32_t count = running->opts.blocks->count;

	running->whole = true;
	for (uint32_t i = 0; i < count; i++)
		running->chosen[i] = i;
	running->chosen_count = count;
	memcpy(running->saved, content, running->header.content_bytes);
	if (running->deltas != NULL)
		ol_deltas_take_all(running->deltas, last);
}

/* False: the file has no room for them */
static bool take_chosen(struct ol_running *running, const uint8_t *content)
{
	const struct ol_geometry *geo = &running->meta.geo;
	const struct ol_ckpt_blocks *blocks = running->opts.blocks;

	choose(running, content);
	if (running->deltas != NULL) {
		if (!ol_deltas_take(running->deltas, running->turn, running->chosen,
				    running->chosen_count, content, running->saved))
			return false;
		running->chosen_count = ol_deltas_blocks(running->deltas);
		running->whole = ol_deltas_whole(running->deltas);
	} else {
		for (uint32_t i = 0; i < running->chosen_count; i++)
			ol_running_copy(geo, blocks, running->chosen[i], content, running->saved);
		running->whole = running->chosen_count == blocks->count;
	}
	memcpy(running->saved, content, ol_layout_table_bytes(geo));
	return true;
}

void ol_running_history(struct ol_running *running, uint64_t history, uint32_t founded)
{
	if (running->meta.history != history || running->meta.founded != founded)
		file_close(running);
	running->meta.history = history;
	running->meta.founded = founded;
}

void ol_running_take(struct ol_running *running, const void *content, uint64_t version,
		     uint32_t epoch, bool whole)
{
	/* of deltas all that is whole is a new file */
	if (running->file.at >= 0 &&
	    (epoch != running->meta.epoch ||
	     !running->file.ops->is_there(running->file.at, running->header.file_bytes) ||
	     (whole && running->deltas != NULL)))
		file_close(running);
	running->meta.version = version;
	running->meta.epoch = epoch;
	running->turn = running->file.at >= 0 ? running->turn + 1 : 0;
	if (whole || running->file.at < 0) {
		take_all(running, content, whole);
	} else if (!take_chosen(running, content)) {
		file_close(running);
		running->turn = 0;
		take_all(running, content, false);
	}
	running->measured = false;
}

const uint8_t *ol_running_saved(const struct ol_running *running)
{
	return running->saved;
}

/* Write one copy at off, over the older one, unless the file is new. */
static int copy_put(struct ol_running *running, const struct ol_ckpt_file *file, uint32_t index,
		    uint64_t off)
{
	const struct ol_ckpt_blocks *blocks = running->opts.blocks;
	uint8_t *newer = &running->newer[index == OL_RUNNING_TABLE ? blocks->count : index];
	uint64_t bytes = ol_running_bytes(&running->header, blocks, index);
	struct ol_running_head head = { .turn = running->turn,
					.version = running->meta.version,
					.index = index };
	int rc;

	*newer = running->turn == 0 ? 0 : !*newer;
	memcpy(running->copy, &head, sizeof(head));
	ol_running_gather(&running->meta.geo, blocks, index, running->saved,
			  running->copy + sizeof(head));
	ol_running_seal(&running->header, running->copy, bytes);
	rc = ol_ckpt_write_at(file, running->copy, bytes, off + *newer * ol_running_stride(bytes));
	running->bytes += bytes;
	return rc;
}

/* Write and sync the chosen blocks, and then the table */
static int turn_put(struct ol_running *running, const struct ol_ckpt_file *file, char *why)
{
	const struct ol_ckpt_blocks *blocks = running->opts.blocks;
	uint64_t off = sizeof(running->header) + 2 * ol_running_stride(running->header.table_bytes);
	uint32_t next = 0;
	int rc = 0;

	if (running->deltas != NULL)
		return ol_deltas_put(running->deltas, file, &running->header, running->turn,
				     running->meta.version, running->saved, &running->bytes, why);
	for (uint32_t i = 0; rc == 0 && i < blocks->count && next < running->chosen_count; i++) {
		if (running->chosen[next] == i) {
			next++;
			rc = copy_put(running, file, i, off);
			if (rc != 0)
				return ol_ckpt_failed(why, rc,
						      "cannot write block %" PRIu32 " of %" PRIu32,
						      i, blocks->count);
		}
		off += 2 * ol_running_stride(ol_running_bytes(&running->header, blocks, i));
	}
	rc = ol_ckpt_sync_data(file);
	if (rc != 0)
		return ol_ckpt_failed(why, rc, "cannot make its blocks durable");
	rc = copy_put(running, file, OL_RUNNING_TABLE, sizeof(running->header));
	if (rc != 0)
		return ol_ckpt_failed(why, rc, "cannot write its table");
	rc = ol_ckpt_sync_data(file);
	return rc == 0 ? 0 : ol_ckpt_failed(why, rc, "cannot make its table durable");
}

static int file_make(struct ol_running *running, const struct ol_ckpt_folder *folder,
		     const struct ol_ckpt_name *name, char *why)
{
	struct ol_ckpt_header *header = &running->header;
	struct ol_ckpt_file file;
	int rc;

	rc = running->deltas != NULL
		     ? ol_deltas_header(running->deltas, &running->meta, header)
		     : ol_running_header_make(&running->meta, running->opts.blocks, header);
	if (rc != 0)
		return ol_ckpt_failed(why, rc, "cannot put it together");
	rc = ol_ckpt_temporary_make(folder, name, running->meta.owner, &file, why);
	if (rc != 0)
		return rc;
	/* reserve the whole file now, so that no later turn finds the disk full */
	rc = file.ops->reserve(file.at, header->file_bytes);
	if (rc != 0)
		ol_ckpt_failed(why, rc, "cannot make room for its %" PRIu64 " bytes",
			       header->file_bytes);
	if (rc == 0) {
		rc = ol_ckpt_write_at(&file, header, sizeof(*header), 0);
		if (rc != 0)
			ol_ckpt_failed(why, rc, "cannot write its header");
	}
	running->bytes += sizeof(*header);
	if (rc == 0)
		rc = turn_put(running, &file, why);
	rc = ol_ckpt_temporary_end(folder, name, running->meta.owner, 1, rc, why);
	if (rc != 0) {
		(void)file.ops->close(file.at);
		return rc;
	}
	running->file = file;
	return 0;
}

/* Make a new file in the folder, in place of those of earlier epochs */
static int anew(struct ol_running *running, const struct ol_ckpt_name *name, char *why)
{
	struct ol_ckpt_folder folder;
	int rc = ol_ckpt_folder_reach(running->dir, &folder, why);

	if (rc != 0)
		return rc;
	rc = file_make(running, &folder, name, why);
	ol_ckpt_folder_close(&folder);
	return rc;
}

void ol_running_write(struct ol_running *running, struct ol_ckpt_result *result)
{
	struct ol_ckpt_name name = ol_ckpt_name_of(&running->meta);
	char text[OL_CKPT_NAME_MAX], why[OL_CKPT_WHY_MAX];

	name.running = true;
	name.version = 0;
	running->bytes = 0;
	result->status = running->file.at < 0 ? anew(running, &name, why)
					      : turn_put(running, &running->file, why);
	if (result->status == 0) {
		result->bytes = running->bytes;
		result->blocks = running->chosen_count;
		result->whole = running->whole;
		return;
	}
	/* it is not known any more which blocks the file has */
	file_close(running);
	ol_ckpt_name_format(&name, text);
	snprintf(result->err, sizeof(result->err), "running checkpoint %s: %s: %s%s (folder %s)",
		 text, why, ol_status_str(result->status), ol_ckpt_remedy(result->status, true),
		 running->dir);
}
