/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * replica.h -- a replica of a shard's chain: its neighbours, its ring, its part in views
 *
 *	replica.c      adopts views; carries out what the chain asks for
 *	membership.c   suspects replicas, and proposes the next view
 *	successor.c    the connection that this replica makes to its successor
 *	predecessor.c  messages of the predecessor, and the entries that it writes into the ring
 *	payload.c      the next entry's payload, as far as it is there
 *	ring.c         the memory that entries lie in
 *
 * The rules are in replication/chain.c; nothing here knows them. Weights and workers are the
 * server's, behind struct ol_replica_host.
 */
#ifndef OL_REPLICA_REPLICA_H
#define OL_REPLICA_REPLICA_H

#include <stdbool.h>

#include "base/log_rate.h"
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

/*
 * The payload of the next entry, of which the end is in the ring already: a head sums it up there,
 * others have it from their predecessor. It is forwarded and applied as far as it is there. Nothing of
 * that takes effect before the entry is.
 */
struct ol_payload {
	uint64_t version; /* of the entry; 0: nothing is known of a next one */
	uint64_t first; /* floats from here on are there */
	uint64_t stamp; /* which payload it is: a later one has a higher number */
};

/* What a replica needs from its server. Each function is called in the server's thread, with the
 * arg of struct ol_replica. */
struct ol_replica_host {
	/* What its checkpoints are to the chain that the coordinator has (state): into self, before this replica is
	 * registered. 0, or a code with a line in err */
	int (*folder)(void *arg, char *err, size_t err_bytes);
	/* The newest snapshot, for a joining successor to read */
	struct ol_replica_content (*content)(void *arg);
	/* Read the predecessor's snapshot, as its hello says; ol_replica_on_ready() follows */
	void (*load)(void *arg, const struct ol_chain_hello *hello, uint64_t now_ns);
	/* Put the entry into the weights: 0; -EAGAIN: not now */
	int (*apply)(void *arg, uint64_t version);
	/* Begin with that, as far as the payload is there */
	void (*apply_part)(void *arg, const struct ol_payload *payload);
	/* The entry is committed: tell the workers whose gradients are in it */
	void (*committed)(void *arg, uint64_t version);
	/* A view is adopted; was: the role before it */
	void (*viewed)(void *arg, enum ol_chain_role was);
	/* This replica founds the chain: find its first weights. 0, or a code with a line in err */
	int (*found)(void *arg, char *err, size_t err_bytes);
	/* The chain has progressed: waiting workers may be welcomed now */
	void (*progressed)(void *arg);
	/* End the predecessor's connection; why: for the log, NULL: no line. lies: the predecessor
	 * broke a rule. ol_predecessor_on_end() follows */
	void (*drop)(void *arg, const char *why, bool lies);
};

/* A payload of which a part was posted is void. Writes to the same memory that are in flight together
 * may land in any order, so it is written again only when the first writes have landed. */
enum ol_recall {
	OL_RECALL_NONE,
	OL_RECALL_DUE, /* the successor must be told */
	OL_RECALL_POSTED, /* it has been; the completion is awaited */
};

struct ol_successor {
	struct ol_dial dial; /* LIVE: it takes entries */
	struct ol_member member;
	int pinned; /* snapshot that it may read; -1: none */
	uint64_t pinned_version;
	bool told; /* it has acknowledged an entry on this link: it has weights */
	bool was_live; /* since it is the successor */
	uint64_t lost_ns; /* since when it has not been heard; 0: it is live, or none is wanted */
	uint64_t posted; /* bytes posted of the entry that is being forwarded */
	uint64_t sent_version; /* entry of which a part of the payload is posted; 0: none … */
	uint64_t sent_first; /* … from this float on */
	unsigned rung; /* parts of that */
	enum ol_recall recall;
	uint64_t newest; /* entry ever forwarded, to any successor: older ones count as resent */
};

enum ol_predecessor_state {
	OL_PREDECESSOR_NONE, /* not connected; memory for it may be registered already */
	OL_PREDECESSOR_ACCEPTED, /* it can write the ring, and has not sent its hello */
	OL_PREDECESSOR_JOINED, /* its hello is here, and waits for the view of its epoch */
	OL_PREDECESSOR_LIVE, /* it sends entries */
};

struct ol_predecessor {
	enum ol_predecessor_state state;
	struct ol_xport_conn *conn;
	const struct ol_memory_job *memory; /* registers the ring for it; NULL: it has not come */
	struct ol_chain_hello hello;
	struct ol_xport_rkey acks;
	struct ol_xport_rkey board_key;
	struct ol_watch watch;
	uint64_t missed_ns; /* since when it has not been connected */
	bool ack_due; /* periodic: the snapshot read last must be acknowledged */
};

/* A predecessor whose connection ended, and that may come back: this end calls it, to learn
 * whether its process lives. A call ends with the challenge. */
struct ol_lost {
	uint64_t id; /* 0: none */
	uint64_t since_ns; /* when it was heard last; an answer to a call counts */
	struct ol_dial call;
};

struct ol_replica {
	/* Set by the server before ol_replica_open() */
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
	uint64_t folder_history; /* of the checkpoint that self.folder_epoch is of; 0: not known */
	bool folder_warned; /* that this is another history than the chain's */
	/* Checkpoints of epochs from of_founded to of_epoch count only if they are of this history. 0: any do */
	uint64_t of_history;
	uint32_t of_founded;
	uint32_t of_epoch;
	struct ol_ring ring;
	bool periodic; /* the published design: no entries; successors read snapshots */

	int end_rc; /* why the server cannot go on; 0: it can */
	bool founds; /* it has begun to find the first weights of a history */
	struct ol_coord *coord;
	uint64_t generation; /* of coord, as last looked at */
	struct ol_coord_state state;
	struct ol_chain chain;
	struct ol_dialer dialer; /* of the connection to the successor */
	struct ol_successor succ;
	struct ol_predecessor pred;
	struct ol_lost lost;
	struct ol_payload payload;
	uint64_t stamps; /* of the newest payload */
	uint64_t void_stamp; /* what was done with payloads up to here is void */
	struct ol_slab *work; /* heartbeats as they were read */
	struct ol_xport_region *work_region;
	uint64_t suspects[2]; /* successor, predecessor: ids suspected to be dead in this view */
	uint64_t buried[OL_REPLICAS_MAX]; /* ids removed from a view: they cannot join again */
	uint32_t buried_next;
	uint64_t absent_ns[OL_REPLICAS_MAX]; /* when a replica of the view lost its session; 0: it
						has one */
	struct ol_view proposed; /* last */
	uint64_t proposed_version; /* that it should get */
	uint64_t proposed_ns; /* when */
	uint64_t losses; /* of sessions, as last counted while this server had nothing at stake */
	uint64_t load_ns; /* when reading the predecessor's snapshot began */
	uint64_t adopted_ns; /* when the view in force was adopted */
	uint64_t waiting_ns; /* when the log last had a line that it waits for a view */
	bool strangers; /* members of another job were logged */
	struct ol_log_rate breaks; /* log lines about neighbours that are lost, and back */
	bool contradicted; /* a coordinator that lost its memory was logged */
	uint64_t now_ns; /* of the event that is handled */
};

enum ol_neighbour {
	OL_NEIGHBOUR_SUCCESSOR,
	OL_NEIGHBOUR_PREDECESSOR
};

enum {
	OL_REPLICA_COOKIE_BEAT = 100, /* a neighbour's heartbeat was read; others are the host's */
	OL_REPLICA_COOKIE_RECALL, /* what was written to the successor before has landed */
};

/* replica.c */
/* ol_replica_open -- reach the coordinator, register this server; 0 or a code with a line in err */
int ol_replica_open(struct ol_replica *replica, char *err, size_t err_bytes);
/* ol_replica_leave -- this server is registered no more: the next view is without it */
void ol_replica_leave(struct ol_replica *replica);
/* ol_replica_close -- undo ol_replica_open(), and close the ring if there is one */
void ol_replica_close(struct ol_replica *replica);
/* ol_replica_end -- the server will end with rc, after the present event; OL_REPLICA_LEFT: an operator
 * has taken it out of the chain, which is no failure */
enum {
	OL_REPLICA_LEFT = 1
};
void ol_replica_end(struct ol_replica *replica, int rc);
/* ol_replica_has_news -- the coordinator's state may have changed; one load */
bool ol_replica_has_news(const struct ol_replica *replica);
/* ol_replica_view_read -- adopt a new view if there is one; cheap when nothing has changed */
void ol_replica_view_read(struct ol_replica *replica, uint64_t now_ns);
void ol_replica_tick(struct ol_replica *replica, uint64_t now_ns);
/* ol_replica_on_ready -- the server has weights, of `version` */
void ol_replica_on_ready(struct ol_replica *replica, uint64_t version, uint64_t now_ns);
/* ol_replica_progress -- carry out the actions that the chain asks for */
void ol_replica_progress(struct ol_replica *replica, uint64_t now_ns);
/* ol_replica_waits -- the chain has an action left, which needs no further event */
bool ol_replica_waits(const struct ol_replica *replica);
/* ol_replica_lease_check -- with refound: end the server if its lease is over */
void ol_replica_lease_check(struct ol_replica *replica, uint64_t now_ns);
/* ol_replica_is_leased -- the lease still holds, so a commit now is safe; false: the server ends.
 * Asked again before a commit, as a turn may have taken long since the last tick */
bool ol_replica_is_leased(struct ol_replica *replica);
/* ol_replica_serves -- a peer of this role may be welcomed now */
bool ol_replica_serves(const struct ol_replica *replica, enum ol_wire_role role);
/* ol_replica_watch -- read a neighbour's heartbeat. DOUBT: the connection is to be made anew; SILENT,
 * STILL: the neighbour is suspected */
enum ol_watch_says ol_replica_watch(struct ol_replica *replica, enum ol_neighbour who,
				    struct ol_xport_conn *conn, struct ol_xport_rkey board,
				    uint64_t now_ns);
void ol_replica_on_beat(struct ol_replica *replica, enum ol_neighbour who, int status,
			uint64_t now_ns);

/* ol_replica_lease_ns -- the time after which a neighbour that is not heard is suspected */
uint64_t ol_replica_lease_ns(const struct ol_replica *replica);
/* ol_replica_gave_up -- an attempt to reach a neighbour has taken so long that the next is better */
bool ol_replica_gave_up(const struct ol_replica *replica, const struct ol_dial *dial,
			uint64_t now_ns);

/* membership.c */
/* ol_membership_is_same_job -- is it of this job and build? */
bool ol_membership_is_same_job(const struct ol_replica *replica, const struct ol_member *member);
/* ol_membership_on_view -- called before the view is adopted: notes who was removed, and drops
 * suspicions that no longer hold */
void ol_membership_on_view(struct ol_replica *replica, const struct ol_view *next);
/* ol_membership_caught_up -- id of the joining replica, if it can be a full one; else 0 */
uint64_t ol_membership_caught_up(const struct ol_replica *replica);
/* ol_membership_propose -- propose the next view, if it differs from the one in force */
void ol_membership_propose(struct ol_replica *replica, uint64_t now_ns);
/* ol_membership_is_gone -- its registration has ended, in a folder, so its process has */
bool ol_membership_is_gone(const struct ol_replica *replica, uint64_t id);
/* ol_membership_suspect -- a neighbour seems dead: the next view should be without it. why NULL:
 * its process has closed the connection, or died */
void ol_membership_suspect(struct ol_replica *replica, enum ol_neighbour who, const char *why,
			   uint64_t now_ns);

/* successor.c */
void ol_successor_connect(struct ol_replica *replica, const struct ol_member *member,
			  uint64_t now_ns);
void ol_successor_drop(struct ol_replica *replica);
/* ol_successor_on_event -- an event of its connection. True: the next entry may have room */
bool ol_successor_on_event(struct ol_replica *replica, const struct ol_xport_event *event,
			   uint64_t now_ns);
void ol_successor_tick(struct ol_replica *replica, uint64_t now_ns);
/* ol_successor_offer -- periodic: decide whether a snapshot is due, and the successor free to read
 * it; then offer the newest */
void ol_successor_offer(struct ol_replica *replica, uint64_t now_ns);
/* ol_successor_forward -- post an entry; 0 or -EAGAIN */
int ol_successor_forward(struct ol_replica *replica, uint64_t version);
/* ol_successor_part -- post what is there of the payload, if it is enough for a part; a hint */
void ol_successor_part(struct ol_replica *replica);
/* ol_successor_pinned -- snapshots that a joining successor reads, as a mask */
unsigned ol_successor_pinned(const struct ol_replica *replica);

/* payload.c */
/* ol_payload_first -- the next entry's payload is there from this float on; shard_len: nothing is */
uint64_t ol_payload_first(const struct ol_replica *replica);
/* ol_payload_made -- the head makes the next entry's payload: it is there from float `first` on */
void ol_payload_made(struct ol_replica *replica, uint64_t first);
/* ol_payload_drop -- the payload is void, and so is one whose entry is whole but not yet passed on: another
 * may come in its place */
void ol_payload_drop(struct ol_replica *replica);
/* ol_payload_on_bell -- arg of OL_BELL_ENTRY_PART. NULL; or the part's fault */
const char *ol_payload_on_bell(struct ol_replica *replica, uint32_t arg);
/* ol_payload_progress -- forward and apply what is there */
void ol_payload_progress(struct ol_replica *replica);
/* ol_payload_part -- floats that are worth a bell */
uint64_t ol_payload_part(const struct ol_replica *replica);

/* predecessor.c */
/* ol_predecessor_on_accept -- a peer that claims to be the predecessor can write the ring now */
void ol_predecessor_on_accept(struct ol_replica *replica, struct ol_xport_conn *conn);
void ol_predecessor_on_bell(struct ol_replica *replica, uint32_t imm, uint64_t now_ns);
/* ol_predecessor_on_down -- its connection broke, so it is called; the host ends the connection next */
void ol_predecessor_on_down(struct ol_replica *replica, int status, uint64_t now_ns);
/* ol_predecessor_on_call -- an event of the call to a predecessor that was lost */
void ol_predecessor_on_call(struct ol_replica *replica, const struct ol_xport_event *event,
			    uint64_t now_ns);
/* ol_predecessor_forget -- call a lost predecessor no more */
void ol_predecessor_forget(struct ol_replica *replica);
/* ol_predecessor_on_end -- its connection is gone: the ring that it could write is replaced */
void ol_predecessor_on_end(struct ol_replica *replica);
/* ol_predecessor_drop -- fence the predecessor off */
void ol_predecessor_drop(struct ol_replica *replica);
/* ol_predecessor_tick -- judge a hello that waits for a view; watch the heartbeat */
void ol_predecessor_tick(struct ol_replica *replica, uint64_t now_ns);
/* ol_predecessor_ack -- tell the predecessor which slots are free; 0 or -EAGAIN */
int ol_predecessor_ack(struct ol_replica *replica, uint64_t version);

#endif /* OL_REPLICA_REPLICA_H */
