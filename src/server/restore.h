/* SPDX-License-Identifier: BSD-3-Clause */

/* restore.h -- where the first weights of a server come from */
#ifndef OL_SERVER_RESTORE_H
#define OL_SERVER_RESTORE_H

#include "server/save.h"
#include "server/source.h"

/* A server that came back empty, until it has its weights */
struct ol_restoring {
	const struct ol_server_opts *opts;
	const struct ol_xport_ops *ops;
	struct ol_store *store;
	struct ol_xport_region *public_region;
	const struct ol_saving *saving;
	const struct ol_replica *replica; /* its chain, and the snapshots that a successor reads */
	const char *addr;
	const char *job_key;

	bool active;
	bool chain; /* waits for its place in a chain: for a predecessor to read, or to found it */
	struct ol_sources sources; /* its block_versions are owned */
	bool lends; /* the source's mirror is read for blocks of the checkpoint, which is taken */
	bool looks; /* only the source's table is being read: is its mirror enough? */
	struct ol_session *source; /* whose mirror is being read; NULL: none */
	uint32_t into; /* the snapshot that it is read into */
	uint64_t posted; /* bytes of the content */
	uint32_t reads; /* in flight */
	bool failed; /* a read, or its post: this source is not used */
	bool told; /* that worker 0 offers no first weights … */
	bool waits_told; /* … and that no worker is here … */
	uint64_t nobody_ns; /* … since then; 0: not looked yet */
	bool lies; /* the source gave a wrong address; false: its link broke */
	int refused; /* why what the folder has is not used; 0: it is, or there is nothing */
};

enum ol_restore_what {
	OL_RESTORE_WAITS, /* for a worker, or for a read in flight */
	OL_RESTORE_ENDS, /* end `session`, then ask for progress again */
	OL_RESTORE_GOES_ON, /* never returned by ol_restore_progress() */
	OL_RESTORE_READY, /* the weights are published: waiting peers may be welcomed */
	OL_RESTORE_FAILS, /* the server is to end with `status`, which is in the log */
};

/* The next action */
struct ol_restore_result {
	enum ol_restore_what what;
	struct ol_session *session;
	int status;
	const char *why; /* for the log */
	enum ol_restore from;
	uint32_t epoch; /* of the weights' history */
};

/* ol_restore_clear -- the state before any restore; nothing is left to free */
void ol_restore_clear(struct ol_restoring *restoring);
/* ol_restore_begin -- begin as opts say; 0 or a code with a line in err. READY: and it ended */
int ol_restore_begin(struct ol_restoring *restoring, struct ol_restore_result *ret_result,
		     char *err, size_t err_bytes);
/* ol_restore_from_session -- read the content that a session's hello names, and no other source */
void ol_restore_from_session(struct ol_restoring *restoring, struct ol_session *session);
/* ol_restore_on_read -- a read has ended; true: there may be progress */
bool ol_restore_on_read(struct ol_restoring *restoring, const struct ol_session *session,
			int status);
void ol_restore_on_leave(struct ol_restoring *restoring, const struct ol_session *session);
struct ol_restore_result ol_restore_progress(struct ol_restoring *restoring, uint64_t now_ns);
/* ol_restore_grads -- gradients of all workers that a snapshot contains */
uint64_t ol_restore_grads(const struct ol_store *store, uint32_t snapshot);
/* ol_restore_epoch -- the epoch to serve in with weights of `from` and `epoch` */
uint32_t ol_restore_epoch(const struct ol_restoring *restoring, enum ol_restore from,
			  uint32_t epoch);

#endif /* OL_SERVER_RESTORE_H */
