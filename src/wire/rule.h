/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rule.h -- the rule that weights are updated by, as it lies in a snapshot
 *
 * A struct ol_rule of which only the first geo->groups groups are there: so no struct is copied
 * whole, but ol_layout_rule_bytes(). What lies there comes from a peer, a mirror or a file as often
 * as from here, so ol_rule_fault() is asked before it is used.
 *
 * The factor of a schedule is computed in doubles by additions, multiplications and divisions only:
 * replicas with another C library get the same bits.
 */
#ifndef OL_WIRE_RULE_H
#define OL_WIRE_RULE_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outlast_server.h"
#include "wire/layout.h"

enum {
	OL_RULE_POWER_MAX = 16,
	OL_RULE_DIGEST_WORDS = 2,
};

/* ol_rule_first -- the rule of a job that begins, with a learning rate that does not change. A field
 * that the optimizer does not use is 0. ret_rule: ol_layout_rule_bytes(geo) */
void ol_rule_first(const struct ol_update_rule *from, const struct ol_geometry *geo,
		   struct ol_rule *ret_rule);

/* ol_rule_fault -- the field that no server can take; NULL: none */
const char *ol_rule_fault(const struct ol_rule *rule, const struct ol_geometry *geo);

/* ol_rule_useless -- of a valid rule, the field that the job's optimizer does not use: it would be
 * believed to do something. NULL: none. Nobody sets such a rule */
const char *ol_rule_useless(const struct ol_rule *rule, const struct ol_geometry *geo);

/* ol_rule_is_news -- valid `next` says something else than `now`. Versions do not count, nor does
 * OL_RULE_NOW: so a rule that comes again with a later push does not begin its schedule again */
bool ol_rule_is_news(const struct ol_rule *now, const struct ol_rule *next);

/* ol_rule_bytes_used -- of a valid rule, up to its last group */
static inline size_t ol_rule_bytes_used(const struct ol_rule *rule)
{
	return offsetof(struct ol_rule, groups) + rule->group_count * sizeof(rule->groups[0]);
}

/* ol_rule_factor -- what the schedule makes of a learning rate in the step from `version` on */
double ol_rule_factor(const struct ol_rule *rule, uint64_t version);

/* ol_rule_times -- a learning rate times a factor, no larger than a float can be */
static inline float ol_rule_times(float lr, double factor)
{
	const double rate = (double)lr * factor;

	return rate > (double)FLT_MAX ? FLT_MAX : (float)rate;
}

/* ol_rule_varies -- the factor may be another one at another version */
static inline bool ol_rule_varies(const struct ol_rule *rule)
{
	return rule->schedule != OL_SCHEDULE_CONSTANT || rule->warmup > 0;
}

/* ol_rule_digest -- words below 2^60 that stand for all bytes of a rule. False: libcrypto fails */
bool ol_rule_digest(const void *rule, const struct ol_geometry *geo,
		    uint64_t ret_words[OL_RULE_DIGEST_WORDS]);

#endif /* OL_WIRE_RULE_H */
