/* SPDX-License-Identifier: BSD-3-Clause */

/* paths.c -- parses the back end's paths, for checks */

#include <inttypes.h>
#include <stdio.h>

#include "sim/ensemble/ensemble.h"

int ens_view_shard(const char *path)
{
	unsigned shard;
	int used = 0;

	return sscanf(path, "/outlast/job/shard%u/view%n", &shard, &used) == 1 && used > 0
		       ? (int)shard
		       : -1;
}

int ens_member_shard(const char *path, uint64_t *ret_id)
{
	unsigned shard;

	return sscanf(path, "/outlast/job/shard%u/members/%" SCNx64, &shard, ret_id) == 2
		       ? (int)shard
		       : -1;
}
