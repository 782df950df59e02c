/* SPDX-License-Identifier: BSD-3-Clause */

/* load_deltas.c -- a shard put together from the segments of a running checkpoint of int8 deltas */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "checkpoint/deltas.h"
#include "checkpoint/load.h"
#include "checkpoint/running.h"
#include "checkpoint/write.h"

/* Of a block, what the segments read up to now have said */
struct piece {
	uint64_t now; /* version of its content */
	uint64_t then; /* of that before; UINT64_MAX: none */
	bool there; /* one had it in full */
	bool open; /* … and none is missing since */
};

struct loading {
	const struct ol_ckpt_file *file;
	const struct ol_ckpt_header *header;
	const struct ol_ckpt_blocks *blocks;
	struct ol_geometry geo;
	uint8_t *content; /* the caller's */
	float *older; /* owned; weights of `then`. NULL: nobody wants them */
	uint8_t *segment; /* owned */
	uint64_t room; /* in it */
	uint64_t *turns; /* owned; of the slots' heads that are whole, ascending */
	uint32_t turn_count;
	struct piece *pieces; /* owned; of each block */
	struct ol_deltas_found found;
};

static void loading_fini(struct loading *loading)
{
	free(loading->older);
	free(loading->segment);
	free(loading->turns);
	free(loading->pieces);
}

static int loading_init(struct loading *loading, double extrapolate, char *why)
{
	const struct ol_ckpt_header *header = loading->header;
	const uint32_t count = loading->blocks->count;

	loading->geo = ol_ckpt_header_geo(header);
	loading->room = ol_deltas_room(header, 0);
	if (loading->room < header->slot_bytes)
		loading->room = header->slot_bytes;
	loading->segment = malloc(loading->room);
	loading->turns = calloc(header->slots, sizeof(*loading->turns));
	loading->pieces = calloc(count, sizeof(*loading->pieces));
	if (extrapolate > 0.0)
		loading->older = calloc(header->shard_len, sizeof(*loading->older));
	if (loading->segment == NULL || loading->turns == NULL || loading->pieces == NULL ||
	    (extrapolate > 0.0 && loading->older == NULL))
		return ol_ckpt_failed(why, -ENOMEM, "there is no memory for its %" PRIu64 " bytes",
				      header->content_bytes);
	for (uint32_t i = 0; i < count; i++)
		loading->pieces[i].then = UINT64_MAX;
	return 0;
}

/* Is this the head of that turn, whatever follows it? */
static bool is_head(const struct loading *loading, const struct ol_segment_head *head,
		    uint64_t turn)
{
	const struct ol_ckpt_header *header = loading->header;

	return head->crc == ol_segment_crc(header, head) && head->turn == turn &&
	       head->coded <= header->block_count && head->full <= header->block_count &&
	       head->bytes >= ol_deltas_bytes(header, head->coded + head->full, 0, 0) &&
	       head->bytes <= ol_deltas_room(header, turn);
}

static const uint8_t *indices_of(const struct ol_segment_head *head, const uint8_t *segment)
{
	return segment + head->bytes - ((uint64_t)head->coded + head->full) * sizeof(uint32_t);
}

static uint32_t index_at(const uint8_t *indices, uint32_t at)
{
	uint32_t index;

	memcpy(&index, indices + (uint64_t)at * sizeof(index), sizeof(index));
	return index;
}

/* The floats of so many blocks; false: their indices do not ascend, or are of no block */
static bool floats_of(const struct ol_ckpt_blocks *blocks, const uint8_t *indices, uint32_t first,
		      uint32_t count, uint64_t *ret_floats)
{
	*ret_floats = 0;
	for (uint32_t i = first; i < first + count; i++) {
		const uint32_t index = index_at(indices, i);

		if (index >= blocks->count || (i > first && index <= index_at(indices, i - 1)))
			return false;
		*ret_floats += ol_ckpt_block_floats(blocks, index);
	}
	return true;
}

/*
 * Read the segment of a turn. OL_E_NO_CHECKPOINT: it is not whole (why is not set); else an error of the
 * system, with why
 */
static int segment_read(struct loading *loading, uint64_t turn, struct ol_segment_head *ret_head,
			uint64_t *ret_coded_floats, char *why)
{
	const struct ol_ckpt_header *header = loading->header;
	const uint64_t off = ol_deltas_off(header, turn);
	struct ol_segment_head *head = ret_head;
	const uint8_t *indices;
	uint64_t full_floats;
	int rc = ol_ckpt_read_at(loading->file, head, sizeof(*head), off);

	if (rc == 0 && !is_head(loading, head, turn))
		return OL_E_NO_CHECKPOINT;
	if (rc == 0)
		rc = ol_ckpt_read_at(loading->file, loading->segment, head->bytes, off);
	if (rc != 0)
		return ol_ckpt_failed(why, ol_ckpt_unread(rc),
				      "the segment of turn %" PRIu64 " cannot be read: %s", turn,
				      ol_status_str(rc));
	indices = indices_of(head, loading->segment);
	if (memcmp(loading->segment, head, sizeof(*head)) != 0 ||
	    ol_ckpt_crc(loading->segment + sizeof(*head), head->bytes - sizeof(*head)) !=
		    head->body_crc ||
	    !floats_of(loading->blocks, indices, 0, head->coded, ret_coded_floats) ||
	    !floats_of(loading->blocks, indices, head->coded, head->full, &full_floats) ||
	    head->bytes != ol_deltas_bytes(header, head->coded + head->full, *ret_coded_floats,
					   full_floats))
		return OL_E_NO_CHECKPOINT;
	return 0;
}

/* A new state of a block is about to come: the one before is its pace */
static void piece_turn(struct loading *loading, uint32_t index, uint64_t version)
{
	struct piece *piece = &loading->pieces[index];

	if (loading->older != NULL && piece->there) {
		memcpy(loading->older + loading->blocks->first[index],
		       loading->content +
			       ol_running_part_off(&loading->geo, loading->blocks, index, 0),
		       ol_ckpt_block_floats(loading->blocks, index) * sizeof(float));
		piece->then = piece->now;
	}
	piece->now = version;
}

/* What a segment that is whole says; after a missing one (gap) only of blocks that it has in full */
static void segment_apply(struct loading *loading, const struct ol_segment_head *head,
			  uint64_t coded_floats, bool gap)
{
	const struct ol_ckpt_header *header = loading->header;
	const uint8_t *indices = indices_of(head, loading->segment);
	const uint8_t *at = loading->segment + sizeof(*head);
	const uint64_t table = ol_layout_table_bytes(&loading->geo);
	uint64_t done = 0;

	memcpy(loading->content, at, table);
	at += table;
	for (uint32_t i = 0; i < loading->blocks->count && gap; i++)
		loading->pieces[i].open = false;
	for (uint32_t i = 0; i < head->coded; i++) {
		const uint32_t index = index_at(indices, i);

		if (loading->pieces[index].open) {
			piece_turn(loading, index, head->version);
			ol_deltas_apply(&loading->geo, loading->blocks, index, at, coded_floats,
					done, loading->content);
		}
		done += ol_ckpt_block_floats(loading->blocks, index);
	}
	at += ol_deltas_coded_bytes(header, coded_floats);
	for (uint32_t i = head->coded; i < head->coded + head->full; i++) {
		const uint32_t index = index_at(indices, i);

		piece_turn(loading, index, head->version);
		ol_running_scatter(&loading->geo, loading->blocks, index, at, loading->content);
		loading->pieces[index].there = loading->pieces[index].open = true;
		at += ol_ckpt_block_floats(loading->blocks, index) * sizeof(float) *
		      (1 + header->state_vectors);
	}
}

/* Which turns the slots have, by their heads */
static int turns_find(struct loading *loading, char *why)
{
	const struct ol_ckpt_header *header = loading->header;

	for (uint32_t slot = 0; slot < header->slots; slot++) {
		struct ol_segment_head head;
		uint32_t at = loading->turn_count;
		int rc = ol_ckpt_read_at(loading->file, &head, sizeof(head),
					 ol_deltas_off(header, slot + 1));

		if (rc != 0)
			return ol_ckpt_failed(why, ol_ckpt_unread(rc),
					      "slot %" PRIu32 " cannot be read: %s", slot,
					      ol_status_str(rc));
		if (head.turn == 0 || (head.turn - 1) % header->slots != slot ||
		    !is_head(loading, &head, head.turn))
			continue;
		loading->turn_count++;
		for (; at > 0 && loading->turns[at - 1] > head.turn; at--)
			loading->turns[at] = loading->turns[at - 1];
		loading->turns[at] = head.turn;
	}
	return 0;
}

/* Drop the turns behind the newest one that is whole: one may be torn */
static int newest_find(struct loading *loading, char *why)
{
	const uint32_t heads = loading->turn_count;
	struct ol_segment_head head;
	uint64_t floats;
	int rc = 0;

	for (; loading->turn_count > 0; loading->turn_count--) {
		rc = segment_read(loading, loading->turns[loading->turn_count - 1], &head, &floats,
				  why);
		if (rc != OL_E_NO_CHECKPOINT)
			break;
		rc = 0;
	}
	if (heads > loading->turn_count + 1)
		loading->found.damaged = heads - loading->turn_count - 1;
	return rc;
}

/* Turns from..to are not whole, which come before `newest`. In the slot of one of them the turn behind the newest may
 * have been torn */
static void damage_note(struct loading *loading, uint64_t from, uint64_t to, uint64_t newest)
{
	for (uint64_t turn = from; turn < to; turn++)
		loading->found.damaged += turn == 0 || turn + loading->header->slots != newest + 1;
}

static int segments_apply(struct loading *loading, char *why)
{
	const uint32_t slots = loading->header->slots;
	const uint64_t newest =
		loading->turn_count > 0 ? loading->turns[loading->turn_count - 1] : 0;
	const uint64_t first = newest <= slots ? 0 : newest + 1 - slots;
	uint64_t last = UINT64_MAX, floats = 0; /* turn before; none */
	struct ol_segment_head head;

	/* turn 0, unless its blocks all came again since: the slots have been gone through once */
	for (uint32_t i = newest <= slots ? 0 : 1; i <= loading->turn_count; i++) {
		const uint64_t turn = i == 0 ? 0 : loading->turns[i - 1];
		int rc = segment_read(loading, turn, &head, &floats, why);

		if (rc == OL_E_NO_CHECKPOINT)
			continue;
		if (rc != 0)
			return rc;
		damage_note(loading, last == UINT64_MAX ? first : last + 1, turn, newest);
		segment_apply(loading, &head, floats, turn != last + 1);
		loading->found.version = head.version;
		last = turn;
	}
	if (last == UINT64_MAX)
		return ol_ckpt_failed(why, OL_E_NO_CHECKPOINT, "none of its segments is whole");
	for (uint32_t i = 0; i < loading->blocks->count; i++) {
		if (!loading->pieces[i].there)
			return ol_ckpt_failed(why, OL_E_NO_CHECKPOINT,
					      "block %" PRIu32 " of %" PRIu32
					      ": no segment that has it in full is whole",
					      i, loading->blocks->count);
		loading->found.older += !loading->pieces[i].open;
	}
	if (loading->found.older > 0 && loading->found.damaged == 0)
		loading->found.damaged =
			1; /* it was not torn: no turn goes over what a block needs */
	return 0;
}

int ol_deltas_load(const struct ol_ckpt_file *file, const struct ol_ckpt_header *header,
		   const struct ol_ckpt_blocks *blocks, double extrapolate, uint8_t *content,
		   uint64_t *ret_versions, struct ol_deltas_found *ret_found, char *why)
{
	struct loading loading = {
		.file = file, .header = header, .blocks = blocks, .content = content
	};
	int rc = loading_init(&loading, extrapolate, why);

	if (rc == 0)
		rc = turns_find(&loading, why);
	if (rc == 0)
		rc = newest_find(&loading, why);
	if (rc == 0)
		rc = segments_apply(&loading, why);
	for (uint32_t i = 0; rc == 0 && i < blocks->count; i++)
		ret_versions[i] = loading.pieces[i].now;
	for (uint32_t i = 0; rc == 0 && extrapolate > 0.0 && i < blocks->count; i++) {
		const struct piece *piece = &loading.pieces[i];
		const uint64_t off = ol_running_part_off(&loading.geo, blocks, i, 0);

		loading.found.moved += ol_running_go_on(
			(float *)(void *)(content + off), loading.older + blocks->first[i],
			ol_ckpt_block_floats(blocks, i), piece->now, piece->then,
			loading.found.version, extrapolate);
	}
	*ret_found = loading.found;
	loading_fini(&loading);
	return rc;
}
