/* SPDX-License-Identifier: BSD-3-Clause */

/* rule.h -- the rule that a server's options say */
#ifndef OL_SERVER_RULE_H
#define OL_SERVER_RULE_H

#include "outlast_server.h"
#include "wire/rule.h"

/* ol_server_rule_fault -- what is wrong with the options; NULL: nothing. Fields that the optimizer
 * does not use are not checked */
const char *ol_server_rule_fault(const struct ol_server_opts *opts);

/* ol_server_rule_make -- of valid options. ret_rule: ol_layout_rule_bytes(geo) */
void ol_server_rule_make(const struct ol_server_opts *opts, const struct ol_geometry *geo,
			 struct ol_rule *ret_rule);

#endif /* OL_SERVER_RULE_H */
