/* SPDX-License-Identifier: BSD-3-Clause */

/* pin.c -- chooses the processors for the two ends of a run */

#include "bench/pin.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int bench_cpus_allowed(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 1;
	return CPU_COUNT(&set);
}

/* The core of cpu, named by its first sibling: the same number for both threads of a core */
static int core_of(int cpu)
{
	char path[96], line[64];
	FILE *file;
	int core = cpu;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
		 cpu);
	file = fopen(path, "re");
	if (file == NULL)
		return core;
	if (fgets(line, sizeof(line), file) != NULL)
		core = (int)strtol(line, NULL, 10);
	fclose(file);
	return core;
}

static void choose(struct bench_pins *pins)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET((size_t)cpu, &set))
			continue;
		if (pins->client == BENCH_CPU_ANY) {
			pins->client = cpu;
			continue;
		}
		if (pins->server == BENCH_CPU_ANY || core_of(cpu) != core_of(pins->client))
			pins->server = cpu;
		if (core_of(pins->server) != core_of(pins->client))
			return;
	}
	if (pins->server == BENCH_CPU_ANY)
		pins->client = BENCH_CPU_ANY;
}

int bench_pins_choose(const char *text, struct bench_pins *ret_pins, char *err, size_t err_bytes)
{
	struct bench_pins pins = { BENCH_CPU_ANY, BENCH_CPU_ANY };
	int end = -1;

	if (strcmp(text, "auto") == 0) {
		choose(&pins);
	} else if (strcmp(text, "none") != 0 &&
		   (sscanf(text, "%d,%d%n", &pins.client, &pins.server, &end) != 2 ||
		    text[end] != '\0' || pins.client < 0 || pins.client >= CPU_SETSIZE ||
		    pins.server < 0 || pins.server >= CPU_SETSIZE)) {
		snprintf(err, err_bytes, "pin \"%.40s\": neither auto, none nor CLIENT,SERVER",
			 text);
		return -EINVAL;
	}
	*ret_pins = pins;
	return 0;
}

int bench_pin_nth(unsigned n)
{
	unsigned at = 0, count;
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return BENCH_CPU_ANY;
	count = (unsigned)CPU_COUNT(&set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET((size_t)cpu, &set) && at++ == n % count)
			return cpu;
	}
	return BENCH_CPU_ANY;
}

int bench_pin(int cpu)
{
	cpu_set_t set;

	if (cpu == BENCH_CPU_ANY)
		return 0;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0 ? 0 : -errno;
}
