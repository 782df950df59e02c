/* SPDX-License-Identifier: BSD-3-Clause */

/* kernels_test.c -- every update rule follows its published formula, with the same bits at every
 * vector width, and finds a gradient that is not finite */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/kernels.h"
#include "wire/format.h"

enum {
	LEN = 5003, /* not a multiple of any vector or block */
	GRADS = 3,
	STEPS = 4
};

struct state {
	float w[LEN], s0[LEN], s1[LEN];
};

static const enum ol_optimizer optimizers[] = {
	OL_OPTIMIZER_SGD,  OL_OPTIMIZER_MOMENTUM, OL_OPTIMIZER_NESTEROV,
	OL_OPTIMIZER_ADAM, OL_OPTIMIZER_ADAMW,
};

static struct ol_update_rule rule_of(enum ol_optimizer optimizer)
{
	return (struct ol_update_rule){
		.optimizer = optimizer,
		.lr = 0.05f,
		.momentum = 0.9f,
		.beta1 = 0.9f,
		.beta2 = 0.99f,
		.epsilon = 1e-6f,
		.weight_decay = 0.01f,
	};
}

static float value(uint32_t seed, uint32_t i)
{
	uint32_t x = (seed * 2654435761u) ^ (i * 40503u + 17u);

	x ^= x >> 15;
	x *= 2246822519u;
	x ^= x >> 13;
	return (float)(int32_t)x / 2147483648.0f;
}

static unsigned update(ol_kernel_fn *fn, const struct ol_update_rule *rule, uint64_t step,
		       const void *const *grads, unsigned count, const struct state *from,
		       struct state *to)
{
	struct ol_kernel_args args = {
		.rule = rule,
		.step = step,
		.grads = grads,
		.grad_count = count,
		.len = LEN,
		.weights = from->w,
		.new_weights = to->w,
		.state = { from->s0, from->s1 },
		.new_state = { to->s0, to->s1 },
	};

	return fn(&args);
}

/* One element in double, from the papers' formulas; grads are averaged */
static void reference(const struct ol_update_rule *r, uint64_t step, double g, double *w, double *a,
		      double *b)
{
	double lr = (double)r->lr, mu = (double)r->momentum, wd = (double)r->weight_decay;
	double b1 = (double)r->beta1, b2 = (double)r->beta2;

	if (r->optimizer != OL_OPTIMIZER_ADAMW)
		g += wd * *w;
	switch (r->optimizer) {
	case OL_OPTIMIZER_SGD:
		*w -= lr * g;
		break;
	case OL_OPTIMIZER_MOMENTUM:
		*a = mu * *a + g;
		*w -= lr * *a;
		break;
	case OL_OPTIMIZER_NESTEROV:
		*a = mu * *a + g;
		*w -= lr * (g + mu * *a);
		break;
	case OL_OPTIMIZER_ADAMW:
		*w -= lr * wd * *w;
		__attribute__((fallthrough));
	case OL_OPTIMIZER_ADAM:
		*a = b1 * *a + (1 - b1) * g;
		*b = b2 * *b + (1 - b2) * g * g;
		*w -= lr * (*a / (1 - pow(b1, (double)step))) /
		      (sqrt(*b / (1 - pow(b2, (double)step))) + (double)r->epsilon);
		break;
	}
}

static void run_steps(ol_kernel_fn *fn, const struct ol_update_rule *rule, struct state *ret)
{
	static float grads[GRADS][LEN];
	const void *list[GRADS] = { grads[0], grads[1], grads[2] };
	struct state *from = calloc(1, sizeof(*from)), *to = calloc(1, sizeof(*to)), *swap;

	assert_true(from != NULL && to != NULL);
	for (uint32_t i = 0; i < LEN; i++)
		from->w[i] = value(99, i);
	for (uint64_t step = 1; step <= STEPS; step++) {
		for (uint32_t k = 0; k < GRADS; k++) {
			for (uint32_t i = 0; i < LEN; i++)
				grads[k][i] = value((uint32_t)step * 7 + k, i);
		}
		assert_int_equal(update(fn, rule, step, list, GRADS, from, to), GRADS);
		swap = from;
		from = to;
		to = swap;
	}
	*ret = *from;
	free(from);
	free(to);
}

static void rules_follow_their_formulas(void **unused)
{
	struct state *got = malloc(sizeof(*got));

	(void)unused;
	for (size_t o = 0; o < sizeof(optimizers) / sizeof(optimizers[0]); o++) {
		struct ol_update_rule rule = rule_of(optimizers[o]);

		run_steps(ol_kernels_at(0)->update, &rule, got);
		for (uint32_t i = 0; i < LEN; i += 97) {
			double w = (double)value(99, i), a = 0, b = 0;

			for (uint64_t step = 1; step <= STEPS; step++) {
				double g = 0;

				for (uint32_t k = 0; k < GRADS; k++)
					g += (double)value((uint32_t)step * 7 + k, i);
				reference(&rule, step, g / GRADS, &w, &a, &b);
			}
			assert_true(fabs(w - (double)got->w[i]) < 2e-5 * (1 + fabs(w)));
		}
	}
	free(got);
}

static void every_width_gives_the_same_bits(void **unused)
{
	struct state *first = malloc(sizeof(*first)), *other = malloc(sizeof(*other));

	(void)unused;
	for (size_t o = 0; o < sizeof(optimizers) / sizeof(optimizers[0]); o++) {
		struct ol_update_rule rule = rule_of(optimizers[o]);

		run_steps(ol_kernels_at(0)->update, &rule, first);
		for (unsigned k = 1; ol_kernels_at(k) != NULL; k++) {
			run_steps(ol_kernels_at(k)->update, &rule, other);
			assert_memory_equal(first, other, sizeof(*first));
		}
	}
	free(first);
	free(other);
}

static void sum_is_count_times_mean(void **unused)
{
	struct ol_update_rule mean = rule_of(OL_OPTIMIZER_SGD), sum = mean;
	struct state *from = calloc(1, sizeof(*from)), *a = calloc(1, sizeof(*a)),
		     *b = calloc(1, sizeof(*b));
	static float grad[LEN];
	const void *two[2] = { grad, grad };

	(void)unused;
	mean.weight_decay = 0;
	sum.weight_decay = 0;
	sum.sum = 1;
	sum.lr = mean.lr / 2;
	for (uint32_t i = 0; i < LEN; i++)
		grad[i] = value(5, i);
	update(ol_kernels_best()->update, &mean, 1, two, 2, from, a);
	update(ol_kernels_best()->update, &sum, 1, two, 2, from, b);
	assert_memory_equal(a->w, b->w, sizeof(a->w));
	free(from);
	free(a);
	free(b);
}

static void a_gradient_that_is_not_finite_is_named(void **unused)
{
	static const float bad[] = { INFINITY, -INFINITY, NAN };
	static const uint32_t places[] = { 0, 1, 2047, 2048, LEN - 1 };
	struct ol_update_rule rule = rule_of(OL_OPTIMIZER_SGD);
	struct state *from = calloc(1, sizeof(*from)), *to = calloc(1, sizeof(*to));
	static float good[LEN], worse[LEN];
	const void *list[3] = { good, worse, good };

	(void)unused;
	for (unsigned isa = 0; ol_kernels_at(isa) != NULL; isa++) {
		ol_kernel_fn *fn = ol_kernels_at(isa)->update;

		for (size_t b = 0; b < 3; b++) {
			for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
				memset(worse, 0, sizeof(worse));
				worse[places[p]] = bad[b];
				assert_int_equal(update(fn, &rule, 1, list, 3, from, to), 1);
			}
		}
		worse[LEN - 1] = 3.4e38f; /* large is not infinite */
		assert_int_equal(update(fn, &rule, 1, list, 3, from, to), 3);
		rule.allow_nonfinite = 1;
		worse[0] = NAN;
		assert_int_equal(update(fn, &rule, 1, list, 3, from, to), 3);
		rule.allow_nonfinite = 0;
	}
	free(from);
	free(to);
}

/* The plain formula, within what sums in another order make */
static void how_far_an_array_has_moved_is_the_same_at_every_width(void **unused)
{
	static const float scales[] = { 1.0f, 1e-30f, 1e30f }; /* squares: none in a float */
	static const uint32_t lengths[] = { 1, 15, 16, 17, 1024, LEN };
	static float now[LEN], before[LEN];

	(void)unused;
	for (size_t s = 0; s < sizeof(scales) / sizeof(scales[0]); s++) {
		for (size_t n = 0; n < sizeof(lengths) / sizeof(lengths[0]); n++) {
			double expected = 0.0, first = 0.0;

			for (uint32_t i = 0; i < lengths[n]; i++) {
				now[i] = value(1, i) * scales[s];
				before[i] = value(2, i) * scales[s];
				expected += ((double)now[i] - (double)before[i]) *
					    ((double)now[i] - (double)before[i]);
			}
			for (unsigned isa = 0; ol_kernels_at(isa) != NULL; isa++) {
				double moved2 = ol_kernels_at(isa)->moved2(now, before, lengths[n]);

				assert_true(expected > 0.0 &&
					    fabs(moved2 - expected) <= 1e-12 * expected);
				first = isa == 0 ? moved2 : first;
				assert_memory_equal(&moved2, &first, sizeof(moved2));
			}
		}
	}
}

static void what_is_no_number_has_not_moved_a_finite_way(void **unused)
{
	static const float bad[] = { INFINITY, -INFINITY, NAN };
	static const uint32_t places[] = { 0, 15, 16, 5000, LEN - 1 };
	static float now[LEN], before[LEN];

	(void)unused;
	for (unsigned isa = 0; ol_kernels_at(isa) != NULL; isa++) {
		ol_kernel_moved2_fn *fn = ol_kernels_at(isa)->moved2;

		assert_true(fn(now, before, LEN) == 0.0);
		for (size_t b = 0; b < 3; b++) {
			for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
				now[places[p]] = bad[b];
				assert_true(!isfinite(fn(now, before, LEN)));
				assert_true(!isfinite(fn(before, now, LEN)));
				assert_true(!isfinite(fn(now, now, LEN)));
				now[places[p]] = 0.0f;
			}
		}
	}
}

/* Gradients of four formats in one update, from the same bits that they decode to */
static void every_format_is_read_at_every_width(void **unused)
{
	enum {
		FORMATS = OL_FORMAT_INT8 + 1
	};
	const struct ol_update_rule rule = rule_of(OL_OPTIMIZER_ADAM);
	static _Alignas(64) uint8_t payload[FORMATS][4 * LEN + 64];
	static float grad[LEN], plain[FORMATS][LEN], residual[LEN];
	uint8_t formats[FORMATS];
	const void *coded[FORMATS], *list[FORMATS];
	struct state *from = calloc(1, sizeof(*from)), *want = calloc(1, sizeof(*want)),
		     *got = calloc(1, sizeof(*got));

	(void)unused;
	assert_true(from != NULL && want != NULL && got != NULL);
	for (uint32_t f = 0; f < FORMATS; f++) {
		for (uint32_t i = 0; i < LEN; i++)
			grad[i] = value(f, i);
		ol_format_encode(f, payload[f], grad, residual, LEN);
		ol_format_decode(f, plain[f], payload[f], 0, LEN);
		formats[f] = (uint8_t)f;
		coded[f] = payload[f];
		list[f] = plain[f];
	}
	for (unsigned k = 0; ol_kernels_at(k) != NULL; k++) {
		struct ol_kernel_args args = {
			.rule = &rule,
			.step = 1,
			.grads = coded,
			.formats = formats,
			.grad_count = FORMATS,
			.weights = from->w,
			.new_weights = got->w,
			.state = { from->s0, from->s1 },
			.new_state = { got->s0, got->s1 },
		};

		assert_int_equal(
			update(ol_kernels_at(k)->update, &rule, 1, list, FORMATS, from, want),
			FORMATS);
		for (args.first = 0; args.first < LEN; args.first += args.len) {
			args.len = LEN - args.first < 1901 ? LEN - args.first : 1901;
			args.stream = args.first > 3000;
			assert_int_equal(ol_kernels_at(k)->update(&args), FORMATS);
		}
		assert_memory_equal(got, want, sizeof(*got));
		for (uint32_t f = 0; f < FORMATS; f++) {
			static const uint8_t nan[4] = { 0xff, 0xff, 0xff, 0xff };
			uint8_t saved[sizeof(nan)];
			/* an element, or a scale */
			uint8_t *at = payload[f] + ol_format_bytes(f, OL_FORMAT_GROUP);

			assert_true(ol_kernels_at(k)->finite(coded[f], f, LEN));
			memcpy(saved, at, sizeof(saved));
			memcpy(at, nan, sizeof(nan));
			assert_true(!ol_kernels_at(k)->finite(coded[f], f, LEN));
			memcpy(at, saved, sizeof(saved));
		}
	}
	free(from);
	free(want);
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_follow_their_formulas),
		cmocka_unit_test(every_width_gives_the_same_bits),
		cmocka_unit_test(sum_is_count_times_mean),
		cmocka_unit_test(a_gradient_that_is_not_finite_is_named),
		cmocka_unit_test(how_far_an_array_has_moved_is_the_same_at_every_width),
		cmocka_unit_test(what_is_no_number_has_not_moved_a_finite_way),
		cmocka_unit_test(every_format_is_read_at_every_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
