/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * scar.h -- the parts of `outlast drill --experiment scar`: the cost of a lost part of the
 * parameters, in iterations (Qiao, Aragam, Zhang, Xing: "Fault Tolerance in
 * Iterative-Convergent Machine Learning", arXiv 1810.07354)
 *
 *	course.py  which problems, how many trials
 *	study.py   trajectory, saves, failures and their cost
 *	bound.py   perturbations against the bound on their cost
 *	live.py    kills of real servers
 *	lab.py     a process that computes steps; draw.py: random numbers
 *	trial.c    that process: steps, choices of the product's selector (outlast_policy.h)
 *	live.c     the worker of real servers
 *	model.c    problems: models of tools/learn as functions of their state
 *	factors.c topics.c  two more: matrix factorization, LDA
 *
 * Everything but kills is a function of the settings and the seed.
 */
#ifndef DRILL_SCAR_H
#define DRILL_SCAR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* model.c */

/* Random numbers by their purpose: stream and trial. draw.py has the same; the unit tests of both have
 * one table of them. */
struct scar_rng {
	uint64_t seed;
	uint64_t trial;
	uint32_t stream;
	uint32_t used;
};

double scar_uniform(struct scar_rng *rng); /* in (0, 1) */
double scar_normal(struct scar_rng *rng);
uint32_t scar_below(struct scar_rng *rng, uint32_t limit);

/* A problem: a state of floats, in blocks that are saved and lost as a whole. */
struct scar_problem {
	size_t floats;
	uint32_t block_count;
	uint64_t *lengths; /* floats of each block */
	uint32_t *block_of; /* block of each float */
	float *first; /* x_0 */
	bool labels; /* floats are labels: two are 1 apart, or the same */
	/* The loss at x, and the state after step `k`. A function of its arguments, bit for bit. */
	int (*step)(void *model, uint32_t k, const float *x, float *next, double *ret_loss);
	void (*destroy)(void *model);
	void *model;
	const float *grad; /* of the last step; NULL: steps are not gradients */
	char shape[32]; /* of the data, for the servers */
};

struct scar_spec {
	const char *name;
	const char *model; /* learn_model_create(); or "als" and "gibbs", which are made here */
	const char *data; /* learn_data_open() */
	bool features; /* blocks: inputs of the only layer, a column of weights */
	uint32_t cut; /* otherwise outputs of each layer, a row of weights, in so many pieces */
	uint32_t samples; /* of a step: always the first ones; or drawn anew each step … */
	bool drawn; /* … and the loss is of the first `judged` of the training set */
	uint32_t judged;
	bool unit; /* features from 0 to 1 instead of -1 to 1 */
	uint32_t frame; /* so many rows and columns on each side of an image are 0 */
	double spread; /* each feature times exp(spread * normal): how unevenly blocks move */
	double lr;
	double decay; /* L2 */
};

/* scar_problem_open -- 0, or -errno with a line in err */
int scar_problem_open(const struct scar_spec *spec, uint64_t seed, struct scar_problem *problem,
		      char *err, size_t err_len);
void scar_problem_close(struct scar_problem *problem);

/* Matrix factorization and LDA, by spec->data alone. The caller closes problem even after an
 * error */
int scar_factors_open(const struct scar_spec *spec, uint64_t seed, struct scar_problem *problem,
		      char *err, size_t err_len);
int scar_topics_open(const struct scar_spec *spec, uint64_t seed, struct scar_problem *problem,
		     char *err, size_t err_len);

/* scar_blocks_set -- compute lengths from block_of; false: no memory, or an empty block */
bool scar_blocks_set(struct scar_problem *problem, uint32_t block_count);

/* live.c */

/* The only worker of real servers, which train a problem. */
struct scar_live {
	const struct scar_problem *problem;
	struct ol_worker *worker;
};

/*
 * scar_live_go -- carry out one order of live.py; its answer goes into *ret_answer
 *
 * w: a row of floats. 0, or an exit code after an error line.
 */
int scar_live_go(struct scar_live *live, json_t *order, float *w, json_t **ret_answer);

#endif /* DRILL_SCAR_H */
