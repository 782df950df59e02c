/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * synthetic.c -- data sets made from a seed: noisy class centres
 *
 * A sample is its class's centre plus noise, scaled to unit variance. Centres and noise are sums of
 * four uniform numbers, which are close to normal and, unlike what goes through a mathematical
 * library, have the same bits everywhere.
 */

#include "learn/source.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	SAMPLES_MAX = 1 << 24,
	PATCH = 4 /* pixels a side of the squares that make up an image's centre */
};

struct synth {
	double classes;
	double features;
	double train;
	double test;
	double seed;
	double noise;
	double rows; /* 0: flat */
	double cols;
};

#define FIELD(n, lo, hi, w) LEARN_ARG(struct synth, n, lo, hi, w)

static const struct learn_arg fields[] = {
	FIELD(classes, 2, LEARN_CLASSES_MAX, true), FIELD(features, 1, LEARN_FEATURES_MAX, true),
	FIELD(train, 1, SAMPLES_MAX, true),         FIELD(test, 1, SAMPLES_MAX, true),
	FIELD(seed, 0, 9007199254740992.0, true),   FIELD(noise, 0, 1000, false),
};

/* parse_shape -- ROWSxCOLS; *end is where it stops */
static int parse_shape(const char *value, struct synth *synth, char **end)
{
	unsigned long rows, cols;

	rows = strtoul(value, end, 10);
	if (*end == value || **end != 'x')
		return -EINVAL;
	value = *end + 1;
	cols = strtoul(value, end, 10);
	if (*end == value || rows < 1 || cols < 1 || rows > 1024 || cols > 1024)
		return -EINVAL;
	synth->rows = (double)rows;
	synth->cols = (double)cols;
	synth->features = (double)(rows * cols);
	return 0;
}

/* parse_arg -- one key=value of len characters */
static int parse_arg(const char *arg, size_t len, struct synth *synth, char *err, size_t err_len)
{
	static const struct learn_arg_list list = { .what = "synthetic",
						    .args = fields,
						    .count = sizeof(fields) / sizeof(fields[0]),
						    .more = " shape" };
	char *end = NULL;

	if (strncmp(arg, "shape=", 6) != 0)
		return learn_arg_parse(&list, arg, len, synth, err, err_len);
	if (parse_shape(arg + 6, synth, &end) != 0 || end != arg + len)
		return learn_err(err, err_len, -EINVAL,
				 "synthetic: \"%.*s\": ROWSxCOLS is expected, each 1 to 1024",
				 (int)len, arg);
	return 0;
}

/* centres_make -- classes x features */
static void centres_make(const struct synth *synth, float *centres)
{
	size_t features = (size_t)synth->features;
	size_t cols = (size_t)synth->cols;

	for (size_t c = 0; c < (size_t)synth->classes; c++) {
		struct learn_key key = { .seed = (uint64_t)synth->seed, .step = c };

		for (size_t i = 0; i < features; i++) {
			struct learn_rng_block block;
			size_t at = i;
			float value[2];

			if (synth->rows > 0)
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
		    struct learn_set *set, void **memory, char *err, size_t err_len)
{
	size_t features = (size_t)synth->features;
	/* scaled so that distance between centres over noise does not depend on the number of
	 * features */
	float noise = (float)(synth->noise * sqrt(synth->features / 64));
	float scale = 1.0f / sqrtf(1.0f + noise * noise);
	float *values;
	uint16_t *labels;

	values = learn_alloc(count * features, sizeof(*values));
	labels = learn_alloc(count, sizeof(*labels));
	memory[0] = values;
	memory[1] = labels;
	if (values == NULL || labels == NULL)
		return learn_err(err, err_len, -ENOMEM,
				 "synthetic: no memory for %zu samples of %zu features", count,
				 features);
	for (size_t s = 0; s < count; s++) {
		struct learn_key key = { .seed = (uint64_t)synth->seed, .step = s, .worker = half };
		struct learn_rng_block block = learn_rng_draw(&key, LEARN_RNG_SYNTH_LABEL, 0);
		const float *centre;
		float value[2] = { 0 }; /* filled at even features, for two */

		labels[s] = (uint16_t)learn_rng_below(block.word[0], block.word[1],
						      (uint32_t)synth->classes);
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

int learn_synthetic_make(const char *args, struct learn_data *data, char *err, size_t err_len)
{
	struct synth synth = {
		.classes = 10, .features = 64, .train = 20000, .test = 2000, .seed = 1, .noise = 2
	};
	float *centres;
	int rc;

	while (*args != 0) {
		size_t len = strcspn(args, ",");

		rc = parse_arg(args, len, &synth, err, err_len);
		if (rc != 0)
			return rc;
		args += len + (args[len] == ',');
	}
	if (synth.rows * synth.cols > 0 && synth.features != synth.rows * synth.cols)
		return learn_err(err, err_len, -EINVAL,
				 "synthetic: give either features or shape, not both");
	data->shape = (struct learn_shape){
		.rows = synth.rows > 0 ? (unsigned)synth.rows : 1,
		.cols = synth.rows > 0 ? (unsigned)synth.cols : (unsigned)synth.features,
		.features = (unsigned)synth.features,
		.classes = (unsigned)synth.classes,
	};
	if (fmax(synth.train, synth.test) * synth.features * sizeof(float) > LEARN_SET_BYTES_MAX)
		return learn_err(
			err, err_len, -EFBIG,
			"synthetic: %g samples of %g features are too large; the limit is %zu "
			"bytes",
			fmax(synth.train, synth.test), synth.features, LEARN_SET_BYTES_MAX);
	centres = learn_alloc((size_t)synth.classes * (size_t)synth.features, sizeof(*centres));
	if (centres == NULL)
		return learn_err(err, err_len, -ENOMEM, "synthetic: out of memory");
	centres_make(&synth, centres);
	rc = set_make(&synth, centres, 0, (size_t)synth.train, &data->train, &data->memory[0], err,
		      err_len);
	if (rc == 0)
		rc = set_make(&synth, centres, 1, (size_t)synth.test, &data->test, &data->memory[2],
			      err, err_len);
	free(centres);
	return rc;
}
