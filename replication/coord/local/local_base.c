/* SPDX-License-Identifier: BSD-3-Clause */

/* local_base.c -- helpers of the directory back end: watched shards, giving up, retrying */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "replication/coord/local/local.h"

#define RETRY_NS UINT64_C(10000000) /* from a failure to the next look */

bool ol_local_watches(const struct ol_local *local, uint32_t shard)
{
	uint64_t watched = local->coord->opts.watched;

	return watched == 0 || (watched >> shard & 1) != 0;
}

void ol_local_give_up(struct ol_local *local, const char *format, ...)
{
	char text[OL_COORD_LINE_MAX / 2];
	va_list args;

	if (local->away)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	local->away = true;
	ol_coord_log(local->coord,
		     "%s: chains cannot change any more; running servers and workers go on. Start "
		     "the job again in another folder",
		     text);
	/* no other server can take its place: the lease lasts as long as the process */
	ol_coord_set_session(local->coord, false, UINT64_MAX);
	ol_coord_settle(local->coord, -EIO, text);
}

void ol_local_retry(struct ol_local *local)
{
	uint64_t soon_ns = ol_coord_now_ns() + RETRY_NS;

	if (local->all_ns > soon_ns)
		local->all_ns = soon_ns;
}
