/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * running_fuzz.c -- a damaged running checkpoint is refused and no byte of it is used, or is put
 * together from whole copies of saved blocks, with no number beyond its bound and only finite values
 *
 * The first byte: 0, the rest is the file. 1, the rest damages a file that the product has written:
 * some bytes, the header or one copy (with their checksums made anew), or its length. 2, the same of one of
 * int8 deltas, and its segments.
 */

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/blocks.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/deltas.h"
#include "checkpoint/running.h"
#include "fuzz/folder.h"
#include "outlast_server.h"
#include "support/fuzz.h"
#include "wire/bounds.h"

enum {
	FLOATS = 40,
	BLOCKS = 2,
	TURNS = 3,
	FILE_MAX = 1 << 17
};

static const uint64_t lengths[BLOCKS] = { 16, FLOATS - 16 };
static const struct ol_ckpt_meta wanted = { .geo = { .param_count = FLOATS,
						     .shard_len = FLOATS,
						     .shard_count = 1,
						     .workers_max = 2,
						     .window = 1,
						     .groups = 1,
						     .state_vectors = 1,
						     .consistency = OL_CONSISTENCY_ASYNC },
					    .job_id = 7,
					    .epoch = 1,
					    .optimizer = OL_OPTIMIZER_MOMENTUM };

static struct {
	char name[OL_CKPT_NAME_MAX];
	const char *names[1];
	const char *folder;
	struct ol_ckpt_blocks blocks;
	uint8_t *whole[2]; /* as the product has written it: blocks as they are, deltas */
	size_t bytes[2];
	size_t content_bytes;
} fuzz;

/* The input, what is left of it */
struct input {
	const uint8_t *at;
	size_t left;
};

static uint32_t number(struct input *in, unsigned bytes)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < bytes && in->left > 0; i++, in->left--)
		value |= (uint32_t)*in->at++ << (8 * i);
	return value;
}

/* One block at a time, so that copies are of different turns */
static uint32_t choose(void *arg, const double *distance, uint32_t *chosen)
{
	uint32_t *turn = arg;

	(void)distance;
	chosen[0] = (*turn)++ % BLOCKS;
	return 1;
}

/* A file after some turns, made once, in a folder of its own */
static void file_make(bool deltas)
{
	uint32_t turn = 0, renewed = 0;
	struct ol_ckpt_running_opts opts = { .blocks = &fuzz.blocks,
					     .choose = choose,
					     .choose_arg = &turn,
					     .format = deltas ? OL_FORMAT_INT8 : OL_FORMAT_FP32,
					     .fraction = 1.0,
					     .renew = choose,
					     .renew_arg = &renewed };
	char dir[] = "/tmp/outlast-fuzz-XXXXXX", path[128];
	uint8_t *content = calloc(1, fuzz.content_bytes);
	struct ol_ckpt_result result;
	struct ol_running *running;
	FILE *file;

	must(content != NULL && mkdtemp(dir) != NULL);
	must(ol_running_create(dir, &wanted, &opts, &running) == 0);
	renewed = deltas; /* not the one that is chosen */
	for (unsigned i = 0; i <= TURNS; i++) {
		memset(content + ol_layout_table_bytes(&wanted.geo), (int)i, FLOATS * 4);
		ol_running_take(running, content, i + 1, wanted.epoch, false);
		ol_running_write(running, &result);
		must(result.status == 0);
	}
	ol_running_destroy(running);
	free(content);
	snprintf(path, sizeof(path), "%s/%s", dir, fuzz.name);
	file = fopen(path, "rb");
	fuzz.whole[deltas] = malloc(FILE_MAX);
	must(file != NULL && fuzz.whole[deltas] != NULL);
	fuzz.bytes[deltas] = fread(fuzz.whole[deltas], 1, FILE_MAX, file);
	must(feof(file));
	fclose(file);
	unlink(path);
	rmdir(dir);
}

static void start(void)
{
	struct ol_ckpt_name name = ol_ckpt_name_of(&wanted);
	struct ol_ckpt_meta meta = wanted;
	uint8_t *content;
	char err[128];

	ol_log_sink_set(log_drop, NULL);
	name.running = true;
	name.version = 0;
	ol_ckpt_name_format(&name, fuzz.name);
	fuzz.names[0] = fuzz.name;
	fuzz.folder = folder_make(fuzz.names, 1);
	fuzz.content_bytes = ol_layout_content_bytes(&wanted.geo);
	must(ol_ckpt_blocks_make(lengths, BLOCKS, &wanted.geo, &fuzz.blocks, err, sizeof(err)) ==
	     0);
	content = malloc(fuzz.content_bytes);
	must(content != NULL);
	for (unsigned kind = 0; kind < 2; kind++) {
		file_make(kind == 1);
		/* what is not spoilt is read: otherwise this target would look at nothing */
		folder_write(0, fuzz.whole[kind], fuzz.bytes[kind]);
		meta = wanted;
		must(ol_ckpt_read_running(fuzz.folder, &fuzz.blocks, NULL, 0.0, &meta, content) ==
		     0);
		must(meta.version == TURNS + 1);
	}
	free(content);
}

static void patch(struct input *in, uint8_t *at, size_t bytes)
{
	for (uint32_t count = number(in, 1) & 7; count > 0; count--) {
		uint32_t off = number(in, 2) % (uint32_t)bytes;

		at[off] = (uint8_t)number(in, 1);
	}
}

/* A copy of a block, or of the table, that says something else and is whole all the same */
static void copy_spoil(struct input *in, uint8_t *file)
{
	struct ol_ckpt_header header;
	uint32_t which = number(in, 1), part = (which >> 1) % (BLOCKS + 1);
	uint64_t off = sizeof(header), bytes;

	memcpy(&header, fuzz.whole[0], sizeof(header));
	bytes = ol_running_bytes(&header, &fuzz.blocks, OL_RUNNING_TABLE);
	for (uint32_t i = 0; i < part; i++) {
		off += 2 * ol_running_stride(bytes);
		bytes = ol_running_bytes(&header, &fuzz.blocks, i);
	}
	off += (which & 1) * ol_running_stride(bytes);
	must(off + bytes <= fuzz.bytes[0]);
	patch(in, file + off, bytes);
	ol_running_seal(&header, file + off, bytes);
}

/* The same of a segment */
static void segment_spoil(struct input *in, uint8_t *file)
{
	const uint64_t turn = number(in, 1) % (TURNS + 1);
	struct ol_ckpt_header header;
	struct ol_segment_head head;
	uint64_t off, room;

	memcpy(&header, fuzz.whole[1], sizeof(header));
	off = ol_deltas_off(&header, turn);
	room = ol_deltas_room(&header, turn);
	must(off + room <= fuzz.bytes[1]);
	memcpy(&head, file + off, sizeof(head));
	patch(in, file + off, head.bytes > 0 && head.bytes <= room ? head.bytes : room);
	memcpy(&head, file + off, sizeof(head));
	if (head.bytes >= sizeof(head) && head.bytes <= room)
		head.body_crc = ol_ckpt_crc(file + off + sizeof(head), head.bytes - sizeof(head));
	head.crc = ol_segment_crc(&header, &head);
	memcpy(file + off, &head, sizeof(head));
}

static size_t spoil(struct input *in, unsigned kind, uint8_t *file)
{
	size_t bytes = fuzz.bytes[kind];
	struct ol_ckpt_header header;

	memcpy(file, fuzz.whole[kind], fuzz.bytes[kind]);
	while (in->left > 0) {
		switch (number(in, 1) & 3) {
		case 0:
			patch(in, file, fuzz.bytes[kind]);
			break;
		case 1:
			if (kind == 0)
				copy_spoil(in, file);
			else
				segment_spoil(in, file);
			break;
		case 2:
			memcpy(&header, file, sizeof(header));
			patch(in, (uint8_t *)&header, kind == 0 ? 128 : sizeof(header));
			header.header_crc =
				ol_ckpt_crc(&header, offsetof(struct ol_ckpt_header, header_crc));
			memcpy(file, &header, sizeof(header));
			break;
		case 3:
			bytes = number(in, kind == 0 ? 2 : 3) % (fuzz.bytes[kind] + 1);
			break;
		}
	}
	return bytes;
}

/* What is restored can be a server's, by a look of our own */
static void sound(const uint8_t *content)
{
	const uint8_t *at = content + sizeof(struct ol_snapshot_head);

	for (uint32_t i = 0; i < wanted.geo.workers_max; i++, at += sizeof(struct ol_applied)) {
		struct ol_applied applied;
		uint64_t tag;

		memcpy(&applied, at, sizeof(applied));
		tag = applied.seq >> OL_SEQ_COUNT_BITS;
		must(applied.seq == 0 ||
		     (tag != 0 && (applied.seq + 1) >> OL_SEQ_COUNT_BITS == tag));
		must(applied.earlier <= applied.grads && applied.grads <= OL_GRADS_MAX);
	}
	for (uint32_t v = 0; v <= wanted.geo.state_vectors; v++) {
		at = content + ol_layout_table_bytes(&wanted.geo) +
		     v * ol_layout_vector_bytes(&wanted.geo);
		for (uint64_t i = 0; i < FLOATS; i++) {
			float value;

			memcpy(&value, at + i * sizeof(value), sizeof(value));
			must(isfinite(value));
		}
	}
}

static void try_read(void)
{
	struct ol_ckpt_meta meta = wanted, floor = { .epoch = 1, .version = 2 };
	uint8_t *content = malloc(fuzz.content_bytes);

	must(content != NULL);
	memset(content, 0xa5, fuzz.content_bytes);
	if (ol_ckpt_read_running(fuzz.folder, &fuzz.blocks, NULL, 1.0, &meta, content) != 0) {
		for (size_t i = 0; i < fuzz.content_bytes; i++)
			must(content[i] == 0xa5);
	} else {
		must(meta.epoch == wanted.epoch && meta.version <= OL_VERSION_MAX);
		sound(content);
		if (ol_ckpt_read_running(fuzz.folder, &fuzz.blocks, &floor, 0.0, &meta, content) ==
		    0)
			must(meta.version > floor.version);
	}
	free(content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { .at = data + 1, .left = bytes - 1 };
	uint8_t *file;
	size_t size;

	if (fuzz.whole[0] == NULL)
		start();
	if (bytes == 0 || bytes > FILE_MAX || data[0] > 2)
		return 0;
	file = malloc(FILE_MAX);
	must(file != NULL);
	if (data[0] == 0) {
		folder_write(0, data + 1, bytes - 1);
	} else {
		size = spoil(&in, data[0] - 1U, file);
		folder_write(0, file, size);
	}
	free(file);
	try_read();
	return 0;
}
