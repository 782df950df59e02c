/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * turn.h -- limits the work of one turn of a loop, as pieces of work are large
 *
 * Connecting peers, ended peers and the heartbeat wait for the end of a turn. So a turn works on so
 * many bytes of each kind and begins no more. Later work waits for the next turn, in its order.
 */
#ifndef OL_BASE_TURN_H
#define OL_BASE_TURN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum ol_turn_work {
	OL_TURN_STEP, /* gradients summed up, and put into a snapshot or an entry */
	OL_TURN_FORWARD, /* an entry, into the successor's ring */
	OL_TURN_APPLY, /* an entry, to a snapshot */
	OL_TURN_WORKS
};

struct ol_turn {
	uint64_t bytes_max; /* of each kind; a piece is begun while there are fewer */
	uint64_t bytes[OL_TURN_WORKS];
	bool left; /* work waits for the next turn */
};

/* ol_turn_begin -- a new turn begins */
static inline void ol_turn_begin(struct ol_turn *turn)
{
	memset(turn->bytes, 0, sizeof(turn->bytes));
	turn->left = false;
}

/* ol_turn_has_room -- may a piece of this kind of work be begun now? If not it is left for the next turn */
static inline bool ol_turn_has_room(struct ol_turn *turn, enum ol_turn_work work)
{
	if (turn->bytes[work] < turn->bytes_max)
		return true;
	turn->left = true;
	return false;
}

/* ol_turn_spend -- a piece was begun, of so many bytes */
static inline void ol_turn_spend(struct ol_turn *turn, enum ol_turn_work work, uint64_t bytes)
{
	turn->bytes[work] += bytes;
}

/*
 * OL_HOT -- without the stack protector, which costs such a function 20 instructions a push
 *
 * Only for a function that copies nothing of a peer's length to its stack.
 */
#if defined(__has_attribute)
#if __has_attribute(no_stack_protector)
#define OL_HOT __attribute__((no_stack_protector))
#endif
#endif
#ifndef OL_HOT
#define OL_HOT
#endif

#endif /* OL_BASE_TURN_H */
