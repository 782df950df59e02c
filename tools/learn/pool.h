/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pool.h -- inside the room: bias, ReLU and 2x2 max pooling of one image, and their gradient
 *
 * An image is [2 * side][2 * side][channels], a pooled one [side][row / channels][channels], of
 * which the first `side` cells of a row are used: row is the number of floats from one row to the
 * next. Places are [side][side][channels]. channels is a multiple of LEARN_POOL_LANES.
 */
#ifndef LEARN_POOL_H
#define LEARN_POOL_H

#include <stddef.h>
#include <stdint.h>

enum {
	LEARN_POOL_LANES = 16,
	LEARN_POOL_DEAD = 4 /* place of a window whose maximum is not above 0: ReLU stops it */
};

/*
 * learn_pool -- the largest of each window, plus bias, or 0 if that is below; and its place
 *
 * A place is 0 1 / 2 3 in the window, the first of equals, or LEARN_POOL_DEAD. A NaN in place 0
 * passes.
 */
void learn_pool(const float *in, size_t side, size_t channels, const float *bias, float *out,
		size_t row, uint8_t *place);

/* learn_unpool -- each gradient to its place, 0 to the other three; adds their sum to dbias */
void learn_unpool(const float *grad, size_t row, const uint8_t *place, size_t side, size_t channels,
		  float *out, float *dbias);

#endif /* LEARN_POOL_H */
