/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * replica.h -- a replica of a shard's chain: its neighbours, its ring, its part in views
 *
 *	replica.c      views come in and are adopted; what the chain asks for is done
 *	membership.c   who should be in the chain: suspicion, and the next view
 *	successor.c    the connection that this replica makes to its successor
 *	predecessor.c  what the predecessor says, and the entries that it writes into the ring
 *	ring.c         the memory that entries lie in
 *
 * What may happen when is decided in replication/chain.c; nothing here knows the rules. What holds
 * weights and workers is elsewhere, behind struct ol_replica_host.
 */
#ifndef OL_REPLICA_REPLICA_H
#define OL_REPLICA_REPLICA_H

#include <stdbool.h>

#include "base/turn.h"
#include "link/dial.h"
#include "outlast_server.h"
#include "rdma/transport.h"
#include "replica/ring.h"
#include "replication/chain.h"
#include "replication/coord/coord.h"
#include "wire/wire.h"

/* A published snapshot */
struct ol_replica_content {
	uint64_t version;
	uint32_t snapshot;
};

/* What a replica needs from the server that it is a part of. Each is called in the server's thread,
 * with the arg of struct ol_replica. */
struct ol_replica_host {
	/* The newest snapshot: a successor that joins reads it */
	struct ol_replica_content (*content)(void *arg);
	/* Read the predecessor's snapshot, as its hello says; ol_replica_on_ready() follows */
	void (*load)(void *arg, const struct ol_chain_hello *hello, uint64_t now_ns);
	/* Put the entry into the weights: 0, or -EAGAIN: not now */
	int (*apply)(void *arg, uint64_t version);
	/* The entry is committed: tell the workers whose gradients are in it */
	void (*committed)(void *arg, uint64_t version);
	/* A view is adopted: the role was another one before it */
	void (*viewed)(void *arg, enum ol_chain_role was);
	/* This replica founds the chain: it begins with what it can find. 0; or why it cannot */
	int (*found)(void *arg, char *err, size_t err_bytes);
	/* The chain has moved: workers who wait may be served now */
	void (*progressed)(void *arg);
	/* End the predecessor's connection; why: for the log, NULL: nothing is to be said. lies: it
	 * broke a rule. ol_predecessor_on_end() follows */
	void (*drop)(void *arg, const char *why, bool lies);
};

struct ol_successor {
	struct ol_dial dial; /* LIVE: it takes entries */
	struct ol_member member;
	int pinned; /* snapshot that it may read; -1: none */
	uint64_t pinned_version;
	bool told; /* it has acknowledged something on this link: it has weights */
	uint64_t posted; /* bytes of the entry that is being forwarded */
	uint64_t newest; /* entry ever forwarded, to whomever: older ones are sent again */
};

enum ol_predecessor_state {
	OL_PREDECESSOR_NONE, /* none is connected; the memory of one may be made */
	OL_PREDECESSOR_ACCEPTED, /* it can write the ring, and has not said hello */
	OL_PREDECESSOR_JOINED, /* has said hello, which waits for the view that it is of */
	OL_PREDECESSOR_LIVE, /* entries come */
};

struct ol_predecessor {
	enum ol_predecessor_state state;
	struct ol_xport_conn *conn;
	const struct ol_memory_job *memory; /* registers the ring for it; NULL: nobody has come */
	struct ol_chain_hello hello;
	struct ol_xport_rkey acks;
	struct ol_xport_rkey board_key;
	struct ol_watch watch;
	uint64_t missed_ns; /* since when it has not been connected */
	bool ack_due; /* periodic: of what was read last */
};

struct ol_replica {
	/* What it is given before ol_replica_open() */
	const struct ol_replica_host *host;
	void *arg;
	const struct ol_server_opts *opts;
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_xport_region *public_region; /* the snapshots, and the board */
	struct ol_board *board;
	const struct ol_geometry *geo;
	const char *addr; /* of this server */
	char *job_key;
	struct ol_inbox *inbox;
	struct ol_turn *turn;
	uint32_t inline_max;
	int node;
	int wake_fd; /* written to when the coordinator has news */
	struct ol_member self;
	struct ol_ring ring;
	bool periodic; /* the published design: no entries; the state goes down now and then */

	int end_rc; /* why the server cannot go on; 0: it can */
	struct ol_coord *coord;
	uint64_t generation; /* of coord, as last looked at */
	struct ol_coord_state state;
	struct ol_chain chain;
	struct ol_dialer dialer; /* of the connection to the successor */
	struct ol_successor succ;
	struct ol_predecessor pred;
	struct ol_slab *work; /* heartbeats as they were read */
	struct ol_xport_region *work_region;
	uint64_t suspects[2]; /* successor, predecessor: ids that are taken for dead in this view */
	uint64_t buried[OL_REPLICAS_MAX]; /* ids that were in a view and are no longer: a process
					     has one life in a chain */
	uint32_t buried_next;
	uint64_t absent_ns[OL_REPLICAS_MAX]; /* since when a replica of the view has no session; 0:
						it has one */
	struct ol_view proposed; /* last, and to replace which version, when */
	uint64_t proposed_version;
	uint64_t proposed_ns;
	uint64_t losses; /* of sessions, while this server had nothing at stake */
	uint64_t load_ns; /* when reading the predecessor's snapshot began */
	uint64_t adopted_ns; /* the view in force */
	uint64_t waiting_ns; /* last said that it waits for a view */
	bool strangers; /* in the coordinator; were told of */
	bool contradicted; /* by the coordinator's view; was told of */
	uint64_t now_ns; /* of the event that is handled */
};

enum ol_neighbour {
	OL_NEIGHBOUR_SUCCESSOR,
	OL_NEIGHBOUR_PREDECESSOR
};

enum {
	OL_REPLICA_COOKIE_BEAT =
		100, /* a neighbour's heartbeat was read: other cookies are the host's */
};

/* replica.c */
/* ol_replica_open -- reach the coordinator, offer this server; 0 or a code with a line in err */
int ol_replica_open(struct ol_replica *replica, char *err, size_t err_bytes);
/* ol_replica_close -- what was opened, and the ring if there is one */
void ol_replica_close(struct ol_replica *replica);
/* ol_replica_end -- the server ends with rc, once what is being done is done */
void ol_replica_end(struct ol_replica *replica, int rc);
/* ol_replica_has_news -- what the coordinator says may have changed; one load */
bool ol_replica_has_news(const struct ol_replica *replica);
/* ol_replica_view_read -- adopt a new view if there is one; cheap when nothing has changed */
void ol_replica_view_read(struct ol_replica *replica, uint64_t now_ns);
void ol_replica_tick(struct ol_replica *replica, uint64_t now_ns);
/* ol_replica_on_ready -- there are weights, of `version` */
void ol_replica_on_ready(struct ol_replica *replica, uint64_t version, uint64_t now_ns);
/* ol_replica_progress -- do what the chain asks for */
void ol_replica_progress(struct ol_replica *replica, uint64_t now_ns);
/* ol_replica_waits -- the chain asks for something, without another event */
bool ol_replica_waits(const struct ol_replica *replica);
/* ol_replica_lease_check -- with refound: end the server if its lease is over */
void ol_replica_lease_check(struct ol_replica *replica, uint64_t now_ns);
/* ol_replica_is_leased -- what is committed now is committed within the lease; false: the server
 * ends. A turn may have taken long since the last tick */
bool ol_replica_is_leased(struct ol_replica *replica);
/* ol_replica_serves -- a peer of this role may be welcomed now */
bool ol_replica_serves(const struct ol_replica *replica, enum ol_wire_role role);
/* ol_replica_watch -- read a neighbour's heartbeat; true: it has stood still for the lease */
bool ol_replica_watch(struct ol_replica *replica, enum ol_neighbour who, struct ol_xport_conn *conn,
		      struct ol_xport_rkey board, uint64_t now_ns);
void ol_replica_on_beat(struct ol_replica *replica, enum ol_neighbour who, int status,
			uint64_t now_ns);

/* membership.c */
/* ol_membership_is_same_job -- is it of this job and build? */
bool ol_membership_is_same_job(const struct ol_replica *replica, const struct ol_member *member);
/* ol_membership_on_view -- before it is adopted: who is no longer in it, and who is suspected still */
void ol_membership_on_view(struct ol_replica *replica, const struct ol_view *next);
/* ol_membership_caught_up -- id of the one that joins, if it can be a full replica; else 0 */
uint64_t ol_membership_caught_up(const struct ol_replica *replica);
/* ol_membership_propose -- the next view, if it is another than the one in force */
void ol_membership_propose(struct ol_replica *replica, uint64_t now_ns);
/* ol_membership_suspect -- a neighbour is taken for dead: the next view should be without it. why:
 * NULL: its process has closed the connection, or died */
void ol_membership_suspect(struct ol_replica *replica, enum ol_neighbour who, const char *why,
			   uint64_t now_ns);

/* successor.c */
void ol_successor_connect(struct ol_replica *replica, const struct ol_member *member,
			  uint64_t now_ns);
void ol_successor_drop(struct ol_replica *replica);
/* ol_successor_on_event -- of its connection. True: there may be room for the next entry */
bool ol_successor_on_event(struct ol_replica *replica, const struct ol_xport_event *event,
			   uint64_t now_ns);
void ol_successor_tick(struct ol_replica *replica, uint64_t now_ns);
/* ol_successor_offer -- periodic: give it the newest version, if it is time and it is free */
void ol_successor_offer(struct ol_replica *replica, uint64_t now_ns);
/* ol_successor_forward -- post an entry; 0 or -EAGAIN */
int ol_successor_forward(struct ol_replica *replica, uint64_t version);
/* ol_successor_pinned -- snapshots that a joining successor reads, as a mask */
unsigned ol_successor_pinned(const struct ol_replica *replica);

/* predecessor.c */
/* ol_predecessor_on_accept -- a peer that says that it is the predecessor can write the ring */
void ol_predecessor_on_accept(struct ol_replica *replica, struct ol_xport_conn *conn);
void ol_predecessor_on_bell(struct ol_replica *replica, uint32_t imm, uint64_t now_ns);
/* ol_predecessor_on_down -- its connection broke; the host ends it next */
void ol_predecessor_on_down(struct ol_replica *replica, int status, uint64_t now_ns);
/* ol_predecessor_on_end -- its connection is gone: the ring that it could write is replaced */
void ol_predecessor_on_end(struct ol_replica *replica);
/* ol_predecessor_drop -- fence it off */
void ol_predecessor_drop(struct ol_replica *replica);
/* ol_predecessor_tick -- one that said hello before this replica had adopted the view */
void ol_predecessor_tick(struct ol_replica *replica, uint64_t now_ns);
/* ol_predecessor_ack -- tell it which slots are free; 0 or -EAGAIN */
int ol_predecessor_ack(struct ol_replica *replica, uint64_t version);

#endif /* OL_REPLICA_REPLICA_H */
