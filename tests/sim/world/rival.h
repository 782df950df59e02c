/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rival.h -- a single server stands still, and another is started in its place
 *
 * A server that was silent for its lease is taken for dead: its address moves to another host,
 * where a new server begins with the state that it finds. Then the old one is woken. It stood still
 * for longer than its lease, and must end before any other action (check_fenced). Or its host was
 * suspended, so that its clock does not show it: then it goes on, and only the epoch keeps workers
 * away. While both run, connections to the address reach either.
 */
#ifndef OL_TESTS_SIM_WORLD_RIVAL_H
#define OL_TESTS_SIM_WORLD_RIVAL_H

#include "sim/world/cluster.h"

struct ol_xport;

/* rival_begin -- a run begins */
void rival_begin(void);
/* rival_fault -- stop a server for long enough that it gets a rival */
void rival_fault(struct server_slot *slot);
/* rival_on_continue -- a server that stood still goes on */
void rival_on_continue(struct server_slot *slot);
/* rival_check -- after a turn of a server: nobody acts whose place another has */
void rival_check(struct server_slot *slot);
/* rival_called -- which of those that listen at an address a call reaches; NULL: the newest */
struct ol_xport *rival_called(const struct sim_process *caller, const char *addr);

#endif /* OL_TESTS_SIM_WORLD_RIVAL_H */
