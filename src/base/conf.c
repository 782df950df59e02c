/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conf.c -- where settings come from: defaults, file, environment, command line
 */
#include "base/conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf_internal.h"
#include "base/key.h"

enum {
	VALUE_SHOWN_MAX = 64 /* bytes of a wrong value in an error line */
};

__attribute__((format(printf, 2, 3))) static int fail(struct ol_conf *conf, const char *format, ...)
{
	va_list args;
	int len = snprintf(conf->error, sizeof(conf->error), "%s: ", conf->spec->program);

	if (len < 0 || (size_t)len >= sizeof(conf->error))
		return -EINVAL;
	va_start(args, format);
	vsnprintf(conf->error + len, sizeof(conf->error) - (size_t)len, format, args);
	va_end(args);
	return -EINVAL;
}

/* Makes one line of any text: cut to size, with '?' for what cannot be printed. */
static void value_clean(const char *text, size_t len, char shown[VALUE_SHOWN_MAX])
{
	enum {
		KEEP_MAX = VALUE_SHOWN_MAX - 4
	};
	size_t keep = len < KEEP_MAX ? len : KEEP_MAX;

	for (size_t i = 0; i < keep; i++) {
		unsigned char c = (unsigned char)text[i];

		shown[i] = (char)(c >= 0x80 || isprint(c) ? c : '?');
	}
	snprintf(shown + keep, VALUE_SHOWN_MAX - keep, "%s", keep < len ? "..." : "");
}

/* The row of that name, in either spelling; -1: none */
static int field_find(const struct ol_conf_spec *spec, const char *name, size_t len)
{
	char plain[OL_CONF_NAME_MAX];

	if (len >= sizeof(plain))
		return -1;
	for (size_t i = 0; i < len; i++)
		plain[i] = (char)(name[i] == '-' ? '_' : name[i]);
	plain[len] = '\0';
	for (size_t i = 0; i < spec->field_count; i++) {
		if (spec->fields[i].type != OL_CONF_GROUP &&
		    strcmp(spec->fields[i].name, plain) == 0)
			return (int)i;
	}
	return -1;
}

/* name with '-' for '_' (dash), or OUTLAST_ and capitals (env) */
static void name_format(const char *name, enum ol_conf_source source, char *buf, size_t buf_bytes)
{
	bool env = source == OL_CONF_FROM_ENV;

	snprintf(buf, buf_bytes, "%s%s", env ? "OUTLAST_" : "--", name);
	for (char *at = buf; *at != '\0'; at++) {
		if (env)
			*at = (char)toupper((unsigned char)*at);
		else if (*at == '_')
			*at = '-';
	}
}

/* "--worker-count", "OUTLAST_WORKER_COUNT" or "job.conf:12: worker_count" */
static void place_format(const struct ol_conf *conf, const char *name, struct ol_conf_where where,
			 char *buf, size_t buf_bytes)
{
	if (where.source == OL_CONF_FROM_FILE)
		snprintf(buf, buf_bytes, "%s:%u: %s", conf->file_names[where.file], where.line,
			 name);
	else
		name_format(name, where.source, buf, buf_bytes);
}

void ol_conf_source(const struct ol_conf *conf, size_t index, char *buf, size_t buf_bytes)
{
	if (conf->where[index].source == OL_CONF_FROM_DEFAULT)
		snprintf(buf, buf_bytes, "default");
	else
		place_format(conf, conf->spec->fields[index].name, conf->where[index], buf,
			     buf_bytes);
}

static int assign_text(struct ol_conf *conf, size_t index, const char *value)
{
	const struct ol_conf_field *field = &conf->spec->fields[index];
	const char *member;
	char *text = NULL;

	if (value != NULL) {
		text = strdup(value);
		if (text == NULL) {
			fail(conf, "%s: out of memory", field->name);
			return -ENOMEM;
		}
	}
	free(conf->texts[index]);
	conf->texts[index] = text;
	member = text;
	memcpy((char *)conf->target + field->offset, &member, sizeof(member));
	return 0;
}

static int field_assign(struct ol_conf *conf, size_t index, const char *value,
			struct ol_conf_where where)
{
	const struct ol_conf_field *field = &conf->spec->fields[index];
	char at[256], shown[VALUE_SHOWN_MAX], want[256];
	int rc;

	if (field->type == OL_CONF_STR) {
		rc = assign_text(conf, index, value);
		if (rc == 0)
			conf->where[index] = where;
		return rc;
	}
	if (value == NULL || ol_conf_value_parse(field, value, conf->target) != 0) {
		place_format(conf, field->name, where, at, sizeof(at));
		value_clean(value != NULL ? value : "", value != NULL ? strlen(value) : 0, shown);
		ol_conf_value_want(field, want, sizeof(want));
		return fail(conf, "%s: \"%s\" is not %s", at, shown, want);
	}
	conf->where[index] = where;
	return 0;
}

static int check_table(const struct ol_conf_spec *spec)
{
	if (spec->field_count > OL_CONF_FIELDS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < spec->field_count; i++) {
		const char *name = spec->fields[i].name;

		if (spec->fields[i].type == OL_CONF_GROUP && name == NULL)
			continue;
		if (spec->fields[i].type == OL_CONF_GROUP) {
			fprintf(stderr, "%s: setting %s: no type\n", spec->program, name);
			return -EINVAL;
		}
		if (strlen(name) >= OL_CONF_NAME_MAX ||
		    field_find(spec, name, strlen(name)) != (int)i || strcmp(name, "help") == 0 ||
		    strcmp(name, "config") == 0) {
			fprintf(stderr, "%s: setting %s: name is taken or too long\n",
				spec->program, name);
			return -EINVAL;
		}
	}
	return 0;
}

int ol_conf_create(const struct ol_conf_spec *spec, void *target, struct ol_conf **ret_conf)
{
	struct ol_conf_where where = { .source = OL_CONF_FROM_DEFAULT };
	struct ol_conf *conf;
	int rc = check_table(spec);

	if (rc != 0)
		return rc;
	conf = calloc(1, sizeof(*conf));
	if (conf == NULL)
		return -ENOMEM;
	conf->spec = spec;
	conf->target = target;
	conf->arguments = calloc((size_t)spec->arguments_max + 1, sizeof(conf->arguments[0]));
	if (conf->arguments == NULL) {
		rc = -ENOMEM;
		goto err_conf;
	}
	for (size_t i = 0; i < spec->field_count; i++) {
		if (spec->fields[i].type == OL_CONF_GROUP)
			continue;
		rc = field_assign(conf, i, spec->fields[i].dflt, where);
		if (rc != 0) {
			if (rc != -ENOMEM)
				fprintf(stderr, "default: %s\n", conf->error);
			goto err_conf;
		}
	}
	*ret_conf = conf;
	return 0;

err_conf:
	ol_conf_destroy(conf);
	return rc;
}

void ol_conf_destroy(struct ol_conf *conf)
{
	if (conf == NULL)
		return;
	for (size_t i = 0; i < OL_CONF_FIELDS_MAX; i++)
		free(conf->texts[i]);
	free(conf->arguments);
	for (unsigned i = 0; i < conf->file_count; i++)
		free(conf->file_names[i]);
	free(conf);
}

static void text_trim(const char **text, size_t *len)
{
	while (*len > 0 && isspace((unsigned char)(*text)[0])) {
		(*text)++;
		(*len)--;
	}
	while (*len > 0 && isspace((unsigned char)(*text)[*len - 1]))
		(*len)--;
}

/* Bytes of text before a comment: a '#' that begins it or stands behind a blank. */
static size_t comment_find(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '#' && (i == 0 || isspace((unsigned char)text[i - 1])))
			return i;
	}
	return len;
}

/* The text after the '=', without comment and quotes; -EINVAL: a quote is left open. */
static int line_value(const char **text, size_t *len)
{
	const char *close;
	size_t rest;

	text_trim(text, len);
	if (*len == 0 || (*text)[0] != '"') {
		*len = comment_find(*text, *len);
		text_trim(text, len);
		return 0;
	}
	close = memchr(*text + 1, '"', *len - 1);
	if (close == NULL)
		return -EINVAL;
	rest = *len - (size_t)(close + 1 - *text);
	(*text)++;
	*len = (size_t)(close - *text);
	close++;
	text_trim(&close, &rest);
	return comment_find(close, rest) == 0 ? 0 : -EINVAL;
}

/* at: "" or "job.conf:12: " */
static int unknown_fail(struct ol_conf *conf, enum ol_conf_source source, const char *at,
			const char *name, size_t len)
{
	const char *dashes = source == OL_CONF_FROM_ARGS ? "--" : "";
	const char *what = source == OL_CONF_FROM_ARGS ? "option" : "setting";
	char plain[VALUE_SHOWN_MAX], shown[VALUE_SHOWN_MAX], meant[OL_CONF_NAME_MAX + 2];
	const char *nearest;

	value_clean(name, len, shown);
	value_clean(name, len, plain);
	for (char *c = plain; *c != '\0'; c++) {
		if (*c == '-')
			*c = '_';
	}
	nearest = ol_conf_nearest(conf->spec, plain);
	if (nearest == NULL)
		return fail(conf, "%s%s%s: no such %s; --help lists them", at, dashes, shown, what);
	if (source == OL_CONF_FROM_ARGS)
		name_format(nearest, source, meant, sizeof(meant));
	else
		snprintf(meant, sizeof(meant), "%s", nearest);
	return fail(conf, "%s%s%s: no such %s; did you mean %s?", at, dashes, shown, what, meant);
}

static int load_line(struct ol_conf *conf, unsigned line, const char *text, size_t len)
{
	struct ol_conf_where where = { .source = OL_CONF_FROM_FILE,
				       .line = line,
				       .file = conf->file_count - 1 };
	const char *name = text, *equals, *value;
	char at[256], *copy;
	size_t name_len, value_len;
	int index, rc;

	text_trim(&name, &len);
	if (len == 0 || name[0] == '#')
		return 0;
	snprintf(at, sizeof(at), "%s:%u: ", conf->file_names[where.file], line);
	if (memchr(name, '\0', len) != NULL)
		return fail(conf, "%sa zero byte; settings are text", at);
	equals = memchr(name, '=', len);
	if (equals == NULL)
		return fail(conf, "%sneither \"name = value\" nor a # comment", at);

	name_len = (size_t)(equals - name);
	value = equals + 1;
	value_len = len - name_len - 1;
	text_trim(&name, &name_len);
	index = field_find(conf->spec, name, name_len);
	if (index < 0)
		return unknown_fail(conf, OL_CONF_FROM_FILE, at, name, name_len);
	if (line_value(&value, &value_len) != 0)
		return fail(conf, "%s%s: a quote is left open, or text follows it", at,
			    conf->spec->fields[index].name);
	copy = strndup(value, value_len);
	if (copy == NULL) {
		fail(conf, "%sout of memory", at);
		return -ENOMEM;
	}
	rc = field_assign(conf, (size_t)index, copy, where);
	free(copy);
	return rc;
}

int ol_conf_load_text(struct ol_conf *conf, const char *name, const char *text, size_t bytes)
{
	unsigned line = 1;
	char *file_name;
	int rc = 0;

	if (conf->file_count == OL_CONF_FILES_MAX)
		return fail(conf, "%s: at most %d files of settings", name, OL_CONF_FILES_MAX);
	file_name = strdup(name);
	if (file_name == NULL) {
		fail(conf, "%s: out of memory", name);
		return -ENOMEM;
	}
	conf->file_names[conf->file_count++] = file_name;
	while (rc == 0 && bytes > 0) {
		const char *end = memchr(text, '\n', bytes);
		size_t len = end != NULL ? (size_t)(end - text) : bytes;

		rc = load_line(conf, line++, text, len);
		len += end != NULL;
		text += len;
		bytes -= len;
	}
	return rc;
}

static int load_file(struct ol_conf *conf, const char *path)
{
	FILE *file = fopen(path, "re");
	char *text;
	size_t bytes;
	int rc;

	if (file == NULL) {
		rc = -errno;
		fail(conf, "%s: %s", path, strerrordesc_np(-rc));
		return rc;
	}
	text = malloc(OL_CONF_FILE_BYTES_MAX + 1);
	if (text == NULL) {
		fclose(file);
		fail(conf, "%s: out of memory", path);
		return -ENOMEM;
	}
	errno = 0;
	bytes = fread(text, 1, OL_CONF_FILE_BYTES_MAX + 1, file);
	if (ferror(file)) {
		rc = errno != 0 ? -errno : -EIO;
		fail(conf, "%s: %s", path, strerrordesc_np(-rc));
	} else if (bytes > OL_CONF_FILE_BYTES_MAX) {
		rc = fail(conf, "%s: larger than 1 MiB; not a file of settings", path);
	} else {
		rc = ol_conf_load_text(conf, path, text, bytes);
	}
	free(text);
	fclose(file);
	return rc;
}

static int load_env(struct ol_conf *conf)
{
	struct ol_conf_where where = { .source = OL_CONF_FROM_ENV };
	char name[OL_CONF_NAME_MAX + 16];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < conf->spec->field_count; i++) {
		const char *value;

		if (conf->spec->fields[i].type == OL_CONF_GROUP)
			continue;
		name_format(conf->spec->fields[i].name, OL_CONF_FROM_ENV, name, sizeof(name));
		value = getenv(name);
		if (value != NULL && *value != '\0')
			rc = field_assign(conf, i, value, where);
		if (conf->spec->fields[i].secret)
			ol_key_env_wipe(name);
	}
	return rc;
}

enum arg_kind {
	ARG_OPTION, /* index and value */
	ARG_CONFIG, /* value */
	ARG_HELP,
	ARG_WORD, /* value */
	ARG_NONE, /* "--": only words follow */
};

struct arg {
	enum arg_kind kind;
	size_t index;
	const char *value;
};

struct arg_walk {
	int argc;
	char *const *argv;
	int at; /* the next one to read */
	bool words_only;
};

/* The value after '=', or the next word unless that is an option. */
static int value_take(struct ol_conf *conf, struct arg_walk *walk, const char *name, size_t len,
		      const char **value)
{
	if (*value != NULL)
		return 0;
	if (walk->at >= walk->argc || strncmp(walk->argv[walk->at], "--", 2) == 0)
		return fail(conf, "--%.*s: needs a value", (int)len, name);
	*value = walk->argv[walk->at++];
	return 0;
}

static int option_read(struct ol_conf *conf, struct arg_walk *walk, const char *name,
		       struct arg *ret_arg)
{
	size_t len = strcspn(name, "=");
	const char *value = name[len] == '=' ? name + len + 1 : NULL;
	int index = field_find(conf->spec, name, len), rc;
	bool negated = false;

	if (index < 0 && len == strlen("config") && strncmp(name, "config", len) == 0) {
		rc = value_take(conf, walk, name, len, &value);
		*ret_arg = (struct arg){ .kind = ARG_CONFIG, .value = value };
		return rc;
	}
	if (index < 0 && strncmp(name, "no-", 3) == 0) {
		index = field_find(conf->spec, name + 3, len - 3);
		negated = true;
	}
	if (index < 0 || (negated && conf->spec->fields[index].type != OL_CONF_BOOL))
		return unknown_fail(conf, OL_CONF_FROM_ARGS, "", name, len);
	if (negated && value != NULL)
		return fail(conf, "--%.*s: takes no value", (int)len, name);

	rc = 0;
	if (conf->spec->fields[index].type != OL_CONF_BOOL)
		rc = value_take(conf, walk, name, len, &value);
	else if (value == NULL)
		value = negated ? "false" : "true";
	*ret_arg = (struct arg){ .kind = ARG_OPTION, .index = (size_t)index, .value = value };
	return rc;
}

static int arg_next(struct ol_conf *conf, struct arg_walk *walk, struct arg *ret_arg)
{
	const char *text = walk->argv[walk->at++];
	char shown[VALUE_SHOWN_MAX];

	if (walk->words_only || text[0] != '-' || text[1] == '\0') {
		*ret_arg = (struct arg){ .kind = ARG_WORD, .value = text };
		return 0;
	}
	if (strcmp(text, "--") == 0) {
		walk->words_only = true;
		*ret_arg = (struct arg){ .kind = ARG_NONE };
		return 0;
	}
	if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
		*ret_arg = (struct arg){ .kind = ARG_HELP };
		return 0;
	}
	if (text[1] == '-')
		return option_read(conf, walk, text + 2, ret_arg);
	value_clean(text, strlen(text), shown);
	return fail(conf, "%s: no such option; --help lists them", shown);
}

static int word_take(struct ol_conf *conf, const char *word)
{
	char shown[VALUE_SHOWN_MAX];

	if (conf->argument_count == conf->spec->arguments_max) {
		value_clean(word, strlen(word), shown);
		return fail(conf, "unexpected argument \"%s\"; --help shows the usage", shown);
	}
	conf->arguments[conf->argument_count++] = word;
	return 0;
}

static int load_args(struct ol_conf *conf, int argc, char *const argv[])
{
	struct ol_conf_where where = { .source = OL_CONF_FROM_ARGS };
	struct arg_walk walk = { .argc = argc, .argv = argv, .at = 1 };
	struct arg arg;
	int rc = 0;

	conf->argument_count = 0;
	while (rc == 0 && walk.at < argc) {
		rc = arg_next(conf, &walk, &arg);
		if (rc == 0 && arg.kind == ARG_OPTION)
			rc = field_assign(conf, arg.index, arg.value, where);
		else if (rc == 0 && arg.kind == ARG_WORD)
			rc = word_take(conf, arg.value);
	}
	return rc;
}

/* Looks for --help (1) and --config before anything is assigned; *ret_count: how many files */
static int scan_args(struct ol_conf *conf, int argc, char *const argv[],
		     const char *ret_paths[OL_CONF_FILES_MAX], unsigned *ret_count)
{
	struct arg_walk walk = { .argc = argc, .argv = argv, .at = 1 };
	struct arg arg;
	int rc = 0;

	while (walk.at < argc) {
		rc = arg_next(conf, &walk, &arg);
		if (rc != 0)
			return rc;
		if (arg.kind == ARG_HELP)
			return 1;
		if (arg.kind != ARG_CONFIG)
			continue;
		if (*ret_count == OL_CONF_FILES_MAX)
			return fail(conf, "--config: at most %d files", OL_CONF_FILES_MAX);
		ret_paths[(*ret_count)++] = arg.value;
	}
	return 0;
}

int ol_conf_load(struct ol_conf *conf, int argc, char *const argv[])
{
	const char *const path = getenv("OUTLAST_CONFIG");
	const char *paths[OL_CONF_FILES_MAX];
	unsigned count = 0;
	int rc = scan_args(conf, argc, argv, paths, &count);

	if (rc == 0 && count == 0 && path != NULL)
		paths[count++] = path;
	for (unsigned i = 0; rc == 0 && i < count; i++)
		rc = *paths[i] != '\0' ? load_file(conf, paths[i]) : 0;
	if (rc == 0)
		rc = load_env(conf);
	if (rc == 0)
		rc = load_args(conf, argc, argv);
	return rc;
}

int ol_conf_set(struct ol_conf *conf, const char *name, const char *value)
{
	struct ol_conf_where where = { .source = OL_CONF_FROM_PROGRAM };
	int index = field_find(conf->spec, name, strlen(name));

	if (index < 0)
		return unknown_fail(conf, OL_CONF_FROM_PROGRAM, "", name, strlen(name));
	return field_assign(conf, (size_t)index, value, where);
}

int ol_conf_fail(struct ol_conf *conf, const char *name, const char *why)
{
	char at[256], value[VALUE_SHOWN_MAX], shown[VALUE_SHOWN_MAX];
	int index = field_find(conf->spec, name, strlen(name));

	if (index < 0)
		return fail(conf, "%s: %s", name, why);
	place_format(conf, conf->spec->fields[index].name, conf->where[index], at, sizeof(at));
	ol_conf_format(conf, (size_t)index, value, sizeof(value));
	value_clean(value, strlen(value), shown);
	if (conf->spec->fields[index].secret || conf->spec->fields[index].type == OL_CONF_BOOL)
		return fail(conf, "%s: %s", at, why);
	return fail(conf, "%s: \"%s\" %s", at, shown, why);
}

const char *ol_conf_error(const struct ol_conf *conf)
{
	return conf->error;
}

bool ol_conf_is_set(const struct ol_conf *conf, const char *name)
{
	int index = field_find(conf->spec, name, strlen(name));

	return index >= 0 && conf->where[index].source != OL_CONF_FROM_DEFAULT;
}

const char *ol_conf_argument(const struct ol_conf *conf, unsigned index)
{
	return index < conf->argument_count ? conf->arguments[index] : NULL;
}

void ol_conf_format(const struct ol_conf *conf, size_t index, char *buf, size_t buf_bytes)
{
	const struct ol_conf_field *field = &conf->spec->fields[index];

	if (buf_bytes == 0)
		return;
	buf[0] = '\0';
	if (!field->secret)
		ol_conf_value_format(field, conf->target, buf, buf_bytes);
}
