/* SPDX-License-Identifier: BSD-3-Clause */

/* owner.c -- a count of forks: a child's thread has the name of the thread that forked */
#include "base/owner.h"

_Atomic uint32_t ol_owner_forks;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
	atomic_fetch_add_explicit(&ol_owner_forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, in_child); /* fails for want of memory only */
}

void ol_owner_take(struct ol_owner *owner)
{
	pthread_once(&once, watch_forks);
	owner->thread = pthread_self();
	owner->forks = atomic_load_explicit(&ol_owner_forks, memory_order_relaxed);
}
