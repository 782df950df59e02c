/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * serve.c -- `outlast serve`: the server of one shard
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/control.h"
#include "cmd/counters.h"
#include "cmd/device.h"
#include "cmd/durable.h"
#include "cmd/key.h"
#include "cmd/logs.h"
#include "cmd/sandbox.h"
#include "cmd/settings.h"
#include "outlast/first.h"
#include "outlast/service.h"
#include "outlast/waits.h"
#include "outlast_server.h"

#define MAX_PARAMS ((uint64_t)1 << 40) /* ol_shard_span()'s */

enum {
	LOOK_MS = 20, /* between two looks at orders and --exit-version */
	RESTORE_LOOK_MS = 2, /* the same, until it has its weights */
	GONE_LEASES = 2, /* a replica without a session for so long does not come back by itself */
	STAT_MS = 100, /* between two reports of a replica to its parent */
	CHAINS_TIMEOUT_MS = 5000,
	MEMORY_TEXT_MAX = 384
};

struct serve_set {
	const char *listen;
	const char *data_shape;
	const char *init;
	uint64_t params;
	const char *json;
	uint64_t exit_version;
	uint64_t restore_version;
	uint32_t shard;
	uint32_t servers;
	uint32_t workers;
	uint32_t workers_max;
	uint32_t observers_max;
	bool weights_bf16;
	uint32_t pin_timeout_ms;
	uint64_t slot_memory_mib;
	uint32_t epoch;
	uint32_t ready_fd;
	uint32_t life_fd;
	uint32_t report_fd;
	uint32_t rank;
	bool refound;
	bool sandbox;
	struct ol_set_model model;
	struct ol_set_rule rule;
	struct ol_set_durable durable;
	struct ol_set_coord coord;
	struct ol_set_chain chain;
	struct ol_set_lease lease;
	struct ol_set_transport transport;
	struct ol_set_link link;
	struct ol_set_wire wire;
	struct ol_set_key key;
};

static const struct ol_conf_field serve_fields[] = {
	OL_ROW_GROUP("this server"),
	OL_ROW_STR(
		serve_set, listen, OL_DEFAULT_LISTEN,
		"verbs HOST:PORT (port 0: any; no host: the address of its device) or, where the "
		"fabric has no IP addresses, oob:HOST:PORT; shm a path or @NAME"),
	OL_ROW_U32(serve_set, shard, "0", 0, 63, "which shard it holds, from 0"),
	OL_ROW_U32(serve_set, servers, "1", 1, 64, "how many shards, hence servers, there are"),
	OL_ROW_U32(
		serve_set, workers, "1", 1, 1024,
		"sync: how many there are, of whom a step takes one each; from mirrors: "
		"ids below this are waited for; where it is not given, the workers that the mirrors "
		"name"),
	OL_ROW_U32(serve_set, workers_max, "0", 0, 1024,
		   "worker ids below this may connect; 0: " OL_DEFAULT_TEXT(
			   OL_DEFAULT_WORKERS_MAX) ", or --workers if that is more"),
	OL_ROW_U32(serve_set, observers_max, OL_DEFAULT_TEXT(OL_DEFAULT_OBSERVERS_MAX), 0, 1024,
		   "how many may read at once without being workers: evaluators, relays, outlast "
		   "stat and export"),
	OL_ROW_BOOL(serve_set, weights_bf16, "false",
		    "keep the weights as bf16, too, for readers that want half as many bytes"),
	OL_ROW_U32(
		serve_set, pin_timeout_ms, OL_DEFAULT_TEXT(OL_DEFAULT_PIN_TIMEOUT_MS), 1, 600000,
		"how long an overtaken reader may have a step wait, so that it can finish; longer than a read of the shard takes"),
	OL_ROW_U64(serve_set, slot_memory_mib, "0", 0, 1 << 30,
		   "memory for the slots of all workers; who does not fit is refused; 0: no limit"),
	OL_ROW_U32(serve_set, epoch, "1", 1, 0,
		   "number of this server among those that held the shard, one after the other"),
	OL_ROW_STR(serve_set, data_shape, NULL,
		   "ROWSxCOLUMNSxCLASSES of the data, 28x28x10 for example; of ratings "
		   "USERSxITEMS, of documents the number of WORDS; then --dataset is not read"),
	OL_ROW_U64(serve_set, params, "0", 0, MAX_PARAMS,
		   "instead of a model: how many parameters the job has, whatever they mean to "
		   "the programs that train them; they begin as zeros"),
	OL_ROW_STR(
		serve_set, init, NULL,
		"instead of a model: file of the first weights, .npy or .safetensors, of type "
		"float32; its tensors, one behind the other, are the parameters, and their names "
		"and shapes travel with the job. worker: those that worker 0 offers, with --params; "
		"until then all wait (./worker is a file)"),
	OL_ROW_U64(serve_set, exit_version, "0", 0, 0,
		   "end once this version is reached and the workers have left; 0: never"),
	OL_ROW_U64(serve_set, restore_version, "0", 0, 0,
		   "--restore checkpoint: the newest full one that is not newer than this; 0: "
		   "whatever is the newest"),
	OL_ROW_STR(serve_set, json, NULL, "file for the counters at the end"),
	OL_ROW_BOOL(
		serve_set, sandbox, "false",
		"give up what a server does not need: to start programs, reach other processes, "
		"change the system, write files outside of its folders"),
	OL_ROW_U32(serve_set, ready_fd, "0", 0, 65535,
		   "descriptor that gets the address and a newline once it listens; 0: none"),
	OL_ROW_U32(
		serve_set, life_fd, "0", 0, 65535,
		"end, as by SIGTERM, when the other end of this descriptor's pipe is closed: with "
		"the process that has it; 0: do not"),
	OL_ROW_U32(serve_set, report_fd, "0", 0, 65535,
		   "socket to the outlast train that started this; 0: none"),
};

static const struct ol_rows serve_rows = OL_ROWS(serve_fields);

/* Shown after those of ol_rows_coord and ol_rows_chain */
static const struct ol_conf_field replica_fields[] = {
	OL_ROW_U32(
		serve_set, rank, "0", 0, 0,
		"chain: of servers that wait for a place the lowest is taken first; to found it, of "
		"those that restore the newest checkpoint"),
	OL_ROW_BOOL(
		serve_set, refound, "false",
		"chain: once all replicas are gone a new server begins anew, from where "
		"--restore says, instead of waiting for ever; and a server whose session at the "
		"coordinator may be over (3 times --lease-ms, at least 1 s) ends"),
};

static const struct ol_rows replica_rows = OL_ROWS(replica_fields);

static const char examples[] =
	"  outlast serve --listen 10.0.0.1:7471 --workers 2 --consistency sync --model cnn\n"
	"  outlast serve --listen @job0 --shard 0 --servers 2 --model mlp --dataset synthetic\n"
	"  outlast serve --listen 10.0.0.1:7471 --init model.safetensors --optimizer adam --lr 0.001\n"
	"  outlast serve --listen 10.0.0.1:7471 --params 407050 --init worker --workers 2\n"
	"  outlast serve --listen 10.0.0.1:7471 --durability checkpoint --checkpoint "
	"every=5s,dir=ckpt --restore freshest --epoch 2\n"
	"  outlast serve --coordinator zk:10.0.0.7:2181,10.0.0.8:2181 --job cnn7 --replicas 3 "
	"--listen 10.0.0.1:7471\n";

/* One server in this process, and the thread that watches for its end. */
struct serve {
	struct ol_settings settings;
	struct serve_set set;
	struct ol_control control;
	struct ol_server *server;
	struct ol_first first;
	struct service service;
	struct ol_ckpt_set ckpt;
	char key[OL_JOB_KEY_MAX];
	bool restored; /* the source of the weights was reported to the parent */
	struct ol_chains *chains; /* started by hand: to say what it waits for; else NULL */
	char waits[WAITS_TEXT_MAX]; /* as printed last */
	uint64_t said_ns; /* last report, or look at what it waits for; 0: none yet */
	uint64_t views; /* at that time */
	uint64_t gone_ns; /* since when no replica of the chain has a session; 0: one has */
	_Atomic int done; /* the server's loop has returned */
};

/* The folder of a file, or of an address that is a path; NULL: it has none */
static const char *folder_of(const char *path, char *text, size_t bytes)
{
	const char *end = path != NULL ? strrchr(path, '/') : NULL;

	if (path == NULL || (end == NULL && path[0] == '@'))
		return NULL;
	snprintf(text, bytes, "%.*s", end != NULL ? (int)(end - path) + 1 : 1,
		 end != NULL ? path : ".");
	return text;
}

static void folder_add(const char **folders, const char *folder)
{
	unsigned at = 0;

	while (folders[at] != NULL)
		at++;
	if (folder != NULL && folder[0] != '\0')
		folders[at] = folder;
}

/* Before the server has threads that write files. Its folder of checkpoints is made first, as nothing can be
 * made beside it later. */
static int sandbox_enter(const struct serve *serve)
{
	const struct serve_set *set = &serve->set;
	const char *coordinator = set->coord.coordinator;
	const char *folders[OL_SANDBOX_FOLDERS] = { "/dev/shm" };
	char json[PATH_MAX], listen[PATH_MAX], where[PATH_MAX] = "";
	struct ol_sandbox sandbox;
	int rc;

	if (serve->ckpt.dir[0] != '\0')
		(void)mkdir(serve->ckpt.dir, 0700); /* the server says what is wrong with it */
	folder_add(folders, serve->ckpt.dir);
	folder_add(folders, folder_of(set->json, json, sizeof(json)));
	if (set->listen[0] == '/')
		folder_add(folders, folder_of(set->listen, listen, sizeof(listen)));
	if (coordinator != NULL && strncmp(coordinator, "dir:", 4) == 0)
		folder_add(folders, coordinator + 4);
	rc = ol_sandbox_enter(folders, &sandbox);
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_FAILED, "serve", "cannot enter the sandbox", NULL,
				    ol_strerror(rc));
	if (serve->control.parent_fd >= 0)
		return 0;
	if (sandbox.landlock == 0) {
		ol_logs_say(
			OL_LOG_WARN,
			"in a sandbox: seccomp; the kernel has no landlock (of Linux 5.19 or later): "
			"files can be written as before");
		return 0;
	}
	for (unsigned i = 0; i < OL_SANDBOX_FOLDERS && folders[i] != NULL; i++) {
		size_t len = strlen(where);

		snprintf(where + len, sizeof(where) - len, " %s", folders[i]);
	}
	ol_logs_say(OL_LOG_INFO,
		    "in a sandbox: seccomp, and landlock of version %d; files are written in%s",
		    sandbox.landlock, where);
	return 0;
}

static int durable_opts(struct serve *serve, struct ol_server_opts *opts)
{
	struct serve_set *set = &serve->set;
	int rc;

	if (set->coord.coordinator != NULL)
		set->durable.durability = OL_DURABILITY_CHAIN;
	rc = ol_settings_durable_check(&serve->settings, &set->durable, &serve->ckpt);
	if (rc != 0)
		return rc;
	opts->epoch = set->epoch;
	opts->lease_ms = set->lease.lease_ms;
	opts->restore = (enum ol_restore)set->durable.restore;
	/* a default does not tell how many workers were in the job */
	opts->restore_workers = ol_conf_is_set(serve->settings.conf, "workers") ? set->workers : 0;
	opts->replay = (enum ol_replay)set->durable.replay;
	opts->replay_clip = (float)set->durable.replay_clip;
	opts->job_id = serve->first.job_id;
	if (set->durable.durability == OL_DURABILITY_CHAIN && set->coord.coordinator == NULL)
		return ol_settings_fail(&serve->settings, "durability",
					"needs --coordinator: where the views of chains are");
	if (set->durable.durability != OL_DURABILITY_CHECKPOINT &&
	    (set->durable.durability != OL_DURABILITY_CHAIN || set->durable.checkpoint == NULL))
		return 0;
	if (serve->ckpt.dir[0] == '\0')
		return ol_settings_fail(&serve->settings, "checkpoint",
					"names no folder: add dir=DIR");
	opts->checkpoint_dir = serve->ckpt.dir;
	opts->checkpoint_steps = serve->ckpt.steps;
	opts->checkpoint_ms = serve->ckpt.ms;
	opts->checkpoint_keep = serve->ckpt.keep;
	opts->checkpoint_by = serve->ckpt.by;
	opts->selection = serve->ckpt.selection;
	opts->fraction = serve->ckpt.fraction;
	opts->extrapolate = serve->ckpt.extrapolate;
	opts->checkpoint_format = serve->ckpt.format;
	opts->blocks = serve->first.blocks;
	opts->block_count = serve->first.block_count;
	opts->restore_version = set->restore_version;
	if (set->refound && !ol_conf_is_set(serve->settings.conf, "restore"))
		ol_logs_say(
			OL_LOG_WARN,
			"--refound without --restore: a chain that has lost all its replicas begins at "
			"version 0, whatever checkpoints there are: --restore freshest goes on from "
			"them");
	return 0;
}

/* Refuse to run alone if the settings ask for replicas. */
static int chain_check(struct serve *serve)
{
	static const char *const names[] = { "replicas", "replicate_every", "rank", "refound",
					     "job" };
	const struct ol_conf *conf = serve->settings.conf;

	if (serve->set.report_fd != 0) /* outlast train decides, not the environment */
		return 0;
	if (serve->set.coord.coordinator != NULL) {
		if (serve->set.durable.durability != OL_DURABILITY_CHAIN &&
		    ol_conf_is_set(conf, "durability"))
			return ol_settings_fail(&serve->settings, "durability",
						"does not go with --coordinator, which makes a "
						"chain: give one of the two; with --checkpoint a "
						"chain has checkpoints, too");
		return 0;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (ol_conf_is_set(conf, names[i]))
			return ol_settings_fail(&serve->settings, names[i], "needs --coordinator");
	}
	return 0;
}

static void chain_opts(const struct serve *serve, struct ol_server_opts *opts)
{
	const struct serve_set *set = &serve->set;

	opts->coordinator = set->coord.coordinator;
	opts->job = set->coord.job;
	opts->replicas = set->chain.replicas;
	opts->replicate_every = set->chain.replicate_every;
	opts->rank = set->rank;
	opts->refound = set->refound;
}

static int server_open(struct serve *serve)
{
	const struct serve_set *set = &serve->set;
	struct ol_server_opts opts;
	char err[512] = "", listen[OL_LISTEN_MAX];
	int rc;

	ol_server_opts_init(&opts);
	rc = ol_device_listen(set->listen, set->link.device, set->shard, listen, &opts.listen, err,
			      sizeof(err));
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "serve", err, NULL, ol_cmd_remedy(rc));
	opts.transport = ol_transport_name(set->transport.transport);
	opts.device = set->link.device;
	opts.job_key = serve->key;
	opts.param_count = serve->first.param_count;
	opts.tensors = serve->first.tensors;
	opts.init_worker = serve->first.is_workers;
	opts.shard = set->shard;
	opts.shard_count = set->servers;
	opts.consistency = set->rule.how.consistency;
	opts.wait = set->rule.how.wait;
	opts.wait_k = set->rule.how.k;
	opts.grace_ms = set->rule.how.grace_ms;
	opts.late = set->rule.how.late;
	opts.late_steps = set->rule.how.late_steps;
	opts.staleness = set->rule.how.staleness;
	opts.workers = set->workers;
	opts.workers_max = set->workers_max;
	if (opts.workers_max == 0)
		opts.workers_max = set->workers > OL_DEFAULT_WORKERS_MAX ? set->workers
									 : OL_DEFAULT_WORKERS_MAX;
	opts.observers_max = set->observers_max;
	opts.weights_bf16 = set->weights_bf16;
	opts.pin_timeout_ms = set->pin_timeout_ms;
	opts.slot_memory_max = set->slot_memory_mib << 20;
	opts.window = set->link.window;
	OL_SETTINGS_WIRE(&set->wire, &opts);
	opts.rule = ol_settings_rule(&set->rule);
	ol_settings_schedule(&set->rule, &opts);
	opts.shared_domain = (uint32_t)set->rule.isolation;
	opts.spin_us = set->link.spin_us;
	opts.threads = set->rule.threads;
	if (opts.workers > opts.workers_max)
		return ol_settings_fail(&serve->settings, "workers", "is above --workers-max");
	rc = durable_opts(serve, &opts);
	if (rc != 0)
		return rc;
	chain_opts(serve, &opts);
	opts.cancel_fd = serve->control.signal_fd;
	if (serve->set.sandbox)
		rc = sandbox_enter(serve);
	if (rc != 0)
		return rc;
	rc = ol_server_open(&opts, serve->first.weights, &serve->server, err, sizeof(err));
	ol_first_weights_free(&serve->first);
	if (rc == -ECANCELED)
		return ol_control_cancelled(&serve->control);
	if (rc != 0)
		return ol_cmd_error(opts.coordinator != NULL ? ol_cmd_exit_of_coord(rc)
							     : ol_cmd_exit_of(rc),
				    "serve", err, NULL, ol_cmd_remedy(rc));
	return 0;
}

/* Once it has its weights: report their source, and since when */
static void restored_say(struct serve *serve, const struct ol_server_stat *stat)
{
	static const char *const sources[] = { [OL_RESTORE_NONE] = "none",
					       [OL_RESTORE_CHECKPOINT] = "checkpoint",
					       [OL_RESTORE_MIRROR] = "mirror",
					       [OL_RESTORE_CHAIN] = "replica" };
	uint32_t from = stat->restored_from;
	json_t *what;

	if (serve->restored || stat->ready_ns == 0)
		return;
	serve->restored = true;
	if (from > OL_RESTORE_CHAIN || sources[from] == NULL)
		from = OL_RESTORE_NONE;
	if (serve->control.parent_fd < 0 &&
	    (from == OL_RESTORE_CHECKPOINT || from == OL_RESTORE_MIRROR))
		ol_logs_say(OL_LOG_INFO,
			    "server of shard %u goes on from version %" PRIu64 " of a %s",
			    serve->set.shard, stat->restored_version, sources[from]);
	what = json_pack("{s:s, s:I, s:I, s:I}", "from", sources[from], "version",
			 (json_int_t)stat->restored_version, "applied", (json_int_t)stat->applied,
			 "ready_ns", (json_int_t)stat->ready_ns);
	if (serve->set.durable.restore == OL_RESTORE_MIRROR ||
	    serve->set.durable.restore == OL_RESTORE_FRESHEST)
		json_object_set_new(what, "lacks", json_integer((json_int_t)stat->restored_lost));
	ol_control_say(&serve->control, "restored", what);
}

/*
 * True if no replica of the chain is left, so that this server waits for ever. Sessions get time to
 * be made again, as after a restart of the coordinator.
 */
static bool chain_gone(struct serve *serve, const struct ol_chain_info *info)
{
	uint64_t now_ns = ol_clock_ns();

	if (!info->connected || serve->set.refound || info->count == 0 ||
	    info->gone < info->count) {
		serve->gone_ns = 0;
		return false;
	}
	if (serve->gone_ns == 0)
		serve->gone_ns = now_ns;
	return now_ns - serve->gone_ns > GONE_LEASES * serve->set.lease.lease_ms * OL_NS_PER_MS;
}

/* Print the wait when it changes; the server itself repeats that it waits for the first view. */
static void wait_say(struct serve *serve, uint64_t id)
{
	struct ol_chain_info info;
	const struct waits_about about = { .shard = serve->set.shard,
					   .replicas = serve->set.chain.replicas,
					   .refound = serve->set.refound,
					   .id = id };
	char text[WAITS_TEXT_MAX];

	if (serve->chains == NULL || ol_chains_get(serve->chains, serve->set.shard, &info) != 0)
		return;
	if (chain_gone(serve, &info))
		waits_gone(&info, serve->set.shard, text);
	else
		waits_text(&info, &about, text);
	if (strcmp(text, serve->waits) != 0)
		ol_logs_say(OL_LOG_INFO, "%s", text);
	snprintf(serve->waits, sizeof(serve->waits), "%s", text);
}

/* Report a replica's counters to the parent, and its wait to a person. */
static void chain_look(struct serve *serve, const struct ol_server_stat *stat)
{
	uint64_t now_ns = ol_clock_ns();
	json_t *json;

	if (serve->set.coord.coordinator == NULL ||
	    (serve->said_ns != 0 && serve->views == stat->views &&
	     now_ns - serve->said_ns < STAT_MS * OL_NS_PER_MS))
		return;
	serve->said_ns = now_ns;
	serve->views = stat->views;
	if (serve->control.parent_fd < 0) {
		if (stat->role == OL_REPLICA_NONE)
			wait_say(serve, stat->replica);
		return;
	}
	json = ol_counters_json(stat);
	if (json != NULL)
		ol_control_say(&serve->control, "stat", json);
}

/* Watch orders and, with --exit-version, the version; ends when the server's loop has ended. */
static void *watch(void *arg)
{
	struct serve *serve = arg;
	struct ol_control *control = &serve->control;
	struct ol_server_stat stat;

	while (!atomic_load(&serve->done)) {
		ol_control_poll(control, serve->restored ? LOOK_MS : RESTORE_LOOK_MS);
		ol_server_get_stat(serve->server, &stat);
		service_look(&serve->service, &stat, serve->waits); /* lines have its fields */
		restored_say(serve, &stat);
		chain_look(serve, &stat);
		if (serve->set.exit_version != 0 && stat.version >= serve->set.exit_version &&
		    stat.workers == 0)
			control->stop_at = 0;
		if (control->quit || control->stop_at == 0) {
			service_ending(&serve->service, serve->ckpt.dir[0] != '\0');
			ol_server_stop(serve->server);
			break;
		}
	}
	return NULL;
}

static int ready_say(struct serve *serve)
{
	const char *addr = ol_server_addr(serve->server);
	char memory[MEMORY_TEXT_MAX];
	struct ol_server_stat stat;

	ol_server_get_stat(serve->server, &stat);
	ol_server_memory(serve->server, memory, sizeof(memory));
	if (serve->set.ready_fd != 0 && dprintf((int)serve->set.ready_fd, "%s\n", addr) < 0)
		return ol_cmd_error(OL_EXIT_USAGE, "serve", "cannot write to --ready-fd", NULL,
				    strerror(errno));
	if (serve->set.ready_fd != 0)
		close((int)serve->set.ready_fd);
	service_ready(&serve->service, &stat, serve->set.lease.lease_ms);
	if (serve->control.parent_fd >= 0) {
		ol_control_say(&serve->control, "ready",
			       json_pack("{s:s, s:s, s:I}", "address", addr, "memory", memory,
					 "replica", (json_int_t)stat.replica));
		return 0;
	}
	ol_logs_say(OL_LOG_INFO, "server at %s: shard %u of %u, %" PRIu64 " parameters in all; %s",
		    addr, serve->set.shard, serve->set.servers, serve->first.param_count, memory);
	if (serve->first.is_workers)
		ol_logs_say(OL_LOG_INFO,
			    "its first weights are those of worker 0, or the newest that a worker "
			    "of the job has");
	return 0;
}

static int summary(struct serve *serve)
{
	struct ol_server_stat stat;
	json_t *json;
	int rc = 0;

	ol_server_get_stat(serve->server, &stat);
	json = ol_counters_json(&stat);
	if (serve->set.json != NULL &&
	    (json == NULL || json_dump_file(json, serve->set.json, JSON_INDENT(2)) != 0))
		rc = ol_cmd_error(OL_EXIT_FAILED, "serve", "cannot write", serve->set.json,
				  strerror(errno));
	ol_control_say(&serve->control, "done", json);
	if (serve->control.parent_fd < 0)
		printf("version %" PRIu64 ", %" PRIu64 " gradients applied, %" PRIu64
		       " not finite, %" PRIu64 " late, %" PRIu64 " duplicates, %.1f MB received, "
		       "%" PRIu64 " refused, %" PRIu64 " violations; longest turn %.1f ms\n",
		       stat.version, stat.applied, stat.dropped_nonfinite, stat.dropped_late,
		       stat.duplicates, (double)stat.bytes_in / 1e6, stat.refused, stat.violations,
		       (double)stat.turn_max_ns / 1e6);
	return rc;
}

/* Fail if the last versions are in no checkpoint, as none could be written. A job's launcher checks
 * that itself. */
static int checkpoints_check(const struct serve *serve)
{
	struct ol_server_stat stat;
	char text[160];

	ol_server_get_stat(serve->server, &stat);
	if (serve->set.coord.coordinator != NULL && stat.role != OL_REPLICA_TAIL &&
	    stat.role != OL_REPLICA_ONLY)
		return 0; /* the tail's are the last */
	if (serve->control.parent_fd >= 0 || stat.checkpoints_failed == 0 ||
	    (stat.checkpoints != 0 && stat.checkpoint_version == stat.version))
		return 0;
	if (stat.checkpoints == 0)
		snprintf(text, sizeof(text),
			 "none of %" PRIu64 " checkpoints could be written; the server ended at "
			 "version %" PRIu64,
			 stat.checkpoints_failed, stat.version);
	else
		snprintf(text, sizeof(text),
			 "the last checkpoint could not be written: the newest is of version "
			 "%" PRIu64 ", the server ended at %" PRIu64,
			 stat.checkpoint_version, stat.version);
	return ol_cmd_error(OL_EXIT_FAILED, "serve", text, serve->ckpt.dir,
			    "the log says why each failed");
}

/* Watch the chains only to say what the server waits for; a failure does no harm. */
static void chains_open(struct serve *serve)
{
	const struct serve_set *set = &serve->set;
	char err[256] = "";

	if (ol_chains_open(set->coord.coordinator, set->coord.job, serve->key, set->servers,
			   CHAINS_TIMEOUT_MS, &serve->chains, err, sizeof(err)) != 0)
		ol_logs_say(
			OL_LOG_WARN,
			"outlast serve: the coordinator is not read a second time, so lines on what "
			"the server waits for are missing; it serves all the same: %s",
			err);
}

static int serve_run(struct serve *serve)
{
	pthread_t watcher;
	int rc = ready_say(serve), exit_code;

	if (rc != 0)
		return rc;
	if (serve->set.coord.coordinator != NULL && serve->control.parent_fd < 0)
		chains_open(serve);
	rc = pthread_create(&watcher, NULL, watch, serve);
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, "serve", "cannot start a thread", NULL,
				    strerror(rc));
	rc = ol_server_run(serve->server);
	atomic_store(&serve->done, 1);
	pthread_join(watcher, NULL);
	exit_code = summary(serve);
	if (rc == OL_E_FENCED)
		return ol_cmd_error(OL_EXIT_FENCED, "serve", ol_server_addr(serve->server), NULL,
				    serve->set.coord.coordinator == NULL
					    ? ol_strerror(rc)
					    : "its chain went on without it, or it stood still or "
					      "reached no coordinator for longer than its lease; "
					      "started again it joins behind the others");
	if (rc == OL_E_DEVICE)
		return ol_cmd_error(ol_cmd_exit_of(rc), "serve", ol_server_addr(serve->server),
				    "its RDMA device was reset or taken away",
				    serve->set.coord.coordinator == NULL
					    ? "started again with --restore it goes on"
					    : "started again it joins behind the others");
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "serve", "the server failed",
				    ol_strerror(rc), NULL);
	rc = checkpoints_check(serve);
	return exit_code != 0 ? exit_code : rc;
}

static int first_make(struct serve *serve)
{
	const struct serve_set *set = &serve->set;
	const struct ol_first_set first = { .model = &set->model,
					    .data_shape = set->data_shape,
					    .init = set->init,
					    .params = set->params,
					    .shard = set->shard,
					    .servers = set->servers,
					    .optimizer = set->rule.optimizer,
					    .nonfinite = set->rule.nonfinite != 0 };

	return ol_first_make(&serve->settings, &first, &serve->first);
}

static int serve_start(struct serve *serve)
{
	struct serve_set *set = &serve->set;
	int rc;

	/* roles in a chain are logged as information, and a person wants to see them */
	if (set->coord.coordinator != NULL && set->report_fd == 0 &&
	    !ol_conf_is_set(serve->settings.conf, "log"))
		set->link.log = OL_LOG_INFO;
	ol_log_level_set((enum ol_log_level)set->link.log);
	ol_logs_set((enum ol_log_format)set->link.log_format);
	service_start(&serve->service, set->report_fd == 0, set->shard, set->servers,
		      set->coord.coordinator != NULL);
	rc = chain_check(serve);
	if (rc == 0)
		rc = ol_settings_rule_check(&serve->settings, &set->rule, set->workers,
					    set->servers);
	if (rc == 0)
		rc = ol_job_key_read("serve", &set->key, serve->key);
	if (rc != 0)
		return rc;
	rc = ol_control_init(&serve->control, set->report_fd != 0 ? (int)set->report_fd : -1);
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "serve", "cannot use --report-fd", NULL,
				    ol_strerror(rc));
	if (set->life_fd != 0)
		serve->control.life_fd = (int)set->life_fd;
	rc = first_make(serve);
	if (rc == 0)
		rc = server_open(serve);
	if (rc != 0)
		return rc;
	if (serve->key[0] == '\0')
		ol_logs_say(OL_LOG_WARN,
			    "outlast serve: no job key: anyone who can reach %s can join; give "
			    "--job-key-file or OUTLAST_JOB_KEY",
			    ol_server_addr(serve->server));
	return serve_run(serve);
}

int cmd_serve(int argc, char **argv)
{
	struct serve serve = {
		.settings = { .cmd = "serve",
			      .spec = { .program = "outlast serve",
					.purpose =
						"Holds one shard of a job's parameters: takes "
						"gradients from workers and makes steps of them, "
						"until SIGTERM, SIGINT or SIGHUP. Model, data set (or its "
						"shape) and seed fix the geometry and the first "
						"weights, or --params and --init do for a program "
						"that trains a model of its own; they are to be "
						"the same for every process of the job.",
					.examples = examples } },
		.control = { .signal_fd = -1, .parent_fd = -1 },
		.service = { .notify = { .fd = -1 } },
	};
	struct ol_settings *settings = &serve.settings;
	int rc;

	ol_settings_add(settings, serve_rows, 0);
	ol_settings_add(settings, ol_rows_model, offsetof(struct serve_set, model));
	ol_settings_add(settings, ol_rows_rule, offsetof(struct serve_set, rule));
	ol_settings_add(settings, ol_rows_durable, offsetof(struct serve_set, durable));
	ol_settings_add(settings, ol_rows_restore_first, offsetof(struct serve_set, durable));
	ol_settings_add(settings, ol_rows_lease, offsetof(struct serve_set, lease));
	ol_settings_add(settings, ol_rows_coord, offsetof(struct serve_set, coord));
	ol_settings_add(settings, ol_rows_chain, offsetof(struct serve_set, chain));
	ol_settings_add(settings, replica_rows, 0);
	ol_settings_add(settings, ol_rows_link, offsetof(struct serve_set, link));
	ol_settings_add(settings, ol_rows_wire, offsetof(struct serve_set, wire));
	ol_settings_add(settings, ol_rows_transport, offsetof(struct serve_set, transport));
	ol_settings_add(settings, ol_rows_key, offsetof(struct serve_set, key));
	if (ol_settings_load(settings, &serve.set, argc, argv, &rc))
		rc = serve_start(&serve);
	ol_server_close(serve.server);
	ol_first_fini(&serve.first);
	ol_chains_close(serve.chains);
	ol_control_fini(&serve.control);
	service_end(&serve.service);
	ol_settings_fini(settings);
	explicit_bzero(serve.key, sizeof(serve.key));
	return rc;
}
