/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * follow.h -- steps that another shard has made
 *
 * Where a step is not one of all workers, shard 0 decides which gradients make it, and workers carry
 * its decision to the other shards (wire.h, struct ol_decision). A server that is behind a decision
 * follows it: the others always, and shard 0 if it came back with older weights.
 *
 * A gradient waits here, parked, until a decision has it, or its worker says that shard 0 has dropped it.
 * If its worker dies meanwhile it is kept in a copy, as shard 0 may have taken it: an orphan. So is what has missed
 * its step, as a later one may have it (late NEXT, AGED; and what is pushed again). An orphan is in no step once
 * a step has a gradient of a later process of its worker: shard 0 has ended this one by then. Else it stays, as its
 * worker may live and be away from this shard alone. Shard 0 itself drops its orphans as soon as it decides.
 *
 * A decision that is one version ahead says exactly which gradients make the next step. One that is further
 * ahead, as after a restart, says which gradients are in one of the next steps; those computed at newer
 * weights than the published ones are in a later one. Of several the nearest is followed, and nothing is decided here
 * up to the newest. The newest itself is followed if no nearer one comes within restore_wait_ms: those who had
 * made these versions may be gone. An introduction (place 1) only says how far others are.
 *
 * What a decision has and this server lacks is on its way: its worker pushes it again. If its id has another
 * process by now, or keeps it no more, it is lost: its worker has died with the server that had it, or the server
 * has begun with older weights than any worker has. So it is if it does not come within restore_wait_ms, where
 * its worker is gone or has pushed again all that it has (OL_BELL_AGAIN), or within OL_FOLLOW_PATIENCE times that,
 * where it has not: shard 0 gets pushes when all others are there. Then the step is made without it. It is counted
 * (`restored_lost`), and the log says it.
 */
#ifndef OL_SERVER_FOLLOW_H
#define OL_SERVER_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_policy.h"
#include "server/session.h"

struct ol_ingest;

enum {
	OL_FOLLOW_PATIENCE = 20,
	OL_ORPHANS = 2,
	OL_ORPHAN_SLOT = OL_SLOTS_MAX, /* struct ol_landed: from here on slots are orphans */
};

/* A gradient without a session */
struct ol_orphan {
	bool used;
	uint32_t
		worker; /* has as many of them as OL_ORPHANS of its processes have slots, at most */
	uint32_t slot; /* that it was in */
	uint32_t format;
	uint32_t
		successor; /* tag of a later process of its worker, which has pushed; 0: none has */
	uint64_t since_ns; /* its worker is gone */
	struct ol_slot_state state;
	const void *gradient; /* in `own`; or struct ol_follow's zeros */
	void *own; /* owned */
	struct ol_rule *rule; /* owned: that it brings; NULL: none */
};

struct ol_follow {
	bool on; /* shard 0 decides the job's steps */
	uint64_t newest; /* version that another shard has made, as a decision says … */
	uint64_t *newest_seqs; /* … and the last push of each worker in it */
	uint64_t version; /* of the decision that is followed … */
	uint64_t *seqs; /* … and the last push of each worker in it */
	uint64_t *lost; /* of each worker, the last of these that was given up */
	uint32_t founded[OL_SHARDS_MAX]; /* newest founding of each shard that was heard of */
	uint64_t since_ns; /* the next step is decided since then */
	uint64_t *came_ns; /* when each worker came last, or had pushed again what it has */
	uint8_t *table; /* room to check one in */
	struct ol_orphan *orphans;
	uint32_t orphan_count; /* places, used or not */
	float *zeros; /* a gradient of them; NULL: not needed yet */
};

/* ol_follow_open -- on: shard 0 decides the job's steps. -ENOMEM */
int ol_follow_open(struct ol_ingest *ingest, bool on);
/* ol_follow_start -- once the store has its geometry. -ENOMEM */
int ol_follow_start(struct ol_ingest *ingest);
void ol_follow_close(struct ol_ingest *ingest);

/* ol_follow_is_due -- a step is to be made as decided, and the policy is not asked */
bool ol_follow_is_due(const struct ol_ingest *ingest);
/* ol_follow_keeps -- gradients are parked for decisions: all of a shard that is not 0, and of one that follows */
bool ol_follow_keeps(const struct ol_ingest *ingest);

/* ol_follow_on_decision -- a worker has written one, at a place. *ret_news: parked gradients are to be judged again. NULL;
 * or the decision's fault */
const char *ol_follow_on_decision(struct ol_ingest *ingest, const struct ol_session *session,
				  uint32_t place, uint64_t now_ns, bool *ret_news);
/* ol_follow_on_join -- a worker has come: what it pushed before may be on its way again */
void ol_follow_on_join(struct ol_ingest *ingest, uint32_t worker, uint64_t now_ns);
/* ol_follow_far -- no decision is followed, though others are ahead, and none has come for long: follow the newest.
 * True: parked gradients are to be judged again */
bool ol_follow_far(struct ol_ingest *ingest, uint64_t now_ns);
/* ol_follow_on_again -- a worker has pushed again all that it keeps. NULL; or its fault */
const char *ol_follow_on_again(struct ol_ingest *ingest, struct ol_session *session,
			       uint64_t now_ns);
/* ol_follow_show -- say in the version line which founding of shard 0 is known, once all that was decided before is
 * in the published version */
void ol_follow_show(struct ol_ingest *ingest);
/* ol_follow_judge -- a gradient that waits. LATE: it is in no step */
enum ol_verdict ol_follow_judge(const struct ol_ingest *ingest, struct ol_landed landed);
/* ol_follow_due_ns -- when the decided step can be made: 0 now, as all of it is here; else when what is
 * missing is given up. UINT64_MAX: none is decided */
uint64_t ol_follow_due_ns(const struct ol_ingest *ingest);
/* ol_follow_fill -- give up what is missing; a step of nothing else is one of zeros, as versions are to stay those
 * of the other shards. False: no memory for them, now */
bool ol_follow_fill(struct ol_ingest *ingest);

/* ol_follow_takes -- a push has landed. At another shard than 0 its worker is told, which may push it to shard 0 then.
 * True: it has landed once more, and has the place of its orphan */
bool ol_follow_takes(struct ol_ingest *ingest, struct ol_session *session, struct ol_landed landed,
		     uint64_t now_ns);
/* ol_follow_orphan -- keep a landed gradient whose session is about to go; false: there is no room */
bool ol_follow_orphan(struct ol_ingest *ingest, struct ol_landed *landed);
void ol_follow_free(struct ol_ingest *ingest, struct ol_landed orphan);
static inline bool ol_follow_is_orphan(struct ol_landed landed)
{
	return landed.slot >= OL_ORPHAN_SLOT;
}
static inline struct ol_orphan *ol_follow_of(const struct ol_follow *follow,
					     struct ol_landed landed)
{
	return &follow->orphans[landed.slot - OL_ORPHAN_SLOT];
}

#endif /* OL_SERVER_FOLLOW_H */
