/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * service.c -- the status line of a server; the watchdog, which hears of its loop's heartbeat
 *
 * The thread that looks is not the one that serves. So a loop that stands still, in a call that does not
 * return or with a lock that is never free, is seen from outside of it: its heartbeat stands, no sign of
 * life goes out, and the manager starts another server.
 */
#include "outlast/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/counters.h"
#include "cmd/logs.h"
#include "outlast_server.h"

void service_start(struct service *service, bool by_hand, uint32_t shard, uint32_t shard_count,
		   bool has_chain)
{
	*service = (struct service){ .shard = shard,
				     .shard_count = shard_count,
				     .has_chain = has_chain };
	if (!ol_notify_init(&service->notify))
		ol_logs_say(OL_LOG_WARN,
			    "outlast serve: NOTIFY_SOCKET is no address that can be reached: the "
			    "service manager will not hear that the server is ready");
	if (!by_hand)
		ol_notify_fini(&service->notify);
	ol_logs_server(shard, 0, 0);
}

void service_end(struct service *service)
{
	ol_notify_fini(&service->notify);
}

/* "shard 0 of 2" */
static int shard_put(const struct service *service, char *text, size_t bytes)
{
	if (service->shard_count > 1)
		return snprintf(text, bytes, "shard %" PRIu32 " of %" PRIu32, service->shard,
				service->shard_count);
	return snprintf(text, bytes, "shard %" PRIu32, service->shard);
}

void service_text(const struct service *service, const struct ol_server_stat *stat,
		  const char *waits, char text[OL_NOTIFY_STATUS_MAX])
{
	const size_t max = OL_NOTIFY_STATUS_MAX;
	char role[32] = "", saved[64] = "";
	int len = shard_put(service, text, max);

	if (service->has_chain && stat->role == OL_REPLICA_NONE) {
		if (waits[0] != '\0')
			snprintf(text, max, "%s", waits);
		else
			snprintf(text + len, max - (size_t)len, ", waits for a place in its chain");
		return;
	}
	if (stat->role != OL_REPLICA_NONE)
		snprintf(role, sizeof(role), ", %s", ol_role_str(stat->role));
	if (stat->ready_ns == 0) {
		snprintf(text + len, max - (size_t)len,
			 "%s, waits for its weights, %" PRIu32 " worker%s", role, stat->workers,
			 stat->workers == 1 ? "" : "s");
		return;
	}
	if (stat->checkpoints != 0)
		snprintf(saved, sizeof(saved), ", checkpoint of version %" PRIu64,
			 stat->checkpoint_version);
	snprintf(text + len, max - (size_t)len,
		 "%s, epoch %" PRIu32 ", version %" PRIu64 ", %" PRIu32 " worker%s%s%s", role,
		 stat->epoch, stat->version, stat->workers, stat->workers == 1 ? "" : "s", saved,
		 stat->checkpoints_failed != 0 ? "; checkpoints failed: see the log" : "");
}

void service_ready(struct service *service, const struct ol_server_stat *stat, uint32_t lease_ms)
{
	char text[OL_NOTIFY_STATUS_MAX];

	ol_logs_server(service->shard, stat->epoch, stat->version);
	service_text(service, stat, "", text);
	ol_notify_patience(&service->notify, lease_ms * OL_NS_PER_MS);
	ol_notify_ready(&service->notify, ol_clock_ns(), text);
	service->was_ready = true;
}

void service_look(struct service *service, const struct ol_server_stat *stat, const char *waits)
{
	char text[OL_NOTIFY_STATUS_MAX];
	uint64_t now_ns = ol_clock_ns();

	ol_logs_server(service->shard, stat->epoch, stat->version);
	if (!ol_notify_wanted(&service->notify) || service->is_ending)
		return;
	(void)ol_notify_beat(&service->notify, now_ns, stat->heartbeat);
	service_text(service, stat, waits, text);
	ol_notify_status(&service->notify, now_ns, text);
}

void service_ending(struct service *service, bool has_checkpoints)
{
	if (service->is_ending)
		return;
	service->is_ending = true;
	ol_notify_stopping(&service->notify,
			   has_checkpoints ? "ends, and writes its last checkpoint" : "ends");
}
