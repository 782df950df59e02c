/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ask.h -- what people ask of a coordinator: what it keeps, to remove a dead job, how well it serves
 *
 * Each call reaches the coordinator, asks, and leaves it. It registers no server, and changes
 * nothing that it is not asked to. Addresses and secrets are those of coord.h.
 */
#ifndef OL_REPLICATION_COORD_ASK_H
#define OL_REPLICATION_COORD_ASK_H

#include "replication/coord/coord.h"

struct ol_coord_ask {
	const char *addr;
	const char *job; /* list: NULL: all jobs */
	uint32_t timeout_ms; /* until the coordinator has answered for the first time */
	ol_coord_mac_fn *mac, *owner_mac; /* as in struct ol_coord_opts, of the job */
	void *mac_arg;
	void *keyless_arg; /* of both, for the secret that everybody has; NULL: there is none */
};

enum ol_kept_access {
	OL_KEPT_OPEN, /* anybody who reaches the coordinator may change it */
	OL_KEPT_GUARDED, /* those of its access list may, and this client may read it */
	OL_KEPT_CLOSED, /* this client may not read it: view and members are not known */
};

#define OL_KEPT_NO_SHARD UINT32_MAX /* a job without a shard */

/* One shard of a job, as it is kept */
struct ol_kept {
	const char *job;
	uint32_t shard;
	enum ol_kept_access access;
	bool damaged; /* what is kept as the view is none */
	uint64_t version; /* of the view: how many there have been; 0: none */
	struct ol_view view;
	uint32_t live; /* servers that are registered, each by a live session */
	uint32_t member_count; /* of these, those that could be read */
	struct ol_member members[OL_MEMBERS_MAX];
	/* CLOCK_REALTIME in ms, by the coordinator's clock; 0: not known */
	int64_t begun_ms, changed_ms; /* the job; the view, or the shard if it has none */
};

typedef void ol_kept_fn(void *arg, const struct ol_kept *kept);

/*
 * ol_coord_list -- tell everything that is kept, by job and shard
 *
 * Blocks: until it is read. Errors: as ol_coord_open(); -ENOENT: no such job
 */
int ol_coord_list(const struct ol_coord_ask *ask, ol_kept_fn *tell, void *arg, char *err,
		  size_t err_bytes);

/*
 * ol_coord_remove -- remove a job: all of it, or nothing
 *
 * A server that comes meanwhile is registered before, and then the job stays; or it comes after, and
 * begins the job anew. In a folder each open handle counts as a session, a worker's too.
 *
 * Blocks: until it is done. Errors: as ol_coord_open(); -ENOENT: no such job; -EBUSY: a session lives;
 * -EAGAIN: it changed meanwhile; -EACCES: no right; -EEXIST: something in it is not of a job
 */
int ol_coord_remove(const struct ol_coord_ask *ask, char *err, size_t err_bytes);

/* ol_coord_make_root -- make the folder, or the node that ZooKeeper calls a chroot, and those above
 * it; 0 also if it is there. Errors: as ol_coord_open() */
int ol_coord_make_root(const struct ol_coord_ask *ask, char *err, size_t err_bytes);

enum ol_coord_verdict {
	OL_COORD_FINE,
	OL_COORD_WARN, /* it works, but not as well, or not against everybody */
	OL_COORD_BAD, /* jobs cannot use it */
};

struct ol_coord_figure {
	const char *name; /* with its unit */
	double value;
};

struct ol_coord_finding {
	enum ol_coord_verdict verdict;
	const char *subject;
	const char *text;
	const char *remedy; /* NULL: none needed */
	const struct ol_coord_figure *figures;
	uint32_t figure_count;
};

typedef void ol_coord_finding_fn(void *arg, const struct ol_coord_finding *finding);

/*
 * ol_coord_examine -- can jobs use it, how fast is it, who else may change what it keeps
 *
 * lease_ms: of the servers that are to use it. It writes, reads and syncs `rounds` times, in a node
 * or file of its own that it removes.
 *
 * Blocks: for some rounds of a slow coordinator; timeout_ms for each server that does not answer.
 * Errors: -EINVAL (no such address); -ETIMEDOUT and others: jobs cannot use it, as a finding says.
 * job is not looked at.
 */
int ol_coord_examine(const struct ol_coord_ask *ask, uint32_t lease_ms, uint32_t rounds,
		     ol_coord_finding_fn *tell, void *arg, char *err, size_t err_bytes);

#endif /* OL_REPLICATION_COORD_ASK_H */
