/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * lease.h -- how long a server may act, and when another may take its place: the lease's margins
 *
 * Only `refound` depends on it: a spare founds a chain anew when all its replicas are gone, while
 * an old head that cannot be reached might still commit. With L the lease, H the heartbeat:
 *
 * - H <= L / 4: neighbours see the heartbeat of a loop that turns.
 * - S = max(3 L, 1000 ms) is the length of a server's session, asked for and granted.
 * - The head's end E is S after it sent its last answered sign of life. The ensemble ends the
 *   session no earlier, by its own clock.
 * - The head's last commit <= E + H + L. It looks at its lease every H at least, and before each
 *   commit; a loop that stands still for longer than L ends.
 * - The spare's first view >= E + A - D. It waits for A = 2 L once the session is over; D = S / 100
 *   is what two clocks differ by within a session.
 * - A > H + L + D, so the two never overlap.
 *
 * These rules do not cover a head that is stopped between a look at its lease and a commit: workers
 * that have the next view have fenced it off.
 *
 * In a folder a registration lasts as long as its process: E is the process's end, and a spare
 * waits L, as a dying process may still act. A process that is stopped keeps its place.
 *
 * The session of a client that registers no server (a worker, ol_chains_open()) has a length that
 * no rule depends on.
 */
#ifndef OL_REPLICATION_COORD_LEASE_H
#define OL_REPLICATION_COORD_LEASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	OL_LEASE_BEATS = 4, /* heartbeats in a lease, at least */
	OL_LEASE_SESSION = 3, /* leases in a session */
	OL_LEASE_SESSION_MIN_MS = 1000,
	OL_LEASE_ABSENCE = 2, /* leases from a session's end until a chain may be founded anew */
	OL_LEASE_DRIFT = 100, /* two clocks differ by one part in this many, at most */
	OL_LEASE_WATCHER_MS = 5000, /* session of a client that registers no server */
};

/* in hundredths of a lease, where the session is three of them: A > H + L + D */
static_assert(100 * OL_LEASE_ABSENCE >
		      100 / OL_LEASE_BEATS + 100 + 100 * OL_LEASE_SESSION / OL_LEASE_DRIFT,
	      "a spare waits until no old head can commit any more");

static inline uint32_t ol_lease_session_ms(uint32_t lease_ms)
{
	uint64_t session_ms = (uint64_t)lease_ms * OL_LEASE_SESSION;

	if (session_ms > INT32_MAX) /* ZooKeeper's own limit */
		return INT32_MAX;
	return session_ms > OL_LEASE_SESSION_MIN_MS ? (uint32_t)session_ms
						    : OL_LEASE_SESSION_MIN_MS;
}

/* ol_lease_absence_ms -- time from the end of a registration until a chain may be founded anew
 * without it; for_life: a registration ends only with its process */
static inline uint64_t ol_lease_absence_ms(uint32_t lease_ms, bool for_life)
{
	return for_life ? lease_ms : (uint64_t)lease_ms * OL_LEASE_ABSENCE;
}

/* ol_lease_fault -- why these values are not safe, as a line; NULL: they are */
static inline const char *ol_lease_fault(uint32_t lease_ms, uint32_t heartbeat_ms, bool refound)
{
	uint64_t session_ms = ol_lease_session_ms(lease_ms);

	if (lease_ms == 0)
		return "lease_ms is 0: a replica without a lease is never taken for dead";
	if ((uint64_t)heartbeat_ms * OL_LEASE_BEATS > lease_ms)
		return "lease_ms is less than 4 times heartbeat_ms";
	if (refound && (session_ms < (uint64_t)lease_ms * OL_LEASE_SESSION ||
			(uint64_t)lease_ms * OL_LEASE_ABSENCE <=
				heartbeat_ms + lease_ms + session_ms / OL_LEASE_DRIFT))
		return "lease_ms leaves no margin between an old head's last commit and a chain that is "
		       "founded anew: 14 ms at least, 198 hours at most, or no refound";
	return NULL;
}

#endif /* OL_REPLICATION_COORD_LEASE_H */
