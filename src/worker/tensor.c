/* SPDX-License-Identifier: BSD-3-Clause */

/* tensor.c -- the job's table of tensors, as it came with the weights */

#include "wire/tensor.h"
#include "outlast_tensor.h"
#include "worker/worker_internal.h"

const char *ol_worker_tensors(const struct ol_worker *worker)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	if (!ol_worker_is_mine(worker) || !mirror->whole)
		return NULL;
	return ol_tensors_of(&worker->links[0].geo, mirror->applied[0]); /* all shards have it */
}
