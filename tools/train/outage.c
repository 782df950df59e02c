/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage.c -- the kill schedule; restarts; the course of each outage
 *
 *	killed       `train` waits for its end, and restarts it at its address, after `down`
 *	stopped      when the observer notices the silence, another server takes its place at
 *	             another address, with the next epoch, and the workers are told. The old one
 *	             must end by itself when it is woken up. Woken up earlier, it goes on.
 *	died         as killed, but restarted at once, at most --restarts times; a server whose
 *	             device is gone, once there is a device, at an address of that
 *	rolled back  another was lost, and --recovery is full: killed, then all start from one
 *	             version (recover.c)
 *	hangs        alive, but silent for much longer than its lease: killed, then as died
 *
 * A chain does not wait for a stopped server: chain.c follows its outage, and the server must end by
 * itself once it is woken up.
 *
 * A start that fails (the address is still taken, the id still known) is tried again for a while.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/device.h"
#include "train/parts.h"

enum {
	FAST_MS = 5, /* between two looks during an outage */
	RETRY_MS = 200, /* between two starts that fail */
	RETRY_MAX_MS = 15000, /* for all of these starts */
	DEVICE_MS = 500, /* between two looks for a device that is gone, or starts without it */
	DEVICE_MAX_MS = 60000, /* for all of these looks */
	HANG_MS = 3000 /* beyond the lease */
};

/* The target, if it lives, has its weights and was not killed or stopped; else NULL */
static struct train_server *server_target(struct train *train, const struct ol_kill *kill)
{
	struct train_server *server;

	if (kill->target == OL_KILL_WORKER)
		return NULL;
	if (ol_kill_of_chain(kill))
		return train_chain_target(train, kill);
	server = &train->servers[kill->index];
	return ol_proc_lives(&server->proc) && server->state == TRAIN_SERVER_WHOLE &&
			       server->life.state == TRAIN_LIVES && server->life.outage == NULL &&
			       !ol_proc_lives(&server->old)
		       ? server
		       : NULL;
}

/* The same for a worker */
static struct train_worker *worker_target(struct train *train, const struct ol_kill *kill)
{
	struct train_worker *worker = &train->workers[kill->index];

	return kill->target == OL_KILL_WORKER && ol_proc_lives(&worker->proc) &&
			       worker->state != TRAIN_WORKER_STARTS &&
			       worker->life.state == TRAIN_LIVES
		       ? worker
		       : NULL;
}

/* The first server is lost: until now gradients took effect at this rate, by the counters that were read last */
static void applied_rate_note(struct train *train)
{
	const struct train_stat *stat = &train->stat;
	uint64_t before = 0;

	for (unsigned i = 0; i < train->outage_count; i++) {
		if (train->outages[i].server)
			return;
	}
	for (uint32_t i = 0; i < train->set.workers; i++)
		before += train->contained_first[i];
	if (stat->read_ns > train->go_ns && stat->applied > before)
		train->applied_rate = (double)(stat->applied - before) * 1e9 /
				      (double)(stat->read_ns - train->go_ns);
}

static struct train_outage *outage_open(struct train *train, const struct ol_kill *kill,
					bool server, uint32_t index)
{
	struct train_outage *outage;

	if (server)
		applied_rate_note(train);
	outage = &train->outages[train->outage_count++];
	*outage = (struct train_outage){
		.server = server,
		.index = index,
		.kill = kill,
		.version = train->stat.version,
		.killed_ns = ol_clock_ns(),
		.loss_before = train->evals.loss,
		.accuracy_before =
			train->evals.accuracy >= 0.0 ? train->evals.accuracy : (double)NAN,
		.loss_after = (double)NAN,
		.accuracy_after = (double)NAN,
		.lost_at = server ? train_counts(train).shard_lost[index] : 0,
	};
	snprintf(outage->target, sizeof(outage->target), "%s%u", server ? "server" : "worker",
		 index);
	return outage;
}

/* Send the signal, and open the outage */
static void fire(struct train *train, uint32_t at, struct train_server *server,
		 struct train_worker *worker)
{
	const struct ol_kill *kill = &train->kills.list[at];
	struct train_life *life = server != NULL ? &server->life : &worker->life;
	const struct ol_proc *proc = server != NULL ? &server->proc : &worker->proc;
	struct train_outage *outage;

	train->fired[at] = true;
	train_stat_read(train);
	outage = outage_open(train, kill, server != NULL, kill->index);
	if (train->chain != NULL && server != NULL)
		train_chain_lost(train, server, outage);
	if (server != NULL && train_shards_down(train) == 0)
		(void)train_pull(train, outage, NULL); /* weights as close to the loss as can be */
	life->outage = outage;
	life->state = kill->signo == SIGKILL ? TRAIN_KILLED : TRAIN_STOPPED;
	life->wants_wake = life->state == TRAIN_STOPPED && !kill->down_set;
	outage->killed_ns = ol_clock_ns();
	if (life->state == TRAIN_STOPPED && kill->down_set)
		life->wake_ns = outage->killed_ns + kill->down_ns;
	ol_proc_kill(proc, kill->signo);
	train_say(&train->screen, "%s is %s (%s) at version %" PRIu64, proc->name,
		  life->state == TRAIN_KILLED ? "killed" : "stopped", kill->text, outage->version);
}

static void kills_look(struct train *train, uint64_t now_ns)
{
	bool read = false;

	for (uint32_t i = 0; i < train->kills.count && train->phase != TRAIN_LEAVING; i++) {
		const struct ol_kill *kill = &train->kills.list[i];
		struct train_worker *worker;
		struct train_server *server;
		double loss;

		if (train->fired[i])
			continue;
		server = server_target(train, kill);
		worker = worker_target(train, kill);
		if (server == NULL && worker == NULL)
			continue;
		if (kill->when != OL_KILL_AT_TIME && !read)
			train_stat_read(train);
		read = read || kill->when != OL_KILL_AT_TIME;
		loss = train->stat.applied > 0 ? (double)train->stat.loss : (double)NAN;
		if (ol_kill_due(kill, now_ns - train->go_ns, train->stat.version, loss,
				train->evals.loss))
			fire(train, i, server, worker);
	}
}

static void outage_over(struct train_life *life, enum train_outage_state state)
{
	life->outage->state = state;
	life->outage = NULL;
}

/* Start another server at another address in place of a stopped one. */
static void server_replace(struct train *train, uint32_t i)
{
	struct train_server *server = &train->servers[i];
	int rc;

	ol_proc_fini(&server->old);
	server->old = server->proc;
	snprintf(server->old.name, sizeof(server->old.name), "server %u, stopped", i);
	server->woken = server->life.outage;
	server->proc = (struct ol_proc){ .fd = -1 };
	train_past_add(server);
	server->state = TRAIN_SERVER_STARTS;
	server->life.retry_ns = ol_clock_ns() + RETRY_MAX_MS * OL_NS_PER_MS;
	if (train_recovers_all(train)) {
		server->life.start_ns = ol_clock_ns(); /* with the others */
		train_recover_begin(train, UINT64_MAX);
		return;
	}
	server->epoch++;
	rc = train_server_start(train, i, (enum ol_restore)train->set.durable.restore, true);
	if (rc != 0)
		train_fail(train, rc);
}

/* Look at a live server: is it stopped, awake again, or does it hang? */
static void server_look(struct train *train, uint32_t i, uint64_t now_ns)
{
	struct train_server *server = &train->servers[i];
	struct train_life *life = &server->life;
	struct train_outage *outage = life->outage;
	struct ol_link_stat link;
	uint64_t since_ns;

	if (train->observer == NULL || ol_link_get_stat(train->observer, i, &link) != 0)
		return; /* NULL: the job has ended */
	if (life->state == TRAIN_STOPPED && link.down && !ol_proc_lives(&server->old)) {
		server_replace(train, i);
		return;
	}
	if (life->wake_ns != 0 && now_ns >= life->wake_ns)
		train_wake(server, now_ns);
	if (outage != NULL && outage->kill != NULL && outage->kill->signo == SIGSTOP &&
	    life->state == TRAIN_KILLED && !life->rolled && !link.down &&
	    now_ns >= life->retry_ns) {
		life->state = TRAIN_LIVES;
		outage_over(life, TRAIN_OUTAGE_SURVIVED);
	}
	/* count silence from the later of the two: the link may have broken since this look began,
	   and the observer may not have found a server that has just come back */
	since_ns = link.down_ns > server->restored_ns ? link.down_ns : server->restored_ns;
	if (server->state == TRAIN_SERVER_WHOLE && life->state == TRAIN_LIVES && link.down &&
	    server->hangs_ns != since_ns &&
	    now_ns > since_ns + (train->set.lease.lease_ms + HANG_MS) * OL_NS_PER_MS) {
		train_say(&train->screen,
			  "outlast train: %s does not answer any more: it is killed",
			  server->proc.name);
		server->hangs_ns = since_ns;
		ol_proc_kill(&server->proc, SIGKILL);
	}
}

/* True while a start would fail, as the device that a server ended without is not back */
static bool device_is_away(struct train *train, struct train_server *server)
{
	struct train_life *life = &server->life;
	char host[OL_HOST_MAX], err[160] = "";
	uint64_t now_ns = ol_clock_ns();

	if (!life->device_gone || now_ns >= life->retry_ns ||
	    ol_device_host(train->set.link.device, server->shard, host, err, sizeof(err)) == 0)
		return false;
	life->start_ns = now_ns + DEVICE_MS * OL_NS_PER_MS;
	return true;
}

static void server_start(struct train *train, uint32_t i)
{
	struct train_server *server = &train->servers[i];
	int rc;

	if (device_is_away(train, server))
		return;
	server->life.start_ns = 0;
	ol_proc_fini(&server->proc);
	if (train->chain == NULL)
		server->epoch++;
	/* not at an address where a stopped process still listens; in a chain each process has an
	 * address of its own */
	rc = train_server_start(train, i, train_recover_source(train),
				train->chain != NULL || ol_proc_lives(&server->old) ||
					server->life.elsewhere);
	if (rc != 0)
		train_fail(train, rc);
}

static void worker_start(struct train *train, uint32_t i)
{
	struct train_worker *worker = &train->workers[i];
	int rc;

	worker->life.start_ns = 0;
	ol_proc_fini(&worker->proc);
	rc = train_worker_start(train, i);
	if (rc != 0)
		train_fail(train, rc);
}

static void worker_look(struct train_worker *worker, uint64_t now_ns)
{
	struct train_life *life = &worker->life;

	if (life->state != TRAIN_STOPPED || now_ns < life->wake_ns)
		return;
	ol_proc_kill(&worker->proc, SIGCONT);
	life->state = TRAIN_LIVES;
	life->wake_ns = 0;
	life->outage->ready_ns = now_ns;
	outage_over(life, TRAIN_OUTAGE_OVER);
}

/*
 * Once a server that is back has applied a gradient, and all queues for it, evaluate its weights at
 * once.
 */
static void recovery_look(struct train *train, struct train_server *server)
{
	struct train_outage *outage = server->life.outage;

	if (outage == NULL || server->state != TRAIN_SERVER_WHOLE || outage->ready_ns == 0)
		return;
	train_stat_read(train);
	if (outage->first_applied_ns == 0) {
		outage->first_applied_ns = server->stat.first_applied_ns;
		if (outage->first_applied_ns != 0)
			train_say(&train->screen,
				  "%s is back: version %" PRIu64
				  ", %s; first gradient applied %.1f ms after",
				  server->proc.name, outage->restored_version,
				  train_from_str(outage),
				  (double)(outage->first_applied_ns - outage->ready_ns) / 1e6);
	}
	if (outage->first_applied_ns != 0 && train_settled(train, outage->index) &&
	    train_pull(train, NULL, outage))
		outage_over(&server->life, TRAIN_OUTAGE_OVER);
}

void train_outages_tick(struct train *train)
{
	uint64_t now_ns = ol_clock_ns();

	(void)ol_worker_poll(train->observer);
	if (train->quit_ns != 0)
		return;
	kills_look(train, now_ns);
	train_recover_tick(train);
	if (train->chain != NULL)
		train_chain_tick(train);
	for (uint32_t i = 0; i < train_holders(train); i++) {
		struct train_server *server = &train->servers[i];

		if (server->life.start_ns != 0 && now_ns >= server->life.start_ns &&
		    !train->roll.on)
			server_start(train, i);
		else if (train->chain == NULL && ol_proc_lives(&server->proc))
			server_look(train, i, now_ns);
		if (train->chain == NULL)
			recovery_look(train, server);
	}
	for (uint32_t i = 0; i < train->set.workers; i++) {
		struct train_worker *worker = &train->workers[i];

		if (worker->life.start_ns != 0 && now_ns >= worker->life.start_ns)
			worker_start(train, i);
		else if (ol_proc_lives(&worker->proc))
			worker_look(worker, now_ns);
	}
}

int train_outages_wait_ms(const struct train *train, int limit_ms)
{
	uint64_t now_ns = ol_clock_ns();

	if (train->chain != NULL && train_chain_lacks(train, true))
		return 1;
	for (uint32_t i = 0; i < train_holders(train); i++) {
		const struct train_life *life = &train->servers[i].life;

		if (life->outage != NULL || life->wake_ns != 0 || life->rolled)
			return FAST_MS;
	}
	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (train->workers[i].life.outage != NULL)
			return FAST_MS;
	}
	for (uint32_t i = 0; i < train->kills.count; i++) {
		const struct ol_kill *kill = &train->kills.list[i];
		uint64_t due_ns = train->go_ns + kill->at_ns;

		if (train->fired[i])
			continue;
		if (kill->when != OL_KILL_AT_TIME || due_ns < now_ns)
			return FAST_MS;
		if ((due_ns - now_ns) / OL_NS_PER_MS < (uint64_t)limit_ms)
			limit_ms = (int)((due_ns - now_ns) / OL_NS_PER_MS);
	}
	return limit_ms;
}

/* True if a restart would end the same way. */
static bool incurable(const struct train_life *life, const struct ol_proc *proc)
{
	int code = ol_proc_exit_code(proc);

	return code == OL_EXIT_USAGE || code == OL_EXIT_DATA ||
	       (code == OL_EXIT_DEVICE && !life->device_gone);
}

/* Take note of what the end of a process says of its device. */
static void device_note(struct train_life *life, const struct ol_proc *proc)
{
	int code = ol_proc_exit_code(proc);

	life->elsewhere = life->device_gone && code == OL_EXIT_DEVICE;
	life->device_gone = code == OL_EXIT_DEVICE_LOST || life->elsewhere;
}

/* Schedule the restart of a process that has ended; false: it is not restarted. */
static bool life_again(struct train *train, struct train_life *life, const struct ol_proc *proc,
		       bool server, uint32_t index)
{
	uint64_t now_ns = ol_clock_ns();
	bool killed = life->state == TRAIN_KILLED;
	char how[64];

	device_note(life, proc);
	life->state = TRAIN_LIVES;
	if (killed && life->rolled) {
		life->start_ns = now_ns;
		life->retry_ns = now_ns + RETRY_MAX_MS * OL_NS_PER_MS;
		return true;
	}
	if (killed && life->outage != NULL) {
		const struct ol_kill *kill = life->outage->kill;
		uint64_t down_ns = kill->signo == SIGKILL ? kill->down_ns : 0;

		life->start_ns = life->outage->killed_ns + down_ns;
		life->retry_ns = life->start_ns + RETRY_MAX_MS * OL_NS_PER_MS;
		return true;
	}
	if ((life->outage != NULL || life->rolled) && now_ns < life->retry_ns &&
	    !incurable(life, proc)) {
		life->start_ns = now_ns + (life->device_gone ? DEVICE_MS : RETRY_MS) * OL_NS_PER_MS;
		return true;
	}
	if (train->restarts >= train->set.restarts || incurable(life, proc))
		return false;
	train->restarts++;
	ol_proc_exit_text(proc, how, sizeof(how));
	train_say(&train->screen, "outlast train: %s %s: it is started again (%u of %u)",
		  proc->name, how, train->restarts, train->set.restarts);
	if (life->outage == NULL)
		life->outage = outage_open(train, NULL, server, index);
	life->start_ns = now_ns;
	life->retry_ns = now_ns + (life->device_gone ? DEVICE_MAX_MS : RETRY_MAX_MS) * OL_NS_PER_MS;
	return true;
}

/* The version that all were to go back to was there when it was chosen, and this server has not found it: choose again */
static bool further_back(struct train *train, struct train_server *server)
{
	uint64_t now_ns = ol_clock_ns();

	if (!train_recovers_all(train) || server->state == TRAIN_SERVER_WHOLE ||
	    train->roll.version == 0 || ol_proc_exit_code(&server->proc) != OL_EXIT_DATA)
		return false;
	train_say(&train->screen,
		  "outlast train: %s cannot begin with version %" PRIu64
		  ": all servers go back further",
		  server->proc.name, train->roll.version);
	server->life.state = TRAIN_LIVES; /* it may have ended before another's end had it killed */
	server->life.start_ns = now_ns;
	server->life.retry_ns = now_ns + RETRY_MAX_MS * OL_NS_PER_MS;
	train_recover_begin(train, train->roll.version - 1);
	return true;
}

bool train_server_lost(struct train *train, struct train_server *server)
{
	struct train_outage *outage = server->life.outage;
	bool again, alone = server->state == TRAIN_SERVER_WHOLE && !server->life.rolled;
	bool further = further_back(train, server);

	train_past_add(server);
	server->state = TRAIN_SERVER_STARTS;
	if (outage != NULL && outage->kill != NULL && outage->kill->signo == SIGSTOP &&
	    ol_proc_exit_code(&server->proc) == OL_EXIT_FENCED)
		outage->fenced = true;
	if (!ol_proc_lives(&server->old)) { /* no stopped process is left to wake up */
		server->life.wants_wake = false;
		server->life.wake_ns = 0;
	}
	if (further)
		return true;
	again = life_again(train, &server->life, &server->proc, true, server->shard);
	if (again && alone && train_recovers_all(train))
		train_recover_begin(train, UINT64_MAX);
	if (train->chain != NULL && server->life.outage != outage)
		train_chain_lost(train, server, server->life.outage);
	return again;
}

bool train_worker_lost(struct train *train, struct train_worker *worker)
{
	if (!life_again(train, &worker->life, &worker->proc, false,
			(uint32_t)(worker - train->workers)))
		return false;
	train_count_close(worker);
	worker->unsettled = 0;
	worker->state = TRAIN_WORKER_STARTS;
	json_decref(worker->done);
	worker->done = NULL;
	return true;
}

/* The server's outage that a worker noticed then; NULL: none. It may be over: the server may be back
 * before the worker's message is read. */
static struct train_outage *outage_at(struct train *train, uint32_t shard, uint64_t at_ns)
{
	for (uint32_t i = train->outage_count; i > 0; i--) {
		struct train_outage *outage = &train->outages[i - 1];

		if (outage->server && outage->index == shard &&
		    (outage->kill == NULL || at_ns >= outage->killed_ns))
			return outage;
	}
	return NULL;
}

void train_server_down(struct train *train, uint32_t shard, uint64_t at_ns)
{
	struct train_outage *outage;

	if (shard >= train->set.servers || train->chain != NULL)
		return;
	outage = outage_at(train, shard, at_ns);
	if (outage == NULL)
		return;
	if (outage->detected_ns == 0 || at_ns < outage->detected_ns)
		outage->detected_ns = at_ns;
}

void train_server_listens(struct train *train, struct train_server *server, const char *addr)
{
	uint32_t shard = (uint32_t)(server - train->servers);
	int rc;

	if (server->addr[0] == '\0' || strcmp(server->addr, addr) == 0)
		return;
	for (uint32_t i = 0; i < train->set.workers; i++) {
		if (ol_proc_lives(&train->workers[i].proc))
			ol_proc_order(&train->workers[i].proc, "server %u %s", shard, addr);
	}
	if (train->observer == NULL)
		return;
	rc = ol_worker_redirect(train->observer, shard, addr);
	if (rc != 0)
		train_fail(train, ol_cmd_error(ol_cmd_exit_of(rc), "train",
					       "cannot follow a server to", addr, ol_strerror(rc)));
}

void train_server_restored(struct train *train, struct train_server *server, const json_t *message)
{
	json_int_t ready_ns = json_integer_value(json_object_get(message, "ready_ns"));
	uint64_t version = (uint64_t)json_integer_value(json_object_get(message, "version"));
	struct train_outage *outage = server->life.outage;

	server->state = TRAIN_SERVER_WHOLE;
	server->restored_ns = (uint64_t)ready_ns;
	train_began_take(server, message);
	/* KILLED: the message was sent before it was killed to go back with the others, which is
	 * still to come */
	server->life.rolled = server->life.rolled && server->life.state == TRAIN_KILLED;
	if (version < train->roll.version && train_recover_chooses(train))
		train_recover_older(train, version);
	if (train->chain != NULL) {
		train_chain_back(train, server, message);
		return;
	}
	if (outage == NULL)
		return;
	outage->ready_ns = (uint64_t)ready_ns;
	train_source_take(outage, message);
	train_cost_expect(train, outage, message);
	if (server->life.wants_wake)
		server->life.wake_ns = train_lease_over_ns(train, outage);
}

void train_worker_back(struct train *train, struct train_worker *worker)
{
	struct train_outage *outage = worker->life.outage;

	if (outage == NULL)
		return;
	outage->ready_ns = ol_clock_ns();
	train_say(&train->screen, "%s is back", worker->proc.name);
	outage_over(&worker->life, TRAIN_OUTAGE_OVER);
}

void train_old_ended(struct train *train, struct train_server *server)
{
	const struct ol_proc *old = &server->old;
	char how[64];

	if (ol_proc_exit_code(old) == OL_EXIT_FENCED) {
		if (server->woken != NULL)
			server->woken->fenced = true;
		return;
	}
	ol_proc_exit_text(old, how, sizeof(how));
	train_say(&train->screen,
		  "outlast train: %s and replaced, %s instead of ending by its lease", old->name,
		  how);
}

void train_outages_close(struct train *train)
{
	struct train_count counts = train_counts(train);

	/* from the last one back; what has come back with an earlier history is lost no more */
	for (unsigned i = train->outage_count; i-- > 0;) {
		struct train_outage *outage = &train->outages[i];
		uint64_t *lost = outage->server ? &counts.shard_lost[outage->index] : NULL;

		if (lost == NULL || *lost <= outage->lost_at)
			continue;
		outage->lost = *lost - outage->lost_at;
		*lost = outage->lost_at;
	}
	for (uint32_t i = 0; i < train->kills.count; i++) {
		if (!train->fired[i])
			train_say(&train->screen,
				  "outlast train: --kill %s: the job ended before it",
				  train->kills.list[i].text);
	}
}
