/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * fault.h -- what goes wrong in a simulated world, each kind at a rate of its own in every run
 *
 * At any time one replica at least of a chain that nobody may found anew is left alone.
 */
#ifndef OL_TESTS_SIM_WORLD_FAULT_H
#define OL_TESTS_SIM_WORLD_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* fault_begin -- draw rates, begin; none: nothing ever goes wrong */
void fault_begin(bool none);
/* fault_end -- everything that can be made good is, and nothing more happens */
void fault_end(void);
/* fault_text -- how often what has happened */
void fault_text(char *text, size_t bytes);

#endif /* OL_TESTS_SIM_WORLD_FAULT_H */
