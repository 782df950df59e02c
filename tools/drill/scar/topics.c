/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * topics.c -- a problem: LDA by collapsed Gibbs sampling
 *
 * The state is the topic of every token; a block is a document; counts are a function of the state.
 * (In tools/learn the counts are parameters and the topics are in the workers, so a lost server
 * makes the two disagree. Here a lost document gets its saved topics.) A step draws each token's
 * topic once, given all others. The distance of a document between two states is the number of its
 * tokens with different topics. The loss is minus the log likelihood of words and topics, a token
 * (Griffiths and Steyvers 2004).
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drill/scar/scar.h"
#include "learn/data.h"

enum {
	TOPICS = 10,
	STREAM_FIRST = 18,
	STREAM_DRAW = 19
};

static const double alpha = 0.1;
static const double beta = 0.1;

struct topics {
	struct learn_data *data;
	uint64_t seed;
	size_t tokens;
	double *words; /* tokens of each word and topic */
	double *documents; /* of each document and topic */
	double totals[TOPICS];
};

static void topics_destroy(void *arg)
{
	struct topics *t = arg;

	free(t->words);
	free(t->documents);
	learn_data_close(t->data);
	free(t);
}

static void move(struct topics *t, size_t document, uint32_t word, size_t topic, double by)
{
	t->words[word * TOPICS + topic] += by;
	t->documents[document * TOPICS + topic] += by;
	t->totals[topic] += by;
}

static void count(struct topics *t, const float *x)
{
	const struct learn_set *set = &t->data->train;

	memset(t->words, 0, t->data->shape.cols * TOPICS * sizeof(*t->words));
	memset(t->documents, 0, set->count * TOPICS * sizeof(*t->documents));
	memset(t->totals, 0, sizeof(t->totals));
	for (size_t d = 0; d < set->count; d++) {
		for (size_t i = set->starts[d]; i < set->starts[d + 1]; i++)
			move(t, d, set->words[i], (size_t)x[i], 1.0);
	}
}

static double loss_of(const struct topics *t)
{
	const struct learn_set *set = &t->data->train;
	double words = t->data->shape.cols, sum = 0.0;

	for (size_t k = 0; k < TOPICS; k++)
		sum += lgamma(words * beta) - lgamma(t->totals[k] + words * beta);
	for (size_t i = 0; i < t->data->shape.cols * (size_t)TOPICS; i++)
		sum += lgamma(t->words[i] + beta) - lgamma(beta);
	for (size_t d = 0; d < set->count; d++) {
		double length = (double)(set->starts[d + 1] - set->starts[d]);

		sum += lgamma(TOPICS * alpha) - lgamma(length + TOPICS * alpha);
		for (size_t k = 0; k < TOPICS; k++)
			sum += lgamma(t->documents[d * TOPICS + k] + alpha) - lgamma(alpha);
	}
	return -sum / (double)t->tokens;
}

static size_t draw(const struct topics *t, size_t document, uint32_t word, double u)
{
	double spread = t->data->shape.cols * beta, sums[TOPICS], sum = 0.0;
	size_t topic = 0;

	for (size_t k = 0; k < TOPICS; k++) {
		sum += (t->documents[document * TOPICS + k] + alpha) *
		       (t->words[word * TOPICS + k] + beta) / (t->totals[k] + spread);
		sums[k] = sum;
	}
	while (topic + 1 < TOPICS && sums[topic] <= u * sum)
		topic++;
	return topic;
}

static int topics_step(void *arg, uint32_t k, const float *x, float *next, double *ret_loss)
{
	struct topics *t = arg;
	const struct learn_set *set = &t->data->train;
	struct scar_rng rng = { .seed = t->seed, .trial = k, .stream = STREAM_DRAW };

	count(t, x);
	*ret_loss = loss_of(t);
	for (size_t d = 0; d < set->count; d++) {
		for (size_t i = set->starts[d]; i < set->starts[d + 1]; i++) {
			size_t topic;

			move(t, d, set->words[i], (size_t)x[i], -1.0);
			topic = draw(t, d, set->words[i], scar_uniform(&rng));
			move(t, d, set->words[i], topic, 1.0);
			next[i] = (float)topic;
		}
	}
	return 0;
}

static bool topics_make(struct topics *t, struct scar_problem *problem)
{
	const struct learn_set *set = &t->data->train;
	struct scar_rng rng = { .seed = t->seed, .stream = STREAM_FIRST };

	t->tokens = set->starts[set->count];
	t->words = calloc(t->data->shape.cols * (size_t)TOPICS, sizeof(*t->words));
	t->documents = calloc(set->count * TOPICS, sizeof(*t->documents));
	problem->floats = t->tokens;
	problem->first = calloc(t->tokens, sizeof(float));
	problem->block_of = calloc(t->tokens, sizeof(*problem->block_of));
	if (t->words == NULL || t->documents == NULL || problem->first == NULL ||
	    problem->block_of == NULL)
		return false;
	for (size_t d = 0; d < set->count; d++) {
		for (size_t i = set->starts[d]; i < set->starts[d + 1]; i++) {
			problem->first[i] = (float)scar_below(&rng, TOPICS);
			problem->block_of[i] = (uint32_t)d;
		}
	}
	return scar_blocks_set(problem, (uint32_t)set->count);
}

int scar_topics_open(const struct scar_spec *spec, uint64_t seed, struct scar_problem *problem,
		     char *err, size_t err_len)
{
	struct topics *t = calloc(1, sizeof(*t));
	int rc;

	snprintf(err, err_len, "no memory");
	if (t == NULL)
		return -ENOMEM;
	t->seed = seed;
	problem->step = topics_step;
	problem->destroy = topics_destroy;
	problem->model = t;
	problem->labels = true;
	rc = learn_data_open(spec->data, &t->data, err, err_len);
	if (rc == 0 && !topics_make(t, problem))
		rc = -ENOMEM;
	return rc;
}
