/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * span.c -- spans: the shards that they are made of, and the versions that a push was computed at
 *
 * A span is one or more whole shards, so that all that is promised of a push holds of a span by
 * itself: each shard has numbers of its own, and a server cannot tell a push of a span from one of
 * all.
 *
 * The base of a push. A whole push names one version, of the shard furthest behind, and the mirror
 * that has it knows the other shards' versions. That does not do for spans. Pulls of spans leave two
 * mirrors whose shard furthest behind is the same, and whose others differ. And between the pull of
 * a span and its push come pulls of the other ones, so that no mirror may have its version any more.
 * So a push of a span says the version of each shard itself, and no mirror is asked.
 */

#include <errno.h>

#include "base/sized.h"
#include "outlast_span.h"
#include "wire/bounds.h"
#include "worker/worker_internal.h"

uint64_t ol_worker_span(const struct ol_worker *worker, uint64_t first, uint64_t count)
{
	uint64_t span = 0, found = 0;

	for (uint32_t i = 0; i < worker->link_count; i++) {
		const struct ol_geometry *geo = &worker->links[i].geo;

		if (geo->shard_first != first + found || geo->shard_len > count - found)
			continue;
		span |= UINT64_C(1) << i;
		found += geo->shard_len;
	}
	return found == count ? span : 0;
}

/* The mirror whose version a gradient was computed at; NULL if neither is */
static const struct ol_mirror *mirror_find(const struct ol_worker *worker, uint64_t version)
{
	const struct ol_mirror *last = &worker->mirrors[worker->mirror];
	const struct ol_mirror *before = &worker->mirrors[1 - worker->mirror];

	if (last->whole && last->version == version)
		return last;
	return before->whole && before->version == version ? before : NULL;
}

bool ol_base_find(const struct ol_worker *worker, const struct ol_push_info *info, uint64_t span,
		  const struct ol_mirror **ret_mirror)
{
	const uint64_t *given = info->base_versions;

	if (given == NULL && span == ol_worker_all(worker)) {
		*ret_mirror = mirror_find(worker, info->base_version);
		return *ret_mirror != NULL || info->base_version == 0;
	}
	*ret_mirror = NULL;
	for (; given != NULL && span != 0; span &= span - 1) {
		if (*given++ > OL_VERSION_MAX)
			return false;
	}
	return given != NULL || info->base_version <= OL_VERSION_MAX;
}

int ol_shard_info_sized(const struct ol_worker *worker, uint32_t shard,
			struct ol_shard_info *ret_info, size_t info_bytes)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	struct ol_shard_info info;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (shard >= worker->link_count)
		return -EINVAL;
	info = (struct ol_shard_info){
		.first = worker->links[shard].geo.shard_first,
		.count = worker->links[shard].geo.shard_len,
		.version = !mirror->whole   ? 0
			   : mirror->uneven ? mirror->version
					    : mirror->versions[shard],
		.newest = worker->links[shard].version,
	};
	ol_sized_give(ret_info, info_bytes, &info, sizeof(info));
	return 0;
}
