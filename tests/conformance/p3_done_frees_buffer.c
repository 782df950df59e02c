/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * p3_done_frees_buffer.c -- after OL_XPORT_DONE of a write (if inline: after the post) its buffer
 * may be overwritten, and the peer still gets the posted bytes; signaled operations are reported
 * once each, with their cookie, others never
 */
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	SLOTS = 64,
	SLOT_BYTES = 16384,
	INLINE_BYTES = 24,
};

static void buffer_reused(void)
{
	unsigned rounds = xp_rounds(20);
	struct xp_pair pair;
	struct xp_mem src;
	struct xp_mem dst;

	xp_pair_open(&pair, NULL);
	xp_mem_open(&src, &pair.b, pair.b_conn, SLOT_BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&dst, &pair.a, pair.a_conn, SLOTS * SLOT_BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < SLOTS; i++) {
			uint64_t cookie = round * SLOTS + i + 0xfeed00000000;
			struct ol_xport_write write =
				xp_write(&src, 0, SLOT_BYTES, dst.key, i * SLOT_BYTES);

			xp_fill(src.p, SLOT_BYTES, cookie);
			write.flags = OL_XPORT_SIGNALED;
			write.cookie = cookie;
			xp_post_write(pair.b_conn, &write);
			xp_wait_done(&pair.b, pair.b_conn, cookie);
			memset(src.p, 0xee, SLOT_BYTES);
		}
		xp_bell(pair.b_conn, round);
		xp_wait_bell(&pair.a, pair.a_conn, round);
		for (unsigned i = 0; i < SLOTS; i++)
			xp_check_fill(dst.p + i * SLOT_BYTES, SLOT_BYTES,
				      round * SLOTS + i + 0xfeed00000000, "what was posted");
	}
	xp_quiet(&pair.b, NULL, 20);
	xp_mem_close(&src);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
}

static void inline_free_at_once(void)
{
	unsigned rounds = xp_rounds(5000);
	struct xp_pair pair;
	struct xp_mem dst;

	xp_pair_open(&pair, NULL);
	check(pair.b.caps.inline_max >= INLINE_BYTES);
	xp_mem_open(&dst, &pair.a, pair.a_conn, SLOTS * INLINE_BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < SLOTS; i++) {
			uint8_t here[INLINE_BYTES];
			struct ol_xport_write write = {
				.segs = { { .off = (uintptr_t)here, .bytes = INLINE_BYTES } },
				.seg_count = 1,
				.flags = OL_XPORT_INLINE,
				.dst = dst.key,
				.dst_off = i * INLINE_BYTES,
			};

			xp_fill(here, INLINE_BYTES, round * SLOTS + i);
			xp_post_write(pair.b_conn, &write);
			memset(here, 0xee, INLINE_BYTES);
		}
		xp_bell(pair.b_conn, round);
		xp_wait_bell(&pair.a, pair.a_conn, round);
		for (unsigned i = 0; i < SLOTS; i++)
			xp_check_fill(dst.p + i * INLINE_BYTES, INLINE_BYTES, round * SLOTS + i,
				      "inline data");
	}
	xp_quiet(&pair.b, NULL, 20);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
}

/* Many in flight, one in three signaled, writes and reads mixed: each DONE once. */
static void done_once_each(void)
{
	enum {
		OPS = 3000
	};
	static uint8_t seen[OPS];
	struct xp_pair pair;
	struct xp_event event;
	struct xp_mem src;
	struct xp_mem dst;
	unsigned left = 0;

	xp_pair_open(&pair, NULL);
	xp_mem_open(&src, &pair.b, pair.b_conn, SLOT_BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&dst, &pair.a, pair.a_conn, SLOT_BYTES,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
	for (unsigned i = 0; i < OPS; i++) {
		unsigned flags = i % 3 == 0 ? OL_XPORT_SIGNALED : 0;
		struct ol_xport_write write = xp_write(&src, 0, 512, dst.key, 1024);
		struct ol_xport_read read = xp_read(&src, 8192, 512, dst.key, 4096);

		write.flags = read.flags = flags;
		write.cookie = read.cookie = i;
		if (i % 5 == 0)
			xp_post_read(pair.b_conn, &read);
		else
			xp_post_write(pair.b_conn, &write);
		left += flags != 0;
		while (xp_take(&pair.b, OL_XPORT_DONE, pair.b_conn, &event)) {
			check_eq(event.ev.status, 0);
			check(event.ev.cookie < OPS && event.ev.cookie % 3 == 0);
			check_eq(seen[event.ev.cookie]++, 0);
			left--;
		}
	}
	while (left > 0) {
		event = xp_wait(&pair.b, OL_XPORT_DONE, pair.b_conn);
		check_eq(event.ev.status, 0);
		check(event.ev.cookie < OPS && event.ev.cookie % 3 == 0);
		check_eq(seen[event.ev.cookie]++, 0);
		left--;
	}
	xp_quiet(&pair.b, NULL, 50);
	xp_quiet(&pair.a, NULL, 1);
	xp_mem_close(&src);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("a buffer may be overwritten after DONE", buffer_reused);
	xp_run1("an inline buffer may be overwritten at once", inline_free_at_once);
	xp_run1("a signaled operation is reported once, and no other", done_once_each);
	return xp_result();
}
