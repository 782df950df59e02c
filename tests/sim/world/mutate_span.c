/* SPDX-License-Identifier: BSD-3-Clause */

/* mutate_span.c -- a worker that takes a span for more, or less, than it is, or shards for even */

#include <string.h>

#include "outlast_span.h"
#include "sim/world/cluster.h"
#include "sim/world/mutate.h"
#include "sim/world/wrap.h"
#include "worker/worker_internal.h"

WRAP(int, ol_push_span_sized, struct ol_worker *worker, float *grad, uint64_t first, uint64_t count,
     const struct ol_push_info *info, size_t info_bytes, struct ol_op *op);
WRAP(int, ol_pull_span, struct ol_worker *worker, unsigned flags, uint64_t first, uint64_t count,
     struct ol_op *op);

WRAP(void, ol_even_begin, struct ol_worker *worker, bool asked);

void __wrap_ol_even_begin(struct ol_worker *worker, bool asked)
{
	__real_ol_even_begin(worker, asked && !mutation(MUTATE_UNEVEN));
}

/* Nothing at the other shards, which is a push there all the same */
static int push_all(struct ol_worker *worker, float *grad, uint64_t first, uint64_t count,
		    struct ol_push_info info, struct ol_op *op)
{
	uint64_t bases[CLUSTER_SHARDS_MAX];

	for (uint32_t k = 0; k < worker->link_count; k++)
		bases[k] = worker->mirrors[worker->mirror].versions[k];
	for (uint64_t i = 0; i < cluster.params; i++) {
		if (i < first || i >= first + count)
			grad[i] = 0.0f;
	}
	info.base_versions = bases;
	return ol_push(worker, grad, &info, op);
}

int __wrap_ol_push_span_sized(struct ol_worker *worker, float *grad, uint64_t first, uint64_t count,
			      const struct ol_push_info *info, size_t info_bytes, struct ol_op *op)
{
	struct ol_push_info own = *info;

	if (mutation(MUTATE_PUSHES_ALL))
		return push_all(worker, grad, first, count, own, op);
	if (mutation(MUTATE_OLDEST_BASE)) {
		own.base_versions = NULL;
		own.base_version = worker->mirrors[worker->mirror].version;
	}
	return __real_ol_push_span_sized(worker, grad, first, count, &own, info_bytes, op);
}

/* The mirror that is read into is taken for the last one's twin */
static void twin_make(struct ol_worker *worker)
{
	const struct ol_mirror *last = &worker->mirrors[worker->mirror];
	struct ol_mirror *next = &worker->mirrors[1 - worker->mirror];

	for (uint32_t k = 0; k < worker->link_count; k++) {
		if (ol_link_is_in(&worker->links[k], worker->pull_span))
			continue;
		next->versions[k] = last->versions[k];
		next->histories[k] = last->histories[k];
		next->identities[k] = last->identities[k];
		next->read_ns[k] = last->read_ns[k];
		next->intact |= UINT64_C(1) << k;
	}
}

int __wrap_ol_pull_span(struct ol_worker *worker, unsigned flags, uint64_t first, uint64_t count,
			struct ol_op *op)
{
	int rc = __real_ol_pull_span(worker, flags, first, count, op);

	if (rc == 0 && mutation(MUTATE_NO_COPY))
		twin_make(worker);
	return rc;
}
