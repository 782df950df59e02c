/* SPDX-License-Identifier: BSD-3-Clause */

/* format_test.c -- gradients on the wire: what each format rounds to, where its bytes lie, and that
 * nothing is lost of what int8 rounds off */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/format.h"
#include "wire/wire.h"

enum {
	LEN = 3 * OL_FORMAT_GROUP + 2 * OL_FORMAT_BLOCK + 77,
	PUSHES = 50
};

static const enum ol_format short_ones[] = { OL_FORMAT_BF16, OL_FORMAT_FP16, OL_FORMAT_INT8 };

static float of_bits(uint32_t bits)
{
	return ol_format_float(bits);
}

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* There and back */
static float through(enum ol_format format, float value)
{
	_Alignas(OL_LINE_BYTES) uint8_t payload[2 * OL_LINE_BYTES] = { 0 };
	float residual = 0.0f, out = 0.0f;

	assert_true(ol_format_bytes(format, 1) <= sizeof(payload));
	ol_format_encode(format, payload, &value, &residual, 1);
	ol_format_decode(format, &out, payload, 0, 1);
	return out;
}

/* Any value, of any size */
static float any(uint32_t *seed)
{
	float value;

	do {
		*seed = *seed * 1664525u + 1013904223u;
		value = of_bits(*seed ^ *seed >> 13);
	} while (!isfinite(value));
	return value;
}

/* The one of a format's values that is next to x, by its definition: `bits` of fraction, exponents
 * from least to most; even if two are as near */
static double nearest(double x, int bits, int least, double most)
{
	int exponent;
	double unit, below;

	if (x == 0.0)
		return x;
	(void)frexp(x, &exponent);
	exponent = exponent - 1 < least ? least : exponent - 1;
	unit = ldexp(1.0, exponent - bits);
	below = nearbyint(x / unit) * unit;
	return fabs(below) > most ? copysign(INFINITY, x) : below;
}

static void sixteen_bits_round_to_the_nearest(void **unused)
{
	const double bf16_most = ldexp(255.0, 120), fp16_most = 65504.0;
	uint32_t seed = 7;

	(void)unused;
	for (unsigned i = 0; i < 2000000; i++) {
		float value = any(&seed);
		double near = nearest((double)value, 7, -126, bf16_most);

		assert_true((double)through(OL_FORMAT_BF16, value) == near);
		value = ldexpf(value, i % 3 == 0 ? 0 : -(int)(i % 80)); /* many within fp16 */
		value = i % 2 == 0 ? remainderf(value, 70000.0f) : value;
		near = nearest((double)value, 10, -14, fp16_most);
		assert_true((double)through(OL_FORMAT_FP16, value) == near);
	}
}

static void every_sixteen_bits_come_back(void **unused)
{
	_Alignas(OL_LINE_BYTES) uint16_t in[32] = { 0 }, out[32];
	float value;

	(void)unused;
	for (uint32_t f = OL_FORMAT_BF16; f <= OL_FORMAT_FP16; f++) {
		for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
			in[3] = (uint16_t)bits;
			ol_format_decode(f, &value, in, 3, 1);
			ol_format_encode(f, out, &value, NULL, 1);
			if (isnan(value))
				assert_true((out[0] & 0x7fff) >
					    (f == OL_FORMAT_BF16 ? 0x7f80 : 0x7c00));
			else
				assert_int_equal(out[0], bits);
		}
	}
}

static void what_becomes_an_infinity_is_known_before(void **unused)
{
	(void)unused;
	for (uint32_t f = OL_FORMAT_FP32; f <= OL_FORMAT_INT8; f++) {
		const float peak = of_bits(ol_format_peak(f)),
			    below = of_bits(ol_format_peak(f) - 1);

		assert_true(!isfinite(through(f, peak)));
		assert_true(!isfinite(through(f, -peak)));
		assert_true(isfinite(through(f, below)));
		assert_true(isnan(through(f, NAN)));
	}
}

static float *floats(void)
{
	float *x = calloc(LEN, sizeof(*x));

	assert_non_null(x);
	return x;
}

static uint8_t *payload_of(enum ol_format format)
{
	uint8_t *payload = aligned_alloc(OL_LINE_BYTES, ol_format_bytes(format, LEN));

	assert_non_null(payload);
	return payload;
}

/* Blocks of sizes that differ much, one of zeros, one too small for a scale */
static void fill(float *grad, uint32_t turn)
{
	uint32_t seed = turn;

	for (uint32_t i = 0; i < LEN; i++) {
		const uint32_t block = i / OL_FORMAT_BLOCK;

		seed = seed * 1664525u + 1013904223u;
		grad[i] = ldexpf((float)(int32_t)seed, -31 - (int)(block % 23));
		if (block == 5)
			grad[i] = 0.0f;
		if (block == 6)
			grad[i] = ldexpf(grad[i], -100);
	}
}

static void any_span_decodes_as_the_whole(void **unused)
{
	float *grad = floats(), *residual = floats(), *whole = floats(), *part = floats();

	(void)unused;
	fill(grad, 3);
	for (size_t f = 0; f < sizeof(short_ones) / sizeof(short_ones[0]); f++) {
		uint8_t *payload = payload_of(short_ones[f]);

		ol_format_encode(short_ones[f], payload, grad, residual, LEN);
		ol_format_decode(short_ones[f], whole, payload, 0, LEN);
		for (uint64_t at = 0; at < LEN; at += 1 + at % 397) {
			size_t n = LEN - at < 300 + at % 700 ? LEN - at : 300 + at % 700;

			ol_format_decode(short_ones[f], part, payload, at, n);
			assert_memory_equal(part, whole + at, n * sizeof(*part));
		}
		free(payload);
	}
	free(grad);
	free(residual);
	free(whole);
	free(part);
}

static void a_part_begins_a_line_and_ends_the_payload(void **unused)
{
	(void)unused;
	for (uint32_t f = OL_FORMAT_FP32; f <= OL_FORMAT_INT8; f++) {
		const uint64_t part = ol_format_bytes(f, OL_PART_FLOATS);

		assert_int_equal(part % OL_LINE_BYTES, 0);
		for (uint64_t rest = 0; rest < 9000; rest += 61)
			assert_int_equal(ol_format_bytes(f, 3 * OL_PART_FLOATS + rest),
					 3 * part + ol_format_bytes(f, rest));
	}
}

static void every_width_gives_the_same_bits(void **unused)
{
	float *grad = floats(), *left[2] = { floats(), floats() };

	(void)unused;
	for (uint32_t f = OL_FORMAT_FP32; f <= OL_FORMAT_INT8; f++) {
		uint8_t *payloads[2] = { payload_of(f), payload_of(f) };
		const uint64_t bytes = ol_format_bytes(f, LEN);

		for (unsigned k = 1; ol_coder_at(k) != NULL; k++) {
			for (uint32_t turn = 1; turn <= 3; turn++) {
				fill(grad, turn);
				memset(payloads[0], 0, bytes);
				memset(payloads[1], 0, bytes);
				ol_coder_at(0)->encode(f, payloads[0], grad, left[0], LEN);
				ol_coder_at(k)->encode(f, payloads[1], grad, left[1], LEN);
				assert_memory_equal(payloads[0], payloads[1], bytes);
				assert_memory_equal(left[0], left[1], LEN * sizeof(float));
				assert_int_equal(ol_coder_at(0)->largest(grad, LEN),
						 ol_coder_at(k)->largest(grad, LEN));
			}
		}
		free(payloads[0]);
		free(payloads[1]);
	}
	free(grad);
	free(left[0]);
	free(left[1]);
}

/* All that was decoded, and what is left, is all that was pushed */
static void int8_keeps_what_it_rounds_off(void **unused)
{
	float *grad = floats(), *residual = floats(), *back = floats();
	uint8_t *payload = payload_of(OL_FORMAT_INT8);
	double *pushed = calloc(LEN, sizeof(*pushed)), *had = calloc(LEN, sizeof(*had));

	(void)unused;
	assert_true(pushed != NULL && had != NULL);
	for (uint32_t turn = 1; turn <= PUSHES; turn++) {
		fill(grad, turn);
		ol_format_encode(OL_FORMAT_INT8, payload, grad, residual, LEN);
		ol_format_decode(OL_FORMAT_INT8, back, payload, 0, LEN);
		for (uint32_t i = 0; i < LEN; i++) {
			pushed[i] += (double)grad[i];
			had[i] += (double)back[i];
		}
	}
	for (uint32_t i = 0; i < LEN; i++) {
		const double most = ldexp(1.0, -(int)(i / OL_FORMAT_BLOCK % 23));

		assert_true(fabs(pushed[i] - had[i] - (double)residual[i]) <= PUSHES * most * 1e-7);
		assert_true(fabs((double)residual[i]) <= most / 120);
	}
	free(grad);
	free(residual);
	free(back);
	free(payload);
	free(pushed);
	free(had);
}

static void int8_of_a_nan_is_found_and_leaves_nothing_behind(void **unused)
{
	float *grad = floats(), *residual = floats(), *back = floats();
	uint8_t *payload = payload_of(OL_FORMAT_INT8);

	(void)unused;
	fill(grad, 1);
	grad[OL_FORMAT_BLOCK + 3] = -INFINITY;
	ol_format_encode(OL_FORMAT_INT8, payload, grad, residual, LEN);
	ol_format_decode(OL_FORMAT_INT8, back, payload, 0, LEN);
	for (uint32_t i = 0; i < LEN; i++) {
		const bool bad = i / OL_FORMAT_BLOCK == 1;

		assert_true(isnan(back[i]) == bad);
		assert_true(isfinite(residual[i]) && (!bad || residual[i] == 0.0f));
	}
	free(grad);
	free(residual);
	free(back);
	free(payload);
}

static void the_bits_of_int8_are_known(void **unused)
{
	_Alignas(OL_LINE_BYTES) uint8_t payload[2 * OL_LINE_BYTES] = { 0 };
	const float grad[4] = { 1.0f, -0.5f, 0.003f, -1.27f };
	const int8_t want[4] = { 100, -50, 0, -127 };
	float residual[4] = { 0 }, scale;

	(void)unused;
	ol_format_encode(OL_FORMAT_INT8, payload, grad, residual, 4);
	memcpy(&scale, payload, sizeof(scale));
	assert_int_equal(bits_of(scale), bits_of(1.27f / 127.0f));
	assert_memory_equal(payload + OL_LINE_BYTES, want, sizeof(want));
	assert_true(residual[2] == 0.003f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sixteen_bits_round_to_the_nearest),
		cmocka_unit_test(every_sixteen_bits_come_back),
		cmocka_unit_test(what_becomes_an_infinity_is_known_before),
		cmocka_unit_test(any_span_decodes_as_the_whole),
		cmocka_unit_test(a_part_begins_a_line_and_ends_the_payload),
		cmocka_unit_test(every_width_gives_the_same_bits),
		cmocka_unit_test(int8_keeps_what_it_rounds_off),
		cmocka_unit_test(int8_of_a_nan_is_found_and_leaves_nothing_behind),
		cmocka_unit_test(the_bits_of_int8_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
