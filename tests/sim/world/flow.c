/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * flow.c -- writes and reads in flight
 *
 * They start in the order posted; a write has landed before the next starts, and reads are served
 * meanwhile. They complete in order, when the peer's acknowledgement arrives.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/check.h"
#include "sim/world/mutate.h"
#include "sim/world/net.h"
#include "sim/world/wrap.h"

enum {
	BIG_BYTES = 512
};

static struct net_op *spare;

static void landed(struct net_op *op);

void net_flow_begin(void)
{
	spare = NULL;
}

static struct net_op *op_get(void)
{
	struct net_op *op = spare;

	if (op == NULL)
		return sim_alloc(sizeof(*op));
	spare = op->next;
	memset(op, 0, sizeof(*op));
	return op;
}

/* No list and no event knows it: it is used again */
static void op_put(struct net_op *op)
{
	if (op->listed || op->events != 0)
		return;
	__real_free(op->copy);
	op->copy = NULL;
	op->next = spare;
	spare = op;
}

static void op_unlist(struct net_op *op)
{
	struct net_end *end = op->end;

	end->first = op->next;
	if (end->first == NULL)
		end->last = NULL;
	if (end->next_op == op)
		end->next_op = op->next;
	end->posted--;
	op->listed = false;
	op_put(op);
}

/* ---- bytes ---- */

static uint8_t *seg_at(const struct ol_xport_seg *seg)
{
	if (seg->region == NULL)
		return (uint8_t *)(uintptr_t)seg->off;
	if (!seg->region->live || seg->region->slab->memory == NULL)
		return NULL;
	return seg->region->slab->memory + seg->region->off + seg->off;
}

/* Between bytes [from, to) of what the segments hold, in a row, and `other` */
static void segs_copy(const struct net_op *op, uint32_t from, uint32_t to, uint8_t *other,
		      bool into_segs)
{
	uint32_t at = 0;

	for (unsigned i = 0; i < op->seg_count; i++) {
		uint32_t end = at + op->segs[i].bytes;
		uint32_t low = from > at ? from : at, high = to < end ? to : end;
		uint8_t *own;

		if (low < high) {
			own = seg_at(&op->segs[i]);
			if (own == NULL) {
				sim_fail("check_misuse",
					 "%s: memory is gone that a post still needs",
					 sim_process_name(op->end->xport->process));
				return;
			}
			if (into_segs)
				memcpy(own + (low - at), other + (low - from), high - low);
			else
				memcpy(other + (low - from), own + (low - at), high - low);
		}
		at = end;
	}
}

/* What is written is taken now: its memory is free again */
static void capture(struct net_op *op)
{
	if (op->is_read || op->copy != NULL || op->bytes == 0)
		return;
	op->copy = __real_malloc(op->bytes);
	if (op->copy == NULL)
		abort();
	segs_copy(op, 0, op->bytes, op->copy, false);
}

/* ---- what goes wrong ---- */

static void rule_broken(struct net_op *op)
{
	struct net_end *end = op->end, *peer = end->peer;

	sim_say("end %u breaks a rule", end->number);
	op->dropped = true;
	if (end->landing == op)
		end->landing = NULL;
	if (!end->gone)
		net_end_down(end, -EACCES, NULL, 0);
	if (peer != NULL && !peer->gone)
		net_end_down(peer, -EACCES, NULL, 0);
}

/* What an end that is no more had in the network is lost */
static void orphans_drop(struct net_end *end)
{
	struct net_op *op = end->first;

	if (end->landing != NULL)
		end->landing->dropped = true;
	end->first = end->last = end->next_op = end->landing = NULL;
	while (op != NULL) {
		struct net_op *next = op->next;

		op->dropped = true;
		op->listed = false;
		op_put(op);
		op = next;
	}
}

static void stall_over(void *arg, uint64_t stalls)
{
	struct net_end *end = arg;

	if (!end->stalled || end->stalls != stalls)
		return;
	end->stalled = false;
	if (end->gone) {
		end->told = true; /* nobody hears it any more */
		orphans_drop(end);
	} else if (end->state == NET_UP || end->state == NET_ANSWERED) {
		net_end_down(end, -ETIMEDOUT, NULL, 0);
		net_end_tell(end);
	}
}

static void stall(struct net_end *end)
{
	if (end->stalled)
		return;
	end->stalled = true;
	sim_at(end->xport->opts.retry_timeout_ms * SIM_MS +
		       sim_between(0, end->xport->opts.retry_timeout_ms * SIM_MS / 2),
	       stall_over, end, ++end->stalls);
}

static void unstall(struct net_end *end)
{
	end->stalled = false;
}

/* ---- pieces ---- */

static void cuts_make(struct net_op *op)
{
	unsigned count = 1;

	if (op->bytes > 1 && sim_ppm(sim_nature.torn_ppm))
		count = 2 + sim_below(NET_PIECES_MAX - 1);
	if (count > op->bytes)
		count = op->bytes > 0 ? op->bytes : 1;
	op->piece_count = count;
	op->pieces_left = count;
	op->cuts[0] = 0;
	op->cuts[count] = op->bytes;
	for (unsigned i = 1; i < count; i++) {
		uint32_t low = op->cuts[i - 1], room = op->bytes - low - (count - i);

		op->cuts[i] = low + 1 + (room > 1 ? sim_below(room) : 0);
	}
}

/* The memory at the other end. False: a rule is broken */
static bool resolve(struct net_op *op)
{
	unsigned access = op->is_read ? OL_XPORT_ACCESS_PEER_READ : OL_XPORT_ACCESS_PEER_WRITE;
	struct ol_xport_region *region;

	if (op->slab != NULL || op->bytes == 0)
		return true;
	region = net_find(op->end->peer, op->remote, op->remote_off, op->bytes, access);
	if (region == NULL)
		return false;
	op->slab = region->slab;
	op->slab_off = region->off + op->remote_off;
	return true;
}

/* May a piece of it still be moved? */
static bool reaches(const struct net_op *op)
{
	const struct net_end *peer = op->end->peer;

	if (peer->gone && (op->is_read || peer->silent))
		return false;
	if (peer->gone && !mutation(MUTATE_NO_FENCE))
		return op->slab != NULL && !sim_nature.fence_keeps;
	if (peer->state == NET_DOWN)
		return peer->lands_late && !op->is_read;
	return true;
}

static void piece_again(struct net_op *op, uint64_t piece);

static void piece_move(struct net_op *op, uint64_t index)
{
	uint32_t from = op->cuts[index], to = op->cuts[index + 1];

	if (!net_path(op->end) || (op->is_read && !net_path_back(op->end))) {
		if (op->end->gone || op->end->state == NET_DOWN) { /* nobody sends it again */
			orphans_drop(op->end);
			return;
		}
		stall(op->end);
		piece_again(op, index);
		return;
	}
	if (!reaches(op)) {
		if (op->end->peer->gone || op->is_read) {
			op->dropped = true;
			if (op->end->landing == op)
				op->end->landing = NULL;
			stall(op->end);
			return;
		}
		stall(op->end);
		piece_again(op, index);
		return;
	}
	if (!resolve(op)) {
		rule_broken(op);
		return;
	}
	unstall(op->end);
	if (op->bytes > 0 && op->slab->memory != NULL) {
		uint8_t *other = op->slab->memory + op->slab_off + from;

		if (!op->is_read)
			check_landing(op->end->xport->process, op->slab->process, other);
		if (op->copy != NULL)
			memcpy(other, op->copy + from, to - from);
		else
			segs_copy(op, from, to, other, op->is_read);
	}
	if (--op->pieces_left == 0)
		landed(op);
}

/* Until it returns the event counts: the operation is not used again meanwhile */
static void piece(void *arg, uint64_t index)
{
	struct net_op *op = arg;

	if (!op->dropped)
		piece_move(op, index);
	op->events--;
	op_put(op);
}

static void piece_again(struct net_op *op, uint64_t index)
{
	op->events++;
	sim_at(SIM_MS + net_delay(), piece, op, index);
}

static void start(struct net_op *op)
{
	uint64_t order[NET_PIECES_MAX];
	uint64_t after = net_delay() + (uint64_t)op->bytes * sim_nature.link_ps / 1000;

	/* somewhere on its way; what carries gradients is what matters most */
	if (sim_ppm(sim_nature.stuck_ppm * (op->is_read || op->bytes < BIG_BYTES ? 1 : 8))) {
		after += sim_between(0, sim_nature.stuck_ns);
		stall(op->end);
	}
	op->started = true;
	op->end->next_op = op->next;
	cuts_make(op);
	for (unsigned i = 0; i < op->piece_count; i++) {
		unsigned other = sim_below(i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	if (op->is_read)
		op->end->reads++;
	else
		op->end->landing = op;
	if (!op->is_read && op->copy == NULL && sim_ppm(sim_nature.early_ppm))
		capture(op);
	for (unsigned i = 0; i < op->piece_count; i++) {
		op->events++;
		sim_at(after, piece, op, order[i]);
		after += net_delay();
	}
	if (mutation(MUTATE_BELL_FIRST) && op->bell && op->piece_count > 1 &&
	    op->end->peer->state == NET_UP) {
		op->bell = false;
		op->end->peer->bells++;
		net_event_add(op->end->peer, OL_XPORT_DOORBELL_RUNG, 0, op->imm, 0, NULL, 0);
	}
}

static void ring(struct net_op *op)
{
	struct net_end *peer = op->end->peer;

	if (peer->gone || peer->state == NET_DOWN)
		return;
	if (peer->state == NET_ANSWERED) {
		peer->state = NET_UP;
		net_event_add(peer, OL_XPORT_CONN_UP, 0, 0, 0, NULL, 0);
	}
	peer->bells++;
	net_event_add(peer, OL_XPORT_DOORBELL_RUNG, 0, op->imm, 0, NULL, 0);
}

static void landed(struct net_op *op)
{
	struct net_end *end = op->end;

	op->landed = true;
	if (op->is_read)
		end->reads--;
	else
		end->landing = NULL;
	if (op->bell)
		ring(op);
	net_pump(end);
}

/* ---- completion ---- */

static bool completes(const struct net_op *op)
{
	return op->landed || (op->started && op->copy != NULL && !op->is_read);
}

static void complete(void *arg, uint64_t tag)
{
	struct net_end *end = arg;
	struct net_op *op = end->first;

	(void)tag;
	end->completing = false;
	if (op == NULL || !op->listed || !completes(op) || end->mute)
		return;
	if (!op->landed && !sim_ppm(500000)) {
		/* reported early only now and then */
		net_pump(end);
		return;
	}
	if (op->landed && !net_path_back(end)) {
		stall(end);
		return;
	}
	if (op->signaled && !end->gone && end->state == NET_UP)
		net_event_add(end, OL_XPORT_DONE, 0, 0, op->cookie, NULL, 0);
	op_unlist(op);
	net_pump(end);
}

static bool may_start(const struct net_end *end, const struct net_op *op)
{
	if (end->landing != NULL)
		return false;
	if (op->is_read && op->after_reads && end->reads > 0 && !mutation(MUTATE_NO_READ_FENCE))
		return false;
	if (op->bell && !end->peer->gone &&
	    end->peer->bells >= end->peer->xport->opts.doorbells_max)
		sim_fail("check_bounded", "%s has %u doorbells of %s that it has not polled",
			 sim_process_name(end->peer->xport->process), end->peer->bells,
			 sim_process_name(end->xport->process));
	return true;
}

void net_pump(struct net_end *end)
{
	if (end->peer == NULL)
		return;
	while (end->next_op != NULL && may_start(end, end->next_op)) {
		if (!net_path(end) || end->peer->gone || end->peer->state == NET_DOWN) {
			stall(end);
			break;
		}
		if (end->stalled && end->next_op == end->first)
			unstall(end);
		start(end->next_op);
	}
	if (end->first != NULL && !end->completing && completes(end->first)) {
		end->completing = true;
		sim_at(net_delay(), complete, end, 0);
	}
	if (end->gone && !end->told && end->next_op == NULL && end->landing == NULL)
		net_end_tell(end);
}

/* What is in the network already goes on from a copy; nothing behind the first that does not */
void net_flush(struct net_end *end, int report)
{
	struct net_op *op = end->first, **keep = &end->first;
	bool goes_on = !end->silent;

	end->last = end->next_op = NULL;
	end->posted = 0;
	while (op != NULL) {
		struct net_op *next = op->next;

		if (op->signaled && report != 0) {
			net_event_add(end, OL_XPORT_DONE, report, 0, op->cookie, NULL, 0);
			report = -ECONNABORTED;
		}
		op->signaled = false;
		goes_on = goes_on && sim_ppm(800000);
		if (goes_on && !op->is_read && !op->landed && !op->dropped) {
			capture(op);
			*keep = op;
			keep = &op->next;
			end->last = op;
			end->posted++;
			if (!op->started && end->next_op == NULL)
				end->next_op = op;
		} else {
			op->dropped = true;
			op->listed = false;
			if (end->landing == op)
				end->landing = NULL;
			op_put(op);
		}
		op = next;
	}
	*keep = NULL;
	end->reads = 0;
}

/* ---- posts ---- */

/* 0, or why this may not be posted; what the caller could have known is a failure of the run */
static int post_check(struct net_end *end, const struct ol_xport_seg *segs, unsigned count,
		      unsigned flags, uint32_t *ret_bytes)
{
	uint32_t bytes = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct ol_xport_region *region = segs[i].region;

		bytes += segs[i].bytes;
		if (region == NULL && (flags & OL_XPORT_INLINE) != 0)
			continue;
		if (region == NULL || !region->live || region->xport != end->xport ||
		    (region->end != NULL && region->end != end) ||
		    segs[i].off + segs[i].bytes > region->bytes) {
			sim_fail("check_misuse", "a post of memory that is not this connection's");
			return -EINVAL;
		}
	}
	if (count > OL_XPORT_SEGS_MAX ||
	    ((flags & OL_XPORT_INLINE) != 0 && bytes > NET_INLINE_MAX)) {
		sim_fail("check_misuse", "a post of %u bytes in %u pieces", bytes, count);
		return -EINVAL;
	}
	*ret_bytes = bytes;
	if (end->state == NET_UP && sim_ppm(sim_nature.post_ppm)) {
		/* what was posted before may land all the same */
		net_end_tell(end);
		net_end_down(end, -EIO, NULL, 0);
	}
	if (!end->mute && end->state == NET_UP && sim_ppm(sim_nature.mute_ppm)) {
		sim_say("end %u: completions never come from now on", end->number);
		end->mute = true;
	}
	if (end->state != NET_UP)
		return -ENOTCONN;
	/* a queue may be full that holds something: a completion follows */
	if (end->posted >= end->xport->opts.inflight_max ||
	    (end->posted > 0 && sim_ppm(sim_nature.again_ppm)))
		return -EAGAIN;
	return 0;
}

static struct net_op *op_add(struct net_end *end, unsigned flags, uint64_t cookie,
			     const struct ol_xport_seg *segs, unsigned count)
{
	struct net_op *op = op_get();

	op->end = end;
	op->signaled = (flags & OL_XPORT_SIGNALED) != 0;
	op->bell = (flags & OL_XPORT_DOORBELL) != 0;
	op->after_reads = (flags & OL_XPORT_AFTER_READS) != 0;
	op->cookie = cookie;
	op->seg_count = count;
	memcpy(op->segs, segs, count * sizeof(*segs));
	op->listed = true;
	if (end->last != NULL)
		end->last->next = op;
	else
		end->first = op;
	end->last = op;
	if (end->next_op == NULL)
		end->next_op = op;
	end->posted++;
	return op;
}

int net_post_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	struct net_end *end = ((struct net_conn *)conn)->end;
	uint32_t bytes = 0;
	struct net_op *op;
	int rc;

	sim_preempt(sim_nature.preempt_ppm);
	rc = post_check(end, write->segs, write->seg_count, write->flags, &bytes);
	if (rc != 0)
		return rc;
	op = op_add(end, write->flags, write->cookie, write->segs, write->seg_count);
	op->bytes = bytes;
	op->imm = write->imm;
	op->remote = write->dst;
	op->remote_off = write->dst_off;
	/* where a mapping cannot be taken back it is this CPU that copies, and it does so now */
	if ((write->flags & OL_XPORT_INLINE) != 0 || !sim_nature.fence_keeps)
		capture(op);
	net_pump(end);
	return 0;
}

int net_post_read(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	struct net_end *end = ((struct net_conn *)conn)->end;
	uint32_t bytes = 0;
	struct net_op *op;
	int rc;

	sim_preempt(sim_nature.preempt_ppm);
	rc = post_check(end, read->segs, read->seg_count, read->flags, &bytes);
	if (rc != 0)
		return rc;
	op = op_add(end, read->flags, read->cookie, read->segs, read->seg_count);
	op->is_read = true;
	op->bytes = bytes;
	op->remote = read->src;
	op->remote_off = read->src_off;
	net_pump(end);
	return 0;
}
