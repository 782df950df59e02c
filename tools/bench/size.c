/* SPDX-License-Identifier: BSD-3-Clause */

/* size.c -- message sizes: lists of them as text, and back */

#include "bench/size.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"

static int refuse(const char *word, size_t len, const char *why, char *err, size_t err_bytes)
{
	snprintf(err, err_bytes, "size \"%.*s\": %s", (int)(len < 40 ? len : 40), word, why);
	return -EINVAL;
}

static int size_parse(const char *word, size_t len, uint64_t *ret_bytes, char *err,
		      size_t err_bytes)
{
	static const struct ol_conf_field size = { .type = OL_CONF_SIZE,
						   .min = BENCH_SIZE_MIN,
						   .max = BENCH_SIZE_MAX };
	char text[32];

	if (len < sizeof(text)) {
		snprintf(text, sizeof(text), "%.*s", (int)len, word);
		if (ol_conf_value_parse(&size, text, ret_bytes) == 0 &&
		    *ret_bytes % BENCH_SIZE_MIN == 0)
			return 0;
	}
	return refuse(word, len,
		      "not a size like 64, 4K or 1MiB: a multiple of 4 bytes, at most 16 GiB", err,
		      err_bytes);
}

static int sizes_add(struct bench_sizes *sizes, uint64_t bytes, char *err, size_t err_bytes)
{
	if (sizes->count == BENCH_SIZES_MAX) {
		snprintf(err, err_bytes, "more than %d sizes", BENCH_SIZES_MAX);
		return -EINVAL;
	}
	sizes->bytes[sizes->count++] = bytes;
	return 0;
}

/* One word of the list: a size, or "from..to" */
static int word_parse(struct bench_sizes *sizes, const char *word, size_t len, char *err,
		      size_t err_bytes)
{
	const char *dots = memmem(word, len, "..", 2);
	size_t head = dots != NULL ? (size_t)(dots - word) : len;
	uint64_t from = 0, to;
	int rc = size_parse(word, head, &from, err, err_bytes);

	to = from;
	if (rc == 0 && dots != NULL)
		rc = size_parse(dots + 2, len - head - 2, &to, err, err_bytes);
	if (rc == 0 && to < from)
		return refuse(word, len, "ends below where it begins", err, err_bytes);
	for (; rc == 0 && from <= to; from *= 2)
		rc = sizes_add(sizes, from, err, err_bytes);
	return rc;
}

int bench_sizes_parse(const char *text, struct bench_sizes *ret_sizes, char *err, size_t err_bytes)
{
	struct bench_sizes sizes = { 0 };
	const char *at = text;

	for (;;) {
		size_t len = strcspn(at, ",");
		int rc = word_parse(&sizes, at, len, err, err_bytes);

		if (rc != 0)
			return rc;
		if (at[len] == '\0')
			break;
		at += len + 1;
	}
	*ret_sizes = sizes;
	return 0;
}

void bench_size_format(uint64_t bytes, char text[BENCH_SIZE_TEXT_MAX])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	uint64_t one = 1;
	unsigned unit = 0;

	for (; unit < 3 && bytes / one >= 1024; unit++)
		one *= 1024;
	if (bytes % one == 0)
		snprintf(text, BENCH_SIZE_TEXT_MAX, "%llu %s", (unsigned long long)(bytes / one),
			 units[unit]);
	else
		snprintf(text, BENCH_SIZE_TEXT_MAX, "%.2f %s", (double)bytes / (double)one,
			 units[unit]);
}
