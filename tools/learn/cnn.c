/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * cnn.c -- two convolutions as matrix products
 *
 * Images are [row][column][channel]; inputs of a convolution have a border of one zero pixel
 * ("padded"). A convolution is the product of its image's patches, one a pixel, and its weights
 * [tap][in][out]. PyTorch's order [out][in][tap] is converted to that and back once a batch.
 *
 * Samples are computed one by one. So the data of one sample stay in the L2 cache, and OpenBLAS has
 * kernels for products of this size that do not copy their factors first.
 */

#include "learn/cnn.h"

#include <errno.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "learn/blas.h"
#include "learn/source.h"

enum {
	ALIGN = 64,
	PAD1 = LEARN_SIDE1 + 2,
	PAD2 = LEARN_SIDE2 + 2,
	PIXELS1 = LEARN_CNN_PIXELS,
	PIXELS2 = LEARN_SIDE2 * LEARN_SIDE2,
	ROW2 = PAD2 * LEARN_C1, /* floats in a row of mid */
	FIRST2 = ROW2 + LEARN_C1, /* of mid: its first pixel inside the border */
	RUN2 = 3 * LEARN_C1, /* floats of three neighbouring pixels of mid */
	PATCH2 = 3 * RUN2 /* and of a patch */
};

/* The data of each sample that backward needs. The border of mid is zero from create on. */
struct sample {
	alignas(ALIGN) float mid[PAD2 * ROW2]; /* padded, after the first pooling */
	uint8_t place1[PIXELS2 * LEARN_C1];
	uint8_t place2[LEARN_CNN_FEATURES];
};

/* Memory for one sample at a time, and for weights and sums. The border of in is zero. */
struct scratch {
	alignas(ALIGN) float in[PAD1 * PAD1]; /* padded */
	alignas(ALIGN) float patches1[LEARN_CNN_TAPS * PIXELS1]; /* [tap][pixel] */
	alignas(ALIGN) float out1[PIXELS1 *
				  LEARN_C1]; /* of conv1 before pooling, or its gradient */
	alignas(ALIGN) float patches2[PIXELS2 * PATCH2]; /* [pixel][tap][channel], or gradient */
	alignas(ALIGN) float out2[PIXELS2 * LEARN_C2]; /* as out1 */
	alignas(ALIGN) float grad_mid[PAD2 * ROW2];
	alignas(ALIGN) float out3[LEARN_CNN_FEATURES]; /* [cell][channel], or gradient */
	alignas(ALIGN) float w1[LEARN_CNN_W1];
	alignas(ALIGN) float w2[LEARN_CNN_W2];
	alignas(ALIGN) float w2_turned[LEARN_CNN_W2]; /* [out][tap][in] */
	alignas(ALIGN) float dw1[LEARN_CNN_W1];
	alignas(ALIGN) float dw2[LEARN_CNN_W2];
};

struct learn_cnn {
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

/* transpose -- from [rows][cols] to [cols][rows] */
static void transpose(const float *restrict from, size_t rows, size_t cols, float *restrict to)
{
	for (size_t c = 0; c < cols; c++) {
		for (size_t r = 0; r < rows; r++)
			*to++ = from[r * cols + c];
	}
}

/* patches1_make -- a 28x28 image to [tap][pixel]: nine times itself, shifted */
static void patches1_make(struct scratch *scratch, const float *x)
{
	float *to = scratch->patches1;

	for (size_t y = 0; y < LEARN_SIDE1; y++)
		memcpy(scratch->in + (y + 1) * PAD1 + 1, x + y * LEARN_SIDE1,
		       LEARN_SIDE1 * sizeof(*x));
	for (size_t t = 0; t < LEARN_CNN_TAPS; t++) {
		const float *from = scratch->in + t / 3 * PAD1 + t % 3;

		for (size_t y = 0; y < LEARN_SIDE1; y++, to += LEARN_SIDE1, from += PAD1)
			memcpy(to, from, LEARN_SIDE1 * sizeof(*to));
	}
}

/* patches2_make -- mid to [pixel][tap][channel]: three runs a pixel */
static void patches2_make(const float *mid, float *to)
{
	for (size_t y = 0; y < LEARN_SIDE2; y++) {
		for (size_t x = 0; x < LEARN_SIDE2; x++) {
			for (size_t ky = 0; ky < 3; ky++, to += RUN2)
				memcpy(to, mid + (y + ky) * ROW2 + x * LEARN_C1,
				       RUN2 * sizeof(*to));
		}
	}
}

/* run_add -- RUN2 floats */
static inline void run_add(float *restrict to, const float *restrict from)
{
	for (size_t i = 0; i < RUN2; i++)
		to[i] += from[i];
}

/* patches2_add -- the gradient of mid from that of its patches: the reverse of patches2_make() */
static void patches2_add(const float *from, float *grad_mid)
{
	memset(grad_mid, 0, PAD2 * ROW2 * sizeof(*grad_mid));
	for (size_t y = 0; y < LEARN_SIDE2; y++) {
		for (size_t x = 0; x < LEARN_SIDE2; x++) {
			for (size_t ky = 0; ky < 3; ky++, from += RUN2)
				run_add(grad_mid + (y + ky) * ROW2 + x * LEARN_C1, from);
		}
	}
}

const float *learn_cnn_forward(struct learn_cnn *cnn, const float *w, const float *x, size_t count)
{
	struct scratch *scratch = cnn->scratch;
	const float *b1 = w + LEARN_CNN_W1;
	const float *w2 = b1 + LEARN_C1;
	const float *b2 = w2 + LEARN_CNN_W2;

	transpose(w, LEARN_C1, LEARN_CNN_TAPS, scratch->w1);
	for (size_t o = 0; o < LEARN_C2; o++)
		transpose(w2 + o * PATCH2, LEARN_C1, LEARN_CNN_TAPS,
			  scratch->w2_turned + o * PATCH2);
	transpose(scratch->w2_turned, LEARN_C2, PATCH2, scratch->w2);
	for (size_t s = 0; s < count; s++) {
		struct sample *sample = &cnn->samples[s];

		patches1_make(scratch, x + s * PIXELS1);
		learn_blas_product(LEARN_TURNED_A, PIXELS1, LEARN_C1, LEARN_CNN_TAPS,
				   scratch->patches1, scratch->w1, 0, scratch->out1);
		learn_pool(scratch->out1, LEARN_SIDE2, LEARN_C1, b1, sample->mid + FIRST2, ROW2,
			   sample->place1);
		patches2_make(sample->mid, scratch->patches2);
		learn_blas_product(LEARN_TURNED_NONE, PIXELS2, LEARN_C2, PATCH2, scratch->patches2,
				   scratch->w2, 0, scratch->out2);
		learn_pool(scratch->out2, LEARN_SIDE3, LEARN_C2, b2, scratch->out3,
			   LEARN_SIDE3 * LEARN_C2, sample->place2);
		transpose(scratch->out3, LEARN_CNN_CELLS, LEARN_C2,
			  cnn->features + s * LEARN_CNN_FEATURES);
	}
	return cnn->features;
}

void learn_cnn_backward(struct learn_cnn *cnn, const float *x, const float *dx, size_t count,
			float *grad)
{
	struct scratch *scratch = cnn->scratch;
	float *db1 = grad + LEARN_CNN_W1;
	float *dw2 = db1 + LEARN_C1;
	float *db2 = dw2 + LEARN_CNN_W2;

	memset(db1, 0, LEARN_C1 * sizeof(*db1));
	memset(db2, 0, LEARN_C2 * sizeof(*db2));
	for (size_t s = 0; s < count; s++) {
		const struct sample *sample = &cnn->samples[s];
		float keep = s == 0 ? 0 : 1; /* the first sample starts the sums */

		transpose(dx + s * LEARN_CNN_FEATURES, LEARN_C2, LEARN_CNN_CELLS, scratch->out3);
		learn_unpool(scratch->out3, LEARN_SIDE3 * LEARN_C2, sample->place2, LEARN_SIDE3,
			     LEARN_C2, scratch->out2, db2);
		patches2_make(sample->mid, scratch->patches2);
		learn_blas_product(LEARN_TURNED_A, PATCH2, LEARN_C2, PIXELS2, scratch->patches2,
				   scratch->out2, keep, scratch->dw2);
		learn_blas_product(LEARN_TURNED_NONE, PIXELS2, PATCH2, LEARN_C2, scratch->out2,
				   scratch->w2_turned, 0, scratch->patches2);
		patches2_add(scratch->patches2, scratch->grad_mid);
		learn_unpool(scratch->grad_mid + FIRST2, ROW2, sample->place1, LEARN_SIDE2,
			     LEARN_C1, scratch->out1, db1);
		patches1_make(scratch, x + s * PIXELS1);
		learn_blas_product(LEARN_TURNED_NONE, LEARN_CNN_TAPS, LEARN_C1, PIXELS1,
				   scratch->patches1, scratch->out1, keep, scratch->dw1);
	}
	transpose(scratch->dw1, LEARN_CNN_TAPS, LEARN_C1, grad);
	transpose(scratch->dw2, PATCH2, LEARN_C2, scratch->patches2);
	for (size_t o = 0; o < LEARN_C2; o++)
		transpose(scratch->patches2 + o * PATCH2, LEARN_CNN_TAPS, LEARN_C1,
			  dw2 + o * PATCH2);
}
