/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * counters.h -- a server's counters as JSON, there and back; sums of them
 */
#ifndef CMD_COUNTERS_H
#define CMD_COUNTERS_H

#include <jansson.h>

#include "outlast.h"

/* ol_role_str -- "head" and so on; "none" where there is no chain, or it is in none yet */
const char *ol_role_str(uint32_t role);

/* ol_counters_json -- an object with a member each; of a chain only if it is in one; NULL: no
 * memory */
json_t *ol_counters_json(const struct ol_server_stat *stat);

/* ol_counters_take -- the other way round; what is missing is 0 */
void ol_counters_take(const json_t *json, struct ol_server_stat *ret_stat);

/* ol_counters_add -- to a sum of several servers, or of one after the other; resync_ns: the longest */
void ol_counters_add(struct ol_server_stat *sum, const struct ol_server_stat *one);

#endif /* CMD_COUNTERS_H */
