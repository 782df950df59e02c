/* SPDX-License-Identifier: BSD-3-Clause */

/* schedule.c -- parses the value of --schedule */

#include "cmd/schedule.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PART_MAX = 64,
	POWER_MAX = 16,
	STEPS_DIGITS = 15,
};

const char ol_schedule_help[] =
	"of the learning rate, by steps: constant; cosine:steps=N[,floor=F]: down to F of it; "
	"step:steps=N[,gamma=G]: times G every N; polynomial:steps=N[,power=P][,floor=F]; each also "
	"with warmup=N[,from=F]: first N steps from F of it up, then the schedule begins";

static const struct {
	const char *word;
	enum ol_schedule schedule;
	const char *keys; /* that it knows, each between blanks */
} kinds[] = {
	{ "constant", OL_SCHEDULE_CONSTANT, " warmup from " },
	{ "cosine", OL_SCHEDULE_COSINE, " warmup from steps floor " },
	{ "step", OL_SCHEDULE_STEP, " warmup from steps gamma " },
	{ "polynomial", OL_SCHEDULE_POLYNOMIAL, " warmup from steps floor power " },
};

static bool whole(const char *text, uint64_t most, uint64_t *ret_value)
{
	const size_t len = strlen(text);

	if (len == 0 || len > STEPS_DIGITS || strspn(text, "0123456789") != len)
		return false;
	*ret_value = strtoull(text, NULL, 10);
	return *ret_value >= 1 && *ret_value <= most;
}

static bool real(const char *text, float most, float *ret_value)
{
	char *end;

	*ret_value = strtof(text, &end);
	return end != text && *end == '\0' && *ret_value >= 0.0f && *ret_value <= most;
}

/* NULL, or what the key's value should be */
static const char *key_take(const char *key, const char *value, struct ol_schedule_set *set)
{
	uint64_t number = 0;
	bool good;

	if (strcmp(key, "steps") == 0 || strcmp(key, "warmup") == 0) {
		good = whole(value, UINT64_MAX, key[0] == 's' ? &set->steps : &set->warmup);
		return good ? NULL : "a number of steps from 1 on";
	}
	if (strcmp(key, "power") == 0) {
		good = whole(value, POWER_MAX, &number);
		set->power = (uint32_t)number;
		return good ? NULL : "a number from 1 to 16";
	}
	if (strcmp(key, "gamma") == 0) {
		good = real(value, 1e3f, &set->gamma) && set->gamma > 0.0f;
		return good ? NULL : "a number above 0";
	}
	good = real(value, 1.0f, key[1] == 'r' ? &set->from : &set->floor);
	return good ? NULL : "a number from 0 to 1";
}

/* One key=value */
static int part_take(char *part, size_t kind, struct ol_schedule_set *set, char *err,
		     size_t err_bytes)
{
	char *value = strchr(part, '='), key[PART_MAX + 2];
	const char *want;

	if (value == NULL) {
		snprintf(err, err_bytes, "should have key=value, not \"%s\"", part);
		return -EINVAL;
	}
	*value++ = '\0';
	snprintf(key, sizeof(key), " %s ", part);
	if (part[0] == '\0' || strstr(kinds[kind].keys, key) == NULL) {
		snprintf(err, err_bytes, "knows no \"%s\" for %s, only:%s", part, kinds[kind].word,
			 kinds[kind].keys);
		return -EINVAL;
	}
	want = key_take(part, value, set);
	if (want == NULL)
		return 0;
	snprintf(err, err_bytes, "should have %s as %s, not \"%s\"", want, part, value);
	return -EINVAL;
}

static int parts_take(const char *text, size_t kind, struct ol_schedule_set *set, char *err,
		      size_t err_bytes)
{
	char part[PART_MAX];
	int rc = 0;

	while (rc == 0 && *text != '\0') {
		size_t len = strcspn(text, ",");

		if (len >= sizeof(part)) {
			snprintf(err, err_bytes, "has a part that is too long: \"%.20s…\"", text);
			return -EINVAL;
		}
		memcpy(part, text, len);
		part[len] = '\0';
		rc = part_take(part, kind, set, err, err_bytes);
		text += len + (text[len] == ',');
	}
	return rc;
}

int ol_schedule_parse(const char *text, struct ol_schedule_set *ret_set, char *err,
		      size_t err_bytes)
{
	struct ol_schedule_set set = { .gamma = 0.1f, .power = 1 };
	const size_t len = strcspn(text, ":");
	size_t kind = 0;
	int rc;

	while (kind < sizeof(kinds) / sizeof(kinds[0]) &&
	       (strlen(kinds[kind].word) != len || strncmp(text, kinds[kind].word, len) != 0))
		kind++;
	if (kind == sizeof(kinds) / sizeof(kinds[0])) {
		snprintf(err, err_bytes,
			 "should begin with one of constant, cosine, step, polynomial");
		return -EINVAL;
	}
	set.schedule = kinds[kind].schedule;
	rc = parts_take(text + len + (text[len] == ':'), kind, &set, err, err_bytes);
	if (rc == 0 && set.schedule != OL_SCHEDULE_CONSTANT && set.steps == 0) {
		snprintf(err, err_bytes, "should say how many steps it takes: %s:steps=1000",
			 kinds[kind].word);
		rc = -EINVAL;
	}
	if (rc == 0)
		*ret_set = set;
	return rc;
}
