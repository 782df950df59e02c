/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * puppet.h -- a server that the test controls: it admits workers, and then sends only what the test
 * orders
 *
 * One shard of two floats, unless puppet_shard() says otherwise; no optimizer; only worker 0. It
 * does its part of the handshake in puppet_poll(). Gradients that land in it are listed, and not
 * applied.
 */
#ifndef OL_TESTS_SUPPORT_PUPPET_H
#define OL_TESTS_SUPPORT_PUPPET_H

#include <stdbool.h>

#include "rdma/transport.h"
#include "wire/wire.h"

enum {
	PUPPET_LEN = 2, /* floats */
	PUPPET_WINDOW = 8,
	PUPPET_PUSHES_MAX = 64,
	PUPPET_ROLES = OL_ROLE_READER + 1
};

/* What a worker of one role is to it. */
struct puppet_session {
	struct ol_xport_conn *conn; /* NULL: nobody is connected */
	struct ol_slab *landing;
	struct ol_xport_region *region;
	struct ol_hello hello;
	bool said_hello;
	bool welcomed;
	uint32_t epoch; /* of the welcome */
	unsigned hellos; /* ever */
};

struct puppet_push {
	uint64_t seq; /* its count: the tag is the worker's affair */
	uint64_t base_version;
	uint32_t slot;
	float value; /* first float of the gradient */
};

struct puppet {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	char addr[OL_XPORT_ADDR_MAX];
	uint64_t id; /* of the process that it plays */
	const char *key; /* job key */
	bool foreign; /* it does not take the worker's protocol for its own */
	unsigned knocks; /* ever */
	struct ol_geometry geo;
	float lr; /* that it says the job has; 0: no plain SGD */
	uint32_t nonfinite; /* 1: it says that gradients may hold a NaN */
	uint64_t init; /* that it says of the job's first weights */
	struct ol_slab *memory; /* public */
	struct ol_xport_region *region;
	struct ol_wire_connect asked; /* the last knock */
	uint8_t m[OL_NONCE_BYTES];
	struct puppet_session sessions[PUPPET_ROLES]; /* by role */
	struct puppet_push pushes[PUPPET_PUSHES_MAX];
	unsigned push_count;
	unsigned withdrawals; /* how often a worker said so */
	unsigned pins; /* how often it rang for a pin */
	unsigned decisions; /* how often it carried one here */
	unsigned parts; /* announcements of parts of gradients … */
	uint64_t part_first; /* … and from which float on the last one says that all is there */
	uint64_t version; /* published last */
	bool scarce; /* it tells whoever comes to come back, and then that it has no memory */
	unsigned scarcities; /* so often */
	bool full; /* it tells whoever knocks that it has no place left */
	bool crowded; /* it answers no call, so that each keeps one of its connections */
	unsigned crowd; /* calls not answered */
	bool torn; /* its acknowledgements are not whole */
	uint64_t dropped; /* of the pushes that its welcomes speak of: not in its weights */
};

/* puppet_open -- listen; id: of the process, and in the address */
void puppet_open(struct puppet *puppet, uint64_t id);
void puppet_close(struct puppet *puppet);
void puppet_poll(struct puppet *puppet);
/* puppet_shard -- before anybody connects: it is the server of one of several shards */
void puppet_shard(struct puppet *puppet, uint32_t shard, uint32_t count);
/* puppet_size -- before anybody connects: its one shard has so many floats, all 0 but the first
 * two */
void puppet_size(struct puppet *puppet, uint64_t floats);

/* seq, here and below: counts of the pushes of the worker's process */
/* puppet_publish -- a version of weights that are all `value`, with worker 0's pushes up to seq */
void puppet_publish(struct puppet *puppet, uint64_t version, float value, uint64_t seq);

/* puppet_welcome -- to whom said hello in this role: pushes up to seq are resolved */
void puppet_welcome(struct puppet *puppet, enum ol_wire_role role, uint32_t epoch, uint64_t seq);
/* puppet_ack -- the last push that landed in a slot of whichever server was seq */
void puppet_ack(struct puppet *puppet, enum ol_wire_role role, uint64_t seq, uint32_t slot,
		int status);
/* puppet_held -- of a push that has landed: it is here, and not resolved */
void puppet_held(struct puppet *puppet, uint64_t seq, uint32_t slot);
/* puppet_knows -- it says in its version line which founding of shard 0 it knows */
void puppet_knows(struct puppet *puppet, uint32_t founded);
/* puppet_cut -- end the session */
void puppet_cut(struct puppet *puppet, enum ol_wire_role role);

/* puppet_waits -- somebody said hello in this role, and was not welcomed */
static inline bool puppet_waits(const struct puppet *puppet, enum ol_wire_role role)
{
	return puppet->sessions[role].said_hello && !puppet->sessions[role].welcomed;
}

static inline bool puppet_connected(const struct puppet *puppet, enum ol_wire_role role)
{
	return puppet->sessions[role].conn != NULL;
}

#endif /* OL_TESTS_SUPPORT_PUPPET_H */
