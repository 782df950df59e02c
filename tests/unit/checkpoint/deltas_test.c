/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * deltas_test.c -- a running checkpoint of int8 deltas gives back what its writer says it saved, whatever
 * the turn, and after any torn or damaged segment what an earlier turn said
 */
#include "running_util.h"

#include <math.h>
#include <sys/stat.h>

#include "checkpoint/deltas.h"
#include "outlast_policy.h"

enum {
	LEN = 16000,
	TURNS = 90, /* the slots are gone through several times */
};

/* A writer, its choices, and what it said after each turn */
struct saving {
	struct ol_ckpt_meta meta;
	struct ol_ckpt_blocks blocks;
	struct ol_selector *priority, *renewer;
	struct ol_running *running;
	uint8_t *content;
	uint8_t *said[TURNS]; /* owned */
	unsigned said_count;
	uint64_t bytes, random;
	char path[CKPT_PATH];
};

static uint32_t turn_of(void *arg, const double *distance, uint32_t *chosen)
{
	return ol_selector_turn(arg, distance, chosen);
}

static uint32_t none_of(void *arg, const double *distance, uint32_t *chosen)
{
	(void)arg;
	(void)distance;
	(void)chosen;
	return 0;
}

static float drawn(struct saving *saving)
{
	saving->random = saving->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (float)((double)(saving->random >> 40) / (double)(1 << 24) - 0.5);
}

static float *vector_of(const struct saving *saving, uint8_t *content, uint32_t v)
{
	return (float *)(void *)(content + ol_layout_table_bytes(&saving->meta.geo) +
				 v * ol_layout_vector_bytes(&saving->meta.geo));
}

static void saving_open(struct saving *saving, const char *dir, double fraction, bool renews)
{
	struct ol_ckpt_running_opts opts = { .choose = turn_of,
					     .measure = true,
					     .format = OL_FORMAT_INT8,
					     .fraction = fraction,
					     .renew = renews ? turn_of : none_of };
	uint64_t lengths[RUNNING_BLOCKS_MAX];
	double coded, full;

	opts.blocks = &saving->blocks;
	for (uint32_t i = 0; i < saving->blocks.count; i++)
		lengths[i] = ol_ckpt_block_floats(&saving->blocks, i);
	ol_ckpt_deltas_shares(fraction, saving->meta.geo.state_vectors, &coded, &full);
	check_ok(ol_selector_create(OL_SELECT_PRIORITY, lengths, saving->blocks.count, coded, 0,
				    &saving->priority));
	check_ok(ol_selector_create(OL_SELECT_ROUND_ROBIN, lengths, saving->blocks.count, full, 0,
				    &saving->renewer));
	opts.choose_arg = saving->priority;
	opts.renew_arg = saving->renewer;
	check_ok(ol_running_create(dir, &saving->meta, &opts, &saving->running));
	saving->content = content_clean(&saving->meta.geo, 1);
	saving->random = 1;
	running_path(dir, &saving->meta, saving->path);
}

static void saving_meta(struct saving *saving)
{
	*saving = (struct saving){ .meta = meta_of(4, 0) };
	saving->meta.geo.shard = 0;
	saving->meta.geo.shard_count = 1;
	saving->meta.geo.param_count = LEN;
	saving->meta.geo.shard_first = 0;
	saving->meta.geo.shard_len = LEN;
}

/* Of 20 blocks, one of them of a single float and one of a turn's floats */
static void saving_begin(struct saving *saving, const char *dir, double fraction, bool renews)
{
	uint64_t lengths[20], left = LEN;

	saving_meta(saving);
	for (uint32_t i = 0; i < 20; i++) {
		lengths[i] = i == 3 ? 1 : i == 7 ? 2500 : i == 19 ? left : 500 + 20 * i;
		left -= lengths[i];
	}
	saving->blocks = blocks_of(&saving->meta, lengths, 20);
	saving_open(saving, dir, fraction, renews);
}

static void saving_end(struct saving *saving)
{
	ol_running_destroy(saving->running);
	ol_selector_destroy(saving->priority);
	ol_selector_destroy(saving->renewer);
	ol_ckpt_blocks_fini(&saving->blocks);
	free(saving->content);
	for (unsigned i = 0; i < saving->said_count; i++)
		free(saving->said[i]);
}

/* An update: blocks move differently far; state follows, and Adam's second stays positive */
static void content_move(struct saving *saving)
{
	for (uint32_t b = 0; b < saving->blocks.count; b++) {
		const float pace = 0.001f * (float)(1 + b * b);

		for (uint64_t i = saving->blocks.first[b]; i < saving->blocks.first[b + 1]; i++) {
			vector_of(saving, saving->content, 0)[i] += pace * drawn(saving);
			for (uint32_t v = 1; v <= saving->meta.geo.state_vectors; v++)
				vector_of(saving, saving->content, v)[i] = fabsf(drawn(saving));
		}
	}
}

static struct ol_ckpt_result saving_turn(struct saving *saving, uint64_t version, bool whole)
{
	const uint64_t bytes = ol_layout_content_bytes(&saving->meta.geo);
	struct ol_ckpt_result result = { .status = 1 };
	uint8_t *said = malloc(bytes);

	check(said != NULL && saving->said_count < TURNS);
	ol_running_take(saving->running, saving->content, version, saving->meta.epoch, whole);
	memcpy(said, ol_running_saved(saving->running), bytes);
	saving->said[saving->said_count++] = said;
	ol_running_write(saving->running, &result);
	saving->bytes += result.bytes;
	return result;
}

static void check_said(const struct saving *saving, const char *dir, uint64_t version)
{
	const uint64_t bytes = ol_layout_content_bytes(&saving->meta.geo);
	struct ol_ckpt_meta meta = saving->meta;
	uint8_t *content = malloc(bytes);

	check(content != NULL);
	check_ok(restored(dir, &saving->blocks, &meta, content));
	check_eq(meta.version, version);
	check(memcmp(content, saving->said[saving->said_count - 1], bytes) == 0);
	free(content);
}

/* ---- the file, by what deltas.h says of it and nothing else ---- */

static uint64_t get(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return value;
}

/* One block of a payload of int8: 16 scales and 4,096 elements a group, the last group cut to lines */
static float int8_at(const uint8_t *payload, uint64_t i)
{
	const uint8_t *group = payload + i / 4096 * (64 + 4096);
	float scale;

	memcpy(&scale, group + i % 4096 / 256 * 4, 4);
	return scale * (float)(int8_t)group[64 + i % 4096];
}

static uint64_t lines(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static uint64_t segment_by_hand(const struct saving *saving, const uint8_t *at, uint8_t *content)
{
	const struct ol_geometry *geo = &saving->meta.geo;
	const uint64_t bytes = get(at + 16, 8), table = ol_layout_table_bytes(geo);
	const uint32_t coded = (uint32_t)get(at + 24, 4), full = (uint32_t)get(at + 28, 4);
	const uint8_t *index = at + bytes - (coded + full) * 4, *payload = at + 40 + table, *bf16;
	uint64_t floats = 0, done = 0;

	memcpy(content, at + 40, table);
	for (uint32_t i = 0; i < coded; i++)
		floats += ol_ckpt_block_floats(&saving->blocks, (uint32_t)get(index + 4 * i, 4));
	bf16 = payload + floats / 4096 * (64 + 4096) +
	       (floats % 4096 > 0 ? 64 + lines(floats % 4096) : 0);
	at = bf16 + geo->state_vectors * lines(2 * floats);
	for (uint32_t i = 0; i < coded; i++) {
		const uint32_t b = (uint32_t)get(index + 4 * i, 4);

		for (uint64_t j = saving->blocks.first[b]; j < saving->blocks.first[b + 1];
		     j++, done++) {
			vector_of(saving, content, 0)[j] += int8_at(payload, done);
			for (uint32_t v = 1; v <= geo->state_vectors; v++) {
				const uint32_t bits =
					(uint32_t)get(bf16 + (v - 1) * lines(2 * floats) + 2 * done,
						      2)
					<< 16;

				memcpy(&vector_of(saving, content, v)[j], &bits, 4);
			}
		}
	}
	for (uint32_t i = coded; i < coded + full; i++) {
		const uint32_t b = (uint32_t)get(index + 4 * i, 4);
		const uint64_t count = ol_ckpt_block_floats(&saving->blocks, b);

		for (uint32_t v = 0; v <= geo->state_vectors; v++, at += 4 * count)
			memcpy(vector_of(saving, content, v) + saving->blocks.first[b], at,
			       4 * count);
	}
	return bytes;
}

static void check_by_hand(const struct saving *saving)
{
	const uint64_t bytes = ol_layout_content_bytes(&saving->meta.geo);
	uint8_t *content = calloc(1, bytes), *file;
	struct stat stat;
	uint64_t slot_bytes, base, turn = saving->said_count - 1;
	uint32_t slots;
	int fd = open(saving->path, O_RDONLY | O_CLOEXEC);

	check(content != NULL && fd >= 0 && fstat(fd, &stat) == 0);
	file = malloc((size_t)stat.st_size);
	check(file != NULL && read(fd, file, (size_t)stat.st_size) == stat.st_size);
	close(fd);
	slots = (uint32_t)get(file + 132, 4);
	slot_bytes = get(file + 4072, 8);
	base = (uint64_t)stat.st_size - slots * slot_bytes;
	check_eq(get(file + 8, 4), 4);
	if (turn <= slots)
		(void)segment_by_hand(saving, file + 4096, content);
	for (uint64_t t = turn <= slots ? 1 : turn - slots + 1; t <= turn; t++) {
		const uint8_t *at = file + base + (t - 1) % slots * slot_bytes;

		check_eq(get(at, 8), t);
		check(segment_by_hand(saving, at, content) <= slot_bytes);
	}
	check(memcmp(content, saving->said[turn], bytes) == 0);
	free(content);
	free(file);
}

static uint64_t file_bytes(const struct saving *saving)
{
	struct stat stat_of;

	check(stat(saving->path, &stat_of) == 0);
	return (uint64_t)stat_of.st_size;
}

/* ---- tests ---- */

static void every_turn_comes_back_as_its_writer_said(void **state)
{
	static struct saving saving;
	unsigned dotted;

	saving_begin(&saving, *state, 0.125, true);
	for (uint64_t version = 7; version < 7 + TURNS - 2; version++) {
		struct ol_ckpt_result result = saving_turn(&saving, version, false);

		assert_int_equal(result.status, 0);
		assert_int_equal(result.whole, version == 7);
		check_said(&saving, *state, version);
		content_move(&saving);
	}
	check_by_hand(&saving);
	/* what a server does last is all of it, as it is */
	assert_true(saving_turn(&saving, 200, true).whole);
	check_said(&saving, *state, 200);
	assert_true(file_bytes(&saving) < 5 * ol_layout_content_bytes(&saving.meta.geo) / 4);
	check(memcmp(saving.content, saving.said[saving.said_count - 1],
		     ol_layout_content_bytes(&saving.meta.geo)) == 0);
	content_move(&saving);
	assert_int_equal(saving_turn(&saving, 201, false).status, 0);
	check_said(&saving, *state, 201);
	assert_int_equal(files_in(*state, &dotted), 1);
	assert_int_equal(logged.lines, 0);
	saving_end(&saving);
}

/* As many bytes as the same part of the blocks as they are, and more blocks: with Adam's state twice */
static void equal_bytes_save_more_blocks(void **state)
{
	static struct saving saving;
	uint64_t plain, blocks = 0;

	saving_begin(&saving, *state, 0.125, true);
	assert_int_equal(saving_turn(&saving, 1, false).status, 0);
	saving.bytes = 0;
	for (uint64_t version = 2; version < TURNS; version++) {
		content_move(&saving);
		blocks += saving_turn(&saving, version, false).blocks;
	}
	plain = (TURNS - 2) * (ol_layout_table_bytes(&saving.meta.geo) +
			       LEN * 4 * (1 + saving.meta.geo.state_vectors) / 8);
	print_message("%.3f of the bytes, %.2f of 20 blocks a turn\n",
		      (double)saving.bytes / (double)plain, (double)blocks / (TURNS - 2));
	assert_in_range(saving.bytes, plain * 90 / 100, plain * 103 / 100);
	saving_end(&saving);
}

/* A block of nine tenths: the file stays within its bound, and is made anew when that block comes */
static void a_large_block_does_not_make_the_file_large(void **state)
{
	static struct saving saving;
	const uint64_t lengths[] = { LEN / 10, LEN - LEN / 10 };
	unsigned anew = 0;

	saving_meta(&saving);
	saving.blocks = blocks_of(&saving.meta, lengths, 2);
	saving_open(&saving, *state, 0.125, true);
	for (uint64_t version = 1; version < TURNS; version++) {
		anew += saving_turn(&saving, version, false).whole;
		check_said(&saving, *state, version);
		content_move(&saving);
		assert_true(file_bytes(&saving) <=
			    8 * ol_layout_content_bytes(&saving.meta.geo) + (1 << 19));
	}
	assert_true(anew > 1);
	saving_end(&saving);
}

/* A delta is at most 1/254 of the largest beside it off, bf16 1/256 of itself */
static void what_is_said_is_near_what_was(void **state)
{
	static struct saving saving;
	uint8_t *before;
	uint64_t near = 0;

	saving_begin(&saving, *state, 1.0, true);
	before = malloc(ol_layout_content_bytes(&saving.meta.geo));
	check(before != NULL);
	assert_int_equal(saving_turn(&saving, 1, false).status, 0);
	for (uint64_t version = 2; version < 8; version++) {
		const uint8_t *said;
		float largest = 0.0f;

		memcpy(before, saving.said[saving.said_count - 1],
		       ol_layout_content_bytes(&saving.meta.geo));
		content_move(&saving);
		assert_int_equal(saving_turn(&saving, version, false).blocks, 20);
		said = saving.said[saving.said_count - 1];
		for (uint64_t i = 0; i < LEN; i++)
			largest = fmaxf(largest, fabsf(vector_of(&saving, saving.content, 0)[i] -
						       vector_of(&saving, before, 0)[i]));
		for (uint64_t i = 0; i < LEN; i++) {
			float x = vector_of(&saving, saving.content, 0)[i];
			float z = vector_of(&saving, (uint8_t *)(uintptr_t)said, 0)[i];
			float s = vector_of(&saving, saving.content, 2)[i];
			float t = vector_of(&saving, (uint8_t *)(uintptr_t)said, 2)[i];

			check(fabsf(x - z) <= largest / 254.0f + 1e-6f);
			check(fabsf(s - t) <= s / 256.0f);
			near += x != z;
		}
	}
	assert_true(near > 6 * LEN / 2); /* and it is not the same */
	free(before);
	saving_end(&saving);
}

/* A third of the bytes is for blocks in full. Without them the file is made anew before they are needed */
static void without_renewal_the_file_is_made_anew(void **state)
{
	static struct saving saving;
	unsigned anew = 0;

	saving_begin(&saving, *state, 1.0, false);
	for (uint64_t version = 1; version < TURNS; version++) {
		anew += saving_turn(&saving, version, false).whole;
		check_said(&saving, *state, version);
		content_move(&saving);
	}
	assert_in_range(anew, 3, TURNS / 3);
	saving_end(&saving);
}

/* Values that a delta or bf16 would make infinite */
static void what_cannot_be_coded_is_saved_as_it_is(void **state)
{
	static struct saving saving;
	const float odd[] = { 3e38f, -3.3e38f, 1e38f, (float)INFINITY };

	saving_begin(&saving, *state, 1.0, true);
	saving.meta.nonfinite = true;
	assert_int_equal(saving_turn(&saving, 1, false).status, 0);
	for (uint64_t version = 2; version < 10; version++) {
		uint64_t at = saving.blocks.first[5] + version;
		float now, then;

		vector_of(&saving, saving.content, version % 2 == 0 ? 0 : 1)[at] = odd[version % 4];
		assert_int_equal(saving_turn(&saving, version, false).status, 0);
		check_said(&saving, *state, version);
		now = vector_of(&saving, saving.content, 0)[at];
		then = vector_of(&saving, saving.said[saving.said_count - 1], 0)[at];
		check(memcmp(&now, &then, 4) == 0);
	}
	saving_end(&saving);
}

static void extrapolation_goes_on_by_what_was_said(void **state)
{
	static struct saving saving;
	uint8_t *content;
	unsigned moved = 0, stayed = 0;
	uint64_t versions[64];

	saving_begin(&saving, *state, 0.125, true);
	check(saving.blocks.count <= 64);
	content = malloc(ol_layout_content_bytes(&saving.meta.geo));
	check(content != NULL);
	for (uint64_t version = 1; version < 20; version++) {
		assert_int_equal(saving_turn(&saving, version, false).status, 0);
		content_move(&saving);
	}
	saving.meta.block_versions = versions;
	check_ok(ol_ckpt_read_running(*state, &saving.blocks, NULL, 0.5, &saving.meta, content));
	saving.meta.block_versions = NULL;
	for (uint32_t b = 0; b < saving.blocks.count; b++) {
		const uint64_t first = saving.blocks.first[b], end = saving.blocks.first[b + 1];
		uint64_t now = 19, then;
		float share;

		/* the turns that changed it: of version v is said[v - 1] */
		while (now > 1 && memcmp(vector_of(&saving, saving.said[now - 1], 0) + first,
					 vector_of(&saving, saving.said[now - 2], 0) + first,
					 4 * (end - first)) == 0)
			now--;
		assert_int_equal(versions[b], now);
		then = now - 1;
		while (then > 1 && memcmp(vector_of(&saving, saving.said[then - 1], 0) + first,
					  vector_of(&saving, saving.said[then - 2], 0) + first,
					  4 * (end - first)) == 0)
			then--;
		share = then > 0 && now < 19
				? (float)fmin((double)(19 - now) / (double)(now - then), 0.5)
				: 0.0f;
		for (uint64_t i = first; i < end; i++) {
			float z = vector_of(&saving, saving.said[18], 0)[i], was, want = z;
			float found = vector_of(&saving, content, 0)[i];

			was = then > 0 ? vector_of(&saving, saving.said[then - 1], 0)[i] : z;
			want = z + share * (z - was);
			check(memcmp(&found, &want, 4) == 0);
		}
		moved += share > 0.0f;
		stayed += share == 0.0f;
	}
	assert_true(moved > 2 && stayed > 2);
	free(content);
	saving_end(&saving);
}

/* ---- torn and damaged ---- */

struct image {
	uint8_t *bytes;
	size_t count;
};

static struct image image_of(const char *path)
{
	struct image image;
	struct stat stat;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	check(fd >= 0 && fstat(fd, &stat) == 0);
	image.count = (size_t)stat.st_size;
	image.bytes = malloc(image.count);
	check(image.bytes != NULL);
	check_eq(read(fd, image.bytes, image.count), image.count);
	close(fd);
	return image;
}

static void byte_put(int fd, uint64_t off, uint8_t byte)
{
	check_eq(pwrite(fd, &byte, 1, (off_t)off), 1);
}

/* One of tiny_blocks(), after so many turns */
static void tiny_begin(struct saving *saving, const char *dir, unsigned turns)
{
	*saving = (struct saving){ .meta = tiny_meta(2) };
	saving->blocks = tiny_blocks(&saving->meta);
	saving_open(saving, dir, 0.5, true);
	for (unsigned i = 0; i < turns; i++) {
		assert_int_equal(saving_turn(saving, 10 + i, false).status, 0);
		content_move(saving);
	}
}

/* Is it what the writer said after a turn, the newest or the one before? */
static uint64_t check_turn(const struct saving *saving, const char *dir)
{
	const uint64_t bytes = ol_layout_content_bytes(&saving->meta.geo);
	struct ol_ckpt_meta meta = saving->meta;
	uint8_t *content = malloc(bytes);

	check(content != NULL);
	check_ok(restored(dir, &saving->blocks, &meta, content));
	check(meta.version >= 10 && meta.version < 10 + saving->said_count);
	check(memcmp(content, saving->said[meta.version - 10], bytes) == 0);
	free(content);
	return 10 + saving->said_count - 1 - meta.version;
}

static void torn_at_any_byte_of_a_turn_the_one_before_is_there(void **state)
{
	static struct saving saving;

	for (unsigned turns = 3; turns < 30; turns += 13) {
		unsigned before = 0, after = 0;
		struct image old, new;
		int fd;

		tiny_begin(&saving, *state, turns);
		old = image_of(saving.path);
		assert_int_equal(saving_turn(&saving, 10 + turns, false).status, 0);
		new = image_of(saving.path);
		fd = open(saving.path, O_RDWR | O_CLOEXEC);
		check_eq(old.count, new.count);
		check_eq(pwrite(fd, old.bytes, old.count, 0), old.count);
		/* its head is written last, but may be first on the disk */
		for (int back = 0; back <= 1; back++) {
			for (size_t i = 0; i < new.count; i++) {
				size_t at = back ? new.count - 1 - i : i;

				if (old.bytes[at] == new.bytes[at])
					continue;
				byte_put(fd, at, new.bytes[at]);
				if (check_turn(&saving, *state) == 0)
					after++;
				else
					before++;
			}
			assert_int_equal(after, 1);
			after = 0;
			check_eq(pwrite(fd, old.bytes, old.count, 0), old.count);
		}
		assert_true(before > 200);
		assert_int_equal(logged.lines, 0);
		close(fd);
		free(old.bytes);
		free(new.bytes);
		saving_end(&saving);
	}
}

/* Each block as some turn said, none newer than the table */
static bool is_of_turns(const struct saving *saving, uint8_t *content, uint64_t version)
{
	for (uint32_t b = 0; b < saving->blocks.count; b++) {
		const uint64_t bytes = 4 * ol_ckpt_block_floats(&saving->blocks, b);
		bool found = false;

		for (uint64_t t = 0; t <= version - 10 && !found; t++) {
			found = true;
			for (uint32_t v = 0; v <= saving->meta.geo.state_vectors; v++)
				found = found && memcmp(vector_of(saving, content, v) +
								saving->blocks.first[b],
							vector_of(saving, saving->said[t], v) +
								saving->blocks.first[b],
							bytes) == 0;
		}
		if (!found)
			return false;
	}
	return true;
}

static void any_bit_flipped_gives_what_some_turn_said_or_nothing(void **state)
{
	static struct saving saving;
	unsigned whole = 0, older = 0, told = 0, refused = 0;
	struct image image;
	uint8_t *content;
	int fd;

	tiny_begin(&saving, *state, 20);
	image = image_of(saving.path);
	content = malloc(ol_layout_content_bytes(&saving.meta.geo));
	fd = open(saving.path, O_RDWR | O_CLOEXEC);
	check(content != NULL && fd >= 0);
	for (size_t at = 0; at < image.count; at++) {
		struct ol_ckpt_meta meta = saving.meta;
		bool same, damaged;
		int rc;

		if (image.bytes[at] == 0 && at % 64 != 0) /* most of it is zeros */
			continue;
		byte_put(fd, at, image.bytes[at] ^ (uint8_t)(1 << at % 8));
		log_forget();
		rc = restored(*state, &saving.blocks, &meta, content);
		byte_put(fd, at, image.bytes[at]);
		check(rc == 0 || rc == OL_E_NO_CHECKPOINT);
		check(rc != 0 || is_of_turns(&saving, content, meta.version));
		same = rc == 0 && meta.version == 29 &&
		       memcmp(content, saving.said[19],
			      ol_layout_content_bytes(&saving.meta.geo)) == 0;
		damaged = strstr(logged.text, " of its segments are damaged: ") != NULL;
		check(rc != 0 || meta.version < 29 || same || damaged);
		whole += same;
		older += rc == 0 && meta.version < 29; /* as if it had been torn */
		told += rc == 0 && damaged;
		refused += rc != 0;
		check(rc == 0 ||
		      strstr(logged.text, "run-feedbeef00c0ffee-s1-e0000000002.olc") != NULL);
	}
	print_message(
		"%u times as if nothing were, %u times the turn before, %u times with a word, %u times "
		"nothing\n",
		whole, older, told, refused);
	assert_true(whole > 100 && older > 100 && told > 100 && refused > 100);
	close(fd);
	free(content);
	free(image.bytes);
	saving_end(&saving);
}

static void a_block_that_no_segment_has_in_full_is_named(void **state)
{
	static struct saving saving;
	struct ol_ckpt_meta meta;
	uint8_t *content;
	int fd;

	tiny_begin(&saving, *state, 2);
	meta = saving.meta;
	content = malloc(ol_layout_content_bytes(&meta.geo));
	fd = open(saving.path, O_RDWR | O_CLOEXEC);
	check(content != NULL && fd >= 0);
	byte_put(fd, 4096 + 40, 0xa5); /* turn 0 */
	assert_int_equal(restored(*state, &saving.blocks, &meta, content), OL_E_NO_CHECKPOINT);
	assert_int_equal(logged.lines, 1);
	assert_non_null(strstr(logged.text, ": no segment that has it in full is whole"));
	close(fd);
	free(content);
	saving_end(&saving);
}

/* Sizes that no server makes, under a right checksum */
static void a_forged_header_is_refused(void **state)
{
	static const struct {
		uint32_t slots;
		uint64_t slot_bytes;
		const char *why;
	} forged[] = {
		{ 0, 4096, "0 slots of 4096 bytes are not what a server makes" },
		{ 1025, 4096, "1025 slots of 4096 bytes are not" },
		{ 7, 0, "7 slots of 0 bytes are not" },
		{ 7, 4095, "7 slots of 4095 bytes are not" },
		{ 7, UINT64_C(1) << 62, "7 slots of 4611686018427387904 bytes are not" },
		{ 7, 4096, " bytes, and not " },
		{ 1, 1 << 16, "1 slots of 65536 bytes are not" },
	};
	static struct saving saving;
	struct ol_ckpt_header header;
	uint8_t *content;
	int fd;

	tiny_begin(&saving, *state, 3);
	content = malloc(ol_layout_content_bytes(&saving.meta.geo));
	fd = open(saving.path, O_RDWR | O_CLOEXEC);
	check(content != NULL && fd >= 0);
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
		struct ol_ckpt_meta meta = saving.meta;

		meta.version = 10;
		check_ok(ol_deltas_header_make(&meta, &saving.blocks, forged[i].slots,
					       forged[i].slot_bytes, &header));
		check_eq(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
		meta = saving.meta;
		log_forget();
		assert_int_equal(restored(*state, &saving.blocks, &meta, content),
				 OL_E_NO_CHECKPOINT);
		assert_non_null(strstr(logged.text, forged[i].why));
	}
	close(fd);
	free(content);
	saving_end(&saving);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(every_turn_comes_back_as_its_writer_said),
		ckpt_test(equal_bytes_save_more_blocks),
		ckpt_test(a_large_block_does_not_make_the_file_large),
		ckpt_test(what_is_said_is_near_what_was),
		ckpt_test(without_renewal_the_file_is_made_anew),
		ckpt_test(what_cannot_be_coded_is_saved_as_it_is),
		ckpt_test(extrapolation_goes_on_by_what_was_said),
		ckpt_test(torn_at_any_byte_of_a_turn_the_one_before_is_there),
		ckpt_test(any_bit_flipped_gives_what_some_turn_said_or_nothing),
		ckpt_test(a_block_that_no_segment_has_in_full_is_named),
		ckpt_test(a_forged_header_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
