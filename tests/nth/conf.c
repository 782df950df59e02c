/* SPDX-License-Identifier: BSD-3-Clause */

/* conf.c -- settings from a file, the environment and a command line, and their help */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "nth/scenarios.h"
#include "support/check.h"

struct settings {
	const char *name;
	const char *path;
	uint32_t count;
	uint64_t bytes;
};

static const struct ol_conf_field fields[] = {
	{ .name = "name",
	  .dflt = "none",
	  .help = "a name",
	  .offset = offsetof(struct settings, name),
	  .type = OL_CONF_STR },
	{ .name = "path",
	  .help = "a path",
	  .offset = offsetof(struct settings, path),
	  .type = OL_CONF_STR },
	{ .name = "count",
	  .dflt = "4",
	  .help = "a count",
	  .offset = offsetof(struct settings, count),
	  .type = OL_CONF_U32 },
	{ .name = "buffer_bytes",
	  .dflt = "4KiB",
	  .help = "a size",
	  .offset = offsetof(struct settings, bytes),
	  .type = OL_CONF_SIZE },
};

static const struct ol_conf_spec spec = {
	.program = "nth",
	.purpose = "Read settings while calls fail.",
	.fields = fields,
	.field_count = sizeof(fields) / sizeof(fields[0]),
	.arguments_max = 2,
};

static char file_path[128];

static void start(void)
{
	FILE *file;

	snprintf(file_path, sizeof(file_path), "%s/settings", run_folder());
	file = fopen(file_path, "we");
	check(file != NULL);
	check(fputs("name = \"of # the file\"\ncount = 7 # of it\npath = /tmp\n", file) >= 0);
	check_ok(fclose(file));
	check_ok(setenv("OUTLAST_BUFFER_BYTES", "2MiB", 1));
}

static struct settings settings;
static struct ol_conf *conf;

static int run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	char words[5][32] = { "nth", "--config", "--path=/var/tmp", "one", "two" };
	char *const argv[] = { words[0], words[1], file_path, words[2], words[3], words[4], NULL };
	int rc;

	(void)attempt;
	rc = ol_conf_create(&spec, &settings, &conf);
	if (rc != 0) {
		snprintf(text, RUN_TEXT_MAX, "no settings");
		return rc;
	}
	rc = ol_conf_load(conf, 6, argv);
	if (rc < 0)
		snprintf(text, RUN_TEXT_MAX, "%s", ol_conf_error(conf));
	if (rc == 0 && (strcmp(settings.name, "of # the file") != 0 || settings.count != 7 ||
			strcmp(settings.path, "/var/tmp") != 0 || settings.bytes != 2 << 20 ||
			strcmp(ol_conf_argument(conf, 1), "two") != 0))
		run_wrong("settings are not what they were set to");
	ol_conf_destroy(conf);
	return rc;
}

const struct run_scenario nth_conf = { .name = "conf", .start = start, .run = run };
