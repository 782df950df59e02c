/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * stat.c -- reads the servers' counters, and finds shards without a server
 */
#include "train/parts.h"

/* The counts of shard 0: of all its servers so far, and of the present one */
static void stat_take(struct train_stat *stat, struct ol_server_stat total,
		      const struct ol_server_stat *now)
{
	stat->applied = total.applied;
	stat->dropped_nonfinite = total.dropped_nonfinite;
	stat->dropped_late = total.dropped_late;
	stat->staleness_sum = total.staleness_sum;
	stat->wait_for = now->wait_for;
	if (now->applied > 0)
		stat->loss = now->loss;
}

/* Read the tails of chains */
static void tails_read(struct train *train)
{
	struct train_stat *stat = &train->stat;
	uint64_t version = UINT64_MAX;

	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct ol_server_stat *tail = &train->tails[i], one;

		/* a new tail may still be behind the last one's counters */
		if (ol_stat(train->observer, i, &one) == 0 && one.version >= tail->version)
			*tail = one;
		if (tail->version < version)
			version = tail->version;
	}
	stat_take(stat, train->tails[0], &train->tails[0]);
	stat->version = version;
}

void train_stat_read(struct train *train)
{
	uint64_t version = UINT64_MAX;

	if (train->chain != NULL) {
		tails_read(train);
		return;
	}
	for (uint32_t i = 0; i < train->set.servers; i++) {
		struct train_server *server = &train->servers[i];
		struct ol_server_stat one;

		/* the board of a former server, or of one without weights, does not count */
		if (server->state == TRAIN_SERVER_WHOLE && ol_stat(train->observer, i, &one) == 0 &&
		    one.epoch == server->epoch)
			server->stat = one;
		if (server->stat.epoch != 0 && server->stat.version < version)
			version = server->stat.version;
	}
	stat_take(&train->stat, train_total(&train->servers[0]), &train->servers[0].stat);
	if (version != UINT64_MAX)
		train->stat.version = version;
}

bool train_shard_down(const struct train *train, uint32_t shard, uint64_t *ret_since_ns)
{
	struct ol_link_stat link = { 0 };
	bool known = ol_link_get_stat(train->observer, shard, &link) == 0;
	bool empty = train->chain == NULL && train->servers[shard].state != TRAIN_SERVER_WHOLE;

	if (!empty && !(known && link.down))
		return false;
	*ret_since_ns = link.down_ns; /* also if it is up again, but without weights yet */
	return true;
}

unsigned train_shards_down(const struct train *train)
{
	unsigned down = 0;
	uint64_t since_ns;

	for (uint32_t i = 0; i < train->set.servers; i++)
		down += train_shard_down(train, i, &since_ns);
	return down;
}
