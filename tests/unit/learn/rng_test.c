/* SPDX-License-Identifier: BSD-3-Clause */

/* rng_test.c -- random numbers are Philox4x32-10, and a function of only key, purpose and index */

#include "learn/rng.h"

#include "unit/learn/learn_util.h"

/* The vectors that its authors publish with the Random123 library. */
static void philox_gives_the_published_vectors(void **state)
{
	static const struct {
		uint32_t counter[4];
		uint32_t key[2];
		uint32_t want[4];
	} vectors[] = {
		{ { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
		  { 0xffffffff, 0xffffffff },
		  { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
		  { 0xa4093822, 0x299f31d0 },
		  { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		struct learn_rng_block counter, got;

		memcpy(counter.word, vectors[i].counter, sizeof(counter.word));
		got = learn_philox(counter, vectors[i].key[0], vectors[i].key[1]);
		assert_memory_equal(got.word, vectors[i].want, sizeof(got.word));
	}
}

static void every_part_of_the_key_matters(void **state)
{
	const struct learn_key keys[] = {
		{ .seed = 1, .step = 2, .worker = 3 },
		{ .seed = 1 | 1ull << 40, .step = 2, .worker = 3 },
		{ .seed = 2, .step = 2, .worker = 3 },
		{ .seed = 1, .step = 3, .worker = 3 },
		{ .seed = 1, .step = 2 | 1ull << 40, .worker = 3 },
		{ .seed = 1, .step = 2, .worker = 4 },
		{ .seed = 1, .step = 2, .worker = LEARN_WORKER_MAX },
	};
	size_t count = sizeof(keys) / sizeof(keys[0]);
	struct learn_rng_block other, same;

	(void)state;
	for (size_t i = 0; i < count; i++) {
		struct learn_rng_block a = learn_rng_draw(&keys[i], LEARN_RNG_BATCH, 0);

		same = learn_rng_draw(&keys[i], LEARN_RNG_BATCH, 0);
		assert_memory_equal(&a, &same, sizeof(a));
		other = learn_rng_draw(&keys[i], LEARN_RNG_BATCH, 1);
		assert_memory_not_equal(&a, &other, sizeof(a));
		other = learn_rng_draw(&keys[i], LEARN_RNG_DROPOUT, 0);
		assert_memory_not_equal(&a, &other, sizeof(a));
		for (size_t j = 0; j < i; j++) {
			other = learn_rng_draw(&keys[j], LEARN_RNG_BATCH, 0);
			assert_memory_not_equal(&a, &other, sizeof(a));
		}
	}
}

static void numbers_stay_in_their_ranges(void **state)
{
	(void)state;
	assert_int_equal(learn_rng_below(0, 0, 7), 0);
	assert_int_equal(learn_rng_below(UINT32_MAX, UINT32_MAX, 7), 6);
	assert_int_equal(learn_rng_below(UINT32_MAX, UINT32_MAX, UINT32_MAX), UINT32_MAX - 1);
	assert_int_equal(learn_rng_below(UINT32_MAX, UINT32_MAX, 1), 0);
	assert_int_equal(learn_rng_below(0x80000000, 0, 10), 5);
	assert_true(learn_rng_symmetric(0) == -1.0f);
	assert_true(learn_rng_symmetric(0x80000000) == 0.0f);
	assert_true(learn_rng_symmetric(UINT32_MAX) < 1.0f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(philox_gives_the_published_vectors),
		cmocka_unit_test(every_part_of_the_key_matters),
		cmocka_unit_test(numbers_stay_in_their_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
