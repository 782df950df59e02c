/* SPDX-License-Identifier: BSD-3-Clause */

/* zk_address.c -- an ensemble's address taken apart, and the file with a user's password read */

#include "replication/coord/zookeeper/zk_address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char auth_mark[] = "?auth=";

/* HOST:PORT,HOST:PORT: the library's error would not name the bad one */
static int hosts_check(const char *hosts, char *err, size_t err_bytes)
{
	const char *at = hosts;

	for (;;) {
		size_t bytes = strcspn(at, ",");
		const char *colon = memrchr(at, ':', bytes);
		char *end = NULL;
		unsigned long port = 0;

		if (colon != NULL && colon != at && colon[1] >= '0' && colon[1] <= '9')
			port = strtoul(colon + 1, &end, 10);
		if (end != at + bytes || port == 0 || port > UINT16_MAX ||
		    strcspn(at, " \t") < bytes) {
			snprintf(
				err, err_bytes,
				"\"%.*s\" is not HOST:PORT; wanted: zk:HOST:PORT,HOST:PORT[/CHROOT]"
				"[?auth=FILE]",
				(int)bytes, at);
			return -EINVAL;
		}
		if (at[bytes] == '\0')
			return 0;
		at += bytes + 1;
	}
}

/* "" or /A/B, of names that ZooKeeper takes for a node's */
static int chroot_check(const char *chroot, char *err, size_t err_bytes)
{
	const char *at = chroot;
	bool fine = strlen(chroot) < ZK_CHROOT_MAX;

	while (fine && *at == '/') {
		size_t bytes = strcspn(++at, "/");

		fine = bytes > 0 && !(bytes == 1 && at[0] == '.') &&
		       !(bytes == 2 && at[0] == '.' && at[1] == '.');
		for (size_t i = 0; i < bytes; i++)
			fine = fine && at[i] > ' ' && at[i] < 0x7f;
		at += bytes;
	}
	if (fine)
		return 0;
	snprintf(err, err_bytes,
		 "\"%s\" is no node of ZooKeeper: wanted /NAME or /NAME/NAME, of less than %d "
		 "characters",
		 chroot, ZK_CHROOT_MAX);
	return -EINVAL;
}

/* Nobody else may read or write it; 0 or -errno with a line */
static int file_guarded(int fd, const char *file, char err[], size_t err_bytes)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (st.st_uid != geteuid() && st.st_uid != 0) {
		snprintf(err, err_bytes, "%s belongs to user %u, who knows its password", file,
			 (unsigned)st.st_uid);
		return -EPERM;
	}
	if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
		snprintf(err, err_bytes, "others may use %s (mode %03o): chmod 600", file,
			 (unsigned)(st.st_mode & 0777));
		return -EPERM;
	}
	return 0;
}

/* One line user:password */
static int credential_check(struct zk_address *address, size_t bytes, char *err, size_t err_bytes)
{
	char *text = address->credential;
	size_t user;

	while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r'))
		bytes--;
	text[bytes] = '\0';
	user = strcspn(text, ":");
	if (user > 0 && user < ZK_USER_MAX && bytes > user + 1 && strlen(text) == bytes &&
	    strpbrk(text, "\r\n") == NULL)
		return 0;
	snprintf(err, err_bytes, "%s is to hold one line user:password, of less than %d bytes",
		 address->file, ZK_CREDENTIAL_MAX);
	return -EINVAL;
}

static int credential_read(struct zk_address *address, char *err, size_t err_bytes)
{
	int fd = open(address->file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;
	size_t got = 0;
	ssize_t more = 1;

	rc = fd < 0 ? -errno : file_guarded(fd, address->file, err, err_bytes);
	while (rc == 0 && more > 0 && got < ZK_CREDENTIAL_MAX - 1) {
		more = read(fd, address->credential + got, ZK_CREDENTIAL_MAX - 1 - got);
		if (more < 0 && errno == EINTR)
			more = 1;
		else if (more < 0)
			rc = -errno;
		else
			got += (size_t)more;
	}
	if (fd >= 0)
		close(fd);
	if (rc == 0)
		return credential_check(address, got, err, err_bytes);
	if (rc != -EPERM)
		snprintf(err, err_bytes, "?auth=%s: %s", address->file, strerror(-rc));
	return rc == -EPERM || rc == -ENOENT ? rc : -EIO;
}

int zk_address_read(const char *addr, struct zk_address *ret_address, char *err, size_t err_bytes)
{
	const char *hosts = addr + strlen("zk:"), *auth = strstr(hosts, auth_mark);
	size_t bytes = auth != NULL ? (size_t)(auth - hosts) : strlen(hosts);
	char chroot[OL_COORD_ADDR_MAX] = "", *slash;
	int rc;

	memset(ret_address, 0, sizeof(*ret_address));
	snprintf(ret_address->hosts, sizeof(ret_address->hosts), "%.*s", (int)bytes, hosts);
	slash = strchr(ret_address->hosts, '/');
	if (slash != NULL && slash[1] != '\0') /* zk:HOST:PORT/ is the root */
		snprintf(chroot, sizeof(chroot), "%s", slash);
	if (slash != NULL)
		*slash = '\0';
	rc = hosts_check(ret_address->hosts, err, err_bytes);
	if (rc == 0)
		rc = chroot_check(chroot, err, err_bytes);
	if (rc != 0)
		return rc;
	memcpy(ret_address->chroot, chroot, strlen(chroot) + 1);
	if (auth == NULL)
		return 0;
	snprintf(ret_address->file, sizeof(ret_address->file), "%s", auth + strlen(auth_mark));
	rc = credential_read(ret_address, err, err_bytes);
	if (rc != 0)
		explicit_bzero(ret_address->credential, sizeof(ret_address->credential));
	return rc;
}
