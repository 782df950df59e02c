/* SPDX-License-Identifier: BSD-3-Clause */

/* drill_claims_test.c -- a claim is confirmed by runs that bear it out, refused by runs that do
 * not, and not judged from too few */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "outlast/drill.h"

enum {
	SEEDS = 8,
	CASES = 6
};

static const struct drill_set set = {
	.strategies = "none/async,checkpoint/async,checkpoint-norestore/async,stateless/async,"
		      "stateless-published/async,mirror/async",
	.consistency = "async",
	.kills = "2",
	.workers = "1",
	.seeds = "8",
	.seconds = 100.0,
	.kill_at = 20.0,
	.down = 10.0,
	.again = 10.0,
	.checkpoint_every = 100,
};

struct world {
	struct drill_plan plan;
	struct drill_claim claims[DRILL_CLAIMS];
};

static struct drill_run *runs_of(struct world *world, const char *strategy, size_t seed)
{
	for (size_t i = 0; i < world->plan.run_count; i++) {
		struct drill_run *run = &world->plan.runs[i];

		if (strcmp(run->of->strategy->name, strategy) == 0 && run->seed == seed + 1)
			return run;
	}
	fail_msg("no run of %s", strategy);
	return NULL;
}

static void line_make(struct drill_run *run, const double lost[3])
{
	static const double at[] = { 0.0, 25.0, 45.0, 100.0 };
	static const double applied[] = { 0.0, 250.0, 350.0, 1000.0 };

	run->line.count = 4;
	run->line.rows = calloc(4, sizeof(*run->line.rows));
	assert_non_null(run->line.rows);
	for (size_t i = 0; i < 4; i++) {
		run->line.rows[i].cell[DRILL_T_S] = at[i];
		run->line.rows[i].cell[DRILL_APPLIED] = applied[i];
		run->line.rows[i].cell[DRILL_LOST] = i == 0 ? 0.0 : lost[i - 1];
	}
}

static void evals_make(struct drill_run *run, double last)
{
	run->eval_count = 6;
	run->evals = calloc(6, sizeof(*run->evals));
	assert_non_null(run->evals);
	for (size_t i = 0; i < 6; i++)
		run->evals[i] = (struct drill_eval){ .t_s = 40.0 + 10.0 * (double)i,
						     .accuracy = last,
						     .loss = 1.0 };
	run->figure[DRILL_F_ACCURACY] = last;
}

/* Two kills, as the published claims have them. */
static void outages_make(struct drill_run *run, size_t seed)
{
	const struct drill_strategy *strategy = run->of->strategy;
	bool is_published = strcmp(strategy->name, "stateless-published") == 0;

	run->outage_count = run->of->kills;
	for (size_t k = 0; k < run->outage_count; k++) {
		struct drill_outage *o = &run->outages[k];
		bool early = k == 0;

		o->lost = NAN; /* as in a report that does not say */
		o->killed_s = 20.0 + 20.0 * (double)k;
		o->first_applied_s = o->killed_s + 10.5 + 0.1 * (double)seed;
		o->loss_before = early ? 2.0 : 1.0;
		o->loss_after = o->loss_before + (strategy->stateless ? -0.1 : 0.1);
		o->accuracy_before = early ? 0.5 : 0.7;
		o->accuracy_after = o->accuracy_before + (early ? 0.1 : -0.1) * is_published;
		if (strategy->fault)
			o->accuracy_after = 0.1;
	}
}

static void run_make(struct drill_run *run, size_t seed)
{
	/* 7 to 91 each time: on average 49, as if any step were as likely as another */
	double first = 7.0 + 12.0 * (double)seed, none[3] = { 0.0 };
	double lost[3] = { first, 98.0, 98.0 };
	bool checkpoint = strcmp(run->of->strategy->name, "checkpoint") == 0;
	bool goes = run->of->strategy->stateless || run->of->kills == 0;

	run->status = DRILL_DONE;
	line_make(run, checkpoint ? lost : none);
	evals_make(run, 0.75 + 0.001 * (double)seed);
	outages_make(run, seed);
	run->param_count = 262144.0; /* one MB */
	run->figure[DRILL_F_APPLIED] = 1000.0;
	run->figure[DRILL_F_LOST] = checkpoint ? 98.0 : 0.0;
	run->figure[DRILL_F_RATE_BEFORE] = 10.0;
	run->figure[DRILL_F_UTILISATION] = goes ? 0.98 : 0.02;
	run->figure[DRILL_F_COMPUTED] =
		goes ? 1000.0 : 1000.0 - 10.0 * 2 * (10.5 + 0.1 * (double)seed);
	run->figure[DRILL_F_QUEUED] = run->of->strategy->stateless ? 200.0 : 0.0;
	run->figure[DRILL_F_REPLAYED] = run->figure[DRILL_F_QUEUED];
	run->figure[DRILL_F_QUEUE_MB] = 1.0;
}

static int world_make(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	char err[DRILL_ERR_MAX];

	if (world == NULL || drill_plan_make(&set, &world->plan, err) != NULL ||
	    world->plan.run_count != SEEDS * CASES)
		return -1;
	for (size_t i = 0; i < world->plan.run_count; i++)
		run_make(&world->plan.runs[i], world->plan.runs[i].seed - 1);
	*state = world;
	return 0;
}

static int world_free(void **state)
{
	struct world *world = *state;

	drill_plan_fini(&world->plan);
	free(world);
	return 0;
}

static void judged(struct world *world, const char *id, enum drill_verdict verdict)
{
	drill_claims_judge(&world->plan, &set, world->claims);
	for (size_t i = 0; i < DRILL_CLAIMS; i++) {
		const struct drill_claim *c = &world->claims[i];

		if (strcmp(c->id, id) != 0)
			continue;
		if (c->verdict != verdict)
			fail_msg("%s is \"%s\", not \"%s\": %s; %s", id,
				 drill_verdict_str(c->verdict), drill_verdict_str(verdict),
				 c->numbers, c->because);
		assert_int_equal(c->because[0] != '\0', verdict == DRILL_CANNOT_JUDGE);
		return;
	}
	fail_msg("no claim %s", id);
}

static const char *const ids[DRILL_CLAIMS] = { "R2", "R3", "R4, early", "R4, late", "R5",
					       "R6", "R7", "R8",        "R9",       "R10" };

static void what_was_published_is_confirmed(void **state)
{
	for (size_t i = 0; i < DRILL_CLAIMS; i++)
		judged(*state, ids[i], DRILL_CONFIRMED);
}

static void no_run_confirms_nothing(void **state)
{
	struct world *world = *state;

	for (size_t i = 0; i < world->plan.run_count; i++)
		world->plan.runs[i].status = i % 2 == 0 ? DRILL_FAILED : DRILL_WAITING;
	for (size_t i = 0; i < DRILL_CLAIMS; i++)
		judged(world, ids[i], DRILL_CANNOT_JUDGE);
}

static void two_seeds_decide_nothing(void **state)
{
	struct world *world = *state;

	for (size_t i = 0; i < world->plan.run_count; i++) {
		if (world->plan.runs[i].seed > 2)
			world->plan.runs[i].status = DRILL_WAITING;
	}
	/* two kills a run: four recoveries */
	for (size_t i = 0; i < DRILL_CLAIMS; i++) {
		if (strcmp(ids[i], "R5") != 0 && strcmp(ids[i], "R6") != 0)
			judged(world, ids[i], DRILL_CANNOT_JUDGE);
	}
}

static void a_rollback_without_cost_is_none(void **state)
{
	struct world *world = *state;

	for (size_t s = 0; s < SEEDS; s++)
		runs_of(world, "checkpoint", s)->outages[0].loss_after = 1.9;
	judged(world, "R2", DRILL_NOT_CONFIRMED);
}

static void more_steps_lost_than_an_interval_are_too_many(void **state)
{
	struct world *world = *state;

	for (size_t s = 0; s < SEEDS; s++) {
		struct drill_run *run = runs_of(world, "checkpoint", s);

		run->line.rows[1].cell[DRILL_LOST] = 150.0;
		run->line.rows[2].cell[DRILL_LOST] = 150.0;
		run->line.rows[3].cell[DRILL_LOST] = 150.0;
	}
	judged(world, "R2", DRILL_NOT_CONFIRMED);
}

static void the_report_knows_better_than_the_time_line_what_was_lost(void **state)
{
	struct world *world = *state;

	for (size_t s = 0; s < SEEDS; s++) {
		runs_of(world, "checkpoint", s)->outages[0].lost = 100.0;
		runs_of(world, "checkpoint", s)->outages[1].lost = 100.0;
	}
	judged(world, "R2", DRILL_NOT_CONFIRMED);
}

static void one_gradient_lost_refutes_that_none_is(void **state)
{
	struct world *world = *state;
	struct drill_run *run = runs_of(world, "stateless-published", 3);

	run->figure[DRILL_F_LOST] = 1.0;
	judged(world, "R3", DRILL_NOT_CONFIRMED);
	run->figure[DRILL_F_LOST] = 0.0;
	run->figure[DRILL_F_REPLAYED] += 1.0;
	judged(world, "R3", DRILL_NOT_CONFIRMED);
	for (size_t i = 0; i < world->plan.run_count; i++) /* even alone */
		world->plan.runs[i].status = DRILL_WAITING;
	run->status = DRILL_DONE;
	judged(world, "R3", DRILL_NOT_CONFIRMED);
}

static void what_synchronous_runs_do_is_shown_and_decides_nothing(void **state)
{
	struct world *world = *state;
	struct drill_case sync = *runs_of(world, "stateless", 3)->of;
	struct drill_run *run = runs_of(world, "stateless", 3);

	sync.sync = true;
	run->of = &sync;
	run->figure[DRILL_F_REPLAYED] = 0.0;
	run->figure[DRILL_F_DROPPED] = 200.0;
	judged(world, "R3", DRILL_CONFIRMED);
	assert_non_null(strstr(world->claims[1].numbers, "sync: lost 0, queued 200, replayed 0"));
	run->of = world->plan.cases;
}

static void a_leap_is_no_fall(void **state)
{
	struct world *world = *state;

	for (size_t s = 0; s < SEEDS; s++) {
		struct drill_outage *o = runs_of(world, "stateless-published", s)->outages;

		o[0].loss_after = 2.1;
		o[1].accuracy_after = 0.8;
	}
	judged(world, "R4, early", DRILL_NOT_CONFIRMED);
	judged(world, "R4, late", DRILL_NOT_CONFIRMED);
}

static void kills_are_early_or_late_by_their_loss(void **state)
{
	struct world *world = *state;

	for (size_t s = 0; s < SEEDS; s++)
		runs_of(world, "stateless-published", s)->outages[1].loss_before = 1.6;
	judged(world, "R4, late", DRILL_CANNOT_JUDGE);
	judged(world, "R4, early", DRILL_NOT_CONFIRMED); /* half of them fall now */
}

static void an_outage_is_no_shorter_than_the_time_down(void **state)
{
	struct world *world = *state;

	for (size_t i = 0; i < world->plan.run_count; i++)
		world->plan.runs[i].outages[0].first_applied_s = 29.0;
	judged(world, "R5", DRILL_NOT_CONFIRMED);
}

static void workers_that_slow_down_or_do_not_wait_are_seen(void **state)
{
	struct world *world = *state;

	for (size_t s = 0; s < SEEDS; s++)
		runs_of(world, "stateless", s)->figure[DRILL_F_UTILISATION] = 0.85;
	judged(world, "R6", DRILL_NOT_CONFIRMED);
	for (size_t s = 0; s < SEEDS; s++) {
		runs_of(world, "stateless", s)->figure[DRILL_F_UTILISATION] = 0.9;
		runs_of(world, "mirror", s)->figure[DRILL_F_UTILISATION] = 0.2;
	}
	judged(world, "R6", DRILL_NOT_CONFIRMED);
}

static void a_surplus_of_five_times_is_too_much(void **state)
{
	struct world *world = *state;

	for (size_t s = 0; s < SEEDS; s++)
		runs_of(world, "stateless", s)->figure[DRILL_F_COMPUTED] = 5000.0;
	judged(world, "R7", DRILL_NOT_CONFIRMED);
}

static void memory_is_constant_or_in_proportion(void **state)
{
	struct world *world = *state;

	for (size_t i = 0; i < world->plan.run_count; i++)
		world->plan.runs[i].figure[DRILL_F_QUEUE_MB] = 100.0; /* m: 200 in two outages */
	judged(world, "R8", DRILL_CONFIRMED);
	for (size_t i = 0; i < world->plan.run_count; i++)
		world->plan.runs[i].figure[DRILL_F_QUEUE_MB] = 50.0;
	judged(world, "R8", DRILL_NOT_CONFIRMED);
}

static void a_restore_that_restores_is_no_fault(void **state)
{
	struct world *world = *state;

	for (size_t s = 0; s < SEEDS; s++)
		runs_of(world, "checkpoint-norestore", s)->outages[0].accuracy_after = 0.5;
	judged(world, "R9", DRILL_NOT_CONFIRMED);
}

static void a_method_that_is_better_beyond_noise_is_seen(void **state)
{
	struct world *world = *state;

	for (size_t s = 0; s < SEEDS; s++) {
		struct drill_run *run = runs_of(world, "mirror", s);

		for (size_t i = 0; i < run->eval_count; i++)
			run->evals[i].accuracy += 0.01;
	}
	judged(world, "R10", DRILL_NOT_CONFIRMED);
}

static void accuracy_is_compared_at_equal_gradients(void **state)
{
	struct world *world = *state;

	/* one method has applied more at its end, and is better there only */
	for (size_t s = 0; s < SEEDS; s++) {
		struct drill_run *run = runs_of(world, "stateless", s);

		run->figure[DRILL_F_APPLIED] = 2000.0;
		run->line.rows[3].cell[DRILL_T_S] = 85.0;
		run->line.rows[3].cell[DRILL_APPLIED] = 2000.0;
		run->evals[5].accuracy = 0.99;
	}
	judged(world, "R10", DRILL_CONFIRMED);
}

static size_t count_of(const char *text, const char *word)
{
	size_t count = 0;

	for (; (text = strstr(text, word)) != NULL; text++)
		count++;
	return count;
}

static void what_cannot_be_judged_is_one_line(void **state)
{
	struct world *world = *state;
	struct drill_text text = { 0 };

	for (size_t i = 0; i < world->plan.run_count; i++) {
		if (world->plan.runs[i].of->strategy->fault)
			world->plan.runs[i].status = DRILL_WAITING;
	}
	judged(world, "R9", DRILL_CANNOT_JUDGE);
	judged(world, "R8", DRILL_CONFIRMED);
	assert_true(
		drill_claims_markdown(world->claims, DRILL_CLAIMS, "a paper", "a drill", &text));
	assert_int_equal(count_of(text.bytes, "\n| R"), DRILL_CLAIMS - 1);
	assert_null(strstr(text.bytes, "| R9 |"));
	assert_non_null(strstr(text.bytes, "Not judged from these runs: R9. "));
	drill_text_fini(&text);

	/* and no table where none is left */
	for (size_t i = 0; i < world->plan.run_count; i++)
		world->plan.runs[i].status = DRILL_WAITING;
	judged(world, "R8", DRILL_CANNOT_JUDGE);
	assert_true(
		drill_claims_markdown(world->claims, DRILL_CLAIMS, "a paper", "a drill", &text));
	assert_null(strchr(text.bytes, '|'));
	assert_int_equal(count_of(text.bytes, "Not judged"), 1);
	drill_text_fini(&text);
}

static void an_outage_too_short_for_a_rate_is_no_trial(void **state)
{
	struct world *world = *state;

	for (size_t s = 0; s < SEEDS; s++)
		runs_of(world, "stateless", s)->figure[DRILL_F_UTILISATION] = NAN;
	judged(world, "R6", DRILL_CONFIRMED); /* by stateless-published alone */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_published_is_confirmed, world_make,
						world_free),
		cmocka_unit_test_setup_teardown(no_run_confirms_nothing, world_make, world_free),
		cmocka_unit_test_setup_teardown(two_seeds_decide_nothing, world_make, world_free),
		cmocka_unit_test_setup_teardown(a_rollback_without_cost_is_none, world_make,
						world_free),
		cmocka_unit_test_setup_teardown(more_steps_lost_than_an_interval_are_too_many,
						world_make, world_free),
		cmocka_unit_test_setup_teardown(
			the_report_knows_better_than_the_time_line_what_was_lost, world_make,
			world_free),
		cmocka_unit_test_setup_teardown(one_gradient_lost_refutes_that_none_is, world_make,
						world_free),
		cmocka_unit_test_setup_teardown(
			what_synchronous_runs_do_is_shown_and_decides_nothing, world_make,
			world_free),
		cmocka_unit_test_setup_teardown(a_leap_is_no_fall, world_make, world_free),
		cmocka_unit_test_setup_teardown(kills_are_early_or_late_by_their_loss, world_make,
						world_free),
		cmocka_unit_test_setup_teardown(an_outage_is_no_shorter_than_the_time_down,
						world_make, world_free),
		cmocka_unit_test_setup_teardown(workers_that_slow_down_or_do_not_wait_are_seen,
						world_make, world_free),
		cmocka_unit_test_setup_teardown(a_surplus_of_five_times_is_too_much, world_make,
						world_free),
		cmocka_unit_test_setup_teardown(memory_is_constant_or_in_proportion, world_make,
						world_free),
		cmocka_unit_test_setup_teardown(a_restore_that_restores_is_no_fault, world_make,
						world_free),
		cmocka_unit_test_setup_teardown(a_method_that_is_better_beyond_noise_is_seen,
						world_make, world_free),
		cmocka_unit_test_setup_teardown(accuracy_is_compared_at_equal_gradients, world_make,
						world_free),
		cmocka_unit_test_setup_teardown(what_cannot_be_judged_is_one_line, world_make,
						world_free),
		cmocka_unit_test_setup_teardown(an_outage_too_short_for_a_rate_is_no_trial,
						world_make, world_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
