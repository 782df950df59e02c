/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rates.c -- log lines that peers can cause, by kind
 *
 * Nobody is woken for a line that is due: a server's loop turns for its heartbeat anyway.
 */
#include "rdma/verbs/internal.h"

#include <stdarg.h>
#include <stdio.h>

void ol_verbs_log_rated(struct ol_xport *xport, enum ol_verbs_rate kind,
			enum ol_xport_log_level level, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	ol_xport_log_rated(&xport->opts, &xport->rates[kind], ol_xport_now_ns(), level, "%s", text);
}

void ol_verbs_rates_tick(struct ol_xport *xport)
{
	for (unsigned i = 0; i < OL_VERBS_RATES; i++) {
		if (xport->rates[i].told != 0)
			ol_xport_rate_tick(&xport->opts, &xport->rates[i], ol_xport_now_ns());
	}
}
