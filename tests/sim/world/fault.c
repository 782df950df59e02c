/* SPDX-License-Identifier: BSD-3-Clause */

/* fault.c -- kills, stops, cuts and the like, drawn from the seed */

#include "sim/world/fault.h"

#include <stdio.h>
#include <string.h>

#include "server/server.h"
#include "sim/world/cluster.h"
#include "sim/world/coord.h"
#include "sim/world/disk.h"
#include "sim/world/net.h"
#include "sim/world/operator.h"
#include "sim/world/rival.h"

#define WORKER_SESSION_NS (5 * SIM_S)
#define LAG_MAX_NS        (2 * SIM_S)

enum fault {
	FAULT_KILL, /* a server; its host tells everybody */
	FAULT_POWER, /* a server with its host, which tells nobody, and is back after a while */
	FAULT_STOP, /* a server, for less than its lease */
	FAULT_STOP_LONG, /* for more */
	FAULT_DRAG, /* it is slow for a while */
	FAULT_CUT, /* between two hosts, in one direction */
	FAULT_CUT_BOTH,
	FAULT_AWAY, /* the coordinator */
	FAULT_EXPIRE, /* a session, though its process is well */
	FAULT_WORKER_STOP,
	FAULT_WORKER_DRAG,
	FAULT_WORKER_KILL,
	FAULT_PLAIN_KINDS, /* what follows is not in plain runs */
	FAULT_ADAPTER = FAULT_PLAIN_KINDS, /* every connection of a host breaks */
	FAULT_LEAP, /* a host's clock goes ahead, as if it had been suspended … */
	FAULT_SUSPEND, /* … or it is suspended, and its clock does not tell */
	FAULT_OBSERVER_KILL,
	FAULT_DISK_KINDS, /* what follows is of CLUSTER_AGE_FAULTS */
	FAULT_CUT_LONG = FAULT_DISK_KINDS, /* for longer than sessions, in one direction or both */
	FAULT_LAG, /* what a process is served of views and members is behind */
	FAULT_RIVAL, /* a server stands still, and gets a rival */
	FAULT_EXPIRE_ANY, /* a session, of a worker or a server */
	FAULT_RIVAL_KINDS, /* what follows is of CLUSTER_AGE_MIRRORS */
	FAULT_LOSSES = FAULT_RIVAL_KINDS, /* a server with its memory, and workers with theirs */
	FAULT_KINDS
};

static const char *const names[FAULT_KINDS] = {
	"kill",    "power",  "stop",     "stop-long", "drag",   "cut",        "cut-both",
	"away",    "expire", "w-stop",   "w-drag",    "w-kill", "adapter",    "leap",
	"suspend", "o-kill", "cut-long", "lag",       "rival",  "expire-any", "losses"
};

static struct {
	bool over;
	bool blips; /* only those of fault_blips() */
	uint32_t weights[FAULT_KINDS]; /* 0: not in this run */
	uint32_t total;
	uint64_t every_ns; /* on average */
	uint32_t counts[FAULT_KINDS];
} faults;

static void next_fault(void);

/* ---- who can be spared ---- */

bool fault_well(const struct server_slot *slot)
{
	return slot->server != NULL && sim_process_alive(slot->process) &&
	       !sim_process_stopped(slot->process);
}

/* Is there another replica that counts, and is well? */
bool fault_spared(const struct server_slot *slot)
{
	const struct ol_view *view = cluster.scenario.chain ? coord_view(slot->shard) : NULL;

	if (view == NULL || cluster.scenario.refound)
		return true;
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		const struct server_slot *other = &cluster.servers[i];
		int at;

		if (other == slot || other->shard != slot->shard || !fault_well(other))
			continue;
		at = ol_view_find(view, other->server->incarnation);
		if (at >= 0 && (uint32_t)at < view->count)
			return true;
	}
	return false;
}

static struct server_slot *any_server(void)
{
	struct server_slot *slot = &cluster.servers[sim_below(cluster.server_count)];

	return sim_process_alive(slot->process) ? slot : NULL;
}

static uint32_t any_place(void)
{
	return sim_below(1 + cluster.server_count + cluster.scenario.workers);
}

/* ---- what is made good again ---- */

/* All was, when faults ended; what is lost for good since stays so */
static bool too_late(void)
{
	return faults.over && cluster.scenario.age >= CLUSTER_AGE_LASTING;
}

static void goes_on(void *arg, uint64_t tag)
{
	(void)tag;
	sim_say("%s goes on", sim_process_name(arg));
	sim_process_continue(arg);
}

static void is_quick(void *arg, uint64_t tag)
{
	(void)tag;
	sim_process_drag(arg, 0);
}

static void is_healed(void *arg, uint64_t tag)
{
	(void)arg;
	if (too_late())
		return;
	sim_say("%u to %u is whole again", (unsigned)(tag >> 8), (unsigned)(tag & 0xff));
	net_cut((uint32_t)(tag >> 8), (uint32_t)(tag & 0xff), false);
}

static void is_back(void *arg, uint64_t tag)
{
	(void)arg;
	(void)tag;
	sim_say("the coordinator is back");
	coord_away(false);
}

static void host_is_back(void *arg, uint64_t place)
{
	(void)arg;
	if (!too_late())
		net_host_lost((uint32_t)place, false);
}

static void wakes(void *arg, uint64_t slept_ns)
{
	struct sim_process *process = arg;

	if (sim_process_alive(process) && sim_process_stopped(process)) {
		sim_clock_leap(sim_process_place(process), -(int64_t)slept_ns);
		goes_on(process, 0);
	}
}

/* ---- faults ---- */

static uint64_t lease_ns(void)
{
	return cluster.scenario.lease_ms * SIM_MS;
}

static void stop(struct sim_process *process, uint64_t low_ns, uint64_t high_ns)
{
	if (!sim_process_alive(process) || sim_process_stopped(process))
		return;
	sim_say("%s is stopped", sim_process_name(process));
	sim_process_stop(process);
	sim_at(sim_between(low_ns, high_ns), goes_on, process, 0);
}

static void kill_server(struct server_slot *slot, bool power)
{
	if (!fault_spared(slot))
		return;
	power = power && !slot->retired; /* its folder is in use elsewhere */
	cluster.host_dies = power;
	if (power) {
		net_host_lost(slot->place, true);
		disk_power_lost(slot->place);
		sim_at(sim_between(10 * SIM_MS, 3 * lease_ns()), host_is_back, NULL, slot->place);
	}
	sim_process_kill(slot->process);
	cluster.host_dies = false;
}

/* The session of a server, as src/replica/replica.c has it */
static uint64_t session_ns(void)
{
	return 3 * lease_ns() > SIM_S ? 3 * lease_ns() : SIM_S;
}

static void cut_between(uint32_t a, uint32_t b, uint64_t until_ns, bool both)
{
	if (a == b)
		return;
	sim_say("%u to %u is cut", a, b);
	net_cut(a, b, true);
	sim_at(until_ns, is_healed, NULL, (uint64_t)a << 8 | b);
	if (!both)
		return;
	sim_say("%u to %u is cut", b, a);
	net_cut(b, a, true);
	sim_at(until_ns, is_healed, NULL, (uint64_t)b << 8 | a);
}

static void cut(bool both)
{
	uint32_t a = any_place(), b = any_place();

	cut_between(a, b, sim_between(SIM_MS, 3 * lease_ns()), both);
}

/* Mostly between a server and the coordinator; now and then for longer than a worker's session */
static void cut_long(void)
{
	uint32_t a = 1 + sim_below(cluster.server_count), b = any_place();
	uint64_t most_ns = 5 * session_ns() / 2;

	if (cluster.scenario.chain && sim_ppm(500000))
		b = COORD_PLACE;
	if (sim_ppm(200000))
		most_ns += WORKER_SESSION_NS;
	cut_between(a, b, sim_between(lease_ns(), most_ns), sim_ppm(500000));
}

static void catches_up(void *arg, uint64_t tag)
{
	(void)tag;
	coord_lags(arg, 0);
}

static void to_worker(enum fault fault)
{
	struct worker_slot *slot = &cluster.workers[sim_below(cluster.scenario.workers)];

	if (!sim_process_alive(slot->process))
		return;
	if (fault == FAULT_WORKER_STOP) {
		stop(slot->process, SIM_MS, 2 * lease_ns());
	} else if (fault == FAULT_WORKER_DRAG) {
		sim_process_drag(slot->process, sim_between(SIM_MS / 10, 20 * SIM_MS));
		sim_at(sim_between(10 * SIM_MS, SIM_S), is_quick, slot->process, 0);
	} else if (cluster.scenario.workers_die) {
		sim_process_kill(slot->process);
	}
}

static void to_server(enum fault fault)
{
	struct server_slot *slot = any_server();

	if (slot == NULL)
		return;
	if (fault == FAULT_KILL || fault == FAULT_POWER) {
		kill_server(slot, fault == FAULT_POWER);
	} else if (fault == FAULT_STOP) {
		stop(slot->process, SIM_MS, lease_ns() * 3 / 4);
	} else if (fault == FAULT_STOP_LONG && fault_spared(slot)) {
		stop(slot->process, lease_ns(), 4 * lease_ns());
	} else if (fault == FAULT_DRAG) {
		sim_process_drag(slot->process, sim_between(SIM_MS / 10, lease_ns() / 3));
		sim_at(sim_between(10 * SIM_MS, SIM_S), is_quick, slot->process, 0);
	}
}

/* Of servers and workers */
static struct sim_process *any_process(void)
{
	uint32_t at = sim_below(cluster.server_count + cluster.scenario.workers);

	return at < cluster.server_count ? cluster.servers[at].process
					 : cluster.workers[at - cluster.server_count].process;
}

/* May this one be fenced, or end? */
static bool expendable(const struct sim_process *process)
{
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		if (cluster.servers[i].process == process)
			return fault_spared(&cluster.servers[i]);
	}
	return true;
}

static void dreams(const struct sim_process *process)
{
	for (uint32_t i = 0; i < cluster.server_count; i++)
		cluster.servers[i].dreamt |= cluster.servers[i].process == process;
}

static void to_host(enum fault fault)
{
	struct sim_process *process = any_process();
	uint64_t ns = sim_between(SIM_MS, 4 * lease_ns());

	if (!sim_process_alive(process) || sim_process_stopped(process) || !expendable(process))
		return;
	if (fault == FAULT_ADAPTER) {
		sim_say("%s: adapter error", sim_process_name(process));
		net_adapter_fails(process);
	} else if (fault == FAULT_LEAP) {
		sim_say("%s: the clock goes ahead by %u ms", sim_process_name(process),
			(unsigned)(ns / SIM_MS));
		sim_clock_leap(sim_process_place(process), (int64_t)ns);
	} else {
		sim_say("%s: suspended", sim_process_name(process));
		dreams(process);
		sim_process_stop(process);
		sim_at(ns, wakes, process, ns);
	}
}

static void away(void)
{
	sim_say("the coordinator is away");
	coord_away(true);
	sim_at(sim_between(SIM_MS, 6 * lease_ns()), is_back, NULL, 0);
}

static void lag(void)
{
	struct sim_process *process = any_process();
	uint64_t lag_ns = sim_between(10 * SIM_MS, LAG_MAX_NS);

	sim_say("what %s is served is %u ms old", sim_process_name(process),
		(unsigned)(lag_ns / SIM_MS));
	coord_lags(process, lag_ns);
	sim_at(sim_between(lag_ns, 2 * LAG_MAX_NS), catches_up, process, 0);
}

static void servers_die(void *arg, uint64_t tag)
{
	(void)arg;
	(void)tag;
	for (uint32_t i = 0; !faults.over && i < cluster.server_count; i++) {
		if (sim_ppm(800000) && sim_process_alive(cluster.servers[i].process))
			kill_server(&cluster.servers[i], false);
	}
}

/*
 * A server dies; workers die, or stand still for so long that it may not wait for them. When they
 * are back with what they have it dies again, now and then.
 */
static void losses(void)
{
	/* who waits for ever does so for whoever stands still, too */
	uint64_t wait_ns =
		cluster.scenario.returns ? lease_ns() : cluster.scenario.restore_ms * SIM_MS;
	uint64_t away_ns = wait_ns + sim_between(10 * SIM_MS, 2 * wait_ns + lease_ns());
	uint32_t away = sim_below(cluster.scenario.workers);

	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		struct sim_process *process = cluster.workers[i].process;

		if (cluster.scenario.seldom) {
			if (i != away && sim_process_alive(process))
				sim_process_kill(process);
			continue; /* one mirror is all that is left */
		}
		if (i == away || sim_ppm(200000))
			stop(process, away_ns / 2, away_ns);
		else if (cluster.scenario.workers_die && sim_ppm(500000) &&
			 sim_process_alive(process))
			sim_process_kill(process);
	}
	servers_die(NULL, 0);
	if (sim_ppm(500000))
		sim_at(away_ns + sim_between(0, 50 * SIM_MS), servers_die, NULL, 0);
}

static void happen(enum fault fault)
{
	const struct server_slot *slot;

	faults.counts[fault]++;
	switch (fault) {
	case FAULT_KILL:
	case FAULT_POWER:
	case FAULT_STOP:
	case FAULT_STOP_LONG:
	case FAULT_DRAG:
		to_server(fault);
		break;
	case FAULT_CUT:
	case FAULT_CUT_BOTH:
		cut(fault == FAULT_CUT_BOTH);
		break;
	case FAULT_AWAY:
		away();
		break;
	case FAULT_EXPIRE:
		slot = any_server();
		if (slot != NULL)
			coord_expire(slot->process);
		break;
	case FAULT_WORKER_STOP:
	case FAULT_WORKER_DRAG:
	case FAULT_WORKER_KILL:
		to_worker(fault);
		break;
	case FAULT_ADAPTER:
	case FAULT_LEAP:
	case FAULT_SUSPEND:
		to_host(fault);
		break;
	case FAULT_OBSERVER_KILL:
		if (sim_process_alive(cluster.observer.process))
			sim_process_kill(cluster.observer.process);
		break;
	case FAULT_CUT_LONG:
		cut_long();
		break;
	case FAULT_LAG:
		lag();
		break;
	case FAULT_RIVAL:
		rival_fault(&cluster.servers[sim_below(cluster.server_count)]);
		break;
	case FAULT_EXPIRE_ANY:
		coord_expire(any_process());
		break;
	case FAULT_LOSSES:
		losses();
		break;
	case FAULT_KINDS:
		break;
	}
}

static void due(void *arg, uint64_t tag)
{
	uint32_t at = sim_below(faults.total);

	(void)arg;
	(void)tag;
	if (faults.over)
		return;
	for (uint32_t i = 0; i < FAULT_KINDS; i++) {
		if (at < faults.weights[i]) {
			happen((enum fault)i);
			break;
		}
		at -= faults.weights[i];
	}
	next_fault();
}

static void next_fault(void)
{
	sim_at(sim_between(0, 2 * faults.every_ns), due, NULL, 0);
}

/* So many were drawn at this age */
static uint32_t kinds(void)
{
	if (cluster.scenario.age < CLUSTER_AGE_DISKS)
		return FAULT_PLAIN_KINDS;
	if (cluster.scenario.age < CLUSTER_AGE_FAULTS)
		return FAULT_DISK_KINDS;
	return cluster.scenario.age < CLUSTER_AGE_MIRRORS ? FAULT_RIVAL_KINDS : FAULT_KINDS;
}

void fault_begin(bool none)
{
	memset(&faults, 0, sizeof(faults));
	for (uint32_t i = 0; i < kinds(); i++) {
		faults.weights[i] = sim_ppm(450000) ? 1 + sim_below(10) : 0;
		if (i >= FAULT_AWAY && i <= FAULT_EXPIRE && !cluster.scenario.chain)
			faults.weights[i] = 0;
		if (i == FAULT_RIVAL || i == FAULT_LOSSES)
			faults.weights[i] += 5;
		if (i == FAULT_POWER && cluster.scenario.running)
			faults.weights[i] += 10; /* what a turn is there for */
		if (i == FAULT_LOSSES && cluster.scenario.seldom)
			faults.weights[i] += 30;
		if ((i == FAULT_CUT_LONG && !cluster.scenario.long_cuts) ||
		    (i == FAULT_LAG && !cluster.scenario.lags) ||
		    (i == FAULT_RIVAL && !cluster.scenario.rivals) ||
		    (i == FAULT_EXPIRE_ANY && !cluster.scenario.chain) ||
		    (i == FAULT_LOSSES && !cluster.scenario.mirrors && !cluster.scenario.returns))
			faults.weights[i] = 0;
		faults.total += faults.weights[i];
	}
	faults.every_ns = sim_between(20 * SIM_MS, 600 * SIM_MS);
	faults.over = none || faults.total == 0;
	if (!faults.over)
		next_fault();
}

/* Between any two hosts, or a host's adapter: connections may break, and nobody is away for long */
static void blip(void *arg, uint64_t tag)
{
	uint32_t a = any_place(), b = any_place();
	struct sim_process *process = any_process();

	(void)arg;
	(void)tag;
	if (faults.over)
		return;
	if (sim_ppm(300000) && sim_process_alive(process)) {
		faults.counts[FAULT_ADAPTER]++;
		sim_say("%s: adapter error", sim_process_name(process));
		net_adapter_fails(process);
	} else {
		faults.counts[FAULT_CUT]++;
		cut_between(a, b, sim_between(SIM_MS, lease_ns() / 4), sim_ppm(500000));
	}
	sim_at(sim_between(2 * lease_ns(), 4 * lease_ns()), blip, NULL, 0);
}

void fault_blips(void)
{
	memset(&faults, 0, sizeof(faults));
	faults.blips = true;
	sim_nature.stuck_ppm = 0;
	sim_nature.net_slow_ppm = 0;
	sim_nature.memory_ppm = 0;
	sim_nature.post_ppm = 0;
	sim_nature.mute_ppm = 0;
	disk_calm();
	sim_at(sim_between(2 * lease_ns(), 4 * lease_ns()), blip, NULL, 0);
}

bool fault_only_blips(void)
{
	return faults.blips && !faults.over;
}

void fault_end(void)
{
	faults.over = true;
	sim_nature.stuck_ppm = 0;
	sim_nature.net_slow_ppm = 0;
	sim_nature.memory_ppm = 0;
	sim_nature.post_ppm = 0;
	sim_nature.mute_ppm = 0;
	disk_calm();
	net_heal();
	coord_away(false);
	coord_calm();
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		sim_process_continue(cluster.servers[i].process);
		sim_process_drag(cluster.servers[i].process, 0);
	}
	for (uint32_t i = 0; i < cluster.scenario.workers; i++) {
		if (cluster.workers[i].process == NULL)
			continue;
		sim_process_continue(cluster.workers[i].process);
		sim_process_drag(cluster.workers[i].process, 0);
	}
}

void fault_text(char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < FAULT_KINDS && used < bytes; i++) {
		if (faults.counts[i] > 0)
			used += (size_t)snprintf(text + used, bytes - used, "%s%s %u",
						 used > 0 ? ", " : "", names[i], faults.counts[i]);
	}
	if (used < bytes && sim_memory_fails() > 0)
		used += (size_t)snprintf(text + used, bytes - used, "; no memory %llu",
					 (unsigned long long)sim_memory_fails());
	if (used < bytes) {
		operator_text(text + used, bytes - used);
		used += strlen(text + used);
	}
	if (used + 3 < bytes && cluster.scenario.saved) {
		memcpy(text + used, "; ", 3);
		disk_text(text + used + 2, bytes - used - 2);
	}
}
