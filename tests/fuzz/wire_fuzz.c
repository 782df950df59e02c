/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * wire_fuzz.c -- any bytes of a handshake are refused, or are a message that encodes to the same
 * bytes again; no read goes beyond them
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/fuzz.h"
#include "wire/auth.h"
#include "wire/wire.h"

static void same(const uint8_t *a, const uint8_t *b, size_t bytes)
{
	if (memcmp(a, b, bytes) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct ol_wire_connect asked = { .kind = OL_CONNECT_PROOF, .role = OL_ROLE_WORKER };
	const uint8_t ident[OL_IDENT_BYTES] = { 0 };
	struct ol_wire_connect connect;
	struct ol_wire_reject reject;
	struct ol_wire_accept accept;
	uint8_t out[OL_WIRE_ACCEPT_BYTES], nonce[OL_NONCE_BYTES] = { 0 };
	uint8_t *exact = malloc(bytes + 1); /* so that a sanitizer sees a read behind the end */

	if (exact == NULL)
		return 0;
	memcpy(exact, data, bytes);
	if (ol_wire_connect_decode(exact, bytes, &connect) == 0) {
		ol_wire_connect_encode(&connect, out);
		same(out, data, OL_WIRE_CONNECT_BYTES);
		(void)ol_auth_knock_holds("key", &connect);
		(void)ol_auth_proof_holds("key", nonce, ident, &connect);
	}
	if (ol_wire_reject_decode(exact, bytes, &reject) == 0) {
		ol_wire_reject_encode(&reject, out);
		same(out, data, OL_WIRE_REJECT_BYTES);
		(void)ol_wire_reject_status(reject.code);
		(void)ol_auth_reject_holds("key", &asked, &reject);
	}
	if (ol_wire_accept_decode(exact, bytes, &accept) == 0) {
		ol_wire_accept_encode(&accept, out);
		same(out, data, OL_WIRE_ACCEPT_BYTES);
		(void)ol_auth_accept_holds("key", &asked, nonce,
					   (struct ol_auth_ends){ ident, ident }, &accept);
		if (ol_layout_public_bytes(&accept.geo) != accept.public_key.bytes)
			abort();
	}
	free(exact);
	return 0;
}
