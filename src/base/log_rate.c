/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * log_rate.c -- the window, and the line at its end
 *
 * rdma/rate.c has the same for transports, which know no log but their opener's.
 */
#include "base/log_rate.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

static uint64_t window_ns(const struct ol_log_rate *rate)
{
	return OL_LOG_RATE_MS * OL_NS_PER_MS << rate->doublings;
}

void ol_log_rate_tick(struct ol_log_rate *rate, uint64_t now_ns)
{
	/* a caller's time may be older than the window: it read the clock before a line came */
	if (rate->told == 0 || now_ns < rate->since_ns + window_ns(rate))
		return;
	rate->told = 0;
	if (rate->untold == 0) {
		rate->doublings = 0;
		return;
	}
	rate->doublings += rate->doublings < OL_LOG_RATE_DOUBLINGS;
	ol_log(rate->level, "%llu more of these in %.1f s: %s", (unsigned long long)rate->untold,
	       (double)(now_ns - rate->since_ns) / 1e9, rate->like);
	rate->untold = 0;
}

/* After a calm as long as the window before it is short again */
static void window_begin(struct ol_log_rate *rate, uint64_t now_ns)
{
	if (now_ns > rate->since_ns + 2 * window_ns(rate))
		rate->doublings = 0;
	rate->since_ns = now_ns;
}

void ol_log_rated(struct ol_log_rate *rate, uint64_t now_ns, enum ol_log_level level,
		  const char *format, ...)
{
	const uint32_t max = rate->lines_max != 0 ? rate->lines_max : OL_LOG_RATE_STRANGER;
	char text[OL_LOG_LINE_MAX];
	va_list args;

	if (level > ol_log_level_get())
		return;
	ol_log_rate_tick(rate, now_ns);
	if (level < OL_LOG_DEBUG && rate->told >= max) {
		if (rate->untold++ != 0)
			return;
		rate->level = level;
		va_start(args, format);
		vsnprintf(rate->like, sizeof(rate->like), format, args);
		va_end(args);
		return;
	}
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (level < OL_LOG_DEBUG && rate->told++ == 0)
		window_begin(rate, now_ns);
	ol_log(level, "%s", text);
}
