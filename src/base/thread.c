/* SPDX-License-Identifier: BSD-3-Clause */

/* thread.c -- a thread that blocks signals, which are for the program's own threads */

#include "base/thread.h"

#include <signal.h>

int ol_thread_start(void *(*run)(void *), void *arg, pthread_t *ret_thread)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = -pthread_create(ret_thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}
