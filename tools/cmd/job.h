/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * job.h -- the training job: data set, model, one step's gradient, evaluation
 *
 * ERRORS. Functions return 0 or a negative code of ol_strerror(), and then one line in err.
 */
#ifndef CMD_JOB_H
#define CMD_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "cmd/settings.h"
#include "learn/data.h"
#include "learn/model.h"

struct ol_job_opts {
	const char *model;
	const char *dataset;
	bool final_relu;
	unsigned batch; /* samples a gradient; 0: no gradients will be computed */
	uint64_t seed;
	bool weights_only; /* no gradients, no evaluation */
	/* If features is not 0, the data set is not read: only geometry and first weights. */
	struct learn_shape shape;
};

/* Belongs to one thread. */
struct ol_job {
	struct learn_data *data; /* NULL if only the shape was given */
	struct learn_model *model;
	struct learn_batch *batch; /* drawn last */
	struct learn_key key; /* of that draw */
	struct learn_shape shape;
	const struct learn_traits *traits; /* of the model */
	size_t param_count;
	uint64_t seed;
	unsigned batch_count; /* samples a gradient */
};

/*
 * ol_job_open -- read the data set, make the model
 *
 * *ret_exit, written on failure only, is the program's exit code for it.
 */
int ol_job_open(const struct ol_job_opts *opts, struct ol_job **ret_job, int *ret_exit, char *err,
		size_t err_bytes);

/* ol_job_close -- NULL is fine */
void ol_job_close(struct ol_job *job);

/*
 * ol_job_share -- this process is worker `worker` of `workers`, which divide documents among them
 *
 * Call it before the first draw. -EINVAL, with a line: there are more workers than documents.
 */
int ol_job_share(struct ol_job *job, uint32_t worker, uint32_t workers, char *err,
		 size_t err_bytes);

/*
 * ol_job_begin -- may this process compute gradients from this position on? 0 or -ESTALE
 *
 * An additive model keeps state of every sample, which a restarted process does not have.
 */
int ol_job_begin(const struct ol_job *job, uint64_t position);

/* ol_job_first_weights -- param_count floats, the same for every process of a seed */
void ol_job_first_weights(const struct ol_job *job, float *weights);

/*
 * ol_job_blocks -- the lengths of the blocks of a running checkpoint
 *
 * The caller frees it. NULL: no memory.
 */
uint64_t *ol_job_blocks(const struct ol_job *job, uint32_t *ret_count);

/*
 * ol_job_tensors -- the table of the model's tensors (outlast_tensor.h): of a layer "weight", a row an
 * output, and "bias"
 *
 * The caller frees it. NULL: no memory.
 */
char *ol_job_tensors(const struct ol_job *job);

/* ol_job_draw -- the batch of a worker's step-th gradient, from 0; a pure function of the seed */
void ol_job_draw(struct ol_job *job, uint32_t worker, uint64_t step);

/* ol_job_grad -- gradient and mean loss of the batch drawn last, at weights; grad is only
 * written */
void ol_job_grad(struct ol_job *job, const float *weights, float *grad, float *ret_loss);

/* An evaluation on the whole test set, in pieces, so that other work gets its turn. */
struct ol_eval {
	const float *weights; /* the caller's, unchanged until done */
	struct learn_score score; /* of the samples evaluated so far */
};

void ol_eval_start(struct ol_eval *eval, const float *weights);

/* ol_eval_some -- evaluate up to count more samples; true once all are evaluated */
bool ol_eval_some(struct ol_job *job, struct ol_eval *eval, size_t count);

/* ol_eval_score -- the score that traits->score_name names */
double ol_eval_score(const struct ol_job *job, const struct ol_eval *eval);
double ol_eval_loss(const struct ol_eval *eval);

/* ol_job_fingerprint -- SHA-256 of param_count little-endian float32 */
int ol_job_fingerprint(const struct ol_job *job, const float *weights,
		       char ret_hex[OL_SHA256_HEX_BYTES]);

/*
 * ol_shape_parse -- "28x28x10": rows, columns, classes; "943x1682": users, items; "5000": words
 *
 * -EINVAL
 */
int ol_shape_parse(const char *text, struct learn_shape *ret_shape);

enum {
	OL_SHAPE_TEXT_MAX = 48
};

/* ol_shape_text -- a text that ol_shape_parse() makes the shape of */
const char *ol_shape_text(const struct learn_shape *shape, char buf[OL_SHAPE_TEXT_MAX]);

/*
 * An additive model needs settings: each of its changes must be applied unscaled and once.
 *
 * ol_needs_one -- give a setting a value unless the user has, and say so. 0 or an exit code
 */
int ol_needs_one(struct ol_settings *settings, const char *model, const char *name,
		 const char *value);

/*
 * ol_needs_take -- set all that the job's model needs, as far as the subcommand has the settings
 *
 * Contrary values of the user are refused before anything is set. 0 or an exit code.
 */
int ol_needs_take(struct ol_settings *settings, const char *model, const struct ol_job *job);

#endif /* CMD_JOB_H */
