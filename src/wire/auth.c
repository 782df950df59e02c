/* SPDX-License-Identifier: BSD-3-Clause */

/* auth.c -- HMAC-SHA256, by libcrypto, over the fields of each handshake message */

#include "wire/auth.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

enum {
	MAC_INPUT_MAX = 512
};

int ol_auth_random(void *bytes, size_t count)
{
	return getrandom(bytes, count, 0) == (ssize_t)count ? 0 : -EIO;
}

static int hmac(const void *key, size_t key_bytes, const void *bytes, size_t count,
		uint8_t mac[OL_MAC_BYTES])
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned digest_bytes = 0;

	memset(mac, 0, OL_MAC_BYTES);
	if (HMAC(EVP_sha256(), key, (int)key_bytes, bytes, count, digest, &digest_bytes) == NULL ||
	    digest_bytes < OL_MAC_BYTES)
		return -EIO;
	memcpy(mac, digest, OL_MAC_BYTES);
	return 0;
}

int ol_auth_mac(const char *key, const void *bytes, size_t count, uint8_t mac[OL_MAC_BYTES])
{
	return hmac(key, strlen(key), bytes, count, mac);
}

int ol_auth_cookie(const uint8_t secret[OL_SECRET_BYTES], const struct ol_wire_connect *msg,
		   uint64_t made_ns, uint8_t ret_m[OL_NONCE_BYTES])
{
	const uint32_t who[2] = { (uint32_t)msg->role, msg->worker };
	uint8_t input[OL_NONCE_BYTES + sizeof(made_ns) + sizeof(who)];

	static_assert((int)OL_NONCE_BYTES == (int)OL_MAC_BYTES, "a mac is as long as a nonce");
	memcpy(input, msg->nonce, OL_NONCE_BYTES);
	memcpy(input + OL_NONCE_BYTES, &made_ns, sizeof(made_ns));
	memcpy(input + OL_NONCE_BYTES + sizeof(made_ns), who, sizeof(who));
	return hmac(secret, OL_SECRET_BYTES, input, sizeof(input), ret_m);
}

int ol_auth_coord_mac(void *key, const void *bytes, size_t count, uint8_t mac[OL_MAC_BYTES])
{
	return ol_auth_mac(key, bytes, count, mac);
}

/* mac over label, both nonces and the message */
static int mac_make(const char *key, const char *label, const uint8_t *n, const uint8_t *m,
		    const void *msg, size_t msg_bytes, uint8_t ret_mac[OL_MAC_BYTES])
{
	uint8_t input[MAC_INPUT_MAX];
	size_t at = strlen(label) + 1;

	assert(at + 2 * OL_NONCE_BYTES + msg_bytes <= sizeof(input));
	memcpy(input, label, at);
	memcpy(input + at, n, OL_NONCE_BYTES);
	memcpy(input + at + OL_NONCE_BYTES, m, OL_NONCE_BYTES);
	at += 2 * OL_NONCE_BYTES;
	memcpy(input + at, msg, msg_bytes);
	at += msg_bytes;
	return ol_auth_mac(key, input, at, ret_mac);
}

static int challenge_mac(const char *key, const uint8_t *n, const struct ol_wire_reject *challenge,
			 uint8_t ret_mac[OL_MAC_BYTES])
{
	return mac_make(key, "server", n, challenge->nonce, &challenge->made_ns,
			sizeof(challenge->made_ns), ret_mac);
}

static int proof_mac(const char *key, const uint8_t *m, const struct ol_wire_connect *proof,
		     uint8_t ret_mac[OL_MAC_BYTES])
{
	struct ol_wire_connect clean = *proof;
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];

	memset(clean.mac, 0, sizeof(clean.mac));
	ol_wire_connect_encode(&clean, bytes);
	return mac_make(key, "worker", proof->nonce, m, bytes, sizeof(bytes), ret_mac);
}

static int accept_mac(const char *key, const uint8_t *n, const uint8_t *m,
		      const struct ol_wire_accept *accept, uint8_t ret_mac[OL_MAC_BYTES])
{
	struct ol_wire_accept clean = *accept;
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES];

	memset(clean.mac, 0, sizeof(clean.mac));
	ol_wire_accept_encode(&clean, bytes);
	return mac_make(key, "accept", n, m, bytes, sizeof(bytes), ret_mac);
}

void ol_auth_challenge(const char *key, const uint8_t n[OL_NONCE_BYTES],
		       struct ol_wire_reject *challenge)
{
	(void)challenge_mac(key, n, challenge, challenge->mac);
}

void ol_auth_proof(const char *key, const uint8_t m[OL_NONCE_BYTES], struct ol_wire_connect *proof)
{
	(void)proof_mac(key, m, proof, proof->mac);
}

void ol_auth_accept(const char *key, const uint8_t n[OL_NONCE_BYTES],
		    const uint8_t m[OL_NONCE_BYTES], struct ol_wire_accept *accept)
{
	(void)accept_mac(key, n, m, accept, accept->mac);
}

static bool mac_same(const uint8_t *a, const uint8_t *b)
{
	return CRYPTO_memcmp(a, b, OL_MAC_BYTES) == 0;
}

bool ol_auth_challenge_holds(const char *key, const uint8_t n[OL_NONCE_BYTES],
			     const struct ol_wire_reject *challenge)
{
	uint8_t mac[OL_MAC_BYTES];

	return challenge_mac(key, n, challenge, mac) == 0 && mac_same(mac, challenge->mac);
}

bool ol_auth_proof_holds(const char *key, const uint8_t m[OL_NONCE_BYTES],
			 const struct ol_wire_connect *proof)
{
	uint8_t mac[OL_MAC_BYTES];

	return proof_mac(key, m, proof, mac) == 0 && mac_same(mac, proof->mac);
}

bool ol_auth_accept_holds(const char *key, const uint8_t n[OL_NONCE_BYTES],
			  const uint8_t m[OL_NONCE_BYTES], const struct ol_wire_accept *accept)
{
	uint8_t mac[OL_MAC_BYTES];

	return accept_mac(key, n, m, accept, mac) == 0 && mac_same(mac, accept->mac);
}
