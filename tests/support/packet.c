/* SPDX-License-Identifier: BSD-3-Clause */

/* packet.c -- sendmsg() and recvmsg() with SCM_RIGHTS */

#include "support/packet.h"

#include <string.h>
#include <sys/socket.h>

#include "support/check.h"

ssize_t packet_send(int sock, const void *data, size_t bytes, const int *fds, unsigned fd_count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(PACKET_SENDS_MAX * sizeof(int))];
	} control = { .bytes = { 0 } };
	uint8_t copy[PACKET_BYTES_MAX];
	struct iovec iov = { .iov_base = copy, .iov_len = bytes };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;

	check(bytes <= PACKET_BYTES_MAX && fd_count <= PACKET_SENDS_MAX);
	memcpy(copy, data, bytes);
	if (fd_count > 0) {
		hdr.msg_control = control.bytes;
		hdr.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&hdr);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, fd_count * sizeof(int));
	}
	return sendmsg(sock, &hdr, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t packet_take(int sock, void *data, size_t bytes, int ret_fds[PACKET_TAKES_MAX],
		    unsigned *ret_count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(PACKET_TAKES_MAX * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = data, .iov_len = bytes };
	struct msghdr hdr = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	ssize_t got = recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *cmsg = got > 0 ? CMSG_FIRSTHDR(&hdr) : NULL;

	*ret_count = 0;
	if (cmsg != NULL) {
		*ret_count = (unsigned)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(ret_fds, CMSG_DATA(cmsg), *ret_count * sizeof(int));
	}
	return got;
}
