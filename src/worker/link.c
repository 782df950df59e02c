/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * link.c -- from an address to a live connection with one shard's server, and back to one
 *
 *	IDLE -> KNOCKING -> PROVING -> JOINING -> LIVE
 *	  ^                                        |  the server left, died, stood still, was moved
 *	  +----------------------------------------+  (OL_OUTAGE_END: FAILED)
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"
#include "wire/auth.h"
#include "worker/worker_internal.h"

enum {
	BACKOFF_MIN_MS = 5,
	BACKOFF_MAX_MS = 50,
	BEATS_A_LEASE = 4 /* how often a heartbeat is read */
};

static void link_drop_conn(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;

	/* the queue pair, then the keys, then the memory: nothing late can land */
	if (link->conn != NULL)
		worker->ops->conn_free(link->conn);
	link->conn = NULL;
	if (link->acks_region != NULL)
		worker->ops->dereg(link->acks_region);
	link->acks_region = NULL;
	if (link->share_region != NULL)
		worker->ops->dereg(link->share_region);
	link->share_region = NULL;
	ol_slab_destroy(link->acks);
	link->acks = NULL;
	link->probing = false;
	link->beat_posted = false;
	link->beat_ns = 0;
}

/* For good: the reason goes to whoever opened the worker */
static void link_fail(struct ol_link *link, int status, const char *why)
{
	struct ol_worker *worker = link->worker;

	link_drop_conn(link);

	link->state = OL_LINK_FAILED;
	link->status = status;
	if (worker->err[0] == '\0')
		snprintf(worker->err, sizeof(worker->err), "server %s (shard %u): %s", link->addr,
			 link->index, why != NULL ? why : ol_strerror(status));
	if (!worker->started)
		return;
	ol_log(OL_LOG_WARN, "server %s (shard %u): given up: %s", link->addr, link->index,
	       why != NULL ? why : ol_strerror(status));
	ol_push_fail(worker, status);
	ol_pull_fail(worker, status);
}

/* The next of its addresses */
static void addr_next(struct ol_link *link)
{
	uint32_t count = 1, skip;
	const char *at = link->addrs;

	for (const char *c = link->addrs; *c != '\0'; c++)
		count += *c == '|';
	for (skip = link->attempts++ % count; skip > 0; skip--)
		at = strchr(at, '|') + 1;
	snprintf(link->addr, sizeof(link->addr), "%.*s", (int)strcspn(at, "|"), at);
}

/*
 * Less than the whole back-off by up to a half, different for every worker and attempt: a server
 * that comes back is not asked by all at once.
 */
static uint64_t jitter(const struct ol_link *link, uint64_t backoff_ns)
{
	uint32_t mix = (link->worker->opts.worker + 1) * 2654435761u ^ link->attempts * 40503u;

	return backoff_ns - backoff_ns / 2 * (mix >> 8 & 0xff) / 0xff;
}

/* Nobody there, or the connection broke before it was up: try again after a while */
static void link_again(struct ol_link *link, uint64_t now_ns)
{
	uint64_t most_ns = BACKOFF_MAX_MS * OL_NS_PER_MS;

	link_drop_conn(link);
	link->state = OL_LINK_IDLE;
	link->backoff_ns =
		link->backoff_ns == 0 ? BACKOFF_MIN_MS * OL_NS_PER_MS : link->backoff_ns * 2;
	if (link->backoff_ns > most_ns)
		link->backoff_ns = most_ns;
	link->retry_ns = now_ns + jitter(link, link->backoff_ns);
}

static void link_connect(struct ol_link *link, enum ol_wire_connect_kind kind, uint64_t now_ns)
{
	struct ol_worker *worker = link->worker;
	struct ol_wire_connect msg = {
		.kind = kind,
		.role = worker->opts.observer ? OL_ROLE_OBSERVER : OL_ROLE_WORKER,
		.worker = worker->opts.worker,
	};
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];
	int rc;

	memcpy(msg.nonce, link->n, sizeof(msg.nonce));
	if (kind == OL_CONNECT_PROOF)
		ol_auth_proof(worker->job_key, link->m, &msg);
	ol_wire_connect_encode(&msg, bytes);
	if (kind == OL_CONNECT_KNOCK) {
		addr_next(link);
		link->knock_ns = now_ns;
	}
	rc = worker->ops->connect(worker->xport, link->addr, bytes, sizeof(bytes), &link->conn);
	if (rc == 0) {
		link->conn->user = link;
		link->state = kind == OL_CONNECT_PROOF ? OL_LINK_PROVING : OL_LINK_KNOCKING;
		return;
	}
	link->conn = NULL;
	if (rc == -ECONNREFUSED || rc == -ENOENT || rc == -EAGAIN || worker->started)
		link_again(link, now_ns);
	else
		link_fail(link, rc, NULL);
}

void ol_link_start(struct ol_link *link, uint64_t now_ns)
{
	if (ol_auth_random(link->n, sizeof(link->n)) != 0) {
		link_fail(link, -EIO, "the system gave no random bytes");
		return;
	}
	link_connect(link, OL_CONNECT_KNOCK, now_ns);
}

void ol_link_tick(struct ol_link *link, uint64_t now_ns)
{
	uint64_t limit_ns = link->worker->opts.outage_timeout_ms * OL_NS_PER_MS;

	if (link->stat.down && limit_ns != 0 && link->state < OL_LINK_LIVE &&
	    now_ns - link->stat.down_ns >= limit_ns) {
		link_fail(link, OL_E_NO_SERVER, "it did not come back within outage_timeout_ms");
		return;
	}
	/* where a knock is not answered another address may be the one, or its network is back */
	if (link->state == OL_LINK_KNOCKING && link->worker->started &&
	    now_ns - link->knock_ns >= link->worker->opts.retry_timeout_ms * OL_NS_PER_MS)
		link_again(link, now_ns);
	if (link->state == OL_LINK_IDLE && now_ns >= link->retry_ns)
		ol_link_start(link, now_ns);
}

/* The end of a knock: a challenge is what it should be */
static void knock_answered(struct ol_link *link, const struct ol_xport_event *event,
			   uint64_t now_ns)
{
	struct ol_worker *worker = link->worker;
	struct ol_wire_reject reject;

	if (event->status != -ECONNREFUSED ||
	    ol_wire_reject_decode(event->priv, event->priv_len, &reject) != 0) {
		link->status = event->status;
		link_again(link, now_ns);
		return;
	}
	link_drop_conn(link);
	if (reject.code == OL_REJECT_FULL && link->worker->started) {
		link_again(link, now_ns);
		return;
	}
	if (reject.code != OL_REJECT_CHALLENGE) {
		link_fail(link, ol_wire_reject_status(reject.code), NULL);
		return;
	}
	if (!ol_auth_challenge_holds(worker->job_key, link->n, &reject)) {
		link_fail(link, OL_E_AUTH, NULL);
		return;
	}
	memcpy(link->m, reject.nonce, sizeof(link->m));
	link_connect(link, OL_CONNECT_PROOF, now_ns);
}

static void proof_refused(struct ol_link *link, const struct ol_xport_event *event, uint64_t now_ns)
{
	struct ol_wire_reject reject;
	char why[96];
	int status;

	if (event->status != -ECONNREFUSED ||
	    ol_wire_reject_decode(event->priv, event->priv_len, &reject) != 0 ||
	    reject.code == OL_REJECT_CHALLENGE) {
		link_again(link, now_ns);
		return;
	}
	/* the last process of this id may have died a moment ago; or the server that gave the
	   challenge, and this one does not know it */
	if ((reject.code == OL_REJECT_WORKER_BUSY || reject.code == OL_REJECT_AUTH ||
	     reject.code == OL_REJECT_FULL) &&
	    (link->worker->started || link->busy_tries++ < OL_BUSY_TRIES)) {
		link_again(link, now_ns);
		return;
	}
	status = ol_wire_reject_status(reject.code);
	if (reject.code == OL_REJECT_WORKER_BUSY)
		snprintf(why, sizeof(why), "worker id %u is already connected; give each its own",
			 link->worker->opts.worker);
	else if (reject.code == OL_REJECT_WORKER_RANGE)
		snprintf(why, sizeof(why), "worker id %u is not below the server's workers_max",
			 link->worker->opts.worker);
	else
		snprintf(why, sizeof(why), "%s", ol_strerror(status));
	link_fail(link, status, why);
}

/* What the server says of the job against what this worker was told */
static bool geometry_agrees(struct ol_link *link, const struct ol_geometry *geo)
{
	const struct ol_worker *worker = link->worker;
	char why[160];

	if (geo->shard_count != worker->link_count)
		snprintf(why, sizeof(why), "it is one of %u shards; this worker was given %u",
			 geo->shard_count, worker->link_count);
	else if (geo->shard != link->index)
		snprintf(why, sizeof(why), "it holds shard %u; give the servers in shard order",
			 geo->shard);
	else if (worker->opts.param_count != 0 && geo->param_count != worker->opts.param_count)
		snprintf(why, sizeof(why),
			 "its job has %llu parameters, this worker's model %llu; start both with "
			 "the same model",
			 (unsigned long long)geo->param_count,
			 (unsigned long long)worker->opts.param_count);
	else if (worker->started && memcmp(geo, &link->geo, sizeof(*geo)) != 0)
		snprintf(why, sizeof(why),
			 "it came back with another geometry: workers, window, "
			 "optimizer or consistency differ");
	else
		return true;
	link_fail(link, OL_E_GEOMETRY, why);
	return false;
}

static struct ol_xport_rkey xport_rkey(struct ol_wire_rkey key)
{
	return (struct ol_xport_rkey){ .addr = key.addr, .bytes = key.bytes, .rkey = key.rkey };
}

static struct ol_wire_rkey wire_rkey(struct ol_xport_rkey key)
{
	return (struct ol_wire_rkey){ .addr = key.addr, .bytes = key.bytes, .rkey = key.rkey };
}

/* Where the last whole weights are, for a server that came back empty */
static int mirror_offer(struct ol_link *link, struct ol_hello *hello)
{
	struct ol_worker *worker = link->worker;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	const uint8_t *base, *table;
	int rc;

	hello->state_off = OL_MIRROR_NO_STATE;
	if (!worker->started || !mirror->whole || worker->opts.observer || link->mirror_gone)
		return 0;
	rc = worker->ops->reg(worker->xport, link->conn, worker->mirror_slab, 0,
			      worker->mirror_slab->bytes, OL_XPORT_ACCESS_PEER_READ,
			      &link->share_region);
	if (rc != 0)
		return rc;
	base = worker->mirror_slab->addr;
	table = mirror->applied[link->index];
	hello->mirror = wire_rkey(worker->ops->rkey(link->share_region, link->conn));
	hello->mirror_epoch = mirror->epochs[link->index];
	hello->mirror_version = mirror->versions[link->index];
	hello->table_off = (uint64_t)(table - base);
	hello->weights_off =
		(uint64_t)((const uint8_t *)mirror->weights - base) + link->geo.shard_first * 4;
	if (mirror->state[link->index] != NULL)
		hello->state_off = (uint64_t)((const uint8_t *)mirror->state[link->index] - base);
	return 0;
}

/* Tell the server where acks go. Its welcome may take a while. */
static int hello_post(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;
	struct ol_hello hello = { .magic = OL_WIRE_MAGIC };
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&hello, .bytes = sizeof(hello) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_HELLO, 0),
		.dst = link->landing_key,
		.dst_off = OL_HELLO_OFF,
	};
	int rc = ol_slab_create(OL_ACKS_BYTES, worker->caps.numa_node, false, &link->acks);

	if (rc == 0)
		rc = worker->ops->reg(worker->xport, link->conn, link->acks, 0, OL_ACKS_BYTES,
				      OL_XPORT_ACCESS_PEER_WRITE, &link->acks_region);
	if (rc == 0)
		rc = mirror_offer(link, &hello);
	if (rc != 0)
		return rc;
	hello.acks = wire_rkey(worker->ops->rkey(link->acks_region, link->conn));
	ol_record_seal(&hello);
	return worker->ops->post_write(link->conn, &write);
}

static void accepted(struct ol_link *link, const struct ol_xport_event *event, uint64_t now_ns)
{
	struct ol_wire_accept accept;
	int rc = ol_wire_accept_decode(event->priv, event->priv_len, &accept);

	if (rc == 0 && !ol_auth_accept_holds(link->worker->job_key, link->n, link->m, &accept))
		rc = OL_E_AUTH;
	if (rc != 0) {
		link_fail(link, rc, NULL);
		return;
	}
	if (!geometry_agrees(link, &accept.geo))
		return;
	link->geo = accept.geo;
	link->lr = accept.lr;
	link->nonfinite = accept.nonfinite != 0;
	link->public_key = xport_rkey(accept.public_key);
	link->landing_key = xport_rkey(accept.landing_key);
	rc = hello_post(link);
	if (rc == 0)
		link->state = OL_LINK_JOINING;
	else if (rc == -ENOTCONN)
		link_again(link, now_ns);
	else
		link_fail(link, rc, NULL);
}

/* The server has its weights: from here on everything is as it says. */
static void welcomed(struct ol_link *link, uint64_t now_ns)
{
	struct ol_welcome welcome;
	int rc = 0;

	if (link->state != OL_LINK_JOINING)
		return;
	memcpy(&welcome, (const uint8_t *)link->acks->addr + OL_WELCOME_OFF, sizeof(welcome));
	if (!ol_record_whole(&welcome) || welcome.snapshot >= OL_SNAPSHOTS) {
		link_fail(link, OL_E_WIRE, NULL);
		return;
	}
	if (welcome.epoch < link->epoch) {
		ol_log(OL_LOG_WARN,
		       "server %s (shard %u): its epoch is %u, that of the last one was %u: it is not "
		       "the successor",
		       link->addr, link->index, welcome.epoch, link->epoch);
		link_again(link, now_ns);
		return;
	}
	link->state = OL_LINK_LIVE;
	link->epoch = welcome.epoch;
	link->version = welcome.version;
	link->snapshot = welcome.snapshot;
	link->attempts = 0;
	link->stat.epoch = welcome.epoch;
	if (link->worker->started)
		rc = ol_keep_on_up(link, &welcome.resolved);
	else
		link->seq = welcome.resolved.seq;
	if (rc != 0) {
		link_fail(link, rc, "its slots cannot be mapped");
		return;
	}
	link->total = welcome.resolved.grads;
	if (link->stat.down) {
		link->stat.down = 0;
		link->stat.up_ns = now_ns;
	}
	if (link->worker->started)
		ol_pull_on_up(link);
}

/* A connection that was live, or nearly, is no more */
static void link_lost(struct ol_link *link, int status, uint64_t now_ns)
{
	struct ol_worker *worker = link->worker;
	bool was_live = link->state == OL_LINK_LIVE;

	if (worker->started && worker->opts.outage == OL_OUTAGE_END) {
		link_fail(link, OL_E_NO_SERVER, NULL);
		return;
	}
	/* at once, unless that is what ended the last one before anything came of it */
	link_again(link, now_ns);
	if (!worker->started)
		return;
	if (was_live && link->backoff_ns <= BACKOFF_MIN_MS * OL_NS_PER_MS)
		link->retry_ns = now_ns;
	if (!link->stat.down) {
		link->stat.down = 1;
		link->stat.outages++;
		link->stat.down_ns = now_ns;
		link->stat.reason = status;
		ol_keep_on_down(link);
		ol_pull_on_down(link);
	}
}

void ol_link_break(struct ol_link *link, int status)
{
	link_lost(link, status, link->worker->now_ns);
}

void ol_link_move(struct ol_link *link, uint64_t now_ns)
{
	link->attempts = 0;
	link->backoff_ns = 0;
	link_lost(link, 0, now_ns);
}

void ol_link_watch(struct ol_link *link, uint64_t now_ns)
{
	struct ol_worker *worker = link->worker;
	uint64_t lease_ns = worker->opts.lease_ms * OL_NS_PER_MS;
	struct ol_xport_read read = {
		.segs = { { .region = worker->work_region, .bytes = sizeof(uint64_t) } },
		.seg_count = 1,
		.flags = OL_XPORT_SIGNALED,
		.src = link->public_key,
		.src_off = OL_BOARD_STAT_OFF,
		.cookie = ol_cookie_make(OL_COOKIE_BEAT, 0),
	};

	if ((link->state != OL_LINK_LIVE && link->state != OL_LINK_JOINING) || lease_ns == 0)
		return;
	if (link->beat_posted) {
		if (now_ns - link->beat_post_ns > lease_ns)
			link_lost(link, -ETIMEDOUT, now_ns);
		return;
	}
	if (now_ns - link->beat_post_ns < lease_ns / BEATS_A_LEASE)
		return;
	read.segs[0].off = ol_worker_work_off(
		worker, (const void *)(uintptr_t)ol_worker_beat(worker, link->index));
	link->beat_posted = worker->ops->post_read(link->conn, &read) == 0;
	link->beat_post_ns = now_ns;
}

/* A word that changes is a loop that turns; nothing else is asked of it, as it may be torn. */
static void beat_read(struct ol_link *link, int status, uint64_t now_ns)
{
	uint64_t beat = ol_word_load(ol_worker_beat(link->worker, link->index));

	link->beat_posted = false;
	if (status != 0)
		return; /* the connection goes down */
	if (link->beat_ns == 0 || beat != link->beat) {
		link->beat = beat;
		link->beat_ns = now_ns;
	} else if (link->beat_post_ns - link->beat_ns >=
		   link->worker->opts.lease_ms * OL_NS_PER_MS) {
		/* by when it was asked, not by now: this worker may have been away meanwhile */
		link_lost(link, OL_E_FENCED, now_ns);
	}
}

void ol_link_probe(struct ol_link *link, uint64_t now_ns)
{
	struct ol_worker *worker = link->worker;
	uint64_t word = 0;
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&word, .bytes = sizeof(word) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_SIGNALED,
		.dst = link->landing_key,
		.dst_off = OL_LANDING_PROBE_OFF,
		.cookie = ol_cookie_make(OL_COOKIE_PROBE, 0),
	};

	if (link->heard_ns == 0)
		link->heard_ns = now_ns;
	if (link->state != OL_LINK_LIVE || link->probing ||
	    now_ns - link->heard_ns < worker->opts.retry_timeout_ms * OL_NS_PER_MS)
		return;
	link->heard_ns = now_ns;
	link->probing = worker->ops->post_write(link->conn, &write) == 0;
}

static void link_down(struct ol_link *link, const struct ol_xport_event *event, uint64_t now_ns)
{
	switch (link->state) {
	case OL_LINK_KNOCKING:
		knock_answered(link, event, now_ns);
		break;
	case OL_LINK_PROVING:
		proof_refused(link, event, now_ns);
		break;
	case OL_LINK_JOINING:
	case OL_LINK_LIVE:
		ol_log(OL_LOG_DEBUG, "server %s: connection lost: %s", link->addr,
		       ol_strerror(event->status));
		link_lost(link, event->status, now_ns);
		break;
	case OL_LINK_IDLE:
	case OL_LINK_FAILED:
		link_drop_conn(link);
		break;
	}
}

static void link_done(struct ol_link *link, const struct ol_xport_event *event, uint64_t now_ns)
{
	switch ((enum ol_cookie)(event->cookie >> 32)) {
	case OL_COOKIE_PLACED:
		ol_push_on_placed(link, (uint32_t)event->cookie, event->status);
		break;
	case OL_COOKIE_READ:
		ol_pull_on_read(link, event->status);
		break;
	case OL_COOKIE_PROBE:
		link->probing = false;
		break;
	case OL_COOKIE_BEAT:
		beat_read(link, event->status, now_ns);
		break;
	case OL_COOKIE_STAT:
		if ((uint32_t)event->cookie != link->worker->stat_generation)
			break; /* of a call that gave up */
		link->worker->stat_done = true;
		link->worker->stat_status = event->status;
		break;
	}
}

void ol_link_on_event(struct ol_link *link, const struct ol_xport_event *event, uint64_t now_ns)
{
	link->heard_ns = 0; /* the next wait that is long starts counting */
	switch (event->type) {
	case OL_XPORT_DONE:
		link_done(link, event, now_ns);
		break;
	case OL_XPORT_DOORBELL_RUNG:
		if (ol_bell_kind(event->imm) == OL_BELL_ACK)
			ol_push_on_ack(link, ol_bell_arg(event->imm));
		else if (ol_bell_kind(event->imm) == OL_BELL_WELCOME)
			welcomed(link, now_ns);
		break;
	case OL_XPORT_CONN_UP:
		if (link->state == OL_LINK_PROVING)
			accepted(link, event, now_ns);
		else /* nothing that answers a knock with yes is a server of ours */
			link_fail(link, OL_E_WIRE, NULL);
		break;
	case OL_XPORT_CONN_DOWN:
		link_down(link, event, now_ns);
		break;
	case OL_XPORT_CONN_REQUEST:
		break; /* workers do not listen */
	}
}

void ol_link_learn(struct ol_link *link, uint64_t version, uint32_t snapshot)
{
	if (version < link->version || snapshot >= OL_SNAPSHOTS)
		return;
	link->version = version;
	link->snapshot = snapshot;
}

void ol_link_free(struct ol_link *link)
{
	link_drop_conn(link);
	ol_outage_free(link);
}
