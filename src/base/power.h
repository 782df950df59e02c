/* SPDX-License-Identifier: BSD-3-Clause */

/* power.h -- powers that have the same bits on every machine, unlike pow() */
#ifndef OL_BASE_POWER_H
#define OL_BASE_POWER_H

#include <stdint.h>

/* ol_power -- base^exponent, by squaring */
static inline double ol_power(double base, uint64_t exponent)
{
	double result = 1.0;

	for (; exponent > 0; exponent >>= 1) {
		if (exponent & 1)
			result *= base;
		base *= base;
	}
	return result;
}

#endif /* OL_BASE_POWER_H */
