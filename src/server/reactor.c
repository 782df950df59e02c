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
#include "server/pool.h"
#include "server/server.h"

enum {
	EVENTS_MAX = 64,
	QUIET_POLLS = 128, /* empty polls between two looks at the clock, as a look takes time */
	YIELD_POLLS = 16, /* the same, if other threads wait for the processor */
	RETRY_MS = 1 /* until a step or an ack is tried again */
};

/* Sleep until an event, a stop, or the next tick. Errors end the loop. */
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

/* poll() until it gives an event, so many times at most */
static int poll_some(struct ol_server *server, struct ol_xport_event *events)
{
	unsigned max = server->opts.spin_yield ? YIELD_POLLS : QUIET_POLLS;
	int count = server->ops->poll(server->xport, events, EVENTS_MAX);

	if (server->turn.left || server->sessions.requests.count > 0)
		return count;
	for (unsigned i = 1; i < max && count == 0; i++)
		count = server->ops->poll(server->xport, events, EVENTS_MAX);
	return count;
}

/* End all sessions; the server serves no longer. Returns what ol_server_run() does */
static int server_end(struct ol_server *server, int rc)
{
	ol_serve_end_all(server);
	ol_successor_drop(&server->replica);
	ol_predecessor_forget(&server->replica);
	return rc == OL_REPLICA_LEFT ? 0 : rc;
}

/*
 * The loop stood still (the process was stopped, or hung) for so long that workers may
 * have gone to another server: every queue pair and key dies before anything else is done.
 */
static int server_fence(struct ol_server *server, uint64_t gap_ns)
{
	server_end(server, OL_E_FENCED);
	ol_log(OL_LOG_WARN,
	       "server %s: its loop stood still for %llu ms, longer than its lease of "
	       "%u ms: it ends",
	       server->addr, (unsigned long long)(gap_ns / OL_NS_PER_MS), server->opts.lease_ms);
	return OL_E_FENCED;
}

/* A chain goes on without waiting for this server's disk */
static void last_save(struct ol_server *server)
{
	if (server->restoring.active || server->saving.writer == NULL)
		return;
	if (server->replica.chain.view.count > 1) {
		server_end(server, 0);
		ol_replica_leave(&server->replica);
	}
	ol_save_finish(&server->saving, server->kind->saves(server));
}

/*
 * The device died, and with it every session: nobody can reach this process again. It has its
 * weights yet, so what a server alone has published goes into a last checkpoint, as at a stop. A
 * chain goes on without it.
 */
static int server_lose_device(struct ol_server *server)
{
	server_end(server, OL_E_DEVICE);
	last_save(server);
	ol_log(OL_LOG_WARN,
	       "server %s: it ends without its device, at version %llu: start it again",
	       server->addr, (unsigned long long)server->store.version);
	return OL_E_DEVICE;
}

/* The loop's times */
struct loop {
	struct ol_server *server;
	uint64_t lease_ns; /* if it stands still for longer, it must end */
	uint64_t now_ns; /* last look at the clock */
	uint64_t turn_ns; /* this turn began; sleep is no part of it */
	uint64_t beat_ns; /* the next heartbeat is due */
};

/* The heartbeat shows that the loop turns. False: it stood still for longer than the lease */
static bool loop_beat(struct loop *loop, uint64_t now_ns)
{
	struct ol_server *server = loop->server;

	/* to find the first weights of a chain took long: nobody takes its place while its session lasts, which
	   ol_replica_is_leased() asks before anything is committed */
	if (server->founded_ns > loop->now_ns)
		loop->now_ns = server->founded_ns;
	if (loop->lease_ns != 0 && now_ns - loop->now_ns > loop->lease_ns &&
	    !server->kind->is_last(server))
		return false;
	loop->now_ns = now_ns;
	if (now_ns >= loop->beat_ns) {
		ol_server_beat(server, now_ns);
		loop->beat_ns = now_ns + server->opts.heartbeat_ms * OL_NS_PER_MS;
	}
	return true;
}

/* Called between any two parts of a turn. OL_E_FENCED: the loop stood still, and must end */
static int lease_check(struct loop *loop)
{
	struct ol_server *server = loop->server;
	uint64_t now_ns = ol_clock_ns();

	if (server->ingest.times.is_due)
		ol_times_take(&server->ingest.times, server->store.board, now_ns);
	return loop_beat(loop, now_ns) ? 0 : server_fence(server, now_ns - loop->now_ns);
}

/* Called between the pieces of a long update. It only moves the heartbeat: the next lease_check()
 * finds a pause, as no session may end while its gradient is read. */
static void work_between(void *arg)
{
	(void)loop_beat(arg, ol_clock_ns());
}

static void work_run(void *arg, ol_store_piece_fn *piece, void *piece_arg, unsigned count)
{
	const struct loop *loop = arg;

	ol_pool_run(loop->server->pool, piece, piece_arg, count, work_between, arg);
}

static void turn_over(struct ol_server *server, struct loop *loop)
{
	uint64_t took_ns = loop->now_ns - loop->turn_ns;

	if (took_ns > ol_word_load(&server->store.board->turn_max_ns))
		ol_word_store(&server->store.board->turn_max_ns, took_ns);
	loop->turn_ns = loop->now_ns;
	ol_turn_begin(&server->turn);
	ol_sessions_turn(&server->sessions);
}

/* Handle all events, and one peer whose memory is ready */
static int events_handle(struct ol_server *server, struct loop *loop, struct ol_xport_event *events,
			 int count)
{
	int rc = 0;

	/* a connection that ends for want of this device says nothing about its peer: a neighbour
	   in the chain must not be suspected, whatever the device said before */
	for (int i = 0; i < count; i++) {
		if (events[i].type == OL_XPORT_CONN_DOWN && events[i].status == -ENODEV)
			return server_lose_device(server);
	}
	for (int i = 0; rc == 0 && i < count; i++) {
		server->inbox.events = &events[i + 1];
		server->inbox.left = count - i - 1;
		ol_server_on_event(server, &events[i], loop->now_ns);
		if (i + 1 < count)
			rc = lease_check(loop);
	}
	if (rc == 0 && server->sessions.requests.count > 0) {
		rc = lease_check(loop);
		if (rc == 0)
			ol_sessions_serve(&server->sessions, loop->now_ns);
	}
	if (rc == 0 && ol_memory_has_news(&server->memory)) {
		rc = lease_check(loop);
		if (rc == 0)
			ol_server_on_memory(server, loop->now_ns);
	}
	if (rc == 0 && server->kind->has_news(server)) {
		rc = lease_check(loop); /* fencing a peer off takes time */
		if (rc == 0)
			server->kind->look(server, loop->now_ns);
	}
	return rc;
}

/* The transport gives no event any more. Returns why the loop ends */
static int poll_failed(struct ol_server *server, int rc)
{
	if (rc == -ENODEV)
		return server_lose_device(server);
	ol_log(OL_LOG_ERROR, "server %s: transport failed: %s", server->addr, ol_strerror(rc));
	return rc;
}

static int loop_run(struct ol_server *server)
{
	uint64_t spin_ns = server->opts.spin_us * OL_NS_PER_US;
	uint64_t now_ns = ol_clock_ns(), busy_ns = now_ns, tick_ns = now_ns, next_ns = 0, due_ns;
	struct loop loop = { .server = server,
			     .now_ns = now_ns,
			     .turn_ns = now_ns,
			     .lease_ns = server->opts.lease_ms * OL_NS_PER_MS };
	struct ol_xport_event events[EVENTS_MAX];

	server->store.run_arg = &loop;
	while (!atomic_load_explicit(&server->stopping, memory_order_relaxed)) {
		int count = poll_some(server, events), rc = lease_check(&loop);

		if (rc != 0)
			return rc;
		turn_over(server, &loop);
		if (count < 0)
			return poll_failed(server, count);
		rc = events_handle(server, &loop, events, count);
		if (rc != 0)
			return rc;
		now_ns = loop.now_ns;
		if (now_ns >= tick_ns) {
			ol_server_tick(server, now_ns);
			tick_ns = now_ns + server->opts.heartbeat_ms * OL_NS_PER_MS;
		}
		if (server->replica.end_rc != 0)
			return server_end(server, server->replica.end_rc);
		due_ns = ol_ingest_due_ns(&server->ingest);
		next_ns = due_ns < tick_ns ? due_ns : tick_ns;
		if (ol_ingest_waits(&server->ingest) || due_ns <= now_ns) {
			ol_ingest_progress(&server->ingest, now_ns);
			next_ns = now_ns + RETRY_MS * OL_NS_PER_MS;
		}
		if (count > 0 || server->turn.left || server->sessions.requests.count > 0 ||
		    ol_memory_has_news(&server->memory)) {
			busy_ns = now_ns;
			continue;
		}
		if (now_ns - busy_ns < spin_ns) {
			/* the memory thread may need this processor, which a loop of real-time
			   priority would never leave */
			if (server->opts.spin_yield || server->memory.making > 0)
				sched_yield();
			else
				ol_cpu_relax();
			continue;
		}
		rc = lease_check(&loop);
		if (rc != 0)
			return rc;
		turn_over(server, &loop);
		rc = sleep_until(server, next_ns < tick_ns ? next_ns : tick_ns, loop.now_ns);
		if (rc < 0)
			return rc;
		loop.turn_ns = ol_clock_ns();
	}
	last_save(server);
	return 0;
}

int ol_server_run(struct ol_server *server)
{
	int rc;

	if (!ol_owner_here(&server->owner) || atomic_exchange(&server->running, 1) != 0)
		return OL_E_THREAD;
	server->store.run = work_run;
	rc = loop_run(server);
	server->store.run = NULL;
	atomic_store(&server->running, 0);
	return rc;
}

void ol_server_stop(struct ol_server *server)
{
	uint64_t one = 1;
	ssize_t written;

	if (!ol_owner_here(&server->owner))
		return; /* the descriptor is its parent's, too */
	atomic_store_explicit(&server->stopping, 1, memory_order_relaxed);
	written = write(server->stop_fd, &one, sizeof(one));
	(void)written; /* fails only when it was stopped 2^64 times */
}
