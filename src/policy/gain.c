/* SPDX-License-Identifier: BSD-3-Clause */

/* gain.c -- norm, variance and smoothness, estimated over windows */

#include "policy/gain.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* A step that windows look back to; NaN: not known. */
struct ol_gain_step {
	uint32_t count;
	double factor, factor2; /* as in struct ol_gain_input */
	double squares; /* `freedom` times an estimate of V; without late ones the sum of ||g_j - mean||^2 … */
	double freedom; /* … and count - 1 */
	double mean2; /* ||mean||^2 */
	double loss; /* mean, late gradients included … */
	uint32_t losses; /* … and their count */
	uint32_t loss_freedom;
	double loss_spread; /* without late ones: loss_freedom times an estimate of its variance */
};

enum {
	STEPS_MAX = 1024, /* steps that are remembered */
	FREEDOM_LEAST = 16, /* degrees of freedom of the variance, if so many are remembered */
	WINDOW_LEAST = 32, /* for the smoothness: gradients … */
	PAIRS_LEAST = 2 /* … and steps */
};

/* Largest standard error of a change of the loss, as a part of the fall that N promises */
#define LOSS_NOISE 0.3

/* A loss rose if by more than so many standard errors: a false alarm in one step of 700. */
#define RISE_ERRORS 3.0

int ol_gain_init(struct ol_gain *gain, const struct ol_policy_opts *opts)
{
	*gain = (struct ol_gain){
		.lr = opts->lr,
		.share = opts->share,
		.carries = opts->late != OL_LATE_DROP,
		.loss_ratio = opts->loss_ratio,
		.window = opts->window,
		.smoothness_window = opts->smoothness_window,
		.factor = 1.0,
		.factor2 = 1.0,
		.norm2 = NAN,
		.variance = NAN,
		.smoothness = NAN,
		.loss = NAN,
		.drive = NAN,
	};
	gain->steps = calloc(STEPS_MAX, sizeof(*gain->steps));
	return gain->steps == NULL ? -ENOMEM : 0;
}

void ol_gain_fini(struct ol_gain *gain)
{
	free(gain->steps);
	gain->steps = NULL;
}

void ol_gain_restart(struct ol_gain *gain)
{
	gain->count = 0;
}

/* The step that was made `age` steps before the last one */
static struct ol_gain_step *step_at(const struct ol_gain *gain, uint32_t age)
{
	return &gain->steps[(gain->newest + STEPS_MAX - age) % STEPS_MAX];
}

/* How many of the last steps hold so many gradients; at most all that are known */
static uint32_t steps_of(const struct ol_gain *gain, uint64_t gradients)
{
	uint64_t sum = 0;
	uint32_t steps = 0;

	while (steps < gain->count && sum < gradients)
		sum += step_at(gain, steps++)->count;
	return steps;
}

static void variance_estimate(struct ol_gain *gain, uint32_t steps)
{
	double squares = 0.0, spread = 0.0, freedom = 0.0, loss_freedom = 0.0;

	/* steps of one gradient have none: a step of two in a while is not enough by itself */
	for (uint32_t i = 0; i < steps || (i < gain->count && freedom < FREEDOM_LEAST); i++) {
		const struct ol_gain_step *step = step_at(gain, i);

		if (!isnan(step->squares) && step->count > 1) {
			squares += step->squares;
			freedom += step->freedom;
		}
	}
	for (uint32_t i = 0; i < steps; i++) {
		spread += step_at(gain, i)->loss_spread;
		loss_freedom += step_at(gain, i)->loss_freedom;
	}
	if (freedom > 0.0)
		gain->variance = squares / freedom;
	if (loss_freedom > 0.0)
		gain->loss_variance = spread / loss_freedom;
}

/* The factors of a gradient: what is in flight is as old as what came before it */
static void factors_estimate(struct ol_gain *gain, uint32_t steps)
{
	double factor = 0.0, factor2 = 0.0, gradients = 0.0;

	for (uint32_t i = 0; i < steps; i++) {
		const struct ol_gain_step *step = step_at(gain, i);

		gradients += step->count;
		factor += step->count * step->factor;
		factor2 += step->count * step->factor2;
	}
	gain->factor = factor / gradients;
	gain->factor2 = factor2 / gradients;
}

/* Estimate N from E mean2 = s^2 N + q V / k, with s and q the means of factors and their squares; a
 * step's weight is its number of gradients. */
static void norm_estimate(struct ol_gain *gain, uint32_t steps)
{
	double mean2 = 0.0, gradients = 0.0, known = 0.0;

	for (uint32_t i = 0; i < steps; i++) {
		const struct ol_gain_step *step = step_at(gain, i);

		if (isnan(step->mean2))
			continue;
		mean2 += step->count * step->mean2;
		gradients += step->count * step->factor * step->factor;
		known += step->factor2;
	}
	if (!(known > 0.0) || isnan(gain->variance))
		return;
	/* N is not below 0. So single gradients, which do not show V, may show that it fell */
	gain->variance = fmin(gain->variance, mean2 / known);
	gain->norm2 = (mean2 - gain->variance * known) / gradients;
}

/* Sums over the steps between neighbouring ones whose loss is known */
struct between {
	double norm2; /* s N */
	double mean2;
	double factor; /* s */
};

/* Sums over a window, weighted by a triangle */
struct sums {
	double change; /* of the loss, by this server's share */
	double descent; /* lr s N */
	double mean2;
	double weight; /* times s */
	double noise; /* of change: squared, in variances of one gradient's loss */
};

static void between_add(const struct ol_gain *gain, const struct ol_gain_step *step,
			struct between *between)
{
	between->norm2 +=
		(step->mean2 - gain->variance * step->factor2 / step->count) / step->factor;
	between->mean2 += step->mean2;
	between->factor += step->factor;
}

static struct sums pairs_sum(const struct ol_gain *gain, uint32_t pairs)
{
	const struct ol_gain_step *to = step_at(gain, 0);
	struct between between = { 0 };
	struct sums sums = { 0 };
	double weight_before = 0.0;

	for (uint32_t i = 0; i < pairs; i++) {
		const struct ol_gain_step *from = step_at(gain, i + 1);
		double weight = i + 1 < pairs - i ? i + 1 : pairs - i;

		between_add(gain, from, &between);
		/* where gradients are carried, the losses of the newest steps come later */
		if (gain->carries && isnan(from->loss) && !isnan(from->mean2))
			continue;
		if (!isnan(to->loss) && !isnan(from->loss) && !isnan(between.mean2)) {
			sums.change += weight * gain->share * (to->loss - from->loss);
			sums.descent += weight * gain->lr * between.norm2;
			sums.mean2 += weight * between.mean2;
			sums.weight += weight * between.factor;
			sums.noise +=
				(weight - weight_before) * (weight - weight_before) / to->losses;
			weight_before = weight;
		}
		to = from;
		between = (struct between){ 0 };
	}
	if (weight_before > 0.0)
		sums.noise += weight_before * weight_before / to->losses;
	sums.noise *= gain->share * gain->share;
	return sums;
}

/*
 * For a step from t to t + 1 the gain's formula, taken as an equality, gives
 *
 *	loss_t+1 - loss_t + lr N_t = L / 2 lr^2 (N_t + V / k_t) = L / 2 lr^2 mean2_t
 *
 * Both sides are summed over a window. With triangular weights the sum of the differences is the
 * mean loss of the window's second half less that of its first. The window is the shortest in which
 * their noise is small beside the fall that N promises: short while the loss falls fast, else long.
 */
static void smoothness_estimate(struct ol_gain *gain)
{
	uint32_t most = steps_of(gain, gain->smoothness_window), pairs;
	uint64_t gradients = WINDOW_LEAST;
	double half = gain->lr * gain->lr / 2.0;
	struct sums sums;

	if (most >= gain->count)
		most = gain->count - 1; /* no step is known before the oldest */
	do {
		pairs = steps_of(gain, gradients);
		pairs = pairs > PAIRS_LEAST ? pairs : PAIRS_LEAST;
		pairs = pairs < most ? pairs : most;
		sums = pairs_sum(gain, pairs);
		gradients *= 2;
	} while (pairs < most &&
		 !(sqrt(sums.noise * gain->loss_variance) < LOSS_NOISE * sums.descent));
	if (!(sums.mean2 > 0.0) || isnan(sums.descent))
		return;
	gain->smoothness = fmax((sums.change + sums.descent) / (half * sums.mean2), 0.0);
	gain->drive =
		(gain->smoothness * half * sums.mean2 - sums.change) / (gain->lr * sums.weight);
}

/* Whether the loss grew by more than loss_ratio allows, and by more than its noise. */
static bool loss_rose(const struct ol_gain *gain)
{
	const struct ol_gain_step *to, *from;
	double rise, error;
	uint32_t i = 0;

	/* where gradients are carried, the losses of the newest steps come later */
	while (gain->carries && i < gain->count && isnan(step_at(gain, i)->loss))
		i++;
	if (i + 1 >= gain->count || !gain->has_news)
		return false;
	to = step_at(gain, i);
	from = step_at(gain, i + 1);
	if (isnan(to->loss) || isnan(from->loss))
		return false;
	rise = to->loss - from->loss;
	error = sqrt(gain->loss_variance * (1.0 / to->losses + 1.0 / from->losses));
	return rise > (gain->loss_ratio - 1.0) * fabs(from->loss) && rise > RISE_ERRORS * error;
}

static bool norms_known(const struct ol_gain_input *input)
{
	return input->count > 0 && isfinite(input->norm2_sum) && isfinite(input->norm2_mean) &&
	       input->norm2_sum > 0.0 && input->norm2_mean >= 0.0;
}

void ol_gain_on_step(struct ol_gain *gain, const struct ol_gain_input *input)
{
	struct ol_gain_step step = {
		.count = input->count,
		.factor = input->factor,
		.factor2 = input->factor2,
		.squares = NAN,
		.mean2 = NAN,
		.loss = input->losses > 0 && isfinite(input->loss) ? input->loss : NAN,
		.losses = input->losses > 0 && isfinite(input->loss_spread) ? input->losses : 0,
	};
	uint32_t window;

	if (step.losses > 1) {
		step.loss_freedom = step.losses - 1;
		step.loss_spread = input->loss_spread;
	}
	if (norms_known(input)) {
		const double part = step.factor * step.factor / step.factor2;

		step.squares =
			fmax(part * input->norm2_sum - input->count * input->norm2_mean, 0.0);
		step.freedom = input->count * step.factor * step.factor - step.factor2;
		step.mean2 = input->norm2_mean;
	}
	gain->variance_age = step.mean2 >= 0.0 && step.count > 1 ? 0 : gain->variance_age + 1;
	gain->newest = (gain->newest + 1) % STEPS_MAX;
	gain->count += gain->count < STEPS_MAX;
	*step_at(gain, 0) = step;
	window = steps_of(gain, gain->window);
	factors_estimate(gain, window);
	variance_estimate(gain, window);
	norm_estimate(gain, window);
	smoothness_estimate(gain);
	gain->has_news = gain->has_news || !isnan(step.loss);
	gain->rose = loss_rose(gain);
	gain->has_news = false;
	if (!isnan(step.loss))
		gain->loss = step.loss;
}

void ol_gain_on_late(struct ol_gain *gain, uint64_t age, double loss)
{
	struct ol_gain_step *step;
	double off;

	if (age >= gain->count || !isfinite(loss))
		return;
	step = step_at(gain, (uint32_t)age);
	if (step->losses == 0 && !gain->carries)
		return;
	off = step->losses == 0 ? 0.0 : loss - step->loss;
	if (step->losses++ == 0)
		step->loss = loss;
	step->loss += off / step->losses;
	if (!gain->carries)
		return;
	gain->has_news = gain->has_news || step->losses == 1;
	step->loss_spread += off * (loss - step->loss);
	step->loss_freedom += step->losses > 1;
}

double ol_gain_expect(const struct ol_gain *gain, double k)
{
	double half = gain->smoothness * gain->lr * gain->lr / 2.0;

	return (gain->lr * gain->factor - half * gain->factor * gain->factor) * gain->drive -
	       half * gain->variance * gain->factor2 / k;
}
