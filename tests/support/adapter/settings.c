/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * settings.c -- the words of OL_ADAPTER: quirks, and the profiles that are made of them
 *
 * README.md gives the sources of each profile.
 */
#include "support/adapter/adapter.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ad_settings ad_set = {
	.last_wqe = AD_LAST_WQE_REAL,
	.inline_max = AD_NONE,
	.srq_max = AD_NONE,
	.sge_max = AD_NONE,
	.sge_read_max = AD_NONE,
	.rd_atomic = AD_NONE,
	.fatal_posts = AD_NONE,
	.delay_ms = AD_NONE,
	.stale_ms = AD_NONE,
	.reg_max = AD_NONE,
	.mr_max = AD_NONE,
	.port_ms = AD_NONE,
	.migrate_posts = AD_NONE,
};

struct word {
	const char *name;
	bool *flag; /* set by a word without a value, or by any */
	int64_t *number; /* set by a word with one */
};

static const struct word words[] = {
	{ "clean", &ad_set.clean, NULL },
	{ "lastwqe", NULL, &ad_set.last_wqe },
	{ "inline", NULL, &ad_set.inline_max },
	{ "inline-refuse", &ad_set.inline_refuse, &ad_set.inline_max },
	{ "nosrq", &ad_set.no_srq, NULL },
	{ "srq", NULL, &ad_set.srq_max },
	{ "sge", NULL, &ad_set.sge_max },
	{ "sge-read", NULL, &ad_set.sge_read_max },
	{ "rdatomic", NULL, &ad_set.rd_atomic },
	{ "fatal", NULL, &ad_set.fatal_posts },
	{ "removed", &ad_set.device_lost, &ad_set.fatal_posts },
	{ "noimm", &ad_set.no_imm, NULL },
	{ "pieces", &ad_set.pieces, NULL },
	{ "ooo", &ad_set.ooo, NULL },
	{ "unsent", &ad_set.unsent, NULL },
	{ "delay", NULL, &ad_set.delay_ms },
	{ "established", &ad_set.established, NULL },
	{ "ece", &ad_set.ece, NULL },
	{ "dmabuf", &ad_set.dmabuf, NULL },
	{ "stale", NULL, &ad_set.stale_ms },
	{ "reg", NULL, &ad_set.reg_max },
	{ "mr", NULL, &ad_set.mr_max },
	{ "port", NULL, &ad_set.port_ms },
	{ "migrate", NULL, &ad_set.migrate_posts },
};

static const struct {
	const char *name;
	const char *quirks;
} profiles[] = {
	{ "rxe", "" },
	{ "mlx5", "clean,lastwqe=now,pieces,rdatomic=16,ece,dmabuf" },
	{ "mlx4", "clean,lastwqe=now,rdatomic=16" },
	{ "irdma-gen2", "clean,inline-refuse=101,nosrq,sge=13,rdatomic=127,dmabuf" },
	{ "bnxt_re", "clean,lastwqe=late,inline=96,sge=6" },
	{ "hns", "clean,lastwqe=late,inline=32" },
	{ "siw-like", "noimm,established,inline=80,sge=6,sge-read=1,lastwqe=never" },
	{ "worst",
	  "clean,lastwqe=never,inline=0,nosrq,sge=1,sge-read=1,rdatomic=1,noimm,pieces,ooo,unsent,delay=5" },
};

static bool last_wqe_read(const char *value)
{
	static const char *const names[] = {
		[AD_LAST_WQE_NOW] = "now",
		[AD_LAST_WQE_LATE] = "late",
		[AD_LAST_WQE_NEVER] = "never",
	};

	for (int i = AD_LAST_WQE_NOW; i <= AD_LAST_WQE_NEVER; i++) {
		if (strcmp(value, names[i]) == 0) {
			ad_set.last_wqe = i;
			return true;
		}
	}
	return false;
}

static bool value_read(const struct word *word, const char *value)
{
	char *end;

	if (word->number == NULL || value == NULL)
		return word->number == NULL && value == NULL;
	if (word->number == &ad_set.last_wqe)
		return last_wqe_read(value);
	if (*value < '0' || *value > '9')
		return false;
	errno = 0;
	*word->number = strtoll(value, &end, 10);
	return *end == '\0' && errno == 0;
}

static bool quirk_read(char *text)
{
	char *value = strchr(text, '=');

	if (value != NULL)
		*value++ = '\0';
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(text, words[i].name) != 0)
			continue;
		if (!value_read(&words[i], value))
			return false;
		if (words[i].flag != NULL)
			*words[i].flag = true;
		return true;
	}
	return false;
}

static const char *profile_find(const char *name)
{
	for (unsigned i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		if (strcmp(name, profiles[i].name) == 0)
			return profiles[i].quirks;
	}
	return NULL;
}

bool ad_settings_read(const char *text, char *why, size_t why_bytes)
{
	char words_text[512];
	char *rest = words_text;
	char *word;

	if (snprintf(words_text, sizeof(words_text), "%s", text) >= (int)sizeof(words_text)) {
		snprintf(why, why_bytes, "it is too long");
		return false;
	}
	while ((word = strsep(&rest, ",")) != NULL) {
		const char *quirks = profile_find(word);

		if (quirks != NULL && *quirks == '\0')
			continue;
		if (quirks != NULL && !ad_settings_read(quirks, why, why_bytes))
			return false;
		if (quirks != NULL)
			continue;
		snprintf(why, why_bytes, "\"%.64s\" is no profile and no quirk", word);
		if (!quirk_read(word))
			return false;
	}
	return true;
}
