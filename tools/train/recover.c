/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * recover.c -- full recovery: when a server is lost, all servers go back to one version
 *
 * Live servers are killed. When the last has ended no further checkpoint appears. Then all servers
 * are restarted from the newest version that every shard has. Newer checkpoints are removed, as
 * they would be taken for the history that begins now (rollback.h). If a server finds its file
 * damaged it takes an older one; then all go back to that version, or further.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "train/parts.h"
#include "train/rollback.h"

/* List the job's checkpoints in its folder; the caller frees the list. 0 or an errno */
static int saved_list(const struct train *train, struct ol_saved **ret_list, size_t *ret_count)
{
	uint64_t job_id = ol_job_id(&train->set.model, train->set.rule.optimizer);
	DIR *dir = opendir(train->ckpt.dir);
	struct ol_saved *list = NULL, one;
	const struct dirent *entry;
	size_t count = 0, room = 0;
	int rc = 0;

	*ret_list = NULL;
	*ret_count = 0;
	if (dir == NULL)
		return errno;
	while (rc == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
		if (!ol_saved_name(entry->d_name, job_id, &one) || one.shard >= train->set.servers)
			continue;
		if (count == room) {
			struct ol_saved *more =
				reallocarray(list, room = room * 2 + 64, sizeof(*list));

			if (more == NULL) {
				rc = ENOMEM;
				break;
			}
			list = more;
		}
		list[count++] = one;
	}
	rc = rc == 0 ? errno : rc;
	closedir(dir);
	*ret_list = list;
	*ret_count = count;
	return rc;
}

static void saved_remove(struct train *train, const struct ol_saved *saved)
{
	char path[OL_CKPT_FOLDER_MAX + OL_SAVED_NAME_MAX];

	snprintf(path, sizeof(path), "%s/%s", train->ckpt.dir, saved->name);
	if (unlink(path) != 0 && errno != ENOENT)
		train_say(&train->screen, "outlast train: cannot remove %s: %s", path,
			  strerror(errno));
}

static struct ol_line line_of(const struct train_roll *roll, uint32_t shards)
{
	return (struct ol_line){ .version = roll->version,
				 .shards = shards,
				 .epochs = roll->epochs };
}

/* Remove checkpoints after the version that all go back to, and those of dead histories. No server
 * lives. */
static void newer_remove(struct train *train, const struct ol_saved *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (list[i].dead || list[i].version > train->roll.version)
			saved_remove(train, &list[i]);
	}
}

/*
 * Find the version that all go on from: the newest up to `bound` that every shard has in the
 * present history; 0: the first weights. Returns an exit code
 */
static int line_begin(struct train *train, uint64_t bound, bool clean)
{
	const struct ol_line line = line_of(&train->roll, train->set.servers);
	struct ol_saved *list;
	size_t count;
	int rc = saved_list(train, &list, &count);

	if (rc == 0) {
		train->roll.version = ol_saved_common(list, count, &line, bound);
		if (clean)
			newer_remove(train, list, count);
	}
	free(list);
	if (rc == 0)
		return 0;
	return ol_cmd_error(OL_EXIT_RESOURCES, "train", "cannot read the folder of checkpoints",
			    train->ckpt.dir, strerror(rc));
}

void train_recover_sweep(struct train *train)
{
	const struct ol_line line = line_of(&train->roll, train->set.servers);
	uint64_t oldest = UINT64_MAX;
	struct ol_saved *list;
	size_t count;

	if (!train_recovers_all(train) || train->roll.on)
		return;
	if (saved_list(train, &list, &count) != 0)
		count = 0; /* the servers log the folder's fault */
	for (uint32_t i = 0; i < train->ckpt.keep && oldest != 0; i++)
		oldest = ol_saved_common(list, count, &line, oldest - 1);
	for (size_t i = 0; i < count; i++) {
		if (list[i].version < oldest && !list[i].dead)
			saved_remove(train, &list[i]);
	}
	free(list);
}

int train_recover_check(struct train *train)
{
	const struct train_set *set = &train->set;
	struct ol_settings *settings = &train->settings;

	if (!train_recovers_all(train))
		return 0;
	if (set->durable.durability != OL_DURABILITY_CHECKPOINT)
		return ol_settings_fail(settings, "recovery", "needs --durability checkpoint");
	if (train->ckpt.selection != OL_SELECT_FULL)
		return ol_settings_fail(settings, "recovery",
					"goes back to one version of all: that needs full "
					"checkpoints, not a running one");
	if (train->ckpt.steps == 0 && set->servers > 1)
		return ol_settings_fail(settings, "recovery",
					"goes back to one version of all, and checkpoints by time "
					"are of different ones: give every=100steps");
	if (set->durable.restore != OL_RESTORE_CHECKPOINT &&
	    ol_conf_is_set(settings->conf, "restore"))
		return ol_settings_fail(settings, "restore",
					"cannot be with --recovery full, which goes back to "
					"checkpoints");
	if (ol_conf_set(settings->conf, "restore", "checkpoint") != 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, "train", "no memory for a setting",
				    "restore", NULL);
	return 0;
}

void train_recover_begin(struct train *train, uint64_t bound)
{
	train->roll.on = true;
	train->roll.bound = bound;
	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct train_server *server = &train->servers[i];

		if (!ol_proc_lives(&server->proc))
			continue;
		server->life.rolled = true;
		server->life.state = TRAIN_KILLED;
		ol_proc_kill(&server->proc, SIGKILL);
	}
}

void train_recover_older(struct train *train, uint64_t version)
{
	if (train_goes(train))
		train_recover_begin(train, version);
	else if (version < train->roll.bound)
		train->roll.bound = version;
}

/* Restart all when the last one's down time is over: earlier work of the others would be useless */
static void together(struct train *train)
{
	uint64_t last_ns = 0;

	for (uint32_t i = 0; i < train->set.servers; i++) {
		if (train->servers[i].life.start_ns > last_ns)
			last_ns = train->servers[i].life.start_ns;
	}
	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct train_life *life = &train->servers[i].life;

		if (life->start_ns == 0)
			continue;
		life->retry_ns += last_ns - life->start_ns;
		life->start_ns = last_ns;
	}
}

void train_recover_tick(struct train *train)
{
	int rc;

	for (uint32_t i = 0; i < train->set.servers; i++) {
		if (!train->roll.on || ol_proc_lives(&train->servers[i].proc))
			return;
	}
	train->roll.on = false;
	rc = line_begin(train, train->roll.bound, true);
	if (rc != 0) {
		train_fail(train, rc);
		return;
	}
	together(train);
	for (uint32_t i = 0; i < train->set.servers; i++)
		train->roll.epochs[i] = train->servers[i].epoch + 1; /* of its next start */
	train_say(&train->screen, "all servers go back to version %" PRIu64 "%s",
		  train->roll.version,
		  train->roll.version == 0 ? ", the first weights: there is none that every shard "
					     "has a whole checkpoint of"
					   : "");
}

/* Let all begin at one version up to `bound`, the first time or again */
static int resume_from(struct train *train, uint64_t bound)
{
	int rc = line_begin(train, bound, false);

	if (rc != 0)
		return rc;
	if (train->roll.version == 0 && !train_recovers_all(train)) {
		train_say(&train->screen,
			  "outlast train: there is no version that every shard has a checkpoint "
			  "of: each begins with its newest");
		train->roll.bound = 0;
		return 0;
	}
	if (train->roll.version == 0)
		return ol_settings_fail(&train->settings, "resume",
					"finds no version that every shard has a whole checkpoint "
					"of: begin anew in another folder, or go on with what each "
					"has, with --recovery partial");
	for (uint32_t i = 0; i < train->set.servers; i++)
		train->roll.epochs[i] = train->servers[i].first_epoch;
	train->roll.bound = train->roll.version;
	train_say(&train->screen,
		  "all servers begin at version %" PRIu64
		  ", the newest that every shard has a checkpoint of",
		  train->roll.version);
	return 0;
}

bool train_recover_resumes(const struct train *train)
{
	/* what is lost later may come back by itself; but steps of all are of one version where they begin */
	return train->set.resume &&
	       (train_recovers_all(train) || (train_by_version(train) && train->set.servers > 1 &&
					      train->ckpt.selection == OL_SELECT_FULL));
}

bool train_recover_chooses(const struct train *train)
{
	return train_recovers_all(train) ||
	       (train->phase == TRAIN_STARTING && train_recover_resumes(train));
}

int train_recover_resume(struct train *train)
{
	return train_recover_resumes(train) ? resume_from(train, UINT64_MAX) : 0;
}

bool train_recover_further(struct train *train, int *ret_rc)
{
	if (!train_recover_resumes(train) || train->roll.bound >= train->roll.version)
		return false;
	for (uint32_t i = 0; i < train_holders(train); i++) {
		struct train_server *server = &train->servers[i];

		ol_proc_fini(&server->proc);
		server->state = TRAIN_SERVER_STARTS;
		server->addr[0] = '\0';
		server->first_epoch++;
	}
	*ret_rc = resume_from(train, train->roll.bound);
	return *ret_rc == 0;
}

enum ol_restore train_recover_source(const struct train *train)
{
	if (!train_recovers_all(train))
		return (enum ol_restore)train->set.durable.restore;
	return train->roll.version != 0 ? OL_RESTORE_CHECKPOINT : OL_RESTORE_NONE;
}
