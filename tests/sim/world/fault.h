/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * fault.h -- faults in a simulated world, each kind at its own rate in every run
 *
 * At any time at least one replica of a chain that may not be founded anew has no fault.
 */
#ifndef OL_TESTS_SIM_WORLD_FAULT_H
#define OL_TESTS_SIM_WORLD_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* fault_begin -- draw rates, begin; none: nothing ever goes wrong */
void fault_begin(bool none);
/* fault_blips -- in place of fault_begin(): the network is away for a quarter of a lease at most,
 * and adapters break connections; nobody deserves to be suspected (check_kept) */
void fault_blips(void);
bool fault_only_blips(void);
/* fault_end -- everything that can be made good is, and nothing more happens */
void fault_end(void);
struct server_slot;
/* fault_well -- it runs; fault_spared -- so does another replica that has all it has */
bool fault_well(const struct server_slot *slot);
bool fault_spared(const struct server_slot *slot);
/* fault_text -- how often what has happened */
void fault_text(char *text, size_t bytes);

#endif /* OL_TESTS_SIM_WORLD_FAULT_H */
