/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rollback.c -- which checkpoints are of the present history, and which versions all shards have
 */
#include "train/rollback.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ol_saved_name(const char *name, uint64_t job_id, struct ol_saved *ret_saved)
{
	uint64_t id;
	int end = 0;

	*ret_saved = (struct ol_saved){ 0 };
	if (strlen(name) >= sizeof(ret_saved->name) ||
	    sscanf(name, "ckpt-%" SCNx64 "-s%" SCNu32 "-e%" SCNu32 "-v%" SCNu64 "%n", &id,
		   &ret_saved->shard, &ret_saved->epoch, &ret_saved->version, &end) != 4)
		return false;
	snprintf(ret_saved->name, sizeof(ret_saved->name), "%s", name);
	return id == job_id && strcmp(name + end, ".olc") == 0;
}

static int order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Shard by shard, the last epoch first, its newest first */
static int by_shard(const void *left, const void *right)
{
	const struct ol_saved *a = left, *b = right;

	if (a->shard != b->shard)
		return order(a->shard, b->shard);
	if (a->epoch != b->epoch)
		return order(b->epoch, a->epoch);
	return order(b->version, a->version);
}

/* Those that are not dead first, the newest first */
static int by_version(const void *left, const void *right)
{
	const struct ol_saved *a = left, *b = right;

	if (a->dead != b->dead)
		return order(a->dead, b->dead);
	if (a->version != b->version)
		return order(b->version, a->version);
	return order(a->shard, b->shard);
}

static void dead_mark(struct ol_saved *list, size_t count, const struct ol_line *line)
{
	uint64_t later = UINT64_MAX; /* the oldest of all later epochs */

	if (count > 1)
		qsort(list, count, sizeof(*list), by_shard);
	for (size_t i = 0; i < count; i++) {
		struct ol_saved *one = &list[i];
		const struct ol_saved *before = i > 0 ? &list[i - 1] : NULL;

		if (before == NULL || before->shard != one->shard)
			later = UINT64_MAX;
		else if (before->epoch != one->epoch && before->version < later)
			later = before->version;
		one->dead = one->version >= later ||
			    (one->epoch < line->epochs[one->shard] && one->version > line->version);
	}
}

uint64_t ol_saved_common(struct ol_saved *list, size_t count, const struct ol_line *line,
			 uint64_t bound)
{
	uint32_t shards = 0;

	dead_mark(list, count, line);
	if (count > 1)
		qsort(list, count, sizeof(*list), by_version);
	/* a shard has at most one that is not dead of each version */
	for (size_t i = 0; i < count && !list[i].dead; i++) {
		if (i > 0 && list[i - 1].version != list[i].version)
			shards = 0;
		shards += list[i].version <= bound;
		if (shards == line->shards)
			return list[i].version;
	}
	return 0;
}
