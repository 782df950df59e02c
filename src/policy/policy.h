/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * policy.h -- when does a gradient become a step
 *
 * One interface for every consistency model; nothing else knows which is in force. A state machine
 * without I/O: time comes in as an argument.
 *
 *	async   every gradient is a step
 *	sync    one gradient of each of k workers, all computed at the published version, is a step
 */
#ifndef OL_POLICY_POLICY_H
#define OL_POLICY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_server.h"

struct ol_policy;

/* A gradient that has landed. */
struct ol_arrival {
	uint64_t base_version; /* it was computed at */
	uint64_t version; /* published now */
	uint64_t now_ns;
	uint32_t worker;
	float loss;
	bool queued; /* it waited for its server: old by nature, and what it is worth was decided */
};

enum ol_verdict {
	OL_VERDICT_HOLD, /* keep it: its step is not complete */
	OL_VERDICT_STEP, /* apply it now, together with those held, in worker order */
	OL_VERDICT_LATE, /* drop and count it */
};

/*
 * ol_policy_create -- workers: how many a sync step waits for; workers_max: ids are below it
 * Errors: -ENOMEM, -EINVAL
 */
int ol_policy_create(enum ol_consistency consistency, uint32_t workers, uint32_t workers_max,
		     struct ol_policy **ret_policy);
void ol_policy_destroy(struct ol_policy *policy);

/* ol_policy_on_gradient -- a held gradient stays held until a STEP or ol_policy_on_leave() */
enum ol_verdict ol_policy_on_gradient(struct ol_policy *policy, const struct ol_arrival *arrival);

/* ol_policy_on_update -- the step was made and published (or dropped whole, at the same version) */
void ol_policy_on_update(struct ol_policy *policy, uint64_t version, uint64_t now_ns);

/* ol_policy_single -- true if every gradient is a step by itself, whatever else arrives */
bool ol_policy_single(const struct ol_policy *policy);

/* ol_policy_on_leave -- what this worker has held is gone */
void ol_policy_on_leave(struct ol_policy *policy, uint32_t worker);

#endif /* OL_POLICY_POLICY_H */
