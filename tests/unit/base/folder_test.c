/* SPDX-License-Identifier: BSD-3-Clause */

/* folder_test.c -- a private folder belongs to this user alone, is removed with its content, and is
 * locked */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder.h"
#include "support/folder.h"

static void a_folder_goes_with_what_is_in_it(void **unused)
{
	struct ol_folder folder;
	struct stat st;
	char below[160];

	(void)unused;
	assert_int_equal(ol_folder_make(&folder, "ol-folder-test-"), 0);
	assert_int_equal(stat(folder.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	snprintf(below, sizeof(below), "%s/a", folder.path);
	assert_int_equal(mkdir(below, 0700), 0);
	snprintf(below, sizeof(below), "%s/a/b", folder.path);
	assert_int_equal(close(open(below, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
	snprintf(below, sizeof(below), "%s", folder.path);
	ol_folder_drop(&folder);
	assert_int_equal(access(below, F_OK), -1);
	ol_folder_drop(&folder); /* there is none */
}

static void the_first_place_that_can_be_written_is_taken(void **unused)
{
	char base[] = "/tmp/ol-folder-base-XXXXXX";
	struct ol_folder folder;

	(void)unused;
	assert_non_null(mkdtemp(base));
	assert_int_equal(setenv("XDG_RUNTIME_DIR", base, 1), 0);
	assert_int_equal(ol_folder_make(&folder, "x-"), 0);
	assert_int_equal(strncmp(folder.path, base, strlen(base)), 0);
	ol_folder_drop(&folder);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "/nowhere/at/all", 1), 0);
	assert_int_equal(ol_folder_make(&folder, "ol-folder-test-"), 0);
	assert_int_not_equal(strncmp(folder.path, "/nowhere", 8), 0);
	ol_folder_drop(&folder);
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
	assert_int_equal(folder_drop(base), 0);
}

/* A lock tells the folders of processes that live from what others left behind */
static void a_folder_is_locked(void **unused)
{
	struct ol_folder folder;
	int fd;

	(void)unused;
	assert_int_equal(ol_folder_make(&folder, "ol-folder-test-"), 0);
	fd = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
	assert_int_equal(errno, EWOULDBLOCK);
	close(fd);
	ol_folder_drop(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_goes_with_what_is_in_it),
		cmocka_unit_test(the_first_place_that_can_be_written_is_taken),
		cmocka_unit_test(a_folder_is_locked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
