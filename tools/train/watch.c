/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * watch.c -- events of a running job: messages, ends of processes, signals; its end
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "train/parts.h"

enum {
	STAT_MS = 250, /* between two looks at the servers' counters */
	STUCK_MS = 200, /* longer than the age of a worker's last report */
	PROCS_MAX = 2 * TRAIN_HOLDERS_MAX + TRAIN_WORKERS_MAX
};

/* One of the job's processes, started or not; of the owners only its own is not NULL */
struct who {
	struct ol_proc *proc;
	struct train_worker *worker;
	struct train_server *server;
	struct train_server *old; /* of a process that was replaced by another */
};

static uint32_t who_count(const struct train *train)
{
	return 2 * train_holders(train) + train->set.workers;
}

static struct who who_at(struct train *train, uint32_t index)
{
	uint32_t holders = train_holders(train), workers = train->set.workers;
	struct who who = { 0 };

	if (index < holders)
		who.server = &train->servers[index];
	else if (index < holders + workers)
		who.worker = &train->workers[index - holders];
	else
		who.old = &train->servers[index - holders - workers];
	who.proc = who.server != NULL   ? &who.server->proc
		   : who.worker != NULL ? &who.worker->proc
					: &who.old->old;
	return who;
}

/* One worker is held before its next step, so no worker is past that step: tell all to stop there. */
static void held(struct train *train, struct train_worker *worker, uint64_t position)
{
	train->stop_at = position + 1;
	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (&train->workers[i] != worker)
			ol_proc_order(&train->workers[i].proc, "stop %" PRIu64, train->stop_at);
	}
	ol_proc_order(&worker->proc, "stop %" PRIu64, train->stop_at);
}

/* Steps that made no version, by the worker that has counted most. */
static uint64_t barren(const struct train *train)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (train->workers[i].barren > most)
			most = train->workers[i].barren;
	}
	return most;
}

/* Tell a worker its share. A late worker is also told what the others were told. */
static void go(struct train *train, uint32_t i)
{
	struct ol_proc *proc = &train->workers[i].proc;
	uint32_t workers = train->set.workers;
	uint64_t share = train->steps;

	if (share == 0)
		share = UINT64_MAX;
	else if (!train_by_version(train))
		share = train->steps / workers + (i < train->steps % workers);
	ol_proc_order(proc, "go %" PRIu64 " %" PRIu64, share, barren(train));
	if (train->stop_ns == 0)
		return;
	if (!ol_consistency_all(&train->set.rule.how))
		ol_proc_order(proc, "stop 0");
	else if (train->stop_at != 0)
		ol_proc_order(proc, "stop %" PRIu64, train->stop_at);
	else if (i == 0)
		ol_proc_order(proc, "hold");
}

static void on_worker_message(struct train *train, struct train_worker *worker, const char *event,
			      json_t *message)
{
	json_int_t position = json_integer_value(json_object_get(message, "position"));
	uint32_t shard = (uint32_t)json_integer_value(json_object_get(message, "shard"));

	worker->heard_ns = ol_clock_ns();
	worker->silent = false;
	train_count_take(worker, message);
	if (strcmp(event, "ready") == 0) {
		worker->state = TRAIN_WORKER_WORKS;
		worker->ready_ns = worker->heard_ns;
		if (train_goes(train)) {
			go(train, (uint32_t)(worker - train->workers));
			train_worker_back(train, worker);
		}
	} else if (strcmp(event, "hold") == 0) {
		held(train, worker, (uint64_t)position);
	} else if (strcmp(event, "finished") == 0) {
		worker->state = TRAIN_WORKER_FINISHED;
	} else if (strcmp(event, "resumed") == 0) {
		worker->state = TRAIN_WORKER_WORKS;
		if (train->phase == TRAIN_LEAVING)
			train->phase = TRAIN_RUNNING;
	} else if (strcmp(event, "up") == 0 && shard < train->set.servers) {
		worker->epochs[shard] =
			(uint32_t)json_integer_value(json_object_get(message, "epoch"));
	} else if (strcmp(event, "down") == 0) {
		worker->unsettled |= UINT64_C(1) << (shard & 63);
		train_server_down(train, shard,
				  (uint64_t)json_integer_value(json_object_get(message, "at_ns")));
	} else if (strcmp(event, "settled") == 0) {
		worker->unsettled &= ~(UINT64_C(1) << (shard & 63));
	} else if (strcmp(event, "done") == 0 && worker->done == NULL) {
		worker->done = json_incref(message);
	}
}

static void on_server_message(struct train *train, struct train_server *server, const char *event,
			      json_t *message)
{
	const char *addr = json_string_value(json_object_get(message, "address"));
	const char *memory = json_string_value(json_object_get(message, "memory"));

	if (strcmp(event, "restored") == 0)
		train_server_restored(train, server, message);
	if (strcmp(event, "done") == 0)
		train_checkpoints_take(server, message);
	if (train->chain != NULL && (strcmp(event, "stat") == 0 || strcmp(event, "done") == 0))
		train_counters_take(server, message);
	if (strcmp(event, "ready") != 0 || addr == NULL || memory == NULL)
		return;
	server->replica = (uint64_t)json_integer_value(json_object_get(message, "replica"));
	if (train->chain == NULL)
		train_server_listens(train, server, addr);
	snprintf(server->addr, sizeof(server->addr), "%s", addr);
	snprintf(server->memory, sizeof(server->memory), "%s", memory);
	if (server->state == TRAIN_SERVER_STARTS)
		server->state = TRAIN_SERVER_LISTENS;
}

static void messages_read(struct train *train, const struct who *who)
{
	json_t *message;

	while ((message = ol_proc_read(who->proc)) != NULL) {
		const char *event = json_string_value(json_object_get(message, "event"));

		if (event != NULL && who->worker != NULL)
			on_worker_message(train, who->worker, event, message);
		else if (event != NULL && who->server != NULL)
			on_server_message(train, who->server, event, message);
		json_decref(message);
	}
}

/* The job takes the exit code of a process that fails at the start; it has printed the reason. */
static int start_exit_code(const struct ol_proc *proc)
{
	int code = ol_proc_exit_code(proc);

	return code > 0 ? code : OL_EXIT_CHILD;
}

/* Without this one more no step can be made */
static bool needs_more(const struct train *train)
{
	const struct ol_consistency_set *how = &train->set.rule.how;
	uint32_t least = ol_consistency_least(how, train->set.workers);

	return ol_consistency_all(how) ||
	       (least > 1 && train->set.workers - train->died - 1 < least);
}

static void on_worker_end(struct train *train, struct train_worker *worker)
{
	bool alone = train->set.workers - train->died == 1, last = alone || needs_more(train);
	char how[64];

	if (worker->done != NULL && !ol_proc_failed(&worker->proc))
		return;
	if (train->quit_ns == 0 && train->phase != TRAIN_LEAVING && train->signal == 0 &&
	    train_worker_lost(train, worker))
		return;
	/* no step can be made without this worker, and it is not restarted */
	if (train->signal != 0 && needs_more(train) && worker->state != TRAIN_WORKER_FINISHED)
		train_quit(train);
	worker->state = TRAIN_WORKER_DIED;
	train->died++;
	if (train->quit_ns != 0 || train->signal != 0)
		return; /* this end follows from an event that was printed */
	ol_proc_exit_text(&worker->proc, how, sizeof(how));
	if (last) {
		train_say(&train->screen, "outlast train: %s %s: %s: the job ends here",
			  worker->proc.name, how,
			  alone ? "it was the last one"
			  : ol_consistency_all(&train->set.rule.how)
				  ? "a synchronous step needs all"
				  : "a step needs more than are left");
		train_fail(train, OL_EXIT_CHILD);
		return;
	}
	train_say(&train->screen, "outlast train: %s %s: the others go on without it",
		  worker->proc.name, how);
}

static void on_server_end(struct train *train, struct train_server *server)
{
	char how[64];

	if (train->quit_ns == 0 && train_server_lost(train, server))
		return;
	ol_proc_exit_text(&server->proc, how, sizeof(how));
	if (train->quit_ns == 0 && train->chain != NULL && train_chain_goes_on(train, server)) {
		train_say(&train->screen,
			  "outlast train: %s %s: it has been started again often enough "
			  "(--restarts %u): its chain goes on without it",
			  server->proc.name, how, train->set.restarts);
		return;
	}
	if (train->quit_ns == 0)
		train_say(&train->screen,
			  train->restarts < train->set.restarts
				  ? "outlast train: %s %s, and would again: the job ends here "
				    "(--restarts %u)"
				  : "outlast train: %s %s: it has been started again often enough "
				    "(--restarts %u): the job ends here",
			  server->proc.name, how, train->set.restarts);
	train_fail(train, OL_EXIT_CHILD);
}

/* A server has ended before its last weights were evaluated, or with a failure. */
static void on_server_late_end(struct train *train, struct train_server *server)
{
	char how[64];

	if (server->life.state != TRAIN_LIVES)
		return;
	/* it was just restarted, and told to end before it could in order */
	if (train->chain != NULL && server->state == TRAIN_SERVER_STARTS)
		return;
	ol_proc_exit_text(&server->proc, how, sizeof(how));
	train_say(&train->screen, "outlast train: %s %s at the end of the job", server->proc.name,
		  how);
	/* a device that dies now costs a chain nothing, while others have its weights */
	if (train->chain == NULL || !train_chain_goes_on(train, server) ||
	    ol_proc_exit_code(&server->proc) != OL_EXIT_DEVICE_LOST)
		train_fail(train, OL_EXIT_CHILD);
}

static void on_end(struct train *train, const struct who *who)
{
	const struct ol_proc *proc = who->proc;
	char how[64];

	messages_read(train, who);
	if (who->old != NULL) {
		train_old_ended(train, who->old);
		return;
	}
	if (train->phase == TRAIN_ENDING && !ol_proc_failed(proc))
		return;
	if (train->phase == TRAIN_STARTING) {
		if (train->signal == 0 && train->exit_code == 0) {
			ol_proc_exit_text(proc, how, sizeof(how));
			train_say(&train->screen, "outlast train: %s %s before training began",
				  proc->name, how);
			train_fail(train, start_exit_code(proc));
		}
		return;
	}
	if (who->worker != NULL)
		on_worker_end(train, who->worker);
	else if (train_goes(train))
		on_server_end(train, who->server);
	else
		on_server_late_end(train, who->server);
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
		train->signal_ns = ol_clock_ns();
		if (train_goes(train)) {
			train_say(&train->screen,
				  "outlast train: stopping; once more to stop at once");
			train_stop(train);
		}
	}
}

void train_turn(struct train *train, int timeout_ms)
{
	struct pollfd fds[1 + PROCS_MAX];
	uint32_t procs = who_count(train);
	nfds_t count = 1;

	fds[0] = (struct pollfd){ .fd = train->signal_fd, .events = POLLIN };
	for (uint32_t i = 0; i < procs; i++) {
		const struct ol_proc *proc = who_at(train, i).proc;

		if (proc->pid != 0 && proc->fd >= 0)
			fds[count++] = (struct pollfd){ .fd = proc->fd, .events = POLLIN };
	}
	if (poll(fds, count, timeout_ms) < 0)
		return; /* EINTR: the next turn sees the same */
	signals_read(train);
	for (uint32_t i = 0; i < procs; i++) {
		struct who who = who_at(train, i);

		if (who.proc->pid == 0)
			continue;
		messages_read(train, &who);
		if (ol_proc_reap(who.proc))
			on_end(train, &who);
	}
}

void train_go(struct train *train)
{
	train->go_ns = ol_clock_ns();
	train->evals.next = train->set.eval_every;
	train->evals.next_ns = train->go_ns + (uint64_t)(train->set.eval_seconds * 1e9);
	for (uint32_t i = 0; i < train->set.workers; i++)
		go(train, i);
}

void train_stop(struct train *train)
{
	if (train->stop_ns != 0 || train->quit_ns != 0)
		return;
	train->stop_ns = ol_clock_ns();
	/* scheduled restarts and wake-ups are due now */
	for (uint32_t i = 0; i < train_holders(train); i++) {
		if (train->servers[i].life.start_ns > train->stop_ns)
			train->servers[i].life.start_ns = train->stop_ns;
	}
	for (uint32_t i = 0; i < train->set.workers; i++) {
		struct train_life *life = &train->workers[i].life;

		if (life->start_ns > train->stop_ns)
			life->start_ns = train->stop_ns;
		if (life->wake_ns > train->stop_ns)
			life->wake_ns = train->stop_ns;
	}
	if (ol_consistency_all(&train->set.rule.how)) {
		ol_proc_order(&train->workers[0].proc, "hold");
		return;
	}
	for (uint32_t i = 0; i < train->set.workers; i++)
		ol_proc_order(&train->workers[i].proc, "stop 0");
}

void train_stuck_look(struct train *train)
{
	uint64_t now_ns = ol_clock_ns();
	unsigned waiting = 0, finished = 0, busy = 0;

	/* with async workers do not wait for each other */
	if (ol_consistency_all(&train->set.rule.how) || train->phase == TRAIN_LEAVING ||
	    train->set.rule.how.consistency == OL_CONSISTENCY_ASYNC)
		return;
	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];

		if (!ol_proc_lives(&worker->proc) && worker->life.start_ns == 0)
			continue;
		finished += worker->state == TRAIN_WORKER_FINISHED;
		waiting += worker->state != TRAIN_WORKER_FINISHED && worker->waits[0] != '\0';
		busy += worker->state != TRAIN_WORKER_FINISHED && worker->waits[0] == '\0';
	}
	if (waiting == 0 || busy > 0 || finished == 0 || train_shards_down(train) > 0) {
		train->still.stuck_ns = 0;
		return;
	}
	if (train->still.stuck_ns == 0)
		train->still.stuck_ns = now_ns;
	if (now_ns - train->still.stuck_ns < STUCK_MS * OL_NS_PER_MS)
		return;
	train->still.stuck_ns = 0;
	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (train->workers[i].state == TRAIN_WORKER_FINISHED)
			ol_proc_order(&train->workers[i].proc, "more");
	}
}

uint64_t train_version_wanted(const struct train *train)
{
	uint64_t at = train->stop_at != 0 ? train->stop_at : train->steps;

	return train_by_version(train) && at > barren(train) ? at - barren(train) : 0;
}

/*
 * True if a worker has found the restarted servers, and knows which gradients they lack: before
 * that it would leave with wrong figures
 */
static bool noticed(const struct train *train, const struct train_worker *worker)
{
	for (uint32_t i = 0; train->chain == NULL && i < train->set.servers; i++) {
		const struct train_server *server = &train->servers[i];

		if (server->starts > 1 && worker->ready_ns < server->restored_ns &&
		    (worker->epochs[i] < server->epoch || (worker->unsettled >> i & 1) != 0))
			return false;
	}
	return true;
}

/* End the job if one worker has left and others were rolled back, as these would wait for ever. */
static void torn_look(struct train *train)
{
	bool left = false, stays = false;

	if (train->phase == TRAIN_LEAVING || train->quit_ns != 0 ||
	    !ol_consistency_all(&train->set.rule.how))
		return;
	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];

		left = left || (worker->done != NULL && !ol_proc_lives(&worker->proc) &&
				worker->life.start_ns == 0);
		stays = stays ||
			(ol_proc_lives(&worker->proc) && worker->state != TRAIN_WORKER_FINISHED);
	}
	if (!left || !stays)
		return;
	train_say(&train->screen,
		  "outlast train: a server was lost at the very end, and a worker had left "
		  "whose gradients are wanted again: the job ends here");
	train_fail(train, OL_EXIT_CHILD);
}

void train_end_check(struct train *train)
{
	torn_look(train);
	if (train->phase == TRAIN_LEAVING || train->quit_ns != 0 || train_shards_down(train) > 0)
		return;
	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];

		if (worker->life.start_ns != 0 ||
		    (ol_proc_lives(&worker->proc) &&
		     (worker->state != TRAIN_WORKER_FINISHED || !noticed(train, worker))))
			return;
	}
	if (train->chain != NULL && train_chain_lacks(train, false))
		return;
	for (uint32_t i = 0; train->chain == NULL && i < train->set.servers; i++) {
		const struct train_server *server = &train->servers[i];
		const struct train_life *life = &server->life;

		/* the effect of a signal may not be seen yet */
		if (!ol_proc_lives(&server->proc) || life->start_ns != 0 ||
		    life->state == TRAIN_KILLED ||
		    (life->state == TRAIN_STOPPED && !ol_proc_lives(&server->old)))
			return;
	}
	train_stat_read(train);
	if (train->signal == 0 && train->stat.version < train_version_wanted(train))
		return; /* rolled back: the workers will notice, and go on */
	train->phase = TRAIN_LEAVING;
	for (uint32_t i = 0; i < train->set.workers; i++)
		ol_proc_order(&train->workers[i].proc, "end");
}

static void rate_follow(struct train *train, uint64_t now_ns)
{
	uint64_t computed = train_counts(train).computed;
	double past_s =
		(double)(now_ns - (train->stat_ns != 0 ? train->stat_ns : train->go_ns)) / 1e9;
	double rate = computed > train->rate.computed
			      ? (double)(computed - train->rate.computed) / past_s
			      : 0.0;

	train->rate.per_s += (rate - train->rate.per_s) * (train->stat_ns != 0 ? 0.25 : 1.0);
	train->rate.computed = computed;
}

void train_tick(struct train *train)
{
	uint64_t now_ns = ol_clock_ns();

	if (now_ns - train->stat_ns >= STAT_MS * OL_NS_PER_MS) {
		train_stat_read(train);
		train_recover_sweep(train);
		rate_follow(train, now_ns);
		train->stat_ns = now_ns;
	}
	train_outages_tick(train);
	if (train->quit_ns == 0)
		train_eval_tick(train);
	train_timeline_tick(train, false);
	train_show_progress(train, now_ns);
}
