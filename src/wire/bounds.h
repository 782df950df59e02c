/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * bounds.h -- how large the numbers of a job may be, wherever one comes from: a peer's message, a
 * mirror, a file
 *
 * No honest job comes near them. Below them no arithmetic on these numbers overflows. What a server
 * takes in stays below, so that what it saves can be read again.
 */
#ifndef OL_WIRE_BOUNDS_H
#define OL_WIRE_BOUNDS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/layout.h"
#include "wire/seq.h"

#define OL_VERSION_MAX (UINT64_MAX >> 8)
#define OL_EPOCH_MAX   (UINT32_MAX >> 1) /* one more than the largest */

/* By how much an epoch that a worker knows may be above that of the weights: it counts how often a
 * server began anew before any worker had read its weights */
#define OL_EPOCH_JUMP_MAX 4096

/* Of one worker: those of all workers can be added up. A server refuses pushes above the first, as
 * some may be on their way */
#define OL_GRADS_PUSH_MAX (UINT64_MAX >> 12)
#define OL_GRADS_MAX      (UINT64_MAX >> 11)

static_assert(OL_GRADS_MAX <= UINT64_MAX / OL_WORKERS_MAX, "a sum over workers does not overflow");
static_assert(OL_GRADS_MAX - OL_GRADS_PUSH_MAX > OL_SLOTS_MAX * (uint64_t)UINT32_MAX,
	      "room for what may be on its way");

/* Of a gradient. Within them no factor of a step's mean overflows, or vanishes. */
#define OL_WEIGHT_MIN 1e-18f
#define OL_WEIGHT_MAX 1e18f

/* ol_weight_possible -- a gradient can have this weight; no NaN is possible */
static inline bool ol_weight_possible(float weight)
{
	return weight >= OL_WEIGHT_MIN && weight <= OL_WEIGHT_MAX;
}

/* ol_seq_possible -- a push can have this number: of a process, not 0, and one more is of the same */
static inline bool ol_seq_possible(uint64_t seq)
{
	return ol_seq_tag(seq) != 0 && ol_seq_count(seq) != 0 &&
	       ol_seq_count(seq) <= OL_SEQ_COUNT_MAX;
}

/* ol_applied_fault -- the field of a worker's entry that no server can have made; NULL: none */
static inline const char *ol_applied_fault(const struct ol_applied *applied)
{
	if (applied->seq != 0 && !ol_seq_possible(applied->seq))
		return "seq";
	if (applied->grads > OL_GRADS_MAX)
		return "grads";
	return applied->earlier > applied->grads ? "earlier" : NULL;
}

/* ol_snapshot_head_fault -- the same of a snapshot's head */
static inline const char *ol_snapshot_head_fault(const struct ol_snapshot_head *head)
{
	return head->optimizer_steps > OL_VERSION_MAX ? "optimizer_steps" : NULL;
}

#endif /* OL_WIRE_BOUNDS_H */
