/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * tools.c -- the program: help, a wrong command line, doctor
 *
 * A subcommand that fails says so in one line on standard error, and ends with an exit code of
 * cmd.h. Subcommands that start processes are not here: the other scenarios have most of their
 * calls.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "nth/scenarios.h"
#include "support/check.h"

enum {
	SAID_MAX = 4096
};

struct command {
	const char *name;
	const char *word; /* NULL: none */
	int (*run)(int argc, char **argv);
};

static off_t said_at; /* standard error had so many bytes when the attempt began */

/* What goes to standard output is nothing here */
static void before(void)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	check(fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
	close(fd);
}

/* command_run -- its exit code as a status: 0, or below */
static int command_run(const struct command *command, char text[RUN_TEXT_MAX])
{
	char words[2][32] = { "", "" };
	char *argv[] = { words[0], command->word != NULL ? words[1] : NULL, NULL };
	int code;

	snprintf(words[0], sizeof(words[0]), "%s", command->name);
	if (command->word != NULL)
		snprintf(words[1], sizeof(words[1]), "%s", command->word);
	said_at = lseek(STDERR_FILENO, 0, SEEK_END);
	code = command->run(command->word != NULL ? 2 : 1, argv);
	if (code < 0 || code > OL_EXIT_FENCED)
		run_wrong("outlast %s: exit code %d", command->name, code);
	if (code != 0)
		snprintf(text, RUN_TEXT_MAX, "outlast %s: exit code %d", command->name, code);
	return -code;
}

/* after -- one line, and it is the program's; standard error is a file here */
static void after(unsigned attempt, int status)
{
	char said[SAID_MAX];
	ssize_t got = said_at >= 0 ? pread(STDERR_FILENO, said, sizeof(said) - 1, said_at) : -1;
	unsigned lines = 0;

	(void)attempt;
	if (got < 0 || status == 0)
		return;
	said[got] = '\0';
	for (const char *c = said; *c != '\0'; c++)
		lines += *c == '\n';
	if (lines != 1 || strncmp(said, "outlast ", 8) != 0)
		run_wrong("%u lines on standard error: %.300s", lines, said);
}

static const struct command helps[] = {
	{ "train", "--help", cmd_train },   { "drill", "--help", cmd_drill },
	{ "serve", "--help", cmd_serve },   { "work", "--help", cmd_work },
	{ "stat", "--help", cmd_stat },     { "bench", "--help", cmd_bench },
	{ "doctor", "--help", cmd_doctor }, { "export", "--help", cmd_export },
};

static int help_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	int rc = 0;

	(void)attempt;
	for (size_t i = 0; rc == 0 && i < sizeof(helps) / sizeof(helps[0]); i++)
		rc = command_run(&helps[i], text);
	return rc;
}

static int wrong_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	static const struct command wrong = { "serve", "--no-such-option", cmd_serve };
	int rc;

	(void)attempt;
	rc = command_run(&wrong, text);
	return rc == -OL_EXIT_USAGE ? 0 : rc;
}

static int doctor_run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	static const struct command doctor = { "doctor", NULL, cmd_doctor };

	(void)attempt;
	return command_run(&doctor, text);
}

const struct run_scenario nth_tools_help = {
	.name = "tools-help", .before = before, .run = help_run, .after = after
};
const struct run_scenario nth_tools_wrong = {
	.name = "tools-wrong", .before = before, .run = wrong_run, .after = after
};
const struct run_scenario nth_tools_doctor = {
	.name = "tools-doctor", .before = before, .run = doctor_run, .after = after
};
