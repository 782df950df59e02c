/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sized.h -- structs of a program that was compiled with another version of the public headers
 *
 * New fields go at the end, so of two versions of a struct the shorter one is the beginning of the
 * longer one. Sizes are what sizeof gave to each side's compiler.
 */
#ifndef OL_BASE_SIZED_H
#define OL_BASE_SIZED_H

#include <stddef.h>

/*
 * ol_sized_take -- copy the program's struct over ours, which holds defaults
 *
 * What a shorter one lacks keeps its default. Returns NULL, or what goes behind "option" in a line:
 * the size is none that a struct can have, or a longer one has set what this version does not know.
 * Ours then is unchanged.
 */
const char *ol_sized_take(void *ours, size_t our_bytes, const void *theirs, size_t their_bytes);

/* ol_sized_give -- copy our struct into the program's, cut where that ends; what is behind is 0 */
void ol_sized_give(void *theirs, size_t their_bytes, const void *ours, size_t our_bytes);

#endif /* OL_BASE_SIZED_H */
