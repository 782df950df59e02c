/* SPDX-License-Identifier: BSD-3-Clause */

/* crowd.c -- jobs of many workers, many shards, or long gradients; worker ids that return in more modes */

#include "sim/world/crowd.h"

#include "sim/world/lasting.h"
#include "sim/world/saved.h"
#include "wire/wire.h"

enum {
	PARTS_PUSHES_MAX = 24, /* of long gradients */
	CROWD_SEEDS = 512, /* one of so many has a crowd */
	RESTORE_EVER_MS = 3600 * 1000,
};

/* Workers die and return where steps are exact, and where servers go back */
static void returns_draw(struct scenario *scenario)
{
	bool exact =
		scenario->chain && !scenario->refound && scenario->exact && scenario->shards == 1;
	bool back = scenario->back && !scenario->sync;

	if (!scenario->workers_die && scenario->lasting == LASTING_NOTHING && (exact || back))
		scenario->workers_die = sim_ppm(400000);
}

/*
 * Hundreds of workers, or dozens of shards. Each worker pushes little, so what takes more pushes
 * than steps is left out.
 */
static void many_draw(struct scenario *scenario)
{
	scenario->saved = scenario->saved && !scenario->running; /* whose disks are worse */
	scenario->ssp = scenario->ends = scenario->holds = scenario->mirrors = false;
	scenario->rivals = scenario->newcomer = scenario->running = scenario->back = false;
	scenario->selection = OL_SELECT_FULL;
	scenario->wait = OL_WAIT_ALL;
	scenario->wait_k = scenario->block_count = 0;
	scenario->lasting = LASTING_NOTHING;
	scenario->workers_die = scenario->workers_die && !scenario->sync && scenario->chain;
	if (scenario->sync)
		scenario->outage = OL_OUTAGE_WAIT;
	if (!scenario->chain && sim_ppm(700000)) {
		scenario->shards = 8 + sim_below(CLUSTER_SHARDS_MAX - 7);
		scenario->pushes = 8 + scenario->pushes % 4;
		/* each server must let the worker in before its open gives up, or all begin anew */
		sim_nature.touch_ns /= scenario->shards;
		return;
	}
	scenario->workers = 20 + sim_below(CLUSTER_WORKERS_MAX - 19);
	scenario->pushes = 2 + sim_below(CLUSTER_PUSHES_FEW - 2);
	/* a server that restores lets all in before the first one's open gives up; memory is made, and freed */
	sim_nature.touch_ns = sim_nature.touch_ns * CLUSTER_WORKERS_FEW / scenario->workers;
	if (sim_nature.touch_ns > CLUSTER_OPEN_MS * SIM_MS / (2 * scenario->workers))
		sim_nature.touch_ns = CLUSTER_OPEN_MS * SIM_MS / (2 * scenario->workers);
	cluster.ids = scenario->workers;
	cluster.pushes_max = CLUSTER_PUSHES_FEW;
}

/*
 * Workers die and return where a server that has lost all restores from mirrors: a chain that is
 * founded anew, or a server by itself that waits for ever. In several shards a step of all would go
 * back at one of them only.
 */
void crowd_returns_draw(struct scenario *scenario)
{
	/* a worker that is new has no epoch that would warn it of a server with a rival */
	bool alone = !scenario->chain && !scenario->mirrors && !scenario->back && !scenario->rivals;

	if (scenario->workers_die || !(scenario->refound || alone) ||
	    (scenario->sync && scenario->shards > 1) || !sim_ppm(500000))
		return;
	scenario->workers_die = true;
	if (scenario->every != 0) /* a rollback loses more than who dies */
		return;
	scenario->returns = scenario->restore_all = true;
	scenario->restore_ms = RESTORE_EVER_MS;
	if (!scenario->sync)
		return;
	/* some steps are made anew, and who dies does not know which it was in */
	scenario->pushes = 8 + scenario->pushes % 12;
	scenario->ends = scenario->ends || (!scenario->exact && scenario->wait == OL_WAIT_ALL);
}

void crowd_draw(struct scenario *scenario, uint64_t seed)
{
	returns_draw(scenario);
	/* by its number: nothing else that is drawn depends on it */
	if (seed % CROWD_SEEDS == CROWD_SEEDS - 1)
		many_draw(scenario);
}

void crowd_parts_draw(struct scenario *scenario)
{
	if (scenario->shards > 2 || scenario->workers > CLUSTER_WORKERS_FEW || scenario->saved ||
	    scenario->pushes > PARTS_PUSHES_MAX || !sim_ppm(100000))
		return;
	/* whole blocks, so that shards begin where the library has them begin */
	scenario->parts_floats = 2 * OL_PART_FLOATS + sim_below(32) * OL_SHARD_ALIGN;
	scenario->turn_pushes = 0;
}

/* Spans where no step waits for more than its own shard. By numbers that are drawn already: all else
 * is what it was */
static bool spans_are_pushed(const struct scenario *scenario)
{
	return scenario->shards > 1 && (scenario->exact || !scenario->sync) && !scenario->ends &&
	       (scenario->heartbeat_ms + scenario->window) % 2 == 0;
}

void crowd_spans_draw(struct scenario *scenario)
{
	scenario->spans = spans_are_pushed(scenario);
	/* a gradient a shard is computed for each of its steps */
	if (scenario->spans && scenario->shards > CLUSTER_SHARDS_FEW)
		scenario->heal_ns *= scenario->shards / CLUSTER_SHARDS_FEW;
	/* workers that wait for room in a queue may wait crosswise: worker/outage.c leaves that out */
	if (scenario->sync && scenario->shards > 1 && scenario->outage == OL_OUTAGE_CONTINUE &&
	    scenario->queue == OL_QUEUE_WAIT)
		scenario->queue = OL_QUEUE_FOLD;
}

void crowd_between_draw(struct scenario *scenario)
{
	if (scenario->workers_die || !scenario->exact || scenario->shards == 1 || scenario->spans ||
	    !scenario->chain || scenario->refound || scenario->every != 0 ||
	    scenario->lasting != LASTING_NOTHING || scenario->workers > CLUSTER_WORKERS_FEW)
		return;
	scenario->between = scenario->workers_die = sim_ppm(700000);
}

/* Synchronous workers that go on in an outage, with few gradients an outage, and many behind it */
void crowd_places_draw(struct scenario *scenario)
{
	if (!scenario->ends || scenario->outage != OL_OUTAGE_CONTINUE || !sim_ppm(500000))
		return;
	scenario->holds = false;
	scenario->queue = sim_ppm(800000) ? OL_QUEUE_FOLD : OL_QUEUE_DROP_OLDEST;
	scenario->compute_ns = sim_between(50 * SIM_MS, 400 * SIM_MS);
}

/*
 * Asynchronous workers that pull seldom, die, and return, beside a running checkpoint that is written at each
 * version or so: it has what they had pushed, and no mirror has
 */
bool crowd_seldom_draw(struct scenario *scenario)
{
	if (scenario->chain || scenario->mirrors || scenario->sync || scenario->ssp ||
	    scenario->spans || scenario->rivals || scenario->workers == 1 ||
	    scenario->workers > CLUSTER_WORKERS_FEW || scenario->shards > 2 ||
	    scenario->parts_floats > 0 || scenario->lasting != LASTING_NOTHING || scenario->back)
		return false;
	scenario->seldom = true;
	scenario->saved = scenario->running = true;
	scenario->back = false;
	scenario->selection = OL_SELECT_PRIORITY + scenario->pushes % 3;
	scenario->fraction = 0.25;
	scenario->save_steps = 4; /* a turn each */
	scenario->save_ms = 0;
	cluster_params_count();
	saved_blocks_even(scenario);
	scenario->window = 6;
	scenario->workers_die = scenario->returns = scenario->restore_all = true;
	scenario->restore_ms = RESTORE_EVER_MS;
	return true;
}
