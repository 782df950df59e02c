/* SPDX-License-Identifier: BSD-3-Clause */

/* tensor.c -- the table of a job's tensors: read, judged, compared */

#include "wire/tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outlast_tensor.h"

static const char type_f32[] = "F32 ", other[] = "= ", not_a_tensor[] = "__metadata__";

enum {
	SHAPE_TEXT_MAX = OL_TENSOR_DIMS_MAX * 21 + 1,
	DIFFERENCE_MAX = 192
};

uint32_t ol_tensors_bytes(const char *table)
{
	return table != NULL ? (uint32_t)ol_round_up(strlen(table) + 1, OL_LINE_BYTES) : 0;
}

int ol_tensors_digest(const char *table, uint64_t *ret_digest)
{
	uint8_t sum[EVP_MAX_MD_SIZE];
	unsigned bytes = 0;

	*ret_digest = 0;
	if (table == NULL)
		return 0;
	if (EVP_Digest(table, strlen(table), sum, &bytes, EVP_sha256(), NULL) != 1)
		return -EIO;
	memcpy(ret_digest, sum, sizeof(*ret_digest));
	return 0;
}

void ol_tensors_put(const struct ol_geometry *geo, void *content, const char *table)
{
	uint8_t *at = (uint8_t *)content + ol_layout_tensors_off(geo);
	size_t bytes = table != NULL ? strlen(table) : 0, same = 0;

	if (bytes >= geo->tensors_bytes)
		bytes = 0;
	while (same < geo->tensors_bytes && at[same] == (same < bytes ? (uint8_t)table[same] : 0))
		same++;
	if (same == geo->tensors_bytes)
		return;
	if (bytes > 0)
		memmove(at, table, bytes); /* it may be the same place */
	memset(at + bytes, 0, geo->tensors_bytes - bytes);
}

const char *ol_tensors_of(const struct ol_geometry *geo, const void *content)
{
	const char *at = (const char *)content + ol_layout_tensors_off(geo);

	if (geo->tensors_bytes == 0 || at[geo->tensors_bytes - 1] != '\0' || at[0] == '\0')
		return NULL;
	return at;
}

/* Digits; false: none, or more than a job can have */
static bool number_take(const char **at, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (**at < '0' || **at > '9')
		return false;
	for (; **at >= '0' && **at <= '9'; ++*at) {
		value = value * 10 + (uint64_t)(**at - '0');
		if (value > OL_PARAM_COUNT_MAX)
			return false;
	}
	*ret_value = value;
	return true;
}

/* "2,3 " or "- " */
static bool shape_take(const char **at, struct ol_tensor *tensor)
{
	tensor->count = 1;
	tensor->dims = 0;
	if (**at == '-') {
		++*at;
		return *(*at)++ == ' ';
	}
	for (;;) {
		uint64_t size;

		if (tensor->dims == OL_TENSOR_DIMS_MAX || !number_take(at, &size) ||
		    __builtin_mul_overflow(tensor->count, size, &tensor->count) ||
		    tensor->count > OL_PARAM_COUNT_MAX)
			return false;
		tensor->shape[tensor->dims++] = size;
		if (**at != ',')
			break;
		++*at;
	}
	return *(*at)++ == ' ';
}

/* The length of the UTF-8 sequence at p, which is no control character; 0: it is none */
static size_t character(const unsigned char *p)
{
	size_t more = p[0] < 0x80 ? 0 : p[0] < 0xe0 ? 1 : p[0] < 0xf0 ? 2 : 3;

	if (p[0] < 0x20 || p[0] == 0x7f || (p[0] >= 0x80 && p[0] < 0xc2) || p[0] > 0xf4)
		return 0;
	for (size_t i = 1; i <= more; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	/* too long a form, a surrogate, above the last character, or a control character */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f) ||
	    (p[0] == 0xc2 && p[1] < 0xa0))
		return 0;
	return 1 + more;
}

static bool name_take(const char **at, char ret_name[OL_TENSOR_NAME_MAX])
{
	const char *begin = *at;
	size_t len;

	while (**at != '\n') {
		size_t step = character((const unsigned char *)*at);

		if (step == 0) /* the text's end, too */
			return false;
		*at += step;
	}
	len = (size_t)(*at - begin);
	if (len == 0 || len >= OL_TENSOR_NAME_MAX)
		return false;
	memset(ret_name, 0, OL_TENSOR_NAME_MAX);
	memcpy(ret_name, begin, len);
	++*at;
	return true;
}

int ol_tensor_next(const char **at, struct ol_tensor *tensor)
{
	struct ol_tensor next = { .first = tensor->first + tensor->count };

	if (**at == '\0' || strncmp(*at, other, sizeof(other) - 1) == 0)
		return 0;
	if (strncmp(*at, type_f32, sizeof(type_f32) - 1) != 0)
		return -EBADMSG;
	*at += sizeof(type_f32) - 1;
	if (!shape_take(at, &next) || !name_take(at, next.name))
		return -EBADMSG;
	*tensor = next;
	return 1;
}

int ol_tensor_other_next(const char **at, uint64_t *ret_tensor, char ret_name[OL_TENSOR_NAME_MAX])
{
	const char *next = *at;

	if (*next == '\0')
		return 0;
	if (strncmp(next, other, sizeof(other) - 1) != 0)
		return -EBADMSG;
	next += sizeof(other) - 1;
	if (!number_take(&next, ret_tensor) || *next++ != ' ' || !name_take(&next, ret_name))
		return -EBADMSG;
	*at = next;
	return 1;
}

__attribute__((format(printf, 3, 4))) static int say(char *why, size_t why_bytes,
						     const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, why_bytes, format, args);
	va_end(args);
	return 1;
}

static size_t line_len(const char *name)
{
	return (size_t)(strchr(name, '\n') - name);
}

static int names_compare(const void *left, const void *right)
{
	const char *a = *(const char *const *)left, *b = *(const char *const *)right;
	const size_t a_len = line_len(a), b_len = line_len(b);
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

/* Of a table whose lines are right, so many with the other names, each has a name of its own */
static int names_check(const char *table, size_t count, char *why, size_t why_bytes)
{
	const char **names = calloc(count + 1, sizeof(*names));
	char name[OL_TENSOR_NAME_MAX];
	struct ol_tensor tensor = { 0 };
	const char *at = table;
	uint64_t number;
	size_t i = 0;
	int rc = 0;

	if (names == NULL)
		return say(why, why_bytes, "no memory for the names of %zu tensors", count);
	for (; i < count && ol_tensor_next(&at, &tensor) == 1; i++)
		names[i] = at - 1 - strlen(tensor.name);
	for (; i < count && ol_tensor_other_next(&at, &number, name) == 1; i++)
		names[i] = at - 1 - strlen(name);
	qsort(names, count, sizeof(*names), names_compare);
	for (i = 1; i < count && rc == 0; i++) {
		if (names_compare(&names[i - 1], &names[i]) == 0)
			rc = say(why, why_bytes, "tensor \"%.*s\" is there twice",
				 (int)line_len(names[i]), names[i]);
	}
	free(names);
	return rc;
}

/* Behind `count` tensors; *ret_count: how many there are */
static int others_check(const char *at, size_t count, size_t *ret_count, char *why,
			size_t why_bytes)
{
	char name[OL_TENSOR_NAME_MAX];
	uint64_t number;
	size_t found = 0;
	int rc;

	for (; (rc = ol_tensor_other_next(&at, &number, name)) == 1; found++) {
		if (number >= count)
			return say(why, why_bytes,
				   "\"%s\" is another name of tensor %" PRIu64
				   ", and there are %zu",
				   name, number, count);
	}
	*ret_count = found;
	return rc == 0 ? 0
		       : say(why, why_bytes,
			     "line %zu of the table of tensors is none: an equals sign, a tensor's "
			     "number, another name of it of up to %d bytes",
			     count + found + 1, OL_TENSOR_NAME_MAX - 1);
}

int ol_tensor_fault(const char *table, uint64_t param_count, char *why, size_t why_bytes)
{
	struct ol_tensor tensor = { 0 };
	const char *at = table;
	size_t count = 0, others = 0;
	int rc;

	if (strlen(table) >= OL_TENSORS_BYTES_MAX)
		return say(why, why_bytes, "the table of tensors is longer than 2^20 bytes");
	for (; (rc = ol_tensor_next(&at, &tensor)) == 1; count++) {
		if (strcmp(tensor.name, not_a_tensor) == 0)
			return say(
				why, why_bytes,
				"\"%s\" is no tensor's name: .safetensors has another use for it",
				not_a_tensor);
		if (tensor.first + tensor.count > param_count)
			return say(why, why_bytes,
				   "tensor \"%s\" ends at %" PRIu64 ", behind the %" PRIu64
				   " parameters of the job",
				   tensor.name, tensor.first + tensor.count, param_count);
	}
	if (rc != 0)
		return say(why, why_bytes,
			   "line %zu of the table of tensors is none: type F32, sizes of up to %d "
			   "dimensions, a name of up to %d bytes",
			   count + 1, OL_TENSOR_DIMS_MAX, OL_TENSOR_NAME_MAX - 1);
	if (tensor.first + tensor.count != param_count)
		return say(why, why_bytes,
			   "the tensors have %" PRIu64 " parameters, and the job %" PRIu64,
			   tensor.first + tensor.count, param_count);
	if (others_check(at, count, &others, why, why_bytes))
		return 1;
	return names_check(table, count + others, why, why_bytes);
}

static const char *shape_text(const struct ol_tensor *tensor, char text[SHAPE_TEXT_MAX])
{
	size_t len = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < tensor->dims; i++)
		len += (size_t)snprintf(text + len, SHAPE_TEXT_MAX - len, "%s%" PRIu64,
					i > 0 ? "," : "", tensor->shape[i]);
	return text;
}

int ol_tensor_differ(const char *mine, const char *theirs, char *why, size_t why_bytes)
{
	struct ol_tensor a = { 0 }, b = { 0 };
	char shape[2][SHAPE_TEXT_MAX];
	int more, others;

	do {
		more = ol_tensor_next(&mine, &a);
		others = ol_tensor_next(&theirs, &b);
		if (more < 0 || others < 0)
			return say(why, why_bytes, "a table of tensors is damaged");
		if (more == 0 && others == 0)
			return 0;
		if (more == 0)
			return say(why, why_bytes, "tensor \"%s\" is not wanted", b.name);
		if (others == 0)
			return say(why, why_bytes, "tensor \"%s\" is not there", a.name);
		if (strcmp(a.name, b.name) != 0)
			return say(why, why_bytes, "tensor \"%s\" is wanted, and \"%s\" is there",
				   a.name, b.name);
	} while (a.dims == b.dims && memcmp(a.shape, b.shape, sizeof(a.shape)) == 0);
	return say(why, why_bytes, "tensor \"%s\" is (%s), and (%s) is wanted", a.name,
		   shape_text(&b, shape[1]), shape_text(&a, shape[0]));
}

bool ol_tensors_differ(const struct ol_geometry *geo, const void *content, const char *mine,
		       char *why, size_t why_bytes)
{
	const char *theirs = ol_tensors_of(geo, content);
	char difference[DIFFERENCE_MAX];

	if (mine == NULL || theirs == NULL ||
	    !ol_tensor_differ(mine, theirs, difference, sizeof(difference)))
		return false;
	snprintf(why, why_bytes, "it is of a job with other tensors: %s", difference);
	return true;
}
