/* SPDX-License-Identifier: BSD-3-Clause */

/* carry.h -- decisions of shard 0 about steps, between shards and worker (carry.c); wire.h, struct ol_decision, says
 * what they are */
#ifndef OL_WORKER_CARRY_H
#define OL_WORKER_CARRY_H

#include <stdbool.h>
#include <stdint.h>

struct ol_decision;
struct ol_link;
struct ol_peer;
struct ol_push_hdr;
struct ol_version_line;
struct ol_worker;

/* A decision on its way from one shard to others */
enum ol_carry_state {
	OL_CARRY_IDLE,
	OL_CARRY_ASK, /* a read of the version line is to be posted, to choose a version … */
	OL_CARRY_ASKS, /* … and is */
	OL_CARRY_TABLE, /* a read of the table is to be posted … */
	OL_CARRY_LINE, /* … or of the version line behind it */
	OL_CARRY_READS, /* both are posted */
	OL_CARRY_WRITES, /* it is here */
};

struct ol_carry {
	enum ol_carry_state state;
	uint32_t number; /* distinguishes completions of this one from those of the one before */
	uint64_t after; /* the version carried is the oldest behind this one that is there */
	bool newest; /* it tells shard 0 how far others are … */
	bool introduces; /* … or others of shard 0 */
	uint32_t from; /* shard … */
	uint32_t snapshot; /* … and where the version lies there */
	uint64_t to; /* shards that it is still to be written to, a bit each … */
	uint64_t busy; /* … and those whose write is not complete */
};

/* What a shard was told */
struct ol_carried {
	uint64_t newest; /* shard 0: it was told that another has made this version */
	uint64_t version; /* newest version whose decision was written to this shard … */
	uint64_t again_ns; /* … and when it may be written again */
	uint64_t seen; /* its version when … */
	uint32_t rung; /* … so many decisions were written since */
	uint32_t introduced; /* the founding of shard 0 that this shard was told of */
	uint32_t decider; /* the one that it knows, as its line says … */
	uint64_t ordered; /* … and the newest version in that */
	uint64_t line_ns; /* when the line may be read again */
	bool lined; /* a read of it is in flight */
	bool drops_due; /* it is to be told of pushes that shard 0 has dropped … */
	bool again_due; /* … and that it has got again all that is kept */
};

/* In jobs where shard 0 decides, and not of observers: ol_worker_decided() */
void ol_carry_progress(struct ol_worker *worker);
/* ol_carry_on_down -- a connection that was live is lost */
void ol_carry_on_down(const struct ol_peer *peer);
void ol_carry_on_table(struct ol_worker *worker, uint32_t number, int status);
void ol_carry_on_written(struct ol_link *link, uint32_t number);
void ol_carry_on_line(struct ol_link *link, int status);
/* ol_carry_may_send -- this push may go now: to shard 0, if that decides, once all others have said that they have it */
bool ol_carry_may_send(const struct ol_link *link, uint32_t index);
/* ol_carry_base -- a push's base version is to be one that the server has, whose newest is this; what is beyond it
 * goes into hdr->ahead */
void ol_carry_base(struct ol_push_hdr *hdr, uint64_t version);
/* ol_carry_drops -- tell the shard which of the pushes that it has were dropped by shard 0 */
void ol_carry_drops(struct ol_link *link);
/* ol_carry_again -- tell a shard that it has got again all that is kept, once shard 0 gets pushes */
void ol_carry_again(struct ol_link *link);

/*
 * ol_carry_unsent -- a push is acknowledged that is to be sent again, and is not sent yet: true, and it is sent no
 * more
 *
 * Where shard 0 decides the steps, a head keeps what its worker's last connection brought, and takes it when it
 * is decided.
 */
bool ol_carry_unsent(struct ol_link *link, uint32_t index);

/* memory.c: */
/* ol_worker_decision -- the decision that is carried, with the table behind it; ol_worker_carry_line -- what is read
 * of a shard meanwhile; link_count: of the shard that it comes from */
struct ol_decision *ol_worker_decision(struct ol_worker *worker);
struct ol_version_line *ol_worker_carry_line(struct ol_worker *worker, uint32_t link);

#endif /* OL_WORKER_CARRY_H */
