/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_store.h -- what the embedded coordinator holds: sessions, members, views. No I/O, no clock
 *
 * Times are in nanoseconds of one clock, which never goes back. A session belongs to the store; its
 * owner is whatever speaks for its client.
 */
#ifndef OL_REPLICATION_COORD_STORE_H
#define OL_REPLICATION_COORD_STORE_H

#include "replication/coord/coord.h"

enum {
	OL_COORD_JOBS_MAX = 64,
	OL_COORD_SESSIONS_MAX = 4096,
	OL_COORD_LEASE_MS_MAX = 3600 * 1000, /* longer ones are cut to it */
};

struct ol_coord_store;
struct ol_coord_session;

/* Called by the functions below, before they return; none may call back into the store but to
 * look. A session without an owner is passed over. */
struct ol_coord_store_ops {
	/* the view (the members) of a shard that the owner's session watches have changed */
	void (*view_changed)(void *owner, uint32_t shard);
	void (*members_changed)(void *owner, uint32_t shard);
	/* the lease of its session ran out: the session is gone */
	void (*expired)(void *owner);
};

/* version_base: the versions of this store are above it. It must differ from that of any earlier
 * store whose versions somebody may still know. -ENOMEM */
int ol_coord_store_create(uint64_t version_base, const struct ol_coord_store_ops *ops,
			  struct ol_coord_store **ret_store);
void ol_coord_store_destroy(struct ol_coord_store *store);

/*
 * ol_coord_session_begin -- of a client that watches shards 0 … shard_count - 1 of a job
 *
 * Errors: -ENOSPC (sessions), -ENOBUFS (jobs), -ENOMEM
 */
int ol_coord_session_begin(struct ol_coord_store *store, const char *job, uint32_t shard_count,
			   uint32_t lease_ms, uint64_t now_ns, void *owner,
			   struct ol_coord_session **ret_session);
/* ol_coord_session_end -- at once: its member leaves */
void ol_coord_session_end(struct ol_coord_session *session);
/* ol_coord_session_orphan -- nobody speaks for it any more: it lives on until its lease is over */
void ol_coord_session_orphan(struct ol_coord_session *session);
/* ol_coord_session_renew -- its client was heard of now */
void ol_coord_session_renew(struct ol_coord_session *session, uint64_t now_ns);

/*
 * ol_coord_session_join -- register a member for as long as the session lives; one a session
 *
 * One that is registered under the same id is replaced: its process has a new session. Errors:
 * -EINVAL (shard), -EBUSY (the session has another), -ENOSPC (OL_MEMBERS_MAX), -ENOMEM
 */
int ol_coord_session_join(struct ol_coord_session *session, uint32_t shard,
			  const struct ol_member *member);

/*
 * ol_coord_session_propose -- replace the view of that version; 0: if there is none yet
 *
 * Errors: -ESTALE (another is in force), -EINVAL (shard; or the epoch is not above that in
 * force), -ENOMEM
 */
int ol_coord_session_propose(struct ol_coord_session *session, uint32_t shard, uint64_t version,
			     const struct ol_view *next);

/*
 * ol_coord_session_offer -- a view that an earlier coordinator held, from one who was there
 *
 * Taken if its epoch is above that in force. Its replicas then count as members for the lease of
 * this session even if they have not come back yet: they find the way as this one did. Errors:
 * -EEXIST (nothing new), -EINVAL (shard), -ENOMEM
 */
int ol_coord_session_offer(struct ol_coord_session *session, uint32_t shard,
			   const struct ol_view *view, uint64_t now_ns);

/* ol_coord_session_view -- NULL, and version 0: there is none. Valid until the next call. */
const struct ol_view *ol_coord_session_view(const struct ol_coord_session *session, uint32_t shard,
					    uint64_t *ret_version);
/* ol_coord_session_members -- how many; in the order in which they came */
uint32_t ol_coord_session_members(const struct ol_coord_session *session, uint32_t shard,
				  struct ol_member ret_members[OL_MEMBERS_MAX]);
const char *ol_coord_session_job(const struct ol_coord_session *session);

/* ol_coord_store_expire -- end what is over by now; returns when to call again at the latest,
 * UINT64_MAX: not before another call */
uint64_t ol_coord_store_expire(struct ol_coord_store *store, uint64_t now_ns);

#endif /* OL_REPLICATION_COORD_STORE_H */
