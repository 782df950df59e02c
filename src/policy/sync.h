/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sync.h -- shared by the policies of `sync`: a step of the first k gradients of the published
 * version; and their k
 */
#ifndef OL_POLICY_SYNC_H
#define OL_POLICY_SYNC_H

#include "policy/gain.h"
#include "policy/kind.h"

/*
 * Of struct ol_policy_kind. ol_sync_fault: `workers`; ol_sync_k_fault: `wait_k`, too. The init
 * functions take k from there.
 */
const char *ol_sync_fault(const struct ol_policy_opts *opts);
const char *ol_sync_k_fault(const struct ol_policy_opts *opts);
/* ol_sync_estimates_fault -- of a policy that learns */
const char *ol_sync_estimates_fault(const struct ol_policy_opts *opts);
int ol_sync_init(struct ol_policy *policy);
int ol_sync_k_init(struct ol_policy *policy);
enum ol_verdict ol_sync_on_gradient(struct ol_policy *policy, const struct ol_arrival *arrival);

/*
 * ol_sync_step -- the measurements of a step, from the gradients held and the update; afterwards none
 * is held. count 0: the step was dropped, and changes nothing.
 */
struct ol_gain_input ol_sync_step(struct ol_policy *policy, const struct ol_update *update);
/* ol_sync_on_update -- the same for a policy with a fixed k */
void ol_sync_on_update(struct ol_policy *policy, const struct ol_update *update);

#endif /* OL_POLICY_SYNC_H */
