/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * oob.c -- connections made over TCP, "out of band": the second manager of connections
 *
 * rdma_cm finds devices by IP addresses of the fabric. Where a port of InfiniBand has none (no
 * IPoIB), or the manager's own packets are not let through, two ends meet at an address "oob:host:port"
 * of any network that both have. Three messages of one size cross a TCP connection:
 *
 *	connecting end          accepting end
 *	HELLO   ->                              queue pair, path, reads, private data
 *	            <-  ANSWER or REJECT        the same
 *	CONFIRM ->                              both queue pairs can receive and send
 *
 * The TCP connection lives as long as the queue pairs: its end is the disconnect, and a process that
 * dies ends it. Nothing is sent on it in between, so a network beside the fabric may be away for a
 * while without any loss; only an end that is told of (FIN, RST) counts.
 *
 * A STRANGER may connect to the port. The kernel keeps a socket that has not said anything. One that
 * has not said a whole HELLO takes no place of a connection; there are DOORS_MAX of them at most, and
 * the next one ends the oldest: a well-made HELLO comes in one piece, and stays there for no time.
 * Whatever comes is checked for its size, kind and version, is copied first, and is no address of
 * anything here.
 *
 * THE PATH. The kernel finds the Ethernet address of a RoCE peer when the queue pair becomes ready to
 * receive, and the caller waits for up to a second if nobody answers (ib_resolve_eth_dmac()): for a
 * peer whose adapter is cut off while its TCP is not, or one that lies. That is allowed once in
 * SLOW_APART_MS; in between only peers are tried that were reached before.
 */
#include "rdma/verbs/oob.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdma/fds.h"
#include "rdma/verbs/verbs_rc.h"

enum {
	DOORS_MAX = 64, /* sockets that have not said hello */
	EVENTS_MAX = 8, /* handled a poll: see ol_verbs_cm_progress() */
	DEFER_S = 3, /* the kernel shows a socket that says nothing after this */
	KEEPALIVE_S = 60, /* so that what stands between keeps the connection, too */
	KEEPALIVES = 120, /* unanswered, until the other end counts as gone */
};

static int oob_open(struct ol_xport *xport)
{
	struct ol_verbs_oob *oob;
	int rc;

	if (xport->oob != NULL)
		return 0;
	oob = calloc(1, sizeof(*oob));
	if (oob == NULL)
		return -ENOMEM;
	oob->listen_fd = -1;
	oob->spare_fd = -1;
	oob->epoll_fd = ol_fds_add(epoll_create1(EPOLL_CLOEXEC));
	rc = oob->epoll_fd < 0 ? -errno : ol_verbs_watch(xport, oob->epoll_fd);
	if (rc == 0) {
		xport->oob = oob;
		return 0;
	}
	if (oob->epoll_fd >= 0)
		ol_fds_close(oob->epoll_fd);
	free(oob);
	return rc;
}

bool ol_verbs_oob_listens(const struct ol_xport *xport)
{
	return xport->oob != NULL && xport->oob->listen_fd >= 0;
}

int ol_verbs_oob_fd(const struct ol_xport *xport)
{
	return xport->oob != NULL ? xport->oob->epoll_fd : -1;
}

static int end_watch(const struct ol_verbs_oob *oob, struct ol_verbs_oob_end *end, uint32_t events,
		     int op)
{
	struct epoll_event event = { .events = events, .data.ptr = end };

	if (epoll_ctl(oob->epoll_fd, op, end->fd, &event) != 0)
		return -errno;
	end->watched = true;
	return 0;
}

static void end_unwatch(const struct ol_verbs_oob *oob, struct ol_verbs_oob_end *end)
{
	if (end->watched)
		(void)epoll_ctl(oob->epoll_fd, EPOLL_CTL_DEL, end->fd, NULL);
	end->watched = false;
}

/* The socket is the end's, or closed. NULL: no memory, or no descriptor */
static struct ol_verbs_oob_end *end_create(const struct ol_verbs_oob *oob, int fd, uint32_t events)
{
	static const int on = 1, idle_s = KEEPALIVE_S, count = KEEPALIVES;
	struct ol_verbs_oob_end *end;

	if (fd < 0)
		return NULL;
	end = calloc(1, sizeof(*end));
	if (end == NULL) {
		ol_fds_close(fd);
		return NULL;
	}
	end->fd = fd;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	if (end_watch(oob, end, events, EPOLL_CTL_ADD) == 0)
		return end;
	ol_fds_close(fd);
	free(end);
	return NULL;
}

static void end_free(const struct ol_verbs_oob *oob, struct ol_verbs_oob_end *end)
{
	end_unwatch(oob, end);
	ol_fds_close(end->fd);
	free(end);
}

static void door_leave(struct ol_verbs_oob *oob, struct ol_verbs_oob_end *end)
{
	struct ol_verbs_oob_end **at = &oob->doors;

	while (*at != end)
		at = &(*at)->next;
	*at = end->next;
	oob->door_count--;
}

static void door_shut(struct ol_verbs_oob *oob, struct ol_verbs_oob_end *end)
{
	door_leave(oob, end);
	end_free(oob, end);
}

void ol_verbs_oob_close(struct ol_xport *xport)
{
	struct ol_verbs_oob *oob = xport->oob;

	if (oob == NULL)
		return;
	while (oob->doors != NULL)
		door_shut(oob, oob->doors);
	if (oob->listen_fd >= 0)
		ol_fds_close(oob->listen_fd);
	if (oob->spare_fd >= 0)
		ol_fds_close(oob->spare_fd);
	ol_fds_close(oob->epoll_fd);
	free(oob);
	xport->oob = NULL;
}

/* On iWARP the kernel moves a queue pair as its own manager says, and nobody else can. */
static int device_fits(const struct ol_xport *xport)
{
	if (xport->ctx->device->transport_type != IBV_TRANSPORT_IWARP)
		return 0;
	ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
		     "device %s is one of iWARP, which has no " OL_VERBS_OOB_PREFIX " addresses",
		     ibv_get_device_name(xport->ctx->device));
	return -EOPNOTSUPP;
}

static int tcp_socket(const union ol_verbs_addr *addr)
{
	return ol_fds_add(
		socket(addr->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

static int spare_open(void)
{
	return ol_fds_add(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

static int socket_listen(struct ol_verbs_oob *oob, const union ol_verbs_addr *addr,
			 union ol_verbs_addr *ret_bound)
{
	static const int on = 1, defer_s = DEFER_S;
	socklen_t bytes = sizeof(*ret_bound);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
	const int fd = tcp_socket(addr);
	int rc;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s, sizeof(defer_s));
	if (bind(fd, &addr->sa, ol_verbs_addr_bytes(addr)) == 0 && listen(fd, SOMAXCONN) == 0 &&
	    getsockname(fd, &ret_bound->sa, &bytes) == 0 &&
	    epoll_ctl(oob->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) {
		oob->listen_fd = fd;
		oob->spare_fd = spare_open();
		return 0;
	}
	rc = -errno;
	ol_fds_close(fd);
	return rc;
}

int ol_verbs_oob_listen(struct ol_xport *xport, const char *text, char ret_addr[OL_XPORT_ADDR_MAX])
{
	union ol_verbs_addr addr;
	union ol_verbs_addr bound;
	union ol_verbs_addr outward;
	int rc;

	rc = ol_verbs_addr_parse(text, &addr);
	if (rc != 0)
		return rc == -EINVAL ? rc : -EADDRNOTAVAIL;
	if (device_fits(xport) != 0)
		return -ENODEV;
	rc = oob_open(xport);
	if (rc == 0)
		rc = socket_listen(xport->oob, &addr, &bound);
	if (rc != 0) {
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "cannot listen on " OL_VERBS_OOB_PREFIX "%s: %s", text, strerror(-rc));
		return rc == -EADDRINUSE || rc == -EMFILE ? rc : -EADDRNOTAVAIL;
	}
	if (ol_verbs_addr_is_any(&bound) && ol_verbs_local_outward(&bound, &outward) == 0) {
		outward.in.sin_port = bound.in.sin_port; /* same place in both families */
		bound = outward;
	}
	ol_verbs_addr_oob_text(&bound.sa, ret_addr);
	xport->pinned = true;
	return 0;
}

static void msg_fill(struct ol_verbs_oob_end *end, struct oob_msg *msg, const void *priv,
		     uint32_t priv_len)
{
	const struct ol_verbs_conn *conn = end->conn;

	msg->way = ol_verbs_way_of(conn->base.xport);
	msg->qp_num = htole32(conn->qp->qp_num);
	msg->psn = htole32(end->psn);
	msg->lid = htole16(end->port.lid);
	msg->link_layer = end->port.link_layer;
	msg->gid_type = (uint8_t)end->gid.gid_type;
	msg->mtu = (uint8_t)end->port.active_mtu;
	msg->reads_in = conn->responder_resources;
	msg->reads_out = conn->initiator_depth;
	memcpy(msg->gid, end->gid.gid.raw, sizeof(msg->gid));
	msg->ece_vendor = htole32(end->ece.vendor_id);
	msg->ece_options = htole32(end->ece.options);
	msg->flags = htole32((end->port.flags & IBV_QPF_GRH_REQUIRED) != 0 ? OOB_NEEDS_GRH : 0);
	msg->priv_len = (uint8_t)priv_len;
	if (priv_len != 0)
		memcpy(msg->priv, priv, priv_len);
}

/* A socket's buffer holds the two messages of an end, so one that is full belongs to no peer. */
static int msg_send(const struct ol_verbs_oob_end *end, struct oob_msg *msg, enum oob_kind kind)
{
	ssize_t sent;

	msg->magic = htole32(OOB_MAGIC);
	msg->version = OOB_VERSION;
	msg->kind = (uint8_t)kind;
	sent = send(end->fd, msg, sizeof(*msg), MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent == sizeof(*msg) ? 0 : -EPIPE;
}

static void reject_send(const struct ol_verbs_oob_end *end, enum ol_verbs_refusal refusal,
			const void *priv, uint32_t priv_len)
{
	struct oob_msg msg = { .refusal = (uint8_t)refusal, .priv_len = (uint8_t)priv_len };

	if (priv_len != 0)
		memcpy(msg.priv, priv, priv_len);
	(void)msg_send(end, &msg, OOB_REJECT);
}

static int oob_connect(struct ol_verbs_conn *conn, union ol_verbs_addr *to)
{
	struct ol_xport *xport = conn->base.xport;
	int fd;
	int rc;

	if (device_fits(xport) != 0)
		return -EHOSTUNREACH;
	rc = oob_open(xport);
	if (rc != 0)
		return rc;
	fd = tcp_socket(to);
	if (fd < 0)
		return errno == EAFNOSUPPORT ? -EHOSTUNREACH : -errno;
	if (connect(fd, &to->sa, ol_verbs_addr_bytes(to)) != 0 && errno != EINPROGRESS) {
		rc = ol_rc_tcp(errno);
		ol_fds_close(fd);
		return rc;
	}
	conn->oob = end_create(xport->oob, fd, EPOLLOUT);
	if (conn->oob == NULL)
		return -EIO;
	conn->oob->conn = conn;
	conn->oob->linking = true;
	return 0;
}

/* The other end of the socket has ended: it disconnects, or has died. */
static void on_end(struct ol_xport *xport, struct ol_verbs_oob_end *end)
{
	if (end->conn == NULL) {
		door_shut(xport->oob, end);
		return;
	}
	end_unwatch(xport->oob, end);
	ol_verbs_conn_disconnected(end->conn);
}

/* The socket is connected, or cannot be. */
static int on_linked(struct ol_verbs_oob_end *end)
{
	struct ol_verbs_conn *conn = end->conn;
	struct oob_msg msg = { .refusal = 0 };
	socklen_t bytes = sizeof(int);
	int error = EIO;
	int rc;

	(void)getsockopt(end->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	if (error == ECONNRESET) { /* it was there, and has died */
		on_end(conn->base.xport, end);
		return 0;
	}
	if (error != 0)
		return ol_rc_tcp(error);
	end->linking = false;
	rc = end_watch(conn->base.xport->oob, end, EPOLLIN, EPOLL_CTL_MOD);
	if (rc == 0)
		rc = ol_verbs_oob_locate(end, NULL);
	if (rc == 0)
		rc = ol_verbs_qp_open(conn);
	if (rc != 0)
		return rc == -EHOSTUNREACH ? rc : -EIO;
	ol_verbs_conn_ident(conn, end->gid.gid.raw, conn->qp->qp_num, end->port.lid);
	msg_fill(end, &msg, conn->priv, conn->send_len);
	(void)msg_send(end, &msg, OOB_HELLO); /* if it fails the socket tells why */
	return 0;
}

static uint8_t min_u8(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* An address of one port: packets to any other would go to nobody, or to many. */
static bool gid_is_of_a_port(const uint8_t gid[16])
{
	static const uint8_t none[16], ipv4[12] = { [10] = 0xff, [11] = 0xff };
	const bool is_ipv4 = memcmp(gid, ipv4, sizeof(ipv4)) == 0;

	return memcmp(gid, none, sizeof(none)) != 0 && gid[0] != 0xff &&
	       (!is_ipv4 || (gid[12] != 0 && gid[12] != 127 && gid[12] < 224));
}

/* True for what a well-made end sends; it is copied. */
static bool msg_is_well(const struct oob_msg *msg)
{
	const bool names = msg->kind == OOB_HELLO || msg->kind == OOB_ANSWER;

	return le32toh(msg->magic) == OOB_MAGIC && msg->version == OOB_VERSION &&
	       le32toh(msg->qp_num) <= OOB_PSN_MASK && le32toh(msg->psn) <= OOB_PSN_MASK &&
	       msg->mtu <= IBV_MTU_4096 &&
	       (!names ||
		(msg->reads_in != 0 && msg->reads_out != 0 && gid_is_of_a_port(msg->gid)));
}

static void peer_take(struct ol_verbs_oob_end *end)
{
	struct ol_verbs_conn *conn = end->conn;

	end->peer = end->in;
	conn->responder_resources = min_u8(conn->responder_resources, end->in.reads_out);
	conn->initiator_depth = min_u8(conn->initiator_depth, end->in.reads_in);
}

static int on_answer(struct ol_verbs_oob_end *end)
{
	struct ol_verbs_conn *conn = end->conn;
	struct oob_msg msg = { .refusal = 0 };
	int rc;

	if (end->in.priv_len > OL_XPORT_PRIV_ACCEPT_MAX ||
	    end->in.link_layer != end->port.link_layer)
		return -EIO;
	peer_take(end);
	rc = ol_verbs_qp_ready(conn);
	if (rc != 0)
		return rc == -EHOSTUNREACH ? rc : -EIO;
	(void)msg_send(end, &msg, OOB_CONFIRM); /* if it fails the socket tells why */
	ol_verbs_conn_priv(conn, end->in.priv, end->in.priv_len);
	ol_verbs_conn_up(conn);
	return 0;
}

static int on_reject(struct ol_verbs_oob_end *end)
{
	const enum ol_verbs_refusal refusal = (enum ol_verbs_refusal)end->in.refusal;

	/* padded, as rdma_cm does it: without bytes it would say that nobody listens */
	if (refusal == OL_VERBS_REFUSAL_NONE)
		ol_verbs_conn_priv(end->conn, end->in.priv, OL_XPORT_PRIV_REJECT_MAX);
	return ol_verbs_conn_refused(refusal);
}

/* Why this end cannot take the HELLO, without asking its caller */
static enum ol_verbs_refusal hello_refuse(struct ol_xport *xport, struct ol_verbs_oob_end *end,
					  const union ol_verbs_addr *from)
{
	struct ibv_gid_entry like = { .gid_type = end->in.gid_type };

	memcpy(like.gid.raw, end->in.gid, sizeof(like.gid.raw));
	if (!ol_verbs_way_is_ours(xport, end->in.way, &from->sa))
		return OL_VERBS_REFUSAL_WAY;
	if (ol_verbs_conn_create(xport, &end->conn) != 0)
		return OL_VERBS_REFUSAL_FULL;
	if (ol_verbs_oob_locate(end, &like) == 0 && end->port.link_layer == end->in.link_layer)
		return OL_VERBS_REFUSAL_NONE;
	ol_verbs_conn_free(&end->conn->base);
	end->conn = NULL;
	if (ol_verbs_may_tell(xport))
		ol_xport_log(&xport->opts, OL_XPORT_LOG_WARN,
			     "a peer is refused: this port has no GID of its kind (InfiniBand, or "
			     "RoCE version 1 or 2, IPv4 or IPv6)");
	return OL_VERBS_REFUSAL_PATH;
}

/* A whole HELLO came: the stranger at the door becomes a request, or is sent away. */
static void on_hello(struct ol_xport *xport, struct ol_verbs_oob_end *end)
{
	union ol_verbs_addr from = { .sa.sa_family = AF_UNSPEC };
	socklen_t bytes = sizeof(from);
	enum ol_verbs_refusal refusal;
	struct ol_verbs_conn *conn;

	if (!msg_is_well(&end->in) || end->in.kind != OOB_HELLO ||
	    end->in.priv_len > OL_XPORT_PRIV_CONNECT_MAX) {
		door_shut(xport->oob, end);
		return;
	}
	(void)getpeername(end->fd, &from.sa, &bytes);
	refusal = hello_refuse(xport, end, &from);
	if (refusal != OL_VERBS_REFUSAL_NONE) {
		reject_send(end, refusal, NULL, 0);
		door_shut(xport->oob, end);
		return;
	}
	door_leave(xport->oob, end);
	conn = end->conn;
	conn->manager = &ol_verbs_oob;
	conn->oob = end;
	conn->state = OL_VERBS_REQUESTED;
	conn->passive = true;
	ol_verbs_addr_oob_text(&from.sa, conn->peer);
	peer_take(end);
	ol_verbs_conn_ident(conn, end->in.gid, le32toh(end->in.qp_num), le16toh(end->in.lid));
	ol_verbs_conn_priv(conn, end->in.priv, end->in.priv_len);
	ol_verbs_conn_pend(conn, OL_VERBS_PENDING_REQUEST);
}

static void on_message(struct ol_xport *xport, struct ol_verbs_oob_end *end)
{
	struct ol_verbs_conn *conn = end->conn;
	const bool well = msg_is_well(&end->in);
	int rc = -EIO;

	end->got = 0;
	if (conn == NULL) {
		on_hello(xport, end);
		return;
	}
	if (well && conn->state == OL_VERBS_CONNECTING && end->in.kind == OOB_ANSWER) {
		rc = on_answer(end);
	} else if (well && conn->state == OL_VERBS_CONNECTING && end->in.kind == OOB_REJECT) {
		rc = on_reject(end);
	} else if (well && end->in.kind == OOB_CONFIRM && conn->passive && !end->confirmed &&
		   (conn->state == OL_VERBS_ACCEPTED || conn->state == OL_VERBS_UP)) {
		end->confirmed = true;
		if (conn->state == OL_VERBS_ACCEPTED) /* else data came before it */
			ol_verbs_conn_up(conn);
		return;
	}
	if (rc != 0) {
		end_unwatch(xport->oob, end);
		ol_verbs_conn_break(conn, rc, OL_VERBS_CAUSE_FAILED);
	}
}

static void on_end_ready(struct ol_xport *xport, struct ol_verbs_oob_end *end)
{
	ssize_t got;
	int rc;

	if (end->conn != NULL && end->conn->state == OL_VERBS_DOWN) { /* its owner frees it */
		end_unwatch(xport->oob, end);
		return;
	}
	if (end->linking) {
		rc = on_linked(end);
		if (rc != 0) {
			end_unwatch(xport->oob, end);
			ol_verbs_conn_fail(end->conn, rc);
		}
		return;
	}
	got = recv(end->fd, (uint8_t *)&end->in + end->got, sizeof(end->in) - end->got,
		   MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		on_end(xport, end);
		return;
	}
	end->got += (uint32_t)got;
	if (end->got == sizeof(end->in))
		on_message(xport, end);
}

/* No descriptor is left: a peer is let in by the spare one and sent away, as it would wait for ever. */
static void turn_away(struct ol_xport *xport)
{
	struct ol_verbs_oob *oob = xport->oob;
	int fd;

	if (ol_verbs_may_tell(xport))
		ol_xport_log(&xport->opts, OL_XPORT_LOG_WARN,
			     "a peer is turned away: no file descriptor is left (raise the limit: "
			     "ulimit -n)");
	if (oob->spare_fd >= 0)
		ol_fds_close(oob->spare_fd);
	fd = accept4(oob->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	oob->spare_fd = spare_open();
}

static void on_arrival(struct ol_xport *xport)
{
	struct ol_verbs_oob *oob = xport->oob;
	struct ol_verbs_oob_end **at = &oob->doors;
	struct ol_verbs_oob_end *end;
	int fd;

	fd = ol_fds_add(accept4(oob->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		turn_away(xport);
	end = end_create(oob, fd, EPOLLIN);
	if (end == NULL)
		return;
	if (oob->door_count == DOORS_MAX)
		door_shut(oob, oob->doors);
	while (*at != NULL)
		at = &(*at)->next;
	*at = end;
	oob->door_count++;
	on_end_ready(xport, end); /* mostly its hello came with it */
}

void ol_verbs_oob_progress(struct ol_xport *xport)
{
	struct epoll_event event;

	/* one at a time: what one does may free the end of another */
	for (unsigned i = 0; i < EVENTS_MAX && !ol_verbs_dead(xport); i++) {
		if (epoll_wait(xport->oob->epoll_fd, &event, 1, 0) != 1)
			return;
		if (event.data.ptr == NULL)
			on_arrival(xport);
		else
			on_end_ready(xport, event.data.ptr);
	}
	xport->look = true;
}

static int oob_accept(struct ol_verbs_conn *conn, const void *priv, uint32_t priv_len)
{
	struct oob_msg msg = { .refusal = 0 };

	msg_fill(conn->oob, &msg, priv, priv_len);
	return msg_send(conn->oob, &msg, OOB_ANSWER);
}

static int oob_acceptor(const struct ol_verbs_conn *conn, struct ol_xport_ident *ret_ident)
{
	const struct ol_verbs_oob_end *end = conn->oob;

	if (end == NULL)
		return -ECONNABORTED;
	if (conn->passive)
		ol_verbs_ident_make(ret_ident, end->gid.gid.raw, conn->qp->qp_num, end->port.lid);
	else
		ol_verbs_ident_make(ret_ident, end->peer.gid, le32toh(end->peer.qp_num),
				    le16toh(end->peer.lid));
	return 0;
}

static void oob_reject(struct ol_verbs_conn *conn, const void *priv, uint32_t priv_len)
{
	reject_send(conn->oob, OL_VERBS_REFUSAL_NONE, priv, priv_len);
}

/* The peer reads this end's last message before it sees the end. */
static void oob_disconnect(struct ol_verbs_conn *conn)
{
	if (conn->oob != NULL)
		(void)shutdown(conn->oob->fd, SHUT_WR);
}

static void oob_ece_tell(struct ol_verbs_conn *conn, const struct ibv_ece *ece)
{
	conn->oob->ece = *ece;
}

static bool oob_ece_told(struct ol_verbs_conn *conn, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece){ .vendor_id = le32toh(conn->oob->peer.ece_vendor),
				 .options = le32toh(conn->oob->peer.ece_options) };
	return ece->vendor_id != 0;
}

static void oob_data_came(struct ol_verbs_conn *conn)
{
	if (conn->state == OL_VERBS_ACCEPTED)
		ol_verbs_conn_up(conn);
}

static void oob_free(struct ol_verbs_conn *conn)
{
	if (conn->oob != NULL)
		end_free(conn->base.xport->oob, conn->oob);
	conn->oob = NULL;
}

const struct ol_verbs_manager ol_verbs_oob = {
	.connect = oob_connect,
	.accept = oob_accept,
	.acceptor = oob_acceptor,
	.reject = oob_reject,
	.disconnect = oob_disconnect,
	.attr = ol_verbs_oob_attr,
	.tried = ol_verbs_oob_tried,
	.ece_tell = oob_ece_tell,
	.ece_told = oob_ece_told,
	.data_came = oob_data_came,
	.free = oob_free,
};
