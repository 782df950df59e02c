/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * route.c -- with chains: the servers that a worker connects to, by the newest view of each shard
 *
 *	chain           HEAD                    TAIL
 *	one replica     pushes and reads        -
 *	several         pushes                  reads, hears of commits
 *	periodic        pushes and reads        -       (the head; nobody waits for the others)
 *	observer        reads, at the tail      -
 *
 * A server that keeps its role keeps its connection. Any other is fenced off first; then the worker
 * connects at once to the server that has the role now. The server's former role does not matter:
 * its welcome, in the view that gave it the role or a later one, tells what is committed.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/defaults.h"
#include "base/log.h"
#include "replication/coord/lease.h"
#include "wire/auth.h"
#include "worker/worker_internal.h"

/* From the coordination handle's thread */
static void coord_notify(void *arg)
{
	const struct ol_worker *worker = arg;
	uint64_t one = 1;
	ssize_t written = write(worker->wake_fd, &one, sizeof(one));

	(void)written; /* fails only if it is readable anyway */
}

static bool coord_cancelled(void *arg)
{
	const struct ol_worker *worker = arg;

	return ol_cancelled(worker->opts.cancel_fd);
}

static void coord_log(void *arg, const char *text)
{
	(void)arg;
	ol_log(OL_LOG_WARN, "coordinator: %s", text);
}

void ol_route_woken(struct ol_worker *worker)
{
	uint64_t count;
	ssize_t got = read(worker->wake_fd, &count, sizeof(count));

	(void)got; /* fails if no wake-up is pending */
}

/* True if the server that this peer is connected to, or dials, still has its role */
static bool peer_stays(const struct ol_peer *peer, const struct ol_member *member)
{
	return peer->dial.state != OL_DIAL_NONE && peer->member == member->id &&
	       strcmp(peer->addrs, member->addr) == 0;
}

static void peer_aim(struct ol_peer *peer, enum ol_wire_role role, const struct ol_member *member,
		     uint32_t epoch, uint64_t now_ns)
{
	peer->role = role;
	peer->member = member->id;
	peer->since = epoch;
	peer->dial.attempts = 0;
	peer->busy_ns = 0;
	peer->short_ns = 0;
	peer->dial.backoff_ns = 0;
	peer->told_off = false;
	memcpy(peer->addrs, member->addr, sizeof(member->addr));
	ol_link_start(peer, now_ns);
}

static void route_log(const struct ol_link *link, const struct ol_member *head,
		      const struct ol_member *tail)
{
	ol_log(OL_LOG_DEBUG, "shard %u, epoch %u: pushes go to %s, pulls to %s", link->index,
	       link->view_epoch, head->addr, tail->addr);
}

static void link_route(struct ol_link *link, const struct ol_view *view, uint64_t now_ns)
{
	struct ol_worker *worker = link->worker;
	struct ol_peer *head = ol_link_head(link), *tail = &link->peers[OL_TAIL];
	bool observer = worker->opts.observer != 0;
	const struct ol_member *last = &view->replicas[view->every > 0 ? 0 : view->count - 1];
	const struct ol_member *first = observer ? last : &view->replicas[0];
	bool both = last == first, head_stays, tail_stays;

	head_stays = peer_stays(head, first) && both == (link->reader == head);
	tail_stays = !both && peer_stays(tail, last);
	if (!head_stays)
		ol_link_leave(head, now_ns);
	if (!tail_stays)
		ol_link_leave(tail, now_ns);
	if (view->history != link->chain_history)
		link->version = 0; /* the last server's versions do not count */
	link->founded = view->founded;
	link->chain_history = view->history;
	link->chain_origin = view->origin;
	link->view_epoch = view->epoch;
	link->strict = view->every == 0;
	link->reader = both ? head : tail;
	route_log(link, first, last);
	if (!head_stays)
		peer_aim(head, observer ? OL_ROLE_OBSERVER : OL_ROLE_WORKER, first, view->epoch,
			 now_ns);
	if (!both && !tail_stays && link->state != OL_LINK_FAILED)
		peer_aim(tail, OL_ROLE_READER, last, view->epoch, now_ns);
	ol_link_review_welcomes(link, now_ns);
}

/*
 * view_follows -- true if it is a later view of the chain that this link knows
 *
 * A view of another origin comes from a coordinator that has lost its memory: its chain began
 * without gradients that this worker knows as committed. The servers that have them may still live:
 * the worker stays with them.
 */
static bool view_follows(struct ol_link *link, const struct ol_view *view)
{
	if (link->chain_origin == 0)
		return true;
	if (view->origin != link->chain_origin && !link->forgotten) {
		link->forgotten = true;
		ol_log(OL_LOG_ERROR,
		       "shard %u: the coordinator has forgotten this chain (epoch %u, history "
		       "%016llx) and has another: this worker stays with the servers that it knows; "
		       "begin the job again",
		       link->index, link->view_epoch, (unsigned long long)link->chain_history);
	}
	return view->origin == link->chain_origin && view->epoch > link->view_epoch;
}

void ol_route_look(struct ol_worker *worker)
{
	uint64_t generation = ol_coord_generation(worker->coord), now_ns;
	struct ol_coord_state state;

	if (generation == worker->coord_generation)
		return;
	worker->coord_generation = generation;
	now_ns = ol_worker_now(worker);
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		ol_coord_look(worker->coord, i, &state);
		if (link->state != OL_LINK_FAILED && state.version != 0 && state.view.count > 0 &&
		    view_follows(link, &state.view))
			link_route(link, &state.view, now_ns);
	}
}

static int coord_open(struct ol_worker *worker, uint32_t shard_count)
{
	struct ol_coord_opts copts = {
		.addr = worker->opts.coordinator,
		.job = worker->opts.job != NULL ? worker->opts.job : OL_DEFAULT_JOB,
		.shard_count = shard_count,
		.lease_ms = OL_LEASE_WATCHER_MS,
		.open_timeout_ms = worker->opts.connect_timeout_ms,
		.mac = ol_auth_coord_mac, /* an empty job key is a key too */
		.owner_mac = ol_auth_coord_owner_mac,
		.mac_arg = worker->job_key,
		.keyless = worker->job_key[0] == '\0',
		.notify = coord_notify,
		.notify_arg = worker,
		.cancelled = coord_cancelled,
		.cancelled_arg = worker,
		.log = coord_log,
	};
	int rc;

	rc = ol_coord_open(&copts, &worker->coord, worker->err, sizeof(worker->err));
	if (rc == -EACCES)
		return OL_E_AUTH;
	return rc == -ETIMEDOUT || rc == -ENOENT ? OL_E_NO_SERVER : rc;
}

/* Wait until every shard has a view; that of shard 0 is in *ret_state then */
static int views_wait(struct ol_worker *worker, uint32_t shard_count,
		      struct ol_coord_state *ret_state)
{
	uint64_t now_ns = ol_clock_ns();
	uint64_t bound_ns = now_ns + worker->opts.connect_timeout_ms * OL_NS_PER_MS;
	struct pollfd fds[] = { { .fd = worker->wake_fd, .events = POLLIN },
				{ .fd = worker->opts.cancel_fd, .events = POLLIN } };
	uint32_t shard = shard_count;

	while (shard > 0) {
		ol_route_woken(worker);
		for (shard = shard_count; shard > 0; shard--) {
			ol_coord_look(worker->coord, shard - 1, ret_state);
			if (ret_state->version == 0 || ret_state->view.count == 0)
				break;
		}
		if (shard == 0)
			return 0;
		now_ns = ol_clock_ns();
		if (now_ns >= bound_ns)
			break;
		if (poll(fds, 2, (int)((bound_ns - now_ns) / OL_NS_PER_MS) + 1) < 0 &&
		    errno != EINTR)
			return -errno;
		if (fds[1].revents != 0) {
			snprintf(worker->err, sizeof(worker->err),
				 "called back by cancel_fd before coordinator %.100s had a chain",
				 worker->opts.coordinator);
			return -ECANCELED;
		}
	}
	snprintf(worker->err, sizeof(worker->err),
		 "coordinator %.100s, job %.64s: shard %u has no chain after %u ms: %u servers are "
		 "registered, and it begins when it has as many as it wants replicas",
		 worker->opts.coordinator,
		 worker->opts.job != NULL ? worker->opts.job : OL_DEFAULT_JOB, shard - 1,
		 worker->opts.connect_timeout_ms, ret_state->member_count);
	return OL_E_NO_SERVER;
}

int ol_route_open(struct ol_worker *worker, char addr[OL_ENDPOINT_MAX])
{
	struct ol_coord_state state;
	uint32_t count;
	int rc;

	worker->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (worker->wake_fd < 0)
		return -errno;
	/* the first shard's view says how many there are */
	rc = coord_open(worker, 1);
	if (rc == 0)
		rc = views_wait(worker, 1, &state);
	if (rc != 0)
		return rc;
	count = state.view.shard_count;
	if (count == 0 || count > OL_SHARDS_MAX)
		return OL_E_GEOMETRY;
	if (count > 1) {
		ol_coord_close(worker->coord);
		worker->coord = NULL;
		rc = coord_open(worker, count);
		if (rc == 0)
			rc = views_wait(worker, count, &state);
	}
	if (rc != 0)
		return rc;
	memcpy(addr, state.view.replicas[0].addr, OL_ENDPOINT_MAX);
	worker->coord_generation = UINT64_MAX; /* the first look finds something new */
	return ol_links_make(worker, count);
}

void ol_route_close(struct ol_worker *worker)
{
	ol_coord_close(worker->coord);
	worker->coord = NULL;
	if (worker->wake_fd >= 0)
		close(worker->wake_fd);
}
