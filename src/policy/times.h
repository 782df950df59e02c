/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * times.h -- the expected time of a step that waits for k gradients, after one that waited for h
 *
 * A sample is the time from an update to the landing of the k-th gradient computed at its version,
 * whether that came in time for the next update or not. Samples fade; That(h, k) is their
 * isotonic fit: no less for a larger k, no more for a larger h.
 *
 * With many workers only some k are considered ("levels": every one up to 16, then each about an
 * eighth above the one before, and n), so that a choice costs microseconds.
 */
#ifndef OL_POLICY_TIMES_H
#define OL_POLICY_TIMES_H

#include <stdbool.h>
#include <stdint.h>

struct ol_times;

/*
 * ol_times_create -- workers: the largest k; workers_max: ids are below it; decay: factor on
 * samples an update; carries: gradients that missed their step are of a later one
 * Errors: -ENOMEM
 */
int ol_times_create(uint32_t workers, uint32_t workers_max, double decay, bool carries,
		    struct ol_times **ret_times);
void ol_times_destroy(struct ol_times *times);

/* ol_times_on_gradient -- a gradient computed at base_version has landed; it is, or would have been, of each step
 * from there to that at last_version */
void ol_times_on_gradient(struct ol_times *times, uint32_t worker, uint64_t base_version,
			  uint64_t last_version, uint64_t now_ns);
/* ol_times_on_update -- version was published, after a step of count gradients (0: dropped) */
void ol_times_on_update(struct ol_times *times, uint64_t version, uint64_t now_ns, uint32_t count);

uint32_t ol_times_levels(const struct ol_times *times);
/* ol_times_k -- the k of a level; levels count from 0, and the last is all workers */
uint32_t ol_times_k(const struct ol_times *times, uint32_t level);
/* ol_times_level -- the level of k, or the next level below */
uint32_t ol_times_level(const struct ol_times *times, uint32_t k);
/* ol_times_expect -- seconds, more than 0; NaN before the first sample */
double ol_times_expect(const struct ol_times *times, uint32_t h, uint32_t level);
/* ol_times_seen -- true if there was a sample of it, not too long ago */
bool ol_times_seen(const struct ol_times *times, uint32_t h, uint32_t level);

#endif /* OL_POLICY_TIMES_H */
