/* SPDX-License-Identifier: BSD-3-Clause */

/* mirrors.c -- which mirrors a restoring server may begin with, and what is lost then */

#include "sim/world/mirrors.h"

#include <string.h>

#include "server/server.h"
#include "server/source.h"
#include "sim/world/check.h"
#include "sim/world/mutate.h"
#include "sim/world/saved.h"
#include "sim/world/wrap.h"
#include "worker/worker_internal.h"

enum {
	MIRRORS_PPM = 400000, /* of servers by themselves */
};

WRAP(bool, ol_source_choose, const struct ol_sources *sources, uint64_t now_ns,
     struct ol_source *ret_source);

/* What a life of a server began with: of each worker, which of its pushes */
struct beginning {
	struct beginning *next;
	uint64_t id; /* of the server */
	uint64_t ones[CLUSTER_WORKERS_MAX];
};

static struct beginning *beginnings;

/* What may be begun with */
struct candidate {
	bool known; /* false: whoever has it is not there any more */
	uint32_t epoch;
	uint64_t version;
	uint64_t ones[CLUSTER_WORKERS_MAX];
};

void mirrors_begin(void)
{
	beginnings = NULL;
}

void mirrors_draw(struct scenario *scenario)
{
	/* shards go back each by itself, and a step is of all of them */
	if (scenario->chain || (scenario->sync && scenario->shards > 1) || !sim_ppm(MIRRORS_PPM))
		return;
	scenario->mirrors = true;
	scenario->saved = scenario->running = scenario->back = scenario->rivals = false;
	scenario->block_count = 0;
	/* a worker that opens waits for longer: it has nothing yet, and each call begins anew */
	scenario->restore_ms = sim_ppm(700000) ? 20 + sim_below(300) : 50 + sim_below(1200);
	scenario->restore_all = sim_ppm(500000);
	scenario->restore_first = sim_ppm(300000);
	scenario->workers_die = sim_ppm(700000);
	scenario->newcomer = scenario->workers > 1 && sim_ppm(500000);
	scenario->storm_ns += sim_between(0, 3 * SIM_S);
	cluster_compute_draw(scenario);
	if (scenario->sync) /* some steps are made anew */
		scenario->pushes = 8 + scenario->pushes % 12;
	/* who dies does not know how many of its pushes made a step: versions tell */
	scenario->ends = scenario->ends ||
			 (scenario->sync && !scenario->exact && scenario->wait == OL_WAIT_ALL);
}

static bool in_force(void)
{
	return (cluster.scenario.mirrors || cluster.scenario.returns) && !cluster.scenario.exact;
}

static uint64_t ones_of(const float *weights, uint32_t worker)
{
	uint64_t ones = 0;

	for (uint32_t i = 0; i < cluster.pushes_max; i++)
		ones |= (uint64_t)(weights[worker_mark(worker, i)] != 0.0f) << i;
	return ones;
}

static uint32_t count(uint64_t bits)
{
	return (uint32_t)__builtin_popcountll(bits);
}

/* ---- what each worker has been told, and who began with what ---- */

static const struct beginning *beginning_of(uint64_t id)
{
	const struct beginning *begun = beginnings;

	while (begun != NULL && begun->id != id)
		begun = begun->next;
	return begun;
}

void mirrors_on_ready(const struct server_slot *slot, const float *weights)
{
	const struct ol_replica *replica = &slot->server->replica;
	struct beginning *begun;

	/* in a chain it is the founder who begins a history, and gives it its name */
	if (!in_force() ||
	    (slot->server->opts.coordinator != NULL &&
	     replica->chain.view.history != slot->server->incarnation) ||
	    beginning_of(slot->server->incarnation) != NULL)
		return;
	begun = sim_alloc(sizeof(*begun));
	begun->id = slot->server->incarnation;
	begun->next = beginnings;
	beginnings = begun;
	for (uint32_t w = 0; w < cluster.scenario.workers; w++) {
		struct worker_slot *worker = &cluster.workers[w];

		begun->ones[w] = ones_of(weights, w);
		for (uint32_t i = 0; i < worker->next; i++) {
			if ((begun->ones[w] >> i & 1) == 0)
				worker->pushes[i].missed |= 1u << slot->shard;
		}
	}
}

void mirrors_on_turn(struct worker_slot *slot)
{
	if (!in_force())
		return;
	for (uint32_t k = 0; k < slot->worker->link_count; k++) {
		const struct ol_link *link = &slot->worker->links[k];
		const struct beginning *begun;

		if (link->identity == slot->told[k])
			continue;
		slot->told[k] = link->identity;
		begun = beginning_of(link->identity);
		if (begun == NULL)
			sim_fail("check_restored", "worker %u is told of a history nobody began",
				 slot->index);
		slot->counted[k] = slot->counted[k] || (slot->had[k] & ~begun->ones[slot->index]);
		slot->had[k] &= begun->ones[slot->index];
	}
}

void mirrors_on_pull(struct worker_slot *slot)
{
	const struct ol_mirror *mirror = &slot->worker->mirrors[slot->worker->mirror];

	if (!in_force())
		return;
	mirrors_on_turn(slot);
	for (uint32_t k = 0; k < slot->worker->link_count; k++) {
		if (mirror->identities[k] != slot->told[k])
			continue;
		slot->had[k] |= ones_of(mirror->weights + cluster_first(k), slot->index) >>
				slot->first << slot->first;
	}
}

/* ---- what a server may begin with ---- */

/* The worker that is at the other end; NULL: it has died */
static const struct worker_slot *worker_of(const struct ol_session *session)
{
	const struct worker_slot *slot = &cluster.workers[session->worker];
	uint64_t gone = session->hello.gone_seq;

	if (!sim_process_alive(slot->process))
		return NULL;
	if (slot->worker == NULL || !slot->worker->started) /* its open waits: it has nothing yet */
		return gone == 0 && session->hello.mirror.bytes == 0 ? slot : NULL;
	return gone == 0 || gone >> 40 == slot->worker->tag ? slot : NULL;
}

static struct candidate checkpoint_of(const struct ol_server *server)
{
	const struct ol_sources *sources = &server->restoring.sources;
	const uint8_t *content = ol_store_content(&server->store, OL_SOURCE_CHECKPOINT);
	/* a chain's is of the epoch of a view; what goes by age is when its history was founded */
	struct candidate candidate = { .known = true,
				       .epoch = sources->floor_of.history != 0
							? sources->floor_of.founded
							: sources->floor_epoch,
				       .version = sources->floor_version };

	content += ol_layout_table_bytes(&server->store.geo);
	for (uint32_t w = 0; w < cluster.scenario.workers; w++)
		candidate.ones[w] = ones_of((const float *)(const void *)content, w);
	return candidate;
}

/* A worker's mirror; NULL: the checkpoint, or first weights */
static struct candidate candidate_of(const struct ol_server *server,
				     const struct ol_session *session)
{
	struct candidate candidate = { .known = session == NULL };
	const struct worker_slot *slot = session != NULL ? worker_of(session) : NULL;
	const struct ol_mirror *mirror;
	uint32_t shard = server->opts.shard;

	if (session == NULL && server->restoring.sources.floor)
		return checkpoint_of(server);
	if (slot == NULL || slot->worker == NULL)
		return candidate;
	mirror = &slot->worker->mirrors[slot->worker->mirror];
	candidate.known = mirror->whole &&
			  session->hello.mirror_version == mirror->versions[shard] &&
			  session->hello.mirror_history == mirror->identities[shard];
	candidate.epoch = mirror->histories[shard];
	candidate.version = mirror->versions[shard];
	for (uint32_t w = 0; w < cluster.scenario.workers; w++)
		candidate.ones[w] = ones_of(mirror->weights + cluster_first(shard), w);
	return candidate;
}

/* What a worker still holds for a shard: it pushes that again, so weights without it lose nothing.
 * Its mirror may have it before its acknowledgement has come. In a queue one number is of many. */
static uint64_t held_of(const struct worker_slot *slot, uint32_t shard)
{
	struct ol_worker *worker = slot->worker;
	uint64_t bit = UINT64_C(1) << shard, held = 0;

	for (uint32_t i = 0; cluster.scenario.outage == OL_OUTAGE_WAIT && i < worker->slots; i++) {
		const struct ol_grad *grad = &worker->grads[i];
		uint64_t number = ol_seq_count(ol_worker_hdr(worker, i, shard)->seq);

		if (grad->state != OL_GRAD_PUSHED || ((grad->open | grad->kept) & bit) == 0)
			continue;
		for (uint32_t push = slot->first; number > 0 && push < slot->next; push++) {
			number -= slot->pushes[push].span >> shard & 1;
			held |= (uint64_t)(number == 0) << push;
		}
	}
	return held;
}

/* How much of what those who are here were told is not there */
static uint32_t lost_with(const struct ol_server *server, const struct candidate *candidate)
{
	uint32_t lost = 0;

	for (uint32_t i = 0; i < server->store.geo.workers_max; i++) {
		const struct ol_session *session = &server->sessions.all[i];
		const struct worker_slot *slot;

		if (!ol_source_is_here(session))
			continue;
		slot = worker_of(session);
		if (slot != NULL && slot->worker != NULL)
			lost += count(slot->had[server->opts.shard] &
				      ~held_of(slot, server->opts.shard) &
				      ~candidate->ones[session->worker]);
	}
	return lost;
}

static const struct server_slot *server_slot_of(const struct ol_server *server)
{
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		if (cluster.servers[i].server == server)
			return &cluster.servers[i];
	}
	return NULL;
}

/* It has not waited for as long as it may: whoever may have more is here */
static void check_early(const struct ol_server *server, const struct candidate *chosen,
			uint32_t lost)
{
	if (lost > 0 && !cluster.scenario.restore_all) /* else all are here: nobody has more */
		sim_fail("check_restored",
			 "%s begins at once with version %llu of history %u, which lacks %u pushes "
			 "that workers were told are applied",
			 server->addr, (unsigned long long)chosen->version, chosen->epoch, lost);
	for (uint32_t w = 0; w < cluster.scenario.workers; w++) {
		bool refused = (server->restoring.sources.refused[w / 64] >> w % 64 & 1) != 0;

		if (!refused && !ol_source_is_here(&server->sessions.all[w]) &&
		    (chosen->ones[w] != 0 || cluster.scenario.restore_all))
			sim_fail("check_restored",
				 "%s begins with version %llu of history %u, and does not wait for "
				 "worker %u",
				 server->addr, (unsigned long long)chosen->version, chosen->epoch,
				 w);
	}
}

static void check_other(const struct ol_server *server, const struct candidate *chosen,
			uint32_t lost, const struct ol_session *session)
{
	struct candidate other = candidate_of(server, session);
	bool newer;

	if (!other.known || lost_with(server, &other) > 0)
		return;
	newer = other.epoch > chosen->epoch ||
		(other.epoch == chosen->epoch && other.version > chosen->version);
	if (lost > 0 || newer)
		sim_fail("check_restored",
			 "%s begins with version %llu of history %u, which lacks %u pushes; "
			 "version %llu of history %u, of %s %u, lacks none",
			 server->addr, (unsigned long long)chosen->version, chosen->epoch, lost,
			 (unsigned long long)other.version, other.epoch,
			 session != NULL ? "worker" : "the folder of shard",
			 session != NULL ? session->worker : server->opts.shard);
}

/* Has a worker that is here counted some of its pushes as lost? What lies between two of its
 * numbers is then more than what is lost anew. */
static bool has_counted(const struct ol_server *server)
{
	bool counted = false;

	for (uint32_t i = 0; i < server->store.geo.workers_max; i++)
		counted = counted || (ol_source_is_here(&server->sessions.all[i]) &&
				      cluster.workers[server->sessions.all[i].worker]
					      .counted[server->opts.shard]);
	return counted;
}

/* What lies in a worker's mirror it will take for applied, though its pull has not said so yet: it stood still meanwhile */
static void own_mirrors_have(const struct ol_server *server)
{
	for (uint32_t i = 0; i < server->store.geo.workers_max; i++) {
		struct worker_slot *worker = &cluster.workers[i];

		if (ol_source_is_here(&server->sessions.all[i]) && worker->worker != NULL &&
		    worker->worker->mirrors[worker->worker->mirror].whole)
			mirrors_on_pull(worker);
	}
}

/* Blocks of the running checkpoint lack what its table has: an older mirror may cost less */
static bool is_of_several(const struct ol_sources *sources)
{
	for (uint32_t i = 0; sources->block_versions != NULL && i < sources->blocks->count; i++) {
		if (sources->block_versions[i] < sources->floor_version)
			return true;
	}
	return false;
}

static void check_source(const struct ol_server *server, const struct ol_source *source)
{
	const struct server_slot *slot = server_slot_of(server);
	struct candidate chosen = candidate_of(server, source->session);
	bool stale = false;
	uint32_t lost;

	/* blocks of several versions lack what their table has */
	if (slot == NULL || !chosen.known || check_is_mixed(slot->shard))
		return;
	own_mirrors_have(server);
	lost = lost_with(server, &chosen);
	if (!is_of_several(&server->restoring.sources))
		check_other(server, &chosen, lost, NULL);
	for (uint32_t i = 0; i < server->store.geo.workers_max; i++) {
		const struct ol_session *session = &server->sessions.all[i];

		if (!ol_source_is_here(session))
			continue;
		stale = stale || worker_of(session) == NULL;
		if (session->table != NULL && session->hello.mirror.bytes != 0)
			check_other(server, &chosen, lost, session);
	}
	if (sim_clock_of(slot->place, sim_now()) - slot->opened_ns <
	    cluster.scenario.restore_ms * SIM_MS)
		check_early(server, &chosen, lost);
	/* its own mirror has what a worker keeps no more, and it is waited for */
	if (cluster.scenario.returns && (lost > 0 || (!stale && source->lost > 0)))
		sim_fail("check_restored",
			 "%s begins with version %llu of history %u, which lacks %u pushes, and "
			 "counts %llu: all workers are here",
			 server->addr, (unsigned long long)chosen.version, chosen.epoch, lost,
			 (unsigned long long)source->lost);
	/* a queue makes one push of many, and steps drop some */
	if (!stale && cluster.scenario.outage == OL_OUTAGE_WAIT && !cluster.scenario.sync &&
	    (source->lost < lost || (source->lost > lost && !has_counted(server))))
		sim_fail("check_accounts",
			 "%s counts %llu pushes as lost with version %llu of history %u, it is %u",
			 server->addr, (unsigned long long)source->lost,
			 (unsigned long long)chosen.version, chosen.epoch, lost);
	sim_say("begins with version %llu of history %u: %u pushes are lost",
		(unsigned long long)chosen.version, chosen.epoch, lost);
}

/* A product that takes the newest mirror of whoever is here first, whatever it lacks */
static bool choose_any(const struct ol_server *server, struct ol_source *ret_source)
{
	struct ol_server *own = (struct ol_server *)(uintptr_t)server;
	uint64_t gone[CLUSTER_WORKERS_MAX];

	for (uint32_t i = 0; i < cluster.ids; i++) {
		gone[i] = own->sessions.all[i].hello.gone_seq;
		own->sessions.all[i].hello.gone_seq = 0;
	}
	__real_ol_source_choose(&server->restoring.sources, UINT64_MAX, ret_source);
	for (uint32_t i = 0; i < cluster.ids; i++)
		own->sessions.all[i].hello.gone_seq = gone[i];
	return true;
}

/* A product that does so when as many workers are here as there are, or as it knows of */
static bool choose_counted(const struct ol_server *server, struct ol_source *ret_source)
{
	uint32_t known = server->opts.restore_workers != 0 ? server->opts.restore_workers
							   : server->opts.workers;
	uint32_t here = 0;

	for (uint32_t i = 0; i < server->store.geo.workers_max; i++)
		here += ol_source_is_here(&server->sessions.all[i]);
	return choose_any(server, ret_source) && here >= known;
}

/* The server whose they are */
static const struct ol_server *server_of(const struct ol_sources *sources)
{
	const char *at = (const char *)sources;

	return (const struct ol_server *)(const void *)(at - offsetof(struct ol_server,
								      restoring.sources));
}

bool __wrap_ol_source_choose(const struct ol_sources *sources, uint64_t now_ns,
			     struct ol_source *ret_source)
{
	const struct ol_server *server = server_of(sources);
	bool begins;

	if (mutation(MUTATE_ANY_MIRROR))
		begins = choose_any(server, ret_source);
	else if (mutation(MUTATE_NEWCOMER_COUNTS))
		begins = choose_counted(server, ret_source);
	else
		begins = __real_ol_source_choose(&server->restoring.sources, now_ns, ret_source);

	if (begins && sim_active())
		saved_on_choice(sources, ret_source);
	if (begins && sim_active() && in_force())
		check_source(server, ret_source);
	return begins;
}
