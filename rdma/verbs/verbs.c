/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs.c -- the verbs transport's table, opening and closing
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "rdma/fds.h"
#include "rdma/verbs/verbs_rc.h"

static int ol_verbs_present(const char *device, char *why, size_t why_bytes)
{
	struct rdma_event_channel *channel;
	struct ibv_context *ctx;
	uint8_t port;
	int rc;

	rc = ol_verbs_device_find(device, &ctx, &port, why, why_bytes);
	if (rc != 0)
		return rc;
	ibv_close_device(ctx);
	channel = rdma_create_event_channel();
	if (channel == NULL) {
		snprintf(why, why_bytes,
			 "the RDMA connection manager cannot be used: is rdma_ucm loaded and "
			 "/dev/infiniband/rdma_cm accessible?");
		return -ENODEV;
	}
	rdma_destroy_event_channel(channel);
	return 0;
}

static uint32_t or_default(uint32_t value, uint32_t dflt)
{
	return value != 0 ? value : dflt;
}

static int opts_take(struct ol_xport *xport, const struct ol_xport_opts *opts)
{
	struct ol_xport_opts dflt;

	ol_xport_opts_init(&dflt);
	xport->opts = *opts;
	xport->opts.inflight_max = or_default(opts->inflight_max, dflt.inflight_max);
	xport->opts.doorbells_max = or_default(opts->doorbells_max, dflt.doorbells_max);
	xport->opts.conns_max = or_default(opts->conns_max, dflt.conns_max);
	xport->conns_asked = xport->opts.conns_max;
	xport->opts.retry_timeout_ms = or_default(opts->retry_timeout_ms, dflt.retry_timeout_ms);
	xport->opts.connect_timeout_ms =
		or_default(opts->connect_timeout_ms, dflt.connect_timeout_ms);
	if (xport->opts.conns_max > OL_VERBS_CONNS_LIMIT ||
	    xport->opts.inflight_max > INT32_MAX / 2 || xport->opts.doorbells_max > INT32_MAX / 2)
		return -EINVAL;
	xport->caps.slab_flags = ol_xport_slab_flags(&xport->opts, true);
	xport->timing = ol_verbs_timing(xport->opts.retry_timeout_ms);
	if (ol_verbs_timing_set(&xport->timing, &opts->wire) != 0 ||
	    opts->wire.traffic_class > UINT8_MAX ||
	    (opts->wire.path_mtu != 0 && ol_verbs_mtu_code(opts->wire.path_mtu) == 0))
		return -EINVAL;
	xport->signal_every = xport->opts.inflight_max / OL_VERBS_SIGNALS + 1;
	xport->ring = xport->opts.inflight_max + xport->signal_every - 1;
	return 0;
}

static int fds_create(struct ol_xport *xport)
{
	int rc;

	xport->epoll_fd = ol_fds_add(epoll_create1(EPOLL_CLOEXEC));
	if (xport->epoll_fd < 0)
		return -errno;
	xport->timer_fd = ol_fds_add(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	if (xport->timer_fd < 0)
		return -errno;
	if (fcntl(xport->channel->fd, F_SETFL, O_NONBLOCK) != 0)
		return -errno;
	rc = ol_verbs_watch(xport, xport->timer_fd);
	return rc == 0 ? ol_verbs_watch(xport, xport->channel->fd) : rc;
}

/* Until when a device that died in this process may be waiting for it; 0: none is */
static _Atomic uint64_t let_go_ns;

/*
 * librdmacm keeps a context of each device that it has met, also of one that is gone, until it looks
 * which there are. The kernel may wait for that context before it lets the device go. It tells of the
 * removal before the device has left the list, so one look is too early.
 */
void ol_verbs_let_go(void)
{
	const uint64_t until_ns = atomic_load_explicit(&let_go_ns, memory_order_relaxed);
	struct ibv_context **list;

	if (until_ns == 0)
		return;
	if (ol_xport_now_ns() >= until_ns)
		atomic_store_explicit(&let_go_ns, 0, memory_order_relaxed);
	list = rdma_get_devices(NULL);
	if (list != NULL)
		rdma_free_devices(list);
}

static void let_go_begin(void)
{
	const uint64_t until_ns = ol_xport_now_ns() + (uint64_t)OL_VERBS_LET_GO_MS * 1000000;

	atomic_store_explicit(&let_go_ns, until_ns, memory_order_relaxed);
	ol_verbs_let_go();
}

static void ol_verbs_close(struct ol_xport *xport)
{
	const bool dead = xport != NULL && ol_verbs_dead(xport);

	if (xport == NULL)
		return;
	for (uint32_t i = 0; xport->slots != NULL && i < xport->opts.conns_max; i++) {
		if (xport->slots[i] != NULL)
			ol_verbs_conn_free(&xport->slots[i]->base);
	}
	ol_verbs_regions_end(xport);
	ol_verbs_oob_close(xport);
	if (xport->listener != NULL)
		rdma_destroy_id(xport->listener);
	ol_verbs_queues_close(xport);
	if (xport->channel != NULL) {
		ol_fds_forget(xport->channel->fd);
		rdma_destroy_event_channel(xport->channel);
	}
	if (xport->timer_fd >= 0)
		ol_fds_close(xport->timer_fd);
	if (xport->epoll_fd >= 0)
		ol_fds_close(xport->epoll_fd);
	if (dead)
		let_go_begin();
	ol_verbs_qpmap_fini(&xport->qpmap);
	free(xport->slots);
	free(xport);
}

static int ol_verbs_open(const struct ol_xport_opts *opts, struct ol_xport **ret_xport)
{
	struct ol_xport *xport;
	int rc;

	xport = calloc(1, sizeof(*xport));
	if (xport == NULL)
		return -ENOMEM;
	xport->epoll_fd = -1;
	xport->timer_fd = -1;
	xport->ready_tail = &xport->ready;
	rc = opts_take(xport, opts);
	if (rc != 0)
		goto err_close;
	ol_verbs_let_go();
	if (ibv_fork_init() != 0)
		ol_xport_log(&xport->opts, OL_XPORT_LOG_WARN,
			     "memory was registered before open: a fork may now corrupt it");
	xport->slots = calloc(xport->opts.conns_max, sizeof(struct ol_verbs_conn *));
	rc = xport->slots == NULL ? -ENOMEM
				  : ol_verbs_qpmap_init(&xport->qpmap, xport->opts.conns_max);
	if (rc != 0)
		goto err_close;
	errno = 0;
	xport->channel = rdma_create_event_channel();
	if (xport->channel == NULL) {
		rc = -ENODEV;
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "the RDMA connection manager cannot be used: %s; outlast doctor says "
			     "what is missing",
			     strerror(errno));
		goto err_close;
	}
	ol_fds_add(xport->channel->fd);
	rc = fds_create(xport);
	if (rc == 0)
		rc = ol_verbs_queues_watched(xport, opts->device);
	if (rc != 0)
		goto err_close;
	xport->pinned = opts->device != NULL;
	*ret_xport = xport;
	return 0;

err_close:
	ol_verbs_close(xport);
	return rc;
}

static void ol_verbs_query(const struct ol_xport *xport, struct ol_xport_caps *ret_caps)
{
	*ret_caps = xport->caps;
}

static void ol_verbs_counts(const struct ol_xport *xport, struct ol_xport_counts *ret_counts)
{
	*ret_counts = xport->counts;
}

const struct ol_xport_ops ol_xport_verbs = {
	.size = sizeof(struct ol_xport_ops),
	.name = "verbs",
	.open = ol_verbs_open,
	.close = ol_verbs_close,
	.query = ol_verbs_query,
	.counts = ol_verbs_counts,
	.present = ol_verbs_present,
	.reg = ol_verbs_reg,
	.dereg = ol_verbs_dereg,
	.rkey = ol_verbs_rkey,
	.reg_begin = ol_verbs_reg_begin,
	.reg_run = ol_verbs_reg_run,
	.reg_end = ol_verbs_reg_end,
	.strip = ol_verbs_strip,
	.drop = ol_verbs_drop,
	.listen = ol_verbs_listen,
	.connect = ol_verbs_connect,
	.ident = ol_verbs_ident,
	.acceptor = ol_verbs_acceptor,
	.accept = ol_verbs_accept,
	.reject = ol_verbs_reject,
	.disconnect = ol_verbs_disconnect,
	.conn_free = ol_verbs_conn_free,
	.map = ol_xport_no_map,
	.post_write = ol_verbs_post_write,
	.post_read = ol_verbs_post_read,
	.poll = ol_verbs_poll,
	.event_fd = ol_verbs_event_fd,
	.arm = ol_verbs_arm,
};
