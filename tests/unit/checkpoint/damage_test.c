/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * damage_test.c -- a damaged file is never taken for a checkpoint: the log names file and block, and
 * the next older one is used
 *
 * not under tsan: one thread
 */
#include "ckpt_util.h"

/* A folder with two: the older one is whole, the newer one is ours to spoil. */
struct pair {
	struct ol_ckpt_meta old;
	struct ol_ckpt_meta spoilt;
	struct ol_ckpt_header header; /* of the spoilt one */
	char path[CKPT_PATH];
	char name[OL_CKPT_NAME_MAX];
	uint8_t *bytes; /* as they were written */
	int fd;
};

static void pair_open_of(struct pair *pair, const char *dir, const struct ol_ckpt_meta *meta)
{
	struct ol_ckpt_name name;

	pair->old = pair->spoilt = *meta;
	pair->old.epoch = pair->spoilt.epoch = 4;
	pair->old.version = 70;
	pair->spoilt.version = 80;
	put(dir, &pair->old, 2);
	put(dir, &pair->spoilt, 2);
	name = ol_ckpt_name_of(&pair->spoilt);
	ol_ckpt_name_format(&name, pair->name);
	path_of(dir, &pair->spoilt, pair->path);
	assert_int_equal(ol_ckpt_header_make(&pair->spoilt, &pair->header), 0);
	pair->bytes = malloc(pair->header.file_bytes);
	assert_non_null(pair->bytes);
	pair->fd = open(pair->path, O_RDWR);
	assert_true(pair->fd >= 0);
	assert_int_equal(pread(pair->fd, pair->bytes, pair->header.file_bytes, 0),
			 pair->header.file_bytes);
}

static void pair_open(struct pair *pair, const char *dir)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);

	pair_open_of(pair, dir, &meta);
}

/* One block: where each byte is tried, and the content does not matter. */
static void pair_open_small(struct pair *pair, const char *dir)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);

	meta.geo.param_count = 2000;
	check_ok(ol_shard_span(2000, 1, 0, &meta.geo.shard_first, &meta.geo.shard_len));
	meta.geo.shard_count = 1;
	meta.geo.shard = 0;
	pair_open_of(pair, dir, &meta);
}

static void pair_close(struct pair *pair)
{
	close(pair->fd);
	free(pair->bytes);
}

/* The older one is what is found, and one line names the file and says this. */
static void check_passed_over(const struct pair *pair, const char *dir, const char *says)
{
	struct ol_ckpt_meta meta = pair->old;

	meta.version = meta.epoch = 0;
	log_forget();
	check_ok(newest(dir, &meta));
	check_eq(meta.version, 70);
	check_eq(meta.epoch, 4);
	check_msg(logged.lines == 1 && strstr(logged.text, pair->name) != NULL &&
			  strstr(logged.text, says) != NULL,
		  "want \"%s\", got %.300s", says, logged.text);
}

/* What was done is undone: the file is whole again. */
static void check_taken(const struct pair *pair, const char *dir)
{
	struct ol_ckpt_meta meta = pair->old;

	log_forget();
	check_ok(newest(dir, &meta));
	check_eq(meta.version, 80);
	check_eq(logged.lines, 0);
}

static void a_file_cut_off_anywhere_is_passed_over(void **state)
{
	struct pair pair;
	uint64_t content_off, bytes;
	char says[80];

	pair_open(&pair, *state);
	content_off = ol_ckpt_content_off(&pair.header);
	bytes = pair.header.file_bytes;
	for (uint64_t at = 0; at <= bytes; at += OL_PAGE_BYTES) {
		for (int by = -1; by <= 1; by++) {
			uint64_t cut = at + (uint64_t)by;

			if (cut >= bytes) /* also below 0 */
				continue;
			check_ok(ftruncate(pair.fd, (off_t)cut));
			if (cut < OL_PAGE_BYTES)
				snprintf(says, sizeof(says), "cut off in its header");
			else if (cut < content_off)
				snprintf(says, sizeof(says), "cut off in the table of checksums");
			else
				snprintf(says, sizeof(says), "cut off in block %ju of 10",
					 (uintmax_t)((cut - content_off) / OL_CKPT_BLOCK_BYTES));
			check_passed_over(&pair, *state, says);
			check_eq(pwrite(pair.fd, pair.bytes + cut, bytes - cut, (off_t)cut),
				 bytes - cut);
		}
	}
	check_taken(&pair, *state);
	for (uint64_t more = 1; more <= 2 * OL_PAGE_BYTES; more += 4095) {
		check_ok(ftruncate(pair.fd, (off_t)(bytes + more)));
		check_passed_over(&pair, *state, "more than its header says");
	}
	pair_close(&pair);
}

/* As a disk that lost a write: the length is right, a page holds zeros. */
static void a_page_of_zeros_is_found_wherever_it_is(void **state)
{
	static const uint8_t zeros[OL_PAGE_BYTES];
	struct pair pair;

	pair_open(&pair, *state);
	for (uint64_t at = 0; at < pair.header.file_bytes; at += OL_PAGE_BYTES) {
		check_eq(pwrite(pair.fd, zeros, OL_PAGE_BYTES, (off_t)at), OL_PAGE_BYTES);
		check_passed_over(&pair, *state, at < OL_PAGE_BYTES ? "header: " : "checksum");
		check_eq(pwrite(pair.fd, pair.bytes + at, OL_PAGE_BYTES, (off_t)at), OL_PAGE_BYTES);
	}
	check_taken(&pair, *state);
	pair_close(&pair);
}

static void a_bit_flipped_in_any_byte_of_the_header_is_found(void **state)
{
	struct pair pair;

	pair_open_small(&pair, *state);
	for (uint64_t at = 0; at < sizeof(struct ol_ckpt_header); at++) {
		flip(pair.fd, at, at % 8);
		check_passed_over(&pair, *state, "header: ");
		flip(pair.fd, at, at % 8);
	}
	check_taken(&pair, *state);
	pair_close(&pair);
}

static void a_bit_flipped_in_any_byte_of_the_table_is_found(void **state)
{
	struct pair pair;

	pair_open_small(&pair, *state);
	for (uint64_t at = 0; at < pair.header.table_bytes; at++) {
		flip(pair.fd, sizeof(struct ol_ckpt_header) + at, (at + 3) % 8);
		check_passed_over(&pair, *state, "table of checksums: ");
		flip(pair.fd, sizeof(struct ol_ckpt_header) + at, (at + 3) % 8);
	}
	check_taken(&pair, *state);
	pair_close(&pair);
}

static void a_bit_flipped_in_a_block_is_found_and_the_block_is_named(void **state)
{
	struct pair pair;
	char says[80];

	pair_open(&pair, *state);
	for (uint32_t block = 0; block < pair.header.block_count; block++) {
		uint64_t off =
			ol_ckpt_content_off(&pair.header) + (uint64_t)block * OL_CKPT_BLOCK_BYTES;
		uint32_t bytes = ol_ckpt_block_bytes(&pair.header, block), at = 0;

		snprintf(says, sizeof(says), "block %u of 10: its checksum is ", block);
		for (unsigned bit = 0; at < bytes; at += 2039, bit++) {
			flip(pair.fd, off + at, bit % 8);
			check_passed_over(&pair, *state, says);
			flip(pair.fd, off + at, bit % 8);
		}
		flip(pair.fd, off + bytes - 1, 7); /* of the last block: behind the content */
		check_passed_over(&pair, *state, says);
		flip(pair.fd, off + bytes - 1, 7);
	}
	check_taken(&pair, *state);
	pair_close(&pair);
}

static void blocks_that_changed_places_are_found(void **state)
{
	struct pair pair;
	uint64_t off;

	pair_open(&pair, *state);
	off = ol_ckpt_content_off(&pair.header);
	check_eq(pwrite(pair.fd, pair.bytes + off + OL_CKPT_BLOCK_BYTES, OL_CKPT_BLOCK_BYTES,
			(off_t)off),
		 OL_CKPT_BLOCK_BYTES);
	check_eq(pwrite(pair.fd, pair.bytes + off, OL_CKPT_BLOCK_BYTES,
			(off_t)off + OL_CKPT_BLOCK_BYTES),
		 OL_CKPT_BLOCK_BYTES);
	check_passed_over(&pair, *state, "block 0 of 10");
	pair_close(&pair);
}

static void if_none_is_whole_that_is_said_of_each(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	char path[CKPT_PATH];
	struct pair pair;

	pair_open(&pair, *state);
	flip(pair.fd, pair.header.file_bytes - 1, 0);
	path_of(*state, &pair.old, path);
	check_ok(truncate(path, 100000));
	log_forget();
	assert_int_equal(newest(*state, &meta), OL_E_NO_CHECKPOINT);
	assert_int_equal(logged.lines, 2);
	assert_non_null(strstr(logged.text, "v00000000000000000080.olc: not used: block 9 of 10"));
	assert_non_null(strstr(logged.text, "v00000000000000000070.olc: not used: it is truncated: "
					    "100000 of"));
	pair_close(&pair);
}

/* A whole file under the spoilt one's name whose header says something else. */
static void forge(const struct pair *pair, const struct ol_ckpt_header *header)
{
	struct ol_ckpt_header sealed = *header;

	sealed.header_crc = ol_ckpt_crc(&sealed, offsetof(struct ol_ckpt_header, header_crc));
	check_eq(pwrite(pair->fd, &sealed, sizeof(sealed), 0), sizeof(sealed));
}

static void a_file_of_something_else_is_passed_over_with_the_reason(void **state)
{
	struct ol_ckpt_header good, header;
	struct pair pair;

	pair_open(&pair, *state);
	memcpy(&good, pair.bytes, sizeof(good));
	forge(&pair, &good);
	check_taken(&pair, *state); /* so what is refused below is not the forging */

	header = good;
	header.job_id++;
	forge(&pair, &header);
	check_passed_over(&pair, *state,
			  "header: it is of job feedbeef00c0ffef, wanted is feedbeef00c0ffee");
	header = good;
	header.optimizer = OL_OPTIMIZER_ADAMW;
	forge(&pair, &header);
	check_passed_over(&pair, *state,
			  "it is of optimizer adamw with 2 vectors of state, wanted "
			  "is adam with 2");
	header = good;
	header.optimizer = 4711;
	forge(&pair, &header);
	check_passed_over(&pair, *state, "it is of optimizer ? with");
	header = good;
	header.version++;
	forge(&pair, &header);
	check_passed_over(&pair, *state, "version 81, and not what its name says");
	header = good;
	header.epoch--;
	forge(&pair, &header);
	check_passed_over(&pair, *state, "epoch 3, version 80, and not what its name says");
	header = good;
	header.format = OL_CKPT_FORMAT + 1;
	forge(&pair, &header);
	check_passed_over(&pair, *state,
			  "it is of format 4, later than 3, the last that this "
			  "program knows");
	header.format = 1;
	forge(&pair, &header);
	check_passed_over(&pair, *state,
			  "it is of format 1, of an earlier release, and this one reads format 3");
	pair_close(&pair);
}

/* Sealed, so that only the check of the numbers themselves can find it. */
static void a_header_whose_numbers_disagree_is_refused_before_any_is_believed(void **state)
{
	struct ol_ckpt_header good, header;
	struct pair pair;

	pair_open_small(&pair, *state);
	memcpy(&good, pair.bytes, sizeof(good));
	for (size_t at = offsetof(struct ol_ckpt_header, header_bytes);
	     at < offsetof(struct ol_ckpt_header, table_crc); at++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			struct ol_ckpt_meta meta = pair.old;

			header = good;
			if (at / 4 == offsetof(struct ol_ckpt_header, workers_max) / 4)
				continue; /* may differ, and the sizes may be the same */
			((uint8_t *)&header)[at] ^= (uint8_t)(1u << bit);
			forge(&pair, &header);
			log_forget();
			check_ok(newest(*state, &meta));
			check_eq(meta.version, 70);
			check_eq(logged.lines, 1);
		}
	}
	header = good;
	header.reserved[sizeof(header.reserved) - 1] = 1;
	forge(&pair, &header);
	check_passed_over(&pair, *state, "sizes do not follow");
	header = good;
	header.content_bytes = header.file_bytes = UINT64_MAX;
	header.block_count = header.table_bytes = UINT32_MAX;
	forge(&pair, &header);
	check_passed_over(&pair, *state, "sizes do not follow");
	header = good;
	header.param_count = header.shard_len = UINT64_MAX;
	forge(&pair, &header);
	check_passed_over(&pair, *state, "cannot be a shard");
	pair_close(&pair);
}

/* A whole file of another shard or geometry, under a name of ours. */
static void check_foreign(const char *dir, const struct ol_ckpt_meta *other, const char *says)
{
	struct ol_ckpt_meta mine = meta_of(4, 80);
	char from[CKPT_PATH], to[CKPT_PATH];
	struct pair pair;

	pair_open(&pair, dir);
	put(dir, other, 100);
	path_of(dir, other, from);
	path_of(dir, &mine, to);
	if (strcmp(from, to) != 0)
		check_ok(rename(from, to));
	check_passed_over(&pair, dir, says);
	pair_close(&pair);
}

static void another_shard_or_geometry_is_passed_over(void **state)
{
	struct ol_ckpt_meta other = meta_of(4, 80);

	other.geo.shard = 0;
	check_ok(ol_shard_span(100000, 2, 0, &other.geo.shard_first, &other.geo.shard_len));
	check_foreign(*state, &other, "it is of shard 0 of 2, wanted is 1 of 2");
	other = meta_of(4, 80);
	other.geo.shard_count = 3;
	check_ok(ol_shard_span(100000, 3, 1, &other.geo.shard_first, &other.geo.shard_len));
	check_foreign(*state, &other, "it is of shard 1 of 3, wanted is 1 of 2");
	other = meta_of(4, 80);
	other.geo.param_count++;
	other.geo.shard_len++;
	check_foreign(*state, &other,
		      "it has 49825 of 100001 parameters from 50176 on, wanted are "
		      "49824 of 100000 from 50176 on");
	other = meta_of(4, 80);
	other.optimizer = OL_OPTIMIZER_SGD;
	other.geo.state_vectors = 0;
	check_foreign(*state, &other,
		      "it is of optimizer sgd with 0 vectors of state, wanted is "
		      "adam with 2");
}

static void what_is_no_file_is_passed_over(void **state)
{
	struct pair pair;

	pair_open(&pair, *state);
	check_ok(unlink(pair.path));
	check_ok(mkdir(pair.path, 0700));
	check_passed_over(&pair, *state, "it is no regular file");
	check_ok(rmdir(pair.path));
	check_ok(mkfifo(pair.path, 0600)); /* nobody will ever write to it */
	check_passed_over(&pair, *state, "it is no regular file");
	pair_close(&pair);
}

/* What a link leads to may be whole, so it is no reason to go back */
static void a_link_is_not_followed_and_ends_the_search(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	char elsewhere[CKPT_PATH + 8];
	struct pair pair;

	pair_open(&pair, *state);
	snprintf(elsewhere, sizeof(elsewhere), "%s/whole", (char *)*state);
	check_ok(rename(pair.path, elsewhere));
	check_ok(symlink("whole", pair.path));
	log_forget();
	assert_int_equal(newest(*state, &meta), -ELOOP);
	assert_int_equal(logged.lines, 1);
	assert_non_null(strstr(logged.text, pair.name));
	assert_non_null(strstr(logged.text, "it is a link, which is not followed"));
	check_ok(unlink(pair.path));
	check_ok(rename(elsewhere, pair.path));
	check_taken(&pair, *state);
	pair_close(&pair);
}

static void a_temporary_file_is_never_read(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	struct ol_ckpt_name name;
	char to[CKPT_PATH], text[OL_CKPT_NAME_MAX];
	struct pair pair;

	pair_open(&pair, *state);
	name = ol_ckpt_name_of(&pair.spoilt);
	name.temporary = true;
	ol_ckpt_name_format(&name, text);
	snprintf(to, sizeof(to), "%s/%s", (char *)*state, text);
	check_ok(rename(pair.path, to));
	log_forget();
	assert_int_equal(newest(*state, &meta), 0);
	assert_int_equal(meta.version, 70);
	assert_int_equal(logged.lines, 0);
	path_of(*state, &pair.old, to);
	check_ok(unlink(to));
	meta = meta_of(0, 0);
	assert_int_equal(newest(*state, &meta), -ENOENT);
	pair_close(&pair);
}

/* The version that is found in the folder of a chain of history 7, founded in that epoch */
static uint64_t version_found(const char *dir, uint32_t founded, uint32_t epoch)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);

	meta.of_history = 7;
	meta.of_founded = founded;
	meta.of_epoch = epoch;
	check_ok(newest(dir, &meta));
	return meta.version;
}

/* Another history's has a later epoch and version than the chain's own before it, and the chain went on above it */
static void one_of_another_history_does_not_take_the_place_of_a_damaged_one(void **state)
{
	struct ol_ckpt_meta own = meta_of(2, 60), other = meta_of(5, 300), last = meta_of(6, 120);
	struct ol_ckpt_meta sound = last;
	char path[CKPT_PATH];
	int fd;

	own.history = last.history = 7;
	other.history = 9;
	own.founded = last.founded = 1;
	other.founded = 3;
	put(*state, &own, 3);
	put(*state, &other, 3);
	put(*state, &last, 3);
	assert_int_equal(version_found(*state, 1, 6), 120);
	path_of(*state, &last, path);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	flip(fd, OL_PAGE_BYTES + 7777, 3);
	close(fd);
	assert_true(ol_ckpt_newest_sound(*state, 0, &sound)); /* its header is */
	assert_int_equal(sound.version, 120);
	assert_int_equal(sound.history, 7);
	assert_int_equal(sound.founded, 1);
	assert_int_equal(version_found(*state, 1, 6), 60);
	assert_int_equal(version_found(*state, 6, 6), 300); /* it may have begun with that */
	assert_int_equal(version_found(*state, 1, 4), 300); /* that came later */
	other.history = other.founded = 0; /* as an import is */
	put(*state, &other, 3);
	assert_int_equal(version_found(*state, 1, 6), 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(a_file_cut_off_anywhere_is_passed_over),
		ckpt_test(a_page_of_zeros_is_found_wherever_it_is),
		ckpt_test(a_bit_flipped_in_any_byte_of_the_header_is_found),
		ckpt_test(a_bit_flipped_in_any_byte_of_the_table_is_found),
		ckpt_test(a_bit_flipped_in_a_block_is_found_and_the_block_is_named),
		ckpt_test(blocks_that_changed_places_are_found),
		ckpt_test(if_none_is_whole_that_is_said_of_each),
		ckpt_test(a_file_of_something_else_is_passed_over_with_the_reason),
		ckpt_test(a_header_whose_numbers_disagree_is_refused_before_any_is_believed),
		ckpt_test(another_shard_or_geometry_is_passed_over),
		ckpt_test(what_is_no_file_is_passed_over),
		ckpt_test(a_link_is_not_followed_and_ends_the_search),
		ckpt_test(a_temporary_file_is_never_read),
		ckpt_test(one_of_another_history_does_not_take_the_place_of_a_damaged_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
