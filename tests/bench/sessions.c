/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sessions.c -- what a step and a heartbeat cost beside so many connected workers, and what a worker
 * takes of the server's memory; for an instruction counter (tests/bench/sessions.sh)
 *
 * bench-sessions CONNECTED [step | tick]. The workers are connected and idle, but for one that
 * pushes. The transport is the test's: posts cost nothing, so what is counted is the server's own.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/server.h"
#include "support/check.h"
#include "wire/seq.h"

enum {
	LEN = 16,
	WINDOW = 2,
	ROUNDS = 100,
};

void bench_step(struct ol_server *server, struct ol_session *session, uint64_t now_ns);
void bench_tick(struct ol_server *server, uint64_t now_ns);

static int post_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	(void)conn;
	(void)write;
	return 0;
}

/* Counted: what the server does for one push that has landed */
__attribute__((noinline)) void bench_step(struct ol_server *server, struct ol_session *session,
					  uint64_t now_ns)
{
	check(ol_ingest_on_push(&server->ingest, session, 0, now_ns) == NULL);
}

__attribute__((noinline)) void bench_tick(struct ol_server *server, uint64_t now_ns)
{
	ol_server_tick(server, now_ns);
}

/* Not getrusage(), which begins with what the process was before exec() */
static long resident_kb(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long pages = 0;

	check(file != NULL && fscanf(file, "%*s %ld", &pages) == 1);
	fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void connect_all(struct ol_server *server, uint32_t count, struct ol_xport_conn *conns,
			struct ol_slab *slabs)
{
	struct ol_sessions *sessions = &server->sessions;
	uint64_t bytes = ol_layout_landing_bytes(&server->store.geo, WINDOW);

	for (uint32_t i = 0; i < count; i++) {
		slabs[i] = (struct ol_slab){ .addr = aligned_alloc(OL_PAGE_BYTES, bytes),
					     .bytes = bytes };
		check(slabs[i].addr != NULL);
		memset(slabs[i].addr, 0, bytes);
		sessions->all[i] =
			(struct ol_session){ .state = OL_SESSION_LIVE,
					     .role = OL_ROLE_WORKER,
					     .worker = i,
					     .slot_count = WINDOW,
					     .conn = &conns[i],
					     .landing = &slabs[i],
					     .slots = calloc(WINDOW + 1,
							     sizeof(struct ol_slot_state)),
					     .epoch = server->opts.epoch };
		ol_places_add(&sessions->taken, i);
		sessions->live_workers++;
	}
}

static void push_make(struct ol_server *server, const struct ol_slab *slab, uint64_t number)
{
	const struct ol_geometry *geo = &server->store.geo;
	struct ol_push_hdr hdr = { .seq = ol_seq_make(1, number),
				   .payload_bytes = ol_layout_vector_bytes(geo),
				   .epoch = server->opts.epoch,
				   .grads = 1,
				   .weight = 1.0f };

	ol_record_seal(&hdr);
	memcpy((uint8_t *)slab->addr + ol_layout_slot_off(geo, 0) + ol_layout_vector_bytes(geo),
	       &hdr, sizeof(hdr));
}

int main(int argc, char **argv)
{
	uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	bool ticks = argc > 2 && strcmp(argv[2], "tick") == 0;
	static const float weights[LEN];
	struct ol_xport_conn *conns;
	struct ol_server *server;
	struct ol_server_opts opts;
	struct ol_xport_ops ops;
	struct ol_slab *slabs;
	char err[256] = "", text[512];

	if (count == 0 || count > OL_WORKERS_MAX) {
		printf("usage: bench-sessions CONNECTED [step | tick]\n");
		return 2;
	}
	conns = calloc(count, sizeof(*conns));
	slabs = calloc(count, sizeof(*slabs));
	check(conns != NULL && slabs != NULL);
	snprintf(text, sizeof(text), "@ol-bench-sessions-%d", (int)getpid());
	ol_server_opts_init(&opts);
	opts.listen = text;
	opts.param_count = LEN;
	opts.workers_max = OL_WORKERS_MAX;
	opts.window = WINDOW;
	if (ol_server_open(&opts, weights, &server, err, sizeof(err)) != 0) {
		printf("%s\n", err);
		return 1;
	}
	ops = *server->ops;
	ops.post_write = post_write;
	server->ops = &ops;
	ol_serve_join(server);
	connect_all(server, count, conns, slabs);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		push_make(server, &slabs[0], i);
		if (ticks)
			bench_tick(server, i);
		else
			bench_step(server, &server->sessions.all[0], i);
	}
	ol_server_memory(server, text, sizeof(text));
	printf("%u connected; %ld kB resident; %zu bytes of a session's own, %zu of its slots' states; %s\n",
	       count, resident_kb(), sizeof(struct ol_session),
	       (WINDOW + 1) * sizeof(struct ol_slot_state), text);
	return 0; /* its sessions are no real ones: the process ends with them */
}
