/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_dbw_live.c -- real processes: one of four workers becomes slow half-way
 *
 * Runs of `outlast train` over shared memory that differ in --consistency only.
 */
#include <jansson.h>
#include <stdio.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"
#include "outlast/drill_dbw.h"

enum {
	METHODS = 7,
	PRESETS = 3,
	SEEDS_MAX = 20
};

static const char *const methods[METHODS] = { "sync",  "sync:k=3", "sync:k=2",      "async",
					      "ssp:4", "sync:dbw", "sync:dbw-blind" };
static const double half_of[PRESETS] = { 2.0, 8.0, 15.0 }; /* seconds until one is slow */
static const unsigned seeds_of[PRESETS] = { 1, 3, 5 };
static const double target = 0.97; /* test loss */

static json_t *run_json(const struct drill_run *run, size_t method)
{
	return json_pack("{s:s, s:s, s:I}", "name", run->name, "consistency", methods[method],
			 "seed", (json_int_t)run->seed);
}

static int live_run(struct drill *drill, size_t method, unsigned seed, double half, json_t *runs)
{
	static const struct drill_case nothing;
	struct drill_run run = { .of = &nothing, .seed = drill->set.seed + seed };
	struct ol_args args = { 0 };
	size_t index = seed * METHODS + method;
	char *name = run.name;
	int rc;

	snprintf(run.name, sizeof(run.name), "%s-s%u", methods[method], seed);
	for (; *name != '\0'; name++)
		*name = *name == ':' || *name == '=' ? '-' : *name;
	ol_args_add(&args, "outlast");
	ol_args_add(&args, "train");
	ol_args_add(&args, "--model=softmax");
	ol_args_add(&args, "--dataset=synthetic:noise=4");
	ol_args_add(&args, "--workers=4");
	ol_args_add(&args, "--batch=128");
	ol_args_add(&args, "--lr=0.05");
	ol_args_add(&args, "--eval-seconds=0.25");
	ol_args_add(&args, "--timeline-ms=100");
	ol_args_add(&args, "--seconds=%g", 2.0 * half);
	ol_args_add(&args, "--seed=%llu", (unsigned long long)run.seed);
	ol_args_add(&args, "--consistency=%s", methods[method]);
	ol_args_add(&args, "--delay=exp:mean=20ms,alpha=0.2+slow:workers=1,factor=5,from=%gms",
		    1e3 * half);
	ol_args_add(&args, "--json=%.800s/runs/%s.json", drill->out, run.name);
	ol_args_add(&args, "--timeline=%.800s/runs/%s.csv", drill->out, run.name);
	rc = drill_child_go(drill, &run, index, &args);
	ol_args_free(&args);
	if (rc != 0 || drill->signal != 0)
		return rc;
	if (run.status == DRILL_FAILED)
		return ol_cmd_error(OL_EXIT_CHILD, "drill", run.name, run.error, NULL);
	drill_say(drill, true, "run %zu of %zu, %s: done", index + 1, drill->plan.run_count,
		  run.name);
	return json_array_append_new(runs, run_json(&run, method)) == 0
		       ? 0
		       : ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", NULL, NULL);
}

int drill_dbw_live_go(struct drill *drill)
{
	unsigned seeds = drill->set.trials != 0 ? drill->set.trials : seeds_of[drill->set.preset];
	double half = half_of[drill->set.preset];
	json_t *runs = json_array();
	int rc = 0;

	if (seeds > SEEDS_MAX)
		seeds = SEEDS_MAX;
	drill->plan.run_count = seeds * METHODS;
	drill->set.seconds = 2.0 * half;
	for (unsigned i = 0; rc == 0 && i < seeds; i++) {
		for (size_t m = 0; rc == 0 && drill->signal == 0 && m < METHODS; m++)
			rc = live_run(drill, m, i, half, runs);
	}
	drill->plan.run_count = 0; /* there is no plan behind it */
	if (rc == 0 && drill->signal != 0)
		rc = OL_EXIT_SIGNAL + drill->signal;
	if (rc == 0)
		rc = drill_record_save(drill, "dbw-live",
				       json_pack("{s:f, s:f, s:O}", "slow_from_s", half, "target",
						 target, "runs", runs));
	json_decref(runs);
	return rc != 0 ? rc : drill_report_make(drill);
}
