/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * predecessor.c -- a replica's predecessor: its messages, and the entries that it writes into the
 * ring
 *
 * One at a time: a second predecessor is refused until the first is gone. Its hello is answered
 * when this replica has adopted a view in which the sender is the predecessor. Until then the hello
 * waits; if a newer view names another predecessor, the connection is ended.
 *
 * It is the predecessor that connects. If its connection ends while it is the predecessor, this end
 * calls it: nobody listens there if its process has died, and a challenge comes if it lives. Then it
 * has MISSED_LEASES to come back.
 */

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/probe.h"
#include "rdma/order.h"
#include "replica/replica.h"

enum {
	MISSED_LEASES = 2, /* without a connection until a predecessor is suspected that lives */
	CALLS_A_LEASE = 4, /* to a predecessor that lives, and has not come back */
};

void ol_predecessor_drop(struct ol_replica *replica)
{
	/* a peer that is not welcomed yet may be the next predecessor: its hello decides */
	if (replica->pred.state == OL_PREDECESSOR_LIVE)
		replica->host->drop(replica->arg, NULL, false);
}

void ol_predecessor_on_accept(struct ol_replica *replica, struct ol_xport_conn *conn)
{
	replica->pred.state = OL_PREDECESSOR_ACCEPTED;
	replica->pred.conn = conn;
}

/* ---- a predecessor that was lost ---- */

void ol_predecessor_forget(struct ol_replica *replica)
{
	ol_dial_drop(&replica->dialer, &replica->lost.call);
	replica->lost = (struct ol_lost){ 0 };
}

/* True if it is the predecessor still, and not here */
static bool lost_is_wanted(const struct ol_replica *replica)
{
	const struct ol_member *pred = ol_view_predecessor(&replica->chain.view, replica->self.id);

	return replica->lost.id != 0 && pred != NULL && pred->id == replica->lost.id &&
	       replica->pred.state != OL_PREDECESSOR_LIVE;
}

static void lost_call_again(struct ol_replica *replica, uint64_t now_ns)
{
	ol_dial_retry(&replica->dialer, &replica->lost.call, now_ns);
}

/* It is dead; why NULL: it left */
static void lost_is_dead(struct ol_replica *replica, const char *why, uint64_t now_ns)
{
	ol_dial_drop(&replica->dialer, &replica->lost.call);
	replica->lost.call.state = OL_DIAL_NONE;
	ol_membership_suspect(replica, OL_NEIGHBOUR_PREDECESSOR, why, now_ns);
}

static void lost_call(struct ol_replica *replica, uint64_t now_ns)
{
	static const struct ol_wire_connect who = { .role = OL_ROLE_REPLICA };
	const struct ol_member *pred = ol_view_predecessor(&replica->chain.view, replica->self.id);
	int rc = ol_dial_knock(&replica->dialer, &replica->lost.call, pred->addr, &who, now_ns);

	if (rc == -ECONNREFUSED || rc == -ENOENT)
		lost_is_dead(replica, NULL, now_ns);
	else if (rc != 0)
		lost_call_again(replica, now_ns);
}

/* Its connection has ended, or is about to: note it once */
static void lost_begin(struct ol_replica *replica, uint64_t now_ns)
{
	const struct ol_watch *watch = &replica->pred.watch;
	const struct ol_member *pred = ol_view_predecessor(&replica->chain.view, replica->self.id);

	if (replica->pred.state != OL_PREDECESSOR_LIVE || pred == NULL ||
	    pred->id != replica->pred.hello.id || replica->lost.id == pred->id)
		return;
	ol_predecessor_forget(replica);
	replica->lost.id = pred->id;
	replica->lost.since_ns = watch->posted ? watch->post_ns : now_ns;
	replica->lost.call.state = OL_DIAL_IDLE; /* called at the next tick, or at once */
}

void ol_predecessor_on_call(struct ol_replica *replica, const struct ol_xport_event *event,
			    uint64_t now_ns)
{
	struct ol_dial *call = &replica->lost.call;
	struct ol_wire_reject reject;

	if (event->type != OL_XPORT_CONN_DOWN)
		return;
	switch (ol_dial_on_end(&replica->dialer, call, event, &reject)) {
	case OL_DIAL_CHALLENGED:
	case OL_DIAL_FULL:
	case OL_DIAL_REFUSED: /* it lives: look again later, as it may die without a word */
		replica->lost.since_ns = now_ns;
		ol_dial_retry_after(&replica->dialer, call, replica->opts->lease_ms / CALLS_A_LEASE,
				    now_ns);
		break;
	case OL_DIAL_FORGED: /* anybody may say so: it proves neither that it lives nor that it died */
		lost_call_again(replica, now_ns);
		break;
	case OL_DIAL_BROKE:
		if (ol_dial_is_vacant(event))
			lost_is_dead(replica, NULL, now_ns);
		else
			lost_call_again(replica, now_ns);
		break;
	}
}

static void lost_tick(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_lost *lost = &replica->lost;
	const struct ol_memory_job *memory = replica->pred.memory;

	if (lost->id == 0)
		return;
	if (!lost_is_wanted(replica)) {
		ol_predecessor_forget(replica);
		return;
	}
	if (memory != NULL && memory->busy) /* it is here, and waits for this server */
		lost->since_ns = now_ns;
	if (lost->call.state == OL_DIAL_NONE)
		return;
	if (now_ns > lost->since_ns + ol_replica_lease_ns(replica) ||
	    ol_membership_is_gone(replica, lost->id))
		lost_is_dead(replica, "it does not come back", now_ns);
	else if (lost->call.state == OL_DIAL_IDLE && now_ns >= lost->call.retry_ns)
		lost_call(replica, now_ns);
	else if (lost->call.state == OL_DIAL_KNOCKING &&
		 ol_replica_gave_up(replica, &lost->call, now_ns))
		lost_call_again(replica, now_ns);
}

/* ---- its connection ---- */

void ol_predecessor_on_end(struct ol_replica *replica)
{
	bool wrote = replica->pred.state != OL_PREDECESSOR_NONE;
	int rc;

	replica->pred.memory = NULL;
	if (!wrote)
		return;
	ol_payload_drop(replica);
	lost_begin(replica, replica->now_ns);
	replica->pred = (struct ol_predecessor){ .missed_ns = replica->now_ns };
	rc = ol_ring_renew(&replica->ring, ol_chain_oldest_kept(&replica->chain) + 1,
			   replica->chain.received);
	if (rc != 0) {
		ol_log(OL_LOG_ERROR, "server %s: no memory for a new ring: %s", replica->addr,
		       ol_strerror(rc));
		ol_replica_end(replica, rc);
	}
	ol_chain_on_predecessor(&replica->chain, false);
}

/* The fault of a hello; NULL: none */
static const char *hello_fault(const struct ol_replica *replica, const struct ol_chain_hello *hello)
{
	enum ol_predecessor_state state = replica->pred.state;
	bool again = replica->periodic && state == OL_PREDECESSOR_LIVE;

	if ((state != OL_PREDECESSOR_ACCEPTED && !again) || hello->magic != OL_WIRE_MAGIC ||
	    !ol_record_whole(hello))
		return "malformed hello of a replica";
	if (hello->acks.bytes < OL_ACKS_BYTES)
		return "hello of a replica without memory for acks";
	if (hello->slots != replica->ring.slots)
		return "hello of a replica with another ring";
	if (hello->successor != replica->self.id)
		return "hello of a replica that is meant for another";
	return NULL;
}

static void weights_load(struct ol_replica *replica, uint64_t now_ns)
{
	replica->load_ns = now_ns;
	replica->host->load(replica->arg, &replica->pred.hello, now_ns);
}

static void welcome_send(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_predecessor *pred = &replica->pred;
	struct ol_chain_welcome msg = { .have = pred->hello.content_version,
					.epoch = replica->chain.view.epoch };
	int loading = OL_CHAIN_LOAD;
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&msg, .bytes = sizeof(msg) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_WELCOME, 0),
		.dst = pred->acks,
		.dst_off = OL_WELCOME_OFF,
	};

	if (!replica->periodic)
		loading = ol_chain_on_hello(&replica->chain, msg.have, &msg.have);
	if (loading < 0) {
		replica->host->drop(replica->arg, "is not expected in this state", false);
		return;
	}
	msg.loading = loading == OL_CHAIN_LOAD;
	ol_record_seal(&msg);
	if (replica->ops->post_write(pred->conn, &write) != 0)
		return; /* the next tick tries again; or the connection is about to go down */
	if (replica->lost.id == pred->hello.id)
		ol_log_rated(
			&replica->breaks, now_ns, OL_LOG_INFO,
			"server %s: shard %u: its predecessor is connected again, after %llu ms",
			replica->addr, replica->opts->shard,
			(unsigned long long)((now_ns - replica->lost.since_ns) / OL_NS_PER_MS));
	ol_predecessor_forget(replica);
	pred->state = OL_PREDECESSOR_LIVE;
	replica->suspects[OL_NEIGHBOUR_PREDECESSOR] = 0;
	pred->board_key = ol_dial_xport_rkey(pred->hello.board);
	ol_chain_on_predecessor(&replica->chain, true);
	if (loading == OL_CHAIN_LOAD)
		weights_load(replica, now_ns);
	ol_replica_progress(replica, now_ns);
}

/* Judge a waiting hello: is its sender the predecessor? */
static void hello_judge(struct ol_replica *replica, uint64_t now_ns)
{
	const struct ol_chain *chain = &replica->chain;
	const struct ol_member *pred = ol_view_predecessor(&chain->view, replica->self.id);

	if (replica->pred.hello.epoch > chain->view.epoch)
		return;
	if (pred != NULL && pred->id == replica->pred.hello.id)
		welcome_send(replica, now_ns);
	else
		replica->host->drop(replica->arg, "is not the predecessor in this epoch", false);
}

/* A hello lands in the first page of the ring */
static void hello_take(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_predecessor *pred = &replica->pred;
	const uint8_t *page = replica->ring.slab->addr;
	const char *fault;

	/* a copy, as the peer may change the record after the check */
	memcpy(&pred->hello, page + OL_HELLO_OFF, sizeof(pred->hello));
	fault = hello_fault(replica, &pred->hello);
	if (fault != NULL) {
		replica->host->drop(replica->arg, fault, true);
		return;
	}
	if (pred->state == OL_PREDECESSOR_LIVE) { /* periodic: newer weights */
		weights_load(replica, now_ns);
		return;
	}
	pred->acks = ol_dial_xport_rkey(pred->hello.acks);
	pred->state = OL_PREDECESSOR_JOINED;
	if (ol_replica_has_news(replica))
		ol_replica_view_read(replica, now_ns); /* judges it, by the newest view */
	else
		hello_judge(replica, now_ns);
}

static void entry_take(struct ol_replica *replica, uint32_t slot, uint64_t now_ns)
{
	uint64_t version = replica->chain.received + 1;

	if (replica->periodic || slot != version % replica->ring.slots ||
	    !ol_ring_take(&replica->ring, version) ||
	    ol_chain_on_entry(&replica->chain, version) != 0) {
		replica->host->drop(replica->arg, "entry that is not the next one", true);
		return;
	}
	ol_probe2(entry_landed, replica->opts->shard, version);
	ol_counter_add(&replica->board->bytes_in, ol_ring_bytes(&replica->ring, version));
	ol_replica_progress(replica, now_ns);
}

static void part_take(struct ol_replica *replica, uint32_t arg)
{
	const char *fault = ol_payload_on_bell(replica, arg);

	if (fault != NULL)
		replica->host->drop(replica->arg, fault, true);
}

void ol_predecessor_on_bell(struct ol_replica *replica, uint32_t imm, uint64_t now_ns)
{
	uint32_t kind = ol_bell_kind(imm);

	replica->pred.watch.heard_ns = now_ns;
	if (kind == OL_BELL_HELLO)
		hello_take(replica, now_ns);
	else if (kind == OL_BELL_ENTRY && replica->pred.state == OL_PREDECESSOR_LIVE)
		entry_take(replica, ol_bell_arg(imm), now_ns);
	else if (kind == OL_BELL_ENTRY_PART && replica->pred.state == OL_PREDECESSOR_LIVE)
		part_take(replica, ol_bell_arg(imm));
	else
		replica->host->drop(replica->arg, "doorbell before hello", true);
}

void ol_predecessor_on_down(struct ol_replica *replica, int status, uint64_t now_ns)
{
	if (replica->pred.state != OL_PREDECESSOR_LIVE)
		return;
	if (status == -EACCES) { /* it broke a rule */
		ol_membership_suspect(replica, OL_NEIGHBOUR_PREDECESSOR, ol_strerror(status),
				      now_ns);
		return;
	}
	lost_begin(replica, now_ns);
	if (replica->lost.call.state == OL_DIAL_IDLE)
		lost_call(replica, now_ns);
}

/* A predecessor that never connects is suspected: its loop hangs, though its session at the
 * coordinator lives. The time that this server takes to let it in does not count. */
static void missed_look(struct ol_replica *replica, uint64_t now_ns)
{
	const struct ol_memory_job *memory = replica->pred.memory;
	uint64_t since_ns;

	if (memory != NULL && memory->busy)
		replica->pred.missed_ns = now_ns;
	since_ns = replica->adopted_ns > replica->pred.missed_ns ? replica->adopted_ns
								 : replica->pred.missed_ns;

	if (replica->chain.loaded && ol_view_predecessor(&replica->chain.view, replica->self.id) &&
	    now_ns > since_ns + MISSED_LEASES * replica->opts->lease_ms * OL_NS_PER_MS)
		ol_membership_suspect(replica, OL_NEIGHBOUR_PREDECESSOR, "it does not connect",
				      now_ns);
}

static void watch_look(struct ol_replica *replica, uint64_t now_ns)
{
	const struct ol_predecessor *pred = &replica->pred;

	switch (ol_replica_watch(replica, OL_NEIGHBOUR_PREDECESSOR, pred->conn, pred->board_key,
				 now_ns)) {
	case OL_WATCH_FINE:
		break;
	case OL_WATCH_DOUBT: /* it may be at the door with another connection */
		replica->host->drop(replica->arg, "its heartbeat cannot be read", false);
		break;
	case OL_WATCH_SILENT:
	case OL_WATCH_STILL:
		ol_membership_suspect(replica, OL_NEIGHBOUR_PREDECESSOR,
				      "its heartbeat stands still", now_ns);
		replica->host->drop(replica->arg, NULL, false);
		break;
	}
}

void ol_predecessor_tick(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_predecessor *pred = &replica->pred;

	lost_tick(replica, now_ns);
	if (pred->state != OL_PREDECESSOR_LIVE)
		missed_look(replica, now_ns);
	if (pred->state == OL_PREDECESSOR_NONE)
		return;
	if (pred->ack_due &&
	    ol_predecessor_ack(replica, replica->host->content(replica->arg).version) == 0)
		pred->ack_due = false;
	if (pred->state == OL_PREDECESSOR_JOINED) {
		hello_judge(replica, now_ns);
	} else if (pred->state == OL_PREDECESSOR_LIVE) {
		watch_look(replica, now_ns);
	}
}

int ol_predecessor_ack(struct ol_replica *replica, uint64_t version)
{
	struct ol_chain_ack ack = { .version = version, .epoch = replica->chain.view.epoch };
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&ack, .bytes = sizeof(ack) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_CHAIN_ACK, 0),
		.dst = replica->pred.acks,
		.dst_off = OL_CHAIN_ACK_OFF,
	};

	if (replica->pred.state != OL_PREDECESSOR_LIVE)
		return -EAGAIN;
	ol_record_seal(&ack);
	return replica->ops->post_write(replica->pred.conn, &write) == 0 ? 0 : -EAGAIN;
}
