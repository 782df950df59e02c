/* SPDX-License-Identifier: BSD-3-Clause */

/* cnn.h -- inside the room: the CNN's two convolutions, from an image to 1568 features */
#ifndef LEARN_CNN_H
#define LEARN_CNN_H

#include <stddef.h>
#include <stdint.h>

enum {
	LEARN_C1 = 16, /* channels after the first convolution */
	LEARN_C2 = 32, /* and after the second */
	LEARN_SIDE1 = 28, /* pixels a side: the image */
	LEARN_SIDE2 = 14, /* after the first pooling */
	LEARN_SIDE3 = 7, /* after the second */
	LEARN_CNN_PIXELS = LEARN_SIDE1 * LEARN_SIDE1,
	LEARN_CNN_CELLS = LEARN_SIDE3 * LEARN_SIDE3, /* of one channel, at the end */
	LEARN_CNN_FEATURES = LEARN_CNN_CELLS * LEARN_C2,
	LEARN_CNN_TAPS = 9,
	LEARN_CNN_W1 = LEARN_C1 * LEARN_CNN_TAPS,
	LEARN_CNN_W2 = LEARN_C2 * LEARN_C1 * LEARN_CNN_TAPS
};

struct learn_cnn;

/* learn_cnn_create -- room for count_max samples; -ENOMEM */
int learn_cnn_create(size_t count_max, struct learn_cnn **ret_cnn);

/* learn_cnn_destroy -- NULL is allowed */
void learn_cnn_destroy(struct learn_cnn *cnn);

/*
 * learn_cnn_forward -- x, count images of 28x28, through both convolutions; w starts at conv1's
 * weights
 *
 * Returns [count][1568], channel by channel; it belongs to cnn and lasts until the next forward.
 */
const float *learn_cnn_forward(struct learn_cnn *cnn, const float *w, const float *x, size_t count);

/*
 * learn_cnn_backward -- the gradient of both convolutions' parameters to grad
 *
 * dx is the gradient of the last forward's result, [count][1568]; x and count are those of that
 * call, which has kept the weights.
 */
void learn_cnn_backward(struct learn_cnn *cnn, const float *x, const float *dx, size_t count,
			float *grad);

/*
 * pool.c: bias, ReLU and 2x2 max pooling of one image, and their gradient
 *
 * An image is [2 * side][2 * side][channels], a pooled one [side][row / channels][channels], of
 * which the first `side` cells of a row are used: row is the number of floats from one row to the
 * next. Places are [side][side][channels]. channels is a multiple of LEARN_POOL_LANES.
 */
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

#endif /* LEARN_CNN_H */
