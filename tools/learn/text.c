/* SPDX-License-Identifier: BSD-3-Clause */

/* text.c -- reads numbers from text files, and from key=value */

#include "learn/source.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
