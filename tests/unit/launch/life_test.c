/* SPDX-License-Identifier: BSD-3-Clause */

/* life_test.c -- a process that ended is started again after a pause that doubles, so often and no more */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/cmd.h"
#include "launch/life.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static const struct launch_policy policy = {
	.restarts = 3, .pause_ns = 200 * MS, .pause_max_ns = 500 * MS, .calm_ns = 60 * S
};

static int exited(int code)
{
	return code << 8;
}

/* Start it, let it run, and let it end a second later */
static void round_of(struct launch_life *life, enum launch_kind kind, int status, uint64_t now_ns)
{
	launch_life_begin(life, now_ns);
	launch_life_runs(life);
	launch_life_end(life, &policy, kind, status, now_ns + S);
}

static void the_pause_doubles_up_to_its_limit(void **state)
{
	static const uint64_t pauses[] = { 200 * MS, 400 * MS, 500 * MS };
	struct launch_life life = { 0 };
	uint64_t now_ns = 5 * S;

	(void)state;
	assert_true(launch_life_is_due(&life, 0));
	for (unsigned i = 0; i < 3; i++) {
		round_of(&life, LAUNCH_SERVER, SIGKILL, now_ns);
		assert_int_equal(life.state, LAUNCH_WAITS);
		assert_int_equal(life.due_ns, now_ns + S + pauses[i]);
		assert_false(launch_life_is_due(&life, life.due_ns - 1));
		assert_true(launch_life_is_due(&life, life.due_ns));
		now_ns = life.due_ns;
	}
	round_of(&life, LAUNCH_SERVER, SIGKILL, now_ns);
	assert_int_equal(life.state, LAUNCH_FAILED);
	assert_int_equal(life.starts, 4);
	assert_false(launch_life_is_due(&life, UINT64_MAX));
}

static void who_ran_calmly_has_all_restarts_back(void **state)
{
	struct launch_life life = { 0 };

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		round_of(&life, LAUNCH_WORKER, SIGSEGV, 0);
	assert_int_equal(life.spent, 3);
	launch_life_begin(&life, 10 * S);
	launch_life_runs(&life);
	launch_life_end(&life, &policy, LAUNCH_WORKER, SIGSEGV, 70 * S);
	assert_int_equal(life.state, LAUNCH_WAITS);
	assert_int_equal(life.spent, 1);
	assert_int_equal(life.due_ns, 70 * S + 200 * MS);
}

static void a_worker_is_done_with_0_and_a_server_is_not(void **state)
{
	struct launch_life worker = { 0 }, server = { 0 };

	(void)state;
	round_of(&worker, LAUNCH_WORKER, exited(0), 0);
	assert_int_equal(worker.state, LAUNCH_DONE);
	round_of(&server, LAUNCH_SERVER, exited(0), 0);
	assert_int_equal(server.state, LAUNCH_WAITS);
	round_of(&worker, LAUNCH_WORKER, exited(1), 0);
	assert_int_equal(worker.state, LAUNCH_WAITS);
}

static void who_was_asked_to_end_is_done_however_it_ends(void **state)
{
	struct launch_life life = { .is_asked = true };

	(void)state;
	round_of(&life, LAUNCH_SERVER, SIGKILL, 0);
	assert_int_equal(life.state, LAUNCH_DONE);
	round_of(&life, LAUNCH_WORKER, exited(143), 0);
	assert_int_equal(life.state, LAUNCH_DONE);
}

static void a_keeper_is_started_again_if_it_was_killed_and_only_then(void **state)
{
	struct launch_life life = { 0 };

	(void)state;
	round_of(&life, LAUNCH_KEEPER, SIGKILL, 0);
	assert_int_equal(life.state, LAUNCH_WAITS);
	round_of(&life, LAUNCH_KEEPER, exited(1), 10 * S);
	assert_int_equal(life.state, LAUNCH_FAILED);
}

static void an_address_in_use_costs_no_restart_for_a_minute(void **state)
{
	struct launch_life life = { 0 };
	uint64_t now_ns = 0;

	(void)state;
	round_of(&life, LAUNCH_SERVER, SIGKILL, now_ns);
	assert_int_equal(life.spent, 1);
	while (now_ns < 61 * S) { /* it ran until 1 s */
		now_ns = life.due_ns;
		launch_life_begin(&life, now_ns);
		launch_life_end(&life, &policy, LAUNCH_SERVER, exited(OL_EXIT_RESOURCES), now_ns);
		assert_int_equal(life.state, LAUNCH_WAITS);
		assert_true(life.due_ns > now_ns);
		if (now_ns < 61 * S)
			assert_int_equal(life.spent, 1);
	}
	assert_int_equal(life.spent, 2);
}

/* Once it has listened, only what it says of its weights is final */
static void a_server_whose_words_are_wrong_is_not_tried_again(void **state)
{
	static const int final[] = { OL_EXIT_USAGE, OL_EXIT_DATA, OL_EXIT_REFUSED, OL_EXIT_DEVICE,
				     OL_EXIT_RESOURCES };
	struct launch_life life;

	(void)state;
	for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++) {
		life = (struct launch_life){ 0 };
		launch_life_begin(&life, 0);
		launch_life_end(&life, &policy, LAUNCH_SERVER, exited(final[i]), MS);
		assert_int_equal(life.state, LAUNCH_FAILED);
		life = (struct launch_life){ 0 };
		round_of(&life, LAUNCH_SERVER, exited(final[i]), 0);
		assert_int_equal(life.state, final[i] == OL_EXIT_DATA || final[i] == OL_EXIT_REFUSED
						     ? LAUNCH_FAILED
						     : LAUNCH_WAITS);
	}
	life = (struct launch_life){ 0 };
	launch_life_begin(&life, 0);
	launch_life_end(&life, &policy, LAUNCH_SERVER, exited(OL_EXIT_FAILED), MS);
	assert_int_equal(life.state, LAUNCH_WAITS);
}

static void a_status_is_said_in_words(void **state)
{
	char text[64];

	(void)state;
	assert_string_equal(launch_status_text(SIGKILL, text, sizeof(text)),
			    "was killed by signal 9");
	assert_string_equal(launch_status_text(exited(4), text, sizeof(text)),
			    "ended with exit status 4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_pause_doubles_up_to_its_limit),
		cmocka_unit_test(who_ran_calmly_has_all_restarts_back),
		cmocka_unit_test(a_worker_is_done_with_0_and_a_server_is_not),
		cmocka_unit_test(who_was_asked_to_end_is_done_however_it_ends),
		cmocka_unit_test(a_keeper_is_started_again_if_it_was_killed_and_only_then),
		cmocka_unit_test(an_address_in_use_costs_no_restart_for_a_minute),
		cmocka_unit_test(a_server_whose_words_are_wrong_is_not_tried_again),
		cmocka_unit_test(a_status_is_said_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
