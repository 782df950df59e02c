/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * reactor.c -- the loop of a server: poll, spin for a while, then sleep
 *
 * The only place of this room that knows a clock and waits.
 */

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"
#include "server/server_internal.h"

enum {
	EVENTS_MAX = 64,
	QUIET_POLLS = 128, /* empty ones between two looks at the clock, which keeps news waiting */
	YIELD_POLLS = 16, /* as many, where others wait for the processor */
	RETRY_MS = 1 /* until what could not be done is tried again */
};

/* Sleep until an event, a stop, or the next tick. Errors: what the loop cannot survive. */
static int sleep_until(struct ol_server *server, uint64_t tick_ns, uint64_t now_ns)
{
	struct pollfd fds[2] = {
		{ .fd = server->ops->event_fd(server->xport), .events = POLLIN },
		{ .fd = server->stop_fd, .events = POLLIN }, /* or news of the coordinator */
	};
	struct timespec timeout = { 0 };
	uint64_t news;
	uint64_t left_ns = tick_ns > now_ns ? tick_ns - now_ns : 0;
	int rc = server->ops->arm(server->xport);

	if (rc != 0)
		return rc < 0 ? rc : 0;
	timeout.tv_sec = (time_t)(left_ns / OL_NS_PER_S);
	timeout.tv_nsec = (long)(left_ns % OL_NS_PER_S);
	if (ppoll(fds, 2, &timeout, NULL) < 0 && errno != EINTR)
		return -errno;
	if (read(server->stop_fd, &news, sizeof(news)) < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	return 0;
}

/* poll() until it gives something, so many times at most */
static int poll_some(struct ol_server *server, struct ol_xport_event *events)
{
	unsigned max = server->opts.spin_yield ? YIELD_POLLS : QUIET_POLLS;
	int count = server->ops->poll(server->xport, events, EVENTS_MAX);

	for (unsigned i = 1; i < max && count == 0; i++)
		count = server->ops->poll(server->xport, events, EVENTS_MAX);
	return count;
}

/* Nobody is served from here on. */
static int ended(struct ol_server *server, int rc)
{
	for (uint32_t i = 0; i < server->session_count; i++) {
		if (server->sessions[i].state != OL_SESSION_FREE)
			ol_session_end(server, &server->sessions[i], NULL);
	}
	ol_successor_drop(server);
	return rc;
}

/*
 * The loop stood still (the process was stopped, or hung) for so long that workers may
 * have gone to another server: every queue pair and key dies before anything else is done.
 */
static int fenced(struct ol_server *server, uint64_t gap_ns)
{
	ended(server, OL_E_FENCED);
	ol_log(OL_LOG_WARN, "server %s: stood still for %llu ms, its lease is %u ms: it ends",
	       server->addr, (unsigned long long)(gap_ns / OL_NS_PER_MS), server->opts.lease_ms);
	return OL_E_FENCED;
}

/* The last replica of a chain that is never founded anew: nobody can have taken its place, and
 * nobody else has what was committed */
static bool irreplaceable(const struct ol_server *server)
{
	return server->replica.on && !server->opts.refound &&
	       server->replica.chain.role == OL_CHAIN_ONLY;
}

int ol_server_run(struct ol_server *server)
{
	uint64_t spin_ns = server->opts.spin_us * OL_NS_PER_US;
	uint64_t beat_ns = server->opts.heartbeat_ms * OL_NS_PER_MS;
	uint64_t lease_ns = server->opts.lease_ms * OL_NS_PER_MS;
	uint64_t now_ns = ol_clock_ns(), busy_ns = now_ns, tick_ns = now_ns, next_ns = 0;
	uint64_t turn_ns = now_ns; /* this turn of the loop began */
	struct ol_xport_event events[EVENTS_MAX];

	while (!atomic_load_explicit(&server->stopping, memory_order_relaxed)) {
		int count = poll_some(server, events);
		uint64_t last_ns = turn_ns;

		turn_ns = now_ns = ol_clock_ns();
		if (lease_ns != 0 && now_ns - last_ns > lease_ns && !irreplaceable(server))
			return fenced(server, now_ns - last_ns);
		if (count < 0) {
			ol_log(OL_LOG_ERROR, "server %s: transport failed: %s", server->addr,
			       ol_strerror(count));
			return count;
		}
		for (int i = 0; i < count; i++) {
			server->events = &events[i + 1];
			server->events_left = count - i - 1;
			ol_server_on_event(server, &events[i], now_ns);
		}
		if (server->replica.on && ol_replica_news(server)) {
			now_ns = ol_clock_ns(); /* to fence somebody off takes time */
			ol_replica_look(server, now_ns);
		}
		if (now_ns >= tick_ns) {
			ol_server_tick(server, now_ns);
			tick_ns = now_ns + beat_ns;
		}
		if (server->end_rc != 0)
			return ended(server, server->end_rc);
		if (ol_ingest_waits(server)) {
			ol_ingest_progress(server, now_ns);
			next_ns = now_ns + RETRY_MS * OL_NS_PER_MS;
		} else {
			next_ns = tick_ns;
		}
		if (count > 0) {
			busy_ns = now_ns;
			continue;
		}
		if (now_ns - busy_ns < spin_ns) {
			if (server->opts.spin_yield)
				sched_yield();
			else
				ol_cpu_relax();
			continue;
		}
		count = sleep_until(server, next_ns < tick_ns ? next_ns : tick_ns, now_ns);
		if (count < 0)
			return count;
	}
	ol_save_last(server);
	return 0;
}

void ol_server_stop(struct ol_server *server)
{
	uint64_t one = 1;
	ssize_t written;

	atomic_store_explicit(&server->stopping, 1, memory_order_relaxed);
	written = write(server->stop_fd, &one, sizeof(one));
	(void)written; /* fails only when it was stopped 2^64 times */
}
