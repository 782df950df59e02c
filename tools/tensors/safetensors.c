/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * safetensors.c -- the header of a .safetensors file: its length in 8 bytes, then a JSON object
 *
 *	{"__metadata__": {"name": "text"},
 *	 "layer.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
 *
 * Offsets count from the end of the header. The tensors cover what follows it: in whatever order the
 * object names them, there is neither a gap nor an overlap.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outlast_tensor.h"
#include "tensors/form.h"

enum {
	LENGTH_BYTES = 8,
	HEADER_MAX = 1 << 24,
	ALIGN = 8, /* of the numbers in a file that is written */
	SHOWN_MAX = 80 /* of a tensor's name in an error line */
};

static const char metadata_name[] = "__metadata__", own_format[] = "outlast";

/* One tensor's bytes, counted from the end of the header */
struct span {
	const char *name;
	const json_t *shape;
	uint64_t begin;
	uint64_t end;
	size_t place; /* in the header */
};

static int bad(const struct tensors_line *err, const char *name, const char *what)
{
	return tensors_err(err, -EBADMSG, "tensor \"%.*s\" %s", SHOWN_MAX, name, what);
}

/* A whole number that is not below 0 */
static bool number(const json_t *json, uint64_t *ret_value)
{
	if (!json_is_integer(json) || json_integer_value(json) < 0)
		return false;
	*ret_value = (uint64_t)json_integer_value(json);
	return true;
}

/* The bytes that a shape takes; false: it is none, or of more than a job can have */
static bool shape_bytes(const json_t *shape, uint64_t *ret_bytes)
{
	uint64_t count = 1, size;

	if (!json_is_array(shape))
		return false;
	for (size_t i = 0; i < json_array_size(shape); i++) {
		if (!number(json_array_get(shape, i), &size) ||
		    __builtin_mul_overflow(count, size, &count) || count > OL_TENSORS_COUNT_MAX)
			return false;
	}
	*ret_bytes = count * sizeof(float);
	return true;
}

static int tensor_read(const char *name, const json_t *tensor, uint64_t data_bytes,
		       struct span *ret_span, const struct tensors_line *err)
{
	const char *dtype = json_string_value(json_object_get(tensor, "dtype"));
	const json_t *offsets = json_object_get(tensor, "data_offsets");
	struct span span = { .name = name, .shape = json_object_get(tensor, "shape") };
	uint64_t bytes;

	if (dtype == NULL)
		return bad(err, name, "has no dtype");
	if (strcmp(dtype, "F32") != 0)
		return tensors_err(err, -EBADMSG,
				   "tensor \"%.*s\" is of type %.16s: only F32 is taken; convert "
				   "it first",
				   SHOWN_MAX, name, dtype);
	if (!shape_bytes(span.shape, &bytes))
		return bad(err, name, "has no shape, or one that a job cannot have");
	if (json_array_size(offsets) != 2 || !number(json_array_get(offsets, 0), &span.begin) ||
	    !number(json_array_get(offsets, 1), &span.end) || span.begin > span.end)
		return bad(err, name, "has no data_offsets that are two numbers in order");
	if (span.end > data_bytes)
		return bad(err, name, "reaches beyond the file's end: the file was cut off");
	if (span.end - span.begin != bytes)
		return bad(err, name, "has data_offsets that do not fit its shape");
	*ret_span = span;
	return 0;
}

static int metadata_check(json_t *metadata, const struct tensors_line *err)
{
	const char *name;
	json_t *value;
	bool fine = json_is_object(metadata);

	json_object_foreach(metadata, name, value) fine = fine && json_is_string(value);
	return fine ? 0 : tensors_err(err, -EBADMSG, "its __metadata__ are not texts with names");
}

/* The version that the program's own files tell */
static void version_take(const json_t *metadata, struct tensors_place *place)
{
	const char *format = json_string_value(json_object_get(metadata, "format"));
	const char *said = json_string_value(json_object_get(metadata, "version"));
	char *end;

	if (format == NULL || strcmp(format, own_format) != 0 || said == NULL)
		return;
	place->says_version = true;
	errno = 0;
	place->version = strtoull(said, &end, 10);
	if (*said < '0' || *said > '9' || *end != '\0' || errno != 0)
		place->version = UINT64_MAX;
}

static int compare(const void *left, const void *right)
{
	const struct span *a = left, *b = right;

	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	if (a->end != b->end)
		return a->end < b->end ? -1 : 1;
	return a->place < b->place ? -1 : 1; /* both are empty */
}

/* The tensors lie one behind the other, and fill what follows the header. */
static int cover_check(struct span *spans, size_t count, uint64_t data_bytes,
		       const struct tensors_line *err)
{
	uint64_t end = 0;

	qsort(spans, count, sizeof(*spans), compare);
	for (size_t i = 0; i < count; i++) {
		if (spans[i].begin < end)
			return bad(err, spans[i].name, "overlaps the one before it");
		if (spans[i].begin > end)
			return bad(err, spans[i].name, "leaves a gap behind the one before it");
		end = spans[i].end;
	}
	if (end != data_bytes)
		return tensors_err(err, -EBADMSG,
				   "its tensors have %" PRIu64 " bytes, and %" PRIu64
				   " follow its header: something was added",
				   end, data_bytes);
	return 0;
}

static void line_put(FILE *to, const struct span *span)
{
	fputs("F32 ", to);
	for (size_t i = 0; i < json_array_size(span->shape); i++)
		fprintf(to, "%s%" JSON_INTEGER_FORMAT, i > 0 ? "," : "",
			json_integer_value(json_array_get(span->shape, i)));
	fprintf(to, "%s %s\n", json_array_size(span->shape) == 0 ? "-" : "", span->name);
}

/* What the library saves a model with, where tensors share their numbers: {"other": "name"}. The
 * program's own words, and what is no name, are none */
static bool is_other(const json_t *header, const char *key, const char *name)
{
	static const char *const words[] = { "format", "version", "epoch", "job", metadata_name };
	const size_t len = strlen(key);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(key, words[i]) == 0)
			return false;
	}
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)key[i], next = (unsigned char)key[i + 1];

		if (c < ' ' || c == 0x7f || (c == 0xc2 && next < 0xa0)) /* a control character */
			return false;
	}
	return len > 0 && len < OL_TENSOR_NAME_MAX && json_object_get(header, key) == NULL &&
	       strcmp(name, metadata_name) != 0 && json_object_get(header, name) != NULL;
}

static void others_put(FILE *to, json_t *header, const struct span *spans, size_t count)
{
	const char *key;
	json_t *value;

	json_object_foreach(json_object_get(header, metadata_name), key, value)
	{
		const char *name = json_string_value(value);

		if (name == NULL || !is_other(header, key, name))
			continue;
		for (size_t i = 0; i < count; i++) {
			if (strcmp(spans[i].name, name) == 0)
				fprintf(to, "= %zu %s\n", i, key);
		}
	}
}

/* The table of tensors of spans in order */
static int table_make(json_t *header, const struct span *spans, size_t count, uint64_t floats,
		      char **ret_table, const struct tensors_line *err)
{
	char why[OL_TENSOR_NAME_MAX + 128] = "", *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);

	if (to == NULL)
		return tensors_err(err, -ENOMEM, "no memory for its list of tensors");
	for (size_t i = 0; i < count; i++)
		line_put(to, &spans[i]);
	others_put(to, header, spans, count);
	if (fclose(to) != 0) {
		free(text);
		return tensors_err(err, -ENOMEM, "no memory for its list of tensors");
	}
	if (ol_tensor_fault(text, floats, why, sizeof(why))) {
		free(text);
		return tensors_err(err, -EBADMSG, "%s", why);
	}
	*ret_table = text;
	return 0;
}

static int tensors_read(json_t *header, uint64_t data_bytes, char **ret_table,
			const struct tensors_line *err)
{
	struct span *spans = calloc(json_object_size(header) + 1, sizeof(*spans));
	size_t count = 0;
	const char *name;
	json_t *value;
	int rc = 0;

	if (spans == NULL)
		return tensors_err(err, -ENOMEM, "no memory for its list of tensors");
	json_object_foreach(header, name, value)
	{
		if (rc != 0)
			break;
		if (strcmp(name, metadata_name) == 0) {
			rc = metadata_check(value, err);
			continue;
		}
		rc = tensor_read(name, value, data_bytes, &spans[count], err);
		spans[count].place = count;
		count++;
	}
	if (rc == 0)
		rc = cover_check(spans, count, data_bytes, err);
	if (rc == 0 && count > 0)
		rc = table_make(header, spans, count, data_bytes / sizeof(float), ret_table, err);
	free(spans);
	return rc;
}

/* The JSON object, whose text is read into memory of its length once that is known to be there */
static int header_read(const struct tensors_file *file, uint64_t *ret_bytes, json_t **ret_header,
		       const struct tensors_line *err)
{
	uint8_t length[LENGTH_BYTES] = { 0 };
	json_error_t why;
	uint64_t bytes = 0;
	char *text;
	int rc;

	if (file->bytes < LENGTH_BYTES)
		return tensors_err(err, -EBADMSG, "is too short for a .safetensors file");
	rc = tensors_read_at(file->fd, length, LENGTH_BYTES, 0, err);
	if (rc != 0)
		return rc;
	for (unsigned i = 0; i < LENGTH_BYTES; i++)
		bytes |= (uint64_t)length[i] << (8 * i);
	if (bytes > file->bytes - LENGTH_BYTES || bytes > HEADER_MAX)
		return tensors_err(err, -EBADMSG, "says that its header has %" PRIu64 " bytes: %s",
				   bytes,
				   bytes > file->bytes - LENGTH_BYTES ? "the file is shorter"
								      : "at most 2^24 are taken");
	text = malloc(bytes + 1);
	if (text == NULL)
		return tensors_err(err, -ENOMEM, "no memory for its header");
	rc = tensors_read_at(file->fd, text, bytes, LENGTH_BYTES, err);
	if (rc == 0) {
		*ret_header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
		if (*ret_header == NULL)
			rc = tensors_err(err, -EBADMSG, "its header is not JSON: %s (byte %d)",
					 why.text, why.position);
	}
	free(text);
	*ret_bytes = bytes;
	return rc;
}

static int parse(const struct tensors_file *file, struct tensors_place *ret_place,
		 const struct tensors_line *err)
{
	json_t *header = NULL;
	uint64_t bytes, data_bytes;
	char *table = NULL;
	int rc = header_read(file, &bytes, &header, err);

	if (rc != 0)
		return rc;
	data_bytes = file->bytes - LENGTH_BYTES - bytes;
	if (!json_is_object(header))
		rc = tensors_err(err, -EBADMSG, "its header is no JSON object");
	else
		rc = tensors_read(header, data_bytes, &table, err);
	if (rc == 0) {
		*ret_place = (struct tensors_place){ .at = LENGTH_BYTES + bytes,
						     .count = data_bytes / sizeof(float),
						     .table = table };
		version_take(json_object_get(header, metadata_name), ret_place);
	}
	json_decref(header);
	return rc;
}

/* {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} */
static json_t *tensor_json(const struct ol_tensor *tensor)
{
	json_t *shape = json_array();

	for (uint32_t i = 0; i < tensor->dims; i++)
		json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
	return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
			 (json_int_t)(tensor->first * sizeof(float)),
			 (json_int_t)((tensor->first + tensor->count) * sizeof(float)));
}

/* As the library does: {"other": "name"}, unless something else is said under that name */
static int others_json(json_t *metadata, const char *table, const char *at)
{
	char name[OL_TENSOR_NAME_MAX];
	uint64_t number;
	int rc = 0;

	while (rc == 0 && ol_tensor_other_next(&at, &number, name) == 1) {
		struct ol_tensor tensor = { 0 };
		const char *of = table;

		for (uint64_t i = 0; i <= number; i++)
			(void)ol_tensor_next(&of, &tensor);
		if (json_object_get(metadata, name) == NULL)
			rc = json_object_set_new(metadata, name, json_string(tensor.name));
	}
	return rc;
}

/* The job's name may have any bytes; what is no UTF-8 is left out. */
static json_t *about_json(uint64_t count, const struct ol_tensors_about *about)
{
	struct ol_tensor tensor = {
		.name = "weights", .count = count, .dims = 1, .shape = { count }
	};
	const char *at = about->table;
	char version[24], epoch[16];
	json_t *job = about->job != NULL ? json_string(about->job) : NULL;
	json_t *json;
	int rc = 0;

	snprintf(version, sizeof(version), "%" PRIu64, about->version);
	snprintf(epoch, sizeof(epoch), "%" PRIu32, about->epoch);
	json = json_pack("{s:{s:s, s:s, s:s, s:o*}}", metadata_name, "format", own_format,
			 "version", version, "epoch", epoch, "job", job);
	if (at == NULL)
		rc = json_object_set_new(json, tensor.name, tensor_json(&tensor));
	else
		memset(&tensor, 0, sizeof(tensor));
	while (at != NULL && rc == 0 && ol_tensor_next(&at, &tensor) == 1)
		rc = json_object_set_new(json, tensor.name, tensor_json(&tensor));
	if (at != NULL && rc == 0)
		rc = others_json(json_object_get(json, metadata_name), about->table, at);
	if (rc == 0)
		return json;
	json_decref(json); /* no memory */
	return NULL;
}

static int header(uint64_t count, const struct ol_tensors_about *about, char **ret_bytes,
		  size_t *ret_count)
{
	json_t *json = about_json(count, about);
	char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
	size_t len = text != NULL ? strlen(text) : 0;
	size_t padded = (len + ALIGN - 1) / ALIGN * ALIGN;
	char *made = text != NULL ? malloc(LENGTH_BYTES + padded) : NULL;

	json_decref(json);
	if (made != NULL) {
		memset(made, ' ', LENGTH_BYTES + padded);
		for (unsigned i = 0; i < LENGTH_BYTES; i++)
			made[i] = (char)((uint64_t)padded >> (8 * i) & 0xff);
		memcpy(made + LENGTH_BYTES, text, len);
		*ret_bytes = made;
		*ret_count = LENGTH_BYTES + padded;
	}
	free(text);
	return made != NULL ? 0 : -ENOMEM;
}

const struct tensors_form tensors_safetensors = { .ending = ".safetensors",
						  .parse = parse,
						  .header = header };
