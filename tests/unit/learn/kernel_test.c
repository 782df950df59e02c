/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kernel_test.c -- every table of kernels that this CPU can run computes the same, and writes no
 * more than it says
 *
 * gradient_test.c holds the best table against the mathematics; here the others are held against
 * it.
 */

#include "learn/kernel.h"
#include "unit/learn/learn_util.h"

enum {
	GUARD = 64, /* floats after each output that must stay as they are */
	PADDED2 = LEARN_PAD2 * LEARN_PAD2,
	PIXELS1 = LEARN_SIDE1 * LEARN_SIDE1,
	PIXELS2 = LEARN_SIDE2 * LEARN_SIDE2,
	PIXELS3 = LEARN_SIDE3 * LEARN_SIDE3
};

/* What all the convolution kernels make of one random input. */
struct outputs {
	float mid[PADDED2 * LEARN_C1 + GUARD];
	float out[PIXELS3 * LEARN_C2 + GUARD];
	float grad2[PADDED2 * LEARN_C2 + GUARD];
	float grad_mid[PIXELS2 * LEARN_C1 + GUARD];
	float grad1[PIXELS1 * LEARN_C1 + GUARD];
	float dw1[LEARN_C1 * 9 + GUARD];
	float dw2[LEARN_C1 * LEARN_C2 * 9 + GUARD];
	float db1[LEARN_C1 + GUARD];
	float db2[LEARN_C2 + GUARD];
};

struct places {
	uint8_t arg1[PIXELS2 * LEARN_C1 + GUARD];
	uint8_t arg2[PIXELS3 * LEARN_C2 + GUARD];
};

static size_t tables(const struct learn_kernels *found[3])
{
	size_t count = 0;

	found[count++] = &learn_kernels_plain;
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		found[count++] = &learn_kernels_avx2;
	if (__builtin_cpu_supports("avx512f"))
		found[count++] = &learn_kernels_avx512;
#endif
	return count;
}

static float *noise(size_t count, uint32_t seed)
{
	float *p = floats(count);

	for (size_t i = 0; i < count; i++) {
		seed = seed * 1664525u + 1013904223u;
		p[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
	}
	return p;
}

static bool near(const float *a, const float *b, size_t count, float tolerance)
{
	for (size_t i = 0; i < count; i++) {
		if (!(fabsf(a[i] - b[i]) <= tolerance))
			return false;
	}
	return true;
}

/* run -- all outputs are full of ones before, except that the padded images' borders are zero */
static void run(const struct learn_kernels *k, struct outputs *o, struct places *p)
{
	float *in = noise(LEARN_PAD1 * LEARN_PAD1, 1);
	float *w1 = noise((size_t)LEARN_C1 * 9, 2);
	float *w2 = noise((size_t)LEARN_C1 * LEARN_C2 * 9, 3);
	float *turned = noise((size_t)LEARN_C1 * LEARN_C2 * 9, 4);
	float *bias = noise(LEARN_C2, 5);
	float *grad = noise((size_t)PIXELS3 * LEARN_C2, 6);

	for (size_t i = 0; i < sizeof(*o) / sizeof(float); i++)
		memcpy((char *)o + i * sizeof(float), &(float){ 1 }, sizeof(float));
	memset(o->mid, 0, PADDED2 * LEARN_C1 * sizeof(float));
	memset(o->grad2, 0, PADDED2 * LEARN_C2 * sizeof(float));
	memset(p, 77, sizeof(*p));
	k->conv1_pool(in, w1, bias, o->mid, p->arg1);
	k->conv2_pool(o->mid, w2, bias, o->out, p->arg2);
	k->unpool2(grad, p->arg2, o->grad2, o->db2);
	k->conv2_weight(o->mid, o->grad2, o->dw2);
	k->conv2_data(o->grad2, turned, o->grad_mid);
	k->unpool1(o->grad_mid, p->arg1, o->grad1, o->db1);
	k->conv1_weight(in, o->grad1, o->dw1);
	free(in);
	free(w1);
	free(w2);
	free(turned);
	free(bias);
	free(grad);
}

static void tables_agree_on_convolutions(void **state)
{
	const struct learn_kernels *found[3];
	size_t count = tables(found);
	struct outputs *o = aligned_alloc(64, 2 * ((sizeof(*o) + 63) / 64 * 64));
	struct places *p = calloc(2, sizeof(*p));

	(void)state;
	assert_non_null(o);
	assert_non_null(p);
	run(learn_kernels_best(), &o[0], &p[0]);
	for (size_t t = 0; t < count; t++) {
		print_message("%s\n", found[t]->name);
		run(found[t], &o[1], &p[1]);
		assert_memory_equal(&p[0], &p[1], sizeof(*p));
		assert_true(near((const float *)(const void *)&o[0],
				 (const float *)(const void *)&o[1], sizeof(*o) / sizeof(float),
				 2e-3f));
		for (size_t i = 0; i < GUARD; i++) {
			assert_true(o[1].mid[PADDED2 * LEARN_C1 + i] == 1.0f);
			assert_true(o[1].out[PIXELS3 * LEARN_C2 + i] == 1.0f);
			assert_true(o[1].grad1[PIXELS1 * LEARN_C1 + i] == 1.0f);
			assert_true(o[1].dw2[LEARN_C1 * LEARN_C2 * 9 + i] == 1.0f);
			assert_int_equal(p[1].arg2[PIXELS3 * LEARN_C2 + i], 77);
		}
	}
	free(o);
	free(p);
}

/* A window's first maximum wins, a window without a positive one is dead, a NaN is not swallowed.
 */
static void pooling_obeys_its_rules(void **state)
{
	const struct learn_kernels *found[3];
	size_t count = tables(found);
	float *in = floats(LEARN_PAD1 * LEARN_PAD1);
	float *w = floats((size_t)LEARN_C1 * 9);
	float *bias = floats(LEARN_C1);
	float *out = floats((size_t)PADDED2 * LEARN_C1);
	uint8_t arg[PIXELS2 * LEARN_C1];
	const float *pooled = out + (LEARN_PAD2 + 1) * LEARN_C1;

	(void)state;
	memset(in, 0, LEARN_PAD1 * LEARN_PAD1 * sizeof(*in));
	memset(w, 0, (size_t)LEARN_C1 * 9 * sizeof(*w));
	memset(bias, 0, LEARN_C1 * sizeof(*bias));
	for (size_t c = 0; c < LEARN_C1; c++)
		w[4 * LEARN_C1 + c] = 1; /* the middle tap: the image itself */
	in[1 * LEARN_PAD1 + 1] = -1; /* window 0: -1 0 / 0 0 */
	in[1 * LEARN_PAD1 + 4] = 2; /* window 1: 0 2 / 0 2 */
	in[2 * LEARN_PAD1 + 4] = 2;
	in[2 * LEARN_PAD1 + 5] = 3; /* window 2: 0 0 / 3 0 */
	in[1 * LEARN_PAD1 + 7] = NAN; /* window 3: NaN 1 / 0 0 */
	in[1 * LEARN_PAD1 + 8] = 1;
	for (size_t t = 0; t < count; t++) {
		found[t]->conv1_pool(in, w, bias, out, arg);
		for (size_t c = 0; c < LEARN_C1; c++) {
			assert_int_equal(arg[0 * LEARN_C1 + c], LEARN_POOL_DEAD);
			assert_true(pooled[0 * LEARN_C1 + c] == 0.0f);
			assert_int_equal(arg[1 * LEARN_C1 + c], 1);
			assert_true(pooled[1 * LEARN_C1 + c] == 2.0f);
			assert_int_equal(arg[2 * LEARN_C1 + c], 2);
			assert_true(pooled[2 * LEARN_C1 + c] == 3.0f);
			assert_true(isnan(pooled[3 * LEARN_C1 + c]));
		}
	}
	free(in);
	free(w);
	free(bias);
	free(out);
}

/* dense_case -- one shape, one table: all three kernels against sums in double */
static void dense_case(const struct learn_kernels *k, struct learn_dense d, size_t lanes,
		       size_t count)
{
	float *w = noise(d.in * d.out, 1);
	float *bias = noise(d.out, 2);
	float *xt = noise(d.in * lanes, 3);
	float *x = floats(d.in * count);
	float *dyt = noise(d.out * lanes, 4);
	float *yt = noise(d.out * lanes + GUARD, 5);
	float *dxt = noise(d.in * lanes + GUARD, 5);
	float *dw = noise(d.out * d.in + GUARD, 5);
	float *guard = noise(d.in * (d.out + lanes) + d.out * lanes + GUARD, 5);

	for (size_t s = 0; s < count; s++) {
		for (size_t i = 0; i < d.in; i++)
			x[s * d.in + i] = xt[i * lanes + s];
	}
	k->dense_forward(&d, w, bias, xt, lanes, yt);
	k->dense_data(&d, w, dyt, lanes, dxt);
	k->dense_weight(&d, x, dyt, lanes, count, dw);
	assert_memory_equal(yt + d.out * lanes, guard + d.out * lanes, GUARD * sizeof(float));
	assert_memory_equal(dxt + d.in * lanes, guard + d.in * lanes, GUARD * sizeof(float));
	assert_memory_equal(dw + d.in * d.out, guard + d.in * d.out, GUARD * sizeof(float));
	for (size_t o = 0; o < d.out; o++) {
		for (size_t i = 0; i < d.in; i++) {
			double want = 0;

			for (size_t s = 0; s < count; s++)
				want += (double)dyt[o * lanes + s] * (double)x[s * d.in + i];
			assert_true(fabs(want - (double)dw[o * d.in + i]) < 1e-4);
		}
	}
	for (size_t s = 0; s < count; s++) {
		for (size_t o = 0; o < d.out; o++) {
			double want = (double)bias[o];

			for (size_t i = 0; i < d.in; i++)
				want += (double)w[o * d.in + i] * (double)x[s * d.in + i];
			assert_true(fabs(want - (double)yt[o * lanes + s]) < 1e-4);
		}
		for (size_t i = 0; i < d.in; i++) {
			double want = 0;

			for (size_t o = 0; o < d.out; o++)
				want += (double)w[o * d.in + i] * (double)dyt[o * lanes + s];
			assert_true(fabs(want - (double)dxt[i * lanes + s]) < 1e-4);
		}
	}
	free(w);
	free(bias);
	free(xt);
	free(x);
	free(dyt);
	free(yt);
	free(dxt);
	free(dw);
	free(guard);
}

static void dense_kernels_take_any_shape(void **state)
{
	static const struct learn_dense shapes[] = { { 1, 2 },    { 7, 1 },   { 8, 8 },
						     { 37, 11 },  { 64, 10 }, { 33, 70 },
						     { 100, 130 } };
	static const size_t counts[] = { 1, 15, 16, 17, 32, 33, 48 };
	const struct learn_kernels *found[3];
	size_t count = tables(found);

	(void)state;
	for (size_t t = 0; t < count; t++) {
		for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
			for (size_t j = 0; j < sizeof(counts) / sizeof(counts[0]); j++)
				dense_case(found[t], shapes[i], (counts[j] + 15) / 16 * 16,
					   counts[j]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_agree_on_convolutions),
		cmocka_unit_test(pooling_obeys_its_rules),
		cmocka_unit_test(dense_kernels_take_any_shape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
