/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * usage.h -- processor time and memory of a process, as the kernel counts them
 */
#ifndef CMD_USAGE_H
#define CMD_USAGE_H

#include <stdint.h>
#include <sys/types.h>

struct ol_usage {
	uint64_t cpu_ns; /* of all its threads, user and system, so far */
	uint64_t rss_bytes; /* resident, memory shared with others included */
};

/* ol_usage_read -- -errno: no such process, or it has ended */
int ol_usage_read(pid_t pid, struct ol_usage *ret_usage);

#endif /* CMD_USAGE_H */
