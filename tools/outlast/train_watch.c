/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train_watch.c -- what happens while a job runs: messages, deaths, signals, progress, evaluation
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "outlast/cmd.h"
#include "outlast/train.h"

enum {
	STAT_MS = 250, /* between two looks at the servers' counters */
	EVAL_PIECE = 256, /* samples evaluated between two looks at anything else */
	PROCS_MAX = TRAIN_SERVERS_MAX + TRAIN_WORKERS_MAX
};

static struct train_worker *worker_of(struct train *train, const struct ol_proc *proc)
{
	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (&train->workers[i].proc == proc)
			return &train->workers[i];
	}
	return NULL;
}

static struct train_server *server_of(struct train *train, const struct ol_proc *proc)
{
	for (uint32_t i = 0; i < train->set.servers; i++) {
		if (&train->servers[i].proc == proc)
			return &train->servers[i];
	}
	return NULL;
}

/* Every process that was started: servers, then workers. NULL behind the last. */
static struct ol_proc *proc_at(struct train *train, uint32_t index)
{
	struct ol_proc *proc = NULL;

	if (index < train->set.servers)
		proc = &train->servers[index].proc;
	else if (index < train->set.servers + train->set.workers)
		proc = &train->workers[index - train->set.servers].proc;
	return proc != NULL && proc->pid != 0 ? proc : NULL;
}

bool train_workers_gone(const struct train *train)
{
	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (train->workers[i].proc.pid != 0 && !train->workers[i].proc.ended)
			return false;
	}
	return true;
}

void train_fail(struct train *train, int exit_code)
{
	if (train->exit_code == 0)
		train->exit_code = exit_code;
	if (!train->killed) {
		train->killed = true;
		train->quit_ns = ol_clock_ns();
	}
	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (train->workers[i].proc.pid != 0)
			ol_proc_order(&train->workers[i].proc, "quit");
	}
}

/* One worker has stopped in front of its next step: nobody is further than that step. */
static void held(struct train *train, struct train_worker *worker, uint64_t computed)
{
	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (&train->workers[i] != worker)
			ol_proc_order(&train->workers[i].proc, "stop %" PRIu64, computed + 1);
	}
	ol_proc_order(&worker->proc, "stop %" PRIu64, computed + 1);
}

static void on_worker_message(struct train *train, struct train_worker *worker, const char *event,
			      json_t *message)
{
	json_int_t computed = json_integer_value(json_object_get(message, "computed"));

	if (computed > 0)
		worker->computed = (uint64_t)computed;
	if (strcmp(event, "ready") == 0) {
		worker->ready = true;
	} else if (strcmp(event, "hold") == 0) {
		held(train, worker, worker->computed);
	} else if (strcmp(event, "done") == 0 && worker->done == NULL) {
		worker->done = json_incref(message);
	}
}

static void on_server_message(struct train_server *server, const char *event, json_t *message)
{
	const char *addr = json_string_value(json_object_get(message, "address"));
	const char *memory = json_string_value(json_object_get(message, "memory"));

	if (strcmp(event, "ready") != 0 || addr == NULL || memory == NULL)
		return;
	snprintf(server->addr, sizeof(server->addr), "%s", addr);
	snprintf(server->memory, sizeof(server->memory), "%s", memory);
	server->ready = true;
}

static void messages_read(struct train *train, struct ol_proc *proc)
{
	struct train_worker *worker = worker_of(train, proc);
	struct train_server *server = server_of(train, proc);
	json_t *message;

	while ((message = ol_proc_read(proc)) != NULL) {
		const char *event = json_string_value(json_object_get(message, "event"));

		if (event != NULL && worker != NULL)
			on_worker_message(train, worker, event, message);
		else if (event != NULL && server != NULL)
			on_server_message(server, event, message);
		json_decref(message);
	}
}

/* A failure at the start is the process's own: it has said why, and its exit code says what. */
static int start_exit_code(const struct ol_proc *proc)
{
	if (WIFEXITED(proc->wait_status) && WEXITSTATUS(proc->wait_status) != 0)
		return WEXITSTATUS(proc->wait_status);
	return OL_EXIT_CHILD;
}

static void on_worker_end(struct train *train, struct train_worker *worker)
{
	bool alone = train->set.workers - train->died == 1;
	char how[64];

	if (worker->done != NULL && !ol_proc_failed(&worker->proc))
		return;
	worker->died = true;
	train->died++;
	if (train->killed || train->signal != 0)
		return; /* what comes now follows from what has been said */
	ol_proc_exit_text(&worker->proc, how, sizeof(how));
	if (train_is_sync(train) || alone) {
		train_say(train, "outlast train: %s %s: %s: the job ends here", worker->proc.name,
			  how, alone ? "it was the last one" : "a synchronous step needs all");
		train_fail(train, OL_EXIT_CHILD);
		return;
	}
	train_say(train, "outlast train: %s %s: the others go on without it", worker->proc.name,
		  how);
}

static void on_end(struct train *train, struct ol_proc *proc)
{
	struct train_worker *worker = worker_of(train, proc);
	char how[64];

	messages_read(train, proc);
	if (train->phase == TRAIN_ENDING && !ol_proc_failed(proc))
		return;
	if (train->phase == TRAIN_STARTING) {
		if (train->signal == 0 && train->exit_code == 0) {
			ol_proc_exit_text(proc, how, sizeof(how));
			train_say(train, "outlast train: %s %s before training began", proc->name,
				  how);
			train_fail(train, start_exit_code(proc));
		}
		return;
	}
	if (worker != NULL) {
		on_worker_end(train, worker);
		return;
	}
	ol_proc_exit_text(proc, how, sizeof(how));
	train_say(train, "outlast train: %s %s: its shard is lost: the job ends here", proc->name,
		  how);
	train_fail(train, OL_EXIT_CHILD);
}

static void signals_read(struct train *train)
{
	struct signalfd_siginfo info;

	while (read(train->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (train->signal != 0) {
			train_fail(train, OL_EXIT_SIGNAL + (int)info.ssi_signo);
			continue;
		}
		train->signal = (int)info.ssi_signo;
		if (train->phase == TRAIN_RUNNING) {
			train_say(train, "outlast train: stopping; once more to stop at once");
			train_stop(train);
		}
	}
}

void train_turn(struct train *train, int timeout_ms)
{
	struct pollfd fds[1 + PROCS_MAX];
	struct ol_proc *proc;
	nfds_t count = 1;

	fds[0] = (struct pollfd){ .fd = train->signal_fd, .events = POLLIN };
	for (uint32_t i = 0; (proc = proc_at(train, i)) != NULL; i++)
		fds[count++] = (struct pollfd){ .fd = proc->fd, .events = POLLIN };
	if (poll(fds, count, timeout_ms) < 0)
		return; /* EINTR: the next turn sees the same */
	signals_read(train);
	for (uint32_t i = 0; (proc = proc_at(train, i)) != NULL; i++) {
		messages_read(train, proc);
		if (ol_proc_reap(proc))
			on_end(train, proc);
	}
}

void train_go(struct train *train)
{
	uint32_t workers = train->set.workers;

	train->go_ns = ol_clock_ns();
	train->eval_next = train->set.eval_every;
	for (uint32_t i = 0; i < workers; i++) {
		uint64_t share = train->steps;

		if (share == 0)
			share = UINT64_MAX;
		else if (!train_is_sync(train))
			share = train->steps / workers + (i < train->steps % workers);
		ol_proc_order(&train->workers[i].proc, "go %" PRIu64, share);
	}
}

void train_stop(struct train *train)
{
	if (train->stopping || train->killed)
		return;
	train->stopping = true;
	if (train_is_sync(train)) {
		ol_proc_order(&train->workers[0].proc, "hold");
		return;
	}
	for (uint32_t i = 0; i < train->set.workers; i++)
		ol_proc_order(&train->workers[i].proc, "stop 0");
}

void train_stat_read(struct train *train)
{
	struct train_stat stat = train->stat;
	uint64_t version = UINT64_MAX;

	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct ol_server_stat one;

		if (ol_stat(train->observer, i, &one) != 0)
			return;
		if (one.version < version)
			version = one.version;
		if (i > 0)
			continue;
		stat.applied = one.applied;
		stat.dropped_nonfinite = one.dropped_nonfinite;
		stat.dropped_late = one.dropped_late;
		stat.staleness_sum = one.staleness_sum;
		stat.loss = one.loss;
	}
	stat.version = version;
	train->stat = stat;
}

static int weights_pull(struct train *train)
{
	int rc = ol_pull(train->observer, OL_PULL_NEWEST, &train->pull);

	if (rc == 0)
		rc = ol_worker_wait(train->observer, &train->pull);
	if (rc != 0)
		return rc;
	train->eval_t_s = (double)(ol_clock_ns() - train->go_ns) / 1e9;
	ol_eval_start(&train->eval, ol_weights(train->observer, &train->eval_version));
	train->evaluating = true;
	return 0;
}

static void eval_done(struct train *train)
{
	double loss = ol_eval_loss(&train->eval);

	train->evaluating = false;
	train->accuracy = ol_eval_accuracy(&train->eval);
	train->loss = loss;
	json_array_append_new(train->evals,
			      json_pack("{s:I, s:f, s:f, s:o}", "step",
					(json_int_t)train->eval_version, "t_s", train->eval_t_s,
					"accuracy", train->accuracy, "loss",
					isfinite(loss) ? json_real(loss) : json_null()));
}

int train_evaluate(struct train *train)
{
	int rc = weights_pull(train);

	while (rc == 0 && train->evaluating) {
		train_turn(train, 0);
		if (train->signal != 0 && train->exit_code != 0)
			return -ECANCELED;
		if (ol_eval_some(train->job, &train->eval, EVAL_PIECE))
			eval_done(train);
	}
	return rc;
}

static void eval_tick(struct train *train)
{
	uint64_t every = train->set.eval_every;

	if (train->evaluating && ol_eval_some(train->job, &train->eval, EVAL_PIECE))
		eval_done(train);
	if (train->evaluating || every == 0 || train->stat.version < train->eval_next ||
	    train->stat.version == train->steps)
		return;
	/* a server that is gone is noticed elsewhere */
	(void)weights_pull(train);
	train->eval_next = (train->stat.version / every + 1) * every;
}

void train_tick(struct train *train)
{
	uint64_t now_ns = ol_clock_ns();
	uint64_t resolved =
		train->stat.applied + train->stat.dropped_nonfinite + train->stat.dropped_late;

	if (now_ns - train->stat_ns >= STAT_MS * OL_NS_PER_MS) {
		double past_s =
			(double)(now_ns - (train->stat_ns != 0 ? train->stat_ns : train->go_ns)) /
			1e9;

		train_stat_read(train);
		resolved = train->stat.applied + train->stat.dropped_nonfinite +
			   train->stat.dropped_late - resolved;
		train->rate += ((double)resolved / past_s - train->rate) *
			       (train->stat_ns != 0 ? 0.25 : 1.0);
		train->stat_ns = now_ns;
	}
	if (!train->killed)
		eval_tick(train);
	train_show_progress(train, now_ns);
}
