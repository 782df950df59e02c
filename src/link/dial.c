/* SPDX-License-Identifier: BSD-3-Clause */

/* dial.c -- knock, prove, say hello; drop, and come back */

#include "link/dial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "outlast.h"
#include "wire/auth.h"

void ol_dial_log(void *arg, enum ol_xport_log_level level, const char *text)
{
	enum ol_log_level as = OL_LOG_DEBUG; /* of use only when a fault is searched */

	(void)arg;
	if (level == OL_XPORT_LOG_ERROR || level == OL_XPORT_LOG_WARN)
		as = level == OL_XPORT_LOG_ERROR ? OL_LOG_ERROR : OL_LOG_WARN;
	ol_log(as, "%s", text);
}

void ol_inbox_forget(struct ol_inbox *inbox, const struct ol_xport_conn *conn)
{
	ol_xport_forget(inbox->events, inbox->left, conn);
}

struct ol_wire_rkey ol_dial_wire_rkey(struct ol_xport_rkey key)
{
	return (struct ol_wire_rkey){ .addr = key.addr, .bytes = key.bytes, .rkey = key.rkey };
}

struct ol_xport_rkey ol_dial_xport_rkey(struct ol_wire_rkey key)
{
	return (struct ol_xport_rkey){ .addr = key.addr, .bytes = key.bytes, .rkey = key.rkey };
}

/* Said dial->said, on a connection that both ends see alike. A seal: see struct ol_xport_seal */
static void proof_seal(void *arg, const struct ol_xport_ident *ident, void *priv, uint32_t priv_len)
{
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];
	struct ol_dial *dial = arg;

	static_assert(sizeof(ident->bytes) == OL_IDENT_BYTES, "proofs hold all of it");
	dial->ident = *ident;
	ol_auth_proof(dial->job_key, dial->m, ident->bytes, &dial->said);
	ol_wire_connect_encode(&dial->said, bytes);
	memcpy(priv, bytes, priv_len < sizeof(bytes) ? priv_len : sizeof(bytes));
}

static int attempt_begin(const struct ol_dialer *dialer, struct ol_dial *dial, uint64_t now_ns)
{
	const struct ol_wire_connect *msg = &dial->said;
	const struct ol_xport_seal seal = { .make = proof_seal, .arg = dial };
	const bool proves = msg->kind == OL_CONNECT_PROOF;
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];
	int rc;

	ol_wire_connect_encode(msg, bytes);
	rc = dialer->ops->connect(dialer->xport, dial->addr, bytes, sizeof(bytes),
				  proves ? &seal : NULL, &dial->conn);
	if (rc != 0) {
		dial->conn = NULL;
		return rc;
	}
	dial->since_ns = now_ns;
	dial->state = proves ? OL_DIAL_PROVING : OL_DIAL_KNOCKING;
	return 0;
}

int ol_dial_knock(const struct ol_dialer *dialer, struct ol_dial *to, const char *addr,
		  const struct ol_wire_connect *msg, uint64_t now_ns)
{
	to->said = *msg;
	to->said.kind = OL_CONNECT_KNOCK;
	if (ol_auth_random(to->said.nonce, sizeof(to->said.nonce)) != 0)
		return -EIO;
	ol_auth_knock(dialer->job_key, &to->said);
	snprintf(to->addr, sizeof(to->addr), "%s", addr);
	to->attempts++;
	to->since_ns = now_ns;
	return attempt_begin(dialer, to, now_ns);
}

int ol_dial_prove(const struct ol_dialer *dialer, struct ol_dial *to,
		  const struct ol_wire_connect *msg, uint64_t now_ns)
{
	struct ol_wire_connect proof = *msg;

	proof.kind = OL_CONNECT_PROOF;
	proof.made_ns = to->made_ns;
	memcpy(proof.nonce, to->said.nonce, sizeof(proof.nonce));
	to->said = proof;
	to->job_key = dialer->job_key;
	return attempt_begin(dialer, to, now_ns);
}

enum ol_dial_end ol_dial_on_end(const struct ol_dialer *dialer, struct ol_dial *dial,
				const struct ol_xport_event *event,
				struct ol_wire_reject *ret_reject)
{
	if (event->status == -EUSERS) {
		ol_dial_drop(dialer, dial);
		return OL_DIAL_FULL;
	}
	if (event->status != -ECONNREFUSED ||
	    ol_wire_reject_decode(event->priv, event->priv_len, ret_reject) != 0)
		return OL_DIAL_BROKE;
	ol_dial_drop(dialer, dial);
	dial->proved = ol_auth_reject_holds(dialer->job_key, &dial->said, ret_reject);
	if (dial->state == OL_DIAL_KNOCKING && !dial->proved &&
	    (ret_reject->code == OL_REJECT_CHALLENGE || ret_reject->code == OL_REJECT_AUTH))
		return OL_DIAL_FORGED;
	if (dial->state != OL_DIAL_KNOCKING || ret_reject->code != OL_REJECT_CHALLENGE)
		return OL_DIAL_REFUSED;
	memcpy(dial->m, ret_reject->nonce, sizeof(dial->m));
	dial->made_ns = ret_reject->made_ns;
	return OL_DIAL_CHALLENGED;
}

bool ol_dial_is_vacant(const struct ol_xport_event *event)
{
	return event->status == -ECONNREFUSED && event->priv_len == 0;
}

int ol_dial_on_up(const struct ol_dialer *dialer, struct ol_dial *dial,
		  const struct ol_xport_event *event, struct ol_wire_accept *ret_accept)
{
	int rc = ol_wire_accept_decode(event->priv, event->priv_len, ret_accept);
	struct ol_xport_ident acceptor;

	if (rc != 0)
		return rc;
	if (dialer->ops->acceptor(dial->conn, &acceptor) != 0)
		return -ENOTCONN; /* it has ended, as an event will say */
	if (!ol_auth_accept_holds(dialer->job_key, &dial->said, dial->m,
				  (struct ol_auth_ends){ dial->ident.bytes, acceptor.bytes },
				  ret_accept))
		return OL_E_AUTH;
	dial->features = ret_accept->features;
	dial->public_key = ol_dial_xport_rkey(ret_accept->public_key);
	dial->landing_key = ol_dial_xport_rkey(ret_accept->landing_key);
	return 0;
}

int ol_dial_memory(const struct ol_dialer *dialer, struct ol_dial *dial, int node)
{
	int rc = ol_slab_create(OL_ACKS_BYTES, node, false, &dial->acks);

	if (rc != 0)
		return rc;
	return dialer->ops->reg(dialer->xport, dial->conn, dial->acks, 0, OL_ACKS_BYTES,
				OL_XPORT_ACCESS_PEER_WRITE, &dial->acks_region);
}

int ol_dial_hello(const struct ol_dialer *dialer, struct ol_dial *dial, const void *hello,
		  uint32_t bytes)
{
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)hello, .bytes = bytes } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_HELLO, 0),
		.dst = dial->landing_key,
		.dst_off = OL_HELLO_OFF,
	};
	int rc = dialer->ops->post_write(dial->conn, &write);

	if (rc == 0 && dial->state != OL_DIAL_LIVE)
		dial->state = OL_DIAL_JOINING;
	return rc;
}

void ol_dial_drop(const struct ol_dialer *dialer, struct ol_dial *dial)
{
	if (dial->conn != NULL) {
		ol_inbox_forget(dialer->inbox, dial->conn);
		dialer->ops->conn_free(dial->conn);
	}
	dial->conn = NULL;
	if (dial->acks_region != NULL)
		dialer->ops->dereg(dial->acks_region);
	dial->acks_region = NULL;
	ol_slab_destroy(dial->acks);
	dial->acks = NULL;
	dial->watch = (struct ol_watch){ 0 };
}

/* ns, shortened by up to a half: different for every peer and attempt */
static uint64_t backoff_jitter(const struct ol_dialer *dialer, const struct ol_dial *dial,
			       uint64_t ns)
{
	uint32_t mix = dialer->salt * 2654435761u ^ dial->attempts * 40503u;

	return ns - ns / 2 * (mix >> 8 & 0xff) / 0xff;
}

void ol_dial_retry(const struct ol_dialer *dialer, struct ol_dial *dial, uint64_t now_ns)
{
	uint64_t most_ns = dialer->retry_max_ms * OL_NS_PER_MS;

	ol_dial_drop(dialer, dial);
	dial->state = OL_DIAL_IDLE;
	dial->backoff_ns =
		dial->backoff_ns == 0 ? dialer->retry_min_ms * OL_NS_PER_MS : dial->backoff_ns * 2;
	if (dial->backoff_ns > most_ns)
		dial->backoff_ns = most_ns;
	dial->retry_ns = now_ns + backoff_jitter(dialer, dial, dial->backoff_ns);
}

/* 0.75 to 1.5 times the delay: peers that were refused together do not return together. */
void ol_dial_retry_after(const struct ol_dialer *dialer, struct ol_dial *dial, uint32_t delay_ms,
			 uint64_t now_ns)
{
	ol_dial_drop(dialer, dial);
	dial->state = OL_DIAL_IDLE;
	dial->backoff_ns = delay_ms * OL_NS_PER_MS;
	dial->retry_ns =
		now_ns + backoff_jitter(dialer, dial, dial->backoff_ns + dial->backoff_ns / 2);
}

void ol_dial_set_live(struct ol_dial *dial)
{
	dial->state = OL_DIAL_LIVE;
	dial->attempts = 0;
}
