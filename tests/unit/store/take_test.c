/* SPDX-License-Identifier: BSD-3-Clause */

/* take_test.c -- a version that another server made is published whole: no reader takes the snapshot
 * that it is copied into for whole, before or during the copy */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/store.h"
#include "wire/format.h"

enum {
	LEN = 3 << 20, /* several pieces of a copy */
	WORKERS = 5,
};

struct fixture {
	struct ol_geometry geo;
	struct ol_store store;
	void *memory;
	float *weights;
	uint8_t *table;
	unsigned pieces; /* that were run */
	unsigned target;
	uint64_t version;
};

static int setup(void **state)
{
	const struct ol_update_rule rule = { .optimizer = OL_OPTIMIZER_SGD, .lr = 1.0f };
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->geo = (struct ol_geometry){
		.param_count = LEN,
		.shard_len = LEN,
		.shard_count = 1,
		.workers_max = WORKERS,
		.window = 2,
		.consistency = OL_CONSISTENCY_ASYNC,
		.groups = 1,
		.weights_bf16 = 1,
	};
	f->memory = aligned_alloc(4096, ol_layout_public_bytes(&f->geo));
	f->weights = calloc(LEN, sizeof(*f->weights));
	f->table = malloc(ol_layout_table_bytes(&f->geo));
	assert_true(f->memory != NULL && f->weights != NULL && f->table != NULL);
	memset(f->memory, 0, ol_layout_public_bytes(&f->geo));
	assert_int_equal(ol_store_init(&f->store, &f->geo, &rule, f->memory, f->weights), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	free(f->memory);
	free(f->weights);
	free(f->table);
	free(f);
	return 0;
}

/* Everything has this value */
static void take(struct fixture *f, uint64_t version, unsigned target)
{
	for (unsigned i = 0; i < LEN; i++)
		f->weights[i] = (float)version;
	memset(f->table, (int)version, ol_layout_table_bytes(&f->geo));
	f->target = target;
	f->version = version;
	ol_store_take(&f->store, version, f->table, f->weights, target);
}

static void check_is(const struct fixture *f, unsigned snapshot, uint64_t version)
{
	const uint8_t *content = ol_store_content(&f->store, snapshot);
	const float *weights =
		(const float *)(const void *)(content + ol_layout_table_bytes(&f->geo));
	const uint16_t *bf16 = f->store.parts[snapshot].bf16;

	assert_int_equal(ol_store_find(&f->store, version), (int)snapshot);
	assert_int_equal(content[0], version);
	assert_int_equal(content[ol_layout_table_bytes(&f->geo) - 1], version);
	for (unsigned i = 0; i < LEN; i++)
		assert_true(weights[i] == (float)version);
	for (unsigned i = 0; i < LEN; i++)
		assert_true(ol_format_float((uint32_t)bf16[i] << 16) == (float)version);
}

static void versions_may_be_far_apart(void **state)
{
	struct fixture *f = *state;
	const struct ol_version_line *line = &f->store.board->line;

	take(f, 7, 1);
	assert_int_equal(ol_published_version(line->published), 7);
	assert_int_equal(ol_published_snapshot(line->published), 1);
	take(f, 90, 2);
	check_is(f, 1, 7); /* of readers that are slow */
	check_is(f, 2, 90);
	assert_int_equal(f->store.version, 90);
	take(f, 91, (unsigned)ol_store_target(&f->store, 1u << 1)); /* 7 is pinned */
	check_is(f, 0, 91);
	check_is(f, 1, 7);
	assert_int_equal(ol_store_find(&f->store, 0), -1);
}

static void run_and_look(void *arg, ol_store_piece_fn *piece, void *piece_arg, unsigned count)
{
	struct fixture *f = arg;
	const struct ol_version_line *line = &f->store.board->line;

	f->pieces += count;
	for (unsigned i = count; i-- > 0;) { /* any order will do */
		assert_int_equal(line->begin[f->target], f->version + 1);
		assert_int_not_equal(line->end[f->target], f->version + 1);
		assert_int_not_equal(ol_published_version(line->published), f->version);
		piece(piece_arg, i);
	}
}

static void a_reader_takes_no_part_of_it_for_whole(void **state)
{
	struct fixture *f = *state;

	f->store.run = run_and_look;
	f->store.run_arg = f;
	take(f, 3, 1);
	assert_int_equal(f->pieces, 3);
	check_is(f, 1, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(versions_may_be_far_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reader_takes_no_part_of_it_for_whole, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
