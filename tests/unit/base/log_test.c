/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * log_test.c -- a line that passes the threshold reaches the sink whole; one that does not costs
 * nothing
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	TAKERS = 100
};

static char last_text[OL_LOG_LINE_MAX];
static enum ol_log_level last_level;
static unsigned line_count;

static void keep(void *arg, enum ol_log_level level, const char *text)
{
	assert_ptr_equal(arg, &line_count);
	snprintf(last_text, sizeof(last_text), "%s", text);
	last_level = level;
	line_count++;
	errno = EDOM;
}

static int setup(void **state)
{
	(void)state;
	line_count = 0;
	ol_log_sink_set(keep, &line_count);
	ol_log_level_set(OL_LOG_INFO);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ol_log_sink_set(NULL, NULL);
	return 0;
}

static int calls;

static int counted(void)
{
	return ++calls;
}

static void a_line_reaches_the_sink_with_its_level(void **state)
{
	(void)state;
	ol_log(OL_LOG_WARN, "conn %d to %s", 7, "10.0.0.3");
	assert_int_equal(line_count, 1);
	assert_string_equal(last_text, "conn 7 to 10.0.0.3");
	assert_int_equal(last_level, OL_LOG_WARN);
}

static void below_the_threshold_arguments_are_not_evaluated(void **state)
{
	(void)state;
	calls = 0;
	ol_log(OL_LOG_DEBUG, "%d", counted());
	assert_int_equal(calls, 0);
	assert_int_equal(line_count, 0);
	ol_log_level_set(OL_LOG_DEBUG);
	assert_int_equal(ol_log_level_get(), OL_LOG_DEBUG);
	ol_log(OL_LOG_DEBUG, "%d", counted());
	assert_int_equal(calls, 1);
	assert_int_equal(line_count, 1);
}

static void errno_survives(void **state)
{
	(void)state;
	errno = ENOENT;
	ol_log(OL_LOG_ERROR, "x");
	assert_int_equal(errno, ENOENT);
}

static void a_long_line_is_cut(void **state)
{
	char longest[2 * OL_LOG_LINE_MAX];

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	ol_log(OL_LOG_ERROR, "%s", longest);
	assert_int_equal(strlen(last_text), OL_LOG_LINE_MAX - 1);
}

static void levels_read_as_they_are_written(void **state)
{
	enum ol_log_level level;

	(void)state;
	for (int i = OL_LOG_ERROR; i <= OL_LOG_DEBUG; i++) {
		const char *text = ol_log_level_str((enum ol_log_level)i);

		assert_int_equal(ol_log_level_parse(text, &level), 0);
		assert_int_equal(level, i);
	}
	assert_int_equal(ol_log_level_parse("loud", &level), -EINVAL);
}

static void the_default_sink_writes_one_line_with_time_and_level_to_stderr(void **state)
{
	int ends[2], saved = dup(STDERR_FILENO);
	char line[256];
	ssize_t len;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	ol_log_sink_set(NULL, NULL);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	ol_log(OL_LOG_WARN, "a %s", "word");
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	len = read(ends[0], line, sizeof(line) - 1);
	assert_true(len > 0);
	line[len] = '\0';
	assert_string_equal(line + strlen("hh:mm:ss.mmm"), " warn  a word\n");
	assert_int_equal(line[2], ':');
	assert_int_equal(line[8], '.');
	close(saved);
	close(ends[0]);
	close(ends[1]);
}

static void a_reader_that_is_gone_costs_the_line_and_nothing_else(void **state)
{
	int ends[2], saved = dup(STDERR_FILENO);
	sigset_t pending, before, after;

	(void)state;
	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	ol_log_sink_set(NULL, NULL);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	ol_log(OL_LOG_WARN, "nobody reads this"); /* SIGPIPE would end the process */
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(sigpending(&pending), 0);
	assert_int_equal(sigismember(&pending, SIGPIPE), 0);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
	assert_int_equal(sigismember(&after, SIGPIPE), sigismember(&before, SIGPIPE));
	close(saved);
	close(ends[1]);
}

static void a_log_file_at_its_size_limit_costs_the_line_and_nothing_else(void **state)
{
	int fd = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO);
	struct rlimit before, limit;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ol_log_sink_set(NULL, NULL);
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	ol_log(OL_LOG_WARN, "there is no room for this"); /* SIGXFSZ would end the process */
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 0);
	close(saved);
	close(fd);
}

static void a_signal_that_the_caller_holds_back_stays_the_callers(void **state)
{
	const struct timespec now = { 0 };
	int ends[2], saved = dup(STDERR_FILENO);
	sigset_t set, before;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
	assert_int_equal(pthread_kill(pthread_self(), SIGPIPE), 0);
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	ol_log_sink_set(NULL, NULL);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	ol_log(OL_LOG_WARN, "nobody reads this");
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(sigtimedwait(&set, NULL, &now), SIGPIPE);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
	close(saved);
	close(ends[1]);
}

static void a_program_takes_the_lines_up_to_a_level_and_gives_them_back(void **state)
{
	int ends[2], saved = dup(STDERR_FILENO);
	char line[256];
	ssize_t len;

	(void)state;
	ol_log_sink_set(NULL, NULL);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(ol_log_set(keep, OL_LOG_WARN, &line_count), 0);
	ol_log(OL_LOG_WARN, "the program's");
	ol_log(OL_LOG_INFO, "nobody's");
	assert_int_equal(ol_log_set(NULL, OL_LOG_INFO, NULL), 0);
	ol_log(OL_LOG_INFO, "everybody's");
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	len = read(ends[0], line, sizeof(line) - 1);
	assert_true(len > 0);
	line[len] = '\0';
	assert_string_equal(line + strlen("hh:mm:ss.mmm"), " info  everybody's\n");
	assert_int_equal(line_count, 1);
	assert_string_equal(last_text, "the program's");
	assert_int_equal(last_level, OL_LOG_WARN);
	close(saved);
	close(ends[0]);
	close(ends[1]);
}

static void a_level_that_does_not_exist_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(ol_log_set(NULL, (enum ol_log_level)(OL_LOG_DEBUG + 1), NULL), -EINVAL);
	assert_int_equal(ol_log_level_get(), OL_LOG_INFO);
	ol_log(OL_LOG_INFO, "still here");
	assert_string_equal(last_text, "still here");
}

/* What a sink is given; gone: its lines are somebody else's now */
struct taker {
	atomic_int lines;
	atomic_bool gone;
};

static atomic_int called_late;
static atomic_bool enough;

static void take(void *ctx, enum ol_log_level level, const char *text)
{
	struct taker *taker = ctx;

	(void)level;
	(void)text;
	sched_yield(); /* the other thread is to have its turn while this one is in here */
	if (taker->gone)
		called_late++;
	taker->lines++;
}

static void *talk(void *arg)
{
	while (!enough)
		ol_log(OL_LOG_ERROR, "x");
	return arg;
}

static void a_sink_that_was_replaced_is_called_no_more(void **state)
{
	struct taker takers[TAKERS] = { 0 };
	pthread_t thread;

	(void)state;
	enough = false;
	called_late = 0;
	assert_int_equal(ol_log_set(take, OL_LOG_INFO, &takers[0]), 0);
	assert_int_equal(pthread_create(&thread, NULL, talk, NULL), 0);
	for (unsigned i = 1; i < TAKERS; i++) {
		while (takers[i - 1].lines == 0)
			sched_yield();
		assert_int_equal(ol_log_set(take, OL_LOG_INFO, &takers[i]), 0);
		takers[i - 1].gone = true;
	}
	enough = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(called_late, 0);
}

static atomic_bool is_in, may_leave;

static void stay(void *ctx, enum ol_log_level level, const char *text)
{
	(void)ctx;
	(void)level;
	(void)text;
	is_in = true;
	while (!may_leave)
		sched_yield();
}

static void *talk_once(void *arg)
{
	ol_log(OL_LOG_ERROR, "x");
	return arg;
}

/* In a child: SIGALRM ends it if it has to wait for a thread that it does not have */
static void child_sets_a_sink(void)
{
	alarm(20);
	if (ol_log_set(keep, OL_LOG_INFO, &line_count) != 0)
		_exit(1);
	ol_log(OL_LOG_WARN, "the child's");
	_exit(strcmp(last_text, "the child's") == 0 ? 0 : 2);
}

static void child_end_well(pid_t pid)
{
	int status = -1;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_child_waits_for_no_thread_of_its_parent(void **state)
{
	pthread_t thread;
	pid_t pid;

	(void)state;
	is_in = may_leave = false;
	assert_int_equal(ol_log_set(stay, OL_LOG_INFO, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, talk_once, NULL), 0);
	while (!is_in)
		sched_yield();
	pid = fork();
	if (pid == 0)
		child_sets_a_sink();
	may_leave = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	child_end_well(pid);
}

static pid_t forked;

static void fork_in_sink(void *ctx, enum ol_log_level level, const char *text)
{
	(void)ctx;
	(void)level;
	(void)text;
	forked = fork();
}

static void a_sink_may_fork(void **state)
{
	(void)state;
	assert_int_equal(ol_log_set(fork_in_sink, OL_LOG_INFO, NULL), 0);
	ol_log(OL_LOG_WARN, "x");
	if (forked == 0)
		child_sets_a_sink();
	child_end_well(forked);
	assert_int_equal(ol_log_set(keep, OL_LOG_INFO, &line_count), 0);
}

static void no_line_goes_to_a_descriptor_that_is_not_stderr(void **state)
{
	int saved = dup(STDERR_FILENO), ends[2];
	char line[256];

	(void)state;
	ol_log_sink_set(NULL, NULL);
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(close(STDERR_FILENO), 0);
	ol_log(OL_LOG_WARN, "nobody is there");
	/* the lowest that is free: as a connection of the library would get it */
	assert_int_equal(fcntl(ends[1], F_DUPFD_CLOEXEC, 0), STDERR_FILENO);
	ol_log(OL_LOG_WARN, "not for a peer");
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(read(ends[0], line, sizeof(line)), -1);
	assert_int_equal(errno, EAGAIN);
	close(saved);
	close(ends[0]);
	close(ends[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_line_reaches_the_sink_with_its_level),
		TEST(below_the_threshold_arguments_are_not_evaluated),
		TEST(errno_survives),
		TEST(a_long_line_is_cut),
		TEST(levels_read_as_they_are_written),
		TEST(the_default_sink_writes_one_line_with_time_and_level_to_stderr),
		TEST(a_reader_that_is_gone_costs_the_line_and_nothing_else),
		TEST(a_log_file_at_its_size_limit_costs_the_line_and_nothing_else),
		TEST(a_signal_that_the_caller_holds_back_stays_the_callers),
		TEST(a_program_takes_the_lines_up_to_a_level_and_gives_them_back),
		TEST(a_level_that_does_not_exist_changes_nothing),
		TEST(a_sink_that_was_replaced_is_called_no_more),
		TEST(a_child_waits_for_no_thread_of_its_parent),
		TEST(a_sink_may_fork),
		TEST(no_line_goes_to_a_descriptor_that_is_not_stderr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
