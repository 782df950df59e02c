/* SPDX-License-Identifier: BSD-3-Clause */

/* data.c -- data sets by specification, and batches of their samples */

#include "learn/data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "learn/source.h"

#define FASHION_DIR "/usr/share/datasets/fashion-mnist"

enum {
	MNIST_CLASSES = 10
};

struct idx_args {
	uint32_t classes;
};

/* open_idx -- args is DIR[,classes=N] */
static int open_idx(const char *args, struct learn_data *data, struct learn_line *err)
{
	static const struct ol_conf_field fields[] = {
		OL_ROW_U32(idx_args, classes, NULL, 2, 256, NULL),
	};
	struct idx_args set = { .classes = MNIST_CLASSES };
	size_t len = strcspn(args, ",");
	char *dir;
	int rc = learn_args_parse("idx", OL_FIELDS(fields), args + len + (args[len] == ','), &set,
				  err);

	if (rc != 0)
		return rc;
	dir = strndup(args, len);
	if (dir == NULL)
		return learn_err(err, -ENOMEM, "idx: out of memory");
	rc = learn_idx_load(dir, set.classes,
			    "give the directory that holds train-images-idx3-ubyte and its three "
			    "companions, plain or .gz",
			    data, err);
	free(dir);
	return rc;
}

/* open_two -- args is FILE[,OTHER] */
static int open_two(const char *what, const char *args,
		    int (*load)(const char *path, const char *other, struct learn_data *data,
				struct learn_line *err),
		    struct learn_data *data, struct learn_line *err)
{
	const char *comma = strchr(args, ',');
	char *path = strndup(args, strcspn(args, ","));
	int rc;

	if (path == NULL)
		return learn_err(err, -ENOMEM, "%s: out of memory", what);
	rc = load(path, comma != NULL ? comma + 1 : NULL, data, err);
	free(path);
	return rc;
}

/* Generated data sets: a name, or a name, a colon and settings. */
static const struct {
	const char *name;
	int (*make)(const char *args, struct learn_data *data, struct learn_line *err);
} makers[] = {
	{ "synthetic", learn_synthetic_make },
	{ "ratings", learn_ratings_make },
	{ "topics", learn_topics_make },
};

static int open_spec(const char *spec, struct learn_data *data, struct learn_line *err)
{
	if (strcmp(spec, "fashion-mnist") == 0)
		return learn_idx_load(FASHION_DIR, MNIST_CLASSES,
				      "install them: apt-get install dataset-fashion-mnist", data,
				      err);
	if (strncmp(spec, "idx:", 4) == 0 && spec[4] != 0)
		return open_idx(spec + 4, data, err);
	if (strncmp(spec, "libsvm:", 7) == 0 && spec[7] != 0)
		return open_two("libsvm", spec + 7, learn_libsvm_load, data, err);
	if (strncmp(spec, "movielens:", 10) == 0 && spec[10] != 0)
		return learn_movielens_load(spec + 10, data, err);
	if (strncmp(spec, "bow:", 4) == 0 && spec[4] != 0)
		return open_two("bow", spec + 4, learn_bow_load, data, err);
	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
		size_t len = strlen(makers[i].name);

		if (strncmp(spec, makers[i].name, len) != 0)
			continue;
		if (spec[len] == 0)
			return makers[i].make("", data, err);
		if (spec[len] == ':')
			return makers[i].make(spec + len + 1, data, err);
	}
	return learn_err(err, -EINVAL,
			 "data set \"%s\" is unknown; there are fashion-mnist, idx:DIR, "
			 "libsvm:TRAIN[,TEST], movielens:FILE, bow:DOCWORD[,VOCAB], and synthetic, "
			 "ratings and topics[:key=value,...]",
			 spec);
}

int learn_data_open(const char *spec, struct learn_data **ret_data, char *err, size_t err_len)
{
	struct learn_line line = { err, err_len };
	struct learn_data *data;
	int rc;

	data = calloc(1, sizeof(*data));
	if (data == NULL)
		return learn_err(&line, -ENOMEM, "data set \"%s\": out of memory", spec);
	rc = open_spec(spec, data, &line);
	if (rc != 0) {
		learn_data_close(data);
		return rc;
	}
	*ret_data = data;
	return 0;
}

void learn_data_close(struct learn_data *data)
{
	if (data == NULL)
		return;
	for (size_t i = 0; i < sizeof(data->memory) / sizeof(data->memory[0]); i++)
		free(data->memory[i]);
	free(data);
}

int learn_batch_create(const struct learn_shape *shape, unsigned count_max,
		       struct learn_batch **ret_batch)
{
	struct learn_batch *batch;

	if (count_max < 1 || count_max > LEARN_BATCH_MAX)
		return -EINVAL;
	batch = calloc(1, sizeof(*batch));
	if (batch == NULL)
		return -ENOMEM;
	batch->count_max = count_max;
	batch->features = shape->features;
	batch->workers = 1;
	if (shape->kind != LEARN_SAMPLES) {
		batch->index = learn_alloc(count_max, sizeof(*batch->index));
		if (batch->index != NULL) {
			*ret_batch = batch;
			return 0;
		}
		learn_batch_destroy(batch);
		return -ENOMEM;
	}
	batch->x = learn_alloc((size_t)count_max * shape->features, sizeof(*batch->x));
	batch->labels = learn_alloc(count_max, sizeof(*batch->labels));
	if (batch->x == NULL || batch->labels == NULL) {
		learn_batch_destroy(batch);
		return -ENOMEM;
	}
	*ret_batch = batch;
	return 0;
}

void learn_batch_destroy(struct learn_batch *batch)
{
	if (batch == NULL)
		return;
	free(batch->x);
	free(batch->labels);
	free(batch->index);
	free(batch);
}

/* batch_put -- sample `from` of a set to place `to` of a batch */
static void batch_put(const struct learn_set *set, size_t from, struct learn_batch *batch,
		      size_t to)
{
	size_t features = batch->features;
	float *x = batch->x + to * features;

	batch->labels[to] = set->labels[from];
	if (set->values != NULL) {
		memcpy(x, set->values + from * features, features * sizeof(*x));
		return;
	}

	const uint8_t *pixels = set->pixels + from * features;

	for (size_t i = 0; i < features; i++)
		x[i] = ((float)pixels[i] / 255.0f - 0.5f) / 0.5f;
}

/* documents_take -- the numbers of a worker's documents for a step */
static int documents_take(const struct learn_data *data, const struct learn_key *key,
			  unsigned count, struct learn_batch *batch)
{
	size_t all = data->train.count, own;

	if (key->worker >= batch->workers || key->worker >= all)
		return -EINVAL;
	own = (all - key->worker - 1) / batch->workers + 1;
	for (unsigned i = 0; i < count; i++)
		batch->index[i] =
			(uint32_t)((key->step * count + i) % own * batch->workers + key->worker);
	batch->count = count;
	return 0;
}

int learn_batch_draw(const struct learn_data *data, const struct learn_key *key, unsigned count,
		     struct learn_batch *batch)
{
	if (count < 1 || count > batch->count_max || batch->features != data->shape.features)
		return -EINVAL;
	if ((batch->index == NULL) != (data->shape.kind == LEARN_SAMPLES))
		return -EINVAL;
	if (data->shape.kind == LEARN_WORDS)
		return documents_take(data, key, count, batch);
	for (unsigned i = 0; i < count; i++) {
		struct learn_rng_block block = learn_rng_draw(key, LEARN_RNG_BATCH, i);
		uint32_t from =
			learn_rng_below(block.word[0], block.word[1], (uint32_t)data->train.count);

		if (batch->index != NULL)
			batch->index[i] = from;
		else
			batch_put(&data->train, from, batch, i);
	}
	batch->count = count;
	return 0;
}

int learn_batch_load(const struct learn_data *data, const struct learn_set *set, size_t first,
		     unsigned count, struct learn_batch *batch)
{
	if (count < 1 || count > batch->count_max || batch->features != data->shape.features)
		return -EINVAL;
	if (batch->index != NULL || set->labels == NULL)
		return -EINVAL;
	if (first > set->count || count > set->count - first)
		return -EINVAL;
	for (unsigned i = 0; i < count; i++)
		batch_put(set, first + i, batch, i);
	batch->count = count;
	return 0;
}
