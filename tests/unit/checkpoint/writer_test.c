/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * writer_test.c -- the thread takes one checkpoint at a time, reports its end once, and once it has
 * its copy the content may change
 */
#include "running_util.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#include "checkpoint/folder.h"
#include "checkpoint/write.h"

#include <sched.h>

#include "base/clock.h"

static struct ol_ckpt_writer *writer_of(const char *dir, const struct ol_ckpt_meta *meta)
{
	struct ol_ckpt_writer *writer = NULL;
	char err[CKPT_ERR] = "";
	int rc = ol_ckpt_writer_start(dir, meta, 2, &writer, err, sizeof(err));

	check_msg(rc == 0, "start: %d: %s", rc, err);
	return writer;
}

/* Poll until it is done; the states seen on the way may only go up. */
static struct ol_ckpt_result poll_until_done(struct ol_ckpt_writer *writer)
{
	uint64_t deadline_ns = ol_clock_ns() + 60 * OL_NS_PER_S;
	struct ol_ckpt_result result = { .status = 1 };
	enum ol_ckpt_state last = OL_CKPT_COPYING, state;

	for (;;) {
		state = ol_ckpt_writer_poll(writer, &result);
		check(state >= last);
		last = state;
		if (state == OL_CKPT_DONE)
			return result;
		check_eq(result.status, 1); /* written with DONE only */
		check(ol_clock_ns() < deadline_ns);
		sched_yield();
	}
}

static void each_begin_ends_in_one_result(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	struct ol_ckpt_writer *writer = writer_of(*state, &meta);
	struct ol_ckpt_result result = { .status = 1 };
	struct ol_ckpt_header header;
	uint8_t *content = content_of(&meta.geo, 1);

	assert_int_equal(ol_ckpt_header_make(&meta, &header), 0);
	assert_int_equal(ol_ckpt_writer_poll(writer, &result), OL_CKPT_IDLE);
	for (uint64_t version = 1; version <= 5; version++) {
		uint64_t begin_ns = ol_clock_ns();

		content_fill(content, &meta.geo, version);
		assert_true(ol_ckpt_writer_begin(writer, content, version, 6));
		result = poll_until_done(writer);
		assert_int_equal(result.status, 0);
		assert_int_equal(result.version, version);
		assert_int_equal(result.bytes, header.file_bytes);
		assert_string_equal(result.err, "");
		assert_true(result.duration_ns > 0 &&
			    result.duration_ns <= ol_clock_ns() - begin_ns);
		assert_int_equal(ol_ckpt_writer_poll(writer, &result), OL_CKPT_IDLE);
		assert_int_equal(newest(*state, &meta), 0);
		assert_int_equal(meta.version, version);
		assert_int_equal(meta.epoch, 6);
	}
	ol_ckpt_writer_stop(writer);
	free(content);
}

static void it_takes_the_next_only_after_the_result_of_the_last(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	struct ol_ckpt_writer *writer = writer_of(*state, &meta);
	uint8_t *content = content_of(&meta.geo, 1), *other = content_of(&meta.geo, 2);
	struct ol_ckpt_result result;
	unsigned dotted;

	assert_true(ol_ckpt_writer_begin(writer, content, 1, 1));
	assert_false(ol_ckpt_writer_begin(writer, other, 2, 1));
	ol_ckpt_writer_wait(writer);
	assert_false(ol_ckpt_writer_begin(writer, other, 2, 1)); /* done, but not fetched */
	assert_int_equal(ol_ckpt_writer_poll(writer, &result), OL_CKPT_DONE);
	assert_int_equal(result.version, 1);
	assert_int_equal(files_in(*state, &dotted), 1);
	assert_true(ol_ckpt_writer_begin(writer, other, 2, 1));
	ol_ckpt_writer_wait(writer);
	ol_ckpt_writer_wait(writer); /* done is not busy, however often one asks */
	assert_int_equal(ol_ckpt_writer_poll(writer, &result), OL_CKPT_DONE);
	assert_int_equal(result.version, 2);
	ol_ckpt_writer_wait(writer);
	assert_int_equal(ol_ckpt_writer_poll(writer, &result), OL_CKPT_IDLE);
	ol_ckpt_writer_stop(writer);
	free(content);
	free(other);
}

/* Until WRITING has been seen often enough: that a state was passed unseen proves nothing. */
static void the_content_may_change_once_it_is_being_written(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	struct ol_ckpt_writer *writer;
	struct ol_ckpt_result result;
	uint64_t least_ns = UINT64_MAX, most_ns = 0;
	unsigned seen = 0;
	uint8_t *content;

	meta.geo.param_count = meta.geo.shard_len = 250000;
	meta.geo.shard_first = meta.geo.shard = 0;
	meta.geo.shard_count = 1;
	writer = writer_of(*state, &meta);
	content = content_of(&meta.geo, 0);
	for (uint64_t version = 1; seen < 20; version++) {
		enum ol_ckpt_state now;

		assert_true(version < 1000);
		content_fill(content, &meta.geo, version);
		assert_true(ol_ckpt_writer_begin(writer, content, version, 1));
		do {
			now = ol_ckpt_writer_poll(writer, &result);
		} while (now == OL_CKPT_COPYING);
		memset(content, 0xff, ol_layout_content_bytes(&meta.geo));
		if (now == OL_CKPT_WRITING) {
			seen++;
			ol_ckpt_writer_wait(writer);
			assert_int_equal(ol_ckpt_writer_poll(writer, &result), OL_CKPT_DONE);
		}
		assert_int_equal(result.status, 0);
		assert_int_equal(newest(*state, &meta), 0);
		assert_int_equal(meta.version, version);
		least_ns = result.duration_ns < least_ns ? result.duration_ns : least_ns;
		most_ns = result.duration_ns > most_ns ? result.duration_ns : most_ns;
	}
	print_message("%ju bytes durable after %.1f to %.1f ms\n", (uintmax_t)result.bytes,
		      (double)least_ns / 1e6, (double)most_ns / 1e6);
	ol_ckpt_writer_stop(writer);
	free(content);
}

static void stop_waits_for_what_was_begun(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	uint8_t *content = content_of(&meta.geo, 0);
	unsigned dotted;

	for (uint64_t version = 1; version <= 20; version++) {
		struct ol_ckpt_writer *writer = writer_of(*state, &meta);

		content_fill(content, &meta.geo, version);
		assert_true(ol_ckpt_writer_begin(writer, content, version, 1));
		ol_ckpt_writer_stop(writer);
		assert_int_equal(newest(*state, &meta), 0);
		assert_int_equal(meta.version, version);
		files_in(*state, &dotted);
		assert_int_equal(dotted, 0);
	}
	ol_ckpt_writer_stop(writer_of(*state, &meta)); /* and one that had nothing to do */
	ol_ckpt_writer_stop(NULL);
	free(content);
}

static void a_folder_of_one_level_is_made(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	struct ol_ckpt_writer *writer = NULL;
	char path[CKPT_PATH], err[CKPT_ERR] = "";
	struct stat stat;

	snprintf(path, sizeof(path), "%s/a/b", (char *)*state);
	assert_int_equal(ol_ckpt_writer_start(path, &meta, 1, &writer, err, sizeof(err)), -ENOENT);
	assert_null(writer);
	assert_non_null(strstr(err, path));
	path[strlen(path) - 2] = '\0';
	ol_ckpt_writer_stop(writer_of(path, &meta));
	assert_int_equal(lstat(path, &stat), 0);
	assert_true(S_ISDIR(stat.st_mode));
	ol_ckpt_writer_stop(writer_of(path, &meta)); /* it is there now */
}

static void a_write_that_fails_is_a_result_and_the_next_is_tried(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	struct ol_ckpt_result result;
	struct ol_ckpt_writer *writer;
	uint8_t *content = content_of(&meta.geo, 1);
	char path[CKPT_PATH];

	snprintf(path, sizeof(path), "%s/folder", (char *)*state);
	writer = writer_of(path, &meta);
	lock_drop(path, &meta);
	assert_int_equal(rmdir(path), 0);
	assert_true(ol_ckpt_writer_begin(writer, content, 1, 1));
	result = poll_until_done(writer);
	assert_int_equal(result.status, -ENOENT);
	assert_int_equal(result.bytes, 0);
	assert_non_null(strstr(result.err, "v00000000000000000001.olc: cannot open the folder: "
					   "No such file or directory"));
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(ol_ckpt_writer_begin(writer, content, 1, 1));
	result = poll_until_done(writer);
	assert_int_equal(result.status, 0);
	assert_string_equal(result.err, "");
	assert_int_equal(newest(path, &meta), 0);
	ol_ckpt_writer_stop(writer);
	free(content);
}

static int written(struct ol_ckpt_writer *writer, const struct ol_geometry *geo, uint64_t version)
{
	uint8_t *content = content_of(geo, version);
	int status;

	assert_true(ol_ckpt_writer_begin(writer, content, version, 1));
	status = poll_until_done(writer).status;
	free(content);
	return status;
}

/* A server that stood still, and the one that has begun in its place, in the same epoch */
static void who_was_replaced_takes_nothing_and_leaves_nothing(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0), kept = meta;
	struct ol_ckpt_writer *old = writer_of(*state, &meta), *new;
	unsigned dotted;

	assert_int_equal(written(old, &meta.geo, 3), 0);
	new = writer_of(*state, &meta);
	for (uint64_t version = 4; version <= 6; version++)
		assert_int_equal(written(new, &meta.geo, version), 0);
	assert_int_equal(written(old, &meta.geo, 9), OL_E_FENCED);
	assert_int_equal(files_in(*state, &dotted), 2);
	assert_int_equal(dotted, 0);
	assert_int_equal(newest(*state, &kept), 0);
	assert_int_equal(kept.version, 6);
	assert_int_equal(written(new, &meta.geo, 7), 0);
	ol_ckpt_writer_stop(old);
	assert_int_equal(written(new, &meta.geo, 8), 0);
	ol_ckpt_writer_stop(new);
}

/* Replicas of a chain have one folder, which each takes when it writes */
static void replicas_take_a_shared_folder_from_each_other(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0), kept = meta;
	struct ol_ckpt_writer *writers[3] = { NULL };
	char err[CKPT_ERR] = "";
	unsigned dotted;

	for (unsigned i = 0; i < 3; i++)
		check_eq(ol_ckpt_writer_start_shared(*state, &meta, 2, &writers[i], err,
						     sizeof(err)),
			 0);
	assert_int_equal(files_in(*state, &dotted), 0);
	for (uint64_t version = 1; version <= 9; version++) {
		ol_ckpt_writer_history(writers[version % 3], 70 + version, 1);
		assert_int_equal(written(writers[version % 3], &meta.geo, version), 0);
		kept = meta;
		assert_int_equal(newest(*state, &kept), 0);
		assert_int_equal(kept.version, version);
		assert_int_equal(kept.history, 70 + version);
		assert_int_equal(kept.founded, 1);
	}
	assert_int_equal(files_in(*state, &dotted), 2);
	assert_int_equal(dotted, 0);
	ol_ckpt_writer_history(writers[0], 80, 0); /* of a server that began in epoch 0 */
	assert_int_equal(written(writers[0], &meta.geo, 10), 0);
	kept = meta;
	assert_int_equal(newest(*state, &kept), 0);
	assert_int_equal(kept.version, 10);
	assert_int_equal(kept.history, 80);
	for (unsigned i = 0; i < 3; i++)
		ol_ckpt_writer_stop(writers[i]);
}

/* It has made its file, and wakes up to give it its name */
static void who_was_replaced_in_the_middle_of_a_write_does_not_end_it(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 9);
	struct ol_ckpt_name kind = ol_ckpt_name_of(&meta);
	struct ol_ckpt_owner old, new;
	struct ol_ckpt_folder folder;
	struct ol_ckpt_file file;
	char why[OL_CKPT_WHY_MAX];
	unsigned dotted;

	assert_int_equal(ol_ckpt_folder_open(*state, &folder, why), 0);
	assert_int_equal(ol_ckpt_owner_take(&folder, &kind, &old), 0);
	assert_int_equal(ol_ckpt_temporary_make(&folder, &kind, &old, &file, why), 0);
	assert_int_equal(ol_ckpt_owner_take(&folder, &kind, &new), 0);
	assert_int_equal(ol_ckpt_temporary_end(&folder, &kind, &old, 1, 0, why), OL_E_FENCED);
	assert_int_equal(files_in(*state, &dotted), 1);
	assert_int_equal(dotted, 1); /* it has not got its name … */
	assert_int_equal(ol_ckpt_temporary_end(&folder, &kind, &old, 1, -EIO, why), -EIO);
	assert_int_equal(files_in(*state, &dotted), 1); /* … and what has it may be another's */
	assert_int_equal(ol_ckpt_temporary_end(&folder, &kind, &new, 1, 0, why), 0);
	ol_ckpt_owner_drop(&old);
	ol_ckpt_owner_drop(&new);
	assert_int_equal(file.ops->close(file.at), 0);
	ol_ckpt_folder_close(&folder);
}

/* In the middle of changing names, with a child that lives until there is nobody at the other end of
 * life */
static void die_locked(const char *dir, const struct ol_ckpt_name *kind, int told, int life)
{
	struct ol_ckpt_folder folder;
	struct ol_ckpt_owner owner;
	char byte, why[OL_CKPT_WHY_MAX];

	check_ok(ol_ckpt_folder_open(dir, &folder, why));
	check_ok(ol_ckpt_owner_take(&folder, kind, &owner));
	check_ok(ol_ckpt_owner_enter(&owner, &folder));
	if (fork() == 0) {
		check_eq(write(told, "x", 1), 1);
		check_eq(read(life, &byte, 1), 0);
		_exit(0);
	}
	for (;;)
		pause();
}

static void a_lock_dies_with_its_process_whatever_children_it_has(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 9);
	struct ol_ckpt_name kind = ol_ckpt_name_of(&meta);
	struct ol_ckpt_folder folder;
	struct ol_ckpt_owner owner;
	int fds[2], life[2];
	char byte, why[OL_CKPT_WHY_MAX];
	pid_t pid;

	assert_int_equal(ol_ckpt_folder_open(*state, &folder, why), 0);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(pipe(life), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(life[1]);
		die_locked(*state, &kind, fds[1], life[0]);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(ol_ckpt_owner_take(&folder, &kind, &owner), 0);
	ol_ckpt_owner_drop(&owner);
	close(fds[0]);
	close(life[0]);
	close(life[1]);
	ol_ckpt_folder_close(&folder);
}

static int turned(struct ol_ckpt_writer *writer, const uint8_t *content, uint64_t version)
{
	assert_true(ol_ckpt_writer_begin(writer, content, version, 1));
	return poll_until_done(writer).status;
}

/* Distances tell that weights are finite, or a look at them; optimizer state is looked at in any case */
static void a_running_one_takes_nothing_that_no_reader_would(void **state)
{
	for (uint32_t i = 0; i < 4; i++) {
		const bool adam = i % 2 != 0;
		struct ol_ckpt_meta meta = tiny_meta(1), read;
		struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
		struct choice choice = { .count = 1, .blocks = { 2 }, .block_count = blocks.count };
		struct ol_ckpt_running_opts opts = { .blocks = &blocks,
						     .choose = choose_made,
						     .choose_arg = &choice,
						     .measure = i < 2 };
		struct ol_ckpt_writer *writer = NULL;
		char dir[CKPT_ERR], err[CKPT_ERR] = "";
		uint8_t *content, *saved;
		float *bad;

		meta.geo.state_vectors = adam ? 2 : 0;
		meta.optimizer = adam ? OL_OPTIMIZER_ADAM : OL_OPTIMIZER_SGD;
		snprintf(dir, sizeof(dir), "%s/%u", (const char *)*state, i);
		check_ok(
			ol_ckpt_writer_start_running(dir, &meta, &opts, &writer, err, sizeof(err)));
		content = content_clean(&meta.geo, 1);
		saved = malloc(ol_layout_content_bytes(&meta.geo));
		check(saved != NULL);
		assert_int_equal(turned(writer, content, 1), 0);
		for (uint32_t v = 0; v <= meta.geo.state_vectors; v++) {
			/* of a block that is not chosen */
			bad = (float *)(void *)(content +
						ol_running_part_off(&meta.geo, &blocks, 0, v));
			const float good = *bad;

			*bad = v == 0 ? (float)INFINITY : NAN;
			assert_int_equal(turned(writer, content, 2 + v), OL_E_NONFINITE);
			*bad = good;
		}
		read = meta;
		assert_int_equal(restored(dir, &blocks, &read, saved), 0);
		assert_int_equal(read.version, 1);
		assert_int_equal(turned(writer, content, 9), 0);
		read = meta;
		assert_int_equal(restored(dir, &blocks, &read, saved), 0);
		assert_int_equal(read.version, 9);
		ol_ckpt_writer_stop(writer);
		ol_ckpt_blocks_fini(&blocks);
		free(content);
		free(saved);
	}
}

static void a_geometry_that_cannot_be_is_refused_at_the_start(void **state)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	struct ol_ckpt_writer *writer = NULL;
	char err[CKPT_ERR] = "";

	meta.geo.workers_max = 0;
	assert_int_equal(ol_ckpt_writer_start(*state, &meta, 1, &writer, err, sizeof(err)),
			 OL_E_GEOMETRY);
	assert_null(writer);
	assert_non_null(strstr(err, "shard 1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(each_begin_ends_in_one_result),
		ckpt_test(it_takes_the_next_only_after_the_result_of_the_last),
		ckpt_test(the_content_may_change_once_it_is_being_written),
		ckpt_test(stop_waits_for_what_was_begun),
		ckpt_test(a_folder_of_one_level_is_made),
		ckpt_test(a_write_that_fails_is_a_result_and_the_next_is_tried),
		ckpt_test(who_was_replaced_takes_nothing_and_leaves_nothing),
		ckpt_test(replicas_take_a_shared_folder_from_each_other),
		ckpt_test(who_was_replaced_in_the_middle_of_a_write_does_not_end_it),
		ckpt_test(a_lock_dies_with_its_process_whatever_children_it_has),
		ckpt_test(a_running_one_takes_nothing_that_no_reader_would),
		ckpt_test(a_geometry_that_cannot_be_is_refused_at_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
