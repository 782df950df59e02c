/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * isotonic.h -- the weighted least-squares fit of a square grid whose values rise along every row
 * and down every column
 *
 * Dykstra's alternating projections: pool-adjacent-violators (PAVA) once along every row and once
 * along every column is a sweep. What the projections have pushed is kept, so that after a small
 * change of the input a sweep or two find the new fit.
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
	double *weight; /* … and their number; 0: never seen, any value will do */
	double *fit; /* NaN until something has been seen */

	double *row_push, *column_push; /* weight times what a projection took away */
	double *low, *high; /* of an unseen cell */
	double *line, *line_weight, *line_fit;
	struct ol_isotonic_pool *pools;
};

/* ol_isotonic_init -- nothing seen. Errors: -ENOMEM */
int ol_isotonic_init(struct ol_isotonic *grid, uint32_t size);
void ol_isotonic_fini(struct ol_isotonic *grid);

/* ol_isotonic_add -- one more sample of a cell, of weight 1 */
void ol_isotonic_add(struct ol_isotonic *grid, uint32_t row, uint32_t column, double sample);
/* ol_isotonic_fade -- multiplies every weight, but leaves what was seen a trace of one */
void ol_isotonic_fade(struct ol_isotonic *grid, double factor);

/*
 * ol_isotonic_fit -- so many sweeps, then fit is made to satisfy the orderings exactly
 *
 * Input that satisfies them is returned as it is. An unseen cell comes between its seen
 * neighbours; with none on one side it comes between the other and the most extreme of all.
 */
void ol_isotonic_fit(struct ol_isotonic *grid, unsigned sweeps);

#endif /* OL_POLICY_ISOTONIC_H */
