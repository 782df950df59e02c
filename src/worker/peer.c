/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * peer.c -- one connection, from an address to the hello, and whether its other end still lives
 *
 *	IDLE -> KNOCKING -> PROVING -> JOINING -> LIVE
 *	  ^                                |       |  the server left, died, stood still, was moved
 *	  +--------------------------------+-------+
 *
 * The welcome, which makes it LIVE, is link.c's.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "rdma/order.h"
#include "wire/auth.h"
#include "worker/worker_internal.h"

enum {
	BACKOFF_MIN_MS = 5,
	BACKOFF_MAX_MS = 50,
	BEATS_A_LEASE = 4 /* how often a heartbeat is read */
};

void ol_peer_drop(struct ol_peer *peer)
{
	struct ol_worker *worker = peer->link->worker;

	/* the queue pair, then the keys, then the memory: nothing late can land */
	if (peer->conn != NULL) {
		ol_xport_forget(worker->events, worker->events_left, peer->conn);
		worker->ops->conn_free(peer->conn);
	}
	peer->conn = NULL;
	if (peer->acks_region != NULL)
		worker->ops->dereg(peer->acks_region);
	peer->acks_region = NULL;
	if (peer->share_region != NULL)
		worker->ops->dereg(peer->share_region);
	peer->share_region = NULL;
	ol_slab_destroy(peer->acks);
	peer->acks = NULL;
	peer->probing = false;
	peer->beat_posted = false;
	peer->beat_ns = 0;
}

/* The next of its addresses */
static void addr_next(struct ol_peer *peer)
{
	uint32_t count = 1, skip;
	const char *at = peer->addrs;

	for (const char *c = peer->addrs; *c != '\0'; c++)
		count += *c == '|';
	for (skip = peer->attempts++ % count; skip > 0; skip--)
		at = strchr(at, '|') + 1;
	snprintf(peer->addr, sizeof(peer->addr), "%.*s", (int)strcspn(at, "|"), at);
}

/*
 * Less than the whole back-off by up to a half, different for every worker and attempt: a server
 * that comes back is not asked by all at once.
 */
static uint64_t jitter(const struct ol_peer *peer, uint64_t backoff_ns)
{
	uint32_t mix =
		(peer->link->worker->opts.worker + 1) * 2654435761u ^ peer->attempts * 40503u;

	return backoff_ns - backoff_ns / 2 * (mix >> 8 & 0xff) / 0xff;
}

/* Nobody there, or the connection broke before it was up: try again after a while */
void ol_peer_again(struct ol_peer *peer, uint64_t now_ns)
{
	uint64_t most_ns = BACKOFF_MAX_MS * OL_NS_PER_MS;

	ol_peer_drop(peer);
	peer->state = OL_PEER_IDLE;
	peer->backoff_ns =
		peer->backoff_ns == 0 ? BACKOFF_MIN_MS * OL_NS_PER_MS : peer->backoff_ns * 2;
	if (peer->backoff_ns > most_ns)
		peer->backoff_ns = most_ns;
	peer->retry_ns = now_ns + jitter(peer, peer->backoff_ns);
}

/* A bit of a set of strangers: two that share one cost a log line at most */
static uint64_t stranger_bit(const struct ol_peer *peer, const char *why)
{
	uint32_t mix = 2166136261u;

	for (const char *c = peer->addr; *c != '\0'; c++)
		mix = (mix ^ (uint8_t)*c) * 16777619u;
	for (const char *c = why; *c != '\0'; c++)
		mix = (mix ^ (uint8_t)*c) * 16777619u;
	return UINT64_C(1) << (mix >> 26);
}

void ol_peer_stranger(struct ol_peer *peer, int status, const char *why, uint64_t now_ns)
{
	const struct ol_worker *worker = peer->link->worker;
	uint64_t bit;

	if (!worker->started || worker->opts.outage == OL_OUTAGE_END) {
		ol_link_fail(peer, status, why);
		return;
	}
	if (why == NULL)
		why = ol_strerror(status);
	bit = stranger_bit(peer, why);
	if ((peer->strangers_told & bit) == 0)
		ol_log(OL_LOG_WARN,
		       "server %s (shard %u): no server of this job answers there: %s; the worker "
		       "tries again",
		       peer->addr, peer->link->index, why);
	peer->strangers_told |= bit;
	ol_peer_again(peer, now_ns);
}

/* The server makes room for it, or lets in others first; the half more, different for each worker,
 * keeps apart those that were sent away together */
static void later(struct ol_peer *peer, uint32_t delay_ms, uint64_t now_ns)
{
	ol_peer_drop(peer);
	peer->state = OL_PEER_IDLE;
	peer->backoff_ns = delay_ms * OL_NS_PER_MS;
	peer->retry_ns = now_ns + jitter(peer, peer->backoff_ns + peer->backoff_ns / 2);
	peer->busy_ns = 0;
	ol_log(OL_LOG_DEBUG, "shard %u: server %s: told to come back in %u ms", peer->link->index,
	       peer->addr, delay_ms);
}

static void peer_connect(struct ol_peer *peer, enum ol_wire_connect_kind kind, uint64_t now_ns)
{
	struct ol_worker *worker = peer->link->worker;
	struct ol_wire_connect msg = {
		.kind = kind,
		.role = peer->role,
		.worker = worker->opts.worker,
		.queues = ol_worker_queues(worker) && peer->role == OL_ROLE_WORKER,
	};
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];
	int rc;

	memcpy(msg.nonce, peer->n, sizeof(msg.nonce));
	if (kind == OL_CONNECT_PROOF)
		ol_auth_proof(worker->job_key, peer->m, &msg);
	ol_wire_connect_encode(&msg, bytes);
	if (kind == OL_CONNECT_KNOCK) {
		addr_next(peer);
		peer->knock_ns = now_ns;
	}
	rc = worker->ops->connect(worker->xport, peer->addr, bytes, sizeof(bytes), &peer->conn);
	if (rc == 0) {
		peer->conn->user = peer;
		peer->state = kind == OL_CONNECT_PROOF ? OL_PEER_PROVING : OL_PEER_KNOCKING;
		return;
	}
	peer->conn = NULL;
	if (rc == -ECONNREFUSED || rc == -ENOENT || rc == -EAGAIN || worker->started)
		ol_peer_again(peer, now_ns);
	else
		ol_link_fail(peer, rc,
			     rc == -EINVAL ? "not an address of its transport: " OL_XPORT_ADDR_HELP
					   : NULL);
}

void ol_peer_start(struct ol_peer *peer, uint64_t now_ns)
{
	if (ol_auth_random(peer->n, sizeof(peer->n)) != 0) {
		ol_link_fail(peer, -EIO, "the system gave no random bytes");
		return;
	}
	peer_connect(peer, OL_CONNECT_KNOCK, now_ns);
}

void ol_peer_at_once(struct ol_peer *peer, uint64_t now_ns)
{
	if (peer->backoff_ns <= BACKOFF_MIN_MS * OL_NS_PER_MS)
		peer->retry_ns = now_ns;
}

void ol_peer_tick(struct ol_peer *peer, uint64_t now_ns)
{
	const struct ol_worker *worker = peer->link->worker;

	/* where a knock is not answered another address may be the one, or its network is back */
	if (peer->state == OL_PEER_KNOCKING && worker->started &&
	    now_ns - peer->knock_ns >= worker->opts.retry_timeout_ms * OL_NS_PER_MS)
		ol_peer_again(peer, now_ns);
	if (peer->state == OL_PEER_IDLE && now_ns >= peer->retry_ns)
		ol_peer_start(peer, now_ns);
}

/* The end of a knock: a challenge is what it should be */
static void knock_answered(struct ol_peer *peer, const struct ol_xport_event *event,
			   uint64_t now_ns)
{
	struct ol_worker *worker = peer->link->worker;
	struct ol_wire_reject reject;

	if (event->status != -ECONNREFUSED ||
	    ol_wire_reject_decode(event->priv, event->priv_len, &reject) != 0) {
		ol_peer_again(peer, now_ns);
		return;
	}
	ol_peer_drop(peer);
	if (reject.code == OL_REJECT_LATER) {
		later(peer, reject.delay_ms, now_ns);
		return;
	}
	if ((reject.code == OL_REJECT_FULL || reject.code == OL_REJECT_RESOURCES) &&
	    worker->started) {
		ol_peer_again(peer, now_ns);
		return;
	}
	if (reject.code != OL_REJECT_CHALLENGE) {
		ol_peer_stranger(peer, ol_wire_reject_status(reject.code), NULL, now_ns);
		return;
	}
	if (!ol_auth_challenge_holds(worker->job_key, peer->n, &reject)) {
		ol_peer_stranger(peer, OL_E_AUTH, NULL, now_ns);
		return;
	}
	memcpy(peer->m, reject.nonce, sizeof(peer->m));
	peer_connect(peer, OL_CONNECT_PROOF, now_ns);
}

/* Whether the server has refused this worker for less than limit_ms; *since_ns is 0 or when it
 * first did. */
static bool refused_for_less(uint64_t *since_ns, uint32_t limit_ms, uint64_t now_ns)
{
	if (*since_ns == 0)
		*since_ns = now_ns;
	return now_ns - *since_ns < limit_ms * OL_NS_PER_MS;
}

/* The worker is not let in now. The last process of its id may have died a moment ago, or the
 * server that gave the challenge, and this one does not know it. */
static bool tries_again(struct ol_peer *peer, enum ol_wire_reject_code code, uint64_t now_ns)
{
	if (code != OL_REJECT_WORKER_BUSY && code != OL_REJECT_AUTH && code != OL_REJECT_FULL &&
	    code != OL_REJECT_RESOURCES)
		return false;
	if (peer->link->worker->started)
		return true;
	/* making memory may take long, and then fail */
	if (code == OL_REJECT_RESOURCES || code == OL_REJECT_AUTH)
		return refused_for_less(&peer->short_ns, OL_SHORT_MS, now_ns);
	return refused_for_less(&peer->busy_ns, OL_BUSY_MS, now_ns);
}

static void proof_refused(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns)
{
	struct ol_wire_reject reject;
	char why[96];
	int status;

	if (event->status != -ECONNREFUSED ||
	    ol_wire_reject_decode(event->priv, event->priv_len, &reject) != 0 ||
	    reject.code == OL_REJECT_CHALLENGE) {
		ol_peer_again(peer, now_ns);
		return;
	}
	if (reject.code == OL_REJECT_LATER) {
		later(peer, reject.delay_ms, now_ns);
		return;
	}
	if (tries_again(peer, reject.code, now_ns)) {
		ol_peer_again(peer, now_ns);
		return;
	}
	status = ol_wire_reject_status(reject.code);
	if (reject.code == OL_REJECT_WORKER_BUSY)
		snprintf(why, sizeof(why), "worker id %u is already connected; give each its own",
			 peer->link->worker->opts.worker);
	else if (reject.code == OL_REJECT_WORKER_RANGE)
		snprintf(why, sizeof(why), "worker id %u is not below the server's workers_max",
			 peer->link->worker->opts.worker);
	else
		snprintf(why, sizeof(why), "%s", ol_strerror(status));
	ol_peer_stranger(peer, status, why, now_ns);
}

/* What the server says of the job against what this worker was told */
static bool geometry_agrees(struct ol_peer *peer, const struct ol_geometry *geo, uint64_t now_ns)
{
	const struct ol_link *link = peer->link;
	const struct ol_worker *worker = link->worker;
	bool any = worker->opts.observer == OL_OBSERVER_COUNTERS && worker->link_count == 1;
	char why[160];

	if (!any && geo->shard_count != worker->link_count)
		snprintf(why, sizeof(why), "it is one of %u shards; this worker was given %u",
			 geo->shard_count, worker->link_count);
	else if (!any && geo->shard != link->index)
		snprintf(why, sizeof(why), "it holds shard %u; give the servers in shard order",
			 geo->shard);
	else if (worker->opts.param_count != 0 && geo->param_count != worker->opts.param_count)
		snprintf(why, sizeof(why),
			 "its job has %llu parameters, this worker's model %llu; start both with "
			 "the same model",
			 (unsigned long long)geo->param_count,
			 (unsigned long long)worker->opts.param_count);
	else if (worker->coord != NULL && link->geo.param_count != 0 &&
		 memcmp(geo, &link->geo, sizeof(*geo)) != 0)
		snprintf(why, sizeof(why),
			 "it is not like the others of its chain: workers, window, "
			 "optimizer or consistency differ");
	else if (worker->started && memcmp(geo, &link->geo, sizeof(*geo)) != 0)
		snprintf(why, sizeof(why),
			 "it came back with another geometry: workers, window, "
			 "optimizer or consistency differ");
	else
		return true;
	ol_peer_stranger(peer, OL_E_GEOMETRY, why, now_ns);
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
static int mirror_offer(struct ol_peer *peer, struct ol_hello *hello)
{
	const struct ol_link *link = peer->link;
	struct ol_worker *worker = link->worker;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	const uint8_t *base, *table;
	int rc;

	hello->state_off = OL_MIRROR_NO_STATE;
	/* where another is read from, that one has the weights */
	if (!worker->started || !mirror->whole || worker->opts.observer || link->mirror_gone ||
	    peer != link->reader)
		return 0;
	rc = worker->ops->reg(worker->xport, peer->conn, worker->mirror_slab, 0,
			      worker->mirror_slab->bytes, OL_XPORT_ACCESS_PEER_READ,
			      &peer->share_region);
	if (rc != 0)
		return rc;
	base = worker->mirror_slab->addr;
	table = mirror->applied[link->index];
	hello->mirror = wire_rkey(worker->ops->rkey(peer->share_region, peer->conn));
	hello->mirror_epoch = mirror->histories[link->index];
	hello->mirror_version = mirror->versions[link->index];
	hello->mirror_history = mirror->identities[link->index];
	hello->table_off = (uint64_t)(table - base);
	hello->weights_off =
		(uint64_t)((const uint8_t *)mirror->weights - base) + link->geo.shard_first * 4;
	if (mirror->state[link->index] != NULL)
		hello->state_off = (uint64_t)((const uint8_t *)mirror->state[link->index] - base);
	return 0;
}

/* Tell the server where acks go. Its welcome may take a while. */
static int hello_post(struct ol_peer *peer)
{
	struct ol_worker *worker = peer->link->worker;
	struct ol_hello hello = { .magic = OL_WIRE_MAGIC,
				  .gone_seq = peer->link->gone_seq,
				  .epoch = peer->link->epoch };
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&hello, .bytes = sizeof(hello) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_HELLO, 0),
		.dst = peer->landing_key,
		.dst_off = OL_HELLO_OFF,
	};
	int rc = ol_slab_create(OL_ACKS_BYTES, worker->caps.numa_node, false, &peer->acks);

	if (rc == 0)
		rc = worker->ops->reg(worker->xport, peer->conn, peer->acks, 0, OL_ACKS_BYTES,
				      OL_XPORT_ACCESS_PEER_WRITE, &peer->acks_region);
	if (rc == 0)
		rc = mirror_offer(peer, &hello);
	if (rc != 0)
		return rc;
	hello.acks = wire_rkey(worker->ops->rkey(peer->acks_region, peer->conn));
	ol_record_seal(&hello);
	return worker->ops->post_write(peer->conn, &write);
}

static void accepted(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns)
{
	struct ol_link *link = peer->link;
	struct ol_wire_accept accept;
	char text[OL_STATUS_TEXT_MAX];
	int rc = ol_wire_accept_decode(event->priv, event->priv_len, &accept);

	if (rc == 0 && !ol_auth_accept_holds(link->worker->job_key, peer->n, peer->m, &accept))
		rc = OL_E_AUTH;
	if (rc != 0) {
		ol_peer_stranger(peer, rc, NULL, now_ns);
		return;
	}
	if (peer->member != 0 && accept.incarnation != peer->member) {
		/* in the place of the one that the view names */
		ol_peer_again(peer, now_ns);
		return;
	}
	if (!geometry_agrees(peer, &accept.geo, now_ns))
		return;
	link->geo = accept.geo;
	link->lr = accept.lr;
	link->nonfinite = accept.nonfinite != 0;
	peer->incarnation = accept.incarnation;
	peer->public_key = xport_rkey(accept.public_key);
	peer->landing_key = xport_rkey(accept.landing_key);
	rc = hello_post(peer);
	if (rc == 0) {
		peer->state = OL_PEER_JOINING;
	} else if (rc == -ENOTCONN || link->worker->started) {
		/* what is short now, memory above all, may not be for ever */
		if (rc != -ENOTCONN && peer->attempts == 1)
			ol_log(OL_LOG_WARN, "server %s (shard %u): tried again: %s", peer->addr,
			       link->index, ol_status_text(rc, text));
		ol_peer_again(peer, now_ns);
	} else {
		ol_link_fail(peer, rc, NULL);
	}
}

void ol_peer_on_up(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns)
{
	if (peer->state == OL_PEER_PROVING)
		accepted(peer, event, now_ns);
	else /* nothing that answers a knock with yes is a server of ours */
		ol_peer_stranger(peer, OL_E_WIRE, NULL, now_ns);
}

bool ol_peer_on_down(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns)
{
	if (event->status == -EMFILE && !peer->link->worker->started) {
		ol_link_fail(peer, event->status, NULL);
		return true;
	}
	switch (peer->state) {
	case OL_PEER_KNOCKING:
		knock_answered(peer, event, now_ns);
		return true;
	case OL_PEER_PROVING:
		proof_refused(peer, event, now_ns);
		return true;
	case OL_PEER_NONE:
	case OL_PEER_IDLE:
		ol_peer_drop(peer);
		return true;
	case OL_PEER_JOINING:
	case OL_PEER_WELCOME:
	case OL_PEER_LIVE:
		break;
	}
	return false;
}

void ol_peer_watch(struct ol_peer *peer, uint64_t now_ns)
{
	struct ol_worker *worker = peer->link->worker;
	uint64_t lease_ns = worker->opts.lease_ms * OL_NS_PER_MS;
	struct ol_xport_read read = {
		.segs = { { .region = worker->work_region, .bytes = sizeof(uint64_t) } },
		.seg_count = 1,
		.flags = OL_XPORT_SIGNALED,
		.src = peer->public_key,
		.src_off = OL_BOARD_STAT_OFF,
		.cookie = ol_cookie_make(OL_COOKIE_BEAT, 0),
	};

	if (peer->state < OL_PEER_JOINING || lease_ns == 0)
		return;
	if (peer->beat_posted) {
		if (now_ns - peer->beat_post_ns > lease_ns)
			ol_link_lost(peer, -ETIMEDOUT, now_ns);
		return;
	}
	if (now_ns - peer->beat_post_ns < lease_ns / BEATS_A_LEASE)
		return;
	read.segs[0].off =
		ol_worker_work_off(worker, (const void *)(uintptr_t)ol_worker_beat(peer));
	peer->beat_posted = worker->ops->post_read(peer->conn, &read) == 0;
	peer->beat_post_ns = now_ns;
}

/* A word that changes is a loop that turns; nothing else is asked of it, as it may be torn. */
void ol_peer_on_beat(struct ol_peer *peer, int status, uint64_t now_ns)
{
	uint64_t beat = ol_word_load(ol_worker_beat(peer));

	peer->beat_posted = false;
	if (status != 0)
		return; /* the connection goes down */
	if (peer->beat_ns == 0 || beat != peer->beat) {
		peer->beat = beat;
		peer->beat_ns = now_ns;
	} else if (peer->beat_post_ns - peer->beat_ns >=
		   peer->link->worker->opts.lease_ms * OL_NS_PER_MS) {
		/* by when it was asked, not by now: this worker may have been away meanwhile */
		ol_link_lost(peer, OL_E_FENCED, now_ns);
	}
}

void ol_peer_probe(struct ol_peer *peer, uint64_t now_ns)
{
	struct ol_worker *worker = peer->link->worker;
	uint64_t word = 0;
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&word, .bytes = sizeof(word) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_SIGNALED,
		.dst = peer->landing_key,
		.dst_off = OL_LANDING_PROBE_OFF,
		.cookie = ol_cookie_make(OL_COOKIE_PROBE, 0),
	};

	if (peer->heard_ns == 0)
		peer->heard_ns = now_ns;
	if (peer->state != OL_PEER_LIVE || peer->probing ||
	    now_ns - peer->heard_ns < worker->opts.retry_timeout_ms * OL_NS_PER_MS)
		return;
	peer->heard_ns = now_ns;
	peer->probing = worker->ops->post_write(peer->conn, &write) == 0;
}
