/* SPDX-License-Identifier: BSD-3-Clause */

/* link.c -- from an address to a live connection with one shard's server */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "wire/auth.h"
#include "worker/worker_internal.h"

enum {
	BACKOFF_MIN_MS = 10,
	BACKOFF_MAX_MS = 200
};

/* For good: the reason goes to whoever opened the worker */
static void link_fail(struct ol_link *link, int status, const char *why)
{
	struct ol_worker *worker = link->worker;

	link->state = OL_LINK_FAILED;
	link->status = status;
	if (worker->err[0] == '\0')
		snprintf(worker->err, sizeof(worker->err), "server %s (shard %u): %s", link->addr,
			 link->index, why != NULL ? why : ol_strerror(status));
}

static void link_drop_conn(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;

	if (link->conn != NULL)
		worker->ops->conn_free(link->conn);
	link->conn = NULL;
	if (link->acks_region != NULL)
		worker->ops->dereg(link->acks_region);
	link->acks_region = NULL;
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
	link->retry_ns = now_ns + link->backoff_ns;
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
	rc = worker->ops->connect(worker->xport, link->addr, bytes, sizeof(bytes), &link->conn);
	if (rc == 0) {
		link->conn->user = link;
		link->state = kind == OL_CONNECT_PROOF ? OL_LINK_PROVING : OL_LINK_KNOCKING;
		return;
	}
	link->conn = NULL;
	if (rc == -ECONNREFUSED || rc == -ENOENT || rc == -EAGAIN)
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
	/* the last process of this id may have died a moment ago */
	if (reject.code == OL_REJECT_WORKER_BUSY && link->busy_tries++ < OL_BUSY_TRIES) {
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
	link_drop_conn(link);
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
	else
		return true;
	link_drop_conn(link);
	link_fail(link, OL_E_GEOMETRY, why);
	return false;
}

static struct ol_xport_rkey xport_rkey(struct ol_wire_rkey key)
{
	return (struct ol_xport_rkey){ .addr = key.addr, .bytes = key.bytes, .rkey = key.rkey };
}

/* Tell the server where acks go; it answers nothing, and pushes may follow at once. */
static int hello_post(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;
	struct ol_xport_rkey acks;
	struct ol_hello hello = { .magic = OL_WIRE_MAGIC, .epoch = link->epoch };
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&hello, .bytes = sizeof(hello) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_HELLO, 0),
		.dst = link->landing_key,
		.dst_off = OL_HELLO_OFF,
	};
	int rc;

	rc = worker->ops->reg(worker->xport, link->conn, link->acks, 0, OL_ACKS_BYTES,
			      OL_XPORT_ACCESS_PEER_WRITE, &link->acks_region);
	if (rc != 0)
		return rc;
	acks = worker->ops->rkey(link->acks_region, link->conn);
	hello.acks =
		(struct ol_wire_rkey){ .addr = acks.addr, .bytes = acks.bytes, .rkey = acks.rkey };
	ol_record_seal(&hello);
	return worker->ops->post_write(link->conn, &write);
}

static void accepted(struct ol_link *link, const struct ol_xport_event *event)
{
	struct ol_wire_accept accept;
	int rc = ol_wire_accept_decode(event->priv, event->priv_len, &accept);

	if (rc == 0 && !ol_auth_accept_holds(link->worker->job_key, link->n, link->m, &accept))
		rc = OL_E_AUTH;
	if (rc != 0) {
		link_drop_conn(link);
		link_fail(link, rc, NULL);
		return;
	}
	if (!geometry_agrees(link, &accept.geo))
		return;
	link->geo = accept.geo;
	link->public_key = xport_rkey(accept.public_key);
	link->landing_key = xport_rkey(accept.landing_key);
	link->epoch = accept.epoch;
	link->seq = accept.resolved;
	ol_link_learn(link, accept.version, accept.snapshot);
	rc = hello_post(link);
	if (rc != 0) {
		link_drop_conn(link);
		link_fail(link, rc, NULL);
		return;
	}
	link->state = OL_LINK_LIVE;
}

void ol_link_break(struct ol_link *link, int status)
{
	link_drop_conn(link);
	link_fail(link, status, NULL);
	ol_push_fail(link->worker, status);
	ol_pull_fail(link->worker, status);
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
	case OL_LINK_LIVE:
		ol_log(OL_LOG_DEBUG, "server %s: connection lost: %s", link->addr,
		       ol_strerror(event->status));
		ol_link_break(link, OL_E_NO_SERVER);
		break;
	case OL_LINK_IDLE:
	case OL_LINK_FAILED:
		link_drop_conn(link);
		break;
	}
}

static void link_done(struct ol_link *link, const struct ol_xport_event *event)
{
	switch ((enum ol_cookie)(event->cookie >> 32)) {
	case OL_COOKIE_PLACED:
		ol_push_on_placed(link->worker, (uint32_t)event->cookie, event->status);
		break;
	case OL_COOKIE_READ:
		ol_pull_on_read(link, event->status);
		break;
	case OL_COOKIE_PROBE:
		link->probing = false;
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
		link_done(link, event);
		break;
	case OL_XPORT_DOORBELL_RUNG:
		if (ol_bell_kind(event->imm) == OL_BELL_ACK)
			ol_push_on_ack(link, ol_bell_arg(event->imm));
		break;
	case OL_XPORT_CONN_UP:
		if (link->state == OL_LINK_PROVING)
			accepted(link, event);
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
	ol_slab_destroy(link->acks);
	link->acks = NULL;
}
