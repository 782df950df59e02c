/* SPDX-License-Identifier: BSD-3-Clause */

/* ssp.c -- clocks of workers */

#include "policy/ssp.h"

#include <errno.h>
#include <stdlib.h>

int ol_ssp_init(struct ol_ssp *ssp, uint32_t workers_max, uint32_t bound)
{
	*ssp = (struct ol_ssp){
		.workers_max = workers_max,
		.bound = bound,
		.clock = calloc(workers_max, sizeof(*ssp->clock)),
	};
	return ssp->clock == NULL ? -ENOMEM : 0;
}

void ol_ssp_fini(struct ol_ssp *ssp)
{
	free(ssp->clock);
	ssp->clock = NULL;
}

/* The slowest clock but for one worker's own; that one's, if nobody else is there */
static uint64_t slowest(const struct ol_ssp *ssp, uint32_t worker, const bool *present)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < ssp->workers_max; i++) {
		if (i != worker && present[i] && ssp->clock[i] < least)
			least = ssp->clock[i];
	}
	return least != UINT64_MAX ? least : ssp->clock[worker];
}

void ol_ssp_on_join(struct ol_ssp *ssp, uint32_t worker, const bool *present)
{
	ssp->clock[worker] = slowest(ssp, worker, present);
}

bool ol_ssp_admit(struct ol_ssp *ssp, uint32_t worker, const bool *present)
{
	uint64_t least = slowest(ssp, worker, present);

	if (ssp->clock[worker] >= least && ssp->clock[worker] - least > ssp->bound)
		return false;
	ssp->clock[worker]++;
	return true;
}
