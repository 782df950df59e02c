/* SPDX-License-Identifier: BSD-3-Clause */

/* no_zookeeper.c -- the back end of a build without ZooKeeper's client: it refuses every address */

#include <errno.h>
#include <stdio.h>

#include "replication/coord/coord_internal.h"

static int none_start(struct ol_coord *coord, void **ret_back, char *err, size_t err_bytes)
{
	(void)coord;
	(void)ret_back;
	snprintf(err, err_bytes,
		 "this build of Outlast has no ZooKeeper: give dir:PATH, or build it with "
		 "OUTLAST_ZOOKEEPER=ON");
	return -EOPNOTSUPP;
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
};
