/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * data_fuzz.c -- files of a data set with any content are refused with one line, or every sample is
 * as learn/data.h promises: labels, users, items and words below their limits, numbers finite
 *
 * The first byte selects the form of the rest (`forms` below). If a form has several files, each but
 * the last has its length in two bytes before it.
 */

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/folder.h"
#include "learn/data.h"
#include "support/fuzz.h"

enum {
	INPUT_MAX = 1 << 14,
	DIGITS_MAX = 4, /* of a number that says how much there is: a few bytes must not ask for
			   gigabytes */
	BATCH = 8
};

static const char *const names[FOLDER_FILES_MAX] = { "train-images-idx3-ubyte",
						     "train-labels-idx1-ubyte",
						     "t10k-images-idx3-ubyte",
						     "t10k-labels-idx1-ubyte" };

#define FIRST  "/train-images-idx3-ubyte"
#define SECOND "/train-labels-idx1-ubyte"

static const struct {
	const char *prefix; /* of the specification; then the folder … */
	const char *first;
	const char *second; /* … and after a comma the folder and this; NULL: no more */
	unsigned files;
	bool sizes; /* its numbers say how much there is */
} forms[] = {
	{ "libsvm:", FIRST, NULL, 1, true },      { "libsvm:", FIRST, SECOND, 2, true },
	{ "idx:", ",classes=4", NULL, 4, false }, { "movielens:", FIRST, NULL, 1, false },
	{ "bow:", FIRST, NULL, 1, true },         { "bow:", FIRST, SECOND, 2, true },
};

static bool long_number(const uint8_t *data, size_t bytes)
{
	size_t digits = 0;

	for (size_t i = 0; i < bytes; i++) {
		digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
		if (digits > DIGITS_MAX)
			return true;
	}
	return false;
}

/* Cut the input into the files. */
static void files_fill(const uint8_t *data, size_t bytes, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		size_t part = bytes;

		if (i + 1 < count) {
			part = bytes < 2 ? 0 : (size_t)(data[0] | data[1] << 8);
			data += bytes < 2 ? bytes : 2;
			bytes -= bytes < 2 ? bytes : 2;
			part = part < bytes ? part : bytes;
		}
		folder_write(i, data, part);
		data += part;
		bytes -= part;
	}
}

static void samples_check(const struct learn_shape *shape, const struct learn_set *set)
{
	size_t values = set->count * shape->features;
	double sum = 0; /* too few finite floats to overflow */

	must(shape->classes >= 2 && shape->classes <= LEARN_CLASSES_MAX);
	must((set->pixels == NULL) != (set->values == NULL));
	for (size_t i = 0; i < set->count; i++)
		must(set->labels[i] < shape->classes);
	for (size_t i = 0; i < values; i++)
		sum += set->pixels != NULL ? (double)set->pixels[i] : (double)set->values[i];
	must(isfinite(sum));
}

static void ratings_check(const struct learn_shape *shape, const struct learn_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		must(set->ratings[i].user < shape->rows && set->ratings[i].item < shape->cols &&
		     isfinite(set->ratings[i].value));
}

static void words_check(const struct learn_shape *shape, const struct learn_set *set)
{
	must(set->starts[0] == 0);
	for (size_t d = 0; d < set->count; d++) {
		must(set->starts[d] < set->starts[d + 1]);
		for (size_t i = set->starts[d]; i < set->starts[d + 1]; i++)
			must(set->words[i] < shape->cols);
	}
}

static void set_check(const struct learn_shape *shape, const struct learn_set *set)
{
	must(set->count >= 1);
	switch (shape->kind) {
	case LEARN_SAMPLES:
		samples_check(shape, set);
		break;
	case LEARN_RATINGS:
		ratings_check(shape, set);
		break;
	case LEARN_WORDS:
		words_check(shape, set);
		break;
	}
}

static void data_check(const struct learn_data *data)
{
	const struct learn_key key = { 0 };
	struct learn_batch *batch;
	int rc;

	must(data->shape.features >= 1 && data->shape.features <= LEARN_FEATURES_MAX);
	set_check(&data->shape, &data->train);
	set_check(&data->shape, &data->test);
	must(learn_batch_create(&data->shape, BATCH, &batch) == 0);
	must(learn_batch_draw(data, &key, BATCH, batch) == 0);
	rc = learn_batch_load(data, &data->test, data->test.count - 1, 1, batch);
	must((rc == 0) == (data->shape.kind == LEARN_SAMPLES));
	learn_batch_destroy(batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *folder = folder_make(names, FOLDER_FILES_MAX);
	struct learn_data *set = NULL;
	const char *second;
	char spec[256], err[512] = "";

	if (bytes == 0 || bytes > INPUT_MAX || data[0] >= sizeof(forms) / sizeof(forms[0]) ||
	    (forms[data[0]].sizes && long_number(data + 1, bytes - 1)))
		return 0;
	files_fill(data + 1, bytes - 1, forms[data[0]].files);
	second = forms[data[0]].second;
	snprintf(spec, sizeof(spec), "%s%s%s%s%s%s", forms[data[0]].prefix, folder,
		 forms[data[0]].first, second != NULL ? "," : "", second != NULL ? folder : "",
		 second != NULL ? second : "");
	if (learn_data_open(spec, &set, err, sizeof(err)) == 0) {
		data_check(set);
		learn_data_close(set);
	} else {
		must(err[0] != '\0' && strchr(err, '\n') == NULL);
	}
	return 0;
}
