/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * checkpoint.h -- a shard's snapshot in a file that survives its server
 *
 * A file holds one whole snapshot (wire/layout.h: table, weights, optimizer state). It is written
 * under a temporary name, made durable and renamed, so a file under its own name was whole. Later
 * damage is found by checksums: a CRC32C of the header, and one of every block. A torn, truncated,
 * foreign or flipped file is refused with a line in the log that names file and block, and the next
 * older one is used.
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
	OL_CKPT_WHY_MAX = 256, /* bytes of a reason with its end */
};

struct ol_ckpt_owner;

/* The identity of a checkpoint */
struct ol_ckpt_meta {
	struct ol_geometry geo; /* window and consistency do not matter to a checkpoint */
	uint64_t job_id;
	uint64_t version;
	uint32_t epoch;
	/* What mirrors call the history that the content is of (struct ol_vouched), and its epoch; 0: not said */
	uint64_t history;
	uint32_t founded;
	/* reading a full one of a chain: of epochs from of_founded to of_epoch only those are taken that are of this history, or do
	 * not say of which. Before, it may have begun with any; later, it may have gone on in others. 0: any is taken */
	uint64_t of_history;
	uint32_t of_founded;
	uint32_t of_epoch;
	uint32_t optimizer; /* enum ol_optimizer */
	bool nonfinite; /* reading: the job allows values that are not finite */
	const char *tensors; /* reading: the job's table of tensors; NULL: it has none */
	/* reading a running one: where to say which version each block is of; NULL: nobody asks */
	uint64_t *block_versions;
	const struct ol_ckpt_owner *owner; /* a writer's own; NULL: no other process writes */
};

/*
 * ol_ckpt_write -- write content (ol_layout_content_bytes()) into dir, then drop all but the last
 * `keep` of this shard and job
 *
 * Blocks:    until it is durable
 * Threading: one writer a shard and folder
 * Errors:    -errno (-ENOSPC, -EROFS, -EACCES, …), with one line in err that names the file; old
 *            checkpoints stay, and no temporary file is left behind
 */
int ol_ckpt_write(const char *dir, const struct ol_ckpt_meta *meta, const void *content,
		  uint32_t keep, char *err, size_t err_bytes);

/*
 * ol_ckpt_read_newest -- the newest whole checkpoint of this shard and job in dir
 *
 * meta: in: the wanted geometry, job and optimizer; out: version, epoch, history. workers_max may differ
 * from the file's, unless a worker would be forgotten. content: ol_layout_content_bytes(&meta->geo),
 * written only on success, and then such as a server can have had (store/content.h). Every file
 * passed over is logged with the reason.
 *
 * Newest: by (epoch, version). Errors: -ENOENT (none of this shard), OL_E_NO_CHECKPOINT (none is
 * whole and of this job), OL_E_GEOMETRY (workers_max would forget workers of the newest), -errno of
 * the folder, or of the newest if it cannot be opened or read (-EIO, -EACCES, -EMFILE, -ENOMEM …),
 * is a link (-ELOOP) or can be changed by another user (-EPERM): it may be whole, so no older one is
 * taken in its place
 */
int ol_ckpt_read_newest(const char *dir, struct ol_ckpt_meta *meta, void *content);

/* ol_ckpt_newest -- epoch and version of the newest checkpoint of meta's shard and job, by its name alone,
 * into meta. False: there is none, or the folder cannot be read */
bool ol_ckpt_newest(const char *dir, struct ol_ckpt_meta *meta);

/* ol_ckpt_is_there -- dir has any checkpoint of meta's shard and job, full or running, by its name */
bool ol_ckpt_is_there(const char *dir, const struct ol_ckpt_meta *meta);

/* ol_ckpt_newest_sound -- as ol_ckpt_newest(), of those whose header is whole and of meta's geometry, job and optimizer, and
 * whose version is not above `newest` (0: any); its history, too. What lies behind the header is not read */
bool ol_ckpt_newest_sound(const char *dir, uint64_t newest, struct ol_ckpt_meta *meta);

/*
 * ol_ckpt_tensors_bytes -- the room for a table of tensors in the newest checkpoint of meta's shard and
 * job whose header is whole, a full one before running ones; 0: there is none
 */
uint32_t ol_ckpt_tensors_bytes(const char *dir, const struct ol_ckpt_meta *meta);

/*
 * ol_ckpt_read_until -- the same, among those whose version is not above `newest`
 *
 * OL_E_NO_CHECKPOINT also if all are newer.
 */
int ol_ckpt_read_until(const char *dir, uint64_t newest, struct ol_ckpt_meta *meta, void *content);

/*
 * ol_ckpt_read_running -- the newest running checkpoint of this shard and job in dir, if that is
 * newer, by (epoch, version), than `floor` (NULL: any is)
 *
 * Each block is the newest whole copy that is not newer than the table; the version is the table's.
 * So a block may lack updates that the table has, but never has one that the table lacks. With
 * `extrapolate_by` above 0 its weights, z, go on to z + h (z - z'), z' being its older copy, if that is whole, and
 * h (version of the table - of z) / (of z - of z'), at most `extrapolate_by`, which is at most 1. A file
 * that is too damaged for that is not used. meta->block_versions, on success only: of what a block has, or
 * went on from. meta, content and logging as in ol_ckpt_read_newest(),
 * which reports errors of the folder itself. blocks: those it was written with.
 *
 * Errors: as ol_ckpt_read_newest(); -ENOENT also if it is not newer
 */
int ol_ckpt_read_running(const char *dir, const struct ol_ckpt_blocks *blocks,
			 const struct ol_ckpt_meta *floor, double extrapolate_by,
			 struct ol_ckpt_meta *meta, void *content);

/*
 * ol_ckpt_blocks_behind -- how many versions the blocks lack of `newest`, the mean over their floats, if none
 * were older than `least`
 */
double ol_ckpt_blocks_behind(const struct ol_ckpt_blocks *blocks, const uint64_t *block_versions,
			     uint64_t least, uint64_t newest);

/*
 * ol_ckpt_blocks_renew -- the blocks of `content` that are older than `version` become those of `from`, which is of that
 * version: block_versions says so then
 *
 * with_state: with their optimizer state, which else stays as old as it was. Returns how many they are.
 */
uint32_t ol_ckpt_blocks_renew(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
			      uint64_t *block_versions, const void *from, uint64_t version,
			      bool with_state, void *content);

/*
 * Choose the blocks that a running checkpoint saves next. distance: how far each has moved since it
 * was saved (Euclidean norm of the weights); chosen: has room for all, ascending. Returns how many.
 * Called by the writer's thread.
 */
typedef uint32_t ol_ckpt_choose_fn(void *arg, const double *distance, uint32_t *chosen);

/* How a writer keeps a running checkpoint. */
struct ol_ckpt_running_opts {
	const struct ol_ckpt_blocks *blocks; /* unchanged until stop */
	ol_ckpt_choose_fn *choose;
	void *choose_arg;
	bool measure; /* false: distance is NULL */
	enum ol_format format; /* FP32: blocks as they are; INT8: deltas (deltas.h), with … */
	double fraction; /* … the part of the floats whose bytes a turn may have, … */
	/* … and a choice of the blocks that it has in full, each in turn; no distances */
	ol_ckpt_choose_fn *renew;
	void *renew_arg;
};

/*
 * ol_ckpt_deltas_shares -- the parts of the floats that a turn of deltas codes and has in full, so that it
 * has as many bytes as the part `fraction` has as it is
 */
void ol_ckpt_deltas_shares(double fraction, uint32_t state_vectors, double *ret_coded,
			   double *ret_full);

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
	uint64_t copy_ns; /* of that, the time until the content could change: measuring, choosing,
			     copying */
	uint32_t blocks; /* of a running one, saved */
	bool whole; /* all its blocks are of its version */
	char err[512];
};

/*
 * ol_ckpt_writer_start -- start a writer; dir is made if it does not exist (one level)
 * meta: of every checkpoint, except version and epoch
 * Errors: -errno of the folder or thread, -ENOMEM (its copy), with a line in err
 */
int ol_ckpt_writer_start(const char *dir, const struct ol_ckpt_meta *meta, uint32_t keep,
			 struct ol_ckpt_writer **ret_writer, char *err, size_t err_bytes);

/*
 * ol_ckpt_writer_start_shared -- the same for a replica of a chain
 *
 * The replicas may have one folder. Which of them writes is for the chain's views to say; the folder is
 * taken by the thread, with each checkpoint if need be, so that begin() and a change of views wait for no
 * disk. The last that took it has it: a replica that was in mid-write takes it again and writes anew.
 */
int ol_ckpt_writer_start_shared(const char *dir, const struct ol_ckpt_meta *meta, uint32_t keep,
				struct ol_ckpt_writer **ret_writer, char *err, size_t err_bytes);

/*
 * ol_ckpt_writer_start_running -- the same for a running checkpoint
 *
 * The first begin(), and the one after a failure, makes the file anew with all blocks; the others
 * write the chosen blocks in place.
 */
int ol_ckpt_writer_start_running(const char *dir, const struct ol_ckpt_meta *meta,
				 const struct ol_ckpt_running_opts *opts,
				 struct ol_ckpt_writer **ret_writer, char *err, size_t err_bytes);

/* ol_ckpt_writer_history -- the history of what is begun from now on; does nothing while it is not idle */
void ol_ckpt_writer_history(struct ol_ckpt_writer *writer, uint64_t history, uint32_t founded);

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

/* ol_ckpt_writer_stop -- wait for the present checkpoint, end the thread; NULL is fine */
void ol_ckpt_writer_stop(struct ol_ckpt_writer *writer);

#endif /* OL_CHECKPOINT_CHECKPOINT_H */
