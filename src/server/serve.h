/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * serve.h -- one server, and what a peer's arrival and end mean to all its parts
 *
 * Everything here is driven by ol_server_on_event() and ol_server_tick(): events and the time come
 * in, and actions go out through the transport's table. Threads, clock and sleeping are in
 * reactor.c alone, so that the same code runs over a simulated transport.
 */
#ifndef OL_SERVER_SERVE_H
#define OL_SERVER_SERVE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/key.h"
#include "base/owner.h"
#include "base/turn.h"
#include "link/memory.h"
#include "outlast_server.h"
#include "rdma/transport.h"
#include "replica/replica.h"
#include "server/ingest.h"
#include "server/restore.h"
#include "server/save.h"
#include "server/session.h"
#include "store/store.h"

enum {
	OL_OBSERVERS_MAX = 1024,
	OL_PREDECESSORS_MAX = 1,
	OL_TURN_BYTES = 16 << 20, /* of gradients, until a turn of the loop ends */
};

struct ol_server;

/*
 * A server's chain: of one, or of several, strict or periodic
 *
 * There is one way from a doorbell to an acknowledgement. What a chain of one need not do is empty.
 */
struct ol_chain_kind {
	struct ol_steps steps;
	bool read_only; /* a relay's: there are only observers, and nothing is vouched for */
	uint32_t predecessors; /* that may connect at once */
	uint32_t readers; /* places for each worker where it reads what another server commits */
	uint32_t peers_min; /* connections without which a server is of no use */
	uint32_t doorbells_min; /* that a peer may have unpolled */
	const struct ol_replica_host *host; /* NULL: its replica has nothing to ask for */
	/* Have weights, or wait for them; 0 or a code with a line in err */
	int (*open)(struct ol_server *server, char *err, size_t err_bytes);
	/* The epoch to serve in with weights of `from`, which are of `epoch` */
	uint32_t (*epoch)(const struct ol_server *server, enum ol_restore from, uint32_t epoch);
	/* What workers take the weights to be of, once epoch() has said so: all but the version */
	void (*history)(const struct ol_server *server, struct ol_vouched *ret_what);
	void (*on_ready)(struct ol_server *server, uint64_t now_ns);
	/* look() has work; one load */
	bool (*has_news)(const struct ol_server *server);
	void (*look)(struct ol_server *server, uint64_t now_ns);
	void (*tick)(struct ol_server *server, uint64_t now_ns);
	/* The newest version that this server may save, or as in save.h; NULL: it never has checkpoints */
	uint64_t (*saves)(const struct ol_server *server);
	/* Nobody can have taken this server's place, however long it stood still */
	bool (*is_last)(const struct ol_server *server);
};

/* alone.c, chain.c */
extern const struct ol_chain_kind ol_chain_alone, ol_chain_strict, ol_chain_periodic;

/* A version that another server made, for this one to publish. The memory is the owner's */
struct ol_relayed {
	uint64_t version;
	const void *table; /* head and applied table */
	const float *weights; /* of the shard */
	uint32_t epoch; /* what its readers take it to be of */
	uint64_t history;
};

/* Of a relay: relayed.c */
struct ol_relaying {
	struct ol_relayed next; /* belongs to the server's loop while it is offered */
	_Atomic int offered;
	int taken_fd; /* the owner's: gets a word when it was taken */
};

/* The next entry, as far as it is applied already, to a snapshot that is not published */
struct ol_entering {
	uint64_t version;
	uint64_t stamp; /* of its payload */
	uint64_t first; /* floats from here on are done */
	unsigned target; /* the snapshot */
};

struct ol_server {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_xport_caps caps;
	struct ol_server_opts opts; /* its strings are copies below or constants */
	char job_key[OL_JOB_KEY_MAX];
	char *tensors; /* owned; NULL: none */
	char addr[OL_XPORT_ADDR_MAX];
	uint64_t incarnation;
	const struct ol_chain_kind *kind;

	struct ol_slab *public_slab;
	struct ol_xport_region *public_region; /* readable on every connection */
	struct ol_store store;
	struct ol_voucher *voucher;
	struct ol_policy *policy;
	struct ol_memory memory;
	struct ol_pool *pool; /* NULL: the server's thread updates alone */
	struct ol_turn turn;
	struct ol_inbox inbox;

	struct ol_sessions sessions;
	struct ol_ingest ingest;
	struct ol_restoring restoring;
	struct ol_saving saving;
	struct ol_replica replica;
	struct ol_entering entering;
	struct ol_relaying relaying;
	uint64_t ordered; /* newest entry that this head made: the store has its norms */
	uint64_t
		founded_ns; /* it has found the first weights of a chain, which may take long; 0: it has not */

	int stop_fd;
	struct ol_owner owner; /* the process that opened it; any of its threads may run it */
	_Atomic int running; /* a thread is in ol_server_run() */
	_Atomic int stopping;
};

/* ol_serve_save -- a version was published, or committed, or it is time to look: save it if that is due */
static inline void ol_serve_save(struct ol_server *server, uint64_t now_ns)
{
	if (server->saving.writer != NULL)
		ol_save_progress(&server->saving, now_ns, server->kind->saves(server));
}

/* ol_serve_join -- give each part its pointers to the others; again when one changes */
void ol_serve_join(struct ol_server *server);
/* ol_serve_begin -- begin with first weights as opts say, or wait for them; 0 or a code with a line
 * in err */
int ol_serve_begin(struct ol_server *server, char *err, size_t err_bytes);
/* ol_serve_restore -- go on with restoring first weights, and begin when they are there */
void ol_serve_restore(struct ol_server *server, uint64_t now_ns);
/* ol_serve_welcome -- let a JOINED peer push and pull, if this server can serve it yet */
void ol_serve_welcome(struct ol_server *server, struct ol_session *session);
void ol_serve_welcome_all(struct ol_server *server);
/* ol_serve_end -- drop the peer and fence it out; why: for the log, NULL: it left. lies: it broke a
 * rule */
void ol_serve_end(struct ol_server *server, struct ol_session *session, const char *why, bool lies);
void ol_serve_end_all(struct ol_server *server);

#endif /* OL_SERVER_SERVE_H */
