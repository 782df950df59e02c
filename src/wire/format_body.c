/* SPDX-License-Identifier: BSD-3-Clause */

/* format_body.c -- how a worker encodes a gradient; compiled once for each OL_FORMAT_ISA */

#include <math.h>

#include "wire/format.h"

#ifndef OL_FORMAT_ISA
#define OL_FORMAT_ISA generic
#endif
#define OL_CAT2(a, b)     a##b
#define OL_CAT(a, b)      OL_CAT2(a, b)
#define OL_FORMAT_ENCODE  OL_CAT(ol_format_encode_, OL_FORMAT_ISA)
#define OL_FORMAT_LARGEST OL_CAT(ol_format_largest_, OL_FORMAT_ISA)

ol_format_encode_fn OL_FORMAT_ENCODE;
ol_format_largest_fn OL_FORMAT_LARGEST;

static inline uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* To the nearest, even if two are; a NaN stays one */
static void encode_bf16(uint16_t *restrict out, const float *restrict grad, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint32_t bits = bits_of(grad[i]);
		uint32_t near = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
		uint32_t nan = bits >> 16 | 0x40;

		out[i] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : near);
	}
}

/* The same. Below 2^-14 the sum with 0.5 rounds at 2^-24, the step of subnormals */
static void encode_fp16(uint16_t *restrict out, const float *restrict grad, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint32_t bits = bits_of(grad[i]);
		uint32_t size = bits & 0x7fffffff;
		uint32_t normal = (size - (112U << 23) + 0xfff + (size >> 13 & 1)) >> 13;
		uint32_t small = bits_of(ol_format_float(size) + 0.5f) - bits_of(0.5f);
		uint32_t large = 0x7c00 | (0x200 & -(uint32_t)(size > 0x7f800000));
		uint32_t half = ol_format_either(-(uint32_t)(size < 113U << 23), small, normal);

		half = ol_format_either(-(uint32_t)(size >= 0x477ff000), large, half);
		out[i] = (uint16_t)((bits >> 16 & 0x8000) | half);
	}
}

/* As bits values are in the order of their sizes */
uint32_t OL_FORMAT_LARGEST(const float *restrict grad, uint64_t floats)
{
	uint32_t largest = 0;

	for (uint64_t i = 0; i < floats; i++) {
		uint32_t bits = bits_of(grad[i]) & 0x7fffffff;

		largest = bits > largest ? bits : largest;
	}
	return largest;
}

/* Rounded to the nearest, even if two are: at 1.5 * 2^23 floats are integers */
static void encode_block(int8_t *restrict out, float *restrict scale, const float *restrict grad,
			 float *restrict residual, size_t n)
{
	const float whole = 0x1.8p23f;
	float values[OL_FORMAT_BLOCK];
	float largest, factor;
	uint32_t peak;

	for (size_t i = 0; i < n; i++)
		values[i] = grad[i] + residual[i];
	peak = OL_FORMAT_LARGEST(values, n);
	largest = ol_format_float(peak);
	*scale = largest / 127.0f;
	factor = 127.0f / largest;
	if (peak >= ol_format_peak(OL_FORMAT_INT8)) {
		*scale = NAN;
		memset(out, 0, n);
		memset(residual, 0, n * sizeof(*residual));
		return;
	}
	if (*scale < 0x1p-120f) { /* no factor, or one of few bits: it waits until it is more */
		*scale = 0.0f;
		memset(out, 0, n);
		memcpy(residual, values, n * sizeof(*residual));
		return;
	}
	for (size_t i = 0; i < n; i++) {
		float near = values[i] * factor + whole - whole;

		out[i] = (int8_t)near;
		residual[i] = values[i] - *scale * near;
	}
}

static void encode_int8(uint8_t *out, const float *grad, float *residual, uint64_t floats)
{
	for (uint64_t at = 0; at < floats; at += OL_FORMAT_BLOCK) {
		uint8_t *group = out + at / OL_FORMAT_GROUP * OL_FORMAT_GROUP_BYTES;
		uint64_t in = at % OL_FORMAT_GROUP;
		uint64_t n = floats - at < OL_FORMAT_BLOCK ? floats - at : OL_FORMAT_BLOCK;
		float *scales = (float *)(void *)group;

		encode_block((int8_t *)group + OL_LINE_BYTES + in, &scales[in / OL_FORMAT_BLOCK],
			     grad + at, residual + at, (size_t)n);
	}
}

void OL_FORMAT_ENCODE(uint32_t format, void *out, const float *grad, float *residual,
		      uint64_t floats)
{
	if (format == OL_FORMAT_BF16)
		encode_bf16(out, grad, floats);
	else if (format == OL_FORMAT_FP16)
		encode_fp16(out, grad, floats);
	else if (format == OL_FORMAT_INT8)
		encode_int8(out, grad, residual, floats);
	else
		memcpy(out, grad, floats * sizeof(*grad));
}
