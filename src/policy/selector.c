/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * selector.c -- which blocks a running checkpoint saves next
 *
 * A turn takes blocks off a heap, in the order of a key, then of age since the last save, then of
 * position. PRIORITY's key is the distance; RANDOM's is drawn; ROUND_ROBIN's is constant, so that
 * age decides. A balance of floats limits how many blocks a turn takes.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "outlast_policy.h"

struct candidate {
	double key;
	uint64_t saved; /* the turn it was saved in; 0: never */
	uint32_t block;
};

struct ol_selector {
	enum ol_selection selection;
	uint32_t count;
	double share; /* floats a turn */
	double balance; /* floats that may still be selected */
	uint64_t turn;
	uint64_t random; /* state */
	uint64_t *lengths;
	uint64_t *saved;
	struct candidate *heap;
	bool *taken;
};

static bool valid(enum ol_selection selection, const uint64_t *lengths, uint32_t count,
		  double fraction)
{
	if (selection != OL_SELECT_PRIORITY && selection != OL_SELECT_ROUND_ROBIN &&
	    selection != OL_SELECT_RANDOM)
		return false;
	if (lengths == NULL || count == 0 || !(fraction > 0.0 && fraction <= 1.0))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (lengths[i] == 0)
			return false;
	}
	return true;
}

int ol_selector_create(enum ol_selection selection, const uint64_t *lengths, uint32_t count,
		       double fraction, uint64_t seed, struct ol_selector **ret_selector)
{
	struct ol_selector *selector;
	double total = 0.0;

	if (!valid(selection, lengths, count, fraction))
		return -EINVAL;
	selector = calloc(1, sizeof(*selector));
	if (selector == NULL)
		return -ENOMEM;
	selector->lengths = calloc(count, sizeof(*selector->lengths));
	selector->saved = calloc(count, sizeof(*selector->saved));
	selector->heap = calloc(count, sizeof(*selector->heap));
	selector->taken = calloc(count, sizeof(*selector->taken));
	if (selector->lengths == NULL || selector->saved == NULL || selector->heap == NULL ||
	    selector->taken == NULL) {
		ol_selector_destroy(selector);
		return -ENOMEM;
	}
	memcpy(selector->lengths, lengths, count * sizeof(*lengths));
	for (uint32_t i = 0; i < count; i++)
		total += (double)lengths[i];
	selector->selection = selection;
	selector->count = count;
	selector->share = fraction * total;
	selector->random = seed;
	*ret_selector = selector;
	return 0;
}

void ol_selector_destroy(struct ol_selector *selector)
{
	if (selector == NULL)
		return;
	free(selector->lengths);
	free(selector->saved);
	free(selector->heap);
	free(selector->taken);
	free(selector);
}

/* SplitMix64 */
static uint64_t draw(struct ol_selector *selector)
{
	uint64_t z = selector->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static double key_of(struct ol_selector *selector, double distance)
{
	switch (selector->selection) {
	case OL_SELECT_PRIORITY:
		/* NaN: the block must not replace a finite one in the checkpoint */
		return isnan(distance) ? -1.0 : distance;
	case OL_SELECT_RANDOM:
		return (double)(draw(selector) >> 11);
	case OL_SELECT_FULL:
	case OL_SELECT_ROUND_ROBIN:
		break;
	}
	return 0.0;
}

static bool goes_first(const struct candidate *a, const struct candidate *b)
{
	if (a->key != b->key)
		return a->key > b->key;
	if (a->saved != b->saved)
		return a->saved < b->saved;
	return a->block < b->block;
}

static void sift_down(struct candidate *heap, uint32_t count, uint32_t at)
{
	struct candidate moved = heap[at];

	for (;;) {
		uint64_t child = 2 * (uint64_t)at + 1;

		if (child >= count)
			break;
		if (child + 1 < count && goes_first(&heap[child + 1], &heap[child]))
			child++;
		if (!goes_first(&heap[child], &moved))
			break;
		heap[at] = heap[child];
		at = (uint32_t)child;
	}
	heap[at] = moved;
}

uint32_t ol_selector_turn(struct ol_selector *selector, const double *distance, uint32_t *chosen)
{
	struct candidate *heap = selector->heap;
	uint32_t left = selector->count, count = 0;

	for (uint32_t i = 0; i < left; i++) {
		heap[i] = (struct candidate){
			.key = key_of(selector, distance != NULL ? distance[i] : 0.0),
			.saved = selector->saved[i],
			.block = i,
		};
		selector->taken[i] = false;
	}
	for (uint32_t i = left / 2; i-- > 0;)
		sift_down(heap, left, i);
	selector->turn++;
	selector->balance += selector->share;
	/* take the nearest number of blocks; a large block is not skipped, as it would never be
	 * saved */
	while (left > 0 && selector->balance >= (double)selector->lengths[heap[0].block] / 2.0) {
		selector->balance -= (double)selector->lengths[heap[0].block];
		selector->saved[heap[0].block] = selector->turn;
		selector->taken[heap[0].block] = true;
		heap[0] = heap[--left];
		if (left > 0)
			sift_down(heap, left, 0);
	}
	for (uint32_t i = 0; i < selector->count; i++) {
		if (selector->taken[i])
			chosen[count++] = i;
	}
	return count;
}
