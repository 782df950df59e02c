/* SPDX-License-Identifier: BSD-3-Clause */

/* name.c -- names of files, made and read */

#include "checkpoint/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ol_ckpt_name ol_ckpt_name_of(const struct ol_ckpt_meta *meta)
{
	return (struct ol_ckpt_name){ .job_id = meta->job_id,
				      .version = meta->version,
				      .epoch = meta->epoch,
				      .shard = meta->geo.shard };
}

void ol_ckpt_name_format(const struct ol_ckpt_name *name, char text[OL_CKPT_NAME_MAX])
{
	const char *dot = name->temporary ? "." : "";

	if (name->running)
		snprintf(text, OL_CKPT_NAME_MAX,
			 "%srun-%016" PRIx64 "-s%" PRIu32 "-e%010" PRIu32 ".olc", dot, name->job_id,
			 name->shard, name->epoch);
	else
		snprintf(text, OL_CKPT_NAME_MAX,
			 "%sckpt-%016" PRIx64 "-s%" PRIu32 "-e%010" PRIu32 "-v%020" PRIu64 ".olc",
			 dot, name->job_id, name->shard, name->epoch, name->version);
}

/* Reads the number that follows `before`, and moves *at behind it. */
static uint64_t number(const char **at, const char *before, int base)
{
	size_t len = strlen(before);
	uint64_t value;
	char *end;

	if (strncmp(*at, before, len) != 0)
		return 0;
	value = strtoull(*at + len, &end, base);
	*at = end;
	return value;
}

/* Reads the name, writes it again, and compares: so each name has one spelling. */
bool ol_ckpt_name_parse(const char *text, struct ol_ckpt_name *ret_name)
{
	char again[OL_CKPT_NAME_MAX];
	struct ol_ckpt_name name = { .temporary = text[0] == '.' };
	const char *at = text + name.temporary;

	name.running = strncmp(at, "run-", 4) == 0;
	name.job_id = number(&at, name.running ? "run-" : "ckpt-", 16);
	name.shard = (uint32_t)number(&at, "-s", 10);
	name.epoch = (uint32_t)number(&at, "-e", 10);
	if (!name.running)
		name.version = number(&at, "-v", 10);
	ol_ckpt_name_format(&name, again);
	if (strcmp(text, again) != 0)
		return false;
	*ret_name = name;
	return true;
}

void ol_ckpt_name_lock(const struct ol_ckpt_name *kind, char text[OL_CKPT_NAME_MAX])
{
	snprintf(text, OL_CKPT_NAME_MAX, ".lock-%s-%016" PRIx64 "-s%" PRIu32,
		 kind->running ? "run" : "ckpt", kind->job_id, kind->shard);
}

void ol_ckpt_name_fresh(const char *lock, char text[OL_CKPT_NAME_MAX])
{
	snprintf(text, OL_CKPT_NAME_MAX, "%s-%ld", lock, (long)getpid());
}
