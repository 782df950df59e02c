/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * logs_test.c -- lines go to stderr as they stand, or with date, host and process id, or to the journal with the fields of a
 * server; and none is lost if the journal does not take it
 */
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "cmd/logs.h"

static char folder[] = "/tmp/ol-logs-XXXXXX";
static char path[64];
static char text[8192];
static int journal = -1, old_stderr = -1, reader = -1;

static void journal_open(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	memcpy(addr.sun_path, path, strlen(path));
	journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(journal >= 0);
	assert_int_equal(bind(journal, (struct sockaddr *)&addr, sizeof(addr)), 0);
}

/* stderr is a pipe that the test reads */
static int setup(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	old_stderr = dup(STDERR_FILENO);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	reader = ends[0];
	assert_int_equal(fcntl(reader, F_SETFL, O_NONBLOCK), 0);
	unsetenv("JOURNAL_STREAM");
	journal_open();
	ol_logs_journal(path);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ol_logs_set(OL_LOG_FORMAT_SHORT);
	dup2(old_stderr, STDERR_FILENO);
	close(old_stderr);
	close(reader);
	close(journal);
	(void)unlink(path);
	return 0;
}

/* What was written to stderr; "" if nothing was */
static const char *written(void)
{
	ssize_t got = read(reader, text, sizeof(text) - 1);

	text[got > 0 ? got : 0] = '\0';
	return text;
}

/* What the journal got in one datagram; its zeros are dots */
static const char *kept(void)
{
	ssize_t got = recv(journal, text, sizeof(text) - 1, MSG_DONTWAIT);

	for (ssize_t i = 0; i < got; i++) {
		if (text[i] == '\0')
			text[i] = '.';
	}
	text[got > 0 ? got : 0] = '\0';
	return text;
}

static void assert_like(const char *line, const char *pattern)
{
	regex_t regex;

	assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	if (regexec(&regex, line, 0, NULL, 0) != 0)
		fail_msg("\"%s\" is not like \"%s\"", line, pattern);
	regfree(&regex);
}

static void a_short_line_of_the_program_stands_as_it_is(void **state)
{
	(void)state;
	ol_logs_set(OL_LOG_FORMAT_SHORT);
	ol_logs_say(OL_LOG_ERROR, "%s: %d", "a", 1);
	assert_string_equal(written(), "a: 1\n");
	ol_log(OL_LOG_WARN, "b");
	assert_like(written(), "^[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} warn  b\n$");
	assert_string_equal(kept(), "");
}

static void a_full_line_has_date_host_and_process(void **state)
{
	char host[65] = "", pattern[256];

	(void)state;
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	snprintf(pattern, sizeof(pattern),
		 "^2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}[+-][0-9]{4} "
		 "%s outlast\\[%d\\]: (info  a|warn  b)\n$",
		 host, (int)getpid());
	ol_logs_set(OL_LOG_FORMAT_FULL);
	ol_logs_say(OL_LOG_INFO, "a");
	assert_like(written(), pattern);
	ol_log(OL_LOG_WARN, "b");
	assert_like(written(), pattern);
}

static void the_journal_gets_fields(void **state)
{
	(void)state;
	ol_logs_set(OL_LOG_FORMAT_JOURNAL);
	ol_logs_say(OL_LOG_ERROR, "first");
	assert_string_equal(kept(),
			    "PRIORITY=3\nSYSLOG_IDENTIFIER=outlast\nMESSAGE\n\005.......first\n");
	ol_logs_server(2, 0, 0);
	ol_logs_say(OL_LOG_INFO, "a");
	assert_string_equal(kept(),
			    "PRIORITY=6\nSYSLOG_IDENTIFIER=outlast\nOUTLAST_SHARD=2\nMESSAGE\n"
			    "\001.......a\n");
	ol_logs_server(2, 3, 1200);
	ol_log(OL_LOG_WARN, "b\nMESSAGE=c");
	assert_string_equal(kept(), "PRIORITY=4\nSYSLOG_IDENTIFIER=outlast\nOUTLAST_SHARD=2\n"
				    "OUTLAST_EPOCH=3\nOUTLAST_VERSION=1200\nMESSAGE\n"
				    "\013.......b\nMESSAGE=c\n");
	assert_string_equal(written(), "");
}

static void a_line_that_the_journal_does_not_take_goes_to_stderr(void **state)
{
	unsigned taken = 0;

	(void)state;
	ol_logs_set(OL_LOG_FORMAT_JOURNAL);
	while (taken < 100000 && written()[0] == '\0') {
		ol_logs_say(OL_LOG_INFO, "one of many");
		taken++;
	}
	assert_string_equal(text, "one of many\n");
	while (kept()[0] != '\0')
		;
	ol_logs_say(OL_LOG_INFO, "next");
	assert_like(kept(), "next\n$");
	ol_logs_journal("/nowhere/at/all");
	ol_log(OL_LOG_WARN, "lost");
	assert_string_equal(written(), "lost\n");
}

static void auto_is_the_journal_if_stderr_leads_there(void **state)
{
	char stream[64];
	struct stat stat;

	(void)state;
	ol_logs_set(OL_LOG_FORMAT_AUTO);
	ol_logs_say(OL_LOG_INFO, "by hand");
	assert_string_equal(written(), "by hand\n");
	assert_int_equal(fstat(STDERR_FILENO, &stat), 0);
	snprintf(stream, sizeof(stream), "%" PRIu64 ":%" PRIu64, (uint64_t)stat.st_dev,
		 (uint64_t)stat.st_ino + 1);
	setenv("JOURNAL_STREAM", stream, 1);
	ol_logs_set(OL_LOG_FORMAT_AUTO);
	ol_logs_say(OL_LOG_INFO, "to a file");
	assert_string_equal(written(), "to a file\n");
	snprintf(stream, sizeof(stream), "%" PRIu64 ":%" PRIu64, (uint64_t)stat.st_dev,
		 (uint64_t)stat.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	ol_logs_set(OL_LOG_FORMAT_AUTO);
	ol_logs_say(OL_LOG_INFO, "a service");
	assert_like(kept(), "a service\n$");
	assert_string_equal(written(), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_short_line_of_the_program_stands_as_it_is),
		TEST(a_full_line_has_date_host_and_process),
		TEST(the_journal_gets_fields),
		TEST(a_line_that_the_journal_does_not_take_goes_to_stderr),
		TEST(auto_is_the_journal_if_stderr_leads_there),
	};
	int rc;

	if (mkdtemp(folder) == NULL)
		return 1;
	snprintf(path, sizeof(path), "%s/socket", folder);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	return rmdir(folder) != 0 || rc != 0;
}
