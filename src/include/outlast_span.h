/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outlast_span.h -- pushes and pulls of a part of the vector, each at a time of its own
 *
 * A job of several shards can be exchanged fragment by fragment: as in streaming DiLoCo, where the
 * traffic of one large exchange is spread over the steps between two of them. A span is one shard,
 * or several that follow each other. Each shard has versions and numbers of pushes of its own, so
 * exactly once holds for each span by itself.
 *
 * ERRORS, THREADS, FORKS and SIZES are as in outlast.h.
 */
#ifndef OUTLAST_SPAN_H
#define OUTLAST_SPAN_H

#include "outlast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A shard: a contiguous part of the job's vector */
struct ol_shard_info {
	uint64_t first; /* its first float in the job's vector … */
	uint64_t count; /* … and how many it has */
	uint64_t version; /* of the shard in the weights of ol_weights(); 0 before the first pull.
			     If a pull with OL_PULL_EVEN found no version at all shards, the oldest */
	uint64_t newest; /* that the shard's server is known to have; ol_newest() asks it again */
};

/* ol_shard_info -- where a shard lies, and its versions; never blocks. Errors: -EINVAL (no such shard:
 * the job has ol_job_info.shard_count) */
OL_API int ol_shard_info_sized(const struct ol_worker *worker, uint32_t shard,
			       struct ol_shard_info *ret_info, size_t info_bytes);
static inline int ol_shard_info(const struct ol_worker *worker, uint32_t shard,
				struct ol_shard_info *ret_info)
{
	return ol_shard_info_sized(worker, shard, ret_info, sizeof(*ret_info));
}

/*
 * ol_push_span -- as ol_push(), of the floats from `first` on alone, `count` of them
 *
 * The span is one shard or several whole ones: ol_shard_info() says where they begin. So a large
 * vector can be exchanged fragment by fragment, each at its own time. The buffer is one of all
 * param_count floats, and the rest of it is not looked at. Shards outside of the span are not touched:
 * they use no number, make no step, count nothing. All that is promised of a push holds for each
 * shard of the span: it takes effect once, is kept, pushed again, queued, dropped or withdrawn there
 * as a whole push is. The span alone must be finite. op->version is of the span's first shard.
 *
 * The base is that of each shard: info->base_versions, `count of shards` numbers; or, if that is
 * NULL, info->base_version for each of them. They are taken as they are, however many pulls came
 * between. (A span of all shards is ol_push(), with its base_version.)
 *
 * What ol_grad_ready() has sent of shards outside of the span is taken back. A rule of ol_rule_set()
 * is taken to each shard by the first push that covers it.
 *
 * With SYNC a step of a shard waits for a push of every worker there, and for nothing at other
 * shards. So all workers push the spans in one order, or a worker does not wait for one span before
 * it has pushed the next: otherwise they wait for each other.
 *
 * Blocks, threading, errors: as ol_push(); -EINVAL also if the span is not made of whole shards, or
 * a version is 2^56 or above; -EOPNOTSUPP if it is not all and steps are not of all workers (enum ol_wait):
 * shard 0 decides them for whole gradients. The buffer stays lent then.
 */
OL_API int ol_push_span_sized(struct ol_worker *worker, float *grad, uint64_t first, uint64_t count,
			      const struct ol_push_info *info, size_t info_bytes, struct ol_op *op);
static inline int ol_push_span(struct ol_worker *worker, float *grad, uint64_t first,
			       uint64_t count, const struct ol_push_info *info, struct ol_op *op)
{
	return ol_push_span_sized(worker, grad, first, count, info, sizeof(*info), op);
}

/*
 * ol_pull_span -- as ol_pull(), of the shards alone that the floats from `first` on are, `count` of
 * them
 *
 * The other shards keep the weights that they had: ol_weights() gives all, as one vector, and its
 * version stays that of the shard furthest behind. op->version and op->age_ns are of the span's
 * shards, and the flags too: OL_PULL_FORWARD compares these alone. A server of another shard that is
 * gone delays nothing. One pull at a time, whatever it reads; the first one is ol_pull(). Of the
 * others at most what the pull before read is copied, in this process.
 *
 * If only newer weights free a buffer, or take what an outage left behind (-ENOBUFS), that may be
 * those of any shard: ol_pull(), as ol_grad_acquire() does. Otherwise a pull of the spans that were
 * pushed is enough.
 *
 * Blocks, threading, errors: as ol_pull(); -EINVAL also if the span is not made of whole shards;
 * -ENODATA (nothing was pulled yet: the rest of the weights would be missing)
 */
OL_API int ol_pull_span(struct ol_worker *worker, unsigned flags, uint64_t first, uint64_t count,
			struct ol_op *op);

#ifdef __cplusplus
}
#endif

#endif /* OUTLAST_SPAN_H */
