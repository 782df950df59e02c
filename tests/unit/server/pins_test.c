/* SPDX-License-Identifier: BSD-3-Clause */

/* pins_test.c -- peers that pin all the time hold steps up for their share of it, and no longer */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "server/pins.h"

#define TIMEOUT_NS (2000 * OL_NS_PER_MS)
#define OBSERVERS  (1u << OL_PINS_OBSERVERS)
#define MEMBERS    (1u << OL_PINS_MEMBERS)

enum {
	STEP_US = 100, /* without pins */
	LONG_S = 600,
};

/* Steps for so long, each of them held up by kinds as long as their pins count. Returns the time that they
 * waited. */
static uint64_t held_up(struct ol_pins *pins, unsigned kinds, uint64_t *now_ns, uint64_t for_ns)
{
	const uint64_t end_ns = *now_ns + for_ns;
	uint64_t waited_ns = 0;

	while (*now_ns < end_ns) {
		const uint64_t began_ns = *now_ns;

		while ((pins->spent & kinds) != kinds &&
		       !ol_pins_wait(pins, kinds & ~pins->spent, TIMEOUT_NS, *now_ns))
			*now_ns += OL_NS_PER_MS;
		waited_ns += *now_ns - began_ns;
		ol_pins_pass(pins, TIMEOUT_NS, *now_ns);
		*now_ns += STEP_US * OL_NS_PER_US;
	}
	return waited_ns;
}

static void observers_have_a_quarter_of_the_time(void **state)
{
	struct ol_pins pins = { 0 };
	uint64_t now_ns = 1, waited_ns;

	(void)state;
	waited_ns = held_up(&pins, OBSERVERS, &now_ns, LONG_S * OL_NS_PER_S);
	assert_in_range(waited_ns, LONG_S * OL_NS_PER_S / 10,
			LONG_S * OL_NS_PER_S / 4 + 2 * TIMEOUT_NS);
}

static void workers_have_half_of_it(void **state)
{
	struct ol_pins pins = { 0 };
	uint64_t now_ns = 1, waited_ns;

	(void)state;
	waited_ns = held_up(&pins, MEMBERS, &now_ns, LONG_S * OL_NS_PER_S);
	assert_in_range(waited_ns, LONG_S * OL_NS_PER_S / 5,
			LONG_S * OL_NS_PER_S / 2 + 2 * TIMEOUT_NS);
}

/* A reader that is overtaken now and then pays nothing that lasts. */
static void a_short_wait_is_forgiven(void **state)
{
	struct ol_pins pins = { 0 };
	uint64_t now_ns = 1;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		assert_false(ol_pins_wait(&pins, OBSERVERS, TIMEOUT_NS, now_ns));
		now_ns += 100 * OL_NS_PER_MS;
		ol_pins_pass(&pins, TIMEOUT_NS, now_ns);
		assert_int_equal(pins.spent, 0);
		now_ns += 400 * OL_NS_PER_MS;
	}
}

/* What waits for a checkpoint's copy as well is nobody's debt; and one kind's debt is not another's. */
static void who_did_not_hold_it_up_is_not_charged(void **state)
{
	struct ol_pins pins = { 0 };
	uint64_t now_ns = 1;

	(void)state;
	(void)ol_pins_wait(&pins, 0, TIMEOUT_NS, now_ns);
	now_ns += 10 * TIMEOUT_NS;
	ol_pins_pass(&pins, TIMEOUT_NS, now_ns);
	assert_int_equal(pins.spent, 0);
	(void)ol_pins_wait(&pins, OBSERVERS, TIMEOUT_NS, now_ns);
	now_ns += TIMEOUT_NS;
	assert_true(ol_pins_wait(&pins, OBSERVERS, TIMEOUT_NS, now_ns));
	ol_pins_pass(&pins, TIMEOUT_NS, now_ns);
	assert_int_equal(pins.spent, OBSERVERS);
	now_ns += 5 * TIMEOUT_NS;
	ol_pins_pass(&pins, TIMEOUT_NS, now_ns);
	assert_int_equal(pins.spent, 0);
	assert_int_equal(pins.debt_ns[OL_PINS_OBSERVERS] + pins.debt_ns[OL_PINS_MEMBERS], 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(observers_have_a_quarter_of_the_time),
		cmocka_unit_test(workers_have_half_of_it),
		cmocka_unit_test(a_short_wait_is_forgiven),
		cmocka_unit_test(who_did_not_hold_it_up_is_not_charged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
