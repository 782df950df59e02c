/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * tensors_fuzz.c -- files of weights with any content are refused with one line, or as many floats are read
 * as the file has room for; and what was read is read again, bit for bit, from a file that is saved of it
 *
 * The first byte selects the form: 0: .npy; 1: .safetensors; 2: .safetensors, the length of whose header is put
 * before the rest; 3: .npy of format 1.0, whose magic and length of header are put before the rest up to its
 * first newline.
 */

#include <stdio.h>
#include <string.h>

#include "fuzz/folder.h"
#include "support/fuzz.h"
#include "tensors/tensors.h"

enum {
	INPUT_MAX = 1 << 14,
	NPY = 0,
	SAFETENSORS = 1,
	FORMS = 4,
	START_MAX = 10 /* bytes that are put before the rest */
};

static const char *const names[FOLDER_FILES_MAX] = { "f.npy", "f.safetensors", "out.npy",
						     "out.safetensors" };

static void path_make(char path[128], unsigned which)
{
	snprintf(path, 128, "%s/%s", folder_make(names, FOLDER_FILES_MAX), names[which]);
}

/* The part up to the first newline, with it; all if there is none */
static size_t line_bytes(const uint8_t *data, size_t bytes)
{
	const uint8_t *end = bytes > 0 ? memchr(data, '\n', bytes) : NULL;

	return end != NULL ? (size_t)(end - data) + 1 : bytes;
}

/* The bytes before the rest, so that what is behind them is reached; returns how many */
static size_t start_make(unsigned form, const uint8_t *data, size_t bytes, uint8_t *start)
{
	size_t line = line_bytes(data, bytes);

	if (form < 2)
		return 0;
	if (form == 2) {
		memset(start, 0, 8);
		start[0] = (uint8_t)(line & 0xff);
		start[1] = (uint8_t)(line >> 8);
		return 8;
	}
	memcpy(start, "\x93NUMPY\x01\x00", 8);
	start[8] = (uint8_t)(line & 0xff);
	start[9] = (uint8_t)(line >> 8);
	return 10;
}

static void line_check(const char *err)
{
	must(err[0] != '\0');
	for (const char *c = err; *c != '\0'; c++)
		must((unsigned char)*c >= ' ' && *c != 0x7f);
}

static void again_check(unsigned out, const float *floats, uint64_t count)
{
	const struct ol_tensors_about about = { .version = count, .epoch = 1, .job = "fuzz" };
	struct ol_tensors *tensors = NULL;
	char path[128], err[512] = "";
	float *again = malloc(count * sizeof(*again));

	must(again != NULL);
	path_make(path, out);
	must(ol_tensors_save(path, true, floats, count, &about, err, sizeof(err)) == 0);
	must(ol_tensors_open(path, &tensors, err, sizeof(err)) == 0);
	must(ol_tensors_count(tensors) == count);
	must(ol_tensors_read(tensors, 0, count, again, err, sizeof(err)) == 0);
	must(memcmp(again, floats, count * sizeof(*again)) == 0);
	ol_tensors_close(tensors);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct ol_tensors *tensors = NULL;
	static uint8_t file[START_MAX + INPUT_MAX];
	char path[128], err[512] = "";
	unsigned which;
	uint64_t count;
	size_t start;
	float *floats;

	if (bytes == 0 || bytes > INPUT_MAX || data[0] >= FORMS)
		return 0;
	which = data[0] == 1 || data[0] == 2 ? SAFETENSORS : NPY;
	path_make(path, which);
	start = start_make(data[0], data + 1, bytes - 1, file);
	memcpy(file + start, data + 1, bytes - 1);
	folder_write(which, file, start + bytes - 1);
	if (ol_tensors_open(path, &tensors, err, sizeof(err)) != 0) {
		must(tensors == NULL);
		line_check(err);
		return 0;
	}
	count = ol_tensors_count(tensors);
	must(count >= 1 && count * sizeof(float) < start + bytes - 1);
	floats = malloc(count * sizeof(*floats));
	must(floats != NULL && ol_tensors_read(tensors, 0, count, floats, err, sizeof(err)) == 0);
	must(memcmp(floats, file + start + bytes - 1 - count * sizeof(float),
		    count * sizeof(float)) == 0);
	ol_tensors_close(tensors);
	again_check(2 + which, floats, count);
	free(floats);
	return 0;
}
