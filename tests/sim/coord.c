/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord.c -- the directory back end on a simulated file system: even if processes die between any
 * two calls, each version has one view, live processes are members, and dead ones are not
 *
 *	sim-coord                     SEEDS runs, then each fault put in on purpose is found
 *	sim-coord --seed N [--trace]  one
 *	sim-coord --seeds A..B        these
 *
 * replication/coord/coord.c and local/ are the product's own; files, locks, inotify and threads are
 * those of folder/. Processes open a handle, register, propose views and watch. They are killed,
 * stopped and started again; now and then the machine loses its power.
 *
 *	check_one        all handles that see a version see the same view, which was proposed on
 *	                 the version before it
 *	check_grows      no handle sees an older version than before
 *	check_alive      a member that a handle has seen stays while its process lives
 *	check_durable    a view that its proposer has seen outlives a power loss
 *	check_converged  when faults have ended all handles see the newest view and the live
 *	                 members, within SETTLE_NS; proposals take effect
 *	check_survives   no handle says that chains cannot change any more
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replication/coord/coord.h"
#include "sim/folder/folder.h"
#include "sim/world/proposer.h"
#include "sim/world/sim.h"

enum {
	SEEDS = 100,
	SEEDS_SLOW = 30, /* where a sanitizer watches */
	WRONG_SEEDS = 300, /* within so many what is wrong is to be found */
	SLOTS_MAX = 6,
	SHARDS_MAX = 2,
	VERSIONS_MAX = 2048,
	PROPOSALS_MAX = 4 * VERSIONS_MAX,
	PLACE = 1, /* all are on one machine */
	LINE_BYTES = 512,
};

#define STORM_NS  (2 * SIM_S)
#define SETTLE_NS (3 * SIM_S) /* a lost word costs half a second, a failed call a look more */
#define END_NS    (20 * SIM_S)

static const char *const wrong_names[FOLDER_WRONGS] = {
	[FOLDER_RIGHT] = "nothing",         [FOLDER_LINK_REPLACES] = "link-replaces",
	[FOLDER_NO_LOCK] = "no-lock",       [FOLDER_LATE_LOCK] = "late-lock",
	[FOLDER_LOCK_STAYS] = "lock-stays", [FOLDER_READ_ONCE] = "read-once",
	[FOLDER_NO_SYNC] = "no-sync",       [FOLDER_ONE_TMP] = "one-tmp",
};

struct told {
	bool known;
	uint64_t hash;
};

struct proposal {
	uint64_t hash;
	uint64_t on; /* version */
	uint64_t id; /* of whom */
};

/* A process that is in the folder, again and again */
struct slot {
	uint32_t index;
	uint32_t life;
	struct sim_process *process;
	struct ol_coord *coord; /* NULL: it is not open */
	uint64_t id;
	bool offers; /* itself, to its shard */
	uint32_t shard;
	bool leaves; /* is about to close */
	uint64_t versions[SHARDS_MAX]; /* told last */
	uint32_t seen; /* a bit a slot: a member, in the life … */
	uint32_t seen_lives[SLOTS_MAX];
	uint64_t won_ns; /* a proposal of it took effect */
	bool settled; /* since faults ended, and all is as it should be */
};

static struct {
	struct slot slots[SLOTS_MAX];
	uint32_t count;
	uint32_t shards;
	struct told told[SHARDS_MAX][VERSIONS_MAX];
	struct proposal proposed[SHARDS_MAX][PROPOSALS_MAX];
	uint32_t proposals[SHARDS_MAX];
	uint64_t durable[SHARDS_MAX];
	bool syncs; /* a folder can be synced whenever it is to be, in this run */
	bool calm;
	uint64_t calm_ns;
	bool closing;
	uint32_t powers; /* lost */
	uint64_t every_ns; /* between two faults */
	uint32_t propose_ppm;
	uint64_t views;
} job;

static uint64_t total_views, total_checks;

/* ---- checks ---- */

static uint64_t hash_of(const struct ol_view *view)
{
	char text[OL_VIEW_TEXT_MAX];
	size_t bytes = ol_view_encode(view, text);
	uint64_t sum = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ (uint8_t)text[i]) * 0x100000001b3ULL;
	return sum;
}

/* The last that proposed this view; NULL: nobody did */
static const struct proposal *proposal_of(uint32_t shard, uint64_t version, uint64_t hash)
{
	uint32_t i = job.proposals[shard];

	while (i > 0 && (job.proposed[shard][i - 1].hash != hash ||
			 job.proposed[shard][i - 1].on + 1 != version))
		i--;
	return i > 0 ? &job.proposed[shard][i - 1] : NULL;
}

static void check_one(struct slot *slot, uint32_t shard, const struct ol_coord_state *state)
{
	uint64_t version = state->version, hash = hash_of(&state->view);
	struct told *told = &job.told[shard][version % VERSIONS_MAX];
	const struct proposal *proposal = proposal_of(shard, version, hash);

	if (told->known && told->hash != hash)
		sim_fail("check_one", "shard %u: version %" PRIu64 " is two views", shard, version);
	if (proposal == NULL)
		sim_fail("check_one",
			 "shard %u: version %" PRIu64 " is a view that nobody proposed on %" PRIu64,
			 shard, version, version - 1);
	job.views += !told->known;
	*told = (struct told){ .known = true, .hash = hash };
	if (proposal->id != slot->id)
		return;
	slot->won_ns = sim_now();
	if (version > job.durable[shard])
		job.durable[shard] = version;
}

static void check_views(struct slot *slot, uint32_t shard, const struct ol_coord_state *state)
{
	if (state->version < slot->versions[shard])
		sim_fail("check_grows", "%s, shard %u: version %" PRIu64 " after %" PRIu64,
			 sim_process_name(slot->process), shard, state->version,
			 slot->versions[shard]);
	if (state->version != 0 && state->version != slot->versions[shard])
		check_one(slot, shard, state);
	slot->versions[shard] = state->version;
}

static bool has(const struct ol_coord_state *state, uint64_t id)
{
	for (uint32_t i = 0; i < state->member_count; i++) {
		if (state->members[i].id == id)
			return true;
	}
	return false;
}

/* Was told of once, lives: is told of still */
static void check_alive(struct slot *slot, uint32_t shard, const struct ol_coord_state *state)
{
	for (uint32_t i = 0; i < job.count; i++) {
		const struct slot *other = &job.slots[i];
		bool there = has(state, other->id);

		if (other->shard != shard || !other->offers)
			continue;
		if (there) {
			slot->seen |= 1u << i;
			slot->seen_lives[i] = other->life;
		} else if ((slot->seen >> i & 1) != 0 && slot->seen_lives[i] == other->life &&
			   sim_process_alive(other->process) && !other->leaves &&
			   other->coord != NULL) {
			sim_fail("check_alive", "%s is told that %s is gone, which lives",
				 sim_process_name(slot->process), sim_process_name(other->process));
		}
	}
}

static void look(struct slot *slot)
{
	for (uint32_t k = 0; k < job.shards; k++) {
		struct ol_coord_state state;

		ol_coord_look(slot->coord, k, &state);
		total_checks++;
		check_views(slot, k, &state);
		check_alive(slot, k, &state);
	}
}

/* NULL: it is told of what is so; or what it is not told of */
static const char *unsettled(struct slot *slot)
{
	static char text[LINE_BYTES];

	for (uint32_t k = 0; k < job.shards; k++) {
		struct ol_coord_state state;
		uint32_t members = 0;

		ol_coord_look(slot->coord, k, &state);
		for (uint32_t i = 0; i < job.count; i++) {
			const struct slot *other = &job.slots[i];
			bool lives = other->offers && other->shard == k && other->coord != NULL;

			members += lives;
			if ((lives && !has(&state, other->id)) ||
			    (other->coord != NULL && other->versions[k] > state.version)) {
				snprintf(text, sizeof(text),
					 "shard %u, version %" PRIu64 ": %s is there, at %" PRIu64,
					 k, state.version, sim_process_name(other->process),
					 other->versions[k]);
				return text;
			}
		}
		snprintf(text, sizeof(text), "shard %u: %u members, of %u", k, state.member_count,
			 members);
		if (state.member_count != members || !state.connected)
			return text;
	}
	return NULL;
}

/* ---- what a process does ---- */

static void say(void *arg, const char *text)
{
	const struct slot *slot = arg;

	sim_say("%s", text);
	if (strstr(text, "chains cannot change any more") != NULL)
		sim_fail("check_survives", "%s: %s", sim_process_name(slot->process), text);
}

static void propose(struct slot *slot)
{
	const struct ol_member member = proposer_member(slot->id, slot->index);
	uint32_t shard = sim_below(job.shards);
	struct ol_coord_state state;
	struct ol_view next;

	ol_coord_look(slot->coord, shard, &state);
	if (job.proposals[shard] == PROPOSALS_MAX || state.version + 1 >= VERSIONS_MAX)
		return;
	proposer_next(&member, job.shards, &state, &next);
	job.proposed[shard][job.proposals[shard]++] =
		(struct proposal){ .hash = hash_of(&next), .on = state.version, .id = slot->id };
	ol_coord_propose(slot->coord, shard, state.version, &next);
}

static bool opened(struct slot *slot)
{
	struct ol_coord_opts opts = { .addr = "dir:/c",
				      .job = "job",
				      .shard_count = job.shards,
				      .lease_ms = 1000,
				      .open_timeout_ms = 2000,
				      .log = say,
				      .log_arg = slot };
	struct ol_member member = proposer_member(slot->id, slot->index);
	struct ol_coord *coord;
	char err[256];
	int rc = ol_coord_open(&opts, &coord, err, sizeof(err));

	if (rc != 0) {
		sim_say("cannot open: %s", err);
		return false;
	}
	if (slot->offers && ol_coord_join(coord, slot->shard, &member) != 0)
		sim_fail("check_survives", "%s cannot join", sim_process_name(slot->process));
	slot->coord = coord;
	return true;
}

static void converge(struct slot *slot)
{
	uint64_t since_ns = sim_now();
	const char *why;

	slot->won_ns = 0;
	while ((why = unsettled(slot)) != NULL || slot->won_ns == 0) {
		if (sim_now() > since_ns + SETTLE_NS && slot->won_ns == 0)
			sim_fail("check_converged", "%s: no proposal of it takes effect",
				 sim_process_name(slot->process));
		if (slot->won_ns == 0)
			propose(slot);
		sim_pause(sim_between(SIM_MS, 20 * SIM_MS));
		look(slot);
		if (sim_now() > job.calm_ns + END_NS)
			sim_fail("check_converged", "%s is not told of what is so: %s",
				 sim_process_name(slot->process), why != NULL ? why : "");
	}
}

static void main_of(void *arg)
{
	struct slot *slot = arg;
	struct ol_coord *coord;

	while (!opened(slot))
		sim_pause(sim_between(SIM_MS, 50 * SIM_MS));
	sim_say("is in%s", slot->offers ? ", and offers itself" : "");
	while (!job.calm) {
		if (sim_ppm(job.propose_ppm))
			propose(slot);
		sim_pause(sim_between(0, 5 * SIM_MS));
		look(slot);
		if (sim_ppm(2000))
			break;
	}
	if (job.calm)
		converge(slot);
	slot->settled = job.calm;
	while (job.calm && !job.closing) { /* others are told of it */
		sim_pause(sim_between(SIM_MS, 20 * SIM_MS));
		look(slot);
	}
	slot->leaves = true;
	coord = slot->coord;
	slot->coord = NULL;
	ol_coord_close(coord);
	sim_say("has left");
}

/* ---- who is started again ---- */

static void start(void *arg, uint64_t tag)
{
	struct slot *slot = arg;
	uint32_t index = slot->index, life = slot->life + 1;
	char name[SIM_NAME_MAX];

	(void)tag;
	if (job.closing || sim_process_alive(slot->process))
		return;
	*slot = (struct slot){ .index = index,
			       .life = life,
			       .id = sim_random() | 1,
			       .offers = sim_ppm(800000),
			       .shard = sim_below(job.shards) };
	snprintf(name, sizeof(name), "%c.%u", 'a' + (int)index, life);
	slot->process = sim_process_start(name, PLACE, main_of, slot);
}

static struct slot *slot_of(const struct sim_process *process)
{
	for (uint32_t i = 0; i < job.count; i++) {
		if (job.slots[i].process == process)
			return &job.slots[i];
	}
	return NULL;
}

static void gone(struct sim_process *process)
{
	struct slot *slot = slot_of(process);

	folder_process_gone(process);
	slot->coord = NULL;
	if (!job.calm || !job.closing)
		sim_at(sim_between(0, 50 * SIM_MS), start, slot, 0);
}

static void on_death(struct sim_process *process)
{
	sim_say("%s dies", sim_process_name(process));
	gone(process);
}

static void on_exit_of(struct sim_process *process)
{
	if (sim_process_blocks(process) != 0)
		sim_fail("check_leaks", "%s ends and leaves %zu blocks of memory",
			 sim_process_name(process), sim_process_blocks(process));
	gone(process);
}

/* ---- faults ---- */

static void goes_on(void *arg, uint64_t tag)
{
	(void)tag;
	sim_process_continue(arg);
}

static void check_durable(void)
{
	const struct folder_node *folder = folder_find(folder_root, "c")->node;
	const struct folder_entry *entry = folder_find(folder, "job");
	char name[FOLDER_NAME_MAX];

	for (uint32_t k = 0; k < job.shards && entry != NULL; k++) {
		const struct folder_entry *shard;
		uint64_t newest = 0;

		snprintf(name, sizeof(name), "shard%u", k);
		shard = folder_find(entry->node, name);
		do
			snprintf(name, sizeof(name), "%" PRIu64 ".view", ++newest);
		while (shard != NULL && folder_find(shard->node, name) != NULL);
		newest--;
		if (newest < job.durable[k] && job.syncs)
			sim_fail("check_durable",
				 "shard %u: version %" PRIu64 " is there after a power loss, its "
				 "proposer was told of %" PRIu64,
				 k, newest, job.durable[k]);
		job.durable[k] = newest;
		for (uint64_t v = newest + 1; v < VERSIONS_MAX; v++)
			job.told[k][v].known = false; /* nobody is left who was told */
	}
}

static void power_lost(void)
{
	sim_say("the machine is without power");
	job.powers++;
	for (uint32_t i = 0; i < job.count; i++) {
		if (sim_process_alive(job.slots[i].process))
			sim_process_kill(job.slots[i].process);
	}
	folder_power_lost();
	check_durable();
}

static void fault(void *arg, uint64_t tag)
{
	struct slot *slot = &job.slots[sim_below(job.count)];
	uint32_t kind = sim_below(20);

	(void)arg;
	(void)tag;
	if (job.calm)
		return;
	if (kind == 0) {
		power_lost();
	} else if (sim_process_alive(slot->process) && kind < 12) {
		sim_process_kill(slot->process);
	} else if (sim_process_alive(slot->process) && !sim_process_stopped(slot->process)) {
		sim_process_stop(slot->process);
		sim_at(sim_between(SIM_MS, SIM_S), goes_on, slot->process, 0);
	}
	sim_at(sim_between(0, 2 * job.every_ns), fault, NULL, 0);
}

static void storm_over(void *arg, uint64_t tag)
{
	(void)arg;
	(void)tag;
	sim_say("all faults end");
	job.calm = true;
	job.calm_ns = sim_now();
	folder_calm();
	for (uint32_t i = 0; i < job.count; i++)
		sim_process_continue(job.slots[i].process);
}

/* ---- one run ---- */

static void nature_draw(void)
{
	static const uint64_t disk_ns[] = { 5 * SIM_US, 100 * SIM_US, 2 * SIM_MS };

	memset(&job, 0, sizeof(job));
	job.count = 2 + sim_below(SLOTS_MAX - 1);
	job.shards = 1 + sim_below(SHARDS_MAX);
	job.every_ns = sim_between(10 * SIM_MS, 300 * SIM_MS);
	job.propose_ppm = sim_below(3) * 150000 + 50000;
	job.syncs = sim_ppm(500000);
	sim_nature = (struct sim_nature){
		.preempt_ppm = sim_below(3) * 20000,
		.disk_ns = disk_ns[sim_below(3)],
		.disk_full_ppm = sim_below(3) * 10000,
		.disk_read_ppm = job.syncs ? 0 : sim_below(3) * 15000,
		.disk_sync_ppm = job.syncs ? 0 : 50000,
		.disk_short_ppm = sim_below(3) * 100000,
	};
	folder_nature = (struct folder_nature){
		.tell_ns = sim_ppm(500000) ? 50 * SIM_US : 5 * SIM_MS,
		.lose_ppm = sim_below(2) * 50000,
		.deaf_ppm = sim_below(3) * 100000,
		.unlock_ns = sim_ppm(700000) ? 100 * SIM_US : 20 * SIM_MS,
	};
}

static bool all_settled(void)
{
	for (uint32_t i = 0; i < job.count; i++) {
		if (job.slots[i].coord == NULL || !job.slots[i].settled)
			return false;
	}
	return true;
}

static bool all_left(void)
{
	for (uint32_t i = 0; i < job.count; i++) {
		if (sim_process_alive(job.slots[i].process))
			return false;
	}
	return true;
}

/* NULL, or what is broken */
static const char *run(uint64_t seed, bool trace)
{
	static const struct sim_hooks hooks = { .on_death = on_death, .on_exit = on_exit_of };
	static char failure[LINE_BYTES];

	sim_begin(seed, trace);
	sim_hooks_set(&hooks);
	nature_draw();
	folder_begin();
	folder_enter(folder_root, "c", folder_make(true));
	for (uint32_t i = 0; i < job.count; i++) {
		job.slots[i].index = i;
		start(&job.slots[i], 0);
	}
	sim_at(sim_between(0, 2 * job.every_ns), fault, NULL, 0);
	sim_at(STORM_NS, storm_over, NULL, 0);
	while (sim_step()) {
		if (job.calm && !job.closing && all_settled()) {
			job.closing = true;
			job.calm_ns = sim_now();
		}
		if (job.closing && all_left())
			break;
		if (job.calm && sim_now() > job.calm_ns + 2 * END_NS)
			sim_fail("check_converged", "the run does not end");
	}
	total_views += job.views;
	snprintf(failure, sizeof(failure), "%s", sim_failure() != NULL ? sim_failure() : "");
	sim_end();
	return failure[0] != '\0' ? failure : NULL;
}

static int run_range(uint64_t first, uint64_t last, bool trace)
{
	for (uint64_t seed = first; seed <= last; seed++) {
		const char *what = run(seed, trace);

		if (what != NULL) {
			printf("seed %" PRIu64 ": %s\n", seed, what);
			return 1;
		}
	}
	printf("%" PRIu64 " runs: %" PRIu64 " views, %" PRIu64 " checks\n", last - first + 1,
	       total_views, total_checks);
	return 0;
}

/* Seeds that found something, once */
static int run_kept(void)
{
	static const uint64_t kept[] = { 2, 23, 122 };

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (run_range(kept[i], kept[i], false) != 0)
			return 1;
	}
	return 0;
}

static int run_wrong(enum folder_wrong wrong)
{
	folder_wrong = wrong;
	for (uint64_t seed = 1; seed <= WRONG_SEEDS; seed++) {
		const char *what = run(seed, false);

		if (what != NULL) {
			printf("%-14s found with seed %" PRIu64 ": %s\n", wrong_names[wrong], seed,
			       what);
			folder_wrong = FOLDER_RIGHT;
			return 0;
		}
	}
	printf("%s is not found in %u seeds\n", wrong_names[wrong], WRONG_SEEDS);
	folder_wrong = FOLDER_RIGHT;
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t first = 1, last = sim_is_slow() ? SEEDS_SLOW : SEEDS;
	bool chosen = false, trace = false;
	int rc;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--trace") == 0) {
			trace = true;
		} else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			first = last = strtoull(argv[++i], NULL, 10);
			chosen = true;
		} else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc &&
			   sscanf(argv[++i], "%" SCNu64 "..%" SCNu64, &first, &last) == 2) {
			chosen = true;
		} else {
			fprintf(stderr, "usage: sim-coord [--seed N | --seeds A..B] [--trace]\n");
			return 2;
		}
	}
	rc = chosen ? 0 : run_kept();
	rc |= run_range(first, last, trace);
	if (sim_is_slow() || chosen) /* a run that is broken off gives nothing back */
		return rc;
	for (unsigned i = FOLDER_RIGHT + 1; i < FOLDER_WRONGS; i++)
		rc |= run_wrong((enum folder_wrong)i);
	return rc;
}
