/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * gain.h -- the expected fall of the loss in a step of k gradients
 *
 * The descent lemma, with N the squared norm of the true gradient, V the variance of one
 * gradient, L the smoothness and lr the learning rate:
 *
 *	gain(k) = (lr - L lr^2 / 2) N - (L lr^2 / 2) V / k
 *
 * N, V and L are estimated from past steps: README.md has the formulas. Windows are counted in
 * gradients, as these carry the information: a hundred steps of one gradient tell no more than six
 * of sixteen.
 */
#ifndef OL_POLICY_GAIN_H
#define OL_POLICY_GAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_policy.h"

struct ol_gain_step;

/* Estimates may be read; NaN: not known yet. */
struct ol_gain {
	double lr;
	double share;
	double loss_ratio;
	uint32_t window; /* gradients */
	uint32_t smoothness_window; /* gradients */

	double factor, factor2; /* means of a gradient's factor in its step, and of its square */
	double norm2; /* N */
	double variance; /* V */
	double smoothness; /* L; 0 if noise would make it negative */
	double loss; /* of the last step */
	bool rose; /* the loss rose in the last step, by more than noise explains */
	uint32_t variance_age; /* steps since one that showed V */

	double loss_variance; /* of one gradient's loss */
	double drive; /* the N with which the formula gives the observed fall of the loss */
	uint32_t count; /* steps that are remembered */
	uint32_t newest;
	bool carries; /* gradients that missed their step are of a later one */
	bool has_news; /* since the last step the loss of one has become known */
	struct ol_gain_step *steps; /* a ring */
};

/* One step. Its losses: one a gradient, without NaNs. */
struct ol_gain_input {
	uint32_t count; /* gradients */
	double factor; /* means over them: of their factors, 1 if none missed its step … */
	double factor2; /* … and of these squared */
	double norm2_sum; /* of the gradients times their factors … */
	double norm2_mean; /* … as in struct ol_update; NaN: not known */
	uint32_t losses;
	double loss; /* mean */
	double loss_spread; /* sum of squared distances from the mean */
};

/* ol_gain_init -- Errors: -ENOMEM */
int ol_gain_init(struct ol_gain *gain, const struct ol_policy_opts *opts);
void ol_gain_fini(struct ol_gain *gain);

void ol_gain_on_step(struct ol_gain *gain, const struct ol_gain_input *input);
/* ol_gain_on_late -- the loss of a gradient that missed its step, `age` steps before the last */
void ol_gain_on_late(struct ol_gain *gain, uint64_t age, double loss);
/* ol_gain_restart -- the next step does not follow the last one; estimates stay */
void ol_gain_restart(struct ol_gain *gain);

/* ol_gain_expect -- NaN as long as N, V or L is not known */
double ol_gain_expect(const struct ol_gain *gain, double k);

#endif /* OL_POLICY_GAIN_H */
