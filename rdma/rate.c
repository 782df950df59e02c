/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rate.c -- the window, and the line at its end
 *
 * src/base/log_rate.c has the same for the rest of the library: this room includes nothing of it.
 */
#include "rdma/rate.h"

#include <stdarg.h>
#include <stdio.h>

static uint64_t window_ns(const struct ol_xport_rate *rate)
{
	return OL_XPORT_RATE_NS << rate->doublings;
}

uint64_t ol_xport_rate_due_ns(const struct ol_xport_rate *rate)
{
	return rate->untold != 0 ? rate->since_ns + window_ns(rate) : 0;
}

void ol_xport_rate_tick(const struct ol_xport_opts *opts, struct ol_xport_rate *rate,
			uint64_t now_ns)
{
	/* a caller's time may be older than the window: it read the clock before a line came */
	if (rate->told == 0 || now_ns < rate->since_ns + window_ns(rate))
		return;
	rate->told = 0;
	if (rate->untold == 0) {
		rate->doublings = 0;
		return;
	}
	rate->doublings += rate->doublings < OL_XPORT_RATE_DOUBLINGS;
	ol_xport_log(opts, rate->level, "%llu more of these in %.1f s: %s",
		     (unsigned long long)rate->untold, (double)(now_ns - rate->since_ns) / 1e9,
		     rate->like);
	rate->untold = 0;
}

void ol_xport_log_rated(const struct ol_xport_opts *opts, struct ol_xport_rate *rate,
			uint64_t now_ns, enum ol_xport_log_level level, const char *format, ...)
{
	const bool limited = level == OL_XPORT_LOG_ERROR || level == OL_XPORT_LOG_WARN;
	char text[512];
	va_list args;

	ol_xport_rate_tick(opts, rate, now_ns);
	if (limited && rate->told >= OL_XPORT_RATE_LINES && rate->untold++ != 0)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (limited && rate->untold != 0) {
		rate->level = level;
		snprintf(rate->like, sizeof(rate->like), "%.*s", (int)sizeof(rate->like) - 1, text);
		return;
	}
	if (limited && rate->told++ == 0) {
		/* after a calm as long as the window before it is short again */
		if (now_ns > rate->since_ns + 2 * window_ns(rate))
			rate->doublings = 0;
		rate->since_ns = now_ns;
	}
	ol_xport_log(opts, level, "%s", text);
}
