/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * predecessor.c -- a replica's predecessor: its messages, and the entries that it writes into the
 * ring
 *
 * One at a time: a second predecessor is refused until the first is gone. Its hello is answered
 * when this replica has adopted a view in which the sender is the predecessor. Until then the hello
 * waits; if a newer view names another predecessor, the connection is ended.
 */

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"
#include "replica/replica.h"

enum {
	MISSED_LEASES = 2 /* without a connection until a predecessor is suspected */
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

void ol_predecessor_on_end(struct ol_replica *replica)
{
	bool wrote = replica->pred.state != OL_PREDECESSOR_NONE;
	int rc;

	replica->pred.memory = NULL;
	if (!wrote)
		return;
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
	ol_counter_add(&replica->board->bytes_in,
		       ol_ring_bytes(&replica->ring, ol_ring_head(&replica->ring, version)->parts));
	ol_replica_progress(replica, now_ns);
}

void ol_predecessor_on_bell(struct ol_replica *replica, uint32_t imm, uint64_t now_ns)
{
	uint32_t kind = ol_bell_kind(imm);

	if (kind == OL_BELL_HELLO)
		hello_take(replica, now_ns);
	else if (kind == OL_BELL_ENTRY && replica->pred.state == OL_PREDECESSOR_LIVE)
		entry_take(replica, ol_bell_arg(imm), now_ns);
	else
		replica->host->drop(replica->arg, "doorbell before hello", true);
}

void ol_predecessor_on_down(struct ol_replica *replica, int status, uint64_t now_ns)
{
	if (replica->pred.state == OL_PREDECESSOR_LIVE)
		ol_membership_suspect(replica, OL_NEIGHBOUR_PREDECESSOR,
				      status == 0 ? NULL : ol_strerror(status), now_ns);
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

void ol_predecessor_tick(struct ol_replica *replica, uint64_t now_ns)
{
	struct ol_predecessor *pred = &replica->pred;

	if (pred->state != OL_PREDECESSOR_LIVE)
		missed_look(replica, now_ns);
	if (pred->state == OL_PREDECESSOR_NONE)
		return;
	if (pred->ack_due &&
	    ol_predecessor_ack(replica, replica->host->content(replica->arg).version) == 0)
		pred->ack_due = false;
	if (pred->state == OL_PREDECESSOR_JOINED) {
		hello_judge(replica, now_ns);
	} else if (pred->state == OL_PREDECESSOR_LIVE &&
		   ol_replica_watch(replica, OL_NEIGHBOUR_PREDECESSOR, pred->conn, pred->board_key,
				    now_ns)) {
		ol_membership_suspect(replica, OL_NEIGHBOUR_PREDECESSOR,
				      "its heartbeat stands still", now_ns);
		replica->host->drop(replica->arg, NULL, false);
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
