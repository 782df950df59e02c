/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * scar.h -- the parts of `outlast drill --experiment scar`: what a lost part of the
 * parameters costs, in iterations (Qiao, Aragam, Zhang, Xing: "Fault Tolerance in
 * Iterative-Convergent Machine Learning", arXiv 1810.07354)
 *
 *	course.py  which problems, how many trials
 *	trial.c    trials as they are described, and what they cost
 *	model.c    problems: models of tools/learn as functions of their state
 *	factors.c topics.c  two more: matrix factorization, LDA
 *	study.c    trajectory, what is saved when, failures and what they cost
 *	table.c    costs under each scheme
 *	bound.c    perturbations against the bound on their cost
 *	live.c     kills of real servers
 *
 * One process, one thread, no clock: everything is a function of the settings and the seed. What is
 * saved next is said by the product's own selector (outlast_policy.h).
 *
 * The unperturbed run is stored whole, x_0 .. x_K, K being the first iteration whose loss is at the
 * target. A failure after iteration T is x_T with the blocks that are lost taken from whatever x
 * they were last saved at; from there on it is run until its loss is at the target too. Its cost is
 * how many iterations later than K that is, and may be negative.
 */
#ifndef DRILL_SCAR_H
#define DRILL_SCAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outlast_policy.h"

enum {
	SCAR_STEPS_MAX = 400, /* K at most */
	SCAR_LATE = 4, /* a run that is not at the target after LATE * K counts as being there */
	SCAR_LOSSES = 3, /* fractions that are lost: 1/4, 1/2, 3/4 */
	SCAR_PARTS = 3, /* fractions r that are saved: 1/2, 1/4, 1/8 */
	SCAR_SCHEMES = 1 + 3 * SCAR_PARTS,
	SCAR_TEXT_MAX = 256
};

extern const double scar_losses[SCAR_LOSSES];

/* Random numbers by what they are for: stream and trial. */
struct scar_rng {
	uint64_t seed;
	uint64_t trial;
	uint32_t stream;
	uint32_t used;
};

double scar_uniform(struct scar_rng *rng); /* in (0, 1) */
double scar_normal(struct scar_rng *rng);
uint32_t scar_below(struct scar_rng *rng, uint32_t limit);
/* scar_shuffle -- 0 .. count - 1 in any order */
void scar_shuffle(struct scar_rng *rng, uint32_t *order, uint32_t count);
/* scar_geometric -- of a mean, drawn again until it is in 1 .. max */
uint32_t scar_geometric(struct scar_rng *rng, double mean, uint32_t max);

/* model.c */

/* What is trained: a state of floats, in blocks that are saved and lost as a whole. */
struct scar_problem {
	const char *name;
	char what[SCAR_TEXT_MAX]; /* model, data, step, blocks; for people */
	size_t floats;
	uint32_t block_count;
	uint64_t *lengths; /* floats of each block */
	uint32_t *block_of; /* block of each float */
	float *first; /* x_0 */
	bool labels; /* floats are names: two are 1 apart, or the same */
	/*
	 * The loss at x, and where step `k` leads from there; next NULL: the loss only. A function
	 * of its arguments, bit for bit.
	 */
	int (*step)(void *model, uint32_t k, const float *x, float *next, double *ret_loss);
	void (*destroy)(void *model);
	void *model;
	const float *grad; /* of the last step that had a next; NULL: steps are no gradients */
	char shape[32]; /* of the data, as servers are told */
};

struct scar_spec {
	const char *name;
	const char *what;
	const char *model; /* learn_model_create(); or "als" and "gibbs", which are made here */
	const char *data; /* learn_data_open() */
	enum scar_shape {
		SCAR_ROWS, /* outputs of each layer: its row of weights, cut into `cut` pieces */
		SCAR_FEATURES, /* inputs of the only layer: a column of weights */
		SCAR_LAYERS, /* weights and biases of each layer */
	} shape;
	uint32_t cut;
	uint32_t samples; /* of a step: the first ones, always the same; or drawn anew each step */
	bool drawn; /* then the loss is that of the first `judged` of the training set */
	uint32_t judged;
	bool unit; /* features from 0 to 1 instead of -1 to 1 */
	double spread; /* each feature times exp(spread * normal): how unevenly blocks move */
	double lr;
	double decay; /* L2 */
};

/* scar_problem_open -- 0, or -errno with a line in err */
int scar_problem_open(const struct scar_spec *spec, uint64_t seed, struct scar_problem *problem,
		      char *err, size_t err_len);
void scar_problem_close(struct scar_problem *problem);

/* Matrix factorization and LDA, by spec->data alone. problem is to be closed whatever they
 * return */
int scar_factors_open(const struct scar_spec *spec, uint64_t seed, struct scar_problem *problem,
		      char *err, size_t err_len);
int scar_topics_open(const struct scar_spec *spec, uint64_t seed, struct scar_problem *problem,
		     char *err, size_t err_len);

/* scar_blocks_set -- block_of is there: lengths from it; false: no memory, or an empty block */
bool scar_blocks_set(struct scar_problem *problem, uint32_t block_count);

/* study.c */

struct scar_run {
	const struct scar_problem *problem;
	uint32_t steps; /* K */
	uint32_t stored; /* steps, K or more */
	double target; /* loss */
	float *states; /* x_0 and so on, one after another */
	double *losses; /* of them */
	float *room; /* for two more */
};

/* scar_run_make -- train so many steps; target is the loss then. 0 or -errno */
int scar_run_make(const struct scar_problem *problem, uint32_t steps, struct scar_run *run);
void scar_run_fini(struct scar_run *run);

/* scar_run_aim -- another target: K is the first iteration at it; false: it is not reached */
bool scar_run_aim(struct scar_run *run, double target);
const float *scar_state(const struct scar_run *run, uint32_t step);

/*
 * scar_arrive -- the iteration at which a run that has `x` after iteration `from` is at the target
 *
 * *ret_late: it is not within SCAR_LATE * K, and that is returned. x is overwritten.
 */
int scar_arrive(const struct scar_run *run, uint32_t from, float *x, uint32_t *ret_at,
		bool *ret_late);

/* What is saved: everything every C iterations, or the fraction 1/part every C/part. */
struct scar_scheme {
	enum ol_selection selection;
	uint32_t part; /* 1: FULL */
	uint32_t period; /* C */
};

/* Which iteration each block was last saved at, after each iteration. */
struct scar_saved {
	struct scar_scheme scheme;
	uint16_t *at; /* (K + 1) * block_count */
	double floats; /* saved in all, without the first time */
	double share; /* of that: what full checkpoints every C write in as many iterations; 1 */
};

int scar_saved_make(const struct scar_run *run, struct scar_scheme scheme, uint64_t seed,
		    struct scar_saved *saved);
void scar_saved_fini(struct scar_saved *saved);

/* A failure: after which iteration, and whose turn it is to be lost: blocks of a place below so
 * many */
struct scar_failure {
	uint32_t step;
	uint32_t *place; /* of each block, 0 .. block_count - 1 in any order */
};

/* scar_failure_draw -- geometric step, any places; their memory is the caller's */
void scar_failure_draw(const struct scar_run *run, double mean, uint64_t seed, uint64_t trial,
		       struct scar_failure *failure);

/* scar_lost_count -- blocks of a fraction, at least one */
uint32_t scar_lost_count(const struct scar_problem *problem, double fraction);

/*
 * scar_restore -- x_T with the lost blocks as they were saved, into x
 *
 * *ret_norm2: square of how far that is from x_T; *ret_whole: if every block were lost. May be
 * NULL.
 */
void scar_restore(const struct scar_run *run, const struct scar_saved *saved,
		  const struct scar_failure *failure, uint32_t lost, float *x, double *ret_norm2,
		  double *ret_whole);

/* table.c */

extern const struct scar_scheme scar_schemes[SCAR_SCHEMES]; /* the first is FULL; period is 0 */

/* What failures cost, with one C. */
struct scar_table {
	uint32_t period; /* C */
	uint32_t trials;
	double *full; /* cost of full recovery: back to the last full checkpoint, in all blocks */
	double *cost[SCAR_SCHEMES][SCAR_LOSSES]; /* of partial recovery; NULL: not tried */
	double share[SCAR_SCHEMES]; /* of the bytes of full checkpoints */
	uint32_t late; /* runs that did not arrive */
};

/*
 * scar_table_make -- the same failures for every scheme: steps geometric with mean K / 2
 *
 * They are shared out among the runs, which have one target: where chance decides how long a run
 * takes, one alone would be compared with better or worse luck than it had itself.
 * few: of the schemes that save parts only those with the smallest r. 0 or -errno.
 */
int scar_table_make(const struct scar_run *runs, size_t run_count, uint32_t period, uint32_t trials,
		    bool few, uint64_t seed, struct scar_table *table);
void scar_table_fini(struct scar_table *table);

/* How far a failure throws the parameters, for a fraction lost: the theorems on norms. */
struct scar_norm {
	double lost; /* fraction of the blocks, as it is with so many */
	double ratio; /* |partial|^2 / |full|^2, mean */
	double sd; /* of it */
	uint32_t failures;
	uint32_t longer; /* of them: partial recovery threw further than full */
};

int scar_norms(const struct scar_run *run, uint32_t period, uint32_t failures, uint64_t seed,
	       struct scar_norm norms[SCAR_LOSSES]);

/* bound.c */

/* scar_bound -- iterations that a perturbation of a norm after iteration T costs at most */
double scar_bound(double rate, uint32_t step, double norm, double first_distance);

enum scar_push {
	SCAR_RANDOM, /* any direction */
	SCAR_AGAINST, /* away from where the run converges to */
	SCAR_RESET, /* some blocks as they were at first */
	SCAR_PUSHES
};

extern const char *const scar_push_names[SCAR_PUSHES];

/* What became of the bound over many perturbations of a run. */
struct scar_bounds {
	char what[SCAR_TEXT_MAX];
	double rate; /* c: the largest ratio of successive distances in the unperturbed run */
	double rate_min; /* the smallest: with the largest, how linear convergence is */
	uint32_t skip; /* steps before it begins */
	uint32_t steps; /* of the unperturbed run, from there to its target */
	uint32_t count[SCAR_PUSHES];
	uint32_t above[SCAR_PUSHES]; /* cost > bound + 1 */
	uint32_t above_measured[SCAR_PUSHES]; /* the same, by distances as measured */
	double worst[SCAR_PUSHES]; /* largest cost - bound */
	double tight[SCAR_PUSHES]; /* sum of costs / sum of bounds, of those bounded by 5 at
				    least */
};

/*
 * scar_bounds_make -- perturb a run whose x_0 is where `skip` steps lead to
 *
 * The problem's steps are all alike. -ERANGE: it does not converge in SCAR_STEPS_MAX steps.
 */
int scar_bounds_make(const struct scar_problem *problem, uint32_t skip, uint32_t pushes,
		     uint64_t seed, struct scar_bounds *bounds);

/* live.c */

enum {
	SCAR_KILLS_MAX = 64
};

/* Kills of one of four servers. */
struct scar_live {
	const char *name; /* of the problem */
	bool full; /* all go back to one full checkpoint, instead of one to its running one */
	uint32_t kills;
	uint32_t unlike; /* before the kill other weights than those of the run in this process */
	uint32_t changed; /* survivors whose weights changed, in a bit */
	uint32_t strange; /* servers that came back with something that was never theirs */
	uint32_t late; /* did not arrive */
	double cost[SCAR_KILLS_MAX]; /* iterations */
};

/*
 * scar_live_make -- spec's model with its own first weights and plain SGD; C = 8, r = 1/8
 *
 * 0, or a code of ol_strerror(): a server did not start, or did not come back.
 */
int scar_live_make(const struct scar_run *run, const struct scar_spec *spec, bool full,
		   uint32_t kills, uint64_t seed, struct scar_live *live);

/* trial.c */

enum {
	SCAR_RUNS_MAX = 10,
	SCAR_NORM_PERIOD = 8 /* C of the theorems on norms */
};

#endif /* DRILL_SCAR_H */
