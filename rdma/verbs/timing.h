/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * timing.h -- a queue pair's timers, derived from the retry timeout
 */
#ifndef OL_RDMA_VERBS_TIMING_H
#define OL_RDMA_VERBS_TIMING_H

#include <stdint.h>

struct ol_verbs_timing {
	uint8_t ack_timeout; /* code: 4.096 us * 2^code */
	uint8_t retry_count; /* at most 6: 7 means for ever to some adapters */
	uint8_t rnr_timer; /* code of the InfiniBand specification's table */
	uint8_t rnr_retry_count; /* at most 6: 7 means for ever */
};

/*
 * ol_verbs_timing -- the timers with which a silent peer is noticed within retry_timeout_ms
 *
 * They are the longest with which (retry_count + 1) tries stay below it. Many short tries are
 * preferred to few long ones. An adapter may take up to four times its timer.
 */
struct ol_verbs_timing ol_verbs_timing(uint32_t retry_timeout_ms);

/* ol_verbs_ack_us -- what an ack_timeout code means, in microseconds */
uint64_t ol_verbs_ack_us(unsigned code);

#endif /* OL_RDMA_VERBS_TIMING_H */
