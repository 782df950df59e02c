/* SPDX-License-Identifier: BSD-3-Clause */

/* layout.c -- how a job's vector is cut into shards, and which geometries are valid */

#include "wire/layout.h"

#include <errno.h>

#include "outlast_server.h"
#include "outlast_tensor.h"
#include "wire/tensor.h"

/* Shards are whole blocks of OL_SHARD_ALIGN floats, of equal number; the first may have one more. */
int ol_shard_span(uint64_t param_count, uint32_t shard_count, uint32_t shard, uint64_t *ret_first,
		  uint64_t *ret_count)
{
	uint64_t blocks, each, more, first, end;

	if (param_count == 0 || param_count > OL_PARAM_COUNT_MAX || shard_count == 0 ||
	    shard_count > OL_SHARDS_MAX || shard >= shard_count)
		return -EINVAL;
	blocks = (param_count + OL_SHARD_ALIGN - 1) / OL_SHARD_ALIGN;
	if (blocks < shard_count)
		return -EINVAL; /* a shard would be empty */
	each = blocks / shard_count;
	more = blocks % shard_count;
	first = each * shard + (shard < more ? shard : more);
	end = first + each + (shard < more ? 1 : 0);
	first *= OL_SHARD_ALIGN;
	end *= OL_SHARD_ALIGN;
	*ret_first = first;
	*ret_count = (end < param_count ? end : param_count) - first;
	return 0;
}

int ol_geometry_check(const struct ol_geometry *geo)
{
	uint64_t first, count;

	if (ol_shard_span(geo->param_count, geo->shard_count, geo->shard, &first, &count) != 0)
		return OL_E_GEOMETRY;
	if (first != geo->shard_first || count != geo->shard_len)
		return OL_E_GEOMETRY;
	if (geo->workers_max == 0 || geo->workers_max > OL_WORKERS_MAX || geo->window == 0 ||
	    geo->window > OL_WINDOW_MAX || geo->state_vectors > OL_STATE_VECTORS_MAX ||
	    geo->groups == 0 || geo->groups > OL_RULE_GROUPS_MAX ||
	    geo->tensors_bytes > OL_TENSORS_BYTES_MAX || geo->tensors_bytes % OL_LINE_BYTES != 0 ||
	    (geo->tensors_bytes == 0 && geo->tensors_digest != 0) || geo->weights_bf16 > 1 ||
	    geo->decided > 1 || (geo->decided && geo->shard_count == 1))
		return OL_E_GEOMETRY;
	if (geo->consistency < OL_CONSISTENCY_ASYNC || geo->consistency > OL_CONSISTENCY_SSP)
		return OL_E_GEOMETRY;
	return 0;
}

const char *ol_geometry_difference(const struct ol_geometry *a, const struct ol_geometry *b)
{
	if (a->param_count != b->param_count)
		return "number of parameters";
	if (a->shard != b->shard || a->shard_count != b->shard_count)
		return "place among the shards";
	if (a->tensors_bytes != b->tensors_bytes ||
	    ol_tensors_digests_differ(a->tensors_digest, b->tensors_digest))
		return "table of tensors (names or shapes)";
	if (a->workers_max != b->workers_max)
		return "workers_max";
	if (a->window != b->window)
		return "window";
	if (a->state_vectors != b->state_vectors)
		return "optimizer";
	if (a->consistency != b->consistency)
		return "consistency";
	if (a->decided != b->decided)
		return "way to make steps (of all workers, or as shard 0 decides)";
	if (a->weights_bf16 != b->weights_bf16)
		return "word on weights as bf16";
	return a->groups != b->groups ? "number of groups of the rule" : NULL;
}
