/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * control.h -- how `serve` and `work` are told to end, and tell how they fare
 *
 * Orders come as signals (SIGINT, SIGTERM, SIGHUP), as a time limit and, in what `outlast train`
 * started, as lines on the socket of --report-fd. Lines in the other direction are JSON objects.
 *
 *	order          meaning
 *	go N B         begin; N gradients in all, B of them made no step and are no one's any more
 *	hold           at the next boundary of a step, say {"event":"hold"} and wait for stop
 *	stop N         no more to compute once N gradients have been
 *	more           one more, by who has finished: others wait for it
 *	server K ADDR  the server of shard K is there from now on
 *	end            everyone has finished: leave
 *	stat           of a server of `outlast bench`: say its counters
 *	quit           end at once, even in a wait
 *
 * The end of a run by time must not leave one worker of a synchronous job waiting for another.
 * So `train` holds one worker: with s gradients behind it, no worker can be past s + 1. It tells
 * all others "stop s + 1" and the held one last; until that one goes on, no step s + 1 is made,
 * and so everyone reads the order before it is too late to obey.
 *
 * A process that lost its parent dies (PR_SET_PDEATHSIG, and "quit" when the socket closes).
 */
#ifndef CMD_CONTROL_H
#define CMD_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	OL_CONTROL_LINE_MAX = 512 /* bytes of an order with its end */
};

/* Told while orders are taken */
typedef void (*ol_control_moved_fn)(void *arg, uint32_t shard, const char *addr);

struct ol_control {
	int signal_fd;
	int parent_fd; /* -1: started by hand */
	int signal; /* that arrived; 0: none */
	uint64_t signal_ns; /* when */
	uint64_t deadline_ns; /* of --seconds; 0: none */
	uint64_t stop_at; /* gradients */
	uint64_t barren; /* of "go" */
	bool go;
	bool hold;
	bool more; /* whoever takes it clears it */
	bool end;
	bool stat; /* whoever takes it clears it */
	bool quit;
	ol_control_moved_fn moved; /* the caller's; NULL: nobody wants to know */
	void *moved_arg;
	char line[OL_CONTROL_LINE_MAX]; /* an order not yet whole */
	size_t line_len;
};

/*
 * ol_control_init -- take SIGINT, SIGTERM and SIGHUP over from now on; report_fd -1: started by
 * hand
 *
 * Before any thread is started. Errors: -errno of the socket (no socket: -EINVAL).
 */
int ol_control_init(struct ol_control *control, int report_fd);
void ol_control_fini(struct ol_control *control);

/* ol_control_poll -- take what has arrived; timeout_ms 0: at once, -1: wait for something */
void ol_control_poll(struct ol_control *control, int timeout_ms);

/* ol_control_cancelled -- the exit status after signal_fd has ended a call of the library */
int ol_control_cancelled(struct ol_control *control);

/* ol_control_say -- object with its "event" to the parent, if there is one; takes the object
 * over */
void ol_control_say(struct ol_control *control, const char *event, json_t *object);

#endif /* CMD_CONTROL_H */
