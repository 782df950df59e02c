/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * usage.c -- processor time and memory of a process
 */
#include "cmd/usage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int ol_usage_read(pid_t pid, struct ol_usage *ret_usage)
{
	struct timespec time;
	uint64_t size, resident;
	clockid_t clock;
	char path[64];
	FILE *in;
	int got;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	in = fopen(path, "re");
	if (in == NULL)
		return -errno;
	got = fscanf(in, "%" SCNu64 " %" SCNu64, &size, &resident);
	fclose(in);
	if (got != 2)
		return -ESRCH;
	*ret_usage = (struct ol_usage){
		.cpu_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec,
		.rss_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE),
	};
	return 0;
}
