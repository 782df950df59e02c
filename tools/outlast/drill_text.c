/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_text.c -- growing text, lists as a person writes them, quantiles
 */
#include "outlast/drill_text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool room_make(struct drill_text *text, size_t more)
{
	size_t room = text->room == 0 ? 4096 : text->room;
	char *bytes;

	while (room - text->len <= more)
		room *= 2;
	if (room == text->room)
		return true;
	bytes = realloc(text->bytes, room);
	if (bytes == NULL)
		return false;
	text->bytes = bytes;
	text->room = room;
	return true;
}

void drill_add(struct drill_text *text, const char *format, ...)
{
	va_list list, again;
	int len;

	va_start(list, format);
	va_copy(again, list);
	len = vsnprintf(NULL, 0, format, list);
	if (len < 0 || !room_make(text, (size_t)len)) {
		text->failed = true;
	} else {
		vsnprintf(text->bytes + text->len, text->room - text->len, format, again);
		text->len += (size_t)len;
	}
	va_end(again);
	va_end(list);
}

void drill_text_fini(struct drill_text *text)
{
	free(text->bytes);
	*text = (struct drill_text){ 0 };
}

static bool number_add(struct drill_numbers *numbers, uint64_t value)
{
	for (size_t i = 0; i < numbers->count; i++) {
		if (numbers->value[i] == value)
			return false;
	}
	if (numbers->count == DRILL_LIST_MAX)
		return false;
	numbers->value[numbers->count++] = value;
	return true;
}

static bool number_read(const char **at, uint64_t max, uint64_t *ret_value)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	errno = 0;
	*ret_value = strtoull(*at, &end, 10);
	*at = end;
	return errno == 0 && *ret_value <= max;
}

bool drill_numbers_parse(const char *text, uint64_t max, struct drill_numbers *ret_numbers)
{
	struct drill_numbers numbers = { .count = 0 };
	const char *at = text;

	for (;;) {
		uint64_t first, last;

		if (!number_read(&at, max, &first))
			return false;
		last = first;
		if (strncmp(at, "..", 2) == 0) {
			at += 2;
			if (!number_read(&at, max, &last) || last < first ||
			    last - first >= DRILL_LIST_MAX)
				return false;
		}
		for (uint64_t value = first; value - first <= last - first; value++) {
			if (!number_add(&numbers, value))
				return false;
		}
		if (*at == '\0')
			break;
		if (*at++ != ',')
			return false;
	}
	*ret_numbers = numbers;
	return true;
}

bool drill_item(const char **list, char *word, size_t bytes)
{
	size_t len = strcspn(*list, ",");

	if (**list == '\0')
		return false;
	snprintf(word, bytes, "%.*s", (int)len, *list);
	*list += len;
	if (**list == ',')
		(*list)++;
	return true;
}

static int ascending(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

double drill_quantile(double *values, size_t count, double q)
{
	double rank = ceil(q * (double)count);

	if (count == 0)
		return NAN;
	qsort(values, count, sizeof(*values), ascending);
	return values[rank < 1.0 ? 0 : (size_t)rank - 1];
}
