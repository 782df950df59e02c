/* SPDX-License-Identifier: BSD-3-Clause */

/* scenarios.h -- the scenarios; each is described where it is defined */
#ifndef OL_TESTS_NTH_SCENARIOS_H
#define OL_TESTS_NTH_SCENARIOS_H

#include <stdint.h>

#include "nth/frame/run.h"

extern const struct run_scenario nth_conf;
extern const struct run_scenario nth_data_idx, nth_data_libsvm, nth_data_synthetic;
extern const struct run_scenario nth_checkpoint_write, nth_checkpoint_writer, nth_checkpoint_read;
extern const struct run_scenario nth_xport;
extern const struct run_scenario nth_server, nth_server_checkpoint;
extern const struct run_scenario nth_worker, nth_worker_again;
extern const struct run_scenario nth_coord_session;
extern const struct run_scenario nth_chain_join;
extern const struct run_scenario nth_tools_help, nth_tools_wrong, nth_tools_doctor;

enum {
	NTH_PATIENCE_MS = 600, /* of an attempt that may fail; the next one must not */
	NTH_PATIENCE_LONG_MS = 20000,
};

/* nth_patience_ms -- how long an attempt waits for anybody else */
static inline uint32_t nth_patience_ms(unsigned attempt)
{
	return attempt == 0 ? NTH_PATIENCE_MS : NTH_PATIENCE_LONG_MS;
}

#endif /* OL_TESTS_NTH_SCENARIOS_H */
