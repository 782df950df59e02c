/* SPDX-License-Identifier: BSD-3-Clause */

/* shadow.c -- what the program has made, by its address and by its number */
#include "support/adapter/adapter.h"

#include <stdlib.h>

enum {
	BUCKETS = 1024 /* a power of two */
};

struct ad_ctx *ad_ctxs;
struct ad_cq *ad_cqs;
struct ad_channel *ad_channels;
uint32_t ad_held_total;

static struct ad_cq *cqs_by_address[BUCKETS];
static struct ad_qp *qps_by_address[BUCKETS];
static struct ad_qp *qps_by_num[BUCKETS];

static unsigned address_hash(const void *address)
{
	return (unsigned)((uintptr_t)address >> 4 ^ (uintptr_t)address >> 14) % BUCKETS;
}

static void *must(void *memory)
{
	if (memory == NULL)
		abort();
	return memory;
}

struct ad_ctx *ad_ctx_find(const struct ibv_context *ctx)
{
	struct ad_ctx *at = ad_ctxs;

	while (at != NULL && at->ctx != ctx)
		at = at->next;
	return at;
}

struct ad_cq *ad_cq_find(struct ibv_cq *cq)
{
	struct ad_cq **bucket = &cqs_by_address[address_hash(cq)];
	struct ad_cq *at = *bucket;

	while (at != NULL && at->cq != cq)
		at = at->hash_next;
	if (at != NULL)
		return at;
	at = must(calloc(1, sizeof(*at)));
	at->cq = cq;
	at->ctx = ad_ctx_find(cq->context);
	at->tail = &at->first;
	for (at->channel = ad_channels; at->channel != NULL; at->channel = at->channel->next) {
		if (at->channel->channel == cq->channel)
			break;
	}
	at->hash_next = *bucket;
	*bucket = at;
	at->next = ad_cqs;
	ad_cqs = at;
	return at;
}

void ad_cq_forget(struct ibv_cq *ibv_cq)
{
	struct ad_cq *cq = ad_cq_find(ibv_cq);
	struct ad_cq **at = &cqs_by_address[address_hash(ibv_cq)];

	while (*at != cq)
		at = &(*at)->hash_next;
	*at = cq->hash_next;
	for (at = &ad_cqs; *at != cq;)
		at = &(*at)->next;
	*at = cq->next;
	while (cq->first != NULL) {
		struct ad_wc *wc = cq->first;

		cq->first = wc->next;
		free(wc);
	}
	free(cq);
}

struct ad_qp *ad_qp_find(const struct ibv_qp *qp)
{
	struct ad_qp *at = qps_by_address[address_hash(qp)];

	while (at != NULL && at->qp != qp)
		at = at->hash_next;
	return at;
}

struct ad_qp *ad_qp_of_num(uint32_t qp_num)
{
	struct ad_qp *at = qps_by_num[qp_num % BUCKETS];

	while (at != NULL && at->qp_num != qp_num)
		at = at->num_next;
	return at;
}

struct ad_qp *ad_qp_add(struct ibv_qp *ibv_qp)
{
	struct ad_qp *qp = must(calloc(1, sizeof(*qp)));
	struct ad_qp **by_address = &qps_by_address[address_hash(ibv_qp)];
	struct ad_qp **by_num = &qps_by_num[ibv_qp->qp_num % BUCKETS];

	qp->qp = ibv_qp;
	qp->qp_num = ibv_qp->qp_num;
	qp->ctx = ad_ctx_find(ibv_qp->context);
	qp->tail = &qp->first;
	if (ad_set.ooo)
		qp->held = must(calloc(AD_HELD_MAX, sizeof(*qp->held)));
	if (ad_set.unsent)
		qp->last = must(calloc(1, sizeof(*qp->last)));
	qp->hash_next = *by_address;
	*by_address = qp;
	qp->num_next = *by_num;
	*by_num = qp;
	return qp;
}

void ad_qp_forget(struct ad_qp *qp)
{
	struct ad_qp **at = &qps_by_address[address_hash(qp->qp)];

	while (*at != qp)
		at = &(*at)->hash_next;
	*at = qp->hash_next;
	for (at = &qps_by_num[qp->qp_num % BUCKETS]; *at != qp;)
		at = &(*at)->num_next;
	*at = qp->num_next;
	ad_send_forget(qp);
	free(qp->held);
	free(qp->last);
	free(qp);
}

void ad_qps_each(void (*each)(struct ad_qp *qp, void *arg), void *arg)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		for (struct ad_qp *qp = qps_by_address[i]; qp != NULL; qp = qp->hash_next)
			each(qp, arg);
	}
}
