/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_fuzz.c -- whatever comes to the embedded coordinator or its client is refused, is waited
 * for, or is a message that encodes to the same bytes again; so are the texts of views and members
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replication/coord_wire.h"
#include "support/fuzz.h"

static void same(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	if (a_bytes != b_bytes || memcmp(a, b, a_bytes) != 0)
		abort();
}

static void same_frame(const struct ol_coord_frame *a, const struct ol_coord_frame *b)
{
	if (a->type != b->type || a->shard != b->shard || a->value != b->value)
		abort();
	same(a->body, a->bytes, b->body, b->bytes);
}

static void try_texts(const void *text, size_t bytes)
{
	char again[OL_VIEW_TEXT_MAX];
	struct ol_view view;
	struct ol_member member;

	if (ol_view_decode(text, bytes, &view) == 0)
		same(text, bytes, again, ol_view_encode(&view, again));
	if (ol_member_decode(text, bytes, &member) == 0)
		same(text, bytes, again, ol_member_encode(&member, again));
}

static void try_bodies(const struct ol_coord_frame *frame)
{
	struct ol_member members[OL_MEMBERS_MAX];
	uint8_t body[OL_COORD_BODY_MAX];
	struct ol_coord_frame again;
	struct ol_coord_hello hello;
	struct ol_coord_challenge challenge;
	struct ol_coord_proof proof;
	int count;

	if (ol_coord_hello_decode(frame, &hello) == 0) {
		again = ol_coord_hello_frame(&hello, body);
		same_frame(frame, &again);
	}
	if (ol_coord_challenge_decode(frame, &challenge) == 0) {
		again = ol_coord_challenge_frame(&challenge, body);
		same_frame(frame, &again);
	}
	if (ol_coord_proof_decode(frame, &proof) == 0) {
		again = ol_coord_proof_frame(&proof, body);
		same_frame(frame, &again);
	}
	count = ol_coord_members_decode(frame, members);
	if (count > 0) {
		again = ol_coord_members_frame(frame->shard, members, (uint32_t)count, body);
		same_frame(frame, &again);
	}
	try_texts(frame->body, frame->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t out[OL_COORD_FRAME_MAX], *exact = malloc(bytes > 0 ? bytes : 1);
	struct ol_coord_frame frame;
	size_t at = 0;
	int size;

	if (exact == NULL)
		return 0;
	memcpy(exact, data, bytes);
	try_texts(exact, bytes);
	while ((size = ol_coord_frame_decode(exact + at, bytes - at, &frame)) > 0) {
		same(exact + at, (size_t)size, out, ol_coord_frame_encode(&frame, out));
		try_bodies(&frame);
		at += (size_t)size;
	}
	free(exact);
	return 0;
}
