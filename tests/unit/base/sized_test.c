/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sized_test.c -- a struct of another version is copied in and out as far as both sides know it
 */
#include "base/sized.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "outlast_policy.h"

/* These travel without a size: a program that was compiled once goes on with every version. */
_Static_assert(sizeof(struct ol_op) == 88 && offsetof(struct ol_op, reserved) == 40, "ol_op");
_Static_assert(sizeof(struct ol_update_rule) == 36, "ol_update_rule");
_Static_assert(sizeof(struct ol_arrival) == 40, "ol_arrival");
_Static_assert(sizeof(struct ol_update) == 40, "ol_update");

static void what_a_shorter_struct_lacks_keeps_its_default(void **state)
{
	const uint64_t theirs[] = { 7 };
	uint64_t ours[] = { 1, 2, 3 };

	(void)state;
	assert_null(ol_sized_take(ours, sizeof(ours), theirs, sizeof(theirs)));
	assert_int_equal(ours[0], 7);
	assert_int_equal(ours[1], 2);
	assert_int_equal(ours[2], 3);
}

static void a_longer_struct_is_taken_only_if_what_is_longer_is_zero(void **state)
{
	uint64_t theirs[] = { 7, 8, 0 };
	uint64_t ours[] = { 1, 2 };

	(void)state;
	assert_null(ol_sized_take(ours, sizeof(ours), theirs, sizeof(theirs)));
	assert_int_equal(ours[1], 8);
	theirs[0] = 9;
	((uint8_t *)theirs)[sizeof(theirs) - 1] = 1;
	assert_non_null(ol_sized_take(ours, sizeof(ours), theirs, sizeof(theirs)));
	assert_int_equal(ours[0], 7);
}

static void a_size_that_was_never_set_is_refused(void **state)
{
	const uint64_t theirs[] = { 7 };
	uint64_t ours[] = { 1 };

	(void)state;
	assert_non_null(ol_sized_take(ours, sizeof(ours), theirs, 0));
	assert_non_null(ol_sized_take(ours, sizeof(ours), theirs, SIZE_MAX));
	assert_int_equal(ours[0], 1);
}

static void a_shorter_struct_is_filled_and_nothing_behind_it(void **state)
{
	const uint64_t ours[] = { 1, 2, 3 };
	uint64_t theirs[] = { 7, 8, 9, 10 };

	(void)state;
	ol_sized_give(theirs, 2 * sizeof(theirs[0]), ours, sizeof(ours));
	assert_int_equal(theirs[1], 2);
	assert_int_equal(theirs[2], 9);
}

static void of_a_longer_struct_the_rest_is_cleared(void **state)
{
	const uint64_t ours[] = { 1 };
	uint64_t theirs[] = { 7, 8, 9 };

	(void)state;
	ol_sized_give(theirs, 2 * sizeof(theirs[0]), ours, sizeof(ours));
	assert_int_equal(theirs[0], 1);
	assert_int_equal(theirs[1], 0);
	assert_int_equal(theirs[2], 9);
}

/* Options as a later version may have them: one field more */
#define LATER(type) \
	struct { \
		type of; \
		uint64_t more; \
	}

static void a_worker_takes_a_newer_programs_options_until_they_ask_for_more(void **state)
{
	LATER(struct ol_worker_opts) opts;
	struct ol_worker *worker = NULL;
	char err[256] = "";

	(void)state;
	memset(&opts, 0xa5, sizeof(opts));
	ol_worker_opts_init_sized(&opts.of, sizeof(opts));
	assert_int_equal(opts.of.size, sizeof(opts));
	assert_int_equal(opts.more, 0);
	assert_int_equal(ol_worker_open(&opts.of, &worker, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "no server address given");
	opts.more = 1;
	assert_int_equal(ol_worker_open(&opts.of, &worker, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "newer version"));
	assert_null(worker);
}

static void a_server_takes_a_newer_programs_options_until_they_ask_for_more(void **state)
{
	LATER(struct ol_server_opts) opts;
	struct ol_server *server = NULL;
	char err[256] = "";

	(void)state;
	memset(&opts, 0xa5, sizeof(opts));
	ol_server_opts_init_sized(&opts.of, sizeof(opts));
	assert_int_equal(opts.more, 0);
	opts.of.listen = NULL;
	assert_int_equal(ol_server_open(&opts.of, NULL, &server, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "listen is not given"));
	opts.more = 1;
	assert_int_equal(ol_server_open(&opts.of, NULL, &server, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "newer version"));
	assert_null(server);
}

static void a_policy_takes_a_newer_programs_options_until_they_ask_for_more(void **state)
{
	LATER(struct ol_policy_opts) opts;
	LATER(struct ol_policy_stat) stat;
	struct ol_policy *policy = NULL;

	(void)state;
	memset(&opts, 0xa5, sizeof(opts));
	memset(&stat, 0xa5, sizeof(stat));
	ol_policy_opts_init_sized(&opts.of, sizeof(opts));
	opts.more = 1;
	assert_int_equal(ol_policy_create(&opts.of, &policy), -EINVAL);
	opts.more = 0;
	assert_int_equal(ol_policy_create(&opts.of, &policy), 0);
	ol_policy_get_stat_sized(policy, &stat.of, sizeof(stat));
	assert_int_equal(stat.of.k, 1);
	assert_int_equal(stat.more, 0);
	ol_policy_destroy(policy);
}

static void options_that_were_not_initialised_say_so(void **state)
{
	struct ol_worker_opts opts = { .servers = "@nobody" };
	struct ol_worker *worker = NULL;
	char err[256] = "";

	(void)state;
	assert_int_equal(ol_worker_open(&opts, &worker, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "init function"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_shorter_struct_lacks_keeps_its_default),
		cmocka_unit_test(a_longer_struct_is_taken_only_if_what_is_longer_is_zero),
		cmocka_unit_test(a_size_that_was_never_set_is_refused),
		cmocka_unit_test(a_shorter_struct_is_filled_and_nothing_behind_it),
		cmocka_unit_test(of_a_longer_struct_the_rest_is_cleared),
		cmocka_unit_test(a_worker_takes_a_newer_programs_options_until_they_ask_for_more),
		cmocka_unit_test(a_server_takes_a_newer_programs_options_until_they_ask_for_more),
		cmocka_unit_test(a_policy_takes_a_newer_programs_options_until_they_ask_for_more),
		cmocka_unit_test(options_that_were_not_initialised_say_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
