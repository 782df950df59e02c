/* SPDX-License-Identifier: BSD-3-Clause */

/* isotonic.c -- isotonic regression on a grid: Dykstra's projections onto rising rows and columns */

#include "policy/isotonic.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The weight of a cell that was never seen, and the least weight of a seen cell after fading. */
#define WEIGHT_TRACE 1e-3

/* Neighbours that share one value. */
struct ol_isotonic_pool {
	double value;
	double weight;
	uint32_t count;
};

int ol_isotonic_init(struct ol_isotonic *grid, uint32_t size)
{
	size_t cells = (size_t)size * size;

	*grid = (struct ol_isotonic){
		.size = size,
		.mean = calloc(cells, sizeof(double)),
		.weight = calloc(cells, sizeof(double)),
		.fit = calloc(cells, sizeof(double)),
		.row_push = calloc(cells, sizeof(double)),
		.column_push = calloc(cells, sizeof(double)),
		.low = calloc(cells, sizeof(double)),
		.high = calloc(cells, sizeof(double)),
		.line = calloc(size, sizeof(double)),
		.line_weight = calloc(size, sizeof(double)),
		.line_fit = calloc(size, sizeof(double)),
		.pools = calloc(size, sizeof(struct ol_isotonic_pool)),
	};
	if (grid->mean == NULL || grid->weight == NULL || grid->fit == NULL ||
	    grid->row_push == NULL || grid->column_push == NULL || grid->low == NULL ||
	    grid->high == NULL || grid->line == NULL || grid->line_weight == NULL ||
	    grid->line_fit == NULL || grid->pools == NULL) {
		ol_isotonic_fini(grid);
		return -ENOMEM;
	}
	for (size_t i = 0; i < cells; i++)
		grid->fit[i] = NAN;
	return 0;
}

void ol_isotonic_fini(struct ol_isotonic *grid)
{
	free(grid->mean);
	free(grid->weight);
	free(grid->fit);
	free(grid->row_push);
	free(grid->column_push);
	free(grid->low);
	free(grid->high);
	free(grid->line);
	free(grid->line_weight);
	free(grid->line_fit);
	free(grid->pools);
	*grid = (struct ol_isotonic){ 0 };
}

void ol_isotonic_add(struct ol_isotonic *grid, uint32_t row, uint32_t column, double sample)
{
	size_t cell = (size_t)row * grid->size + column;

	if (grid->weight[cell] == 0.0) {
		grid->mean[cell] = 0.0;
		grid->fit[cell] = NAN; /* the old value was a guess */
		grid->row_push[cell] = 0.0;
		grid->column_push[cell] = 0.0;
	}
	grid->weight[cell] += 1.0;
	grid->mean[cell] += (sample - grid->mean[cell]) / grid->weight[cell];
}

void ol_isotonic_fade(struct ol_isotonic *grid, double factor)
{
	for (size_t i = 0; i < (size_t)grid->size * grid->size; i++) {
		double weight = grid->weight[i] * factor;

		if (grid->weight[i] == 0.0)
			continue;
		grid->weight[i] = weight > WEIGHT_TRACE ? weight : WEIGHT_TRACE;
		grid->row_push[i] *= factor;
		grid->column_push[i] *= factor;
	}
}

bool ol_isotonic_seen(const struct ol_isotonic *grid, uint32_t row, uint32_t column)
{
	return grid->weight[(size_t)row * grid->size + column] > WEIGHT_TRACE;
}

/* fmax() and fmin() of numbers, without a call */
static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/*
 * low: the largest fit at or before each cell in both directions; high: the smallest at or after.
 * Only seen cells count, unless `all`. Infinite: there is none.
 */
static void bounds(struct ol_isotonic *grid, bool all)
{
	uint32_t size = grid->size;
	size_t cells = (size_t)size * size;

	for (size_t row = 0; row < cells; row += size) {
		double low = -INFINITY;

		for (size_t i = row; i < row + size; i++) {
			if (all || grid->weight[i] > 0.0)
				low = larger(low, grid->fit[i]);
			grid->low[i] = row > 0 ? larger(low, grid->low[i - size]) : low;
		}
	}
	for (size_t row = cells; row > 0; row -= size) {
		double high = INFINITY;

		for (size_t i = row; i-- > row - size;) {
			if (all || grid->weight[i] > 0.0)
				high = smaller(high, grid->fit[i]);
			grid->high[i] = row < cells ? smaller(high, grid->high[i + size]) : high;
		}
	}
}

/*
 * An unseen cell gets the middle of the bounds that seen cells leave it. If no seen cell lies before
 * (after) it, the least (largest) fit of all is the bound. False: no cell has been seen.
 */
static bool fill_unseen(struct ol_isotonic *grid)
{
	size_t cells = (size_t)grid->size * grid->size;
	double least, largest;

	for (size_t i = 0; i < cells; i++) {
		if (grid->weight[i] > 0.0 && isnan(grid->fit[i]))
			grid->fit[i] = grid->mean[i];
	}
	bounds(grid, false);
	least = grid->high[0];
	largest = grid->low[cells - 1];
	if (isinf(least))
		return false;
	for (size_t i = 0; i < cells; i++) {
		double low = isinf(grid->low[i]) ? least : grid->low[i];
		double high = isinf(grid->high[i]) ? largest : grid->high[i];

		if (!(grid->weight[i] > 0.0))
			grid->mean[i] = low + (high - low) / 2.0;
	}
	return true;
}

/* Pool adjacent violators: the nearest rising line. */
static void pava(struct ol_isotonic *grid)
{
	struct ol_isotonic_pool *pools = grid->pools;
	uint32_t count = 0, at = 0;

	for (uint32_t i = 0; i < grid->size; i++) {
		struct ol_isotonic_pool pool = { grid->line[i], grid->line_weight[i], 1 };

		while (count > 0 && pools[count - 1].value > pool.value) {
			const struct ol_isotonic_pool *last = &pools[--count];
			double weight = last->weight + pool.weight;

			pool.value =
				(last->value * last->weight + pool.value * pool.weight) / weight;
			pool.weight = weight;
			pool.count += last->count;
		}
		pools[count++] = pool;
	}
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t j = 0; j < pools[i].count; j++)
			grid->line_fit[at++] = pools[i].value;
	}
}

/* Projects one line, after its own former push is undone. */
static void project(struct ol_isotonic *grid, size_t first, size_t stride, double *own,
		    const double *other)
{
	for (uint32_t i = 0; i < grid->size; i++) {
		size_t cell = first + i * stride;
		double weight = grid->weight[cell] > 0.0 ? grid->weight[cell] : WEIGHT_TRACE;

		grid->line_weight[i] = weight;
		grid->line[i] = grid->mean[cell] - other[cell] / weight;
	}
	pava(grid);
	for (uint32_t i = 0; i < grid->size; i++) {
		size_t cell = first + i * stride;

		own[cell] = grid->line_weight[i] * (grid->line[i] - grid->line_fit[i]);
		grid->fit[cell] = grid->line_fit[i];
	}
}

void ol_isotonic_fit(struct ol_isotonic *grid, unsigned sweeps)
{
	uint32_t size = grid->size;

	if (!fill_unseen(grid))
		return;
	while (sweeps-- > 0) {
		for (uint32_t i = 0; i < size; i++)
			project(grid, (size_t)i * size, 1, grid->row_push, grid->column_push);
		for (uint32_t i = 0; i < size; i++)
			project(grid, i, size, grid->column_push, grid->row_push);
	}
	/* the middle of the smallest rising grid above the fit and the largest one below; this is
	 * the fit itself if that rises */
	bounds(grid, true);
	for (size_t i = 0; i < (size_t)size * size; i++)
		grid->fit[i] = grid->low[i] + (grid->high[i] - grid->low[i]) / 2.0;
}
