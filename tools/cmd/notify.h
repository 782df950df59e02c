/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * notify.h -- a service tells its manager that it is ready, what it does, and that it still turns
 *
 * The protocol of systemd's sd_notify(3), which is one datagram of text: no library is needed. Without
 * NOTIFY_SOCKET in the environment no call does anything.
 */
#ifndef CMD_NOTIFY_H
#define CMD_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
	OL_NOTIFY_STATUS_MAX = 400, /* bytes of a status line with its end */
	OL_NOTIFY_STATUS_MS = 2000, /* between two status lines, at least */
	OL_NOTIFY_BEATS = 4 /* signs of life in the time that the manager waits for one */
};

struct ol_notify {
	struct sockaddr_un to;
	socklen_t to_len;
	int fd; /* -1: nobody listens */
	uint64_t watchdog_ns; /* the manager wants a sign of life in this time; 0: it does not */
	uint64_t fed_ns; /* the last one; 0: none yet */
	uint64_t beat; /* the heartbeat that the last one told of */
	uint64_t said_ns; /* the last status line; 0: none yet */
	char said[OL_NOTIFY_STATUS_MAX];
};

/*
 * ol_notify_init -- take NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, which
 * child processes would inherit
 *
 * Before any thread is started. Returns false if the address is none that can be reached: no later call does
 * anything then, and the manager waits in vain.
 */
bool ol_notify_init(struct ol_notify *notify);
void ol_notify_fini(struct ol_notify *notify);

/* ol_notify_wanted -- a manager listens */
bool ol_notify_wanted(const struct ol_notify *notify);

/* ol_notify_ready -- the service can be used; once */
void ol_notify_ready(struct ol_notify *notify, uint64_t now_ns, const char *status);

/* ol_notify_status -- what it does, if that is another text than before and the last one is not too new */
void ol_notify_status(struct ol_notify *notify, uint64_t now_ns, const char *status);

/* ol_notify_stopping -- it ends, which may take a while, for this reason */
void ol_notify_stopping(struct ol_notify *notify, const char *status);

/*
 * ol_notify_patience -- the service may stand still for this long without being broken: if the manager's time
 * is shorter, have it wait for twice as long
 */
void ol_notify_patience(struct ol_notify *notify, uint64_t still_ns);

/*
 * ol_notify_beat -- a sign of life, if one is due, and if the heartbeat is another than at the last one
 *
 * Returns the milliseconds in which to call it again; -1: the manager wants none
 */
int ol_notify_beat(struct ol_notify *notify, uint64_t now_ns, uint64_t heartbeat);

#endif /* CMD_NOTIFY_H */
