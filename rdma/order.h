/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * order.h -- every memory-order promise the code makes, by purpose
 *
 * No other file uses memory_order_* on memory that a NIC or another process writes. To the C
 * standard a NIC is not "another thread": device barriers that an architecture needs are here.
 */
#ifndef OL_RDMA_ORDER_H
#define OL_RDMA_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ol_from_peer -- all that the peer wrote before the word just read is readable after this */
static inline void ol_from_peer(void)
{
	atomic_thread_fence(memory_order_acquire);
#if defined(__aarch64__)
	__asm__ volatile("dmb oshld" ::: "memory");
#endif
}

/* ol_to_peer -- a peer that sees a store made after this also sees all stores made before */
static inline void ol_to_peer(void)
{
	atomic_thread_fence(memory_order_release);
#if defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
#endif
}

/*
 * ol_word_load -- read a word that a peer or its NIC writes; all that was written before the word
 * is then readable. Pairs with the peer's ol_word_store() or post_write().
 */
static inline uint64_t ol_word_load(const _Atomic uint64_t *word)
{
	uint64_t value = atomic_load_explicit(word, memory_order_acquire);

	ol_from_peer();
	return value;
}

/* ol_word_store -- publish a word to peers, after all stores before it */
static inline void ol_word_store(_Atomic uint64_t *word, uint64_t value)
{
	ol_to_peer();
	atomic_store_explicit(word, value, memory_order_release);
}

/*
 * ol_word_begin -- publish a word before all later stores: the "begin" half of a version pair. A
 * reader that sees any of the later stores sees the word. Pairs with a reader that loads the data
 * first, and the word behind a read fence.
 */
static inline void ol_word_begin(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
	ol_to_peer();
}

static inline uint32_t ol_word32_load(const _Atomic uint32_t *word)
{
	uint32_t value = atomic_load_explicit(word, memory_order_acquire);

	ol_from_peer();
	return value;
}

static inline void ol_word32_store(_Atomic uint32_t *word, uint32_t value)
{
	ol_to_peer();
	atomic_store_explicit(word, value, memory_order_release);
}

/* ol_counter_add -- a counter that one thread writes and peers read; not ordered with anything */
static inline void ol_counter_add(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

/*
 * ol_order_full -- order a store before a later load. A thread needs it between its store of "I am
 * asleep" and its last look for work, its peer between "there is work" and its look at "asleep".
 */
static inline void ol_order_full(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

/* ol_cpu_relax -- inside a spin loop */
static inline void ol_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif /* OL_RDMA_ORDER_H */
