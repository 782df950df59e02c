/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * carry.c -- decisions between shards
 *
 * Where shard 0 decides which gradients make a step (wire.h, struct ol_decision), each worker carries
 * what one shard has made to those that are behind, as soon as it hears of it: in an ack, or in
 * a version line that a pull has read.
 *
 *	read [head | tables] of the shard that is furthest, and behind a fence its version line
 *	write them to each shard that is behind, and ring
 *
 * One decision is carried at a time. It lies in one buffer until all writes are complete.
 *
 * A new connection to shard 0 is introduced first. No push goes there before
 *
 *	1. its table is written to all others, which learn from it when it was founded
 *	2. their version lines, read anew, say that they know it
 *	3. if one of them is ahead, its newest table is written to shard 0, which decides nothing up to that version;
 *	   it then makes the steps that are missing, as any shard that is behind
 *
 * Of a chain the head takes decisions and says what it knows, and its line is that of all that it has
 * ordered. The tail's table is what is carried.
 */

#include <string.h>

#include "rdma/order.h"
#include "worker/worker_internal.h"

enum {
	ASK_US = 200, /* between two questions for a version line: of an introduction … */
	ASK_MS = 2, /* … and of a shard that is to make a step */
	AGAIN_MS = 100 /* until a decision is written again that has had no effect */
};

static uint64_t bit(uint32_t shard)
{
	return UINT64_C(1) << shard;
}

/* Decisions can be read from this shard, and written to it */
static bool is_there(const struct ol_link *link)
{
	return link->state == OL_LINK_LIVE && link->reader->dial.state == OL_DIAL_LIVE &&
	       ol_link_pushes(link);
}

static struct ol_link *furthest(struct ol_worker *worker)
{
	struct ol_link *found = NULL;

	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		if (is_there(link) && (found == NULL || link->version > found->version))
			found = link;
	}
	return found;
}

/* A decision was written to this shard. Has it had time to take effect? It is asked meanwhile */
static bool is_done(struct ol_link *link)
{
	const uint64_t now_ns = ol_worker_now(link->worker);

	if (link->carried.seen != link->version) {
		link->carried.seen = link->version;
		link->carried.rung = 0;
	}
	if (link->carried.version <= link->version ||
	    (now_ns >= link->carried.again_ns && link->carried.rung < OL_DECISIONS_MAX))
		return true;
	if (now_ns >= link->carried.line_ns) {
		link->carried.line_ns = now_ns + ASK_MS * OL_NS_PER_MS;
		(void)ol_newest(link->worker);
	}
	return false;
}

/* The shards that lack what `source` has made; *ret_version: of the one furthest behind */
static uint64_t behind(struct ol_worker *worker, const struct ol_link *source,
		       uint64_t *ret_version)
{
	uint64_t to = 0;

	*ret_version = source->version;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		if (!is_there(link) || link->version >= source->version || !is_done(link))
			continue;
		to |= bit(i);
		if (link->version < *ret_version)
			*ret_version = link->version;
	}
	return to;
}

/* The shards that do not know yet when this shard 0 was founded, and were not told */
static uint64_t strangers_to(const struct ol_worker *worker)
{
	uint64_t to = 0;

	for (uint32_t i = 1; i < worker->link_count; i++) {
		const struct ol_link *link = &worker->links[i];

		if (is_there(link) && link->carried.decider < worker->links[0].history &&
		    link->carried.introduced < worker->links[0].history)
			to |= bit(i);
	}
	return to;
}

/* Carry the version behind `after`, or the first one that the source still has */
static void carry_begin(struct ol_worker *worker, struct ol_link *source, uint64_t to,
			uint64_t after)
{
	struct ol_carry *carry = &worker->carry;

	if (to == 0 || carry->state != OL_CARRY_IDLE)
		return;
	*carry = (struct ol_carry){
		.state = source->version > after + 1 ? OL_CARRY_ASK : OL_CARRY_TABLE,
		.number = carry->number + 1,
		.from = source->index,
		.to = to,
		.after = after,
		.snapshot = source->snapshot,
	};
	*ol_worker_decision(worker) = (struct ol_decision){ .version = source->version,
							    .history = source->identity,
							    .founded = source->history,
							    .shard = source->index };
}

/* Read into the worker's memory at `at`; false: not now */
static bool read_post(struct ol_peer *peer, const void *at, uint64_t bytes, uint64_t off,
		      unsigned flags, uint64_t cookie)
{
	const struct ol_worker *worker = peer->link->worker;
	const struct ol_xport_read read = {
		.segs = { { .region = peer->rail->work_region,
			    .off = ol_worker_work_off(worker, at),
			    .bytes = (uint32_t)bytes } },
		.seg_count = 1,
		.flags = flags,
		.src = peer->dial.public_key,
		.src_off = off,
		.cookie = cookie,
	};

	return worker->ops->post_read(peer->dial.conn, &read) == 0;
}

static void reads_go_on(struct ol_worker *worker)
{
	struct ol_carry *carry = &worker->carry;
	struct ol_link *source = &worker->links[carry->from];

	if (carry->state == OL_CARRY_ASK &&
	    read_post(source->reader, ol_worker_carry_line(worker, worker->link_count),
		      sizeof(struct ol_version_line), OL_BOARD_LINE_OFF, OL_XPORT_SIGNALED,
		      ol_cookie_make(OL_COOKIE_TABLE, carry->number)))
		carry->state = OL_CARRY_ASKS;
	if (carry->state == OL_CARRY_TABLE &&
	    read_post(source->reader, ol_worker_decision(worker) + 1,
		      ol_layout_table_bytes(&source->geo),
		      ol_layout_snapshot_off(&source->geo, carry->snapshot), OL_XPORT_MORE, 0))
		carry->state = OL_CARRY_LINE;
	if (carry->state == OL_CARRY_LINE &&
	    read_post(source->reader, ol_worker_carry_line(worker, worker->link_count),
		      sizeof(struct ol_version_line), OL_BOARD_LINE_OFF,
		      OL_XPORT_SIGNALED | OL_XPORT_AFTER_READS,
		      ol_cookie_make(OL_COOKIE_TABLE, carry->number)))
		carry->state = OL_CARRY_READS;
}

/* The line is here: choose the oldest version that it has behind `after` */
static void version_choose(struct ol_worker *worker, const uint64_t *words)
{
	struct ol_carry *carry = &worker->carry;
	struct ol_decision *decision = ol_worker_decision(worker);
	bool any = false;

	(void)ol_line_learn(&worker->links[carry->from], words);
	for (uint32_t i = 0; i < OL_SNAPSHOTS; i++) {
		const uint64_t begin = words[1 + i], version = begin - 1;

		if (begin == 0 || begin != words[1 + OL_SNAPSHOTS + i] || version <= carry->after ||
		    version > ol_published_version(words[0]) ||
		    (any && version > decision->version))
			continue;
		decision->version = version;
		carry->snapshot = i;
		any = true;
	}
	carry->state = any ? OL_CARRY_TABLE : OL_CARRY_IDLE;
}

void ol_carry_on_table(struct ol_worker *worker, uint32_t number, int status)
{
	struct ol_carry *carry = &worker->carry;
	struct ol_link *source = &worker->links[carry->from];
	struct ol_decision *decision = ol_worker_decision(worker);
	uint64_t words[1 + 2 * OL_SNAPSHOTS], want;

	if (number != carry->number || status != 0)
		return; /* it was given up, or will be: its connection ends */
	ol_line_read(ol_worker_carry_line(worker, worker->link_count), words);
	if (carry->state == OL_CARRY_ASKS)
		version_choose(worker, words);
	if (carry->state != OL_CARRY_READS)
		return;
	want = decision->version + 1;
	if (words[1 + carry->snapshot] != want ||
	    words[1 + OL_SNAPSHOTS + carry->snapshot] != want) {
		(void)ol_line_learn(source, words);
		carry->state = OL_CARRY_IDLE; /* it has made others since: those are carried */
		return;
	}
	decision->table_crc =
		ol_record_crc(decision + 1, (size_t)ol_layout_table_bytes(&source->geo));
	ol_record_seal(decision);
	carry->state = OL_CARRY_WRITES;
}

static bool write_post(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;
	const struct ol_peer *head = ol_link_head(link);
	const struct ol_decision *decision = ol_worker_decision(worker);
	const uint32_t place = worker->carry.newest || worker->carry.introduces;
	const struct ol_xport_write write = {
		.segs = { { .region = head->rail->work_region,
			    .off = ol_worker_work_off(worker, decision),
			    .bytes = (uint32_t)(sizeof(*decision) +
						ol_layout_table_bytes(&link->geo)) } },
		.seg_count = 1,
		.flags = OL_XPORT_SIGNALED | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_DECISION, place),
		.dst = head->dial.landing_key,
		.dst_off = ol_layout_decision_off(
			&link->geo, link->geo.window + ol_worker_queues(worker), place),
		.cookie = ol_cookie_make(OL_COOKIE_CARRIED, worker->carry.number),
	};

	if (worker->ops->post_write(head->dial.conn, &write) != 0)
		return false;
	if (worker->carry.newest)
		link->carried.newest = decision->version;
	else if (!worker->carry.introduces && decision->version > link->carried.version)
		link->carried.version = decision->version;
	link->carried.rung++;
	link->carried.again_ns = ol_worker_now(worker) + AGAIN_MS * OL_NS_PER_MS;
	if (worker->carry.introduces)
		link->carried.introduced = decision->founded;
	return true;
}

static void writes_go_on(struct ol_worker *worker)
{
	struct ol_carry *carry = &worker->carry;

	for (uint32_t i = 0; i < worker->link_count; i++) {
		if ((carry->to & bit(i)) == 0)
			continue;
		if (is_there(&worker->links[i]) && !write_post(&worker->links[i]))
			continue;
		if (is_there(&worker->links[i]))
			carry->busy |= bit(i);
		carry->to &= ~bit(i);
	}
	if ((carry->to | carry->busy) == 0)
		carry->state = OL_CARRY_IDLE;
}

void ol_carry_on_written(struct ol_link *link, uint32_t number)
{
	struct ol_carry *carry = &link->worker->carry;

	if (number != carry->number)
		return;
	carry->busy &= ~bit(link->index);
	if (carry->state == OL_CARRY_WRITES)
		writes_go_on(link->worker);
}

/* ---- the introduction of shard 0 ---- */

void ol_carry_on_line(struct ol_link *link, int status)
{
	const struct ol_version_line *line = ol_worker_carry_line(link->worker, link->index);

	link->carried.lined = false;
	if (status != 0)
		return;
	link->carried.decider = (uint32_t)ol_word_load(&line->decider);
	link->carried.ordered = ol_published_version(ol_word_load(&line->published));
}

/* Ask a shard whether it knows shard 0 now, and how far it has come */
static void line_ask(struct ol_link *link, uint64_t now_ns)
{
	if (link->carried.lined || now_ns < link->carried.line_ns)
		return;
	link->carried.line_ns = now_ns + ASK_US * OL_NS_PER_US;
	link->carried.lined =
		read_post(ol_link_head(link), ol_worker_carry_line(link->worker, link->index),
			  sizeof(struct ol_version_line), OL_BOARD_LINE_OFF, OL_XPORT_SIGNALED,
			  ol_cookie_make(OL_COOKIE_LINE, 0));
}

/* True once pushes may go to shard 0 */
static bool introduce(struct ol_worker *worker)
{
	const struct ol_link *first = &worker->links[0];
	const uint64_t now_ns = ol_worker_now(worker);
	bool known = is_there(first), ahead = false;

	for (uint32_t i = 1; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		if (!known || !is_there(link))
			return false;
		if (link->carried.decider < first->history) {
			if (link->carried.introduced >= first->history)
				line_ask(link, now_ns);
			known = false;
		} else if (link->carried.ordered > first->version &&
			   link->carried.ordered > first->carried.newest) {
			ahead = true;
			if (link->version < link->carried.ordered)
				(void)ol_newest(worker); /* its tail is to say so */
		}
	}
	return known && !ahead;
}

/* What shard 0 is told before it gets pushes: how far others are ahead of it */
static void newest_carry(struct ol_worker *worker, struct ol_link *source)
{
	struct ol_link *first = &worker->links[0];

	if (worker->carry.state != OL_CARRY_IDLE || first->version >= source->version ||
	    first->carried.newest >= source->version)
		return;
	carry_begin(worker, source, bit(0), source->version - 1);
	worker->carry.newest = true;
}

/* What the others are told of this shard 0 */
static void introduction_carry(struct ol_worker *worker)
{
	struct ol_link *first = &worker->links[0];
	const uint64_t to = strangers_to(worker);

	if (worker->carry.state != OL_CARRY_IDLE || to == 0)
		return;
	carry_begin(worker, first, to, first->version);
	worker->carry.introduces = true;
}

void ol_carry_progress(struct ol_worker *worker)
{
	struct ol_link *first = &worker->links[0], *source = furthest(worker);
	uint64_t to, after;

	if (!worker->introduced)
		worker->introduced = introduce(worker);
	if (source != NULL && !worker->introduced && is_there(first)) {
		introduction_carry(worker);
		newest_carry(worker, source);
	}
	if (source != NULL && worker->carry.state == OL_CARRY_IDLE) {
		to = behind(worker, source, &after);
		carry_begin(worker, source, to, after);
	}
	if (worker->carry.state < OL_CARRY_READS)
		reads_go_on(worker);
	if (worker->carry.state == OL_CARRY_WRITES)
		writes_go_on(worker);
}

void ol_carry_on_down(const struct ol_peer *peer)
{
	struct ol_link *link = peer->link;
	struct ol_worker *worker = link->worker;
	struct ol_carry *carry = &worker->carry;

	if (link->index == 0)
		worker->introduced = false;
	if (peer == ol_link_head(link)) {
		link->carried = (struct ol_carried){ 0 };
		carry->busy &= ~bit(link->index);
	}
	if (carry->from == link->index && carry->state != OL_CARRY_WRITES)
		carry->state = OL_CARRY_IDLE;
}

/* ---- pushes ---- */

void ol_carry_base(struct ol_push_hdr *hdr, uint64_t version)
{
	const uint64_t base = hdr->base_version + hdr->ahead;
	const uint64_t ahead = base > version ? base - version : 0;

	hdr->ahead = ahead < UINT32_MAX ? (uint32_t)ahead : UINT32_MAX;
	hdr->base_version = base - ahead;
}

bool ol_carry_may_send(const struct ol_link *link, uint32_t index)
{
	const struct ol_worker *worker = link->worker;
	const uint64_t others = ol_worker_all(worker) & ~UINT64_C(1);

	if (link->index != 0 || !ol_worker_decided(worker))
		return true;
	return worker->introduced && (worker->grads[index].unplaced & others) == 0;
}

void ol_carry_drops(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;
	const uint64_t own = bit(link->index);
	struct ol_xport_write write = { .flags = OL_XPORT_DOORBELL };

	link->carried.drops_due = false;
	for (uint32_t i = 0; i < worker->slots; i++) {
		struct ol_grad *grad = &worker->grads[i];

		if ((grad->drop_due & grad->acks_due & own) == 0) /* else it goes behind the push */
			continue;
		write.imm = ol_bell_make(OL_BELL_WITHDRAW, i + 1);
		if (worker->ops->post_write(ol_link_head(link)->dial.conn, &write) == 0)
			grad->drop_due &= ~own;
		else
			link->carried.drops_due = true;
	}
}

void ol_carry_again(struct ol_link *link)
{
	const struct ol_worker *worker = link->worker;
	const struct ol_xport_write write = { .flags = OL_XPORT_DOORBELL,
					      .imm = ol_bell_make(OL_BELL_AGAIN, 0) };

	if (link->index == 0 && !worker->introduced)
		return;
	link->carried.again_due =
		worker->ops->post_write(ol_link_head(link)->dial.conn, &write) != 0;
}

bool ol_carry_unsent(struct ol_link *link, uint32_t index)
{
	const struct ol_grad *grad = &link->worker->grads[index];
	uint32_t kept = 0;

	if (!ol_worker_decided(link->worker) || (grad->open >> link->index & 1) == 0)
		return false;
	for (uint32_t i = 0; i < link->send_count; i++) {
		const uint32_t other = link->send_queue[(link->send_head + i) % OL_SLOTS_MAX];

		if (other != index)
			link->send_queue[(link->send_head + kept++) % OL_SLOTS_MAX] = other;
	}
	link->send_count = kept;
	return true;
}
