/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * main.c -- the program: finds the subcommand and runs it
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/logs.h"
#include "learn/blas.h"
#include "outlast.h"

static const struct ol_cmd commands[] = {
	{ "train", "run a whole training job on this machine: servers, workers, report",
	  cmd_train },
	{ "launch", "run a job on several hosts: servers, and workers of a program of yours",
	  cmd_launch },
	{ "launch-agent", NULL, cmd_launch_agent },
	{ "launch-zookeeper", NULL, cmd_launch_zookeeper },
	{ "drill", "compare strategies under one failure schedule: tables, plots, report",
	  cmd_drill },
	{ "trial", NULL, cmd_trial },
	{ "serve", "run the server of one shard", cmd_serve },
	{ "work", "run one worker against servers that are up", cmd_work },
	{ "relay", "read a job's weights once, for many readers on this machine", cmd_relay },
	{ "stat", "show servers and chains: roles, versions, lag, counters", cmd_stat },
	{ "export", "write a job's weights into a .npy or .safetensors file", cmd_export },
	{ "import", "make a job's checkpoints of a .npy or .safetensors file", cmd_import },
	{ "bench", "measure latency, bandwidth and training speed", cmd_bench },
	{ "chain", "add, remove or move replicas of a running job, drain a host", cmd_chain },
	{ "coord", "remove a job's views from a coordinator, or make a place for them", cmd_coord },
	{ "keygen", "make a key for a job", cmd_keygen },
	{ "doctor", "say what this machine can do, and what to change", cmd_doctor },
};

enum {
	COMMAND_COUNT = sizeof(commands) / sizeof(commands[0])
};

static void usage(FILE *out)
{
	fprintf(out, "usage: outlast COMMAND [OPTION...]\n\n"
		     "A parameter server over RDMA, and what is needed to train with it.\n\n"
		     "commands:\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (commands[i].summary != NULL)
			fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
	}
	fprintf(out,
		"\nEach takes --help.\n\n%s\n"
		"examples:\n"
		"  outlast train --workers 2 --steps 500\n"
		"  outlast doctor\n",
		ol_exit_help);
}

/*
 * A write beyond a file's size limit, or to a pipe that nobody reads, must fail and not end a
 * process of a job. The descriptor limit is raised as far as allowed, as a server opens some for
 * each worker.
 */
static void limits_settle(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct rlimit files;

	(void)sigaction(SIGXFSZ, &ignore, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

/*
 * If a standard stream is closed, open /dev/null in its place. Otherwise the next socket would get
 * its number, and all that is printed.
 */
static void streams_settle(void)
{
	while (true) {
		int fd = open("/dev/null", O_RDONLY);

		if (fd > STDERR_FILENO)
			(void)close(fd);
		if (fd < 0 || fd > STDERR_FILENO)
			return;
	}
}

/*
 * If standard output cannot be written, the exit code says so. If an earlier write failed, its
 * reason is gone: one more byte, behind output that is not whole anyway, mostly meets it again.
 * A reader that has left (`outlast stat | head`) knows that it has: no line says so.
 */
static int output_end(int code)
{
	bool whole = ferror(stdout) == 0;

	errno = 0;
	if ((fflush(stdout) == 0 && whole) || code != OL_EXIT_OK)
		return code;
	if (errno == 0 && putchar('\n') != EOF)
		(void)fflush(stdout);
	if (errno == EPIPE)
		return OL_EXIT_SIGNAL + SIGPIPE;
	return ol_cmd_error(OL_EXIT_FAILED, NULL, "cannot write to standard output",
			    errno != 0 ? strerror(errno) : "an earlier write failed", NULL);
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return OL_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		usage(stdout);
		return OL_EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("outlast %s\n", ol_version(NULL));
		return OL_EXIT_OK;
	}
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	}
	return ol_cmd_error(OL_EXIT_USAGE, NULL, "no such command", argv[1],
			    "outlast --help lists them");
}

int main(int argc, char **argv)
{
	streams_settle();
	ol_logs_set(OL_LOG_FORMAT_AUTO);
	learn_blas_start(argv);
	limits_settle();
	return output_end(run(argc, argv));
}
