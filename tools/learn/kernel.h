/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kernel.h -- the arithmetic of the models, for one instruction set each
 *
 * Convolutions work on one sample, dense layers on a batch. Written here and not taken from a BLAS,
 * because a BLAS that does not know the CPU falls back to its oldest kernels, and because sums then
 * run in one order that no library version changes.
 *
 * Images are height x width x channel with a border of one zero pixel where "padded" is said.
 * Convolution weights are [ky][kx][input channel][output channel]. All memory is the caller's,
 * aligned to LEARN_ALIGN bytes (weights and gradients: to float); nothing is allocated. Every
 * function is pure in its arguments: the same bits in give the same bits out for one table; tables
 * differ from each other in rounding.
 *
 * Threading: any; no shared state.
 */
#ifndef LEARN_KERNEL_H
#define LEARN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

enum {
	LEARN_ALIGN = 64, /* bytes: a cache line, and the widest vector */
	LEARN_LANES = 16, /* batches are padded to a multiple of this */

	LEARN_C1 = 16, /* channels after the first convolution */
	LEARN_C2 = 32, /* and after the second */
	LEARN_SIDE1 = 28, /* pixels a side: the image */
	LEARN_SIDE2 = 14, /* after the first pooling */
	LEARN_SIDE3 = 7, /* after the second */
	LEARN_PAD1 = LEARN_SIDE1 + 2,
	LEARN_PAD2 = LEARN_SIDE2 + 2,

	LEARN_POOL_DEAD =
		4 /* pooled argument: the window's maximum is not above 0, ReLU stops it */
};

struct learn_dense {
	size_t in;
	size_t out;
};

struct learn_kernels {
	const char *name;

	/*
	 * Convolution, bias, ReLU and 2x2 max pooling in one. arg gets, for each pooled value, the
	 * place of the maximum in its window (0 1 / 2 3), or LEARN_POOL_DEAD.
	 *
	 * conv1: in 30x30 padded, out 16x16x16 padded (the border is not written), arg 14x14x16.
	 * conv2: in 16x16x16 padded, out 7x7x32, arg 7x7x32.
	 */
	void (*conv1_pool)(const float *in, const float *w, const float *bias, float *out,
			   uint8_t *arg);
	void (*conv2_pool)(const float *in, const float *w, const float *bias, float *out,
			   uint8_t *arg);

	/*
	 * Backwards through pooling and ReLU: grad at the pooled size, out at the size before it.
	 * Adds the sum over the pixels to dbias.
	 *
	 * unpool1: grad 14x14x16, out 28x28x16. unpool2: grad 7x7x32, out 16x16x32 padded (border
	 * not written).
	 */
	void (*unpool1)(const float *grad, const uint8_t *arg, float *out, float *dbias);
	void (*unpool2)(const float *grad, const uint8_t *arg, float *out, float *dbias);

	/* conv2_data: grad 16x16x32 padded, w turned by 180 degrees as [ky][kx][32][16]; out
	 * 14x14x16 */
	void (*conv2_data)(const float *grad, const float *w_turned, float *out);

	/* Adds one sample's part to dw. conv1: in 30x30 padded, grad 28x28x16. conv2: both padded.
	 */
	void (*conv1_weight)(const float *in, const float *grad, float *dw);
	void (*conv2_weight)(const float *in, const float *grad, float *dw);

	/*
	 * Dense layers. w is [out][in]; a name ending in t is feature by feature, a row of `lanes`
	 * samples each (a multiple of LEARN_LANES); x is sample by sample. Samples beyond the batch
	 * are computed and never looked at.
	 *
	 * forward: yt[o] = bias[o] + sum over i of w[o][i] * xt[i]
	 * data:    dxt[i] = sum over o of w[o][i] * dyt[o]
	 * weight:  dw[o][i] = sum over the first `count` samples of dyt[o] * x[i]; each written
	 * once
	 */
	void (*dense_forward)(const struct learn_dense *layer, const float *w, const float *bias,
			      const float *xt, size_t lanes, float *yt);
	void (*dense_data)(const struct learn_dense *layer, const float *w, const float *dyt,
			   size_t lanes, float *dxt);
	void (*dense_weight)(const struct learn_dense *layer, const float *x, const float *dyt,
			     size_t lanes, size_t count, float *dw);
};

extern const struct learn_kernels learn_kernels_plain;
#if defined(__x86_64__)
extern const struct learn_kernels learn_kernels_avx2;
extern const struct learn_kernels learn_kernels_avx512;
#endif

/* learn_kernels_best -- the fastest table that this CPU can run; never NULL */
const struct learn_kernels *learn_kernels_best(void);

#endif /* LEARN_KERNEL_H */
