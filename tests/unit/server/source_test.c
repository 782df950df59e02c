/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * source_test.c -- an empty server begins with the weights that lack the fewest pushes, of these the
 * newest, and waits for a bounded time for a worker that may have newer ones
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "server/source.h"
#include "wire/bounds.h"
#include "wire/seq.h"

enum {
	WORKERS = 3,
	SESSIONS = WORKERS + 2, /* … and observers */
	WAIT_MS = 1000,
	TAG = 7, /* of every worker's process */
};

static const uint64_t start = OL_NS_PER_S;
static const uint64_t waited = OL_NS_PER_S + WAIT_MS * OL_NS_PER_MS;

static struct ol_server_opts opts;
static struct ol_store store;
static struct ol_sessions all;
static struct ol_sources sources;
static struct ol_session sessions[SESSIONS];
static struct ol_applied tables[WORKERS][WORKERS];
static struct ol_source chosen;

static int setup(void **unused)
{
	(void)unused;
	memset(&opts, 0, sizeof(opts));
	memset(&store, 0, sizeof(store));
	memset(&all, 0, sizeof(all));
	memset(&sources, 0, sizeof(sources));
	memset(sessions, 0, sizeof(sessions));
	memset(tables, 0, sizeof(tables));
	store.geo = (struct ol_geometry){
		.param_count = 16, .shard_len = 16, .shard_count = 1, .workers_max = WORKERS
	};
	store.memory = calloc(1, ol_layout_public_bytes(&store.geo));
	assert_non_null(store.memory);
	sources.opts = &opts;
	sources.store = &store;
	sources.sessions = &all;
	all.all = sessions;
	all.count = SESSIONS;
	opts.workers_max = WORKERS;
	opts.consistency = OL_CONSISTENCY_ASYNC;
	opts.restore_wait_ms = WAIT_MS;
	sources.since_ns = start;
	for (uint32_t i = 0; i < SESSIONS; i++) {
		sessions[i].worker = i;
		sessions[i].role = i < WORKERS ? OL_ROLE_WORKER : OL_ROLE_OBSERVER;
	}
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	free(store.memory);
	return 0;
}

/* A worker is here: it was told of its pushes up to `gone`, and keeps them no more; no mirror */
static struct ol_hello *here(uint32_t worker, uint64_t gone)
{
	sessions[worker].state = OL_SESSION_JOINED;
	sessions[worker].hello.gone_seq = gone != 0 ? ol_seq_make(TAG, gone) : 0;
	return &sessions[worker].hello;
}

/* … with a mirror, of whose table nothing is filled in */
static struct ol_hello *mirror(uint32_t worker, uint64_t history, uint32_t epoch, uint64_t version)
{
	struct ol_hello *hello = here(worker, 0);

	hello->mirror.bytes = 1;
	hello->mirror_history = history;
	hello->mirror_epoch = epoch;
	hello->mirror_version = version;
	sessions[worker].table = tables[worker];
	return hello;
}

/* The weights of a worker's mirror have the first `count` pushes of `of` */
static void has(uint32_t worker, uint32_t of, uint64_t count)
{
	tables[worker][of] = (struct ol_applied){ .seq = ol_seq_make(TAG, count), .grads = count };
}

static void gone(uint32_t worker, uint64_t count)
{
	sessions[worker].hello.gone_seq = ol_seq_make(TAG, count);
}

/* Whether it begins at that time; with whose mirror is in `chosen` */
static bool begins(uint64_t now_ns)
{
	return ol_source_choose(&sources, now_ns, &chosen);
}

static void chooses(const struct ol_session *session)
{
	(void)begins(waited);
	assert_ptr_equal(chosen.session, session);
}

static void of_one_history_the_newest_version_is_taken(void **unused)
{
	(void)unused;
	mirror(0, 1, 9, 10);
	mirror(1, 1, 3, 12); /* sessions of one history may be of any epoch */
	mirror(2, 1, 9, 11);
	chooses(&sessions[1]);
	assert_int_equal(chosen.version, 12);
}

static void of_two_histories_the_later_epoch_is_taken(void **unused)
{
	(void)unused;
	mirror(0, 1, 3, 100);
	mirror(1, 2, 4, 5);
	chooses(&sessions[1]);
}

static void of_equal_versions_the_one_with_more_gradients_is_taken(void **unused)
{
	(void)unused;
	mirror(0, 1, 3, 10);
	mirror(1, 1, 3, 10);
	mirror(2, 1, 3, 10);
	has(0, 0, 5);
	has(1, 0, 7);
	has(2, 0, 6);
	chooses(&sessions[1]);
	assert_int_equal(chosen.grads, 7);
}

static void what_faultless_tables_hold_is_added_up_without_overflow(void **unused)
{
	(void)unused;
	mirror(0, 1, 3, 10);
	mirror(1, 1, 3, 10);
	for (uint32_t i = 0; i < WORKERS; i++)
		tables[0][i].grads = OL_GRADS_MAX;
	has(1, 0, 5);
	chooses(&sessions[0]);
	assert_true(chosen.grads == WORKERS * OL_GRADS_MAX);
}

static void what_lacks_least_is_taken_however_old(void **unused)
{
	(void)unused;
	mirror(0, 2, 9, 100);
	mirror(1, 1, 3, 10);
	gone(2, 20);
	here(2, 20);
	has(0, 2, 18);
	has(1, 2, 19);
	chooses(&sessions[1]);
	assert_int_equal(chosen.lost, 1);
	has(0, 2, 20);
	chooses(&sessions[0]);
	assert_int_equal(chosen.lost, 0);
}

/* Numbers of another process say nothing of this one's */
static void all_of_a_process_is_lost_that_the_table_does_not_name(void **unused)
{
	(void)unused;
	mirror(0, 1, 3, 10);
	here(1, 4);
	tables[0][1] = (struct ol_applied){ .seq = ol_seq_make(TAG + 1, 900), .grads = 900 };
	chooses(&sessions[0]);
	assert_int_equal(chosen.lost, 4);
	assert_int_equal(chosen.grads, 900);
}

static void a_checkpoint_is_taken_where_it_is_newer(void **unused)
{
	(void)unused;
	sources.floor = true;
	sources.floor_epoch = 4;
	sources.floor_version = 10;
	mirror(0, 1, 4, 9);
	chooses(NULL);
	assert_non_null(chosen.table);
	assert_int_equal(chosen.version, 10);
	sessions[0].hello.mirror_version = 11;
	chooses(&sessions[0]);
	sessions[0].hello.mirror_epoch = 3; /* nobody knows of which history the checkpoint is */
	chooses(NULL);
	sessions[0].hello.mirror_epoch = 5;
	sessions[0].hello.mirror_version = 1;
	chooses(&sessions[0]);
}

/* A chain's checkpoint has the epoch of a view, and a mirror the one in which its history was founded */
static void a_checkpoint_and_a_mirror_of_one_history_go_by_version(void **unused)
{
	char text[OL_SOURCES_TEXT_MAX];

	(void)unused;
	sources.floor = true;
	sources.floor_epoch = 9;
	sources.floor_version = 10;
	sources.floor_of = (struct ol_vouched){ .history = 77, .founded = 2 };
	mirror(0, 1, 2, 11);
	sessions[0].hello.mirror_history = 77;
	chooses(&sessions[0]);
	assert_int_equal(ol_source_say(&sources, text), 2);
	assert_string_equal(
		text,
		"a checkpoint of version 10, 1 behind the newest, which lacks 0 applied pushes; "
		"a worker's mirror, version 11, which lacks 0");
	sessions[0].hello.mirror_version = 9;
	chooses(NULL);
	assert_int_equal(chosen.version, 10);
	sessions[0].hello.mirror_history = 78; /* founded anew since */
	sessions[0].hello.mirror_epoch = 3;
	chooses(&sessions[0]);
	sessions[0].hello.mirror_epoch = 1; /* or before */
	chooses(NULL);
}

/* A running checkpoint of history 77, whose table is of version 10, and has so many pushes of a worker; its blocks are
 * half of version 10, and half of `older` */
static uint64_t block_versions[2];

static void running(uint32_t worker, uint64_t count, uint64_t older)
{
	static uint64_t first[] = { 0, 8, 16 };
	static struct ol_ckpt_blocks blocks = { .count = 2, .first = first };
	struct ol_applied *table =
		(void *)((uint8_t *)ol_store_content(&store, 0) + sizeof(struct ol_snapshot_head));

	block_versions[0] = 10;
	block_versions[1] = older;
	sources.floor = true;
	sources.floor_epoch = 4;
	sources.floor_version = 10;
	sources.floor_of = (struct ol_vouched){ .history = 77, .founded = 4 };
	sources.blocks = &blocks;
	sources.block_versions = block_versions;
	table[worker] = (struct ol_applied){ .seq = ol_seq_make(TAG, count), .grads = count };
}

static void nothing_lost_is_better_than_older_blocks(void **unused)
{
	char text[OL_SOURCES_TEXT_MAX];

	(void)unused;
	running(0, 10, 4);
	mirror(0, 77, 4, 7)->tag = TAG;
	has(0, 0, 7);
	chooses(&sessions[0]); /* it pushes 8 to 10 again */
	assert_int_equal(chosen.absent, 0);
	ol_source_say(&sources, text);
	assert_string_equal(
		text,
		"a checkpoint of version 10, 0 behind the newest, which lacks 0 applied pushes, and its blocks, "
		"with newer ones of a mirror, 1.5 gradients in the mean; a worker's mirror, version 7, "
		"which lacks 0");
	block_versions[1] = 10; /* it is whole */
	chooses(NULL);
	assert_null(chosen.lends);
	assert_true(chosen.cost == 0.0);
}

static void what_nobody_keeps_is_weighed_against_older_blocks(void **unused)
{
	char text[OL_SOURCES_TEXT_MAX];

	(void)unused;
	running(0, 10, 4);
	mirror(0, 77, 4, 7)->tag = TAG + 1; /* another process of the id */
	has(0, 0, 7);
	chooses(NULL);
	assert_ptr_equal(chosen.lends, &sessions[0]);
	assert_true(chosen.cost == 1.5); /* half of them lack three */
	ol_source_say(&sources, text);
	assert_non_null(strstr(text, "which lacks 0, and 3 that nobody keeps"));
	has(0, 0, 9); /* of another worker's were two of the three */
	chooses(&sessions[0]);
	assert_int_equal(chosen.absent, 1);
}

/* A push from a queue holds many */
static void gradients_are_weighed_and_not_pushes(void **unused)
{
	struct ol_applied *saved =
		(void *)((uint8_t *)ol_store_content(&store, 0) + sizeof(struct ol_snapshot_head));

	(void)unused;
	running(0, 10, 4);
	saved[1] = (struct ol_applied){ .seq = ol_seq_make(TAG, 1), .grads = 400 };
	mirror(0, 77, 4, 9)->tag = TAG;
	has(0, 0, 10);
	here(1, 0)->tag = TAG + 1; /* the process that pushed them is gone */
	chooses(NULL);
	assert_ptr_equal(chosen.lends, &sessions[0]);
	here(1, 0)->tag = TAG;
	chooses(&sessions[0]);
	assert_int_equal(chosen.absent, 0);
}

static void an_older_mirror_without_optimizer_state_only_lends(void **unused)
{
	(void)unused;
	store.geo.state_vectors = 2;
	free(store.memory);
	store.memory = calloc(1, ol_layout_public_bytes(&store.geo));
	assert_non_null(store.memory);
	running(0, 10, 4);
	mirror(0, 77, 4, 7)->tag = TAG;
	sessions[0].hello.state_off = OL_MIRROR_NO_STATE;
	has(0, 0, 7);
	chooses(NULL);
	assert_ptr_equal(chosen.lends, &sessions[0]);
	sessions[0].hello.mirror_version = 10; /* of the same version it lends all that is older */
	has(0, 0, 10);
	chooses(NULL);
	assert_ptr_equal(chosen.lends, &sessions[0]);
	assert_true(chosen.cost == 0.0);
	sessions[0].hello.mirror_version = 11;
	chooses(&sessions[0]);
	sessions[0].hello.mirror_version = 7;
	sessions[0].hello.state_off = 0;
	chooses(&sessions[0]);
}

/* Its next process cannot make them */
static void a_mirror_that_lacks_parts_of_steps_is_not_taken(void **unused)
{
	(void)unused;
	running(0, 10, 4);
	mirror(0, 77, 4, 8)->tag = TAG + 1;
	has(0, 0, 9);
	block_versions[0] = 4;
	chooses(&sessions[0]); /* a gradient, where each block would lack two */
	opts.consistency = OL_CONSISTENCY_SYNC;
	chooses(NULL);
	sessions[0].hello.tag = TAG;
	chooses(&sessions[0]);
}

static void the_newest_mirror_of_its_history_lends_older_blocks(void **unused)
{
	(void)unused;
	running(2, 10, 4);
	mirror(0, 77, 4, 6);
	has(0, 2, 1);
	mirror(1, 77, 4, 8);
	has(1, 2, 2);
	chooses(NULL);
	assert_ptr_equal(chosen.lends, &sessions[1]);
	assert_true(chosen.cost == 1.0);
	sessions[1].hello.mirror_history = 76;
	sessions[1].hello.mirror_epoch = 3;
	chooses(NULL);
	assert_ptr_equal(chosen.lends, &sessions[0]);
	sessions[0].hello.mirror_version = 4; /* no block is older */
	chooses(NULL);
	assert_null(chosen.lends);
	assert_true(chosen.cost == 3.0);
	sources.floor_of.history = 0; /* not said */
	sessions[0].hello.mirror_version = 6;
	chooses(NULL);
	assert_null(chosen.lends);
}

/* Who is in the checkpoint and not in the mirror may have a newer one */
static void who_is_in_the_checkpoint_alone_is_waited_for(void **unused)
{
	(void)unused;
	running(2, 1, 1);
	mirror(0, 77, 4, 9);
	has(0, 0, 3);
	block_versions[0] = block_versions[1] = 0;
	((struct ol_applied *)(void *)((uint8_t *)ol_store_content(&store, 0) +
				       sizeof(struct ol_snapshot_head)))[0] =
		(struct ol_applied){ .seq = ol_seq_make(TAG, 30), .grads = 30 };
	sessions[0].hello.tag = TAG;
	assert_false(begins(waited - 1));
	assert_ptr_equal(chosen.session, &sessions[0]);
	assert_int_equal(chosen.absent, 1);
	assert_true(begins(waited));
	here(2, 0);
	assert_true(begins(start));
}

static void what_is_no_whole_mirror_of_a_worker_is_not_taken(void **unused)
{
	(void)unused;
	mirror(0, 1, 3, 10)->mirror.bytes = 0;
	mirror(1, 1, 3, 11);
	sessions[1].table = NULL; /* its table was not read */
	mirror(2, 1, 3, 12);
	sessions[2].state = OL_SESSION_ACCEPTED;
	sessions[WORKERS] = sessions[2];
	sessions[WORKERS].state = OL_SESSION_JOINED;
	sessions[WORKERS].role = OL_ROLE_OBSERVER;
	chooses(NULL);
	assert_null(chosen.table);
}

static void who_counts_is_waited_for_and_not_for_ever(void **unused)
{
	(void)unused;
	opts.workers = 2;
	mirror(0, 1, 3, 10);
	assert_false(begins(waited - 1));
	assert_true(begins(waited));
	here(1, 0);
	assert_true(begins(start));
	has(0, 2, 1); /* it was in the job, whoever counts */
	assert_false(begins(start));
	sources.refused[0] = UINT64_C(1) << 2;
	assert_true(begins(start));
	sources.refused[0] = 0;
	here(2, 0);
	assert_true(begins(start));
}

static void first_weights_wait_for_a_mirror(void **unused)
{
	(void)unused;
	opts.workers = 1; /* one worker is no number: nobody said how many there are */
	here(0, 0);
	assert_false(begins(waited - 1));
	assert_true(begins(waited));
	assert_null(chosen.session);
	sources.begins = true;
	assert_true(begins(start));
	sources.begins = false;
	assert_false(begins(start));
}

static void weights_that_lack_something_wait_for_better_ones(void **unused)
{
	(void)unused;
	mirror(0, 1, 3, 10);
	has(0, 1, 3);
	here(1, 4);
	assert_false(begins(waited - 1));
	assert_int_equal(chosen.lost, 1);
	assert_true(begins(waited));
	opts.restore_workers = 1; /* all are here: there are none */
	assert_true(begins(start));
	opts.restore_workers = 3;
	assert_false(begins(start));
}

/* It pushed as one process up to version 17, as another up to 20, and says now that the first one's
 * pushes are missing in 20 */
static void a_lie_about_what_is_gone_makes_no_older_mirror_better(void **unused)
{
	(void)unused;
	mirror(0, 1, 3, 20);
	has(0, 0, 10);
	tables[0][1] = (struct ol_applied){ .seq = ol_seq_make(TAG + 1, 3), .grads = 10 };
	mirror(1, 1, 3, 17);
	has(1, 0, 10);
	has(1, 1, 7);
	gone(1, 7);
	chooses(&sessions[0]);
	assert_int_equal(chosen.lost, 0);
	opts.replicate_every = 8; /* there, version 20 may be of another course than 17 */
	chooses(&sessions[1]);
	sessions[1].hello.mirror_history = 2;
	opts.replicate_every = 0;
	chooses(&sessions[1]);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(of_one_history_the_newest_version_is_taken),
		test(of_two_histories_the_later_epoch_is_taken),
		test(of_equal_versions_the_one_with_more_gradients_is_taken),
		test(what_faultless_tables_hold_is_added_up_without_overflow),
		test(what_lacks_least_is_taken_however_old),
		test(all_of_a_process_is_lost_that_the_table_does_not_name),
		test(a_lie_about_what_is_gone_makes_no_older_mirror_better),
		test(a_checkpoint_is_taken_where_it_is_newer),
		test(a_checkpoint_and_a_mirror_of_one_history_go_by_version),
		test(nothing_lost_is_better_than_older_blocks),
		test(what_nobody_keeps_is_weighed_against_older_blocks),
		test(gradients_are_weighed_and_not_pushes),
		test(an_older_mirror_without_optimizer_state_only_lends),
		test(a_mirror_that_lacks_parts_of_steps_is_not_taken),
		test(the_newest_mirror_of_its_history_lends_older_blocks),
		test(who_is_in_the_checkpoint_alone_is_waited_for),
		test(what_is_no_whole_mirror_of_a_worker_is_not_taken),
		test(who_counts_is_waited_for_and_not_for_ever),
		test(first_weights_wait_for_a_mirror),
		test(weights_that_lack_something_wait_for_better_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
