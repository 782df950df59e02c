/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * table.c -- what failures cost under each scheme
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "drill/scar/scar.h"

const struct scar_scheme scar_schemes[SCAR_SCHEMES] = {
	{ .selection = OL_SELECT_FULL, .part = 1 },
	{ .selection = OL_SELECT_PRIORITY, .part = 2 },
	{ .selection = OL_SELECT_PRIORITY, .part = 4 },
	{ .selection = OL_SELECT_PRIORITY, .part = 8 },
	{ .selection = OL_SELECT_ROUND_ROBIN, .part = 2 },
	{ .selection = OL_SELECT_ROUND_ROBIN, .part = 4 },
	{ .selection = OL_SELECT_ROUND_ROBIN, .part = 8 },
	{ .selection = OL_SELECT_RANDOM, .part = 2 },
	{ .selection = OL_SELECT_RANDOM, .part = 4 },
	{ .selection = OL_SELECT_RANDOM, .part = 8 },
};

/* Every fraction lost for what the headlines are about, one half for the rest */
static bool is_tried(size_t scheme, size_t loss, bool few)
{
	bool small = scar_schemes[scheme].part == 8 || scheme == 0;

	if (few && !small)
		return false;
	return scar_losses[loss] == 0.5 || scheme == 0 ||
	       (small && scar_schemes[scheme].selection == OL_SELECT_PRIORITY);
}

static int trial_run(const struct scar_run *run, const struct scar_saved *saved,
		     const struct scar_failure *failure, uint32_t trial, struct scar_table *table,
		     float *x)
{
	table->full[trial] = failure->step % table->period;
	for (size_t s = 0; s < SCAR_SCHEMES; s++) {
		for (size_t l = 0; l < SCAR_LOSSES; l++) {
			uint32_t lost = scar_lost_count(run->problem, scar_losses[l]), at;
			bool late;
			int rc;

			if (table->cost[s][l] == NULL)
				continue;
			scar_restore(run, &saved[s], failure, lost, x, NULL, NULL);
			rc = scar_arrive(run, failure->step, x, &at, &late);
			if (rc != 0)
				return rc;
			table->cost[s][l][trial] = (double)at - (double)run->steps;
			table->late += late;
		}
	}
	return 0;
}

static bool table_init(bool few, struct scar_table *table)
{
	table->full = calloc(table->trials, sizeof(double));
	for (size_t s = 0; s < SCAR_SCHEMES; s++) {
		for (size_t l = 0; l < SCAR_LOSSES; l++) {
			if (!is_tried(s, l, few))
				continue;
			table->cost[s][l] = calloc(table->trials, sizeof(double));
			if (table->cost[s][l] == NULL)
				return false;
		}
	}
	return table->full != NULL;
}

/* Trials `first` and every `by`-th behind it, all of one run */
static int run_try(const struct scar_run *run, uint32_t first, uint32_t by, uint64_t seed,
		   struct scar_table *table)
{
	struct scar_saved saved[SCAR_SCHEMES] = { 0 };
	struct scar_failure failure = { 0 };
	float *x = malloc(run->problem->floats * sizeof(*x));
	int rc;

	failure.place = calloc(run->problem->block_count, sizeof(*failure.place));
	rc = x == NULL || failure.place == NULL ? -ENOMEM : 0;
	for (size_t s = 0; rc == 0 && s < SCAR_SCHEMES; s++) {
		struct scar_scheme scheme = scar_schemes[s];

		scheme.period = table->period;
		rc = scar_saved_make(run, scheme, seed, &saved[s]);
		table->share[s] += saved[s].share / by;
	}
	for (uint32_t t = first; rc == 0 && t < table->trials; t += by) {
		scar_failure_draw(run, run->steps / 2.0, seed, t, &failure);
		rc = trial_run(run, saved, &failure, t, table, x);
	}
	for (size_t s = 0; s < SCAR_SCHEMES; s++)
		scar_saved_fini(&saved[s]);
	free(failure.place);
	free(x);
	return rc;
}

int scar_table_make(const struct scar_run *runs, size_t run_count, uint32_t period, uint32_t trials,
		    bool few, uint64_t seed, struct scar_table *table)
{
	int rc;

	*table = (struct scar_table){ .period = period, .trials = trials };
	rc = table_init(few, table) ? 0 : -ENOMEM;
	for (size_t r = 0; rc == 0 && r < run_count; r++)
		rc = run_try(&runs[r], (uint32_t)r, (uint32_t)run_count, seed, table);
	if (rc != 0)
		scar_table_fini(table);
	return rc;
}

void scar_table_fini(struct scar_table *table)
{
	free(table->full);
	for (size_t s = 0; s < SCAR_SCHEMES; s++) {
		for (size_t l = 0; l < SCAR_LOSSES; l++)
			free(table->cost[s][l]);
	}
	*table = (struct scar_table){ 0 };
}

static void ratios_note(const double *ratios, struct scar_norm *norm)
{
	double sum = 0.0, squares = 0.0, n = norm->failures;

	for (uint32_t i = 0; i < norm->failures; i++)
		sum += ratios[i];
	norm->ratio = sum / n;
	for (uint32_t i = 0; i < norm->failures; i++)
		squares += (ratios[i] - norm->ratio) * (ratios[i] - norm->ratio);
	norm->sd = sqrt(squares / (n - 1.0));
}

/* Squared norms of what partial recovery does, by those of full recovery */
static int ratios_make(const struct scar_run *run, const struct scar_saved *saved, uint32_t lost,
		       uint64_t seed, double *ratios, struct scar_norm *norm)
{
	struct scar_failure failure = { 0 };
	float *x = malloc(run->problem->floats * sizeof(*x));
	uint32_t failures = norm->failures;
	int rc;

	failure.place = calloc(run->problem->block_count, sizeof(*failure.place));
	rc = x == NULL || failure.place == NULL ? -ENOMEM : 0;
	norm->failures = 0;
	for (uint64_t t = 0; rc == 0 && norm->failures < failures; t++) {
		double part, whole;

		scar_failure_draw(run, run->steps / 2.0, seed, t, &failure);
		if (failure.step % saved->scheme.period == 0)
			continue; /* nothing has moved since it was saved */
		scar_restore(run, saved, &failure, lost, x, &part, &whole);
		ratios[norm->failures++] = part / whole;
		norm->longer += part > whole;
	}
	free(failure.place);
	free(x);
	return rc;
}

int scar_norms(const struct scar_run *run, uint32_t period, uint32_t failures, uint64_t seed,
	       struct scar_norm norms[SCAR_LOSSES])
{
	struct scar_scheme full = { .selection = OL_SELECT_FULL, .part = 1, .period = period };
	double *ratios = calloc(failures, sizeof(*ratios));
	struct scar_saved saved = { 0 };
	int rc = ratios == NULL ? -ENOMEM : scar_saved_make(run, full, seed, &saved);

	for (size_t l = 0; rc == 0 && l < SCAR_LOSSES; l++) {
		uint32_t lost = scar_lost_count(run->problem, scar_losses[l]);

		norms[l] = (struct scar_norm){ .lost = (double)lost / run->problem->block_count,
					       .failures = failures };
		rc = ratios_make(run, &saved, lost, seed + 1 + l, ratios, &norms[l]);
		if (rc != 0)
			break;
		ratios_note(ratios, &norms[l]);
	}
	scar_saved_fini(&saved);
	free(ratios);
	return rc;
}
