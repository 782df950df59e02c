/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * replay.c -- main() of a fuzz target without libFuzzer: run every file of the named folders
 *
 * No saved input may crash the target or cause a sanitizer's report. An empty corpus is a failure,
 * as it would check nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fuzz.h"

enum {
	INPUT_MAX = 1 << 20
};

/* The input gets a block of its own size, so that ASan sees a read past its end. */
static int replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *whole, *exact;
	size_t bytes;

	if (file == NULL) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -errno;
	}
	whole = malloc(INPUT_MAX);
	if (whole == NULL)
		abort();
	bytes = fread(whole, 1, INPUT_MAX, file);
	fclose(file);
	exact = malloc(bytes);
	if (exact == NULL && bytes > 0)
		abort();
	if (bytes > 0)
		memcpy(exact, whole, bytes);
	free(whole);

	fprintf(stderr, "%s: %zu bytes\n", path, bytes); /* names the culprit of a crash */
	LLVMFuzzerTestOneInput(exact, bytes);
	free(exact);
	return 0;
}

static int replay_dir(const char *dir_path, unsigned *count)
{
	DIR *dir = opendir(dir_path);
	struct dirent *entry;
	char path[4096];
	int rc = 0;

	if (dir == NULL) {
		fprintf(stderr, "%s: %s\n", dir_path, strerror(errno));
		return -errno;
	}
	while (rc == 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir_path, entry->d_name);
		rc = replay_file(path);
		(*count)++;
	}
	closedir(dir);
	return rc;
}

int main(int argc, char **argv)
{
	unsigned count = 0;

	for (int i = 1; i < argc; i++) {
		if (replay_dir(argv[i], &count) != 0)
			return 1;
	}
	printf("%u inputs replayed\n", count);
	return count > 0 ? 0 : 1;
}
