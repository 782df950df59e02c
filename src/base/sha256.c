/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sha256.c -- fingerprint of bytes, as text
 */
#include "base/sha256.h"

#include <errno.h>
#include <openssl/evp.h>

int ol_sha256_hex(const void *data, size_t bytes, char ret_hex[OL_SHA256_HEX_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char digest[OL_SHA256_BYTES];
	unsigned len = 0;

	if (EVP_Digest(data, bytes, digest, &len, EVP_sha256(), NULL) != 1 || len != sizeof(digest))
		return -EIO;
	for (size_t i = 0; i < sizeof(digest); i++) {
		ret_hex[2 * i] = digits[digest[i] >> 4];
		ret_hex[2 * i + 1] = digits[digest[i] & 15];
	}
	ret_hex[OL_SHA256_HEX_BYTES - 1] = '\0';
	return 0;
}
