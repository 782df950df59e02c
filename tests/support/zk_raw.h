/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zk_raw.h -- a plain session with ZooKeeper: for tests that read or change its nodes
 *
 * Every call waits for its answer, and ends the test if it fails.
 */
#ifndef OL_TESTS_SUPPORT_ZK_RAW_H
#define OL_TESTS_SUPPORT_ZK_RAW_H

#include <stddef.h>
#include <stdint.h>

struct zk_raw;

/* addr: as for ol_coord_open(), with "zk:" */
struct zk_raw *zk_raw_open(const char *addr);
void zk_raw_close(struct zk_raw *raw);

void zk_raw_create(struct zk_raw *raw, const char *path, const char *text);
void zk_raw_set(struct zk_raw *raw, const char *path, const char *text);
void zk_raw_delete(struct zk_raw *raw, const char *path);
/* zk_raw_get -- with an end */
void zk_raw_get(struct zk_raw *raw, const char *path, char *text, size_t bytes);

/* zk_raw_introduce -- be this user from here on, with the password that the back end makes of the mac */
void zk_raw_introduce(struct zk_raw *raw, const char *user, const uint8_t mac[16]);
/* It is refused to change or delete the node, or its access list; to create it; to read it */
void zk_raw_denied(struct zk_raw *raw, const char *path);
void zk_raw_create_denied(struct zk_raw *raw, const char *path);
void zk_raw_get_denied(struct zk_raw *raw, const char *path);

#endif /* OL_TESTS_SUPPORT_ZK_RAW_H */
