/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * peer.h -- one connection to a server without the library: for tests that lie, or read memory
 */
#ifndef OL_TESTS_SUPPORT_PEER_H
#define OL_TESTS_SUPPORT_PEER_H

#include "rdma/transport.h"
#include "support/job.h"
#include "wire/wire.h"

struct peer {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_xport_conn *conn;
	const char *key; /* job key */
	struct ol_wire_connect hello; /* nonce and proof of the last handshake */
	struct ol_xport_ident ident; /* that the proof is for */
	struct ol_wire_reject answer; /* to the last attempt that was refused */
	struct ol_wire_accept accept;
	struct ol_xport_rkey landing;
	struct ol_xport_rkey public_key;
	struct ol_slab *memory; /* of our own: acks at its start */
	struct ol_xport_region *region;
};

void peer_open(struct peer *peer, const char *key, enum ol_wire_role role, uint32_t worker);
void peer_close(struct peer *peer);

/* peer_wait -- the next event of type, its private data copied; fails after 20 s */
struct ol_xport_event peer_wait(struct peer *peer, enum ol_xport_event_type type, uint8_t *priv,
				size_t priv_bytes);

/* peer_refused -- connect with these bytes; fails unless the answer is a reject with this code */
void peer_refused(struct peer *peer, const void *bytes, uint32_t count, const struct job *job,
		  enum ol_wire_reject_code want);

/* peer_say -- a knock or a proof of the last challenge, to be answered with this code */
void peer_say(struct peer *peer, const struct job *job, enum ol_wire_connect_kind kind,
	      enum ol_wire_reject_code want);

/* peer_join -- an honest handshake, up to CONN_UP; the hello is peer_hello()'s, to be written */
void peer_join(struct peer *peer, const struct job *job);
struct ol_hello peer_hello(struct peer *peer);

/* peer_welcome -- wait for the server's answer to the hello */
struct ol_welcome peer_welcome(struct peer *peer);

/* peer_write -- up to inline_max bytes at off of the landing region, with a bell */
void peer_write(struct peer *peer, const void *bytes, uint32_t count, uint64_t off, uint32_t imm);

/* peer_read -- bytes at off of the public region, into the peer's page at 2048; waits */
const void *peer_read(struct peer *peer, uint64_t off, uint32_t count);
/* peer_observe -- open an observer, and come in */
void peer_observe(struct peer *peer, const struct job *job);
/* peer_pin -- an observer pins this version (0: none any more); it is there when this returns */
void peer_pin(struct peer *peer, uint64_t version_plus_1);

#endif /* OL_TESTS_SUPPORT_PEER_H */
