/* SPDX-License-Identifier: BSD-3-Clause */

/* tally.c -- compares a worker's pushes, their results, and the weights that it pulls */

#include "support/tally.h"

#include <errno.h>
#include <stdio.h>

#include "outlast_server.h"
#include "support/check.h"

enum {
	SLICE_MS = 50 /* of a wait: then what else there is to do is looked after */
};

void tally_fill(float *grad, uint64_t params, uint32_t id, uint64_t i)
{
	uint64_t span = params / TALLY_WORKERS;

	for (uint64_t e = 0; e < params; e++)
		grad[e] = 1.0f;
	grad[id * span + i % span] = 2.0f;
}

static void check_marked(const struct ol_worker *worker, bool marked)
{
	uint64_t version, applied[TALLY_WORKERS], first, count, span;
	const float *weights = ol_weights(worker, &version);
	struct ol_job_info info;

	ol_worker_info(worker, &info);
	span = info.param_count / TALLY_WORKERS;
	for (uint32_t s = 0; s < info.shard_count; s++) {
		uint64_t total = 0;

		for (uint32_t k = 0; k < TALLY_WORKERS; k++) {
			applied[k] = ol_applied_grads(worker, s, k);
			total += applied[k];
		}
		check_ok(ol_shard_span(info.param_count, info.shard_count, s, &first, &count));
		for (uint64_t e = first; e < first + count; e++) {
			uint64_t mark = e % span, in = marked ? applied[e / span] : 0;
			uint64_t want = total + in / span + (in % span > mark);

			check_msg(weights[e] == -(float)want,
				  "version %llu, applied %llu and %llu: element %llu, of gradient "
				  "%llu of worker %llu, is %.0f, and should be -%llu",
				  (unsigned long long)version, (unsigned long long)applied[0],
				  (unsigned long long)applied[1], (unsigned long long)e,
				  (unsigned long long)mark, (unsigned long long)(e / span),
				  (double)weights[e], (unsigned long long)want);
		}
	}
}

void tally_check(const struct ol_worker *worker)
{
	check_marked(worker, true);
}

void tally_check_alike(const struct ol_worker *worker)
{
	check_marked(worker, false);
}

/*
 * Own gradients are all in. Another worker that goes on in outages may still have some in a queue,
 * with later ones applied before them: each of those that are in has added one mark somewhere.
 */
static void check_own(const struct tally *tally)
{
	const float *weights = ol_weights(tally->worker, NULL);
	uint64_t total = 0, span, applied[TALLY_WORKERS];
	struct ol_job_info info;

	ol_worker_info(tally->worker, &info);
	span = info.param_count / TALLY_WORKERS;
	for (uint32_t k = 0; k < TALLY_WORKERS; k++) {
		applied[k] = ol_applied_grads(tally->worker, 0, k);
		total += applied[k];
	}
	for (uint32_t k = 0; k < TALLY_WORKERS; k++) {
		uint64_t marks = 0;

		for (uint64_t i = 0; i < span; i++) {
			uint64_t got = (uint64_t)-weights[k * span + i];

			check(got >= total);
			check(k != tally->id ||
			      got - total == applied[k] / span + (applied[k] % span > i));
			marks += got - total;
		}
		check_eq(marks, applied[k]);
	}
}

/* Of a chain that was founded anew versions may go back: whoever calls knows */
static void back(struct tally *tally, const char *what, uint64_t version)
{
	if (tally->back++ == 0)
		snprintf(tally->said, sizeof(tally->said), "worker %u: %s: version %llu after %llu",
			 tally->id, what, (unsigned long long)version,
			 (unsigned long long)tally->told);
}

static void told(struct tally *tally, const char *what, uint64_t version)
{
	if (version < tally->told)
		back(tally, what, version);
	tally->told = version;
}

int tally_push(struct tally *tally)
{
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	struct ol_op *op = &tally->ops[tally->pushed % TALLY_FLIGHT_MAX];
	struct ol_job_info job;
	float *grad;
	int rc;

	if (tally->pushed - tally->done >= TALLY_FLIGHT_MAX)
		return -EAGAIN;
	rc = ol_grad_try_acquire(tally->worker, &grad);
	if (rc != 0)
		return rc;
	ol_worker_info(tally->worker, &job);
	tally_fill(grad, job.param_count, tally->id, tally->pushed);
	if (tally->alike)
		grad[tally->id * (job.param_count / TALLY_WORKERS) +
		     tally->pushed % (job.param_count / TALLY_WORKERS)] = 1.0f;
	ol_weights(tally->worker, &info.base_version);
	*op = (struct ol_op){ .level = tally->level };
	check_ok(ol_push(tally->worker, grad, &info, op));
	tally->pushed++;
	return 0;
}

void tally_pull(struct tally *tally)
{
	if (tally->pulling)
		return;
	tally->pull = (struct ol_op){ 0 };
	tally->done_before = tally->done;
	tally->told_before = tally->told;
	check_ok(ol_pull(tally->worker, 0, &tally->pull));
	tally->pulling = true;
}

static void pull_look(struct tally *tally)
{
	uint64_t in;

	if (!tally->pulling || !tally->pull.done)
		return;
	tally->pulling = false;
	tally->pulls++;
	check_ok(tally->pull.status);
	if (tally->pull.local) {
		check(tally->goes_on);
		tally->local_pulls++;
		return;
	}
	if (tally->pull.version < tally->pulled || tally->pull.version < tally->told_before)
		back(tally, "a pull", tally->pull.version);
	tally->pulled = tally->pull.version;
	if (tally->alike)
		tally_check_alike(tally->worker);
	if (tally->alike || tally->goes_on)
		return;
	in = ol_applied_grads(tally->worker, 0, tally->id);
	check(in >= tally->done_before && in <= tally->pushed);
	tally_check(tally->worker);
}

void tally_look(struct tally *tally)
{
	struct ol_job_info info;

	while (tally->done < tally->pushed) {
		const struct ol_op *op = &tally->ops[tally->done % TALLY_FLIGHT_MAX];

		if (!op->done)
			break;
		check(op->status == 0 || (tally->alike && op->status == OL_E_LOST));
		if (!op->local)
			told(tally, "a push", op->version);
		tally->done++;
	}
	ol_worker_info(tally->worker, &info);
	told(tally, "what is newest", info.version);
	pull_look(tally);
}

void tally_wait(struct tally *tally)
{
	struct ol_op *op = &tally->ops[tally->done % TALLY_FLIGHT_MAX];
	int rc = 0;

	if (tally->pulling)
		rc = ol_worker_wait_for(tally->worker, &tally->pull, SLICE_MS);
	else if (tally->done < tally->pushed)
		rc = ol_worker_wait_for(tally->worker, op, SLICE_MS);
	else
		rc = ol_worker_poll(tally->worker);
	check_msg(rc >= 0 || rc == -EAGAIN || (tally->alike && rc == OL_E_LOST), "worker %u: %s",
		  tally->id, ol_strerror(rc));
	tally_look(tally);
}

void tally_flush(struct tally *tally)
{
	struct ol_op flush = { 0 }, pull = { 0 };

	while (tally->pulling || tally->done < tally->pushed)
		tally_wait(tally);
	check_ok(ol_flush(tally->worker, &flush));
	while (!flush.done)
		(void)ol_worker_wait_for(tally->worker, &flush, SLICE_MS);
	check_ok(flush.status);
	do { /* a server may go just now */
		pull = (struct ol_op){ 0 };
		check_ok(ol_pull(tally->worker, OL_PULL_NEWEST, &pull));
		do
			(void)ol_worker_wait_for(tally->worker, &pull, SLICE_MS);
		while (!pull.done);
		check_ok(pull.status);
	} while (pull.local);
}

void tally_end(struct tally *tally)
{
	struct ol_link_stat stat;
	struct ol_job_info info;

	tally_flush(tally);
	ol_worker_info(tally->worker, &info);
	if (tally->goes_on && info.shard_count == 1)
		check_own(tally);
	else
		tally_check(tally->worker);
	for (uint32_t s = 0; s < info.shard_count; s++) {
		check_eq(ol_applied_grads(tally->worker, s, tally->id), tally->pushed);
		check_ok(ol_link_get_stat(tally->worker, s, &stat));
		check_eq(stat.pushed, tally->pushed);
		check_eq(stat.applied, tally->pushed);
		check_eq(stat.lost + stat.pending + stat.late + stat.nonfinite, 0);
	}
}
