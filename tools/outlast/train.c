/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train.c -- `outlast train`: a whole job on this machine
 */
#include "outlast/train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "outlast/cmd.h"

enum {
	TICK_MS = 100,
	END_MAX_MS = 5000 /* for processes to end after they were told to */
};

static const struct ol_conf_choice transports[] = {
	{ "shm", OL_TRANSPORT_SHM },
	{ "verbs", OL_TRANSPORT_VERBS },
	{ NULL, 0 },
};

static const struct ol_conf_field train_fields[] = {
	{ .type = OL_CONF_GROUP, .help = "the job" },
	{ .name = "workers",
	  .dflt = "1",
	  .help = "processes that compute gradients",
	  .offset = offsetof(struct train_set, workers),
	  .type = OL_CONF_U32,
	  .min = 1,
	  .max = TRAIN_WORKERS_MAX },
	{ .name = "servers",
	  .dflt = "1",
	  .help = "processes that hold the weights, a shard each",
	  .offset = offsetof(struct train_set, servers),
	  .type = OL_CONF_U32,
	  .min = 1,
	  .max = TRAIN_SERVERS_MAX },
	{ .name = "steps",
	  .dflt = "1000",
	  .help = "updates, hence the last version",
	  .offset = offsetof(struct train_set, steps),
	  .type = OL_CONF_U64,
	  .min = 1,
	  .max = UINT64_C(1) << 40 },
	{ .name = "seconds",
	  .dflt = "0",
	  .help = "train for so long instead; 0: --steps",
	  .offset = offsetof(struct train_set, seconds),
	  .type = OL_CONF_F64,
	  .f64_min = 0.0,
	  .f64_max = 1e7 },
	{ .name = "epochs",
	  .dflt = "0",
	  .help = "train on so many times the number of training samples instead; 0: --steps",
	  .offset = offsetof(struct train_set, epochs),
	  .type = OL_CONF_F64,
	  .f64_min = 0.0,
	  .f64_max = 1e6 },
	{ .name = "batch",
	  .dflt = "32",
	  .help = "samples a gradient",
	  .offset = offsetof(struct train_set, batch),
	  .type = OL_CONF_U32,
	  .min = 1,
	  .max = LEARN_BATCH_MAX },
	{ .name = "eval_every",
	  .dflt = "250",
	  .help = "steps between evaluations on the test set; 0: only at the end",
	  .offset = offsetof(struct train_set, eval_every),
	  .type = OL_CONF_U64 },
	{ .name = "json",
	  .dflt = NULL,
	  .help = "file for the report",
	  .offset = offsetof(struct train_set, json),
	  .type = OL_CONF_STR },
	{ .name = "transport",
	  .dflt = "shm",
	  .help = "shared memory, or an RDMA device",
	  .offset = offsetof(struct train_set, transport),
	  .type = OL_CONF_CHOICE,
	  .choices = transports },
	{ .name = "address",
	  .dflt = NULL,
	  .help = "verbs: address of this machine that servers listen at; without it the first of "
		  "--device or of the first device",
	  .offset = offsetof(struct train_set, address),
	  .type = OL_CONF_STR },
};

static const struct ol_rows train_rows = { train_fields,
					   sizeof(train_fields) / sizeof(train_fields[0]) };

static const char examples[] =
	"  outlast train --workers 2 --epochs 1\n"
	"  outlast train --model mlp:64 --dataset synthetic --consistency sync --workers 4 "
	"--servers 2\n"
	"  outlast train --transport verbs --optimizer adam --lr 0.001 --seconds 60 --json "
	"report.json\n";

static int sizes_decide(struct train *train)
{
	const struct train_set *set = &train->set;
	double a_step = (double)set->batch * (train_is_sync(train) ? set->workers : 1.0);
	bool timed = set->seconds > 0.0, counted = set->epochs > 0.0;
	uint64_t first, count;

	if ((timed && counted) ||
	    ((timed || counted) && ol_conf_is_set(train->settings.conf, "steps")))
		return ol_settings_fail(&train->settings, timed ? "seconds" : "epochs",
					"is one of three: give --steps, --seconds or --epochs");
	if (ol_shard_span(train->job->param_count, set->servers, set->servers - 1, &first,
			  &count) != 0)
		return ol_settings_fail(&train->settings, "servers",
					"is too many: a server holds at least 1024 parameters");
	train->steps = timed ? 0 : set->steps;
	if (counted)
		train->steps = (uint64_t)ceil(set->epochs * (double)train->job->data->train.count /
					      a_step);
	return 0;
}

/* A report that cannot be written should fail before the training, not after it. */
static int json_check(struct train *train)
{
	char dir[OL_VALUE_MAX];
	char *slash;

	if (train->set.json == NULL || access(train->set.json, W_OK) == 0)
		return 0;
	snprintf(dir, sizeof(dir), "%s", train->set.json);
	slash = strrchr(dir, '/');
	if (slash != NULL)
		slash[slash == dir ? 1 : 0] = '\0';
	if (access(train->set.json, F_OK) != 0 && access(slash != NULL ? dir : ".", W_OK) == 0)
		return 0;
	return ol_cmd_error(OL_EXIT_USAGE, "train", "cannot write --json", train->set.json,
			    strerror(errno));
}

static int key_make(struct train *train)
{
	uint8_t bytes[16];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return ol_cmd_error(OL_EXIT_RESOURCES, "train", "no random bytes for the job key",
				    NULL, strerror(errno));
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(train->key + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static int signals_take(struct train *train)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
		train->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (train->signal_fd >= 0)
		return 0;
	return ol_cmd_error(OL_EXIT_RESOURCES, "train", "cannot watch for signals", NULL,
			    strerror(errno));
}

static int job_open(struct train *train)
{
	struct ol_job_opts opts = {
		.model = train->set.model.model,
		.dataset = train->set.model.dataset,
		.final_relu = train->set.model.final_relu,
		.seed = train->set.model.seed,
	};
	char err[512] = "";
	int exit_code;

	if (ol_job_open(&opts, &train->job, &exit_code, err, sizeof(err)) != 0)
		return ol_cmd_error(exit_code, "train", err, NULL, NULL);
	return 0;
}

static int job_start(struct train *train)
{
	int rc = json_check(train);

	if (rc == 0)
		rc = job_open(train);
	if (rc == 0)
		rc = sizes_decide(train);
	if (rc == 0)
		rc = key_make(train);
	if (rc == 0)
		rc = signals_take(train);
	if (rc == 0)
		rc = train_servers_start(train);
	if (rc == 0)
		rc = train_workers_start(train);
	if (rc == 0)
		rc = train_observer_open(train);
	return rc;
}

static void workers_run(struct train *train)
{
	uint64_t end_ns = (uint64_t)(train->set.seconds * 1e9);

	train_go(train);
	while (!train_workers_gone(train)) {
		uint64_t now_ns;

		train_turn(train, train->evaluating ? 0 : TICK_MS);
		now_ns = ol_clock_ns();
		if (end_ns != 0 && now_ns - train->go_ns >= end_ns)
			train_stop(train);
		if (train->killed && now_ns - train->quit_ns > END_MAX_MS * OL_NS_PER_MS) {
			for (uint32_t i = 0; i < train->set.workers; i++)
				ol_proc_kill(&train->workers[i].proc, SIGKILL);
		}
		train_tick(train);
	}
	train->end_ns = ol_clock_ns();
}

/* The last weights, while the servers are still there */
static void weights_look(struct train *train)
{
	const float *weights;
	int rc;

	if (train->observer == NULL)
		return;
	train_stat_read(train);
	train->evaluating = false;
	rc = train_evaluate(train);
	weights = rc == 0 ? ol_weights(train->observer, &train->final_version) : NULL;
	if (rc == 0)
		rc = ol_job_fingerprint(train->job, weights, train->sha256);
	train->final = rc == 0;
	if (rc != 0 && train->exit_code == 0)
		train_fail(train,
			   ol_cmd_error(ol_cmd_exit_of(rc), "train",
					"cannot pull the final weights", NULL, ol_strerror(rc)));
}

static void servers_end(struct train *train)
{
	uint64_t bound_ns = ol_clock_ns() + END_MAX_MS * OL_NS_PER_MS;
	bool left = true;

	ol_worker_close(train->observer);
	train->observer = NULL;
	for (uint32_t i = 0; i < train->set.servers; i++)
		ol_proc_kill(&train->servers[i].proc, SIGTERM);
	while (left && ol_clock_ns() < bound_ns) {
		left = false;
		for (uint32_t i = 0; i < train->set.servers; i++)
			left = left ||
			       (train->servers[i].proc.pid != 0 && !train->servers[i].proc.ended);
		if (left)
			train_turn(train, TICK_MS);
	}
}

static int train_run(struct train *train)
{
	int rc;

	ol_log_level_set((enum ol_log_level)train->set.link.log_level);
	train->begin_ns = ol_clock_ns();
	rc = job_start(train);
	if (rc != 0)
		return rc;
	train_show_start(train);
	train->phase = TRAIN_RUNNING;
	workers_run(train);
	train->phase = TRAIN_ENDING;
	weights_look(train);
	servers_end(train);
	rc = train_report(train);
	if (train->exit_code != 0)
		return train->exit_code;
	if (train->signal != 0)
		return OL_EXIT_SIGNAL + train->signal;
	return train->died > 0 ? OL_EXIT_CHILD : rc;
}

static void train_fini(struct train *train)
{
	ol_worker_close(train->observer);
	for (uint32_t i = 0; i < TRAIN_WORKERS_MAX; i++) {
		ol_proc_fini(&train->workers[i].proc);
		json_decref(train->workers[i].done);
	}
	for (uint32_t i = 0; i < TRAIN_SERVERS_MAX; i++)
		ol_proc_fini(&train->servers[i].proc);
	json_decref(train->evals);
	ol_job_close(train->job);
	if (train->signal_fd >= 0)
		close(train->signal_fd);
	ol_settings_fini(&train->settings);
	free(train);
}

int cmd_train(int argc, char **argv)
{
	struct train *train = calloc(1, sizeof(*train));
	struct ol_settings *settings;
	int rc;

	if (train == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "train", "no memory", NULL, NULL);
	train->signal_fd = -1;
	train->accuracy = -1.0;
	train->tty = isatty(STDERR_FILENO) == 1;
	train->evals = json_array();
	settings = &train->settings;
	settings->cmd = "train";
	settings->spec = (struct ol_conf_spec){
		.program = "outlast train",
		.purpose = "Trains a model on this machine: starts servers and workers as "
			   "processes, shows how they fare, evaluates, and reports. A run with "
			   "--consistency sync is a function of its seed, bit for bit.",
		.examples = examples,
	};
	ol_settings_add(settings, train_rows, 0);
	ol_settings_add(settings, ol_rows_model, offsetof(struct train_set, model));
	ol_settings_add(settings, ol_rows_rule, offsetof(struct train_set, rule));
	ol_settings_add(settings, ol_rows_link, offsetof(struct train_set, link));
	if (ol_settings_load(settings, &train->set, argc, argv, &rc))
		rc = train_run(train);
	train_fini(train);
	return rc;
}
