/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * eval.c -- evaluation on the test set
 */

#include "base/clock.h"
#include "train/parts.h"

enum {
	EVAL_PIECE = 64 /* samples evaluated between two looks at other work */
};

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

/*
 * The observer's weights stay valid until the pull after the next one, whether or not that
 * succeeds. So during an evaluation one more pull may be made.
 */
static void eval_begin(struct train *train, const struct train_eval *eval)
{
	if (train_evaluating(train)) {
		train->evals.then = *eval;
		return;
	}
	train->evals.now = *eval;
	ol_eval_start(&train->evals.eval, eval->weights);
}

bool train_pull(struct train *train, struct train_outage *before, struct train_outage *after)
{
	struct train_eval eval = { .before = before, .after = after };

	if (train->evals.pulled)
		return false;
	train->evals.pulled = train_evaluating(train);
	if (weights_pull(train, &eval) != 0)
		return false;
	eval_begin(train, &eval);
	return true;
}

static void eval_done(struct train *train)
{
	struct train_eval *now = &train->evals.now;
	double loss = ol_eval_loss(&train->evals.eval);

	train->evals.accuracy = ol_eval_score(train->job, &train->evals.eval);
	train->evals.loss = loss;
	if (now->before != NULL) {
		now->before->accuracy_before = train->evals.accuracy;
		now->before->loss_before = loss;
	}
	if (now->after != NULL) {
		now->after->accuracy_after = train->evals.accuracy;
		now->after->loss_after = loss;
	}
	json_array_append_new(train->evals.list,
			      json_pack("{s:I, s:f, s:o, s:o}", "step", (json_int_t)now->version,
					"t_s", now->t_s, train->job->traits->score_name,
					train_number(true, train->evals.accuracy), "loss",
					train_number(true, loss)));
	*now = train->evals.then;
	train->evals.then = (struct train_eval){ 0 };
	train->evals.pulled = false;
	if (now->weights != NULL)
		ol_eval_start(&train->evals.eval, now->weights);
}

void train_eval_piece(struct train *train)
{
	if (train_evaluating(train) && ol_eval_some(train->job, &train->evals.eval, EVAL_PIECE))
		eval_done(train);
}

int train_eval_fresh(struct train *train)
{
	struct train_eval eval = { 0 };
	int rc;

	train->evals.now = (struct train_eval){ 0 };
	train->evals.then = (struct train_eval){ 0 };
	train->evals.pulled = false;
	rc = weights_pull(train, &eval);
	if (rc == 0)
		eval_begin(train, &eval);
	return rc;
}

static bool eval_due(const struct train *train, uint64_t now_ns)
{
	if (train->set.eval_seconds > 0.0)
		return now_ns >= train->evals.next_ns;
	return train->set.eval_every != 0 && train->stat.version >= train->evals.next &&
	       train->stat.version != train->steps;
}

void train_eval_tick(struct train *train)
{
	uint64_t every = train->set.eval_every, now_ns = ol_clock_ns();

	train_eval_piece(train);
	if (train_evaluating(train) || train_shards_down(train) > 0 || !eval_due(train, now_ns))
		return;
	/* other code notices a lost server */
	(void)train_pull(train, NULL, NULL);
	if (every != 0)
		train->evals.next = (train->stat.version / every + 1) * every;
	train->evals.next_ns = now_ns + (uint64_t)(train->set.eval_seconds * 1e9);
}
