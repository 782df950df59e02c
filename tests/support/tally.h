/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * tally.h -- gradients whose effects can be counted in the weights
 *
 * Learning rate 1, plain SGD, weights that begin with 0. The gradient number i (from 0) of a worker
 * is 1 everywhere, and 2 at one element that it shares with few others. So sums are exact in floats,
 * and the weights show which gradients are in them, and how often.
 */
#ifndef OL_TESTS_SUPPORT_TALLY_H
#define OL_TESTS_SUPPORT_TALLY_H

#include <stdbool.h>

#include "outlast.h"

enum {
	TALLY_WORKERS = 2, /* ids below it push */
	TALLY_PARAMS = 3000, /* what will do; of two shards: 2048 and 952 */
	TALLY_FLIGHT_MAX = 8
};

/* tally_fill -- gradient number i of a worker, of a model of so many parameters */
void tally_fill(float *grad, uint64_t params, uint32_t id, uint64_t i);
/*
 * tally_check -- fails unless the weights of ol_weights() contain the first gradients of every
 * worker, as many as its applied table says, each once, and nothing else
 */
void tally_check(const struct ol_worker *worker);
/* tally_check_alike -- the same for gradients of 1 everywhere */
void tally_check_alike(const struct ol_worker *worker);

/* What one worker has under way; zero at first. One push a gradient, in order. */
struct tally {
	struct ol_worker *worker;
	uint32_t id;
	enum ol_level level;
	bool goes_on; /* outage CONTINUE: done may mean queued, and queued ones may be overtaken */
	bool alike; /* all gradients are 1 everywhere: for weights that lost some */
	uint64_t pushed;
	uint64_t done; /* pushes that ended with status 0; all before them have, too */
	struct ol_op ops[TALLY_FLIGHT_MAX]; /* of push i: i mod TALLY_FLIGHT_MAX */
	struct ol_op pull;
	bool pulling;
	uint64_t done_before; /* the pull that is under way began */
	uint64_t told; /* newest version that it was told of */
	uint64_t told_before;
	uint64_t pulled; /* version of the last pull */
	uint64_t pulls;
	uint64_t local_pulls; /* of these, answered with the last weights */
	unsigned back; /* times that a version was older than one told before … */
	char said[128]; /* … and the first of them */
};

/* tally_push -- start the next one; 0, or what ol_grad_try_acquire() says. At most TALLY_FLIGHT_MAX */
int tally_push(struct tally *tally);
/* tally_look -- take note of what is done: checks what was pulled against all that was told */
void tally_look(struct tally *tally);
/* tally_pull -- start one unless there is one */
void tally_pull(struct tally *tally);
/* tally_wait -- until something under way is done, or a moment has passed */
void tally_wait(struct tally *tally);
/* tally_flush -- wait for all, flush, pull the newest */
void tally_flush(struct tally *tally);
/* tally_end -- the same; fails unless all that was pushed is in the weights, and the accounts say
 * so */
void tally_end(struct tally *tally);

#endif /* OL_TESTS_SUPPORT_TALLY_H */
