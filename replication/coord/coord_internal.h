/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_internal.h -- what the halves of a coordination client owe each other
 *
 *	coord.c             the handle: the copy that look() gives, the wishes of callers
 *	a back end          local/ or zookeeper/
 *
 * Threads. start() and stop() are called by the caller's thread, once each. wake() comes from any
 * thread, at any time between the two, and must not block. Everything that a back end calls here
 * it calls from one thread at a time (its own, or the client library's), never from wake(), and
 * with no lock of its own held: the setters call the user's notify(). No thread of the back end
 * calls anything here once stop() has returned.
 *
 * A setter takes effect at once; the generation goes up, then notify() is called.
 */
#ifndef OL_REPLICATION_COORD_COORD_INTERNAL_H
#define OL_REPLICATION_COORD_COORD_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "replication/coord/coord.h"

enum {
	OL_COORD_SHARDS_MAX = 64,
	OL_COORD_LINE_MAX = 256, /* of a diagnostic, with its end */
	OL_COORD_ADDR_MAX = 512, /* of a coordinator's address, with its end */
};

struct ol_coord_backend {
	/*
	 * start -- begin to reach the coordinator, and go on trying until stop()
	 *
	 * Does not wait for an answer: ol_coord_settle() tells of it, from then on at any time,
	 * even before start() returns. coord->opts are checked and stay valid until stop() has
	 * returned. *ret_back is what wake() and stop() are given. On failure: -errno with one line
	 * in err, and nothing of it is left.
	 */
	int (*start)(struct ol_coord *coord, void **ret_back, char *err, size_t err_bytes);
	/* wake -- there is a wish: ol_coord_wish_member() or _wish_view() have something new */
	void (*wake)(void *back);
	/* stop -- end the session so that its members are gone at once, if the coordinator can be
	   reached without waiting long; then end the threads, free everything */
	void (*stop)(void *back);
};

extern const struct ol_coord_backend ol_coord_local; /* local/; opts.addr has "dir:" before it */
extern const struct ol_coord_backend ol_coord_zookeeper; /* zookeeper.c; opts.addr has
							    "zk:" before it still */

struct ol_coord_shard {
	struct ol_coord_state state; /* connected, lease_ns and losses are those of the handle */
	bool proposed; /* not yet taken by the back end */
	uint64_t proposed_on; /* version */
	struct ol_view proposal;
};

/* Back ends read opts; all else is for coord.c. */
struct ol_coord {
	struct ol_coord_opts opts; /* addr and job are copies that the handle owns */
	const struct ol_coord_backend *backend;
	void *back;
	_Atomic uint64_t generation;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t settled; /* settle() was called */
	bool is_settled;
	int settle_rc;
	char reason[OL_COORD_LINE_MAX]; /* why it is not settled yet, or settle_rc */
	bool connected;
	uint64_t lease_ns;
	uint64_t losses;
	bool joined;
	uint32_t join_shard;
	struct ol_member join_member;
	struct ol_coord_shard *shards; /* opts.shard_count */
};

/*
 * Wishes. The back end asks when it was woken, and again in every new session.
 */

/* ol_coord_wish_member -- what is to be registered, in every session; false: nothing. It does not
 * change any more once it is there. */
bool ol_coord_wish_member(struct ol_coord *coord, uint32_t *ret_shard,
			  struct ol_member *ret_member);
/*
 * ol_coord_wish_view -- take the proposal of a shard, if there is one: it is asked for once only
 *
 * To be sent as a compare-and-set on *ret_version (0: create). Whether it wins or loses, what is
 * then in force is to be given to ol_coord_set_view(), the loser's news too.
 */
bool ol_coord_wish_view(struct ol_coord *coord, uint32_t shard, uint64_t *ret_version,
			struct ol_view *ret_next);

/*
 * News.
 */

/* ol_coord_set_view -- of a shard; version 0, view NULL: it has none. Always counts as a change. */
void ol_coord_set_view(struct ol_coord *coord, uint32_t shard, uint64_t version,
		       const struct ol_view *view);
/* ol_coord_set_members -- all that are registered for a shard; more than OL_MEMBERS_MAX: the rest
 * is left out */
void ol_coord_set_members(struct ol_coord *coord, uint32_t shard, const struct ol_member *members,
			  uint32_t count);
/*
 * ol_coord_set_session -- whether the coordinator answers, and until when the session is sure to
 * live: CLOCK_MONOTONIC when the request was sent that its last answer confirms, plus the lease; 0:
 * there is no session
 *
 * Counts as a change unless all it does is to renew. To false: proposals not yet taken are
 * forgotten.
 */
void ol_coord_set_session(struct ol_coord *coord, bool connected, uint64_t lease_ns);

/*
 * ol_coord_settle -- what ol_coord_open() waits for: 0 when views and members of every shard are
 * set and there is a session; or what makes trying on useless: -EACCES, -EINVAL, -ENOMEM, -ENOSYS
 *
 * Only the first counts. text: why, without the address, or NULL with 0.
 */
void ol_coord_settle(struct ol_coord *coord, int rc, const char *text);
/* ol_coord_log -- a diagnostic to the caller's log. Until it is settled also what open() reports
 * if it gives up. Once for each state that is reached, not once an attempt. */
void ol_coord_log(struct ol_coord *coord, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ol_coord_thread_start -- run(arg) on a thread that takes no signals: those are for the program's
 * own; 0 or -errno */
int ol_coord_thread_start(void *(*run)(void *), void *arg, pthread_t *ret_thread);

/* ol_coord_now_ns -- CLOCK_MONOTONIC */
uint64_t ol_coord_now_ns(void);

#endif /* OL_REPLICATION_COORD_COORD_INTERNAL_H */
