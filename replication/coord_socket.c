/* SPDX-License-Identifier: BSD-3-Clause */

/* coord_socket.c -- sockets of the embedded coordinator and its clients, and their buffers */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "replication/coord_wire.h"

int ol_coord_pipe_fill(struct ol_coord_pipe *pipe)
{
	ssize_t got;

	if (pipe->in_at > 0) {
		memmove(pipe->in, pipe->in + pipe->in_at, pipe->in_end - pipe->in_at);
		pipe->in_end -= pipe->in_at;
		pipe->in_at = 0;
	}
	if (pipe->in_end == sizeof(pipe->in))
		return 0;
	do {
		got = recv(pipe->fd, pipe->in + pipe->in_end, sizeof(pipe->in) - pipe->in_end, 0);
	} while (got < 0 && errno == EINTR);
	if (got == 0)
		return -EPIPE;
	if (got < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
	pipe->in_end += (size_t)got;
	return (int)got;
}

int ol_coord_pipe_take(struct ol_coord_pipe *pipe, struct ol_coord_frame *ret_frame)
{
	int size = ol_coord_frame_decode(pipe->in + pipe->in_at, pipe->in_end - pipe->in_at,
					 ret_frame);

	if (size <= 0)
		return size;
	pipe->in_at += (size_t)size;
	return 1;
}

bool ol_coord_pipe_room(const struct ol_coord_pipe *pipe)
{
	return sizeof(pipe->out) - (pipe->out_end - pipe->out_at) >= OL_COORD_FRAME_MAX;
}

int ol_coord_pipe_put(struct ol_coord_pipe *pipe, const struct ol_coord_frame *frame)
{
	if (!ol_coord_pipe_room(pipe))
		return -EAGAIN;
	if (pipe->out_at > 0) {
		memmove(pipe->out, pipe->out + pipe->out_at, pipe->out_end - pipe->out_at);
		pipe->out_end -= pipe->out_at;
		pipe->out_at = 0;
	}
	pipe->out_end += ol_coord_frame_encode(frame, pipe->out + pipe->out_end);
	return 0;
}

int ol_coord_pipe_flush(struct ol_coord_pipe *pipe)
{
	while (pipe->out_at < pipe->out_end) {
		ssize_t sent = send(pipe->fd, pipe->out + pipe->out_at,
				    pipe->out_end - pipe->out_at, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EWOULDBLOCK ? -EAGAIN : -errno;
		pipe->out_at += (size_t)sent;
	}
	pipe->out_at = 0;
	pipe->out_end = 0;
	return 0;
}

static int place_unix(const char *name, struct ol_coord_place *ret_place)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t bytes = strlen(name);

	if (bytes == 0 || bytes > sizeof(un.sun_path) - 1)
		return -EINVAL;
	memcpy(un.sun_path + 1, name, bytes);
	memset(ret_place, 0, sizeof(*ret_place));
	memcpy(&ret_place->at, &un, sizeof(un));
	ret_place->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
	return 0;
}

/* place_split -- what getaddrinfo() takes */
static int place_split(const char *addr, char *host, size_t host_bytes, const char **ret_port)
{
	const char *colon = strrchr(addr, ':');
	size_t bytes;

	if (colon == NULL || colon == addr || colon[1] == '\0' || strlen(colon + 1) > 5 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
	    strtoul(colon + 1, NULL, 10) > 65535)
		return -EINVAL;
	bytes = (size_t)(colon - addr);
	if (addr[0] == '[' && bytes > 2 && colon[-1] == ']') {
		addr++;
		bytes -= 2;
	}
	if (bytes >= host_bytes)
		return -EINVAL;
	memcpy(host, addr, bytes);
	host[bytes] = '\0';
	*ret_port = colon + 1;
	return 0;
}

int ol_coord_place_parse(const char *addr, struct ol_coord_place *ret_place)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	const struct addrinfo *best;
	const char *port;
	char host[256];
	int rc;

	if (addr[0] == '@')
		return place_unix(addr + 1, ret_place);
	rc = place_split(addr, host, sizeof(host), &port);
	if (rc != 0)
		return rc;
	if (getaddrinfo(host, port, &hints, &found) != 0)
		return -EADDRNOTAVAIL;
	/* The same one on both ends where a name stands for several: "localhost" most of all. */
	for (best = found; best != NULL && best->ai_family != AF_INET;)
		best = best->ai_next;
	if (best == NULL)
		best = found;
	memset(ret_place, 0, sizeof(*ret_place));
	memcpy(&ret_place->at, best->ai_addr, best->ai_addrlen);
	ret_place->bytes = best->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

void ol_coord_place_str(const struct ol_coord_place *place, char *text, size_t text_bytes)
{
	struct sockaddr_un un;
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (place->at.ss_family == AF_UNIX) {
		memcpy(&un, &place->at, sizeof(un));
		snprintf(text, text_bytes, "@%.*s",
			 (int)(place->bytes - offsetof(struct sockaddr_un, sun_path) - 1),
			 un.sun_path + 1);
		return;
	}
	if (getnameinfo((const struct sockaddr *)&place->at, place->bytes, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
		snprintf(text, text_bytes, "?");
		return;
	}
	snprintf(text, text_bytes, place->at.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
		 port);
}

void ol_coord_socket_tune(int fd)
{
	int on = 1;

	/* of a Unix socket it fails, and nothing is lost */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int ol_coord_socket(const struct ol_coord_place *place)
{
	int fd = socket(place->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	ol_coord_socket_tune(fd);
	return fd;
}
