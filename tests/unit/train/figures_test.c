/* SPDX-License-Identifier: BSD-3-Clause */

/* figures_test.c -- what the report says of a job's outages, from what workers and servers have said */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <string.h>

#include <cmocka.h>

#include "support/wrap.h"
#include "train/parts.h"

enum {
	WORKERS = 2,
	SECOND = 1000000000
};

static struct ol_server_stat board; /* of the server that is asked */

WRAP(int, ol_stat_sized, struct ol_worker *worker, uint32_t shard, struct ol_server_stat *ret_stat,
     size_t bytes)
{
	(void)worker;
	(void)shard;
	memcpy(ret_stat, &board, bytes);
	return 0;
}

static int job_make(void **state)
{
	struct train *train = calloc(1, sizeof(*train));

	assert_non_null(train);
	train->set.workers = WORKERS;
	train->set.servers = 2;
	train->set.durable.durability = OL_DURABILITY_NONE;
	train->go_ns = 5 * (uint64_t)SECOND;
	*state = train;
	return 0;
}

static int job_drop(void **state)
{
	free(*state);
	return 0;
}

/* Each worker has computed 100 a second, then was without a server for so long, and computed half as many */
static struct train_figures figures_of_outage(struct train *train, double outage_s)
{
	for (uint32_t i = 0; i < WORKERS; i++) {
		train->workers[i].now.before_s = 2.0;
		train->workers[i].now.before_computed = 200;
		train->workers[i].now.outage_s = outage_s;
		train->workers[i].now.outage_computed = (uint64_t)(50.0 * outage_s);
	}
	return train_figures(train);
}

static void an_outage_in_which_few_gradients_were_due_has_no_rate(void **state)
{
	struct train *train = *state;
	struct train_figures f = figures_of_outage(train, 0.04); /* 8 were due */

	assert_true(isnan(f.rate_outage));
	assert_true(fabs(f.rate_before - 200.0) < 1e-9);
	f = figures_of_outage(train, 0.06); /* 12 */
	assert_true(isfinite(f.rate_outage));
	f = figures_of_outage(train, 2.0);
	assert_true(fabs(f.rate_outage - 100.0) < 1e-9);
	train->workers[0].past.computed = 1; /* one was away, too */
	f = figures_of_outage(train, 2.0);
	assert_true(isnan(f.rate_outage) && isnan(f.rate_before));
}

static struct train_outage *outage_add(struct train *train, bool server, uint32_t index,
				       uint64_t lost_at)
{
	struct train_outage *outage = &train->outages[train->outage_count++];

	*outage = (struct train_outage){ .server = server, .index = index, .lost_at = lost_at };
	return outage;
}

/* A worker says what each shard has lost of its gradients */
static void lost_say(struct train_worker *worker, int first, int second)
{
	json_t *message =
		json_pack("{s:i, s:[i, i]}", "computed", 100, "lost_by_shard", first, second);

	assert_non_null(message);
	train_count_take(worker, message);
	json_decref(message);
}

static void what_a_shard_lost_is_of_its_own_outage(void **state)
{
	struct train *train = *state;
	const struct train_outage *first = outage_add(train, true, 0, 0);
	const struct train_outage *second = outage_add(train, true, 1, 0); /* while it is away */
	const struct train_outage *worker = outage_add(train, false, 1, 0);
	const struct train_outage *third = outage_add(train, true, 0, 9);

	lost_say(&train->workers[0], 10, 20);
	train_count_close(&train->workers[0]); /* it was killed: what it has said stays */
	lost_say(&train->workers[0], 2, 0);
	lost_say(&train->workers[1], 4, 5);
	train_outages_close(train);
	assert_int_equal(first->lost, 9);
	assert_int_equal(second->lost, 25);
	assert_int_equal(worker->lost, 0);
	assert_int_equal(third->lost, 7);
}

static void what_came_back_with_its_history_is_not_lost(void **state)
{
	struct train *train = *state;
	const struct train_outage *first = outage_add(train, true, 0, 0);
	const struct train_outage *second = outage_add(train, true, 0, 9);

	lost_say(&train->workers[0], 4, 0);
	train_outages_close(train);
	assert_int_equal(first->lost, 4);
	assert_int_equal(second->lost, 0);
}

/* The final weights have so many gradients of each worker */
static void contained_set(struct train *train, uint64_t first, uint64_t second)
{
	train->last.known = true;
	for (uint32_t s = 0; s < train->set.servers; s++) {
		train->last.contained[s][0] = first;
		train->last.contained[s][1] = second;
	}
}

/* Each gradient that was computed has one fate */
static struct train_figures figures_whole(const struct train *train)
{
	struct train_figures f = train_figures(train);

	assert_int_equal(f.computed, f.applied + f.dropped + f.count.lost + f.given_up);
	return f;
}

static void a_killed_worker_has_computed_what_the_weights_have_of_it(void **state)
{
	struct train *train = *state;
	struct train_figures f;

	outage_add(train, false, 0, 0);
	train->workers[0].past = (struct train_count){ .computed = 50, .applied = 49 };
	train->workers[1].now = (struct train_count){ .computed = 100, .applied = 97 };
	contained_set(train, 53, 97);
	f = figures_whole(train);
	assert_int_equal(f.computed, 153); /* and what the other one gave up makes up for nothing */
	assert_int_equal(f.applied, 150);
	assert_int_equal(f.given_up, 3);
	assert_int_equal(train_computed(train, 0), 53);
	assert_int_equal(train_computed(train, 1), 100);
}

static void what_was_lost_was_computed(void **state)
{
	struct train *train = *state;
	struct train_figures f;

	outage_add(train, false, 0, 0);
	outage_add(train, true, 0, 0);
	train->workers[0].past = (struct train_count){ .computed = 20, .applied = 5, .lost = 14 };
	train->workers[1].now =
		(struct train_count){ .computed = 40, .applied = 30, .dropped_late = 2, .lost = 8 };
	contained_set(train, 9, 30);
	f = figures_whole(train);
	assert_int_equal(f.computed, 23 + 40);
	assert_int_equal(f.count.lost, 22);
	assert_int_equal(f.dropped, 2);
	assert_int_equal(f.given_up, 0);
}

static void what_only_dead_workers_knew_is_lost_with_the_server(void **state)
{
	struct train *train = *state;
	struct train_figures f;

	train->workers[0].past = (struct train_count){ .computed = 20, .applied = 20 };
	contained_set(train, 15, 0);
	outage_add(train, false, 0, 0);
	f = figures_whole(train);
	assert_int_equal(f.given_up, 5);
	outage_add(train, true, 0, 0);
	f = figures_whole(train);
	assert_int_equal(f.count.lost, 5);
	assert_int_equal(f.given_up, 0);
}

static void began_say(struct train_server *server, int applied)
{
	json_t *message = json_pack("{s:i}", "applied", applied);

	assert_non_null(message);
	train_began_take(server, message);
	json_decref(message);
}

static void what_a_server_came_back_with_was_no_fresher(void **state)
{
	struct train *train = *state;
	struct train_server *server = &train->servers[0];

	train->set.servers = 1;
	server->state = TRAIN_SERVER_WHOLE;
	server->epoch = 1;
	board = (struct ol_server_stat){ .epoch = 1, .applied = 100, .staleness_sum = 100 };
	train_stat_read(train);
	assert_true(fabs(train_staleness(&train->stat) - 1.0) < 1e-9);
	for (uint32_t epoch = 2; epoch < 5; epoch++) {
		train_past_add(server);
		server->epoch = epoch;
		began_say(server, 100);
		board = (struct ol_server_stat){ .epoch = epoch,
						 .applied = 150,
						 .staleness_sum = 50 };
		if (epoch == 3)
			continue; /* it is lost before it was asked */
		train_stat_read(train);
		assert_true(fabs(train_staleness(&train->stat) - 1.0) < 1e-9);
	}
}

static void nor_was_what_a_chains_next_tail_joined_with(void **state)
{
	struct train *train = *state;
	struct train_chain chain = { 0 };

	train->set.servers = 1;
	train->set.durable.durability = OL_DURABILITY_CHAIN;
	train->set.chain.replicas = 2;
	train->chain = &chain;
	train->servers[0].replica = 6;
	train->servers[1].replica = 7;
	began_say(&train->servers[1], 100);
	board = (struct ol_server_stat){ .replica = 7, .applied = 150, .staleness_sum = 50 };
	train_stat_read(train);
	assert_true(fabs(train_staleness(&train->stat) - 1.0) < 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			an_outage_in_which_few_gradients_were_due_has_no_rate, job_make, job_drop),
		cmocka_unit_test_setup_teardown(
			a_killed_worker_has_computed_what_the_weights_have_of_it, job_make,
			job_drop),
		cmocka_unit_test_setup_teardown(what_was_lost_was_computed, job_make, job_drop),
		cmocka_unit_test_setup_teardown(what_only_dead_workers_knew_is_lost_with_the_server,
						job_make, job_drop),
		cmocka_unit_test_setup_teardown(what_a_shard_lost_is_of_its_own_outage, job_make,
						job_drop),
		cmocka_unit_test_setup_teardown(what_a_server_came_back_with_was_no_fresher,
						job_make, job_drop),
		cmocka_unit_test_setup_teardown(nor_was_what_a_chains_next_tail_joined_with,
						job_make, job_drop),
		cmocka_unit_test_setup_teardown(what_came_back_with_its_history_is_not_lost,
						job_make, job_drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
