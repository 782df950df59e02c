/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage.c -- gradients that wait for their server (OL_OUTAGE_CONTINUE)
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
 *   themselves (ol_outage_pull()), acquire and push say -ENOBUFS.
 * - acquire waits for a buffer. It says -EAGAIN while one holds a push that no shard has dropped,
 *   which is an op, see below. If a pull frees a buffer it says -ENOBUFS. If all that is pushed is
 *   adrift its caller waits for none of it: with CONTINUE there is the buffer more, else acquire
 *   withdraws it (ol_withdraw()). Its caller was told that it is late or lost.
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
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "worker/worker_internal.h"

static struct ol_queued *queued_at(struct ol_queue_state *queue, uint32_t index)
{
	return &queue->deltas[(queue->head + index) % queue->size];
}

static int queue_start(struct ol_link *link)
{
	const struct ol_worker_opts *opts = &link->worker->opts;
	uint32_t size = opts->queue == OL_QUEUE_FOLD ? 1 : opts->queue_max;

	if (link->queue.deltas != NULL)
		return 0;
	link->queue.deltas = calloc(size, sizeof(*link->queue.deltas));
	if (link->queue.deltas == NULL)
		return -ENOMEM;
	link->queue.size = size;
	return 0;
}

static void drop_oldest(struct ol_link *link)
{
	struct ol_queue_state *queue = &link->queue;

	link->stat.queue_dropped += queued_at(queue, 0)->hdr.grads;
	link->stat.queued -= queued_at(queue, 0)->hdr.grads;
	queue->head = (queue->head + 1) % queue->size;
	queue->count--;
}

/* Where one more delta goes, if it is full in place of the oldest; NULL: nowhere */
static struct ol_queued *queue_slot(struct ol_link *link)
{
	struct ol_queue_state *queue = &link->queue;
	struct ol_queued *queued;

	if (queue_start(link) != 0)
		return NULL;
	if (queue->count == queue->size && link->worker->opts.queue == OL_QUEUE_WAIT)
		return NULL;
	queued = queued_at(queue, queue->count);
	if (queued->sum == NULL) {
		queued->sum = malloc(ol_layout_vector_bytes(&link->geo));
		if (queued->sum == NULL)
			return NULL;
		link->stat.queue_bytes += ol_layout_vector_bytes(&link->geo);
	}
	return queued;
}

static void fold(struct ol_queued *queued, const float *grad, const struct ol_push_hdr *hdr,
		 uint64_t len)
{
	float *restrict sum = queued->sum;

	for (uint64_t i = 0; i < len; i++)
		sum[i] += grad[i];
	queued->hdr.loss += (hdr->loss - queued->hdr.loss) / (float)(queued->hdr.grads + 1);
	queued->hdr.grads += hdr->grads;
	queued->hdr.samples += hdr->samples;
	queued->hdr.flags |= hdr->flags;
	if (hdr->base_version < queued->hdr.base_version)
		queued->hdr.base_version = hdr->base_version;
}

int ol_outage_status(const struct ol_link *link, uint32_t index)
{
	struct ol_worker *worker = link->worker;
	const float *part = worker->grads[index].data + link->geo.shard_first;

	if ((ol_worker_hdr(worker, index, link->index)->flags & OL_PUSH_VOID) != 0)
		return OL_E_NONFINITE;
	return link->nonfinite || ol_push_finite(part, 0, link->geo.shard_len) ? OL_E_LATE
									       : OL_E_NONFINITE;
}

static bool folds(const struct ol_link *link)
{
	return link->worker->opts.queue == OL_QUEUE_FOLD && link->queue.count == 1;
}

bool ol_outage_room(struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (!folds(&worker->links[i]) && queue_slot(&worker->links[i]) == NULL)
			return false;
	}
	return true;
}

/*
 * Is each buffer held by a server that is gone, or by steps of others that the caller does not wait
 * for? Then neither time nor a pull is sure to free one.
 */
static bool all_stranded(const struct ol_worker *worker)
{
	uint64_t gone = 0;

	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (!ol_link_usable(&worker->links[i]))
			gone |= UINT64_C(1) << i;
	}
	for (uint32_t i = 0; i < worker->window; i++) {
		const struct ol_grad *grad = &worker->grads[i];

		if (grad->state != OL_GRAD_PUSHED)
			return false;
		if (((grad->open | grad->kept) & gone) == 0 && (!grad->adrift || grad->open == 0))
			return false;
	}
	return true;
}

struct ol_grad *ol_outage_buffer(struct ol_worker *worker)
{
	struct ol_grad *grad = &worker->extra;

	if (worker->opts.outage != OL_OUTAGE_CONTINUE || grad->state != OL_GRAD_FREE ||
	    !all_stranded(worker) || !ol_outage_room(worker))
		return NULL;
	if (grad->data == NULL)
		grad->data = aligned_alloc(OL_LINE_BYTES, ol_worker_flat_bytes(worker));
	if (grad->data == NULL)
		return NULL;
	grad->adrift = false;
	grad->is_void = false;
	grad->looked = worker->links[0].geo.param_count;
	return grad;
}

/* With CONTINUE there is the buffer more, and nothing has to be given up for one */
bool ol_outage_adrift(const struct ol_worker *worker)
{
	bool found = false;

	if (worker->opts.outage == OL_OUTAGE_CONTINUE)
		return false;
	for (uint32_t i = 0; i < worker->window; i++) {
		const struct ol_grad *grad = &worker->grads[i];

		if (grad->state != OL_GRAD_PUSHED || grad->open == 0)
			continue;
		if (!grad->adrift)
			return false;
		found = true;
	}
	return found;
}

void ol_outage_on_catch_up(struct ol_worker *worker)
{
	if (!ol_outage_adrift(worker))
		return;
	for (uint32_t k = 0; k < worker->link_count; k++) {
		const struct ol_link *link = &worker->links[k];

		if (link->state == OL_LINK_LIVE && link->catch_up_seq != 0) {
			(void)ol_withdraw(worker);
			return;
		}
	}
}

bool ol_outage_take(struct ol_link *link, const float *grad, const struct ol_push_hdr *hdr)
{
	struct ol_queue_state *queue = &link->queue;
	const float *part = grad + link->geo.shard_first;
	struct ol_queued *queued;

	if (folds(link)) {
		fold(queued_at(queue, 0), part, hdr, link->geo.shard_len);
	} else {
		queued = queue_slot(link);
		if (queued == NULL)
			return false;
		if (queue->count == queue->size)
			drop_oldest(link);
		memcpy(queued->sum, part, link->geo.shard_len * sizeof(float));
		queued->hdr = *hdr;
		queued->hdr.flags |= OL_PUSH_QUEUED;
		queue->count++;
	}
	link->stat.queued += hdr->grads;
	link->stat.queued_total += hdr->grads;
	return true;
}

/* The buffer that queues leave through */
static struct ol_grad *replay_buffer(struct ol_worker *worker)
{
	return &worker->grads[worker->window];
}

void ol_outage_replay(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;
	struct ol_queue_state *queue = &link->queue;
	struct ol_grad *grad = replay_buffer(worker);
	struct ol_queued *queued;

	if (queue->count == 0 || !ol_link_usable(link) ||
	    ((grad->open | grad->kept) >> link->index & 1) != 0)
		return;
	queued = queued_at(queue, 0);
	memcpy(grad->data + link->geo.shard_first, queued->sum,
	       link->geo.shard_len * sizeof(float));
	link->stat.queued -= queued->hdr.grads;
	queue->head = (queue->head + 1) % queue->size;
	queue->count--;
	grad->state = OL_GRAD_PUSHED;
	grad->left[link->index] = ol_layout_vector_bytes(&link->geo);
	ol_push_to(link, worker->window, &queued->hdr);
	ol_push_progress(link);
}

bool ol_outage_stuck(const struct ol_worker *worker)
{
	const struct ol_grad *grad = &worker->grads[worker->window];

	for (uint32_t k = 0; worker->slots > worker->window && k < worker->link_count; k++) {
		const struct ol_link *link = &worker->links[k];

		if (link->queue.count > 0 && ol_link_usable(link) && (grad->kept >> k & 1) != 0)
			return true;
	}
	return false;
}

void ol_outage_pull(struct ol_worker *worker)
{
	if (worker->pull_op != NULL || !ol_outage_stuck(worker))
		return;
	for (uint32_t i = 0; i < worker->window; i++) {
		if (worker->grads[i].state == OL_GRAD_LENT)
			return;
	}
	if (worker->extra.state != OL_GRAD_LENT)
		(void)ol_pull(worker, 0, &worker->own_pull);
}

void ol_outage_free(struct ol_link *link)
{
	for (uint32_t i = 0; i < link->queue.size; i++)
		free(link->queue.deltas[i].sum);
	free(link->queue.deltas);
	link->queue = (struct ol_queue_state){ 0 };
}

void ol_outage_follow(const struct ol_link *link, const float *grad)
{
	struct ol_worker *worker = link->worker;
	const float *restrict g = grad + link->geo.shard_first;
	float *restrict w = worker->local + link->geo.shard_first;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	if (!worker->local_valid)
		memcpy(worker->local, mirror->weights,
		       worker->links[0].geo.param_count * sizeof(float));
	worker->local_valid = true;
	for (uint64_t i = 0; i < link->geo.shard_len; i++)
		w[i] -= link->lr * g[i];
}

/* Weights have come. Where a server has applied its whole queue, the pulled weights of its shard
 * replace the local ones. */
void ol_outage_on_pull(struct ol_worker *worker)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	bool all = true;

	if (!worker->local_valid)
		return;
	for (uint32_t k = 0; k < worker->link_count; k++) {
		const struct ol_link *link = &worker->links[k];

		if (!ol_link_usable(link) || link->queue.count > 0) {
			all = false;
			continue;
		}
		memcpy(worker->local + link->geo.shard_first,
		       mirror->weights + link->geo.shard_first,
		       link->geo.shard_len * sizeof(float));
	}
	worker->local_valid = !all;
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

	if (shard >= worker->link_count)
		return -EINVAL;
	stat = worker->links[shard].stat;
	stat.pending = stat.pushed - stat.applied - stat.nonfinite - stat.late -
		       stat.queue_dropped - stat.lost;
	ol_sized_give(ret_stat, stat_bytes, &stat, sizeof(stat));
	return 0;
}
