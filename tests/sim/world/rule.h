/* SPDX-License-Identifier: BSD-3-Clause */

/* rule.h -- rules that workers change while an exact scenario runs */
#ifndef OL_TESTS_SIM_WORLD_RULE_H
#define OL_TESTS_SIM_WORLD_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_server.h"

enum {
	CLUSTER_GROUPS = 3 /* room of the servers for groups */
};

/* cluster_rule -- how gradients become weights in this run, until workers change it */
struct ol_update_rule cluster_rule(void);
/* rules_change -- workers set the rule of a version before they push a gradient computed at it */
bool rules_change(void);
/* rule_at -- the rule that is to make the step from `version` on */
void rule_at(uint64_t version, struct ol_rule *ret_rule);

#endif /* OL_TESTS_SIM_WORLD_RULE_H */
