/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage.c -- the work of an outage: sends queues, pulls and withdraws by itself; flush
 *
 * While a server is gone its part of a gradient goes into a queue, and the buffer is free at once.
 * The weights that gradients are computed at do not change meanwhile, so the gradients can be
 * summed into one delta: OL_QUEUE_FOLD needs the memory of one, however long it takes. The server
 * decides what such a delta is worth (policy/replay.h). When it is back, deltas are sent one after
 * the other, through a slot of their own, and are kept there until they cannot be lost, as any
 * push. Part k of that buffer is used by shard k alone.
 *
 * If several servers are lost one after the other, each may hold a buffer, with a gradient that
 * only it had applied, until no buffer is left. Then gradients are computed in one more buffer,
 * which belongs to no slot: all parts of it go into queues, also those for servers that are alive.
 *
 * A synchronous step takes one gradient of a worker. What an outage has left behind, a delta or a
 * push that its server lost, is this worker's gradient of the step, and a fresh one would be the
 * second: late. So it goes into the queue, too, if it was computed at weights without what was left
 * behind. And no buffer is lent until a fresh one has a place again (ol_outage_pace()): otherwise
 * the worker would run ahead of the steps.
 *
 * NO WORKERS WAIT CROSSWISE. A synchronous step of a shard waits for every worker. So a worker that
 * is missing at one shard must never wait for a step of another. This is what a worker waits for,
 * and what ends each wait without another worker's help:
 *
 * - A delta waits for its shard's part of the slot. While a server holds that part, the worker has
 *   given to the step there. Once it is applied, a pull frees it: a wait and a flush pull by
 *   themselves (ol_outage_pull()), acquire pulls, too, and push says -ENOBUFS.
 * - With synchronous steps a delta waits for the caller's next push, too, but only while the caller
 *   waits for nothing (replay_may()).
 * - acquire waits for a place in a synchronous step only while this worker is missing at none of the
 *   servers that it is connected to, and only until it has brought newer weights: a job may be at
 *   its end, and then nobody makes the step.
 * - acquire waits for a buffer, and pulls if a pull frees one; ol_grad_try_acquire() returns
 *   -EAGAIN and -ENOBUFS instead. A buffer may hold a push that no shard has dropped: that is an
 *   op, see below. If all pushes are adrift the caller waits for none of them: with CONTINUE the
 *   one more buffer is lent, else acquire withdraws them (ol_withdraw()), as their caller knows
 *   that they are late or lost.
 * - An op waits for each shard to resolve its part. A shard that drops its part (late, lost), or
 *   whose server is gone, ends the op: the other parts are adrift.
 * - A pull waits, with WAIT, for gradients that had been applied, and are pushed again to a server that
 *   came back without them. If all pushes are adrift, they are withdrawn (ol_outage_on_catch_up()).
 * - A flush waits for all pushes. Its caller pushes nothing more, so it withdraws held ones
 *   (ol_withdraw()), or goes on with the job if the servers' version is below the last one.
 *
 * So a worker that waits for others has a push that no shard has dropped. Some shard holds it for a
 * worker that is missing there. The push was computed at this shard's version, hence after the last
 * step there. If the missing worker waits as well, its own such push is part of that step or of an
 * earlier one, and was computed before. In a circle each push would be computed before itself.
 *
 * Pushes of spans are covered if all workers keep one order of the shards' steps: then the push that
 * is missing comes before all that its worker waits for.
 *
 * WHERE SHARD 0 DECIDES THE STEPS a gradient is one push with one number at all shards. So the job is whole, or away:
 * while one server is gone all parts of a gradient go into the queues, and they leave together, when all servers
 * are there. The queues are alike at all times. A pull has the last weights of all shards, too.
 *
 * Not covered: a caller that asks to wait when queues are full (OL_QUEUE_WAIT); and one that waits
 * for a push while it holds another buffer, or by ol_worker_poll() alone, as neither pulls by itself.
 */

#include <errno.h>
#include <string.h>

#include "base/sized.h"
#include "worker/worker_internal.h"

void ol_outage_on_catch_up(struct ol_worker *worker)
{
	if (!ol_push_window_is_held(worker))
		return;
	for (uint32_t k = 0; k < worker->link_count; k++) {
		const struct ol_link *link = &worker->links[k];

		if (ol_link_is_in(link, worker->pull_span) && link->state == OL_LINK_LIVE &&
		    link->reads_wait) {
			(void)ol_withdraw(worker);
			return;
		}
	}
}

/* The buffer that queues leave through */
static struct ol_grad *replay_buffer(struct ol_worker *worker)
{
	return &worker->grads[worker->window];
}

/* The server has a gradient of this worker for a step; left: one that an outage left behind */
static bool has_given(const struct ol_link *link, bool left)
{
	const struct ol_worker *worker = link->worker;

	for (uint32_t i = 0; i < worker->slots; i++) {
		const struct ol_grad *grad = &worker->grads[i];

		if (grad->state == OL_GRAD_PUSHED && (grad->open >> link->index & 1) != 0 &&
		    (!left || ol_keep_is_left(link, grad)))
			return true;
	}
	return false;
}

bool ol_outage_paces(const struct ol_worker *worker)
{
	return ol_worker_queues(worker) && worker->links[0].geo.consistency == OL_CONSISTENCY_SYNC;
}

static bool part_queues(const struct ol_link *link, uint64_t base_version)
{
	return !ol_link_usable(link) ||
	       (ol_outage_paces(link->worker) &&
		(link->queue.count > 0 || base_version < link->own_version ||
		 has_given(link, true)));
}

bool ol_outage_queues(const struct ol_link *link, uint64_t base_version)
{
	const struct ol_worker *worker = link->worker;

	if (!ol_worker_queues(worker))
		return false;
	for (uint32_t k = 0; ol_worker_decided(worker) && k < worker->link_count; k++) {
		if (part_queues(&worker->links[k], base_version))
			return true;
	}
	return part_queues(link, base_version);
}

bool ol_outage_is_whole(const struct ol_worker *worker)
{
	for (uint32_t k = 0; ol_worker_decided(worker) && k < worker->link_count; k++) {
		if (!ol_link_usable(&worker->links[k]))
			return false;
	}
	return true;
}

/* A server that is there waits for this worker's next gradient */
static bool is_missing(const struct ol_worker *worker)
{
	for (uint32_t k = 0; k < worker->link_count; k++) {
		if (ol_link_usable(&worker->links[k]) && !has_given(&worker->links[k], false))
			return true;
	}
	return false;
}

int ol_outage_pace(const struct ol_worker *worker)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	bool left = false, newer = false;

	if (!ol_outage_paces(worker) || !mirror->whole || !ol_outage_is_whole(worker))
		return 0;
	for (uint32_t k = 0; k < worker->link_count; k++) {
		const struct ol_link *link = &worker->links[k];

		if (!ol_link_usable(link))
			continue;
		if (mirror->versions[k] < link->own_version)
			return -ENOBUFS;
		left = left || has_given(link, true);
		newer = newer || mirror->versions[k] < link->version;
	}
	if (!left || is_missing(worker))
		return 0;
	return newer ? -ENOBUFS : -EAGAIN;
}

/* The caller waits for a push, a flush or a buffer: it is not about to push */
static bool is_waiting(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->window; i++) {
		if (worker->grads[i].state == OL_GRAD_PUSHED && worker->grads[i].op != NULL)
			return true;
	}
	return worker->extra.state == OL_GRAD_PUSHED || worker->flush_op != NULL ||
	       worker->wants_buffer;
}

/*
 * May the oldest delta leave? Not to a step that has a gradient of this worker. And not before the
 * caller pushes, or waits: until then it may be about to push a gradient, which joins the delta. If
 * it came behind the delta, this worker would stay a gradient ahead.
 */
static bool replay_may(const struct ol_link *link)
{
	return !ol_outage_paces(link->worker) ||
	       (!has_given(link, false) && is_waiting(link->worker));
}

/* This shard's part of the oldest delta may leave now */
static bool part_may(const struct ol_link *link)
{
	const struct ol_grad *grad = replay_buffer(link->worker);

	return link->queue.count > 0 && ol_link_usable(link) &&
	       ((grad->open | grad->kept) >> link->index & 1) == 0 && replay_may(link);
}

static void part_leave(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;
	struct ol_grad *grad = replay_buffer(worker);
	const struct ol_queued *queued;
	struct ol_push_hdr hdr;

	if (ol_outage_paces(worker))
		ol_queue_merge(link); /* a step takes one gradient */
	queued = ol_queue_oldest(link);
	memcpy(grad->data + link->geo.shard_first, queued->sum,
	       link->geo.shard_len * sizeof(float));
	hdr = queued->hdr;
	if ((hdr.flags & OL_PUSH_RULE) != 0 && ol_rule_is_old(link, queued->rule_serial))
		hdr.flags &= ~(uint32_t)OL_PUSH_RULE;
	if ((hdr.flags & OL_PUSH_RULE) != 0)
		ol_rule_place(link, worker->window, queued->rule, queued->rule_serial);
	ol_queue_shift(link);
	grad->state = OL_GRAD_PUSHED;
	grad->left[link->index] = link->payload_bytes;
	ol_push_to(link, worker->window, &hdr);
}

void ol_outage_replay(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;

	if (!ol_worker_decided(worker)) {
		if (part_may(link)) {
			part_leave(link);
			ol_push_progress(link);
		}
		return;
	}
	for (uint32_t k = 0; k < worker->link_count; k++) {
		if (!part_may(&worker->links[k]))
			return;
	}
	/* shard 0 waits for the others only once they are to get it, too */
	for (uint32_t k = 0; k < worker->link_count; k++)
		part_leave(&worker->links[k]);
	for (uint32_t k = 0; k < worker->link_count; k++)
		ol_push_progress(&worker->links[k]);
}

static bool any_lent(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->window; i++) {
		if (worker->grads[i].state == OL_GRAD_LENT)
			return true;
	}
	return worker->extra.state == OL_GRAD_LENT;
}

void ol_outage_pull(struct ol_worker *worker)
{
	if (worker->pull_op == NULL && ol_queue_needs_pull(worker) && !any_lent(worker))
		(void)ol_pull(worker, 0, &worker->own_pull);
}

static bool all_resolved(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->slots; i++) {
		if (worker->grads[i].state == OL_GRAD_PUSHED && worker->grads[i].open != 0)
			return false;
	}
	/* while its server is gone, it is not known which applied gradients must be pushed again */
	for (uint32_t k = 0; k < worker->link_count; k++) {
		if (worker->links[k].queue.count > 0 || !ol_link_usable(&worker->links[k]))
			return false;
	}
	return true;
}

void ol_outage_flush(struct ol_worker *worker)
{
	struct ol_op *op = worker->flush_op;

	ol_outage_pull(worker);
	if (!all_resolved(worker) || worker->pull_op == &worker->own_pull)
		return;
	worker->flush_op = NULL;
	ol_op_done(worker, op, 0, 0);
}

int ol_flush(struct ol_worker *worker, struct ol_op *op)
{
	int rc;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (worker->flush_op != NULL)
		return -EBUSY;
	for (uint32_t k = 0; k < worker->link_count; k++) {
		if (worker->links[k].state == OL_LINK_FAILED)
			return OL_E_NO_SERVER;
	}
	op->done = 0;
	op->local = 0;
	worker->flush_op = op;
	rc = ol_worker_look(worker); /* a server that died since the last poll is not connected */
	if (rc == 0 || op->done)
		return 0;
	worker->flush_op = NULL;
	return rc;
}

int ol_link_get_stat_sized(const struct ol_worker *worker, uint32_t shard,
			   struct ol_link_stat *ret_stat, size_t stat_bytes)
{
	struct ol_link_stat stat;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (shard >= worker->link_count)
		return -EINVAL;
	stat = worker->links[shard].stat;
	stat.pending = stat.pushed - stat.applied - stat.nonfinite - stat.late -
		       stat.queue_dropped - stat.lost;
	ol_sized_give(ret_stat, stat_bytes, &stat, sizeof(stat));
	return 0;
}
