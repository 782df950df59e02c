/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * server_internal.h -- the parts of one server: sessions, what has landed, the next step
 *
 * Everything here is driven by ol_server_on_event() and ol_server_tick(): events and the time come
 * in, and actions go out through the transport's table. Threads, clock and sleeping are in
 * reactor.c alone, so that the same code runs over a simulated transport.
 */
#ifndef OL_SERVER_SERVER_INTERNAL_H
#define OL_SERVER_SERVER_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "outlast_server.h"
#include "policy/policy.h"
#include "rdma/transport.h"
#include "store/store.h"
#include "wire/wire.h"

enum {
	OL_CHALLENGES = 256, /* knocks that may be unanswered at once; older ones are forgotten */
	OL_OBSERVERS_MAX = 1024,
	OL_HELLO_TIMEOUT_MS = 5000, /* from accept to a whole hello */
	OL_OWED_TIMEOUT_MS = 5000, /* until a peer that takes no acks is dropped */
	OL_JOB_KEY_MAX = 256,
};

/* One peer, from accept until its connection is gone. */
enum ol_session_state {
	OL_SESSION_FREE, /* nobody */
	OL_SESSION_ACCEPTED, /* has its keys; has not said where acks go */
	OL_SESSION_LIVE, /* may push (a worker) and pull */
};

/* What the server knows of one landing slot. */
struct ol_slot_state {
	uint64_t seq; /* of the push in it */
	uint64_t base_version;
	float loss;
	uint32_t samples;
	int status; /* once resolved: what the ack says */
	bool busy; /* landed, not yet acknowledged */
	bool owed; /* resolved, ack not yet posted: the queue was full */
};

struct ol_session {
	enum ol_session_state state;
	enum ol_wire_role role;
	uint32_t worker; /* id; of a worker */
	uint32_t slot_count; /* 0 for an observer */
	struct ol_xport_conn *conn;
	struct ol_slab *landing;
	struct ol_xport_region *landing_region;
	struct ol_xport_rkey acks;
	uint64_t last_seq; /* newest that has landed on this connection */
	uint64_t owed_count;
	uint64_t since_ns; /* when it was accepted */
	uint64_t owed_since_ns; /* the oldest ack that could not be posted; 0: none */
	uint64_t probe_ns; /* last probe … */
	bool probing; /* … and whether it is still under way */
	struct ol_slot_state slots[OL_WINDOW_MAX];
};

/* A gradient that has landed and is not yet resolved. */
struct ol_landed {
	uint32_t session;
	uint32_t slot;
};

/*
 * A gradient whose end is being applied while its beginning is still on the way. Nobody sees it
 * before its push is whole and checked; any other step in between makes it worthless.
 */
struct ol_early {
	bool active;
	struct ol_landed landed;
	uint64_t version; /* published when it began */
	uint64_t first; /* floats from here on are done */
	unsigned target;
};

struct ol_challenge {
	uint8_t n[OL_NONCE_BYTES];
	uint8_t m[OL_NONCE_BYTES];
	bool open; /* not yet used */
};

struct ol_server {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_server_opts opts; /* its strings are copies below or constants */
	char job_key[OL_JOB_KEY_MAX];
	char addr[OL_XPORT_ADDR_MAX];
	uint64_t incarnation;

	struct ol_slab *public_slab;
	struct ol_xport_region *public_region; /* readable on every connection */
	struct ol_store store;
	struct ol_policy *policy;

	struct ol_session *sessions;
	uint32_t session_count; /* workers_max + observers_max */
	uint32_t live_workers;

	/* Landed and not yet put to the policy, oldest first: a ring of all slots there are. */
	struct ol_landed *queue;
	uint32_t queue_size;
	uint32_t queue_head;
	uint32_t queue_count;

	/* Gradients of the next step, by worker; step_ready: the policy has said STEP. */
	struct ol_landed *batch;
	struct ol_contribution *contributions;
	uint32_t batch_count;
	bool step_ready;
	uint64_t blocked_ns; /* since when readers' pins hold the step up; 0: they do not */
	struct ol_early early;

	struct ol_challenge challenges[OL_CHALLENGES];
	uint32_t challenge_next;
	uint64_t owed_total; /* acks not yet posted, all sessions */

	/* What the last poll gave and is not yet handled: a freed connection is taken out of it. */
	struct ol_xport_event *events;
	int events_left;

	float loss; /* exponential average */
	uint64_t loss_count;
	int stop_fd;
	_Atomic int stopping;
};

/* session.c */
void ol_server_on_request(struct ol_server *server, const struct ol_xport_event *event,
			  uint64_t now_ns);
void ol_session_on_hello(struct ol_server *server, struct ol_session *session);
/* ol_session_end -- drop the peer and fence it out; why: for the log, NULL: it left */
void ol_session_end(struct ol_server *server, struct ol_session *session, const char *why);
void ol_session_violation(struct ol_server *server, struct ol_session *session, const char *what);
/* ol_session_tick -- end those that never said hello or take no acks; look whether the rest live */
void ol_session_tick(struct ol_server *server, uint64_t now_ns);

/* ingest.c */
void ol_ingest_on_push(struct ol_server *server, struct ol_session *session, uint32_t slot,
		       uint64_t now_ns);
/* ol_ingest_on_part -- arg of OL_BELL_PART: apply what has landed, if nothing else is to be done */
void ol_ingest_on_part(struct ol_server *server, struct ol_session *session, uint32_t arg);
/* ol_ingest_forget -- take everything of this session out of queue and batch */
void ol_ingest_forget(struct ol_server *server, struct ol_session *session);
/* ol_ingest_waits -- true if there is work that only time, or another poll, lets go on */
bool ol_ingest_waits(const struct ol_server *server);
/* ol_ingest_progress -- make the steps that can be made, post the acks that can be posted */
void ol_ingest_progress(struct ol_server *server, uint64_t now_ns);

/* server.c */
void ol_server_on_event(struct ol_server *server, const struct ol_xport_event *event,
			uint64_t now_ns);
void ol_server_tick(struct ol_server *server, uint64_t now_ns);

#endif /* OL_SERVER_SERVER_INTERNAL_H */
