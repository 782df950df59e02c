/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * durable.h -- the value of --checkpoint; the job's id in its checkpoints
 */
#ifndef CMD_DURABLE_H
#define CMD_DURABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/settings.h"

enum {
	OL_CKPT_FOLDER_MAX = 2048, /* bytes of a folder's name with its end */
	OL_CKPT_KEEP_MAX = 1000
};

/*
 * every=100steps|every=5s,dir=DIR,keep=3; in any order. A running checkpoint has priority,
 * round-robin or random, and r=1/8 (or 0.125) instead of keep: each turn saves this part, every
 * r * every; extrapolate=1 (or less) lets what is read back go on by its last pace; format=int8
 * saves deltas. Of a chain by=tail or by=each says which replicas write.
 */
struct ol_ckpt_set {
	uint64_t steps; /* 0: by time */
	uint32_t ms; /* 0: by steps */
	uint32_t keep;
	enum ol_selection selection;
	double fraction; /* r; 1 if selection is FULL */
	double extrapolate; /* of a running checkpoint; 0: what is read back is as it was saved */
	enum ol_format format; /* of a running checkpoint's blocks: FP32 or INT8 */
	enum ol_checkpoint_by by;
	bool by_given;
	char dir[OL_CKPT_FOLDER_MAX]; /* "": not given */
};

/*
 * ol_ckpt_set_parse -- NULL: every=100steps,keep=3 and no folder
 *
 * Errors: -EINVAL, with words in err that name what is wrong
 */
int ol_ckpt_set_parse(const char *text, struct ol_ckpt_set *ret_set, char *err, size_t err_bytes);

enum {
	OL_CKPT_TEXT_MAX = OL_CKPT_FOLDER_MAX + 192 /* of a value with its end */
};

/* ol_ckpt_set_text -- a text that parses to the same set */
const char *ol_ckpt_set_text(const struct ol_ckpt_set *set, char text[OL_CKPT_TEXT_MAX]);

/* ol_job_id -- the same for all runs that can go on with each other's checkpoints */
uint64_t ol_job_id(const struct ol_set_model *model, int optimizer);

/* ol_job_id_vector -- the same for jobs without a model: any two of one length fit */
uint64_t ol_job_id_vector(uint64_t param_count, int optimizer);

#endif /* CMD_DURABLE_H */
