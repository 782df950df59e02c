/* SPDX-License-Identifier: BSD-3-Clause */

/* coordinator.c -- the embedded coordinator: one thread, one loop, many clients */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "replication/coord/coord_internal.h"
#include "replication/coordinator_internal.h"

#define NS_PER_MS UINT64_C(1000000)

enum {
	GREETING_MS = 3000, /* until a client has to have a session */
	LEAVING_MS = 1000, /* until one that was refused has to have gone */
	ACCEPT_PAUSE_MS = 100, /* when there are no files for one more */
	ACCEPTS_A_TURN = 64,
	BACKLOG = 512,
};

static void due_flush(struct ol_coordd *coordd)
{
	struct ol_coordd_client *client;

	while ((client = coordd->due) != NULL) { /* who is gone makes others due */
		coordd->due = client->due_next;
		client->due = false;
		ol_coordd_client_flush(client);
	}
}

/* oldest -- of those without a session; there is one */
static struct ol_coordd_client *oldest(const struct ol_coordd *coordd)
{
	struct ol_coordd_client *best = NULL;

	for (struct ol_coordd_client *c = coordd->clients; c != NULL; c = c->next) {
		if (c->phase != OL_COORDD_MEMBER && (best == NULL || c->since_ns <= best->since_ns))
			best = c;
	}
	return best;
}

static void client_create(struct ol_coordd *coordd, int fd)
{
	struct ol_coordd_client *client = calloc(1, sizeof(*client));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = client };

	if (client == NULL || epoll_ctl(coordd->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
		free(client);
		close(fd);
		return;
	}
	ol_coord_socket_tune(fd);
	client->coordd = coordd;
	client->phase = OL_COORDD_HELLO;
	client->since_ns = ol_coord_now_ns();
	client->pipe.fd = fd;
	client->next = coordd->clients;
	if (client->next != NULL)
		client->next->prev = client;
	coordd->clients = client;
	coordd->greetings++;
	while (coordd->greetings > OL_COORDD_GREETINGS_MAX)
		ol_coordd_client_close(oldest(coordd));
}

static void listen_want(struct ol_coordd *coordd, bool want)
{
	struct epoll_event event = { .events = want ? EPOLLIN : 0, .data.ptr = &coordd->listen_fd };

	epoll_ctl(coordd->epoll_fd, EPOLL_CTL_MOD, coordd->listen_fd, &event);
	coordd->accept_ns = want ? 0 : ol_coord_now_ns() + ACCEPT_PAUSE_MS * NS_PER_MS;
}

static void accept_some(struct ol_coordd *coordd)
{
	for (unsigned i = 0; i < ACCEPTS_A_TURN; i++) {
		int fd = accept4(coordd->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			client_create(coordd, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			ol_coordd_say(coordd, "no file or memory for one more client: %s",
				      strerror(errno));
			listen_want(coordd, false);
		}
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

static uint64_t greeting_end(const struct ol_coordd_client *client)
{
	return client->since_ns +
	       (client->phase == OL_COORDD_LEAVING ? LEAVING_MS : GREETING_MS) * NS_PER_MS;
}

/* on_time -- what is over; when to look again at the latest */
static uint64_t on_time(struct ol_coordd *coordd)
{
	uint64_t now = ol_coord_now_ns(), until = ol_coord_store_expire(coordd->store, now), end;
	struct ol_coordd_client *client = coordd->greetings > 0 ? coordd->clients : NULL, *next;

	for (; client != NULL; client = next) {
		next = client->next;
		if (client->phase == OL_COORDD_MEMBER)
			continue;
		end = greeting_end(client);
		if (end <= now)
			ol_coordd_client_close(client);
		else if (end < until)
			until = end;
	}
	if (coordd->accept_ns != 0 && coordd->accept_ns <= now)
		listen_want(coordd, true);
	return coordd->accept_ns != 0 && coordd->accept_ns < until ? coordd->accept_ns : until;
}

static int wait_ms(uint64_t until)
{
	uint64_t now = ol_coord_now_ns(), ms;

	if (until == UINT64_MAX)
		return -1;
	if (until <= now)
		return 0;
	ms = (until - now) / NS_PER_MS + 1;
	return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

/*
 * turn -- false: stop
 *
 * All that can be read is read before anything is found to be over: while this thread itself stood
 * still nobody could be heard. Nobody but the client of an event is freed while events are left.
 */
static bool turn(struct ol_coordd *coordd, uint64_t *until, int *ret_rc)
{
	bool stop = false, knocks = false;
	int count = epoll_wait(coordd->epoll_fd, coordd->events,
			       sizeof(coordd->events) / sizeof(coordd->events[0]), wait_ms(*until));
	eventfd_t ignored;

	if (count < 0 && errno != EINTR) {
		*ret_rc = -errno;
		return false;
	}
	for (int i = 0; i < count; i++) {
		const struct epoll_event *event = &coordd->events[i];

		if (event->data.ptr == &coordd->stop_fd) {
			(void)eventfd_read(coordd->stop_fd, &ignored);
			stop = true;
		} else if (event->data.ptr == &coordd->listen_fd) {
			knocks = true;
		} else {
			if ((event->events & EPOLLOUT) != 0)
				ol_coordd_client_due(event->data.ptr);
			if ((event->events & ~(uint32_t)EPOLLOUT) != 0)
				ol_coordd_client_read(event->data.ptr);
		}
	}
	due_flush(coordd);
	if (knocks)
		accept_some(coordd);
	*until = on_time(coordd);
	due_flush(coordd);
	return !stop;
}

int ol_coordd_run(struct ol_coordd *coordd)
{
	uint64_t until = 0;
	int rc = 0;

	while (turn(coordd, &until, &rc))
		;
	return rc;
}

void ol_coordd_stop(struct ol_coordd *coordd)
{
	(void)eventfd_write(coordd->stop_fd, 1);
}

const char *ol_coordd_addr(const struct ol_coordd *coordd)
{
	return coordd->addr;
}

static int epoll_add(const struct ol_coordd *coordd, const int *fd)
{
	union { /* an event's word is told apart by which field of ours it points to */
		const int *ours;
		void *word;
	} at = { fd };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = at.word };

	return epoll_ctl(coordd->epoll_fd, EPOLL_CTL_ADD, *fd, &event) == 0 ? 0 : -errno;
}

/* addr_set -- the host as it was given, with the port that it got */
static int addr_set(struct ol_coordd *coordd)
{
	struct ol_coord_place got = { .bytes = sizeof(got.at) };
	const char *listen_at = coordd->opts.listen;
	char text[OL_ENDPOINT_MAX];
	int host;

	if (listen_at[0] == '@') {
		snprintf(coordd->addr, sizeof(coordd->addr), "%s", listen_at);
		return 0;
	}
	if (getsockname(coordd->listen_fd, (struct sockaddr *)&got.at, &got.bytes) != 0)
		return -errno;
	ol_coord_place_str(&got, text, sizeof(text));
	host = (int)(strrchr(listen_at, ':') - listen_at);
	snprintf(coordd->addr, sizeof(coordd->addr), "%.*s%s", host, listen_at, strrchr(text, ':'));
	return 0;
}

static int listen_start(struct ol_coordd *coordd)
{
	struct ol_coord_place place;
	int on = 1, rc = ol_coord_place_parse(coordd->opts.listen, &place);

	if (rc != 0)
		return rc;
	coordd->listen_fd = ol_coord_socket(&place);
	if (coordd->listen_fd < 0)
		return coordd->listen_fd;
	(void)setsockopt(coordd->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(coordd->listen_fd, (const struct sockaddr *)&place.at, place.bytes) != 0 ||
	    listen(coordd->listen_fd, BACKLOG) != 0)
		return -errno;
	return addr_set(coordd);
}

static int coordd_start(struct ol_coordd *coordd)
{
	uint64_t base;
	int rc;

	if (ol_coord_random(&base, sizeof(base)) != 0)
		return -EIO;
	/* Above it a store has room for 2^32 versions, and no two stores have the same. */
	rc = ol_coord_store_create(base & UINT64_C(0x7fffffff00000000), &ol_coordd_store_ops,
				   &coordd->store);
	if (rc != 0)
		return rc;
	rc = listen_start(coordd);
	if (rc != 0)
		return rc;
	coordd->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	coordd->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (coordd->epoll_fd < 0 || coordd->stop_fd < 0)
		return -errno;
	rc = epoll_add(coordd, &coordd->listen_fd);
	return rc == 0 ? epoll_add(coordd, &coordd->stop_fd) : rc;
}

static const char *fault_str(int rc)
{
	if (rc == -EADDRINUSE)
		return "another process listens there";
	if (rc == -EADDRNOTAVAIL)
		return "this machine has no such address";
	if (rc == -EINVAL)
		return "an address is HOST:PORT or @NAME";
	return strerror(-rc);
}

int ol_coordd_open(const struct ol_coordd_opts *opts, struct ol_coordd **ret_coordd, char *err,
		   size_t err_bytes)
{
	struct ol_coordd *coordd = NULL;
	const char *at = opts->listen != NULL ? opts->listen : "";
	int rc = -EINVAL;

	if (at[0] != '\0' && strlen(at) < OL_ENDPOINT_MAX) {
		coordd = calloc(1, sizeof(*coordd));
		rc = -ENOMEM;
	}
	if (coordd != NULL) {
		coordd->opts = *opts;
		coordd->secret.mac = opts->mac;
		coordd->secret.arg = opts->mac_arg;
		coordd->listen_fd = coordd->epoll_fd = coordd->stop_fd = -1;
		rc = coordd_start(coordd);
	}
	if (rc != 0) {
		if (err != NULL && err_bytes > 0)
			snprintf(err, err_bytes, "coordinator at %s: %s", at, fault_str(rc));
		ol_coordd_close(coordd);
		return rc;
	}
	coordd->opts.listen = NULL; /* the caller's */
	*ret_coordd = coordd;
	return 0;
}

static void fd_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

void ol_coordd_close(struct ol_coordd *coordd)
{
	if (coordd == NULL)
		return;
	while (coordd->clients != NULL)
		ol_coordd_client_close(coordd->clients);
	ol_coord_store_destroy(coordd->store);
	fd_close(coordd->listen_fd);
	fd_close(coordd->epoll_fd);
	fd_close(coordd->stop_fd);
	free(coordd);
}
