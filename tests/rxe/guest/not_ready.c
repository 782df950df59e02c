/* SPDX-License-Identifier: BSD-3-Clause */

/* not_ready.c -- a write with immediate that finds no receive, until its queue pair gives up: the device
 * counts that */

#include <infiniband/verbs.h>

#include "support/bare.h"
#include "support/check.h"

int main(void)
{
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	struct bare_pair pair;

	bare_pair_open(&pair, 0);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	while (ibv_poll_cq(pair.cqs[0], 1, &wc) == 0)
		continue;
	check_eq(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
	return 0;
}
