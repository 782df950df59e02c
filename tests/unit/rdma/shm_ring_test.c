/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shm_ring_test.c -- the doorbell ring keeps order, wraps around, reports full, detects lies of the
 * other end, and loses no wake-up
 */
#include "rdma/shm/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
	CAPACITY = 8
};

struct ends {
	struct ol_shm_rx rx;
	struct ol_shm_tx tx;
	struct ol_shm_ring *ring;
};

/* start -- both ends of a ring whose next doorbell has number first */
static void start(struct ends *ends, uint32_t capacity, uint32_t first)
{
	size_t bytes = ol_shm_ring_bytes(capacity);
	uint32_t i;

	ends->ring = aligned_alloc(OL_SHM_LINE_BYTES, bytes);
	assert_non_null(ends->ring);
	memset(ends->ring, 0, bytes);
	ol_shm_ring_init(ends->ring, capacity);
	for (i = 0; i < capacity; i++) /* as if first doorbells had passed; first is a whole lap */
		ol_word_store(&ends->ring->words[i], (uint64_t)(first + i + 1 - capacity) << 32);
	ol_word32_store(&ends->ring->tail, first);
	ends->rx = (struct ol_shm_rx){
		.words = ends->ring->words, .ring = ends->ring, .capacity = capacity, .next = first
	};
	ends->tx = (struct ol_shm_tx){
		.ring = ends->ring, .capacity = capacity, .next = first, .tail_seen = first
	};
}

static void push(struct ends *ends, uint32_t imm)
{
	assert_int_equal(ol_shm_ring_room(&ends->tx), 1);
	assert_false(ol_shm_ring_push(&ends->tx, imm));
}

static void take(struct ends *ends, uint32_t want)
{
	uint32_t imm = ~want;

	assert_false(ol_shm_ring_quiet(&ends->rx));
	assert_int_equal(ol_shm_ring_peek(&ends->rx, &imm), OL_SHM_PEEK_RUNG);
	assert_int_equal(imm, want);
	ol_shm_ring_take(&ends->rx);
}

static void nothing(struct ends *ends)
{
	uint32_t imm;

	assert_true(ol_shm_ring_quiet(&ends->rx));
	assert_int_equal(ol_shm_ring_peek(&ends->rx, &imm), OL_SHM_PEEK_NONE);
}

static void a_new_ring_is_quiet_and_has_room(void **state)
{
	struct ends ends;

	(void)state;
	start(&ends, CAPACITY, 0);
	nothing(&ends);
	assert_int_equal(ol_shm_ring_room(&ends.tx), 1);
	free(ends.ring);
}

static void every_value_arrives_in_order_over_many_laps(void **state)
{
	const uint32_t capacities[] = { 1, 2, 8, 64 };
	struct ends ends;
	uint32_t burst;
	uint32_t sent = 0;
	uint32_t got = 0;
	size_t c;

	(void)state;
	for (c = 0; c < sizeof(capacities) / sizeof(capacities[0]); c++) {
		start(&ends, capacities[c], 0);
		for (burst = 1; burst < 1000; burst++) {
			while (sent - got < 1 + burst % capacities[c])
				push(&ends, 0xabcd0000U ^ sent++);
			while (got < sent)
				take(&ends, 0xabcd0000U ^ got++);
			nothing(&ends);
		}
		free(ends.ring);
	}
}

static void numbers_go_around_at_2_to_the_32(void **state)
{
	struct ends ends;
	uint32_t i;

	(void)state;
	start(&ends, CAPACITY, UINT32_MAX - 2 * CAPACITY + 1);
	for (i = 0; i < 5 * CAPACITY; i++) {
		nothing(&ends);
		push(&ends, i);
		take(&ends, i);
	}
	assert_int_equal(ends.rx.next, 3 * CAPACITY);
	free(ends.ring);
}

static void a_full_ring_has_room_again_when_one_is_taken(void **state)
{
	struct ends ends;
	uint32_t i;

	(void)state;
	start(&ends, CAPACITY, 0);
	for (i = 0; i < CAPACITY; i++)
		push(&ends, i);
	assert_int_equal(ol_shm_ring_room(&ends.tx), 0);
	assert_int_equal(ol_shm_ring_room(&ends.tx), 0);
	take(&ends, 0);
	push(&ends, CAPACITY);
	assert_int_equal(ol_shm_ring_room(&ends.tx), 0);
	for (i = 1; i <= CAPACITY; i++)
		take(&ends, i);
	nothing(&ends);
	free(ends.ring);
}

static void an_impossible_tail_is_found_out(void **state)
{
	const uint32_t lies[] = { CAPACITY + 1, UINT32_MAX, UINT32_MAX - 1, 1U << 31 };
	struct ends ends;
	size_t lie;
	uint32_t i;

	(void)state;
	for (lie = 0; lie < sizeof(lies) / sizeof(lies[0]); lie++) {
		start(&ends, CAPACITY, 0);
		for (i = 0; i < CAPACITY; i++)
			push(&ends, i);
		ol_word32_store(&ends.ring->tail, lies[lie]);
		assert_int_equal(ol_shm_ring_room(&ends.tx), -1);
		free(ends.ring);
	}
}

static void a_word_that_no_producer_writes_is_found_out(void **state)
{
	/* Expected are number 1 (rung) and 1 - CAPACITY (not yet). */
	const uint32_t lies[] = { 0, 2, CAPACITY + 1, 1U << 31, UINT32_MAX };
	struct ends ends;
	uint32_t imm;
	size_t lie;

	(void)state;
	for (lie = 0; lie < sizeof(lies) / sizeof(lies[0]); lie++) {
		start(&ends, CAPACITY, 0);
		ol_word_store(&ends.ring->words[0], (uint64_t)lies[lie] << 32);
		assert_false(ol_shm_ring_quiet(&ends.rx));
		assert_int_equal(ol_shm_ring_peek(&ends.rx, &imm), OL_SHM_PEEK_BROKEN);
		free(ends.ring);
	}
}

static void each_sleep_is_ended_once(void **state)
{
	struct ends ends;

	(void)state;
	start(&ends, CAPACITY, 0);
	push(&ends, 0); /* awake: nobody to wake */
	ol_word32_store(&ends.ring->asleep, 1);
	assert_true(ol_shm_ring_push(&ends.tx, 1));
	assert_false(ol_shm_ring_push(&ends.tx, 2));
	ol_word32_store(&ends.ring->asleep, 0);
	assert_false(ol_shm_ring_push(&ends.tx, 3));
	ol_word32_store(&ends.ring->asleep, 2);
	assert_true(ol_shm_ring_push(&ends.tx, 4));
	ol_word32_store(&ends.ring->asleep, 3);
	assert_true(ol_shm_ring_push(&ends.tx, 5));
	free(ends.ring);
}

static void rings_take_whole_lines(void **state)
{
	(void)state;
	assert_int_equal(ol_shm_ring_bytes(1), 256 + 128);
	assert_int_equal(ol_shm_ring_bytes(16), 256 + 128);
	assert_int_equal(ol_shm_ring_bytes(32), 256 + 256);
	assert_int_equal(ol_shm_ring_bytes(OL_SHM_RING_WORDS_MAX),
			 256 + 8 * (size_t)OL_SHM_RING_WORDS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_ring_is_quiet_and_has_room),
		cmocka_unit_test(every_value_arrives_in_order_over_many_laps),
		cmocka_unit_test(numbers_go_around_at_2_to_the_32),
		cmocka_unit_test(a_full_ring_has_room_again_when_one_is_taken),
		cmocka_unit_test(an_impossible_tail_is_found_out),
		cmocka_unit_test(a_word_that_no_producer_writes_is_found_out),
		cmocka_unit_test(each_sleep_is_ended_once),
		cmocka_unit_test(rings_take_whole_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
