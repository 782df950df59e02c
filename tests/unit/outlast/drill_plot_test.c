/* SPDX-License-Identifier: BSD-3-Clause */

/* drill_plot_test.c -- each strategy's outage is drawn where that strategy's was, names stand at
 * the ends of lines and apart from each other, and the title says what came of it */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "outlast/drill.h"
#include "support/folder.h"

enum {
	SEEDS = 2,
	CASES = 7,
	SCRIPT_MAX = 64 * 1024
};

static const struct drill_set set = {
	.strategies = "none/async,checkpoint,stateless,chain",
	.consistency = "async,sync",
	.kills = "1",
	.workers = "1",
	.seeds = "2",
	.seconds = 20.0,
	.kill_at = 5.0,
	.down = 4.0,
};

struct stage {
	struct drill drill;
	char script[SCRIPT_MAX];
};

/* Seconds from the kill, on average of the two seeds; the other figures are like those of a run */
static double down_s(const struct drill_case *of)
{
	if (of->strategy->replicas > 0)
		return 0.25;
	return of->strategy->stateless ? 4.125 : 4.5;
}

static void run_make(struct drill_run *run)
{
	double apart = run->seed == 1 ? -0.0625 : 0.0625;
	bool lost = strcmp(run->of->strategy->name, "checkpoint") == 0;

	run->status = DRILL_DONE;
	run->outage_count = run->of->kills;
	run->outages[0] = (struct drill_outage){ .killed_s = 5.0,
						 .first_applied_s = 5.0 + down_s(run->of) + apart };
	run->figure[DRILL_F_DOWNTIME] = run->of->kills == 0 ? NAN : down_s(run->of) + apart;
	run->figure[DRILL_F_LOST] = lost ? 50.0 : 0.0;
	run->figure[DRILL_F_ACCURACY] = lost ? 0.5 : 0.99;
	run->evals = calloc(1, sizeof(*run->evals));
	run->line.rows = calloc(2, sizeof(*run->line.rows));
	assert_true(run->evals != NULL && run->line.rows != NULL);
	run->eval_count = 1;
	run->evals[0] = (struct drill_eval){ .t_s = 1.0, .accuracy = lost ? 0.5 : 0.99 };
	run->line.count = 2;
	run->line.rows[1].cell[DRILL_T_S] = 20.0;
}

static int stage_make(void **state)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	char err[DRILL_ERR_MAX], path[DRILL_PATH_MAX + 16];

	if (stage == NULL || drill_plan_make(&set, &stage->drill.plan, err) != NULL ||
	    stage->drill.plan.run_count != SEEDS * CASES)
		return -1;
	snprintf(stage->drill.out, sizeof(stage->drill.out), "/tmp/outlast-drill-plot-XXXXXX");
	if (mkdtemp(stage->drill.out) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/plots", stage->drill.out);
	if (mkdir(path, 0755) != 0)
		return -1;
	for (size_t i = 0; i < stage->drill.plan.run_count; i++)
		run_make(&stage->drill.plan.runs[i]);
	*state = stage;
	return 0;
}

static int stage_drop(void **state)
{
	struct stage *stage = *state;

	drill_plan_fini(&stage->drill.plan);
	folder_drop(stage->drill.out);
	free(stage);
	return 0;
}

/* The script of one picture */
static const char *script(struct stage *stage, const char *name)
{
	char path[DRILL_PATH_MAX + 64];
	size_t len;
	FILE *in;

	setenv("PATH", "/nonexistent",
	       1); /* scripts alone: without gnuplot there is nothing drawn */
	assert_int_equal(drill_plots_write(&stage->drill), 0);
	snprintf(path, sizeof(path), "%s/plots/%s-k1-w1.gp", stage->drill.out, name);
	in = fopen(path, "re");
	assert_non_null(in);
	len = fread(stage->script, 1, SCRIPT_MAX - 1, in);
	stage->script[len] = '\0';
	fclose(in);
	return stage->script;
}

static size_t count_of(const char *text, const char *word)
{
	size_t count = 0;

	for (; (text = strstr(text, word)) != NULL; text++)
		count++;
	return count;
}

static void an_outage_ends_where_that_of_its_strategy_did(void **state)
{
	const char *text = script(*state, "outage");

	assert_non_null(strstr(text, "from 5.25, graph 0 to 5.25, graph 1 nohead"));
	assert_non_null(strstr(text, "from 9.125, graph 0 to 9.125, graph 1 nohead"));
	assert_non_null(strstr(text, "from 9.5, graph 0 to 9.5, graph 1 nohead"));
	assert_int_equal(count_of(text, "\tset arrow from 5, "),
			 3); /* the kill, for each of them */
	assert_int_equal(count_of(text, "\tset arrow"), 6);
	assert_int_equal(count_of(text, "\"killed\""), 1);
	assert_int_equal(count_of(text, " back\" at "), 3);
	assert_int_equal(count_of(script(*state, "loss"), "\tset arrow"), 12); /* of sync, too */
}

static void the_title_is_the_result(void **state)
{
	const char *text = script(*state, "outage");

	assert_non_null(strstr(text,
			       "title \"1 kill, 1 worker: chain goes on after 0.25 s and loses "
			       "nothing, checkpoint after 4.50 s and loses 50 gradients\""));
	assert_non_null(strstr(text, "set label \"checkpoint: 4.50 s down, 50 lost\""));
	assert_non_null(strstr(text, "set label \"none: no kill\""));
}

static void names_at_the_ends_of_lines_are_apart(void **state)
{
	static const char *const kinds[] = { "outage", "accuracy", "gradients" };

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		const char *at = script(*state, kinds[k]);
		double last = -1.0;
		size_t count = 0;

		assert_non_null(strstr(at, "unset key"));
		for (; (at = strstr(at, "at graph 1, graph ")) != NULL; count++) {
			double y = strtod(at += strlen("at graph 1, graph "), NULL);

			assert_true(y >= 0.0 && y <= 1.0);
			/* those of a panel come from below */
			assert_true(y >= last + 0.0499 || count % (k == 0 ? 4 : 7) == 0);
			last = y;
		}
		assert_int_equal(count, k == 0 ? 4 : k == 1 ? 7 : 4 * 7);
	}
}

static void no_two_strategies_have_one_colour(void **state)
{
	struct stage *stage = *state;
	const char *text = script(stage, "outage");
	char colours[4][8];
	size_t count = 0;

	for (; count < 4 && (text = strstr(text, "with lines")) != NULL; count++) {
		const char *rgb;

		text += strlen("with lines");
		rgb = strstr(text, "rgb \"");
		assert_non_null(rgb);
		snprintf(colours[count], sizeof(colours[count]), "%.7s", rgb + strlen("rgb \""));
		for (size_t i = 0; i < count; i++)
			assert_string_not_equal(colours[i], colours[count]);
	}
	assert_int_equal(count, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_outage_ends_where_that_of_its_strategy_did,
						stage_make, stage_drop),
		cmocka_unit_test_setup_teardown(the_title_is_the_result, stage_make, stage_drop),
		cmocka_unit_test_setup_teardown(names_at_the_ends_of_lines_are_apart, stage_make,
						stage_drop),
		cmocka_unit_test_setup_teardown(no_two_strategies_have_one_colour, stage_make,
						stage_drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
