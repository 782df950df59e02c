/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * source.h -- with what an empty server begins: a mirror, the checkpoint, or the first weights
 *
 * A source is enough when nobody who is here was told of a push that it lacks and that is not
 * pushed again. Of those that are enough the newest is taken. While none is, or somebody is missed
 * who may have a newer one, the server waits, for restore_wait_ms at most.
 */
#ifndef OL_SERVER_SOURCE_H
#define OL_SERVER_SOURCE_H

#include "server/session.h"

enum {
	OL_SOURCE_CHECKPOINT = 0, /* the snapshot that it is read into; a mirror goes beside it */
};

/* All that there is to begin with */
struct ol_sources {
	const struct ol_server_opts *opts;
	const struct ol_store *store;
	struct ol_sessions *sessions; /* workers with mirrors */

	bool begins; /* the job begins here: nobody can have anything newer than first weights */
	bool floor; /* a checkpoint is in snapshot 0: what a mirror must be newer than */
	uint32_t floor_epoch;
	uint64_t floor_version;
	uint64_t since_ns; /* the last worker came that changed the picture; 0: nobody is there */
	uint64_t came[OL_WORKERS_MAX / 64]; /* ids that have changed it: each does once */
	uint64_t refused[OL_WORKERS_MAX / 64]; /* ids whose mirrors were: they are not waited for */
};

/* What a server can begin with */
struct ol_source {
	struct ol_session *session; /* whose mirror it is; NULL: the checkpoint, or first weights */
	const struct ol_applied *table; /* NULL: of first weights */
	uint64_t history; /* 0: of a checkpoint, which does not know */
	uint64_t version;
	uint32_t epoch;
	uint64_t grads;
	uint64_t lost; /* pushes that those who are here were told are applied, and keep no more */
};

/* ol_source_is_here -- a worker that waits for weights */
bool ol_source_is_here(const struct ol_session *session);
/* ol_source_choose -- the best of what is here; true: the server begins with it, false: it waits.
 * The tables of mirrors are read. */
bool ol_source_choose(const struct ol_sources *sources, uint64_t now_ns,
		      struct ol_source *ret_source);

#endif /* OL_SERVER_SOURCE_H */
