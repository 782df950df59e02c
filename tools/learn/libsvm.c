/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * libsvm.c -- data sets in LIBSVM's text form: "label index:value index:value ...", one sample a
 * line
 *
 * Indices count from 1 and ascend; missing features are 0. Labels are integers; those in the
 * training file become classes 0, 1, 2 ... in ascending order. "#" starts a comment.
 */

#include "learn/source.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	HOLD_OUT = 10 /* without a test file, one sample in so many is kept back */
};

/* One parsed sample file, still with its own labels. */
struct samples {
	struct learn_file file;
	size_t count;
	size_t features; /* largest index */
	int32_t *labels;
};

static void skip_blanks(struct learn_cursor *c)
{
	while (*c->at == ' ' || *c->at == '\t' || *c->at == '\r')
		c->at++;
	if (*c->at != '#')
		return;
	while (*c->at != '\n' && *c->at != 0)
		c->at++;
}

/* feature -- read one "index:value"; *index: the one before, then this one */
static int feature(struct learn_cursor *c, size_t *index, float *ret_value)
{
	double value = 0;
	int rc;

	rc = learn_cursor_number(c, &value);
	if (rc != 0)
		return rc;
	if (*c->at != ':')
		return learn_cursor_bad(c, "index:value is expected");
	if (value != floor(value) || value < 1 || value > LEARN_FEATURES_MAX)
		return learn_cursor_bad(c, "the index is not a whole number from 1 to 1048576");
	if ((size_t)value <= *index)
		return learn_cursor_bad(c, "the index is not above the one before it");
	*index = (size_t)value;
	c->at++;
	rc = learn_cursor_number(c, &value);
	if (rc != 0)
		return rc;
	if (strchr(" \t\r\n#", *c->at) == NULL)
		return learn_cursor_bad(c, "a blank is expected after a value");
	if (*c->at == 0 && !learn_cursor_end(c))
		return learn_cursor_bad(c, "a zero byte; this is not a text file");
	*ret_value = (float)value;
	return 0;
}

/*
 * sample -- the next line that holds one; returns 1, 0 at the end of the file, or a negative code
 *
 * row, if not NULL, is zeroed and has room for every index of the file.
 */
static int sample(struct learn_cursor *c, int32_t *ret_label, size_t *ret_features, float *row)
{
	size_t index = 0;
	double label = 0;
	float value = 0;
	int rc;

	for (skip_blanks(c); *c->at == '\n'; skip_blanks(c)) {
		c->at++;
		c->line++;
	}
	if (learn_cursor_end(c))
		return 0;
	rc = learn_cursor_number(c, &label);
	if (rc != 0)
		return rc;
	if (label != floor(label) || fabs(label) > INT32_MAX)
		return learn_cursor_bad(c, "the label is not a whole number of 32 bits");
	if (strchr(" \t\r\n#", *c->at) == NULL)
		return learn_cursor_bad(c, "a blank is expected after the label");
	for (skip_blanks(c); *c->at != '\n' && !learn_cursor_end(c); skip_blanks(c)) {
		rc = feature(c, &index, &value);
		if (rc != 0)
			return rc;
		if (row != NULL)
			row[index - 1] = value;
	}
	*ret_label = (int32_t)label;
	*ret_features = index;
	return 1;
}

static void samples_fini(struct samples *samples)
{
	learn_file_fini(&samples->file);
	free(samples->labels);
}

/* samples_load -- first pass: check every line, count, collect labels; the caller frees samples in
 * any case */
static int samples_load(const char *path, struct samples *samples, struct learn_line *err)
{
	struct learn_cursor c;
	size_t cap = 0;
	int rc;

	rc = learn_file_load(path, &samples->file, err);
	if (rc != 0)
		return rc;
	c = learn_cursor_at(&samples->file, err);
	for (;;) {
		size_t features = 0;
		int32_t label = 0;

		rc = sample(&c, &label, &features, NULL);
		if (rc <= 0)
			break;
		if (samples->count == cap) {
			size_t more = cap == 0 ? 1024 : cap * 2;
			int32_t *bigger = realloc(samples->labels, more * sizeof(*bigger));

			if (bigger == NULL)
				return learn_err(err, -ENOMEM, "%s: out of memory", path);
			samples->labels = bigger;
			cap = more;
		}
		samples->labels[samples->count++] = label;
		if (features > samples->features)
			samples->features = features;
	}
	if (rc == 0 && samples->count == 0)
		rc = learn_err(err, -EBADMSG, "%s: offset 0: holds no samples", samples->file.path);
	return rc;
}

static int compare_labels(const void *a, const void *b)
{
	int32_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

/* classes_find -- the different labels of the training samples, ascending; the caller frees
 * *ret_classes */
static int classes_find(const struct samples *train, int32_t **ret_classes, unsigned *ret_count,
			struct learn_line *err)
{
	int32_t *classes = learn_alloc(train->count, sizeof(*classes));
	size_t count = 0;

	if (classes == NULL)
		return learn_err(err, -ENOMEM, "%s: out of memory", train->file.path);
	memcpy(classes, train->labels, train->count * sizeof(*classes));
	qsort(classes, train->count, sizeof(*classes), compare_labels);
	for (size_t i = 0; i < train->count; i++) {
		if (count == 0 || classes[count - 1] != classes[i])
			classes[count++] = classes[i];
	}
	if (count < 2 || count > LEARN_CLASSES_MAX) {
		free(classes);
		return learn_err(err, -EBADMSG,
				 "%s: %zu different labels; a classifier needs 2 to %d",
				 train->file.path, count, LEARN_CLASSES_MAX);
	}
	*ret_classes = classes;
	*ret_count = (unsigned)count;
	return 0;
}

/*
 * set_fill -- second pass: put the samples that `keep` names into a set
 *
 * keep: 0 all, 1 those for training, 2 those held out of a file that serves for both.
 */
static int set_fill(const struct samples *samples, int keep, const struct learn_shape *shape,
		    const int32_t *classes, struct learn_set *set, void **memory,
		    struct learn_line *err)
{
	struct learn_cursor c = learn_cursor_at(&samples->file, err);
	size_t held = samples->count / HOLD_OUT;
	size_t count = keep == 0 ? samples->count : keep == 1 ? samples->count - held : held;
	float *values = NULL;
	uint16_t *labels;
	size_t to = 0;

	if (count <= LEARN_SET_BYTES_MAX / sizeof(*values) / shape->features)
		values = learn_alloc(count * shape->features, sizeof(*values));
	labels = learn_alloc(count, sizeof(*labels));
	memory[0] = values;
	memory[1] = labels;
	if (values == NULL || labels == NULL)
		return learn_err(err, -EFBIG,
				 "%s: %zu samples of %u features: too large for memory",
				 samples->file.path, count, shape->features);
	for (size_t i = 0; i < samples->count; i++) {
		bool is_held = i % HOLD_OUT == HOLD_OUT - 1;
		bool kept = keep == 0 || is_held == (keep == 2);
		const int32_t *class;
		size_t features = 0;
		int32_t label = 0;
		int rc;

		rc = sample(&c, &label, &features, kept ? values + to * shape->features : NULL);
		if (rc < 0)
			return rc;
		class = bsearch(&label, classes, shape->classes, sizeof(label), compare_labels);
		if (class == NULL) {
			char what[80];

			(void)snprintf(what, sizeof(what),
				       "label %d does not occur in the training file", label);
			return learn_cursor_bad(&c, what);
		}
		if (kept)
			labels[to++] = (uint16_t)(class - classes);
	}
	*set = (struct learn_set){ .count = count, .values = values, .labels = labels };
	return 0;
}

int learn_libsvm_load(const char *train_path, const char *test_path, struct learn_data *data,
		      struct learn_line *err)
{
	struct samples train = { 0 };
	struct samples test = { 0 };
	struct learn_shape *shape = &data->shape;
	const struct samples *held = test_path != NULL ? &test : &train;
	int32_t *classes = NULL;
	size_t features;
	int rc;

	rc = samples_load(train_path, &train, err);
	if (rc == 0 && test_path != NULL)
		rc = samples_load(test_path, &test, err);
	if (rc == 0 && test_path == NULL && train.count < HOLD_OUT)
		rc = learn_err(err, -EINVAL,
			       "%s: %zu samples are too few to keep some back; name a test file: "
			       "libsvm:TRAIN,TEST",
			       train.file.path, train.count);
	features = train.features > test.features ? train.features : test.features;
	if (rc == 0 && features == 0)
		rc = learn_err(err, -EBADMSG, "%s: no sample has a feature", train.file.path);
	if (rc == 0)
		rc = classes_find(&train, &classes, &shape->classes, err);
	if (rc != 0)
		goto out;
	shape->rows = 1;
	shape->cols = (unsigned)features;
	shape->features = (unsigned)features;
	rc = set_fill(&train, test_path != NULL ? 0 : 1, shape, classes, &data->train,
		      &data->memory[0], err);
	if (rc == 0)
		rc = set_fill(held, test_path != NULL ? 0 : 2, shape, classes, &data->test,
			      &data->memory[2], err);
out:
	free(classes);
	samples_fini(&test);
	samples_fini(&train);
	return rc;
}
