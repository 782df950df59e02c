/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * running_test.c -- each block of a running checkpoint is restored as it was saved last, with the
 * newest table; if a turn is torn, the turn before it is restored whole
 */
#include "running_util.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

/* The next turn's blocks, from a seed */
static void choice_draw(struct choice *choice, uint64_t seed)
{
	choice->count = 0;
	for (uint32_t i = 0; i < choice->block_count; i++) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		if (seed >> 62 == 0)
			choice->blocks[choice->count++] = i;
	}
}

static void choice_set(struct choice *choice, uint32_t count, const uint32_t *blocks)
{
	choice->count = count;
	memcpy(choice->blocks, blocks, count * sizeof(*blocks));
}

/* What must come back after the turns up to now; starts with turn 0 */
static uint8_t *expect_start(const struct ol_ckpt_meta *meta, uint64_t version)
{
	return content_clean(&meta->geo, version);
}

static void expect_turn(const struct ol_ckpt_meta *meta, const struct ol_ckpt_blocks *blocks,
			const struct choice *choice, uint64_t version, uint8_t *expect)
{
	uint8_t *content = content_clean(&meta->geo, version);

	mix(meta, blocks, choice, content, expect);
	free(content);
}

static void check_restored(const char *dir, const struct ol_ckpt_blocks *blocks,
			   const struct ol_ckpt_meta *wanted, uint64_t version,
			   const uint8_t *expect)
{
	uint64_t bytes = ol_layout_content_bytes(&wanted->geo);
	struct ol_ckpt_meta meta = *wanted;
	uint8_t *content = malloc(bytes);

	check(content != NULL);
	check_ok(restored(dir, blocks, &meta, content));
	check_eq(meta.version, version);
	check_eq(meta.epoch, wanted->epoch);
	check(memcmp(content, expect, bytes) == 0);
	free(content);
}

static void every_block_comes_back_as_it_was_saved_last(void **state)
{
	struct ol_ckpt_meta meta = meta_of(4, 0);
	uint64_t lengths[] = { 30000, 21000, 1, 999, 24000, 3000, 21000 };
	struct ol_ckpt_blocks blocks = blocks_of(&meta, lengths, 7);
	struct choice choice = { 0 };
	struct ol_running *running = running_of(*state, &meta, &blocks, &choice);
	struct ol_ckpt_result result = turn(running, &meta.geo, 7, 4, false);
	uint8_t *expect = expect_start(&meta, 7);
	unsigned dotted;

	check_eq(blocks.count, 6); /* the shard begins within the second */
	assert_int_equal(result.status, 0);
	assert_true(result.whole && result.blocks == 6);
	check_restored(*state, &blocks, &meta, 7, expect);
	for (uint64_t version = 8; version < 40; version++) {
		choice_draw(&choice, version);
		result = turn(running, &meta.geo, version, 4, version == 20);
		assert_int_equal(result.status, 0);
		assert_int_equal(result.version, 0); /* the writer's to set */
		if (version == 20) {
			assert_true(result.whole);
			free(expect);
			expect = expect_start(&meta, 20);
		} else {
			assert_int_equal(result.blocks, choice.count);
			assert_int_equal(result.whole, choice.count == 6);
			expect_turn(&meta, &blocks, &choice, version, expect);
		}
		check_restored(*state, &blocks, &meta, version, expect);
	}
	assert_int_equal(files_in(*state, &dotted), 1);
	assert_int_equal(logged.lines, 0);
	ol_running_destroy(running);
	check_restored(*state, &blocks, &meta, 39, expect);
	free(expect);
	ol_ckpt_blocks_fini(&blocks);
}

/* From x = 0 in one step: each block has moved as far as its own elements say */
static void distances_are_those_to_what_was_saved_last(void **state)
{
	struct ol_ckpt_meta meta = tiny_meta(1);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	uint64_t bytes = ol_layout_content_bytes(&meta.geo);
	struct choice choice = { .count = 1, .blocks = { 2 } };
	struct ol_running *running = running_of(*state, &meta, &blocks, &choice);
	struct ol_ckpt_result result = { 0 };
	uint8_t *content = calloc(1, bytes);
	float *w = (float *)(void *)(content + ol_layout_table_bytes(&meta.geo));

	check(content != NULL);
	ol_running_take(running, content, 0, 1, false);
	ol_running_write(running, &result);
	assert_int_equal(result.status, 0);
	for (uint32_t i = 0; i < meta.geo.shard_len; i++)
		w[i] = 2.0f;
	ol_running_take(running, content, 1, 1, false);
	ol_running_write(running, &result);
	assert_true(choice.measured);
	for (uint32_t i = 0; i < blocks.count; i++)
		assert_true(fabs(choice.distance[i] -
				 2.0 * sqrt((double)ol_ckpt_block_floats(&blocks, i))) < 1e-12);
	w[0] = 5.0f;
	w[6] = NAN;
	ol_running_take(running, content, 2, 1, false);
	assert_true(fabs(choice.distance[0] - sqrt(4.0 * 4 + 25.0)) < 1e-12);
	assert_true(isinf(choice.distance[2])); /* index 6 lies in it */
	assert_true(fabs(choice.distance[3] - 2.0 * sqrt(10.0)) < 1e-12);
	ol_running_destroy(running);
	free(content);
	ol_ckpt_blocks_fini(&blocks);
}

/* The whole of a small file */
struct image {
	uint8_t bytes[1 << 17];
	size_t count;
};

static void image_load(struct image *image, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = read(fd, image->bytes, sizeof(image->bytes));

	check(fd >= 0 && got > 0 && (size_t)got < sizeof(image->bytes));
	image->count = (size_t)got;
	close(fd);
}

static void image_store(const struct image *image, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	check(fd >= 0);
	check_eq(write(fd, image->bytes, image->count), image->count);
	close(fd);
}

static void image_put(const char *path, const uint8_t *bytes, size_t count, size_t off)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	check(fd >= 0);
	check_eq(pwrite(fd, bytes + off, count, (off_t)off), count);
	close(fd);
}

/* A file after three turns, and after a fourth: which bytes that one wrote, in its order */
struct torn {
	struct ol_ckpt_meta meta;
	struct ol_ckpt_blocks blocks;
	struct choice choice; /* of the fourth */
	struct image before, after;
	uint8_t *expect_before, *expect_after;
	char path[CKPT_PATH];
};

static void torn_open(struct torn *torn, const char *dir)
{
	static const uint32_t second[] = { 0, 2 }, third[] = { 1, 2 }, fourth[] = { 0, 2, 3 };
	struct ol_running *running;
	uint64_t bytes;

	torn->meta = tiny_meta(2);
	torn->blocks = tiny_blocks(&torn->meta);
	running = running_of(dir, &torn->meta, &torn->blocks, &torn->choice);
	running_path(dir, &torn->meta, torn->path);
	check_ok(turn(running, &torn->meta.geo, 10, 2, false).status);
	torn->expect_before = expect_start(&torn->meta, 10);
	choice_set(&torn->choice, 2, second);
	check_ok(turn(running, &torn->meta.geo, 11, 2, false).status);
	expect_turn(&torn->meta, &torn->blocks, &torn->choice, 11, torn->expect_before);
	choice_set(&torn->choice, 2, third);
	check_ok(turn(running, &torn->meta.geo, 12, 2, false).status);
	expect_turn(&torn->meta, &torn->blocks, &torn->choice, 12, torn->expect_before);
	image_load(&torn->before, torn->path);
	choice_set(&torn->choice, 3, fourth);
	check_ok(turn(running, &torn->meta.geo, 13, 2, false).status);
	image_load(&torn->after, torn->path);
	bytes = ol_layout_content_bytes(&torn->meta.geo);
	torn->expect_after = malloc(bytes);
	check(torn->expect_after != NULL);
	memcpy(torn->expect_after, torn->expect_before, bytes);
	expect_turn(&torn->meta, &torn->blocks, &torn->choice, 13, torn->expect_after);
	check_eq(torn->before.count, torn->after.count);
	ol_running_destroy(running);
}

static void torn_close(struct torn *torn)
{
	ol_ckpt_blocks_fini(&torn->blocks);
	free(torn->expect_before);
	free(torn->expect_after);
}

/* Where a copy of a block (or the table) is that has this turn in its head */
static size_t copy_at(const struct torn *torn, const struct image *image, uint32_t index,
		      uint64_t of_turn)
{
	struct ol_ckpt_header header;
	size_t off = sizeof(header), stride;

	memcpy(&header, image->bytes, sizeof(header));
	if (index != OL_RUNNING_TABLE) {
		off += 2 * ol_running_stride(header.table_bytes);
		for (uint32_t i = 0; i < index; i++)
			off += 2 * ol_running_stride(ol_running_bytes(&header, &torn->blocks, i));
	}
	stride = ol_running_stride(ol_running_bytes(&header, &torn->blocks, index));
	for (unsigned copy = 0; copy < 2; copy++) {
		struct ol_running_head head;

		memcpy(&head, image->bytes + off + copy * stride, sizeof(head));
		if (head.turn == of_turn && head.version == 10 + of_turn && head.index == index)
			return off + copy * stride;
	}
	check_msg(false, "no copy of block %u, turn %ju", index, (uintmax_t)of_turn);
	return 0;
}

static size_t copy_bytes(const struct torn *torn, uint32_t index)
{
	struct ol_ckpt_header header;

	memcpy(&header, torn->after.bytes, sizeof(header));
	return ol_running_bytes(&header, &torn->blocks, index);
}

/* A power cut before the blocks are durable: any of their sectors may be there, in any order. */
static void whichever_pages_of_a_turn_are_there_the_one_before_is_whole(void **state)
{
	static struct torn torn;
	static struct image image;
	uint64_t seed = 1;

	torn = (struct torn){ 0 };
	torn_open(&torn, *state);
	for (unsigned trial = 0; trial < 300; trial++) {
		uint32_t blocks[3] = { 0, 2, 3 };

		image = torn.before;
		for (unsigned i = 0; i < 3; i++) {
			size_t off = copy_at(&torn, &torn.after, blocks[i], 3);

			for (size_t at = 0; at < copy_bytes(&torn, blocks[i]); at += 16) {
				seed = seed * UINT64_C(6364136223846793005) + 1;
				if (seed >> 63 != 0)
					memcpy(image.bytes + off + at, torn.after.bytes + off + at,
					       16);
				else if (seed >> 60 == 0) /* or neither the old nor the new */
					memset(image.bytes + off + at, 0xa5, 16);
			}
		}
		image_store(&image, torn.path);
		check_restored(*state, &torn.blocks, &torn.meta, 12, torn.expect_before);
	}
	torn_close(&torn);
}

static void torn_at_any_byte_of_a_turn_the_one_before_is_there(void **state)
{
	static struct torn torn;
	uint32_t order[4] = { 0, 2, 3, OL_RUNNING_TABLE };
	unsigned before = 0, after = 0;

	torn = (struct torn){ 0 };
	torn_open(&torn, *state);
	image_store(&torn.before, torn.path);
	for (unsigned i = 0; i < 4; i++) {
		size_t off = copy_at(&torn, &torn.after, order[i], 3);
		size_t bytes = copy_bytes(&torn, order[i]);

		/* over an older one, and beside it nothing */
		for (size_t at = 0; at < bytes; at++) {
			struct ol_ckpt_meta meta = torn.meta;
			uint8_t *content = malloc(ol_layout_content_bytes(&meta.geo));
			bool whole;

			image_put(torn.path, torn.after.bytes, 1, off + at);
			check(content != NULL);
			check_ok(restored(*state, &torn.blocks, &meta, content));
			whole = meta.version == 13;
			check(whole || meta.version == 12);
			check(!whole || order[i] == OL_RUNNING_TABLE);
			check(memcmp(content, whole ? torn.expect_after : torn.expect_before,
				     ol_layout_content_bytes(&meta.geo)) == 0);
			before += !whole;
			after += whole;
			free(content);
		}
	}
	assert_true(after >= 1); /* the last byte at the latest, or if it was so before */
	assert_true(before > 3 * 24);
	assert_int_equal(logged.lines, 0);
	print_message("torn at %u bytes: %u times the turn before, %u times this one\n",
		      before + after, before, after);
	torn_close(&torn);
}

/* The content with one block of the turn before */
static void expect_older(const struct torn *torn, uint32_t index, uint8_t *expect)
{
	struct choice one = { .count = 1, .blocks = { index } };
	struct choice table = { .count = 0 };

	memcpy(expect, torn->expect_after, ol_layout_content_bytes(&torn->meta.geo));
	mix(&torn->meta, &torn->blocks, &one, torn->expect_before, expect);
	mix(&torn->meta, &torn->blocks, &table, torn->expect_after, expect);
}

static void a_copy_with_any_bit_flipped_is_not_used(void **state)
{
	static struct torn torn;
	uint32_t blocks[3] = { 0, 2, 3 };
	uint8_t *expect;

	torn = (struct torn){ 0 };
	torn_open(&torn, *state);
	expect = malloc(ol_layout_content_bytes(&torn.meta.geo));
	check(expect != NULL);
	for (unsigned i = 0; i < 3; i++) {
		size_t off = copy_at(&torn, &torn.after, blocks[i], 3);
		int fd = open(torn.path, O_RDWR | O_CLOEXEC);

		expect_older(&torn, blocks[i], expect);
		for (size_t at = 0; at < copy_bytes(&torn, blocks[i]); at++) {
			flip(fd, off + at, at % 8);
			check_restored(*state, &torn.blocks, &torn.meta, 13, expect);
			flip(fd, off + at, at % 8);
		}
		close(fd);
	}
	/* of the table: back to the turn before, whole, though the blocks are newer */
	for (size_t at = 0; at < copy_bytes(&torn, OL_RUNNING_TABLE); at++) {
		int fd = open(torn.path, O_RDWR | O_CLOEXEC);
		size_t off = copy_at(&torn, &torn.after, OL_RUNNING_TABLE, 3);

		flip(fd, off + at, at % 8);
		check_restored(*state, &torn.blocks, &torn.meta, 12, torn.expect_before);
		flip(fd, off + at, at % 8);
		close(fd);
	}
	check_restored(*state, &torn.blocks, &torn.meta, 13, torn.expect_after);
	free(expect);
	torn_close(&torn);
}

static void a_block_without_a_whole_copy_is_named_and_the_file_refused(void **state)
{
	static struct torn torn;
	struct ol_ckpt_meta meta;
	uint8_t *content;
	int fd;

	torn = (struct torn){ 0 };
	torn_open(&torn, *state);
	meta = torn.meta;
	content = malloc(ol_layout_content_bytes(&meta.geo));
	check(content != NULL);
	fd = open(torn.path, O_RDWR | O_CLOEXEC);
	flip(fd, copy_at(&torn, &torn.after, 2, 3) + 30, 0);
	flip(fd, copy_at(&torn, &torn.after, 2, 2) + 30, 0);
	assert_int_equal(restored(*state, &torn.blocks, &meta, content), OL_E_NO_CHECKPOINT);
	assert_int_equal(logged.lines, 1);
	assert_non_null(strstr(logged.text, "run-feedbeef00c0ffee-s1-e0000000002.olc"));
	assert_non_null(strstr(logged.text, "block 2 of 4: neither of its copies is whole"));
	/* one that is newer than the table has updates that would be pushed again */
	flip(fd, copy_at(&torn, &torn.after, 2, 3) + 30, 0);
	flip(fd, copy_at(&torn, &torn.after, OL_RUNNING_TABLE, 3) + 30, 0);
	log_forget();
	assert_int_equal(restored(*state, &torn.blocks, &meta, content), OL_E_NO_CHECKPOINT);
	assert_int_equal(logged.lines, 1);
	assert_non_null(strstr(logged.text, "block 2 of 4: only a copy that is newer than the "
					    "table is whole: updates would take effect twice"));
	flip(fd, copy_at(&torn, &torn.after, OL_RUNNING_TABLE, 2) + 30, 0);
	log_forget();
	meta = torn.meta;
	assert_int_equal(restored(*state, &torn.blocks, &meta, content), OL_E_NO_CHECKPOINT);
	assert_non_null(strstr(logged.text, "table: neither of its copies is whole"));
	close(fd);
	free(content);
	torn_close(&torn);
}

static int read_as(const char *dir, struct ol_ckpt_meta meta, const struct ol_ckpt_blocks *blocks)
{
	uint8_t *content = malloc(ol_layout_content_bytes(&meta.geo));
	int rc;

	check(content != NULL);
	log_forget();
	rc = restored(dir, blocks, &meta, content);
	free(content);
	return rc;
}

static void another_jobs_geometrys_or_partitions_file_is_refused(void **state)
{
	static struct torn torn;
	static const uint64_t other_lengths[] = { 1000, 28, 2, 20, 10 };
	struct ol_ckpt_meta meta;
	struct ol_ckpt_blocks other;
	int fd;

	torn = (struct torn){ 0 };
	torn_open(&torn, *state);
	other = blocks_of(&torn.meta, other_lengths, 5);
	assert_int_equal(read_as(*state, torn.meta, &other), OL_E_NO_CHECKPOINT);
	assert_int_equal(logged.lines, 1);
	assert_non_null(strstr(logged.text, "blocks are of partition"));
	meta = torn.meta;
	meta.job_id++;
	assert_int_equal(read_as(*state, meta, &torn.blocks), OL_E_NO_CHECKPOINT);
	assert_non_null(strstr(logged.text, "it is of job"));
	meta = torn.meta;
	meta.optimizer = OL_OPTIMIZER_ADAMW;
	assert_int_equal(read_as(*state, meta, &torn.blocks), OL_E_NO_CHECKPOINT);
	assert_non_null(strstr(logged.text, "wanted is adamw"));
	meta = torn.meta;
	meta.geo.param_count++;
	meta.geo.shard_len++;
	assert_int_equal(read_as(*state, meta, &torn.blocks), OL_E_NO_CHECKPOINT);
	assert_int_equal(logged.lines, 1);
	meta = torn.meta;
	meta.geo.shard = 0;
	check_ok(ol_shard_span(1060, 2, 0, &meta.geo.shard_first, &meta.geo.shard_len));
	assert_int_equal(read_as(*state, meta, &torn.blocks), -ENOENT); /* none of that shard */
	fd = open(torn.path, O_RDWR | O_CLOEXEC);
	for (size_t at = 0; at < sizeof(struct ol_ckpt_header); at++) {
		flip(fd, at, at % 8);
		assert_int_equal(read_as(*state, torn.meta, &torn.blocks), OL_E_NO_CHECKPOINT);
		assert_int_equal(logged.lines, 1);
		flip(fd, at, at % 8);
	}
	check_ok(ftruncate(fd, (off_t)torn.after.count + 1));
	assert_int_equal(read_as(*state, torn.meta, &torn.blocks), OL_E_NO_CHECKPOINT);
	for (size_t bytes = 0; bytes < torn.after.count; bytes += 1000) {
		check_ok(ftruncate(fd, (off_t)bytes));
		assert_int_equal(read_as(*state, torn.meta, &torn.blocks), OL_E_NO_CHECKPOINT);
	}
	close(fd);
	image_store(&torn.after, torn.path);
	check_restored(*state, &torn.blocks, &torn.meta, 13, torn.expect_after);
	ol_ckpt_blocks_fini(&other);
	torn_close(&torn);
}

static void a_whole_file_of_other_numbers_is_refused(void **state)
{
	static struct torn torn;
	struct ol_ckpt_header good, header;
	struct image forged;

	torn = (struct torn){ 0 };
	torn_open(&torn, *state);
	memcpy(&good, torn.after.bytes, sizeof(good));
	forged = torn.after;
	for (size_t at = offsetof(struct ol_ckpt_header, format);
	     at < offsetof(struct ol_ckpt_header, header_crc); at++) {
		if (at / 8 == offsetof(struct ol_ckpt_header, version) / 8)
			continue; /* of the first turn: nothing follows from it */
		header = good;
		((uint8_t *)&header)[at] ^= 1;
		header.header_crc =
			ol_ckpt_crc(&header, offsetof(struct ol_ckpt_header, header_crc));
		memcpy(forged.bytes, &header, sizeof(header));
		image_store(&forged, torn.path);
		assert_int_equal(read_as(*state, torn.meta, &torn.blocks), OL_E_NO_CHECKPOINT);
		assert_int_equal(logged.lines, 1);
	}
	/* and with the right header its blocks are not those of another file */
	header = good;
	header.version++;
	header.header_crc = ol_ckpt_crc(&header, offsetof(struct ol_ckpt_header, header_crc));
	memcpy(forged.bytes, &header, sizeof(header));
	image_store(&forged, torn.path);
	assert_int_equal(read_as(*state, torn.meta, &torn.blocks), OL_E_NO_CHECKPOINT);
	torn_close(&torn);
}

static void a_partition_must_be_the_vector(void **state)
{
	struct ol_ckpt_meta meta = tiny_meta(1);
	static const struct {
		uint64_t lengths[3];
		uint32_t count;
		const char *says;
	} bad[] = {
		{ { 1000, 59 }, 2, "2 blocks are 1059 floats, and the vector has 1060" },
		{ { 1000, 61 }, 2, "block 1 of the partition: 61 floats from 1000 on" },
		{ { 1000, 0, 60 }, 3, "block 1 of the partition: 0 floats from 1000 on" },
		{ { 1060, 1 }, 2, "block 1 of the partition" },
		{ { UINT64_MAX, 1061 }, 2, "block 0 of the partition" },
		{ { 0 }, 0, "0 blocks are 0 floats" },
	};
	struct ol_ckpt_blocks blocks, again;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char err[CKPT_ERR] = "";

		assert_int_equal(ol_ckpt_blocks_make(bad[i].lengths, bad[i].count, &meta.geo,
						     &blocks, err, sizeof(err)),
				 -EINVAL);
		assert_non_null(strstr(err, bad[i].says));
	}
	meta = meta_of(1, 0); /* without one: all alike */
	blocks = blocks_of(&meta, NULL, 0);
	assert_int_equal(blocks.count, (meta.geo.shard_len + 1023) / 1024);
	for (uint32_t i = 0; i <= blocks.count; i++)
		assert_int_equal(blocks.first[i], i < blocks.count ? i * 1024 : meta.geo.shard_len);
	meta.geo.shard = 0;
	check_ok(ol_shard_span(meta.geo.param_count, 2, 0, &meta.geo.shard_first,
			       &meta.geo.shard_len));
	again = blocks_of(&meta, NULL, 0);
	assert_true(again.digest == blocks.digest); /* the job's, not the shard's */
	ol_ckpt_blocks_fini(&blocks);
	ol_ckpt_blocks_fini(&again);
}

/* S6: r every r * C steps is as much as everything every C */
static void as_many_bytes_are_written_as_by_full_checkpoints(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 0);
	enum {
		TURNS = 8
	};
	struct ol_ckpt_header full;
	struct ol_ckpt_blocks blocks;
	struct choice choice = { 0 };
	struct ol_running *running;
	uint64_t bytes = 0;

	meta.geo.param_count = meta.geo.shard_len = 813258; /* the CNN */
	meta.geo.shard = 0;
	meta.geo.shard_first = 0;
	meta.geo.shard_count = 1;
	meta.geo.state_vectors = 0;
	meta.optimizer = OL_OPTIMIZER_SGD;
	blocks = blocks_of(&meta, NULL, 0);
	running = running_of(*state, &meta, &blocks, &choice);
	check_ok(turn(running, &meta.geo, 0, 1, false).status);
	for (uint32_t i = 0; i < TURNS; i++) {
		struct ol_ckpt_result result;

		choice.count = 0;
		for (uint32_t at = i; at < blocks.count; at += TURNS)
			choice.blocks[choice.count++] = at;
		result = turn(running, &meta.geo, 1 + i, 1, false);
		check_ok(result.status);
		bytes += result.bytes;
	}
	check_ok(ol_ckpt_header_make(&meta, &full));
	print_message("%ju bytes in %d turns, a full one has %ju: %+.2f %%\n", (uintmax_t)bytes,
		      TURNS, (uintmax_t)full.file_bytes,
		      100.0 * ((double)bytes / (double)full.file_bytes - 1.0));
	assert_true(fabs((double)bytes / (double)full.file_bytes - 1.0) < 0.01);
	ol_running_destroy(running);
	ol_ckpt_blocks_fini(&blocks);
}

static void a_file_that_is_removed_or_cannot_be_written_is_made_anew(void **state)
{
	struct rlimit before, low = { 0 };
	struct ol_ckpt_meta meta = tiny_meta(2);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct choice choice = { .count = 1, .blocks = { 3 } };
	struct ol_running *running = running_of(*state, &meta, &blocks, &choice);
	struct ol_ckpt_result result;
	char path[CKPT_PATH];
	uint8_t *expect;
	sigset_t file_size;

	running_path(*state, &meta, path);
	check_ok(turn(running, &meta.geo, 1, 2, false).status);
	check_ok(unlink(path));
	result = turn(running, &meta.geo, 2, 2, false);
	assert_true(result.status == 0 && result.whole);
	expect = expect_start(&meta, 2);
	check_restored(*state, &blocks, &meta, 2, expect);
	/* fails in the middle: what was there stays, and the next turn begins anew */
	sigemptyset(&file_size);
	sigaddset(&file_size, SIGXFSZ);
	check_ok(sigprocmask(SIG_BLOCK, &file_size, NULL));
	check_ok(getrlimit(RLIMIT_FSIZE, &before));
	low = (struct rlimit){ .rlim_cur = 8192, .rlim_max = before.rlim_max };
	check_ok(setrlimit(RLIMIT_FSIZE, &low));
	result = turn(running, &meta.geo, 3, 2, false);
	check_ok(setrlimit(RLIMIT_FSIZE, &before));
	assert_int_equal(result.status, -EFBIG);
	assert_int_equal(result.bytes, 0);
	assert_non_null(strstr(result.err, "run-feedbeef00c0ffee-s1-e0000000002.olc: cannot write "
					   "block 3 of 4: File too large; raise the limit"));
	check_restored(*state, &blocks, &meta, 2, expect);
	result = turn(running, &meta.geo, 4, 2, false);
	assert_true(result.status == 0 && result.whole);
	free(expect);
	expect = expect_start(&meta, 4);
	check_restored(*state, &blocks, &meta, 4, expect);
	free(expect);
	ol_running_destroy(running);
	ol_ckpt_blocks_fini(&blocks);
}

static void what_an_older_server_writes_is_not_seen_by_a_newer(void **state)
{
	struct ol_ckpt_meta meta = tiny_meta(2), found;
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct choice old_choice = { .count = 1, .blocks = { 1 } }, choice = old_choice;
	struct ol_running *old = running_of(*state, &meta, &blocks, &old_choice);
	struct ol_running *running = running_of(*state, &meta, &blocks, &choice);
	uint8_t *expect, *content = malloc(ol_layout_content_bytes(&meta.geo));
	unsigned dotted;

	check(content != NULL);
	check_ok(turn(old, &meta.geo, 50, 2, false).status);
	meta.epoch = 3;
	check_ok(turn(running, &meta.geo, 20, 3, false).status);
	assert_int_equal(files_in(*state, &dotted), 1); /* the old one's is gone */
	expect = expect_start(&meta, 20);
	/* it wakes up: its file has no name, and of what it makes anew nothing is wanted */
	check_ok(turn(old, &meta.geo, 51, 2, false).status);
	check_restored(*state, &blocks, &meta, 20, expect);
	check_ok(turn(old, &meta.geo, 52, 2, true).status);
	check_restored(*state, &blocks, &meta, 20, expect);
	check_ok(turn(running, &meta.geo, 21, 3, true).status);
	free(expect);
	expect = expect_start(&meta, 21);
	check_restored(*state, &blocks, &meta, 21, expect);
	/* only what is newer than a floor */
	for (uint32_t epoch = 2; epoch <= 4; epoch++) {
		for (uint64_t version = 20; version <= 22; version++) {
			struct ol_ckpt_meta floor = { .epoch = epoch, .version = version };
			int want = epoch < 3 || (epoch == 3 && version < 21) ? 0 : -ENOENT;

			found = meta;
			assert_int_equal(
				ol_ckpt_read_running(*state, &blocks, &floor, 0.0, &found, content),
				want);
		}
	}
	free(expect);
	free(content);
	ol_running_destroy(old);
	ol_running_destroy(running);
	ol_ckpt_blocks_fini(&blocks);
}

static void workers_may_become_more_and_none_that_has_pushed_is_forgotten(void **state)
{
	struct ol_ckpt_meta meta = tiny_meta(2), more = meta, fewer = meta;
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct choice choice = { 0 };
	struct ol_running *running = running_of(*state, &meta, &blocks, &choice);
	uint8_t *content, *from = content_clean(&meta.geo, 5);

	check_ok(turn(running, &meta.geo, 5, 2, false).status);
	more.geo.workers_max = 40;
	content = malloc(ol_layout_content_bytes(&more.geo));
	check(content != NULL);
	check_ok(restored(*state, &blocks, &more, content));
	assert_memory_equal(content, from, sizeof(struct ol_snapshot_head) + 3 * 16);
	assert_memory_equal(content + ol_layout_table_bytes(&more.geo),
			    from + ol_layout_table_bytes(&meta.geo),
			    3 * ol_layout_vector_bytes(&meta.geo));
	fewer.geo.workers_max = 2;
	assert_int_equal(read_as(*state, fewer, &blocks), OL_E_GEOMETRY);
	assert_non_null(strstr(logged.text, "holds gradients of worker 2"));
	free(content);
	free(from);
	ol_running_destroy(running);
	ol_ckpt_blocks_fini(&blocks);
}

static void the_thread_writes_what_is_chosen_and_all_at_the_end(void **state)
{
	struct ol_ckpt_meta meta = tiny_meta(6);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct choice choice = { .count = 2, .blocks = { 0, 3 }, .block_count = blocks.count };
	struct ol_ckpt_running_opts opts = { .blocks = &blocks,
					     .choose = choose_made,
					     .choose_arg = &choice };
	struct ol_ckpt_writer *writer = NULL;
	struct ol_ckpt_result result;
	uint8_t *expect = expect_start(&meta, 0);
	char err[CKPT_ERR] = "";

	check_ok(ol_ckpt_writer_start_running(*state, &meta, &opts, &writer, err, sizeof(err)));
	for (uint64_t version = 0; version < 6; version++) {
		uint8_t *content = content_clean(&meta.geo, version);

		if (version < 5)
			assert_true(ol_ckpt_writer_begin(writer, content, version, 6));
		else
			assert_true(ol_ckpt_writer_begin_whole(writer, content, version, 6));
		ol_ckpt_writer_wait(writer);
		assert_int_equal(ol_ckpt_writer_poll(writer, &result), OL_CKPT_DONE);
		assert_int_equal(result.status, 0);
		assert_int_equal(result.version, version);
		assert_int_equal(result.whole, version == 0 || version == 5);
		assert_int_equal(result.blocks, result.whole ? 4 : 2);
		assert_true(result.copy_ns > 0 && result.copy_ns <= result.duration_ns);
		if (result.whole)
			memcpy(expect, content, ol_layout_content_bytes(&meta.geo));
		else
			mix(&meta, &blocks, &choice, content, expect);
		free(content);
		check_restored(*state, &blocks, &meta, version, expect);
	}
	assert_false(choice.measured);
	ol_ckpt_writer_stop(writer);
	free(expect);
	ol_ckpt_blocks_fini(&blocks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(every_block_comes_back_as_it_was_saved_last),
		ckpt_test(distances_are_those_to_what_was_saved_last),
		ckpt_test(torn_at_any_byte_of_a_turn_the_one_before_is_there),
		ckpt_test(whichever_pages_of_a_turn_are_there_the_one_before_is_whole),
		ckpt_test(a_copy_with_any_bit_flipped_is_not_used),
		ckpt_test(a_block_without_a_whole_copy_is_named_and_the_file_refused),
		ckpt_test(another_jobs_geometrys_or_partitions_file_is_refused),
		ckpt_test(a_whole_file_of_other_numbers_is_refused),
		ckpt_test(a_partition_must_be_the_vector),
		ckpt_test(as_many_bytes_are_written_as_by_full_checkpoints),
		ckpt_test(a_file_that_is_removed_or_cannot_be_written_is_made_anew),
		ckpt_test(what_an_older_server_writes_is_not_seen_by_a_newer),
		ckpt_test(workers_may_become_more_and_none_that_has_pushed_is_forgotten),
		ckpt_test(the_thread_writes_what_is_chosen_and_all_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
