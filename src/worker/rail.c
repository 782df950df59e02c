/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rail.c -- a worker's rails: a transport each, opened, and opened anew when its device has died
 *
 * A worker leaves by the device on the route to its servers, by a named one, or by several: each is
 * a rail. Shard k belongs to rail k modulo their number. Its connections take another while that one
 * fails.
 *
 * A device may be reset or taken away while a job runs (rdma/transport.h, promise 10). Then every
 * connection of the rail is lost at once, and nothing that is registered there is of use. The
 * gradients, mirrors and all else stay where they are in this process. So for this worker it is an
 * outage like any other, but for one thing: before it can dial by this rail again, it must close the
 * transport and open another.
 *
 *	OPEN -> (poll says -ENODEV) -> CLOSED -> (open() succeeds) -> OPEN
 *
 * While a rail is CLOSED, its xport is NULL: nothing is dialled by it. While all are, the outage's
 * timeout runs. With OL_OUTAGE_END it stays closed, as the handle is at its end.
 *
 * A cable may be out, or a switch: then only the ends of connections and attempts tell
 * (rail_may_fail()). Each such end counts in peer->rail_fails, which chooses the next attempt's rail:
 * all addresses of the server by one rail, then all by the next. Any other end of a connection that
 * was live leads back to the shard's own rail.
 *
 * A rail alone takes its named device, or, if that is gone, the one on the route to the server.
 * In the second case nothing may be registered before the first connection is up, as only that
 * settles the device. So memory is registered just before the first hello (ol_worker_memory_reg()).
 */

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"
#include "worker/worker_internal.h"

enum {
	REOPEN_MIN_MS = 10, /* between two attempts; doubled each time */
	REOPEN_MAX_MS = 1000
};

/* While a device is away each attempt finds the same: only the first one is for the log. */
static void rail_log(void *arg, enum ol_xport_log_level level, const char *text)
{
	const struct ol_rail *rail = arg;

	ol_dial_log(NULL, rail->reopen.quiet ? OL_XPORT_LOG_DEBUG : level, text);
}

/* What all rails grant */
static void caps_take(struct ol_worker *worker, const struct ol_xport_caps *caps)
{
	uint32_t inline_max = worker->caps.inline_max;

	if (worker->rail_count > 1 && worker->caps_known) {
		if (caps->inline_max < inline_max)
			worker->caps.inline_max = caps->inline_max;
		return;
	}
	worker->caps = *caps;
	worker->caps_known = true;
}

static int rail_open(struct ol_rail *rail, const char *device)
{
	struct ol_worker *worker = rail->worker;
	struct ol_xport_opts xopts;
	struct ol_xport_caps caps;
	int rc;

	ol_xport_opts_init(&xopts);
	xopts.device = device;
	xopts.conns_max = worker->link_count * OL_PEERS;
	/* acks and a welcome; in each slot, of a chain's head twice, that a push is held */
	xopts.doorbells_max =
		OL_SLOTS_MAX +
		2 * (worker->opts.window != 0 ? worker->opts.window : (uint32_t)OL_WINDOW_MAX);
	xopts.retry_timeout_ms = worker->opts.retry_timeout_ms;
	xopts.relaxed_ordering = (enum ol_xport_choice)worker->opts.relaxed_ordering;
	xopts.huge_pages = (enum ol_xport_choice)worker->opts.huge_pages;
	xopts.wire = (struct ol_xport_wire){ .ack_timeout = worker->opts.ack_timeout,
					     .retries = worker->opts.retries,
					     .rnr_timer = worker->opts.rnr_timer,
					     .rnr_retries = worker->opts.rnr_retries,
					     .traffic_class = worker->opts.traffic_class,
					     .path_mtu = worker->opts.path_mtu };
	xopts.log = rail_log;
	xopts.log_arg = rail;
	rc = worker->ops->open(&xopts, &rail->xport);
	if (rc != 0) {
		rail->xport = NULL;
		return rc;
	}
	worker->ops->query(rail->xport, &caps);
	caps_take(worker, &caps);
	ol_peer_dialer(rail);
	return 0;
}

static void reopen_soon(struct ol_rail *rail, uint64_t now_ns)
{
	rail->reopen.lost_ns = now_ns;
	rail->reopen.due_ns = now_ns + rail->reopen.wait_ns;
}

int ol_rails_open(struct ol_worker *worker)
{
	uint32_t open = 0;
	int rc = 0;

	worker->rail_count = worker->rail_names.count > 0 ? worker->rail_names.count : 1;
	for (uint32_t i = 0; i < worker->rail_count; i++) {
		struct ol_rail *rail = &worker->rails[i];
		int status;

		rail->worker = worker;
		rail->device = worker->rail_names.count > 0 ? worker->rail_names.names[i] : NULL;
		status = rail_open(rail, rail->device);
		open += status == 0;
		if (status == 0)
			continue;
		rc = status;
		rail->reopen.quiet = true;
		rail->reopen.wait_ns = REOPEN_MIN_MS * OL_NS_PER_MS;
		reopen_soon(rail, ol_worker_now(worker));
	}
	if (open == 0)
		return rc;
	for (uint32_t i = 0; rc != 0 && i < worker->rail_count; i++) {
		if (worker->rails[i].xport == NULL)
			ol_log(OL_LOG_WARN,
			       "worker %u: device %s cannot be opened: its shards take another "
			       "rail until it can",
			       worker->opts.worker, worker->rails[i].device);
	}
	return 0;
}

static bool any_link_goes_on(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (worker->links[i].state != OL_LINK_FAILED)
			return true;
	}
	return false;
}

static const char *rail_name(const struct ol_rail *rail)
{
	return rail->device != NULL ? rail->device : "its device";
}

int ol_rail_lost_early(struct ol_worker *worker)
{
	snprintf(worker->err, sizeof(worker->err),
		 "the RDMA device was reset or taken away before the worker was open: try again");
	return OL_E_DEVICE;
}

int ol_rail_lost(struct ol_rail *rail)
{
	struct ol_worker *worker = rail->worker;
	struct ol_reopen *reopen = &rail->reopen;

	if (!worker->started)
		return ol_rail_lost_early(worker);
	/* their ends have been told, and were acted on: what is left was begun since */
	for (uint32_t i = 0; i < worker->link_count; i++)
		ol_link_lose_rail(&worker->links[i], rail, worker->now_ns);
	ol_worker_memory_dereg(rail);
	worker->ops->close(rail->xport);
	rail->xport = NULL;
	rail->dialer.xport = NULL;
	if (!any_link_goes_on(worker))
		return 0;
	ol_log(OL_LOG_WARN, "worker %u: lost %s, and so %s: it opens %s again", worker->opts.worker,
	       rail_name(rail), worker->rail_count > 1 ? "a rail" : "all servers",
	       rail->device != NULL ? "it" : "a device");
	/* a device that dies as soon as it is open is not opened at once for ever */
	if (reopen->opened_ns == 0 ||
	    worker->now_ns - reopen->opened_ns >= REOPEN_MAX_MS * OL_NS_PER_MS)
		reopen->wait_ns = 0;
	reopen_soon(rail, worker->now_ns);
	return 0;
}

/* The named device, or, if it is gone and there is no other rail, any */
static int device_find(struct ol_rail *rail)
{
	int rc = rail_open(rail, rail->device);

	if (rc != 0 && rail->device != NULL && rail->worker->rail_count == 1) {
		rail->reopen.quiet = true;
		rc = rail_open(rail, NULL);
	}
	rail->reopen.quiet = rc != 0;
	return rc;
}

void ol_rail_tick(struct ol_rail *rail)
{
	struct ol_worker *worker = rail->worker;
	struct ol_reopen *reopen = &rail->reopen;
	uint64_t now_ns = ol_worker_now(worker);
	char text[OL_STATUS_TEXT_MAX];
	int rc;

	if (now_ns < reopen->due_ns || !any_link_goes_on(worker))
		return;
	reopen->wait_ns = reopen->wait_ns == 0 ? REOPEN_MIN_MS * OL_NS_PER_MS : 2 * reopen->wait_ns;
	if (reopen->wait_ns > REOPEN_MAX_MS * OL_NS_PER_MS)
		reopen->wait_ns = REOPEN_MAX_MS * OL_NS_PER_MS;
	rc = device_find(rail);
	now_ns = ol_worker_now(worker);
	if (rc != 0) {
		reopen->due_ns = now_ns + reopen->wait_ns;
		ol_log(OL_LOG_DEBUG, "worker %u: no device yet: %s", worker->opts.worker,
		       ol_status_text(rc, text));
		return;
	}
	reopen->opened_ns = now_ns;
	ol_log(OL_LOG_WARN, "worker %u: opened %s again, %.1f s after it was lost",
	       worker->opts.worker, rail->device != NULL ? rail->device : "a device",
	       (double)(now_ns - reopen->lost_ns) / 1e9);
	for (uint32_t i = 0; i < worker->link_count; i++)
		ol_link_dial_now(&worker->links[i], now_ns);
}

struct ol_rail *ol_rail_choose(const struct ol_peer *peer)
{
	struct ol_worker *worker = peer->link->worker;
	uint32_t first = peer->link->index + peer->rail_fails / ol_peer_addrs(peer);

	for (uint32_t i = 0; i < worker->rail_count; i++) {
		struct ol_rail *rail = &worker->rails[(first + i) % worker->rail_count];

		if (rail->xport != NULL)
			return rail;
	}
	return NULL;
}

/* True of an end that the rail may have caused. The others are answers of the server or its host. */
static bool rail_may_fail(int status)
{
	switch (status) {
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -EADDRNOTAVAIL:
	case -ENODEV:
	case -EIO:
	case OL_E_DEVICE:
		return true;
	default:
		return false;
	}
}

void ol_rail_on_attempt(struct ol_peer *peer, int status)
{
	peer->rail_fails += rail_may_fail(status);
}

void ol_rail_on_lost(struct ol_peer *peer, int status)
{
	const uint32_t count = ol_peer_addrs(peer);

	if (rail_may_fail(status))
		peer->rail_fails = (peer->rail_fails / count + 1) * count;
	else
		peer->rail_fails = 0;
}

void ol_rail_on_live(struct ol_peer *peer)
{
	const struct ol_rail *rail = peer->rail;
	const struct ol_rail *own =
		&rail->worker->rails[peer->link->index % rail->worker->rail_count];

	if (rail != (peer->rail_told != NULL ? peer->rail_told : own))
		ol_log_rated(&peer->said, rail->worker->now_ns, OL_LOG_WARN,
			     "worker %u: server %s (shard %u) is reached by %s now",
			     rail->worker->opts.worker, peer->dial.addr, peer->link->index,
			     rail_name(rail));
	peer->rail_told = rail;
}
