/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_plan.c -- strategies; which runs there are to be, and the command line of each
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outlast/drill.h"
#include "outlast/train.h"

enum {
	CHAIN_REPLICAS = 3
};

/* A strategy more is a row more. */
const struct drill_strategy drill_strategies[] = {
	{ .name = "none",
	  .what = "no server is killed: what the others are measured by",
	  .durability = "none",
	  .outage = "wait",
	  .restore = "none" },
	{ .name = "checkpoint",
	  .what = "workers wait; the server comes back with the last checkpoint",
	  .durability = "checkpoint",
	  .outage = "wait",
	  .restore = "checkpoint",
	  .kills_max = DRILL_OUTAGES_MAX },
	{ .name = "checkpoint-norestore",
	  .what = "as checkpoint, but the server comes back with first weights: the fault in the "
		  "published two-kill runs",
	  .durability = "checkpoint",
	  .outage = "wait",
	  .restore = "none",
	  .kills_min = 1,
	  .kills_max = DRILL_OUTAGES_MAX,
	  .fault = true },
	{ .name = "stateless",
	  .what = "workers go on, each on its own way, and queue gradients; the server comes back "
		  "with a worker's weights, and applies the mean of their ways",
	  .durability = "none",
	  .outage = "continue",
	  .restore = "mirror",
	  .replay = "mean",
	  .local = "true",
	  .kills_max = DRILL_OUTAGES_MAX,
	  .stateless = true },
	{ .name = "stateless-published",
	  .what = "as stateless, with the published rule: the queue's sum as one step, at learning "
		  "rate 1e-3 above 50 gradients",
	  .durability = "none",
	  .outage = "continue",
	  .restore = "mirror",
	  .replay = "sum",
	  .local = "false",
	  .kills_min = 1,
	  .kills_max = DRILL_OUTAGES_MAX,
	  .stateless = true },
	{ .name = "stateless-mean",
	  .what = "as stateless, with weights that stand still in the outage, and the queue's mean "
		  "as one step",
	  .durability = "none",
	  .outage = "continue",
	  .restore = "mirror",
	  .replay = "mean",
	  .local = "false",
	  .kills_min = 1,
	  .kills_max = DRILL_OUTAGES_MAX,
	  .stateless = true },
	{ .name = "mirror",
	  .what = "workers wait; the server comes back with a worker's weights",
	  .durability = "none",
	  .outage = "wait",
	  .restore = "mirror",
	  .kills_min = 1,
	  .kills_max = DRILL_OUTAGES_MAX },
	{ .name = "chain",
	  .what = "three servers hold the weights, each step is on all of them; when the first is "
		  "lost the second goes on, and the lost one joins behind the others",
	  .durability = "chain",
	  .outage = "wait",
	  .restore = "freshest",
	  .replicas = CHAIN_REPLICAS,
	  .kills_max = DRILL_OUTAGES_MAX },
	{ .name = "chain-periodic",
	  .what = "as chain, the published way: the weights go down the chain every so many steps, "
		  "and nothing waits for it",
	  .durability = "chain",
	  .outage = "wait",
	  .restore = "freshest",
	  .replicas = CHAIN_REPLICAS,
	  .periodic = true,
	  .kills_min = 1,
	  .kills_max = DRILL_OUTAGES_MAX },
	{ .name = "chain-continue",
	  .what = "as chain, and workers do not wait for the next server either",
	  .durability = "chain",
	  .outage = "continue",
	  .restore = "freshest",
	  .replicas = CHAIN_REPLICAS,
	  .kills_min = 1,
	  .kills_max = DRILL_OUTAGES_MAX },
};

const size_t drill_strategy_count = sizeof(drill_strategies) / sizeof(drill_strategies[0]);

enum {
	ASYNC = 1 << 0,
	SYNC = 1 << 1
};

struct pick {
	const struct drill_strategy *strategy;
	unsigned modes;
};

/* The settings' lists, read. */
struct lists {
	struct pick picks[DRILL_STRATEGIES_MAX];
	size_t pick_count;
	unsigned modes[2]; /* in the order wanted */
	size_t mode_count;
	struct drill_numbers kills;
	struct drill_numbers workers;
	struct drill_numbers seeds;
};

static void names_list(char err[DRILL_ERR_MAX])
{
	int len = snprintf(err, DRILL_ERR_MAX, "is no list of strategies:");

	for (size_t i = 0; i < drill_strategy_count && len < DRILL_ERR_MAX; i++)
		len += snprintf(err + len, (size_t)(DRILL_ERR_MAX - len), "%s %s", i > 0 ? "," : "",
				drill_strategies[i].name);
	if (len < DRILL_ERR_MAX)
		snprintf(err + len, (size_t)(DRILL_ERR_MAX - len),
			 "; each at most once, with /sync or /async for one of both");
}

static bool pick_read(const char *word, struct pick *ret_pick)
{
	size_t len = strcspn(word, "/");
	const char *mode = word + len;

	*ret_pick = (struct pick){ .modes = ASYNC | SYNC };
	if (strcmp(mode, "/async") == 0)
		ret_pick->modes = ASYNC;
	else if (strcmp(mode, "/sync") == 0)
		ret_pick->modes = SYNC;
	else if (mode[0] != '\0')
		return false;
	for (size_t i = 0; i < drill_strategy_count; i++) {
		const char *name = drill_strategies[i].name;

		if (strlen(name) == len && strncmp(name, word, len) == 0)
			ret_pick->strategy = &drill_strategies[i];
	}
	return ret_pick->strategy != NULL;
}

static bool picks_read(const char *text, struct lists *lists, char err[DRILL_ERR_MAX])
{
	char word[DRILL_NAME_MAX];

	while (drill_item(&text, word, sizeof(word))) {
		struct pick pick;
		bool good = pick_read(word, &pick) && lists->pick_count < DRILL_STRATEGIES_MAX;

		for (size_t i = 0; good && i < lists->pick_count; i++)
			good = lists->picks[i].strategy != pick.strategy ||
			       (lists->picks[i].modes & pick.modes) == 0;
		if (!good) {
			names_list(err);
			return false;
		}
		lists->picks[lists->pick_count++] = pick;
	}
	if (lists->pick_count == 0)
		names_list(err);
	return lists->pick_count > 0;
}

static bool modes_read(const char *text, struct lists *lists, char err[DRILL_ERR_MAX])
{
	unsigned seen = 0;
	char word[16];

	while (drill_item(&text, word, sizeof(word))) {
		unsigned mode = strcmp(word, "async") == 0  ? ASYNC
				: strcmp(word, "sync") == 0 ? SYNC
							    : 0;

		if (mode == 0 || (seen & mode) != 0) {
			seen = 0;
			break;
		}
		seen |= mode;
		lists->modes[lists->mode_count++] = mode;
	}
	if (seen == 0)
		snprintf(err, DRILL_ERR_MAX, "should be async, sync or both with a comma between");
	return seen != 0;
}

/* "5" is 1..5; a list or a range is itself. */
static bool seeds_read(const char *text, struct drill_numbers *ret_seeds)
{
	char range[32];

	if (text[strcspn(text, ",.")] != '\0')
		return drill_numbers_parse(text, UINT64_MAX, ret_seeds);
	snprintf(range, sizeof(range), "1..%.20s", text);
	return drill_numbers_parse(range, UINT64_MAX, ret_seeds);
}

static const char *lists_read(const struct drill_set *set, struct lists *lists,
			      char err[DRILL_ERR_MAX])
{
	if (!picks_read(set->strategies, lists, err))
		return "strategies";
	if (!modes_read(set->consistency, lists, err))
		return "consistency";
	snprintf(err, DRILL_ERR_MAX, "should be numbers of kills, each once and at most %d: 0,1,2",
		 DRILL_OUTAGES_MAX);
	if (!drill_numbers_parse(set->kills, DRILL_OUTAGES_MAX, &lists->kills))
		return "kills";
	snprintf(err, DRILL_ERR_MAX, "should be numbers of workers, each once, from 1 to %d: 1,2,4",
		 TRAIN_WORKERS_MAX);
	if (!drill_numbers_parse(set->workers, TRAIN_WORKERS_MAX, &lists->workers))
		return "workers";
	for (size_t i = 0; i < lists->workers.count; i++) {
		if (lists->workers.value[i] == 0)
			return "workers";
	}
	snprintf(err, DRILL_ERR_MAX,
		 "should be how many seeds (at most %d), a list of them, or a range: 5, 7,11 or "
		 "3..9",
		 DRILL_LIST_MAX);
	if (!seeds_read(set->seeds, &lists->seeds))
		return "seeds";
	err[0] = '\0';
	return NULL;
}

static const char *times_check(const struct drill_set *set, const struct drill_numbers *kills,
			       char err[DRILL_ERR_MAX])
{
	uint64_t most = 0;
	double up;

	for (size_t i = 0; i < kills->count; i++)
		most = kills->value[i] > most ? kills->value[i] : most;
	if (most == 0)
		return NULL;
	up = set->kill_at + set->down + (double)(most - 1) * (set->again + set->down);
	if (up < set->seconds)
		return NULL;
	snprintf(err, DRILL_ERR_MAX,
		 "is too short: the server is back from the last of %u kills after %g s",
		 (unsigned)most, up);
	return "seconds";
}

static struct drill_case *case_find(struct drill_plan *plan, const struct drill_case *like)
{
	for (size_t i = 0; i < plan->case_count; i++) {
		struct drill_case *one = &plan->cases[i];

		if (one->strategy == like->strategy && one->sync == like->sync &&
		    one->kills == like->kills && one->workers == like->workers)
			return one;
	}
	return NULL;
}

static void run_add(struct drill_plan *plan, struct drill_case *of, uint64_t seed)
{
	struct drill_run *run = &plan->runs[plan->run_count++];

	*run = (struct drill_run){ .of = of, .seed = seed, .accuracy = NAN };
	snprintf(run->name, sizeof(run->name), "%.60s-s%llu", of->name, (unsigned long long)seed);
}

/* Every case that the lists come to, once; in the order of the tables. */
static void cases_add(struct drill_plan *plan, const struct lists *lists, unsigned workers,
		      unsigned kills)
{
	for (size_t mode = 0; mode < lists->mode_count; mode++) {
		for (size_t i = 0; i < lists->pick_count; i++) {
			const struct pick *pick = &lists->picks[i];
			unsigned most = pick->strategy->kills_max;
			struct drill_case one = {
				.strategy = pick->strategy,
				.sync = lists->modes[mode] == SYNC,
				.kills = kills < most ? kills : most,
				.workers = workers,
			};

			if ((pick->modes & lists->modes[mode]) == 0 ||
			    one.kills < pick->strategy->kills_min || case_find(plan, &one) != NULL)
				continue;
			snprintf(one.name, sizeof(one.name), "%.40s-%s-k%u-w%u", one.strategy->name,
				 one.sync ? "sync" : "async", one.kills, workers);
			plan->cases[plan->case_count++] = one;
		}
	}
}

const char *drill_plan_make(const struct drill_set *set, struct drill_plan *plan,
			    char err[DRILL_ERR_MAX])
{
	struct lists *lists = calloc(1, sizeof(*lists));
	const char *wrong = "strategies";
	size_t most;

	*plan = (struct drill_plan){ 0 };
	err[0] = '\0';
	if (lists == NULL)
		return wrong;
	wrong = lists_read(set, lists, err);
	if (wrong == NULL)
		wrong = times_check(set, &lists->kills, err);
	if (wrong != NULL)
		goto out;
	most = lists->workers.count * lists->kills.count * lists->mode_count * lists->pick_count;
	plan->cases = calloc(most, sizeof(*plan->cases));
	plan->runs = calloc(most * lists->seeds.count, sizeof(*plan->runs));
	wrong = "strategies";
	if (plan->cases == NULL || plan->runs == NULL)
		goto out;
	for (size_t w = 0; w < lists->workers.count; w++) {
		for (size_t k = 0; k < lists->kills.count; k++)
			cases_add(plan, lists, (unsigned)lists->workers.value[w],
				  (unsigned)lists->kills.value[k]);
	}
	for (size_t s = 0; s < lists->seeds.count; s++) {
		for (size_t i = 0; i < plan->case_count; i++)
			run_add(plan, &plan->cases[i], lists->seeds.value[s]);
	}
	wrong = plan->run_count == 0 || plan->run_count > DRILL_RUNS_MAX ? "strategies" : NULL;
	if (wrong != NULL)
		snprintf(err, DRILL_ERR_MAX, "come to %zu runs with the other lists: 1 to %d",
			 plan->run_count, DRILL_RUNS_MAX);
out:
	free(lists);
	return wrong;
}

void drill_plan_fini(struct drill_plan *plan)
{
	free(plan->runs);
	free(plan->cases);
	*plan = (struct drill_plan){ 0 };
}

void drill_schedule(const struct drill_set *set, const struct drill_strategy *strategy,
		    unsigned kills, char *text, size_t bytes)
{
	const char *target = strategy->replicas > 0 ? "head" : "server0";
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < kills && len < bytes; i++) {
		double at = set->kill_at + (double)i * (set->down + set->again);

		len += (size_t)snprintf(text + len, bytes - len, "%s%s@%gs:down=%gs",
					i > 0 ? "," : "", target, at, set->down);
	}
}

static void args_add_text(struct ol_args *args, const char *name, const char *value)
{
	if (value != NULL && value[0] != '\0')
		ol_args_add(args, "--%s=%s", name, value);
}

void drill_args(const struct drill_set *set, const struct drill_run *run, const char *folder,
		struct ol_args *args)
{
	const struct drill_strategy *strategy = run->of->strategy;
	char kills[64 * DRILL_OUTAGES_MAX];

	ol_args_add(args, "--consistency=%s", run->of->sync ? "sync" : "async");
	ol_args_add(args, "--durability=%s", strategy->durability);
	if (strcmp(strategy->durability, "checkpoint") == 0)
		ol_args_add(args, "--checkpoint=every=%usteps,dir=%s/checkpoints,keep=3",
			    set->checkpoint_every, folder);
	ol_args_add(args, "--outage=%s", strategy->outage);
	ol_args_add(args, "--restore=%s", strategy->restore);
	args_add_text(args, "replay", strategy->replay);
	args_add_text(args, "local-progress", strategy->local);
	if (strategy->replicas > 0)
		ol_args_add(args, "--replicas=%u", strategy->replicas);
	if (strategy->periodic)
		ol_args_add(args, "--replicate-every=%u", set->checkpoint_every);
	drill_schedule(set, strategy, run->of->kills, kills, sizeof(kills));
	args_add_text(args, "kill", kills);
	ol_args_add(args, "--workers=%u", run->of->workers);
	ol_args_add(args, "--servers=1");
	ol_args_add(args, "--seed=%llu", (unsigned long long)run->seed);
	ol_args_add(args, "--seconds=%g", set->seconds);
	if (set->pace > 0.0)
		ol_args_add(args, "--pace=%g", set->pace);
	ol_args_add(args, "--eval-seconds=%g", set->eval_seconds);
	args_add_text(args, "model", set->model);
	args_add_text(args, "dataset", set->dataset);
	ol_args_add(args, "--final-relu=%s", set->final_relu ? "true" : "false");
	ol_args_add(args, "--lr=%.17g", set->lr);
	ol_args_add(args, "--batch=%u", set->batch);
	args_add_text(args, "transport", set->transport);
	args_add_text(args, "address", set->address);
	args_add_text(args, "device", set->device);
	ol_args_add(args, "--json=%s/runs/%s.json", folder, run->name);
	ol_args_add(args, "--timeline=%s/runs/%s.csv", folder, run->name);
}
