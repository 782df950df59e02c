/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * file.c -- files of weights, opened and read
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensors/form.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers are read and written as they lie in memory: little-endian"
#endif

enum {
	PART_MAX = 1 << 30 /* bytes of one call of the system */
};

struct ol_tensors {
	char *path;
	struct tensors_file file;
	struct tensors_place place;
};

int tensors_err(const struct tensors_line *err, int code, const char *format, ...)
{
	va_list args;
	int len;

	if (err->len == 0)
		return code;
	len = snprintf(err->text, err->len, "%s: ", err->path);
	if (len >= 0 && (size_t)len < err->len) {
		va_start(args, format);
		(void)vsnprintf(err->text + len, err->len - (size_t)len, format, args);
		va_end(args);
	}
	for (char *c = err->text; *c != '\0'; c++) {
		if ((*c >= '\0' && *c < ' ') || *c == 0x7f)
			*c = '?';
	}
	return code;
}

int tensors_read_at(int fd, void *bytes, uint64_t count, uint64_t at,
		    const struct tensors_line *err)
{
	char *to = bytes;

	while (count > 0) {
		size_t part = count < PART_MAX ? count : PART_MAX;
		ssize_t got = pread(fd, to, part, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return tensors_err(err, -errno, "cannot be read: %s", strerror(errno));
		if (got == 0)
			return tensors_err(
				err, -EBADMSG,
				"ends at byte %" PRIu64 ": it was cut off while it was read", at);
		to += got;
		at += (uint64_t)got;
		count -= (uint64_t)got;
	}
	return 0;
}

const struct tensors_form *tensors_form_of(const struct tensors_line *err)
{
	static const struct tensors_form *const forms[] = { &tensors_npy, &tensors_safetensors };
	size_t len = strlen(err->path);

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		size_t ending = strlen(forms[i]->ending);

		if (len > ending && strcmp(err->path + len - ending, forms[i]->ending) == 0)
			return forms[i];
	}
	(void)tensors_err(err, -EINVAL, "its name ends neither in .npy nor in .safetensors");
	return NULL;
}

static int open_regular(const struct tensors_line *err, struct tensors_file *ret_file)
{
	struct stat st;
	/* a pipe is not waited for */
	int fd = open(err->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc = 0;

	if (fd < 0)
		return tensors_err(err, -errno, "cannot be opened: %s", strerror(errno));
	if (fstat(fd, &st) != 0)
		rc = tensors_err(err, -errno, "cannot be looked at: %s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = tensors_err(err, -EINVAL, "is %s: name a file",
				 S_ISDIR(st.st_mode) ? "a folder" : "no regular file");
	if (rc != 0) {
		close(fd);
		return rc;
	}
	*ret_file = (struct tensors_file){ .fd = fd, .bytes = (uint64_t)st.st_size };
	return 0;
}

int ol_tensors_open(const char *path, struct ol_tensors **ret_tensors, char *err, size_t err_bytes)
{
	const struct tensors_line line = { .path = path, .text = err, .len = err_bytes };
	const struct tensors_form *form = tensors_form_of(&line);
	struct ol_tensors *tensors;
	int rc;

	if (form == NULL)
		return -EINVAL;
	tensors = calloc(1, sizeof(*tensors));
	if (tensors != NULL)
		tensors->path = strdup(path);
	if (tensors == NULL || tensors->path == NULL) {
		free(tensors);
		return tensors_err(&line, -ENOMEM, "no memory to read it");
	}
	tensors->file.fd = -1;
	rc = open_regular(&line, &tensors->file);
	if (rc == 0)
		rc = form->parse(&tensors->file, &tensors->place, &line);
	if (rc == 0 && tensors->place.count == 0)
		rc = tensors_err(&line, -EBADMSG, "has no numbers in it");
	if (rc == 0 && tensors->place.count > OL_TENSORS_COUNT_MAX)
		rc = tensors_err(&line, -EBADMSG,
				 "has more than 2^40 numbers: a job cannot have so many");
	if (rc != 0) {
		ol_tensors_close(tensors);
		return rc;
	}
	*ret_tensors = tensors;
	return 0;
}

uint64_t ol_tensors_count(const struct ol_tensors *tensors)
{
	return tensors->place.count;
}

const char *ol_tensors_table(const struct ol_tensors *tensors)
{
	return tensors->place.table;
}

bool ol_tensors_version(const struct ol_tensors *tensors, uint64_t *ret_version)
{
	*ret_version = tensors->place.version;
	return tensors->place.says_version;
}

int ol_tensors_read(const struct ol_tensors *tensors, uint64_t first, uint64_t count, float *floats,
		    char *err, size_t err_bytes)
{
	const struct tensors_line line = { .path = tensors->path, .text = err, .len = err_bytes };

	return tensors_read_at(tensors->file.fd, floats, count * sizeof(float),
			       tensors->place.at + first * sizeof(float), &line);
}

void ol_tensors_close(struct ol_tensors *tensors)
{
	if (tensors == NULL)
		return;
	if (tensors->file.fd >= 0)
		close(tensors->file.fd);
	free(tensors->place.table);
	free(tensors->path);
	free(tensors);
}
