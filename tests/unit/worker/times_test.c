/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * times_test.c -- how long pushes and pulls take, as a worker counts it: which are timed, and what a time
 * is of
 *
 * The server is a puppet: it answers when the test says so. The clock is the test's.
 */

#include <errno.h>

#include "base/clock.h"
#include "base/hist.h"
#include "support/wrap.h"
#include "unit/worker/worker_util.h"
#include "worker/times.h"

static uint64_t added_ns; /* to the clock */

WRAP(int, clock_gettime, clockid_t clock, struct timespec *ret_time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	int rc = __real_clock_gettime(clock, ret_time);
	uint64_t ns =
		(uint64_t)ret_time->tv_sec * OL_NS_PER_S + (uint64_t)ret_time->tv_nsec + added_ns;

	ret_time->tv_sec = (time_t)(ns / OL_NS_PER_S);
	ret_time->tv_nsec = (long)(ns % OL_NS_PER_S);
	return rc;
}

enum {
	EPOCH = 3
};

static int world_open(void **unused)
{
	(void)unused;
	added_ns = 0;
	world_init();
	world.opts.servers = world.puppets[A].addr;
	world.opts.outage = OL_OUTAGE_WAIT;
	world.opts.window = 8;
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	return 0;
}

/* Open the worker at A, which has weights 4 */
static void worker_open(void)
{
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	open_welcomed(EPOCH);
	check_ok(world.open_rc);
}

static const struct ol_link_times *times_of(uint32_t shard)
{
	static struct ol_link_times times;

	check_ok(ol_link_get_times(world.worker, shard, &times));
	return &times;
}

/* The one time that there is lies from low to high, in ms */
static void assert_one(const struct ol_latency *times, uint64_t low_ms, uint64_t high_ms)
{
	assert_int_equal(ol_hist_count(times), 1);
	assert_in_range(times->sum_ns, low_ms * OL_NS_PER_MS, high_ms * OL_NS_PER_MS);
	assert_int_equal(times->buckets[ol_hist_bucket(times->sum_ns)], 1);
}

static void lands(struct puppet *puppet, unsigned count)
{
	until(puppet->push_count == count);
}

static void answer(struct puppet *puppet, int status, const struct ol_op *op)
{
	const struct puppet_push *last = &puppet->pushes[puppet->push_count - 1];

	puppet_ack(puppet, OL_ROLE_WORKER, last->seq, last->slot, status);
	until(op->done);
}

static void a_push_takes_until_its_answer(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;

	(void)state;
	worker_open();
	push(1.0f, &op);
	added_ns += 3000 * OL_NS_PER_MS;
	lands(a, 1);
	assert_int_equal(ol_hist_count(&times_of(0)->push), 0);
	answer(a, 0, &op);
	assert_one(&times_of(0)->push, 3000, 5000);
	assert_int_equal(ol_hist_count(&times_of(0)->pull), 0);
}

static void with_end_as_well(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;

	(void)state;
	world.opts.outage = OL_OUTAGE_END;
	worker_open();
	push(1.0f, &op);
	added_ns += 3000 * OL_NS_PER_MS;
	lands(a, 1);
	answer(a, 0, &op);
	assert_one(&times_of(0)->push, 3000, 5000);
}

static void what_was_dropped_has_no_time(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;

	(void)state;
	worker_open();
	push(1.0f, &op);
	lands(a, 1);
	answer(a, OL_E_LATE, &op);
	assert_int_equal(ol_hist_count(&times_of(0)->push), 0);
	added_ns += OL_NS_PER_S; /* so that the next one is timed */
	push(1.0f, &op);
	lands(a, 2);
	answer(a, 0, &op);
	assert_int_equal(ol_hist_count(&times_of(0)->push), 1);
}

static void an_outage_is_part_of_the_time_and_the_second_answer_is_none(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;

	(void)state;
	worker_open();
	push(1.0f, &op);
	lands(a, 1);
	puppet_cut(a, OL_ROLE_WORKER);
	until(link_stat().down);
	added_ns += 7000 * OL_NS_PER_MS;
	until(puppet_waits(a, OL_ROLE_WORKER));
	puppet_welcome(a, OL_ROLE_WORKER, EPOCH, 0);
	lands(a, 2);
	answer(a, 0, &op);
	assert_one(&times_of(0)->push, 7000, 9000);

	/* its server loses it, and it is pushed again */
	puppet_cut(a, OL_ROLE_WORKER);
	until(link_stat().down);
	until(puppet_waits(a, OL_ROLE_WORKER));
	puppet_welcome(a, OL_ROLE_WORKER, EPOCH, 0);
	lands(a, 3);
	puppet_ack(a, OL_ROLE_WORKER, a->pushes[2].seq, a->pushes[2].slot, 0);
	until(link_stat().applied == 1);
	assert_one(&times_of(0)->push, 7000, 9000);
}

static void each_shard_has_its_own_times(void **state)
{
	struct puppet *a = &world.puppets[A], *b = &world.puppets[B];
	struct ol_link_times none;
	struct ol_op op;

	(void)state;
	puppet_publish(a, 1, 4.0f, 0);
	puppet_publish(b, 1, 4.0f, 0);
	two_shards_open(EPOCH);
	push(1.0f, &op);
	lands(a, 1);
	lands(b, 1);
	puppet_ack(a, OL_ROLE_WORKER, a->pushes[0].seq, a->pushes[0].slot, 0);
	until(ol_hist_count(&times_of(0)->push) == 1);
	assert_int_equal(ol_hist_count(&times_of(1)->push), 0);
	added_ns += 3000 * OL_NS_PER_MS;
	answer(b, 0, &op);
	assert_one(&times_of(0)->push, 0, 2999);
	assert_one(&times_of(1)->push, 3000, 9000);
	assert_int_equal(ol_link_get_times(world.worker, 2, &none), -EINVAL);
}

static void a_pull_takes_until_its_shard_is_read(void **state)
{
	struct ol_op op = { 0 };

	(void)state;
	worker_open();
	check_ok(ol_pull(world.worker, OL_PULL_NEWEST, &op));
	added_ns += 3000 * OL_NS_PER_MS;
	until(op.done);
	check_ok(op.status);
	assert_one(&times_of(0)->pull, 3000, 5000);
	assert_int_equal(ol_hist_count(&times_of(0)->push), 0);
}

/* A program of an older library knows the struct shorter, one of a newer library longer */
static void other_lengths_are_served(void **state)
{
	struct {
		struct ol_link_times times;
		uint64_t more;
	} longer = { .more = 1 };
	struct ol_latency push_alone = { .sum_ns = 1 };

	(void)state;
	worker_open();
	check_ok(ol_link_get_times_sized(world.worker, 0, &longer.times, sizeof(longer)));
	assert_int_equal(longer.more, 0);
	check_ok(ol_link_get_times_sized(world.worker, 0, (struct ol_link_times *)&push_alone,
					 sizeof(push_alone)));
	assert_int_equal(push_alone.sum_ns, 0);
}

static unsigned timed(struct ol_sampler *sampler, unsigned count, uint64_t apart_ns)
{
	unsigned found = 0;

	for (unsigned i = 0; i < count; i++) {
		found += ol_sampler_next(sampler) != 0;
		added_ns += apart_ns;
	}
	return found;
}

static void slow_ones_are_all_timed_and_fast_ones_in_part(void **state)
{
	struct ol_sampler sampler = { 0 };

	(void)state;
	added_ns = 0;
	assert_int_equal(timed(&sampler, 50, OL_NS_PER_S), 50);
	assert_int_equal(timed(&sampler, 70 * OL_TIMES_EACH, 0), 71); /* the first one was due */
	assert_in_range(timed(&sampler, 50, OL_NS_PER_S), 50 - OL_TIMES_EACH, 50);
}

#define test(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_push_takes_until_its_answer),
		test(with_end_as_well),
		test(what_was_dropped_has_no_time),
		test(an_outage_is_part_of_the_time_and_the_second_answer_is_none),
		test(each_shard_has_its_own_times),
		test(a_pull_takes_until_its_shard_is_read),
		test(other_lengths_are_served),
		cmocka_unit_test(slow_ones_are_all_timed_and_fast_ones_in_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
