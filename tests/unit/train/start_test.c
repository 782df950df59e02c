/* SPDX-License-Identifier: BSD-3-Clause */

/* start_test.c -- a process that dies while the observer waits for its server ends the job at
 * once */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/cmd.h"
#include "outlast.h"
#include "train/parts.h"

/* A job of one server, at an address where nobody listens; its process waits for a signal */
static int job_make(void **state)
{
	static struct ol_job job = { .param_count = 2000 };
	struct train *train = calloc(1, sizeof(*train));
	struct ol_proc *proc;

	assert_non_null(train);
	train->job = &job;
	train->set.servers = 1;
	train->set.workers = 1;
	train->set.transport = OL_TRANSPORT_SHM;
	train->servers[0].proc.fd = -1;
	train->phase = TRAIN_STARTING;
	snprintf(train->servers[0].addr, sizeof(train->servers[0].addr), "@ol-unit-%d",
		 (int)getpid());
	assert_int_equal(ol_cmd_signals("train", &train->signal_fd), 0);
	proc = &train->servers[0].proc;
	snprintf(proc->name, sizeof(proc->name), "server 0");
	proc->pid = fork();
	assert_true(proc->pid >= 0);
	if (proc->pid == 0) {
		pause();
		_exit(0);
	}
	*state = train;
	return 0;
}

static int job_drop(void **state)
{
	struct train *train = *state;

	ol_proc_fini(&train->servers[0].proc);
	close(train->signal_fd);
	free(train);
	return 0;
}

static void a_server_that_dies_ends_the_job_as_what_it_is(void **state)
{
	struct train *train = *state;

	assert_int_equal(kill(train->servers[0].proc.pid, SIGKILL), 0);
	assert_int_equal(train_observer_open(train), OL_EXIT_CHILD);
	assert_int_equal(train->exit_code, OL_EXIT_CHILD);
}

static void who_asks_for_an_end_is_heard(void **state)
{
	struct train *train = *state;

	assert_int_equal(kill(getpid(), SIGTERM), 0); /* it is held back, and told of */
	assert_int_equal(train_observer_open(train), OL_EXIT_SIGNAL + SIGTERM);
	assert_int_equal(train->exit_code, 0);
}

/* Not before the server dies, too, is the waiting over */
static void the_end_of_another_process_ends_no_waiting(void **state)
{
	struct train *train = *state;
	pid_t other = fork();

	assert_true(other >= 0);
	if (other == 0) {
		pid_t killer = fork();

		if (killer == 0)
			kill(train->servers[0].proc.pid, SIGKILL);
		_exit(killer < 0);
	}
	assert_int_equal(train_observer_open(train), OL_EXIT_CHILD);
	assert_int_equal(waitpid(other, NULL, 0), other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_server_that_dies_ends_the_job_as_what_it_is,
						job_make, job_drop),
		cmocka_unit_test_setup_teardown(who_asks_for_an_end_is_heard, job_make, job_drop),
		cmocka_unit_test_setup_teardown(the_end_of_another_process_ends_no_waiting,
						job_make, job_drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
