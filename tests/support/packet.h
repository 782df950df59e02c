/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * packet.h -- messages with descriptors over a SOCK_SEQPACKET socket, for peers that a test plays;
 * neither call waits
 */
#ifndef OL_TESTS_SUPPORT_PACKET_H
#define OL_TESTS_SUPPORT_PACKET_H

#include <stddef.h>
#include <sys/types.h>

enum {
	PACKET_BYTES_MAX = 1024, /* that are sent */
	PACKET_SENDS_MAX = 8, /* descriptors that are sent with a message … */
	PACKET_TAKES_MAX = 2 /* … and taken with one */
};

/* packet_send -- what sendmsg() returns; the descriptors stay the caller's */
ssize_t packet_send(int sock, const void *data, size_t bytes, const int *fds, unsigned fd_count);

/* packet_take -- what recvmsg() returns; the descriptors that came are the caller's from now on */
ssize_t packet_take(int sock, void *data, size_t bytes, int ret_fds[PACKET_TAKES_MAX],
		    unsigned *ret_count);

#endif /* OL_TESTS_SUPPORT_PACKET_H */
