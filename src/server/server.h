/* SPDX-License-Identifier: BSD-3-Clause */

/* server.h -- what each event means to a server; the reactor calls these */
#ifndef OL_SERVER_SERVER_H
#define OL_SERVER_SERVER_H

#include <stdint.h>

#include "rdma/transport.h"
#include "server/serve.h"

/* ol_server_open_kind -- ol_server_open(), of a given kind; opts: whole, not yet checked */
int ol_server_open_kind(const struct ol_server_opts *opts, const struct ol_chain_kind *kind,
			const float *weights, struct ol_server **ret_server, char *err,
			size_t err_bytes);
void ol_server_on_event(struct ol_server *server, const struct ol_xport_event *event,
			uint64_t now_ns);
/* ol_server_on_memory -- take one job that the memory thread has done: at most one peer comes in */
void ol_server_on_memory(struct ol_server *server, uint64_t now_ns);
/* ol_server_beat -- count the heartbeat on the board: the loop turns */
void ol_server_beat(struct ol_server *server, uint64_t now_ns);
void ol_server_tick(struct ol_server *server, uint64_t now_ns);

#endif /* OL_SERVER_SERVER_H */
