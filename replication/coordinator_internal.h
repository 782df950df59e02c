/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coordinator_internal.h -- the embedded coordinator: its clients, and the loop around them
 *
 * What clients are told is not queued: of every client it is known what it has not been told yet,
 * and as its socket takes it, the newest is told. So a slow client costs no memory and delays
 * nobody; it only misses what was true in between.
 *
 * A client whose connection ends is gone, and its session with it: the kernel closes the sockets
 * of a process that dies. A connection that we cut says nothing about its process: the session
 * then lives until its lease is over.
 */
#ifndef OL_REPLICATION_COORDINATOR_INTERNAL_H
#define OL_REPLICATION_COORDINATOR_INTERNAL_H

#include <sys/epoll.h>

#include "replication/coord_store.h"
#include "replication/coord_wire.h"
#include "replication/coordinator.h"

enum {
	OL_COORDD_CLIENTS_MAX = 2048, /* that have a session */
	OL_COORDD_GREETINGS_MAX = 64, /* that have none, yet or any more; the oldest goes */
};

enum ol_coordd_phase {
	OL_COORDD_HELLO, /* nothing was heard yet */
	OL_COORDD_PROOF, /* the challenge is sent */
	OL_COORDD_MEMBER, /* has a session */
	OL_COORDD_LEAVING, /* has been refused; when it has read that, it goes */
};

struct ol_coordd_client {
	struct ol_coordd *coordd;
	struct ol_coordd_client *next;
	struct ol_coordd_client *prev;
	struct ol_coordd_client *due_next;
	enum ol_coordd_phase phase;
	uint64_t since_ns; /* it came, or was refused */
	uint32_t shard_count; /* that it watches */
	struct ol_coord_session *session; /* NULL: none */
	uint8_t client_nonce[OL_COORD_NONCE_BYTES];
	uint8_t nonce[OL_COORD_NONCE_BYTES];
	bool due; /* in the list of those to be flushed */
	bool writable; /* waits for the socket to be it */
	bool watches; /* is told news */
	bool ready_due;
	bool beat_due;
	uint64_t beat;
	bool joined_due;
	uint32_t joined_shard;
	uint32_t joined_errno;
	uint64_t views_due; /* shards, by bit */
	uint64_t members_due;
	struct ol_coord_pipe pipe;
};

struct ol_coordd {
	struct ol_coordd_opts opts;
	struct ol_coord_secret secret;
	struct ol_coord_store *store;
	int listen_fd;
	int epoll_fd;
	int stop_fd;
	char addr[OL_ENDPOINT_MAX + 160];
	struct ol_coordd_client *clients; /* newest first */
	struct ol_coordd_client *due;
	uint32_t greetings;
	uint32_t members;
	uint64_t accept_ns; /* paused until then; 0: not */
	struct epoll_event events[OL_COORDD_CLIENTS_MAX + OL_COORDD_GREETINGS_MAX + 2];
};

/* What the store tells clients. */
extern const struct ol_coord_store_ops ol_coordd_store_ops;

/* ol_coordd_client_read -- an event other than that it is writable; it may be freed */
void ol_coordd_client_read(struct ol_coordd_client *client);
/* ol_coordd_client_due -- it is to be flushed at the end of this turn */
void ol_coordd_client_due(struct ol_coordd_client *client);
/* ol_coordd_client_flush -- tell it as much as its socket takes; it may be freed */
void ol_coordd_client_flush(struct ol_coordd_client *client);
/* ol_coordd_client_close -- free it; what becomes of its session is somebody else's affair */
void ol_coordd_client_close(struct ol_coordd_client *client);

void ol_coordd_say(const struct ol_coordd *coordd, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif /* OL_REPLICATION_COORDINATOR_INTERNAL_H */
