/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * http.c -- one page of text, served over HTTP by the thread that calls
 *
 * libmicrohttpd has no thread of its own here: its descriptors are watched beside the signals.
 */
#include "outlast/http.h"

#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/logs.h"

enum {
	SILENCE_S = 30, /* more than the 15 s at which Prometheus comes again on its connection */
	CONN_BYTES = 16 * 1024, /* for a request's head, and for buffers */
	BACKLOG = 64,
	HELD_MS = 1000, /* no run is later than that while there are connections */
	HOST_MAX = 256
};

static const char address_form[] =
	"give ADDRESS:PORT, as 127.0.0.1:9470 or [::1]:9470; 0.0.0.0 and [::] are all addresses "
	"of this machine";

/* "[::1]:9470", "10.0.0.1:9470"; false: it is neither */
static bool address_split(const char *text, char host[HOST_MAX], const char **ret_port)
{
	bool bracket = text[0] == '[';
	const char *end = bracket ? strchr(text, ']') : strrchr(text, ':');
	size_t len, digits;

	if (end == NULL)
		return false;
	text += bracket;
	len = (size_t)(end - text);
	end += bracket;
	if (len == 0 || len >= HOST_MAX || end[0] != ':')
		return false;
	/* getaddrinfo() would take 99999 modulo 65536 */
	digits = strspn(end + 1, "0123456789");
	if (digits == 0 || digits > 5 || end[1 + digits] != '\0' ||
	    strtoul(end + 1, NULL, 10) > UINT16_MAX)
		return false;
	snprintf(host, HOST_MAX, "%.*s", (int)len, text);
	*ret_port = end + 1;
	return bracket || strchr(host, ':') == NULL;
}

/* A socket that listens at this address and no other, or a negative errno */
static int socket_listen(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int yes = 1, rc;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
	    (at->ai_family != AF_INET6 ||
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes)) == 0) &&
	    bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

/* Open the socket of opts->listen: 0, or an exit code after an error line */
static int listen_open(const struct http_opts *opts, int *ret_fd)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE | AI_NUMERICSERV },
			*found;
	char host[HOST_MAX];
	const char *port, *remedy = NULL;
	int rc;

	if (!address_split(opts->listen, host, &port))
		return ol_cmd_error(OL_EXIT_USAGE, opts->cmd, "--listen", opts->listen,
				    address_form);
	rc = getaddrinfo(host, port, &hints, &found);
	if (rc != 0)
		return ol_cmd_error(rc == EAI_SERVICE ? OL_EXIT_USAGE : OL_EXIT_DEVICE, opts->cmd,
				    "--listen", opts->listen, gai_strerror(rc));
	rc = socket_listen(found);
	freeaddrinfo(found);
	if (rc >= 0) {
		*ret_fd = rc;
		return 0;
	}
	if (rc == -EADDRINUSE)
		remedy = "Address already in use: choose another port";
	if (rc == -EADDRNOTAVAIL)
		remedy = "not an address of this machine";
	return ol_cmd_error(ol_cmd_exit_of(rc), opts->cmd, "cannot listen at", opts->listen,
			    remedy != NULL ? remedy : strerror(-rc));
}

/* Where it listens, as a user types it: a port that was asked for as 0 is known now. */
static void address_say(const struct http_opts *opts, int fd)
{
	struct sockaddr_storage at = { 0 };
	socklen_t len = sizeof(at);
	char host[HOST_MAX] = "?", port[16] = "?", url[HTTP_URL_MAX];
	bool six;

	if (getsockname(fd, (struct sockaddr *)&at, &len) == 0)
		(void)getnameinfo((struct sockaddr *)&at, len, host, sizeof(host), port,
				  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	six = at.ss_family == AF_INET6;
	snprintf(url, sizeof(url), "http://%s%s%s:%s%s", six ? "[" : "", host, six ? "]" : "", port,
		 opts->path);
	ol_logs_say(OL_LOG_INFO, "serves %s", url);
	opts->ready(opts->arg, url);
}

/* Answer with this text, which is freed later if it is `owned` */
static enum MHD_Result text_send(struct MHD_Connection *conn, unsigned status, const char *type,
				 char *text, size_t bytes, bool owned)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		bytes, text, owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	enum MHD_Result rc;

	if (response == NULL) {
		if (owned)
			free(text);
		return MHD_NO;
	}
	rc = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (rc == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED)
		rc = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	if (rc == MHD_YES)
		rc = MHD_queue_response(conn, status, response);
	MHD_destroy_response(response);
	return rc;
}

static enum MHD_Result fault_send(struct MHD_Connection *conn, unsigned status)
{
	static char not_found[] = "no such page\n", not_allowed[] = "GET and HEAD only\n",
		    failed[] = "the page could not be made\n";
	char *text = status == MHD_HTTP_NOT_FOUND            ? not_found
		     : status == MHD_HTTP_METHOD_NOT_ALLOWED ? not_allowed
							     : failed;

	return text_send(conn, status, "text/plain; charset=utf-8", text, strlen(text), false);
}

/* Called once with a request's head, and once when all of it is there */
static enum MHD_Result answer(void *arg, struct MHD_Connection *conn, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_bytes, void **state)
{
	const struct http_opts *opts = arg;
	static char begun;
	const char *accept =
		MHD_lookup_connection_value(conn, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	const char *type = NULL;
	size_t bytes = 0;
	char *text = NULL;

	(void)version;
	(void)upload;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return fault_send(conn, MHD_HTTP_METHOD_NOT_ALLOWED);
	if (*state == NULL) {
		*state = &begun;
		return MHD_YES;
	}
	if (*upload_bytes != 0) { /* a body, of no use */
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(url, opts->path) != 0)
		return fault_send(conn, MHD_HTTP_NOT_FOUND);
	if (opts->page(opts->arg, accept, &type, &text, &bytes) != 0)
		return fault_send(conn, MHD_HTTP_INTERNAL_SERVER_ERROR);
	return text_send(conn, MHD_HTTP_OK, type, text, bytes, true);
}

static unsigned connections(struct MHD_Daemon *daemon)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	return info != NULL ? info->num_connections : 0;
}

/*
 * With all places taken libmicrohttpd does not listen, and listens again only in the first
 * MHD_run() after a place is free, for which it asks neither by its descriptor nor by its timeout.
 * So another run follows one that ended a connection, and none waits for long while there are any.
 */
static int daemon_run(const struct http_opts *opts, struct MHD_Daemon *daemon)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd fds[2] = { { .fd = opts->signal_fd, .events = POLLIN },
				 { .fd = info != NULL ? info->epoll_fd : -1, .events = POLLIN } };

	bool fewer = false;

	while (!opts->ended(opts->arg)) {
		MHD_UNSIGNED_LONG_LONG left_ms;
		unsigned held = connections(daemon);
		int wait_ms = opts->turn(opts->arg);

		if (fewer)
			wait_ms = 0;
		else if (held > 0 && (wait_ms < 0 || wait_ms > HELD_MS))
			wait_ms = HELD_MS;

		if (MHD_get_timeout(daemon, &left_ms) == MHD_YES &&
		    (wait_ms < 0 || left_ms < (unsigned)wait_ms))
			wait_ms = left_ms < INT_MAX ? (int)left_ms : INT_MAX;
		if (poll(fds, 2, wait_ms) < 0 && errno != EINTR)
			return ol_cmd_error(OL_EXIT_FAILED, opts->cmd, "cannot wait for requests",
					    NULL, strerror(errno));
		if (MHD_run(daemon) != MHD_YES)
			return ol_cmd_error(OL_EXIT_FAILED, opts->cmd, "cannot serve requests",
					    opts->listen, NULL);
		fewer = connections(daemon) < held;
	}
	return 0;
}

int http_serve(const struct http_opts *opts)
{
	struct MHD_Daemon *daemon;
	int fd, rc = listen_open(opts, &fd);

	if (rc != 0)
		return rc;
	daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, answer, (void *)(uintptr_t)opts,
				  MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
				  opts->connections_max, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
				  (opts->connections_max + 1) / 2, MHD_OPTION_CONNECTION_TIMEOUT,
				  (unsigned)SILENCE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				  (size_t)CONN_BYTES, MHD_OPTION_END);
	if (daemon == NULL) {
		close(fd);
		return ol_cmd_error(OL_EXIT_RESOURCES, opts->cmd, "cannot serve at", opts->listen,
				    "no memory, or no descriptors left");
	}
	address_say(opts, fd);
	rc = daemon_run(opts, daemon);
	MHD_stop_daemon(daemon);
	return rc;
}
