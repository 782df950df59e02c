/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * replay.h -- how a delta that a worker summed up while its server was gone becomes a step
 *
 * All m gradients of a delta were computed without the server: either at one point, the weights of
 * the last pull, or, with local progress, each at weights that contain the ones before. The sum of m
 * gradients at one point, taken at the full learning rate, is a step m times too long: it helps
 * while the loss is high, and ruins weights that are nearly trained.
 */
#ifndef OL_POLICY_REPLAY_H
#define OL_POLICY_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_server.h"

/* The published rule: learning rate 1e-3 above 50 pending gradients (Cao et al. 2024, code). */
enum {
	OL_REPLAY_SUM_MANY = 50
};

#define OL_REPLAY_SUM_LR 1e-3f

struct ol_delta {
	uint64_t staleness; /* updates since the weights it was computed at */
	uint32_t grads; /* m, at least 1 */
	uint32_t ways; /* workers whose local paths are added up, at least 1 */
	float lr; /* of the job */
	float norm; /* Euclidean, of the sum; CLIP only */
	float clip; /* largest norm; CLIP only */
	bool path; /* computed with local progress */
};

/*
 * ol_replay_scale -- the factor on a delta's sum; 1 for a delta of one gradient, unless the policy is
 * CLIP or STALENESS
 */
float ol_replay_scale(enum ol_replay policy, const struct ol_delta *delta);

#endif /* OL_POLICY_REPLAY_H */
