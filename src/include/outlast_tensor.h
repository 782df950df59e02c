/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outlast_tensor.h -- what a job's parameters are: a table of tensors, which travels with the job
 *
 * The table is a text of lines, each a tensor, in the order in which they lie in the job's vector:
 *
 *	F32 512,1568 dense1.weight
 *	F32 512 dense1.bias
 *	F32 - scale
 *	= 0 tied.weight
 *
 * Element type (F32), sizes of the dimensions ("-": none, one number), name up to the line's end. A
 * tensor begins where the one before it ends, and together they are all parameters. A name is UTF-8
 * without control characters, and stands there once. Behind all tensors other names may stand, each with
 * the number of the tensor, from 0, that it is one of: of parameters that a model uses in two places. The servers' options give the table
 * (struct ol_server_opts). It is part of each snapshot: so it is in mirrors and checkpoints, and every
 * worker and reader has it with the first weights. It never changes while a job runs: a worker or a reader
 * that was let in refuses a server with another one, as a server of another job, and tries again.
 *
 * ERRORS, THREADS, FORKS and SIZES are as in outlast.h.
 */
#ifndef OUTLAST_TENSOR_H
#define OUTLAST_TENSOR_H

#include "outlast.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	OL_TENSOR_NAME_MAX = 256, /* bytes with the end */
	OL_TENSOR_DIMS_MAX = 8,
	OL_TENSORS_BYTES_MAX = 1 << 20 /* of a table with its end */
};

/* One tensor of a table. Its size is fixed. */
struct ol_tensor {
	uint64_t first; /* float of the job's vector at which it begins */
	uint64_t count; /* floats */
	uint64_t shape[OL_TENSOR_DIMS_MAX];
	uint32_t dims;
	char name[OL_TENSOR_NAME_MAX];
};

/*
 * ol_tensor_next -- read one line of a table
 *
 * at: points to the table at first, and is moved behind the line. tensor: all zeros at first; then
 * the one before, behind which the next one lies. Returns 1; 0: that was the last; -EBADMSG: the line is
 * none. Any thread.
 */
OL_API int ol_tensor_next(const char **at, struct ol_tensor *tensor);

/*
 * ol_tensor_other_next -- read one line of the other names
 *
 * at: where ol_tensor_next() has ended. Returns 1, with the tensor's number, not checked, and its name;
 * 0: that was the last; -EBADMSG: the line is none. Any thread.
 */
OL_API int ol_tensor_other_next(const char **at, uint64_t *ret_tensor,
				char ret_name[OL_TENSOR_NAME_MAX]);

/*
 * ol_tensor_fault -- what is wrong with a table of param_count parameters: false, nothing is
 *
 * why: one line that names the tensor. Any thread.
 */
OL_API int ol_tensor_fault(const char *table, uint64_t param_count, char *why, size_t why_bytes);

/*
 * ol_tensor_differ -- true if two tables differ in a tensor; other names are not looked at
 *
 * why: one line that names the first tensor that does, as it is in `mine` and in `theirs`. Any thread.
 */
OL_API int ol_tensor_differ(const char *mine, const char *theirs, char *why, size_t why_bytes);

/*
 * ol_worker_tensors -- the table of the weights in this worker's memory; NULL: there are no weights
 * yet, or the job has no table
 *
 * Valid until the pull after the next one starts.
 */
OL_API const char *ol_worker_tensors(const struct ol_worker *worker);

#ifdef __cplusplus
}
#endif

#endif /* OUTLAST_TENSOR_H */
