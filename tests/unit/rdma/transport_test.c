/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * transport_test.c -- every transport is found by name, has a full table, and describes itself
 */
#include "rdma/transport.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void shm_is_found_and_its_table_has_no_gap(void **state)
{
	const struct ol_xport_ops *ops = ol_xport_find("shm");
	const void *const *member;
	size_t i;

	(void)state;
	assert_ptr_equal(ops, &ol_xport_shm);
	assert_int_equal(ops->size, sizeof(*ops));
	assert_string_equal(ops->name, "shm");
	member = (const void *const *)(const void *)&ops->name;
	for (i = 0; i < (sizeof(*ops) - offsetof(struct ol_xport_ops, name)) / sizeof(void *); i++)
		assert_non_null(member[i]);
}

static void unknown_names_are_not_found(void **state)
{
	(void)state;
	assert_null(ol_xport_find("tcp"));
	assert_null(ol_xport_find(""));
	assert_null(ol_xport_find("shmem"));
}

static void shm_is_always_present_and_unknown_transports_never(void **state)
{
	char why[128] = "";

	(void)state;
	assert_int_equal(ol_xport_present("shm", NULL, why, sizeof(why)), 0);
	assert_int_not_equal(strlen(why), 0);
	why[0] = '\0';
	assert_int_equal(ol_xport_present("tcp", NULL, why, sizeof(why)), -ENODEV);
	assert_non_null(strstr(why, "tcp"));
}

static void why_is_cut_at_its_size(void **state)
{
	char why[8] = "1234567";

	(void)state;
	assert_int_equal(ol_xport_present("shm", NULL, why, 4), 0);
	assert_int_equal(strlen(why), 3);
	assert_int_equal(why[4], '5');
}

static void defaults_are_those_of_the_contract(void **state)
{
	struct ol_xport_opts opts;

	(void)state;
	memset(&opts, 0xff, sizeof(opts));
	ol_xport_opts_init(&opts);
	assert_null(opts.device);
	assert_int_equal(opts.inflight_max, 256);
	assert_int_equal(opts.doorbells_max, 64);
	assert_int_equal(opts.conns_max, 128);
	assert_int_equal(opts.retry_timeout_ms, 8000);
	assert_int_equal(opts.connect_timeout_ms, 3000);
	assert_int_equal(opts.shared_domain, 0);
	assert_null(opts.log);
}

static void the_stub_of_map_says_not_supported(void **state)
{
	struct ol_xport_rkey key = { .rkey = 1 };

	(void)state;
	assert_int_equal(ol_xport_no_map(NULL, key, 0, 4096, NULL), -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shm_is_found_and_its_table_has_no_gap),
		cmocka_unit_test(unknown_names_are_not_found),
		cmocka_unit_test(shm_is_always_present_and_unknown_transports_never),
		cmocka_unit_test(why_is_cut_at_its_size),
		cmocka_unit_test(defaults_are_those_of_the_contract),
		cmocka_unit_test(the_stub_of_map_says_not_supported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
