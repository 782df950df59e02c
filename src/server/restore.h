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
	const struct ol_replica *replica; /* what it has already, and who reads from it */
	const char *addr;

	bool active;
	bool chain; /* waits for its place in a chain: for a predecessor to read, or to found it */
	struct ol_sources sources;
	bool looks; /* only the table of the source is being read: is its mirror enough? */
	struct ol_session *source; /* whose mirror is being read; NULL: none … */
	uint32_t into; /* … and the snapshot that it goes into */
	uint64_t posted; /* bytes of the content */
	uint32_t reads; /* under way */
	bool failed; /* one of them, or its post: nothing of this source is used … */
	bool lies; /* … because there is nothing where it said, not because its link broke */
};

enum ol_restore_what {
	OL_RESTORE_WAITS, /* for somebody, or something that is under way */
	OL_RESTORE_ENDS, /* `session` is to be ended, and progress to be asked for again */
	OL_RESTORE_GOES_ON, /* never of ol_restore_progress() */
	OL_RESTORE_READY, /* the weights are published: everybody who waits may begin */
};

/* What is to be done now */
struct ol_restore_result {
	enum ol_restore_what what;
	struct ol_session *session;
	const char *why; /* for the log */
	enum ol_restore from;
	uint32_t epoch; /* of the history that the weights are of */
};

/* ol_restore_clear -- nothing is found, and nothing is waited for */
void ol_restore_clear(struct ol_restoring *restoring);
/* ol_restore_begin -- as opts say; 0 or a code with a line in err. READY: it is over */
int ol_restore_begin(struct ol_restoring *restoring, struct ol_restore_result *ret_result,
		     char *err, size_t err_bytes);
/* ol_restore_from_session -- read the content that a session's hello names, whatever else there is */
void ol_restore_from_session(struct ol_restoring *restoring, struct ol_session *session);
/* ol_restore_on_read -- a read has ended; true: there may be progress */
bool ol_restore_on_read(struct ol_restoring *restoring, const struct ol_session *session,
			int status);
void ol_restore_on_leave(struct ol_restoring *restoring, const struct ol_session *session);
struct ol_restore_result ol_restore_progress(struct ol_restoring *restoring, uint64_t now_ns);
/* ol_restore_grads -- gradients of all workers that a snapshot contains */
uint64_t ol_restore_grads(const struct ol_store *store, uint32_t snapshot);
/* ol_restore_epoch -- of the history that begins with such weights */
uint32_t ol_restore_epoch(const struct ol_restoring *restoring, enum ol_restore from,
			  uint32_t epoch);

#endif /* OL_SERVER_RESTORE_H */
