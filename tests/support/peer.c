/* SPDX-License-Identifier: BSD-3-Clause */

/* peer.c -- the handshake, and single writes and reads, without the library */

#include "support/peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"
#include "wire/auth.h"

enum {
	EVENTS_S = 100, /* alarm: no answer within this */
	READ_OFF = 2048
};

void peer_open(struct peer *peer, const char *key, enum ol_wire_role role, uint32_t worker)
{
	struct ol_xport_opts opts;

	memset(peer, 0, sizeof(*peer));
	peer->ops = ol_xport_find(job_transport());
	ol_xport_opts_init(&opts);
	check_ok(peer->ops->open(&opts, &peer->xport));
	check_ok(ol_slab_create(2 * OL_PAGE_BYTES, OL_SLAB_NODE_ANY, false, &peer->memory));
	check_ok(ol_auth_random(peer->hello.nonce, sizeof(peer->hello.nonce)));
	peer->key = key;
	peer->hello.role = role;
	peer->hello.worker = worker;
}

void peer_close(struct peer *peer)
{
	if (peer->conn != NULL)
		peer->ops->conn_free(peer->conn);
	if (peer->region != NULL)
		peer->ops->dereg(peer->region);
	peer->ops->close(peer->xport);
	ol_slab_destroy(peer->memory);
}

/* The next event of type; the alarm bounds the wait */
struct ol_xport_event peer_wait(struct peer *peer, enum ol_xport_event_type type, uint8_t *priv,
				size_t priv_bytes)
{
	struct ol_xport_event event;

	alarm(EVENTS_S);
	do {
		int count;

		do {
			count = peer->ops->poll(peer->xport, &event, 1);
			check(count >= 0);
		} while (count == 0);
	} while (event.type != type);
	alarm(0);
	memset(priv, 0, priv_bytes);
	if (event.priv_len > 0 && event.priv_len <= priv_bytes)
		memcpy(priv, event.priv, event.priv_len);
	return event;
}

/* The proof of the last challenge, for this connection */
static void prove(void *arg, const struct ol_xport_ident *ident, void *priv, uint32_t priv_len)
{
	struct peer *peer = arg;

	check_eq(priv_len, OL_WIRE_CONNECT_BYTES);
	ol_auth_proof(peer->key, peer->answer.nonce, ident->bytes, &peer->hello);
	ol_wire_connect_encode(&peer->hello, priv);
	peer->ident = *ident;
}

/* Connect with these bytes; the answer must be a reject with this code */
static void refused(struct peer *peer, const void *bytes, uint32_t count,
		    const struct ol_xport_seal *seal, const struct job *job,
		    enum ol_wire_reject_code want)
{
	uint8_t priv[256];
	struct ol_xport_event event;

	check_ok(peer->ops->connect(peer->xport, job->addrs, bytes, count, seal, &peer->conn));
	event = peer_wait(peer, OL_XPORT_CONN_DOWN, priv, sizeof(priv));
	check_eq(event.status, -ECONNREFUSED);
	check_ok(ol_wire_reject_decode(priv, sizeof(priv), &peer->answer));
	check_eq(peer->answer.code, want);
	peer->ops->conn_free(peer->conn);
	peer->conn = NULL;
}

void peer_refused(struct peer *peer, const void *bytes, uint32_t count, const struct job *job,
		  enum ol_wire_reject_code want)
{
	refused(peer, bytes, count, NULL, job, want);
}

void peer_say(struct peer *peer, const struct job *job, enum ol_wire_connect_kind kind,
	      enum ol_wire_reject_code want)
{
	const struct ol_xport_seal seal = { .make = prove, .arg = peer };
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];

	peer->hello.kind = kind;
	peer->hello.made_ns = kind == OL_CONNECT_PROOF ? peer->answer.made_ns : 0;
	if (kind == OL_CONNECT_KNOCK)
		ol_auth_knock(peer->key, &peer->hello);
	ol_wire_connect_encode(&peer->hello, bytes);
	refused(peer, bytes, sizeof(bytes), kind == OL_CONNECT_PROOF ? &seal : NULL, job, want);
}

/* An honest handshake, up to CONN_UP */
void peer_join(struct peer *peer, const struct job *job)
{
	struct ol_xport_ident acceptor;
	const struct ol_xport_seal seal = { .make = prove, .arg = peer };
	uint8_t bytes[OL_WIRE_CONNECT_BYTES], priv[256];

	peer_say(peer, job, OL_CONNECT_KNOCK, OL_REJECT_CHALLENGE);
	check(ol_auth_reject_holds(peer->key, &peer->hello, &peer->answer));
	peer->hello.kind = OL_CONNECT_PROOF;
	peer->hello.made_ns = peer->answer.made_ns;
	ol_wire_connect_encode(&peer->hello, bytes);
	check_ok(peer->ops->connect(peer->xport, job->addrs, bytes, sizeof(bytes), &seal,
				    &peer->conn));
	peer_wait(peer, OL_XPORT_CONN_UP, priv, sizeof(priv));
	check_ok(ol_wire_accept_decode(priv, sizeof(priv), &peer->accept));
	check_ok(peer->ops->acceptor(peer->conn, &acceptor));
	check(ol_auth_accept_holds(peer->key, &peer->hello, peer->answer.nonce,
				   (struct ol_auth_ends){ peer->ident.bytes, acceptor.bytes },
				   &peer->accept));
	peer->landing = (struct ol_xport_rkey){ .addr = peer->accept.landing_key.addr,
						.bytes = peer->accept.landing_key.bytes,
						.rkey = peer->accept.landing_key.rkey };
	peer->public_key = (struct ol_xport_rkey){ .addr = peer->accept.public_key.addr,
						   .bytes = peer->accept.public_key.bytes,
						   .rkey = peer->accept.public_key.rkey };
}

void peer_write(struct peer *peer, const void *bytes, uint32_t count, uint64_t off, uint32_t imm)
{
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)bytes, .bytes = count } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = imm,
		.dst = peer->landing,
		.dst_off = off,
	};

	check_ok(peer->ops->post_write(peer->conn, &write));
}

struct ol_hello peer_hello(struct peer *peer)
{
	struct ol_hello hello = { .magic = OL_WIRE_MAGIC };
	struct ol_xport_rkey acks;

	check_ok(peer->ops->reg(peer->xport, peer->conn, peer->memory, 0, OL_ACKS_BYTES,
				OL_XPORT_ACCESS_PEER_WRITE, &peer->region));
	acks = peer->ops->rkey(peer->region, peer->conn);
	hello.acks.addr = acks.addr;
	hello.acks.bytes = acks.bytes;
	hello.acks.rkey = acks.rkey;
	ol_record_seal(&hello);
	return hello;
}

struct ol_welcome peer_welcome(struct peer *peer)
{
	struct ol_welcome welcome;
	uint8_t priv[8];

	check_eq(peer_wait(peer, OL_XPORT_DOORBELL_RUNG, priv, sizeof(priv)).imm,
		 ol_bell_make(OL_BELL_WELCOME, 0));
	memcpy(&welcome, (const uint8_t *)peer->memory->addr + OL_WELCOME_OFF, sizeof(welcome));
	check(ol_record_whole(&welcome));
	return welcome;
}

const void *peer_read(struct peer *peer, uint64_t off, uint32_t count)
{
	struct ol_xport_read read = {
		.segs = { { .region = peer->region, .off = READ_OFF, .bytes = count } },
		.seg_count = 1,
		.flags = OL_XPORT_SIGNALED,
		.src = peer->public_key,
		.src_off = off,
	};
	uint8_t priv[8];

	check(count <= OL_PAGE_BYTES - READ_OFF);
	check_ok(peer->ops->post_read(peer->conn, &read));
	check_eq(peer_wait(peer, OL_XPORT_DONE, priv, sizeof(priv)).status, 0);
	return (const uint8_t *)peer->memory->addr + READ_OFF;
}

void peer_observe(struct peer *peer, const struct job *job)
{
	struct ol_hello hello;

	peer_open(peer, "", OL_ROLE_OBSERVER, 0);
	peer_join(peer, job);
	hello = peer_hello(peer);
	peer_write(peer, &hello, sizeof(hello), OL_HELLO_OFF, ol_bell_make(OL_BELL_HELLO, 0));
	peer_welcome(peer);
}

void peer_pin(struct peer *peer, uint64_t version_plus_1)
{
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&version_plus_1, .bytes = sizeof(version_plus_1) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | (version_plus_1 != 0 ? OL_XPORT_DOORBELL : 0),
		.imm = ol_bell_make(OL_BELL_PIN, 0),
		.dst = peer->landing,
		.dst_off = OL_PIN_OFF,
	};

	check_ok(peer->ops->post_write(peer->conn, &write));
	(void)peer_read(peer, OL_BOARD_LINE_OFF, sizeof(struct ol_version_line));
}
