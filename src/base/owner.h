/* SPDX-License-Identifier: BSD-3-Clause */

/* owner.h -- the one thread that may use a handle */
#ifndef OL_BASE_OWNER_H
#define OL_BASE_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Forks between this process and the first of its ancestors that asked for an owner */
extern _Atomic uint32_t ol_owner_forks;

/*
 * This thread's number, from 1; it is never reused. 0: not asked for yet
 *
 * Every call with a worker reads it. In a shared library a variable of a thread is found by a call,
 * unless it lies in the block that the loader sets up; 8 bytes have room there.
 */
extern _Thread_local uint64_t ol_owner_thread __attribute__((tls_model("initial-exec")));

struct ol_owner {
	uint64_t thread;
	uint32_t forks;
};

/* ol_owner_take -- the calling thread owns it now */
void ol_owner_take(struct ol_owner *owner);

/* ol_owner_here -- in the process that took it, not in a child of a fork */
static inline bool ol_owner_here(const struct ol_owner *owner)
{
	return owner->forks == atomic_load_explicit(&ol_owner_forks, memory_order_relaxed);
}

/* ol_owner_is_me -- the caller is that thread */
static inline bool ol_owner_is_me(const struct ol_owner *owner)
{
	return owner->thread == ol_owner_thread && ol_owner_here(owner);
}

#endif /* OL_BASE_OWNER_H */
