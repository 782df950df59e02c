/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_record.c -- drill.json: what was run, and how each run ended
 *
 * With the files in runs/ it is all that a report is made from.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"

static const char *status_str(enum drill_status status)
{
	switch (status) {
	case DRILL_WAITING:
		return "not made";
	case DRILL_DONE:
		return "done";
	case DRILL_FAILED:
		break;
	}
	return "failed";
}

static json_t *settings_json(const struct drill_set *set)
{
	return json_pack("{s:f, s:i, s:f, s:f}", "down", set->down, "checkpoint_every",
			 (int)set->checkpoint_every, "price_server", set->price_server,
			 "price_worker", set->price_worker);
}

static json_t *strategies_json(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < drill_strategy_count; i++) {
		const struct drill_strategy *one = &drill_strategies[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:i, s:i, s:b, s:b}", "name", one->name,
						"what", one->what, "replicas", (int)one->replicas,
						"kills_max", (int)one->kills_max, "stateless",
						one->stateless, "fault", one->fault));
	}
	return list;
}

static json_t *case_json(const struct drill_case *one)
{
	return json_pack("{s:s, s:s, s:s, s:i, s:i}", "name", one->name, "strategy",
			 one->strategy->name, "consistency", one->sync ? "sync" : "async", "kills",
			 (int)one->kills, "workers", (int)one->workers);
}

static json_t *run_json(const struct drill_run *run)
{
	return json_pack("{s:s, s:s, s:I, s:s, s:s}", "name", run->name, "case", run->of->name,
			 "seed", (json_int_t)run->seed, "status", status_str(run->status), "error",
			 run->status == DRILL_FAILED ? run->error : "");
}

json_t *drill_record_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

int drill_record_save(const struct drill *drill, const char *experiment, json_t *what)
{
	char path[DRILL_PATH_MAX];
	json_t *json = json_pack("{s:s, s:s, s:s}", "experiment", experiment, "command",
				 drill->command, "folder", drill->out);
	int rc = 0;

	snprintf(path, sizeof(path), "%.900s/drill.json", drill->out);
	errno = ENOMEM;
	if (json == NULL || what == NULL || json_object_update(json, what) != 0 ||
	    json_dump_file(json, path, JSON_INDENT(1)) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot write", path, strerror(errno));
	json_decref(what);
	json_decref(json);
	return rc;
}

int drill_record_write(const struct drill *drill)
{
	const struct drill_plan *plan = &drill->plan;
	json_t *cases = json_array(), *runs = json_array();

	for (size_t i = 0; i < plan->case_count; i++)
		json_array_append_new(cases, case_json(&plan->cases[i]));
	for (size_t i = 0; i < plan->run_count; i++)
		json_array_append_new(runs, run_json(&plan->runs[i]));
	return drill_record_save(drill, "kills",
				 json_pack("{s:o, s:o, s:o, s:o}", "settings",
					   settings_json(&drill->set), "strategies",
					   strategies_json(), "cases", cases, "runs", runs));
}
