/* SPDX-License-Identifier: BSD-3-Clause */

/* cluster.c -- servers of a simulated job, scenarios, and the supervisor that restarts processes */

#include "sim/world/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server/server.h"
#include "sim/world/check.h"
#include "sim/world/coord.h"
#include "sim/world/crowd.h"
#include "sim/world/disk.h"
#include "sim/world/lasting.h"
#include "sim/world/mirrors.h"
#include "sim/world/mutate.h"
#include "sim/world/net.h"
#include "sim/world/rival.h"
#include "sim/world/rule.h"
#include "sim/world/saved.h"
#include "sim/world/turns.h"

enum {
	SHARD_FLOATS = 1024, /* but for the last */
	FIRST_PLACE = 1,
	SELDOM_EACH = 8,
	SELDOM_DRAWS = 256,
};

struct cluster cluster;

uint64_t cluster_first(uint32_t shard)
{
	return (uint64_t)shard * (SHARD_FLOATS + cluster.scenario.parts_floats);
}

uint64_t cluster_len(uint32_t shard)
{
	return cluster.scenario.parts_floats + (shard + 1 < cluster.scenario.shards
							? SHARD_FLOATS
							: cluster.ids * cluster.pushes_max);
}

/* ---- servers ---- */

static void chain_opts(const struct server_slot *slot, struct ol_server_opts *opts)
{
	const struct scenario *scenario = &cluster.scenario;

	opts->restore = scenario->refound ? OL_RESTORE_MIRROR : OL_RESTORE_NONE;
	opts->coordinator = "sim";
	opts->replicas = scenario->replicas;
	opts->replicate_every = scenario->every;
	opts->rank = slot->index;
	opts->refound = scenario->refound;
	opts->checkpoint_by = scenario->by_each ? OL_CHECKPOINT_BY_EACH : OL_CHECKPOINT_BY_TAIL;
	if (scenario->saved && scenario->refound)
		opts->restore = OL_RESTORE_FRESHEST;
}

static struct ol_server_opts server_opts(const struct server_slot *slot)
{
	const struct scenario *scenario = &cluster.scenario;
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.listen = slot->addr;
	opts.transport = "sim";
	opts.job_key = "the simulated job's key";
	opts.param_count = cluster.params;
	opts.shard = slot->shard;
	opts.shard_count = scenario->shards;
	opts.epoch = slot->life;
	opts.consistency = scenario->sync  ? OL_CONSISTENCY_SYNC
			   : scenario->ssp ? OL_CONSISTENCY_SSP
					   : OL_CONSISTENCY_ASYNC;
	opts.staleness = scenario->staleness;
	opts.wait = scenario->wait;
	opts.wait_k = scenario->wait_k;
	opts.grace_ms = scenario->grace_ms;
	opts.late = scenario->late;
	opts.late_steps = scenario->late_steps;
	opts.workers = scenario->workers;
	opts.workers_max = cluster.ids;
	opts.observers_max = 1;
	opts.window = scenario->window;
	opts.rule = cluster_rule();
	opts.rule_groups = CLUSTER_GROUPS;
	opts.spin_us = 0;
	opts.heartbeat_ms = scenario->heartbeat_ms;
	opts.retry_timeout_ms = scenario->retry_ms;
	opts.pin_timeout_ms = 200;
	opts.lease_ms = scenario->lease_ms;
	opts.restore = scenario->chain || (slot->life > 1 && !slot->anew) ? OL_RESTORE_MIRROR
									  : OL_RESTORE_NONE;
	opts.restore_workers = scenario->workers;
	opts.restore_wait_ms = turns_wait_ms();
	opts.replay = OL_REPLAY_EACH;
	if (scenario->mirrors) {
		opts.restore_wait_ms = scenario->restore_ms;
		opts.restore_workers = scenario->restore_all ? scenario->workers : 0;
		if (scenario->age >= CLUSTER_AGE_CROWDS && !scenario->restore_all &&
		    !scenario->sync && !scenario->ssp)
			opts.workers = 1; /* as a server has it that is told nothing */
		if (scenario->restore_first)
			opts.restore = OL_RESTORE_MIRROR;
	}
	if (scenario->saved) {
		opts.checkpoint_dir = "checkpoints";
		opts.checkpoint_steps = scenario->save_steps;
		opts.checkpoint_ms = scenario->save_ms;
		opts.checkpoint_keep = scenario->save_keep;
		opts.job_id = 7;
		opts.selection = scenario->selection;
		opts.fraction = scenario->fraction;
		opts.checkpoint_format = scenario->deltas ? OL_FORMAT_INT8 : OL_FORMAT_FP32;
		opts.blocks = scenario->block_count > 0 ? scenario->blocks : NULL;
		opts.block_count = scenario->block_count;
		if (slot->life > 1 && !slot->anew)
			opts.restore = scenario->back ? OL_RESTORE_CHECKPOINT : OL_RESTORE_FRESHEST;
	}
	if (!scenario->chain)
		return opts;
	chain_opts(slot, &opts);
	return opts;
}

static void server_main(void *arg)
{
	struct server_slot *slot = arg;
	struct ol_server_opts opts = server_opts(slot);
	struct ol_server *server;
	char err[256] = "";
	int rc;

	opts.init_worker = cluster_inits();
	opts.tensors_room = opts.init_worker ? OL_LINE_BYTES : 0;
	slot->opened_ns = sim_clock_of(slot->place, sim_now());
	rc = ol_server_open(&opts, opts.init_worker ? NULL : check_first_weights(slot->shard),
			    &server, err, sizeof(err));

	if (rc != 0) {
		sim_say("cannot open: %s", err);
		saved_on_end(slot, rc);
		return;
	}
	slot->anew = false;
	slot->server = server;
	if (mutation(MUTATE_NO_SELF_FENCE) || mutation(MUTATE_LEASE_TWICE))
		mutate_lease(slot);
	if (cluster.scenario.turn_pushes > 0)
		server->turn.bytes_max =
			cluster.scenario.turn_pushes * ol_layout_vector_bytes(&server->store.geo);
	rc = ol_server_run(server);
	sim_say("ends: %s", ol_strerror(rc));
	saved_on_end(slot, rc);
	/* a founder whose disk cannot be read ends: another founds the chain */
	if (rc != 0 && rc != OL_E_FENCED && rc != OL_E_NO_CHECKPOINT &&
	    !(rc == -ENOMEM && sim_memory_fails() > 0) &&
	    !(rc == -EIO && cluster.scenario.chain && cluster.scenario.saved))
		sim_fail("check_survives", "%s ends with %d: %s", slot->addr, rc, ol_strerror(rc));
	check_content(slot); /* what it committed in its last turn may be on its way into a file */
	slot->server = NULL;
	ol_server_close(server);
}

static void server_start(struct server_slot *slot)
{
	char name[SIM_NAME_MAX];

	slot->life++;
	slot->server = NULL;
	slot->hashed = 0;
	slot->agreed = 0;
	slot->committed = 0;
	slot->dreamt = slot->frozen = slot->stands_still = false;
	snprintf(name, sizeof(name), "server%u%c.%u", slot->shard, 'a' + (int)slot->index,
		 slot->life);
	snprintf(slot->addr, sizeof(slot->addr), "@sim-%u", slot->home);
	slot->process = sim_process_start(name, slot->place, server_main, slot);
}

struct server_slot *cluster_rival(struct server_slot *slot)
{
	struct server_slot *rival = &cluster.servers[cluster.server_count];

	if (cluster.server_count == CLUSTER_SLOTS_MAX || cluster.next_place == SIM_PLACES_MAX)
		return NULL;
	cluster.server_count++;
	*rival = (struct server_slot){ .shard = slot->shard,
				       .index = slot->index,
				       .place = cluster.next_place++,
				       .home = slot->home,
				       .life = slot->life,
				       .anew = slot->anew };
	slot->retired = true;
	disk_mount(rival->place, slot->home);
	server_start(rival);
	return rival;
}

void cluster_servers(char *text, size_t bytes)
{
	size_t used = 0;

	for (uint32_t k = 0; k < cluster.scenario.shards; k++) {
		for (uint32_t i = 0; i < cluster.server_count; i++) {
			if (cluster.servers[i].shard == k && !cluster.servers[i].retired)
				used += (size_t)snprintf(text + used, bytes - used, "%s%s",
							 used > 0 ? "," : "",
							 cluster.servers[i].addr);
		}
	}
}

static void worker_start(struct worker_slot *slot)
{
	char name[SIM_NAME_MAX];

	slot->life++;
	slot->worker = NULL;
	slot->first = slot->next;
	slot->pushing = 0;
	memset(slot->made, 0, sizeof(slot->made));
	slot->short_of = false;
	memset(slot->versions, 0, sizeof(slot->versions));
	memset(slot->histories, 0, sizeof(slot->histories));
	memset(slot->applied, 0, sizeof(slot->applied));
	memset(slot->told, 0, sizeof(slot->told));
	memset(slot->had, 0, sizeof(slot->had));
	memset(slot->counted, 0, sizeof(slot->counted));
	snprintf(name, sizeof(name), "worker%u.%u", slot->index, slot->life);
	slot->process = sim_process_start(name, slot->place, worker_main, slot);
}

static void observer_start(void *arg, uint64_t tag)
{
	char name[SIM_NAME_MAX];

	(void)arg;
	(void)tag;
	snprintf(name, sizeof(name), "observer.%u", ++cluster.observer.life);
	cluster.observer.process =
		sim_process_start(name, cluster.observer.place, observer_main, &cluster.observer);
}

/* ---- who ends is started again ---- */

static void start_again(void *arg, uint64_t worker)
{
	struct server_slot *server = arg;
	struct worker_slot *own = arg;

	if (worker) {
		if (!own->finished && !sim_process_alive(own->process))
			worker_start(own);
	} else if (net_is_cut(server->place, server->place)) { /* its host is not back yet */
		sim_at(10 * SIM_MS, start_again, server, 0);
	} else if (!cluster.closing && !sim_process_alive(server->process)) {
		server_start(server);
	}
}

static void ended(const struct sim_process *process)
{
	if (cluster.observer.process == process && !cluster.agreed)
		sim_at(sim_between(5 * SIM_MS, 100 * SIM_MS), observer_start, NULL, 0);
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		if (cluster.servers[i].process != process)
			continue;
		cluster.servers[i].server = NULL;
		if (cluster.servers[i].retired || cluster.servers[i].lost)
			continue;
		sim_at(sim_between(5 * SIM_MS, 300 * SIM_MS), start_again, &cluster.servers[i], 0);
	}
	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		if (cluster.workers[i].process != process)
			continue;
		cluster.workers[i].worker = NULL;
		if (cluster.workers[i].lost)
			continue;
		sim_at(sim_between(5 * SIM_MS, 100 * SIM_MS), start_again, &cluster.workers[i], 1);
	}
}

static void on_death(struct sim_process *process)
{
	sim_say("%s dies", sim_process_name(process));
	net_process_gone(process, cluster.host_dies);
	coord_process_gone(process);
	ended(process);
}

static void on_exit(struct sim_process *process)
{
	check_exit(process);
	net_process_gone(process, false);
	coord_process_gone(process);
	ended(process);
}

static void after_turn(struct sim_process *process)
{
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		if (cluster.servers[i].process == process)
			check_server(&cluster.servers[i]);
	}
	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		if (cluster.workers[i].process == process)
			check_worker(&cluster.workers[i]);
	}
}

static void on_continue(struct sim_process *process)
{
	coord_process_continues(process);
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		if (cluster.servers[i].process == process)
			rival_on_continue(&cluster.servers[i]);
	}
}

/* ---- scenarios ---- */

static void chain_draw(struct scenario *scenario)
{
	scenario->chain = true;
	scenario->replicas = 1 + sim_below(3);
	scenario->refound = scenario->replicas == 1 || sim_ppm(300000);
	scenario->servers = scenario->replicas + sim_below(2);
	/* what a rollback takes back of a step is not the same for all workers */
	if (!scenario->sync && scenario->replicas > 1 && sim_ppm(200000))
		scenario->every = 1 + sim_below(5);
	scenario->workers_die =
		!scenario->sync && !scenario->refound && scenario->every == 0 && sim_ppm(300000);
}

static void scenario_draw(struct scenario *scenario)
{
	scenario->shards = sim_ppm(200000) ? 2 : 1;
	scenario->workers = 1 + sim_below(CLUSTER_WORKERS_FEW);
	scenario->sync = sim_ppm(350000);
	scenario->exact = scenario->sync && sim_ppm(500000);
	scenario->servers = 1;
	scenario->replicas = 1;
	scenario->window = 1 + sim_below(4);
	scenario->outage = OL_OUTAGE_WAIT;
	if (sim_ppm(700000))
		chain_draw(scenario);
	if (!scenario->sync && sim_ppm(350000)) {
		scenario->outage = OL_OUTAGE_CONTINUE;
		scenario->queue = sim_below(3);
		scenario->window += scenario->window == 1;
	}
	scenario->pushes = 8 + sim_below(CLUSTER_PUSHES_MANY / 2 - 8);
	scenario->heartbeat_ms = 5 + sim_below(30);
	scenario->lease_ms = scenario->heartbeat_ms * (4 + sim_below(10));
	scenario->retry_ms = 20 + sim_below(300);
	scenario->compute_ns = sim_between(SIM_MS / 2, 60 * SIM_MS);
	scenario->storm_ns = sim_between(SIM_S / 2, 4 * SIM_S);
	scenario->heal_ns = 90 * SIM_S;
}

static const enum ol_optimizer optimizers[] = { OL_OPTIMIZER_SGD, OL_OPTIMIZER_MOMENTUM,
						OL_OPTIMIZER_NESTEROV, OL_OPTIMIZER_ADAM,
						OL_OPTIMIZER_ADAMW };

/* What came later: drawn after all else */
static void more_draw(struct scenario *scenario)
{
	static const uint64_t disk_ns[] = { 10 * SIM_US, 300 * SIM_US, 8 * SIM_MS };

	if (scenario->exact)
		scenario->optimizer = optimizers[sim_below(5)];
	scenario->saved = !scenario->chain && sim_ppm(800000);
	/* what a step back takes from each is not the same: all make their steps anew, or none; and
	 * shards go back each by itself */
	scenario->back = scenario->saved &&
			 (!scenario->sync || (scenario->exact && scenario->shards == 1)) &&
			 sim_ppm(500000);
	scenario->save_steps = sim_ppm(700000) ? 1 + sim_below(8) : 0;
	scenario->save_ms = scenario->save_steps == 0 || sim_ppm(200000) ? 5 + sim_below(200) : 0;
	scenario->save_keep = 1 + sim_below(3);
	scenario->observed = sim_ppm(300000);
	scenario->reads = sim_ppm(500000);
	sim_nature.disk_ns = disk_ns[sim_below(3)];
	sim_nature.disk_full_ppm = sim_below(3) * 15000;
	sim_nature.disk_write_ppm = sim_below(3) * 15000;
	sim_nature.disk_sync_ppm = sim_below(3) * 50000;
	/* else what was lost, and counted, might come back */
	sim_nature.disk_read_ppm = !scenario->back && sim_ppm(200000) ? sim_below(100000) : 0;
	sim_nature.disk_short_ppm = sim_below(3) * 50000;
	sim_nature.disk_rot_ppm = sim_below(3) * 400000;
	sim_nature.memory_ppm = sim_ppm(200000) ? sim_below(20000) : 0;
	sim_nature.mute_ppm = sim_ppm(200000) ? sim_below(2000) : 0;
	sim_nature.post_ppm = sim_ppm(300000) ? sim_below(3000) : 0;
}

/* Of the whole vector, which has so many floats */
static void blocks_draw(struct scenario *scenario, uint64_t floats)
{
	uint64_t at = 0;

	while (at < floats) {
		uint64_t len = sim_between(1, floats / 6);

		if (len > floats - at || scenario->block_count == CLUSTER_BLOCKS_MAX - 1)
			len = floats - at;
		scenario->blocks[scenario->block_count++] = len;
		at += len;
	}
}

static void running_draw(struct scenario *scenario)
{
	uint32_t parts = 1u << sim_below(4);

	scenario->running = scenario->saved && sim_ppm(500000);
	if (!scenario->running)
		return;
	sim_nature.disk_page_ppm = 500000;
	if (sim_ppm(500000))
		sim_nature.disk_ns = 8 * SIM_MS;
	if (sim_ppm(500000))
		sim_nature.disk_rot_ppm = 0;
	scenario->selection = OL_SELECT_PRIORITY + sim_below(3);
	scenario->fraction = 1.0 / parts;
	/* the interval of a turn is a step, or a millisecond, at least */
	if (scenario->save_steps > 0)
		scenario->save_steps = parts * (1 + scenario->save_steps % 3);
	if (scenario->save_ms > 0)
		scenario->save_ms += parts;
	if (sim_ppm(800000))
		blocks_draw(scenario, cluster.params);
}

/* What came last */
static void policy_draw(struct scenario *scenario)
{
	uint32_t n = scenario->workers;

	if (n > 1 && scenario->sync && !scenario->exact && sim_ppm(850000)) {
		scenario->wait = OL_WAIT_FIXED + (scenario->shards > 1 ? 0 : sim_below(4));
		if (scenario->wait == OL_WAIT_FIXED)
			scenario->wait_k = 1 + sim_below(n - 1);
		else if (scenario->wait == OL_WAIT_ADASYNC)
			scenario->wait_k = 1 + sim_below(n);
	}
	/* several shards would wait for it crosswise: no server takes it (tests/README.md) */
	if (scenario->shards > 1) {
		scenario->wait = OL_WAIT_ALL;
		scenario->wait_k = 0;
	}
	if (n > 1 && scenario->shards == 1 && !scenario->sync && sim_ppm(350000)) {
		scenario->ssp = true;
		scenario->staleness = sim_below(4);
	}
	if (scenario->ssp || scenario->wait != OL_WAIT_ALL) /* some are for others' sake */
		scenario->pushes = 8 + scenario->pushes % 12;
}

/* Pushes are made while there are faults */
void cluster_compute_draw(struct scenario *scenario)
{
	uint64_t most_ns = 2 * scenario->storm_ns / scenario->pushes;

	if (most_ns < scenario->compute_ns)
		most_ns = scenario->compute_ns;
	scenario->compute_ns = sim_between(scenario->compute_ns, most_ns);
}

/* What the world does to a job that it did not do before */
static void faults_draw(struct scenario *scenario)
{
	if (sim_ppm(250000))
		scenario->ring_slots = 2 + sim_below(7);
	/* what was lost, and counted, might come back with what the first saves at last */
	scenario->rivals =
		!scenario->chain && !scenario->running && !scenario->back && sim_ppm(700000);
	scenario->lags = scenario->chain && sim_ppm(250000);
	sim_nature.disk_lost_ppm = sim_ppm(300000) ? sim_below(60000) : 0;
	sim_nature.disk_astray_ppm = sim_ppm(300000) ? sim_below(60000) : 0;
	/* a cut of a session is worth as much as the pushes that are made meanwhile */
	if (scenario->running && scenario->block_count > 0 && sim_ppm(700000))
		saved_blocks_even(scenario);
	if (scenario->block_count == SAVED_BLOCKS_EVEN)
		sim_nature.disk_astray_ppm = 30000 + sim_below(120000);
	scenario->long_cuts = sim_ppm(250000);
	if (scenario->long_cuts)
		scenario->storm_ns += sim_between(2 * SIM_S, 8 * SIM_S);
	else if (scenario->rivals)
		scenario->storm_ns += sim_between(0, 3 * SIM_S);
	else
		return;
	cluster_compute_draw(scenario);
}

/* Workers die and return, whatever a step waits for */
static void deaths_draw(struct scenario *scenario)
{
	if (scenario->chain && !scenario->refound && !scenario->exact && sim_ppm(400000))
		scenario->workers_die = true;
}

/* Synchronous workers that go on in an outage, hold their window, and end as a program does */
static void ends_draw(struct scenario *scenario)
{
	bool can = scenario->sync && !scenario->exact && scenario->workers > 1 && !scenario->back &&
		   scenario->every == 0 && !scenario->workers_die &&
		   scenario->lasting == LASTING_NOTHING;

	/* who dies does not know how many of its pushes made a step: versions tell */
	scenario->ends = scenario->sync && !scenario->exact && !scenario->back &&
			 scenario->workers_die && scenario->wait == OL_WAIT_ALL;
	if (!can || !sim_ppm(700000))
		return;
	scenario->ends = true;
	scenario->holds = sim_ppm(400000);
	scenario->wait = OL_WAIT_ALL;
	scenario->wait_k = 0;
	if (!scenario->running && sim_ppm(700000))
		scenario->shards = 2 + sim_below(2);
	scenario->outage = OL_OUTAGE_CONTINUE;
	scenario->queue = sim_below(3);
	scenario->window += scenario->window == 1;
	scenario->pushes = 8 + scenario->pushes % 8; /* some come too late */
}

void cluster_params_count(void)
{
	uint32_t last = cluster.scenario.shards - 1;

	cluster.params = (uint32_t)(cluster_first(last) + cluster_len(last));
}

/* A server's memory takes as long as it is large: up to some leases, which nobody else must
 * notice */
static void large_draw(struct scenario *scenario)
{
	if (sim_ppm(500000))
		scenario->turn_pushes = 1 + sim_below(3);
	if (sim_ppm(500000))
		sim_nature.touch_ns = sim_between(SIM_MS, 3 * scenario->lease_ms * SIM_MS);
}

/*
 * Synchronous workers that wait in outages, while the servers of several shards go back in history,
 * each by itself: a push that one shard has lost is held at another
 */
static void apart_draw(struct scenario *scenario)
{
	if (scenario->chain || scenario->mirrors || scenario->running || scenario->exact ||
	    scenario->workers_die || scenario->workers == 1 ||
	    scenario->lasting != LASTING_NOTHING || !sim_ppm(500000))
		return;
	scenario->sync = scenario->ends = true;
	scenario->ssp = false;
	scenario->wait = OL_WAIT_ALL;
	scenario->wait_k = 0;
	scenario->holds = sim_ppm(400000);
	scenario->shards = 2 + sim_below(2);
	scenario->window = 1 + sim_below(3);
	scenario->outage = OL_OUTAGE_WAIT;
	scenario->pushes = 8 + scenario->pushes % 8;
	scenario->saved = scenario->back = true;
	scenario->rivals = false; /* as for all that go back */
	scenario->turn_pushes = 0;
	sim_nature.touch_ns = 0;
	sim_nature.disk_read_ppm = 0;
}

/* Steps of a quorum and a grace, or late gradients that are of the next step. Drawn only where it
 * can be, so that all other seeds are what they were */
static void quorum_draw(struct scenario *scenario)
{
	const uint32_t n = scenario->workers;

	if (!scenario->sync || scenario->exact || scenario->shards > 1 || n == 1 ||
	    n > CLUSTER_WORKERS_FEW || scenario->lasting != LASTING_NOTHING || !sim_ppm(700000))
		return;
	scenario->wait = sim_ppm(700000) ? OL_WAIT_QUORUM : OL_WAIT_FIXED;
	scenario->wait_k = 1 + sim_below(n - 1);
	if (scenario->wait == OL_WAIT_QUORUM)
		scenario->grace_ms = sim_below(4) == 0 ? 0 : 1 + sim_below(200);
	scenario->late = sim_ppm(600000) ? OL_LATE_NEXT : OL_LATE_DROP;
	if (scenario->late == OL_LATE_NEXT && sim_ppm(300000))
		scenario->late_steps = 1 + sim_below(4);
	/* fewer than a quorum may be left: what is held behind the last step is withdrawn */
	scenario->ends = true;
	scenario->pushes = 8 + scenario->pushes % 8;
}

static void nature_draw(void)
{
	static const uint64_t net_ns[] = { 3 * SIM_US, 20 * SIM_US, 300 * SIM_US };

	sim_nature = (struct sim_nature){
		.preempt_ppm = sim_below(4) * 5000,
		.kernel_ppm = sim_below(3) * 100000,
		.net_ns = net_ns[sim_below(3)],
		.net_slow_ppm = sim_below(3) * 5000,
		.apply_again_ppm = sim_below(3) * 50000,
		.stuck_ppm = sim_below(3) * 1500,
		.stuck_ns = sim_between(10 * SIM_MS, 2 * SIM_S),
		.again_ppm = sim_below(3) * 20000,
		.torn_ppm = sim_below(3) * 300000,
		.early_ppm = sim_below(3) * 200000,
		.late_down_ppm = sim_below(3) * 200000,
		.late_down_ns = sim_between(10 * SIM_MS, 1500 * SIM_MS),
		.fence_keeps = sim_ppm(500000),
		.coord_ns = sim_between(100 * SIM_US, 10 * SIM_MS),
	};
}

bool cluster_waits(void)
{
	const struct scenario *scenario = &cluster.scenario;

	/* one that died may have made a step that it does not know of: it makes one more */
	return scenario->ssp || scenario->wait != OL_WAIT_ALL ||
	       (scenario->sync && !scenario->exact && scenario->workers_die);
}

/* The scenario of a seed, as it was drawn at an age */
static void all_draw(uint64_t seed, unsigned age)
{
	scenario_draw(&cluster.scenario);
	cluster.scenario.age = age;
	cluster.scenario.plain = age < CLUSTER_AGE_DISKS;
	cluster.scenario.optimizer = OL_OPTIMIZER_SGD;
	if (age >= CLUSTER_AGE_DISKS)
		more_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_POLICIES)
		policy_draw(&cluster.scenario);
	cluster_params_count();
	if (age >= CLUSTER_AGE_POLICIES)
		running_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_FAULTS)
		faults_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_LASTING)
		lasting_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_LASTING)
		deaths_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_ENDS)
		ends_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_LARGE)
		large_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_MIRRORS)
		mirrors_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_APART)
		apart_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_CROWDS)
		crowd_draw(&cluster.scenario, seed);
	if (age >= CLUSTER_AGE_RETURNS)
		crowd_returns_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_PLACES)
		crowd_places_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_PARTS)
		crowd_parts_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_QUORUM)
		quorum_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_SPANS)
		crowd_spans_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_BESIDE)
		saved_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_BETWEEN)
		crowd_between_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_DECIDED)
		turns_draw(&cluster.scenario);
	if (age >= CLUSTER_AGE_DELTAS)
		saved_deltas_draw(&cluster.scenario);
	turns_late_draw(&cluster.scenario, age);
	cluster_params_count();
}

/* One in so many is drawn until it is one whose workers can pull seldom. */
static void any_draw(uint64_t seed, unsigned age)
{
	nature_draw();
	all_draw(seed, age);
	if (age < CLUSTER_AGE_SELDOM || seed % SELDOM_EACH != 0)
		return;
	for (int i = 0; i < SELDOM_DRAWS && !crowd_seldom_draw(&cluster.scenario); i++) {
		memset(&cluster.scenario, 0, sizeof(cluster.scenario));
		nature_draw();
		all_draw(seed, age);
	}
}

void cluster_begin(uint64_t seed, unsigned age)
{
	static const struct sim_hooks hooks = { .after_turn = after_turn,
						.on_death = on_death,
						.on_exit = on_exit,
						.on_continue = on_continue };
	uint32_t place = FIRST_PLACE;

	memset(&cluster, 0, sizeof(cluster));
	cluster.ids = CLUSTER_WORKERS_FEW;
	cluster.pushes_max = CLUSTER_PUSHES_MANY;
	sim_hooks_set(&hooks);
	any_draw(seed, age);
	check_begin();
	mirrors_begin();
	rival_begin();
	for (uint32_t k = 0; k < cluster.scenario.shards; k++) {
		for (uint32_t i = 0; i < cluster.scenario.servers; i++) {
			struct server_slot *slot = &cluster.servers[cluster.server_count++];

			slot->shard = k;
			slot->index = i;
			slot->home = slot->place = place++;
			server_start(slot);
		}
	}
	cluster.workers = sim_alloc(cluster.scenario.workers * sizeof(*cluster.workers));
	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		cluster.workers[i].index = i;
		cluster.workers[i].place = place++;
		if (cluster.scenario.newcomer && i + 1 == cluster.scenario.workers)
			sim_at(sim_between(0, cluster.scenario.storm_ns / 2), start_again,
			       &cluster.workers[i], 1);
		else
			worker_start(&cluster.workers[i]);
	}
	cluster.observer.place = place;
	cluster.next_place = place + 1;
	if (cluster.scenario.observed)
		observer_start(NULL, 0);
}

void cluster_calm(void)
{
	cluster.calm = true;
	cluster.calm_ns = sim_now();
	sim_say("all faults end");
}

bool cluster_done(void)
{
	bool finished = true, left = true;

	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		if (cluster.workers[i].lost)
			continue;
		finished = finished && cluster.workers[i].finished;
		left = left && !sim_process_alive(cluster.workers[i].process);
	}
	cluster.agreed = cluster.agreed || (finished && check_replicas());
	left = left && !sim_process_alive(cluster.observer.process);
	if (!cluster.agreed || !left)
		return false;
	if (!cluster.closing)
		lasting_end();
	cluster.closing = true;
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		struct server_slot *slot = &cluster.servers[i];

		if (slot->server != NULL && !slot->told)
			ol_server_stop(slot->server);
		slot->told = slot->server != NULL;
		left = left && slot->server == NULL;
	}
	return left;
}

void cluster_state(char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < cluster.scenario.workers && used + 80 < bytes; i++) {
		const struct worker_slot *slot = &cluster.workers[i];
		uint32_t open = 0;

		for (uint32_t k = slot->first; k < slot->next; k++)
			open += slot->pushes[k].begun && !slot->pushes[k].done;
		used += (size_t)snprintf(text + used, bytes - used,
					 "worker %u %s, push %u of %u, %u open; ", i,
					 slot->finished ? "has finished"
					 : slot->worker ? "works"
							: "opens",
					 slot->next, cluster.scenario.pushes, open);
	}
	for (uint32_t i = 0; i < cluster.server_count && used + 80 < bytes; i++) {
		const struct server_slot *slot = &cluster.servers[i];

		used += (size_t)snprintf(
			text + used, bytes - used, "server %u%c %s %s %llu; ", slot->shard,
			'a' + (int)slot->index, slot->server ? "serves" : "is not there",
			slot->server ? ol_chain_role_str(slot->server->replica.chain.role) : "",
			slot->server ? (unsigned long long)slot->server->store.version : 0);
	}
}
