/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * match.c -- the Hungarian method, by shortest augmenting paths
 *
 * Potentials u and v keep every cost[i][j] - u[i] - v[j] at 0 or above, and at 0 for matched i and
 * j. Rows are added one by one. Each time a shortest path over these reduced costs leads to a free
 * column, and the matches along it move by one. Index 0 stands for the added row, so rows and
 * columns count from 1 here.
 */

#include "learn/source.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

struct hungarian {
	const double *cost;
	size_t cols;
	double *u; /* of rows */
	double *v; /* of columns */
	double *least; /* length of the shortest known path to a column */
	size_t *owner; /* of a column: its row; 0: free */
	size_t *from; /* the column before it on that path */
	bool *done; /* the path is surely the shortest */
};

/* column_next -- extend the paths over column j; returns the nearest column that is not done */
static size_t column_next(struct hungarian *h, size_t j)
{
	size_t row = h->owner[j], next = 0;
	double delta = INFINITY;

	h->done[j] = true;
	for (size_t k = 1; k <= h->cols; k++) {
		double reduced;

		if (h->done[k])
			continue;
		reduced = h->cost[(row - 1) * h->cols + k - 1] - h->u[row] - h->v[k];
		if (reduced < h->least[k]) {
			h->least[k] = reduced;
			h->from[k] = j;
		}
		if (h->least[k] < delta) {
			delta = h->least[k];
			next = k;
		}
	}
	for (size_t k = 0; k <= h->cols; k++) {
		if (h->done[k]) {
			h->u[h->owner[k]] += delta;
			h->v[k] -= delta;
		} else {
			h->least[k] -= delta;
		}
	}
	return next;
}

static void row_add(struct hungarian *h, size_t row)
{
	size_t j = 0;

	for (size_t k = 0; k <= h->cols; k++) {
		h->least[k] = INFINITY;
		h->done[k] = false;
	}
	h->owner[0] = row;
	do {
		j = column_next(h, j);
	} while (h->owner[j] != 0);
	while (j != 0) {
		h->owner[j] = h->owner[h->from[j]];
		j = h->from[j];
	}
}

int learn_match(const double *cost, size_t rows, size_t cols, size_t *match)
{
	struct hungarian h = { .cost = cost, .cols = cols };
	int rc = -ENOMEM;

	h.u = calloc(rows + 1, sizeof(*h.u));
	h.v = calloc(cols + 1, sizeof(*h.v));
	h.least = calloc(cols + 1, sizeof(*h.least));
	h.owner = calloc(cols + 1, sizeof(*h.owner));
	h.from = calloc(cols + 1, sizeof(*h.from));
	h.done = calloc(cols + 1, sizeof(*h.done));
	if (h.u != NULL && h.v != NULL && h.least != NULL && h.owner != NULL && h.from != NULL &&
	    h.done != NULL) {
		for (size_t row = 1; row <= rows; row++)
			row_add(&h, row);
		for (size_t k = 1; k <= cols; k++) {
			if (h.owner[k] != 0)
				match[h.owner[k] - 1] = k - 1;
		}
		rc = 0;
	}
	free(h.u);
	free(h.v);
	free(h.least);
	free(h.owner);
	free(h.from);
	free(h.done);
	return rc;
}
