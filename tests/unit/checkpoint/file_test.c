/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * file_test.c -- a checkpoint is read again bit for bit, the newest first, only by its own shard and
 * job, and no more files stay than are asked for
 *
 * not under tsan: one thread
 */
#include "ckpt_util.h"

static void a_content_survives_bit_for_bit(void **state)
{
	static const uint64_t lens[] = { 1, 15, 16, 17, 1024, 16384 - 16, 16384, 100000, 1000000 };

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		for (uint32_t vectors = 0; vectors <= OL_STATE_VECTORS_MAX; vectors++) {
			struct ol_ckpt_meta meta = meta_of(3, 1000 + i);

			meta.geo.param_count = meta.geo.shard_len = lens[i];
			meta.geo.shard_first = meta.geo.shard = 0;
			meta.geo.shard_count = 1;
			meta.geo.state_vectors = vectors;
			put(*state, &meta, 1);
			meta.version = 0;
			meta.epoch = 0;
			assert_int_equal(newest(*state, &meta), 0);
			assert_int_equal(meta.version, 1000 + i);
			assert_int_equal(meta.epoch, 3);
		}
	}
	assert_int_equal(logged.lines, 0);
}

static void a_file_is_as_long_as_its_format_says(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 1);
	struct ol_ckpt_header header;
	char path[CKPT_PATH];
	struct stat stat;

	put(*state, &meta, 1);
	path_of(*state, &meta, path);
	assert_int_equal(ol_ckpt_header_make(&meta, &header), 0);
	assert_int_equal(lstat(path, &stat), 0);
	assert_int_equal(stat.st_size, header.file_bytes);
	assert_int_equal(stat.st_size % OL_PAGE_BYTES, 0);
	assert_in_range(stat.st_size, ol_layout_content_bytes(&meta.geo),
			ol_layout_content_bytes(&meta.geo) + 3 * OL_PAGE_BYTES);
}

static void the_newest_is_the_one_of_the_last_epoch_then_version(void **state)
{
	static const struct {
		uint32_t epoch;
		uint64_t version;
	} written[] = {
		{ 2, 5 }, { 1, 900 }, { 2, 40 }, { 10, 3 }, { 9, 77 }, { 10, 1 }, { 1, 1 }
	};
	struct ol_ckpt_meta meta;

	for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
		meta = meta_of(written[i].epoch, written[i].version);
		put(*state, &meta, 100);
	}
	assert_int_equal(newest(*state, &meta), 0);
	assert_int_equal(meta.epoch, 10);
	assert_int_equal(meta.version, 3);
}

static void the_last_few_stay(void **state)
{
	struct ol_ckpt_meta meta;
	unsigned dotted;

	for (uint64_t version = 1; version <= 9; version++) {
		meta = meta_of(1, version);
		put(*state, &meta, 3);
		assert_int_equal(files_in(*state, &dotted), version < 3 ? version : 3);
		assert_int_equal(dotted, 0);
	}
	for (uint64_t version = 7; version <= 9; version++) {
		meta.version = version;
		assert_true(is_there(*state, &meta));
	}
	put(*state, &meta, 0); /* the one written always stays */
	assert_int_equal(files_in(*state, &dotted), 1);
	assert_int_equal(newest(*state, &meta), 0);
	assert_int_equal(meta.version, 9);
}

/* A server that went back to an older one writes below what lies there. */
static void the_one_just_written_stays_even_if_it_is_not_the_newest(void **state)
{
	struct ol_ckpt_meta old = meta_of(1, 200), meta = meta_of(1, 150);
	unsigned dotted;

	put(*state, &old, 1);
	put(*state, &meta, 1);
	assert_true(is_there(*state, &meta));
	assert_int_equal(files_in(*state, &dotted), 1);
	put(*state, &old, 2);
	meta.version = 151;
	put(*state, &meta, 2);
	assert_true(is_there(*state, &meta));
	assert_true(is_there(*state, &old));
}

/* A server that stood still in mid-write wakes up, and another one has taken over. */
static void a_later_epoch_is_left_alone(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 500), next = meta_of(2, 400);
	struct ol_ckpt_name name = ol_ckpt_name_of(&next);
	char path[CKPT_PATH], text[OL_CKPT_NAME_MAX];
	unsigned dotted;
	int fd;

	put(*state, &meta, 1);
	put(*state, &next, 2);
	name.version = 401;
	name.temporary = true; /* being written */
	ol_ckpt_name_format(&name, text);
	snprintf(path, sizeof(path), "%s/%s", (char *)*state, text);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	meta.version = 600;
	put(*state, &meta, 1);
	assert_true(is_there(*state, &next));
	assert_int_equal(files_in(*state, &dotted), 3); /* of its own only the last */
	assert_int_equal(dotted, 1);
	assert_int_equal(newest(*state, &meta), 0);
	assert_int_equal(meta.version, 400);
	assert_int_equal(meta.epoch, 2);
	put(*state, &next, 1);
	assert_int_equal(files_in(*state, &dotted), 1); /* an earlier one is not spared */
}

static void other_shards_and_jobs_in_the_folder_are_left_alone(void **state)
{
	struct ol_ckpt_meta mine = meta_of(1, 10), shard = meta_of(1, 20), job = meta_of(1, 30);
	char path[CKPT_PATH];
	unsigned dotted;
	int fd;

	shard.geo.shard = 0;
	assert_int_equal(ol_shard_span(shard.geo.param_count, 2, 0, &shard.geo.shard_first,
				       &shard.geo.shard_len),
			 0);
	job.job_id++;
	snprintf(path, sizeof(path), "%s/ckpt-notes.txt", (char *)*state);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	put(*state, &shard, 1);
	put(*state, &job, 1);
	for (mine.version = 1; mine.version <= 4; mine.version++)
		put(*state, &mine, 1);
	assert_int_equal(files_in(*state, &dotted), 4);
	assert_int_equal(newest(*state, &mine), 0);
	assert_int_equal(mine.version, 4);
	shard.version = job.version = 0;
	assert_int_equal(newest(*state, &shard), 0);
	assert_int_equal(shard.version, 20);
	assert_int_equal(newest(*state, &job), 0);
	assert_int_equal(job.version, 30);
	assert_int_equal(logged.lines, 0);
}

static void none_at_all_is_told_from_none_of_this_job(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 10), other = meta_of(1, 20);

	assert_int_equal(newest(*state, &meta), -ENOENT);
	other.geo.shard = 0;
	other.geo.shard_first = 0;
	assert_int_equal(ol_shard_span(100000, 2, 0, &other.geo.shard_first, &other.geo.shard_len),
			 0);
	put(*state, &other, 1);
	assert_int_equal(newest(*state, &meta), -ENOENT);
	assert_int_equal(logged.lines, 0);
	other = meta_of(1, 30);
	other.job_id = 0x77;
	put(*state, &other, 1);
	assert_int_equal(newest(*state, &meta), OL_E_NO_CHECKPOINT);
	assert_int_equal(logged.lines, 1);
	assert_non_null(strstr(logged.text, "it is of job 0000000000000077, wanted is "
					    "feedbeef00c0ffee"));
}

/* The table of `count` workers at the start of content, so that worker i has pushed i + 1 times. */
static void table_fill(uint8_t *content, uint32_t count, uint32_t pushed)
{
	struct ol_applied applied;

	for (uint32_t i = 0; i < count; i++) {
		applied = (struct ol_applied){ .seq = i < pushed ? ol_seq_make(i + 1, 1) : 0,
					       .grads = i < pushed ? 2 * i + 2 : 0 };
		memcpy(content + sizeof(struct ol_snapshot_head) + i * sizeof(applied), &applied,
		       sizeof(applied));
	}
}

static void check_refit(const char *dir, uint32_t from, uint32_t pushed, uint32_t to)
{
	struct ol_ckpt_meta meta = meta_of(1, 50);
	uint8_t *content, *want, *got;
	uint64_t table, bytes;
	char err[CKPT_ERR];

	meta.geo.workers_max = from;
	content = content_of(&meta.geo, 50);
	table = ol_layout_table_bytes(&meta.geo);
	memset(content + 64, 0, table - 64);
	table_fill(content, from, pushed);
	assert_int_equal(ol_ckpt_write(dir, &meta, content, 1, err, sizeof(err)), 0);

	meta.geo.workers_max = to;
	bytes = ol_layout_content_bytes(&meta.geo);
	want = calloc(1, bytes);
	got = malloc(bytes);
	assert_true(want != NULL && got != NULL);
	memset(got, 0x5a, bytes);
	memcpy(want, content, sizeof(struct ol_snapshot_head));
	table_fill(want, to, pushed);
	memcpy(want + ol_layout_table_bytes(&meta.geo), content + table,
	       bytes - ol_layout_table_bytes(&meta.geo));
	log_forget();
	if (pushed <= to) {
		assert_int_equal(ol_ckpt_read_newest(dir, &meta, got), 0);
		assert_memory_equal(got, want, bytes);
		assert_int_equal(logged.lines, 0);
	} else {
		assert_int_equal(ol_ckpt_read_newest(dir, &meta, got), OL_E_GEOMETRY);
		assert_int_equal(got[0], 0x5a);
		assert_non_null(strstr(logged.text, "it holds gradients of worker "));
		snprintf(err, sizeof(err), "raise the limit to %u", pushed);
		assert_non_null(strstr(logged.text, err));
	}
	free(content);
	free(want);
	free(got);
}

static void workers_may_become_more_and_none_that_has_pushed_is_forgotten(void **state)
{
	check_refit(*state, 7, 7, 8);
	check_refit(*state, 7, 7, 1024);
	check_refit(*state, 1, 1, 2);
	check_refit(*state, 8, 5, 5);
	check_refit(*state, 1024, 5, 6);
	check_refit(*state, 8, 5, 4);
	check_refit(*state, 1024, 1024, 1023);
	check_refit(*state, 9, 9, 1);
}

static void names_have_one_spelling(void **state)
{
	static const char *const bad[] = {
		"",
		".",
		"..",
		"ckpt-",
		"ckpt-00000000000000ff-s1-e0000000002-v00000000000000000003.old",
		"ckpt-00000000000000ff-s1-e0000000002-v00000000000000000003.olc.olc",
		"ckpt-00000000000000FF-s1-e0000000002-v00000000000000000003.olc",
		"ckpt-0000000000000xff-s1-e0000000002-v00000000000000000003.olc",
		"ckpt-00000000000000ff-s01-e0000000002-v00000000000000000003.olc",
		"ckpt-00000000000000ff-s1-e2-v00000000000000000003.olc",
		"ckpt-00000000000000ff-s1-e0000000002-v-0000000000000000003.olc",
		"ckpt-00000000000000ff-s1-e0000000002-v 0000000000000000003.olc",
		"ckpt-00000000000000ff-s1-e0000000002-v99999999999999999999.olc",
		"ckpt-00000000000000ff-s1-e9999999999-v00000000000000000003.olc",
		"ckpt-100000000000000ff-s1-e0000000002-v00000000000000000003.olc",
		"..ckpt-00000000000000ff-s1-e0000000002-v00000000000000000003.olc",
	};
	struct ol_ckpt_name name = { .job_id = UINT64_MAX,
				     .version = UINT64_MAX,
				     .epoch = UINT32_MAX,
				     .shard = 63 },
			    again;
	char text[OL_CKPT_NAME_MAX];

	(void)state;
	ol_ckpt_name_format(&name, text);
	assert_string_equal(text,
			    "ckpt-ffffffffffffffff-s63-e4294967295-v18446744073709551615.olc");
	assert_true(ol_ckpt_name_parse(text, &again));
	assert_true(again.job_id == UINT64_MAX && again.version == UINT64_MAX);
	assert_true(again.epoch == UINT32_MAX && again.shard == 63 && !again.temporary);
	name.temporary = true;
	ol_ckpt_name_format(&name, text);
	assert_int_equal(text[0], '.');
	assert_true(ol_ckpt_name_parse(text, &again));
	assert_true(again.temporary);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(ol_ckpt_name_parse(bad[i], &again));
}

static void a_geometry_that_cannot_be_is_not_written(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 1);
	uint8_t *content = content_of(&meta.geo, 1);
	char err[CKPT_ERR] = "";
	unsigned dotted;

	meta.geo.shard_len--;
	assert_int_equal(ol_ckpt_write(*state, &meta, content, 1, err, sizeof(err)), OL_E_GEOMETRY);
	assert_non_null(strstr(err, "ckpt-feedbeef00c0ffee-s1-e0000000001-v"));
	assert_int_equal(files_in(*state, &dotted), 0);
	free(content);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(a_content_survives_bit_for_bit),
		ckpt_test(a_file_is_as_long_as_its_format_says),
		ckpt_test(the_newest_is_the_one_of_the_last_epoch_then_version),
		ckpt_test(the_last_few_stay),
		ckpt_test(the_one_just_written_stays_even_if_it_is_not_the_newest),
		ckpt_test(a_later_epoch_is_left_alone),
		ckpt_test(other_shards_and_jobs_in_the_folder_are_left_alone),
		ckpt_test(none_at_all_is_told_from_none_of_this_job),
		ckpt_test(workers_may_become_more_and_none_that_has_pushed_is_forgotten),
		ckpt_test(names_have_one_spelling),
		ckpt_test(a_geometry_that_cannot_be_is_not_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
