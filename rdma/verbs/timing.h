/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * timing.h -- a queue pair's timers, derived from the retry timeout
 */
#ifndef OL_RDMA_VERBS_TIMING_H
#define OL_RDMA_VERBS_TIMING_H

#include <stdint.h>

#include "rdma/transport.h"

struct ol_verbs_timing {
	uint8_t ack_timeout; /* code: 4.096 us * 2^code */
	uint8_t retry_count; /* at most 6: some adapters take 7 for "for ever" */
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

/* ol_verbs_timing_set -- values that are not 0 replace derived ones; -EINVAL: one is impossible */
int ol_verbs_timing_set(struct ol_verbs_timing *timing, const struct ol_xport_wire *wire);

/* ol_verbs_silence_ms -- until a silent peer's connection breaks, on an adapter that keeps to it */
uint64_t ol_verbs_silence_ms(const struct ol_verbs_timing *timing);

/* ol_verbs_rnr_us -- what a code of the receiver-not-ready timer means, in microseconds */
uint32_t ol_verbs_rnr_us(unsigned code);

/* ol_verbs_mtu_bytes -- 128 << code, for IBV_MTU_256 … 4096; ol_verbs_mtu_code: the reverse, 0: none */
uint32_t ol_verbs_mtu_bytes(unsigned code);
unsigned ol_verbs_mtu_code(uint32_t bytes);

/* ol_verbs_ack_us -- what an ack_timeout code means, in microseconds */
uint64_t ol_verbs_ack_us(unsigned code);

#endif /* OL_RDMA_VERBS_TIMING_H */
