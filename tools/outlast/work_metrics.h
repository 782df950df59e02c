/* SPDX-License-Identifier: BSD-3-Clause */

/* work_metrics.h -- what a worker counts and times, as a file of metrics for a collector on its host */
#ifndef OUTLAST_WORK_METRICS_H
#define OUTLAST_WORK_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast.h"

/* The caller sets the first five members, and leaves the others 0 */
struct work_metrics {
	const char *path; /* NULL: no file */
	const char *job;
	uint32_t worker;
	uint32_t shards;
	struct ol_worker *handle;

	uint64_t due_ns; /* it is written again */
	bool failed; /* the last time; that was said */
};

/* work_metrics_look -- write the file if it is due; called by the handle's thread now and then */
void work_metrics_look(struct work_metrics *metrics);

/* work_metrics_write -- write it now. A file that cannot be written is said once, on stderr */
void work_metrics_write(struct work_metrics *metrics);

#endif /* OUTLAST_WORK_METRICS_H */
