/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zk_remove.c -- a job's nodes removed, all or none; the node below which all lies, made
 *
 * One transaction deletes everything, so a server that comes meanwhile is in one of two places.
 *
 *	before   its member is a child of `members`: that cannot be deleted, and nothing is
 *	after    there is no `members` any more: it begins the job anew
 *
 * The view is deleted in the version that was read, so none is that came after it. A server that read the
 * old view and registers after it is gone finds that view gone, holds nothing, and ends (src/replica).
 */

#include "replication/coord/zookeeper/zk_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPS_MAX = OL_COORD_SHARDS_MAX * (3 + 64) +
		  1, /* 64: members that no session owns, of a shard */
};

/* The transaction as it is collected */
struct removal {
	struct zk_client *client;
	zoo_op_t *ops;
	char (*paths)[ZK_PATH_MAX];
	int count;
	uint32_t live; /* servers that are registered */
	char *err;
	size_t err_bytes;
};

static int op_add(struct removal *removal, const char *path, int32_t version)
{
	if (removal->count == OPS_MAX) {
		snprintf(removal->err, removal->err_bytes,
			 "too many nodes of %s that no session owns", path);
		return -EEXIST;
	}
	snprintf(removal->paths[removal->count], ZK_PATH_MAX, "%s", path);
	zoo_delete_op_init(&removal->ops[removal->count], removal->paths[removal->count], version);
	removal->count++;
	return 0;
}

static int foreign(struct removal *removal, const char *path)
{
	snprintf(removal->err, removal->err_bytes,
		 "%s is not of a job of Outlast: nothing is removed; look at it", path);
	return -EEXIST;
}

/* The library's error, where a node that is gone means that the job is changing */
static int trouble(struct removal *removal, int rc, const char *path)
{
	if (rc != ZNONODE)
		return zk_client_fail(rc, path, removal->err, removal->err_bytes);
	snprintf(removal->err, removal->err_bytes,
		 "it changed meanwhile: nothing was removed; ask again");
	return -EAGAIN;
}

static int members_collect(struct removal *removal, const char *members)
{
	struct String_vector names;
	int rc = zk_client_names(removal->client, members, &names);

	if (rc != ZOK)
		return trouble(removal, rc, members);
	for (int32_t i = 0; i < names.count && rc == 0; i++) {
		char path[ZK_PATH_MAX];
		struct Stat stat;

		if ((size_t)snprintf(path, sizeof(path), "%s/%s", members, names.data[i]) >=
		    sizeof(path)) {
			rc = foreign(removal, path);
			break;
		}
		rc = zoo_exists(removal->client->zh, path, 0, &stat);
		if (rc != ZOK)
			rc = trouble(removal, rc, path);
		else if (stat.ephemeralOwner != 0)
			removal->live++;
		else
			rc = op_add(removal, path, -1);
	}
	deallocate_String_vector(&names);
	return rc;
}

static int shard_collect(struct removal *removal, const char *shard)
{
	struct String_vector names;
	int rc = zk_client_names(removal->client, shard, &names);

	if (rc != ZOK)
		return trouble(removal, rc, shard);
	for (int32_t i = 0; i < names.count && rc == 0; i++) {
		char path[ZK_PATH_MAX];
		struct Stat stat;

		snprintf(path, sizeof(path), "%.*s/%.*s", ZK_ROOT_MAX + 16, shard, 64,
			 names.data[i]);
		rc = zoo_exists(removal->client->zh, path, 0, &stat);
		if (rc != ZOK)
			rc = trouble(removal, rc, path);
		else if (strcmp(names.data[i], "members") == 0)
			rc = members_collect(removal, path);
		else if (strcmp(names.data[i], "view") != 0)
			rc = foreign(removal, path);
		if (rc == 0)
			rc = op_add(removal, path, stat.version);
	}
	deallocate_String_vector(&names);
	return rc != 0 ? rc : op_add(removal, shard, -1);
}

static int job_collect(struct removal *removal, const char *job)
{
	struct String_vector names;
	int rc = zk_client_names(removal->client, job, &names);

	if (rc == ZNONODE) {
		snprintf(removal->err, removal->err_bytes, "it keeps no job %s",
			 removal->client->ask->job);
		return -ENOENT;
	}
	if (rc != ZOK)
		return zk_client_fail(rc, job, removal->err, removal->err_bytes);
	for (int32_t i = 0; i < names.count && rc == 0; i++) {
		char path[ZK_PATH_MAX];

		snprintf(path, sizeof(path), "%.*s/%.*s", ZK_ROOT_MAX, job, 64, names.data[i]);
		rc = zk_client_shard(names.data[i]) == OL_KEPT_NO_SHARD
			     ? foreign(removal, path)
			     : shard_collect(removal, path);
	}
	deallocate_String_vector(&names);
	return rc != 0 ? rc : op_add(removal, job, -1);
}

static int busy(struct removal *removal, const char *how)
{
	snprintf(
		removal->err, removal->err_bytes,
		"job %s is in use: %s; nothing is removed. A server that was killed leaves when its "
		"session ends",
		removal->client->ask->job, how);
	return -EBUSY;
}

/* All of it, or nothing */
static int carry_out(struct removal *removal, const char *job)
{
	zoo_op_result_t *results = calloc((size_t)removal->count, sizeof(*results));
	int rc;

	if (results == NULL)
		return -ENOMEM;
	rc = zoo_multi(removal->client->zh, removal->count, removal->ops, results);
	free(results);
	if (rc == ZOK)
		return 0;
	if (rc == ZNOTEMPTY || rc == ZBADVERSION)
		return busy(removal, "a server came at this moment");
	return trouble(removal, rc, job);
}

int zk_remove(const struct ol_coord_ask *ask, char *err, size_t err_bytes)
{
	struct zk_client client;
	struct removal removal = { .client = &client, .err = err, .err_bytes = err_bytes };
	char job[ZK_PATH_MAX], live[64];
	int rc = zk_client_open(&client, ask, OL_ASK_SESSION_MS, err, err_bytes);

	if (rc != 0)
		return rc;
	snprintf(job, sizeof(job), "%s/%s", client.folder, ask->job);
	removal.ops = calloc(OPS_MAX, sizeof(*removal.ops));
	removal.paths = calloc(OPS_MAX, sizeof(*removal.paths));
	rc = removal.ops == NULL || removal.paths == NULL
		     ? -ENOMEM
		     : zk_client_no_root(&client, err, err_bytes);
	if (rc == -ENOMEM)
		snprintf(err, err_bytes, "no memory");
	if (rc == 0)
		rc = job_collect(&removal, job);
	if (rc == 0 && removal.live > 0) {
		snprintf(live, sizeof(live), "%u servers are registered", removal.live);
		rc = busy(&removal, removal.live == 1 ? "a server is registered" : live);
	}
	if (rc == 0)
		rc = carry_out(&removal, job);
	zk_client_close(&client);
	free(removal.ops);
	free(removal.paths);
	return rc;
}

/* Only what is missing is made: those above it belong to others */
int zk_make_root(const struct ol_coord_ask *ask, char *err, size_t err_bytes)
{
	struct ACL_vector acl = ZOO_OPEN_ACL_UNSAFE;
	struct ACL entries[2];
	struct zk_client client;
	char path[ZK_CHROOT_MAX];
	int rc = zk_client_open(&client, ask, OL_ASK_SESSION_MS, err, err_bytes);

	if (rc != 0)
		return rc;
	if (client.access.credential[0] != '\0')
		zk_access_folder(&client.access, entries, &acl);
	for (size_t at = 1; client.address.chroot[0] != '\0' && rc == 0; at++) {
		at += strcspn(client.address.chroot + at, "/");
		snprintf(path, sizeof(path), "%.*s", (int)at, client.address.chroot);
		rc = zoo_exists(client.zh, path, 0, NULL);
		if (rc == ZNONODE)
			rc = zoo_create(client.zh, path, "", 0, &acl, ZOO_PERSISTENT, NULL, 0);
		if (rc != ZOK && rc != ZNODEEXISTS)
			rc = zk_client_fail(rc, path, err, err_bytes);
		else
			rc = 0;
		if (client.address.chroot[at] == '\0')
			break;
	}
	zk_client_close(&client);
	return rc;
}
