/* SPDX-License-Identifier: BSD-3-Clause */

/* knock.h -- challenges, proofs, and every way to say no: before a peer is anything to a server */
#ifndef OL_SERVER_KNOCK_H
#define OL_SERVER_KNOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "server/session.h"

/* ol_knock_open -- the marks of used proofs, and a secret; -ENOMEM, -EIO */
int ol_knock_open(struct ol_sessions *sessions);
void ol_knock_close(struct ol_sessions *sessions);

/* ol_knock_challenge -- answer a knock; it costs no memory */
void ol_knock_challenge(struct ol_sessions *sessions, struct ol_xport_conn *conn,
			const struct ol_wire_connect *knock, uint64_t now_ns);
/* ol_knock_proved -- true if the proof is good, for the first time: it is used up, and m is the
 * nonce that it answers. False: its peer has been told why */
bool ol_knock_proved(struct ol_sessions *sessions, struct ol_xport_conn *conn,
		     const struct ol_wire_connect *proof, uint64_t now_ns,
		     uint8_t ret_m[OL_NONCE_BYTES]);

/* ol_knock_refuse -- reject the request with msg; the log has `why`, or the text of msg. asked: what
 * the peer said, and proved that it may; NULL: it did not, so the refusal is not proved either */
void ol_knock_refuse(struct ol_sessions *sessions, struct ol_xport_conn *conn,
		     const struct ol_wire_connect *asked, const struct ol_wire_reject *msg,
		     const char *why, uint64_t now_ns);
/* ol_knock_tick -- log how many refused and ended peers had no line of their own */
void ol_knock_tick(struct ol_sessions *sessions, uint64_t now_ns);

/* ol_knock_send_away -- tell a peer to come back; asked: as above. No warning: this is normal when
 * many come at once. */
void ol_knock_send_away(struct ol_sessions *sessions, struct ol_xport_conn *conn,
			const struct ol_wire_connect *asked, uint32_t delay_ms);

#endif /* OL_SERVER_KNOCK_H */
