/* SPDX-License-Identifier: BSD-3-Clause */

/* answer.c -- what a worker hears of a push: that it has left, that a server has it, what became of it */

#include <string.h>

#include "worker/worker_internal.h"

static void placed(struct ol_link *link, struct ol_grad *grad)
{
	struct ol_op *op = grad->op;

	grad->unplaced &= ~(UINT64_C(1) << link->index);
	if (grad->unplaced != 0 || op == NULL || op->level != OL_LEVEL_PLACED)
		return;
	grad->op = NULL;
	ol_op_done(link->worker, op, 0, 0);
}

void ol_push_on_placed(struct ol_link *link, uint32_t arg, int status)
{
	struct ol_grad *grad = &link->worker->grads[arg >> 24];

	/* its ack may have come first, and the buffer been pushed again */
	if (arg != ol_placed_arg(arg >> 24, grad->generation))
		return;
	/* a failed write ends its connection, which ends the op or pushes again */
	if (status != 0)
		return;
	/* that the bytes have left does not say that a server has them: ol_push_on_held() */
	if (link->index == 0 || !ol_worker_decided(link->worker))
		placed(link, grad);
}

void ol_push_on_held(struct ol_peer *peer, uint32_t arg)
{
	struct ol_link *link = peer->link;
	const uint32_t slot = ol_held_slot(arg);

	if (slot < link->worker->slots && peer == ol_link_head(link) &&
	    arg == ol_held_arg(slot, ol_worker_hdr(link->worker, slot, link->index)->seq))
		placed(link, &link->worker->grads[slot]);
}

void ol_push_on_ack(struct ol_peer *peer, uint32_t slot)
{
	struct ol_link *link = peer->link;
	struct ol_worker *worker = link->worker;
	uint64_t bit = UINT64_C(1) << link->index;
	struct ol_grad *grad;
	struct ol_ack ack;

	if (slot >= worker->slots || peer->dial.state != OL_DIAL_LIVE)
		return;
	grad = &worker->grads[slot];
	memcpy(&ack, (const struct ol_ack *)peer->dial.acks->addr + slot, sizeof(ack));
	if (!ol_record_whole(&ack) || ack.epoch != peer->epoch ||
	    ack.seq != ol_worker_hdr(worker, slot, link->index)->seq ||
	    ((grad->acks_due & bit) == 0 && !ol_carry_unsent(link, slot)))
		return; /* not an answer to this push */
	if (peer == link->reader)
		ol_link_learn_version(link, ack.version, ack.snapshot);
	if (peer == link->reader && peer != ol_link_head(link) && ack.seq > link->told_seq)
		link->told_seq = ack.seq;
	ol_keep_resolved(link, grad, ack.status);
	if (link->inherited_seq != 0 && peer == link->reader)
		ol_keep_on_commit(link, ack.seq);
}
