/* SPDX-License-Identifier: BSD-3-Clause */

/* isotonic_test.c -- the fit rises along rows and down columns exactly, equals an input that rises,
 * is the least-squares fit of one that does not, and places unseen cells in between */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/isotonic.h"

enum {
	SIZE = 8,
	CELLS = SIZE * SIZE,
	MANY_SWEEPS = 2000
};

#define assert_near(a, b, margin) assert_true(fabs((a) - (b)) <= (margin))

/* Uniform in [0, 1), the same in every run */
static double draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 11) / 9007199254740992.0;
}

static void assert_rises(const struct ol_isotonic *grid)
{
	for (uint32_t i = 0; i < grid->size * grid->size; i++) {
		assert_true(isfinite(grid->fit[i]) != 0);
		if (i % grid->size > 0)
			assert_true(grid->fit[i] >= grid->fit[i - 1]);
		if (i >= grid->size)
			assert_true(grid->fit[i] >= grid->fit[i - grid->size]);
	}
}

static void set(struct ol_isotonic *grid, uint32_t row, uint32_t column, double mean, double weight)
{
	grid->mean[row * grid->size + column] = mean;
	grid->weight[row * grid->size + column] = weight;
}

static double fit_at(const struct ol_isotonic *grid, uint32_t row, uint32_t column)
{
	return grid->fit[row * grid->size + column];
}

static double distance(const struct ol_isotonic *grid, const double *values)
{
	double sum = 0.0;

	for (uint32_t i = 0; i < grid->size * grid->size; i++)
		sum += grid->weight[i] * (values[i] - grid->mean[i]) * (values[i] - grid->mean[i]);
	return sum;
}

static void what_rises_is_left_as_it_is(void **unused)
{
	struct ol_isotonic grid;

	(void)unused;
	assert_int_equal(ol_isotonic_init(&grid, SIZE), 0);
	for (uint32_t row = 0; row < SIZE; row++) {
		for (uint32_t column = 0; column < SIZE; column++)
			set(&grid, row, column, 0.1 * row + sqrt(column), 1.0 + row * column);
	}
	ol_isotonic_fit(&grid, 3);
	for (uint32_t i = 0; i < CELLS; i++)
		assert_true(grid.fit[i] == grid.mean[i]);
	ol_isotonic_fini(&grid);
}

static void orderings_hold_exactly_after_any_number_of_sweeps(void **unused)
{
	uint64_t seed = 1;

	(void)unused;
	for (unsigned run = 0; run < 200; run++) {
		struct ol_isotonic grid;

		assert_int_equal(ol_isotonic_init(&grid, SIZE), 0);
		for (uint32_t i = 0; i < CELLS; i++) {
			bool seen = draw(&seed) < 0.6;

			grid.mean[i] = seen ? draw(&seed) : 0.0;
			grid.weight[i] = seen ? 10.0 * draw(&seed) + 1e-3 : 0.0;
		}
		ol_isotonic_fit(&grid, 1 + run % 4);
		assert_rises(&grid);
		ol_isotonic_fini(&grid);
	}
}

/* Hand-made: 3 and 1 side by side meet at their weighted mean, as do those above each other. */
static void neighbours_that_violate_meet_at_their_weighted_mean(void **unused)
{
	struct ol_isotonic grid;

	(void)unused;
	assert_int_equal(ol_isotonic_init(&grid, 2), 0);
	set(&grid, 0, 0, 3.0, 1.0);
	set(&grid, 0, 1, 1.0, 3.0);
	set(&grid, 1, 0, 5.0, 1.0);
	set(&grid, 1, 1, 6.0, 1.0);
	ol_isotonic_fit(&grid, MANY_SWEEPS);
	assert_near(fit_at(&grid, 0, 0), 1.5, 1e-9);
	assert_near(fit_at(&grid, 0, 1), 1.5, 1e-9);
	assert_near(fit_at(&grid, 1, 0), 5.0, 1e-9);
	assert_near(fit_at(&grid, 1, 1), 6.0, 1e-9);
	/* the third violates with both others: (3 + 3 * 1 + 0.5) / 5 */
	set(&grid, 1, 0, 0.5, 1.0);
	ol_isotonic_fit(&grid, MANY_SWEEPS);
	assert_near(fit_at(&grid, 0, 0), 1.3, 1e-9);
	ol_isotonic_fini(&grid);
}

/* A least-squares fit onto a convex set is beaten by no other member of the set. */
static void no_rising_grid_is_nearer(void **unused)
{
	uint64_t seed = 7;
	struct ol_isotonic grid;
	double best;

	(void)unused;
	assert_int_equal(ol_isotonic_init(&grid, SIZE), 0);
	for (uint32_t i = 0; i < CELLS; i++) {
		grid.mean[i] = draw(&seed);
		grid.weight[i] = 0.5 + draw(&seed);
	}
	ol_isotonic_fit(&grid, MANY_SWEEPS);
	best = distance(&grid, grid.fit);
	for (unsigned run = 0; run < 1000; run++) {
		double other[CELLS], step = pow(10.0, -1.0 - 4.0 * draw(&seed));

		/* towards some rising grid: stays in the set, as that is convex */
		for (uint32_t i = 0; i < CELLS; i++) {
			double low = 0.0;

			if (i % SIZE > 0)
				low = other[i - 1];
			if (i >= SIZE && other[i - SIZE] > low)
				low = other[i - SIZE];
			other[i] = low + 0.2 * draw(&seed);
		}
		for (uint32_t i = 0; i < CELLS; i++)
			other[i] = grid.fit[i] + step * (other[i] - grid.fit[i]);
		assert_true(distance(&grid, other) > best - 1e-9);
	}
	ol_isotonic_fini(&grid);
}

static void one_sweep_for_every_little_change_is_enough(void **unused)
{
	uint64_t seed = 11;
	struct ol_isotonic warm, cold;

	(void)unused;
	assert_int_equal(ol_isotonic_init(&warm, SIZE), 0);
	assert_int_equal(ol_isotonic_init(&cold, SIZE), 0);
	for (uint32_t i = 0; i < CELLS; i++)
		set(&warm, i / SIZE, i % SIZE, 0.1 * (i % SIZE) + draw(&seed), 5.0);
	for (unsigned run = 0; run < 300; run++) {
		uint32_t at = (uint32_t)(draw(&seed) * CELLS);

		ol_isotonic_fade(&warm, 0.99);
		warm.weight[at] += 1.0;
		warm.mean[at] +=
			(0.1 * (at % SIZE) + draw(&seed) - warm.mean[at]) / warm.weight[at];
		ol_isotonic_fit(&warm, 1);
	}
	memcpy(cold.mean, warm.mean, CELLS * sizeof(*cold.mean));
	memcpy(cold.weight, warm.weight, CELLS * sizeof(*cold.weight));
	ol_isotonic_fit(&cold, MANY_SWEEPS);
	for (uint32_t i = 0; i < CELLS; i++)
		assert_near(warm.fit[i], cold.fit[i], 0.01);
	ol_isotonic_fini(&warm);
	ol_isotonic_fini(&cold);
}

static void what_was_never_seen_comes_between_its_neighbours(void **unused)
{
	struct ol_isotonic grid;

	(void)unused;
	assert_int_equal(ol_isotonic_init(&grid, 3), 0);
	ol_isotonic_fit(&grid, 3);
	assert_true(isnan(fit_at(&grid, 1, 1)) != 0); /* nothing is known of anything */
	set(&grid, 0, 0, 1.0, 1.0);
	set(&grid, 2, 1, 3.0, 1.0);
	ol_isotonic_fit(&grid, 3);
	assert_true(fit_at(&grid, 0, 0) == 1.0);
	assert_true(fit_at(&grid, 2, 1) == 3.0);
	assert_true(fit_at(&grid, 1, 0) == 2.0);
	assert_true(fit_at(&grid, 1, 1) == 2.0);
	assert_true(fit_at(&grid, 2, 2) == 3.0); /* none above: it is the largest seen */
	assert_rises(&grid);
	ol_isotonic_fini(&grid);
}

static void one_cell_says_something_of_those_it_is_not_ordered_with(void **unused)
{
	struct ol_isotonic grid;

	(void)unused;
	assert_int_equal(ol_isotonic_init(&grid, 2), 0);
	set(&grid, 0, 1, 4.0, 1.0);
	ol_isotonic_fit(&grid, 3);
	assert_rises(&grid);
	assert_true(fit_at(&grid, 0, 1) == 4.0);
	assert_true(fit_at(&grid, 1, 0) == 4.0);
	ol_isotonic_fini(&grid);
}

static void what_was_seen_long_ago_still_counts_for_something(void **unused)
{
	struct ol_isotonic grid;

	(void)unused;
	assert_int_equal(ol_isotonic_init(&grid, 1), 0);
	ol_isotonic_fade(&grid, 0.5);
	assert_true(grid.weight[0] == 0.0); /* not seen is not a trace of it */
	set(&grid, 0, 0, 2.0, 1.0);
	for (int i = 0; i < 2000; i++)
		ol_isotonic_fade(&grid, 0.5);
	assert_true(grid.weight[0] > 0.0 && grid.weight[0] < 0.01);
	ol_isotonic_fit(&grid, 1);
	assert_true(grid.fit[0] == 2.0);
	ol_isotonic_fini(&grid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_rises_is_left_as_it_is),
		cmocka_unit_test(orderings_hold_exactly_after_any_number_of_sweeps),
		cmocka_unit_test(neighbours_that_violate_meet_at_their_weighted_mean),
		cmocka_unit_test(no_rising_grid_is_nearer),
		cmocka_unit_test(one_sweep_for_every_little_change_is_enough),
		cmocka_unit_test(what_was_never_seen_comes_between_its_neighbours),
		cmocka_unit_test(one_cell_says_something_of_those_it_is_not_ordered_with),
		cmocka_unit_test(what_was_seen_long_ago_still_counts_for_something),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
