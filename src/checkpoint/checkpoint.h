/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * checkpoint.h -- a shard's snapshot in a file that survives its server
 *
 * A file holds one whole snapshot (wire/layout.h: table, weights, optimizer state), is written
 * under a temporary name, made durable and renamed: under its own name there is only ever a whole
 * one. What disk and time do to it afterwards the checksums tell: a header with a CRC32C, and a
 * CRC32C of every block. A torn, truncated, foreign or flipped file is refused with a line in the
 * log that names file and block, and the next older one is used.
 */
#ifndef OL_CHECKPOINT_CHECKPOINT_H
#define OL_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/layout.h"

enum {
	OL_CKPT_BLOCK_BYTES = 65536,
	OL_CKPT_DIR_MAX = 3072, /* bytes of a folder's name with its end */
};

/* What a checkpoint is of. */
struct ol_ckpt_meta {
	struct ol_geometry geo; /* window and consistency do not matter to a checkpoint */
	uint64_t job_id;
	uint64_t version;
	uint32_t epoch;
	uint32_t optimizer; /* enum ol_optimizer */
};

/*
 * ol_ckpt_write -- write content (ol_layout_content_bytes()) into dir, then drop all but the last
 * `keep` of this shard and job
 *
 * Blocks:    until it is durable
 * Threading: one writer a shard and folder
 * Errors:    -errno (-ENOSPC, -EROFS, -EACCES, …), with one line in err that names the file;
 *            whatever was there before is still there, and no temporary file is left behind
 */
int ol_ckpt_write(const char *dir, const struct ol_ckpt_meta *meta, const void *content,
		  uint32_t keep, char *err, size_t err_bytes);

/*
 * ol_ckpt_read_newest -- the newest whole checkpoint of this shard and job in dir
 *
 * meta: in geometry, job and optimizer wanted; out version and epoch. workers_max may differ from
 * the file's, unless that would forget a worker. content: ol_layout_content_bytes(&meta->geo),
 * written only on success. Every file passed over is logged with the reason.
 *
 * Newest: by (epoch, version). Errors: -ENOENT (none of this shard at all), OL_E_NO_CHECKPOINT
 * (there are, but none is whole and of this job), OL_E_GEOMETRY (the newest holds workers that
 * workers_max would forget), -errno of the folder, -ENOMEM
 */
int ol_ckpt_read_newest(const char *dir, struct ol_ckpt_meta *meta, void *content);

/* A thread that writes one checkpoint at a time. */
struct ol_ckpt_writer;

enum ol_ckpt_state {
	OL_CKPT_IDLE, /* nothing to do */
	OL_CKPT_COPYING, /* the content given to begin() must not change yet */
	OL_CKPT_WRITING, /* it may: the writer has its own copy */
	OL_CKPT_DONE, /* the result has not been fetched */
};

struct ol_ckpt_result {
	int status; /* of ol_ckpt_write() */
	uint64_t version;
	uint64_t bytes;
	uint64_t duration_ns; /* from begin() until durable */
	char err[512];
};

/*
 * ol_ckpt_writer_start -- dir is made if it is not there (one level)
 * meta: as of every checkpoint but for version and epoch
 * Errors: -errno of the folder or thread, -ENOMEM (its copy), with a line in err
 */
int ol_ckpt_writer_start(const char *dir, const struct ol_ckpt_meta *meta, uint32_t keep,
			 struct ol_ckpt_writer **ret_writer, char *err, size_t err_bytes);

/* ol_ckpt_writer_begin -- false: it is not idle. Never blocks, whatever the disk does. */
bool ol_ckpt_writer_begin(struct ol_ckpt_writer *writer, const void *content, uint64_t version,
			  uint32_t epoch);

/* ol_ckpt_writer_poll -- DONE once for each begin(), with the result; never blocks */
enum ol_ckpt_state ol_ckpt_writer_poll(struct ol_ckpt_writer *writer,
				       struct ol_ckpt_result *ret_result);

/* ol_ckpt_writer_wait -- until it is not busy: the state is IDLE or DONE */
void ol_ckpt_writer_wait(struct ol_ckpt_writer *writer);

/* ol_ckpt_writer_stop -- wait for what is being written, end the thread; NULL is fine */
void ol_ckpt_writer_stop(struct ol_ckpt_writer *writer);

#endif /* OL_CHECKPOINT_CHECKPOINT_H */
