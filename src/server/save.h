/* SPDX-License-Identifier: BSD-3-Clause */

/* save.h -- checkpoints of published snapshots, while a server serves */
#ifndef OL_SERVER_SAVE_H
#define OL_SERVER_SAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"
#include "outlast_policy.h"
#include "outlast_server.h"
#include "store/store.h"

struct ol_saving {
	const struct ol_server_opts *opts;
	struct ol_store *store;
	const char *addr;

	struct ol_ckpt_writer *writer; /* NULL: none are wanted */
	uint64_t version; /* of the last one begun, or restored from */
	uint64_t begun_ns;
	int pinned; /* snapshot that is being copied, -1: none */
	/* A running checkpoint; selection is FULL if there is none, or no folder. */
	struct ol_ckpt_blocks blocks;
	struct ol_selector *selector; /* the writer's thread's while there is one */
	double interval; /* versions between two turns; 0: by time */
	bool first; /* its file is yet to be made */
	bool whole; /* the last that was written has everything of its version */
	uint64_t failed; /* since one was written, … */
	uint64_t failed_ns; /* … when that began, … */
	uint64_t told_ns; /* … and when the log last said so */
};

/* ol_save_meta -- what a checkpoint of this server says of itself */
struct ol_ckpt_meta ol_save_meta(const struct ol_saving *saving);
/* ol_save_open -- the partition that is saved or read by, and the writer; 0 or a code with a line in
 * err */
int ol_save_open(struct ol_saving *saving, char *err, size_t err_bytes);
/* ol_save_progress -- begin one if it is due, take the result of the last */
void ol_save_progress(struct ol_saving *saving, uint64_t now_ns);
/* ol_save_pinned -- the snapshot that must not be overwritten yet, as a mask */
unsigned ol_save_pinned(struct ol_saving *saving);
/* ol_save_stop -- wait for the writer, end it */
void ol_save_stop(struct ol_saving *saving);
/* ol_save_finish -- wait for what is being written; what is newer is written too */
void ol_save_finish(struct ol_saving *saving);

#endif /* OL_SERVER_SAVE_H */
