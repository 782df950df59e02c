/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * series.h -- figures as text for Prometheus: its text format 0.0.4, or OpenMetrics 1.0
 *
 * Names of counters are given with their _total, and names with their units at the end: _seconds, _bytes.
 */
#ifndef CMD_SERIES_H
#define CMD_SERIES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "outlast.h"

enum ol_series_type {
	OL_SERIES_COUNTER,
	OL_SERIES_GAUGE,
	OL_SERIES_HISTOGRAM
};

/* Where to, and in which of the two formats */
struct ol_series {
	FILE *out;
	bool open; /* OpenMetrics */
};

/* Of a series; the last one's name is NULL */
struct ol_series_label {
	const char *name, *value;
};

/* ol_series_head -- before the first series of a name */
void ol_series_head(const struct ol_series *to, const char *name, enum ol_series_type type,
		    const char *help);

/* ol_series_begin -- a series up to its last label; one of the next four ends it */
void ol_series_begin(const struct ol_series *to, const char *name,
		     const struct ol_series_label *labels);
void ol_series_label(const struct ol_series *to, const char *name, const char *value);
void ol_series_uint(const struct ol_series *to, uint64_t value);
void ol_series_seconds(const struct ol_series *to, uint64_t ns);
void ol_series_float(const struct ol_series *to, float value);

/* One of the times of a histogram */
struct ol_series_exemplar {
	const struct ol_series_label *labels; /* that say which it is */
	uint64_t ns;
	uint64_t at_ns; /* since 1970 */
};

/* ol_series_histogram -- all series of a histogram of times. exemplar: for OpenMetrics; NULL: none */
void ol_series_histogram(const struct ol_series *to, const char *name,
			 const struct ol_series_label *labels, const struct ol_latency *times,
			 const struct ol_series_exemplar *exemplar);

/* ol_series_open_wanted -- whether a request of this Accept header, or NULL, asks for OpenMetrics */
bool ol_series_open_wanted(const char *accept);

/* ol_series_type -- Content-Type of the format */
const char *ol_series_type(const struct ol_series *to);

/* ol_series_end -- nothing follows */
void ol_series_end(const struct ol_series *to);

/*
 * ol_series_save -- write a file of what `write` gives, so that it is whole at any time for its readers
 *
 * Text format 0.0.4. Returns 0, or a negative errno: the file is as it was before.
 */
int ol_series_save(const char *path, void (*write)(void *arg, const struct ol_series *to),
		   void *arg);

#endif /* CMD_SERIES_H */
