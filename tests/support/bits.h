/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * bits.h -- synchronous jobs that are disturbed in different ways, and whose workers are all to end with the bits
 * of the first one, which is not
 */
#ifndef OL_TESTS_SUPPORT_BITS_H
#define OL_TESTS_SUPPORT_BITS_H

#include <stdint.h>

#include "outlast_server.h"

/* bits_begin -- before the first job's processes are forked */
void bits_begin(uint32_t workers);

/* bits_opts -- servers of such a job, with momentum */
struct ol_server_opts bits_opts(uint64_t params, uint32_t shards, uint32_t workers);

/* bits_noise -- in a gradient: a function of these alone, from -0.5 up to 0.5 */
float bits_noise(long id, uint64_t version, uint64_t i);

/* bits_note -- a worker's last weights, in its own process */
void bits_note(long id, const float *weights, uint64_t params);

/* bits_check -- after a job: fails unless each worker has noted the bits of the first job's worker 0. Their
 * SHA-256 */
const char *bits_check(void);

#endif /* OL_TESTS_SUPPORT_BITS_H */
