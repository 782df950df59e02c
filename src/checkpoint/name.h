/* SPDX-License-Identifier: BSD-3-Clause */

/* name.h -- file names: every name that this room reads or makes */

#ifndef OL_CHECKPOINT_NAME_H
#define OL_CHECKPOINT_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

enum {
	OL_CKPT_NAME_MAX = 96, /* bytes of a file's name with its end */
};

/* The parts of a file's name */
struct ol_ckpt_name {
	uint64_t job_id;
	uint64_t version;
	uint32_t epoch;
	uint32_t shard;
	bool running; /* a running checkpoint: version is 0 here, the real one is inside */
	bool temporary; /* begins with a dot: never a whole checkpoint */
};

/* ol_ckpt_name_of, ol_ckpt_name_format, ol_ckpt_name_parse (false: no name of ours) */
struct ol_ckpt_name ol_ckpt_name_of(const struct ol_ckpt_meta *meta);
void ol_ckpt_name_format(const struct ol_ckpt_name *name, char text[OL_CKPT_NAME_MAX]);
bool ol_ckpt_name_parse(const char *text, struct ol_ckpt_name *ret_name);

/*
 * ol_ckpt_name_lock -- the name of the lock file of a shard, job and kind;
 * ol_ckpt_name_fresh -- the name of this process's own one before it is put in place
 */
void ol_ckpt_name_lock(const struct ol_ckpt_name *kind, char text[OL_CKPT_NAME_MAX]);
void ol_ckpt_name_fresh(const char *lock, char text[OL_CKPT_NAME_MAX]);

#endif /* OL_CHECKPOINT_NAME_H */
