/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * seq.h -- the number of a push: the worker's process, and its count of pushes
 *
 *	bits 63 … 40    tag: random, never 0, drawn by each worker process when it opens
 *	bits 39 … 0     count: 1, 2, 3 … of that process at that shard
 *
 * A worker id outlives its process, and a server may go back to weights with pushes of an earlier
 * process of the id. Those numbers must never pass for numbers of the present process. So only
 * numbers of one process are ordered.
 */
#ifndef OL_WIRE_SEQ_H
#define OL_WIRE_SEQ_H

#include <stdbool.h>
#include <stdint.h>

enum {
	OL_SEQ_COUNT_BITS = 40
};

#define OL_SEQ_TAG_MAX    ((UINT32_C(1) << 24) - 1)
#define OL_SEQ_COUNT_MASK ((UINT64_C(1) << OL_SEQ_COUNT_BITS) - 1)
#define OL_SEQ_COUNT_MAX  (OL_SEQ_COUNT_MASK - 1) /* one more is still of the same process */

static inline uint64_t ol_seq_make(uint32_t tag, uint64_t count)
{
	return (uint64_t)tag << OL_SEQ_COUNT_BITS | count;
}

static inline uint32_t ol_seq_tag(uint64_t seq)
{
	return (uint32_t)(seq >> OL_SEQ_COUNT_BITS);
}

static inline uint64_t ol_seq_count(uint64_t seq)
{
	return seq & OL_SEQ_COUNT_MASK;
}

/* ol_seq_contains -- weights with a worker's pushes up to `applied` contain its push seq */
static inline bool ol_seq_contains(uint64_t applied, uint64_t seq)
{
	return ol_seq_tag(applied) == ol_seq_tag(seq) && applied >= seq;
}

/* ol_seq_lacking -- how many of a worker's pushes up to `seq` weights with those up to `applied` lack */
static inline uint64_t ol_seq_lacking(uint64_t applied, uint64_t seq)
{
	if (seq == 0 || ol_seq_contains(applied, seq))
		return 0;
	return ol_seq_count(seq) -
	       (ol_seq_tag(applied) == ol_seq_tag(seq) ? ol_seq_count(applied) : 0);
}

#endif /* OL_WIRE_SEQ_H */
