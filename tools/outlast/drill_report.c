/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_report.c -- the report of a folder, by the program in tools/report
 *
 * That program is in Python. In a build folder it lies beside ours, and otherwise where it was
 * installed.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"

extern char **environ;

static const char *const places[] = { "report", OL_REPORT_PLACE };
/* The second one where PATH leads to none, or to a script that has none to call */
static const char *const pythons[] = { "python3", "/usr/bin/python3" };
static const int python_is_missing = 127; /* exit status, as of a shell */

/* False: it is in none of its places */
static bool program_find(char path[PATH_MAX])
{
	char own[PATH_MAX / 2];
	ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *name;

	if (len < 0)
		return false;
	own[len] = '\0';
	name = strrchr(own, '/');
	if (name == NULL)
		return false;
	*name = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, PATH_MAX, "%s/%s", own, places[i]);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* 0 or an errno; *ret_status: as of waitpid() */
static int process_run(char *const words[], int *ret_status)
{
	posix_spawnattr_t attr;
	sigset_t none;
	pid_t pid;
	int rc = posix_spawnattr_init(&attr);

	if (rc != 0)
		return rc;
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	rc = posix_spawnp(&pid, words[0], NULL, &attr, words, environ);
	posix_spawnattr_destroy(&attr);
	if (rc != 0)
		return rc;
	while (waitpid(pid, ret_status, 0) < 0) {
		if (errno != EINTR)
			return errno;
	}
	return 0;
}

/* 0 or an errno; words[0] is ours to say */
static int python_run(char *words[], int *ret_status)
{
	char python[32];
	int rc = ENOENT;

	words[0] = python;
	for (size_t i = 0; i < sizeof(pythons) / sizeof(pythons[0]); i++) {
		snprintf(python, sizeof(python), "%s", pythons[i]);
		rc = process_run(words, ret_status);
		if (rc == 0 && WIFEXITED(*ret_status) &&
		    WEXITSTATUS(*ret_status) == python_is_missing)
			rc = ENOENT;
		if (rc != ENOENT)
			break;
	}
	return rc;
}

static int fail(const struct drill *drill, const char *what, const char *remedy)
{
	char later[DRILL_PATH_MAX + 256];

	snprintf(later, sizeof(later),
		 "%s; the runs are kept, and outlast drill --report %s makes "
		 "the report",
		 remedy, drill->out);
	return ol_cmd_error(OL_EXIT_FAILED, "drill", "no report", what, later);
}

int drill_report_make(const struct drill *drill)
{
	char program[PATH_MAX], folder[DRILL_PATH_MAX], end[] = "--", json[PATH_MAX + 16];
	char *words[] = { NULL, program, end, folder, NULL, NULL };
	int status, rc;

	snprintf(folder, sizeof(folder), "%s", drill->out);
	if (drill->set.json != NULL) {
		snprintf(json, sizeof(json), "--json=%s", drill->set.json);
		words[2] = json;
		words[3] = end;
		words[4] = folder;
	}
	if (!program_find(program))
		return fail(drill, "its program is not there", "install all of outlast");
	rc = python_run(words, &status);
	if (rc == ENOENT)
		return fail(drill, "there is no python3",
			    "apt-get install python3-numpy python3-scipy python3-matplotlib");
	if (rc != 0)
		return fail(drill, "python3", strerror(rc));
	if (WIFSIGNALED(status))
		return OL_EXIT_SIGNAL + WTERMSIG(status);
	return WEXITSTATUS(status);
}
