/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * check.c -- checks the settings of a job; its data, its length, its checkpoint folder
 */
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
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "train/parts.h"

/* Gradients a step; 0: decided step by step */
static double step_takes(const struct train *train)
{
	const struct ol_consistency_set *how = &train->set.rule.how;

	if (!train_is_sync(train))
		return 1.0;
	if (how->wait == OL_WAIT_ALL)
		return train->set.workers;
	return how->wait == OL_WAIT_FIXED ? how->k : 0.0;
}

/* Check how gradients become steps, and their delays */
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

static int files_check(struct train *train)
{
	int rc = file_check("cannot write --json", train->set.json);

	return rc != 0 ? rc : file_check("cannot write --timeline", train->set.timeline);
}

/* Why a kill is not possible in this job; "": it is */
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
		snprintf(why, why_bytes, "is not below --%s %u", server ? "servers" : "workers",
			 server ? set->servers : set->workers);
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

		/* the value is shown anyway: an entry that is the whole value is not repeated */
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

/* The job's checkpoints in a folder */
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

/* Check that they are of as many shards as there are servers. Otherwise each server would refuse its
 * own. */
static int shards_check(struct train *train, const struct saved *saved)
{
	uint32_t servers = train->set.servers, missing = 0;
	char why[OL_CKPT_FOLDER_MAX + 160];

	while (missing < servers && (saved->seen >> missing & 1) != 0)
		missing++;
	if (missing == servers && saved->shards == servers)
		return 0;
	if (saved->shards == servers) /* a shard has none */
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
	train->folder_own = mkdtemp(train->ckpt.dir) != NULL;
	if (train->folder_own)
		return 0;
	return ol_cmd_error(OL_EXIT_RESOURCES, "train", "cannot make a folder for checkpoints",
			    train->ckpt.dir, strerror(errno));
}

/* Servers refuse a folder that another user can change; said here, before there is a server */
static int folder_trust(const struct train *train)
{
	struct stat stat;

	if (fstat(train->folder_fd, &stat) != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "train",
				    "cannot examine the folder of --checkpoint", train->ckpt.dir,
				    strerror(errno));
	if (stat.st_uid != geteuid() && stat.st_uid != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "train",
				    "the folder of --checkpoint belongs to another user",
				    train->ckpt.dir, "chown it, or give one of your own");
	if ((stat.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return ol_cmd_error(
			OL_EXIT_USAGE, "train", "other users can write the folder of --checkpoint",
			train->ckpt.dir, "chmod go-w it, or give one that is not there");
	return 0;
}

/* One job at a time: the lock ends with this process, whatever ends it. */
static int folder_lock(struct train *train)
{
	const char *dir = train->ckpt.dir;

	/* the mode again, as the umask may have taken rights that the job needs */
	train->folder_new = mkdir(dir, 0700) == 0;
	if (train->folder_new ? chmod(dir, 0700) != 0 : errno != EEXIST)
		return ol_cmd_error(OL_EXIT_USAGE, "train",
				    "cannot make the folder of --checkpoint (its parent must be "
				    "there)",
				    dir, strerror(errno));
	train->folder_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (train->folder_fd < 0)
		return ol_cmd_error(OL_EXIT_USAGE, "train",
				    "cannot open the folder of --checkpoint", dir, strerror(errno));
	if (flock(train->folder_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
		return ol_cmd_error(OL_EXIT_USAGE, "train",
				    "another job writes its checkpoints into the folder", dir,
				    "give it a folder of its own, or wait until it has ended");
	return folder_trust(train);
}

/* Checkpoints of an earlier run of this job need --resume, or are refused. */
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
	if (set->resume && (!train_saves(train) || train->ckpt.dir[0] == '\0'))
		return ol_settings_fail(settings, "resume",
					"needs --durability checkpoint, or chain, and --checkpoint "
					"dir=DIR");
	if (!train_saves(train))
		return 0;
	if (set->chain.replicate_every != 0)
		return ol_settings_fail(settings, "replicate_every",
					"is not for --checkpoint: only a strict chain, whose "
					"versions are committed, has checkpoints");
	if (train->ckpt.by == OL_CHECKPOINT_BY_EACH)
		return ol_settings_fail(settings, "checkpoint",
					"asks each replica to write (by=each): that takes a folder "
					"each, and the servers of train share one");
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
	for (uint32_t i = 0; i < train_holders(train); i++)
		train->servers[i].first_epoch = saved.epoch + 1;
	return set->resume ? shards_check(train, &saved) : 0;
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

/* Remove the folder that folder_make() made, with the servers' files */
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

int train_check(struct train *train)
{
	static int (*const checks[])(struct train *) = {
		train_save_check, pace_check,        train_chain_check, kills_check,   files_check,
		job_open,         train_model_check, sizes_decide,      durable_check,
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(checks) / sizeof(checks[0]); i++)
		rc = checks[i](train);
	return rc;
}

void train_check_fini(struct train *train)
{
	if (train->folder_own)
		folder_remove(train->ckpt.dir);
	else if (train->folder_new && train->set.check)
		(void)rmdir(train->ckpt.dir);
	if (train->folder_fd >= 0)
		close(train->folder_fd);
}
