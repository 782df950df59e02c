/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn.c -- a connection's life: made, named, timed, ended, freed
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdma/shm/shm.h"

enum {
	PEERS_FIRST = 8 /* entries of a new connection's table of peer regions */
};

int ol_shm_conn_create(struct ol_shm_xport *xport, enum ol_shm_state state,
		       struct ol_shm_conn **ret_conn)
{
	struct ol_shm_conn *conn;

	/* Greetings do not count against conns_max: silent peers cannot keep others out. */
	if (state != OL_SHM_GREETING &&
	    xport->conn_count - xport->greetings >= xport->opts.conns_max)
		return -ENOBUFS;
	conn = calloc(1, sizeof(*conn));
	if (conn == NULL)
		return -ENOMEM;
	conn->dones = calloc(xport->done_mask + 1, sizeof(*conn->dones));
	if (conn->dones == NULL)
		goto err_conn;
	conn->peers = calloc(PEERS_FIRST, sizeof(*conn->peers));
	if (conn->peers == NULL)
		goto err_dones;
	conn->peer_mask = PEERS_FIRST - 1;
	conn->base.xport = (void *)xport;
	conn->xport = xport;
	conn->state = state;
	conn->id = ++xport->conn_id;
	conn->sock = -1;
	conn->out_end = &conn->out_head;
	ol_shm_rx_quiet(conn);
	snprintf(conn->name, sizeof(conn->name), "conn %llu", (unsigned long long)conn->id);
	conn->index = xport->conn_count;
	xport->conns[xport->conn_count++] = conn;
	if (state == OL_SHM_GREETING)
		xport->greetings++;
	*ret_conn = conn;
	return 0;

err_dones:
	free(conn->dones);
err_conn:
	free(conn);
	return -ENOMEM;
}

void ol_shm_conn_name(struct ol_shm_conn *conn, pid_t pid)
{
	snprintf(conn->name, sizeof(conn->name), "conn %llu with pid %ld",
		 (unsigned long long)conn->id, (long)pid);
}

/* conn_cut -- close all descriptors shared with the peer, which learns of it from its kernel */
static void conn_cut(struct ol_shm_conn *conn)
{
	ol_shm_out_drop(conn);
	if (conn->rx.ring != NULL) {
		ol_word32_store(&conn->rx.ring->over, 1);
		ol_order_full(); /* before anything that the peer must not read */
	}
	/*
	 * close() alone is not enough if another process has a copy: the peer, or a child before
	 * its exec(). The copy would keep the descriptor in the epoll, which would then report a
	 * connection that is gone, and would keep the socket open for the peer.
	 */
	if (conn->sock >= 0) {
		epoll_ctl(conn->xport->epoll_fd, EPOLL_CTL_DEL, conn->sock, NULL);
		shutdown(conn->sock, SHUT_RDWR);
	}
	ol_shm_close_fd(&conn->sock);
}

void ol_shm_conn_destroy(struct ol_shm_conn *conn)
{
	struct ol_shm_xport *xport = conn->xport;
	struct ol_shm_conn *last;

	conn_cut(conn);
	ol_shm_segment_detach(conn);
	ol_shm_peers_free(conn);
	free(conn->dones);
	conn->dones = NULL;
	if (conn->state == OL_SHM_GREETING)
		xport->greetings--;
	last = xport->conns[--xport->conn_count];
	xport->conns[conn->index] = last;
	last->index = conn->index;
	if (conn->deadline_ns != 0)
		ol_shm_timer_update(xport);
	conn->state = OL_SHM_DOWN;
	conn->due = 0;
	conn->dead_next = xport->dead;
	xport->dead = conn;
}

void ol_shm_dead_free(struct ol_shm_xport *xport)
{
	struct ol_shm_conn *conn;

	while (xport->dead != NULL) {
		conn = xport->dead;
		xport->dead = conn->dead_next;
		free(conn);
	}
}

void ol_shm_conn_raise(struct ol_shm_conn *conn, uint32_t due)
{
	conn->due |= due;
	ol_shm_kick(conn->xport);
}

void ol_shm_conn_deadline(struct ol_shm_conn *conn, uint32_t timeout_ms)
{
	conn->deadline_ns = timeout_ms != 0 ? ol_xport_now_ns() + timeout_ms * 1000000ULL : 0;
	ol_shm_timer_update(conn->xport);
}

void ol_shm_conn_down(struct ol_shm_conn *conn, int status)
{
	struct ol_shm_msg bye = { .type = OL_SHM_MSG_BYE, .status = status };

	if (conn->state == OL_SHM_DOWN)
		return;
	if (conn->sock >= 0 && conn->state != OL_SHM_GREETING)
		ol_shm_send(conn, &bye, NULL, 0);
	if (conn->state == OL_SHM_GREETING || (conn->due & OL_SHM_DUE_REQUEST) != 0) {
		ol_shm_conn_destroy(conn);
		return;
	}
	conn_cut(conn);
	conn->state = OL_SHM_DOWN;
	conn->down_status = status;
	/* Doorbells in the ring now were rung before the end: deliver only these. */
	conn->drain = conn->rx.capacity;
	ol_shm_conn_deadline(conn, 0);
	ol_shm_conn_raise(conn, OL_SHM_DUE_DOWN);
}

void ol_shm_disconnect(struct ol_xport_conn *base)
{
	ol_shm_conn_down(ol_shm_conn(base), 0);
}

void ol_shm_conn_free(struct ol_xport_conn *base)
{
	ol_shm_conn_destroy(ol_shm_conn(base));
}
