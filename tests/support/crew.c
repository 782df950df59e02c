/* SPDX-License-Identifier: BSD-3-Clause */

/* crew.c -- workers that go on pushing while their servers die */

#include "support/crew.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "support/check.h"

enum {
	LEASE_MS = 200,
	BEAT_MS = 20,
	SLICE_MS = 50, /* of a wait: then whether to leave is looked after */
};

struct crew *crew_board(void)
{
	static struct crew *board;

	if (board != NULL)
		return board;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	check(board != MAP_FAILED);
	return board;
}

struct ol_server_opts crew_opts(unsigned seed)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.param_count = TALLY_PARAMS;
	opts.workers = TALLY_WORKERS;
	opts.workers_max = TALLY_WORKERS;
	opts.window = 2 + seed % 7;
	opts.rule.lr = 1.0f;
	opts.replay = OL_REPLAY_EACH; /* what was summed up counts in full */
	opts.replicas = 3;
	opts.lease_ms = LEASE_MS;
	opts.heartbeat_ms = BEAT_MS;
	opts.refound = 1;
	opts.restore = OL_RESTORE_MIRROR;
	opts.restore_workers = TALLY_WORKERS;
	return opts;
}

struct ol_worker *crew_worker(const struct job *job, long id)
{
	struct crew *crew = crew_board();
	struct ol_worker_opts opts;
	struct ol_worker *worker;

	ol_worker_opts_init(&opts);
	opts.outage = crew->outage == OL_OUTAGE_END ? OL_OUTAGE_WAIT : crew->outage;
	opts.outage_timeout_ms = 0;
	opts.lease_ms = job->opts.lease_ms;
	opts.mirror_state = crew->state;
	worker = job_worker_with(job, (int)id, opts);
	atomic_fetch_add(&crew->in, 1);
	return worker;
}

void crew_ended(struct ol_worker *worker)
{
	struct crew *crew = crew_board();
	struct ol_op never = { 0 };

	atomic_fetch_add(&crew->ended, 1);
	while (!atomic_load(&crew->leave)) /* it follows views, too */
		(void)ol_worker_wait_for(worker, &never, SLICE_MS);
	ol_worker_close(worker);
}

/* With CONTINUE nothing waits for a server: what is asked while one is gone is answered at once.
 * What was asked before may still come from the tail, when it is the head that is gone. */
static void pull(struct tally *tally)
{
	struct ol_link_stat stat;
	struct ol_job_info info;

	if (tally->pulling)
		return;
	check_ok(ol_link_get_stat(tally->worker, 0, &stat));
	ol_worker_info(tally->worker, &info);
	tally_pull(tally);
	if (tally->goes_on && stat.down && info.shard_count == 1 &&
	    ol_weights(tally->worker, NULL) != NULL)
		check(tally->pull.done && tally->pull.local);
}

static void round_of(struct tally *tally, unsigned flight)
{
	struct crew *crew = crew_board();
	uint64_t local = tally->local_pulls;
	int rc = tally->pushed - tally->done < flight ? tally_push(tally) : -EAGAIN;

	check(rc == 0 || rc == -EAGAIN || rc == -ENOBUFS);
	if (rc == 0)
		atomic_fetch_add(&crew->pushes, 1);
	if (rc == -ENOBUFS || tally->pushed % (3 + flight) == 0)
		pull(tally);
	if (rc != 0)
		tally_wait(tally);
	else
		tally_look(tally);
	if (tally->goes_on) /* its pushes end in outages too: give the servers a turn */
		(void)ol_worker_poll(tally->worker);
	atomic_store(&crew->done[tally->id], tally->done);
	atomic_fetch_add(&crew->local_pulls, tally->local_pulls - local);
}

static int push_on(const struct job *job, long id)
{
	struct crew *crew = crew_board();
	struct tally tally = { .worker = crew_worker(job, id),
			       .id = (uint32_t)id,
			       .level = crew->level,
			       .goes_on = crew->outage == OL_OUTAGE_CONTINUE,
			       .alike = crew->alike };
	unsigned flight = 1 + (job->opts.window + (unsigned)id) % TALLY_FLIGHT_MAX;
	struct ol_link_stat stat;

	while (!atomic_load(&crew->enough))
		round_of(&tally, crew->flight != 0 ? crew->flight : flight);
	if (tally.alike)
		tally_flush(&tally);
	else
		tally_end(&tally);
	check_ok(ol_link_get_stat(tally.worker, 0, &stat));
	crew->lost[id] = stat.lost;
	check_eq(stat.applied + stat.lost, tally.pushed);
	if (tally.alike)
		tally_check_alike(tally.worker);
	memcpy(crew->said[id], tally.said, sizeof(tally.said));
	crew_ended(tally.worker);
	return 0;
}

void crew_start(struct havoc *havoc, int (*fn)(const struct job *job, long id))
{
	for (uint32_t i = 0; i < TALLY_WORKERS; i++)
		havoc->workers[i] = job_fork(fn != NULL ? fn : push_on, &havoc->job, i);
	while (atomic_load(&crew_board()->in) < TALLY_WORKERS)
		havoc_tend(havoc);
}

void crew_pushes(struct havoc *havoc, unsigned long more)
{
	struct crew *crew = crew_board();
	unsigned long until = atomic_load(&crew->pushes) + more;

	while (atomic_load(&crew->pushes) < until && atomic_load(&crew->ended) == 0)
		havoc_tend(havoc);
}

void crew_enough(struct havoc *havoc)
{
	struct crew *crew = crew_board();

	atomic_store(&crew->enough, 1);
	while (atomic_load(&crew->ended) < TALLY_WORKERS)
		havoc_tend(havoc);
}

void crew_leave(struct havoc *havoc)
{
	/* first: LSan stops a process that ends, and a SIGCONT then has it wait for ever */
	for (uint32_t i = 0; i < TALLY_WORKERS; i++) {
		if (havoc->workers[i] != 0)
			kill(havoc->workers[i], SIGCONT);
	}
	atomic_store(&crew_board()->leave, 1);
	for (uint32_t i = 0; i < TALLY_WORKERS; i++) {
		if (havoc->workers[i] != 0)
			job_join(havoc->workers[i]);
		havoc->workers[i] = 0;
	}
}

void crew_history(struct havoc *havoc, uint32_t shard)
{
	const struct crew *crew = crew_board();
	struct ol_chain_info info = havoc_view(havoc, shard);

	for (uint32_t i = 0; i < TALLY_WORKERS; i++)
		check_msg(info.founded != 1 || crew->said[i][0] == '\0', "%s", crew->said[i]);
	check_msg(info.founded == 1 || havoc->all_lost || havoc->fenced > 0,
		  "epoch %u: founded anew in %u, though a replica was left", info.epoch,
		  info.founded);
}

uint64_t crew_sum(const float *weights, uint64_t count)
{
	const uint8_t *at = (const void *)weights;
	uint64_t sum = 1;

	for (uint64_t i = 0; i < count * sizeof(*weights); i++)
		sum = (sum ^ at[i]) * UINT64_C(1099511628211);
	return sum;
}
