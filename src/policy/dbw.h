/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * dbw.h -- how many gradients to wait for: dynamic backup workers (Xu, Neglia, Sebastianelli 2020),
 * blind or not, and AdaSync (Dutta, Wang, Joshi 2021)
 */
#ifndef OL_POLICY_DBW_H
#define OL_POLICY_DBW_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_policy.h"
#include "policy/gain.h"
#include "policy/times.h"

/*
 * ol_dbw_choose -- the k of the largest score a second, after a step of h gradients; at most
 * `present` unless nothing is known, or no k is expected to do any good: then all workers
 *
 * The score is the gain; with gain NULL, or while it is not known, the number of gradients.
 */
uint32_t ol_dbw_choose(const struct ol_times *times, const struct ol_gain *gain, uint32_t h,
		       uint32_t present);

struct ol_adasync {
	uint32_t k; /* of the first step */
	uint32_t workers;
	uint32_t window;
	uint32_t count; /* losses seen, up to window */
	double first; /* mean of the first losses */
	double loss; /* smoothed */
};

/* ol_adasync_choose -- after a step of this mean loss; NaN: not known */
uint32_t ol_adasync_choose(struct ol_adasync *adasync, double loss);

#endif /* OL_POLICY_DBW_H */
