/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shm_wake_test.c -- between two processes: no wake-up is lost, a killed peer is noticed while
 * spinning and while asleep, and what it wrote before its end arrives
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "rdma/order.h"
#include "unit/rdma/shm_util.h"

enum {
	ROUNDS = 20000,
	MEETINGS = 20000,
	TIMEOUT_MS = WAIT_S * 1000,
	NOTICE_MS = 1000 /* far above the few ms it takes: the machine may be busy */
};

/* other -- runs child in a process of its own, with a's address to come; returns its pid */
static pid_t other(void (*child)(const char *addr), int *ret_pipe)
{
	char addr[OL_XPORT_ADDR_MAX];
	int pipes[2];
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody spinning */
		close(pipes[1]);
		if (read(pipes[0], addr, sizeof(addr)) != (ssize_t)sizeof(addr))
			_exit(9);
		close(pipes[0]);
		child(addr);
		_exit(0);
	}
	close(pipes[0]);
	*ret_pipe = pipes[1];
	return pid;
}

/* other_connected -- a listens and takes the other process in */
static void other_connected(struct end *a, int pipe_fd)
{
	end_open(a, NULL);
	end_listen(a);
	assert_int_equal(write(pipe_fd, a->addr, sizeof(a->addr)), (ssize_t)sizeof(a->addr));
	close(pipe_fd);
	a->conn = want(a, NULL, OL_XPORT_CONN_REQUEST).conn;
	assert_int_equal(X->accept(a->conn, NULL, 0), 0);
	want(a, NULL, OL_XPORT_CONN_UP);
}

/* In the other process a failed step ends it with a number that the test sees. */
static void must(bool ok, int number)
{
	if (!ok)
		_exit(number);
}

static void child_connect(struct end *b, const char *addr)
{
	struct ol_xport_opts opts;
	struct ol_xport_event event;

	ol_xport_opts_init(&opts);
	must(X->open(&opts, &b->xport) == 0, 2);
	must(X->connect(b->xport, addr, NULL, 0, NULL, &b->conn) == 0, 3);
	while (X->poll(b->xport, &event, 1) == 0)
		;
	must(event.type == OL_XPORT_CONN_UP, 4);
}

/*
 * sleep_next -- the next event, asleep while there is none, after spins polls. False: it was
 * asleep although there was an event, which a last look after the time has passed finds.
 */
static bool sleep_next(struct end *end, unsigned spins, struct ol_xport_event *ret_event)
{
	struct pollfd fd = { .fd = X->event_fd(end->xport), .events = POLLIN };

	for (;;) {
		if (X->poll(end->xport, ret_event, 1) > 0)
			return true;
		if (spins > 0) {
			spins--;
			continue;
		}
		if (X->arm(end->xport) == 0 && poll(&fd, 1, TIMEOUT_MS) <= 0)
			return false;
	}
}

/* dither -- polls before a sleep: around what a round trip takes, so that both meet at any point */
static unsigned dither(uint32_t round, uint32_t seed)
{
	return (round * 2654435761U ^ seed * 40503U) >> 8 & 127;
}

static void finished(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* The other side of a rally: it answers each doorbell, and sleeps sooner or later by the round. */
static void answer_child(const char *addr)
{
	struct ol_xport_event event;
	struct end b = { .xport = NULL };
	uint32_t i;

	child_connect(&b, addr);
	for (i = 0; i < ROUNDS; i++) {
		must(sleep_next(&b, dither(i, 1), &event), 5);
		must(event.type == OL_XPORT_DOORBELL_RUNG && event.imm == i, 6);
		must(bell(b.conn, ~i) == 0, 7);
	}
	must(sleep_next(&b, 0, &event) && event.type == OL_XPORT_CONN_DOWN, 8);
	X->close(b.xport);
}

static void no_wake_up_is_lost_in_a_rally_of_sleepers(void **state)
{
	struct ol_xport_event event;
	struct end a;
	uint32_t i;
	pid_t pid;
	int fd;

	(void)state;
	pid = other(answer_child, &fd);
	other_connected(&a, fd);
	for (i = 0; i < ROUNDS; i++) {
		assert_int_equal(bell(a.conn, i), 0);
		if (!sleep_next(&a, dither(i, 2), &event))
			fail_msg("round %u: asleep for ever", i);
		assert_int_equal(event.type, OL_XPORT_DOORBELL_RUNG);
		assert_int_equal(event.imm, ~i);
	}
	end_close(&a);
	finished(pid);
}

/* A stream with no answers: the consumer sleeps whenever it has caught up. */
static void stream_child(const char *addr)
{
	struct end b = { .xport = NULL };
	struct ol_xport_event event;
	uint32_t spin = 1;
	uint32_t i;
	uint32_t k;
	int rc;

	child_connect(&b, addr);
	for (i = 0; i < ROUNDS;) {
		rc = bell(b.conn, i);
		must(rc == 0 || rc == -EAGAIN, 5);
		i += rc == 0;
		spin = spin * 1664525 + 1013904223;
		for (k = 0; k < spin >> 22; k++) /* up to 1024 pauses: now and then it sleeps */
			ol_cpu_relax();
	}
	must(sleep_next(&b, 0, &event) && event.type == OL_XPORT_CONN_DOWN, 6);
	X->close(b.xport);
}

static void no_wake_up_is_lost_in_a_stream(void **state)
{
	struct ol_xport_event event;
	struct end a;
	uint32_t i;
	pid_t pid;
	int fd;

	(void)state;
	pid = other(stream_child, &fd);
	other_connected(&a, fd);
	for (i = 0; i < ROUNDS; i++) {
		if (!sleep_next(&a, i % 3, &event))
			fail_msg("doorbell %u: asleep for ever", i);
		assert_int_equal(event.type, OL_XPORT_DOORBELL_RUNG);
		assert_int_equal(event.imm, i);
	}
	end_close(&a);
	finished(pid);
}

/* Where both processes of the meeting wait for each other: arrivals so far. */
static _Atomic uint64_t *meeting;

static void meet(void)
{
	uint64_t target = (atomic_fetch_add(meeting, 1) / 2 + 1) * 2;
	unsigned spins = 0;

	while (atomic_load(meeting) < target) {
		ol_cpu_relax();
		if (++spins % 1024 == 0)
			sched_yield();
	}
}

static void meeting_child(const char *addr)
{
	struct end b = { .xport = NULL };
	struct ol_xport_event event;
	unsigned pauses;
	uint32_t i;

	child_connect(&b, addr);
	for (i = 0; i < MEETINGS; i++) {
		meet();
		for (pauses = dither(i, 3) / 16; pauses > 0; pauses--)
			ol_cpu_relax();
		must(bell(b.conn, i) == 0, 5);
		meet();
	}
	must(sleep_next(&b, 0, &event) && event.type == OL_XPORT_CONN_DOWN, 6);
	X->close(b.xport);
}

/* The two looks of ring.h's essay at the same moment: at least one must see the other's store. */
static void an_arm_that_meets_a_doorbell_does_not_miss_it(void **state)
{
	struct ol_xport_event event;
	struct pollfd pollfd;
	unsigned pauses;
	struct end a;
	uint32_t i;
	pid_t pid;
	int armed;
	int fd;

	(void)state;
	meeting = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(meeting != MAP_FAILED);
	pid = other(meeting_child, &fd);
	other_connected(&a, fd);
	pollfd = (struct pollfd){ .fd = X->event_fd(a.xport), .events = POLLIN };
	for (i = 0; i < MEETINGS; i++) {
		meet();
		/* the longer wait: this side is the first to leave the meeting */
		for (pauses = dither(i, 4) / 2; pauses > 0; pauses--)
			ol_cpu_relax();
		armed = X->arm(a.xport);
		meet();
		if (armed == 0 && poll(&pollfd, 1, 0) != 1)
			fail_msg("meeting %u: armed, rung, and not woken", i);
		assert_int_equal(want(&a, NULL, OL_XPORT_DOORBELL_RUNG).imm, i);
		while (poll(&pollfd, 1, 0) == 1) /* a wake-up nobody needed must not hide a miss */
			assert_int_equal(X->poll(a.xport, &event, 1), 0);
	}
	end_close(&a);
	finished(pid);
	munmap(meeting, 4096);
}

static void ring_and_hang_child(const char *addr)
{
	struct end b = { .xport = NULL };
	uint32_t i;

	child_connect(&b, addr);
	for (i = 0; i < 5; i++)
		must(bell(b.conn, i) == 0, 5);
	for (;;)
		pause();
}

/* killed -- after the fifth doorbell is rung: a peer that is killed, as seen by spinning or
 * asleep */
static void killed(bool asleep)
{
	struct pollfd pollfd;
	struct ol_xport_event event;
	struct end a;
	uint64_t from_ms;
	uint32_t i;
	int status;
	pid_t pid;
	int fd;

	pid = other(ring_and_hang_child, &fd);
	other_connected(&a, fd);
	assert_int_equal(want(&a, NULL, OL_XPORT_DOORBELL_RUNG).imm, 0);
	pollfd = (struct pollfd){ .fd = X->event_fd(a.xport), .events = POLLIN };
	for (i = 1; i < 5; i++)
		assert_int_equal(want(&a, NULL, OL_XPORT_DOORBELL_RUNG).imm, i);
	drained(&a);
	if (asleep)
		assert_int_equal(X->arm(a.xport), 0);
	from_ms = test_now_ms();
	assert_int_equal(kill(pid, SIGKILL), 0);
	if (asleep)
		assert_int_equal(poll(&pollfd, 1, TIMEOUT_MS), 1);
	event = want(&a, NULL, OL_XPORT_CONN_DOWN);
	assert_int_equal(event.status, 0);
	assert_true(test_now_ms() - from_ms < NOTICE_MS);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(bell(a.conn, 1), -ENOTCONN);
	drained(&a);
	end_close(&a);
}

static void a_killed_peer_is_noticed_while_spinning(void **state)
{
	(void)state;
	killed(false);
}

static void a_killed_peer_is_noticed_while_asleep(void **state)
{
	(void)state;
	killed(true);
}

static void what_a_killed_peer_rang_arrives_before_its_end(void **state)
{
	struct end a;
	uint32_t i;
	int status;
	pid_t pid;
	int fd;

	(void)state;
	pid = other(ring_and_hang_child, &fd);
	other_connected(&a, fd);
	assert_int_equal(want(&a, NULL, OL_XPORT_DOORBELL_RUNG).imm, 0);
	for (i = 1; i < 2; i++)
		assert_int_equal(want(&a, NULL, OL_XPORT_DOORBELL_RUNG).imm, i);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	for (; i < 5; i++) {
		struct ol_xport_event event = next(&a, NULL);

		if (event.type == OL_XPORT_CONN_DOWN) /* killed between two of them */
			break;
		assert_int_equal(event.type, OL_XPORT_DOORBELL_RUNG);
		assert_int_equal(event.imm, i);
	}
	if (i == 5)
		want(&a, NULL, OL_XPORT_CONN_DOWN);
	drained(&a);
	end_close(&a);
}

/* The other process's region, whose key comes as its hello; written to, then the process hangs. */
static void lend_child(const char *addr)
{
	struct end b = { .xport = NULL };
	struct ol_xport_region *region;
	struct ol_xport_event event;
	struct ol_xport_opts opts;
	struct ol_xport_rkey key;
	struct ol_slab *slab;

	ol_xport_opts_init(&opts);
	must(X->open(&opts, &b.xport) == 0, 2);
	must(ol_slab_create(8192, OL_SLAB_NODE_ANY, false, &slab) == 0, 3);
	must(X->reg(b.xport, NULL, slab, 0, 8192, RW, &region) == 0, 4);
	memset(slab->addr, 0x77, 8192);
	key = X->rkey(region, NULL);
	must(X->connect(b.xport, addr, &key, sizeof(key), NULL, &b.conn) == 0, 5);
	while (X->poll(b.xport, &event, 1) == 0)
		;
	must(event.type == OL_XPORT_CONN_UP, 6);
	for (;;)
		pause();
}

static void mapped_memory_of_a_killed_peer_stays(void **state)
{
	struct ol_xport_event event;
	struct ol_xport_rkey key;
	struct end a;
	uint8_t *at;
	int status;
	pid_t pid;
	int fd;
	int i;

	(void)state;
	at = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(at != MAP_FAILED);
	pid = other(lend_child, &fd);
	end_open(&a, NULL);
	end_listen(&a);
	assert_int_equal(write(fd, a.addr, sizeof(a.addr)), (ssize_t)sizeof(a.addr));
	close(fd);
	event = want(&a, NULL, OL_XPORT_CONN_REQUEST);
	memcpy(&key, event.priv, sizeof(key));
	assert_int_equal(X->accept(event.conn, NULL, 0), 0);
	want(&a, NULL, OL_XPORT_CONN_UP);
	assert_int_equal(X->map(event.conn, key, 0, 8192, at), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* Posts to its memory are harmless until its end is noticed. */
	(void)put(event.conn, key, 0, "late", 4);
	do {
		event = next(&a, NULL);
	} while (event.type == OL_XPORT_DONE);
	assert_int_equal(event.type, OL_XPORT_CONN_DOWN);
	X->conn_free(event.conn);
	end_close(&a);
	for (i = 4; i < 8192; i++)
		assert_int_equal(at[i], 0x77);
	at[0] = 1;
	munmap(at, 8192);
}

static void timers_wake_a_sleeper(void **state)
{
	struct ol_xport_opts opts;
	struct ol_xport_event event;
	char addr[OL_XPORT_ADDR_MAX];
	struct end b;
	int listener = raw_listen(addr);

	(void)state;
	ol_xport_opts_init(&opts);
	opts.connect_timeout_ms = 30;
	end_open(&b, &opts);
	assert_int_equal(X->connect(b.xport, addr, NULL, 0, NULL, &b.conn), 0);
	assert_true(sleep_next(&b, 0, &event));
	assert_int_equal(event.type, OL_XPORT_CONN_DOWN);
	assert_int_equal(event.status, -ETIMEDOUT);
	end_close(&b);
	close(listener);
}

static void what_the_armed_side_does_itself_wakes_it_too(void **state)
{
	struct pollfd pollfd;
	struct mem mem;
	struct end a;
	struct end b;

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&mem, &a, NULL, 4096, RW);
	drained(&b);
	pollfd = (struct pollfd){ .fd = X->event_fd(b.xport), .events = POLLIN };
	assert_int_equal(X->arm(b.xport), 0);
	assert_int_equal(poll(&pollfd, 1, 0), 0);
	assert_int_equal(put(b.conn, mem.key, 0, "x", 1), 0);
	assert_int_equal(poll(&pollfd, 1, TIMEOUT_MS), 1);
	want(&b, NULL, OL_XPORT_DONE);
	drained(&b);
	assert_int_equal(X->arm(b.xport), 0);
	X->disconnect(b.conn);
	assert_int_equal(poll(&pollfd, 1, TIMEOUT_MS), 1);
	want(&b, NULL, OL_XPORT_CONN_DOWN);
	mem_close(&mem);
	pair_close(&a, &b);
}

static void arm_says_when_there_is_something_already(void **state)
{
	struct end a;
	struct end b;

	(void)state;
	pair_open(&a, &b, NULL);
	drained(&a);
	assert_int_equal(X->arm(a.xport), 0);
	assert_int_equal(X->arm(a.xport), 0);
	drained(&a);
	assert_int_equal(bell(b.conn, 1), 0);
	assert_int_equal(X->arm(a.xport), 1);
	want(&a, NULL, OL_XPORT_DOORBELL_RUNG);
	assert_int_equal(X->arm(a.xport), 0);
	pair_close(&a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_wake_up_is_lost_in_a_rally_of_sleepers),
		cmocka_unit_test(no_wake_up_is_lost_in_a_stream),
		cmocka_unit_test(an_arm_that_meets_a_doorbell_does_not_miss_it),
		cmocka_unit_test(a_killed_peer_is_noticed_while_spinning),
		cmocka_unit_test(a_killed_peer_is_noticed_while_asleep),
		cmocka_unit_test(what_a_killed_peer_rang_arrives_before_its_end),
		cmocka_unit_test(mapped_memory_of_a_killed_peer_stays),
		cmocka_unit_test(timers_wake_a_sleeper),
		cmocka_unit_test(what_the_armed_side_does_itself_wakes_it_too),
		cmocka_unit_test(arm_says_when_there_is_something_already),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
