/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train_eval.c -- the servers' counters, and evaluation on the test set
 */
#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "outlast/train.h"

enum {
	EVAL_PIECE = 64 /* samples evaluated between two looks at anything else */
};

/* Of chains: what the tails say */
static void tails_read(struct train *train)
{
	struct train_stat *stat = &train->stat;
	uint64_t version = UINT64_MAX;

	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct ol_server_stat *tail = &train->tails[i], one;

		/* one that comes to be the tail may not have caught up with what this one said */
		if (ol_stat(train->observer, i, &one) == 0 && one.version >= tail->version)
			*tail = one;
		if (tail->version < version)
			version = tail->version;
	}
	stat->version = version;
	stat->applied = train->tails[0].applied;
	stat->dropped_nonfinite = train->tails[0].dropped_nonfinite;
	stat->dropped_late = train->tails[0].dropped_late;
	stat->staleness_sum = train->tails[0].staleness_sum;
	stat->wait_for = train->tails[0].wait_for;
	if (stat->applied > 0)
		stat->loss = train->tails[0].loss;
}

void train_stat_read(struct train *train)
{
	struct train_stat stat = train->stat;
	uint64_t version = UINT64_MAX;

	if (train->chain != NULL) {
		tails_read(train);
		return;
	}
	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct train_server *server = &train->servers[i];
		struct ol_server_stat one;

		/* the board of the one before, or of one without weights yet, says nothing */
		if (!server->restored || ol_stat(train->observer, i, &one) != 0 ||
		    one.epoch != server->epoch)
			continue;
		server->stat = one;
	}
	for (uint32_t i = 0; i < train->set.servers; i++) {
		const struct train_server *server = &train->servers[i];

		if (server->stat.epoch != 0 && server->stat.version < version)
			version = server->stat.version;
		if (i == 0 && server->stat.applied > 0)
			stat.loss = server->stat.loss;
		if (i == 0) {
			struct train_past total = train_total(server);

			stat.applied = total.applied;
			stat.dropped_nonfinite = total.dropped_nonfinite;
			stat.dropped_late = total.dropped_late;
			stat.staleness_sum = total.staleness_sum;
			stat.wait_for = server->stat.wait_for;
		}
	}
	if (version != UINT64_MAX)
		stat.version = version;
	train->stat = stat;
}

static int weights_pull(struct train *train, struct train_eval *ret_eval)
{
	int rc = ol_pull(train->observer, OL_PULL_NEWEST, &train->pull);

	if (rc == 0)
		rc = ol_worker_wait(train->observer, &train->pull);
	if (rc == 0 && train->pull.local)
		rc = OL_E_NO_SERVER;
	if (rc != 0)
		return rc;
	ret_eval->t_s = (double)(ol_clock_ns() - train->go_ns) / 1e9;
	ret_eval->weights = ol_weights(train->observer, &ret_eval->version);
	return 0;
}

/* The observer's weights stay valid until the pull after the next one: so two are enough. */
static void eval_begin(struct train *train, const struct train_eval *eval)
{
	if (train_evaluating(train)) {
		train->eval_then = *eval;
		return;
	}
	train->eval_now = *eval;
	ol_eval_start(&train->eval, eval->weights);
}

bool train_pull(struct train *train, struct train_outage *before, struct train_outage *after)
{
	struct train_eval eval = { .before = before, .after = after };

	if (train->eval_then.weights != NULL || weights_pull(train, &eval) != 0)
		return false;
	eval_begin(train, &eval);
	return true;
}

static json_t *number_or_null(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static void eval_done(struct train *train)
{
	struct train_eval *now = &train->eval_now;
	double loss = ol_eval_loss(&train->eval);

	train->accuracy = ol_eval_score(train->job, &train->eval);
	train->loss = loss;
	if (now->before != NULL) {
		now->before->accuracy_before = train->accuracy;
		now->before->loss_before = loss;
	}
	if (now->after != NULL) {
		now->after->accuracy_after = train->accuracy;
		now->after->loss_after = loss;
	}
	json_array_append_new(train->evals,
			      json_pack("{s:I, s:f, s:o, s:o}", "step", (json_int_t)now->version,
					"t_s", now->t_s, train->job->traits->score_name,
					number_or_null(train->accuracy), "loss",
					number_or_null(loss)));
	*now = train->eval_then;
	train->eval_then = (struct train_eval){ 0 };
	if (now->weights != NULL)
		ol_eval_start(&train->eval, now->weights);
}

static void eval_piece(struct train *train)
{
	if (train_evaluating(train) && ol_eval_some(train->job, &train->eval, EVAL_PIECE))
		eval_done(train);
}

int train_evaluate(struct train *train)
{
	struct train_eval eval = { 0 };
	int rc = 0;

	while (train_evaluating(train) && train->signal == 0) { /* what an outage asked for */
		train_turn(train, 0);
		eval_piece(train);
	}
	train->eval_now = (struct train_eval){ 0 };
	train->eval_then = (struct train_eval){ 0 };
	rc = weights_pull(train, &eval);
	if (rc != 0)
		return rc;
	eval_begin(train, &eval);
	while (train_evaluating(train)) {
		train_turn(train, 0);
		if (train->signal != 0 && train->exit_code != 0)
			return -ECANCELED;
		eval_piece(train);
	}
	return 0;
}

static bool eval_due(const struct train *train, uint64_t now_ns)
{
	if (train->set.eval_seconds > 0.0)
		return now_ns >= train->eval_next_ns;
	return train->set.eval_every != 0 && train->stat.version >= train->eval_next &&
	       train->stat.version != train->steps;
}

void train_eval_tick(struct train *train)
{
	uint64_t every = train->set.eval_every, now_ns = ol_clock_ns();

	eval_piece(train);
	if (train_evaluating(train) || train_shards_down(train) > 0 || !eval_due(train, now_ns))
		return;
	/* a server that is gone is noticed elsewhere */
	(void)train_pull(train, NULL, NULL);
	if (every != 0)
		train->eval_next = (train->stat.version / every + 1) * every;
	train->eval_next_ns = now_ns + (uint64_t)(train->set.eval_seconds * 1e9);
}
