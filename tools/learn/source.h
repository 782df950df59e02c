/* SPDX-License-Identifier: BSD-3-Clause */

/* source.h -- inside the room: sources of data sets. Errors as in data.h. */
#ifndef LEARN_SOURCE_H
#define LEARN_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "learn/data.h"

/* Where an error line goes: the caller's err and err_len. */
struct learn_line {
	char *text;
	size_t len;
};

/* learn_err -- write the error line; returns code, so that callers can return it */
int learn_err(struct learn_line *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* learn_alloc -- zeroed memory for count elements, 64-byte aligned; NULL if it overflows or there
 * is none */
void *learn_alloc(size_t count, size_t element_bytes);

struct learn_file {
	char *path; /* the opened one: with or without .gz */
	uint8_t *bytes; /* uncompressed, followed by a zero byte that is not counted */
	size_t len;
};

/*
 * learn_file_load -- a whole file in memory, uncompressed if it is gzip
 *
 * If path does not exist, path.gz is tried. A gzip stream must end where the file ends and pass its
 * check.
 */
int learn_file_load(const char *path, struct learn_file *ret_file, struct learn_line *err);
void learn_file_fini(struct learn_file *file);

/* A text file read from front to end, with the line number for error lines */
struct learn_cursor {
	const struct learn_file *file;
	const char *at;
	size_t line; /* counts from 1 */
	struct learn_line *err;
};

/* learn_cursor_at -- a cursor at the beginning of a loaded file */
struct learn_cursor learn_cursor_at(const struct learn_file *file, struct learn_line *err);

/* learn_cursor_bad -- write the error line with file and line number; returns -EBADMSG */
int learn_cursor_bad(const struct learn_cursor *c, const char *what);

/* learn_cursor_end -- has the whole file been read? (a zero byte may stand before its end) */
bool learn_cursor_end(const struct learn_cursor *c);

/* learn_cursor_number -- read a finite number at the cursor, without leading blanks */
int learn_cursor_number(struct learn_cursor *c, double *ret_value);

/* learn_cursor_whole -- the same, for a whole number from min to max; name: "the user" */
int learn_cursor_whole(struct learn_cursor *c, const char *name, uint32_t min, uint32_t max,
		       uint32_t *ret_value);

/* learn_cursor_newline -- skip blanks, the end of this line, and empty lines */
int learn_cursor_newline(struct learn_cursor *c);

/* learn_args_parse -- key=value,... by ol_conf_words(); what begins the error line. -EINVAL */
int learn_args_parse(const char *what, const struct ol_conf_field *fields, size_t field_count,
		     const char *args, void *target, struct learn_line *err);

/*
 * learn_match -- give each of `rows` a column of its own at least cost (Kuhn 1955)
 *
 * cost is [rows][cols], rows <= cols, all finite. match gets each row's column. Takes rows^2 * cols
 * steps; -ENOMEM.
 */
int learn_match(const double *cost, size_t rows, size_t cols, size_t *match);

/* Each fills a zeroed data set; after a failure learn_data_close() frees data->memory. */
int learn_idx_load(const char *dir, unsigned classes, const char *remedy, struct learn_data *data,
		   struct learn_line *err);
int learn_libsvm_load(const char *train_path, const char *test_path, struct learn_data *data,
		      struct learn_line *err);
int learn_synthetic_make(const char *args, struct learn_data *data, struct learn_line *err);
int learn_movielens_load(const char *path, struct learn_data *data, struct learn_line *err);
int learn_ratings_make(const char *args, struct learn_data *data, struct learn_line *err);
int learn_bow_load(const char *path, const char *vocab_path, struct learn_data *data,
		   struct learn_line *err);
int learn_topics_make(const char *args, struct learn_data *data, struct learn_line *err);

#endif /* LEARN_SOURCE_H */
