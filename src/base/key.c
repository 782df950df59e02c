/* SPDX-License-Identifier: BSD-3-Clause */

/* key.c -- the secret of a job */

#include "base/key.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"
#define HEX    DIGITS "abcdefABCDEF"
#define BASE64 DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/=_-"

/* The most bits that one character of this key can hold */
static size_t char_bits(const char *key)
{
	if (key[strspn(key, HEX)] == '\0')
		return 4;
	return key[strspn(key, BASE64)] == '\0' ? 6 : 8;
}

const char *ol_key_fault(const char *key)
{
	size_t bytes = key != NULL ? strlen(key) : 0;

	if (bytes == 0)
		return NULL;
	if (bytes >= OL_JOB_KEY_MAX)
		return "job key is longer than 255 bytes";
	if (bytes * char_bits(key) < OL_JOB_KEY_BITS_MIN)
		return "job key has fewer than 128 bits: give 32 hexadecimal digits, 22 letters "
		       "and digits, or 16 bytes of any kind, or more (outlast keygen makes one)";
	return NULL;
}

void ol_key_env_wipe(const char *name)
{
	char *value = getenv(name);

	if (value == NULL)
		return;
	explicit_bzero(value, strlen(value));
	(void)unsetenv(name);
}
