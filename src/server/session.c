/* SPDX-License-Identifier: BSD-3-Clause */

/* session.c -- admits peers, gives them memory, ends their sessions */

#include "server/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "rdma/order.h"

static const char no_memory[] = "no memory for its landing slots";

static void conn_reject(struct ol_sessions *sessions, struct ol_xport_conn *conn,
			const struct ol_wire_reject *msg)
{
	uint8_t bytes[OL_WIRE_REJECT_BYTES];

	ol_wire_reject_encode(msg, bytes);
	ol_inbox_forget(sessions->inbox, conn);
	sessions->ops->reject(conn, bytes, sizeof(bytes));
}

/* Refused peers try again: log the first refusal, then at most one line a second for each code */
static void refusal_say(struct ol_sessions *sessions, enum ol_wire_reject_code code,
			const char *why, uint64_t now_ns)
{
	struct ol_refusals *refusals = &sessions->refusals[code];
	char more[64] = "";

	if (refusals->told_ns != 0 && now_ns - refusals->told_ns < OL_REFUSALS_MS * OL_NS_PER_MS) {
		refusals->untold++;
		return;
	}
	if (refusals->untold != 0)
		snprintf(more, sizeof(more), "; %llu more like it since the last line",
			 (unsigned long long)refusals->untold);
	ol_log(OL_LOG_WARN, "server %s: refused a connection: %s%s", sessions->addr, why, more);
	*refusals = (struct ol_refusals){ .told_ns = now_ns };
}

static void conn_refuse(struct ol_sessions *sessions, struct ol_xport_conn *conn,
			enum ol_wire_reject_code code, const char *why, uint64_t now_ns)
{
	struct ol_wire_reject msg = { .code = code };

	refusal_say(sessions, code, why, now_ns);
	ol_counter_add(&sessions->store->board->refused, 1);
	conn_reject(sessions, conn, &msg);
}

/* Tell a peer to come back. No warning: this is normal when many come at once. */
static void send_away(struct ol_sessions *sessions, struct ol_xport_conn *conn, uint32_t delay_ms)
{
	struct ol_wire_reject msg = { .code = OL_REJECT_LATER, .delay_ms = delay_ms };

	ol_log(OL_LOG_DEBUG, "server %s: a peer is told to come back in %u ms", sessions->addr,
	       delay_ms);
	ol_counter_add(&sessions->store->board->sent_away, 1);
	conn_reject(sessions, conn, &msg);
}

static uint64_t slot_of(uint64_t now_ns)
{
	return 1 + now_ns / (OL_CHALLENGE_SLOT_MS * OL_NS_PER_MS);
}

/* Answer a knock with a nonce that only this process can make. It makes the nonce again for the
 * proof, so a knock costs no memory. */
static void challenge_send(struct ol_sessions *sessions, struct ol_xport_conn *conn,
			   const struct ol_wire_connect *knock, uint64_t now_ns)
{
	struct ol_wire_reject msg = { .code = OL_REJECT_CHALLENGE };

	if (ol_auth_nonce(sessions->secret, knock->nonce, slot_of(now_ns), msg.nonce) != 0) {
		conn_refuse(sessions, conn, OL_REJECT_FULL, "the crypto library fails", now_ns);
		return;
	}
	ol_auth_challenge(sessions->job_key, knock->nonce, &msg);
	conn_reject(sessions, conn, &msg);
}

/* A challenge of this slot is good for the rest of it, and for the next. */
static bool slot_is_good(uint64_t slot, uint64_t now_ns)
{
	return slot + 1 >= slot_of(now_ns);
}

/* The slot of the challenge that this proof answers; 0: this process made no such challenge lately */
static uint64_t proof_slot(const struct ol_sessions *sessions, const struct ol_wire_connect *proof,
			   uint64_t now_ns, uint8_t ret_m[OL_NONCE_BYTES])
{
	uint64_t newest = slot_of(now_ns);

	for (uint64_t slot = newest; slot + OL_CHALLENGE_SLOTS > newest && slot > 0; slot--) {
		if (ol_auth_nonce(sessions->secret, proof->nonce, slot, ret_m) == 0 &&
		    ol_auth_proof_holds(sessions->job_key, ret_m, proof))
			return slot;
	}
	return 0;
}

static bool proof_was_used(const struct ol_sessions *sessions, const struct ol_wire_connect *proof)
{
	for (uint32_t i = 0; i < OL_PROOFS; i++) {
		if (sessions->proofs[i].slot != 0 &&
		    memcmp(sessions->proofs[i].n, proof->nonce, sizeof(proof->nonce)) == 0)
			return true;
	}
	return false;
}

/*
 * Judge a proof; m: the nonce that it answers. A proof is good once: good proofs are remembered
 * until their challenge expires. If a busy host delayed a proof for longer, its peer knocks again,
 * as it has the key.
 */
static bool proof_take(struct ol_sessions *sessions, struct ol_xport_conn *conn,
		       const struct ol_wire_connect *proof, uint64_t now_ns,
		       uint8_t ret_m[OL_NONCE_BYTES])
{
	uint64_t slot = proof_slot(sessions, proof, now_ns, ret_m);
	struct ol_proof *place = &sessions->proofs[sessions->proof_next];

	if (slot != 0 && !slot_is_good(slot, now_ns)) {
		send_away(sessions, conn, OL_HOLD_MS);
		return false;
	}
	if (slot == 0 || proof_was_used(sessions, proof)) {
		conn_refuse(
			sessions, conn, OL_REJECT_AUTH,
			"its proof answers no challenge of this server's last minute, or was used "
			"before, or was made with another job key",
			now_ns);
		return false;
	}
	if (place->slot != 0 && slot_is_good(place->slot, now_ns)) {
		send_away(sessions, conn, OL_CHALLENGE_SLOT_MS);
		return false;
	}
	memcpy(place->n, proof->nonce, sizeof(place->n));
	place->slot = slot;
	sessions->proof_next = (sessions->proof_next + 1) % OL_PROOFS;
	return true;
}

/* The session is free, or holds only memory reserved for a peer that was told to come back */
static bool is_open_to(const struct ol_session *session)
{
	return session->state == OL_SESSION_FREE ||
	       (session->state == OL_SESSION_MAKING && session->conn == NULL);
}

/* For peers without an id: memory that is promised to one of them serves any */
static struct ol_session *memory_first(struct ol_session *list, uint32_t count)
{
	struct ol_session *empty = NULL;

	for (uint32_t i = 0; i < count; i++) {
		if (is_open_to(&list[i]) && list[i].memory != NULL)
			return &list[i];
		if (empty == NULL && is_open_to(&list[i]))
			empty = &list[i];
	}
	return empty;
}

static struct ol_session *session_pick(struct ol_sessions *sessions,
				       const struct ol_wire_connect *proof,
				       enum ol_wire_reject_code *ret_code, const char **ret_why)
{
	uint32_t first = sessions->opts->workers_max, last = sessions->reader_first;
	struct ol_session *session;

	if (last == sessions->count &&
	    (proof->role == OL_ROLE_READER || proof->role == OL_ROLE_REPLICA)) {
		*ret_code = OL_REJECT_WIRE;
		*ret_why = "it asks for a chain, and this server is in none";
		return NULL;
	}
	if (proof->role == OL_ROLE_WORKER || proof->role == OL_ROLE_READER) {
		first = proof->role == OL_ROLE_READER ? sessions->reader_first : 0;
		if (proof->worker >= sessions->opts->workers_max) {
			*ret_code = OL_REJECT_WORKER_RANGE;
			*ret_why = "its worker id is not below workers_max";
			return NULL;
		}
		if (is_open_to(&sessions->all[first + proof->worker]))
			return &sessions->all[first + proof->worker];
		*ret_code = OL_REJECT_WORKER_BUSY;
		*ret_why = "its worker id is already connected";
		return NULL;
	}
	if (proof->role == OL_ROLE_REPLICA) {
		first = sessions->replica_first;
		last = sessions->count;
	}
	session = memory_first(&sessions->all[first], last - first);
	if (session != NULL)
		return session;
	*ret_code = OL_REJECT_FULL;
	*ret_why = proof->role == OL_ROLE_REPLICA ? "another predecessor is connected"
						  : "observers_max readers are connected";
	return NULL;
}

static void session_free(struct ol_sessions *sessions, struct ol_session *session)
{
	struct ol_memory_job *memory = session->memory;

	/*
	 * Destroy the queue pair, then the keys, then the memory, so that no late write can land.
	 * The fence holds once the queue pair is destroyed; another thread does the long rest.
	 */
	if (session->conn != NULL) {
		ol_inbox_forget(sessions->inbox, session->conn);
		if (session->landing_region != NULL)
			memory->later = sessions->ops->strip(session->conn, session->landing_region,
							     session->role == OL_ROLE_REPLICA);
		sessions->ops->conn_free(session->conn);
	}
	if (session->landing_region != NULL)
		sessions->ops->dereg(session->landing_region);
	if (session->role == OL_ROLE_REPLICA)
		ol_predecessor_on_end(sessions->replica);
	ol_memory_give_back(sessions->memory, memory);
	free(session->table);
	memset(session, 0, sizeof(*session));
}

static int session_accept(struct ol_sessions *sessions, struct ol_session *session)
{
	struct ol_wire_accept accept = {
		.geo = sessions->store->geo,
		.public_key = ol_dial_wire_rkey(
			sessions->ops->rkey(sessions->public_region, session->conn)),
		.landing_key = ol_dial_wire_rkey(
			sessions->ops->rkey(session->landing_region, session->conn)),
		.incarnation = sessions->incarnation,
		.nonfinite = sessions->opts->rule.allow_nonfinite != 0,
	};
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES];

	if (accept.public_key.bytes == 0) /* it cannot be registered in this peer's domain */
		return -ENOMEM;
	if (sessions->opts->rule.optimizer == OL_OPTIMIZER_SGD)
		accept.lr = sessions->opts->rule.lr;
	ol_auth_accept(sessions->job_key, session->n, session->m, &accept);
	ol_wire_accept_encode(&accept, bytes);
	return sessions->ops->accept(session->conn, bytes, sizeof(bytes));
}

/* A ring has no word that is polled; a landing slab has one, the pin (wire/wire.h). */
static unsigned session_access(const struct ol_session *session)
{
	return session->role == OL_ROLE_REPLICA
		       ? OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_RELAXED
		       : OL_XPORT_ACCESS_PEER_WRITE;
}

/* The memory is made: take its registration, or register now if that is quick */
static int session_register(struct ol_sessions *sessions, struct ol_session *session)
{
	struct ol_memory_job *memory = session->memory;
	int rc;

	session->landing = memory->slab;
	if (memory->later == NULL)
		return sessions->ops->reg(sessions->xport, session->conn, memory->slab, 0,
					  memory->bytes, session_access(session),
					  &session->landing_region);
	rc = sessions->ops->reg_end(memory->later, session->conn, &session->landing_region);
	if (rc == 0)
		memory->later = NULL;
	return rc;
}

/* Refuse a peer that waited for memory */
static void session_refuse(struct ol_sessions *sessions, struct ol_session *session,
			   const char *what, int rc, uint64_t now_ns)
{
	char limit[OL_STATUS_TEXT_MAX], text[sizeof(limit) + 40];
	struct ol_xport_conn *conn = session->conn;

	session->conn = NULL;
	snprintf(text, sizeof(text), "%s: %s", what, ol_status_text(rc, limit));
	if (conn != NULL)
		conn_refuse(sessions, conn, OL_REJECT_RESOURCES, text, now_ns);
	session_free(sessions, session);
}

/* Its memory is ready: admit it. Or cannot be made: refuse it */
static void session_enter(struct ol_sessions *sessions, struct ol_session *session, uint64_t now_ns)
{
	int rc = session->memory->rc != 0 ? session->memory->rc
					  : session_register(sessions, session);

	if (session->role == OL_ROLE_REPLICA)
		ol_predecessor_on_accept(sessions->replica, session->conn);
	if (rc != 0) {
		session_refuse(sessions, session, no_memory, rc, now_ns);
		return;
	}
	rc = session_accept(sessions, session);
	if (rc == -ECONNABORTED) { /* the peer has left */
		session_free(sessions, session);
		return;
	}
	if (rc != 0) {
		session_refuse(sessions, session, "its connection cannot be made", rc, now_ns);
		return;
	}
	session->state = OL_SESSION_ACCEPTED;
	session->since_ns = now_ns;
}

/* Ask for memory and its registration; admit the peer at once if both are quick */
static void session_make(struct ol_sessions *sessions, struct ol_session *session, uint64_t now_ns)
{
	struct ol_memory_job *memory = session->memory;
	int rc = sessions->ops->reg_begin(sessions->xport, session_access(session), &memory->later);

	if (rc == -EOPNOTSUPP && memory->slab != NULL)
		session_enter(sessions, session, now_ns);
	else if (rc == 0 || rc == -EOPNOTSUPP)
		ol_memory_ask(sessions->memory, memory, OL_MEMORY_MAKE);
	else
		session_refuse(sessions, session, no_memory, rc, now_ns);
}

void ol_session_on_memory(struct ol_sessions *sessions, struct ol_session *session, uint64_t now_ns)
{
	if (session->conn != NULL)
		session_enter(sessions, session, now_ns);
	else
		session->since_ns = now_ns; /* the memory waits for its peer from now on */
}

static uint64_t hold_ms(const struct ol_sessions *sessions)
{
	uint32_t lease_ms = sessions->opts->lease_ms;

	return lease_ms != 0 && lease_ms / 4 < OL_HOLD_MS ? lease_ms / 4 : OL_HOLD_MS;
}

/* A peer has waited too long: tell it to come back. Its memory is made meanwhile and kept, so the
 * next attempt succeeds. */
static void session_hold_over(struct ol_sessions *sessions, struct ol_session *session,
			      uint64_t now_ns)
{
	struct ol_xport_conn *conn = session->conn;

	session->conn = NULL;
	session->since_ns = now_ns;
	send_away(sessions, conn, ol_memory_wait_ms(sessions->memory, 0));
}

/* The memory that the peer will write to. A page alone, without slots, is made at once. */
static struct ol_memory_job *session_memory(struct ol_sessions *sessions,
					    struct ol_session *session)
{
	uint64_t bytes = ol_layout_landing_bytes(&sessions->store->geo, session->slot_count);
	int node = sessions->public_slab->node;
	struct ol_memory_job *job;

	if (session->role == OL_ROLE_REPLICA) { /* a predecessor writes to the ring */
		job = ol_memory_job_make(session, sessions->replica->ring.slab->bytes, node,
					 sessions->replica->ring.slab);
		sessions->replica->pred.memory = job;
		return job;
	}
	job = ol_memory_job_make(session, bytes, node, NULL);
	if (job != NULL)
		job->slab_flags = sessions->public_slab->flags;
	if (job == NULL || session->slot_count != 0)
		return job;
	if (ol_slab_create(bytes, node, job->slab_flags, &job->slab) == 0) {
		job->touched = job->slab->bytes;
		return job;
	}
	ol_memory_give_back(sessions->memory, job);
	return NULL;
}

static void session_begin(struct ol_sessions *sessions, struct ol_session *session, uint64_t now_ns)
{
	session->memory = session_memory(sessions, session);
	if (session->memory != NULL)
		session_make(sessions, session, now_ns);
	else
		session_refuse(sessions, session, no_memory, -ENOMEM, now_ns);
}

static void peer_admit(struct ol_sessions *sessions, struct ol_xport_conn *conn,
		       const struct ol_wire_connect *proof, uint64_t now_ns)
{
	enum ol_wire_reject_code code = OL_REJECT_FULL;
	const char *why = "";
	struct ol_session *session;
	uint8_t m[OL_NONCE_BYTES];
	uint32_t slot_count;

	if (!proof_take(sessions, conn, proof, now_ns, m))
		return;
	session = session_pick(sessions, proof, &code, &why);
	if (session == NULL) {
		conn_refuse(sessions, conn, code, why, now_ns);
		return;
	}
	slot_count = proof->role == OL_ROLE_WORKER ? sessions->opts->window + proof->queues : 0;
	if (session->memory != NULL && session->slot_count != slot_count)
		session_free(sessions, session); /* reserved for a worker with another slot count */
	if (session->memory == NULL && sessions->memory->making >= OL_ADMISSIONS_MAX) {
		send_away(sessions, conn, ol_memory_wait_ms(sessions->memory, 0));
		return;
	}
	session->role = proof->role;
	session->worker = proof->worker;
	session->slot_count = slot_count;
	session->since_ns = now_ns;
	memcpy(session->n, proof->nonce, sizeof(session->n));
	memcpy(session->m, m, sizeof(session->m));
	session->state = OL_SESSION_MAKING;
	session->conn = conn;
	conn->user = session;
	if (session->memory == NULL)
		session_begin(sessions, session, now_ns);
	else if (!session->memory->busy)
		session_enter(sessions, session, now_ns);
}

void ol_session_on_request(struct ol_sessions *sessions, const struct ol_xport_event *event,
			   uint64_t now_ns)
{
	struct ol_wire_connect msg;

	if (ol_wire_connect_decode(event->priv, event->priv_len, &msg) != 0) {
		conn_refuse(sessions, event->conn, OL_REJECT_WIRE, "it does not speak our protocol",
			    now_ns);
		return;
	}
	switch (msg.kind) {
	case OL_CONNECT_KNOCK:
		challenge_send(sessions, event->conn, &msg, now_ns);
		break;
	case OL_CONNECT_PROOF:
		peer_admit(sessions, event->conn, &msg, now_ns);
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

bool ol_session_welcome(struct ol_sessions *sessions, struct ol_session *session)
{
	struct ol_welcome welcome = {
		.version = sessions->store->version,
		.snapshot = sessions->store->snapshot,
		.epoch = sessions->opts->epoch,
	};
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&welcome, .bytes = sizeof(welcome) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_WELCOME, 0),
		.dst = session->acks,
		.dst_off = OL_WELCOME_OFF,
	};

	if (!ol_replica_serves(sessions->replica, session->role))
		return false;
	if (session->role == OL_ROLE_WORKER || session->role == OL_ROLE_READER)
		welcome.resolved = ol_store_applied(sessions->store, session->worker);
	ol_record_seal(&welcome);
	if (sessions->ops->post_write(session->conn, &write) != 0)
		return false; /* a full queue: the next tick tries again; or the connection is
				 about to go down */
	session->last_seq = welcome.resolved.seq;
	session->numbered = false;
	session->epoch = welcome.epoch;
	session->state = OL_SESSION_LIVE;
	sessions->joined_count--;
	if (session->role == OL_ROLE_WORKER)
		sessions->live_workers++;
	ol_word_store(&sessions->store->board->workers, sessions->live_workers);
	ol_log(OL_LOG_DEBUG, "server %s: %s %u is connected", sessions->addr,
	       role_str(session->role), session->worker);
	return true;
}

const char *ol_session_on_hello(struct ol_sessions *sessions, struct ol_session *session)
{
	struct ol_hello hello;
	const uint8_t *page = session->landing->addr;

	/* a copy, as the peer may change the record after the check */
	memcpy(&hello, page + OL_HELLO_OFF, sizeof(hello));
	if (session->state != OL_SESSION_ACCEPTED || hello.magic != OL_WIRE_MAGIC ||
	    !ol_record_whole(&hello))
		return "malformed hello";
	if (hello.acks.bytes < OL_ACKS_BYTES)
		return "hello without memory for acks";
	if (hello.epoch >= OL_EPOCH_MAX)
		return "hello with an impossible epoch";
	if (hello.mirror.bytes != 0 &&
	    (session->role == OL_ROLE_OBSERVER || hello.mirror_version > OL_VERSION_MAX ||
	     hello.mirror_epoch >= OL_EPOCH_MAX))
		return "hello with an impossible mirror";
	session->acks = ol_dial_xport_rkey(hello.acks);
	session->hello = hello;
	session->state = OL_SESSION_JOINED;
	sessions->joined_count++;
	return NULL;
}

void ol_session_on_predecessor(struct ol_sessions *sessions, struct ol_session *session)
{
	if (session->state != OL_SESSION_ACCEPTED ||
	    sessions->replica->pred.state == OL_PREDECESSOR_ACCEPTED)
		return;
	session->state = OL_SESSION_JOINED;
	session->acks = sessions->replica->pred.acks;
}

void ol_session_log(const struct ol_sessions *sessions, const struct ol_session *session,
		    const char *why)
{
	if (why != NULL)
		ol_log(OL_LOG_WARN, "server %s: %s %u: %s: connection ended", sessions->addr,
		       role_str(session->role), session->worker, why);
}

void ol_session_end(struct ol_sessions *sessions, struct ol_session *session)
{
	if (session->state == OL_SESSION_MAKING) { /* no other part knows of it */
		session_free(sessions, session);
		return;
	}
	sessions->owed_total -= session->owed_count;
	if (session->state == OL_SESSION_JOINED && session->role != OL_ROLE_REPLICA)
		sessions->joined_count--;
	if (session->role == OL_ROLE_WORKER) {
		if (session->state == OL_SESSION_LIVE)
			sessions->live_workers--;
		ol_word_store(&sessions->store->board->workers, sessions->live_workers);
	}
	session_free(sessions, session);
}

void ol_session_on_probe(struct ol_session *session)
{
	session->probing = false;
	session->silent_ms = 0;
}

/*
 * Write to a peer to notice that it is gone (its host lost power, its link is cut): a reliable
 * connection without traffic would never report it. An adapter may also lose the write, so a probe
 * that does not complete counts as silence.
 */
static const char *session_probe(struct ol_sessions *sessions, struct ol_session *session,
				 uint64_t now_ns)
{
	uint64_t word = 0;
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&word, .bytes = sizeof(word) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_SIGNALED,
		.dst = session->acks,
		.dst_off = OL_PROBE_OFF,
		.cookie = OL_SESSION_COOKIE_PROBE,
	};

	uint64_t limit_ms = (uint64_t)OL_SILENCES_MAX * sessions->opts->retry_timeout_ms +
			    sessions->opts->heartbeat_ms;

	session->silent_ms += sessions->opts->heartbeat_ms;
	if (sessions->opts->retry_timeout_ms != 0 && session->silent_ms > limit_ms)
		return "the adapter never completed a write";
	if (session->probing ||
	    now_ns - session->probe_ns < sessions->opts->retry_timeout_ms * OL_NS_PER_MS)
		return NULL;
	session->probe_ns = now_ns;
	session->probing = sessions->ops->post_write(session->conn, &write) == 0;
	return NULL;
}

static void making_tick(struct ol_sessions *sessions, struct ol_session *session, uint64_t now_ns)
{
	uint64_t waits_ns = now_ns - session->since_ns;

	if (session->conn != NULL && waits_ns > hold_ms(sessions) * OL_NS_PER_MS)
		session_hold_over(sessions, session, now_ns);
	else if (session->conn == NULL && waits_ns > OL_RESERVED_MS * OL_NS_PER_MS &&
		 !session->memory->busy)
		session_free(sessions, session);
}

const char *ol_session_tick(struct ol_sessions *sessions, struct ol_session *session,
			    uint64_t now_ns, bool *ret_lies)
{
	const char *why = NULL;

	*ret_lies = false;
	if (session->state == OL_SESSION_MAKING)
		making_tick(sessions, session, now_ns);
	if (session->state == OL_SESSION_LIVE || session->state == OL_SESSION_JOINED)
		why = session_probe(sessions, session, now_ns);
	if (why != NULL)
		return why;
	if (session->state == OL_SESSION_ACCEPTED &&
	    now_ns - session->since_ns > OL_HELLO_TIMEOUT_MS * OL_NS_PER_MS)
		return "said nothing after it was accepted";
	*ret_lies = session->owed_count > 0 &&
		    now_ns - session->owed_since_ns > OL_OWED_TIMEOUT_MS * OL_NS_PER_MS;
	return *ret_lies ? "does not take its acknowledgements" : NULL;
}
