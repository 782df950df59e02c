/* SPDX-License-Identifier: BSD-3-Clause */

/* format.h -- workers whose gradients are not fp32 on the wire */
#ifndef OL_TESTS_SIM_WORLD_FORMAT_H
#define OL_TESTS_SIM_WORLD_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

/* formats_differ -- workers' formats are not all fp32 */
bool formats_differ(void);
/* format_of -- enum ol_format of a worker's gradients */
uint32_t format_of(uint32_t worker);
/* format_gradient -- a shard's part of a worker's i-th gradient, as the server reads it; memory: of all
 * workers' gradients, then of what each has left over, which was 0 at first */
const float *format_gradient(float *memory, uint32_t worker, uint32_t i, const float *weights,
			     uint32_t shard);

#endif /* OL_TESTS_SIM_WORLD_FORMAT_H */
