/* SPDX-License-Identifier: BSD-3-Clause */

/* session.h -- the peers of a server: admits them, gives them memory, ends their sessions */
#ifndef OL_SERVER_SESSION_H
#define OL_SERVER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log_rate.h"
#include "link/memory.h"
#include "outlast_server.h"
#include "rdma/transport.h"
#include "replica/replica.h"
#include "server/early.h"
#include "server/places.h"
#include "store/store.h"
#include "wire/auth.h"
#include "wire/wire.h"

enum {
	OL_CHALLENGE_MS = 10000, /* a challenge is good for so long */
	OL_CHALLENGE_LATE_MS = 60000, /* a peer that answers it until then has the key, and is told
					 to come back */
	OL_GUEST_PLACES = 256, /* marks of used proofs for observers */
	OL_LOOKS_OF_WORKER = 4, /* observers with one worker's credential */
	OL_OVERTAKEN_MS = 10, /* until a peer whose challenge was overtaken knocks again */
	OL_REQUESTS_TURN = 8, /* requests handled in a turn of the loop; the others wait */
	OL_REQUESTS_MAX = 512, /* requests that may wait; others are told to come back */
	OL_ADMISSIONS_MAX = 64, /* peers that may wait for memory; others are told to come back */
	OL_AWAYS = 16, /* peers sent away between two that came in: with more the delay doubles … */
	OL_AWAY_MAX_MS =
		30, /* … up to this. With 250 a worker that gives up after 1.5 s, and begins
				anew, may never find a place */
	OL_HOLD_MS = 500, /* until a peer that waits for memory is told to come back; at most a
			     quarter of the lease */
	OL_RESERVED_MS = 10000, /* until the memory of a peer that does not come back is freed */
	OL_HELLO_TIMEOUT_MS = 5000, /* from accept to a whole hello */
	OL_OWED_TIMEOUT_MS = 5000, /* until a peer that takes no acks is dropped */
	/* retry timeouts after which a peer is dropped if its probe has not completed … */
	OL_SILENCES_MAX = 8,
	/* … and probes' times after which it is, if another connects in its place */
	OL_SILENCES_WANTED = 2,
};

/* One peer, from accept until its connection is gone. */
enum ol_session_state {
	OL_SESSION_FREE, /* no peer */
	OL_SESSION_MAKING, /* the peer has proved that it knows the key; its memory is being
			      made, or is ready. Its connection is not answered yet; it has none
			      if it was told to come back. */
	OL_SESSION_ACCEPTED, /* the peer has its keys; its hello has not come */
	OL_SESSION_JOINED, /* its hello has come; it waits until the server has weights */
	OL_SESSION_LIVE, /* may push (a worker) and pull; a predecessor stays JOINED */
};

/* Cookies of completions on a peer's connection */
enum ol_session_cookie {
	OL_SESSION_COOKIE_PROBE,
	OL_SESSION_COOKIE_RESTORE, /* its mirror is being read */
};

/* What the server knows of one landing slot. */
struct ol_slot_state {
	uint64_t seq; /* of the push in it */
	uint64_t base_version;
	uint32_t ahead; /* struct ol_push_hdr; 0 where each shard makes its own steps */
	float loss;
	uint32_t samples;
	uint32_t grads; /* gradients summed up in it … */
	float weight; /* … and of each of them */
	uint64_t last_version; /* no later step takes it; 0: any does */
	uint64_t landed_ns;
	uint64_t stamp; /* which arrival it was, see struct ol_arriving */
	uint8_t parts; /* announced since the last push */
	bool queued; /* it waited in its worker's queue for this server */
	bool path; /* computed with local progress */
	bool is_void; /* not finite, as its worker reports */
	bool again; /* it was applied, in weights that are gone */
	bool mean; /* of its gradients; else their sum */
	bool has_rule; /* ol_session_rule() has the one that it brings */
	bool gone; /* its worker says that shard 0 has dropped it */
	bool held_due; /* its worker is to be told that it is here */
	int status; /* once resolved: the status in the ack */
	bool busy; /* landed, not yet acknowledged */
	bool owed; /* resolved, ack not yet posted, as the send queue was full */
};

struct ol_session {
	enum ol_session_state state;
	enum ol_wire_role role;
	uint32_t worker; /* id; of a worker */
	uint32_t slot_count; /* 0 for an observer */
	struct ol_xport_conn *conn;
	struct ol_wire_connect proof; /* and the nonce that it answers, until it is accepted */
	uint8_t m[OL_NONCE_BYTES];
	uint32_t features; /* that both ends have (wire.h, VERSIONS) */
	struct ol_memory_job *memory; /* owned: the memory that it may write, made or being made */
	struct ol_slab *landing; /* memory's */
	struct ol_xport_region *landing_region;
	struct ol_xport_rkey acks;
	struct ol_hello
		hello; /* its mirror, while a server restores; the format of its gradients */
	uint32_t epoch; /* of its welcome, and so of every record on this connection */
	uint64_t last_seq; /* newest push that landed here, or that its welcome named */
	struct ol_applied *table; /* of its mirror, while restoring; NULL: not read */
	bool numbered; /* a push has landed: later ones must be of the same process */
	uint64_t owed_count;
	uint64_t since_ns; /* when it got into its state, MAKING or ACCEPTED */
	uint64_t owed_since_ns; /* the oldest ack that could not be posted; 0: none */
	uint64_t probe_ns; /* when the last probe was posted */
	bool probing; /* it has not completed */
	bool is_wanted; /* since then a peer with its id, or another predecessor, was refused */
	uint64_t silent_ms; /* since a probe completed, counted by ticks: not while the loop stood
			       still */
	bool again; /* all that it keeps was pushed again (OL_BELL_AGAIN) */
	uint64_t withdrawn_seq; /* pushes up to here are withdrawn; 0: none */
	struct ol_arriving arriving; /* of a worker in sessions->arriving */
	struct ol_slot_state *slots; /* owned: window + 1, of a worker or reader; else NULL */
	uint8_t *rules; /* owned: of each slot the rule that its push brings */
	uint64_t rule_bytes;
};

/* ol_session_rule -- the copy of the rule that a slot's push brings */
static inline struct ol_rule *ol_session_rule(const struct ol_session *session, uint32_t slot)
{
	return (struct ol_rule *)(void *)(session->rules + slot * session->rule_bytes);
}

/* A request that waits for its turn */
struct ol_request {
	struct ol_xport_conn *conn;
	uint32_t bytes;
	uint8_t priv[OL_WIRE_CONNECT_BYTES];
};

/* Requests in the order in which they came: a ring */
struct ol_requests {
	struct ol_request *ring; /* OL_REQUESTS_MAX */
	uint32_t head;
	uint32_t count;
	uint32_t handled; /* in this turn */
};

/* The connections of one role */
struct ol_budget {
	uint32_t most;
	uint32_t used; /* by sessions with a connection */
};

/* All sessions of a server */
struct ol_sessions {
	const struct ol_server_opts *opts;
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_store *store;
	struct ol_slab *public_slab;
	struct ol_xport_region *public_region;
	struct ol_memory *memory;
	struct ol_inbox *inbox;
	struct ol_replica *replica; /* a predecessor is a peer too: its memory is the ring */
	const char *addr;
	const char *job_key;
	uint64_t incarnation;
	bool read_only; /* of a relay: lets in observers alone */

	/* Workers by id, observers; in a chain also readers, by id, and predecessors */
	struct ol_session *all;
	uint32_t count;
	uint32_t reader_first;
	uint32_t replica_first;
	uint32_t joined_count; /* wait for their welcome */
	uint32_t live_workers;
	uint64_t owed_total; /* acks, and words that a push is held, not yet posted */
	uint64_t slot_bytes; /* of all workers' slots, also of those that are being made */
	struct ol_budget budgets[OL_ROLE_REPLICA + 1]; /* by role */

	/* Which sessions … */
	struct ol_places taken; /* … are not free */
	struct ol_places owing; /* … have acks that are not yet posted */
	struct ol_places pinning; /* … may have a pin in their control page */
	struct ol_places arriving; /* … have announced parts of a gradient that is not whole */

	uint8_t secret[OL_SECRET_BYTES]; /* of this process: challenges are made from it */
	uint64_t made_ns; /* of the newest challenge */
	uint64_t *proved; /* by place, the newest challenge that a proof was seen of; wire/wire.h */
	struct ol_requests requests;
	uint32_t away_ms; /* the least delay of a peer that finds OL_ADMISSIONS_MAX waiting */
	uint32_t aways; /* peers sent away so since memory was last made */
	struct ol_log_rate refusals[OL_REJECT_LATER]; /* log lines about refused peers, by code */
	struct ol_log_rate ends; /* log lines about peers whose connection is ended */
};

/* ol_sessions_open -- room for all; conns: connections that the transport can hold, for budgets by
 * role. -ENOMEM, -EIO */
int ol_sessions_open(struct ol_sessions *sessions, uint32_t readers, uint32_t predecessors);
void ol_sessions_close(struct ol_sessions *sessions);
/* ol_sessions_budget -- share out the connections that the transport can hold: a role cannot take
 * another's. */
void ol_sessions_budget(struct ol_sessions *sessions, uint32_t conns);
/* ol_sessions_turn -- a turn of the loop begins. ol_sessions_serve -- requests that wait, as many
 * as a turn may have left. ol_session_forget -- the peer of a request has gone. */
void ol_sessions_turn(struct ol_sessions *sessions);
void ol_sessions_serve(struct ol_sessions *sessions, uint64_t now_ns);
void ol_session_forget(struct ol_sessions *sessions, const struct ol_xport_conn *conn);
void ol_session_on_request(struct ol_sessions *sessions, const struct ol_xport_event *event,
			   uint64_t now_ns);
/* ol_session_on_memory -- its memory is ready, or could not be made */
void ol_session_on_memory(struct ol_sessions *sessions, struct ol_session *session,
			  uint64_t now_ns);
/* ol_session_on_hello -- NULL: the session has JOINED; or the fault of its hello */
const char *ol_session_on_hello(struct ol_sessions *sessions, struct ol_session *session);
/* ol_session_on_predecessor -- called after a bell of the predecessor: note if it has joined */
void ol_session_on_predecessor(struct ol_sessions *sessions, struct ol_session *session);
/* ol_session_welcome -- let a JOINED peer push and pull, if the chain allows it. False: not yet */
bool ol_session_welcome(struct ol_sessions *sessions, struct ol_session *session);
/* ol_session_pins -- it has rung OL_BELL_PIN: its pin word counts from now on */
void ol_session_pins(struct ol_sessions *sessions, const struct ol_session *session);
/* ol_session_on_probe -- its probe has completed, with success or not */
void ol_session_on_probe(struct ol_session *session);
/* ol_session_tick -- check that the peer lives. NULL; or the reason to end it: it sent no hello, is
 * silent, or takes no acks (*ret_lies: this breaks a rule) */
const char *ol_session_tick(struct ol_sessions *sessions, struct ol_session *session,
			    uint64_t now_ns, bool *ret_lies);
/* ol_session_log -- log why it is ended; NULL: it left, no line */
void ol_session_log(struct ol_sessions *sessions, const struct ol_session *session,
		    const char *why);
/* ol_session_end -- drop the peer and fence it off; call it when no part of the server uses it */
void ol_session_end(struct ol_sessions *sessions, struct ol_session *session);

#endif /* OL_SERVER_SESSION_H */
