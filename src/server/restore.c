/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * restore.c -- where the first weights of a server come from
 *
 *	opts.restore    ready                                   with
 *	NONE            at once                                 the weights given
 *	CHECKPOINT      at once                                 the newest whole checkpoint, full
 *	                                                        or running
 *	MIRROR          when the workers are there, or it has   the newest mirror that is enough
 *	                waited long enough for them
 *	FRESHEST        as MIRROR                               the same, or the checkpoint, whose
 *	                                                        older blocks a mirror may lend
 *
 * A source is enough when it has every push that connected workers know as applied and no longer
 * keep (struct ol_hello: gone_seq). The initial weights are enough for workers that know of no
 * applied push. While no source is enough, or a worker is missing, the server waits: until
 * restore_wait_ms after the last worker came that it waited for. Then it takes the source that
 * loses least, and counts the loss.
 *
 * A mirror is read with RDMA reads, into an unpublished snapshot; the worker's CPU takes no part.
 * Its table is read first, as it decides whether the mirror is enough. A server must have vouched
 * for it (wire/vouch.h). A source that goes away in the middle is forgotten, and another is chosen.
 *
 * With opts.init_worker the first weights are those that worker 0 offers, in the place of a mirror that it
 * has not yet. No server vouches for them: they are read only when nothing else is left to begin with.
 *
 * The epoch becomes one more than that of the source. So a mirror that is left over from a history
 * that was rolled back is older than all later ones.
 */

#include "server/restore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "outlast_tensor.h"
#include "rdma/order.h"
#include "store/content.h"
#include "wire/tensor.h"

enum {
	TELL_MS = 2000, /* without a worker, until a person is told */
	CHUNK_BYTES = 1 << 20
};

uint64_t ol_restore_grads(const struct ol_store *store, uint32_t snapshot)
{
	const uint8_t *content = ol_store_content(store, snapshot);
	uint64_t grads = 0;

	for (uint32_t i = 0; i < store->geo.workers_max; i++)
		grads += ol_applied_of(content, i).grads;
	return grads;
}

/* A history begins. Its epoch is above that of its weights, and above all that connected workers
 * know: otherwise they would refuse this server. */
uint32_t ol_restore_epoch(const struct ol_restoring *restoring, enum ol_restore from,
			  uint32_t epoch)
{
	const uint32_t next = restoring->opts->epoch;
	const uint32_t base = epoch > next ? epoch : next;
	uint32_t known = epoch;

	for (uint32_t i = 0; i < restoring->store->geo.workers_max; i++) {
		const struct ol_session *session = &restoring->sources.sessions->all[i];

		if (session->state != OL_SESSION_JOINED || session->hello.epoch <= known)
			continue;
		if (session->hello.epoch > base && session->hello.epoch - base > OL_EPOCH_JUMP_MAX)
			ol_log(OL_LOG_WARN,
			       "server %s: worker %u says that it knows of epoch %u, which is not "
			       "believed: the weights are of epoch %u",
			       restoring->addr, session->worker, session->hello.epoch, epoch);
		else
			known = session->hello.epoch;
	}
	epoch = known;
	if (from != OL_RESTORE_NONE)
		epoch++;
	return epoch > next ? epoch : next;
}

/* The table that came with the weights, where nobody said one here */
static const char *tensors_found(const struct ol_restoring *restoring)
{
	const struct ol_store *store = restoring->store;
	const char *table = ol_tensors_of(&store->geo, ol_store_content(store, store->snapshot));
	char why[512];

	if (table == NULL || !ol_tensor_fault(table, store->geo.param_count, why, sizeof(why)))
		return table;
	ol_log(OL_LOG_WARN, "server %s: the table of tensors of its weights is not used: %s",
	       restoring->addr, why);
	return NULL;
}

/* The server has its weights: they are published */
static struct ol_restore_result result_ready(struct ol_restoring *restoring, enum ol_restore from,
					     uint32_t epoch)
{
	const char *tensors = restoring->opts->tensors;

	restoring->active = false;
	restoring->chain = false;
	free(restoring->sources.block_versions);
	restoring->sources.block_versions = NULL;
	ol_store_tensors(restoring->store, tensors != NULL ? tensors : tensors_found(restoring));
	return (struct ol_restore_result){ .what = OL_RESTORE_READY, .from = from, .epoch = epoch };
}

static const struct ol_restore_result waits = { .what = OL_RESTORE_WAITS };
static const struct ol_restore_result goes_on = { .what = OL_RESTORE_GOES_ON };

/*
 * Load the newest checkpoint of the folder, full or running, into its snapshot
 *
 * A running one is read second, and taken if it is newer: by (epoch, version), the version being
 * that of its table. -ENOENT: there is neither.
 */
static int checkpoint_read(struct ol_restoring *restoring, struct ol_ckpt_meta *meta)
{
	const struct ol_server_opts *opts = restoring->opts;
	void *content = ol_store_content(restoring->store, OL_SOURCE_CHECKPOINT);
	struct ol_ckpt_meta running = *meta;
	struct ol_sources *sources = &restoring->sources;
	int full_rc, rc;

	if (opts->coordinator != NULL) {
		meta->of_history = restoring->replica->of_history;
		meta->of_founded = restoring->replica->of_founded;
		meta->of_epoch = restoring->replica->of_epoch;
	}
	if (opts->restore_version != 0) /* a running checkpoint has no older versions */
		return ol_ckpt_read_until(opts->checkpoint_dir, opts->restore_version, meta,
					  content);
	full_rc = ol_ckpt_read_newest(opts->checkpoint_dir, meta, content);
	if ((full_rc != 0 && full_rc != -ENOENT && full_rc != OL_E_NO_CHECKPOINT) ||
	    opts->coordinator !=
		    NULL) /* a chain has full ones only, in epochs above other full ones */
		return full_rc;
	running.block_versions =
		calloc(restoring->saving->blocks.count, sizeof(*running.block_versions));
	if (running.block_versions == NULL)
		return -ENOMEM;
	rc = ol_ckpt_read_running(opts->checkpoint_dir, &restoring->saving->blocks,
				  full_rc == 0 ? meta : NULL, opts->extrapolate, &running, content);
	if (rc == 0) {
		*meta = running;
		sources->blocks = &restoring->saving->blocks;
		sources->block_versions = running.block_versions;
	} else {
		free(running.block_versions);
	}
	if (rc == 0 || rc == -ENOENT || (rc == OL_E_NO_CHECKPOINT && full_rc == 0))
		return rc == 0 ? 0 : full_rc;
	return rc;
}

/* True if the checkpoint is in its snapshot. False: there is none; *ret_rc not 0: the start fails */
static bool checkpoint_load(struct ol_restoring *restoring, int *ret_rc, char *err,
			    size_t err_bytes)
{
	struct ol_ckpt_meta meta = ol_save_meta(restoring->saving);
	const char *dir = restoring->opts->checkpoint_dir;
	int rc = checkpoint_read(restoring, &meta);

	*ret_rc = 0;
	if (rc == 0) {
		restoring->sources.floor = true;
		restoring->sources.floor_epoch = meta.epoch;
		restoring->sources.floor_version = meta.version;
		restoring->sources.floor_of =
			(struct ol_vouched){ .history = meta.history, .founded = meta.founded };
		return true;
	}
	if (rc == -ENOENT && restoring->opts->restore_version != 0 &&
	    restoring->opts->restore == OL_RESTORE_CHECKPOINT) {
		snprintf(
			err, err_bytes,
			"cannot restore shard %u: there is no full checkpoint in %s, and of a running "
			"one no version can be chosen",
			restoring->opts->shard, restoring->opts->checkpoint_dir);
		*ret_rc = OL_E_NO_CHECKPOINT;
		return false;
	}
	/* a checkpoint that cannot be read may be the newest source */
	if (rc == -ENOENT || (restoring->opts->restore == OL_RESTORE_FRESHEST &&
			      (rc == OL_E_NO_CHECKPOINT || rc == OL_E_GEOMETRY))) {
		ol_log(OL_LOG_WARN, "server %s: no checkpoint of shard %u in %s%s%s",
		       restoring->addr, restoring->opts->shard, restoring->opts->checkpoint_dir,
		       rc == -ENOENT ? " yet" : ": ", rc == -ENOENT ? "" : ol_strerror(rc));
		/* one of another job is in nobody's way */
		restoring->refused = rc != -ENOENT && ol_ckpt_is_there(dir, &meta) ? rc : 0;
		return false;
	}
	snprintf(err, err_bytes, "cannot restore shard %u from %s: %s", restoring->opts->shard,
		 restoring->opts->checkpoint_dir, ol_strerror(rc));
	*ret_rc = rc;
	return false;
}

void ol_restore_clear(struct ol_restoring *restoring)
{
	free(restoring->sources.block_versions);
	*restoring =
		(struct ol_restoring){ .opts = restoring->opts,
				       .ops = restoring->ops,
				       .store = restoring->store,
				       .public_region = restoring->public_region,
				       .saving = restoring->saving,
				       .replica = restoring->replica,
				       .addr = restoring->addr,
				       .job_key = restoring->job_key,
				       .sources = { .opts = restoring->opts,
						    .store = restoring->store,
						    .sessions = restoring->sources.sessions } };
}

/* A job begins anew over its checkpoints: somebody may have forgotten to say that it is to go on */
static void left_say(const struct ol_restoring *restoring)
{
	const char *dir = restoring->opts->checkpoint_dir;
	struct ol_ckpt_meta meta = ol_save_meta(restoring->saving);

	if (dir != NULL && ol_ckpt_newest(dir, &meta) && meta.version > 0)
		ol_log(OL_LOG_WARN,
		       "server %s: shard %u begins at version 0, and there is a checkpoint of its version "
		       "%llu in %s: to go on from it, restore the checkpoint, or the freshest",
		       restoring->addr, restoring->opts->shard, (unsigned long long)meta.version,
		       dir);
}

int ol_restore_begin(struct ol_restoring *restoring, struct ol_restore_result *ret_result,
		     char *err, size_t err_bytes)
{
	enum ol_restore restore = restoring->opts->restore;
	bool has_checkpoint = false;
	int rc = 0;

	ol_restore_clear(restoring);
	*ret_result = waits;
	if (restore == OL_RESTORE_NONE)
		left_say(restoring);
	restoring->sources.begins = restore == OL_RESTORE_NONE;
	if (restore != OL_RESTORE_NONE && restore != OL_RESTORE_MIRROR &&
	    restoring->opts->checkpoint_dir != NULL)
		has_checkpoint = checkpoint_load(restoring, &rc, err, err_bytes);
	if (rc != 0)
		return rc;
	if (has_checkpoint && restore == OL_RESTORE_CHECKPOINT) {
		ol_store_restore(restoring->store, OL_SOURCE_CHECKPOINT,
				 restoring->sources.floor_version, true);
		*ret_result = result_ready(restoring, OL_RESTORE_CHECKPOINT,
					   restoring->sources.floor_epoch);
	} else if (!restoring->opts->init_worker &&
		   (restore == OL_RESTORE_NONE || restore == OL_RESTORE_CHECKPOINT)) {
		*ret_result = result_ready(restoring, OL_RESTORE_NONE, 0);
	} else {
		restoring->active = true;
		if (restoring->opts->init_worker)
			ol_log(OL_LOG_INFO,
			       "server %s: shard %u waits for the first weights of worker 0",
			       restoring->addr, restoring->opts->shard);
	}
	return rc;
}

/* Where the content at byte `off` lies in a mirror, and how much of it in one piece; 0: nowhere */
static uint64_t mirror_piece(const struct ol_restoring *restoring, const struct ol_hello *hello,
			     uint64_t off, uint64_t *ret_src)
{
	uint64_t table = ol_layout_table_bytes(&restoring->store->geo);
	uint64_t vector = ol_layout_vector_bytes(&restoring->store->geo);
	uint64_t total = ol_layout_content_bytes(&restoring->store->geo);

	if (off < table) {
		*ret_src = hello->table_off + off;
		return table - off;
	}
	if (off < table + vector) {
		*ret_src = hello->weights_off + (off - table);
		return table + vector - off;
	}
	*ret_src = hello->state_off + (off - table - vector);
	return hello->state_off == OL_MIRROR_NO_STATE ? 0 : total - off;
}

/* Note which workers came; returns how many are connected */
static uint32_t arrivals_note(struct ol_restoring *restoring, uint64_t now_ns)
{
	uint32_t here = 0;

	for (uint32_t i = 0; i < restoring->store->geo.workers_max; i++) {
		const struct ol_session *session = &restoring->sources.sessions->all[i];
		uint64_t bit = UINT64_C(1) << i % 64;

		if (!ol_source_is_here(session))
			continue;
		here++;
		if (restoring->sources.since_ns == 0)
			restoring->sources.since_ns = now_ns;
		if ((session->hello.mirror.bytes == 0 && session->hello.gone_seq == 0) ||
		    (restoring->sources.came[i / 64] & bit) != 0)
			continue;
		restoring->sources.came[i / 64] |= bit;
		restoring->sources.since_ns = now_ns;
	}
	if (here == 0)
		restoring->sources.since_ns = 0; /* no worker is left: the next one is the first */
	return here;
}

/* Bytes to read of the source: its table, or all of it */
static uint64_t read_bytes(const struct ol_restoring *restoring)
{
	return restoring->looks ? ol_layout_table_bytes(&restoring->store->geo)
				: ol_layout_content_bytes(&restoring->store->geo);
}

/* Post as many reads as the queue takes. 0, or an error: then this source is dropped. */
static int reads_post(struct ol_restoring *restoring)
{
	const struct ol_hello *hello = &restoring->source->hello;
	uint64_t bytes, src;

	while ((bytes = restoring->posted < read_bytes(restoring)
				? mirror_piece(restoring, hello, restoring->posted, &src)
				: 0) > 0) {
		struct ol_xport_read read = {
			.segs = { { .region = restoring->public_region,
				    .off = ol_layout_snapshot_off(&restoring->store->geo,
								  restoring->into) +
					   restoring->posted,
				    .bytes =
					    bytes < CHUNK_BYTES ? (uint32_t)bytes : CHUNK_BYTES } },
			.seg_count = 1,
			.flags = OL_XPORT_SIGNALED,
			.src = { .addr = hello->mirror.addr,
				 .bytes = hello->mirror.bytes,
				 .rkey = hello->mirror.rkey },
			.src_off = src,
			.cookie = OL_SESSION_COOKIE_RESTORE,
		};
		int rc = -EINVAL;

		if (src <= hello->mirror.bytes && read.segs[0].bytes <= hello->mirror.bytes - src)
			rc = restoring->ops->post_read(restoring->source->conn, &read);
		if (rc != 0)
			return rc == -EAGAIN ? 0 : rc;
		restoring->posted += read.segs[0].bytes;
		restoring->reads++;
	}
	return 0;
}

static bool all_posted(const struct ol_restoring *restoring)
{
	uint64_t src;

	return restoring->posted >= read_bytes(restoring) ||
	       mirror_piece(restoring, &restoring->source->hello, restoring->posted, &src) == 0;
}

static void source_forget(struct ol_restoring *restoring)
{
	restoring->source = NULL;
	/* periodic: the snapshot read before is still there */
	if (restoring->replica->chain.loaded)
		restoring->active = false;
}

/*
 * A worker whose link broke during a read, or for whose table memory was short, reconnects soon,
 * with its mirror. Until then it does not count as connected. It may be the only worker.
 */
static struct ol_restore_result source_leaves(const struct ol_restoring *restoring, const char *why)
{
	return (struct ol_restore_result){ .what = OL_RESTORE_ENDS,
					   .session = restoring->source,
					   .why = why };
}

static struct ol_restore_result source_refuse(struct ol_restoring *restoring, const char *why)
{
	struct ol_session *source = restoring->source;
	const bool init = source->hello.init != 0;

	ol_log(OL_LOG_WARN, "server %s: %s of worker %u %s not used: %s", restoring->addr,
	       init ? "first weights" : "mirror", source->worker, init ? "are" : "is", why);
	source->hello.mirror.bytes = 0;
	if (source->role == OL_ROLE_WORKER)
		restoring->sources.refused[source->worker / 64] |= UINT64_C(1)
								   << source->worker % 64;
	source_forget(restoring);
	return goes_on;
}

/* 0: a server published what was read of the source's table, as what its hello says */
static int voucher_check(const struct ol_restoring *restoring)
{
	const struct ol_hello *hello = &restoring->source->hello;
	const struct ol_vouched what = { .history = hello->mirror_history,
					 .founded = hello->mirror_epoch,
					 .version = hello->mirror_version };

	return ol_voucher_check(restoring->job_key, &restoring->store->geo, &what,
				ol_store_content(restoring->store, restoring->into));
}

static struct ol_restore_result unvouched_refuse(struct ol_restoring *restoring, int rc)
{
	char why[96];

	if (rc != -EACCES)
		return source_leaves(restoring, "no memory to look at its mirror");
	snprintf(why, sizeof(why), "no server of this job vouches for version %llu with its table",
		 (unsigned long long)restoring->source->hello.mirror_version);
	ol_counter_add(&restoring->store->board->violations, 1);
	return source_refuse(restoring, why);
}

/* The table of a mirror was read: it tells for which workers the mirror is enough. */
static struct ol_restore_result table_take(struct ol_restoring *restoring)
{
	struct ol_session *source = restoring->source;
	size_t bytes = restoring->store->geo.workers_max * sizeof(struct ol_applied);
	const uint8_t *content = ol_store_content(restoring->store, restoring->into);
	int rc;

	rc = voucher_check(restoring);
	if (rc != 0)
		return unvouched_refuse(restoring, rc);
	source->table = malloc(bytes);
	if (source->table == NULL)
		return source_leaves(restoring, "no memory to look at its mirror");
	memcpy(source->table, content + sizeof(struct ol_snapshot_head), bytes);
	restoring->source = NULL;
	return goes_on;
}

/* The table came with what was read, from a peer */
static bool tensors_are_sound(const struct ol_restoring *restoring, char *why, size_t why_bytes)
{
	const struct ol_geometry *geo = &restoring->store->geo;
	const char *table = ol_tensors_of(geo, ol_store_content(restoring->store, restoring->into));

	return restoring->opts->tensors != NULL || table == NULL ||
	       !ol_tensor_fault(table, geo->param_count, why, why_bytes);
}

/* Worker 0's first weights were read. Of what lies before the table of tensors nothing is its to say */
static struct ol_restore_result init_take(struct ol_restoring *restoring)
{
	struct ol_store *store = restoring->store;
	struct ol_snapshot_head *head = ol_store_content(store, restoring->into);
	const uint64_t digest = restoring->source->hello.init;
	char why[512];

	memset(head, 0, ol_layout_tensors_off(&store->geo));
	head->init = digest;
	if (ol_content_fault(&store->geo, head, (struct ol_content_ask){ .no_state = true }, why,
			     sizeof(why)) ||
	    !tensors_are_sound(restoring, why, sizeof(why)))
		return source_refuse(restoring, why);
	ol_store_restore(store, restoring->into, 0, false);
	ol_log(OL_LOG_INFO, "server %s: shard %u begins with the first weights of worker 0",
	       restoring->addr, restoring->opts->shard);
	restoring->source = NULL;
	return result_ready(restoring, OL_RESTORE_NONE, 0);
}

/* No mirror is better: the checkpoint, or the first weights */
static struct ol_restore_result fall_back(struct ol_restoring *restoring)
{
	if (!restoring->sources.floor) {
		ol_log(OL_LOG_WARN,
		       "server %s: no worker has a mirror of shard %u%s: the server begins with the initial "
		       "weights",
		       restoring->addr, restoring->opts->shard,
		       restoring->opts->restore == OL_RESTORE_FRESHEST
			       ? ", and there is no checkpoint"
			       : "");
		if (restoring->opts->restore == OL_RESTORE_MIRROR)
			left_say(restoring);
		return result_ready(restoring, OL_RESTORE_NONE, 0);
	}
	ol_store_restore(restoring->store, OL_SOURCE_CHECKPOINT, restoring->sources.floor_version,
			 true);
	ol_log(OL_LOG_INFO, "server %s: restored version %llu from %s", restoring->addr,
	       (unsigned long long)restoring->sources.floor_version,
	       restoring->opts->checkpoint_dir);
	return result_ready(restoring, OL_RESTORE_CHECKPOINT, restoring->sources.floor_epoch);
}

/* The mirror was read whose blocks are newer than some of the checkpoint's, and older than its table */
static struct ol_restore_result blocks_take(struct ol_restoring *restoring, bool with_state)
{
	const struct ol_store *store = restoring->store;
	struct ol_sources *sources = &restoring->sources;
	const uint64_t version = restoring->source->hello.mirror_version;
	const uint32_t count =
		ol_ckpt_blocks_renew(&store->geo, sources->blocks, sources->block_versions,
				     ol_store_content(store, restoring->into), version, with_state,
				     ol_store_content(store, OL_SOURCE_CHECKPOINT));

	ol_log(OL_LOG_INFO,
	       "server %s: shard %u: %u of the checkpoint's %u blocks are those of worker %u's mirror, of "
	       "version %llu%s: they lack %.1f versions in the mean",
	       restoring->addr, restoring->opts->shard, count, sources->blocks->count,
	       restoring->source->worker, (unsigned long long)version,
	       !with_state && store->geo.state_vectors > 0 ? ", but for the optimizer's state" : "",
	       ol_ckpt_blocks_behind(sources->blocks, sources->block_versions, 0,
				     sources->floor_version));
	restoring->source = NULL;
	return fall_back(restoring);
}

/* The whole mirror was read. */
static struct ol_restore_result mirror_take(struct ol_restoring *restoring)
{
	struct ol_session *source = restoring->source;
	const struct ol_hello *hello = &source->hello;
	bool with_state = hello->state_off != OL_MIRROR_NO_STATE;
	char why[256];
	int rc;

	if (source->role == OL_ROLE_REPLICA) { /* servers of the job are trusted */
		restoring->source = NULL;
		ol_store_restore(restoring->store, restoring->into, hello->mirror_version, true);
		return result_ready(restoring, OL_RESTORE_CHAIN, hello->mirror_epoch);
	}
	if (hello->init != 0)
		return init_take(restoring);
	rc = voucher_check(restoring); /* the table was read again, and may be another */
	if (rc != 0)
		return unvouched_refuse(restoring, rc);
	if (ol_content_fault(&restoring->store->geo,
			     ol_store_content(restoring->store, restoring->into),
			     (struct ol_content_ask){
				     .nonfinite = restoring->opts->rule.allow_nonfinite != 0,
				     .no_state = !with_state },
			     why, sizeof(why)))
		return source_refuse(restoring, why);
	if (!tensors_are_sound(restoring, why, sizeof(why)))
		return source_refuse(restoring, why);
	/* where another shard decides, a step may be of nothing (server/follow.h) */
	if (!restoring->store->geo.decided &&
	    ol_restore_grads(restoring->store, restoring->into) < hello->mirror_version)
		return source_refuse(restoring,
				     "it has fewer gradients than steps: its version is false");
	if (restoring->lends)
		return blocks_take(restoring, with_state);
	ol_store_restore(restoring->store, restoring->into, hello->mirror_version, with_state);
	ol_log(OL_LOG_INFO, "server %s: restored version %llu from the mirror of worker %u%s",
	       restoring->addr, (unsigned long long)hello->mirror_version, source->worker,
	       !with_state && restoring->store->geo.state_vectors > 0
		       ? "; the optimizer's state starts from zero"
		       : "");
	restoring->source = NULL;
	return result_ready(restoring, OL_RESTORE_MIRROR, hello->mirror_epoch);
}

static void source_begin(struct ol_restoring *restoring, struct ol_session *session, bool looks)
{
	restoring->source = session;
	restoring->looks = looks;
	restoring->lends = false;
	restoring->into = (restoring->store->snapshot + 1) % OL_SNAPSHOTS;
	restoring->posted = 0;
	restoring->reads = 0;
	restoring->failed = restoring->lies = false;
}

static void choice_log(const struct ol_restoring *restoring, const struct ol_source *best)
{
	const uint64_t lost = best->lost + best->absent;
	char text[OL_SOURCES_TEXT_MAX];

	if (ol_source_say(&restoring->sources, text) > 1)
		ol_log(OL_LOG_INFO,
		       "server %s: shard %u: begins with %s, which lacks %llu applied pushes; chosen from %s",
		       restoring->addr, restoring->opts->shard,
		       best->session != NULL      ? "a mirror"
		       : best->lends != NULL      ? "the checkpoint and newer blocks of a mirror"
		       : restoring->sources.floor ? "the checkpoint"
						  : "the first weights",
		       (unsigned long long)lost, text);
	ol_word_store(&restoring->store->board->restored_lost, lost);
	if (lost > 0)
		ol_log(OL_LOG_WARN,
		       "server %s: shard %u: %llu pushes are lost that workers know as applied: no "
		       "worker that has them came within %u ms",
		       restoring->addr, restoring->opts->shard, (unsigned long long)lost,
		       restoring->opts->restore_wait_ms);
}

/* Worker 0, if it offers first weights; else NULL */
static struct ol_session *init_source(struct ol_restoring *restoring)
{
	struct ol_session *session = &restoring->sources.sessions->all[0];

	if (!ol_source_is_here(session))
		return NULL;
	if (session->hello.init != 0 && session->hello.mirror.bytes != 0)
		return session;
	if (!restoring->told)
		ol_log(OL_LOG_WARN,
		       "server %s: shard %u has no weights, and worker 0, which is connected, offers "
		       "none: connect it with its first weights (init), or, where another shard has "
		       "begun with other ones, begin all servers anew",
		       restoring->addr, restoring->opts->shard);
	restoring->told = true;
	return NULL;
}

/* It waits for as long as nobody comes: whoever does may have newer weights than the folder. A person is told once */
static void nobody_say(struct ol_restoring *restoring, uint64_t now_ns)
{
	if (restoring->nobody_ns == 0)
		restoring->nobody_ns = now_ns;
	if (restoring->waits_told || restoring->opts->init_worker ||
	    now_ns - restoring->nobody_ns < TELL_MS * OL_NS_PER_MS)
		return;
	restoring->waits_told = true;
	ol_log(OL_LOG_WARN,
	       "server %s: shard %u waits: no worker is connected, who may have %s: start one",
	       restoring->addr, restoring->opts->shard,
	       restoring->sources.floor ? "newer weights than the checkpoint"
					: "the shard's weights");
}

/* It would write over what may be mended, or is of other options: that is for a person to say */
static struct ol_restore_result refuse_anew(const struct ol_restoring *restoring)
{
	ol_log(OL_LOG_ERROR,
	       "server %s: shard %u: no worker has a mirror that can be used, nor can the checkpoint in "
	       "%s (%s): it ends, and does not begin anew over it; to begin anew, restore none, or move "
	       "it away",
	       restoring->addr, restoring->opts->shard, restoring->opts->checkpoint_dir,
	       ol_strerror(restoring->refused));
	return (struct ol_restore_result){ .what = OL_RESTORE_FAILS, .status = restoring->refused };
}

static struct ol_restore_result source_pick(struct ol_restoring *restoring, uint64_t now_ns)
{
	uint32_t here = arrivals_note(restoring, now_ns);
	struct ol_source best;

	if (here == 0) {
		nobody_say(restoring, now_ns);
		return waits;
	}
	for (uint32_t i = 0; i < restoring->store->geo.workers_max; i++) {
		struct ol_session *session = &restoring->sources.sessions->all[i];

		if (!ol_source_is_here(session) || session->table != NULL ||
		    session->hello.mirror.bytes == 0 || session->hello.init != 0)
			continue;
		source_begin(restoring, session, true);
		return goes_on;
	}
	if (!ol_source_choose(&restoring->sources, now_ns, &best))
		return waits;
	if (best.table == NULL && restoring->refused != 0)
		return refuse_anew(restoring);
	if (restoring->opts->init_worker && best.table == NULL) {
		best.session = init_source(restoring);
		if (best.session == NULL)
			return waits;
	}
	choice_log(restoring, &best);
	if (best.session == NULL && best.lends == NULL)
		return fall_back(restoring);
	source_begin(restoring, best.session != NULL ? best.session : best.lends, false);
	restoring->lends = best.session == NULL;
	return goes_on;
}

/* Read the chosen source */
static struct ol_restore_result source_read(struct ol_restoring *restoring)
{
	int rc = restoring->failed ? 0 : reads_post(restoring);

	restoring->failed = restoring->failed || rc != 0;
	restoring->lies = restoring->lies || rc == -EINVAL;
	/* also of a failed source: none of its reads may land among the next source's */
	if (restoring->reads > 0)
		return waits;
	if (restoring->failed && !restoring->lies && restoring->source->role == OL_ROLE_WORKER)
		return source_leaves(restoring, "its link broke while its mirror was read");
	if (restoring->failed)
		return source_refuse(restoring, "it cannot be read");
	if (!all_posted(restoring))
		return waits; /* the send queue is full of other posts */
	return restoring->looks ? table_take(restoring) : mirror_take(restoring);
}

struct ol_restore_result ol_restore_progress(struct ol_restoring *restoring, uint64_t now_ns)
{
	struct ol_restore_result result = goes_on;

	while (result.what == OL_RESTORE_GOES_ON) {
		if (!restoring->active || (restoring->source == NULL && restoring->chain))
			return waits;
		result = restoring->source == NULL ? source_pick(restoring, now_ns)
						   : source_read(restoring);
	}
	return result;
}

void ol_restore_from_session(struct ol_restoring *restoring, struct ol_session *session)
{
	/* the successor of a periodic chain may be reading one of them; there are three */
	int into = ol_store_target(restoring->store, ol_successor_pinned(restoring->replica));

	ol_restore_clear(restoring);
	restoring->active = true;
	restoring->chain = true;
	restoring->source = session;
	restoring->into = (uint32_t)into;
}

bool ol_restore_on_read(struct ol_restoring *restoring, const struct ol_session *session,
			int status)
{
	if (!restoring->active || restoring->source != session)
		return false;
	restoring->reads--;
	restoring->failed = restoring->failed || status != 0;
	restoring->lies = restoring->lies || status == -EACCES;
	return true;
}

void ol_restore_on_leave(struct ol_restoring *restoring, const struct ol_session *session)
{
	if (restoring->source == session)
		source_forget(restoring);
}
