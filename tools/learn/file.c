/* SPDX-License-Identifier: BSD-3-Clause */

/* file.c -- files whole in memory, gzip or not; numbers read from text files and from key=value;
 * aligned memory; error lines */

#include "learn/source.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum {
	ALIGN = 64
};

int learn_err(struct learn_line *err, int code, const char *format, ...)
{
	va_list args;

	if (err->len == 0)
		return code;
	va_start(args, format);
	(void)vsnprintf(err->text, err->len, format, args);
	va_end(args);
	return code;
}

void *learn_alloc(size_t count, size_t element_bytes)
{
	size_t bytes;
	void *memory;

	if (__builtin_mul_overflow(count, element_bytes, &bytes) || bytes > SIZE_MAX - ALIGN)
		return NULL;
	bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
	if (bytes == 0)
		bytes = ALIGN;
	memory = aligned_alloc(ALIGN, bytes);
	if (memory != NULL)
		memset(memory, 0, bytes);
	return memory;
}

void learn_file_fini(struct learn_file *file)
{
	free(file->path);
	free(file->bytes);
	*file = (struct learn_file){ 0 };
}

/* open_either -- open path, or else path.gz; the caller frees *ret_name, the name of the opened one
 */
static int open_either(const char *path, FILE **ret_stream, char **ret_name, struct learn_line *err)
{
	char *name = NULL;
	FILE *stream;
	int rc;

	if (asprintf(&name, "%s", path) < 0)
		return learn_err(err, -ENOMEM, "%s: out of memory", path);
	stream = fopen(name, "rbe");
	if (stream == NULL && errno == ENOENT) {
		free(name);
		if (asprintf(&name, "%s.gz", path) < 0)
			return learn_err(err, -ENOMEM, "%s: out of memory", path);
		stream = fopen(name, "rbe");
	}
	if (stream == NULL) {
		rc = -errno;
		free(name);
		if (rc == -ENOENT)
			return learn_err(err, rc, "%s: no such file, plain or .gz", path);
		return learn_err(err, rc, "%s: cannot open: %s", path, strerror(-rc));
	}
	*ret_stream = stream;
	*ret_name = name;
	return 0;
}

/* read_whole -- read all bytes of an open regular file, and add a zero byte */
static int read_whole(FILE *stream, const char *name, uint8_t **ret_bytes, size_t *ret_len,
		      struct learn_line *err)
{
	struct stat st;
	uint8_t *bytes;
	size_t len;

	if (fstat(fileno(stream), &st) != 0)
		return learn_err(err, -errno, "%s: cannot stat: %s", name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return learn_err(err, -EINVAL, "%s: not a regular file; name a file", name);
	if ((uint64_t)st.st_size > LEARN_FILE_BYTES_MAX)
		return learn_err(err, -EFBIG, "%s: %lld bytes, the limit is %zu", name,
				 (long long)st.st_size, LEARN_FILE_BYTES_MAX);
	len = (size_t)st.st_size;
	bytes = malloc(len + 1);
	if (bytes == NULL)
		return learn_err(err, -ENOMEM, "%s: no memory for %zu bytes", name, len);
	if (fread(bytes, 1, len, stream) != len) {
		free(bytes);
		return learn_err(err, -EIO, "%s: cannot read all of its %zu bytes", name, len);
	}
	bytes[len] = 0;
	*ret_bytes = bytes;
	*ret_len = len;
	return 0;
}

/* grow -- at least double a buffer, up to the limit; one byte more than *cap is allocated */
static int grow(uint8_t **bytes, size_t *cap)
{
	size_t more = *cap == 0 ? (size_t)1 << 16 : *cap * 2;
	uint8_t *bigger;

	if (*cap >= LEARN_FILE_BYTES_MAX)
		return -EFBIG;
	if (more > LEARN_FILE_BYTES_MAX)
		more = LEARN_FILE_BYTES_MAX;
	bigger = realloc(*bytes, more + 1);
	if (bigger == NULL)
		return -ENOMEM;
	*bytes = bigger;
	*cap = more;
	return 0;
}

/* inflate_all -- run an initialised stream to its end; the caller frees *out in any case */
static int inflate_all(z_stream *stream, uint8_t **out, size_t *ret_len, const char *name,
		       struct learn_line *err)
{
	size_t cap = 0;
	size_t len = 0;
	int z = Z_OK;
	int rc;

	while (z != Z_STREAM_END) {
		size_t room;

		if (len == cap) {
			rc = grow(out, &cap);
			if (rc != 0)
				return learn_err(err, rc, "%s: unpacks to more than %zu bytes, %s",
						 name, cap,
						 rc == -EFBIG ? "the limit" : "out of memory");
		}
		room = cap - len;
		stream->next_out = *out + len;
		stream->avail_out = room > 1u << 30 ? 1u << 30 : (uInt)room;
		room = stream->avail_out;
		z = inflate(stream, Z_NO_FLUSH);
		len += room - stream->avail_out;
		if (z == Z_BUF_ERROR ||
		    (z == Z_OK && stream->avail_in == 0 && stream->avail_out > 0))
			return learn_err(err, -EBADMSG,
					 "%s: gzip stream cut off at byte %lu of the file; "
					 "fetch it again",
					 name, stream->total_in);
		if (z != Z_OK && z != Z_STREAM_END)
			return learn_err(
				err, -EBADMSG,
				"%s: gzip stream damaged before byte %lu of the file (%s); "
				"fetch it again",
				name, stream->total_in,
				stream->msg != NULL ? stream->msg : "no reason given");
	}
	*ret_len = len;
	return 0;
}

/* gunzip -- replace file's bytes by the uncompressed ones */
static int gunzip(struct learn_file *file, struct learn_line *err)
{
	z_stream stream = { .next_in = file->bytes, .avail_in = (uInt)file->len };
	uint8_t *out = NULL;
	size_t len = 0;
	int rc;

	if (inflateInit2(&stream, 15 + 16) != Z_OK) /* largest window; gzip header only */
		return learn_err(err, -ENOMEM, "%s: out of memory", file->path);
	rc = inflate_all(&stream, &out, &len, file->path, err);
	if (rc == 0 && stream.avail_in > 0)
		rc = learn_err(err, -EBADMSG,
			       "%s: %u bytes after the gzip stream's end at byte %lu of the file; "
			       "fetch it again",
			       file->path, stream.avail_in, stream.total_in);
	(void)inflateEnd(&stream);
	if (rc != 0) {
		free(out);
		return rc;
	}
	free(file->bytes);
	out[len] = 0;
	file->bytes = out;
	file->len = len;
	return 0;
}

int learn_file_load(const char *path, struct learn_file *ret_file, struct learn_line *err)
{
	struct learn_file file = { 0 };
	FILE *stream = NULL;
	int rc;

	rc = open_either(path, &stream, &file.path, err);
	if (rc != 0)
		return rc;
	rc = read_whole(stream, file.path, &file.bytes, &file.len, err);
	(void)fclose(stream);
	if (rc == 0 && file.len >= 2 && file.bytes[0] == 0x1f && file.bytes[1] == 0x8b)
		rc = gunzip(&file, err);
	if (rc != 0) {
		learn_file_fini(&file);
		return rc;
	}
	*ret_file = file;
	return 0;
}

struct learn_cursor learn_cursor_at(const struct learn_file *file, struct learn_line *err)
{
	return (struct learn_cursor){
		.file = file, .at = (const char *)file->bytes, .line = 1, .err = err
	};
}

int learn_cursor_bad(const struct learn_cursor *c, const char *what)
{
	return learn_err(c->err, -EBADMSG, "%s: line %zu, offset %td: %s", c->file->path, c->line,
			 c->at - (const char *)c->file->bytes, what);
}

bool learn_cursor_end(const struct learn_cursor *c)
{
	return c->at == (const char *)c->file->bytes + c->file->len;
}

int learn_cursor_number(struct learn_cursor *c, double *ret_value)
{
	char *end;
	double value;

	if (strchr("+-.0123456789", *c->at) == NULL || *c->at == 0)
		return learn_cursor_bad(c, "a number is expected");
	value = strtod(c->at, &end);
	if (end == c->at || !(fabs(value) <= (double)FLT_MAX))
		return learn_cursor_bad(c, "the number is malformed or too large for a float");
	c->at = end;
	*ret_value = value;
	return 0;
}

int learn_cursor_whole(struct learn_cursor *c, const char *name, uint32_t min, uint32_t max,
		       uint32_t *ret_value)
{
	struct learn_cursor start = *c;
	double value = 0;
	char what[96];
	int rc = learn_cursor_number(c, &value);

	if (rc != 0)
		return rc;
	if (value != floor(value) || value < min || value > max) {
		(void)snprintf(what, sizeof(what), "%s is not a whole number from %u to %u", name,
			       min, max);
		return learn_cursor_bad(&start, what);
	}
	*ret_value = (uint32_t)value;
	return 0;
}

int learn_cursor_newline(struct learn_cursor *c)
{
	size_t lines = 0;

	for (;; c->at++) {
		if (*c->at == '\n') {
			c->line++;
			lines++;
		} else if (*c->at != ' ' && *c->at != '\t' && *c->at != '\r') {
			break;
		}
	}
	if (lines == 0 && !learn_cursor_end(c))
		return learn_cursor_bad(c, "the end of the line is expected");
	return 0;
}

int learn_args_parse(const char *what, const struct ol_conf_field *fields, size_t field_count,
		     const char *args, void *target, struct learn_line *err)
{
	char why[256];

	if (*args == 0 || ol_conf_words(fields, field_count, args, target, why, sizeof(why)) == 0)
		return 0;
	return learn_err(err, -EINVAL, "%s: %s", what, why);
}
