/* SPDX-License-Identifier: BSD-3-Clause */

/* host.c -- the machine: its description for a report, and which processors a run uses */

#include "bench/host.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench/baseline.h"

void bench_file_line(const char *path, char *text, size_t text_bytes)
{
	FILE *file = fopen(path, "re");

	text[0] = '\0';
	if (file == NULL)
		return;
	if (fgets(text, (int)text_bytes, file) == NULL)
		text[0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	fclose(file);
}

void bench_file_value(const char *path, const char *key, char *text, size_t text_bytes)
{
	FILE *file = fopen(path, "re");
	size_t key_len = strlen(key);
	char line[BENCH_LINE_MAX];

	text[0] = '\0';
	if (file == NULL)
		return;
	while (text[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
		const char *at = line + key_len;

		if (strncmp(line, key, key_len) != 0 || strchr(" \t:", *at) == NULL)
			continue;
		at += strspn(at, " \t:");
		snprintf(text, text_bytes, "%s", at);
		text[strcspn(text, "\n")] = '\0';
	}
	fclose(file);
}

/* The commit of a repository's HEAD, from a file or the packed list */
static void commit_read(const char *git, char *text, size_t text_bytes)
{
	char path[PATH_MAX + 2 * BENCH_LINE_MAX], line[BENCH_LINE_MAX];
	const char *ref;
	FILE *file;

	snprintf(path, sizeof(path), "%s/HEAD", git);
	bench_file_line(path, line, sizeof(line));
	if (strncmp(line, "ref: ", 5) != 0) {
		snprintf(text, text_bytes, "%s", line);
		return;
	}
	ref = line + 5;
	snprintf(path, sizeof(path), "%s/%s", git, ref);
	bench_file_line(path, text, text_bytes);
	if (text[0] != '\0')
		return;
	snprintf(path, sizeof(path), "%s/packed-refs", git);
	file = fopen(path, "re");
	if (file == NULL)
		return;
	while (fgets(path, sizeof(path), file) != NULL) {
		path[strcspn(path, "\n")] = '\0';
		if (strlen(path) > 41 && strcmp(path + 41, ref) == 0)
			snprintf(text, text_bytes, "%.40s", path);
	}
	fclose(file);
}

/* Of the source tree that holds the program; "" if there is none */
static void commit_find(char *text, size_t text_bytes)
{
	const char *root = getenv("OUTLAST_ROOT");
	char dir[PATH_MAX];
	ssize_t len;

	text[0] = '\0';
	if (root != NULL) {
		len = snprintf(dir, sizeof(dir), "%s/x", root);
	} else {
		len = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	}
	if (len < 0 || (size_t)len >= sizeof(dir))
		return;
	dir[len] = '\0';
	while (text[0] == '\0') {
		char git[PATH_MAX + 8];
		char *slash = strrchr(dir, '/');

		if (slash == NULL)
			return;
		*slash = '\0';
		snprintf(git, sizeof(git), "%s/.git", dir);
		commit_read(git, text, text_bytes);
	}
}

static void put(json_t *env, const char *key, const char *text)
{
	if (text[0] != '\0')
		json_object_set_new(env, key, json_string(text));
}

json_t *bench_env_json(void)
{
	json_t *env = json_object();
	char text[BENCH_LINE_MAX];
	struct utsname uts;
	struct tm utc;
	time_t now = time(NULL);

	if (env == NULL)
		return NULL;
	commit_find(text, sizeof(text));
	put(env, "commit", text);
	bench_file_value("/proc/cpuinfo", "model name", text, sizeof(text));
	put(env, "cpu", text);
	json_object_set_new(env, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	put(env, "vector_width", bench_isa());
	bench_file_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text,
			sizeof(text));
	put(env, "governor", text);
	bench_file_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", text,
			sizeof(text));
	put(env, "clocksource", text);
	bench_file_line("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text));
	put(env, "thp", text);
	bench_file_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", text, sizeof(text));
	put(env, "thp_shmem", text);
	bench_file_value("/proc/meminfo", "HugePages_Free", text, sizeof(text));
	put(env, "huge_pages_free", text);
	bench_file_line("/proc/loadavg", text, sizeof(text));
	put(env, "loadavg", text);
	if (uname(&uts) == 0) {
		put(env, "kernel", uts.release);
		put(env, "host", uts.nodename);
	}
	if (gmtime_r(&now, &utc) != NULL && strftime(text, sizeof(text), "%FT%TZ", &utc) > 0)
		put(env, "time", text);
	return env;
}

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

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
		 cpu);
	bench_file_line(path, line, sizeof(line));
	return line[0] != '\0' ? (int)strtol(line, NULL, 10) : cpu;
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
