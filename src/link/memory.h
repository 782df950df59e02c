/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * memory.h -- memory is made ready, and given back, on a thread of its own
 *
 * Touching, registering and freeing memory takes as long as the memory is large, and whoever waits
 * for it cannot serve. So the loop writes down what it wants in a job, and another thread does it.
 *
 *	OL_MEMORY_MAKE    map a slab unless it is there, touch it, register it (ops->reg_run)
 *	OL_MEMORY_TOUCH   touch a slab that is in use already, while there is nothing else to do
 *	OL_MEMORY_BREAK   deregister what is left (ops->drop), unmap the slab
 *
 * A job is the loop's or the thread's, never both's: ol_memory_ask() hands it over,
 *ol_memory_take() hands it back. The fence is not the thread's: whoever gives memory back has
 *destroyed the queue pair before.
 */
#ifndef OL_LINK_MEMORY_H
#define OL_LINK_MEMORY_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma/transport.h"

enum ol_memory_work {
	OL_MEMORY_MAKE,
	OL_MEMORY_TOUCH,
	OL_MEMORY_BREAK,
};

/* Which jobs go first: small ones, that others wait for; then all else; then what nobody waits
 * for. */
enum ol_memory_rank {
	OL_MEMORY_SMALL,
	OL_MEMORY_LARGE,
	OL_MEMORY_IDLE,
	OL_MEMORY_RANKS,
};

enum {
	OL_MEMORY_SMALL_BYTES = 4 << 20,
	OL_MEMORY_WAIT_MIN_MS = 10, /* what ol_memory_wait_ms() says at least, … */
	OL_MEMORY_WAIT_MAX_MS = 2000, /* … and at most */
};

struct ol_memory_job {
	struct ol_memory_job *next;
	enum ol_memory_work work;
	void *owner; /* the loop's: whom it is for; the thread never looks */
	struct ol_slab *slab;
	bool lent; /* the slab is not the job's: it is neither touched nor unmapped */
	size_t bytes;
	int node;
	struct ol_xport_later *later; /* to be registered, or dropped; of no connection yet */
	size_t touched; /* bytes of the slab, so far … */
	uint64_t took_ns; /* … and what it took */
	int rc; /* of MAKE and TOUCH */
	bool busy; /* the loop's: the thread has it */
	atomic_bool cancel; /* nobody waits for it any more */
};

struct ol_memory {
	const struct ol_xport_ops *ops;
	int wake_fd; /* written to when there is something to take */
	bool on; /* the thread runs */
	atomic_bool stop;
	pthread_t thread;
	pthread_mutex_t lock; /* of the lists, for as long as a pointer is moved */
	struct ol_memory_job *todo[OL_MEMORY_RANKS];
	struct ol_memory_job *done;
	sem_t wake; /* posted once for each job, and for stop */
	_Atomic uint64_t pending_bytes; /* of jobs that are not done, but for TOUCH */
	_Atomic uint64_t ns_a_mib; /* what touching takes, as measured */
	_Atomic uint32_t ready; /* jobs in done */
	uint32_t making; /* the loop's: MAKE jobs that it has not taken back */
};

/* ol_memory_start -- the thread; -EAGAIN. ol_memory_stop -- end it, give back all that it had */
int ol_memory_start(struct ol_memory *memory, const struct ol_xport_ops *ops, int wake_fd);
void ol_memory_stop(struct ol_memory *memory);

/* ol_memory_job_make -- for `bytes` of memory, or for a slab that is lent; NULL: no memory */
struct ol_memory_job *ol_memory_job_make(void *owner, size_t bytes, int node, struct ol_slab *lent);
void ol_memory_ask(struct ol_memory *memory, struct ol_memory_job *job, enum ol_memory_work work);
/* ol_memory_take -- a MAKE or TOUCH that is done and that somebody waits for; NULL: none */
struct ol_memory_job *ol_memory_take(struct ol_memory *memory);
/* ol_memory_give_back -- the job and all that it holds, whatever the thread does with it now */
void ol_memory_give_back(struct ol_memory *memory, struct ol_memory_job *job);
/* ol_memory_wait_ms -- about when `bytes` that were asked for now would be there */
uint32_t ol_memory_wait_ms(const struct ol_memory *memory, size_t bytes);

/* ol_memory_work -- the thread's: do a job, or a piece of one; false: there is none */
bool ol_memory_work(struct ol_memory *memory);

/* ol_memory_has_news -- there is something to take; one load */
static inline bool ol_memory_has_news(const struct ol_memory *memory)
{
	return atomic_load_explicit(&memory->ready, memory_order_relaxed) != 0;
}

#endif /* OL_LINK_MEMORY_H */
