/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * memory_test.c -- the memory thread makes memory whole or not at all; freed memory is gone, even in
 * the middle of a job; small jobs do not wait for large ones
 */

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/memory.h"
#include "unit/rdma/fds.h"

enum {
	SMALL = 64 << 10,
	LARGE = 3 * OL_MEMORY_SMALL_BYTES,
};

struct ol_xport_later {
	size_t bytes; /* registered */
};

static struct {
	_Atomic unsigned registered;
	_Atomic unsigned dropped;
	int rc;
} fake;

static int reg_run(struct ol_xport_later *later, struct ol_slab *slab, size_t off, size_t bytes)
{
	assert_true(off + bytes <= slab->bytes);
	later->bytes = bytes;
	fake.registered++;
	return fake.rc;
}

static void drop(struct ol_xport_later *later)
{
	fake.dropped++;
	free(later);
}

static const struct ol_xport_ops ops = { .reg_run = reg_run, .drop = drop };

static struct ol_memory memory;
static int wake_fd;
static unsigned fds_before;

static int start(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	memory = (struct ol_memory){ 0 };
	wake_fd = eventfd(0, EFD_CLOEXEC);
	fds_before = fds_count();
	return wake_fd < 0 ? -1 : ol_memory_start(&memory, &ops, wake_fd);
}

static int stop(void **state)
{
	(void)state;
	ol_memory_stop(&memory);
	assert_int_equal(fds_count(), fds_before); /* no slab is left */
	close(wake_fd);
	return 0;
}

static struct ol_xport_later *later_make(void)
{
	struct ol_xport_later *later = calloc(1, sizeof(*later));

	assert_non_null(later);
	return later;
}

static struct ol_memory_job *asked(size_t bytes, struct ol_xport_later *later)
{
	struct ol_memory_job *job = ol_memory_job_make(&memory, bytes, OL_SLAB_NODE_ANY, NULL);

	assert_non_null(job);
	job->later = later;
	ol_memory_ask(&memory, job, OL_MEMORY_MAKE);
	return job;
}

/* The next that is done */
static struct ol_memory_job *taken(void)
{
	struct ol_memory_job *job;
	uint64_t count;

	while ((job = ol_memory_take(&memory)) == NULL)
		assert_int_equal(read(wake_fd, &count, sizeof(count)), sizeof(count));
	return job;
}

static void memory_is_made_touched_and_registered(void **state)
{
	struct ol_memory_job *job = asked(LARGE, later_make());

	(void)state;
	assert_int_equal(memory.making, 1);
	assert_ptr_equal(taken(), job);
	assert_int_equal(memory.making, 0);
	assert_int_equal(job->rc, 0);
	assert_int_equal(job->touched, job->slab->bytes);
	assert_int_equal(job->later->bytes, LARGE);
	assert_int_equal(fake.registered, 1);
	for (size_t i = 0; i < LARGE; i += 4096)
		assert_int_equal(((const uint8_t *)job->slab->addr)[i], 0);
	ol_memory_give_back(&memory, job);
	ol_memory_stop(&memory);
	assert_int_equal(fake.dropped, 1);
}

static void what_cannot_be_registered_says_so_and_leaves_nothing(void **state)
{
	struct ol_memory_job *job;

	(void)state;
	fake.rc = -ENOMEM;
	job = asked(SMALL, later_make());
	assert_ptr_equal(taken(), job);
	assert_int_equal(job->rc, -ENOMEM);
	ol_memory_give_back(&memory, job);
	ol_memory_stop(&memory);
	assert_int_equal(fake.dropped, 1);
}

static void more_than_there_is_is_an_error_of_the_job(void **state)
{
	struct ol_memory_job *job = asked(SIZE_MAX / 4, later_make());

	(void)state;
	assert_ptr_equal(taken(), job);
	assert_int_equal(job->rc, -ENOMEM);
	assert_int_equal(fake.registered, 0);
	ol_memory_give_back(&memory, job);
}

/* Whatever the thread is about to do with it */
static void what_is_given_back_at_once_never_comes_back(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		struct ol_memory_job *job = asked(i % 2 != 0 ? SMALL : LARGE, later_make());

		if (i % 3 == 0) {
			assert_ptr_equal(taken(), job);
			ol_memory_ask(&memory, job, OL_MEMORY_TOUCH);
		}
		ol_memory_give_back(&memory, job);
	}
	while (memory.making > 0) {
		uint64_t count;

		assert_null(ol_memory_take(&memory));
		if (memory.making > 0)
			assert_int_equal(read(wake_fd, &count, sizeof(count)), sizeof(count));
	}
	ol_memory_stop(&memory);
	assert_int_equal(fake.dropped, 50);
}

static void an_end_in_the_middle_leaves_nothing(void **state)
{
	struct ol_memory_job *kept = asked(LARGE, later_make());

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		ol_memory_give_back(&memory, asked(LARGE, later_make()));
	ol_memory_stop(&memory);
	assert_int_equal(fake.dropped, 20);
	ol_memory_give_back(&memory, kept); /* its owner's to the last */
	assert_int_equal(fake.dropped, 21);
}

/* By hand, without the thread: the order is what matters */
static void small_memory_goes_before_large_and_what_nobody_waits_for_last(void **state)
{
	struct ol_memory_job *idle, *large, *small;

	(void)state;
	large = asked(LARGE, NULL);
	assert_ptr_equal(taken(), large);
	ol_memory_stop(&memory);
	memory.on = true; /* nobody works now */
	memory.stop = false;
	pthread_mutex_init(&memory.lock, NULL);
	sem_init(&memory.wake, 0, 0);
	idle = ol_memory_job_make(&memory, LARGE, OL_SLAB_NODE_ANY, NULL);
	assert_int_equal(ol_slab_map(LARGE, OL_SLAB_NODE_ANY, 0, &idle->slab), 0);
	ol_memory_ask(&memory, idle, OL_MEMORY_TOUCH);
	ol_memory_give_back(&memory, large);
	large = asked(LARGE, NULL);
	assert_true(ol_memory_work(&memory)); /* the one that goes */
	assert_true(ol_memory_work(&memory)); /* a piece of the one that comes */
	assert_int_equal(large->touched, OL_SLAB_PIECE_BYTES);
	small = asked(SMALL, NULL);
	assert_true(ol_memory_work(&memory));
	assert_ptr_equal(ol_memory_take(&memory), small);
	assert_int_equal(large->touched, OL_SLAB_PIECE_BYTES);
	while (ol_memory_take(&memory) != large)
		assert_true(ol_memory_work(&memory));
	assert_int_equal(idle->touched, 0);
	while (ol_memory_take(&memory) != idle)
		assert_true(ol_memory_work(&memory));
	assert_int_equal(idle->touched, idle->slab->bytes);
	assert_false(ol_memory_work(&memory));
	memory.on = false;
	pthread_mutex_destroy(&memory.lock);
	sem_destroy(&memory.wake);
	ol_memory_give_back(&memory, large);
	ol_memory_give_back(&memory, small);
	ol_memory_give_back(&memory, idle);
}

/* As peers come and go, the next one's memory waits for what the last one's takes to free */
static void memory_that_goes_is_freed_before_more_of_its_size_is_made(void **state)
{
	static const size_t sizes[] = { SMALL, LARGE };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned peer = 1; peer <= 100; peer++) {
			struct ol_memory_job *job = asked(sizes[i], later_make());

			assert_ptr_equal(taken(), job);
			assert_int_equal(fake.dropped, i * 100 + peer - 1);
			ol_memory_give_back(&memory, job);
		}
	}
}

static void who_must_wait_is_told_for_how_long(void **state)
{
	(void)state;
	memory.ns_a_mib = 1000000; /* 1 ms a MiB */
	assert_int_equal(ol_memory_wait_ms(&memory, 0), OL_MEMORY_WAIT_MIN_MS);
	assert_int_equal(ol_memory_wait_ms(&memory, (size_t)100 << 20), 100);
	assert_int_equal(ol_memory_wait_ms(&memory, (size_t)1 << 40), OL_MEMORY_WAIT_MAX_MS);
	memory.pending_bytes = (uint64_t)300 << 20;
	assert_int_equal(ol_memory_wait_ms(&memory, (size_t)100 << 20), 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(memory_is_made_touched_and_registered, start, stop),
		cmocka_unit_test_setup_teardown(
			what_cannot_be_registered_says_so_and_leaves_nothing, start, stop),
		cmocka_unit_test_setup_teardown(more_than_there_is_is_an_error_of_the_job, start,
						stop),
		cmocka_unit_test_setup_teardown(what_is_given_back_at_once_never_comes_back, start,
						stop),
		cmocka_unit_test_setup_teardown(an_end_in_the_middle_leaves_nothing, start, stop),
		cmocka_unit_test_setup_teardown(
			small_memory_goes_before_large_and_what_nobody_waits_for_last, start, stop),
		cmocka_unit_test_setup_teardown(
			memory_that_goes_is_freed_before_more_of_its_size_is_made, start, stop),
		cmocka_unit_test_setup_teardown(who_must_wait_is_told_for_how_long, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
