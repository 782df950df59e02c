/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_util.h -- a coordinator in a thread, and clients that wait for what they should see
 */
#ifndef OL_TESTS_UNIT_REPLICATION_COORD_UTIL_H
#define OL_TESTS_UNIT_REPLICATION_COORD_UTIL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replication/coord/coord.h"
#include "replication/coordinator.h"
#include "support/check.h"

enum {
	WAIT_S = 60, /* until a condition that has to come has not */
	LONG_LEASE_MS = 60000, /* nothing here waits for it to end */
};

static _Atomic bool toy_mac_fails; /* as a crypto library does without memory */

/* A toy: keyed, and different for any two inputs that these tests have. */
static inline int toy_mac(void *arg, const void *bytes, size_t count,
			  uint8_t mac[OL_COORD_MAC_BYTES])
{
	const uint8_t *at = bytes;
	uint64_t hash = 1469598103934665603u;

	if (atomic_load(&toy_mac_fails))
		return -EIO;
	for (const char *c = arg; *c != '\0'; c++)
		hash = (hash ^ (uint64_t)*c) * 1099511628211u;
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ at[i]) * 1099511628211u;
	for (unsigned i = 0; i < OL_COORD_MAC_BYTES; i++)
		mac[i] = (uint8_t)(hash >> 8 * (i % 8));
	return 0;
}

struct house {
	struct ol_coordd *coordd;
	pthread_t thread;
	char addr[OL_ENDPOINT_MAX + 160];
	atomic_uint views; /* that took effect, as its log says */
	atomic_uint cuts; /* clients that it cut off, as its log says */
	atomic_uint shortages; /* times that it had no file for a client */
};

static inline void house_log(void *arg, const char *text)
{
	struct house *house = arg;

	if (strstr(text, " epoch ") != NULL)
		atomic_fetch_add(&house->views, 1);
	if (strstr(text, "is cut off") != NULL)
		atomic_fetch_add(&house->cuts, 1);
	if (strstr(text, "no file") != NULL)
		atomic_fetch_add(&house->shortages, 1);
}

static inline void *house_run(void *arg)
{
	struct house *house = arg;

	check_ok(ol_coordd_run(house->coordd));
	return NULL;
}

static inline void house_open(struct house *house, const char *listen, char *secret)
{
	struct ol_coordd_opts opts = { .listen = listen,
				       .mac = secret != NULL ? toy_mac : NULL,
				       .mac_arg = secret,
				       .log = house_log,
				       .log_arg = house };
	char err[256] = "";
	int rc;

	atomic_store(&house->views, 0);
	atomic_store(&house->cuts, 0);
	atomic_store(&house->shortages, 0);
	rc = ol_coordd_open(&opts, &house->coordd, err, sizeof(err));
	check_msg(rc == 0, "%s", err);
	snprintf(house->addr, sizeof(house->addr), "%s", ol_coordd_addr(house->coordd));
	check_ok(pthread_create(&house->thread, NULL, house_run, house));
}

static inline void house_close(struct house *house)
{
	ol_coordd_stop(house->coordd);
	check_ok(pthread_join(house->thread, NULL));
	ol_coordd_close(house->coordd);
}

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
				.shard_count = 2,
				.wanted = 2,
				.count = tail != 0 ? 2 : 1 };

	view.replicas[0] = server_make(head);
	if (tail != 0)
		view.replicas[1] = server_make(tail);
	return view;
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

#endif /* OL_TESTS_UNIT_REPLICATION_COORD_UTIL_H */
