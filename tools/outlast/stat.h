/* SPDX-License-Identifier: BSD-3-Clause */

/* stat.h -- what `outlast stat` has read in one look, and the forms in which it is shown */
#ifndef OUTLAST_STAT_H
#define OUTLAST_STAT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/series.h"
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
	const char *job; /* NULL: servers were given */
	const char *label; /* of metrics: the job's name, also where servers were given */
	uint32_t shard_count;
	struct ol_chain_info chains[STAT_SHARDS_MAX]; /* with a coordinator */
	struct stat_row rows[STAT_ROWS_MAX]; /* by shard and place */
	uint32_t row_count;
	uint64_t now_ns; /* of this look */
	bool traffic; /* a line of it for each server */
};

/* stat_lag -- how many entries are ordered, or received, and not yet known to be committed */
static inline uint64_t stat_lag(const struct ol_server_stat *stat)
{
	return stat->received > stat->committed ? stat->received - stat->committed : 0;
}

static inline bool stat_in_chain(const struct ol_server_stat *stat)
{
	return stat->role != OL_REPLICA_NONE;
}

/* stat_text -- the look as a table, with a line of titles or without */
void stat_text(const struct stat_view *view, bool titles, FILE *out);

/* stat_json -- the look as an object; NULL: no memory */
json_t *stat_json(const struct stat_view *view);

/* stat_metrics -- the look as text for Prometheus; it took look_ns */
void stat_metrics(const struct stat_view *view, uint64_t look_ns, const struct ol_series *to);

#endif /* OUTLAST_STAT_H */
