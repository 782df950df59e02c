/* SPDX-License-Identifier: BSD-3-Clause */

/* server.c -- opening and closing a server; gives each event to the part that it is for */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rails.h"
#include "base/sized.h"
#include "base/status.h"
#include "policy/kind.h"
#include "rdma/order.h"
#include "server/knock.h"
#include "server/options.h"
#include "server/pool.h"
#include "server/rule.h"
#include "server/serve.h"
#include "server/server.h"
#include "wire/auth.h"
#include "wire/tensor.h"

enum {
	PEER_FDS = 8, /* descriptors that a connection takes at most */
	SPARE_CONNS = 8, /* for handshakes … */
	SPARE_SHARE = 16, /* … and one more for so many workers, who may all begin at once */
	MIB = 1 << 20,
	OL_INIT_TENSORS_BYTES = 1 << 16, /* room for the table that worker 0 brings */
};

static int fail(char *err, size_t err_bytes, int rc, const char *what, const char *object)
{
	char text[OL_STATUS_TEXT_MAX];

	if (err != NULL && err_bytes > 0)
		snprintf(err, err_bytes, "%s %s: %s", what, object, ol_status_text(rc, text));
	return rc;
}

/* Room for the table that comes with the weights; 0: none comes, or it is known */
static uint32_t tensors_room(const struct ol_server_opts *opts)
{
	const struct ol_ckpt_meta meta = { .job_id = opts->job_id, .geo.shard = opts->shard };
	uint32_t room = opts->tensors_room;

	if (room == 0 && opts->init_worker)
		room = OL_INIT_TENSORS_BYTES;
	if (room == 0 && opts->tensors == NULL && opts->checkpoint_dir != NULL &&
	    opts->restore != OL_RESTORE_NONE) /* a mirror of this job has the same room */
		room = ol_ckpt_tensors_bytes(opts->checkpoint_dir, &meta);
	return room;
}

static int geometry_make(const struct ol_server_opts *opts, struct ol_geometry *geo)
{
	const uint32_t room = tensors_room(opts);

	*geo = (struct ol_geometry){
		.param_count = opts->param_count,
		.shard = opts->shard,
		.shard_count = opts->shard_count,
		.workers_max = opts->workers_max,
		.window = opts->window,
		.state_vectors = ol_rule_state_vectors(opts->rule.optimizer),
		.consistency = (uint32_t)opts->consistency,
		.groups = opts->rule_groups,
		.tensors_bytes = ol_tensors_bytes(opts->tensors),
		.weights_bf16 = opts->weights_bf16,
		.decided = ol_server_decided(opts),
	};
	if (geo->tensors_bytes < room)
		geo->tensors_bytes = (uint32_t)ol_round_up(room, OL_LINE_BYTES);
	return ol_shard_span(opts->param_count, opts->shard_count, opts->shard, &geo->shard_first,
			     &geo->shard_len);
}

static uint32_t spare_conns(const struct ol_server_opts *opts)
{
	return SPARE_CONNS + opts->workers_max / SPARE_SHARE;
}

/* Share out the connections that there are. OL_E_RESOURCES: the workers of a step have no room */
static int budget_check(struct ol_server *server, uint32_t asked, char *err, size_t err_bytes)
{
	const struct ol_server_opts *opts = &server->opts;
	uint32_t have = server->caps.conns_max;
	uint32_t most;

	have = have != 0 && have < asked ? have : asked;
	ol_sessions_budget(&server->sessions,
			   have > spare_conns(opts) ? have - spare_conns(opts) : 0);
	most = server->sessions.budgets[OL_ROLE_WORKER].most;
	if (most < opts->workers_max)
		ol_log(OL_LOG_WARN,
		       "the device holds %u connections of the %u that were asked for: %u workers "
		       "of workers_max %u can be connected at once; lower window or observers_max",
		       have, asked, most, opts->workers_max);
	if (opts->workers <= most)
		return 0;
	snprintf(err, err_bytes,
		 "workers is %u, and the device has connections for %u: lower workers, window or "
		 "observers_max, or take more servers",
		 opts->workers, most);
	return OL_E_RESOURCES;
}

static struct ol_xport_wire wire_of(const struct ol_server_opts *opts)
{
	return (struct ol_xport_wire){ .ack_timeout = opts->ack_timeout,
				       .retries = opts->retries,
				       .rnr_timer = opts->rnr_timer,
				       .rnr_retries = opts->rnr_retries,
				       .traffic_class = opts->traffic_class,
				       .path_mtu = opts->path_mtu };
}

int ol_server_opts_wire_sized(struct ol_server_opts *opts, size_t opts_bytes)
{
	struct ol_server_opts known;
	struct ol_xport_wire wire;
	int rc;

	ol_server_opts_init(&known);
	if (ol_sized_take(&known, sizeof(known), opts, opts_bytes) != NULL)
		return -EINVAL;
	wire = wire_of(&known);
	rc = ol_xport_wire_fill(known.retry_timeout_ms, &wire);
	if (rc != 0)
		return rc;
	known.ack_timeout = wire.ack_timeout;
	known.retries = wire.retries;
	known.rnr_timer = wire.rnr_timer;
	known.rnr_retries = wire.rnr_retries;
	ol_sized_give(opts, opts_bytes, &known, sizeof(known));
	opts->size = opts_bytes;
	return 0;
}

/* Open the transport, and listen */
static int xport_listen(struct ol_server *server, const struct ol_xport_opts *xopts, char *err,
			size_t err_bytes)
{
	int rc = server->ops->open(xopts, &server->xport);

	if (rc != 0)
		return fail(err, err_bytes, rc, "cannot open transport", server->ops->name);
	rc = server->ops->listen(server->xport, server->opts.listen, server->addr);
	if (rc == -EINVAL)
		snprintf(err, err_bytes, "cannot listen at %s with transport %s: %s",
			 server->opts.listen, server->ops->name, OL_XPORT_ADDR_HELP);
	else if (rc == -ENOENT)
		snprintf(err, err_bytes,
			 "cannot listen at %s: make its folder first, or give @NAME, which needs "
			 "none",
			 server->opts.listen);
	else if (rc != 0)
		fail(err, err_bytes, rc, "cannot listen at", server->opts.listen);
	return rc;
}

/* By the device of the shard, or by the next that is there and has the address */
static int rails_listen(struct ol_server *server, struct ol_xport_opts *xopts, char *err,
			size_t err_bytes)
{
	struct ol_rails rails;
	int rc = ol_rails_parse(server->opts.device, &rails);

	if (rc != 0) {
		snprintf(err, err_bytes, "device: " OL_RAILS_HELP);
		return rc;
	}
	if (rails.count == 0)
		return xport_listen(server, xopts, err, err_bytes);
	for (uint32_t i = 0; i < rails.count; i++) {
		xopts->device = rails.names[(server->opts.shard + i) % rails.count];
		rc = xport_listen(server, xopts, err, err_bytes);
		if (rc != -ENODEV && rc != -EADDRNOTAVAIL)
			break;
		if (server->xport != NULL)
			server->ops->close(server->xport);
		server->xport = NULL;
	}
	return rc;
}

static int xport_start(struct ol_server *server, const struct ol_geometry *geo, char *err,
		       size_t err_bytes)
{
	/* no gradient that fits into one part is sent in parts */
	const uint32_t parts = ol_layout_vector_bytes(geo) > OL_PART_BYTES ? OL_PARTS_MAX : 0;
	struct ol_xport_opts xopts;
	int rc;

	ol_xport_opts_init(&xopts);
	xopts.conns_max = server->sessions.count + spare_conns(&server->opts);
	xopts.doorbells_max = (server->opts.window + 1) * (2 + parts + geo->decided) + 4 +
			      geo->decided * (OL_DECISIONS_MAX + 1);
	if (xopts.doorbells_max < server->kind->doorbells_min)
		xopts.doorbells_max = server->kind->doorbells_min;
	xopts.retry_timeout_ms = server->opts.retry_timeout_ms;
	xopts.relaxed_ordering = (enum ol_xport_choice)server->opts.relaxed_ordering;
	xopts.huge_pages = (enum ol_xport_choice)server->opts.huge_pages;
	xopts.wire = wire_of(&server->opts);
	xopts.shared_domain = server->opts.shared_domain != 0;
	xopts.log = ol_dial_log;
	rc = rails_listen(server, &xopts, err, err_bytes);
	if (rc != 0)
		return rc;
	server->ops->query(server->xport, &server->caps); /* listening may choose the device */
	return budget_check(server, xopts.conns_max, err, err_bytes);
}

static int memory_start(struct ol_server *server, const struct ol_geometry *geo,
			const float *weights, char *err, size_t err_bytes)
{
	uint64_t bytes = ol_layout_public_bytes(geo);
	struct ol_rule first;
	char what[80];
	int rc;

	snprintf(what, sizeof(what), "the %.1f MB of snapshots of the shard", (double)bytes / 1e6);
	rc = ol_memory_start(&server->memory, server->ops, server->stop_fd);
	if (rc != 0)
		return fail(err, err_bytes, rc, "cannot start", "the thread that makes memory");
	rc = ol_slab_create(bytes, server->caps.numa_node, server->caps.slab_flags,
			    &server->public_slab);
	if (rc != 0)
		return fail(err, err_bytes, rc, "no memory for", what);
	rc = server->ops->reg(server->xport, NULL, server->public_slab, 0, bytes,
			      OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_RELAXED,
			      &server->public_region);
	if (rc != 0)
		return fail(err, err_bytes, rc, "cannot register", what);
	rc = ol_pool_create(server->opts.threads, server->public_slab, &server->pool);
	if (rc != 0)
		return fail(err, err_bytes, rc, "cannot start", "the threads that update weights");
	rc = ol_store_init(&server->store, geo, &server->opts.rule, server->public_slab->addr,
			   weights);
	if (rc != 0)
		return fail(err, err_bytes, rc, "cannot lay out", "the shard");
	rc = ol_follow_start(&server->ingest);
	if (rc != 0)
		return fail(err, err_bytes, rc, "no memory for", "other shards' steps");
	ol_store_tensors(&server->store, server->opts.tensors);
	ol_server_rule_make(&server->opts, geo, &first);
	if (ol_rule_fault(&first, geo) != NULL)
		return fail(err, err_bytes, -EINVAL, "a number of the rule is beyond its bound:",
			    ol_rule_fault(&first, geo));
	ol_store_rule_first(&server->store, &first);
	if (!server->kind->read_only)
		rc = ol_voucher_open(server->job_key, server->incarnation, geo, &server->voucher);
	if (rc != 0)
		return fail(err, err_bytes, rc, "cannot vouch for", "the shard's mirrors");
	server->store.voucher = server->voucher;
	server->store.want_norms = ol_policy_wants_norms(server->policy);
	server->store.board->incarnation = server->incarnation;
	ol_serve_join(server);
	/* before anything is read: fences off a former owner, which might still add checkpoints */
	rc = ol_save_open(&server->saving, err, err_bytes);
	return rc != 0 ? rc : server->kind->open(server, err, err_bytes);
}

/*
 * descriptors_check -- -EMFILE: not even one peer of each kind could connect
 *
 * Checked at the start, where a person sees it. Later a worker would be refused, or a chain would
 * lack a replica. Descriptors are given out from the lowest, so all above the lowest free one count
 * as free.
 */
static int descriptors_check(const struct ol_server *server, char *err, size_t err_bytes)
{
	rlim_t want = PEER_FDS * server->kind->peers_min;
	int lowest = fcntl(server->stop_fd, F_DUPFD_CLOEXEC, 0);
	int rc = lowest < 0 ? -errno : 0;
	struct rlimit limit;
	char what[80];

	if (lowest >= 0)
		close(lowest);
	if (rc == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	    (rlim_t)lowest + want > limit.rlim_cur)
		rc = -EMFILE;
	snprintf(what, sizeof(what), "the connections of a server, which take %u", (unsigned)want);
	return rc == 0 ? 0 : fail(err, err_bytes, rc, "no descriptors for", what);
}

/* The workers of a step must have their slots */
static int slots_check(const struct ol_server_opts *opts, const struct ol_geometry *geo, char *err,
		       size_t err_bytes)
{
	uint64_t bytes = ol_layout_landing_bytes(geo, geo->window) * opts->workers;

	if (opts->slot_memory_max == 0 || bytes <= opts->slot_memory_max)
		return 0;
	snprintf(err, err_bytes,
		 "slot_memory_max is %llu MiB, and the slots of %u workers take %llu: raise it, or "
		 "lower window",
		 (unsigned long long)(opts->slot_memory_max / MIB), opts->workers,
		 (unsigned long long)((bytes + MIB - 1) / MIB));
	return -EINVAL;
}

static const struct ol_chain_kind *kind_of(const struct ol_server_opts *opts)
{
	if (opts->coordinator == NULL)
		return &ol_chain_alone;
	return opts->replicate_every != 0 ? &ol_chain_periodic : &ol_chain_strict;
}

static int tables_start(struct ol_server *server)
{
	const struct ol_server_opts *opts = &server->opts;
	struct ol_policy_opts policy;
	int rc = ol_sessions_open(&server->sessions, server->kind->readers,
				  server->kind->predecessors);

	if (rc == 0)
		rc = ol_ingest_open(&server->ingest);
	if (rc != 0)
		return rc;
	policy = ol_server_policy_opts(opts);
	rc = ol_policy_create(&policy, &server->policy);
	if (rc != 0)
		return rc;
	server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->stop_fd < 0)
		return -errno;
	return ol_auth_random(&server->incarnation, sizeof(server->incarnation));
}

int ol_server_open(const struct ol_server_opts *opts, const float *weights,
		   struct ol_server **ret_server, char *err, size_t err_bytes)
{
	struct ol_server_opts known;
	const char *fault;

	ol_server_opts_init(&known); /* the caller's options as this version knows them */
	fault = ol_sized_take(&known, sizeof(known), opts, opts->size);
	if (fault != NULL)
		return fail(err, err_bytes, -EINVAL, "server option", fault);
	return ol_server_open_kind(&known, kind_of(&known), weights, ret_server, err, err_bytes);
}

int ol_server_open_kind(const struct ol_server_opts *opts, const struct ol_chain_kind *kind,
			const float *weights, struct ol_server **ret_server, char *err,
			size_t err_bytes)
{
	struct ol_server *server;
	struct ol_geometry geo;
	char why[OL_OPTS_WHY_MAX];
	const char *fault = ol_server_opts_fault(opts, kind->read_only, why);
	int rc;

	if (fault != NULL)
		return fail(err, err_bytes, -EINVAL, "server option", fault);
	rc = geometry_make(opts, &geo);
	if (rc != 0)
		return fail(err, err_bytes, rc, "too few parameters for", "so many shards");
	rc = slots_check(opts, &geo, err, err_bytes);
	if (rc != 0)
		return rc;
	server = calloc(1, sizeof(*server));
	if (server == NULL)
		return fail(err, err_bytes, -ENOMEM, "no memory for", "the server");
	server->opts = *opts;
	server->tensors = opts->tensors != NULL ? strdup(opts->tensors) : NULL;
	server->opts.tensors = server->tensors;
	server->kind = kind;
	ol_owner_take(&server->owner);
	server->stop_fd = -1;
	server->saving.pinned = -1;
	server->replica.succ.pinned = -1;
	server->turn.bytes_max = OL_TURN_BYTES;
	snprintf(server->job_key, sizeof(server->job_key), "%s",
		 opts->job_key != NULL ? opts->job_key : "");
	server->ops = ol_xport_find(ol_xport_name(opts->transport, opts->listen));
	rc = server->ops != NULL ? 0 : -ENODEV;
	if (rc == 0 && opts->tensors != NULL && server->tensors == NULL) {
		rc = fail(err, err_bytes, -ENOMEM, "no memory for", "the table of tensors");
		goto err_server;
	}
	if (rc != 0) {
		fail(err, err_bytes, rc, "no transport named",
		     ol_xport_name(opts->transport, opts->listen));
		goto err_server;
	}
	ol_serve_join(server);
	rc = tables_start(server);
	if (rc != 0) {
		fail(err, err_bytes, rc, "cannot start", "the server");
		goto err_server;
	}
	rc = xport_start(server, &geo, err, err_bytes);
	if (rc == 0)
		rc = descriptors_check(server, err, err_bytes);
	if (rc == 0)
		rc = memory_start(server, &geo, weights, err, err_bytes);
	if (rc != 0)
		goto err_server;
	*ret_server = server;
	return 0;

err_server:
	ol_server_close(server);
	return rc;
}

void ol_server_close(struct ol_server *server)
{
	if (server == NULL || !ol_owner_here(&server->owner))
		return; /* in a child of a fork, which does not own the server */
	if (atomic_load(&server->running) != 0) {
		ol_log(OL_LOG_ERROR, "ol_server_close(): server %s still runs; it stays open",
		       server->addr);
		return;
	}
	ol_serve_end_all(server);
	ol_restore_clear(&server->restoring);
	ol_save_stop(&server->saving);
	ol_pool_destroy(server->pool);
	ol_memory_stop(&server->memory); /* its thread registers regions for every connection */
	ol_replica_close(&server->replica);
	if (server->public_region != NULL)
		server->ops->dereg(server->public_region);
	if (server->xport != NULL)
		server->ops->close(server->xport);
	ol_voucher_close(server->voucher);
	ol_slab_destroy(server->public_slab);
	ol_policy_destroy(server->policy);
	if (server->stop_fd >= 0)
		close(server->stop_fd);
	ol_ingest_close(&server->ingest);
	ol_sessions_close(&server->sessions);
	explicit_bzero(server->job_key, sizeof(server->job_key));
	free(server->tensors);
	free(server);
}

static void on_hello(struct ol_server *server, struct ol_session *session, uint64_t now_ns)
{
	const char *fault = ol_session_on_hello(&server->sessions, session);

	if (fault != NULL)
		ol_serve_end(server, session, fault, true);
	else if (server->restoring.active)
		ol_serve_restore(server, now_ns);
	else
		ol_serve_welcome(server, session);
}

/* A bell of a peer that may push and pull: NULL, or the bell's fault */
static const char *on_work(struct ol_server *server, struct ol_session *session, uint32_t imm,
			   uint64_t now_ns)
{
	uint32_t kind = ol_bell_kind(imm);

	if (session->state != OL_SESSION_LIVE)
		return "doorbell before hello";
	if (kind == OL_BELL_PUSH)
		return ol_ingest_on_push(&server->ingest, session, ol_bell_arg(imm), now_ns);
	if (kind == OL_BELL_PART)
		return ol_early_on_part(&server->ingest, session, ol_bell_arg(imm));
	if (kind == OL_BELL_PIN) {
		ol_session_pins(&server->sessions, session);
		return NULL;
	}
	if (kind == OL_BELL_DECISION && session->role == OL_ROLE_WORKER)
		return ol_ingest_on_decision(&server->ingest, session, ol_bell_arg(imm), now_ns);
	if (kind == OL_BELL_AGAIN && session->role == OL_ROLE_WORKER)
		return ol_follow_on_again(&server->ingest, session, now_ns);
	if (kind != OL_BELL_WITHDRAW || session->role != OL_ROLE_WORKER)
		return "doorbell of an unknown kind";
	if (ol_bell_arg(imm) != 0)
		return ol_ingest_on_gone(&server->ingest, session, ol_bell_arg(imm) - 1, now_ns);
	ol_ingest_on_withdraw(&server->ingest, session, now_ns);
	return NULL;
}

static void on_bell(struct ol_server *server, struct ol_session *session, uint32_t imm,
		    uint64_t now_ns)
{
	const char *fault;

	if (session->role == OL_ROLE_REPLICA) {
		ol_predecessor_on_bell(&server->replica, imm, now_ns);
		ol_session_on_predecessor(&server->sessions, session);
	} else if (ol_bell_kind(imm) == OL_BELL_HELLO) {
		on_hello(server, session, now_ns);
	} else {
		fault = on_work(server, session, imm, now_ns);
		if (fault != NULL)
			ol_serve_end(server, session, fault, true);
	}
}

/* A read or a probe is done; acks are unsignaled */
static void on_done(struct ol_server *server, struct ol_session *session,
		    const struct ol_xport_event *event, uint64_t now_ns)
{
	if (event->cookie == OL_REPLICA_COOKIE_BEAT)
		ol_replica_on_beat(&server->replica, OL_NEIGHBOUR_PREDECESSOR, event->status,
				   now_ns);
	else if (event->cookie != OL_SESSION_COOKIE_RESTORE)
		ol_session_on_probe(session);
	else if (ol_restore_on_read(&server->restoring, session, event->status))
		ol_serve_restore(server, now_ns);
}

static void on_down(struct ol_server *server, struct ol_session *session, int status,
		    uint64_t now_ns)
{
	if (session->role == OL_ROLE_REPLICA)
		ol_predecessor_on_down(&server->replica, status, now_ns);
	ol_serve_end(server, session, status == 0 ? NULL : ol_strerror(status), false);
}

/* A peer has left before its request was handled */
static void request_end(struct ol_server *server, struct ol_xport_conn *conn)
{
	ol_session_forget(&server->sessions, conn);
	server->ops->conn_free(conn);
}

void ol_server_on_event(struct ol_server *server, const struct ol_xport_event *event,
			uint64_t now_ns)
{
	struct ol_session *session = event->conn != NULL ? event->conn->user : NULL;

	if (event->conn != NULL && event->conn == server->replica.succ.dial.conn) {
		if (ol_successor_on_event(&server->replica, event, now_ns))
			ol_ingest_progress(&server->ingest, now_ns);
		return;
	}
	if (event->conn != NULL && event->conn == server->replica.lost.call.conn) {
		ol_predecessor_on_call(&server->replica, event, now_ns);
		return;
	}
	switch (event->type) {
	case OL_XPORT_CONN_REQUEST:
		ol_session_on_request(&server->sessions, event, now_ns);
		break;
	case OL_XPORT_DOORBELL_RUNG:
		if (session != NULL)
			on_bell(server, session, event->imm, now_ns);
		break;
	case OL_XPORT_CONN_DOWN:
		if (session != NULL)
			on_down(server, session, event->status, now_ns);
		else
			request_end(server, event->conn);
		break;
	case OL_XPORT_DONE:
		if (session != NULL)
			on_done(server, session, event, now_ns);
		break;
	case OL_XPORT_CONN_UP: /* the hello that follows makes the session live */
		break;
	}
}

void ol_server_on_memory(struct ol_server *server, uint64_t now_ns)
{
	struct ol_memory_job *job = ol_memory_take(&server->memory);

	if (job == NULL)
		return;
	if (job->owner != &server->replica.ring) {
		ol_session_on_memory(&server->sessions, job->owner, now_ns);
	} else if (job->rc != 0) {
		ol_log(OL_LOG_ERROR, "server %s: no memory for the ring of the chain: %s",
		       server->addr, ol_strerror(job->rc));
		ol_replica_end(&server->replica, job->rc);
	}
}

static void counts_show(struct ol_server *server)
{
	struct ol_board *board = server->store.board;
	struct ol_xport_counts counts;

	server->ops->counts(server->xport, &counts);
	ol_word_store(&board->conns, counts.conns);
	ol_word_store(&board->regions, counts.regions);
	ol_word_store(&board->region_bytes, counts.region_bytes);
	ol_word_store(&board->writes, counts.writes);
	ol_word_store(&board->write_bytes, counts.write_bytes);
	ol_word_store(&board->doorbells, counts.doorbells);
	ol_word_store(&board->reads, counts.reads);
	ol_word_store(&board->read_bytes, counts.read_bytes);
	ol_word_store(&board->rung, counts.rung);
	ol_word_store(&board->busy, counts.busy);
}

void ol_server_beat(struct ol_server *server, uint64_t now_ns)
{
	counts_show(server);
	ol_word_store(&server->store.board->beat_ns, now_ns);
	ol_counter_add(&server->store.board->heartbeat, 1);
}

static void sessions_tick(struct ol_server *server, uint64_t now_ns)
{
	const struct ol_places *taken = &server->sessions.taken;

	for (uint32_t i = 0; (i = ol_places_next(taken, i)) < taken->size; i++) {
		struct ol_session *session = &server->sessions.all[i];
		const char *why;
		bool lies;

		if (session->state == OL_SESSION_JOINED && session->role != OL_ROLE_REPLICA)
			ol_serve_welcome(server, session);
		why = ol_session_tick(&server->sessions, session, now_ns, &lies);
		if (why != NULL)
			ol_serve_end(server, session, why, lies);
	}
}

void ol_server_tick(struct ol_server *server, uint64_t now_ns)
{
	sessions_tick(server, now_ns);
	ol_knock_tick(&server->sessions, now_ns);
	ol_log_rate_tick(&server->saving.turns, now_ns);
	server->kind->tick(server, now_ns);
	ol_serve_restore(server, now_ns);
	ol_ingest_progress(&server->ingest, now_ns);
	if (!server->restoring.active)
		ol_serve_save(server, now_ns);
}

const char *ol_server_addr(const struct ol_server *server)
{
	return server->addr;
}

void ol_server_memory(const struct ol_server *server, char *text, size_t text_bytes)
{
	const struct ol_geometry *geo = &server->store.geo;
	const struct ol_budget *budgets = server->sessions.budgets;
	uint64_t landing = ol_layout_landing_bytes(geo, geo->window);
	uint64_t limit = server->opts.slot_memory_max;
	char most[48] = "no limit";

	if (limit != 0)
		snprintf(most, sizeof(most), "at most %.1f MB", (double)limit / 1e6);
	snprintf(text, text_bytes,
		 "%.1f MB of snapshots on %s, node %d; %.1f MB of slots a worker, %.1f MB for all "
		 "%u (%s); connections for %u workers, %u readers, %u observers, %u predecessors; "
		 "one protection domain a %s",
		 (double)server->public_slab->bytes / 1e6, ol_slab_pages_str(server->public_slab),
		 server->public_slab->node, (double)landing / 1e6,
		 (double)landing * budgets[OL_ROLE_WORKER].most / 1e6, budgets[OL_ROLE_WORKER].most,
		 most, budgets[OL_ROLE_WORKER].most, budgets[OL_ROLE_READER].most,
		 budgets[OL_ROLE_OBSERVER].most, budgets[OL_ROLE_REPLICA].most,
		 server->opts.shared_domain ? "job: snapshots are pinned once"
					    : "worker: snapshots are pinned once for each");
}

void ol_server_get_stat_sized(const struct ol_server *server, struct ol_server_stat *ret_stat,
			      size_t stat_bytes)
{
	struct ol_server_stat stat = { 0 };

	if (ol_owner_here(&server->owner)) /* a child of a fork has no board */
		ol_board_stat(server->store.board, &stat);
	ol_sized_give(ret_stat, stat_bytes, &stat, sizeof(stat));
}

int ol_server_sizes_sized(const struct ol_server_opts *opts, struct ol_server_sizes *ret_sizes,
			  size_t sizes_bytes)
{
	struct ol_server_sizes sizes = { 0 };
	struct ol_server_opts known;
	struct ol_geometry geo;
	int rc;

	ol_server_opts_init(&known);
	if (ol_sized_take(&known, sizeof(known), opts, opts->size) != NULL)
		return -EINVAL;
	rc = geometry_make(&known, &geo);
	if (rc == 0)
		rc = ol_geometry_check(&geo);
	if (rc != 0)
		return rc;
	sizes.snapshots = ol_layout_public_bytes(&geo);
	sizes.slots = ol_layout_landing_bytes(&geo, geo.window);
	sizes.slot = ol_layout_slot_stride(&geo);
	sizes.ring = known.coordinator != NULL ? ol_layout_ring_bytes(&geo) : 0;
	sizes.checkpoint = ol_layout_content_bytes(&geo);
	ol_sized_give(ret_sizes, sizes_bytes, &sizes, sizeof(sizes));
	return 0;
}
