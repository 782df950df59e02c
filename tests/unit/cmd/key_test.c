/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * key_test.c -- a key that others can have, or that is too short, is refused in one line; the
 * variable does not outlive its reading
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/cmd.h"
#include "cmd/key.h"
#include "support/check.h"

#define GOOD  "0123456789abcdef0123456789ABCDEF"
#define SHORT "0123456789abcdef"

static char file[] = "/tmp/ol-key-test-XXXXXX";
static char said[512]; /* on stderr in the last reading */
static char key[OL_JOB_KEY_MAX];

static int setup(void **unused)
{
	int fd = mkstemp(file);

	(void)unused;
	return fd < 0 || close(fd) != 0;
}

static int teardown(void **unused)
{
	(void)unused;
	return unlink(file);
}

static void file_put(const void *bytes, size_t count, mode_t mode)
{
	int fd = open(file, O_WRONLY | O_TRUNC);

	check(fd >= 0);
	check_eq(write(fd, bytes, count), count);
	check_ok(fchmod(fd, mode));
	close(fd);
}

/* Read with stderr in `said`; returns the exit code */
static int take(const char *from, bool shared)
{
	struct ol_set_key set = { .job_key_file = from, .job_key_file_shared = shared };
	FILE *out = tmpfile();
	int saved = dup(STDERR_FILENO), rc;
	size_t got;

	check(out != NULL && saved >= 0);
	fflush(stderr);
	check(dup2(fileno(out), STDERR_FILENO) >= 0);
	memset(key, 'x', sizeof(key));
	rc = ol_job_key_read("test", &set, key);
	fflush(stderr);
	check(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	rewind(out);
	got = fread(said, 1, sizeof(said) - 1, out);
	said[got] = '\0';
	fclose(out);
	return rc;
}

/* Refused in one line that says so, and no byte of a key is left */
static void check_refused(const char *from, bool shared, const char *says)
{
	static const char none[OL_JOB_KEY_MAX];

	assert_int_equal(take(from, shared), OL_EXIT_USAGE);
	if (strstr(said, says) == NULL)
		fail_msg("\"%s\": \"%s\"", says, said);
	assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
	assert_memory_equal(key, none, sizeof(none));
}

static void a_file_of_the_users_own_gives_the_key(void **unused)
{
	(void)unused;
	file_put(GOOD "\n", 33, 0600);
	assert_int_equal(take(file, false), 0);
	assert_string_equal(key, GOOD);
	assert_string_equal(said, "");
	file_put(GOOD "\r\n", 34, 0400);
	assert_int_equal(take(file, false), 0);
	assert_string_equal(key, GOOD);
}

static void a_file_that_others_can_read_or_write_is_refused(void **unused)
{
	static const struct {
		mode_t mode;
		const char *says;
	} modes[] = { { 0640, "can read it (mode 640)" },
		      { 0604, "can read it (mode 604)" },
		      { 0644, "can read it (mode 644)" },
		      { 0620, "can write it (mode 620)" },
		      { 0602, "can write it (mode 602)" } };

	(void)unused;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		file_put(GOOD "\n", 33, modes[i].mode);
		check_refused(file, false, modes[i].says);
		assert_non_null(strstr(said, "chmod 600"));
		assert_non_null(strstr(said, file));
		assert_int_equal(take(file, true), 0);
		assert_string_equal(key, GOOD);
	}
}

static void a_file_of_another_user_is_refused(void **unused)
{
	(void)unused;
	if (geteuid() != 0)
		skip();
	file_put(GOOD "\n", 33, 0600);
	assert_int_equal(chown(file, 65534, 65534), 0);
	check_refused(file, false, "belongs to user 65534");
	assert_int_equal(take(file, true), 0);
	assert_int_equal(chown(file, 0, 0), 0);
	assert_int_equal(take(file, false), 0);
}

static void a_file_that_holds_no_key_is_refused_shared_or_not(void **unused)
{
	char many[OL_JOB_KEY_MAX + 1];

	(void)unused;
	memset(many, 'k', sizeof(many));
	for (unsigned shared = 0; shared < 2; shared++) {
		file_put(SHORT "\n", 17, 0600);
		check_refused(file, shared, "fewer than 128 bits");
		file_put("\n", 1, 0600);
		check_refused(file, shared, "1 to 255 bytes");
		file_put(GOOD "\0" GOOD, 65, 0600);
		check_refused(file, shared, "1 to 255 bytes");
		file_put(many, OL_JOB_KEY_MAX, 0600);
		check_refused(file, shared, "1 to 255 bytes");
		check_refused("/nowhere/key", shared, "/nowhere/key");
	}
	file_put(many, OL_JOB_KEY_MAX - 1, 0600);
	assert_int_equal(take(file, false), 0);
	assert_int_equal(strlen(key), OL_JOB_KEY_MAX - 1);
}

static void the_variable_gives_the_key_and_is_wiped(void **unused)
{
	(void)unused;
	assert_int_equal(setenv(OL_JOB_KEY_VARIABLE, GOOD, 1), 0);
	assert_int_equal(take(NULL, false), 0);
	assert_string_equal(key, GOOD);
	assert_null(getenv(OL_JOB_KEY_VARIABLE));
	assert_int_equal(take(NULL, false), 0);
	assert_string_equal(key, "");

	assert_int_equal(setenv(OL_JOB_KEY_VARIABLE, SHORT, 1), 0);
	check_refused(NULL, false, OL_JOB_KEY_VARIABLE ": job key has fewer than 128 bits");
	assert_null(getenv(OL_JOB_KEY_VARIABLE));

	/* a file goes before it, and it is wiped all the same */
	file_put("fedcba9876543210fedcba9876543210", 32, 0600);
	assert_int_equal(setenv(OL_JOB_KEY_VARIABLE, GOOD, 1), 0);
	assert_int_equal(take(file, false), 0);
	assert_string_equal(key, "fedcba9876543210fedcba9876543210");
	assert_null(getenv(OL_JOB_KEY_VARIABLE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_the_users_own_gives_the_key),
		cmocka_unit_test(a_file_that_others_can_read_or_write_is_refused),
		cmocka_unit_test(a_file_of_another_user_is_refused),
		cmocka_unit_test(a_file_that_holds_no_key_is_refused_shared_or_not),
		cmocka_unit_test(the_variable_gives_the_key_and_is_wiped),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
