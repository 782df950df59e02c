/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pool_test.c -- pooling finds each window's maximum and its place, and sends gradients back there
 *
 * gradient_test.c checks the whole model; here are the rules that it cannot see: equal values,
 * windows that ReLU stops, NaNs, and memory that must not be written.
 */

#include "learn/cnn.h"
#include "unit/learn/learn_util.h"

enum {
	SIDE = 3,
	PIXELS = 4 * SIDE * SIDE,
	CELLS = SIDE * SIDE,
	CHANNELS_MAX = 2 * LEARN_POOL_LANES,
	WIDE = SIDE + 2 /* cells from row to row where a border is left */
};

/* A window's first maximum wins, a window without a positive one is dead, a NaN is not
 * swallowed. */
static void windows_obey_the_rules(void **state)
{
	static const struct {
		float window[4];
		float bias;
		float want;
		uint8_t place;
	} cases[] = {
		{ { -1, 0, 0, 0 }, 0, 0, LEARN_POOL_DEAD },
		{ { -1, -2, -3, -4 }, 2, 1, 0 },
		{ { 0, 2, 0, 2 }, 0, 2, 1 },
		{ { 0, 0, 3, 0 }, -1, 2, 2 },
		{ { 1, 2, 3, 4 }, 0, 4, 3 },
		{ { 5, 5, 5, 5 }, -5, 0, LEARN_POOL_DEAD },
		{ { NAN, 1, 0, 0 }, 0, NAN, LEARN_POOL_DEAD },
		{ { 1, 1, 1, 1 }, NAN, NAN, LEARN_POOL_DEAD },
	};
	float in[4 * LEARN_POOL_LANES];
	float bias[LEARN_POOL_LANES];
	float out[LEARN_POOL_LANES];
	uint8_t place[LEARN_POOL_LANES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t c = 0; c < LEARN_POOL_LANES; c++) {
			bias[c] = cases[i].bias;
			for (size_t q = 0; q < 4; q++)
				in[q * LEARN_POOL_LANES + c] = cases[i].window[q];
		}
		learn_pool(in, 1, LEARN_POOL_LANES, bias, out, LEARN_POOL_LANES, place);
		for (size_t c = 0; c < LEARN_POOL_LANES; c++) {
			assert_int_equal(place[c], cases[i].place);
			assert_true(out[c] == cases[i].want ||
				    (isnan(out[c]) && isnan(cases[i].want)));
		}
	}
}

/* value -- of pixel or cell p, channel c: no two alike, a third of them negative */
static float value(size_t p, size_t c)
{
	return (float)((p * 37 + c * 11) % 1009) - 336;
}

static void there_and_back(size_t channels)
{
	float in[PIXELS * CHANNELS_MAX], back[PIXELS * CHANNELS_MAX];
	float out[SIDE * WIDE * CHANNELS_MAX], grad[SIDE * WIDE * CHANNELS_MAX];
	float bias[CHANNELS_MAX], dbias[CHANNELS_MAX];
	uint8_t place[CELLS * CHANNELS_MAX];
	size_t row = WIDE * channels;

	for (size_t i = 0; i < PIXELS * channels; i++)
		in[i] = value(i / channels, i % channels);
	for (size_t i = 0; i < SIDE * row; i++) {
		out[i] = 77;
		grad[i] = (float)(i + 1);
	}
	for (size_t c = 0; c < channels; c++) {
		bias[c] = (float)c / 4;
		dbias[c] = 1000;
	}
	learn_pool(in, SIDE, channels, bias, out, row, place);
	learn_unpool(grad, row, place, SIDE, channels, back, dbias);
	for (size_t y = 0; y < SIDE; y++) {
		for (size_t c = SIDE * channels; c < row; c++)
			assert_true(out[y * row + c] == 77.0f);
	}
	for (size_t c = 0; c < channels; c++) {
		float sum = 1000;

		for (size_t cell = 0; cell < CELLS; cell++) {
			size_t at = cell / SIDE * row + cell % SIDE * channels + c;
			float best = 0;
			size_t from = PIXELS;

			for (size_t q = 0; q < 4; q++) {
				size_t p = (cell / SIDE * 2 + q / 2) * 2 * SIDE + cell % SIDE * 2 +
					   q % 2;

				if (in[p * channels + c] + bias[c] > best) {
					best = in[p * channels + c] + bias[c];
					from = p;
				}
			}
			assert_true(out[at] == best);
			for (size_t q = 0; q < 4; q++) {
				size_t p = (cell / SIDE * 2 + q / 2) * 2 * SIDE + cell % SIDE * 2 +
					   q % 2;

				assert_true(back[p * channels + c] == (p == from ? grad[at] : 0));
			}
			sum += from < PIXELS ? grad[at] : 0;
		}
		assert_true(dbias[c] == sum);
	}
}

static void gradients_return_to_where_the_maximum_was(void **state)
{
	(void)state;
	there_and_back(LEARN_POOL_LANES);
	there_and_back(CHANNELS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_obey_the_rules),
		cmocka_unit_test(gradients_return_to_where_the_maximum_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
