/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_device_test.c -- a transport without a named device takes the device of the first address,
 * and keeps its present one if the other cannot be used
 *
 * libibverbs and librdmacm are replaced: a machine with the devices a and b, where an address on
 * port 1 is of a and one on port 2 is of b, and where the n-th call that makes an object of b fails.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdma/transport.h"
#include "support/check.h"
#include "unit/rdma/no_dmabuf.h"

enum {
	A,
	B,
	DEVICES,
	EVENTS_MAX = 8,
	QUEUE_DEPTH = 4096,
	POLLS = 8, /* polls with nothing to tell */
};

/* A device that is open: first member, so that what libibverbs gives is this. */
struct device {
	struct ibv_context ctx;
	int of; /* A, B */
};

static struct {
	struct ibv_device devices[DEVICES];
	struct ibv_device *list[DEVICES + 1];
	struct device watched[DEVICES]; /* what an id says its device is */
	unsigned things[DEVICES]; /* that are held of each */
	unsigned calls; /* for something of b */
	unsigned fails; /* which of them fails; 0: none */
	struct ibv_device *qps_of; /* the last queue pair's */
	struct rdma_event_channel channel;
	struct rdma_cm_event events[EVENTS_MAX];
	unsigned event_first, event_count;
} machine;

static int of(const struct ibv_context *ctx)
{
	return ctx->device == &machine.devices[B] ? B : A;
}

/* True if this call is to fail; else one more thing is held. */
static bool fails(int device)
{
	if (device == B && ++machine.calls == machine.fails) {
		errno = ENOMEM;
		return true;
	}
	machine.things[device]++;
	return false;
}

static void *thing(struct ibv_context *ctx, size_t bytes)
{
	return fails(of(ctx)) ? NULL : calloc(1, bytes);
}

static int given_back(struct ibv_context *ctx, void *given)
{
	machine.things[of(ctx)]--;
	free(given);
	return 0;
}

/* ---- libibverbs ---- */

int ibv_fork_init(void)
{
	return 0;
}

struct ibv_device **ibv_get_device_list(int *ret_count)
{
	*ret_count = DEVICES;
	return machine.list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **ret_bad)
{
	(void)srq;
	(void)wr;
	(void)ret_bad;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **ret_bad)
{
	(void)qp;
	(void)wr;
	(void)ret_bad;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
	(void)cq;
	(void)count;
	(void)wcs;
	return 0;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct device *opened;

	if (fails(device == &machine.devices[B] ? B : A))
		return NULL;
	opened = calloc(1, sizeof(*opened));
	opened->ctx.device = device;
	opened->ctx.ops.post_srq_recv = post_srq_recv;
	opened->ctx.ops.post_send = post_send;
	opened->ctx.ops.poll_cq = poll_cq;
	opened->ctx.ops.req_notify_cq = req_notify_cq;
	opened->ctx.async_fd = eventfd(0, EFD_CLOEXEC);
	return &opened->ctx;
}

int ibv_close_device(struct ibv_context *ctx)
{
	close(ctx->async_fd);
	return given_back(ctx, ctx);
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	if (fails(of(ctx)))
		return EIO;
	machine.things[of(ctx)]--; /* nothing to give back */
	*attr = (struct ibv_device_attr){ .phys_port_cnt = 1,
					  .max_cqe = 1 << 20,
					  .max_qp_wr = QUEUE_DEPTH,
					  .max_srq_wr = 1 << 20,
					  .max_qp_rd_atom = 16,
					  .max_qp_init_rd_atom = 16 };
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr attr = { .state = IBV_PORT_ACTIVE, .max_msg_sz = 1 << 30 };

	(void)port;
	if (fails(of(ctx)))
		return EIO;
	machine.things[of(ctx)]--;
	memcpy(compat, &attr, sizeof(attr));
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = thing(ctx, sizeof(*pd));

	if (pd != NULL)
		pd->context = ctx;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return given_back(pd->context, pd);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *comp = thing(ctx, sizeof(*comp));

	if (comp == NULL)
		return NULL;
	comp->context = ctx;
	comp->fd = eventfd(0, EFD_CLOEXEC);
	return comp;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *comp)
{
	close(comp->fd);
	return given_back(comp->context, comp);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int entries, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = thing(ctx, sizeof(*cq));

	(void)entries;
	(void)cq_context;
	(void)channel;
	(void)vector;
	if (cq != NULL)
		cq->context = ctx;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return given_back(cq->context, cq);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = thing(pd->context, sizeof(*srq));

	(void)attr;
	if (srq != NULL)
		srq->context = pd->context;
	return srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	(void)srq;
	(void)attr;
	(void)mask;
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return given_back(srq->context, srq);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = thing(pd->context, sizeof(*qp));

	(void)attr;
	if (qp != NULL)
		qp->context = pd->context;
	machine.qps_of = pd->context->device;
	return qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return given_back(qp->context, qp);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	return 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return EOPNOTSUPP;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags)
{
	(void)qp;
	(void)opcode;
	(void)flags;
	return 0;
}

/* ---- librdmacm ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	machine.channel.fd = eventfd(0, EFD_CLOEXEC);
	return &machine.channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret_id, void *context,
		   enum rdma_port_space space)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));

	(void)channel;
	(void)space;
	id->context = context;
	*ret_id = id;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	return 0;
}

static void id_bind(struct rdma_cm_id *id, const struct sockaddr *addr)
{
	const struct sockaddr_in *in = (const void *)addr;

	id->verbs = &machine.watched[ntohs(in->sin_port) - 1].ctx;
}

static int happens(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	uint64_t one = 1;

	check(machine.event_count < EVENTS_MAX);
	machine.events[machine.event_count++] = (struct rdma_cm_event){ .id = id, .event = type };
	check(write(machine.channel.fd, &one, sizeof(one)) == sizeof(one));
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	id_bind(id, addr);
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id;
	(void)backlog;
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	(void)id;
	return htons(1);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
		      int timeout_ms)
{
	(void)from;
	(void)timeout_ms;
	id_bind(id, to);
	return happens(id, RDMA_CM_EVENT_ADDR_RESOLVED);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	return happens(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *ret_mask)
{
	(void)attr;
	*ret_mask = 0;
	check(machine.qps_of == id->verbs->device);
	return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id;
	(void)param;
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret_event)
{
	(void)channel;
	if (machine.event_first == machine.event_count) {
		errno = EAGAIN;
		return -1;
	}
	*ret_event = &machine.events[machine.event_first++];
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

/* ---- */

static const struct ol_xport_ops *ops;

static struct ol_xport *open_at_a(void)
{
	struct ol_xport_opts opts;
	struct ol_xport *xport;

	memset(&machine, 0, sizeof(machine));
	for (int i = 0; i < DEVICES; i++) {
		machine.devices[i].name[0] = (char)('a' + i);
		machine.list[i] = &machine.devices[i];
		machine.watched[i].ctx.device = &machine.devices[i];
	}
	ops = ol_xport_find("verbs");
	ol_xport_opts_init(&opts);
	opts.conns_max = 4;
	check_ok(ops->open(&opts, &xport));
	assert_true(machine.things[A] > 0);
	assert_int_equal(machine.things[B], 0);
	return xport;
}

static int polled(struct ol_xport *xport, struct ol_xport_event *events)
{
	int count = 0;

	check(ops->arm(xport) >= 0); /* the next one looks at the descriptors */
	for (int i = 0; count == 0 && i < POLLS; i++)
		count = ops->poll(xport, events, EVENTS_MAX);
	return count;
}

static void closed(struct ol_xport *xport)
{
	ops->close(xport);
	assert_int_equal(machine.things[A], 0);
	assert_int_equal(machine.things[B], 0);
}

static void the_first_address_says_which_device(void **state)
{
	struct ol_xport *xport = open_at_a();
	struct ol_xport_event events[EVENTS_MAX];
	char addr[OL_XPORT_ADDR_MAX];

	(void)state;
	check_ok(ops->listen(xport, "127.0.0.1:2", addr));
	assert_int_equal(machine.things[A], 0);
	assert_true(machine.things[B] > 0);
	assert_int_equal(polled(xport, events), 0);
	closed(xport);
}

static void a_device_that_cannot_be_used_leaves_the_one_there_is(void **state)
{
	struct ol_xport_event events[EVENTS_MAX];
	char addr[OL_XPORT_ADDR_MAX];
	unsigned failures = 0;

	(void)state;
	for (unsigned n = 1;; n++) {
		struct ol_xport *xport = open_at_a();
		unsigned held = machine.things[A];
		int rc;

		machine.fails = n;
		rc = ops->listen(xport, "127.0.0.1:2", addr);
		if (rc == 0) { /* also where less will do */
			closed(xport);
			if (machine.calls < n)
				break;
			continue;
		}
		failures++;
		assert_int_equal(machine.things[A], held);
		assert_int_equal(machine.things[B], 0);
		assert_int_equal(polled(xport, events), 0);
		machine.fails = 0;
		if (n % 2 == 0) { /* the other one may have recovered */
			check_ok(ops->listen(xport, "127.0.0.1:2", addr));
			assert_int_equal(machine.things[A], 0);
		} else {
			check_ok(ops->listen(xport, "127.0.0.1:1", addr));
			assert_int_equal(machine.things[A], held);
		}
		closed(xport);
	}
	assert_true(failures > 5);
}

static void of_two_that_connect_at_once_one_is_told_to_name_the_device(void **state)
{
	struct ol_xport *xport = open_at_a();
	struct ol_xport_event events[EVENTS_MAX];
	struct ol_xport_conn *conns[DEVICES];

	(void)state;
	check_ok(ops->connect(xport, "127.0.0.1:1", NULL, 0, NULL, &conns[A]));
	check_ok(ops->connect(xport, "127.0.0.1:2", NULL, 0, NULL, &conns[B]));
	assert_int_equal(polled(xport, events), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_DOWN);
	assert_ptr_equal(events[0].conn, conns[B]);
	assert_int_equal(events[0].status, -EHOSTUNREACH);
	for (int i = 0; i < DEVICES; i++)
		ops->conn_free(conns[i]);
	closed(xport);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_address_says_which_device),
		cmocka_unit_test(a_device_that_cannot_be_used_leaves_the_one_there_is),
		cmocka_unit_test(of_two_that_connect_at_once_one_is_told_to_name_the_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
