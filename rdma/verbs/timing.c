/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * timing.c -- a queue pair's timers, derived from the retry timeout
 */
#include "rdma/verbs/timing.h"

#include <stddef.h>

enum {
	ACK_CODE_MIN = 8, /* 1 ms: below it a busy host looks dead */
	ACK_CODE_MAX = 31,
	RETRY_MIN = 4,
	RETRY_MAX = 6,
	RNR_SHARE = 8, /* receiver-not-ready may take this part of the retry timeout */
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
		if ((uint64_t)rnr_timer_us[code] * (RETRY_MAX + 1) <= limit_us / RNR_SHARE)
			timing.rnr_timer = code;
	}
	return timing;
}
