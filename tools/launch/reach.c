/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * reach.c -- starts an agent on a host: as a child here, by ssh, as a step of Slurm's, or by mpirun; orders for it
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/parts.h"

extern char **environ;

enum {
	END_MS =
		20000, /* until an agent that does not end is killed: longer than it takes itself */
	LOOK_MS = 20,
	PIECES = 64 /* read of an agent's stderr before it is another's turn */
};

/* The words of a text, with blanks between */
static void words_add(struct ol_args *args, const char *text)
{
	while (text[0] != '\0') {
		size_t len = strcspn(text, " \t");

		if (len > 0)
			ol_args_add(args, "%.*s", (int)len, text);
		text += len + strspn(text + len, " \t");
	}
}

/* The program's path as a word of the shell that ssh has at the other end */
static void quoted_add(struct ol_args *args, const char *path)
{
	char text[4 * LAUNCH_PATH_MAX + 64] = "exec '";
	size_t len = strlen(text);

	for (const char *at = path; *at != '\0'; at++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					*at == '\'' ? "'\\''" : "%c", *at);
	snprintf(text + len, sizeof(text) - len, "' launch-agent");
	ol_args_add(args, "%s", text);
}

static void way_add(const struct launch *launch, uint32_t host, struct ol_args *args)
{
	const struct launch_host *at = &launch->hosts.list[host];

	if (!at->is_here) {
		switch (launch->way) {
		case LAUNCH_BY_SSH:
			words_add(args, launch->set.ssh != NULL ? launch->set.ssh : LAUNCH_SSH);
			ol_args_add(args, "%s", at->name);
			quoted_add(args, launch->program);
			return;
		case LAUNCH_BY_SRUN:
			words_add(args, launch->set.srun != NULL ? launch->set.srun : LAUNCH_SRUN);
			ol_args_add(args, "--nodelist=%s", at->name);
			ol_args_add(args, "--nodes=1");
			ol_args_add(args, "--ntasks=1");
			break;
		case LAUNCH_BY_MPIRUN:
			words_add(args, launch->set.mpirun_command != NULL
						? launch->set.mpirun_command
						: LAUNCH_MPIRUN);
			ol_args_add(args, "--host");
			ol_args_add(args, "%s", at->name);
			break;
		}
	}
	ol_args_add(args, "%s", launch->program);
	ol_args_add(args, "launch-agent");
}

/* Ctrl-C is the launcher's: each is in a group of its own */
static int spawn(pid_t *ret_pid, char *const words[], const int fds[3])
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, usual;
	int rc = posix_spawn_file_actions_init(&actions);

	if (rc != 0)
		return -rc;
	rc = posix_spawnattr_init(&attr);
	if (rc != 0)
		goto err_actions;
	sigemptyset(&none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	sigaddset(&usual, SIGXFSZ);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setsigdefault(&attr, &usual);
	(void)posix_spawnattr_setpgroup(&attr, 0);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETPGROUP);
	for (int i = 0; rc == 0 && i < 3; i++)
		rc = posix_spawn_file_actions_adddup2(&actions, fds[i], i);
	if (rc == 0)
		rc = posix_spawnp(ret_pid, words[0], &actions, &attr, words, environ);
	posix_spawnattr_destroy(&attr);
err_actions:
	posix_spawn_file_actions_destroy(&actions);
	return -rc;
}

int launch_agent_start(struct launch *launch, uint32_t host)
{
	struct launch_agent *agent = &launch->agents[host];
	int orders[2] = { -1, -1 }, lines[2] = { -1, -1 }, errors[2] = { -1, -1 };
	struct ol_args args = { 0 };
	int rc;

	way_add(launch, host, &args);
	rc = args.failed ? -ENOMEM : 0;
	if (rc == 0 && (pipe2(orders, O_CLOEXEC) != 0 || pipe2(lines, O_CLOEXEC) != 0 ||
			pipe2(errors, O_CLOEXEC) != 0))
		rc = -errno;
	if (rc == 0)
		rc = launch_lines_init(&agent->lines, lines[0], LAUNCH_MESSAGE_MAX);
	if (rc == 0) {
		lines[0] = -1;
		rc = launch_lines_init(&agent->errors, errors[0], LAUNCH_SAID_MAX);
	}
	if (rc == 0) {
		errors[0] = -1;
		rc = spawn(&agent->pid, args.words, (int[]){ orders[0], lines[1], errors[1] });
	}
	ol_args_free(&args);
	close(orders[0]);
	close(lines[1]);
	close(errors[1]);
	if (rc != 0) {
		close(orders[1]);
		close(lines[0]);
		close(errors[0]);
		launch_lines_fini(&agent->lines);
		launch_lines_fini(&agent->errors);
		agent->pid = 0;
		return rc;
	}
	agent->orders = orders[1];
	agent->is_here = false;
	launch_life_begin(&agent->life, ol_clock_ns());
	launch_agent_order(launch, host,
			   json_pack("{s:s, s:s}", "do", "hello", "chdir", launch->folder));
	return 0;
}

void launch_agent_order(struct launch *launch, uint32_t host, json_t *order)
{
	struct launch_agent *agent = &launch->agents[host];

	if (agent->orders < 0 || agent->pid == 0) {
		json_decref(order);
		return;
	}
	/* if it is gone, its stdout has ended, which run.c sees */
	(void)launch_say(agent->orders, order);
}

static bool agent_is_over(struct launch_agent *agent)
{
	if (agent->pid != 0 && waitpid(agent->pid, NULL, WNOHANG) == agent->pid)
		agent->pid = 0;
	return agent->pid == 0;
}

void launch_agent_errors(struct launch *launch, uint32_t host)
{
	struct launch_agent *agent = &launch->agents[host];
	char *line;

	for (unsigned i = 0; i < PIECES && launch_lines_read(&agent->errors); i++) {
		while ((line = launch_lines_take(&agent->errors)) != NULL)
			fprintf(stderr, "[%s] %s\n", launch_host_name(launch, host), line);
	}
}

static bool signal_came(const struct launch *launch)
{
	struct signalfd_siginfo info;
	bool came = false;

	while (read(launch->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		came = came || (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGUSR1);
	return came;
}

void launch_agents_close(struct launch *launch)
{
	uint64_t bound_ns = ol_clock_ns() + END_MS * OL_NS_PER_MS;
	bool any = true;

	for (uint32_t i = 0; i < launch->hosts.count; i++) {
		struct launch_agent *agent = &launch->agents[i];

		if (agent->pid != 0)
			close(agent->orders);
		agent->orders = -1;
	}
	while (any) {
		any = false;
		for (uint32_t i = 0; i < launch->hosts.count; i++) {
			struct launch_agent *agent = &launch->agents[i];
			char *line;

			/* what is said still is not waited for, but must not hold up who says it */
			while (launch_lines_read(&agent->lines)) {
				while ((line = launch_lines_take(&agent->lines)) != NULL)
					;
			}
			launch_agent_errors(launch, i);
			any = !agent_is_over(agent) || any;
			if (agent->pid != 0 && ol_clock_ns() > bound_ns)
				(void)kill(agent->pid, SIGKILL);
		}
		if (any)
			(void)poll(NULL, 0, LOOK_MS);
		if (signal_came(launch))
			bound_ns = 0; /* who asks now does not want to wait */
	}
	for (uint32_t i = 0; i < launch->hosts.count; i++) {
		launch_lines_fini(&launch->agents[i].lines);
		launch_lines_fini(&launch->agents[i].errors);
	}
}
