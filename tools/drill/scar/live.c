/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * live.c -- the worker of real servers that train a problem
 *
 *	{"live": "open", "servers": ADDRESSES, "key": JOB KEY}
 *		{"spans": first float and count of each shard}
 *	{"live": "train", "row": ROW, "step": K, "count": N, "target": LOSS}
 *		make at most N steps, the first after K iterations; weights to ROW
 *		{"made": N, "there": BOOL}: fewer if the loss has reached the target
 *	{"live": "saved", "servers": N}
 *		{"version": the newest with a full checkpoint at all servers; 0: none}
 *	{"live": "lost", "server": I}
 *		{}, once the worker has noticed it
 *	{"live": "again", "row": ROW}
 *		{}, once all servers are back; weights to ROW
 *	{"live": "close"}
 *		{}
 *
 * The servers' kernel computes the same step as the problem, so until a kill the weights equal the
 * study's, bit for bit.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "drill/scar/scar.h"
#include "drill/trial.h"
#include "outlast.h"
#include "outlast_server.h"

enum {
	WAIT_MS = 30000 /* timeout of events that should come at once */
};

static int pull(struct scar_live *live, float *w)
{
	struct ol_op op = { 0 };
	int rc = ol_pull(live->worker, OL_PULL_NEWEST, &op);

	if (rc == 0)
		rc = ol_worker_wait(live->worker, &op);
	if (rc == 0)
		memcpy(w, ol_weights(live->worker, NULL), live->problem->floats * sizeof(*w));
	return rc;
}

static int live_open(struct scar_live *live, json_t *order, float *w, json_t **ret_answer)
{
	json_t *spans = json_array();
	struct ol_worker_opts opts;
	struct ol_job_info info;
	char err[256] = "";
	uint64_t first, count;
	int rc;

	ol_worker_opts_init(&opts);
	opts.transport = "shm";
	opts.param_count = live->problem->floats;
	opts.connect_timeout_ms = WAIT_MS;
	opts.op_timeout_ms = WAIT_MS;
	opts.outage = OL_OUTAGE_WAIT;
	opts.lease_ms = 0;
	rc = trial_unpack(order, "{s:s, s:s}", "servers", &opts.servers, "key", &opts.job_key);
	if (rc == 0)
		rc = ol_worker_open(&opts, &live->worker, err, sizeof(err));
	if (rc < 0)
		(void)ol_cmd_error(OL_EXIT_SERVER, "drill", "the servers of a live run", err, NULL);
	if (rc == 0)
		rc = pull(live, w);
	if (rc == 0)
		ol_worker_info(live->worker, &info);
	for (uint32_t i = 0; rc == 0 && i < info.shard_count; i++) {
		rc = ol_shard_span(live->problem->floats, info.shard_count, i, &first, &count);
		json_array_append_new(spans,
				      json_pack("[I, I]", (json_int_t)first, (json_int_t)count));
	}
	*ret_answer = json_pack("{s:o}", "spans", spans);
	return rc;
}

/* Compute the loss; unless it is at the target, make one more step */
static int train_step(struct scar_live *live, uint32_t k, double target, float *w, bool *ret_there)
{
	const struct scar_problem *problem = live->problem;
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { 0 };
	double loss;
	float *grad;
	int rc;

	/* w also receives the next weights */
	rc = problem->step(problem->model, k, ol_weights(live->worker, &info.base_version), w,
			   &loss);
	*ret_there = loss <= target;
	if (rc != 0 || *ret_there)
		return rc;
	while ((rc = ol_grad_try_acquire(live->worker, &grad)) == -EAGAIN)
		(void)ol_worker_poll(live->worker);
	if (rc != 0)
		return rc;
	memcpy(grad, problem->grad, problem->floats * sizeof(*grad));
	info.loss = (float)loss;
	rc = ol_push(live->worker, grad, &info, &op);
	if (rc == 0)
		rc = ol_worker_wait(live->worker, &op);
	return rc != 0 ? rc : pull(live, w);
}

static int train(struct scar_live *live, json_t *order, float *w, json_t **ret_answer)
{
	bool there = false;
	double target;
	int step, count, made = 0;
	int rc = trial_unpack(order, "{s:i, s:i, s:F}", "step", &step, "count", &count, "target",
			      &target);

	while (rc == 0 && !there && made < count)
		rc = train_step(live, (uint32_t)(step + made++), target, w, &there);
	if (rc == 0)
		memcpy(w, ol_weights(live->worker, NULL), live->problem->floats * sizeof(*w));
	*ret_answer = json_pack("{s:i, s:b}", "made", made, "there", (int)there);
	return rc;
}

static int saved(struct scar_live *live, json_t *order, float *w, json_t **ret_answer)
{
	uint64_t version = UINT64_MAX;
	struct ol_server_stat stat;
	int servers, rc = trial_unpack(order, "{s:i}", "servers", &servers);

	(void)w;
	for (int i = 0; rc == 0 && i < servers; i++) {
		rc = ol_stat(live->worker, (uint32_t)i, &stat);
		if (rc == 0 && stat.checkpoint_version < version)
			version = stat.checkpoint_version;
	}
	*ret_answer = json_pack("{s:I}", "version", (json_int_t)version);
	return rc;
}

static int lost(struct scar_live *live, json_t *order, float *w, json_t **ret_answer)
{
	uint64_t end = ol_clock_ns() + (uint64_t)WAIT_MS * 1000000u;
	struct ol_link_stat stat = { 0 };
	int server, rc = trial_unpack(order, "{s:i}", "server", &server);

	(void)w;
	while (rc == 0 && stat.outages == 0) {
		(void)ol_worker_poll(live->worker);
		rc = ol_link_get_stat(live->worker, (uint32_t)server, &stat);
		if (rc == 0 && stat.outages == 0 && ol_clock_ns() >= end)
			rc = -ETIMEDOUT;
	}
	*ret_answer = json_object();
	return rc;
}

static int again(struct scar_live *live, json_t *order, float *w, json_t **ret_answer)
{
	struct ol_op op = { 0 };
	int rc = ol_flush(live->worker, &op);

	(void)order;
	if (rc == 0)
		rc = ol_worker_wait(live->worker, &op);
	if (rc == 0)
		rc = pull(live, w);
	*ret_answer = json_object();
	return rc;
}

static int live_close(struct scar_live *live, json_t *order, float *w, json_t **ret_answer)
{
	(void)order;
	(void)w;
	ol_worker_close(live->worker);
	live->worker = NULL;
	*ret_answer = json_object();
	return 0;
}

int scar_live_go(struct scar_live *live, json_t *order, float *w, json_t **ret_answer)
{
	static const struct {
		const char *name;
		int (*go)(struct scar_live *live, json_t *order, float *w, json_t **ret_answer);
	} kinds[] = { { "open", live_open }, { "train", train }, { "saved", saved },
		      { "lost", lost },      { "again", again }, { "close", live_close } };
	const char *kind = "";
	int rc = trial_unpack(order, "{s:s}", "live", &kind);

	for (size_t i = 0; rc == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, kind) == 0)
			rc = kinds[i].go(live, order, w, ret_answer);
	}
	if (rc < 0)
		rc = ol_cmd_error(ol_cmd_exit_of(rc), "drill", "servers with a kill, live",
				  ol_strerror(rc), ol_cmd_remedy(rc));
	if (rc != 0)
		json_decref(*ret_answer);
	return rc;
}
