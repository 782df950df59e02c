/* SPDX-License-Identifier: BSD-3-Clause */

/* rollback_test.c -- the version that all go back to is one that every shard has in one history */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "train/rollback.h"

enum {
	SHARDS = 3,
	MANY = 64
};

static const uint32_t from_start[SHARDS] = { 0 };
static const struct ol_line whole = { .shards = SHARDS, .epochs = from_start };

struct folder {
	struct ol_saved list[MANY];
	size_t count;
};

static void put(struct folder *folder, uint32_t shard, uint32_t epoch, uint64_t version)
{
	folder->list[folder->count++] =
		(struct ol_saved){ .shard = shard, .epoch = epoch, .version = version };
}

static void put_all(struct folder *folder, uint32_t epoch, uint64_t version)
{
	for (uint32_t shard = 0; shard < SHARDS; shard++)
		put(folder, shard, epoch, version);
}

static uint64_t common(struct folder *folder, const struct ol_line *line, uint64_t bound)
{
	return ol_saved_common(folder->list, folder->count, line, bound);
}

static size_t dead(const struct folder *folder)
{
	size_t count = 0;

	for (size_t i = 0; i < folder->count; i++)
		count += folder->list[i].dead;
	return count;
}

static void an_empty_folder_has_nothing(void **state)
{
	struct folder folder = { 0 };

	(void)state;
	assert_int_equal(common(&folder, &whole, UINT64_MAX), 0);
}

static void the_newest_that_all_have_is_taken(void **state)
{
	struct folder folder = { 0 };

	(void)state;
	put(&folder, 1, 1, 150);
	put_all(&folder, 1, 50);
	put(&folder, 0, 1, 150);
	put_all(&folder, 1, 100);
	assert_int_equal(common(&folder, &whole, UINT64_MAX), 100);
	assert_int_equal(dead(&folder), 0);
	assert_int_equal(common(&folder, &whole, 100), 100);
	assert_int_equal(common(&folder, &whole, 99), 50);
	assert_int_equal(common(&folder, &whole, 49), 0);
}

static void one_shard_without_any_leaves_the_first_weights(void **state)
{
	struct folder folder = { 0 };

	(void)state;
	for (uint64_t version = 50; version <= 200; version += 50) {
		put(&folder, 0, 1, version);
		put(&folder, 2, 1, version);
	}
	assert_int_equal(common(&folder, &whole, UINT64_MAX), 0);
}

/* They went back from 150 to 100; one has begun with the new 150, the others have the old one. */
static void two_histories_are_not_mixed(void **state)
{
	struct folder folder = { 0 };

	(void)state;
	put_all(&folder, 1, 100);
	put(&folder, 0, 1, 150);
	put(&folder, 1, 1, 150);
	put(&folder, 2, 2, 150);
	assert_int_equal(common(&folder,
				&(struct ol_line){ .version = 100,
						   .shards = SHARDS,
						   .epochs = (uint32_t[]){ 2, 2, 2 } },
				UINT64_MAX),
			 100);
	assert_int_equal(dead(&folder), 2);
}

/* Of another run, which nobody remembers: what a later epoch has says how far it had gone back. */
static void what_a_later_epoch_has_kills_what_is_not_older(void **state)
{
	struct folder folder = { 0 };

	(void)state;
	put_all(&folder, 1, 50);
	put_all(&folder, 1, 100);
	put_all(&folder, 1, 150);
	put_all(&folder, 1, 200);
	put(&folder, 0, 4, 100); /* they went back to 50, each with an epoch of its own */
	put(&folder, 1, 2, 100);
	put(&folder, 2, 3, 100);
	put(&folder, 0, 4, 150);
	assert_int_equal(common(&folder, &whole, UINT64_MAX), 100);
	assert_int_equal(dead(&folder), 9);
	assert_int_equal(common(&folder, &whole, 99), 50);
}

static void an_older_epoch_is_as_good_if_nothing_was_rolled_back(void **state)
{
	struct folder folder = { 0 };

	(void)state;
	put_all(&folder, 1, 50);
	put(&folder, 0, 1, 100);
	put(&folder, 1, 1, 100);
	put(&folder, 2, 2, 100); /* it alone was started again, and went on at 50 */
	assert_int_equal(common(&folder, &whole, UINT64_MAX), 100);
	assert_int_equal(dead(&folder), 0);
}

/* A server that stood still, was replaced, and woke up just long enough to write one more */
static void who_was_replaced_writes_for_nobody(void **state)
{
	struct folder folder = { 0 };
	const struct ol_line line = { .version = 100,
				      .shards = SHARDS,
				      .epochs = (uint32_t[]){ 3, 3, 3 } };

	(void)state;
	put_all(&folder, 2, 100);
	put(&folder, 0, 2, 125);
	put(&folder, 1, 3, 125);
	put(&folder, 2, 3, 125);
	assert_int_equal(common(&folder, &line, UINT64_MAX), 100);
	put(&folder, 0, 3, 125);
	assert_int_equal(common(&folder, &line, UINT64_MAX), 125);
	assert_int_equal(dead(&folder), 1);
}

static void only_whole_names_of_this_job_are_checkpoints(void **state)
{
	static const char *const others[] = {
		"ckpt-00000000000000ab-s1-e2-v50.olc.orig", ".ckpt-00000000000000ab-s1-e2-v50.olc",
		"ckpt-00000000000000ac-s1-e2-v50.olc",      "run-00000000000000ab-s1-e2.olc",
		"ckpt-00000000000000ab-s1-e2-v50",          "ckpt-00000000000000ab-s1",
	};
	struct ol_saved saved;
	char text[2 * OL_SAVED_NAME_MAX] = "ckpt-ab-s1-e2-v";

	(void)state;
	assert_true(ol_saved_name("ckpt-00000000000000ab-s1-e2-v50.olc", 0xab, &saved));
	assert_int_equal(saved.shard, 1);
	assert_int_equal(saved.epoch, 2);
	assert_int_equal(saved.version, 50);
	assert_string_equal(saved.name, "ckpt-00000000000000ab-s1-e2-v50.olc");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(ol_saved_name(others[i], 0xab, &saved));
	memset(text + strlen(text), '1', OL_SAVED_NAME_MAX);
	assert_false(ol_saved_name(text, 0xab, &saved));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_folder_has_nothing),
		cmocka_unit_test(the_newest_that_all_have_is_taken),
		cmocka_unit_test(one_shard_without_any_leaves_the_first_weights),
		cmocka_unit_test(two_histories_are_not_mixed),
		cmocka_unit_test(what_a_later_epoch_has_kills_what_is_not_older),
		cmocka_unit_test(an_older_epoch_is_as_good_if_nothing_was_rolled_back),
		cmocka_unit_test(who_was_replaced_writes_for_nobody),
		cmocka_unit_test(only_whole_names_of_this_job_are_checkpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
