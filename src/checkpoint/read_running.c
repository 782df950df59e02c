/* SPDX-License-Identifier: BSD-3-Clause */

/* read_running.c -- the newest running checkpoint of a shard, put together from its blocks */

#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "checkpoint/deltas.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"
#include "checkpoint/running.h"
#include "checkpoint/write.h"
#include "outlast.h"
#include "wire/bounds.h"

/* A file that is being read. */
struct source {
	const struct ol_ckpt_file *file;
	const struct ol_ckpt_blocks *blocks;
	struct ol_ckpt_header header;
	struct ol_geometry geo;
	uint8_t *content; /* owned; in the file's geometry */
	uint8_t *copies[2]; /* owned; room for the largest */
	struct ol_running_head table; /* head of the chosen copy of the table */
	double extrapolate;
	uint64_t *versions; /* owned; of each block: what is loaded of it */
	struct ol_deltas_found found; /* moved: of a file of blocks, too */
};

static void source_fini(struct source *source)
{
	free(source->content);
	free(source->versions);
	free(source->copies[0]);
	free(source->copies[1]);
}

static int source_init(struct source *source, char *why)
{
	uint64_t most = source->header.table_bytes;

	for (uint32_t i = 0; i < source->blocks->count; i++) {
		uint64_t bytes = ol_running_bytes(&source->header, source->blocks, i);

		most = bytes > most ? bytes : most;
	}
	source->content = calloc(1, source->header.content_bytes);
	source->copies[0] = malloc(most);
	source->copies[1] = malloc(most);
	source->versions = calloc(source->blocks->count, sizeof(*source->versions));
	if (source->content != NULL && source->versions != NULL && source->copies[0] != NULL &&
	    source->copies[1] != NULL)
		return 0;
	return ol_ckpt_failed(why, -ENOMEM, "there is no memory for its %" PRIu64 " bytes",
			      source->header.content_bytes);
}

/* Is this the header of the wanted checkpoint? Its sizes must follow from its few numbers. */
static int header_check(const struct ol_ckpt_header *header, uint64_t file_bytes,
			const struct ol_ckpt_meta *meta, const struct ol_ckpt_blocks *blocks,
			char *why)
{
	struct ol_ckpt_meta its = {
		.geo = ol_ckpt_header_geo(header),
		.job_id = header->job_id,
		.version = header->version,
		.epoch = header->epoch,
		.history = header->history,
		.founded = header->founded,
		.optimizer = header->optimizer,
	};
	struct ol_ckpt_header again;
	int rc;

	if (!ol_ckpt_header_sound(header, OL_RUNNING_MAGIC, why) ||
	    !ol_ckpt_header_wanted(header, meta, why))
		return OL_E_NO_CHECKPOINT;
	if (header->partition != blocks->digest || header->block_count != blocks->count)
		return ol_ckpt_failed(why, OL_E_NO_CHECKPOINT,
				      "header: its %" PRIu32 " blocks are of partition %016" PRIx64
				      ", wanted are %" PRIu32 " of %016" PRIx64,
				      header->block_count, header->partition, blocks->count,
				      blocks->digest);
	rc = header->format == OL_CKPT_FORMAT_DELTAS
		     ? ol_deltas_header_make(&its, blocks, header->slots, header->slot_bytes,
					     &again)
		     : ol_running_header_make(&its, blocks, &again);
	if (rc != 0 || memcmp(header, &again, sizeof(again)) != 0)
		return ol_ckpt_failed(why, OL_E_NO_CHECKPOINT,
				      "header: its sizes do not follow from its geometry");
	if (header->format == OL_CKPT_FORMAT_DELTAS &&
	    (header->slots == 0 || header->slots > OL_DELTAS_SLOTS_MAX || header->slot_bytes == 0 ||
	     header->slot_bytes % OL_PAGE_BYTES != 0 || header->slot_bytes > file_bytes ||
	     header->slot_bytes > OL_DELTAS_SLOT_BASES * ol_deltas_room(header, 0)))
		return ol_ckpt_failed(why, OL_E_NO_CHECKPOINT,
				      "header: %" PRIu32 " slots of %" PRIu64
				      " bytes are not what a server makes",
				      header->slots, header->slot_bytes);
	if (file_bytes != header->file_bytes)
		return ol_ckpt_failed(why, OL_E_NO_CHECKPOINT,
				      "it has %" PRIu64 " bytes, and not %" PRIu64, file_bytes,
				      header->file_bytes);
	return 0;
}

/* Read both copies of a block (or the table) at off. After an error the copies may be whole. */
static int copies_read(struct source *source, uint32_t index, uint64_t off)
{
	uint64_t bytes = ol_running_bytes(&source->header, source->blocks, index);
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc == 0; i++)
		rc = ol_ckpt_read_at(source->file, source->copies[i], bytes,
				     off + i * ol_running_stride(bytes));
	return rc;
}

/*
 * Choose the newest copy of a block (or the table) that is whole and not newer than turn `newest`.
 * -1: there is none; *ret_late: one is whole, but newer.
 */
static int copy_choose(const struct source *source, uint32_t index, uint64_t newest,
		       struct ol_running_head *ret_head, bool *ret_late)
{
	uint64_t bytes = ol_running_bytes(&source->header, source->blocks, index);
	struct ol_running_head head;
	int best = -1;

	*ret_late = false;
	for (int i = 0; i < 2; i++) {
		if (!ol_running_whole(&source->header, source->copies[i], bytes, index))
			continue;
		memcpy(&head, source->copies[i], sizeof(head));
		if (head.turn > newest) {
			*ret_late = true;
			continue;
		}
		if (best >= 0 && head.turn <= ret_head->turn)
			continue;
		*ret_head = head;
		best = i;
	}
	return best;
}

bool ol_running_go_on(float *z, const void *was, uint64_t floats, uint64_t now, uint64_t then,
		      uint64_t table, double by)
{
	float share;

	if (by <= 0.0 || then >= now || now >= table)
		return false;
	share = (float)fmin((double)(table - now) / (double)(now - then), by);
	for (uint64_t i = 0; i < floats; i++) {
		float before, next;

		memcpy(&before, (const uint8_t *)was + i * sizeof(before), sizeof(before));
		next = z[i] + share * (z[i] - before);
		if (isfinite(next))
			z[i] = next;
	}
	return true;
}

/* Let the weights of a block's chosen copy, `at`, go on by their last pace. */
static void extrapolate(struct source *source, uint32_t index, int at)
{
	const uint64_t bytes = ol_running_bytes(&source->header, source->blocks, index);
	const uint8_t *older = source->copies[1 - at];
	struct ol_running_head now, then;

	if (source->extrapolate <= 0.0 || !ol_running_whole(&source->header, older, bytes, index))
		return;
	memcpy(&now, source->copies[at], sizeof(now));
	memcpy(&then, older, sizeof(then));
	source->found.moved +=
		ol_running_go_on((float *)(void *)(source->copies[at] + sizeof(now)),
				 older + sizeof(then), ol_ckpt_block_floats(source->blocks, index),
				 now.version, then.turn < now.turn ? then.version : UINT64_MAX,
				 source->table.version, source->extrapolate);
}

/* Load one block, or the table, into the content */
static int part_load(struct source *source, uint32_t index, uint64_t off, char *why)
{
	bool table = index == OL_RUNNING_TABLE;
	struct ol_running_head head;
	char what[80] = "table";
	bool late;
	int rc, at;

	if (!table)
		snprintf(what, sizeof(what), "block %" PRIu32 " of %" PRIu32, index,
			 source->blocks->count);
	rc = copies_read(source, index, off);
	if (rc != 0)
		return ol_ckpt_failed(why, ol_ckpt_unread(rc), "%s: its copies cannot be read: %s",
				      what, ol_status_str(rc));
	at = copy_choose(source, index, table ? UINT64_MAX : source->table.turn, &head, &late);
	if (at < 0 && late)
		return ol_ckpt_failed(why, OL_E_NO_CHECKPOINT,
				      "%s: only a copy that is newer than the table is whole: "
				      "updates would take effect twice",
				      what);
	if (at < 0)
		return ol_ckpt_failed(why, OL_E_NO_CHECKPOINT, "%s: neither of its copies is whole",
				      what);
	if (!table)
		extrapolate(source, index, at);
	ol_running_scatter(&source->geo, source->blocks, index, source->copies[at] + sizeof(head),
			   source->content);
	if (table)
		source->table = head;
	else
		source->versions[index] = head.version;
	return 0;
}

static int parts_load(struct source *source, char *why)
{
	uint64_t off = sizeof(source->header);
	int rc;

	if (source->header.format == OL_CKPT_FORMAT_DELTAS) {
		rc = ol_deltas_load(source->file, &source->header, source->blocks,
				    source->extrapolate, source->content, source->versions,
				    &source->found, why);
		source->table.version = source->found.version;
		return rc;
	}
	rc = part_load(source, OL_RUNNING_TABLE, off, why);
	off += 2 * ol_running_stride(source->header.table_bytes);
	for (uint32_t i = 0; rc == 0 && i < source->blocks->count; i++) {
		rc = part_load(source, i, off, why);
		off += 2 * ol_running_stride(ol_running_bytes(&source->header, source->blocks, i));
	}
	return rc;
}

/* An open file: as read_file() of read.c; version: that of its table */
static int read_file(const struct ol_ckpt_file *file, const struct ol_ckpt_name *name,
		     const struct ol_ckpt_blocks *blocks, const struct ol_ckpt_meta *floor,
		     double extrapolate_by, struct ol_ckpt_meta *meta, void *content, char *why)
{
	struct source source = { .file = file, .blocks = blocks, .extrapolate = extrapolate_by };
	uint64_t file_bytes;
	int rc = ol_ckpt_load_raw(file, &source.header, &file_bytes, why);

	if (rc == 0)
		rc = header_check(&source.header, file_bytes, meta, blocks, why);
	if (rc == 0 && source.header.epoch != name->epoch)
		rc = ol_ckpt_failed(why, OL_E_NO_CHECKPOINT,
				    "header: it is of epoch %" PRIu32
				    ", and not what its name says",
				    source.header.epoch);
	if (rc != 0)
		return rc;
	source.geo = ol_ckpt_header_geo(&source.header);
	rc = source_init(&source, why);
	if (rc == 0)
		rc = parts_load(&source, why);
	if (rc == 0 && source.table.version > OL_VERSION_MAX)
		rc = ol_ckpt_failed(why, OL_E_NO_CHECKPOINT,
				    "table: version %" PRIu64 " is above %" PRIu64 ", the highest",
				    source.table.version, OL_VERSION_MAX);
	if (rc == 0 && floor != NULL && name->epoch == floor->epoch &&
	    source.table.version <= floor->version)
		rc = -ENOENT;
	if (rc == 0 && !ol_ckpt_content_sound(&source.geo, meta, source.content, why))
		rc = OL_E_NO_CHECKPOINT;
	if (rc == 0 &&
	    !ol_ckpt_fit(&source.geo, source.content, &meta->geo, meta->tensors, content, why))
		rc = OL_E_GEOMETRY;
	if (rc == 0) {
		meta->version = source.table.version;
		meta->history = source.header.history;
		meta->founded = source.header.founded;
	}
	if (rc == 0 && meta->block_versions != NULL)
		memcpy(meta->block_versions, source.versions,
		       blocks->count * sizeof(*source.versions));
	if (rc == 0 && extrapolate_by > 0.0)
		ol_log(OL_LOG_INFO,
		       "running checkpoint of shard %" PRIu32 ": %" PRIu32 " of %" PRIu32
		       " blocks go on by their last pace, by at most %g of their last move",
		       source.geo.shard, source.found.moved, blocks->count, extrapolate_by);
	if (rc == 0 && source.found.damaged > 0)
		ol_log(OL_LOG_WARN,
		       "running checkpoint of shard %" PRIu32 ": %" PRIu32
		       " of its segments are damaged: %" PRIu32 " of %" PRIu32
		       " blocks are older than what was saved of them",
		       source.geo.shard, source.found.damaged, source.found.older, blocks->count);
	source_fini(&source);
	return rc;
}

static int read_name(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
		     const struct ol_ckpt_blocks *blocks, const struct ol_ckpt_meta *floor,
		     double extrapolate_by, struct ol_ckpt_meta *meta, void *content, char *why)
{
	struct ol_ckpt_file file;
	int rc;

	if (name->job_id != meta->job_id)
		return ol_ckpt_failed(why, OL_E_NO_CHECKPOINT,
				      "it is of job %016" PRIx64 ", wanted is %016" PRIx64,
				      name->job_id, meta->job_id);
	rc = ol_ckpt_load_open(folder, name, &file, why);
	if (rc != 0)
		return rc;
	rc = read_file(&file, name, blocks, floor, extrapolate_by, meta, content, why);
	(void)file.ops->close(file.at);
	return rc;
}

static int read_names(const struct ol_ckpt_folder *folder, const char *dir,
		      const struct ol_ckpt_blocks *blocks, const struct ol_ckpt_meta *floor,
		      double extrapolate_by, struct ol_ckpt_meta *meta, void *content)
{
	char text[OL_CKPT_NAME_MAX], why[OL_CKPT_WHY_MAX];
	struct ol_ckpt_name *names = NULL;
	size_t count = 0;
	int rc = ol_ckpt_folder_list(folder, meta->job_id, meta->geo.shard, true, &names, &count);

	if (rc != 0)
		return rc;
	rc = -ENOENT;
	for (size_t i = 0; i < count; i++) {
		if (names[i].temporary || (floor != NULL && names[i].job_id == meta->job_id &&
					   names[i].epoch < floor->epoch))
			continue;
		rc = read_name(folder, &names[i], blocks, floor, extrapolate_by, meta, content,
			       why);
		if (rc == 0)
			meta->epoch = names[i].epoch;
		if (rc == 0 || rc == -ENOENT)
			break;
		ol_ckpt_name_format(&names[i], text);
		ol_ckpt_say_unused("running checkpoint", text, dir, rc, why);
		/* it could not be read, and may be whole: an older one would lose steps */
		if (rc != OL_E_NO_CHECKPOINT)
			break;
	}
	free(names);
	return rc;
}

int ol_ckpt_read_running(const char *dir, const struct ol_ckpt_blocks *blocks,
			 const struct ol_ckpt_meta *floor, double extrapolate_by,
			 struct ol_ckpt_meta *meta, void *content)
{
	char why[OL_CKPT_WHY_MAX];
	struct ol_ckpt_folder folder;
	int rc = ol_ckpt_folder_open(dir, &folder, why);

	if (rc != 0)
		return rc; /* the search for a full one, which comes first, has said it */
	rc = read_names(&folder, dir, blocks, floor, extrapolate_by, meta, content);
	ol_ckpt_folder_close(&folder);
	return rc;
}

double ol_ckpt_blocks_behind(const struct ol_ckpt_blocks *blocks, const uint64_t *block_versions,
			     uint64_t least, uint64_t newest)
{
	double sum = 0.0;

	for (uint32_t i = 0; i < blocks->count; i++) {
		const uint64_t version = block_versions[i] > least ? block_versions[i] : least;

		if (version < newest)
			sum += (double)(newest - version) * (double)ol_ckpt_block_floats(blocks, i);
	}
	return sum / (double)blocks->first[blocks->count];
}

uint32_t ol_ckpt_blocks_renew(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
			      uint64_t *block_versions, const void *from, uint64_t version,
			      bool with_state, void *content)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < blocks->count; i++) {
		const uint64_t bytes = ol_ckpt_block_floats(blocks, i) * sizeof(float);

		if (block_versions[i] >= version)
			continue;
		for (uint32_t v = 0; v <= (with_state ? geo->state_vectors : 0); v++) {
			const uint64_t off = ol_running_part_off(geo, blocks, i, v);

			memcpy((uint8_t *)content + off, (const uint8_t *)from + off, bytes);
		}
		block_versions[i] = version;
		count++;
	}
	return count;
}
