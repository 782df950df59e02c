/* SPDX-License-Identifier: BSD-3-Clause */

/* content_test.c -- a snapshot that no server can have had is refused, and the field is named */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/content.h"
#include "wire/bounds.h"

enum {
	WORKERS = 3
};

struct fixture {
	struct ol_geometry geo; /* the last 1,000 of 2,024 parameters under Adam */
	uint8_t *content; /* a sound one */
	char why[256];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->geo = (struct ol_geometry){ .param_count = 2024,
				       .shard_first = 1024,
				       .shard_len = 1000,
				       .shard = 1,
				       .shard_count = 2,
				       .workers_max = WORKERS,
				       .window = 1,
				       .groups = 1,
				       .state_vectors = 2 };
	f->content = calloc(1, ol_layout_content_bytes(&f->geo));
	*state = f;
	return f->content == NULL;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	free(f->content);
	free(f);
	return 0;
}

static bool fault(struct fixture *f, bool nonfinite, bool no_state)
{
	struct ol_content_ask ask = { .nonfinite = nonfinite, .no_state = no_state };

	f->why[0] = '\0';
	return ol_content_fault(&f->geo, f->content, ask, f->why, sizeof(f->why));
}

static void check_fault(struct fixture *f, const char *says)
{
	assert_true(fault(f, false, false));
	if (strstr(f->why, says) == NULL)
		fail_msg("\"%s\": \"%s\"", says, f->why);
}

static void entry_put(struct fixture *f, uint32_t worker, struct ol_applied applied)
{
	memcpy(f->content + sizeof(struct ol_snapshot_head) + worker * sizeof(applied), &applied,
	       sizeof(applied));
}

static float *vector(struct fixture *f, uint32_t v)
{
	return (float *)(void *)(f->content + ol_layout_table_bytes(&f->geo) +
				 v * ol_layout_vector_bytes(&f->geo));
}

static void what_a_server_can_have_is_sound(void **state)
{
	struct ol_snapshot_head head = { .optimizer_steps = OL_VERSION_MAX };
	struct fixture *f = *state;

	assert_false(fault(f, false, false));
	memcpy(f->content, &head, sizeof(head));
	entry_put(f, 0, (struct ol_applied){ .seq = ol_seq_make(1, 1), .grads = 1 });
	entry_put(f, WORKERS - 1,
		  (struct ol_applied){ .seq = ol_seq_make(OL_SEQ_TAG_MAX, OL_SEQ_COUNT_MAX),
				       .grads = OL_GRADS_MAX,
				       .earlier = OL_GRADS_MAX });
	vector(f, 0)[7] = 3.4e38f; /* large is not infinite */
	vector(f, 2)[999] = -1e-45f;
	assert_false(fault(f, false, false));
	/* behind the vectors there is padding, and behind the table: nobody reads it */
	vector(f, 0)[f->geo.shard_len] = NAN;
	assert_false(fault(f, false, false));
}

static void a_number_of_the_table_beyond_its_bound_is_named(void **state)
{
	const uint64_t good = ol_seq_make(7, 9);
	const struct {
		struct ol_applied applied;
		const char *says;
	} wrong[] = {
		{ { .seq = UINT64_MAX, .grads = 1 }, "impossible seq (seq ffffffffffffffff" },
		{ { .seq = UINT64_MAX - 1 - OL_SEQ_COUNT_MAX, .grads = 1 }, "impossible seq" },
		{ { .seq = ol_seq_make(7, 0), .grads = 1 }, "impossible seq" },
		{ { .seq = ol_seq_make(0, 9), .grads = 1 }, "impossible seq" },
		{ { .seq = good, .grads = OL_GRADS_MAX + 1 }, "impossible grads" },
		{ { .seq = good, .grads = UINT64_MAX }, "impossible grads" },
		{ { .seq = good, .grads = 5, .earlier = 6 }, "impossible earlier" },
	};
	struct ol_snapshot_head head = { .optimizer_steps = OL_VERSION_MAX + 1 };
	struct fixture *f = *state;

	for (uint32_t worker = 0; worker < WORKERS; worker++) {
		for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
			char says[64];

			snprintf(says, sizeof(says), "table: worker %u: %s", worker, wrong[i].says);
			entry_put(f, worker, wrong[i].applied);
			check_fault(f, says);
			assert_true(fault(f, true, true)); /* bounds hold for every job */
		}
		entry_put(f, worker, (struct ol_applied){ .seq = 0 });
	}
	assert_false(fault(f, false, false));
	memcpy(f->content, &head, sizeof(head));
	check_fault(f, "table: optimizer_steps is 72057594037927936, beyond its bound");
}

static void a_float_that_is_not_finite_is_named(void **state)
{
	static const float bad[] = { INFINITY, -INFINITY, NAN };
	static const char *const says[] = { "weight 1024 of the job", "weight 1025 of the job",
					    "weight 2023 of the job" };
	static const uint32_t places[] = { 0, 1, 999 };
	struct fixture *f = *state;

	for (uint32_t v = 0; v < 3; v++) {
		for (size_t i = 0; i < 9; i++) {
			vector(f, v)[places[i / 3]] = bad[i % 3];
			check_fault(f, says[i / 3]);
			assert_int_equal(strstr(f->why, "optimizer state") != NULL, v > 0);
			assert_false(fault(f, true, false));
			assert_int_equal(fault(f, false, true), v == 0);
			vector(f, v)[places[i / 3]] = 0.0f;
		}
	}
	assert_false(fault(f, false, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_a_server_can_have_is_sound, setup, teardown),
		cmocka_unit_test_setup_teardown(a_number_of_the_table_beyond_its_bound_is_named,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_float_that_is_not_finite_is_named, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
