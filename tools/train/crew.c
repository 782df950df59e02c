/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * crew.c -- the job's processes: failures and ends, settled queues, wake-ups
 */
#include <signal.h>

#include "base/clock.h"
#include "train/parts.h"

enum {
	STOP_MS = 20 /* until a signal has surely stopped a process */
};

bool train_workers_gone(const struct train *train)
{
	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (ol_proc_lives(&train->workers[i].proc) || train->workers[i].life.start_ns != 0)
			return false;
	}
	return true;
}

void train_quit(struct train *train)
{
	if (train->quit_ns == 0) {
		train->quit_ns = ol_clock_ns();
	}
	for (uint32_t i = 0; i < train->set.workers; i++) {
		train->workers[i].life.start_ns = 0;
		if (train->workers[i].proc.pid != 0)
			ol_proc_order(&train->workers[i].proc, "quit");
	}
}

void train_fail(struct train *train, int exit_code)
{
	if (train->exit_code == 0)
		train->exit_code = exit_code;
	train_quit(train);
}

bool train_settled(const struct train *train, uint32_t shard)
{
	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];

		if (ol_proc_lives(&worker->proc) && (worker->unsettled >> shard & 1) != 0)
			return false;
	}
	return true;
}

uint64_t train_lease_over_ns(const struct train *train, const struct train_outage *outage)
{
	return outage->killed_ns + (train->set.lease.lease_ms + STOP_MS) * OL_NS_PER_MS;
}

void train_wake(struct train_server *server, uint64_t now_ns)
{
	struct train_life *life = &server->life;

	life->state = TRAIN_LIVES;
	life->wants_wake = false;
	life->wake_ns = 0;
	if (ol_proc_lives(&server->old)) {
		ol_proc_kill(&server->old, SIGCONT);
		return;
	}
	ol_proc_kill(&server->proc, SIGCONT);
	life->state = TRAIN_KILLED; /* it ends by itself if its lease is over */
	life->retry_ns = now_ns + TRAIN_SURVIVED_MS * OL_NS_PER_MS;
}
