/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zk_server.c -- what one server of an ensemble says of itself, over plain connections
 *
 * srvr and conf are "four letter words": text until the server closes. Since 3.5 a server answers only
 * those of its 4lw.commands.whitelist, by default srvr. What sessions it grants is found by asking for the
 * shortest and the longest: the first packet of ZooKeeper's protocol, and the last. Only a server that sees
 * a quorum grants one.
 */

#include "replication/coord/zookeeper/zk_client.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	TEXT_MAX = 8192,
	ASK_BYTES = 48, /* a length, and a request for a session */
	GRANT_BYTES = 40, /* a length, and what was granted */
	GONE_BYTES = 12, /* a length, and the request to end it */
};

struct talk {
	int fd;
	uint64_t end_ns; /* of all waiting */
};

/* poll() until the end: true if the descriptor is ready */
static bool ready(const struct talk *talk, short events)
{
	struct pollfd fd = { .fd = talk->fd, .events = events };
	uint64_t now_ns = ol_coord_now_ns();
	int left_ms = now_ns < talk->end_ns ? (int)((talk->end_ns - now_ns) / ZK_NS_PER_MS) + 1 : 0;
	int rc;

	do
		rc = poll(&fd, 1, left_ms);
	while (rc < 0 && errno == EINTR);
	if (rc == 0)
		errno = ETIMEDOUT;
	return rc > 0;
}

/* Connected; or false with errno */
static bool connect_to(struct talk *talk, const struct addrinfo *at)
{
	socklen_t bytes = sizeof(errno);
	int error = 0;

	talk->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (talk->fd < 0)
		return false;
	if (connect(talk->fd, at->ai_addr, at->ai_addrlen) == 0)
		return true;
	if (errno == EINPROGRESS && ready(talk, POLLOUT) &&
	    getsockopt(talk->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0)
		return true;
	if (error != 0)
		errno = error;
	error = errno;
	close(talk->fd);
	talk->fd = -1;
	errno = error;
	return false;
}

/* A connection to HOST:PORT; false after `why` */
static bool talk_open(struct talk *talk, const char *addr, uint32_t timeout_ms, char *why,
		      size_t why_bytes)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	char host[OL_ENDPOINT_MAX];
	const char *colon = strrchr(addr, ':');
	struct addrinfo *found = NULL;
	int rc;

	talk->fd = -1;
	talk->end_ns = ol_coord_now_ns() + timeout_ms * ZK_NS_PER_MS;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - addr), addr);
	if (host[0] == '[' && host[strlen(host) - 1] == ']') { /* IPv6 */
		host[strlen(host) - 1] = '\0';
		memmove(host, host + 1, strlen(host));
	}
	rc = getaddrinfo(host, colon + 1, &hints, &found);
	if (rc != 0) {
		snprintf(why, why_bytes, "no such host: %s", gai_strerror(rc));
		return false;
	}
	for (const struct addrinfo *at = found; at != NULL && talk->fd < 0; at = at->ai_next)
		if (!connect_to(talk, at))
			snprintf(why, why_bytes, "%s", strerror(errno));
	freeaddrinfo(found);
	return talk->fd >= 0;
}

static bool say(const struct talk *talk, const void *bytes, size_t count)
{
	/* far less than a socket's buffer */
	return send(talk->fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count;
}

/* At most `count` bytes, until the other end closes; how many */
static size_t hear(const struct talk *talk, void *bytes, size_t count)
{
	size_t got = 0;

	while (got < count && ready(talk, POLLIN)) {
		ssize_t more = recv(talk->fd, (char *)bytes + got, count - got, 0);

		if (more < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (more <= 0)
			break;
		got += (size_t)more;
	}
	return got;
}

/* A word and its answer, "" if there is none; false after `why`: no connection */
static bool word_ask(const char *addr, const char *word, uint32_t timeout_ms, char text[TEXT_MAX],
		     uint64_t *ret_connect_ns, char *why, size_t why_bytes)
{
	uint64_t begin_ns = ol_coord_now_ns();
	struct talk talk;

	text[0] = '\0';
	if (!talk_open(&talk, addr, timeout_ms, why, why_bytes))
		return false;
	*ret_connect_ns = ol_coord_now_ns() - begin_ns;
	if (say(&talk, word, strlen(word)))
		text[hear(&talk, text, TEXT_MAX - 1)] = '\0';
	close(talk.fd);
	return true;
}

/* What follows `key` in its line, up to one of `ends`; false: there is no such line */
static bool value_find(const char *text, const char *key, const char *ends, char *value,
		       size_t value_bytes)
{
	const char *at = strstr(text, key);

	if (at == NULL || (at != text && at[-1] != '\n'))
		return false;
	at += strlen(key);
	snprintf(value, value_bytes, "%.*s", (int)strcspn(at, ends), at);
	return true;
}

static void number_put(uint8_t *at, int32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		at[i] = (uint8_t)((uint32_t)value >> (24 - 8 * i));
}

static uint32_t number_get(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/*
 * session_ask -- begin a session and end it: its length as it was granted, in ms; 0: none was
 *
 *	asked     length, version 0, zxid of 8 bytes, ms, session of 8 bytes, length and 16 bytes of a password
 *	granted   length, version 0, ms, session, length and password
 *	ended     length, number of the request, -11
 */
static uint32_t session_ask(const char *addr, int32_t ms, uint32_t timeout_ms, uint64_t *ret_ns)
{
	uint8_t ask[ASK_BYTES] = { 0 }, grant[GRANT_BYTES], gone[GONE_BYTES] = { 0 };
	uint64_t begin_ns = ol_coord_now_ns();
	uint32_t granted = 0;
	struct talk talk;
	char why[128];

	if (!talk_open(&talk, addr, timeout_ms, why, sizeof(why)))
		return 0;
	number_put(ask, ASK_BYTES - 4);
	number_put(ask + 16, ms);
	number_put(ask + 28, 16);
	if (say(&talk, ask, sizeof(ask)) && hear(&talk, grant, sizeof(grant)) == sizeof(grant)) {
		/* since 3.4 one byte more follows, which is not read; anything else is no ZooKeeper */
		if ((number_get(grant) == GRANT_BYTES - 4 ||
		     number_get(grant) == GRANT_BYTES - 3) &&
		    number_get(grant + 4) == 0)
			granted = number_get(grant + 8);
		*ret_ns = ol_coord_now_ns() - begin_ns;
		number_put(gone, GONE_BYTES - 4);
		number_put(gone + 4, 1);
		number_put(gone + 8, -11);
		if (say(&talk, gone, sizeof(gone)))
			(void)hear(&talk, grant, sizeof(grant)); /* its answer: it is done */
	}
	close(talk.fd);
	return granted;
}

static void words_look(struct zk_server *server, const char *text)
{
	char value[32];

	server->tells = value_find(text, "Zookeeper version: ", "-, \n", server->version,
				   sizeof(server->version));
	(void)value_find(text, "Mode: ", "\n", server->mode, sizeof(server->mode));
	if (value_find(text, "Connections: ", "\n", value, sizeof(value)))
		server->clients = (uint32_t)strtoul(value, NULL, 10);
}

void zk_server_look(const char *addr, size_t bytes, uint32_t timeout_ms,
		    struct zk_server *ret_server)
{
	struct zk_server *server = ret_server;
	uint64_t ns = 0;
	char text[TEXT_MAX], value[32];

	*server = (struct zk_server){ .clients_max = -1 };
	snprintf(server->addr, sizeof(server->addr), "%.*s", (int)bytes, addr);
	server->reached = word_ask(server->addr, "srvr", timeout_ms, text, &server->connect_ns,
				   server->why, sizeof(server->why));
	if (!server->reached)
		return;
	words_look(server, text);
	server->session_max_ms =
		session_ask(server->addr, INT32_MAX, timeout_ms, &server->session_ns);
	server->serves = server->session_max_ms != 0;
	if (!server->serves) {
		snprintf(server->why, sizeof(server->why),
			 strstr(text, "not currently serving") != NULL
				 ? "it sees no quorum of its ensemble: too few of it run, or "
				   "they elect a leader"
				 : "it grants no session (no quorum, or no server of ZooKeeper)");
		return;
	}
	server->session_min_ms = session_ask(server->addr, 1, timeout_ms, &ns);
	if (word_ask(server->addr, "conf", timeout_ms, text, &ns, value, sizeof(value)) &&
	    value_find(text, "maxClientCnxns=", "\n", value, sizeof(value)))
		server->clients_max = (int32_t)strtol(value, NULL, 10);
}
