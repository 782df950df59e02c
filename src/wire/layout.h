/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * layout.h -- where things lie in the memory of one shard replica: pure functions of its geometry
 *
 * Public slab, which every worker may read:
 *
 *	offset          size            field
 *	0               4096            board: struct ol_board
 *	4096            snapshot_bytes  snapshot 0
 *	…                               snapshot 1, 2
 *
 * One snapshot, each part padded to 64 bytes, the whole to 4096:
 *
 *	0               64              head: struct ol_snapshot_head
 *	64              24 * workers_max applied table: struct ol_applied of each worker
 *	…               64 + 48 * groups rule: struct ol_rule, with that many groups (wire/rule.h)
 *	…               tensors_bytes   table of the job's tensors: a text (outlast_tensor.h)
 *	…               4 * shard_len   weights
 *	…               4 * shard_len   optimizer state, state_vectors times
 *	…               2 * shard_len   weights as bf16, if the job has readers that want these
 *
 * The optimizer state is part of the snapshot: an update writes it out of place too. So a gradient
 * found bad half-way leaves no trace, and a snapshot is a replica's whole state. Its content is all but
 * the weights as bf16, which each server makes of the others.
 *
 * Landing slab of one worker, which that worker alone may write:
 *
 *	0               4096            control page: struct ol_hello, struct ol_pin
 *	4096            slot_stride     slot 0
 *	…                               slot 1 … window - 1; slot window, if the worker asked for
 *	                                one more
 *	…               64              struct ol_decision, if shard 0 decides the job's steps; behind it
 *	                                head, applied table, rule and tensors of another shard's snapshot,
 *	                                zeros up to a page; and the same again, OL_DECISION_PLACES
 *
 * One slot:
 *
 *	0               vector_bytes    gradient: 4 * shard_len padded to 64; in a shorter format
 *	                                (wire/format.h) it ends here, too, so that it lies before
 *	                                its header
 *	vector_bytes    64              struct ol_push_hdr
 *	…               rule_bytes      a rule that the push brings, if its header says so
 *
 * Slots start on a page, and shards on a multiple of OL_SHARD_ALIGN floats: so on shm the payloads
 * of several shards can be mapped one behind the other into one flat vector.
 */
#ifndef OL_WIRE_LAYOUT_H
#define OL_WIRE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "outlast_rule.h"
#include "replication/entry.h"

enum {
	OL_SNAPSHOTS = 3,
	OL_ELEM_BYTES = 4, /* of a weight, a gradient's element, optimizer state: fp32 */
	OL_BF16_BYTES = 2, /* of a weight for readers that want it so */
	OL_SHARD_ALIGN = 1024, /* floats: one page */
	OL_PAGE_BYTES = 4096,
	OL_LINE_BYTES = 64,
	OL_SHARDS_MAX = 64, /* of a job */
	OL_WORKERS_MAX = 1024, /* ids of a job */
	OL_WINDOW_MAX = 64, /* gradient buffers a worker */
	OL_SLOTS_MAX = OL_WINDOW_MAX + 1, /* landing slots a worker: one more for its queue */
	OL_STATE_VECTORS_MAX = 2,
	OL_DECISION_PLACES = 2, /* a worker (wire.h, struct ol_decision) */
};

#define OL_PARAM_COUNT_MAX ((uint64_t)1 << 40) /* floats of a job */

/* Head of a snapshot */
struct ol_snapshot_head {
	uint64_t optimizer_steps; /* updates that the optimizer state has seen */
	/* A server's word for version and table: wire/vouch.h. Of a checkpoint it means nothing */
	uint64_t voucher; /* id of the server process that published the snapshot */
	uint64_t number; /* counts its words */
	uint64_t tag;
	uint64_t init; /* digest of worker 0's first weights, with which the job began; 0: others */
	uint64_t reserved[3];
};

/* One worker's gradients in a snapshot's weights */
struct ol_applied {
	uint64_t seq; /* of its last push: wire/seq.h */
	uint64_t grads; /* gradients: a push from a queue holds several */
	uint64_t earlier; /* of these, by processes before the one that seq names */
};

/* ol_applied_of -- a worker's entry of a table, which a snapshot's head begins */
static inline struct ol_applied ol_applied_of(const uint8_t *table, uint32_t worker_id)
{
	const void *entries = table + sizeof(struct ol_snapshot_head);

	return ((const struct ol_applied *)entries)[worker_id];
}

/* The sizes that worker and server must agree on */
struct ol_geometry {
	uint64_t param_count; /* of the job */
	uint64_t shard_first;
	uint64_t shard_len;
	uint32_t shard;
	uint32_t shard_count;
	uint32_t workers_max;
	uint32_t window;
	uint32_t state_vectors;
	uint32_t consistency; /* enum ol_consistency */
	uint32_t groups; /* of the rule, at most */
	uint32_t tensors_bytes; /* of the table of tensors, with zeros behind it; 0: none */
	uint32_t weights_bf16; /* 1: snapshots have the weights as bf16, too */
	uint32_t decided; /* 1: shard 0 decides which gradients make a step of every shard */
	uint64_t tensors_digest; /* of its text (wire/tensor.h); 0: none, or not known */
};

/* ol_geometry_check -- 0, or OL_E_GEOMETRY if these numbers cannot be a shard of a job */
int ol_geometry_check(const struct ol_geometry *geo);

/* ol_geometry_difference -- NULL, or the first thing that differs, as it stands behind "another" */
const char *ol_geometry_difference(const struct ol_geometry *a, const struct ol_geometry *b);

static inline uint64_t ol_round_up(uint64_t value, uint64_t align)
{
	return (value + align - 1) / align * align;
}

/* ol_layout_rule_off -- where the rule lies in a snapshot: behind the applied table */
static inline uint64_t ol_layout_rule_off(const struct ol_geometry *geo)
{
	return sizeof(struct ol_snapshot_head) +
	       ol_round_up(geo->workers_max * sizeof(struct ol_applied), OL_LINE_BYTES);
}

/* ol_layout_rule_bytes -- a rule of as many groups as fit */
static inline uint64_t ol_layout_rule_bytes(const struct ol_geometry *geo)
{
	return ol_round_up(offsetof(struct ol_rule, groups) +
				   geo->groups * sizeof(struct ol_rule_group),
			   OL_LINE_BYTES);
}

/* ol_layout_tensors_off -- where the table of tensors lies in a snapshot: behind the rule */
static inline uint64_t ol_layout_tensors_off(const struct ol_geometry *geo)
{
	return ol_layout_rule_off(geo) + ol_layout_rule_bytes(geo);
}

/* ol_layout_table_bytes -- head, applied table, rule and table of tensors, up to the weights */
static inline uint64_t ol_layout_table_bytes(const struct ol_geometry *geo)
{
	return ol_layout_tensors_off(geo) + geo->tensors_bytes;
}

/* ol_layout_vector_bytes -- weights, a gradient or one state vector, padded */
static inline uint64_t ol_layout_vector_bytes(const struct ol_geometry *geo)
{
	return ol_round_up(geo->shard_len * OL_ELEM_BYTES, OL_LINE_BYTES);
}

/* ol_layout_shard_off -- where a shard begins in the flat vector of the whole job */
static inline uint64_t ol_layout_shard_off(const struct ol_geometry *geo)
{
	return geo->shard_first * OL_ELEM_BYTES;
}

/* ol_layout_content_bytes -- a replica's whole state: table, weights, optimizer state */
static inline uint64_t ol_layout_content_bytes(const struct ol_geometry *geo)
{
	return ol_layout_table_bytes(geo) + ol_layout_vector_bytes(geo) * (1 + geo->state_vectors);
}

/* ol_layout_bf16_off -- where the weights lie as bf16 in a snapshot: behind its content */
static inline uint64_t ol_layout_bf16_off(const struct ol_geometry *geo)
{
	return ol_layout_content_bytes(geo);
}

/* ol_layout_bf16_bytes -- of these, padded; 0: there are none */
static inline uint64_t ol_layout_bf16_bytes(const struct ol_geometry *geo)
{
	return geo->weights_bf16 ? ol_round_up(geo->shard_len * OL_BF16_BYTES, OL_LINE_BYTES) : 0;
}

static inline uint64_t ol_layout_snapshot_bytes(const struct ol_geometry *geo)
{
	return ol_round_up(ol_layout_bf16_off(geo) + ol_layout_bf16_bytes(geo), OL_PAGE_BYTES);
}

static inline uint64_t ol_layout_snapshot_off(const struct ol_geometry *geo, uint32_t index)
{
	return OL_PAGE_BYTES + index * ol_layout_snapshot_bytes(geo);
}

static inline uint64_t ol_layout_public_bytes(const struct ol_geometry *geo)
{
	return ol_layout_snapshot_off(geo, OL_SNAPSHOTS);
}

static inline uint64_t ol_layout_slot_stride(const struct ol_geometry *geo)
{
	return ol_round_up(ol_layout_vector_bytes(geo) + OL_LINE_BYTES + ol_layout_rule_bytes(geo),
			   OL_PAGE_BYTES);
}

static inline uint64_t ol_layout_slot_off(const struct ol_geometry *geo, uint32_t slot)
{
	return OL_PAGE_BYTES + slot * ol_layout_slot_stride(geo);
}

/* ol_layout_decision_off -- where a worker writes a decision, behind its slots: at one of OL_DECISION_PLACES */
static inline uint64_t ol_layout_decision_off(const struct ol_geometry *geo, uint32_t slot_count,
					      uint32_t place)
{
	return ol_layout_slot_off(geo, slot_count) +
	       place * ol_round_up(OL_LINE_BYTES + ol_layout_table_bytes(geo), OL_PAGE_BYTES);
}

/* ol_layout_landing_bytes -- of a worker; an observer has slot_count 0 */
static inline uint64_t ol_layout_landing_bytes(const struct ol_geometry *geo, uint32_t slot_count)
{
	return ol_layout_decision_off(geo, slot_count,
				      geo->decided && slot_count > 0 ? OL_DECISION_PLACES : 0);
}

/* ol_layout_entry_stride -- of a replica's ring (replication/entry.h) */
static inline uint64_t ol_layout_entry_stride(const struct ol_geometry *geo)
{
	return ol_round_up(ol_layout_vector_bytes(geo) + sizeof(struct ol_entry_head) +
				   geo->workers_max * sizeof(struct ol_entry_part) +
				   ol_layout_rule_bytes(geo),
			   OL_PAGE_BYTES);
}

static inline uint32_t ol_layout_ring_slots(const struct ol_geometry *geo)
{
	uint64_t fit = OL_RING_BYTES / ol_layout_entry_stride(geo);

	if (fit < OL_RING_SLOTS_MIN)
		return OL_RING_SLOTS_MIN;
	return fit > OL_RING_SLOTS_MAX ? OL_RING_SLOTS_MAX : (uint32_t)fit;
}

static inline uint64_t ol_layout_ring_bytes(const struct ol_geometry *geo)
{
	return OL_PAGE_BYTES + ol_layout_ring_slots(geo) * ol_layout_entry_stride(geo);
}

#endif /* OL_WIRE_LAYOUT_H */
