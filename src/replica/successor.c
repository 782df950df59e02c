/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * successor.c -- the connection that a replica makes to its successor, and entries on it
 *
 *	IDLE -> KNOCKING -> PROVING -> JOINING -> LIVE, and back to IDLE when it breaks
 *
 * The handshake is as a worker's (wire/wire.h). Then comes the hello, which tells a joining
 * successor where to read weights, and its welcome, which tells which entries it has.
 */

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/probe.h"
#include "rdma/order.h"
#include "replica/replica.h"
#include "wire/auth.h"

enum {
	CHUNK_BYTES = 1 << 20 /* longest single write of an entry */
};

static void sent_forget(struct ol_successor *succ)
{
	succ->sent_version = 0;
	succ->rung = 0;
}

static void conn_drop(struct ol_replica *replica)
{
	struct ol_successor *succ = &replica->succ;

	ol_dial_drop(&replica->dialer, &succ->dial);
	if (replica->ring.ops != NULL)
		ol_ring_dereg(&replica->ring);
	succ->pinned = -1;
	succ->told = false;
	succ->posted = 0;
	sent_forget(succ);
	succ->recall = OL_RECALL_NONE;
}

void ol_successor_drop(struct ol_replica *replica)
{
	conn_drop(replica);
	replica->succ.dial.state = OL_DIAL_NONE;
	replica->succ.lost_ns = 0;
}

/* From now on it has been lost; since its heartbeat was asked for, if the answer is still due */
static void lost_begin(struct ol_replica *replica, const char *why, uint64_t now_ns)
{
	struct ol_successor *succ = &replica->succ;

	if (succ->lost_ns != 0)
		return;
	succ->lost_ns = succ->dial.watch.posted ? succ->dial.watch.post_ns : now_ns;
	ol_log_rated(
		&replica->breaks, now_ns, why == NULL ? OL_LOG_DEBUG : OL_LOG_INFO,
		"server %s: shard %u: the connection to successor %s broke (%s): it is made anew",
		replica->addr, replica->opts->shard, succ->member.addr,
		why != NULL ? why : "closed at the other end");
}

/* It has not been heard for a lease; or its process is known to have ended */
static bool lost_for_good(const struct ol_replica *replica, uint64_t now_ns)
{
	const struct ol_successor *succ = &replica->succ;

	return succ->lost_ns != 0 && (now_ns - succ->lost_ns > ol_replica_lease_ns(replica) ||
				      ol_membership_is_gone(replica, succ->member.id));
}

/*
 * Drop the connection and dial again after the back-off. suspect: the successor is known to be dead
 * or wrong; else it is suspected when it has been lost for a lease.
 */
static void conn_retry(struct ol_replica *replica, const char *why, bool suspect, uint64_t now_ns)
{
	lost_begin(replica, why, now_ns);
	conn_drop(replica);
	ol_dial_retry(&replica->dialer, &replica->succ.dial, now_ns);
	ol_chain_on_successor_down(&replica->chain);
	if (suspect)
		ol_membership_suspect(replica, OL_NEIGHBOUR_SUCCESSOR, why, now_ns);
}

static const struct ol_wire_connect who = { .role = OL_ROLE_REPLICA };

static void dial_on_result(struct ol_replica *replica, int rc, uint64_t now_ns)
{
	if (rc != 0)
		conn_retry(replica, ol_strerror(rc), rc == -ECONNREFUSED || rc == -ENOENT, now_ns);
}

static void dial_start(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_successor *succ = &replica->succ;

	/* A former process of this address has ended. This one would be its own predecessor. */
	if (strcmp(succ->member.addr, replica->addr) == 0) {
		conn_retry(replica, ol_strerror(OL_E_FENCED), true, now_ns);
		return;
	}
	dial_on_result(
		replica,
		ol_dial_knock(&replica->dialer, &succ->dial, succ->member.addr, &who, now_ns),
		now_ns);
}

void ol_successor_connect(struct ol_replica *replica, const struct ol_member *member,
			  uint64_t now_ns)
{
	struct ol_successor *succ = &replica->succ;

	conn_drop(replica);
	succ->dial.backoff_ns = 0;
	succ->member = *member;
	succ->was_live = false;
	succ->lost_ns = now_ns;
	dial_start(replica, now_ns);
}

/* Pin a published snapshot for a joining successor, until its first ack */
static int content_offer(struct ol_replica *replica, struct ol_chain_hello *hello)
{
	struct ol_successor *succ = &replica->succ;
	struct ol_replica_content content = replica->host->content(replica->arg);
	int rc = replica->periodic ? 0 : ol_chain_on_offer(&replica->chain, content.version);

	if (rc != 0 || (replica->chain.succ_full && !replica->periodic))
		return rc;
	succ->pinned = (int)content.snapshot;
	succ->pinned_version = content.version;
	hello->content_off = ol_layout_snapshot_off(replica->geo, content.snapshot);
	hello->content_version = content.version;
	hello->content_epoch = replica->chain.view.epoch;
	return 0;
}

static int hello_post(struct ol_replica *replica)
{
	struct ol_successor *succ = &replica->succ;
	struct ol_chain_hello hello = {
		.magic = OL_WIRE_MAGIC,
		.epoch = replica->chain.view.epoch,
		.id = replica->self.id,
		.successor = succ->member.id,
		.acks = ol_dial_wire_rkey(
			replica->ops->rkey(succ->dial.acks_region, succ->dial.conn)),
		.board = ol_dial_wire_rkey(
			replica->ops->rkey(replica->public_region, succ->dial.conn)),
		.slots = replica->ring.slots,
	};
	uint64_t offered = succ->pinned_version;
	int rc = content_offer(replica, &hello);

	if (rc != 0)
		return rc;
	ol_record_seal(&hello);
	rc = ol_dial_hello(&replica->dialer, &succ->dial, &hello, sizeof(hello));
	if (rc != 0) { /* nothing was offered: the offer is still due */
		succ->pinned = -1;
		succ->pinned_version = offered;
	}
	return rc;
}

/* Register the ring, from which entries are sent, and memory for acks */
static int memory_make(struct ol_replica *replica)
{
	struct ol_dial *dial = &replica->succ.dial;
	int rc = ol_ring_reg(&replica->ring, dial->conn);

	return rc != 0 ? rc : ol_dial_memory(&replica->dialer, dial, replica->node);
}

void ol_successor_offer(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_successor *succ = &replica->succ;
	uint64_t every = replica->opts->replicate_every;
	int rc;

	if (succ->dial.state != OL_DIAL_LIVE || succ->pinned >= 0 ||
	    replica->host->content(replica->arg).version / every == succ->pinned_version / every)
		return;
	rc = hello_post(replica);
	if (rc != 0 && rc != -EAGAIN)
		conn_retry(replica, ol_strerror(rc), true, now_ns);
}

static void accept_take(struct ol_replica *replica, const struct ol_xport_event *event,
			uint64_t now_ns)
{
	struct ol_successor *succ = &replica->succ;
	struct ol_wire_accept accept;
	int rc = ol_dial_on_up(&replica->dialer, &succ->dial, event, &accept);
	const bool proved = rc == 0;

	if (rc == 0 && accept.incarnation != succ->member.id)
		rc = OL_E_FENCED; /* another process has that address now */
	if (rc == 0 && accept.landing_key.bytes != replica->ring.bytes)
		rc = OL_E_WIRE;
	if (rc == 0 && ol_geometry_difference(&accept.geo, replica->geo) != NULL)
		rc = OL_E_GEOMETRY;
	if (rc == 0)
		rc = memory_make(replica);
	if (rc == 0)
		rc = hello_post(replica);
	if (rc != 0) /* no suspicion if the accept may be anybody's, the connection broke at once,
			or this process lacks resources */
		conn_retry(replica, ol_strerror(rc),
			   proved && (rc == OL_E_WIRE || rc == OL_E_FENCED || rc == OL_E_GEOMETRY),
			   now_ns);
}

/* The end of a knock or a proof: a challenge, or a refusal */
static void attempt_on_end(struct ol_replica *replica, const struct ol_xport_event *event,
			   uint64_t now_ns)
{
	struct ol_dial *dial = &replica->succ.dial;
	struct ol_wire_reject reject;
	char text[OL_REJECT_TEXT_MAX];

	switch (ol_dial_on_end(&replica->dialer, dial, event, &reject)) {
	case OL_DIAL_CHALLENGED:
		dial_on_result(replica, ol_dial_prove(&replica->dialer, dial, &who, now_ns),
			       now_ns);
		break;
	case OL_DIAL_BROKE:
		/* nobody listens there: its process has ended, or another host has its address */
		if (ol_dial_is_vacant(event))
			conn_retry(replica,
				   replica->succ.was_live ? NULL : ol_strerror(event->status), true,
				   now_ns);
		else
			conn_retry(replica, ol_strerror(event->status), false, now_ns);
		break;
	case OL_DIAL_FULL:
		conn_retry(replica, "its transport holds all connections that it can", false,
			   now_ns);
		replica->succ.lost_ns = now_ns; /* it is there */
		break;
	case OL_DIAL_FORGED: /* anybody may say so: it proves neither that it lives nor that it died */
		conn_retry(replica, ol_strerror(OL_E_AUTH), false, now_ns);
		break;
	case OL_DIAL_REFUSED:
		/* the successor has not yet ended its former predecessor's session, or is short of
		   memory */
		conn_retry(replica, ol_wire_reject_text(&reject, text), false, now_ns);
		replica->succ.lost_ns = now_ns; /* it is there */
		if (reject.code == OL_REJECT_LATER)
			ol_dial_retry_after(&replica->dialer, dial, reject.delay_ms, now_ns);
		break;
	}
}

static void welcome_take(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_successor *succ = &replica->succ;
	struct ol_chain_welcome welcome;

	if (succ->dial.state != OL_DIAL_JOINING)
		return;
	memcpy(&welcome, (const uint8_t *)succ->dial.acks->addr + OL_WELCOME_OFF, sizeof(welcome));
	if (!ol_record_whole(&welcome) ||
	    (welcome.loading && (succ->pinned < 0 || welcome.have != succ->pinned_version))) {
		conn_retry(replica, "its welcome is impossible", true, now_ns);
		return;
	}
	ol_dial_set_live(&succ->dial);
	succ->dial.backoff_ns = 0;
	if (succ->was_live)
		ol_log_rated(&replica->breaks, now_ns, OL_LOG_INFO,
			     "server %s: shard %u: successor %s is connected again, after %llu ms",
			     replica->addr, replica->opts->shard, succ->member.addr,
			     (unsigned long long)((now_ns - succ->lost_ns) / OL_NS_PER_MS));
	succ->was_live = true;
	succ->lost_ns = 0;
	replica->suspects[OL_NEIGHBOUR_SUCCESSOR] = 0;
	ol_word_store(&replica->board->linked_ns, now_ns);
	if (!welcome.loading)
		succ->pinned = -1;
	if (replica->periodic)
		return;
	if (welcome.have + 1 < replica->ring.oldest ||
	    ol_chain_on_successor_up(&replica->chain, welcome.have) != 0) {
		conn_retry(replica, "it lacks entries that are no longer kept", true, now_ns);
		return;
	}
	ol_replica_progress(replica, now_ns);
}

/* Read the successor's ack record. True: it was a whole, newer ack */
static bool ack_take(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_successor *succ = &replica->succ;
	struct ol_chain_ack ack;

	if (succ->dial.state != OL_DIAL_LIVE)
		return false;
	memcpy(&ack, (const uint8_t *)succ->dial.acks->addr + OL_CHAIN_ACK_OFF, sizeof(ack));
	if (!ol_record_whole(&ack))
		return false; /* a newer ack is landing, and its bell follows */
	if (!replica->periodic && ol_chain_on_ack(&replica->chain, ack.version) != 0) {
		conn_retry(replica, "it acknowledged entries that it was not sent", true, now_ns);
		return false;
	}
	succ->pinned = -1; /* the successor has read the snapshot */
	succ->told = true;
	ol_replica_progress(replica, now_ns);
	return true;
}

static void conn_on_down(struct ol_replica *replica, const struct ol_xport_event *event,
			 uint64_t now_ns)
{
	switch (replica->succ.dial.state) {
	case OL_DIAL_KNOCKING:
	case OL_DIAL_PROVING:
		attempt_on_end(replica, event, now_ns);
		break;
	case OL_DIAL_JOINING:
	case OL_DIAL_WELCOME:
	case OL_DIAL_LIVE:
		/* a neighbour that broke a rule is wrong; any other may be there still */
		conn_retry(replica, event->status == 0 ? NULL : ol_strerror(event->status),
			   event->status == -EACCES, now_ns);
		break;
	case OL_DIAL_NONE:
	case OL_DIAL_IDLE:
		conn_drop(replica);
		break;
	}
}

/* What was posted of a void payload has landed, so another may be. No part is rung for that one */
static void recall_end(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_successor *succ = &replica->succ;

	sent_forget(succ);
	succ->rung = OL_PARTS_MAX;
	succ->recall = OL_RECALL_NONE;
	ol_replica_progress(replica, now_ns);
}

bool ol_successor_on_event(struct ol_replica *replica, const struct ol_xport_event *event,
			   uint64_t now_ns)
{
	switch (event->type) {
	case OL_XPORT_CONN_UP:
		if (replica->succ.dial.state == OL_DIAL_PROVING)
			accept_take(replica, event, now_ns);
		break;
	case OL_XPORT_DOORBELL_RUNG:
		replica->succ.dial.watch.heard_ns = now_ns;
		if (ol_bell_kind(event->imm) == OL_BELL_WELCOME)
			welcome_take(replica, now_ns);
		else if (ol_bell_kind(event->imm) == OL_BELL_CHAIN_ACK)
			return ack_take(replica, now_ns);
		break;
	case OL_XPORT_DONE:
		if (event->cookie == OL_REPLICA_COOKIE_BEAT)
			ol_replica_on_beat(replica, OL_NEIGHBOUR_SUCCESSOR, event->status, now_ns);
		else if (event->cookie == OL_REPLICA_COOKIE_RECALL && event->status == 0)
			recall_end(replica, now_ns);
		break;
	case OL_XPORT_CONN_DOWN:
		conn_on_down(replica, event, now_ns);
		break;
	case OL_XPORT_CONN_REQUEST:
		break; /* never on this connection */
	}
	return false;
}

static void watch_look(struct ol_replica *replica, uint64_t now_ns)
{
	const struct ol_dial *dial = &replica->succ.dial;

	switch (ol_replica_watch(replica, OL_NEIGHBOUR_SUCCESSOR, dial->conn, dial->public_key,
				 now_ns)) {
	case OL_WATCH_FINE:
		break;
	case OL_WATCH_DOUBT:
		conn_retry(replica, "its heartbeat cannot be read", false, now_ns);
		break;
	case OL_WATCH_SILENT:
	case OL_WATCH_STILL:
		conn_retry(replica, "its heartbeat stands still", true, now_ns);
		break;
	}
}

void ol_successor_tick(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_successor *succ = &replica->succ;

	switch (succ->dial.state) {
	case OL_DIAL_NONE:
		break;
	case OL_DIAL_IDLE:
		if (lost_for_good(replica, now_ns))
			ol_membership_suspect(replica, OL_NEIGHBOUR_SUCCESSOR,
					      ol_membership_is_gone(replica, succ->member.id)
						      ? NULL
						      : "it cannot be reached",
					      now_ns);
		if (now_ns >= succ->dial.retry_ns)
			dial_start(replica, now_ns);
		break;
	case OL_DIAL_KNOCKING:
	case OL_DIAL_PROVING:
		if (lost_for_good(replica, now_ns))
			conn_retry(replica, "it does not answer", true, now_ns);
		else if (ol_replica_gave_up(replica, &succ->dial, now_ns))
			conn_retry(replica, "it does not answer", false, now_ns);
		break;
	case OL_DIAL_JOINING:
	case OL_DIAL_WELCOME:
	case OL_DIAL_LIVE:
		watch_look(replica, now_ns);
		break;
	}
}

/* A part's bell for the payload of entry `version` */
static uint32_t part_bell(const struct ol_replica *replica, uint64_t version, uint64_t units)
{
	const uint32_t slot = (uint32_t)(version % replica->ring.slots);

	return ol_bell_make(OL_BELL_ENTRY_PART, ol_part_make(slot, units));
}

/* True unless a void payload must be recalled first, or another entry's is there */
static bool recall_is_over(struct ol_replica *replica, uint64_t version)
{
	struct ol_successor *succ = &replica->succ;
	struct ol_xport_write write = {
		.flags = OL_XPORT_DOORBELL | OL_XPORT_SIGNALED,
		.imm = part_bell(replica, succ->sent_version, OL_PART_CANCEL),
		.cookie = OL_REPLICA_COOKIE_RECALL,
	};

	if (succ->sent_version != 0 && succ->sent_version != version &&
	    succ->recall == OL_RECALL_NONE)
		succ->recall = OL_RECALL_DUE;
	if (succ->recall == OL_RECALL_DUE && replica->ops->post_write(succ->dial.conn, &write) == 0)
		succ->recall = OL_RECALL_POSTED;
	return succ->recall == OL_RECALL_NONE;
}

/* Post bytes off … off + bytes of an entry. imm 0: without a bell. Returns what the post does */
static int bytes_post(struct ol_replica *replica, uint64_t version, uint64_t off, uint32_t bytes,
		      uint32_t imm)
{
	const uint64_t at = ol_ring_off(&replica->ring, version) + off;
	struct ol_xport_write write = {
		.segs = { { .region = replica->ring.local, .off = at, .bytes = bytes } },
		.seg_count = 1,
		.imm = imm,
		.dst = replica->succ.dial.landing_key,
		.dst_off = at,
	};
	int rc;

	if (imm != 0)
		write.flags |= OL_XPORT_DOORBELL;
	if (bytes <= replica->inline_max)
		write.flags |= OL_XPORT_INLINE;
	rc = replica->ops->post_write(replica->succ.dial.conn, &write);
	if (rc == 0)
		ol_turn_spend(replica->turn, OL_TURN_FORWARD, bytes);
	return rc;
}

static uint32_t chunk_of(uint64_t bytes)
{
	return bytes < CHUNK_BYTES ? (uint32_t)bytes : CHUNK_BYTES;
}

/* Post the payload from its end downwards, which is the order in which it comes */
void ol_successor_part(struct ol_replica *replica)
{
	struct ol_successor *succ = &replica->succ;
	const struct ol_payload *payload = &replica->payload;
	const uint64_t units = payload->first / OL_PART_FLOATS;
	const uint64_t to = payload->first * OL_ELEM_BYTES;
	uint64_t end = replica->ring.payload_bytes;

	if (succ->sent_version == payload->version)
		end = succ->sent_first * OL_ELEM_BYTES;
	/* the entry brings the last part, and the last bell is a recall's */
	if (units == 0 || units >= OL_PART_CANCEL || payload->first % OL_PART_FLOATS != 0 ||
	    end < to + ol_payload_part(replica) * OL_ELEM_BYTES || succ->rung >= OL_PARTS_MAX - 1 ||
	    payload->version > replica->chain.succ_acked + OL_PARTED_ENTRIES ||
	    !recall_is_over(replica, payload->version))
		return;
	while (end > to) {
		uint32_t bytes = chunk_of(end - to);
		uint32_t imm = end - bytes == to ? part_bell(replica, payload->version, units) : 0;

		if (bytes_post(replica, payload->version, end - bytes, bytes, imm) != 0)
			return;
		end -= bytes;
		succ->sent_version = payload->version;
		succ->sent_first = end / OL_ELEM_BYTES;
	}
	succ->rung++;
}

int ol_successor_forward(struct ol_replica *replica, uint64_t version)
{
	struct ol_successor *succ = &replica->succ;
	struct ol_ring *ring = &replica->ring;
	struct ol_board *board = replica->board;
	const uint64_t total = ol_ring_bytes(ring, version);
	uint64_t first_end = total;

	if (!recall_is_over(replica, version))
		return -EAGAIN;
	if (succ->sent_version == version)
		first_end = succ->sent_first * OL_ELEM_BYTES;
	while (succ->posted < total) {
		uint64_t end = succ->posted < first_end ? first_end : total;
		uint32_t bytes = chunk_of(end - succ->posted), imm = 0;

		if (succ->posted + bytes == total)
			imm = ol_bell_make(OL_BELL_ENTRY, (uint32_t)(version % ring->slots));
		/* the turn is used up, the queue is full, or a broken connection is about to be
		 * reported */
		if (!ol_turn_has_room(replica->turn, OL_TURN_FORWARD) ||
		    bytes_post(replica, version, succ->posted, bytes, imm) != 0)
			return -EAGAIN;
		succ->posted += bytes;
		if (succ->posted == first_end && first_end < total)
			succ->posted = ring->payload_bytes; /* in between all is posted */
	}
	ol_probe4(entry_forwarded, replica->opts->shard, version, succ->member.id, total);
	succ->posted = 0;
	sent_forget(succ);
	ol_counter_add(&board->forwarded, 1);
	ol_counter_add(&board->forwarded_bytes, total);
	if (version <= succ->newest)
		ol_counter_add(&board->resent, 1);
	else
		succ->newest = version;
	return 0;
}

unsigned ol_successor_pinned(const struct ol_replica *replica)
{
	const struct ol_successor *succ = &replica->succ;

	return succ->pinned >= 0 ? 1u << succ->pinned : 0;
}
