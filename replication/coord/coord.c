/* SPDX-License-Identifier: BSD-3-Clause */

/* coord.c -- the handle of coord.h: a copy of the coordinator's state, and callers' wishes */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replication/coord/coord_internal.h"

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

enum {
	LOOK_MS = 20 /* how often open checks whether it is cancelled */
};

uint64_t ol_coord_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

int ol_coord_thread_start(void *(*run)(void *), void *arg, pthread_t *ret_thread)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = -pthread_create(ret_thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

static int fail(char *err, size_t err_bytes, int rc, const char *addr, const char *text)
{
	if (err != NULL && err_bytes > 0)
		snprintf(err, err_bytes, "coordinator %s: %s", addr != NULL ? addr : "", text);
	return rc;
}

const char *ol_coord_job_fault(const char *job)
{
	static const char marks[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-_.";

	if (job != NULL && job[0] != '\0' && job[0] != '.' && strlen(job) < OL_COORD_JOB_MAX &&
	    strspn(job, marks) == strlen(job))
		return NULL;
	return "a job's name has 1 to 63 letters, digits, '-', '_' or '.', the first no '.'";
}

const struct ol_coord_backend *ol_coord_backend_of(const char *addr)
{
	if (strncmp(addr, "dir:", 4) == 0)
		return &ol_coord_local;
	return strncmp(addr, "zk:", 3) == 0 ? &ol_coord_zookeeper : NULL;
}

const char *ol_coord_addr_fault(const char *addr)
{
	if (addr == NULL || addr[0] == '\0' || strlen(addr) >= OL_COORD_ADDR_MAX ||
	    ol_coord_backend_of(addr) == NULL)
		return "an address is dir:PATH, or zk: and HOST:PORT,…";
	return strcmp(addr, "dir:") == 0 ? "a path is missing: dir:PATH" : NULL;
}

static const char *opts_fault(const struct ol_coord_opts *opts)
{
	const char *fault = ol_coord_addr_fault(opts->addr);

	if (fault == NULL)
		fault = ol_coord_job_fault(opts->job);
	if (fault != NULL)
		return fault;
	if (opts->shard_count == 0 || opts->shard_count > OL_COORD_SHARDS_MAX)
		return "shard_count is not between 1 and 64";
	if (opts->lease_ms == 0)
		return "lease_ms is 0";
	return NULL;
}

static void handle_free(struct ol_coord *coord)
{
	union { /* the handle owns the copies, though their type is const */
		const char *told;
		char *ours;
	} addr = { coord->opts.addr }, job = { coord->opts.job };

	free(addr.ours);
	free(job.ours);
	free(coord->shards);
	pthread_cond_destroy(&coord->settled);
	pthread_mutex_destroy(&coord->lock);
	free(coord);
}

static int handle_create(const struct ol_coord_opts *opts, struct ol_coord **ret_coord)
{
	struct ol_coord *coord = calloc(1, sizeof(*coord));
	pthread_condattr_t attr;

	if (coord == NULL)
		return -ENOMEM;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&coord->settled, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&coord->lock, NULL);
	atomic_init(&coord->generation, 0);
	coord->opts = *opts;
	coord->opts.addr = strdup(opts->addr);
	coord->opts.job = strdup(opts->job);
	coord->shards = calloc(opts->shard_count, sizeof(*coord->shards));
	coord->backend = ol_coord_backend_of(opts->addr);
	snprintf(coord->reason, sizeof(coord->reason),
		 "nobody answers within %" PRIu32
		 " ms: do its servers run, and can this host reach them?",
		 opts->open_timeout_ms);
	if (coord->opts.addr == NULL || coord->opts.job == NULL || coord->shards == NULL) {
		handle_free(coord);
		return -ENOMEM;
	}
	*ret_coord = coord;
	return 0;
}

static bool open_is_cancelled(const struct ol_coord *coord)
{
	const struct ol_coord_opts *opts = &coord->opts;

	return opts->cancelled != NULL && opts->cancelled(opts->cancelled_arg);
}

/* settle_wait -- 0, -ETIMEDOUT, -ECANCELED, or the back end's final error */
static int settle_wait(struct ol_coord *coord)
{
	uint64_t now = ol_coord_now_ns(), end = now + coord->opts.open_timeout_ms * NS_PER_MS;
	int rc = -EINPROGRESS;

	pthread_mutex_lock(&coord->lock);
	while (rc == -EINPROGRESS) {
		uint64_t next = now + LOOK_MS * NS_PER_MS < end ? now + LOOK_MS * NS_PER_MS : end;
		struct timespec until = { .tv_sec = (time_t)(next / NS_PER_S),
					  .tv_nsec = (long)(next % NS_PER_S) };

		if (!coord->is_settled && now < end)
			(void)pthread_cond_timedwait(&coord->settled, &coord->lock, &until);
		now = ol_coord_now_ns();
		if (coord->is_settled)
			rc = coord->settle_rc;
		else if (open_is_cancelled(coord))
			rc = -ECANCELED;
		else if (now >= end)
			rc = -ETIMEDOUT;
	}
	pthread_mutex_unlock(&coord->lock);
	return rc;
}

int ol_coord_open(const struct ol_coord_opts *opts, struct ol_coord **ret_coord, char *err,
		  size_t err_bytes)
{
	const char *fault = opts_fault(opts);
	struct ol_coord *coord;
	char why[OL_COORD_LINE_MAX] = "";
	int rc;

	if (fault != NULL)
		return fail(err, err_bytes, -EINVAL, opts->addr, fault);
	rc = handle_create(opts, &coord);
	if (rc != 0)
		return fail(err, err_bytes, rc, opts->addr, "no memory");
	rc = coord->backend->start(coord, &coord->back, why, sizeof(why));
	if (rc != 0) {
		fail(err, err_bytes, rc, opts->addr, why);
		handle_free(coord);
		return rc;
	}
	rc = settle_wait(coord);
	if (rc != 0) {
		coord->backend->stop(coord->back);
		fail(err, err_bytes, rc, opts->addr,
		     rc == -ECANCELED ? "called back before it had answered" : coord->reason);
		handle_free(coord);
		return rc;
	}
	*ret_coord = coord;
	return 0;
}

void ol_coord_close(struct ol_coord *coord)
{
	if (coord == NULL)
		return;
	coord->backend->stop(coord->back);
	handle_free(coord);
}

int ol_coord_join(struct ol_coord *coord, uint32_t shard, const struct ol_member *member)
{
	char text[OL_MEMBER_TEXT_MAX];
	struct ol_member again;
	int rc = 0;

	/* A member whose text cannot be decoded must not be registered. */
	if (shard >= coord->opts.shard_count ||
	    memchr(member->addr, '\0', sizeof(member->addr)) == NULL ||
	    ol_member_decode(text, ol_member_encode(member, text), &again) != 0)
		return -EINVAL;
	pthread_mutex_lock(&coord->lock);
	if (coord->joined)
		rc = -EBUSY;
	coord->joined = true;
	if (rc == 0) {
		coord->join_shard = shard;
		coord->join_member = again;
	}
	pthread_mutex_unlock(&coord->lock);
	if (rc == 0)
		coord->backend->wake(coord->back);
	return rc;
}

uint64_t ol_coord_generation(const struct ol_coord *coord)
{
	return atomic_load_explicit(&coord->generation, memory_order_acquire);
}

void ol_coord_look(struct ol_coord *coord, uint32_t shard, struct ol_coord_state *ret_state)
{
	if (shard >= coord->opts.shard_count) {
		memset(ret_state, 0, sizeof(*ret_state));
		return;
	}
	pthread_mutex_lock(&coord->lock);
	*ret_state = coord->shards[shard].state;
	ret_state->connected = coord->connected;
	ret_state->lease_ns = coord->lease_ns;
	ret_state->losses = coord->losses;
	pthread_mutex_unlock(&coord->lock);
}

void ol_coord_propose(struct ol_coord *coord, uint32_t shard, uint64_t version,
		      const struct ol_view *next)
{
	struct ol_coord_shard *s;
	bool kept;

	if (shard >= coord->opts.shard_count)
		return;
	s = &coord->shards[shard];
	pthread_mutex_lock(&coord->lock);
	kept = coord->connected;
	if (kept) {
		s->proposed = true;
		s->proposed_on = version;
		s->proposal = *next;
	}
	pthread_mutex_unlock(&coord->lock);
	if (kept)
		coord->backend->wake(coord->back);
}

bool ol_coord_wish_member(struct ol_coord *coord, uint32_t *ret_shard, struct ol_member *ret_member)
{
	bool joined;

	pthread_mutex_lock(&coord->lock);
	joined = coord->joined;
	if (joined) {
		*ret_shard = coord->join_shard;
		*ret_member = coord->join_member;
	}
	pthread_mutex_unlock(&coord->lock);
	return joined;
}

bool ol_coord_wish_view(struct ol_coord *coord, uint32_t shard, uint64_t *ret_version,
			struct ol_view *ret_next)
{
	struct ol_coord_shard *s = &coord->shards[shard];
	bool proposed;

	pthread_mutex_lock(&coord->lock);
	proposed = s->proposed;
	if (proposed) {
		*ret_version = s->proposed_on;
		*ret_next = s->proposal;
		s->proposed = false;
	}
	pthread_mutex_unlock(&coord->lock);
	return proposed;
}

/* unlock_and_notify -- release the lock, then call notify(), which may look */
static void unlock_and_notify(struct ol_coord *coord)
{
	atomic_fetch_add_explicit(&coord->generation, 1, memory_order_release);
	pthread_mutex_unlock(&coord->lock);
	if (coord->opts.notify != NULL)
		coord->opts.notify(coord->opts.notify_arg);
}

void ol_coord_set_view(struct ol_coord *coord, uint32_t shard, uint64_t version,
		       const struct ol_view *view)
{
	struct ol_coord_state *state = &coord->shards[shard].state;

	pthread_mutex_lock(&coord->lock);
	state->version = version;
	if (version != 0)
		state->view = *view;
	else
		memset(&state->view, 0, sizeof(state->view));
	unlock_and_notify(coord);
}

void ol_coord_set_members(struct ol_coord *coord, uint32_t shard, const struct ol_member *members,
			  uint32_t count)
{
	struct ol_coord_state *state = &coord->shards[shard].state;

	pthread_mutex_lock(&coord->lock);
	state->member_count = count < OL_MEMBERS_MAX ? count : OL_MEMBERS_MAX;
	if (state->member_count > 0)
		memcpy(state->members, members, state->member_count * sizeof(*members));
	unlock_and_notify(coord);
}

void ol_coord_set_session(struct ol_coord *coord, bool connected, uint64_t lease_ns)
{
	bool renewal;

	pthread_mutex_lock(&coord->lock);
	renewal = coord->connected == connected && (coord->lease_ns != 0) == (lease_ns != 0);
	if (coord->lease_ns != 0 && lease_ns == 0)
		coord->losses++;
	coord->connected = connected;
	coord->lease_ns = lease_ns;
	for (uint32_t i = 0; !connected && i < coord->opts.shard_count; i++)
		coord->shards[i].proposed = false;
	if (renewal)
		pthread_mutex_unlock(&coord->lock);
	else
		unlock_and_notify(coord);
}

void ol_coord_settle(struct ol_coord *coord, int rc, const char *text)
{
	pthread_mutex_lock(&coord->lock);
	if (!coord->is_settled) {
		coord->is_settled = true;
		coord->settle_rc = rc;
		if (text != NULL)
			snprintf(coord->reason, sizeof(coord->reason), "%s", text);
		pthread_cond_broadcast(&coord->settled);
	}
	pthread_mutex_unlock(&coord->lock);
}

void ol_coord_log(struct ol_coord *coord, const char *format, ...)
{
	char text[OL_COORD_LINE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	pthread_mutex_lock(&coord->lock);
	if (!coord->is_settled)
		snprintf(coord->reason, sizeof(coord->reason), "%s", text);
	pthread_mutex_unlock(&coord->lock);
	if (coord->opts.log != NULL)
		coord->opts.log(coord->opts.log_arg, text);
}
