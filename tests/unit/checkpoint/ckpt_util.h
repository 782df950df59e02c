/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ckpt_util.h -- for these tests: a folder of their own, captured log lines, contents from a seed
 */
#ifndef CKPT_UTIL_H
#define CKPT_UTIL_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/format.h"
#include "outlast_server.h"
#include "support/check.h"
#include "support/folder.h"
#include "wire/bounds.h"
#include "wire/rule.h"

enum {
	CKPT_ERR = 480,
	CKPT_PATH = 512,
};

#define CKPT_JOB UINT64_C(0xfeedbeef00c0ffee)

/* What was logged since log_forget(): lines with their ends, the last ones if there are too
 * many. */
struct ckpt_log {
	char text[16384];
	unsigned lines;
};

static struct ckpt_log logged;

static inline void log_keep(void *arg, enum ol_log_level level, const char *text)
{
	size_t used;

	(void)arg;
	(void)level;
	used = strlen(logged.text);
	if (used + strlen(text) + 2 > sizeof(logged.text))
		used = 0;
	snprintf(logged.text + used, sizeof(logged.text) - used, "%s\n", text);
	logged.lines++;
}

static inline void log_forget(void)
{
	logged = (struct ckpt_log){ .lines = 0 };
}

/* dir_setup, dir_teardown -- cmocka fixtures: *state is the path of an empty folder */
static inline int dir_setup(void **state)
{
	char *dir = malloc(CKPT_PATH);

	if (dir == NULL)
		return -1;
	snprintf(dir, CKPT_PATH, "/tmp/ol-ckpt-XXXXXX");
	*state = mkdtemp(dir);
	log_forget();
	ol_log_sink_set(log_keep, NULL);
	return *state == NULL;
}

static inline int dir_teardown(void **state)
{
	int rc = folder_drop(*state);

	ol_log_sink_set(NULL, NULL);
	free(*state);
	return rc;
}

/* ckpt_test -- a test with a folder of its own */
#define ckpt_test(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)

/* meta_of -- a shard of 50,000 of 100,000 parameters under Adam: ten blocks */
static inline struct ol_ckpt_meta meta_of(uint32_t epoch, uint64_t version)
{
	struct ol_ckpt_meta meta = {
		.geo = { .param_count = 100000,
			 .shard = 1,
			 .shard_count = 2,
			 .workers_max = 7,
			 .window = 2,
			 .groups = 1,
			 .state_vectors = 2,
			 .consistency = OL_CONSISTENCY_ASYNC },
		.job_id = CKPT_JOB,
		.version = version,
		.epoch = epoch,
		.optimizer = OL_OPTIMIZER_ADAM,
	};

	check_ok(ol_shard_span(meta.geo.param_count, meta.geo.shard_count, meta.geo.shard,
			       &meta.geo.shard_first, &meta.geo.shard_len));
	return meta;
}

/* table_bound -- turn random bytes into a head and a table within their bounds; all have pushed */
static inline void table_bound(uint8_t *content, const struct ol_geometry *geo)
{
	uint8_t *rule_at = content + ol_layout_rule_off(geo);
	struct ol_snapshot_head head;
	struct ol_applied applied;
	struct ol_rule rule = { .group_count = 1 };

	memcpy(&rule.version, rule_at, sizeof(rule.version));
	rule.version = (rule.version & OL_VERSION_MAX) | 1;
	rule.groups[0].lr = 0.5f;
	rule.groups[0].epsilon = 1.0f;
	memset(rule_at, 0, ol_layout_rule_bytes(geo));
	memcpy(rule_at, &rule, ol_rule_bytes_used(&rule));
	memcpy(&head, content, sizeof(head));
	head.optimizer_steps &= OL_VERSION_MAX;
	memcpy(content, &head, sizeof(head));
	for (uint32_t i = 0; i < geo->workers_max; i++) {
		uint8_t *at = content + sizeof(head) + i * sizeof(applied);

		memcpy(&applied, at, sizeof(applied));
		applied.seq =
			ol_seq_make(ol_seq_tag(applied.seq) | 1, (applied.seq & 0xffffff) + 1);
		applied.grads &= OL_GRADS_MAX;
		applied.earlier &= applied.grads;
		memcpy(at, &applied, sizeof(applied));
	}
}

/*
 * content_fill -- bytes that depend on seed and place, such as a server can have: every worker has
 * pushed, and every float is finite
 */
static inline void content_fill(uint8_t *content, const struct ol_geometry *geo, uint64_t seed)
{
	uint64_t bytes = ol_layout_content_bytes(geo), x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

	for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t word;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		word = i < ol_layout_table_bytes(geo) ? x : x & UINT64_C(0xbfffffffbfffffff);
		memcpy(content + i, &word, sizeof(word));
	}
	table_bound(content, geo);
}

static inline uint8_t *content_of(const struct ol_geometry *geo, uint64_t seed)
{
	uint8_t *content = malloc(ol_layout_content_bytes(geo));

	check(content != NULL);
	content_fill(content, geo, seed);
	return content;
}

/* content_is -- false if a byte is not the one of that seed */
static inline bool content_is(const uint8_t *content, const struct ol_geometry *geo, uint64_t seed)
{
	uint8_t *want = content_of(geo, seed);
	bool same = memcmp(content, want, ol_layout_content_bytes(geo)) == 0;

	free(want);
	return same;
}

/* put -- write one with content of seed `version`; must work */
static inline void put(const char *dir, const struct ol_ckpt_meta *meta, uint32_t keep)
{
	uint8_t *content = content_of(&meta->geo, meta->version);
	char err[CKPT_ERR] = "";
	int rc = ol_ckpt_write(dir, meta, content, keep, err, sizeof(err));

	free(content);
	check_msg(rc == 0, "write: %d: %s", rc, err);
}

/*
 * newest -- read; returns the code. What is read must be whole: the content of the seed that its
 * version says. What is not must leave content and meta alone.
 */
static inline int newest(const char *dir, struct ol_ckpt_meta *meta)
{
	struct ol_ckpt_meta before = *meta;
	uint64_t bytes = ol_layout_content_bytes(&meta->geo);
	uint8_t *content = malloc(bytes);
	int rc;

	check(content != NULL);
	memset(content, 0x5a, bytes);
	rc = ol_ckpt_read_newest(dir, meta, content);
	if (rc == 0) {
		check_msg(content_is(content, &meta->geo, meta->version),
			  "content is not that of version %ju", (uintmax_t)meta->version);
	} else {
		for (uint64_t i = 0; i < bytes; i++)
			check(content[i] == 0x5a);
		check(memcmp(meta, &before, sizeof(before)) == 0);
	}
	free(content);
	return rc;
}

static inline void path_of(const char *dir, const struct ol_ckpt_meta *meta, char path[CKPT_PATH])
{
	struct ol_ckpt_name name = ol_ckpt_name_of(meta);
	char text[OL_CKPT_NAME_MAX];

	ol_ckpt_name_format(&name, text);
	snprintf(path, CKPT_PATH, "%.400s/%s", dir, text);
}

static inline bool is_there(const char *dir, const struct ol_ckpt_meta *meta)
{
	char path[CKPT_PATH];

	path_of(dir, meta, path);
	return access(path, F_OK) == 0;
}

/* lock_drop -- the lock file of a shard's checkpoints, so that the folder is empty */
static inline void lock_drop(const char *dir, const struct ol_ckpt_meta *meta)
{
	char path[CKPT_PATH + 64];

	snprintf(path, sizeof(path), "%s/.lock-ckpt-%016" PRIx64 "-s%" PRIu32, dir, meta->job_id,
		 meta->geo.shard);
	check_ok(unlink(path));
}

/* files_in -- how many there are but for lock files, and how many of them begin with a dot */
static inline unsigned files_in(const char *dir, unsigned *ret_dotted)
{
	unsigned count = 0, dotted = 0;
	struct dirent *entry;
	DIR *stream = opendir(dir);

	check(stream != NULL);
	while ((entry = readdir(stream)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    strncmp(entry->d_name, ".lock-", 6) == 0)
			continue;
		count++;
		dotted += entry->d_name[0] == '.';
	}
	closedir(stream);
	*ret_dotted = dotted;
	return count;
}

/* flip -- one bit of a file, in place */
static inline void flip(int fd, uint64_t off, unsigned bit)
{
	uint8_t byte;

	check_eq(pread(fd, &byte, 1, (off_t)off), 1);
	byte ^= (uint8_t)(1u << bit);
	check_eq(pwrite(fd, &byte, 1, (off_t)off), 1);
}

#endif /* CKPT_UTIL_H */
