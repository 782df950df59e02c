/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sized.h -- structs of a program that was compiled with another version of the public headers
 *
 * New fields go at the end, so the shorter version of a struct is the beginning of the longer one.
 * Sizes are the sizeof of each side's compiler.
 */
#ifndef OL_BASE_SIZED_H
#define OL_BASE_SIZED_H

#include <stddef.h>

/*
 * ol_sized_take -- copy the program's struct over ours, which holds defaults
 *
 * Fields that a shorter one lacks keep their defaults. Returns NULL, or the end of an error line
 * after "option": the size is impossible, or a longer struct sets a field that this version does not
 * know. Then ours is unchanged.
 */
const char *ol_sized_take(void *ours, size_t our_bytes, const void *theirs, size_t their_bytes);

/* ol_sized_give -- copy our struct into the program's, cut to its size; fields that ours lacks are 0 */
void ol_sized_give(void *theirs, size_t their_bytes, const void *ours, size_t our_bytes);

#endif /* OL_BASE_SIZED_H */
