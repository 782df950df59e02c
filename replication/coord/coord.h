/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord.h -- where views live: sessions with a lease, get, compare-and-set, watch
 *
 * One handle a process and job. A thread of its own keeps the session, the registrations and a
 * local copy of what is watched up to date; callers never wait for the network but in open. Two
 * back ends, by the address:
 *
 *	"dir:PATH"                  a folder of this machine: a locked file is a member, for as
 *	                            long as its process lives, stopped or not
 *	"zk:HOST:PORT,HOST:PORT…"   a ZooKeeper ensemble: ephemeral nodes are the leases
 *
 * While the coordinator cannot be reached, the copy stays as it was and `connected` is false;
 * proposals are forgotten, registrations are made again when it is back.
 */
#ifndef OL_REPLICATION_COORD_COORD_H
#define OL_REPLICATION_COORD_COORD_H

#include "replication/view.h"

struct ol_coord;

enum {
	OL_COORD_JOB_MAX = 64, /* name of a job: letters, digits, '-', '_', '.' */
	OL_COORD_MAC_BYTES = 16,
};

/* Proof of a secret without knowing how: bytes in, OL_COORD_MAC_BYTES out; 0, or -EIO: there is
 * none. From any thread. */
typedef int ol_coord_mac_fn(void *arg, const void *bytes, size_t count,
			    uint8_t mac[OL_COORD_MAC_BYTES]);

struct ol_coord_opts {
	const char *addr;
	const char *job; /* jobs of different names do not see each other */
	uint32_t shard_count; /* 1 … 64 */
	uint64_t watched; /* a bit a shard: whose news are wanted; 0: of all */
	uint32_t lease_ms; /* ZooKeeper: silence until it ends the session; its members leave */
	bool lease_whole; /* an ensemble that grants shorter sessions is refused, with -EINVAL */
	uint32_t open_timeout_ms; /* until open gives up */
	ol_coord_mac_fn
		*mac; /* NULL: no secret. A folder asks for none: its owner and mode count */
	void *mac_arg;
	/* Called after a change of what look() gives, from the handle's thread; may be NULL. */
	void (*notify)(void *arg);
	void *notify_arg;
	/* True: open is to end with -ECANCELED. Called by open itself; may be NULL. */
	bool (*cancelled)(void *arg);
	void *cancelled_arg;
	/* Diagnostics, from the handle's thread; text has no newline. May be NULL. */
	void (*log)(void *arg, const char *text);
	void *log_arg;
};

/* What is known of one shard. */
struct ol_coord_state {
	uint64_t version; /* of the view, for propose(); 0: there is no view */
	struct ol_view view;
	uint32_t member_count;
	struct ol_member members[OL_MEMBERS_MAX]; /* registered, by a session that lives */
	bool connected;
	uint64_t lease_ns; /* CLOCK_MONOTONIC: the session is sure to live until then; 0: there is
			      none */
	uint64_t losses; /* sessions that ended: what was registered in them was gone, and may be
			    back by now */
};

/*
 * ol_coord_open -- reach the coordinator, begin a session
 *
 * Blocks: until it answers, or open_timeout_ms, or opts->cancelled() is true. Threading: any one
 * thread at a time.
 * Errors: -ETIMEDOUT (nobody answers), -ECANCELED, -EACCES (another secret), -ENOENT (no such
 * folder), -EPERM (a folder of others), -EIO, -EINVAL, -ENOMEM, with one line in err
 */
int ol_coord_open(const struct ol_coord_opts *opts, struct ol_coord **ret_coord, char *err,
		  size_t err_bytes);

/* ol_coord_close -- end the session: what it registered is gone at once; NULL is fine */
void ol_coord_close(struct ol_coord *coord);

/*
 * ol_coord_join -- offer a server for a shard, for as long as this handle has a session
 *
 * Again in every later session. One a handle. Blocks: never. Errors: -EINVAL, -EBUSY (done before)
 */
int ol_coord_join(struct ol_coord *coord, uint32_t shard, const struct ol_member *member);

/* ol_coord_generation -- goes up with every change of what look() gives, but for a lease that is
 * only renewed; one load */
uint64_t ol_coord_generation(const struct ol_coord *coord);

/* ol_coord_look -- a copy of what is known of a shard. Blocks: never for the network */
void ol_coord_look(struct ol_coord *coord, uint32_t shard, struct ol_coord_state *ret_state);

/*
 * ol_coord_propose -- replace the view of that version (0: none yet) by `next`
 *
 * Takes effect if nobody was quicker; either way what is then in force comes back as a change.
 * Blocks: never. Only the last proposal of a shard that was not yet sent is kept.
 */
void ol_coord_propose(struct ol_coord *coord, uint32_t shard, uint64_t version,
		      const struct ol_view *next);

#endif /* OL_REPLICATION_COORD_COORD_H */
