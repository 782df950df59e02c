/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pool.h -- threads that help one other, their owner, with work that is cut into pieces
 *
 * The owner takes pieces like the others, so that work ends though no helper gets a processor. A helper
 * without work spins for a moment, then sleeps.
 */
#ifndef OL_SERVER_POOL_H
#define OL_SERVER_POOL_H

struct ol_pool;
struct ol_slab;

enum {
	OL_POOL_THREADS_MAX = 64
};

typedef void ol_pool_fn(void *arg, unsigned index);

/*
 * ol_pool_create -- threads in all, with the owner's: so threads - 1 are started. They run on processors that
 * the calling thread may use, near this memory. With 1 *ret_pool is NULL, which ol_pool_run() takes.
 *
 * Errors: -EAGAIN (a limit of threads), -ENOMEM
 */
int ol_pool_create(unsigned threads, const struct ol_slab *near, struct ol_pool **ret_pool);

/* ol_pool_destroy -- end the helpers; NULL is fine. Not while ol_pool_run() is under way. */
void ol_pool_destroy(struct ol_pool *pool);

/*
 * ol_pool_run -- piece(arg, index) once for each index below count, in no order, by whichever thread
 *
 * Blocks:    until all have returned; what they stored is then seen by the caller
 * between:   called by the owner's thread meanwhile, often; NULL: not
 * Threading: the owner's thread only
 */
void ol_pool_run(struct ol_pool *pool, ol_pool_fn *piece, void *arg, unsigned count,
		 void (*between)(void *between_arg), void *between_arg);

#endif /* OL_SERVER_POOL_H */
