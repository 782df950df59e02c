/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * settings.c -- tables of the common settings; loads them, and passes them on
 */
#include "cmd/settings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defaults.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/durable.h"
#include "cmd/logs.h"
#include "cmd/loop.h"

static const struct ol_conf_field model_fields[] = {
	OL_ROW_GROUP("what is trained"),
	OL_ROW_STR(ol_set_model, model, "cnn",
		   "softmax, mlp, mlp:A,B,... (widths of the hidden layers), cnn (28x28 images), "
		   "mf[:rank=16,reg=0.02] (ratings) or lda[:topics=10,alpha=0.1,beta=0.2] "
		   "(documents)"),
	OL_ROW_BOOL(ol_set_model, final_relu, "false", "a ReLU after the last layer too"),
	OL_ROW_STR(
		ol_set_model, dataset, "fashion-mnist",
		"fashion-mnist, idx:DIR[,classes=N], libsvm:TRAIN[,TEST], "
		"synthetic[:key=value,...] (classes, features or shape=RxC, train, test, seed, "
		"noise); movielens:FILE, ratings[:key=value,...] (users, items, rank, density, "
		"noise, seed); bow:DOCWORD[,VOCAB], topics[:key=value,...] (topics, words, docs, "
		"length, seed)"),
	OL_ROW_U64(ol_set_model, seed, "1", 0, 0, "of initial weights, batches and dropout"),
};

const struct ol_rows ol_rows_model = OL_ROWS(model_fields);

const struct ol_conf_choice ol_optimizers[] = {
#define X(name, value, word, vectors) { word, OL_OPTIMIZER_##name },
	OL_OPTIMIZER_MAP(X)
#undef X
		{ NULL, 0 },
};

static const struct ol_conf_choice reductions[] = { { "mean", 0 }, { "sum", 1 }, { NULL, 0 } };
static const struct ol_conf_choice nonfinites[] = { { "reject", 0 }, { "apply", 1 }, { NULL, 0 } };
static const struct ol_conf_choice isolations[] = { { "worker", 0 }, { "job", 1 }, { NULL, 0 } };

static const struct ol_conf_field rule_fields[] = {
	OL_ROW_GROUP("how gradients become steps"),
	OL_ROW_STR(ol_set_rule, consistency, "async", ol_consistency_help),
	OL_ROW_CHOICE(ol_set_rule, reduce, "mean", reductions,
		      "sync: what of the workers' gradients is applied"),
	OL_ROW_CHOICE(ol_set_rule, optimizer, "sgd", ol_optimizers, "update rule"),
	OL_ROW_F64(ol_set_rule, lr, OL_DEFAULT_TEXT(OL_DEFAULT_LR), 0.0, 1e6, "learning rate"),
	OL_ROW_F64(ol_set_rule, momentum, OL_DEFAULT_TEXT(OL_DEFAULT_MOMENTUM), 0.0, 0.9999,
		   "of momentum and nesterov"),
	OL_ROW_F64(ol_set_rule, beta1, OL_DEFAULT_TEXT(OL_DEFAULT_BETA1), 0.0, 0.99999,
		   "of adam and adamw"),
	OL_ROW_F64(ol_set_rule, beta2, OL_DEFAULT_TEXT(OL_DEFAULT_BETA2), 0.0, 0.99999,
		   "of adam and adamw"),
	OL_ROW_F64(ol_set_rule, epsilon, OL_DEFAULT_TEXT(OL_DEFAULT_EPSILON), 1e-30, 1.0,
		   "of adam and adamw"),
	OL_ROW_F64(ol_set_rule, weight_decay, "0", 0.0, 1e3,
		   "added to the gradient; by adamw decoupled from it"),
	OL_ROW_STR(ol_set_rule, schedule, "constant", ol_schedule_help),
	OL_ROW_F64(ol_set_rule, clip_value, "0", 0.0, 1e30,
		   "each element of a step's gradient is cut to this size; 0: none"),
	OL_ROW_F64(ol_set_rule, clip_norm, "0", 0.0, 1e30,
		   "a step's gradient is scaled down to this norm, with one server only; 0: none"),
	OL_ROW_U32(ol_set_rule, groups, OL_DEFAULT_TEXT(OL_DEFAULT_RULE_GROUPS), 1,
		   OL_RULE_GROUPS_MAX,
		   "parameter groups that workers may make, each with its learning rate and so on"),
	OL_ROW_CHOICE(ol_set_rule, nonfinite, "reject", nonfinites,
		      "a gradient with a NaN or an infinity is dropped and counted, or applied"),
	OL_ROW_CHOICE(
		ol_set_rule, isolation, "worker", isolations,
		"one protection domain each, or one of the whole job, which pins less memory"),
	OL_ROW_U32(ol_set_rule, threads, OL_DEFAULT_TEXT(OL_DEFAULT_THREADS), 1, 64,
		   "threads of each server that update weights; the weights do not depend on it"),
};

const struct ol_rows ol_rows_rule = OL_ROWS(rule_fields);

const struct ol_conf_choice ol_log_levels[] = {
	{ "error", OL_LOG_ERROR },
	{ "warn", OL_LOG_WARN },
	{ "info", OL_LOG_INFO },
	{ "debug", OL_LOG_DEBUG },
	{ NULL, 0 },
};

static const struct ol_conf_choice choices[] = {
	{ "auto", OL_CHOICE_AUTO },
	{ "on", OL_CHOICE_ON },
	{ "off", OL_CHOICE_OFF },
	{ NULL, 0 },
};

static const struct ol_conf_choice path_mtus[] = {
	{ "path", 0 },    { "256", 256 },   { "512", 512 }, { "1024", 1024 },
	{ "2048", 2048 }, { "4096", 4096 }, { NULL, 0 },
};

static const struct ol_conf_field link_fields[] = {
	OL_ROW_GROUP("transport"),
	OL_ROW_STR(
		ol_set_link, device, NULL,
		"RDMA device; without it the one that has the address or the route. A,B: a server "
		"takes that of its shard, a worker all (rails), and others while one fails"),
	OL_ROW_U32(ol_set_link, window, OL_DEFAULT_TEXT(OL_DEFAULT_WINDOW), 1, 64,
		   "gradient buffers a worker, and landing slots for each at a server"),
	OL_ROW_U32(ol_set_link, spin_us, OL_DEFAULT_TEXT(OL_DEFAULT_SPIN_US), 0, 10000000,
		   "microseconds that a wait spins before it sleeps"),
	OL_ROW_CHOICE(ol_set_link, log, "warn", ol_log_levels,
		      "least important messages that are shown"),
	OL_ROW_CHOICE(ol_set_link, log_format, "auto", ol_log_formats, OL_LOG_FORMATS_HELP),
};

const struct ol_rows ol_rows_link = OL_ROWS(link_fields);

static const struct ol_conf_field wire_fields[] = {
	OL_ROW_U32(ol_set_wire, retry_timeout_ms, OL_DEFAULT_TEXT(OL_DEFAULT_RETRY_TIMEOUT_MS), 10,
		   600000,
		   "verbs: silence until a connection breaks, shared out among seven tries (an "
		   "adapter may take four times as long). Longer outlasts a failover of the "
		   "network; shorter finds a host that died sooner only where it is below "
		   "--lease-ms. A killed process is noticed at once in any case"),
	OL_ROW_U32(ol_set_wire, ack_timeout, "0", 0, 31,
		   "verbs: acknowledge timer, 4.096 us * 2^N (18: 1.07 s); 0: from "
		   "--retry-timeout-ms"),
	OL_ROW_U32(ol_set_wire, retries, "0", 0, 6,
		   "verbs: tries after the first; 0: from --retry-timeout-ms (7 is refused: some "
		   "adapters take it for \"for ever\")"),
	OL_ROW_U32(ol_set_wire, rnr_timer, "0", 0, 31,
		   "verbs: pause if a peer has no receive left, as the InfiniBand specification "
		   "codes it (12: 0.64 ms); 0: 7.68 ms, or less with a short "
		   "--retry-timeout-ms. Longer bears a slower peer, and stands still for longer"),
	OL_ROW_U32(ol_set_wire, rnr_retries, "0", 0, 6,
		   "verbs: such pauses until the connection breaks; 0: 6"),
	OL_ROW_U32(ol_set_wire, traffic_class, "0", 0, 255,
		   "verbs, RoCE: DSCP * 4 + ECN of all packets; 0: the system's"),
	OL_ROW_CHOICE(ol_set_wire, path_mtu, "path", path_mtus,
		      "verbs: bytes of a packet, if the path carries that many"),
	OL_ROW_CHOICE(ol_set_wire, relaxed_ordering, "auto", choices,
		      "verbs: let the adapter's writes pass each other on PCIe where no word is "
		      "polled; auto: unless it is a soft adapter"),
	OL_ROW_CHOICE(
		ol_set_wire, huge_pages, "auto", choices,
		"memory of servers and workers on huge pages; auto: if there are any; on: and "
		"say so if there are none"),
};

const struct ol_rows ol_rows_wire = OL_ROWS(wire_fields);

const struct ol_conf_choice ol_transports[] = {
	{ "auto", OL_TRANSPORT_AUTO },
	{ "shm", OL_TRANSPORT_SHM },
	{ "verbs", OL_TRANSPORT_VERBS },
	{ NULL, 0 },
};

static const struct ol_conf_field transport_fields[] = {
	OL_ROW_CHOICE(ol_set_transport, transport, "auto", ol_transports,
		      "auto: shm for an address that starts with / or @, else verbs"),
};

const struct ol_rows ol_rows_transport = OL_ROWS(transport_fields);

static const struct ol_conf_field coord_fields[] = {
	OL_ROW_GROUP("chains"),
	OL_ROW_STR(
		ol_set_coord, coordinator, NULL,
		"where the views of chains are: dir:PATH (a folder of this machine), or "
		"zk:HOST:PORT,...[/CHROOT][?auth=FILE] (ZooKeeper; FILE has a line user:password); "
		"without it there are no chains"),
	OL_ROW_STR(ol_set_coord, job, OL_DEFAULT_JOB,
		   "name of the job there: letters, digits, '-', '_', '.'"),
};

const struct ol_rows ol_rows_coord = OL_ROWS(coord_fields);

static const struct ol_conf_field chain_fields[] = {
	OL_ROW_U32(ol_set_chain, replicas, OL_DEFAULT_TEXT(OL_DEFAULT_REPLICAS), 1, OL_CHAIN_MAX,
		   "chain: servers that hold each shard; all but one may be lost"),
	OL_ROW_U32(
		ol_set_chain, replicate_every, "0", 0, 1000000,
		"chain: 0: every step, and committed is what all replicas have; N: as published, "
		"the weights every N steps, without waiting: a head that dies takes up to N along"),
};

const struct ol_rows ol_rows_chain = OL_ROWS(chain_fields);

const char *ol_transport_name(int choice)
{
	for (const struct ol_conf_choice *at = ol_transports; at->name != NULL; at++) {
		if (at->value == choice && choice != OL_TRANSPORT_AUTO)
			return at->name;
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
	OL_ROW_GROUP("when a server is lost: what is left of it"),
	OL_ROW_CHOICE(
		ol_set_durable, durability, "none", durabilities,
		"none: the workers' last weights; checkpoint: files as well; chain: replicas of "
		"each server"),
	OL_ROW_STR(
		ol_set_durable, checkpoint, NULL,
		"every=100steps or every=5s, dir=DIR and keep=3, in any order with commas "
		"between; needs --durability checkpoint, or chain: then the tail writes, or with "
		"by=each every replica, for folders on disks of their own. priority (round-robin, "
		"random) and r=1/8 instead of keep: a running checkpoint: of one file that part "
		"of the blocks, those that moved most (the next, any), every r * every; "
		"extrapolate=1 beside them: what is read back goes on by its last pace; format=int8: "
		"as many bytes save 1.5 to 3 times as many blocks, as int8 deltas"),
	OL_ROW_CHOICE(
		ol_set_durable, replay, "mean", replays,
		"what m gradients that a worker summed up meanwhile become: each: m steps at "
		"once; mean: one step; sum: each up to 50, then learning rate 0.001; clip: each, "
		"of a bounded norm; staleness: each scaled down by its age"),
	OL_ROW_F64(ol_set_durable, replay_clip, OL_DEFAULT_TEXT(OL_DEFAULT_REPLAY_CLIP), 1e-9, 1e9,
		   "replay clip: largest norm of the sum"),
};

const struct ol_rows ol_rows_durable = OL_ROWS(durable_fields);

static const struct ol_conf_field restore_first_fields[] = {
	OL_ROW_CHOICE(
		ol_set_durable, restore, "none", restores,
		"where its weights come from: none: it begins the job; checkpoint: the newest "
		"whole one; mirror: the freshest that a worker holds; freshest: of both what lacks "
		"less"),
};

const struct ol_rows ol_rows_restore_first = OL_ROWS(restore_first_fields);

static const struct ol_conf_field restore_again_fields[] = {
	OL_ROW_CHOICE(
		ol_set_durable, restore, "freshest", restores,
		"where a server that is started again has its weights from: checkpoint: the "
		"newest whole one; mirror: the freshest that a worker holds; freshest: of both "
		"what lacks less; none: the first weights, which throws the training away"),
};

const struct ol_rows ol_rows_restore_again = OL_ROWS(restore_again_fields);

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
	OL_ROW_GROUP("when a server is lost: what a worker does meanwhile"),
	OL_ROW_CHOICE(ol_set_outage, outage, "wait", outages,
		      "wait for it; continue: compute at the last weights, and queue"),
	OL_ROW_F64(ol_set_outage, outage_timeout, OL_DEFAULT_TEXT(OL_DEFAULT_OUTAGE_S), 0.0, 4e6,
		   "seconds until a worker gives up; 0: never"),
	OL_ROW_CHOICE(ol_set_outage, queue, "fold", queues,
		      "continue: fold: gradients are summed up; drop-oldest, wait: --queue-max of "
		      "them, then the oldest goes or the worker waits"),
	OL_ROW_U32(ol_set_outage, queue_max, OL_DEFAULT_TEXT(OL_DEFAULT_QUEUE_MAX), 1, 65536,
		   "gradients in the queue, unless they are folded"),
	OL_ROW_BOOL(ol_set_outage, local_progress, "false",
		    "continue, optimizer sgd: a worker's last weights follow its own gradients"),
	OL_ROW_BOOL(ol_set_outage, mirror_state, "false",
		    "pulls bring the optimizer's state too, for a server that comes back empty"),
};

const struct ol_rows ol_rows_outage = OL_ROWS(outage_fields);

const struct ol_conf_choice ol_formats[] = {
	{ "fp32", OL_FORMAT_FP32 },
	{ "bf16", OL_FORMAT_BF16 },
	{ "fp16", OL_FORMAT_FP16 },
	{ "int8", OL_FORMAT_INT8 },
	{ NULL, 0 },
};

static const struct ol_conf_field format_fields[] = {
	OL_ROW_GROUP("what travels"),
	OL_ROW_CHOICE(ol_set_format, gradient_format, "fp32", ol_formats, OL_FORMATS_HELP),
};

const struct ol_rows ol_rows_format = OL_ROWS(format_fields);

static const struct ol_conf_choice on_lates[] = {
	{ "wait", OL_ON_LATE_WAIT },
	{ "pull", OL_ON_LATE_PULL },
	{ "interrupt", OL_ON_LATE_INTERRUPT },
	{ NULL, 0 },
};

static const struct ol_conf_field late_fields[] = {
	OL_ROW_GROUP("slow workers"),
	OL_ROW_STR(ol_set_late, delay, NULL,
		   "how much longer a gradient takes: exp:mean=20ms,alpha=0.5 (mean * (1 - alpha + "
		   "alpha * Exp(1))) or trace:FILE (milliseconds, a line each); and, behind a +, "
		   "slow:workers=half,factor=5,from=60s (the last half, or N, of the workers)"),
	OL_ROW_CHOICE(
		ol_set_late, on_late, "wait", on_lates,
		"sync with k below all: what a worker does that is overtaken by a step: wait: "
		"it finishes its gradient, which is dropped, and goes on with the newest weights "
		"that it was told of; pull: the same, but it asks which are the newest; "
		"interrupt: it looks meanwhile, and begins anew"),
};

const struct ol_rows ol_rows_late = OL_ROWS(late_fields);

static const struct ol_conf_field lease_fields[] = {
	OL_ROW_U32(
		ol_set_lease, lease_ms, OL_DEFAULT_TEXT(OL_DEFAULT_LEASE_MS), 200, 3600000,
		"a server that stood still, or that no neighbour could reach, for so long counts "
		"as gone, and ends by itself when it wakes up: longer than a network may be "
		"away, by a second and a half; the same for every process of a job"),
};

const struct ol_rows ol_rows_lease = OL_ROWS(lease_fields);

void ol_settings_add(struct ol_settings *settings, struct ol_rows rows, size_t base)
{
	for (size_t i = 0; i < rows.count && settings->count < OL_CONF_FIELDS_MAX; i++) {
		settings->fields[settings->count] = rows.fields[i];
		settings->fields[settings->count++].offset += base;
	}
}

/* Takes where the job is out of OUTLAST_JOB, for the caller to free; NULL: it is not there */
static char *place_take(void)
{
	const char *job = getenv("OUTLAST_JOB");
	char *place = job != NULL && strpbrk(job, "@:/") != NULL ? strdup(job) : NULL;

	if (place != NULL)
		(void)unsetenv("OUTLAST_JOB");
	return place;
}

static int place_set(struct ol_settings *settings, const char *place)
{
	const char *name = getenv("OUTLAST_JOB_NAME");
	struct ol_conf *conf = settings->conf;
	int rc;

	if (settings->addresses == NULL || ol_conf_is_set(conf, "coordinator") ||
	    ol_conf_is_set(conf, settings->addresses) ||
	    ol_conf_is_set(conf, "checkpoint")) /* export: weights of files, not of servers */
		return 0;
	if (strncmp(place, "dir:", 4) != 0 && strncmp(place, "zk:", 3) != 0)
		return ol_conf_set(conf, settings->addresses, place);
	rc = ol_conf_set(conf, "coordinator", place);
	if (rc == 0 && name != NULL && name[0] != '\0' && !ol_conf_is_set(conf, "job"))
		rc = ol_conf_set(conf, "job", name);
	return rc;
}

bool ol_settings_load(struct ol_settings *settings, void *target, int argc, char **argv,
		      int *ret_exit)
{
	char *place;
	int rc;

	settings->spec.fields = settings->fields;
	settings->spec.field_count = settings->count;
	rc = ol_conf_create(&settings->spec, target, &settings->conf);
	if (rc != 0) {
		*ret_exit = ol_cmd_error(OL_EXIT_FAILED, settings->cmd, "settings", NULL,
					 ol_strerror(rc));
		return false;
	}
	place = place_take();
	rc = ol_conf_load(settings->conf, argc, argv);
	if (rc == 0 && place != NULL)
		rc = place_set(settings, place);
	free(place);
	if (rc == 0)
		return true;
	if (rc > 0) {
		ol_conf_print_help(settings->conf, stdout);
		printf("\n%s", ol_exit_help);
		*ret_exit = OL_EXIT_OK;
		return false;
	}
	ol_logs_say(OL_LOG_ERROR, "%s", ol_conf_error(settings->conf));
	*ret_exit = OL_EXIT_USAGE;
	return false;
}

int ol_settings_fail(struct ol_settings *settings, const char *name, const char *why)
{
	ol_conf_fail(settings->conf, name, why);
	ol_logs_say(OL_LOG_ERROR, "%s", ol_conf_error(settings->conf));
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

const char *ol_settings_source(const struct ol_settings *settings, const char *name, char *buf,
			       size_t buf_bytes)
{
	buf[0] = '\0';
	for (size_t i = 0; i < settings->count; i++) {
		const char *field = settings->fields[i].name;

		if (field != NULL && strcmp(field, name) == 0)
			ol_conf_source(settings->conf, i, buf, buf_bytes);
	}
	return buf;
}

int ol_settings_durable_check(struct ol_settings *settings, const struct ol_set_durable *set,
			      struct ol_ckpt_set *ret_ckpt)
{
	char err[160] = "";

	if (ol_ckpt_set_parse(set->checkpoint, ret_ckpt, err, sizeof(err)) != 0)
		return ol_settings_fail(settings, "checkpoint", err);
	if (set->durability == OL_DURABILITY_CHAIN && ret_ckpt->selection != OL_SELECT_FULL)
		return ol_settings_fail(
			settings, "checkpoint",
			"asks for a running one: beside a chain there are full ones only");
	if (set->durability != OL_DURABILITY_CHAIN && ret_ckpt->by_given)
		return ol_settings_fail(
			settings, "checkpoint",
			"says which replicas write (by=): that needs --durability chain");
	if (set->durability == OL_DURABILITY_CHECKPOINT ||
	    (set->durability == OL_DURABILITY_CHAIN && set->checkpoint != NULL))
		return 0;
	if (set->checkpoint != NULL)
		return ol_settings_fail(settings, "checkpoint",
					"needs --durability checkpoint, or chain");
	if (set->restore == OL_RESTORE_CHECKPOINT)
		return ol_settings_fail(
			settings, "restore",
			"needs --durability checkpoint, or chain with --checkpoint");
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
	if (ol_schedule_parse(set->schedule, &set->rates, err, sizeof(err)) != 0)
		return ol_settings_fail(settings, "schedule", err);
	if (servers > 1 && set->clip_norm > 0.0)
		return ol_settings_fail(settings, "clip_norm",
					"needs --servers 1: no server has the whole gradient");
	if (ol_consistency_backup(&set->how) && set->how.wait == OL_WAIT_DBW && set->reduce)
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
		.sum = (uint32_t)set->reduce,
		.allow_nonfinite = (uint32_t)set->nonfinite,
	};
}

void ol_settings_schedule(const struct ol_set_rule *set, struct ol_server_opts *opts)
{
	opts->rule_groups = set->groups;
	opts->schedule = set->rates.schedule;
	opts->schedule_length = set->rates.steps;
	opts->warmup = set->rates.warmup;
	opts->warmup_from = set->rates.from;
	opts->lr_floor = set->rates.floor;
	opts->lr_gamma = set->rates.gamma;
	opts->lr_power = set->rates.power;
	opts->clip_value = (float)set->clip_value;
	opts->clip_norm = (float)set->clip_norm;
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
