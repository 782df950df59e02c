/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * trial.c -- perturbations, failures and kills as they are described, and what they cost
 */
#include "drill/trial.h"

#include <errno.h>
#include <string.h>

#include "cmd/cmd.h"
#include "drill/scar/scar.h"

/* A problem and its runs, which differ in their seed and have one target */
struct part {
	struct scar_spec spec;
	uint64_t seed;
	struct scar_problem problem[SCAR_RUNS_MAX];
	struct scar_run run[SCAR_RUNS_MAX];
	uint32_t run_count;
};

static int fail(int status, const char *what, const char *why)
{
	switch (status) {
	case -ENOMEM:
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", what, NULL);
	case -EDOM:
		return ol_cmd_error(OL_EXIT_FAILED, "drill", "training diverged", what, NULL);
	default:
		break;
	}
	return ol_cmd_error(OL_EXIT_DATA, "drill", what, why, NULL);
}

static int spec_read(json_t *of, struct part *part)
{
	struct scar_spec *spec = &part->spec;
	int shape = SCAR_ROWS, cut = 0, samples = 0, judged = 0, drawn = 0, unit = 0;
	json_int_t seed = 0;
	int rc = trial_unpack(
		of,
		"{s:I, s:{s:s, s:s, s:s, s:s, s?i, s?i, s?i, s?b, s?i, s?b, s?F, s?F, "
		"s?F}}",
		"seed", &seed, "spec", "name", &spec->name, "what", &spec->what, "model",
		&spec->model, "data", &spec->data, "shape", &shape, "cut", &cut, "samples",
		&samples, "drawn", &drawn, "judged", &judged, "unit", &unit, "spread",
		&spec->spread, "lr", &spec->lr, "decay", &spec->decay);

	part->seed = (uint64_t)seed;
	spec->shape = (enum scar_shape)shape;
	spec->cut = (uint32_t)cut;
	spec->samples = (uint32_t)samples;
	spec->judged = (uint32_t)judged;
	spec->drawn = drawn != 0;
	spec->unit = unit != 0;
	return rc;
}

static int problem_open(struct part *part, uint32_t at)
{
	char err[SCAR_TEXT_MAX];
	int rc = scar_problem_open(&part->spec, part->seed + at, &part->problem[at], err,
				   sizeof(err));

	return rc == 0 ? 0 : fail(rc == -ENOMEM ? rc : -EINVAL, part->spec.name, err);
}

/* All runs get the target that they have on average after so many steps. */
static int runs_make(json_t *of, struct part *part)
{
	int steps, runs, rc = trial_unpack(of, "{s:i, s:i}", "steps", &steps, "runs", &runs);
	uint32_t stored = (uint32_t)(runs > 1 ? steps + steps / 2 : steps);
	double target = 0.0;

	for (int r = 0; rc == 0 && r < runs && r < SCAR_RUNS_MAX; r++) {
		rc = problem_open(part, part->run_count);
		if (rc != 0)
			return rc;
		rc = scar_run_make(&part->problem[r], stored, &part->run[r]);
		if (rc != 0)
			return fail(rc, part->spec.name, strerror(-rc));
		part->run_count++;
		target += part->run[r].losses[steps] / runs;
	}
	for (uint32_t r = 0; rc == 0 && r < part->run_count; r++) {
		if (!scar_run_aim(&part->run[r], target) || part->run[r].steps < 2)
			return fail(-ERANGE, part->spec.name, "a run is too far off the others");
	}
	return rc;
}

static json_t *table_json(const struct scar_table *table)
{
	static const char *const selections[] = { [OL_SELECT_FULL] = "full",
						  [OL_SELECT_PRIORITY] = "priority",
						  [OL_SELECT_ROUND_ROBIN] = "round-robin",
						  [OL_SELECT_RANDOM] = "random" };
	json_t *schemes = json_array();

	for (size_t s = 0; s < SCAR_SCHEMES; s++) {
		json_t *costs = json_array();

		for (size_t l = 0; l < SCAR_LOSSES; l++)
			json_array_append_new(
				costs, table->cost[s][l] == NULL
					       ? json_null()
					       : trial_list(table->cost[s][l], table->trials));
		json_array_append_new(schemes, json_pack("{s:s, s:i, s:f, s:o}", "selection",
							 selections[scar_schemes[s].selection],
							 "part", (int)scar_schemes[s].part, "bytes",
							 table->share[s], "cost", costs));
	}
	return json_pack("{s:i, s:i, s:i, s:o, s:o}", "period", (int)table->period, "trials",
			 (int)table->trials, "late", (int)table->late, "full",
			 trial_list(table->full, table->trials), "schemes", schemes);
}

static json_t *norms_json(const struct scar_norm norms[SCAR_LOSSES])
{
	json_t *list = json_array();

	for (size_t l = 0; l < SCAR_LOSSES; l++)
		json_array_append_new(
			list, json_pack("{s:f, s:f, s:f, s:i, s:i}", "lost", norms[l].lost, "ratio",
					norms[l].ratio, "sd", norms[l].sd, "failures",
					(int)norms[l].failures, "longer", (int)norms[l].longer));
	return list;
}

/* One C; norms are those of C = 8 always */
static int part_go(json_t *of, struct part *part)
{
	struct scar_norm norms[SCAR_LOSSES];
	struct scar_table table = { 0 };
	int period, trials, failures, few;
	int rc = runs_make(of, part);

	if (rc == 0)
		rc = trial_unpack(of, "{s:i, s:i, s:i, s:b}", "period", &period, "trials", &trials,
				  "failures", &failures, "few", &few);
	if (rc != 0)
		return rc;
	rc = scar_norms(part->run, SCAR_NORM_PERIOD, (uint32_t)failures, part->seed, norms);
	if (rc == 0)
		rc = scar_table_make(part->run, part->run_count, (uint32_t)period, (uint32_t)trials,
				     few != 0, part->seed, &table);
	if (rc != 0)
		return fail(rc, part->spec.name, strerror(-rc));
	rc = trial_say(json_pack("{s:s, s:s, s:i, s:i, s:f, s:[o], s:o}", "problem",
				 part->spec.name, "what", part->problem[0].what, "blocks",
				 (int)part->problem[0].block_count, "steps",
				 (int)part->run[0].steps, "target", part->run[0].target, "tables",
				 table_json(&table), "norms", norms_json(norms)));
	scar_table_fini(&table);
	return rc;
}

static int bound_go(json_t *of, struct part *part)
{
	json_t *list = json_array();
	struct scar_bounds bounds;
	int pushes, rc = trial_unpack(of, "{s:i}", "pushes", &pushes);

	if (rc == 0)
		rc = problem_open(part, 0);
	if (rc != 0)
		return rc;
	rc = scar_bounds_make(&part->problem[0], 0, (uint32_t)pushes, part->seed, &bounds);
	if (rc != 0)
		return fail(rc, part->spec.name, strerror(-rc));
	for (size_t k = 0; k < SCAR_PUSHES; k++)
		json_array_append_new(
			list,
			json_pack("{s:s, s:i, s:i, s:i, s:f, s:o}", "name", scar_push_names[k],
				  "count", (int)bounds.count[k], "above", (int)bounds.above[k],
				  "above_measured", (int)bounds.above_measured[k], "worst",
				  bounds.worst[k], "tight", trial_number(bounds.tight[k])));
	return trial_say(json_pack("{s:s, s:i, s:f, s:f, s:o}", "what", bounds.what, "steps",
				   (int)bounds.steps, "rate", bounds.rate, "rate_min",
				   bounds.rate_min, "pushes", list));
}

static int live_go(json_t *of, struct part *part)
{
	struct scar_live live;
	int kills, full, rc = runs_make(of, part);

	if (rc == 0)
		rc = trial_unpack(of, "{s:i, s:b}", "kills", &kills, "full", &full);
	if (rc != 0)
		return rc;
	rc = scar_live_make(&part->run[0], &part->spec, full != 0, (uint32_t)kills, part->seed,
			    &live);
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "drill", "servers with a kill, live",
				    ol_strerror(rc), ol_cmd_remedy(rc));
	return trial_say(json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:o}", "problem", live.name,
				   "recovery", live.full ? "full" : "partial", "kills",
				   (int)live.kills, "unlike", (int)live.unlike, "changed",
				   (int)live.changed, "strange", (int)live.strange, "late",
				   (int)live.late, "cost", trial_list(live.cost, live.kills)));
}

int scar_trial(json_t *of)
{
	static const struct {
		const char *name;
		int (*go)(json_t *of, struct part *part);
	} kinds[] = { { "bound", bound_go }, { "part", part_go }, { "live", live_go } };
	struct part part = { 0 };
	const char *kind = "";
	int rc = trial_unpack(of, "{s:s}", "kind", &kind);

	if (rc == 0)
		rc = spec_read(of, &part);
	for (size_t i = 0; rc == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, kind) == 0)
			rc = kinds[i].go(of, &part);
	}
	for (uint32_t r = 0; r < SCAR_RUNS_MAX; r++) {
		scar_run_fini(&part.run[r]);
		scar_problem_close(&part.problem[r]);
	}
	return rc;
}
