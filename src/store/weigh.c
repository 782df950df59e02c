/* SPDX-License-Identifier: BSD-3-Clause */

/* weigh.c -- factors by weights */

#include "store/weigh.h"

#include <stddef.h>

static double weight_of(const struct ol_contribution *contribution)
{
	return contribution->weight == 0.0f ? 1.0 : (double)contribution->weight;
}

void ol_weigh(const struct ol_contribution *contributions, const unsigned *index, unsigned count,
	      bool sum, float *scales)
{
	double total = 0.0;

	for (unsigned i = 0; i < count && !sum; i++)
		total += weight_of(&contributions[index != NULL ? index[i] : i]);
	for (unsigned i = 0; i < count; i++) {
		const struct ol_contribution *one = &contributions[index != NULL ? index[i] : i];
		double factor = weight_of(one);

		if (!sum)
			factor = factor * count / total;
		scales[i] = (float)((double)one->scale * factor);
	}
}

bool ol_weights_even(const struct ol_contribution *contributions, unsigned count, bool sum)
{
	double even = sum || count == 0 ? 1.0 : weight_of(&contributions[0]);

	for (unsigned i = 0; i < count; i++) {
		if (weight_of(&contributions[i]) != even)
			return false;
	}
	return true;
}
