/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shm_conn_test.c -- connections come up, are refused, time out and end as the contract says, and
 * no address, limit or lack of descriptors leaves anything behind
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "rdma/rate.h"
#include "unit/rdma/shm_util.h"

static void private_data_travels_both_ways_up_to_its_limits(void **state)
{
	uint8_t hello[OL_XPORT_PRIV_CONNECT_MAX];
	uint8_t yes[OL_XPORT_PRIV_ACCEPT_MAX];
	struct ol_xport_event event;
	struct end a;
	struct end b;

	(void)state;
	memset(hello, 0x11, sizeof(hello));
	memset(yes, 0x22, sizeof(yes));
	end_open(&a, NULL);
	end_open(&b, NULL);
	end_listen(&a);
	assert_int_equal(X->connect(b.xport, a.addr, hello, sizeof(hello) + 1, NULL, &b.conn),
			 -EINVAL);
	assert_int_equal(X->connect(b.xport, a.addr, hello, sizeof(hello), NULL, &b.conn), 0);
	event = want(&a, &b, OL_XPORT_CONN_REQUEST);
	assert_int_equal(event.priv_len, sizeof(hello));
	assert_memory_equal(event.priv, hello, sizeof(hello));
	assert_ptr_equal(event.conn->xport, a.xport);
	assert_int_equal(X->accept(event.conn, yes, sizeof(yes) + 1), -EINVAL);
	assert_int_equal(X->accept(event.conn, yes, sizeof(yes)), 0);
	event = want(&b, &a, OL_XPORT_CONN_UP);
	assert_ptr_equal(event.conn, b.conn);
	assert_int_equal(event.priv_len, sizeof(yes));
	assert_memory_equal(event.priv, yes, sizeof(yes));
	event = want(&a, &b, OL_XPORT_CONN_UP);
	assert_int_equal(event.priv_len, 0);
	pair_close(&a, &b);
}

static void a_reject_carries_its_reason(void **state)
{
	uint8_t no[OL_XPORT_PRIV_REJECT_MAX];
	struct ol_xport_event event;
	struct end a;
	struct end b;

	(void)state;
	memset(no, 0x33, sizeof(no));
	end_open(&a, NULL);
	end_open(&b, NULL);
	end_listen(&a);
	assert_int_equal(X->connect(b.xport, a.addr, NULL, 0, NULL, &b.conn), 0);
	event = want(&a, &b, OL_XPORT_CONN_REQUEST);
	X->reject(event.conn, no, sizeof(no));
	event = want(&b, &a, OL_XPORT_CONN_DOWN);
	assert_int_equal(event.status, -ECONNREFUSED);
	assert_int_equal(event.priv_len, sizeof(no));
	assert_memory_equal(event.priv, no, sizeof(no));
	drained(&a);
	drained(&b);
	pair_close(&a, &b);
}

static void nobody_listening_ends_in_down_refused(void **state)
{
	const char *const addrs[] = { "@outlast-nobody-is-here", "/nonexistent/outlast.sock" };
	struct ol_xport_event event;
	struct end b;
	size_t i;

	(void)state;
	end_open(&b, NULL);
	for (i = 0; i < 2; i++) {
		assert_int_equal(X->connect(b.xport, addrs[i], NULL, 0, NULL, &b.conn), 0);
		event = want(&b, NULL, OL_XPORT_CONN_DOWN);
		assert_int_equal(event.status, -ECONNREFUSED);
		assert_int_equal(event.priv_len, 0);
		X->conn_free(b.conn);
	}
	end_close(&b);
}

static void addresses_that_cannot_be_are_refused_with_a_word(void **state)
{
	char longest[110];
	struct end a;

	(void)state;
	memset(longest, 'a', sizeof(longest));
	longest[0] = '@';
	longest[108] = '\0';
	end_open(&a, NULL);
	assert_int_equal(X->listen(a.xport, "", a.addr), -EINVAL);
	assert_int_equal(X->listen(a.xport, longest, a.addr), -ENAMETOOLONG);
	assert_int_equal(a.warns, 2);
	assert_int_equal(X->connect(a.xport, "", NULL, 0, NULL, &a.conn), -EINVAL);
	assert_int_equal(X->listen(a.xport, "/nonexistent/dir/sock", a.addr), -ENOENT);
	assert_non_null(strstr(a.last, "folder does not exist"));
	assert_non_null(strstr(a.last, "/nonexistent/dir/sock"));
	end_close(&a);
}

/* Else an address of the other transport would be a file of that name in the current folder. */
static void a_bare_word_is_no_address(void **state)
{
	static const char *const words[] = { "10.0.0.1:7471", "word", "[fe80::1]:7471" };
	struct end a;

	(void)state;
	end_open(&a, NULL);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		assert_int_equal(X->listen(a.xport, words[i], a.addr), -EINVAL);
		assert_non_null(strstr(a.last, words[i]));
		assert_int_equal(X->connect(a.xport, words[i], NULL, 0, NULL, &a.conn), -EINVAL);
		assert_int_equal(access(words[i], F_OK), -1);
	}
	end_close(&a);
}

/* dir_make -- a directory of our own; path: a socket's name in it */
static void dir_make(char dir[64], char path[80])
{
	snprintf(dir, 64, "/tmp/outlast-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, 80, "%s/sock", dir);
}

static void a_path_is_busy_while_its_server_lives_and_free_when_it_closed(void **state)
{
	char dir[64];
	char path[80];
	struct stat st;
	struct end a;
	struct end b;

	(void)state;
	dir_make(dir, path);
	end_open(&a, NULL);
	end_open(&b, NULL);
	assert_int_equal(X->listen(a.xport, path, a.addr), 0);
	assert_string_equal(a.addr, path);
	assert_int_equal(X->listen(a.xport, path, a.addr), -EALREADY);
	assert_int_equal(X->listen(b.xport, path, b.addr), -EADDRINUSE);
	assert_non_null(strstr(b.last, path));
	drained(&a); /* the look whether it lives is no request */
	assert_int_equal(a.warns, 0);
	join(&a, &b);
	X->conn_free(a.conn);
	X->conn_free(b.conn);
	end_close(&a);
	assert_int_equal(stat(path, &st), -1);
	assert_int_equal(X->listen(b.xport, path, b.addr), 0);
	end_close(&b);
	assert_int_equal(rmdir(dir), 0);
}

static void a_dead_servers_socket_file_is_replaced_but_no_other_file(void **state)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	struct stat st;
	char dir[64];
	char path[80];
	struct end a;
	int fd;

	(void)state;
	dir_make(dir, path);
	end_open(&a, NULL);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(X->listen(a.xport, path, a.addr), -EADDRINUSE);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(unlink(path), 0);

	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	memcpy(name.sun_path, path, strlen(path));
	assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd); /* as a killed server leaves it */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(X->listen(a.xport, path, a.addr), 0);
	end_close(&a);
	assert_int_equal(rmdir(dir), 0);
}

static void closing_leaves_a_socket_file_that_another_server_made(void **state)
{
	struct stat st;
	char dir[64];
	char path[80];
	struct end a;
	struct end b;

	(void)state;
	dir_make(dir, path);
	end_open(&a, NULL);
	end_open(&b, NULL);
	assert_int_equal(X->listen(a.xport, path, a.addr), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(X->listen(b.xport, path, b.addr), 0);
	end_close(&a);
	assert_int_equal(stat(path, &st), 0);
	end_close(&b);
	assert_int_equal(rmdir(dir), 0);
}

static void an_abstract_name_is_busy_while_it_is_used(void **state)
{
	char name[OL_XPORT_ADDR_MAX];
	char found[OL_XPORT_ADDR_MAX];
	struct end a;
	struct end b;

	(void)state;
	snprintf(name, sizeof(name), "@outlast-test-%ld", (long)getpid());
	end_open(&a, NULL);
	end_open(&b, NULL);
	assert_int_equal(X->listen(a.xport, name, found), 0);
	assert_string_equal(found, name);
	assert_int_equal(X->listen(b.xport, name, found), -EADDRINUSE);
	memcpy(a.addr, name, sizeof(name));
	join(&a, &b);
	pair_close(&a, &b);
}

static void a_connect_without_an_answer_times_out_at_both_ends(void **state)
{
	struct ol_xport_opts opts;
	struct ol_xport_event event;
	struct end a;
	struct end b;

	(void)state;
	ol_xport_opts_init(&opts);
	opts.connect_timeout_ms = 50;
	end_open(&a, NULL);
	end_open(&b, &opts);
	end_listen(&a);
	assert_int_equal(X->connect(b.xport, a.addr, NULL, 0, NULL, &b.conn), 0);
	event = want(&a, NULL, OL_XPORT_CONN_REQUEST);
	a.conn = event.conn;
	event = want(&b, &a, OL_XPORT_CONN_DOWN);
	assert_int_equal(event.status, -ETIMEDOUT);
	event = want(&a, &b, OL_XPORT_CONN_DOWN);
	assert_int_equal(event.status, 0);
	assert_int_equal(X->accept(a.conn, NULL, 0), 0); /* too late, and no error */
	drained(&a);
	X->conn_free(a.conn);
	pair_close(&a, &b);
}

static void a_request_whose_peer_left_before_it_was_seen_never_shows(void **state)
{
	struct ol_xport_event events[4];
	struct end a;
	struct end b;
	int i;

	(void)state;
	end_open(&a, NULL);
	end_open(&b, NULL);
	end_listen(&a);
	for (i = 0; i < 50; i++) {
		assert_int_equal(X->connect(b.xport, a.addr, NULL, 0, NULL, &b.conn), 0);
		X->conn_free(b.conn);
	}
	/* Both the hello and the end are in the socket by now. */
	for (i = 0; i < 2000; i++)
		assert_int_equal(X->poll(a.xport, events, 4), 0);
	pair_close(&a, &b);
}

static void a_full_backlog_is_dialed_again_until_there_is_room(void **state)
{
	struct ol_xport_event event;
	char addr[OL_XPORT_ADDR_MAX];
	struct end b;
	int waiting[64];
	int count = 0;
	int sock = raw_listen(addr);
	struct sockaddr_un name = { .sun_family = AF_UNIX };

	(void)state;
	memcpy(name.sun_path + 1, addr + 1, strlen(addr) - 1);
	for (; count < 64; count++) {
		waiting[count] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
		if (connect(waiting[count], (const struct sockaddr *)&name,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(addr))) !=
		    0)
			break;
	}
	assert_int_equal(errno, EAGAIN);
	end_open(&b, NULL);
	assert_int_equal(X->connect(b.xport, addr, NULL, 0, NULL, &b.conn), 0);
	drained(&b);
	assert_true(bell(b.conn, 1) == -ENOTCONN);
	close(sock); /* the listener dies: the next attempt is refused */
	event = want(&b, NULL, OL_XPORT_CONN_DOWN);
	assert_int_equal(event.status, -ECONNREFUSED);
	for (; count >= 0; count--)
		close(waiting[count]);
	end_close(&b);
}

static void connections_beyond_conns_max_are_turned_away(void **state)
{
	struct ol_xport_conn *conns[4];
	struct ol_xport_opts opts;
	struct ol_xport_event event;
	struct end a;
	struct end b;
	unsigned i;

	(void)state;
	ol_xport_opts_init(&opts);
	opts.conns_max = 3;
	end_open(&a, &opts);
	end_open(&b, NULL);
	end_listen(&a);
	for (i = 0; i < 3; i++) {
		join(&a, &b);
		conns[i] = a.conn;
	}
	assert_int_equal(X->connect(a.xport, a.addr, NULL, 0, NULL, &a.conn), -ENOBUFS);
	assert_int_equal(X->connect(b.xport, a.addr, NULL, 0, NULL, &b.conn), 0);
	event = want(&b, &a, OL_XPORT_CONN_DOWN);
	assert_int_equal(event.status, -EUSERS);
	X->conn_free(b.conn);
	assert_int_equal(a.warns, 1);
	X->conn_free(conns[0]);
	want(&b, &a, OL_XPORT_CONN_DOWN);
	join(&a, &b); /* a place is free again */
	pair_close(&a, &b);
}

static void disconnect_ends_both_ends_once_and_posts_fail_from_then(void **state)
{
	struct ol_xport_event event;
	struct end a;
	struct end b;

	(void)state;
	pair_open(&a, &b, NULL);
	X->disconnect(b.conn);
	assert_int_equal(bell(b.conn, 1), -ENOTCONN);
	event = want(&b, NULL, OL_XPORT_CONN_DOWN);
	assert_int_equal(event.status, 0);
	event = want(&a, &b, OL_XPORT_CONN_DOWN);
	assert_int_equal(event.status, 0);
	assert_int_equal(bell(a.conn, 1), -ENOTCONN);
	X->disconnect(a.conn);
	drained(&a);
	drained(&b);
	assert_int_equal(a.warns + b.warns, 0);
	pair_close(&a, &b);
}

static void doorbells_rung_before_the_end_arrive_before_it(void **state)
{
	struct end a;
	struct end b;
	uint32_t i;

	(void)state;
	pair_open(&a, &b, NULL);
	for (i = 0; i < 64; i++)
		assert_int_equal(bell(b.conn, i), 0);
	assert_int_equal(bell(b.conn, i), -EAGAIN);
	X->conn_free(b.conn);
	drained(&b);
	for (i = 0; i < 64; i++)
		assert_int_equal(want(&a, NULL, OL_XPORT_DOORBELL_RUNG).imm, i);
	assert_int_equal(want(&a, NULL, OL_XPORT_CONN_DOWN).status, 0);
	drained(&a);
	pair_close(&a, &b);
}

static void completions_are_reported_before_the_end(void **state)
{
	struct ol_xport_event event;
	struct end a;
	struct end b;
	struct mem mem;
	unsigned i;

	(void)state;
	pair_open(&a, &b, NULL);
	mem_open(&mem, &a, NULL, 4096, RW);
	for (i = 0; i < 256; i++)
		assert_int_equal(put(b.conn, mem.key, 8 * i, &i, 4), 0);
	assert_int_equal(put(b.conn, mem.key, 0, &i, 4), -EAGAIN);
	X->disconnect(b.conn);
	for (i = 0; i < 256; i++)
		assert_int_equal(want(&b, NULL, OL_XPORT_DONE).status, 0);
	event = want(&b, NULL, OL_XPORT_CONN_DOWN);
	assert_int_equal(event.status, 0);
	mem_close(&mem);
	pair_close(&a, &b);
}

static void doorbells_max_is_that_of_the_side_that_takes_them(void **state)
{
	struct ol_xport_opts opts;
	struct end a;
	struct end b;
	uint32_t i;

	(void)state;
	ol_xport_opts_init(&opts);
	opts.doorbells_max = 5; /* a ring of 8 */
	end_open(&a, &opts);
	end_open(&b, NULL);
	end_listen(&a);
	join(&a, &b);
	for (i = 0; i < 8; i++)
		assert_int_equal(bell(b.conn, i), 0);
	assert_int_equal(bell(b.conn, 8), -EAGAIN);
	for (i = 0; i < 64; i++)
		assert_int_equal(bell(a.conn, 100 + i), 0);
	assert_int_equal(bell(a.conn, 0), -EAGAIN);
	for (i = 0; i < 8; i++)
		assert_int_equal(want(&a, NULL, OL_XPORT_DOORBELL_RUNG).imm, i);
	for (i = 0; i < 64; i++)
		assert_int_equal(want(&b, NULL, OL_XPORT_DOORBELL_RUNG).imm, 100 + i);
	assert_int_equal(bell(b.conn, 8), 0);
	pair_close(&a, &b);
}

static void no_connection_starves_another(void **state)
{
	struct ol_xport_conn *quiet;
	struct ol_xport_event event;
	struct end a;
	struct end b;
	unsigned polls;

	(void)state;
	pair_open(&a, &b, NULL);
	quiet = b.conn;
	join(&a, &b);
	while (bell(b.conn, 1) == 0)
		;
	assert_int_equal(bell(quiet, 2), 0);
	for (polls = 0; polls < 3; polls++) {
		assert_int_equal(X->poll(a.xport, &event, 1), 1);
		if (event.imm == 2)
			break;
	}
	assert_true(polls < 3);
	pair_close(&a, &b);
}

static void limits_that_cannot_be_are_refused_at_open(void **state)
{
	struct ol_xport_opts opts;
	struct ol_xport *xport = NULL;

	(void)state;
	ol_xport_opts_init(&opts);
	opts.doorbells_max = 1 << 20;
	assert_int_equal(X->open(&opts, &xport), -EINVAL);
	ol_xport_opts_init(&opts);
	opts.conns_max = UINT32_MAX;
	assert_int_equal(X->open(&opts, &xport), -EINVAL);
	ol_xport_opts_init(&opts);
	opts.inflight_max = UINT32_MAX;
	assert_int_equal(X->open(&opts, &xport), -EINVAL);
	assert_null(xport);
	memset(&opts, 0, sizeof(opts)); /* 0 is the default of everything */
	assert_int_equal(X->open(&opts, &xport), 0);
	X->close(xport);
}

static void a_thousand_connections_leave_no_descriptor(void **state)
{
	struct mem a_mem;
	struct mem b_mem;
	struct mem own;
	unsigned before = fds_count();
	struct end a;
	struct end b;
	unsigned during;
	int i;

	(void)state;
	end_open(&a, NULL);
	end_open(&b, NULL);
	end_listen(&a);
	mem_open(&a_mem, &a, NULL, 8192, RW);
	mem_open(&b_mem, &b, NULL, 8192, OL_XPORT_ACCESS_PEER_READ);
	during = fds_count();
	for (i = 0; i < 1000; i++) {
		join(&a, &b);
		mem_open(&own, &a, a.conn, 4096, RW);
		assert_int_equal(put(b.conn, own.key, 0, &i, 4), 0);
		want(&b, &a, OL_XPORT_DONE);
		if (i % 2 == 0)
			mem_close(&own);
		X->conn_free(i % 3 == 0 ? a.conn : b.conn);
		want(i % 3 == 0 ? &b : &a, i % 3 == 0 ? &a : &b, OL_XPORT_CONN_DOWN);
		X->conn_free(i % 3 == 0 ? b.conn : a.conn);
		if (i % 2 != 0)
			mem_close(&own);
		drained(i % 3 == 0 ? &a : &b);
		assert_int_equal(fds_count(), during);
	}
	mem_close(&a_mem);
	mem_close(&b_mem);
	pair_close(&a, &b);
	assert_int_equal(fds_count(), before);
}

/* few_fds -- a whole life of two ends; true if it got through */
static bool few_fds(void)
{
	struct ol_xport_opts opts;
	uint64_t until = test_now_ms() + WAIT_S * 1000;
	struct ol_xport_conn *accepted = NULL;
	struct ol_xport_conn *conn;
	struct ol_xport_region *region = NULL;
	struct ol_slab *slab = NULL;
	struct ol_xport_event event;
	struct ol_xport *a = NULL;
	struct ol_xport *b = NULL;
	char addr[OL_XPORT_ADDR_MAX];
	unsigned ups = 0;
	bool down = false;

	ol_xport_opts_init(&opts);
	opts.connect_timeout_ms = 100;
	if (X->open(&opts, &a) != 0 || X->open(&opts, &b) != 0 || X->listen(a, "@", addr) != 0 ||
	    ol_slab_create(4096, OL_SLAB_NODE_ANY, false, &slab) != 0 ||
	    X->reg(a, NULL, slab, 0, 4096, OL_XPORT_ACCESS_PEER_READ, &region) != 0 ||
	    X->connect(b, addr, NULL, 0, NULL, &conn) != 0)
		goto out;
	while (ups < 2 && !down && test_now_ms() < until) {
		while (X->poll(a, &event, 1) > 0) {
			if (event.type == OL_XPORT_CONN_REQUEST) {
				accepted = event.conn;
				if (X->accept(accepted, NULL, 0) != 0)
					X->reject(accepted, NULL, 0);
			}
			ups += event.type == OL_XPORT_CONN_UP;
			down |= event.type == OL_XPORT_CONN_DOWN;
		}
		while (X->poll(b, &event, 1) > 0) {
			ups += event.type == OL_XPORT_CONN_UP;
			down |= event.type == OL_XPORT_CONN_DOWN;
		}
	}
	assert_true(ups == 2 || down);
out:
	X->dereg(region);
	if (b != NULL)
		X->close(b);
	if (a != NULL)
		X->close(a);
	ol_slab_destroy(slab);
	return ups == 2;
}

static void running_out_of_descriptors_at_any_step_leaks_nothing(void **state)
{
	unsigned before = fds_count();
	struct rlimit saved;
	bool whole = false;
	unsigned spare;

	(void)state;
	for (spare = 0; spare < 64 && !whole; spare++) {
		fds_limit(spare, &saved);
		whole = few_fds();
		fds_unlimit(&saved);
		assert_int_equal(fds_count(), before);
	}
	assert_true(whole);
	assert_true(spare > 12); /* the limit has cut it at every descriptor it opens */
}

static void peers_that_find_no_descriptor_fill_no_log(void **state)
{
	int socks[20];
	struct rlimit saved;
	uint64_t began_ms;
	struct end a;
	char byte;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	for (unsigned i = 0; i < 20; i++)
		socks[i] = raw_socket(a.addr);
	fds_limit(0, &saved);
	began_ms = test_now_ms();
	for (unsigned i = 0; i < 20; i++) {
		while (recv(socks[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
			drained(&a);
	}
	fds_unlimit(&saved);
	for (unsigned i = 0; i < 20; i++)
		close(socks[i]);
	assert_in_range(a.warns, 1,
			(OL_XPORT_RATE_LINES + 1) * (1 + (test_now_ms() - began_ms) / 1000));
	assert_non_null(strstr(a.last, "no file descriptor left"));
	end_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(private_data_travels_both_ways_up_to_its_limits),
		cmocka_unit_test(a_reject_carries_its_reason),
		cmocka_unit_test(nobody_listening_ends_in_down_refused),
		cmocka_unit_test(addresses_that_cannot_be_are_refused_with_a_word),
		cmocka_unit_test(a_bare_word_is_no_address),
		cmocka_unit_test(a_path_is_busy_while_its_server_lives_and_free_when_it_closed),
		cmocka_unit_test(a_dead_servers_socket_file_is_replaced_but_no_other_file),
		cmocka_unit_test(closing_leaves_a_socket_file_that_another_server_made),
		cmocka_unit_test(an_abstract_name_is_busy_while_it_is_used),
		cmocka_unit_test(a_connect_without_an_answer_times_out_at_both_ends),
		cmocka_unit_test(a_request_whose_peer_left_before_it_was_seen_never_shows),
		cmocka_unit_test(a_full_backlog_is_dialed_again_until_there_is_room),
		cmocka_unit_test(connections_beyond_conns_max_are_turned_away),
		cmocka_unit_test(disconnect_ends_both_ends_once_and_posts_fail_from_then),
		cmocka_unit_test(doorbells_rung_before_the_end_arrive_before_it),
		cmocka_unit_test(completions_are_reported_before_the_end),
		cmocka_unit_test(doorbells_max_is_that_of_the_side_that_takes_them),
		cmocka_unit_test(no_connection_starves_another),
		cmocka_unit_test(limits_that_cannot_be_are_refused_at_open),
		cmocka_unit_test(a_thousand_connections_leave_no_descriptor),
		cmocka_unit_test(running_out_of_descriptors_at_any_step_leaks_nothing),
		cmocka_unit_test(peers_that_find_no_descriptor_fill_no_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
