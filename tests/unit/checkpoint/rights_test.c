/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rights_test.c -- checkpoints are their user's alone, whatever the umask; what another user can
 * change is refused in one line, and nothing older is taken in its place
 *
 * not under tsan: one thread
 */
#include "running_util.h"

#include <sys/stat.h>

static void check_mode(const char *path, mode_t want)
{
	struct stat stat;

	check_ok(lstat(path, &stat));
	check_msg((stat.st_mode & 07777) == want, "%s: mode %o", path, stat.st_mode & 07777);
}

/* Every name in it */
static void check_modes(const char *dir)
{
	char path[CKPT_PATH + 256];
	struct dirent *entry;
	DIR *stream = opendir(dir);
	unsigned count = 0;

	check(stream != NULL);
	check_mode(dir, 0700);
	while ((entry = readdir(stream)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		check_mode(path, 0600);
		count++;
	}
	check_eq(count, 4); /* two locks, a full one and a running one */
	closedir(stream);
}

static void what_is_written_is_its_users_alone(void **state)
{
	static const mode_t masks[] = { 0, 022, 077, 0277, 0777 };
	struct ol_ckpt_meta meta = tiny_meta(1);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct choice choice = { .count = 1, .blocks = { 3 } };
	char dir[CKPT_PATH], err[CKPT_ERR] = "";
	struct ol_ckpt_running_opts opts = { .blocks = &blocks,
					     .choose = choose_made,
					     .choose_arg = &choice };
	struct ol_ckpt_writer *writer, *running;
	uint8_t *content = content_of(&meta.geo, 1);

	choice.block_count = blocks.count;
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		mode_t before = umask(masks[i]);

		snprintf(dir, sizeof(dir), "%s/mask%zu", (char *)*state, i);
		check_ok(ol_ckpt_writer_start(dir, &meta, 1, &writer, err, sizeof(err)));
		check_ok(ol_ckpt_writer_start_running(dir, &meta, &opts, &running, err,
						      sizeof(err)));
		check(ol_ckpt_writer_begin(writer, content, 1, 1));
		check(ol_ckpt_writer_begin(running, content, 1, 1));
		ol_ckpt_writer_stop(writer);
		ol_ckpt_writer_stop(running);
		umask(before);
		check_modes(dir);
	}
	free(content);
	ol_ckpt_blocks_fini(&blocks);
}

/* Reading and writing end with -EPERM and one line that says so and names the folder */
static void check_folder_refused(const char *dir, const char *says)
{
	struct ol_ckpt_meta meta = meta_of(1, 3);
	struct ol_ckpt_writer *writer = NULL;
	uint8_t *content = content_of(&meta.geo, 3);
	char err[CKPT_ERR + CKPT_PATH] = "";

	log_forget();
	check_eq(newest(dir, &meta), -EPERM);
	check_eq(logged.lines, 1);
	check_msg(strstr(logged.text, says) != NULL && strstr(logged.text, dir) != NULL, "%.300s",
		  logged.text);
	check_eq(ol_ckpt_write(dir, &meta, content, 2, err, sizeof(err)), -EPERM);
	check_msg(strstr(err, says) != NULL && strstr(err, dir) != NULL, "%.300s", err);
	check_eq(ol_ckpt_writer_start(dir, &meta, 2, &writer, err, sizeof(err)), -EPERM);
	check_msg(strstr(err, says) != NULL && strstr(err, dir) != NULL, "%.300s", err);
	check(writer == NULL);
	free(content);
}

static void a_folder_that_others_can_change_is_refused(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 2);
	const char *dir = *state;

	put(dir, &meta, 2);
	check_ok(chmod(dir, 0720));
	check_folder_refused(dir, "other users can write it (mode 720): chmod go-w it");
	check_ok(chmod(dir, 01702));
	check_folder_refused(dir, "other users can write it (mode 702): chmod go-w it");
	check_ok(chmod(dir, 0755)); /* to look is no harm */
	check_ok(newest(dir, &meta));
	if (geteuid() == 0) {
		check_ok(chown(dir, 65534, 65534));
		check_folder_refused(dir, "it belongs to user 65534");
		check_ok(chown(dir, 0, 0));
		check_ok(newest(dir, &meta));
	}
	check_ok(chmod(dir, 0700));
}

/* It may be whole: the older one, which is, is not taken */
static void check_file_refused(const char *dir, const char *says)
{
	struct ol_ckpt_meta meta = meta_of(1, 0);

	log_forget();
	check_eq(newest(dir, &meta), -EPERM);
	check_eq(logged.lines, 1);
	check_msg(strstr(logged.text, says) != NULL &&
			  strstr(logged.text, "v00000000000000000002.olc") != NULL &&
			  strstr(logged.text, "mend the cause, or move it away") != NULL,
		  "%.300s", logged.text);
}

static void a_file_that_others_can_change_is_refused(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 1);
	const char *dir = *state;
	char path[CKPT_PATH];

	put(dir, &meta, 2);
	meta.version = 2;
	put(dir, &meta, 2);
	path_of(dir, &meta, path);
	check_ok(chmod(path, 0660));
	check_file_refused(dir, "other users can write it (mode 660): chmod go-w it");
	check_ok(chmod(path, 0606));
	check_file_refused(dir, "other users can write it (mode 606): chmod go-w it");
	check_ok(chmod(path, 0644));
	check_ok(newest(dir, &meta));
	check_eq(meta.version, 2);
	if (geteuid() == 0) {
		check_ok(chown(path, 65534, 65534));
		check_file_refused(dir, "it belongs to user 65534");
	}
}

static void a_running_one_that_others_can_change_is_refused(void **state)
{
	struct ol_ckpt_meta meta = tiny_meta(1);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct choice choice = { .count = 1, .blocks = { 3 } };
	struct ol_running *running = running_of(*state, &meta, &blocks, &choice);
	uint8_t *content = content_of(&meta.geo, 1);
	char path[CKPT_PATH], elsewhere[CKPT_PATH + 8];

	check_ok(turn(running, &meta.geo, 1, 1, false).status);
	ol_running_destroy(running);
	running_path(*state, &meta, path);
	check_ok(chmod(path, 0620));
	log_forget();
	check_eq(restored(*state, &blocks, &meta, content), -EPERM);
	check_eq(logged.lines, 1);
	check(strstr(logged.text, "other users can write it (mode 620): chmod go-w it") != NULL);
	check_ok(chmod(path, 0600));
	check_ok(restored(*state, &blocks, &meta, content));
	snprintf(elsewhere, sizeof(elsewhere), "%s/whole", (char *)*state);
	check_ok(rename(path, elsewhere));
	check_ok(symlink("whole", path));
	log_forget();
	check_eq(restored(*state, &blocks, &meta, content), -ELOOP);
	check_eq(logged.lines, 1);
	free(content);
	ol_ckpt_blocks_fini(&blocks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(what_is_written_is_its_users_alone),
		ckpt_test(a_folder_that_others_can_change_is_refused),
		ckpt_test(a_file_that_others_can_change_is_refused),
		ckpt_test(a_running_one_that_others_can_change_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
