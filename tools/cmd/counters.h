/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * counters.h -- a server's counters to and from JSON; sums of them
 */
#ifndef CMD_COUNTERS_H
#define CMD_COUNTERS_H

#include <jansson.h>

#include "outlast.h"

/* ol_role_str -- "head" and so on; "none" without a chain, or before the server is in it */
const char *ol_role_str(uint32_t role);

/* ol_counters_json -- an object with a member for each; a chain's only if it is in one; NULL: no
 * memory */
json_t *ol_counters_json(const struct ol_server_stat *stat);

/* ol_counters_take -- read such an object; missing members are 0 */
void ol_counters_take(const json_t *json, struct ol_server_stat *ret_stat);

/* ol_counters_add -- add to a sum over servers, also successive ones; resync_ns: the longest */
void ol_counters_add(struct ol_server_stat *sum, const struct ol_server_stat *one);

#endif /* CMD_COUNTERS_H */
