/* SPDX-License-Identifier: BSD-3-Clause */

/* coord_wire.c -- frames of the embedded coordinator: encode, decode, prove */

#include "replication/coord_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
	MAGIC_BYTES = 8,
	MAC_INPUT_MAX = 256,
};

static const char magic[MAGIC_BYTES + 1] = "outlastC";

/* What a type may carry. */
static const struct form {
	uint32_t least; /* of the body */
	uint32_t most;
	bool shard;
	bool value;
} forms[] = {
	[OL_COORD_HELLO] = { MAGIC_BYTES + OL_COORD_NONCE_BYTES, MAGIC_BYTES + OL_COORD_NONCE_BYTES,
			     false, true },
	[OL_COORD_CHALLENGE] = { OL_COORD_NONCE_BYTES + OL_COORD_MAC_BYTES,
				 OL_COORD_NONCE_BYTES + OL_COORD_MAC_BYTES, false, false },
	[OL_COORD_PROOF] = { OL_COORD_MAC_BYTES + 1, OL_COORD_MAC_BYTES + OL_COORD_JOB_MAX - 1,
			     true, true },
	[OL_COORD_WELCOME] = { 0, 0, false, false },
	[OL_COORD_OFFER] = { 1, OL_VIEW_TEXT_MAX - 1, true, false },
	[OL_COORD_JOIN] = { 1, OL_MEMBER_TEXT_MAX - 1, true, false },
	[OL_COORD_JOINED] = { 0, 255, true, true },
	[OL_COORD_WATCH] = { 0, 0, false, false },
	[OL_COORD_VIEW] = { 0, OL_VIEW_TEXT_MAX - 1, true, true },
	[OL_COORD_MEMBERS] = { 0, OL_COORD_BODY_MAX, true, false },
	[OL_COORD_READY] = { 0, 0, false, false },
	[OL_COORD_BEAT] = { 0, 0, false, true },
	[OL_COORD_PROPOSE] = { 1, OL_VIEW_TEXT_MAX - 1, true, true },
	[OL_COORD_BYE] = { 0, 0, false, false },
	[OL_COORD_REFUSE] = { 0, 255, false, true },
};

static void put(uint8_t *bytes, uint64_t value, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *bytes, unsigned count)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < count; i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	return value;
}

size_t ol_coord_frame_encode(const struct ol_coord_frame *frame, uint8_t bytes[OL_COORD_FRAME_MAX])
{
	put(bytes, frame->bytes, 4);
	put(bytes + 4, (uint64_t)frame->type, 2);
	put(bytes + 6, frame->shard, 2);
	put(bytes + 8, frame->value, 8);
	if (frame->bytes > 0)
		memcpy(bytes + OL_COORD_HEAD_BYTES, frame->body, frame->bytes);
	return OL_COORD_HEAD_BYTES + frame->bytes;
}

int ol_coord_frame_decode(const uint8_t *bytes, size_t count, struct ol_coord_frame *ret_frame)
{
	uint64_t body, type, shard, value;

	if (count < OL_COORD_HEAD_BYTES)
		return 0;
	body = get(bytes, 4);
	type = get(bytes + 4, 2);
	shard = get(bytes + 6, 2);
	value = get(bytes + 8, 8);
	if (type < OL_COORD_HELLO || type > OL_COORD_REFUSE || body < forms[type].least ||
	    body > forms[type].most || (shard != 0 && !forms[type].shard) ||
	    (value != 0 && !forms[type].value))
		return -EPROTO;
	if (count < OL_COORD_HEAD_BYTES + body)
		return 0;
	ret_frame->type = (enum ol_coord_msg)type;
	ret_frame->shard = (uint16_t)shard;
	ret_frame->value = value;
	ret_frame->body = bytes + OL_COORD_HEAD_BYTES;
	ret_frame->bytes = (uint32_t)body;
	return (int)(OL_COORD_HEAD_BYTES + body);
}

struct ol_coord_frame ol_coord_hello_frame(const struct ol_coord_hello *hello, uint8_t *body)
{
	memcpy(body, magic, MAGIC_BYTES);
	memcpy(body + MAGIC_BYTES, hello->nonce, OL_COORD_NONCE_BYTES);
	return (struct ol_coord_frame){ .type = OL_COORD_HELLO,
					.value = OL_COORD_PROTO,
					.body = body,
					.bytes = MAGIC_BYTES + OL_COORD_NONCE_BYTES };
}

int ol_coord_hello_decode(const struct ol_coord_frame *frame, struct ol_coord_hello *ret_hello)
{
	const uint8_t *body = frame->body;

	if (frame->type != OL_COORD_HELLO || frame->value != OL_COORD_PROTO ||
	    memcmp(body, magic, MAGIC_BYTES) != 0)
		return -EPROTO;
	memcpy(ret_hello->nonce, body + MAGIC_BYTES, OL_COORD_NONCE_BYTES);
	return 0;
}

struct ol_coord_frame ol_coord_challenge_frame(const struct ol_coord_challenge *challenge,
					       uint8_t *body)
{
	memcpy(body, challenge->nonce, OL_COORD_NONCE_BYTES);
	memcpy(body + OL_COORD_NONCE_BYTES, challenge->mac, OL_COORD_MAC_BYTES);
	return (struct ol_coord_frame){ .type = OL_COORD_CHALLENGE,
					.body = body,
					.bytes = OL_COORD_NONCE_BYTES + OL_COORD_MAC_BYTES };
}

int ol_coord_challenge_decode(const struct ol_coord_frame *frame,
			      struct ol_coord_challenge *ret_challenge)
{
	const uint8_t *body = frame->body;

	if (frame->type != OL_COORD_CHALLENGE)
		return -EPROTO;
	memcpy(ret_challenge->nonce, body, OL_COORD_NONCE_BYTES);
	memcpy(ret_challenge->mac, body + OL_COORD_NONCE_BYTES, OL_COORD_MAC_BYTES);
	return 0;
}

struct ol_coord_frame ol_coord_proof_frame(const struct ol_coord_proof *proof, uint8_t *body)
{
	size_t job = strlen(proof->job);

	memcpy(body, proof->mac, OL_COORD_MAC_BYTES);
	memcpy(body + OL_COORD_MAC_BYTES, proof->job, job);
	return (struct ol_coord_frame){ .type = OL_COORD_PROOF,
					.shard = (uint16_t)proof->shard_count,
					.value = proof->lease_ms,
					.body = body,
					.bytes = OL_COORD_MAC_BYTES + (uint32_t)job };
}

int ol_coord_proof_decode(const struct ol_coord_frame *frame, struct ol_coord_proof *ret_proof)
{
	const uint8_t *body = frame->body;
	size_t job = frame->bytes - OL_COORD_MAC_BYTES;

	if (frame->type != OL_COORD_PROOF || frame->shard == 0 || frame->value == 0 ||
	    frame->value > UINT32_MAX || memchr(body + OL_COORD_MAC_BYTES, '\0', job) != NULL)
		return -EPROTO;
	memset(ret_proof, 0, sizeof(*ret_proof));
	memcpy(ret_proof->mac, body, OL_COORD_MAC_BYTES);
	memcpy(ret_proof->job, body + OL_COORD_MAC_BYTES, job);
	ret_proof->shard_count = frame->shard;
	ret_proof->lease_ms = (uint32_t)frame->value;
	return 0;
}

struct ol_coord_frame ol_coord_members_frame(uint32_t shard, const struct ol_member *members,
					     uint32_t count, uint8_t *body)
{
	char text[OL_MEMBER_TEXT_MAX];
	uint32_t at = 0;

	for (uint32_t i = 0; i < count && i < OL_MEMBERS_MAX; i++) {
		size_t bytes = ol_member_encode(&members[i], text);

		memcpy(body + at, text, bytes);
		at += (uint32_t)bytes;
	}
	return (struct ol_coord_frame){
		.type = OL_COORD_MEMBERS, .shard = (uint16_t)shard, .body = body, .bytes = at
	};
}

int ol_coord_members_decode(const struct ol_coord_frame *frame,
			    struct ol_member ret_members[OL_MEMBERS_MAX])
{
	const char *at = frame->body;
	size_t rest = frame->bytes;
	int count = 0;

	if (frame->type != OL_COORD_MEMBERS)
		return -EPROTO;
	while (rest > 0) {
		const char *end = memchr(at, '\n', rest);
		size_t bytes;

		if (end == NULL || count == OL_MEMBERS_MAX)
			return -EPROTO;
		bytes = (size_t)(end + 1 - at);
		if (ol_member_decode(at, bytes, &ret_members[count]) != 0)
			return -EPROTO;
		count++;
		at += bytes;
		rest -= bytes;
	}
	return count;
}

/* mac_make -- over label, both nonces and what the message says; all 0 without a secret */
static int mac_make(const struct ol_coord_secret *secret, const char *label, const uint8_t *n,
		    const uint8_t *m, const void *msg, size_t msg_bytes, uint8_t *mac)
{
	uint8_t input[MAC_INPUT_MAX];
	size_t at = strlen(label) + 1;

	memset(mac, 0, OL_COORD_MAC_BYTES);
	if (secret->mac == NULL)
		return 0;
	memcpy(input, label, at);
	memcpy(input + at, n, OL_COORD_NONCE_BYTES);
	memcpy(input + at + OL_COORD_NONCE_BYTES, m, OL_COORD_NONCE_BYTES);
	at += 2 * OL_COORD_NONCE_BYTES;
	if (msg_bytes > 0)
		memcpy(input + at, msg, msg_bytes);
	if (secret->mac(secret->arg, input, at + msg_bytes, mac) == 0)
		return 0;
	memset(mac, 0, OL_COORD_MAC_BYTES);
	return -EIO;
}

int ol_coord_challenge_mac(const struct ol_coord_secret *secret,
			   const uint8_t n[OL_COORD_NONCE_BYTES],
			   const uint8_t m[OL_COORD_NONCE_BYTES], uint8_t mac[OL_COORD_MAC_BYTES])
{
	return mac_make(secret, "coordinator", n, m, NULL, 0, mac);
}

int ol_coord_proof_mac(const struct ol_coord_secret *secret, const uint8_t n[OL_COORD_NONCE_BYTES],
		       const uint8_t m[OL_COORD_NONCE_BYTES], const struct ol_coord_proof *proof,
		       uint8_t mac[OL_COORD_MAC_BYTES])
{
	uint8_t msg[8 + OL_COORD_JOB_MAX];
	size_t job = strlen(proof->job);

	put(msg, proof->shard_count, 4);
	put(msg + 4, proof->lease_ms, 4);
	memcpy(msg + 8, proof->job, job);
	return mac_make(secret, "coordinator's client", n, m, msg, 8 + job, mac);
}

bool ol_coord_mac_same(const uint8_t a[OL_COORD_MAC_BYTES], const uint8_t b[OL_COORD_MAC_BYTES])
{
	unsigned other = 0;

	for (unsigned i = 0; i < OL_COORD_MAC_BYTES; i++) /* takes as long for any two */
		other |= (unsigned)(a[i] ^ b[i]);
	return other == 0;
}

int ol_coord_random(void *bytes, size_t count)
{
	return getrandom(bytes, count, 0) == (ssize_t)count ? 0 : -EIO;
}
