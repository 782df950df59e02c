/* SPDX-License-Identifier: BSD-3-Clause */

/* local_file.c -- the files of local_file.h: to text and back, with a checksum */

#include "replication/coord/local/local_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	HEAD_MAX = 64, /* of a file: the lines before the value */
	TAIL_BYTES = sizeof("crc32c 01234567\n") - 1,
};

/* CRC-32C a bit at a time: files are short and rare */
static uint32_t crc32c(const char *text, size_t bytes)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < bytes; i++) {
		crc ^= (uint8_t)text[i];
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
	}
	return ~crc;
}

static size_t view_head(uint64_t version, char head[HEAD_MAX])
{
	return (size_t)snprintf(head, HEAD_MAX, "outlast-view 1\nversion %" PRIu64 "\n", version);
}

static size_t member_head(char head[HEAD_MAX])
{
	return (size_t)snprintf(head, HEAD_MAX, "outlast-member 1\n");
}

/* tail_add -- the checksum of the first `bytes`; the length of the whole */
static size_t tail_add(char text[OL_LOCAL_TEXT_MAX], size_t bytes)
{
	return bytes + (size_t)snprintf(text + bytes, OL_LOCAL_TEXT_MAX - bytes,
					"crc32c %08" PRIx32 "\n", crc32c(text, bytes));
}

/* body_find -- the text between head and checksum; false: it is not such a file, or damaged */
static bool body_find(const char *text, size_t bytes, const char *head, size_t head_bytes,
		      const char **ret_body, size_t *ret_bytes)
{
	char tail[TAIL_BYTES + 1];
	size_t body_bytes;

	if (bytes > OL_LOCAL_TEXT_MAX || bytes < head_bytes + TAIL_BYTES ||
	    memcmp(text, head, head_bytes) != 0)
		return false;
	body_bytes = bytes - TAIL_BYTES;
	snprintf(tail, sizeof(tail), "crc32c %08" PRIx32 "\n", crc32c(text, body_bytes));
	if (memcmp(text + body_bytes, tail, TAIL_BYTES) != 0)
		return false;
	*ret_body = text + head_bytes;
	*ret_bytes = body_bytes - head_bytes;
	return true;
}

size_t ol_local_view_encode(uint64_t version, const struct ol_view *view,
			    char text[OL_LOCAL_TEXT_MAX])
{
	size_t bytes = view_head(version, text);

	bytes += ol_view_encode(view, text + bytes);
	return tail_add(text, bytes);
}

int ol_local_view_decode(const char *text, size_t bytes, uint64_t version, struct ol_view *ret_view)
{
	char head[HEAD_MAX];
	size_t head_bytes = view_head(version, head), body_bytes;
	const char *body;

	if (!body_find(text, bytes, head, head_bytes, &body, &body_bytes) ||
	    ol_view_decode(body, body_bytes, ret_view) != 0)
		return -EBADMSG;
	return 0;
}

size_t ol_local_member_encode(const struct ol_member *member, char text[OL_LOCAL_TEXT_MAX])
{
	size_t bytes = member_head(text);

	bytes += ol_member_encode(member, text + bytes);
	return tail_add(text, bytes);
}

int ol_local_member_decode(const char *text, size_t bytes, uint64_t id,
			   struct ol_member *ret_member)
{
	char head[HEAD_MAX];
	size_t head_bytes = member_head(head), body_bytes;
	struct ol_member member;
	const char *body;

	if (!body_find(text, bytes, head, head_bytes, &body, &body_bytes) ||
	    ol_member_decode(body, body_bytes, &member) != 0 || member.id != id)
		return -EBADMSG;
	*ret_member = member;
	return 0;
}
