/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shake.c -- the handshake (hello, accept or reject, confirm), and later messages
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdma/fds.h"
#include "rdma/shm/shm.h"

enum {
	READS_MAX = 256 /* messages of one peer handled at one look */
};

static bool capacity_sound(uint32_t capacity)
{
	return capacity != 0 && capacity <= OL_SHM_RING_WORDS_MAX &&
	       (capacity & (capacity - 1)) == 0;
}

void ol_shm_ident(const struct ol_xport_conn *base, struct ol_xport_ident *ret_ident)
{
	*ret_ident = ((const struct ol_shm_conn *)base)->ident;
}

void ol_shm_ident_note(struct ol_shm_conn *conn, bool peers)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(name);
	size_t chars;

	if ((peers ? getpeername(conn->sock, (struct sockaddr *)&name, &bytes)
		   : getsockname(conn->sock, (struct sockaddr *)&name, &bytes)) != 0)
		return;
	chars = bytes - offsetof(struct sockaddr_un, sun_path);
	if (chars > sizeof(conn->ident.bytes))
		chars = sizeof(conn->ident.bytes);
	memcpy(conn->ident.bytes, name.sun_path, chars);
}

/* A name of the kernel's choice for a socket: no other one of this machine has it. */
static int name_take(int sock)
{
	const struct sockaddr any = { .sa_family = AF_UNIX };

	return bind(sock, &any, sizeof(any.sa_family)) == 0 ? 0 : -errno;
}

void ol_shm_dial(struct ol_shm_conn *conn)
{
	struct ol_shm_xport *xport = conn->xport;
	struct ol_shm_msg hello = { .type = OL_SHM_MSG_HELLO,
				    .capacity = xport->capacity,
				    .priv_len = conn->priv_len };
	uid_t uid;
	pid_t pid;
	int rc;

	if (connect(conn->sock, (const struct sockaddr *)&conn->peer, conn->peer_bytes) != 0) {
		if (errno == EAGAIN || errno == EINTR) {
			conn->retry_ns = ol_xport_now_ns() + OL_SHM_DIAL_RETRY_MS * 1000000ULL;
			ol_shm_timer_update(xport);
			return;
		}
		rc = errno == EACCES || errno == EPERM ? -EACCES : -EIO;
		if (errno == ECONNREFUSED || errno == ENOENT || errno == ENOTDIR ||
		    errno == EPROTOTYPE)
			rc = -ECONNREFUSED;
		ol_shm_conn_down(conn, rc);
		return;
	}
	rc = ol_shm_peer_check(conn->sock, &pid, &uid);
	if (rc != 0) {
		ol_shm_log_rare(xport, OL_SHM_RARE_USER,
				"%s: the listener is neither our user nor root", conn->name);
		ol_shm_conn_down(conn, -EACCES);
		return;
	}
	ol_shm_conn_name(conn, pid);
	if (conn->seal.make != NULL)
		conn->seal.make(conn->seal.arg, &conn->ident, conn->priv, conn->priv_len);
	memcpy(hello.priv, conn->priv, conn->priv_len);
	conn->state = OL_SHM_CONNECTING;
	rc = ol_shm_watch(xport, conn->sock, EPOLLIN, conn);
	if (rc == 0)
		rc = ol_shm_send(conn, &hello, NULL, 0);
	if (rc != 0)
		ol_shm_conn_down(conn, -EIO);
}

int ol_shm_connect(struct ol_xport *base, const char *addr, const void *priv, uint32_t priv_len,
		   const struct ol_xport_seal *seal, struct ol_xport_conn **ret_conn)
{
	struct ol_shm_xport *xport = ol_shm_xport(base);
	struct ol_shm_conn *conn;
	int rc;

	if (priv_len > OL_XPORT_PRIV_CONNECT_MAX)
		return -EINVAL;
	rc = ol_shm_conn_create(xport, OL_SHM_DIALING, &conn);
	if (rc != 0)
		return rc;
	rc = ol_shm_addr_parse(addr, &conn->peer, &conn->peer_bytes);
	if (rc != 0)
		goto err_conn;
	conn->sock = ol_fds_add(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (conn->sock < 0) {
		rc = -errno;
		goto err_conn;
	}
	rc = name_take(conn->sock);
	if (rc != 0)
		goto err_conn;
	ol_shm_ident_note(conn, false);
	if (seal != NULL)
		conn->seal = *seal;
	if (priv_len > 0)
		memcpy(conn->priv, priv, priv_len);
	conn->priv_len = priv_len;
	ol_shm_conn_deadline(conn, xport->opts.connect_timeout_ms);
	ol_shm_dial(conn);
	*ret_conn = &conn->base;
	return 0;

err_conn:
	ol_shm_conn_destroy(conn);
	return rc;
}

int ol_shm_accept(struct ol_xport_conn *base, const void *priv, uint32_t priv_len)
{
	struct ol_shm_conn *conn = ol_shm_conn(base);
	struct ol_shm_xport *xport = conn->xport;
	struct ol_shm_msg msg = { .type = OL_SHM_MSG_ACCEPT,
				  .capacity = xport->capacity,
				  .priv_len = priv_len };
	int segment;
	int rc;

	if (priv_len > OL_XPORT_PRIV_ACCEPT_MAX)
		return -EINVAL;
	if (conn->state == OL_SHM_DOWN)
		return 0; /* CONN_DOWN follows, or has */
	if (conn->state != OL_SHM_REQUESTED)
		return -EINVAL;
	rc = ol_shm_segment_create(conn, xport->capacity, conn->peer_capacity, &segment);
	if (rc != 0)
		return rc;
	if (priv_len > 0)
		memcpy(msg.priv, priv, priv_len);
	conn->state = OL_SHM_ACCEPTED;
	rc = ol_shm_announce_all(conn);
	if (rc == 0)
		rc = ol_shm_send(conn, &msg, &segment, 1);
	ol_fds_close(segment);
	if (rc != 0)
		ol_shm_conn_down(conn, -EIO);
	else
		ol_shm_conn_deadline(conn, xport->opts.connect_timeout_ms);
	return 0;
}

void ol_shm_reject(struct ol_xport_conn *base, const void *priv, uint32_t priv_len)
{
	struct ol_shm_conn *conn = ol_shm_conn(base);
	struct ol_shm_msg msg = { .type = OL_SHM_MSG_REJECT, .priv_len = priv_len };

	if (priv_len > OL_XPORT_PRIV_REJECT_MAX)
		msg.priv_len = OL_XPORT_PRIV_REJECT_MAX;
	if (msg.priv_len > 0)
		memcpy(msg.priv, priv, msg.priv_len);
	if (conn->state == OL_SHM_REQUESTED)
		ol_shm_send(conn, &msg, NULL, 0);
	ol_shm_conn_destroy(conn);
}

static void priv_keep(struct ol_shm_conn *conn, const struct ol_shm_msg *msg)
{
	memcpy(conn->priv, msg->priv, msg->priv_len);
	conn->priv_len = msg->priv_len;
}

/* The on_*() functions own the descriptors. Negative: the peer broke a rule, or memory is short */

static int on_hello(struct ol_shm_conn *conn, const struct ol_shm_msg *msg)
{
	struct ol_shm_xport *xport = conn->xport;
	struct ol_shm_msg no = { .type = OL_SHM_MSG_REJECT, .status = -EUSERS };

	if (!capacity_sound(msg->capacity))
		return -EPROTO;
	if (xport->conn_count - xport->greetings >= xport->opts.conns_max) {
		ol_shm_log_rare(xport, OL_SHM_RARE_PLACES,
				"%s turned away: all %u connections are taken", conn->name,
				xport->opts.conns_max);
		ol_shm_send(conn, &no, NULL, 0);
		ol_shm_conn_destroy(conn);
		return 0;
	}
	xport->greetings--;
	conn->state = OL_SHM_REQUESTED;
	conn->peer_capacity = msg->capacity;
	priv_keep(conn, msg);
	ol_shm_conn_deadline(conn, 0);
	ol_shm_conn_raise(conn, OL_SHM_DUE_REQUEST);
	return 0;
}

static int on_accept(struct ol_shm_conn *conn, const struct ol_shm_msg *msg, const int *fds)
{
	struct ol_shm_msg confirm = { .type = OL_SHM_MSG_CONFIRM };
	int rc;

	rc = -EPROTO;
	if (capacity_sound(msg->capacity))
		rc = ol_shm_segment_attach(conn, fds[0], conn->xport->capacity, msg->capacity);
	ol_fds_close(fds[0]);
	if (rc != 0)
		return rc;
	rc = ol_shm_announce_all(conn);
	if (rc == 0)
		rc = ol_shm_send(conn, &confirm, NULL, 0);
	if (rc != 0)
		return rc;
	priv_keep(conn, msg);
	conn->state = OL_SHM_UP;
	ol_shm_conn_deadline(conn, 0);
	ol_shm_rx_attach(conn);
	ol_shm_conn_raise(conn, OL_SHM_DUE_UP);
	return 0;
}

static int on_confirm(struct ol_shm_conn *conn)
{
	conn->state = OL_SHM_UP;
	conn->priv_len = 0;
	ol_shm_conn_deadline(conn, 0);
	ol_shm_rx_attach(conn);
	ol_shm_conn_raise(conn, OL_SHM_DUE_UP);
	return 0;
}

static int on_bye(struct ol_shm_conn *conn, const struct ol_shm_msg *msg)
{
	int status = msg->status == 0 || msg->status == -EACCES ? msg->status : -EIO;

	if (conn->state == OL_SHM_CONNECTING)
		status = -ECONNREFUSED;
	if (conn->state == OL_SHM_REQUESTED || msg->status == -ETIMEDOUT)
		status = 0; /* the peer gave up waiting: no error of this end */
	conn->priv_len = 0;
	if (status == -EACCES)
		conn->down_why = "a post of the peer was outside of what this side allows";
	ol_shm_conn_down(conn, status);
	return 0;
}

/* msgs_expected -- which messages a state allows, as bits */
static uint32_t msgs_expected(enum ol_shm_state state)
{
	const uint32_t regions = 1U << OL_SHM_MSG_REGION | 1U << OL_SHM_MSG_UNREGION;
	const uint32_t bye = 1U << OL_SHM_MSG_BYE;
	const uint32_t wake = 1U << OL_SHM_MSG_WAKE;

	switch (state) {
	case OL_SHM_GREETING:
		return 1U << OL_SHM_MSG_HELLO;
	case OL_SHM_REQUESTED:
		return bye;
	case OL_SHM_ACCEPTED:
		return regions | 1U << OL_SHM_MSG_CONFIRM | bye;
	case OL_SHM_CONNECTING:
		return regions | 1U << OL_SHM_MSG_ACCEPT | 1U << OL_SHM_MSG_REJECT | bye;
	case OL_SHM_UP:
		return regions | bye | wake;
	case OL_SHM_DIALING:
	case OL_SHM_DOWN:
		break;
	}
	return 0;
}

/* on_msg -- handle a message that has been checked; owns its descriptors. Negative: as above */
static int on_msg(struct ol_shm_conn *conn, const struct ol_shm_msg *msg, const int *fds)
{
	switch ((enum ol_shm_msg_type)msg->type) {
	case OL_SHM_MSG_HELLO:
		return on_hello(conn, msg);
	case OL_SHM_MSG_ACCEPT:
		return on_accept(conn, msg, fds);
	case OL_SHM_MSG_REJECT:
		priv_keep(conn, msg);
		ol_shm_conn_down(conn, msg->status == -EUSERS ? -EUSERS : -ECONNREFUSED);
		return 0;
	case OL_SHM_MSG_CONFIRM:
		return on_confirm(conn);
	case OL_SHM_MSG_REGION:
		return ol_shm_peer_add(conn, msg, fds[0]);
	case OL_SHM_MSG_UNREGION:
		ol_shm_peer_remove(conn, msg->rkey);
		return 0;
	case OL_SHM_MSG_BYE:
		return on_bye(conn, msg);
	case OL_SHM_MSG_WAKE: /* every poll looks at the rings */
		return 0;
	case OL_SHM_MSG_TYPES:
		break;
	}
	return -EPROTO;
}

/* peer_on_gone -- the peer's end of the socket is closed */
static void peer_on_gone(struct ol_shm_conn *conn)
{
	conn->priv_len = conn->state == OL_SHM_CONNECTING ? 0 : conn->priv_len;
	ol_shm_conn_down(conn, conn->state == OL_SHM_CONNECTING ? -ECONNREFUSED : 0);
}

/* fds_drop -- close the descriptors of a message that does not fit the state */
static void fds_drop(const struct ol_shm_msg *msg, const int *fds)
{
	if (msg->type == OL_SHM_MSG_REGION || msg->type == OL_SHM_MSG_ACCEPT)
		ol_fds_close(fds[0]);
}

/* peer_drop -- drop a peer whose message cannot be used */
static void peer_drop(struct ol_shm_conn *conn, int rc)
{
	int status = -EIO;

	if (rc == -EMFILE) {
		ol_shm_log_rare(conn->xport, OL_SHM_RARE_DESCRIPTORS,
				"%s dropped: no file descriptor left for what it sent (raise the "
				"limit: ulimit -n)",
				conn->name);
		status = -EMFILE;
	} else {
		ol_shm_log_rare(conn->xport, OL_SHM_RARE_PROTOCOL, "%s dropped: %s", conn->name,
				rc == -EPROTO ? "it does not speak the shm protocol"
					      : strerror(-rc));
	}
	if (rc == -EPROTO)
		status = -EACCES;
	conn->priv_len = 0;
	ol_shm_conn_down(conn, status);
}

void ol_shm_conn_read(struct ol_shm_conn *conn)
{
	struct ol_shm_msg msg;
	int fds[OL_SHM_MSG_FDS_MAX];
	unsigned i;
	int rc;

	for (i = 0; i < READS_MAX && conn->sock >= 0; i++) {
		rc = ol_shm_recv(conn->sock, &msg, fds);
		if (rc == -EAGAIN)
			return;
		if (rc == -ECONNRESET) {
			peer_on_gone(conn);
			return;
		}
		if (rc == 0 && (msgs_expected(conn->state) & 1U << msg.type) != 0) {
			rc = on_msg(conn, &msg, fds);
		} else if (rc == 0) {
			fds_drop(&msg, fds);
			rc = -EPROTO;
		}
		if (rc == 0)
			continue;
		peer_drop(conn, rc);
		return;
	}
}
