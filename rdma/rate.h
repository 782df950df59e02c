/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rate.h -- diagnostics of a transport that a peer can cause as often as it likes, at most some a second, and fewer as
 * it goes on
 *
 * A window begins with the first line. In a window two lines are handed to the opener's log; the
 * others are counted, and one line tells their number when it is over. It lasts for a second; after one
 * that left lines out the next lasts twice as long, up to about a minute. Levels info and debug are not
 * limited: who asks for those wants each line.
 */
#ifndef OL_RDMA_RATE_H
#define OL_RDMA_RATE_H

#include <stdint.h>

#include "rdma/transport.h"

enum {
	OL_XPORT_RATE_LINES = 2, /* of a window … */
	OL_XPORT_RATE_DOUBLINGS = 6, /* … and how often it becomes twice as long */
	OL_XPORT_RATE_LIKE_MAX = 200, /* bytes of the line that stands for those left out */
};

#define OL_XPORT_RATE_NS 1000000000ULL /* a window */

/* Lines of one kind, of one transport */
struct ol_xport_rate {
	uint32_t told; /* lines of this window that were handed on */
	uint64_t untold; /* lines of this window that were not */
	uint64_t since_ns; /* the window began; told is 0: there is none */
	uint32_t doublings; /* of its length: windows before it left lines out */
	enum ol_xport_log_level level; /* of the first line that was left out */
	char like[OL_XPORT_RATE_LIKE_MAX]; /* its text, to say what the others are like */
};

/* ol_xport_log_rated -- as ol_xport_log(), if the window has room; else the line is counted */
void ol_xport_log_rated(const struct ol_xport_opts *opts, struct ol_xport_rate *rate,
			uint64_t now_ns, enum ol_xport_log_level level, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* ol_xport_rate_tick -- if the window is over: one line with the number of those left out, if any */
void ol_xport_rate_tick(const struct ol_xport_opts *opts, struct ol_xport_rate *rate,
			uint64_t now_ns);

/* ol_xport_rate_due_ns -- when that line is due; 0: nothing was left out */
uint64_t ol_xport_rate_due_ns(const struct ol_xport_rate *rate);

#endif /* OL_RDMA_RATE_H */
