/* SPDX-License-Identifier: BSD-3-Clause */

/* store_test.c -- a published snapshot is whole and stays so until two more are published; a dropped
 * gradient leaves no trace in weights, state or applied table */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/pool.h"
#include "store/store.h"
#include "wire/format.h"

enum {
	LEN = 100
};

struct fixture {
	struct ol_geometry geo;
	struct ol_update_rule rule;
	struct ol_store store;
	void *memory;
	float initial[LEN];
	float grad[3][LEN];
};

static struct fixture *fixture_make(enum ol_optimizer optimizer)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->geo = (struct ol_geometry){
		.param_count = LEN,
		.shard_len = LEN,
		.shard_count = 1,
		.workers_max = 5,
		.window = 2,
		.groups = 1,
		.state_vectors = ol_rule_state_vectors(optimizer),
		.consistency = OL_CONSISTENCY_ASYNC,
		.weights_bf16 = 1,
	};
	f->rule = (struct ol_update_rule){ .optimizer = optimizer,
					   .lr = 1.0f,
					   .momentum = 0.5f,
					   .beta1 = 0.9f,
					   .beta2 = 0.9f,
					   .epsilon = 1.0f };
	for (int i = 0; i < LEN; i++) {
		f->initial[i] = (float)i;
		for (int k = 0; k < 3; k++)
			f->grad[k][i] = (float)(k + 1);
	}
	f->memory = aligned_alloc(4096, ol_layout_public_bytes(&f->geo));
	assert_non_null(f->memory);
	memset(f->memory, 0, ol_layout_public_bytes(&f->geo));
	assert_int_equal(ol_store_init(&f->store, &f->geo, &f->rule, f->memory, f->initial), 0);
	return f;
}

static void fixture_free(struct fixture *f)
{
	free(f->memory);
	free(f);
}

/* Readers that want the published weights as bf16 get just these, rounded once */
static void bf16_is_of_the_weights(const struct ol_store *store)
{
	const uint64_t bytes = store->geo.shard_len * sizeof(uint16_t);
	uint16_t *want = malloc(bytes);

	assert_non_null(want);
	ol_format_encode(OL_FORMAT_BF16, want, ol_store_weights(store), NULL, store->geo.shard_len);
	assert_memory_equal(store->parts[store->snapshot].bf16, want, bytes);
	free(want);
}

static unsigned apply_one(struct fixture *f, uint32_t worker, uint64_t seq, const float *grad,
			  unsigned target)
{
	struct ol_contribution c = {
		.grad = grad, .seq = seq, .grads = 1, .scale = 1.0f, .worker = worker
	};

	return ol_store_apply(&f->store, &c, 1, target);
}

static void an_update_is_published_whole(void **unused)
{
	struct fixture *f = fixture_make(OL_OPTIMIZER_SGD);
	struct ol_version_line *line = &f->store.board->line;
	int target = ol_store_target(&f->store, 0);

	(void)unused;
	bf16_is_of_the_weights(&f->store);
	assert_in_range(target, 1, 2);
	assert_int_equal(apply_one(f, 3, 1, f->grad[1], (unsigned)target), 1);
	bf16_is_of_the_weights(&f->store);
	assert_int_equal(f->store.version, 1);
	assert_int_equal(f->store.snapshot, target);
	assert_int_equal(line->begin[target], 2);
	assert_int_equal(line->end[target], 2);
	assert_int_equal(ol_published_version(line->published), 1);
	assert_int_equal(ol_published_snapshot(line->published), target);
	assert_true(ol_store_weights(&f->store)[10] == 10.0f - 2.0f);
	assert_int_equal(ol_store_applied(&f->store, 3).seq, 1);
	assert_int_equal(ol_store_applied(&f->store, 2).seq, 0);
	assert_int_equal(ol_store_find(&f->store, 0), 0); /* the old one is still whole */
	fixture_free(f);
}

static void the_published_and_the_pinned_are_never_targets(void **unused)
{
	struct fixture *f = fixture_make(OL_OPTIMIZER_SGD);

	(void)unused;
	for (uint64_t seq = 1; seq < 50; seq++) {
		unsigned pinned = seq % 2 == 0 ? 0 : 1u << (seq % 3);
		int target = ol_store_target(&f->store, pinned);

		assert_in_range(target, 0, 2);
		assert_int_not_equal(target, f->store.snapshot);
		assert_int_equal(pinned & 1u << target, 0);
		if (pinned == 0) /* the older of the two */
			assert_true(ol_store_find(&f->store, f->store.version - 1) != target ||
				    seq == 1);
		apply_one(f, 0, seq, f->grad[0], (unsigned)target);
	}
	assert_int_equal(ol_store_target(&f->store, 7), -1);
	fixture_free(f);
}

static void a_dropped_gradient_leaves_no_trace(void **unused)
{
	struct fixture *f = fixture_make(OL_OPTIMIZER_MOMENTUM);
	struct fixture *g = fixture_make(OL_OPTIMIZER_MOMENTUM);
	float bad[LEN];

	(void)unused;
	memcpy(bad, f->grad[0], sizeof(bad));
	bad[LEN - 1] = NAN;
	for (uint64_t seq = 1; seq <= 4; seq++) {
		unsigned target = (unsigned)ol_store_target(&f->store, 0);

		if (seq == 3) {
			assert_int_equal(apply_one(f, 1, 1, bad, target), 0);
			assert_int_equal(f->store.version, 2);
			assert_int_equal(ol_store_applied(&f->store, 1).seq, 0);
			assert_int_equal(ol_store_find(&f->store, 3), -1);
		}
		assert_int_equal(apply_one(f, 0, seq, f->grad[2], target), 1);
		target = (unsigned)ol_store_target(&g->store, 0);
		assert_int_equal(apply_one(g, 0, seq, g->grad[2], target), 1);
	}
	assert_memory_equal(ol_store_weights(&f->store), ol_store_weights(&g->store),
			    LEN * sizeof(float));
	fixture_free(f);
	fixture_free(g);
}

static void good_gradients_of_a_step_survive_a_bad_one(void **unused)
{
	struct fixture *f = fixture_make(OL_OPTIMIZER_SGD);
	float bad[LEN] = { 0 };
	struct ol_contribution c[3] = {
		{ .grad = f->grad[0], .seq = 7, .grads = 1, .scale = 1.0f, .worker = 0 },
		{ .grad = bad, .seq = 8, .grads = 1, .scale = 1.0f, .worker = 1 },
		{ .grad = f->grad[2], .seq = 9, .grads = 1, .scale = 1.0f, .worker = 4 },
	};

	(void)unused;
	bad[50] = INFINITY;
	assert_int_equal(ol_store_apply(&f->store, c, 3, 1), 2);
	assert_int_equal(c[0].status, 0);
	assert_int_equal(c[1].status, OL_E_NONFINITE);
	assert_int_equal(c[2].status, 0);
	assert_true(ol_store_weights(&f->store)[3] == 3.0f - 2.0f); /* the mean of 1 and 3 */
	assert_int_equal(ol_store_applied(&f->store, 0).seq, 7);
	assert_int_equal(ol_store_applied(&f->store, 1).seq, 0);
	assert_int_equal(ol_store_applied(&f->store, 4).seq, 9);
	fixture_free(f);
}

/* Two gradients with these factors; what is measured must be of what goes into the step. */
static void norms_are(struct fixture *f, const float scales[2], bool gathered)
{
	struct ol_contribution c[2] = {
		{ .grad = f->grad[0], .seq = 1, .grads = 1, .scale = scales[0], .worker = 0 },
		{ .grad = f->grad[2], .seq = 1, .grads = 1, .scale = scales[1], .worker = 1 },
	};
	double one = 0.0, both = 0.0;
	float sum[LEN];

	for (int i = 0; i < LEN; i++) {
		double a = (double)(f->grad[0][i] * scales[0]);
		double b = (double)(f->grad[2][i] * scales[1]);

		one += a * a + b * b;
		both += (a + b) * (a + b) / 4.0;
	}
	f->store.want_norms = true;
	if (gathered)
		assert_int_equal(ol_store_gather(&f->store, c, 2, sum), 2);
	else
		assert_int_equal(ol_store_apply(&f->store, c, 2, 1), 2);
	assert_true(fabs(f->store.norms.sum - one) <= 1e-6 * one);
	assert_true(fabs(f->store.norms.mean - both) <= 1e-6 * both);
}

static void norms_are_of_what_goes_into_a_step(void **unused)
{
	static const float scales[][2] = { { 1.0f, 1.0f }, { 0.5f, 1.0f }, { 1.0f, -2.0f } };

	(void)unused;
	for (unsigned i = 0; i < 12; i++) {
		struct fixture *f = fixture_make(OL_OPTIMIZER_SGD);

		for (int k = 0; k < LEN; k++)
			f->grad[2][k] = (float)(k % 7) - 3.0f;
		f->rule.sum = i % 2;
		f->store.rule.sum = i % 2;
		norms_are(f, scales[i / 4], i / 2 % 2 == 0);
		fixture_free(f);
	}
}

static void norms_leave_out_a_bad_gradient_and_cost_no_bit(void **unused)
{
	struct fixture *f = fixture_make(OL_OPTIMIZER_SGD), *g = fixture_make(OL_OPTIMIZER_SGD);
	float bad[LEN] = { 0 };
	struct ol_contribution c[2] = {
		{ .grad = f->grad[1], .seq = 1, .grads = 1, .scale = 1.0f, .worker = 0 },
		{ .grad = bad, .seq = 1, .grads = 1, .scale = 1.0f, .worker = 1 },
	};

	(void)unused;
	bad[LEN - 1] = NAN;
	f->store.want_norms = true;
	assert_int_equal(ol_store_apply(&f->store, c, 2, 1), 1);
	assert_true(f->store.norms.sum == 4.0 * LEN); /* whole numbers: exact */
	assert_true(f->store.norms.mean == 4.0 * LEN);
	assert_int_equal(ol_store_apply(&g->store, c, 2, 1), 1);
	assert_memory_equal(ol_store_weights(&f->store), ol_store_weights(&g->store),
			    LEN * sizeof(float));
	fixture_free(f);
	fixture_free(g);
}

static void geometry_that_cannot_be_is_refused(void **unused)
{
	struct fixture *f = fixture_make(OL_OPTIMIZER_ADAM);
	struct ol_geometry geo = f->geo;
	uint64_t first, count;

	(void)unused;
	geo.state_vectors = 1; /* Adam keeps two */
	assert_int_equal(ol_store_init(&f->store, &geo, &f->rule, f->memory, f->initial),
			 OL_E_GEOMETRY);
	geo = f->geo;
	geo.shard_len = LEN + 1;
	assert_int_equal(ol_geometry_check(&geo), OL_E_GEOMETRY);
	geo = f->geo;
	geo.shard_count = 2; /* 100 floats do not make two shards of whole pages */
	assert_int_equal(ol_geometry_check(&geo), OL_E_GEOMETRY);
	assert_int_not_equal(ol_shard_span(0, 1, 0, &first, &count), 0);
	assert_int_not_equal(ol_shard_span(5000, 4, 4, &first, &count), 0);
	fixture_free(f);
}

static void shards_cover_every_parameter_once(void **unused)
{
	static const uint64_t totals[] = { 1, 1023, 1024, 1025, 4097, 100000, 813258 };

	(void)unused;
	for (size_t t = 0; t < sizeof(totals) / sizeof(totals[0]); t++) {
		for (uint32_t shards = 1; shards <= 8; shards++) {
			uint64_t next = 0, first, count;
			bool all = true;

			for (uint32_t s = 0; s < shards && all; s++) {
				all = ol_shard_span(totals[t], shards, s, &first, &count) == 0;
				if (!all)
					break;
				assert_int_equal(first, next);
				assert_int_equal(first % OL_SHARD_ALIGN, 0);
				assert_true(count > 0);
				next = first + count;
			}
			if (all)
				assert_int_equal(next, totals[t]);
		}
	}
}

static void a_restored_snapshot_is_the_only_one(void **state)
{
	struct fixture *f = fixture_make(OL_OPTIMIZER_MOMENTUM);
	float *weights;
	uint8_t *content;

	(void)state;
	assert_int_equal(apply_one(f, 2, 1, f->grad[0], (unsigned)ol_store_target(&f->store, 0)),
			 1);
	content = ol_store_content(&f->store, 1);
	memcpy(content, ol_store_content(&f->store, f->store.snapshot),
	       ol_layout_content_bytes(&f->geo));
	weights = (float *)(void *)(content + ol_layout_table_bytes(&f->geo));
	weights[7] = 1234.0f;
	ol_store_restore(&f->store, 1, 500, false);
	bf16_is_of_the_weights(&f->store);
	assert_int_equal(f->store.version, 500);
	assert_int_equal(ol_store_find(&f->store, 500), 1);
	assert_int_equal(ol_store_find(&f->store, 1), -1);
	assert_float_equal(ol_store_weights(&f->store)[7], 1234.0f, 0);
	assert_int_equal(ol_store_applied(&f->store, 2).seq, 1);
	assert_int_equal(ol_store_applied(&f->store, 2).grads, 1);
	/* momentum began anew: the first step is the gradient alone */
	assert_int_equal(apply_one(f, 2, 2, f->grad[0], (unsigned)ol_store_target(&f->store, 0)),
			 1);
	assert_float_equal(ol_store_weights(&f->store)[7], 1233.0f, 0);
	assert_int_equal(f->store.version, 501);
	fixture_free(f);
}

static void a_delta_counts_its_gradients_and_is_scaled(void **state)
{
	struct fixture *f = fixture_make(OL_OPTIMIZER_SGD);
	struct ol_contribution c[2] = {
		{ .grad = f->grad[0], .seq = 1, .grads = 10, .scale = 0.5f, .worker = 0 },
		{ .grad = f->grad[1], .seq = 1, .grads = 1, .scale = 1.0f, .worker = 1 },
	};

	(void)state;
	f->store.rule.sum = 1;
	assert_int_equal(ol_store_apply(&f->store, c, 2, (unsigned)ol_store_target(&f->store, 0)),
			 2);
	assert_float_equal(ol_store_weights(&f->store)[9], 9.0f - 0.5f * 1.0f - 2.0f, 0);
	assert_int_equal(ol_store_applied(&f->store, 0).grads, 10);
	assert_int_equal(ol_store_applied(&f->store, 1).grads, 1);
	assert_float_equal(ol_store_norm(&f->store, f->grad[1], OL_FORMAT_FP32), 20.0, 1e-5);
	fixture_free(f);
}

/* ---- updates that take long ---- */

enum {
	MANY = 64,
	LONG = 5 * OL_KERNEL_BLOCK * 8 + 17, /* with so many gradients five pieces and a bit */
};

struct lengthy {
	struct ol_geometry geo;
	struct ol_update_rule rule;
	struct ol_store store;
	void *memory;
	float *floats; /* initial weights, then the gradients */
	struct ol_contribution contributions[MANY];
	unsigned pieces;
};

/* Pieces from the last to the first, as no order of threads is promised */
static void backwards(void *arg, ol_store_piece_fn *piece, void *piece_arg, unsigned count)
{
	struct lengthy *l = arg;

	l->pieces += count;
	while (count-- > 0)
		piece(piece_arg, count);
}

static void by_threads(void *arg, ol_store_piece_fn *piece, void *piece_arg, unsigned count)
{
	ol_pool_run(arg, piece, piece_arg, count, NULL, NULL);
}

static struct lengthy *lengthy_make(void)
{
	struct lengthy *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	l->geo = (struct ol_geometry){ .param_count = LONG,
				       .shard_len = LONG,
				       .shard_count = 1,
				       .workers_max = MANY,
				       .window = 1,
				       .groups = 1,
				       .state_vectors = 1,
				       .consistency = OL_CONSISTENCY_SYNC,
				       .weights_bf16 = 1 };
	l->rule = (struct ol_update_rule){ .optimizer = OL_OPTIMIZER_MOMENTUM,
					   .lr = 0.1f,
					   .momentum = 0.9f };
	l->floats = malloc((MANY + 1) * LONG * sizeof(float));
	l->memory = aligned_alloc(4096, ol_layout_public_bytes(&l->geo));
	assert_true(l->floats != NULL && l->memory != NULL);
	for (size_t i = 0; i < (MANY + 1) * (size_t)LONG; i++)
		l->floats[i] = 1.0f / (float)(1 + i % 1013);
	memset(l->memory, 0, ol_layout_public_bytes(&l->geo));
	assert_int_equal(ol_store_init(&l->store, &l->geo, &l->rule, l->memory, l->floats), 0);
	l->store.want_norms = true;
	l->store.run = backwards;
	l->store.run_arg = l;
	for (unsigned k = 0; k < MANY; k++)
		l->contributions[k] =
			(struct ol_contribution){ .grad = l->floats + (k + 1) * (size_t)LONG,
						  .seq = 1,
						  .grads = 1,
						  .scale = 1.0f,
						  .worker = k };
	return l;
}

static void lengthy_free(struct lengthy *l)
{
	free(l->floats);
	free(l->memory);
	free(l);
}

/* The same update by one call of the kernel */
static void at_once(const struct lengthy *l, float *weights, struct ol_norms *norms)
{
	float *state = calloc(2 * (size_t)LONG, sizeof(float));
	const void *grads[MANY];
	struct ol_kernel_args args = { .rule = &l->rule,
				       .step = 1,
				       .grads = grads,
				       .grad_count = MANY,
				       .len = LONG,
				       .weights = l->floats,
				       .new_weights = weights,
				       .state = { state },
				       .new_state = { state + LONG },
				       .norms = norms };

	assert_non_null(state);
	for (unsigned k = 0; k < MANY; k++)
		grads[k] = l->contributions[k].grad;
	assert_int_equal(l->store.kernels->update(&args), MANY);
	free(state);
}

static void norms_are_near(const struct ol_norms *have, const struct ol_norms *want)
{
	assert_true(fabs(have->sum - want->sum) <= 1e-12 * want->sum);
	assert_true(fabs(have->mean - want->mean) <= 1e-12 * want->mean);
}

static void a_long_update_in_pieces_gives_the_same_bits(void **unused)
{
	float *weights = malloc(2 * LONG * sizeof(float)), *sum = weights + LONG;
	struct lengthy *l = lengthy_make();
	struct ol_norms norms = { 0 };

	(void)unused;
	assert_non_null(weights);
	at_once(l, weights, &norms);
	assert_int_equal(ol_store_apply(&l->store, l->contributions, MANY, 1), MANY);
	assert_int_equal(l->pieces, 6);
	assert_memory_equal(ol_store_weights(&l->store), weights, LONG * sizeof(float));
	bf16_is_of_the_weights(&l->store);
	norms_are_near(&l->store.norms, &norms);
	lengthy_free(l);

	l = lengthy_make(); /* in two halves, as in a chain */
	assert_int_equal(ol_store_gather(&l->store, l->contributions, MANY, sum), MANY);
	assert_int_equal(l->pieces, 6);
	norms_are_near(&l->store.norms, &norms);
	ol_store_begin(&l->store, 1);
	ol_store_enter_part(&l->store, sum, (struct ol_span){ .len = LONG }, 1);
	ol_store_publish(&l->store, l->contributions, MANY, 1);
	assert_memory_equal(ol_store_weights(&l->store), weights, LONG * sizeof(float));
	bf16_is_of_the_weights(&l->store);
	lengthy_free(l);
	free(weights);
}

/* The store after some updates, by so many threads; 0: one piece after the other, without a pool */
static struct lengthy *after_updates(unsigned threads, uint64_t large_vectors)
{
	struct lengthy *l = lengthy_make();
	struct ol_pool *pool = NULL;

	assert_int_equal(ol_pool_create(threads, NULL, &pool), 0);
	l->store.run = threads == 0 ? NULL : by_threads;
	l->store.run_arg = pool;
	l->store.large_vectors = large_vectors;
	l->store.want_norms = large_vectors == UINT64_MAX; /* they keep an update in the caches */
	for (unsigned step = 1; step <= 5; step++) {
		for (unsigned k = 0; k < MANY; k++)
			l->contributions[k].seq = step;
		assert_int_equal(ol_store_apply(&l->store, l->contributions, MANY,
						(unsigned)ol_store_target(&l->store, 0)),
				 MANY);
	}
	ol_pool_destroy(pool);
	return l;
}

static void threads_and_streaming_stores_change_no_bit(void **unused)
{
	struct lengthy *alone = after_updates(0, UINT64_MAX);
	const void *content = ol_store_content(&alone->store, alone->store.snapshot);

	(void)unused;
	for (unsigned threads = 1; threads <= 4; threads++) {
		for (uint64_t cache = 0; cache <= 1; cache++) {
			struct lengthy *l = after_updates(threads, cache == 0 ? UINT64_MAX : 0);

			assert_memory_equal(ol_store_content(&l->store, l->store.snapshot), content,
					    ol_layout_content_bytes(&l->geo));
			bf16_is_of_the_weights(&l->store);
			if (cache == 0)
				assert_memory_equal(&l->store.norms, &alone->store.norms,
						    sizeof(l->store.norms));
			lengthy_free(l);
		}
	}
	lengthy_free(alone);
}

static void a_bad_value_in_a_late_piece_is_found(void **unused)
{
	struct lengthy *l = lengthy_make();
	float *grad = l->floats + 3 * (size_t)LONG;

	(void)unused;
	grad[LONG - 1] = NAN;
	grad[LONG] = INFINITY; /* the next one's first */
	assert_int_equal(ol_store_apply(&l->store, l->contributions, MANY, 1), MANY - 2);
	assert_int_equal(l->contributions[2].status, OL_E_NONFINITE);
	assert_int_equal(l->contributions[3].status, OL_E_NONFINITE);
	assert_int_equal(l->contributions[4].status, 0);
	assert_int_not_equal(
		l->store.kernels->finite(ol_store_weights(&l->store), OL_FORMAT_FP32, LONG), 0);
	lengthy_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_restored_snapshot_is_the_only_one),
		cmocka_unit_test(a_delta_counts_its_gradients_and_is_scaled),
		cmocka_unit_test(an_update_is_published_whole),
		cmocka_unit_test(the_published_and_the_pinned_are_never_targets),
		cmocka_unit_test(a_dropped_gradient_leaves_no_trace),
		cmocka_unit_test(good_gradients_of_a_step_survive_a_bad_one),
		cmocka_unit_test(norms_are_of_what_goes_into_a_step),
		cmocka_unit_test(norms_leave_out_a_bad_gradient_and_cost_no_bit),
		cmocka_unit_test(geometry_that_cannot_be_is_refused),
		cmocka_unit_test(shards_cover_every_parameter_once),
		cmocka_unit_test(a_long_update_in_pieces_gives_the_same_bits),
		cmocka_unit_test(threads_and_streaming_stores_change_no_bit),
		cmocka_unit_test(a_bad_value_in_a_late_piece_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
