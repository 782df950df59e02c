/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * proc.h -- the processes that `outlast train` consists of, and servers of `outlast bench`
 *
 * Each runs this very program with another subcommand, has a socket to its parent as descriptor 3
 * (control.h has what is said on it), and dies with its parent.
 */
#ifndef CMD_PROC_H
#define CMD_PROC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cmd/settings.h"

enum {
	OL_PROC_FD = 3, /* the socket, in the child */
	OL_PROC_LINE_MAX = 32768
};

struct ol_proc {
	pid_t pid; /* 0: not started */
	int fd; /* -1 once the other end is closed */
	bool ended; /* has been waited for */
	int wait_status; /* then */
	char name[24]; /* "worker 3" */
	char line[OL_PROC_LINE_MAX]; /* not yet whole */
	size_t line_len;
};

/* ol_proc_spawn -- start args->words; Errors: -errno */
int ol_proc_spawn(struct ol_proc *proc, const char *name, struct ol_args *args,
		  const char *job_key);

/* ol_proc_read -- the next thing it said, for the caller to release; NULL: nothing for now */
json_t *ol_proc_read(struct ol_proc *proc);

/* ol_proc_order -- one order (control.h); lost if it has ended */
void ol_proc_order(struct ol_proc *proc, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ol_proc_reap -- true if it has ended just now */
bool ol_proc_reap(struct ol_proc *proc);

/* ol_proc_wait -- for its end; what it says meanwhile goes nowhere */
void ol_proc_wait(struct ol_proc *proc);

/* ol_proc_lives -- it was started, and its end has not been seen */
static inline bool ol_proc_lives(const struct ol_proc *proc)
{
	return proc->pid != 0 && !proc->ended;
}

/* ol_proc_stopped -- SIGSTOP or the like keeps it from running */
bool ol_proc_stopped(const struct ol_proc *proc);

/* ol_proc_kill -- a signal; nothing if it has ended or was never started */
void ol_proc_kill(const struct ol_proc *proc, int signo);

/* ol_proc_fini -- kill it if need be, wait for it, close the socket; it may be started again */
void ol_proc_fini(struct ol_proc *proc);

/* ol_proc_exit_text -- "was killed by signal 9", "ended with exit status 4" */
void ol_proc_exit_text(const struct ol_proc *proc, char *text, size_t text_bytes);

/* ol_proc_failed -- it has ended, and not with exit status 0 */
bool ol_proc_failed(const struct ol_proc *proc);

#endif /* CMD_PROC_H */
