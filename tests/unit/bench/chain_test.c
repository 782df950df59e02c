/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_test.c -- a single server that ends badly is an error of its measurement
 *
 * Servers are this program: it is executed again, as "outlast bench server ...", and acts as
 * WHAT_SERVER says.
 */

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/chain.h"
#include "cmd/control.h"

#define WHAT "WHAT_SERVER"

static const struct bench_opts opts = { .transport = "shm",
					.listen = "@ol-unit-bench",
					.pins = { BENCH_CPU_ANY, BENCH_CPU_ANY } };

/* The process of a server, and its exit status */
static int server(const char *what)
{
	struct ol_control control;

	if (ol_control_init(&control, OL_PROC_FD) != 0 || strcmp(what, "vanishes") == 0)
		return 1;
	if (strcmp(what, "fails") == 0) {
		ol_control_say(&control, "failed",
			       json_pack("{s:i, s:s}", "status", -ENOMEM, "error", "no room"));
		return 7;
	}
	ol_control_say(&control, "ready",
		       json_pack("{s:s, s:i}", "address", "@here", "ready_ns", 5));
	while (!control.quit)
		ol_control_poll(&control, -1);
	if (strcmp(what, "is killed") == 0)
		raise(SIGKILL);
	return strcmp(what, "ends badly") == 0 ? 3 : 0;
}

/* The end of a server that was opened */
static int end_of(const char *what, char err[BENCH_ERR_MAX])
{
	static struct bench_chain chain;
	int rc;

	assert_int_equal(setenv(WHAT, what, 1), 0);
	err[0] = '\0';
	assert_int_equal(bench_chain_start(&opts, NULL, &chain, err), 0);
	assert_int_equal(bench_chain_open(&chain, 0, 64, 1, err), 0);
	assert_string_equal(chain.servers[0].addr, "@here");
	assert_int_equal(chain.servers[0].ready_ns, 5);
	assert_false(bench_chain_server_gone(&chain, 0));
	rc = bench_chain_close(&chain, err);
	assert_true(bench_chain_server_gone(&chain, 0));
	bench_chain_stop(&chain);
	return rc;
}

static void a_server_that_ends_in_order_is_no_error(void **state)
{
	char err[BENCH_ERR_MAX];

	(void)state;
	assert_int_equal(end_of("serves", err), 0);
	assert_string_equal(err, "");
}

static void a_server_that_ends_badly_is_an_error_that_says_how(void **state)
{
	char err[BENCH_ERR_MAX];

	(void)state;
	assert_int_equal(end_of("ends badly", err), OL_E_NO_SERVER);
	assert_string_equal(err, "the server ended with exit status 3");
	assert_int_equal(end_of("is killed", err), OL_E_NO_SERVER);
	assert_string_equal(err, "the server was killed by signal 9");
}

static void a_server_that_does_not_start_is_an_error(void **state)
{
	static struct bench_chain chain;
	char err[BENCH_ERR_MAX] = "";

	(void)state;
	assert_int_equal(bench_chain_start(&opts, NULL, &chain, err), 0);
	assert_int_equal(setenv(WHAT, "vanishes", 1), 0);
	assert_int_equal(bench_chain_open(&chain, 0, 64, 1, err), OL_E_NO_SERVER);
	assert_string_equal(err, "a server process ended unexpectedly");
	assert_int_equal(setenv(WHAT, "fails", 1), 0);
	assert_int_equal(bench_chain_open(&chain, 0, 64, 1, err), -ENOMEM);
	assert_string_equal(err, "no room");
	bench_chain_stop(&chain);
	bench_chain_stop(&chain); /* once more is fine */
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_ends_in_order_is_no_error),
		cmocka_unit_test(a_server_that_ends_badly_is_an_error_that_says_how),
		cmocka_unit_test(a_server_that_does_not_start_is_an_error),
	};

	if (argc > 2 && strcmp(argv[1], "bench") == 0 && strcmp(argv[2], "server") == 0)
		return server(getenv(WHAT));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
