/* SPDX-License-Identifier: BSD-3-Clause */

/* serve.c -- tells all parts of a server that a peer came or went, or that weights are loaded */

#include "server/serve.h"

#include "base/clock.h"
#include "rdma/order.h"
#include "wire/seq.h"

static void parts_join(struct ol_server *server)
{
	server->saving.opts = &server->opts;
	server->saving.store = &server->store;
	server->saving.addr = server->addr;

	server->restoring.opts = &server->opts;
	server->restoring.ops = server->ops;
	server->restoring.store = &server->store;
	server->restoring.public_region = server->public_region;
	server->restoring.saving = &server->saving;
	server->restoring.replica = &server->replica;
	server->restoring.addr = server->addr;
	server->restoring.job_key = server->job_key;
	server->restoring.sources.opts = &server->opts;
	server->restoring.sources.store = &server->store;
	server->restoring.sources.sessions = &server->sessions;

	server->ingest.opts = &server->opts;
	server->ingest.ops = server->ops;
	server->ingest.store = &server->store;
	server->ingest.sessions = &server->sessions;
	server->ingest.policy = server->policy;
	server->ingest.saving = &server->saving;
	server->ingest.replica = &server->replica;
	server->ingest.turn = &server->turn;
	server->ingest.steps = &server->kind->steps;
	server->ingest.arg = server;
}

static void sessions_join(struct ol_server *server)
{
	struct ol_sessions *sessions = &server->sessions;

	sessions->opts = &server->opts;
	sessions->ops = server->ops;
	sessions->xport = server->xport;
	sessions->store = &server->store;
	sessions->public_slab = server->public_slab;
	sessions->public_region = server->public_region;
	sessions->memory = &server->memory;
	sessions->inbox = &server->inbox;
	sessions->replica = &server->replica;
	sessions->addr = server->addr;
	sessions->job_key = server->job_key;
	sessions->incarnation = server->incarnation;
	sessions->read_only = server->kind->read_only;
}

static void replica_join(struct ol_server *server)
{
	struct ol_replica *replica = &server->replica;

	replica->host = server->kind->host;
	replica->arg = server;
	replica->opts = &server->opts;
	replica->ops = server->ops;
	replica->xport = server->xport;
	replica->public_region = server->public_region;
	replica->board = server->store.board;
	replica->geo = &server->store.geo;
	replica->addr = server->addr;
	replica->job_key = server->job_key;
	replica->inbox = &server->inbox;
	replica->turn = &server->turn;
	replica->inline_max = server->caps.inline_max;
	replica->node = server->public_slab != NULL ? server->public_slab->node : 0;
	replica->wake_fd = server->stop_fd;
}

void ol_serve_join(struct ol_server *server)
{
	parts_join(server);
	sessions_join(server);
	replica_join(server);
}

/* The weights are loaded: welcome all waiting peers */
static void serving_begin(struct ol_server *server, const struct ol_restore_result *result,
			  uint64_t now_ns)
{
	struct ol_board *board = server->store.board;
	struct ol_vouched what;

	server->opts.epoch = server->kind->epoch(server, result->from, result->epoch);
	server->saving.version = result->from == OL_RESTORE_CHECKPOINT ? server->store.version : 0;
	/* so it is saved once more, above all that its folder has: it is the newest also if this history ends before it makes more */
	server->saving.epoch =
		result->from == OL_RESTORE_CHECKPOINT && server->opts.coordinator != NULL
			? result->epoch
			: 0;
	ol_word_store(&board->epoch, server->opts.epoch);
	ol_word_store(&board->restored_from, (uint64_t)result->from);
	ol_word_store(&board->restored_version, server->store.version);
	ol_word_store(&board->applied, ol_restore_grads(&server->store, server->store.snapshot));
	ol_word_store(&board->ready_ns, now_ns);
	server->kind->history(server, &what);
	what.version = server->store.version;
	server->saving.what = what;
	ol_voucher_begin(server->voucher, &what,
			 ol_store_content(&server->store, server->store.snapshot));
	server->kind->on_ready(server, now_ns);
}

int ol_serve_begin(struct ol_server *server, char *err, size_t err_bytes)
{
	struct ol_restore_result result;
	int rc = ol_restore_begin(&server->restoring, &result, err, err_bytes);

	if (result.what == OL_RESTORE_READY)
		serving_begin(server, &result, ol_clock_ns());
	return rc;
}

void ol_serve_restore(struct ol_server *server, uint64_t now_ns)
{
	struct ol_restore_result result;

	if (server->replica.end_rc != 0) /* it has failed to restore, and ends */
		return;
	while ((result = ol_restore_progress(&server->restoring, now_ns)).what == OL_RESTORE_ENDS)
		ol_serve_end(server, result.session, result.why, false);
	if (result.what == OL_RESTORE_READY)
		serving_begin(server, &result, now_ns);
	else if (result.what == OL_RESTORE_FAILS)
		ol_replica_end(&server->replica, result.status);
}

/* A server that began without asking workers hears only now what its weights lack; the welcome tells
 * the worker, which says so once. Weights that were chosen among workers' have their loss counted. */
static void lost_count(struct ol_server *server, const struct ol_session *session)
{
	const uint64_t gone = session->hello.gone_seq, applied = session->last_seq;

	if (server->opts.restore == OL_RESTORE_MIRROR ||
	    server->opts.restore == OL_RESTORE_FRESHEST)
		return;
	ol_counter_add(&server->store.board->restored_lost, ol_seq_lacking(applied, gone));
}

void ol_serve_welcome(struct ol_server *server, struct ol_session *session)
{
	if (!server->restoring.active && ol_session_welcome(&server->sessions, session) &&
	    session->role == OL_ROLE_WORKER) {
		lost_count(server, session);
		ol_ingest_on_join(&server->ingest, session, ol_clock_ns());
	}
}

void ol_serve_welcome_all(struct ol_server *server)
{
	struct ol_sessions *sessions = &server->sessions;

	for (uint32_t i = 0; sessions->joined_count > 0 && i < sessions->count; i++) {
		if (sessions->all[i].state == OL_SESSION_JOINED)
			ol_serve_welcome(server, &sessions->all[i]);
	}
}

void ol_serve_end(struct ol_server *server, struct ol_session *session, const char *why, bool lies)
{
	if (lies)
		ol_counter_add(&server->store.board->violations, 1);
	ol_session_log(&server->sessions, session, why);
	if (session->state != OL_SESSION_MAKING) { /* else no other part knows of it */
		ol_restore_on_leave(&server->restoring, session);
		if (session->role == OL_ROLE_WORKER)
			ol_ingest_forget(&server->ingest, session);
	}
	ol_session_end(&server->sessions, session);
}

void ol_serve_end_all(struct ol_server *server)
{
	for (uint32_t i = 0; server->sessions.all != NULL && i < server->sessions.count; i++) {
		if (server->sessions.all[i].state != OL_SESSION_FREE)
			ol_serve_end(server, &server->sessions.all[i], NULL, false);
	}
}
