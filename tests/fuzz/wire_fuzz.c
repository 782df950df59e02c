/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * wire_fuzz.c -- any bytes of a handshake are refused, or are a message that encodes to the same
 * bytes again; no read goes beyond them; and a message sealed for one connection holds for that one alone
 *
 * What follows a message in the input is the server's nonce, the connection's ends, and a bit of each
 * that is changed.
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

/* What the ends of a connection know of it, beside the messages */
struct context {
	uint8_t nonce[OL_NONCE_BYTES];
	uint8_t ident[OL_IDENT_BYTES];
	uint8_t at; /* which bit is changed */
};

static struct context context_take(const uint8_t *data, size_t bytes, size_t message)
{
	struct context context = { .at = 0 };

	if (bytes > message)
		memcpy(&context, data + message,
		       bytes - message < sizeof(context) ? bytes - message : sizeof(context));
	return context;
}

static void flip(uint8_t *field, size_t bytes, uint8_t at)
{
	field[at / 8 % bytes] ^= (uint8_t)(1 << (at & 7));
}

/* The same connection, but for one bit of a nonce, or of an end */
static struct context context_other(const struct context *context)
{
	struct context other = *context;

	if ((context->at & 1) != 0)
		flip(other.nonce, sizeof(other.nonce), context->at / 2);
	else
		flip(other.ident, sizeof(other.ident), context->at / 2);
	return other;
}

static void try_connect(const struct ol_wire_connect *said, const struct context *context)
{
	const struct context other = context_other(context);
	struct ol_wire_connect sealed = *said;

	must(!ol_auth_knock_holds("key", said) &&
	     !ol_auth_proof_holds("key", context->nonce, context->ident, said));
	ol_auth_knock("key", &sealed);
	must(ol_auth_knock_holds("key", &sealed) && !ol_auth_knock_holds("other", &sealed));
	ol_auth_proof("key", context->nonce, context->ident, &sealed);
	must(ol_auth_proof_holds("key", context->nonce, context->ident, &sealed) &&
	     !ol_auth_proof_holds("key", other.nonce, other.ident, &sealed) &&
	     !ol_auth_proof_holds("other", context->nonce, context->ident, &sealed) &&
	     !ol_auth_knock_holds("key", &sealed));
	sealed.worker ^= 1;
	must(!ol_auth_proof_holds("key", context->nonce, context->ident, &sealed));
}

static void try_reject(const struct ol_wire_connect *asked, const struct ol_wire_reject *said,
		       const struct context *context)
{
	struct ol_wire_reject sealed = *said;
	struct ol_wire_connect other = *asked;

	(void)ol_wire_reject_status(said->code);
	must(!ol_auth_reject_holds("key", asked, said));
	ol_auth_reject("key", asked, &sealed);
	flip(other.nonce, sizeof(other.nonce), context->at);
	must(ol_auth_reject_holds("key", asked, &sealed) &&
	     !ol_auth_reject_holds("key", &other, &sealed));
}

static void try_accept(const struct ol_wire_connect *asked, const struct ol_wire_accept *said,
		       const struct context *context)
{
	const struct context other = context_other(context);
	const struct ol_auth_ends ends = { context->ident, context->ident };
	struct ol_wire_accept sealed = *said;

	must(ol_layout_public_bytes(&said->geo) == said->public_key.bytes);
	must(!ol_auth_accept_holds("key", asked, context->nonce, ends, said));
	ol_auth_accept("key", asked, context->nonce, ends, &sealed);
	must(ol_auth_accept_holds("key", asked, context->nonce, ends, &sealed) &&
	     !ol_auth_accept_holds("key", asked, other.nonce,
				   (struct ol_auth_ends){ other.ident, ends.accepting }, &sealed) &&
	     !ol_auth_accept_holds("key", asked, other.nonce,
				   (struct ol_auth_ends){ ends.connecting, other.ident }, &sealed));
}

static void try_bytes(const uint8_t *data, size_t bytes)
{
	const struct ol_wire_connect asked = { .kind = OL_CONNECT_PROOF, .role = OL_ROLE_WORKER };
	const uint32_t proto = ol_wire_proto(data, bytes);
	const bool ours = proto >= ol_wire_own.oldest && proto <= ol_wire_own.proto;
	struct ol_wire_connect connect;
	struct ol_wire_reject reject;
	struct ol_wire_accept accept;
	struct context context;
	uint8_t out[OL_WIRE_ACCEPT_BYTES];

	if (ol_wire_connect_decode(data, bytes, &connect) == 0) {
		ol_wire_connect_encode(&connect, out);
		same(out, data, OL_WIRE_CONNECT_BYTES);
		context = context_take(data, bytes, OL_WIRE_CONNECT_BYTES);
		must(connect.speaks.proto == proto && ol_wire_agree(&connect.speaks) != 0 &&
		     ol_wire_agree(&connect.speaks) <= proto);
		try_connect(&connect, &context);
	}
	if (ol_wire_reject_decode(data, bytes, &reject) == 0) {
		ol_wire_reject_encode(&reject, out);
		same(out, data, OL_WIRE_REJECT_BYTES);
		context = context_take(data, bytes, OL_WIRE_REJECT_BYTES);
		must(ours);
		try_reject(&asked, &reject, &context);
	}
	if (ol_wire_accept_decode(data, bytes, &accept) == 0) {
		ol_wire_accept_encode(&accept, out);
		same(out, data, OL_WIRE_ACCEPT_BYTES);
		context = context_take(data, bytes, OL_WIRE_ACCEPT_BYTES);
		must(ours);
		try_accept(&asked, &accept, &context);
	}
}

/* Once as it is, and once of today's protocol, so that saved inputs outlive its number. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const uint32_t magic = OL_WIRE_MAGIC;
	const uint16_t proto = (uint16_t)ol_wire_own.proto;
	uint8_t *exact =
		malloc(bytes > 0 ? bytes : 1); /* so that a sanitizer sees a read behind the end */

	if (exact == NULL)
		return 0;
	memcpy(exact, data, bytes);
	try_bytes(exact, bytes);
	if (bytes >= 8) {
		memcpy(exact, &magic, sizeof(magic));
		memcpy(exact + 6, &proto, sizeof(proto));
		try_bytes(exact, bytes);
	}
	free(exact);
	return 0;
}
