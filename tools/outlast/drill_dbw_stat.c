/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_dbw_stat.c -- means, ratios, and how sure they are
 */
#include <math.h>

#include "outlast/drill_dbw.h"

/* The 97.5 % quantile of Student's t */
static double student(size_t freedom)
{
	static const double known[] = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
					2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
					2.131,  2.120, 2.110, 2.101, 2.093, 2.086 };
	size_t count = sizeof(known) / sizeof(known[0]);

	/* behind the table the first term of the expansion is right to 3 digits */
	return freedom <= count ? known[freedom - 1] : 1.960 + 2.4 / (double)freedom;
}

struct dbw_figure dbw_mean(const double *values, size_t count)
{
	struct drill_moments moments = drill_moments(values, count);
	double half =
		moments.count < 2 ? (double)NAN : student(moments.count - 1) * drill_se(&moments);

	return (struct dbw_figure){ moments.mean, moments.mean - half, moments.mean + half };
}

struct dbw_figure dbw_ratio(const double *over, const double *under, size_t count)
{
	double logs[DBW_TRIALS_MAX];
	struct dbw_figure f;

	for (size_t i = 0; i < count; i++)
		logs[i] = log(over[i] / under[i]);
	f = dbw_mean(logs, count);
	return (struct dbw_figure){ exp(f.mean), exp(f.low), exp(f.high) };
}
