/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.c -- `outlast train` with a chain of servers for each shard
 *
 * A chain goes on by itself when it loses a server. This code only finds out the roles at the
 * moment of a kill, when the view changed, and when the next version was committed. It looks for
 * that commit every millisecond once the tail is in the new view. So the measured time is late by
 * at most a look and a step, and never early.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "cmd/cmd.h"
#include "cmd/counters.h"
#include "cmd/key.h"
#include "server/coordinator.h"
#include "train/parts.h"

enum {
	OPEN_MS = 5000, /* timeout of reaching a coordinator */
	REMOVE_MS = 100, /* between two tries to remove the job */
	HANG_MS = 3000 /* a removed server should have ended a lease and this time later */
};

int train_chain_check(struct train *train)
{
	static const char *const names[] = { "replicas", "replicate_every", "coordinator" };

	if (train->set.durable.durability == OL_DURABILITY_CHAIN)
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (ol_conf_is_set(train->settings.conf, names[i]))
			return ol_settings_fail(&train->settings, names[i],
						"needs --durability chain");
	}
	return 0;
}

static int own_start(struct train_chain *chain)
{
	int rc = ol_folder_make(&chain->own, "outlast-train-");

	if (rc != 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, "train",
				    "cannot make a folder for views of chains", NULL,
				    strerror(-rc));
	snprintf(chain->addr, sizeof(chain->addr), "dir:%s", chain->own.path);
	return 0;
}

/*
 * The key is taken from the environment, so that `outlast stat` and other programs at the same
 * ZooKeeper can read the job. Without one, a job in its own folder draws a key.
 */
static int key_choose(struct train *train)
{
	char key[OL_JOB_KEY_MAX];
	int rc = ol_job_key_read("train", NULL, key);

	if (rc == 0 && (key[0] != '\0' || train->set.coordinator != NULL))
		snprintf(train->key, sizeof(train->key), "%s", key);
	explicit_bzero(key, sizeof(key));
	return rc;
}

int train_chain_open(struct train *train)
{
	struct train_chain *chain;
	char err[256] = "";
	int rc;

	if (train->set.durable.durability != OL_DURABILITY_CHAIN) {
		ol_key_env_wipe(OL_JOB_KEY_VARIABLE); /* the job has a key of its own */
		return 0;
	}
	if (train->set.coordinator != NULL && strlen(train->set.coordinator) >= TRAIN_ADDR_MAX)
		return ol_settings_fail(&train->settings, "coordinator", "is too long");
	chain = calloc(1, sizeof(*chain));
	if (chain == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "train", "no memory", NULL, NULL);
	chain->own.fd = -1;
	train->chain = chain;
	rc = key_choose(train);
	if (rc == 0 && train->set.coordinator == NULL)
		rc = own_start(chain);
	else if (rc == 0)
		snprintf(chain->addr, sizeof(chain->addr), "%s", train->set.coordinator);
	if (rc != 0)
		return rc;
	snprintf(chain->job, sizeof(chain->job), "train-%d-%s", (int)getpid(), train->tag);
	rc = ol_chains_open(chain->addr, chain->job, train->key, train->set.servers, OPEN_MS,
			    &chain->views, err, sizeof(err));
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of_coord(rc), "train", err, NULL, NULL);
	return 0;
}

/*
 * The job is over, and nobody will begin it again under this name: a coordinator of others keeps
 * nothing of it. At a ZooKeeper a server that was killed counts as registered until its lease is over.
 */
static void job_remove(const struct train *train)
{
	const struct ol_coordinator coordinator = { .addr = train->chain->addr,
						    .job = train->chain->job,
						    .job_key = train->key,
						    .timeout_ms = OPEN_MS };
	const uint64_t until_ns =
		ol_clock_ns() + (OPEN_MS + 2 * (uint64_t)train->set.lease.lease_ms) * OL_NS_PER_MS;
	char err[256] = "";
	int rc = ol_coordinator_remove(&coordinator, err, sizeof(err));

	while (rc == -EBUSY && strncmp(coordinator.addr, "dir:", 4) != 0 &&
	       ol_clock_ns() < until_ns) {
		(void)poll(NULL, 0, REMOVE_MS);
		rc = ol_coordinator_remove(&coordinator, err, sizeof(err));
	}
	if (rc != 0 && rc != -ENOENT)
		fprintf(stderr, "outlast train: job %s stays there: %s\n", train->chain->job, err);
}

void train_chain_close(struct train *train)
{
	struct train_chain *chain = train->chain;
	bool opened;

	if (chain == NULL)
		return;
	opened = chain->views != NULL;
	ol_chains_close(chain->views);
	if (opened && train->set.coordinator != NULL)
		job_remove(train);
	ol_folder_drop(&chain->own);
	free(chain);
	train->chain = NULL;
}

/* The newest known view of a shard; all 0 without chains */
static struct ol_chain_info chain_info(const struct train *train, uint32_t shard)
{
	struct ol_chain_info info;

	if (train->chain == NULL || ol_chains_get(train->chain->views, shard, &info) != 0)
		info = (struct ol_chain_info){ 0 };
	return info;
}

void train_chain_keep(struct train *train)
{
	for (uint32_t i = 0; train->chain != NULL && i < train->set.servers; i++)
		train->chain->last[i] = chain_info(train, i);
}

static bool whole(const struct ol_chain_info *info)
{
	return info->epoch != 0 && info->count >= info->wanted;
}

unsigned train_chain_lacking(struct train *train, bool say)
{
	unsigned lacking = 0;

	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct ol_chain_info info = chain_info(train, i);

		if (whole(&info))
			continue;
		lacking++;
		if (say)
			train_say(&train->screen,
				  "waits for the chain of shard %u: %u of %u replicas%s", i,
				  info.count, train_replicas(train),
				  info.connected ? "" : "; the coordinator cannot be reached");
	}
	return lacking;
}

/* Place in a chain (a joining replica is after the tail) by id or, if that is 0, by address; -1: not
 * there */
static int place_at(const struct ol_chain_info *info, uint64_t replica, const char *addr)
{
	for (uint32_t i = 0; i < info->count + info->joining && i < OL_CHAIN_MAX; i++) {
		if (replica != 0 ? info->ids[i] == replica : strcmp(info->addrs[i], addr) == 0)
			return (int)i;
	}
	return -1;
}

static int place_of(const struct train_server *server, const struct ol_chain_info *info)
{
	return place_at(info, server->replica, server->addr);
}

static const char *role_at(const struct ol_chain_info *info, int place)
{
	if (place < 0 || (uint32_t)place >= info->count)
		return place < 0 ? "server" : "joining";
	if (place == 0)
		return "head";
	return (uint32_t)place + 1 == info->count ? "tail" : "middle";
}

struct train_server *train_chain_target(struct train *train, const struct ol_kill *kill)
{
	struct ol_chain_info info = chain_info(train, kill->index);
	int place = -1;

	if (info.count > 0 && kill->target == OL_KILL_HEAD)
		place = 0;
	else if (info.count > 0 && kill->target == OL_KILL_TAIL)
		place = (int)info.count - 1;
	else if (info.count > 2 && kill->target == OL_KILL_MIDDLE)
		place = (int)info.count / 2;
	for (uint32_t i = 0; place >= 0 && i < train_holders(train); i++) {
		struct train_server *server = &train->servers[i];

		if (server->shard == kill->index && place_of(server, &info) == place)
			return ol_proc_lives(&server->proc) && server->life.state == TRAIN_LIVES
				       ? server
				       : NULL;
	}
	return NULL;
}

void train_chain_lost(struct train *train, struct train_server *server, struct train_outage *outage)
{
	struct ol_chain_info info = chain_info(train, server->shard);
	int place = place_of(server, &info);
	const char *role = role_at(&info, place);

	outage->index = server->shard;
	outage->replica = place >= 0 ? info.ids[place] : server->replica;
	outage->epoch = info.epoch;
	outage->founded = info.founded;
	if (outage->kill != NULL)
		role = ol_kill_role(outage->kill);
	else if (place < 0 && server->role > OL_REPLICA_JOINING)
		role = ol_role_str(server->role); /* the view is without it already */
	snprintf(outage->target, sizeof(outage->target), "%s%u", role, server->shard);
}

void train_chain_back(struct train *train, struct train_server *server, const json_t *message)
{
	const char *from = json_string_value(json_object_get(message, "from"));
	bool known = false;

	server->state = TRAIN_SERVER_WHOLE;
	if (server->life.state == TRAIN_LIVES)
		server->life.outage = NULL;
	if (from == NULL || strcmp(from, "replica") == 0)
		return;
	/* no replica of the chain was left: the last one that was lost has the cost */
	for (unsigned i = train->outage_count; i-- > 0;) {
		struct train_outage *outage = &train->outages[i];

		if (!outage->server || outage->index != server->shard || outage->from[0] != '\0' ||
		    outage->state == TRAIN_OUTAGE_SURVIVED ||
		    (outage->first_applied_ns != 0 && !outage->anew))
			continue;
		train_source_take(outage, message);
		if (!known)
			train_cost_expect(train, outage, message);
		known = true;
	}
}

bool train_chain_goes_on(const struct train *train, const struct train_server *server)
{
	for (uint32_t i = 0; i < train_holders(train); i++) {
		const struct train_server *other = &train->servers[i];

		if (other != server && other->shard == server->shard &&
		    (ol_proc_lives(&other->proc) || other->life.start_ns != 0 ||
		     (train->phase == TRAIN_ENDING && !ol_proc_failed(&other->proc))))
			return true;
	}
	return false;
}

/* After a view change: has the tail entered the view, and committed a version since? */
static void commit_look(struct train *train, struct train_outage *outage)
{
	struct ol_server_stat stat;

	if (ol_stat(train->observer, outage->index, &stat) != 0 || stat.epoch < outage->next_epoch)
		return;
	if (!outage->based) {
		outage->based = true;
		outage->base_version = stat.version;
	}
	if (stat.version <= outage->base_version)
		return;
	outage->first_applied_ns = ol_clock_ns();
	outage->committed = stat.version;
}

/* Say how the chain went on, once that is known. Of several that were lost together the last has the line */
static void outage_tell(struct train *train, struct train_outage *outage)
{
	const double view_ms = (double)(outage->detected_ns - outage->killed_ns) / 1e6;
	const double commit_ms = (double)(outage->first_applied_ns - outage->killed_ns) / 1e6;

	if (outage->told || (outage->anew && outage->from[0] == '\0'))
		return;
	outage->told = true;
	if (!outage->anew)
		train_say(
			&train->screen,
			"shard %u goes on without its %.*s: epoch %u after %.1f ms, version %" PRIu64
			" committed after %.1f ms",
			outage->index, (int)strcspn(outage->target, "0123456789"), outage->target,
			outage->next_epoch, view_ms, outage->committed, commit_ms);
	else if (outage->expects)
		train_say(&train->screen,
			  "shard %u had lost all its replicas, and began anew at version %" PRIu64
			  ", %s: epoch %u after %.1f ms, version %" PRIu64
			  " committed after %.1f ms",
			  outage->index, outage->restored_version, train_from_str(outage),
			  outage->next_epoch, view_ms, outage->committed, commit_ms);
}

/* The first view without the lost server; or, before a commit in that, one of a history that began anew */
static void view_look(struct train *train, struct train_outage *outage,
		      const struct ol_chain_info *info)
{
	const bool anew = outage->founded != 0 && info->founded != outage->founded;

	if (info->epoch <= outage->epoch || info->count == 0 || outage->first_applied_ns != 0 ||
	    place_at(info, outage->replica, "") >= 0 ||
	    (outage->detected_ns != 0 && anew == outage->anew))
		return;
	outage->detected_ns = ol_clock_ns();
	outage->ready_ns = outage->detected_ns;
	outage->next_epoch = info->epoch;
	outage->based = false;
	outage->anew = anew;
	if (anew) /* the last counters are of versions that are no more */
		train->tails[outage->index] = (struct ol_server_stat){ 0 };
}

/* Follow the outage of a lost server */
static void outage_look(struct train *train, struct train_outage *outage)
{
	struct ol_chain_info info = chain_info(train, outage->index);

	view_look(train, outage, &info);
	if (outage->detected_ns != 0 && outage->first_applied_ns == 0)
		commit_look(train, outage);
	if (outage->first_applied_ns != 0)
		outage_tell(train, outage);
	if (outage->detected_ns != 0 && outage->whole_ns == 0 && whole(&info))
		outage->whole_ns = ol_clock_ns();
	if (outage->first_applied_ns != 0 && outage->state == TRAIN_OUTAGE_OPEN &&
	    train_settled(train, outage->index) && train_pull(train, NULL, outage))
		outage->state = TRAIN_OUTAGE_OVER;
}

/* Say once of a history that no replica is left which has it */
static void gone_look(struct train *train, uint32_t shard)
{
	const struct ol_chain_info info = chain_info(train, shard);
	char restore[32];

	if (info.count == 0 || info.gone < info.count || train->chain->gone[shard] == info.founded)
		return;
	for (uint32_t i = 0; i < train_holders(train); i++) {
		const struct train_server *server = &train->servers[i];

		if (server->shard == shard && server->member && ol_proc_lives(&server->proc))
			return;
	}
	train->chain->gone[shard] = info.founded;
	if (train->chain->own.fd >= 0)
		train_say(
			&train->screen,
			"shard %u has lost all its replicas: it waits for one that is started again, "
			"and begins anew with that (--restore %s)",
			shard,
			ol_settings_text(&train->settings, "restore", restore, sizeof(restore)));
	else
		train_say(
			&train->screen,
			"shard %u has lost all its replicas, and waits: at a --coordinator no chain "
			"begins anew by itself",
			shard);
}

/* A stopped server: wake it if it is time, and find out whether it was missed */
static void stopped_look(const struct train *train, struct train_server *server, uint64_t now_ns)
{
	struct train_life *life = &server->life;
	struct train_outage *outage = life->outage;

	if ((life->wake_ns != 0 && now_ns >= life->wake_ns) ||
	    (life->wants_wake && outage != NULL && outage->detected_ns != 0 &&
	     now_ns >= train_lease_over_ns(train, outage)))
		train_wake(server, now_ns);
	if (outage != NULL && outage->kill != NULL && outage->kill->signo == SIGSTOP &&
	    life->state == TRAIN_KILLED && outage->detected_ns == 0 && now_ns >= life->retry_ns) {
		life->state = TRAIN_LIVES;
		life->outage = NULL;
		outage->state = TRAIN_OUTAGE_SURVIVED;
	}
}

static void server_look(struct train *train, struct train_server *server, uint64_t now_ns)
{
	struct ol_chain_info info = chain_info(train, server->shard);

	if (!ol_proc_lives(&server->proc))
		return;
	stopped_look(train, server, now_ns);
	if (server->role > OL_REPLICA_JOINING && server->state != TRAIN_SERVER_WHOLE)
		train_chain_back(train, server, NULL);
	if (place_of(server, &info) >= 0) {
		server->member = true;
		server->out_ns = 0;
		return;
	}
	if (!server->member || server->life.state == TRAIN_STOPPED)
		return;
	if (server->out_ns == 0)
		server->out_ns = now_ns;
	if (now_ns - server->out_ns < (train->set.lease.lease_ms + HANG_MS) * OL_NS_PER_MS)
		return;
	train_say(&train->screen,
		  "outlast train: %s is in its chain no more, and does not end: it is killed",
		  server->proc.name);
	server->out_ns = now_ns;
	ol_proc_kill(&server->proc, SIGKILL);
}

void train_chain_tick(struct train *train)
{
	uint64_t now_ns = ol_clock_ns();

	for (unsigned i = 0; i < train->outage_count; i++) {
		if (train->outages[i].server && train->outages[i].state != TRAIN_OUTAGE_SURVIVED)
			outage_look(train, &train->outages[i]);
	}
	for (uint32_t i = 0; i < train->set.servers; i++)
		gone_look(train, i);
	for (uint32_t i = 0; i < train_holders(train); i++)
		server_look(train, &train->servers[i], now_ns);
}

bool train_chain_lacks(const struct train *train, bool commit)
{
	for (unsigned i = 0; i < train->outage_count; i++) {
		const struct train_outage *outage = &train->outages[i];

		if (outage->server && outage->state == TRAIN_OUTAGE_OPEN &&
		    (commit ? outage->first_applied_ns : outage->detected_ns) == 0)
			return true;
	}
	return false;
}

static json_t *count(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* Milliseconds from the kill; null: it did not happen */
static json_t *since(const struct train_outage *outage, uint64_t at_ns)
{
	if (at_ns < outage->killed_ns || at_ns == 0)
		return json_null();
	return json_real((double)(at_ns - outage->killed_ns) / 1e6);
}

static json_t *failovers_json(const struct train *train)
{
	json_t *list = json_array();

	for (unsigned i = 0; train->chain != NULL && i < train->outage_count; i++) {
		const struct train_outage *o = &train->outages[i];

		if (!o->server || o->state == TRAIN_OUTAGE_SURVIVED)
			continue;
		json_array_append_new(list,
				      json_pack("{s:s, s:i, s:s?, s:f, s:o, s:o, s:o, s:i, s:b}",
						"target", o->target, "shard", (int)o->index, "kill",
						o->kill != NULL ? o->kill->text : NULL, "killed_s",
						((double)o->killed_ns - (double)train->go_ns) / 1e9,
						"detect_ms", since(o, o->detected_ns), "recover_ms",
						since(o, o->first_applied_ns), "whole_ms",
						since(o, o->whole_ns), "epoch", (int)o->next_epoch,
						"all_lost", (int)o->anew));
	}
	return list;
}

static json_t *views_json(const struct train *train)
{
	json_t *list = json_array();

	for (uint32_t i = 0; train->chain != NULL && i < train->set.servers; i++) {
		struct ol_chain_info info = train->chain->last[i];

		json_array_append_new(list,
				      json_pack("{s:i, s:i, s:i, s:i}", "epoch", (int)info.epoch,
						"founded", (int)info.founded, "replicas",
						(int)info.count, "joining", (int)info.joining));
	}
	return list;
}

json_t *train_chain_json(const struct train *train)
{
	struct ol_server_stat sum = train_totals(train);
	uint64_t resyncs = 0;

	for (uint32_t i = 0; i < train_holders(train); i++)
		resyncs += train->servers[i].resyncs + (train->servers[i].stat.resync_ns != 0);
	return json_pack("{s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o, s:o, s:f, s:o}}", "replicas",
			 count(train_replicas(train)), "failovers", failovers_json(train), "views",
			 views_json(train), "chain", "forwarded", count(sum.forwarded),
			 "forwarded_bytes", count(sum.forwarded_bytes), "resent", count(sum.resent),
			 "resyncs", count(resyncs), "resync_bytes", count(sum.resync_bytes),
			 "resync_ms_max", (double)sum.resync_ns / 1e6, "suspicions",
			 count(sum.suspicions));
}
