/* SPDX-License-Identifier: BSD-3-Clause */

/* tensors_util.h -- for these tests: a folder of their own, files with any content, refusals */
#ifndef TENSORS_UTIL_H
#define TENSORS_UTIL_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/folder.h"
#include "tensors/tensors.h"

enum {
	ERR_LEN = 512,
	PATH_LEN = 300
};

/* tmp_setup, tmp_teardown -- cmocka fixtures: *state is the path of an empty folder */
static inline int tmp_setup(void **state)
{
	char *dir = strdup("/tmp/outlast-tensors-XXXXXX");

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

static inline const char *path_of(const char *dir, const char *name)
{
	static char path[PATH_LEN];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static inline void file_write(const char *path, const void *bytes, size_t len)
{
	FILE *stream = fopen(path, "wb");

	assert_non_null(stream);
	assert_int_equal(fwrite(bytes, 1, len, stream), len);
	assert_int_equal(fclose(stream), 0);
}

/* check_line -- one line that names the file and has `say` in it */
static inline void check_line(const char *err, const char *path, const char *say)
{
	if (strncmp(err, path, strlen(path)) != 0 || strchr(err, '\n') != NULL ||
	    strstr(err, say) == NULL)
		fail_msg("\"%s\": no line about %s that has \"%s\"", err, path, say);
}

/* check_refused -- the file cannot be opened, and the line says why */
static inline void check_refused(const char *path, int code, const char *say)
{
	struct ol_tensors *tensors = NULL;
	char err[ERR_LEN] = "";

	assert_int_equal(ol_tensors_open(path, &tensors, err, sizeof(err)), code);
	assert_null(tensors);
	check_line(err, path, say);
}

/* check_floats -- the file has these bits */
static inline void check_floats(const char *path, const float *want, uint64_t count)
{
	struct ol_tensors *tensors = NULL;
	char err[ERR_LEN] = "";
	float *got = calloc(count, sizeof(*got));

	assert_non_null(got);
	if (ol_tensors_open(path, &tensors, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	assert_int_equal(ol_tensors_count(tensors), count);
	assert_int_equal(ol_tensors_read(tensors, 0, count, got, err, sizeof(err)), 0);
	assert_memory_equal(got, want, count * sizeof(*got));
	if (count > 2) { /* a part of it */
		assert_int_equal(ol_tensors_read(tensors, 1, count - 2, got, err, sizeof(err)), 0);
		assert_memory_equal(got, want + 1, (count - 2) * sizeof(*got));
	}
	ol_tensors_close(tensors);
	free(got);
}

#endif /* TENSORS_UTIL_H */
