/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conf_help.c -- --help, the settings in force, and a suggestion for an unknown name
 */
#include "base/conf_internal.h"

#include <string.h>

enum {
	COLUMNS = 100,
	OPTION_COLUMNS_MAX = 36,
	DEFAULT_COLUMNS_MAX = 18,
	CELL_MAX = 128
};

static const char *metavar(const struct ol_conf_field *field)
{
	switch (field->type) {
	case OL_CONF_U32:
	case OL_CONF_U64:
		return " N";
	case OL_CONF_F64:
		return " X";
	case OL_CONF_STR:
		return " TEXT";
	case OL_CONF_CHOICE:
		return " NAME";
	case OL_CONF_SIZE:
		return " SIZE";
	case OL_CONF_DURATION:
		return " TIME";
	case OL_CONF_BOOL:
	case OL_CONF_GROUP:
		break;
	}
	return "";
}

static void option_cell(const struct ol_conf_field *field, char cell[CELL_MAX])
{
	snprintf(cell, CELL_MAX, "--%s%s", field->name, metavar(field));
	for (char *at = cell; *at != '\0'; at++) {
		if (*at == '_')
			*at = '-';
	}
}

static const char *default_cell(const struct ol_conf_field *field)
{
	return field->dflt == NULL || field->dflt[0] == '\0' ? "-" : field->dflt;
}

static int column_width(const struct ol_conf_spec *spec, bool options)
{
	char cell[CELL_MAX];
	int width = options ? (int)strlen("--config TEXT") : (int)strlen("default");
	int most = options ? OPTION_COLUMNS_MAX : DEFAULT_COLUMNS_MAX;

	for (size_t i = 0; i < spec->field_count; i++) {
		const struct ol_conf_field *field = &spec->fields[i];
		int len;

		if (field->type == OL_CONF_GROUP)
			continue;
		option_cell(field, cell);
		len = (int)strlen(options ? cell : default_cell(field));
		if (len > width && len <= most)
			width = len;
	}
	return width;
}

/* Prints words from column `indent` on, where the cursor is. */
static void text_wrap(FILE *out, const char *text, int indent)
{
	int column = indent;

	while (*text != '\0') {
		int len = (int)strcspn(text, " ");

		if (column > indent && column + 1 + len > COLUMNS) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		}
		column += fprintf(out, "%s%.*s", column > indent ? " " : "", len, text);
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

/* If a cell is wider than its column, the next cell begins on the next line. */
static void row_print(FILE *out, const char *option, int option_width, const char *dflt,
		      int dflt_width, const char *text)
{
	int indent = 2 + option_width + 2 + dflt_width + 2;
	bool overflow = (int)strlen(option) > option_width || (int)strlen(dflt) > dflt_width;

	fprintf(out, "  %-*s  %-*s  ", option_width, option, dflt_width, dflt);
	if (overflow)
		fprintf(out, "\n%*s", indent, "");
	text_wrap(out, text, indent);
}

static void field_row(FILE *out, const struct ol_conf_field *field, int option_width,
		      int dflt_width)
{
	char option[CELL_MAX], range[256], text[1024];

	option_cell(field, option);
	ol_conf_value_range(field, range, sizeof(range));
	if (range[0] == '\0')
		snprintf(text, sizeof(text), "%s", field->help);
	else
		snprintf(text, sizeof(text), "%s (%s)", field->help, range);
	row_print(out, option, option_width, default_cell(field), dflt_width, text);
}

void ol_conf_print_help(const struct ol_conf *conf, FILE *out)
{
	const struct ol_conf_spec *spec = conf->spec;
	int option_width = column_width(spec, true), dflt_width = column_width(spec, false);

	fprintf(out, "usage: %s [OPTION...]%s%s\n\n", spec->program,
		spec->arguments != NULL ? " " : "", spec->arguments != NULL ? spec->arguments : "");
	text_wrap(out, spec->purpose, 0);
	fprintf(out, "\n");
	row_print(out, "option", option_width, "default", dflt_width, "meaning");
	for (size_t i = 0; i < spec->field_count; i++) {
		if (spec->fields[i].type == OL_CONF_GROUP)
			fprintf(out, "\n%s\n", spec->fields[i].help);
		else
			field_row(out, &spec->fields[i], option_width, dflt_width);
	}
	fprintf(out, "\n");
	row_print(
		out, "--config TEXT", option_width, "-", dflt_width,
		"file of settings, one \"name = value\" a line; given again: the later file wins");
	row_print(out, "--help", option_width, "", dflt_width, "print this and end");
	fprintf(out,
		"\nEvery option is also a line of the file (--some-name 4: some_name = 4) and a "
		"variable\n(OUTLAST_SOME_NAME=4). The command line wins over the environment, and "
		"that over the file.\n");
	if (spec->examples != NULL)
		fprintf(out, "\nexamples:\n%s", spec->examples);
}

static const char *source_str(enum ol_conf_source source)
{
	switch (source) {
	case OL_CONF_FROM_DEFAULT:
		return "";
	case OL_CONF_FROM_FILE:
		return " # file";
	case OL_CONF_FROM_ENV:
		return " # environment";
	case OL_CONF_FROM_ARGS:
		return " # command line";
	case OL_CONF_FROM_PROGRAM:
		return " # program";
	}
	return "";
}

void ol_conf_print(const struct ol_conf *conf, FILE *out)
{
	char text[1024];

	for (size_t i = 0; i < conf->spec->field_count; i++) {
		const struct ol_conf_field *field = &conf->spec->fields[i];
		const char *quote = field->type == OL_CONF_STR ? "\"" : "";

		if (field->type == OL_CONF_GROUP)
			continue;
		if (field->type == OL_CONF_STR && conf->texts[i] == NULL) {
			fprintf(out, "# %s: not set\n", field->name);
			continue;
		}
		if (field->secret) {
			fprintf(out, "# %s: set, not shown\n", field->name);
			continue;
		}
		ol_conf_value_format(field, conf->target, text, sizeof(text));
		fprintf(out, "%s = %s%s%s%s\n", field->name, quote, text, quote,
			source_str(conf->where[i].source));
	}
}

/* Levenshtein's distance; names are shorter than OL_CONF_NAME_MAX. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned line[OL_CONF_NAME_MAX];
	size_t len = strlen(b);

	for (size_t j = 0; j <= len; j++)
		line[j] = (unsigned)j;
	for (size_t i = 0; a[i] != '\0'; i++) {
		unsigned corner = line[0];

		line[0] = (unsigned)i + 1;
		for (size_t j = 0; j < len; j++) {
			unsigned best = corner + (a[i] != b[j]);

			corner = line[j + 1];
			if (corner + 1 < best)
				best = corner + 1;
			if (line[j] + 1 < best)
				best = line[j] + 1;
			line[j + 1] = best;
		}
	}
	return line[len];
}

const char *ol_conf_nearest(const struct ol_conf_spec *spec, const char *name)
{
	unsigned best = 3 + (unsigned)strlen(name) / 4;
	const char *nearest = NULL;

	if (strlen(name) >= OL_CONF_NAME_MAX)
		return NULL;
	for (size_t i = 0; i < spec->field_count; i++) {
		unsigned far;

		if (spec->fields[i].type == OL_CONF_GROUP)
			continue;
		far = edit_distance(name, spec->fields[i].name);
		if (far < best) {
			best = far;
			nearest = spec->fields[i].name;
		}
	}
	return nearest;
}
