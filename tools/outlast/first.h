/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * first.h -- what a server begins with: how many parameters the job has, its shard's first weights
 *
 * They are a built-in model's, or those of a vector of parameters that a program of the user's trains.
 */
#ifndef OUTLAST_FIRST_H
#define OUTLAST_FIRST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/settings.h"
#include "tensors/tensors.h"

/* Members of the subcommand's own struct; NULL and 0: not given. */
struct ol_first_set {
	const struct ol_set_model *model;
	const char *data_shape;
	const char *init; /* file of a vector's first weights; "worker": they are worker 0's */
	uint64_t params;
	uint32_t shard;
	uint32_t servers;
	int optimizer; /* enum ol_optimizer */
	bool nonfinite; /* weights may be a NaN or an infinity */
};

/* A zeroed struct is fine to fini. */
struct ol_first {
	uint64_t param_count; /* of the job */
	uint64_t shard_first;
	uint64_t shard_count; /* floats of the shard */
	float *weights; /* owned; of the shard; NULL if they are worker 0's */
	bool is_workers;
	uint64_t *blocks; /* owned; floats of each, of the whole job; NULL: they are all equal */
	uint32_t block_count;
	char *tensors; /* owned; table of the job's tensors; NULL: nobody says what they are */
	uint64_t job_id; /* in its checkpoints */
};

/*
 * ol_first_make -- check the settings of the group, and make it
 *
 * A model that needs settings gets them. Returns 0, or an exit code after an error line.
 */
int ol_first_make(struct ol_settings *settings, const struct ol_first_set *set,
		  struct ol_first *ret_first);

/* ol_first_weights_free -- once a server has its copy */
void ol_first_weights_free(struct ol_first *first);
void ol_first_fini(struct ol_first *first);

/* A file of weights, and what an error line says of it. The caller closes tensors. */
struct ol_first_file {
	const char *cmd;
	const char *what; /* the option that names it */
	const char *path;
	bool nonfinite; /* weights may be a NaN or an infinity */
	struct ol_tensors *tensors; /* NULL: not open */
};

/*
 * ol_first_file_open -- check its header
 * ol_first_file_read -- the floats from `first` on
 *
 * Both return 0, or an exit code after an error line.
 */
int ol_first_file_open(struct ol_first_file *file);
int ol_first_file_read(const struct ol_first_file *file, uint64_t first, uint64_t count,
		       float *ret_weights);

#endif /* OUTLAST_FIRST_H */
