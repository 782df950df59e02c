/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * series_test.c -- figures as text: names, labels, buckets and ends of both formats; a file of them is
 * whole or as it was
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder.h"
#include "base/hist.h"
#include "cmd/series.h"

static char *text;
static size_t bytes;

static struct ol_series begin(bool open)
{
	struct ol_series to = { .out = open_memstream(&text, &bytes), .open = open };

	assert_non_null(to.out);
	return to;
}

static void assert_said(const struct ol_series *to, const char *want)
{
	ol_series_end(to);
	assert_int_equal(fclose(to->out), 0);
	assert_string_equal(text, want);
	free(text);
	text = NULL;
}

static const struct ol_series_label nasty[] = { { "job", "a\"b\\c\nd" },
						{ "shard", "0" },
						{ NULL, NULL } };

static void labels_are_escaped_and_values_have_their_form(void **state)
{
	struct ol_series to = begin(false);

	(void)state;
	ol_series_begin(&to, "x", nasty);
	ol_series_uint(&to, UINT64_MAX);
	ol_series_begin(&to, "x", nasty + 1);
	ol_series_label(&to, "more", "y");
	ol_series_seconds(&to, 1000000007);
	ol_series_begin(&to, "x", nasty + 2);
	ol_series_float(&to, NAN);
	ol_series_begin(&to, "x", nasty + 2);
	ol_series_float(&to, -INFINITY);
	assert_said(&to, "x{job=\"a\\\"b\\\\c\\nd\",shard=\"0\"} 18446744073709551615\n"
			 "x{shard=\"0\",more=\"y\"} 1.000000007\n"
			 "x{} NaN\n"
			 "x{} -Inf\n");
}

static void openmetrics_names_a_counter_without_its_end_and_says_units(void **state)
{
	struct ol_series to = begin(true);

	(void)state;
	ol_series_head(&to, "a_bytes_total", OL_SERIES_COUNTER, "Of a.");
	ol_series_head(&to, "b_seconds", OL_SERIES_GAUGE, "Of b.");
	ol_series_head(&to, "c_total", OL_SERIES_COUNTER, "Of c.");
	assert_said(&to,
		    "# HELP a_bytes Of a.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\n"
		    "# HELP b_seconds Of b.\n# TYPE b_seconds gauge\n# UNIT b_seconds seconds\n"
		    "# HELP c Of c.\n# TYPE c counter\n"
		    "# EOF\n");
	to = begin(false);
	ol_series_head(&to, "a_bytes_total", OL_SERIES_COUNTER, "Of a.");
	assert_said(&to, "# HELP a_bytes_total Of a.\n# TYPE a_bytes_total counter\n");
}

static void a_histogram_has_each_time_once(void **state)
{
	struct ol_series to = begin(false);
	struct ol_latency times = { 0 };
	unsigned buckets = 0;

	(void)state;
	ol_hist_add(&times, 1);
	ol_hist_add(&times, UINT64_C(1500000000));
	ol_hist_add(&times, UINT64_C(1) << 40);
	ol_series_histogram(&to, "t", nasty + 1, &times, NULL);
	assert_int_equal(fclose(to.out), 0);
	for (const char *at = text; (at = strstr(at, "t_bucket{")) != NULL; at++)
		buckets++;
	assert_int_equal(buckets, (OL_LATENCY_BUCKETS - 1 + 1) / 2 + 1);
	assert_ptr_equal(strstr(text, "t_bucket{shard=\"0\",le=\"1.024e-06\"} 1\n"), text);
	assert_non_null(strstr(text, "le=\"1.073741824\"} 1\n"));
	assert_non_null(strstr(text, "le=\"1.610612736\"} 2\n"));
	assert_non_null(strstr(text, "le=\"68.719476736\"} 2\n"));
	assert_non_null(strstr(text, "le=\"+Inf\"} 3\n"));
	assert_non_null(strstr(text, "t_sum{shard=\"0\"} 1101.011627777\n"));
	assert_non_null(strstr(text, "t_count{shard=\"0\"} 3\n"));
	free(text);
}

/* The exemplar is in the first bucket whose bound is above it, of OpenMetrics alone */
static void an_exemplar_is_in_its_bucket(void **state)
{
	static const struct ol_series_label which[] = { { "worker", "3" },
							{ "push", "17" },
							{ NULL, NULL } };
	const struct ol_series_exemplar exemplar = { .labels = which,
						     .ns = UINT64_C(1073741824),
						     .at_ns = UINT64_C(1700000000123456789) };
	struct ol_latency times = { 0 };
	struct ol_series to = begin(true);
	const char *at;

	(void)state;
	ol_hist_add(&times, exemplar.ns);
	ol_series_histogram(&to, "t", nasty + 1, &times, &exemplar);
	assert_int_equal(fclose(to.out), 0);
	assert_non_null(strstr(text, "le=\"1.073741824\"} 0\n"));
	at = strstr(text, "le=\"1.610612736\"} 1 # {worker=\"3\",push=\"17\"} 1.073741824 "
			  "1700000000.123\n");
	assert_non_null(at);
	assert_null(strstr(strchr(at, '\n'), " # "));
	free(text);
	to = begin(false);
	ol_series_histogram(&to, "t", nasty + 1, &times, &exemplar);
	assert_int_equal(fclose(to.out), 0);
	assert_null(strstr(text, " # "));
	free(text);
}

static void who_asks_for_openmetrics_gets_it(void **state)
{
	(void)state;
	assert_false(ol_series_open_wanted(NULL));
	assert_false(ol_series_open_wanted(""));
	assert_false(ol_series_open_wanted("*/*"));
	assert_false(ol_series_open_wanted("text/plain"));
	assert_false(ol_series_open_wanted("application/openmetrics-text;q=0"));
	assert_false(ol_series_open_wanted("application/openmetrics-text;q=0.3, text/plain;q=0.5"));
	assert_false(ol_series_open_wanted("application/openmetrics-texts"));
	assert_true(ol_series_open_wanted("application/openmetrics-text"));
	assert_true(
		ol_series_open_wanted("text/plain;q=0.5 , Application/OpenMetrics-Text ; q=0.7"));
	/* Prometheus 2.42 */
	assert_true(ol_series_open_wanted(
		"application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
		"version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
}

static void say(void *arg, const struct ol_series *to)
{
	fputs(arg, to->out);
}

static void a_file_is_whole_or_as_it_was(void **state)
{
	struct ol_folder folder;
	char path[OL_FOLDER_MAX + 16], beside[OL_FOLDER_MAX + 32], got[16] = "";
	FILE *file;

	(void)state;
	assert_int_equal(ol_folder_make(&folder, "ol-series-"), 0);
	snprintf(path, sizeof(path), "%s/w.prom", folder.path);
	snprintf(beside, sizeof(beside), "%s.new", path);
	assert_int_equal(ol_series_save(path, say, (void *)(uintptr_t) "first\n"), 0);
	assert_int_equal(ol_series_save(path, say, (void *)(uintptr_t) "second\n"), 0);
	assert_int_not_equal(access(beside, F_OK), 0);
	/* what lies beside cannot be written */
	assert_int_equal(mkdir(beside, 0700), 0);
	assert_int_equal(ol_series_save(path, say, (void *)(uintptr_t) "third\n"), -EISDIR);
	assert_int_equal(rmdir(beside), 0);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(got, sizeof(got), file));
	assert_int_equal(fclose(file), 0);
	assert_string_equal(got, "second\n");
	assert_int_equal(ol_series_save("/nowhere/w.prom", say, (void *)(uintptr_t) "x"), -ENOENT);
	ol_folder_drop(&folder);
}

/* Nothing stays of what did not fit on the disk */
static void a_full_disk_leaves_nothing(void **state)
{
	struct ol_folder folder;
	char path[OL_FOLDER_MAX + 16], beside[OL_FOLDER_MAX + 32];

	(void)state;
	assert_int_equal(ol_folder_make(&folder, "ol-series-"), 0);
	snprintf(path, sizeof(path), "%s/w.prom", folder.path);
	snprintf(beside, sizeof(beside), "%s.new", path);
	if (symlink("/dev/full", beside) != 0)
		skip();
	assert_int_equal(ol_series_save(path, say, (void *)(uintptr_t) "x"), -ENOSPC);
	assert_int_not_equal(access(path, F_OK), 0);
	ol_folder_drop(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_are_escaped_and_values_have_their_form),
		cmocka_unit_test(openmetrics_names_a_counter_without_its_end_and_says_units),
		cmocka_unit_test(a_histogram_has_each_time_once),
		cmocka_unit_test(an_exemplar_is_in_its_bucket),
		cmocka_unit_test(who_asks_for_openmetrics_gets_it),
		cmocka_unit_test(a_file_is_whole_or_as_it_was),
		cmocka_unit_test(a_full_disk_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
