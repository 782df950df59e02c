/* SPDX-License-Identifier: BSD-3-Clause */

/* service.h -- a server as a service: what its manager and its lines in the journal are told of it */
#ifndef OUTLAST_SERVICE_H
#define OUTLAST_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/notify.h"
#include "outlast.h"

struct service {
	struct ol_notify notify;
	uint32_t shard, shard_count;
	bool has_chain;
	bool was_ready, is_ending;
};

/*
 * service_start -- the manager's address, and the shard in the fields of lines
 *
 * A server that another process of ours started is no service: by_hand is false. Before any thread is started.
 */
void service_start(struct service *service, bool by_hand, uint32_t shard, uint32_t shard_count,
		   bool has_chain);
void service_end(struct service *service);

/* service_ready -- it listens, and may stand still for lease_ms; 0: for ever */
void service_ready(struct service *service, const struct ol_server_stat *stat, uint32_t lease_ms);

/*
 * service_look -- status line, sign of life, and fields, from the counters of now; several times a second,
 * not by the thread that serves
 *
 * waits: what a server without a place in its chain waits for; "": it is not known
 */
void service_look(struct service *service, const struct ol_server_stat *stat, const char *waits);

/* service_ending -- it was asked to end, or has done what it was started for */
void service_ending(struct service *service, bool has_checkpoints);

/* service_text -- the status line, cut to fit */
void service_text(const struct service *service, const struct ol_server_stat *stat,
		  const char *waits, char text[OL_NOTIFY_STATUS_MAX]);

#endif /* OUTLAST_SERVICE_H */
