/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * consistency.h -- the value of --consistency
 *
 *	async                    every gradient is a step
 *	sync                     a step takes one gradient of every worker
 *	sync:k=N                 … the first N; later ones are dropped and counted
 *	sync:dbw                 … as many as make the loss fall fastest
 *	sync:dbw-blind           … as many as make the most gradients a second
 *	sync:adasync[,k=N]       … N (1 without it), and more as the loss falls
 *	sync:quorum,k=N[,grace=MS] … N at least, and those that come within MS milliseconds (0
 *	                         without it) of the N-th; never fewer
 *	…,late=L                 behind any of these five: late=next: later ones are of the next step; late=aged: they
 *	                         count less there; a number: if they are not later than so many steps
 *	ssp:N                    every gradient is a step, but no worker gets more than N of them
 *	                         ahead of the slowest
 */
#ifndef CMD_CONSISTENCY_H
#define CMD_CONSISTENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outlast_server.h"

enum {
	OL_STALENESS_MAX = 1000000,
	OL_GRACE_MAX_MS = 86400000, /* a day */
	OL_LATE_STEPS_MAX = 1000000
};

extern const char ol_consistency_help[]; /* what each word means */

struct ol_consistency_set {
	enum ol_consistency consistency;
	enum ol_wait wait;
	uint32_t k; /* 0: the policy has none */
	uint32_t staleness; /* ssp */
	uint32_t grace_ms; /* quorum */
	enum ol_late late; /* of all of `sync` that do not wait for every worker */
	uint32_t late_steps;
};

/*
 * ol_consistency_parse -- parse the value for a job of so many workers
 *
 * Errors: -EINVAL, with words in err that name what is wrong
 */
int ol_consistency_parse(const char *text, uint32_t workers, struct ol_consistency_set *ret_set,
			 char *err, size_t err_bytes);

/* ol_consistency_all -- a step needs every worker: the run is a function of its seed */
static inline bool ol_consistency_all(const struct ol_consistency_set *set)
{
	return set->consistency == OL_CONSISTENCY_SYNC && set->wait == OL_WAIT_ALL;
}

/* ol_consistency_backup -- gradients may come too late for their step */
static inline bool ol_consistency_backup(const struct ol_consistency_set *set)
{
	return set->consistency == OL_CONSISTENCY_SYNC && set->wait != OL_WAIT_ALL;
}

/* ol_consistency_least -- of so many workers: fewer make no step */
static inline uint32_t ol_consistency_least(const struct ol_consistency_set *set, uint32_t workers)
{
	if (ol_consistency_all(set))
		return workers;
	return ol_consistency_backup(set) && set->wait == OL_WAIT_QUORUM ? set->k : 1;
}

#endif /* CMD_CONSISTENCY_H */
