/* SPDX-License-Identifier: BSD-3-Clause */

/* series.c -- figures as text for Prometheus, to a page or a file */

#include "cmd/series.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hist.h"

enum {
	NAME_MAX_BYTES = 96
};

static bool ends_with(const char *text, size_t len, const char *end)
{
	const size_t end_len = strlen(end);

	return len > end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

void ol_series_head(const struct ol_series *to, const char *name, enum ol_series_type type,
		    const char *help)
{
	static const char *const types[] = { [OL_SERIES_COUNTER] = "counter",
					     [OL_SERIES_GAUGE] = "gauge",
					     [OL_SERIES_HISTOGRAM] = "histogram" };
	static const char *const units[] = { "seconds", "bytes" };
	size_t len = strlen(name);

	/* a counter of OpenMetrics has _total in its series alone */
	if (to->open && type == OL_SERIES_COUNTER && ends_with(name, len, "_total"))
		len -= strlen("_total");
	fprintf(to->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)len, name, help, (int)len, name,
		types[type]);
	for (unsigned i = 0; to->open && i < sizeof(units) / sizeof(units[0]); i++) {
		if (ends_with(name, len, units[i]))
			fprintf(to->out, "# UNIT %.*s %s\n", (int)len, name, units[i]);
	}
}

/* name="value", escaped */
static void label_write(const char *name, const char *value, FILE *out)
{
	fprintf(out, "%s=\"", name);
	for (; *value != '\0'; value++) {
		if (*value == '\n') {
			fputs("\\n", out);
			continue;
		}
		if (*value == '"' || *value == '\\')
			fputc('\\', out);
		fputc(*value, out);
	}
	fputc('"', out);
}

void ol_series_begin(const struct ol_series *to, const char *name,
		     const struct ol_series_label *labels)
{
	fprintf(to->out, "%s{", name);
	for (const struct ol_series_label *label = labels; label->name != NULL; label++) {
		if (label != labels)
			fputc(',', to->out);
		label_write(label->name, label->value, to->out);
	}
}

void ol_series_label(const struct ol_series *to, const char *name, const char *value)
{
	fputc(',', to->out);
	label_write(name, value, to->out);
}

void ol_series_uint(const struct ol_series *to, uint64_t value)
{
	fprintf(to->out, "} %" PRIu64 "\n", value);
}

void ol_series_seconds(const struct ol_series *to, uint64_t ns)
{
	fprintf(to->out, "} %" PRIu64 ".%09" PRIu64 "\n", ns / OL_NS_PER_S, ns % OL_NS_PER_S);
}

void ol_series_float(const struct ol_series *to, float value)
{
	if (isnan(value))
		fputs("} NaN\n", to->out);
	else if (isinf(value))
		fputs(value > 0 ? "} +Inf\n" : "} -Inf\n", to->out);
	else
		fprintf(to->out, "} %.9g\n", (double)value);
}

/* name_suffix{… -- one series of a histogram */
static void part_begin(const struct ol_series *to, const char *name, const char *suffix,
		       const struct ol_series_label *labels)
{
	char whole[NAME_MAX_BYTES];

	snprintf(whole, sizeof(whole), "%s_%s", name, suffix);
	ol_series_begin(to, whole, labels);
}

static void exemplar_write(const struct ol_series *to, const struct ol_series_exemplar *exemplar)
{
	fputs(" # ", to->out);
	ol_series_begin(to, "", exemplar->labels);
	fprintf(to->out, "} %" PRIu64 ".%09" PRIu64 " %" PRIu64 ".%03" PRIu64,
		exemplar->ns / OL_NS_PER_S, exemplar->ns % OL_NS_PER_S,
		exemplar->at_ns / OL_NS_PER_S, exemplar->at_ns % OL_NS_PER_S / OL_NS_PER_MS);
}

/* A bucket, which has the exemplar if that lies below its bound */
static void bucket_write(const struct ol_series *to, const char *name,
			 const struct ol_series_label *labels, uint64_t bound, uint64_t count,
			 const struct ol_series_exemplar **exemplar)
{
	char text[32] = "+Inf";

	if (bound != UINT64_MAX)
		snprintf(text, sizeof(text), "%.12g", (double)bound / 1e9);
	part_begin(to, name, "bucket", labels);
	ol_series_label(to, "le", text);
	fprintf(to->out, "} %" PRIu64, count);
	if (to->open && *exemplar != NULL && (*exemplar)->ns < bound) {
		exemplar_write(to, *exemplar);
		*exemplar = NULL;
	}
	fputc('\n', to->out);
}

/* Every other bound: each power of two, and what lies half-way to the next */
void ol_series_histogram(const struct ol_series *to, const char *name,
			 const struct ol_series_label *labels, const struct ol_latency *times,
			 const struct ol_series_exemplar *exemplar)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < OL_LATENCY_BUCKETS - 1; i++) {
		count += times->buckets[i];
		if (i % 2 == 0)
			bucket_write(to, name, labels, ol_hist_bound(i), count, &exemplar);
	}
	count += times->buckets[OL_LATENCY_BUCKETS - 1];
	bucket_write(to, name, labels, UINT64_MAX, count, &exemplar);
	part_begin(to, name, "sum", labels);
	ol_series_seconds(to, times->sum_ns);
	part_begin(to, name, "count", labels);
	ol_series_uint(to, count);
}

/* How much a media type is wanted, 0 to 1: its q, if the header names it; the greatest, if often */
static double wanted(const char *accept, const char *type)
{
	double most = 0.0;

	while (*accept != '\0') {
		const size_t len = strcspn(accept, ",");
		char one[256], *name, *rest = NULL;
		double q = 1.0;

		snprintf(one, sizeof(one), "%.*s", (int)(len < sizeof(one) ? len : sizeof(one) - 1),
			 accept);
		name = strtok_r(one, "; \t", &rest);
		for (char *word; name != NULL && (word = strtok_r(NULL, "; \t", &rest)) != NULL;) {
			if (strncasecmp(word, "q=", 2) == 0)
				q = strtod(word + 2, NULL);
		}
		if (name != NULL && strcasecmp(name, type) == 0 && q > most)
			most = q;
		accept += len + (accept[len] == ',');
	}
	return most;
}

bool ol_series_open_wanted(const char *accept)
{
	double open = accept != NULL ? wanted(accept, "application/openmetrics-text") : 0.0;

	return open > 0.0 && open >= wanted(accept, "text/plain");
}

const char *ol_series_type(const struct ol_series *to)
{
	return to->open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			: "text/plain; version=0.0.4; charset=utf-8";
}

void ol_series_end(const struct ol_series *to)
{
	if (to->open)
		fputs("# EOF\n", to->out);
}

int ol_series_save(const char *path, void (*write)(void *arg, const struct ol_series *to),
		   void *arg)
{
	char beside[PATH_MAX];
	struct ol_series to = { 0 };
	bool whole;
	int rc;

	/* collectors of a folder's files take those that end in .prom */
	if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside))
		return -ENAMETOOLONG;
	to.out = fopen(beside, "we");
	if (to.out == NULL)
		return -errno;
	errno = 0;
	write(arg, &to);
	whole = fflush(to.out) == 0 && ferror(to.out) == 0;
	rc = whole ? 0 : errno != 0 ? -errno : -EIO;
	if (fclose(to.out) != 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(beside, path) != 0)
		rc = -errno;
	if (rc != 0)
		(void)unlink(beside);
	return rc;
}
