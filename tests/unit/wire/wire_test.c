/* SPDX-License-Identifier: BSD-3-Clause */

/* wire_test.c -- the handshake survives its trip to bytes and back; anything else is refused, and
 * a proof holds for one key, one pair of nonces and one message only */

#include <dlfcn.h>
#include <errno.h>
#include <openssl/hmac.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <isa-l/crc.h>

#include "wire/auth.h"
#include "wire/wire.h"

static struct ol_wire_accept sample_accept(void)
{
	struct ol_wire_accept msg = {
		.geo = { .param_count = 5000,
			 .shard_first = 3072,
			 .shard_len = 1928,
			 .shard = 1,
			 .shard_count = 2,
			 .workers_max = 7,
			 .window = 3,
			 .groups = 1,
			 .state_vectors = 2,
			 .tensors_bytes = OL_LINE_BYTES,
			 .tensors_digest = 0x8877665544332211,
			 .consistency = OL_CONSISTENCY_SYNC },
		.proto = ol_wire_own.proto,
		.incarnation = 0x1122334455667788,
		.lr = 0.25f,
		.nonfinite = 1,
	};

	msg.public_key.bytes = ol_layout_public_bytes(&msg.geo);
	msg.public_key.addr = 0xabcdef;
	msg.public_key.rkey = 77;
	msg.landing_key.bytes = ol_layout_landing_bytes(&msg.geo, msg.geo.window);
	return msg;
}

static void messages_survive_the_trip(void **unused)
{
	struct ol_wire_connect connect = { .speaks = ol_wire_own,
					   .kind = OL_CONNECT_PROOF,
					   .role = OL_ROLE_OBSERVER,
					   .worker = 12,
					   .nonce = { 1, 2, 3 },
					   .mac = { 9 } },
			       connect2;
	struct ol_wire_reject reject = { .proto = ol_wire_own.proto,
					 .code = OL_REJECT_FULL,
					 .nonce = { 5 },
					 .mac = { 6 } },
			      reject2;
	struct ol_wire_accept accept = sample_accept(), accept2;
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES + 8], again[OL_WIRE_CONNECT_BYTES];

	(void)unused;
	ol_wire_connect_encode(&connect, bytes);
	assert_int_equal(ol_wire_connect_decode(bytes, OL_WIRE_CONNECT_BYTES, &connect2), 0);
	assert_memory_equal(&connect.speaks, &connect2.speaks, sizeof(connect.speaks));
	ol_wire_connect_encode(&connect2, again);
	assert_memory_equal(again, bytes, OL_WIRE_CONNECT_BYTES);
	ol_wire_reject_encode(&reject, bytes);
	assert_int_equal(ol_wire_reject_decode(bytes, OL_WIRE_REJECT_BYTES, &reject2), 0);
	assert_memory_equal(&reject, &reject2, sizeof(reject));
	ol_wire_accept_encode(&accept, bytes);
	assert_int_equal(ol_wire_accept_decode(bytes, sizeof(bytes), &accept2), 0); /* padded */
	assert_memory_equal(&accept.geo, &accept2.geo, sizeof(accept.geo));
	assert_true(accept2.incarnation == accept.incarnation);
	assert_int_equal(accept2.public_key.rkey, 77);
	assert_float_equal(accept2.lr, 0.25, 0);
	assert_int_equal(accept2.nonfinite, 1);
}

static void short_and_foreign_messages_are_refused(void **unused)
{
	struct ol_wire_accept accept = sample_accept(), accept2;
	struct ol_wire_connect connect;
	struct ol_wire_reject reject;
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES], zero[256] = { 0 };

	(void)unused;
	assert_int_equal(ol_wire_connect_decode(zero, sizeof(zero), &connect), OL_E_WIRE);
	assert_int_equal(ol_wire_reject_decode(zero, sizeof(zero), &reject), OL_E_WIRE);
	ol_wire_accept_encode(&accept, bytes);
	for (size_t n = 0; n < sizeof(bytes); n++)
		assert_int_equal(ol_wire_accept_decode(bytes, n, &accept2), OL_E_WIRE);
	accept.geo.shard_len++; /* a geometry that cannot be */
	ol_wire_accept_encode(&accept, bytes);
	assert_int_equal(ol_wire_accept_decode(bytes, sizeof(bytes), &accept2), OL_E_WIRE);
	accept = sample_accept();
	accept.geo.tensors_bytes = 0; /* a digest of no table */
	accept.public_key.bytes = ol_layout_public_bytes(&accept.geo);
	ol_wire_accept_encode(&accept, bytes);
	assert_int_equal(ol_wire_accept_decode(bytes, sizeof(bytes), &accept2), OL_E_WIRE);
	accept = sample_accept();
	accept.public_key.bytes++; /* memory that does not fit the geometry */
	ol_wire_accept_encode(&accept, bytes);
	assert_int_equal(ol_wire_accept_decode(bytes, sizeof(bytes), &accept2), OL_E_WIRE);
}

static void proofs_hold_for_one_key_and_one_attempt(void **unused)
{
	struct ol_wire_connect proof = { .kind = OL_CONNECT_PROOF,
					 .role = OL_ROLE_WORKER,
					 .worker = 3 };
	struct ol_wire_connect knock = { .kind = OL_CONNECT_KNOCK, .role = OL_ROLE_WORKER };
	struct ol_wire_reject challenge = { .code = OL_REJECT_CHALLENGE };
	struct ol_wire_accept accept = sample_accept();
	uint8_t m[OL_NONCE_BYTES], other[OL_NONCE_BYTES];
	const uint8_t ident[OL_IDENT_BYTES] = { 1 }, relay[OL_IDENT_BYTES] = { 2 };
	const uint8_t own[OL_IDENT_BYTES] = { 3 };
	struct ol_auth_ends ends = { ident, own };

	(void)unused;
	assert_int_equal(ol_auth_random(proof.nonce, OL_NONCE_BYTES), 0);
	assert_int_equal(ol_auth_random(m, OL_NONCE_BYTES), 0);
	assert_int_equal(ol_auth_random(other, OL_NONCE_BYTES), 0);
	ol_auth_knock("key", &knock);
	assert_true(ol_auth_knock_holds("key", &knock));
	assert_false(ol_auth_knock_holds("kez", &knock));
	knock.role = OL_ROLE_READER; /* as every proof: for one role */
	assert_false(ol_auth_knock_holds("key", &knock));

	memcpy(challenge.nonce, m, sizeof(m));
	ol_auth_reject("key", &proof, &challenge);
	assert_true(ol_auth_reject_holds("key", &proof, &challenge));
	assert_false(ol_auth_reject_holds("kez", &proof, &challenge));
	assert_false(ol_auth_reject_holds("key", &knock, &challenge)); /* to another question */
	challenge.code = OL_REJECT_WORKER_RANGE; /* nor of another kind */
	assert_false(ol_auth_reject_holds("key", &proof, &challenge));

	ol_auth_proof("key", m, ident, &proof);
	assert_true(ol_auth_proof_holds("key", m, ident, &proof));
	assert_false(ol_auth_proof_holds("", m, ident, &proof));
	assert_false(ol_auth_proof_holds("key", other, ident, &proof));
	assert_false(ol_auth_proof_holds("key", m, relay, &proof)); /* for one connection */
	proof.worker = 4; /* a proof is for one worker id */
	assert_false(ol_auth_proof_holds("key", m, ident, &proof));

	ol_auth_accept("key", &proof, m, ends, &accept);
	assert_true(ol_auth_accept_holds("key", &proof, m, ends, &accept));
	ends.connecting = relay;
	assert_false(ol_auth_accept_holds("key", &proof, m, ends, &accept));
	ends = (struct ol_auth_ends){ ident, relay };
	assert_false(ol_auth_accept_holds("key", &proof, m, ends, &accept));
	ends.accepting = own;
	accept.landing_key.addr++; /* nobody else may say where to write */
	assert_false(ol_auth_accept_holds("key", &proof, m, ends, &accept));
}

/* True if a knock of this role and id by one key is taken by a server with the other */
static bool let_in(const char *with, const char *servers, enum ol_wire_role role, uint32_t worker)
{
	struct ol_wire_connect knock = { .kind = OL_CONNECT_KNOCK, .role = role, .worker = worker };

	ol_auth_knock(with, &knock);
	return ol_auth_knock_holds(servers, &knock);
}

/* A credential speaks as its holder, to servers that have the job key or their own; and as nobody else. */
static void credentials_speak_as_their_holder_alone(void **unused)
{
	char server[OL_CREDENTIAL_MAX], worker[OL_CREDENTIAL_MAX], observer[OL_CREDENTIAL_MAX];
	char none[OL_CREDENTIAL_MAX];
	uint8_t mac[OL_MAC_BYTES], views[OL_MAC_BYTES];
	char job[] = "the job's key";
	const char *servers[] = { job, server };

	(void)unused;
	assert_int_equal(ol_credential(job, OL_HOLDER_JOB, 0, server), 0);
	assert_int_equal(ol_credential(job, OL_HOLDER_WORKER, 3, worker), 0);
	assert_int_equal(ol_credential(server, OL_HOLDER_OBSERVER, 0, observer), 0);
	assert_int_equal(ol_credential(server, OL_HOLDER_WORKER, 3, none), 0);
	assert_string_equal(none, worker);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(let_in(worker, servers[i], OL_ROLE_WORKER, 3));
		assert_true(let_in(worker, servers[i], OL_ROLE_READER, 3));
		assert_true(let_in(worker, servers[i], OL_ROLE_OBSERVER, 3));
		assert_true(let_in(observer, servers[i], OL_ROLE_OBSERVER, OL_NOBODY));
		assert_true(let_in(server, servers[i], OL_ROLE_REPLICA, 0));
		assert_true(let_in(server, servers[i], OL_ROLE_WORKER, 7));

		assert_false(let_in(worker, servers[i], OL_ROLE_WORKER, 4));
		assert_false(let_in(worker, servers[i], OL_ROLE_READER, 4));
		assert_false(let_in(worker, servers[i], OL_ROLE_OBSERVER, OL_NOBODY));
		assert_false(let_in(worker, servers[i], OL_ROLE_REPLICA, 3));
		assert_false(let_in(observer, servers[i], OL_ROLE_WORKER, OL_NOBODY));
		assert_false(let_in(observer, servers[i], OL_ROLE_OBSERVER, 3));
		assert_false(let_in(observer, servers[i], OL_ROLE_REPLICA, OL_NOBODY));
	}
	assert_int_equal(ol_credential(worker, OL_HOLDER_WORKER, 3, none), -EPERM);
	assert_int_equal(ol_credential(observer, OL_HOLDER_JOB, 0, none), -EPERM);
	assert_int_equal(ol_auth_mac(worker, "x", 1, mac), -EPERM);
	assert_int_equal(ol_auth_coord_owner_mac(worker, "x", 1, mac), -EPERM);
	assert_int_equal(ol_auth_coord_owner_mac(observer, "x", 1, mac), -EPERM);
	assert_int_equal(ol_auth_coord_owner_mac(job, "x", 1, mac), 0);
	assert_int_equal(ol_auth_coord_mac(job, "x", 1, mac), 0);
	assert_int_equal(ol_auth_coord_mac(worker, "x", 1, views), 0);
	assert_memory_equal(mac, views, sizeof(mac));
	assert_int_equal(ol_auth_coord_mac(observer, "x", 1, views), 0);
	assert_memory_equal(mac, views, sizeof(mac));
}

/* What this build makes of a knock of another; the protocol that both speak, 0: none */
static uint32_t knock_of(uint32_t proto, uint32_t oldest)
{
	const struct ol_wire_connect msg = { .speaks = { proto, oldest, 0xa5c3 },
					     .kind = OL_CONNECT_KNOCK,
					     .role = OL_ROLE_REPLICA,
					     .queues = true };
	uint8_t bytes[OL_WIRE_CONNECT_BYTES], again[OL_WIRE_CONNECT_BYTES];
	struct ol_wire_connect got;

	ol_wire_connect_encode(&msg, bytes);
	assert_int_equal(ol_wire_proto(bytes, sizeof(bytes)), proto);
	if (ol_wire_connect_decode(bytes, sizeof(bytes), &got) != 0)
		return 0;
	assert_memory_equal(&got.speaks, &msg.speaks, sizeof(got.speaks));
	assert_int_equal(got.role, OL_ROLE_REPLICA);
	assert_true(got.queues);
	ol_wire_connect_encode(&got, again);
	assert_memory_equal(again, bytes, sizeof(bytes));
	return ol_wire_agree(&got.speaks);
}

static void versions_that_follow_each_other_agree(void **unused)
{
	const uint32_t own = ol_wire_own.proto, oldest = ol_wire_own.oldest;

	(void)unused;
	assert_true(oldest <= own && own - oldest <= OL_WIRE_BACK_MAX);
	assert_int_equal(ol_wire_own.features >> 16, 0);
	assert_int_equal(knock_of(own, oldest), own);
	assert_int_equal(knock_of(own + 1, own), own);
	assert_int_equal(knock_of(own + 1, own + 1 - OL_WIRE_BACK_MAX), own);
	assert_int_equal(knock_of(own + 1, own + 1), 0);
	assert_int_equal(knock_of(oldest, oldest), oldest);
	assert_int_equal(knock_of(oldest - 1, oldest - 1), 0);
}

static void an_answer_is_of_a_version_and_of_features_that_both_have(void **unused)
{
	struct ol_wire_accept accept = sample_accept(), got;
	struct ol_wire_reject reject = { .proto = ol_wire_own.proto + 1, .code = OL_REJECT_FULL };
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES];

	(void)unused;
	ol_wire_reject_encode(&reject, bytes);
	assert_int_equal(ol_wire_reject_decode(bytes, sizeof(bytes), &reject), OL_E_WIRE);
	accept.features = ol_wire_own.features;
	ol_wire_accept_encode(&accept, bytes);
	assert_int_equal(ol_wire_accept_decode(bytes, sizeof(bytes), &got), 0);
	assert_int_equal(got.proto, ol_wire_own.proto);
	assert_int_equal(got.features, accept.features);
	accept.features = ~ol_wire_own.features;
	ol_wire_accept_encode(&accept, bytes);
	assert_int_equal(ol_wire_accept_decode(bytes, sizeof(bytes), &got), OL_E_WIRE);
	accept.features = 0;
	accept.proto = ol_wire_own.oldest - 1;
	ol_wire_accept_encode(&accept, bytes);
	assert_int_equal(ol_wire_accept_decode(bytes, sizeof(bytes), &got), OL_E_WIRE);
}

static void another_version_is_told_from_noise(void **unused)
{
	const struct ol_wire_connect msg = { .kind = OL_CONNECT_KNOCK, .role = OL_ROLE_WORKER };
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];
	char text[OL_WIRE_FAULT_MAX];
	struct ol_wire_connect got;

	(void)unused;
	ol_wire_connect_encode(&msg, bytes);
	assert_int_equal(ol_wire_proto(bytes, sizeof(bytes)), ol_wire_own.proto);
	assert_null(ol_wire_fault(bytes, sizeof(bytes), "server", text));
	bytes[6] = (uint8_t)(ol_wire_own.oldest - 1);
	assert_int_equal(ol_wire_proto(bytes, sizeof(bytes)), ol_wire_own.oldest - 1);
	assert_int_equal(ol_wire_connect_decode(bytes, sizeof(bytes), &got), OL_E_WIRE);
	assert_non_null(ol_wire_fault(bytes, sizeof(bytes), "server", text));
	assert_non_null(strstr(text, "do not follow each other"));
	assert_int_equal(ol_wire_proto(bytes, 7), 0);
	bytes[0] ^= 1;
	assert_int_equal(ol_wire_proto(bytes, sizeof(bytes)), 0);
	assert_null(ol_wire_fault(bytes, sizeof(bytes), "server", text));
	assert_int_equal(ol_wire_proto(NULL, 0), 0);
}

static void a_damaged_credential_is_none(void **unused)
{
	char good[OL_CREDENTIAL_MAX], bad[OL_CREDENTIAL_MAX];
	enum ol_holder holder;
	uint32_t worker;

	(void)unused;
	assert_int_equal(ol_credential("job", OL_HOLDER_WORKER, 12, good), 0);
	assert_int_equal(ol_auth_holder(good, &holder, &worker), 0);
	assert_int_equal(holder, OL_HOLDER_WORKER);
	assert_int_equal(worker, 12);
	for (size_t cut = strlen("outlast-worker:"); cut < strlen(good); cut++) {
		snprintf(bad, sizeof(bad), "%.*s", (int)cut, good);
		assert_int_equal(ol_auth_holder(bad, &holder, &worker), -EINVAL);
		snprintf(bad, sizeof(bad), "%s", good);
		bad[cut] = bad[cut] == 'x' ? 'y' : 'x';
		assert_int_equal(ol_auth_holder(bad, &holder, &worker), -EINVAL);
	}
	memcpy(bad, good, strlen(good));
	memcpy(bad + strlen(good), "0", 2);
	assert_int_equal(ol_auth_holder(bad, &holder, &worker), -EINVAL);
	assert_int_equal(ol_auth_holder("outlast-worker:4294967295:", &holder, &worker), -EINVAL);
	assert_int_equal(ol_auth_holder("outlast-workers", &holder, &worker), 0); /* a job key */
	assert_int_equal(holder, OL_HOLDER_JOB);
}

static bool hmac_fails; /* as without memory; otherwise it is libcrypto's */

unsigned char *HMAC(const EVP_MD *md, const void *key, int key_bytes, const unsigned char *data,
		    size_t bytes, unsigned char *digest, unsigned *digest_bytes)
{
	unsigned char *(*real)(const EVP_MD *, const void *, int, const unsigned char *, size_t,
			       unsigned char *, unsigned *);
	void *found = dlsym(RTLD_NEXT, "HMAC");

	if (hmac_fails)
		return NULL;
	memcpy(&real, &found, sizeof(real));
	return real(md, key, key_bytes, data, bytes, digest, digest_bytes);
}

static void without_a_crypto_library_nobody_is_let_in(void **unused)
{
	static const uint8_t none[OL_MAC_BYTES];
	struct ol_wire_connect proof = { .kind = OL_CONNECT_PROOF, .role = OL_ROLE_WORKER };
	struct ol_wire_reject challenge = { .code = OL_REJECT_CHALLENGE };
	struct ol_wire_accept accept = sample_accept();
	const uint8_t ident[OL_IDENT_BYTES] = { 1 };
	const struct ol_auth_ends ends = { ident, ident };
	uint8_t n[OL_NONCE_BYTES] = { 1 }, m[OL_NONCE_BYTES] = { 2 }, mac[OL_MAC_BYTES];

	(void)unused;
	hmac_fails = true;
	memset(mac, 0xa5, sizeof(mac));
	assert_int_equal(ol_auth_mac("key", n, sizeof(n), mac), -EIO);
	assert_memory_equal(mac, none, sizeof(mac)); /* never what happened to lie there */
	ol_auth_reject("key", &proof, &challenge);
	ol_auth_proof("key", m, ident, &proof);
	ol_auth_accept("key", &proof, m, ends, &accept);
	/* also who guesses what is put in place of a proof */
	assert_false(ol_auth_reject_holds("key", &proof, &challenge));
	assert_false(ol_auth_proof_holds("key", m, ident, &proof));
	assert_false(ol_auth_accept_holds("key", &proof, m, ends, &accept));
	hmac_fails = false; /* nor where only the peer's fails */
	assert_false(ol_auth_reject_holds("key", &proof, &challenge));
	assert_false(ol_auth_proof_holds("key", m, ident, &proof));
	assert_false(ol_auth_accept_holds("key", &proof, m, ends, &accept));
	assert_int_equal(ol_auth_mac("key", n, sizeof(n), mac), 0);
	assert_memory_not_equal(mac, none, sizeof(mac));
}

static void a_record_with_any_bit_changed_is_not_whole(void **unused)
{
	struct ol_push_hdr hdr = { .seq = 5, .base_version = 4, .loss = 0.5f };

	(void)unused;
	ol_record_seal(&hdr);
	assert_true(ol_record_whole(&hdr));
	for (size_t bit = 0; bit < sizeof(hdr) * 8; bit++) {
		((uint8_t *)&hdr)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		assert_false(ol_record_whole(&hdr));
		((uint8_t *)&hdr)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
}

/* Whoever made the record: CRC32C without inversion, as isa-l has it, whatever the processor has */
static void a_checksum_is_the_same_however_it_is_made(void **unused)
{
	uint8_t bytes[300];

	(void)unused;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 167 + 13);
	for (size_t at = 0; at < 4; at++)
		for (size_t len = 0; at + len <= sizeof(bytes); len++)
			assert_int_equal(ol_record_crc(bytes + at, len),
					 crc32_iscsi(bytes + at, (int)len, 0));
	assert_int_equal(ol_record_crc("123456789ab", 12), 0xcb5681d1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_survive_the_trip),
		cmocka_unit_test(short_and_foreign_messages_are_refused),
		cmocka_unit_test(proofs_hold_for_one_key_and_one_attempt),
		cmocka_unit_test(credentials_speak_as_their_holder_alone),
		cmocka_unit_test(versions_that_follow_each_other_agree),
		cmocka_unit_test(an_answer_is_of_a_version_and_of_features_that_both_have),
		cmocka_unit_test(another_version_is_told_from_noise),
		cmocka_unit_test(a_damaged_credential_is_none),
		cmocka_unit_test(without_a_crypto_library_nobody_is_let_in),
		cmocka_unit_test(a_record_with_any_bit_changed_is_not_whole),
		cmocka_unit_test(a_checksum_is_the_same_however_it_is_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
