/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * proc.h -- the processes of `outlast train`, and servers of `outlast bench`
 *
 * Each runs this program with another subcommand, has a socket to its parent as descriptor 3 (for
 * its messages see control.h), and dies with its parent.
 */
#ifndef CMD_PROC_H
#define CMD_PROC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
	char line[OL_PROC_LINE_MAX]; /* beginning of a message */
	size_t line_len;
};

/* ol_proc_spawn -- start args->words; Errors: -errno */
int ol_proc_spawn(struct ol_proc *proc, const char *name, struct ol_args *args,
		  const char *job_key);

/* ol_proc_read -- its next message, for the caller to release; NULL: none for now */
json_t *ol_proc_read(struct ol_proc *proc);

/* ol_proc_order -- send one order (control.h); lost if the process has ended */
void ol_proc_order(struct ol_proc *proc, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ol_proc_reap -- true if it has ended just now */
bool ol_proc_reap(struct ol_proc *proc);

/* ol_proc_wait -- wait for its end, and drop its messages */
void ol_proc_wait(struct ol_proc *proc);

/* ol_proc_lives -- it was started, and its end has not been seen */
static inline bool ol_proc_lives(const struct ol_proc *proc)
{
	return proc->pid != 0 && !proc->ended;
}

/* ol_proc_stopped -- a SIGSTOP or the like has stopped it */
bool ol_proc_stopped(const struct ol_proc *proc);

/* ol_proc_kill -- send a signal; no effect if it has ended or was never started */
void ol_proc_kill(const struct ol_proc *proc, int signo);

/* ol_proc_fini -- kill it if need be, wait for it, close the socket; it may be started again */
void ol_proc_fini(struct ol_proc *proc);

/* ol_proc_exit_code -- of one that has ended; -1: a signal ended it */
int ol_proc_exit_code(const struct ol_proc *proc);
/* ol_proc_exit_text -- "was killed by signal 9", "ended with exit status 4" */
void ol_proc_exit_text(const struct ol_proc *proc, char *text, size_t text_bytes);

/* ol_proc_failed -- it has ended, and not with exit status 0 */
bool ol_proc_failed(const struct ol_proc *proc);

/* What a process costs, as the kernel counts it. */
struct ol_usage {
	uint64_t cpu_ns; /* of all its threads, user and system, so far */
	uint64_t rss_bytes; /* resident, memory shared with others included */
};

/* ol_usage_read -- -errno: no such process, or it has ended */
int ol_usage_read(pid_t pid, struct ol_usage *ret_usage);

#endif /* CMD_PROC_H */
