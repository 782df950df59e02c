/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_qpmap_test.c -- a queue pair's number finds its connection after any adds and removals
 */
/* cmocka.h wants these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "rdma/verbs/qpmap.h"

enum {
	COUNT = 100,
	NUMBERS = 400,
	STEPS = 200000,
};

/* The map never looks behind its pointers: any address will do. */
static char places[NUMBERS];

static struct ol_verbs_conn *place(uint32_t i)
{
	return (struct ol_verbs_conn *)(void *)&places[i];
}

static uint32_t number(uint32_t i, uint32_t step)
{
	return 0x11 + i * step;
}

static void check_all(const struct ol_verbs_qpmap *map, const uint8_t *in, uint32_t step)
{
	for (uint32_t i = 0; i < NUMBERS; i++)
		assert_ptr_equal(ol_verbs_qpmap_find(map, number(i, step)),
				 in[i] != 0 ? place(i) : NULL);
}

/* step: how an adapter counts; steps of a power of two are the worst for a bad hash */
static void random_life(uint32_t step)
{
	uint8_t in[NUMBERS] = { 0 };
	struct ol_verbs_qpmap map;
	uint32_t dice = 12345;
	unsigned count = 0;

	assert_int_equal(ol_verbs_qpmap_init(&map, COUNT), 0);
	for (unsigned turn = 0; turn < STEPS; turn++) {
		uint32_t i;

		dice = dice * 1664525 + 1013904223;
		i = (dice >> 8) % NUMBERS;
		if (in[i] != 0) {
			ol_verbs_qpmap_remove(&map, number(i, step));
			in[i] = 0;
			count--;
		} else if (count < COUNT) {
			ol_verbs_qpmap_add(&map, number(i, step), place(i));
			in[i] = 1;
			count++;
		}
		if (turn % 1000 == 0)
			check_all(&map, in, step);
	}
	check_all(&map, in, step);
	ol_verbs_qpmap_fini(&map);
}

static void finds_what_is_there_and_nothing_else(void **state)
{
	(void)state;
	random_life(1);
	random_life(256);
	random_life(65536);
	random_life(7919);
}

static void removing_a_stranger_changes_nothing(void **state)
{
	struct ol_verbs_qpmap map;

	(void)state;
	assert_int_equal(ol_verbs_qpmap_init(&map, 1), 0);
	ol_verbs_qpmap_remove(&map, 7);
	ol_verbs_qpmap_add(&map, 7, place(0));
	ol_verbs_qpmap_remove(&map, 8);
	assert_ptr_equal(ol_verbs_qpmap_find(&map, 7), place(0));
	ol_verbs_qpmap_fini(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_is_there_and_nothing_else),
		cmocka_unit_test(removing_a_stranger_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
