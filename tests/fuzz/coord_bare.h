/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_bare.h -- the handle of a coordinator without coord.c's waiting, for one back end in one thread; and
 * what must hold of all that the back end tells it
 */
#ifndef OL_TESTS_FUZZ_COORD_BARE_H
#define OL_TESTS_FUZZ_COORD_BARE_H

#include "replication/coord/coord_internal.h"
#include "support/fuzz.h"

enum {
	COORD_SHARDS = 2,
	COORD_OWN_ID = 3, /* of the member that the program registers */
};

struct coord_bare {
	struct ol_coord coord;
	struct ol_coord_shard shards[COORD_SHARDS];
};

/* coord_bare_init -- addr stays the caller's */
void coord_bare_init(struct coord_bare *bare, const char *addr, void (*notify)(void *arg));
void coord_bare_fini(struct coord_bare *bare);

/* coord_state_check -- what is known of a shard is within its limits, and what a folder or an ensemble can
 * hold: views and members that would be written the same again, each member once */
void coord_state_check(struct coord_bare *bare, uint32_t shard);

/* coord_view_make, coord_member_make -- some that can be decoded; of few kinds, chosen by `how` */
void coord_view_make(uint8_t how, struct ol_view *ret_view);
void coord_member_make(uint64_t id, struct ol_member *ret_member);

#endif /* OL_TESTS_FUZZ_COORD_BARE_H */
