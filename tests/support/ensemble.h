/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ensemble.h -- a ZooKeeper ensemble of real servers on loopback, which tests kill and pause
 *
 * Servers are children of this process and die with it; their files lie in a folder of their own. A
 * call that fails ends the test with a line.
 */
#ifndef OL_TESTS_SUPPORT_ENSEMBLE_H
#define OL_TESTS_SUPPORT_ENSEMBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	ENSEMBLE_MAX = 5,
	ENSEMBLE_SESSION_MIN_MS = 100, /* shortest session that the servers grant */
};

struct ensemble {
	unsigned count;
	char dir[128];
	char addr[256]; /* "zk:127.0.0.1:PORT,…" of all */
	struct {
		pid_t pid; /* 0: killed */
		uint16_t port; /* for clients */
		uint16_t peer_ports[2];
	} servers[ENSEMBLE_MAX];
};

/*
 * ensemble_start -- start `count` servers and wait until each serves; exits with 77 and the reason
 * where there is no Java or no ZooKeeper. From the first thread of the process.
 */
void ensemble_start(struct ensemble *ensemble, unsigned count);
/* ensemble_stop -- kill all, remove what they wrote */
void ensemble_stop(struct ensemble *ensemble);

/* ensemble_kill -- SIGKILL; ensemble_restart -- start it again with what it wrote; does not wait */
void ensemble_kill(struct ensemble *ensemble, unsigned index);
void ensemble_restart(struct ensemble *ensemble, unsigned index);
/* ensemble_pause, ensemble_resume -- SIGSTOP, SIGCONT: it goes silent, its connections stay */
void ensemble_pause(struct ensemble *ensemble, unsigned index);
void ensemble_resume(struct ensemble *ensemble, unsigned index);

/* ensemble_serves -- it answers and sees a quorum; ensemble_wait -- until it does */
bool ensemble_serves(const struct ensemble *ensemble, unsigned index);
void ensemble_wait(const struct ensemble *ensemble, unsigned index);
/* ensemble_connections -- of clients, to a server that serves */
unsigned ensemble_connections(const struct ensemble *ensemble, unsigned index);

#endif /* OL_TESTS_SUPPORT_ENSEMBLE_H */
