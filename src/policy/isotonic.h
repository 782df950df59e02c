/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * isotonic.h -- the weighted least-squares fit of a square grid whose values rise along every row
 * and down every column
 *
 * Dykstra's alternating projections. A sweep is pool-adjacent-violators (PAVA) once along every row
 * and once along every column. The projections' corrections are kept, so that after a small change
 * of the input one or two sweeps find the new fit.
 */
#ifndef OL_POLICY_ISOTONIC_H
#define OL_POLICY_ISOTONIC_H

#include <stdbool.h>
#include <stdint.h>

struct ol_isotonic_pool;

/* Arrays are size * size long, cell (row, column) at row * size + column. */
struct ol_isotonic {
	uint32_t size;
	double *mean; /* of a cell's samples, faded … */
	double *weight; /* … and their number; 0: no sample */
	double *fit; /* NaN before the first sample */

	double *row_push, *column_push; /* weight times what a projection took away */
	double *low, *high; /* of an unseen cell */
	double *line, *line_weight, *line_fit;
	struct ol_isotonic_pool *pools;
};

/* ol_isotonic_init -- no samples. Errors: -ENOMEM */
int ol_isotonic_init(struct ol_isotonic *grid, uint32_t size);
void ol_isotonic_fini(struct ol_isotonic *grid);

/* ol_isotonic_add -- one more sample of a cell, of weight 1 */
void ol_isotonic_add(struct ol_isotonic *grid, uint32_t row, uint32_t column, double sample);
/* ol_isotonic_fade -- multiply every weight; a seen cell keeps a trace */
void ol_isotonic_fade(struct ol_isotonic *grid, double factor);
/* ol_isotonic_seen -- true if a cell has samples that are more than a trace */
bool ol_isotonic_seen(const struct ol_isotonic *grid, uint32_t row, uint32_t column);

/*
 * ol_isotonic_fit -- make so many sweeps, then make fit rise exactly
 *
 * An input that rises is returned unchanged. An unseen cell gets a value between its seen
 * neighbours; if one side has none, between the other side and the extreme of all.
 */
void ol_isotonic_fit(struct ol_isotonic *grid, unsigned sweeps);

#endif /* OL_POLICY_ISOTONIC_H */
