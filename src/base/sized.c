/* SPDX-License-Identifier: BSD-3-Clause */

/* sized.c -- copy structs in and out that the caller may know in another length */

#include "base/sized.h"

#include <stdint.h>
#include <string.h>

enum {
	SIZED_MAX = 4096 /* bytes; a larger size, or no multiple of 8, was not initialised */
};

const char *ol_sized_take(void *ours, size_t our_bytes, const void *theirs, size_t their_bytes)
{
	const uint8_t *bytes = theirs;

	/* the first field of options is their size */
	if (their_bytes < sizeof(size_t) || their_bytes > SIZED_MAX ||
	    their_bytes % sizeof(uint64_t) != 0)
		return "size is not valid: set the options with their init function first";
	for (size_t i = our_bytes; i < their_bytes; i++) {
		if (bytes[i] != 0)
			return "of a newer version of the library is set: leave it out, or update "
			       "the library";
	}
	memcpy(ours, theirs, their_bytes < our_bytes ? their_bytes : our_bytes);
	return NULL;
}

void ol_sized_give(void *theirs, size_t their_bytes, const void *ours, size_t our_bytes)
{
	if (their_bytes > our_bytes)
		memset((uint8_t *)theirs + our_bytes, 0, their_bytes - our_bytes);
	memcpy(theirs, ours, their_bytes < our_bytes ? their_bytes : our_bytes);
}
