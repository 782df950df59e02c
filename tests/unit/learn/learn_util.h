/* SPDX-License-Identifier: BSD-3-Clause */

/* learn_util.h -- for these tests: files in a directory of their own, buffers, a count of live
 * memory */
#ifndef LEARN_UTIL_H
#define LEARN_UTIL_H

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "learn/data.h"
#include "support/folder.h"

enum {
	ERR_LEN = 400,
	PATH_LEN = 300
};

/* tmp_setup, tmp_teardown -- cmocka fixtures: *state is the path of an empty directory */
static inline int tmp_setup(void **state)
{
	char *dir = strdup("/tmp/outlast-learn-XXXXXX");

	if (dir == NULL || mkdtemp(dir) == NULL)
		return -1;
	*state = dir;
	return 0;
}

static inline int tmp_teardown(void **state)
{
	char *dir = *state;
	int rc = folder_drop(dir);

	free(dir);
	return rc;
}

static inline void file_write(const char *dir, const char *name, const void *bytes, size_t len)
{
	char path[PATH_LEN];
	FILE *stream;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	stream = fopen(path, "wb");
	assert_non_null(stream);
	assert_int_equal(fwrite(bytes, 1, len, stream), len);
	assert_int_equal(fclose(stream), 0);
}

/* file_write_gz -- the same, packed; ".gz" is put behind name */
static inline void file_write_gz(const char *dir, const char *name, const void *bytes, size_t len)
{
	char path[PATH_LEN];
	gzFile stream;

	(void)snprintf(path, sizeof(path), "%s/%s.gz", dir, name);
	stream = gzopen(path, "wb9");
	assert_non_null(stream);
	assert_int_equal(gzwrite(stream, bytes, (unsigned)len), (int)len);
	assert_int_equal(gzclose(stream), Z_OK);
}

/* spec_write -- text as the file "f" of dir; the specification of a data set of this kind */
static inline const char *spec_write(const char *kind, const char *dir, const char *text)
{
	static char spec[PATH_LEN];

	file_write(dir, "f", text, strlen(text));
	(void)snprintf(spec, sizeof(spec), "%s:%s/f", kind, dir);
	return spec;
}

/*
 * assert_no_leak -- a call, repeated, does not make the heap grow by even the smallest block each
 * time
 *
 * The allocator keeps some freed blocks for itself, hence the warm-up. Blind under a sanitizer,
 * which looks for leaks itself.
 */
static inline void assert_no_leak(void (*call)(void *), void *arg)
{
	enum {
		WARM_UP = 10,
		CALLS = 50,
		BLOCK_MIN = 24
	};
	size_t live = 0;

	for (int i = 0; i < WARM_UP + CALLS; i++) {
		if (i == WARM_UP)
			live = mallinfo2().uordblks;
		call(arg);
	}
	assert_true(mallinfo2().uordblks < live + (size_t)CALLS * BLOCK_MIN);
}

/* assert_one_line -- err is a line that names what it must, and no more than a line */
static inline void assert_one_line(const char *err, const char *must_name)
{
	assert_true(strlen(err) > 0);
	assert_null(strchr(err, '\n'));
	if (strstr(err, must_name) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", err, must_name);
}

/* open_good -- a data set that can be opened */
static inline struct learn_data *open_good(const char *spec)
{
	struct learn_data *data = NULL;
	char err[ERR_LEN] = "";

	if (learn_data_open(spec, &data, err, sizeof(err)) != 0)
		fail_msg("%s: %s", spec, err);
	return data;
}

/* open_bad -- one that cannot, with a line that says all of `says` */
static inline void open_bad(const char *spec, int code, const char *says)
{
	struct learn_data *data = NULL;
	char err[ERR_LEN] = "";

	assert_int_equal(learn_data_open(spec, &data, err, sizeof(err)), code);
	assert_one_line(err, says);
}

/* A file that is refused */
struct malformed {
	const char *text;
	int code;
	const char *says;
};

/* open_malformed -- none of count such files can be opened as a data set of this kind */
static inline void open_malformed(const char *kind, const char *dir, const struct malformed *bad,
				  size_t count)
{
	for (size_t i = 0; i < count; i++)
		open_bad(spec_write(kind, dir, bad[i].text), bad[i].code, bad[i].says);
}

/* open_failing -- for assert_no_leak(): a data set that cannot be opened */
static inline void open_failing(void *spec)
{
	struct learn_data *data;
	char err[ERR_LEN];

	assert_true(learn_data_open(spec, &data, err, sizeof(err)) < 0);
}

/* floats -- room for count of them on a cache line; exit if there is none */
static inline float *floats(size_t count)
{
	float *p = aligned_alloc(64, (count * sizeof(*p) + 63) / 64 * 64);

	if (p == NULL)
		abort();
	return p;
}

#endif /* LEARN_UTIL_H */
