/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * dial.h -- a connection that this end begins: a worker's to a server, a replica's to its successor
 *
 *	IDLE -> KNOCKING -> PROVING -> JOINING -> WELCOME -> LIVE
 *	  ^        |           |          |          |         |
 *	  +--------+-----------+----------+----------+---------+   broke, refused, or given up
 *
 * The handshake is that of wire/wire.h. The owner decides what an answer means: functions here
 * report the answer and carry out the decision.
 */
#ifndef OL_LINK_DIAL_H
#define OL_LINK_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "link/watch.h"
#include "rdma/slab.h"
#include "rdma/transport.h"
#include "wire/wire.h"

/* Events of one poll that are not yet handled: a connection that is freed is taken out of them. */
struct ol_inbox {
	struct ol_xport_event *events;
	int left;
};

enum {
	OL_PROBE_MS = 500 /* silence of the other end until this end asks */
};

/* ol_probe_ms -- time until an end writes to one that is silent, or gives up its own knock: far
 * less than a connection may be silent, and more than a loop takes that is busy */
static inline uint32_t ol_probe_ms(uint32_t retry_timeout_ms)
{
	return retry_timeout_ms < OL_PROBE_MS ? retry_timeout_ms : OL_PROBE_MS;
}

void ol_inbox_forget(struct ol_inbox *inbox, const struct ol_xport_conn *conn);

/* What all connections that one end begins have in common */
struct ol_dialer {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	const char *job_key;
	struct ol_inbox *inbox;
	uint32_t retry_min_ms; /* first back-off; doubled after each attempt */
	uint32_t retry_max_ms; /* longest back-off */
	uint32_t salt; /* of this end's jitter, so that peers come back at different times */
};

enum ol_dial_state {
	OL_DIAL_NONE, /* no connection is wanted */
	OL_DIAL_IDLE, /* not connected; the next attempt is due at retry_ns */
	OL_DIAL_KNOCKING, /* waits for the challenge */
	OL_DIAL_PROVING, /* waits to be accepted */
	OL_DIAL_JOINING, /* has sent its hello; waits for the welcome */
	OL_DIAL_WELCOME, /* the welcome is here; the owner waits for something else */
	OL_DIAL_LIVE
};

struct ol_dial {
	enum ol_dial_state state;
	struct ol_xport_conn *conn;
	char addr[OL_XPORT_ADDR_MAX];
	uint32_t attempts; /* since it was last live */
	uint64_t since_ns; /* when the knock, or the proof, was sent */
	uint64_t retry_ns;
	uint64_t backoff_ns;
	struct ol_wire_connect said; /* the knock or the proof, with this end's nonce */
	uint8_t m[OL_NONCE_BYTES]; /* the other end's nonce */
	uint64_t made_ns; /* of the challenge */
	const char *job_key; /* the dialer's: to seal a proof */
	struct ol_xport_ident ident; /* of this connection, once the proof is sealed */
	uint32_t features; /* that both ends have (wire.h, VERSIONS); known from PROVING on */
	bool proved; /* the last refusal is one of a peer that has the key */
	struct ol_slab *acks; /* the memory that the other end writes, for this connection only */
	struct ol_xport_region *acks_region;
	struct ol_xport_rkey landing_key; /* memory at the other end that this end may write */
	struct ol_xport_rkey public_key; /* memory at the other end that this end may read */
	struct ol_watch watch;
};

/* ol_dial_knock -- begin; msg: role, worker and queues of this end. 0, or a code: the peer was not
 * reached, and the caller decides when to retry. -EIO: the system gave no random bytes. */
int ol_dial_knock(const struct ol_dialer *dialer, struct ol_dial *dial, const char *addr,
		  const struct ol_wire_connect *msg, uint64_t now_ns);

/* How a knock or a proof ended */
enum ol_dial_end {
	OL_DIAL_BROKE, /* without an answer; the event has the status */
	OL_DIAL_REFUSED, /* the peer rejected it; dial->proved: with the key */
	OL_DIAL_FULL, /* the peer's transport rejected it: it holds all connections that it can */
	OL_DIAL_CHALLENGED, /* the answer to a knock: a challenge by a peer that has the job key */
	OL_DIAL_FORGED /* a knock's answer by a peer that does not have the key */
};

/* ol_dial_on_end -- CONN_DOWN came while KNOCKING or PROVING: how it ended. The connection is
 * dropped, unless it BROKE. */
enum ol_dial_end ol_dial_on_end(const struct ol_dialer *dialer, struct ol_dial *dial,
				const struct ol_xport_event *event,
				struct ol_wire_reject *ret_reject);
/* ol_dial_is_vacant -- the end of an attempt says that nobody listens at the address. A listener
 * that lacks a place refuses with bytes, if it knows none better. */
bool ol_dial_is_vacant(const struct ol_xport_event *event);
/* ol_dial_prove -- answer the challenge; as ol_dial_knock() */
int ol_dial_prove(const struct ol_dialer *dialer, struct ol_dial *dial,
		  const struct ol_wire_connect *msg, uint64_t now_ns);
/* ol_dial_on_up -- CONN_UP came while PROVING: 0 and its accept message; OL_E_WIRE, OL_E_AUTH;
 * -ENOTCONN: it has ended already */
int ol_dial_on_up(const struct ol_dialer *dialer, struct ol_dial *dial,
		  const struct ol_xport_event *event, struct ol_wire_accept *ret_accept);
/* ol_dial_memory -- make and register the memory that the other end writes */
int ol_dial_memory(const struct ol_dialer *dialer, struct ol_dial *dial, int node);
/* ol_dial_hello -- write a sealed hello, and ring. 0: JOINING */
int ol_dial_hello(const struct ol_dialer *dialer, struct ol_dial *dial, const void *hello,
		  uint32_t bytes);

/* ol_dial_drop -- end the connection in any state: the queue pair first, then the keys, then the
 * memory, so that no late write can land. The caller sets the state. */
void ol_dial_drop(const struct ol_dialer *dialer, struct ol_dial *dial);
/* ol_dial_retry -- drop it; IDLE until the back-off is over. The back-off doubles each time, and a
 * jitter makes it up to a half shorter, so that peers do not all call a server at once. */
void ol_dial_retry(const struct ol_dialer *dialer, struct ol_dial *dial, uint64_t now_ns);
/* ol_dial_retry_after -- drop it; IDLE for about the time that the other end asked for */
void ol_dial_retry_after(const struct ol_dialer *dialer, struct ol_dial *dial, uint32_t delay_ms,
			 uint64_t now_ns);
/* ol_dial_set_live -- set LIVE; the owner resets backoff_ns once the connection has been of use */
void ol_dial_set_live(struct ol_dial *dial);

/* ol_dial_log -- a transport's diagnostic, for the log: an opener's ol_xport_opts.log */
void ol_dial_log(void *arg, enum ol_xport_log_level level, const char *text);

/* Keys as they travel, and as posts take them */
struct ol_wire_rkey ol_dial_wire_rkey(struct ol_xport_rkey key);
struct ol_xport_rkey ol_dial_xport_rkey(struct ol_wire_rkey key);

#endif /* OL_LINK_DIAL_H */
