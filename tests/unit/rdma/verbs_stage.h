/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_stage.h -- a verbs transport on the machine of verbs_machine.h, and its peers
 */
#ifndef OL_TESTS_UNIT_RDMA_VERBS_STAGE_H
#define OL_TESTS_UNIT_RDMA_VERBS_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "rdma/transport.h"
#include "support/check.h"
#include "unit/rdma/verbs_machine.h"

static const struct ol_xport_ops *ops;
static struct ol_xport *xport;
static struct ol_xport_event events[EVENTS_MAX];

static const char *listed_in; /* the folder of devices' places, 0 and 1; NULL: they have none */

static void log_take(void *unused, enum ol_xport_log_level level, const char *text)
{
	(void)unused;
	if (level > OL_XPORT_LOG_WARN)
		return;
	machine.lines++;
	snprintf(machine.line, sizeof(machine.line), "%s", text);
}

/* dmabuf_error: of that machine */
static inline void xport_opened(int dmabuf_error)
{
	struct ol_xport_opts opts;

	memset(&machine, 0, sizeof(machine));
	machine.dmabuf_error = dmabuf_error;
	for (int i = 0; i < DEVICES; i++) {
		machine.devices[i].name[0] = (char)('a' + i);
		machine.list[i] = &machine.devices[i];
		machine.watched[i].device = &machine.devices[i];
		if (listed_in != NULL)
			snprintf(machine.devices[i].dev_path, sizeof(machine.devices[i].dev_path),
				 "%s/%d", listed_in, i);
	}
	ops = ol_xport_find("verbs");
	ol_xport_opts_init(&opts);
	opts.conns_max = 8;
	opts.log = log_take;
	check_ok(ops->open(&opts, &xport));
}

static inline int polled(int max)
{
	check(ops->arm(xport) >= 0); /* the next one looks at the descriptors */
	return ops->poll(xport, events, max);
}

static inline struct ol_xport_conn *requested(void)
{
	struct rdma_cm_id *id;

	check_ok(rdma_create_id(&machine.channel, &id, NULL, RDMA_PS_TCP));
	id->verbs = &machine.watched[A];
	id->route.addr.dst_addr.sa_family = AF_INET;
	happens(id, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(polled(EVENTS_MAX), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_REQUEST);
	return events[0].conn;
}

/* The id of a connection, as an event names it */
static inline struct rdma_cm_id *accepted(struct ol_xport_conn *conn)
{
	struct rdma_cm_id *id = machine.cm[machine.cm_count - 1].id;

	check_ok(ops->accept(conn, NULL, 0));
	happens(id, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(polled(EVENTS_MAX), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_UP);
	return id;
}

static inline void async_happens(enum ibv_event_type type)
{
	machine.async = (struct ibv_async_event){ .event_type = type };
	machine.async_told = true;
	fd_raise(machine.ctx.async_fd);
}

#endif /* OL_TESTS_UNIT_RDMA_VERBS_STAGE_H */
