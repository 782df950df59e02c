/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * store.h -- the weights of one shard replica: three snapshots, the version line, the applied table
 *
 * An update reads the published snapshot, writes another one, then publishes that. So one whole
 * snapshot is never being written, a gradient found bad half-way leaves no trace, and a reader that
 * is slower than two updates notices (version line, wire/wire.h).
 *
 *	state of a snapshot     begin       end         who may touch it
 *	published, version v    1 + v       1 + v       readers
 *	older, version o        1 + o       1 + o       readers, until an update takes it
 *	being written           1 + v + 1   1 + o       the store
 *	given up (bad gradient) 1 + v + 1   1 + o       the store, at the next update
 *
 * A state machine without I/O, clock or threads; the memory is the caller's. An update is cut into
 * pieces, which the caller may let threads of its own run at once: the result is the same.
 */
#ifndef OL_STORE_STORE_H
#define OL_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_server.h"
#include "store/groups.h"
#include "store/kernels.h"
#include "wire/vouch.h"
#include "wire/wire.h"

/* One piece of an update; any thread may run it. */
typedef void ol_store_piece_fn(void *arg, unsigned index);

/* The parts of one snapshot */
struct ol_store_parts {
	struct ol_snapshot_head *head;
	struct ol_applied *applied;
	struct ol_rule *rule; /* ol_layout_rule_bytes() of it */
	float *weights;
	float *state[OL_STATE_VECTORS_MAX];
	uint16_t *bf16; /* the weights once more; NULL: not in this job */
};

struct ol_store {
	struct ol_geometry geo;
	struct ol_update_rule rule; /* what is constant; if all is one group, its numbers too */
	struct ol_rule first; /* the rule that the job begins with: version 0 */
	const struct ol_rule *next; /* the caller's: the next update changes the rule to this. NULL:
				       it does not */
	struct ol_groups groups; /* of the update that was begun last */
	bool groups_stale;
	const struct ol_kernels *kernels;
	uint8_t *memory; /* ol_layout_public_bytes(), the caller's */
	struct ol_board *board; /* at its start */
	struct ol_store_parts parts[OL_SNAPSHOTS];
	uint64_t
		large_vectors; /* a gradient or a vector of a snapshot: updates that touch more go past
				   the caches; UINT64_MAX: none does */
	uint64_t version; /* published */
	uint32_t snapshot; /* where it lies */
	/*
	 * The caller's: call piece(arg, index) for each index below count, in any order and thread, and
	 * return when all have returned. NULL: one after the other
	 */
	void (*run)(void *run_arg, ol_store_piece_fn *piece, void *arg, unsigned count);
	void *run_arg;
	struct ol_voucher *voucher; /* the caller's: vouches for each version. NULL: nobody does */
	bool want_norms; /* set by the caller before an apply or gather … */
	struct ol_norms norms; /* … which leaves them here */
};

/* One gradient of an update. */
struct ol_contribution {
	const void *grad; /* shard_len elements … */
	uint64_t seq;
	uint32_t grads; /* gradients summed up in it */
	float scale; /* a factor on it */
	float weight; /* beside the others' (store/weigh.h); 0: 1 */
	uint32_t worker;
	uint8_t format; /* … of this enum ol_format */
	bool is_void; /* not finite, as its worker reports: left out without a look at grad */
	int status; /* out: 0, or OL_E_NONFINITE */
};

/*
 * ol_store_init -- lay out zeroed memory and publish weights as version 0
 *
 * memory: ol_layout_public_bytes(geo) bytes, 64-byte aligned. Errors: OL_E_GEOMETRY
 */
int ol_store_init(struct ol_store *store, const struct ol_geometry *geo,
		  const struct ol_update_rule *rule, void *memory, const float *weights);

/*
 * ol_store_rule_first -- what a rule of version 0 says: the servers' options. rule: valid. It is in
 * force at once, unless the rule has changed since the job began
 */
void ol_store_rule_first(struct ol_store *store, const struct ol_rule *rule);

/*
 * ol_store_rule_next -- the next update, which is not begun yet, is made by this rule, and so are
 * those after it; NULL: the rule stays. If no update is published, nothing has changed: say it again.
 * rule: valid, begin is a version; the caller's until the publication
 */
void ol_store_rule_next(struct ol_store *store, const struct ol_rule *rule);

/* ol_store_tensors -- give all snapshots the job's table of tensors, whatever a peer wrote there;
 * NULL: it has none. The geometry gets its digest */
void ol_store_tensors(struct ol_store *store, const char *table);

/* ol_store_began -- digest of worker 0's first weights, with which the job began; OL_INIT_AWAITED: the
 * server does not serve yet */
uint64_t ol_store_began(const struct ol_store *store);

/* ol_store_rule -- the one of the published weights */
const struct ol_rule *ol_store_rule(const struct ol_store *store);

/* ol_store_needs_whole -- by the published rule no part of an update can be made before its gradients
 * are whole: they are clipped by their norm */
bool ol_store_needs_whole(const struct ol_store *store);

/*
 * ol_store_target -- the oldest snapshot that may be overwritten: it is not published, and not in
 * the mask of pinned ones (bit i: snapshot i). -1: none
 */
int ol_store_target(const struct ol_store *store, unsigned pinned_mask);

/* ol_store_find -- the snapshot that holds version whole, or -1 */
int ol_store_find(const struct ol_store *store, uint64_t version);

/*
 * ol_store_apply -- one update from the contributions, in the order given, published when whole
 *
 * A contribution with a non-finite value gets its status and is left out; the others are applied.
 * Returns how many were: 0 means that nothing was published. target: from ol_store_target().
 */
unsigned ol_store_apply(struct ol_store *store, struct ol_contribution *contributions,
			unsigned count, unsigned target);

/*
 * ol_store_gather -- the first half of an update that goes down a chain: put the contributions
 * together into `sum` (shard_len floats); returns as apply does. ol_store_enter_part() makes the
 * update from there. The result is bit for bit that of ol_store_apply().
 */
unsigned ol_store_gather(struct ol_store *store, struct ol_contribution *contributions,
			 unsigned count, float *sum);

/* Floats first … first + len of a vector */
struct ol_span {
	uint64_t first;
	uint64_t len;
};

/*
 * The same for an update whose gradients arrive in parts: begin, then parts in any order that cover
 * the vector once, then publish, which ignores grad and scale. Another update in between undoes the
 * parts. Where ol_store_needs_whole(), or the rule changes, the only part is the whole vector, by
 * enter_part. part applies a span of the contributions, gather_part puts it together into `sum`,
 * enter_part applies it from there. part and gather_part are false if the span of a gradient holds a
 * non-finite value: begin again without it.
 */
void ol_store_begin(struct ol_store *store, unsigned target);
bool ol_store_part(struct ol_store *store, const struct ol_contribution *contributions,
		   unsigned count, struct ol_span span, unsigned target);
bool ol_store_gather_part(struct ol_store *store, const struct ol_contribution *contributions,
			  unsigned count, struct ol_span span, float *sum);
void ol_store_enter_part(struct ol_store *store, const float *sum, struct ol_span span,
			 unsigned target);
void ol_store_publish(struct ol_store *store, const struct ol_contribution *contributions,
		      unsigned count, unsigned target);

/* ol_store_applied -- a worker's gradients in the published weights */
struct ol_applied ol_store_applied(const struct ol_store *store, uint32_t worker);

/* ol_store_content -- a snapshot's ol_layout_content_bytes() */
void *ol_store_content(const struct ol_store *store, uint32_t snapshot);

/*
 * ol_store_restore -- publish a snapshot whose content the caller has filled
 *
 * with_state: it holds the optimizer state, which otherwise begins anew. Call it before any reader
 * connects.
 */
void ol_store_restore(struct ol_store *store, uint32_t snapshot, uint64_t version, bool with_state);

/*
 * ol_store_take -- publish a version that another server made, later than the published one, while
 * readers read: table (head and applied table) and weights are copied into target
 *
 * The store has no optimizer state (geo.state_vectors is 0), and makes no updates of its own.
 */
void ol_store_take(struct ol_store *store, uint64_t version, const void *table,
		   const float *weights, unsigned target);

/* ol_store_norm -- Euclidean norm of a gradient of this shard, of this enum ol_format */
float ol_store_norm(const struct ol_store *store, const void *grad, uint32_t format);

/* ol_store_weights -- the published ones */
const float *ol_store_weights(const struct ol_store *store);

#endif /* OL_STORE_STORE_H */
