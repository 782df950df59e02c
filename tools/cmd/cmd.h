/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * cmd.h -- shared by the program's subcommands: their table, exit codes, the error line
 *
 * Results go to stdout; progress, logs and errors to stderr.
 */
#ifndef CMD_H
#define CMD_H

#include <signal.h>
#include <stddef.h>

struct ol_cmd {
	const char *name;
	const char *summary; /* one line for --help; NULL: not listed */
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand; returns an exit code */
};

/* 128 + N: ended early by signal N, as asked, with its report written. */
enum ol_exit {
	OL_EXIT_OK = 0,
	OL_EXIT_FAILED =
		1, /* none of those below: a file or the last checkpoint cannot be written, … */
	OL_EXIT_USAGE =
		2, /* unknown option, value out of range, settings that do not go together */
	OL_EXIT_DATA = 3, /* data set, file of weights or checkpoint missing or malformed */
	OL_EXIT_SERVER = 4, /* no server there, or the connection to it was lost */
	OL_EXIT_REFUSED = 5, /* geometry, worker id, job key; or the server is full */
	OL_EXIT_DEVICE = 6, /* no such transport, RDMA device or address of one on this machine */
	OL_EXIT_RESOURCES = 7, /* a limit of this process or machine; an address in use */
	OL_EXIT_CHILD = 8, /* a process that the job consists of died or failed */
	OL_EXIT_FENCED = 9, /* serve: stood still for longer than its lease, or was voted out */
	OL_EXIT_DEVICE_LOST = 10, /* serve: its RDMA device was reset or taken away */
	OL_EXIT_REQUEUE =
		11, /* launch: it made room, as SIGUSR1 asked, and is to be started again */
	OL_EXIT_SIGNAL = 128
};

/* The same list for --help */
extern const char ol_exit_help[];

int cmd_train(int argc, char **argv);
int cmd_launch(int argc, char **argv);
int cmd_launch_agent(int argc, char **argv); /* for launch alone */
int cmd_launch_zookeeper(int argc, char **argv); /* the same */
int cmd_drill(int argc, char **argv);
int cmd_trial(int argc, char **argv); /* for drill alone */
int cmd_serve(int argc, char **argv);
int cmd_work(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_relay(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_coord(int argc, char **argv);
int cmd_chain(int argc, char **argv);
int cmd_keygen(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

/*
 * ol_cmd_error -- "outlast CMD: what: object: remedy" on stderr, in one line; returns exit_code
 *
 * cmd is the subcommand or NULL; object and remedy may be NULL.
 */
int ol_cmd_error(int exit_code, const char *cmd, const char *what, const char *object,
		 const char *remedy);

/*
 * ol_cmd_signals_asking -- the signals that ask a program to end: SIGINT, SIGTERM, and SIGHUP
 * unless it is ignored (nohup)
 */
void ol_cmd_signals_asking(sigset_t *ret_set);

/*
 * ol_cmd_signals -- from now on these and SIGCHLD are read from *ret_fd, which the caller closes;
 * 0, or an exit code after an error line
 */
int ol_cmd_signals(const char *cmd, int *ret_fd);

/* ol_cmd_exit_of -- the exit code for a status of the library */
int ol_cmd_exit_of(int status);

/* ol_cmd_exit_of_coord -- the same for a coordinator's status: -EACCES is a wrong key */
int ol_cmd_exit_of_coord(int status);

/* ol_cmd_remedy -- the remedy for a status of the library; NULL: none */
const char *ol_cmd_remedy(int status);

#endif /* CMD_H */
