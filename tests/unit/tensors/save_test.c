/* SPDX-License-Identifier: BSD-3-Clause */

/* save_test.c -- what is saved is read back bit for bit; a file is whole under its name or not there, and
 * none is replaced unasked; what is no file is neither read nor waited for */

#include "unit/tensors/tensors_util.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum {
	FLOATS = 100003
};

static const struct ol_tensors_about about = { .version = 12, .epoch = 3, .job = "a \"job\"\n" };
static const char *const names[] = { "f.npy", "f.safetensors" };
static float floats[FLOATS];

static void floats_fill(uint32_t seed)
{
	for (uint32_t i = 0; i < FLOATS; i++) {
		uint32_t bits = (i + seed) * 2654435761u;

		memcpy(&floats[i], &bits, sizeof(bits)); /* NaNs and infinities too */
	}
}

static void check_saved(const char *path, bool force, uint64_t count)
{
	char err[ERR_LEN] = "";

	assert_int_equal(ol_tensors_may_save(path, force, err, sizeof(err)), 0);
	if (ol_tensors_save(path, force, floats, count, &about, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	check_floats(path, floats, count);
}

static void check_not_saved(const char *path, bool force, int code, const char *say)
{
	char err[ERR_LEN] = "";

	assert_int_equal(ol_tensors_save(path, force, floats, FLOATS, &about, err, sizeof(err)),
			 code);
	check_line(err, path, say);
}

static unsigned files_count(const char *dir)
{
	DIR *folder = opendir(dir);
	unsigned count = 0;

	assert_non_null(folder);
	while (readdir(folder) != NULL)
		count++;
	closedir(folder);
	return count - 2; /* . and .. */
}

static void what_is_saved_is_read_back_bit_for_bit(void **state)
{
	for (size_t i = 0; i < 2; i++) {
		floats_fill((uint32_t)i);
		check_saved(path_of(*state, names[i]), false, FLOATS);
		floats_fill((uint32_t)i + 7);
		check_saved(path_of(*state, names[i]), true, FLOATS - 1);
		check_saved(path_of(*state, names[i]), true, 1);
	}
	assert_int_equal(files_count(*state), 2);
}

static void numbers_are_aligned_in_the_file(void **state)
{
	static const unsigned aligns[] = { 64, 8 };

	for (size_t i = 0; i < 2; i++) {
		for (uint64_t count = 1; count <= FLOATS; count = count * 10 + 3) {
			struct stat st;

			check_saved(path_of(*state, names[i]), true, count);
			assert_int_equal(stat(path_of(*state, names[i]), &st), 0);
			assert_int_equal(((uint64_t)st.st_size - count * 4) % aligns[i], 0);
		}
	}
}

static void a_file_is_replaced_only_by_force(void **state)
{
	char err[ERR_LEN] = "";

	floats_fill(1);
	for (size_t i = 0; i < 2; i++) {
		const char *path = path_of(*state, names[i]);

		check_saved(path, false, 10);
		assert_int_equal(ol_tensors_may_save(path, false, err, sizeof(err)), -EEXIST);
		check_line(err, path, "--force");
		check_not_saved(path, false, -EEXIST, "--force");
		check_floats(path, floats, 10);
	}
	assert_int_equal(files_count(*state), 2);
}

static void what_is_no_file_is_not_replaced(void **state)
{
	const char *path = path_of(*state, "f.npy");

	assert_int_equal(mkfifo(path, 0600), 0);
	check_not_saved(path, true, -EINVAL, "no regular file");
	check_refused(path, -EINVAL, "no regular file");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	check_not_saved(path, true, -EINVAL, "no regular file");
	check_refused(path, -EINVAL, "a folder");
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink("/dev/zero", path), 0);
	check_not_saved(path, true, -EINVAL, "no regular file");
	check_refused(path, -EINVAL, "no regular file");
	assert_int_equal(unlink(path), 0);
	check_refused(path, -ENOENT, "cannot be opened: No such file");
	check_not_saved("/nowhere/at/all.npy", false, -ENOENT, "its folder cannot be opened");
	assert_int_equal(files_count(*state), 0);
}

static void another_name_is_refused(void **state)
{
	static const char *const others[] = { "f",   "f.npz", "f.NPY", "npy", "f.safetensors.txt",
					      "f.pt" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const char *path = path_of(*state, others[i]);

		check_refused(path, -EINVAL, "ends neither in .npy nor in .safetensors");
		check_not_saved(path, false, -EINVAL, "ends neither");
	}
}

/* A limit of this process on the length of files is a full disk. */
static void a_write_that_fails_leaves_the_older_file(void **state)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct rlimit was, low;

	assert_int_equal(sigaction(SIGXFSZ, &ignore, NULL), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	floats_fill(2);
	for (size_t i = 0; i < 2; i++) {
		const char *path = path_of(*state, names[i]);

		check_saved(path, false, 10);
		low = (struct rlimit){ .rlim_cur = 100000, .rlim_max = was.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
		check_not_saved(path, true, -EFBIG, "cannot be written");
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
		check_floats(path, floats, 10);
	}
	assert_int_equal(files_count(*state), 2);
}

static void a_file_that_shrinks_is_noticed(void **state)
{
	char err[ERR_LEN] = "";

	floats_fill(3);
	for (size_t i = 0; i < 2; i++) {
		const char *path = path_of(*state, names[i]);
		struct ol_tensors *tensors = NULL;

		check_saved(path, false, FLOATS);
		assert_int_equal(ol_tensors_open(path, &tensors, err, sizeof(err)), 0);
		assert_int_equal(truncate(path, 1000), 0);
		assert_int_equal(ol_tensors_read(tensors, 0, FLOATS, floats, err, sizeof(err)),
				 -EBADMSG);
		check_line(err, path, "ends at byte 1000: it was cut off while it was read");
		ol_tensors_close(tensors);
	}
	ol_tensors_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tmp_setup, tmp_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_saved_is_read_back_bit_for_bit),
		TEST(numbers_are_aligned_in_the_file),
		TEST(a_file_is_replaced_only_by_force),
		TEST(what_is_no_file_is_not_replaced),
		TEST(another_name_is_refused),
		TEST(a_write_that_fails_leaves_the_older_file),
		TEST(a_file_that_shrinks_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
