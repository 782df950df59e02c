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
#include "server/knock.h"

enum {
	MIB = 1 << 20,
	WHO_MAX = 24
};

static const char no_memory[] = "no memory for its landing slots";

static uint32_t index_of(const struct ol_sessions *sessions, const struct ol_session *session)
{
	return (uint32_t)(session - sessions->all);
}

static int places_open(struct ol_places *places, uint32_t size)
{
	places->size = size;
	places->words = calloc(ol_places_words(size), sizeof(*places->words));
	return places->words != NULL ? 0 : -ENOMEM;
}

int ol_sessions_open(struct ol_sessions *sessions, uint32_t readers, uint32_t predecessors)
{
	const struct ol_server_opts *opts = sessions->opts;
	int rc;

	sessions->ends.lines_max = OL_LOG_RATE_MEMBER;
	sessions->reader_first = opts->workers_max + opts->observers_max;
	sessions->replica_first = sessions->reader_first + readers * opts->workers_max;
	sessions->count = sessions->replica_first + predecessors;
	sessions->all = calloc(sessions->count, sizeof(*sessions->all));
	sessions->requests.ring = calloc(OL_REQUESTS_MAX, sizeof(*sessions->requests.ring));
	rc = sessions->all != NULL && sessions->requests.ring != NULL ? 0 : -ENOMEM;
	if (rc == 0)
		rc = places_open(&sessions->taken, sessions->count);
	if (rc == 0)
		rc = places_open(&sessions->owing, sessions->count);
	if (rc == 0)
		rc = places_open(&sessions->pinning, sessions->count);
	if (rc == 0)
		rc = places_open(&sessions->arriving, sessions->count);
	if (rc == 0)
		rc = ol_knock_open(sessions);
	ol_sessions_budget(sessions, UINT32_MAX);
	return rc;
}

void ol_sessions_close(struct ol_sessions *sessions)
{
	ol_knock_close(sessions);
	free(sessions->arriving.words);
	free(sessions->pinning.words);
	free(sessions->owing.words);
	free(sessions->taken.words);
	free(sessions->requests.ring);
	free(sessions->all);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The predecessor first, as without it a chain is short; then workers, each with its reader; then
 * observers, but for one, so that a person can always look. */
void ol_sessions_budget(struct ol_sessions *sessions, uint32_t conns)
{
	const struct ol_server_opts *opts = sessions->opts;
	const uint32_t readers = sessions->replica_first > sessions->reader_first;
	const uint32_t look = least(opts->observers_max, 1);
	uint32_t left = conns, each;

	for (unsigned i = 0; i <= OL_ROLE_REPLICA; i++)
		sessions->budgets[i].most = 0;
	sessions->budgets[OL_ROLE_REPLICA].most =
		least(left, sessions->count - sessions->replica_first);
	left -= sessions->budgets[OL_ROLE_REPLICA].most;
	each = (left > look ? left - look : 0) / (1 + readers);
	each = least(each, opts->workers_max);
	sessions->budgets[OL_ROLE_WORKER].most = each;
	sessions->budgets[OL_ROLE_READER].most = readers * each;
	left -= (1 + readers) * each;
	sessions->budgets[OL_ROLE_OBSERVER].most = least(left, opts->observers_max);
}

static void conn_give(struct ol_sessions *sessions, struct ol_session *session,
		      struct ol_xport_conn *conn)
{
	session->conn = conn;
	conn->user = session;
	sessions->budgets[session->role].used++;
}

/* The session has no connection any more; the caller answers or frees it */
static struct ol_xport_conn *conn_take(struct ol_sessions *sessions, struct ol_session *session)
{
	struct ol_xport_conn *conn = session->conn;

	if (conn != NULL)
		sessions->budgets[session->role].used--;
	session->conn = NULL;
	return conn;
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

/* Observers that came with this worker's credential */
static uint32_t looks_of(const struct ol_sessions *sessions, uint32_t worker)
{
	uint32_t count = 0;

	for (uint32_t i = sessions->opts->workers_max; i < sessions->reader_first; i++) {
		const struct ol_session *session = &sessions->all[i];

		count += session->state != OL_SESSION_FREE && session->proof.worker == worker;
	}
	return count;
}

static struct ol_session *session_pick(struct ol_sessions *sessions,
				       const struct ol_wire_connect *proof,
				       struct ol_wire_reject *no, const char **ret_why)
{
	uint32_t first = sessions->opts->workers_max, last = sessions->reader_first;
	const struct ol_budget *budget = &sessions->budgets[proof->role];
	struct ol_session *session;

	if (sessions->read_only && proof->role != OL_ROLE_OBSERVER) {
		no->code = OL_REJECT_WIRE;
		no->limit = OL_LIMIT_READERS;
		no->number = last - first;
		return NULL;
	}
	if (last == sessions->count &&
	    (proof->role == OL_ROLE_READER || proof->role == OL_ROLE_REPLICA)) {
		no->code = OL_REJECT_WIRE;
		*ret_why = "it asks for a chain, and this server is in none";
		return NULL;
	}
	if (proof->role == OL_ROLE_WORKER || proof->role == OL_ROLE_READER) {
		first = proof->role == OL_ROLE_READER ? sessions->reader_first : 0;
		no->limit = OL_LIMIT_WORKERS;
		no->number = sessions->opts->workers_max;
		no->code = OL_REJECT_WORKER_RANGE;
		if (proof->worker >= sessions->opts->workers_max)
			return NULL;
		last = first + proof->worker + 1;
		first += proof->worker;
		no->limit = OL_LIMIT_NONE;
		no->number = 0;
		no->code = OL_REJECT_WORKER_BUSY;
		*ret_why = "its worker id is already connected";
	} else {
		first = proof->role == OL_ROLE_REPLICA ? sessions->replica_first : first;
		last = proof->role == OL_ROLE_REPLICA ? sessions->count : last;
		no->limit =
			proof->role == OL_ROLE_REPLICA ? OL_LIMIT_PREDECESSORS : OL_LIMIT_OBSERVERS;
		no->number = last - first;
	}
	if (proof->role == OL_ROLE_OBSERVER && proof->worker != OL_NOBODY &&
	    looks_of(sessions, proof->worker) >= OL_LOOKS_OF_WORKER) {
		no->limit = OL_LIMIT_LOOKS;
		no->number = OL_LOOKS_OF_WORKER;
		return NULL;
	}
	session = memory_first(&sessions->all[first], last - first);
	for (uint32_t i = first; session == NULL && proof->role != OL_ROLE_OBSERVER && i < last;
	     i++)
		sessions->all[i].is_wanted = true;
	if (session == NULL || budget->used < budget->most)
		return session;
	*no = (struct ol_wire_reject){ .code = OL_REJECT_FULL,
				       .limit = OL_LIMIT_CONNECTIONS,
				       .number = budget->most };
	*ret_why = NULL;
	return NULL;
}

static void session_free(struct ol_sessions *sessions, struct ol_session *session)
{
	struct ol_memory_job *memory = session->memory;
	const uint32_t index = index_of(sessions, session);
	struct ol_xport_conn *conn = conn_take(sessions, session);

	/*
	 * Destroy the queue pair, then the keys, then the memory, so that no late write can land.
	 * The fence holds once the queue pair is destroyed; another thread does the long rest.
	 */
	if (conn != NULL) {
		ol_inbox_forget(sessions->inbox, conn);
		if (session->landing_region != NULL)
			memory->later = sessions->ops->strip(conn, session->landing_region,
							     session->role == OL_ROLE_REPLICA);
		sessions->ops->conn_free(conn);
	}
	if (session->landing_region != NULL)
		sessions->ops->dereg(session->landing_region);
	if (session->role == OL_ROLE_REPLICA)
		ol_predecessor_on_end(sessions->replica);
	if (session->slot_count != 0 && memory != NULL)
		sessions->slot_bytes -= memory->bytes;
	ol_memory_give_back(sessions->memory, memory);
	free(session->table);
	free(session->slots);
	free(session->rules);
	ol_places_remove(&sessions->taken, index);
	ol_places_remove(&sessions->owing, index);
	ol_places_remove(&sessions->pinning, index);
	ol_places_remove(&sessions->arriving, index);
	memset(session, 0, sizeof(*session));
}

/* "worker 3", or a role of enum ol_wire_role without a number */
static const char *who_str(const struct ol_session *session, char text[WHO_MAX])
{
	static const char *const roles[] = { "", "worker", "observer", "reader", "predecessor" };

	if (session->role == OL_ROLE_REPLICA || session->worker == OL_NOBODY)
		return roles[session->role];
	snprintf(text, WHO_MAX, "%s %u", roles[session->role], session->worker);
	return text;
}

static int session_accept(struct ol_sessions *sessions, struct ol_session *session)
{
	struct ol_wire_accept accept = {
		.proto = ol_wire_agree(&session->proof.speaks),
		.features = session->features,
		.geo = sessions->store->geo,
		.public_key = ol_dial_wire_rkey(
			sessions->ops->rkey(sessions->public_region, session->conn)),
		.landing_key = ol_dial_wire_rkey(
			sessions->ops->rkey(session->landing_region, session->conn)),
		.incarnation = sessions->incarnation,
		.nonfinite = sessions->opts->rule.allow_nonfinite != 0,
		.init = sessions->opts->init_worker ? ol_store_began(sessions->store) : 0,
	};
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES];
	char who[WHO_MAX];
	struct ol_xport_ident ident, own;
	int rc;

	if (accept.public_key.bytes == 0) /* it cannot be registered in this peer's domain */
		return -ENOMEM;
	if (sessions->opts->rule.optimizer == OL_OPTIMIZER_SGD)
		accept.lr = sessions->opts->rule.lr;
	sessions->ops->ident(session->conn, &ident);
	rc = sessions->ops->acceptor(session->conn, &own);
	if (rc != 0)
		return rc;
	if (session->proof.speaks.proto != ol_wire_own.proto || accept.features != 0)
		ol_log(OL_LOG_DEBUG,
		       "server %s: %s is of protocol %u: talked to in %u, features %#x",
		       sessions->addr, who_str(session, who), session->proof.speaks.proto,
		       accept.proto, accept.features);
	ol_auth_accept(sessions->job_key, &session->proof, session->m,
		       (struct ol_auth_ends){ ident.bytes, own.bytes }, &accept);
	ol_wire_accept_encode(&accept, bytes);
	return sessions->ops->accept(session->conn, bytes, sizeof(bytes));
}

/*
 * A predecessor writes a ring's slot again only when its former writes have completed. A worker that
 * takes a buffer back writes the same slot again at once: in relaxed order the former bytes may stay.
 */
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
	const struct ol_wire_reject no = { .code = OL_REJECT_RESOURCES,
					   .limit = OL_LIMIT_SYSTEM,
					   .number = (uint32_t)-rc & 0xfff };
	char limit[OL_STATUS_TEXT_MAX], text[sizeof(limit) + 40];
	struct ol_xport_conn *conn = conn_take(sessions, session);

	snprintf(text, sizeof(text), "%s: %s", what, ol_status_text(rc, limit));
	if (conn != NULL)
		ol_knock_refuse(sessions, conn, &session->proof, &no, text, now_ns);
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
	if (sessions->aways < OL_AWAYS / 4)
		sessions->away_ms /= 2;
	sessions->aways = 0;
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
	struct ol_xport_conn *conn = conn_take(sessions, session);

	session->since_ns = now_ns;
	ol_knock_send_away(sessions, conn, &session->proof, ol_memory_wait_ms(sessions->memory, 0));
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

/* Memory that the slots of a worker would take beyond slot_memory_max is not made */
static bool slots_fit(const struct ol_sessions *sessions, uint32_t slot_count)
{
	uint64_t bytes = ol_layout_landing_bytes(&sessions->store->geo, slot_count);

	return slot_count == 0 || sessions->opts->slot_memory_max == 0 ||
	       sessions->slot_bytes + bytes <= sessions->opts->slot_memory_max;
}

static void session_begin(struct ol_sessions *sessions, struct ol_session *session, uint64_t now_ns)
{
	/* a reader has no slots, but acks for those of its worker */
	const bool acked = session->role == OL_ROLE_WORKER || session->role == OL_ROLE_READER;

	if (acked)
		session->slots = calloc(sessions->opts->window + 1, sizeof(*session->slots));
	session->rule_bytes = ol_layout_rule_bytes(&sessions->store->geo);
	if (session->slot_count > 0)
		session->rules = calloc(session->slot_count, session->rule_bytes);
	if ((!acked || session->slots != NULL) &&
	    (session->slot_count == 0 || session->rules != NULL))
		session->memory = session_memory(sessions, session);
	if (session->memory != NULL && session->slot_count != 0)
		sessions->slot_bytes += session->memory->bytes;
	if (session->memory != NULL)
		session_make(sessions, session, now_ns);
	else
		session_refuse(sessions, session, no_memory, -ENOMEM, now_ns);
}

static void session_take(struct ol_sessions *sessions, struct ol_session *session,
			 const struct ol_wire_connect *proof, const uint8_t m[OL_NONCE_BYTES],
			 uint64_t now_ns)
{
	session->role = proof->role;
	session->worker = proof->worker;
	session->since_ns = now_ns;
	session->proof = *proof;
	session->features = proof->speaks.features & ol_wire_own.features;
	memcpy(session->m, m, sizeof(session->m));
	session->state = OL_SESSION_MAKING;
	ol_places_add(&sessions->taken, index_of(sessions, session));
}

/* How long a peer should stay away that finds no place to wait; of many each comes seldom */
static uint32_t away_ms(struct ol_sessions *sessions)
{
	uint32_t ms = ol_memory_wait_ms(sessions->memory, 0);

	if (++sessions->aways > OL_AWAYS) {
		sessions->aways = 0;
		sessions->away_ms =
			least(2 * sessions->away_ms + OL_MEMORY_WAIT_MIN_MS, OL_AWAY_MAX_MS);
	}
	return ms > sessions->away_ms ? ms : sessions->away_ms;
}

static void peer_admit(struct ol_sessions *sessions, struct ol_xport_conn *conn,
		       const struct ol_wire_connect *proof, uint64_t now_ns)
{
	struct ol_wire_reject no = { .code = OL_REJECT_FULL };
	const char *why = NULL;
	struct ol_session *session;
	uint8_t m[OL_NONCE_BYTES];
	uint32_t slot_count;

	if (!ol_knock_proved(sessions, conn, proof, now_ns, m))
		return;
	session = session_pick(sessions, proof, &no, &why);
	if (session == NULL) {
		ol_knock_refuse(sessions, conn, proof, &no, why, now_ns);
		return;
	}
	slot_count = proof->role == OL_ROLE_WORKER ? sessions->opts->window + proof->queues : 0;
	if (session->memory != NULL && session->slot_count != slot_count)
		session_free(sessions, session); /* reserved for a worker with another slot count */
	if (session->memory == NULL && !slots_fit(sessions, slot_count)) {
		no = (struct ol_wire_reject){ .code = OL_REJECT_FULL,
					      .limit = OL_LIMIT_SLOT_MEMORY,
					      .number = (uint32_t)(sessions->opts->slot_memory_max /
								   MIB) };
		ol_knock_refuse(sessions, conn, proof, &no, NULL, now_ns);
		return;
	}
	/* each connection of a predecessor takes a new ring, and one that has an old view comes again */
	if (session->memory == NULL &&
	    (sessions->memory->making >= OL_ADMISSIONS_MAX ||
	     (proof->role == OL_ROLE_REPLICA && ol_memory_stale(sessions->memory) > 1))) {
		ol_knock_send_away(sessions, conn, proof, away_ms(sessions));
		return;
	}
	session->slot_count = slot_count;
	session_take(sessions, session, proof, m, now_ns);
	conn_give(sessions, session, conn);
	if (session->memory == NULL)
		session_begin(sessions, session, now_ns);
	else if (!session->memory->busy)
		session_enter(sessions, session, now_ns);
}

static void request_handle(struct ol_sessions *sessions, struct ol_xport_conn *conn,
			   const uint8_t *priv, uint32_t bytes, uint64_t now_ns)
{
	const struct ol_wire_reject no = { .code = OL_REJECT_WIRE };
	struct ol_wire_connect msg;
	char text[OL_WIRE_FAULT_MAX];
	const char *why;

	sessions->requests.handled++;
	if (ol_wire_connect_decode(priv, bytes, &msg) != 0) {
		why = ol_wire_fault(priv, bytes, "server", text);
		if (why == NULL)
			why = "it does not speak our protocol";
		ol_knock_refuse(sessions, conn, NULL, &no, why, now_ns);
		return;
	}
	switch (msg.kind) {
	case OL_CONNECT_KNOCK:
		ol_knock_challenge(sessions, conn, &msg, now_ns);
		break;
	case OL_CONNECT_PROOF:
		peer_admit(sessions, conn, &msg, now_ns);
		break;
	}
}

void ol_sessions_turn(struct ol_sessions *sessions)
{
	sessions->requests.handled = 0;
}

void ol_sessions_serve(struct ol_sessions *sessions, uint64_t now_ns)
{
	struct ol_requests *requests = &sessions->requests;

	while (requests->count > 0 && requests->handled < OL_REQUESTS_TURN) {
		struct ol_request request = requests->ring[requests->head];

		requests->head = (requests->head + 1) % OL_REQUESTS_MAX;
		requests->count--;
		if (request.conn != NULL) /* else its peer has left */
			request_handle(sessions, request.conn, request.priv, request.bytes, now_ns);
	}
}

void ol_session_forget(struct ol_sessions *sessions, const struct ol_xport_conn *conn)
{
	struct ol_requests *requests = &sessions->requests;

	for (uint32_t i = 0; i < requests->count; i++) {
		struct ol_request *request =
			&requests->ring[(requests->head + i) % OL_REQUESTS_MAX];

		if (request->conn == conn)
			request->conn = NULL;
	}
}

/* A storm of peers must not hold up those who are in: a turn handles a few requests, and the others
 * wait in order. */
void ol_session_on_request(struct ol_sessions *sessions, const struct ol_xport_event *event,
			   uint64_t now_ns)
{
	struct ol_requests *requests = &sessions->requests;
	struct ol_request *request;

	if (requests->count == 0 && requests->handled < OL_REQUESTS_TURN) {
		request_handle(sessions, event->conn, event->priv, event->priv_len, now_ns);
		return;
	}
	if (requests->count == OL_REQUESTS_MAX) {
		ol_knock_send_away(sessions, event->conn, NULL, OL_HOLD_MS);
		return;
	}
	request = &requests->ring[(requests->head + requests->count++) % OL_REQUESTS_MAX];
	request->conn = event->conn;
	request->bytes =
		event->priv_len < sizeof(request->priv) ? event->priv_len : sizeof(request->priv);
	if (request->bytes > 0)
		memcpy(request->priv, event->priv, request->bytes);
}

void ol_session_pins(struct ol_sessions *sessions, const struct ol_session *session)
{
	ol_places_add(&sessions->pinning, index_of(sessions, session));
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
	char who[WHO_MAX];

	if (!ol_replica_serves(sessions->replica, session->role))
		return false;
	if (session->role == OL_ROLE_WORKER || session->role == OL_ROLE_READER)
		welcome.resolved = ol_store_applied(sessions->store, session->worker);
	ol_record_seal(&welcome);
	if (sessions->ops->post_write(session->conn, &write) != 0)
		return false; /* a full queue: the next tick tries again; or the connection is
				 about to go down */
	session->last_seq = welcome.resolved.seq;
	session->numbered = session->again = false;
	session->epoch = welcome.epoch;
	session->state = OL_SESSION_LIVE;
	sessions->joined_count--;
	if (session->role == OL_ROLE_WORKER)
		sessions->live_workers++;
	ol_word_store(&sessions->store->board->workers, sessions->live_workers);
	ol_log(OL_LOG_DEBUG, "server %s: %s is connected", sessions->addr, who_str(session, who));
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
	if (hello.format > OL_FORMAT_INT8)
		return "hello with an unknown format of gradients";
	if (hello.init == OL_INIT_AWAITED)
		return "hello with an impossible digest of first weights";
	/* worker 0 alone may bring in first weights, and only where they are asked for */
	if (hello.init != 0 && (session->role != OL_ROLE_WORKER || session->worker != 0 ||
				!sessions->opts->init_worker))
		hello.mirror.bytes = hello.init = 0;
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

void ol_session_log(struct ol_sessions *sessions, const struct ol_session *session, const char *why)
{
	char who[WHO_MAX];

	if (why != NULL)
		ol_log_rated(&sessions->ends, ol_clock_ns(), OL_LOG_WARN,
			     "server %s: %s: %s: connection ended", sessions->addr,
			     who_str(session, who), why);
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
	session->is_wanted = false;
	session->silent_ms = 0;
}

/*
 * Write to a peer to notice that it is gone (its host lost power, its link is cut): a reliable
 * connection without traffic would never report it. An adapter may also lose the write, so a probe
 * that does not complete counts as silence. A peer may have given up this connection long before
 * the adapter does, if the network was away: then it is at the door again, and need not wait.
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

	uint64_t probe_ms = ol_probe_ms(sessions->opts->retry_timeout_ms);

	session->silent_ms += sessions->opts->heartbeat_ms;
	if (session->is_wanted && probe_ms != 0 &&
	    session->silent_ms > OL_SILENCES_WANTED * probe_ms + sessions->opts->heartbeat_ms)
		return "it is silent, and connects anew";
	if (sessions->opts->retry_timeout_ms != 0 && session->silent_ms > limit_ms)
		return "the adapter never completed a write";
	if (session->probing || now_ns - session->probe_ns < probe_ms * OL_NS_PER_MS)
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
