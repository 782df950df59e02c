/* SPDX-License-Identifier: BSD-3-Clause */

/* push.c -- a gradient's way out: acquire, push, ack */

#include <errno.h>
#include <string.h>

#include "worker/worker_internal.h"

static int links_status(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (worker->links[i].state != OL_LINK_LIVE)
			return OL_E_NO_SERVER;
	}
	return 0;
}

int ol_grad_acquire(struct ol_worker *worker, float **ret_grad)
{
	int rc = links_status(worker);

	if (worker->opts.observer)
		return -EPERM;
	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < worker->window; i++) {
		struct ol_grad *grad = &worker->grads[i];

		if (grad->state != OL_GRAD_FREE)
			continue;
		grad->state = OL_GRAD_LENT;
		*ret_grad = grad->data;
		return 0;
	}
	return -EAGAIN;
}

/* The mirror whose version a gradient was computed at; NULL if neither is */
static const struct ol_mirror *mirror_find(const struct ol_worker *worker, uint64_t version)
{
	for (uint32_t i = 0; i < OL_MIRRORS; i++) {
		const struct ol_mirror *mirror =
			&worker->mirrors[(worker->mirror + i) % OL_MIRRORS];

		if (mirror->whole && mirror->version == version)
			return mirror;
	}
	return NULL;
}

static struct ol_grad *grad_find(struct ol_worker *worker, const float *data)
{
	for (uint32_t i = 0; i < worker->window; i++) {
		if (worker->grads[i].data == data && worker->grads[i].state == OL_GRAD_LENT)
			return &worker->grads[i];
	}
	return NULL;
}

int ol_push(struct ol_worker *worker, float *data, const struct ol_push_info *info,
	    struct ol_op *op)
{
	struct ol_grad *grad = grad_find(worker, data);
	const struct ol_mirror *base = mirror_find(worker, info->base_version);
	int rc = links_status(worker);
	uint32_t index;

	if (rc != 0)
		return rc;
	if (grad == NULL || (base == NULL && info->base_version != 0))
		return -EINVAL;
	index = (uint32_t)(grad - worker->grads);
	op->done = 0;
	grad->state = OL_GRAD_PUSHED;
	grad->op = op;
	grad->status = 0;
	grad->version = 0;
	grad->acks_due = worker->link_count;
	grad->places_due = worker->link_count;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];
		struct ol_push_hdr *hdr = ol_worker_hdr(worker, index, i);

		*hdr = (struct ol_push_hdr){
			.seq = ++link->seq,
			.base_version = base != NULL ? base->versions[i] : 0,
			.payload_bytes = ol_layout_vector_bytes(&link->geo),
			.epoch = link->epoch,
			.samples = info->samples,
			.loss = info->loss,
		};
		ol_record_seal(hdr);
		link->send_queue[(link->send_head + link->send_count++) % OL_WINDOW_MAX] = index;
	}
	for (uint32_t i = 0; i < worker->link_count; i++)
		ol_push_progress(&worker->links[i]);
	return 0;
}

/* The header, with the bell; the gradient is in the slot, or travels in front of it. */
static int post_last(struct ol_link *link, uint32_t index, uint64_t off, uint64_t bytes)
{
	struct ol_worker *worker = link->worker;
	struct ol_push_hdr *hdr = ol_worker_hdr(worker, index, link->index);
	uint64_t slot = ol_layout_slot_off(&link->geo, index);
	struct ol_xport_write write = {
		.flags = OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_PUSH, index),
		.dst = link->landing_key,
		.dst_off = slot + off,
		.cookie = ol_cookie_make(OL_COOKIE_PLACED, index),
	};
	struct ol_xport_seg *seg = &write.segs[0];
	uint64_t flat = (uint64_t)((uint8_t *)worker->grads[index].data -
				   (uint8_t *)(worker->zero_copy ? worker->grad_range
								 : worker->grad_slab->addr));

	if (bytes > 0) {
		*seg++ = (struct ol_xport_seg){ .region = worker->grad_region,
						.off = flat + link->geo.shard_first * 4 + off,
						.bytes = (uint32_t)bytes };
		write.seg_count++;
	}
	*seg = (struct ol_xport_seg){ .region = worker->work_region,
				      .off = ol_worker_work_off(worker, hdr),
				      .bytes = sizeof(*hdr) };
	write.seg_count++;
	write.flags |= bytes + sizeof(*hdr) <= worker->caps.inline_max ? OL_XPORT_INLINE
								       : OL_XPORT_SIGNALED;
	return worker->ops->post_write(link->conn, &write);
}

static int post_chunk(struct ol_link *link, uint32_t index, uint64_t off)
{
	struct ol_worker *worker = link->worker;
	uint64_t flat = (uint64_t)((uint8_t *)worker->grads[index].data -
				   (uint8_t *)worker->grad_slab->addr);
	struct ol_xport_write write = {
		.segs = { { .region = worker->grad_region,
			    .off = flat + link->geo.shard_first * 4 + off,
			    .bytes = OL_CHUNK_BYTES } },
		.seg_count = 1,
		.dst = link->landing_key,
		.dst_off = ol_layout_slot_off(&link->geo, index) + off,
	};

	return worker->ops->post_write(link->conn, &write);
}

/* Post what is left of one gradient. 0: all of it is posted. */
static int send_one(struct ol_link *link, uint32_t index)
{
	struct ol_worker *worker = link->worker;
	uint64_t bytes = ol_layout_vector_bytes(&link->geo);
	int rc;

	if (worker->zero_copy)
		return post_last(link, index, bytes, 0);
	while (bytes - link->send_off > OL_CHUNK_BYTES) {
		rc = post_chunk(link, index, link->send_off);
		if (rc != 0)
			return rc;
		link->send_off += OL_CHUNK_BYTES;
	}
	return post_last(link, index, link->send_off, bytes - link->send_off);
}

void ol_push_progress(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;

	while (link->send_count > 0 && link->state == OL_LINK_LIVE) {
		uint32_t index = link->send_queue[link->send_head];

		/* a full queue is tried again at the next poll; a broken one is about to be
		 * reported */
		if (send_one(link, index) != 0)
			return;
		if (worker->zero_copy || ol_layout_vector_bytes(&link->geo) - link->send_off +
							 sizeof(struct ol_push_hdr) <=
						 worker->caps.inline_max)
			ol_push_on_placed(worker, index, 0);
		link->send_off = 0;
		link->send_head = (link->send_head + 1) % OL_WINDOW_MAX;
		link->send_count--;
	}
}

void ol_push_on_placed(struct ol_worker *worker, uint32_t index, int status)
{
	struct ol_grad *grad = &worker->grads[index];
	struct ol_op *op = grad->op;

	/* a failed write takes its connection down, and that ends the op */
	if (status != 0 || grad->places_due == 0 || --grad->places_due > 0)
		return;
	if (op == NULL || op->level != OL_LEVEL_PLACED)
		return;
	grad->op = NULL;
	ol_op_done(worker, op, 0, 0);
}

void ol_push_on_ack(struct ol_link *link, uint32_t slot)
{
	struct ol_worker *worker = link->worker;
	struct ol_grad *grad;
	struct ol_ack ack;

	if (slot >= worker->window)
		return;
	grad = &worker->grads[slot];
	memcpy(&ack, (const struct ol_ack *)link->acks->addr + slot, sizeof(ack));
	if (!ol_record_whole(&ack) || ack.epoch != link->epoch || grad->state != OL_GRAD_PUSHED ||
	    ack.seq != ol_worker_hdr(worker, slot, link->index)->seq)
		return; /* not an answer to what was asked */
	ol_link_learn(link, ack.version, ack.snapshot);
	if (ack.status != 0)
		grad->status = ack.status;
	if (link->index == 0)
		grad->version = ack.version;
	if (--grad->acks_due > 0)
		return;
	grad->state = OL_GRAD_FREE;
	if (grad->op == NULL)
		return;
	ol_op_done(worker, grad->op, grad->status, grad->version);
	grad->op = NULL;
}

void ol_push_fail(struct ol_worker *worker, int status)
{
	for (uint32_t i = 0; i < worker->window; i++) {
		struct ol_grad *grad = &worker->grads[i];

		if (grad->state != OL_GRAD_PUSHED || grad->op == NULL)
			continue;
		ol_op_done(worker, grad->op, status, 0);
		grad->op = NULL;
	}
}
