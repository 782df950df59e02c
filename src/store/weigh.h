/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * weigh.h -- the factors on the gradients of a step, by their weights
 *
 * The kernels compute mean or sum of the gradients times their factors. With the factors
 *
 *	mean    n w_i / (w_1 + … + w_n)
 *	sum     w_i
 *
 * this is sum(w g) / sum(w), or sum(w g). Where all weights are equal, the factor of the mean is
 * exactly 1: sums and products of so few floats are exact in doubles.
 */
#ifndef OL_STORE_WEIGH_H
#define OL_STORE_WEIGH_H

#include <stdbool.h>

#include "store/store.h"

/*
 * ol_weigh -- the factors on `count` contributions, their own `scale` included
 *
 * index: which ones, in their order; NULL: the first `count`. The others count for nothing. sum: the
 * rule sums.
 */
void ol_weigh(const struct ol_contribution *contributions, const unsigned *index, unsigned count,
	      bool sum, float *scales);

/* ol_weigh_one -- the same of a step of one */
static inline float ol_weigh_one(const struct ol_contribution *contribution, bool sum)
{
	return sum && contribution->weight != 0.0f ? contribution->scale * contribution->weight
						   : contribution->scale;
}

/* ol_weights_even -- true if no factor changes anything, but for `scale` */
bool ol_weights_even(const struct ol_contribution *contributions, unsigned count, bool sum);

#endif /* OL_STORE_WEIGH_H */
