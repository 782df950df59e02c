/* SPDX-License-Identifier: BSD-3-Clause */

/* times.c -- histograms of how long pushes and pulls take */

#include "worker/times.h"

#include <errno.h>

#include "base/clock.h"
#include "base/hist.h"
#include "base/sized.h"
#include "worker/worker_internal.h"

uint64_t ol_sampler_begin(struct ol_sampler *sampler)
{
	const uint64_t now_ns = ol_clock_measure_ns();
	const bool fast =
		now_ns - sampler->last_ns < sampler->each * OL_TIMES_FAST_US * OL_NS_PER_US;

	sampler->last_ns = now_ns;
	sampler->each = fast ? OL_TIMES_EACH : 1;
	sampler->left = sampler->each - 1;
	return now_ns;
}

/* How long ago that was, at an event that is being handled */
static uint64_t since(const struct ol_worker *worker, uint64_t begun_ns)
{
	/* with END no poll looks at the clock */
	const uint64_t now_ns =
		worker->opts.outage == OL_OUTAGE_END ? ol_clock_measure_ns() : worker->now_ns;

	return now_ns > begun_ns ? now_ns - begun_ns : 0;
}

void ol_times_push(struct ol_link *link, const struct ol_grad *grad)
{
	ol_hist_add(&link->times.push, since(link->worker, grad->begun_ns));
}

void ol_times_read(struct ol_link *link)
{
	link->read_took_ns = since(link->worker, link->worker->pull_begun_ns);
}

void ol_times_pull(struct ol_link *link)
{
	ol_hist_add(&link->times.pull, link->read_took_ns);
}

int ol_link_get_times_sized(const struct ol_worker *worker, uint32_t shard,
			    struct ol_link_times *ret_times, size_t times_bytes)
{
	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (shard >= worker->link_count)
		return -EINVAL;
	ol_sized_give(ret_times, times_bytes, &worker->links[shard].times,
		      sizeof(worker->links[shard].times));
	return 0;
}
