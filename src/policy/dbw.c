/* SPDX-License-Identifier: BSD-3-Clause */

/* dbw.c -- the choice of k */

#include "policy/dbw.h"

#include <math.h>

/* Scores that differ by less are a tie, which the largest k wins: neither gain nor time is known
 * any better, and more gradients do no harm. */
#define TIE 0.01

enum {
	SINGLES = 16 /* steps of one gradient in a row, at most */
};

static double score(const struct ol_times *times, const struct ol_gain *gain, uint32_t h,
		    uint32_t level)
{
	uint32_t k = ol_times_k(times, level);

	return (gain != NULL ? ol_gain_expect(gain, k) : k) / ol_times_expect(times, h, level);
}

static uint32_t best_k(const struct ol_times *times, const struct ol_gain *gain, uint32_t h,
		       uint32_t present)
{
	uint32_t levels = ol_times_levels(times), all = ol_times_k(times, levels - 1), best = all;
	double most = 0.0;

	for (uint32_t i = 0; i < levels && ol_times_k(times, i) <= present; i++)
		most = fmax(most, score(times, gain, h, i));
	if (!(most > 0.0))
		return all;
	for (uint32_t i = 0; i < levels && ol_times_k(times, i) <= present; i++) {
		if (score(times, gain, h, i) >= (1.0 - TIE) * most)
			best = ol_times_k(times, i);
	}
	return best;
}

uint32_t ol_dbw_choose(const struct ol_times *times, const struct ol_gain *gain, uint32_t h,
		       uint32_t present)
{
	uint32_t all = ol_times_k(times, ol_times_levels(times) - 1);
	uint32_t more = h < all ? h + 1 : all, k;

	if (gain == NULL || isnan(ol_gain_expect(gain, 1.0)))
		return best_k(times, NULL, h, present);
	k = best_k(times, gain, h, present);
	if (gain->rose && k < more)
		k = more;
	/* single gradients say nothing of their variance: now and then a step of two does */
	if (k == 1 && all > 1 && gain->variance_age >= SINGLES)
		k = 2;
	return k;
}

uint32_t ol_adasync_choose(struct ol_adasync *adasync, double loss)
{
	bool first = adasync->count < adasync->window;
	double k = adasync->k;

	if (isfinite(loss)) {
		adasync->count += first;
		adasync->loss += (loss - adasync->loss) / adasync->count;
		if (first)
			adasync->first = adasync->loss;
	}
	if (adasync->count == 0 || !(adasync->first > 0.0))
		return adasync->k;
	k = ceil(k * sqrt(adasync->first / adasync->loss));
	if (!(k < adasync->workers)) /* or the loss is not above 0 */
		return adasync->workers;
	return k > 1.0 ? (uint32_t)k : 1;
}
