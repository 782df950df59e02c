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
 *	FRESHEST        as MIRROR                               the same, or the checkpoint
 *
 * A source is enough when it has all that those who are connected were told is applied, but for
 * what they keep and push again (struct ol_hello: gone_seq). The first weights, and a worker that
 * has no mirror, are enough for those to whom nothing was told. While no source is enough, or
 * somebody is missed, the server waits: for restore_wait_ms since the last worker came that changed
 * the picture. Then it takes the source that loses least, and counts what that is.
 *
 * A mirror is read with RDMA reads, into a snapshot that nobody looks at; the worker's CPU takes no
 * part. Its table is read first, as it says for whom it is enough. A source that goes away in the
 * middle is forgotten, and another is chosen.
 *
 * The epoch becomes one more than that of whatever was found: a mirror that is left over from a
 * history that was rolled back is older than all that comes after.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"
#include "server/source.h"

enum {
	CHUNK_BYTES = 1 << 20
};

struct ol_ckpt_meta ol_server_ckpt_meta(const struct ol_server *server)
{
	return (struct ol_ckpt_meta){
		.geo = server->store.geo,
		.job_id = server->opts.job_id,
		.version = server->store.version,
		.epoch = server->opts.epoch,
		.optimizer = (uint32_t)server->opts.rule.optimizer,
	};
}

/* Gradients of all workers that a snapshot contains */
static uint64_t grads_in(const struct ol_server *server, uint32_t snapshot)
{
	const uint8_t *content = ol_store_content(&server->store, snapshot);
	uint64_t grads = 0;

	for (uint32_t i = 0; i < server->store.geo.workers_max; i++) {
		struct ol_applied applied;

		memcpy(&applied, content + sizeof(struct ol_snapshot_head) + i * sizeof(applied),
		       sizeof(applied));
		grads += applied.grads;
	}
	return grads;
}

/* A history begins: newer than the one that its weights are of, and than all that workers who are
 * here know of, or they would not take this server for the successor */
static uint32_t epoch_of(const struct ol_server *server, enum ol_restore from, uint32_t epoch)
{
	uint32_t next = server->opts.epoch;

	for (uint32_t i = 0; i < server->store.geo.workers_max; i++) {
		const struct ol_session *session = &server->sessions[i];

		if (session->state == OL_SESSION_JOINED && session->hello.epoch > epoch)
			epoch = session->hello.epoch;
	}
	if (from != OL_RESTORE_NONE)
		epoch++;
	return epoch > next ? epoch : next;
}

/* The server has its weights: they are published, and everybody who waits may begin. */
static void ready(struct ol_server *server, enum ol_restore from, uint32_t epoch, uint64_t now_ns)
{
	struct ol_board *board = server->store.board;

	server->restoring.active = false;
	server->restoring.chain = false;
	/* in a chain epochs are its views' */
	if (!server->replica.on)
		server->opts.epoch = epoch_of(server, from, epoch);
	server->saving.version = from == OL_RESTORE_CHECKPOINT ? server->store.version : 0;
	ol_word_store(&board->epoch, server->opts.epoch);
	ol_word_store(&board->restored_from, (uint64_t)from);
	ol_word_store(&board->restored_version, server->store.version);
	ol_word_store(&board->applied, grads_in(server, server->store.snapshot));
	ol_word_store(&board->ready_ns, now_ns);
	if (server->replica.on) {
		ol_replica_on_ready(server, now_ns);
		return;
	}
	for (uint32_t i = 0; i < server->session_count; i++) {
		if (server->sessions[i].state == OL_SESSION_JOINED)
			ol_session_welcome(server, &server->sessions[i]);
	}
}

/*
 * The newest of what the folder has, full or running, into its snapshot
 *
 * A running one is read second, and taken if it is newer: by (epoch, version), the version being
 * that of its table. -ENOENT: there is neither.
 */
static int checkpoint_read(struct ol_server *server, struct ol_ckpt_meta *meta)
{
	const struct ol_server_opts *opts = &server->opts;
	void *content = ol_store_content(&server->store, OL_SOURCE_CHECKPOINT);
	struct ol_ckpt_meta running = *meta;
	int full_rc, rc;

	if (opts->restore_version != 0) /* a running one is where it is */
		return ol_ckpt_read_until(opts->checkpoint_dir, opts->restore_version, meta,
					  content);
	full_rc = ol_ckpt_read_newest(opts->checkpoint_dir, meta, content);
	if (full_rc != 0 && full_rc != -ENOENT && full_rc != OL_E_NO_CHECKPOINT)
		return full_rc;
	rc = ol_ckpt_read_running(opts->checkpoint_dir, &server->saving.blocks,
				  full_rc == 0 ? meta : NULL, &running, content);
	if (rc == 0)
		*meta = running;
	if (rc == 0 || rc == -ENOENT || (rc == OL_E_NO_CHECKPOINT && full_rc == 0))
		return rc == 0 ? 0 : full_rc;
	return rc;
}

/* True if the checkpoint is in its snapshot. False: there is none; *ret_rc says whether that ends
 * it. */
static bool checkpoint_load(struct ol_server *server, int *ret_rc, char *err, size_t err_bytes)
{
	struct ol_ckpt_meta meta = ol_server_ckpt_meta(server);
	struct ol_restoring *restoring = &server->restoring;
	int rc = checkpoint_read(server, &meta);

	*ret_rc = 0;
	if (rc == 0) {
		restoring->floor = true;
		restoring->floor_epoch = meta.epoch;
		restoring->floor_version = meta.version;
		return true;
	}
	/* where something cannot be read nobody knows what is the freshest */
	if (rc == -ENOENT || (server->opts.restore == OL_RESTORE_FRESHEST &&
			      (rc == OL_E_NO_CHECKPOINT || rc == OL_E_GEOMETRY))) {
		ol_log(OL_LOG_WARN, "server %s: no checkpoint of shard %u in %s: %s", server->addr,
		       server->opts.shard, server->opts.checkpoint_dir, ol_strerror(rc));
		return false;
	}
	snprintf(err, err_bytes, "cannot restore shard %u from %s: %s", server->opts.shard,
		 server->opts.checkpoint_dir, ol_strerror(rc));
	*ret_rc = rc;
	return false;
}

int ol_restore_start(struct ol_server *server, char *err, size_t err_bytes)
{
	enum ol_restore restore = server->opts.restore;
	int rc = 0;

	server->restoring = (struct ol_restoring){ 0 };
	if (restore != OL_RESTORE_NONE && restore != OL_RESTORE_MIRROR &&
	    server->opts.checkpoint_dir != NULL && checkpoint_load(server, &rc, err, err_bytes) &&
	    restore == OL_RESTORE_CHECKPOINT) {
		ol_store_restore(&server->store, OL_SOURCE_CHECKPOINT,
				 server->restoring.floor_version, true);
		ready(server, OL_RESTORE_CHECKPOINT, server->restoring.floor_epoch, ol_clock_ns());
	} else if (restore == OL_RESTORE_NONE || restore == OL_RESTORE_CHECKPOINT) {
		ready(server, OL_RESTORE_NONE, 0, ol_clock_ns());
	} else {
		server->restoring.active = true;
	}
	return rc;
}

/* Where the content at byte `off` lies in a mirror, and how much of it in one piece; 0: nowhere */
static uint64_t mirror_piece(const struct ol_server *server, const struct ol_hello *hello,
			     uint64_t off, uint64_t *ret_src)
{
	uint64_t table = ol_layout_table_bytes(&server->store.geo);
	uint64_t vector = ol_layout_vector_bytes(&server->store.geo);
	uint64_t total = ol_layout_content_bytes(&server->store.geo);

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

/* Note who came; the number of those who are here */
static uint32_t picture(struct ol_server *server, uint64_t now_ns)
{
	struct ol_restoring *restoring = &server->restoring;
	uint32_t here = 0;

	for (uint32_t i = 0; i < server->store.geo.workers_max; i++) {
		const struct ol_session *session = &server->sessions[i];
		uint64_t bit = UINT64_C(1) << i % 64;

		if (!ol_source_is_here(session))
			continue;
		here++;
		if (restoring->since_ns == 0)
			restoring->since_ns = now_ns;
		if ((session->hello.mirror.bytes == 0 && session->hello.gone_seq == 0) ||
		    (restoring->came[i / 64] & bit) != 0)
			continue;
		restoring->came[i / 64] |= bit;
		restoring->since_ns = now_ns;
	}
	if (here == 0)
		restoring->since_ns = 0; /* or all have left: the next is the first again */
	return here;
}

/* Of the source that is being read: its table, or all of it */
static uint64_t wanted(const struct ol_server *server)
{
	return server->restoring.looks ? ol_layout_table_bytes(&server->store.geo)
				       : ol_layout_content_bytes(&server->store.geo);
}

/* Post what the queue takes. 0, or why this source is none. */
static int reads_post(struct ol_server *server)
{
	struct ol_restoring *restoring = &server->restoring;
	const struct ol_hello *hello = &restoring->source->hello;
	uint64_t bytes, src;

	while ((bytes = restoring->posted < wanted(server)
				? mirror_piece(server, hello, restoring->posted, &src)
				: 0) > 0) {
		struct ol_xport_read read = {
			.segs = { { .region = server->public_region,
				    .off = ol_layout_snapshot_off(&server->store.geo,
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
			.cookie = OL_SERVER_COOKIE_RESTORE,
		};
		int rc = -EINVAL;

		if (src <= hello->mirror.bytes && read.segs[0].bytes <= hello->mirror.bytes - src)
			rc = server->ops->post_read(restoring->source->conn, &read);
		if (rc != 0)
			return rc == -EAGAIN ? 0 : rc;
		restoring->posted += read.segs[0].bytes;
		restoring->reads++;
	}
	return 0;
}

static bool all_posted(const struct ol_server *server)
{
	const struct ol_restoring *restoring = &server->restoring;
	uint64_t src;

	return restoring->posted >= wanted(server) ||
	       mirror_piece(server, &restoring->source->hello, restoring->posted, &src) == 0;
}

static void source_forget(struct ol_server *server)
{
	server->restoring.source = NULL;
	/* periodic: what was read before is still there */
	if (server->replica.on && server->replica.chain.loaded)
		server->restoring.active = false;
}

/*
 * A worker whose link broke in the middle, or for whose table there was no memory, is back in a
 * moment, with its mirror: until then it is not here. It may be the only one.
 */
static void source_leaves(struct ol_server *server, const char *why)
{
	ol_session_end(server, server->restoring.source, why);
}

static void source_refuse(struct ol_server *server, const char *why)
{
	struct ol_session *source = server->restoring.source;

	ol_log(OL_LOG_WARN, "server %s: mirror of worker %u is not used: %s", server->addr,
	       source->worker, why);
	source->hello.mirror.bytes = 0;
	if (source->role == OL_ROLE_WORKER)
		server->restoring.refused[source->worker / 64] |= UINT64_C(1)
								  << source->worker % 64;
	source_forget(server);
}

/* The table of a mirror is here: it says for whom the mirror is enough. */
static void table_take(struct ol_server *server)
{
	struct ol_session *source = server->restoring.source;
	size_t bytes = server->store.geo.workers_max * sizeof(struct ol_applied);
	const uint8_t *content = ol_store_content(&server->store, server->restoring.into);

	source->table = malloc(bytes);
	if (source->table == NULL) {
		source_leaves(server, "no memory to look at its mirror");
		return;
	}
	server->restoring.source = NULL;
	memcpy(source->table, content + sizeof(struct ol_snapshot_head), bytes);
}

/* The mirror is here, whole. */
static void mirror_take(struct ol_server *server, uint64_t now_ns)
{
	struct ol_session *source = server->restoring.source;
	const struct ol_hello *hello = &source->hello;
	bool with_state = hello->state_off != OL_MIRROR_NO_STATE;

	if (source->role == OL_ROLE_REPLICA) { /* one of us: what it says is so */
		server->restoring.source = NULL;
		ol_store_restore(&server->store, server->restoring.into, hello->mirror_version,
				 true);
		ready(server, OL_RESTORE_CHAIN, hello->mirror_epoch, now_ns);
		return;
	}
	if (!server->opts.rule.allow_nonfinite &&
	    !ol_store_finite(&server->store, server->restoring.into)) {
		source_refuse(server, "it holds a NaN or an infinity");
		return;
	}
	if (grads_in(server, server->restoring.into) < hello->mirror_version) {
		source_refuse(server, "it has fewer gradients than steps: its version is a lie");
		return;
	}
	ol_store_restore(&server->store, server->restoring.into, hello->mirror_version, with_state);
	ol_log(OL_LOG_INFO, "server %s: restored version %llu from the mirror of worker %u%s",
	       server->addr, (unsigned long long)hello->mirror_version, source->worker,
	       !with_state && server->store.geo.state_vectors > 0
		       ? "; the optimizer's moments start anew"
		       : "");
	server->restoring.source = NULL;
	ready(server, OL_RESTORE_MIRROR, hello->mirror_epoch, now_ns);
}

/* No mirror is better: the checkpoint, or the first weights */
static void fall_back(struct ol_server *server, uint64_t now_ns)
{
	const struct ol_restoring *restoring = &server->restoring;

	if (!restoring->floor) {
		ol_log(OL_LOG_WARN,
		       "server %s: no worker has a mirror of shard %u, and there is no checkpoint: "
		       "it begins with the first weights",
		       server->addr, server->opts.shard);
		ready(server, OL_RESTORE_NONE, 0, now_ns);
		return;
	}
	ol_store_restore(&server->store, OL_SOURCE_CHECKPOINT, restoring->floor_version, true);
	ol_log(OL_LOG_INFO, "server %s: restored version %llu from %s", server->addr,
	       (unsigned long long)restoring->floor_version, server->opts.checkpoint_dir);
	ready(server, OL_RESTORE_CHECKPOINT, restoring->floor_epoch, now_ns);
}

static void source_begin(struct ol_server *server, struct ol_session *session, bool looks)
{
	struct ol_restoring *restoring = &server->restoring;

	restoring->source = session;
	restoring->looks = looks;
	restoring->into = (server->store.snapshot + 1) % OL_SNAPSHOTS;
	restoring->posted = 0;
	restoring->reads = 0;
	restoring->failed = restoring->lies = false;
}

static void lost_log(const struct ol_server *server, const struct ol_source *best)
{
	ol_word_store(&server->store.board->restored_lost, best->lost);
	if (best->lost > 0)
		ol_log(OL_LOG_WARN,
		       "server %s: shard %u: %llu pushes that workers were told are applied are "
		       "lost: whoever has them did not come within %u ms",
		       server->addr, server->opts.shard, (unsigned long long)best->lost,
		       server->opts.restore_wait_ms);
}

/* True: a source is being read, or it has begun with one. False: it waits. */
static bool source_pick(struct ol_server *server, uint64_t now_ns)
{
	uint32_t here = picture(server, now_ns);
	struct ol_source best;

	if (here == 0)
		return false;
	for (uint32_t i = 0; i < server->store.geo.workers_max; i++) {
		struct ol_session *session = &server->sessions[i];

		if (!ol_source_is_here(session) || session->table != NULL ||
		    session->hello.mirror.bytes == 0)
			continue;
		source_begin(server, session, true);
		return true;
	}
	if (!ol_source_choose(server, now_ns, &best))
		return false;
	lost_log(server, &best);
	if (best.session != NULL)
		source_begin(server, best.session, false);
	else
		fall_back(server, now_ns);
	return true;
}

void ol_restore_progress(struct ol_server *server, uint64_t now_ns)
{
	struct ol_restoring *restoring = &server->restoring;
	int rc;

	while (restoring->active) {
		if (restoring->source == NULL) {
			if (restoring->chain || !source_pick(server, now_ns))
				return;
			continue;
		}
		rc = restoring->failed ? 0 : reads_post(server);
		restoring->failed = restoring->failed || rc != 0;
		restoring->lies = restoring->lies || rc == -EINVAL;
		/* also of one that failed: none of its reads may land among the next one's */
		if (restoring->reads > 0)
			return;
		if (restoring->failed && !restoring->lies &&
		    restoring->source->role == OL_ROLE_WORKER)
			source_leaves(server, "its link broke while its mirror was read");
		else if (restoring->failed)
			source_refuse(server, "it cannot be read");
		else if (!all_posted(server))
			return; /* the queue is full of something else */
		else if (restoring->looks)
			table_take(server);
		else
			mirror_take(server, now_ns);
	}
}

void ol_restore_from(struct ol_server *server, struct ol_session *session, uint64_t now_ns)
{
	/* the successor of a periodic chain may be reading one of them; there are three */
	int into = ol_store_target(&server->store, ol_successor_pinned(server));

	server->restoring = (struct ol_restoring){
		.active = true,
		.chain = true,
		.source = session,
		.into = (uint32_t)into,
	};
	ol_restore_progress(server, now_ns);
}

void ol_restore_on_read(struct ol_server *server, struct ol_session *session, int status,
			uint64_t now_ns)
{
	struct ol_restoring *restoring = &server->restoring;

	if (!restoring->active || restoring->source != session)
		return;
	restoring->reads--;
	restoring->failed = restoring->failed || status != 0;
	restoring->lies = restoring->lies || status == -EACCES;
	ol_restore_progress(server, now_ns);
}

void ol_restore_on_leave(struct ol_server *server, const struct ol_session *session)
{
	if (server->restoring.source == session)
		source_forget(server);
}
