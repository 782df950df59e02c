/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * device.c -- a worker's transport: opened, and opened anew when its device has died
 *
 * A device may be reset or taken away while a job runs (rdma/transport.h, promise 10). Then every
 * server is lost at once, and nothing that is registered is of use. The gradients, mirrors and all
 * else stay where they are in this process. So for this worker it is an outage like any other, but
 * for one thing: before it can dial a server again, it must close the transport and open another.
 *
 *	OPEN -> (poll says -ENODEV) -> CLOSED -> (open() succeeds) -> OPEN
 *
 * While it is CLOSED, worker->xport is NULL: no peer is dialled, and the outage's timeout runs. With
 * OL_OUTAGE_END it stays closed, as the handle is at its end.
 *
 * The new transport takes the named device, or, if that is gone, the one on the route to the server.
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
static void device_log(void *arg, enum ol_xport_log_level level, const char *text)
{
	const struct ol_worker *worker = arg;

	ol_dial_log(NULL, worker->reopen.quiet ? OL_XPORT_LOG_DEBUG : level, text);
}

static int device_open(struct ol_worker *worker, const char *device)
{
	struct ol_xport_opts xopts;
	int rc;

	ol_xport_opts_init(&xopts);
	xopts.device = device;
	xopts.conns_max = worker->link_count * OL_PEERS;
	xopts.doorbells_max = OL_SLOTS_MAX;
	xopts.retry_timeout_ms = worker->opts.retry_timeout_ms;
	xopts.relaxed_ordering = (enum ol_xport_choice)worker->opts.relaxed_ordering;
	xopts.huge_pages = (enum ol_xport_choice)worker->opts.huge_pages;
	xopts.wire = (struct ol_xport_wire){ .ack_timeout = worker->opts.ack_timeout,
					     .retries = worker->opts.retries,
					     .rnr_timer = worker->opts.rnr_timer,
					     .rnr_retries = worker->opts.rnr_retries,
					     .traffic_class = worker->opts.traffic_class,
					     .path_mtu = worker->opts.path_mtu };
	xopts.log = device_log;
	xopts.log_arg = worker;
	rc = worker->ops->open(&xopts, &worker->xport);
	if (rc != 0) {
		worker->xport = NULL;
		return rc;
	}
	worker->ops->query(worker->xport, &worker->caps);
	ol_peer_dialer(worker);
	return 0;
}

int ol_device_open(struct ol_worker *worker)
{
	return device_open(worker, worker->device);
}

static bool any_link_goes_on(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (worker->links[i].state != OL_LINK_FAILED)
			return true;
	}
	return false;
}

int ol_device_lost(struct ol_worker *worker)
{
	struct ol_reopen *reopen = &worker->reopen;

	if (!worker->started) {
		snprintf(worker->err, sizeof(worker->err),
			 "the RDMA device was reset or taken away before all servers were "
			 "connected: try again");
		return OL_E_DEVICE;
	}
	/* their ends have been told, and were acted on: what is left was begun since */
	for (uint32_t i = 0; i < worker->link_count; i++)
		ol_link_lose_device(&worker->links[i], worker->now_ns);
	ol_worker_memory_dereg(worker);
	worker->ops->close(worker->xport);
	worker->xport = NULL;
	worker->dialer.xport = NULL;
	if (!any_link_goes_on(worker))
		return 0;
	ol_log(OL_LOG_WARN,
	       "worker %u: lost its device, and so all servers: it opens a device again",
	       worker->opts.worker);
	/* a device that dies as soon as it is open is not opened at once for ever */
	reopen->lost_ns = worker->now_ns;
	if (reopen->opened_ns == 0 ||
	    worker->now_ns - reopen->opened_ns >= REOPEN_MAX_MS * OL_NS_PER_MS)
		reopen->wait_ns = 0;
	reopen->due_ns = worker->now_ns + reopen->wait_ns;
	return 0;
}

/* The named device, or, if it is gone, any */
static int device_find(struct ol_worker *worker)
{
	int rc = device_open(worker, worker->device);

	if (rc != 0 && worker->device != NULL) {
		worker->reopen.quiet = true;
		rc = device_open(worker, NULL);
	}
	worker->reopen.quiet = rc != 0;
	return rc;
}

void ol_device_tick(struct ol_worker *worker)
{
	struct ol_reopen *reopen = &worker->reopen;
	uint64_t now_ns = ol_worker_now(worker);
	char text[OL_STATUS_TEXT_MAX];
	int rc;

	if (now_ns < reopen->due_ns || !any_link_goes_on(worker))
		return;
	reopen->wait_ns = reopen->wait_ns == 0 ? REOPEN_MIN_MS * OL_NS_PER_MS : 2 * reopen->wait_ns;
	if (reopen->wait_ns > REOPEN_MAX_MS * OL_NS_PER_MS)
		reopen->wait_ns = REOPEN_MAX_MS * OL_NS_PER_MS;
	rc = device_find(worker);
	now_ns = ol_worker_now(worker);
	if (rc != 0) {
		reopen->due_ns = now_ns + reopen->wait_ns;
		ol_log(OL_LOG_DEBUG, "worker %u: no device yet: %s", worker->opts.worker,
		       ol_status_text(rc, text));
		return;
	}
	reopen->opened_ns = now_ns;
	ol_log(OL_LOG_WARN, "worker %u: opened a device again, %.1f s after it lost the last one",
	       worker->opts.worker, (double)(now_ns - reopen->lost_ns) / 1e9);
	for (uint32_t i = 0; i < worker->link_count; i++)
		ol_link_dial_now(&worker->links[i], now_ns);
}
