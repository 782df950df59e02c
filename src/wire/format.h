/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * format.h -- a gradient's elements on the wire
 *
 * The worker encodes as it pushes, and the server's kernels decode as they read the slot (decode
 * stands here, as they are compiled for each vector width). Weights, sums and the optimizer's state
 * are fp32 in every place. Encoding and decoding give the same bits on every processor.
 *
 *	fp32, bf16, fp16    one element behind the other
 *	int8                groups of 4,096: 16 scales (float), then the elements. Element i is its
 *	                    byte times the scale of its block of 256. The scale is the block's
 *	                    largest absolute value through 127
 *
 * A payload is padded to a line. So a part of OL_PART_FLOATS begins a line in every format.
 */
#ifndef OL_WIRE_FORMAT_H
#define OL_WIRE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "outlast.h"
#include "wire/layout.h"

enum {
	OL_FORMAT_BLOCK = 256, /* int8: elements of one scale */
	OL_FORMAT_SCALES = 16, /* that lie together: a line */
	OL_FORMAT_GROUP = OL_FORMAT_BLOCK * OL_FORMAT_SCALES,
	OL_FORMAT_GROUP_BYTES = OL_LINE_BYTES + OL_FORMAT_GROUP,
};

static_assert(OL_FORMAT_SCALES * sizeof(float) == OL_LINE_BYTES, "the scales fill a line");

/* ol_format_bytes -- of a payload of that many elements; format: one of enum ol_format */
static inline uint64_t ol_format_bytes(uint32_t format, uint64_t floats)
{
	uint64_t rest = floats % OL_FORMAT_GROUP;

	if (format == OL_FORMAT_FP32)
		return ol_round_up(floats * OL_ELEM_BYTES, OL_LINE_BYTES);
	if (format != OL_FORMAT_INT8)
		return ol_round_up(floats * 2, OL_LINE_BYTES);
	return floats / OL_FORMAT_GROUP * OL_FORMAT_GROUP_BYTES +
	       (rest > 0 ? OL_LINE_BYTES + ol_round_up(rest, OL_LINE_BYTES) : 0);
}

/* ol_format_peak -- bits of the least positive fp32 that becomes an infinity in this format */
uint32_t ol_format_peak(uint32_t format);

/* ol_format_largest -- bits of the largest absolute value; of a NaN they are above all others */
typedef uint32_t ol_format_largest_fn(const float *grad, uint64_t floats);
ol_format_largest_fn ol_format_largest;

/*
 * ol_format_encode -- write the payload of a gradient of `floats` elements to out
 *
 * residual: int8: `floats` elements, what earlier gradients still lack. It is added to this one, and
 * what this one lacks takes its place (error feedback: Seide et al. 2014, Karimireddy et al. 2019).
 * Of a block with a NaN or an infinity nothing is kept, and all its elements become NaNs. Other
 * formats ignore it.
 */
typedef void ol_format_encode_fn(uint32_t format, void *out, const float *grad, float *residual,
				 uint64_t floats);
ol_format_encode_fn ol_format_encode;

struct ol_coder {
	ol_format_largest_fn *largest;
	ol_format_encode_fn *encode;
};

/* ol_coder_at -- the index-th that this processor runs, from narrow to wide; NULL at the end */
const struct ol_coder *ol_coder_at(unsigned index);

static inline float ol_format_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Bits of the one where the mask is all ones, else of the other: without a branch, for vectors */
static inline uint32_t ol_format_either(uint32_t mask, uint32_t one, uint32_t other)
{
	return (one & mask) | (other & ~mask);
}

static inline void ol_format_decode_bf16(float *restrict out, const uint16_t *restrict in, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = (uint32_t)in[i] << 16;

		memcpy(&out[i], &bits, sizeof(bits));
	}
}

/*
 * By integers, as not every vector width has an instruction. A subnormal is 2^-14 * (1 + m) - 2^-14,
 * so that no operand is an fp32 subnormal, which processors are slow with.
 */
static inline void ol_format_decode_fp16(float *restrict out, const uint16_t *restrict in, size_t n)
{
	const float least = 0x1p-14f;

	for (size_t i = 0; i < n; i++) {
		uint32_t size = (uint32_t)(in[i] & 0x7fff) << 13;
		uint32_t normal = size + (112U << 23);
		float small = ol_format_float(size + (113U << 23)) - least;
		uint32_t bits;

		memcpy(&bits, &small, sizeof(bits));
		normal |= 0x7f800000 & -(uint32_t)(size >= 0x1fU << 23);
		bits = ol_format_either(-(uint32_t)(size < 1U << 23), bits, normal);
		bits |= (uint32_t)(in[i] & 0x8000) << 16;
		memcpy(&out[i], &bits, sizeof(bits));
	}
}

static inline void ol_format_decode_int8(float *restrict out, const int8_t *restrict in,
					 float scale, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = scale * (float)in[i];
}

/*
 * ol_format_decode -- elements at … at + n of a payload. Each byte is read once: a peer may write
 * there meanwhile
 */
static inline void ol_format_decode(uint32_t format, float *restrict out, const void *payload,
				    uint64_t at, size_t n)
{
	const uint8_t *bytes = payload;

	if (format == OL_FORMAT_BF16) {
		ol_format_decode_bf16(out, (const uint16_t *)payload + at, n);
		return;
	}
	if (format == OL_FORMAT_FP16) {
		ol_format_decode_fp16(out, (const uint16_t *)payload + at, n);
		return;
	}
	if (format != OL_FORMAT_INT8) {
		memcpy(out, (const float *)payload + at, n * sizeof(*out));
		return;
	}
	while (n > 0) {
		const uint8_t *group = bytes + at / OL_FORMAT_GROUP * OL_FORMAT_GROUP_BYTES;
		size_t in = at % OL_FORMAT_GROUP;
		size_t run = OL_FORMAT_BLOCK - in % OL_FORMAT_BLOCK;
		float scale;

		run = run < n ? run : n;
		memcpy(&scale, group + in / OL_FORMAT_BLOCK * sizeof(scale), sizeof(scale));
		ol_format_decode_int8(out, (const int8_t *)(group + OL_LINE_BYTES + in), scale,
				      run);
		out += run;
		at += run;
		n -= run;
	}
}

#endif /* OL_WIRE_FORMAT_H */
