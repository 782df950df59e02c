/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * operator.h -- somebody who has replicas of chains join and leave while all else happens, as `outlast chain`
 * does
 */
#ifndef OL_TESTS_SIM_WORLD_OPERATOR_H
#define OL_TESTS_SIM_WORLD_OPERATOR_H

#include "replication/view.h"

/* operator_begin -- of this run; in most there is none. Nothing is drawn then */
void operator_begin(uint64_t seed);
/* operator_wanted -- replicas that a chain is to have at the end, if there is an operator; else no fewer than ever */
uint32_t operator_wanted(const struct ol_view *view);
/* operator_text -- how many orders were carried out; empty: none */
void operator_text(char *text, size_t bytes);

#endif /* OL_TESTS_SIM_WORLD_OPERATOR_H */
