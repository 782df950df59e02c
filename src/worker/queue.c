/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * queue.c -- gradients that wait for their server (OL_OUTAGE_CONTINUE)
 *
 * outage.c says why, and how they leave.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/format.h"
#include "worker/worker_internal.h"

static struct ol_queued *queued_at(const struct ol_queue_state *queue, uint32_t index)
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

const struct ol_queued *ol_queue_oldest(const struct ol_link *link)
{
	return queued_at(&link->queue, 0);
}

void ol_queue_shift(struct ol_link *link)
{
	struct ol_queue_state *queue = &link->queue;

	link->stat.queued -= queued_at(queue, 0)->hdr.grads;
	queue->head = (queue->head + 1) % queue->size;
	queue->count--;
}

static void drop_oldest(struct ol_link *link)
{
	const struct ol_queued *oldest = ol_queue_oldest(link);

	link->stat.queue_dropped += oldest->hdr.grads;
	if ((oldest->hdr.flags & OL_PUSH_RULE) != 0 && oldest->rule_serial == link->rule_sent)
		ol_rule_dropped(link);
	ol_queue_shift(link);
}

/* The place for one more delta: if the queue is full, that of the oldest. NULL: none */
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
		queued->sum = malloc(ol_layout_vector_bytes(&link->geo) +
				     ol_layout_rule_bytes(&link->geo));
		if (queued->sum == NULL)
			return NULL;
		queued->rule = (struct ol_rule *)(void *)((uint8_t *)queued->sum +
							  ol_layout_vector_bytes(&link->geo));
		link->stat.queue_bytes += ol_layout_vector_bytes(&link->geo);
	}
	return queued;
}

/* A delta brings this rule from now on */
static void queued_rule(struct ol_queued *queued, const struct ol_rule *rule, uint32_t serial)
{
	memcpy(queued->rule, rule, ol_rule_bytes_used(rule));
	queued->rule_serial = serial;
}

/* Of a delta, and of what is added to it */
struct factors {
	float keep;
	float add;
};

/*
 * Gradients of another weight than the delta's are added so that the delta times its new weight stays
 * the weighted sum of all. The new weight is the mean, as a header has the weight of each gradient.
 */
static struct factors sum_factors(const struct ol_queued *queued, const struct ol_push_hdr *hdr,
				  double *ret_weight)
{
	const double before = queued->hdr.weight, own = hdr->weight;

	*ret_weight = (before * queued->hdr.grads + own * hdr->grads) /
		      ((double)queued->hdr.grads + hdr->grads);
	return (struct factors){ (float)(before / *ret_weight), (float)(own / *ret_weight) };
}

static float largest_of(const float *values, uint64_t len)
{
	return ol_format_float(ol_format_largest(values, len));
}

/* Would the format of what is pushed have an infinity for this sum? int8 has one only near the end of
 * fp32, and what it owes goes by sums */
static bool overflows(const struct ol_link *link, const struct ol_queued *queued, const float *grad,
		      struct factors by)
{
	const uint32_t format = link->worker->opts.gradient_format;
	const uint64_t len = link->geo.shard_len;
	const float peak = ol_format_float(ol_format_peak(format));

	return format != OL_FORMAT_INT8 &&
	       !(by.keep * largest_of(queued->sum, len) + by.add * largest_of(grad, len) < peak);
}

/* Then it is their weighted mean from here on: which has its place wherever each of them has */
static void fold_mean(struct ol_queued *queued, const float *grad, const struct ol_push_hdr *hdr,
		      uint64_t len)
{
	const double before = (double)queued->hdr.weight * queued->hdr.grads;
	const double own = (double)hdr->weight * hdr->grads, all = before + own;
	const bool sums = (queued->hdr.flags & OL_PUSH_MEAN) == 0;
	const float keep = (float)(before / all / (sums ? queued->hdr.grads : 1));
	const float add = (float)(own / all / ((hdr->flags & OL_PUSH_MEAN) == 0 ? hdr->grads : 1));
	float *restrict mean = queued->sum;

	for (uint64_t i = 0; i < len; i++)
		mean[i] = keep * mean[i] + add * grad[i];
	queued->hdr.flags |= OL_PUSH_MEAN;
	queued->hdr.weight = (float)(all / ((double)queued->hdr.grads + hdr->grads));
}

static void queued_fold(const struct ol_link *link, struct ol_queued *queued, const float *grad,
			const struct ol_push_hdr *hdr)
{
	const bool even = hdr->weight == queued->hdr.weight;
	const uint64_t len = link->geo.shard_len;
	float *restrict sum = queued->sum;
	struct factors by = { 1.0f, 1.0f };
	double weight = queued->hdr.weight;

	if (!even)
		by = sum_factors(queued, hdr, &weight);
	if (((queued->hdr.flags | hdr->flags) & OL_PUSH_MEAN) != 0 ||
	    overflows(link, queued, grad, by)) {
		fold_mean(queued, grad, hdr, len);
	} else {
		for (uint64_t i = 0; even && i < len; i++)
			sum[i] += grad[i];
		for (uint64_t i = 0; !even && i < len; i++)
			sum[i] = by.keep * sum[i] + by.add * grad[i];
		queued->hdr.weight = (float)weight;
	}
	queued->hdr.loss += (hdr->loss - queued->hdr.loss) * (float)hdr->grads /
			    (float)(queued->hdr.grads + hdr->grads);
	queued->hdr.grads += hdr->grads;
	queued->hdr.samples += hdr->samples;
	queued->hdr.flags |= hdr->flags;
	queued->hdr.last_version = hdr->last_version;
	if (hdr->base_version < queued->hdr.base_version)
		queued->hdr.base_version = hdr->base_version;
}

/* Does a gradient join the newest delta? Also what a step has no place for, whose server is there */
static bool queue_folds_now(const struct ol_link *link)
{
	if (link->queue.count == 0)
		return false;
	return link->worker->opts.queue == OL_QUEUE_FOLD ||
	       (ol_outage_paces(link->worker) && ol_link_usable(link) &&
		ol_outage_is_whole(link->worker));
}

bool ol_queue_room(struct ol_worker *worker, uint64_t span)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		if (ol_link_is_in(link, span) && !queue_folds_now(link) && queue_slot(link) == NULL)
			return false;
	}
	return true;
}

bool ol_queue_put(struct ol_link *link, const float *grad, const struct ol_push_hdr *hdr)
{
	struct ol_worker *worker = link->worker;
	struct ol_queue_state *queue = &link->queue;
	const float *part = grad + link->geo.shard_first;
	struct ol_queued *queued;

	/* where its parts stay together there is room for all of them, or for none */
	if (ol_worker_decided(worker) && link->index == 0)
		worker->queues_whole = ol_queue_room(worker, ol_worker_all(worker));
	if (ol_worker_decided(worker) && !worker->queues_whole)
		return false;
	if (queue_folds_now(link)) {
		queued = queued_at(queue, queue->count - 1);
		queued_fold(link, queued, part, hdr);
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
	if ((hdr->flags & OL_PUSH_RULE) != 0)
		queued_rule(queued, &worker->rule, worker->rule_serial);
	link->stat.queued += hdr->grads;
	link->stat.queued_total += hdr->grads;
	return true;
}

void ol_queue_merge(struct ol_link *link)
{
	struct ol_queue_state *queue = &link->queue;

	for (uint32_t i = 1; i < queue->count; i++) {
		const struct ol_queued *next = queued_at(queue, i);

		queued_fold(link, queued_at(queue, 0), next->sum, &next->hdr);
		if ((next->hdr.flags & OL_PUSH_RULE) != 0)
			queued_rule(queued_at(queue, 0), next->rule, next->rule_serial);
	}
	queue->count = queue->count > 0;
}

bool ol_queue_needs_pull(const struct ol_worker *worker)
{
	const struct ol_grad *grad = &worker->grads[worker->window];

	if (!ol_outage_is_whole(worker))
		return false; /* nor does one help */
	for (uint32_t k = 0; worker->slots > worker->window && k < worker->link_count; k++) {
		const struct ol_link *link = &worker->links[k];

		if (link->queue.count > 0 && ol_link_usable(link) && (grad->kept >> k & 1) != 0)
			return true;
	}
	return false;
}

void ol_queue_free(struct ol_link *link)
{
	for (uint32_t i = 0; i < link->queue.size; i++)
		free(link->queue.deltas[i].sum);
	free(link->queue.deltas);
	link->queue = (struct ol_queue_state){ 0 };
}
