/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * settings.c -- tables of the common settings; loading them, handing them on
 */
#include "outlast/settings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "outlast/cmd.h"
#include "outlast/durable.h"
#include "outlast/loop.h"

#define ROWS(array) \
	{ \
		.fields = (array), .count = sizeof(array) / sizeof((array)[0]) \
	}

static const struct ol_conf_field model_fields[] = {
	{ .type = OL_CONF_GROUP, .help = "what is trained" },
	{ .name = "model",
	  .dflt = "cnn",
	  .help = "softmax, mlp, mlp:A,B,... (widths of the hidden layers), cnn (28x28 images), "
		  "mf[:rank=16,reg=0.02] (ratings) or lda[:topics=10,alpha=0.1,beta=0.2] "
		  "(documents)",
	  .offset = offsetof(struct ol_set_model, model),
	  .type = OL_CONF_STR },
	{ .name = "final_relu",
	  .dflt = "false",
	  .help = "a ReLU after the last layer too",
	  .offset = offsetof(struct ol_set_model, final_relu),
	  .type = OL_CONF_BOOL },
	{ .name = "dataset",
	  .dflt = "fashion-mnist",
	  .help = "fashion-mnist, idx:DIR[,classes=N], libsvm:TRAIN[,TEST], "
		  "synthetic[:key=value,...] (classes, features or shape=RxC, train, test, seed, "
		  "noise); movielens:FILE, ratings[:key=value,...] (users, items, rank, density, "
		  "noise, seed); bow:DOCWORD[,VOCAB], topics[:key=value,...] (topics, words, docs, "
		  "length, seed)",
	  .offset = offsetof(struct ol_set_model, dataset),
	  .type = OL_CONF_STR },
	{ .name = "seed",
	  .dflt = "1",
	  .help = "of initial weights, batches and dropout",
	  .offset = offsetof(struct ol_set_model, seed),
	  .type = OL_CONF_U64 },
};

const struct ol_rows ol_rows_model = ROWS(model_fields);

static const struct ol_conf_choice optimizers[] = {
	{ "sgd", OL_OPTIMIZER_SGD },           { "momentum", OL_OPTIMIZER_MOMENTUM },
	{ "nesterov", OL_OPTIMIZER_NESTEROV }, { "adam", OL_OPTIMIZER_ADAM },
	{ "adamw", OL_OPTIMIZER_ADAMW },       { NULL, 0 },
};

static const struct ol_conf_choice reductions[] = { { "mean", 0 }, { "sum", 1 }, { NULL, 0 } };
static const struct ol_conf_choice nonfinites[] = { { "reject", 0 }, { "apply", 1 }, { NULL, 0 } };
static const struct ol_conf_choice isolations[] = { { "worker", 0 }, { "job", 1 }, { NULL, 0 } };

static const struct ol_conf_field rule_fields[] = {
	{ .type = OL_CONF_GROUP, .help = "how gradients become steps" },
	{ .name = "consistency",
	  .dflt = "async",
	  .help = "async: every gradient is a step; sync: a step takes one of every worker; "
		  "sync:k=N: the first N, what comes later is dropped; sync:dbw: N chosen for each "
		  "step, for the fastest fall of the loss, sync:dbw-blind: for the most gradients "
		  "a second; sync:adasync[,k=N]: N and more as the loss falls; ssp:N: as async, but "
		  "who is N gradients ahead of the slowest waits",
	  .offset = offsetof(struct ol_set_rule, consistency),
	  .type = OL_CONF_STR },
	{ .name = "reduce",
	  .dflt = "mean",
	  .help = "sync: what of the workers' gradients is applied",
	  .offset = offsetof(struct ol_set_rule, sum),
	  .type = OL_CONF_CHOICE,
	  .choices = reductions },
	{ .name = "optimizer",
	  .dflt = "sgd",
	  .help = "update rule",
	  .offset = offsetof(struct ol_set_rule, optimizer),
	  .type = OL_CONF_CHOICE,
	  .choices = optimizers },
	{ .name = "lr",
	  .dflt = "0.01",
	  .help = "learning rate",
	  .offset = offsetof(struct ol_set_rule, lr),
	  .type = OL_CONF_F64,
	  .f64_min = 0.0,
	  .f64_max = 1e6 },
	{ .name = "momentum",
	  .dflt = "0.9",
	  .help = "of momentum and nesterov",
	  .offset = offsetof(struct ol_set_rule, momentum),
	  .type = OL_CONF_F64,
	  .f64_min = 0.0,
	  .f64_max = 0.9999 },
	{ .name = "beta1",
	  .dflt = "0.9",
	  .help = "of adam and adamw",
	  .offset = offsetof(struct ol_set_rule, beta1),
	  .type = OL_CONF_F64,
	  .f64_min = 0.0,
	  .f64_max = 0.99999 },
	{ .name = "beta2",
	  .dflt = "0.999",
	  .help = "of adam and adamw",
	  .offset = offsetof(struct ol_set_rule, beta2),
	  .type = OL_CONF_F64,
	  .f64_min = 0.0,
	  .f64_max = 0.99999 },
	{ .name = "epsilon",
	  .dflt = "1e-8",
	  .help = "of adam and adamw",
	  .offset = offsetof(struct ol_set_rule, epsilon),
	  .type = OL_CONF_F64,
	  .f64_min = 1e-30,
	  .f64_max = 1.0 },
	{ .name = "weight_decay",
	  .dflt = "0",
	  .help = "added to the gradient; by adamw decoupled from it",
	  .offset = offsetof(struct ol_set_rule, weight_decay),
	  .type = OL_CONF_F64,
	  .f64_min = 0.0,
	  .f64_max = 1e3 },
	{ .name = "nonfinite",
	  .dflt = "reject",
	  .help = "a gradient with a NaN or an infinity is dropped and counted, or applied",
	  .offset = offsetof(struct ol_set_rule, allow_nonfinite),
	  .type = OL_CONF_CHOICE,
	  .choices = nonfinites },
	{ .name = "isolation",
	  .dflt = "worker",
	  .help = "one protection domain each, or one of the whole job, which pins less memory",
	  .offset = offsetof(struct ol_set_rule, shared_domain),
	  .type = OL_CONF_CHOICE,
	  .choices = isolations },
};

const struct ol_rows ol_rows_rule = ROWS(rule_fields);

static const struct ol_conf_choice log_levels[] = {
	{ "error", OL_LOG_ERROR },
	{ "warn", OL_LOG_WARN },
	{ "info", OL_LOG_INFO },
	{ "debug", OL_LOG_DEBUG },
	{ NULL, 0 },
};

static const struct ol_conf_field link_fields[] = {
	{ .type = OL_CONF_GROUP, .help = "transport" },
	{ .name = "device",
	  .dflt = NULL,
	  .help = "RDMA device; without it the one that has the address or the route",
	  .offset = offsetof(struct ol_set_link, device),
	  .type = OL_CONF_STR },
	{ .name = "window",
	  .dflt = "2",
	  .help = "gradient buffers a worker, and landing slots for each at a server",
	  .offset = offsetof(struct ol_set_link, window),
	  .type = OL_CONF_U32,
	  .min = 1,
	  .max = 64 },
	{ .name = "spin_us",
	  .dflt = "50",
	  .help = "microseconds that a wait spins before it sleeps",
	  .offset = offsetof(struct ol_set_link, spin_us),
	  .type = OL_CONF_U32,
	  .max = 10000000 },
	{ .name = "log",
	  .dflt = "warn",
	  .help = "least important messages that are shown",
	  .offset = offsetof(struct ol_set_link, log_level),
	  .type = OL_CONF_CHOICE,
	  .choices = log_levels },
};

const struct ol_rows ol_rows_link = ROWS(link_fields);

static const struct ol_conf_choice transports[] = {
	{ "auto", OL_TRANSPORT_AUTO },
	{ "shm", OL_TRANSPORT_SHM },
	{ "verbs", OL_TRANSPORT_VERBS },
	{ NULL, 0 },
};

static const struct ol_conf_field transport_fields[] = {
	{ .name = "transport",
	  .dflt = "auto",
	  .help = "auto: shm for an address that starts with / or @, else verbs",
	  .offset = offsetof(struct ol_set_transport, transport),
	  .type = OL_CONF_CHOICE,
	  .choices = transports },
};

const struct ol_rows ol_rows_transport = ROWS(transport_fields);

static const struct ol_conf_field coord_fields[] = {
	{ .type = OL_CONF_GROUP, .help = "chains" },
	{ .name = "coordinator",
	  .dflt = NULL,
	  .help = "where the views of chains are: dir:PATH (a folder of this machine), or "
		  "zk:HOST:PORT,... (ZooKeeper); without it there are no chains",
	  .offset = offsetof(struct ol_set_coord, coordinator),
	  .type = OL_CONF_STR },
	{ .name = "job",
	  .dflt = "outlast",
	  .help = "name of the job there: letters, digits, '-', '_', '.'",
	  .offset = offsetof(struct ol_set_coord, job),
	  .type = OL_CONF_STR },
};

const struct ol_rows ol_rows_coord = ROWS(coord_fields);

static const struct ol_conf_field chain_fields[] = {
	{ .name = "replicas",
	  .dflt = "3",
	  .help = "chain: servers that hold each shard; all but one may be lost",
	  .offset = offsetof(struct ol_set_chain, replicas),
	  .type = OL_CONF_U32,
	  .min = 1,
	  .max = OL_CHAIN_MAX },
	{ .name = "replicate_every",
	  .dflt = "0",
	  .help = "chain: 0: every step, and committed is what all replicas have; N: as published, "
		  "the weights every N steps, without waiting: a head that dies takes up to N along",
	  .offset = offsetof(struct ol_set_chain, replicate_every),
	  .type = OL_CONF_U32,
	  .max = 1000000 },
};

const struct ol_rows ol_rows_chain = ROWS(chain_fields);

static const struct ol_conf_field key_fields[] = {
	{ .name = "job_key_file",
	  .dflt = NULL,
	  .help = "file with the secret that all processes of a job share; without it the "
		  "variable OUTLAST_JOB_KEY, without that no secret",
	  .offset = offsetof(struct ol_set_key, job_key_file),
	  .type = OL_CONF_STR },
};

const struct ol_rows ol_rows_key = ROWS(key_fields);

const char *ol_transport_name(int choice)
{
	switch ((enum ol_transport_choice)choice) {
	case OL_TRANSPORT_AUTO:
		break;
	case OL_TRANSPORT_SHM:
		return "shm";
	case OL_TRANSPORT_VERBS:
		return "verbs";
	}
	return NULL;
}

static const struct ol_conf_choice durabilities[] = {
	{ "none", OL_DURABILITY_NONE },
	{ "checkpoint", OL_DURABILITY_CHECKPOINT },
	{ "chain", OL_DURABILITY_CHAIN },
	{ NULL, 0 },
};

static const struct ol_conf_choice restores[] = {
	{ "none", OL_RESTORE_NONE },
	{ "checkpoint", OL_RESTORE_CHECKPOINT },
	{ "mirror", OL_RESTORE_MIRROR },
	{ "freshest", OL_RESTORE_FRESHEST },
	{ NULL, 0 },
};

static const struct ol_conf_choice replays[] = {
	{ "each", OL_REPLAY_EACH }, { "mean", OL_REPLAY_MEAN },           { "sum", OL_REPLAY_SUM },
	{ "clip", OL_REPLAY_CLIP }, { "staleness", OL_REPLAY_STALENESS }, { NULL, 0 },
};

static const struct ol_conf_field durable_fields[] = {
	{ .type = OL_CONF_GROUP, .help = "when a server is lost: what is left of it" },
	{ .name = "durability",
	  .dflt = "none",
	  .help = "none: the workers' last weights; checkpoint: files as well; chain: replicas of "
		  "each server",
	  .offset = offsetof(struct ol_set_durable, durability),
	  .type = OL_CONF_CHOICE,
	  .choices = durabilities },
	{ .name = "checkpoint",
	  .dflt = NULL,
	  .help = "every=100steps or every=5s, dir=DIR and keep=3, in any order with commas "
		  "between; needs --durability checkpoint. priority (round-robin, random) and "
		  "r=1/8 instead of keep: a running checkpoint: of one file that part of the "
		  "blocks, those that moved most (the next, any), every r * every",
	  .offset = offsetof(struct ol_set_durable, checkpoint),
	  .type = OL_CONF_STR },
	{ .name = "replay",
	  .dflt = "mean",
	  .help = "what m gradients that a worker summed up meanwhile become: each: m steps at "
		  "once; mean: one step; sum: each up to 50, then learning rate 0.001; clip: each, "
		  "of a bounded norm; staleness: each scaled down by its age",
	  .offset = offsetof(struct ol_set_durable, replay),
	  .type = OL_CONF_CHOICE,
	  .choices = replays },
	{ .name = "replay_clip",
	  .dflt = "1",
	  .help = "replay clip: largest norm of the sum",
	  .offset = offsetof(struct ol_set_durable, replay_clip),
	  .type = OL_CONF_F64,
	  .f64_min = 1e-9,
	  .f64_max = 1e9 },
};

const struct ol_rows ol_rows_durable = ROWS(durable_fields);

static const struct ol_conf_field restore_first_fields[] = {
	{ .name = "restore",
	  .dflt = "none",
	  .help = "where its weights come from: none: it begins the job; checkpoint: the newest "
		  "whole one; mirror: the freshest that a worker holds; freshest: the newer of both",
	  .offset = offsetof(struct ol_set_durable, restore),
	  .type = OL_CONF_CHOICE,
	  .choices = restores },
};

const struct ol_rows ol_rows_restore_first = ROWS(restore_first_fields);

static const struct ol_conf_field restore_again_fields[] = {
	{ .name = "restore",
	  .dflt = "freshest",
	  .help = "where a server that is started again has its weights from: checkpoint: the "
		  "newest whole one; mirror: the freshest that a worker holds; freshest: the newer "
		  "of both; none: the first weights, which throws the training away",
	  .offset = offsetof(struct ol_set_durable, restore),
	  .type = OL_CONF_CHOICE,
	  .choices = restores },
};

const struct ol_rows ol_rows_restore_again = ROWS(restore_again_fields);

static const struct ol_conf_choice outages[] = {
	{ "wait", OL_OUTAGE_WAIT },
	{ "continue", OL_OUTAGE_CONTINUE },
	{ NULL, 0 },
};

static const struct ol_conf_choice queues[] = {
	{ "fold", OL_QUEUE_FOLD },
	{ "drop-oldest", OL_QUEUE_DROP_OLDEST },
	{ "wait", OL_QUEUE_WAIT },
	{ NULL, 0 },
};

static const struct ol_conf_field outage_fields[] = {
	{ .type = OL_CONF_GROUP, .help = "when a server is lost: what a worker does meanwhile" },
	{ .name = "outage",
	  .dflt = "wait",
	  .help = "wait for it; continue: compute at the last weights, and queue",
	  .offset = offsetof(struct ol_set_outage, outage),
	  .type = OL_CONF_CHOICE,
	  .choices = outages },
	{ .name = "outage_timeout",
	  .dflt = "60",
	  .help = "seconds until a worker gives up; 0: never",
	  .offset = offsetof(struct ol_set_outage, outage_timeout),
	  .type = OL_CONF_F64,
	  .f64_min = 0.0,
	  .f64_max = 4e6 },
	{ .name = "queue",
	  .dflt = "fold",
	  .help = "continue: fold: gradients are summed up; drop-oldest, wait: --queue-max of "
		  "them, then the oldest goes or the worker waits",
	  .offset = offsetof(struct ol_set_outage, queue),
	  .type = OL_CONF_CHOICE,
	  .choices = queues },
	{ .name = "queue_max",
	  .dflt = "64",
	  .help = "gradients in the queue, unless they are folded",
	  .offset = offsetof(struct ol_set_outage, queue_max),
	  .type = OL_CONF_U32,
	  .min = 1,
	  .max = 65536 },
	{ .name = "local_progress",
	  .dflt = "false",
	  .help = "continue, optimizer sgd: a worker's last weights follow its own gradients",
	  .offset = offsetof(struct ol_set_outage, local_progress),
	  .type = OL_CONF_BOOL },
	{ .name = "mirror_state",
	  .dflt = "false",
	  .help = "pulls bring the optimizer's state too, for a server that comes back empty",
	  .offset = offsetof(struct ol_set_outage, mirror_state),
	  .type = OL_CONF_BOOL },
};

const struct ol_rows ol_rows_outage = ROWS(outage_fields);

static const struct ol_conf_choice on_lates[] = {
	{ "wait", OL_ON_LATE_WAIT },
	{ "pull", OL_ON_LATE_PULL },
	{ "interrupt", OL_ON_LATE_INTERRUPT },
	{ NULL, 0 },
};

static const struct ol_conf_field late_fields[] = {
	{ .type = OL_CONF_GROUP, .help = "slow workers" },
	{ .name = "delay",
	  .dflt = NULL,
	  .help = "how much longer a gradient takes: exp:mean=20ms,alpha=0.5 (mean * (1 - alpha + "
		  "alpha * Exp(1))) or trace:FILE (milliseconds, a line each); and, behind a +, "
		  "slow:workers=half,factor=5,from=60s (the last half, or N, of the workers)",
	  .offset = offsetof(struct ol_set_late, delay),
	  .type = OL_CONF_STR },
	{ .name = "on_late",
	  .dflt = "wait",
	  .help = "sync with k below all: what a worker does that is overtaken by a step: wait: "
		  "it finishes its gradient, which is dropped, and goes on with the newest weights "
		  "that it was told of; pull: the same, but it asks which are the newest; "
		  "interrupt: it looks meanwhile, and begins anew",
	  .offset = offsetof(struct ol_set_late, on_late),
	  .type = OL_CONF_CHOICE,
	  .choices = on_lates },
};

const struct ol_rows ol_rows_late = ROWS(late_fields);

static const struct ol_conf_field lease_fields[] = {
	{ .name = "lease_ms",
	  .dflt = "2000",
	  .help = "a server that stood still for so long counts as gone, and ends by itself when "
		  "it wakes up; the same for every process of a job",
	  .offset = offsetof(struct ol_set_lease, lease_ms),
	  .type = OL_CONF_U32,
	  .min = 200,
	  .max = 3600000 },
};

const struct ol_rows ol_rows_lease = ROWS(lease_fields);

static int key_file_read(const char *cmd, const char *file, char ret_key[OL_JOB_KEY_BYTES])
{
	FILE *in = fopen(file, "re");
	size_t got;

	if (in == NULL)
		return ol_cmd_error(OL_EXIT_USAGE, cmd, "cannot read the job key", file,
				    strerror(errno));
	got = fread(ret_key, 1, OL_JOB_KEY_BYTES, in);
	fclose(in);
	while (got > 0 && (ret_key[got - 1] == '\n' || ret_key[got - 1] == '\r'))
		got--;
	if (got == 0 || got >= OL_JOB_KEY_BYTES || memchr(ret_key, '\0', got) != NULL)
		return ol_cmd_error(OL_EXIT_USAGE, cmd, "not a job key", file,
				    "it is to hold 1 to 255 bytes of text");
	ret_key[got] = '\0';
	return 0;
}

int ol_job_key_read(const char *cmd, const char *file, char ret_key[OL_JOB_KEY_BYTES])
{
	const char *key = getenv("OUTLAST_JOB_KEY");

	if (file != NULL)
		return key_file_read(cmd, file, ret_key);
	if (key == NULL)
		key = "";
	if (strlen(key) >= OL_JOB_KEY_BYTES)
		return ol_cmd_error(OL_EXIT_USAGE, cmd, "not a job key", "OUTLAST_JOB_KEY",
				    "it is longer than 255 bytes");
	snprintf(ret_key, OL_JOB_KEY_BYTES, "%s", key);
	return 0;
}

void ol_settings_add(struct ol_settings *settings, struct ol_rows rows, size_t base)
{
	for (size_t i = 0; i < rows.count && settings->count < OL_CONF_FIELDS_MAX; i++) {
		settings->fields[settings->count] = rows.fields[i];
		settings->fields[settings->count++].offset += base;
	}
}

bool ol_settings_load(struct ol_settings *settings, void *target, int argc, char **argv,
		      int *ret_exit)
{
	int rc;

	settings->spec.fields = settings->fields;
	settings->spec.field_count = settings->count;
	rc = ol_conf_create(&settings->spec, target, &settings->conf);
	if (rc != 0) {
		*ret_exit = ol_cmd_error(OL_EXIT_FAILED, settings->cmd, "settings", NULL,
					 ol_strerror(rc));
		return false;
	}
	rc = ol_conf_load(settings->conf, argc, argv);
	if (rc == 0)
		return true;
	if (rc > 0) {
		ol_conf_print_help(settings->conf, stdout);
		printf("\n%s", ol_exit_help);
		*ret_exit = OL_EXIT_OK;
		return false;
	}
	fprintf(stderr, "%s\n", ol_conf_error(settings->conf));
	*ret_exit = OL_EXIT_USAGE;
	return false;
}

int ol_settings_fail(struct ol_settings *settings, const char *name, const char *why)
{
	ol_conf_fail(settings->conf, name, why);
	fprintf(stderr, "%s\n", ol_conf_error(settings->conf));
	return OL_EXIT_USAGE;
}

void ol_settings_fini(struct ol_settings *settings)
{
	ol_conf_destroy(settings->conf);
	settings->conf = NULL;
}

const char *ol_settings_text(const struct ol_settings *settings, const char *name, char *buf,
			     size_t buf_bytes)
{
	buf[0] = '\0';
	for (size_t i = 0; i < settings->count; i++) {
		const char *field = settings->fields[i].name;

		if (field != NULL && strcmp(field, name) == 0)
			ol_conf_format(settings->conf, i, buf, buf_bytes);
	}
	return buf;
}

int ol_settings_durable_check(struct ol_settings *settings, const struct ol_set_durable *set,
			      struct ol_ckpt_set *ret_ckpt)
{
	char err[160] = "";

	if (ol_ckpt_set_parse(set->checkpoint, ret_ckpt, err, sizeof(err)) != 0)
		return ol_settings_fail(settings, "checkpoint", err);
	if (set->durability == OL_DURABILITY_CHECKPOINT)
		return 0;
	if (set->checkpoint != NULL)
		return ol_settings_fail(settings, "checkpoint", "needs --durability checkpoint");
	if (set->restore == OL_RESTORE_CHECKPOINT)
		return ol_settings_fail(settings, "restore", "needs --durability checkpoint");
	return 0;
}

void ol_settings_outage(const struct ol_set_outage *set, const struct ol_set_lease *lease,
			struct ol_worker_opts *opts)
{
	opts->outage = (enum ol_outage)set->outage;
	opts->outage_timeout_ms = (uint32_t)(set->outage_timeout * 1e3);
	if (opts->outage_timeout_ms == 0 && set->outage_timeout > 0.0)
		opts->outage_timeout_ms = 1;
	opts->lease_ms = lease->lease_ms;
	opts->queue = (enum ol_queue)set->queue;
	opts->queue_max = set->queue_max;
	opts->local_progress = set->local_progress;
	opts->mirror_state = set->mirror_state;
}

int ol_settings_rule_check(struct ol_settings *settings, struct ol_set_rule *set, uint32_t workers,
			   uint32_t servers)
{
	char err[160] = "";

	if (ol_consistency_parse(set->consistency, workers, &set->how, err, sizeof(err)) != 0)
		return ol_settings_fail(settings, "consistency", err);
	if (servers > 1 && set->how.consistency != OL_CONSISTENCY_ASYNC &&
	    !ol_consistency_all(&set->how))
		return ol_settings_fail(settings, "consistency",
					"needs --servers 1: each server would choose for itself "
					"who waits for whom");
	if (ol_consistency_backup(&set->how) && set->how.wait == OL_WAIT_DBW && set->sum)
		return ol_settings_fail(settings, "reduce",
					"should be mean: sync:dbw knows what a mean of k gains");
	return 0;
}

struct ol_update_rule ol_settings_rule(const struct ol_set_rule *set)
{
	return (struct ol_update_rule){
		.optimizer = (enum ol_optimizer)set->optimizer,
		.lr = (float)set->lr,
		.momentum = (float)set->momentum,
		.beta1 = (float)set->beta1,
		.beta2 = (float)set->beta2,
		.epsilon = (float)set->epsilon,
		.weight_decay = (float)set->weight_decay,
		.sum = (uint32_t)set->sum,
		.allow_nonfinite = (uint32_t)set->allow_nonfinite,
	};
}

void ol_args_add(struct ol_args *args, const char *format, ...)
{
	char *word = NULL;
	va_list list;

	va_start(list, format);
	if (args->count == OL_ARGS_MAX || vasprintf(&word, format, list) < 0) {
		args->failed = true;
		word = NULL;
	}
	va_end(list);
	if (word != NULL)
		args->words[args->count++] = word;
}

void ol_args_add_rows(struct ol_args *args, const struct ol_settings *settings, struct ol_rows rows)
{
	char value[OL_VALUE_MAX];

	for (size_t row = 0; row < rows.count; row++) {
		const char *name = rows.fields[row].name;

		for (size_t i = 0; name != NULL && i < settings->count; i++) {
			if (settings->fields[i].name == NULL ||
			    strcmp(settings->fields[i].name, name) != 0)
				continue;
			ol_conf_format(settings->conf, i, value, sizeof(value));
			if (strlen(value) == sizeof(value) - 1)
				args->failed = true;
			if (value[0] != '\0')
				ol_args_add(args, "--%s=%s", name, value);
		}
	}
}

void ol_args_free(struct ol_args *args)
{
	for (size_t i = 0; i < args->count; i++)
		free(args->words[i]);
	*args = (struct ol_args){ 0 };
}
