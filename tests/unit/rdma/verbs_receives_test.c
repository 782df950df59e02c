/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_receives_test.c -- connections end abruptly again and again, and the shared receive queue
 * keeps its receives, whether a destroyed queue pair's completions stay or vanish
 *
 * libibverbs and librdmacm are replaced: one device with one shared receive queue and one completion
 * queue. A peer is a request that is accepted, and doorbells that each take a receive.
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
	CONNS = 4,
	DOORBELLS = 64,
	BATCH = 16, /* receives are posted back in such batches */
	WCS_MAX = 4096,
	EVENTS_MAX = 256,
	ROUNDS = 100,
	NEVER = -1,
};

struct pair {
	struct ibv_qp qp;
	unsigned progress; /* receives that it has taken and that have not completed */
	bool error;
};

static struct {
	/* what the adapter does */
	bool scrubs; /* a destroyed queue pair's completions vanish */
	int last_wqe_after; /* looks for events until the last receive is reached; NEVER */
	bool limits; /* it tells of few receives */
	/* what it has */
	struct ibv_device device;
	struct ibv_device *list[2];
	struct ibv_context ctx;
	struct ibv_srq srq;
	unsigned receives; /* in the shared queue */
	unsigned receives_max;
	unsigned limit; /* 0: none */
	struct ibv_wc wcs[WCS_MAX];
	unsigned wc_count;
	unsigned cq_depth;
	uint32_t qp_num;
	struct pair *newest;
	struct pair *ending; /* will reach its last receive */
	int ending_looks;
	struct ibv_async_event async;
	bool async_told;
	struct rdma_event_channel channel;
	struct rdma_cm_event cm;
	bool cm_told;
} machine;

static void wc_put(uint64_t wr_id, uint32_t qp_num, enum ibv_wc_status status, uint32_t imm)
{
	check(machine.wc_count < machine.cq_depth); /* it would overrun */
	machine.wcs[machine.wc_count++] = (struct ibv_wc){ .wr_id = wr_id,
							   .qp_num = qp_num,
							   .status = status,
							   .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
							   .imm_data = htonl(imm) };
}

static void fd_raise(int fd)
{
	const uint64_t one = 1;

	check(write(fd, &one, sizeof(one)) == sizeof(one));
}

/* ---- libibverbs ---- */

int ibv_fork_init(void)
{
	return 0;
}

struct ibv_device **ibv_get_device_list(int *ret_count)
{
	*ret_count = 1;
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
	for (; wr != NULL; wr = wr->next) {
		if (machine.receives == machine.receives_max) {
			*ret_bad = wr;
			return ENOMEM;
		}
		machine.receives++;
	}
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
	const unsigned took =
		machine.wc_count < (unsigned)count ? machine.wc_count : (unsigned)count;

	(void)cq;
	memcpy(wcs, machine.wcs, took * sizeof(*wcs));
	machine.wc_count -= took;
	memmove(machine.wcs, &machine.wcs[took], machine.wc_count * sizeof(*wcs));
	return (int)took;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **ret_bad)
{
	const struct pair *pair = (const void *)qp;

	(void)ret_bad;
	check(pair->error); /* only the marker is posted here */
	wc_put(wr->wr_id, qp->qp_num, IBV_WC_WR_FLUSH_ERR, 0);
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
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
	return close(ctx->async_fd);
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = (struct ibv_device_attr){ .phys_port_cnt = 1,
					  .max_cqe = WCS_MAX,
					  .max_qp_wr = WCS_MAX,
					  .max_srq_wr = WCS_MAX,
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
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	check(pd != NULL);
	pd->context = ctx;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *comp = calloc(1, sizeof(*comp));

	check(comp != NULL);
	comp->context = ctx;
	comp->fd = eventfd(0, EFD_CLOEXEC);
	return comp;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *comp)
{
	close(comp->fd);
	free(comp);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int entries, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = calloc(1, sizeof(*cq));

	(void)cq_context;
	(void)channel;
	(void)vector;
	check(cq != NULL);
	cq->context = ctx;
	machine.cq_depth = (unsigned)entries;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	machine.wc_count = 0; /* its completions end with it */
	free(cq);
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	machine.srq.context = pd->context;
	machine.receives_max = attr->attr.max_wr;
	return &machine.srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	(void)srq;
	check(mask == IBV_SRQ_LIMIT);
	if (!machine.limits)
		return EOPNOTSUPP;
	machine.limit = attr->srq_limit;
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	(void)srq;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	check(pair != NULL);
	pair->qp.context = pd->context;
	pair->qp.qp_context = attr->qp_context;
	pair->qp.qp_num = ++machine.qp_num;
	machine.newest = pair;
	return &pair->qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct pair *pair = (void *)qp;
	unsigned kept = 0;

	for (unsigned i = 0; i < machine.wc_count; i++) {
		if (!machine.scrubs || machine.wcs[i].qp_num != qp->qp_num)
			machine.wcs[kept++] = machine.wcs[i];
	}
	machine.wc_count = kept;
	for (; !machine.scrubs && pair->progress > 0; pair->progress--)
		wc_put(UINT64_MAX, qp->qp_num, IBV_WC_WR_FLUSH_ERR, 0);
	if (machine.ending == pair)
		machine.ending = NULL;
	free(pair);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct pair *pair = (void *)qp;

	if ((mask & IBV_QP_STATE) == 0 || attr->qp_state != IBV_QPS_ERR)
		return 0;
	pair->error = true;
	machine.ending = pair;
	machine.ending_looks = machine.last_wqe_after;
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

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct pair *pair = machine.ending;

	(void)ctx;
	if (machine.async_told) {
		machine.async_told = false;
		*event = machine.async;
		return 0;
	}
	if (pair != NULL && machine.ending_looks != NEVER && machine.ending_looks-- == 0) {
		machine.ending = NULL;
		for (; pair->progress > 0; pair->progress--)
			wc_put(UINT64_MAX, pair->qp.qp_num, IBV_WC_WR_FLUSH_ERR, 0);
		*event = (struct ibv_async_event){ .event_type = IBV_EVENT_QP_LAST_WQE_REACHED,
						   .element.qp = &pair->qp };
		return 0;
	}
	errno = EAGAIN;
	return -1;
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

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *ret_mask)
{
	(void)id;
	(void)attr;
	*ret_mask = 0;
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
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret_event)
{
	(void)channel;
	if (!machine.cm_told) {
		errno = EAGAIN;
		return -1;
	}
	machine.cm_told = false;
	*ret_event = &machine.cm;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

/* ---- */

static const struct ol_xport_ops *ops;
static struct ol_xport *xport;
static struct ol_xport_event events[EVENTS_MAX];

static void opened(bool scrubs, int last_wqe_after, bool limits)
{
	struct ol_xport_opts opts;

	memset(&machine, 0, sizeof(machine));
	machine.scrubs = scrubs;
	machine.last_wqe_after = last_wqe_after;
	machine.limits = limits;
	machine.list[0] = &machine.device;
	ops = ol_xport_find("verbs");
	ol_xport_opts_init(&opts);
	opts.conns_max = CONNS;
	opts.doorbells_max = DOORBELLS;
	check_ok(ops->open(&opts, &xport));
	assert_true(machine.receives >= CONNS * DOORBELLS);
	assert_true(machine.receives < CONNS * DOORBELLS + BATCH + 1);
}

static int polled(void)
{
	check(ops->arm(xport) >= 0); /* the next one looks at the descriptors */
	return ops->poll(xport, events, EVENTS_MAX);
}

static void cm_tell(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	machine.cm = (struct rdma_cm_event){ .id = id, .event = type };
	machine.cm_told = true;
	fd_raise(machine.channel.fd);
}

/* A peer has connected. ret_pair: its queue pair here */
static struct ol_xport_conn *peer_new(struct pair **ret_pair)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));
	struct ol_xport_conn *conn;

	check(id != NULL);
	id->route.addr.dst_addr.sa_family = AF_INET;
	cm_tell(id, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(polled(), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_REQUEST);
	conn = events[0].conn;
	check_ok(ops->accept(conn, NULL, 0));
	cm_tell(id, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(polled(), 1);
	assert_int_equal(events[0].type, OL_XPORT_CONN_UP);
	*ret_pair = machine.newest;
	return conn;
}

/* Takes a receive out of the shared queue; false: there is none, so the peer waits. */
static bool receive_take(void)
{
	if (machine.receives == 0)
		return false;
	machine.receives--;
	if (machine.receives < machine.limit) {
		machine.limit = 0;
		machine.async = (struct ibv_async_event){
			.event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
			.element.srq = &machine.srq,
		};
		machine.async_told = true;
		fd_raise(machine.ctx.async_fd);
	}
	return true;
}

/* The peer rings so often, or until no receive is left. Returns how often. */
static unsigned rung(const struct pair *pair, unsigned times)
{
	unsigned done = 0;

	for (; done < times && receive_take(); done++)
		wc_put(UINT64_MAX, pair->qp.qp_num, IBV_WC_SUCCESS, done);
	return done;
}

/* Takes what is there, to the end; only doorbells are. Returns how many. */
static unsigned doorbells(void)
{
	unsigned total = 0;
	int count;

	do {
		count = polled();
		for (int i = 0; i < count; i++)
			assert_int_equal(events[i].type, OL_XPORT_DOORBELL_RUNG);
		total += (unsigned)count;
	} while (count > 0);
	return total;
}

/* All receives are back, but what a batch may leave; and none is there twice. */
static void all_are_back(unsigned lent)
{
	struct pair *pair;
	struct ol_xport_conn *conn = peer_new(&pair);

	assert_int_equal(doorbells(), 0);
	assert_true(machine.receives >= CONNS * DOORBELLS);
	assert_true(machine.receives <= CONNS * DOORBELLS + BATCH + lent);
	assert_int_equal(rung(pair, DOORBELLS), DOORBELLS);
	assert_int_equal(doorbells(), DOORBELLS);
	ops->conn_free(conn);
}

static void ends_again_and_again(void)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct pair *pair;
		struct ol_xport_conn *conn = peer_new(&pair);

		assert_int_equal(rung(pair, DOORBELLS / 2), DOORBELLS / 2);
		if (i % 3 == 0)
			assert_int_equal(doorbells(), DOORBELLS / 2);
		assert_int_equal(rung(pair, DOORBELLS / 2 - 1), DOORBELLS / 2 - 1);
		if (receive_take())
			pair->progress++;
		if (i % 5 == 0) /* some completions lie where poll() hands them out */
			assert_int_equal(ops->poll(xport, events, 1), 1);
		ops->conn_free(conn);
	}
}

static void receives_of_destroyed_queue_pairs_come_back(void **state)
{
	static const int last_wqe_after[] = { 0, 1, 3, NEVER };

	(void)state;
	for (unsigned i = 0; i < sizeof(last_wqe_after) / sizeof(last_wqe_after[0]); i++) {
		opened(false, last_wqe_after[i], false);
		ends_again_and_again();
		all_are_back(0);
		ops->close(xport);
	}
}

static void they_do_so_where_their_completions_vanish(void **state)
{
	static const int last_wqe_after[] = { 0, 1, 3 };

	(void)state;
	for (unsigned i = 0; i < sizeof(last_wqe_after) / sizeof(last_wqe_after[0]); i++) {
		opened(true, last_wqe_after[i], false);
		ends_again_and_again();
		all_are_back(0);
		ops->close(xport);
	}
}

/* What is in progress at the end is lost then, one each time, until few are left. */
static void where_the_device_does_not_tell_its_limit_brings_them_back(void **state)
{
	(void)state;
	opened(true, NEVER, true);
	for (unsigned i = 0; i < 10; i++)
		ends_again_and_again();
	/* one peer waits for a receive, and gets it soon */
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct pair *pair;
		struct ol_xport_conn *conn = peer_new(&pair);
		unsigned left = DOORBELLS;

		for (unsigned tries = 0; left > 0; tries++) {
			assert_true(tries < 8);
			left -= rung(pair, left);
			doorbells();
		}
		assert_true(machine.receives <= CONNS * DOORBELLS + 2 * BATCH);
		ops->conn_free(conn);
	}
	ops->close(xport);
}

/* A limit that is reached by peers alone: nothing is posted beyond one batch. */
static void peers_that_use_all_get_no_more_than_there_is(void **state)
{
	struct ol_xport_conn *conns[CONNS];
	struct pair *pairs[CONNS];

	(void)state;
	opened(false, NEVER, true);
	for (unsigned i = 0; i < CONNS; i++)
		conns[i] = peer_new(&pairs[i]);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned total = 0;

		for (unsigned i = 0; i < CONNS; i++) /* they ring more often than was agreed */
			total += rung(pairs[i], 2 * DOORBELLS);
		assert_true(total <= CONNS * DOORBELLS + 2 * BATCH);
		assert_int_equal(doorbells(), total);
		assert_true(machine.receives <= CONNS * DOORBELLS + 2 * BATCH);
	}
	for (unsigned i = 0; i < CONNS; i++)
		ops->conn_free(conns[i]);
	ops->close(xport);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(receives_of_destroyed_queue_pairs_come_back),
		cmocka_unit_test(they_do_so_where_their_completions_vanish),
		cmocka_unit_test(where_the_device_does_not_tell_its_limit_brings_them_back),
		cmocka_unit_test(peers_that_use_all_get_no_more_than_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
