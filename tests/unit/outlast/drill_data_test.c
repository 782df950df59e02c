/* SPDX-License-Identifier: BSD-3-Clause */

/* drill_data_test.c -- a run's two files become the figures that they hold; files that are not what
 * they should be are refused with their name */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "outlast/drill.h"

static const struct drill_strategy stateless = { .name = "stateless",
						 .kills_max = 9,
						 .stateless = true };
static const struct drill_case one_kill = { .strategy = &stateless, .kills = 1, .workers = 2 };
static const struct drill_set set = { .price_server = 3.6, .price_worker = 1.8 };

static const char report[] =
	"{\"test_accuracy\": 0.75, \"test_loss\": null, \"gradients_per_s\": 100, "
	"\"gradients_computed\": 1000, \"gradients_applied\": 940, \"gradients_dropped\": 10, "
	"\"gradients_lost\": 50, \"gradients_queued\": 80, \"gradients_replayed\": 80, "
	"\"ended\": \"done\", \"wall_s\": 10.0, \"param_count\": 262144, \"servers\": 1, "
	"\"workers_rate_before\": 100.0, \"workers_rate_outage\": 95.0, "
	"\"queue_bytes_max\": 2097152, \"detect_ms\": [1.0, 3.0], \"recover_ms\": [40, null], "
	"\"outages\": [{\"target\": \"worker1\", \"killed_s\": 1}, {\"target\": \"server0\", "
	"\"killed_s\": 3.0, \"detected_s\": 3.01, \"ready_s\": 4.9, \"first_applied_s\": 5.0, "
	"\"loss_before\": 1.0, \"accuracy_before\": 0.6, \"loss_after\": 1.25, "
	"\"accuracy_after\": 0.55}], "
	"\"evals\": [{\"step\": 1, \"t_s\": 1, \"accuracy\": 0.65, \"loss\": 1}, "
	"{\"step\": 2, \"t_s\": 2, \"accuracy\": 0.80, \"loss\": 1}, "
	"{\"step\": 3, \"t_s\": 3, \"accuracy\": 0.65, \"loss\": 1}, "
	"{\"step\": 4, \"t_s\": 4, \"accuracy\": 0.65, \"loss\": 1}, "
	"{\"step\": 5, \"t_s\": 5, \"accuracy\": 0.70, \"loss\": 1}, "
	"{\"step\": 6, \"t_s\": 6, \"accuracy\": 0.75, \"loss\": 1}]}";

static const char time_line[] =
	"t_s,version,accuracy,loss,train_loss,computed,queued,applied,dropped,lost,down,server_cpu,"
	"worker_cpu,server_rss_mb,worker_rss_mb,queue_mb,bytes_in,some_news\n"
	"0.0,0,,,2.3,0,0,0,0,0,0,0.0,0.0,10,100,0,0,7\n"
	"1.0,5,0.5,1.5,2.0,10,0,10,0,0,0,0.5,1.0,12,110,0,1048576,7\n"
	"3.0,9,0.6,1.0,1.0,30,4,26,0,0,1,0.2,2.0,11,140,1.5,2097152,7\n"
	"4.0,9,,,,40,8,26,0,0,0,,1.0,11,120,3.5,3145728,\n";

struct files {
	char json[64];
	char csv[64];
};

static void put(const char *path, const char *text, size_t len)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, len, out), len);
	assert_int_equal(fclose(out), 0);
}

static int files_make(void **state)
{
	static struct files files;
	int fd;

	snprintf(files.json, sizeof(files.json), "/tmp/outlast-drill-json-XXXXXX");
	snprintf(files.csv, sizeof(files.csv), "/tmp/outlast-drill-csv-XXXXXX");
	fd = mkstemp(files.json);
	if (fd < 0 || close(fd) != 0)
		return -1;
	fd = mkstemp(files.csv);
	if (fd < 0 || close(fd) != 0)
		return -1;
	put(files.json, report, strlen(report));
	put(files.csv, time_line, strlen(time_line));
	*state = &files;
	return 0;
}

static int files_remove(void **state)
{
	const struct files *files = *state;

	unlink(files->json);
	unlink(files->csv);
	return 0;
}

static struct drill_run fresh(void)
{
	struct drill_run run = { .of = &one_kill, .name = "run" };

	for (size_t i = 0; i < DRILL_FIGURES; i++)
		run.figure[i] = NAN;
	return run;
}

static void is(const struct drill_run *run, enum drill_figure figure, double value)
{
	if (fabs(run->figure[figure] - value) > 1e-9)
		fail_msg("%s is %g, not %g", drill_figures[figure].key, run->figure[figure], value);
}

static void the_figures_are_those_of_the_report(void **state)
{
	const struct files *files = *state;
	struct drill_run run = fresh();

	assert_int_equal(drill_run_read(&run, &set, files->json, files->csv), 0);
	is(&run, DRILL_F_ACCURACY, 0.75);
	assert_true(isnan(run.figure[DRILL_F_TEST_LOSS]));
	is(&run, DRILL_F_COMPUTED, 1000.0);
	is(&run, DRILL_F_LOST, 50.0);
	is(&run, DRILL_F_UTILISATION, 0.95);
	is(&run, DRILL_F_DETECT, 2.0);
	is(&run, DRILL_F_RECOVER, 40.0);
	assert_int_equal(run.outage_count, 1); /* the worker's is none of a server */
	is(&run, DRILL_F_DOWNTIME, 2.0);
	is(&run, DRILL_F_LOSS_STEP, 0.25);
	is(&run, DRILL_F_ACCURACY_STEP, -0.05);
	is(&run, DRILL_F_T70, 6.0); /* the mean of five evaluations, not the first one above */
	is(&run, DRILL_F_COST, 10.0 * (3.6 + 2 * 1.8) / 3600.0);
	is(&run, DRILL_F_COST_70, 6.0 * (3.6 + 2 * 1.8) / 3600.0);
	drill_run_fini(&run);
}

static void peaks_and_means_are_those_of_the_time_line(void **state)
{
	const struct files *files = *state;
	struct drill_run run = fresh();

	assert_int_equal(drill_run_read(&run, &set, files->json, files->csv), 0);
	assert_int_equal(run.line.count, 4);
	is(&run, DRILL_F_SERVER_MB, 12.0);
	is(&run, DRILL_F_WORKER_MB, 140.0);
	is(&run, DRILL_F_QUEUE_MB, 3.5); /* more than the report's own 2 */
	is(&run, DRILL_F_MOVED_MB, 3.0);
	is(&run, DRILL_F_SERVER_CPU, (0.5 * 1.0 + 0.2 * 2.0) / 3.0); /* unknown is no zero */
	is(&run, DRILL_F_WORKER_CPU, (1.0 * 1.0 + 2.0 * 2.0 + 1.0 * 1.0) / 4.0);
	drill_run_fini(&run);
}

/* 2 s at 4 a second are 8 gradients, at 5 a second the 10 that it takes */
static void a_rate_needs_ten_gradients_that_were_due(void **state)
{
	static const char given[] = "\"workers_rate_before\": 100.0";
	const struct files *files = *state;
	char text[sizeof(report)];

	for (unsigned rate = 4; rate <= 5; rate++) {
		struct drill_run run = fresh();

		memcpy(text, report, sizeof(report));
		memcpy(strstr(text, given) + sizeof(given) - sizeof("100.0"),
		       rate == 4 ? "4.000" : "5.000", 5);
		put(files->json, text, strlen(text));
		assert_int_equal(drill_run_read(&run, &set, files->json, files->csv), 0);
		if (rate == 5) {
			is(&run, DRILL_F_UTILISATION, 19.0);
			is(&run, DRILL_F_RATE_OUTAGE, 95.0);
		} else {
			assert_true(isnan(run.figure[DRILL_F_UTILISATION]));
			assert_true(isnan(run.figure[DRILL_F_RATE_OUTAGE]));
		}
		drill_run_fini(&run);
	}
}

static void a_time_line_is_known_from_its_first_value_on(void **state)
{
	const struct files *files = *state;
	struct drill_run run = fresh();

	assert_int_equal(drill_run_read(&run, &set, files->json, files->csv), 0);
	assert_true(isnan(drill_line_at(&run.line, DRILL_ACCURACY, 0.5)));
	assert_true(isnan(drill_line_at(&run.line, DRILL_COMPUTED, -1.0)));
	assert_true(drill_line_at(&run.line, DRILL_COMPUTED, 0.0) == 0.0);
	assert_true(drill_line_at(&run.line, DRILL_COMPUTED, 2.9) == 10.0);
	assert_true(drill_line_at(&run.line, DRILL_COMPUTED, 3.0) == 30.0);
	assert_true(drill_line_at(&run.line, DRILL_ACCURACY, 99.0) == 0.6);
	assert_true(drill_line_at(&run.line, DRILL_APPLIED, INFINITY) == 26.0);
	drill_run_fini(&run);
}

/* Refused, and the error names the file. */
static void refused(const struct files *files, const char *named)
{
	struct drill_run run = fresh();

	assert_true(drill_run_read(&run, &set, files->json, files->csv) < 0);
	if (strstr(run.error, named) == NULL)
		fail_msg("\"%s\" does not name %s", run.error, named);
	drill_run_fini(&run);
}

static void a_report_that_lacks_something_is_refused(void **state)
{
	static const char *const needed[] = { "gradients_computed",
					      "gradients_applied",
					      "gradients_dropped",
					      "gradients_lost",
					      "wall_s",
					      "outages" };
	const struct files *files = *state;

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		char *text = strdup(report);
		char *at = text != NULL ? strstr(text, needed[i]) : NULL;

		assert_non_null(at);
		at[0] = 'X';
		put(files->json, text, strlen(text));
		free(text);
		refused(files, files->json);
	}
	put(files->json, "{", 1);
	refused(files, files->json);
	put(files->json, "[]", 2);
	refused(files, files->json);
	unlink(files->json);
	refused(files, files->json);
}

static void a_time_line_that_is_none_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"\n",
		"version,t_s\n1,2\n",
		"t_s,computed\n1,2\nx,3\n",
		"t_s,computed\n1,2\n2\n",
		"t_s,computed\n1,2\n2,3x\n",
		"t_s,computed\n2,2\n1,3\n",
		"t_s,computed\n,2\n",
	};
	const struct files *files = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put(files->csv, bad[i], strlen(bad[i]));
		refused(files, files->csv);
	}
	unlink(files->csv);
	refused(files, files->csv);
}

static void no_prefix_of_either_file_is_trouble(void **state)
{
	const struct files *files = *state;

	for (size_t len = 0; len < sizeof(report) - 1; len += 3) {
		put(files->json, report, len);
		refused(files, files->json);
	}
	put(files->json, report, sizeof(report) - 1);
	for (size_t len = 0; len < sizeof(time_line); len++) {
		struct drill_run run = fresh();

		put(files->csv, time_line, len);
		if (drill_run_read(&run, &set, files->json, files->csv) != 0)
			assert_non_null(strstr(run.error, files->csv));
		drill_run_fini(&run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_figures_are_those_of_the_report, files_make,
						files_remove),
		cmocka_unit_test_setup_teardown(peaks_and_means_are_those_of_the_time_line,
						files_make, files_remove),
		cmocka_unit_test_setup_teardown(a_rate_needs_ten_gradients_that_were_due,
						files_make, files_remove),
		cmocka_unit_test_setup_teardown(a_time_line_is_known_from_its_first_value_on,
						files_make, files_remove),
		cmocka_unit_test_setup_teardown(a_report_that_lacks_something_is_refused,
						files_make, files_remove),
		cmocka_unit_test_setup_teardown(a_time_line_that_is_none_is_refused, files_make,
						files_remove),
		cmocka_unit_test_setup_teardown(no_prefix_of_either_file_is_trouble, files_make,
						files_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
