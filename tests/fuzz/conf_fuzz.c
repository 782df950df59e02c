/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conf_fuzz.c -- no settings file causes a crash, a leak or a broken error line; accepted settings
 * are printed as a file that is accepted again
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "support/fuzz.h"

struct settings {
	uint32_t workers;
	double lr;
	bool verbose;
	const char *listen;
	int mood;
	uint64_t ring_bytes;
	uint64_t lease_ns;
};

static const struct ol_conf_choice moods[] = {
	{ "calm", 1 },
	{ "wild", 2 },
	{ NULL, 0 },
};

#define AT(member) .offset = offsetof(struct settings, member)

static const struct ol_conf_field fields[] = {
	{ .name = "workers", .dflt = "1", .type = OL_CONF_U32, AT(workers), .min = 1, .max = 64 },
	{ .name = "lr", .dflt = "0.1", .type = OL_CONF_F64, AT(lr) },
	{ .name = "verbose", .dflt = "no", .type = OL_CONF_BOOL, AT(verbose) },
	{ .name = "listen", .type = OL_CONF_STR, AT(listen) },
	{ .name = "mood", .dflt = "calm", .type = OL_CONF_CHOICE, AT(mood), .choices = moods },
	{ .name = "ring_size", .dflt = "64KiB", .type = OL_CONF_SIZE, AT(ring_bytes) },
	{ .name = "lease", .dflt = "20ms", .type = OL_CONF_DURATION, AT(lease_ns) },
};

static const struct ol_conf_spec spec = {
	.program = "fuzz",
	.purpose = "",
	.fields = fields,
	.field_count = sizeof(fields) / sizeof(fields[0]),
};

static void must_be(bool held, const char *what)
{
	if (held)
		return;
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

/* A string with a quote or too long to print whole has no form that reads back. */
static bool printable(const struct settings *settings)
{
	return settings->listen == NULL ||
	       (strchr(settings->listen, '"') == NULL && strlen(settings->listen) < 1000);
}

static void read_back(const struct ol_conf *conf, const struct settings *first)
{
	struct settings second;
	struct ol_conf *again;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	must_be(out != NULL, "memory");
	ol_conf_print(conf, out);
	fclose(out);
	must_be(ol_conf_create(&spec, &second, &again) == 0, "the table");
	if (ol_conf_load_text(again, "again", text, bytes) != 0) {
		fprintf(stderr, "%s\n%s\n", text, ol_conf_error(again));
		must_be(false, "what is printed is accepted");
	}
	must_be(second.workers == first->workers && second.mood == first->mood &&
			second.ring_bytes == first->ring_bytes &&
			second.lease_ns == first->lease_ns &&
			memcmp(&second.lr, &first->lr, sizeof(first->lr)) == 0,
		"what is printed reads back as the same");
	free(text);
	ol_conf_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct settings settings;
	struct ol_conf *conf;
	int rc;

	must_be(ol_conf_create(&spec, &settings, &conf) == 0, "the table");
	rc = ol_conf_load_text(conf, "file", (const char *)data, bytes);
	must_be(settings.workers >= 1 && settings.workers <= 64, "a range");
	must_be(settings.mood == 1 || settings.mood == 2, "a choice");
	if (rc != 0) {
		must_be(ol_conf_error(conf)[0] != '\0', "an error has a line");
		must_be(strchr(ol_conf_error(conf), '\n') == NULL, "an error is one line");
	} else if (printable(&settings)) {
		read_back(conf, &settings);
	}
	ol_conf_destroy(conf);
	return 0;
}
