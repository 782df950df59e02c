/* SPDX-License-Identifier: BSD-3-Clause */

/* schedule.h -- the value of --schedule: how the learning rate changes from step to step */
#ifndef OL_CMD_SCHEDULE_H
#define OL_CMD_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "outlast_rule.h"

struct ol_schedule_set {
	enum ol_schedule schedule;
	uint64_t steps; /* 0: constant */
	uint64_t warmup;
	float from; /* of the warm-up */
	float floor;
	float gamma;
	uint32_t power;
};

extern const char ol_schedule_help[];

/* ol_schedule_parse -- 0; or -EINVAL with the rest of an error line behind "--schedule " in err */
int ol_schedule_parse(const char *text, struct ol_schedule_set *ret_set, char *err,
		      size_t err_bytes);

#endif /* OL_CMD_SCHEDULE_H */
