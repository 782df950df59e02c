/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train.c -- `outlast train`: a whole job on this machine
 */
#include "outlast/train.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
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

static const struct ol_conf_choice recoveries[] = {
	{ "partial", TRAIN_RECOVERY_PARTIAL },
	{ "full", TRAIN_RECOVERY_FULL },
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
	  .help = "processes that hold the weights, a shard each; with --durability chain shards, "
		  "of --replicas processes each",
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
	{ .name = "pace",
	  .dflt = "0",
	  .help = "at most so many gradients a second a worker; 0: as many as it can",
	  .offset = offsetof(struct train_set, pace),
	  .type = OL_CONF_F64,
	  .f64_min = 0.0,
	  .f64_max = 1e6 },
	{ .name = "eval_every",
	  .dflt = "250",
	  .help = "steps between evaluations on the test set; 0: only at the end",
	  .offset = offsetof(struct train_set, eval_every),
	  .type = OL_CONF_U64 },
	{ .name = "eval_seconds",
	  .dflt = "0",
	  .help = "seconds between evaluations instead; 0: --eval-every",
	  .offset = offsetof(struct train_set, eval_seconds),
	  .type = OL_CONF_F64,
	  .f64_min = 0.0,
	  .f64_max = 1e6 },
	{ .name = "json",
	  .dflt = NULL,
	  .help = "file for the report",
	  .offset = offsetof(struct train_set, json),
	  .type = OL_CONF_STR },
	{ .name = "timeline",
	  .dflt = NULL,
	  .help = "file for the course of the training: CSV, a row every --timeline-ms",
	  .offset = offsetof(struct train_set, timeline),
	  .type = OL_CONF_STR },
	{ .name = "timeline_ms",
	  .dflt = "250",
	  .help = "milliseconds between two rows of the time line",
	  .offset = offsetof(struct train_set, timeline_ms),
	  .type = OL_CONF_U32,
	  .min = 10,
	  .max = 3600000 },
	{ .name = "kill",
	  .dflt = NULL,
	  .help = "processes to lose: TARGET@WHEN[:down=DURATION][:signal=KILL|STOP], with commas "
		  "between; TARGET serverN or workerN, of a chain head, middle or tail (head1: of "
		  "shard 1); WHEN 30s, 200steps or loss<0.8; down: until it is started again (STOP: "
		  "woken up), at once without it",
	  .offset = offsetof(struct train_set, kill),
	  .type = OL_CONF_STR },
	{ .name = "coordinator",
	  .dflt = NULL,
	  .help = "chain: where views are, dir:PATH or zk:HOST:PORT,... (ZooKeeper), instead of a "
		  "folder of this job's own",
	  .offset = offsetof(struct train_set, coordinator),
	  .type = OL_CONF_STR },
	{ .name = "restarts",
	  .dflt = "3",
	  .help = "how many processes that die unasked are started again; 0: the job ends",
	  .offset = offsetof(struct train_set, restarts),
	  .type = OL_CONF_U32,
	  .max = TRAIN_RESTARTS_MAX },
	{ .name = "resume",
	  .dflt = "false",
	  .help = "go on with the job whose checkpoints are in the folder of --checkpoint",
	  .offset = offsetof(struct train_set, resume),
	  .type = OL_CONF_BOOL },
	{ .name = "recovery",
	  .dflt = "partial",
	  .help = "of several servers one is lost: partial: it alone goes back to what --restore "
		  "says; full: all go back to the newest checkpoint that all have",
	  .offset = offsetof(struct train_set, recovery),
	  .type = OL_CONF_CHOICE,
	  .choices = recoveries },
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
	"report.json\n"
	"  outlast train --seconds 120 --outage continue --kill server0@30s:down=20s,"
	"server0@80s:down=20s --timeline run.csv\n"
	"  outlast train --durability checkpoint --checkpoint every=100steps,dir=ckpt --steps "
	"20000 --resume\n"
	"  outlast train --durability chain --replicas 3 --seconds 60 --kill head@20s,tail@40s:down=5s\n";

/* Gradients; 0: that is decided step by step */
static double step_takes(const struct train *train)
{
	const struct ol_consistency_set *how = &train->set.rule.how;

	if (!train_is_sync(train))
		return 1.0;
	if (how->wait == OL_WAIT_ALL)
		return train->set.workers;
	return how->wait == OL_WAIT_FIXED ? how->k : 0.0;
}

/* How gradients become steps, and how long they are made to take */
static int pace_check(struct train *train)
{
	struct train_set *set = &train->set;
	struct ol_delay delay;
	char err[OL_DELAY_ERR_MAX] = "";
	uint32_t slow;
	int rc = ol_settings_rule_check(&train->settings, &set->rule, set->workers, set->servers);

	if (rc != 0)
		return rc;
	if (set->epochs > 0.0 && step_takes(train) <= 0.0)
		return ol_settings_fail(&train->settings, "epochs",
					"cannot be turned into steps, whose gradients this "
					"--consistency decides: give --steps or --seconds");
	if (ol_delay_parse(set->late.delay, &delay, err, sizeof(err)) != 0)
		return ol_settings_fail(&train->settings, "delay", err);
	slow = delay.slow ? delay.slow_workers : 0;
	ol_delay_fini(&delay);
	if (slow > set->workers)
		return ol_settings_fail(&train->settings, "delay",
					"slows more workers than --workers says there are");
	return 0;
}

static int sizes_decide(struct train *train)
{
	const struct train_set *set = &train->set;
	double a_step = (double)set->batch * step_takes(train);
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
static int file_check(const char *what, const char *path)
{
	char dir[OL_VALUE_MAX];
	char *slash;

	if (path == NULL || access(path, W_OK) == 0)
		return 0;
	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash != NULL)
		slash[slash == dir ? 1 : 0] = '\0';
	if (access(path, F_OK) != 0 && access(slash != NULL ? dir : ".", W_OK) == 0)
		return 0;
	return ol_cmd_error(OL_EXIT_USAGE, "train", what, path, strerror(errno));
}

/* Why a kill cannot be in this job; "": it can */
static void kill_check(const struct train *train, const struct ol_kill *kill, char *why,
		       size_t why_bytes)
{
	const struct train_set *set = &train->set;
	bool server = kill->target != OL_KILL_WORKER;
	bool chain = set->durable.durability == OL_DURABILITY_CHAIN;

	why[0] = '\0';
	if (ol_kill_of_chain(kill) && !chain)
		snprintf(why, why_bytes, "needs --durability chain");
	else if (kill->target == OL_KILL_SERVER && chain)
		snprintf(why, why_bytes,
			 "is one of several: with --durability chain give head%u, middle%u or "
			 "tail%u",
			 kill->index, kill->index, kill->index);
	else if (kill->index >= (server ? set->servers : set->workers))
		snprintf(why, why_bytes, "is not below --%s", server ? "servers" : "workers");
	else if (kill->target == OL_KILL_MIDDLE && set->chain.replicas < 3)
		snprintf(why, why_bytes, "needs --replicas 3 or more: a chain of %u has no middle",
			 set->chain.replicas);
	else if (server && !chain && kill->signo == SIGKILL && set->outage.outage_timeout > 0.0 &&
		 (double)kill->down_ns >= set->outage.outage_timeout * 1e9)
		snprintf(why, why_bytes, "is down for longer than --outage-timeout");
}

/* Does the schedule fit the job? */
static int kills_check(struct train *train)
{
	const struct train_set *set = &train->set;
	char err[OL_KILL_TEXT_MAX + 128] = "", why[96];

	if (ol_kills_parse(set->kill, &train->kills, err, sizeof(err)) != 0) {
		size_t len = strlen(set->kill);
		bool whole = strncmp(err + 1, set->kill, len) == 0 && err[len + 1] == '"';

		/* the value is shown as it is: an entry that is all of it is not shown twice */
		return ol_settings_fail(&train->settings, "kill", whole ? err + len + 3 : err);
	}
	for (uint32_t i = 0; i < train->kills.count; i++) {
		const struct ol_kill *kill = &train->kills.list[i];

		kill_check(train, kill, why, sizeof(why));
		if (why[0] == '\0')
			continue;
		snprintf(err, sizeof(err), "\"%s\" %s", kill->text, why);
		return ol_settings_fail(&train->settings, "kill",
					strcmp(kill->text, set->kill) == 0 ? why : err);
	}
	return 0;
}

/* Of the job's checkpoints in a folder */
struct saved {
	unsigned count;
	uint32_t epoch; /* the newest */
	uint32_t shards; /* the highest, plus one */
	uint32_t seen; /* bit i: there is one of shard i */
};

static struct saved folder_look(const char *dir, uint64_t job_id)
{
	DIR *list = opendir(dir);
	const struct dirent *entry;
	struct saved saved = { 0 };

	while (list != NULL && (entry = readdir(list)) != NULL) {
		const char *name = entry->d_name;
		uint64_t id;
		uint32_t shard, epoch;

		/* full ones, and running ones */
		if ((sscanf(name, "ckpt-%" SCNx64 "-s%" SCNu32 "-e%" SCNu32, &id, &shard, &epoch) !=
			     3 &&
		     sscanf(name, "run-%" SCNx64 "-s%" SCNu32 "-e%" SCNu32, &id, &shard, &epoch) !=
			     3) ||
		    id != job_id || shard >= TRAIN_SERVERS_MAX)
			continue;
		saved.count++;
		saved.seen |= UINT32_C(1) << shard;
		if (epoch > saved.epoch)
			saved.epoch = epoch;
		if (shard >= saved.shards)
			saved.shards = shard + 1;
	}
	if (list != NULL)
		closedir(list);
	return saved;
}

/* Are they of as many shards as there are to be servers? Else each server would refuse its own. */
static int shards_check(struct train *train, const struct saved *saved)
{
	uint32_t servers = train->set.servers, missing = 0;
	char why[OL_CKPT_FOLDER_MAX + 160];

	while (missing < servers && (saved->seen >> missing & 1) != 0)
		missing++;
	if (missing == servers && saved->shards == servers)
		return 0;
	if (saved->shards == servers) /* one of them has none, whatever the others have */
		snprintf(why, sizeof(why),
			 "finds no checkpoint of server %u in %s: put it there, or begin anew in "
			 "another folder",
			 missing, train->ckpt.dir);
	else
		snprintf(why, sizeof(why),
			 "finds checkpoints of %u server%s in %s, and --servers is %u: give "
			 "--servers %u, or begin anew in another folder",
			 saved->shards, saved->shards > 1 ? "s" : "", train->ckpt.dir, servers,
			 saved->shards);
	return ol_settings_fail(&train->settings, "resume", why);
}

static int folder_make(struct train *train)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(train->ckpt.dir, sizeof(train->ckpt.dir), "%.1900s/outlast-ckpt-XXXXXX",
		 tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
	train->ckpt_own = mkdtemp(train->ckpt.dir) != NULL;
	if (train->ckpt_own)
		return 0;
	return ol_cmd_error(OL_EXIT_RESOURCES, "train", "cannot make a folder for checkpoints",
			    train->ckpt.dir, strerror(errno));
}

/* One job at a time: the lock ends with this process, whatever ends it. */
static int folder_lock(struct train *train)
{
	const char *dir = train->ckpt.dir;

	if (mkdir(dir, 0777) != 0 && errno != EEXIST)
		return ol_cmd_error(OL_EXIT_USAGE, "train",
				    "cannot make the folder of --checkpoint (its parent must be "
				    "there)",
				    dir, strerror(errno));
	train->ckpt_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (train->ckpt_fd < 0)
		return ol_cmd_error(OL_EXIT_USAGE, "train",
				    "cannot open the folder of --checkpoint", dir, strerror(errno));
	if (flock(train->ckpt_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
		return ol_cmd_error(OL_EXIT_USAGE, "train",
				    "another job writes its checkpoints into the folder", dir,
				    "give it a folder of its own, or wait until it has ended");
	return 0;
}

/* What was left by another run of this job is either wanted or in the way. */
static int durable_check(struct train *train)
{
	const struct train_set *set = &train->set;
	struct ol_settings *settings = &train->settings;
	struct saved saved;
	int rc = ol_settings_durable_check(settings, &set->durable, &train->ckpt);

	if (rc == 0)
		rc = train_recover_check(train);
	if (rc != 0)
		return rc;
	if (set->resume &&
	    (set->durable.durability != OL_DURABILITY_CHECKPOINT || train->ckpt.dir[0] == '\0'))
		return ol_settings_fail(settings, "resume",
					"needs --durability checkpoint and --checkpoint dir=DIR");
	if (set->durable.durability != OL_DURABILITY_CHECKPOINT)
		return 0;
	if (train->ckpt.dir[0] == '\0')
		return folder_make(train);
	rc = folder_lock(train);
	if (rc != 0)
		return rc;
	saved = folder_look(train->ckpt.dir, ol_job_id(&set->model, set->rule.optimizer));
	if (saved.count > 0 && !set->resume)
		return ol_settings_fail(settings, "checkpoint",
					"names a folder with checkpoints of this very job: give "
					"--resume, or another folder");
	if (saved.count == 0 && set->resume)
		return ol_cmd_error(OL_EXIT_USAGE, "train",
				    "--resume: finds no checkpoint of this job (model, data set, "
				    "seed, optimizer)",
				    train->ckpt.dir, "give the folder of one as dir=");
	for (uint32_t i = 0; i < set->servers; i++)
		train->servers[i].first_epoch = saved.epoch + 1;
	return set->resume ? shards_check(train, &saved) : 0;
}

/* The folder that folder_make() made, with what servers wrote into it */
static void folder_remove(const char *dir)
{
	DIR *list = opendir(dir);
	const struct dirent *entry;

	while (list != NULL && (entry = readdir(list)) != NULL)
		(void)unlinkat(dirfd(list), entry->d_name, 0); /* "." and ".." are refused */
	if (list != NULL)
		closedir(list);
	(void)rmdir(dir);
}

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
	int rc = pace_check(train);

	if (rc == 0)
		rc = train_chain_check(train);
	if (rc == 0)
		rc = kills_check(train);
	if (rc == 0)
		rc = file_check("cannot write --json", train->set.json);
	if (rc == 0)
		rc = file_check("cannot write --timeline", train->set.timeline);
	if (rc == 0)
		rc = job_open(train);
	if (rc == 0)
		rc = train_model_check(train);
	if (rc == 0)
		rc = sizes_decide(train);
	if (rc == 0)
		rc = durable_check(train);
	if (rc == 0)
		rc = train_timeline_open(train);
	if (rc == 0)
		rc = key_make(train);
	if (rc == 0)
		rc = ol_cmd_signals("train", &train->signal_fd);
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
		int wait_ms = train_outages_wait_ms(train, train_timeline_wait_ms(train, TICK_MS));
		uint64_t now_ns;

		train_turn(train, train_evaluating(train) ? 0 : wait_ms);
		now_ns = ol_clock_ns();
		if (end_ns != 0 && now_ns - train->go_ns >= end_ns)
			train_stop(train);
		if (train->killed && now_ns - train->quit_ns > END_MAX_MS * OL_NS_PER_MS) {
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

/* The workers may have found a server that is back before this process has. */
static int weights_wait(struct train *train)
{
	uint64_t bound_ns = ol_clock_ns() + END_MAX_MS * OL_NS_PER_MS;
	int rc = train_evaluate(train);

	while (rc == OL_E_NO_SERVER && train->exit_code == 0 && ol_clock_ns() < bound_ns) {
		train_turn(train, 1);
		(void)ol_worker_poll(train->observer);
		rc = train_evaluate(train);
	}
	return rc;
}

/* The last weights, while the servers are still there */
static void weights_look(struct train *train)
{
	const float *weights;
	int rc;

	if (train->observer == NULL)
		return;
	train_stat_read(train);
	rc = weights_wait(train);
	weights = rc == 0 ? ol_weights(train->observer, &train->final_version) : NULL;
	if (rc == 0)
		rc = ol_job_fingerprint(train->job, weights, train->sha256);
	if (rc == 0)
		train_model_look(train, weights);
	train->final = rc == 0;
	if (rc == 0)
		train_contained_take(train);
	if (rc == 0 && train->set.resume && train->steps != 0 && train_counts(train).computed == 0)
		train_say(train,
			  "nothing is left to do: the checkpoint is of step %" PRIu64
			  ", and --steps asks for %" PRIu64,
			  train->final_version, train->steps);
	if (rc == 0 && train->exit_code == 0 && train->signal == 0 &&
	    train->final_version < train_version_wanted(train)) {
		train_say(train,
			  "outlast train: a server was lost when all workers had left, and the "
			  "weights are thrown back to version %" PRIu64 " of %" PRIu64,
			  train->final_version, train_version_wanted(train));
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
		/* who is stopped cannot end; who was replaced is to find out by itself */
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
	train_outages_close(train);
	train->accounted = train_accounts_check(train);
	if (!train->accounted && train->exit_code == 0)
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
	if (train->ckpt_own)
		folder_remove(train->ckpt.dir);
	json_decref(train->evals);
	ol_job_close(train->job);
	if (train->signal_fd >= 0)
		close(train->signal_fd);
	if (train->ckpt_fd >= 0)
		close(train->ckpt_fd);
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
	train->ckpt_fd = -1;
	train->accuracy = -1.0;
	train->loss = (double)NAN;
	for (uint32_t i = 0; i < TRAIN_HOLDERS_MAX; i++)
		train->servers[i].first_epoch = 1;
	train->tty = isatty(STDERR_FILENO) == 1;
	train->evals = json_array();
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
	ol_settings_add(settings, ol_rows_link, offsetof(struct train_set, link));
	if (ol_settings_load(settings, &train->set, argc, argv, &rc))
		rc = train_run(train);
	train_fini(train);
	return rc;
}
