/* SPDX-License-Identifier: BSD-3-Clause */

/* name.h -- how files are called: every name that this room reads or makes */

#ifndef OL_CHECKPOINT_NAME_H
#define OL_CHECKPOINT_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

enum {
	OL_CKPT_NAME_MAX = 96, /* bytes of a file's name with its end */
};

/* What a file's name says. */
struct ol_ckpt_name {
	uint64_t job_id;
	uint64_t version;
	uint32_t epoch;
	uint32_t shard;
	bool running; /* a running checkpoint: its version is inside, here 0 */
	bool temporary; /* begins with a dot: never a whole checkpoint */
};

/* ol_ckpt_name_of, ol_ckpt_name_format, ol_ckpt_name_parse (false: no name of ours) */
struct ol_ckpt_name ol_ckpt_name_of(const struct ol_ckpt_meta *meta);
void ol_ckpt_name_format(const struct ol_ckpt_name *name, char text[OL_CKPT_NAME_MAX]);
bool ol_ckpt_name_parse(const char *text, struct ol_ckpt_name *ret_name);

/*
 * ol_ckpt_name_lock -- the place that says whose checkpoints of a shard, job and kind are;
 * ol_ckpt_name_fresh -- what this process calls its own before it is there
 */
void ol_ckpt_name_lock(const struct ol_ckpt_name *kind, char text[OL_CKPT_NAME_MAX]);
void ol_ckpt_name_fresh(const char *lock, char text[OL_CKPT_NAME_MAX]);

#endif /* OL_CHECKPOINT_NAME_H */
