/* SPDX-License-Identifier: BSD-3-Clause */

/* options.h -- a server's options: what is wrong with them, and the policy's among them */
#ifndef OL_SERVER_OPTIONS_H
#define OL_SERVER_OPTIONS_H

#include <stdbool.h>

#include "outlast_policy.h"
#include "outlast_server.h"

enum {
	OL_OPTS_WHY_MAX = 512
};

/* ol_server_opts_fault -- what is wrong with the options; NULL: nothing. why: room for the line */
const char *ol_server_opts_fault(const struct ol_server_opts *opts, bool read_only,
				 char why[OL_OPTS_WHY_MAX]);

/* ol_server_decided -- shard 0 decides which gradients make a step of every shard */
bool ol_server_decided(const struct ol_server_opts *opts);

/* ol_server_policy_opts -- of the policy that this shard's server runs */
struct ol_policy_opts ol_server_policy_opts(const struct ol_server_opts *opts);

#endif /* OL_SERVER_OPTIONS_H */
