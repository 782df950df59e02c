/* SPDX-License-Identifier: BSD-3-Clause */

/* coord_guest.h -- clients of a coordinator that wait for expected views and members */
#ifndef OL_TESTS_UNIT_REPLICATION_COORD_GUEST_H
#define OL_TESTS_UNIT_REPLICATION_COORD_GUEST_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replication/coord/coord_internal.h"
#include "support/check.h"

enum {
	WAIT_S = 60, /* until a condition that has to come has not */
	LONG_LEASE_MS = 60000, /* nothing here waits for it to end */
};

/* A client, and who waits for its news. */
struct guest {
	struct ol_coord *coord;
	pthread_mutex_t lock;
	pthread_cond_t news;
	char line[256]; /* last diagnostic */
};

static inline void guest_notify(void *arg)
{
	struct guest *guest = arg;

	pthread_mutex_lock(&guest->lock);
	pthread_cond_broadcast(&guest->news);
	pthread_mutex_unlock(&guest->lock);
}

static inline void guest_log(void *arg, const char *text)
{
	struct guest *guest = arg;

	pthread_mutex_lock(&guest->lock);
	snprintf(guest->line, sizeof(guest->line), "%s", text);
	pthread_cond_broadcast(&guest->news);
	pthread_mutex_unlock(&guest->lock);
}

static inline struct ol_coord_opts guest_opts(struct guest *guest, const char *addr)
{
	pthread_condattr_t attr;

	memset(guest, 0, sizeof(*guest));
	pthread_mutex_init(&guest->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&guest->news, &attr);
	pthread_condattr_destroy(&attr);
	return (struct ol_coord_opts){ .addr = addr,
				       .job = "test-job",
				       .shard_count = 2,
				       .lease_ms = LONG_LEASE_MS,
				       .open_timeout_ms = WAIT_S * 1000,
				       .notify = guest_notify,
				       .notify_arg = guest,
				       .log = guest_log,
				       .log_arg = guest };
}

static inline void guest_enter(struct guest *guest, const struct ol_coord_opts *opts)
{
	char err[256] = "";
	int rc = ol_coord_open(opts, &guest->coord, err, sizeof(err));

	check_msg(rc == 0, "open: %d %s", rc, err);
}

static inline void guest_open(struct guest *guest, const char *addr)
{
	struct ol_coord_opts opts = guest_opts(guest, addr);

	guest_enter(guest, &opts);
}

static inline void guest_close(struct guest *guest)
{
	ol_coord_close(guest->coord);
	pthread_cond_destroy(&guest->news);
	pthread_mutex_destroy(&guest->lock);
}

/* guest_wait -- until what it knows of a shard passes the test; ends the program if it never does.
 * The last state is left in *state. */
typedef bool guest_test_fn(const struct ol_coord_state *state, uint64_t arg);

static inline void guest_wait(struct guest *guest, uint32_t shard, guest_test_fn *test,
			      uint64_t arg, const char *what, struct ol_coord_state *state)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&guest->lock);
	for (;;) {
		int rc;

		ol_coord_look(guest->coord, shard, state);
		if (test(state, arg))
			break;
		rc = pthread_cond_timedwait(&guest->news, &guest->lock, &until);
		check_msg(rc == 0, "never came: %s (epoch %u, %u members, %s)", what,
			  state->view.epoch, state->member_count,
			  state->connected ? "connected" : "away");
	}
	pthread_mutex_unlock(&guest->lock);
}

/* guest_wait_line -- until its last diagnostic says so */
static inline void guest_wait_line(struct guest *guest, const char *what)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&guest->lock);
	while (strstr(guest->line, what) == NULL)
		check_ok(pthread_cond_timedwait(&guest->news, &guest->lock, &until));
	pthread_mutex_unlock(&guest->lock);
}

static inline struct ol_member server_make(uint64_t id)
{
	struct ol_member m = { .id = id, .job = 5, .proto = 1 };

	snprintf(m.addr, sizeof(m.addr), "@server-%u", (unsigned)id);
	return m;
}

static inline struct ol_view view_make(uint32_t epoch, uint64_t head, uint64_t tail)
{
	struct ol_view view = { .epoch = epoch,
				.founded = 1,
				.history = 1,
				.origin = 1,
				.shard_count = 2,
				.wanted = 2,
				.count = tail != 0 ? 2 : 1 };

	view.replicas[0] = server_make(head);
	if (tail != 0)
		view.replicas[1] = server_make(tail);
	return view;
}

/* The longest that there are: of member `id`; of a view of a shard of the largest job */
static inline struct ol_member long_member(uint64_t id)
{
	struct ol_member member = server_make(id);

	memset(member.addr, 'a', sizeof(member.addr) - 1);
	member.addr[sizeof(member.addr) - 1] = '\0';
	return member;
}

static inline void long_view(struct ol_view *view, uint32_t epoch, uint32_t shard)
{
	*view = view_make(epoch, 1, 0);
	view->shard_count = OL_COORD_SHARDS_MAX;
	view->count = OL_REPLICAS_MAX;
	for (uint32_t i = 0; i < OL_REPLICAS_MAX; i++)
		view->replicas[i] = long_member(1 + shard * 100 + i);
}

static inline bool has_count(const struct ol_coord_state *state, uint64_t count)
{
	return state->member_count == count;
}

static inline bool has_member(const struct ol_coord_state *state, uint64_t id)
{
	for (uint32_t i = 0; i < state->member_count; i++) {
		if (state->members[i].id == id)
			return true;
	}
	return false;
}

static inline bool lacks_member(const struct ol_coord_state *state, uint64_t id)
{
	return !has_member(state, id);
}

static inline bool has_epoch(const struct ol_coord_state *state, uint64_t epoch)
{
	return state->view.epoch == epoch;
}

static inline bool is_connected(const struct ol_coord_state *state, uint64_t wanted)
{
	return state->connected == (wanted != 0);
}

#endif /* OL_TESTS_UNIT_REPLICATION_COORD_GUEST_H */
