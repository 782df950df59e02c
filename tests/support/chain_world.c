/* SPDX-License-Identifier: BSD-3-Clause */

/* chain_world.c -- replicas and links of chain_world.h */

#include "support/chain_world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t world_below(struct world *world, uint32_t limit)
{
	/* xorshift64* */
	world->random ^= world->random >> 12;
	world->random ^= world->random << 25;
	world->random ^= world->random >> 27;
	return (uint32_t)(((world->random * 0x2545f4914f6cdd1dULL) >> 32) % limit);
}

bool world_chance(struct world *world, uint32_t percent)
{
	return world_below(world, 100) < percent;
}

void world_fail(struct world *world, const char *text, ...)
{
	va_list args;
	int used;

	if (world->failure[0] != '\0')
		return;
	used = snprintf(world->failure, WORLD_TEXT, "step %u: ", world->step);
	va_start(args, text);
	vsnprintf(world->failure + used, WORLD_TEXT - (size_t)used, text, args);
	va_end(args);
	world_say(world, "FAILED: %s", world->failure);
}

void world_say(const struct world *world, const char *text, ...)
{
	va_list args;

	if (!world->trace)
		return;
	printf("%6u ", world->step);
	va_start(args, text);
	vprintf(text, args);
	va_end(args);
	printf("\n");
}

void world_init(struct world *world, uint64_t seed, enum world_broken broken)
{
	memset(world, 0, sizeof(*world));
	world->random = (seed + 1) * 0x9e3779b97f4a7c15ULL;
	world->broken = broken;
	for (uint32_t i = 0; i < WORLD_PLACES; i++)
		world->processes[i].world = world;
}

bool queue_put(struct queue *queue, enum message_kind kind, uint64_t a, uint64_t b, uint64_t c)
{
	if (queue->count == WORLD_QUEUE)
		return false;
	queue->messages[(queue->first + queue->count++) % WORLD_QUEUE] =
		(struct message){ .kind = kind, .a = a, .b = b, .c = c };
	return true;
}

const struct message *queue_front(const struct queue *queue)
{
	return queue->count > 0 ? &queue->messages[queue->first] : NULL;
}

void queue_drop(struct queue *queue)
{
	queue->first = (queue->first + 1) % WORLD_QUEUE;
	queue->count--;
}

uint32_t place_of(const struct process *process)
{
	return (uint32_t)(process - process->world->processes);
}

void world_view_set(struct world *world, const struct ol_view *view)
{
	if (view->count > world->board.view.count)
		world->promotions++;
	if (view->count < world->board.view.count)
		world->removals++;
	world_step_view(world, &world->board.view, view);
	world->board.view = *view;
	world->board.version++;
	world_say(world, "epoch %u: %u replicas%s: %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
		  view->epoch, view->count, view->joining ? " and one that joins" : "",
		  view->replicas[0].id, view->replicas[1].id, view->replicas[2].id,
		  view->replicas[3].id);
	world_shown_check(world);
}

/* ---- rings ---- */

/* Does one that comes after it in the newest view lack `version`? */
static bool is_lacked(const struct process *process, uint64_t version)
{
	const struct world *world = process->world;
	const struct ol_view *view = &world->board.view;
	int place = ol_view_find(view, process->self.id);

	for (uint32_t i = 0; place >= 0 && i < WORLD_PLACES; i++) {
		const struct process *other = &world->processes[i];

		if (world_is_full(view, other) && ol_view_find(view, other->self.id) > place &&
		    other->chain.received < version)
			return true;
	}
	return false;
}

/* May `version`, which is in the ring, still be asked for? */
static bool is_needed(const struct process *process, uint64_t version)
{
	const struct ol_chain *chain = &process->chain;

	if (version == 0 || version > chain->received)
		return false;
	if (!chain->loaded)
		return version > process->content;
	return version > chain->applied || (chain->succ_up && version > chain->forwarded) ||
	       is_lacked(process, version);
}

static void ring_write(struct process *process, uint64_t version, uint32_t tag)
{
	struct world *world = process->world;
	struct slot *slot = &process->ring[version % world->slots];

	if (slot->version != version && is_needed(process, slot->version))
		world_fail(world, "replica %u: %" PRIu64 " overwrites %" PRIu64 ", which it needs",
			   place_of(process), version, slot->version);
	*slot = (struct slot){ .version = version, .tag = tag };
}

/* The entry as it is in the ring; it must be there */
static uint32_t ring_read(struct process *process, uint64_t version)
{
	const struct slot *slot = &process->ring[version % process->world->slots];

	if (slot->version != version)
		world_fail(process->world, "replica %u: %" PRIu64 " is no longer in the ring",
			   place_of(process), version);
	else if (version <= process->chain.received && slot->tag != process->tags[version])
		world_fail(process->world, "replica %u: %" PRIu64 " became another",
			   place_of(process), version);
	return slot->tag;
}

static uint64_t mix(uint64_t hash, uint32_t tag)
{
	return (hash ^ (tag + 0x9e3779b97f4a7c15ULL)) * 0xff51afd7ed558ccdULL;
}

static void log_put(struct process *process, uint64_t version, uint32_t tag)
{
	process->tags[version] = tag;
	process->hashes[version] = mix(process->hashes[version - 1], tag);
}

/* ---- links ---- */

static void entry_land(struct link *link, uint64_t version)
{
	if (link->to == NULL || link->from == NULL)
		return;
	ring_write(link->to, version, ring_read(link->from, version));
	queue_put(&link->down, MESSAGE_ENTRY, version, 0, 0);
}

void link_move(struct world *world, struct link *link, bool down)
{
	struct queue *posted = down ? &link->posted_down : &link->posted_up;
	const struct message *message = queue_front(posted);

	(void)world;
	if (message == NULL)
		return;
	if (down && message->kind == MESSAGE_ENTRY)
		entry_land(link, message->a);
	else if ((down ? link->to : link->from) != NULL)
		queue_put(down ? &link->down : &link->up, message->kind, message->a, message->b,
			  message->c);
	queue_drop(posted);
}

/* Close an end: what was posted from it may arrive or not, nothing arrives at it any more */
static void link_close(struct link *link, bool from_end)
{
	struct process *process = from_end ? link->from : link->to;
	struct queue *sent = from_end ? &link->posted_down : &link->posted_up;
	struct world *world;

	if (process == NULL)
		return;
	world = process->world;
	while (sent->count > 0 && world_chance(world, 70))
		link_move(world, link, from_end);
	link->posted_down.count = 0;
	link->posted_up.count = 0;
	if (from_end) {
		link->up.count = 0;
		link->from = NULL;
		if (process->succ == link)
			process->succ = NULL;
		if (link->down.count < WORLD_QUEUE)
			queue_put(&link->down, MESSAGE_DOWN, 0, 0, 0);
	} else {
		link->down.count = 0;
		link->to = NULL;
		if (process->pred == link) {
			process->pred = NULL;
			process->loading = false;
		}
		queue_put(&link->up, MESSAGE_DOWN, 0, 0, 0);
	}
	if (link->from == NULL && link->to == NULL)
		link->used = false;
}

void link_break(struct link *link)
{
	struct queue *ends[] = { &link->down, &link->up };

	if (link->from != NULL && link->to != NULL && !link->broken)
		world_step(link->from->world, "break", link->from, 0, 0);
	link->broken = true;
	link->posted_down.count = 0;
	link->posted_up.count = 0;
	for (uint32_t i = 0; i < 2; i++) {
		if (ends[i]->count == WORLD_QUEUE)
			ends[i]->count--;
		queue_put(ends[i], MESSAGE_DOWN, 0, 0, 0);
	}
}

void process_dial(struct process *process)
{
	struct world *world = process->world;
	const struct ol_member *succ = ol_view_successor(&process->chain.view, process->chain.id);
	struct link *link = NULL;
	struct process *to = NULL;

	if (!process->dials || process->succ != NULL || succ == NULL)
		return;
	for (uint32_t i = 0; i < WORLD_PLACES; i++) {
		if (world->processes[i].alive && world->processes[i].self.id == succ->id)
			to = &world->processes[i];
	}
	if (to == NULL) {
		process_suspect(process, true);
		return;
	}
	for (uint32_t i = 0; i < WORLD_LINKS && link == NULL; i++)
		link = world->links[i].used ? NULL : &world->links[i];
	if (link == NULL || world->cut[place_of(process)][place_of(to)] ||
	    (world->steps != NULL && world_is_dialed(to)))
		return;
	if (ol_chain_on_offer(&process->chain, process->chain.applied) != 0) {
		world_fail(world, "replica %u cannot offer what it has", place_of(process));
		return;
	}
	*link = (struct link){
		.used = true, .from = process, .to = to, .from_id = process->self.id
	};
	process->succ = link;
	queue_put(&link->posted_down, MESSAGE_HELLO, process->chain.view.epoch,
		  process->chain.applied, 0);
	world_step(world, "dial", process, 0, 0);
	world_say(world, "%u dials %u, offers %" PRIu64, place_of(process), place_of(to),
		  process->chain.applied);
}

/* ---- what a chain asks for ---- */

static int forward(struct process *process, uint64_t version)
{
	struct world *world = process->world;

	if (process->succ == NULL || world_chance(world, world->again_percent))
		return -EAGAIN;
	if (!queue_put(&process->succ->posted_down, MESSAGE_ENTRY, version, 0, 0))
		return -EAGAIN;
	ring_read(process, version);
	world->resent += version <= process->forwarded;
	if (process->forwarded < version)
		process->forwarded = version;
	world_step(world, "forward", process, version, 0);
	return 0;
}

static void workers_tell(struct process *process, uint64_t version)
{
	struct world *world = process->world;
	const struct entry *entry = &world->entries[process->tags[version]];

	world_step(world, "tell", process, version, 0);
	world_show(process, version);
	for (uint32_t i = 0; i < WORLD_SESSIONS; i++) {
		struct session *session = &world->sessions[i];

		if (!session->used || session->process != process || !session->welcomed ||
		    !session->reads)
			continue;
		for (uint32_t j = 0; j < entry->part_count; j++) {
			if (entry->parts[j].worker == session->worker)
				queue_put(&session->out, MESSAGE_ACK, entry->parts[j].seq, version,
					  0);
		}
	}
}

static int apply(struct process *process, uint64_t version)
{
	struct world *world = process->world;
	const struct entry *entry;

	if (world_chance(world, process->slow ? 98 : world->again_percent))
		return -EAGAIN;
	entry = &world->entries[ring_read(process, version)];
	for (uint32_t i = 0; i < entry->part_count; i++) {
		uint32_t worker = entry->parts[i].worker;

		if (entry->parts[i].seq != process->table[worker] + 1)
			world_fail(world, "replica %u applies push %u of worker %u after push %u",
				   place_of(process), entry->parts[i].seq, worker,
				   process->table[worker]);
		process->table[worker] = entry->parts[i].seq;
	}
	world_step(world, "apply", process, version, 0);
	if (world->broken == WORLD_EARLY_ACK && ol_chain_is_head(&process->chain))
		workers_tell(process, version);
	return 0;
}

static void commit(struct process *process, uint64_t version)
{
	world_say(process->world, "%u commits %" PRIu64, place_of(process), version);
	workers_tell(process, version);
}

static int ack(struct process *process, uint64_t version)
{
	struct world *world = process->world;

	if (process->pred == NULL || world_chance(world, world->again_percent))
		return -EAGAIN;
	if (world->steps != NULL)
		link_overwrite(process->pred);
	if (!queue_put(&process->pred->posted_up, MESSAGE_ACK, version, 0, 0))
		return -EAGAIN;
	world_step(world, "ack", process, version, 0);
	return 0;
}

static void fence_predecessor(struct process *process)
{
	if (process->world->broken == WORLD_NO_FENCE)
		process->pred = NULL;
	else if (process->pred != NULL)
		link_close(process->pred, false);
	process->loading = false;
}

static void fence_successor(struct process *process)
{
	process->dials = false;
	if (process->succ != NULL)
		link_close(process->succ, true);
}

static int carry_out(struct process *process, const struct ol_chain_action *action)
{
	int rc = -EAGAIN;

	switch (action->what) {
	case OL_CHAIN_FORWARD:
		rc = forward(process, action->version);
		break;
	case OL_CHAIN_APPLY:
		rc = apply(process, action->version);
		break;
	case OL_CHAIN_ACK:
		rc = ack(process, action->version);
		break;
	}
	if (rc != 0)
		return rc;
	ol_chain_on_done(&process->chain, action);
	if (action->commits)
		commit(process, action->version);
	return 0;
}

void process_progress(struct process *process)
{
	struct ol_chain_action action;
	unsigned not_now = 0;

	while (ol_chain_next_action(&process->chain, not_now, &action)) {
		if (carry_out(process, &action) != 0)
			not_now |= action.what;
	}
}

void process_beat(struct process *process)
{
	if (process->chain.ack_every == 1) /* nothing waits, and old seeds stay what they were */
		return;
	ol_chain_settle(&process->chain);
	process_progress(process);
}

static void process_loaded(struct process *process, uint64_t version)
{
	if (ol_chain_on_load(&process->chain, version))
		process->dials = true;
}

/* ---- processes ---- */

void process_start(struct world *world, uint32_t place)
{
	struct process *process = &world->processes[place];

	memset(process, 0, sizeof(*process));
	process->world = world;
	process->alive = true;
	process->self = (struct ol_member){
		.id = ++world->id_count, .job = 1, .proto = 1, .rank = world_below(world, 3)
	};
	ol_chain_init(&process->chain, process->self.id, world->slots);
	process->chain.ack_every = world->slots < 8 ? 1 : world->slots / 4;
	world_say(world, "%u starts as %" PRIu64, place, process->self.id);
}

void process_end(struct process *process)
{
	struct world *world = process->world;

	world_say(world, "%u ends", place_of(process));
	for (uint32_t i = 0; i < WORLD_LINKS; i++) {
		if (world->links[i].used && world->links[i].from == process)
			link_close(&world->links[i], true);
		if (world->links[i].used && world->links[i].to == process)
			link_close(&world->links[i], false);
	}
	for (uint32_t i = 0; i < WORLD_SESSIONS; i++) {
		if (world->sessions[i].used && world->sessions[i].process == process)
			session_close(&world->sessions[i], false);
	}
	process->alive = false;
	process->proposes = false;
}

void process_suspect(struct process *process, bool successor)
{
	const struct ol_view *view = &process->chain.view;
	const struct ol_member *member = successor ? ol_view_successor(view, process->chain.id)
						   : ol_view_predecessor(view, process->chain.id);

	if (member == NULL || process->suspects[successor] == member->id)
		return;
	process->suspects[successor] = member->id;
	world_say(process->world, "%u suspects %" PRIu64, place_of(process), member->id);
}

/* The first of the entries that rang is to be taken up */
static void entry_take(struct process *process, struct link *link, uint64_t version)
{
	struct world *world = process->world;
	uint32_t tag = process->ring[version % world->slots].tag;

	world_step(world, "entry", process, version, 0);
	if (ol_chain_on_entry(&process->chain, version) != 0 ||
	    process->ring[version % world->slots].version != version) {
		if (world->broken == WORLD_WHOLE)
			world_fail(world, "replica %u refuses %" PRIu64, place_of(process),
				   version);
		link_close(link, false);
		return;
	}
	log_put(process, version, tag);
}

/* false: it has to wait until a newer view is adopted */
static bool hello_answer(struct process *process, struct link *link, uint64_t epoch,
			 uint64_t content)
{
	struct world *world = process->world;
	struct ol_chain *chain = &process->chain;
	const struct ol_member *pred = ol_view_predecessor(&chain->view, chain->id);
	uint64_t have;
	int rc;

	if (epoch > chain->view.epoch && world->broken != WORLD_HELLO_AHEAD)
		return false;
	world_step(world, "hello", process, epoch, content);
	if (pred == NULL || pred->id != link->from_id) {
		if (epoch > chain->view.epoch)
			return false;
		link_close(link, false);
		return true;
	}
	if (process->pred != NULL && process->pred != link) {
		link_close(process->pred, false);
		ol_chain_on_predecessor(chain, false);
	}
	if (world->broken == WORLD_RELOAD && chain->role == OL_CHAIN_JOINING) {
		chain->loaded = false;
		chain->applied = 0;
	}
	rc = ol_chain_on_hello(chain, content, &have);
	if (rc < 0) {
		world_fail(world, "replica %u refuses its predecessor", place_of(process));
		return true;
	}
	process->pred = link;
	process->loading = rc == OL_CHAIN_LOAD;
	process->content = content;
	queue_put(&link->posted_up, MESSAGE_WELCOME, have, (uint64_t)rc, 0);
	ol_chain_on_predecessor(chain, true);
	world_say(world, "%u has %" PRIu64 "%s", place_of(process), have, rc ? ", loads" : "");
	return true;
}

/* A message from the predecessor */
static bool down_event(struct process *process, struct link *link)
{
	const struct message message = *queue_front(&link->down);
	bool current = link == process->pred;

	if (message.kind == MESSAGE_HELLO && !hello_answer(process, link, message.a, message.b)) {
		for (uint32_t i = 0; i < link->down.count; i++) {
			/* nobody is there any more */
			if (link->down.messages[(link->down.first + i) % WORLD_QUEUE].kind ==
			    MESSAGE_DOWN) {
				world_step(process->world, "pred-gone", process, 0, 0);
				link_close(link, false);
				return true;
			}
		}
		return false;
	}
	if (link->to != process)
		return true; /* it was closed */
	queue_drop(&link->down);
	if (message.kind == MESSAGE_ENTRY)
		entry_take(process, link, message.a);
	if (message.kind != MESSAGE_DOWN)
		return true;
	world_step(process->world, "pred-gone", process, 0, 0);
	link_close(link, false);
	if (current) {
		ol_chain_on_predecessor(&process->chain, false);
		process_suspect(process, false);
	}
	return true;
}

static void succ_lost(struct process *process)
{
	ol_chain_on_successor_down(&process->chain);
	if (process->world->broken == WORLD_HANDOFF_BY_LINK) {
		process->chain.handoff = false;
		process->chain.succ_held = false;
	}
}

/* A message from the successor */
static bool up_event(struct process *process, struct link *link)
{
	struct world *world = process->world;
	const struct message message = *queue_front(&link->up);
	bool live = link->live;
	int rc = 0;

	queue_drop(&link->up);
	world_step(world,
		   message.kind == MESSAGE_WELCOME ? "welcome"
		   : message.kind == MESSAGE_ACK   ? "acked"
						   : "succ-gone",
		   process, message.a, 0);
	if (message.kind == MESSAGE_WELCOME) {
		link->live = true;
		rc = ol_chain_on_successor_up(&process->chain, message.a);
		if (rc == 0 && world->broken == WORLD_HAVE_IS_ACK && process->chain.handoff)
			process->chain.succ_acked = message.a;
		if (rc == 0 && world->broken == WORLD_WELCOME_IS_ACK)
			process->chain.handoff = process->chain.succ_told = true;
	} else if (message.kind == MESSAGE_ACK) {
		rc = ol_chain_on_ack(&process->chain, message.a);
	}
	if (rc != 0 && world->broken == WORLD_WHOLE)
		world_fail(world, "replica %u refuses %s %" PRIu64, place_of(process),
			   message.kind == MESSAGE_ACK ? "ack" : "welcome", message.a);
	if (rc == 0 && message.kind != MESSAGE_DOWN)
		return true;
	link_close(link, true);
	succ_lost(process);
	if (live)
		process_suspect(process, true);
	return true;
}

bool process_event(struct process *process, struct link *link)
{
	if (link->used && link->to == process && link->down.count > 0)
		return down_event(process, link);
	if (link->used && link->from == process && link->up.count > 0)
		return up_event(process, link);
	return false;
}

void process_load(struct process *process)
{
	struct world *world = process->world;
	const struct process *from = process->pred != NULL ? process->pred->from : NULL;

	if (!process->loading || from == NULL)
		return;
	memset(process->table, 0, sizeof(process->table));
	for (uint64_t v = 1; v <= process->content; v++) {
		const struct entry *entry = &world->entries[from->tags[v]];

		log_put(process, v, from->tags[v]);
		for (uint32_t i = 0; i < entry->part_count; i++)
			process->table[entry->parts[i].worker] = entry->parts[i].seq;
	}
	for (uint64_t v = process->content + 1; v <= process->chain.received; v++)
		log_put(process, v, process->tags[v]);
	process->loading = false;
	world_step(world, "load", process, process->content, 0);
	world_say(world, "%u has read %" PRIu64, place_of(process), process->content);
	process_loaded(process, process->content);
}

/* Workers that may no longer be served here */
static void sessions_review(struct process *process)
{
	struct world *world = process->world;

	for (uint32_t i = 0; i < WORLD_SESSIONS; i++) {
		struct session *session = &world->sessions[i];

		if (!session->used || session->process != process)
			continue;
		if (session->reads ? !ol_chain_is_tail(&process->chain) &&
					     world->broken != WORLD_READERS_STAY
				   : !ol_chain_is_head(&process->chain))
			session_close(session, false);
	}
}

void process_adopt(struct process *process)
{
	struct world *world = process->world;
	struct ol_chain *chain = &process->chain;
	const struct ol_view *view = &process->seen.view;
	struct ol_chain before = *chain;
	struct ol_chain_links links;
	int rc;

	if (process->seen.version == 0 || view->epoch <= chain->view.epoch)
		return;
	memset(process->suspects, 0, sizeof(process->suspects));
	rc = ol_chain_on_view(chain, view, &links);
	if (links.fence_predecessor)
		fence_predecessor(process);
	if (links.fence_successor)
		fence_successor(process);
	if (links.connect)
		process->dials = true;
	world_step_adopt(process, before.role);
	world_say(world, "%u adopts %u: %s", place_of(process), view->epoch,
		  ol_chain_role_str(chain->role));
	if (rc == OL_CHAIN_REMOVED) {
		if (world->broken != WORLD_REJOIN ||
		    ol_view_role(view, chain->id) != OL_CHAIN_JOINING) {
			process_end(process);
			return;
		}
		chain->role = OL_CHAIN_JOINING;
		chain->loaded = before.loaded;
		chain->received = before.received;
		chain->applied = before.applied;
		chain->acked = before.acked;
	}
	if (world->broken == WORLD_NO_FLOOR)
		chain->floor = 0;
	sessions_review(process);
	if (chain->role == OL_CHAIN_ONLY && view->history == chain->id && !chain->loaded)
		process_loaded(process, 0);
}

void process_order(struct process *process, const struct entry *entry)
{
	struct world *world = process->world;
	uint64_t version;
	uint32_t tag;

	if (world->tag_count == WORLD_VERSIONS || ol_chain_order(&process->chain, &version) != 0) {
		world_fail(world, "replica %u could not order", place_of(process));
		return;
	}
	tag = ++world->tag_count;
	world->entries[tag] = *entry;
	process->chain.received--; /* to see what the slot was good for until now */
	ring_write(process, version, tag);
	process->chain.received++;
	log_put(process, version, tag);
	world_step(world, entry->parts[0].worker == 0 ? "order-0" : "order-1", process, version, 0);
	world_step(world, "has", process, entry->parts[0].worker, entry->parts[0].seq);
	world_say(world, "%u orders %" PRIu64, place_of(process), version);
}
