/* SPDX-License-Identifier: BSD-3-Clause */

/* auth.c -- HKDF and HMAC-SHA256, by libcrypto, over the fields of each handshake message */

#include "wire/auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>

enum {
	KEY_BYTES = 32,
	KEY_CHARS = 2 * KEY_BYTES,
	MAC_INPUT_MAX = 512,
};

static const char server_text[] = "outlast-server:";
static const char worker_text[] = "outlast-worker:";
static const char observer_text[] = "outlast-observer:";

/* What a key's text holds */
struct keys {
	enum ol_holder holder;
	uint32_t worker;
	uint8_t own[KEY_BYTES]; /* the servers', or the holder's */
	uint8_t views[KEY_BYTES]; /* of a worker's or an observer's */
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

/* A key out of another, for one purpose; the info says which */
static int derive(const void *from, size_t bytes, const char *info, uint8_t ret_key[KEY_BYTES])
{
	static char digest[] = "SHA256";
	static const uint8_t salt[] = "outlast handshake 2";
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)salt,
						  sizeof(salt)),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)from,
						  bytes),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)info,
						  strlen(info)),
		OSSL_PARAM_construct_end(),
	};
	const int rc =
		ctx != NULL && EVP_KDF_derive(ctx, ret_key, KEY_BYTES, params) == 1 ? 0 : -EIO;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return rc;
}

/* A key at *at, and what follows it; false: there is none */
static bool hex_take(const char **at, char end, uint8_t ret_key[KEY_BYTES])
{
	for (unsigned i = 0; i < KEY_BYTES; i++) {
		char digits[3] = { (*at)[0], (*at)[0] != '\0' ? (*at)[1] : '\0', '\0' };

		if (strspn(digits, "0123456789abcdef") != 2)
			return false;
		ret_key[i] = (uint8_t)strtoul(digits, NULL, 16);
		*at += 2;
	}
	if (**at != end)
		return false;
	*at += end != '\0';
	return true;
}

static bool begins(const char *text, const char *with, const char **ret_rest)
{
	*ret_rest = text + strlen(with);
	return strncmp(text, with, strlen(with)) == 0;
}

static int worker_take(const char *at, struct keys *keys)
{
	char *end;
	unsigned long worker;

	if (*at < '0' || *at > '9')
		return -EINVAL;
	worker = strtoul(at, &end, 10);
	if (*end != ':' || worker >= OL_NOBODY)
		return -EINVAL;
	at = end + 1;
	keys->holder = OL_HOLDER_WORKER;
	keys->worker = (uint32_t)worker;
	return hex_take(&at, ':', keys->own) && hex_take(&at, '\0', keys->views) ? 0 : -EINVAL;
}

static int keys_take(const char *text, struct keys *keys)
{
	const char *rest;

	*keys = (struct keys){ .holder = OL_HOLDER_JOB, .worker = OL_NOBODY };
	if (begins(text, server_text, &rest))
		return hex_take(&rest, '\0', keys->own) ? 0 : -EINVAL;
	if (begins(text, worker_text, &rest))
		return worker_take(rest, keys);
	if (begins(text, observer_text, &rest)) {
		keys->holder = OL_HOLDER_OBSERVER;
		return hex_take(&rest, ':', keys->own) && hex_take(&rest, '\0', keys->views)
			       ? 0
			       : -EINVAL;
	}
	return derive(text, strlen(text), "servers", keys->own);
}

int ol_auth_holder(const char *key, enum ol_holder *ret_holder, uint32_t *ret_worker)
{
	struct keys keys;
	const int rc = keys_take(key, &keys);

	*ret_holder = keys.holder;
	*ret_worker = keys.worker;
	OPENSSL_cleanse(&keys, sizeof(keys));
	return rc;
}

/* The key of one purpose: derived, or the holder's own. purpose NULL: the holder's own alone */
static int purpose_key(const struct keys *keys, const char *purpose, uint8_t ret_key[KEY_BYTES])
{
	if (keys->holder == OL_HOLDER_JOB && purpose != NULL)
		return derive(keys->own, KEY_BYTES, purpose, ret_key);
	memcpy(ret_key, keys->own, KEY_BYTES);
	return 0;
}

static int views_key(const struct keys *keys, uint8_t ret_key[KEY_BYTES])
{
	if (keys->holder == OL_HOLDER_JOB)
		return derive(keys->own, KEY_BYTES, "views", ret_key);
	memcpy(ret_key, keys->views, KEY_BYTES);
	return 0;
}

static int worker_key(const struct keys *keys, uint32_t worker, uint8_t ret_key[KEY_BYTES])
{
	char purpose[24];

	snprintf(purpose, sizeof(purpose), "worker %u", worker);
	return purpose_key(keys, purpose, ret_key);
}

/* The key under which a peer of this role speaks; -EPERM: the holder may not */
static int role_key(const char *text, enum ol_wire_role role, uint32_t worker,
		    uint8_t ret_key[KEY_BYTES])
{
	struct keys keys;
	int rc = keys_take(text, &keys);

	if (rc == 0 && role == OL_ROLE_REPLICA)
		rc = keys.holder == OL_HOLDER_JOB ? purpose_key(&keys, "predecessor", ret_key)
						  : -EPERM;
	else if (rc == 0 && role == OL_ROLE_OBSERVER && worker == OL_NOBODY)
		rc = keys.holder != OL_HOLDER_WORKER ? purpose_key(&keys, "observer", ret_key)
						     : -EPERM;
	else if (rc == 0)
		rc = keys.holder == OL_HOLDER_JOB ||
				     (keys.holder == OL_HOLDER_WORKER && keys.worker == worker)
			     ? worker_key(&keys, worker, ret_key)
			     : -EPERM;
	OPENSSL_cleanse(&keys, sizeof(keys));
	return rc;
}

static void hex_put(const uint8_t key[KEY_BYTES], char ret_text[KEY_CHARS + 1])
{
	for (unsigned i = 0; i < KEY_BYTES; i++)
		snprintf(ret_text + 2 * (size_t)i, 3, "%02x", key[i]);
}

int ol_credential(const char *key, enum ol_holder holder, uint32_t worker,
		  char ret_text[OL_CREDENTIAL_MAX])
{
	char own_text[KEY_CHARS + 1], views_text[KEY_CHARS + 1];
	uint8_t own[KEY_BYTES] = { 0 }, views[KEY_BYTES] = { 0 };
	struct keys keys;
	int rc = worker != OL_NOBODY && key[0] != '\0' ? keys_take(key, &keys) : -EINVAL;

	ret_text[0] = '\0';
	if (rc == 0 && keys.holder != OL_HOLDER_JOB)
		rc = -EPERM;
	if (rc == 0)
		rc = views_key(&keys, views);
	if (rc == 0 && holder == OL_HOLDER_WORKER)
		rc = worker_key(&keys, worker, own);
	else if (rc == 0)
		rc = purpose_key(&keys, holder == OL_HOLDER_OBSERVER ? "observer" : NULL, own);
	if (rc == 0) {
		hex_put(own, own_text);
		hex_put(views, views_text);
		if (holder == OL_HOLDER_JOB)
			snprintf(ret_text, OL_CREDENTIAL_MAX, "%s%s", server_text, own_text);
		else if (holder == OL_HOLDER_WORKER)
			snprintf(ret_text, OL_CREDENTIAL_MAX, "%s%u:%s:%s", worker_text, worker,
				 own_text, views_text);
		else
			snprintf(ret_text, OL_CREDENTIAL_MAX, "%s%s:%s", observer_text, own_text,
				 views_text);
	}
	OPENSSL_cleanse(&keys, sizeof(keys));
	OPENSSL_cleanse(own, sizeof(own));
	OPENSSL_cleanse(views, sizeof(views));
	OPENSSL_cleanse(own_text, sizeof(own_text));
	OPENSSL_cleanse(views_text, sizeof(views_text));
	return rc;
}

int ol_auth_mac(const char *key, const void *bytes, size_t count, uint8_t mac[OL_MAC_BYTES])
{
	struct keys keys;
	int rc = keys_take(key, &keys);

	memset(mac, 0, OL_MAC_BYTES);
	if (rc == 0 && keys.holder != OL_HOLDER_JOB)
		rc = -EPERM;
	if (rc == 0)
		rc = hmac(keys.own, KEY_BYTES, bytes, count, mac);
	OPENSSL_cleanse(&keys, sizeof(keys));
	return rc;
}

int ol_auth_voucher_key(const char *key, uint64_t process, uint8_t ret_key[OL_SECRET_BYTES])
{
	char purpose[32];
	struct keys keys;
	int rc = keys_take(key, &keys);

	static_assert((int)OL_SECRET_BYTES == (int)KEY_BYTES, "a derived key is a secret");
	snprintf(purpose, sizeof(purpose), "mirrors %016llx", (unsigned long long)process);
	if (rc == 0)
		rc = keys.holder == OL_HOLDER_JOB ? purpose_key(&keys, purpose, ret_key) : -EPERM;
	OPENSSL_cleanse(&keys, sizeof(keys));
	return rc;
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
	uint8_t views[KEY_BYTES];
	struct keys keys;
	int rc = keys_take(key, &keys);

	memset(mac, 0, OL_MAC_BYTES);
	if (rc == 0)
		rc = views_key(&keys, views);
	if (rc == 0)
		rc = hmac(views, KEY_BYTES, bytes, count, mac);
	OPENSSL_cleanse(&keys, sizeof(keys));
	OPENSSL_cleanse(views, sizeof(views));
	return rc;
}

int ol_auth_coord_owner_mac(void *key, const void *bytes, size_t count, uint8_t mac[OL_MAC_BYTES])
{
	return ol_auth_mac(key, bytes, count, mac);
}

/* What a mac is over */
struct input {
	uint8_t bytes[MAC_INPUT_MAX];
	size_t count;
};

static void input_add(struct input *input, const void *bytes, size_t count)
{
	assert(input->count + count <= sizeof(input->bytes));
	memcpy(input->bytes + input->count, bytes, count);
	input->count += count;
}

/* A label, and what the peer asked, without its mac */
static void input_begin(struct input *input, const char *label, const struct ol_wire_connect *asked)
{
	struct ol_wire_connect clean = *asked;
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];

	memset(clean.mac, 0, sizeof(clean.mac));
	ol_wire_connect_encode(&clean, bytes);
	input->count = 0;
	input_add(input, label, strlen(label) + 1);
	input_add(input, bytes, sizeof(bytes));
}

static int input_mac(const char *key, const struct input *input,
		     const struct ol_wire_connect *asked, uint8_t ret_mac[OL_MAC_BYTES])
{
	uint8_t own[KEY_BYTES] = { 0 };
	int rc = role_key(key, asked->role, asked->worker, own);

	memset(ret_mac, 0, OL_MAC_BYTES);
	if (rc == 0)
		rc = hmac(own, KEY_BYTES, input->bytes, input->count, ret_mac);
	OPENSSL_cleanse(own, sizeof(own));
	return rc;
}

static int knock_mac(const char *key, const struct ol_wire_connect *knock,
		     uint8_t ret_mac[OL_MAC_BYTES])
{
	struct input input;

	input_begin(&input, "knock", knock);
	return input_mac(key, &input, knock, ret_mac);
}

static int reject_mac(const char *key, const struct ol_wire_connect *asked,
		      const struct ol_wire_reject *reject, uint8_t ret_mac[OL_MAC_BYTES])
{
	struct ol_wire_reject clean = *reject;
	uint8_t bytes[OL_WIRE_REJECT_BYTES];
	struct input input;

	memset(clean.mac, 0, sizeof(clean.mac));
	ol_wire_reject_encode(&clean, bytes);
	input_begin(&input, "reject", asked);
	input_add(&input, bytes, sizeof(bytes));
	return input_mac(key, &input, asked, ret_mac);
}

static int proof_mac(const char *key, const uint8_t *m, const uint8_t *ident,
		     const struct ol_wire_connect *proof, uint8_t ret_mac[OL_MAC_BYTES])
{
	struct input input;

	input_begin(&input, "proof", proof);
	input_add(&input, m, OL_NONCE_BYTES);
	input_add(&input, ident, OL_IDENT_BYTES);
	return input_mac(key, &input, proof, ret_mac);
}

static int accept_mac(const char *key, const struct ol_wire_connect *proof, const uint8_t *m,
		      struct ol_auth_ends ends, const struct ol_wire_accept *accept,
		      uint8_t ret_mac[OL_MAC_BYTES])
{
	struct ol_wire_accept clean = *accept;
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES];
	struct input input;

	memset(clean.mac, 0, sizeof(clean.mac));
	ol_wire_accept_encode(&clean, bytes);
	input_begin(&input, "accept", proof);
	input_add(&input, m, OL_NONCE_BYTES);
	input_add(&input, ends.connecting, OL_IDENT_BYTES);
	input_add(&input, ends.accepting, OL_IDENT_BYTES);
	input_add(&input, bytes, sizeof(bytes));
	return input_mac(key, &input, proof, ret_mac);
}

void ol_auth_knock(const char *key, struct ol_wire_connect *knock)
{
	(void)knock_mac(key, knock, knock->mac);
}

void ol_auth_reject(const char *key, const struct ol_wire_connect *asked,
		    struct ol_wire_reject *reject)
{
	(void)reject_mac(key, asked, reject, reject->mac);
}

void ol_auth_proof(const char *key, const uint8_t m[OL_NONCE_BYTES],
		   const uint8_t ident[OL_IDENT_BYTES], struct ol_wire_connect *proof)
{
	(void)proof_mac(key, m, ident, proof, proof->mac);
}

void ol_auth_accept(const char *key, const struct ol_wire_connect *proof,
		    const uint8_t m[OL_NONCE_BYTES], struct ol_auth_ends ends,
		    struct ol_wire_accept *accept)
{
	(void)accept_mac(key, proof, m, ends, accept, accept->mac);
}

static bool mac_same(const uint8_t *a, const uint8_t *b)
{
	return CRYPTO_memcmp(a, b, OL_MAC_BYTES) == 0;
}

bool ol_auth_knock_holds(const char *key, const struct ol_wire_connect *knock)
{
	uint8_t mac[OL_MAC_BYTES];

	return knock_mac(key, knock, mac) == 0 && mac_same(mac, knock->mac);
}

bool ol_auth_reject_holds(const char *key, const struct ol_wire_connect *asked,
			  const struct ol_wire_reject *reject)
{
	uint8_t mac[OL_MAC_BYTES];

	return reject_mac(key, asked, reject, mac) == 0 && mac_same(mac, reject->mac);
}

bool ol_auth_proof_holds(const char *key, const uint8_t m[OL_NONCE_BYTES],
			 const uint8_t ident[OL_IDENT_BYTES], const struct ol_wire_connect *proof)
{
	uint8_t mac[OL_MAC_BYTES];

	return proof_mac(key, m, ident, proof, mac) == 0 && mac_same(mac, proof->mac);
}

bool ol_auth_accept_holds(const char *key, const struct ol_wire_connect *proof,
			  const uint8_t m[OL_NONCE_BYTES], struct ol_auth_ends ends,
			  const struct ol_wire_accept *accept)
{
	uint8_t mac[OL_MAC_BYTES];

	return accept_mac(key, proof, m, ends, accept, mac) == 0 && mac_same(mac, accept->mac);
}
