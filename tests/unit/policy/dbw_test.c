/* SPDX-License-Identifier: BSD-3-Clause */

/* dbw_test.c -- in a job of virtual time DBW waits for all workers if times are fixed, for few if
 * they vary and the gradient is clear, for more as noise grows, and not for workers that became
 * slow; and it survives any input of a server. Prints the time that a choice takes */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "outlast_policy.h"

#define assert_near(a, b, margin) assert_true(fabs((a) - (b)) <= (margin))

enum {
	SIZE = 10,
	WORKERS_MAX = 256,
	SECOND = 1000000000
};

/*
 * loss(w) = ||w||^2 / 2 from noisy gradients. A worker that has pushed waits for the next version;
 * one that is late begins anew with the newest. A gradient takes 1 - alpha + alpha * Exp(1)
 * seconds, times `slow` for the first half of the workers.
 */
struct job {
	struct ol_policy *policy;
	uint64_t seed;
	uint32_t workers;
	double alpha;
	double slow;
	double noise; /* of a coordinate of a gradient */
	double lr;

	enum ol_late late;

	double now;
	uint64_t version;
	double w[SIZE];
	double from
		[WORKERS_MAX]
		[SIZE]; /* the weights that a gradient is computed at, if late ones are carried */
	double done[WORKERS_MAX]; /* when its gradient lands; infinity: it waits */
	uint64_t base[WORKERS_MAX];
	bool held[WORKERS_MAX];
	double grad[WORKERS_MAX][SIZE];
};

static double uniform(struct job *job)
{
	job->seed = job->seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(job->seed >> 11) / 9007199254740992.0;
}

static double normal(struct job *job)
{
	double radius = sqrt(-2.0 * log(1.0 - uniform(job)));

	return radius * cos(2.0 * 3.14159265358979 * uniform(job));
}

static void begin(struct job *job, uint32_t worker)
{
	double seconds = 1.0 - job->alpha - job->alpha * log(1.0 - uniform(job));

	if (worker < job->workers / 2)
		seconds *= job->slow;
	job->base[worker] = job->version;
	memcpy(job->from[worker], job->w, sizeof(job->w));
	job->done[worker] = job->now + seconds;
}

static struct job *job_open_late(enum ol_wait wait, enum ol_late late, uint32_t workers,
				 double alpha, double noise, double lr)
{
	static struct job job;
	struct ol_policy_opts opts;

	ol_policy_opts_init(&opts);
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.wait = wait;
	opts.workers = workers;
	opts.workers_max = workers;
	opts.lr = lr;
	opts.late = late;
	job = (struct job){
		.seed = 1,
		.workers = workers,
		.alpha = alpha,
		.slow = 1.0,
		.noise = noise,
		.lr = lr,
		.late = late,
	};
	assert_int_equal(ol_policy_create(&opts, &job.policy), 0);
	for (uint32_t i = 0; i < SIZE; i++)
		job.w[i] = 10.0;
	for (uint32_t i = 0; i < workers; i++) {
		ol_policy_on_join(job.policy, i);
		begin(&job, i);
	}
	return &job;
}

static struct job *job_open(enum ol_wait wait, uint32_t workers, double alpha, double noise,
			    double lr)
{
	return job_open_late(wait, OL_LATE_DROP, workers, alpha, noise, lr);
}

static void step(struct job *job)
{
	struct ol_update update = { .version = ++job->version,
				    .now_ns = (uint64_t)(job->now * SECOND) };
	double mean[SIZE] = { 0 };

	for (uint32_t worker = 0; worker < job->workers; worker++) {
		update.count += job->held[worker];
		for (uint32_t i = 0; job->held[worker] && i < SIZE; i++) {
			mean[i] += job->grad[worker][i];
			update.norm2_sum += job->grad[worker][i] * job->grad[worker][i];
		}
		job->held[worker] = false;
	}
	for (uint32_t i = 0; i < SIZE; i++) {
		mean[i] /= update.count;
		update.norm2_mean += mean[i] * mean[i];
		job->w[i] -= job->lr * mean[i];
	}
	ol_policy_on_update(job->policy, &update);
	for (uint32_t i = 0; i < job->workers; i++) {
		if (isinf(job->done[i]))
			begin(job, i);
	}
}

/* The next gradient lands. True if that makes a step. */
static bool land(struct job *job)
{
	struct ol_arrival arrival = { .version = job->version };
	double loss = 0.0, factor;
	const double *w;
	enum ol_verdict verdict;

	for (uint32_t i = 0; i < job->workers; i++) {
		if (job->done[i] < job->done[arrival.worker])
			arrival.worker = i;
	}
	job->now = job->done[arrival.worker];
	assert_true(isfinite(job->now) != 0);
	w = job->late == OL_LATE_DROP ? job->w : job->from[arrival.worker];
	factor = job->late == OL_LATE_AGED
			 ? 1.0 / (1.0 + (double)(job->version - job->base[arrival.worker]))
			 : 1.0;
	for (uint32_t i = 0; i < SIZE; i++) {
		job->grad[arrival.worker][i] = factor * (w[i] + job->noise * normal(job));
		loss += w[i] * w[i] / 2.0;
	}
	arrival.now_ns = (uint64_t)(job->now * SECOND);
	arrival.base_version = job->base[arrival.worker];
	arrival.loss = (float)(loss + 0.01 * normal(job));
	verdict = ol_policy_on_gradient(job->policy, &arrival);
	if (verdict == OL_VERDICT_LATE) {
		begin(job, arrival.worker);
		return false;
	}
	job->held[arrival.worker] = true;
	job->done[arrival.worker] = INFINITY;
	if (verdict == OL_VERDICT_STEP)
		step(job);
	return verdict == OL_VERDICT_STEP;
}

static struct ol_policy_stat stat_of(const struct job *job)
{
	struct ol_policy_stat stat;

	ol_policy_get_stat(job->policy, &stat);
	return stat;
}

/* The mean k of so many steps */
static double steps(struct job *job, uint32_t count)
{
	double sum = 0.0;

	for (uint32_t i = 0; i < count;) {
		if (!land(job))
			continue;
		sum += stat_of(job).k;
		i++;
	}
	return sum / count;
}

static void fixed_times_let_it_wait_for_all(void **unused)
{
	struct job *job = job_open(OL_WAIT_DBW, 16, 0.0, 1.0, 0.2);

	(void)unused;
	assert_int_equal(stat_of(job).k, 2); /* before anything is known */
	assert_true(ol_policy_wants_norms(job->policy));
	assert_true(steps(job, 16) > 8.0);
	assert_true(steps(job, 200) > 15.9);
	assert_near(stat_of(job).seconds, 1.0, 1e-6);
	ol_policy_destroy(job->policy);
}

static void a_clear_gradient_needs_few_and_a_noisy_one_more(void **unused)
{
	struct job *job = job_open(OL_WAIT_DBW, 16, 1.0, 0.3, 0.2);
	double first, last;

	(void)unused;
	steps(job, 2);
	first = steps(job, 10);
	steps(job, 300);
	last = steps(job, 500);
	assert_true(first < 5.0);
	assert_true(last > 2.0 * first);
	assert_true(stat_of(job).late > 0);
	ol_policy_destroy(job->policy);
}

static void who_became_slow_is_not_waited_for(void **unused)
{
	struct job *job = job_open(OL_WAIT_DBW, 16, 0.0, 1.0, 0.005);
	double began;

	(void)unused;
	steps(job, 50);
	job->slow = 5.0;
	steps(job, 30);
	began = job->now;
	assert_true(steps(job, 100) < 9.0);
	assert_true(job->now - began < 150.0); /* waiting for all takes 500 */
	ol_policy_destroy(job->policy);
}

/* The best of noisy scores is another one at each step; a step of two that shows the variance changes nothing */
static void k_stays_unless_another_promises_more(void **unused)
{
	struct job *job = job_open(OL_WAIT_DBW, 16, 0.1, 3.0, 0.02);
	uint32_t before, changes = 0;

	(void)unused;
	steps(job, 300);
	before = stat_of(job).k;
	for (uint32_t i = 0; i < 500; i++) {
		steps(job, 1);
		changes += stat_of(job).k != before;
		before = stat_of(job).k;
	}
	printf("k was changed %u times in 500 steps\n", changes);
	assert_in_range(changes, 0, 100); /* without the rule 148 */
	ol_policy_destroy(job->policy);
}

static void blind_it_wants_most_gradients_a_second(void **unused)
{
	struct job *job = job_open(OL_WAIT_DBW_BLIND, 16, 0.2, 1.0, 0.2);
	double k;

	(void)unused;
	assert_false(ol_policy_wants_norms(job->policy));
	steps(job, 50);
	k = steps(job, 1000);
	assert_true(k > 12.0 && k < 16.0);
	assert_true(isnan(stat_of(job).gain) != 0);
	job->slow = 5.0;
	steps(job, 100);
	k = steps(job, 500);
	assert_true(k > 6.0 && k < 9.0);
	ol_policy_destroy(job->policy);
}

/* Nobody waits for the dead; who comes back is waited for again. */
static void the_dead_are_not_waited_for(void **unused)
{
	struct job *job = job_open(OL_WAIT_DBW, 8, 0.0, 1.0, 0.2);

	(void)unused;
	steps(job, 20);
	for (uint32_t i = 0; i < 4; i++) {
		ol_policy_on_leave(job->policy, i);
		job->done[i] = 1e18; /* never lands */
		job->held[i] = false;
	}
	if (ol_policy_ready(job->policy))
		step(job);
	assert_true(steps(job, 50) <= 4.0);
	for (uint32_t i = 0; i < 4; i++) {
		ol_policy_on_join(job->policy, i);
		begin(job, i);
	}
	steps(job, 5);
	assert_true(steps(job, 100) > 7.9);
	ol_policy_destroy(job->policy);
}

/* The time until ||w|| has fallen to a tenth */
static double time_to_tenth(enum ol_late late, double lr, struct ol_policy_stat *ret_stat)
{
	struct job *job = job_open_late(OL_WAIT_DBW, late, 16, 1.0, 0.3, lr);
	double norm2 = INFINITY, time;

	while (norm2 > SIZE) { /* it is 100 SIZE at first */
		steps(job, 1);
		norm2 = 0.0;
		for (uint32_t i = 0; i < SIZE; i++)
			norm2 += job->w[i] * job->w[i];
	}
	time = job->now;
	steps(job, 1500); /* to where the estimates are of noise alone */
	*ret_stat = stat_of(job);
	ol_policy_destroy(job->policy);
	return time;
}

/* With a small learning rate old gradients are as good as new ones, and there are more of them */
static void carried_gradients_save_time(void **unused)
{
	struct ol_policy_stat drop, next, aged;
	double dropping = time_to_tenth(OL_LATE_DROP, 0.02, &drop);
	double carrying = time_to_tenth(OL_LATE_NEXT, 0.02, &next);
	double ageing = time_to_tenth(OL_LATE_AGED, 0.02, &aged);

	(void)unused;
	printf("to a tenth: %.1f s; late ones carried: %.1f s, aged: %.1f s\n", dropping, carrying,
	       ageing);
	assert_true(carrying < dropping / 2.0);
	assert_true(ageing < 3.0 * dropping);
	assert_true(drop.late > 100 && drop.carried == 0);
	assert_true(next.late == 0 && next.carried > 100);
	assert_true(aged.late == 0 && aged.carried > 100);
	/* 0.3^2 a coordinate, and what gradients of several ages differ by */
	assert_true(next.variance > 0.5 * SIZE * 0.09 && next.variance < 2.0 * SIZE * 0.09);
	assert_true(aged.variance > 0.5 * SIZE * 0.09 && aged.variance < 2.0 * SIZE * 0.09);
	assert_true(next.smoothness >= 0.0 && aged.smoothness >= 0.0);
}

/* Where ten times as many steps at old weights would make the weights swing, it waits for more */
static void a_large_rate_lets_it_wait_for_more_than_one(void **unused)
{
	struct ol_policy_stat small, large;

	(void)unused;
	(void)time_to_tenth(OL_LATE_NEXT, 0.02, &small);
	(void)time_to_tenth(OL_LATE_NEXT, 0.8, &large);
	assert_true(small.k < large.k);
}

static void one_worker_is_all(void **unused)
{
	struct job *job = job_open(OL_WAIT_DBW, 1, 1.0, 1.0, 0.2);

	(void)unused;
	assert_true(steps(job, 100) == 1.0);
	ol_policy_destroy(job->policy);
}

static void single_gradients_are_checked_now_and_then(void **unused)
{
	struct job *job = job_open(OL_WAIT_DBW, 4, 1.0, 0.0, 0.2);
	uint32_t twos = 0, ones = 0;

	(void)unused;
	for (uint32_t i = 0; i < 400; i++) {
		double k = steps(job, 1);

		ones += k == 1.0;
		twos += k >= 2.0;
	}
	assert_true(ones > 320 && twos > 5);
	ol_policy_destroy(job->policy);
}

/* Versions that jump, losses and norms that are no number, queued pushes, times that go back */
static void nothing_that_it_is_told_breaks_it(void **unused)
{
	static const double strange[] = { NAN, INFINITY, -INFINITY, -1.0, 0.0, 1e300, 1e-300, 1.0 };

	(void)unused;
	for (unsigned at = 0; at < 9; at++) {
		struct job *job = job_open_late(OL_WAIT_DBW + at / 3, OL_LATE_DROP + at % 3, 4, 0.5,
						1.0, 0.2);

		for (uint32_t i = 0; i < 20000; i++) {
			struct ol_arrival arrival = {
				.base_version = (uint64_t)(uniform(job) * 8),
				.version = (uint64_t)(uniform(job) * 8),
				.now_ns = (uint64_t)(uniform(job) * 1e6),
				.worker = (uint32_t)(uniform(job) * 4),
				.loss = (float)strange[(int)(uniform(job) * 8)],
				.queued = uniform(job) < 0.2,
			};
			struct ol_update update = {
				.version = (uint64_t)(uniform(job) * 8),
				.now_ns = (uint64_t)(uniform(job) * 1e6),
				.count = (uint32_t)(uniform(job) * 6),
				.norm2_sum = strange[(int)(uniform(job) * 8)],
				.norm2_mean = strange[(int)(uniform(job) * 8)],
			};

			if (ol_policy_on_gradient(job->policy, &arrival) == OL_VERDICT_STEP)
				ol_policy_on_update(job->policy, &update);
			if (uniform(job) < 0.05)
				ol_policy_on_leave(job->policy, arrival.worker);
			assert_in_range(stat_of(job).k, 1, 4);
		}
		ol_policy_destroy(job->policy);
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* No test of speed: README.md quotes what it prints. */
static void what_a_choice_costs(void **unused)
{
	enum {
		CHOICES = 400
	};
	static const uint32_t sizes[] = { 4, 16, 64, 256 };
	static uint64_t spent[CHOICES];

	(void)unused;
	for (uint32_t at = 0; at < 4; at++) {
		struct job *job = job_open(OL_WAIT_DBW, sizes[at], 1.0, 1.0, 0.2);

		for (uint32_t i = 0; i < CHOICES; i++) {
			struct ol_update update = { .count = 2, .norm2_sum = 30.0 };
			uint64_t began;

			steps(job, 2);
			update.version = ++job->version;
			update.now_ns = (uint64_t)(job->now * SECOND);
			update.norm2_mean = 10.0;
			began = ol_clock_ns();
			ol_policy_on_update(job->policy, &update);
			spent[i] = ol_clock_ns() - began;
			for (uint32_t j = 0; j < job->workers; j++) {
				job->held[j] = false;
				begin(job, j);
			}
		}
		qsort(spent, CHOICES, sizeof(spent[0]), by_size);
		printf("%u workers: a choice takes %.1f us (median), %.1f (99th of 100)\n",
		       sizes[at], (double)spent[CHOICES / 2] / 1e3,
		       (double)spent[CHOICES * 99 / 100] / 1e3);
		assert_true(spent[0] > 0);
		ol_policy_destroy(job->policy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fixed_times_let_it_wait_for_all),
		cmocka_unit_test(a_clear_gradient_needs_few_and_a_noisy_one_more),
		cmocka_unit_test(who_became_slow_is_not_waited_for),
		cmocka_unit_test(k_stays_unless_another_promises_more),
		cmocka_unit_test(blind_it_wants_most_gradients_a_second),
		cmocka_unit_test(the_dead_are_not_waited_for),
		cmocka_unit_test(carried_gradients_save_time),
		cmocka_unit_test(a_large_rate_lets_it_wait_for_more_than_one),
		cmocka_unit_test(one_worker_is_all),
		cmocka_unit_test(single_gradients_are_checked_now_and_then),
		cmocka_unit_test(nothing_that_it_is_told_breaks_it),
		cmocka_unit_test(what_a_choice_costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
