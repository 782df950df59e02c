/* SPDX-License-Identifier: BSD-3-Clause */

/* knock.c -- challenges that only this process can make, proofs that are good once, refusals */

#include "server/knock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma/order.h"

int ol_knock_open(struct ol_sessions *sessions)
{
	const size_t ids = sessions->opts->workers_max;

	sessions->proved = calloc(2 * ids + 1 + OL_GUEST_PLACES, sizeof(*sessions->proved));
	if (sessions->proved == NULL)
		return -ENOMEM;
	return ol_auth_random(sessions->secret, sizeof(sessions->secret));
}

void ol_knock_close(struct ol_sessions *sessions)
{
	free(sessions->proved);
	explicit_bzero(sessions->secret, sizeof(sessions->secret));
}

static void conn_reject(struct ol_sessions *sessions, struct ol_xport_conn *conn,
			const struct ol_wire_connect *asked, const struct ol_wire_reject *msg)
{
	struct ol_wire_reject sealed = *msg;
	uint8_t bytes[OL_WIRE_REJECT_BYTES];

	if (asked != NULL) {
		sealed.proto = ol_wire_agree(&asked->speaks);
		ol_auth_reject(sessions->job_key, asked, &sealed);
	}
	ol_wire_reject_encode(&sealed, bytes);
	ol_inbox_forget(sessions->inbox, conn);
	sessions->ops->reject(conn, bytes, sizeof(bytes));
}

void ol_knock_refuse(struct ol_sessions *sessions, struct ol_xport_conn *conn,
		     const struct ol_wire_connect *asked, const struct ol_wire_reject *msg,
		     const char *why, uint64_t now_ns)
{
	char text[OL_REJECT_TEXT_MAX], who[32] = "";

	if (why == NULL)
		why = ol_wire_reject_text(msg, text);
	if (asked != NULL && asked->role == OL_ROLE_WORKER) /* as it says: it may be anybody */
		snprintf(who, sizeof(who), " of worker %u", asked->worker);
	ol_log_rated(&sessions->refusals[msg->code], now_ns, OL_LOG_WARN,
		     "server %s: refused a connection%s: %s", sessions->addr, who, why);
	ol_counter_add(&sessions->store->board->refused, 1);
	conn_reject(sessions, conn, asked, msg);
}

void ol_knock_tick(struct ol_sessions *sessions, uint64_t now_ns)
{
	for (unsigned i = 0; i < OL_REJECT_LATER; i++)
		ol_log_rate_tick(&sessions->refusals[i], now_ns);
	ol_log_rate_tick(&sessions->ends, now_ns);
}

void ol_knock_send_away(struct ol_sessions *sessions, struct ol_xport_conn *conn,
			const struct ol_wire_connect *asked, uint32_t delay_ms)
{
	struct ol_wire_reject msg = { .code = OL_REJECT_LATER, .delay_ms = delay_ms };

	ol_log(OL_LOG_DEBUG, "server %s: a peer is told to come back in %u ms", sessions->addr,
	       delay_ms);
	ol_counter_add(&sessions->store->board->sent_away, 1);
	conn_reject(sessions, conn, asked, &msg);
}

/* A time for a challenge: no other one of this process has it */
static uint64_t made_next(struct ol_sessions *sessions, uint64_t now_ns)
{
	sessions->made_ns = now_ns > sessions->made_ns ? now_ns : sessions->made_ns + 1;
	return sessions->made_ns;
}

void ol_knock_challenge(struct ol_sessions *sessions, struct ol_xport_conn *conn,
			const struct ol_wire_connect *knock, uint64_t now_ns)
{
	struct ol_wire_reject msg = { .code = OL_REJECT_CHALLENGE,
				      .made_ns = made_next(sessions, now_ns) };
	const struct ol_wire_reject no = { .code = OL_REJECT_RESOURCES };
	const struct ol_wire_reject stranger = { .code = OL_REJECT_AUTH,
						 .proto = ol_wire_agree(&knock->speaks) };

	if (!ol_auth_knock_holds(sessions->job_key, knock)) {
		ol_knock_refuse(sessions, conn, NULL, &stranger,
				sessions->read_only && knock->role != OL_ROLE_OBSERVER
					? "it comes as a worker, and a relay lets in readers only"
					: "it knocks with another key, or with one of another role",
				now_ns);
		return;
	}
	if (ol_auth_cookie(sessions->secret, knock, msg.made_ns, msg.nonce) != 0) {
		ol_knock_refuse(sessions, conn, knock, &no, "the crypto library fails", now_ns);
		return;
	}
	conn_reject(sessions, conn, knock, &msg);
}

/*
 * The mark of the place that a proof asks for; observers share some, by their nonce. Those cannot hold
 * up a predecessor, which has a place of its own.
 */
static uint64_t *mark_of(const struct ol_sessions *sessions, const struct ol_wire_connect *proof)
{
	const uint32_t ids = sessions->opts->workers_max;
	uint32_t mix;

	if (proof->role == OL_ROLE_WORKER && proof->worker < ids)
		return &sessions->proved[proof->worker];
	if (proof->role == OL_ROLE_READER && proof->worker < ids)
		return &sessions->proved[ids + proof->worker];
	if (proof->role == OL_ROLE_REPLICA)
		return &sessions->proved[2 * ids];
	memcpy(&mix, proof->nonce, sizeof(mix));
	return &sessions->proved[2 * ids + 1 + mix % OL_GUEST_PLACES];
}

bool ol_knock_proved(struct ol_sessions *sessions, struct ol_xport_conn *conn,
		     const struct ol_wire_connect *proof, uint64_t now_ns,
		     uint8_t ret_m[OL_NONCE_BYTES])
{
	const struct ol_wire_reject no = { .code = OL_REJECT_AUTH,
					   .proto = ol_wire_agree(&proof->speaks) };
	uint64_t *mark = mark_of(sessions, proof);
	struct ol_xport_ident ident;
	/* one that was never made, or too long ago, is not worth a look at its macs */
	bool known = proof->made_ns != 0 && proof->made_ns <= sessions->made_ns &&
		     now_ns < proof->made_ns + OL_CHALLENGE_LATE_MS * OL_NS_PER_MS;

	sessions->ops->ident(conn, &ident);
	if (!known || proof->made_ns == *mark ||
	    ol_auth_cookie(sessions->secret, proof, proof->made_ns, ret_m) != 0 ||
	    !ol_auth_proof_holds(sessions->job_key, ret_m, ident.bytes, proof)) {
		ol_knock_refuse(
			sessions, conn, NULL, &no,
			"its proof answers no challenge of this server's last minute, or was used "
			"before, or was made with another key or for another connection",
			now_ns);
		return false;
	}
	/* its peer has the key: a busy host delayed the proof, or a newer challenge of this place
	 * came first. It knocks again. */
	if (now_ns > proof->made_ns + OL_CHALLENGE_MS * OL_NS_PER_MS) {
		ol_knock_send_away(sessions, conn, proof, OL_HOLD_MS);
		return false;
	}
	if (proof->made_ns < *mark) {
		ol_knock_send_away(sessions, conn, proof, OL_OVERTAKEN_MS);
		return false;
	}
	*mark = proof->made_ns;
	return true;
}
