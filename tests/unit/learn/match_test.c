/* SPDX-License-Identifier: BSD-3-Clause */

/* match_test.c -- the matching found has the least cost of all, by a trial of every one */

#include "learn/rng.h"
#include "learn/source.h"
#include "unit/learn/learn_util.h"

enum {
	ROWS_MAX = 6,
	COLS_MAX = 7
};

/* cheapest -- rows from `row` on, to columns that `taken` leaves */
static double cheapest(const double *cost, size_t rows, size_t cols, size_t row, unsigned taken)
{
	double least = INFINITY;

	if (row == rows)
		return 0;
	for (size_t k = 0; k < cols; k++) {
		if ((taken >> k & 1) == 0)
			least = fmin(least,
				     cost[row * cols + k] +
					     cheapest(cost, rows, cols, row + 1, taken | 1u << k));
	}
	return least;
}

static void no_matching_is_cheaper(void **state)
{
	(void)state;
	for (uint64_t round = 0; round < 200; round++) {
		struct learn_key key = { .seed = 1, .step = round };
		size_t rows = 1 + round % ROWS_MAX, cols = rows + round % (COLS_MAX - rows + 1);
		double cost[ROWS_MAX * COLS_MAX], sum = 0;
		size_t match[ROWS_MAX];
		unsigned taken = 0;

		for (uint32_t i = 0; i < rows * cols; i++) /* few values: ties are common */
			cost[i] = learn_rng_draw(&key, LEARN_RNG_INIT, i).word[0] % 10;
		assert_int_equal(learn_match(cost, rows, cols, match), 0);
		for (size_t i = 0; i < rows; i++) {
			assert_true(match[i] < cols);
			assert_true((taken >> match[i] & 1) == 0);
			taken |= 1u << match[i];
			sum += cost[i * cols + match[i]];
		}
		assert_true(sum == cheapest(cost, rows, cols, 0, 0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_matching_is_cheaper),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
