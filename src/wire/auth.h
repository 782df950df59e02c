/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * auth.h -- proof that a peer knows the job key, bound to this connection attempt
 *
 * HMAC-SHA256 (RFC 2104) cut to 128 bits, over a label and all fields of the message. It keeps
 * strangers and other jobs out. It does not encrypt: an attacker that can change packets after the
 * handshake can change gradients.
 */
#ifndef OL_WIRE_AUTH_H
#define OL_WIRE_AUTH_H

#include <stdbool.h>

#include "wire/wire.h"

enum {
	OL_SECRET_BYTES = 32
};

/*
 * ol_auth_mac -- HMAC-SHA256 of bytes under the job key, cut to 128 bits
 *
 * -EIO if the crypto library fails; mac is then all 0, which no comparison accepts.
 */
int ol_auth_mac(const char *key, const void *bytes, size_t count, uint8_t mac[OL_MAC_BYTES]);

/* ol_auth_coord_mac -- the same, in the shape that replication/coord/coord.h asks for; key: the
 * text */
int ol_auth_coord_mac(void *key, const void *bytes, size_t count, uint8_t mac[OL_MAC_BYTES]);

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

/*
 * The three proofs. key: the job key, "" for none. n: worker's nonce, m: server's. If the crypto
 * library fails, the proof is all 0, which no peer accepts, and no check succeeds.
 */
void ol_auth_challenge(const char *key, const uint8_t n[OL_NONCE_BYTES],
		       struct ol_wire_reject *challenge);
void ol_auth_proof(const char *key, const uint8_t m[OL_NONCE_BYTES], struct ol_wire_connect *proof);
void ol_auth_accept(const char *key, const uint8_t n[OL_NONCE_BYTES],
		    const uint8_t m[OL_NONCE_BYTES], struct ol_wire_accept *accept);

bool ol_auth_challenge_holds(const char *key, const uint8_t n[OL_NONCE_BYTES],
			     const struct ol_wire_reject *challenge);
bool ol_auth_proof_holds(const char *key, const uint8_t m[OL_NONCE_BYTES],
			 const struct ol_wire_connect *proof);
bool ol_auth_accept_holds(const char *key, const uint8_t n[OL_NONCE_BYTES],
			  const uint8_t m[OL_NONCE_BYTES], const struct ol_wire_accept *accept);

#endif /* OL_WIRE_AUTH_H */
