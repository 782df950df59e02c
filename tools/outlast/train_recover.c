/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train_recover.c -- full recovery: a server is lost, and all of them go back to one version
 *
 * Those that live are killed. When the last has ended no checkpoint comes any more, and the newest
 * version that every shard has is looked up; from that all are started again. A server that finds
 * its file damaged takes an older one: then all go back to that, or further.
 */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "outlast/cmd.h"
#include "outlast/train.h"

/* A full checkpoint of the job */
struct saved {
	uint64_t version;
	uint32_t shard;
};

/* Those in the folder; the caller frees the list. NULL: none, or no memory */
static struct saved *saved_list(const struct train *train, size_t *ret_count)
{
	uint64_t job_id = ol_job_id(&train->set.model, train->set.rule.optimizer), id;
	DIR *dir = opendir(train->ckpt.dir);
	struct saved *list = NULL, one;
	const struct dirent *entry;
	size_t count = 0, room = 0;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (sscanf(entry->d_name, "ckpt-%" SCNx64 "-s%" SCNu32 "-e%*u-v%" SCNu64, &id,
			   &one.shard, &one.version) != 3 ||
		    id != job_id)
			continue;
		if (count == room) {
			struct saved *more =
				reallocarray(list, room = room * 2 + 64, sizeof(*list));

			if (more == NULL)
				break;
			list = more;
		}
		list[count++] = one;
	}
	if (dir != NULL)
		closedir(dir);
	*ret_count = count;
	return list;
}

static bool has(const struct saved *list, size_t count, uint32_t shard, uint64_t version)
{
	for (size_t i = 0; i < count; i++) {
		if (list[i].shard == shard && list[i].version == version)
			return true;
	}
	return false;
}

/* The newest version up to `bound` that every shard has; 0: the first weights */
static uint64_t common_version(const struct train *train, uint64_t bound)
{
	size_t count;
	struct saved *list = saved_list(train, &count);
	uint64_t newest = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t shard = 0;

		if (list[i].version > bound || list[i].version <= newest)
			continue;
		while (shard < train->set.servers && has(list, count, shard, list[i].version))
			shard++;
		if (shard == train->set.servers)
			newest = list[i].version;
	}
	free(list);
	return newest;
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
	train->rolling = true;
	train->roll_bound = bound;
	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct train_server *server = &train->servers[i];

		if (!ol_proc_lives(&server->proc))
			continue;
		server->life.rolled = true;
		server->life.killed = true;
		ol_proc_kill(&server->proc, SIGKILL);
	}
}

void train_recover_tick(struct train *train)
{
	for (uint32_t i = 0; i < train->set.servers; i++) {
		if (!train->rolling || ol_proc_lives(&train->servers[i].proc))
			return;
	}
	train->roll_version = common_version(train, train->roll_bound);
	train->rolling = false;
	train_say(train, "all servers go back to version %" PRIu64, train->roll_version);
}

enum ol_restore train_recover_source(const struct train *train)
{
	if (!train_recovers_all(train))
		return (enum ol_restore)train->set.durable.restore;
	return train->roll_version != 0 ? OL_RESTORE_CHECKPOINT : OL_RESTORE_NONE;
}
