/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * checkpoint.c -- checkpoints written, by the call and by the thread, and read
 *
 * A write that fails keeps the old checkpoint, and leaves no temporary file. A read gives the newest
 * or none: never an older one because descriptors or memory were short for a moment, or the disk
 * failed once.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "nth/scenarios.h"
#include "outlast_server.h"
#include "support/check.h"

enum {
	PARAMS = 40000, /* three blocks */
	KEEP = 2,
};

static char dir[128];
static uint8_t content[1 << 18];
static uint8_t back[1 << 18];
static uint64_t version; /* newest that is sure to be there */
static struct ol_ckpt_meta found;

static struct ol_ckpt_meta meta_of(uint64_t at)
{
	struct ol_ckpt_meta meta = {
		.geo = { .param_count = PARAMS,
			 .shard_count = 1,
			 .workers_max = 2,
			 .window = 2,
			 .groups = 1,
			 .consistency = OL_CONSISTENCY_ASYNC },
		.job_id = 7,
		.version = at,
		.epoch = 1,
		.optimizer = OL_OPTIMIZER_SGD,
	};

	check_ok(ol_shard_span(PARAMS, 1, 0, &meta.geo.shard_first, &meta.geo.shard_len));
	check(ol_layout_content_bytes(&meta.geo) <= sizeof(content));
	memset(content, 0, ol_layout_table_bytes(&meta.geo));
	memset(content + ol_layout_table_bytes(&meta.geo), (int)at,
	       ol_layout_vector_bytes(&meta.geo));
	return meta;
}

static void put(uint64_t at)
{
	struct ol_ckpt_meta meta = meta_of(at);
	char err[RUN_TEXT_MAX];

	check_ok(ol_ckpt_write(dir, &meta, content, KEEP, err, sizeof(err)));
	version = at;
}

/* In a folder of this run */
static void before(void)
{
	snprintf(dir, sizeof(dir), "%s/ckpt-%d", run_folder(), (int)getpid());
	check_ok(mkdir(dir, 0700));
	put(1);
	put(2);
}

static int write_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	struct ol_ckpt_meta meta = meta_of(3 + attempt);

	return ol_ckpt_write(dir, &meta, content, KEEP, text, RUN_TEXT_MAX);
}

static void folder_check(void)
{
	DIR *stream = opendir(dir);

	check(stream != NULL);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		const char *end = strrchr(entry->d_name, '-');

		if (strncmp(entry->d_name, ".lock-", 6) == 0 && end[1] == 's')
			continue; /* it stays; with a process's id behind it, it is temporary */
		if (entry->d_name[0] == '.' && strlen(entry->d_name) > 2) /* a temporary name */
			run_wrong("%s is left behind", entry->d_name);
	}
	closedir(stream);
}

/* What was written is there; after a failure at least what was there before */
static void write_after(unsigned attempt, int status)
{
	struct ol_ckpt_meta meta = meta_of(0);
	int rc = ol_ckpt_read_newest(dir, &meta, back);

	if (status == 0)
		version = 3 + attempt;
	folder_check();
	if (rc != 0 || meta.version < version)
		run_wrong("newest is version %ju (%s), %ju was written", (uintmax_t)meta.version,
			  ol_status_str(rc), (uintmax_t)version);
	if (rc == 0 && back[sizeof(struct ol_snapshot_head) + 4096] != (uint8_t)meta.version)
		run_wrong("version %ju holds something else", (uintmax_t)meta.version);
}

static int writer_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	struct ol_ckpt_meta meta = meta_of(3 + attempt);
	struct ol_ckpt_result result = { .status = 0 };
	struct ol_ckpt_writer *writer;
	int rc;

	if (attempt == 0) /* one that is not there yet */
		snprintf(dir, sizeof(dir), "%s/made-%d", run_folder(), (int)getpid());
	rc = ol_ckpt_writer_start(dir, &meta, KEEP, &writer, text, RUN_TEXT_MAX);
	if (rc != 0)
		return rc;
	if (!ol_ckpt_writer_begin(writer, content, 3 + attempt, 1))
		run_wrong("a new writer is not idle");
	ol_ckpt_writer_wait(writer);
	if (ol_ckpt_writer_poll(writer, &result) != OL_CKPT_DONE)
		run_wrong("a writer that was waited for is not done");
	ol_ckpt_writer_stop(writer);
	snprintf(text, RUN_TEXT_MAX, "%s", result.err);
	return result.status;
}

static void writer_after(unsigned attempt, int status)
{
	if (status == 0)
		write_after(attempt, status);
	else if (access(dir, F_OK) == 0)
		folder_check();
}

static int read_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	int rc;

	(void)attempt;
	found = meta_of(0);
	rc = ol_ckpt_read_newest(dir, &found, back);
	if (rc != 0)
		snprintf(text, RUN_TEXT_MAX, "%s", ol_status_str(rc));
	return rc;
}

static void read_after(unsigned attempt, int status)
{
	(void)attempt;
	if (status == 0 && found.version != version)
		run_wrong("read version %ju, newest is %ju", (uintmax_t)found.version,
			  (uintmax_t)version);
	if (status == 0 && back[sizeof(struct ol_snapshot_head) + 4096] != (uint8_t)found.version)
		run_wrong("version %ju holds something else", (uintmax_t)found.version);
}

const struct run_scenario nth_checkpoint_write = {
	.name = "checkpoint-write", .before = before, .run = write_run, .after = write_after
};
const struct run_scenario nth_checkpoint_writer = { .name = "checkpoint-writer",
						    .run = writer_run,
						    .after = writer_after };
const struct run_scenario nth_checkpoint_read = {
	.name = "checkpoint-read", .before = before, .run = read_run, .after = read_after
};
