/* SPDX-License-Identifier: BSD-3-Clause */

/* check.c -- the checks of check.h */

#include "sim/world/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outlast_policy.h"
#include "server/server.h"
#include "sim/world/coord.h"
#include "sim/world/disk.h"
#include "sim/world/format.h"
#include "sim/world/mirrors.h"
#include "sim/world/mutate.h"
#include "sim/world/rival.h"
#include "sim/world/rule.h"
#include "sim/world/saved.h"
#include "sim/world/turns.h"
#include "sim/world/wrap.h"
#include "worker/worker_internal.h"

enum {
	HISTORIES_MAX = 512,
	LIVES_MAX = 1024, /* of servers */
	VERSIONS_MAX = CLUSTER_VERSIONS_MAX,
	PROCESS_BYTES_MAX = 64 << 20,
	MIXED_ID = 1 << 30 /* of what no server had as one version: a history by itself */
};

/* What one version of one history holds, once it is known for good */
struct history {
	uint32_t shard;
	uint32_t id; /* epoch in which it was founded; without a chain, of its server */
	uint64_t hashes[VERSIONS_MAX]; /* 0: not known yet */
	uint64_t states[VERSIONS_MAX]; /* of the optimizer; the same */
};

static struct {
	struct history *histories[HISTORIES_MAX];
	uint32_t history_count;
	float *first; /* params */
	float *expected; /* of an exact scenario, at its end */
	uint64_t right[CLUSTER_SHARDS_MAX][VERSIONS_MAX]; /* of an exact scenario: hashes … */
	uint64_t right_states[CLUSTER_SHARDS_MAX][VERSIONS_MAX]; /* … also of the state */
	struct {
		uint32_t founded;
		uint64_t version;
	} shown[CLUSTER_SHARDS_MAX]; /* newest that a worker was told is committed */
	struct {
		const struct sim_process *process;
		uint64_t id;
	} lives[LIVES_MAX]; /* of servers, also of those that are dead */
	uint32_t life_count;
	uint32_t heads[CLUSTER_SHARDS_MAX]; /* newest epoch that had a head … */
	uint64_t head_ids[CLUSTER_SHARDS_MAX]; /* … and who that was */
	/* how often a shard began with blocks of several versions: its table has since updates that
	   its weights lack */
	uint32_t mixed[CLUSTER_SHARDS_MAX];
} known;

/* As many versions as pushes that there can be, and the first */
static uint64_t versions_max(void)
{
	return (uint64_t)cluster.ids * cluster.pushes_max + 2;
}

static bool strict_chain(void)
{
	return cluster.scenario.chain && cluster.scenario.every == 0;
}

uint64_t check_hash(const void *bytes, size_t count)
{
	const uint8_t *at = bytes;
	uint64_t sum = 0xcbf29ce484222325ULL, word;

	for (; count >= 8; count -= 8, at += 8) {
		memcpy(&word, at, 8);
		sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
		sum ^= sum >> 29;
	}
	for (; count > 0; count--)
		sum = (sum ^ *at++) * 0x100000001b3ULL;
	return sum | 1;
}

/* Of a table and weights; not of the snapshot's head, which counts since the last restore */
static uint64_t content_hash(const struct ol_geometry *geo, const void *table, const float *weights)
{
	const size_t head = sizeof(struct ol_snapshot_head);

	return check_hash((const uint8_t *)table + head, ol_layout_table_bytes(geo) - head) * 31 +
	       check_hash(weights, geo->shard_len * 4);
}

static uint64_t state_hash(const struct ol_geometry *geo, const void *content)
{
	const size_t vector = ol_layout_vector_bytes(geo);

	return check_hash((const uint8_t *)content + ol_layout_table_bytes(geo) + vector,
			  vector * geo->state_vectors);
}

/* What must be so in an exact scenario, whatever the numbers of pushes are */
static uint64_t right_hash(const struct ol_geometry *geo, const void *table, const float *weights)
{
	uint64_t sum = 0;

	for (uint32_t w = 0; w < geo->workers_max; w++)
		sum = sum * 31 + ol_applied_of(table, w).grads;
	return sum * 31 + check_hash(weights, geo->shard_len * 4);
}

const float *check_first_weights(uint32_t shard)
{
	return known.first + cluster_first(shard);
}

/* ---- the one right way of an exact scenario ---- */

/* A rule that changes something at this step is in force from it on */
static void expect_rule(struct ol_store *store, uint64_t step, struct ol_rule *next)
{
	if (!rules_change())
		return;
	rule_at(step, next);
	if (!ol_rule_is_news(ol_store_rule(store), next))
		return;
	if (next->begin == OL_RULE_NOW)
		next->begin = step;
	ol_store_rule_next(store, next);
}

static void expect_shard(uint32_t shard)
{
	struct ol_geometry geo = { .param_count = cluster.params,
				   .shard_first = cluster_first(shard),
				   .shard_len = cluster_len(shard),
				   .shard = shard,
				   .shard_count = cluster.scenario.shards,
				   .workers_max = cluster.ids,
				   .window = cluster.scenario.window,
				   .groups = CLUSTER_GROUPS,
				   .state_vectors = ol_rule_state_vectors(cluster_rule().optimizer),
				   .consistency = OL_CONSISTENCY_SYNC };
	struct ol_update_rule rule = cluster_rule();
	void *memory = __real_calloc(1, ol_layout_public_bytes(&geo) + 4096);
	uint8_t *at = (uint8_t *)memory + 4096 - (uintptr_t)memory % 4096;
	float *grads = __real_calloc(2 * cluster.ids, cluster.params * sizeof(float));
	float *whole = __real_calloc(1, cluster.params * sizeof(float));
	struct ol_contribution contributions[CLUSTER_WORKERS_MAX];
	struct ol_store store;
	struct ol_rule next;

	if (memory == NULL || grads == NULL || whole == NULL ||
	    ol_store_init(&store, &geo, &rule, at, check_first_weights(shard)) != 0)
		abort();
	for (uint32_t step = 0; step <= cluster.scenario.pushes; step++) {
		const uint8_t *content = ol_store_content(&store, store.snapshot);

		memcpy(whole + geo.shard_first, ol_store_weights(&store), geo.shard_len * 4);
		known.right[shard][step] = right_hash(&geo, content, ol_store_weights(&store));
		known.right_states[shard][step] = state_hash(&geo, content);
		if (step == cluster.scenario.pushes)
			break;
		for (uint32_t w = 0; w < cluster.scenario.workers; w++) {
			contributions[w] =
				(struct ol_contribution){ .grad = format_gradient(grads, w, step,
										  whole, shard),
							  .seq = step + 1,
							  .grads = 1,
							  .scale = 1.0f,
							  .weight = worker_weight(w, step),
							  .worker = w };
		}
		expect_rule(&store, step, &next);
		ol_store_apply(&store, contributions, cluster.scenario.workers,
			       (unsigned)ol_store_target(&store, 0));
	}
	memcpy(known.expected + geo.shard_first, ol_store_weights(&store), geo.shard_len * 4);
	__real_free(whole);
	__real_free(grads);
	__real_free(memory);
}

void check_begin(void)
{
	memset(&known, 0, sizeof(known));
	known.first = sim_alloc(cluster.params * sizeof(*known.first));
	known.expected = sim_alloc(cluster.params * sizeof(*known.expected));
	turns_begin();
	saved_begin();
	if (!cluster.scenario.exact)
		return;
	for (uint32_t i = 0; i < cluster.params; i++)
		known.first[i] = (float)sim_below(1000) / 500.0f - 1.0f;
	for (uint32_t k = 0; k < cluster.scenario.shards; k++)
		expect_shard(k);
}

/* ---- content ---- */

/* A push takes effect once, and the table counts what is there */
static void check_once(const char *who, uint32_t shard, uint64_t version, const void *table,
		       const float *weights)
{
	const struct ol_applied *applied =
		(const struct ol_applied *)(const void *)((const uint8_t *)table +
							  sizeof(struct ol_snapshot_head));
	uint64_t sum = 0;

	for (uint32_t w = 0; w < cluster.ids; w++) {
		uint64_t ones = 0;

		sum += applied[w].grads;
		if (cluster.scenario.exact)
			continue;
		for (uint32_t i = 0; i < cluster.pushes_max; i++) {
			float value = weights[worker_mark(w, i)];

			if (value != 0.0f && !turns_took_effect(value))
				sim_fail("check_once",
					 "%s, shard %u, version %llu: push %u of worker %u took "
					 "effect %g times",
					 who, shard, (unsigned long long)version, i, w,
					 (double)value);
			ones += value != 0.0f;
		}
		if (ones > applied[w].grads || (ones < applied[w].grads && known.mixed[shard] == 0))
			sim_fail("check_once",
				 "%s, shard %u, version %llu: %llu gradients of worker %u are in "
				 "the weights, the table says %llu",
				 who, shard, (unsigned long long)version, (unsigned long long)ones,
				 w, (unsigned long long)applied[w].grads);
	}
	if (sum < version && !turns_lacks())
		sim_fail("check_once", "%s, shard %u: version %llu has %llu gradients", who, shard,
			 (unsigned long long)version, (unsigned long long)sum);
}

static struct history *history_of(uint32_t shard, uint32_t id)
{
	struct history *history;

	for (uint32_t i = 0; i < known.history_count; i++) {
		if (known.histories[i]->shard == shard && known.histories[i]->id == id)
			return known.histories[i];
	}
	if (known.history_count == HISTORIES_MAX)
		return NULL;
	history = sim_alloc(sizeof(*history));
	history->shard = shard;
	history->id = id;
	known.histories[known.history_count++] = history;
	return history;
}

/* One version, one content */
static void check_whole(const char *who, uint32_t shard, uint32_t id, uint64_t version,
			uint64_t sum)
{
	struct history *history = history_of(shard, id);

	if (version >= versions_max())
		sim_fail("check_whole", "%s, shard %u: version %llu, there are no so many pushes",
			 who, shard, (unsigned long long)version);
	if (cluster.scenario.every != 0 || history == NULL)
		return;
	if (history->hashes[version] == 0)
		history->hashes[version] = sum;
	else if (history->hashes[version] != sum)
		sim_fail("check_whole",
			 "%s, shard %u: version %llu of history %u is not what it was", who, shard,
			 (unsigned long long)version, id);
}

static void check_right(const char *who, const struct ol_geometry *geo, uint64_t version,
			const void *table, const float *weights)
{
	if (cluster.scenario.exact && version < VERSIONS_MAX && known.mixed[geo->shard] == 0 &&
	    right_hash(geo, table, weights) != known.right[geo->shard][version])
		sim_fail("check_whole", "%s, shard %u: version %llu is not what it should be", who,
			 geo->shard, (unsigned long long)version);
}

/* ---- checkpoints ---- */

/* The history, of this id or any (0), in which a version had this content; NULL: in none */
static struct history *published(const struct ol_geometry *geo, uint32_t id, uint64_t version,
				 const void *content, bool with_state)
{
	const float *weights = (const float *)(const void *)((const uint8_t *)content +
							     ol_layout_table_bytes(geo));
	uint64_t sum = content_hash(geo, content, weights), state = state_hash(geo, content);

	for (uint32_t i = 0; i < known.history_count && version < VERSIONS_MAX; i++) {
		struct history *history = known.histories[i];

		if (history->shard == geo->shard && (id == 0 || history->id == id) &&
		    history->hashes[version] == sum &&
		    (!with_state || geo->state_vectors == 0 || history->states[version] == state))
			return history;
	}
	return NULL;
}

bool check_published(const struct ol_geometry *geo, uint32_t id, uint64_t version,
		     const void *content, bool with_state)
{
	/* of a chain states are not noted */
	return known.history_count == HISTORIES_MAX ||
	       published(geo, id, version, content, with_state && !cluster.scenario.chain) != NULL;
}

void check_mixed(const struct ol_ckpt_meta *meta, const void *content)
{
	const float *weights = (const float *)(const void *)((const uint8_t *)content +
							     ol_layout_table_bytes(&meta->geo));
	struct history *history;

	if (meta->version == 0 || meta->version >= VERSIONS_MAX ||
	    check_published(&meta->geo, meta->epoch, meta->version, content, true))
		return;
	sim_say("its blocks are of several versions");
	known.mixed[meta->geo.shard]++;
	history = history_of(meta->geo.shard, MIXED_ID + known.mixed[meta->geo.shard]);
	if (history == NULL)
		return;
	history->hashes[meta->version] = content_hash(&meta->geo, content, weights);
	history->states[meta->version] = state_hash(&meta->geo, content);
}

bool check_is_mixed(uint32_t shard)
{
	return known.mixed[shard] > 0;
}

/* ---- servers ---- */

/* Newest version that is there for good */
static uint64_t final_of(const struct ol_server *server)
{
	if (server->opts.coordinator == NULL)
		return server->store.version;
	return server->replica.chain.committed < server->store.version
		       ? server->replica.chain.committed
		       : server->store.version;
}

static uint32_t history_id(const struct ol_server *server)
{
	return server->opts.coordinator != NULL ? server->replica.chain.view.founded
						: server->opts.epoch;
}

/* What a server by itself begins with, somebody had published */
static void check_restored(const struct server_slot *slot, const void *content)
{
	const struct ol_server *server = slot->server;
	bool with_state = server->opts.restore != OL_RESTORE_MIRROR || cluster.scenario.exact;

	if (server->opts.coordinator == NULL && server->store.version > 0 &&
	    known.history_count < HISTORIES_MAX &&
	    published(&server->store.geo, 0, server->store.version, content, with_state) == NULL)
		sim_fail("check_restored", "%s begins with a version %llu that nobody published",
			 slot->addr, (unsigned long long)server->store.version);
}

static void states_note(const struct ol_server *server, const void *content)
{
	struct history *history;
	uint64_t version = server->store.version, sum = state_hash(&server->store.geo, content);

	if (server->store.geo.state_vectors == 0 || version >= VERSIONS_MAX)
		return;
	if (cluster.scenario.exact && known.mixed[server->opts.shard] == 0 &&
	    sum != known.right_states[server->opts.shard][version])
		sim_fail("check_whole", "%s: the optimizer's state of version %llu is not right",
			 server->addr, (unsigned long long)version);
	history = server->opts.coordinator != NULL
			  ? NULL
			  : history_of(server->opts.shard, server->opts.epoch);
	if (history != NULL)
		history->states[version] = sum;
}

void check_content(struct server_slot *slot)
{
	const struct ol_server *server = slot->server;
	const struct ol_store *store = &server->store;
	uint64_t version = store->version, last;

	if (server->restoring.active ||
	    (server->opts.coordinator != NULL && !server->replica.chain.loaded)) {
		slot->hashed = slot->agreed = 0;
		return;
	}
	if (slot->hashed != version + 1) {
		const uint8_t *content = ol_store_content(store, store->snapshot);

		check_once(slot->addr, slot->shard, version, content, ol_store_weights(store));
		check_right(slot->addr, &store->geo, version, content, ol_store_weights(store));
		if (slot->hashed == 0)
			check_restored(slot, content);
		if (slot->hashed == 0)
			mirrors_on_ready(slot, ol_store_weights(store));
		states_note(server, content);
		slot->hashes[version % VERSIONS_MAX] =
			content_hash(&store->geo, content, ol_store_weights(store));
		if (slot->hashed == 0 || slot->hashed > version + 1)
			slot->agreed = version; /* it began with these */
		slot->hashed = version + 1;
		if (slot->agreed == version)
			slot->agreed = version - (version > 0);
	}
	last = final_of(server);
	while (slot->agreed < last) {
		slot->agreed++;
		check_whole(slot->addr, slot->shard, history_id(server), slot->agreed,
			    slot->hashes[slot->agreed % VERSIONS_MAX]);
	}
}

/* One head an epoch */
static void check_fenced(const struct server_slot *slot)
{
	const struct ol_server *server = slot->server;
	const struct ol_chain *chain = &server->replica.chain;

	if (server->opts.coordinator == NULL || !ol_chain_is_head(chain))
		return;
	if (chain->view.epoch > known.heads[slot->shard]) {
		known.heads[slot->shard] = chain->view.epoch;
		known.head_ids[slot->shard] = chain->id;
	} else if (chain->view.epoch == known.heads[slot->shard] &&
		   chain->id != known.head_ids[slot->shard]) {
		sim_fail("check_fenced", "shard %u, epoch %u has two heads", slot->shard,
			 chain->view.epoch);
	}
}

static void life_add(const struct server_slot *slot)
{
	if (known.life_count == LIVES_MAX ||
	    (known.life_count > 0 && known.lives[known.life_count - 1].process == slot->process))
		return;
	for (uint32_t i = 0; i < known.life_count; i++) {
		if (known.lives[i].process == slot->process)
			return;
	}
	known.lives[known.life_count].process = slot->process;
	known.lives[known.life_count++].id = slot->server->incarnation;
}

void check_landing(const struct sim_process *from, const struct sim_process *to, const uint8_t *at)
{
	const struct ol_server *server = NULL;
	const struct ol_member *pred;
	const uint8_t *ring;
	uint64_t id = 0;

	for (uint32_t i = 0; i < cluster.server_count; i++) {
		if (cluster.servers[i].process == to)
			server = cluster.servers[i].server;
	}
	if (server == NULL || server->opts.coordinator == NULL ||
	    server->replica.chain.view.epoch == 0)
		return;
	ring = server->replica.ring.slab->addr;
	/* a hello may come from whoever thinks that it is the next */
	if (at < ring + OL_PAGE_BYTES || at >= ring + server->replica.ring.bytes)
		return;
	for (uint32_t i = 0; i < known.life_count; i++) {
		if (known.lives[i].process == from)
			id = known.lives[i].id;
	}
	if (server->opts.epoch < server->replica.chain.view.epoch && server->replica.end_rc == 0)
		return; /* it is about to cut that one off */
	pred = ol_view_predecessor(&server->replica.chain.view, server->incarnation);
	if (pred == NULL || pred->id != id)
		sim_fail("check_fenced",
			 "%s writes entries to %s, which has adopted epoch %u, where it is not its "
			 "predecessor",
			 sim_process_name(from), sim_process_name(to),
			 server->replica.chain.view.epoch);
}

static void check_bounded(const struct server_slot *slot)
{
	const struct ol_server *server = slot->server;
	const struct ol_chain *chain = &server->replica.chain;
	size_t bytes = sim_process_bytes(slot->process);

	if (server->ingest.queue_count > server->ingest.queue_size ||
	    server->ingest.batch_count > server->opts.workers_max)
		sim_fail("check_bounded", "%s: %u in the queue, %u in the batch", slot->addr,
			 server->ingest.queue_count, server->ingest.batch_count);
	if ((server->kind == &ol_chain_strict) &&
	    chain->received - ol_chain_newest_free(chain) > chain->slots)
		sim_fail("check_bounded", "%s: the ring of %u holds %llu to %llu", slot->addr,
			 chain->slots, (unsigned long long)ol_chain_newest_free(chain),
			 (unsigned long long)chain->received);
	if ((server->kind == &ol_chain_strict) && server->replica.ring.oldest > chain->received + 1)
		sim_fail(
			"check_bounded",
			"%s: its ring begins at %llu, and it has %llu: successors would be refused",
			slot->addr, (unsigned long long)server->replica.ring.oldest,
			(unsigned long long)chain->received);
	if (bytes > PROCESS_BYTES_MAX * (cluster.scenario.parts_floats != 0 ? 2 : 1))
		sim_fail("check_bounded", "%s holds %zu bytes", slot->addr, bytes);
}

/* All that count have what was shown */
static void check_committed(uint32_t shard)
{
	const struct ol_view *view = coord_view(shard);

	if (!strict_chain() || view == NULL || view->founded != known.shown[shard].founded)
		return;
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		const struct ol_server *server = cluster.servers[i].server;
		int at;

		if (server == NULL || cluster.servers[i].shard != shard)
			continue;
		at = ol_view_find(view, server->incarnation);
		if (at < 0 || (uint32_t)at >= view->count ||
		    server->replica.chain.view.founded != view->founded)
			continue;
		if (server->replica.chain.received < known.shown[shard].version)
			sim_fail("check_committed",
				 "%s counts in epoch %u and has %llu; %llu is committed",
				 cluster.servers[i].addr, view->epoch,
				 (unsigned long long)server->replica.chain.received,
				 (unsigned long long)known.shown[shard].version);
	}
}

void check_server(struct server_slot *slot)
{
	if (slot->server == NULL)
		return;
	cluster.checks++;
	life_add(slot);
	check_content(slot);
	check_fenced(slot);
	check_bounded(slot);
	check_committed(slot->shard);
	rival_check(slot);
}

/* ---- workers ---- */

static void check_accounts(const struct worker_slot *slot)
{
	struct ol_link_stat stat;

	for (uint32_t k = 0; k < cluster.scenario.shards; k++) {
		uint64_t gone;

		if (ol_link_get_stat(slot->worker, k, &stat) != 0)
			return;
		gone = stat.applied + stat.nonfinite + stat.late + stat.queue_dropped + stat.lost;
		if (gone + stat.pending != stat.pushed || stat.pending > stat.pushed ||
		    stat.pushed > slot->made[k] || stat.pushed + slot->pushing < slot->made[k])
			sim_fail(
				"check_accounts",
				"worker %u, shard %u: of %llu pushes (it made %u) %llu are applied, "
				"%llu late, %llu lost, %llu dropped by the queue",
				slot->index, k, (unsigned long long)stat.pushed, slot->made[k],
				(unsigned long long)stat.applied, (unsigned long long)stat.late,
				(unsigned long long)stat.lost,
				(unsigned long long)stat.queue_dropped);
		if (stat.nonfinite != 0 || (stat.late != 0 && !turns_late()) ||
		    (stat.lost != 0 && cluster.scenario.every == 0 && !cluster.scenario.back &&
		     !cluster.scenario.mirrors && !worker_may_withdraw(slot)))
			sim_fail("check_accounts",
				 "worker %u, shard %u: %llu lost, %llu late, %llu not finite",
				 slot->index, k, (unsigned long long)stat.lost,
				 (unsigned long long)stat.late, (unsigned long long)stat.nonfinite);
	}
}

void check_worker(struct worker_slot *slot)
{
	const struct ol_worker *worker = slot->worker;

	if (worker == NULL || !worker->started)
		return;
	cluster.checks++;
	check_accounts(slot);
	mirrors_on_turn(slot);
	for (uint32_t k = 0; k < worker->link_count && strict_chain(); k++) {
		const struct ol_link *link = &worker->links[k];

		if (link->reader->dial.state != OL_DIAL_LIVE)
			continue;
		if (known.shown[k].founded < link->founded) {
			known.shown[k].founded = link->founded;
			known.shown[k].version = 0;
		}
		if (known.shown[k].founded == link->founded &&
		    known.shown[k].version < link->version) {
			known.shown[k].version = link->version;
			check_committed(k);
		}
	}
}

static void check_monotone(struct worker_slot *slot, uint32_t shard, uint32_t id, uint64_t version)
{
	if (cluster.scenario.every == 0 &&
	    (id < slot->histories[shard] ||
	     (id == slot->histories[shard] && version < slot->versions[shard])))
		sim_fail("check_monotone",
			 "worker %u, shard %u: version %llu of history %u after %llu of %u",
			 slot->index, shard, (unsigned long long)version, id,
			 (unsigned long long)slot->versions[shard], slot->histories[shard]);
	slot->histories[shard] = id;
	slot->versions[shard] = version;
}

void check_pull(struct worker_slot *slot)
{
	const struct ol_worker *worker = slot->worker;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	char who[32];

	snprintf(who, sizeof(who), "a pull of worker %u", slot->index);
	for (uint32_t k = 0; k < worker->link_count; k++) {
		const struct ol_link *link = &worker->links[k];
		const float *weights = mirror->weights + link->geo.shard_first;
		uint64_t version = mirror->versions[k];

		check_once(who, k, version, mirror->applied[k], weights);
		check_right(who, &link->geo, version, mirror->applied[k], weights);
		check_whole(who, k, mirror->histories[k], version,
			    content_hash(&link->geo, mirror->applied[k], weights));
		check_monotone(slot, k, mirror->histories[k], version);
	}
	mirrors_on_pull(slot);
	sim_say("pulled %llu of history %u", (unsigned long long)mirror->versions[0],
		mirror->histories[0]);
}

/* What was done may be pushed again to a server that begins with older weights, and be late */
static bool late_again(void)
{
	bool waits = cluster.scenario.wait != OL_WAIT_ALL ||
		     (cluster.scenario.sync && cluster.scenario.outage == OL_OUTAGE_CONTINUE);

	return waits && (!cluster.scenario.chain || cluster.scenario.refound);
}

/* What was done may be gone all the same: by rollback, by blocks of several versions, or late */
static bool excused(uint32_t shard)
{
	return cluster.scenario.back || cluster.scenario.every != 0 || known.mixed[shard] > 0 ||
	       late_again();
}

/*
 * May a push that was done be gone? Of a worker that lives it is counted as lost then. Where a
 * server waits for ever for its workers only what a worker that has died was told is.
 */
static bool may_be_gone(const struct worker_slot *slot, uint32_t push, uint32_t shard)
{
	return (slot->pushes[push].missed >> shard & 1) != 0 &&
	       (!cluster.scenario.returns || push < slot->first);
}

/* A push that was done, and was not dropped, is in the weights */
static void check_done(const struct worker_slot *slot, uint32_t shard, const float *weights)
{
	const float *own = weights + worker_mark(slot->index, 0);

	for (uint32_t i = 0; i < slot->next; i++) {
		const struct push *push = &slot->pushes[i];

		if (!push->done || push->status != 0 || push->local ||
		    (push->span >> shard & 1) == 0)
			continue;
		if (own[i] == 0.0f && may_be_gone(slot, i, shard))
			cluster.excused = true;
		else if (own[i] == 0.0f)
			sim_fail("check_committed",
				 "shard %u: push %u of worker %u was done and is not there", shard,
				 i, slot->index);
	}
}

/* What a worker counts as applied is what is there of it */
static void check_applied(const struct worker_slot *slot, uint32_t shard, const float *weights)
{
	const float *own = weights + worker_mark(slot->index, 0);
	struct ol_link_stat stat;
	uint64_t ones = 0;

	for (uint32_t i = slot->first; i < slot->next; i++)
		ones += own[i] != 0.0f;
	if (ol_link_get_stat(slot->worker, shard, &stat) == 0 && stat.applied != ones)
		sim_fail("check_accounts",
			 "worker %u, shard %u: it counts %llu as applied, %llu are in the weights",
			 slot->index, shard, (unsigned long long)stat.applied,
			 (unsigned long long)ones);
}

void check_finished(struct worker_slot *slot)
{
	const struct ol_worker *worker = slot->worker;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	struct ol_link_stat stat;
	bool mixed = false;

	for (uint32_t i = slot->first; i < slot->next; i++) {
		if (!slot->pushes[i].done)
			sim_fail("check_converged", "worker %u: push %u is not done after a flush",
				 slot->index, i);
	}
	for (uint32_t k = 0; k < worker->link_count; k++) {
		if (ol_link_get_stat(slot->worker, k, &stat) == 0 && stat.pending != 0)
			sim_fail("check_converged", "worker %u: %llu are pending after a flush",
				 slot->index, (unsigned long long)stat.pending);
		mixed = mixed || known.mixed[k] > 0;
		if (cluster.scenario.exact)
			continue;
		cluster.excused |= excused(k);
		if (cluster.scenario.every != 0 || known.mixed[k] > 0)
			continue;
		if (!excused(k) && !turns_unknown())
			check_done(slot, k, mirror->weights + cluster_first(k));
		check_late(slot, mirror->weights);
		check_applied(slot, k, mirror->weights + cluster_first(k));
	}
	if (cluster.scenario.exact && !mixed &&
	    memcmp(mirror->weights, known.expected, cluster.params * sizeof(float)) != 0)
		sim_fail("check_whole",
			 "worker %u: the last weights are not bit for bit those of "
			 "an undisturbed run",
			 slot->index);
}

/* ---- observers ---- */

void check_counters(struct observer_slot *slot, uint32_t shard, const struct ol_server_stat *stat)
{
	const struct ol_server_stat *seen = &slot->seen[shard];
	uint64_t pushed = 0;

	for (uint32_t w = 0; w < cluster.scenario.workers; w++)
		pushed += cluster.workers[w].next;
	if (stat->version >= versions_max() || stat->applied > pushed)
		sim_fail("check_counters", "shard %u: version %llu, %llu applied of %llu", shard,
			 (unsigned long long)stat->version, (unsigned long long)stat->applied,
			 (unsigned long long)pushed);
	/* one server, one epoch: all goes up */
	if (seen->heartbeat != 0 && seen->replica == stat->replica && seen->epoch == stat->epoch &&
	    seen->ready_ns == stat->ready_ns &&
	    (stat->version < seen->version || stat->heartbeat < seen->heartbeat ||
	     stat->checkpoints < seen->checkpoints))
		sim_fail("check_counters",
			 "shard %u: version %llu after %llu, heartbeat %llu after %llu", shard,
			 (unsigned long long)stat->version, (unsigned long long)seen->version,
			 (unsigned long long)stat->heartbeat, (unsigned long long)seen->heartbeat);
	slot->seen[shard] = *stat;
}

void check_observed(const struct ol_worker *worker)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	for (uint32_t k = 0; k < worker->link_count; k++) {
		const struct ol_link *link = &worker->links[k];
		const float *weights = mirror->weights + link->geo.shard_first;

		check_once("the observer", k, mirror->versions[k], mirror->applied[k], weights);
		check_right("the observer", &link->geo, mirror->versions[k], mirror->applied[k],
			    weights);
		check_whole("the observer", k, mirror->histories[k], mirror->versions[k],
			    content_hash(&link->geo, mirror->applied[k], weights));
	}
}

void check_own(void)
{
	for (uint32_t i = 0; sim_process_self() != NULL && i < cluster.server_count; i++) {
		if (cluster.servers[i].process == sim_process_self() &&
		    cluster.servers[i].server != NULL)
			check_content(&cluster.servers[i]);
	}
}
