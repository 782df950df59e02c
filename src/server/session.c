/* SPDX-License-Identifier: BSD-3-Clause */

/* session.c -- who may come in, what memory they get, and how they leave */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "rdma/order.h"
#include "server/server_internal.h"
#include "wire/auth.h"

static void reject(struct ol_server *server, struct ol_xport_conn *conn,
		   const struct ol_wire_reject *msg)
{
	uint8_t bytes[OL_WIRE_REJECT_BYTES];

	ol_wire_reject_encode(msg, bytes);
	ol_xport_forget(server->events, server->events_left, conn);
	server->ops->reject(conn, bytes, sizeof(bytes));
}

static void refuse(struct ol_server *server, struct ol_xport_conn *conn,
		   enum ol_wire_reject_code code, const char *why)
{
	struct ol_wire_reject msg = { .code = code };

	ol_log(OL_LOG_WARN, "server %s: refused a connection: %s", server->addr, why);
	ol_counter_add(&server->store.board->refused, 1);
	reject(server, conn, &msg);
}

/* A knock is answered with a nonce that serves one proof; the oldest open one makes room. */
static void challenge(struct ol_server *server, struct ol_xport_conn *conn,
		      const struct ol_wire_connect *knock)
{
	struct ol_challenge *ch = &server->challenges[server->challenge_next];
	struct ol_wire_reject msg = { .code = OL_REJECT_CHALLENGE };

	if (ol_auth_random(ch->m, sizeof(ch->m)) != 0) {
		refuse(server, conn, OL_REJECT_FULL, "the system gave no random bytes");
		return;
	}
	server->challenge_next = (server->challenge_next + 1) % OL_CHALLENGES;
	memcpy(ch->n, knock->nonce, sizeof(ch->n));
	ch->open = true;
	memcpy(msg.nonce, ch->m, sizeof(msg.nonce));
	ol_auth_challenge(server->job_key, ch->n, &msg);
	reject(server, conn, &msg);
}

/* The challenge that this proof answers, used up; NULL if there is none */
static const struct ol_challenge *challenge_take(struct ol_server *server,
						 const struct ol_wire_connect *proof)
{
	for (uint32_t i = 0; i < OL_CHALLENGES; i++) {
		struct ol_challenge *ch = &server->challenges[i];

		if (!ch->open || memcmp(ch->n, proof->nonce, sizeof(ch->n)) != 0)
			continue;
		ch->open = false;
		return ol_auth_proof_holds(server->job_key, ch->m, proof) ? ch : NULL;
	}
	return NULL;
}

static struct ol_session *session_pick(struct ol_server *server,
				       const struct ol_wire_connect *proof,
				       enum ol_wire_reject_code *ret_code, const char **ret_why)
{
	uint32_t first = server->opts.workers_max, last = server->reader_first;

	if (!server->replica.on &&
	    (proof->role == OL_ROLE_READER || proof->role == OL_ROLE_REPLICA)) {
		*ret_code = OL_REJECT_WIRE;
		*ret_why = "it looks for a chain, and this server is in none";
		return NULL;
	}
	if (proof->role == OL_ROLE_WORKER || proof->role == OL_ROLE_READER) {
		first = proof->role == OL_ROLE_READER ? server->reader_first : 0;
		if (proof->worker >= server->opts.workers_max) {
			*ret_code = OL_REJECT_WORKER_RANGE;
			*ret_why = "its worker id is not below workers_max";
			return NULL;
		}
		if (server->sessions[first + proof->worker].state == OL_SESSION_FREE)
			return &server->sessions[first + proof->worker];
		*ret_code = OL_REJECT_WORKER_BUSY;
		*ret_why = "its worker id is already connected";
		return NULL;
	}
	if (proof->role == OL_ROLE_REPLICA) {
		first = server->replica_first;
		last = server->session_count;
	}
	for (uint32_t i = first; i < last; i++) {
		if (server->sessions[i].state == OL_SESSION_FREE)
			return &server->sessions[i];
	}
	*ret_code = OL_REJECT_FULL;
	*ret_why = proof->role == OL_ROLE_REPLICA ? "another predecessor is connected"
						  : "observers_max readers are connected";
	return NULL;
}

/* The ring of a replica is its predecessor's landing place. */
static int ring_lend(struct ol_server *server, struct ol_session *session)
{
	session->landing = server->replica.ring.slab;
	server->replica.pred.session = session;
	return server->ops->reg(server->xport, session->conn, session->landing, 0,
				session->landing->bytes, OL_XPORT_ACCESS_PEER_WRITE,
				&session->landing_region);
}

static int session_memory(struct ol_server *server, struct ol_session *session)
{
	uint64_t bytes = ol_layout_landing_bytes(&server->store.geo, session->slot_count);
	int rc;

	if (session->role == OL_ROLE_REPLICA)
		return ring_lend(server, session);
	/* base pages: on shm a worker maps slots page by page */
	rc = ol_slab_create(bytes, server->public_slab->node, false, &session->landing);
	if (rc != 0)
		return rc;
	return server->ops->reg(server->xport, session->conn, session->landing, 0, bytes,
				OL_XPORT_ACCESS_PEER_WRITE, &session->landing_region);
}

static void session_free(struct ol_server *server, struct ol_session *session)
{
	/* destroying the queue pair, then the keys, then the memory: nothing late can land */
	if (session->conn != NULL) {
		ol_xport_forget(server->events, server->events_left, session->conn);
		server->ops->conn_free(session->conn);
	}
	if (session->landing_region != NULL)
		server->ops->dereg(session->landing_region);
	if (session->role == OL_ROLE_REPLICA)
		ol_predecessor_on_end(server, session);
	else
		ol_slab_destroy(session->landing);
	memset(session, 0, sizeof(*session));
}

struct ol_wire_rkey ol_server_wire_rkey(struct ol_xport_rkey key)
{
	return (struct ol_wire_rkey){ .addr = key.addr, .bytes = key.bytes, .rkey = key.rkey };
}

struct ol_xport_rkey ol_server_xport_rkey(struct ol_wire_rkey key)
{
	return (struct ol_xport_rkey){ .addr = key.addr, .bytes = key.bytes, .rkey = key.rkey };
}

static int session_accept(struct ol_server *server, struct ol_session *session,
			  const struct ol_challenge *ch)
{
	struct ol_wire_accept accept = {
		.geo = server->store.geo,
		.public_key = ol_server_wire_rkey(
			server->ops->rkey(server->public_region, session->conn)),
		.landing_key = ol_server_wire_rkey(
			server->ops->rkey(session->landing_region, session->conn)),
		.incarnation = server->incarnation,
		.nonfinite = server->opts.rule.allow_nonfinite != 0,
	};
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES];

	if (accept.public_key.bytes == 0) /* could not be registered in this peer's domain */
		return -ENOMEM;
	if (server->opts.rule.optimizer == OL_OPTIMIZER_SGD)
		accept.lr = server->opts.rule.lr;
	ol_auth_accept(server->job_key, ch->n, ch->m, &accept);
	ol_wire_accept_encode(&accept, bytes);
	return server->ops->accept(session->conn, bytes, sizeof(bytes));
}

static void admit(struct ol_server *server, struct ol_xport_conn *conn,
		  const struct ol_wire_connect *proof, uint64_t now_ns)
{
	const struct ol_challenge *ch = challenge_take(server, proof);
	enum ol_wire_reject_code code = OL_REJECT_FULL;
	const char *why = "";
	char limit[OL_STATUS_TEXT_MAX], text[sizeof(limit) + 40];
	struct ol_session *session;
	int rc;

	if (ch == NULL) {
		refuse(server, conn, OL_REJECT_AUTH, "its job key is not ours");
		return;
	}
	session = session_pick(server, proof, &code, &why);
	if (session == NULL) {
		refuse(server, conn, code, why);
		return;
	}
	session->role = proof->role;
	session->worker = proof->worker;
	session->slot_count = proof->role == OL_ROLE_WORKER ? server->opts.window : 0;
	session->since_ns = now_ns;
	session->conn = conn;
	rc = session_memory(server, session);
	if (rc == 0)
		rc = session_accept(server, session, ch);
	if (rc == 0) {
		session->state = OL_SESSION_ACCEPTED;
		conn->user = session;
		return;
	}
	session->conn = NULL;
	snprintf(text, sizeof(text), "no memory for its landing slots: %s",
		 ol_status_text(rc, limit));
	refuse(server, conn, OL_REJECT_RESOURCES, text);
	session_free(server, session);
}

void ol_server_on_request(struct ol_server *server, const struct ol_xport_event *event,
			  uint64_t now_ns)
{
	struct ol_wire_connect msg;

	if (ol_wire_connect_decode(event->priv, event->priv_len, &msg) != 0) {
		refuse(server, event->conn, OL_REJECT_WIRE, "it does not speak our protocol");
		return;
	}
	switch (msg.kind) {
	case OL_CONNECT_KNOCK:
		challenge(server, event->conn, &msg);
		break;
	case OL_CONNECT_PROOF:
		admit(server, event->conn, &msg, now_ns);
		break;
	}
}

static const char *role_str(enum ol_wire_role role)
{
	switch (role) {
	case OL_ROLE_WORKER:
		break;
	case OL_ROLE_OBSERVER:
		return "observer";
	case OL_ROLE_READER:
		return "reader";
	case OL_ROLE_REPLICA:
		return "predecessor";
	}
	return "worker";
}

void ol_session_welcome(struct ol_server *server, struct ol_session *session)
{
	struct ol_welcome welcome = {
		.version = server->store.version,
		.snapshot = server->store.snapshot,
		.epoch = server->opts.epoch,
	};
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&welcome, .bytes = sizeof(welcome) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_WELCOME, 0),
		.dst = session->acks,
		.dst_off = OL_WELCOME_OFF,
	};

	if (server->restoring.active ||
	    (server->replica.on && !ol_replica_serves(server, session->role)))
		return;
	if (session->role == OL_ROLE_WORKER || session->role == OL_ROLE_READER)
		welcome.resolved = ol_store_applied(&server->store, session->worker);
	ol_record_seal(&welcome);
	if (server->ops->post_write(session->conn, &write) != 0)
		return; /* the queue is full: the next tick tries again; or it is about to go down
			 */
	session->last_seq = welcome.resolved.seq;
	session->numbered = false;
	session->epoch = welcome.epoch;
	session->state = OL_SESSION_LIVE;
	server->joined_count--;
	if (session->role == OL_ROLE_WORKER) {
		server->live_workers++;
		ol_ingest_on_join(server, session);
	}
	ol_word_store(&server->store.board->workers, server->live_workers);
	ol_log(OL_LOG_DEBUG, "server %s: %s %u is in", server->addr, role_str(session->role),
	       session->worker);
}

void ol_session_on_hello(struct ol_server *server, struct ol_session *session, uint64_t now_ns)
{
	struct ol_hello hello;
	const uint8_t *page = session->landing->addr;

	if (session->role == OL_ROLE_REPLICA) {
		ol_predecessor_on_hello(server, session, now_ns);
		return;
	}
	/* a copy: what is checked is what is used, whatever the peer writes meanwhile */
	memcpy(&hello, page + OL_HELLO_OFF, sizeof(hello));
	if (session->state != OL_SESSION_ACCEPTED || hello.magic != OL_WIRE_MAGIC ||
	    !ol_record_whole(&hello)) {
		ol_session_violation(server, session, "malformed hello");
		return;
	}
	if (hello.acks.bytes < OL_ACKS_BYTES) {
		ol_session_violation(server, session, "hello without memory for acks");
		return;
	}
	if (hello.mirror.bytes != 0 &&
	    (session->role == OL_ROLE_OBSERVER || hello.mirror_version > OL_VERSION_MAX ||
	     hello.mirror_epoch >= OL_EPOCH_MAX)) {
		ol_session_violation(server, session, "hello with a mirror that cannot be");
		return;
	}
	session->acks = ol_server_xport_rkey(hello.acks);
	session->hello = hello;
	session->state = OL_SESSION_JOINED;
	server->joined_count++;
	if (server->restoring.active)
		ol_restore_progress(server, now_ns);
	else
		ol_session_welcome(server, session);
}

void ol_session_end(struct ol_server *server, struct ol_session *session, const char *why)
{
	if (why != NULL)
		ol_log(OL_LOG_WARN, "server %s: %s %u: %s: connection ended", server->addr,
		       role_str(session->role), session->worker, why);
	ol_restore_on_leave(server, session);
	server->owed_total -= session->owed_count;
	if (session->state == OL_SESSION_JOINED && session->role != OL_ROLE_REPLICA)
		server->joined_count--;
	if (session->role == OL_ROLE_WORKER) {
		ol_ingest_forget(server, session);
		if (session->state == OL_SESSION_LIVE)
			server->live_workers--;
		ol_word_store(&server->store.board->workers, server->live_workers);
	}
	session_free(server, session);
}

void ol_session_violation(struct ol_server *server, struct ol_session *session, const char *what)
{
	ol_counter_add(&server->store.board->violations, 1);
	ol_session_end(server, session, what);
}

void ol_session_on_probe(struct ol_session *session)
{
	session->probing = false;
	session->silent_ms = 0;
}

/*
 * A peer that is gone without a word (its host lost power, its link is cut) is noticed by writing
 * to it: a reliable connection without traffic would never tell. Nor does an adapter that has
 * forgotten the write.
 */
static void probe(struct ol_server *server, struct ol_session *session, uint64_t now_ns)
{
	uint64_t word = 0;
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&word, .bytes = sizeof(word) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_SIGNALED,
		.dst = session->acks,
		.dst_off = OL_PROBE_OFF,
		.cookie = OL_SERVER_COOKIE_PROBE,
	};

	uint64_t limit_ms = (uint64_t)OL_SILENCES_MAX * server->opts.retry_timeout_ms +
			    server->opts.heartbeat_ms;

	session->silent_ms += server->opts.heartbeat_ms;
	if (server->opts.retry_timeout_ms != 0 && session->silent_ms > limit_ms) {
		ol_session_end(server, session, "the adapter never told what became of a write");
		return;
	}
	if (session->probing ||
	    now_ns - session->probe_ns < server->opts.retry_timeout_ms * OL_NS_PER_MS)
		return;
	session->probe_ns = now_ns;
	session->probing = server->ops->post_write(session->conn, &write) == 0;
}

void ol_session_tick(struct ol_server *server, uint64_t now_ns)
{
	for (uint32_t i = 0; i < server->session_count; i++) {
		struct ol_session *session = &server->sessions[i];

		if (session->state == OL_SESSION_JOINED && session->role != OL_ROLE_REPLICA)
			ol_session_welcome(server, session);
		if (session->state == OL_SESSION_LIVE || session->state == OL_SESSION_JOINED)
			probe(server, session, now_ns);
		if (session->state == OL_SESSION_ACCEPTED &&
		    now_ns - session->since_ns > OL_HELLO_TIMEOUT_MS * OL_NS_PER_MS)
			ol_session_end(server, session, "said nothing after it was accepted");
		else if (session->owed_count > 0 &&
			 now_ns - session->owed_since_ns > OL_OWED_TIMEOUT_MS * OL_NS_PER_MS)
			ol_session_violation(server, session, "does not take its acknowledgements");
	}
}
