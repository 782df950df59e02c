/* SPDX-License-Identifier: BSD-3-Clause */

/* mutate_outage.c -- a worker in an outage, with the old fault of waiting for ever */

#include <errno.h>
#include <string.h>

#include "sim/world/mutate.h"
#include "sim/world/wrap.h"
#include "worker/worker_internal.h"

WRAP(void, ol_outage_replay, struct ol_link *link);
WRAP(int, ol_grad_try_acquire, struct ol_worker *worker, float **ret_grad);
WRAP(int, ol_withdraw, struct ol_worker *worker);
WRAP(bool, ol_outage_queues, const struct ol_link *link, uint64_t base_version);

static bool all_usable(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (!ol_link_usable(&worker->links[i]))
			return false;
	}
	return true;
}

/* 0: there is a buffer, beside the one that is held back for the next outage */
static int buffers(const struct ol_worker *worker)
{
	uint32_t spare = all_usable(worker) ? 1 : 0, free_count = 0;
	bool open = false, kept = false;
	uint64_t live = 0;

	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (ol_link_usable(&worker->links[i]))
			live |= UINT64_C(1) << i;
	}
	for (uint32_t i = 0; i < worker->window; i++) {
		const struct ol_grad *grad = &worker->grads[i];

		free_count += grad->state == OL_GRAD_FREE;
		if (grad->state != OL_GRAD_PUSHED)
			continue;
		open = open || (grad->open & live) != 0;
		kept = kept || (grad->open == 0 && (grad->kept & ~live) == 0);
	}
	if (free_count > spare)
		return 0;
	return kept && !open ? -ENOBUFS : -EAGAIN;
}

static void replay(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;
	struct ol_queue_state *queue = &link->queue;

	while (queue->count > 0 && ol_link_usable(link)) {
		const struct ol_queued *queued = &queue->deltas[queue->head];
		struct ol_grad *grad;

		if (buffers(worker) != 0) {
			if (worker->flush_op != NULL && worker->pull_op == NULL &&
			    buffers(worker) == -ENOBUFS)
				(void)ol_pull(worker, 0, &worker->own_pull);
			return;
		}
		grad = ol_push_buffer(worker);
		memcpy(grad->data + link->geo.shard_first, queued->sum,
		       link->geo.shard_len * sizeof(float));
		link->stat.queued -= queued->hdr.grads;
		queue->head = (queue->head + 1) % queue->size;
		queue->count--;
		grad->state = OL_GRAD_PUSHED;
		ol_push_to(link, (uint32_t)(grad - worker->grads), &queued->hdr);
		ol_push_progress(link);
	}
}

void __wrap_ol_outage_replay(struct ol_link *link)
{
	if (mutation(MUTATE_SHARED_BUFFERS))
		replay(link);
	else
		__real_ol_outage_replay(link);
}

int __wrap_ol_grad_try_acquire(struct ol_worker *worker, float **ret_grad)
{
	int rc = mutation(MUTATE_SHARED_BUFFERS) && worker->opts.outage == OL_OUTAGE_CONTINUE &&
				 all_usable(worker)
			 ? buffers(worker)
			 : 0;

	return rc != 0 ? rc : __real_ol_grad_try_acquire(worker, ret_grad);
}

int __wrap_ol_withdraw(struct ol_worker *worker)
{
	return mutation(MUTATE_NO_WITHDRAW) ? 0 : __real_ol_withdraw(worker);
}

bool __wrap_ol_outage_queues(const struct ol_link *link, uint64_t base_version)
{
	if (mutation(MUTATE_SECOND) ||
	    (mutation(MUTATE_PARTS_APART) && ol_worker_decided(link->worker)))
		return ol_worker_queues(link->worker) && !ol_link_usable(link);
	return __real_ol_outage_queues(link, base_version);
}
