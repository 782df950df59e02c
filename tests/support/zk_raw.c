/* SPDX-License-Identifier: BSD-3-Clause */

/* zk_raw.c -- calls of the client library that wait for their answer */

#include "support/zk_raw.h"

#include <string.h>

#define THREADED /* which half of zookeeper.h */
#include <zookeeper/zookeeper.h>

#include "support/check.h"

enum {
	SESSION_MS = 20000
};

struct zk_raw {
	zhandle_t *zh;
};

struct zk_raw *zk_raw_open(const char *addr)
{
	struct zk_raw *raw = calloc(1, sizeof(*raw));

	check(raw != NULL);
	zoo_set_debug_level((ZooLogLevel)0);
	raw->zh = zookeeper_init(addr + strlen("zk:"), NULL, SESSION_MS, NULL, NULL, 0);
	check(raw->zh != NULL);
	return raw;
}

void zk_raw_close(struct zk_raw *raw)
{
	zookeeper_close(raw->zh);
	free(raw);
}

void zk_raw_create(struct zk_raw *raw, const char *path, const char *text)
{
	check_ok(zoo_create(raw->zh, path, text, (int)strlen(text), &ZOO_OPEN_ACL_UNSAFE,
			    ZOO_PERSISTENT, NULL, 0));
}

void zk_raw_set(struct zk_raw *raw, const char *path, const char *text)
{
	check_ok(zoo_set(raw->zh, path, text, (int)strlen(text), -1));
}

void zk_raw_delete(struct zk_raw *raw, const char *path)
{
	check_ok(zoo_delete(raw->zh, path, -1));
}

void zk_raw_get(struct zk_raw *raw, const char *path, char *text, size_t bytes)
{
	int count = (int)bytes - 1;

	check_ok(zoo_get(raw->zh, path, 0, text, &count, NULL));
	text[count < 0 ? 0 : count] = '\0';
}

void zk_raw_introduce(struct zk_raw *raw, const char *user, const uint8_t mac[16])
{
	char password[64];
	int at = snprintf(password, sizeof(password), "%s:", user);

	for (unsigned i = 0; i < 16; i++)
		at += snprintf(password + at, sizeof(password) - (size_t)at, "%02x", mac[i]);
	check_ok(zoo_add_auth(raw->zh, "digest", password, (int)strlen(password), NULL, NULL));
}

void zk_raw_denied(struct zk_raw *raw, const char *path)
{
	check_eq(zoo_set(raw->zh, path, "", 0, -1), ZNOAUTH);
	check_eq(zoo_delete(raw->zh, path, -1), ZNOAUTH);
	check_eq(zoo_set_acl(raw->zh, path, -1, &ZOO_OPEN_ACL_UNSAFE), ZNOAUTH);
}

void zk_raw_create_denied(struct zk_raw *raw, const char *path)
{
	check_eq(zoo_create(raw->zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0),
		 ZNOAUTH);
}

void zk_raw_get_denied(struct zk_raw *raw, const char *path)
{
	char text[16];
	int count = sizeof(text);

	check_eq(zoo_get(raw->zh, path, 0, text, &count, NULL), ZNOAUTH);
}
