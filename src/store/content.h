/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * content.h -- whether a snapshot from elsewhere, a file or a worker's mirror, can be one of a server
 */
#ifndef OL_STORE_CONTENT_H
#define OL_STORE_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/layout.h"

/* What is asked of a content besides its bounds */
struct ol_content_ask {
	bool nonfinite; /* the job allows values that are not finite */
	bool no_state; /* it comes without optimizer state, and those bytes mean nothing */
};

/*
 * ol_content_fault -- true if this is no snapshot of a server: a number of the head or of the
 * applied table is beyond its bound (wire/bounds.h), or a weight or an optimizer state is a NaN or
 * an infinity
 *
 * content: ol_layout_content_bytes(geo) bytes, aligned as floats are. why: which part and field.
 */
bool ol_content_fault(const struct ol_geometry *geo, const void *content, struct ol_content_ask ask,
		      char *why, size_t why_bytes);

#endif /* OL_STORE_CONTENT_H */
