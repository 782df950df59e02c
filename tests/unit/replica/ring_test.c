/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ring_test.c -- entries of a predecessor are taken whole or not at all, and do not change after
 * that
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "replica/ring.h"
#include "wire/wire.h"

enum {
	WORKERS = 2
};

static const struct ol_geometry geo = { .param_count = 16,
					.shard_len = 16,
					.shard_count = 1,
					.workers_max = WORKERS,
					.window = 2,
					.groups = 1,
					.consistency = OL_CONSISTENCY_ASYNC };

static struct ol_ring from, to;

static void query(const struct ol_xport *xport, struct ol_xport_caps *ret_caps)
{
	(void)xport;
	*ret_caps = (struct ol_xport_caps){ .fence_keeps = 0 };
}

static const struct ol_xport_ops ops = { .query = query };

static struct ol_memory memory;
static int wake_fd;

static int rings_open(void **state)
{
	(void)state;
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(wake_fd >= 0);
	memory = (struct ol_memory){ 0 };
	assert_int_equal(ol_memory_start(&memory, &ops, wake_fd), 0);
	assert_int_equal(ol_ring_open(&from, &ops, NULL, &memory, &geo, OL_SLAB_NODE_ANY), 0);
	assert_int_equal(ol_ring_open(&to, &ops, NULL, &memory, &geo, OL_SLAB_NODE_ANY), 0);
	return 0;
}

static int rings_close(void **state)
{
	(void)state;
	ol_ring_close(&from);
	ol_ring_close(&to);
	ol_memory_stop(&memory);
	close(wake_fd);
	return 0;
}

/* An entry of both workers, made in one ring; every third version brings a rule */
static void seal(uint64_t version)
{
	struct ol_rule rule = { .version = version, .group_count = geo.groups };

	struct ol_entry_part *parts = ol_ring_parts(&from, version);

	for (uint32_t i = 0; i < WORKERS; i++)
		parts[i] = (struct ol_entry_part){
			.seq = 100 + version, .worker = i, .slot = i, .grads = 1
		};
	ol_ring_payload(&from, version)[0] = (float)version;
	rule.groups[geo.groups - 1].lr = (float)version;
	ol_ring_seal(&from, version, 1, WORKERS, version % 3 == 0 ? &rule : NULL);
}

/* … and as it lands in the other */
static uint8_t *land(uint64_t version)
{
	uint8_t *at = (uint8_t *)ol_ring_payload(&to, version);

	memcpy(at, ol_ring_payload(&from, version), ol_ring_bytes(&from, version));
	return at + to.payload_bytes;
}

static void an_entry_is_the_same_at_the_other_end(void **state)
{
	(void)state;
	for (uint64_t version = 1; version <= 2 * from.slots; version++) {
		seal(version);
		land(version);
		assert_true(ol_ring_take(&to, version));
		assert_memory_equal(ol_ring_head(&to, version), ol_ring_head(&from, version),
				    sizeof(struct ol_entry_head));
		assert_memory_equal(ol_ring_parts(&to, version), ol_ring_parts(&from, version),
				    WORKERS * sizeof(struct ol_entry_part));
		assert_int_equal(ol_ring_rule(&to, version) != NULL, version % 3 == 0);
		if (version % 3 == 0)
			assert_memory_equal(ol_ring_rule(&to, version),
					    ol_ring_rule(&from, version), from.extra_bytes);
	}
}

static void what_was_taken_does_not_change_when_it_is_written_over(void **state)
{
	uint8_t *at;

	(void)state;
	seal(1);
	at = land(1);
	assert_true(ol_ring_take(&to, 1));
	memset(at, 0xff, sizeof(struct ol_entry_head) + sizeof(struct ol_entry_part));
	assert_int_equal(ol_ring_head(&to, 1)->parts, WORKERS);
	assert_int_equal(ol_ring_parts(&to, 1)[0].worker, 0);
	/* … nor by what comes into its slot and is none */
	assert_false(ol_ring_take(&to, 1));
	assert_int_equal(ol_ring_head(&to, 1)->parts, WORKERS);
	assert_int_equal(ol_ring_parts(&to, 1)[1].worker, 1);
}

static void a_bit_that_is_wrong_anywhere_is_found(void **state)
{
	size_t bytes = sizeof(struct ol_entry_head) + WORKERS * sizeof(struct ol_entry_part) +
		       from.extra_bytes;

	(void)state;
	seal(3);
	for (size_t i = 0; i < 8 * bytes; i++) {
		land(3)[i / 8] ^= (uint8_t)(1u << i % 8);
		assert_false(ol_ring_take(&to, 3));
	}
	land(3);
	assert_true(ol_ring_take(&to, 3));
}

static void an_entry_of_a_worker_that_cannot_be_is_none(void **state)
{
	(void)state;
	seal(4);
	ol_ring_parts(&from, 4)[1].worker = WORKERS;
	ol_ring_seal(&from, 4, 1, WORKERS, NULL);
	land(4);
	assert_false(ol_ring_take(&to, 4));
	seal(4);
	ol_ring_parts(&from, 4)[0].slot = OL_SLOTS_MAX;
	ol_ring_seal(&from, 4, 1, WORKERS, NULL);
	land(4);
	assert_false(ol_ring_take(&to, 4));
}

/* Where memory cannot be taken back from a peer: what is still needed moves, the rest does not */
static void a_ring_that_is_renewed_keeps_what_is_asked_for(void **state)
{
	const struct ol_slab *old = to.slab;

	(void)state;
	for (uint64_t version = 1; version <= 3; version++) {
		seal(version);
		land(version);
		assert_true(ol_ring_take(&to, version));
	}
	assert_int_equal(ol_ring_renew(&to, 2, 3), 0);
	assert_ptr_not_equal(to.slab, old);
	assert_int_equal(to.oldest, 2);
	for (uint64_t version = 2; version <= 3; version++)
		assert_memory_equal(ol_ring_payload(&to, version), ol_ring_payload(&from, version),
				    ol_ring_bytes(&from, version));
	assert_true(ol_ring_payload(&to, 1)[0] == 0.0f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_entry_is_the_same_at_the_other_end, rings_open,
						rings_close),
		cmocka_unit_test_setup_teardown(
			what_was_taken_does_not_change_when_it_is_written_over, rings_open,
			rings_close),
		cmocka_unit_test_setup_teardown(a_bit_that_is_wrong_anywhere_is_found, rings_open,
						rings_close),
		cmocka_unit_test_setup_teardown(an_entry_of_a_worker_that_cannot_be_is_none,
						rings_open, rings_close),
		cmocka_unit_test_setup_teardown(a_ring_that_is_renewed_keeps_what_is_asked_for,
						rings_open, rings_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
