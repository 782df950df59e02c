/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * factors.c -- a problem: matrix factorization by alternating least squares
 *
 * The state is the items' rows. A step gives each user the row that fits its ratings best, given
 * the items' rows, and then each item the row that fits best, given the users': regularised least
 * squares, whose loss falls with every step. Users' rows are a function of the items', so they can
 * be lost at no cost, and are not part of the state.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drill/scar/scar.h"
#include "learn/data.h"

enum {
	RANK = 8,
	STREAM_FACTORS = 17
};

static const double weight = 0.05; /* of the squared rows, a rating */

/* The ratings of one side's rows, one row after another. */
struct side {
	size_t rows;
	size_t *starts; /* rows + 1 */
	uint32_t *other; /* row of the other side */
	double *value; /* less the mean */
};

struct factors {
	struct learn_data *data;
	struct side users;
	struct side items;
	double *user_rows;
	double *item_rows;
};

static void side_fini(struct side *side)
{
	free(side->starts);
	free(side->other);
	free(side->value);
}

static void factors_destroy(void *arg)
{
	struct factors *f = arg;

	side_fini(&f->users);
	side_fini(&f->items);
	free(f->user_rows);
	free(f->item_rows);
	learn_data_close(f->data);
	free(f);
}

/* side_make -- ratings sorted by user, or by item, otherwise in their order */
static bool side_make(const struct learn_data *data, bool by_item, struct side *side)
{
	const struct learn_set *set = &data->train;
	size_t *next;

	side->rows = by_item ? data->shape.cols : data->shape.rows;
	side->starts = calloc(side->rows + 1, sizeof(*side->starts));
	side->other = calloc(set->count, sizeof(*side->other));
	side->value = calloc(set->count, sizeof(*side->value));
	next = calloc(side->rows + 1, sizeof(*next));
	if (side->starts == NULL || side->other == NULL || side->value == NULL || next == NULL) {
		free(next);
		return false;
	}
	for (size_t i = 0; i < set->count; i++) {
		const struct learn_rating *r = &set->ratings[i];

		side->starts[(by_item ? r->item : r->user) + 1]++;
	}
	for (size_t row = 0; row < side->rows; row++)
		side->starts[row + 1] += side->starts[row];
	memcpy(next, side->starts, (side->rows + 1) * sizeof(*next));
	for (size_t i = 0; i < set->count; i++) {
		const struct learn_rating *r = &set->ratings[i];
		size_t at = next[by_item ? r->item : r->user]++;

		side->other[at] = by_item ? r->user : r->item;
		side->value[at] = (double)r->value - (double)data->mean;
	}
	free(next);
	return true;
}

/* solve -- a x = b for a symmetric and positive definite a, by Cholesky's factors; into b */
static void solve(double a[RANK][RANK], double b[RANK])
{
	for (size_t i = 0; i < RANK; i++) {
		for (size_t j = 0; j <= i; j++) {
			double sum = a[i][j];

			for (size_t k = 0; k < j; k++)
				sum -= a[i][k] * a[j][k];
			a[i][j] = i == j ? sqrt(sum) : sum / a[j][j];
		}
		for (size_t k = 0; k < i; k++)
			b[i] -= a[i][k] * b[k];
		b[i] /= a[i][i];
	}
	for (size_t i = RANK; i-- > 0;) {
		for (size_t k = i + 1; k < RANK; k++)
			b[i] -= a[k][i] * b[k];
		b[i] /= a[i][i];
	}
}

static void side_solve(const struct side *side, const double *others, double *rows)
{
	for (size_t row = 0; row < side->rows; row++) {
		size_t first = side->starts[row], end = side->starts[row + 1];
		double a[RANK][RANK] = { 0 }, b[RANK] = { 0 };

		for (size_t n = first; n < end; n++) {
			const double *y = others + (size_t)side->other[n] * RANK;

			for (size_t i = 0; i < RANK; i++) {
				for (size_t j = 0; j <= i; j++)
					a[i][j] += y[i] * y[j];
				b[i] += y[i] * side->value[n];
			}
		}
		for (size_t i = 0; i < RANK; i++)
			a[i][i] += weight * (double)(end - first) + 1e-9;
		solve(a, b);
		memcpy(rows + row * RANK, b, sizeof(b));
	}
}

/* The loss, a rating: squared error, and the rows' squares times their weight */
static double loss_of(const struct factors *f)
{
	double sum = 0.0;

	for (size_t u = 0; u < f->users.rows; u++) {
		const double *x = f->user_rows + u * RANK;

		for (size_t n = f->users.starts[u]; n < f->users.starts[u + 1]; n++) {
			const double *y = f->item_rows + (size_t)f->users.other[n] * RANK;
			double error = f->users.value[n], squares = 0.0;

			for (size_t i = 0; i < RANK; i++) {
				error -= x[i] * y[i];
				squares += x[i] * x[i] + y[i] * y[i];
			}
			sum += error * error + weight * squares;
		}
	}
	return sum / (double)f->data->train.count;
}

static int factors_step(void *arg, uint32_t k, const float *x, float *next, double *ret_loss)
{
	struct factors *f = arg;
	size_t count = f->items.rows * RANK;

	(void)k;
	for (size_t i = 0; i < count; i++)
		f->item_rows[i] = (double)x[i];
	side_solve(&f->users, f->item_rows, f->user_rows);
	*ret_loss = loss_of(f);
	side_solve(&f->items, f->user_rows, f->item_rows);
	for (size_t i = 0; i < count; i++)
		next[i] = (float)f->item_rows[i];
	return 0;
}

static bool factors_make(struct factors *f, uint64_t seed, struct scar_problem *problem)
{
	struct scar_rng rng = { .seed = seed, .stream = STREAM_FACTORS };

	if (!side_make(f->data, false, &f->users) || !side_make(f->data, true, &f->items))
		return false;
	problem->floats = f->items.rows * RANK;
	f->user_rows = calloc(f->users.rows * RANK, sizeof(double));
	f->item_rows = calloc(problem->floats, sizeof(double));
	problem->first = calloc(problem->floats, sizeof(float));
	problem->block_of = calloc(problem->floats, sizeof(*problem->block_of));
	if (f->user_rows == NULL || f->item_rows == NULL || problem->first == NULL ||
	    problem->block_of == NULL)
		return false;
	for (size_t i = 0; i < problem->floats; i++) {
		problem->first[i] = (float)(scar_normal(&rng) * 0.1);
		problem->block_of[i] = (uint32_t)(i / RANK);
	}
	return scar_blocks_set(problem, (uint32_t)f->items.rows);
}

int scar_factors_open(const struct scar_spec *spec, uint64_t seed, struct scar_problem *problem,
		      char *err, size_t err_len)
{
	struct factors *f = calloc(1, sizeof(*f));
	int rc;

	snprintf(err, err_len, "no memory");
	if (f == NULL)
		return -ENOMEM;
	problem->step = factors_step;
	problem->destroy = factors_destroy;
	problem->model = f;
	rc = learn_data_open(spec->data, &f->data, err, err_len);
	if (rc == 0 && !factors_make(f, seed, problem))
		rc = -ENOMEM;
	return rc;
}
