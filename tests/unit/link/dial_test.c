/* SPDX-License-Identifier: BSD-3-Clause */

/* dial_test.c -- the dialling end of a handshake sends the right messages, treats each answer right,
 * and comes back after the right delay */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "link/dial.h"
#include "outlast.h"
#include "wire/auth.h"
#include "wire/layout.h"

enum {
	MIN_MS = 4,
	MAX_MS = 64
};

#define MS(count) ((uint64_t)(count)*OL_NS_PER_MS)

static const uint64_t start = MS(1000);
static const char key[] = "key";
static struct ol_xport_conn conn;
static uint32_t frees;
static int connect_rc;
static struct ol_wire_connect sent; /* the last that was */

static const struct ol_xport_ident ident = { .bytes = { 7, 8, 9 } };
static const struct ol_xport_ident another;
static struct ol_xport_ident acceptor; /* of the connection that is up */
static int acceptor_rc;

static int no_connect(struct ol_xport *xport, const char *addr, const void *priv, uint32_t priv_len,
		      const struct ol_xport_seal *seal, struct ol_xport_conn **ret_conn)
{
	uint8_t copy[OL_WIRE_CONNECT_BYTES];

	(void)xport;
	assert_string_equal(addr, "there");
	assert_int_equal(priv_len, sizeof(copy));
	memcpy(copy, priv, sizeof(copy));
	if (seal != NULL)
		seal->make(seal->arg, &ident, copy, priv_len);
	assert_int_equal(ol_wire_connect_decode(copy, priv_len, &sent), 0);
	*ret_conn = &conn;
	return connect_rc;
}

static void conn_free(struct ol_xport_conn *given)
{
	assert_ptr_equal(given, &conn);
	frees++;
}

static int acceptor_of(struct ol_xport_conn *given, struct ol_xport_ident *ret_ident)
{
	assert_ptr_equal(given, &conn);
	*ret_ident = acceptor;
	return acceptor_rc;
}

static const struct ol_xport_ops ops = { .connect = no_connect,
					 .acceptor = acceptor_of,
					 .conn_free = conn_free };
static struct ol_inbox inbox;
static const struct ol_dialer dialer = { .ops = &ops,
					 .job_key = key,
					 .inbox = &inbox,
					 .retry_min_ms = MIN_MS,
					 .retry_max_ms = MAX_MS,
					 .salt = 3 };
static const struct ol_wire_connect who = { .role = OL_ROLE_WORKER, .worker = 5, .queues = true };
static struct ol_dial dial;
static struct ol_wire_reject reject;

static int setup(void **state)
{
	(void)state;
	frees = 0;
	connect_rc = 0;
	inbox = (struct ol_inbox){ 0 };
	dial = (struct ol_dial){ .state = OL_DIAL_IDLE };
	return 0;
}

static void knock(void)
{
	assert_int_equal(ol_dial_knock(&dialer, &dial, "there", &who, start), 0);
	assert_int_equal(dial.state, OL_DIAL_KNOCKING);
}

/* The other end says no, with this */
static enum ol_dial_end answered(const struct ol_wire_reject *no)
{
	uint8_t bytes[OL_WIRE_REJECT_BYTES];
	struct ol_xport_event event = { .type = OL_XPORT_CONN_DOWN,
					.status = -ECONNREFUSED,
					.priv = bytes,
					.priv_len = sizeof(bytes) };

	ol_wire_reject_encode(no, bytes);
	return ol_dial_on_end(&dialer, &dial, &event, &reject);
}

static struct ol_wire_reject challenge_by(const char *whose)
{
	struct ol_wire_reject challenge = { .code = OL_REJECT_CHALLENGE, .nonce = { 1, 2, 3 } };

	ol_auth_reject(whose, &dial.said, &challenge);
	return challenge;
}

static void a_knock_says_who_knocks(void **state)
{
	(void)state;
	knock();
	assert_int_equal(sent.kind, OL_CONNECT_KNOCK);
	assert_int_equal(sent.role, OL_ROLE_WORKER);
	assert_int_equal(sent.worker, 5);
	assert_true(sent.queues);
	assert_memory_equal(sent.nonce, dial.said.nonce, sizeof(sent.nonce));
	assert_true(ol_auth_knock_holds(key, &sent));
	assert_false(ol_auth_knock_holds("another", &sent));
}

static void a_challenge_is_answered_by_a_proof(void **state)
{
	struct ol_wire_reject challenge;

	(void)state;
	knock();
	challenge = challenge_by(key);
	assert_int_equal(answered(&challenge), OL_DIAL_CHALLENGED);
	assert_int_equal(frees, 1);
	assert_int_equal(ol_dial_prove(&dialer, &dial, &who, start), 0);
	assert_int_equal(dial.state, OL_DIAL_PROVING);
	assert_int_equal(sent.kind, OL_CONNECT_PROOF);
	assert_true(ol_auth_proof_holds(key, dial.m, ident.bytes, &sent));
	assert_false(ol_auth_proof_holds(key, dial.m, another.bytes, &sent));
}

static void a_challenge_without_the_key_is_forged(void **state)
{
	struct ol_wire_reject challenge;

	(void)state;
	knock();
	challenge = challenge_by("another");
	assert_int_equal(answered(&challenge), OL_DIAL_FORGED);
}

static void a_challenge_is_no_answer_to_a_proof(void **state)
{
	struct ol_wire_reject challenge;

	(void)state;
	knock();
	challenge = challenge_by(key);
	assert_int_equal(answered(&challenge), OL_DIAL_CHALLENGED);
	assert_int_equal(ol_dial_prove(&dialer, &dial, &who, start), 0);
	assert_int_equal(answered(&challenge), OL_DIAL_REFUSED);
	assert_int_equal(reject.code, OL_REJECT_CHALLENGE);
}

static void a_no_has_its_reason(void **state)
{
	const struct ol_wire_reject no = { .code = OL_REJECT_LATER, .delay_ms = 30 };

	(void)state;
	knock();
	assert_int_equal(answered(&no), OL_DIAL_REFUSED);
	assert_int_equal(reject.code, OL_REJECT_LATER);
	assert_int_equal(reject.delay_ms, 30);
}

static void a_transport_without_room_is_no_silence(void **state)
{
	struct ol_xport_event event = { .type = OL_XPORT_CONN_DOWN, .status = -EUSERS };

	(void)state;
	knock();
	assert_int_equal(ol_dial_on_end(&dialer, &dial, &event, &reject), OL_DIAL_FULL);
	assert_null(dial.conn);
	knock();
	event.status = -ECONNREFUSED;
	assert_int_equal(ol_dial_on_end(&dialer, &dial, &event, &reject), OL_DIAL_BROKE);
}

static void an_end_without_a_word_is_a_break(void **state)
{
	const struct ol_xport_event event = { .type = OL_XPORT_CONN_DOWN, .status = -ETIMEDOUT };

	(void)state;
	knock();
	assert_int_equal(ol_dial_on_end(&dialer, &dial, &event, &reject), OL_DIAL_BROKE);
	assert_ptr_equal(dial.conn, &conn); /* its owner drops it */
}

static void who_lets_in_has_the_key_as_well(void **state)
{
	struct ol_wire_accept accept = { .incarnation = 9,
					 .geo = { .param_count = 16,
						  .shard_len = 16,
						  .shard_count = 1,
						  .workers_max = 1,
						  .window = 1,
						  .groups = 1,
						  .consistency = OL_CONSISTENCY_ASYNC } };
	struct ol_wire_accept got;
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES];
	const struct ol_xport_event event = { .type = OL_XPORT_CONN_UP,
					      .priv = bytes,
					      .priv_len = sizeof(bytes) };
	struct ol_auth_ends ends = { .connecting = ident.bytes };
	struct ol_wire_reject challenge;

	(void)state;
	accept.public_key.bytes = ol_layout_public_bytes(&accept.geo);
	accept.landing_key.bytes = ol_layout_landing_bytes(&accept.geo, 1);
	knock();
	challenge = challenge_by(key);
	assert_int_equal(answered(&challenge), OL_DIAL_CHALLENGED);
	assert_int_equal(ol_dial_prove(&dialer, &dial, &who, start), 0);
	acceptor.bytes[0] = 5;
	ends.accepting = acceptor.bytes;
	ol_auth_accept(key, &dial.said, dial.m, ends, &accept);
	ol_wire_accept_encode(&accept, bytes);
	assert_int_equal(ol_dial_on_up(&dialer, &dial, &event, &got), 0);
	assert_int_equal(got.incarnation, 9);
	acceptor.bytes[0] = 6; /* a relay has put its own into the answer */
	assert_int_equal(ol_dial_on_up(&dialer, &dial, &event, &got), OL_E_AUTH);
	acceptor_rc = -EINVAL; /* the connection has ended */
	assert_int_equal(ol_dial_on_up(&dialer, &dial, &event, &got), -ENOTCONN);
	acceptor_rc = 0;
	ol_auth_accept("another", &dial.said, dial.m, ends, &accept);
	ol_wire_accept_encode(&accept, bytes);
	assert_int_equal(ol_dial_on_up(&dialer, &dial, &event, &got), OL_E_AUTH);
}

static void an_attempt_that_fails_leaves_no_connection(void **state)
{
	(void)state;
	connect_rc = -ENOENT;
	assert_int_equal(ol_dial_knock(&dialer, &dial, "there", &who, start), -ENOENT);
	assert_null(dial.conn);
	assert_int_equal(dial.state, OL_DIAL_IDLE);
	assert_int_equal(dial.attempts, 1);
}

static void each_wait_is_longer_up_to_a_limit(void **state)
{
	uint64_t whole = MIN_MS;

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		ol_dial_retry(&dialer, &dial, start);
		assert_int_equal(dial.state, OL_DIAL_IDLE);
		assert_in_range(dial.retry_ns - start, MS(whole) / 2, MS(whole));
		dial.attempts++;
		whole = whole < MAX_MS ? whole * 2 : whole;
	}
}

/* Ends that were sent away together do not come back together */
static void ends_come_back_at_different_times(void **state)
{
	struct ol_dialer other = dialer;
	struct ol_dial a = dial, b = dial;

	(void)state;
	other.salt = dialer.salt + 1;
	ol_dial_retry_after(&dialer, &a, 1000, start);
	ol_dial_retry_after(&other, &b, 1000, start);
	assert_in_range(a.retry_ns - start, MS(750), MS(1500));
	assert_in_range(b.retry_ns - start, MS(750), MS(1500));
	assert_int_not_equal(a.retry_ns, b.retry_ns);
}

static void a_dropped_connection_has_no_events(void **state)
{
	struct ol_xport_event events[2] = { { .type = OL_XPORT_CONN_DOWN, .conn = &conn },
					    { .type = OL_XPORT_DOORBELL_RUNG, .conn = NULL } };

	(void)state;
	knock();
	inbox = (struct ol_inbox){ .events = events, .left = 2 };
	ol_dial_drop(&dialer, &dial);
	assert_int_equal(frees, 1);
	assert_int_equal(events[0].type, OL_XPORT_DONE);
	assert_null(events[0].conn);
	assert_int_equal(events[1].type, OL_XPORT_DOORBELL_RUNG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_knock_says_who_knocks, setup),
		cmocka_unit_test_setup(a_challenge_is_answered_by_a_proof, setup),
		cmocka_unit_test_setup(a_challenge_without_the_key_is_forged, setup),
		cmocka_unit_test_setup(a_challenge_is_no_answer_to_a_proof, setup),
		cmocka_unit_test_setup(a_no_has_its_reason, setup),
		cmocka_unit_test_setup(a_transport_without_room_is_no_silence, setup),
		cmocka_unit_test_setup(an_end_without_a_word_is_a_break, setup),
		cmocka_unit_test_setup(who_lets_in_has_the_key_as_well, setup),
		cmocka_unit_test_setup(an_attempt_that_fails_leaves_no_connection, setup),
		cmocka_unit_test_setup(each_wait_is_longer_up_to_a_limit, setup),
		cmocka_unit_test_setup(ends_come_back_at_different_times, setup),
		cmocka_unit_test_setup(a_dropped_connection_has_no_events, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
