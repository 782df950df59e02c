/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * wire_options.c -- what struct ol_xport_wire asks for is what both queue pairs of a connection have
 *
 * Both ends are transports of this process, at OL_ADDR.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "rdma/verbs/internal.h"
#include "support/check.h"

enum {
	POLLS_MAX = 50000000
};

static const struct ol_xport_ops *const ops = &ol_xport_verbs;

static void attrs_get(struct ol_xport_conn *conn, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	check_ok(ibv_query_qp(ol_verbs_conn(conn)->qp, attr,
			      IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER,
			      &init));
}

static bool poll_one(struct ol_xport *xport, struct ol_xport_event *event)
{
	int count = ops->poll(xport, event, 1);

	check(count >= 0);
	return count > 0;
}

/* A connection of two such transports: what its queue pairs have, that of the listener first */
static void pair_look(const struct ol_xport_wire *wire, struct ibv_qp_attr attrs[2])
{
	char addr[OL_XPORT_ADDR_MAX], listen[OL_XPORT_ADDR_MAX];
	struct ol_xport_conn *accepted = NULL, *conn;
	struct ol_xport *xports[2];
	struct ol_xport_opts opts;
	struct ol_xport_event event;
	bool up = false;

	ol_xport_opts_init(&opts);
	opts.wire = *wire;
	check_ok(ops->open(&opts, &xports[0]));
	check_ok(ops->open(&opts, &xports[1]));
	snprintf(listen, sizeof(listen), "%s:0", getenv("OL_ADDR"));
	check_ok(ops->listen(xports[0], listen, addr));
	check_ok(ops->connect(xports[1], addr, NULL, 0, NULL, &conn));
	for (unsigned polls = 0; !up; polls++) {
		check(polls < POLLS_MAX);
		if (poll_one(xports[0], &event) && event.type == OL_XPORT_CONN_REQUEST) {
			accepted = event.conn;
			check_ok(ops->accept(accepted, NULL, 0));
		}
		if (poll_one(xports[1], &event)) {
			check_msg(event.type == OL_XPORT_CONN_UP, "status %d", event.status);
			up = true;
		}
	}
	attrs_get(accepted, &attrs[0]);
	attrs_get(conn, &attrs[1]);
	ops->conn_free(conn);
	ops->conn_free(accepted);
	ops->close(xports[1]);
	ops->close(xports[0]);
}

int main(void)
{
	const struct ol_xport_wire none = { 0 };
	const struct ol_xport_wire wire = { .ack_timeout = 20,
					    .retries = 3,
					    .rnr_timer = 14,
					    .rnr_retries = 2,
					    .traffic_class = 104,
					    .path_mtu = 1024 };
	struct ol_xport *xport;
	struct ol_xport_opts opts;
	struct ibv_qp_attr attrs[2];

	pair_look(&none, attrs);
	for (unsigned i = 0; i < 2; i++) {
		check_eq(attrs[i].path_mtu, IBV_MTU_4096);
		check_eq(attrs[i].ah_attr.grh.traffic_class, 0);
		check_eq(attrs[i].timeout, 18);
		check_eq(attrs[i].retry_cnt, 6);
	}
	pair_look(&wire, attrs);
	for (unsigned i = 0; i < 2; i++) {
		check_eq(attrs[i].path_mtu, IBV_MTU_1024);
		check_eq(attrs[i].ah_attr.grh.traffic_class, 104);
		check_eq(attrs[i].timeout, 20);
		check_eq(attrs[i].retry_cnt, 3);
		check_eq(attrs[i].rnr_retry, 2);
		check_eq(attrs[i].min_rnr_timer, 14);
	}
	ol_xport_opts_init(&opts);
	opts.wire.path_mtu = 1500;
	check_eq(ops->open(&opts, &xport), -EINVAL);
	printf("ok: timers, traffic class and path MTU of both ends\n");
	return 0;
}
