/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rollback.h -- which checkpoints are of a job's present history, and which versions all of its
 * shards have
 *
 * A restarted server writes with a higher epoch, at versions after the one that it began with. So
 * an older epoch's checkpoint is dead if a later epoch of the shard has one that is not newer: the
 * later server began before that version. If a later epoch has written none yet, the version of
 * the last line says the same. Pure lists; recover.c reads the folder.
 */
#ifndef TRAIN_ROLLBACK_H
#define TRAIN_ROLLBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	OL_SAVED_NAME_MAX = 96 /* bytes of a file's name with its end */
};

/* A full checkpoint of the job */
struct ol_saved {
	uint64_t version;
	uint32_t epoch;
	uint32_t shard;
	bool dead; /* of a history that was rolled back */
	char name[OL_SAVED_NAME_MAX];
};

/* Where all shards began last: at this version, each with an epoch of its own */
struct ol_line {
	uint64_t version;
	uint32_t shards;
	const uint32_t *epochs;
};

/* ol_saved_name -- parse a file's name; false: it is no full checkpoint of this job */
bool ol_saved_name(const char *name, uint64_t job_id, struct ol_saved *ret_saved);

/*
 * ol_saved_common -- the newest version up to `bound` that every shard has in the line's history;
 * 0: none
 *
 * Marks the dead ones, and reorders the list. Shards are all below line->shards.
 */
uint64_t ol_saved_common(struct ol_saved *list, size_t count, const struct ol_line *line,
			 uint64_t bound);

#endif /* TRAIN_ROLLBACK_H */
