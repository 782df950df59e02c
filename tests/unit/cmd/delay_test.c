/* SPDX-License-Identifier: BSD-3-Clause */

/* delay_test.c -- values of --delay and traces are parsed right or refused, and draws follow them */

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/delay.h"

static struct ol_delay parsed(const char *text)
{
	struct ol_delay delay = { 0 };
	char err[OL_DELAY_ERR_MAX] = "";

	if (ol_delay_parse(text, &delay, err, sizeof(err)) != 0)
		fail_msg("%s: %s", text, err);
	return delay;
}

static double draw(const struct ol_delay *delay, uint32_t worker, uint64_t step)
{
	struct learn_key key = { .seed = 7, .step = step, .worker = worker };

	return ol_delay_draw(delay, &key);
}

static void nothing_is_no_delay(void **state)
{
	struct ol_delay delay = parsed(NULL);

	(void)state;
	assert_true(draw(&delay, 3, 5) == 0.0);
	assert_true(ol_delay_factor(&delay, 0, 4, 1e9) == 1.0);
}

static void the_exponential_has_its_mean_and_deviation(void **state)
{
	static const double alphas[] = { 0.0, 0.2, 1.0 };

	(void)state;
	for (size_t a = 0; a < 3; a++) {
		char text[64];
		struct ol_delay delay;
		double sum = 0.0, sum2 = 0.0, least = INFINITY;

		snprintf(text, sizeof(text), "exp:mean=20ms,alpha=%.1f", alphas[a]);
		delay = parsed(text);
		for (uint64_t i = 0; i < 40000; i++) {
			double one = draw(&delay, (uint32_t)(i % 4), i / 4) / 0.02;

			sum += one;
			sum2 += one * one;
			least = fmin(least, one);
		}
		sum /= 40000.0;
		sum2 = sqrt(fmax(sum2 / 40000.0 - sum * sum, 0.0));
		if (fabs(sum - 1.0) > 0.02 || fabs(sum2 - alphas[a]) > 0.03 ||
		    least < 1.0 - alphas[a] - 1e-9)
			fail_msg("%s: mean %g, deviation %g, least %g", text, sum, sum2, least);
	}
}

static void a_draw_is_a_function_of_seed_worker_and_gradient(void **state)
{
	struct ol_delay delay = parsed("exp:mean=1s,alpha=1");
	struct learn_key other = { .seed = 8, .step = 2, .worker = 1 };

	(void)state;
	assert_true(draw(&delay, 1, 2) == draw(&delay, 1, 2));
	assert_true(draw(&delay, 1, 2) != draw(&delay, 1, 3));
	assert_true(draw(&delay, 1, 2) != draw(&delay, 2, 2));
	assert_true(draw(&delay, 1, 2) != ol_delay_draw(&delay, &other));
}

static void the_slow_ones_are_the_last_and_only_from_their_time_on(void **state)
{
	struct ol_delay delay = parsed("exp:mean=1ms+slow:workers=half,factor=5,from=60s");

	(void)state;
	assert_true(delay.mean_s == 0.001 && delay.alpha == 1.0);
	assert_true(ol_delay_factor(&delay, 3, 4, 59.9) == 1.0);
	assert_true(ol_delay_factor(&delay, 1, 4, 60.0) == 1.0);
	assert_true(ol_delay_factor(&delay, 2, 4, 60.0) == 5.0);
	delay = parsed("slow:factor=2.5,workers=1");
	assert_true(ol_delay_factor(&delay, 2, 4, 0.0) == 1.0);
	assert_true(ol_delay_factor(&delay, 3, 4, 0.0) == 2.5);
	delay = parsed("slow:factor=2,workers=9");
	assert_true(ol_delay_factor(&delay, 0, 4, 0.0) == 2.0);
}

static void other_words_are_refused(void **state)
{
	static const char *const bad[] = {
		"exp",
		"exp:",
		"exp:alpha=0.5",
		"exp:mean=0ms",
		"exp:mean=20",
		"exp:mean=20ms,alpha=1.5",
		"exp:mean=20ms,alpha=-1",
		"exp:mean=20ms,alpha=nan",
		"exp:mean=20ms,beta=1",
		"exp:mean=1ms+exp:mean=2ms",
		"trace:",
		"trace:/nowhere/at/all",
		"slow:workers=half",
		"slow:factor=5",
		"slow:workers=0,factor=5",
		"slow:workers=1.5,factor=5",
		"slow:workers=half,factor=0.5",
		"slow:workers=half,factor=5,from=soon",
		"slow:workers=half,factor=5,from=1s+slow:workers=1,factor=2",
		"exp:mean=1ms+",
		"often",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ol_delay delay = { .alpha = 77.0 };
		char err[OL_DELAY_ERR_MAX] = "";

		if (ol_delay_parse(bad[i], &delay, err, sizeof(err)) == 0)
			fail_msg("\"%s\" is taken", bad[i]);
		if (err[0] == '\0' || strchr(err, '\n') != NULL)
			fail_msg("\"%s\": not one line: \"%s\"", bad[i], err);
		assert_true(delay.alpha == 77.0);
	}
}

/* A file with this text, and what parsing trace:FILE gives; the file is gone afterwards */
static int trace(const char *text, struct ol_delay *ret_delay, char err[OL_DELAY_ERR_MAX])
{
	char path[] = "/tmp/outlast-delay-XXXXXX", spec[64];
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	snprintf(spec, sizeof(spec), "trace:%s", path);
	rc = ol_delay_parse(spec, ret_delay, err, OL_DELAY_ERR_MAX);
	unlink(path);
	return rc;
}

static void a_trace_goes_round_and_workers_begin_apart(void **state)
{
	char err[OL_DELAY_ERR_MAX] = "";
	struct ol_delay delay;

	(void)state;
	assert_int_equal(trace("# milliseconds\n1\n 2.5 # slow\n\n40", &delay, err), 0);
	assert_int_equal(delay.trace_count, 3);
	assert_true(draw(&delay, 0, 0) == 0.001 && draw(&delay, 0, 1) == 0.0025);
	assert_true(draw(&delay, 0, 2) == 0.04 && draw(&delay, 0, 3) == 0.001);
	assert_true(draw(&delay, 1, 0) == 0.0025); /* 1009 is 1 beyond a multiple of 3 */
	ol_delay_fini(&delay);
}

static void a_trace_that_is_none_is_named_with_its_line(void **state)
{
	char err[OL_DELAY_ERR_MAX] = "", *text;
	struct ol_delay delay;

	(void)state;
	assert_int_equal(trace("", &delay, err), -EINVAL);
	assert_non_null(strstr(err, "holds no delay"));
	assert_int_equal(trace("# nothing\n\n", &delay, err), -EINVAL);
	assert_non_null(strstr(err, "holds no delay"));
	assert_int_equal(trace("1\n2\n-3\n", &delay, err), -EINVAL);
	assert_non_null(strstr(err, "line 3: is no delay"));
	assert_int_equal(trace("1\ntwo\n", &delay, err), -EINVAL);
	assert_non_null(strstr(err, "line 2: is no delay"));
	assert_int_equal(trace("1 2\n", &delay, err), -EINVAL);
	assert_int_equal(trace("1e9\n", &delay, err), -EINVAL);
	assert_int_equal(trace("9999999999\n", &delay, err), -EINVAL);
	text = malloc(1000);
	assert_non_null(text);
	memset(text, '1', 999);
	text[999] = '\0';
	assert_int_equal(trace(text, &delay, err), -EINVAL);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_no_delay),
		cmocka_unit_test(the_exponential_has_its_mean_and_deviation),
		cmocka_unit_test(a_draw_is_a_function_of_seed_worker_and_gradient),
		cmocka_unit_test(the_slow_ones_are_the_last_and_only_from_their_time_on),
		cmocka_unit_test(other_words_are_refused),
		cmocka_unit_test(a_trace_goes_round_and_workers_begin_apart),
		cmocka_unit_test(a_trace_that_is_none_is_named_with_its_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
