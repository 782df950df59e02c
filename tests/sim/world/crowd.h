/* SPDX-License-Identifier: BSD-3-Clause */

/* crowd.h -- jobs of many workers, many shards, or long gradients; worker ids that return in more modes */
#ifndef OL_TESTS_SIM_WORLD_CROWD_H
#define OL_TESTS_SIM_WORLD_CROWD_H

#include "sim/world/cluster.h"

/* crowd_draw -- what CLUSTER_AGE_CROWDS adds to a scenario that has been drawn */
void crowd_draw(struct scenario *scenario, uint64_t seed);
/* crowd_returns_draw -- what CLUSTER_AGE_RETURNS adds, after that */
void crowd_returns_draw(struct scenario *scenario);
/* crowd_places_draw -- what CLUSTER_AGE_PLACES adds */
void crowd_places_draw(struct scenario *scenario);
/* crowd_parts_draw -- what CLUSTER_AGE_PARTS adds, last */
void crowd_parts_draw(struct scenario *scenario);
/* crowd_between_draw -- what CLUSTER_AGE_BETWEEN adds, last of all */
void crowd_between_draw(struct scenario *scenario);
/* crowd_seldom_draw -- what CLUSTER_AGE_SELDOM adds, after all others. False: the scenario has no place for it */
bool crowd_seldom_draw(struct scenario *scenario);
/* crowd_spans_draw -- what CLUSTER_AGE_SPANS adds, and what has to be so that it can end */
void crowd_spans_draw(struct scenario *scenario);

#endif /* OL_TESTS_SIM_WORLD_CROWD_H */
