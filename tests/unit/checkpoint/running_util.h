/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * running_util.h -- for tests of running checkpoints: blocks, a fixed choice of them, and the
 * expected result of a restore
 */
#ifndef RUNNING_UTIL_H
#define RUNNING_UTIL_H

#include "ckpt_util.h"

#include "checkpoint/running.h"

enum {
	RUNNING_BLOCKS_MAX = 1024,
};

/* What the next turn is to choose. */
struct choice {
	uint32_t count;
	uint32_t blocks[RUNNING_BLOCKS_MAX];
	bool measured; /* it was given distances … */
	double distance[RUNNING_BLOCKS_MAX]; /* … these */
	uint32_t block_count;
};

static inline uint32_t choose_made(void *arg, const double *distance, uint32_t *chosen)
{
	struct choice *choice = arg;

	choice->measured = distance != NULL;
	if (distance != NULL)
		memcpy(choice->distance, distance, choice->block_count * sizeof(*distance));
	memcpy(chosen, choice->blocks, choice->count * sizeof(*chosen));
	return choice->count;
}

static inline struct ol_ckpt_blocks blocks_of(const struct ol_ckpt_meta *meta,
					      const uint64_t *lengths, uint32_t count)
{
	struct ol_ckpt_blocks blocks;
	char err[CKPT_ERR] = "";
	int rc = ol_ckpt_blocks_make(lengths, count, &meta->geo, &blocks, err, sizeof(err));

	check_msg(rc == 0, "blocks: %d: %s", rc, err);
	check(blocks.count <= RUNNING_BLOCKS_MAX);
	return blocks;
}

/* tiny_meta -- 2 x 1024 floats under Adam, this is the second half */
static inline struct ol_ckpt_meta tiny_meta(uint32_t epoch)
{
	struct ol_ckpt_meta meta = meta_of(epoch, 0);

	meta.geo.param_count = 1060;
	meta.geo.workers_max = 3;
	check_ok(ol_shard_span(meta.geo.param_count, 2, 1, &meta.geo.shard_first,
			       &meta.geo.shard_len));
	check_eq(meta.geo.shard_len, 36);
	return meta;
}

/* tiny_blocks -- the shard's floats in blocks of 5, 1, 20 and 10 */
static inline struct ol_ckpt_blocks tiny_blocks(const struct ol_ckpt_meta *meta)
{
	static const uint64_t lengths[] = { 1000, 29, 1, 20, 10 };

	return blocks_of(meta, lengths, 5);
}

static inline struct ol_running *running_of(const char *dir, const struct ol_ckpt_meta *meta,
					    const struct ol_ckpt_blocks *blocks,
					    struct choice *choice)
{
	struct ol_ckpt_running_opts opts = {
		.blocks = blocks, .choose = choose_made, .choose_arg = choice, .measure = true
	};
	struct ol_running *running;

	choice->block_count = blocks->count;
	check_ok(ol_running_create(dir, meta, &opts, &running));
	return running;
}

/* mix -- what is saved of `from` in a turn that chose so: those blocks and the table */
static inline void mix(const struct ol_ckpt_meta *meta, const struct ol_ckpt_blocks *blocks,
		       const struct choice *choice, const uint8_t *from, uint8_t *into)
{
	uint8_t *part = malloc(ol_layout_content_bytes(&meta->geo));

	check(part != NULL);
	ol_running_gather(&meta->geo, blocks, OL_RUNNING_TABLE, from, part);
	ol_running_scatter(&meta->geo, blocks, OL_RUNNING_TABLE, part, into);
	for (uint32_t i = 0; i < choice->count; i++) {
		ol_running_gather(&meta->geo, blocks, choice->blocks[i], from, part);
		ol_running_scatter(&meta->geo, blocks, choice->blocks[i], part, into);
	}
	free(part);
}

/* padding_clear -- what lies between the vectors is not saved: no float of the shard */
static inline void padding_clear(const struct ol_geometry *geo, uint8_t *content)
{
	uint64_t used = geo->shard_len * sizeof(float), bytes = ol_layout_vector_bytes(geo);

	for (uint32_t v = 0; v <= geo->state_vectors; v++)
		memset(content + ol_layout_table_bytes(geo) + v * bytes + used, 0, bytes - used);
}

static inline uint8_t *content_clean(const struct ol_geometry *geo, uint64_t seed)
{
	uint8_t *content = content_of(geo, seed);

	padding_clear(geo, content);
	return content;
}

/* turn -- one of version `version` from content of that seed; must work */
static inline struct ol_ckpt_result turn(struct ol_running *running, const struct ol_geometry *geo,
					 uint64_t version, uint32_t epoch, bool whole)
{
	struct ol_ckpt_result result = { .status = 1 };
	uint8_t *content = content_clean(geo, version);

	ol_running_take(running, content, version, epoch, whole);
	memset(content, 0xee, ol_layout_content_bytes(geo)); /* it may change now */
	ol_running_write(running, &result);
	free(content);
	return result;
}

/* restored -- read the newest; -1: nothing was read, and nothing was written to. Else its code. */
static inline int restored(const char *dir, const struct ol_ckpt_blocks *blocks,
			   struct ol_ckpt_meta *meta, uint8_t *content)
{
	uint64_t bytes = ol_layout_content_bytes(&meta->geo);
	struct ol_ckpt_meta before = *meta;
	int rc;

	memset(content, 0x5a, bytes);
	rc = ol_ckpt_read_running(dir, blocks, NULL, 0.0, meta, content);
	if (rc != 0) {
		for (uint64_t i = 0; i < bytes; i++)
			check(content[i] == 0x5a);
		check(memcmp(meta, &before, sizeof(before)) == 0);
	}
	return rc;
}

static inline void running_path(const char *dir, const struct ol_ckpt_meta *meta,
				char path[CKPT_PATH])
{
	struct ol_ckpt_name name = ol_ckpt_name_of(meta);
	char text[OL_CKPT_NAME_MAX];

	name.running = true;
	name.version = 0;
	ol_ckpt_name_format(&name, text);
	snprintf(path, CKPT_PATH, "%s/%s", dir, text);
}

#endif /* RUNNING_UTIL_H */
