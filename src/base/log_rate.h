/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * log_rate.h -- log lines that a peer can cause as often as it likes, at most some a second, and fewer as it goes on
 *
 * A window begins with the first line. In a window the first lines_max lines are written; the others
 * are counted, and one line tells their number when the window is over. It lasts for a second; after
 * one that left lines out the next lasts twice as long, up to about a minute. A line of level debug is
 * not limited: who asks for those wants each of them.
 */
#ifndef OL_BASE_LOG_RATE_H
#define OL_BASE_LOG_RATE_H

#include <stdint.h>

#include "base/log.h"

enum {
	OL_LOG_RATE_MS = 1000, /* a window … */
	OL_LOG_RATE_DOUBLINGS = 6, /* … and how often it becomes twice as long */
	OL_LOG_RATE_STRANGER = 2, /* lines of a window, where anybody can cause them */
	OL_LOG_RATE_MEMBER = 16, /* where it takes the job key; each line names another peer */
	OL_LOG_RATE_LIKE_MAX = 200, /* bytes of the line that stands for those left out */
};

/* Lines of one kind. Its owner is one thread. All is 0 at first; a lines_max may be set. */
struct ol_log_rate {
	uint32_t lines_max; /* 0: OL_LOG_RATE_STRANGER */
	uint32_t told; /* lines of this window that were written */
	uint64_t untold; /* lines of this window that were not */
	uint64_t since_ns; /* the window began; told is 0: there is none */
	uint32_t doublings; /* of its length: windows before it left lines out */
	enum ol_log_level level; /* of the first line that was left out */
	char like[OL_LOG_RATE_LIKE_MAX]; /* its text, to say what the others are like */
};

/* ol_log_rated -- as ol_log(), if the window has room; else the line is counted */
void ol_log_rated(struct ol_log_rate *rate, uint64_t now_ns, enum ol_log_level level,
		  const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * ol_log_rate_tick -- if the window is over: one line with the number of those left out, if any
 *
 * Its owner calls it several times a second, so that the number is told although nothing follows.
 */
void ol_log_rate_tick(struct ol_log_rate *rate, uint64_t now_ns);

#endif /* OL_BASE_LOG_RATE_H */
