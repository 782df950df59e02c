/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * local_fuzz.c -- any file in a folder of views is refused, or would be written the same again; and
 * a good file with any one byte changed is refused
 *
 * The first two bytes select the byte of a good file that is changed, and how.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replication/coord/local/local_file.h"
#include "support/fuzz.h"

static void same(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	if (a_bytes != b_bytes || memcmp(a, b, a_bytes) != 0)
		abort();
}

/* A file as it lies there */
static void try_file(const char *text, size_t bytes)
{
	char again[OL_LOCAL_TEXT_MAX];
	struct ol_member member;
	struct ol_view view;

	for (uint64_t number = 1; number <= 3; number++) {
		if (ol_local_view_decode(text, bytes, number, &view) == 0)
			same(text, bytes, again, ol_local_view_encode(number, &view, again));
		if (ol_local_member_decode(text, bytes, number, &member) == 0)
			same(text, bytes, again, ol_local_member_encode(&member, again));
	}
}

/* A file whose checksum is right: read back, then with one byte changed */
static void try_view(const struct ol_view *view, uint8_t at, uint8_t how)
{
	char text[OL_LOCAL_TEXT_MAX];
	size_t bytes = ol_local_view_encode(3, view, text);
	struct ol_view again;

	if (ol_local_view_decode(text, bytes, 3, &again) != 0 ||
	    memcmp(&again, view, sizeof(again)) != 0 ||
	    ol_local_view_decode(text, bytes, 4, &again) == 0)
		abort();
	text[at % bytes] = (char)(text[at % bytes] ^ how);
	if (how != 0 && ol_local_view_decode(text, bytes, 3, &again) == 0)
		abort();
}

static void try_member(const struct ol_member *member, uint8_t at, uint8_t how)
{
	char text[OL_LOCAL_TEXT_MAX];
	size_t bytes = ol_local_member_encode(member, text);
	struct ol_member again;

	if (ol_local_member_decode(text, bytes, member->id, &again) != 0 ||
	    ol_local_member_decode(text, bytes, member->id + 1, &again) == 0)
		abort();
	text[at % bytes] = (char)(text[at % bytes] ^ how);
	if (how != 0 && ol_local_member_decode(text, bytes, member->id, &again) == 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *exact = malloc(bytes > 0 ? bytes : 1), *text;
	char again[OL_VIEW_TEXT_MAX];
	struct ol_member member;
	struct ol_view view;

	if (exact == NULL || bytes < 2) {
		free(exact);
		return 0;
	}
	memcpy(exact, data, bytes);
	try_file(exact, bytes);
	text = exact + 2;
	bytes -= 2;
	if (ol_view_decode(text, bytes, &view) == 0) {
		same(text, bytes, again, ol_view_encode(&view, again));
		try_view(&view, data[0], data[1]);
	}
	memset(&member, 0, sizeof(member));
	if (ol_member_decode(text, bytes, &member) == 0) {
		same(text, bytes, again, ol_member_encode(&member, again));
		try_member(&member, data[0], data[1]);
	}
	free(exact);
	return 0;
}
