/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * needs.c -- settings that an additive model needs
 */
#include "cmd/needs.h"

#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"

static const struct {
	const char *name;
	const char *value;
} needs[] = {
	{ "optimizer", "sgd" }, { "lr", "1" },         { "weight_decay", "0" },
	{ "replay", "each" },   { "on_late", "wait" }, /* a dropped gradient has changed the
							  worker's topics */
};

/* True also if the subcommand has no such setting */
static bool met(const struct ol_settings *settings, const char *name, const char *value)
{
	char now[64];

	ol_settings_text(settings, name, now, sizeof(now));
	return now[0] == '\0' || strcmp(now, value) == 0;
}

int ol_needs_one(struct ol_settings *settings, const char *model, const char *name,
		 const char *value)
{
	if (met(settings, name, value) || ol_conf_is_set(settings->conf, name))
		return 0;
	if (ol_conf_set(settings->conf, name, value) != 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, settings->cmd, "no memory for a setting",
				    name, NULL);
	fprintf(stderr, "model %s: --%s %s, as none is given\n", model, name, value);
	return 0;
}

int ol_needs_take(struct ol_settings *settings, const char *model, const struct ol_job *job)
{
	size_t count = job->traits->additive ? sizeof(needs) / sizeof(needs[0]) : 0;
	char why[160];
	int rc = 0;

	for (size_t i = 0; i < count; i++) {
		if (met(settings, needs[i].name, needs[i].value) ||
		    !ol_conf_is_set(settings->conf, needs[i].name))
			continue;
		snprintf(why, sizeof(why), "is not what the model %.64s needs: give %s", model,
			 needs[i].value);
		return ol_settings_fail(settings, needs[i].name, why);
	}
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = ol_needs_one(settings, model, needs[i].name, needs[i].value);
	return rc;
}
