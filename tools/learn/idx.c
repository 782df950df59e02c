/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * idx.c -- image data sets in the IDX format of MNIST
 *
 * Big-endian words: magic (0x803 images, 0x801 labels), count, and for images rows and columns;
 * then bytes.
 */

#include "learn/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	IDX_IMAGES = 0x803,
	IDX_LABELS = 0x801,
	IDX_SIDE_MAX = 1024 /* pixels; their product is LEARN_FEATURES_MAX */
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* idx_open -- load DIR/name and check that it is an IDX file of this magic with `words` header
 * words */
static int idx_open(const char *dir, const char *name, uint32_t magic, size_t words,
		    struct learn_file *ret_file, struct learn_line *err)
{
	struct learn_file file;
	char *path = NULL;
	int rc;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		return learn_err(err, -ENOMEM, "%s: out of memory", name);
	rc = learn_file_load(path, &file, err);
	free(path);
	if (rc != 0)
		return rc;
	if (file.len < words * 4)
		rc = learn_err(err, -EBADMSG,
			       "%s: ends at offset %zu, inside the %zu-byte header; fetch it again",
			       file.path, file.len, words * 4);
	else if (be32(file.bytes) != magic)
		rc = learn_err(err, -EBADMSG,
			       "%s: magic 0x%08x at offset 0, an IDX file of %s has 0x%08x; "
			       "fetch it again",
			       file.path, be32(file.bytes),
			       magic == IDX_IMAGES ? "images" : "labels", magic);
	else if (be32(file.bytes + 4) == 0)
		rc = learn_err(err, -EBADMSG,
			       "%s: count 0 at offset 4; a set needs at least one sample",
			       file.path);
	if (rc != 0) {
		learn_file_fini(&file);
		return rc;
	}
	*ret_file = file;
	return 0;
}

/* idx_check_len -- header and payload must be the whole file */
static int idx_check_len(const struct learn_file *file, size_t header, uint64_t payload,
			 struct learn_line *err)
{
	uint64_t want = header + payload;

	if (file->len < want)
		return learn_err(err, -EBADMSG,
				 "%s: ends at offset %zu, its header promises %llu bytes; fetch it "
				 "again",
				 file->path, file->len, (unsigned long long)want);
	if (file->len > want)
		return learn_err(err, -EBADMSG,
				 "%s: %zu bytes too many at offset %llu; fetch it again",
				 file->path, (size_t)(file->len - want), (unsigned long long)want);
	return 0;
}

/* images_load -- load one image file into set; *memory owns its buffer; shape is filled in, or must
 * agree */
static int images_load(const char *dir, const char *name, struct learn_shape *shape,
		       struct learn_set *set, void **memory, struct learn_line *err)
{
	struct learn_file file;
	uint32_t rows, cols;
	int rc;

	rc = idx_open(dir, name, IDX_IMAGES, 4, &file, err);
	if (rc != 0)
		return rc;
	rows = be32(file.bytes + 8);
	cols = be32(file.bytes + 12);
	if (rows == 0 || cols == 0 || rows > IDX_SIDE_MAX || cols > IDX_SIDE_MAX)
		rc = learn_err(err, -EBADMSG,
			       "%s: images of %u x %u at offset 8; sides must be 1 to %d",
			       file.path, rows, cols, IDX_SIDE_MAX);
	else if (shape->features != 0 && (rows != shape->rows || cols != shape->cols))
		rc = learn_err(err, -EBADMSG,
			       "%s: images of %u x %u at offset 8, the training set has %u x %u",
			       file.path, rows, cols, shape->rows, shape->cols);
	else
		rc = idx_check_len(&file, 16, (uint64_t)be32(file.bytes + 4) * rows * cols, err);
	if (rc != 0)
		goto out;
	shape->rows = rows;
	shape->cols = cols;
	shape->features = rows * cols;
	set->count = be32(file.bytes + 4);
	set->pixels = file.bytes + 16;
	*memory = file.bytes;
	file.bytes = NULL;
out:
	learn_file_fini(&file);
	return rc;
}

/* labels_load -- load one label file into set, whose images are loaded already */
static int labels_load(const char *dir, const char *name, unsigned classes, struct learn_set *set,
		       void **memory, struct learn_line *err)
{
	struct learn_file file;
	uint16_t *labels;
	int rc;

	rc = idx_open(dir, name, IDX_LABELS, 2, &file, err);
	if (rc != 0)
		return rc;
	rc = idx_check_len(&file, 8, be32(file.bytes + 4), err);
	if (rc == 0 && be32(file.bytes + 4) != set->count)
		rc = learn_err(err, -EBADMSG,
			       "%s: %u labels at offset 4 for %zu images; fetch both files again",
			       file.path, be32(file.bytes + 4), set->count);
	if (rc != 0)
		goto out;
	labels = learn_alloc(set->count, sizeof(*labels));
	if (labels == NULL) {
		rc = learn_err(err, -ENOMEM, "%s: out of memory", file.path);
		goto out;
	}
	*memory = labels;
	set->labels = labels;
	for (size_t i = 0; i < set->count; i++) {
		labels[i] = file.bytes[8 + i];
		if (labels[i] >= classes) {
			rc = learn_err(err, -EBADMSG,
				       "%s: label %u at offset %zu; there are %u classes",
				       file.path, labels[i], 8 + i, classes);
			goto out;
		}
	}
out:
	learn_file_fini(&file);
	return rc;
}

int learn_idx_load(const char *dir, unsigned classes, const char *remedy, struct learn_data *data,
		   struct learn_line *err)
{
	struct learn_shape *shape = &data->shape;
	int rc;

	shape->classes = classes;
	rc = images_load(dir, "train-images-idx3-ubyte", shape, &data->train, &data->memory[0],
			 err);
	if (rc == 0)
		rc = labels_load(dir, "train-labels-idx1-ubyte", classes, &data->train,
				 &data->memory[1], err);
	if (rc == 0)
		rc = images_load(dir, "t10k-images-idx3-ubyte", shape, &data->test,
				 &data->memory[2], err);
	if (rc == 0)
		rc = labels_load(dir, "t10k-labels-idx1-ubyte", classes, &data->test,
				 &data->memory[3], err);
	if (rc == -ENOENT)
		return learn_err(err, rc, "%s: IDX files of MNIST's names are missing; %s", dir,
				 remedy);
	return rc;
}
