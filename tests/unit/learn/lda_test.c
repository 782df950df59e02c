/* SPDX-License-Identifier: BSD-3-Clause */

/* lda_test.c -- Gibbs sampling keeps the counts exact, whatever the order of updates, and finds the
 * planted topics */

#include "learn/model.h"
#include "unit/learn/learn_util.h"

enum {
	WORKERS = 3,
	BATCH = 10
};

/* Workers that take turns, each with counts as old as its last turn. */
struct fixture {
	struct learn_data *data;
	struct learn_model *models[WORKERS];
	struct learn_batch *batch;
	float *w;
	float *seen[WORKERS];
	float *grad;
	size_t count;
};

static struct fixture fixture_make(const char *name, const char *spec)
{
	struct fixture f = { .data = open_good(spec) };
	char err[ERR_LEN] = "";

	for (unsigned i = 0; i < WORKERS; i++) {
		if (learn_model_create(name, &f.data->shape, NULL, &f.models[i], err,
				       sizeof(err)) != 0)
			fail_msg("%s", err);
		assert_int_equal(learn_model_attach(f.models[i], f.data, err, sizeof(err)), 0);
	}
	f.count = f.models[0]->param_count;
	f.w = floats(f.count);
	f.grad = floats(f.count);
	learn_model_init(f.models[0], 1, f.w);
	for (unsigned i = 0; i < WORKERS; i++) {
		f.seen[i] = floats(f.count);
		memcpy(f.seen[i], f.w, f.count * sizeof(*f.w));
	}
	assert_int_equal(learn_batch_create(&f.data->shape, BATCH, &f.batch), 0);
	f.batch->workers = WORKERS;
	return f;
}

static void fixture_end(struct fixture *f)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		learn_model_destroy(f->models[i]);
		free(f->seen[i]);
	}
	learn_batch_destroy(f->batch);
	learn_data_close(f->data);
	free(f->w);
	free(f->grad);
}

/* turn -- one step of a worker, at the counts that it saw before its last one; then it looks */
static double turn(struct fixture *f, uint32_t worker, uint64_t step)
{
	struct learn_key key = { .seed = 2, .step = step, .worker = worker };
	double loss;

	assert_int_equal(learn_batch_draw(f->data, &key, BATCH, f->batch), 0);
	assert_int_equal(learn_model_grad(f->models[worker], f->seen[worker], f->batch, &key,
					  f->grad, &loss),
			 0);
	memcpy(f->seen[worker], f->w, f->count * sizeof(*f->w));
	for (size_t i = 0; i < f->count; i++)
		f->w[i] -= f->grad[i];
	return loss;
}

static double figure(struct fixture *f, const float *w, const char *name)
{
	struct learn_figure figures[LEARN_FIGURES_MAX];
	size_t count = learn_model_figures(f->models[0], w, f->data, figures);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(figures[i].name, name) == 0)
			return figures[i].value;
	}
	fail_msg("there is no figure %s", name);
	return 0;
}

/* sweeps -- each worker goes through its documents so many times; the mean loss of the last time */
static double sweeps(struct fixture *f, unsigned count)
{
	uint64_t own = f->data->train.count / WORKERS / BATCH;
	double loss = 0;

	for (uint64_t step = 0; step < own * count; step++) {
		for (uint32_t worker = 0; worker < WORKERS; worker++)
			loss += step >= own * (count - 1) ? turn(f, worker, step)
							  : 0 * turn(f, worker, step);
	}
	return loss / (double)(own * WORKERS);
}

static void counts_add_up_after_every_sweep(void **state)
{
	struct fixture f =
		fixture_make("lda:topics=5", "topics:topics=5,words=100,docs=120,length=30");
	double tokens = figure(&f, f.w, "tokens");

	(void)state;
	assert_true(tokens == (double)f.data->train.starts[120]);
	assert_true(figure(&f, f.w, "tokens_counted") == 0);
	(void)turn(&f, 0, 0);
	assert_true(figure(&f, f.w, "tokens_counted") > 0);
	assert_true(figure(&f, f.w, "tokens_counted") < tokens);
	for (uint64_t step = 1; step < 12; step++)
		(void)turn(&f, 0, step);
	for (uint32_t worker = 1; worker < WORKERS; worker++) {
		for (uint64_t step = 0; step < 12; step++)
			(void)turn(&f, worker, step);
	}
	assert_true(figure(&f, f.w, "tokens_counted") == tokens);
	assert_true(figure(&f, f.w, "words_wrong") == 0);
	assert_true(figure(&f, f.w, "topics_wrong") == 0);
	for (size_t i = 0; i < f.count; i++)
		assert_true(f.w[i] >= 0);
	f.w[0]++; /* a doubled update shows */
	assert_true(figure(&f, f.w, "tokens_counted") == tokens + 1);
	assert_true(figure(&f, f.w, "words_wrong") == 1);
	assert_true(figure(&f, f.w, "topics_wrong") == 1);
	fixture_end(&f);
}

static double perplexity(struct fixture *f, const float *w)
{
	struct learn_score score;

	assert_int_equal(learn_model_eval(f->models[0], w, f->data, &f->data->test, 0,
					  f->data->test.count, &score),
			 0);
	return learn_model_score(f->models[0], &score);
}

static void sampling_finds_the_planted_topics(void **state)
{
	struct fixture f = fixture_make("lda:topics=10",
					"topics:topics=10,words=400,docs=600,length=100,seed=3");
	double first = sweeps(&f, 1), early = figure(&f, f.w, "planted_distance"), last;
	float *planted = floats(f.count);

	(void)state;
	/* what the planted topics themselves make of the test documents */
	memset(planted, 0, f.count * sizeof(*planted));
	for (size_t k = 0; k < 10; k++) {
		planted[4000 + k] = 1e6f;
		for (size_t v = 0; v < 400; v++)
			planted[v * 10 + k] = 1e6f * f.data->planted.topics[k * 400 + v];
	}
	last = sweeps(&f, 100);
	print_message("distance %.3f, after one sweep %.3f; loss %.3f, at first %.3f; perplexity "
		      "%.1f, of the planted topics %.1f\n",
		      figure(&f, f.w, "planted_distance"), early, last, first, perplexity(&f, f.w),
		      perplexity(&f, planted));
	assert_true(early > 0.35);
	assert_true(figure(&f, f.w, "planted_distance") < 0.15);
	assert_true(figure(&f, planted, "planted_distance") < 1e-4);
	assert_true(last < first - 0.2);
	assert_true(perplexity(&f, f.w) < 1.1 * perplexity(&f, planted));
	assert_true(fabs(figure(&f, f.w, "perplexity_floor") / perplexity(&f, planted) - 1) < 1e-6);
	assert_true(figure(&f, f.w, "words_wrong") == 0);
	free(planted);
	fixture_end(&f);
}

static void a_step_is_a_function_of_what_came_before(void **state)
{
	const char *spec = "topics:topics=5,words=100,docs=90,length=30";
	struct fixture a = fixture_make("lda:topics=5", spec);
	struct fixture b = fixture_make("lda:topics=5", spec);

	(void)state;
	(void)sweeps(&a, 3);
	(void)sweeps(&b, 3);
	assert_memory_equal(a.w, b.w, a.count * sizeof(*a.w));
	fixture_end(&a);
	fixture_end(&b);
}

static void a_model_that_lost_its_topics_says_so(void **state)
{
	struct fixture f =
		fixture_make("lda:topics=5", "topics:topics=5,words=100,docs=90,length=30");
	struct learn_key key = { .seed = 2, .step = 3 };
	char err[ERR_LEN];
	double loss;

	(void)state;
	(void)sweeps(&f, 1);
	assert_int_equal(learn_model_attach(f.models[0], f.data, err, sizeof(err)), 0);
	assert_int_equal(learn_batch_draw(f.data, &key, BATCH, f.batch), 0);
	assert_int_equal(learn_model_grad(f.models[0], f.w, f.batch, &key, f.grad, &loss), -ESTALE);
	fixture_end(&f);
}

static void a_word_is_a_block(void **state)
{
	struct fixture f = fixture_make("lda:topics=7", "topics:words=100,docs=90");
	uint64_t lengths[101];

	(void)state;
	assert_int_equal(f.count, 7 * 101);
	assert_int_equal(learn_model_blocks(f.models[0], lengths), 101);
	for (unsigned i = 0; i < 101; i++)
		assert_int_equal(lengths[i], 7);
	assert_true(f.models[0]->traits.additive);
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_add_up_after_every_sweep),
		cmocka_unit_test(sampling_finds_the_planted_topics),
		cmocka_unit_test(a_step_is_a_function_of_what_came_before),
		cmocka_unit_test(a_model_that_lost_its_topics_says_so),
		cmocka_unit_test(a_word_is_a_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
