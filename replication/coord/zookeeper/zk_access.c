/* SPDX-License-Identifier: BSD-3-Clause */

/* zk_access.c -- who a client is for an ensemble, and who has access to what it makes */

#include "replication/coord/zookeeper/zk_address.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

enum {
	SERVERS, /* in the order of struct zk_access */
	READERS,
	FILED,
};

static char digest[] = "digest";

/* user:password, the password in hex: a function of secret and job; "" where there is no secret */
static int password_derive(const struct zk_secret *secret, ol_coord_mac_fn *derive,
			   const char *user, char password[ZK_PASSWORD_BYTES])
{
	static const char label[] = "outlast: password in zookeeper of job ";
	char text[sizeof(label) + OL_COORD_JOB_MAX];
	uint8_t mac[OL_COORD_MAC_BYTES];
	size_t at;
	int rc;

	if (derive == NULL)
		return 0;
	snprintf(text, sizeof(text), "%s%s", label, secret->job);
	rc = derive(secret->mac_arg, text, strlen(text), mac);
	if (rc != 0)
		return rc == -EPERM ? 0 : -EIO;
	at = (size_t)snprintf(password, ZK_PASSWORD_BYTES, "%s:", user);
	for (unsigned i = 0; i < sizeof(mac); i++)
		at += (size_t)snprintf(password + at, ZK_PASSWORD_BYTES - at, "%02x", mac[i]);
	return 0;
}

/* The name in access lists of the user of this password; "" has none */
static int name_make(const char *password, char name[ZK_NAME_BYTES])
{
	const size_t user = strcspn(password, ":") + 1;
	uint8_t sum[EVP_MAX_MD_SIZE];
	unsigned bytes = 0;

	static_assert(ZK_USER_MAX + 4 * ((SHA_DIGEST_LENGTH + 2) / 3) < ZK_NAME_BYTES,
		      "a user, a colon and its base64 fit");
	if (password[0] == '\0')
		return 0;
	if (EVP_Digest(password, strlen(password), sum, &bytes, EVP_sha1(), NULL) != 1)
		return -EIO;
	memcpy(name, password, user);
	EVP_EncodeBlock((unsigned char *)name + user, sum, (int)bytes);
	return 0;
}

static struct ACL_vector list_make(struct zk_access *access, struct ACL entries[ZK_USERS],
				   unsigned first, unsigned last)
{
	const int32_t rights[ZK_USERS] = { ZOO_PERM_ALL, ZOO_PERM_READ, ZOO_PERM_ALL };
	int32_t count = 0;

	for (unsigned i = first; i <= last; i++)
		if (access->names[i][0] != '\0')
			entries[count++] =
				(struct ACL){ .perms = rights[i],
					      .id = { .scheme = digest, .id = access->names[i] } };
	if (count == 0)
		return ZOO_OPEN_ACL_UNSAFE;
	return (struct ACL_vector){ .count = count, .data = entries };
}

int zk_access_derive(const struct zk_address *address, const struct zk_secret *secret,
		     struct zk_access *ret_access)
{
	struct zk_access *access = ret_access;
	bool filed;
	int rc;

	memset(access, 0, sizeof(*access));
	memcpy(access->credential, address->credential, sizeof(access->credential));
	access->keyless = secret->keyless;
	rc = password_derive(secret, secret->mac, "outlast", access->password);
	if (rc == 0)
		rc = password_derive(secret, secret->owner_mac, "outlast-servers", access->owner);
	if (rc == 0)
		rc = name_make(access->owner, access->names[SERVERS]);
	if (rc == 0)
		rc = name_make(access->password, access->names[READERS]);
	if (rc == 0)
		rc = name_make(access->credential, access->names[FILED]);
	filed = access->keyless && access->credential[0] != '\0';
	access->acl = list_make(access, access->entries, filed ? FILED : SERVERS, FILED);
	access->open_acl = list_make(access, access->open_entries, SERVERS, READERS);
	return rc;
}

int zk_access_introduce(const struct zk_access *access, zhandle_t *zh)
{
	const char *all[ZK_USERS] = { access->password, access->owner, access->credential };
	int rc = ZOK;

	for (unsigned i = 0; i < ZK_USERS && rc == ZOK; i++)
		if (all[i][0] != '\0')
			rc = zoo_add_auth(zh, digest, all[i], (int)strlen(all[i]), NULL, NULL);
	return rc;
}

bool zk_access_only_reads(const struct zk_access *access)
{
	return access->password[0] != '\0' && access->owner[0] == '\0';
}

/*
 * The entry is of this client's user `which`. To a client without ZOO_PERM_ADMIN a server shows "x" in the
 * place of each sum; one that has the secret of those who may write has that right in a list of its job.
 */
static bool names_user(const struct zk_access *access, const struct ACL *entry, unsigned which,
		       const char *user)
{
	const char *sum = strchr(entry->id.id, ':');
	const bool hidden = access->owner[0] == '\0' && sum != NULL && strcmp(sum, ":x") == 0;

	if (strcmp(entry->id.scheme, digest) != 0)
		return false;
	if (!hidden && access->names[which][0] != '\0')
		return strcmp(entry->id.id, access->names[which]) == 0;
	return strncmp(entry->id.id, user, strlen(user)) == 0;
}

/* A third user has every right: so if it is this client's, no sum is hidden from it */
static bool names_secret(const struct zk_access *access, const struct ACL *of, int32_t count)
{
	if (count != 2 && (count != 3 || strcmp(of[FILED].id.scheme, digest) != 0 ||
			   of[FILED].perms != ZOO_PERM_ALL))
		return false;
	return names_user(access, &of[SERVERS], SERVERS, "outlast-servers:") &&
	       names_user(access, &of[READERS], READERS, "outlast:") &&
	       of[READERS].perms == ZOO_PERM_READ;
}

/*
 * Nobody can name this client's user of the secret in a list but who has the secret: what is beside it,
 * a holder of the secret has put there.
 */
unsigned zk_access_list(const struct zk_access *access, const struct ACL_vector *acl)
{
	const bool filed = access->keyless && access->credential[0] != '\0';
	const bool secret = names_secret(access, acl->data, acl->count);
	unsigned found = 0;

	for (int32_t i = 0; i < acl->count; i++)
		if (strcmp(acl->data[i].id.scheme, "world") == 0 &&
		    (acl->data[i].perms & ~ZOO_PERM_READ) != 0)
			found |= ZK_LIST_OPEN;
	if (secret && access->keyless)
		found |= ZK_LIST_OPEN;
	if (filed ? acl->count == 1 && names_user(access, &acl->data[0], FILED, "") : secret)
		found |= ZK_LIST_OURS;
	return found;
}

void zk_access_folder(const struct zk_access *access, struct ACL entries[2],
		      struct ACL_vector *ret_acl)
{
	const bool filed = access->credential[0] != '\0';
	static char world[] = "world", anyone[] = "anyone";

	entries[0] = (struct ACL){ .perms = ZOO_PERM_READ, .id = { world, anyone } };
	if (!filed)
		entries[0].perms |= ZOO_PERM_CREATE | ZOO_PERM_DELETE;
	entries[1] =
		access->entries[access->acl.count - 1]; /* the user of the file, if there is one */
	*ret_acl = (struct ACL_vector){ .count = filed ? 2 : 1, .data = entries };
}
