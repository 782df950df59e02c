/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * folder_test.c -- with an unusable folder or a full disk a write gives a code and one line that
 * names the file; old checkpoints do not change, and no temporary file stays
 *
 * Tests that need limits, rights or mounts run in a forked process, which ends with CHECK_SKIP and a
 * line if it may not have them.
 *
 * not under tsan: one thread; writer_test.c and running_test.c have the threads
 */
#include "running_util.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "checkpoint/write.h"

/* Run it in a process of its own; skips if that process did. */
static void in_child(void (*fn)(const char *dir), const char *dir)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fn(dir);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHECK_SKIP)
		skip();
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Writing fails with this code, in a line that names the file. */
static void check_refused(const char *dir, const struct ol_ckpt_meta *meta, int want)
{
	uint8_t *content = content_of(&meta->geo, meta->version);
	struct ol_ckpt_name name = ol_ckpt_name_of(meta);
	char err[CKPT_ERR] = "", text[OL_CKPT_NAME_MAX];

	ol_ckpt_name_format(&name, text);
	check_eq(ol_ckpt_write(dir, meta, content, 1, err, sizeof(err)), want);
	check_msg(strstr(err, text) != NULL && strstr(err, ol_status_str(want)) != NULL &&
			  strchr(err, '\n') == NULL,
		  "%s", err);
	free(content);
}

/* Of the two versions given there is the older one alone, whole, and nothing else. */
static void check_old_one_stands(const char *dir, uint64_t version)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);
	unsigned dotted;

	check_ok(newest(dir, &meta));
	check_eq(meta.version, version);
	check_eq(files_in(dir, &dotted), 1);
	check_eq(dotted, 0);
}

static void check_reader_and_writer(const char *dir, int want)
{
	struct ol_ckpt_meta meta = meta_of(1, 1);
	struct ol_ckpt_writer *writer = NULL;
	char err[CKPT_ERR] = "";

	check_refused(dir, &meta, want);
	log_forget();
	check_eq(newest(dir, &meta), want);
	check_eq(logged.lines, 1);
	check(strstr(logged.text, ol_status_str(want)) != NULL && strstr(logged.text, dir) != NULL);
	if (want == -ENOENT)
		return; /* a writer makes it */
	check_eq(ol_ckpt_writer_start(dir, &meta, 1, &writer, err, sizeof(err)), want);
	check(writer == NULL);
	check(strstr(err, ol_status_str(want)) != NULL && strstr(err, dir) != NULL);
}

static void a_folder_that_is_not_there_is_refused(void **state)
{
	char path[CKPT_PATH];

	snprintf(path, sizeof(path), "%s/none", (char *)*state);
	check_reader_and_writer(path, -ENOENT);
}

static void a_file_in_place_of_the_folder_is_refused(void **state)
{
	char path[CKPT_PATH];
	int fd;

	snprintf(path, sizeof(path), "%s/file", (char *)*state);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	check_reader_and_writer(path, -ENOTDIR);
}

static void a_name_that_is_too_long_is_refused(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 1);
	struct ol_ckpt_writer *writer = NULL;
	char path[OL_CKPT_DIR_MAX + 1], err[CKPT_ERR];

	(void)state;
	memset(path, 'x', sizeof(path));
	for (size_t i = 0; i < sizeof(path); i += 100)
		path[i] = '/';
	path[OL_CKPT_DIR_MAX] = '\0';
	check_refused(path, &meta, -ENAMETOOLONG);
	assert_int_equal(newest(path, &meta), -ENAMETOOLONG);
	assert_int_equal(ol_ckpt_writer_start(path, &meta, 1, &writer, err, sizeof(err)),
			 -ENAMETOOLONG);
	assert_null(writer);
}

/* As a user who is not root. */
static void without_rights(const char *dir)
{
	struct ol_ckpt_meta meta = meta_of(1, 1), next = meta_of(1, 2);
	struct ol_ckpt_writer *writer = NULL;
	char closed[CKPT_PATH], fixed[CKPT_PATH], err[CKPT_PATH] = "";

	snprintf(closed, sizeof(closed), "%s/closed", dir);
	snprintf(fixed, sizeof(fixed), "%s/fixed", dir);
	check_ok(mkdir(closed, 0700));
	check_ok(mkdir(fixed, 0700));
	put(fixed, &meta, 1);
	path_of(fixed, &meta, err);
	check_ok(chmod(err, 0644));
	check_ok(chmod(closed, 0));
	check_ok(chmod(fixed, 0555));
	check_ok(chmod(dir, 0755));
	if (geteuid() == 0)
		check_ok(setresuid(65534, 65534, 65534));
	check_reader_and_writer(closed, -EACCES);
	/* what cannot be written can be read */
	check_refused(fixed, &next, -EACCES);
	check_old_one_stands(fixed, 1);
	check_eq(ol_ckpt_writer_start(fixed, &meta, 1, &writer, err, sizeof(err)), -EACCES);
	check(writer == NULL && strstr(err, fixed) != NULL);
	snprintf(fixed, sizeof(fixed), "%s/fixed/new", dir);
	check_eq(ol_ckpt_writer_start(fixed, &meta, 1, &writer, err, sizeof(err)), -EACCES);
}

/* As a user who is not root: what is above the folder may be passed through and not be read, so it
 * cannot be made durable. */
static void below_what_cannot_be_read(const char *dir)
{
	struct ol_ckpt_meta meta = meta_of(1, 1);
	struct ol_ckpt_writer *writer = NULL;
	char above[CKPT_PATH], own[CKPT_PATH], err[CKPT_ERR] = "";

	snprintf(above, sizeof(above), "%s/above", dir);
	snprintf(own, sizeof(own), "%s/above/own", dir);
	check_ok(mkdir(above, 0700));
	check_ok(mkdir(own, 0700));
	if (geteuid() == 0)
		check_ok(chown(own, 65534, 65534));
	check_ok(chmod(above, 0311));
	check_ok(chmod(dir, 0755));
	if (geteuid() == 0)
		check_ok(setresuid(65534, 65534, 65534));
	check_ok(ol_ckpt_writer_start(own, &meta, 1, &writer, err, sizeof(err)));
	ol_ckpt_writer_stop(writer);
	(void)chmod(above, 0700); /* to be removed; root may as it is */
}

static void a_folder_below_one_that_cannot_be_read_will_do(void **state)
{
	in_child(below_what_cannot_be_read, *state);
}

/* As a user who is not root: the running checkpoint is another's. */
static void without_rights_to_a_running_one(const char *dir)
{
	struct ol_ckpt_meta meta = tiny_meta(1);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct choice choice = { .count = 1, .blocks = { 3 } };
	struct ol_running *running = running_of(dir, &meta, &blocks, &choice);
	uint8_t *content = content_of(&meta.geo, 1);
	char path[CKPT_PATH];

	check_ok(turn(running, &meta.geo, 1, 1, false).status);
	ol_running_destroy(running);
	running_path(dir, &meta, path);
	check_ok(chmod(path, 0));
	check_ok(chmod(dir, 0755));
	if (geteuid() == 0)
		check_ok(setresuid(65534, 65534, 65534));
	log_forget();
	check_eq(restored(dir, &blocks, &meta, content), -EACCES);
	check_eq(logged.lines, 1);
	check(strstr(logged.text, "it cannot be opened: Permission") != NULL);
	free(content);
	ol_ckpt_blocks_fini(&blocks);
}

static void a_running_one_without_rights_is_named(void **state)
{
	in_child(without_rights_to_a_running_one, *state);
}

/* As a user who is not root: the newest is another's. */
static void without_rights_to_the_newest(const char *dir)
{
	struct ol_ckpt_meta meta = meta_of(1, 1);
	char path[CKPT_PATH];

	put(dir, &meta, 2);
	meta.version = 2;
	put(dir, &meta, 2);
	path_of(dir, &meta, path);
	check_ok(chmod(path, 0));
	check_ok(chmod(dir, 0755));
	if (geteuid() == 0)
		check_ok(setresuid(65534, 65534, 65534));
	log_forget();
	check_eq(newest(dir, &meta), -EACCES);
	check_eq(logged.lines, 1);
	check(strstr(logged.text, "v00000000000000000002.olc: it cannot be opened: Permission") !=
	      NULL);
	check(strstr(logged.text, "mend the cause, or move it away to go back") != NULL);
}

static void a_newest_without_rights_is_no_reason_to_go_back(void **state)
{
	in_child(without_rights_to_the_newest, *state);
}

static void a_folder_without_rights_is_refused(void **state)
{
	in_child(without_rights, *state);
}

/* A small file system of our own on dir, seen by this process only. */
static void mount_small(const char *dir, const char *size)
{
	if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
		printf("skip: no mount namespace: %s\n", strerror(errno));
		fflush(stdout);
		_exit(CHECK_SKIP);
	}
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", dir, "tmpfs", 0, size) != 0) {
		printf("skip: no mount of a tmpfs: %s\n", strerror(errno));
		fflush(stdout);
		_exit(CHECK_SKIP);
	}
}

static void on_a_full_disk(const char *dir)
{
	struct ol_ckpt_meta old = meta_of(1, 1), next = meta_of(1, 2);
	struct ol_ckpt_writer *writer = NULL;
	struct ol_ckpt_result result = { .status = 0 };
	uint8_t *content = content_of(&old.geo, 3);
	char err[CKPT_ERR] = "", ballast[CKPT_PATH];
	int fd;

	mount_small(dir, "size=1m,mode=700"); /* one fits, two do not */
	put(dir, &old, 2);
	check_refused(dir, &next, -ENOSPC);
	check_old_one_stands(dir, 1);

	check_ok(ol_ckpt_writer_start(dir, &old, 2, &writer, err, sizeof(err)));
	check(ol_ckpt_writer_begin(writer, content, 3, 1));
	ol_ckpt_writer_wait(writer);
	check_eq(ol_ckpt_writer_poll(writer, &result), OL_CKPT_DONE);
	check_eq(result.status, -ENOSPC);
	check_eq(result.bytes, 0);
	check_eq(result.version, 3);
	check(strstr(result.err, "v00000000000000000003.olc") != NULL &&
	      strstr(result.err, "No space left on device") != NULL &&
	      strstr(result.err, "block") != NULL && strstr(result.err, "keep=") != NULL);
	check_old_one_stands(dir, 1);

	/* room again: the next one is written, by the same writer */
	path_of(dir, &old, ballast);
	check_ok(unlink(ballast));
	check(ol_ckpt_writer_begin(writer, content, 3, 1));
	ol_ckpt_writer_wait(writer);
	check_eq(ol_ckpt_writer_poll(writer, &result), OL_CKPT_DONE);
	check_eq(result.status, 0);
	check_old_one_stands(dir, 3);
	ol_ckpt_writer_stop(writer);

	/* not even a name fits: what fills it is somebody else's */
	snprintf(ballast, sizeof(ballast), "%s/ballast", dir);
	fd = open(ballast, O_CREAT | O_WRONLY, 0600);
	check(fd >= 0);
	while (write(fd, content, 4096) == 4096)
		;
	check_eq(errno, ENOSPC);
	close(fd);
	check_refused(dir, &next, -ENOSPC);
	check_ok(unlink(ballast));
	check_old_one_stands(dir, 3);
	free(content);
}

static void a_full_disk_leaves_what_was_there(void **state)
{
	in_child(on_a_full_disk, *state);
}

static void the_advice_for_a_full_disk_fits_the_kind_of_checkpoint(void **state)
{
	(void)state;
	assert_non_null(strstr(ol_ckpt_remedy(-ENOSPC, false), "keep="));
	assert_null(strstr(ol_ckpt_remedy(-ENOSPC, true), "keep")); /* which is refused there */
	assert_non_null(strstr(ol_ckpt_remedy(-ENOSPC, true), "room"));
}

static void on_a_read_only_disk(const char *dir)
{
	struct ol_ckpt_meta old = meta_of(1, 1), next = meta_of(1, 2);
	struct ol_ckpt_writer *writer = NULL;
	char err[CKPT_ERR] = "", below[CKPT_PATH];

	mount_small(dir, "size=4m,mode=700");
	put(dir, &old, 1);
	check_ok(mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, NULL));
	check_refused(dir, &next, -EROFS);
	check_old_one_stands(dir, 1);
	check_eq(ol_ckpt_writer_start(dir, &old, 1, &writer, err, sizeof(err)), -EROFS);
	check(writer == NULL && strstr(err, "Read-only file system") != NULL);
	snprintf(below, sizeof(below), "%s/new", dir);
	check_eq(ol_ckpt_writer_start(below, &old, 1, &writer, err, sizeof(err)), -EROFS);
}

static void a_read_only_disk_is_read_and_not_written(void **state)
{
	in_child(on_a_read_only_disk, *state);
}

/* A limit on the size of files stops the write at every length that there is. */
static void under_a_limit(const char *dir)
{
	struct ol_ckpt_meta old = meta_of(1, 1), next = meta_of(1, 2);
	struct ol_ckpt_header header;
	struct rlimit limit;
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	put(dir, &old, 2);
	check_ok(ol_ckpt_header_make(&next, &header));
	check_ok(sigaction(SIGXFSZ, &ignore, NULL));
	check_ok(getrlimit(RLIMIT_FSIZE, &limit));
	for (uint64_t at = 0; at < header.file_bytes; at += at % OL_PAGE_BYTES == 0 ? 1 : 4095) {
		limit.rlim_cur = at;
		check_ok(setrlimit(RLIMIT_FSIZE, &limit));
		check_refused(dir, &next, -EFBIG);
		check_old_one_stands(dir, 1);
	}
	limit.rlim_cur = header.file_bytes;
	check_ok(setrlimit(RLIMIT_FSIZE, &limit));
	put(dir, &next, 1);
	check_old_one_stands(dir, 2);
}

static void a_write_cut_short_anywhere_leaves_what_was_there(void **state)
{
	in_child(under_a_limit, *state);
}

/* The signal of that limit would end the process; the writer's thread holds it back. */
static void a_writer_under_a_limit(const char *dir)
{
	struct ol_ckpt_meta meta = meta_of(1, 1);
	struct rlimit limit = { .rlim_cur = 100000, .rlim_max = RLIM_INFINITY };
	struct ol_ckpt_result result = { .status = 0 };
	uint8_t *content = content_of(&meta.geo, 1);
	struct ol_ckpt_writer *writer;
	char err[CKPT_ERR] = "";

	check_ok(setrlimit(RLIMIT_FSIZE, &limit));
	check_ok(ol_ckpt_writer_start(dir, &meta, 1, &writer, err, sizeof(err)));
	check(ol_ckpt_writer_begin(writer, content, 1, 1));
	ol_ckpt_writer_wait(writer);
	check_eq(ol_ckpt_writer_poll(writer, &result), OL_CKPT_DONE);
	check_eq(result.status, -EFBIG);
	ol_ckpt_writer_stop(writer);
	free(content);
}

static void a_limit_on_files_does_not_end_the_process(void **state)
{
	in_child(a_writer_under_a_limit, *state);
}

static void leftovers_of_this_shard_go_and_no_others(void **state)
{
	struct ol_ckpt_meta mine = meta_of(1, 5), other = meta_of(1, 5), third = meta_of(1, 5);
	const struct ol_ckpt_meta *metas[3] = { &mine, &other, &third };
	struct ol_ckpt_writer *writer;
	char path[CKPT_PATH], text[OL_CKPT_NAME_MAX], err[CKPT_ERR];
	unsigned dotted;

	other.geo.shard = 0;
	third.job_id++;
	for (unsigned i = 0; i < 3; i++) {
		struct ol_ckpt_name name = ol_ckpt_name_of(metas[i]);
		int fd;

		name.temporary = true;
		ol_ckpt_name_format(&name, text);
		snprintf(path, sizeof(path), "%s/%s", (char *)*state, text);
		fd = open(path, O_CREAT | O_WRONLY, 0600);
		assert_true(fd >= 0);
		close(fd);
	}
	mine.version = 4;
	put(*state, &mine, 1); /* a write clears away too */
	assert_int_equal(files_in(*state, &dotted), 3);
	assert_int_equal(dotted, 2);
	assert_int_equal(ol_ckpt_writer_start(*state, &third, 1, &writer, err, sizeof(err)), 0);
	assert_int_equal(files_in(*state, &dotted), 2);
	assert_int_equal(dotted, 1);
	assert_true(is_there(*state, &mine));
	ol_ckpt_writer_stop(writer);
}

/* What lies under the temporary name is not written through: it may be a link to anywhere. */
static void a_link_under_the_temporary_name_is_not_followed(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 5);
	struct ol_ckpt_name name = ol_ckpt_name_of(&meta);
	char link[CKPT_PATH], victim[CKPT_PATH], text[OL_CKPT_NAME_MAX];
	struct stat stat;
	int fd;

	snprintf(victim, sizeof(victim), "%s/victim", (char *)*state);
	fd = open(victim, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	name.temporary = true;
	ol_ckpt_name_format(&name, text);
	snprintf(link, sizeof(link), "%s/%s", (char *)*state, text);
	assert_int_equal(symlink("victim", link), 0);
	put(*state, &meta, 1);
	assert_int_equal(lstat(victim, &stat), 0);
	assert_int_equal(stat.st_size, 0);
	assert_int_equal(newest(*state, &meta), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(a_folder_that_is_not_there_is_refused),
		ckpt_test(a_file_in_place_of_the_folder_is_refused),
		ckpt_test(a_name_that_is_too_long_is_refused),
		ckpt_test(a_folder_without_rights_is_refused),
		ckpt_test(a_newest_without_rights_is_no_reason_to_go_back),
		ckpt_test(a_folder_below_one_that_cannot_be_read_will_do),
		ckpt_test(a_running_one_without_rights_is_named),
		ckpt_test(a_full_disk_leaves_what_was_there),
		cmocka_unit_test(the_advice_for_a_full_disk_fits_the_kind_of_checkpoint),
		ckpt_test(a_read_only_disk_is_read_and_not_written),
		ckpt_test(a_write_cut_short_anywhere_leaves_what_was_there),
		ckpt_test(a_limit_on_files_does_not_end_the_process),
		ckpt_test(leftovers_of_this_shard_go_and_no_others),
		ckpt_test(a_link_under_the_temporary_name_is_not_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
