/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_internal.h -- the contract between a coordination handle and its back end
 *
 *	coord.c             the handle: the copy that look() gives, the callers' wishes
 *	a back end          local/ or zookeeper/
 *
 * Threads. The caller's thread calls start() and stop(), once each. Any thread may call wake(), at
 * any time between the two; it must not block. A back end calls the functions below from one thread
 * at a time (its own, or the client library's), never from wake(), and holds no lock of its own
 * meanwhile: the setters call the user's notify(). After stop() it calls none of them.
 *
 * A setter takes effect at once; the generation goes up, then notify() is called.
 */
#ifndef OL_REPLICATION_COORD_COORD_INTERNAL_H
#define OL_REPLICATION_COORD_COORD_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "replication/coord/ask.h"
#include "replication/coord/coord.h"

enum {
	OL_COORD_SHARDS_MAX = 64,
	OL_COORD_LINE_MAX = 256, /* of a diagnostic, with its end */
	OL_COORD_ADDR_MAX = 512, /* of a coordinator's address, with its end */
};

struct ol_asker;

struct ol_coord_backend {
	/*
	 * start -- begin to reach the coordinator, and go on trying until stop()
	 *
	 * Does not wait for an answer: the back end reports that by ol_coord_settle(), possibly
	 * before start() returns. coord->opts are checked and stay valid until stop() has returned.
	 * *ret_back is the argument of wake() and stop(). On failure: -errno with one line in err;
	 * everything is freed.
	 */
	int (*start)(struct ol_coord *coord, void **ret_back, char *err, size_t err_bytes);
	/* wake -- ol_coord_wish_member() or _wish_view() have something new */
	void (*wake)(void *back);
	/* stop -- end the session, so that its member leaves at once, if that takes no long wait
	   for the coordinator; then end the threads, free everything */
	void (*stop)(void *back);
	/*
	 * ask.h's, without a handle. Address and job are checked; a line in err has no address.
	 * examine() tells findings by ask_internal.h.
	 */
	int (*list)(const struct ol_coord_ask *ask, ol_kept_fn *tell, void *arg, char *err,
		    size_t err_bytes);
	int (*remove)(const struct ol_coord_ask *ask, char *err, size_t err_bytes);
	int (*make_root)(const struct ol_coord_ask *ask, char *err, size_t err_bytes);
	int (*examine)(const struct ol_coord_ask *ask, uint32_t lease_ms, uint32_t rounds,
		       struct ol_asker *asker, char *err, size_t err_bytes);
};

/* ol_coord_addr_fault, ol_coord_job_fault -- why it is none, as a line; NULL: it is one */
const char *ol_coord_addr_fault(const char *addr);
const char *ol_coord_job_fault(const char *job);
/* ol_coord_backend_of -- NULL: no back end has such addresses */
const struct ol_coord_backend *ol_coord_backend_of(const char *addr);

extern const struct ol_coord_backend ol_coord_local; /* local/; opts.addr has "dir:" before it */
extern const struct ol_coord_backend ol_coord_zookeeper; /* zookeeper.c; opts.addr has
							    "zk:" before it still */

struct ol_coord_shard {
	struct ol_coord_state state; /* connected, lease_ns and losses are those of the handle */
	bool proposed; /* not yet taken by the back end */
	uint64_t proposed_on; /* version */
	struct ol_view proposal;
};

/* Back ends read opts; all else belongs to coord.c. */
struct ol_coord {
	struct ol_coord_opts opts; /* addr and job are copies that the handle owns */
	const struct ol_coord_backend *backend;
	void *back;
	_Atomic uint64_t generation;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t settled; /* settle() was called */
	bool is_settled;
	int settle_rc;
	char reason[OL_COORD_LINE_MAX]; /* for settle_rc, or for not being settled yet */
	bool connected;
	uint64_t lease_ns;
	uint64_t losses;
	bool joined;
	uint32_t join_shard;
	struct ol_member join_member;
	struct ol_coord_shard *shards; /* opts.shard_count */
};

/*
 * Wishes. The back end asks for them after wake(), and again in every new session.
 */

/* ol_coord_wish_member -- the server to register in every session; false: none. Once set it does
 * not change. */
bool ol_coord_wish_member(struct ol_coord *coord, uint32_t *ret_shard,
			  struct ol_member *ret_member);
/*
 * ol_coord_wish_view -- take the proposal of a shard, if there is one; each is returned once
 *
 * Send it as a compare-and-set on *ret_version (0: create). Whether it wins or loses, give the view
 * then in force to ol_coord_set_view().
 */
bool ol_coord_wish_view(struct ol_coord *coord, uint32_t shard, uint64_t *ret_version,
			struct ol_view *ret_next);

/*
 * News.
 */

/* ol_coord_set_view -- the view of a shard; version 0, view NULL: none. Always counts as a change
 */
void ol_coord_set_view(struct ol_coord *coord, uint32_t shard, uint64_t version,
		       const struct ol_view *view);
/* ol_coord_set_members -- all members of a shard; those above OL_MEMBERS_MAX are left out */
void ol_coord_set_members(struct ol_coord *coord, uint32_t shard, const struct ol_member *members,
			  uint32_t count);
/*
 * ol_coord_set_session -- whether the coordinator answers, and how long the session surely lives
 *
 * lease_ns: when the last answered request was sent (CLOCK_MONOTONIC), plus the lease; 0: there is
 * no session. A mere renewal does not count as a change. connected false: proposals not yet taken
 * are forgotten.
 */
void ol_coord_set_session(struct ol_coord *coord, bool connected, uint64_t lease_ns);

/*
 * ol_coord_settle -- end the wait in ol_coord_open(): 0 when views and members of every shard are
 * set and there is a session; or a final error: -EACCES, -EINVAL, -ENOMEM, -ENOSYS
 *
 * Only the first call counts. text: why, without the address, or NULL with 0.
 */
void ol_coord_settle(struct ol_coord *coord, int rc, const char *text);
/* ol_coord_log -- a diagnostic to the caller's log. Until the handle is settled, open() reports the
 * last one if it gives up. Call it once for each state that is reached, not once an attempt. */
void ol_coord_log(struct ol_coord *coord, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ol_coord_thread_start -- run(arg) on a thread that blocks all signals, which are for the
 * program's own threads; 0 or -errno */
int ol_coord_thread_start(void *(*run)(void *), void *arg, pthread_t *ret_thread);

/* ol_coord_now_ns -- CLOCK_MONOTONIC */
uint64_t ol_coord_now_ns(void);

#endif /* OL_REPLICATION_COORD_COORD_INTERNAL_H */
