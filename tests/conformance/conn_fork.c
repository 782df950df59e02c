/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_fork.c -- a child that was made without the C library's fork() has copies of all descriptors.
 * A connection that is freed meanwhile ends all the same, its peer is told, and no event of it
 * follows
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"
#include "support/xport_pair.h"

/* A process with copies of all descriptors, until the pipe's other end is closed */
static pid_t copies_keep(int *ret_fd)
{
	int fds[2];
	pid_t pid;
	char byte;

	check(pipe(fds) == 0);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L);
	check(pid >= 0);
	if (pid == 0) {
		close(fds[1]);
		_exit(read(fds[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(fds[0]);
	*ret_fd = fds[1];
	return pid;
}

static void freed_while_copied(void)
{
	for (unsigned i = 0; i < 8; i++) {
		struct xp_pair pair;
		struct xp_end *first, *second;
		struct ol_xport_conn *gone, *left;
		pid_t pid;
		int fd, status;

		xp_pair_open(&pair, NULL);
		first = i % 2 == 0 ? &pair.a : &pair.b;
		second = i % 2 == 0 ? &pair.b : &pair.a;
		gone = i % 2 == 0 ? pair.a_conn : pair.b_conn;
		left = i % 2 == 0 ? pair.b_conn : pair.a_conn;
		pid = copies_keep(&fd);
		if (i >= 4) /* something that would be read from the copy */
			xp_bell(left, 1);
		xp_conn_free(first, gone);
		check_eq(xp_wait_down(second, left), 0);
		xp_conn_free(second, left);
		for (unsigned tries = 0; tries < 100; tries++) {
			xp_progress_end(first);
			xp_progress_end(second);
		}
		close(fd);
		check(waitpid(pid, &status, 0) == pid && status == 0);
		xp_end_close(first);
		xp_end_close(second);
	}
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	if (!xp_is_shm()) {
		printf("skip: processes fork before they open a device\n");
		return 77;
	}
	xp_run1("a freed connection is gone though a child has copies of its descriptors",
		freed_while_copied);
	return xp_result();
}
