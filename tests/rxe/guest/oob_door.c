/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * oob_door.c -- strangers and liars at an "oob:" address, and a listener that lies
 *
 * They speak by sockets of their own, with messages that are put together here byte by byte, as the
 * head of rdma/verbs/oob.c describes them. The device is one of RoCE that has the IPv4 address
 * OL_ADDR.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdma/transport.h"
#include "support/check.h"

enum {
	MSG_BYTES = 308,
	AT_VERSION = 4,
	AT_KIND = 5,
	AT_REFUSAL = 7,
	AT_QP = 8,
	AT_LINK_LAYER = 18,
	AT_GID_TYPE = 19,
	AT_MTU = 20,
	AT_READS = 21, /* in, then out */
	AT_PRIV_LEN = 23,
	AT_GID = 24,
	HELLO = 1,
	ANSWER = 2,
	REJECT = 3,
	CONFIRM = 4,
	ETHERNET = 2,
	ROCE_V2 = 2,
	REFUSAL_FULL = 1,
	REFUSAL_PATH = 3,
	STRANGERS = 200,
	CONNECT_MS = 1500,
	WAIT_MS = 20000,
};

extern const struct ol_xport_ops ol_xport_verbs;

static const struct ol_xport_ops *const ops = &ol_xport_verbs;
static struct ol_xport *server;
static struct ol_xport *client;
static char server_addr[OL_XPORT_ADDR_MAX];

static struct ol_xport *transport_open(void)
{
	struct ol_xport *xport;
	struct ol_xport_opts opts;

	ol_xport_opts_init(&opts);
	opts.connect_timeout_ms = CONNECT_MS;
	check_ok(ops->open(&opts, &xport));
	return xport;
}

static void message(uint8_t msg[MSG_BYTES], uint8_t kind)
{
	memset(msg, 0, MSG_BYTES);
	memcpy(msg, "OLOB", 4);
	msg[AT_VERSION] = 1;
	msg[AT_KIND] = kind;
	msg[AT_QP] = 77;
	msg[AT_LINK_LAYER] = ETHERNET;
	msg[AT_GID_TYPE] = ROCE_V2;
	msg[AT_MTU] = 3;
	msg[AT_READS] = msg[AT_READS + 1] = 4;
	msg[AT_GID + 10] = msg[AT_GID + 11] = 0xff;
	check(inet_pton(AF_INET, getenv("OL_ADDR"), &msg[AT_GID + 12]) == 1);
}

static int stranger(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	char host[OL_XPORT_ADDR_MAX];
	unsigned port;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check(sscanf(server_addr, "oob:%100[0-9.]:%u", host, &port) == 2);
	to.sin_port = htons((uint16_t)port);
	check(inet_pton(AF_INET, host, &to.sin_addr) == 1);
	check(fd >= 0);
	check_ok(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	return fd;
}

static void say(int fd, const uint8_t *bytes, size_t count)
{
	check(send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count);
}

/* The next event of a transport, while the other is polled, too; ms: at most so long */
static bool event_within(struct ol_xport *xport, struct ol_xport_event *event, int ms)
{
	struct ol_xport_event other;

	for (int i = 0; i <= ms; i++) {
		if (ops->poll(xport, event, 1) == 1)
			return true;
		if (xport != server)
			check_eq(ops->poll(server, &other, 1), 0);
		ops->arm(xport);
		(void)poll(&(struct pollfd){ .fd = ops->event_fd(xport), .events = POLLIN }, 1, 1);
	}
	return false;
}

static struct ol_xport_event event_of(struct ol_xport *xport, enum ol_xport_event_type type)
{
	struct ol_xport_event event;

	check(event_within(xport, &event, WAIT_MS));
	check_eq(event.type, type);
	return event;
}

/* What the server sends or does to a socket: bytes received, 0: it ended it */
static size_t heard(int fd, uint8_t msg[MSG_BYTES])
{
	struct ol_xport_event event;
	ssize_t got = -1;

	for (int i = 0; i < WAIT_MS && got < 0; i++) {
		check_msg(!event_within(server, &event, 1), "event %d", (int)event.type);
		got = recv(fd, msg, MSG_BYTES, MSG_DONTWAIT);
		if (got < 0 && errno != EAGAIN)
			got = 0; /* reset */
	}
	check(got >= 0);
	return (size_t)got;
}

/* A peer that means well is let in, whatever goes on at the door. */
static void honest(void)
{
	struct ol_xport_conn *conn;
	struct ol_xport_event event;
	struct ol_xport_conn *accepted = NULL;

	check_ok(ops->connect(client, server_addr, "hello", 5, NULL, &conn));
	for (bool up = false; !up;) {
		if (ops->poll(server, &event, 1) == 1 && event.type == OL_XPORT_CONN_REQUEST) {
			check(event.priv_len >= 5 && memcmp(event.priv, "hello", 5) == 0);
			accepted = event.conn;
			check_ok(ops->accept(accepted, "welcome", 7));
		}
		if (ops->poll(client, &event, 1) == 1) {
			check_msg(event.type == OL_XPORT_CONN_UP, "status %d", event.status);
			check(memcmp(event.priv, "welcome", 7) == 0);
			up = true;
		}
	}
	check_eq(event_of(server, OL_XPORT_CONN_UP).conn, accepted);
	ops->disconnect(conn);
	for (unsigned downs = 0; downs < 2;) {
		for (unsigned i = 0; i < 2; i++) {
			if (ops->poll(i == 0 ? server : client, &event, 1) == 1) {
				check_eq(event.type, OL_XPORT_CONN_DOWN);
				check_eq(event.status, 0);
				downs++;
			}
		}
	}
	ops->conn_free(conn);
	ops->conn_free(accepted);
}

static void silent_strangers(void)
{
	struct ol_xport_counts counts;
	struct ol_xport_event event;
	int fds[STRANGERS];

	for (unsigned i = 0; i < STRANGERS; i++) {
		fds[i] = stranger();
		say(fds[i], (const uint8_t *)"O", i % 2); /* the kernel keeps who says nothing */
		check(!event_within(server, &event, 0));
	}
	ops->counts(server, &counts);
	check_eq(counts.conns, 0);
	honest();
	for (unsigned i = 0; i < STRANGERS; i++)
		close(fds[i]);
	honest();
	printf("ok: %u strangers who say nothing, or a letter, take no place\n", STRANGERS);
}

static void malformed(void)
{
	static const struct {
		const char *what;
		unsigned at;
		uint8_t value;
	} lies[] = {
		{ "magic", 0, 'X' },
		{ "version", AT_VERSION, 2 },
		{ "kind", AT_KIND, 9 },
		{ "an answer", AT_KIND, ANSWER },
		{ "a confirmation", AT_KIND, CONFIRM },
		{ "queue pair", AT_QP + 3, 1 },
		{ "mtu", AT_MTU, 200 },
		{ "reads", AT_READS, 0 },
		{ "private data", AT_PRIV_LEN, 255 },
		{ "multicast", AT_GID, 0xff },
		{ "IPv4 multicast", AT_GID + 12, 224 },
		{ "loopback", AT_GID + 12, 127 },
	};
	uint8_t msg[MSG_BYTES];
	int fd;

	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		fd = stranger();
		message(msg, HELLO);
		msg[lies[i].at] = lies[i].value;
		say(fd, msg, sizeof(msg));
		check_msg(heard(fd, msg) == 0, "wrong %s", lies[i].what);
		close(fd);
	}
	fd = stranger();
	message(msg, HELLO);
	say(fd, msg, MSG_BYTES / 2);
	check(shutdown(fd, SHUT_WR) == 0);
	check_eq(heard(fd, msg), 0);
	close(fd);
	honest();
	printf("ok: malformed hellos, and a half one, end their socket alone\n");
}

static void other_fabric(void)
{
	static const struct {
		unsigned at;
		uint8_t value;
	} kinds[] = { { AT_LINK_LAYER, 1 }, { AT_GID_TYPE, 77 }, { AT_GID, 0x20 } };
	uint8_t msg[MSG_BYTES];
	int fd;

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		fd = stranger();
		message(msg, HELLO);
		msg[kinds[i].at] = kinds[i].value;
		if (kinds[i].at == AT_GID) /* a global IPv6 address: the device has none */
			msg[AT_GID + 10] = 0;
		say(fd, msg, sizeof(msg));
		check_eq(heard(fd, msg), MSG_BYTES);
		check_eq(msg[AT_KIND], REJECT);
		check_eq(msg[AT_REFUSAL], REFUSAL_PATH);
		close(fd);
	}
	honest();
	printf("ok: a peer of another fabric is told so\n");
}

/* In pieces, up, then against the rules */
static void slow_and_rude(void)
{
	uint8_t msg[MSG_BYTES];
	struct ol_xport_event event;
	struct ol_xport_conn *conn;
	int fd;

	for (unsigned rude = 0; rude < 2; rude++) {
		fd = stranger();
		message(msg, HELLO);
		for (unsigned i = 0; i < MSG_BYTES; i += 4) {
			check(!event_within(server, &event, 0));
			say(fd, msg + i, 4);
		}
		conn = event_of(server, OL_XPORT_CONN_REQUEST).conn;
		check_ok(ops->accept(conn, NULL, 0));
		check_eq(recv(fd, msg, MSG_BYTES, MSG_WAITALL), MSG_BYTES);
		check_eq(msg[AT_KIND], ANSWER);
		message(msg, CONFIRM);
		say(fd, msg, sizeof(msg));
		check_eq(event_of(server, OL_XPORT_CONN_UP).conn, conn);
		message(msg, CONFIRM); /* a second one */
		if (rude)
			say(fd, msg, sizeof(msg));
		else
			check_ok(shutdown(fd, SHUT_WR));
		event = event_of(server, OL_XPORT_CONN_DOWN);
		check_eq(event.status, rude ? -EIO : 0);
		ops->conn_free(conn);
		close(fd);
	}
	fd = stranger();
	message(msg, HELLO);
	say(fd, msg, sizeof(msg));
	conn = event_of(server, OL_XPORT_CONN_REQUEST).conn;
	close(fd);
	check_eq(event_of(server, OL_XPORT_CONN_DOWN).status, 0);
	check(ops->accept(conn, NULL, 0) == -ECONNABORTED);
	ops->conn_free(conn);
	honest();
	printf("ok: hellos in pieces, ends and rudeness at any moment\n");
}

/* Each connect ends with the status that the contract names; none hangs. */
static void lying_listener(void)
{
	static const struct {
		const char *what;
		int bytes;
		unsigned at;
		uint8_t value;
		uint8_t kind;
		int status;
	} lies[] = {
		{ "ends", 0, 0, 0, 0, -EIO },
		{ "half an answer", MSG_BYTES / 2, 0, 'O', ANSWER, -EIO },
		{ "magic", MSG_BYTES, 0, 'X', ANSWER, -EIO },
		{ "a hello", MSG_BYTES, 0, 'O', HELLO, -EIO },
		{ "another fabric", MSG_BYTES, AT_LINK_LAYER, 1, ANSWER, -EIO },
		{ "private data", MSG_BYTES, AT_PRIV_LEN, 255, ANSWER, -EIO },
		{ "rejects", MSG_BYTES, 0, 'O', REJECT, -ECONNREFUSED },
		{ "is full", MSG_BYTES, AT_REFUSAL, REFUSAL_FULL, REJECT, -EUSERS },
		{ "rejects oddly", MSG_BYTES, AT_REFUSAL, 200, REJECT, -EUSERS },
		{ "says nothing", -1, 0, 0, 0, -ETIMEDOUT },
	};
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(at);
	char addr[OL_XPORT_ADDR_MAX];
	uint8_t msg[MSG_BYTES];
	struct ol_xport_event event;
	struct ol_xport_conn *conn;
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check_ok(bind(door, (struct sockaddr *)&at, sizeof(at)));
	check_ok(listen(door, 8));
	check_ok(getsockname(door, (struct sockaddr *)&at, &bytes));
	snprintf(addr, sizeof(addr), "oob:127.0.0.1:%u", ntohs(at.sin_port));
	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		int fd;

		check_ok(ops->connect(client, addr, NULL, 0, NULL, &conn));
		fd = accept(door, NULL, NULL);
		check(fd >= 0);
		message(msg, lies[i].kind);
		msg[lies[i].at] = lies[i].value;
		if (lies[i].bytes > 0)
			say(fd, msg, (size_t)lies[i].bytes);
		if (lies[i].bytes >= 0)
			check_ok(shutdown(fd, SHUT_WR));
		event = event_of(client, OL_XPORT_CONN_DOWN);
		check_msg(event.status == lies[i].status, "%s: status %d", lies[i].what,
			  event.status);
		check_eq(event.priv_len > 0, lies[i].status == -ECONNREFUSED);
		ops->conn_free(conn);
		close(fd);
	}
	close(door);
	check_ok(ops->connect(client, addr, msg, OL_XPORT_PRIV_CONNECT_MAX, NULL, &conn));
	event = event_of(client, OL_XPORT_CONN_DOWN);
	check_eq(event.status, -ECONNREFUSED);
	check_eq(event.priv_len, 0); /* nobody listens */
	ops->conn_free(conn);
	honest();
	printf("ok: a listener that lies ends connects as the contract says\n");
}

static uint64_t accept_time(struct ol_xport_conn *conn)
{
	const uint64_t began_ns = ol_xport_now_ns();

	check_eq(ops->accept(conn, NULL, 0), -EHOSTUNREACH);
	ops->conn_free(conn);
	return ol_xport_now_ns() - began_ns;
}

/* Its TCP comes through, its adapter's address is nobody's: one costs a second, many do not. */
static void unreachable(void)
{
	uint64_t first_ns = 0, others_ns = 0;
	uint8_t msg[MSG_BYTES];

	for (uint8_t i = 0; i < 10; i++) {
		const int fd = stranger();
		struct ol_xport_conn *conn;

		message(msg, HELLO);
		msg[AT_GID + 15] = (uint8_t)(200 + i);
		say(fd, msg, sizeof(msg));
		conn = event_of(server, OL_XPORT_CONN_REQUEST).conn;
		*(i == 0 ? &first_ns : &others_ns) += accept_time(conn);
		close(fd);
	}
	check_msg(others_ns < first_ns, "%llu and %llu ns", (unsigned long long)first_ns,
		  (unsigned long long)others_ns);
	honest(); /* it was reached before */
	printf("ok: peers whose adapters cannot be reached\n");
}

/* Without a descriptor left peers are sent away, and the next ones come in again. */
static void no_descriptors(void)
{
	struct rlimit limit, low;
	uint8_t msg[MSG_BYTES];
	struct ol_xport_event event;
	int fds[8];
	int last;

	check_ok(getrlimit(RLIMIT_NOFILE, &limit));
	for (unsigned i = 0; i < 8; i++)
		fds[i] = stranger();
	last = dup(0);
	check(last >= 0);
	close(last);
	low = limit;
	low.rlim_cur = (rlim_t)last;
	check_ok(setrlimit(RLIMIT_NOFILE, &low));
	message(msg, HELLO);
	for (unsigned i = 0; i < 8; i++) {
		say(fds[i], msg, sizeof(msg));
		check(!event_within(server, &event, 20));
	}
	check_ok(setrlimit(RLIMIT_NOFILE, &limit));
	for (unsigned i = 0; i < 8; i++) {
		check_eq(heard(fds[i], msg), 0);
		close(fds[i]);
	}
	honest();
	printf("ok: peers are sent away while no descriptor is left\n");
}

int main(void)
{
	char listen[OL_XPORT_ADDR_MAX];

	server = transport_open();
	client = transport_open();
	snprintf(listen, sizeof(listen), "oob:%s:0", getenv("OL_ADDR"));
	check_ok(ops->listen(server, listen, server_addr));
	honest();
	silent_strangers();
	malformed();
	other_fabric();
	slow_and_rude();
	lying_listener();
	no_descriptors();
	unreachable();
	ops->close(client);
	ops->close(server);
	return 0;
}
