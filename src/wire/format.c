/* SPDX-License-Identifier: BSD-3-Clause */

/* format.c -- chooses the encoder compiled for this processor's vector width */

#include "wire/format.h"

#include "base/isa.h"

ol_format_encode_fn ol_format_encode_generic;
ol_format_largest_fn ol_format_largest_generic;
#if defined(__x86_64__)
ol_format_encode_fn ol_format_encode_avx2;
ol_format_largest_fn ol_format_largest_avx2;
ol_format_encode_fn ol_format_encode_avx512f;
ol_format_largest_fn ol_format_largest_avx512f;
#endif

static const struct ol_coder coders[] = {
	{ ol_format_largest_generic, ol_format_encode_generic },
#if defined(__x86_64__)
	{ ol_format_largest_avx2, ol_format_encode_avx2 },
	{ ol_format_largest_avx512f, ol_format_encode_avx512f },
#endif
};

uint32_t ol_format_peak(uint32_t format)
{
	switch (format) {
	case OL_FORMAT_BF16:
		return 0x7f7f8000; /* half-way beyond the largest, and even is up */
	case OL_FORMAT_FP16:
		return 0x477ff000; /* 65,520, likewise */
	case OL_FORMAT_INT8:
		return 0x7f000000; /* above, 127 times the scale may be none */
	default:
		return 0x7f800000;
	}
}

const struct ol_coder *ol_coder_at(unsigned index)
{
	return index < ol_isa_count() ? &coders[index] : NULL;
}

uint32_t ol_format_largest(const float *grad, uint64_t floats)
{
	return coders[ol_isa_count() - 1].largest(grad, floats);
}

void ol_format_encode(uint32_t format, void *out, const float *grad, float *residual,
		      uint64_t floats)
{
	coders[ol_isa_count() - 1].encode(format, out, grad, residual, floats);
}
