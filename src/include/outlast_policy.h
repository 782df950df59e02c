/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outlast_policy.h -- a server's decisions as state machines: which gradients make a step, and
 * which blocks a prioritized checkpoint saves next
 *
 * They have no I/O, clock, threads or randomness of their own: time and seeds are arguments. So the
 * same code runs in a server, in the simulator and in `outlast drill` under a virtual clock. An
 * object belongs to one thread. ERRORS and SIZES are as in outlast.h.
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
	uint32_t workers; /* n, of the job: ALL waits for n gradients, the others for at most n */
	uint32_t workers_max; /* ids are below it */
	uint32_t k; /* FIXED; ADASYNC: of the first step; QUORUM: the least of any step */
	uint32_t staleness; /* SSP: a gradient waits while its worker is more than this many
			       gradients ahead of the slowest worker; 0: lock step */
	double lr; /* DBW: of the update rule */
	/* The rest is DBW's, with defaults that need no tuning. */
	uint32_t window; /* gradients over which norm and variance are averaged */
	uint32_t smoothness_window; /* gradients, at most, whose steps estimate the smoothness */
	double decay; /* factor on the weight of a time sample at each update; 1: never forgets */
	double loss_ratio; /* if the loss grew by more, k grows by at least one */
	double share; /* this server's part of the job's floats; its steps are taken to cause this
			 part of a change of loss */
	uint32_t grace_ms; /* QUORUM: a step waits so long after its k-th gradient */
	enum ol_late late; /* all that do not wait for ALL */
	uint32_t late_steps; /* NEXT: how much older than the published version; 0: no bound */
};

/* ol_policy_opts_init -- every option at its default: ASYNC */
OL_API void ol_policy_opts_init_sized(struct ol_policy_opts *opts, size_t opts_bytes);
static inline void ol_policy_opts_init(struct ol_policy_opts *opts)
{
	ol_policy_opts_init_sized(opts, sizeof(*opts));
}

/* A gradient that has landed. Its size is fixed. */
struct ol_arrival {
	uint64_t base_version; /* of the weights it was computed at */
	uint64_t version; /* of the weights published now */
	uint64_t now_ns; /* when it landed */
	uint32_t worker;
	float loss;
	bool queued; /* it waited in a worker's queue for its server: never late, as its factor
			(enum ol_replay) accounts for its age */
	bool again; /* its worker was told that it is applied, in weights that were lost with their
		       server: never late, as it would be gone then */
};

enum ol_verdict {
	OL_VERDICT_HOLD, /* keep it: its step is not complete */
	OL_VERDICT_STEP, /* apply it now, together with those held, in worker order */
	OL_VERDICT_LATE, /* drop and count it */
	OL_VERDICT_WAIT, /* keep it aside; ask again after the next update, join or leave, before any
			    gradient that came later */
};

/* A step that was published. With count 0 the whole step was dropped and the version is unchanged.
   Its size is fixed. */
struct ol_update {
	uint64_t version;
	uint64_t now_ns;
	uint32_t count; /* gradients in it */
	/* Norms over this shard's part of the vectors; ignored unless ol_policy_wants_norms().
	   NaN: not known, as another server made the step. */
	double norm2_sum; /* sum over its gradients g_j, times their factors, of ||g_j||^2 */
	double norm2_mean; /* ||(1/count) sum g_j||^2 */
};

/*
 * ol_policy_create -- a policy by these options, which are copied
 *
 * Errors: -ENOMEM, -EINVAL (a k, n or bound out of range; or as SIZES of outlast.h says)
 */
OL_API int ol_policy_create(const struct ol_policy_opts *opts, struct ol_policy **ret_policy);
OL_API void ol_policy_destroy(struct ol_policy *policy);

/* ol_policy_on_gradient -- judge a gradient; a held one stays held until a STEP or
 * ol_policy_on_leave() */
OL_API enum ol_verdict ol_policy_on_gradient(struct ol_policy *policy,
					     const struct ol_arrival *arrival);
/* ol_policy_on_update -- a step was published, or dropped */
OL_API void ol_policy_on_update(struct ol_policy *policy, const struct ol_update *update);

/* ol_policy_on_join -- a worker may push from now on; no effect if it has joined already */
OL_API void ol_policy_on_join(struct ol_policy *policy, uint32_t worker);
/* ol_policy_on_leave -- the worker's held gradients are gone. Unless a step waits for ALL, or for a
 * QUORUM, it never waits for more workers than are present. */
OL_API void ol_policy_on_leave(struct ol_policy *policy, uint32_t worker);

/* ol_policy_ready -- true if the held gradients make a step now, without another one: after a
 * leave */
OL_API bool ol_policy_ready(const struct ol_policy *policy);
/*
 * ol_policy_due_ns -- when the held gradients make a step without another one, in the time of
 * arrivals; 0: now, as ol_policy_ready() says. UINT64_MAX: time alone makes no step of them
 *
 * QUORUM only. It changes with an arrival, an update, a join or a leave.
 */
OL_API uint64_t ol_policy_due_ns(const struct ol_policy *policy);
/* ol_policy_single -- true if every gradient is always a step by itself */
OL_API bool ol_policy_single(const struct ol_policy *policy);
/* ol_policy_wants_norms -- true if ol_update must hold norms */
OL_API bool ol_policy_wants_norms(const struct ol_policy *policy);

/* The policy's estimates, for reports. NaN: not known yet. */
struct ol_policy_stat {
	uint32_t k; /* gradients that the next step waits for; ASYNC, SSP: 1 */
	uint32_t present; /* workers */
	uint64_t late;
	double norm2; /* N: of the true gradient, averaged */
	double variance; /* V: of one gradient, summed over coordinates */
	double smoothness; /* L */
	double loss; /* of the last update */
	double gain; /* expected decrease of the loss in the next step */
	double seconds; /* expected time of the next step */
	uint64_t carried; /* OL_LATE_NEXT: came too late, and were held for a later step */
};

/* ol_policy_get_stat -- the estimates of now */
OL_API void ol_policy_get_stat_sized(const struct ol_policy *policy,
				     struct ol_policy_stat *ret_stat, size_t stat_bytes);
static inline void ol_policy_get_stat(const struct ol_policy *policy,
				      struct ol_policy_stat *ret_stat)
{
	ol_policy_get_stat_sized(policy, ret_stat, sizeof(*ret_stat));
}

/*
 * A selector says which blocks of a vector a prioritized checkpoint saves next (Qiao et al. 2019).
 * On average it chooses `fraction` of the floats a turn, for any sizes of blocks: a turn that chose
 * too many or too few is made up for in the next.
 */
struct ol_selector;

/*
 * ol_selector_create -- a selector for blocks of these lengths: floats of each, at least 1
 *
 * seed: RANDOM only.
 *
 * Errors: -EINVAL (FULL, no block, an empty one, a fraction not in (0, 1]), -ENOMEM
 */
OL_API int ol_selector_create(enum ol_selection selection, const uint64_t *lengths, uint32_t count,
			      double fraction, uint64_t seed, struct ol_selector **ret_selector);
OL_API void ol_selector_destroy(struct ol_selector *selector);
/*
 * ol_selector_turn -- the blocks to save now, in ascending order, into chosen (room for all)
 *
 * distance: how far each block has moved since it was saved; only PRIORITY needs it, others may
 * pass NULL. Ties go to the block that was saved longest ago. Returns how many blocks were chosen.
 */
OL_API uint32_t ol_selector_turn(struct ol_selector *selector, const double *distance,
				 uint32_t *chosen);

#ifdef __cplusplus
}
#endif

#endif /* OUTLAST_POLICY_H */
