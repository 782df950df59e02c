/* SPDX-License-Identifier: BSD-3-Clause */

/* source.h -- inside the room: where data sets come from. Contract of errors as in data.h. */
#ifndef LEARN_SOURCE_H
#define LEARN_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "learn/data.h"

/* learn_err -- write the one line that says what is wrong; returns code, so that callers can return
 * it */
int learn_err(char *err, size_t err_len, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* learn_alloc -- zeroed memory for count elements, 64-byte aligned; NULL if it overflows or there
 * is none */
void *learn_alloc(size_t count, size_t element_bytes);

struct learn_file {
	char *path; /* the one that was found: with or without .gz */
	uint8_t *bytes; /* uncompressed, followed by a zero byte that is not counted */
	size_t len;
};

/*
 * learn_file_load -- a whole file in memory, uncompressed if it is gzip
 *
 * If path does not exist, path.gz is tried. A gzip stream must end where the file ends and pass its
 * check.
 */
int learn_file_load(const char *path, struct learn_file *ret_file, char *err, size_t err_len);
void learn_file_fini(struct learn_file *file);

/* Each fills a zeroed data set; what it leaves in data->memory on failure, learn_data_close()
 * frees. */
int learn_idx_load(const char *dir, unsigned classes, const char *remedy, struct learn_data *data,
		   char *err, size_t err_len);
int learn_libsvm_load(const char *train_path, const char *test_path, struct learn_data *data,
		      char *err, size_t err_len);
int learn_synthetic_make(const char *args, struct learn_data *data, char *err, size_t err_len);

#endif /* LEARN_SOURCE_H */
