/* SPDX-License-Identifier: BSD-3-Clause */

/* withdraw.h -- gradients that stop waiting for those of other workers, for ingest.c */
#ifndef OL_SERVER_WITHDRAW_H
#define OL_SERVER_WITHDRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "server/session.h"

struct ol_ingest;

/* ol_withdraw_is -- its worker has withdrawn it, even if that has pushed since */
bool ol_withdraw_is(struct ol_ingest *ingest, struct ol_landed landed);
/* ol_withdraw_waiting -- one that the policy says waits is withdrawn: it is late, or judged again if it is to
 * take effect */
void ol_withdraw_waiting(struct ol_ingest *ingest, struct ol_landed landed, uint64_t now_ns);
/* ol_withdraw_held -- drop what a worker has in the batch, as late, unless its step is ready */
void ol_withdraw_held(struct ol_ingest *ingest, struct ol_session *session, uint64_t now_ns);
/* ol_withdraw_drop -- a ready step is not made after all: drop its withdrawn gradients */
void ol_withdraw_drop(struct ol_ingest *ingest);
/* ol_withdraw_others -- remove a session's gradients from a list of `count`, but for orphans, which have none; the
 * others keep their order. Returns how many are left */
uint32_t ol_withdraw_others(struct ol_landed *list, uint32_t count, uint32_t session);

#endif /* OL_SERVER_WITHDRAW_H */
