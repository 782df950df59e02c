/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_claims.c -- the published claims, judged by fixed criteria
 *
 * "Training Through Failure" (arXiv 2406.05546), claims numbered as the project's study of it
 * does. The thresholds below were fixed beforehand, and follow from what was published; a row
 * that they refuse is a result.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outlast/drill.h"

static const double nearly_every = 0.9; /* of trials */
static const double early_loss = 1.5; /* test loss before the kill: above it is early */
static const double start_max_s = 8.0; /* published: 3 to 8 s behind the time down */
static const double rate_kept = 0.9; /* of the rate before, in an outage */
static const double rate_idle = 0.1;
static const double surplus_tolerance = 0.2; /* of outage x rate */
static const double folded_max = 2.0; /* gradients' memory a worker: O(1) */
static const double queue_tolerance = 0.1; /* of m gradients' memory a worker */
static const double first_accuracy_min = 0.05; /* of untrained weights: 0.056 to 0.22 published */
static const double first_accuracy_max = 0.22;
static const double leap_min = 0.05; /* mean rise of accuracy at an early recovery */
static const double leap_max = 0.15;

enum {
	QUEUE_TELLING = 10 /* gradients a worker in an outage, from which m and O(1) differ */
};

enum {
	TRIALS_MAX = 4 /* kinds a claim */
};

struct judge {
	const struct drill_plan *plan;
	const struct drill_set *set;
	double *values; /* room for the trials of a claim */
	size_t each; /* kind may have so many */
	size_t used; /* kinds, by the claim at hand */
};

/* Trials of a claim: one value each, and how many of them did what is claimed. */
struct trials {
	double *value;
	size_t count;
	size_t good;
};

static struct trials trials_take(struct judge *judge)
{
	return (struct trials){ .value = judge->values + judge->each * judge->used++ };
}

static void trial(struct trials *trials, double value, bool good)
{
	if (isnan(value))
		return;
	trials->value[trials->count++] = value;
	trials->good += good;
}

void drill_claim_add(struct drill_claim *claim, const char *format, ...)
{
	size_t len = strlen(claim->numbers);
	va_list list;

	va_start(list, format);
	vsnprintf(claim->numbers + len, sizeof(claim->numbers) - len, format, list);
	va_end(list);
}

void drill_decide(struct drill_claim *claim, bool confirmed)
{
	claim->verdict = confirmed ? DRILL_CONFIRMED : DRILL_NOT_CONFIRMED;
}

void drill_cannot(struct drill_claim *claim, const char *format, ...)
{
	va_list list;

	claim->verdict = DRILL_CANNOT_JUDGE;
	va_start(list, format);
	vsnprintf(claim->because, sizeof(claim->because), format, list);
	va_end(list);
}

/* False, with the reason: too few trials to say what is usual */
static bool enough(struct drill_claim *claim, size_t count, const char *of)
{
	if (count >= DRILL_TRIALS_MIN)
		return true;
	drill_cannot(claim, "%s: %zu, and a verdict takes %d", of, count, DRILL_TRIALS_MIN);
	return false;
}

static bool mostly(const struct trials *trials)
{
	return (double)trials->good >= nearly_every * (double)trials->count;
}

static bool is_of(const struct drill_run *run, const char *strategy)
{
	return run->status == DRILL_DONE && strcmp(run->of->strategy->name, strategy) == 0;
}

/* Gradients lost in the k-th outage; from the time line where the report does not say */
static double lost_in(const struct drill_run *run, size_t k)
{
	double end = k + 1 < run->outage_count ? run->outages[k + 1].killed_s : INFINITY;

	if (!isnan(run->outages[k].lost))
		return run->outages[k].lost;
	return drill_line_at(&run->line, DRILL_LOST, end) -
	       drill_line_at(&run->line, DRILL_LOST, run->outages[k].killed_s);
}

/*
 * The loss goes up, and what is lost are the steps since the last copy. Returns whether that is so;
 * *ret_count: of how many recoveries.
 */
static bool rollback_look(struct judge *judge, struct drill_claim *claim, const char *strategy,
			  const char *of, size_t *ret_count)
{
	const double every = judge->set->checkpoint_every;
	struct trials loss = trials_take(judge);
	struct trials lost = trials_take(judge);
	struct drill_moments m;
	double bound;

	for (size_t i = 0; i < judge->plan->run_count; i++) {
		const struct drill_run *run = &judge->plan->runs[i];
		double a_step = run->of->sync ? run->of->workers : 1.0;

		if (!is_of(run, strategy) || run->of->kills == 0)
			continue;
		for (size_t k = 0; k < run->outage_count; k++) {
			double step = run->outages[k].loss_after - run->outages[k].loss_before;
			double steps = lost_in(run, k) / a_step;

			trial(&loss, step, step > 0.0);
			trial(&lost, steps, steps >= 0.0 && steps <= every - 1.0);
		}
	}
	m = drill_moments(lost.value, lost.count);
	/* of steps that are equally likely to be any of them */
	bound = 2.0 * sqrt((every * every - 1.0) / 12.0) / sqrt((double)lost.count);
	*ret_count = loss.count < lost.count ? loss.count : lost.count;
	if (*ret_count == 0)
		return false;
	drill_claim_add(
		claim,
		"%sloss higher in %zu of %zu recoveries (mean %+.4f); steps lost a kill: mean %.1f, "
		"%.0f to %.0f, %zu of %zu in range; two standard errors %.1f",
		of, loss.good, loss.count, drill_moments(loss.value, loss.count).mean, m.mean,
		m.min, m.max, lost.good, lost.count, bound);
	return mostly(&loss) && mostly(&lost) && fabs(m.mean - (every - 1.0) / 2.0) <= bound;
}

/* R2: from a checkpoint; and from the copy that a chain had last, where there are enough of
 * these */
static void judge_rollback(struct judge *judge, struct drill_claim *claim)
{
	size_t count, chains;
	bool good = rollback_look(judge, claim, "checkpoint", "", &count);
	bool copied = rollback_look(judge, claim, "chain-periodic",
				    count > 0 ? "; periodic chain: " : "periodic chain: ", &chains);

	if (enough(claim, count, "recoveries from a checkpoint"))
		drill_decide(claim, good && (copied || chains < DRILL_TRIALS_MIN));
}

/* Stateless runs with kills, of one consistency */
struct queue_sums {
	size_t runs;
	size_t good;
	double lost;
	double queued;
	double replayed;
	double dropped;
};

static struct queue_sums queue_sums(const struct drill_plan *plan, bool sync)
{
	struct queue_sums sums = { 0 };

	for (size_t i = 0; i < plan->run_count; i++) {
		const struct drill_run *run = &plan->runs[i];
		const double *f = run->figure;

		if (run->status != DRILL_DONE || !run->of->strategy->stateless ||
		    run->of->kills == 0 || run->of->sync != sync || isnan(f[DRILL_F_QUEUED]) ||
		    isnan(f[DRILL_F_REPLAYED]))
			continue;
		sums.runs++;
		sums.good += f[DRILL_F_LOST] == 0.0 && f[DRILL_F_QUEUED] == f[DRILL_F_REPLAYED];
		sums.lost += f[DRILL_F_LOST];
		sums.queued += f[DRILL_F_QUEUED];
		sums.replayed += f[DRILL_F_REPLAYED];
		sums.dropped += f[DRILL_F_DROPPED];
	}
	return sums;
}

static void queue_numbers(struct drill_claim *claim, const char *of, const struct queue_sums *sums)
{
	if (sums->runs > 0)
		drill_claim_add(
			claim,
			"%s%s: lost %.0f, queued %.0f, replayed %.0f, dropped and counted %.0f; as "
			"claimed %zu of %zu runs",
			claim->numbers[0] != '\0' ? "; " : "", of, sums->lost, sums->queued,
			sums->replayed, sums->dropped, sums->good, sums->runs);
}

/* R3: an exact claim, so one run against it is enough. */
static void judge_nothing_lost(struct judge *judge, struct drill_claim *claim)
{
	struct queue_sums async = queue_sums(judge->plan, false);
	struct queue_sums sync = queue_sums(judge->plan, true);

	queue_numbers(claim, "async", &async);
	queue_numbers(claim, "sync", &sync);
	if (async.good < async.runs)
		drill_decide(claim, false);
	else if (!enough(claim, async.runs, "asynchronous stateless runs with kills"))
		return;
	else if (async.queued == 0.0)
		drill_cannot(claim, "no gradient was queued");
	else
		drill_decide(claim, true);
}

struct leap {
	struct trials loss;
	struct trials accuracy;
};

static void leap_collect(struct judge *judge, const char *strategy, bool early, struct leap *leap)
{
	for (size_t i = 0; i < judge->plan->run_count; i++) {
		const struct drill_run *run = &judge->plan->runs[i];

		for (size_t k = 0; is_of(run, strategy) && !run->of->sync && k < run->outage_count;
		     k++) {
			const struct drill_outage *o = &run->outages[k];
			double loss = o->loss_after - o->loss_before;
			double accuracy = o->accuracy_after - o->accuracy_before;

			if (isnan(o->loss_before) || (o->loss_before > early_loss) != early)
				continue;
			trial(&leap->loss, loss, early ? loss < 0.0 : loss > 0.0);
			trial(&leap->accuracy, accuracy, early ? accuracy > 0.0 : accuracy < 0.0);
		}
	}
}

static void leap_numbers(struct drill_claim *claim, const char *of, const struct leap *leap,
			 bool early)
{
	struct drill_moments loss = drill_moments(leap->loss.value, leap->loss.count);
	struct drill_moments accuracy = drill_moments(leap->accuracy.value, leap->accuracy.count);

	if (leap->loss.count == 0 || leap->accuracy.count == 0)
		return;
	drill_claim_add(claim,
			"%s%s: loss %s in %zu of %zu (mean %+.4f), accuracy %s in %zu of %zu "
			"(mean %+.4f, %+.4f to %+.4f)",
			claim->numbers[0] != '\0' ? "; " : "", of, early ? "lower" : "higher",
			leap->loss.good, leap->loss.count, loss.mean, early ? "higher" : "lower",
			leap->accuracy.good, leap->accuracy.count, accuracy.mean, accuracy.min,
			accuracy.max);
}

/* R4, one half: by the published rule; the default rule is shown beside it. */
static void judge_leap(struct judge *judge, struct drill_claim *claim, bool early)
{
	struct leap published = { trials_take(judge), trials_take(judge) };
	struct leap own = { trials_take(judge), trials_take(judge) };
	double mean;

	leap_collect(judge, "stateless-published", early, &published);
	leap_collect(judge, "stateless", early, &own);
	leap_numbers(claim, "published rule", &published, early);
	leap_numbers(claim, "default rule", &own, early);
	if (!enough(claim, published.accuracy.count,
		    early ? "recoveries by the published rule from a loss above 1.5"
			  : "recoveries by the published rule from a loss of at most 1.5"))
		return;
	mean = drill_moments(published.accuracy.value, published.accuracy.count).mean;
	if (early)
		drill_decide(claim,
			     mostly(&published.loss) && mean >= leap_min && mean <= leap_max);
	else
		drill_decide(claim, mostly(&published.accuracy));
}

static void judge_early(struct judge *judge, struct drill_claim *claim)
{
	judge_leap(judge, claim, true);
}

static void judge_late(struct judge *judge, struct drill_claim *claim)
{
	judge_leap(judge, claim, false);
}

/* R5: the time down and a start-up. A chain waits for neither: how long it takes is shown. */
static void judge_downtime(struct judge *judge, struct drill_claim *claim)
{
	struct trials start = trials_take(judge);
	struct trials chain = trials_take(judge);

	for (size_t i = 0; i < judge->plan->run_count; i++) {
		const struct drill_run *run = &judge->plan->runs[i];

		for (size_t k = 0; run->status == DRILL_DONE && k < run->outage_count; k++) {
			const struct drill_outage *o = &run->outages[k];
			double more = o->first_applied_s - o->killed_s - judge->set->down;

			if (run->of->strategy->replicas > 0) {
				trial(&chain, o->first_applied_s - o->killed_s, true);
				continue;
			}
			trial(&start, more, more >= 0.0 && more <= start_max_s);
		}
	}
	if (start.count > 0)
		drill_claim_add(
			claim,
			"down %g s; behind it until the first gradient applied: median %.3f s, "
			"most %.3f s, %zu outages",
			judge->set->down, drill_quantile(start.value, start.count, 0.5),
			drill_quantile(start.value, start.count, 1.0), start.count);
	if (chain.count > 0)
		drill_claim_add(
			claim,
			"%schains, not judged: median %.3f s, most %.3f s in all, %zu outages",
			start.count > 0 ? "; " : "", drill_quantile(chain.value, chain.count, 0.5),
			drill_quantile(chain.value, chain.count, 1.0), chain.count);
	if (enough(claim, start.count, "outages"))
		drill_decide(claim, mostly(&start));
}

static void used_numbers(struct drill_claim *claim, const char *of, const struct trials *used)
{
	struct drill_moments m = drill_moments(used->value, used->count);

	if (m.count > 0)
		drill_claim_add(claim, "%s%s: mean %.3f, %.3f to %.3f, %zu of %zu as claimed",
				claim->numbers[0] != '\0' ? "; " : "", of, m.mean, m.min, m.max,
				used->good, used->count);
}

/* R6: workers compute through an outage, or stand still. */
static void judge_utilisation(struct judge *judge, struct drill_claim *claim)
{
	struct trials go = trials_take(judge);
	struct trials wait = trials_take(judge);

	for (size_t i = 0; i < judge->plan->run_count; i++) {
		const struct drill_run *run = &judge->plan->runs[i];
		double used = run->figure[DRILL_F_UTILISATION];

		/* a chain is back before anything that takes a while can be said of its outage */
		if (run->status != DRILL_DONE || run->of->kills == 0 ||
		    run->of->strategy->replicas > 0 || isnan(used))
			continue;
		if (run->of->strategy->stateless)
			trial(&go, used, used >= rate_kept);
		else
			trial(&wait, used, used <= rate_idle);
	}
	used_numbers(claim, "stateless", &go);
	used_numbers(claim, "waiting", &wait);
	if (enough(claim, go.count, "stateless runs with kills") &&
	    enough(claim, wait.count, "waiting runs with kills"))
		drill_decide(claim, mostly(&go) && mostly(&wait));
}

/* The same run but for its strategy; NULL: there is none that is done */
static const struct drill_run *twin(const struct drill_plan *plan, const struct drill_run *run,
				    const char *strategy)
{
	for (size_t i = 0; i < plan->run_count; i++) {
		const struct drill_run *other = &plan->runs[i];

		if (is_of(other, strategy) && other->seed == run->seed &&
		    other->of->sync == run->of->sync && other->of->kills == run->of->kills &&
		    other->of->workers == run->of->workers)
			return other;
	}
	return NULL;
}

static double time_down_s(const struct drill_run *run)
{
	double sum = 0.0;

	for (size_t i = 0; i < run->outage_count; i++)
		sum += run->outages[i].first_applied_s - run->outages[i].killed_s;
	return sum;
}

/* R7: the surplus is what is computed in the outage, no more. */
static void judge_surplus(struct judge *judge, struct drill_claim *claim)
{
	struct trials surplus = trials_take(judge);
	struct trials expected = trials_take(judge);
	struct trials error = trials_take(judge);
	struct drill_moments s, x, e;

	for (size_t i = 0; i < judge->plan->run_count; i++) {
		const struct drill_run *run = &judge->plan->runs[i];
		const struct drill_run *other = twin(judge->plan, run, "checkpoint");
		double more, want;

		if (!is_of(run, "stateless") || run->of->kills == 0 || other == NULL)
			continue;
		more = run->figure[DRILL_F_COMPUTED] - other->figure[DRILL_F_COMPUTED];
		want = run->figure[DRILL_F_RATE_BEFORE] * time_down_s(other);
		if (isnan(more) || isnan(want))
			continue;
		trial(&surplus, more, more > 0.0);
		trial(&expected, want, true);
		trial(&error, more - want, true);
	}
	s = drill_moments(surplus.value, surplus.count);
	x = drill_moments(expected.value, expected.count);
	e = drill_moments(error.value, error.count);
	if (surplus.count > 0)
		drill_claim_add(
			claim,
			"surplus positive in %zu of %zu pairs, mean %.0f; outage x rate %.0f; mean "
			"error %+.0f, two standard errors %.0f",
			surplus.good, surplus.count, s.mean, x.mean, e.mean, 2.0 * drill_se(&e));
	if (enough(claim, surplus.count, "pairs of a stateless and a checkpoint run"))
		drill_decide(claim,
			     mostly(&surplus) && (fabs(e.mean) <= 2.0 * drill_se(&e) ||
						  fabs(e.mean) <= surplus_tolerance * x.mean));
}

/* R8: as many gradients as are queued, or no more than a constant. */
static void judge_memory(struct judge *judge, struct drill_claim *claim)
{
	struct trials folded = trials_take(judge);
	struct trials each = trials_take(judge);

	for (size_t i = 0; i < judge->plan->run_count; i++) {
		const struct drill_run *run = &judge->plan->runs[i];
		double workers = run->of->workers;
		double mb = run->param_count * 4.0 / 1048576.0;
		double held = run->figure[DRILL_F_QUEUE_MB] / mb / workers;
		double m = run->figure[DRILL_F_QUEUED] / workers / run->of->kills;

		if (run->status != DRILL_DONE || !run->of->strategy->stateless ||
		    run->of->kills == 0 || isnan(held) || !(m >= QUEUE_TELLING))
			continue;
		trial(&folded, held, held <= folded_max);
		trial(&each, m, fabs(held - m) <= queue_tolerance * m);
	}
	if (folded.count > 0)
		drill_claim_add(
			claim,
			"queue a worker: most %.2f gradients' memory, with a mean of %.0f gradients "
			"queued in an outage; constant in %zu, in proportion in %zu of %zu runs",
			drill_moments(folded.value, folded.count).max,
			drill_moments(each.value, each.count).mean, folded.good, each.good,
			folded.count);
	if (enough(claim, folded.count, "stateless runs that queued ten gradients a worker"))
		drill_decide(claim, mostly(&folded) || mostly(&each));
}

static void two_kills(struct judge *judge, const char *strategy, struct trials *end)
{
	for (size_t i = 0; i < judge->plan->run_count; i++) {
		const struct drill_run *run = &judge->plan->runs[i];

		if (is_of(run, strategy) && run->of->kills == 2)
			trial(end, run->figure[DRILL_F_ACCURACY], true);
	}
}

/* R9: what a restore that does not restore does, and whether one that does still lags. */
static void judge_two_kills(struct judge *judge, struct drill_claim *claim)
{
	struct trials fault = trials_take(judge);
	struct trials with = trials_take(judge);
	struct trials without = trials_take(judge);
	struct trials other = trials_take(judge);
	struct drill_moments a, b, c;

	for (size_t i = 0; i < judge->plan->run_count; i++) {
		const struct drill_run *run = &judge->plan->runs[i];

		for (size_t k = 0; is_of(run, "checkpoint-norestore") && k < run->outage_count;
		     k++) {
			double got = run->outages[k].accuracy_after;

			trial(&fault, got, got >= first_accuracy_min && got <= first_accuracy_max);
		}
	}
	two_kills(judge, "checkpoint", &with);
	two_kills(judge, "checkpoint-norestore", &without);
	two_kills(judge, "stateless", &other);
	if (fault.count == 0) {
		enough(claim, 0, "recoveries without a restore");
		return;
	}
	a = drill_moments(with.value, with.count);
	b = drill_moments(without.value, without.count);
	c = drill_moments(other.value, other.count);
	drill_claim_add(claim,
			"without restore accuracy after the kill is %.3f on average, %zu of %zu in "
			"range; at the end of two kills: checkpoint %.4f, without restore %.4f, "
			"stateless %.4f",
			drill_moments(fault.value, fault.count).mean, fault.good, fault.count,
			a.mean, b.mean, c.mean);
	if (a.count > 1 && c.count > 1)
		drill_claim_add(claim,
				"; with a correct restore checkpointing %s (difference %+.4f, two "
				"standard errors %.4f)",
				c.mean - a.mean > 2.0 * hypot(drill_se(&a), drill_se(&c))
					? "still lags"
					: "does not lag beyond seed noise",
				a.mean - c.mean, 2.0 * hypot(drill_se(&a), drill_se(&c)));
	if (enough(claim, fault.count, "recoveries without a restore"))
		drill_decide(claim, mostly(&fault));
}

/* Mean accuracy of the last five evaluations until so many gradients are in the weights */
static double accuracy_at(const struct drill_run *run, double applied)
{
	double last[5];
	size_t count = 0;

	for (size_t i = 0; i < run->eval_count; i++) {
		double now = drill_line_at(&run->line, DRILL_APPLIED, run->evals[i].t_s);

		if (now <= applied)
			last[count++ % 5] = run->evals[i].accuracy;
	}
	return drill_moments(last, count < 5 ? count : 5).mean;
}

static struct drill_moments accuracy_of(const struct drill_plan *plan, const struct drill_case *of,
					double applied)
{
	double value[DRILL_LIST_MAX];
	size_t count = 0;

	for (size_t i = 0; i < plan->run_count && count < DRILL_LIST_MAX; i++) {
		if (plan->runs[i].of == of && plan->runs[i].status == DRILL_DONE)
			value[count++] = accuracy_at(&plan->runs[i], applied);
	}
	return drill_moments(value, count);
}

static bool comparable(const struct drill_case *a, const struct drill_case *b)
{
	return !a->strategy->fault && !b->strategy->fault && a->sync == b->sync &&
	       a->workers == b->workers &&
	       (a->kills == b->kills || a->strategy->kills_max == 0 || b->strategy->kills_max == 0);
}

/* R10: pairs of methods at as many gradients as the shortest run of either has. */
static void judge_final(struct judge *judge, struct drill_claim *claim)
{
	const struct drill_plan *plan = judge->plan;
	size_t pairs = 0, beyond = 0, better = 0;
	double most = 0.0;

	for (size_t i = 0; i < plan->case_count; i++) {
		for (size_t j = 0; j < i; j++) {
			const struct drill_case *a = &plan->cases[i], *b = &plan->cases[j];
			double n = fmin(drill_case_figure(plan, a, DRILL_F_APPLIED).min,
					drill_case_figure(plan, b, DRILL_F_APPLIED).min);
			struct drill_moments x = accuracy_of(plan, a, n);
			struct drill_moments y = accuracy_of(plan, b, n);
			double noise = 2.0 * hypot(drill_se(&x), drill_se(&y));
			double more = x.mean - y.mean;

			if (!comparable(a, b) || x.count < DRILL_TRIALS_MIN ||
			    y.count < DRILL_TRIALS_MIN)
				continue;
			pairs++;
			beyond += fabs(more) > noise;
			better += fabs(more) > noise && (more > 0.0 ? a : b)->strategy->stateless;
			most = fmax(most, fabs(more));
		}
	}
	if (pairs == 0) {
		drill_cannot(claim, "no two methods have %d seeds each", DRILL_TRIALS_MIN);
		return;
	}
	drill_claim_add(claim,
			"%zu pairs of methods, %zu apart by more than two standard errors, in %zu "
			"of them a stateless one is ahead; the widest is %.4f apart",
			pairs, beyond, better, most);
	drill_decide(claim, (double)(pairs - beyond) >= nearly_every * (double)pairs);
}

struct row {
	const char *id;
	const char *claim;
	const char *criterion;
	void (*judge)(struct judge *judge, struct drill_claim *claim);
};

static const struct row rows[DRILL_CLAIMS] = {
	{ "R2", "recovery from a checkpoint, or from a chain's last copy, costs the steps since it",
	  "loss after > loss before in at least 90 % of recoveries; steps lost a kill within 0 and "
	  "the interval - 1 in at least 90 %, and their mean within two standard errors of half of "
	  "that",
	  judge_rollback },
	{ "R3", "the stateless mode loses nothing",
	  "in every asynchronous stateless run with kills (no other was published; synchronous ones "
	  "are shown): lost = 0, and queued = replayed. That the weights are the same bits is for "
	  "the tests to show",
	  judge_nothing_lost },
	{ "R4, early", "at an early kill the queue's sum, applied by the published rule, is a leap",
	  "asynchronous kills at a loss above 1.5: loss after < loss before in at least 90 % of recoveries, and "
	  "accuracy rises by 0.05 to 0.15 on average",
	  judge_early },
	{ "R4, late", "at a late kill the published rule is an over-step",
	  "asynchronous kills at a loss of at most 1.5: accuracy after < accuracy before in at least 90 % of "
	  "recoveries",
	  judge_late },
	{ "R5", "an outage lasts for the time down and a start-up",
	  "first gradient applied 0 to 8 s (published: 3 to 8 s) behind the time down in at least "
	  "90 % of outages",
	  judge_downtime },
	{ "R6", "stateless workers compute through an outage, others stand still",
	  "rate in the outage / rate before at least 0.9 in 90 % of the stateless runs, and at most "
	  "0.1 in 90 % of the waiting ones",
	  judge_utilisation },
	{ "R7",
	  "the stateless mode computes more gradients, by outage x rate and not by five times",
	  "against checkpoint, same seed: more in at least 90 % of pairs; surplus less outage x "
	  "rate, on average, within two standard errors of 0 or within 20 %",
	  judge_surplus },
	{ "R8", "the queue's memory is m gradients, or constant if they are summed",
	  "peak a worker at most 2 gradients' memory (constant), or within 10 % of the m queued in "
	  "an outage, in at least 90 % of the stateless runs",
	  judge_memory },
	{ "R9", "the published gap after two kills comes from a restore that was left out",
	  "without restore accuracy after the kill is that of untrained weights, 0.05 to 0.22 with "
	  "ten classes, in at least 90 % of recoveries; whether a correct restore lags is shown",
	  judge_two_kills },
	{ "R10", "no method is better at equal gradients applied",
	  "mean accuracy of any two methods (same consistency, kills and workers; none against all) "
	  "within two standard errors, in at least 90 % of pairs; five seeds each",
	  judge_final },
};

void drill_claims_judge(const struct drill_plan *plan, const struct drill_set *set,
			struct drill_claim claims[DRILL_CLAIMS])
{
	struct judge judge = {
		.plan = plan,
		.set = set,
		.each = plan->run_count * DRILL_OUTAGES_MAX + 1,
	};

	judge.values = calloc(judge.each * TRIALS_MAX, sizeof(*judge.values));
	for (size_t i = 0; i < DRILL_CLAIMS; i++) {
		claims[i] = (struct drill_claim){
			.id = rows[i].id,
			.claim = rows[i].claim,
			.criterion = rows[i].criterion,
		};
		judge.used = 0;
		if (judge.values != NULL)
			rows[i].judge(&judge, &claims[i]);
		else
			drill_cannot(&claims[i], "there is no memory");
	}
	free(judge.values);
}

const char *drill_verdict_str(enum drill_verdict verdict)
{
	switch (verdict) {
	case DRILL_CONFIRMED:
		return "confirmed";
	case DRILL_NOT_CONFIRMED:
		return "not confirmed";
	case DRILL_CANNOT_JUDGE:
		break;
	}
	return "cannot be judged here";
}

/* One line for all that these runs cannot decide; their reasons are in the report as JSON */
static void unjudged_add(const struct drill_claim *claims, size_t count, struct drill_text *text)
{
	size_t named = 0;

	for (size_t i = 0; i < count; i++) {
		if (claims[i].verdict == DRILL_CANNOT_JUDGE)
			drill_add(text, "%s%s",
				  named++ > 0 ? "; " : "\nNot judged from these runs: ",
				  claims[i].id);
	}
	if (named > 0)
		drill_add(text, ". `--json` has the reason of each.\n");
}

bool drill_claims_markdown(const struct drill_claim *claims, size_t count, const char *source,
			   const char *command, struct drill_text *text)
{
	size_t judged = 0;

	drill_add(text,
		  "# Published claims\n\nOf %s. "
		  "The criteria are part of the program and were fixed beforehand.\n\n"
		  "Made by `%s`.\n",
		  source, command);
	for (size_t i = 0; i < count; i++) {
		const struct drill_claim *c = &claims[i];

		if (c->verdict == DRILL_CANNOT_JUDGE)
			continue;
		if (judged++ == 0)
			drill_add(text, "\n| | claim | criterion | numbers | verdict |\n"
					"| --- | --- | --- | --- | --- |\n");
		drill_add(text, "| %s | %s | %s | %s | %s |\n", c->id, c->claim, c->criterion,
			  c->numbers[0] != '\0' ? c->numbers : "-", drill_verdict_str(c->verdict));
	}
	unjudged_add(claims, count, text);
	return !text->failed;
}
