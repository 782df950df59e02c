/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * figures.c -- counts and rates of the whole job, from workers, servers and weights
 */
#include <math.h>
#include <string.h>

#include "cmd/cmd.h"
#include "train/parts.h"

double train_staleness(const struct train_stat *stat)
{
	return stat->counted == 0 ? 0.0 : (double)stat->staleness_sum / (double)stat->counted;
}

/* Gradients a step, so far: of this run, in the weights of the first shard */
double train_k_mean(const struct train *train)
{
	const struct ol_server_stat *stat =
		train->chain != NULL ? &train->tails[0] : &train->servers[0].stat;
	uint64_t before = 0;

	for (uint32_t i = 0; i < train->set.workers; i++)
		before += train->contained_first[i];
	if (stat->version <= train->version_first || stat->applied < before)
		return (double)NAN;
	return (double)(stat->applied - before) / (double)(stat->version - train->version_first);
}

/* From the first start to the last end, by the workers' reports; by the parent's clock if a worker
 * has none */
static double wall_s(const struct train *train)
{
	double first = INFINITY, last = 0.0;
	bool whole = train->died == 0;

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const json_t *done = train->workers[i].done;
		double start = json_number_value(json_object_get(done, "start_s"));
		double end = start + json_number_value(json_object_get(done, "wall_s"));

		if (done == NULL || json_integer_value(json_object_get(done, "computed")) == 0)
			continue;
		whole = whole && train->workers[i].past.computed == 0;
		first = fmin(first, start);
		last = fmax(last, end);
	}
	if (last > first && whole)
		return last - first;
	return (double)(train->end_ns - train->go_ns) / 1e9;
}

enum {
	DUE_MIN = 10 /* gradients due while a server was missing; fewer make no rate */
};

/* Rates of all workers: until the first outage, and while a server was missing. Not known where a worker was away, too: its next
 * process began in the middle of it */
static void rates_take(const struct train *train, struct train_figures *f)
{
	bool known = false, whole = true;
	double due = 0.0;

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_count *now = &train->workers[i].now;

		whole = whole && train->workers[i].past.computed == 0;
		if (now->before_s > 0.0) {
			const double rate = (double)now->before_computed / now->before_s;

			f->rate_before += rate;
			due += rate * now->outage_s;
			known = true;
		}
		if (now->outage_s > 0.0)
			f->rate_outage += (double)now->outage_computed / now->outage_s;
	}
	if (!known || !whole)
		f->rate_before = (double)NAN;
	if (!known || !whole || due < DUE_MIN)
		f->rate_outage = (double)NAN;
}

static void outages_take(const struct train *train, struct train_figures *f)
{
	bool state = train->set.rule.optimizer != OL_OPTIMIZER_SGD;

	for (unsigned i = 0; i < train->outage_count; i++) {
		const struct train_outage *outage = &train->outages[i];

		f->kills += outage->kill != NULL;
		f->recoveries += outage->state == TRAIN_OUTAGE_OVER;
		if (state && !train->set.outage.mirror_state && strcmp(outage->from, "mirror") == 0)
			f->anew = true;
	}
}

/*
 * The count of a worker that died without a report is not known, but the weights contain how many of
 * its gradients they have. The servers' counters are exact if no server was lost; otherwise the
 * workers' are.
 */
static void fates_take(const struct train *train, struct train_figures *f, bool servers_lost)
{
	const struct train_stat *stat = &train->stat;
	struct train_count *count = &f->count;

	*count = train_counts(train);
	f->applied = servers_lost ? count->applied : stat->applied;
	if (train->last.known)
		f->applied = 0;
	for (uint32_t i = 0; i < train->set.workers; i++) {
		f->applied += train->last.known ? train_contained(train, i) : 0;
		f->computed += train_computed(train, i);
	}
	if (!servers_lost) {
		count->dropped_nonfinite = stat->dropped_nonfinite;
		count->dropped_late = stat->dropped_late;
	}
	f->dropped = count->dropped_nonfinite + count->dropped_late + count->queue_dropped;
	if (f->computed < f->applied + f->dropped + count->lost)
		f->computed = f->applied + f->dropped + count->lost;
	f->given_up = f->computed - f->applied - f->dropped - count->lost;
}

static void counts_take(const struct train *train, struct train_figures *f)
{
	/* no single server of a chain knows all that the chain applied and dropped */
	bool servers_lost = train->chain != NULL, workers_lost = train->died > 0;
	bool went_back = false;

	for (unsigned i = 0; i < train->outage_count; i++) {
		servers_lost = servers_lost || train->outages[i].server;
		workers_lost = workers_lost || !train->outages[i].server;
		went_back = went_back ||
			    (train->outages[i].from[0] != '\0' &&
			     train->outages[i].restored_version < train->outages[i].version);
	}
	fates_take(train, f, servers_lost);
	/* a server came back without them, and the workers that knew them have died: they are lost
	 */
	if (servers_lost && workers_lost && train->signal == 0 && train->exit_code == 0) {
		f->count.lost += f->given_up;
		f->given_up = 0;
	}
	f->more_lost = went_back && workers_lost;
}

struct train_figures train_figures(const struct train *train)
{
	struct train_figures f = {
		.version = train->last.known ? train->last.version : train->stat.version,
		.wall_s = wall_s(train),
		.staleness = train_staleness(&train->stat),
		.k_mean = train_k_mean(train),
	};

	counts_take(train, &f);
	rates_take(train, &f);
	outages_take(train, &f);
	for (uint32_t i = 0; i < train_holders(train); i++) {
		uint64_t replayed = train_total(&train->servers[i]).replayed;

		if (replayed > f.replayed)
			f.replayed = replayed;
	}
	f.rate = f.wall_s > 0.0 ? (double)f.computed / f.wall_s : 0.0;
	f.rate_applied = f.wall_s > 0.0 ? (double)f.applied / f.wall_s : 0.0;
	return f;
}

const char *train_ended_str(const struct train *train)
{
	if (train->signal != 0)
		return "interrupted";
	if (train->exit_code != 0)
		return "failed";
	return train->died > 0 ? "workers died" : "done";
}
