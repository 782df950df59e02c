/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * npy.c -- the header of a .npy file: magic, format, and a dictionary in Python's spelling
 *
 *	offset  size  part
 *	0       6     magic
 *	6       2     format: 1.0, 2.0 or 3.0
 *	8       2, 4  bytes of the dictionary: four of them from format 2.0 on
 *	…       …     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *	…       …     the numbers
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensors/form.h"

#define MAGIC "\x93NUMPY"

enum {
	MAGIC_BYTES = 6,
	START_BYTES = 12, /* the longest part before the dictionary */
	HEADER_MAX = 1 << 16,
	ALIGN = 64, /* of the numbers in a file that is written */
	SHOWN_MAX = 24 /* of a wrong value in an error line */
};

enum key {
	KEY_DESCR = 1 << 0,
	KEY_ORDER = 1 << 1,
	KEY_SHAPE = 1 << 2,
	KEY_ALL = KEY_DESCR | KEY_ORDER | KEY_SHAPE
};

/* The dictionary while it is read */
struct cursor {
	const char *at;
	const char *end;
	const struct tensors_line *err;
	uint64_t count; /* of the shape */
	unsigned seen; /* of enum key */
};

static int bad(const struct cursor *c, const char *what)
{
	return tensors_err(c->err, -EBADMSG, "the header of the .npy file %s; save it again", what);
}

/* The next byte that is no blank, and stays; 0: the end */
static char peek(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
		c->at++;
	return c->at < c->end ? *c->at : '\0';
}

static bool take(struct cursor *c, char wanted)
{
	if (peek(c) != wanted || c->at == c->end)
		return false;
	c->at++;
	return true;
}

static bool take_word(struct cursor *c, const char *word)
{
	size_t len = strlen(word);

	(void)peek(c);
	if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
		return false;
	c->at += len;
	return true;
}

/* 'text' or "text", without escapes */
static bool take_text(struct cursor *c, const char **ret_text, size_t *ret_len)
{
	char quote = peek(c);
	const char *begin, *end;

	if (quote != '\'' && quote != '"')
		return false;
	begin = c->at + 1;
	end = memchr(begin, quote, (size_t)(c->end - begin));
	if (end == NULL)
		return false;
	*ret_text = begin;
	*ret_len = (size_t)(end - begin);
	c->at = end + 1;
	return true;
}

/* Digits; more than a job can have is a number that is too large */
static int take_number(struct cursor *c, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (peek(c) < '0' || peek(c) > '9')
		return bad(c, "has a shape that is no list of numbers");
	for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
		value = value * 10 + (uint64_t)(*c->at - '0');
		if (value > OL_TENSORS_COUNT_MAX)
			return tensors_err(c->err, -EBADMSG,
					   "its shape is of more than 2^40 numbers: a job cannot "
					   "have so many");
	}
	*ret_value = value;
	return 0;
}

static int shape_read(struct cursor *c)
{
	uint64_t size = 0, dims = 0;
	bool comma = false;

	c->count = 1;
	if (!take(c, '('))
		return bad(c, "has a shape that is no tuple");
	for (; !take(c, ')'); dims++) {
		int rc;

		if (dims > 0 && !comma)
			return bad(c, "has a shape that is no tuple");
		rc = take_number(c, &size);
		if (rc != 0)
			return rc;
		if (__builtin_mul_overflow(c->count, size, &c->count) ||
		    c->count > OL_TENSORS_COUNT_MAX)
			return tensors_err(c->err, -EBADMSG,
					   "its shape is of more than 2^40 numbers: a job cannot "
					   "have so many");
		comma = take(c, ',');
	}
	return dims == 1 && !comma ? bad(c, "has a shape that is no tuple") : 0;
}

static int descr_read(struct cursor *c)
{
	const char *text;
	size_t len;

	if (!take_text(c, &text, &len))
		return tensors_err(c->err, -EBADMSG,
				   "its elements are records: only numbers of type float32 are "
				   "taken");
	if (len == 3 && memcmp(text, "<f4", 3) == 0)
		return 0;
	return tensors_err(c->err, -EBADMSG,
			   "its elements are of type %.*s: only little-endian float32 (<f4) is "
			   "taken; save it with .astype('<f4')",
			   (int)(len < SHOWN_MAX ? len : SHOWN_MAX), text);
}

static int order_read(struct cursor *c)
{
	if (take_word(c, "False"))
		return 0;
	if (take_word(c, "True"))
		return tensors_err(c->err, -EBADMSG,
				   "it is in Fortran order: save it in C order, with "
				   "numpy.ascontiguousarray()");
	return bad(c, "has a fortran_order that is neither True nor False");
}

static int entry_read(struct cursor *c)
{
	static const struct {
		const char *name;
		enum key key;
		int (*read)(struct cursor *c);
	} keys[] = { { "descr", KEY_DESCR, descr_read },
		     { "fortran_order", KEY_ORDER, order_read },
		     { "shape", KEY_SHAPE, shape_read } };
	const char *text;
	size_t len;

	if (!take_text(c, &text, &len) || !take(c, ':'))
		return bad(c, "is no dictionary");
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (len != strlen(keys[i].name) || memcmp(text, keys[i].name, len) != 0)
			continue;
		if ((c->seen & keys[i].key) != 0)
			return bad(c, "has a key twice");
		c->seen |= keys[i].key;
		return keys[i].read(c);
	}
	return bad(c, "has a key that is none of descr, fortran_order and shape");
}

static int dictionary_read(struct cursor *c)
{
	bool more = true;

	if (!take(c, '{'))
		return bad(c, "is no dictionary");
	while (!take(c, '}')) {
		int rc = more ? entry_read(c) : bad(c, "is no dictionary");

		if (rc != 0)
			return rc;
		more = take(c, ',');
	}
	if (peek(c) != '\0' || c->at != c->end)
		return bad(c, "goes on behind its dictionary");
	return c->seen == KEY_ALL ? 0 : bad(c, "lacks one of descr, fortran_order and shape");
}

/* The part before the dictionary: where that begins, and its length */
static int start_read(const struct tensors_file *file, uint32_t *ret_at, uint32_t *ret_bytes,
		      const struct tensors_line *err)
{
	uint8_t start[START_BYTES] = { 0 };
	uint64_t have = file->bytes < START_BYTES ? file->bytes : START_BYTES;
	uint32_t at, bytes;
	int rc = tensors_read_at(file->fd, start, have, 0, err);

	if (rc != 0)
		return rc;
	if (have < START_BYTES || memcmp(start, MAGIC, MAGIC_BYTES) != 0)
		return tensors_err(err, -EBADMSG, "does not begin as a .npy file does");
	if (start[6] < 1 || start[6] > 3 || start[7] != 0)
		return tensors_err(err, -EBADMSG,
				   "is of format %u.%u of .npy files: 1.0 to 3.0 are known",
				   start[6], start[7]);
	bytes = start[8] | (uint32_t)start[9] << 8;
	if (start[6] > 1)
		bytes |= (uint32_t)start[10] << 16 | (uint32_t)start[11] << 24;
	at = start[6] > 1 ? 12 : 10;
	if (bytes > HEADER_MAX || bytes > file->bytes - at)
		return tensors_err(
			err, -EBADMSG, "says that its header has %" PRIu32 " bytes: %s", bytes,
			bytes > HEADER_MAX ? "at most 65536 are taken" : "the file is shorter");
	*ret_at = at;
	*ret_bytes = bytes;
	return 0;
}

static int parse(const struct tensors_file *file, struct tensors_place *ret_place,
		 const struct tensors_line *err)
{
	char text[HEADER_MAX];
	uint32_t at = 0, bytes = 0;
	struct cursor c = { .at = text, .err = err };
	int rc = start_read(file, &at, &bytes, err);

	if (rc == 0)
		rc = tensors_read_at(file->fd, text, bytes, at, err);
	if (rc != 0)
		return rc;
	c.end = text + bytes;
	rc = dictionary_read(&c);
	if (rc != 0)
		return rc;
	if (file->bytes - at - bytes != c.count * sizeof(float))
		return tensors_err(err, -EBADMSG,
				   "its shape is of %" PRIu64 " bytes of numbers, and %" PRIu64
				   " are there: it was cut off, or something was added",
				   c.count * sizeof(float), file->bytes - at - bytes);
	*ret_place = (struct tensors_place){ .at = at + bytes, .count = c.count };
	return 0;
}

/* As NumPy writes it for an array of one dimension, byte for byte */
static int header(uint64_t count, const struct ol_tensors_about *about, char **ret_bytes,
		  size_t *ret_count)
{
	char text[2 * ALIGN];
	int len = snprintf(text, sizeof(text),
			   "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ",), }",
			   count);
	size_t start = MAGIC_BYTES + 4;
	size_t bytes = (start + (size_t)len + 1 + ALIGN - 1) / ALIGN * ALIGN;
	char *made = malloc(bytes);

	(void)about;
	if (made == NULL)
		return -ENOMEM;
	memset(made, ' ', bytes);
	memcpy(made, MAGIC "\x01\x00", MAGIC_BYTES + 2);
	made[8] = (char)((bytes - start) & 0xff);
	made[9] = (char)((bytes - start) >> 8);
	memcpy(made + start, text, (size_t)len);
	made[bytes - 1] = '\n';
	*ret_bytes = made;
	*ret_count = bytes;
	return 0;
}

const struct tensors_form tensors_npy = { .ending = ".npy", .parse = parse, .header = header };
