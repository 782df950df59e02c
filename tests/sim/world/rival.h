/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rival.h -- a server by itself stands still, and another is started in its place
 *
 * Somebody takes a server that was silent for its lease for dead: the address moves to another
 * host, where a new server begins with what it finds. The old one is woken all the same. It was
 * away for longer than its lease, and has to end before it does anything else (check_fenced).
 * Or its host was suspended and its clock does not tell: then it goes on, and only the epoch keeps
 * workers from it. Calls to the address reach either for as long as both are there.
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
