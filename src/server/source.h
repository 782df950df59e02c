/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * source.h -- what an empty server begins with: a mirror, the checkpoint, or the initial weights
 *
 * A source is enough when it contains every push that a connected worker knows as applied and no
 * longer keeps. The newest source that is enough is taken. While none is enough, or a worker is
 * missing that may have a newer one, the server waits, for restore_wait_ms at most.
 *
 * A running checkpoint has blocks that are older than its table: what they lack nobody pushes again, though
 * workers may keep it. The newest mirror of its history that is no newer than the table lends those blocks that
 * are older still. Either may cost less: the checkpoint with what the mirror lends, or an older mirror by itself, which lacks
 * the gradients that the table has and nobody keeps any more. What costs less is taken. A mirror without the optimizer's
 * state lends weights, but is not taken for the checkpoint; nor one that lacks a part of steps that workers make together.
 */
#ifndef OL_SERVER_SOURCE_H
#define OL_SERVER_SOURCE_H

#include "checkpoint/checkpoint.h"
#include "server/session.h"

enum {
	OL_SOURCE_CHECKPOINT = 0, /* the snapshot for the checkpoint; a mirror uses another one */
};

/* All sources that a server can begin with */
struct ol_sources {
	const struct ol_server_opts *opts;
	const struct ol_store *store;
	struct ol_sessions *sessions; /* workers with mirrors */

	bool begins; /* the job begins here: nothing can be newer than the initial weights */
	bool floor; /* a checkpoint is in snapshot 0: a mirror must be newer */
	uint32_t floor_epoch;
	struct ol_vouched floor_of; /* its history, as mirrors call it; 0: not known */
	uint64_t floor_version;
	const struct ol_ckpt_blocks *blocks;
	uint64_t *block_versions; /* of a running checkpoint; NULL: it is of one version */
	uint64_t since_ns; /* when the last worker in `came` was added; 0: no worker is connected */
	uint64_t came[OL_WORKERS_MAX / 64]; /* ids that prolonged the wait: each does so once */
	uint64_t refused[OL_WORKERS_MAX / 64]; /* ids whose mirrors were refused: not waited for */
};

/* One source */
struct ol_source {
	struct ol_session *session; /* whose mirror it is; NULL: checkpoint or initial weights */
	const struct ol_applied *table; /* NULL: initial weights */
	uint64_t history; /* 0: not known */
	uint64_t version;
	uint32_t epoch;
	uint64_t grads;
	uint64_t lost; /* pushes that it lacks, that connected workers know as applied, and that
			  they no longer keep */
	/* of a mirror older than a running checkpoint of its history: pushes that this has, and that no process
	 * which is here keeps */
	uint64_t absent;
	/* gradients of its history that it lacks and nobody makes again: those of `absent`; of a running checkpoint what
	 * blocks lack and its table has, the mean over floats, with those that `lends` has. INFINITY: it never pays */
	double cost;
	struct ol_session *lends; /* the worker of that mirror; NULL: nobody has newer blocks */
};

/* ol_source_is_here -- the session is a worker that waits for weights */
bool ol_source_is_here(const struct ol_session *session);
/* ol_source_choose -- the best source; true: the server begins with it, false: it waits. Call it
 * when the tables of all mirrors have been read, and have no fault. */
bool ol_source_choose(const struct ol_sources *sources, uint64_t now_ns,
		      struct ol_source *ret_source);

/*
 * ol_source_say -- what there was to begin with, for people, and what each would have cost: pushes that workers know as
 * applied and do not keep, and versions behind the newest. Returns how many sources there were
 */
enum {
	OL_SOURCES_TEXT_MAX = 384
};
uint32_t ol_source_say(const struct ol_sources *sources, char text[OL_SOURCES_TEXT_MAX]);

#endif /* OL_SERVER_SOURCE_H */
