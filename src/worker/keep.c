/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * keep.c -- what was pushed and could be lost, until it cannot be
 *
 * A gradient that was applied is known to its server alone, until a pull has brought weights that
 * contain it: then this worker's mirror has it, and a server that comes back empty takes the
 * freshest mirror there is, this one or a newer. Until then the gradient keeps its buffer:
 *
 *	open    not sent, or sent and not answered
 *	kept    applied, but not in the mirror
 *
 * Where a chain has a head and another tail, the head orders and the tail commits: what is open may
 * be in flight between them. It is done by the tail's word alone; what is pushed again is what the
 * head does not know, on a new connection to it only.
 *
 * When a server comes back it says which push of this worker is the last in its weights. What is
 * above that is pushed again, in the order of its numbers; so each takes effect once.
 *
 * A server that comes back with weights older than the mirror has gone back in history (it was
 * restored from a checkpoint): what was computed since then is lost, and counted.
 */

#include <errno.h>

#include "base/log.h"
#include "wire/seq.h"
#include "worker/worker_internal.h"

static uint64_t bit_of(const struct ol_link *link)
{
	return UINT64_C(1) << link->index;
}

static void op_end(struct ol_worker *worker, struct ol_grad *grad)
{
	if (grad->op != NULL)
		ol_op_done(worker, grad->op, grad->status, grad->version);
	grad->op = NULL;
}

/* The caller's op and the buffer, once nothing holds them */
void ol_keep_settle(struct ol_worker *worker, struct ol_grad *grad)
{
	if (grad->open == 0)
		op_end(worker, grad);
	if (grad->state == OL_GRAD_PUSHED && grad->open == 0 && grad->kept == 0)
		grad->state = OL_GRAD_FREE;
}

/* Is everything resolved that was pushed again? Then pulls may go on. */
static void catch_up_look(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;

	for (uint32_t i = 0; i < worker->slots; i++) {
		if (worker->grads[i].state == OL_GRAD_PUSHED &&
		    (worker->grads[i].open & bit_of(link)) != 0 &&
		    ol_worker_hdr(worker, i, link->index)->seq <= link->catch_up_seq)
			return;
	}
	link->catch_up_seq = 0;
}

void ol_keep_resolved(struct ol_link *link, struct ol_grad *grad, int status)
{
	struct ol_worker *worker = link->worker;
	uint32_t index = (uint32_t)(grad - worker->grads);
	uint32_t grads = ol_worker_hdr(worker, index, link->index)->grads;

	grad->open &= ~bit_of(link);
	grad->reopened &= ~bit_of(link);
	grad->acks_due &= ~bit_of(link);
	grad->unplaced &= ~bit_of(link);
	grad->parts[link->index] = 0;
	for (uint32_t i = 0; i < OL_PEERS; i++) /* something came of these connections */
		link->peers[i].dial.backoff_ns = 0;
	if (link->catch_up_seq != 0)
		catch_up_look(link);
	if (status != 0)
		grad->status = status;
	if (link->index == 0)
		grad->version = link->version;
	/* at another shard it may be held for workers that wait, here, for what its worker does
	 * next */
	if (status == OL_E_LOST || status == OL_E_LATE) {
		grad->adrift = true;
		op_end(worker, grad);
	}
	if (status == OL_E_NONFINITE) {
		link->stat.nonfinite += grads;
	} else if (status == OL_E_LATE) {
		link->stat.late += grads;
	} else if (status == OL_E_LOST) {
		link->stat.lost += grads;
	} else {
		link->stat.applied += grads;
		if (worker->opts.outage != OL_OUTAGE_END)
			grad->kept |= bit_of(link);
	}
	ol_keep_settle(worker, grad);
}

/* The mirror has it: from here on weights without it have lost it */
static void kept_no_more(struct ol_link *link, struct ol_grad *grad, uint32_t index)
{
	uint64_t seq = ol_worker_hdr(link->worker, index, link->index)->seq;

	if ((grad->kept & bit_of(link)) != 0 && seq > link->gone_seq)
		link->gone_seq = seq;
	grad->kept &= ~bit_of(link);
}

void ol_keep_on_pull(struct ol_worker *worker)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	for (uint32_t i = 0; i < worker->slots; i++) {
		struct ol_grad *grad = &worker->grads[i];

		if (grad->state != OL_GRAD_PUSHED || grad->kept == 0)
			continue;
		for (uint32_t k = 0; k < worker->link_count; k++) {
			uint64_t seq = ol_applied_of(mirror->applied[k], worker->opts.worker).seq;

			if (ol_seq_contains(seq, ol_worker_hdr(worker, i, k)->seq))
				kept_no_more(&worker->links[k], grad, i);
		}
		ol_keep_settle(worker, grad);
	}
}

void ol_keep_on_outage(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;

	if (worker->opts.outage != OL_OUTAGE_CONTINUE)
		return;
	for (uint32_t i = 0; i < worker->slots; i++) {
		struct ol_grad *grad = &worker->grads[i];

		if (grad->state != OL_GRAD_PUSHED || (grad->open & bit_of(link)) == 0)
			continue;
		grad->adrift = true;
		if (grad->op == NULL)
			continue;
		grad->op->local = 1; /* it waits here; training does not */
		op_end(worker, grad);
	}
}

/* Pulls wait for what is not above seq */
static void catch_up_to(struct ol_link *link, uint64_t seq)
{
	if (seq > link->catch_up_seq)
		link->catch_up_seq = seq;
}

void ol_keep_on_head_down(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;

	link->send_count = 0;
	link->withdrew = false;
	link->withdraw_due = false;
	link->catch_up_seq = 0;
	link->inherited_seq = 0;
	for (uint32_t i = 0; i < worker->slots; i++) {
		struct ol_grad *grad = &worker->grads[i];

		grad->parts[link->index] = 0;
		grad->left[link->index] = ol_layout_vector_bytes(&link->geo);
		if (grad->state == OL_GRAD_PUSHED && (grad->reopened & bit_of(link)) != 0)
			catch_up_to(link, ol_worker_hdr(worker, i, link->index)->seq);
	}
}

/* Behind those with a smaller number */
static void send_queue_insert(struct ol_link *link, uint32_t index)
{
	struct ol_worker *worker = link->worker;
	uint64_t seq = ol_worker_hdr(worker, index, link->index)->seq;
	uint32_t at = link->send_count++;

	for (; at > 0; at--) {
		uint32_t before = link->send_queue[(link->send_head + at - 1) % OL_SLOTS_MAX];

		if (ol_worker_hdr(worker, before, link->index)->seq < seq)
			break;
		link->send_queue[(link->send_head + at) % OL_SLOTS_MAX] = before;
	}
	link->send_queue[(link->send_head + at) % OL_SLOTS_MAX] = index;
}

/* It was applied, and is in the server's weights no more: until it is, nothing is pulled, also from
 * a tail that is there before the head */
static void push_reopen(struct ol_link *link, struct ol_grad *grad, const struct ol_push_hdr *hdr)
{
	grad->kept &= ~bit_of(link);
	grad->open |= bit_of(link);
	grad->reopened |= bit_of(link);
	catch_up_to(link, hdr->seq);
	link->stat.applied -= hdr->grads;
}

/* The oldest that is open and not above seq; NULL: there is none */
static struct ol_grad *oldest_open(const struct ol_link *link, uint64_t seq)
{
	struct ol_worker *worker = link->worker;
	struct ol_grad *found = NULL;

	for (uint32_t i = 0; i < worker->slots; i++) {
		struct ol_grad *grad = &worker->grads[i];
		uint64_t own = ol_worker_hdr(worker, i, link->index)->seq;

		if (grad->state != OL_GRAD_PUSHED || (grad->open & bit_of(link)) == 0 || own > seq)
			continue;
		found = grad;
		seq = own;
	}
	return found;
}

/* What a server says of this id, of this process: nothing, where the last push was another's */
static struct ol_applied own_of(const struct ol_link *link, const struct ol_applied *resolved)
{
	if (ol_seq_tag(resolved->seq) != link->worker->tag)
		return (struct ol_applied){ .seq = ol_seq_make(link->worker->tag, 0) };
	return (struct ol_applied){ .seq = resolved->seq,
				    .grads = resolved->grads - resolved->earlier };
}

/* How a server dropped a push, if nobody heard of it */
static int dropped_as(const struct ol_link *link, uint32_t index)
{
	struct ol_worker *worker = link->worker;
	const float *part = worker->grads[index].data + link->geo.shard_first;

	if ((ol_worker_hdr(worker, index, link->index)->flags & OL_PUSH_VOID) != 0)
		return OL_E_NONFINITE;
	return link->nonfinite || ol_worker_finite(part, 0, link->geo.shard_len) ? OL_E_LATE
										 : OL_E_NONFINITE;
}

/*
 * Of what is open and not above own->seq only the answers were lost. The table says how many of
 * them took effect, the newest for certain; the others were dropped by the policy: as many of the
 * oldest are taken for them, so that counts are right.
 */
static void acks_lost(struct ol_link *link, const struct ol_applied *own)
{
	struct ol_worker *worker = link->worker;
	uint64_t open = 0, applied, dropped;
	struct ol_grad *grad;

	for (uint32_t i = 0; i < worker->slots; i++) {
		const struct ol_push_hdr *hdr = ol_worker_hdr(worker, i, link->index);

		if (worker->grads[i].state == OL_GRAD_PUSHED &&
		    (worker->grads[i].open & bit_of(link)) != 0 && hdr->seq <= own->seq)
			open += hdr->grads;
	}
	applied = own->grads > link->stat.applied ? own->grads - link->stat.applied : 0;
	dropped = open > applied && !link->went_back ? open - applied : 0;
	while ((grad = oldest_open(link, own->seq)) != NULL) {
		const struct ol_push_hdr *hdr =
			ol_worker_hdr(worker, (uint32_t)(grad - worker->grads), link->index);
		int status = 0;

		if (dropped >= hdr->grads && hdr->seq < own->seq) {
			status = dropped_as(link, (uint32_t)(grad - worker->grads));
			dropped -= hdr->grads;
		}
		ol_keep_resolved(link, grad, status);
	}
}

/*
 * What is in no buffer any more, and not in these weights either, is lost. What was lost with an
 * earlier history comes back with it.
 */
static void applied_recount(struct ol_link *link, uint64_t grads)
{
	struct ol_link_stat *stat = &link->stat;
	uint64_t back = grads > stat->applied ? grads - stat->applied : 0;

	if (stat->applied > grads) {
		stat->lost += stat->applied - grads;
		stat->applied = grads;
	}
	if (back > stat->lost)
		back = stat->lost;
	stat->applied += back;
	stat->lost -= back;
}

/*
 * A push that the mirror has is kept for this shard no more, and not pushed again. Where the
 * server's weights lack it, it is lost here: nobody waits for what other shards still hold of it.
 */
static void parts_lost(struct ol_link *link, uint64_t own_seq)
{
	struct ol_worker *worker = link->worker;

	/* with CONTINUE a part may be in a queue, without a number */
	if (worker->opts.outage == OL_OUTAGE_CONTINUE)
		return;
	for (uint32_t i = 0; i < worker->window; i++) {
		struct ol_grad *grad = &worker->grads[i];
		uint64_t seq = ol_worker_hdr(worker, i, link->index)->seq;

		if (grad->state != OL_GRAD_PUSHED || grad->status != 0 || seq <= own_seq ||
		    seq > link->gone_seq || ((grad->open | grad->kept) & bit_of(link)) != 0)
			continue;
		grad->adrift = true;
		grad->status = OL_E_LOST;
		op_end(worker, grad);
	}
}

void ol_keep_on_reader_up(struct ol_link *link, const struct ol_applied *resolved)
{
	struct ol_worker *worker = link->worker;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	bool same = link->strict && mirror->histories[link->index] == link->history;
	struct ol_applied own = own_of(link, resolved);
	uint64_t lost;

	link->told_seq = own.seq;
	/* and it stays so until a head has heard of it, whatever connections end meanwhile */
	if (!link->went_back || link->went_back_to != link->history)
		link->went_back = mirror->whole && !link->mirror_gone && !same &&
				  link->version < mirror->versions[link->index];
	link->went_back_to = link->history;
	for (uint32_t i = 0; i < worker->slots; i++) {
		struct ol_grad *grad = &worker->grads[i];
		const struct ol_push_hdr *hdr = ol_worker_hdr(worker, i, link->index);

		if (grad->state == OL_GRAD_PUSHED && (grad->kept & bit_of(link)) != 0 &&
		    hdr->seq > own.seq)
			push_reopen(link, grad, hdr);
	}
	acks_lost(link, &own);
	parts_lost(link, own.seq);
	lost = link->stat.lost;
	applied_recount(link, own.grads);
	if (link->went_back && link->stat.lost > lost)
		ol_log(OL_LOG_WARN,
		       "server %s (shard %u): it came back with version %llu, older than version "
		       "%llu that this worker has read: %llu gradients are lost; with --restore "
		       "mirror it takes the workers' weights",
		       link->reader->dial.addr, link->index, (unsigned long long)link->version,
		       (unsigned long long)mirror->versions[link->index],
		       (unsigned long long)(link->stat.lost - lost));
	link->mirror_gone = link->mirror_gone || link->went_back || own.seq < link->gone_seq;
	if (own.seq < link->gone_seq)
		link->gone_seq = own.seq; /* it is counted: nobody has to bring it back */
}

/* A buffer that the head does not know of */
static void push_again(struct ol_link *link, struct ol_grad *grad, uint32_t index)
{
	const struct ol_push_hdr *hdr = ol_worker_hdr(link->worker, index, link->index);

	grad->acks_due &= ~bit_of(link);
	if (link->went_back) {
		ol_keep_resolved(link, grad, OL_E_LOST);
		return;
	}
	catch_up_to(link, hdr->seq);
	link->stat.resent += hdr->grads;
	send_queue_insert(link, index);
}

/*
 * Of what a head before this one had ordered the tail speaks, in the order of its numbers. What it
 * passes over was dropped by that head, whose word for it was lost with the connection.
 */
void ol_keep_on_commit(struct ol_link *link, uint64_t seq)
{
	struct ol_worker *worker = link->worker;

	for (uint32_t i = 0; i < worker->slots; i++) {
		struct ol_grad *grad = &worker->grads[i];
		uint64_t own = ol_worker_hdr(worker, i, link->index)->seq;

		if (grad->state != OL_GRAD_PUSHED || (grad->open & bit_of(link)) == 0 ||
		    own >= seq || own > link->inherited_seq)
			continue;
		ol_keep_resolved(link, grad, dropped_as(link, i));
	}
	if (seq >= link->inherited_seq)
		link->inherited_seq = 0;
}

int ol_keep_on_head_up(struct ol_link *link, uint64_t resolved_seq)
{
	struct ol_worker *worker = link->worker;
	int rc = worker->zero_copy ? ol_worker_remap(link) : 0;

	for (uint32_t i = 0; i < worker->slots && rc == 0; i++) {
		struct ol_grad *grad = &worker->grads[i];
		uint64_t own = ol_worker_hdr(worker, i, link->index)->seq;

		if (grad->state != OL_GRAD_PUSHED || (grad->open & bit_of(link)) == 0)
			continue;
		if (!ol_seq_contains(resolved_seq, own)) {
			push_again(link, grad, i);
			continue;
		}
		/* in flight: the tail will answer */
		grad->acks_due |= bit_of(link);
		if (own > link->inherited_seq)
			link->inherited_seq = own;
	}
	/* the tail may have passed over some of them before this head was there */
	if (link->inherited_seq != 0)
		ol_keep_on_commit(link, link->told_seq);
	link->went_back = false;
	return rc;
}
