/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conf_value.c -- one setting's value: from text, to text, and its range for an error
 */
#include "base/conf_internal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t factor;
};

/* From large to small: a value is printed in the first unit that divides it. */
static const struct unit size_units[] = {
	{ "TiB", UINT64_C(1) << 40 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "G", UINT64_C(1) << 30 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "M", UINT64_C(1) << 20 },
	{ "KiB", UINT64_C(1) << 10 },
	{ "K", UINT64_C(1) << 10 },
	{ "B", 1 },
	{ "", 1 },
	{ NULL, 0 },
};

static const struct unit duration_units[] = {
	{ "h", UINT64_C(3600000000000) },
	{ "min", UINT64_C(60000000000) },
	{ "s", UINT64_C(1000000000) },
	{ "ms", 1000000 },
	{ "us", 1000 },
	{ "ns", 1 },
	{ NULL, 0 },
};

static const struct {
	const char *name;
	bool value;
} bool_names[] = {
	{ "true", true }, { "false", false }, { "yes", true }, { "no", false },
	{ "on", true },   { "off", false },   { "1", true },   { "0", false },
};

/* Reads digits, up to *end; -EINVAL if there are none or too many. */
static int digits_parse(const char *text, const char **end, uint64_t *ret_value)
{
	uint64_t value = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
			return -EINVAL;
	}
	if (at == text)
		return -EINVAL;
	*end = at;
	*ret_value = value;
	return 0;
}

/* ".75" of factor; text that does not begin with a point is a fraction of 0. */
static int fraction_parse(const char *text, const char **end, uint64_t factor, uint64_t *ret_part)
{
	const char *at = text;
	double part = 0.0, scale = 1.0;

	if (*at == '.') {
		for (at++; *at >= '0' && *at <= '9'; at++) {
			scale /= 10.0;
			part += scale * (*at - '0');
		}
		if (at == text + 1)
			return -EINVAL;
	}
	*end = at;
	*ret_part = (uint64_t)llround(part * (double)factor);
	return 0;
}

/* "1.5GiB": the unit follows the number, so the fraction is read twice. */
static int units_parse(const char *text, const struct unit *units, uint64_t *ret_value)
{
	bool sizes = units == size_units;
	uint64_t whole, part;
	const char *fraction, *end;

	if (digits_parse(text, &fraction, &whole) != 0 ||
	    fraction_parse(fraction, &end, 1, &part) != 0)
		return -EINVAL;
	if (*end == '\0' && whole == 0 && fraction == end) {
		*ret_value = 0;
		return 0;
	}
	for (; units->name != NULL; units++) {
		if ((sizes ? strcasecmp(end, units->name) : strcmp(end, units->name)) == 0)
			break;
	}
	if (units->name == NULL || __builtin_mul_overflow(whole, units->factor, &whole))
		return -EINVAL;
	if (units->factor == 1 && *fraction == '.')
		return -EINVAL;
	fraction_parse(fraction, &end, units->factor, &part);
	if (__builtin_add_overflow(whole, part, &whole))
		return -EINVAL;
	*ret_value = whole;
	return 0;
}

static uint64_t field_max(const struct ol_conf_field *field)
{
	if (field->max != 0)
		return field->max;
	return field->type == OL_CONF_U32 ? UINT32_MAX : UINT64_MAX;
}

static bool f64_bounded(const struct ol_conf_field *field)
{
	return field->f64_min < 0.0 || field->f64_min > 0.0 || field->f64_max < 0.0 ||
	       field->f64_max > 0.0;
}

static int integer_parse(const struct ol_conf_field *field, const char *text, void *member)
{
	uint64_t value;
	uint32_t value32;
	const char *end = "";
	int rc;

	if (field->type == OL_CONF_SIZE)
		rc = units_parse(text, size_units, &value);
	else if (field->type == OL_CONF_DURATION)
		rc = units_parse(text, duration_units, &value);
	else
		rc = digits_parse(text, &end, &value);
	if (rc != 0 || *end != '\0' || value < field->min || value > field_max(field))
		return -EINVAL;

	value32 = (uint32_t)value;
	if (field->type == OL_CONF_U32)
		memcpy(member, &value32, sizeof(value32));
	else
		memcpy(member, &value, sizeof(value));
	return 0;
}

static int f64_parse(const struct ol_conf_field *field, const char *text, void *member)
{
	char *end;
	double value;

	if (*text == '\0' || isspace((unsigned char)*text))
		return -EINVAL;
	value = strtod(text, &end);
	if (*end != '\0' || !isfinite(value))
		return -EINVAL;
	if (f64_bounded(field) && (value < field->f64_min || value > field->f64_max))
		return -EINVAL;
	memcpy(member, &value, sizeof(value));
	return 0;
}

static int bool_parse(const char *text, void *member)
{
	for (size_t i = 0; i < sizeof(bool_names) / sizeof(bool_names[0]); i++) {
		if (strcmp(text, bool_names[i].name) == 0) {
			memcpy(member, &bool_names[i].value, sizeof(bool));
			return 0;
		}
	}
	return -EINVAL;
}

static int choice_parse(const struct ol_conf_field *field, const char *text, void *member)
{
	for (const struct ol_conf_choice *choice = field->choices; choice->name != NULL; choice++) {
		if (strcmp(text, choice->name) == 0) {
			memcpy(member, &choice->value, sizeof(choice->value));
			return 0;
		}
	}
	return -EINVAL;
}

int ol_conf_value_parse(const struct ol_conf_field *field, const char *text, void *target)
{
	void *member = (char *)target + field->offset;

	switch (field->type) {
	case OL_CONF_U32:
	case OL_CONF_U64:
	case OL_CONF_SIZE:
	case OL_CONF_DURATION:
		return integer_parse(field, text, member);
	case OL_CONF_F64:
		return f64_parse(field, text, member);
	case OL_CONF_BOOL:
		return bool_parse(text, member);
	case OL_CONF_CHOICE:
		return choice_parse(field, text, member);
	case OL_CONF_STR:
	case OL_CONF_GROUP:
		break;
	}
	return -EINVAL;
}

static void units_format(uint64_t value, const struct unit *units, char *buf, size_t buf_bytes)
{
	if (value == 0) {
		snprintf(buf, buf_bytes, "0");
		return;
	}
	while (value % units->factor != 0) /* the last factor is 1 */
		units++;
	snprintf(buf, buf_bytes, "%" PRIu64 "%s", value / units->factor, units->name);
}

static void integer_format(enum ol_conf_type type, uint64_t value, char *buf, size_t buf_bytes)
{
	if (type == OL_CONF_SIZE)
		units_format(value, size_units, buf, buf_bytes);
	else if (type == OL_CONF_DURATION)
		units_format(value, duration_units, buf, buf_bytes);
	else
		snprintf(buf, buf_bytes, "%" PRIu64, value);
}

/* The fewest digits that read back as the same number. */
static void f64_format(double value, char *buf, size_t buf_bytes)
{
	double back;

	for (int digits = 6; digits <= 17; digits++) {
		snprintf(buf, buf_bytes, "%.*g", digits, value);
		back = strtod(buf, NULL);
		if (!(back < value) && !(back > value))
			return;
	}
}

void ol_conf_value_format(const struct ol_conf_field *field, const void *target, char *buf,
			  size_t buf_bytes)
{
	const char *member = (const char *)target + field->offset;
	union {
		uint32_t u32;
		uint64_t u64;
		double f64;
		bool flag;
		int choice;
		const char *str;
	} value;

	buf[0] = '\0';
	switch (field->type) {
	case OL_CONF_U32:
		memcpy(&value.u32, member, sizeof(value.u32));
		snprintf(buf, buf_bytes, "%" PRIu32, value.u32);
		return;
	case OL_CONF_U64:
	case OL_CONF_SIZE:
	case OL_CONF_DURATION:
		memcpy(&value.u64, member, sizeof(value.u64));
		integer_format(field->type, value.u64, buf, buf_bytes);
		return;
	case OL_CONF_F64:
		memcpy(&value.f64, member, sizeof(value.f64));
		f64_format(value.f64, buf, buf_bytes);
		return;
	case OL_CONF_BOOL:
		memcpy(&value.flag, member, sizeof(value.flag));
		snprintf(buf, buf_bytes, "%s", value.flag ? "true" : "false");
		return;
	case OL_CONF_STR:
		memcpy(&value.str, member, sizeof(value.str));
		snprintf(buf, buf_bytes, "%s", value.str != NULL ? value.str : "");
		return;
	case OL_CONF_CHOICE:
		memcpy(&value.choice, member, sizeof(value.choice));
		for (const struct ol_conf_choice *c = field->choices; c->name != NULL; c++) {
			if (c->value == value.choice)
				snprintf(buf, buf_bytes, "%s", c->name);
		}
		return;
	case OL_CONF_GROUP:
		return;
	}
}

static void choices_join(const struct ol_conf_field *field, char *buf, size_t buf_bytes)
{
	size_t len = 0;

	buf[0] = '\0';
	for (const struct ol_conf_choice *c = field->choices; c->name != NULL; c++) {
		int put =
			snprintf(buf + len, buf_bytes - len, "%s%s", len > 0 ? ", " : "", c->name);

		if (put < 0 || (size_t)put >= buf_bytes - len)
			return;
		len += (size_t)put;
	}
}

/* "between 1 and 64" with words[] = {"between ", " and ", "at least "}; "" if all are allowed */
static void bounds_format(const struct ol_conf_field *field, const char *const words[3], char *buf,
			  size_t buf_bytes)
{
	char min[32], max[32];
	bool from = field->min > 0, to = field->max != 0;

	buf[0] = '\0';
	if (field->type == OL_CONF_F64) {
		f64_format(field->f64_min, min, sizeof(min));
		f64_format(field->f64_max, max, sizeof(max));
		from = to = f64_bounded(field);
	} else {
		integer_format(field->type, field->min, min, sizeof(min));
		integer_format(field->type, field_max(field), max, sizeof(max));
	}
	if (to)
		snprintf(buf, buf_bytes, "%s%s%s%s", words[0], min, words[1], max);
	else if (from)
		snprintf(buf, buf_bytes, "%s%s", words[2], min);
}

void ol_conf_value_want(const struct ol_conf_field *field, char *buf, size_t buf_bytes)
{
	static const char *const words[3] = { " between ", " and ", " of at least " };
	const char *noun = "a whole number", *example = "";
	char bounds[96];

	if (field->type == OL_CONF_BOOL) {
		snprintf(buf, buf_bytes, "true or false");
		return;
	}
	if (field->type == OL_CONF_CHOICE) {
		int put = snprintf(buf, buf_bytes, "one of ");

		choices_join(field, buf + put, buf_bytes - (size_t)put);
		return;
	}
	bounds_format(field, words, bounds, sizeof(bounds));
	if (field->type == OL_CONF_F64 || bounds[0] != '\0')
		noun = "a number";
	if (field->type == OL_CONF_SIZE) {
		noun = "a size";
		example = ", such as 64KiB";
	} else if (field->type == OL_CONF_DURATION) {
		noun = "a time";
		example = ", such as 20ms";
	} else if (field->type == OL_CONF_U32 && bounds[0] == '\0') {
		example = " up to 4294967295";
	}
	snprintf(buf, buf_bytes, "%s%s%s", noun, bounds, example);
}

/* One word of a list, `len` characters */
static int word_parse(const struct ol_conf_field *fields, size_t field_count, const char *word,
		      size_t len, void *target, char *err, size_t err_bytes)
{
	size_t used = (size_t)snprintf(err, err_bytes, "\"%.*s\" is none of", (int)len, word);
	char value[64], want[128];

	for (size_t i = 0; i < field_count; i++) {
		const struct ol_conf_field *field = &fields[i];
		size_t name = strlen(field->name);
		const char *at = word + name + 1;

		if (used < err_bytes)
			used += (size_t)snprintf(err + used, err_bytes - used,
						 "%s %s=", i > 0 ? "," : "", field->name);
		if (len <= name || strncmp(word, field->name, name) != 0 || word[name] != '=')
			continue;
		if (field->type == OL_CONF_STR) {
			memcpy((char *)target + field->offset, &at, sizeof(at));
			return 0;
		}
		if ((size_t)snprintf(value, sizeof(value), "%.*s", (int)(len - name - 1), at) <
			    sizeof(value) &&
		    ol_conf_value_parse(field, value, target) == 0)
			return 0;
		ol_conf_value_want(field, want, sizeof(want));
		snprintf(err, err_bytes, "\"%.*s\" should have %s behind %s=", (int)len, word, want,
			 field->name);
		return -EINVAL;
	}
	return -EINVAL;
}

int ol_conf_words(const struct ol_conf_field *fields, size_t field_count, const char *text,
		  void *target, char *err, size_t err_bytes)
{
	for (;;) {
		size_t len = strcspn(text, ",");
		char why[OL_CONF_ERROR_MAX];

		if (word_parse(fields, field_count, text, len, target, why, sizeof(why)) != 0) {
			snprintf(err, err_bytes, "%s", why);
			return -EINVAL;
		}
		if (text[len] == '\0')
			return 0;
		text += len + 1;
	}
}

void ol_conf_value_range(const struct ol_conf_field *field, char *buf, size_t buf_bytes)
{
	static const char *const words[3] = { "", " to ", "at least " };

	buf[0] = '\0';
	if (field->type == OL_CONF_CHOICE)
		choices_join(field, buf, buf_bytes);
	else if (field->type != OL_CONF_BOOL && field->type != OL_CONF_STR &&
		 field->type != OL_CONF_GROUP)
		bounds_format(field, words, buf, buf_bytes);
}
