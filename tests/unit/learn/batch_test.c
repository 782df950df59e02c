/* SPDX-License-Identifier: BSD-3-Clause */

/* batch_test.c -- a batch is a pure function of its key, uniform over the samples, scaled as a
 * model wants it */

#include "learn/data.h"
#include "unit/learn/learn_util.h"

enum {
	SAMPLES = 100,
	BATCH = 32
};

static uint8_t pixels[SAMPLES * 2];
static uint16_t labels[SAMPLES];

/* A set in which pixels and label tell which sample it is. */
static const struct learn_data data = {
	.shape = { .rows = 1, .cols = 2, .features = 2, .classes = SAMPLES },
	.train = { .count = SAMPLES, .pixels = pixels, .labels = labels },
	.test = { .count = SAMPLES / 2, .pixels = pixels, .labels = labels },
};

static int fill(void **state)
{
	struct learn_batch *batch = NULL;

	for (unsigned i = 0; i < SAMPLES; i++) {
		pixels[2 * i] = (uint8_t)i;
		pixels[2 * i + 1] = (uint8_t)(255 - i);
		labels[i] = (uint16_t)i;
	}
	if (learn_batch_create(&data.shape, BATCH, &batch) != 0)
		return -1;
	*state = batch;
	return 0;
}

static int drop(void **state)
{
	learn_batch_destroy(*state);
	return 0;
}

static float scaled(unsigned pixel)
{
	return ((float)pixel / 255.0f - 0.5f) / 0.5f;
}

static void pixels_are_scaled_to_plus_minus_one(void **state)
{
	struct learn_batch *batch = *state;

	assert_true(scaled(0) == -1.0f && scaled(255) == 1.0f);
	assert_int_equal(learn_batch_load(&data, &data.train, 10, 5, batch), 0);
	assert_int_equal(batch->count, 5);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(batch->labels[i], 10 + i);
		assert_true(batch->x[2 * i] == scaled(10 + i));
		assert_true(batch->x[2 * i + 1] == scaled(245 - i));
	}
	assert_int_equal((uintptr_t)batch->x % 64, 0);
}

static void the_same_key_draws_the_same_batch(void **state)
{
	const struct learn_key key = { .seed = 5, .step = 77, .worker = 3 };
	const struct learn_key other = { .seed = 5, .step = 78, .worker = 3 };
	struct learn_batch *batch = *state;
	uint16_t first[BATCH];
	float x[BATCH * 2];

	assert_int_equal(learn_batch_draw(&data, &key, BATCH, batch), 0);
	memcpy(first, batch->labels, sizeof(first));
	memcpy(x, batch->x, sizeof(x));
	assert_int_equal(learn_batch_draw(&data, &other, BATCH, batch), 0);
	assert_memory_not_equal(batch->labels, first, sizeof(first));
	assert_int_equal(learn_batch_draw(&data, &key, BATCH, batch), 0);
	assert_memory_equal(batch->labels, first, sizeof(first));
	assert_memory_equal(batch->x, x, sizeof(x));
	assert_int_equal(learn_batch_draw(&data, &key, 7, batch), 0);
	assert_int_equal(batch->count, 7);
	assert_memory_equal(batch->labels, first, 7 * sizeof(first[0]));
}

/* Pearson's statistic of 99 degrees of freedom: mean 99, deviation 14; 160 is beyond 4
 * deviations. */
static void draws_are_uniform_and_with_replacement(void **state)
{
	struct learn_batch *batch = *state;
	unsigned hits[SAMPLES] = { 0 };
	unsigned repeats = 0;
	double expected = 2000.0 * BATCH / SAMPLES;
	double chi2 = 0;

	for (uint64_t step = 0; step < 2000; step++) {
		struct learn_key key = { .seed = 1, .step = step, .worker = (uint32_t)step % 3 };
		bool seen[SAMPLES] = { false };

		assert_int_equal(learn_batch_draw(&data, &key, BATCH, batch), 0);
		for (unsigned i = 0; i < BATCH; i++) {
			hits[batch->labels[i]]++;
			repeats += seen[batch->labels[i]];
			seen[batch->labels[i]] = true;
		}
	}
	for (unsigned i = 0; i < SAMPLES; i++)
		chi2 += (hits[i] - expected) * (hits[i] - expected) / expected;
	assert_true(chi2 > 50 && chi2 < 160);
	/* 32 of 100 with replacement: 32 - 100 * (1 - 0.99^32) = 4.50 repeats a batch */
	assert_true(fabs(repeats / 2000.0 - 4.50) < 0.2);
}

static void wrong_ranges_are_refused(void **state)
{
	const struct learn_key key = { .seed = 1 };
	struct learn_data wider = data;
	struct learn_batch *batch = *state;
	struct learn_batch *none = NULL;

	wider.shape.features = 3;
	assert_int_equal(learn_batch_draw(&data, &key, 0, batch), -EINVAL);
	assert_int_equal(learn_batch_draw(&data, &key, BATCH + 1, batch), -EINVAL);
	assert_int_equal(learn_batch_draw(&wider, &key, 1, batch), -EINVAL);
	assert_int_equal(learn_batch_load(&data, &data.test, SAMPLES / 2, 1, batch), -EINVAL);
	assert_int_equal(learn_batch_load(&data, &data.test, SAMPLES / 2 - 1, 2, batch), -EINVAL);
	assert_int_equal(learn_batch_load(&data, &data.test, SIZE_MAX, 2, batch), -EINVAL);
	assert_int_equal(learn_batch_load(&data, &data.test, 0, 0, batch), -EINVAL);
	assert_int_equal(learn_batch_load(&data, &data.test, SAMPLES / 2 - 1, 1, batch), 0);
	assert_int_equal(learn_batch_create(&data.shape, 0, &none), -EINVAL);
	assert_int_equal(learn_batch_create(&data.shape, LEARN_BATCH_MAX + 1, &none), -EINVAL);
	assert_null(none);
	learn_batch_destroy(NULL);
	learn_data_close(NULL);
}

#define WITH_BATCH(test) cmocka_unit_test_setup_teardown(test, fill, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_BATCH(pixels_are_scaled_to_plus_minus_one),
		WITH_BATCH(the_same_key_draws_the_same_batch),
		WITH_BATCH(draws_are_uniform_and_with_replacement),
		WITH_BATCH(wrong_ranges_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
