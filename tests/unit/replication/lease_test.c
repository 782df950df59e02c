/* SPDX-License-Identifier: BSD-3-Clause */

/* lease_test.c -- an old head's last commit comes before a chain is founded anew, or the lease is
 * refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "replication/coord/lease.h"

/* Every lease that is taken with `refound` keeps the inequality of lease.h, at the worst
 * heartbeat */
static void a_lease_that_is_taken_is_safe(void **unused)
{
	uint32_t taken = 0;

	(void)unused;
	for (uint64_t lease_ms = 1; lease_ms <= UINT32_MAX; lease_ms += 1 + lease_ms / 7) {
		for (uint64_t beat_ms = 1; beat_ms <= lease_ms; beat_ms += 1 + beat_ms / 3) {
			uint64_t session_ms = ol_lease_session_ms((uint32_t)lease_ms);

			if (ol_lease_fault((uint32_t)lease_ms, (uint32_t)beat_ms, true) != NULL)
				continue;
			taken++;
			assert_true(beat_ms * 4 <= lease_ms);
			assert_true(session_ms >= 3 * lease_ms && session_ms >= 1000);
			assert_true(ol_lease_absence_ms((uint32_t)lease_ms, false) >
				    beat_ms + lease_ms + session_ms / 100);
		}
	}
	assert_true(taken > 500);
}

static void a_lease_without_margin_is_refused(void **unused)
{
	(void)unused;
	assert_non_null(strstr(ol_lease_fault(0, 1, false), "lease_ms is 0"));
	assert_non_null(strstr(ol_lease_fault(100, 26, false), "4 times heartbeat_ms"));
	assert_null(ol_lease_fault(8, 2, false));
	assert_non_null(strstr(ol_lease_fault(8, 2, true), "no margin"));
	assert_null(ol_lease_fault(100, 25, true));
	assert_null(ol_lease_fault(5000, 1000, true));
	assert_non_null(strstr(ol_lease_fault(UINT32_MAX, 1000, true), "no margin"));
	/* a registration in a folder ends with its process: no session to wait for */
	assert_int_equal(ol_lease_absence_ms(5000, true), 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lease_that_is_taken_is_safe),
		cmocka_unit_test(a_lease_without_margin_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
