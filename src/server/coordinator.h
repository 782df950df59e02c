/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coordinator.h -- replication/coord/ask.h with the job's key: for `outlast stat --views`, `coord` and `doctor`
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

#endif /* OL_SERVER_COORDINATOR_H */
