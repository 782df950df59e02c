/* SPDX-License-Identifier: BSD-3-Clause */

/* match.h -- inside the room: match the entries of two lists at least cost */
#ifndef LEARN_MATCH_H
#define LEARN_MATCH_H

#include <stddef.h>

/*
 * learn_match -- give each of `rows` a column of its own at least cost (Kuhn 1955)
 *
 * cost is [rows][cols], rows <= cols, all finite. match gets each row's column. Takes rows^2 * cols
 * steps; -ENOMEM.
 */
int learn_match(const double *cost, size_t rows, size_t cols, size_t *match);

#endif /* LEARN_MATCH_H */
