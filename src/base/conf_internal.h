/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conf_internal.h -- shared by the parts of conf
 */
#ifndef OL_BASE_CONF_INTERNAL_H
#define OL_BASE_CONF_INTERNAL_H

#include "base/conf.h"

enum ol_conf_source {
	OL_CONF_FROM_DEFAULT,
	OL_CONF_FROM_FILE,
	OL_CONF_FROM_ENV,
	OL_CONF_FROM_ARGS,
	OL_CONF_FROM_PROGRAM,
};

/* The place of a value, for error lines. */
struct ol_conf_where {
	enum ol_conf_source source;
	unsigned line; /* of the file, from 1 */
	unsigned file; /* index of the file */
};

struct ol_conf {
	const struct ol_conf_spec *spec;
	void *target;
	char *file_names[OL_CONF_FILES_MAX]; /* owned; of files, as they were read */
	unsigned file_count;
	const char **arguments; /* owned; the words are argv's */
	unsigned argument_count;
	char *texts[OL_CONF_FIELDS_MAX]; /* owned; STR members point to them */
	struct ol_conf_where where[OL_CONF_FIELDS_MAX];
	char error[OL_CONF_ERROR_MAX];
};

/* ol_conf_value_want -- the expected value: "a number between 1 and 64" */
void ol_conf_value_want(const struct ol_conf_field *field, char *buf, size_t buf_bytes);

/* ol_conf_value_range -- "1 to 64", for --help; "" if there is none */
void ol_conf_value_range(const struct ol_conf_field *field, char *buf, size_t buf_bytes);

/* ol_conf_value_format -- target's member as text; "" for a NULL string */
void ol_conf_value_format(const struct ol_conf_field *field, const void *target, char *buf,
			  size_t buf_bytes);

/* ol_conf_nearest -- the known name nearest to an unknown one; NULL: none is near */
const char *ol_conf_nearest(const struct ol_conf_spec *spec, const char *name);

#endif /* OL_BASE_CONF_INTERNAL_H */
