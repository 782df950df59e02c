/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ring.h -- a replica's ring of entries: its memory, and how an entry is read from it
 *
 * The layout is in replication/entry.h. A transport may not be able to revoke a peer's memory
 * (shm). Then, when a predecessor is fenced off, entries still needed move to another slab and the
 * old slab is destroyed. The new slab is only mapped: the memory thread touches its pages while it
 * is in use already, and an entry that is faster takes the page fault.
 *
 * Heads, parts and rules are used from a copy that a predecessor cannot reach. So an entry is applied as
 * it was checked when it came, whatever is written over it meanwhile.
 */
#ifndef OL_REPLICA_RING_H
#define OL_REPLICA_RING_H

#include <stdbool.h>

#include "link/memory.h"
#include "rdma/transport.h"
#include "replication/entry.h"
#include "wire/rule.h"

struct ol_ring {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_memory *memory;
	struct ol_memory_job *job; /* of the slab, which it owns */
	struct ol_slab *slab;
	struct ol_xport_conn *conn; /* to the successor; NULL: there is none */
	struct ol_xport_region *local; /* for conn only: entries are forwarded from here */
	bool keeps; /* the slab stays usable after a fence, and is never replaced */
	uint64_t payload_bytes;
	uint64_t stride;
	size_t bytes; /* of the slab */
	uint64_t oldest; /* entries before it were not copied when the ring was renewed */
	uint32_t slots;
	uint32_t parts_max;
	unsigned slab_flags; /* enum ol_slab_flags */
	int node;
	struct ol_entry_head *heads; /* one a slot */
	struct ol_entry_part *parts; /* parts_max a slot, and as many for an entry being checked */
	uint8_t *extras; /* extra_bytes a slot, and as many for an entry being checked: a rule */
	uint32_t extra_bytes;
	struct ol_geometry geo; /* that a rule is checked by */
};

int ol_ring_open(struct ol_ring *ring, const struct ol_xport_ops *ops, struct ol_xport *xport,
		 struct ol_memory *memory, const struct ol_geometry *geo, int node);
void ol_ring_close(struct ol_ring *ring);

/* ol_ring_reg -- register for conn, over which entries will be forwarded; ol_ring_dereg -- undo */
int ol_ring_reg(struct ol_ring *ring, struct ol_xport_conn *conn);
void ol_ring_dereg(struct ol_ring *ring);

/*
 * ol_ring_renew -- memory that the fenced predecessor cannot write, with entries first … last
 *
 * The connection that could write the old memory, and its region, must be gone. After an error the
 * ring must not be used.
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

/* The head of an entry that is whole, or is being made here */
static inline struct ol_entry_head *ol_ring_head(const struct ol_ring *ring, uint64_t version)
{
	return &ring->heads[version % ring->slots];
}

static inline struct ol_entry_part *ol_ring_parts(const struct ol_ring *ring, uint64_t version)
{
	return &ring->parts[version % ring->slots * ring->parts_max];
}

/* The rule that an entry brings; NULL: it brings none */
static inline const struct ol_rule *ol_ring_rule(const struct ol_ring *ring, uint64_t version)
{
	const void *at = ring->extras + version % ring->slots * ring->extra_bytes;

	return ol_ring_head(ring, version)->extra_bytes != 0 ? at : NULL;
}

/* ol_ring_bytes -- of an entry */
static inline uint64_t ol_ring_bytes(const struct ol_ring *ring, uint64_t version)
{
	const struct ol_entry_head *head = ol_ring_head(ring, version);

	return ring->payload_bytes + sizeof(*head) +
	       (uint64_t)head->parts * sizeof(struct ol_entry_part) + head->extra_bytes;
}

/* ol_ring_seal -- give an entry with payload and parts its head, and copy both into the slab. rule: a
 * valid one that it brings; NULL: none */
void ol_ring_seal(struct ol_ring *ring, uint64_t version, uint32_t epoch, uint32_t parts,
		  const struct ol_rule *rule);
/* ol_ring_take -- true: the slot holds that entry, with a valid head and parts; ol_ring_head() and
 * ol_ring_parts() return these from now on */
bool ol_ring_take(struct ol_ring *ring, uint64_t version);

#endif /* OL_REPLICA_RING_H */
