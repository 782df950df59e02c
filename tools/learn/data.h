/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * data.h -- data sets, and batches drawn from them
 *
 * A data set is read once, checked whole and then never changes. Batches are drawn with replacement
 * by a counter-based generator. So the samples of a worker's step depend only on the key: any step
 * can be drawn again, anywhere.
 *
 * ERRORS. A function that can fail returns 0, or a negated errno value with one line (no newline)
 * in err: the fault, its file and place, the remedy. err may be NULL if err_len is 0. Outputs named
 * ret_* are written only on success.
 */
#ifndef LEARN_DATA_H
#define LEARN_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "learn/rng.h"

enum {
	LEARN_CLASSES_MAX = 4096,
	LEARN_FEATURES_MAX = 1 << 20,
	LEARN_BATCH_MAX = 1 << 16,
	LEARN_TOKENS_MAX = 1 << 24 /* words of all training documents: a float counts so far */
};

#define LEARN_FILE_BYTES_MAX ((size_t)2 << 30) /* one file, uncompressed */
#define LEARN_SET_BYTES_MAX  ((size_t)4 << 30) /* features of one set in memory */

enum learn_kind {
	LEARN_SAMPLES, /* features with a label */
	LEARN_RATINGS, /* of an item by a user */
	LEARN_WORDS, /* documents, as lists of words */
};

/* The sizes of a data set that a model needs */
struct learn_shape {
	/* Samples: rows * cols == features, flat data has one row. Ratings: rows are users, cols
	   items, features both. Words: one row, cols and features are the vocabulary. */
	unsigned rows;
	unsigned cols;
	unsigned features; /* at most LEARN_FEATURES_MAX */
	unsigned classes; /* samples: 2 to LEARN_CLASSES_MAX; else 0 */
	enum learn_kind kind;
};

struct learn_rating {
	uint32_t user; /* below rows */
	uint32_t item; /* below cols */
	float value; /* finite */
};

/*
 * Samples one after another; exactly one of pixels, values, ratings and words is set.
 */
struct learn_set {
	size_t count; /* samples, ratings or documents, at least 1 */
	const uint8_t *pixels; /* count * features; a model sees (p / 255 - 0.5) / 0.5 */
	const float *values; /* count * features; a model sees them as they are; all finite */
	const uint16_t *labels; /* samples: count, each below shape.classes; else NULL */
	const struct learn_rating *ratings; /* count */
	const uint32_t *words; /* of all documents, each below shape.cols */
	const size_t *starts; /* count + 1: document d is words[starts[d]] to words[starts[d + 1] -
				 1], at least one */
};

/* The true factors or topics of generated data */
struct learn_planted {
	unsigned rank; /* factors or topics */
	double noise; /* ratings: standard deviation of the added noise */
	const float *rows; /* ratings: users * rank */
	const float *cols; /* ratings: items * rank */
	const float *topics; /* words: rank * cols, each topic's sum 1 */
};

/* Read-only after open, so any number of threads may share it */
struct learn_data {
	struct learn_shape shape;
	struct learn_set train;
	struct learn_set test;
	float mean; /* ratings: of the training set */
	struct learn_planted planted; /* rank 0: not known */
	void *memory[8]; /* private: what close frees */
};

/*
 * learn_data_open -- read a data set
 *
 * spec is one of
 *	fashion-mnist                  as installed by the Debian package dataset-fashion-mnist
 *	idx:DIR[,classes=10]           four IDX files under their MNIST names, plain or .gz
 *	libsvm:TRAIN[,TEST]            LIBSVM text, plain or gzip; without TEST every tenth sample
 * of TRAIN is kept back for it synthetic[:key=value,...]      noisy class centres: classes=10
 * features=64 train=20000 test=2000 seed=1 noise=2 shape=ROWSxCOLS (instead of features; then the
 *	                               centres are made of 4x4 patches, for models that look at
 * images)
 *
 *	movielens:FILE                 user, item, rating and perhaps a time in a line: u.data
 *	                               (tabs), ratings.dat ("::") or ratings.csv; every tenth is
 *	                               kept back
 *	ratings[:key=value,...]        products of planted factors, plus noise: users=1000 items=500
 *	                               rank=8 density=0.2 noise=0.2 seed=1; every tenth is kept back
 *	bow:DOCWORD[,VOCAB]            UCI bag of words, plain or gzip; every tenth document is kept
 *	                               back; VOCAB is checked only
 *	topics[:key=value,...]         documents of planted topics: topics=10 words=500 docs=1000
 *	                               length=100 seed=1; so many more as test documents as a tenth
 *
 * Blocks:    reads files
 * Threading: any
 * Errors:    -ENOENT and other errnos of open and read; -EINVAL (spec); -EBADMSG (malformed file);
 *            -EFBIG (over a limit above); -ENOMEM
 */
int learn_data_open(const char *spec, struct learn_data **ret_data, char *err, size_t err_len);

/* learn_data_close -- NULL is allowed; batches are copies, and stay valid */
void learn_data_close(struct learn_data *data);

/* Samples in a model's form. The batch owns its memory; draw and load change count and contents. Of
 * ratings and documents it has only their numbers. */
struct learn_batch {
	unsigned count; /* samples now in it */
	unsigned count_max;
	unsigned features;
	float *x; /* count * features, sample by sample, 64-byte aligned */
	uint16_t *labels; /* count */
	uint32_t *index; /* count numbers of ratings or documents; else NULL, as are x and labels */
	uint32_t workers; /* that share the documents; set by the owner; 1 at first */
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
 * Documents are not drawn but taken in turn: worker w of n has documents w, w + n, w + 2n …, and
 * step s has `count` of these from the s * count-th on, over and over.
 *
 * Threading: any, one batch per thread; neither blocks nor allocates
 * Errors:    -EINVAL: count is 0 or above count_max, or the batch has another number of features,
 *            or a worker has no document
 */
int learn_batch_draw(const struct learn_data *data, const struct learn_key *key, unsigned count,
		     struct learn_batch *batch);

/*
 * learn_batch_load -- samples first .. first + count - 1 of one of data's two sets, in order
 *
 * Samples with labels only. Threading and errors as learn_batch_draw(); -EINVAL also if the range
 * leaves the set.
 */
int learn_batch_load(const struct learn_data *data, const struct learn_set *set, size_t first,
		     unsigned count, struct learn_batch *batch);

#endif /* LEARN_DATA_H */
