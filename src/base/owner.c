/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * owner.c -- numbers for threads, as the system reuses thread ids; and a count of forks, as the
 * thread of a child has the number of the thread that forked
 */
#include "base/owner.h"

#include <pthread.h>

_Thread_local uint64_t ol_owner_thread;
static _Atomic uint64_t threads; /* numbers given */
_Atomic uint32_t ol_owner_forks;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
	atomic_fetch_add_explicit(&ol_owner_forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, in_child); /* fails only if memory is short */
}

void ol_owner_take(struct ol_owner *owner)
{
	pthread_once(&once, watch_forks);
	if (ol_owner_thread == 0)
		ol_owner_thread = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
	owner->thread = ol_owner_thread;
	owner->forks = atomic_load_explicit(&ol_owner_forks, memory_order_relaxed);
}
