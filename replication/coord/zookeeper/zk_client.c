/* SPDX-License-Identifier: BSD-3-Clause */

/* zk_client.c -- a session of the client library that waits for its answers */

#include "replication/coord/zookeeper/zk_client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_state(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	struct zk_client *client = arg;

	(void)zh;
	(void)path;
	if (type != ZOO_SESSION_EVENT)
		return;
	pthread_mutex_lock(&client->lock);
	client->state = state;
	pthread_cond_signal(&client->cond);
	pthread_mutex_unlock(&client->lock);
}

/* Until it is connected, or refused, or the time is over; the state */
static int state_wait(struct zk_client *client)
{
	uint64_t end_ns = ol_coord_now_ns() + client->ask->timeout_ms * ZK_NS_PER_MS;
	struct timespec until = { .tv_sec = (time_t)(end_ns / ZK_NS_PER_S),
				  .tv_nsec = (long)(end_ns % ZK_NS_PER_S) };
	int rc = 0, state;

	pthread_mutex_lock(&client->lock);
	while (rc == 0 && client->state != ZOO_CONNECTED_STATE &&
	       client->state != ZOO_AUTH_FAILED_STATE)
		rc = pthread_cond_timedwait(&client->cond, &client->lock, &until);
	state = client->state;
	pthread_mutex_unlock(&client->lock);
	return state;
}

static int session_open(struct zk_client *client, uint32_t session_ms, char *err, size_t err_bytes)
{
	const char *hosts = client->address.hosts;
	int state;

	client->zh = zookeeper_init(hosts, on_state, (int)session_ms, NULL, client,
				    ZOO_NO_LOG_CLIENTENV);
	if (client->zh == NULL) {
		int rc = errno;

		snprintf(err, err_bytes, "no such host in %s: %s", hosts, strerror(rc));
		return rc == ENOMEM ? -ENOMEM : -ENOENT;
	}
	state = state_wait(client);
	if (state == ZOO_CONNECTED_STATE)
		return zk_client_be(client, client->ask->job);
	if (state == ZOO_AUTH_FAILED_STATE) {
		snprintf(err, err_bytes, "the ensemble does not take passwords (scheme digest)");
		return -EACCES;
	}
	snprintf(err, err_bytes,
		 "nobody answers within %" PRIu32
		 " ms: do a majority of its servers run, and can this "
		 "host reach them?",
		 client->ask->timeout_ms);
	return -ETIMEDOUT;
}

int zk_client_open(struct zk_client *client, const struct ol_coord_ask *ask, uint32_t session_ms,
		   char *err, size_t err_bytes)
{
	pthread_condattr_t attr;
	int rc;

	memset(client, 0, sizeof(*client));
	client->ask = ask;
	pthread_mutex_init(&client->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&client->cond, &attr);
	pthread_condattr_destroy(&attr);
	zoo_set_debug_level((ZooLogLevel)0); /* the library would write to stderr */
	rc = zk_address_read(ask->addr, &client->address, err, err_bytes);
	if (rc == 0) {
		snprintf(client->folder, sizeof(client->folder), "%s/outlast",
			 client->address.chroot);
		rc = session_open(client, session_ms, err, err_bytes);
	}
	if (rc != 0)
		zk_client_close(client);
	return rc;
}

void zk_client_close(struct zk_client *client)
{
	if (client->zh != NULL)
		zookeeper_close(client->zh);
	client->zh = NULL;
	pthread_cond_destroy(&client->cond);
	pthread_mutex_destroy(&client->lock);
	explicit_bzero(&client->address, sizeof(client->address));
	explicit_bzero(&client->access, sizeof(client->access));
	explicit_bzero(&client->keyless, sizeof(client->keyless));
}

int zk_client_be(struct zk_client *client, const char *job)
{
	const struct ol_coord_ask *ask = client->ask;
	struct zk_secret secret = { .job = job != NULL ? job : "",
				    .mac = job != NULL ? ask->mac : NULL,
				    .owner_mac = job != NULL ? ask->owner_mac : NULL,
				    .mac_arg = ask->mac_arg };
	int rc = zk_access_derive(&client->address, &secret, &client->access);

	secret.mac_arg = ask->keyless_arg;
	secret.keyless = true;
	if (ask->keyless_arg == NULL)
		secret.mac = secret.owner_mac = NULL;
	if (rc == 0)
		rc = zk_access_derive(&client->address, &secret, &client->keyless);
	if (rc == 0 && (zk_access_introduce(&client->access, client->zh) != ZOK ||
			zk_access_introduce(&client->keyless, client->zh) != ZOK))
		rc = -EIO;
	return rc;
}

static void on_synced(int rc, const char *value, const void *arg)
{
	union { /* the library hands back what it was given, as const */
		const void *told;
		struct zk_client *client;
	} at = { arg };

	(void)value;
	pthread_mutex_lock(&at.client->lock);
	at.client->synced_rc = rc;
	pthread_cond_signal(&at.client->cond);
	pthread_mutex_unlock(&at.client->lock);
}

int zk_client_sync(struct zk_client *client, const char *path)
{
	int rc;

	client->synced_rc = 1; /* no error of the library's */
	rc = zoo_async(client->zh, path, on_synced, client);
	if (rc != ZOK)
		return rc;
	pthread_mutex_lock(&client->lock);
	while (client->synced_rc ==
	       1) /* the library answers, at the latest when the connection is lost */
		pthread_cond_wait(&client->cond, &client->lock);
	rc = client->synced_rc;
	pthread_mutex_unlock(&client->lock);
	return rc;
}

int zk_client_fail(int rc, const char *what, char *err, size_t err_bytes)
{
	if (rc == ZNOAUTH) {
		snprintf(err, err_bytes,
			 "%s: no right: give the job's key, or a user that has it, by ?auth=FILE",
			 what);
		return -EACCES;
	}
	snprintf(err, err_bytes, "%s: %s", what, zerror(rc));
	if (rc == ZNONODE)
		return -ENOENT;
	return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONEXPIRED ||
			       rc == ZINVALIDSTATE
		       ? -ETIMEDOUT
		       : -EIO;
}

int zk_client_no_root(const struct zk_client *client, char *err, size_t err_bytes)
{
	const char *chroot = client->address.chroot;
	int rc = chroot[0] != '\0' ? zoo_exists(client->zh, chroot, 0, NULL) : ZOK;

	if (rc == ZOK)
		return 0;
	if (rc != ZNONODE)
		return zk_client_fail(rc, chroot, err, err_bytes);
	snprintf(err, err_bytes,
		 "there is no node %s in the ensemble: make it (outlast coord --make-root), or "
		 "correct the address",
		 chroot);
	return -ENOENT;
}

/* By number if both end in one, else by name */
static int name_compare(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;
	uint32_t i = zk_client_shard(*x), j = zk_client_shard(*y);

	if (i != j)
		return i < j ? -1 : 1;
	return strcmp(*x, *y);
}

int zk_client_names(const struct zk_client *client, const char *path,
		    struct String_vector *ret_names)
{
	int rc;

	*ret_names = (struct String_vector){ 0 };
	rc = zoo_get_children(client->zh, path, 0, ret_names);
	if (rc == ZOK && ret_names->count > 1)
		qsort(ret_names->data, (size_t)ret_names->count, sizeof(ret_names->data[0]),
		      name_compare);
	return rc;
}

uint32_t zk_client_shard(const char *name)
{
	static const char word[] = "shard";
	char again[16];
	unsigned long number;

	if (strncmp(name, word, strlen(word)) != 0)
		return OL_KEPT_NO_SHARD;
	number = strtoul(name + strlen(word), NULL, 10);
	snprintf(again, sizeof(again), "shard%lu", number);
	return number < OL_COORD_SHARDS_MAX && strcmp(again, name) == 0 ? (uint32_t)number
									: OL_KEPT_NO_SHARD;
}
