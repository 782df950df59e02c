/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sock.c -- whole messages with descriptors over a socket that never blocks
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdma/fds.h"
#include "rdma/shm/shm.h"

union fd_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(OL_SHM_MSG_FDS_MAX * sizeof(int))];
};

int ol_shm_peer_check(int sock, pid_t *ret_pid, uid_t *ret_uid)
{
	socklen_t bytes = sizeof(struct ucred);
	struct ucred cred;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) != 0)
		return -errno;
	*ret_pid = cred.pid;
	*ret_uid = cred.uid;
	return cred.uid == geteuid() || cred.uid == 0 ? 0 : -EACCES;
}

/* send_now -- 0: sent, or the peer is gone, which a read of the socket will tell; -EAGAIN: no room
 */
static int send_now(int sock, const struct ol_shm_msg *msg, const int *fds, unsigned fd_count)
{
	union fd_control control = { .bytes = { 0 } };
	struct iovec iov;
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct ol_shm_msg copy = *msg;
	struct cmsghdr *cmsg;
	ssize_t sent;

	copy.magic = OL_SHM_MSG_MAGIC;
	copy.proto = OL_SHM_MSG_PROTO;
	iov = (struct iovec){ .iov_base = &copy, .iov_len = ol_shm_msg_bytes(msg) };
	if (fd_count > 0) {
		hdr.msg_control = control.bytes;
		hdr.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&hdr);
		assert(cmsg != NULL); /* it has room for one */
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, fd_count * sizeof(int));
	}
	do {
		sent = sendmsg(sock, &hdr, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	/* ETOOMANYREFS: too many descriptors are in flight to peers that do not read */
	if (sent < 0 &&
	    (errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM))
		return -EAGAIN;
	return 0;
}

static void out_free(struct ol_shm_out *out)
{
	unsigned i;

	for (i = 0; i < out->fd_count; i++)
		ol_fds_close(out->fds[i]);
	free(out);
}

/* out_push -- keep a copy of msg until the socket has room */
static int out_push(struct ol_shm_conn *conn, const struct ol_shm_msg *msg, const int *fds,
		    unsigned fd_count)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT, .data = { .ptr = conn } };
	struct ol_shm_out *out;
	int rc;

	if (conn->out_count >= OL_SHM_OUT_MAX)
		return -ENOBUFS;
	out = calloc(1, sizeof(*out));
	if (out == NULL)
		return -ENOMEM;
	out->msg = *msg;
	for (; out->fd_count < fd_count; out->fd_count++) {
		out->fds[out->fd_count] = ol_fds_add(fcntl(fds[out->fd_count], F_DUPFD_CLOEXEC, 0));
		if (out->fds[out->fd_count] < 0) {
			rc = -errno;
			out_free(out);
			return rc;
		}
	}
	*conn->out_end = out;
	conn->out_end = &out->next;
	conn->out_count++;
	if (!conn->out_armed)
		epoll_ctl(conn->xport->epoll_fd, EPOLL_CTL_MOD, conn->sock, &event);
	conn->out_armed = true;
	return 0;
}

int ol_shm_send(struct ol_shm_conn *conn, const struct ol_shm_msg *msg, const int *fds,
		unsigned fd_count)
{
	if (conn->out_head == NULL && send_now(conn->sock, msg, fds, fd_count) == 0)
		return 0;
	return out_push(conn, msg, fds, fd_count);
}

void ol_shm_wake(const struct ol_shm_conn *conn)
{
	const struct ol_shm_msg msg = { .type = OL_SHM_MSG_WAKE };

	(void)send_now(conn->sock, &msg, NULL, 0);
}

void ol_shm_flush(struct ol_shm_conn *conn)
{
	struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = conn } };
	struct ol_shm_out *out;

	while (conn->out_head != NULL) {
		out = conn->out_head;
		if (send_now(conn->sock, &out->msg, out->fds, out->fd_count) != 0)
			return;
		conn->out_head = out->next;
		if (conn->out_head == NULL)
			conn->out_end = &conn->out_head;
		conn->out_count--;
		out_free(out);
	}
	if (conn->out_armed)
		epoll_ctl(conn->xport->epoll_fd, EPOLL_CTL_MOD, conn->sock, &event);
	conn->out_armed = false;
}

void ol_shm_out_drop(struct ol_shm_conn *conn)
{
	struct ol_shm_out *out;

	while (conn->out_head != NULL) {
		out = conn->out_head;
		conn->out_head = out->next;
		out_free(out);
	}
	conn->out_end = &conn->out_head;
	conn->out_count = 0;
}

/* fds_take -- take all descriptors that came with hdr, in any number of cmsgs */
static unsigned fds_take(struct msghdr *hdr, int fds[OL_SHM_MSG_FDS_MAX])
{
	struct cmsghdr *cmsg;
	unsigned count = 0;
	size_t i;
	int fd;

	for (cmsg = CMSG_FIRSTHDR(hdr); cmsg != NULL; cmsg = CMSG_NXTHDR(hdr, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= cmsg->cmsg_len; i++) {
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			if (count < OL_SHM_MSG_FDS_MAX)
				fds[count++] = ol_fds_add(fd);
			else
				close(fd);
		}
	}
	return count;
}

/* msg_sound -- bytes are a whole message of ours with the descriptors of its type */
static bool msg_sound(const struct ol_shm_msg *msg, size_t bytes, unsigned fd_count)
{
	static const struct {
		unsigned fd_count;
		uint32_t priv_max;
	} rules[OL_SHM_MSG_TYPES] = {
		[OL_SHM_MSG_HELLO] = { 0, OL_XPORT_PRIV_CONNECT_MAX },
		[OL_SHM_MSG_ACCEPT] = { 1, OL_XPORT_PRIV_ACCEPT_MAX },
		[OL_SHM_MSG_REJECT] = { 0, OL_XPORT_PRIV_REJECT_MAX },
		[OL_SHM_MSG_REGION] = { 1, 0 },
	};

	if (bytes < offsetof(struct ol_shm_msg, priv) || msg->magic != OL_SHM_MSG_MAGIC ||
	    msg->proto != OL_SHM_MSG_PROTO || msg->type == 0 || msg->type >= OL_SHM_MSG_TYPES)
		return false;
	return fd_count == rules[msg->type].fd_count &&
	       msg->priv_len <= rules[msg->type].priv_max && bytes == ol_shm_msg_bytes(msg);
}

int ol_shm_recv(int sock, struct ol_shm_msg *ret_msg, int ret_fds[OL_SHM_MSG_FDS_MAX])
{
	union fd_control control;
	struct ol_shm_msg msg = { .magic = 0 };
	struct iovec iov = { .iov_base = &msg, .iov_len = sizeof(msg) };
	struct msghdr hdr = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	int fds[OL_SHM_MSG_FDS_MAX];
	unsigned fd_count;
	ssize_t got;
	int rc = 0;

	/* A peer that closed with unread messages of ours gives one ECONNRESET, then its own. */
	do {
		got = recvmsg(sock, &hdr, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (got < 0 && (errno == EINTR || errno == ECONNRESET));
	if (got < 0)
		return errno == EAGAIN ? -EAGAIN : -ECONNRESET;
	fd_count = fds_take(&hdr, fds);
	if (got == 0 && fd_count == 0)
		return -ECONNRESET;
	/* truncated, though there was room: this process has no descriptor left */
	if ((hdr.msg_flags & MSG_CTRUNC) != 0 && fd_count < OL_SHM_MSG_FDS_MAX)
		rc = -EMFILE;
	else if ((hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
		 !msg_sound(&msg, (size_t)got, fd_count))
		rc = -EPROTO;
	while (rc != 0 && fd_count > 0)
		ol_fds_close(fds[--fd_count]);
	if (rc != 0)
		return rc;
	*ret_msg = msg;
	memcpy(ret_fds, fds, fd_count * sizeof(int));
	return 0;
}

int ol_shm_addr_parse(const char *text, struct sockaddr_un *ret_addr, socklen_t *ret_bytes)
{
	size_t len = strlen(text);

	/* a bare word is a mistake: HOST:PORT would name a file in the current folder */
	if (len == 0 || (text[0] != '@' && strchr(text, '/') == NULL))
		return -EINVAL;
	if (len >= sizeof(ret_addr->sun_path))
		return -ENAMETOOLONG;
	*ret_addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret_addr->sun_path, text, len);
	*ret_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	if (text[0] == '@') {
		ret_addr->sun_path[0] = '\0';
		/* An abstract name has no end mark; "@" alone lets the kernel choose one. */
		*ret_bytes =
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + (len == 1 ? 0 : len));
	}
	return 0;
}
