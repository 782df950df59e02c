/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zookeeper.c -- the ZooKeeper back end keeps its promises over a simulated ensemble: servers lag,
 * fail and have no leader, connections break before or after a request took effect, sessions end
 *
 *	sim-zookeeper                     SEEDS runs, then leaving out each rule is found
 *	sim-zookeeper --seed N [--trace]  one
 *	sim-zookeeper --seeds A..B        these
 *	sim-zookeeper --mutate RULE       the first seed that finds the rule left out; or all rules
 *
 * replication/coord/coord.c and zookeeper/ are the product's own; the client library and the
 * servers are those of ensemble/. Processes open a handle, register, propose views and watch. They
 * are killed, stopped, cut off and started again. In one run of eight the ensemble loses its last
 * commits, once, as in ZOOKEEPER-4643 and 4646.
 *
 *	check_one        a view that takes effect was proposed on the version before it, by its
 *	                 sender, and takes effect once; handles see only views that took effect
 *	check_grows      no handle sees an older version, or older members, than before, or another
 *	                 view of the same version
 *	check_lease      no session ends before the lease that its handle holds
 *	check_gone       members live and die with their sessions, and each removes only itself
 *	check_losses     a session that ended is counted
 *	check_survives   no handle says that chains cannot change any more, unless the ensemble
 *	                 forgets
 *	check_converged  when faults have ended all handles see the newest view and the live
 *	                 members; proposals take effect
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replication/coord/coord_internal.h"
#include "sim/ensemble/ensemble.h"
#include "sim/folder/folder.h"
#include "sim/world/proposer.h"

enum {
	SEEDS = 300,
	SEEDS_SLOW = 40, /* where a sanitizer watches */
	WRONG_SEEDS = 1000, /* within so many a rule that is left out is to be missed */
	SLOTS_MAX = 5,
	SHARDS_MAX = 2,
	VERSIONS_MAX = 4096,
	SETS_MAX = 4096,
	LINE_BYTES = 512,
};

#define STORM_NS  (4 * SIM_S)
#define SETTLE_NS (10 * SIM_S) /* a session of the dead, and a try or two of the living */
#define END_NS    (30 * SIM_S)

struct proposal {
	uint64_t hash;
	uint64_t on; /* version */
	const struct life *life;
	bool used;
};

struct commit {
	uint64_t version, hash;
};

/* A process, from its start to its end */
struct life {
	struct life *next;
	uint32_t index;
	struct sim_process *process;
	struct ol_coord *coord; /* NULL: it is not open */
	uint64_t id;
	bool offers; /* itself, to its shard */
	uint32_t shard;
	uint64_t versions[SHARDS_MAX], hashes[SHARDS_MAX]; /* told last */
	uint32_t sets[SHARDS_MAX]; /* of members, told last */
	const struct ens_session *leased; /* the last that had a lease */
	uint64_t losses;
	unsigned forgot_before; /* times that the ensemble had forgotten at the start */
	bool forgot; /* it says that chains cannot change any more */
	bool won; /* a proposal of it took effect, since faults ended */
	bool settled;
};

static struct {
	struct life *slots[SLOTS_MAX];
	struct life *lives;
	uint32_t count, shards;
	struct proposal proposed[SHARDS_MAX][VERSIONS_MAX];
	uint32_t proposals[SHARDS_MAX];
	struct commit commits[SHARDS_MAX][VERSIONS_MAX];
	uint32_t commit_count[SHARDS_MAX];
	uint64_t newest[SHARDS_MAX];
	uint64_t sets[SHARDS_MAX][SETS_MAX]; /* sums of ids, in their order */
	uint32_t set_count[SHARDS_MAX];
	bool crowded; /* there were more members than are told of */
	bool calm, closing, forgets, secret;
	uint64_t calm_ns;
	uint64_t every_ns; /* between two faults */
	uint32_t propose_ppm, lease_ms, lives_count;
} job;

/* Where the search for a rule begins that one seed in a hundred misses, by default */
static const uint64_t wrong_first[ENS_WRONGS] = {
	[ENS_LEASE_OF_SIGN] = 126,
	[ENS_SIGNS_TOGETHER] = 1270,
};

static uint64_t total_views, total_checks, total_sessions, total_forgot;

/* ---- what the ensemble does ---- */

static uint64_t hash_of(const char *text, size_t bytes)
{
	uint64_t sum = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ (uint8_t)text[i]) * 0x100000001b3ULL;
	return sum;
}

static uint64_t hash_of_id(uint64_t id)
{
	return (id ^ id >> 29) * 0x9e3779b97f4a7c15ULL;
}

static struct life *life_of(const struct sim_process *process)
{
	struct life *life = job.lives;

	while (life->process != process)
		life = life->next;
	return life;
}

static void view_written(const struct ens_entry *entry, uint32_t shard)
{
	uint64_t version = (uint64_t)ens_find(&ens.tree, entry->path)->version + 1;
	uint64_t hash = hash_of(entry->data, (size_t)entry->bytes);
	struct life *life = life_of(entry->session->process);
	uint32_t i = 0;

	while (i < job.proposals[shard] &&
	       (job.proposed[shard][i].used || job.proposed[shard][i].hash != hash ||
		job.proposed[shard][i].on + 1 != version || job.proposed[shard][i].life != life))
		i++;
	if (i == job.proposals[shard]) {
		sim_fail("check_one",
			 "shard %u: version %" PRIu64
			 " is a view that %s did not propose on %" PRIu64 ", or did once",
			 shard, version, sim_process_name(life->process), version - 1);
		return;
	}
	job.proposed[shard][i].used = true;
	job.newest[shard] = version;
	job.commits[shard][job.commit_count[shard]++ % VERSIONS_MAX] =
		(struct commit){ .version = version, .hash = hash };
	life->won = job.calm;
	total_views++;
}

static void sets_note(void)
{
	for (uint32_t k = 0; k < job.shards; k++) {
		uint64_t sum = 0, id;
		unsigned count = 0;

		for (unsigned i = 0; i < ens.tree.count; i++) {
			if (ens_member_shard(ens.tree.nodes[i].path, &id) != (int)k)
				continue;
			sum += hash_of_id(id);
			count++;
		}
		job.crowded = job.crowded || count > OL_MEMBERS_MAX;
		if (job.set_count[k] < SETS_MAX && job.sets[k][job.set_count[k] - 1] != sum)
			job.sets[k][job.set_count[k]++] = sum;
	}
}

static void session_ended(const struct ens_session *session)
{
	for (unsigned i = 0; i < ens.tree.count; i++) {
		const struct ens_node *node = &ens.tree.nodes[i];
		const struct ens_session *owner = ens.sessions;
		uint64_t id;

		if (ens_member_shard(node->path, &id) < 0)
			continue;
		while (owner != NULL && owner->id != node->owner)
			owner = owner->next;
		if (owner == NULL || owner->over || life_of(owner->process)->id != id)
			sim_fail("check_gone", "%s is there, after the end of session %d",
				 node->path, (int)session->id);
	}
}

void check_entry(const struct ens_entry *entry)
{
	const struct life *life = life_of(entry->session->process);
	int shard = ens_view_shard(entry->path);
	uint64_t id;

	if (entry->op == ENS_BEGIN)
		total_sessions++;
	if (shard >= 0 && entry->op == ENS_DELETE)
		sim_fail("check_gone", "%s removes a view", sim_process_name(life->process));
	else if (shard >= 0)
		view_written(entry, (uint32_t)shard);
	if (ens_member_shard(entry->path, &id) >= 0 && id != life->id)
		sim_fail("check_gone", "%s changes the member of another",
			 sim_process_name(life->process));
	sets_note();
	if (entry->op == ENS_END)
		session_ended(entry->session);
}

/* What a handle believes of the session that it has now; 0: nothing */
static uint64_t lease_of(const struct life *life, const struct ens_session *session)
{
	const zhandle_t *zh = ens_handle_of(life->process);

	if (!sim_process_alive(life->process) || life->coord == NULL || zh == NULL ||
	    ens_handle_session(zh) != session || life->coord->lease_ns == UINT64_MAX)
		return 0;
	return life->coord->lease_ns;
}

void check_expiry(const struct ens_session *session)
{
	const struct life *life = life_of(session->process);

	sim_say("session %d of %s expires", (int)session->id, sim_process_name(life->process));
	if (lease_of(life, session) > sim_now())
		sim_fail("check_lease", "%s: its session ends %" PRIu64 " us before its lease",
			 sim_process_name(life->process),
			 (lease_of(life, session) - sim_now()) / SIM_US);
}

void check_lost(void)
{
	for (uint32_t k = 0; k < job.shards; k++) {
		char path[ENS_PATH_MAX];
		const struct ens_node *node;

		snprintf(path, sizeof(path), "/outlast/job/shard%u/view", k);
		node = ens_find(&ens.tree, path);
		job.newest[k] = node != NULL ? (uint64_t)node->version + 1 : 0;
	}
	sets_note();
}

/* ---- what a handle is told ---- */

static void check_view(struct life *life, uint32_t shard, const struct ol_coord_state *state)
{
	char text[OL_VIEW_TEXT_MAX];
	uint64_t version = state->version, hash = 0;
	uint32_t i = job.commit_count[shard];

	if (version != 0)
		hash = hash_of(text, ol_view_encode(&state->view, text));
	if (version < life->versions[shard])
		sim_fail("check_grows", "%s, shard %u: version %" PRIu64 " after %" PRIu64,
			 sim_process_name(life->process), shard, version, life->versions[shard]);
	if (version == life->versions[shard] && hash != life->hashes[shard])
		sim_fail("check_grows", "%s, shard %u: version %" PRIu64 " is two views",
			 sim_process_name(life->process), shard, version);
	while (version != life->versions[shard] && i > 0 &&
	       (job.commits[shard][i - 1].version != version ||
		job.commits[shard][i - 1].hash != hash))
		i--;
	if (i == 0 && version != life->versions[shard])
		sim_fail("check_one", "%s, shard %u: version %" PRIu64 " was never in force",
			 sim_process_name(life->process), shard, version);
	life->versions[shard] = version;
	life->hashes[shard] = hash;
}

static void check_members(struct life *life, uint32_t shard, const struct ol_coord_state *state)
{
	uint32_t at = ens_nature.early ? 0 : life->sets[shard];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < state->member_count; i++)
		sum += hash_of_id(state->members[i].id);
	if (job.crowded || job.set_count[shard] == SETS_MAX)
		return;
	while (at < job.set_count[shard] && job.sets[shard][at] != sum)
		at++;
	if (at == job.set_count[shard])
		sim_fail("check_grows",
			 "%s, shard %u: %u members, as there never were, or before those it was "
			 "told of",
			 sim_process_name(life->process), shard, state->member_count);
	life->sets[shard] = at;
}

static const struct ens_session *session_of(const struct life *life)
{
	const zhandle_t *zh = ens_handle_of(life->process);

	return zh != NULL ? ens_handle_session(zh) : NULL;
}

static void check_session(struct life *life, const struct ol_coord_state *state)
{
	const struct ens_session *session = session_of(life);

	if (session->begun && session->over && lease_of(life, session) > sim_now())
		sim_fail("check_lease", "%s has a lease on a session that is over",
			 sim_process_name(life->process));
	if (state->lease_ns == 0 || state->lease_ns == UINT64_MAX)
		return;
	if (life->leased != NULL && life->leased != session && life->losses == state->losses)
		sim_fail("check_losses", "%s: session %d follows %d, and none is lost",
			 sim_process_name(life->process), (int)session->id, (int)life->leased->id);
	life->leased = session;
	life->losses = state->losses;
}

static void look(struct life *life)
{
	for (uint32_t k = 0; k < job.shards && !life->forgot; k++) {
		const struct ens_session *session = session_of(life);
		struct ol_coord_state state;

		ol_coord_look(life->coord, k, &state);
		total_checks++;
		check_view(life, k, &state);
		check_members(life, k, &state);
		if (session != NULL && session == session_of(life))
			check_session(life, &state);
	}
}

/* NULL: it is told of what is so; or what it is not told of */
static const char *unsettled(const struct life *life)
{
	static char text[LINE_BYTES];

	for (uint32_t k = 0; k < job.shards; k++) {
		struct ol_coord_state state;
		uint64_t sum = 0, told = 0;
		uint32_t members = 0;

		ol_coord_look(life->coord, k, &state);
		for (uint32_t i = 0; i < job.count; i++) {
			const struct life *other = job.slots[i];

			if (!other->offers || other->shard != k || other->coord == NULL)
				continue;
			sum += hash_of_id(other->id);
			members++;
		}
		for (uint32_t i = 0; i < state.member_count; i++)
			told += hash_of_id(state.members[i].id);
		if (told == sum && state.version == job.newest[k] && state.connected)
			continue;
		snprintf(text, sizeof(text),
			 "shard %u: version %" PRIu64 " of %" PRIu64 ", %u members of %u%s", k,
			 state.version, job.newest[k], state.member_count, members,
			 state.connected ? "" : ", not connected");
		return text;
	}
	return NULL;
}

/* ---- what a process does ---- */

static void say(void *arg, const char *text)
{
	struct life *life = arg;

	sim_say("%s", text);
	if (strstr(text, "chains cannot change any more") == NULL)
		return;
	if (life->forgot_before == ens.losses)
		sim_fail("check_survives", "%s: %s", sim_process_name(life->process), text);
	life->forgot = true;
	total_forgot++;
}

static void propose(struct life *life)
{
	const struct ol_member member = proposer_member(life->id, life->index);
	uint32_t shard = sim_below(job.shards);
	char text[OL_VIEW_TEXT_MAX];
	struct ol_coord_state state;
	struct ol_view next;

	ol_coord_look(life->coord, shard, &state);
	if (job.proposals[shard] == VERSIONS_MAX)
		return;
	proposer_next(&member, job.shards, &state, &next);
	job.proposed[shard][job.proposals[shard]++] =
		(struct proposal){ .hash = hash_of(text, ol_view_encode(&next, text)),
				   .on = state.version,
				   .life = life };
	ol_coord_propose(life->coord, shard, state.version, &next);
}

static int prove(void *arg, const void *bytes, size_t count, uint8_t mac[OL_COORD_MAC_BYTES])
{
	(void)arg;
	memset(mac, (int)(hash_of(bytes, count) & 0xff), OL_COORD_MAC_BYTES);
	return 0;
}

static bool opened(struct life *life)
{
	struct ol_coord_opts opts = { .addr = "zk:a:1,b:1,c:1",
				      .job = "job",
				      .shard_count = job.shards,
				      .lease_ms = job.lease_ms,
				      .open_timeout_ms = 4000,
				      .mac = job.secret ? prove : NULL,
				      .owner_mac = job.secret ? prove : NULL,
				      .log = say,
				      .log_arg = life };
	struct ol_member member = proposer_member(life->id, life->index);
	struct ol_coord *coord;
	char err[256];
	int rc = ol_coord_open(&opts, &coord, err, sizeof(err));

	if (rc != 0) {
		sim_say("cannot open: %s", err);
		return false;
	}
	if (life->offers && ol_coord_join(coord, life->shard, &member) != 0)
		sim_fail("check_survives", "%s cannot join", sim_process_name(life->process));
	life->coord = coord;
	return true;
}

static void converge(struct life *life)
{
	const char *why;

	life->won = false;
	while (!life->forgot && ((why = unsettled(life)) != NULL || !life->won)) {
		if (!life->won)
			propose(life);
		sim_pause(sim_between(5 * SIM_MS, 50 * SIM_MS));
		look(life);
		if (sim_now() > job.calm_ns + END_NS)
			sim_fail("check_converged", "%s is not told of what is so: %s",
				 sim_process_name(life->process),
				 why != NULL ? why : "it wins never");
	}
}

static void main_of(void *arg)
{
	struct life *life = arg;
	struct ol_coord *coord;

	while (!opened(life))
		sim_pause(sim_between(SIM_MS, 50 * SIM_MS));
	sim_say("is in%s", life->offers ? ", and offers itself" : "");
	while (!job.calm && !life->forgot) {
		if (sim_ppm(job.propose_ppm))
			propose(life);
		sim_pause(sim_between(0, 20 * SIM_MS));
		look(life);
		if (sim_ppm(2000))
			break;
	}
	if (job.calm)
		converge(life);
	life->settled = job.calm && !life->forgot;
	while (job.calm && !job.closing && !life->forgot) { /* others are told of it */
		sim_pause(sim_between(SIM_MS, 20 * SIM_MS));
		look(life);
	}
	coord = life->coord;
	life->coord = NULL;
	ol_coord_close(coord);
	sim_say("has left");
}

/* ---- who is started again ---- */

static void start(void *arg, uint64_t index)
{
	struct life *life = sim_alloc(sizeof(*life));
	char name[SIM_NAME_MAX];

	(void)arg;
	*life = (struct life){ .next = job.lives,
			       .index = (uint32_t)index,
			       .id = sim_random() | 1,
			       .offers = sim_ppm(800000),
			       .shard = sim_below(job.shards),
			       .forgot_before = ens.losses };
	job.lives = life;
	job.slots[index] = life;
	snprintf(name, sizeof(name), "%c.%u", 'a' + (int)index, ++job.lives_count);
	life->process = sim_process_start(name, 1 + (uint32_t)index, main_of, life);
}

static void gone(struct sim_process *process)
{
	struct life *life = life_of(process);

	folder_sync_gone(process);
	life->coord = NULL;
	if (!job.closing)
		sim_at(sim_between(0, 100 * SIM_MS), start, NULL, life->index);
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

static void returns(void *arg, uint64_t server)
{
	(void)arg;
	ens_server_returns((unsigned)server);
}

static void ensemble_fault(uint32_t kind)
{
	unsigned server = sim_below(ENS_SERVERS);

	if (kind == 0) {
		ens_server_fails(server);
		sim_at(sim_between(20 * SIM_MS, 2 * SIM_S), returns, NULL, server);
	} else if (kind == 1 && ens.leader >= 0) {
		ens_elect(job.forgets && ens.losses == 0 ? 1 + sim_below(8) : 0);
	} else {
		ens.servers[server].lag_ns =
			sim_between(0, (ens_nature.early ? 1500 : 400) * SIM_MS);
	}
}

static void process_fault(struct sim_process *process, uint32_t kind)
{
	uint64_t session_ns = job.lease_ms * SIM_MS;

	if (!sim_process_alive(process))
		return;
	if (kind < 6) {
		ens_cut(process, sim_ppm(500000) ? 0 : sim_between(0, 2 * session_ns), false);
	} else if (kind < 9) {
		ens_cut(process, sim_between(0, 2 * session_ns), true);
	} else if (kind == 9) {
		sim_process_kill(process);
	} else if (!sim_process_stopped(process)) {
		sim_process_stop(process);
		sim_at(sim_between(SIM_MS, 2 * session_ns), goes_on, process, 0);
	}
}

static void fault(void *arg, uint64_t tag)
{
	struct life *life = job.slots[sim_below(job.count)];
	uint32_t kind = sim_below(11);

	(void)arg;
	(void)tag;
	if (job.calm)
		return;
	if (kind < 3)
		ensemble_fault(kind);
	else
		process_fault(life->process, kind);
	sim_at(sim_between(0, 2 * job.every_ns), fault, NULL, 0);
}

static void storm_over(void *arg, uint64_t tag)
{
	(void)arg;
	(void)tag;
	sim_say("all faults end");
	job.calm = ens.calm = true;
	job.calm_ns = sim_now();
	ens_clients_calm();
	for (unsigned i = 0; i < ENS_SERVERS; i++) {
		ens.servers[i].lag_ns = 0;
		ens_server_returns(i);
	}
	for (uint32_t i = 0; i < job.count; i++)
		sim_process_continue(job.slots[i]->process);
}

/* ---- one run ---- */

static void nature_draw(void)
{
	static const uint64_t net_ns[] = { SIM_MS, 5 * SIM_MS, 20 * SIM_MS };
	static const uint64_t tick_ns[] = { 50 * SIM_MS, 100 * SIM_MS, 200 * SIM_MS };

	memset(&job, 0, sizeof(job));
	job.count = 2 + sim_below(SLOTS_MAX - 1);
	job.shards = 1 + sim_below(SHARDS_MAX);
	job.every_ns = sim_between(30 * SIM_MS, 500 * SIM_MS);
	job.propose_ppm = sim_below(3) * 50000 + 20000;
	job.lease_ms = (uint32_t)sim_between(300, 1200);
	job.secret = sim_ppm(500000);
	job.forgets = sim_ppm(125000);
	for (uint32_t k = 0; k < SHARDS_MAX; k++)
		job.set_count[k] = 1; /* nobody */
	sim_nature = (struct sim_nature){ .preempt_ppm = sim_below(3) * 20000 };
	ens_nature = (struct ens_nature){
		.tick_ns = tick_ns[sim_below(3)],
		.net_ns = net_ns[sim_below(3)],
		.slow_ppm = sim_below(3) * 30000,
		.slow_ns = sim_between(50 * SIM_MS, 600 * SIM_MS),
		.early = sim_ppm(300000),
		.notice_ns = sim_between(SIM_MS, 300 * SIM_MS),
	};
}

static bool all_settled(void)
{
	for (uint32_t i = 0; i < job.count; i++) {
		if (job.slots[i]->coord == NULL || !job.slots[i]->settled)
			return false;
	}
	return true;
}

static bool all_left(void)
{
	for (uint32_t i = 0; i < job.count; i++) {
		if (sim_process_alive(job.slots[i]->process))
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
	folder_sync_begin();
	ens_begin();
	ens_clients_begin();
	for (uint32_t i = 0; i < job.count; i++)
		start(NULL, i);
	sim_at(sim_between(0, 2 * job.every_ns), fault, NULL, 0);
	sim_at(STORM_NS, storm_over, NULL, 0);
	while (sim_step()) {
		if (job.calm && !job.closing && all_settled()) {
			job.closing = true;
			job.calm_ns = sim_now();
		}
		if (job.closing && all_left())
			break;
		if (job.calm && sim_now() > job.calm_ns + END_NS + SETTLE_NS)
			sim_fail("check_converged", "the run does not end");
	}
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
	printf("%" PRIu64 " runs: %" PRIu64 " views, %" PRIu64 " sessions, %" PRIu64
	       " handles that saw a loss, %" PRIu64 " checks\n",
	       last - first + 1, total_views, total_sessions, total_forgot, total_checks);
	return 0;
}

static int run_wrong(enum ens_wrong wrong, uint64_t first)
{
	const char *what = NULL;
	uint64_t seed = first;

	ens_wrong = wrong;
	while (seed < first + WRONG_SEEDS && (what = run(seed, false)) == NULL)
		seed++;
	ens_wrong = ENS_RIGHT;
	if (what != NULL)
		printf("%-18s missed with seed %" PRIu64 ": %s\n", ens_wrong_names[wrong], seed,
		       what);
	else
		printf("%s is not missed in %u seeds\n", ens_wrong_names[wrong], WRONG_SEEDS);
	fflush(stdout);
	return what == NULL;
}

static int run_mutate(const char *rule, uint64_t first)
{
	int rc = 0;

	for (unsigned i = ENS_RIGHT + 1; i < ENS_WRONGS; i++) {
		if (strcmp(rule, "all") == 0 || strcmp(rule, ens_wrong_names[i]) == 0)
			rc |= run_wrong((enum ens_wrong)i, first);
	}
	return rc;
}

/* Seeds that found something, once */
static int run_kept(void)
{
	static const uint64_t kept[] = { 15, 64, 204, 243 };

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (run_range(kept[i], kept[i], false) != 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t first = 1, last = sim_is_slow() ? SEEDS_SLOW : SEEDS;
	bool chosen = false, trace = false;
	const char *mutate = NULL;
	int rc = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--trace") == 0) {
			trace = true;
		} else if (strcmp(argv[i], "--mutate") == 0 && i + 1 < argc) {
			mutate = argv[++i];
		} else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			first = last = strtoull(argv[++i], NULL, 10);
			chosen = true;
		} else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc &&
			   sscanf(argv[++i], "%" SCNu64 "..%" SCNu64, &first, &last) == 2) {
			chosen = true;
		} else {
			fprintf(stderr,
				"usage: sim-zookeeper [--seed N | --seeds A..B | --mutate RULE] "
				"[--trace]\n");
			return 2;
		}
	}
	if (mutate != NULL)
		return run_mutate(mutate, first);
	if (!chosen)
		rc = run_kept();
	rc |= run_range(first, last, trace);
	if (sim_is_slow() || chosen) /* a run that is broken off gives nothing back */
		return rc;
	for (unsigned i = ENS_RIGHT + 1; i < ENS_WRONGS; i++)
		rc |= run_wrong((enum ens_wrong)i, wrong_first[i] != 0 ? wrong_first[i] : 1);
	return rc;
}
