/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * turns.h -- compares decisions of a server's policy with the policies' promises (check_turns)
 *
 * For each run of each server: the workers present, and their gradients.
 */
#ifndef OL_TESTS_SIM_WORLD_TURNS_H
#define OL_TESTS_SIM_WORLD_TURNS_H

#include <stdbool.h>
#include <stdint.h>

/* turns_begin -- a run begins */
void turns_begin(void);
/* turns_step -- the server that runs has made a step: nobody has given anything to the next */
void turns_step(uint64_t now_ns);
/* turns_unknown -- of several pushes whose answers were lost a worker knows how many were dropped,
 * not which */
bool turns_unknown(void);

#endif /* OL_TESTS_SIM_WORLD_TURNS_H */
