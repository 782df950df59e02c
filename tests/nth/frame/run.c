/* SPDX-License-Identifier: BSD-3-Clause */

/* run.c -- runs a process for each failure, and prints the table of results */

#include "nth/frame/run.h"

#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "nth/frame/fail.h"
#include "nth/frame/held.h"
#include "support/check.h"

enum {
	OFTEN_MAX = 12,
	SAID_MAX = 6000, /* bytes of a failed run's output that are shown */
};

/* What a run's process tells the first one. */
struct report {
	struct fail_seen seen;
	int status; /* of the first attempt */
	bool ended; /* it came to its end */
	char wrong[RUN_TEXT_MAX]; /* empty: nothing is */
};

static struct report *report; /* shared with the runs */
static char folder[64];
static bool from_on; /* what fails once fails until the attempt ends */
static unsigned every = 1; /* of so many failures one is made */

static struct {
	unsigned counted;
	unsigned failed;
	unsigned statuses; /* of those: the scenario ended with one */
} table[FAIL_FAULTS];
static unsigned runs, bad;

void run_wrong(const char *format, ...)
{
	va_list args;

	if (report->wrong[0] != '\0')
		return; /* the first one says why */
	va_start(args, format);
	vsnprintf(report->wrong, sizeof(report->wrong), format, args);
	va_end(args);
}

const char *run_folder(void)
{
	return folder;
}

static int entry_remove(const char *path, const struct stat *stat, int type, struct FTW *at)
{
	(void)stat;
	(void)type;
	(void)at;
	return remove(path);
}

static void folder_remove(void)
{
	nftw(folder, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* status_check -- a status is 0, or negative, known, and said in words */
static void status_check(int status, const char *text)
{
	if (status > 0)
		run_wrong("status %d is neither 0 nor negative", status);
	else if (status < 0 && text[0] == '\0')
		run_wrong("status %d (%s) without a word", status, ol_status_str(status));
	else if (strchr(text, '\n') != NULL)
		run_wrong("more than one line: %s", text);
}

static void run_body(const struct run_scenario *scenario, enum fail_fault fault, unsigned n)
{
	char text[RUN_TEXT_MAX] = "", again[RUN_TEXT_MAX] = "";
	struct held held;
	int status;

	if (scenario->before != NULL)
		scenario->before();
	held_take(&held);
	fail_arm(fault, n, from_on);
	status = scenario->run(0, text);
	report->seen = fail_disarm();
	report->status = status;
	status_check(status, text);
	if (status < 0)
		printf("status %d: %s\n", status, text);
	if (scenario->after != NULL)
		scenario->after(0, status);
	held_check(&held, "after the failure");
	status = scenario->run(1, again);
	if (scenario->after != NULL)
		scenario->after(1, status);
	if (status != 0)
		run_wrong("second try: %d (%s): %s", status, ol_status_str(status), again);
	held_check(&held, "after the second try");
	held_check_leaks();
	report->ended = true;
}

static int run_fork(const struct run_scenario *scenario, enum fail_fault fault, unsigned n,
		    int said)
{
	int status = 0;
	pid_t pid;

	memset(report, 0, sizeof(*report));
	fflush(NULL);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ol_log_level_set(OL_LOG_DEBUG); /* it is shown where a run fails */
		if (said >= 0) {
			check(dup2(said, STDOUT_FILENO) >= 0 && dup2(said, STDERR_FILENO) >= 0);
			close(said);
			alarm(RUN_HANG_S);
		}
		run_body(scenario, fault, n);
		fflush(NULL);
		_exit(report->wrong[0] != '\0');
	}
	check(waitpid(pid, &status, 0) == pid);
	runs++;
	if (WIFSIGNALED(status))
		run_wrong(WTERMSIG(status) == SIGALRM ? "it hangs" : "it died of signal %d",
			  WTERMSIG(status));
	else if (!report->ended)
		run_wrong("it ended with exit status %d", WEXITSTATUS(status));
	return report->wrong[0] != '\0';
}

/* said_show -- the end of what a run printed */
static void said_show(int said)
{
	char text[SAID_MAX + 1];
	off_t bytes = lseek(said, 0, SEEK_END);
	ssize_t got = pread(said, text, SAID_MAX, bytes > SAID_MAX ? bytes - SAID_MAX : 0);

	text[got > 0 ? got : 0] = '\0';
	printf("%s\n", text);
}

/* one_run -- with what it prints kept back, unless it fails */
static bool one_run(const struct run_scenario *scenario, enum fail_fault fault, unsigned n)
{
	int said = memfd_create("said", MFD_CLOEXEC);
	int rc;

	check(said >= 0);
	rc = run_fork(scenario, fault, n, said);
	if (rc != 0) {
		bad++;
		printf("not ok %s %s %s %u: %s\n", scenario->name,
		       n == 0 ? "without" : fail_call(fault), n == 0 ? "failures" : fail_how(fault),
		       n, report->wrong);
		said_show(said);
	}
	close(said);
	fflush(stdout);
	return rc == 0;
}

static void fault_runs(const struct run_scenario *scenario, enum fail_fault fault)
{
	unsigned max = scenario->max != 0 ? scenario->max : OFTEN_MAX;

	for (unsigned n = 1 + (unsigned)fault % every; !fail_often(fault) || n <= max; n += every) {
		one_run(scenario, fault, n);
		if (report->ended && !report->seen.failed)
			return; /* there are not so many */
		table[fault].failed++;
		table[fault].statuses += report->status < 0;
	}
}

static void scenario_runs(const struct run_scenario *scenario)
{
	unsigned before = runs, bad_before = bad;
	struct fail_seen seen;

	if (scenario->start != NULL)
		scenario->start();
	if (one_run(scenario, 0, 0) && report->status != 0)
		printf("not ok %s: status %d without a failure\n", scenario->name, report->status);
	if (report->status != 0)
		bad++;
	seen = report->seen;
	for (unsigned i = 0; i < FAIL_FAULTS && bad == bad_before; i++)
		table[i].counted += seen.counts[i];
	for (unsigned i = 0; i < FAIL_FAULTS; i++) {
		/* EINTR for ever is no system's doing */
		if (seen.counts[i] > 0 && !(from_on && strcmp(fail_how(i), "EINTR") == 0))
			fault_runs(scenario, (enum fail_fault)i);
	}
	if (scenario->end != NULL)
		scenario->end();
	printf("%s %s: %u runs\n", bad == bad_before ? "ok" : "not ok", scenario->name,
	       runs - before);
	fflush(stdout);
}

static void table_print(void)
{
	unsigned counted = 0, failed = 0, statuses = 0, calls = 0;

	printf("\n%-26s %-13s %8s %8s %8s %8s\n", "call", "fails with", "calls", "failed", "status",
	       "absorbed");
	for (unsigned i = 0; i < FAIL_FAULTS; i++) {
		if (table[i].failed == 0)
			continue;
		printf("%-26s %-13s %8u %8u %8u %8u\n", fail_call(i), fail_how(i), table[i].counted,
		       table[i].failed, table[i].statuses, table[i].failed - table[i].statuses);
		counted += table[i].counted;
		failed += table[i].failed;
		statuses += table[i].statuses;
		calls++;
	}
	printf("%-26s %-13u %8u %8u %8u %8u\n", "all", calls, counted, failed, statuses,
	       failed - statuses);
	printf("\n%u runs, %u bad\n", runs, bad);
}

/* fault_find -- FAIL_FAULTS: there is none */
static enum fail_fault fault_find(const char *call, const char *how)
{
	unsigned i = 0;

	while (i < FAIL_FAULTS &&
	       (strcmp(fail_call(i), call) != 0 || strcmp(fail_how(i), how) != 0))
		i++;
	return (enum fail_fault)i;
}

static int run_single(const struct run_scenario *scenario, char **argv)
{
	enum fail_fault fault = fault_find(argv[0], argv[1]);
	int rc;

	if (fault == FAIL_FAULTS) {
		fprintf(stderr, "nth: %s %s: no such fault; the table has them all\n", argv[0],
			argv[1]);
		return 2;
	}
	if (scenario->start != NULL)
		scenario->start();
	rc = run_fork(scenario, fault, (unsigned)strtoul(argv[2], NULL, 10), -1);
	if (scenario->end != NULL)
		scenario->end();
	printf("%s: status %d, %s\n", scenario->name, report->status,
	       rc != 0 ? report->wrong : "nothing wrong");
	return rc;
}

int run_main(int argc, char **argv, const struct run_scenario *const *scenarios, size_t count)
{
	size_t found = 0;

	from_on = argc > 1 && strcmp(argv[1], "--from") == 0;
	argc -= from_on;
	argv += from_on;
	if (argc > 2 && strcmp(argv[1], "--every") == 0) {
		every = (unsigned)strtoul(argv[2], NULL, 10);
		check(every > 0);
		argc -= 2;
		argv += 2;
	}
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	check(report != MAP_FAILED);
	snprintf(folder, sizeof(folder), "/tmp/outlast-nth-XXXXXX");
	check(mkdtemp(folder) != NULL);
	for (size_t i = 0; i < count; i++) {
		if (argc > 1 && strncmp(scenarios[i]->name, argv[1], strlen(argv[1])) != 0)
			continue;
		found++;
		if (argc > 4)
			bad += run_single(scenarios[i], argv + 2) != 0;
		else
			scenario_runs(scenarios[i]);
	}
	folder_remove();
	if (found == 0) {
		fprintf(stderr, "nth: %s: no scenario begins so; without words all are run\n",
			argv[1]);
		return 2;
	}
	if (argc <= 4)
		table_print();
	return bad != 0;
}
