/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * delay.h -- artificial delays of workers: the value of --delay
 *
 *	exp:mean=20ms,alpha=0.5              mean * (1 - alpha + alpha * Exp(1)): its mean is mean,
 *	                                     its standard deviation alpha * mean, whatever alpha
 *	trace:FILE                           one delay in milliseconds a line, over and over; worker
 *	                                     w begins 1009 w lines further down
 *	slow:workers=half,factor=5,from=60s  from then on the last half of the workers (or the last
 *	                                     N) take factor times as long, delay included
 *
 * A + may join one of the first two and the third. A delay is a pure function of seed, worker and
 * gradient.
 */
#ifndef CMD_DELAY_H
#define CMD_DELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learn/rng.h"

enum {
	OL_DELAY_TRACE_MAX = 1 << 20, /* lines of a trace */
	OL_DELAY_ERR_MAX = 256
};

struct ol_delay {
	double mean_s; /* exp; 0: there is none */
	double alpha;
	double *trace_s; /* NULL: there is none */
	size_t trace_count;
	bool slow;
	bool slow_half;
	uint32_t slow_workers; /* unless slow_half */
	double slow_factor;
	double slow_from_s;
};

/*
 * ol_delay_parse -- NULL or "": no delay; a trace is read
 *
 * Errors: -EINVAL, -ENOMEM or what reading the file gave, with words in err that name what is wrong
 */
int ol_delay_parse(const char *text, struct ol_delay *ret_delay, char *err, size_t err_bytes);
void ol_delay_fini(struct ol_delay *delay);

/* ol_delay_draw -- seconds added to a gradient, before slow; key: seed, worker, step */
double ol_delay_draw(const struct ol_delay *delay, const struct learn_key *key);

/* ol_delay_factor -- how many times as long a worker of `workers` takes, t_s into the job */
double ol_delay_factor(const struct ol_delay *delay, uint32_t worker, uint32_t workers, double t_s);

#endif /* CMD_DELAY_H */
