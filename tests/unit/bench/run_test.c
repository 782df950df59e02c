/* SPDX-License-Identifier: BSD-3-Clause */

/* run_test.c -- arms take turns and are counted right; baselines compute; rows and pins are parsed
 * right */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/alternate.h"
#include "bench/baseline.h"
#include "bench/chain.h"
#include "bench/host.h"
#include "bench/samples.h"

enum {
	LOG_MAX = 256
};

struct log {
	char text[LOG_MAX];
	unsigned count;
	unsigned fail_at; /* 0: never */
};

struct voice {
	struct log *log;
	char letter;
};

static int say(void *arg)
{
	struct voice *voice = arg;
	struct log *log = voice->log;

	if (log->fail_at != 0 && log->count + 1 == log->fail_at)
		return -EPIPE;
	if (log->count < LOG_MAX - 1)
		log->text[log->count++] = voice->letter;
	return 0;
}

static void arms_free(struct bench_arm *arms, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		bench_samples_fini(&arms[i].samples);
}

static void arms_take_turns(void **state)
{
	struct log log = { .count = 0 };
	struct voice a = { &log, 'a' }, b = { &log, 'b' };
	struct bench_arm arms[2] = { { .name = "a", .step = say, .arg = &a },
				     { .name = "b", .step = say, .arg = &b } };
	struct bench_plan plan = { .iters = 6, .warmup = 2, .rounds = 3, .ns = 1000000000 };

	(void)state;
	assert_int_equal(bench_alternate(arms, 2, &plan), 0);
	assert_string_equal(log.text, "aabb"
				      "aabb"
				      "bbaa"
				      "aabb");
	assert_int_equal(arms[0].samples.count, 6);
	assert_int_equal(arms[1].samples.count, 6);
	arms_free(arms, 2);
}

static void fewer_steps_than_rounds_are_all_made(void **state)
{
	struct log log = { .count = 0 };
	struct voice a = { &log, 'a' };
	struct bench_arm arm = { .name = "a", .step = say, .arg = &a };
	struct bench_plan plan = { .iters = 7, .rounds = 20 };

	(void)state;
	assert_int_equal(bench_alternate(&arm, 1, &plan), 0);
	assert_string_equal(log.text, "aaaaaaa");
	arms_free(&arm, 1);
}

static void time_or_room_for_samples_bounds_a_run(void **state)
{
	struct log log = { .count = 0 };
	struct voice a = { &log, 'a' };
	struct bench_arm arm = { .name = "a", .step = say, .arg = &a };
	struct bench_plan plan = { .ns = 1, .rounds = 5, .samples_max = 100 };

	(void)state;
	assert_int_equal(bench_alternate(&arm, 1, &plan), 0);
	assert_int_equal(arm.samples.count, 5); /* one step a block at the least */
	arms_free(&arm, 1);
	plan.ns = UINT64_C(3600000000000);
	assert_int_equal(bench_alternate(&arm, 1, &plan), 0);
	assert_int_equal(arm.samples.count, 100);
	arms_free(&arm, 1);
}

static void a_failed_step_ends_the_run(void **state)
{
	struct bench_plan plan = { .iters = 4, .warmup = 2, .rounds = 2 };

	(void)state;
	for (unsigned at = 1; at <= 6; at++) {
		struct log log = { .fail_at = at };
		struct voice a = { &log, 'a' };
		struct bench_arm arm = { .name = "a", .step = say, .arg = &a };

		assert_int_equal(bench_alternate(&arm, 1, &plan), -EPIPE);
		assert_int_equal(log.count, at - 1);
		arms_free(&arm, 1);
	}
}

static void pass_and_descent_agree(void **state)
{
	enum {
		LEN = 1003 /* not a multiple of any vector width */
	};
	float *w = malloc(3 * LEN * sizeof(float));
	float *g = w + LEN, *w2 = w + 2 * LEN;

	(void)state;
	assert_non_null(w);
	for (int i = 0; i < LEN; i++) {
		w[i] = 1.0f + 0.001f * (float)i;
		g[i] = 0.5f - 0.003f * (float)i;
	}
	bench_pass(w2, w, g, 0.01f, LEN);
	for (int i = 0; i < LEN; i++) {
		float product = 0.01f * g[i];

		assert_true(w2[i] == w[i] - product);
	}
	bench_descend(w, g, 0.01f, LEN);
	assert_memory_equal(w, w2, LEN * sizeof(float));
	free(w);
}

static void a_baseline_moves_on(void **state)
{
	struct bench_baseline baseline;

	(void)state;
	assert_int_equal(bench_baseline_init(&baseline, 4000), 0);
	assert_int_equal(baseline.len, 1000);
	baseline.grad[999] = 1e6f;
	assert_int_equal(bench_baseline_pass(&baseline), 0);
	assert_true(baseline.weights[1][999] < baseline.weights[0][999]);
	assert_int_equal(bench_baseline_pass(&baseline), 0);
	assert_true(baseline.weights[2][999] < baseline.weights[1][999]);
	bench_baseline_fini(&baseline);
	bench_baseline_fini(&baseline); /* once more is fine */
}

static void rows_are_those_of_perftest(void **state)
{
	struct bench_summary s = { .count = 1000,
				   .min = 640,
				   .p50 = 830,
				   .p99 = 1030,
				   .p999 = 3540,
				   .max = 117960,
				   .avg = 900.0,
				   .stdev = 880.0 };
	struct bench_rate rate = { .count = 10, .avg_per_s = 1e6, .peak_per_s = 2e6 };
	char text[512] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)state;
	assert_non_null(out);
	bench_table_lat_row(out, 64, &s);
	bench_table_bw_row(out, 1 << 20, &rate);
	fclose(out);
	assert_string_equal(text,
			    " 64       1000       0.64           117.96         0.83            "
			    " 0.90           0.88             1.03                   3.54\n"
			    " 1048576    10             2000000.00         1000000.00           "
			    "1.000000\n");
}

static void pins_are_two_cores_or_what_was_asked(void **state)
{
	struct bench_pins pins;
	char err[128] = "";

	(void)state;
	assert_int_equal(bench_pins_choose("none", &pins, err, sizeof(err)), 0);
	assert_int_equal(pins.client, BENCH_CPU_ANY);
	assert_int_equal(bench_pins_choose("3,5", &pins, err, sizeof(err)), 0);
	assert_int_equal(pins.client, 3);
	assert_int_equal(pins.server, 5);
	assert_int_equal(bench_pins_choose("auto", &pins, err, sizeof(err)), 0);
	if (bench_cpus_allowed() > 1)
		assert_true(pins.client >= 0 && pins.server >= 0 && pins.client != pins.server);
	else
		assert_int_equal(pins.client, BENCH_CPU_ANY);
	assert_int_equal(bench_pins_choose("3;5", &pins, err, sizeof(err)), -EINVAL);
	assert_int_equal(bench_pins_choose("3", &pins, err, sizeof(err)), -EINVAL);
	assert_int_equal(bench_pins_choose("3,-1", &pins, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "\"3,-1\""));
}

static void a_window_is_bounded_by_memory(void **state)
{
	(void)state;
	assert_int_equal(bench_window(16, 64), 16);
	assert_int_equal(bench_window(1000, 64), BENCH_WINDOW_MAX);
	assert_int_equal(bench_window(16, 64 << 20), 4);
	assert_int_equal(bench_window(16, (uint64_t)1 << 30), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arms_take_turns),
		cmocka_unit_test(fewer_steps_than_rounds_are_all_made),
		cmocka_unit_test(time_or_room_for_samples_bounds_a_run),
		cmocka_unit_test(a_failed_step_ends_the_run),
		cmocka_unit_test(pass_and_descent_agree),
		cmocka_unit_test(a_baseline_moves_on),
		cmocka_unit_test(rows_are_those_of_perftest),
		cmocka_unit_test(pins_are_two_cores_or_what_was_asked),
		cmocka_unit_test(a_window_is_bounded_by_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
