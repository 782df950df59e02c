/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_machine.h -- libibverbs and librdmacm replaced by a machine whose device may die
 *
 * It has the devices a and b: an address on port 1 is of a, one on port 2 is of b. A dead device fails
 * every call with EIO, as a real one does. For one test program.
 */
#ifndef OL_TESTS_UNIT_RDMA_VERBS_MACHINE_H
#define OL_TESTS_UNIT_RDMA_VERBS_MACHINE_H

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "support/check.h"

enum {
	A,
	B,
	DEVICES,
	EVENTS_MAX = 32,
	QUEUE_DEPTH = 4096,
};

static struct {
	struct ibv_device devices[DEVICES];
	struct ibv_device *list[DEVICES + 1];
	struct ibv_context watched[DEVICES]; /* what an id says its device is */
	struct ibv_context ctx;
	bool dead;
	bool taken_away; /* the kernel gives EIO in place of events */
	unsigned refused; /* calls that a dead device has refused */
	unsigned asked; /* events, moves and completions, once the transport knew that it is dead */
	int things; /* that are held */
	struct ibv_async_event async;
	bool async_told;
	struct rdma_event_channel channel;
	struct rdma_cm_event cm[EVENTS_MAX];
	unsigned cm_first, cm_count;
	struct rdma_cm_id *listener;
	int dmabuf_error; /* of a registration of a dma-buf that is there; 0: none */
	struct {
		uint64_t offset, iova;
		size_t bytes;
		int fd;
		unsigned access;
	} dmabuf; /* the last that was registered */
	struct ibv_wc wc; /* the next completion; wr_id 0: none */
	uint64_t sent; /* wr_id of the last send that was posted */
	bool in_error; /* a queue pair was moved to the error state */
	unsigned disconnects;
	unsigned looks; /* of librdmacm, which devices there are */
	/* the transport's log */
	unsigned lines; /* warnings and errors */
	char line[256];
} machine;

static void fd_raise(int fd)
{
	const uint64_t one = 1;

	check(write(fd, &one, sizeof(one)) == sizeof(one));
}

/* Something is asked of the device, after the transport has said that it is dead? */
static void asked(void)
{
	machine.asked += machine.dead && machine.lines > 0;
}

/* Something of a device is made, or not */
static bool makes(void)
{
	if (machine.dead) {
		machine.refused++;
		errno = EIO;
		return false;
	}
	machine.things++;
	return true;
}

static void *thing(size_t bytes)
{
	return makes() ? calloc(1, bytes) : NULL;
}

/* An object is given back; a dead device says that it cannot be. */
static int given_back(void *given)
{
	machine.things--;
	free(given);
	machine.refused += machine.dead;
	return machine.dead ? EIO : 0;
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
	asked();
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
	(void)cq;
	(void)count;
	asked();
	if (machine.wc.wr_id == 0)
		return 0;
	wcs[0] = machine.wc;
	machine.wc.wr_id = 0;
	return 1;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	asked();
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **ret_bad)
{
	(void)qp;
	(void)ret_bad;
	machine.sent = wr->wr_id;
	asked();
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (!makes())
		return NULL;
	machine.ctx = (struct ibv_context){ .device = device };
	machine.ctx.ops.post_srq_recv = post_srq_recv;
	machine.ctx.ops.post_send = post_send;
	machine.ctx.ops.poll_cq = poll_cq;
	machine.ctx.ops.req_notify_cq = req_notify_cq;
	machine.ctx.async_fd = eventfd(0, EFD_CLOEXEC);
	return &machine.ctx;
}

int ibv_close_device(struct ibv_context *ctx)
{
	close(ctx->async_fd);
	machine.things--;
	return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = (struct ibv_device_attr){ .phys_port_cnt = 1,
					  .max_cqe = 1 << 20,
					  .max_qp_wr = QUEUE_DEPTH,
					  .max_srq_wr = 1 << 20,
					  .max_sge = 2,
					  .max_qp_rd_atom = 16,
					  .max_qp_init_rd_atom = 16 };
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr attr = { .state = IBV_PORT_ACTIVE, .max_msg_sz = 1 << 30 };

	(void)ctx;
	(void)port;
	memcpy(compat, &attr, sizeof(attr));
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = thing(sizeof(*pd));

	if (pd != NULL)
		pd->context = ctx;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return given_back(pd);
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)pd;
	(void)addr;
	(void)length;
	(void)access;
	return thing(sizeof(struct ibv_mr));
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(pd, addr, length, (int)access);
}

/* A driver that takes none says so before it looks at the descriptor. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	(void)pd;
	errno = machine.dmabuf_error != 0 ? machine.dmabuf_error : EBADF;
	if (machine.dmabuf_error != 0 || fd < 0)
		return NULL;
	machine.dmabuf.offset = offset;
	machine.dmabuf.iova = iova;
	machine.dmabuf.bytes = length;
	machine.dmabuf.fd = fd;
	machine.dmabuf.access = (unsigned)access;
	return thing(sizeof(struct ibv_mr));
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return given_back(mr);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *comp = thing(sizeof(*comp));

	if (comp == NULL)
		return NULL;
	comp->context = ctx;
	comp->fd = eventfd(0, EFD_CLOEXEC);
	return comp;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *comp)
{
	close(comp->fd);
	return given_back(comp);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int entries, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = thing(sizeof(*cq));

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
	return given_back(cq);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = thing(sizeof(*srq));

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
	return given_back(srq);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static uint32_t qp_num;
	struct ibv_qp *qp = thing(sizeof(*qp));

	if (qp == NULL)
		return NULL;
	qp->context = pd->context;
	qp->qp_context = attr->qp_context;
	qp->qp_num = ++qp_num;
	return qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return given_back(qp);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	machine.in_error = (mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_ERR;
	asked();
	return machine.dead ? EIO : 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags)
{
	(void)qp;
	(void)opcode;
	(void)flags;
	return 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return EOPNOTSUPP;
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	(void)ctx;
	errno = machine.taken_away ? EIO : EAGAIN;
	if (machine.taken_away || !machine.async_told) {
		asked();
		return -1;
	}
	machine.async_told = false;
	*event = machine.async;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
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
	check(id != NULL);
	id->context = context;
	machine.things++;
	*ret_id = id;
	return 0;
}

struct ibv_context **rdma_get_devices(int *ret_count)
{
	(void)ret_count;
	machine.looks++;
	return calloc(1, sizeof(struct ibv_context *));
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	machine.things--;
	free(id);
	return 0;
}

static void id_bind(struct rdma_cm_id *id, const struct sockaddr *addr)
{
	const struct sockaddr_in *in = (const void *)addr;

	id->verbs = &machine.watched[ntohs(in->sin_port) - 1];
}

static int happens(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	check(machine.cm_count < EVENTS_MAX);
	machine.cm[machine.cm_count++] = (struct rdma_cm_event){ .id = id, .event = type };
	fd_raise(machine.channel.fd);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	id_bind(id, addr);
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	machine.listener = id;
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
	(void)id;
	(void)attr;
	*ret_mask = 0;
	return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id;
	(void)param;
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id;
	(void)param;
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	machine.disconnects++;
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret_event)
{
	(void)channel;
	if (machine.cm_first == machine.cm_count) {
		errno = EAGAIN;
		return -1;
	}
	*ret_event = &machine.cm[machine.cm_first++];
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

#endif /* OL_TESTS_UNIT_RDMA_VERBS_MACHINE_H */
