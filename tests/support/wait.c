/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * wait.c -- wait for a condition, not for a while
 */
#include "support/wait.h"

#include <poll.h>
#include <stddef.h>

#include "base/clock.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRETCH 5
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STRETCH 5
#endif
#endif
#ifndef STRETCH
#define STRETCH 1
#endif

enum {
	ASKS_BUSY = 1000, /* before it begins to pause between asks */
	PAUSE_MS = 1
};

uint64_t ol_deadline_ns(unsigned deadline_ms)
{
	return ol_clock_ns() + STRETCH * OL_NS_PER_MS * deadline_ms;
}

bool ol_wait_until(bool (*cond)(void *arg), void *arg, unsigned deadline_ms)
{
	uint64_t deadline_ns = ol_deadline_ns(deadline_ms);

	for (unsigned asks = 0; !cond(arg); asks++) {
		if (ol_clock_ns() >= deadline_ns)
			return cond(arg);
		if (asks >= ASKS_BUSY)
			poll(NULL, 0, PAUSE_MS);
	}
	return true;
}
