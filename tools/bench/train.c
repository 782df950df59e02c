/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train.c -- `outlast bench train`: the cost of a server for a worker
 *
 * Three arms in turns. "server": compute the gradient in the lent buffer, push, draw the next batch,
 * wait until the push is applied, pull. "alone": the same batch, the same gradient, and the same
 * SGD step by the worker itself, in place. "gradient": only the gradient, of one batch. Server and
 * alone compute the same steps, so at the end their weights must agree bit for bit.
 *
 * With --overlap the server arm waits not for its last push but for the one before: the server
 * applies while the worker computes, at weights that lack at most its own last gradient.
 */

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/alternate.h"
#include "bench/baseline.h"
#include "bench/bench.h"
#include "cmd/cmd.h"
#include "learn/data.h"
#include "learn/model.h"

enum {
	ROUNDS = 20,
	SAMPLES_MAX = 1 << 20,
	WARMUP = 5
};

struct train_conf {
	struct bench_place place;
	const char *model;
	const char *dataset;
	uint64_t seed;
	double seconds;
	double lr;
	uint32_t batch;
	bool overlap;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_GROUP("what"),
	OL_ROW_STR(train_conf, model, "cnn", "softmax, mlp:A,B,... or cnn"),
	OL_ROW_STR(train_conf, dataset, "synthetic:shape=28x28",
		   "fashion-mnist, idx:DIR, libsvm:FILE or synthetic:..."),
	OL_ROW_U32(train_conf, batch, "32", 1, LEARN_BATCH_MAX, "samples of a gradient"),
	OL_ROW_BOOL(train_conf, overlap, "false",
		    "compute on while the last push is applied: weights one gradient old"),
	OL_ROW_F64(train_conf, lr, "0.01", 0, 0, "learning rate"),
	OL_ROW_U64(train_conf, seed, "1", 0, 0, "of weights, batches and dropout"),
	OL_ROW_F64(train_conf, seconds, "5", 0.01, 86400,
		   "for each of the three: through a server, alone, the gradient only"),
	BENCH_PLACE_FIELDS,
};

/* State of an arm; model and data are shared, as one thread runs all arms. */
struct lane {
	struct learn_data *data;
	struct learn_model *model;
	struct learn_batch *batch;
	struct learn_key key; /* of the next step */
	struct bench_client *client; /* server */
	struct ol_op pushes[2]; /* server: this step's and the one before */
	bool overlap;
	float *weights; /* alone, gradient */
	float *grad;
	size_t len;
	float lr;
};

static struct train {
	struct bench_run run;
	struct train_conf conf;
	struct learn_data *data;
	struct learn_model *model;
	struct learn_batch *batches[3]; /* one an arm */
	float *first; /* weights at the start */
	FILE *file; /* of these, for the server */
	char path[48];
	float *weights;
	float *grad;
	size_t len;
} train;

static int draw(struct lane *lane)
{
	return learn_batch_draw(lane->data, &lane->key, lane->batch->count_max, lane->batch);
}

/* As in a worker's loop: send the final part ahead */
static void ready(void *arg, float *grad, size_t first)
{
	(void)ol_grad_ready(arg, grad, first);
}

/* A step of "server" or "alone" begins with its batch drawn, and ends with the next one drawn */
static int server_step(void *arg)
{
	struct lane *lane = arg;
	struct ol_worker *worker = lane->client->worker;
	struct ol_push_info info = { .samples = lane->batch->count_max };
	struct ol_op *push = &lane->pushes[lane->key.step % 2], pull = { 0 };
	const float *w = ol_weights(worker, &info.base_version);
	double loss = 0.0;
	float *grad;
	int rc = ol_grad_try_acquire(worker, &grad);

	if (rc != 0)
		return rc;
	learn_model_ready_set(lane->model, ready, worker);
	rc = learn_model_grad(lane->model, w, lane->batch, &lane->key, grad, &loss);
	learn_model_ready_set(lane->model, NULL, NULL);
	info.loss = (float)loss;
	push->level = OL_LEVEL_APPLIED;
	if (rc == 0)
		rc = ol_push(worker, grad, &info, push);
	lane->key.step++;
	if (rc == 0)
		rc = draw(lane);
	if (lane->overlap)
		push = &lane->pushes[lane->key.step % 2]; /* the one before; none is done */
	if (rc == 0)
		rc = ol_worker_wait(worker, push);
	if (rc == 0)
		rc = ol_pull(worker, 0, &pull);
	return rc != 0 ? rc : ol_worker_wait(worker, &pull);
}

static int alone_step(void *arg)
{
	struct lane *lane = arg;
	double loss;
	int rc = learn_model_grad(lane->model, lane->weights, lane->batch, &lane->key, lane->grad,
				  &loss);

	bench_descend(lane->weights, lane->grad, lane->lr, lane->len);
	lane->key.step++;
	return rc != 0 ? rc : draw(lane);
}

static int gradient_step(void *arg)
{
	struct lane *lane = arg;
	double loss;

	return learn_model_grad(lane->model, lane->weights, lane->batch, &lane->key, lane->grad,
				&loss);
}

/* The server's process reads them by this process's descriptor */
static int first_write(void)
{
	int fd = memfd_create("outlast-bench-weights", MFD_CLOEXEC);

	train.file = fd >= 0 ? fdopen(fd, "w") : NULL;
	snprintf(train.path, sizeof(train.path), "/proc/%d/fd/%d", (int)getpid(), fd);
	return train.file != NULL &&
			       fwrite(train.first, sizeof(float), train.len, train.file) ==
				       train.len &&
			       fflush(train.file) == 0
		       ? 0
		       : -ENOMEM;
}

static int prepare(struct bench_run *run)
{
	struct learn_key key = { .seed = train.conf.seed };
	struct learn_model_opts opts;
	char *err = run->err;
	int rc;

	run->exit_code = OL_EXIT_DATA;
	rc = learn_data_open(train.conf.dataset, &train.data, err, BENCH_ERR_MAX);
	if (rc != 0)
		return rc;
	learn_model_opts_init(&opts);
	opts.batch_max = train.conf.batch;
	rc = learn_model_create(train.conf.model, &train.data->shape, &opts, &train.model, err,
				BENCH_ERR_MAX);
	if (rc != 0)
		return rc;
	if (train.model->traits.additive) {
		snprintf(err, BENCH_ERR_MAX,
			 "the model %s goes on from its last step, so arms in turns are not alike; "
			 "choose another",
			 train.conf.model);
		return -EINVAL;
	}
	rc = learn_model_attach(train.model, train.data, err, BENCH_ERR_MAX);
	for (unsigned i = 0; i < 3 && rc == 0; i++) {
		rc = learn_batch_create(&train.data->shape, train.conf.batch, &train.batches[i]);
		if (rc == 0)
			rc = learn_batch_draw(train.data, &key, train.conf.batch, train.batches[i]);
	}
	train.len = train.model->param_count;
	train.first = calloc(train.len, sizeof(float));
	train.weights = calloc(train.len, sizeof(float));
	train.grad = calloc(train.len, sizeof(float));
	if (train.first == NULL || train.weights == NULL || train.grad == NULL)
		return -ENOMEM;
	learn_model_init(train.model, train.conf.seed, train.first);
	memcpy(train.weights, train.first, train.len * sizeof(float));
	if (rc == 0)
		rc = first_write();
	if (rc != 0)
		return rc;
	run->exit_code = 0;
	run->sizes = (struct bench_sizes){ .count = 1, .bytes = { train.len * sizeof(float) } };
	run->weights = train.path;
	run->lr = (float)train.conf.lr;
	return 0;
}

static void model_free(struct bench_run *run)
{
	(void)run;
	if (train.file != NULL)
		fclose(train.file);
	free(train.first);
	free(train.weights);
	free(train.grad);
	for (unsigned i = 0; i < 3; i++)
		learn_batch_destroy(train.batches[i]);
	learn_model_destroy(train.model);
	learn_data_close(train.data);
}

/* The arm that is behind goes on until both have made equally many steps; then weights must agree */
static int agree(struct bench_run *run, struct lane *server, struct lane *alone)
{
	const float *w;
	int rc = 0;

	while (server->key.step < alone->key.step && rc == 0)
		rc = server_step(server);
	while (alone->key.step < server->key.step && rc == 0)
		rc = alone_step(alone);
	if (rc != 0)
		return rc;
	w = ol_weights(run->client.worker, NULL);
	if (memcmp(w, alone->weights, train.len * sizeof(float)) != 0) {
		snprintf(run->err, sizeof(run->err),
			 "weights through the server differ from those without after %llu steps",
			 (unsigned long long)alone->key.step);
		return OL_E_WIRE;
	}
	printf("# weights with and without the server agree bit for bit after %llu steps\n",
	       (unsigned long long)alone->key.step);
	return 0;
}

static void report(json_t *json, struct bench_arm *arms)
{
	static const char *const keys[] = { "server", "alone", "gradient" };
	struct bench_summary sums[3], s;
	double ratio;

	printf("#                    steps  per_second     t_min[usec]  t_typical[usec]  "
	       "99%%[usec]    99.9%%[usec]  t_max[usec]\n");
	for (unsigned i = 0; i < 3; i++) {
		bench_summary_make(&arms[i].samples, &sums[i]);
		s = sums[i];
		printf("%-16s %9llu  %-13.1f  %-11.1f  %-15.1f  %-11.1f  %-12.1f  %.1f\n",
		       arms[i].name, (unsigned long long)s.count, 1e9 / s.avg, (double)s.min / 1e3,
		       (double)s.p50 / 1e3, (double)s.p99 / 1e3, (double)s.p999 / 1e3,
		       (double)s.max / 1e3);
		json_object_set_new(json, keys[i], bench_summary_json(&s));
		json_object_set_new(json_object_get(json, keys[i]), "per_second",
				    json_real(1e9 / s.avg));
	}
	ratio = (double)sums[1].p50 / (double)sums[0].p50;
	printf("through a server / alone, gradients a second by typical step: %.3f\n", ratio);
	json_object_update_new(json, json_pack("{s:f, s:b, s:s, s:s, s:I, s:I}", "ratio", ratio,
					       "overlap", (int)train.conf.overlap, "model",
					       train.conf.model, "dataset", train.conf.dataset,
					       "batch", (json_int_t)train.conf.batch, "params",
					       (json_int_t)train.len));
}

static int arms_run(struct bench_run *run)
{
	struct lane lane = { .data = train.data,
			     .model = train.model,
			     .key = { .seed = train.conf.seed },
			     .client = &run->client,
			     .overlap = train.conf.overlap,
			     .weights = train.weights,
			     .grad = train.grad,
			     .len = train.len,
			     .lr = (float)train.conf.lr };
	struct lane lanes[3] = { lane, lane, lane };
	struct bench_arm arms[3] = {
		{ .name = "through a server", .step = server_step, .arg = &lanes[0] },
		{ .name = "alone", .step = alone_step, .arg = &lanes[1] },
		{ .name = "gradient only", .step = gradient_step, .arg = &lanes[2] },
	};
	struct bench_plan plan = { .ns = (uint64_t)(train.conf.seconds * 1e9),
				   .warmup = WARMUP,
				   .rounds = ROUNDS,
				   .samples_max = SAMPLES_MAX };
	struct ol_op pull = { 0 };
	int rc = ol_pull(run->client.worker, OL_PULL_NEWEST, &pull);

	lanes[2].weights = train.first;
	for (unsigned i = 0; i < 3; i++)
		lanes[i].batch = train.batches[i];
	lanes[0].pushes[1].done = 1; /* there is none before the first */
	if (rc == 0)
		rc = ol_worker_wait(run->client.worker, &pull);
	if (rc == 0)
		rc = bench_alternate(arms, 3, &plan);
	if (rc == 0 && train.conf.overlap)
		rc = ol_worker_wait(run->client.worker,
				    &lanes[0].pushes[1 - lanes[0].key.step % 2]);
	else if (rc == 0)
		rc = agree(run, &lanes[0], &lanes[1]);
	if (rc == 0)
		report(run->report, arms);
	for (unsigned i = 0; i < 3; i++)
		bench_samples_fini(&arms[i].samples);
	return rc;
}

static int size_run(struct bench_run *run, uint64_t bytes)
{
	int rc = bench_servers_open(run, 0, bytes, train.conf.overlap ? 2 : 1);

	if (rc != 0)
		return rc;
	printf("# outlast bench train: model %s, %zu parameters, batch %u, data %s\n",
	       train.conf.model, train.len, train.conf.batch, train.conf.dataset);
	bench_ends_print(run);
	printf("# three arms in turns, %d rounds; the server's step: gradient, push, draw, wait until "
	       "%s is applied, pull\n",
	       ROUNDS, train.conf.overlap ? "the push before" : "it");
	fflush(stdout);
	return bench_servers_close(run, arms_run(run));
}

const struct bench_measure bench_train = {
	.name = "train",
	.summary = "gradients a second of one worker, through a server and without",
	.purpose = "Gradients a second of one worker, through a server and without one.",
	.examples = "  outlast bench train --model cnn --dataset fashion-mnist\n"
		    "  outlast bench train --model softmax --batch 64 --seconds 2\n",
	.fields = OL_FIELDS(fields),
	.conf = &train.conf,
	.run = &train.run,
	.prepare = prepare,
	.size = size_run,
	.fini = model_free,
};
