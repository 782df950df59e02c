/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shm_fuzz.c -- whatever messages and descriptors a process sends to the shared-memory transport,
 * and whatever it writes into the doorbell rings, the transport keeps its promises about events,
 * accesses only registered memory, and leaks no descriptor
 *
 * The first bit: the transport accepts, or connects. The rest is a script of the peer, and of the
 * program that has the transport.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rdma/shm/msg.h"
#include "rdma/shm/ring.h"
#include "support/fuzz.h"
#include "support/packet.h"

enum {
	CAPACITY = 64,
	SEGMENT_BYTES = 8192,
	EVENTS_MAX = 8,
	INPUT_MAX = 1024
};

#define X (&ol_xport_shm)

static struct {
	const uint8_t *at; /* the input */
	size_t left;
	struct ol_xport *xport;
	struct ol_xport_conn *conn; /* NULL: none, or it has ended */
	bool up;
	struct ol_slab *slab;
	struct ol_xport_region *region;
	int listener; /* the peer's; -1: the transport is called */
	int sock; /* the peer's end; -1: closed, or not yet open */
	void *segment; /* doorbell rings, of whoever made them; NULL: not there yet */
	size_t segment_bytes;
	int segment_fd; /* of the peer's own */
} fuzz;

static uint8_t byte(void)
{
	if (fuzz.left == 0)
		return 0;
	fuzz.left--;
	return *fuzz.at++;
}

static void patch(void *record, size_t bytes)
{
	for (unsigned count = byte() & 7; count > 0; count--) {
		size_t off = byte() % bytes;

		((uint8_t *)record)[off] = byte();
	}
}

/* ---- the peer ---- */

static int sealed(size_t bytes, bool seal)
{
	int fd = memfd_create("outlast-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	must(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	if (seal)
		must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	return fd;
}

/* A descriptor to hand over: what is wanted in its place, or something else */
static int fd_make(unsigned kind)
{
	switch (kind & 7) {
	case 0:
		return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	case 1:
		return sealed(SEGMENT_BYTES, true);
	case 2:
		return sealed(SEGMENT_BYTES, false);
	case 3:
		return eventfd(0, EFD_CLOEXEC);
	case 4:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	default:
		return fcntl(fuzz.segment_fd, F_DUPFD_CLOEXEC, 0);
	}
}

static void say(const void *bytes, size_t count, const int *fds, unsigned fd_count)
{
	if (fuzz.sock >= 0)
		(void)packet_send(fuzz.sock, bytes, count, fds, fd_count); /* it may be gone */
}

static void message(void)
{
	/* how many descriptors each kind of message has, and which: two kinds, four bits each */
	static const uint8_t kinds[16] = {
		[OL_SHM_MSG_ACCEPT] = 0x10 + 5, [OL_SHM_MSG_REGION] = 0x10 + 1
	};
	uint8_t type = byte(), fd_kinds;
	struct ol_shm_msg msg = { .magic = OL_SHM_MSG_MAGIC,
				  .proto = OL_SHM_MSG_PROTO,
				  .type = type & 15,
				  .capacity = CAPACITY,
				  .rkey = byte() & 3,
				  .access = OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE,
				  .bytes = SEGMENT_BYTES / 2 };
	size_t bytes;
	unsigned count;
	int fds[3] = { -1, -1, -1 };

	patch(&msg, offsetof(struct ol_shm_msg, priv));
	fd_kinds = (type & 0x80) != 0 ? byte() : kinds[type & 15];
	count = fd_kinds >> 4 & 3;
	for (unsigned i = 0; i < count; i++) {
		fds[i] = fd_make(i == 0 ? fd_kinds & 7 : 0);
		must(fds[i] >= 0);
	}
	bytes = ol_shm_msg_bytes(&msg);
	say(&msg, bytes < sizeof(msg) ? bytes : sizeof(msg), fds, count);
	while (count > 0)
		close(fds[--count]);
}

static void raw(void)
{
	size_t count = byte();

	if (count > fuzz.left)
		count = fuzz.left;
	if (count > 0)
		say(fuzz.at, count, NULL, 0);
	fuzz.at += count;
	fuzz.left -= count;
}

/* Take what the transport said; its rings are mapped */
static void hear(void)
{
	struct ol_shm_msg msg = { .magic = 0 };
	int fds[PACKET_TAKES_MAX] = { -1, -1 };
	unsigned count;

	if (fuzz.sock < 0 || packet_take(fuzz.sock, &msg, sizeof(msg), fds, &count) <= 0)
		return;
	must(msg.magic == OL_SHM_MSG_MAGIC);
	if (msg.type == OL_SHM_MSG_ACCEPT && fuzz.segment == NULL) {
		fuzz.segment_bytes = ol_shm_ring_bytes(CAPACITY) + ol_shm_ring_bytes(msg.capacity);
		fuzz.segment = mmap(NULL, fuzz.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
				    fds[0], 0);
		must(fuzz.segment != MAP_FAILED);
	}
	while (count > 0)
		close(fds[--count]);
}

/* A doorbell as it should be, in either ring, or any byte of them */
static void scribble(void)
{
	uint8_t how = byte();
	size_t off = byte() * sizeof(uint64_t);
	uint64_t word = (uint64_t)byte() << 32 | byte();

	if (fuzz.segment == NULL)
		return;
	if ((how & 1) != 0)
		off += fuzz.segment_bytes / 2;
	if (off + sizeof(word) > fuzz.segment_bytes)
		return;
	if ((how & 2) != 0)
		((uint8_t *)fuzz.segment)[off] = byte();
	else
		ol_word_store((_Atomic uint64_t *)(void *)((uint8_t *)fuzz.segment + off), word);
}

/* Where the transport calls */
static void peer_accept(void)
{
	if (fuzz.listener >= 0 && fuzz.sock < 0)
		fuzz.sock = accept4(fuzz.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void hang_up(void)
{
	if (fuzz.sock >= 0)
		close(fuzz.sock);
	fuzz.sock = -1;
}

/* ---- the program ---- */

static void region_drop(void)
{
	if (fuzz.region != NULL)
		X->dereg(fuzz.region);
	fuzz.region = NULL;
}

static void region_make(void)
{
	unsigned access = byte() & (OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE);

	region_drop();
	if (X->reg(fuzz.xport, NULL, fuzz.slab, 0, SEGMENT_BYTES, access, &fuzz.region) != 0)
		fuzz.region = NULL;
	else if (fuzz.conn != NULL)
		(void)X->rkey(fuzz.region, fuzz.conn);
}

static void on_event(const struct ol_xport_event *event)
{
	uint8_t how;

	switch (event->type) {
	case OL_XPORT_CONN_REQUEST:
		how = byte();
		must(event->priv_len <= OL_XPORT_PRIV_CONNECT_MAX);
		if (fuzz.conn != NULL || (how & 1) != 0) {
			X->reject(event->conn, "no", 2);
		} else {
			fuzz.conn = event->conn;
			(void)X->accept(event->conn, "yes", 3);
		}
		break;
	case OL_XPORT_CONN_UP:
		must(event->conn == fuzz.conn && !fuzz.up);
		fuzz.up = true;
		break;
	case OL_XPORT_DOORBELL_RUNG:
		must(event->conn == fuzz.conn && fuzz.up);
		break;
	case OL_XPORT_DONE:
		must(event->conn == fuzz.conn && event->cookie == 1);
		break;
	case OL_XPORT_CONN_DOWN:
		if (event->conn == fuzz.conn) {
			fuzz.conn = NULL;
			fuzz.up = false;
		}
		X->conn_free(event->conn);
		break;
	}
}

static void look(void)
{
	struct ol_xport_event events[EVENTS_MAX];
	int count;

	/* sockets are looked at now and then only, or at once behind arm() */
	(void)X->arm(fuzz.xport);
	count = X->poll(fuzz.xport, events, EVENTS_MAX);
	for (int i = 0; i < count; i++)
		on_event(&events[i]);
}

static void post(void)
{
	uint8_t how = byte();
	struct ol_xport_rkey key = { .rkey = byte() & 3, .bytes = SEGMENT_BYTES / 2 };
	struct ol_xport_write write = { .segs = { { .region = fuzz.region, .bytes = 16 } },
					.seg_count = fuzz.region != NULL,
					.flags = OL_XPORT_SIGNALED |
						 ((how & 2) != 0 ? OL_XPORT_DOORBELL : 0),
					.imm = 7,
					.dst = key,
					.dst_off = (uint64_t)byte() * 32,
					.cookie = 1 };
	struct ol_xport_read read = { .segs = { { .region = fuzz.region, .bytes = 16 } },
				      .seg_count = 1,
				      .flags = OL_XPORT_SIGNALED,
				      .src = key,
				      .src_off = write.dst_off,
				      .cookie = 1 };

	if (fuzz.conn == NULL || !fuzz.up)
		return;
	if ((how & 1) == 0)
		(void)X->post_write(fuzz.conn, &write);
	else if (fuzz.region != NULL)
		(void)X->post_read(fuzz.conn, &read);
}

static void drop(void)
{
	if (fuzz.conn == NULL)
		return;
	if ((byte() & 1) != 0) {
		X->disconnect(fuzz.conn);
		return;
	}
	X->conn_free(fuzz.conn);
	fuzz.conn = NULL;
	fuzz.up = false;
}

/* ---- both ---- */

static void begin(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(name);
	char addr[OL_XPORT_ADDR_MAX];
	struct ol_xport_opts opts;
	bool calls = (byte() & 1) != 0;
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	ol_xport_opts_init(&opts);
	opts.conns_max = 2;
	must(sock >= 0 && X->open(&opts, &fuzz.xport) == 0);
	must(ol_slab_create(SEGMENT_BYTES, OL_SLAB_NODE_ANY, false, &fuzz.slab) == 0);
	fuzz.segment_fd = sealed(SEGMENT_BYTES, true);
	fuzz.listener = fuzz.sock = -1;
	if (!calls) {
		must(X->listen(fuzz.xport, "@", addr) == 0);
		fuzz.sock = sock;
		memcpy(name.sun_path + 1, addr + 1, strlen(addr) - 1);
		bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(addr));
		must(connect(sock, (const struct sockaddr *)&name, bytes) == 0);
		return;
	}
	fuzz.listener = sock;
	must(bind(sock, (const struct sockaddr *)&name, sizeof(sa_family_t)) == 0 &&
	     listen(sock, 4) == 0 && getsockname(sock, (struct sockaddr *)&name, &bytes) == 0);
	bytes -= (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1;
	addr[0] = '@';
	memcpy(addr + 1, name.sun_path + 1, bytes);
	addr[1 + bytes] = '\0';
	must(X->connect(fuzz.xport, addr, "hi", 2, NULL, &fuzz.conn) == 0);
	/* the rings that the peer will hand over are its own */
	fuzz.segment_bytes = SEGMENT_BYTES;
	fuzz.segment =
		mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fuzz.segment_fd, 0);
	must(fuzz.segment != MAP_FAILED);
}

static void end(void)
{
	if (fuzz.conn != NULL)
		X->conn_free(fuzz.conn);
	region_drop();
	X->close(fuzz.xport);
	ol_slab_destroy(fuzz.slab);
	if (fuzz.segment != NULL)
		munmap(fuzz.segment, fuzz.segment_bytes);
	close(fuzz.segment_fd);
	hang_up();
	if (fuzz.listener >= 0)
		close(fuzz.listener);
}

static void step(void)
{
	static void (*const steps[])(void) = { look, message,     raw,         hear,    scribble,
					       post, region_make, region_drop, hang_up, drop };

	peer_accept();
	steps[byte() % (sizeof(steps) / sizeof(steps[0]))]();
}

/* The lowest descriptor that is free: as before, if none was kept */
static int lowest_fd(void)
{
	int fd = dup(STDERR_FILENO);

	must(fd >= 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	int lowest = lowest_fd();

	if (bytes > INPUT_MAX)
		return 0;
	memset(&fuzz, 0, sizeof(fuzz));
	fuzz.at = data;
	fuzz.left = bytes;
	begin();
	while (fuzz.left > 0)
		step();
	look();
	end();
	must(lowest_fd() == lowest);
	return 0;
}
