/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zk_list.c -- everything that is kept in an ensemble
 *
 * Whether a node is there, how many children it has and when it changed can be asked without a right to
 * it. So jobs of other secrets are told too, with the number of their registered servers.
 */

#include "replication/coord/zookeeper/zk_client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What is told of one shard, and where it is */
struct listing {
	struct zk_client *client;
	ol_kept_fn *tell;
	void *arg;
	char job[ZK_PATH_MAX]; /* its node */
	struct ol_kept kept;
};

static void path_make(const struct listing *listing, const char *below, char path[ZK_PATH_MAX])
{
	snprintf(path, ZK_PATH_MAX, "%.*s/shard%" PRIu32 "%s", ZK_ROOT_MAX, listing->job,
		 listing->kept.shard, below);
}

static void view_look(struct listing *listing)
{
	char path[ZK_PATH_MAX], text[OL_VIEW_TEXT_MAX];
	struct ol_kept *kept = &listing->kept;
	int bytes = sizeof(text), rc;
	struct Stat stat;

	path_make(listing, "", path);
	if (zoo_exists(listing->client->zh, path, 0, &stat) == ZOK)
		kept->changed_ms = stat.ctime;
	path_make(listing, "/view", path);
	rc = kept->access == OL_KEPT_CLOSED
		     ? zoo_exists(listing->client->zh, path, 0, &stat)
		     : zoo_get(listing->client->zh, path, 0, text, &bytes, &stat);
	if (rc == ZNOAUTH) { /* a list of its own */
		kept->access = OL_KEPT_CLOSED;
		rc = zoo_exists(listing->client->zh, path, 0, &stat);
	}
	if (rc != ZOK)
		return;
	kept->version = (uint64_t)(uint32_t)stat.version + 1;
	kept->changed_ms = stat.mtime;
	if (kept->access != OL_KEPT_CLOSED)
		kept->damaged = bytes < 0 || ol_view_decode(text, (size_t)bytes, &kept->view) != 0;
	if (kept->damaged)
		memset(&kept->view, 0, sizeof(kept->view));
}

/* A node that no session owns is no server's: somebody has made it by hand */
static void member_look(struct listing *listing, const char *name)
{
	char path[ZK_PATH_MAX + 64], text[OL_MEMBER_TEXT_MAX];
	struct ol_kept *kept = &listing->kept;
	int bytes = sizeof(text);
	struct Stat stat;

	path_make(listing, "/members/", path);
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "%.63s", name);
	if (zoo_get(listing->client->zh, path, 0, text, &bytes, &stat) != ZOK ||
	    stat.ephemeralOwner == 0)
		return;
	kept->live++;
	if (kept->member_count < OL_MEMBERS_MAX && bytes > 0 &&
	    ol_member_decode(text, (size_t)bytes, &kept->members[kept->member_count]) == 0)
		kept->member_count++;
}

static void members_look(struct listing *listing)
{
	char path[ZK_PATH_MAX];
	struct String_vector names;
	struct Stat stat;

	path_make(listing, "/members", path);
	if (listing->kept.access == OL_KEPT_CLOSED) {
		if (zoo_exists(listing->client->zh, path, 0, &stat) == ZOK)
			listing->kept.live = (uint32_t)stat.numChildren;
		return;
	}
	if (zk_client_names(listing->client, path, &names) != ZOK)
		return;
	for (int32_t i = 0; i < names.count; i++)
		member_look(listing, names.data[i]);
	deallocate_String_vector(&names);
}

static void shard_tell(struct listing *listing, uint32_t shard)
{
	struct ol_kept *kept = &listing->kept;
	const enum ol_kept_access access = kept->access;
	const char *const job = kept->job;
	const int64_t begun_ms = kept->begun_ms;

	*kept = (struct ol_kept){
		.job = job, .shard = shard, .access = access, .begun_ms = begun_ms
	};
	if (shard != OL_KEPT_NO_SHARD) {
		view_look(listing);
		members_look(listing);
	} else {
		kept->changed_ms = begun_ms;
	}
	listing->tell(listing->arg, kept);
	kept->access = access;
}

/* A job whose shards' names cannot be read: they have no gap, but that a server may not have made its own yet */
static unsigned shards_guess(struct listing *listing)
{
	unsigned told = 0;

	for (uint32_t shard = 0; shard < OL_COORD_SHARDS_MAX; shard++) {
		char path[ZK_PATH_MAX];

		listing->kept.shard = shard;
		path_make(listing, "", path);
		if (zoo_exists(listing->client->zh, path, 0, NULL) != ZOK)
			continue;
		shard_tell(listing, shard);
		told++;
	}
	return told;
}

static unsigned shards_read(struct listing *listing)
{
	struct String_vector names;
	unsigned told = 0;

	if (zk_client_names(listing->client, listing->job, &names) != ZOK)
		return 0;
	for (int32_t i = 0; i < names.count; i++) {
		uint32_t shard = zk_client_shard(names.data[i]);

		if (shard == OL_KEPT_NO_SHARD)
			continue;
		shard_tell(listing, shard);
		told++;
	}
	deallocate_String_vector(&names);
	return told;
}

/* ZOK, ZNONODE: it is gone, or another error */
static int job_tell(struct listing *listing, const char *job)
{
	struct zk_client *client = listing->client;
	struct ACL_vector acl = { 0 };
	struct ol_kept *kept = &listing->kept;
	struct Stat stat;
	unsigned found, told;
	int rc;

	if (zk_client_be(client, job) != 0)
		return ZSYSTEMERROR;
	snprintf(listing->job, sizeof(listing->job), "%s/%s", client->folder, job);
	rc = zoo_exists(client->zh, listing->job, 0, &stat);
	if (rc != ZOK)
		return rc;
	*kept = (struct ol_kept){ .job = job, .begun_ms = stat.ctime };
	rc = zoo_get_acl(client->zh, listing->job, &acl, &stat);
	if (rc != ZOK && rc != ZNOAUTH)
		return rc;
	found = rc == ZOK ? zk_access_list(&client->keyless, &acl) : 0;
	kept->access = rc == ZNOAUTH                 ? OL_KEPT_CLOSED
		       : (found & ZK_LIST_OPEN) != 0 ? OL_KEPT_OPEN
						     : OL_KEPT_GUARDED;
	if (rc == ZOK)
		deallocate_ACL_vector(&acl);
	told = kept->access == OL_KEPT_CLOSED ? shards_guess(listing) : shards_read(listing);
	if (told == 0)
		shard_tell(listing, OL_KEPT_NO_SHARD);
	return ZOK;
}

static int jobs_tell(struct listing *listing, char *err, size_t err_bytes)
{
	struct zk_client *client = listing->client;
	struct String_vector names;
	int rc = zk_client_names(client, client->folder, &names);

	if (rc == ZNONODE) /* nothing was ever kept */
		return 0;
	if (rc != ZOK)
		return zk_client_fail(rc, client->folder, err, err_bytes);
	for (int32_t i = 0; i < names.count && (rc == ZOK || rc == ZNONODE); i++)
		if (ol_coord_job_fault(names.data[i]) == NULL)
			rc = job_tell(listing, names.data[i]);
	deallocate_String_vector(&names);
	return rc == ZOK || rc == ZNONODE ? 0 : zk_client_fail(rc, listing->job, err, err_bytes);
}

int zk_list_all(struct zk_client *client, ol_kept_fn *tell, void *arg, char *err, size_t err_bytes)
{
	struct listing listing = { .client = client, .tell = tell, .arg = arg };
	const char *job = client->ask->job;
	int rc = zk_client_no_root(client, err, err_bytes);

	if (rc != 0)
		return rc;
	if (job == NULL)
		return jobs_tell(&listing, err, err_bytes);
	rc = job_tell(&listing, job);
	if (rc == ZNONODE) {
		snprintf(err, err_bytes, "it keeps no job %s", job);
		return -ENOENT;
	}
	return rc == ZOK ? 0 : zk_client_fail(rc, listing.job, err, err_bytes);
}

int zk_list(const struct ol_coord_ask *ask, ol_kept_fn *tell, void *arg, char *err,
	    size_t err_bytes)
{
	struct zk_client client;
	int rc = zk_client_open(&client, ask, OL_ASK_SESSION_MS, err, err_bytes);

	if (rc != 0)
		return rc;
	rc = zk_list_all(&client, tell, arg, err, err_bytes);
	zk_client_close(&client);
	return rc;
}
