/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * cmd.c -- the error line, exit codes
 */
#include "cmd/cmd.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "cmd/logs.h"
#include "outlast.h"

const char ol_exit_help[] =
	"exit status:\n"
	"  0    done\n"
	"  1    failed for a reason not listed here; serve: its last checkpoint could not be written\n"
	"  2    wrong usage: an option, or a value out of range\n"
	"  3    data set, file of weights or checkpoint missing or malformed\n"
	"  4    no server or coordinator at the address, or the connection to it was lost\n"
	"  5    refused: geometry, worker id, job key, or the server is full\n"
	"  6    no such transport, RDMA device or address on this machine\n"
	"  7    a limit: memory, addresses, locked memory, descriptors, size of files; address in use\n"
	"  8    a process of the job died\n"
	"  9    server stood still for longer than its lease, or its chain went on without it\n"
	"  10   serve: its RDMA device was reset or taken away; start it again\n"
	"  11   launch: ended before it was done, as SIGUSR1 asked; start it again\n"
	"  128+N  ended by signal N; what there was to report has been reported\n";

int ol_cmd_error(int exit_code, const char *cmd, const char *what, const char *object,
		 const char *remedy)
{
	fflush(stdout); /* results before what went wrong, where both go to one file */
	ol_logs_say(OL_LOG_ERROR, "outlast%s%s: %s%s%s%s%s", cmd != NULL ? " " : "",
		    cmd != NULL ? cmd : "", what, object != NULL ? ": " : "",
		    object != NULL ? object : "", remedy != NULL ? ": " : "",
		    remedy != NULL ? remedy : "");
	return exit_code;
}

int ol_cmd_exit_of(int status)
{
	switch (status) {
	case 0:
		return OL_EXIT_OK;
	case -EINVAL:
		return OL_EXIT_USAGE;
	case OL_E_NO_SERVER:
	case OL_E_WIRE:
	case OL_E_TORN:
	case -ETIMEDOUT:
	case -ENOTCONN:
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return OL_EXIT_SERVER;
	case OL_E_NO_CHECKPOINT:
		return OL_EXIT_DATA;
	case OL_E_EPOCH:
	case OL_E_GEOMETRY:
	case OL_E_AUTH:
	case OL_E_WORKER_ID:
	case OL_E_FULL:
		return OL_EXIT_REFUSED;
	case -ENODEV:
	case -ENOENT: /* the folder of an address */
	case -EADDRNOTAVAIL:
		return OL_EXIT_DEVICE;
	case OL_E_RESOURCES:
	case -ENOMEM:
	case -EADDRINUSE:
	case -EMFILE:
	case -ENFILE:
	case -EFBIG:
	case -EAGAIN:
	case -EPERM:
	case -EACCES:
		return OL_EXIT_RESOURCES;
	case OL_E_FENCED:
		return OL_EXIT_FENCED;
	case OL_E_DEVICE:
		return OL_EXIT_DEVICE_LOST;
	default:
		return OL_EXIT_FAILED;
	}
}

int ol_cmd_exit_of_coord(int status)
{
	if (status == -EACCES)
		return OL_EXIT_REFUSED;
	return status == -ENOENT || status == -ENOTDIR ? OL_EXIT_SERVER : ol_cmd_exit_of(status);
}

const char *ol_cmd_remedy(int status)
{
	switch (status) {
	case -EADDRINUSE:
		return "another server is there; choose another address";
	case -ENODEV:
		return "outlast doctor says what this machine has; on one machine no device is needed: "
		       "give @NAME in place of HOST:PORT, or --transport shm";
	case -EADDRNOTAVAIL:
		return "give an address of this machine that an RDMA device has (outlast doctor)";
	case -ENOMEM:
	case -EAGAIN:
		return "free memory, or raise the limit of locked memory (ulimit -l)";
	default:
		return NULL;
	}
}

void ol_cmd_signals_asking(sigset_t *ret_set)
{
	struct sigaction was;

	sigemptyset(ret_set);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGTERM);
	/* a blocked signal is reported even if it is ignored */
	if (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
		sigaddset(ret_set, SIGHUP);
}

int ol_cmd_signals(const char *cmd, int *ret_fd)
{
	sigset_t set;
	int fd = -1;

	ol_cmd_signals_asking(&set);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
		fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, cmd, "cannot watch for signals", NULL,
				    strerror(errno));
	*ret_fd = fd;
	return 0;
}
