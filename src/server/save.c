/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * save.c -- checkpoints while the server serves
 *
 * A published snapshot is pinned, as by a reader, for as long as the writer takes to copy it: an
 * update never waits for a disk. A checkpoint that is due while the last is still being written is
 * skipped, and counted.
 */

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"
#include "server/server_internal.h"

int ol_save_start(struct ol_server *server, char *err, size_t err_bytes)
{
	struct ol_ckpt_meta meta = ol_server_ckpt_meta(server);

	server->saving.begun_ns = ol_clock_ns();
	if (server->opts.checkpoint_dir == NULL ||
	    (server->opts.checkpoint_steps == 0 && server->opts.checkpoint_ms == 0))
		return 0;
	return ol_ckpt_writer_start(server->opts.checkpoint_dir, &meta,
				    server->opts.checkpoint_keep, &server->saving.writer, err,
				    err_bytes);
}

static void result_take(struct ol_server *server, const struct ol_ckpt_result *result)
{
	struct ol_board *board = server->store.board;

	if (result->status == 0) {
		ol_counter_add(&board->checkpoints, 1);
		ol_counter_add(&board->checkpoint_bytes, result->bytes);
		ol_word_store(&board->checkpoint_version, result->version);
		return;
	}
	ol_counter_add(&board->checkpoints_failed, 1);
	ol_log(OL_LOG_ERROR, "server %s: no checkpoint of version %llu: %s; training goes on",
	       server->addr, (unsigned long long)result->version, result->err);
}

static enum ol_ckpt_state writer_state(struct ol_server *server)
{
	struct ol_saving *saving = &server->saving;
	struct ol_ckpt_result result;
	enum ol_ckpt_state state = ol_ckpt_writer_poll(saving->writer, &result);

	if (state != OL_CKPT_COPYING)
		saving->pinned = -1;
	if (state != OL_CKPT_DONE)
		return state;
	result_take(server, &result);
	return OL_CKPT_IDLE;
}

unsigned ol_save_pinned(struct ol_server *server)
{
	if (server->saving.pinned < 0 || writer_state(server) != OL_CKPT_COPYING)
		return 0;
	return 1u << server->saving.pinned;
}

/* Versions: when a multiple of the interval was passed since the last */
static bool due(const struct ol_server *server, uint64_t now_ns)
{
	const struct ol_saving *saving = &server->saving;
	uint64_t steps = server->opts.checkpoint_steps;

	if (server->store.version == saving->version)
		return false;
	if (steps != 0 && server->store.version / steps != saving->version / steps)
		return true;
	return server->opts.checkpoint_ms != 0 &&
	       now_ns - saving->begun_ns >= server->opts.checkpoint_ms * OL_NS_PER_MS;
}

static void begin(struct ol_server *server, uint64_t now_ns)
{
	struct ol_saving *saving = &server->saving;

	saving->version = server->store.version;
	saving->begun_ns = now_ns;
	if (ol_ckpt_writer_begin(saving->writer,
				 ol_store_content(&server->store, server->store.snapshot),
				 server->store.version, server->opts.epoch))
		saving->pinned = (int)server->store.snapshot;
	else
		ol_counter_add(&server->store.board->checkpoints_skipped, 1);
}

void ol_save_progress(struct ol_server *server, uint64_t now_ns)
{
	if (server->saving.writer == NULL || server->restoring.active)
		return;
	(void)writer_state(server);
	if (due(server, now_ns))
		begin(server, now_ns);
}

static void writer_finish(struct ol_server *server)
{
	while (writer_state(server) != OL_CKPT_IDLE)
		ol_ckpt_writer_wait(server->saving.writer);
}

void ol_save_last(struct ol_server *server)
{
	if (server->saving.writer == NULL || server->restoring.active)
		return;
	writer_finish(server);
	if (ol_word_load(&server->store.board->checkpoint_version) == server->store.version)
		return;
	begin(server, ol_clock_ns()); /* by the writer's thread, which a signal does not end */
	writer_finish(server);
}
