/* SPDX-License-Identifier: BSD-3-Clause */

/* liar_say.c -- messages of liar.h: any bytes anywhere, handshakes of either side, and views */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fuzz/liar.h"
#include "fuzz/liar_wrap.h"
#include "wire/auth.h"

enum {
	ANY_MAX = 128 /* bytes that land at once */
};

struct ol_coord {
	struct ol_coord_opts opts;
};

static uint64_t generation;

static const uint8_t nonce[OL_NONCE_BYTES] = { 7 };
static const uint8_t ident[OL_IDENT_BYTES];

void liar_land_any(const struct liar_conn *conn, uint32_t span)
{
	uint32_t off = liar_u32() % span;
	uint8_t raw[ANY_MAX];
	size_t count = liar_bytes(raw, sizeof(raw));

	liar_land(conn, off, raw, count);
}

void liar_bell_any(struct liar_conn *conn)
{
	uint8_t kind = liar_byte();

	liar_bell(conn, (enum ol_bell)(kind & 15), kind < 0x80 ? liar_byte() : liar_u32());
}

void liar_far_any(void)
{
	uint32_t off = liar_u32() % LIAR_FAR_BYTES;
	uint8_t raw[ANY_MAX];
	size_t count = liar_bytes(raw, sizeof(raw));

	memcpy(liar.far + off, raw, count < LIAR_FAR_BYTES - off ? count : LIAR_FAR_BYTES - off);
}

void liar_ask(enum ol_wire_connect_kind kind, enum ol_wire_role role, uint32_t worker)
{
	struct ol_wire_connect msg = { .kind = kind, .role = role, .worker = worker };
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];

	memcpy(msg.nonce, nonce, sizeof(nonce));
	if (kind == OL_CONNECT_PROOF)
		msg.made_ns = liar.made_ns;
	if (kind == OL_CONNECT_PROOF)
		ol_auth_proof(LIAR_KEY, liar.m, ident, &msg);
	else
		ol_auth_knock(LIAR_KEY, &msg);
	ol_wire_connect_encode(&msg, bytes);
	liar_patch(bytes, sizeof(bytes));
	liar_ask_raw(bytes, sizeof(bytes));
}

/* A server that knows the key, and says what it likes */
static void let_in(struct liar_conn *conn)
{
	struct ol_wire_accept accept = liar.accept;
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES];

	liar_patch(&accept, sizeof(accept));
	ol_auth_accept(LIAR_KEY, &conn->call, liar.m, (struct ol_auth_ends){ ident, ident },
		       &accept);
	ol_wire_accept_encode(&accept, bytes);
	liar_up(conn, bytes, sizeof(bytes));
}

static void turn_away(struct liar_conn *conn, enum ol_wire_reject_code code)
{
	struct ol_wire_reject reject = { .code = code };
	uint8_t bytes[OL_WIRE_REJECT_BYTES];

	memcpy(reject.nonce, liar.m, sizeof(reject.nonce));
	if (code == OL_REJECT_CHALLENGE || liar_byte() % 2 == 0)
		ol_auth_reject(LIAR_KEY, &conn->call, &reject);
	ol_wire_reject_encode(&reject, bytes);
	liar_patch(bytes, sizeof(bytes));
	liar_down(conn, -ECONNREFUSED, bytes, sizeof(bytes));
}

void liar_answer(struct liar_conn *conn)
{
	static const int reasons[] = { 0, -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH };
	uint8_t how = liar_byte(), raw[LIAR_PRIV_MAX];
	size_t count;

	if (conn->state != LIAR_CALLS)
		return;
	switch (how & 7) {
	case 1:
		count = liar_bytes(raw, OL_XPORT_PRIV_REJECT_MAX);
		liar_down(conn, -ECONNREFUSED, raw, count);
		return;
	case 2:
		count = liar_bytes(raw, OL_XPORT_PRIV_ACCEPT_MAX);
		liar_up(conn, raw, count);
		return;
	case 3:
		liar_down(conn, reasons[liar_byte() & 3], NULL, 0);
		return;
	case 4:
		turn_away(conn, (enum ol_wire_reject_code)(liar_byte() % (OL_REJECT_FULL + 1)));
		return;
	default:
		if (conn->call.kind == OL_CONNECT_KNOCK)
			turn_away(conn, OL_REJECT_CHALLENGE);
		else
			let_in(conn);
	}
}

/* ---- the coordinator ---- */

static struct ol_member member_of(unsigned which)
{
	struct ol_member member = { .id = LIAR_ID + which,
				    .job = liar.self.job | 1,
				    .proto = ol_wire_own.proto,
				    .oldest = ol_wire_own.oldest,
				    .rank = which };

	if (which == 0 && liar.self.id != 0)
		return liar.self;
	snprintf(member.addr, sizeof(member.addr), "@%u", which);
	return member;
}

static void set_view(uint32_t shard, const struct ol_view *view)
{
	struct ol_view checked;
	char text[OL_VIEW_TEXT_MAX];
	size_t bytes = ol_view_encode(view, text);

	/* what is no view never gets through to the product */
	if (ol_view_decode(text, bytes, &checked) != 0)
		return;
	liar.coord[shard].view = checked;
	liar.coord[shard].version++;
	generation++;
}

void liar_view(uint32_t shard, uint32_t shard_count)
{
	const struct ol_view *last = &liar.coord[shard].view;
	uint32_t how = liar_byte(), size = liar_byte();
	struct ol_view view = { .epoch = last->epoch + (how & 3),
				.shard_count = shard_count,
				.wanted = 1 + (size & 3),
				.every = last->epoch != 0 ? last->every : how >> 7,
				.count = 1u + (size >> 2 & 1) + (size >> 3 & 1),
				.joining = size >> 4 & 1 };

	view.founded = (how & 8) != 0 || last->epoch == 0 ? view.epoch : last->founded;
	view.history = 1 + view.founded;
	view.origin = 1 + ((how & 0x70) == 0x70); /* 2: it has forgotten all */
	for (uint32_t i = 0; i < view.count + view.joining; i++)
		view.replicas[i] = member_of(liar_byte() % LIAR_IDS);
	set_view(shard, &view);
}

void liar_members(uint32_t shard)
{
	struct ol_coord_state *state = &liar.coord[shard];
	uint8_t who = liar_byte();

	state->member_count = 0;
	for (unsigned i = 0; i < LIAR_IDS; i++) {
		if ((who >> i & 1) != 0)
			state->members[state->member_count++] = member_of(i);
	}
	if ((who & 0x80) != 0 && state->member_count > 0)
		liar_patch(&state->members[0].job, sizeof(state->members[0].job));
	generation++;
}

int __wrap_ol_coord_open(const struct ol_coord_opts *opts, struct ol_coord **ret_coord, char *err,
			 size_t err_bytes)
{
	struct ol_coord *coord = calloc(1, sizeof(*coord));

	(void)err;
	(void)err_bytes;
	must(coord != NULL && opts->shard_count >= 1);
	coord->opts = *opts;
	*ret_coord = coord;
	return 0;
}

void __wrap_ol_coord_close(struct ol_coord *coord)
{
	free(coord);
}

int __wrap_ol_coord_join(struct ol_coord *coord, uint32_t shard, const struct ol_member *member)
{
	(void)coord;
	(void)shard;
	liar.self = *member;
	return 0;
}

uint64_t __wrap_ol_coord_generation(const struct ol_coord *coord)
{
	(void)coord;
	return generation;
}

void __wrap_ol_coord_look(struct ol_coord *coord, uint32_t shard, struct ol_coord_state *ret_state)
{
	(void)coord;
	memset(ret_state, 0, sizeof(*ret_state));
	if (shard >= LIAR_SHARDS_MAX)
		return;
	*ret_state = liar.coord[shard];
	ret_state->connected = true;
	ret_state->lease_ns = liar.now_ns + OL_NS_PER_S;
}

void __wrap_ol_coord_propose(struct ol_coord *coord, uint32_t shard, uint64_t version,
			     const struct ol_view *next)
{
	struct ol_view checked;
	char text[OL_VIEW_TEXT_MAX];

	(void)coord;
	/* what the product proposes must be a view */
	must(ol_view_decode(text, ol_view_encode(next, text), &checked) == 0);
	if (liar.honest_coord && version == liar.coord[shard].version)
		set_view(shard, next);
}
