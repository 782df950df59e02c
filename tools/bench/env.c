/* SPDX-License-Identifier: BSD-3-Clause */

/* env.c -- the machine's description for a report */

#include "bench/env.h"

#include <limits.h>
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

void bench_env_commit(char *text, size_t text_bytes)
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
	bench_env_commit(text, sizeof(text));
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
