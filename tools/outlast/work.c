/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * work.c -- `outlast work`: one worker against servers that are up
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/control.h"
#include "cmd/job.h"
#include "cmd/key.h"
#include "cmd/logs.h"
#include "cmd/loop.h"
#include "cmd/settings.h"
#include "outlast.h"
#include "outlast/work_metrics.h"

enum {
	EVAL_PIECE = 500, /* samples between two looks at orders */
	PATIENCE_S = 2, /* a longer wait is reported */
	SESSION_LEASES = 6 /* a dead server's session, what spares wait then, and some more */
};

struct work_set {
	const char *connect;
	const char *json;
	const char *metrics;
	uint64_t steps;
	uint64_t until;
	double seconds;
	double pace;
	uint32_t id;
	uint32_t batch;
	uint32_t connect_timeout_ms;
	uint32_t report_fd;
	bool eval;
	struct ol_set_model model;
	struct ol_set_late late;
	struct ol_set_outage outage;
	struct ol_set_lease lease;
	struct ol_set_format format;
	struct ol_set_coord coord;
	struct ol_set_transport transport;
	struct ol_set_link link;
	struct ol_set_wire wire;
	struct ol_set_key key;
};

static const struct ol_conf_field work_fields[] = {
	OL_ROW_GROUP("this worker"),
	OL_ROW_STR(
		work_set, connect, OL_DEFAULT_LISTEN,
		"addresses of the servers of shard 0, 1, ... with commas between; other addresses "
		"that a server may come back at follow behind a |. Not with --coordinator"),
	OL_ROW_U32(work_set, id, "0", 0, 1023,
		   "this worker's number, from 0; no two workers of a job have the same"),
	OL_ROW_U64(work_set, steps, "1000", 0, 0, "gradients to compute; 0: no limit"),
	OL_ROW_U64(
		work_set, until, "0", 0, 0,
		"end at this version instead, whoever made the steps before (sync, ssp), or when "
		"servers have so many gradients of this id (async): then a worker that is started "
		"again, or a job that goes on from checkpoints, ends where it would have; 0: --steps"),
	OL_ROW_F64(
		work_set, seconds, "0", 0.0, 1e7,
		"end after this time; 0: no limit. Do not use it with sync: the others would wait"),
	OL_ROW_U32(work_set, batch, "32", 1, LEARN_BATCH_MAX, "samples a gradient"),
	OL_ROW_F64(work_set, pace, "0", 0.0, 1e6,
		   "at most so many gradients a second; 0: as many as it can"),
	OL_ROW_BOOL(
		work_set, eval, "false",
		"at the end pull the weights, evaluate them on the test set, print their SHA-256"),
	OL_ROW_U32(
		work_set, connect_timeout_ms, OL_DEFAULT_TEXT(OL_DEFAULT_CONNECT_MS), 1, 0,
		"how long servers that are not there yet are tried; of a coordinator's, unless this "
		"is given, 6 leases longer"),
	OL_ROW_STR(work_set, json, NULL, "file for the figures at the end"),
	OL_ROW_STR(work_set, metrics, NULL,
		   "file for this worker's metrics, written each 10 s and at the end in "
		   "Prometheus' text format; name it .prom in the folder of node_exporter's "
		   "textfile collector"),
	OL_ROW_U32(work_set, report_fd, "0", 0, 65535,
		   "socket to the outlast train that started this; 0: none"),
};

static const struct ol_rows work_rows = OL_ROWS(work_fields);

static const char examples[] =
	"  outlast work --connect 10.0.0.1:7471,10.0.0.2:7471 --id 3 --model cnn --steps 500\n"
	"  outlast work --connect @job0 --model mlp --dataset synthetic --eval\n"
	"  outlast work --coordinator zk:10.0.0.9:2181 --job cnn7 --id 3 --model cnn\n";

struct work {
	struct ol_settings settings;
	struct work_set set;
	struct ol_control control;
	struct ol_job *job;
	struct ol_worker *worker;
	struct ol_loop loop;
	struct work_metrics metrics;
	struct ol_eval eval;
	char sha256[OL_SHA256_HEX_BYTES];
	char key[OL_JOB_KEY_MAX];
	struct ol_delay delay;
	bool away[OL_LOOP_SHARDS_MAX]; /* a person was told that this shard's server is away */
};

/* The servers' addresses, in words */
static const char *where(const struct work *work)
{
	const char *coordinator = work->set.coord.coordinator;

	return coordinator != NULL ? coordinator : work->set.connect;
}

/* Written by the handler of SIGALRM */
static char patience_text[512];

static void patience_over(int signo)
{
	int error = errno;
	ssize_t written = write(STDERR_FILENO, patience_text, strlen(patience_text));

	(void)signo;
	(void)written;
	errno = error;
}

/* Until alarm(0): after PATIENCE_S say what the worker waits for */
static void patience_begin(const struct work *work)
{
	const struct sigaction over = { .sa_handler = patience_over, .sa_flags = SA_RESTART };

	snprintf(patience_text, sizeof(patience_text),
		 "worker %u waits for its servers at %.400s\n", work->set.id, where(work));
	if (sigaction(SIGALRM, &over, NULL) == 0)
		alarm(PATIENCE_S);
}

static int worker_open(struct work *work)
{
	struct ol_worker_opts opts;
	char err[256] = "";
	int rc;

	ol_worker_opts_init(&opts);
	opts.servers = work->set.coord.coordinator == NULL ? work->set.connect : NULL;
	opts.coordinator = work->set.coord.coordinator;
	opts.job = work->set.coord.job;
	opts.transport = ol_transport_name(work->set.transport.transport);
	opts.device = work->set.link.device;
	opts.job_key = work->key;
	opts.worker = work->set.id;
	opts.param_count = work->job->param_count;
	opts.window = work->set.link.window;
	OL_SETTINGS_WIRE(&work->set.wire, &opts);
	opts.connect_timeout_ms = work->set.connect_timeout_ms;
	/* a chain that is founded anew waits until the sessions of those before have ended */
	if (opts.coordinator != NULL && !ol_conf_is_set(work->settings.conf, "connect_timeout_ms"))
		opts.connect_timeout_ms += SESSION_LEASES * work->set.lease.lease_ms;
	opts.spin_us = work->set.link.spin_us;
	opts.gradient_format = (uint32_t)work->set.format.gradient_format;
	opts.cancel_fd = work->control.signal_fd;
	ol_settings_outage(&work->set.outage, &work->set.lease, &opts);
	if (work->control.parent_fd < 0)
		patience_begin(work);
	rc = ol_worker_open(&opts, &work->worker, err, sizeof(err));
	alarm(0);
	if (rc == -ECANCELED)
		return ol_control_cancelled(&work->control);
	if (rc != 0)
		return ol_cmd_error(opts.coordinator != NULL ? ol_cmd_exit_of_coord(rc)
							     : ol_cmd_exit_of(rc),
				    "work", err, NULL, ol_cmd_remedy(rc));
	return 0;
}

static void start_say(const struct work *work)
{
	struct ol_job_info info;

	if (work->control.parent_fd >= 0)
		return;
	ol_worker_info(work->worker, &info);
	ol_logs_say(OL_LOG_INFO,
		    "worker %u at %s: %" PRIu64
		    " parameters in %u shards, %u gradient buffers, %s%s",
		    work->set.id, where(work), info.param_count, info.shard_count, info.window,
		    info.transport, info.zero_copy ? " without a copy" : "");
}

/* Wait for the order "go", if there is a parent. */
static void go_wait(struct work *work)
{
	struct ol_control *control = &work->control;

	if (control->parent_fd < 0) {
		work->loop.steps = work->set.until != 0 ? 0 : work->set.steps;
		if (work->set.until != 0 && control->stop_at != 0) /* 0: a signal was first */
			control->stop_at = work->set.until;
		if (work->set.seconds > 0.0)
			control->deadline_ns = ol_clock_ns() + (uint64_t)(work->set.seconds * 1e9);
		return;
	}
	ol_control_say(control, "ready", json_object());
	while (!control->go && !control->quit && control->signal == 0) {
		(void)ol_worker_poll(work->worker);
		ol_control_poll(control, OL_LOOP_LOOK_UP_MS);
	}
}

static int evaluate(struct work *work)
{
	const float *weights;
	int rc = ol_loop_pull_newest(&work->loop);

	if (rc != 0)
		return rc;
	weights = ol_weights(work->worker, NULL);
	rc = ol_job_fingerprint(work->job, weights, work->sha256);
	ol_eval_start(&work->eval, weights);
	do {
		ol_control_poll(&work->control, 0);
		if (work->control.quit)
			rc = -ECANCELED;
	} while (rc == 0 && !ol_eval_some(work->job, &work->eval, EVAL_PIECE));
	return rc;
}

static int report(struct work *work, bool evaluated)
{
	const struct ol_loop_stat *stat = &work->loop.stat;
	struct ol_link_stat link = ol_loop_link(&work->loop);
	json_t *json = ol_loop_json(&work->loop, true);
	double wall_s = (double)(stat->end_ns - stat->start_ns) / 1e9;
	int rc = 0;

	if (work->control.parent_fd < 0)
		printf("worker %u: %" PRIu64 " gradients in %.3f s, %.1f a second; %" PRIu64
		       " applied, %" PRIu64 " not finite, %" PRIu64 " late; version %" PRIu64
		       ", last loss %.4f\n",
		       work->set.id, stat->computed, wall_s,
		       wall_s > 0.0 ? (double)stat->computed / wall_s : 0.0, link.applied,
		       link.nonfinite, link.late, stat->version, (double)stat->loss);
	if (work->control.parent_fd < 0 && link.outages > 0)
		printf("its servers were lost, or changed in their chains, %u times: %" PRIu64
		       " gradients queued, %" PRIu64 " dropped by the queue, %" PRIu64
		       " pushed again, %" PRIu64 " lost, %" PRIu64 " unresolved\n",
		       link.outages, link.queued_total, link.queue_dropped, link.resent, link.lost,
		       link.pending);
	if (evaluated) {
		double score = ol_eval_score(work->job, &work->eval);

		printf("test %s %.4f, test loss %.4f, weights sha256 %s\n",
		       work->job->traits->score_name, score, ol_eval_loss(&work->eval),
		       work->sha256);
		json_object_set_new(json,
				    work->job->shape.kind == LEARN_SAMPLES ? "test_accuracy"
									   : "test_score",
				    isfinite(score) ? json_real(score) : json_null());
		json_object_set_new(json, "weights_sha256", json_string(work->sha256));
		json_object_set_new(json, "version", json_integer((json_int_t)stat->version));
	}
	if (work->set.json != NULL &&
	    (json == NULL || json_dump_file(json, work->set.json, JSON_INDENT(2)) != 0))
		rc = ol_cmd_error(OL_EXIT_FAILED, "work", "cannot write", work->set.json,
				  strerror(errno));
	ol_control_say(&work->control, "done", json);
	return rc;
}

/* The server of a shard has a new address. */
static void moved(void *arg, uint32_t shard, const char *addr)
{
	struct work *work = arg;
	int rc = ol_worker_redirect(work->worker, shard, addr);

	if (rc != 0)
		ol_logs_say(OL_LOG_ERROR, "outlast work: cannot go to %s: %s", addr,
			    ol_strerror(rc));
}

/* Check the job's settings for the model, and take this worker's share */
static int share_take(struct work *work)
{
	struct ol_job_info info;
	char err[160] = "";

	ol_worker_info(work->worker, &info);
	if (work->job->traits->additive && info.consistency == OL_CONSISTENCY_SYNC)
		return ol_cmd_error(OL_EXIT_REFUSED, "work",
				    "this model's counts need asynchronous servers",
				    work->set.model.model, "start them with --consistency async");
	if (work->job->traits->additive && work->set.late.on_late != OL_ON_LATE_WAIT)
		return ol_settings_fail(&work->settings, "on_late",
					"throws changes away, which this model cannot: give wait");
	if (ol_job_share(work->job, work->set.id, info.workers_max, err, sizeof(err)) != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "work", err, NULL,
				    "start the servers with a smaller --workers-max");
	return 0;
}

/* A person sees when a server is away for longer than it takes to come back, and when it is there again */
static void outages_say(struct work *work)
{
	const double timeout_s = work->set.outage.outage_timeout;

	for (uint32_t i = 0; work->control.parent_fd < 0 && i < work->loop.shards; i++) {
		struct ol_link_stat link;
		char until[64] = "";

		if (ol_link_get_stat(work->worker, i, &link) != 0)
			continue;
		if (link.down && !work->away[i] &&
		    ol_clock_ns() - link.down_ns > PATIENCE_S * OL_NS_PER_S) {
			work->away[i] = true;
			if (timeout_s > 0.0)
				snprintf(until, sizeof(until),
					 ", for %g s at most (--outage-timeout)", timeout_s);
			ol_logs_say(OL_LOG_WARN, "worker %u: no server of shard %u answers: %s%s",
				    work->set.id, i,
				    work->set.outage.outage == OL_OUTAGE_CONTINUE
					    ? "it goes on with its last weights"
					    : "it waits",
				    until);
		} else if (!link.down && work->away[i]) {
			work->away[i] = false;
			ol_logs_say(OL_LOG_INFO, "worker %u: shard %u is back, after %.1f s",
				    work->set.id, i, (double)(link.up_ns - link.down_ns) / 1e9);
		}
	}
}

static void looked(void *arg)
{
	struct work *work = arg;

	work_metrics_look(&work->metrics);
	outages_say(work);
}

static void loop_init(struct work *work)
{
	struct ol_loop *loop = &work->loop;
	struct ol_job_info info;

	ol_worker_info(work->worker, &info);
	loop->worker = work->worker;
	loop->job = work->job;
	loop->control = &work->control;
	loop->worker_id = work->set.id;
	loop->shards = info.shard_count;
	loop->sync = info.consistency == OL_CONSISTENCY_SYNC;
	loop->by_version = info.consistency != OL_CONSISTENCY_ASYNC && !work->job->traits->additive;
	loop->pace = work->set.pace;
	/* if every gradient is a step, all are overtaken, and none is late */
	loop->on_late = loop->sync ? (enum ol_on_late)work->set.late.on_late : OL_ON_LATE_WAIT;
	loop->delay = &work->delay;
	loop->workers = info.workers_max;
	loop->seed = work->set.model.seed;
	work->metrics = (struct work_metrics){ .path = work->set.metrics,
					       .job = work->set.coord.job,
					       .worker = work->set.id,
					       .shards = info.shard_count,
					       .handle = work->worker };
	loop->looked = looked;
	loop->looked_arg = work;
	work->control.moved = moved;
	work->control.moved_arg = work;
}

static int work_run(struct work *work)
{
	struct ol_control *control = &work->control;
	bool evaluated = false;
	int rc, exit_code;

	loop_init(work);
	start_say(work);
	go_wait(work);
	rc = ol_loop_run(&work->loop);
	if (rc == 0 && work->set.eval && !control->quit) {
		rc = evaluate(work);
		evaluated = rc == 0;
	}
	work_metrics_write(&work->metrics);
	exit_code = report(work, evaluated);
	if (work->set.eval && !evaluated && control->quit && control->signal != 0)
		fprintf(stderr, "outlast work: stopped by a second signal: the weights are not "
				"evaluated (--eval)\n");
	if (rc == -ESTALE)
		return ol_cmd_error(OL_EXIT_DATA, "work",
				    "this worker was here before, and the topics that it gave to "
				    "its tokens are gone with it",
				    where(work), "begin the job anew");
	if (rc != 0 && rc != -ECANCELED)
		return ol_cmd_error(ol_cmd_exit_of(rc), "work", "training ended early", where(work),
				    ol_strerror(rc));
	if (control->signal != 0)
		return OL_EXIT_SIGNAL + control->signal;
	return exit_code;
}

static int work_start(struct work *work)
{
	struct work_set *set = &work->set;
	struct ol_job_opts opts = {
		.model = set->model.model,
		.dataset = set->model.dataset,
		.final_relu = set->model.final_relu,
		.batch = set->batch,
		.seed = set->model.seed,
	};
	char err[512] = "";
	int rc, exit_code;

	if (getenv("OUTLAST_WORKER") != NULL && !ol_conf_is_set(work->settings.conf, "id") &&
	    ol_conf_set(work->settings.conf, "id", getenv("OUTLAST_WORKER")) != 0) {
		fprintf(stderr, "%s\n", ol_conf_error(work->settings.conf));
		return OL_EXIT_USAGE;
	}
	if (set->until != 0 && ol_conf_is_set(work->settings.conf, "steps"))
		return ol_settings_fail(&work->settings, "steps",
					"is one of two: give --steps or --until");
	if (set->coord.coordinator != NULL && ol_conf_is_set(work->settings.conf, "connect"))
		return ol_settings_fail(&work->settings, "connect",
					"is one of two: give --connect or --coordinator");
	if (ol_delay_parse(set->late.delay, &work->delay, err, sizeof(err)) != 0)
		return ol_settings_fail(&work->settings, "delay", err);
	ol_log_level_set((enum ol_log_level)set->link.log);
	ol_logs_set((enum ol_log_format)set->link.log_format);
	rc = ol_job_key_read("work", &set->key, work->key);
	if (rc != 0)
		return rc;
	rc = ol_control_init(&work->control, set->report_fd != 0 ? (int)set->report_fd : -1);
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "work", "cannot use --report-fd", NULL,
				    ol_strerror(rc));
	rc = ol_job_open(&opts, &work->job, &exit_code, err, sizeof(err));
	if (rc != 0)
		return ol_cmd_error(exit_code, "work", err, NULL, NULL);
	rc = worker_open(work);
	if (rc == 0)
		rc = share_take(work);
	return rc != 0 ? rc : work_run(work);
}

int cmd_work(int argc, char **argv)
{
	struct work work = {
		.settings = { .cmd = "work",
			      .addresses = "connect",
			      .spec = { .program = "outlast work",
					.purpose =
						"Computes gradients at the servers' weights and "
						"pushes them, until --steps, --seconds, SIGTERM, "
						"SIGINT or SIGHUP. Model, data set and seed are to be "
						"those of the servers.",
					.examples = examples } },
		.control = { .signal_fd = -1, .parent_fd = -1 },
	};
	struct ol_settings *settings = &work.settings;
	int rc;

	ol_settings_add(settings, work_rows, 0);
	ol_settings_add(settings, ol_rows_model, offsetof(struct work_set, model));
	ol_settings_add(settings, ol_rows_late, offsetof(struct work_set, late));
	ol_settings_add(settings, ol_rows_outage, offsetof(struct work_set, outage));
	ol_settings_add(settings, ol_rows_lease, offsetof(struct work_set, lease));
	ol_settings_add(settings, ol_rows_coord, offsetof(struct work_set, coord));
	ol_settings_add(settings, ol_rows_format, offsetof(struct work_set, format));
	ol_settings_add(settings, ol_rows_link, offsetof(struct work_set, link));
	ol_settings_add(settings, ol_rows_wire, offsetof(struct work_set, wire));
	ol_settings_add(settings, ol_rows_transport, offsetof(struct work_set, transport));
	ol_settings_add(settings, ol_rows_key, offsetof(struct work_set, key));
	if (ol_settings_load(settings, &work.set, argc, argv, &rc))
		rc = work_start(&work);
	ol_worker_close(work.worker);
	ol_job_close(work.job);
	ol_delay_fini(&work.delay);
	ol_control_fini(&work.control);
	ol_settings_fini(settings);
	explicit_bzero(work.key, sizeof(work.key));
	return rc;
}
