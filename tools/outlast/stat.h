/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * stat.h -- the parts of `outlast stat`
 *
 *	stat.c       settings; which servers there are; reading their counters
 *	stat_show.c  as a table, as JSON
 */
#ifndef OUTLAST_STAT_H
#define OUTLAST_STAT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "outlast.h"
#include "outlast_server.h"

enum {
	STAT_SHARDS_MAX = 64,
	STAT_ROWS_MAX = STAT_SHARDS_MAX * OL_CHAIN_MAX,
	STAT_WHY_MAX = 192
};

/* One server */
struct stat_row {
	uint32_t shard;
	uint32_t place; /* in its chain; a joining replica is after the tail */
	uint64_t id; /* 0: it was given by its address */
	char addr[OL_ADDR_MAX];
	struct ol_worker *observer; /* NULL: not connected */
	bool known; /* stat was read in this look */
	char why[STAT_WHY_MAX]; /* if not known: the reason */
	struct ol_server_stat stat;
	uint64_t beat_ns; /* when its heartbeat last changed; 0: never seen */
};

struct stat_view {
	const char *coordinator; /* NULL: servers were given */
	const char *job;
	uint32_t shard_count;
	struct ol_chain_info chains[STAT_SHARDS_MAX]; /* with a coordinator */
	struct stat_row rows[STAT_ROWS_MAX]; /* by shard and place */
	uint32_t row_count;
	uint64_t now_ns; /* of this look */
};

/* stat_show_text -- the whole table; titles: with the names of the columns */
void stat_show_text(const struct stat_view *view, bool titles, FILE *out);

/* stat_show_json -- NULL: no memory */
json_t *stat_show_json(const struct stat_view *view);

#endif /* OUTLAST_STAT_H */
