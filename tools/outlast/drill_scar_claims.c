/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_scar_claims.c -- the published claims, judged by fixed criteria
 *
 * "Fault Tolerance in Iterative-Convergent Machine Learning" (arXiv 1810.07354), claims numbered as
 * the project's study of it does. The thresholds below were fixed beforehand.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "outlast/drill.h"
#include "outlast/drill_scar.h"

enum {
	HALF = 1, /* of scar_losses */
	PRIORITY_8 = 3, /* of scar_schemes */
	ROBIN = 4, /* the first of SCAR_PARTS */
	RANDOM = 7,
	PRIORITY = 1
};

static const double tight_min = 0.8; /* cost / bound of adversarial perturbations */
static const double tight_max = 1.2;
static const double bytes_tolerance = 0.01;
static const double headline_min = 0.78;
/* published reductions by partial recovery, of 1/4, 1/2 and 3/4 lost */
static const double partial_min[SCAR_LOSSES] = { 0.59, 0.31, 0.12 };
static const double partial_max[SCAR_LOSSES] = { 0.89, 0.62, 0.42 };

static bool enough(const struct scar_study *study, struct drill_claim *claim)
{
	if (study->trials >= SCAR_TRIALS_MIN)
		return true;
	drill_cannot(claim, "%u trials, and a verdict takes %d", study->trials, SCAR_TRIALS_MIN);
	return false;
}

static void bound_judge(const struct scar_study *study, struct drill_claim *claim)
{
	const struct scar_bounds *b = &study->bounds[0], *other = &study->bounds[1];
	uint32_t count = 0, above = 0, far = 0, far_above = 0, far_measured = 0;

	claim->id = "S1";
	claim->claim = "the cost of a perturbation is bounded";
	claim->criterion = "linear convergence: cost at most bound + 1 in each of 1,000 "
			   "perturbations; adversarial ones within 20 % of it";
	for (size_t k = 0; k < SCAR_PUSHES; k++) {
		count += b->count[k];
		above += b->above[k];
		far += other->count[k];
		far_above += other->above[k];
		far_measured += other->above_measured[k];
	}
	drill_claim_add(
		claim,
		"c = %.4f (%.4f at least), %u perturbations, %u above bound + 1, worst %+.2f; cost "
		"/ bound: adversarial %.2f, random %.2f, reset %.2f. A run that is faster at first "
		"(c = %.4f, %.4f at least): %u of %u above, %u by distances as measured",
		b->rate, b->rate_min, count, above,
		fmax(fmax(b->worst[0], b->worst[1]), b->worst[2]), b->tight[SCAR_AGAINST],
		b->tight[SCAR_RANDOM], b->tight[SCAR_RESET], other->rate, other->rate_min,
		far_above, far, far_measured);
	if (count < SCAR_PUSHES_MIN)
		drill_cannot(claim, "fewer than 1,000 perturbations");
	else
		drill_decide(claim, above == 0 && b->tight[SCAR_AGAINST] >= tight_min &&
					    b->tight[SCAR_AGAINST] <= tight_max);
}

static void norm_judge(const struct scar_study *study, struct drill_claim *claim)
{
	uint32_t failures = 0, longer = 0;
	bool within = true;

	claim->id = "S2";
	claim->claim = "partial recovery throws less far: by the fraction p lost, in squares";
	claim->criterion = "never further than full recovery; mean ratio of squares is p within "
			   "sampling error (99.9 %)";
	for (size_t i = 0; i < study->part_count; i++) {
		for (size_t l = 0; l < SCAR_LOSSES; l++) {
			const struct scar_norm *n = &study->part[i].norms[l];

			failures += n->failures;
			longer += n->longer;
			within = within && n->ratio.low <= n->lost && n->ratio.high >= n->lost;
			drill_claim_add(claim, "%s%s %.3f: %.3f", l + i > 0 ? ", " : "",
					l == 0 ? study->part[i].problem[0].name : "p =", n->lost,
					n->ratio.mean);
		}
	}
	drill_claim_add(claim, "; %u of %u further", longer, failures);
	drill_decide(claim, longer == 0 && within);
}

static void partial_judge(const struct scar_study *study, struct drill_claim *claim)
{
	size_t inside = 0, count = 0;
	bool grows = true;

	claim->id = "S3";
	claim->claim = "partial recovery costs less, the less is lost: by 59-89, 31-62 and 12-42 % "
		       "for 1/4, 1/2 and 3/4";
	claim->criterion = "reduction grows as less is lost, and every interval meets the "
			   "published range";
	for (size_t i = 0; i < study->part_count; i++) {
		for (size_t p = 0; p < study->part[i].table_count; p++) {
			const struct scar_table *t = &study->part[i].tables[p];
			double before = INFINITY;

			drill_claim_add(claim, "%s%s C=%u:", i + p > 0 ? "; " : "",
					study->part[i].problem[0].name, t->period);
			for (size_t l = 0; l < SCAR_LOSSES; l++) {
				struct scar_figure f =
					scar_reduction(t->cost[0][l], t->full, t->trials);

				drill_claim_add(claim, " %.0f%s", 100.0 * f.mean,
						l + 1 < SCAR_LOSSES ? "," : " %");
				grows = grows && f.mean < before;
				inside += f.low <= partial_max[l] && f.high >= partial_min[l];
				count++;
				before = f.mean;
			}
		}
	}
	drill_claim_add(claim, ": %zu of %zu meet the range", inside, count);
	if (enough(study, claim))
		drill_decide(claim, grows && inside == count);
}

/* Of one C and r: -1 if an order is refuted, 1 if both hold by means, 0 otherwise */
static int order_of(const struct scar_table *t, size_t part, bool *ret_worse)
{
	const double *p = t->cost[PRIORITY + part][HALF], *r = t->cost[ROBIN + part][HALF];
	const double *any = t->cost[RANDOM + part][HALF];
	struct scar_figure first = scar_mean(r, p, t->trials), next = scar_mean(any, r, t->trials);

	*ret_worse = scar_mean(any, t->full, t->trials).mean > 0.0;
	if (first.high < 0.0 || next.high < 0.0)
		return -1;
	return first.mean >= 0.0 && next.mean >= 0.0;
}

static void order_judge(const struct scar_study *study, struct drill_claim *claim)
{
	unsigned count = 0, hold = 0, refuted = 0, worse = 0;

	claim->id = "S4";
	claim->claim = "at equal bytes priority costs at most what round-robin does, and that at "
		       "most what random does";
	claim->criterion = "half lost: by means nearly always (9 of 10), and no interval of a "
			   "difference says otherwise";
	for (size_t i = 0; i < study->part_count; i++) {
		for (size_t p = 0; p < study->part[i].table_count; p++) {
			for (size_t part = 0; part < SCAR_PARTS; part++) {
				const struct scar_table *t = &study->part[i].tables[p];
				bool random_worse;
				int order;

				if (t->cost[PRIORITY + part][HALF] == NULL)
					continue;
				order = order_of(t, part, &random_worse);
				count++;
				hold += order > 0;
				refuted += order < 0;
				worse += random_worse;
			}
		}
	}
	drill_claim_add(claim,
			"in order %u of %u, refuted %u; random costs more than full recovery from "
			"full checkpoints in %u",
			hold, count, refuted, worse);
	if (enough(study, claim))
		drill_decide(claim, refuted == 0 && 10 * hold >= 9 * count);
}

static void headline_judge(const struct scar_study *study, struct drill_claim *claim)
{
	unsigned reached = 0;
	double best = -INFINITY;

	claim->id = "S5";
	claim->claim = "partial recovery from priority checkpoints, r = 1/8, half lost: 78-95 % "
		       "less cost than full recovery from full checkpoints";
	claim->criterion = "every problem's mean is at 78 % at least, at some C";
	for (size_t i = 0; i < study->part_count; i++) {
		bool meets = false;

		drill_claim_add(claim, "%s%s:", i > 0 ? "; " : "", study->part[i].problem[0].name);
		for (size_t p = 0; p < study->part[i].table_count; p++) {
			const struct scar_table *t = &study->part[i].tables[p];
			struct scar_figure f =
				scar_reduction(t->cost[PRIORITY_8][HALF], t->full, t->trials);

			drill_claim_add(claim, " C=%u %.0f %% [%.0f, %.0f]", t->period,
					100.0 * f.mean, 100.0 * f.low, 100.0 * f.high);
			meets = meets || f.mean >= headline_min;
			best = fmax(best, f.mean);
		}
		reached += meets;
	}
	drill_claim_add(claim, ". %u of %zu reach it; the best mean is %.0f %%", reached,
			study->part_count, 100.0 * best);
	if (enough(study, claim))
		drill_decide(claim, reached == study->part_count);
}

static void bytes_judge(const struct scar_study *study, struct drill_claim *claim)
{
	double most = 0.0;

	claim->id = "S6";
	claim->claim = "a prioritized checkpoint writes as much as full ones every C";
	claim->criterion = "within 1 %";
	for (size_t i = 0; i < study->part_count; i++) {
		for (size_t p = 0; p < study->part[i].table_count; p++) {
			for (size_t s = 0; s < SCAR_SCHEMES; s++)
				most = fmax(most, fabs(study->part[i].tables[p].share[s] - 1.0));
		}
	}
	drill_claim_add(claim, "floats saved an iteration: %.2f %% off at most", 100.0 * most);
	drill_decide(claim, most <= bytes_tolerance);
}

static void live_judge(const struct scar_study *study, struct drill_claim *claim)
{
	bool good = true, less = true;

	claim->id = "S8";
	claim->claim = "live: survivors keep their values, the lost shard comes back from the "
		       "running checkpoint, the target is reached with few iterations more";
	claim->criterion = "1 of 4 servers killed, 20 times and both ways for each model: weights "
			   "are the study's before, survivors' the same bits after, the lost ones "
			   "of states that were, the target reached; partial costs less than full";
	if (study->live_count == 0) {
		drill_cannot(claim,
			     "no server was killed; --live with --preset short or seed-paper does");
		return;
	}
	for (size_t i = 0; i < study->live_count; i++) {
		const struct scar_live *l = &study->live[i];
		struct scar_figure f = scar_mean(l->cost, NULL, l->kills);

		drill_claim_add(claim,
				"%s%s, %s: %u kills, cost %.2f [%.2f, %.2f], %u unlike the study, ",
				i > 0 ? "; " : "", l->name, l->full ? "full" : "partial", l->kills,
				f.mean, f.low, f.high, l->unlike);
		drill_claim_add(claim, "%u survivors changed, %u strange, %u late", l->changed,
				l->strange, l->late);
		good = good && l->unlike + l->changed + l->strange + l->late == 0;
		if (l->full)
			less = less && scar_mean(l[-1].cost, NULL, l[-1].kills).mean < f.mean;
	}
	drill_decide(claim, good && less);
}

void scar_claims_judge(const struct scar_study *study, struct drill_claim *claims)
{
	memset(claims, 0, SCAR_CLAIMS * sizeof(*claims));
	bound_judge(study, &claims[0]);
	norm_judge(study, &claims[1]);
	partial_judge(study, &claims[2]);
	order_judge(study, &claims[3]);
	headline_judge(study, &claims[4]);
	bytes_judge(study, &claims[5]);
	claims[6].id = "S7";
	claims[6].claim = "selecting and copying is cheap and never stalls training";
	claims[6].criterion = "training rate at least 0.97 of without";
	drill_cannot(&claims[6], "it is a matter of rates: src/checkpoint/README.md has them");
	live_judge(study, &claims[7]);
}
