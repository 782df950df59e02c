/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zk.h -- what the parts of the ZooKeeper back end share
 *
 *	zookeeper.c   sessions, the thread
 *	zk_address.h  the address, users and rights
 *	zk_view.c     views: read, watched, proposed
 *	zk_member.c   members: the same, and our own one
 *	zk_event.c    the library's callbacks, which only queue their arguments
 *
 * One thread of this back end does all work, so only the queue has a lock. Much of the code relies
 * on this: ZooKeeper answers requests in the order in which they were made.
 */
#ifndef OL_REPLICATION_COORD_ZOOKEEPER_ZK_H
#define OL_REPLICATION_COORD_ZOOKEEPER_ZK_H

#include <pthread.h>

#include "replication/coord/zookeeper/zk_address.h"

enum {
	ZK_PATH_MAX = ZK_CHROOT_MAX + 160,
	ZK_FOLDER_MAX = ZK_CHROOT_MAX + sizeof("/outlast"),
	ZK_ROOT_MAX = ZK_FOLDER_MAX + 1 + OL_COORD_JOB_MAX,
};

#define ZK_NS_PER_MS UINT64_C(1000000)
#define ZK_NS_PER_S  UINT64_C(1000000000)

enum zk_kind {
	ZK_SESSION, /* its state has changed */
	ZK_ACCESS, /* answer: who has access to the job */
	ZK_MADE, /* answer: a folder */
	ZK_VIEW, /* answer: the view */
	ZK_NO_VIEW, /* answer: whether there is really none */
	ZK_VIEW_MOVED, /* watch */
	ZK_VIEW_SYNCED, /* answer: later reads are not older than the leader's state was */
	ZK_MEMBERS, /* answer: their names */
	ZK_MEMBERS_MOVED, /* watch */
	ZK_MEMBER, /* answer: one of them */
	ZK_PROPOSED, /* answer */
	ZK_JOINED, /* answer: our own member is made */
	ZK_OWNER, /* answer: the session that owns our member's node */
	ZK_LEFT, /* answer: our member is gone */
	ZK_SIGN, /* answer to a sign of life */
	ZK_KINDS,
};

struct zk;

/* The library hands it back with an answer. Lives as long as the back end. */
struct zk_ref {
	struct zk *zk;
	enum zk_kind kind;
	uint32_t shard;
	uint32_t slot; /* of a member that is read */
};

struct zk_event {
	struct zk_event *next;
	const struct zk_ref *ref;
	int rc; /* the library's */
	int64_t created; /* zxid that made the node of the view */
	int64_t number; /* state of the session; zxid of the view; owner; bits of enum zk_list */
	uint64_t version; /* of the view, ours */
	size_t bytes;
	uint8_t data[]; /* text, or members' ids */
};

struct zk_member {
	uint64_t id;
	bool usable; /* its text is a valid member */
	struct ol_member member;
};

struct zk_members {
	uint32_t count;
	struct zk_member of[OL_MEMBERS_MAX];
};

struct zk_shard {
	struct zk_ref refs[ZK_KINDS];
	struct zk_ref slots[OL_MEMBERS_MAX];
	bool made; /* its folders, in this session */
	bool view_busy; /* is being read */
	bool view_again; /* must be read once more */
	bool view_known; /* was given to the handle */
	bool view_news; /* give it to the handle even if it is the same: a caller proposed */
	bool reading_news; /* view_news of the read that is under way */
	bool view_seen; /* was read in this session */
	bool view_synced; /* a read now cannot be older than the view given to the handle */
	int64_t view_zxid; /* of the view given to the handle; 0: it was told of none */
	uint64_t view_version; /* of the same */
	int64_t view_created; /* zxid that made its node; 0: there was none yet */
	bool members_busy;
	bool members_again;
	bool members_known;
	bool members_failed; /* one of the answers */
	uint32_t members_pending; /* answers */
	struct zk_members members; /* as given to the handle, and unusable ones */
	struct zk_members staged; /* being read */
	uint32_t in_view_count;
	uint64_t in_view[OL_REPLICAS_MAX];
};

struct zk {
	struct ol_coord *coord;
	struct zk_address address;
	char folder[ZK_FOLDER_MAX]; /* CHROOT/outlast */
	char root[ZK_ROOT_MAX]; /* CHROOT/outlast/JOB */
	struct zk_access access;
	pthread_t thread;

	pthread_mutex_t lock; /* the next five */
	pthread_cond_t cond;
	struct zk_event *first, **last;
	bool woken;
	bool stopping;
	bool dropped; /* an event was lost, as memory was short */

	bool ending; /* the thread has seen stopping; all from here on is the thread's own */

	zhandle_t *zh; /* NULL: between two sessions */
	uint64_t open_ns; /* when to make a handle */
	bool reopen; /* zh is of no use any more */
	bool up; /* there is a connection */
	bool introduced; /* the library has the passwords */
	bool waits; /* until another begins the job; this was logged */
	bool exposed; /* anybody may change the job, though a file was given; this was logged */
	bool made; /* the folders above the shards, in this session */
	bool granted; /* access, in this connection */
	bool connected; /* as told to the handle */
	bool settled; /* open() has its answer */
	bool troubled; /* a failure was logged, and no request has succeeded since */
	bool forgotten; /* the ensemble has lost its memory: it is not used any more */
	uint64_t retry_ns; /* read everything again; 0: no need */
	uint32_t timeout_ms; /* of the session, as the ensemble wants it */
	uint32_t timeout_told_ms;
	uint64_t sign_due_ns, sign_sent_ns;
	uint64_t sign_known_ns; /* when the last answered one was sent */
	bool sign_out; /* no answer yet */
	uint64_t lease_ns;
	bool joining; /* an answer will come */
	bool joined;
	bool left; /* answer to ZK_LEFT */
	struct zk_shard *shards;
};

/* zk_event.c */

/* The library's callbacks; arg is a zk_ref */
void zk_on_session(zhandle_t *zh, int type, int state, const char *path, void *arg);
void zk_on_watch(zhandle_t *zh, int type, int state, const char *path, void *arg);
void zk_on_void(int rc, const void *arg);
void zk_on_string(int rc, const char *value, const void *arg);
void zk_on_stat(int rc, const struct Stat *stat, const void *arg);
void zk_on_data(int rc, const char *value, int value_bytes, const struct Stat *stat,
		const void *arg);
void zk_on_names(int rc, const struct String_vector *names, const void *arg);
void zk_on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *arg);
/* zk_events_take -- wait for events or wishes, at most until due_ns (0: for ever); the caller frees
 * the events. ret_woken: there are wishes */
struct zk_event *zk_events_take(struct zk *zk, uint64_t due_ns, bool *ret_woken);
void zk_events_free(struct zk_event *event);

/* zookeeper.c */

/* zk_trouble -- a request failed: log it, once a session, and read everything again later. No
 * effect if the connection or the session was lost: a new one reads everything anyway */
void zk_trouble(struct zk *zk, const char *what, int rc);
/* zk_settle -- let open() return, if everything that it waits for is there */
void zk_settle(struct zk *zk);
/* zk_forget -- the ensemble has lost its memory: read and change nothing from here on */
void zk_forget(struct zk *zk, uint32_t shard);
/* zk_watches -- does the handle watch this shard? */
bool zk_watches(const struct zk *zk, uint32_t shard);
void zk_path_shard(const struct zk *zk, uint32_t shard, const char *below, char path[ZK_PATH_MAX]);
void zk_path_member(const struct zk *zk, uint32_t shard, uint64_t id, char path[ZK_PATH_MAX]);
/* zk_wait -- something is missing that others will make: look again soon */
void zk_wait(struct zk *zk);

/* zk_view.c, zk_member.c: reads, callers' wishes, and answers */

void zk_view_read(struct zk *zk, uint32_t shard);
void zk_view_propose(struct zk *zk, uint32_t shard);
void zk_view_event(struct zk *zk, const struct zk_event *event);
void zk_members_list(struct zk *zk, uint32_t shard);
void zk_join(struct zk *zk);
void zk_member_event(struct zk *zk, struct zk_event *event);

#endif /* OL_REPLICATION_COORD_ZOOKEEPER_ZK_H */
