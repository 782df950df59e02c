/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * crew.h -- worker processes that push gradients of tally.h until they are told to stop, while
 * havoc.h's process kills their servers
 */
#ifndef OL_TESTS_SUPPORT_CREW_H
#define OL_TESTS_SUPPORT_CREW_H

#include <stdatomic.h>

#include "support/havoc.h"
#include "support/tally.h"

/* What workers and the process that kills tell each other */
struct crew {
	/* set before crew_start() */
	enum ol_outage outage;
	enum ol_level level;
	bool state; /* the optimizer's is mirrored */
	bool alike; /* as in struct tally */
	unsigned flight; /* pushes under way at most; 0: as the seed wants it */
	/* workers say */
	atomic_int in; /* that are connected */
	atomic_ulong pushes; /* of all; of other stories: steps */
	atomic_ulong done[TALLY_WORKERS]; /* of each: ended with status 0 */
	atomic_ulong local_pulls;
	atomic_int ended; /* workers that have */
	char said[TALLY_WORKERS][128]; /* a version that was older than one told before */
	uint64_t sum[TALLY_WORKERS]; /* of the last weights */
	uint64_t lost[TALLY_WORKERS]; /* gradients, as its accounts say */
	/* they are told */
	atomic_int enough; /* come to an end */
	atomic_int leave;
};

/* crew_board -- shared with the workers that are forked later; all zero */
struct crew *crew_board(void);

/* crew_opts -- of servers; what suits short stories: a lease of 200 ms, 2 to 8 slots by the seed,
 * a chain that is founded anew from workers' mirrors */
struct ol_server_opts crew_opts(unsigned seed);

/* crew_start -- fork the workers, and wait until they are in; they run fn(job, id), or push until
 * `enough` (NULL) */
void crew_start(struct havoc *havoc, int (*fn)(const struct job *job, long id));
/* crew_worker -- in a worker: open, with what crew_board() says */
struct ol_worker *crew_worker(const struct job *job, long id);
/* crew_ended -- in a worker: it has ended well; stay, with its mirror, until all may leave */
void crew_ended(struct ol_worker *worker);

/* crew_pushes -- tend until so many more are done, or all have ended */
void crew_pushes(struct havoc *havoc, unsigned long more);
/* crew_enough -- let them come to an end, and wait for it; they stay connected */
void crew_enough(struct havoc *havoc);
void crew_leave(struct havoc *havoc);

/*
 * crew_history -- fails if a worker was told of a version, and then of an older one, in one
 * history; or if the chain was founded anew though a replica was left
 */
void crew_history(struct havoc *havoc, uint32_t shard);

/* crew_sum -- of floats, to compare them bit for bit */
uint64_t crew_sum(const float *weights, uint64_t count);

#endif /* OL_TESTS_SUPPORT_CREW_H */
