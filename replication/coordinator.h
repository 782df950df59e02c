/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coordinator.h -- the embedded coordinator: one process that holds the views of a few jobs
 *
 * For one machine, for tests, and for a few hosts without ZooKeeper. It is a single point of
 * failure for changes: while it is gone every chain goes on in the view it has, and none can
 * change; what it held is gone with it (servers that still run hand their view to its successor:
 * the highest epoch that is offered wins, and whoever is in it counts as a member for one more
 * lease, so that the first to come back does not find itself alone).
 *
 * A session ends when its client's end of the connection closes, as the kernel does for a process
 * that dies, or when its lease is over. At most 2048 clients, 64 jobs (a job with a view stays), 16
 * members a shard: one more is refused and told so.
 */
#ifndef OL_REPLICATION_COORDINATOR_H
#define OL_REPLICATION_COORDINATOR_H

#include "replication/coord/coord.h"

struct ol_coordd;

struct ol_coordd_opts {
	const char *listen; /* "HOST:PORT" (port 0: any free) or "@NAME" (abstract Unix socket) */
	ol_coord_mac_fn *mac; /* NULL: no secret */
	void *mac_arg;
	void (*log)(void *arg, const char *text);
	void *log_arg;
};

/* Errors: -EADDRINUSE, -EADDRNOTAVAIL, -EINVAL, -ENOMEM, with one line in err */
int ol_coordd_open(const struct ol_coordd_opts *opts, struct ol_coordd **ret_coordd, char *err,
		   size_t err_bytes);
/* ol_coordd_addr -- what to give to ol_coord_open(); valid until close */
const char *ol_coordd_addr(const struct ol_coordd *coordd);
/* ol_coordd_run -- serve until ol_coordd_stop(). Returns 0, or what ended it. */
int ol_coordd_run(struct ol_coordd *coordd);
/* ol_coordd_stop -- make run return; from any thread or signal handler */
void ol_coordd_stop(struct ol_coordd *coordd);
void ol_coordd_close(struct ol_coordd *coordd);

#endif /* OL_REPLICATION_COORDINATOR_H */
