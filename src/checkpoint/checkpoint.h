/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * checkpoint.h -- a shard's snapshot in a file that survives its server
 *
 * A file holds one whole snapshot (wire/layout.h: table, weights, optimizer state), is written
 * under a temporary name, made durable and renamed: under its own name there is only ever a whole
 * one. What disk and time do to it afterwards the checksums tell: a header with a CRC32C, and a
 * CRC32C of every block. A torn, truncated, foreign or flipped file is refused with a line in the
 * log that names file and block, and the next older one is used.
 *
 * A running checkpoint is one file that is written in place, some blocks at a time, each in two
 * alternating copies (README.md).
 */
#ifndef OL_CHECKPOINT_CHECKPOINT_H
#define OL_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/blocks.h"
#include "wire/layout.h"

enum {
	OL_CKPT_BLOCK_BYTES = 65536,
	OL_CKPT_DIR_MAX = 3072, /* bytes of a folder's name with its end */
};

struct ol_ckpt_owner;

/* What a checkpoint is of. */
struct ol_ckpt_meta {
	struct ol_geometry geo; /* window and consistency do not matter to a checkpoint */
	uint64_t job_id;
	uint64_t version;
	uint32_t epoch;
	uint32_t optimizer; /* enum ol_optimizer */
	const struct ol_ckpt_owner *owner; /* a writer's own; NULL: nobody else can be there */
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
 * workers_max would forget), -errno of the folder, or of the newest: it cannot be opened or read
 * (-EIO, -EACCES, -EMFILE, -ENOMEM …), may be whole, and no older one is taken in its place
 */
int ol_ckpt_read_newest(const char *dir, struct ol_ckpt_meta *meta, void *content);

/*
 * ol_ckpt_read_until -- the same, of those whose version is not above `newest`
 *
 * OL_E_NO_CHECKPOINT also if all that there are are newer.
 */
int ol_ckpt_read_until(const char *dir, uint64_t newest, struct ol_ckpt_meta *meta, void *content);

/*
 * ol_ckpt_read_running -- the newest running checkpoint of this shard and job in dir, if that is
 * newer, by (epoch, version), than `floor` (NULL: any is)
 *
 * Of each block the newest whole copy that is not newer than the table; version and table are the
 * table's, so that a block may lack updates which the table has, and never has one that it has not.
 * A file of which that cannot be made, as the disk has damaged it, is not used. meta, content and
 * logging as in ol_ckpt_read_newest(), which says what is wrong with the folder itself. blocks:
 * those it was written with.
 *
 * Errors: as ol_ckpt_read_newest(); -ENOENT also if it is not newer
 */
int ol_ckpt_read_running(const char *dir, const struct ol_ckpt_blocks *blocks,
			 const struct ol_ckpt_meta *floor, struct ol_ckpt_meta *meta,
			 void *content);

/*
 * Which blocks a running checkpoint saves next: distance is how far each has moved since it was
 * saved (Euclidean norm of the weights); chosen has room for all, ascending. Called by the writer's
 * thread. Returns how many.
 */
typedef uint32_t ol_ckpt_choose_fn(void *arg, const double *distance, uint32_t *chosen);

/* How a writer keeps a running checkpoint. */
struct ol_ckpt_running_opts {
	const struct ol_ckpt_blocks *blocks; /* stay as they are until stop */
	ol_ckpt_choose_fn *choose;
	void *choose_arg;
	bool measure; /* false: distance is NULL */
};

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
	uint64_t bytes; /* written */
	uint64_t duration_ns; /* from begin() until durable */
	uint64_t copy_ns; /* of that, the thread's, until the content could change: measuring,
			     choosing, copying */
	uint32_t blocks; /* of a running one, saved */
	bool whole; /* everything of its version is in it */
	char err[512];
};

/*
 * ol_ckpt_writer_start -- dir is made if it is not there (one level)
 * meta: as of every checkpoint but for version and epoch
 * Errors: -errno of the folder or thread, -ENOMEM (its copy), with a line in err
 */
int ol_ckpt_writer_start(const char *dir, const struct ol_ckpt_meta *meta, uint32_t keep,
			 struct ol_ckpt_writer **ret_writer, char *err, size_t err_bytes);

/*
 * ol_ckpt_writer_start_running -- the same, of a running checkpoint
 *
 * The first begin(), and the one after a failure, makes the file anew with all blocks; the others
 * write in place what is chosen.
 */
int ol_ckpt_writer_start_running(const char *dir, const struct ol_ckpt_meta *meta,
				 const struct ol_ckpt_running_opts *opts,
				 struct ol_ckpt_writer **ret_writer, char *err, size_t err_bytes);

/* ol_ckpt_writer_begin -- false: it is not idle. Never blocks, whatever the disk does. */
bool ol_ckpt_writer_begin(struct ol_ckpt_writer *writer, const void *content, uint64_t version,
			  uint32_t epoch);

/* ol_ckpt_writer_begin_whole -- the same; of a running checkpoint all blocks are saved */
bool ol_ckpt_writer_begin_whole(struct ol_ckpt_writer *writer, const void *content,
				uint64_t version, uint32_t epoch);

/* ol_ckpt_writer_poll -- DONE once for each begin(), with the result; never blocks */
enum ol_ckpt_state ol_ckpt_writer_poll(struct ol_ckpt_writer *writer,
				       struct ol_ckpt_result *ret_result);

/* ol_ckpt_writer_wait -- until it is not busy: the state is IDLE or DONE */
void ol_ckpt_writer_wait(struct ol_ckpt_writer *writer);

/* ol_ckpt_writer_stop -- wait for what is being written, end the thread; NULL is fine */
void ol_ckpt_writer_stop(struct ol_ckpt_writer *writer);

#endif /* OL_CHECKPOINT_CHECKPOINT_H */
