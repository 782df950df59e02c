/* SPDX-License-Identifier: BSD-3-Clause */

/* relayed.c -- publishes versions that another server made */

#include "server/relayed.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"
#include "server/server.h"
#include "wire/tensor.h"

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

/* No gradient ever comes */
static bool no_step(void *arg, uint64_t now_ns)
{
	(void)arg;
	(void)now_ns;
	return false;
}

/* ol_relayed_open() does the rest */
static int no_weights(struct ol_server *server, char *err, size_t err_bytes)
{
	(void)server;
	(void)err;
	(void)err_bytes;
	return 0;
}

static bool has_news(const struct ol_server *server)
{
	return atomic_load_explicit(&server->relaying.offered, memory_order_acquire) != 0;
}

static void do_nothing(struct ol_server *server, uint64_t now_ns)
{
	(void)server;
	(void)now_ns;
}

/* A relay that stood still has lost nothing: nobody can have taken its place */
static bool is_last(const struct ol_server *server)
{
	(void)server;
	return true;
}

/* What readers take the weights to be of, from their next welcome on */
static void history_set(struct ol_server *server, const struct ol_relayed *what)
{
	server->opts.epoch = what->epoch;
	server->incarnation = what->history;
	ol_serve_join(server);
	ol_word_store(&server->store.board->epoch, what->epoch);
	server->store.board->incarnation = what->history;
}

static void counts_show(struct ol_server *server)
{
	ol_word_store(&server->store.board->applied,
		      ol_restore_grads(&server->store, server->store.snapshot));
}

static void look(struct ol_server *server, uint64_t now_ns)
{
	const struct ol_relayed *next = &server->relaying.next;
	const bool changed =
		next->history != server->incarnation || next->epoch != server->opts.epoch;
	const uint64_t one = 1;
	int target;

	if (changed) {
		ol_log(OL_LOG_INFO,
		       "relay %s: version %llu is of another server, of epoch %u: readers connect "
		       "anew",
		       server->addr, (unsigned long long)next->version, next->epoch);
		ol_serve_end_all(server);
		history_set(server, next);
	}
	target = ol_ingest_target(&server->ingest, now_ns);
	if (target < 0)
		return; /* readers hold it, for pin_timeout_ms at most */
	ol_store_take(&server->store, next->version, next->table, next->weights, (unsigned)target);
	counts_show(server);
	atomic_store_explicit(&server->relaying.offered, 0, memory_order_release);
	if (write(server->relaying.taken_fd, &one, sizeof(one)) < 0)
		return; /* its owner looks again by itself */
}

static const struct ol_chain_kind kind_relayed = {
	.steps = { .early = &ol_ingest_early,
		   .answers = always,
		   .progress = no_progress,
		   .step = no_step },
	.read_only = true,
	.peers_min = 1,
	.open = no_weights,
	.has_news = has_news,
	.look = look,
	.tick = do_nothing,
	.is_last = is_last,
};

int ol_relayed_open(const struct ol_server_opts *opts, const struct ol_geometry *geo,
		    const struct ol_relayed *first, int taken_fd, struct ol_server **ret_server,
		    char *err, size_t err_bytes)
{
	struct ol_server_opts own = *opts;
	struct ol_server *server;
	struct ol_store *store;
	int rc;

	own.param_count = geo->param_count;
	own.shard = geo->shard;
	own.shard_count = geo->shard_count;
	own.workers_max = geo->workers_max;
	own.window = geo->window;
	own.rule_groups = geo->groups;
	own.tensors = ol_tensors_of(geo, first->table);
	own.tensors_room = geo->tensors_bytes;
	own.consistency = (enum ol_consistency)geo->consistency;
	own.staleness = 1; /* there are no workers; the policy wants one */
	own.rule.optimizer = OL_OPTIMIZER_SGD; /* without state */
	own.shared_domain = 1;
	own.epoch = first->epoch;
	rc = ol_server_open_kind(&own, &kind_relayed, first->weights, &server, err, err_bytes);
	if (rc != 0)
		return rc;
	store = &server->store;
	ol_store_restore(store, store->snapshot, first->version, true);
	memcpy(ol_store_content(store, store->snapshot), first->table,
	       ol_layout_table_bytes(&store->geo)); /* the job's rule too, and not this server's */
	ol_word_store(&store->board->restored_version, first->version);
	ol_word_store(&store->board->ready_ns, ol_clock_ns());
	history_set(server, first);
	counts_show(server);
	server->relaying.taken_fd = taken_fd;
	*ret_server = server;
	return 0;
}

void ol_relayed_wake(const struct ol_server *server)
{
	const uint64_t one = 1;

	if (write(server->stop_fd, &one, sizeof(one)) < 0)
		return; /* fails only when it was woken 2^64 times */
}

void ol_relayed_offer(struct ol_server *server, const struct ol_relayed *next)
{
	server->relaying.next = *next;
	atomic_store_explicit(&server->relaying.offered, 1, memory_order_release);
	ol_relayed_wake(server);
}

bool ol_relayed_is_taken(const struct ol_server *server)
{
	return atomic_load_explicit(&server->relaying.offered, memory_order_acquire) == 0;
}
