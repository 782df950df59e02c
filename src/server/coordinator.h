/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coordinator.h -- replication/coord/ask.h with the job's key, and orders to chains: for `outlast stat --views`,
 * `coord`, `chain` and `doctor`
 *
 * It is not part of the library's interface, and the shared library does not export it.
 */
#ifndef OL_SERVER_COORDINATOR_H
#define OL_SERVER_COORDINATOR_H

#include "replication/coord/ask.h"

struct ol_coordinator {
	const char *addr;
	const char *job; /* list: NULL: all */
	const char *job_key; /* or a credential; "" or NULL: none */
	uint32_t timeout_ms;
};

/* As ol_coord_list() and so on; -EINVAL also for a key that is none */
int ol_coordinator_list(const struct ol_coordinator *coordinator, ol_kept_fn *tell, void *arg,
			char *err, size_t err_bytes);
int ol_coordinator_remove(const struct ol_coordinator *coordinator, char *err, size_t err_bytes);
int ol_coordinator_make_root(const struct ol_coordinator *coordinator, char *err, size_t err_bytes);
int ol_coordinator_examine(const struct ol_coordinator *coordinator, uint32_t lease_ms,
			   uint32_t rounds, ol_coord_finding_fn *tell, void *arg, char *err,
			   size_t err_bytes);

/* Called at every change of the shard's state and a few times a second, once the order is in force; true:
 * that is what was waited for */
typedef bool ol_coordinator_done_fn(void *arg, const struct ol_coord_state *state);

/*
 * ol_coordinator_order -- bring an operator's order into a shard's view, and wait until done() says so
 *
 * It proposes a view by compare-and-set, again after each view of somebody else, and registers no
 * server. Once the order is in force it stands, whatever is returned.
 *
 * Blocks: at most wait_ms, and before that timeout_ms for the coordinator. Errors: those of
 * ol_coord_open() and ol_view_ordered(); -EACCES also if the key is a worker's; -EAGAIN: wait_ms are
 * over, and *ret_stands says whether the order is in force; with a line in err
 */
int ol_coordinator_order(const struct ol_coordinator *coordinator, uint32_t shard_count,
			 uint32_t shard, const struct ol_view_order *order, uint32_t wait_ms,
			 ol_coordinator_done_fn *done, void *arg, bool *ret_stands, char *err,
			 size_t err_bytes);

#endif /* OL_SERVER_COORDINATOR_H */
