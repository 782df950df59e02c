/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * entry.h -- what goes down a chain: one update, as it lies in a ring
 *
 * Ring of a replica, which its predecessor alone may write (a head's own ring: nobody):
 *
 *	offset          size            field
 *	0               4096            control page: struct ol_chain_hello
 *	4096            stride          slot 0
 *	…                               slot 1 … slots - 1
 *
 * The entry that makes version v lies in slot v mod slots:
 *
 *	0               payload_bytes   the gradient, or the sum of a step, padded to 64
 *	payload_bytes   64              struct ol_entry_head
 *	…               64 * parts      struct ol_entry_part: whose gradients are in it
 *	…               extra_bytes     what else the update brings; a chain does not look at it
 *
 * One write, or several for a long payload, then the doorbell ENTRY(slot). A slot is written again
 * only when the entry in it is known to be committed, and on the successor: both ends have the same
 * geometry, so entries go from slot to slot without a copy.
 */
#ifndef OL_REPLICATION_ENTRY_H
#define OL_REPLICATION_ENTRY_H

#include <assert.h>
#include <stdint.h>

enum {
	OL_ENTRY_LINE = 64,
	OL_RING_SLOTS_MIN = 4,
	OL_RING_SLOTS_MAX = 64,
	OL_RING_BYTES = 16 << 20, /* as many slots as fit, within these limits */
};

struct ol_entry_head {
	uint64_t version; /* that it makes */
	uint64_t payload_bytes;
	uint32_t epoch; /* that it was ordered in */
	uint32_t parts;
	uint32_t extra_bytes; /* 0, or as many as both ends have room for */
	uint32_t reserved[8];
	uint32_t crc; /* CRC32C of those of the head before it, of the parts and of the extra */
};

static_assert(sizeof(struct ol_entry_head) == OL_ENTRY_LINE, "entry head is one line");

struct ol_entry_part {
	uint64_t seq; /* of the push */
	uint64_t base_version;
	uint32_t worker;
	uint32_t slot; /* its landing slot: which ack record answers it */
	uint32_t grads;
	uint32_t samples;
	uint32_t loss_bits; /* a float */
	uint32_t queued; /* 1: it had waited for its server */
	uint32_t reserved[6];
};

static_assert(sizeof(struct ol_entry_part) == OL_ENTRY_LINE, "entry part is one line");

#endif /* OL_REPLICATION_ENTRY_H */
