/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * times.h -- how long pushes and pulls take, as their worker sees them: struct ol_link_times
 *
 * A time takes two looks at the clock, more than the rest of its cost. So where pushes follow each other
 * fast, a few of them are timed: one of OL_TIMES_EACH, which does not go into the periods that jobs have.
 * Slower ones are all timed.
 */
#ifndef OL_WORKER_TIMES_H
#define OL_WORKER_TIMES_H

#include <stdint.h>

struct ol_worker;
struct ol_link;
struct ol_grad;

enum {
	OL_TIMES_EACH = 7,
	OL_TIMES_FAST_US = 100 /* from one to the next, on the average */
};

/* Which ones of what is done again and again are timed */
struct ol_sampler {
	uint64_t last_ns; /* the last one that was timed began */
	uint32_t each; /* ones since then, the next timed one included; 0: none was timed */
	uint32_t left; /* of these, not timed ones to come */
};

/* ol_sampler_begin -- when it begins: now; and chooses the next one */
uint64_t ol_sampler_begin(struct ol_sampler *sampler);

/* ol_sampler_next -- one begins: now, or 0 if it is not to be timed */
static inline uint64_t ol_sampler_next(struct ol_sampler *sampler)
{
	if (sampler->left == 0)
		return ol_sampler_begin(sampler);
	sampler->left--;
	return 0;
}

/* ol_times_push -- a timed push has taken effect at this shard */
void ol_times_push(struct ol_link *link, const struct ol_grad *grad);
/* ol_times_read -- a timed pull has read this shard; it counts if the pull is delivered */
void ol_times_read(struct ol_link *link);
/* ol_times_pull -- a timed pull is delivered, with what was read of this shard */
void ol_times_pull(struct ol_link *link);

#endif /* OL_WORKER_TIMES_H */
