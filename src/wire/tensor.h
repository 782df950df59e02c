/* SPDX-License-Identifier: BSD-3-Clause */

/* tensor.h -- the table of tensors in a snapshot (outlast_tensor.h) */
#ifndef OL_WIRE_TENSOR_H
#define OL_WIRE_TENSOR_H

#include <stdbool.h>

#include "wire/layout.h"

/* ol_tensors_bytes -- that a table takes in a snapshot: its text, with zeros behind it. NULL: 0 */
uint32_t ol_tensors_bytes(const char *table);

/*
 * ol_tensors_digest -- of a table's text, by which worker and server tell that theirs are the same
 *
 * NULL: 0. No key is in it: a relay has another one than the job's servers. -EIO: the crypto library
 * fails.
 */
int ol_tensors_digest(const char *table, uint64_t *ret_digest);

/* ol_tensors_digests_differ -- false where one is 0: of a server that does not know its table yet */
static inline bool ol_tensors_digests_differ(uint64_t a, uint64_t b)
{
	return a != 0 && b != 0 && a != b;
}

/*
 * ol_tensors_put -- write a table (NULL: none) into a content of this geometry, which has room for it
 *
 * What is there already is not written again: peers may be reading it.
 */
void ol_tensors_put(const struct ol_geometry *geo, void *content, const char *table);

/* ol_tensors_of -- the table of a content, which a peer may have written; NULL: none, or no text */
const char *ol_tensors_of(const struct ol_geometry *geo, const void *content);

/*
 * ol_tensors_differ -- true if a content has a table, and it is another one than `mine` (NULL: any will do)
 *
 * why: one line that names the first tensor that differs.
 */
bool ol_tensors_differ(const struct ol_geometry *geo, const void *content, const char *mine,
		       char *why, size_t why_bytes);

#endif /* OL_WIRE_TENSOR_H */
