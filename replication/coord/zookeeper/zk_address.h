/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zk_address.h -- where an ensemble is, and who a client of it is
 *
 *	zk:HOST:PORT,HOST:PORT[/CHROOT][?auth=FILE]
 *
 * CHROOT is a node that is there already: everything lies below it. FILE holds a line "user:password"
 * of ZooKeeper's scheme digest, and is its owner's alone.
 *
 * A client is up to three users at once, in this order in the access list of what it makes:
 *
 *	outlast-servers   of the secret of those who may write: everything
 *	outlast           of the secret of all: reads
 *	the one of FILE   everything
 *
 * A job without a key has a secret too, which everybody has. With a file only its user is in the list then.
 *
 * A user's name there is its name and the SHA-1 of name and password, in base64: what the ensemble
 * calls DigestAlg is to be SHA1, its default. Passwords travel in clear.
 */
#ifndef OL_REPLICATION_COORD_ZOOKEEPER_ZK_ADDRESS_H
#define OL_REPLICATION_COORD_ZOOKEEPER_ZK_ADDRESS_H

#define THREADED /* which half of zookeeper.h */
#include <zookeeper/zookeeper.h>

#include "replication/coord/coord_internal.h"

enum {
	ZK_CHROOT_MAX = 128, /* with its end */
	ZK_USER_MAX = 64, /* of FILE, with its end */
	ZK_CREDENTIAL_MAX = 256, /* user:password of FILE, with its end */
	ZK_PASSWORD_BYTES = 64, /* of a secret's user, with the user */
	ZK_NAME_BYTES = ZK_USER_MAX + 32,
	ZK_USERS = 3,
};

struct zk_address {
	char hosts[OL_COORD_ADDR_MAX];
	char chroot[ZK_CHROOT_MAX]; /* "": the root of the ensemble */
	char file[OL_COORD_ADDR_MAX]; /* "": none */
	char credential[ZK_CREDENTIAL_MAX]; /* of the file */
};

/* zk_address_read -- take an address apart, and read its file: 0, -EINVAL (no such address), -EPERM
 * (others may read the file), -ENOENT, -EIO, with a line in err */
int zk_address_read(const char *addr, struct zk_address *ret_address, char *err, size_t err_bytes);

/* Who this client is. It points into itself: it is not to be copied. */
struct zk_access {
	/* Of digest, with the user; empty: no secret, or not that of those who may write */
	char password[ZK_PASSWORD_BYTES];
	char owner[ZK_PASSWORD_BYTES];
	char credential[ZK_CREDENTIAL_MAX]; /* empty: none */
	char names[ZK_USERS][ZK_NAME_BYTES]; /* in access lists; empty: it is not this user */
	bool keyless; /* everybody has the secret: beside the user of a file its users have no access … */
	struct ACL entries[ZK_USERS], open_entries[ZK_USERS];
	struct ACL_vector acl; /* of what it makes */
	struct ACL_vector open_acl; /* … but in a job that was begun without the file */
};

/* What an access list that could be read says */
enum zk_list {
	ZK_LIST_OURS =
		1, /* only holders of this job's secrets have access, and one user of a file */
	ZK_LIST_OPEN =
		2, /* anybody may change it: it has no list, or one of the secret of everybody */
};

/* What a client's users are derived of */
struct zk_secret {
	const char *job;
	ol_coord_mac_fn *mac, *owner_mac;
	void *mac_arg;
	bool keyless;
};

/* zk_access_derive -- of an address and a job's secrets: 0 or -EIO */
int zk_access_derive(const struct zk_address *address, const struct zk_secret *secret,
		     struct zk_access *ret_access);
/* zk_access_introduce -- tell a session's servers who it is; ZOK or the library's error. The library
 * repeats it when it connects again. */
int zk_access_introduce(const struct zk_access *access, zhandle_t *zh);
/* zk_access_only_reads -- it has no right to make anything: what is missing, others will make */
bool zk_access_only_reads(const struct zk_access *access);
/* zk_access_list -- bits of enum zk_list */
unsigned zk_access_list(const struct zk_access *access, const struct ACL_vector *acl);
/* zk_access_folder -- the list of the node that holds all jobs: any client may add one, or only the
 * user of the file */
void zk_access_folder(const struct zk_access *access, struct ACL entries[2],
		      struct ACL_vector *ret_acl);

#endif /* OL_REPLICATION_COORD_ZOOKEEPER_ZK_ADDRESS_H */
