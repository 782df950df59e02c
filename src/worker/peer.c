/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * peer.c -- one connection, from an address to the hello, and whether its other end still lives
 *
 * link/dial.h has its states. The welcome, which makes it LIVE, is link.c's.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "rdma/order.h"
#include "wire/tensor.h"
#include "worker/worker_internal.h"

enum {
	BACKOFF_MIN_MS = 5,
	BACKOFF_MAX_MS = 50
};

void ol_peer_dialer(struct ol_rail *rail)
{
	struct ol_worker *worker = rail->worker;

	rail->dialer = (struct ol_dialer){ .ops = worker->ops,
					   .xport = rail->xport,
					   .job_key = worker->job_key,
					   .inbox = &worker->inbox,
					   .retry_min_ms = BACKOFF_MIN_MS,
					   .retry_max_ms = BACKOFF_MAX_MS,
					   .salt = worker->opts.worker + 1 };
}

void ol_peer_drop(struct ol_peer *peer)
{
	struct ol_worker *worker = peer->link->worker;

	ol_dial_drop(&peer->rail->dialer, &peer->dial);
	if (peer->share_region != NULL)
		worker->ops->dereg(peer->share_region);
	peer->share_region = NULL;
	peer->probing = false;
	peer->pin_told = false;
	peer->hello_due = false;
	peer->end = OL_PEER_GOES_ON;
}

static void end_note(struct ol_peer *peer, enum ol_peer_end what, int status, const char *why)
{
	peer->end = what;
	peer->end_status = status;
	snprintf(peer->end_why, sizeof(peer->end_why), "%s", why != NULL ? why : "");
}

void ol_peer_break(struct ol_peer *peer, int status)
{
	end_note(peer, OL_PEER_LOST, status, NULL);
}

uint32_t ol_peer_addrs(const struct ol_peer *peer)
{
	uint32_t count = 1;

	for (const char *c = peer->addrs; *c != '\0'; c++)
		count += *c == '|';
	return count;
}

/* The next of its addresses */
static void addr_next(const struct ol_peer *peer, char addr[OL_XPORT_ADDR_MAX])
{
	const char *at = peer->addrs;

	for (uint32_t skip = peer->dial.attempts % ol_peer_addrs(peer); skip > 0; skip--)
		at = strchr(at, '|') + 1;
	snprintf(addr, OL_XPORT_ADDR_MAX, "%.*s", (int)strcspn(at, "|"), at);
}

/* No server answered, or the connection broke before it was up: try again after the back-off */
void ol_peer_retry(struct ol_peer *peer, uint64_t now_ns)
{
	ol_peer_drop(peer);
	ol_dial_retry(&peer->rail->dialer, &peer->dial, now_ns);
}

/* The stranger's bit in a set: if two share a bit, at most a log line is lost */
static uint64_t stranger_bit(const struct ol_peer *peer, const char *why)
{
	uint32_t mix = 2166136261u;

	for (const char *c = peer->dial.addr; *c != '\0'; c++)
		mix = (mix ^ (uint8_t)*c) * 16777619u;
	for (const char *c = why; *c != '\0'; c++)
		mix = (mix ^ (uint8_t)*c) * 16777619u;
	return UINT64_C(1) << (mix >> 26);
}

static void refusal_note(struct ol_peer *peer, int status, const char *why)
{
	peer->refusal_status = status;
	snprintf(peer->refusal, sizeof(peer->refusal), "%s", why);
}

void ol_peer_on_stranger(struct ol_peer *peer, int status, const char *why, bool proved,
			 uint64_t now_ns)
{
	const struct ol_worker *worker = peer->link->worker;
	uint64_t bit;

	if (proved && (!worker->started || worker->opts.outage == OL_OUTAGE_END)) {
		end_note(peer, OL_PEER_FAILED, status, why);
		return;
	}
	if (why == NULL)
		why = ol_strerror(status);
	refusal_note(peer, status, why);
	bit = stranger_bit(peer, why);
	if ((peer->strangers_told & bit) == 0)
		ol_log(OL_LOG_WARN,
		       "server %s (shard %u): no server of this job answers there: %s; the worker "
		       "tries again",
		       peer->dial.addr, peer->link->index, why);
	peer->strangers_told |= bit;
	ol_peer_retry(peer, now_ns);
}

/* The server asked this worker to come back later */
static void retry_later(struct ol_peer *peer, uint32_t delay_ms, uint64_t now_ns)
{
	ol_peer_drop(peer);
	ol_dial_retry_after(&peer->rail->dialer, &peer->dial, delay_ms, now_ns);
	peer->busy_ns = 0;
	ol_log(OL_LOG_DEBUG, "shard %u: server %s: told to come back in %u ms", peer->link->index,
	       peer->dial.addr, delay_ms);
}

static struct ol_wire_connect connect_msg(const struct ol_peer *peer)
{
	const struct ol_worker *worker = peer->link->worker;

	return (struct ol_wire_connect){
		.role = peer->role,
		.worker = worker->opts.observer ? worker->observer_id : worker->opts.worker,
		.queues = ol_worker_queues(worker) && peer->role == OL_ROLE_WORKER,
	};
}

/* A knock or a proof has ended */
static void dial_on_result(struct ol_peer *peer, int rc, uint64_t now_ns)
{
	const char *why = NULL;

	if (rc == 0) {
		peer->dial.conn->user = peer;
		return;
	}
	/* of a device that has died, -ENODEV: the next poll says so */
	if (rc == -ECONNREFUSED || rc == -ENOENT || rc == -EAGAIN || rc == -ENODEV ||
	    peer->link->worker->started) {
		ol_rail_on_attempt(peer, rc);
		ol_peer_retry(peer, now_ns);
		return;
	}
	if (rc == -EINVAL)
		why = "not an address of its transport: " OL_XPORT_ADDR_HELP;
	else if (rc == -EIO)
		why = "the system gave no random bytes";
	end_note(peer, OL_PEER_FAILED, rc, why);
}

void ol_peer_start(struct ol_peer *peer, uint64_t now_ns)
{
	const struct ol_wire_connect msg = connect_msg(peer);
	struct ol_rail *rail = ol_rail_choose(peer);
	char addr[OL_XPORT_ADDR_MAX];

	if (rail == NULL) { /* every device died: once another is open */
		peer->dial.state = OL_DIAL_IDLE;
		return;
	}
	peer->rail = rail;
	addr_next(peer, addr);
	dial_on_result(peer, ol_dial_knock(&rail->dialer, &peer->dial, addr, &msg, now_ns), now_ns);
}

void ol_peer_at_once(struct ol_peer *peer, uint64_t now_ns)
{
	if (peer->dial.backoff_ns <= BACKOFF_MIN_MS * OL_NS_PER_MS)
		peer->dial.retry_ns = now_ns;
}

/* True if the server has refused this worker for less than limit_ms; *since_ns: when it first did,
 * or 0. */
static bool refused_for_less(uint64_t *since_ns, uint32_t limit_ms, uint64_t now_ns)
{
	if (*since_ns == 0)
		*since_ns = now_ns;
	return now_ns - *since_ns < limit_ms * OL_NS_PER_MS;
}

/* True if a refusal may be temporary. The last process of the worker id may have died a moment ago;
 * or the server that gave the challenge has, and its successor does not know the challenge. */
static bool tries_again(struct ol_peer *peer, enum ol_wire_reject_code code, uint64_t now_ns)
{
	bool knocked = peer->dial.state == OL_DIAL_KNOCKING;
	bool passes = code == OL_REJECT_FULL || code == OL_REJECT_RESOURCES ||
		      (!knocked && (code == OL_REJECT_WORKER_BUSY || code == OL_REJECT_AUTH));

	if (!passes || knocked || peer->link->worker->started)
		return passes && peer->link->worker->started;
	/* making memory may take long, and then fail */
	if (code == OL_REJECT_RESOURCES)
		return refused_for_less(&peer->short_ns, OL_SHORT_MS, now_ns);
	return refused_for_less(&peer->busy_ns, OL_BUSY_MS, now_ns);
}

static void reject_take(struct ol_peer *peer, const struct ol_wire_reject *reject, uint64_t now_ns)
{
	int status = ol_wire_reject_status(reject->code);
	uint32_t id = peer->link->worker->opts.worker;
	char text[OL_REJECT_TEXT_MAX], why[OL_REJECT_TEXT_MAX];

	ol_wire_reject_text(reject, text);
	if (reject->code == OL_REJECT_LATER) {
		refusal_note(peer, status,
			     "server asks it to come back later, as it makes memory for many");
		retry_later(peer, reject->delay_ms, now_ns);
		return;
	}
	refusal_note(peer, status, text);
	/* a challenge is no answer to a proof */
	if (reject->code == OL_REJECT_CHALLENGE || tries_again(peer, reject->code, now_ns)) {
		ol_peer_retry(peer, now_ns);
		return;
	}
	if (reject->code == OL_REJECT_WORKER_BUSY)
		snprintf(why, sizeof(why), "worker id %u is already connected; give each its own",
			 id);
	else if (reject->code == OL_REJECT_WORKER_RANGE)
		snprintf(why, sizeof(why),
			 "worker id %u is not below the server's workers_max of %u; raise it there",
			 id, reject->number);
	else
		snprintf(why, sizeof(why), "%s", text);
	ol_peer_on_stranger(peer, status, why, peer->dial.proved, now_ns);
}

/* The end of a knock or a proof: a challenge, or a refusal */
static void attempt_on_end(struct ol_peer *peer, const struct ol_xport_event *event,
			   uint64_t now_ns)
{
	const struct ol_dialer *dialer = &peer->rail->dialer;
	const struct ol_wire_connect msg = connect_msg(peer);
	struct ol_wire_reject reject;
	char why[OL_WIRE_FAULT_MAX];

	switch (ol_dial_on_end(dialer, &peer->dial, event, &reject)) {
	case OL_DIAL_CHALLENGED:
		dial_on_result(peer, ol_dial_prove(dialer, &peer->dial, &msg, now_ns), now_ns);
		break;
	case OL_DIAL_FULL:
		refusal_note(peer, OL_E_FULL,
			     "server's transport holds all connections that it can; its log says "
			     "how many, and what to lower");
		ol_peer_retry(peer, now_ns);
		break;
	case OL_DIAL_BROKE:
		peer->refusal[0] = '\0';
		if (event->status == -EOPNOTSUPP)
			refusal_note(peer, event->status,
				     "its adapter and this one ring in different ways");
		if (ol_wire_fault(event->priv, event->priv_len, "worker", why) != NULL)
			refusal_note(peer, OL_E_WIRE, why);
		ol_rail_on_attempt(peer, event->status);
		ol_peer_retry(peer, now_ns);
		break;
	case OL_DIAL_FORGED:
		ol_peer_on_stranger(peer, OL_E_AUTH, NULL, false, now_ns);
		break;
	case OL_DIAL_REFUSED:
		reject_take(peer, &reject, now_ns);
		break;
	}
}

/* A server that took its table from worker 0 did not know it at first: the weights have brought it */
static void tensors_know(struct ol_link *link)
{
	const struct ol_worker *worker = link->worker;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	if (link->geo.tensors_digest == 0 && mirror->whole)
		(void)ol_tensors_digest(ol_tensors_of(&link->geo, mirror->applied[link->index]),
					&link->geo.tensors_digest);
}

/* Compare the server's description of the job with this worker's options */
static bool geometry_agrees(struct ol_peer *peer, const struct ol_geometry *geo, uint64_t now_ns)
{
	struct ol_link *link = peer->link;
	const struct ol_worker *worker = link->worker;
	const char *differs;
	bool any = worker->opts.observer == OL_OBSERVER_COUNTERS && worker->link_count == 1;
	char why[160];

	tensors_know(link);
	differs = ol_geometry_difference(geo, &link->geo);
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
	else if (worker->opts.weights_format == OL_FORMAT_BF16 && !geo->weights_bf16)
		snprintf(
			why, sizeof(why),
			"it does not hold weights as bf16; start it with weights_bf16, or read fp32");
	else if (worker->coord != NULL && link->geo.param_count != 0 && differs != NULL)
		snprintf(why, sizeof(why), "it has another %s than the others of its chain",
			 differs);
	else if (worker->started && differs != NULL)
		snprintf(why, sizeof(why),
			 "it came back with another %s than the job has; start it with the job's",
			 differs);
	else
		return true;
	ol_peer_on_stranger(peer, OL_E_GEOMETRY, why, true, now_ns);
	return false;
}

/* Let the server read the mirrors. It has proved that it knows the job key. */
static int mirror_share(struct ol_peer *peer, struct ol_wire_rkey *ret_key)
{
	struct ol_worker *worker = peer->link->worker;
	const struct ol_xport_region *region = peer->rail->mirror_region;
	int rc;

	if (worker->caps.announces) {
		rc = worker->ops->reg(peer->rail->xport, peer->dial.conn, worker->mirror_slab, 0,
				      worker->mirror_slab->bytes, OL_XPORT_ACCESS_PEER_READ,
				      &peer->share_region);
		if (rc != 0)
			return rc;
		region = peer->share_region;
	}
	*ret_key = ol_dial_wire_rkey(worker->ops->rkey(region, peer->dial.conn));
	return 0;
}

/* Offer the mirror to a server that came back empty */
static int mirror_offer(struct ol_peer *peer, struct ol_hello *hello)
{
	const struct ol_link *link = peer->link;
	struct ol_worker *worker = link->worker;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	const uint8_t *base, *table;
	int rc;

	hello->state_off = OL_MIRROR_NO_STATE;
	if (worker->init != 0)
		return ol_init_offer(peer, hello);
	/* if weights are read from another server, that one has them */
	if (!worker->started || !mirror->whole || worker->opts.observer || link->mirror_gone ||
	    peer != link->reader)
		return 0;
	rc = mirror_share(peer, &hello->mirror);
	if (rc != 0)
		return rc;
	base = worker->mirror_slab->addr;
	table = mirror->applied[link->index];
	hello->mirror_epoch = mirror->histories[link->index];
	hello->mirror_version = mirror->versions[link->index];
	hello->mirror_history = mirror->identities[link->index];
	hello->table_off = (uint64_t)(table - base);
	hello->weights_off = (uint64_t)((const uint8_t *)mirror->weights - base) +
			     ol_layout_shard_off(&link->geo);
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
				  .epoch = peer->link->epoch,
				  .tag = worker->tag,
				  .format = worker->opts.gradient_format };
	int rc = worker->started ? ol_worker_memory_reg(peer->rail) : 0;

	if (rc == 0)
		rc = ol_dial_memory(&peer->rail->dialer, &peer->dial, worker->caps.numa_node);
	if (rc == 0)
		rc = mirror_offer(peer, &hello);
	if (rc != 0)
		return rc;
	hello.acks = ol_dial_wire_rkey(worker->ops->rkey(peer->dial.acks_region, peer->dial.conn));
	ol_record_seal(&hello);
	return ol_dial_hello(&peer->rail->dialer, &peer->dial, &hello, sizeof(hello));
}

static void hello_say(struct ol_peer *peer, uint64_t now_ns)
{
	struct ol_link *link = peer->link;
	char text[OL_STATUS_TEXT_MAX];
	int rc = hello_post(peer);

	peer->hello_due = false;
	if (rc == 0)
		return;
	if (rc == -ENOTCONN || rc == -ENODEV || link->worker->started) {
		/* the server lacks memory or descriptors now, perhaps not for long */
		if (rc != -ENOTCONN && peer->dial.attempts == 1)
			ol_log_rated(&peer->said, now_ns, OL_LOG_WARN,
				     "server %s (shard %u): tried again: %s", peer->dial.addr,
				     link->index, ol_status_text(rc, text));
		ol_peer_retry(peer, now_ns);
	} else {
		end_note(peer, OL_PEER_FAILED, rc, NULL);
	}
}

static void accept_note(struct ol_peer *peer, const struct ol_wire_accept *accept)
{
	struct ol_link *link = peer->link;
	const uint64_t digest = link->geo.tensors_digest;

	link->geo = accept->geo;
	if (link->worker->started && accept->geo.tensors_digest == 0)
		link->geo.tensors_digest = digest; /* the server has yet to take its table */
	link->lr = accept->lr;
	link->nonfinite = accept->nonfinite != 0;
	peer->incarnation = accept->incarnation;
	if (peer != link->reader)
		return;
	link->init_known = true;
	link->init_said = accept->init;
	refusal_note(
		peer, OL_E_NO_SERVER,
		accept->init == OL_INIT_AWAITED
			? "it has no weights yet, and waits for the first ones of worker 0"
			: "it does not serve yet: it waits for other workers, or for its chain; "
			  "its log says more");
}

static void accept_take(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns)
{
	struct ol_wire_accept accept;
	char why[160];
	int rc = ol_dial_on_up(&peer->rail->dialer, &peer->dial, event, &accept);

	if (rc == -ENOTCONN) {
		ol_peer_retry(peer, now_ns);
		return;
	}
	if (rc != 0) {
		ol_peer_on_stranger(peer, rc, NULL, false, now_ns);
		return;
	}
	if (peer->member != 0 && accept.incarnation != peer->member) {
		/* another process than the view names */
		ol_peer_retry(peer, now_ns);
		return;
	}
	if (!geometry_agrees(peer, &accept.geo, now_ns))
		return;
	accept_note(peer, &accept);
	if (ol_init_fault(peer, why, sizeof(why)) != NULL)
		ol_peer_on_stranger(peer, OL_E_GEOMETRY, why, true, now_ns);
	else if (ol_init_waits(peer))
		peer->hello_due = true;
	else
		hello_say(peer, now_ns);
}

void ol_peer_tick(struct ol_peer *peer, uint64_t now_ns)
{
	const struct ol_worker *worker = peer->link->worker;

	/* no answer to a knock: try the next address, as the server may be there, or its network
	 * may be back */
	if (peer->dial.state == OL_DIAL_KNOCKING && worker->started &&
	    now_ns - peer->dial.since_ns >=
		    ol_probe_ms(worker->opts.retry_timeout_ms) * OL_NS_PER_MS) {
		ol_rail_on_attempt(peer, -ETIMEDOUT);
		ol_peer_retry(peer, now_ns);
	}
	if (peer->dial.state == OL_DIAL_IDLE && now_ns >= peer->dial.retry_ns)
		ol_peer_start(peer, now_ns);
	if (peer->hello_due && !ol_init_waits(peer))
		hello_say(peer, now_ns);
	ol_init_tell(peer, now_ns);
}

void ol_peer_on_up(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns)
{
	if (peer->dial.state == OL_DIAL_PROVING)
		accept_take(peer, event, now_ns);
	else /* a server of this job never accepts a knock */
		ol_peer_on_stranger(peer, OL_E_WIRE, NULL, false, now_ns);
}

bool ol_peer_on_down(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns)
{
	if (event->status == -EMFILE && !peer->link->worker->started) {
		end_note(peer, OL_PEER_FAILED, event->status, NULL);
		return true;
	}
	switch (peer->dial.state) {
	case OL_DIAL_KNOCKING:
	case OL_DIAL_PROVING:
		attempt_on_end(peer, event, now_ns);
		return true;
	case OL_DIAL_NONE:
	case OL_DIAL_IDLE:
		ol_peer_drop(peer);
		return true;
	case OL_DIAL_JOINING:
	case OL_DIAL_WELCOME:
	case OL_DIAL_LIVE:
		break;
	}
	return false;
}

static void watch_tick(struct ol_peer *peer, uint64_t now_ns)
{
	struct ol_worker *worker = peer->link->worker;
	struct ol_watch_with with = {
		.ops = worker->ops,
		.conn = peer->dial.conn,
		.region = peer->rail->work_region,
		.off = ol_worker_work_off(worker, (const void *)(uintptr_t)ol_worker_beat(peer)),
		.board = peer->dial.public_key,
		.cookie = ol_cookie_make(OL_COOKIE_BEAT, 0),
		.lease_ns = worker->opts.lease_ms * OL_NS_PER_MS,
	};

	switch (ol_watch_tick(&peer->dial.watch, &with, now_ns)) {
	case OL_WATCH_FINE:
	case OL_WATCH_DOUBT: /* a worker's watch has none */
		break;
	case OL_WATCH_SILENT:
		end_note(peer, OL_PEER_LOST, -ETIMEDOUT, NULL);
		break;
	case OL_WATCH_STILL:
		end_note(peer, OL_PEER_LOST, OL_E_FENCED, NULL);
		break;
	}
}

void ol_peer_watch(struct ol_peer *peer, uint64_t now_ns)
{
	if (peer->dial.state >= OL_DIAL_JOINING && ol_watch_is_due(&peer->dial.watch, now_ns))
		watch_tick(peer, now_ns);
}

void ol_peer_on_beat(struct ol_peer *peer, int status, uint64_t now_ns)
{
	ol_watch_on_beat(&peer->dial.watch, status, ol_word_load(ol_worker_beat(peer)), now_ns);
}

void ol_peer_probe(struct ol_peer *peer, uint64_t now_ns)
{
	struct ol_worker *worker = peer->link->worker;
	uint64_t word = 0;
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&word, .bytes = sizeof(word) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_SIGNALED,
		.dst = peer->dial.landing_key,
		.dst_off = OL_LANDING_PROBE_OFF,
		.cookie = ol_cookie_make(OL_COOKIE_PROBE, 0),
	};

	if (peer->heard_ns == 0)
		peer->heard_ns = now_ns;
	if (peer->dial.state != OL_DIAL_LIVE || peer->probing ||
	    now_ns - peer->heard_ns < ol_probe_ms(worker->opts.retry_timeout_ms) * OL_NS_PER_MS)
		return;
	peer->heard_ns = now_ns;
	peer->probing = worker->ops->post_write(peer->dial.conn, &write) == 0;
}
