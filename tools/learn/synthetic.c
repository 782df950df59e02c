/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * synthetic.c -- data sets made from a seed: noisy class centres
 *
 * A sample is its class's centre plus noise, scaled to unit variance. Centres and noise are sums of
 * four uniform numbers. These are close to normal and, unlike results of a mathematical library,
 * have the same bits everywhere.
 */

#include "learn/source.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SAMPLES_MAX = 1 << 24,
	SIDE_MAX = 1024, /* of an image */
	FEATURES = 64, /* unless they are given, or a shape is */
	PATCH = 4 /* pixels a side of the squares that make up an image's centre */
};

struct synth {
	uint32_t classes;
	uint32_t features;
	uint32_t train;
	uint32_t test;
	uint64_t seed;
	double noise;
	const char *shape; /* NULL: flat */
	unsigned rows; /* then 1 */
	unsigned cols;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_U32(synth, classes, NULL, 2, LEARN_CLASSES_MAX, NULL),
	OL_ROW_U32(synth, features, NULL, 1, LEARN_FEATURES_MAX, NULL),
	OL_ROW_U32(synth, train, NULL, 1, SAMPLES_MAX, NULL),
	OL_ROW_U32(synth, test, NULL, 1, SAMPLES_MAX, NULL),
	OL_ROW_U64(synth, seed, NULL, 0, 0, NULL),
	OL_ROW_F64(synth, noise, NULL, 0, 1000, NULL),
	OL_ROW_STR(synth, shape, NULL, NULL),
};

/* args_parse -- features are those of a shape, where one is given */
static int args_parse(const char *args, struct synth *synth, struct learn_line *err)
{
	int rc, end = -1;

	synth->features = 0;
	rc = learn_args_parse("synthetic", OL_FIELDS(fields), args, synth, err);
	if (rc != 0)
		return rc;
	if (synth->shape == NULL) {
		synth->features = synth->features != 0 ? synth->features : FEATURES;
		synth->rows = 1;
		synth->cols = synth->features;
		return 0;
	}
	if (sscanf(synth->shape, "%4ux%4u%n", &synth->rows, &synth->cols, &end) != 2 || end < 0 ||
	    strchr(",", synth->shape[end]) == NULL || synth->rows < 1 || synth->cols < 1 ||
	    synth->rows > SIDE_MAX || synth->cols > SIDE_MAX)
		return learn_err(err, -EINVAL,
				 "synthetic: \"%.*s\": ROWSxCOLS is expected, each 1 to %d",
				 (int)strcspn(synth->shape, ","), synth->shape, SIDE_MAX);
	if (synth->features != 0 && synth->features != synth->rows * synth->cols)
		return learn_err(err, -EINVAL,
				 "synthetic: give either features or shape, not both");
	synth->features = synth->rows * synth->cols;
	return 0;
}

/* centres_make -- classes x features */
static void centres_make(const struct synth *synth, float *centres)
{
	size_t features = synth->features;
	size_t cols = synth->cols;

	for (size_t c = 0; c < synth->classes; c++) {
		struct learn_key key = { .seed = synth->seed, .step = c };

		for (size_t i = 0; i < features; i++) {
			struct learn_rng_block block;
			size_t at = i;
			float value[2];

			if (synth->shape != NULL)
				at = i / cols / PATCH * cols + i % cols / PATCH;
			block = learn_rng_draw(&key, LEARN_RNG_SYNTH_CENTRE, (uint32_t)at);
			learn_rng_bell(&block, value);
			centres[c * features + i] = value[0];
		}
	}
}

/* set_make -- half is 0 for the training set and 1 for the test set: different samples, same
 * centres */
static int set_make(const struct synth *synth, const float *centres, uint32_t half, size_t count,
		    struct learn_set *set, void **memory, struct learn_line *err)
{
	size_t features = synth->features;
	/* scaled so that distance between centres over noise does not depend on the number of
	 * features */
	float noise = (float)(synth->noise * sqrt(synth->features / 64.0));
	float scale = 1.0f / sqrtf(1.0f + noise * noise);
	float *values;
	uint16_t *labels;

	values = learn_alloc(count * features, sizeof(*values));
	labels = learn_alloc(count, sizeof(*labels));
	memory[0] = values;
	memory[1] = labels;
	if (values == NULL || labels == NULL)
		return learn_err(err, -ENOMEM,
				 "synthetic: no memory for %zu samples of %zu features", count,
				 features);
	for (size_t s = 0; s < count; s++) {
		struct learn_key key = { .seed = synth->seed, .step = s, .worker = half };
		struct learn_rng_block block = learn_rng_draw(&key, LEARN_RNG_SYNTH_LABEL, 0);
		const float *centre;
		float value[2] = { 0 }; /* filled at even features, for two */

		labels[s] = (uint16_t)learn_rng_below(block.word[0], block.word[1], synth->classes);
		centre = centres + labels[s] * features;
		for (size_t i = 0; i < features; i++) {
			if (i % 2 == 0) {
				block = learn_rng_draw(&key, LEARN_RNG_SYNTH_NOISE,
						       (uint32_t)(i / 2));
				learn_rng_bell(&block, value);
			}
			values[s * features + i] = (centre[i] + noise * value[i % 2]) * scale;
		}
	}
	*set = (struct learn_set){ .count = count, .values = values, .labels = labels };
	return 0;
}

int learn_synthetic_make(const char *args, struct learn_data *data, struct learn_line *err)
{
	struct synth synth = { .classes = 10, .train = 20000, .test = 2000, .seed = 1, .noise = 2 };
	float *centres;
	size_t most;
	int rc = args_parse(args, &synth, err);

	if (rc != 0)
		return rc;
	data->shape = (struct learn_shape){ .rows = synth.rows,
					    .cols = synth.cols,
					    .features = synth.features,
					    .classes = synth.classes };
	most = synth.train > synth.test ? synth.train : synth.test;
	if (most * synth.features * sizeof(float) > LEARN_SET_BYTES_MAX)
		return learn_err(
			err, -EFBIG,
			"synthetic: %zu samples of %u features are too large; the limit is %zu "
			"bytes",
			most, synth.features, LEARN_SET_BYTES_MAX);
	centres = learn_alloc((size_t)synth.classes * synth.features, sizeof(*centres));
	if (centres == NULL)
		return learn_err(err, -ENOMEM, "synthetic: out of memory");
	centres_make(&synth, centres);
	rc = set_make(&synth, centres, 0, synth.train, &data->train, &data->memory[0], err);
	if (rc == 0)
		rc = set_make(&synth, centres, 1, synth.test, &data->test, &data->memory[2], err);
	free(centres);
	return rc;
}
