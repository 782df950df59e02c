/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * data.h -- data sets, and batches drawn from them
 *
 * A data set is read once, checked whole and then never changes. Batches are drawn with replacement
 * by a counter-based generator, so which samples a step of a worker sees depends on nothing but the
 * key: any step can be drawn again, anywhere.
 *
 * ERRORS. A function that can fail returns 0 or a negated errno value, and then has written one
 * line (no newline) into err: what is wrong, in which file and where, and what to do. err may be
 * NULL if err_len is 0. Outputs named ret_* are written only on success.
 */
#ifndef LEARN_DATA_H
#define LEARN_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "learn/rng.h"

enum {
	LEARN_CLASSES_MAX = 4096,
	LEARN_FEATURES_MAX = 1 << 20,
	LEARN_BATCH_MAX = 1 << 16
};

#define LEARN_FILE_BYTES_MAX ((size_t)2 << 30) /* one file, uncompressed */
#define LEARN_SET_BYTES_MAX  ((size_t)4 << 30) /* features of one set in memory */

/* What a model must know of the data. rows * cols == features; flat data has one row. */
struct learn_shape {
	unsigned rows;
	unsigned cols;
	unsigned features; /* at most LEARN_FEATURES_MAX */
	unsigned classes; /* 2 to LEARN_CLASSES_MAX */
};

/* Samples one after another; exactly one of pixels and values is set. */
struct learn_set {
	size_t count; /* samples, at least 1 */
	const uint8_t *pixels; /* count * features; a model sees (p / 255 - 0.5) / 0.5 */
	const float *values; /* count * features; a model sees them as they are; all finite */
	const uint16_t *labels; /* count, each below shape.classes */
};

/* Read only after open, hence shared by any number of threads. */
struct learn_data {
	struct learn_shape shape;
	struct learn_set train;
	struct learn_set test;
	void *memory[4]; /* private: what close frees */
};

/*
 * learn_data_open -- read a data set
 *
 * spec is one of
 *	fashion-mnist                  as installed by the Debian package dataset-fashion-mnist
 *	idx:DIR[,classes=10]           four IDX files under their MNIST names, plain or .gz
 *	libsvm:TRAIN[,TEST]            LIBSVM text, plain or gzip; without TEST every tenth sample
 *of TRAIN is kept back for it synthetic[:key=value,...]      noisy class centres: classes=10
 *features=64 train=20000 test=2000 seed=1 noise=2 shape=ROWSxCOLS (instead of features; then the
 *	                               centres are made of 4x4 patches, for models that look at
 *images)
 *
 * Blocks:    reads files
 * Threading: any
 * Errors:    -ENOENT and other errnos of open and read; -EINVAL (spec); -EBADMSG (malformed file);
 *            -EFBIG (over a limit above); -ENOMEM
 */
int learn_data_open(const char *spec, struct learn_data **ret_data, char *err, size_t err_len);

/* learn_data_close -- NULL is allowed; no batch refers to the data set afterwards, as batches are
 * copies */
void learn_data_close(struct learn_data *data);

/* Samples as a model takes them. Memory belongs to the batch; count and contents change with draw
 * and load. */
struct learn_batch {
	unsigned count; /* samples now in it */
	unsigned count_max;
	unsigned features;
	float *x; /* count * features, sample by sample, 64-byte aligned */
	uint16_t *labels; /* count */
};

/* learn_batch_create -- room for count_max samples of a shape; -EINVAL outside 1 ..
 * LEARN_BATCH_MAX, -ENOMEM */
int learn_batch_create(const struct learn_shape *shape, unsigned count_max,
		       struct learn_batch **ret_batch);

/* learn_batch_destroy -- NULL is allowed */
void learn_batch_destroy(struct learn_batch *batch);

/*
 * learn_batch_draw -- the batch of a step: count samples of the training set, independent and
 * uniform
 *
 * A pure function of (training set, key, count); the first n samples do not depend on count.
 *
 * Threading: any, one batch per thread; neither blocks nor allocates
 * Errors:    -EINVAL: count is 0 or above count_max, or the batch has another number of features
 */
int learn_batch_draw(const struct learn_data *data, const struct learn_key *key, unsigned count,
		     struct learn_batch *batch);

/*
 * learn_batch_load -- samples first .. first + count - 1 of one of data's two sets, in order
 *
 * Threading and errors as learn_batch_draw(); -EINVAL also if the range leaves the set.
 */
int learn_batch_load(const struct learn_data *data, const struct learn_set *set, size_t first,
		     unsigned count, struct learn_batch *batch);

#endif /* LEARN_DATA_H */
