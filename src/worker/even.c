/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * even.c -- pulls of one version of several shards
 *
 * Shards of a synchronous job make the same steps, but not at one moment. An observer first asks all of
 * them for their newest version. Then it reads the oldest of these from each: a shard that is ahead
 * still has it in another snapshot. If it has not, all are asked again, and what is read then is pinned.
 *
 * Not in step are shards of which workers push spans, each at its time. They stay apart: so if a shard
 * lacks the version again and again, and is further ahead than a server has snapshots, each is read at
 * its newest. The same if the caller's last weights are of several versions, and it has a newer version
 * of a shard than that: it does not go back. Where they are of one version, a server came back with
 * older weights: the caller goes back with it on all shards, as long as these have that version, or
 * OL_PULL_FORWARD says that it would.
 *
 * A worker's pulls are even where it asks for that (OL_PULL_EVEN). Else it needs none: steps wait for it,
 * so it sees none half-made unless its own push is on its way. But its process before may have died
 * between its pushes to two shards: then one shard has made a step that the other one waits for. The
 * new process reads the weights before that step from both, and what it computes there completes it.
 * If the shard that is ahead has not that version any more (a replica that has joined has one version
 * only), each is read at its newest: the step is completed, though not with the bits that it would have,
 * and what is computed there is late where the step is made.
 * So it is if the shard that is ahead has applied a gradient of this very process. Weights that it has
 * merely read do not count: it goes back from them.
 * Where shard 0 decides which gradients make a step, shards are apart for as long as its decision is on its
 * way, and a worker that read older weights would compute what comes too late. So each pull of a worker
 * reads the newest version that any shard has, and asks those that are behind until they have made it.
 *
 * Elsewhere it does not read again while that gradient is on its way to a shard: a second one would be of the
 * next step where queued gradients are.
 */

#include "base/log.h"
#include "worker/worker_internal.h"

enum {
	APART_TRIES = 8, /* until shards that are far apart are taken as not in step */
	WAIT_US = 50 /* until a shard that is behind is asked again */
};

void ol_even_begin(struct ol_worker *worker, bool asked)
{
	const bool even = worker->link_count > 1 && worker->pull_span == ol_worker_all(worker) &&
			  worker->links[0].geo.consistency == OL_CONSISTENCY_SYNC &&
			  (worker->opts.observer ? worker->opts.outage != OL_OUTAGE_CONTINUE
						 : asked || ol_worker_decided(worker));

	worker->pull_even = even ? OL_EVEN_ASKS : OL_EVEN_NOT;
	worker->pull_missed = false;
	worker->pull_retries = 0;
	worker->even_ns = worker->even_end_ns = 0;
	/* a pull of a span takes the other shards along */
	worker->mirrors[1 - worker->mirror].uneven = worker->pull_span != ol_worker_all(worker) &&
						     worker->mirrors[worker->mirror].uneven;
}

/* This shard holds a gradient of the worker, or (kept) has applied one that is in no mirror yet */
static bool has_pushed(const struct ol_link *link, bool kept)
{
	const struct ol_worker *worker = link->worker;
	bool has = false;

	for (uint32_t i = 0; i < worker->slots; i++) {
		const struct ol_grad *grad = &worker->grads[i];
		const uint64_t shards = kept ? grad->kept : grad->open;

		has = has || (grad->state == OL_GRAD_PUSHED && (shards >> link->index & 1) != 0);
	}
	return has;
}

bool ol_even_waits(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;

	if (worker->opts.observer)
		return false;
	if (ol_worker_decided(worker))
		return worker->even_ns != 0 && ol_worker_now(worker) < worker->even_ns;
	/* what an outage left behind leaves with the next push, and others may wait for it */
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (worker->links[i].queue.count > 0)
			return false;
	}
	return has_pushed(link, false);
}

/* The version line that this pull has read of a shard */
static uint64_t line_of(struct ol_link *link, uint64_t words[1 + 2 * OL_SNAPSHOTS])
{
	ol_line_read(ol_worker_line(link->worker, link->index), words);
	return ol_published_version(words[0]);
}

/* The snapshot that holds a version whole; -1: none */
static int snapshot_of(struct ol_link *link, uint64_t version)
{
	uint64_t words[1 + 2 * OL_SNAPSHOTS];

	(void)line_of(link, words);
	for (uint32_t i = 0; i < OL_SNAPSHOTS; i++) {
		if (words[1 + i] == version + 1 && words[1 + OL_SNAPSHOTS + i] == version + 1)
			return (int)i;
	}
	return -1;
}

/* The caller's last weights are of several versions: these shards are not in step */
static bool was_apart(const struct ol_worker *worker)
{
	const struct ol_mirror *last = &worker->mirrors[worker->mirror];

	for (uint32_t i = 1; last->whole && i < worker->link_count; i++) {
		if (last->versions[i] != last->versions[0])
			return true;
	}
	return false;
}

/* The caller has a newer version of this shard, in the same history */
static bool goes_back(const struct ol_link *link, uint64_t version)
{
	const struct ol_mirror *last = &link->worker->mirrors[link->worker->mirror];
	const uint32_t k = link->index;

	return version < last->versions[k] && last->histories[k] == link->history &&
	       last->identities[k] == link->identity;
}

/* What the shards have, as they said it */
struct said {
	uint64_t oldest, newest;
	bool lacks; /* a shard has the oldest version no more */
	bool back; /* shards are not in step, and an observer would go back on one; or a worker would
		      read weights without a gradient that it was told is in them */
};

static struct said said_by(struct ol_worker *worker)
{
	uint64_t words[1 + 2 * OL_SNAPSHOTS];
	struct said said = { .oldest = UINT64_MAX };
	const bool apart = was_apart(worker);

	for (uint32_t i = 0; i < worker->link_count; i++) {
		const uint64_t version = line_of(&worker->links[i], words);

		said.oldest = version < said.oldest ? version : said.oldest;
		said.newest = version > said.newest ? version : said.newest;
	}
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		said.lacks = said.lacks || snapshot_of(link, said.oldest) < 0;
		said.back =
			said.back || (worker->opts.observer ? apart && goes_back(link, said.oldest)
							    : line_of(link, words) > said.oldest &&
								      has_pushed(link, true));
	}
	return said;
}

static void states_set(struct ol_worker *worker, enum ol_read_state state)
{
	for (uint32_t i = 0; i < worker->link_count; i++)
		worker->links[i].read_state = state;
}

/* Ask those that are behind the newest version again, soon */
static void behind_ask(struct ol_worker *worker, uint64_t newest)
{
	uint64_t words[1 + 2 * OL_SNAPSHOTS];

	worker->even_ns = ol_worker_now(worker) + WAIT_US * OL_NS_PER_US;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (line_of(&worker->links[i], words) < newest)
			worker->links[i].read_state = OL_READ_NEWEST;
	}
}

/* An observer of a job whose steps shard 0 decides: a shard that is far behind catches up, as long as there
 * are workers. It is waited for, for as long as a server would be */
static bool catches_up(struct ol_worker *worker, const struct said *said)
{
	const uint64_t now_ns = ol_worker_now(worker);

	if (worker->links[0].geo.decided == 0 || !said->lacks)
		return false;
	if (worker->even_end_ns == 0)
		worker->even_end_ns = now_ns + worker->opts.connect_timeout_ms * OL_NS_PER_MS;
	return now_ns < worker->even_end_ns;
}

/* All shards have said what they have: read */
static void read_all(struct ol_worker *worker)
{
	const bool decided = ol_worker_decided(worker);
	const struct said said = said_by(worker);
	const bool far = said.newest - said.oldest >= OL_SNAPSHOTS || !worker->opts.observer;
	const bool apart = !decided && (said.back ||
					(said.lacks && far && worker->pull_retries >= APART_TRIES));

	if (said.oldest != said.newest && (decided || catches_up(worker, &said))) {
		behind_ask(worker, said.newest);
		return;
	}
	worker->even_ns = 0;
	if (!apart && said.lacks) {
		worker->pull_missed = true;
		states_set(worker, OL_READ_DONE);
		ol_pull_check(worker);
		return;
	}
	if (apart && !worker->opts.observer)
		ol_log_rated(&worker->links[0].reader->said, worker->now_ns, OL_LOG_WARN,
			     "worker %u: shards are at versions %llu to %llu, and cannot all be "
			     "read at the oldest: each is read at its newest",
			     worker->opts.worker, (unsigned long long)said.oldest,
			     (unsigned long long)said.newest);
	worker->pull_even = apart ? OL_EVEN_NOT : OL_EVEN_READS;
	worker->mirrors[1 - worker->mirror].uneven = apart && !worker->opts.observer;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		if (apart)
			ol_pull_read_at(link, link->version, link->snapshot);
		else
			ol_pull_read_at(link, said.oldest,
					(uint32_t)snapshot_of(link, said.oldest));
		if (worker->pull_retries > 0)
			ol_pull_pin(link);
	}
	for (uint32_t i = 0; i < worker->link_count; i++)
		ol_pull_progress(&worker->links[i]);
}

void ol_even_answered(struct ol_worker *worker)
{
	bool failed = false;

	if (worker->pull_op == NULL || worker->pull_even != OL_EVEN_ASKS)
		return;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		const enum ol_read_state state = worker->links[i].read_state;

		if (state != OL_READ_KNOWN && state != OL_READ_DONE)
			return;
		failed = failed || state == OL_READ_DONE;
	}
	if (!failed) {
		read_all(worker);
		return;
	}
	states_set(worker, OL_READ_DONE); /* the pull has the status of the one that was given up */
	ol_pull_check(worker);
}

void ol_even_known(struct ol_link *link)
{
	if (link->worker->pull_even == OL_EVEN_READS) { /* its server has come back meanwhile */
		ol_even_miss(link);
		return;
	}
	link->read_state = OL_READ_KNOWN;
	ol_even_answered(link->worker);
}

void ol_even_miss(struct ol_link *link)
{
	link->worker->pull_missed = true;
	link->read_state = OL_READ_DONE;
	ol_pull_check(link->worker);
}

void ol_even_give_up(struct ol_worker *worker)
{
	const struct ol_mirror *target = &worker->mirrors[1 - worker->mirror];

	if (worker->pull_even == OL_EVEN_NOT)
		return;
	worker->pull_even = OL_EVEN_NOT;
	worker->pull_missed = false;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		/* one that waits for the others, or missed; what is being read is of one version anyway */
		if (link->read_state == OL_READ_KNOWN ||
		    (link->read_state == OL_READ_DONE && !link->read_local &&
		     (target->intact >> i & 1) == 0)) {
			link->read_state = OL_READ_NEWEST;
			ol_pull_progress(link);
		}
	}
}

bool ol_even_again(struct ol_worker *worker)
{
	worker->pull_missed = false;
	if (worker->pull_retries++ >= worker->opts.pull_retries_max) {
		worker->pull_status = OL_E_TORN;
		return false;
	}
	worker->pull_even = OL_EVEN_ASKS;
	worker->pull_status = 0;
	states_set(worker, OL_READ_NEWEST);
	for (uint32_t i = 0; i < worker->link_count; i++)
		worker->links[i].read_retries = 0;
	for (uint32_t i = 0; i < worker->link_count; i++)
		ol_pull_progress(&worker->links[i]);
	return true;
}
