/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * counters.c -- a server's counters as JSON, there and back
 */
#include "outlast/counters.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A counter more is a row more. */
struct row {
	const char *name;
	size_t offset;
	bool wide; /* 64 bits */
	bool chain;
};

#define WIDE(member) \
	{ \
#member, offsetof(struct ol_server_stat, member), true, false \
	}
#define CHAIN(member) \
	{ \
#member, offsetof(struct ol_server_stat, member), true, true \
	}
#define SMALL(member) \
	{ \
#member, offsetof(struct ol_server_stat, member), false, true \
	}

static const struct row rows[] = {
	WIDE(version),
	WIDE(applied),
	WIDE(dropped_nonfinite),
	WIDE(dropped_late),
	WIDE(duplicates),
	WIDE(staleness_sum),
	WIDE(bytes_in),
	WIDE(samples),
	WIDE(refused),
	WIDE(violations),
	WIDE(replayed),
	WIDE(restored_version),
	WIDE(restored_lost),
	WIDE(ready_ns),
	WIDE(checkpoints),
	WIDE(checkpoints_failed),
	WIDE(checkpoints_skipped),
	WIDE(checkpoint_bytes),
	WIDE(turn_max_ns),
	WIDE(sent_away),
	{ "epoch", offsetof(struct ol_server_stat, epoch), false, false },
	{ "workers", offsetof(struct ol_server_stat, workers), false, false },
	{ "wait_for", offsetof(struct ol_server_stat, wait_for), false, false },
	CHAIN(received),
	CHAIN(committed),
	CHAIN(forwarded),
	CHAIN(forwarded_bytes),
	CHAIN(resent),
	CHAIN(resync_bytes),
	CHAIN(resync_ns),
	CHAIN(views),
	CHAIN(suspicions),
	SMALL(ring_slots),
	SMALL(ring_used),
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

json_t *ol_counters_json(const struct ol_server_stat *stat)
{
	bool chain = stat->replica != 0 || stat->role != OL_REPLICA_NONE;
	json_t *json = json_object();
	int rc = json != NULL ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < ROWS; i++) {
		const char *at = (const char *)stat + rows[i].offset;
		uint64_t wide = 0;
		uint32_t small = 0;

		if (rows[i].chain && !chain)
			continue;
		if (rows[i].wide)
			memcpy(&wide, at, sizeof(wide));
		else
			memcpy(&small, at, sizeof(small));
		rc = json_object_set_new(json, rows[i].name,
					 json_integer((json_int_t)(rows[i].wide ? wide : small)));
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

	for (size_t i = 0; i < ROWS; i++) {
		json_int_t value = json_integer_value(json_object_get(json, rows[i].name));
		char *at = (char *)&stat + rows[i].offset;
		uint64_t wide = (uint64_t)value;
		uint32_t small = (uint32_t)value;

		if (rows[i].wide)
			memcpy(at, &wide, sizeof(wide));
		else
			memcpy(at, &small, sizeof(small));
	}
	stat.loss = (float)json_number_value(json_object_get(json, "loss"));
	for (uint32_t i = 0; role != NULL && i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (strcmp(role, roles[i]) == 0)
			stat.role = i;
	}
	*ret_stat = stat;
}
