/* SPDX-License-Identifier: BSD-3-Clause */

/* data.c -- data sets: IDX, plain and gzip, LIBSVM, synthetic; and a batch of each */

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "learn/data.h"
#include "nth/scenarios.h"
#include "support/check.h"

enum {
	SAMPLES = 40,
	SIDE = 6,
};

static char idx_spec[192], svm_spec[192];

static void be32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* images or labels under their MNIST name, gzip if it ends so */
static void idx_write(const char *name, bool images)
{
	uint8_t bytes[16 + SAMPLES * SIDE * SIDE];
	size_t head = images ? 16 : 8, count = images ? SAMPLES * SIDE * SIDE : SAMPLES;
	char path[192];
	gzFile file;

	be32(bytes, images ? 0x803 : 0x801);
	be32(bytes + 4, SAMPLES);
	be32(bytes + 8, SIDE);
	be32(bytes + 12, SIDE);
	for (size_t i = 0; i < count; i++)
		bytes[head + i] = (uint8_t)(i % 10);
	snprintf(path, sizeof(path), "%s/%s", run_folder(), name);
	file = gzopen(path, strstr(name, ".gz") != NULL ? "wb" : "wbT");
	check(file != NULL && gzwrite(file, bytes, (unsigned)(head + count)) > 0);
	check_ok(gzclose(file));
}

static void idx_start(void)
{
	idx_write("train-images-idx3-ubyte.gz", true);
	idx_write("train-labels-idx1-ubyte", false);
	idx_write("t10k-images-idx3-ubyte", true);
	idx_write("t10k-labels-idx1-ubyte.gz", false);
	snprintf(idx_spec, sizeof(idx_spec), "idx:%s", run_folder());
}

static void svm_start(void)
{
	char path[160];
	FILE *file;

	snprintf(path, sizeof(path), "%s/svm", run_folder());
	snprintf(svm_spec, sizeof(svm_spec), "libsvm:%s", path);
	file = fopen(path, "we");
	check(file != NULL);
	for (int i = 0; i < SAMPLES; i++)
		fprintf(file, "%d 1:%d 7:0.5 12:%d\n", i % 3, i, SAMPLES - i);
	check_ok(fclose(file));
}

static int read_set(const char *spec, char text[RUN_TEXT_MAX])
{
	struct learn_key key = { 0 };
	struct learn_batch *batch;
	struct learn_data *data;
	int rc = learn_data_open(spec, &data, text, RUN_TEXT_MAX);

	if (rc != 0)
		return rc;
	rc = learn_batch_create(&data->shape, 8, &batch);
	if (rc != 0)
		snprintf(text, RUN_TEXT_MAX, "no batch");
	if (rc == 0 && learn_batch_draw(data, &key, 8, batch) != 0)
		run_wrong("a batch cannot be drawn");
	if (rc == 0)
		learn_batch_destroy(batch);
	learn_data_close(data);
	return rc;
}

static int idx_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	(void)attempt;
	return read_set(idx_spec, text);
}

static int svm_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	(void)attempt;
	return read_set(svm_spec, text);
}

static int synthetic_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	(void)attempt;
	return read_set("synthetic:classes=3,features=16,train=50,test=10", text);
}

const struct run_scenario nth_data_idx = { .name = "data-idx", .start = idx_start, .run = idx_run };
const struct run_scenario nth_data_libsvm = { .name = "data-libsvm",
					      .start = svm_start,
					      .run = svm_run };
const struct run_scenario nth_data_synthetic = { .name = "data-synthetic", .run = synthetic_run };
