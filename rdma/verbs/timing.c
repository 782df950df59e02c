/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * timing.c -- a queue pair's timers, derived from the retry timeout
 */
#include "rdma/verbs/timing.h"

#include <errno.h>
#include <stddef.h>

enum {
	ACK_CODE_MIN = 8, /* 1 ms: below it a busy host looks dead */
	ACK_CODE_MAX = 31,
	RETRY_MIN = 4,
	RETRY_MAX = 6,
	RNR_SHARE = 8, /* receiver-not-ready may take this part of the retry timeout, … */
	RNR_TOTAL_MAX_US = 62500, /* … and not longer: each try stands for as long as its timer */
	MTU_MIN_CODE = 1,
	MTU_MAX_CODE = 5,
};

/* Index: the code of a receiver-not-ready timer; 0 is the longest and is left out by the search. */
static const uint32_t rnr_timer_us[32] = {
	655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,    320,
	480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
	20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

uint64_t ol_verbs_ack_us(unsigned code)
{
	return (UINT64_C(4096) << code) / 1000;
}

struct ol_verbs_timing ol_verbs_timing(uint32_t retry_timeout_ms)
{
	const uint64_t limit_us = (uint64_t)retry_timeout_ms * 1000;
	struct ol_verbs_timing timing = {
		.ack_timeout = ACK_CODE_MIN,
		.retry_count = RETRY_MIN,
		.rnr_timer = 1,
		.rnr_retry_count = RETRY_MAX,
	};
	const uint64_t rnr_us = limit_us / RNR_SHARE;
	uint64_t best_us = 0;

	for (uint8_t retry = RETRY_MAX; retry >= RETRY_MIN; retry--) {
		for (uint8_t code = ACK_CODE_MIN; code <= ACK_CODE_MAX; code++) {
			uint64_t total_us = ol_verbs_ack_us(code) * (retry + 1u);

			if (total_us > limit_us || total_us <= best_us)
				continue;
			best_us = total_us;
			timing.ack_timeout = code;
			timing.retry_count = retry;
		}
	}
	for (uint8_t code = 1; code < sizeof(rnr_timer_us) / sizeof(rnr_timer_us[0]); code++) {
		if ((uint64_t)rnr_timer_us[code] * (RETRY_MAX + 1) <=
		    (rnr_us < RNR_TOTAL_MAX_US ? rnr_us : RNR_TOTAL_MAX_US))
			timing.rnr_timer = code;
	}
	return timing;
}

int ol_verbs_timing_set(struct ol_verbs_timing *timing, const struct ol_xport_wire *wire)
{
	if (wire->ack_timeout > ACK_CODE_MAX || wire->retries > RETRY_MAX ||
	    wire->rnr_timer >= sizeof(rnr_timer_us) / sizeof(rnr_timer_us[0]) ||
	    wire->rnr_retries > RETRY_MAX)
		return -EINVAL;
	if (wire->ack_timeout != 0)
		timing->ack_timeout = (uint8_t)wire->ack_timeout;
	if (wire->retries != 0)
		timing->retry_count = (uint8_t)wire->retries;
	if (wire->rnr_timer != 0)
		timing->rnr_timer = (uint8_t)wire->rnr_timer;
	if (wire->rnr_retries != 0)
		timing->rnr_retry_count = (uint8_t)wire->rnr_retries;
	return 0;
}

uint64_t ol_verbs_silence_ms(const struct ol_verbs_timing *timing)
{
	return ol_verbs_ack_us(timing->ack_timeout) * (timing->retry_count + 1u) / 1000;
}

uint32_t ol_verbs_rnr_us(unsigned code)
{
	return rnr_timer_us[code % (sizeof(rnr_timer_us) / sizeof(rnr_timer_us[0]))];
}

uint32_t ol_verbs_mtu_bytes(unsigned code)
{
	return code >= MTU_MIN_CODE && code <= MTU_MAX_CODE ? 128u << code : 0;
}

unsigned ol_verbs_mtu_code(uint32_t bytes)
{
	for (unsigned code = MTU_MIN_CODE; code <= MTU_MAX_CODE; code++) {
		if (ol_verbs_mtu_bytes(code) == bytes)
			return code;
	}
	return 0;
}

int ol_xport_wire_fill(uint32_t retry_timeout_ms, struct ol_xport_wire *wire)
{
	struct ol_verbs_timing timing = ol_verbs_timing(retry_timeout_ms);
	int rc = ol_verbs_timing_set(&timing, wire);

	if (rc != 0)
		return rc;
	wire->ack_timeout = timing.ack_timeout;
	wire->retries = timing.retry_count;
	wire->rnr_timer = timing.rnr_timer;
	wire->rnr_retries = timing.rnr_retry_count;
	return 0;
}
