/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * running.h -- the layout of a running checkpoint's file, byte by byte, and its writer
 *
 *	offset          size            part
 *	0               4096            header: struct ol_ckpt_header, its version that of the first
 *	                                turn, table_bytes the size of a copy of the table
 *	4096            2 copies        table: head and applied table of a snapshot
 *	…               2 copies        block 0: its weights, then each vector of optimizer state
 *	…               2 copies        block 1 …
 *
 * A copy is a struct ol_running_head and its content, on pages of its own: a torn page costs one
 * copy of one block. Only the bytes of a copy are written, not the rest of its last page.
 *
 * Turns are numbered from 0, which makes the file. A turn writes the chosen blocks, each over the
 * older of its copies, makes them durable, and then does the same with the table. So if a turn is
 * cut off at any point, the turn before it can still be restored whole.
 *
 * With opts.format OL_FORMAT_INT8 the file is that of deltas.h.
 */
#ifndef OL_CHECKPOINT_RUNNING_H
#define OL_CHECKPOINT_RUNNING_H

#include <assert.h>

#include "checkpoint/format.h"

#define OL_RUNNING_TABLE UINT32_MAX /* index of the table */

/* In front of each copy. */
struct ol_running_head {
	uint64_t turn;
	uint64_t version; /* of its snapshot */
	uint32_t index; /* of the block */
	uint32_t crc; /* of this, with the header's checksum in place of this word, and the
		       content */
};

static_assert(sizeof(struct ol_running_head) == 24, "no padding");

/* ol_running_header_make -- all of it, sealed; OL_E_GEOMETRY */
int ol_running_header_make(const struct ol_ckpt_meta *meta, const struct ol_ckpt_blocks *blocks,
			   struct ol_ckpt_header *ret_header);

/* ol_running_bytes -- of a copy without the rest of its page; index: OL_RUNNING_TABLE too */
uint64_t ol_running_bytes(const struct ol_ckpt_header *header, const struct ol_ckpt_blocks *blocks,
			  uint32_t index);

/* ol_running_stride -- of a copy of so many bytes, with the rest of its page */
static inline uint64_t ol_running_stride(uint64_t bytes)
{
	return ol_round_up(bytes, OL_PAGE_BYTES);
}

/*
 * ol_running_gather -- copy a block (or the table) out of a snapshot's content;
 * ol_running_scatter -- copy it back
 */
void ol_running_gather(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
		       uint32_t index, const uint8_t *content, uint8_t *ret_block);
void ol_running_scatter(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
			uint32_t index, const uint8_t *block, uint8_t *ret_content);

/* ol_running_part_off -- where a block begins in vector v of a snapshot's content: 0 is the weights */
uint64_t ol_running_part_off(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
			     uint32_t index, uint32_t v);

/* ol_running_copy -- a block from one content to another */
void ol_running_copy(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
		     uint32_t index, const uint8_t *from, uint8_t *to);

/*
 * ol_running_go_on -- let the weights of a block, z, go on by their last pace, from version `now` to
 * that of the table
 *
 * was: the same floats of version `then`; UINT64_MAX: there are none. by: as ol_ckpt_read_running() has it. A float
 * that would not be finite stays. Returns false if none may move.
 */
bool ol_running_go_on(float *z, const void *was, uint64_t floats, uint64_t now, uint64_t then,
		      uint64_t table, double by);

/* ol_running_seal -- set the checksum of a copy; ol_running_whole -- check it */
void ol_running_seal(const struct ol_ckpt_header *header, void *copy, uint64_t bytes);
bool ol_running_whole(const struct ol_ckpt_header *header, const void *copy, uint64_t bytes,
		      uint32_t index);

/* The writer: the blocks as last saved, in memory and in the file. For one thread. */
struct ol_running;

/* ol_running_create -- dir, and the objects of opts, must stay; no file is written yet.
 * OL_E_GEOMETRY, -ENOMEM */
int ol_running_create(const char *dir, const struct ol_ckpt_meta *meta,
		      const struct ol_ckpt_running_opts *opts, struct ol_running **ret_running);
void ol_running_destroy(struct ol_running *running);

/* ol_running_history -- of what is taken from now on (struct ol_ckpt_meta); the file of another one is not
 * written any more */
void ol_running_history(struct ol_running *running, uint64_t history, uint32_t founded);

/* ol_running_measure -- how far each block has moved, if that is wanted, of the content that is taken next. True if this
 * tells that all its weights are finite */
bool ol_running_measure(struct ol_running *running, const void *content);

/* ol_running_take -- measure, if that has not been done, choose and copy; content may change afterwards */
void ol_running_take(struct ol_running *running, const void *content, uint64_t version,
		     uint32_t epoch, bool whole);

/* ol_running_saved -- the content that a reader makes of what was taken up to now; its rest is zero */
const uint8_t *ol_running_saved(const struct ol_running *running);

/*
 * ol_running_write -- write the blocks taken last, durably; result: status, bytes, blocks, whole, err
 *
 * After a failure the next one makes the file anew.
 */
void ol_running_write(struct ol_running *running, struct ol_ckpt_result *result);

#endif /* OL_CHECKPOINT_RUNNING_H */
