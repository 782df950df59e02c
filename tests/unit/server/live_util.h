/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * live_util.h -- a server whose workers are all there, without connections: a push lies in memory that the test
 * writes, and what the server posts comes to the test
 */
#ifndef OL_TESTS_UNIT_SERVER_LIVE_UTIL_H
#define OL_TESTS_UNIT_SERVER_LIVE_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/server.h"
#include "wire/seq.h"

enum { /* at most */
	LIVE_WORKERS = 3,
	LIVE_WINDOW = 4,
};

static struct ol_server *server;
static struct ol_xport_ops ops; /* the server's, but for post_write */
static struct ol_xport_conn conns[LIVE_WORKERS];
static struct ol_slot_state slots[LIVE_WORKERS][LIVE_WINDOW + 1];
static struct ol_slab landing[LIVE_WORKERS];

/* A process of the worker is there, and has pushed nothing */
static inline void live_join(uint32_t worker)
{
	memset(slots[worker], 0, sizeof(slots[worker]));
	server->sessions.all[worker] = (struct ol_session){ .state = OL_SESSION_LIVE,
							    .role = OL_ROLE_WORKER,
							    .worker = worker,
							    .slot_count = server->opts.window,
							    .conn = &conns[worker],
							    .landing = &landing[worker],
							    .slots = slots[worker],
							    .epoch = server->opts.epoch };
}

/* A server of these options, where turns do not end, and all its workers */
static inline void
live_open(uint32_t workers, uint32_t window, struct ol_server_opts *opts, const float *first,
	  int (*post_write)(struct ol_xport_conn *conn, const struct ol_xport_write *write))
{
	char err[200];

	opts->listen = "@";
	assert_true(workers <= LIVE_WORKERS && window <= LIVE_WINDOW);
	opts->workers_max = opts->workers = workers;
	opts->window = window;
	if (ol_server_open(opts, first, &server, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	ops = *server->ops;
	ops.post_write = post_write;
	server->ops = &ops;
	ol_serve_join(server);
	server->turn.bytes_max = UINT64_MAX;
	for (uint32_t i = 0; i < server->opts.workers; i++) {
		size_t bytes = ol_round_up(ol_layout_slot_off(&server->store.geo, window + 1),
					   OL_PAGE_BYTES);

		landing[i] = (struct ol_slab){ .addr = aligned_alloc(OL_PAGE_BYTES, bytes),
					       .bytes = bytes };
		assert_non_null(landing[i].addr);
		memset(landing[i].addr, 0, bytes);
		live_join(i);
	}
}

static inline void live_close(void)
{
	const uint32_t workers = server->opts.workers;

	memset(server->sessions.all, 0, server->sessions.count * sizeof(*server->sessions.all));
	ol_server_close(server);
	for (uint32_t i = 0; i < workers; i++)
		free(landing[i].addr);
}

static inline float *gradient_of(uint32_t worker, uint32_t slot)
{
	return (float *)(void *)((uint8_t *)landing[worker].addr +
				 ol_layout_slot_off(&server->store.geo, slot));
}

/* The gradient there, which has landed, is pushed as `hdr` says, its bell rings; the fault that is found */
static inline const char *live_push(uint32_t worker, uint32_t slot, struct ol_push_hdr hdr,
				    uint64_t now_ns)
{
	const uint64_t bytes = ol_layout_vector_bytes(&server->store.geo);

	hdr.payload_bytes = bytes;
	hdr.epoch = server->opts.epoch;
	hdr.grads = 1;
	ol_record_seal(&hdr);
	memcpy((uint8_t *)gradient_of(worker, slot) + bytes, &hdr, sizeof(hdr));
	return ol_ingest_on_push(&server->ingest, &server->sessions.all[worker], slot, now_ns);
}

#endif /* OL_TESTS_UNIT_SERVER_LIVE_UTIL_H */
