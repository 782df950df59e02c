/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * lda.c -- latent Dirichlet allocation by collapsed Gibbs sampling, its counts on the servers
 *
 * The vector is a table of words by topics, and a row of the topics' totals below it. A worker
 * draws a token's topic given all others: proportional to
 *
 *	(document's tokens of it + alpha) * (word's tokens of it + beta) / (all its tokens + words *
 * beta)
 *
 * without the token itself. The counts are w - grad: they contain the batch's own changes, and
 * others' changes up to the pull (Newman et al. 2009: approximate distributed LDA). Changes are
 * whole numbers, which floats add exactly up to 2^24, so counts are right in any order of updates.
 * A word's count may still be below 0, if one shard was pulled before a change that another shard
 * contains; then it counts as 0.
 *
 * When a document comes for the first time, its tokens get uniformly drawn topics. If they were
 * drawn given the tokens before them, which are few at first, two true topics often end in one: in
 * 6 of 12 runs (README), against 1 of 12.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "learn/kind.h"

enum {
	FOLD_ROUNDS = 20 /* to find the topics of a document that is not trained on */
};

struct lda {
	struct learn_model base;
	const struct learn_data *data; /* attached; or NULL */
	uint16_t *topic; /* of each token of the training set, from 1; 0: none so far */
	size_t topics;
	double alpha;
	double beta;
	double *totals; /* of topics, as this batch sees them */
	double *mix; /* of a document: its tokens of each topic, or their shares */
	double *sums; /* of topics, for a draw */
};

struct lda_args {
	uint32_t topics;
	double alpha;
	double beta;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_U32(lda_args, topics, NULL, 1, LEARN_TOPICS_MAX, NULL),
	OL_ROW_F64(lda_args, alpha, NULL, 1e-6, 1000, NULL),
	OL_ROW_F64(lda_args, beta, NULL, 1e-6, 1000, NULL),
};

static struct lda *lda_of(struct learn_model *model)
{
	return (struct lda *)((char *)model - offsetof(struct lda, base));
}

static void lda_destroy(struct learn_model *model)
{
	struct lda *self = lda_of(model);

	free(self->topic);
	free(self->totals);
	free(self->mix);
	free(self->sums);
	free(self);
}

static void lda_init(const struct learn_model *model, uint64_t seed, float *w)
{
	(void)seed;
	memset(w, 0, model->param_count * sizeof(*w));
}

static size_t tokens(const struct learn_data *data)
{
	return data->train.starts[data->train.count];
}

static int lda_attach(struct learn_model *model, const struct learn_data *data,
		      struct learn_line *err)
{
	struct lda *self = lda_of(model);
	uint16_t *topic = learn_alloc(tokens(data), sizeof(*topic));

	if (topic == NULL)
		return learn_err(err, -ENOMEM, "model lda: no memory for %zu tokens", tokens(data));
	free(self->topic);
	self->topic = topic;
	self->data = data;
	return 0;
}

static double above_0(double count)
{
	return count > 0 ? count : 0;
}

/* table_of -- tokens of a word and topic, as this batch sees them */
static double table_of(const struct lda *self, const float *w, const float *grad, uint32_t word,
		       size_t k)
{
	size_t at = word * self->topics + k;

	return above_0((double)w[at] - (double)grad[at]);
}

/* token_move -- by is 1: the token joins the topic; -1: it leaves it */
static void token_move(struct lda *self, float *grad, uint32_t word, size_t k, int by)
{
	size_t total = self->base.layers[1].offset + k;

	grad[word * self->topics + k] -= (float)by;
	grad[total] -= (float)by;
	self->totals[k] += by;
	self->mix[k] += by;
}

/*
 * token_draw -- a topic for a token that has none now, of a document of `others` more tokens
 *
 * Returns minus the log likelihood that the token had before.
 */
static double token_draw(struct lda *self, const float *w, const float *grad, uint32_t word,
			 size_t others, double u, size_t *ret_topic)
{
	double spread = (double)self->base.shape.cols * self->beta, sum = 0;
	size_t k = 0;

	for (size_t i = 0; i < self->topics; i++) {
		sum += (self->mix[i] + self->alpha) *
		       (table_of(self, w, grad, word, i) + self->beta) /
		       (above_0(self->totals[i]) + spread);
		self->sums[i] = sum;
	}
	while (k + 1 < self->topics && self->sums[k] <= u * sum)
		k++;
	*ret_topic = k;
	return -log(sum / ((double)others + (double)self->topics * self->alpha));
}

/* document_draw -- new topics for a document; the mean loss of its tokens is added to *loss */
static int document_draw(struct lda *self, const float *w, float *grad, uint32_t document,
			 bool expected, const struct learn_key *key, uint32_t *draws, double *loss)
{
	const struct learn_set *set = &self->data->train;
	size_t first = set->starts[document], end = set->starts[document + 1];
	size_t assigned = 0;
	double sum = 0;

	memset(self->mix, 0, self->topics * sizeof(*self->mix));
	for (size_t i = first; i < end; i++) {
		if (self->topic[i] == 0)
			continue;
		self->mix[self->topic[i] - 1]++;
		assigned++;
	}
	if (expected && assigned == 0)
		return -ESTALE;
	for (size_t i = first; i < end; i++) {
		struct learn_rng_block b = learn_rng_draw(key, LEARN_RNG_GIBBS, (*draws)++);
		uint32_t word = set->words[i];
		size_t k;

		if (self->topic[i] != 0) {
			token_move(self, grad, word, self->topic[i] - 1, -1);
			assigned--;
		}
		sum += token_draw(self, w, grad, word, assigned,
				  learn_rng_unit(b.word[0], b.word[1]), &k);
		if (self->topic[i] == 0) /* uniform: few tokens have a topic to go by */
			k = (size_t)(learn_rng_unit(b.word[2], b.word[3]) * (double)self->topics);
		token_move(self, grad, word, k, 1);
		self->topic[i] = (uint16_t)(k + 1);
		assigned++;
	}
	*loss += sum / (double)(end - first);
	return 0;
}

static int lda_grad(struct learn_model *model, const float *w, const struct learn_batch *batch,
		    const struct learn_key *key, float *grad, double *ret_loss)
{
	struct lda *self = lda_of(model);
	uint32_t draws = 0;
	double loss = 0;
	size_t own;
	int rc = 0;

	if (self->data == NULL || key->worker >= batch->workers ||
	    key->worker >= self->data->train.count)
		return -EINVAL;
	own = (self->data->train.count - key->worker - 1) / batch->workers + 1;
	memset(grad, 0, model->param_count * sizeof(*grad));
	for (size_t k = 0; k < self->topics; k++)
		self->totals[k] = (double)w[model->layers[1].offset + k];
	for (unsigned i = 0; rc == 0 && i < batch->count; i++)
		rc = document_draw(self, w, grad, batch->index[i],
				   key->step * batch->count + i >= own, key, &draws, &loss);
	*ret_loss = loss / batch->count;
	return rc;
}

/* word_share -- the word's share of a topic's tokens, by the counts w */
static double word_share(const struct lda *self, const float *w, uint32_t word, size_t k)
{
	double words = (double)self->base.shape.cols;

	return (above_0((double)w[word * self->topics + k]) + self->beta) /
	       (above_0((double)w[self->base.layers[1].offset + k]) + words * self->beta);
}

/*
 * mix_fit -- put into self->mix the shares of topics that make every second word likeliest
 *
 * Expectation maximization from equal shares: a function of words and weights.
 */
static void mix_fit(struct lda *self, const float *w, const uint32_t *words, size_t count)
{
	size_t topics = self->topics, known = (count + 1) / 2;

	for (size_t k = 0; k < topics; k++)
		self->mix[k] = 1.0 / (double)topics;
	for (unsigned round = 0; round < FOLD_ROUNDS && count > 1; round++) {
		double all = (double)known + (double)topics * self->alpha;

		for (size_t k = 0; k < topics; k++)
			self->sums[k] = self->alpha / all;
		for (size_t i = 0; i < count; i += 2) {
			double whole = 0;

			for (size_t k = 0; k < topics; k++) {
				self->totals[k] = self->mix[k] * word_share(self, w, words[i], k);
				whole += self->totals[k];
			}
			for (size_t k = 0; k < topics; k++)
				self->sums[k] += self->totals[k] / whole / all;
		}
		memcpy(self->mix, self->sums, topics * sizeof(*self->mix));
	}
}

static int lda_eval(struct learn_model *model, const float *w, const struct learn_data *data,
		    const struct learn_set *set, size_t first, size_t count,
		    struct learn_score *ret_score)
{
	struct lda *self = lda_of(model);
	struct learn_score score = { .count = count };

	(void)data;
	for (size_t d = first; d < first + count; d++) {
		const uint32_t *words = set->words + set->starts[d];
		size_t len = set->starts[d + 1] - set->starts[d];
		double loss = 0;

		mix_fit(self, w, words, len);
		for (size_t i = len > 1 ? 1 : 0; i < len; i += 2) {
			double likelihood = 0;

			for (size_t k = 0; k < self->topics; k++)
				likelihood += self->mix[k] * word_share(self, w, words[i], k);
			loss -= log(likelihood);
		}
		score.loss_sum += loss / (double)(len > 1 ? len / 2 : 1);
	}
	*ret_score = score;
	return 0;
}

static double perplexity(const struct learn_score *score)
{
	return exp(score->loss_sum / (double)score->count);
}

/* words_wrong -- words whose counts are not those of the training documents; SIZE_MAX: no memory */
static size_t words_wrong(const struct lda *self, const float *w, const struct learn_data *data)
{
	size_t words = data->shape.cols, wrong = 0;
	size_t *occurs = calloc(words, sizeof(*occurs));

	if (occurs == NULL)
		return SIZE_MAX;
	for (size_t i = 0; i < tokens(data); i++)
		occurs[data->train.words[i]]++;
	for (size_t v = 0; v < words; v++) {
		double sum = 0;

		for (size_t k = 0; k < self->topics; k++)
			sum += (double)w[v * self->topics + k];
		wrong += sum != (double)occurs[v];
	}
	free(occurs);
	return wrong;
}

/* topics_sum -- the count of all tokens; *ret_wrong: topics whose total is not the sum of their
 * words */
static double topics_sum(const struct lda *self, const float *w, size_t *ret_wrong)
{
	double all = 0;

	*ret_wrong = 0;
	for (size_t k = 0; k < self->topics; k++) {
		double sum = 0;

		for (size_t v = 0; v < self->base.shape.cols; v++)
			sum += (double)w[v * self->topics + k];
		all += sum;
		*ret_wrong += sum != (double)w[self->base.layers[1].offset + k];
	}
	return all;
}

/* distance -- total variation, 0 to 1, between a planted topic and one of the counts w */
static double distance(const struct lda *self, const float *w, const struct learn_data *data,
		       size_t planted, size_t k)
{
	size_t words = data->shape.cols;
	const float *truth = data->planted.topics + planted * words;
	double all = 0, sum = 0;

	for (size_t v = 0; v < words; v++)
		all += above_0((double)w[v * self->topics + k]);
	for (size_t v = 0; all > 0 && v < words; v++)
		sum += fabs(above_0((double)w[v * self->topics + k]) / all - (double)truth[v]);
	return all > 0 ? sum / 2 : 1;
}

/* planted_distance -- mean over the best matching; planted topics without a match count as 1. NAN:
 * not known */
static double planted_distance(const struct lda *self, const float *w,
			       const struct learn_data *data)
{
	size_t rows = data->planted.rank, cols = rows > self->topics ? rows : self->topics;
	double *cost = calloc(rows * cols, sizeof(*cost)), sum = 0;
	size_t *match = calloc(rows, sizeof(*match));
	int rc = cost == NULL || match == NULL ? -ENOMEM : 0;

	for (size_t i = 0; rc == 0 && i < rows; i++) {
		for (size_t k = 0; k < cols; k++)
			cost[i * cols + k] = k < self->topics ? distance(self, w, data, i, k) : 1;
	}
	if (rc == 0)
		rc = learn_match(cost, rows, cols, match);
	for (size_t i = 0; rc == 0 && i < rows; i++)
		sum += cost[i * cols + match[i]];
	free(cost);
	free(match);
	return rc == 0 ? sum / (double)rows : (double)NAN;
}

/* perplexity_floor -- perplexity of the test documents under the planted topics. NAN: not known */
static double perplexity_floor(struct learn_model *model, const struct learn_data *data)
{
	const struct lda *self = lda_of(model);
	const float large = 0x1p20f; /* tokens a topic: enough to make beta negligible */
	float *w = learn_alloc(model->param_count, sizeof(*w));
	struct learn_score score;

	if (w == NULL)
		return (double)NAN;
	for (size_t k = 0; k < self->topics; k++) {
		w[model->layers[1].offset + k] = large;
		for (size_t v = 0; v < data->shape.cols; v++)
			w[v * self->topics + k] =
				large * data->planted.topics[k * data->shape.cols + v];
	}
	(void)lda_eval(model, w, data, &data->test, 0, data->test.count, &score);
	free(w);
	return perplexity(&score);
}

static size_t lda_figures(struct learn_model *model, const float *w, const struct learn_data *data,
			  struct learn_figure *figures)
{
	const struct lda *self = lda_of(model);
	size_t wrong, words = words_wrong(self, w, data), count = 0;

	figures[count++] = (struct learn_figure){ "tokens", (double)tokens(data) };
	figures[count++] = (struct learn_figure){ "tokens_counted", topics_sum(self, w, &wrong) };
	figures[count++] = (struct learn_figure){ "topics_wrong", (double)wrong };
	if (words != SIZE_MAX)
		figures[count++] = (struct learn_figure){ "words_wrong", (double)words };
	if (data->planted.rank > 0) {
		double far = planted_distance(self, w, data);

		if (!isnan(far))
			figures[count++] = (struct learn_figure){ "planted_distance", far };
	}
	if (data->planted.rank == self->topics) {
		double floor = perplexity_floor(model, data);

		if (!isnan(floor))
			figures[count++] = (struct learn_figure){ "perplexity_floor", floor };
	}
	return count;
}

static const struct learn_ops ops = { .destroy = lda_destroy,
				      .init = lda_init,
				      .attach = lda_attach,
				      .grad = lda_grad,
				      .eval = lda_eval,
				      .score = perplexity,
				      .figures = lda_figures };

int learn_lda_create(const char *args, const struct learn_shape *shape,
		     struct learn_model **ret_model, struct learn_line *err)
{
	struct lda_args set = { .topics = 10, .alpha = 0.1, .beta = 0.2 };
	struct lda *self;
	int rc = learn_args_parse("model lda", OL_FIELDS(fields), args, &set, err);

	if (rc != 0)
		return rc;
	self = calloc(1, sizeof(*self));
	if (self == NULL)
		return learn_err(err, -ENOMEM, "model lda: out of memory");
	self->base.ops = &ops;
	self->base.traits = (struct learn_traits){ .score_name = "perplexity", .additive = true };
	self->topics = set.topics;
	self->alpha = set.alpha;
	self->beta = set.beta;
	learn_layer_add(&self->base, "words", self->topics, shape->cols, false);
	learn_layer_add(&self->base, "totals", self->topics, 1, false);
	self->totals = calloc(self->topics, sizeof(*self->totals));
	self->mix = calloc(self->topics, sizeof(*self->mix));
	self->sums = calloc(self->topics, sizeof(*self->sums));
	if (self->totals == NULL || self->mix == NULL || self->sums == NULL)
		rc = learn_err(err, -ENOMEM, "model lda: out of memory");
	if (rc == 0)
		rc = learn_params_check(&self->base, "lda", err);
	if (rc != 0) {
		lda_destroy(&self->base);
		return rc;
	}
	*ret_model = &self->base;
	return 0;
}
