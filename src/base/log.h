/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * log.h -- one line for people, at a level
 *
 * The function that decides that something is an error logs it, once, naming the object; its callers
 * return the code silently. Lower case, no newline. Never in a data path.
 */
#ifndef OL_BASE_LOG_H
#define OL_BASE_LOG_H

#include <stdatomic.h>

#include "outlast.h"

enum {
	OL_LOG_LINE_MAX = 1024 /* bytes of a line with its end; the rest is cut off */
};

/* The ceiling: calls above it are compiled away. */
#ifndef OL_LOG_BUILD_MAX
#define OL_LOG_BUILD_MAX OL_LOG_DEBUG
#endif

/* The threshold; OL_LOG_INFO unless set. Read by ol_log() only: use the functions below. */
extern atomic_int ol_log_max;

/* ol_log -- the arguments after the format are evaluated only if the line is wanted */
#define ol_log(level, ...) \
	do { \
		if ((level) <= OL_LOG_BUILD_MAX && \
		    (int)(level) <= atomic_load_explicit(&ol_log_max, memory_order_relaxed)) \
			ol_log_write((level), __VA_ARGS__); \
	} while (0)

/* ol_log_level_set -- lines above level are dropped from now on; any thread, any time */
void ol_log_level_set(enum ol_log_level level);
enum ol_log_level ol_log_level_get(void);

/* ol_log_level_str -- "error", "warn", "info" or "debug" */
const char *ol_log_level_str(enum ol_log_level level);

/* ol_log_level_parse -- the level that text names; -EINVAL */
int ol_log_level_parse(const char *text, enum ol_log_level *ret_level);

/* ol_log_sink_set -- as ol_log_set(), the level stays */
void ol_log_sink_set(ol_log_fn sink, void *ctx);

/* ol_log_write -- what ol_log() calls; leaves errno as it was */
void ol_log_write(enum ol_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif /* OL_BASE_LOG_H */
