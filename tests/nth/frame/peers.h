/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * peers.h -- peers of a server under test: a process for each of a run's two attempts
 *
 * They are forked before anything is opened, and no call fails in them. Each waits until it is told
 * the server's address. The first may fail to be served, the second must not.
 */
#ifndef OL_TESTS_NTH_FRAME_PEERS_H
#define OL_TESTS_NTH_FRAME_PEERS_H

enum {
	PEERS_ADDR_MAX = 128
};

/* A peer's life: 0, or it was not served */
typedef int peers_fn(const char *addr, unsigned attempt);

/* peers_start -- stop is called when one has ended; from a signal handler */
void peers_start(peers_fn *fn, void (*stop)(void));
/* peers_tell -- the server of this attempt listens there */
void peers_tell(unsigned attempt, const char *addr);
/* peers_wait -- until the one of this attempt has ended, whether it was told or not */
void peers_wait(unsigned attempt);

#endif /* OL_TESTS_NTH_FRAME_PEERS_H */
