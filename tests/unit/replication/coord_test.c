/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_test.c -- clients of a real coordinator see each other come and go, one of several
 * proposals wins, and a coordinator that comes back empty is told what it held
 *
 * Every test runs over a Unix socket and over TCP. Processes that are to be stopped or killed are
 * forked before there is any thread.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "replication/coord/coord_internal.h"
#include "unit/replication/coord_util.h"

enum {
	RACERS = 5,
	RACES = 40,
	CHILDREN = 4,
	CHILD_ID = 900,
	SHORT_LEASE_MS = 300, /* whether it ends early does not matter */
	RENEWED_LEASE_MS = 1500,
};

struct child {
	pid_t pid;
	int order; /* write: lease and address; closed: go away */
	int report; /* read: one byte when it has joined */
};

static struct child children[CHILDREN];
static unsigned children_used;

struct order {
	uint32_t lease_ms;
	char addr[OL_ENDPOINT_MAX + 160];
};

_Noreturn static void child_main(int order_fd, int report_fd)
{
	struct ol_member me = server_make(CHILD_ID);
	struct order order;
	struct guest guest;
	struct ol_coord_opts opts;
	struct ol_coord_state state;
	char byte = 1;

	if (read(order_fd, &order, sizeof(order)) != sizeof(order))
		_exit(0);
	opts = guest_opts(&guest, order.addr);
	opts.lease_ms = order.lease_ms;
	guest_enter(&guest, &opts);
	check_ok(ol_coord_join(guest.coord, 0, &me));
	guest_wait(&guest, 0, has_member, CHILD_ID, "the child's own member", &state);
	check(write(report_fd, &byte, 1) == 1);
	check(read(order_fd, &byte, 1) == 0);
	_exit(0);
}

static void children_start(void)
{
	for (unsigned i = 0; i < CHILDREN; i++) {
		int order[2], report[2];

		check_ok(pipe(order));
		check_ok(pipe(report));
		children[i].pid = fork();
		check(children[i].pid >= 0);
		if (children[i].pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(order[1]);
			close(report[0]);
			child_main(order[0], report[1]);
		}
		close(order[0]);
		close(report[1]);
		children[i].order = order[1];
		children[i].report = report[0];
	}
}

static struct child *child_use(const char *addr, uint32_t lease_ms)
{
	struct child *child = &children[children_used++];
	struct order order = { .lease_ms = lease_ms };
	char byte;

	assert_true(children_used <= CHILDREN);
	snprintf(order.addr, sizeof(order.addr), "%s", addr);
	assert_int_equal(write(child->order, &order, sizeof(order)), sizeof(order));
	assert_int_equal(read(child->report, &byte, 1), 1);
	return child;
}

static void child_kill(const struct child *child)
{
	assert_int_equal(kill(child->pid, SIGKILL), 0);
	assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
}

/* house_start -- at a place of the kind that a test is run for */
static void house_start(struct house *house, void **state, char *secret)
{
	char listen[64];

	if (strcmp(*state, "unix") == 0)
		snprintf(listen, sizeof(listen), "@ol-coord-test-%d", (int)getpid());
	else
		snprintf(listen, sizeof(listen), "127.0.0.1:0");
	house_open(house, listen, secret);
}

static void test_members_come_and_go(void **state)
{
	struct house house;
	struct guest a, b;
	struct ol_coord_state seen;
	struct ol_member one = server_make(1), two = server_make(2), bad = server_make(3);
	uint64_t generation;

	house_start(&house, state, NULL);
	guest_open(&a, house.addr);
	guest_open(&b, house.addr);
	ol_coord_look(b.coord, 0, &seen);
	assert_true(seen.connected);
	assert_int_equal(seen.version, 0);
	assert_int_equal(seen.member_count, 0);
	assert_true(seen.lease_ns > ol_coord_now_ns());
	generation = ol_coord_generation(b.coord);

	bad.addr[0] = ' ';
	assert_int_equal(ol_coord_join(a.coord, 0, &bad), -EINVAL);
	assert_int_equal(ol_coord_join(a.coord, 2, &one), -EINVAL);
	assert_int_equal(ol_coord_join(a.coord, 1, &one), 0);
	assert_int_equal(ol_coord_join(a.coord, 1, &two), -EBUSY);
	guest_wait(&b, 1, has_member, 1, "a member", &seen);
	assert_memory_equal(&seen.members[0], &one, sizeof(one));
	assert_true(ol_coord_generation(b.coord) > generation);
	ol_coord_look(b.coord, 0, &seen);
	assert_int_equal(seen.member_count, 0);
	ol_coord_look(b.coord, 2, &seen);
	assert_false(seen.connected);

	assert_int_equal(ol_coord_join(b.coord, 1, &two), 0);
	guest_wait(&a, 1, has_member, 2, "the other member", &seen);
	guest_close(&a);
	guest_wait(&b, 1, lacks_member, 1, "a member leaves", &seen);
	assert_true(has_member(&seen, 2));
	guest_close(&b);
	house_close(&house);
}

static void test_jobs_are_apart(void **state)
{
	struct house house;
	struct guest a, b;
	struct ol_coord_opts opts;
	struct ol_coord_state seen;
	struct ol_member one = server_make(1), two = server_make(2);

	house_start(&house, state, NULL);
	guest_open(&a, house.addr);
	opts = guest_opts(&b, house.addr);
	opts.job = "another-job";
	guest_enter(&b, &opts);
	assert_int_equal(ol_coord_join(a.coord, 0, &one), 0);
	guest_wait(&a, 0, has_member, 1, "a member", &seen);
	assert_int_equal(ol_coord_join(b.coord, 0, &two), 0);
	guest_wait(&b, 0, has_member, 2, "a member", &seen);
	assert_int_equal(seen.member_count, 1);
	guest_close(&b);
	guest_close(&a);
	house_close(&house);
}

static void test_exactly_one_proposal_wins(void **state)
{
	struct house house;
	struct guest guests[RACERS];
	struct ol_coord_state seen[RACERS];

	house_start(&house, state, NULL);
	for (unsigned i = 0; i < RACERS; i++)
		guest_open(&guests[i], house.addr);
	memset(seen, 0, sizeof(seen));
	for (uint32_t race = 1; race <= RACES; race++) {
		for (unsigned i = 0; i < RACERS; i++) {
			struct ol_view view = view_make(race, i + 1, 0);

			ol_coord_propose(guests[i].coord, 1, seen[i].version, &view);
		}
		for (unsigned i = 0; i < RACERS; i++) {
			guest_wait(&guests[i], 1, has_epoch, race, "a view", &seen[i]);
			assert_true(seen[i].version != 0);
			assert_int_equal(seen[i].version, seen[0].version);
			assert_memory_equal(&seen[i].view, &seen[0].view, sizeof(seen[0].view));
		}
	}
	for (unsigned i = 0; i < RACERS; i++)
		guest_close(&guests[i]);
	assert_int_equal(atomic_load(&house.views), RACES);
	house_close(&house);
}

struct counted {
	struct ol_coord *coord;
	uint64_t generation;
};

static bool later_than(const struct ol_coord_state *state, uint64_t arg)
{
	const struct counted *counted = (const struct counted *)(uintptr_t)arg;

	(void)state;
	return ol_coord_generation(counted->coord) > counted->generation;
}

static void test_a_proposal_that_loses_is_answered(void **state)
{
	struct house house;
	struct guest a;
	struct ol_coord_state seen;
	struct ol_view one = view_make(1, 1, 0), two = view_make(2, 2, 0);
	struct counted counted;

	house_start(&house, state, NULL);
	guest_open(&a, house.addr);
	ol_coord_propose(a.coord, 0, 0, &one);
	guest_wait(&a, 0, has_epoch, 1, "a view", &seen);
	counted = (struct counted){ a.coord, ol_coord_generation(a.coord) };
	ol_coord_propose(a.coord, 0, seen.version + 1, &two);
	guest_wait(&a, 0, later_than, (uint64_t)(uintptr_t)&counted, "an answer", &seen);
	assert_memory_equal(&seen.view, &one, sizeof(one));
	counted.generation = ol_coord_generation(a.coord);
	ol_coord_propose(a.coord, 0, seen.version, &one); /* an epoch that was already */
	guest_wait(&a, 0, later_than, (uint64_t)(uintptr_t)&counted, "an answer", &seen);
	assert_int_equal(atomic_load(&house.views), 1);
	guest_close(&a);
	house_close(&house);
}

static void test_a_killed_process_leaves_at_once(void **state)
{
	struct house house;
	struct guest a;
	struct ol_coord_state seen;
	struct child *child;

	house_start(&house, state, NULL);
	guest_open(&a, house.addr);
	child = child_use(house.addr, 24 * 3600 * 1000); /* its lease does not end in this test */
	guest_wait(&a, 0, has_member, CHILD_ID, "the child", &seen);
	child_kill(child);
	guest_wait(&a, 0, lacks_member, CHILD_ID, "the child leaves", &seen);
	guest_close(&a);
	house_close(&house);
}

static void test_a_stopped_process_leaves_when_its_lease_is_over(void **state)
{
	struct house house;
	struct guest a;
	struct ol_coord_state seen;
	struct child *child;

	house_start(&house, state, NULL);
	guest_open(&a, house.addr);
	child = child_use(house.addr, SHORT_LEASE_MS);
	guest_wait(&a, 0, has_member, CHILD_ID, "the child", &seen);
	assert_int_equal(kill(child->pid, SIGSTOP), 0);
	guest_wait(&a, 0, lacks_member, CHILD_ID, "the child leaves", &seen);
	assert_int_equal(kill(child->pid, SIGCONT), 0);
	guest_wait(&a, 0, has_member, CHILD_ID, "the child comes back", &seen);
	child_kill(child);
	guest_wait(&a, 0, lacks_member, CHILD_ID, "the child leaves", &seen);
	guest_close(&a);
	house_close(&house);
}

static void test_a_lease_is_renewed_for_ever(void **state)
{
	struct house house;
	struct guest a, b;
	struct ol_coord_opts opts;
	struct ol_coord_state seen;
	struct ol_member one = server_make(1);
	uint64_t first, generation;

	house_start(&house, state, NULL);
	opts = guest_opts(&a, house.addr);
	opts.lease_ms = RENEWED_LEASE_MS;
	guest_enter(&a, &opts);
	assert_int_equal(ol_coord_join(a.coord, 0, &one), 0);
	guest_open(&b, house.addr);
	guest_wait(&b, 0, has_member, 1, "a member", &seen);
	guest_wait(&a, 0, has_member, 1, "a member", &seen);
	first = seen.lease_ns;
	generation = ol_coord_generation(b.coord);
	do { /* look() alone tells: renewals are no news */
		poll(NULL, 0, 20);
		ol_coord_look(a.coord, 0, &seen);
	} while (seen.lease_ns < first + RENEWED_LEASE_MS * UINT64_C(1300000));
	assert_true(seen.connected);
	assert_int_equal(ol_coord_generation(b.coord), generation); /* it never left */
	guest_close(&a);
	guest_close(&b);
	house_close(&house);
}

static void test_a_coordinator_that_comes_back_is_told(void **state)
{
	struct house house, next;
	struct guest a, b, late;
	struct ol_coord_state seen, then;
	struct ol_member one = server_make(1), two = server_make(2);
	struct ol_view five = view_make(5, 1, 2), six = view_make(6, 2, 0), lost = six;

	house_start(&house, state, NULL);
	guest_open(&a, house.addr);
	guest_open(&b, house.addr);
	assert_int_equal(ol_coord_join(a.coord, 0, &one), 0);
	assert_int_equal(ol_coord_join(b.coord, 0, &two), 0);
	ol_coord_propose(a.coord, 0, 0, &five);
	guest_wait(&a, 0, has_epoch, 5, "a view", &seen);
	guest_wait(&b, 0, has_epoch, 5, "a view", &seen);
	guest_wait(&b, 0, has_member, 1, "a member", &seen);

	house_close(&house);
	guest_wait(&a, 0, is_connected, 0, "the end", &then);
	guest_wait(&b, 0, is_connected, 0, "the end", &then);
	assert_memory_equal(&then.view, &five, sizeof(five)); /* the copy stays */
	assert_int_equal(then.member_count, 2);
	lost.replicas[0] = server_make(77);
	ol_coord_propose(a.coord, 0, then.version, &lost); /* nobody hears it */

	house_open(&next, house.addr, NULL);
	guest_wait(&a, 0, is_connected, 1, "it is back", &seen);
	guest_wait(&b, 0, is_connected, 1, "it is back", &seen);
	assert_memory_equal(&seen.view, &five, sizeof(five));
	assert_true(seen.version != then.version);
	assert_true(has_member(&seen, 1) && has_member(&seen, 2));
	guest_open(&late, next.addr);
	ol_coord_look(late.coord, 0, &seen);
	assert_memory_equal(&seen.view, &five, sizeof(five));
	assert_true(has_member(&seen, 1) && has_member(&seen, 2));

	ol_coord_propose(b.coord, 0, then.version, &lost); /* what it knew before is stale */
	ol_coord_propose(late.coord, 0, seen.version, &six);
	guest_wait(&a, 0, has_epoch, 6, "the next view", &seen);
	assert_memory_equal(&seen.view, &six, sizeof(six));
	guest_close(&late);
	guest_close(&b);
	guest_wait(&a, 0, lacks_member, 2, "it really was a member again", &seen);
	guest_close(&a);
	house_close(&next);
}

static void test_who_does_not_come_back_leaves_after_a_lease(void **state)
{
	struct house house, next;
	struct guest a;
	struct ol_coord_opts opts;
	struct ol_coord_state seen;
	struct ol_member one = server_make(1);
	struct ol_view five = view_make(5, 1, 2);

	house_start(&house, state, NULL);
	opts = guest_opts(&a, house.addr);
	opts.lease_ms = RENEWED_LEASE_MS;
	guest_enter(&a, &opts);
	assert_int_equal(ol_coord_join(a.coord, 0, &one), 0);
	ol_coord_propose(a.coord, 0, 0, &five);
	guest_wait(&a, 0, has_epoch, 5, "a view", &seen);
	house_close(&house);
	guest_wait(&a, 0, is_connected, 0, "the end", &seen);
	assert_false(has_member(&seen, 2));
	house_open(&next, house.addr, NULL);
	guest_wait(&a, 0, has_member, 2, "the one that was in the view counts", &seen);
	guest_wait(&a, 0, lacks_member, 2, "until a lease is over", &seen);
	assert_true(has_member(&seen, 1));
	assert_memory_equal(&seen.view, &five, sizeof(five));
	guest_close(&a);
	house_close(&next);
}

static void refused(const char *addr, const char *client_key, int want, const char *line)
{
	char key[32], err[256] = "";
	struct guest guest;
	struct ol_coord_opts opts = guest_opts(&guest, addr);
	struct ol_coord *coord = NULL;

	if (client_key != NULL) {
		snprintf(key, sizeof(key), "%s", client_key);
		opts.mac = toy_mac;
		opts.mac_arg = key;
	}
	assert_int_equal(ol_coord_open(&opts, &coord, err, sizeof(err)), want);
	assert_null(coord);
	if (strstr(err, line) == NULL || strstr(err, addr) == NULL)
		fail_msg("unclear: %s", err);
	pthread_cond_destroy(&guest.news);
	pthread_mutex_destroy(&guest.lock);
}

static void test_another_secret_is_refused(void **state)
{
	char key[] = "right";
	struct house house;
	struct guest a;
	struct ol_coord_opts opts;

	house_start(&house, state, key);
	refused(house.addr, "wrong", -EACCES, "another job key");
	refused(house.addr, NULL, -EACCES, "another job key");
	opts = guest_opts(&a, house.addr);
	opts.mac = toy_mac;
	opts.mac_arg = key;
	guest_enter(&a, &opts);
	guest_close(&a);
	house_close(&house);
	house_start(&house, state, NULL);
	refused(house.addr, "right", -EACCES, "another job key");
	house_close(&house);
}

static void test_options_that_cannot_be_are_refused(void **unused)
{
	static const char *const addrs[] = {
		"nowhere", "host:", ":1", "host:65536", "host:1x", "@"
	};
	static const char *const jobs[] = {
		"",
		"a/b",
		"a b",
		".hidden",
		"0123456789012345678901234567890123456789012345678901234567890123",
	};
	struct guest guest;
	struct ol_coord_opts opts;
	struct ol_coord *coord;
	struct ol_coordd_opts listen = { .listen = "nonsense" };
	struct ol_coordd *coordd;
	struct house house;
	char err[256];

	(void)unused;
	for (size_t i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++)
		refused(addrs[i], NULL, -EINVAL, "HOST:PORT");
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		opts = guest_opts(&guest, "@x");
		opts.job = jobs[i];
		assert_int_equal(ol_coord_open(&opts, &coord, err, sizeof(err)), -EINVAL);
		assert_non_null(strstr(err, "job"));
	}
	opts = guest_opts(&guest, "@x");
	opts.shard_count = 65;
	assert_int_equal(ol_coord_open(&opts, &coord, NULL, 0), -EINVAL);
	opts.shard_count = 0;
	assert_int_equal(ol_coord_open(&opts, &coord, NULL, 0), -EINVAL);
	opts.shard_count = 1;
	opts.addr = "@ol-coord-test-nobody";
	opts.open_timeout_ms = 30;
	assert_int_equal(ol_coord_open(&opts, &coord, err, sizeof(err)), -ETIMEDOUT);
	assert_non_null(strstr(err, "@ol-coord-test-nobody: nobody listens"));
	assert_int_equal(ol_coordd_open(&listen, &coordd, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "nonsense: an address is"));
	listen.listen = "192.0.2.1:0"; /* of documents: no machine has it */
	assert_int_equal(ol_coordd_open(&listen, &coordd, err, sizeof(err)), -EADDRNOTAVAIL);
	house_open(&house, "127.0.0.1:0", NULL);
	listen.listen = house.addr;
	assert_int_equal(ol_coordd_open(&listen, &coordd, err, sizeof(err)), -EADDRINUSE);
	assert_non_null(strstr(err, "another process listens"));
	house_close(&house);
}

#define BOTH(test) \
	{ #test " (unix)", test, NULL, NULL, unix_kind }, \
	{ \
#test " (tcp)", test, NULL, NULL, tcp_kind \
	}

int main(void)
{
	static char unix_kind[] = "unix", tcp_kind[] = "tcp";
	const struct CMUnitTest tests[] = {
		BOTH(test_members_come_and_go),
		BOTH(test_jobs_are_apart),
		BOTH(test_exactly_one_proposal_wins),
		BOTH(test_a_proposal_that_loses_is_answered),
		BOTH(test_a_killed_process_leaves_at_once),
		BOTH(test_a_stopped_process_leaves_when_its_lease_is_over),
		BOTH(test_a_lease_is_renewed_for_ever),
		BOTH(test_a_coordinator_that_comes_back_is_told),
		BOTH(test_who_does_not_come_back_leaves_after_a_lease),
		BOTH(test_another_secret_is_refused),
		cmocka_unit_test(test_options_that_cannot_be_are_refused),
	};

	children_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
