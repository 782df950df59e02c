/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * trial.c -- a process that computes steps of a problem, for the study in Python (lab.py)
 *
 * The description opens the problem, once for each run: runs differ in their seed. Then orders
 * come, each a JSON object on stdin, and each gets an answer, a line of JSON on stdout:
 *
 *	{"walk": ROW, "run": R, "step": K, "count": N, "keep": BOOL, "target": LOSS or null}
 *		{"losses": of the state in ROW, which is the one after K iterations, and of the
 *		states that follow}: N, or fewer if one reaches the target. Each state goes to the
 *		next row (keep), or to ROW; the row after the last is used too.
 *	{"select": ol_selection, "fraction": F, "seed": S, "at": 0 or 1}
 *		{}: turns of this number come from a selector of the product that saves F of the floats
 *	{"turn": distance of each block, or null, "at": 0 or 1}
 *		{"chosen": blocks}
 *	{"live": ...}
 *		see live.c
 *
 * States lie in memory that both processes have mapped, the descriptor "memory": rows of one state
 * each. Row 0 has the block of each float (uint32_t); the next rows are x_0 of each run.
 */
#include "drill/trial.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "drill/scar/scar.h"
#include "outlast_policy.h"

enum {
	RUNS_MAX = 10,
	SELECTORS = 2
};

struct lab {
	struct scar_spec spec;
	struct scar_problem problems[RUNS_MAX];
	struct ol_selector *selectors[SELECTORS];
	struct scar_live live;
	float *memory; /* NULL: none */
	size_t rows;
	int fd;
	int runs;
};

static int fail(int status, const char *what, const char *why)
{
	if (status == -ENOMEM)
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", what, NULL);
	return ol_cmd_error(OL_EXIT_DATA, "drill", what, why, NULL);
}

static int spec_read(json_t *of, struct lab *lab, json_int_t *ret_seed)
{
	struct scar_spec *spec = &lab->spec;
	int cut = 0, samples = 0, judged = 0, drawn = 0, unit = 0, features = 0, frame = 0, rows;
	int rc = trial_unpack(
		of,
		"{s:I, s:i, s:i, s:i, s:{s:s, s:s, s:s, s?b, s?i, s?i, s?b, s?i, s?b, s?i, s?F, "
		"s?F, s?F}}",
		"seed", ret_seed, "runs", &lab->runs, "memory", &lab->fd, "rows", &rows, "spec",
		"name", &spec->name, "model", &spec->model, "data", &spec->data, "features",
		&features, "cut", &cut, "samples", &samples, "drawn", &drawn, "judged", &judged,
		"unit", &unit, "frame", &frame, "spread", &spec->spread, "lr", &spec->lr, "decay",
		&spec->decay);

	if (rc == 0 && (lab->runs < 1 || lab->runs > RUNS_MAX || rows <= lab->runs))
		rc = ol_cmd_error(OL_EXIT_USAGE, "trial", "runs or rows", NULL, NULL);
	spec->features = features != 0;
	spec->cut = (uint32_t)cut;
	spec->samples = (uint32_t)samples;
	spec->judged = (uint32_t)judged;
	spec->drawn = drawn != 0;
	spec->unit = unit != 0;
	spec->frame = (uint32_t)frame;
	lab->rows = (size_t)rows;
	return rc;
}

static size_t memory_bytes(const struct lab *lab)
{
	return lab->rows * lab->problems[0].floats * sizeof(float);
}

static float *row(const struct lab *lab, int at)
{
	return lab->memory + (size_t)at * lab->problems[0].floats;
}

/* Map the rows, and fill in the parts that the other process needs */
static int memory_open(struct lab *lab)
{
	const struct scar_problem *problem = &lab->problems[0];
	size_t bytes = memory_bytes(lab);
	float *memory = MAP_FAILED;

	if (ftruncate(lab->fd, (off_t)bytes) == 0)
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, lab->fd, 0);
	if (memory == MAP_FAILED)
		return fail(-ENOMEM, lab->spec.name, NULL);
	lab->memory = memory;
	memcpy(row(lab, 0), problem->block_of, problem->floats * sizeof(*problem->block_of));
	for (int r = 0; r < lab->runs; r++)
		memcpy(row(lab, 1 + r), lab->problems[r].first, problem->floats * sizeof(float));
	return trial_say(json_pack("{s:I, s:i, s:b, s:s}", "floats", (json_int_t)problem->floats,
				   "blocks", (int)problem->block_count, "labels",
				   (int)problem->labels, "shape", problem->shape));
}

static int walk(struct lab *lab, json_t *order)
{
	const struct scar_problem *problem;
	json_t *losses = json_array();
	double loss, target = 0.0;
	int at, run, step, count, keep, rc;

	rc = trial_unpack(order, "{s:i, s:i, s:i, s:i, s:b}", "walk", &at, "run", &run, "step",
			  &step, "count", &count, "keep", &keep);
	if (rc == 0 && (run < 0 || run >= lab->runs || at < 0 || count < 0 ||
			(size_t)at + (size_t)(keep ? count : 1) >= lab->rows))
		rc = ol_cmd_error(OL_EXIT_USAGE, "trial", "order", "walk", NULL);
	problem = &lab->problems[rc == 0 ? run : 0];
	(void)json_unpack(order, "{s:F}", "target", &target);
	for (int i = 0; rc == 0 && i < count; i++) {
		float *x = row(lab, keep ? at + i : at), *next = row(lab, (keep ? at + i : at) + 1);

		rc = problem->step(problem->model, (uint32_t)(step + i), x, next, &loss);
		if (rc != 0) {
			rc = fail(rc, lab->spec.name, strerror(-rc));
			break;
		}
		json_array_append_new(losses, trial_number(loss));
		if (json_is_number(json_object_get(order, "target")) && loss <= target)
			break;
		if (!keep)
			memcpy(x, next, problem->floats * sizeof(*x));
	}
	if (rc == 0)
		return trial_say(json_pack("{s:o}", "losses", losses));
	json_decref(losses);
	return rc;
}

static int select_begin(struct lab *lab, json_t *order)
{
	const struct scar_problem *problem = &lab->problems[0];
	json_int_t seed;
	double fraction;
	int selection, at;
	int rc = trial_unpack(order, "{s:i, s:F, s:I, s:i}", "select", &selection, "fraction",
			      &fraction, "seed", &seed, "at", &at);

	if (rc == 0 && (at < 0 || at >= SELECTORS))
		rc = ol_cmd_error(OL_EXIT_USAGE, "trial", "order", "select", NULL);
	if (rc != 0)
		return rc;
	ol_selector_destroy(lab->selectors[at]);
	lab->selectors[at] = NULL;
	rc = ol_selector_create((enum ol_selection)selection, problem->lengths,
				problem->block_count, fraction, (uint64_t)seed,
				&lab->selectors[at]);
	return rc == 0 ? trial_say(json_object()) : fail(rc, lab->spec.name, strerror(-rc));
}

static int turn(struct lab *lab, json_t *order)
{
	uint32_t count = lab->problems[0].block_count, chosen_count;
	json_t *distances = json_object_get(order, "turn"), *list = json_array();
	double *distance = calloc(count, sizeof(*distance));
	uint32_t *chosen = calloc(count, sizeof(*chosen));
	int rc = -ENOMEM, at = 0;

	(void)json_unpack(order, "{s:i}", "at", &at);
	at = at == 1;
	if (lab->selectors[at] != NULL && distance != NULL && chosen != NULL) {
		for (size_t b = 0; b < count; b++)
			distance[b] = json_number_value(json_array_get(distances, b));
		chosen_count = ol_selector_turn(lab->selectors[at], distance, chosen);
		for (uint32_t i = 0; i < chosen_count; i++)
			json_array_append_new(list, json_integer(chosen[i]));
		rc = 0;
	}
	free(distance);
	free(chosen);
	if (rc == 0)
		return trial_say(json_pack("{s:o}", "chosen", list));
	json_decref(list);
	return fail(rc, lab->spec.name, NULL);
}

static int live(struct lab *lab, json_t *order)
{
	json_t *answer = NULL;
	int at = 0, rc;

	(void)json_unpack(order, "{s:i}", "row", &at);
	if (at < 0 || (size_t)at >= lab->rows)
		return ol_cmd_error(OL_EXIT_USAGE, "trial", "order", "live", NULL);
	lab->live.problem = &lab->problems[0];
	rc = scar_live_go(&lab->live, order, row(lab, at), &answer);
	return rc == 0 ? trial_say(answer) : rc;
}

static int orders_take(struct lab *lab)
{
	static const struct {
		const char *name;
		int (*go)(struct lab *lab, json_t *order);
	} kinds[] = {
		{ "walk", walk }, { "select", select_begin }, { "turn", turn }, { "live", live }
	};
	json_t *order;
	int rc = 0;

	while (rc == 0 && (order = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
		rc = OL_EXIT_USAGE;
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			if (json_object_get(order, kinds[i].name) != NULL)
				rc = kinds[i].go(lab, order);
		}
		json_decref(order);
	}
	return rc;
}

int scar_trial(json_t *of)
{
	struct lab lab = { .memory = NULL };
	char err[256];
	json_int_t seed = 0;
	int rc = spec_read(of, &lab, &seed);

	for (int r = 0; rc == 0 && r < lab.runs; r++) {
		rc = scar_problem_open(&lab.spec, (uint64_t)seed + (uint64_t)r, &lab.problems[r],
				       err, sizeof(err));
		if (rc != 0)
			rc = fail(rc, lab.spec.name, err);
	}
	if (rc == 0)
		rc = memory_open(&lab);
	if (rc == 0)
		rc = orders_take(&lab);
	ol_worker_close(lab.live.worker);
	for (int i = 0; i < SELECTORS; i++)
		ol_selector_destroy(lab.selectors[i]);
	if (lab.memory != NULL)
		munmap(lab.memory, memory_bytes(&lab));
	for (int r = 0; r < RUNS_MAX; r++)
		scar_problem_close(&lab.problems[r]);
	return rc;
}
