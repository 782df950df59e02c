/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_world.h -- a chain of replicas, their links and promises, in one thread
 *
 * A process is a replica's state machine (replication/chain.h) with a ring, a log and a server's
 * code around it. Links carry messages in order. Entries land in a ring without its owner, as RDMA
 * writes do, even while the receiver is stopped, until its end is fenced. The caller decides what
 * happens next, from a seed.
 *
 * Each entry has a unique tag; a log's hash at a version stands for the whole history up to it. The
 * first broken promise is kept in `failure`; then the caller must stop.
 */
#ifndef OL_TESTS_SUPPORT_CHAIN_WORLD_H
#define OL_TESTS_SUPPORT_CHAIN_WORLD_H

#include <stdio.h>

#include "replication/chain.h"

enum {
	WORLD_PLACES = 7, /* processes at a time */
	WORLD_WORKERS = 3,
	WORLD_SLOTS = 16, /* at most */
	WORLD_VERSIONS = 1000, /* of all entries that are ever ordered */
	WORLD_LINKS = 16,
	WORLD_SESSIONS = 32,
	WORLD_QUEUE = 64,
	WORLD_TEXT = 256,
	WORLD_STEPS = 1400, /* of a trace for the model */
};

/* A rule of the protocol that is left out, to see that it is missed. */
enum world_broken {
	WORLD_WHOLE,
	WORLD_NO_FENCE, /* an old predecessor's link is not cut */
	WORLD_NO_HANDOFF, /* one that joins is made the tail as soon as it is there */
	WORLD_EARLY_ACK, /* a head tells workers of what it applied */
	WORLD_RELOAD, /* one that joins reads weights for every new link */
	WORLD_HANDOFF_BY_LINK, /* a handoff ends when the link does */
	WORLD_READERS_STAY, /* of one that is no longer the tail */
	WORLD_NO_HOLD, /* a tail does not keep entries for one that joins */
	WORLD_NO_FLOOR, /* a new tail serves, and hands off, without what it has received */
	WORLD_EARLY_WELCOME, /* a new head lets workers in before it has applied all */
	WORLD_PROPOSE_AHEAD, /* a tail proposes against a view that it has not adopted */
	WORLD_EPOCH_BACK, /* a worker takes a session of an older epoch, or behind what it was
			   told */
	WORLD_TAIL_BACK, /* a worker takes a tail behind what it was told */
	WORLD_HELLO_AHEAD, /* a hello of a newer epoch is answered */
	WORLD_REJOIN, /* one that was removed joins again with what it has */
	WORLD_FREE_UNAPPLIED, /* a middle says that slots are free that it has not applied */
	WORLD_HAVE_IS_ACK, /* in a handoff a welcome counts as an ack */
	WORLD_WELCOME_IS_ACK, /* one that joins counts as loaded when there is a link */
	WORLD_ORDER_FULL, /* one that is ordered to join counts at once */
	WORLD_ORDER_BLIND, /* an order replaces a view that it was not made of */
	WORLD_RULES
};

enum message_kind {
	MESSAGE_HELLO, /* epoch, content */
	MESSAGE_ENTRY, /* version */
	MESSAGE_WELCOME, /* have, loading; to a worker: epoch, resolved */
	MESSAGE_ACK, /* version; to a worker: seq, version */
	MESSAGE_PUSH, /* seq */
	MESSAGE_DOWN
};

struct message {
	enum message_kind kind;
	uint64_t a, b, c;
};

struct queue {
	struct message messages[WORLD_QUEUE];
	uint32_t first, count;
};

struct process;

/* From a replica to its successor. */
struct link {
	bool used;
	struct process *from, *to; /* NULL: that end is closed */
	uint64_t from_id;
	bool live; /* welcomed, and the welcome was read */
	bool broken; /* both ends are to hear of it */
	struct queue posted_down, down; /* on the wire to `to`; there */
	struct queue posted_up, up;
};

/* Of a worker at a replica. */
struct session {
	bool used;
	bool reads; /* at the tail; else at the head */
	bool welcomed; /* by the replica */
	bool live; /* the welcome was read */
	struct process *process; /* NULL: closed there */
	uint32_t worker;
	bool closed; /* by the worker */
	struct queue in, out; /* to the replica, to the worker */
};

struct slot {
	uint64_t version; /* 0: none yet */
	uint32_t tag;
};

struct entry {
	uint32_t part_count;
	struct {
		uint32_t worker;
		uint32_t seq;
	} parts[WORLD_WORKERS];
};

/* What the coordinator holds, or a process has seen of it. */
struct board {
	uint64_t version;
	struct ol_view view;
	struct ol_member members[WORLD_PLACES];
	uint32_t member_count;
};

struct process {
	struct world *world;
	bool alive;
	bool stopped;
	bool cut_off; /* from the coordinator */
	bool slow; /* it hardly applies anything */
	struct ol_member self;
	struct ol_chain chain;
	struct slot ring[WORLD_SLOTS];
	uint32_t tags[WORLD_VERSIONS + 1]; /* log: 1 … received */
	uint64_t hashes[WORLD_VERSIONS + 1];
	uint32_t table[WORLD_WORKERS]; /* newest number applied */
	uint64_t forwarded; /* newest entry, to whomever */
	struct link *pred, *succ;
	bool dials; /* a link to the successor is wanted */
	bool loading;
	uint64_t content;
	struct board seen;
	uint64_t suspects[2];
	bool proposes;
	uint64_t proposed_version;
	struct ol_view proposal;
};

struct world {
	uint64_t random;
	bool trace;
	enum world_broken broken;
	uint32_t step;
	uint32_t slots;
	uint32_t wanted;
	uint32_t again_percent; /* of calls that say -EAGAIN */
	struct process processes[WORLD_PLACES];
	struct link links[WORLD_LINKS];
	struct session sessions[WORLD_SESSIONS];
	bool cut[WORLD_PLACES][WORLD_PLACES]; /* no link between the two */
	struct board board; /* of the coordinator */
	struct entry entries[WORLD_VERSIONS + 1]; /* by tag */
	uint32_t tag_count;
	uint64_t id_count;
	uint32_t orders; /* that an operator will give yet */
	struct board looked; /* … as he saw it */
	/* what was shown to anybody as committed: the one history */
	uint64_t shown;
	uint32_t shown_tags[WORLD_VERSIONS + 1];
	uint64_t shown_hashes[WORLD_VERSIONS + 1];
	uint32_t shown_seqs[WORLD_WORKERS];
	uint64_t promotions, removals, resent; /* what a run has been through */
	char failure[WORLD_TEXT]; /* empty: none */
	/* a trace for the model (tests/model); then all happens in as few ways as there */
	FILE *steps; /* NULL: none */
	uint32_t step_count;
	uint32_t acted; /* a bit a place: of it there was a step since its state was told */
	uint64_t founder; /* id of the first replica; 0: none yet */
};

/* world_rule_name -- in words, of a rule that can be left out */
const char *world_rule_name(enum world_broken rule);
/* world_rule -- WORLD_RULES: none is called so */
enum world_broken world_rule(const char *name);

void world_init(struct world *world, uint64_t seed, enum world_broken broken);
/* world_below -- a number below `limit`, which is not 0 */
uint32_t world_below(struct world *world, uint32_t limit);
bool world_chance(struct world *world, uint32_t percent);
__attribute__((format(printf, 2, 3))) void world_fail(struct world *world, const char *text, ...);
__attribute__((format(printf, 2, 3))) void world_say(const struct world *world, const char *text,
						     ...);

bool queue_put(struct queue *queue, enum message_kind kind, uint64_t a, uint64_t b, uint64_t c);
const struct message *queue_front(const struct queue *queue);
void queue_drop(struct queue *queue);

uint32_t place_of(const struct process *process);
/* process_start -- a new process at a free place */
void process_start(struct world *world, uint32_t place);
/* process_end -- it is gone, with all that it had */
void process_end(struct process *process);
/* process_event -- handle the first message that is there at one of its links; false: there is none
 * that it can handle now */
bool process_event(struct process *process, struct link *link);
void process_dial(struct process *process);
void process_load(struct process *process);
/* process_progress -- do what its chain asks for */
void process_progress(struct process *process);
/* process_beat -- its heartbeat: a tail acknowledges what is left */
void process_beat(struct process *process);
void process_adopt(struct process *process);
void process_order(struct process *process, const struct entry *entry);
void process_suspect(struct process *process, bool successor);

/* world_step -- a step of the model: its word, the server, what else it says */
void world_step(struct world *world, const char *step, const struct process *process, uint64_t a,
		uint64_t b);
/* world_step_who -- the same, of a worker, or where there is no process */
void world_step_who(struct world *world, const char *step, uint64_t who, uint64_t a, uint64_t b);
void world_step_adopt(struct process *process, enum ol_chain_role was);
void world_step_view(struct world *world, const struct ol_view *view, const struct ol_view *next);
/* world_step_state -- what a replica has after a turn */
void world_step_state(struct process *process);
/* world_is_dialed -- is there a connection to it that it has not ended? */
bool world_is_dialed(const struct process *process);
/* link_overwrite -- an ack comes in the place of those before it, which were not read */
void link_overwrite(struct link *link);
/* world_one_change -- of those that are alive, so that the next view changes one thing; the
 * count */
uint32_t world_one_change(const struct ol_view *view, struct ol_member *alive, uint32_t count,
			  uint64_t *caught_up);

/* link_move -- let the first message that was posted in a direction arrive */
void link_move(struct world *world, struct link *link, bool down);
/* link_break -- both ends find it closed */
void link_break(struct link *link);

bool board_has(const struct board *board, uint64_t id);
void board_drop(struct board *board, uint64_t id);
/* world_process -- which is alive; NULL: it is not */
const struct process *world_process(const struct world *world, uint64_t id);

struct session *session_open(struct world *world, uint32_t worker, struct process *process,
			     bool reads);
void session_close(struct session *session, bool by_worker);

/* world_show -- somebody is shown `version` of a replica as committed */
void world_show(struct process *process, uint64_t version);
/* world_is_full -- it lives, and counts in this view */
bool world_is_full(const struct ol_view *view, const struct process *process);
/* world_shown_check -- every replica that counts has all that was shown */
void world_shown_check(struct world *world);
/* world_check -- every promise that can be seen from outside */
void world_check(struct world *world);
/* world_view_set -- the coordinator takes a view */
void world_view_set(struct world *world, const struct ol_view *view);

/* chain_operator.c */
/* world_may_die -- of the replicas that count, one is left that is not dead: it may be any */
bool world_may_die(const struct world *world, const struct process *process);
/* world_order -- an operator looks, or has a replica leave or a member join, as he saw the chain */
void world_order(struct world *world);

#endif /* OL_TESTS_SUPPORT_CHAIN_WORLD_H */
