/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outlast_policy.h -- a server's choices as state machines: which gradients make a step, and which
 * blocks a prioritized checkpoint saves next
 *
 * No I/O, clock, threads or randomness of their own: time and seeds come in as arguments, so the
 * same code runs in a server, in the simulator and in `outlast drill` under a virtual clock. An
 * object belongs to one thread. ERRORS are as in outlast.h.
 */
#ifndef OUTLAST_POLICY_H
#define OUTLAST_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_server.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ol_policy;

/* Set by ol_policy_opts_init(); overwrite the fields you care about. */
struct ol_policy_opts {
	size_t size; /* sizeof(struct ol_policy_opts) as the caller compiled it */
	enum ol_consistency consistency;
	enum ol_wait wait; /* SYNC */
	uint32_t workers; /* n, of the job: ALL waits for so many, the others for so many at most */
	uint32_t workers_max; /* ids are below it */
	uint32_t k; /* FIXED; AdaSync: of the first step */
	uint32_t staleness; /* SSP: a gradient waits while its worker has given more than so many
			       above the slowest's; 0: lock step */
	double lr; /* DBW: of the update rule */
	/* DBW's own, with defaults that need no tuning; src/policy/README.md says why these */
	uint32_t window; /* gradients over which norm and variance are averaged */
	uint32_t smoothness_window; /* … whose steps make the smoothness, at most */
	double decay; /* factor on the weight of a time sample an update; 1: nothing is forgotten */
	double loss_ratio; /* a loss that grew by more makes k grow by one at least */
	double share; /* DBW: this server's part of the job's floats; of a change of loss, it is
			 taken to cause as much */
};

OL_API void ol_policy_opts_init_sized(struct ol_policy_opts *opts, size_t opts_bytes);
static inline void ol_policy_opts_init(struct ol_policy_opts *opts)
{
	ol_policy_opts_init_sized(opts, sizeof(*opts));
}

/* A gradient that has landed. Its size is fixed. */
struct ol_arrival {
	uint64_t base_version; /* it was computed at */
	uint64_t version; /* published now */
	uint64_t now_ns; /* when it landed */
	uint32_t worker;
	float loss;
	bool queued; /* it waited for its server: old by nature, and what it is worth was decided */
};

enum ol_verdict {
	OL_VERDICT_HOLD, /* keep it: its step is not complete */
	OL_VERDICT_STEP, /* apply it now, together with those held, in worker order */
	OL_VERDICT_LATE, /* drop and count it */
	OL_VERDICT_WAIT, /* keep it aside; ask again after the next update, join or leave */
};

/* A step that was made and published; or dropped whole (count 0), the version then stays. Its size
   is fixed. */
struct ol_update {
	uint64_t version;
	uint64_t now_ns;
	uint32_t count; /* gradients in it */
	/* If ol_policy_wants_norms(), else ignored; NaN: not known (another server made the step).
	   Of this shard's part of the vectors: */
	double norm2_sum; /* sum over its gradients g_j of ||g_j||^2 */
	double norm2_mean; /* ||(1/count) sum g_j||^2 */
};

/*
 * ol_policy_create -- copies opts
 *
 * Errors: -ENOMEM, -EINVAL (a k, n or bound out of range; or as SIZES of outlast.h says)
 */
OL_API int ol_policy_create(const struct ol_policy_opts *opts, struct ol_policy **ret_policy);
OL_API void ol_policy_destroy(struct ol_policy *policy);

/* ol_policy_on_gradient -- a held gradient stays held until a STEP or ol_policy_on_leave() */
OL_API enum ol_verdict ol_policy_on_gradient(struct ol_policy *policy,
					     const struct ol_arrival *arrival);
OL_API void ol_policy_on_update(struct ol_policy *policy, const struct ol_update *update);

/* ol_policy_on_join -- a worker may push from now on; one that is there already: nothing */
OL_API void ol_policy_on_join(struct ol_policy *policy, uint32_t worker);
/* ol_policy_on_leave -- what it has held is gone; a step never waits for more than are there,
 * unless it waits for ALL */
OL_API void ol_policy_on_leave(struct ol_policy *policy, uint32_t worker);

/* ol_policy_ready -- true if what is held makes a step now, without another gradient: after a
 * leave */
OL_API bool ol_policy_ready(const struct ol_policy *policy);
/* ol_policy_single -- true if every gradient is a step by itself, whatever else arrives */
OL_API bool ol_policy_single(const struct ol_policy *policy);
/* ol_policy_wants_norms -- true if ol_update must have them */
OL_API bool ol_policy_wants_norms(const struct ol_policy *policy);

/* What the policy believes; for reports. NaN: not known yet. */
struct ol_policy_stat {
	uint32_t k; /* gradients that the next step waits for; ASYNC, SSP: 1 */
	uint32_t present; /* workers */
	uint64_t late;
	double norm2; /* N: of the true gradient, averaged */
	double variance; /* V: of one gradient, summed over coordinates */
	double smoothness; /* L */
	double loss; /* of the last update */
	double gain; /* expected decrease of the loss in the next step … */
	double seconds; /* … and how long that is expected to take */
};

OL_API void ol_policy_get_stat_sized(const struct ol_policy *policy,
				     struct ol_policy_stat *ret_stat, size_t stat_bytes);
static inline void ol_policy_get_stat(const struct ol_policy *policy,
				      struct ol_policy_stat *ret_stat)
{
	ol_policy_get_stat_sized(policy, ret_stat, sizeof(*ret_stat));
}

/*
 * A selector says which blocks of a vector a prioritized checkpoint saves next (Qiao et al. 2019).
 * Over many turns it gives out `fraction` of the floats a turn, whatever the blocks' sizes: what a
 * turn gave too much or too little is made up for in the next.
 */
struct ol_selector;

/*
 * ol_selector_create -- lengths: floats of each block, at least 1 each; seed: RANDOM only
 * Errors: -EINVAL (FULL, no block, an empty one, a fraction not in (0, 1]), -ENOMEM
 */
OL_API int ol_selector_create(enum ol_selection selection, const uint64_t *lengths, uint32_t count,
			      double fraction, uint64_t seed, struct ol_selector **ret_selector);
OL_API void ol_selector_destroy(struct ol_selector *selector);
/*
 * ol_selector_turn -- the blocks to save now, in ascending order, into chosen (room for all)
 *
 * distance: how far each block has moved since it was saved; PRIORITY only, else may be NULL. Ties
 * go to the block that was saved longest ago. Returns how many were chosen.
 */
OL_API uint32_t ol_selector_turn(struct ol_selector *selector, const double *distance,
				 uint32_t *chosen);

#ifdef __cplusplus
}
#endif

#endif /* OUTLAST_POLICY_H */
