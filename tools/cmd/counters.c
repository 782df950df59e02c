/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * counters.c -- a server's counters to and from JSON; sums of them
 */
#include "cmd/counters.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* One row a counter */
struct row {
	const char *name;
	size_t offset;
	bool wide; /* 64 bits */
	bool chain;
};

#define ROW(member, chain) \
	{ \
#member, offsetof(struct ol_server_stat, member), \
			sizeof(((struct ol_server_stat *)NULL)->member) == sizeof(uint64_t), chain \
	}

static const struct row rows[] = {
	ROW(version, false),
	ROW(applied, false),
	ROW(dropped_nonfinite, false),
	ROW(dropped_late, false),
	ROW(duplicates, false),
	ROW(staleness_sum, false),
	ROW(bytes_in, false),
	ROW(samples, false),
	ROW(refused, false),
	ROW(violations, false),
	ROW(replayed, false),
	ROW(restored_version, false),
	ROW(restored_lost, false),
	ROW(ready_ns, false),
	ROW(checkpoints, false),
	ROW(checkpoints_failed, false),
	ROW(checkpoints_skipped, false),
	ROW(checkpoint_bytes, false),
	ROW(turn_max_ns, false),
	ROW(sent_away, false),
	ROW(early_bytes, false),
	ROW(early_void_bytes, false),
	ROW(conns, false),
	ROW(regions, false),
	ROW(region_bytes, false),
	ROW(writes, false),
	ROW(write_bytes, false),
	ROW(doorbells, false),
	ROW(reads, false),
	ROW(read_bytes, false),
	ROW(rung, false),
	ROW(busy, false),
	ROW(carried, false),
	ROW(beat_ns, false),
	ROW(checkpoint_ns, false),
	ROW(epoch, false),
	ROW(workers, false),
	ROW(wait_for, false),
	ROW(received, true),
	ROW(committed, true),
	ROW(forwarded, true),
	ROW(forwarded_bytes, true),
	ROW(resent, true),
	ROW(resync_bytes, true),
	ROW(resync_ns, true),
	ROW(views, true),
	ROW(suspicions, true),
	ROW(proposed_ns, true),
	ROW(adopted_ns, true),
	ROW(linked_ns, true),
	ROW(ring_slots, true),
	ROW(ring_used, true),
};

enum {
	ROWS = sizeof(rows) / sizeof(rows[0])
};

static const char *const roles[] = {
	[OL_REPLICA_NONE] = "none", [OL_REPLICA_JOINING] = "joining",
	[OL_REPLICA_HEAD] = "head", [OL_REPLICA_MIDDLE] = "middle",
	[OL_REPLICA_TAIL] = "tail", [OL_REPLICA_ONLY] = "only",
};

const char *ol_role_str(uint32_t role)
{
	return role < sizeof(roles) / sizeof(roles[0]) ? roles[role] : "unknown";
}

static uint64_t value_of(const struct ol_server_stat *stat, const struct row *row)
{
	const char *at = (const char *)stat + row->offset;
	uint64_t wide;
	uint32_t small;

	if (row->wide) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&small, at, sizeof(small));
	return small;
}

static void value_set(struct ol_server_stat *stat, const struct row *row, uint64_t value)
{
	uint32_t small = (uint32_t)value;

	memcpy((char *)stat + row->offset, row->wide ? (const void *)&value : (const void *)&small,
	       row->wide ? sizeof(value) : sizeof(small));
}

json_t *ol_counters_json(const struct ol_server_stat *stat)
{
	bool chain = stat->replica != 0 || stat->role != OL_REPLICA_NONE;
	json_t *json = json_object();
	int rc = json != NULL ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < ROWS; i++) {
		if (!rows[i].chain || chain)
			rc = json_object_set_new(
				json, rows[i].name,
				json_integer((json_int_t)value_of(stat, &rows[i])));
	}
	if (rc == 0)
		rc = json_object_set_new(json, "loss",
					 isfinite(stat->loss) ? json_real((double)stat->loss)
							      : json_null());
	if (rc == 0 && chain)
		rc = json_object_set_new(json, "role", json_string(ol_role_str(stat->role)));
	if (rc == 0)
		return json;
	json_decref(json);
	return NULL;
}

void ol_counters_take(const json_t *json, struct ol_server_stat *ret_stat)
{
	const char *role = json_string_value(json_object_get(json, "role"));
	struct ol_server_stat stat = { 0 };

	for (size_t i = 0; i < ROWS; i++)
		value_set(&stat, &rows[i],
			  (uint64_t)json_integer_value(json_object_get(json, rows[i].name)));
	stat.loss = (float)json_number_value(json_object_get(json, "loss"));
	for (uint32_t i = 0; role != NULL && i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (strcmp(role, roles[i]) == 0)
			stat.role = i;
	}
	*ret_stat = stat;
}

void ol_counters_add(struct ol_server_stat *sum, const struct ol_server_stat *one)
{
	uint64_t longest_ns = sum->resync_ns > one->resync_ns ? sum->resync_ns : one->resync_ns;

	for (size_t i = 0; i < ROWS; i++)
		value_set(sum, &rows[i], value_of(sum, &rows[i]) + value_of(one, &rows[i]));
	sum->resync_ns = longest_ns;
}
