/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * durable.c -- the value of --checkpoint, and what a job is called in its checkpoints
 */
#include "outlast/durable.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "outlast/kill.h"

enum {
	STEPS_DEFAULT = 100,
	KEEP_DEFAULT = 3,
	ID_TEXT_MAX = 4096
};

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
	size_t len = strlen(value);
	unsigned long keep = len > 0 && len <= 4 && strspn(value, "0123456789") == len
				     ? strtoul(value, NULL, 10)
				     : 0;

	if (keep == 0 || keep > OL_CKPT_KEEP_MAX)
		return "needs a number from 1 to 1000 behind keep=";
	set->keep = (uint32_t)keep;
	return NULL;
}

static const char *dir_parse(const char *value, struct ol_ckpt_set *set)
{
	if (value[0] == '\0' || strlen(value) >= sizeof(set->dir))
		return "needs a folder (without a comma) behind dir=";
	snprintf(set->dir, sizeof(set->dir), "%s", value);
	return NULL;
}

static const char *word_parse(const char *word, struct ol_ckpt_set *set)
{
	if (strncmp(word, "every=", 6) == 0)
		return every_parse(word + 6, set);
	if (strncmp(word, "keep=", 5) == 0)
		return keep_parse(word + 5, set);
	if (strncmp(word, "dir=", 4) == 0)
		return dir_parse(word + 4, set);
	return "is not every=100steps|5s,dir=DIR,keep=3";
}

int ol_ckpt_set_parse(const char *text, struct ol_ckpt_set *ret_set, char *err, size_t err_bytes)
{
	struct ol_ckpt_set set = { .steps = STEPS_DEFAULT, .keep = KEEP_DEFAULT };
	char *words = text != NULL ? strdup(text) : NULL, *rest = words, *word;
	const char *wrong = NULL;

	if (text != NULL && words == NULL)
		wrong = "needs memory that is not there";
	while (wrong == NULL && (word = strsep(&rest, ",")) != NULL)
		wrong = word_parse(word, &set);
	free(words);
	if (wrong != NULL) {
		snprintf(err, err_bytes, "%s", wrong);
		return -EINVAL;
	}
	*ret_set = set;
	return 0;
}

uint64_t ol_job_id(const struct ol_set_model *model, int optimizer)
{
	char text[ID_TEXT_MAX], hex[OL_SHA256_HEX_BYTES];
	int len = snprintf(text, sizeof(text), "%s\n%s\n%" PRIu64 "\n%d\n%d", model->model,
			   model->dataset, model->seed, (int)model->final_relu, optimizer);

	if (len < 0 || ol_sha256_hex(text, strlen(text), hex) != 0)
		return 0;
	hex[16] = '\0';
	return strtoull(hex, NULL, 16);
}
