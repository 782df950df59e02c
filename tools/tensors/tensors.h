/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * tensors.h -- files of weights: NumPy's .npy, and .safetensors
 *
 * A file is one vector of 32-bit floats here: of a .npy file in C order, of a .safetensors file all
 * tensors, one behind the other as they lie in it. Names and shapes of these are a job's table of
 * tensors (outlast_tensor.h). The end of the file's name tells its form. Nothing that a file says of
 * itself is believed: sizes must fit each other and the file's length.
 *
 * ERRORS. Functions return 0 or a negative code, and then one line in err: what, which file, what to
 * do. -EINVAL: a name, or a kind of file, that cannot be used; -EBADMSG: the file's content; -ENOMEM;
 * -errno of the file.
 */
#ifndef TENSORS_H
#define TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OL_TENSORS_COUNT_MAX ((uint64_t)1 << 40) /* floats: as many as a job can have */

/* A file that is open for reading */
struct ol_tensors;

/* ol_tensors_open -- check the whole of its header; a link is followed, and no pipe waited for */
int ol_tensors_open(const char *path, struct ol_tensors **ret_tensors, char *err, size_t err_bytes);

/* ol_tensors_count -- how many floats it has: 1 … OL_TENSORS_COUNT_MAX, and the file is as long */
uint64_t ol_tensors_count(const struct ol_tensors *tensors);

/* ol_tensors_table -- the table of its tensors, valid until close; NULL: a .npy file names none */
const char *ol_tensors_table(const struct ol_tensors *tensors);

/* ol_tensors_version -- false: nothing tells. UINT64_MAX: what tells it is no number. Only files that
 * ol_tensors_save() wrote, as .safetensors, tell it */
bool ol_tensors_version(const struct ol_tensors *tensors, uint64_t *ret_version);

/* ol_tensors_read -- the floats from `first` on, which must be there; -EBADMSG: the file was cut off
 * since it was opened */
int ol_tensors_read(const struct ol_tensors *tensors, uint64_t first, uint64_t count, float *floats,
		    char *err, size_t err_bytes);

/* ol_tensors_close -- NULL is fine */
void ol_tensors_close(struct ol_tensors *tensors);

/* What a .safetensors file tells besides; a .npy file has no place for it. */
struct ol_tensors_about {
	uint64_t version;
	uint32_t epoch;
	const char *job; /* UTF-8; NULL: unknown */
	const char *table; /* of tensors, without fault; NULL: the vector is one, "weights" */
};

/*
 * ol_tensors_may_save -- would ol_tensors_save() take this name? -EEXIST: the file is there, and
 * `force` is not set
 *
 * For a command line: what is wrong with it is said before a job is waited for.
 */
int ol_tensors_may_save(const char *path, bool force, char *err, size_t err_bytes);

/*
 * ol_tensors_save -- write one vector; in .safetensors the tensors of the table
 *
 * Under its name the file is whole or not there: it is written beside it under another name, made
 * durable and renamed. After an error an older file is as it was, and nothing is left beside it.
 */
int ol_tensors_save(const char *path, bool force, const float *floats, uint64_t count,
		    const struct ol_tensors_about *about, char *err, size_t err_bytes);

#endif /* TENSORS_H */
