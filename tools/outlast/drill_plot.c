/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_plot.c -- gnuplot on scripts
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "outlast/cmd.h"
#include "outlast/drill.h"

extern char **environ;

enum {
	SCRIPTS_MAX = 16,
	NAME_BYTES = 64
};

static int actions_init(posix_spawn_file_actions_t *actions, const char *folder)
{
	int rc = posix_spawn_file_actions_init(actions);

	if (rc != 0)
		return rc;
	rc = posix_spawn_file_actions_addchdir_np(actions, folder);
	if (rc == 0)
		rc = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY,
						      0);
	if (rc == 0)
		rc = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "gnuplot.log",
						      O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
	if (rc != 0)
		posix_spawn_file_actions_destroy(actions);
	return rc;
}

/* 0, ENOENT: there is no gnuplot, or another errno; its own failure is EIO */
static int gnuplot_run(const char *folder, char *const words[])
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int status = 0, rc;
	pid_t pid;

	rc = actions_init(&actions, folder);
	if (rc != 0)
		return rc;
	rc = posix_spawnattr_init(&attr);
	if (rc == 0) {
		sigemptyset(&none);
		posix_spawnattr_setsigmask(&attr, &none);
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
		rc = posix_spawnp(&pid, words[0], &actions, &attr, words, environ);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	if (rc != 0)
		return rc;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
}

int drill_plots_draw(const struct drill *drill, const char *const scripts[], size_t count,
		     bool *ret_drawn)
{
	char program[] = "gnuplot", folder[DRILL_PATH_MAX], names[SCRIPTS_MAX][2 * NAME_BYTES];
	char *words[SCRIPTS_MAX + 2] = { program };
	int failed;

	snprintf(folder, sizeof(folder), "%.900s/plots", drill->out);
	for (size_t i = 0; i < count && i < SCRIPTS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "%s", scripts[i]);
		words[i + 1] = names[i];
	}
	failed = gnuplot_run(folder, words);
	*ret_drawn = failed == 0;
	if (failed == ENOENT)
		drill_say(drill, true,
			  "warning: no plots: there is no gnuplot (apt-get install "
			  "gnuplot-nox); then, in %s: gnuplot *.gp",
			  folder);
	else if (failed != 0)
		return ol_cmd_error(OL_EXIT_FAILED, "drill", "gnuplot failed", folder,
				    "what it said is in gnuplot.log there");
	return 0;
}
