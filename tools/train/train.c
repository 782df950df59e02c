/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train.c -- `outlast train`: a whole job on this machine
 */
#include "train/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/logs.h"

enum {
	TICK_MS = 100,
	END_MAX_MS = 5000 /* timeout of processes that were told to end */
};

static const struct ol_conf_choice recoveries[] = {
	{ "partial", TRAIN_RECOVERY_PARTIAL },
	{ "full", TRAIN_RECOVERY_FULL },
	{ NULL, 0 },
};

static const struct ol_conf_field train_fields[] = {
	OL_ROW_GROUP("the job"),
	OL_ROW_U32(train_set, workers, "1", 1, TRAIN_WORKERS_MAX,
		   "processes that compute gradients"),
	OL_ROW_U32(train_set, servers, "1", 1, TRAIN_SERVERS_MAX,
		   "processes that hold the weights, a shard each; with --durability chain shards, "
		   "of --replicas processes each"),
	OL_ROW_U64(train_set, steps, "1000", 1, UINT64_C(1) << 40,
		   "updates, hence the last version"),
	OL_ROW_F64(train_set, seconds, "0", 0.0, 1e7, "train for so long instead; 0: --steps"),
	OL_ROW_F64(train_set, epochs, "0", 0.0, 1e6,
		   "train on so many times the number of training samples instead; 0: --steps"),
	OL_ROW_U32(train_set, batch, "32", 1, LEARN_BATCH_MAX, "samples a gradient"),
	OL_ROW_F64(train_set, pace, "0", 0.0, 1e6,
		   "at most so many gradients a second a worker; 0: as many as it can"),
	OL_ROW_U64(train_set, eval_every, "250", 0, 0,
		   "steps between evaluations on the test set; 0: only at the end"),
	OL_ROW_F64(train_set, eval_seconds, "0", 0.0, 1e6,
		   "seconds between evaluations instead; 0: --eval-every"),
	OL_ROW_STR(train_set, json, NULL, "file for the report"),
	OL_ROW_STR(train_set, save, NULL,
		   "file for the final weights, .npy or .safetensors; there it is whole or not at "
		   "all"),
	OL_ROW_BOOL(train_set, force, "false", "replace the file of --save if it is there"),
	OL_ROW_STR(train_set, timeline, NULL,
		   "file for the course of the training: CSV, a row every --timeline-ms"),
	OL_ROW_U32(train_set, timeline_ms, "250", 10, 3600000,
		   "milliseconds between two rows of the time line"),
	OL_ROW_STR(
		train_set, kill, NULL,
		"processes to lose: TARGET@WHEN[:down=DURATION][:signal=KILL|STOP], with commas "
		"between; TARGET serverN or workerN, of a chain head, middle or tail (head1: of "
		"shard 1); WHEN 30s, 200steps or loss<0.8; down: until it is started again (STOP: "
		"woken up), at once without it"),
	OL_ROW_STR(train_set, coordinator, NULL,
		   "chain: where views are, dir:PATH or zk:HOST:PORT,... (ZooKeeper), instead of a "
		   "folder of this job's own"),
	OL_ROW_U32(train_set, restarts, "3", 0, TRAIN_RESTARTS_MAX,
		   "how many processes that die unasked are started again; 0: the job ends"),
	OL_ROW_BOOL(train_set, resume, "false",
		    "go on with the job whose checkpoints are in the folder of --checkpoint"),
	OL_ROW_BOOL(train_set, check, "false",
		    "check settings, data set and files, and end: status 0 and no word, or what is "
		    "wrong; nothing is started"),
	OL_ROW_CHOICE(
		train_set, recovery, "partial", recoveries,
		"of several servers one is lost: partial: it alone goes back to what --restore "
		"says; full: all go back to the newest checkpoint that all have"),
	OL_ROW_CHOICE(train_set, transport, "shm", ol_transports + 1,
		      "shared memory, or an RDMA device"),
	OL_ROW_STR(
		train_set, address, NULL,
		"verbs: address of this machine that servers listen at, HOST or oob:HOST; without "
		"it the first of --device or of the first device"),
};

static const struct ol_rows train_rows = OL_ROWS(train_fields);

static const char examples[] =
	"  outlast train --workers 2 --epochs 1\n"
	"  outlast train --model mlp:64 --dataset synthetic --consistency sync --workers 4 "
	"--servers 2\n"
	"  outlast train --transport verbs --optimizer adam --lr 0.001 --seconds 60 --json "
	"report.json\n"
	"  outlast train --seconds 120 --outage continue --kill server0@30s:down=20s,"
	"server0@80s:down=20s --timeline run.csv\n"
	"  outlast train --durability checkpoint --checkpoint every=100steps,dir=ckpt --steps "
	"20000 --resume\n"
	"  outlast train --durability chain --replicas 3 --seconds 60 --kill head@20s,tail@40s:down=5s\n";

static int key_make(struct train *train)
{
	uint8_t bytes[20];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return ol_cmd_error(OL_EXIT_RESOURCES, "train", "no random bytes for the job key",
				    NULL, strerror(errno));
	for (size_t i = 0; i < 4; i++)
		snprintf(train->tag + 2 * i, 3, "%02x", bytes[i]);
	for (size_t i = 0; i + 4 < sizeof(bytes); i++)
		snprintf(train->key + 2 * i, 3, "%02x", bytes[i + 4]);
	return 0;
}

static int signals_open(struct train *train)
{
	return ol_cmd_signals("train", &train->signal_fd);
}

static int job_start(struct train *train)
{
	static int (*const steps[])(struct train *) = {
		train_check,         train_timeline_open, key_make,           signals_open,
		train_servers_start, train_workers_start, train_observer_open
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(steps) / sizeof(steps[0]); i++)
		rc = steps[i](train);
	return rc;
}

static void workers_run(struct train *train)
{
	uint64_t end_ns = (uint64_t)(train->set.seconds * 1e9);

	train_go(train);
	while (!train_workers_gone(train)) {
		int wait_ms = train_outages_wait_ms(train, train_timeline_wait_ms(train, TICK_MS));
		uint64_t now_ns;

		train_turn(train, train_evaluating(train) ? 0 : wait_ms);
		now_ns = ol_clock_ns();
		if (end_ns != 0 && now_ns - train->go_ns >= end_ns)
			train_stop(train);
		if (train->quit_ns != 0 && now_ns - train->quit_ns > END_MAX_MS * OL_NS_PER_MS) {
			for (uint32_t i = 0; i < train->set.workers; i++)
				ol_proc_kill(&train->workers[i].proc, SIGKILL);
		}
		train_tick(train);
		train_stall_look(train);
		train_silence_look(train);
		train_stuck_look(train);
		train_end_check(train);
	}
	train->end_ns = ol_clock_ns();
	train_timeline_tick(train, true);
}

/* Pull the newest weights and evaluate them whole; 0 or a code */
static int evaluate(struct train *train)
{
	int rc;

	while (train_evaluating(train) && train->signal == 0) { /* evaluations of an outage */
		train_turn(train, 0);
		train_eval_piece(train);
	}
	rc = train_eval_fresh(train);
	while (rc == 0 && train_evaluating(train)) {
		train_turn(train, 0);
		if (train->signal != 0 && train->exit_code != 0)
			return -ECANCELED;
		train_eval_piece(train);
	}
	return rc;
}

/* Wait for all servers: workers may have found a server that is back before this process has. */
static int weights_wait(struct train *train)
{
	uint64_t bound_ns = ol_clock_ns() + END_MAX_MS * OL_NS_PER_MS;
	int rc = evaluate(train);

	while (rc == OL_E_NO_SERVER && train->exit_code == 0 && ol_clock_ns() < bound_ns) {
		train_turn(train, 1);
		(void)ol_worker_poll(train->observer);
		rc = evaluate(train);
	}
	return rc;
}

/* Evaluate the last weights, while the servers still run */
static void weights_look(struct train *train)
{
	const float *weights;
	int rc;

	if (train->observer == NULL)
		return;
	train_stat_read(train);
	rc = weights_wait(train);
	weights = rc == 0 ? ol_weights(train->observer, &train->last.version) : NULL;
	if (rc == 0)
		rc = ol_job_fingerprint(train->job, weights, train->last.sha256);
	if (rc == 0)
		train_model_look(train, weights);
	train->last.known = rc == 0;
	if (rc == 0) {
		train_contained_take(train);
		train_save(train, weights);
	}
	if (rc == 0 && train->set.resume && train->steps != 0 && train_counts(train).computed == 0)
		train_say(&train->screen,
			  "nothing is left to do: the checkpoint is of step %" PRIu64
			  ", and --steps asks for %" PRIu64,
			  train->last.version, train->steps);
	if (rc == 0 && train->exit_code == 0 && train->signal == 0 &&
	    train->last.version < train_version_wanted(train)) {
		train_say(&train->screen,
			  "outlast train: a server was lost when all workers had left, and the "
			  "weights are thrown back to version %" PRIu64 " of %" PRIu64,
			  train->last.version, train_version_wanted(train));
		train_fail(train, OL_EXIT_CHILD);
	}
	if (rc != 0 && train->exit_code == 0)
		train_fail(train,
			   ol_cmd_error(ol_cmd_exit_of(rc), "train",
					"cannot pull the final weights", NULL, ol_strerror(rc)));
}

static void servers_end(struct train *train)
{
	uint64_t bound_ns = ol_clock_ns() + END_MAX_MS * OL_NS_PER_MS;
	bool left = true;

	train_chain_keep(train);
	ol_worker_close(train->observer);
	train->observer = NULL;
	for (uint32_t i = 0; i < train_holders(train); i++) {
		ol_proc_kill(&train->servers[i].proc, SIGTERM);
		/* a stopped process cannot end; a replaced one ends by itself once it runs */
		ol_proc_kill(&train->servers[i].proc, SIGCONT);
		ol_proc_kill(&train->servers[i].old, SIGCONT);
	}
	while (left && ol_clock_ns() < bound_ns) {
		left = false;
		for (uint32_t i = 0; i < train_holders(train); i++)
			left = left || ol_proc_lives(&train->servers[i].proc) ||
			       ol_proc_lives(&train->servers[i].old);
		if (left)
			train_turn(train, TICK_MS);
	}
}

static int train_run(struct train *train)
{
	int rc;

	ol_log_level_set((enum ol_log_level)train->set.link.log);
	ol_logs_set((enum ol_log_format)train->set.link.log_format);
	train->begin_ns = ol_clock_ns();
	rc = train->set.check ? train_check(train) : job_start(train);
	if (rc != 0 || train->set.check)
		return rc;
	train_show_start(train);
	train->phase = TRAIN_RUNNING;
	workers_run(train);
	train->phase = TRAIN_ENDING;
	weights_look(train);
	servers_end(train);
	train_outages_close(train);
	train->last.accounted = train_accounts_check(train);
	if (!train->last.accounted && train->exit_code == 0)
		train->exit_code = OL_EXIT_FAILED;
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
	for (uint32_t i = 0; i < TRAIN_HOLDERS_MAX; i++) {
		ol_proc_fini(&train->servers[i].proc);
		ol_proc_fini(&train->servers[i].old);
	}
	train_chain_close(train);
	train_timeline_close(train);
	train_check_fini(train);
	json_decref(train->evals.list);
	ol_job_close(train->job);
	if (train->signal_fd >= 0)
		close(train->signal_fd);
	ol_settings_fini(&train->settings);
	explicit_bzero(train->key, sizeof(train->key));
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
	train->folder_fd = -1;
	train->evals.accuracy = -1.0;
	train->evals.loss = (double)NAN;
	for (uint32_t i = 0; i < TRAIN_HOLDERS_MAX; i++)
		train->servers[i].first_epoch = 1;
	train->screen.tty = isatty(STDERR_FILENO) == 1;
	train->evals.list = json_array();
	settings = &train->settings;
	settings->cmd = "train";
	settings->spec = (struct ol_conf_spec){
		.program = "outlast train",
		.purpose = "Trains a model on this machine: starts servers and workers as "
			   "processes, shows how they fare, evaluates, and reports; starts those "
			   "again that die, or that --kill has it kill. A run with --consistency "
			   "sync is a function of its seed, bit for bit.",
		.examples = examples,
	};
	ol_settings_add(settings, train_rows, 0);
	ol_settings_add(settings, ol_rows_model, offsetof(struct train_set, model));
	ol_settings_add(settings, ol_rows_rule, offsetof(struct train_set, rule));
	ol_settings_add(settings, ol_rows_durable, offsetof(struct train_set, durable));
	ol_settings_add(settings, ol_rows_restore_again, offsetof(struct train_set, durable));
	ol_settings_add(settings, ol_rows_chain, offsetof(struct train_set, chain));
	ol_settings_add(settings, ol_rows_late, offsetof(struct train_set, late));
	ol_settings_add(settings, ol_rows_outage, offsetof(struct train_set, outage));
	ol_settings_add(settings, ol_rows_lease, offsetof(struct train_set, lease));
	ol_settings_add(settings, ol_rows_format, offsetof(struct train_set, format));
	ol_settings_add(settings, ol_rows_link, offsetof(struct train_set, link));
	ol_settings_add(settings, ol_rows_wire, offsetof(struct train_set, wire));
	if (ol_settings_load(settings, &train->set, argc, argv, &rc))
		rc = train_run(train);
	train_fini(train);
	return rc;
}
