/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord.h -- the coordinator of a simulated world, and the handles of replication/coord/coord.h to
 * it
 *
 * It behaves as an ensemble of ZooKeeper servers: sessions have leases, members last as long as
 * their session, and views change by compare-and-set. Each handle gets changes at another time,
 * those of views and of members apart. While it is away no session ends and nothing changes. A
 * follower may lag: its clients see old state, but never older than what they saw before.
 */
#ifndef OL_TESTS_SIM_WORLD_COORD_H
#define OL_TESTS_SIM_WORLD_COORD_H

#include "replication/coord/coord.h"
#include "sim/world/sim.h"

enum {
	COORD_PLACE = 0, /* its host */
	COORD_SHARDS_MAX = 4
};

void coord_begin(void);
/* coord_away -- it answers nobody, until it is back */
void coord_away(bool away);
/* coord_lags -- the follower that a process is connected to is so much behind, from now on */
void coord_lags(const struct sim_process *process, uint64_t lag_ns);
/* coord_calm -- nobody is served anything stale from now on */
void coord_calm(void);
/* coord_expire -- end the session of a process, as if it had not been heard of for its lease */
void coord_expire(const struct sim_process *process);
void coord_process_gone(const struct sim_process *process);
void coord_process_continues(const struct sim_process *process);
/* coord_view -- in force; NULL: there is none */
const struct ol_view *coord_view(uint32_t shard);
uint32_t coord_member_count(uint32_t shard);
/* coord_members -- those that are registered; returns how many */
uint32_t coord_members(uint32_t shard, struct ol_member members[OL_MEMBERS_MAX]);
/* coord_version -- of the view in force; coord_set -- put another into force. False: nobody is served */
uint64_t coord_version(uint32_t shard);
bool coord_set(uint32_t shard, const struct ol_view *view);

#endif /* OL_TESTS_SIM_WORLD_COORD_H */
