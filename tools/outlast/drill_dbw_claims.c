/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_dbw_claims.c -- the published claims, judged by fixed criteria
 *
 * "Dynamic Backup Workers for Parallel Machine Learning" (arXiv 2004.14696), claims numbered as the
 * project's study of it does. The thresholds below were fixed beforehand.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "outlast/drill.h"
#include "outlast/drill_dbw.h"

enum {
	TIME_STEPS_MIN = 40000
};

static const double psi_tolerance = 0.01, psw_tolerance = 0.02;
static const double all_share_min = 0.9, all_time_max = 1.05;
static const double static_n_min = 2.0; /* D5: "far better than static n" */
static const double tuned_max = 1.2; /* D7 */
static const double headline_min = 2.0; /* D9 */
static const double slow_steps_max = 50.0, slow_step_max = 1.5, slow_all_min = 4.0;

static bool enough(const struct dbw_study *study, struct drill_claim *claim)
{
	if (study->trials >= DRILL_TRIALS_MIN && study->preset > 0)
		return true;
	drill_cannot(claim, "fewer than 5 seeds, or not all settings: --preset quick is a trial");
	return false;
}

static void figure(struct drill_claim *claim, struct dbw_figure f)
{
	drill_claim_add(claim, "%.2f (%.2f to %.2f)", f.mean, f.low, f.high);
}

/* The next setting of a group behind *at; NULL: no more */
static const struct dbw_setting *next(const struct dbw_study *study, enum dbw_group group,
				      size_t *at)
{
	while (*at < study->setting_count) {
		const struct dbw_setting *setting = &study->settings[(*at)++];

		if (setting->group == group)
			return setting;
	}
	return NULL;
}

static void times_judge(const struct dbw_study *study, struct drill_claim *claim)
{
	double psi = 0.0, psw = 0.0;

	for (size_t i = 0; i < study->time_count; i++) {
		const struct dbw_time *time = &study->times[i];

		psi = fmax(psi, fabs(time->psi / time->psi_exact - 1.0));
		psw = fmax(psw, fabs(time->psw / time->psw_known - 1.0));
	}
	drill_claim_add(
		claim,
		"largest deviation of %zu means of %llu steps: push and interrupt %.2f %% from the "
		"closed form, push and wait %.2f %% from the known table",
		study->time_count, (unsigned long long)(study->time_steps * 9 / 10), 100.0 * psi,
		100.0 * psw);
	if (study->time_steps < TIME_STEPS_MIN)
		drill_cannot(claim, "means of so few steps are not known to 1 %%");
	else
		drill_decide(claim, psi <= psi_tolerance && psw <= psw_tolerance);
}

static void even_judge(const struct dbw_study *study, struct drill_claim *claim)
{
	const struct dbw_setting *setting;
	bool held = true;
	size_t at = 0;

	while ((setting = next(study, DBW_GRID, &at)) != NULL) {
		const struct dbw_cell *dbw = &setting->cell[DBW_DBW];
		struct dbw_figure share, time;

		if (setting->alpha > 0.0)
			continue;
		share = dbw_mean(dbw->all_share, study->trials);
		time = dbw_ratio(dbw->time[DBW_GRID_DEPTH],
				 setting->cell[DBW_STATICS - 1].time[DBW_GRID_DEPTH],
				 study->trials);
		drill_claim_add(claim, "B=%u lr=%g: k = n in %.0f %% of steps, time ",
				setting->batch, setting->lr, 100.0 * share.mean);
		figure(claim, time);
		drill_claim_add(claim, " of k = n; ");
		held = held && share.mean >= all_share_min && time.mean <= all_time_max;
	}
	if (enough(study, claim))
		drill_decide(claim, held);
}

static void uneven_judge(const struct dbw_study *study, struct drill_claim *claim)
{
	const struct dbw_setting *setting;
	bool held = true;
	size_t at = 0;

	while ((setting = next(study, DBW_GRID, &at)) != NULL) {
		struct dbw_figure best, all;

		if (setting->alpha < 1.0)
			continue;
		best = dbw_speed(study, setting, DBW_GRID_DEPTH);
		all = dbw_ratio(setting->cell[DBW_STATICS - 1].time[DBW_GRID_DEPTH],
				setting->cell[DBW_DBW].time[DBW_GRID_DEPTH], study->trials);
		drill_claim_add(claim, "B=%u lr=%g: as fast as the best static ", setting->batch,
				setting->lr);
		figure(claim, best);
		drill_claim_add(claim, ", as k = n ");
		figure(claim, all);
		drill_claim_add(claim, "; ");
		held = held && best.high >= 1.0 && all.low >= static_n_min;
	}
	if (enough(study, claim))
		drill_decide(claim, held);
}

/* The same setting with the small batch; NULL: there is none */
static const struct dbw_setting *smaller(const struct dbw_study *study,
					 const struct dbw_setting *large)
{
	for (size_t i = 0; i < study->setting_count; i++) {
		const struct dbw_setting *one = &study->settings[i];

		if (one->group == large->group && one->alpha == large->alpha &&
		    one->lr == large->lr && one->batch < large->batch)
			return one;
	}
	return NULL;
}

static void adaptive_judge(const struct dbw_study *study, struct drill_claim *claim)
{
	const struct dbw_setting *setting, *small;
	double early = 0.0, late = 0.0;
	unsigned rises = 0, settings = 0, smaller_k = 0, pairs = 0;
	size_t at = 0;

	while ((setting = next(study, DBW_GRID, &at)) != NULL) {
		const struct dbw_cell *dbw = &setting->cell[DBW_DBW];
		double e, l;

		if (setting->alpha <= 0.0) /* there k is n from the beginning to the end */
			continue;
		e = drill_moments(dbw->k_early, study->trials).mean;
		l = drill_moments(dbw->k_late, study->trials).mean;
		early += e;
		late += l;
		rises += l > e;
		settings++;
		small = smaller(study, setting);
		if (small == NULL)
			continue;
		pairs++;
		smaller_k += drill_moments(dbw->k_mean, study->trials).mean <
			     drill_moments(small->cell[DBW_DBW].k_mean, study->trials).mean;
	}
	drill_claim_add(
		claim,
		"median k in the first quarter of steps %.1f, in the last %.1f, mean of %u "
		"settings with alpha > 0; it rises in %u of them; k is smaller with the larger "
		"batch in %u of %u",
		early / settings, late / settings, settings, rises, smaller_k, pairs);
	if (enough(study, claim))
		drill_decide(claim, 4 * rises >= 3 * settings && 4 * smaller_k >= 3 * pairs);
}

/* The largest factor by which a method is slower than the best static, over the grid */
static double worst_of(const struct dbw_study *study, size_t method,
		       const struct dbw_setting **ret_where)
{
	const struct dbw_setting *setting;
	double worst = 0.0;
	size_t at = 0;

	while ((setting = next(study, DBW_GRID, &at)) != NULL) {
		size_t best = dbw_best(study, setting, DBW_GRID_DEPTH);
		double ratio = dbw_ratio(setting->cell[method].time[DBW_GRID_DEPTH],
					 setting->cell[best].time[DBW_GRID_DEPTH], study->trials)
				       .mean;

		if (ratio > worst) {
			worst = ratio;
			*ret_where = setting;
		}
	}
	return worst;
}

static void tuned_judge(const struct dbw_study *study, struct drill_claim *claim)
{
	const struct dbw_setting *where = NULL, *other = NULL, *setting;
	char name[DBW_TEXT_MAX];
	double dbw = worst_of(study, DBW_DBW, &where), least = INFINITY;
	size_t best = 0, at = 0;
	unsigned within = 0, settings = 0;

	for (size_t m = 0; m < DBW_STATICS; m++) {
		double worst = worst_of(study, m, &other);

		if (worst < least) {
			least = worst;
			best = m;
		}
	}
	while ((setting = next(study, DBW_GRID, &at)) != NULL) {
		settings++;
		within += 1.0 / dbw_speed(study, setting, DBW_GRID_DEPTH).mean <= tuned_max;
	}
	dbw_setting_name(where, name, sizeof(name));
	drill_claim_add(
		claim,
		"DBW is within 20 %% of the best static k in %u of %u settings, at worst %.2f times "
		"as slow (%s); of static k the one whose worst is least, k = %u, is up to %.2f "
		"times as slow",
		within, settings, dbw, name, dbw_method_k(where, best), least);
	if (enough(study, claim))
		drill_decide(claim, dbw <= tuned_max && least > tuned_max);
}

static void slow_judge(const struct dbw_study *study, struct drill_claim *claim)
{
	bool held = true;

	for (size_t i = 0; i < DBW_SLOWS; i++) {
		const struct dbw_slow *slow = &study->slows[i];
		struct dbw_figure before = dbw_mean(slow->k_before, study->trials);
		struct dbw_figure after = dbw_mean(slow->k_after, study->trials);
		struct dbw_figure steps = dbw_mean(slow->steps_to_half, study->trials);
		struct dbw_figure dbw =
			dbw_ratio(slow->step_after, slow->step_before, study->trials);
		struct dbw_figure all = dbw_ratio(slow->all_after, slow->all_before, study->trials);

		drill_claim_add(claim,
				"alpha=%g: k %.1f before, %.1f after, %.0f steps until k <= 9; a "
				"step takes ",
				slow->alpha, before.mean, after.mean, steps.mean);
		figure(claim, dbw);
		drill_claim_add(claim, " times as long after as before, that of k = n ");
		figure(claim, all);
		drill_claim_add(claim, "; ");
		/* with equal times k is n before; with uneven ones the loss has a say in it */
		if (slow->alpha <= 0.0)
			held = held && before.mean >= DBW_N - 1 &&
			       fabs(after.mean - DBW_N / 2) <= 1.0;
		held = held && steps.mean <= slow_steps_max && dbw.mean <= slow_step_max &&
		       all.mean >= slow_all_min;
	}
	if (enough(study, claim))
		drill_decide(claim, held);
}

static void headline_judge(const struct dbw_study *study, struct drill_claim *claim)
{
	const struct dbw_setting *where = NULL;
	struct dbw_figure most = { 0.0, 0.0, 0.0 };
	char name[DBW_TEXT_MAX] = "nowhere", best[32] = "";
	size_t depth = 0;

	for (size_t i = 0; i < study->setting_count; i++) {
		const struct dbw_setting *setting = &study->settings[i];

		for (size_t d = 0; d <= setting->depth; d++) {
			struct dbw_figure speed = dbw_speed(study, setting, d);

			if (speed.mean <= most.mean)
				continue;
			most = speed;
			where = setting;
			depth = d;
		}
	}
	if (where != NULL) {
		dbw_setting_name(where, name, sizeof(name));
		dbw_method_name(where, dbw_best(study, where, depth), best, sizeof(best));
	}
	drill_claim_add(claim, "at most ");
	figure(claim, most);
	drill_claim_add(claim, " times as fast as the best static k (%s), at %s, target %g", best,
			name, dbw_depths[depth]);
	if (enough(study, claim))
		drill_decide(claim, most.mean >= headline_min && most.low > 1.0);
}

/* Over the grid, of times to the target: DBW's by that of `method`; a seed is one value */
static struct dbw_figure against(const struct dbw_study *study, size_t method)
{
	double logs[DBW_TRIALS_MAX] = { 0.0 };
	const struct dbw_setting *setting;
	struct dbw_figure f;
	size_t at = 0, settings = 0;

	while ((setting = next(study, DBW_GRID, &at)) != NULL) {
		size_t m = method < DBW_METHODS ? method : dbw_best(study, setting, DBW_GRID_DEPTH);

		settings++;
		for (unsigned i = 0; i < study->trials; i++)
			logs[i] += log(setting->cell[m].time[DBW_GRID_DEPTH][i] /
				       setting->cell[DBW_DBW].time[DBW_GRID_DEPTH][i]);
	}
	for (unsigned i = 0; i < study->trials; i++)
		logs[i] /= (double)settings;
	f = dbw_mean(logs, study->trials);
	return (struct dbw_figure){ exp(f.mean), exp(f.low), exp(f.high) };
}

static void ablation_judge(const struct dbw_study *study, struct drill_claim *claim)
{
	struct dbw_figure blind = against(study, DBW_BLIND), ada = against(study, DBW_ADASYNC);

	drill_claim_add(claim, "over the grid, geometric means, %u seeds: DBW is ", study->trials);
	figure(claim, blind);
	drill_claim_add(claim, " times as fast as blind DBW, ");
	figure(claim, ada);
	drill_claim_add(claim, " as AdaSync, ");
	figure(claim, against(study, DBW_STATICS - 1));
	drill_claim_add(claim, " as k = n, ");
	figure(claim, against(study, DBW_METHODS));
	drill_claim_add(claim, " as the best static k of each setting");
	if (enough(study, claim))
		drill_decide(claim, blind.low > 1.0 && ada.low > 1.0);
}

void dbw_claims_judge(const struct dbw_study *study, struct drill_claim *claims)
{
	static const char unit[] =
		"it is a property of the estimators by themselves: unit-policy-gain, "
		"unit-policy-times";
	static const struct {
		const char *claim;
		const char *criterion;
		void (*judge)(const struct dbw_study *study, struct drill_claim *claim);
	} list[DBW_CLAIMS] = {
		{ "the time model",
		  "push and interrupt within 1 % of the closed form, push and "
		  "wait within 2 % of the known means",
		  times_judge },
		{ "unbiased estimators of V, N and L", "within 2 %, 2 % and 10 % of the truth",
		  NULL },
		{ "a constrained estimate of times",
		  "both orders hold; plain means where these "
		  "hold them",
		  NULL },
		{ "equal times: DBW waits for all",
		  "alpha 0: k = n in 90 % of steps, time to the target at most 1.05 of k = n",
		  even_judge },
		{ "very uneven times: DBW is as fast as the best static k",
		  "alpha 1: not slower than the best static k by more than noise, at least twice as "
		  "fast as k = n",
		  uneven_judge },
		{ "k grows as the loss falls, and is smaller for larger batches",
		  "in at least 3 of 4 settings with alpha > 0 each", adaptive_judge },
		{ "no tuning",
		  "within 20 % of the best static k in every setting of the grid; no "
		  "static k is",
		  tuned_judge },
		{ "half of the workers become 5 times slower",
		  "equal times: k from n to n / 2; k <= 9 within 50 steps; steps at most 1.5 times "
		  "as long as before, those of k = n at least 4 times",
		  slow_judge },
		{ "up to 3 times as fast as the best static k",
		  "at least 2 times somewhere, and more than 1 beyond doubt", headline_judge },
		{ "the gain matters",
		  "over the grid faster than blind DBW and than AdaSync, beyond "
		  "doubt",
		  ablation_judge },
	};
	static const char *const ids[DBW_CLAIMS] = { "D1", "D2", "D3", "D4", "D5",
						     "D6", "D7", "D8", "D9", "D10" };

	for (size_t i = 0; i < DBW_CLAIMS; i++) {
		claims[i] = (struct drill_claim){ .id = ids[i],
						  .claim = list[i].claim,
						  .criterion = list[i].criterion };
		if (list[i].judge != NULL)
			list[i].judge(study, &claims[i]);
		else
			drill_cannot(&claims[i], "%s", unit);
	}
}
