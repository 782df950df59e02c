/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * bound.c -- perturbations against the bound on their cost
 *
 * Where a run converges linearly, |x_{k+1} - x*| <= c |x_k - x*|, a perturbation of norm d after
 * iteration T costs at most log(1 + c^-T d / |x_0 - x*|) / log(1/c) iterations more until
 * |x - x*| is below a target, whatever the target. The bound is on real numbers; a count of
 * iterations may be above it by less than 1.
 *
 * That takes the unperturbed run to converge by exactly c an iteration. One that does not, being
 * faster at first, has a cost of at most T - K + log((|x_T - x*| + d) / target) / log(1/c): the
 * same with the distance as measured.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drill/scar/scar.h"

enum {
	STREAM_PUSH = 32,
	FAR = 10, /* x* is where FAR * SCAR_STEPS_MAX steps lead to */
	TELLING = 5 /* bounds below say little of how tight they are */
};

const char *const scar_push_names[SCAR_PUSHES] = { "random", "adversarial", "reset" };

static const double target = 1e-2; /* of the first distance */
static const double norm_min = 0.01; /* of the first distance: of random and adversarial ones */
static const double norm_max = 1.0;

double scar_bound(double rate, uint32_t step, double norm, double first_distance)
{
	return log1p(pow(rate, -(double)step) * norm / first_distance) / -log(rate);
}

struct bench {
	const struct scar_problem *problem;
	float *limit; /* x* */
	float *states; /* x_0 .. x_K */
	double *distance; /* of them to x* */
	float *y;
	float *next;
	uint32_t steps; /* K */
};

static double distance_to(const struct bench *b, const float *x, const float *y)
{
	double sum = 0.0;

	for (size_t i = 0; i < b->problem->floats; i++) {
		double d = (double)x[i] - (double)y[i];

		sum += d * d;
	}
	return sqrt(sum);
}

static int walk(struct bench *b, uint32_t from, uint32_t steps, float *x)
{
	double loss;
	int rc = 0;

	for (uint32_t k = from; rc == 0 && k < from + steps; k++) {
		rc = b->problem->step(b->problem->model, k, x, b->next, &loss);
		memcpy(x, b->next, b->problem->floats * sizeof(*x));
	}
	return rc;
}

/* Steps until the distance is at the target, from `from` on */
static int arrive(struct bench *b, uint32_t from, float *x, uint32_t *ret_at)
{
	int rc = 0;

	for (*ret_at = from; rc == 0 && *ret_at < SCAR_LATE * SCAR_STEPS_MAX; ++*ret_at) {
		if (distance_to(b, x, b->limit) < target * b->distance[0])
			break;
		rc = walk(b, *ret_at, 1, x);
	}
	return rc;
}

static void bench_fini(struct bench *b)
{
	free(b->limit);
	free(b->states);
	free(b->distance);
	free(b->y);
	free(b->next);
}

static int bench_init(const struct scar_problem *problem, uint32_t skip, struct bench *b)
{
	size_t n = problem->floats;
	int rc;

	*b = (struct bench){ .problem = problem };
	b->limit = malloc(n * sizeof(float));
	b->states = malloc((SCAR_STEPS_MAX + 1) * n * sizeof(float));
	b->distance = calloc(SCAR_STEPS_MAX + 1, sizeof(double));
	b->y = malloc(n * sizeof(float));
	b->next = malloc(n * sizeof(float));
	if (b->limit == NULL || b->states == NULL || b->distance == NULL || b->y == NULL ||
	    b->next == NULL)
		return -ENOMEM;
	memcpy(b->states, problem->first, n * sizeof(float));
	rc = walk(b, 0, skip, b->states);
	memcpy(b->limit, b->states, n * sizeof(float));
	if (rc == 0)
		rc = walk(b, 0, FAR * SCAR_STEPS_MAX, b->limit);
	b->distance[0] = distance_to(b, b->states, b->limit);
	while (rc == 0 && b->distance[b->steps] >= target * b->distance[0]) {
		float *x = b->states + (b->steps + 1) * n;

		if (b->steps == SCAR_STEPS_MAX)
			return -ERANGE;
		memcpy(x, x - n, n * sizeof(float));
		rc = walk(b, b->steps, 1, x);
		b->distance[++b->steps] = distance_to(b, x, b->limit);
	}
	return rc;
}

/* Into y, which is x_T; the norm of what was added */
static double push(struct bench *b, enum scar_push kind, uint32_t step, struct scar_rng *rng)
{
	const struct scar_problem *problem = b->problem;
	double size = b->distance[0] * norm_min * pow(norm_max / norm_min, scar_uniform(rng));
	double fraction = scar_uniform(rng), along = 0.0;
	const float *x = b->states + step * problem->floats;
	float *lost = b->next; /* a direction, or which blocks are reset */

	for (uint32_t i = 0; kind == SCAR_RESET && i < problem->block_count; i++)
		lost[i] = scar_uniform(rng) < fraction;
	for (size_t i = 0; kind != SCAR_RESET && i < problem->floats; i++) {
		b->next[i] = kind == SCAR_RANDOM ? (float)scar_normal(rng) : x[i] - b->limit[i];
		along += (double)b->next[i] * (double)b->next[i];
	}
	for (size_t i = 0; i < problem->floats; i++) {
		if (kind != SCAR_RESET)
			b->y[i] = x[i] + (float)(size / sqrt(along) * (double)b->next[i]);
		else
			b->y[i] = lost[problem->block_of[i]] > 0.0f ? b->states[i] : x[i];
	}
	return distance_to(b, b->y, x);
}

static int pushes_make(struct bench *b, uint32_t pushes, uint64_t seed, struct scar_bounds *bounds)
{
	double costs[SCAR_PUSHES] = { 0 }, limits[SCAR_PUSHES] = { 0 };

	for (uint32_t t = 0; t < pushes; t++) {
		struct scar_rng rng = { .seed = seed, .trial = t, .stream = STREAM_PUSH };
		enum scar_push kind = (enum scar_push)(t % SCAR_PUSHES);
		uint32_t step = 1 + scar_below(&rng, b->steps - 1), at;
		double norm = push(b, kind, step, &rng), limit, measured, cost;
		int rc = arrive(b, step, b->y, &at);

		if (rc != 0)
			return rc;
		cost = (double)at - (double)b->steps;
		limit = scar_bound(bounds->rate, step, norm, b->distance[0]);
		measured = (double)step - (double)b->steps +
			   log((b->distance[step] + norm) / (target * b->distance[0])) /
				   -log(bounds->rate);
		bounds->above_measured[kind] += cost > measured + 1.0;
		bounds->count[kind]++;
		bounds->above[kind] += cost > limit + 1.0;
		if (bounds->count[kind] == 1 || cost - limit > bounds->worst[kind])
			bounds->worst[kind] = cost - limit;
		if (limit < TELLING)
			continue;
		costs[kind] += cost;
		limits[kind] += limit;
	}
	for (size_t kind = 0; kind < SCAR_PUSHES; kind++)
		bounds->tight[kind] = costs[kind] / limits[kind];
	return 0;
}

int scar_bounds_make(const struct scar_problem *problem, uint32_t skip, uint32_t pushes,
		     uint64_t seed, struct scar_bounds *bounds)
{
	struct bench b;
	int rc = bench_init(problem, skip, &b);

	*bounds = (struct scar_bounds){ .skip = skip, .steps = b.steps, .rate_min = 1.0 };
	snprintf(bounds->what, sizeof(bounds->what), "%s", problem->what);
	for (uint32_t k = 0; rc == 0 && k < b.steps; k++) {
		double rate = b.distance[k + 1] / b.distance[k];

		bounds->rate = fmax(bounds->rate, rate);
		bounds->rate_min = fmin(bounds->rate_min, rate);
	}
	if (rc == 0)
		rc = bounds->rate < 1.0 ? pushes_make(&b, pushes, seed, bounds) : -ERANGE;
	bench_fini(&b);
	return rc;
}
