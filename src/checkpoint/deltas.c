/* SPDX-License-Identifier: BSD-3-Clause */

/* deltas.c -- a running checkpoint of int8 deltas: the layout of its file, and the segments of its turns */

#include "checkpoint/deltas.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/running.h"
#include "checkpoint/write.h"
#include "wire/format.h"

enum {
	CYCLE = 3, /* one in so many bytes of a turn is of blocks in full */
	SLOTS_CONTENTS = 7, /* all slots have at most so many times the content's bytes, … */
	SLOTS_BYTES = 1 << 18, /* … and these */
	SLOTS_MIN = 2,
	PIECE_BYTES = 1 << 20, /* that are written at once */
	CODABLE_BITS = 0x7e800000, /* 2^126: sums and differences of what is below are finite */
};

struct ol_deltas {
	struct ol_geometry geo;
	struct ol_ckpt_running_opts opts;
	struct ol_ckpt_header sizes; /* of its files, but for the turn that made them … */
	uint32_t slots; /* … and of the present one, which may have room for no turn */
	uint64_t slot_bytes;
	uint8_t *coded; /* owned; room for all floats: of this turn */
	uint64_t coded_floats, full_floats;
	uint32_t *which; /* owned; the coded blocks … */
	uint32_t coded_count;
	uint32_t *which_full; /* owned; … and those in full */
	uint32_t full_count;
	bool *renewed; /* owned; of each block, in full in this turn */
	uint64_t *since; /* owned; of each block, the turn that has it in full */
	float *group; /* owned; OL_FORMAT_GROUP, and as many for what an encoder leaves */
	uint8_t *piece; /* owned; PIECE_BYTES */
};

/* ---- layout ---- */

uint64_t ol_deltas_coded_bytes(const struct ol_ckpt_header *header, uint64_t floats)
{
	return ol_format_bytes(OL_FORMAT_INT8, floats) +
	       header->state_vectors * ol_format_bytes(OL_FORMAT_BF16, floats);
}

uint64_t ol_deltas_bytes(const struct ol_ckpt_header *header, uint32_t blocks,
			 uint64_t coded_floats, uint64_t full_floats)
{
	return sizeof(struct ol_segment_head) + header->table_bytes +
	       ol_deltas_coded_bytes(header, coded_floats) +
	       full_floats * sizeof(float) * (1 + header->state_vectors) +
	       (uint64_t)blocks * sizeof(uint32_t);
}

static uint64_t base_bytes(const struct ol_ckpt_header *header)
{
	return ol_round_up(ol_deltas_bytes(header, header->block_count, 0, header->shard_len),
			   OL_PAGE_BYTES);
}

uint64_t ol_deltas_off(const struct ol_ckpt_header *header, uint64_t turn)
{
	if (turn == 0)
		return sizeof(*header);
	return sizeof(*header) + base_bytes(header) +
	       (turn - 1) % header->slots * header->slot_bytes;
}

uint64_t ol_deltas_room(const struct ol_ckpt_header *header, uint64_t turn)
{
	return turn == 0 ? base_bytes(header) : header->slot_bytes;
}

int ol_deltas_header_make(const struct ol_ckpt_meta *meta, const struct ol_ckpt_blocks *blocks,
			  uint32_t slots, uint64_t slot_bytes, struct ol_ckpt_header *ret_header)
{
	struct ol_ckpt_header header;
	int rc = ol_ckpt_header_make(meta, &header);

	if (rc != 0)
		return rc;
	header.magic = OL_RUNNING_MAGIC;
	header.format = OL_CKPT_FORMAT_DELTAS;
	header.block_bytes = 0;
	header.block_count = blocks->count;
	header.table_bytes = (uint32_t)ol_layout_table_bytes(&meta->geo);
	header.partition = blocks->digest;
	header.slots = slots;
	header.slot_bytes = slot_bytes;
	header.file_bytes = sizeof(header) + base_bytes(&header) + slots * slot_bytes;
	header.header_crc = ol_ckpt_crc(&header, offsetof(struct ol_ckpt_header, header_crc));
	*ret_header = header;
	return 0;
}

uint32_t ol_segment_crc(const struct ol_ckpt_header *header, const struct ol_segment_head *head)
{
	struct ol_segment_head copy = *head;

	copy.crc = header->header_crc;
	return ol_ckpt_crc(&copy, sizeof(copy));
}

void ol_ckpt_deltas_shares(double fraction, uint32_t state_vectors, double *ret_coded,
			   double *ret_full)
{
	const double full_bytes = 4.0 * (1 + state_vectors);
	const double coded_bytes =
		(double)OL_FORMAT_GROUP_BYTES / OL_FORMAT_GROUP + 2.0 * state_vectors;
	double coded = (fraction - fraction / CYCLE) * full_bytes / coded_bytes;

	*ret_full = fraction / CYCLE;
	*ret_coded = coded < 1.0 ? coded : 1.0;
}

/* Blocks that have so many floats, at most */
static uint32_t blocks_most(const struct ol_ckpt_blocks *blocks, double floats)
{
	double shortest = (double)ol_ckpt_block_floats(blocks, 0);

	for (uint32_t i = 1; i < blocks->count; i++)
		shortest = fmin(shortest, (double)ol_ckpt_block_floats(blocks, i));
	return (uint32_t)fmin((double)blocks->count, floats / shortest + 1.0);
}

/* Room for the turns in which every block comes in full once, and for what a turn saves at most. A
 * turn that has more than twice the bytes it should has no room: the file is made anew. So it is, sooner, where
 * all these turns would take too much */
static void sizes_set(const struct ol_ckpt_running_opts *opts, uint64_t shard_len,
		      struct ol_ckpt_header *sizes)
{
	const struct ol_ckpt_blocks *blocks = opts->blocks;
	const double total = (double)shard_len;
	double coded, full, longest = 0.0, turns, bytes;
	uint32_t count;
	uint64_t most;

	for (uint32_t i = 0; i < blocks->count; i++)
		longest = fmax(longest, (double)ol_ckpt_block_floats(blocks, i));
	ol_ckpt_deltas_shares(opts->fraction, sizes->state_vectors, &coded, &full);
	turns = ceil(1.0 / full) + ceil(2.0 * longest / (full * total)) + 2.0;
	/* a selector takes its share, and at most one block more */
	coded = fmin(ceil(coded * total) + longest, total);
	full = fmin(ceil(full * total) + longest, total);
	count = blocks_most(blocks, coded + full);
	most = ol_deltas_bytes(sizes, count, (uint64_t)coded, (uint64_t)full);
	bytes = (double)ol_deltas_bytes(sizes, count, 0, 0) +
		2.0 * opts->fraction * (double)sizes->content_bytes;
	sizes->slot_bytes = ol_round_up((uint64_t)fmin((double)most, bytes), OL_PAGE_BYTES);
	turns = fmin(turns, (SLOTS_BYTES + SLOTS_CONTENTS * (double)sizes->content_bytes) /
				    (double)sizes->slot_bytes);
	sizes->slots = (uint32_t)fmax(SLOTS_MIN, fmin(turns, OL_DELTAS_SLOTS_MAX));
}

/* ---- coding ---- */

static const float *values_of(const struct ol_deltas *deltas, uint32_t index, uint32_t v,
			      const uint8_t *content)
{
	return (const float *)(const void *)(content + ol_running_part_off(&deltas->geo,
									   deltas->opts.blocks,
									   index, v));
}

void ol_deltas_apply(const struct ol_geometry *geo, const struct ol_ckpt_blocks *blocks,
		     uint32_t index, const uint8_t *coded, uint64_t floats, uint64_t at,
		     uint8_t *content)
{
	const uint64_t count = ol_ckpt_block_floats(blocks, index);
	float *z = (float *)(void *)(content + ol_running_part_off(geo, blocks, index, 0));
	float delta[OL_FORMAT_BLOCK];

	for (uint64_t i = 0; i < count; i += OL_FORMAT_BLOCK) {
		size_t run = count - i < OL_FORMAT_BLOCK ? count - i : OL_FORMAT_BLOCK;

		ol_format_decode(OL_FORMAT_INT8, delta, coded, at + i, run);
		for (size_t j = 0; j < run; j++)
			z[i + j] += delta[j];
	}
	coded += ol_format_bytes(OL_FORMAT_INT8, floats);
	for (uint32_t v = 1; v <= geo->state_vectors; v++) {
		z = (float *)(void *)(content + ol_running_part_off(geo, blocks, index, v));
		ol_format_decode(OL_FORMAT_BF16, z, coded, at, count);
		coded += ol_format_bytes(OL_FORMAT_BF16, floats);
	}
}

/* False for values that int8 and bf16 would make infinite, and for a NaN */
static bool is_codable(const struct ol_deltas *deltas, uint32_t index, const uint8_t *content,
		       const uint8_t *saved)
{
	const struct ol_ckpt_blocks *blocks = deltas->opts.blocks;
	const uint64_t count = ol_ckpt_block_floats(blocks, index);

	if (ol_format_largest(values_of(deltas, index, 0, content), count) >= CODABLE_BITS ||
	    ol_format_largest(values_of(deltas, index, 0, saved), count) >= CODABLE_BITS)
		return false;
	for (uint32_t v = 1; v <= deltas->geo.state_vectors; v++) {
		if (ol_format_largest(values_of(deltas, index, v, content), count) >=
		    ol_format_peak(OL_FORMAT_BF16))
			return false;
	}
	return true;
}

/* Encode the group's first `used` floats behind those before; returns where the next ones go */
static uint8_t *group_encode(struct ol_deltas *deltas, uint8_t *out, uint64_t used)
{
	float *rest = deltas->group + OL_FORMAT_GROUP;

	memset(out, 0, ol_format_bytes(OL_FORMAT_INT8, used));
	memset(rest, 0, OL_FORMAT_GROUP * sizeof(*rest));
	ol_format_encode(OL_FORMAT_INT8, out, deltas->group, rest, used);
	return out + ol_format_bytes(OL_FORMAT_INT8, used);
}

static void subtract(float *restrict out, const float *restrict a, const float *restrict b,
		     uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		out[i] = a[i] - b[i];
}

static void weights_encode(struct ol_deltas *deltas, const uint8_t *content, const uint8_t *saved)
{
	const struct ol_ckpt_blocks *blocks = deltas->opts.blocks;
	uint8_t *out = deltas->coded;
	uint64_t used = 0;

	for (uint32_t b = 0; b < deltas->coded_count; b++) {
		const uint32_t index = deltas->which[b];
		const float *now = values_of(deltas, index, 0, content);
		const float *z = values_of(deltas, index, 0, saved);

		for (uint64_t left = ol_ckpt_block_floats(blocks, index), run; left > 0;
		     left -= run, now += run, z += run) {
			run = left < OL_FORMAT_GROUP - used ? left : OL_FORMAT_GROUP - used;
			subtract(deltas->group + used, now, z, run);
			used += run;
			if (used == OL_FORMAT_GROUP) {
				out = group_encode(deltas, out, used);
				used = 0;
			}
		}
	}
	if (used > 0)
		(void)group_encode(deltas, out, used);
}

static void state_encode(struct ol_deltas *deltas, const uint8_t *content)
{
	const struct ol_ckpt_blocks *blocks = deltas->opts.blocks;
	const uint64_t bytes = ol_format_bytes(OL_FORMAT_BF16, deltas->coded_floats);
	uint8_t *out = deltas->coded + ol_format_bytes(OL_FORMAT_INT8, deltas->coded_floats);

	for (uint32_t v = 1; v <= deltas->geo.state_vectors; v++) {
		uint64_t at = 0;

		memset(out, 0, bytes);
		for (uint32_t b = 0; b < deltas->coded_count; b++) {
			const uint32_t index = deltas->which[b];
			const uint64_t count = ol_ckpt_block_floats(blocks, index);

			ol_format_encode(OL_FORMAT_BF16, out + at * sizeof(uint16_t),
					 values_of(deltas, index, v, content), NULL, count);
			at += count;
		}
		out += bytes;
	}
}

/* ---- turns ---- */

void ol_deltas_destroy(struct ol_deltas *deltas)
{
	if (deltas == NULL)
		return;
	free(deltas->coded);
	free(deltas->which);
	free(deltas->which_full);
	free(deltas->renewed);
	free(deltas->since);
	free(deltas->group);
	free(deltas->piece);
	free(deltas);
}

int ol_deltas_create(const struct ol_ckpt_meta *meta, const struct ol_ckpt_running_opts *opts,
		     struct ol_deltas **ret_deltas)
{
	const uint32_t count = opts->blocks->count;
	struct ol_deltas *deltas = calloc(1, sizeof(*deltas));
	int rc;

	if (deltas == NULL)
		return -ENOMEM;
	deltas->geo = meta->geo;
	deltas->opts = *opts;
	rc = ol_deltas_header_make(meta, opts->blocks, 1, OL_PAGE_BYTES, &deltas->sizes);
	if (rc != 0)
		goto err;
	sizes_set(opts, meta->geo.shard_len, &deltas->sizes);
	deltas->coded = malloc(ol_deltas_coded_bytes(&deltas->sizes, meta->geo.shard_len));
	deltas->which = calloc(count, sizeof(*deltas->which));
	deltas->which_full = calloc(count, sizeof(*deltas->which_full));
	deltas->renewed = calloc(count, sizeof(*deltas->renewed));
	deltas->since = calloc(count, sizeof(*deltas->since));
	deltas->group = calloc(2 * OL_FORMAT_GROUP, sizeof(*deltas->group));
	deltas->piece = malloc(PIECE_BYTES);
	rc = -ENOMEM;
	if (deltas->coded == NULL || deltas->which == NULL || deltas->which_full == NULL ||
	    deltas->renewed == NULL || deltas->since == NULL || deltas->group == NULL ||
	    deltas->piece == NULL)
		goto err;
	*ret_deltas = deltas;
	return 0;
err:
	ol_deltas_destroy(deltas);
	return rc;
}

int ol_deltas_header(const struct ol_deltas *deltas, const struct ol_ckpt_meta *meta,
		     struct ol_ckpt_header *ret_header)
{
	return ol_deltas_header_make(meta, deltas->opts.blocks, deltas->slots, deltas->slot_bytes,
				     ret_header);
}

void ol_deltas_take_all(struct ol_deltas *deltas, bool last)
{
	deltas->slots = last ? 1 : deltas->sizes.slots;
	deltas->slot_bytes = last ? OL_PAGE_BYTES : deltas->sizes.slot_bytes;
	deltas->coded_count = 0;
	deltas->coded_floats = 0;
	deltas->full_count = deltas->opts.blocks->count;
	deltas->full_floats = deltas->geo.shard_len;
	for (uint32_t i = 0; i < deltas->full_count; i++) {
		deltas->which_full[i] = i;
		deltas->since[i] = 0;
	}
}

/* True if the slot of this turn has a segment that some block needs */
static bool is_needed(const struct ol_deltas *deltas, uint64_t turn)
{
	if (turn <= deltas->slots)
		return false;
	for (uint32_t i = 0; i < deltas->opts.blocks->count; i++) {
		if (deltas->since[i] <= turn - deltas->slots)
			return true;
	}
	return false;
}

/* Which of the chosen blocks are coded, and which blocks are saved in full */
static void sort_out(struct ol_deltas *deltas, const uint32_t *chosen, uint32_t count,
		     const uint8_t *content, const uint8_t *saved)
{
	const struct ol_ckpt_blocks *blocks = deltas->opts.blocks;
	uint32_t renewed = deltas->opts.renew(deltas->opts.renew_arg, NULL, deltas->which_full);

	memset(deltas->renewed, 0, blocks->count * sizeof(*deltas->renewed));
	for (uint32_t i = 0; i < renewed; i++)
		deltas->renewed[deltas->which_full[i]] = true;
	deltas->coded_count = deltas->full_count = 0;
	deltas->coded_floats = deltas->full_floats = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (deltas->renewed[chosen[i]])
			continue;
		if (!is_codable(deltas, chosen[i], content, saved)) {
			deltas->renewed[chosen[i]] = true;
			continue;
		}
		deltas->which[deltas->coded_count++] = chosen[i];
		deltas->coded_floats += ol_ckpt_block_floats(blocks, chosen[i]);
	}
	for (uint32_t i = 0; i < blocks->count; i++) {
		if (!deltas->renewed[i])
			continue;
		deltas->which_full[deltas->full_count++] = i;
		deltas->full_floats += ol_ckpt_block_floats(blocks, i);
	}
}

bool ol_deltas_take(struct ol_deltas *deltas, uint64_t turn, const uint32_t *chosen, uint32_t count,
		    const uint8_t *content, uint8_t *saved)
{
	const struct ol_ckpt_blocks *blocks = deltas->opts.blocks;
	uint64_t at = 0;

	if (is_needed(deltas, turn))
		return false;
	sort_out(deltas, chosen, count, content, saved);
	if (ol_deltas_bytes(&deltas->sizes, deltas->coded_count + deltas->full_count,
			    deltas->coded_floats, deltas->full_floats) > deltas->slot_bytes)
		return false;
	weights_encode(deltas, content, saved);
	state_encode(deltas, content);
	for (uint32_t i = 0; i < deltas->coded_count; i++) {
		ol_deltas_apply(&deltas->geo, blocks, deltas->which[i], deltas->coded,
				deltas->coded_floats, at, saved);
		at += ol_ckpt_block_floats(blocks, deltas->which[i]);
	}
	for (uint32_t i = 0; i < deltas->full_count; i++) {
		ol_running_copy(&deltas->geo, blocks, deltas->which_full[i], content, saved);
		deltas->since[deltas->which_full[i]] = turn;
	}
	return true;
}

uint32_t ol_deltas_blocks(const struct ol_deltas *deltas)
{
	return deltas->coded_count + deltas->full_count;
}

bool ol_deltas_whole(const struct ol_deltas *deltas)
{
	return deltas->full_count == deltas->opts.blocks->count;
}

/* ---- writing ---- */

/* A segment that is being written, in pieces; rc: the first error, after which nothing is written */
struct stream {
	const struct ol_ckpt_file *file;
	uint8_t *piece;
	size_t used;
	uint64_t off; /* of the piece */
	uint32_t crc;
	int rc;
};

static void stream_flush(struct stream *stream)
{
	if (stream->rc == 0 && stream->used > 0)
		stream->rc =
			ol_ckpt_write_at(stream->file, stream->piece, stream->used, stream->off);
	stream->off += stream->used;
	stream->used = 0;
}

static void stream_put(struct stream *stream, const void *bytes, uint64_t count)
{
	const uint8_t *from = bytes;

	stream->crc = ol_ckpt_crc_more(stream->crc, bytes, count);
	while (count > 0) {
		uint64_t room = PIECE_BYTES - stream->used;
		uint64_t part = count < room ? count : room;

		memcpy(stream->piece + stream->used, from, part);
		stream->used += part;
		from += part;
		count -= part;
		if (stream->used == PIECE_BYTES)
			stream_flush(stream);
	}
}

static void body_put(struct ol_deltas *deltas, const uint8_t *saved, struct stream *stream)
{
	const struct ol_ckpt_blocks *blocks = deltas->opts.blocks;

	stream_put(stream, saved, deltas->sizes.table_bytes);
	stream_put(stream, deltas->coded,
		   ol_deltas_coded_bytes(&deltas->sizes, deltas->coded_floats));
	for (uint32_t i = 0; i < deltas->full_count; i++) {
		const uint32_t index = deltas->which_full[i];

		for (uint32_t v = 0; v <= deltas->geo.state_vectors; v++)
			stream_put(stream,
				   saved + ol_running_part_off(&deltas->geo, blocks, index, v),
				   ol_ckpt_block_floats(blocks, index) * sizeof(float));
	}
	stream_put(stream, deltas->which, deltas->coded_count * sizeof(*deltas->which));
	stream_put(stream, deltas->which_full, deltas->full_count * sizeof(*deltas->which_full));
}

int ol_deltas_put(struct ol_deltas *deltas, const struct ol_ckpt_file *file,
		  const struct ol_ckpt_header *header, uint64_t turn, uint64_t version,
		  const uint8_t *saved, uint64_t *ret_bytes, char *why)
{
	const uint64_t off = ol_deltas_off(header, turn);
	struct stream stream = { .file = file,
				 .piece = deltas->piece,
				 .off = off + sizeof(struct ol_segment_head) };
	struct ol_segment_head head = { .turn = turn,
					.version = version,
					.coded = deltas->coded_count,
					.full = deltas->full_count };
	int rc;

	head.bytes = ol_deltas_bytes(header, ol_deltas_blocks(deltas), deltas->coded_floats,
				     deltas->full_floats);
	body_put(deltas, saved, &stream);
	stream_flush(&stream);
	head.body_crc = stream.crc;
	head.crc = ol_segment_crc(header, &head);
	rc = stream.rc;
	if (rc == 0)
		rc = ol_ckpt_write_at(file, &head, sizeof(head), off);
	*ret_bytes += head.bytes;
	if (rc != 0)
		return ol_ckpt_failed(why, rc, "cannot write the segment of turn %" PRIu64, turn);
	rc = ol_ckpt_sync_data(file);
	return rc == 0 ? 0
		       : ol_ckpt_failed(why, rc,
					"cannot make the segment of turn %" PRIu64 " durable",
					turn);
}
