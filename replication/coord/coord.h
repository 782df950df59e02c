/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord.h -- where views live: sessions with a lease, get, compare-and-set, watch
 *
 * One handle a process and job. A thread of its own keeps the session, the registrations and a
 * local copy of the watched shards up to date; callers wait for the network only in open. The
 * address selects one of two back ends:
 *
 *	"dir:PATH"                  a folder of this machine: a locked file is a member, for as
 *	                            long as its process lives, stopped or not
 *	"zk:HOST:PORT,HOST:PORT…"   a ZooKeeper ensemble: ephemeral nodes are the leases
 *
 * While the coordinator cannot be reached, the copy stays as it was and `connected` is false.
 * Proposals are forgotten. The handle registers again when the coordinator is back.
 */
#ifndef OL_REPLICATION_COORD_COORD_H
#define OL_REPLICATION_COORD_COORD_H

#include "replication/view.h"

struct ol_coord;

enum {
	OL_COORD_JOB_MAX = 64, /* name of a job: letters, digits, '-', '_', '.' */
	OL_COORD_MAC_BYTES = 16,
};

/* Computes a proof of the job's secret over `bytes`; the secret is the caller's. 0, -EIO,
 * or -EPERM: the caller does not have it. Called from any thread. */
typedef int ol_coord_mac_fn(void *arg, const void *bytes, size_t count,
			    uint8_t mac[OL_COORD_MAC_BYTES]);

struct ol_coord_opts {
	const char *addr;
	const char *job; /* jobs of different names do not see each other */
	uint32_t shard_count; /* 1 … 64 */
	uint64_t watched; /* a bit for each shard to watch; 0: all */
	uint32_t lease_ms; /* ZooKeeper: silence until it ends the session and its registration */
	bool lease_whole; /* an ensemble that grants shorter sessions is refused, with -EINVAL */
	uint32_t open_timeout_ms; /* until open gives up */
	/*
	 * Of the secret of all who may read, and of the one of those who may also write: servers. With
	 * mac alone, or an owner_mac that fails with -EPERM, the handle reads, and waits until another
	 * has begun the job. Both NULL: no secret. A folder needs none: its owner and mode protect it
	 */
	ol_coord_mac_fn *mac;
	ol_coord_mac_fn *owner_mac;
	void *mac_arg; /* of both */
	bool keyless; /* everybody has that secret: a user that the address names guards instead */
	/* Called from the handle's thread when ol_coord_look() would give something new; may be
	   NULL. */
	void (*notify)(void *arg);
	void *notify_arg;
	/* Called by open; true: open ends with -ECANCELED. May be NULL. */
	bool (*cancelled)(void *arg);
	void *cancelled_arg;
	/* Diagnostics, from the handle's thread; text has no newline. May be NULL. */
	void (*log)(void *arg, const char *text);
	void *log_arg;
};

/* The known state of one shard. */
struct ol_coord_state {
	uint64_t version; /* of the view, for ol_coord_propose(); 0: no view */
	struct ol_view view;
	uint32_t member_count;
	/* Registered by live sessions. In a directory never older than the view: a replica of the
	 * view that is no member has ended. An ensemble does not promise that. */
	struct ol_member members[OL_MEMBERS_MAX];
	bool connected;
	uint64_t lease_ns; /* CLOCK_MONOTONIC: the session lives at least until then; 0: no
			      session; UINT64_MAX: for the process's life */
	uint64_t losses; /* sessions that ended, with their registrations; they may be back */
};

/* ol_coord_is_lost -- the coordinator has lost the job, or it was removed: nothing changes any more */
static inline bool ol_coord_is_lost(const struct ol_coord_state *state)
{
	return !state->connected && state->lease_ns == UINT64_MAX;
}

/*
 * ol_coord_open -- reach the coordinator, begin a session
 *
 * Blocks: until it answers, or open_timeout_ms, or opts->cancelled() is true. Threading: any one
 * thread at a time.
 * Errors: -ETIMEDOUT (no answer), -ECANCELED, -EACCES (another secret), -ENOENT (no such
 * folder), -EPERM (another user's folder), -EIO, -EINVAL, -ENOMEM, with one line in err
 */
int ol_coord_open(const struct ol_coord_opts *opts, struct ol_coord **ret_coord, char *err,
		  size_t err_bytes);

/* ol_coord_close -- end the session, and with it its registration; NULL is fine */
void ol_coord_close(struct ol_coord *coord);

/*
 * ol_coord_join -- register a server for a shard, in this session and every later one
 *
 * One server a handle. Blocks: never. Errors: -EINVAL, -EBUSY (done before)
 */
int ol_coord_join(struct ol_coord *coord, uint32_t shard, const struct ol_member *member);

/* ol_coord_generation -- goes up with every change that ol_coord_look() would show, except a
 * renewed lease; one load */
uint64_t ol_coord_generation(const struct ol_coord *coord);

/* ol_coord_look -- copy the known state of a shard. Blocks: never for the network */
void ol_coord_look(struct ol_coord *coord, uint32_t shard, struct ol_coord_state *ret_state);

/*
 * ol_coord_propose -- replace the view of that version (0: none yet) by `next`
 *
 * Takes effect unless another proposal did before. Either way the view then in force is reported
 * as a change.
 * Blocks: never. Of the proposals for a shard that are not yet sent, only the last is kept.
 */
void ol_coord_propose(struct ol_coord *coord, uint32_t shard, uint64_t version,
		      const struct ol_view *next);

#endif /* OL_REPLICATION_COORD_COORD_H */
