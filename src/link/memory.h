/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * memory.h -- a thread that makes memory ready and frees it
 *
 * To touch, register and free large memory takes long, and a loop that did it could not serve
 * meanwhile. So the loop describes the work in a job, and another thread does it.
 *
 *	OL_MEMORY_MAKE    map a slab unless it is there, touch it, register it (ops->reg_run)
 *	OL_MEMORY_TOUCH   touch a slab that is in use already, while there is nothing else to do
 *	OL_MEMORY_BREAK   deregister what is left (ops->drop), unmap the slab
 *
 * A job belongs to the loop or to the thread, never to both: ol_memory_ask() hands it over,
 * ol_memory_take() hands it back. The thread does not fence: the loop destroys the queue pair
 * before it gives memory back.
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

/*
 * The order of jobs: small ones first, as others wait for them; last those that no peer waits for.
 * MAKE and BREAK of one size take turns as they come. If a new peer's memory were made before an old peer's is
 * freed, peers that come and go would have the process hold ever more.
 */
enum ol_memory_rank {
	OL_MEMORY_SMALL,
	OL_MEMORY_LARGE,
	OL_MEMORY_IDLE,
	OL_MEMORY_RANKS,
};

enum {
	OL_MEMORY_SMALL_BYTES = 4 << 20,
	OL_MEMORY_WAIT_MIN_MS = 10, /* bounds of ol_memory_wait_ms() */
	OL_MEMORY_WAIT_MAX_MS = 2000,
};

struct ol_memory_job {
	struct ol_memory_job *next;
	enum ol_memory_work work;
	void *owner; /* for the loop: the session or ring that it is for; the thread ignores it */
	struct ol_slab *slab;
	bool lent; /* the slab is not the job's: it is neither touched nor unmapped */
	size_t bytes;
	int node;
	unsigned slab_flags; /* enum ol_slab_flags; 0 until its maker says otherwise */
	struct ol_xport_later *later; /* to register, or to drop; belongs to no connection yet */
	size_t touched; /* bytes of the slab, so far */
	uint64_t took_ns; /* for touching them */
	int rc; /* of MAKE and TOUCH */
	bool busy; /* for the loop: the thread has the job */
	atomic_bool cancel; /* the result is no longer wanted */
	bool stale; /* counts in ol_memory.stale until it is freed */
};

struct ol_memory {
	const struct ol_xport_ops *ops;
	int wake_fd; /* written to when a job is done */
	bool on; /* the thread runs */
	atomic_bool stop;
	pthread_t thread;
	pthread_mutex_t lock; /* of the lists, for as long as a pointer is moved */
	struct ol_memory_job *todo[OL_MEMORY_RANKS];
	struct ol_memory_job *done;
	sem_t wake; /* posted once for each job, and for stop */
	_Atomic uint64_t pending_bytes; /* of jobs that are not done, without TOUCH */
	_Atomic uint32_t stale; /* rings that were replaced, and that are not freed yet */
	_Atomic uint64_t ns_a_mib; /* measured time to touch 1 MiB */
	_Atomic uint32_t ready; /* jobs in done */
	uint32_t making; /* for the loop: MAKE jobs that it has not taken back */
};

/* ol_memory_start -- start the thread; -EAGAIN. ol_memory_stop -- end it and free all its jobs */
int ol_memory_start(struct ol_memory *memory, const struct ol_xport_ops *ops, int wake_fd);
void ol_memory_stop(struct ol_memory *memory);

/* ol_memory_job_make -- a job for `bytes` of memory, or for a lent slab; NULL: no memory */
struct ol_memory_job *ol_memory_job_make(void *owner, size_t bytes, int node, struct ol_slab *lent);
void ol_memory_ask(struct ol_memory *memory, struct ol_memory_job *job, enum ol_memory_work work);
/* ol_memory_take -- a MAKE or TOUCH that is done and still wanted; NULL: none */
struct ol_memory_job *ol_memory_take(struct ol_memory *memory);
/* ol_memory_give_back -- free the job and its memory, even if the thread works on it */
void ol_memory_give_back(struct ol_memory *memory, struct ol_memory_job *job);
/* ol_memory_wait_ms -- estimated time until `bytes` asked for now would be ready */
uint32_t ol_memory_wait_ms(const struct ol_memory *memory, size_t bytes);

/* ol_memory_work -- called by the thread: do a job, or a piece of one; false: none is left */
bool ol_memory_work(struct ol_memory *memory);

/* ol_memory_has_news -- a job can be taken; one load */
static inline bool ol_memory_has_news(const struct ol_memory *memory)
{
	return atomic_load_explicit(&memory->ready, memory_order_relaxed) != 0;
}

/* ol_memory_stale -- how many rings that were replaced wait to be freed */
static inline uint32_t ol_memory_stale(const struct ol_memory *memory)
{
	return atomic_load_explicit(&memory->stale, memory_order_relaxed);
}

#endif /* OL_LINK_MEMORY_H */
