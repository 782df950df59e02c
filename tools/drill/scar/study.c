/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * study.c -- trajectory, what is saved when, failures and what they cost
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "drill/scar/scar.h"
#include "learn/rng.h"

const double scar_losses[SCAR_LOSSES] = { 0.25, 0.5, 0.75 };

enum {
	PURPOSE = 64, /* above those of tools/learn */
	STREAM_STEP = 1, /* iteration of a failure */
	STREAM_ORDER = 2 /* blocks that are lost */
};

static uint64_t bits(struct scar_rng *rng)
{
	struct learn_rng_block counter = { .word = {
						   rng->used++,
						   (uint32_t)PURPOSE << 24 | rng->stream,
						   (uint32_t)rng->trial,
						   (uint32_t)(rng->trial >> 32),
					   } };
	struct learn_rng_block block =
		learn_philox(counter, (uint32_t)rng->seed, (uint32_t)(rng->seed >> 32));

	return (uint64_t)block.word[0] << 32 | block.word[1];
}

double scar_uniform(struct scar_rng *rng)
{
	return ((double)(bits(rng) >> 12) + 0.5) * 0x1p-52;
}

double scar_normal(struct scar_rng *rng)
{
	double radius = sqrt(-2.0 * log(scar_uniform(rng)));

	return radius * cos(2.0 * M_PI * scar_uniform(rng));
}

uint32_t scar_below(struct scar_rng *rng, uint32_t limit)
{
	uint64_t word = bits(rng);

	return learn_rng_below((uint32_t)(word >> 32), (uint32_t)word, limit);
}

void scar_shuffle(struct scar_rng *rng, uint32_t *order, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	for (uint32_t i = count; i > 1; i--) {
		uint32_t at = scar_below(rng, i), other = order[i - 1];

		order[i - 1] = order[at];
		order[at] = other;
	}
}

uint32_t scar_geometric(struct scar_rng *rng, double mean, uint32_t max)
{
	double per = log1p(-1.0 / mean), step;

	do {
		step = floor(log(scar_uniform(rng)) / per) + 1.0;
	} while (step > max);
	return (uint32_t)step;
}

int scar_run_make(const struct scar_problem *problem, uint32_t steps, struct scar_run *run)
{
	size_t n = problem->floats;

	*run = (struct scar_run){ .problem = problem, .stored = steps };
	run->states = malloc((steps + 1) * n * sizeof(*run->states));
	run->losses = malloc((steps + 1) * sizeof(*run->losses));
	run->room = malloc(2 * n * sizeof(*run->room));
	if (run->states == NULL || run->losses == NULL || run->room == NULL) {
		scar_run_fini(run);
		return -ENOMEM;
	}
	memcpy(run->states, problem->first, n * sizeof(float));
	for (uint32_t k = 0; k <= steps; k++) {
		float *x = run->states + k * n;
		int rc = problem->step(problem->model, k, x, k < steps ? x + n : NULL,
				       &run->losses[k]);

		if (rc == 0 && !isfinite(run->losses[k]))
			rc = -EDOM;
		if (rc != 0) {
			scar_run_fini(run);
			return rc;
		}
	}
	(void)scar_run_aim(run, run->losses[steps]);
	return 0;
}

bool scar_run_aim(struct scar_run *run, double target)
{
	for (uint32_t k = 0; k <= run->stored; k++) {
		if (run->losses[k] > target)
			continue;
		run->target = target;
		run->steps = k;
		return true;
	}
	return false;
}

void scar_run_fini(struct scar_run *run)
{
	free(run->states);
	free(run->losses);
	free(run->room);
	*run = (struct scar_run){ 0 };
}

const float *scar_state(const struct scar_run *run, uint32_t step)
{
	return run->states + step * run->problem->floats;
}

int scar_arrive(const struct scar_run *run, uint32_t from, float *x, uint32_t *ret_at,
		bool *ret_late)
{
	const struct scar_problem *problem = run->problem;
	uint32_t last = SCAR_LATE * run->steps;
	float *next = run->room;

	*ret_late = true;
	for (*ret_at = from; *ret_at < last; ++*ret_at) {
		double loss;
		int rc = problem->step(problem->model, *ret_at, x, next, &loss);

		if (rc != 0)
			return rc;
		if (loss <= run->target) {
			*ret_late = false;
			return 0;
		}
		memcpy(x, next, problem->floats * sizeof(*x));
	}
	return 0;
}

static double apart2(const struct scar_problem *problem, float x, float y)
{
	double moved = (double)x - (double)y;

	return problem->labels ? x < y || x > y : moved * moved;
}

/* Squares, as sums of a block */
static void distances(const struct scar_run *run, const uint16_t *at, uint32_t step,
		      double *distance)
{
	const struct scar_problem *problem = run->problem;
	const float *x = scar_state(run, step);

	memset(distance, 0, problem->block_count * sizeof(*distance));
	for (size_t i = 0; i < problem->floats; i++) {
		uint32_t block = problem->block_of[i];

		distance[block] += apart2(problem, x[i], scar_state(run, at[block])[i]);
	}
}

static void turn_take(const struct scar_run *run, struct ol_selector *selector, uint32_t step,
		      uint16_t *at, struct scar_saved *saved, double *distance, uint32_t *chosen)
{
	const struct scar_problem *problem = run->problem;
	uint32_t count;

	if (saved->scheme.selection == OL_SELECT_PRIORITY) {
		distances(run, at, step, distance);
		for (uint32_t b = 0; b < problem->block_count; b++)
			distance[b] = sqrt(distance[b]);
	}
	count = ol_selector_turn(selector, distance, chosen);
	for (uint32_t i = 0; i < count; i++) {
		at[chosen[i]] = (uint16_t)step;
		saved->floats += (double)problem->lengths[chosen[i]];
	}
}

static void full_take(const struct scar_run *run, uint32_t step, uint16_t *at,
		      struct scar_saved *saved)
{
	for (uint32_t b = 0; b < run->problem->block_count; b++)
		at[b] = (uint16_t)step;
	saved->floats += (double)run->problem->floats;
}

static int saved_fill(const struct scar_run *run, struct ol_selector *selector,
		      struct scar_saved *saved)
{
	uint32_t blocks = run->problem->block_count;
	uint32_t every = saved->scheme.period / saved->scheme.part, turns = 0;
	double *distance = calloc(blocks, sizeof(*distance));
	uint32_t *chosen = calloc(blocks, sizeof(*chosen));
	int rc = distance == NULL || chosen == NULL ? -ENOMEM : 0;

	for (uint32_t step = 1; rc == 0 && step <= run->steps; step++) {
		uint16_t *at = saved->at + (size_t)step * blocks;

		memcpy(at, at - blocks, blocks * sizeof(*at));
		if (step % every != 0)
			continue;
		turns++;
		if (selector != NULL)
			turn_take(run, selector, step, at, saved, distance, chosen);
		else
			full_take(run, step, at, saved);
	}
	saved->share =
		saved->floats * saved->scheme.part / ((double)turns * (double)run->problem->floats);
	free(distance);
	free(chosen);
	return rc;
}

int scar_saved_make(const struct scar_run *run, struct scar_scheme scheme, uint64_t seed,
		    struct scar_saved *saved)
{
	uint32_t blocks = run->problem->block_count;
	struct ol_selector *selector = NULL;
	int rc = 0;

	*saved = (struct scar_saved){ .scheme = scheme };
	saved->at = calloc((run->steps + 1) * (size_t)blocks, sizeof(*saved->at));
	if (saved->at == NULL)
		return -ENOMEM;
	if (scheme.selection != OL_SELECT_FULL)
		rc = ol_selector_create(scheme.selection, run->problem->lengths, blocks,
					1.0 / scheme.part, seed, &selector);
	if (rc == 0)
		rc = saved_fill(run, selector, saved);
	ol_selector_destroy(selector);
	if (rc != 0)
		scar_saved_fini(saved);
	return rc;
}

void scar_saved_fini(struct scar_saved *saved)
{
	free(saved->at);
	*saved = (struct scar_saved){ 0 };
}

void scar_failure_draw(const struct scar_run *run, double mean, uint64_t seed, uint64_t trial,
		       struct scar_failure *failure)
{
	struct scar_rng step = { .seed = seed, .trial = trial, .stream = STREAM_STEP };
	struct scar_rng order = { .seed = seed, .trial = trial, .stream = STREAM_ORDER };

	failure->step = scar_geometric(&step, mean, run->steps - 1);
	scar_shuffle(&order, failure->place, run->problem->block_count);
}

uint32_t scar_lost_count(const struct scar_problem *problem, double fraction)
{
	uint32_t count = (uint32_t)(fraction * problem->block_count + 0.5);

	return count > 0 ? count : 1;
}

void scar_restore(const struct scar_run *run, const struct scar_saved *saved,
		  const struct scar_failure *failure, uint32_t lost, float *x, double *ret_norm2,
		  double *ret_whole)
{
	const struct scar_problem *problem = run->problem;
	const uint16_t *at = saved->at + (size_t)failure->step * problem->block_count;
	const float *from = scar_state(run, failure->step);
	double norm2 = 0.0, whole = 0.0;

	memcpy(x, from, problem->floats * sizeof(*x));
	for (size_t i = 0; i < problem->floats; i++) {
		uint32_t block = problem->block_of[i];
		float old = scar_state(run, at[block])[i];
		double moved2 = apart2(problem, old, from[i]);

		whole += moved2;
		if (failure->place[block] >= lost)
			continue;
		norm2 += moved2;
		x[i] = old;
	}
	if (ret_norm2 != NULL)
		*ret_norm2 = norm2;
	if (ret_whole != NULL)
		*ret_whole = whole;
}
