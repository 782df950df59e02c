/* SPDX-License-Identifier: BSD-3-Clause */

/* memory.c -- the thread that touches, registers and frees */

#include "link/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

enum {
	MIB = 1 << 20,
	NS_A_MIB_FIRST = 1000000, /* before anything was measured */
};

/* Append to a list; lists are short */
static void list_append(struct ol_memory_job **list, struct ol_memory_job *job)
{
	while (*list != NULL)
		list = &(*list)->next;
	job->next = NULL;
	*list = job;
}

static struct ol_memory_job *list_pop(struct ol_memory_job **list)
{
	struct ol_memory_job *job = *list;

	if (job != NULL)
		*list = job->next;
	return job;
}

static enum ol_memory_rank rank_of(const struct ol_memory_job *job)
{
	const bool small = job->bytes <= OL_MEMORY_SMALL_BYTES;

	switch (job->work) {
	case OL_MEMORY_MAKE:
		return job->lent || small ? OL_MEMORY_SMALL : OL_MEMORY_LARGE;
	case OL_MEMORY_BREAK:
		return small && !job->lent ? OL_MEMORY_SMALL : OL_MEMORY_LARGE;
	case OL_MEMORY_TOUCH:
		return OL_MEMORY_IDLE;
	}
	return OL_MEMORY_LARGE;
}

static bool job_is_cancelled(const struct ol_memory *memory, const struct ol_memory_job *job)
{
	return atomic_load_explicit(&memory->stop, memory_order_relaxed) ||
	       atomic_load_explicit(&job->cancel, memory_order_relaxed);
}

static void job_free(struct ol_memory *memory, struct ol_memory_job *job)
{
	if (job->stale)
		atomic_fetch_sub_explicit(&memory->stale, 1, memory_order_relaxed);
	if (job->later != NULL)
		memory->ops->drop(job->later);
	if (!job->lent)
		ol_slab_destroy(job->slab);
	free(job);
}

/* ---- called by the memory thread ---- */

static int touch_piece(struct ol_memory_job *job)
{
	size_t left = job->slab->bytes - job->touched;
	size_t piece = left < OL_SLAB_PIECE_BYTES ? left : OL_SLAB_PIECE_BYTES;
	int rc = ol_slab_touch(job->slab, job->touched, piece);

	job->touched += piece;
	return rc;
}

static void speed_note(struct ol_memory *memory, size_t bytes, uint64_t took_ns)
{
	uint64_t was = atomic_load_explicit(&memory->ns_a_mib, memory_order_relaxed);

	if (took_ns != 0 && bytes >= MIB)
		atomic_store_explicit(&memory->ns_a_mib, (3 * was + took_ns / (bytes / MIB)) / 4,
				      memory_order_relaxed);
}

static void job_finish(struct ol_memory *memory, struct ol_memory_job *job, int rc)
{
	uint64_t one = 1;
	ssize_t written;

	job->rc = rc;
	pthread_mutex_lock(&memory->lock);
	list_append(&memory->done, job);
	pthread_mutex_unlock(&memory->lock);
	atomic_fetch_add_explicit(&memory->ready, 1, memory_order_relaxed);
	written = write(memory->wake_fd, &one, sizeof(one));
	(void)written; /* fails only after 2^64 writes */
}

static void pending_add(struct ol_memory *memory, const struct ol_memory_job *job, bool more)
{
	uint64_t bytes = job->lent || job->work == OL_MEMORY_TOUCH ? 0 : job->bytes;

	atomic_fetch_add_explicit(&memory->pending_bytes, more ? bytes : 0 - bytes,
				  memory_order_relaxed);
}

/* Put an unfinished job back: more urgent jobs that have come meanwhile go first */
static void job_requeue(struct ol_memory *memory, struct ol_memory_job *job)
{
	struct ol_memory_job **list = &memory->todo[rank_of(job)];

	pthread_mutex_lock(&memory->lock);
	job->next = *list;
	*list = job;
	pthread_mutex_unlock(&memory->lock);
	sem_post(&memory->wake);
}

/* Touch one piece */
static void job_touch(struct ol_memory *memory, struct ol_memory_job *job)
{
	int rc = job_is_cancelled(memory, job) ? 0 : touch_piece(job);

	if (rc != 0 || job_is_cancelled(memory, job) || job->touched == job->slab->bytes)
		job_finish(memory, job, rc);
	else
		job_requeue(memory, job);
}

/* Make the slab, touch a piece of it, or register it. False: more is left to do */
static bool make_some(struct ol_memory *memory, struct ol_memory_job *job, int *ret_rc)
{
	uint64_t start_ns = ol_clock_ns();
	int rc = 0;

	if (job_is_cancelled(memory, job))
		return true;
	if (job->slab == NULL)
		rc = ol_slab_map(job->bytes, job->node, job->slab_flags, &job->slab);
	if (rc == 0 && !job->lent && job->touched < job->slab->bytes) {
		rc = touch_piece(job);
		if (rc != 0 && (job->slab_flags & OL_SLAB_HUGE) != 0) { /* too few huge pages */
			ol_slab_destroy(job->slab);
			job->slab = NULL;
			job->slab_flags &= ~(unsigned)OL_SLAB_HUGE;
			job->touched = 0;
			return false;
		}
		job->took_ns += ol_clock_ns() - start_ns;
	}
	*ret_rc = rc;
	if (rc == 0 && !job->lent && job->touched < job->slab->bytes)
		return false;
	if (rc == 0 && job->later != NULL)
		*ret_rc = memory->ops->reg_run(job->later, job->slab, 0, job->bytes);
	speed_note(memory, job->touched, job->took_ns);
	return true;
}

static void job_make(struct ol_memory *memory, struct ol_memory_job *job)
{
	int rc = 0;

	if (!make_some(memory, job, &rc)) {
		job_requeue(memory, job);
		return;
	}
	pending_add(memory, job, false);
	if (rc != 0 && !job->lent) { /* memory is short: free it before the peer is told */
		ol_slab_destroy(job->slab);
		job->slab = NULL;
	}
	job_finish(memory, job, rc);
}

bool ol_memory_work(struct ol_memory *memory)
{
	struct ol_memory_job *job = NULL;

	pthread_mutex_lock(&memory->lock);
	for (unsigned i = 0; job == NULL && i < OL_MEMORY_RANKS; i++)
		job = list_pop(&memory->todo[i]);
	pthread_mutex_unlock(&memory->lock);
	if (job == NULL)
		return false;
	switch (job->work) {
	case OL_MEMORY_MAKE:
		job_make(memory, job);
		break;
	case OL_MEMORY_TOUCH:
		job_touch(memory, job);
		break;
	case OL_MEMORY_BREAK:
		pending_add(memory, job, false);
		job_free(memory, job);
		break;
	}
	return true;
}

static void *thread_run(void *arg)
{
	struct ol_memory *memory = arg;

	while (!atomic_load_explicit(&memory->stop, memory_order_relaxed)) {
		if (sem_wait(&memory->wake) == 0)
			(void)ol_memory_work(memory);
	}
	return NULL;
}

/* ---- called by the owner's loop ---- */

int ol_memory_start(struct ol_memory *memory, const struct ol_xport_ops *ops, int wake_fd)
{
	int rc;

	memory->ops = ops;
	memory->wake_fd = wake_fd;
	atomic_init(&memory->ns_a_mib, NS_A_MIB_FIRST);
	pthread_mutex_init(&memory->lock, NULL); /* neither call fails with these arguments */
	sem_init(&memory->wake, 0, 0);
	rc = ol_thread_start(thread_run, memory, &memory->thread);
	if (rc != 0) {
		sem_destroy(&memory->wake);
		pthread_mutex_destroy(&memory->lock);
		return rc;
	}
	memory->on = true;
	return 0;
}

void ol_memory_stop(struct ol_memory *memory)
{
	struct ol_memory_job *job;

	if (!memory->on)
		return;
	atomic_store_explicit(&memory->stop, true, memory_order_relaxed);
	sem_post(&memory->wake);
	pthread_join(memory->thread, NULL);
	memory->on = false;
	sem_destroy(&memory->wake);
	pthread_mutex_destroy(&memory->lock);
	while ((job = ol_memory_take(memory)) != NULL)
		job->busy = false; /* its owner has it now, and will free it */
	for (unsigned i = 0; i < OL_MEMORY_RANKS; i++) {
		while ((job = list_pop(&memory->todo[i])) != NULL) {
			job->busy = false;
			if (job->work == OL_MEMORY_BREAK || atomic_load(&job->cancel))
				job_free(memory, job);
		}
	}
}

struct ol_memory_job *ol_memory_job_make(void *owner, size_t bytes, int node, struct ol_slab *lent)
{
	struct ol_memory_job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return NULL;
	job->owner = owner;
	job->slab = lent;
	job->lent = lent != NULL;
	job->bytes = bytes;
	job->node = node;
	return job;
}

void ol_memory_ask(struct ol_memory *memory, struct ol_memory_job *job, enum ol_memory_work work)
{
	job->work = work;
	job->busy = true;
	if (work == OL_MEMORY_MAKE)
		memory->making++;
	pending_add(memory, job, true);
	pthread_mutex_lock(&memory->lock);
	list_append(&memory->todo[rank_of(job)], job);
	pthread_mutex_unlock(&memory->lock);
	sem_post(&memory->wake);
}

struct ol_memory_job *ol_memory_take(struct ol_memory *memory)
{
	struct ol_memory_job *job;

	while (ol_memory_has_news(memory)) {
		if (memory->on)
			pthread_mutex_lock(&memory->lock);
		job = list_pop(&memory->done);
		if (memory->on)
			pthread_mutex_unlock(&memory->lock);
		atomic_fetch_sub_explicit(&memory->ready, 1, memory_order_relaxed);
		job->busy = false;
		if (job->work == OL_MEMORY_MAKE)
			memory->making--;
		if (!atomic_load_explicit(&job->cancel, memory_order_relaxed))
			return job;
		ol_memory_give_back(memory, job);
	}
	return NULL;
}

void ol_memory_give_back(struct ol_memory *memory, struct ol_memory_job *job)
{
	if (job == NULL)
		return;
	if (job->busy) /* freed when the thread returns it */
		atomic_store_explicit(&job->cancel, true, memory_order_relaxed);
	else if (memory->on)
		ol_memory_ask(memory, job, OL_MEMORY_BREAK);
	else
		job_free(memory, job);
}

uint32_t ol_memory_wait_ms(const struct ol_memory *memory, size_t bytes)
{
	uint64_t mib =
		(atomic_load_explicit(&memory->pending_bytes, memory_order_relaxed) + bytes) / MIB;
	uint64_t ms =
		mib * atomic_load_explicit(&memory->ns_a_mib, memory_order_relaxed) / OL_NS_PER_MS;

	if (ms < OL_MEMORY_WAIT_MIN_MS)
		return OL_MEMORY_WAIT_MIN_MS;
	return ms > OL_MEMORY_WAIT_MAX_MS ? OL_MEMORY_WAIT_MAX_MS : (uint32_t)ms;
}
