/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * watch.h -- watches whether the loop at the other end of a connection still turns
 *
 * The server counts its heartbeat in a word of its board (wire/wire.h). This end reads the word
 * one-sidedly a few times a lease. If the word changes, the loop turns; its value means nothing
 * else, as it may be torn.
 */
#ifndef OL_LINK_WATCH_H
#define OL_LINK_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "rdma/transport.h"

struct ol_watch {
	bool posted; /* a read is in flight */
	uint64_t post_ns; /* when the last read began */
	uint64_t try_ns; /* when a read was last tried */
	uint64_t beat; /* as last read */
	uint64_t beat_ns; /* when it first had this value; 0: not read yet */
	uint64_t heard_ns; /* when the other end said something else, if this end notes it */
	uint64_t due_ns; /* before then ol_watch_tick() has nothing to do */
};

/* What a watch needs of its owner */
struct ol_watch_with {
	const struct ol_xport_ops *ops;
	struct ol_xport_conn *conn;
	struct ol_xport_region *region; /* that the word is read into */
	uint64_t off; /* of 8 aligned bytes in region */
	struct ol_xport_rkey board;
	uint64_t cookie; /* of the completion: ol_watch_on_beat() */
	uint64_t lease_ns; /* 0: no watch */
	uint64_t doubt_ns; /* less than the lease, or 0: no doubts */
};

enum ol_watch_says {
	OL_WATCH_FINE,
	OL_WATCH_DOUBT, /* a read that began doubt_ns ago has not ended, and nothing was heard since:
			   the connection may be dead, and the other end alive */
	OL_WATCH_SILENT, /* a read that began a lease ago has not ended */
	OL_WATCH_STILL /* the word has been the same for a lease */
};

/* ol_watch_is_due -- the cheap question before ol_watch_tick(), for a loop that spins */
static inline bool ol_watch_is_due(const struct ol_watch *watch, uint64_t now_ns)
{
	return now_ns >= watch->due_ns;
}

/* ol_watch_tick -- read the word when it is time; call it whenever it is due */
enum ol_watch_says ol_watch_tick(struct ol_watch *watch, const struct ol_watch_with *with,
				 uint64_t now_ns);
/* ol_watch_on_beat -- a read has ended; beat: the word, if status is 0 */
void ol_watch_on_beat(struct ol_watch *watch, int status, uint64_t beat, uint64_t now_ns);

#endif /* OL_LINK_WATCH_H */
