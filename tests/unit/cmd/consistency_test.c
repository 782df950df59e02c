/* SPDX-License-Identifier: BSD-3-Clause */

/* consistency_test.c -- each value of --consistency is parsed right, or refused with its fault */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/consistency.h"

static const struct {
	const char *text;
	struct ol_consistency_set set;
} good_forms[] = {
	{ "async", { .consistency = OL_CONSISTENCY_ASYNC } },
	{ "sync", { .consistency = OL_CONSISTENCY_SYNC } },
	{ "sync:k=1", { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_FIXED, .k = 1 } },
	{ "sync:k=4", { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_FIXED, .k = 4 } },
	{ "sync:dbw", { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_DBW } },
	{ "sync:dbw-blind", { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_DBW_BLIND } },
	{ "sync:adasync", { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_ADASYNC, .k = 1 } },
	{ "sync:adasync,k=3",
	  { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_ADASYNC, .k = 3 } },
	{ "sync:quorum,k=1",
	  { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_QUORUM, .k = 1 } },
	{ "sync:quorum,k=4,grace=0",
	  { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_QUORUM, .k = 4 } },
	{ "sync:quorum,k=3,grace=86400000",
	  { .consistency = OL_CONSISTENCY_SYNC,
	    .wait = OL_WAIT_QUORUM,
	    .k = 3,
	    .grace_ms = 86400000 } },
	{ "sync:k=2,late=drop",
	  { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_FIXED, .k = 2 } },
	{ "sync:k=2,late=next",
	  { .consistency = OL_CONSISTENCY_SYNC,
	    .wait = OL_WAIT_FIXED,
	    .k = 2,
	    .late = OL_LATE_NEXT } },
	{ "sync:quorum,k=2,late=aged",
	  { .consistency = OL_CONSISTENCY_SYNC,
	    .wait = OL_WAIT_QUORUM,
	    .k = 2,
	    .late = OL_LATE_AGED } },
	{ "sync:dbw,late=aged",
	  { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_DBW, .late = OL_LATE_AGED } },
	{ "sync:dbw-blind,late=next",
	  { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_DBW_BLIND, .late = OL_LATE_NEXT } },
	{ "sync:adasync,late=3",
	  { .consistency = OL_CONSISTENCY_SYNC,
	    .wait = OL_WAIT_ADASYNC,
	    .k = 1,
	    .late = OL_LATE_NEXT,
	    .late_steps = 3 } },
	{ "sync:adasync,k=2,late=next",
	  { .consistency = OL_CONSISTENCY_SYNC,
	    .wait = OL_WAIT_ADASYNC,
	    .k = 2,
	    .late = OL_LATE_NEXT } },
	{ "sync:quorum,k=2,grace=7,late=1000000",
	  { .consistency = OL_CONSISTENCY_SYNC,
	    .wait = OL_WAIT_QUORUM,
	    .k = 2,
	    .grace_ms = 7,
	    .late = OL_LATE_NEXT,
	    .late_steps = 1000000 } },
	{ "ssp:0", { .consistency = OL_CONSISTENCY_SSP } },
	{ "ssp:12", { .consistency = OL_CONSISTENCY_SSP, .staleness = 12 } },
};

static void every_form_is_what_it_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good_forms) / sizeof(good_forms[0]); i++) {
		struct ol_consistency_set set = { 0 };
		char err[160] = "";

		if (ol_consistency_parse(good_forms[i].text, 4, &set, err, sizeof(err)) != 0)
			fail_msg("%s: %s", good_forms[i].text, err);
		if (memcmp(&set, &good_forms[i].set, sizeof(set)) != 0)
			fail_msg("%s is something else", good_forms[i].text);
	}
}

static void other_words_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"asynchronous",
		"sync:",
		"sync:k",
		"sync:k=",
		"sync:k=0",
		"sync:k=5",
		"sync:k=x",
		"sync:k=-1",
		"sync:k=4294967297",
		"sync:dbw,",
		"sync:dbw,k=2",
		"ssp",
		"ssp:",
		"ssp:1000001",
		"ssp:1.5",
		"sync:adasync,",
		"sync:adasync,k=0",
		"sync:adasync,k=5",
		"dbw",
		"sync:quorum",
		"sync:quorum,k=",
		"sync:quorum,k=5",
		"sync:quorum,k=0,grace=1",
		"sync:quorum,k=2,",
		"sync:quorum,k=2,grace",
		"sync:quorum,k=2,grace=",
		"sync:quorum,k=2,grace=x",
		"sync:quorum,k=2,grace=86400001",
		"sync:quorum,k=2,grace=1,",
		"sync:quorum,k=2,grace=0000000000000000000000000000000000000000000000000000000000x",
		"sync:k=2,grace=1",
		"sync:k=2,",
		"sync:k=2,late",
		"sync:k=2,late=",
		"sync:k=2,late=0",
		"sync:k=2,late=-1",
		"sync:k=2,late=nextt",
		"sync:k=2,late=1000001",
		"sync:adasync,k=2,late=soon",
		"sync:adasync,late=next,k=2",
		"sync:dbw,late=",
		"sync:dbw,grace=1",
		"sync:dbw-blind,late=0",
		"sync,late=next",
		"async,late=next",
		"ssp:1,late=next",
		"sync:quorum,k=2,late=next,x",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ol_consistency_set set = { .k = 77 };
		char err[160] = "";

		if (ol_consistency_parse(bad[i], 4, &set, err, sizeof(err)) != -EINVAL)
			fail_msg("\"%s\" is taken", bad[i]);
		assert_int_equal(set.k, 77);
		if (err[0] == '\0' || strchr(err, '\n') != NULL)
			fail_msg("\"%s\": not one line: \"%s\"", bad[i], err);
	}
}

/* What is wrong with k is said of k, and what would be right. */
static void each_wrong_k_has_a_reason_of_its_own(void **state)
{
	static const struct {
		const char *text;
		uint32_t workers;
		const char *why;
	} cases[] = {
		{ "sync:k=", 4, "should have a number behind k=: give k=1 to k=4" },
		{ "sync:k=x", 4, "should have a number behind k=, not \"x\": give k=1 to k=4" },
		{ "sync:k=2x", 4, "should have a number behind k=, not \"2x\": give k=1 to k=4" },
		{ "sync:k=0", 4, "should wait for one worker at least: give k=1 to k=4" },
		{ "sync:k=9", 4,
		  "should not wait for more workers than the 4 of --workers: give k=1 to k=4" },
		{ "sync:k=4294967297", 4,
		  "should not wait for more workers than the 4 of --workers: give k=1 to k=4" },
		{ "sync:k=2", 1,
		  "should not wait for more workers than the 1 of --workers: give k=1" },
		{ "sync:adasync,k=", 4, "should have a number behind k=: give k=1 to k=4" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ol_consistency_set set;
		char err[160] = "";

		assert_int_equal(ol_consistency_parse(cases[i].text, cases[i].workers, &set, err,
						      sizeof(err)),
				 -EINVAL);
		assert_string_equal(err, cases[i].why);
	}
}

static void who_needs_everyone_and_who_does_not(void **state)
{
	static const struct {
		const char *text;
		bool all;
		bool backup;
	} cases[] = {
		{ "async", false, false },   { "ssp:3", false, false },
		{ "sync", true, false },     { "sync:k=4", false, true },
		{ "sync:dbw", false, true }, { "sync:quorum,k=4", false, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ol_consistency_set set;
		char err[160];

		assert_int_equal(ol_consistency_parse(cases[i].text, 4, &set, err, sizeof(err)), 0);
		assert_int_equal(ol_consistency_all(&set), cases[i].all);
		assert_int_equal(ol_consistency_backup(&set), cases[i].backup);
	}
}

static void so_many_make_a_step_at_least(void **state)
{
	static const struct {
		const char *text;
		uint32_t least;
	} cases[] = { { "async", 1 }, { "sync", 4 }, { "sync:k=3", 1 }, { "sync:quorum,k=3", 3 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ol_consistency_set set;
		char err[160];

		assert_int_equal(ol_consistency_parse(cases[i].text, 4, &set, err, sizeof(err)), 0);
		assert_int_equal(ol_consistency_least(&set, 4), cases[i].least);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_is_what_it_says),
		cmocka_unit_test(other_words_are_refused),
		cmocka_unit_test(each_wrong_k_has_a_reason_of_its_own),
		cmocka_unit_test(who_needs_everyone_and_who_does_not),
		cmocka_unit_test(so_many_make_a_step_at_least),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
