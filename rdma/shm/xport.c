/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * xport.c -- the shared-memory transport's table, opening and closing
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "rdma/fds.h"
#include "rdma/shm/shm.h"

static uint32_t pow2_up(uint32_t value)
{
	uint32_t pow2 = 1;

	while (pow2 < value)
		pow2 *= 2;
	return pow2;
}

/* opts_take -- opts with 0 replaced by the defaults, checked */
static int opts_take(struct ol_shm_xport *xport, const struct ol_xport_opts *opts)
{
	struct ol_xport_opts dflt;
	struct ol_xport_opts *own = &xport->opts;

	ol_xport_opts_init(&dflt);
	*own = *opts;
	if (own->inflight_max == 0)
		own->inflight_max = dflt.inflight_max;
	if (own->doorbells_max == 0)
		own->doorbells_max = dflt.doorbells_max;
	if (own->conns_max == 0)
		own->conns_max = dflt.conns_max;
	if (own->retry_timeout_ms == 0)
		own->retry_timeout_ms = dflt.retry_timeout_ms;
	if (own->connect_timeout_ms == 0)
		own->connect_timeout_ms = dflt.connect_timeout_ms;
	if (own->inflight_max > OL_SHM_INFLIGHT_LIMIT ||
	    own->doorbells_max > OL_SHM_RING_WORDS_MAX || own->conns_max > OL_SHM_CONNS_LIMIT) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "shm: at most %d operations in flight, %d doorbells, %d connections; "
			     "asked for %u, %u, %u",
			     OL_SHM_INFLIGHT_LIMIT, OL_SHM_RING_WORDS_MAX, OL_SHM_CONNS_LIMIT,
			     own->inflight_max, own->doorbells_max, own->conns_max);
		return -EINVAL;
	}
	xport->inflight_max = own->inflight_max;
	xport->done_mask = pow2_up(own->inflight_max) - 1;
	xport->capacity = pow2_up(own->doorbells_max);
	return 0;
}

/* fds_open -- the descriptors that an xport waits on; &xport->timer_fd is its own epoll tag */
static int fds_open(struct ol_shm_xport *xport)
{
	int rc;

	xport->epoll_fd = ol_fds_add(epoll_create1(EPOLL_CLOEXEC));
	if (xport->epoll_fd < 0)
		return -errno;
	xport->timer_fd = ol_fds_add(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	if (xport->timer_fd < 0) {
		rc = -errno;
		goto err_epoll;
	}
	rc = ol_shm_watch(xport, xport->timer_fd, EPOLLIN, &xport->timer_fd);
	if (rc != 0)
		goto err_timer;
	xport->spare_fd = ol_fds_add(open("/dev/null", O_RDONLY | O_CLOEXEC));
	if (xport->spare_fd < 0) {
		rc = -errno;
		goto err_timer;
	}
	return 0;

err_timer:
	ol_shm_close_fd(&xport->timer_fd);
err_epoll:
	ol_shm_close_fd(&xport->epoll_fd);
	return rc;
}

static int ol_shm_open(const struct ol_xport_opts *opts, struct ol_xport **ret_xport)
{
	struct ol_shm_xport *xport;
	int rc;

	xport = calloc(1, sizeof(*xport));
	if (xport == NULL)
		return -ENOMEM;
	xport->listen_fd = -1;
	rc = opts_take(xport, opts);
	if (rc != 0)
		goto err_xport;
	/* The start is random, so that a key of one xport fails on another. */
	if (getrandom(&xport->rkey_first, sizeof(xport->rkey_first), GRND_NONBLOCK) !=
	    (ssize_t)sizeof(xport->rkey_first))
		xport->rkey_first = (uint32_t)ol_xport_now_ns();
	xport->rkey_next = xport->rkey_first;
	xport->polls_left = 1;
	xport->polls_between = 1;
	xport->conns =
		calloc(xport->opts.conns_max + OL_SHM_GREETINGS_MAX, sizeof(struct ol_shm_conn *));
	if (xport->conns == NULL) {
		rc = -ENOMEM;
		goto err_xport;
	}
	rc = fds_open(xport);
	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR, "shm: cannot open: %s",
			     strerror(-rc));
		goto err_conns;
	}
	*ret_xport = (void *)xport;
	return 0;

err_conns:
	free(xport->conns);
err_xport:
	free(xport);
	return rc;
}

static void ol_shm_close(struct ol_xport *base)
{
	struct ol_shm_xport *xport = ol_shm_xport(base);

	while (xport->conn_count > 0)
		ol_shm_conn_destroy(xport->conns[xport->conn_count - 1]);
	ol_shm_dead_free(xport);
	ol_shm_listen_close(xport);
	if (xport->regions != NULL)
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "shm: closed with regions still registered: deregister them first");
	ol_shm_regions_orphan(xport);
	ol_shm_close_fd(&xport->spare_fd);
	ol_shm_close_fd(&xport->timer_fd);
	ol_shm_close_fd(&xport->epoll_fd);
	free(xport->conns);
	free(xport);
}

static void ol_shm_query(const struct ol_xport *base, struct ol_xport_caps *ret_caps)
{
	const struct ol_shm_xport *xport = ol_shm_xport_const(base);

	*ret_caps = (struct ol_xport_caps){
		.announces = 1,
		.inline_max = OL_SHM_INLINE_MAX,
		.inflight_max = xport->inflight_max,
		.write_in_order = 0,
		.fence_keeps = 0,
		.write_max = OL_SHM_WRITE_MAX,
		.numa_node = OL_SLAB_NODE_ANY,
		.slab_flags = xport->opts.huge_pages != OL_XPORT_OFF ? OL_SLAB_HUGE : 0,
	};
}

static void ol_shm_counts(const struct ol_xport *base, struct ol_xport_counts *ret_counts)
{
	const struct ol_shm_xport *xport = ol_shm_xport_const(base);

	*ret_counts = xport->counts;
	ret_counts->conns = xport->conn_count;
}

static int ol_shm_present(const char *device, char *why, size_t why_bytes)
{
	(void)device;
	snprintf(why, why_bytes, "shared memory, always there");
	return 0;
}

const struct ol_xport_ops ol_xport_shm = {
	.size = sizeof(struct ol_xport_ops),
	.name = "shm",
	.open = ol_shm_open,
	.close = ol_shm_close,
	.query = ol_shm_query,
	.counts = ol_shm_counts,
	.present = ol_shm_present,
	.reg = ol_shm_reg,
	.dereg = ol_shm_dereg,
	.rkey = ol_shm_rkey,
	.reg_begin = ol_xport_no_reg_begin,
	.reg_run = ol_xport_no_reg_run,
	.reg_end = ol_xport_no_reg_end,
	.strip = ol_shm_strip,
	.drop = ol_shm_drop,
	.listen = ol_shm_listen,
	.connect = ol_shm_connect,
	.ident = ol_shm_ident,
	.acceptor = ol_xport_no_acceptor,
	.accept = ol_shm_accept,
	.reject = ol_shm_reject,
	.disconnect = ol_shm_disconnect,
	.conn_free = ol_shm_conn_free,
	.map = ol_shm_map,
	.post_write = ol_shm_post_write,
	.post_read = ol_shm_post_read,
	.poll = ol_shm_poll,
	.event_fd = ol_shm_event_fd,
	.arm = ol_shm_arm,
};
