/* SPDX-License-Identifier: BSD-3-Clause */

/* key.h -- the secret of a job: which text can be one, and how it leaves the environment */
#ifndef OL_BASE_KEY_H
#define OL_BASE_KEY_H

enum {
	OL_JOB_KEY_MAX = 256, /* bytes of a key with its end */
	OL_JOB_KEY_BITS_MIN = 128, /* a stranger who hears a handshake can try fewer at home */
};

/*
 * ol_key_fault -- why this text cannot be a job's key; NULL: it can, or it is none (NULL, "")
 *
 * The bits are the most that so many characters of this kind can hold: a hexadecimal digit 4, a
 * letter, digit or character of base64 6, any other byte 8. Whether the key was drawn at random is
 * its maker's promise.
 */
const char *ol_key_fault(const char *key);

/*
 * ol_key_env_wipe -- take a variable out of the environment, its bytes overwritten
 *
 * /proc/PID/environ shows the bytes that a process began with for as long as it lives, to whoever
 * may read its memory, and children inherit them. Threading: no other thread may use the environment.
 */
void ol_key_env_wipe(const char *name);

#endif /* OL_BASE_KEY_H */
