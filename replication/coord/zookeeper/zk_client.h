/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zk_client.h -- a short session with an ensemble that waits for each answer: for ask.h
 *
 *	zk_client.c    the session
 *	zk_list.c      ol_coord_list()
 *	zk_remove.c    ol_coord_remove(), ol_coord_make_root()
 *	zk_examine.c   ol_coord_examine(): the session's half
 *	zk_server.c    … and that of each server, over a plain connection
 */
#ifndef OL_REPLICATION_COORD_ZOOKEEPER_ZK_CLIENT_H
#define OL_REPLICATION_COORD_ZOOKEEPER_ZK_CLIENT_H

#include "replication/coord/ask_internal.h"
#include "replication/coord/zookeeper/zk.h"

struct zk_client {
	const struct ol_coord_ask *ask;
	struct zk_address address;
	struct zk_access access; /* of the job asked for last … */
	struct zk_access keyless; /* … and who it is for a job without a key */
	char folder[ZK_FOLDER_MAX]; /* CHROOT/outlast */
	zhandle_t *zh;
	pthread_mutex_t lock; /* both below */
	pthread_cond_t cond;
	int state; /* of the session; 0: none yet */
	int synced_rc; /* of zk_client_sync(); 1: no answer yet */
};

/* zk_client_open -- 0, or -EINVAL, -EPERM, -ENOENT, -EACCES, -ETIMEDOUT, -EIO with a line in err;
 * session_ms: asked for */
int zk_client_open(struct zk_client *client, const struct ol_coord_ask *ask, uint32_t session_ms,
		   char *err, size_t err_bytes);
void zk_client_close(struct zk_client *client);
/* zk_client_be -- be the users of this job from here on, beside those it is already; NULL: of none; 0 or -EIO */
int zk_client_be(struct zk_client *client, const char *job);
/* zk_client_sync -- like zoo_sync(), which the library does not have; ZOK or its error */
int zk_client_sync(struct zk_client *client, const char *path);
/* zk_client_fail -- the library's error as ask.h's, with a line "WHAT: …" */
int zk_client_fail(int rc, const char *what, char *err, size_t err_bytes);
/* zk_client_no_root -- -ENOENT with its line if the chroot is missing; 0: it is there, or none is asked for */
int zk_client_no_root(const struct zk_client *client, char *err, size_t err_bytes);
/* zk_client_names -- names of a node's children, in order; the library's error otherwise. The caller frees
 * it by deallocate_String_vector() */
int zk_client_names(const struct zk_client *client, const char *path,
		    struct String_vector *ret_names);
/* zk_client_shard -- N of "shardN"; OL_KEPT_NO_SHARD: it is no such name */
uint32_t zk_client_shard(const char *name);

/* ask.h's, as the table of the back end has them */
int zk_list(const struct ol_coord_ask *ask, ol_kept_fn *tell, void *arg, char *err,
	    size_t err_bytes);
int zk_remove(const struct ol_coord_ask *ask, char *err, size_t err_bytes);
int zk_make_root(const struct ol_coord_ask *ask, char *err, size_t err_bytes);
int zk_examine(const struct ol_coord_ask *ask, uint32_t lease_ms, uint32_t rounds,
	       struct ol_asker *asker, char *err, size_t err_bytes);
/* zk_list_all -- zk_list() in an open session */
int zk_list_all(struct zk_client *client, ol_kept_fn *tell, void *arg, char *err, size_t err_bytes);

/* What one server says of itself */
struct zk_server {
	char addr[OL_ENDPOINT_MAX];
	bool reached; /* there was a connection */
	bool serves; /* it granted a session, so it sees a quorum */
	bool tells; /* it answered srvr, which its whitelist may forbid */
	char mode[16]; /* leader, follower, observer, standalone; "": not told */
	char version[32]; /* "": not told */
	char why[128]; /* if it does not serve */
	uint64_t connect_ns, session_ns;
	uint32_t clients; /* connected */
	uint32_t session_min_ms, session_max_ms; /* that it grants; 0: not known */
	int32_t clients_max; /* of one address: maxClientCnxns, 0: no limit; -1: not told (conf) */
};

/* zk_server_look -- at HOST:PORT, `bytes` long */
void zk_server_look(const char *addr, size_t bytes, uint32_t timeout_ms,
		    struct zk_server *ret_server);

#endif /* OL_REPLICATION_COORD_ZOOKEEPER_ZK_CLIENT_H */
