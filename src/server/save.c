/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * save.c -- checkpoints while the server serves
 *
 * A published snapshot is pinned, as by a reader, while the writer copies it: an update never waits
 * for a disk. A checkpoint that is due while the last is still being written is skipped, and
 * counted.
 *
 * Full recovery goes back to a version that all shards of a job have a checkpoint of, and no server
 * knows what the others skip. So each thins out by one rule: a full checkpoint that is skipped
 * doubles the stride, and only versions that are multiples of stride intervals are written (of a job
 * with one shard all that the disk takes). After IN_TIME checkpoints without a skip the stride is halved again. The multiples of the slowest
 * server's stride are then written by all, however fast each is.
 *
 * Of a chain its tail writes, or each full replica (checkpoint_by). What a replica has applied may not be
 * committed yet: a snapshot that is due stays pinned until it is, so no checkpoint has what the chain may
 * still lose. The name has the view's epoch: of a replica that does not know yet that the chain went on
 * without it, a checkpoint is older than the chain's, and holds only what the chain has, too.
 *
 * A running checkpoint saves `fraction` of its blocks every `fraction` of the interval. The
 * writer's thread measures and chooses the blocks too, on the pinned snapshot.
 */

#include "server/save.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"

enum {
	TELL_MS = 10000, /* between two lines about checkpoints that fail … */
	TURNS_MAX = 8, /* … and lines in a second that they fail, or are written again */
	STRIDE_MAX = 64, /* a disk that stood still for long is well again soon */
	IN_TIME = 4 /* checkpoints without a skip, after which a smaller stride is tried */
};

struct ol_ckpt_meta ol_save_meta(const struct ol_saving *saving)
{
	return (struct ol_ckpt_meta){
		.geo = saving->store->geo,
		.job_id = saving->opts->job_id,
		.version = saving->store->version,
		.epoch = saving->opts->epoch,
		.optimizer = (uint32_t)saving->opts->rule.optimizer,
		.nonfinite = saving->opts->rule.allow_nonfinite != 0,
		.tensors = saving->opts->tensors,
	};
}

static int blocks_make(struct ol_saving *saving, char *err, size_t err_bytes)
{
	const struct ol_server_opts *opts = saving->opts;

	if (opts->checkpoint_dir == NULL)
		return 0;
	return ol_ckpt_blocks_make(opts->blocks, opts->block_count, &saving->store->geo,
				   &saving->blocks, err, err_bytes);
}

static uint32_t blocks_choose(void *arg, const double *distance, uint32_t *chosen)
{
	return ol_selector_turn(arg, distance, chosen);
}

static int selectors_make(struct ol_saving *saving)
{
	const struct ol_server_opts *opts = saving->opts;
	const struct ol_ckpt_blocks *blocks = &saving->blocks;
	uint64_t *lengths = calloc(blocks->count, sizeof(*lengths));
	double share = opts->fraction, renewed = 0.0;
	int rc;

	if (lengths == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < blocks->count; i++)
		lengths[i] = ol_ckpt_block_floats(blocks, i);
	if (opts->checkpoint_format == OL_FORMAT_INT8)
		ol_ckpt_deltas_shares(opts->fraction, saving->store->geo.state_vectors, &share,
				      &renewed);
	rc = ol_selector_create(opts->selection, lengths, blocks->count, share,
				opts->job_id + opts->shard, &saving->selector);
	if (rc == 0 && renewed > 0.0)
		rc = ol_selector_create(OL_SELECT_ROUND_ROBIN, lengths, blocks->count, renewed, 0,
					&saving->renewer);
	free(lengths);
	return rc;
}

static int running_start(struct ol_saving *saving, const struct ol_ckpt_meta *meta, char *err,
			 size_t err_bytes)
{
	const struct ol_server_opts *opts = saving->opts;
	struct ol_ckpt_running_opts running = {
		.blocks = &saving->blocks,
		.choose = blocks_choose,
		.measure = opts->selection == OL_SELECT_PRIORITY,
		.format = (enum ol_format)opts->checkpoint_format,
		.fraction = opts->fraction,
		.renew = blocks_choose,
	};
	int rc = selectors_make(saving);

	if (rc != 0) {
		snprintf(err, err_bytes, "cannot choose among %u blocks of shard %u: %s",
			 saving->blocks.count, opts->shard, ol_strerror(rc));
		return rc;
	}
	running.choose_arg = saving->selector;
	running.renew_arg = saving->renewer;
	saving->interval = opts->fraction * (double)opts->checkpoint_steps;
	saving->first = true;
	return ol_ckpt_writer_start_running(opts->checkpoint_dir, meta, &running, &saving->writer,
					    err, err_bytes);
}

static int writer_start(struct ol_saving *saving, char *err, size_t err_bytes)
{
	const struct ol_server_opts *opts = saving->opts;
	struct ol_ckpt_meta meta = ol_save_meta(saving);

	saving->begun_ns = ol_clock_ns();
	if (opts->checkpoint_dir == NULL ||
	    (opts->checkpoint_steps == 0 && opts->checkpoint_ms == 0))
		return 0;
	if (opts->selection != OL_SELECT_FULL)
		return running_start(saving, &meta, err, err_bytes);
	saving->interval = (double)opts->checkpoint_steps;
	saving->stride = 1;
	if (opts->coordinator != NULL)
		return ol_ckpt_writer_start_shared(opts->checkpoint_dir, &meta,
						   opts->checkpoint_keep, &saving->writer, err,
						   err_bytes);
	return ol_ckpt_writer_start(opts->checkpoint_dir, &meta, opts->checkpoint_keep,
				    &saving->writer, err, err_bytes);
}

int ol_save_open(struct ol_saving *saving, char *err, size_t err_bytes)
{
	int rc = blocks_make(saving, err, err_bytes);

	return rc != 0 ? rc : writer_start(saving, err, err_bytes);
}

void ol_save_stop(struct ol_saving *saving)
{

	ol_ckpt_writer_stop(saving->writer);
	saving->writer = NULL;
	ol_selector_destroy(saving->selector);
	saving->selector = NULL;
	ol_selector_destroy(saving->renewer);
	saving->renewer = NULL;
	ol_ckpt_blocks_fini(&saving->blocks);
}

/* A full disk stays full for a while: log the first failure, and then one every TELL_MS. One that fails now and then has
 * few of these lines */
static void failure_say(struct ol_saving *saving, const struct ol_ckpt_result *result)
{
	uint64_t now_ns = ol_clock_ns();

	saving->turns.lines_max = TURNS_MAX;
	if (saving->failed++ == 0) {
		saving->failed_ns = saving->told_ns = now_ns;
		ol_log_rated(&saving->turns, now_ns, OL_LOG_ERROR,
			     "server %s: no checkpoint of version %llu: %s; training goes on",
			     saving->addr, (unsigned long long)result->version, result->err);
	} else if (now_ns - saving->told_ns >= TELL_MS * OL_NS_PER_MS) {
		saving->told_ns = now_ns;
		ol_log(OL_LOG_ERROR,
		       "server %s: %llu checkpoints failed in %.0f s; version %llu: %s",
		       saving->addr, (unsigned long long)saving->failed,
		       (double)(now_ns - saving->failed_ns) / 1e9,
		       (unsigned long long)result->version, result->err);
	}
}

static void failure_over(struct ol_saving *saving, uint64_t version)
{
	uint64_t now_ns;

	if (saving->failed == 0)
		return;
	now_ns = ol_clock_ns();
	ol_log_rated(
		&saving->turns, now_ns, OL_LOG_WARN,
		"server %s: checkpoints are written again, from version %llu on; %llu failed in %.1f s",
		saving->addr, (unsigned long long)version, (unsigned long long)saving->failed,
		(double)(now_ns - saving->failed_ns) / 1e9);
	saving->failed = 0;
}

static void result_take(struct ol_saving *saving, const struct ol_ckpt_result *result)
{
	struct ol_board *board = saving->store->board;

	saving->whole = result->whole;
	if (result->status == 0) {
		ol_counter_add(&board->checkpoints, 1);
		ol_counter_add(&board->checkpoint_bytes, result->bytes);
		ol_word_store(&board->checkpoint_version, result->version);
		ol_word_store(&board->checkpoint_ns, saving->taken_ns);
		failure_over(saving, result->version);
		if (saving->selector == NULL)
			return;
		ol_log(OL_LOG_DEBUG,
		       "server %s: running checkpoint of version %llu: %u blocks, %llu bytes; "
		       "copied after %.3f ms, durable after %.3f ms",
		       saving->addr, (unsigned long long)result->version, result->blocks,
		       (unsigned long long)result->bytes, (double)result->copy_ns / 1e6,
		       (double)result->duration_ns / 1e6);
		return;
	}
	ol_counter_add(&board->checkpoints_failed, 1);
	failure_say(saving, result);
}

static enum ol_ckpt_state writer_state(struct ol_saving *saving)
{
	struct ol_ckpt_result result;
	enum ol_ckpt_state state = ol_ckpt_writer_poll(saving->writer, &result);

	if (state != OL_CKPT_COPYING && saving->held == 0)
		saving->pinned = -1;
	if (state != OL_CKPT_DONE)
		return state;
	result_take(saving, &result);
	return OL_CKPT_IDLE;
}

unsigned ol_save_pinned(struct ol_saving *saving)
{
	bool copies;

	if (saving->pinned < 0)
		return 0;
	copies = writer_state(saving) == OL_CKPT_COPYING; /* it may unpin */
	return saving->pinned >= 0 && (copies || saving->held != 0) ? 1u << saving->pinned : 0;
}

/* By versions: due when a multiple of the interval was passed since the last */
static bool save_is_due(const struct ol_saving *saving, uint64_t now_ns)
{
	const struct ol_server_opts *opts = saving->opts;
	double share = opts->selection == OL_SELECT_FULL ? 1.0 : opts->fraction;

	if (saving->first)
		return true;
	if (saving->store->version == saving->version)
		return false;
	if (opts->checkpoint_steps != 0 &&
	    floor((double)saving->store->version / saving->interval) !=
		    floor((double)saving->version / saving->interval))
		return true;
	return opts->checkpoint_ms != 0 &&
	       (double)(now_ns - saving->begun_ns) >=
		       share * (double)opts->checkpoint_ms * (double)OL_NS_PER_MS;
}

/* Full checkpoints by versions: is this one left out, so that all shards write the same ones? */
static bool thinned(const struct ol_saving *saving)
{
	const struct ol_server_opts *opts = saving->opts;

	return opts->shard_count > 1 && opts->selection == OL_SELECT_FULL &&
	       opts->checkpoint_steps != 0 && opts->checkpoint_ms == 0 &&
	       (saving->store->version / opts->checkpoint_steps) % saving->stride != 0;
}

/* Nothing was made since the last one, and the chain is in a later epoch, which may be above the checkpoints of another
 * history: it is saved once more, so that it is the newest */
static bool is_of_old_epoch(const struct ol_saving *saving)
{
	return saving->epoch != 0 && saving->opts->epoch > saving->epoch &&
	       saving->store->version == saving->version && saving->held == 0 && !thinned(saving);
}

static void stride_set(struct ol_saving *saving, bool in_time)
{
	if (!in_time) {
		saving->in_time = 0;
		if (saving->stride < STRIDE_MAX)
			saving->stride *= 2;
	} else if (saving->stride > 1 && ++saving->in_time == IN_TIME) {
		saving->in_time = 0;
		saving->stride /= 2;
	}
}

/* Returns false if the writer is busy: then it is skipped. */
static bool save_begin(struct ol_saving *saving, uint64_t now_ns, uint32_t snapshot,
		       uint64_t version, bool whole)
{
	const void *content = ol_store_content(saving->store, snapshot);
	bool begun;

	saving->begun_ns = now_ns;
	saving->first = false;
	saving->epoch = saving->opts->epoch;
	ol_ckpt_writer_history(saving->writer, saving->what.history, saving->what.founded);
	begun = whole ? ol_ckpt_writer_begin_whole(saving->writer, content, version,
						   saving->opts->epoch)
		      : ol_ckpt_writer_begin(saving->writer, content, version, saving->opts->epoch);
	if (begun) {
		saving->pinned = (int)snapshot;
		saving->taken_ns = now_ns;
	} else {
		ol_counter_add(&saving->store->board->checkpoints_skipped, 1);
	}
	return begun;
}

/* The snapshot that waits is saved once it is committed, if this replica writes then */
static void held_progress(struct ol_saving *saving, uint64_t now_ns, uint64_t most)
{
	const uint32_t snapshot = (uint32_t)saving->pinned;
	const uint64_t version = saving->held;

	if (most != OL_SAVE_NONE && version > most)
		return;
	saving->held = 0;
	saving->pinned = -1;
	if (most != OL_SAVE_NONE)
		stride_set(saving, save_begin(saving, now_ns, snapshot, version, false));
}

void ol_save_progress(struct ol_saving *saving, uint64_t now_ns, uint64_t most)
{
	const struct ol_store *store = saving->store;
	bool idle;

	if (saving->writer == NULL)
		return;
	idle = writer_state(saving) == OL_CKPT_IDLE;
	if (saving->held != 0)
		held_progress(saving, now_ns, most);
	if (most == OL_SAVE_NONE) { /* once it writes, the next one that is due is its first */
		saving->version = store->version;
		return;
	}
	if (!save_is_due(saving, now_ns) && !(idle && is_of_old_epoch(saving)))
		return;
	if (!thinned(saving) && store->version <= most) {
		saving->version = store->version;
		stride_set(saving,
			   save_begin(saving, now_ns, store->snapshot, store->version, false));
		return;
	}
	if (!thinned(saving) && saving->pinned < 0) {
		saving->version = saving->held = store->version;
		saving->begun_ns = now_ns;
		saving->pinned = (int)store->snapshot;
		return;
	}
	if (!thinned(saving)) /* the one before it is not done yet */
		stride_set(saving, false);
	saving->version = store->version;
	saving->begun_ns = now_ns;
	ol_counter_add(&store->board->checkpoints_skipped, 1);
}

static void writer_finish(struct ol_saving *saving)
{
	while (writer_state(saving) != OL_CKPT_IDLE)
		ol_ckpt_writer_wait(saving->writer);
}

void ol_save_finish(struct ol_saving *saving, uint64_t most)
{
	if (saving->writer == NULL || most == OL_SAVE_NONE || saving->store->version > most ||
	    most == 0) /* of a chain that has committed nothing */
		return;
	saving->held = 0;
	writer_finish(saving);
	if (ol_word_load(&saving->store->board->checkpoint_version) == saving->store->version &&
	    saving->whole && saving->epoch == saving->opts->epoch)
		return;
	/* in the writer's thread, which blocks signals */
	(void)save_begin(saving, ol_clock_ns(), saving->store->snapshot, saving->store->version,
			 true);
	writer_finish(saving);
}
