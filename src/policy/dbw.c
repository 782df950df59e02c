/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * dbw.c -- dynamic backup workers (Xu, Neglia, Sebastianelli 2020): chooses k by the largest gain a
 * second; the blind variant, by the most gradients a second
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "policy/sync.h"
#include "policy/times.h"

/* Scores that differ by less are a tie, which the largest k wins: gain and time are not known more
 * exactly, and more gradients do no harm. */
#define TIE 0.01

/* Another k has to promise so much more: the best of several scores is too high by chance, and the
 * time of a k that was never waited for is a guess */
#define CHANGE 0.05

enum {
	SINGLES = 64, /* steps of one gradient in a row, at most */
	FIRST_K = 2, /* shows the variance, and waits for nobody who is slow … */
	FIRST_STEPS = 16 /* … until the gain is known, at most; norms or losses may be missing */
};

struct dbw {
	struct ol_times *times;
	bool is_blind; /* gain is not used */
	uint32_t chosen; /* k by its score; steps may be of more for other reasons */
	struct ol_gain gain;
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

/* True if `chosen` stays, after a step of h: k promises too little more, and is not known to be free */
static bool is_kept(const struct ol_times *times, const struct ol_gain *gain, uint32_t h,
		    uint32_t chosen, uint32_t k)
{
	const uint32_t to = ol_times_level(times, k), from = ol_times_level(times, chosen);
	const double promised = score(times, gain, h, to);

	/* more gradients in the same time, as was seen: where times are equal, all of them */
	if (to > from && ol_times_seen(times, h, to) &&
	    ol_times_expect(times, h, to) <= (1.0 + TIE) * ol_times_expect(times, h, from))
		return false;
	return promised > 0.0 && promised < (1.0 + CHANGE) * score(times, gain, h, from);
}

/*
 * The k of the next step, after one of h gradients: the one with the largest score a second, at most `present`;
 * or that of the choice before, if it is not much worse. If no k is expected to gain, it is all workers.
 *
 * The score is the gain; of the blind, or where it has not become known, the number of gradients. Until then
 * steps are of FIRST_K gradients.
 */
static uint32_t choose(struct dbw *dbw, uint32_t h, uint32_t present)
{
	const struct ol_times *times = dbw->times;
	const struct ol_gain *gain = &dbw->gain;
	const uint32_t all = ol_times_k(times, ol_times_levels(times) - 1);
	const uint32_t more = h < all ? h + 1 : all, before = dbw->chosen;
	uint32_t k;

	if (dbw->is_blind || (isnan(ol_gain_expect(gain, 1.0)) && gain->count >= FIRST_STEPS))
		return best_k(times, NULL, h, present);
	if (isnan(ol_gain_expect(gain, 1.0)))
		return all < FIRST_K ? all : FIRST_K;
	k = best_k(times, gain, h, present);
	if (k != before && before <= present && is_kept(times, gain, h, before, k))
		k = before;
	dbw->chosen = k; /* what follows is for one step */
	if (gain->rose && k < more)
		k = more;
	/* steps of one gradient do not show the variance: now and then make a step of two */
	if (k == 1 && all > 1 && gain->variance_age >= SINGLES)
		k = 2;
	return k;
}

static const char *blind_fault(const struct ol_policy_opts *opts)
{
	const char *fault = ol_sync_fault(opts);

	return fault != NULL ? fault : ol_sync_estimates_fault(opts);
}

static const char *dbw_fault(const struct ol_policy_opts *opts)
{
	const char *fault = blind_fault(opts);

	if (fault != NULL)
		return fault;
	if (!(opts->lr > 0.0 && isfinite(opts->lr)))
		return "lr is not above 0: dbw needs it to estimate what a step gains";
	if (!(opts->loss_ratio >= 1.0 && opts->share > 0.0 && opts->share <= 1.0))
		return "loss_ratio is below 1, or share is not above 0 and at most 1";
	return NULL;
}

static int blind_init(struct ol_policy *policy)
{
	const struct ol_policy_opts *opts = &policy->opts;
	struct dbw *dbw = calloc(1, sizeof(*dbw));

	if (dbw == NULL)
		return -ENOMEM;
	policy->own = dbw;
	policy->k = opts->workers;
	dbw->is_blind = true;
	return ol_times_create(opts->workers, opts->workers_max, opts->decay,
			       opts->late != OL_LATE_DROP, &dbw->times);
}

static int dbw_init(struct ol_policy *policy)
{
	int rc = blind_init(policy);
	struct dbw *dbw = policy->own;

	if (rc != 0)
		return rc;
	dbw->is_blind = false;
	if (policy->k > FIRST_K)
		policy->k = FIRST_K;
	dbw->chosen = policy->k;
	return ol_gain_init(&dbw->gain, &policy->opts);
}

static void dbw_fini(struct ol_policy *policy)
{
	struct dbw *dbw = policy->own;

	if (dbw == NULL)
		return;
	ol_gain_fini(&dbw->gain);
	ol_times_destroy(dbw->times);
	free(dbw);
}

/* The last step that it is, or could be, a gradient of: that at the version of now, if what is late is carried */
static uint64_t last_version(const struct ol_policy *policy, const struct ol_arrival *arrival)
{
	const uint64_t bound = policy->opts.late_steps;

	if (policy->opts.late == OL_LATE_DROP)
		return arrival->base_version;
	return bound != 0 && arrival->version > arrival->base_version + bound
		       ? arrival->base_version + bound
		       : arrival->version;
}

static enum ol_verdict dbw_on_gradient(struct ol_policy *policy, const struct ol_arrival *arrival)
{
	struct dbw *dbw = policy->own;
	enum ol_verdict verdict;

	if (!arrival->queued && !arrival->again)
		ol_times_on_gradient(dbw->times, arrival->worker, arrival->base_version,
				     last_version(policy, arrival), arrival->now_ns);
	verdict = ol_sync_on_gradient(policy, arrival);
	/* its loss is of the step that it missed, whether it is dropped or of a later one */
	if (verdict != OL_VERDICT_WAIT && !dbw->is_blind && !arrival->queued && !arrival->again &&
	    arrival->base_version < policy->version)
		ol_gain_on_late(&dbw->gain, policy->version - 1 - arrival->base_version,
				(double)arrival->loss);
	return verdict;
}

static void dbw_on_update(struct ol_policy *policy, const struct ol_update *update)
{
	uint64_t before = policy->version;
	struct ol_gain_input input = ol_sync_step(policy, update);
	struct dbw *dbw = policy->own;

	ol_times_on_update(dbw->times, update->version, update->now_ns, update->count);
	if (update->count == 0)
		return;
	if (!dbw->is_blind) {
		if (update->version != before + 1)
			ol_gain_restart(&dbw->gain);
		ol_gain_on_step(&dbw->gain, &input);
	}
	policy->k = choose(dbw, policy->h, policy->present_count);
}

static void dbw_get_stat(const struct ol_policy *policy, struct ol_policy_stat *stat)
{
	const struct dbw *dbw = policy->own;

	stat->seconds = ol_times_expect(dbw->times, policy->h, ol_times_level(dbw->times, stat->k));
	if (dbw->is_blind)
		return;
	stat->norm2 = dbw->gain.norm2;
	stat->variance = dbw->gain.variance;
	stat->smoothness = dbw->gain.smoothness;
	stat->gain = ol_gain_expect(&dbw->gain, stat->k);
}

const struct ol_policy_kind ol_policy_dbw = {
	.wants_norms = true,
	.carries = true,
	.one_decides = true,
	.fault = dbw_fault,
	.init = dbw_init,
	.fini = dbw_fini,
	.on_join = ol_policy_no_join,
	.on_gradient = dbw_on_gradient,
	.on_update = dbw_on_update,
	.get_stat = dbw_get_stat,
};

const struct ol_policy_kind ol_policy_dbw_blind = {
	.carries = true,
	.one_decides = true,
	.fault = blind_fault,
	.init = blind_init,
	.fini = dbw_fini,
	.on_join = ol_policy_no_join,
	.on_gradient = dbw_on_gradient,
	.on_update = dbw_on_update,
	.get_stat = dbw_get_stat,
};
