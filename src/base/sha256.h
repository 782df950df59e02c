/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sha256.h -- fingerprint of bytes, as text
 */
#ifndef OL_BASE_SHA256_H
#define OL_BASE_SHA256_H

#include <stddef.h>

enum {
	OL_SHA256_BYTES = 32,
	OL_SHA256_HEX_BYTES = 2 * OL_SHA256_BYTES + 1 /* with its end */
};

/* ol_sha256_hex -- lower-case digits; -EIO if the crypto library cannot */
int ol_sha256_hex(const void *data, size_t bytes, char ret_hex[OL_SHA256_HEX_BYTES]);

#endif /* OL_BASE_SHA256_H */
