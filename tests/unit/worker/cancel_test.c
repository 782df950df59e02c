/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * cancel_test.c -- an open that waits ends as soon as its cancel_fd is readable, and reads no byte
 *
 * No server has the addresses, and the timeouts are longer than any test may take.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "outlast.h"
#include "outlast_server.h"

enum {
	LONG_MS = 3600 * 1000,
	SOON_MS = 20
};

static const char zookeeper[] = "zk:127.0.0.1:1";

/* A descriptor that can be read after so long */
static int ripe_after(unsigned ms)
{
	const struct itimerspec when = {
		.it_value = { .tv_sec = ms / 1000, .tv_nsec = 1 + (long)(ms % 1000) * 1000000 }
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	assert_true(fd >= 0);
	assert_int_equal(timerfd_settime(fd, 0, &when, NULL), 0);
	return fd;
}

static void ripe_still(int fd)
{
	uint64_t count;

	assert_int_equal(read(fd, &count, sizeof(count)), (ssize_t)sizeof(count));
	close(fd);
}

static void worker_case(const char *servers, const char *coordinator, unsigned ms)
{
	struct ol_worker *worker = (void *)0x1;
	char err[256] = "";
	struct ol_worker_opts opts;
	int fd = ripe_after(ms);

	ol_worker_opts_init(&opts);
	assert_int_equal(opts.cancel_fd, -1);
	opts.servers = servers;
	opts.coordinator = coordinator;
	opts.outage = OL_OUTAGE_WAIT;
	opts.connect_timeout_ms = LONG_MS;
	opts.cancel_fd = fd;
	assert_int_equal(ol_worker_open(&opts, &worker, err, sizeof(err)), -ECANCELED);
	assert_non_null(strstr(err, "called back"));
	assert_ptr_equal(worker, (void *)0x1);
	ripe_still(fd);
}

static void a_worker_that_finds_no_server_can_be_called_back(void **state)
{
	char addr[64];

	(void)state;
	snprintf(addr, sizeof(addr), "@outlast-cancel-test-%d", (int)getpid());
	worker_case(addr, NULL, 0);
	worker_case(addr, NULL, SOON_MS);
}

static void a_worker_that_finds_no_coordinator_can_be_called_back(void **state)
{
	(void)state;
	worker_case(NULL, zookeeper, 0);
	worker_case(NULL, zookeeper, SOON_MS);
}

static void server_case(unsigned ms)
{
	static const float weights[4096];
	struct ol_server *server = (void *)0x1;
	char err[256] = "";
	struct ol_server_opts opts;
	char addr[64];
	int fd = ripe_after(ms);

	snprintf(addr, sizeof(addr), "@outlast-cancel-test-%d", (int)getpid());
	ol_server_opts_init(&opts);
	assert_int_equal(opts.cancel_fd, -1);
	opts.listen = addr;
	opts.param_count = sizeof(weights) / sizeof(weights[0]);
	opts.coordinator = zookeeper;
	opts.coordinator_timeout_ms = LONG_MS;
	opts.cancel_fd = fd;
	assert_int_equal(ol_server_open(&opts, weights, &server, err, sizeof(err)), -ECANCELED);
	assert_non_null(strstr(err, "called back"));
	assert_ptr_equal(server, (void *)0x1);
	ripe_still(fd);
}

static void a_server_that_finds_no_coordinator_can_be_called_back(void **state)
{
	(void)state;
	server_case(0);
	server_case(SOON_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_that_finds_no_server_can_be_called_back),
		cmocka_unit_test(a_worker_that_finds_no_coordinator_can_be_called_back),
		cmocka_unit_test(a_server_that_finds_no_coordinator_can_be_called_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
