/* SPDX-License-Identifier: BSD-3-Clause */

/* push.c -- a gradient's way out: acquire, push */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/probe.h"
#include "base/sized.h"
#include "outlast_span.h"
#include "wire/seq.h"
#include "worker/worker_internal.h"

enum {
	PARTS_STALE = 0x80 /* in ol_grad.parts: they are of a gradient that went into the queue */
};

/* 0, or the error of a server that is gone for good */
static int links_status(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		enum ol_link_state state = worker->links[i].state;

		if (state == OL_LINK_FAILED ||
		    (state != OL_LINK_LIVE && worker->opts.outage == OL_OUTAGE_END))
			return OL_E_NO_SERVER;
	}
	return 0;
}

static bool all_live(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (!ol_link_usable(&worker->links[i]))
			return false;
	}
	return true;
}

struct ol_grad *ol_push_buffer(struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->window; i++) {
		struct ol_grad *grad = &worker->grads[i];

		if (grad->state != OL_GRAD_FREE)
			continue;
		grad->status = 0;
		grad->version = 0;
		grad->open = 0;
		grad->acks_due = 0;
		grad->unplaced = 0;
		grad->kept = 0;
		grad->reopened = 0;
		grad->timed = 0;
		grad->adrift = false;
		grad->dropped = false;
		grad->drop_due = 0;
		grad->is_void = false;
		grad->looked = worker->links[0].geo.param_count;
		grad->op = NULL;
		grad->generation++;
		/* parts rung for a cancelled gradient count until an ack comes */
		for (uint32_t k = 0; k < worker->link_count; k++)
			grad->left[k] = worker->links[k].payload_bytes;
		return grad;
	}
	return NULL;
}

/* No pull reads this shard now */
static bool is_away(const struct ol_link *link)
{
	return !ol_link_usable(link) || !ol_outage_is_whole(link->worker);
}

int ol_push_buffers(const struct ol_worker *worker)
{
	bool adrift = false, kept = ol_queue_needs_pull(worker);
	uint32_t free_count = 0, spare;
	uint64_t live = 0;

	/* with CONTINUE a lost server is not waited for: buffers that only it holds do not count */
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (!is_away(&worker->links[i]) || worker->opts.outage != OL_OUTAGE_CONTINUE)
			live |= UINT64_C(1) << i;
	}
	for (uint32_t i = 0; i < worker->window; i++) {
		const struct ol_grad *grad = &worker->grads[i];

		free_count += grad->state == OL_GRAD_FREE;
		if (grad->state != OL_GRAD_PUSHED)
			continue;
		adrift = adrift || grad->adrift;
		kept = kept || (grad->open == 0 && (grad->kept & ~live) == 0);
	}
	/* one buffer is reserved for gradients that an outage leaves behind */
	spare = worker->opts.outage == OL_OUTAGE_CONTINUE && all_live(worker) && !adrift;
	if (free_count > spare)
		return 0;
	return kept ? -ENOBUFS : -EAGAIN;
}

/*
 * True if each buffer is held by a lost server, or by steps that other workers must complete and
 * that the caller does not wait for. Then neither time nor a pull surely frees one.
 */
static bool all_stranded(const struct ol_worker *worker)
{
	uint64_t gone = 0;

	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (is_away(&worker->links[i]))
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

/* worker->extra, if it can be lent; else NULL */
static struct ol_grad *extra_buffer(struct ol_worker *worker)
{
	struct ol_grad *grad = &worker->extra;

	if (worker->opts.outage != OL_OUTAGE_CONTINUE || grad->state != OL_GRAD_FREE ||
	    !all_stranded(worker) || !ol_queue_room(worker, ol_worker_all(worker)))
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

/* True if adrift pushes hold the window. With CONTINUE never: an extra buffer exists, so no gradient
 * must be withdrawn */
bool ol_push_window_is_held(const struct ol_worker *worker)
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

int ol_push_lend(struct ol_worker *worker, bool paced, float **ret_grad)
{
	struct ol_grad *grad;
	int rc;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (worker->opts.observer)
		return -EPERM;
	rc = links_status(worker);
	if (rc != 0)
		return rc;
	if (!ol_worker_queues(worker)) { /* neither a pace nor a buffer held back */
		grad = ol_push_buffer(worker);
		rc = grad != NULL ? 0 : ol_push_buffers(worker);
	} else {
		rc = ol_outage_pace(worker);
		if (rc != 0 && (paced || rc != -EAGAIN))
			return rc;
		rc = ol_push_buffers(worker);
		grad = rc == 0 ? ol_push_buffer(worker) : extra_buffer(worker);
	}
	if (grad == NULL && rc == -EAGAIN && ol_push_window_is_held(worker))
		(void)ol_withdraw(worker);
	worker->wants_buffer = grad == NULL;
	if (grad == NULL)
		return rc;
	grad->state = OL_GRAD_LENT;
	*ret_grad = grad->data;
	return 0;
}

int ol_grad_try_acquire(struct ol_worker *worker, float **ret_grad)
{
	return ol_push_lend(worker, true, ret_grad);
}

static struct ol_grad *grad_find(struct ol_worker *worker, const float *data)
{
	for (uint32_t i = 0; i < worker->window; i++) {
		if (worker->grads[i].data == data && worker->grads[i].state == OL_GRAD_LENT)
			return &worker->grads[i];
	}
	return worker->extra.state == OL_GRAD_LENT && worker->extra.data == data ? &worker->extra
										 : NULL;
}

void ol_push_to(struct ol_link *link, uint32_t index, const struct ol_push_hdr *hdr)
{
	struct ol_grad *grad = &link->worker->grads[index];
	struct ol_push_hdr *own = ol_worker_hdr(link->worker, index, link->index);

	*own = *hdr;
	own->seq = ++link->seq;
	own->payload_bytes = link->payload_bytes;
	if (ol_worker_encodes(link->worker) && (hdr->flags & OL_PUSH_VOID) == 0)
		ol_worker_encode(link, index);
	grad->open |= UINT64_C(1) << link->index;
	grad->unplaced |= UINT64_C(1) << link->index;
	link->withdrew = false;
	link->withdraw_due = false;
	/* without a server, its next welcome puts it into the queue */
	if (ol_link_pushes(link))
		link->send_queue[(link->send_head + link->send_count++) % OL_SLOTS_MAX] = index;
}

/* All floats from `first` on are final: check whether they are finite */
static void grad_look_finite(const struct ol_worker *worker, struct ol_grad *grad, uint64_t first)
{
	if (worker->links[0].nonfinite || first >= grad->looked)
		return;
	grad->is_void = grad->is_void || !ol_worker_finite(worker, grad->data, first, grad->looked);
	grad->looked = first;
}

/* All that is pushed is final, and was not looked at as a part: what lies outside of the span does not
 * count */
static void span_look_finite(const struct ol_worker *worker, struct ol_grad *grad, uint64_t span)
{
	uint64_t first = UINT64_MAX, end = 0;

	for (uint32_t i = 0; span != ol_worker_all(worker) && i < worker->link_count; i++) {
		const struct ol_geometry *geo = &worker->links[i].geo;

		if (!ol_link_is_in(&worker->links[i], span))
			continue;
		first = first < geo->shard_first ? first : geo->shard_first;
		end = geo->shard_first + geo->shard_len;
	}
	if (end == 0) {
		grad_look_finite(worker, grad, 0);
		return;
	}
	grad->is_void = false;
	grad->looked = end;
	grad_look_finite(worker, grad, first);
}

/*
 * A single shard finds and drops a gradient that is not finite by itself. Several shards must
 * agree, so the worker checks. It also checks a gradient that goes into a queue: otherwise a server
 * would drop the whole sum with it. And one to which a residual is added, which would go with it.
 */
static bool needs_finite_look(const struct ol_worker *worker, const struct ol_grad *grad,
			      const struct ol_push_info *info, const struct ol_mirror *base)
{
	if (worker->link_count > 1 || grad == &worker->extra || worker->residual != NULL)
		return true;
	return ol_worker_queues(worker) &&
	       ol_outage_queues(&worker->links[0], ol_base_of(info, base, 0, 0));
}

/* This shard of the weights that the caller reads follows its gradient */
static void local_follow(const struct ol_link *link, const float *grad)
{
	struct ol_worker *worker = link->worker;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	if (worker->local_moved == 0)
		memcpy(worker->local, mirror->weights,
		       worker->links[0].geo.param_count * sizeof(float));
	worker->local_moved |= UINT64_C(1) << link->index;
	ol_rule_follow(link, worker->local, grad);
}

static int post_part(struct ol_link *link, uint32_t index, uint64_t units)
{
	struct ol_xport_write write = {
		.flags = OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_PART, ol_part_make(index, units)),
	};

	return link->worker->ops->post_write(ol_link_head(link)->dial.conn, &write);
}

/* Cancel the announced parts of a gradient. 0, or the error of a post. */
static int cancel_parts(struct ol_link *link, uint32_t index)
{
	uint8_t *parts = &link->worker->grads[index].parts[link->index];
	int rc;

	if (*parts == 0 || *parts == OL_PARTS_MAX)
		return 0;
	rc = post_part(link, index, OL_PART_CANCEL);
	if (rc == 0)
		*parts = OL_PARTS_MAX; /* no more parts until an ack says that they were taken */
	return rc;
}

/* This shard is not pushed from its buffer: its server forgets announced parts, at once or before anything else of the
 * buffer */
static void part_stays(struct ol_link *link, const struct ol_grad *grad)
{
	struct ol_worker *worker = link->worker;
	uint32_t index = (uint32_t)(grad - worker->grads);

	if (grad != &worker->extra && ol_link_pushes(link) && cancel_parts(link, index) != 0)
		worker->grads[index].parts[link->index] |= PARTS_STALE;
}

/* Does this shard of a gradient go into the queue? */
static bool part_queues(struct ol_link *link, const struct ol_grad *grad, uint64_t base_version)
{
	if (grad != &link->worker->extra && !ol_outage_queues(link, base_version))
		return false;
	part_stays(link, grad);
	return true;
}

/* Cancel what was announced of the gradient that the buffer had before: nothing else of it goes first */
static int stale_cancel(struct ol_link *link, uint32_t index)
{
	return (link->worker->grads[index].parts[link->index] & PARTS_STALE) != 0
		       ? cancel_parts(link, index)
		       : 0;
}

/* One shard of a gradient on its way */
static void push_shard(struct ol_link *link, struct ol_grad *grad, struct ol_push_hdr *hdr,
		       uint64_t base_version)
{
	struct ol_worker *worker = link->worker;
	bool here = part_queues(link, grad, base_version);

	link->stat.pushed++;
	hdr->base_version = base_version;
	hdr->flags = here && worker->local != NULL ? OL_PUSH_PATH : 0;
	ol_rule_attach(link, hdr);
	if (here && grad->is_void) {
		link->stat.nonfinite++;
		if ((hdr->flags & OL_PUSH_RULE) != 0)
			ol_rule_dropped(link);
		grad->status = OL_E_NONFINITE;
		return;
	}
	if (here && worker->local != NULL && worker->mirrors[worker->mirror].whole)
		local_follow(link, grad->data);
	if (here && ol_queue_put(link, grad->data, hdr)) {
		grad->op->local = 1;
		return;
	}
	if (here && ol_outage_paces(worker)) /* the queue is full: it waits in its buffer */
		hdr->flags |= OL_PUSH_QUEUED;
	if (grad->is_void) { /* only its header is sent */
		hdr->flags |= OL_PUSH_VOID;
		grad->left[link->index] = 0;
	}
	if ((hdr->flags & OL_PUSH_RULE) != 0)
		ol_rule_place(link, (uint32_t)(grad - worker->grads), &worker->rule,
			      worker->rule_serial);
	ol_push_to(link, (uint32_t)(grad - worker->grads), hdr);
	if (grad->begun_ns != 0)
		grad->timed |= UINT64_C(1) << link->index;
}

/* True if numbers are left for one more push and all that wait in queues */
static bool numbers_left(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		const struct ol_link *link = &worker->links[i];

		if (ol_seq_count(link->seq) + link->queue.count >= OL_SEQ_COUNT_MAX)
			return false;
	}
	return true;
}

static int grad_push(struct ol_worker *worker, float *data, uint64_t span,
		     const struct ol_push_info *info, struct ol_op *op)
{
	struct ol_grad *grad = grad_find(worker, data);
	const struct ol_mirror *base;
	/* of several shards that make a step together, all count a gradient's age from the same version */
	const bool one_base = ol_worker_decided(worker);
	uint32_t nth = 0;
	bool queues = grad == &worker->extra;
	struct ol_push_hdr hdr = { .samples = info->samples,
				   .loss = info->loss,
				   .grads = 1,
				   .weight = info->weight == 0.0f ? 1.0f : info->weight,
				   .last_version = info->last_version };
	int rc = links_status(worker);

	if (rc != 0)
		return rc;
	if (grad == NULL || !ol_base_find(worker, info, span, &base) ||
	    !ol_weight_possible(hdr.weight) || info->reserved != 0 ||
	    (unsigned)op->level > OL_LEVEL_COMMITTED ||
	    (op->level == OL_LEVEL_COMMITTED && worker->coord != NULL && !worker->links[0].strict))
		return -EINVAL;
	if (!numbers_left(worker))
		return -EOVERFLOW;
	if (queues && !ol_queue_room(worker, span))
		return ol_queue_needs_pull(worker) ? -ENOBUFS : -EAGAIN;
	if (needs_finite_look(worker, grad, info, base))
		span_look_finite(worker, grad, span);
	op->done = 0;
	op->local = 0;
	grad->state = OL_GRAD_PUSHED;
	grad->status = 0;
	grad->span = span;
	grad->begun_ns = ol_sampler_next(&worker->push_sampler);
	grad->op = op;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (ol_link_is_in(&worker->links[i], span))
			push_shard(&worker->links[i], grad, &hdr,
				   one_base ? ol_base_of(info, base, 0, 0)
					    : ol_base_of(info, base, nth++, i));
		else
			part_stays(&worker->links[i], grad);
	}
	for (uint32_t i = 0; i < worker->link_count; i++) {
		ol_push_progress(&worker->links[i]);
		if (worker->links[i].queue.count > 0)
			ol_outage_replay(&worker->links[i]);
	}
	ol_keep_settle(worker, grad);
	return 0;
}

/* Of a program that knows *info in another length */
static int other_push(struct ol_worker *worker, float *data, uint64_t span,
		      const struct ol_push_info *info, size_t info_bytes, struct ol_op *op)
{
	struct ol_push_info known = { 0 };

	if (ol_sized_take(&known, sizeof(known), info, info_bytes) != NULL)
		return -EINVAL;
	return grad_push(worker, data, span, &known, op);
}

static inline int sized_push(struct ol_worker *worker, float *data, uint64_t span,
			     const struct ol_push_info *info, size_t info_bytes, struct ol_op *op)
{
	return info_bytes == sizeof(*info) ? grad_push(worker, data, span, info, op)
					   : other_push(worker, data, span, info, info_bytes, op);
}

int ol_push_sized(struct ol_worker *worker, float *data, const struct ol_push_info *info,
		  size_t info_bytes, struct ol_op *op)
{
	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	return sized_push(worker, data, ol_worker_all(worker), info, info_bytes, op);
}

int ol_push_span_sized(struct ol_worker *worker, float *data, uint64_t first, uint64_t count,
		       const struct ol_push_info *info, size_t info_bytes, struct ol_op *op)
{
	uint64_t span;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	span = ol_worker_span(worker, first, count);
	if (span != ol_worker_all(worker) && span != 0 && ol_worker_decided(worker))
		return -EOPNOTSUPP;
	return span != 0 ? sized_push(worker, data, span, info, info_bytes, op) : -EINVAL;
}

/*
 * True if a post of the header, with `bytes` in front, is inline: no byte is read from memory later,
 * so the push is placed at once and needs no completion.
 */
static bool leaves_at_once(const struct ol_worker *worker, uint64_t bytes)
{
	return worker->zero_copy ||
	       (bytes > 0 && bytes + sizeof(struct ol_push_hdr) <= worker->caps.inline_max);
}

/*
 * Post the header, with the bell. In front of it go the first `bytes` of the gradient, which must
 * be 0 or all of it (the header lies behind the gradient's end).
 */
static int post_header(struct ol_link *link, uint32_t index, uint64_t bytes)
{
	struct ol_worker *worker = link->worker;
	struct ol_push_hdr *hdr = ol_worker_hdr(worker, index, link->index);
	struct ol_xport_write write = {
		.flags = OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_PUSH, index),
		.dst = ol_link_head(link)->dial.landing_key,
		.dst_off = ol_layout_slot_off(&link->geo, index) +
			   ol_layout_vector_bytes(&link->geo) - bytes,
		.cookie = ol_cookie_make(OL_COOKIE_PLACED,
					 ol_placed_arg(index, worker->grads[index].generation)),
	};
	struct ol_xport_seg *seg = &write.segs[0];

	/* epoch of this connection; a server that went back does not know a newer base version */
	hdr->epoch = ol_link_head(link)->epoch;
	if (ol_worker_decided(worker))
		ol_carry_base(hdr, link->version);
	else if (hdr->base_version > link->version)
		hdr->base_version = link->version;
	ol_record_seal(hdr);
	if (bytes > 0) {
		*seg++ = (struct ol_xport_seg){ .region = ol_link_head(link)->rail->grad_region,
						.off = ol_worker_payload_off(link, index),
						.bytes = (uint32_t)bytes };
		write.seg_count++;
	}
	*seg = (struct ol_xport_seg){ .region = ol_link_head(link)->rail->work_region,
				      .off = ol_worker_work_off(worker, hdr),
				      .bytes = sizeof(*hdr) };
	write.seg_count++;
	if (bytes + sizeof(*hdr) <= worker->caps.inline_max)
		write.flags |= OL_XPORT_INLINE;
	if (!leaves_at_once(worker, bytes))
		write.flags |= OL_XPORT_SIGNALED;
	ol_probe4(push_posted, link->index, worker->opts.worker, hdr->seq, hdr->base_version);
	return worker->ops->post_write(ol_link_head(link)->dial.conn, &write);
}

/* The last unsent piece of a gradient, down to byte `to` of the shard */
static int post_piece(struct ol_link *link, uint32_t index, uint64_t to)
{
	struct ol_worker *worker = link->worker;
	uint64_t *left = &worker->grads[index].left[link->index];
	uint64_t bytes = *left - to < OL_CHUNK_BYTES ? *left - to : OL_CHUNK_BYTES;
	uint64_t before = ol_layout_vector_bytes(&link->geo) - link->payload_bytes;
	struct ol_xport_write write = {
		.segs = { { .region = ol_link_head(link)->rail->grad_region,
			    .off = ol_worker_payload_off(link, index) + *left - bytes,
			    .bytes = (uint32_t)bytes } },
		.seg_count = 1,
		.dst = ol_link_head(link)->dial.landing_key,
		.dst_off = ol_layout_slot_off(&link->geo, index) + before + *left - bytes,
	};
	int rc = worker->ops->post_write(ol_link_head(link)->dial.conn, &write);

	if (rc == 0)
		*left -= bytes;
	return rc;
}

/* Tell the server that all from byte `first` on has landed. It is a hint, so a failure is ignored. */
static void ring_part(struct ol_link *link, uint32_t index, uint64_t first)
{
	const struct ol_grad *grad = &link->worker->grads[index];
	uint8_t *parts = &link->worker->grads[index].parts[link->index];
	uint64_t units = first / link->part_bytes;
	uint64_t follows = grad->state == OL_GRAD_PUSHED ? OL_PART_FOLLOWS : 0;

	if (index < OL_WINDOW_MAX && units < OL_PART_CANCEL && *parts < OL_PARTS_MAX - 1 &&
	    post_part(link, index, units | follows) == 0)
		(*parts)++;
}

/* Post the gradient down to byte `to`, a multiple of a part's, and announce it. 0: all is posted. */
static int send_down(struct ol_link *link, uint32_t index, uint64_t to)
{
	uint64_t *left = &link->worker->grads[index].left[link->index];
	int rc = stale_cancel(link, index);

	if (rc != 0 || *left <= to)
		return rc;
	if (link->worker->zero_copy)
		*left = to; /* mapped: it is in the slot already */
	while (*left > to && rc == 0)
		rc = post_piece(link, index, to);
	if (rc == 0 && to > 0)
		ring_part(link, index, to);
	return rc;
}

int ol_grad_release(struct ol_worker *worker, float *data)
{
	struct ol_grad *grad;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	grad = grad_find(worker, data);
	if (grad == NULL)
		return -EINVAL;
	for (uint32_t i = 0; grad != &worker->extra && i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];
		int rc = 0;

		if (ol_link_pushes(link))
			rc = cancel_parts(link, (uint32_t)(grad - worker->grads));
		if (rc == -EAGAIN)
			return rc;
	}
	grad->state = OL_GRAD_FREE;
	return 0;
}

int ol_grad_ready(struct ol_worker *worker, float *data, uint64_t first)
{
	struct ol_grad *grad;
	int rc;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	grad = grad_find(worker, data);
	rc = links_status(worker);
	if (grad == NULL)
		return -EINVAL;
	if (grad == &worker->extra || (worker->local != NULL && !all_live(worker)) ||
	    ol_worker_encodes(worker))
		return rc;
	if (worker->link_count > 1)
		grad_look_finite(worker, grad, first);
	if (grad->is_void)
		return rc;
	for (uint32_t i = 0; i < worker->link_count && rc == 0; i++) {
		struct ol_link *link = &worker->links[i];
		uint64_t from = first > link->geo.shard_first ? first - link->geo.shard_first : 0;
		uint64_t units = (from + OL_PART_FLOATS - 1) / OL_PART_FLOATS;

		/* if the queue is full the part goes with the push, as the last part always does */
		if (units > 0 && link->send_count == 0 && ol_link_pushes(link))
			send_down(link, (uint32_t)(grad - worker->grads), units * link->part_bytes);
	}
	return rc;
}

/* Post the unsent rest of a pushed gradient. 0: all of it is posted. */
static int send_one(struct ol_link *link, uint32_t index)
{
	struct ol_grad *grad = &link->worker->grads[index];
	uint64_t *left = &grad->left[link->index];
	uint64_t bytes = link->payload_bytes, with_header = 0;
	uint64_t step =
		(bytes / OL_PARTS_MAX + link->part_bytes - 1) / link->part_bytes * link->part_bytes;
	int rc = stale_cancel(link, index);

	if (rc != 0)
		return rc;
	if (link->worker->zero_copy)
		*left = 0; /* mapped: it is in the slot already */
	if (*left == bytes && bytes <= OL_CHUNK_BYTES) {
		with_header = bytes;
		*left = 0;
	}
	while (*left > 0 && rc == 0)
		rc = send_down(link, index, (*left - 1) / step * step);
	if (rc == 0 && (ol_worker_hdr(link->worker, index, link->index)->flags & OL_PUSH_RULE) != 0)
		rc = ol_rule_post(link, index);
	if (rc == 0)
		rc = post_header(link, index, with_header);
	if (rc != 0 && with_header > 0)
		*left = bytes;
	if (rc == 0 && leaves_at_once(link->worker, with_header))
		ol_push_on_placed(link, ol_placed_arg(index, grad->generation), 0);
	return rc;
}

/* Send a withdraw after all pushes */
static void send_withdraw(struct ol_link *link)
{
	struct ol_xport_write write = {
		.flags = OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_WITHDRAW, 0),
	};

	if (link->worker->ops->post_write(ol_link_head(link)->dial.conn, &write) != 0)
		return; /* a full queue: tried again; after a break there is no need */
	link->withdrew = true;
	link->withdraw_due = false;
}

int ol_withdraw(struct ol_worker *worker)
{
	int rc;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (worker->opts.observer)
		return -EPERM;
	rc = links_status(worker);
	for (uint32_t i = 0; i < worker->link_count && rc == 0; i++) {
		struct ol_link *link = &worker->links[i];

		if (i > 0 && ol_worker_decided(worker))
			break; /* what shard 0 drops, the others are told */
		link->withdraw_due = ol_link_pushes(link) && !link->withdrew;
		ol_push_progress(link);
	}
	return rc;
}

void ol_push_progress(struct ol_link *link)
{
	while (link->send_count > 0 && ol_link_pushes(link)) {
		uint32_t index = link->send_queue[link->send_head];
		int rc = ol_carry_may_send(link, index) ? send_one(link, index) : -EAGAIN;

		/* a full queue is tried again at the next poll; a broken one is about to be
		 * reported */
		if (rc != 0 && rc != -EAGAIN && rc != -ENOTCONN)
			ol_peer_break(ol_link_head(link), rc);
		if (rc != 0)
			return;
		link->worker->grads[index].acks_due |= UINT64_C(1) << link->index;
		link->carried.drops_due =
			link->carried.drops_due || link->worker->grads[index].dropped;
		link->send_head = (link->send_head + 1) % OL_SLOTS_MAX;
		link->send_count--;
	}
	if (link->carried.drops_due && ol_link_pushes(link))
		ol_carry_drops(link);
	if (link->carried.again_due && link->send_count == 0 && ol_link_pushes(link))
		ol_carry_again(link);
	if (link->withdraw_due && link->send_count == 0 && ol_link_pushes(link))
		send_withdraw(link);
}

void ol_push_detach(struct ol_worker *worker, const struct ol_op *op)
{
	for (uint32_t i = 0; i < worker->slots; i++) {
		if (worker->grads[i].op == op)
			worker->grads[i].op = NULL;
	}
	if (worker->extra.op == op)
		worker->extra.op = NULL;
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
	if (worker->flush_op != NULL)
		ol_op_done(worker, worker->flush_op, status, 0);
	worker->flush_op = NULL;
}
