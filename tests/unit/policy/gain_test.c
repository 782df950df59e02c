/* SPDX-License-Identifier: BSD-3-Clause */

/* gain_test.c -- norm, variance and smoothness are estimated without bias on a problem with known
 * values, the gain is that of the descent lemma, and NaNs do no harm */

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/gain.h"

#define assert_near(a, b, margin) assert_true(fabs((a) - (b)) <= (margin))

enum {
	SIZE = 20, /* of the parameters */
	DRAWS = 10000
};

/* loss(w) = curvature / 2 ||w||^2, whose gradient is seen with normal noise of each coordinate */
struct problem {
	uint64_t seed;
	double curvature;
	double noise; /* standard deviation of a coordinate of a gradient */
	double loss_noise; /* … and of a loss */
	double w[SIZE];
};

/* A step's mean gradient, beside what a policy is told of it */
struct draw {
	double mean[SIZE];
	struct ol_gain_input input;
};

static double uniform(struct problem *problem)
{
	problem->seed = problem->seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(problem->seed >> 11) / 9007199254740992.0;
}

static double normal(struct problem *problem)
{
	double radius = sqrt(-2.0 * log(1.0 - uniform(problem)));

	return radius * cos(2.0 * 3.14159265358979 * uniform(problem));
}

static double norm2(const double *v)
{
	double sum = 0.0;

	for (uint32_t i = 0; i < SIZE; i++)
		sum += v[i] * v[i];
	return sum;
}

static struct draw draw(struct problem *problem, uint32_t k)
{
	struct draw result = { .input = {
				       .count = k, .factor = 1.0, .factor2 = 1.0, .losses = k } };
	double loss = problem->curvature / 2.0 * norm2(problem->w), losses2 = 0.0;

	for (uint32_t j = 0; j < k; j++) {
		double gradient[SIZE], off = problem->loss_noise * normal(problem);

		for (uint32_t i = 0; i < SIZE; i++) {
			gradient[i] = problem->curvature * problem->w[i] +
				      problem->noise * normal(problem);
			result.mean[i] += gradient[i] / k;
		}
		result.input.norm2_sum += norm2(gradient);
		result.input.loss += off / k;
		losses2 += off * off;
	}
	result.input.norm2_mean = norm2(result.mean);
	result.input.loss_spread = losses2 - k * result.input.loss * result.input.loss;
	result.input.loss += loss;
	return result;
}

static struct problem problem_of(double curvature, double noise, double loss_noise, double start)
{
	struct problem problem = {
		.seed = 3, .curvature = curvature, .noise = noise, .loss_noise = loss_noise
	};

	for (uint32_t i = 0; i < SIZE; i++)
		problem.w[i] = start;
	return problem;
}

static struct ol_gain make(double lr, uint32_t window, uint32_t smoothness_window)
{
	struct ol_policy_opts opts;
	struct ol_gain gain;

	ol_policy_opts_init(&opts);
	opts.lr = lr;
	opts.window = window;
	opts.smoothness_window = smoothness_window;
	assert_int_equal(ol_gain_init(&gain, &opts), 0);
	return gain;
}

static void norm_and_variance_have_no_bias(void **unused)
{
	static const uint32_t ks[] = { 2, 3, 8, 16 };

	(void)unused;
	for (uint32_t at = 0; at < 4; at++) {
		struct problem problem = problem_of(2.0, 1.0, 0.0, 0.75);
		struct ol_gain gain = make(0.1, 1, 1);
		double variance = 0.0, norm = 0.0;

		for (int i = 0; i < DRAWS; i++) {
			struct draw step = draw(&problem, ks[at]);

			ol_gain_on_step(&gain, &step.input);
			variance += gain.variance / DRAWS;
			norm += gain.norm2 / DRAWS;
		}
		assert_near(variance / (SIZE * 1.0), 1.0, 0.02);
		assert_near(norm / (SIZE * 1.5 * 1.5), 1.0, 0.02);
		ol_gain_fini(&gain);
	}
}

/* The i-th of k gradients counts 1 / (1 + i) */
static struct draw draw_aged(struct problem *problem, uint32_t k)
{
	struct draw result = { .input = { .count = k, .losses = 1, .loss = 1.0 } };

	for (uint32_t j = 0; j < k; j++) {
		const double factor = 1.0 / (1.0 + j);
		double gradient[SIZE];

		for (uint32_t i = 0; i < SIZE; i++) {
			gradient[i] = factor * (problem->curvature * problem->w[i] +
						problem->noise * normal(problem));
			result.mean[i] += gradient[i] / k;
		}
		result.input.norm2_sum += norm2(gradient);
		result.input.factor += factor / k;
		result.input.factor2 += factor * factor / k;
	}
	result.input.norm2_mean = norm2(result.mean);
	return result;
}

static void old_gradients_of_less_weight_cause_no_bias(void **unused)
{
	(void)unused;
	for (uint32_t k = 2; k <= 8; k += 3) {
		struct problem problem = problem_of(2.0, 1.0, 0.0, 0.75);
		struct ol_gain gain = make(0.1, 1, 1);
		double variance = 0.0, norm = 0.0;

		for (int i = 0; i < DRAWS; i++) {
			struct draw step = draw_aged(&problem, k);

			ol_gain_on_step(&gain, &step.input);
			assert_near(gain.factor, step.input.factor, 1e-12);
			assert_near(gain.factor2, step.input.factor2, 1e-12);
			variance += gain.variance / DRAWS;
			norm += gain.norm2 / DRAWS;
		}
		assert_near(variance / (SIZE * 1.0), 1.0, 0.02);
		assert_near(norm / (SIZE * 1.5 * 1.5), 1.0, 0.02);
		ol_gain_fini(&gain);
	}
}

/* With k = 1 half of the time, what is known of the variance must do. */
static void single_gradients_lean_on_the_variance_of_before(void **unused)
{
	struct problem problem = problem_of(2.0, 1.0, 0.0, 0.75);
	struct ol_gain gain = make(0.1, 1, 10);
	struct draw step = draw(&problem, 1);
	double norm = 0.0;

	(void)unused;
	ol_gain_on_step(&gain, &step.input);
	assert_true(isnan(gain.variance) != 0);
	assert_true(isnan(gain.norm2) != 0);
	for (int i = 0; i < DRAWS; i++) {
		step = draw(&problem, 4);
		ol_gain_on_step(&gain, &step.input);
		assert_int_equal(gain.variance_age, 0);
		step = draw(&problem, 1);
		ol_gain_on_step(&gain, &step.input);
		assert_int_equal(gain.variance_age, 1);
		norm += gain.norm2 / DRAWS;
	}
	assert_near(norm / (SIZE * 1.5 * 1.5), 1.0, 0.03);
	ol_gain_fini(&gain);
}

/* A step of two among many of one shows the variance badly; sixteen such steps do better. */
static void the_variance_is_of_many_steps_where_most_show_none(void **unused)
{
	struct problem problem = problem_of(2.0, 1.0, 0.0, 2.0);
	struct ol_gain gain = make(0.1, 48, 800);
	double mean = 0.0, error2 = 0.0;

	(void)unused;
	for (int i = 0; i < DRAWS / 50; i++) {
		struct draw step = draw(&problem, 2);

		ol_gain_on_step(&gain, &step.input);
		for (unsigned single = 0; single < 62; single++) {
			step = draw(&problem, 1);
			ol_gain_on_step(&gain, &step.input);
		}
		if (i < 16)
			continue;
		mean += gain.variance / SIZE / (DRAWS / 50 - 16);
		error2 += pow(gain.variance / SIZE - 1.0, 2.0) / (DRAWS / 50 - 16);
	}
	assert_near(mean, 1.0, 0.03);
	assert_true(error2 < 2.0 / SIZE / 12.0); /* of one degree of freedom it is 2 / SIZE */
	ol_gain_fini(&gain);
}

/* The mean over so many runs of what is believed after so many steps */
static double smoothness_after(double loss_noise, double share, uint32_t steps)
{
	enum {
		RUNS = 100
	};
	double sum = 0.0;

	for (uint32_t run = 0; run < RUNS; run++) {
		struct problem problem = problem_of(4.0, 0.5, loss_noise, 5.0);
		struct ol_gain gain = make(0.1, 20, 200);

		problem.seed += run;
		gain.share = share;
		for (uint32_t t = 0; t < steps; t++) {
			struct draw step = draw(&problem, 4);

			ol_gain_on_step(&gain, &step.input);
			for (uint32_t i = 0; i < SIZE; i++)
				problem.w[i] -= 0.1 * step.mean[i];
		}
		sum += gain.smoothness / RUNS;
		ol_gain_fini(&gain);
	}
	return sum;
}

static void smoothness_is_found_while_descending(void **unused)
{
	(void)unused;
	assert_near(smoothness_after(0.0, 1.0, 2), 4.0, 0.4);
	assert_near(smoothness_after(0.0, 1.0, 10), 4.0, 0.4);
	assert_near(smoothness_after(0.01, 1.0, 10), 4.0, 0.4);
	/* at the bottom nothing but noise is left to tell it from */
	assert_near(smoothness_after(0.01, 1.0, 200), 4.0, 0.8);
	/* a server of half of the floats, told so, takes half of the fall for its own: with all of
	 * the gradient this means that the slope does half of what it promised */
	assert_near(smoothness_after(0.0, 0.5, 3), 12.0, 0.8);
}

/* At the noise floor all that is left is a difference of noisy losses. */
static void smoothness_is_never_negative(void **unused)
{
	struct problem problem = problem_of(1.0, 0.1, 10.0, 0.1);
	struct ol_gain gain = make(0.01, 20, 40);
	uint32_t flat = 0;

	(void)unused;
	for (int t = 0; t < 1000; t++) {
		struct draw step = draw(&problem, 2);

		ol_gain_on_step(&gain, &step.input);
		assert_false(gain.smoothness < 0.0);
		flat += gain.smoothness == 0.0;
	}
	assert_in_range(flat, 300, 700);
	ol_gain_fini(&gain);
}

static struct ol_gain known(double lr, double n, double v, double l)
{
	struct ol_gain gain = make(lr, 20, 20);

	gain.drive = n;
	gain.variance = v;
	gain.smoothness = l;
	return gain;
}

static void gain_grows_with_k_ever_less(void **unused)
{
	struct ol_gain gain = known(0.1, 2.0, 30.0, 3.0);
	double limit = (0.1 - 3.0 * 0.01 / 2.0) * 2.0, last = 0.0, last_step = INFINITY;

	(void)unused;
	for (uint32_t k = 1; k < 1000; k++) {
		double now = ol_gain_expect(&gain, k);

		if (k > 1) {
			assert_true(now > last);
			assert_true(now - last < last_step);
			last_step = now - last;
		}
		assert_true(now < limit);
		last = now;
	}
	assert_near(ol_gain_expect(&gain, 1e12), limit, 1e-9);
	ol_gain_fini(&gain);
}

/* lr s M - L lr^2 / 2 (s^2 M + q V / k), with s and q of the steps that were */
static void old_gradients_make_a_step_shorter(void **unused)
{
	struct ol_gain gain = known(0.1, 2.0, 30.0, 3.0);

	(void)unused;
	assert_near(ol_gain_expect(&gain, 4.0), 0.1 * 2.0 - 0.015 * (2.0 + 7.5), 1e-12);
	gain.factor = 0.5;
	gain.factor2 = 0.4;
	assert_near(ol_gain_expect(&gain, 4.0), 0.05 * 2.0 - 0.015 * (0.25 * 2.0 + 0.4 * 7.5),
		    1e-12);
	ol_gain_fini(&gain);
}

static void gain_is_positive_above_the_k_that_the_lemma_says(void **unused)
{
	struct ol_gain gain = known(0.1, 2.0, 300.0, 3.0);
	double least = 3.0 * 0.1 * 300.0 / ((2.0 - 3.0 * 0.1) * 2.0);

	(void)unused;
	assert_true(ol_gain_expect(&gain, 0.999 * least) < 0.0);
	assert_true(ol_gain_expect(&gain, 1.001 * least) > 0.0);
	gain.lr = 2.0 / 3.0 + 1e-9; /* from 2 / L on no k does */
	assert_true(ol_gain_expect(&gain, 1e12) < 0.0);
	gain.smoothness = 0.0; /* flat */
	assert_true(ol_gain_expect(&gain, 1.0) == ol_gain_expect(&gain, 100.0));
	ol_gain_fini(&gain);
}

/* Two steps of k gradients: a loss of 1, then another, of gradients so far apart */
static bool rises(double loss, double spread, uint32_t k)
{
	struct ol_gain gain = make(0.1, 20, 20);
	struct ol_gain_input input = { .count = k,
				       .factor = 1.0,
				       .factor2 = 1.0,
				       .losses = k,
				       .norm2_sum = 2.0 * k,
				       .norm2_mean = 1.0,
				       .loss = 1.0 };
	bool rose;

	input.loss_spread = spread * spread * (k - 1);
	ol_gain_on_step(&gain, &input);
	assert_false(gain.rose);
	input.loss = loss;
	ol_gain_on_step(&gain, &input);
	rose = gain.rose;
	ol_gain_fini(&gain);
	return rose;
}

static void a_loss_rises_by_more_than_its_noise(void **unused)
{
	(void)unused;
	assert_false(rises(1.009, 0.0, 4));
	assert_true(rises(1.011, 0.0, 4));
	/* standard error of the difference of two means of 8: 0.1 * sqrt(2 / 8) = 0.05 */
	assert_false(rises(1.14, 0.1, 8));
	assert_true(rises(1.16, 0.1, 8));
	assert_false(rises(0.5, 0.1, 8));
}

static void what_is_no_number_is_no_news(void **unused)
{
	struct problem problem = problem_of(2.0, 1.0, 0.01, 0.75);
	struct ol_gain gain = make(0.01, 20, 80);

	(void)unused;
	for (int i = 0; i < 30; i++) {
		struct draw step = draw(&problem, 4);

		ol_gain_on_step(&gain, &step.input);
	}
	for (int i = 0; i < 100; i++) {
		static const double strange[] = { NAN, INFINITY, -INFINITY, -1.0 };
		struct ol_gain_input input = {
			.count = 4,
			.factor = 1.0,
			.factor2 = 1.0,
			.losses = 4,
			.loss = strange[i % 3],
			.loss_spread = strange[i % 2],
			.norm2_sum = strange[i % 4],
			.norm2_mean = strange[(i + 1) % 4],
		};

		ol_gain_on_step(&gain, &input);
		assert_false(gain.rose);
	}
	/* what was last known holds */
	assert_near(gain.variance / SIZE, 1.0, 0.5);
	assert_near(gain.norm2 / (SIZE * 1.5 * 1.5), 1.0, 0.5);
	assert_true(gain.smoothness >= 0.0 && gain.smoothness < INFINITY);
	assert_near(gain.loss, SIZE * 0.75 * 0.75, 0.1);
	ol_gain_fini(&gain);
}

static void late_losses_count_for_the_step_they_missed(void **unused)
{
	struct ol_gain gain = make(0.1, 20, 20);
	struct ol_gain_input input = { .count = 1,
				       .factor = 1.0,
				       .factor2 = 1.0,
				       .losses = 1,
				       .norm2_sum = 2.0,
				       .norm2_mean = 1.0,
				       .loss = 3.0 };

	(void)unused;
	ol_gain_on_late(&gain, 0, 1.0); /* no step yet */
	ol_gain_on_step(&gain, &input);
	input.count = 2;
	ol_gain_on_step(&gain, &input); /* loss as before: lr N = L / 2 lr^2 mean2 */
	assert_near(gain.smoothness, 2.0 * (1.0 - 0.0) / 0.1, 1e-9);
	ol_gain_on_late(&gain, 1, 1.0); /* it was 2 before: now it rose by 1 */
	ol_gain_on_late(&gain, 1, NAN);
	ol_gain_on_late(&gain, 2, 1.0);
	ol_gain_on_late(&gain, UINT64_MAX, 1.0);
	ol_gain_on_step(&gain, &input);
	assert_near(gain.smoothness, 2.0 * ((1.0 + 0.0) / 2.0 + 0.1) / 0.01, 1e-6);
	ol_gain_fini(&gain);
}

static struct ol_gain make_carrying(void)
{
	struct ol_policy_opts opts;
	struct ol_gain gain;

	ol_policy_opts_init(&opts);
	opts.lr = 0.1;
	opts.window = 20;
	opts.smoothness_window = 400;
	opts.late = OL_LATE_NEXT;
	assert_int_equal(ol_gain_init(&gain, &opts), 0);
	return gain;
}

/* Every third step has a loss, and others get theirs later, or never: the smoothness is that of all steps */
static void losses_that_come_later_are_bridged(void **unused)
{
	struct problem problem = problem_of(4.0, 0.5, 0.0, 5.0);
	struct ol_gain gain = make_carrying();
	double before = 0.0;

	(void)unused;
	for (uint32_t t = 0; t < 12; t++) {
		struct draw step = draw(&problem, 4);
		double loss = step.input.loss;

		if (t % 3 != 0) {
			step.input.losses = 0;
			step.input.loss = NAN;
		}
		ol_gain_on_step(&gain, &step.input);
		if (t % 3 == 1)
			before = loss;
		if (t % 3 == 2)
			ol_gain_on_late(&gain, 1, before);
		for (uint32_t i = 0; i < SIZE; i++)
			problem.w[i] -= 0.1 * step.mean[i];
	}
	assert_near(gain.smoothness, 4.0, 0.4);
	assert_true(gain.drive > 0.0 && gain.drive < INFINITY);
	ol_gain_fini(&gain);
}

static void a_late_loss_shows_a_rise_once(void **unused)
{
	struct ol_gain gain = make_carrying();
	struct ol_gain_input input = { .count = 1,
				       .factor = 1.0,
				       .factor2 = 1.0,
				       .norm2_sum = 2.0,
				       .norm2_mean = 1.0,
				       .loss = NAN };

	(void)unused;
	for (unsigned i = 0; i < 3; i++)
		ol_gain_on_step(&gain, &input);
	ol_gain_on_late(&gain, 2, 1.0);
	ol_gain_on_late(&gain, 1, 1.2);
	ol_gain_on_step(&gain, &input);
	assert_true(gain.rose);
	ol_gain_on_step(&gain, &input);
	assert_false(gain.rose); /* nothing has become known */
	ol_gain_on_late(&gain, 2, 1.2);
	ol_gain_on_step(&gain, &input);
	assert_false(gain.rose);
	ol_gain_fini(&gain);
}

/* What a restored server sees next does not follow what it saw last. */
static void a_restart_compares_no_losses_across_it(void **unused)
{
	struct problem problem = problem_of(2.0, 1.0, 0.0, 0.75);
	struct ol_gain gain = make(0.01, 20, 80);
	double smoothness;

	(void)unused;
	for (int i = 0; i < 30; i++) {
		struct draw step = draw(&problem, 4);

		ol_gain_on_step(&gain, &step.input);
	}
	smoothness = gain.smoothness;
	ol_gain_restart(&gain);
	problem.w[0] = 100.0;
	{
		struct draw step = draw(&problem, 4);

		ol_gain_on_step(&gain, &step.input);
	}
	assert_false(gain.rose);
	assert_true(gain.smoothness == smoothness);
	ol_gain_fini(&gain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(norm_and_variance_have_no_bias),
		cmocka_unit_test(single_gradients_lean_on_the_variance_of_before),
		cmocka_unit_test(the_variance_is_of_many_steps_where_most_show_none),
		cmocka_unit_test(smoothness_is_found_while_descending),
		cmocka_unit_test(smoothness_is_never_negative),
		cmocka_unit_test(gain_grows_with_k_ever_less),
		cmocka_unit_test(old_gradients_make_a_step_shorter),
		cmocka_unit_test(old_gradients_of_less_weight_cause_no_bias),
		cmocka_unit_test(losses_that_come_later_are_bridged),
		cmocka_unit_test(a_late_loss_shows_a_rise_once),
		cmocka_unit_test(gain_is_positive_above_the_k_that_the_lemma_says),
		cmocka_unit_test(a_loss_rises_by_more_than_its_noise),
		cmocka_unit_test(what_is_no_number_is_no_news),
		cmocka_unit_test(late_losses_count_for_the_step_they_missed),
		cmocka_unit_test(a_restart_compares_no_losses_across_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
