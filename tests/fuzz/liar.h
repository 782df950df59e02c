/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * liar.h -- a transport, a coordinator and a clock that an input controls
 *
 * The fuzz target is the peer of every connection of the product. It makes events, lets writes land
 * in memory that the product has handed out keys of, and answers reads from `far` memory. It keeps
 * the promises of rdma/transport.h, and checks the product's use of the transport: segments, keys.
 * Each slab is a block of its own, so that a sanitizer notices an access behind its end, and all
 * must be freed.
 *
 * The linker inserts it (liar_wrap.h). It serves one input at a time, in one thread.
 */
#ifndef OL_TESTS_FUZZ_LIAR_H
#define OL_TESTS_FUZZ_LIAR_H

#include <stdbool.h>

#include "rdma/transport.h"
#include "replication/coord/coord.h"
#include "support/fuzz.h"
#include "wire/wire.h"

enum {
	LIAR_PRIV_MAX = 256,
	LIAR_LAST_MAX = 256,
	LIAR_FAR_BYTES = 16 * OL_PAGE_BYTES,
	LIAR_SHARDS_MAX = 2,
	LIAR_IDS = 4 /* server processes: ids LIAR_ID … in views */
};

#define LIAR_ID  UINT64_C(11)
#define LIAR_KEY "the key that a liar has"

enum liar_state {
	LIAR_CALLS, /* the product called; no answer yet */
	LIAR_ASKS, /* the product was called, and has not answered */
	LIAR_UP,
	LIAR_DOWN, /* its CONN_DOWN is queued or given; or it broke a rule */
};

struct liar_conn {
	struct ol_xport_conn base;
	enum liar_state state;
	struct ol_wire_connect call; /* what the product called with */
	char addr[OL_XPORT_ADDR_MAX]; /* … and whom */
	uint32_t imm; /* of its last doorbell … */
	uint8_t last[LIAR_LAST_MAX]; /* … and the end of what came with it */
	size_t last_bytes;
	struct liar_conn *next;
};

struct liar {
	const uint8_t *at; /* of the input */
	size_t left;
	uint64_t now_ns;
	bool keeps; /* caps.fence_keeps */
	bool honest_coord; /* what is proposed comes into force */
	unsigned refuse; /* posts that get -EAGAIN from now on */
	uint8_t far[LIAR_FAR_BYTES];
	struct liar_conn *conns;
	uint8_t m[OL_NONCE_BYTES]; /* nonce of the product's last challenge … */
	uint64_t made_ns; /* … and its time */
	struct ol_wire_accept accept; /* what is said to a proof that is let in */
	struct ol_coord_state coord[LIAR_SHARDS_MAX];
	struct ol_member self; /* of a server that has joined; id 0: none */
	void (*turn)(void); /* called by a poll that finds nothing; NULL: none */
};

extern struct liar liar;

/* liar_begin -- from here on the product is lied to; liar_end -- it must have freed everything */
void liar_begin(const uint8_t *data, size_t bytes);
void liar_end(void);

/* The next of the input; 0 behind its end */
uint8_t liar_byte(void);
uint32_t liar_u32(void);
/* liar_bytes -- up to max bytes, as many as the input says; the rest of out is 0. How many. */
size_t liar_bytes(void *out, size_t max);
/* liar_patch -- change as many bytes of a record as the input says: mostly none */
void liar_patch(void *record, size_t bytes);

/* liar_pick -- a connection by number; NULL: there are none */
struct liar_conn *liar_pick(unsigned number);
/* liar_land -- write into the memory that the peer of conn may write; what does not fit is cut */
void liar_land(const struct liar_conn *conn, uint64_t off, const void *bytes, size_t count);
/* liar_bell -- ring the product */
void liar_bell(struct liar_conn *conn, enum ol_bell bell, uint32_t arg);
/* liar_land_any -- bytes of the input, anywhere in the first `span` of it */
void liar_land_any(const struct liar_conn *conn, uint32_t span);
/* liar_bell_any -- ring the product as the input says */
void liar_bell_any(struct liar_conn *conn);
/* liar_far_any -- bytes of the input, anywhere in `far` */
void liar_far_any(void);
/* liar_up -- the product's call is answered with yes; liar_down -- a connection ends, or a call */
void liar_up(struct liar_conn *conn, const void *priv, size_t priv_bytes);
void liar_down(struct liar_conn *conn, int status, const void *priv, size_t priv_bytes);
/* liar_serve -- answer the oldest read, if there is one, from `far` */
void liar_serve(void);
/* liar_next -- take the oldest event; false: there is none */
bool liar_next(struct ol_xport_event *ret_event);

/* liar_ask -- call the product: these bytes, or a knock or proof that knows the key */
void liar_ask_raw(const void *priv, size_t priv_bytes);
void liar_ask(enum ol_wire_connect_kind kind, enum ol_wire_role role, uint32_t worker);
/* liar_answer -- to the product's call, as the input says: mostly as a server that knows the key */
void liar_answer(struct liar_conn *conn);

/* liar_view -- a view of a shard as the input says, of servers LIAR_ID … and self */
void liar_view(uint32_t shard, uint32_t shard_count);
/* liar_members -- who is registered, as the input says */
void liar_members(uint32_t shard);

#endif /* OL_TESTS_FUZZ_LIAR_H */
