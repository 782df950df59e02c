/* SPDX-License-Identifier: BSD-3-Clause */

/* drill_plan_test.c -- the lists of a drill become the runs that they say, each once, with the
 * command line that its strategy is */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "outlast/drill.h"

static const struct drill_set usual = {
	.strategies = "none,checkpoint,stateless",
	.consistency = "async,sync",
	.kills = "0,1,2",
	.workers = "1",
	.seeds = "2",
	.model = "cnn",
	.dataset = "fashion-mnist",
	.transport = "shm",
	.lr = 0.01,
	.seconds = 240.0,
	.kill_at = 30.0,
	.down = 20.0,
	.again = 30.0,
	.eval_seconds = 1.0,
	.batch = 32,
	.checkpoint_every = 100,
};

static const struct drill_run *find(const struct drill_plan *plan, const char *name)
{
	const struct drill_run *found = NULL;

	for (size_t i = 0; i < plan->run_count; i++) {
		if (strcmp(plan->runs[i].name, name) != 0)
			continue;
		assert_null(found);
		found = &plan->runs[i];
	}
	return found;
}

static void every_case_is_run_once_a_seed(void **state)
{
	struct drill_plan plan;
	char err[DRILL_ERR_MAX];

	(void)state;
	assert_null(drill_plan_make(&usual, &plan, err));
	assert_int_equal(plan.case_count, 2 * (1 + 3 + 3));
	assert_int_equal(plan.run_count, 2 * plan.case_count);
	assert_non_null(find(&plan, "none-async-k0-w1-s1"));
	assert_null(find(&plan, "none-async-k1-w1-s1"));
	for (unsigned kills = 0; kills < 3; kills++) {
		for (unsigned seed = 1; seed < 3; seed++) {
			char name[DRILL_NAME_MAX];
			const struct drill_run *run;

			snprintf(name, sizeof(name), "stateless-sync-k%u-w1-s%u", kills, seed);
			run = find(&plan, name);
			assert_non_null(run);
			assert_int_equal(run->seed, seed);
			assert_int_equal(run->of->kills, kills);
			assert_true(run->of->sync);
		}
	}
	/* seed by seed, so that a drill that is ended early has compared something */
	for (size_t i = 0; i < plan.run_count; i++)
		assert_int_equal(plan.runs[i].seed, 1 + i / plan.case_count);
	drill_plan_fini(&plan);
}

static void a_strategy_without_enough_kills_is_left_out(void **state)
{
	struct drill_set set = usual;
	struct drill_plan plan;
	char err[DRILL_ERR_MAX];

	(void)state;
	set.strategies = "none/sync,mirror/async,checkpoint-norestore";
	set.kills = "0,2";
	set.seeds = "7,11";
	set.workers = "1,4";
	assert_null(drill_plan_make(&set, &plan, err));
	assert_int_equal(plan.case_count, 2 * (1 + 1 + 2));
	assert_non_null(find(&plan, "none-sync-k0-w4-s11"));
	assert_non_null(find(&plan, "mirror-async-k2-w1-s7"));
	assert_null(find(&plan, "mirror-sync-k2-w1-s7"));
	assert_null(find(&plan, "mirror-async-k0-w1-s7"));
	drill_plan_fini(&plan);
}

static void without_kills_in_the_list_there_is_still_the_run_without(void **state)
{
	struct drill_set set = usual;
	struct drill_plan plan;
	char err[DRILL_ERR_MAX];

	(void)state;
	set.kills = "1,2";
	assert_null(drill_plan_make(&set, &plan, err));
	assert_int_equal(plan.case_count, 2 * (1 + 2 + 2));
	drill_plan_fini(&plan);
}

static void wrong_lists_are_named(void **state)
{
	static const struct {
		size_t offset;
		const char *value;
		const char *wrong;
	} cases[] = {
		{ offsetof(struct drill_set, strategies), "", "strategies" },
		{ offsetof(struct drill_set, strategies), "none,chains", "strategies" },
		{ offsetof(struct drill_set, strategies), "none,none", "strategies" },
		{ offsetof(struct drill_set, strategies), "none/async,none", "strategies" },
		{ offsetof(struct drill_set, strategies), "none/both", "strategies" },
		{ offsetof(struct drill_set, strategies), "mirrors", "strategies" },
		{ offsetof(struct drill_set, strategies), "mirro", "strategies" },
		{ offsetof(struct drill_set, consistency), "", "consistency" },
		{ offsetof(struct drill_set, consistency), "sync,sync", "consistency" },
		{ offsetof(struct drill_set, consistency), "ssp", "consistency" },
		{ offsetof(struct drill_set, kills), "1,x", "kills" },
		{ offsetof(struct drill_set, kills), "17", "kills" },
		{ offsetof(struct drill_set, kills), "5", "seconds" },
		{ offsetof(struct drill_set, workers), "0", "workers" },
		{ offsetof(struct drill_set, workers), "65", "workers" },
		{ offsetof(struct drill_set, seeds), "0", "seeds" },
		{ offsetof(struct drill_set, seeds), "65", "seeds" },
		{ offsetof(struct drill_set, seeds), "1,1", "seeds" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct drill_set set = usual;
		struct drill_plan plan;
		char err[DRILL_ERR_MAX];
		const char *wrong;

		memcpy((char *)&set + cases[i].offset, &cases[i].value, sizeof(cases[i].value));
		wrong = drill_plan_make(&set, &plan, err);
		if (wrong == NULL || strcmp(wrong, cases[i].wrong) != 0 || err[0] == '\0')
			fail_msg("\"%s\": %s: %s", cases[i].value, wrong, err);
		drill_plan_fini(&plan);
	}
}

static void the_schedule_is_kill_down_again(void **state)
{
	struct drill_set set = usual;
	const struct drill_strategy one = { .name = "one" }, chain = { .replicas = 3 };
	char text[256];

	(void)state;
	drill_schedule(&set, &one, 0, text, sizeof(text));
	assert_string_equal(text, "");
	drill_schedule(&set, &one, 2, text, sizeof(text));
	assert_string_equal(text, "server0@30s:down=20s,server0@80s:down=20s");
	drill_schedule(&set, &chain, 2, text, sizeof(text));
	assert_string_equal(text, "head@30s:down=20s,head@80s:down=20s");
	set.kill_at = 0.5;
	set.down = 0.25;
	set.again = 1.0;
	drill_schedule(&set, &one, 3, text, sizeof(text));
	assert_string_equal(text, "server0@0.5s:down=0.25s,server0@1.75s:down=0.25s,"
				  "server0@3s:down=0.25s");
}

static bool has(const struct ol_args *args, const char *word)
{
	for (size_t i = 0; i < args->count; i++) {
		if (strcmp(args->words[i], word) == 0)
			return true;
	}
	return false;
}

static bool has_like(const struct ol_args *args, const char *begin)
{
	for (size_t i = 0; i < args->count; i++) {
		if (strncmp(args->words[i], begin, strlen(begin)) == 0)
			return true;
	}
	return false;
}

static void a_strategy_is_its_options(void **state)
{
	struct drill_set set = usual;
	struct drill_plan plan;
	struct ol_args args = { 0 };
	char err[DRILL_ERR_MAX];

	(void)state;
	set.strategies = "none,checkpoint,stateless-published";
	set.pace = 5.0;
	assert_null(drill_plan_make(&set, &plan, err));
	drill_args(&set, find(&plan, "checkpoint-sync-k1-w1-s2"), "out", &args);
	assert_true(has(&args, "--consistency=sync"));
	assert_true(has(&args, "--durability=checkpoint"));
	assert_true(has(&args, "--checkpoint=every=100steps,dir=out/checkpoints,keep=3"));
	assert_true(has(&args, "--outage=wait") && has(&args, "--restore=checkpoint"));
	assert_true(has(&args, "--kill=server0@30s:down=20s") && has(&args, "--seed=2"));
	assert_true(has(&args, "--pace=5") && has(&args, "--seconds=240"));
	assert_true(has(&args, "--json=out/runs/checkpoint-sync-k1-w1-s2.json"));
	assert_true(has(&args, "--timeline=out/runs/checkpoint-sync-k1-w1-s2.csv"));
	assert_false(has_like(&args, "--replay") || has_like(&args, "--device"));
	ol_args_free(&args);
	drill_args(&set, find(&plan, "stateless-published-async-k1-w1-s1"), "out", &args);
	assert_true(has(&args, "--durability=none") && has(&args, "--outage=continue"));
	assert_true(has(&args, "--restore=mirror") && has(&args, "--replay=sum"));
	assert_false(has_like(&args, "--checkpoint"));
	ol_args_free(&args);
	set.pace = 0.0;
	drill_args(&set, find(&plan, "none-async-k0-w1-s1"), "out", &args);
	assert_false(has_like(&args, "--kill") || has_like(&args, "--pace"));
	assert_false(args.failed);
	ol_args_free(&args);
	drill_plan_fini(&plan);
}

static void a_chain_is_its_options(void **state)
{
	struct drill_set set = usual;
	struct drill_plan plan;
	struct ol_args args = { 0 };
	char err[DRILL_ERR_MAX];

	(void)state;
	set.strategies = "chain,chain-periodic,chain-continue,checkpoint";
	assert_null(drill_plan_make(&set, &plan, err));
	drill_args(&set, find(&plan, "chain-sync-k1-w1-s1"), "out", &args);
	assert_true(has(&args, "--durability=chain") && has(&args, "--replicas=3"));
	assert_true(has(&args, "--outage=wait") && has(&args, "--kill=head@30s:down=20s"));
	assert_false(has_like(&args, "--replicate-every") || has_like(&args, "--checkpoint"));
	ol_args_free(&args);
	drill_args(&set, find(&plan, "chain-periodic-async-k2-w1-s1"), "out", &args);
	assert_true(has(&args, "--replicate-every=100") && has(&args, "--replicas=3"));
	ol_args_free(&args);
	drill_args(&set, find(&plan, "chain-continue-async-k1-w1-s1"), "out", &args);
	assert_true(has(&args, "--outage=continue") && has(&args, "--replicas=3"));
	ol_args_free(&args);
	drill_args(&set, find(&plan, "chain-async-k0-w1-s1"), "out", &args);
	assert_false(has_like(&args, "--kill"));
	ol_args_free(&args);
	assert_null(find(&plan, "chain-continue-async-k0-w1-s1"));
	drill_args(&set, find(&plan, "checkpoint-async-k1-w1-s1"), "out", &args);
	assert_false(has_like(&args, "--replicas") || args.failed);
	ol_args_free(&args);
	drill_plan_fini(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_case_is_run_once_a_seed),
		cmocka_unit_test(a_strategy_without_enough_kills_is_left_out),
		cmocka_unit_test(without_kills_in_the_list_there_is_still_the_run_without),
		cmocka_unit_test(wrong_lists_are_named),
		cmocka_unit_test(the_schedule_is_kill_down_again),
		cmocka_unit_test(a_strategy_is_its_options),
		cmocka_unit_test(a_chain_is_its_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
