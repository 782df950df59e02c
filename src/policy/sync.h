/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sync.h -- what the policies of `sync` share: a step of the first k gradients of the published
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
 * ol_sync_step -- nothing is held any more; what the gradients that were held, and the update, say
 * of the step. count 0: it was dropped, and changes nothing.
 */
struct ol_gain_input ol_sync_step(struct ol_policy *policy, const struct ol_update *update);
/* ol_sync_on_update -- the same for a policy whose k stays */
void ol_sync_on_update(struct ol_policy *policy, const struct ol_update *update);

#endif /* OL_POLICY_SYNC_H */
