/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ring.h -- doorbells between two processes: one producer, one consumer, 32 bits each
 *
 * A connection has two rings in one control segment, one a direction. A ring belongs to its
 * consumer: the consumer's doorbells_max, rounded up to a power of two, is its capacity.
 *
 *	offset  size            field   written by
 *	0       4               tail    consumer: how many doorbells it has taken, modulo 2^32
 *	128     4               asleep  consumer: the number of its present sleep, 0 awake
 *	256     8 x capacity    words   producer: doorbell p in word p modulo capacity
 *
 * A WORD HOLDS NUMBER AND IMMEDIATE. Doorbell number p (0, 1, 2 ... modulo 2^32) is stored as
 * p + 1 in the upper half and its immediate in the lower, by one 64-bit store-release. The
 * consumer looks only at the word it expects next, so a doorbell costs the transfer of one cache
 * line. An index beside the data would cost two transfers, one after the other. Before doorbell p
 * the word holds the number p + 1 - capacity: a new ring looks as if a lap had passed. Any third
 * value comes from a peer that breaks the rules, and ol_shm_ring_peek() reports it. No value from
 * a peer is used as an index.
 *
 * PAYLOAD BEFORE DOORBELL. All that the producer wrote into any region before the store-release is
 * readable after the load-acquire that sees the doorbell. Pairs: ol_word_store() in
 * ol_shm_ring_push(), ol_word_load() in ol_shm_ring_peek().
 *
 * FULL. The producer may be capacity ahead of tail. It reads tail only when its copy says full. A
 * tail that is ahead of the producer, or further behind than capacity, is a violation too.
 *
 * SLEEP. The consumer stores asleep = n (n new with each sleep, never 0), then ol_order_full(),
 * then looks at the ring once more. The producer stores a doorbell, then ol_order_full(), then
 * looks at asleep. At least one of the two looks sees the other's store: no wake-up is lost. The
 * producer remembers the last n it woke, and wakes each sleep once. It never writes asleep: a late
 * "awake" could hide the next sleep. An old n cannot hide one either: if the producer sees n after
 * the consumer stored n + 1, then, by the two fences, the consumer's look sees the doorbell.
 *
 * Fields stand 128 bytes apart: prefetchers pull cache lines in pairs.
 */
#ifndef OL_RDMA_SHM_RING_H
#define OL_RDMA_SHM_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma/order.h"

enum {
	OL_SHM_LINE_BYTES = 128,
	OL_SHM_RING_WORDS_MAX = 1 << 16,
};

struct ol_shm_ring {
	_Alignas(OL_SHM_LINE_BYTES) _Atomic uint32_t tail;
	_Alignas(OL_SHM_LINE_BYTES) _Atomic uint32_t asleep;
	_Atomic uint32_t over; /* the consumer has freed the connection: reads of its memory are
				  void from now on */
	_Alignas(OL_SHM_LINE_BYTES) _Atomic uint64_t words[];
};

static_assert(offsetof(struct ol_shm_ring, asleep) == 128, "ring layout is shared with peers");
static_assert(offsetof(struct ol_shm_ring, words) == 256, "ring layout is shared with peers");
static_assert(sizeof(_Atomic uint64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
	      "a doorbell is one store");

/* The consumer's end, private to it. */
struct ol_shm_rx {
	_Atomic uint64_t *words;
	struct ol_shm_ring *ring; /* NULL: not attached, words points to a private quiet word */
	uint32_t capacity; /* a power of two */
	uint32_t next; /* number of the doorbell expected */
};

/* The producer's end, private to it. */
struct ol_shm_tx {
	struct ol_shm_ring *ring;
	uint32_t capacity;
	uint32_t next; /* number of the doorbell to come */
	uint32_t tail_seen; /* the consumer's tail when last read */
	uint32_t woken; /* the last sleep of the consumer that we ended */
};

enum ol_shm_peek {
	OL_SHM_PEEK_NONE, /* no doorbell */
	OL_SHM_PEEK_RUNG, /* one: take it with ol_shm_ring_take() */
	OL_SHM_PEEK_BROKEN, /* the peer broke the rules */
};

static inline size_t ol_shm_ring_bytes(uint32_t capacity)
{
	return offsetof(struct ol_shm_ring, words) +
	       ((capacity * sizeof(uint64_t) + OL_SHM_LINE_BYTES - 1) &
		~(size_t)(OL_SHM_LINE_BYTES - 1));
}

/* ol_shm_ring_init -- call it before the peer has the ring; its memory is zero */
static inline void ol_shm_ring_init(struct ol_shm_ring *ring, uint32_t capacity)
{
	uint32_t i;

	for (i = 0; i < capacity; i++)
		ol_word_store(&ring->words[i], (uint64_t)(uint32_t)(i + 1 - capacity) << 32);
}

/* ol_shm_ring_quiet -- no doorbell and no violation: the cost of an idle poll */
static inline bool ol_shm_ring_quiet(const struct ol_shm_rx *rx)
{
	uint64_t word = ol_word_load(&rx->words[rx->next & (rx->capacity - 1)]);

	return (uint32_t)(word >> 32) == rx->next + 1 - rx->capacity;
}

static inline enum ol_shm_peek ol_shm_ring_peek(const struct ol_shm_rx *rx, uint32_t *ret_imm)
{
	uint64_t word = ol_word_load(&rx->words[rx->next & (rx->capacity - 1)]);
	uint32_t number = (uint32_t)(word >> 32);

	if (number == rx->next + 1) {
		*ret_imm = (uint32_t)word;
		return OL_SHM_PEEK_RUNG;
	}
	return number == rx->next + 1 - rx->capacity ? OL_SHM_PEEK_NONE : OL_SHM_PEEK_BROKEN;
}

/* ol_shm_ring_take -- consume the doorbell just seen; the producer may use its word again */
static inline void ol_shm_ring_take(struct ol_shm_rx *rx)
{
	rx->next++;
	ol_word32_store(&rx->ring->tail, rx->next);
}

/* ol_shm_ring_room -- 1: one more may be pushed, 0: full, -1: the consumer's tail is impossible */
static inline int ol_shm_ring_room(struct ol_shm_tx *tx)
{
	uint32_t ahead;

	if (tx->next - tx->tail_seen < tx->capacity)
		return 1;
	tx->tail_seen = ol_word32_load(&tx->ring->tail);
	ahead = tx->next - tx->tail_seen;
	if (ahead > tx->capacity)
		return -1;
	return ahead < tx->capacity;
}

/* ol_shm_ring_push -- call it only if there is room; true: wake the consumer, it sleeps */
static inline bool ol_shm_ring_push(struct ol_shm_tx *tx, uint32_t imm)
{
	uint32_t asleep;

	ol_word_store(&tx->ring->words[tx->next & (tx->capacity - 1)],
		      (uint64_t)(tx->next + 1) << 32 | imm);
	tx->next++;
	ol_order_full();
	asleep = ol_word32_load(&tx->ring->asleep);
	if (asleep == 0 || asleep == tx->woken)
		return false;
	tx->woken = asleep;
	return true;
}

#endif /* OL_RDMA_SHM_RING_H */
