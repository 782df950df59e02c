/* SPDX-License-Identifier: BSD-3-Clause */

/* replay.c -- factors on deltas that were summed up during an outage */

#include "policy/replay.h"

#include <math.h>

enum {
	HARMONIC_TERMS = 64 /* summed one by one; an integral approximates the rest */
};

/* 1 + 1/2 + … + 1/m */
static double harmonic(uint32_t m)
{
	double sum = 0.0;

	for (uint32_t i = 1; i <= m && i <= HARMONIC_TERMS; i++)
		sum += 1.0 / i;
	if (m > HARMONIC_TERMS)
		sum += log((m + 0.5) / (HARMONIC_TERMS + 0.5));
	return sum;
}

static double mean_scale(const struct ol_delta *delta)
{
	return 1.0 / (delta->path ? delta->ways : delta->grads);
}

static double sum_scale(const struct ol_delta *delta)
{
	if (delta->grads <= OL_REPLAY_SUM_MANY || !(delta->lr > OL_REPLAY_SUM_LR))
		return 1.0;
	return OL_REPLAY_SUM_LR / delta->lr;
}

/*
 * Zhang et al. 2016 scale a gradient by 1 / staleness. If a delta's gradients were applied one by
 * one, the i-th would be i - 1 updates more stale than the first.
 */
static double staleness_scale(const struct ol_delta *delta)
{
	double before = delta->staleness > 1 ? (double)delta->staleness : 1.0;

	return harmonic(delta->grads) / delta->grads / before;
}

float ol_replay_scale(enum ol_replay policy, const struct ol_delta *delta)
{
	double scale = 1.0;

	switch (policy) {
	case OL_REPLAY_EACH:
		break;
	case OL_REPLAY_MEAN:
		scale = mean_scale(delta);
		break;
	case OL_REPLAY_SUM:
		scale = sum_scale(delta);
		break;
	case OL_REPLAY_CLIP:
		if (delta->norm > delta->clip)
			scale = delta->clip / delta->norm;
		break;
	case OL_REPLAY_STALENESS:
		scale = staleness_scale(delta);
		break;
	}
	return (float)scale;
}
