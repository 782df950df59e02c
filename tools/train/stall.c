/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * stall.c -- while no step is made: say what the job waits for, and make sure that it can end
 *
 *	stopped      by a signal, as the kernel says; woken up when a signal ends the job
 *	silent       alive, but without reports for long; killed when the job must end
 *	gone         to be restarted, or without weights yet
 *	computes     others wait for its gradient
 *	waits        as all others do: what each waits for; in a chain, for its next view
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "train/parts.h"

enum {
	SILENT_MS = 10000, /* a worker reports ten times a second */
	STALL_MS = 8000, /* less than SILENT_MS, as the line about a stall names the worker too */
	STOP_MAX_MS = 10000, /* without progress, after a signal */
	NAMES_MAX = 4 /* processes named in a line */
};

/* Text that names what the job waits for */
struct names {
	char text[320];
	size_t len;
	unsigned count;
};

__attribute__((format(printf, 2, 3))) static void name_add(struct names *names, const char *format,
							   ...)
{
	size_t room = sizeof(names->text) - names->len;
	va_list list;
	int len;

	if (names->count++ >= NAMES_MAX)
		return;
	if (names->count > 1)
		names->len += (size_t)snprintf(names->text + names->len, room, ", ");
	room = sizeof(names->text) - names->len;
	va_start(list, format);
	len = vsnprintf(names->text + names->len, room, format, list);
	va_end(list);
	names->len += len > 0 && (size_t)len < room ? (size_t)len : 0;
	names->text[names->len] = '\0';
}

/* Name a process that is gone, stopped or lacks something; true: named */
static bool life_name(struct names *names, const struct ol_proc *proc,
		      const struct train_life *life, const char *lacks, uint64_t now_ns)
{
	if (!ol_proc_lives(proc) && life->start_ns > now_ns)
		name_add(names, "%s (to be started again in %.0f s)", proc->name,
			 (double)(life->start_ns - now_ns) / 1e9);
	else if (!ol_proc_lives(proc) && life->start_ns != 0)
		name_add(names, "%s (to be started again)", proc->name);
	else if (ol_proc_lives(proc) && ol_proc_stopped(proc))
		name_add(names, "%s (stopped)", proc->name);
	else if (ol_proc_lives(proc) && lacks != NULL)
		name_add(names, "%s (%s)", proc->name, lacks);
	else
		return false;
	return true;
}

static void servers_name(const struct train *train, struct names *names, uint64_t now_ns)
{
	for (uint32_t i = 0; i < train_holders(train); i++) {
		const struct train_server *server = &train->servers[i];
		struct ol_link_stat link;
		bool down = train->chain == NULL && train->observer != NULL &&
			    ol_link_get_stat(train->observer, i, &link) == 0 && link.down;

		(void)life_name(names, &server->proc, &server->life,
				server->state != TRAIN_SERVER_WHOLE ? "has no weights yet"
				: down                              ? "does not answer"
								    : NULL,
				now_ns);
	}
}

/* No process is missing, but no step is made: a chain waits for its next view. */
static void chains_name(const struct train *train, struct names *names)
{
	for (uint32_t i = 0; i < train_holders(train); i++) {
		if (!ol_proc_lives(&train->servers[i].proc))
			name_add(names,
				 "the chain of shard %u to go on without %s (coordinator %s)",
				 train->servers[i].shard, train->servers[i].proc.name,
				 train->chain->addr);
	}
	if (names->count == 0)
		name_add(names, "a chain's next view (coordinator %s)", train->chain->addr);
}

static void workers_name(const struct train *train, struct names *names, uint64_t now_ns)
{
	unsigned known = names->count, waiting = 0, computing = 0;

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];
		uint64_t quiet_ns = worker->heard_ns != 0 ? now_ns - worker->heard_ns : 0;

		if (ol_proc_lives(&worker->proc) && worker->state != TRAIN_WORKER_FINISHED) {
			waiting += worker->waits[0] != '\0';
			computing += worker->waits[0] == '\0';
		}
		if ((worker->state == TRAIN_WORKER_FINISHED && train->phase != TRAIN_LEAVING) ||
		    life_name(names, &worker->proc, &worker->life,
			      worker->state == TRAIN_WORKER_STARTS ? "has no weights yet" : NULL,
			      now_ns))
			continue;
		if (ol_proc_lives(&worker->proc) && quiet_ns > STALL_MS / 2 * OL_NS_PER_MS)
			name_add(names, "%s (has said nothing for %.0f s)", worker->proc.name,
				 (double)quiet_ns / 1e9);
	}
	if (known > 0 || names->count > 0 || waiting == 0)
		return;
	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];

		if (!ol_proc_lives(&worker->proc) || worker->state == TRAIN_WORKER_FINISHED)
			continue;
		if (worker->waits[0] == '\0')
			name_add(names, "%s (still computes its gradient)", worker->proc.name);
		else if (computing == 0 && train->chain == NULL)
			name_add(names, "%s (%s)", worker->proc.name, worker->waits);
	}
}

static void names_take(const struct train *train, struct names *names)
{
	uint64_t now_ns = ol_clock_ns();

	*names = (struct names){ 0 };
	servers_name(train, names, now_ns);
	workers_name(train, names, now_ns);
	if (names->count == 0 && train->chain != NULL)
		chains_name(train, names);
	if (names->count > NAMES_MAX)
		snprintf(names->text + names->len, sizeof(names->text) - names->len, " and %u more",
			 names->count - NAMES_MAX);
}

/* A number that changes with each step, and with each gradient that is applied or queued */
static uint64_t steps_mark(const struct train *train)
{
	struct train_count counts = train_counts(train);

	return train->stat.version * 31 + counts.applied + counts.queued_total;
}

/* A number that changes when a process starts, ends or changes its state */
static uint64_t lives_mark(const struct train *train)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];

		sum = sum * 31 + (uint64_t)worker->state + 4 * ol_proc_lives(&worker->proc);
	}
	for (uint32_t i = 0; i < train_holders(train); i++)
		sum = sum * 31 + train->servers[i].state + 2 * train->servers[i].starts;
	return sum;
}

static uint64_t stall_max_ns(const struct train *train)
{
	double pace_s = train->set.pace > 0.0 ? 2.0 / train->set.pace : 0.0;

	return STALL_MS * OL_NS_PER_MS + (uint64_t)(pace_s * 1e9);
}

/* Wake a stopped process, as it could not end. outage.c wakes those that --kill has stopped. */
static void wake(struct train *train, const struct ol_proc *proc, const struct train_life *life)
{
	if (life->state == TRAIN_STOPPED || !ol_proc_lives(proc) || !ol_proc_stopped(proc))
		return;
	train_say(&train->screen, "outlast train: %s was stopped: woken up, so that it can end",
		  proc->name);
	ol_proc_kill(proc, SIGCONT);
}

static void stopped_wake(struct train *train)
{
	for (uint32_t i = 0; i < train_holders(train); i++)
		wake(train, &train->servers[i].proc, &train->servers[i].life);
	for (uint32_t i = 0; i < train->set.workers; i++)
		wake(train, &train->workers[i].proc, &train->workers[i].life);
}

void train_stall_look(struct train *train)
{
	uint64_t now_ns = ol_clock_ns(), steps = steps_mark(train), lives = lives_mark(train);
	uint64_t since_ns;
	struct names names;

	if (train->signal != 0)
		stopped_wake(train);
	if (train->quit_ns != 0)
		return;
	if (steps != train->still.steps)
		train->still.said = false;
	if (steps != train->still.steps || lives != train->still.lives ||
	    train->still.moved_ns == 0)
		train->still.moved_ns = now_ns;
	train->still.steps = steps;
	train->still.lives = lives;
	if (!train->still.said && now_ns - train->still.moved_ns > stall_max_ns(train)) {
		names_take(train, &names);
		train->still.said = names.count > 0;
		if (train->still.said)
			train_say(&train->screen,
				  "outlast train: nothing has moved for %.0f s, at version %" PRIu64
				  ": waiting for %s",
				  (double)(now_ns - train->still.moved_ns) / 1e9,
				  train->stat.version, names.text);
	}
	since_ns =
		train->still.moved_ns > train->signal_ns ? train->still.moved_ns : train->signal_ns;
	if (train->signal == 0 || now_ns - since_ns < STOP_MAX_MS * OL_NS_PER_MS)
		return;
	names_take(train, &names);
	train_say(&train->screen,
		  "outlast train: nothing has moved for %d s: the job ends without waiting for %s "
		  "any longer",
		  STOP_MAX_MS / 1000, names.count > 0 ? names.text : "its processes");
	train_quit(train);
}

void train_silence_look(struct train *train)
{
	uint64_t now_ns = ol_clock_ns();

	for (uint32_t i = 0; i < train->set.workers; i++) {
		struct train_worker *worker = &train->workers[i];
		uint64_t since_ns =
			worker->heard_ns > train->go_ns ? worker->heard_ns : train->go_ns;

		if (!ol_proc_lives(&worker->proc) || worker->state == TRAIN_WORKER_FINISHED ||
		    worker->life.outage != NULL || now_ns - since_ns < SILENT_MS * OL_NS_PER_MS)
			continue;
		if (!worker->silent && !train->still.said)
			train_say(&train->screen, "outlast train: %s has said nothing for %d s: %s",
				  worker->proc.name, SILENT_MS / 1000,
				  ol_proc_stopped(&worker->proc) ? "it is stopped"
								 : "does it hang?");
		worker->silent = true;
		if (train->stop_ns != 0 && now_ns - train->stop_ns > SILENT_MS * OL_NS_PER_MS)
			ol_proc_kill(&worker->proc, SIGKILL);
	}
}
