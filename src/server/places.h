/* SPDX-License-Identifier: BSD-3-Clause */

/* places.h -- a set of sessions by index: what a loop does with a few of many costs the few */
#ifndef OL_SERVER_PLACES_H
#define OL_SERVER_PLACES_H

#include <stdbool.h>
#include <stdint.h>

/* A bit for each session of a server. The caller owns the words, all 0 at first. */
struct ol_places {
	uint64_t *words;
	uint32_t size; /* sessions */
	uint32_t count; /* in the set */
};

static inline uint32_t ol_places_words(uint32_t size)
{
	return (size + 63) / 64;
}

static inline bool ol_places_has(const struct ol_places *places, uint32_t index)
{
	return (places->words[index / 64] >> index % 64 & 1) != 0;
}

static inline void ol_places_add(struct ol_places *places, uint32_t index)
{
	places->count += !ol_places_has(places, index);
	places->words[index / 64] |= UINT64_C(1) << index % 64;
}

static inline void ol_places_remove(struct ol_places *places, uint32_t index)
{
	places->count -= ol_places_has(places, index);
	places->words[index / 64] &= ~(UINT64_C(1) << index % 64);
}

/* ol_places_next -- the first from `index` on that is in the set; size: none. The set may change
 * between two calls. */
static inline uint32_t ol_places_next(const struct ol_places *places, uint32_t index)
{
	uint32_t at = index / 64;
	uint64_t word;

	if (places->count == 0 || index >= places->size)
		return places->size;
	word = places->words[at] & UINT64_MAX << index % 64;
	while (word == 0) {
		if (++at == ol_places_words(places->size))
			return places->size;
		word = places->words[at];
	}
	return at * 64 + (uint32_t)__builtin_ctzll(word);
}

#endif /* OL_SERVER_PLACES_H */
