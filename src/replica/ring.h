/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ring.h -- a replica's ring of entries: its memory, and how an entry is read from it
 *
 * Layout in replication/entry.h. Where a transport cannot take memory back from a peer (shm), the
 * ring a predecessor could write is not kept when that is fenced off: what is still needed moves
 * to another slab and the old one is destroyed. A new slab is mapped and no more: the memory thread
 * touches it while it is in use already, and whoever is faster takes the fault.
 *
 * Heads and parts are used from a copy that a predecessor cannot reach: what was checked when an
 * entry came is what is applied, whatever is written over it meanwhile.
 */
#ifndef OL_REPLICA_RING_H
#define OL_REPLICA_RING_H

#include <stdbool.h>

#include "link/memory.h"
#include "rdma/transport.h"
#include "replication/entry.h"
#include "wire/layout.h"

struct ol_ring {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_memory *memory;
	struct ol_memory_job *job; /* of the slab, which it owns */
	struct ol_slab *slab;
	struct ol_xport_conn *conn; /* to the successor; NULL: there is none … */
	struct ol_xport_region *local; /* … and for it alone: entries are forwarded from here */
	bool keeps; /* the slab is good after a fence: it is never another */
	uint64_t payload_bytes;
	uint64_t stride;
	size_t bytes; /* of the slab */
	uint64_t oldest; /* entries before it did not come along when the ring was renewed */
	uint32_t slots;
	uint32_t parts_max;
	int node;
	struct ol_entry_head *heads; /* one a slot … */
	struct ol_entry_part *parts; /* … and parts_max; behind them as many for what just came */
};

int ol_ring_open(struct ol_ring *ring, const struct ol_xport_ops *ops, struct ol_xport *xport,
		 struct ol_memory *memory, const struct ol_geometry *geo, int node);
void ol_ring_close(struct ol_ring *ring);

/* ol_ring_reg -- entries will be forwarded over conn; ol_ring_dereg -- no more, conn is freed */
int ol_ring_reg(struct ol_ring *ring, struct ol_xport_conn *conn);
void ol_ring_dereg(struct ol_ring *ring);

/*
 * ol_ring_renew -- memory that the fenced predecessor cannot write, with entries first … last
 *
 * The connection that could write it, and its region, must be gone. Errors: the ring must not be
 * used.
 */
int ol_ring_renew(struct ol_ring *ring, uint64_t first, uint64_t last);

/* Where entry `version` lies in the slab, and in the successor's ring */
static inline uint64_t ol_ring_off(const struct ol_ring *ring, uint64_t version)
{
	return OL_PAGE_BYTES + version % ring->slots * ring->stride;
}

static inline float *ol_ring_payload(const struct ol_ring *ring, uint64_t version)
{
	return (float *)(void *)((uint8_t *)ring->slab->addr + ol_ring_off(ring, version));
}

/* Of an entry that is whole, or is being made here */
static inline struct ol_entry_head *ol_ring_head(const struct ol_ring *ring, uint64_t version)
{
	return &ring->heads[version % ring->slots];
}

static inline struct ol_entry_part *ol_ring_parts(const struct ol_ring *ring, uint64_t version)
{
	return &ring->parts[version % ring->slots * ring->parts_max];
}

/* ol_ring_bytes -- of an entry with so many parts */
static inline uint64_t ol_ring_bytes(const struct ol_ring *ring, uint32_t parts)
{
	return ring->payload_bytes + sizeof(struct ol_entry_head) +
	       (uint64_t)parts * sizeof(struct ol_entry_part);
}

/* ol_ring_seal -- an entry whose payload and parts are there gets its head, and lies in the slab */
void ol_ring_seal(struct ol_ring *ring, uint64_t version, uint32_t epoch, uint32_t parts);
/* ol_ring_take -- true: the slot holds that entry, with a head and parts that can be; they are
 * ol_ring_head()'s and ol_ring_parts()'s from now on */
bool ol_ring_take(struct ol_ring *ring, uint64_t version);

#endif /* OL_REPLICA_RING_H */
