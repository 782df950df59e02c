/* SPDX-License-Identifier: BSD-3-Clause */

/* ring.c -- the memory that entries lie in */

#include "replica/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"

/* Make a slab; it may be used at once, while the memory thread still touches its pages */
static int slab_make(struct ol_ring *ring, struct ol_memory_job **ret_job)
{
	struct ol_memory_job *job = ol_memory_job_make(ring, ring->bytes, ring->node, NULL);
	int rc;

	if (job == NULL)
		return -ENOMEM;
	rc = ol_slab_map(ring->bytes, ring->node, ring->slab_flags, &job->slab);
	if (rc != 0) {
		ol_memory_give_back(ring->memory, job);
		return rc;
	}
	ol_memory_ask(ring->memory, job, OL_MEMORY_TOUCH);
	*ret_job = job;
	return 0;
}

int ol_ring_open(struct ol_ring *ring, const struct ol_xport_ops *ops, struct ol_xport *xport,
		 struct ol_memory *memory, const struct ol_geometry *geo, int node)
{
	struct ol_xport_caps caps;
	int rc;

	ops->query(xport, &caps);
	*ring = (struct ol_ring){ .ops = ops,
				  .xport = xport,
				  .memory = memory,
				  .payload_bytes = ol_layout_vector_bytes(geo),
				  .stride = ol_layout_entry_stride(geo),
				  .slots = ol_layout_ring_slots(geo),
				  .bytes = ol_layout_ring_bytes(geo),
				  .parts_max = geo->workers_max,
				  .extra_bytes = (uint32_t)ol_layout_rule_bytes(geo),
				  .geo = *geo,
				  .keeps = caps.fence_keeps != 0,
				  .slab_flags = caps.slab_flags,
				  .node = node };
	ring->heads = calloc(ring->slots, sizeof(*ring->heads));
	ring->parts = calloc((ring->slots + (size_t)1) * ring->parts_max, sizeof(*ring->parts));
	ring->extras = calloc(ring->slots + (size_t)1, ring->extra_bytes);
	if (ring->heads == NULL || ring->parts == NULL || ring->extras == NULL)
		return -ENOMEM;
	rc = slab_make(ring, &ring->job);
	if (rc == 0)
		ring->slab = ring->job->slab;
	return rc;
}

int ol_ring_reg(struct ol_ring *ring, struct ol_xport_conn *conn)
{
	int rc = ring->ops->reg(ring->xport, conn, ring->slab, 0, ring->bytes,
				OL_XPORT_ACCESS_RELAXED, &ring->local);

	if (rc == 0)
		ring->conn = conn;
	return rc;
}

void ol_ring_dereg(struct ol_ring *ring)
{
	if (ring->local != NULL)
		ring->ops->dereg(ring->local);
	ring->local = NULL;
	ring->conn = NULL;
}

void ol_ring_close(struct ol_ring *ring)
{
	ol_ring_dereg(ring);
	ol_memory_give_back(ring->memory, ring->job);
	free(ring->heads);
	free(ring->parts);
	free(ring->extras);
	*ring = (struct ol_ring){ 0 };
}

int ol_ring_renew(struct ol_ring *ring, uint64_t first, uint64_t last)
{
	struct ol_xport_conn *conn = ring->conn;
	struct ol_memory_job *job = NULL;
	int rc;

	if (ring->keeps)
		return 0;
	rc = slab_make(ring, &job);
	if (rc != 0)
		return rc;
	ol_ring_dereg(ring);
	for (uint64_t version = first; version <= last; version++)
		memcpy((uint8_t *)job->slab->addr + ol_ring_off(ring, version),
		       ol_ring_payload(ring, version), ol_ring_bytes(ring, version));
	ring->job->stale = true;
	atomic_fetch_add_explicit(&ring->memory->stale, 1, memory_order_relaxed);
	ol_memory_give_back(ring->memory, ring->job);
	ring->job = job;
	ring->slab = job->slab;
	ring->oldest = first;
	return conn != NULL ? ol_ring_reg(ring, conn) : 0;
}

static inline __attribute__((always_inline)) uint32_t
crc_of(const struct ol_entry_head *head, const struct ol_entry_part *parts, const uint8_t *extra)
{
	uint32_t sums[2] = { ol_record_crc(head, sizeof(*head) - sizeof(head->crc)),
			     ol_record_crc(parts, head->parts * sizeof(*parts)) };

	if (head->extra_bytes != 0)
		sums[1] ^= ol_record_crc(extra, head->extra_bytes);
	return ol_record_crc(sums, sizeof(sums));
}

/* Where head, parts and extra of an entry lie in the slab */
static uint8_t *entry_addr(const struct ol_ring *ring, uint64_t version)
{
	return (uint8_t *)ol_ring_payload(ring, version) + ring->payload_bytes;
}

static uint8_t *extra_of(const struct ol_ring *ring, uint64_t version)
{
	return ring->extras + version % ring->slots * ring->extra_bytes;
}

void ol_ring_seal(struct ol_ring *ring, uint64_t version, uint32_t epoch, uint32_t parts,
		  const struct ol_rule *rule)
{
	struct ol_entry_head *head = ol_ring_head(ring, version);
	uint8_t *at = entry_addr(ring, version), *extra = extra_of(ring, version);

	*head = (struct ol_entry_head){ .version = version,
					.payload_bytes = ring->payload_bytes,
					.epoch = epoch,
					.parts = parts,
					.extra_bytes = rule != NULL ? ring->extra_bytes : 0 };
	if (rule != NULL) {
		memset(extra, 0, head->extra_bytes);
		memcpy(extra, rule, ol_rule_bytes_used(rule));
	}
	head->crc = crc_of(head, ol_ring_parts(ring, version), extra);
	memcpy(at, head, sizeof(*head));
	at += sizeof(*head);
	memcpy(at, ol_ring_parts(ring, version), parts * sizeof(struct ol_entry_part));
	if (rule != NULL)
		memcpy(at + parts * sizeof(struct ol_entry_part), extra, head->extra_bytes);
}

static bool rule_is_sound(const struct ol_ring *ring, const void *extra)
{
	const struct ol_rule *rule = extra;

	return ol_rule_fault(rule, &ring->geo) == NULL && rule->begin != OL_RULE_NOW;
}

/* Copy all but the payload aside and check it there: the entry before in this slot may still be
 * needed */
bool ol_ring_take(struct ol_ring *ring, uint64_t version)
{
	struct ol_entry_part *parts = &ring->parts[(size_t)ring->slots * ring->parts_max];
	uint8_t *extra = ring->extras + (size_t)ring->slots * ring->extra_bytes;
	const uint8_t *at = entry_addr(ring, version);
	struct ol_entry_head head;

	memcpy(&head, at, sizeof(head));
	if (head.version != version || head.payload_bytes != ring->payload_bytes ||
	    head.parts == 0 || head.parts > ring->parts_max ||
	    (head.extra_bytes != 0 && head.extra_bytes != ring->extra_bytes))
		return false;
	memcpy(parts, at + sizeof(head), head.parts * sizeof(*parts));
	if (head.extra_bytes != 0)
		memcpy(extra, at + sizeof(head) + head.parts * sizeof(*parts), head.extra_bytes);
	if (head.crc != crc_of(&head, parts, extra))
		return false;
	if (head.extra_bytes != 0 && !rule_is_sound(ring, extra))
		return false;
	for (uint32_t i = 0; i < head.parts; i++) {
		if (parts[i].worker >= ring->parts_max || parts[i].slot >= OL_SLOTS_MAX)
			return false;
	}
	*ol_ring_head(ring, version) = head;
	memcpy(ol_ring_parts(ring, version), parts, head.parts * sizeof(*parts));
	if (head.extra_bytes != 0)
		memcpy(extra_of(ring, version), extra, head.extra_bytes);
	return true;
}
