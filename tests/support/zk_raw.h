/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zk_raw.h -- a plain session with ZooKeeper: for tests that read or change its nodes
 *
 * Every call waits for its answer, and ends the test if it fails.
 */
#ifndef OL_TESTS_SUPPORT_ZK_RAW_H
#define OL_TESTS_SUPPORT_ZK_RAW_H

#include <stddef.h>

struct zk_raw;

/* addr: as for ol_coord_open(), with "zk:" */
struct zk_raw *zk_raw_open(const char *addr);
void zk_raw_close(struct zk_raw *raw);

void zk_raw_create(struct zk_raw *raw, const char *path, const char *text);
void zk_raw_set(struct zk_raw *raw, const char *path, const char *text);
void zk_raw_delete(struct zk_raw *raw, const char *path);
/* zk_raw_get -- with an end */
void zk_raw_get(struct zk_raw *raw, const char *path, char *text, size_t bytes);

#endif /* OL_TESTS_SUPPORT_ZK_RAW_H */
