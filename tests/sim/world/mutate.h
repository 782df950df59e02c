/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * mutate.h -- faults of the product and of the transport, put in on purpose
 *
 * None is in the product's code: each is made in a call that the linker sends through the
 * simulation, or by the simulated transport. A check proves its worth by the mutations that it
 * finds.
 */
#ifndef OL_TESTS_SIM_WORLD_MUTATE_H
#define OL_TESTS_SIM_WORLD_MUTATE_H

#include <stdbool.h>
#include <stdint.h>

enum mutation {
	MUTATE_NOTHING,
	MUTATE_NO_FENCE, /* writes land after conn_free() and dereg() */
	MUTATE_NO_READ_FENCE, /* a read does not wait for earlier ones */
	MUTATE_BELL_FIRST, /* a doorbell may ring before its write has landed */
	MUTATE_NO_DEDUP, /* a server does not say what it has of a worker */
	MUTATE_EARLY_ACK, /* a head acknowledges what the tail does not have yet */
	MUTATE_LOST_TABLE, /* a restored snapshot forgets `applied` */
	MUTATE_EARLY_PUBLISH, /* the end word is set before the data are there */
	MUTATE_EARLY_TAIL, /* one that joins counts before it has all that is committed */
	MUTATE_REPLAY_TWICE, /* what waited in a queue is pushed twice */
	MUTATE_KEEP_NOTHING, /* a worker forgets what is applied before its mirror has it */
	MUTATE_REAPPLY, /* a replica in the middle applies every entry twice */
	MUTATE_RENAME_FIRST, /* a checkpoint gets its name before its bytes are durable */
	MUTATE_NO_FOLDER_SYNC, /* a checkpoint is done before its name is durable */
	MUTATE_FILE_TABLE, /* a checkpoint forgets `applied` */
	MUTATE_NO_CRC, /* a checkpoint is believed whatever its checksums say */
	MUTATE_NO_PIN, /* a snapshot changes while it is copied for a checkpoint */
	MUTATE_LOST_STATE, /* what is restored forgets the optimizer's state */
	MUTATE_LATE_TWICE, /* a gradient that came too late is in the next step all the same */
	MUTATE_NO_BOUND, /* who should wait for the slowest does not */
	MUTATE_TOO_FEW, /* a step is made of one gradient less than the policy waits for */
	MUTATE_NO_GRACE, /* a quorum is a step at once */
	MUTATE_BELOW_QUORUM, /* all who are there are a step, be they fewer than a quorum */
	MUTATE_HELD_UP, /* who has left is waited for */
	MUTATE_BOTH_COPIES, /* a running checkpoint's block is written over both of its copies */
	MUTATE_NO_BLOCK_CRC, /* a copy of a block is believed whatever its checksum says */
	MUTATE_TABLE_FIRST, /* a turn's table is durable before its blocks are */
	MUTATE_NO_PLACE, /* a copy of one block is believed where another belongs */
	MUTATE_FORGETS, /* the coordinator comes back empty, and believes the first who comes */
	MUTATE_NO_SELF_FENCE, /* a server that stood still for longer than its lease goes on */
	MUTATE_LEASE_TWICE, /* a server takes its lease as twice as long as it is */
	MUTATE_OLDER_EPOCH, /* a worker takes a server of an older epoch than it has seen */
	MUTATE_SESSION_FOR_EVER, /* a head commits after its session has ended */
	MUTATE_WAITS_FOR_ALL, /* a chain that lacks a replica orders nothing */
	MUTATE_ADMIT_IN_LOOP, /* slots are made by the loop, which has no heartbeat meanwhile */
	MUTATE_ANY_MIRROR, /* a mirror need not be enough, and nobody is waited for */
	MUTATE_ONE_NUMBERING, /* numbers of pushes do not name the process */
	MUTATE_NEWCOMER_COUNTS, /* whoever connects counts toward the workers that are waited for */
	MUTATE_SHARED_BUFFERS, /* queues leave through the buffers that gradients are computed in */
	MUTATE_NO_WITHDRAW, /* what is held behind the last step is never withdrawn */
	MUTATE_SESSION_LONG, /* a server takes its session as three times as long as it is */
	MUTATE_SECOND, /* a gradient is sent to a step that has its worker's already */
	MUTATE_AT_ONCE, /* a neighbour is suspected when its connection breaks */
	MUTATE_KEEPS_PAYLOAD, /* what was done with a payload counts for another of the same entry */
	MUTATE_NO_RECALL, /* a successor is not told of a void payload, and is not sent the other one */
	MUTATE_TAKES_ANY, /* a step takes what was begun with other gradients */
	MUTATE_FORGETS_RULE, /* a server that restores goes on by its options' rule */
	MUTATE_ENCODES_AGAIN, /* what is pushed again is made of its gradient anew, and of what others
				 have left over since */
	MUTATE_PUSHES_ALL, /* a push of a span is one of all shards */
	MUTATE_NO_COPY, /* a pull of a span leaves the other shards as the mirror happens to have them */
	MUTATE_OLDEST_BASE, /* a push of a span names the version of the shard furthest behind */
	MUTATE_ORDER_FULL, /* who is ordered to join counts at once */
	MUTATE_ORDER_BLIND, /* an order takes the place of a view that it was not made of */
	MUTATE_SAVES_EARLY, /* a replica saves what is not committed yet */
	MUTATE_HELD_LOOSE, /* a snapshot that waits for its commit may be overwritten */
	MUTATE_ANSWERS_OVER, /* a commit is answered in a slot where a later push has landed */
	MUTATE_UNEVEN, /* a worker that joins reads each shard at its newest version */
	MUTATE_DECIDES_ALONE, /* each shard decides its steps by itself */
	MUTATE_NO_ORPHANS, /* what waits at a shard for a decision dies with its worker */
	MUTATE_FIRST_SHARD_FIRST, /* shard 0 has a gradient before the others have it */
	MUTATE_LEFT_COUNTS, /* that a push has left its worker counts as that a shard has it */
	MUTATE_NO_INTRODUCTION, /* a shard 0 that came back decides anew what others have made */
	MUTATE_LENDS_ALL, /* a mirror lends blocks that the running checkpoint has newer */
	MUTATE_LENDS_ANY, /* a mirror of another history lends blocks */
	MUTATE_CARRIES_ALONE, /* a shard takes into a step what missed its own, though shard 0 has not */
	MUTATE_CARRIED_DIES, /* what missed its step dies with its worker, where it waits for a decision */
	MUTATE_PARTS_APART, /* in an outage of one shard the others get their parts of a gradient */
	MUTATE_COUNT
};

struct server_slot;
/* mutate_lease -- of a server that is about to run */
void mutate_lease(struct server_slot *slot);
struct worker_slot;
/* mutate_numbers -- of a worker that is about to push */
void mutate_numbers(struct worker_slot *slot);

/* mutate_needs_blips -- it shows where nobody deserves to be suspected */
bool mutate_needs_blips(enum mutation mutation);

void mutate_set(enum mutation mutation);
bool mutation(enum mutation mutation);
struct sim_process;
/* mutate_news_late_ns -- by how much later a process hears of views: some flaws show with that only, which is
 * rare by itself */
uint64_t mutate_news_late_ns(const struct sim_process *process);
/* mutate_name -- of an index below MUTATE_COUNT */
const char *mutate_name(unsigned mutation);
/* mutate_find -- MUTATE_COUNT: there is none of that name */
enum mutation mutate_find(const char *name);

#endif /* OL_TESTS_SIM_WORLD_MUTATE_H */
