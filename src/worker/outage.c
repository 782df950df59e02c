/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage.c -- what an outage makes necessary: queues leave, the library pulls and withdraws by
 * itself; flush
 *
 * While a server is gone its shard of a gradient goes into a queue, and the buffer is free at once.
 * The weights that gradients are computed at do not change meanwhile, so they can be summed up into
 * one delta: OL_QUEUE_FOLD needs the memory of one, however long it takes. The server decides what
 * such a delta is worth (policy/replay.h). When it is back, deltas leave one after the other, in a
 * slot of their own, and are kept there until they cannot be lost, as any push is. Shard k of that
 * buffer is shard k's alone.
 *
 * Of several servers that go one after the other each may hold a buffer, with what it had applied
 * and nobody else has, until none is left. Then gradients are computed in one buffer more, which
 * belongs to no slot: all of it goes into queues, also for a server that is still there.
 *
 * NO WORKERS WAIT CROSSWISE. A synchronous step of a shard waits for every worker: a worker that is
 * missing at one shard must never wait for a step of another. What a worker waits for, and what
 * ends that without anybody else:
 *
 * - A delta waits for its shard's part of the slot. While a server holds that part, the worker has
 *   given to the step there. Once it is applied, a pull frees it: a wait and a flush pull by
 *   themselves (ol_outage_pull()), acquire pulls, too, and push says -ENOBUFS.
 * - acquire waits for a buffer, and pulls if a pull frees one; ol_grad_try_acquire() says -EAGAIN
 *   and -ENOBUFS instead. A buffer may hold a push that no shard has dropped, which is an op, see
 *   below. If all that is pushed is adrift its caller waits for none of it: with CONTINUE there is
 *   the buffer more, else acquire withdraws it (ol_withdraw()). Its caller was told that it is late
 *   or lost.
 * - An op waits for each shard to resolve its part. A shard that drops its part (late, lost), or
 *   whose server is gone, ends it: the rest is adrift.
 * - A pull waits, with WAIT, for what is pushed again to a server that came back without it. If all
 *   that is pushed is adrift, it is withdrawn (ol_outage_on_catch_up()).
 * - A flush waits for all of it. Its caller gives nothing more, so it withdraws what is held
 *   (ol_withdraw()), or goes on with the job if the servers have less than was wanted.
 *
 * So a worker that waits for others has a push that no shard has dropped. Some shard holds it for a
 * worker that is missing there. It was computed at the version that this shard has, hence after the
 * last step there. If the missing worker waits as well, its own such push is part of that step or
 * of an earlier one, and was computed before. Each in a circle would have computed before itself.
 *
 * Not covered: a caller that asks to wait where queues are full (OL_QUEUE_WAIT).
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

		if (link->state == OL_LINK_LIVE && link->catch_up_seq != 0) {
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

void ol_outage_replay(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;
	struct ol_grad *grad = replay_buffer(worker);
	const struct ol_queued *queued;

	if (link->queue.count == 0 || !ol_link_usable(link) ||
	    ((grad->open | grad->kept) >> link->index & 1) != 0)
		return;
	queued = ol_queue_oldest(link);
	memcpy(grad->data + link->geo.shard_first, queued->sum,
	       link->geo.shard_len * sizeof(float));
	ol_queue_shift(link);
	grad->state = OL_GRAD_PUSHED;
	grad->left[link->index] = ol_layout_vector_bytes(&link->geo);
	ol_push_to(link, worker->window, &queued->hdr);
	ol_push_progress(link);
}

void ol_outage_pull(struct ol_worker *worker)
{
	if (worker->pull_op != NULL || !ol_queue_needs_pull(worker))
		return;
	for (uint32_t i = 0; i < worker->window; i++) {
		if (worker->grads[i].state == OL_GRAD_LENT)
			return;
	}
	if (worker->extra.state != OL_GRAD_LENT)
		(void)ol_pull(worker, 0, &worker->own_pull);
}

static bool all_resolved(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->slots; i++) {
		if (worker->grads[i].state == OL_GRAD_PUSHED && worker->grads[i].open != 0)
			return false;
	}
	/* without its server nobody knows whether what that had applied is to be pushed again */
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
	ol_outage_flush(worker);
	return 0;
}

int ol_worker_redirect(struct ol_worker *worker, uint32_t shard, const char *addr)
{
	struct ol_link *link;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (worker->opts.outage == OL_OUTAGE_END || worker->coord != NULL)
		return -EPERM;
	if (shard >= worker->link_count || addr[0] == '\0' || strlen(addr) >= OL_XPORT_ADDR_MAX)
		return -EINVAL;
	link = &worker->links[shard];
	memcpy(ol_link_head(link)->addrs, addr, strlen(addr) + 1);
	if (link->state == OL_LINK_FAILED)
		return OL_E_NO_SERVER;
	ol_link_move(link, ol_worker_now(worker));
	return 0;
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
