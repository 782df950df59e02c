/* SPDX-License-Identifier: BSD-3-Clause */

/* vouch_test.c -- a server's word holds for what it published, through updates of every kind; it
 * holds for nothing else, and for no other job */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/auth.h"
#include "wire/bounds.h"
#include "wire/vouch.h"

enum {
	WORKERS = 5,
	UPDATES = 400, /* more than two times the pads that are made at once */
};

static const char key[] = "a job's key of this test, long enough";
static const struct ol_geometry geo = { .param_count = 1000,
					.shard_len = 1000,
					.shard_count = 1,
					.workers_max = WORKERS,
					.window = 1,
					.groups = 1,
					.tensors_bytes = OL_LINE_BYTES };

enum {
	RULE_BYTES = 128 /* of one group */
};

/* Head, table, rule and tensors as they lie in a snapshot */
struct table {
	struct ol_snapshot_head head;
	struct ol_applied applied[WORKERS];
	_Alignas(OL_LINE_BYTES) uint8_t rule[RULE_BYTES];
	char tensors[OL_LINE_BYTES]; /* a text that fills it */
};

struct fixture {
	struct ol_voucher *voucher;
	struct ol_vouched what;
	struct table table;
};

static int set_up(void **state)
{
	static struct fixture f;

	f = (struct fixture){
		.what = { .history = UINT64_C(0xfedcba9876543210), .founded = 3, .version = 17 }
	};
	f.table.head.optimizer_steps = 12;
	memset(f.table.tensors, 'x', sizeof(f.table.tensors) - 1);
	for (uint32_t i = 0; i < WORKERS; i++)
		f.table.applied[i] = (struct ol_applied){ .seq = ol_seq_make(i + 1, 10 + i),
							  .grads = 30 + i,
							  .earlier = i };
	assert_int_equal(ol_voucher_open(key, 0x1234567890, &geo, &f.voucher), 0);
	ol_voucher_begin(f.voucher, &f.what, &f.table);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	ol_voucher_close(f->voucher);
	return 0;
}

static bool holds(const struct fixture *f)
{
	return ol_voucher_check(key, &geo, &f->what, &f->table) == 0;
}

static void update(struct fixture *f, uint32_t worker, struct ol_applied to)
{
	ol_voucher_change(f->voucher, worker, &f->table.applied[worker], &to);
	f->table.applied[worker] = to;
	f->table.head.optimizer_steps++;
	f->what.version++;
	ol_voucher_next(f->voucher, &f->table.head);
}

static void holds_after_every_update(void **state)
{
	struct fixture *f = *state;

	assert_true(holds(f));
	for (unsigned i = 0; i < UPDATES; i++) {
		struct ol_applied to = f->table.applied[i % WORKERS];

		if (i % 7 == 0) { /* another process of the worker */
			to.seq = ol_seq_make(1000 + i, 1);
			to.earlier = to.grads;
		} else if (i % 11 == 0) { /* its upper half changes */
			to.seq = ol_seq_make(ol_seq_tag(to.seq), (UINT64_C(1) << 32) + i);
		} else {
			to.seq += 1 + i % 3;
		}
		to.grads += i % 5 != 0 ? 1 : UINT32_MAX;
		update(f, i % WORKERS, to);
		assert_true(holds(f));
	}
}

static void holds_for_the_largest_numbers(void **state)
{
	struct fixture *f = *state;

	f->what.version = OL_VERSION_MAX - 1;
	f->table.head.optimizer_steps = OL_VERSION_MAX - 1;
	for (uint32_t i = 0; i < WORKERS; i++)
		f->table.applied[i] =
			(struct ol_applied){ .seq = ol_seq_make(OL_SEQ_TAG_MAX, OL_SEQ_COUNT_MAX),
					     .grads = OL_GRADS_MAX,
					     .earlier = OL_GRADS_MAX };
	ol_voucher_begin(f->voucher, &f->what, &f->table);
	assert_true(holds(f));
	update(f, 0, (struct ol_applied){ .seq = ol_seq_make(1, 1), .grads = OL_GRADS_MAX });
	assert_true(holds(f));
}

/* Each bit of head, table and rule that is in use, and of what is said of them */
static void no_bit_may_change(void **state)
{
	struct fixture *f = *state;
	const size_t used = offsetof(struct ol_snapshot_head, reserved);
	const size_t end = offsetof(struct table, applied) + sizeof(f->table.applied);
	uint8_t *bytes = (uint8_t *)&f->table;

	for (size_t i = 0; i < 8 * sizeof(f->table); i++) {
		if ((i / 8 >= used && i / 8 < sizeof(f->table.head)) ||
		    (i / 8 >= end && i / 8 < offsetof(struct table, rule)))
			continue;
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_false(holds(f));
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	for (unsigned i = 0; i < 64; i++) {
		f->what.history ^= UINT64_C(1) << i;
		assert_false(holds(f));
		f->what.history ^= UINT64_C(1) << i;
		f->what.version ^= UINT64_C(1) << i;
		assert_false(holds(f));
		f->what.version ^= UINT64_C(1) << i;
	}
	for (unsigned i = 0; i < 32; i++) {
		f->what.founded ^= 1u << i;
		assert_false(holds(f));
		f->what.founded ^= 1u << i;
	}
	assert_true(holds(f));
}

static void words_cannot_be_exchanged(void **state)
{
	struct fixture *f = *state;
	struct ol_applied first = f->table.applied[0];
	struct table before = f->table;

	f->table.applied[0] = f->table.applied[1];
	f->table.applied[1] = first;
	assert_false(holds(f));
	f->table = before;
	/* 2^61 - 1 more is the same modulo 2^61 - 1 */
	f->table.applied[2].grads += (UINT64_C(1) << 61) - 1;
	assert_false(holds(f));
	f->table = before;
	f->table.head.optimizer_steps += (UINT64_C(1) << 61) - 1;
	assert_false(holds(f));
	f->table = before;
	f->what.version += (UINT64_C(1) << 61) - 1;
	assert_false(holds(f));
}

static void a_word_holds_for_its_version_alone(void **state)
{
	struct fixture *f = *state;
	struct fixture old = *f;
	struct ol_applied to = f->table.applied[2];

	to.seq++;
	to.grads++;
	update(f, 2, to);
	assert_true(holds(&old));
	old.what.version++; /* an older table as the newest */
	assert_false(holds(&old));
	old.table.head = f->table.head;
	assert_false(holds(&old));
	f->table.head.number++; /* the pad of another */
	assert_false(holds(f));
}

static void a_rule_that_changes_is_part_of_the_next_word(void **state)
{
	struct fixture *f = *state;
	struct ol_applied to = f->table.applied[2];
	struct ol_rule rule = { .version = 1, .group_count = 1 };

	assert_int_equal(ol_layout_rule_bytes(&geo), RULE_BYTES);
	assert_int_equal(ol_layout_rule_off(&geo), offsetof(struct table, rule));
	for (unsigned i = 0; i < 3; i++) {
		rule.groups[0].lr = (float)i;
		memcpy(f->table.rule, &rule, RULE_BYTES);
		assert_false(holds(f)); /* a rule that no server published */
		ol_voucher_rule(f->voucher, &rule);
		to.seq++;
		to.grads++;
		update(f, 2, to);
		assert_true(holds(f));
		to.seq++;
		to.grads++;
		update(f, 2, to); /* by the same rule */
		assert_true(holds(f));
	}
}

static void other_jobs_shards_and_processes(void **state)
{
	static const char other[] = "another job's key, just as long as this";
	struct fixture *f = *state;
	struct ol_geometry shard = geo;

	shard.shard = 1;
	assert_int_equal(ol_voucher_check(other, &geo, &f->what, &f->table), -EACCES);
	assert_int_equal(ol_voucher_check(key, &shard, &f->what, &f->table), -EACCES);
	f->table.head.voucher ^= 1;
	assert_false(holds(f));
	f->table.head.voucher = 0;
	assert_false(holds(f));
}

static void credentials(void **state)
{
	char server[OL_CREDENTIAL_MAX], worker[OL_CREDENTIAL_MAX];
	struct ol_voucher *none = NULL;
	struct fixture *f = *state;

	assert_int_equal(ol_credential(key, OL_HOLDER_JOB, 0, server), 0);
	assert_int_equal(ol_credential(key, OL_HOLDER_WORKER, 1, worker), 0);
	assert_int_equal(ol_voucher_check(server, &geo, &f->what, &f->table), 0);
	assert_int_equal(ol_voucher_check(worker, &geo, &f->what, &f->table), -EACCES);
	assert_int_equal(ol_voucher_open(worker, 1, &geo, &none), -EPERM);
	assert_null(none);
}

/* A tag tells nothing about the table: the same table, vouched for again, has another */
static void a_pad_is_used_once(void **state)
{
	struct fixture *f = *state;
	uint64_t tags[UPDATES];

	for (unsigned i = 0; i < UPDATES; i++) {
		ol_voucher_begin(f->voucher, &f->what, &f->table);
		assert_true(holds(f));
		tags[i] = f->table.head.tag;
		for (unsigned j = 0; j < i; j++)
			assert_true(tags[j] != tags[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(holds_after_every_update, set_up, tear_down),
		cmocka_unit_test_setup_teardown(holds_for_the_largest_numbers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_bit_may_change, set_up, tear_down),
		cmocka_unit_test_setup_teardown(words_cannot_be_exchanged, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_word_holds_for_its_version_alone, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_rule_that_changes_is_part_of_the_next_word,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(other_jobs_shards_and_processes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(credentials, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_pad_is_used_once, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
