/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conf.h -- a program's settings: one table for file, environment, command line and help
 *
 * A program keeps its settings in a struct of its own and describes each member with a row of a
 * table. The table gives the defaults, the parsing, the ranges, --help and the print-out of the
 * settings in force. Later sources win: default, file, environment, command line.
 *
 *	file           worker_count = 4          # a comment; dashes instead of _ are fine
 *	               name = "a # b"            a value in double quotes is taken as it stands
 *	environment    OUTLAST_WORKER_COUNT=4    (an empty one counts as not set)
 *	command line   --worker-count=4 or --worker-count 4; --verbose, --no-verbose
 *
 * Every command line also takes --config FILE (or OUTLAST_CONFIG), --help and "--". Of several files the later
 * one wins.
 *
 * ERRORS. Functions return 0, or a negative code and leave one line for people in ol_conf_error():
 * program, source of the value, the value, what it should have been.
 */
#ifndef OL_BASE_CONF_H
#define OL_BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum ol_conf_type {
	OL_CONF_GROUP, /* no setting: `help` is a heading above the rows that follow */
	OL_CONF_U32, /* uint32_t */
	OL_CONF_U64, /* uint64_t */
	OL_CONF_F64, /* double; finite */
	OL_CONF_BOOL, /* bool; true, yes, on, 1 or false, no, off, 0 */
	OL_CONF_STR, /* const char *, owned by the ol_conf; NULL only as a default */
	OL_CONF_CHOICE, /* int: the value of one of `choices` */
	OL_CONF_SIZE, /* uint64_t bytes: 4096, 64KiB or 64K, 2MiB, 1GiB, in any case */
	OL_CONF_DURATION, /* uint64_t nanoseconds: 200us, 20ms, 1.5s, 2min, 1h; 0 needs none */
};

enum {
	OL_CONF_FIELDS_MAX = 128,
	OL_CONF_NAME_MAX = 48, /* bytes of a name with its end */
	OL_CONF_FILE_BYTES_MAX = 1 << 20,
	OL_CONF_FILES_MAX = 8,
	OL_CONF_ERROR_MAX = 512
};

struct ol_conf_choice {
	const char *name; /* NULL ends the list */
	int value;
};

struct ol_conf_field {
	const char *name; /* lower case with underscores, unit last */
	const char *dflt; /* as text, read like any other; NULL (STR only): NULL */
	const char *help;
	size_t offset; /* of the member in the program's struct */
	enum ol_conf_type type;
	bool secret; /* never printed */
	uint64_t min; /* U32, U64, SIZE, DURATION: inclusive; */
	uint64_t max; /* 0: as much as the type holds */
	double f64_min; /* F64: inclusive; both 0: any */
	double f64_max;
	const struct ol_conf_choice *choices; /* CHOICE */
};

/*
 * Rows of a table. `in` is the name of the program's struct, without "struct". The setting has its
 * member's name. The compiler refuses a row whose type is not that of the member.
 */
#define OL_ROW_GROUP(heading) \
	{ \
		.type = OL_CONF_GROUP, .help = (heading) \
	}
#define OL_ROW_STR(in, member, dflt_, help_) \
	OL_ROW(in, member, OL_CONF_STR, const char *, dflt_, help_, .secret = false)
#define OL_ROW_SECRET(in, member, help_) \
	OL_ROW(in, member, OL_CONF_STR, const char *, NULL, help_, .secret = true)
#define OL_ROW_BOOL(in, member, dflt_, help_) \
	OL_ROW(in, member, OL_CONF_BOOL, bool, dflt_, help_, .secret = false)
#define OL_ROW_CHOICE(in, member, dflt_, choices_, help_) \
	OL_ROW(in, member, OL_CONF_CHOICE, int, dflt_, help_, .choices = (choices_))
#define OL_ROW_U32(in, member, dflt_, min_, max_, help_) \
	OL_ROW(in, member, OL_CONF_U32, uint32_t, dflt_, help_, .min = (min_), .max = (max_))
#define OL_ROW_U64(in, member, dflt_, min_, max_, help_) \
	OL_ROW(in, member, OL_CONF_U64, uint64_t, dflt_, help_, .min = (min_), .max = (max_))
#define OL_ROW_DURATION(in, member, dflt_, min_, max_, help_) \
	OL_ROW(in, member, OL_CONF_DURATION, uint64_t, dflt_, help_, .min = (min_), .max = (max_))
#define OL_ROW_F64(in, member, dflt_, min_, max_, help_) \
	OL_ROW(in, member, OL_CONF_F64, double, dflt_, help_, .f64_min = (min_), .f64_max = (max_))
#define OL_ROW(in, member, type_, ctype, dflt_, help_, ...) \
	{ \
		.name = #member, .dflt = (dflt_), .help = (help_), .type = (type_), \
		.offset = offsetof(struct in, member) + \
			  0 * sizeof(1 ? &((struct in *)NULL)->member : (ctype *)NULL), \
		__VA_ARGS__ \
	}

/* OL_FIELDS -- a table and how many rows it has, as two arguments or the beginning of a list */
#define OL_FIELDS(array) (array), sizeof(array) / sizeof((array)[0])

struct ol_conf_spec {
	const char *program; /* "outlast train": begins the usage line and every error */
	const char *purpose; /* what it does, for --help */
	const char *arguments; /* shown after the options in --help: "SERVER..."; or NULL */
	const char *examples; /* whole lines for the end of --help; or NULL */
	const struct ol_conf_field *fields;
	size_t field_count;
	unsigned arguments_max; /* words on the command line that are not options; 0: none */
};

struct ol_conf;

/*
 * ol_conf_create -- give every member of target its default
 *
 * spec and target are the caller's and must outlive the result. Errors: -ENOMEM; -EINVAL: the table
 * itself is wrong (a default out of range, a name twice): a bug, reported on stderr
 */
int ol_conf_create(const struct ol_conf_spec *spec, void *target, struct ol_conf **ret_conf);

/* ol_conf_destroy -- also frees every string that target points to; NULL is fine */
void ol_conf_destroy(struct ol_conf *conf);

/*
 * ol_conf_load -- file, environment and command line, in this order; argv[0] is skipped
 *
 * Returns 0; 1 if --help was asked for (nothing is printed, the rest is not read); -EINVAL; or the
 * error of reading the file
 */
int ol_conf_load(struct ol_conf *conf, int argc, char *const argv[]);

/* ol_conf_load_text -- as if `text` were a file of that name; stops at the first bad line. Of one ol_conf at most
 * OL_CONF_FILES_MAX times, files of ol_conf_load() included */
int ol_conf_load_text(struct ol_conf *conf, const char *name, const char *text, size_t bytes);

/* ol_conf_set -- set one by name (dashes or underscores), with the program as its source */
int ol_conf_set(struct ol_conf *conf, const char *name, const char *value);

/*
 * ol_conf_fail -- report a value that does not fit the others, as the parser would; -EINVAL
 *
 * why completes the line: "outlast train: --shards: "9" <why>".
 */
int ol_conf_fail(struct ol_conf *conf, const char *name, const char *why);

/* ol_conf_error -- the line for people about the last failure, without a newline */
const char *ol_conf_error(const struct ol_conf *conf);

/* ol_conf_is_set -- true if name's value is not from its default */
bool ol_conf_is_set(const struct ol_conf *conf, const char *name);

/* ol_conf_argument -- the index-th word that is not an option, from 0; NULL past the last */
const char *ol_conf_argument(const struct ol_conf *conf, unsigned index);

/* ol_conf_print_help -- what --help prints */
void ol_conf_print_help(const struct ol_conf *conf, FILE *out);

/* ol_conf_print -- the settings in force, in the form of a file; secrets are left out */
void ol_conf_print(const struct ol_conf *conf, FILE *out);

/* ol_conf_format -- the value of row `index` as text, cut to fit; "" for a NULL string, a secret */
void ol_conf_format(const struct ol_conf *conf, size_t index, char *buf, size_t buf_bytes);

/* ol_conf_source -- where the value of row `index` is from: "default", "--name", "OUTLAST_NAME" or
 * "FILE:LINE: name", cut to fit */
void ol_conf_source(const struct ol_conf *conf, size_t index, char *buf, size_t buf_bytes);

/*
 * ol_conf_value_parse -- text into field's member of target; -EINVAL: text is no such value
 *
 * Not for STR and GROUP.
 */
int ol_conf_value_parse(const struct ol_conf_field *field, const char *text, void *target);

/*
 * ol_conf_words -- a list inside a value, "mean=20ms,alpha=0.5", into target's members
 *
 * A member that is not named stays as it is. STR: the member points into text, to where the value
 * begins; it ends before a comma, or where text does. -EINVAL, with words in err that name the row
 * and what it should be.
 */
int ol_conf_words(const struct ol_conf_field *fields, size_t field_count, const char *text,
		  void *target, char *err, size_t err_bytes);

#endif /* OL_BASE_CONF_H */
