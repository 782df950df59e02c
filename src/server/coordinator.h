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

/* Called a few times a second, once the order is in force. 0: go on waiting; OL_ORDER_DONE; or a negative
 * code: what is waited for will not come */
typedef int ol_coordinator_done_fn(void *arg, const struct ol_coord_state *state);

enum {
	OL_ORDER_DONE = 1
};

/*
 * ol_coordinator_order -- bring an operator's order into a shard's view, and wait until done() says so
 *
 * It proposes a view by compare-and-set, again where another's was faster, until a view has the order's
 * number; then the order stands, whatever is returned, and is not given again. It registers no server.
 *
 * Blocks: at most wait_ms, and before that timeout_ms for the coordinator. Errors: those of
 * ol_coord_open(), ol_view_ordered() and done(); -EACCES also if the key is a worker's; -ESTALE: another
 * operator's order came at the same time, and this one may have been before it; -ETIME: wait_ms are
 * over; with a line in err. *ret_stands: the order is known to be in force
 */
int ol_coordinator_order(const struct ol_coordinator *coordinator, uint32_t shard_count,
			 uint32_t shard, const struct ol_view_order *order, uint32_t wait_ms,
			 ol_coordinator_done_fn *done, void *arg, bool *ret_stands, char *err,
			 size_t err_bytes);

#endif /* OL_SERVER_COORDINATOR_H */
