/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * durable.c -- parses the value of --checkpoint; the job's id in its checkpoints
 */
#include "cmd/durable.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "base/sha256.h"
#include "cmd/kill.h"

static const char *const selections[] = {
	[OL_SELECT_FULL] = "full",
	[OL_SELECT_PRIORITY] = "priority",
	[OL_SELECT_ROUND_ROBIN] = "round-robin",
	[OL_SELECT_RANDOM] = "random",
};

enum {
	STEPS_DEFAULT = 100,
	ID_TEXT_MAX = 4096
};

static const double FRACTION_DEFAULT = 0.125;

static const char *const writers[] = {
	[OL_CHECKPOINT_BY_TAIL] = "tail",
	[OL_CHECKPOINT_BY_EACH] = "each",
};

static const char *by_parse(const char *value, struct ol_ckpt_set *set)
{
	for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
		if (strcmp(value, writers[i]) == 0) {
			set->by = (enum ol_checkpoint_by)i;
			set->by_given = true;
			return NULL;
		}
	}
	return "needs tail or each behind by=";
}

static const char *every_parse(const char *value, struct ol_ckpt_set *set)
{
	size_t digits = strspn(value, "0123456789");
	uint64_t ns;

	set->steps = 0;
	set->ms = 0;
	if (digits > 0 && digits <= 18 && strcmp(value + digits, "steps") == 0)
		set->steps = strtoull(value, NULL, 10);
	else if (ol_duration_parse(value, &ns) == 0 && ns / OL_NS_PER_MS <= UINT32_MAX)
		set->ms = (uint32_t)(ns / OL_NS_PER_MS);
	return set->steps != 0 || set->ms != 0 ? NULL : "needs every=100steps or every=5s";
}

static const char *keep_parse(const char *value, struct ol_ckpt_set *set)
{
	static const struct ol_conf_field keep = { .type = OL_CONF_U32,
						   .min = 1,
						   .max = OL_CKPT_KEEP_MAX };

	return ol_conf_value_parse(&keep, value, &set->keep) == 0
		       ? NULL
		       : "needs a number from 1 to 1000 behind keep=";
}

static const char *dir_parse(const char *value, struct ol_ckpt_set *set)
{
	if (value[0] == '\0' || strlen(value) >= sizeof(set->dir))
		return "needs a folder (without a comma) behind dir=";
	snprintf(set->dir, sizeof(set->dir), "%s", value);
	return NULL;
}

/* Digits and a point, moved past; 0 if there are none, or more than a number */
static double number(const char **at)
{
	size_t len = strspn(*at, "0123456789.");
	char *end;
	double value = strtod(*at, &end);

	if (len == 0 || end != *at + len)
		return 0.0;
	*at = end;
	return value;
}

/* 1/8 or 0.125 */
static const char *fraction_parse(const char *value, struct ol_ckpt_set *set)
{
	double below = 1.0;

	set->fraction = number(&value);
	if (*value == '/') {
		value++;
		below = number(&value);
	}
	set->fraction = below > 0.0 ? set->fraction / below : 0.0;
	return *value == '\0' && set->fraction > 0.0 && set->fraction <= 1.0
		       ? NULL
		       : "needs a part above 0 and at most 1 behind r=, such as r=1/8";
}

static const char *extrapolate_parse(const char *value, struct ol_ckpt_set *set)
{
	set->extrapolate = number(&value);
	return *value == '\0' && set->extrapolate > 0.0 && set->extrapolate <= 1.0
		       ? NULL
		       : "needs a number above 0 and at most 1 behind extrapolate=";
}

static const char *format_parse(const char *value, struct ol_ckpt_set *set)
{
	if (strcmp(value, "int8") != 0 && strcmp(value, "fp32") != 0)
		return "needs fp32 or int8 behind format=";
	set->format = strcmp(value, "int8") == 0 ? OL_FORMAT_INT8 : OL_FORMAT_FP32;
	return NULL;
}

/* The fault of settings that exclude each other; 0 in set: not given */
static const char *set_check(struct ol_ckpt_set *set)
{
	bool full = set->selection == OL_SELECT_FULL;

	if (full && set->fraction > 0.0)
		return "has r= for a part: that needs priority, round-robin or random";
	if (full && set->extrapolate > 0.0)
		return "has extrapolate=, and a full checkpoint is as old as it is: that needs "
		       "priority, round-robin or random";
	if (full && set->format != OL_FORMAT_FP32)
		return "has format=int8, and a full checkpoint is fp32: that needs priority, "
		       "round-robin or random";
	if (!full && set->keep != 0)
		return "has keep=, and a running checkpoint is one file";
	if (set->keep == 0)
		set->keep = OL_DEFAULT_CHECKPOINT_KEEP;
	if (set->fraction <= 0.0)
		set->fraction = full ? 1.0 : FRACTION_DEFAULT;
	if (!full && (set->steps != 0 ? (double)set->steps : (double)set->ms) * set->fraction < 1.0)
		return set->steps != 0 ? "saves a part every r * every: that is less than a step"
				       : "saves a part every r * every: that is less than a "
					 "millisecond";
	return NULL;
}

static const char *word_parse(const char *word, struct ol_ckpt_set *set)
{
	for (size_t i = 0; i < sizeof(selections) / sizeof(selections[0]); i++) {
		if (strcmp(word, selections[i]) != 0)
			continue;
		if (set->selection != OL_SELECT_FULL && set->selection != (enum ol_selection)i)
			return "names two ways to choose: give one of priority, round-robin, random";
		set->selection = (enum ol_selection)i;
		return NULL;
	}
	if (strncmp(word, "r=", 2) == 0)
		return fraction_parse(word + 2, set);
	if (strncmp(word, "extrapolate=", 12) == 0)
		return extrapolate_parse(word + 12, set);
	if (strncmp(word, "format=", 7) == 0)
		return format_parse(word + 7, set);
	if (strncmp(word, "every=", 6) == 0)
		return every_parse(word + 6, set);
	if (strncmp(word, "keep=", 5) == 0)
		return keep_parse(word + 5, set);
	if (strncmp(word, "dir=", 4) == 0)
		return dir_parse(word + 4, set);
	if (strncmp(word, "by=", 3) == 0)
		return by_parse(word + 3, set);
	return "is not every=100steps|5s,dir=DIR,keep=3 or priority|round-robin|random,r=1/8";
}

int ol_ckpt_set_parse(const char *text, struct ol_ckpt_set *ret_set, char *err, size_t err_bytes)
{
	struct ol_ckpt_set set = { .steps = STEPS_DEFAULT };
	char *words = text != NULL ? strdup(text) : NULL, *rest = words, *word;
	const char *wrong = NULL;

	if (text != NULL && words == NULL)
		wrong = "needs memory that is not there";
	while (wrong == NULL && (word = strsep(&rest, ",")) != NULL)
		wrong = word_parse(word, &set);
	free(words);
	if (wrong == NULL)
		wrong = set_check(&set);
	if (wrong != NULL) {
		snprintf(err, err_bytes, "%s", wrong);
		return -EINVAL;
	}
	*ret_set = set;
	return 0;
}

const char *ol_ckpt_set_text(const struct ol_ckpt_set *set, char text[OL_CKPT_TEXT_MAX])
{
	int len = set->steps != 0
			  ? snprintf(text, OL_CKPT_TEXT_MAX, "every=%" PRIu64 "steps", set->steps)
			  : snprintf(text, OL_CKPT_TEXT_MAX, "every=%" PRIu32 "ms", set->ms);
	char *at = text + len;
	size_t left = OL_CKPT_TEXT_MAX - (size_t)len;

	if (set->selection == OL_SELECT_FULL)
		len = snprintf(at, left, ",keep=%" PRIu32, set->keep);
	else
		len = snprintf(at, left, ",%s,r=%.30f", selections[set->selection], set->fraction);
	at += len;
	left -= (size_t)len;
	len = set->extrapolate > 0.0 ? snprintf(at, left, ",extrapolate=%.30f", set->extrapolate)
				     : 0;
	at += len;
	left -= (size_t)len;
	len = set->format == OL_FORMAT_INT8 ? snprintf(at, left, ",format=int8") : 0;
	at += len;
	left -= (size_t)len;
	len = set->by_given ? snprintf(at, left, ",by=%s", writers[set->by]) : 0;
	if (set->dir[0] != '\0')
		snprintf(at + len, left - (size_t)len, ",dir=%s", set->dir);
	return text;
}

/* 0: the crypto library fails */
static uint64_t id_of(const char *text)
{
	char hex[OL_SHA256_HEX_BYTES];

	if (ol_sha256_hex(text, strlen(text), hex) != 0)
		return 0;
	hex[16] = '\0';
	return strtoull(hex, NULL, 16);
}

uint64_t ol_job_id(const struct ol_set_model *model, int optimizer)
{
	char text[ID_TEXT_MAX];
	int len = snprintf(text, sizeof(text), "%s\n%s\n%" PRIu64 "\n%d\n%d", model->model,
			   model->dataset, model->seed, (int)model->final_relu, optimizer);

	return len < 0 ? 0 : id_of(text);
}

uint64_t ol_job_id_vector(uint64_t param_count, int optimizer)
{
	char text[64];

	snprintf(text, sizeof(text), "vector\n%" PRIu64 "\n%d", param_count, optimizer);
	return id_of(text);
}
