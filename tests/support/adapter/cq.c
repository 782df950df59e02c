/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * cq.c -- completion queues: what vanishes, what comes late, and waking for what comes late
 *
 * The program polls a queue of ours. It is filled from the one below whenever the program polls,
 * destroys a queue pair or takes an event.
 */
#include "support/adapter/adapter.h"

#include <errno.h>
#include <stdlib.h>

enum {
	BATCH = 16,
	CQE_LIMIT = 32767 /* rdma_rxe: RXE_MAX_CQE is 2^15 - 1 */
};

void ad_cq_put(struct ad_cq *cq, const struct ibv_wc *wc)
{
	struct ad_wc *copy = malloc(sizeof(*copy));

	if (copy == NULL)
		abort();
	copy->next = NULL;
	copy->wc = *wc;
	copy->due_ns = ad_set.delay_ms > 0 ? ad_now_ns() + (uint64_t)ad_set.delay_ms * 1000000 : 0;
	*cq->tail = copy;
	cq->tail = &copy->next;
}

/* A queue pair that has failed by itself has reached its last receive, too. */
static void wc_look(const struct ibv_wc *wc)
{
	struct ad_qp *qp;

	if (wc->status == IBV_WC_SUCCESS)
		return;
	qp = ad_qp_of_num(wc->qp_num);
	if (qp != NULL)
		ad_last_wqe_reached(qp);
}

void ad_cq_fill(struct ad_cq *cq)
{
	struct ibv_wc wcs[BATCH];
	int count;

	if (cq->ctx == NULL || cq->ctx->dead)
		return;
	do {
		count = cq->ctx->ops.poll_cq(cq->cq, BATCH, wcs);
		for (int i = 0; i < count; i++) {
			wc_look(&wcs[i]);
			if (!ad_send_done(cq, &wcs[i]))
				ad_cq_put(cq, &wcs[i]);
		}
	} while (count == BATCH);
}

/*
 * Completions of a queue pair vanish when it is destroyed or reset: __mlx5_cq_clean() in
 * providers/mlx5/cq.c, __mlx4_cq_clean(), __hns_roce_v2_cq_clean(), bnxt_re_cleanup_cq(),
 * irdma_clean_cqes(). Receives out of a shared queue are not given back either: the provider frees
 * their places, and the program is never told.
 */
void ad_cq_clean(struct ad_cq *cq, uint32_t qp_num)
{
	struct ad_wc **at = &cq->first;

	while (*at != NULL) {
		struct ad_wc *wc = *at;

		if (wc->wc.qp_num != qp_num) {
			at = &wc->next;
			continue;
		}
		*at = wc->next;
		free(wc);
	}
	cq->tail = at;
}

/* Lets the timer of the queue's channel go off when the first completion is due that was waited for. */
static void channel_wake(struct ad_channel *channel)
{
	uint64_t due_ns = 0;

	if (channel == NULL)
		return;
	for (const struct ad_cq *cq = ad_cqs; cq != NULL; cq = cq->next) {
		if (cq->channel != channel || !cq->armed || cq->first == NULL)
			continue;
		if (due_ns == 0 || cq->first->due_ns < due_ns)
			due_ns = cq->first->due_ns;
	}
	ad_later_wake(&channel->later, due_ns);
}

static int due_take(struct ad_cq *cq, int max, struct ibv_wc *wcs)
{
	const uint64_t now_ns = ad_set.delay_ms > 0 ? ad_now_ns() : 0;
	int count = 0;

	while (count < max && cq->first != NULL && cq->first->due_ns <= now_ns) {
		struct ad_wc *wc = cq->first;

		wcs[count++] = wc->wc;
		cq->first = wc->next;
		if (cq->first == NULL)
			cq->tail = &cq->first;
		free(wc);
	}
	return count;
}

static void held_flush(struct ad_qp *qp, void *arg)
{
	(void)arg;
	ad_send_flush(qp);
}

int ad_poll_cq(struct ibv_cq *ibv_cq, int max, struct ibv_wc *wc)
{
	struct ad_cq *cq;
	int count;

	ad_lock();
	if (ad_held_total > 0)
		ad_qps_each(held_flush, NULL);
	cq = ad_cq_find(ibv_cq);
	ad_cq_fill(cq);
	count = due_take(cq, max, wc);
	if (cq->armed)
		channel_wake(cq->channel);
	ad_unlock();
	return count;
}

int ad_req_notify_cq(struct ibv_cq *ibv_cq, int solicited_only)
{
	struct ad_cq *cq;
	int rc = EIO;

	ad_lock();
	if (ad_held_total > 0)
		ad_qps_each(held_flush, NULL);
	cq = ad_cq_find(ibv_cq);
	if (!cq->ctx->dead)
		rc = cq->ctx->ops.req_notify_cq(ibv_cq, solicited_only);
	cq->armed = true;
	channel_wake(cq->channel);
	ad_unlock();
	return rc;
}

AD_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				       struct ibv_comp_channel *channel, int comp_vector)
{
	const struct ad_ctx *ctx;
	struct ibv_cq *cq = NULL;

	ad_lock();
	ctx = ad_ctx_find(context);
	if (ad_set.pieces && cqe < CQE_LIMIT) /* each piece of a flushed write completes */
		cqe = cqe < CQE_LIMIT / AD_PIECES_MAX ? cqe * AD_PIECES_MAX : CQE_LIMIT;
	if (ctx != NULL && ctx->dead)
		errno = EIO;
	else
		cq = ad_real.create_cq(context, cqe, cq_context, channel, comp_vector);
	if (cq != NULL)
		ad_cq_find(cq);
	ad_unlock();
	return cq;
}

AD_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	int rc;

	ad_lock();
	ad_cq_forget(cq);
	rc = ad_real.destroy_cq(cq);
	ad_unlock();
	return rc;
}

AD_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = ad_real.create_comp_channel(context);
	struct ad_channel *ours;

	if (channel == NULL || ad_set.delay_ms <= 0)
		return channel;
	ours = calloc(1, sizeof(*ours));
	if (ours == NULL)
		abort();
	ours->channel = channel;
	ad_lock();
	if (ad_later_open(&ours->later, channel->fd) != 0)
		abort();
	ours->next = ad_channels;
	ad_channels = ours;
	ad_unlock();
	return channel;
}

static struct ad_channel **channel_find(const struct ibv_comp_channel *channel)
{
	struct ad_channel **at = &ad_channels;

	while (*at != NULL && (*at)->channel != channel)
		at = &(*at)->next;
	return at;
}

AD_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct ad_channel **at;
	struct ad_channel *ours;

	ad_lock();
	at = channel_find(channel);
	ours = *at;
	if (ours != NULL) {
		*at = ours->next;
		ad_later_close(&ours->later);
		free(ours);
	}
	ad_unlock();
	return ad_real.destroy_comp_channel(channel);
}

/* The event of a queue that was armed and has a completion that is due */
static struct ibv_cq *event_take(struct ad_channel *channel)
{
	const uint64_t now_ns = ad_now_ns();

	for (struct ad_cq *cq = ad_cqs; cq != NULL; cq = cq->next) {
		if (cq->channel != channel || !cq->armed || cq->first == NULL ||
		    cq->first->due_ns > now_ns)
			continue;
		cq->armed = false;
		channel_wake(channel);
		return cq->cq;
	}
	channel_wake(channel);
	return NULL;
}

/* A completion has come below: its time runs from now. The event is not the program's. */
static void event_below(struct ibv_comp_channel *channel)
{
	struct ibv_cq *ibv_cq;
	struct ad_cq *cq;
	void *context;

	if (ad_real.get_cq_event(channel, &ibv_cq, &context) != 0)
		return;
	ad_real.ack_cq_events(ibv_cq, 1);
	cq = ad_cq_find(ibv_cq);
	cq->ctx->ops.req_notify_cq(ibv_cq, 0);
	ad_cq_fill(cq);
}

AD_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ret_cq,
			       void **ret_context)
{
	struct ad_channel *ours;
	struct ibv_cq *cq;
	int ready;

	ad_lock();
	ours = *channel_find(channel);
	ad_unlock();
	if (ours == NULL)
		return ad_real.get_cq_event(channel, ret_cq, ret_context);
	for (;;) {
		ad_lock();
		cq = event_take(ours);
		ad_unlock();
		if (cq != NULL) {
			*ret_cq = cq;
			*ret_context = cq->cq_context;
			return 0;
		}
		ready = ad_later_wait(&ours->later);
		if (ready < 0) {
			errno = EAGAIN;
			return -1;
		}
		ad_lock();
		if (ready == 1)
			event_below(channel);
		ad_unlock();
	}
}

AD_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned nevents)
{
	bool ours;

	ad_lock();
	ours = ad_cq_find(cq)->channel != NULL;
	ad_unlock();
	if (!ours)
		ad_real.ack_cq_events(cq, nevents);
}
