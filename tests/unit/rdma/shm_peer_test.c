/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shm_peer_test.c -- a peer that breaks the rules on purpose, at any step, ends its own connection
 * and nothing else
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "rdma/shm/ring.h"
#include "rdma/shm/shm.h"
#include "unit/rdma/shm_util.h"

enum {
	CAPACITY = 64
};

/* memfd -- a sealed memfd, or one that its maker can still shrink */
static int memfd(size_t bytes, bool sealed)
{
	int fd = memfd_create("outlast-test", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	if (sealed)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

static struct ol_shm_msg hello_msg(void)
{
	struct ol_shm_msg hello = raw_msg(OL_SHM_MSG_HELLO);

	hello.capacity = CAPACITY;
	return hello;
}

/* told -- true if end has logged so many warnings in all; the next ones have a new second */
static bool told(struct end *end, size_t warns)
{
	memset(ol_shm_xport(end->xport)->rare, 0, sizeof(struct ol_xport_rate[OL_SHM_RARES]));
	return end->warns == warns;
}

/* hello -- a good one on sock */
static void hello(int sock)
{
	struct ol_shm_msg msg = hello_msg();

	raw_say(sock, &msg, NULL, 0);
}

/* dropped -- end ends the socket without an event; then serves an honest peer all the same */
static void dropped(struct end *a, int sock)
{
	struct ol_shm_msg msg;
	struct end b;
	int fds[2];

	assert_false(raw_hear(sock, a, &msg, fds));
	close(sock);
	drained(a);
	end_open(&b, NULL);
	join(a, &b);
	end_close(&b);
	want(a, NULL, OL_XPORT_CONN_DOWN);
	X->conn_free(a->conn);
}

static void a_first_message_that_is_no_hello_drops_its_peer_with_a_word(void **state)
{
	struct ol_shm_msg bad[6];
	uint8_t garbage[512];
	struct end a;
	unsigned fds;
	unsigned warns = 0;
	size_t i;
	int sock;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	fds = fds_count();
	memset(garbage, 0xee, sizeof(garbage));
	for (i = 1; i <= sizeof(garbage); i *= 2) {
		sock = raw_socket(a.addr);
		raw_send(sock, garbage, i, NULL, 0);
		dropped(&a, sock);
		assert_true(told(&a, ++warns));
	}
	for (i = 0; i < 6; i++)
		bad[i] = hello_msg();
	bad[0].magic++;
	bad[1].proto++;
	bad[2].type = OL_SHM_MSG_CONFIRM;
	bad[3].capacity = 0;
	bad[4].capacity = 48; /* no power of two */
	bad[5].capacity = 1U << 31;
	for (i = 0; i < 6; i++) {
		sock = raw_socket(a.addr);
		raw_say(sock, &bad[i], NULL, 0);
		dropped(&a, sock);
		assert_true(told(&a, ++warns));
	}
	assert_int_equal(fds_count(), fds);
	end_close(&a);
}

static void an_oversize_or_short_hello_drops_its_peer(void **state)
{
	struct ol_shm_msg msg = hello_msg();
	struct end a;
	int sock;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);

	sock = raw_socket(a.addr); /* private data longer than a connect may carry */
	msg.priv_len = OL_XPORT_PRIV_CONNECT_MAX + 1;
	raw_say(sock, &msg, NULL, 0);
	dropped(&a, sock);
	assert_true(told(&a, 1));

	sock = raw_socket(a.addr); /* longer than it says */
	msg.priv_len = 0;
	raw_send(sock, &msg, ol_shm_msg_bytes(&msg) + 1, NULL, 0);
	dropped(&a, sock);
	assert_true(told(&a, 2));

	sock = raw_socket(a.addr); /* shorter than it says */
	msg.priv_len = 8;
	raw_send(sock, &msg, ol_shm_msg_bytes(&msg) - 1, NULL, 0);
	dropped(&a, sock);
	assert_true(told(&a, 3));

	sock = raw_socket(a.addr); /* a length that wraps */
	msg.priv_len = UINT32_MAX;
	raw_send(sock, &msg, 52, NULL, 0);
	dropped(&a, sock);
	assert_true(told(&a, 4));
	end_close(&a);
}

/* A hello has none. */
static void wrong_descriptors_drop_their_peer_and_are_closed(void **state)
{
	struct ol_shm_msg msg = hello_msg();
	int many[8];
	int pipes[2];
	struct end a;
	unsigned fds;
	int sock;
	int i;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	for (i = 0; i < 8; i++)
		many[i] = pipes[i % 2];
	end_open(&a, NULL);
	end_listen(&a);
	fds = fds_count();
	for (i = 1; i <= 8; i++) {
		sock = raw_socket(a.addr);
		raw_say(sock, &msg, many, (unsigned)i);
		dropped(&a, sock);
	}
	assert_int_equal(fds_count(), fds);
	close(pipes[0]);
	close(pipes[1]);
	end_close(&a);
}

static void silent_peers_are_dropped_in_time_and_keep_nobody_out(void **state)
{
	struct ol_xport_opts opts;
	struct ol_shm_msg msg;
	struct end a;
	struct end b;
	int socks[100];
	int fds[2];
	unsigned before;
	size_t i;

	(void)state;
	ol_xport_opts_init(&opts);
	opts.connect_timeout_ms = 200;
	opts.conns_max = 1;
	end_open(&a, &opts);
	end_listen(&a);
	before = fds_count();
	for (i = 0; i < 100; i++) {
		socks[i] = raw_socket(a.addr);
		drained(&a);
	}
	end_open(&b, NULL);
	join(&a, &b);
	for (i = 0; i < 100; i++) {
		while (raw_hear(socks[i], &a, &msg, fds))
			fail_msg("the transport speaks first");
		close(socks[i]);
	}
	assert_non_null(strstr(a.last, "sent nothing"));
	end_close(&b);
	want(&a, NULL, OL_XPORT_CONN_DOWN);
	X->conn_free(a.conn);
	assert_int_equal(fds_count(), before);
	end_close(&a);
}

/* raw_up -- a lying peer, accepted and confirmed: its socket and the control segment */
static int raw_up(struct end *a, uint8_t **ret_ctrl)
{
	struct ol_shm_msg msg;
	int sock = raw_socket(a->addr);
	int fds[2];
	size_t bytes = 2 * ol_shm_ring_bytes(CAPACITY);
	void *ctrl;

	hello(sock);
	a->conn = want(a, NULL, OL_XPORT_CONN_REQUEST).conn;
	assert_int_equal(X->accept(a->conn, NULL, 0), 0);
	do {
		assert_true(raw_hear(sock, a, &msg, fds));
		if (msg.type == OL_SHM_MSG_REGION)
			close(fds[0]);
	} while (msg.type != OL_SHM_MSG_ACCEPT);
	ctrl = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	assert_true(ctrl != MAP_FAILED);
	close(fds[0]);
	msg = raw_msg(OL_SHM_MSG_CONFIRM);
	raw_say(sock, &msg, NULL, 0);
	want(a, NULL, OL_XPORT_CONN_UP);
	*ret_ctrl = ctrl;
	return sock;
}

static void raw_over(struct end *a, int sock, uint8_t *ctrl)
{
	X->conn_free(a->conn);
	munmap(ctrl, 2 * ol_shm_ring_bytes(CAPACITY));
	close(sock);
}

static void an_impossible_doorbell_ends_the_connection(void **state)
{
	const uint32_t lies[] = { 0, 2, CAPACITY + 1, UINT32_MAX };
	struct ol_shm_msg msg;
	struct ol_shm_ring *ring;
	struct end a;
	uint8_t *ctrl;
	int fds[2];
	int sock;
	size_t i;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		sock = raw_up(&a, &ctrl);
		ring = (void *)ctrl; /* the one that the acceptor consumes */
		ol_word_store(&ring->words[0], (uint64_t)lies[i] << 32);
		assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
		assert_true(raw_hear(sock, &a, &msg, fds));
		assert_int_equal(msg.type, OL_SHM_MSG_BYE);
		assert_int_equal(msg.status, -EACCES);
		raw_over(&a, sock, ctrl);
		assert_true(told(&a, i + 1));
	}
	end_close(&a);
}

static void a_jump_of_the_consumers_index_ends_the_connection(void **state)
{
	struct ol_shm_ring *ring;
	struct end a;
	uint8_t *ctrl;
	int sock;
	int i;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	sock = raw_up(&a, &ctrl);
	ring = (void *)(ctrl + ol_shm_ring_bytes(CAPACITY));
	for (i = 0; i < CAPACITY; i++)
		assert_int_equal(bell(a.conn, 1), 0);
	assert_int_equal(bell(a.conn, 1), -EAGAIN);
	ol_word32_store(&ring->tail, CAPACITY + 1);
	assert_int_equal(bell(a.conn, 1), -ENOTCONN);
	assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
	raw_over(&a, sock, ctrl);
	end_close(&a);
}

static void a_peer_that_never_stops_ringing_cannot_hold_off_the_end(void **state)
{
	struct ol_xport_event event;
	struct ol_shm_ring *ring;
	uint32_t number = 0;
	uint32_t rung = 0;
	struct end a;
	uint8_t *ctrl;
	int sock;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	sock = raw_up(&a, &ctrl);
	ring = (void *)ctrl;
	X->disconnect(a.conn);
	do {
		number++;
		ol_word_store(&ring->words[(number - 1) % CAPACITY], (uint64_t)number << 32);
		event = next(&a, NULL);
		rung += event.type == OL_XPORT_DOORBELL_RUNG;
	} while (event.type == OL_XPORT_DOORBELL_RUNG);
	assert_int_equal(event.type, OL_XPORT_CONN_DOWN);
	assert_int_equal(rung, CAPACITY);
	ol_word_store(&ring->words[number % CAPACITY], (uint64_t)(number + 1) << 32);
	drained(&a);
	raw_over(&a, sock, ctrl);
	end_close(&a);
}

static void a_peer_that_is_gone_cannot_wake_us(void **state)
{
	struct ol_shm_msg wake = raw_msg(OL_SHM_MSG_WAKE);
	struct pollfd pollfd;
	struct end a;
	uint8_t *ctrl;
	int sock;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	sock = raw_up(&a, &ctrl);
	pollfd = (struct pollfd){ .fd = X->event_fd(a.xport), .events = POLLIN };
	drained(&a);
	assert_int_equal(X->arm(a.xport), 0);
	assert_int_equal(poll(&pollfd, 1, 0), 0);
	raw_say(sock, &wake, NULL, 0);
	assert_int_equal(poll(&pollfd, 1, 0), 1);
	drained(&a); /* it was one */
	assert_int_equal(X->arm(a.xport), 0);
	assert_int_equal(poll(&pollfd, 1, 0), 0);
	raw_over(&a, sock, ctrl);
	drained(&a);
	assert_int_equal(X->arm(a.xport), 0);
	assert_int_equal(poll(&pollfd, 1, 0), 0);
	end_close(&a);
}

/* It sleeps for ever, by its own account, and reads nothing: each doorbell is a wake that its socket
 * has no room for. No post waits, and none fails for it. */
static void a_peer_that_does_not_read_its_wakes_holds_nobody_up(void **state)
{
	struct ol_shm_ring *ring;
	uint32_t sleep = 0;
	struct end a;
	uint8_t *ctrl;
	int sock;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	sock = raw_up(&a, &ctrl);
	ring = (void *)(ctrl + ol_shm_ring_bytes(CAPACITY)); /* it consumes the second */
	for (uint32_t i = 0; i < 20000; i++) {
		ol_word32_store(&ring->asleep, ++sleep);
		ol_word32_store(&ring->tail, i); /* it has taken what was rung */
		assert_int_equal(bell(a.conn, i), 0);
	}
	drained(&a);
	raw_over(&a, sock, ctrl);
	end_close(&a);
}

/* region_msg -- an announcement of bytes at fd_off */
static struct ol_shm_msg region_msg(uint32_t rkey, uint64_t fd_off, uint64_t bytes)
{
	struct ol_shm_msg msg = raw_msg(OL_SHM_MSG_REGION);

	msg.rkey = rkey;
	msg.fd_off = fd_off;
	msg.bytes = bytes;
	msg.access = RW;
	return msg;
}

static void announcements_that_could_harm_us_end_the_connection(void **state)
{
	const struct {
		const char *name;
		struct ol_shm_msg msg;
		bool sealed;
	} all[] = {
		{ "memory that can shrink under us", region_msg(1, 0, 4096), false },
		{ "more than there is", region_msg(1, 0, 4097), true },
		{ "behind the end", region_msg(1, 4096, 1), true },
		{ "an offset that wraps", region_msg(1, UINT64_MAX - 4095, 4096), true },
		{ "nothing", region_msg(1, 0, 0), true },
		{ "key 0", region_msg(0, 0, 4096), true },
	};
	struct ol_shm_msg msg;
	struct end a;
	uint8_t *ctrl;
	unsigned fds;
	size_t i;
	int sock;
	int fd;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	fds = fds_count();
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		sock = raw_up(&a, &ctrl);
		fd = memfd(4096, all[i].sealed);
		raw_say(sock, &all[i].msg, &fd, 1);
		close(fd);
		assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
		raw_over(&a, sock, ctrl);
		assert_true(told(&a, i + 1));
	}
	sock = raw_up(&a, &ctrl); /* the same key twice */
	fd = memfd(4096, true);
	msg = region_msg(7, 0, 4096);
	raw_say(sock, &msg, &fd, 1);
	raw_say(sock, &msg, &fd, 1);
	close(fd);
	assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
	raw_over(&a, sock, ctrl);
	sock = raw_up(&a, &ctrl); /* a pipe instead of memory */
	fd = eventfd(0, EFD_NONBLOCK);
	raw_say(sock, &msg, &fd, 1);
	close(fd);
	assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
	raw_over(&a, sock, ctrl);
	assert_int_equal(fds_count(), fds);
	end_close(&a);
}

/* A peer may take its pages away under us, and there may be no others */
static void memory_on_reserved_huge_pages_is_not_mapped(void **state)
{
	struct ol_shm_msg msg = region_msg(7, 0, 4096);
	struct end a;
	uint8_t *ctrl;
	int sock;
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

	(void)state;
	if (fd < 0) {
		print_message("skip: this kernel has no hugetlbfs\n");
		return;
	}
	assert_int_equal(ftruncate(fd, 1 << 30), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	end_open(&a, NULL);
	end_listen(&a);
	sock = raw_up(&a, &ctrl);
	raw_say(sock, &msg, &fd, 1);
	close(fd);
	assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
	raw_over(&a, sock, ctrl);
	end_close(&a);
}

/* Tiny or sparse, they would take every descriptor, or long to map with all their pages. */
static void a_peer_that_connects_announces_few_regions(void **state)
{
	const uint64_t sparse = UINT64_C(1) << 40;
	struct ol_shm_msg msg;
	struct end a;
	uint8_t *ctrl;
	unsigned fds;
	int sock;
	int fd;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	fds = fds_count();
	sock = raw_up(&a, &ctrl);
	fd = memfd(sparse, true);
	for (uint32_t rkey = 1; rkey <= OL_SHM_CALLER_REGIONS_MAX; rkey++) {
		msg = region_msg(rkey, 0, rkey % 2 == 0 ? sparse : 64);
		raw_say(sock, &msg, &fd, 1);
		drained(&a);
	}
	msg.rkey++;
	raw_say(sock, &msg, &fd, 1);
	assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
	close(fd);
	raw_over(&a, sock, ctrl);
	assert_int_equal(fds_count(), fds);
	end_close(&a);
}

static void messages_out_of_turn_end_the_connection(void **state)
{
	struct end a;
	uint8_t *ctrl;
	struct ol_shm_msg msg;
	unsigned type;
	unsigned fds;
	int sock;
	int fd;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	fds = fds_count();
	for (type = 0; type <= OL_SHM_MSG_TYPES; type++) {
		if (type == OL_SHM_MSG_REGION || type == OL_SHM_MSG_UNREGION ||
		    type == OL_SHM_MSG_BYE || type == OL_SHM_MSG_WAKE)
			continue;
		sock = raw_up(&a, &ctrl);
		msg = raw_msg((enum ol_shm_msg_type)type);
		msg.capacity = CAPACITY;
		fd = memfd(4096, true);
		raw_say(sock, &msg, &fd, type == OL_SHM_MSG_ACCEPT);
		close(fd);
		assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
		raw_over(&a, sock, ctrl);
	}
	assert_int_equal(fds_count(), fds);
	end_close(&a);
}

static void a_request_that_speaks_before_its_answer_goes_down(void **state)
{
	struct ol_shm_msg msg = raw_msg(OL_SHM_MSG_CONFIRM);
	struct end a;
	int sock;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	sock = raw_socket(a.addr);
	hello(sock);
	a.conn = want(&a, NULL, OL_XPORT_CONN_REQUEST).conn;
	raw_say(sock, &msg, NULL, 0);
	assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
	X->reject(a.conn, NULL, 0);
	close(sock);
	end_close(&a);
}

static void an_accepted_peer_that_never_confirms_is_dropped_in_time(void **state)
{
	struct ol_xport_opts opts;
	struct end a;
	int sock;

	(void)state;
	ol_xport_opts_init(&opts);
	opts.connect_timeout_ms = 50;
	end_open(&a, &opts);
	end_listen(&a);
	sock = raw_socket(a.addr);
	hello(sock);
	a.conn = want(&a, NULL, OL_XPORT_CONN_REQUEST).conn;
	assert_int_equal(X->accept(a.conn, NULL, 0), 0);
	assert_int_equal(X->accept(a.conn, NULL, 0), -EINVAL);
	assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, -ETIMEDOUT);
	close(sock);
	end_close(&a);
}

static void an_acceptor_that_lies_is_left(void **state)
{
	const struct {
		const char *name;
		uint32_t capacity;
		size_t bytes;
		bool sealed;
	} all[] = {
		{ "a segment that can shrink", CAPACITY, 1 << 20, false },
		{ "a segment too small", CAPACITY, 1024, true },
		{ "a capacity beyond all", 1U << 30, 1 << 20, true },
		{ "a capacity of none", 0, 1 << 20, true },
	};
	struct ol_shm_msg msg;
	char addr[OL_XPORT_ADDR_MAX];
	struct end b;
	int listener = raw_listen(addr);
	unsigned fds;
	int got[2];
	size_t i;
	int sock;
	int fd;

	(void)state;
	end_open(&b, NULL);
	fds = fds_count();
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_int_equal(X->connect(b.xport, addr, NULL, 0, NULL, &b.conn), 0);
		sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		assert_true(sock >= 0);
		assert_true(raw_hear(sock, &b, &msg, got));
		assert_int_equal(msg.type, OL_SHM_MSG_HELLO);
		msg = raw_msg(OL_SHM_MSG_ACCEPT);
		msg.capacity = all[i].capacity;
		fd = memfd(all[i].bytes, all[i].sealed);
		raw_say(sock, &msg, &fd, 1);
		close(fd);
		assert_int_equal(want(&b, NULL, OL_XPORT_CONN_DOWN).status, -EACCES);
		X->conn_free(b.conn);
		close(sock);
	}
	assert_int_equal(fds_count(), fds);
	close(listener);
	end_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_first_message_that_is_no_hello_drops_its_peer_with_a_word),
		cmocka_unit_test(an_oversize_or_short_hello_drops_its_peer),
		cmocka_unit_test(wrong_descriptors_drop_their_peer_and_are_closed),
		cmocka_unit_test(silent_peers_are_dropped_in_time_and_keep_nobody_out),
		cmocka_unit_test(an_impossible_doorbell_ends_the_connection),
		cmocka_unit_test(a_jump_of_the_consumers_index_ends_the_connection),
		cmocka_unit_test(a_peer_that_never_stops_ringing_cannot_hold_off_the_end),
		cmocka_unit_test(a_peer_that_is_gone_cannot_wake_us),
		cmocka_unit_test(a_peer_that_does_not_read_its_wakes_holds_nobody_up),
		cmocka_unit_test(announcements_that_could_harm_us_end_the_connection),
		cmocka_unit_test(memory_on_reserved_huge_pages_is_not_mapped),
		cmocka_unit_test(a_peer_that_connects_announces_few_regions),
		cmocka_unit_test(messages_out_of_turn_end_the_connection),
		cmocka_unit_test(a_request_that_speaks_before_its_answer_goes_down),
		cmocka_unit_test(an_accepted_peer_that_never_confirms_is_dropped_in_time),
		cmocka_unit_test(an_acceptor_that_lies_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
