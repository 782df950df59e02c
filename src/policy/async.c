/* SPDX-License-Identifier: BSD-3-Clause */

/* async.c -- every gradient is a step */

#include "policy/kind.h"

const struct ol_policy_kind ol_policy_async = {
	.is_single = true,
	.fault = ol_policy_no_fault,
	.init = ol_policy_one_init,
	.fini = ol_policy_no_fini,
	.on_join = ol_policy_no_join,
	.on_gradient = ol_policy_step_now,
	.on_update = ol_policy_no_update,
	.get_stat = ol_policy_no_stat,
};
