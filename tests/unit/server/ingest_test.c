/* SPDX-License-Identifier: BSD-3-Clause */

/* ingest_test.c -- what is counted of an applied gradient: only one that missed a step was carried into a later one */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "server/ingest.h"

enum {
	VERSION = 7 /* of the weights that it is applied to */
};

/* What is carried if a gradient of this base is applied, `again` after its server had lost it */
static uint64_t carried(enum ol_consistency consistency, enum ol_late late, uint64_t base,
			bool again)
{
	struct ol_board board = { 0 };
	struct ol_store store = { .board = &board };
	struct ol_server_opts opts = { .consistency = consistency, .late = late };
	struct ol_ingest ingest = { .opts = &opts, .store = &store };
	const struct ol_slot_state state = {
		.base_version = base, .grads = 3, .again = again, .loss = NAN
	};

	ol_ingest_count(&ingest, &state, VERSION);
	assert_int_equal(board.applied, 3);
	assert_int_equal(board.staleness_sum, VERSION - base);
	return board.carried;
}

static void a_gradient_that_missed_its_step_is_carried(void **state)
{
	(void)state;
	assert_int_equal(carried(OL_CONSISTENCY_SYNC, OL_LATE_NEXT, VERSION - 1, false), 3);
	assert_int_equal(carried(OL_CONSISTENCY_SYNC, OL_LATE_AGED, VERSION - 1, false), 3);
	assert_int_equal(carried(OL_CONSISTENCY_SYNC, OL_LATE_DROP, VERSION - 1, true), 3);
	assert_int_equal(carried(OL_CONSISTENCY_SYNC, OL_LATE_NEXT, VERSION, false), 0);
	assert_int_equal(carried(OL_CONSISTENCY_SYNC, OL_LATE_DROP, VERSION, true), 0);
}

static void where_each_gradient_is_a_step_none_is_carried(void **state)
{
	(void)state;
	assert_int_equal(carried(OL_CONSISTENCY_ASYNC, OL_LATE_DROP, VERSION - 1, true), 0);
	assert_int_equal(carried(OL_CONSISTENCY_SSP, OL_LATE_DROP, VERSION - 1, true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gradient_that_missed_its_step_is_carried),
		cmocka_unit_test(where_each_gradient_is_a_step_none_is_carried),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
