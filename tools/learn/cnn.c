/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * cnn.c -- two convolutions, sample by sample, so that a sample's images stay in the cache
 *
 * Weights come in PyTorch's order [out][in][tap]; the kernels want [tap][in][out]. Turning 4,752
 * numbers there and back costs little beside 32 samples.
 */

#include "learn/cnn.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "learn/source.h"
#include "learn/stack.h"

/* What backward needs of each sample. Borders of padded images are zero from create on. */
struct sample {
	float in[LEARN_PAD1 * LEARN_PAD1 +
		 12]; /* padded image; 12: to a multiple of a cache line */
	float mid[LEARN_PAD2 * LEARN_PAD2 * LEARN_C1]; /* padded, after the first pooling */
	uint8_t arg1[LEARN_SIDE2 * LEARN_SIDE2 * LEARN_C1];
	uint8_t arg2[LEARN_CNN_FEATURES + 32];
};

static_assert(sizeof(struct sample) % LEARN_ALIGN == 0, "every sample starts on a cache line");

/* Backward's scratch memory, for one sample at a time, and the sums over all. */
struct scratch {
	float out[LEARN_CNN_FEATURES]; /* 7x7x32 */
	float grad2[LEARN_PAD2 * LEARN_PAD2 * LEARN_C2]; /* padded */
	float grad_mid[LEARN_SIDE2 * LEARN_SIDE2 * LEARN_C1];
	float grad1[LEARN_SIDE1 * LEARN_SIDE1 * LEARN_C1];
	float w1[LEARN_CNN_W1];
	float w2[LEARN_CNN_W2];
	float w2_turned[LEARN_CNN_W2];
	float dw1[LEARN_CNN_W1];
	float dw2[LEARN_CNN_W2];
	float b1[LEARN_C1]; /* biases; a copy because the caller's need not be aligned */
	float b2[LEARN_C2];
	float db1[LEARN_C1];
	float db2[LEARN_C2];
};

struct learn_cnn {
	const struct learn_kernels *kernels;
	struct sample *samples;
	struct scratch *scratch;
	float *features; /* [count][1568] */
};

int learn_cnn_create(size_t count_max, struct learn_cnn **ret_cnn)
{
	struct learn_cnn *cnn;

	cnn = calloc(1, sizeof(*cnn));
	if (cnn == NULL)
		return -ENOMEM;
	cnn->kernels = learn_kernels_best();
	cnn->samples = learn_alloc(count_max, sizeof(*cnn->samples));
	cnn->scratch = learn_alloc(1, sizeof(*cnn->scratch));
	cnn->features = learn_alloc(count_max * LEARN_CNN_FEATURES, sizeof(*cnn->features));
	if (cnn->samples == NULL || cnn->scratch == NULL || cnn->features == NULL) {
		learn_cnn_destroy(cnn);
		return -ENOMEM;
	}
	*ret_cnn = cnn;
	return 0;
}

void learn_cnn_destroy(struct learn_cnn *cnn)
{
	if (cnn == NULL)
		return;
	free(cnn->samples);
	free(cnn->scratch);
	free(cnn->features);
	free(cnn);
}

/* to_taps -- [out][in][tap] to [tap][in][out] */
static void to_taps(const float *from, size_t out, size_t in, float *to)
{
	for (size_t o = 0; o < out; o++) {
		for (size_t i = 0; i < in; i++) {
			for (size_t t = 0; t < LEARN_CNN_TAPS; t++)
				to[(t * in + i) * out + o] = *from++;
		}
	}
}

/* from_taps -- [tap][in][out] to [out][in][tap] */
static void from_taps(const float *from, size_t out, size_t in, float *to)
{
	for (size_t o = 0; o < out; o++) {
		for (size_t i = 0; i < in; i++) {
			for (size_t t = 0; t < LEARN_CNN_TAPS; t++)
				*to++ = from[(t * in + i) * out + o];
		}
	}
}

/* to_turned -- [out][in][tap] to [last tap first][out][in] */
static void to_turned(const float *from, size_t out, size_t in, float *to)
{
	for (size_t o = 0; o < out; o++) {
		for (size_t i = 0; i < in; i++) {
			for (size_t t = 0; t < LEARN_CNN_TAPS; t++)
				to[((LEARN_CNN_TAPS - 1 - t) * out + o) * in + i] = *from++;
		}
	}
}

const float *learn_cnn_forward(struct learn_cnn *cnn, const float *w, const float *x, size_t count)
{
	struct scratch *scratch = cnn->scratch;
	const float *w2 = w + LEARN_CNN_W1 + LEARN_C1;

	to_taps(w, LEARN_C1, 1, scratch->w1);
	to_taps(w2, LEARN_C2, LEARN_C1, scratch->w2);
	memcpy(scratch->b1, w + LEARN_CNN_W1, sizeof(scratch->b1));
	memcpy(scratch->b2, w2 + LEARN_CNN_W2, sizeof(scratch->b2));
	for (size_t s = 0; s < count; s++) {
		struct sample *sample = &cnn->samples[s];

		for (size_t y = 0; y < LEARN_SIDE1; y++)
			memcpy(sample->in + (y + 1) * LEARN_PAD1 + 1,
			       x + s * LEARN_CNN_PIXELS + y * LEARN_SIDE1,
			       LEARN_SIDE1 * sizeof(*x));
		cnn->kernels->conv1_pool(sample->in, scratch->w1, scratch->b1, sample->mid,
					 sample->arg1);
		cnn->kernels->conv2_pool(sample->mid, scratch->w2, scratch->b2, scratch->out,
					 sample->arg2);
		learn_transpose(scratch->out, LEARN_CNN_CELLS, LEARN_C2, LEARN_C2,
				cnn->features + s * LEARN_CNN_FEATURES, LEARN_CNN_CELLS);
	}
	return cnn->features;
}

void learn_cnn_backward(struct learn_cnn *cnn, const float *w, const float *dxt, size_t lanes,
			size_t count, float *grad)
{
	const struct learn_kernels *kernels = cnn->kernels;
	struct scratch *scratch = cnn->scratch;
	float *grad_w2 = grad + LEARN_CNN_W1 + LEARN_C1;

	memset(scratch->dw1, 0, sizeof(scratch->dw1));
	memset(scratch->dw2, 0, sizeof(scratch->dw2));
	memset(scratch->db1, 0, sizeof(scratch->db1));
	memset(scratch->db2, 0, sizeof(scratch->db2));
	to_turned(w + LEARN_CNN_W1 + LEARN_C1, LEARN_C2, LEARN_C1, scratch->w2_turned);
	/* The features have served: the stack has copied them into its own order or is done with
	 * them. */
	learn_transpose(dxt, LEARN_CNN_FEATURES, count, lanes, cnn->features, LEARN_CNN_FEATURES);
	for (size_t s = 0; s < count; s++) {
		const struct sample *sample = &cnn->samples[s];

		learn_transpose(cnn->features + s * LEARN_CNN_FEATURES, LEARN_C2, LEARN_CNN_CELLS,
				LEARN_CNN_CELLS, scratch->out, LEARN_C2);
		kernels->unpool2(scratch->out, sample->arg2, scratch->grad2, scratch->db2);
		kernels->conv2_weight(sample->mid, scratch->grad2, scratch->dw2);
		kernels->conv2_data(scratch->grad2, scratch->w2_turned, scratch->grad_mid);
		kernels->unpool1(scratch->grad_mid, sample->arg1, scratch->grad1, scratch->db1);
		kernels->conv1_weight(sample->in, scratch->grad1, scratch->dw1);
	}
	from_taps(scratch->dw1, LEARN_C1, 1, grad);
	memcpy(grad + LEARN_CNN_W1, scratch->db1, sizeof(scratch->db1));
	from_taps(scratch->dw2, LEARN_C2, LEARN_C1, grad_w2);
	memcpy(grad_w2 + LEARN_CNN_W2, scratch->db2, sizeof(scratch->db2));
}
