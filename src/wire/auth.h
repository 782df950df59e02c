/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * auth.h -- who a peer is: keys of roles, and proofs that hold for one connection
 *
 * KEYS. A job's key is its secret. From it come, by HKDF-SHA256 (RFC 5869), one key for its servers,
 * and from that one a key for each worker, one for all observers, one for predecessors in chains, one
 * for the views in the coordinator, and one for what each server process vouches for (wire/vouch.h):
 *
 *	job key -> servers' key -> worker N's, observers', predecessors', views', mirrors'
 *
 * Whoever is given only a worker's key can speak as that worker and as nobody else, and can find out
 * no other key. It travels as a credential, a text that takes the job key's place everywhere:
 *
 *	outlast-server:SERVERS-KEY   outlast-worker:N:KEY:VIEWS-KEY   outlast-observer:KEY:VIEWS-KEY
 *
 * with keys of 64 hexadecimal digits. The views' key is for the coordinator: it lets a holder read
 * there. Who has the servers' key may write (access lists of ZooKeeper; of a folder its mode).
 *
 * PROOFS are HMAC-SHA256 (RFC 2104) cut to 128 bits, under the key of the peer's role, over a label
 * and all fields of the messages. They keep strangers and other jobs out, and tell roles apart. They do
 * not encrypt: an attacker that can change packets after the handshake can change gradients.
 */
#ifndef OL_WIRE_AUTH_H
#define OL_WIRE_AUTH_H

#include <stdbool.h>

#include "wire/wire.h"

enum {
	OL_SECRET_BYTES = 32,
};

/*
 * ol_auth_holder -- whose key is it; ret_worker: of a worker its id, else OL_NOBODY. Functions below take
 * any such text as `key`. -EINVAL: it begins as a credential, and is none
 */
int ol_auth_holder(const char *key, enum ol_holder *ret_holder, uint32_t *ret_worker);

/* ol_auth_mac -- a mac under the servers' key. -EPERM: the key is another holder's. On failure the
 * mac is all 0, which no comparison accepts; -EIO: the crypto library fails */
int ol_auth_mac(const char *key, const void *bytes, size_t count, uint8_t mac[OL_MAC_BYTES]);

/* ol_auth_voucher_key -- what a server process, by its id, vouches for mirrors with (wire/vouch.h).
 * -EPERM: the key is of a worker or an observer */
int ol_auth_voucher_key(const char *key, uint64_t process, uint8_t ret_key[OL_SECRET_BYTES]);

/*
 * ol_auth_coord_mac, ol_auth_coord_owner_mac -- one under the views' key, which lets a holder read
 * views; and one under the servers' key, for those who write them. In the shape that
 * replication/coord/coord.h asks for; key: the text. -EPERM: it is of a worker or an observer
 */
int ol_auth_coord_mac(void *key, const void *bytes, size_t count, uint8_t mac[OL_MAC_BYTES]);
int ol_auth_coord_owner_mac(void *key, const void *bytes, size_t count, uint8_t mac[OL_MAC_BYTES]);

/*
 * ol_auth_cookie -- a server's nonce M for who says msg, from a secret of this process and the time
 * of the challenge: over N, role and worker of msg, and made_ns
 *
 * The secret makes the same nonce again, so a challenge need not be kept. -EIO: none was made
 */
int ol_auth_cookie(const uint8_t secret[OL_SECRET_BYTES], const struct ol_wire_connect *msg,
		   uint64_t made_ns, uint8_t ret_m[OL_NONCE_BYTES]);

/* ol_auth_random -- fill with unpredictable bytes; -EIO if the system has none */
int ol_auth_random(void *bytes, size_t count);

/* Both ends of a connection, OL_IDENT_BYTES each (struct ol_xport_ident) */
struct ol_auth_ends {
	const uint8_t *connecting;
	const uint8_t *accepting;
};

/*
 * The proofs, in the order of the handshake. key: see above, "" for none. m: the server's nonce; ident:
 * the connecting end as both ends see it (struct ol_xport_ident); ends: both of them. asked, proof:
 * what the peer said; its role and worker choose the key. Where the key may not speak so, or the
 * crypto library fails, the proof is all 0, which no peer accepts, and no check succeeds.
 */
void ol_auth_knock(const char *key, struct ol_wire_connect *knock);
void ol_auth_reject(const char *key, const struct ol_wire_connect *asked,
		    struct ol_wire_reject *reject); /* a challenge is one, too */
void ol_auth_proof(const char *key, const uint8_t m[OL_NONCE_BYTES],
		   const uint8_t ident[OL_IDENT_BYTES], struct ol_wire_connect *proof);
void ol_auth_accept(const char *key, const struct ol_wire_connect *proof,
		    const uint8_t m[OL_NONCE_BYTES], struct ol_auth_ends ends,
		    struct ol_wire_accept *accept);

bool ol_auth_knock_holds(const char *key, const struct ol_wire_connect *knock);
bool ol_auth_reject_holds(const char *key, const struct ol_wire_connect *asked,
			  const struct ol_wire_reject *reject);
bool ol_auth_proof_holds(const char *key, const uint8_t m[OL_NONCE_BYTES],
			 const uint8_t ident[OL_IDENT_BYTES], const struct ol_wire_connect *proof);
bool ol_auth_accept_holds(const char *key, const struct ol_wire_connect *proof,
			  const uint8_t m[OL_NONCE_BYTES], struct ol_auth_ends ends,
			  const struct ol_wire_accept *accept);

#endif /* OL_WIRE_AUTH_H */
