/* SPDX-License-Identifier: BSD-3-Clause */

/* no_zookeeper.c -- the back end of a build without ZooKeeper's client: it refuses every address */

#include <errno.h>
#include <stdio.h>

#include "replication/coord/coord_internal.h"

static int none(char *err, size_t err_bytes)
{
	snprintf(err, err_bytes,
		 "this build of Outlast has no ZooKeeper: give dir:PATH, or build it with "
		 "OUTLAST_ZOOKEEPER=ON");
	return -EOPNOTSUPP;
}

static int none_start(struct ol_coord *coord, void **ret_back, char *err, size_t err_bytes)
{
	(void)coord;
	(void)ret_back;
	return none(err, err_bytes);
}

static int none_list(const struct ol_coord_ask *ask, ol_kept_fn *tell, void *arg, char *err,
		     size_t err_bytes)
{
	(void)ask;
	(void)tell;
	(void)arg;
	return none(err, err_bytes);
}

static int none_ask(const struct ol_coord_ask *ask, char *err, size_t err_bytes)
{
	(void)ask;
	return none(err, err_bytes);
}

static int none_examine(const struct ol_coord_ask *ask, uint32_t lease_ms, uint32_t rounds,
			struct ol_asker *asker, char *err, size_t err_bytes)
{
	(void)ask;
	(void)lease_ms;
	(void)rounds;
	(void)asker;
	return none(err, err_bytes);
}

/* Never called, as none_start() always fails */
static void none_use(void *back)
{
	(void)back;
}

const struct ol_coord_backend ol_coord_zookeeper = {
	.start = none_start,
	.wake = none_use,
	.stop = none_use,
	.list = none_list,
	.remove = none_ask,
	.make_root = none_ask,
	.examine = none_examine,
};
