/* SPDX-License-Identifier: BSD-3-Clause */

/* kill_test.c -- a kill schedule is parsed as written, and a wrong entry is refused by name */

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/kill.h"

#define S  UINT64_C(1000000000)
#define MS UINT64_C(1000000)

static struct ol_kills parsed(const char *text)
{
	struct ol_kills kills = { 0 };
	char err[160] = "";

	assert_int_equal(ol_kills_parse(text, &kills, err, sizeof(err)), 0);
	assert_string_equal(err, "");
	return kills;
}

static void nothing_is_no_schedule(void **state)
{
	(void)state;
	assert_int_equal(parsed(NULL).count, 0);
	assert_int_equal(parsed("").count, 0);
}

static void every_part_of_an_entry_counts(void **state)
{
	struct ol_kills kills = parsed("server0@30s:down=20s,server1@1500ms,worker12@200steps:"
				       "signal=KILL:down=0.5s,server3@loss<0.8:signal=STOP");

	(void)state;
	assert_int_equal(kills.count, 4);
	assert_int_equal(kills.list[0].target, OL_KILL_SERVER);
	assert_int_equal(kills.list[0].index, 0);
	assert_int_equal(kills.list[0].when, OL_KILL_AT_TIME);
	assert_int_equal(kills.list[0].at_ns, 30 * S);
	assert_true(kills.list[0].down_set);
	assert_int_equal(kills.list[0].down_ns, 20 * S);
	assert_int_equal(kills.list[0].signo, SIGKILL);
	assert_string_equal(kills.list[0].text, "server0@30s:down=20s");

	assert_int_equal(kills.list[1].index, 1);
	assert_int_equal(kills.list[1].at_ns, 1500 * MS);
	assert_false(kills.list[1].down_set);

	assert_int_equal(kills.list[2].target, OL_KILL_WORKER);
	assert_int_equal(kills.list[2].index, 12);
	assert_int_equal(kills.list[2].when, OL_KILL_AT_STEP);
	assert_int_equal(kills.list[2].at_step, 200);
	assert_int_equal(kills.list[2].down_ns, 500 * MS);

	assert_int_equal(kills.list[3].when, OL_KILL_BELOW_LOSS);
	assert_true(fabs(kills.list[3].loss - 0.8) < 1e-12);
	assert_int_equal(kills.list[3].signo, SIGSTOP);
}

static void roles_of_a_chain_are_targets(void **state)
{
	struct ol_kills kills = parsed("head@30s:down=20s,middle@200steps:signal=STOP,"
				       "tail12@loss<0.5,head0@1s,server0@2s");

	(void)state;
	assert_int_equal(kills.count, 5);
	assert_int_equal(kills.list[0].target, OL_KILL_HEAD);
	assert_int_equal(kills.list[0].index, 0);
	assert_int_equal(kills.list[0].down_ns, 20 * S);
	assert_string_equal(ol_kill_role(&kills.list[0]), "head");
	assert_int_equal(kills.list[1].target, OL_KILL_MIDDLE);
	assert_int_equal(kills.list[1].index, 0);
	assert_int_equal(kills.list[1].signo, SIGSTOP);
	assert_false(kills.list[1].down_set);
	assert_string_equal(ol_kill_role(&kills.list[1]), "middle");
	assert_int_equal(kills.list[2].target, OL_KILL_TAIL);
	assert_int_equal(kills.list[2].index, 12);
	assert_string_equal(ol_kill_role(&kills.list[2]), "tail");
	assert_int_equal(kills.list[3].target, OL_KILL_HEAD);
	assert_int_equal(kills.list[3].index, 0);
	for (unsigned i = 0; i < 4; i++)
		assert_true(ol_kill_of_chain(&kills.list[i]));
	assert_false(ol_kill_of_chain(&kills.list[4]));
	assert_string_equal(ol_kill_role(&kills.list[4]), "");
}

static void what_is_no_schedule_is_refused_by_name(void **state)
{
	static const struct {
		const char *text;
		const char *says; /* part of the line */
	} bad[] = {
		{ "server@30s", "server@30s" },
		{ "server0", "moment" },
		{ "server0@", "moment" },
		{ "server0@30", "30s" },
		{ "server0@s", "moment" },
		{ "server0@-3s", "moment" },
		{ "server0@1e3s", "moment" },
		{ "server0@1.2.3s", "moment" },
		{ "server0@nans", "moment" },
		{ "server0@30s ", "moment" },
		{ " server0@30s", "serverN" },
		{ "server0@99999999999999s", "moment" },
		{ "server0@0steps", "step" },
		{ "server0@1.5steps", "moment" },
		{ "server0@loss<", "loss<" },
		{ "server0@loss<0", "loss<" },
		{ "server0@loss<low", "loss<" },
		{ "server0@loss>1", "moment" },
		{ "server0@3s:down=", "down=" },
		{ "server0@3s:down=x", "down=" },
		{ "server0@3s:", "down=" },
		{ "server0@3s:up=3s", "down=" },
		{ "server0@3s:signal=TERM", "one of KILL, STOP" },
		{ "server-1@3s", "serverN" },
		{ "server0x@3s", "serverN" },
		{ "server99999999999@3s", "serverN" },
		{ "client0@3s", "client0@3s" },
		{ "worker@3s", "worker@3s" },
		{ "headx@3s", "head, middle and tail" },
		{ "head-1@3s", "head, middle and tail" },
		{ "middle0x@3s", "middle0x@3s" },
		{ "tail99999999999@3s", "tail" },
		{ "Tail@3s", "tail" },
		{ "head", "moment" },
		{ "tail0@3s:down=", "down=" },
		{ "worker0@3s:signal=STOP", "down=" },
		{ "server0@3s,", "comma" },
		{ ",server0@3s", "serverN" },
		{ "server0@3s,,server1@3s", "serverN" },
		{ "server0@3s,server1@soon", "server1@soon" },
	};
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ol_kills kills = { .count = 77 };
		char err[160] = "";

		snprintf(text, sizeof(text), "%s", bad[i].text);
		if (ol_kills_parse(text, &kills, err, sizeof(err)) != -EINVAL)
			fail_msg("\"%s\" was taken", text);
		if (strstr(err, bad[i].says) == NULL)
			fail_msg("\"%s\": said \"%s\", nothing of \"%s\"", text, err, bad[i].says);
		assert_int_equal(kills.count, 77);
		assert_null(strchr(err, '\n'));
	}
}

static void too_many_and_too_long_are_refused(void **state)
{
	static char text[OL_KILLS_MAX * 16 + 400];
	struct ol_kills kills;
	char err[160] = "";
	size_t len = 0;

	(void)state;
	for (int i = 0; i < OL_KILLS_MAX; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%sserver0@%ds",
					i > 0 ? "," : "", i + 1);
	assert_int_equal(parsed(text).count, OL_KILLS_MAX);
	snprintf(text + len, sizeof(text) - len, ",server0@99s");
	assert_int_equal(ol_kills_parse(text, &kills, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "64"));

	snprintf(text, sizeof(text), "server0@%0200ds", 7);
	assert_int_equal(ol_kills_parse(text, &kills, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "too long"));
}

static void a_kill_is_due_from_its_moment_on(void **state)
{
	struct ol_kills kills = parsed("server0@2s,server0@200steps,server0@loss<0.8");

	(void)state;
	assert_false(ol_kill_due(&kills.list[0], 2 * S - 1, 1000, 0.1, 0.1));
	assert_true(ol_kill_due(&kills.list[0], 2 * S, 0, (double)NAN, (double)NAN));
	assert_false(ol_kill_due(&kills.list[1], 100 * S, 199, 0.1, 0.1));
	assert_true(ol_kill_due(&kills.list[1], 0, 200, (double)NAN, (double)NAN));
	assert_false(ol_kill_due(&kills.list[2], 100 * S, 1000, 0.8, (double)NAN));
	assert_false(ol_kill_due(&kills.list[2], 100 * S, 1000, (double)NAN, (double)NAN));
	assert_true(ol_kill_due(&kills.list[2], 0, 0, 0.79, (double)NAN));
	assert_true(ol_kill_due(&kills.list[2], 0, 0, 2.0, 0.79));
}

static void durations_have_units(void **state)
{
	static const char *const bad[] = { "",    "s",    "5",     "5 s",  "5S",
					   "-5s", "+5s",  "0x10s", "5d",   "5ss",
					   ".s",  "1..s", "infs",  "1e2s", "40000000s" };
	uint64_t ns = 7;

	(void)state;
	assert_int_equal(ol_duration_parse("20s", &ns), 0);
	assert_int_equal(ns, 20 * S);
	assert_int_equal(ol_duration_parse("0.25s", &ns), 0);
	assert_int_equal(ns, 250 * MS);
	assert_int_equal(ol_duration_parse("1500ms", &ns), 0);
	assert_int_equal(ns, 1500 * MS);
	assert_int_equal(ol_duration_parse("20us", &ns), 0);
	assert_int_equal(ns, 20000);
	assert_int_equal(ol_duration_parse("2min", &ns), 0);
	assert_int_equal(ns, 120 * S);
	assert_int_equal(ol_duration_parse("0s", &ns), 0);
	assert_int_equal(ns, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (ol_duration_parse(bad[i], &ns) != -EINVAL)
			fail_msg("\"%s\" was taken for a duration", bad[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_no_schedule),
		cmocka_unit_test(every_part_of_an_entry_counts),
		cmocka_unit_test(roles_of_a_chain_are_targets),
		cmocka_unit_test(what_is_no_schedule_is_refused_by_name),
		cmocka_unit_test(too_many_and_too_long_are_refused),
		cmocka_unit_test(a_kill_is_due_from_its_moment_on),
		cmocka_unit_test(durations_have_units),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
