/* SPDX-License-Identifier: BSD-3-Clause */

/* pool_test.c -- each piece of a job is done once, whoever takes it, in job after job */

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/pool.h"

enum {
	PIECES = 37,
	JOBS = 3000
};

struct job {
	unsigned number;
	_Atomic unsigned done[PIECES];
	unsigned stored[PIECES]; /* plainly: the owner must see it */
};

static void piece(void *arg, unsigned index)
{
	struct job *job = arg;

	atomic_fetch_add(&job->done[index], 1);
	job->stored[index] = job->number * PIECES + index;
}

static void betweens(void *arg)
{
	unsigned *count = arg;

	(*count)++;
}

/* Jobs of every length, one right behind the other, and on memory of their own: a helper that is late meets the next */
static void run_jobs(unsigned threads)
{
	struct ol_pool *pool;
	unsigned between = 0;

	assert_int_equal(ol_pool_create(threads, NULL, &pool), 0);
	for (unsigned number = 0; number < JOBS; number++) {
		struct job *job = calloc(1, sizeof(*job));
		unsigned count = number % (PIECES + 1);

		assert_non_null(job);
		job->number = number;
		ol_pool_run(pool, piece, job, count, betweens, &between);
		for (unsigned i = 0; i < PIECES; i++) {
			assert_int_equal(job->done[i], i < count);
			assert_int_equal(job->stored[i], i < count ? number * PIECES + i : 0);
		}
		free(job);
	}
	assert_true(between > 0);
	ol_pool_destroy(pool);
}

static void each_piece_is_done_once(void **state)
{
	(void)state;
	for (unsigned threads = 1; threads <= 5; threads++)
		run_jobs(threads);
}

static void a_pool_ends_without_work(void **state)
{
	struct ol_pool *pool;

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		assert_int_equal(ol_pool_create(1 + i % OL_POOL_THREADS_MAX, NULL, &pool), 0);
		ol_pool_destroy(pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_piece_is_done_once),
		cmocka_unit_test(a_pool_ends_without_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
