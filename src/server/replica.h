/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * replica.h -- a server as a replica of its shard's chain
 *
 *	replica.c      views come in and are adopted; what the chain asks for is done
 *	membership.c   who should be in the chain: suspicion, and the next view
 *	entries.c      what the chain decides, done: forward, apply, commit, acknowledge
 *	successor.c    the connection that this replica makes to its successor
 *	predecessor.c  the session of its predecessor, which writes entries into the ring
 *
 * What may happen when is decided in replication/chain.c; nothing here knows the rules.
 */
#ifndef OL_SERVER_REPLICA_H
#define OL_SERVER_REPLICA_H

#include <stdbool.h>

#include "link/dial.h"
#include "rdma/transport.h"
#include "replication/chain.h"
#include "replication/coord/coord.h"
#include "server/ring.h"
#include "wire/wire.h"

struct ol_server;
struct ol_session;

struct ol_successor {
	struct ol_dial dial; /* LIVE: it takes entries */
	struct ol_member member;
	int pinned; /* snapshot that it may read; -1: none */
	uint64_t pinned_version;
	bool told; /* it has acknowledged something on this link: it has weights */
	uint64_t posted; /* bytes of the entry that is being forwarded */
	uint64_t newest; /* entry ever forwarded, to whomever: older ones are sent again */
};

struct ol_predecessor {
	struct ol_session *session; /* NULL: none is connected */
	uint64_t missed_ns; /* since when it has not been connected */
	bool ack_due; /* periodic: of what was read last */
	struct ol_xport_rkey board_key;
	struct ol_watch watch;
};

struct ol_replica {
	bool on; /* false: a server by itself; nothing here is used */
	bool periodic; /* the published design: no entries; the state goes down now and then */
	struct ol_coord *coord;
	struct ol_member self;
	uint64_t generation; /* of coord, as last looked at */
	struct ol_coord_state state;
	struct ol_chain chain;
	struct ol_ring ring;
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

/* replica.c */
/* ol_replica_open -- reach the coordinator, offer this server; 0 or a code with a line in err */
int ol_replica_open(struct ol_server *server, char *err, size_t err_bytes);
void ol_replica_close(struct ol_server *server);
/* ol_replica_news -- what the coordinator says may have changed; one load */
bool ol_replica_news(const struct ol_server *server);
/* ol_replica_look -- adopt a new view if there is one; cheap when nothing has changed */
void ol_replica_look(struct ol_server *server, uint64_t now_ns);
void ol_replica_tick(struct ol_server *server, uint64_t now_ns);
/* ol_replica_on_ready -- the weights are there */
void ol_replica_on_ready(struct ol_server *server, uint64_t now_ns);
/* ol_replica_progress -- do what the chain asks for, and let in whom it serves */
void ol_replica_progress(struct ol_server *server, uint64_t now_ns);
/* ol_replica_waits -- the chain asks for something, without another event */
bool ol_replica_waits(const struct ol_server *server);
/* ol_replica_strict -- what is pushed goes down a chain before it is acknowledged */
bool ol_replica_strict(const struct ol_server *server);
/* ol_replica_lease_check -- with refound: end the server if its lease is over */
void ol_replica_lease_check(struct ol_server *server, uint64_t now_ns);
/* ol_replica_serves -- a session of this role may be welcomed now */
bool ol_replica_serves(const struct ol_server *server, enum ol_wire_role role);
/* ol_replica_watch -- read a neighbour's heartbeat; true: it has stood still for the lease */
bool ol_replica_watch(struct ol_server *server, enum ol_neighbour who, struct ol_xport_conn *conn,
		      struct ol_xport_rkey board, uint64_t now_ns);
void ol_replica_on_beat(struct ol_server *server, enum ol_neighbour who, int status,
			uint64_t now_ns);

/* membership.c */
/* ol_membership_ours -- is it of this job and build? */
bool ol_membership_ours(const struct ol_server *server, const struct ol_member *member);
/* ol_membership_on_view -- before it is adopted: who is no longer in it, and who is suspected still */
void ol_membership_on_view(struct ol_replica *replica, const struct ol_view *next);
/* ol_membership_caught_up -- id of the one that joins, if it can be a full replica; else 0 */
uint64_t ol_membership_caught_up(const struct ol_replica *replica);
/* ol_membership_propose -- the next view, if it is another than the one in force */
void ol_membership_propose(struct ol_server *server, uint64_t now_ns);
/* ol_membership_suspect -- a neighbour is taken for dead: the next view should be without it. why:
 * NULL: its process has closed the connection, or died */
void ol_membership_suspect(struct ol_server *server, enum ol_neighbour who, const char *why,
			   uint64_t now_ns);

/* entries.c */
/* ol_entry_apply -- put it into the weights; 0 or -EAGAIN: not now */
int ol_entry_apply(struct ol_server *server, uint64_t version);
/* ol_entry_commit -- tell the workers whose gradients are in it */
void ol_entry_commit(struct ol_server *server, uint64_t version);
/* ol_entry_ack -- tell the predecessor which slots are free; 0, -EAGAIN, or OL_E_FENCED */
int ol_entry_ack(struct ol_server *server, uint64_t version);
/* ol_entry_order -- the batch becomes an entry; false: not now */
bool ol_entry_order(struct ol_server *server, uint64_t now_ns);
/* ol_entry_leased -- what is committed now is committed within the lease; false: the server ends.
 * A turn may have taken long since the last tick */
bool ol_entry_leased(struct ol_server *server);
/* ol_entries_post_max -- doorbells that a neighbour may have unpolled */
uint32_t ol_entries_post_max(const struct ol_ring *ring);

/* successor.c */
void ol_successor_connect(struct ol_server *server, const struct ol_member *member,
			  uint64_t now_ns);
void ol_successor_drop(struct ol_server *server);
void ol_successor_on_event(struct ol_server *server, const struct ol_xport_event *event,
			   uint64_t now_ns);
void ol_successor_tick(struct ol_server *server, uint64_t now_ns);
/* ol_successor_offer -- periodic: give it the newest version, if it is time and it is free */
void ol_successor_offer(struct ol_server *server, uint64_t now_ns);
/* ol_successor_forward -- post an entry; 0 or -EAGAIN */
int ol_successor_forward(struct ol_server *server, uint64_t version);
/* ol_successor_pinned -- snapshots that a joining successor reads, as a mask */
unsigned ol_successor_pinned(const struct ol_server *server);

/* predecessor.c */
void ol_predecessor_on_hello(struct ol_server *server, struct ol_session *session, uint64_t now_ns);
void ol_predecessor_on_entry(struct ol_server *server, struct ol_session *session, uint32_t slot,
			     uint64_t now_ns);
/* ol_predecessor_on_end -- its session is gone: the ring that it could write is replaced */
void ol_predecessor_on_end(struct ol_server *server, struct ol_session *session);
/* ol_predecessor_drop -- fence it off */
void ol_predecessor_drop(struct ol_server *server);
/* ol_predecessor_tick -- those that said hello before this replica had adopted the view */
void ol_predecessor_tick(struct ol_server *server, uint64_t now_ns);
int ol_predecessor_ack(struct ol_server *server, uint64_t version);

#endif /* OL_SERVER_REPLICA_H */
