/* SPDX-License-Identifier: BSD-3-Clause */

/* mutate.c -- calls between rooms of the product that a mutation changes on their way */

#include "sim/world/mutate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/backend.h"
#include "checkpoint/format.h"
#include "rdma/order.h"
#include "server/server.h"
#include "sim/world/check.h"
#include "sim/world/cluster.h"
#include "sim/world/disk.h"
#include "sim/world/fault.h"
#include "sim/world/wrap.h"
#include "store/kernels.h"
#include "wire/seq.h"
#include "worker/worker_internal.h"

enum {
	GRADS_MAX = 64
};

WRAP(struct ol_applied, ol_store_applied, const struct ol_store *store, uint32_t worker);
WRAP(void, ol_store_restore, struct ol_store *store, uint32_t snapshot, uint64_t version,
     bool with_state);
WRAP(int, ol_replica_open, struct ol_replica *replica, char *err, size_t err_bytes);
WRAP(uint64_t, ol_chain_caught_up, const struct ol_chain *chain);
WRAP(int, ol_chain_may_order, const struct ol_chain *chain);
WRAP(int, ol_ring_open, struct ol_ring *ring, const struct ol_xport_ops *xops,
     struct ol_xport *xport, struct ol_memory *memory, const struct ol_geometry *geo, int node);
WRAP(void, ol_push_to, struct ol_link *link, uint32_t index, const struct ol_push_hdr *hdr);
WRAP(void, ol_peer_on_up, struct ol_peer *peer, const struct ol_xport_event *event,
     uint64_t now_ns);
WRAP(void, ol_keep_resolved, struct ol_link *link, struct ol_grad *grad, int status);
WRAP(int, ol_keep_on_head_up, struct ol_link *link, uint64_t resolved_seq);
WRAP(void, ol_keep_on_reader_up, struct ol_link *link, const struct ol_applied *resolved);
WRAP(const struct ol_kernels *, ol_kernels_best, void);
WRAP(int, ol_ckpt_write, const char *dir, const struct ol_ckpt_meta *meta, const void *content,
     uint32_t keep, char *err, size_t err_bytes);
WRAP(int, ol_ckpt_read_newest, const char *dir, struct ol_ckpt_meta *meta, void *content);
WRAP(int, ol_ckpt_load_content, const struct ol_ckpt_file *file,
     const struct ol_ckpt_header *header, uint8_t **ret_content, char *why);
WRAP(uint64_t, ol_replica_lease_ns, const struct ol_replica *replica);
WRAP(void, ol_membership_suspect, struct ol_replica *replica, enum ol_neighbour who,
     const char *why, uint64_t now_ns);
WRAP(unsigned, ol_save_pinned, struct ol_saving *saving);
WRAP(void, ol_save_progress, struct ol_saving *saving, uint64_t now_ns, uint64_t most);
WRAP(void, ol_memory_ask, struct ol_memory *memory, struct ol_memory_job *job,
     enum ol_memory_work work);
WRAP(void, ol_payload_drop, struct ol_replica *replica);
WRAP(uint64_t, ol_early_take, struct ol_ingest *ingest);

static enum mutation chosen;

static const char *const names[MUTATE_COUNT] = {
	[MUTATE_NOTHING] = "nothing",
	[MUTATE_NO_FENCE] = "no-fence",
	[MUTATE_NO_READ_FENCE] = "no-read-fence",
	[MUTATE_BELL_FIRST] = "bell-first",
	[MUTATE_NO_DEDUP] = "no-dedup",
	[MUTATE_EARLY_ACK] = "early-ack",
	[MUTATE_LOST_TABLE] = "lost-table",
	[MUTATE_EARLY_PUBLISH] = "early-publish",
	[MUTATE_EARLY_TAIL] = "early-tail",
	[MUTATE_REPLAY_TWICE] = "replay-twice",
	[MUTATE_KEEP_NOTHING] = "keep-nothing",
	[MUTATE_REAPPLY] = "apply-twice",
	[MUTATE_RENAME_FIRST] = "rename-first",
	[MUTATE_NO_FOLDER_SYNC] = "no-folder-sync",
	[MUTATE_FILE_TABLE] = "lost-table-file",
	[MUTATE_NO_CRC] = "no-crc",
	[MUTATE_NO_PIN] = "no-pin",
	[MUTATE_LOST_STATE] = "lost-state",
	[MUTATE_LATE_TWICE] = "late-twice",
	[MUTATE_NO_BOUND] = "no-bound",
	[MUTATE_TOO_FEW] = "too-few",
	[MUTATE_NO_GRACE] = "no-grace",
	[MUTATE_BELOW_QUORUM] = "below-quorum",
	[MUTATE_HELD_UP] = "held-up",
	[MUTATE_BOTH_COPIES] = "both-copies",
	[MUTATE_NO_BLOCK_CRC] = "no-block-crc",
	[MUTATE_TABLE_FIRST] = "table-first",
	[MUTATE_NO_PLACE] = "no-block-place",
	[MUTATE_NO_SELF_FENCE] = "no-self-fence",
	[MUTATE_LEASE_TWICE] = "lease-twice",
	[MUTATE_OLDER_EPOCH] = "older-epoch",
	[MUTATE_SESSION_FOR_EVER] = "session-for-ever",
	[MUTATE_WAITS_FOR_ALL] = "waits-for-all",
	[MUTATE_ANY_MIRROR] = "any-mirror",
	[MUTATE_ONE_NUMBERING] = "one-numbering",
	[MUTATE_FORGETS] = "coordinator-forgets",
	[MUTATE_ADMIT_IN_LOOP] = "admit-in-loop",
	[MUTATE_NEWCOMER_COUNTS] = "newcomer-counts",
	[MUTATE_SHARED_BUFFERS] = "shared-buffers",
	[MUTATE_NO_WITHDRAW] = "no-withdraw",
	[MUTATE_SESSION_LONG] = "session-long",
	[MUTATE_SECOND] = "second-of-a-step",
	[MUTATE_AT_ONCE] = "suspects-at-once",
	[MUTATE_KEEPS_PAYLOAD] = "keeps-payload",
	[MUTATE_NO_RECALL] = "no-recall",
	[MUTATE_TAKES_ANY] = "takes-any",
	[MUTATE_FORGETS_RULE] = "forgets-rule",
	[MUTATE_ENCODES_AGAIN] = "encodes-again",
	[MUTATE_PUSHES_ALL] = "pushes-all",
	[MUTATE_NO_COPY] = "no-copy",
	[MUTATE_OLDEST_BASE] = "oldest-base",
	[MUTATE_ORDER_FULL] = "order-full",
	[MUTATE_ORDER_BLIND] = "order-blind",
	[MUTATE_SAVES_EARLY] = "saves-early",
	[MUTATE_HELD_LOOSE] = "held-loose",
	[MUTATE_ANSWERS_OVER] = "answers-over",
	[MUTATE_UNEVEN] = "uneven",
	[MUTATE_DECIDES_ALONE] = "decides-alone",
	[MUTATE_NO_ORPHANS] = "no-orphans",
	[MUTATE_FIRST_SHARD_FIRST] = "shard-0-first",
	[MUTATE_LEFT_COUNTS] = "left-counts",
	[MUTATE_NO_INTRODUCTION] = "no-introduction",
	[MUTATE_LENDS_ALL] = "lends-all",
	[MUTATE_LENDS_ANY] = "lends-any",
	[MUTATE_CARRIES_ALONE] = "carries-alone",
	[MUTATE_CARRIED_DIES] = "carried-dies",
	[MUTATE_PARTS_APART] = "parts-apart",
};

void mutate_set(enum mutation mutation)
{
	chosen = mutation;
}

bool mutation(enum mutation mutation)
{
	return chosen == mutation;
}

const char *mutate_name(unsigned index)
{
	return names[index];
}

enum mutation mutate_find(const char *name)
{
	unsigned i = 0;

	while (i < MUTATE_COUNT && strcmp(names[i], name) != 0)
		i++;
	return (enum mutation)i;
}

struct ol_applied __wrap_ol_store_applied(const struct ol_store *store, uint32_t worker)
{
	if (mutation(MUTATE_NO_DEDUP))
		return (struct ol_applied){ 0 };
	return __real_ol_store_applied(store, worker);
}

void __wrap_ol_store_restore(struct ol_store *store, uint32_t snapshot, uint64_t version,
			     bool with_state)
{
	if (mutation(MUTATE_LOST_TABLE))
		memset(ol_store_content(store, snapshot), 0, ol_layout_table_bytes(&store->geo));
	if (mutation(MUTATE_FORGETS_RULE))
		memset((uint8_t *)ol_store_content(store, snapshot) +
			       ol_layout_rule_off(&store->geo),
		       0, ol_layout_rule_bytes(&store->geo));
	if (mutation(MUTATE_LOST_STATE))
		with_state = false;
	__real_ol_store_restore(store, snapshot, version, with_state);
}

/* ---- checkpoints ---- */

int __wrap_ol_ckpt_write(const char *dir, const struct ol_ckpt_meta *meta, const void *content,
			 uint32_t keep, char *err, size_t err_bytes)
{
	struct ol_ckpt_name name = ol_ckpt_name_of(meta);
	uint32_t place = sim_process_place(sim_process_self());
	char text[OL_CKPT_NAME_MAX];
	int rc;

	check_saved(meta, content);
	if (mutation(MUTATE_FILE_TABLE)) /* the writer's own copy */
		memset((uint8_t *)(uintptr_t)content, 0, ol_layout_table_bytes(&meta->geo));
	rc = __real_ol_ckpt_write(dir, meta, content, keep, err, err_bytes);
	sim_say("checkpoint of epoch %u, version %llu: %d", meta->epoch,
		(unsigned long long)meta->version, rc);
	if (rc != 0)
		return rc;
	ol_ckpt_name_format(&name, text);
	disk_promise(place, text, meta->epoch, meta->version);
	return 0;
}

int __wrap_ol_ckpt_read_newest(const char *dir, struct ol_ckpt_meta *meta, void *content)
{
	uint32_t place = sim_process_place(sim_process_self());
	uint64_t failures = disk_read_failures(place) + sim_memory_fails();
	int rc = __real_ol_ckpt_read_newest(dir, meta, content);

	/* what fails is said: nothing older is read in its place */
	check_loaded(rc, meta, content,
		     rc != 0 && disk_read_failures(place) + sim_memory_fails() != failures);
	return rc;
}

int __wrap_ol_ckpt_load_content(const struct ol_ckpt_file *file,
				const struct ol_ckpt_header *header, uint8_t **ret_content,
				char *why)
{
	size_t bytes = ol_ckpt_padded_bytes(header), at = 0;
	uint8_t *content;
	ssize_t got = 1;

	if (!mutation(MUTATE_NO_CRC))
		return __real_ol_ckpt_load_content(file, header, ret_content, why);
	content = calloc(1, bytes);
	while (content != NULL && at < bytes && got != 0) {
		got = pread(file->at, content + at, bytes - at,
			    (off_t)(ol_ckpt_content_off(header) + at));
		at += got > 0 ? (size_t)got : 0;
	}
	*ret_content = content;
	return content != NULL ? 0 : -ENOMEM;
}

unsigned __wrap_ol_save_pinned(struct ol_saving *saving)
{
	unsigned pinned = __real_ol_save_pinned(saving);

	if (mutation(MUTATE_HELD_LOOSE) && saving->held != 0)
		return 0;
	return mutation(MUTATE_NO_PIN) ? 0 : pinned;
}

void __wrap_ol_save_progress(struct ol_saving *saving, uint64_t now_ns, uint64_t most)
{
	if (mutation(MUTATE_SAVES_EARLY) && most != OL_SAVE_NONE)
		most = OL_SAVE_ALL;
	__real_ol_save_progress(saving, now_ns, most);
}

/* ---- neighbours that are lost ---- */

bool mutate_needs_blips(enum mutation mutation)
{
	return mutation == MUTATE_AT_ONCE;
}

uint64_t __wrap_ol_replica_lease_ns(const struct ol_replica *replica)
{
	return mutation(MUTATE_AT_ONCE) ? 0 : __real_ol_replica_lease_ns(replica);
}

/* Where everybody is away for a moment at most, no neighbour takes another for dead that lives. What
 * a joining replica thinks does not count: it may not know the view yet. */
void __wrap_ol_membership_suspect(struct ol_replica *replica, enum ol_neighbour who,
				  const char *why, uint64_t now_ns)
{
	const struct ol_view *view = &replica->chain.view;
	const struct ol_member *member = who == OL_NEIGHBOUR_SUCCESSOR
						 ? ol_view_successor(view, replica->self.id)
						 : ol_view_predecessor(view, replica->self.id);

	for (uint32_t i = 0; fault_only_blips() && member != NULL &&
			     replica->chain.role != OL_CHAIN_JOINING && i < cluster.server_count;
	     i++) {
		const struct server_slot *slot = &cluster.servers[i];

		if (fault_well(slot) && slot->server->incarnation == member->id)
			sim_fail("check_kept", "%s suspects %s, which lives: %s", replica->addr,
				 member->addr, why != NULL ? why : "it left");
	}
	__real_ol_membership_suspect(replica, who, why, now_ns);
}

/* A head that is alone, and that has a successor in a view which it has yet to hear of */
uint64_t mutate_news_late_ns(const struct sim_process *process)
{
	for (uint32_t i = 0; mutation(MUTATE_ANSWERS_OVER) && i < cluster.server_count; i++) {
		const struct server_slot *slot = &cluster.servers[i];

		if (slot->process == process && slot->server != NULL &&
		    slot->server->replica.chain.role == OL_CHAIN_ONLY)
			return sim_between(0, cluster.scenario.lease_ms * SIM_MS);
	}
	return 0;
}

/* ---- the chain's actions ---- */

static const struct ol_replica_host *real_host; /* the server's own */

static int apply(void *arg, uint64_t version)
{
	struct ol_server *server = arg;
	struct ol_replica *replica = &server->replica;
	int rc = sim_ppm(sim_nature.apply_again_ppm) ? -EAGAIN : real_host->apply(arg, version);

	if (rc == 0 && mutation(MUTATE_REAPPLY) && replica->chain.role == OL_CHAIN_MIDDLE)
		rc = real_host->apply(arg, version);
	if (rc != 0 || !mutation(MUTATE_EARLY_ACK) || replica->chain.role != OL_CHAIN_HEAD)
		return rc;
	for (uint32_t i = 0; i < ol_ring_head(&replica->ring, version)->parts; i++) {
		const struct ol_entry_part *part = &ol_ring_parts(&replica->ring, version)[i];
		struct ol_session *session = &server->sessions.all[part->worker];

		if (session->state != OL_SESSION_LIVE)
			continue;
		session->slots[part->slot].seq = part->seq;
		session->slots[part->slot].status = 0;
		ol_ingest_ack(&server->ingest, session, part->slot, replica->now_ns);
	}
	return 0;
}

static void committed(void *arg, uint64_t version)
{
	struct ol_server *server = arg;
	const struct ol_ring *ring = &server->replica.ring;

	for (uint32_t i = 0;
	     mutation(MUTATE_ANSWERS_OVER) && i < ol_ring_head(ring, version)->parts; i++) {
		const struct ol_entry_part *part = &ol_ring_parts(ring, version)[i];
		struct ol_session *session = &server->sessions.all[part->worker];

		if (server->replica.chain.role == OL_CHAIN_ONLY &&
		    session->state == OL_SESSION_LIVE)
			session->slots[part->slot].busy = false;
	}
	real_host->committed(arg, version);
	check_own();
}

int __wrap_ol_replica_open(struct ol_replica *replica, char *err, size_t err_bytes)
{
	static struct ol_replica_host host;

	real_host = replica->host;
	host = *real_host;
	host.apply = apply;
	host.committed = committed;
	replica->host = &host;
	return __real_ol_replica_open(replica, err, err_bytes);
}

uint64_t __wrap_ol_chain_caught_up(const struct ol_chain *chain)
{
	const struct ol_member *next = ol_view_successor(&chain->view, chain->id);

	if (mutation(MUTATE_EARLY_TAIL) && ol_chain_is_tail(chain) && chain->succ_up &&
	    next != NULL)
		return next->id;
	return __real_ol_chain_caught_up(chain);
}

int __wrap_ol_chain_may_order(const struct ol_chain *chain)
{
	int rc = __real_ol_chain_may_order(chain);

	return rc == 0 && mutation(MUTATE_WAITS_FOR_ALL) && chain->view.count < chain->view.wanted
		       ? -EAGAIN
		       : rc;
}

/* Fewer than there is room for */
int __wrap_ol_ring_open(struct ol_ring *ring, const struct ol_xport_ops *xops,
			struct ol_xport *xport, struct ol_memory *memory,
			const struct ol_geometry *geo, int node)
{
	int rc = __real_ol_ring_open(ring, xops, xport, memory, geo, node);

	if (rc == 0 && sim_active() && cluster.scenario.ring_slots != 0)
		ring->slots = cluster.scenario.ring_slots;
	return rc;
}

/* ---- leases and epochs ---- */

static void lease_again(void *arg, uint64_t tag)
{
	struct server_slot *slot = arg;

	(void)tag;
	if (slot->server != NULL)
		slot->server->opts.lease_ms = cluster.scenario.lease_ms;
}

/* Its loop looks at the lease once, all else at every turn */
void mutate_lease(struct server_slot *slot)
{
	if (mutation(MUTATE_LEASE_TWICE))
		slot->server->opts.lease_ms *= 2;
	if (mutation(MUTATE_NO_SELF_FENCE))
		slot->server->opts.lease_ms = 3600 * 1000;
	sim_at(0, lease_again, slot, 0);
}

void __wrap_ol_peer_on_up(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns)
{
	if (mutation(MUTATE_OLDER_EPOCH))
		peer->since = peer->link->epoch = 0;
	__real_ol_peer_on_up(peer, event, now_ns);
}

void __wrap_ol_memory_ask(struct ol_memory *memory, struct ol_memory_job *job,
			  enum ol_memory_work work)
{
	__real_ol_memory_ask(memory, job, work);
	while (mutation(MUTATE_ADMIT_IN_LOOP) && work == OL_MEMORY_MAKE && ol_memory_work(memory))
		;
}

/* ---- the worker's memory of what it pushed ---- */

/* It goes on where the last process of its id ended, and counts that one's for nothing */
void mutate_numbers(struct worker_slot *slot)
{
	struct ol_worker *worker = slot->worker;

	if (!mutation(MUTATE_ONE_NUMBERING))
		return;
	worker->tag = 1;
	for (uint32_t k = 0; k < worker->link_count; k++) {
		uint64_t seq = 0;

		for (uint32_t p = 0; p < OL_PEERS; p++) {
			if (worker->links[k].peers[p].resolved_seq > seq)
				seq = worker->links[k].peers[p].resolved_seq;
		}
		worker->links[k].seq = ol_seq_make(1, ol_seq_count(seq));
		slot->grads[k] = 0;
		for (uint32_t i = 0; i < cluster.server_count; i++) {
			const struct ol_server *server = cluster.servers[i].server;

			if (server != NULL && cluster.servers[i].shard == k)
				slot->grads[k] =
					__real_ol_store_applied(&server->store, slot->index).grads;
		}
	}
}

void __wrap_ol_keep_on_reader_up(struct ol_link *link, const struct ol_applied *resolved)
{
	struct ol_applied told = *resolved;

	if (mutation(MUTATE_ONE_NUMBERING)) {
		uint64_t grads = cluster.workers[link->worker->opts.worker].grads[link->index];

		told.earlier = grads < told.grads ? grads : told.grads;
	}
	__real_ol_keep_on_reader_up(link, &told);
}

void __wrap_ol_keep_resolved(struct ol_link *link, struct ol_grad *grad, int status)
{
	__real_ol_keep_resolved(link, grad, status);
	if (!mutation(MUTATE_KEEP_NOTHING))
		return;
	grad->kept = 0;
	ol_keep_settle(link->worker, grad);
}

int __wrap_ol_keep_on_head_up(struct ol_link *link, uint64_t resolved_seq)
{
	int rc = __real_ol_keep_on_head_up(link, resolved_seq);

	for (uint32_t i = 0; mutation(MUTATE_ENCODES_AGAIN) && ol_worker_encodes(link->worker) &&
			     i < link->send_count;
	     i++)
		ol_worker_encode(link, link->send_queue[(link->send_head + i) % OL_SLOTS_MAX]);
	return rc;
}

/* From the queue; other pushes do not come by here */
void __wrap_ol_push_to(struct ol_link *link, uint32_t index, const struct ol_push_hdr *hdr)
{
	struct ol_grad *again = mutation(MUTATE_REPLAY_TWICE) ? ol_push_buffer(link->worker) : NULL;
	struct ol_worker *worker = link->worker;

	__real_ol_push_to(link, index, hdr);
	if (again == NULL)
		return;
	memcpy(again->data, worker->grads[index].data, link->geo.param_count * sizeof(float));
	again->state = OL_GRAD_PUSHED;
	__real_ol_push_to(link, (uint32_t)(again - worker->grads), hdr);
}

/* ---- updates that others see half-done ---- */

/* The words that say that a version is whole, before it is */
static void publish_early(const float *weights)
{
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		struct ol_server *server = cluster.servers[i].server;
		const uint8_t *at = (const uint8_t *)weights;

		if (cluster.servers[i].process != sim_process_self() || server == NULL)
			continue;
		for (uint32_t k = 0; k < OL_SNAPSHOTS; k++) {
			const uint8_t *content = ol_store_content(&server->store, k);

			if (at < content ||
			    at >= content + ol_layout_content_bytes(&server->store.geo))
				continue;
			ol_word_store(&server->store.board->line.end[k], server->store.version + 2);
			ol_word_store(&server->store.board->line.published,
				      ol_published_make(server->store.version + 1, k));
		}
	}
}

static unsigned update_range(const struct ol_kernel_args *args, size_t first, size_t count)
{
	struct ol_kernel_args part = *args;

	part.first += first;
	part.len = count;
	return __real_ol_kernels_best()->update(&part);
}

/* It takes its time; a server's loop stands still meanwhile */
static void takes(const struct ol_kernel_args *args, uint32_t byte_ps)
{
	if (byte_ps != 0 && sim_process_self() != NULL)
		sim_pause(args->len * sizeof(float) * byte_ps / 1000);
}

static unsigned gather(const struct ol_kernel_args *args)
{
	takes(args, args->grad_count * sim_nature.gather_ps);
	return __real_ol_kernels_best()->gather(args);
}

static unsigned update(const struct ol_kernel_args *args)
{
	size_t half = args->len / 2;
	unsigned done;

	takes(args, (args->grad_count - 1) * sim_nature.gather_ps + sim_nature.update_ps);
	if (args->grad_count > GRADS_MAX || half == 0 || sim_process_self() == NULL ||
	    !sim_ppm(sim_nature.kernel_ppm))
		return __real_ol_kernels_best()->update(args);
	done = update_range(args, 0, half);
	if (done != args->grad_count)
		return done;
	if (mutation(MUTATE_EARLY_PUBLISH))
		publish_early(args->new_weights);
	sim_pause(sim_between(0, 50 * SIM_US));
	return update_range(args, half, args->len - half);
}

const struct ol_kernels *__wrap_ol_kernels_best(void)
{
	static struct ol_kernels kernels;

	if (!sim_active())
		return __real_ol_kernels_best();
	kernels = *__real_ol_kernels_best();
	kernels.update = update;
	kernels.gather = gather;
	return &kernels;
}

void __wrap_ol_payload_drop(struct ol_replica *replica)
{
	if (mutation(MUTATE_KEEPS_PAYLOAD))
		return;
	__real_ol_payload_drop(replica);
	if (mutation(MUTATE_NO_RECALL))
		replica->succ.recall = OL_RECALL_NONE;
}

uint64_t __wrap_ol_early_take(struct ol_ingest *ingest)
{
	struct ol_early *early = &ingest->early;

	if (!mutation(MUTATE_TAKES_ANY) || !early->active ||
	    early->version != ingest->store->version)
		return __real_ol_early_take(ingest);
	early->active = false;
	return early->first;
}
