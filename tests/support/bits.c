/* SPDX-License-Identifier: BSD-3-Clause */

/* bits.c -- what workers end with is in memory that their processes share */

#include "support/bits.h"

#include <string.h>
#include <sys/mman.h>

#include "base/sha256.h"
#include "support/check.h"
#include "support/job.h"

static char (*ends)[OL_SHA256_HEX_BYTES]; /* of the workers of this job */
static uint32_t worker_count;
static char first[OL_SHA256_HEX_BYTES]; /* "": there was no job yet */

void bits_begin(uint32_t workers)
{
	worker_count = workers;
	ends = mmap(NULL, sizeof(*ends) * workers, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(ends != MAP_FAILED);
}

struct ol_server_opts bits_opts(uint64_t params, uint32_t shards, uint32_t workers)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = params;
	opts.shard_count = shards;
	opts.workers = opts.workers_max = workers;
	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.rule.optimizer = OL_OPTIMIZER_MOMENTUM;
	opts.rule.momentum = 0.9f;
	opts.rule.lr = 0.05f;
	return opts;
}

float bits_noise(long id, uint64_t version, uint64_t i)
{
	uint32_t x = (uint32_t)(i * 2654435761u + version * 40503u + (uint64_t)id * 977u);

	x ^= x >> 15;
	return (float)(x * 2246822519u >> 20) / 4096.0f - 0.5f;
}

void bits_note(long id, const float *weights, uint64_t params)
{
	check_ok(ol_sha256_hex(weights, params * sizeof(float), ends[id]));
}

const char *bits_check(void)
{
	if (first[0] == '\0')
		memcpy(first, ends[0], sizeof(first));
	check(first[0] != '\0');
	for (uint32_t id = 0; id < worker_count; id++)
		check_msg(strcmp(ends[id], first) == 0, "worker %u ends with %s, not %s", id,
			  ends[id], first);
	memset(ends, 0, sizeof(*ends) * worker_count); /* the next job's are its own */
	return first;
}
