/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ssp.h -- bounded staleness: a worker whose clock is ahead of the slowest one's by more than a
 * bound gives nothing until that has caught up
 *
 * A worker's clock is how many of its gradients were let through since it joined, on top of where
 * the slowest was then. With a bound of 0 all go in lock step.
 */
#ifndef OL_POLICY_SSP_H
#define OL_POLICY_SSP_H

#include <stdbool.h>
#include <stdint.h>

struct ol_ssp {
	uint32_t workers_max;
	uint32_t bound;
	uint64_t *clock; /* by worker */
};

/* ol_ssp_init -- Errors: -ENOMEM */
int ol_ssp_init(struct ol_ssp *ssp, uint32_t workers_max, uint32_t bound);
void ol_ssp_fini(struct ol_ssp *ssp);

/* ol_ssp_on_join -- present: those that are there already */
void ol_ssp_on_join(struct ol_ssp *ssp, uint32_t worker, const bool *present);
/* ol_ssp_admit -- false: not before others have caught up, or left */
bool ol_ssp_admit(struct ol_ssp *ssp, uint32_t worker, const bool *present);

#endif /* OL_POLICY_SSP_H */
