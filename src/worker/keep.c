/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * keep.c -- keeps pushed gradients for as long as they could be lost
 *
 * At first only its server has an applied gradient. Once a pull has brought weights that contain
 * it, this worker's mirror has it too, and a server that comes back empty takes this mirror or a
 * newer one. Until then the gradient keeps its buffer:
 *
 *	open    not sent, or sent and not answered
 *	kept    applied, but not in the mirror
 *
 * If a chain has a head and another tail, the head orders and the tail commits: an open push may be
 * in flight between them. Only the tail's ack ends it. On a new connection to the head, pushes that
 * the head does not know are pushed again.
 *
 * A server that comes back names the last push of this worker in its weights. Later ones are pushed
 * again, in the order of their numbers; so each takes effect once.
 *
 * A server that comes back with weights older than the mirror has gone back in history (it was
 * restored from a checkpoint): the gradients since then are lost, and counted.
 */

#include <errno.h>

#include "base/log.h"
#include "base/probe.h"
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

/* End the caller's op, and free the buffer, once no shard holds them */
void ol_keep_settle(struct ol_worker *worker, struct ol_grad *grad)
{
	if (grad->open == 0)
		op_end(worker, grad);
	if (grad->state == OL_GRAD_PUSHED && grad->open == 0 && grad->kept == 0)
		grad->state = OL_GRAD_FREE;
}

/* Let pulls go on once all pushes that were applied before are so again, and the queue once all that
 * were pushed again are resolved */
static void catch_up_look(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;
	bool open = false;

	link->reads_wait = false;
	for (uint32_t i = 0; i < worker->slots; i++) {
		const struct ol_grad *grad = &worker->grads[i];

		if (grad->state != OL_GRAD_PUSHED || (grad->open & bit_of(link)) == 0)
			continue;
		open = open || ol_worker_hdr(worker, i, link->index)->seq <= link->catch_up_seq;
		link->reads_wait = link->reads_wait || (grad->reopened & bit_of(link)) != 0;
	}
	if (!open)
		link->catch_up_seq = 0;
}

bool ol_keep_is_left(const struct ol_link *link, const struct ol_grad *grad)
{
	uint32_t index = (uint32_t)(grad - link->worker->grads);

	return (ol_worker_hdr(link->worker, index, link->index)->flags & OL_PUSH_QUEUED) != 0 ||
	       grad->adrift || (grad->reopened & bit_of(link)) != 0;
}

/* Shard 0 has decided that this is in no step: the others are told */
static void dropped_tell(struct ol_worker *worker, struct ol_grad *grad)
{
	grad->dropped = true;
	grad->drop_due = grad->open;
	for (uint32_t i = 1; i < worker->link_count; i++)
		worker->links[i].carried.drops_due = true;
}

void ol_keep_resolved(struct ol_link *link, struct ol_grad *grad, int status)
{
	struct ol_worker *worker = link->worker;
	uint32_t index = (uint32_t)(grad - worker->grads);
	const struct ol_push_hdr *hdr = ol_worker_hdr(worker, index, link->index);
	uint32_t grads = hdr->grads;
	const bool was_applied = (grad->reopened & bit_of(link)) != 0;

	ol_probe4(push_known, link->index, worker->opts.worker, hdr->seq, status);
	if ((hdr->flags & OL_PUSH_RULE) != 0)
		ol_rule_resolved(link, index, status);
	if (status == 0 && ol_keep_is_left(link, grad))
		link->own_version = link->version;
	grad->open &= ~bit_of(link);
	grad->reopened &= ~bit_of(link);
	grad->acks_due &= ~bit_of(link);
	grad->unplaced &= ~bit_of(link);
	grad->drop_due &= ~bit_of(link);
	if (status != 0 && link->index == 0 && ol_worker_decided(worker))
		dropped_tell(worker, grad);
	if ((grad->timed & bit_of(link)) != 0 && status == 0)
		ol_times_push(link, grad);
	grad->timed &= ~bit_of(link);
	grad->parts[link->index] = 0;
	for (uint32_t i = 0; i < OL_PEERS; i++) /* these connections have worked */
		link->peers[i].dial.backoff_ns = 0;
	if (link->catch_up_seq != 0)
		catch_up_look(link);
	if (status != 0)
		grad->status = status;
	if ((grad->span & (bit_of(link) - 1)) == 0)
		grad->version = link->version;
	/* another shard may hold it until other workers push, and these may wait at this shard for
	 * this worker's next gradient */
	if (status == OL_E_LOST || status == OL_E_LATE) {
		grad->adrift = true;
		op_end(worker, grad);
	}
	if (status == OL_E_NONFINITE) {
		link->stat.nonfinite += grads;
	} else if (status == OL_E_LATE && !was_applied) {
		link->stat.late += grads;
	} else if (status == OL_E_LOST || status == OL_E_LATE) {
		/* what its caller was told is applied, and this worker has withdrawn, is lost */
		link->stat.lost += grads;
	} else {
		link->stat.applied += grads;
		if (worker->opts.outage != OL_OUTAGE_END)
			grad->kept |= bit_of(link);
	}
	ol_keep_settle(worker, grad);
}

/* The mirror has it, so it is not kept: weights without it have lost it */
static void kept_no_more(struct ol_link *link, struct ol_grad *grad, uint32_t index)
{
	uint64_t seq = ol_worker_hdr(link->worker, index, link->index)->seq;

	if ((grad->kept & bit_of(link)) != 0 && seq > link->gone_seq)
		link->gone_seq = seq;
	grad->kept &= ~bit_of(link);
}

void ol_keep_on_pull(struct ol_worker *worker, uint64_t read)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	for (uint32_t i = 0; i < worker->slots; i++) {
		struct ol_grad *grad = &worker->grads[i];

		if (grad->state != OL_GRAD_PUSHED || grad->kept == 0)
			continue;
		for (uint32_t k = 0; k < worker->link_count; k++) {
			uint64_t seq = ol_applied_of(mirror->applied[k], worker->opts.worker).seq;

			if (ol_link_is_in(&worker->links[k], read) &&
			    ol_seq_contains(seq, ol_worker_hdr(worker, i, k)->seq))
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
		grad->op->local = 1; /* training goes on with local weights */
		op_end(worker, grad);
	}
}

/* Let the queue wait until pushes up to seq are resolved */
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
	link->reads_wait = false;
	link->inherited_seq = 0;
	for (uint32_t i = 0; i < worker->slots; i++) {
		struct ol_grad *grad = &worker->grads[i];

		grad->parts[link->index] = 0;
		grad->left[link->index] = link->payload_bytes;
		if (grad->state != OL_GRAD_PUSHED || (grad->reopened & bit_of(link)) == 0)
			continue;
		catch_up_to(link, ol_worker_hdr(worker, i, link->index)->seq);
		link->reads_wait = true;
	}
}

/* Insert in the order of push numbers */
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

/* An applied gradient is no longer in the server's weights: pulls wait until it is applied again,
 * also those from a tail that is connected before the head */
static void push_reopen(struct ol_link *link, struct ol_grad *grad, struct ol_push_hdr *hdr)
{
	hdr->flags |= OL_PUSH_AGAIN; /* the step may be made anew, without it */
	grad->kept &= ~bit_of(link);
	grad->open |= bit_of(link);
	grad->reopened |= bit_of(link);
	catch_up_to(link, hdr->seq);
	link->reads_wait = true;
	link->stat.applied -= hdr->grads;
}

/* The oldest open push up to seq; NULL: none */
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

/* A server's table entry for this process; empty if the id's last push was another process's */
static struct ol_applied own_of(const struct ol_link *link, const struct ol_applied *resolved)
{
	if (ol_seq_tag(resolved->seq) != link->worker->tag)
		return (struct ol_applied){ .seq = ol_seq_make(link->worker->tag, 0) };
	return (struct ol_applied){ .seq = resolved->seq,
				    .grads = resolved->grads - resolved->earlier };
}

/* The status of a push that a server dropped, if its answer was lost */
static int dropped_as(const struct ol_link *link, uint32_t index)
{
	struct ol_worker *worker = link->worker;
	const float *part = worker->grads[index].data + link->geo.shard_first;

	if ((ol_worker_hdr(worker, index, link->index)->flags & OL_PUSH_VOID) != 0)
		return OL_E_NONFINITE;
	return link->nonfinite || ol_worker_finite(worker, part, 0, link->geo.shard_len)
		       ? OL_E_LATE
		       : OL_E_NONFINITE;
}

/*
 * Of open pushes up to own->seq only the answers were lost. The table gives the number of those
 * that took effect; the newest did. The policy dropped the others: the oldest ones are counted as
 * dropped, so that the sums are right.
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
 * A gradient that is in no buffer any more, and not in these weights, is lost. Gradients lost with
 * an earlier history come back with it.
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
 * A push that the mirror has is no longer kept for this shard, and not pushed again. If the
 * server's weights lack it, it is lost at this shard: no op waits for the parts that other shards
 * still hold.
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

		/* the number of a shard outside of the span is of an earlier push */
		if (grad->state != OL_GRAD_PUSHED || !ol_link_is_in(link, grad->span) ||
		    grad->status != 0 || seq <= own_seq || seq > link->gone_seq ||
		    ((grad->open | grad->kept) & bit_of(link)) != 0)
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
	/* it stays set until a head's welcome, even if connections end meanwhile */
	if (!link->went_back || link->went_back_to != link->history)
		link->went_back = mirror->whole && !link->mirror_gone && !same &&
				  link->version < mirror->versions[link->index];
	link->went_back_to = link->history;
	for (uint32_t i = 0; i < worker->slots; i++) {
		struct ol_grad *grad = &worker->grads[i];
		struct ol_push_hdr *hdr = ol_worker_hdr(worker, i, link->index);

		if (grad->state == OL_GRAD_PUSHED && (grad->kept & bit_of(link)) != 0 &&
		    hdr->seq > own.seq)
			push_reopen(link, grad, hdr);
	}
	acks_lost(link, &own);
	parts_lost(link, own.seq);
	lost = link->stat.lost;
	applied_recount(link, own.grads);
	if (link->went_back || link->stat.lost > lost)
		ol_rule_on_loss(link, own.seq);
	if (link->went_back && link->stat.lost > lost)
		ol_log(OL_LOG_WARN,
		       "worker %u: server %s (shard %u) is back, at version %llu when this worker "
		       "reached it, and this worker had read version %llu: %llu gradients of this "
		       "worker are lost; with --restore mirror a server takes the workers' weights",
		       worker->opts.worker, link->reader->dial.addr, link->index,
		       (unsigned long long)link->version,
		       (unsigned long long)mirror->versions[link->index],
		       (unsigned long long)(link->stat.lost - lost));
	link->mirror_gone = link->mirror_gone || link->went_back || own.seq < link->gone_seq;
	if (own.seq < link->gone_seq)
		link->gone_seq = own.seq; /* the loss is counted: no source has to contain it */
}

/* Push a gradient again that the head does not know */
static void push_again(struct ol_link *link, struct ol_grad *grad, uint32_t index)
{
	const struct ol_push_hdr *hdr = ol_worker_hdr(link->worker, index, link->index);

	grad->acks_due &= ~bit_of(link);
	/* another shard may have it in a step */
	if (link->went_back && !ol_worker_decided(link->worker)) {
		ol_keep_resolved(link, grad, OL_E_LOST);
		return;
	}
	catch_up_to(link, hdr->seq);
	if (ol_worker_decided(link->worker))
		grad->unplaced |= bit_of(link);
	if (grad->dropped)
		grad->drop_due |= bit_of(link);
	link->stat.resent += hdr->grads;
	send_queue_insert(link, index);
}

/*
 * The tail acknowledges pushes that an earlier head had ordered, in the order of their numbers. A
 * push that it skips was dropped by that head, whose report was lost with the connection.
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
	/* the tail may have skipped some of them before this head was known */
	if (link->inherited_seq != 0)
		ol_keep_on_commit(link, link->told_seq);
	link->went_back = false;
	link->carried.again_due = ol_worker_decided(worker);
	return rc;
}
