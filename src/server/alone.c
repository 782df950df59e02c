/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * alone.c -- a server alone is a chain of one: its view never changes, and what it applies is
 * committed
 */

#include "base/probe.h"
#include "server/serve.h"

static bool always(const void *arg)
{
	(void)arg;
	return true;
}

static void no_progress(void *arg, uint64_t now_ns)
{
	(void)arg;
	(void)now_ns;
}

static bool step_apply(void *arg, uint64_t now_ns)
{
	struct ol_server *server = arg;

	if (!ol_ingest_apply(&server->ingest, now_ns))
		return false;
	ol_serve_save(server, now_ns);
	return true;
}

static uint32_t epoch_of(const struct ol_server *server, enum ol_restore from, uint32_t epoch)
{
	return ol_restore_epoch(&server->restoring, from, epoch);
}

static void history_of(const struct ol_server *server, struct ol_vouched *ret_what)
{
	*ret_what = (struct ol_vouched){ .history = server->incarnation,
					 .founded = server->opts.epoch };
}

static void on_ready(struct ol_server *server, uint64_t now_ns)
{
	struct ol_chain *chain = &server->replica.chain;
	struct ol_view view = { .epoch = server->opts.epoch,
				.founded = server->opts.epoch,
				.wanted = 1,
				.count = 1,
				.replicas = { { .id = server->incarnation } } };
	struct ol_chain_links links;

	(void)now_ns;
	ol_chain_init(chain, server->incarnation, 0);
	(void)ol_chain_on_view(chain, &view, &links); /* there are no neighbours */
	(void)ol_chain_on_load(chain, server->store.version);
	ol_probe6(view_adopted, server->opts.shard, view.epoch, chain->role, view.count,
		  chain->received, chain->committed);
	ol_serve_welcome_all(server);
}

static bool has_news(const struct ol_server *server)
{
	(void)server;
	return false;
}

static void do_nothing(struct ol_server *server, uint64_t now_ns)
{
	(void)server;
	(void)now_ns;
}

static uint64_t saves(const struct ol_server *server)
{
	(void)server;
	return OL_SAVE_ALL;
}

static bool is_last(const struct ol_server *server)
{
	(void)server;
	return false; /* a launcher may have started another */
}

const struct ol_chain_kind ol_chain_alone = {
	.steps = { .early = &ol_ingest_early,
		   .answers = always,
		   .progress = no_progress,
		   .step = step_apply },
	.peers_min = 1,
	.open = ol_serve_begin,
	.epoch = epoch_of,
	.history = history_of,
	.on_ready = on_ready,
	.has_news = has_news,
	.look = do_nothing,
	.tick = do_nothing,
	.saves = saves,
	.is_last = is_last,
};
