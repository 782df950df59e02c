/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * deltas.h -- the layout of a running checkpoint of int8 deltas, byte by byte, and its segments
 *
 *	offset          size            part
 *	0               4096            header: struct ol_ckpt_header of OL_CKPT_FORMAT_DELTAS, its
 *	                                version that of turn 0, table_bytes the size of the table
 *	4096            base            segment of turn 0, zeros up to a page
 *	…               slot_bytes      slot 0: the segment of turn 1, or 1 + slots, or 1 + 2 slots …
 *	…               slot_bytes      slot 1: of turn 2, or 2 + slots …
 *
 * A segment is all that a turn saves, behind one checksum:
 *
 *	struct ol_segment_head
 *	table: head and applied table of a snapshot
 *	deltas of `coded` blocks, one behind the other as one vector: their weights less those saved
 *	before, as int8 of wire/format.h; then each vector of optimizer state, itself, as bf16
 *	`full` blocks as they are: weights, then each vector of state
 *	indices (uint32) of the coded blocks, then of the full ones; both ascending
 *
 * What is saved, z, is what a reader makes of the file: the writer adds to its own z what the int8 say,
 * not what was to be said. What they lack is part of the next distance, and so of a later delta.
 *
 * A block needs all segments since the one that has it in full. So each turn has some blocks in full
 * by turns, all within `slots` turns; a segment that a block still needs is not written over: then the
 * file is made anew.
 */
#ifndef OL_CHECKPOINT_DELTAS_H
#define OL_CHECKPOINT_DELTAS_H

#include <assert.h>

#include "checkpoint/backend.h"
#include "checkpoint/format.h"

enum {
	OL_DELTAS_SLOTS_MAX = 1024,
	OL_DELTAS_SLOT_BASES = 3, /* no slot is larger than so many segments of turn 0 */
};

/* In front of each segment. */
struct ol_segment_head {
	uint64_t turn;
	uint64_t version; /* of its snapshot */
	uint64_t bytes; /* of the segment, these included */
	uint32_t coded; /* blocks */
	uint32_t full;
	uint32_t body_crc; /* of what follows */
	uint32_t crc; /* of this, with the header's checksum in place of this word */
};

static_assert(sizeof(struct ol_segment_head) == 40, "no padding");

/*
 * ol_deltas_header_make -- all of it, sealed; OL_E_GEOMETRY
 *
 * slots, slot_bytes: at most OL_DELTAS_SLOTS_MAX; whole pages
 */
int ol_deltas_header_make(const struct ol_ckpt_meta *meta, const struct ol_ckpt_blocks *blocks,
			  uint32_t slots, uint64_t slot_bytes, struct ol_ckpt_header *ret_header);

/* ol_deltas_bytes -- of a segment of so many blocks that have so many floats */
uint64_t ol_deltas_bytes(const struct ol_ckpt_header *header, uint32_t blocks,
			 uint64_t coded_floats, uint64_t full_floats);

/* ol_deltas_off -- where a turn's segment lies; ol_deltas_room -- how large it may be */
uint64_t ol_deltas_off(const struct ol_ckpt_header *header, uint64_t turn);
uint64_t ol_deltas_room(const struct ol_ckpt_header *header, uint64_t turn);

/* ol_deltas_coded_bytes -- of the deltas and the state of so many floats */
uint64_t ol_deltas_coded_bytes(const struct ol_ckpt_header *header, uint64_t floats);

/* ol_segment_crc -- what head->crc has to be */
uint32_t ol_segment_crc(const struct ol_ckpt_header *header, const struct ol_segment_head *head);

/*
 * ol_deltas_apply -- add a block's deltas to its weights in `content`, and put its state there
 *
 * coded: of `floats` floats; the block's begin at `at`
 */
void ol_deltas_apply(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
		     uint32_t index, const uint8_t *coded, uint64_t floats, uint64_t at,
		     uint8_t *content);

/* What a file was found to have */
struct ol_deltas_found {
	uint64_t version; /* of its newest segment that is whole */
	uint32_t moved; /* blocks that went on */
	uint32_t
		damaged; /* segments that were whole once: more than the one that a death tears … */
	uint32_t older; /* … and blocks of which a later state than the one found was saved */
};

/*
 * ol_deltas_load -- put together what a file of deltas has, whose header is checked
 *
 * Of each block all that whole segments say, from the last that has it in full up to the newest, or to the
 * first that is missing between them. content: header's content_bytes, zeros. versions: of each block, of what was found of
 * it. extrapolate: as ol_running_go_on() has it.
 *
 * Errors: OL_E_NO_CHECKPOINT, -ENOMEM, those of reading, with why
 */
int ol_deltas_load(const struct ol_ckpt_file *file, const struct ol_ckpt_header *header,
		   const struct ol_ckpt_blocks *blocks, double extrapolate, uint8_t *content,
		   uint64_t *ret_versions, struct ol_deltas_found *ret_found, char *why);

/* The writer's half: what the next segment has. For one thread. */
struct ol_deltas;

/* ol_deltas_create -- the objects of opts must stay. OL_E_GEOMETRY, -ENOMEM */
int ol_deltas_create(const struct ol_ckpt_meta *meta, const struct ol_ckpt_running_opts *opts,
		     struct ol_deltas **ret_deltas);
void ol_deltas_destroy(struct ol_deltas *deltas);

/* ol_deltas_header -- of a file that is to be made; OL_E_GEOMETRY */
int ol_deltas_header(const struct ol_deltas *deltas, const struct ol_ckpt_meta *meta,
		     struct ol_ckpt_header *ret_header);

/* ol_deltas_take_all -- turn 0: every block in full; last: no turn is expected to follow, so its file has no room
 * for one */
void ol_deltas_take_all(struct ol_deltas *deltas, bool last);

/*
 * ol_deltas_take -- code the chosen blocks of content, take others in full, and bring saved to what a
 * reader will find
 *
 * False: there is no room for this turn, and saved is neither; the file must be made anew.
 */
bool ol_deltas_take(struct ol_deltas *deltas, uint64_t turn, const uint32_t *chosen, uint32_t count,
		    const uint8_t *content, uint8_t *saved);

/* ol_deltas_blocks -- how many blocks were taken; ol_deltas_whole -- true: all, and in full */
uint32_t ol_deltas_blocks(const struct ol_deltas *deltas);
bool ol_deltas_whole(const struct ol_deltas *deltas);

/*
 * ol_deltas_put -- write the segment of what was taken, durably
 *
 * saved: with the table. ret_bytes: added to. Errors: those of the file, with why
 */
int ol_deltas_put(struct ol_deltas *deltas, const struct ol_ckpt_file *file,
		  const struct ol_ckpt_header *header, uint64_t turn, uint64_t version,
		  const uint8_t *saved, uint64_t *ret_bytes, char *why);

#endif /* OL_CHECKPOINT_DELTAS_H */
