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

#include "checkpoint/checkpoint.h"
#include "link/dial.h"
#include "outlast_policy.h"
#include "outlast_server.h"
#include "rdma/transport.h"
#include "server/memory.h"
#include "server/replica.h"
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
	OL_OBSERVERS_MAX = 1024,
	OL_REFUSALS_MS = 1000, /* between two log lines about connections refused with one code */
	OL_HELLO_TIMEOUT_MS = 5000, /* from accept to a whole hello */
	OL_OWED_TIMEOUT_MS = 5000, /* until a peer that takes no acks is dropped */
	/* retry timeouts before a peer is dropped whose probe never completed */
	OL_SILENCES_MAX = 8,
	OL_JOB_KEY_MAX = 256,
	OL_PREDECESSORS_MAX = 1,
	OL_TURN_BYTES = 16 << 20, /* of gradients, until a turn of the loop ends */
};

/* One peer, from accept until its connection is gone. */
enum ol_session_state {
	OL_SESSION_FREE, /* nobody */
	OL_SESSION_MAKING, /* has proved that it knows the key; its memory is being made, or was and
			      waits for it. It has a connection that is not answered, or none: it
			      was told to come back */
	OL_SESSION_ACCEPTED, /* has its keys; has not said where acks go */
	OL_SESSION_JOINED, /* has said hello; waits until the server has its weights */
	OL_SESSION_LIVE, /* may push (a worker) and pull */
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
	struct ol_chain_hello chain_hello; /* of a predecessor */
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

/* A server that came back empty, until it has its weights. */
struct ol_restoring {
	bool active;
	bool chain; /* waits for its place in a chain: for a predecessor to read, or to found it */
	bool floor; /* a checkpoint is in snapshot 0: what a mirror must be newer than */
	uint32_t floor_epoch;
	uint64_t floor_version;
	uint64_t since_ns; /* the last worker came that changed the picture; 0: nobody is there */
	uint64_t came[OL_WORKERS_MAX / 64]; /* ids that have changed it: each does once */
	uint64_t refused[OL_WORKERS_MAX / 64]; /* ids whose mirrors were: they are not waited for */
	bool looks; /* only the table of the source is being read: is its mirror enough? */
	struct ol_session *source; /* whose mirror is being read; NULL: none … */
	uint32_t into; /* … and the snapshot that it goes into */
	uint64_t posted; /* bytes of the content */
	uint32_t reads; /* under way */
	bool failed; /* one of them, or its post: nothing of this source is used … */
	bool lies; /* … because there is nothing where it said, not because its link broke */
};

/* Checkpoints while it serves. */
struct ol_saving {
	struct ol_ckpt_writer *writer; /* NULL: none are wanted */
	uint64_t version; /* of the last one begun, or restored from */
	uint64_t begun_ns;
	int pinned; /* snapshot that is being copied, -1: none */
	/* A running checkpoint; selection is FULL if there is none, or no folder. */
	struct ol_ckpt_blocks blocks;
	struct ol_selector *selector; /* the writer's thread's while there is one */
	double interval; /* versions between two turns; 0: by time */
	bool first; /* its file is yet to be made */
	bool whole; /* the last that was written has everything of its version */
	uint64_t failed; /* since one was written, … */
	uint64_t failed_ns; /* … when that began, … */
	uint64_t told_ns; /* … and when the log last said so */
};

/* What a turn of the loop spends its time with, as shards are large */
enum ol_turn_work {
	OL_TURN_STEP, /* gradients summed up, and put into a snapshot or an entry */
	OL_TURN_FORWARD, /* an entry, into the successor's ring */
	OL_TURN_APPLY, /* an entry, to a snapshot */
	OL_TURN_WORKS
};

/*
 * What the loop has done since it last looked around. Whoever knocks, dies or reads a heartbeat
 * waits for the rest of a turn, so it ends when so many bytes are worked on; what is left waits for
 * the next one, in the order it came.
 */
struct ol_turn {
	uint64_t bytes_max; /* of each kind; a piece is begun while there are fewer */
	uint64_t bytes[OL_TURN_WORKS];
	bool left; /* something waits for the next turn */
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

struct ol_server {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_xport_caps caps;
	struct ol_server_opts opts; /* its strings are copies below or constants */
	char job_key[OL_JOB_KEY_MAX];
	char addr[OL_XPORT_ADDR_MAX];
	uint64_t incarnation;

	struct ol_slab *public_slab;
	struct ol_xport_region *public_region; /* readable on every connection */
	struct ol_store store;
	struct ol_policy *policy;

	/* Workers by id, observers; in a chain also readers, by id, and predecessors */
	struct ol_session *sessions;
	uint32_t session_count;
	uint32_t reader_first;
	uint32_t replica_first;
	uint32_t joined_count; /* wait for their welcome */
	uint32_t live_workers;

	/* Landed and not yet put to the policy, oldest first: a ring of all slots there are. */
	struct ol_landed *queue;
	uint32_t queue_size;
	uint32_t queue_head;
	uint32_t queue_count;

	/* Landed, and the policy wants to be asked again after the next step, join or leave */
	struct ol_landed *parked;
	uint32_t parked_count;

	/* Gradients of the next step, by worker; step_ready: the policy has said STEP. */
	struct ol_landed *batch;
	struct ol_contribution *contributions;
	uint32_t batch_count;
	bool step_ready;
	uint64_t ordered; /* newest entry that this head made: the store has its norms */
	uint64_t blocked_ns; /* since when readers' pins hold the step up; 0: they do not */
	struct ol_early early;
	struct ol_restoring restoring;
	struct ol_saving saving;
	struct ol_replica replica;
	int end_rc; /* why it cannot go on; 0: it can */

	uint8_t secret[OL_SECRET_BYTES]; /* of this process: challenges are made from it */
	struct ol_proof *proofs; /* OL_PROOFS, the oldest at proof_next */
	uint32_t proof_next;
	struct ol_refusals refusals[OL_REJECT_LATER]; /* by code */
	struct ol_memory memory;
	uint64_t owed_total; /* acks not yet posted, all sessions */

	struct ol_turn turn;

	struct ol_inbox inbox;

	float loss; /* exponential average */
	uint64_t loss_count;
	int stop_fd;
	_Atomic int stopping;
};

/* session.c */
void ol_server_on_request(struct ol_server *server, const struct ol_xport_event *event,
			  uint64_t now_ns);
/* ol_session_on_memory -- its memory is there, or cannot be had */
void ol_session_on_memory(struct ol_server *server, struct ol_session *session, uint64_t now_ns);
void ol_session_on_hello(struct ol_server *server, struct ol_session *session, uint64_t now_ns);
/* ol_session_welcome -- joined: it may push and pull, if this server can serve it yet */
void ol_session_welcome(struct ol_server *server, struct ol_session *session);
/* ol_session_end -- drop the peer and fence it out; why: for the log, NULL: it left */
void ol_session_end(struct ol_server *server, struct ol_session *session, const char *why);
void ol_session_violation(struct ol_server *server, struct ol_session *session, const char *what);
/* ol_session_on_probe -- its adapter has answered, one way or the other */
void ol_session_on_probe(struct ol_session *session);
/* ol_session_tick -- end those that never said hello or take no acks; look whether the rest live */
void ol_session_tick(struct ol_server *server, uint64_t now_ns);

/* ingest.c */
void ol_ingest_on_push(struct ol_server *server, struct ol_session *session, uint32_t slot,
		       uint64_t now_ns);
/* ol_ingest_on_part -- arg of OL_BELL_PART: apply what has landed, if nothing else is to be done */
void ol_ingest_on_part(struct ol_server *server, struct ol_session *session, uint32_t arg);
/* ol_ingest_target -- a snapshot that may be overwritten; -1: not yet */
int ol_ingest_target(struct ol_server *server, uint64_t now_ns);
/* ol_ingest_updated -- a step of so many gradients was made, or dropped (0); norms, if known */
void ol_ingest_updated(struct ol_server *server, uint32_t count, const struct ol_norms *norms,
		       uint64_t now_ns);
/* ol_ingest_on_join -- a worker may push from now on */
void ol_ingest_on_join(struct ol_server *server, const struct ol_session *session);
/* ol_ingest_on_withdraw -- what a worker has pushed waits for no gradient of others: it is late */
void ol_ingest_on_withdraw(struct ol_server *server, struct ol_session *session, uint64_t now_ns);
/* ol_ingest_count -- a gradient that was applied to weights of `version` */
void ol_ingest_count(struct ol_server *server, const struct ol_slot_state *state, uint64_t version);
/* ol_ingest_ack -- answer a push as its slot says, now or when the queue has room */
void ol_ingest_ack(struct ol_server *server, struct ol_session *session, uint32_t slot,
		   uint64_t now_ns);
void ol_ingest_resolve(struct ol_server *server, struct ol_landed landed, int status,
		       uint64_t now_ns);
/* ol_ingest_forget -- take everything of this session out of queue and batch */
void ol_ingest_forget(struct ol_server *server, struct ol_session *session);
/* ol_ingest_waits -- true if there is work that only time, or another poll, lets go on */
bool ol_ingest_waits(const struct ol_server *server);
/* ol_ingest_progress -- make the steps that can be made, post the acks that can be posted */
void ol_ingest_progress(struct ol_server *server, uint64_t now_ns);

/* restore.c: first weights from a checkpoint, or from the freshest mirror */

/* ol_restore_start -- as opts say; 0 or a code with a line in err */
int ol_restore_start(struct ol_server *server, char *err, size_t err_bytes);
/* ol_restore_from -- read the content that a session's hello names, whatever else there is */
void ol_restore_from(struct ol_server *server, struct ol_session *session, uint64_t now_ns);
void ol_restore_on_read(struct ol_server *server, struct ol_session *session, int status,
			uint64_t now_ns);
void ol_restore_on_leave(struct ol_server *server, const struct ol_session *session);
void ol_restore_progress(struct ol_server *server, uint64_t now_ns);
struct ol_ckpt_meta ol_server_ckpt_meta(const struct ol_server *server);

/* save.c: checkpoints of published snapshots */
int ol_save_start(struct ol_server *server, char *err, size_t err_bytes);
/* ol_save_progress -- begin one if it is due, take the result of the last */
void ol_save_progress(struct ol_server *server, uint64_t now_ns);
/* ol_save_pinned -- the snapshot that must not be overwritten yet, as a mask */
unsigned ol_save_pinned(struct ol_server *server);
/* ol_save_blocks -- the partition that is saved or read by; 0 or a code with a line in err */
int ol_save_blocks(struct ol_server *server, char *err, size_t err_bytes);
/* ol_save_stop -- wait for the writer, end it */
void ol_save_stop(struct ol_server *server);
/* ol_save_last -- wait for what is being written; what is newer is written too */
void ol_save_last(struct ol_server *server);

enum ol_server_cookie {
	OL_SERVER_COOKIE_PROBE,
	OL_SERVER_COOKIE_RESTORE,
	OL_SERVER_COOKIE_BEAT, /* a neighbour's heartbeat */
};

/* server.c */
void ol_server_on_event(struct ol_server *server, const struct ol_xport_event *event,
			uint64_t now_ns);
/* ol_server_on_memory -- take one job that the memory thread has done: at most one peer comes in */
void ol_server_on_memory(struct ol_server *server, uint64_t now_ns);
/* ol_server_beat -- the loop turns: who reads the board shall know */
void ol_server_beat(struct ol_server *server);
void ol_server_tick(struct ol_server *server, uint64_t now_ns);
/* ol_turn_begin -- the loop has looked around. ol_turn_may -- may a piece of this kind of work be
 * begun now? If not it is left for the next turn. ol_turn_spend -- it was, and had so many bytes */
void ol_turn_begin(struct ol_server *server);
bool ol_turn_may(struct ol_server *server, enum ol_turn_work work);
void ol_turn_spend(struct ol_server *server, enum ol_turn_work work, uint64_t bytes);
/* ol_server_end -- ol_server_run() returns rc, once what is being done is done */
void ol_server_end(struct ol_server *server, int rc);

#endif /* OL_SERVER_SERVER_INTERNAL_H */
