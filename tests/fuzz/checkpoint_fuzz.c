/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * checkpoint_fuzz.c -- a checkpoint file of any content and name is refused, or has exactly the
 * format: the same header when it is made again, every block under its checksum; and a content that
 * is called sound has no number beyond its bound and no value that is not finite
 *
 * The first byte selects the form of the rest, since no fuzzer finds a checksum by chance:
 *
 *	0       a file as it is
 *	1       a file whose header gets its checksum
 *	2       the first 112 bytes of a header, then content; table and checksums are made for it
 *	3       a name
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/load.h"
#include "support/fuzz.h"
#include "wire/bounds.h"

enum {
	FIELDS = offsetof(struct ol_ckpt_header, reserved),
	FILE_MAX = 1 << 20,
};

static void put(int fd, const void *bytes, size_t count, uint64_t off)
{
	must(count == 0 || pwrite(fd, bytes, count, (off_t)off) == (ssize_t)count);
}

/* What fits a larger and a smaller table as well comes back the same. */
static void refit(const struct ol_geometry *geo, const uint8_t *content)
{
	struct ol_geometry more = *geo;
	char why[OL_CKPT_WHY_MAX];
	uint8_t *grown, *back;

	more.workers_max = OL_WORKERS_MAX;
	grown = malloc(ol_layout_content_bytes(&more));
	back = malloc(ol_layout_content_bytes(geo));
	must(grown != NULL && back != NULL);
	must(ol_ckpt_fit(geo, content, &more, NULL, grown, why));
	must(ol_ckpt_fit(&more, grown, geo, NULL, back, why));
	must(memcmp(back, content,
		    sizeof(struct ol_snapshot_head) +
			    geo->workers_max * sizeof(struct ol_applied)) == 0);
	must(memcmp(back + ol_layout_table_bytes(geo), content + ol_layout_table_bytes(geo),
		    ol_layout_content_bytes(geo) - ol_layout_table_bytes(geo)) == 0);
	free(grown);
	free(back);
}

/* What is called sound can be a server's, by a look of our own */
static void sound(const struct ol_ckpt_meta *meta, const uint8_t *content)
{
	const struct ol_geometry *geo = &meta->geo;
	const uint8_t *at = content + sizeof(struct ol_snapshot_head);
	char why[OL_CKPT_WHY_MAX] = "";
	uint64_t grads = 0;

	if (!ol_ckpt_content_sound(geo, meta, content, why)) {
		must(why[0] != '\0');
		return;
	}
	must(meta->version <= OL_VERSION_MAX && meta->epoch < OL_EPOCH_MAX);
	for (uint32_t i = 0; i < geo->workers_max; i++, at += sizeof(struct ol_applied)) {
		struct ol_applied applied;
		uint64_t tag;

		memcpy(&applied, at, sizeof(applied));
		tag = applied.seq >> OL_SEQ_COUNT_BITS;
		must(applied.seq == 0 ||
		     (tag != 0 && (applied.seq + 1) >> OL_SEQ_COUNT_BITS == tag));
		must(!__builtin_add_overflow(grads, applied.grads, &grads));
	}
	for (uint32_t v = 0; v <= geo->state_vectors; v++) {
		at = content + ol_layout_table_bytes(geo) + v * ol_layout_vector_bytes(geo);
		for (uint64_t i = 0; i < geo->shard_len; i++) {
			float value;

			memcpy(&value, at + i * sizeof(value), sizeof(value));
			must(isfinite(value));
		}
	}
}

static void try_file(int fd, uint64_t bytes)
{
	struct ol_ckpt_file file = { .ops = &ol_ckpt_files, .at = fd };
	struct ol_ckpt_header header, again;
	struct ol_ckpt_meta meta;
	char why[OL_CKPT_WHY_MAX] = "";
	uint8_t *content;

	if (ol_ckpt_load_header(&file, &header, why) != 0) {
		must(why[0] != '\0');
		return;
	}
	must(header.file_bytes == bytes);
	meta = (struct ol_ckpt_meta){ .geo = ol_ckpt_header_geo(&header),
				      .job_id = header.job_id,
				      .version = header.version,
				      .epoch = header.epoch,
				      .optimizer = header.optimizer };
	must(ol_ckpt_header_make(&meta, &again) == 0);
	must(memcmp(&again, &header, offsetof(struct ol_ckpt_header, table_crc)) == 0);
	must(ol_ckpt_header_wanted(&header, &meta, why));
	if (ol_ckpt_load_content(&file, &header, &content, why) != 0) {
		must(why[0] != '\0');
		return;
	}
	sound(&meta, content);
	refit(&meta.geo, content);
	free(content);
}

/* Mode 2: the file that this header wants, if it is not too large. */
static uint64_t build(int fd, const uint8_t *data, size_t bytes)
{
	struct ol_ckpt_header header = { .magic = 0 };
	uint64_t padded, content_bytes = bytes - FIELDS;
	uint32_t *table;
	uint8_t *content;

	memcpy(&header, data, FIELDS);
	padded = ol_round_up(content_bytes, OL_PAGE_BYTES);
	if (padded == 0 || header.table_bytes > FILE_MAX || header.table_bytes % 4 != 0 ||
	    (padded - 1) / OL_CKPT_BLOCK_BYTES >= header.table_bytes / 4)
		return 0;
	table = calloc(1, header.table_bytes);
	content = calloc(1, padded);
	must(table != NULL && content != NULL);
	memcpy(content, data + FIELDS, content_bytes);
	for (uint64_t at = 0; at < padded; at += OL_CKPT_BLOCK_BYTES)
		table[at / OL_CKPT_BLOCK_BYTES] = ol_ckpt_crc(
			content + at,
			padded - at < OL_CKPT_BLOCK_BYTES ? padded - at : OL_CKPT_BLOCK_BYTES);
	ol_ckpt_header_seal(&header, table);
	put(fd, &header, sizeof(header), 0);
	put(fd, table, header.table_bytes, sizeof(header));
	put(fd, content, padded, sizeof(header) + header.table_bytes);
	free(table);
	free(content);
	return sizeof(header) + header.table_bytes + padded;
}

static void try_name(const uint8_t *data, size_t bytes)
{
	char text[2 * OL_CKPT_NAME_MAX] = "", again[OL_CKPT_NAME_MAX];
	struct ol_ckpt_name name;

	memcpy(text, data, bytes < sizeof(text) ? bytes : sizeof(text) - 1);
	if (!ol_ckpt_name_parse(text, &name))
		return;
	ol_ckpt_name_format(&name, again);
	must(strcmp(text, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct ol_ckpt_header header;
	uint64_t file_bytes = bytes - 1;
	int fd;

	if (bytes == 0 || bytes > FILE_MAX)
		return 0;
	if (data[0] == 3) {
		try_name(data + 1, bytes - 1);
		return 0;
	}
	fd = memfd_create("checkpoint", MFD_CLOEXEC);
	must(fd >= 0);
	if (data[0] != 2) {
		put(fd, data + 1, bytes - 1, 0);
		if (data[0] == 1 && bytes > sizeof(header)) {
			memcpy(&header, data + 1, sizeof(header));
			header.header_crc =
				ol_ckpt_crc(&header, offsetof(struct ol_ckpt_header, header_crc));
			put(fd, &header, sizeof(header), 0);
		}
	} else {
		file_bytes = bytes > FIELDS ? build(fd, data + 1, bytes - 1) : 0;
	}
	try_file(fd, file_bytes);
	close(fd);
	return 0;
}
