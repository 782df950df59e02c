/* SPDX-License-Identifier: BSD-3-Clause */

/* save.h -- checkpoints of published snapshots, while a server serves */
#ifndef OL_SERVER_SAVE_H
#define OL_SERVER_SAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log_rate.h"
#include "checkpoint/checkpoint.h"
#include "outlast_policy.h"
#include "outlast_server.h"
#include "store/store.h"

struct ol_saving {
	const struct ol_server_opts *opts;
	struct ol_store *store;
	const char *addr;
	/* What it serves is of; the version is not used */
	struct ol_vouched what;

	struct ol_ckpt_writer *writer; /* NULL: no checkpoints */
	uint64_t version; /* of the last one begun, or restored from … */
	uint32_t epoch; /* … and the epoch in which that was begun; 0: none was */
	uint64_t begun_ns;
	uint64_t taken_ns; /* when the content of the last one that the writer took was in force */
	int pinned; /* snapshot that is being copied, or is to be; -1: none */
	uint64_t
		held; /* version in it that is not committed yet, and is saved when it is; 0: none */
	/* A running checkpoint; selection is FULL if there is none, or no folder. */
	struct ol_ckpt_blocks blocks;
	/* Used by the writer's thread if there is a writer */
	struct ol_selector *selector;
	struct ol_selector *renewer; /* of int8 deltas: the blocks that are saved as they are */
	double interval; /* versions between two turns; 0: by time */
	bool first; /* its file does not exist yet */
	bool whole; /* the last checkpoint written has all blocks of its version */
	/* Full checkpoints by versions, where writing takes longer than the interval (save.c) */
	uint64_t stride; /* one of so many that are due is written; a power of two */
	unsigned in_time; /* written since one was skipped because the writer was busy */
	uint64_t failed; /* checkpoints since one was written */
	uint64_t failed_ns; /* when the first of these failed */
	uint64_t told_ns; /* when failures were last logged */
	struct ol_log_rate turns; /* lines that they fail, or are written again */
};

/* ol_save_meta -- the header fields of this server's checkpoints */
struct ol_ckpt_meta ol_save_meta(const struct ol_saving *saving);
/* ol_save_open -- make the partition into blocks, and the writer; 0 or a code with a line in err */
int ol_save_open(struct ol_saving *saving, char *err, size_t err_bytes);
/* What a server may save, for ol_save_progress() */
#define OL_SAVE_NONE (UINT64_MAX - 1) /* another replica writes */
#define OL_SAVE_ALL  UINT64_MAX
/* ol_save_progress -- take the result of the last checkpoint, begin one if it is due; most: the newest
 * version that is committed, or one of the above */
void ol_save_progress(struct ol_saving *saving, uint64_t now_ns, uint64_t most);
/* ol_save_pinned -- the snapshot that must not be overwritten yet, as a mask */
unsigned ol_save_pinned(struct ol_saving *saving);
/* ol_save_stop -- wait for the writer, end it */
void ol_save_stop(struct ol_saving *saving);
/* ol_save_finish -- wait for the checkpoint that is being written; then write the newest version, if it is
 * not above `most` */
void ol_save_finish(struct ol_saving *saving, uint64_t most);

#endif /* OL_SERVER_SAVE_H */
