/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * control.h -- orders to `serve` and `work`, and their reports
 *
 * Orders come as signals (SIGINT, SIGTERM, SIGHUP), as a time limit and, in processes that `outlast
 * train` started, as lines on the socket of --report-fd. Reports are JSON objects, one a line.
 *
 *	order          meaning
 *	go N B         begin; N gradients in all, of which B made no step and are done
 *	hold           at the next boundary of a step, report {"event":"hold"} and wait for stop
 *	stop N         compute no more once N gradients are computed
 *	more           a worker that has finished computes one more: others wait for it
 *	server K ADDR  the server of shard K has this address from now on
 *	end            all workers have finished: leave
 *	stat           for a server of `outlast bench`: report the counters
 *	quit           end at once, even in a wait
 *
 * The end of a run by time must not leave one worker of a synchronous job waiting for another. So
 * `train` holds one worker. If that has computed s gradients, no worker can be past s + 1. `train`
 * orders "stop s + 1", the held worker last. Until that goes on, no step s + 1 is made, so every
 * worker reads the order in time.
 *
 * A process dies with its parent (PR_SET_PDEATHSIG, and "quit" when the socket closes).
 */
#ifndef CMD_CONTROL_H
#define CMD_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	OL_CONTROL_LINE_MAX = 512 /* bytes of an order with its end */
};

/* Called while orders are taken */
typedef void (*ol_control_moved_fn)(void *arg, uint32_t shard, const char *addr);

struct ol_control {
	int signal_fd;
	int parent_fd; /* -1: started by hand */
	int life_fd; /* end, as by SIGTERM, when the other end of this pipe is closed; -1: there is
			none. Set after ol_control_init() */
	int signal; /* that arrived; 0: none */
	uint64_t signal_ns; /* when */
	uint64_t deadline_ns; /* of --seconds; 0: none */
	uint64_t stop_at; /* gradients */
	uint64_t barren; /* of "go" */
	bool go;
	bool hold;
	bool more; /* cleared by the code that acts on it */
	bool end;
	bool stat; /* cleared by the code that acts on it */
	bool quit;
	ol_control_moved_fn moved; /* the caller's; may be NULL */
	void *moved_arg;
	char line[OL_CONTROL_LINE_MAX]; /* beginning of an order */
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

/* ol_control_poll -- take pending orders; timeout_ms 0: do not wait, -1: wait for one */
void ol_control_poll(struct ol_control *control, int timeout_ms);

/* ol_control_cancelled -- the exit code after signal_fd has ended a call of the library */
int ol_control_cancelled(struct ol_control *control);

/* ol_control_say -- send the object, with its "event", to the parent if there is one; owns the
 * object */
void ol_control_say(struct ol_control *control, const char *event, json_t *object);

#endif /* CMD_CONTROL_H */
