/* SPDX-License-Identifier: BSD-3-Clause */

/* watch.c -- reads a heartbeat, and judges it by when the read was posted */

#include "link/watch.h"

#include "wire/layout.h"
#include "wire/wire.h"

enum {
	BEATS_A_LEASE = 4 /* how often a heartbeat is read */
};

static void read_post(struct ol_watch *watch, const struct ol_watch_with *with, uint64_t now_ns)
{
	struct ol_xport_read read = {
		.segs = { { .region = with->region, .off = with->off, .bytes = sizeof(uint64_t) } },
		.seg_count = 1,
		.flags = OL_XPORT_SIGNALED,
		.src = with->board,
		.src_off = OL_BOARD_STAT_OFF,
		.cookie = with->cookie,
	};

	watch->try_ns = now_ns;
	watch->posted = with->ops->post_read(with->conn, &read) == 0;
	if (watch->posted) /* false if the send queue is full */
		watch->post_ns = now_ns;
}

/* From then on a read that is in flight makes the connection doubtful */
static uint64_t doubt_at(const struct ol_watch *watch, const struct ol_watch_with *with)
{
	uint64_t since_ns = watch->heard_ns > watch->post_ns ? watch->heard_ns : watch->post_ns;

	return with->doubt_ns != 0 ? since_ns + with->doubt_ns : UINT64_MAX;
}

enum ol_watch_says ol_watch_tick(struct ol_watch *watch, const struct ol_watch_with *with,
				 uint64_t now_ns)
{
	if (with->lease_ns == 0) {
		watch->due_ns = UINT64_MAX;
		return OL_WATCH_FINE;
	}
	if (watch->posted && now_ns - watch->post_ns > with->lease_ns)
		return OL_WATCH_SILENT;
	if (watch->posted && now_ns > doubt_at(watch, with))
		return OL_WATCH_DOUBT;
	/* judged by when the read was posted, not by now: this end may have stood still meanwhile */
	if (!watch->posted && watch->beat_ns != 0 &&
	    watch->post_ns >= watch->beat_ns + with->lease_ns)
		return OL_WATCH_STILL;
	if (!watch->posted && now_ns - watch->try_ns >= with->lease_ns / BEATS_A_LEASE)
		read_post(watch, with, now_ns);
	if (!watch->posted)
		watch->due_ns = watch->try_ns + with->lease_ns / BEATS_A_LEASE;
	else if (doubt_at(watch, with) < watch->post_ns + with->lease_ns)
		watch->due_ns = doubt_at(watch, with) + 1;
	else
		watch->due_ns = watch->post_ns + with->lease_ns + 1;
	return OL_WATCH_FINE;
}

void ol_watch_on_beat(struct ol_watch *watch, int status, uint64_t beat, uint64_t now_ns)
{
	watch->posted = false;
	watch->due_ns = 0;
	if (status != 0)
		return; /* the connection goes down */
	if (watch->beat_ns == 0 || beat != watch->beat) {
		watch->beat = beat;
		watch->beat_ns = now_ns;
	}
}
