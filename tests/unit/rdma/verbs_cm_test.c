/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_cm_test.c -- what the connection manager tells in a burst reaches the program as it was told: each
 * event with its own private data
 *
 * The machine is made up.
 */
#include "unit/rdma/verbs_stage.h"

enum {
	BY_CONSUMER = 28, /* the reason of a rejection by the peer's program */
};

static const uint8_t question[3] = { 'a', 's', 'k' };
static const uint8_t refused[200] = { 'n', 'o' };

static void happens_with(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status,
			 const uint8_t *priv, uint8_t priv_len)
{
	struct rdma_cm_event *event = &machine.cm[machine.cm_count];

	happens(id, type);
	event->status = status;
	event->param.conn.private_data = priv;
	event->param.conn.private_data_len = priv_len;
}

static void a_request_keeps_its_data_when_its_peer_rejects_at_once(void **unused)
{
	char addr[OL_XPORT_ADDR_MAX];
	struct rdma_cm_id *id;

	(void)unused;
	xport_opened(0);
	check_ok(ops->listen(xport, "127.0.0.1:1", addr));
	check_ok(rdma_create_id(&machine.channel, &id, NULL, RDMA_PS_TCP));
	id->verbs = &machine.watched[A];
	id->route.addr.dst_addr.sa_family = AF_INET;
	happens_with(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, question, sizeof(question));
	happens_with(id, RDMA_CM_EVENT_REJECTED, BY_CONSUMER, refused, sizeof(refused));
	assert_int_equal(polled(EVENTS_MAX), 2);
	assert_int_equal(events[0].type, OL_XPORT_CONN_REQUEST);
	assert_int_equal(events[0].priv_len, sizeof(question));
	assert_memory_equal(events[0].priv, question, sizeof(question));
	assert_int_equal(events[1].type, OL_XPORT_CONN_DOWN);
	assert_int_equal(events[1].priv_len, 0);
	ops->conn_free(events[1].conn);
	ops->close(xport);
	assert_int_equal(machine.things, 0);
}

static void an_answer_keeps_its_data_when_its_peer_rejects_at_once(void **unused)
{
	struct ol_xport_conn *conn;
	struct rdma_cm_id *id;

	(void)unused;
	xport_opened(0);
	check_ok(ops->connect(xport, "127.0.0.1:1", question, sizeof(question), NULL, &conn));
	id = machine.cm[machine.cm_count - 1].id;
	assert_int_equal(polled(EVENTS_MAX), 0);
	happens_with(id, RDMA_CM_EVENT_ESTABLISHED, 0, question, sizeof(question));
	happens_with(id, RDMA_CM_EVENT_REJECTED, BY_CONSUMER, refused, sizeof(refused));
	assert_int_equal(polled(EVENTS_MAX), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_UP);
	assert_int_equal(events[0].priv_len, sizeof(question));
	assert_memory_equal(events[0].priv, question, sizeof(question));
	ops->conn_free(conn);
	ops->close(xport);
	assert_int_equal(machine.things, 0);
}

static void a_refusal_reaches_the_caller(void **unused)
{
	struct ol_xport_conn *conn;
	struct rdma_cm_id *id;

	(void)unused;
	xport_opened(0);
	check_ok(ops->connect(xport, "127.0.0.1:1", question, sizeof(question), NULL, &conn));
	id = machine.cm[machine.cm_count - 1].id;
	assert_int_equal(polled(EVENTS_MAX), 0);
	happens_with(id, RDMA_CM_EVENT_REJECTED, BY_CONSUMER, refused, sizeof(refused));
	assert_int_equal(polled(EVENTS_MAX), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_DOWN);
	assert_int_equal(events[0].status, -ECONNREFUSED);
	assert_int_equal(events[0].priv_len, OL_XPORT_PRIV_REJECT_MAX);
	assert_memory_equal(events[0].priv, refused, OL_XPORT_PRIV_REJECT_MAX);
	ops->conn_free(conn);
	ops->close(xport);
	assert_int_equal(machine.things, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_keeps_its_data_when_its_peer_rejects_at_once),
		cmocka_unit_test(an_answer_keeps_its_data_when_its_peer_rejects_at_once),
		cmocka_unit_test(a_refusal_reaches_the_caller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
