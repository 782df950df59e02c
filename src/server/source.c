/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * source.c -- what an empty server begins with, by the rule in source.h
 *
 * Weights lack a push of a connected worker if the worker knows it as applied and no longer keeps
 * it (struct ol_hello: gone_seq), and the table beside the weights does not contain it.
 */

#include "server/source.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "wire/seq.h"

/* > 0: a is newer; < 0: a is older; 0: equal, or not known */
static int source_age_cmp(const struct ol_source *a, const struct ol_source *b)
{
	bool known = a->history != 0 && b->history != 0;

	if (known && a->history != b->history)
		return (a->epoch > b->epoch) - (a->epoch < b->epoch);
	if (!known && a->epoch != b->epoch)
		return a->epoch > b->epoch ? 1 : -1;
	return (a->version > b->version) - (a->version < b->version);
}

static bool source_is_better(const struct ol_source *a, const struct ol_source *b)
{
	const int order = source_age_cmp(a, b);

	if (a->lost != b->lost)
		return a->lost < b->lost;
	if (a->history != 0 && a->history == b->history && (a->cost < b->cost || a->cost > b->cost))
		return a->cost < b->cost;
	return order != 0 ? order > 0 : a->grads > b->grads;
}

bool ol_source_is_here(const struct ol_session *session)
{
	return session->state == OL_SESSION_JOINED && session->role == OL_ROLE_WORKER;
}

/*
 * These weights have all that this worker no longer keeps, whatever it says
 *
 * A worker keeps a push until its own mirror has it, and a server has vouched for that one. So later
 * weights of the same history have it, too, and a worker that lies cannot make older ones better. In
 * a periodic chain versions of one history go back.
 */
static bool surely_has(const struct ol_sources *sources, const struct ol_source *source,
		       const struct ol_session *session)
{
	const struct ol_hello *hello = &session->hello;

	return session->table != NULL && hello->mirror.bytes != 0 && source->history != 0 &&
	       source->history == hello->mirror_history &&
	       source->version >= hello->mirror_version && sources->opts->replicate_every == 0;
}

static const struct ol_applied *floor_table(const struct ol_sources *sources)
{
	const uint8_t *content = ol_store_content(sources->store, OL_SOURCE_CHECKPOINT);

	return (const struct ol_applied *)(const void *)(content + sizeof(struct ol_snapshot_head));
}

/* Pushes of a worker that a running checkpoint has, and weights of its history lack, and that the process which is here, if there
 * is one, does not keep; *ret_grads: how many gradients they are */
static uint64_t absent_of(const struct ol_sources *sources, const struct ol_source *source,
			  uint32_t worker, uint64_t *ret_grads)
{
	const struct ol_session *session = &sources->sessions->all[worker];
	struct ol_applied had = { 0 }, saved;

	*ret_grads = 0;
	if (sources->block_versions == NULL || source->history == 0 ||
	    source->history != sources->floor_of.history ||
	    source->version >= sources->floor_version)
		return 0;
	saved = floor_table(sources)[worker];
	if (source->table != NULL)
		had = source->table[worker];
	if (ol_source_is_here(session) && session->hello.tag == ol_seq_tag(saved.seq))
		return 0;
	*ret_grads = saved.grads > had.grads ? saved.grads - had.grads : 0;
	return ol_seq_lacking(had.seq, saved.seq);
}

/*
 * True if a mirror that is no newer than a running checkpoint of its history never pays, by itself: with it goes the
 * optimizer's state, which the checkpoint has; or of steps that workers make together a part, which nobody is here
 * to make again
 */
static bool never_pays(const struct ol_sources *sources, const struct ol_source *source)
{
	if (sources->block_versions == NULL || source->session == NULL ||
	    source->history != sources->floor_of.history ||
	    source->version > sources->floor_version)
		return false;
	return (sources->store->geo.state_vectors > 0 &&
		source->session->hello.state_off == OL_MIRROR_NO_STATE) ||
	       (sources->opts->consistency != OL_CONSISTENCY_ASYNC && source->absent > 0);
}

static struct ol_source source_weigh(const struct ol_sources *sources, struct ol_source source)
{
	for (uint32_t i = 0; i < sources->store->geo.workers_max; i++) {
		const struct ol_session *session = &sources->sessions->all[i];
		uint64_t gone = session->hello.gone_seq, applied = 0, grads;

		if (source.table != NULL) {
			applied = source.table[i].seq;
			source.grads += source.table[i].grads;
		}
		if (ol_source_is_here(session) && !surely_has(sources, &source, session))
			source.lost += ol_seq_lacking(applied, gone);
		source.absent += absent_of(sources, &source, i, &grads);
		source.cost += (double)grads;
	}
	if (never_pays(sources, &source))
		source.cost = INFINITY;
	return source;
}

/* True if this worker's mirror, whose table was read, may be looked at */
static bool has_mirror(const struct ol_session *session)
{
	return ol_source_is_here(session) && session->table != NULL &&
	       session->hello.mirror.bytes != 0;
}

/* Whose mirror has newer blocks than the running checkpoint that is *source; and what this lacks then */
static void lender_find(const struct ol_sources *sources, struct ol_source *source)
{
	uint64_t newest = 0, oldest = UINT64_MAX;

	for (uint32_t i = 0; i < sources->blocks->count; i++)
		if (sources->block_versions[i] < oldest)
			oldest = sources->block_versions[i];
	for (uint32_t i = 0; i < sources->sessions->count; i++) {
		struct ol_session *session = &sources->sessions->all[i];
		const struct ol_hello *hello = &session->hello;

		if (!has_mirror(session) || source->history == 0 ||
		    hello->mirror_history != source->history ||
		    hello->mirror_version > source->version || hello->mirror_version <= oldest ||
		    hello->mirror_version <= newest)
			continue;
		newest = hello->mirror_version;
		source->lends = session;
	}
	if (source->version > 0)
		source->cost = ol_ckpt_blocks_behind(sources->blocks, sources->block_versions,
						     newest, source->version) *
			       (double)source->grads / (double)source->version;
}

/* The checkpoint, or the first weights: one of them is always there */
static struct ol_source floor_of(const struct ol_sources *sources)
{
	struct ol_source source = { 0 };

	if (sources->floor) {
		source.table = floor_table(sources);
		source.history = sources->floor_of.history;
		source.epoch =
			source.history != 0 ? sources->floor_of.founded : sources->floor_epoch;
		source.version = sources->floor_version;
	}
	source = source_weigh(sources, source);
	if (sources->floor && sources->block_versions != NULL)
		lender_find(sources, &source);
	return source;
}

/* The mirror of a session. False: it has none whose table was read */
static bool mirror_of(const struct ol_sources *sources, uint32_t index,
		      struct ol_source *ret_source)
{
	struct ol_session *session = &sources->sessions->all[index];
	const struct ol_hello *hello = &session->hello;

	if (!has_mirror(session))
		return false;
	*ret_source = source_weigh(sources, (struct ol_source){ .session = session,
								.table = session->table,
								.history = hello->mirror_history,
								.version = hello->mirror_version,
								.epoch = hello->mirror_epoch });
	return true;
}

static struct ol_source best_of(const struct ol_sources *sources)
{
	struct ol_source best = floor_of(sources), other;

	for (uint32_t i = 0; i < sources->sessions->count; i++) {
		if (mirror_of(sources, i, &other) && source_is_better(&other, &best))
			best = other;
	}
	return best;
}

struct words {
	char *at;
	size_t left; /* bytes */
};

__attribute__((format(printf, 2, 3))) static void add(struct words *words, const char *format, ...)
{
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(words->at, words->left, format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= words->left)
		words->left = 0; /* it is cut */
	words->at += words->left > 0 ? len : 0;
	words->left -= words->left > 0 ? (size_t)len : 0;
}

uint32_t ol_source_say(const struct ol_sources *sources, char text[OL_SOURCES_TEXT_MAX])
{
	const struct ol_source floor = floor_of(sources);
	uint64_t latest = 0, oldest = UINT64_MAX, most = 0, least = UINT64_MAX, absent = UINT64_MAX;
	uint32_t mirrors = 0;
	struct words words = { .at = text, .left = OL_SOURCES_TEXT_MAX };
	struct ol_source other;

	for (uint32_t i = 0; i < sources->sessions->count; i++) {
		if (!mirror_of(sources, i, &other))
			continue;
		mirrors++;
		latest = other.version > latest ? other.version : latest;
		oldest = other.version < oldest ? other.version : oldest;
		most = other.lost > most ? other.lost : most;
		least = other.lost < least ? other.lost : least;
		absent = other.absent < absent ? other.absent : absent;
	}
	add(&words,
	    "%s of version %" PRIu64 ", %" PRIu64 " behind the newest, which lacks %" PRIu64
	    " applied pushes",
	    sources->floor ? "a checkpoint" : "first weights", floor.version,
	    latest > floor.version ? latest - floor.version : 0, floor.lost);
	if (floor.cost > 0.0)
		add(&words, ", and its blocks%s %.1f gradients in the mean",
		    floor.lends != NULL ? ", with newer ones of a mirror," : "", floor.cost);
	if (mirrors == 1)
		add(&words, "; a worker's mirror, version %" PRIu64 ", which lacks %" PRIu64,
		    latest, most);
	else if (mirrors > 1)
		add(&words,
		    "; %" PRIu32 " mirrors of workers, versions %" PRIu64 " to %" PRIu64
		    ", which lack %" PRIu64 " to %" PRIu64,
		    mirrors, oldest, latest, least, most);
	if (mirrors > 0 && absent > 0)
		add(&words, ", and %" PRIu64 " that nobody keeps", absent);
	return mirrors + 1;
}

/* True if a worker that is not connected may have a newer mirror. Without a launcher's number of
 * workers, a step of several gives a lower bound. */
static bool waits_for(const struct ol_sources *sources, const struct ol_source *best)
{
	const struct ol_server_opts *opts = sources->opts;
	uint32_t several = opts->workers > 1 ? opts->workers : 0;
	uint32_t known = opts->restore_workers != 0 ? opts->restore_workers : several;

	for (uint32_t i = 0; i < sources->store->geo.workers_max; i++) {
		bool refused = (sources->refused[i / 64] >> i % 64 & 1) != 0;
		uint64_t grads;

		if ((i < known || (best->table != NULL && best->table[i].seq != 0) ||
		     absent_of(sources, best, i, &grads) > 0) &&
		    !refused && !ol_source_is_here(&sources->sessions->all[i]))
			return true;
	}
	if (opts->restore_workers != 0)
		return false; /* all workers are connected */
	/* no connected worker was in the job */
	if (best->table == NULL)
		return !sources->begins;
	return best->lost > 0;
}

bool ol_source_choose(const struct ol_sources *sources, uint64_t now_ns,
		      struct ol_source *ret_source)
{

	*ret_source = best_of(sources);
	return !waits_for(sources, ret_source) ||
	       now_ns - sources->since_ns >= sources->opts->restore_wait_ms * OL_NS_PER_MS;
}
