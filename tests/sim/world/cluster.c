/* SPDX-License-Identifier: BSD-3-Clause */

/* cluster.c -- servers of a simulated job, scenarios, and who starts again what has ended */

#include "sim/world/cluster.h"

#include <stdio.h>
#include <string.h>

#include "server/server_internal.h"
#include "sim/world/check.h"
#include "sim/world/coord.h"
#include "sim/world/net.h"

enum {
	SHARD_FLOATS = 1024, /* but for the last */
	FIRST_PLACE = 1,
	JOB_TEXT_MAX = 1024,
};

struct cluster cluster;

uint64_t cluster_first(uint32_t shard)
{
	return (uint64_t)shard * SHARD_FLOATS;
}

uint64_t cluster_len(uint32_t shard)
{
	return shard + 1 < cluster.scenario.shards ? SHARD_FLOATS
						   : CLUSTER_WORKERS_MAX * CLUSTER_PUSHES_MAX;
}

/* ---- servers ---- */

static struct ol_server_opts server_opts(const struct server_slot *slot)
{
	const struct scenario *scenario = &cluster.scenario;
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.listen = slot->addr;
	opts.transport = "sim";
	opts.job_key = "simulated";
	opts.param_count = cluster.params;
	opts.shard = slot->shard;
	opts.shard_count = scenario->shards;
	opts.epoch = slot->life;
	opts.consistency = scenario->sync ? OL_CONSISTENCY_SYNC : OL_CONSISTENCY_ASYNC;
	opts.workers = scenario->workers;
	opts.workers_max = CLUSTER_WORKERS_MAX;
	opts.observers_max = 1;
	opts.window = scenario->window;
	opts.rule.lr = scenario->exact ? 0.05f : 1.0f;
	opts.rule.sum = 1;
	opts.spin_us = 0;
	opts.heartbeat_ms = scenario->heartbeat_ms;
	opts.retry_timeout_ms = scenario->retry_ms;
	opts.pin_timeout_ms = 200;
	opts.lease_ms = scenario->lease_ms;
	opts.restore = scenario->chain || slot->life > 1 ? OL_RESTORE_MIRROR : OL_RESTORE_NONE;
	opts.restore_workers = scenario->workers;
	opts.restore_wait_ms = 3600 * 1000;
	opts.replay = OL_REPLAY_EACH;
	if (!scenario->chain)
		return opts;
	opts.restore = scenario->refound ? OL_RESTORE_MIRROR : OL_RESTORE_NONE;
	opts.coordinator = "sim";
	opts.replicas = scenario->replicas;
	opts.replicate_every = scenario->every;
	opts.rank = slot->index;
	opts.refound = scenario->refound;
	return opts;
}

static void server_main(void *arg)
{
	struct server_slot *slot = arg;
	struct ol_server_opts opts = server_opts(slot);
	struct ol_server *server;
	char err[256] = "";
	int rc = ol_server_open(&opts, check_first_weights(slot->shard), &server, err, sizeof(err));

	if (rc != 0) {
		sim_say("cannot open: %s", err);
		return;
	}
	slot->server = server;
	rc = ol_server_run(server);
	sim_say("ends: %s", ol_strerror(rc));
	if (rc != 0 && rc != OL_E_FENCED)
		sim_fail("check_survives", "%s ends with %d: %s", slot->addr, rc, ol_strerror(rc));
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
	snprintf(name, sizeof(name), "server%u%c.%u", slot->shard, 'a' + (int)slot->index,
		 slot->life);
	snprintf(slot->addr, sizeof(slot->addr), "@sim-%u", slot->place);
	slot->process = sim_process_start(name, slot->place, server_main, slot);
}

static void worker_start(struct worker_slot *slot)
{
	char name[SIM_NAME_MAX];

	slot->life++;
	slot->worker = NULL;
	slot->first = slot->next;
	slot->pushing = 0;
	memset(slot->versions, 0, sizeof(slot->versions));
	memset(slot->histories, 0, sizeof(slot->histories));
	memset(slot->applied, 0, sizeof(slot->applied));
	snprintf(name, sizeof(name), "worker%u.%u", slot->index, slot->life);
	slot->process = sim_process_start(name, slot->place, worker_main, slot);
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
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		if (cluster.servers[i].process != process)
			continue;
		cluster.servers[i].server = NULL;
		sim_at(sim_between(5 * SIM_MS, 300 * SIM_MS), start_again, &cluster.servers[i], 0);
	}
	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		if (cluster.workers[i].process != process)
			continue;
		cluster.workers[i].worker = NULL;
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
	scenario->workers = 1 + sim_below(CLUSTER_WORKERS_MAX);
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
	scenario->pushes = 8 + sim_below(CLUSTER_PUSHES_MAX / 2 - 8);
	scenario->heartbeat_ms = 5 + sim_below(30);
	scenario->lease_ms = scenario->heartbeat_ms * (4 + sim_below(10));
	scenario->retry_ms = 20 + sim_below(300);
	scenario->compute_ns = sim_between(SIM_MS / 2, 60 * SIM_MS);
	scenario->storm_ns = sim_between(SIM_S / 2, 4 * SIM_S);
	scenario->heal_ns = 90 * SIM_S;
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

void cluster_text(char *text, size_t bytes)
{
	const struct scenario *s = &cluster.scenario;
	static const char *const queues[] = { "fold", "drop-oldest", "wait" };
	char chain[48] = "one server";

	if (s->chain)
		snprintf(chain, sizeof(chain), "%s of %u (%u servers)%s",
			 s->every != 0 ? "periodic chain" : "chain", s->replicas, s->servers,
			 s->refound ? ", refound" : "");
	snprintf(text, bytes,
		 "%s, %u shard%s, %u workers%s, %s%s, window %u, outage %s%s, %u pushes", chain,
		 s->shards, s->shards > 1 ? "s" : "", s->workers, s->workers_die ? " that die" : "",
		 s->sync ? "sync" : "async", s->exact ? ", exact" : "", s->window,
		 s->outage == OL_OUTAGE_WAIT ? "wait" : "continue, ",
		 s->outage == OL_OUTAGE_WAIT ? "" : queues[s->queue], s->pushes);
}

void cluster_begin(void)
{
	static const struct sim_hooks hooks = { .after_turn = after_turn,
						.on_death = on_death,
						.on_exit = on_exit,
						.on_continue = on_continue };
	uint32_t place = FIRST_PLACE;

	memset(&cluster, 0, sizeof(cluster));
	sim_hooks_set(&hooks);
	nature_draw();
	scenario_draw(&cluster.scenario);
	for (uint32_t k = 0; k < cluster.scenario.shards; k++)
		cluster.params = (uint32_t)(cluster_first(k) + cluster_len(k));
	check_begin();
	for (uint32_t k = 0; k < cluster.scenario.shards; k++) {
		for (uint32_t i = 0; i < cluster.scenario.servers; i++) {
			struct server_slot *slot = &cluster.servers[cluster.server_count++];

			slot->shard = k;
			slot->index = i;
			slot->place = place++;
			server_start(slot);
		}
	}
	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		cluster.workers[i].index = i;
		cluster.workers[i].place = place++;
		worker_start(&cluster.workers[i]);
	}
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
		finished = finished && cluster.workers[i].finished;
		left = left && !sim_process_alive(cluster.workers[i].process);
	}
	cluster.agreed = cluster.agreed || (finished && check_replicas());
	if (!cluster.agreed || !left)
		return false;
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
