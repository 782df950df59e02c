/* SPDX-License-Identifier: BSD-3-Clause */

/* session.h -- the peers of a server: who may come in, what memory they get, how they leave */
#ifndef OL_SERVER_SESSION_H
#define OL_SERVER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "link/memory.h"
#include "outlast_server.h"
#include "rdma/transport.h"
#include "replica/replica.h"
#include "store/store.h"
#include "wire/auth.h"
#include "wire/wire.h"

enum {
	OL_CHALLENGE_SLOT_MS =
		5000, /* a challenge is good for the rest of its slot, and the next */
	OL_CHALLENGE_SLOTS = 12, /* so many are known again: who answers an old one has the key, and
				    is told to come back */
	OL_PROOFS = 4096, /* that were good, remembered for as long as their challenge is; when they
			     all are this young the next peer is told to come back */
	OL_ADMISSIONS_MAX =
		64, /* peers that wait for memory at once; others are told to come back */
	OL_HOLD_MS = 500, /* until a peer that waits for memory is told to come back; and at most a
			     quarter of the lease */
	OL_RESERVED_MS = 10000, /* until memory of a peer that does not come back is given back */
	OL_REFUSALS_MS = 1000, /* between two log lines about connections refused with one code */
	OL_HELLO_TIMEOUT_MS = 5000, /* from accept to a whole hello */
	OL_OWED_TIMEOUT_MS = 5000, /* until a peer that takes no acks is dropped */
	/* retry timeouts before a peer is dropped whose probe never completed */
	OL_SILENCES_MAX = 8,
};

/* One peer, from accept until its connection is gone. */
enum ol_session_state {
	OL_SESSION_FREE, /* nobody */
	OL_SESSION_MAKING, /* has proved that it knows the key; its memory is being made, or was and
			      waits for it. It has a connection that is not answered, or none: it
			      was told to come back */
	OL_SESSION_ACCEPTED, /* has its keys; has not said where acks go */
	OL_SESSION_JOINED, /* has said hello; waits until the server has its weights */
	OL_SESSION_LIVE, /* may push (a worker) and pull; a predecessor stays JOINED */
};

/* Of completions on a peer's connection */
enum ol_session_cookie {
	OL_SESSION_COOKIE_PROBE,
	OL_SESSION_COOKIE_RESTORE, /* its mirror is being read */
};

/* What the server knows of one landing slot. */
struct ol_slot_state {
	uint64_t seq; /* of the push in it */
	uint64_t base_version;
	float loss;
	uint32_t samples;
	uint32_t grads; /* gradients summed up in it */
	uint64_t landed_ns;
	bool queued; /* it waited for this server */
	bool path; /* computed with local progress */
	bool is_void; /* not finite, as its worker says */
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
	uint8_t n[OL_NONCE_BYTES]; /* both ends' nonces, until it is accepted */
	uint8_t m[OL_NONCE_BYTES];
	struct ol_memory_job *memory; /* owned: what it may write to, made or on its way */
	struct ol_slab *landing; /* memory's */
	struct ol_xport_region *landing_region;
	struct ol_xport_rkey acks;
	struct ol_hello hello; /* its mirror, while a server restores */
	uint32_t epoch; /* of all that is said on this connection: that of its welcome */
	uint64_t last_seq; /* newest that has landed on this connection, or its welcome spoke of */
	struct ol_applied *table; /* of its mirror, while restoring; NULL: not read */
	bool numbered; /* one has landed: all that follow are of the same process */
	uint64_t owed_count;
	uint64_t since_ns; /* when it got into its state, MAKING or ACCEPTED */
	uint64_t owed_since_ns; /* the oldest ack that could not be posted; 0: none */
	uint64_t probe_ns; /* last probe … */
	bool probing; /* … and whether it is still under way */
	uint64_t silent_ms; /* since one was answered, in ticks: none while the loop stood still */
	uint64_t withdrawn_seq; /* what it has pushed up to here waits for nobody; 0: nothing */
	struct ol_slot_state slots[OL_SLOTS_MAX];
};

/* A proof that was good: it is no second time. */
struct ol_proof {
	uint8_t n[OL_NONCE_BYTES];
	uint64_t slot; /* of its challenge; 0: none is here */
};

/* Connections refused with one code: what the log has of them */
struct ol_refusals {
	uint64_t told_ns; /* the last line; 0: none yet */
	uint64_t untold; /* since then */
};

/* All of a server */
struct ol_sessions {
	const struct ol_server_opts *opts;
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_store *store;
	struct ol_slab *public_slab;
	struct ol_xport_region *public_region;
	struct ol_memory *memory;
	struct ol_inbox *inbox;
	struct ol_replica *replica; /* the predecessor is a peer too, and its memory the ring */
	const char *addr;
	const char *job_key;
	uint64_t incarnation;

	/* Workers by id, observers; in a chain also readers, by id, and predecessors */
	struct ol_session *all;
	uint32_t count;
	uint32_t reader_first;
	uint32_t replica_first;
	uint32_t joined_count; /* wait for their welcome */
	uint32_t live_workers;
	uint64_t owed_total; /* acks not yet posted */

	uint8_t secret[OL_SECRET_BYTES]; /* of this process: challenges are made from it */
	struct ol_proof *proofs; /* OL_PROOFS, the oldest at proof_next */
	uint32_t proof_next;
	struct ol_refusals refusals[OL_REJECT_LATER]; /* by code */
};

void ol_session_on_request(struct ol_sessions *sessions, const struct ol_xport_event *event,
			   uint64_t now_ns);
/* ol_session_on_memory -- its memory is there, or cannot be had */
void ol_session_on_memory(struct ol_sessions *sessions, struct ol_session *session,
			  uint64_t now_ns);
/* ol_session_on_hello -- NULL: it has JOINED. Or what is wrong with its hello */
const char *ol_session_on_hello(struct ol_sessions *sessions, struct ol_session *session);
/* ol_session_on_predecessor -- the replica has heard it: it may have said hello */
void ol_session_on_predecessor(struct ol_sessions *sessions, struct ol_session *session);
/* ol_session_welcome -- one that has JOINED may push and pull, if its chain lets it. False: not yet */
bool ol_session_welcome(struct ol_sessions *sessions, struct ol_session *session);
/* ol_session_on_probe -- its adapter has answered, one way or the other */
void ol_session_on_probe(struct ol_session *session);
/* ol_session_tick -- look whether it lives. NULL; or why it is to be ended: it never said hello,
 * takes no acks (*ret_lies: which is against the rules), or is silent */
const char *ol_session_tick(struct ol_sessions *sessions, struct ol_session *session,
			    uint64_t now_ns, bool *ret_lies);
/* ol_session_log -- the log hears why it is ended; NULL: it left, and nothing is to be said */
void ol_session_log(const struct ol_sessions *sessions, const struct ol_session *session,
		    const char *why);
/* ol_session_end -- drop the peer and fence it out, once nothing of it is used */
void ol_session_end(struct ol_sessions *sessions, struct ol_session *session);

#endif /* OL_SERVER_SESSION_H */
