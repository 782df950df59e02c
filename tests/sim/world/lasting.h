/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * lasting.h -- one fault that is never repaired: the rest of the job must finish all the same
 *
 * It begins when all others have ended: a replica and its host, a link or a worker is lost for
 * good. The lost part is excused; all others must be done in time (check_converged).
 */
#ifndef OL_TESTS_SIM_WORLD_LASTING_H
#define OL_TESTS_SIM_WORLD_LASTING_H

#include "sim/world/cluster.h"

/* lasting_draw -- whether there is one, and which; after all else of a scenario */
void lasting_draw(struct scenario *scenario);
/* lasting_begin -- all other faults have ended */
void lasting_begin(void);
/* lasting_text -- which; "": none */
const char *lasting_text(void);
/* lasting_replicas -- how many a chain has to come back to */
uint32_t lasting_replicas(uint32_t shard);
/* lasting_end -- the job has finished: what is lost is switched off */
void lasting_end(void);

#endif /* OL_TESTS_SIM_WORLD_LASTING_H */
