/* SPDX-License-Identifier: BSD-3-Clause */

/* pool.c -- pooling in runs of LEARN_POOL_LANES channels, which compilers turn into vectors */

#include "learn/cnn.h"

enum {
	LANES = LEARN_POOL_LANES
};

/* pool_cell -- one window: its upper and its lower pixels, `channels` floats apart */
static inline void pool_cell(const float *restrict upper, const float *restrict lower,
			     size_t channels, const float *restrict bias, float *restrict out,
			     uint8_t *restrict place)
{
	const float *restrict upper_right = upper + channels;
	const float *restrict lower_right = lower + channels;

	for (size_t c = 0; c < LANES; c++) {
		float best = upper[c];
		int32_t at = 0;

		at = upper_right[c] > best ? 1 : at;
		best = upper_right[c] > best ? upper_right[c] : best;
		at = lower[c] > best ? 2 : at;
		best = lower[c] > best ? lower[c] : best;
		at = lower_right[c] > best ? 3 : at;
		best = lower_right[c] > best ? lower_right[c] : best;
		best += bias[c];
		place[c] = (uint8_t)(best > 0 ? at : LEARN_POOL_DEAD);
		out[c] = best < 0 ? 0 : best;
	}
}

void learn_pool(const float *in, size_t side, size_t channels, const float *bias, float *out,
		size_t row, uint8_t *place)
{
	for (size_t y = 0; y < side; y++) {
		for (size_t x = 0; x < side; x++) {
			const float *upper = in + (4 * y * side + 2 * x) * channels;
			const float *lower = upper + 2 * side * channels;

			for (size_t c = 0; c < channels; c += LANES)
				pool_cell(upper + c, lower + c, channels, bias + c,
					  out + y * row + x * channels + c,
					  place + (y * side + x) * channels + c);
		}
	}
}

/* pick -- to is grad where the place is `at`, 0 elsewhere */
static inline void pick(const float *restrict grad, const uint8_t *restrict place, int32_t at,
			float *restrict to)
{
	for (size_t c = 0; c < LANES; c++) {
		float g = grad[c];

		to[c] = place[c] == at ? g : 0;
	}
}

/* live_add -- adds to sum the gradients that have a place */
static inline void live_add(const float *restrict grad, const uint8_t *restrict place,
			    float *restrict sum)
{
	for (size_t c = 0; c < LANES; c++) {
		float g = grad[c];

		sum[c] += place[c] == LEARN_POOL_DEAD ? 0 : g;
	}
}

void learn_unpool(const float *grad, size_t row, const uint8_t *place, size_t side, size_t channels,
		  float *out, float *dbias)
{
	for (size_t y = 0; y < side; y++) {
		for (size_t x = 0; x < side; x++) {
			float *upper = out + (4 * y * side + 2 * x) * channels;
			float *lower = upper + 2 * side * channels;
			const float *g = grad + y * row + x * channels;
			const uint8_t *at = place + (y * side + x) * channels;

			for (size_t c = 0; c < channels; c += LANES) {
				pick(g + c, at + c, 0, upper + c);
				pick(g + c, at + c, 1, upper + channels + c);
				pick(g + c, at + c, 2, lower + c);
				pick(g + c, at + c, 3, lower + channels + c);
				live_add(g + c, at + c, dbias + c);
			}
		}
	}
}
