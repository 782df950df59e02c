/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * predecessor.c -- the session of a replica's predecessor, which writes entries into the ring
 *
 * One at a time: a second one is turned away until the first is gone. Its hello is answered when
 * this replica has adopted a view in which it is the predecessor: until then it waits, and if a
 * newer view says otherwise it is sent away.
 */

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"
#include "server/server_internal.h"

enum {
	MISSED_LEASES = 2 /* without a connection until a predecessor is suspected */
};

void ol_predecessor_drop(struct ol_server *server)
{
	struct ol_session *session = server->replica.pred.session;

	/* one that has not been welcomed may be the next already: its hello will say */
	if (session != NULL && session->state == OL_SESSION_LIVE)
		ol_session_end(server, session, NULL);
}

void ol_predecessor_on_end(struct ol_server *server, struct ol_session *session)
{
	struct ol_replica *replica = &server->replica;
	int rc;

	if (session != replica->pred.session)
		return;
	replica->pred = (struct ol_predecessor){ .missed_ns = replica->now_ns };
	rc = ol_ring_renew(&replica->ring, ol_chain_kept(&replica->chain) + 1,
			   replica->chain.received);
	if (rc != 0) {
		ol_log(OL_LOG_ERROR, "server %s: no memory for a new ring: %s", server->addr,
		       ol_strerror(rc));
		ol_server_end(server, rc);
	}
	ol_chain_on_predecessor(&replica->chain, false);
}

/* What may be wrong with a hello; NULL: nothing */
static const char *hello_fault(const struct ol_server *server, const struct ol_session *session,
			       const struct ol_chain_hello *hello)
{
	bool again = server->replica.periodic && session->state == OL_SESSION_LIVE;

	if ((session->state != OL_SESSION_ACCEPTED && !again) || hello->magic != OL_WIRE_MAGIC ||
	    !ol_record_whole(hello))
		return "malformed hello of a replica";
	if (hello->acks.bytes < OL_ACKS_BYTES)
		return "hello of a replica without memory for acks";
	if (hello->slots != server->replica.ring.slots)
		return "hello of a replica with another ring";
	if (hello->successor != server->replica.self.id)
		return "hello of a replica that is meant for another";
	return NULL;
}

/* Read the predecessor's snapshot: it is a mirror like a worker's */
static void load(struct ol_server *server, struct ol_session *session, uint64_t now_ns)
{
	const struct ol_chain_hello *hello = &session->chain_hello;
	uint64_t table = ol_layout_table_bytes(&server->store.geo);
	uint64_t vector = ol_layout_vector_bytes(&server->store.geo);

	session->hello = (struct ol_hello){
		.mirror = hello->board,
		.mirror_epoch = hello->content_epoch,
		.mirror_version = hello->content_version,
		.table_off = hello->content_off,
		.weights_off = hello->content_off + table,
		.state_off = hello->content_off + table + vector,
	};
	server->replica.load_ns = now_ns;
	ol_restore_from(server, session, now_ns);
}

static void welcome(struct ol_server *server, struct ol_session *session, uint64_t now_ns)
{
	struct ol_replica *replica = &server->replica;
	struct ol_chain_welcome msg = { .have = session->chain_hello.content_version,
					.epoch = replica->chain.view.epoch };
	int loading = OL_CHAIN_LOAD;
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&msg, .bytes = sizeof(msg) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_WELCOME, 0),
		.dst = session->acks,
		.dst_off = OL_WELCOME_OFF,
	};

	if (!replica->periodic)
		loading = ol_chain_on_hello(&replica->chain, msg.have, &msg.have);
	if (loading < 0) {
		ol_session_end(server, session, "is not expected");
		return;
	}
	msg.loading = loading == OL_CHAIN_LOAD;
	ol_record_seal(&msg);
	if (server->ops->post_write(session->conn, &write) != 0)
		return; /* the next tick tries again; or it is about to go down */
	session->state = OL_SESSION_LIVE;
	replica->suspects[OL_NEIGHBOUR_PREDECESSOR] = 0;
	replica->pred.board_key = ol_dial_xport_rkey(session->chain_hello.board);
	ol_chain_on_predecessor(&replica->chain, true);
	if (loading == OL_CHAIN_LOAD)
		load(server, session, now_ns);
	ol_replica_progress(server, now_ns);
}

/* A hello that waits: is it the predecessor's? */
static void judge(struct ol_server *server, struct ol_session *session, uint64_t now_ns)
{
	const struct ol_chain *chain = &server->replica.chain;
	const struct ol_member *pred = ol_view_predecessor(&chain->view, server->replica.self.id);

	if (session->chain_hello.epoch > chain->view.epoch)
		return;
	if (pred != NULL && pred->id == session->chain_hello.id)
		welcome(server, session, now_ns);
	else
		ol_session_end(server, session, "is not the predecessor in this epoch");
}

void ol_predecessor_on_hello(struct ol_server *server, struct ol_session *session, uint64_t now_ns)
{
	const uint8_t *page = session->landing->addr;
	const char *fault;

	/* a copy: what is checked is what is used */
	memcpy(&session->chain_hello, page + OL_HELLO_OFF, sizeof(session->chain_hello));
	fault = hello_fault(server, session, &session->chain_hello);
	if (fault != NULL) {
		ol_session_violation(server, session, fault);
		return;
	}
	if (session->state == OL_SESSION_LIVE) { /* periodic: newer weights */
		load(server, session, now_ns);
		return;
	}
	session->acks = ol_dial_xport_rkey(session->chain_hello.acks);
	session->state = OL_SESSION_JOINED;
	if (ol_replica_news(server))
		ol_replica_look(server, now_ns); /* judges it, by the newest view */
	else
		judge(server, session, now_ns);
}

void ol_predecessor_on_entry(struct ol_server *server, struct ol_session *session, uint32_t slot,
			     uint64_t now_ns)
{
	struct ol_replica *replica = &server->replica;
	uint64_t version = replica->chain.received + 1;

	if (replica->periodic || slot != version % replica->ring.slots ||
	    !ol_ring_take(&replica->ring, version) ||
	    ol_chain_on_entry(&replica->chain, version) != 0) {
		ol_session_violation(server, session, "entry that is not the next one");
		return;
	}
	ol_counter_add(&server->store.board->bytes_in,
		       ol_ring_bytes(&replica->ring, ol_ring_head(&replica->ring, version)->parts));
	ol_replica_progress(server, now_ns);
}

/* A predecessor has come, and this server still makes its memory */
static bool makes_memory(const struct ol_server *server)
{
	for (uint32_t i = server->replica_first; i < server->session_count; i++) {
		const struct ol_session *session = &server->sessions[i];

		if (session->state == OL_SESSION_MAKING && session->memory->busy)
			return true;
	}
	return false;
}

/* One that never connects: its loop hangs, though its session at the coordinator lives. The time
 * that this server takes to let it in is not held against it. */
static void missed_look(struct ol_server *server, uint64_t now_ns)
{
	struct ol_replica *replica = &server->replica;
	uint64_t since_ns;

	if (makes_memory(server))
		replica->pred.missed_ns = now_ns;
	since_ns = replica->adopted_ns > replica->pred.missed_ns ? replica->adopted_ns
								 : replica->pred.missed_ns;

	if (replica->chain.loaded && ol_view_predecessor(&replica->chain.view, replica->self.id) &&
	    now_ns > since_ns + MISSED_LEASES * server->opts.lease_ms * OL_NS_PER_MS)
		ol_membership_suspect(server, OL_NEIGHBOUR_PREDECESSOR, "it does not connect",
				      now_ns);
}

void ol_predecessor_tick(struct ol_server *server, uint64_t now_ns)
{
	struct ol_predecessor *pred = &server->replica.pred;
	struct ol_session *session = pred->session;

	if (session == NULL || session->state != OL_SESSION_LIVE)
		missed_look(server, now_ns);
	if (session == NULL)
		return;
	if (pred->ack_due && ol_predecessor_ack(server, server->store.version) == 0)
		pred->ack_due = false;
	if (session->state == OL_SESSION_JOINED) {
		judge(server, session, now_ns);
	} else if (session->state == OL_SESSION_LIVE &&
		   ol_replica_watch(server, OL_NEIGHBOUR_PREDECESSOR, session->conn,
				    pred->board_key, now_ns)) {
		ol_membership_suspect(server, OL_NEIGHBOUR_PREDECESSOR,
				      "its heartbeat stands still", now_ns);
		ol_session_end(server, session, NULL);
	}
}

int ol_predecessor_ack(struct ol_server *server, uint64_t version)
{
	struct ol_session *session = server->replica.pred.session;
	struct ol_chain_ack ack = { .version = version, .epoch = server->opts.epoch };
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&ack, .bytes = sizeof(ack) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_CHAIN_ACK, 0),
		.dst_off = OL_CHAIN_ACK_OFF,
	};

	if (session == NULL || session->state != OL_SESSION_LIVE)
		return -EAGAIN;
	ol_record_seal(&ack);
	write.dst = session->acks;
	return server->ops->post_write(session->conn, &write) == 0 ? 0 : -EAGAIN;
}
