/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pool.c -- threads that help one other, their owner, with work that is cut into pieces
 *
 * THE TICKET is one word: the number of the job, and the next piece to be taken. A thread reads it,
 * then the job's fields, and takes the piece by a compare-and-swap of the whole word. The owner
 * first closes the ticket of the last job, of which every piece is done; then it writes the fields of the next
 * job; then it opens that job's ticket. So if a swap succeeds, the fields read before it are of that
 * very job: a ticket read earlier was closed meanwhile, and its swap fails.
 *
 * SLEEP. A helper adds itself to the sleepers, then looks at the ticket again. The owner sets the ticket,
 * then looks at the sleepers. All four are sequentially consistent: one of the two sees the other.
 */
#include "server/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/thread.h"
#include "rdma/order.h"
#include "rdma/slab.h"

enum {
	SPINS = 2000, /* looks at the ticket before a helper sleeps: some tens of microseconds */
	WAIT_SPINS = 64, /* of the owner at the end of a job, between two calls of between() */
	PIECE_BITS = 32
};

#define CLOSED UINT32_MAX /* as the next piece: there is none */

struct ol_pool {
	_Atomic uint64_t ticket; /* job << PIECE_BITS | next piece */
	_Atomic unsigned done; /* pieces of this job */
	_Atomic unsigned sleepers;
	_Atomic bool ending;
	/* the job */
	ol_pool_fn *_Atomic piece;
	void *_Atomic arg;
	_Atomic unsigned count;
	const struct ol_slab *near;
	pthread_mutex_t lock; /* for sleep alone */
	pthread_cond_t wake;
	unsigned helpers;
	pthread_t threads[];
};

/* Take a piece and do it; false: none is left. *ret_job: the job it looked at */
static bool piece_do(struct ol_pool *pool, uint64_t *ret_job)
{
	uint64_t ticket = atomic_load(&pool->ticket);

	for (;;) {
		ol_pool_fn *piece = atomic_load_explicit(&pool->piece, memory_order_relaxed);
		void *arg = atomic_load_explicit(&pool->arg, memory_order_relaxed);
		unsigned count = atomic_load_explicit(&pool->count, memory_order_relaxed);
		unsigned index = (unsigned)(ticket & UINT32_MAX);

		*ret_job = ticket >> PIECE_BITS;
		if (index >= count)
			return false;
		if (!atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket + 1))
			continue;
		piece(arg, index);
		atomic_fetch_add_explicit(&pool->done, 1, memory_order_release);
		return true;
	}
}

static bool is_idle(struct ol_pool *pool, uint64_t job)
{
	return atomic_load(&pool->ticket) >> PIECE_BITS == job && !atomic_load(&pool->ending);
}

/* Wait for a job other than this one */
static void idle(struct ol_pool *pool, uint64_t job)
{
	for (unsigned i = 0; i < SPINS; i++) {
		if (!is_idle(pool, job))
			return;
		ol_cpu_relax();
	}
	pthread_mutex_lock(&pool->lock);
	atomic_fetch_add(&pool->sleepers, 1);
	while (is_idle(pool, job))
		pthread_cond_wait(&pool->wake, &pool->lock);
	atomic_fetch_sub(&pool->sleepers, 1);
	pthread_mutex_unlock(&pool->lock);
}

static void *help(void *arg)
{
	struct ol_pool *pool = arg;
	uint64_t job;

	ol_slab_near(pool->near);
	while (!atomic_load(&pool->ending)) {
		if (!piece_do(pool, &job))
			idle(pool, job);
	}
	return NULL;
}

static void wake_all(struct ol_pool *pool)
{
	if (atomic_load(&pool->sleepers) == 0)
		return;
	pthread_mutex_lock(&pool->lock);
	pthread_cond_broadcast(&pool->wake);
	pthread_mutex_unlock(&pool->lock);
}

int ol_pool_create(unsigned threads, const struct ol_slab *near, struct ol_pool **ret_pool)
{
	struct ol_pool *pool;
	int rc = 0;

	*ret_pool = NULL;
	if (threads <= 1)
		return 0;
	pool = calloc(1, sizeof(*pool) + (threads - 1) * sizeof(pool->threads[0]));
	if (pool == NULL)
		return -ENOMEM;
	pool->near = near;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->wake, NULL);
	for (; rc == 0 && pool->helpers < threads - 1; pool->helpers += rc == 0)
		rc = ol_thread_start(help, pool, &pool->threads[pool->helpers]);
	if (rc == 0)
		*ret_pool = pool;
	else
		ol_pool_destroy(pool);
	return rc;
}

void ol_pool_destroy(struct ol_pool *pool)
{
	if (pool == NULL)
		return;
	atomic_store(&pool->ending, true);
	wake_all(pool);
	for (unsigned i = 0; i < pool->helpers; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->wake);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* Without helpers, or with one piece alone */
static void run_alone(ol_pool_fn *piece, void *arg, unsigned count,
		      void (*between)(void *between_arg), void *between_arg)
{
	for (unsigned i = 0; i < count; i++) {
		piece(arg, i);
		if (between != NULL)
			between(between_arg);
	}
}

void ol_pool_run(struct ol_pool *pool, ol_pool_fn *piece, void *arg, unsigned count,
		 void (*between)(void *between_arg), void *between_arg)
{
	uint64_t job;

	if (pool == NULL || count < 2) {
		run_alone(piece, arg, count, between, between_arg);
		return;
	}
	job = atomic_load(&pool->ticket) >> PIECE_BITS;
	atomic_store(&pool->ticket, job << PIECE_BITS | CLOSED);
	ol_order_full(); /* no thread sees the fields, and the ticket before it was closed */
	atomic_store_explicit(&pool->piece, piece, memory_order_relaxed);
	atomic_store_explicit(&pool->arg, arg, memory_order_relaxed);
	atomic_store_explicit(&pool->count, count, memory_order_relaxed);
	atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
	atomic_store(&pool->ticket, (job + 1) << PIECE_BITS);
	wake_all(pool);
	while (piece_do(pool, &job)) {
		if (between != NULL)
			between(between_arg);
	}
	for (unsigned spins = 0;
	     atomic_load_explicit(&pool->done, memory_order_acquire) != count;) {
		ol_cpu_relax();
		if (++spins % WAIT_SPINS == 0 && between != NULL)
			between(between_arg);
	}
}
