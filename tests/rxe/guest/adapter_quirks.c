/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * adapter_quirks.c -- each quirk of support/adapter does what its name says, seen through bare verbs
 *
 *	adapter_quirks LIBRARY [CASE...]
 *
 * Each case runs in a program of its own, with LIBRARY loaded between it and libibverbs and with the
 * quirks that the case names. Two queue pairs of this process are connected to each other.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BUFFER = 1 << 18,
	DEPTH = 64,
	WAIT_MS = 5000,
	TRIES = 300,
};

/* Two queue pairs, each the other's peer, with one buffer; the second has a shared receive queue if there is one. */
struct pair {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cqs[2];
	struct ibv_qp *qps[2];
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *buffer; /* the first half is written from, the second to */
	uint32_t inline_max;
};

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct ibv_context *device_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;

	CHECK(list != NULL && list[0] != NULL);
	ctx = ibv_open_device(list[0]);
	CHECK(ctx != NULL);
	ibv_free_device_list(list);
	return ctx;
}

static struct ibv_qp *qp_create(struct pair *pair, unsigned index, uint32_t inline_bytes,
				uint32_t sges)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = pair->cqs[index],
		.recv_cq = pair->cqs[index],
		.srq = index == 1 ? pair->srq : NULL,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = sges,
			 .max_recv_sge = 1,
			 .max_inline_data = inline_bytes },
	};
	struct ibv_qp *qp = ibv_create_qp(pair->pd, &attr);

	pair->inline_max = attr.cap.max_inline_data;
	return qp;
}

/* The place of an address of IPv4 in the table, as rdma_cm would choose one */
static int gid_find(struct ibv_context *ctx, union ibv_gid *gid)
{
	for (int i = 0; i < 16; i++) {
		if (ibv_query_gid(ctx, 1, i, gid) == 0 && gid->raw[10] == 0xff &&
		    gid->raw[11] == 0xff && gid->raw[0] == 0)
			return i;
	}
	CHECK(ibv_query_gid(ctx, 1, 0, gid) == 0);
	return 0;
}

static int qp_rts(struct ibv_qp *qp, uint8_t reads)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 6,
				    .rnr_retry = 6,
				    .max_rd_atomic = reads };

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void qp_rtr(struct ibv_qp *qp, uint32_t to)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags =
					    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

	CHECK(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	      0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = to,
				     .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 12,
				     .ah_attr = { .is_global = 1, .port_num = 1 } };
	attr.ah_attr.grh.hop_limit = 1;
	attr.ah_attr.grh.sgid_index = (uint8_t)gid_find(qp->context, &attr.ah_attr.grh.dgid);
	CHECK(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER) == 0);
}

static void queues_open(struct pair *pair)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };

	pair->ctx = device_open();
	pair->pd = ibv_alloc_pd(pair->ctx);
	pair->channel = ibv_create_comp_channel(pair->ctx);
	CHECK(pair->pd != NULL && pair->channel != NULL);
	CHECK(fcntl(pair->channel->fd, F_SETFL, O_NONBLOCK) == 0);
	CHECK(fcntl(pair->ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	for (unsigned i = 0; i < 2; i++) {
		pair->cqs[i] = ibv_create_cq(pair->ctx, 4 * DEPTH, NULL, pair->channel, 0);
		CHECK(pair->cqs[i] != NULL);
	}
	pair->srq = ibv_create_srq(pair->pd, &srq);
	pair->buffer = aligned_alloc(4096, BUFFER);
	CHECK(pair->buffer != NULL);
	memset(pair->buffer, 0, BUFFER);
	pair->mr = ibv_reg_mr(pair->pd, pair->buffer, BUFFER,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ);
	CHECK(pair->mr != NULL);
}

static void pair_open(struct pair *pair, uint32_t inline_bytes)
{
	queues_open(pair);
	for (unsigned i = 0; i < 2; i++) {
		pair->qps[i] = qp_create(pair, i, inline_bytes, 1);
		CHECK(pair->qps[i] != NULL);
	}
	for (unsigned i = 0; i < 2; i++) {
		qp_rtr(pair->qps[i], pair->qps[1 - i]->qp_num);
		CHECK(qp_rts(pair->qps[i], 1) == 0);
	}
}

/* Lets the first write bytes from one place of the buffer to another. */
static int write_post(struct pair *pair, enum ibv_wr_opcode opcode, unsigned flags, uint32_t from,
		      uint32_t to, uint32_t bytes)
{
	struct ibv_sge sge = { .addr = (uintptr_t)pair->buffer + from,
			       .length = bytes,
			       .lkey = pair->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = from,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = flags,
				  .imm_data = htonl(7) };
	struct ibv_send_wr *bad = NULL;

	wr.wr.rdma.remote_addr = (uintptr_t)pair->buffer + BUFFER / 2 + to;
	wr.wr.rdma.rkey = pair->mr->rkey;
	return ibv_post_send(pair->qps[0], &wr, &bad);
}

static bool completion_wait(struct ibv_cq *cq, struct ibv_wc *wc, uint64_t wait_ms)
{
	const uint64_t until_ms = now_ms() + wait_ms;
	int count;

	do {
		count = ibv_poll_cq(cq, 1, wc);
		CHECK(count >= 0);
	} while (count == 0 && now_ms() < until_ms);
	return count == 1;
}

static void written(struct pair *pair, uint64_t wr_id)
{
	struct ibv_wc wc;

	CHECK(completion_wait(pair->cqs[0], &wc, WAIT_MS));
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id);
}

static void receive_post(struct pair *pair)
{
	struct ibv_recv_wr wr = { .wr_id = 99 };
	struct ibv_recv_wr *bad = NULL;

	CHECK(ibv_post_srq_recv(pair->srq, &wr, &bad) == 0);
}

/* Waits for an event of the descriptor by epoll, as the product does. */
static bool readable(int fd, int wait_ms)
{
	struct epoll_event event = { .events = EPOLLIN };
	const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int count;

	CHECK(epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
	count = epoll_wait(epoll_fd, &event, 1, wait_ms);
	close(epoll_fd);
	return count > 0;
}

/* The event that comes within so long; -1: none. */
static int async_next(struct ibv_context *ctx, uint64_t wait_ms)
{
	const uint64_t until_ms = now_ms() + wait_ms;
	struct ibv_async_event event;
	uint64_t left_ms;

	for (;;) {
		if (ibv_get_async_event(ctx, &event) == 0) {
			ibv_ack_async_event(&event);
			return (int)event.event_type;
		}
		left_ms = until_ms - now_ms();
		if (left_ms > wait_ms || left_ms == 0)
			return -1;
		readable(ctx->async_fd, (int)left_ms);
	}
}

static void to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
}

/* How many receives are told after their queue pair is gone */
static int told_after_end(void)
{
	struct ibv_wc wc;
	struct pair pair;

	pair_open(&pair, 0);
	receive_post(&pair);
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	written(&pair, 0);
	CHECK(ibv_destroy_qp(pair.qps[1]) == 0);
	return ibv_poll_cq(pair.cqs[1], 1, &wc);
}

static void none_case(void)
{
	CHECK(told_after_end() == 1);
}

static void clean_case(void)
{
	CHECK(told_after_end() == 0);
}

static void last_wqe_now_case(void)
{
	struct pair pair;

	pair_open(&pair, 0);
	to_error(pair.qps[1]);
	CHECK(async_next(pair.ctx, WAIT_MS) == IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(async_next(pair.ctx, 50) == -1);
	to_error(pair.qps[0]); /* it has no shared queue */
	CHECK(async_next(pair.ctx, 50) == -1);
	CHECK(ibv_destroy_qp(pair.qps[1]) == 0);
}

static void last_wqe_late_case(void)
{
	struct pair pair;
	uint64_t began_ms;

	pair_open(&pair, 0);
	began_ms = now_ms();
	to_error(pair.qps[1]);
	CHECK(async_next(pair.ctx, 100) == -1);
	CHECK(async_next(pair.ctx, WAIT_MS) == IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(now_ms() - began_ms >= 200);
}

static void last_wqe_never_case(void)
{
	struct pair pair;

	pair_open(&pair, 0);
	to_error(pair.qps[1]);
	CHECK(async_next(pair.ctx, 500) == -1);
}

static void inline_is(uint32_t bytes)
{
	struct pair pair;

	pair_open(&pair, 256);
	CHECK(pair.inline_max == bytes);
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE | IBV_SEND_SIGNALED, 0, 0,
			 bytes + 1) == EINVAL);
	if (bytes == 0)
		return;
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE | IBV_SEND_SIGNALED, 0, 0,
			 bytes) == 0);
	written(&pair, 0);
}

static void inline_0_case(void)
{
	inline_is(0);
}

static void inline_64_case(void)
{
	inline_is(64);
}

static void inline_96_case(void)
{
	inline_is(96);
}

static void inline_refuse_case(void)
{
	struct pair pair;

	queues_open(&pair);
	errno = 0;
	CHECK(qp_create(&pair, 0, 102, 1) == NULL && errno == EINVAL);
	CHECK(qp_create(&pair, 0, 101, 1) != NULL && pair.inline_max == 101);
}

static void no_srq_case(void)
{
	struct ibv_device_attr attr;
	struct pair pair;

	queues_open(&pair);
	CHECK(pair.srq == NULL && errno != 0);
	CHECK(ibv_query_device(pair.ctx, &attr) == 0 && attr.max_srq == 0 && attr.max_srq_wr == 0);
}

static void srq_case(void)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1001, .max_sge = 1 } };
	struct ibv_device_attr attr;
	struct pair pair;

	queues_open(&pair);
	CHECK(ibv_query_device(pair.ctx, &attr) == 0 && attr.max_srq_wr == 1000);
	CHECK(ibv_create_srq(pair.pd, &srq) == NULL && errno == EINVAL);
	srq.attr.max_wr = 1000;
	CHECK(ibv_create_srq(pair.pd, &srq) != NULL);
}

static void sge_case(void)
{
	struct ibv_device_attr attr;
	struct pair pair;

	queues_open(&pair);
	CHECK(ibv_query_device(pair.ctx, &attr) == 0 && attr.max_sge == 2);
	CHECK(qp_create(&pair, 0, 0, 3) == NULL && errno == EINVAL);
	CHECK(qp_create(&pair, 0, 0, 2) != NULL);
}

static void rd_atomic_case(void)
{
	struct ibv_device_attr attr;
	struct pair pair;

	queues_open(&pair);
	CHECK(ibv_query_device(pair.ctx, &attr) == 0 && attr.max_qp_rd_atom == 1 &&
	      attr.max_qp_init_rd_atom == 1);
	pair.qps[0] = qp_create(&pair, 0, 0, 1);
	CHECK(pair.qps[0] != NULL);
	qp_rtr(pair.qps[0], pair.qps[0]->qp_num);
	CHECK(qp_rts(pair.qps[0], 2) == EINVAL);
	CHECK(qp_rts(pair.qps[0], 1) == 0);
}

static void fatal_case(void)
{
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, 0);
	for (unsigned i = 0; i < 3; i++)
		CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, i, 0, 8) == 0);
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 3, 0, 8) == EIO);
	CHECK(async_next(pair.ctx, WAIT_MS) == IBV_EVENT_DEVICE_FATAL);
	CHECK(!completion_wait(pair.cqs[0], &wc, 100));
	CHECK(ibv_reg_mr(pair.pd, pair.buffer, 8, 0) == NULL && errno == EIO);
	CHECK(ibv_destroy_qp(pair.qps[0]) == 0 && ibv_destroy_qp(pair.qps[1]) == 0);
	pair_open(&pair, 0); /* after the reset */
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 5, 0, 8) == 0);
	written(&pair, 5);
}

static void no_imm_case(void)
{
	struct pair pair;

	pair_open(&pair, 0);
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, 0, 0, 8) == EINVAL);
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	written(&pair, 0);
}

/* Looks at both ends of what is written, while another thread writes it. */
struct watch {
	_Atomic uint64_t *ends[2];
	_Atomic uint64_t round;
	_Atomic uint64_t late_first; /* rounds in which the end was there before the beginning */
};

static void *watch_run(void *arg)
{
	struct watch *watch = arg;
	uint64_t seen = 0;
	uint64_t round;

	while ((round = atomic_load(&watch->round)) != UINT64_MAX) {
		if (atomic_load(watch->ends[1]) == round && atomic_load(watch->ends[0]) != round &&
		    seen != round && atomic_load(&watch->round) == round) {
			atomic_fetch_add(&watch->late_first, 1);
			seen = round;
		}
	}
	return NULL;
}

static void pieces_case(void)
{
	enum {
		BYTES = 65536
	};
	struct watch watch = { .round = 0 };
	uint64_t *words;
	pthread_t thread;
	struct pair pair;

	pair_open(&pair, 0);
	words = (uint64_t *)(void *)pair.buffer;
	watch.ends[0] = (_Atomic uint64_t *)(void *)(pair.buffer + BUFFER / 2);
	watch.ends[1] = watch.ends[0] + BYTES / 8 - 1;
	CHECK(pthread_create(&thread, NULL, watch_run, &watch) == 0);
	for (uint64_t round = 1; round < TRIES && atomic_load(&watch.late_first) == 0; round++) {
		atomic_store(&watch.round, round);
		for (unsigned i = 0; i < BYTES / 8; i++)
			words[i] = round;
		CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, BYTES) == 0);
		written(&pair, 0);
		CHECK(memcmp(pair.buffer, pair.buffer + BUFFER / 2, BYTES) == 0);
	}
	atomic_store(&watch.round, UINT64_MAX);
	pthread_join(thread, NULL);
	CHECK(atomic_load(&watch.late_first) > 0);
}

/* Writes 1 to 4 to one word; returns what stays. The last goes as opcode says. */
static uint64_t four_write(struct pair *pair, enum ibv_wr_opcode last)
{
	uint64_t word;

	for (uint64_t i = 0; i < 4; i++) {
		word = i + 1;
		memcpy(pair->buffer + 8 * i, &word, 8);
		CHECK(write_post(pair, i == 3 ? last : IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED,
				 8 * (uint32_t)i, 0, 8) == 0);
	}
	for (uint64_t i = 0; i < 4; i++)
		written(pair, 8 * i);
	memcpy(&word, pair->buffer + BUFFER / 2, 8);
	return word;
}

static void ooo_case(void)
{
	struct pair pair;
	unsigned others = 0;

	pair_open(&pair, 64);
	for (unsigned i = 0; i < 50; i++)
		others += four_write(&pair, IBV_WR_RDMA_WRITE) != 4;
	CHECK(others > 10);
	for (unsigned i = 0; i < 50; i++) {
		receive_post(&pair);
		CHECK(four_write(&pair, IBV_WR_RDMA_WRITE_WITH_IMM) == 4);
	}
}

static void delay_case(void)
{
	struct ibv_cq *cq;
	void *context;
	struct pair pair;
	struct ibv_wc wc;
	uint64_t began_ms;

	pair_open(&pair, 0);
	began_ms = now_ms();
	CHECK(ibv_req_notify_cq(pair.cqs[0], 0) == 0);
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	CHECK(!completion_wait(pair.cqs[0], &wc, 50));
	do {
		CHECK(readable(pair.channel->fd, WAIT_MS));
	} while (ibv_get_cq_event(pair.channel, &cq, &context) != 0);
	CHECK(now_ms() - began_ms >= 100 && cq == pair.cqs[0]);
	ibv_ack_cq_events(cq, 1);
	CHECK(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(ibv_destroy_qp(pair.qps[0]) == 0 && ibv_destroy_cq(cq) == 0);
}

static void reg_case(void)
{
	struct pair pair;
	uint8_t *more = aligned_alloc(4096, 1 << 20);

	queues_open(&pair);
	CHECK(ibv_reg_mr(pair.pd, more, 1 << 19, IBV_ACCESS_LOCAL_WRITE) != NULL);
	CHECK(ibv_reg_mr(pair.pd, more, (1 << 19) + 1, IBV_ACCESS_LOCAL_WRITE) == NULL &&
	      errno == ENOMEM);
	free(more);
}

static void mr_case(void)
{
	struct pair pair;
	struct ibv_mr *mr;

	queues_open(&pair);
	mr = ibv_reg_mr(pair.pd, pair.buffer, 8, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr != NULL);
	CHECK(ibv_reg_mr(pair.pd, pair.buffer, 8, IBV_ACCESS_LOCAL_WRITE) == NULL &&
	      errno == ENOMEM);
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(ibv_reg_mr(pair.pd, pair.buffer, 8, IBV_ACCESS_LOCAL_WRITE) != NULL);
}

static void port_case(void)
{
	struct ibv_context *ctx = device_open();
	struct ibv_port_attr attr;

	CHECK(fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	CHECK(ibv_query_port(ctx, 1, &attr) == 0 && attr.state == IBV_PORT_ACTIVE);
	CHECK(async_next(ctx, WAIT_MS) == IBV_EVENT_PORT_ERR);
	CHECK(ibv_query_port(ctx, 1, &attr) == 0 && attr.state == IBV_PORT_DOWN);
	CHECK(async_next(ctx, WAIT_MS) == IBV_EVENT_PORT_ACTIVE);
	CHECK(ibv_query_port(ctx, 1, &attr) == 0 && attr.state == IBV_PORT_ACTIVE);
	CHECK(ibv_close_device(ctx) == 0);
}

static void migrate_case(void)
{
	struct pair pair;

	pair_open(&pair, 0);
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	CHECK(async_next(pair.ctx, 50) == -1);
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	CHECK(async_next(pair.ctx, WAIT_MS) == IBV_EVENT_PATH_MIG);
	CHECK(ibv_destroy_qp(pair.qps[0]) == 0);
}

/* A listener and one that connects to it, on one channel */
struct cm {
	struct pair pair;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *active;
	struct rdma_cm_id *passive;
	struct sockaddr_in address;
};

/* The next event, of which id and status are kept; its type is returned. */
static enum rdma_cm_event_type cm_next(struct cm *cm, int *status)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	while (rdma_get_cm_event(cm->channel, &event) != 0)
		CHECK(errno == EAGAIN && readable(cm->channel->fd, WAIT_MS));
	type = event->event;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		cm->passive = event->id;
	*status = event->status;
	CHECK(rdma_ack_cm_event(event) == 0);
	return type;
}

static void cm_open(struct cm *cm)
{
	const char *text = getenv("OL_ADDR");

	queues_open(&cm->pair);
	cm->channel = rdma_create_event_channel();
	CHECK(text != NULL && cm->channel != NULL);
	CHECK(fcntl(cm->channel->fd, F_SETFL, O_NONBLOCK) == 0);
	cm->address = (struct sockaddr_in){ .sin_family = AF_INET };
	CHECK(inet_pton(AF_INET, text, &cm->address.sin_addr) == 1);
	CHECK(rdma_create_id(cm->channel, &cm->listener, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(cm->listener, (struct sockaddr *)&cm->address) == 0);
	CHECK(rdma_listen(cm->listener, 8) == 0);
	cm->address.sin_port = rdma_get_src_port(cm->listener);
}

static void cm_connect(struct cm *cm)
{
	struct ibv_qp_init_attr attr = { .send_cq = cm->pair.cqs[0],
					 .recv_cq = cm->pair.cqs[0],
					 .qp_type = IBV_QPT_RC,
					 .cap = { 4, 4, 1, 1, 0 } };
	struct rdma_conn_param param = { .retry_count = 6, .rnr_retry_count = 6 };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT };
	int mask = 0;
	int status;

	CHECK(rdma_create_id(cm->channel, &cm->active, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(cm->active, NULL, (struct sockaddr *)&cm->address, WAIT_MS) == 0);
	CHECK(cm_next(cm, &status) == RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(cm->active, WAIT_MS) == 0);
	CHECK(cm_next(cm, &status) == RDMA_CM_EVENT_ROUTE_RESOLVED);
	cm->pair.qps[0] = ibv_create_qp(cm->pair.pd, &attr);
	CHECK(cm->pair.qps[0] != NULL);
	CHECK(rdma_init_qp_attr(cm->active, &init, &mask) == 0);
	CHECK(ibv_modify_qp(cm->pair.qps[0], &init, mask) == 0);
	param.qp_num = cm->pair.qps[0]->qp_num;
	CHECK(rdma_connect(cm->active, &param) == 0);
}

static void cm_accept(struct cm *cm)
{
	struct rdma_conn_param param = { .retry_count = 6, .rnr_retry_count = 6 };
	struct ibv_qp_init_attr attr = { .send_cq = cm->pair.cqs[1],
					 .recv_cq = cm->pair.cqs[1],
					 .qp_type = IBV_QPT_RC,
					 .cap = { 4, 4, 1, 1, 0 } };

	CHECK(rdma_create_qp(cm->passive, NULL, &attr) == 0 || errno != 0);
	CHECK(cm->passive->qp != NULL);
	CHECK(rdma_accept(cm->passive, &param) == 0);
}

static void established_case(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct cm cm;
	int status;

	cm_open(&cm);
	cm_connect(&cm);
	CHECK(cm_next(&cm, &status) == RDMA_CM_EVENT_CONNECT_REQUEST);
	cm.pair.cqs[1] = ibv_create_cq(cm.passive->verbs, 16, NULL, NULL, 0);
	CHECK(cm.pair.cqs[1] != NULL);
	cm_accept(&cm);
	CHECK(cm_next(&cm, &status) == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(ibv_query_qp(cm.pair.qps[0], &attr, IBV_QP_STATE, &init) == 0);
	CHECK(attr.qp_state == IBV_QPS_RTS);
	CHECK(cm_next(&cm, &status) == RDMA_CM_EVENT_ESTABLISHED);
}

static void stale_case(void)
{
	const uint64_t began_ms = now_ms();
	struct cm cm;
	int status;

	cm_open(&cm);
	for (;;) {
		cm_connect(&cm);
		if (cm_next(&cm, &status) != RDMA_CM_EVENT_REJECTED)
			break;
		CHECK(status == 10);
		CHECK(ibv_destroy_qp(cm.pair.qps[0]) == 0 && rdma_destroy_id(cm.active) == 0);
	}
	CHECK(cm.passive != NULL && now_ms() - began_ms >= 300);
}

static void removed_case(void)
{
	struct pair pair;
	struct cm cm;
	int status;

	cm_open(&cm);
	pair_open(&pair, 0);
	CHECK(write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	CHECK(cm_next(&cm, &status) == RDMA_CM_EVENT_DEVICE_REMOVAL);
	CHECK(async_next(pair.ctx, WAIT_MS) == IBV_EVENT_DEVICE_FATAL);
}

static const struct {
	const char *name;
	const char *quirks;
	void (*run)(void);
} cases[] = {
	{ "none", "rxe", none_case },
	{ "clean", "clean", clean_case },
	{ "lastwqe-now", "lastwqe=now", last_wqe_now_case },
	{ "lastwqe-late", "lastwqe=late", last_wqe_late_case },
	{ "lastwqe-never", "lastwqe=never", last_wqe_never_case },
	{ "inline-0", "inline=0", inline_0_case },
	{ "inline-64", "inline=64", inline_64_case },
	{ "inline-96", "bnxt_re", inline_96_case },
	{ "inline-refuse", "inline-refuse=101", inline_refuse_case },
	{ "nosrq", "nosrq", no_srq_case },
	{ "srq", "srq=1000", srq_case },
	{ "sge", "sge=2", sge_case },
	{ "rdatomic", "rdatomic=1", rd_atomic_case },
	{ "fatal", "fatal=3", fatal_case },
	{ "noimm", "noimm", no_imm_case },
	{ "pieces", "pieces", pieces_case },
	{ "ooo", "ooo", ooo_case },
	{ "ooo-pieces", "ooo,pieces,clean", ooo_case },
	{ "delay", "delay=100", delay_case },
	{ "established", "established", established_case },
	{ "stale", "stale=300", stale_case },
	{ "removed", "removed=1", removed_case },
	{ "reg", "reg=524288", reg_case },
	{ "mr", "mr=2", mr_case },
	{ "port", "port=100", port_case },
	{ "migrate", "migrate=2", migrate_case },
	{ "wrong", "clean,no-such-word", none_case },
};

/* The same program once more, with the library; returns its exit status. */
static int case_spawn(char *self, const char *library, const char *name, const char *quirks)
{
	int status = -1;
	const pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		setenv("LD_PRELOAD", library, 1);
		setenv("OL_ADAPTER", quirks, 1);
		setenv("OL_ADAPTER_CASE", name, 1);
		execl(self, self, library, (char *)NULL);
		_exit(127);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool is_wanted(const char *name, char **names, int count)
{
	for (int i = 0; i < count; i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return count == 0;
}

int main(int argc, char **argv)
{
	const char *one = getenv("OL_ADAPTER_CASE");
	const size_t count = sizeof(cases) / sizeof(cases[0]);
	int failed = 0;

	for (size_t i = 0; one != NULL && i < count; i++) {
		if (strcmp(one, cases[i].name) == 0) {
			cases[i].run();
			return 0;
		}
	}
	if (argc < 2) {
		fprintf(stderr, "usage: adapter_quirks LIBRARY [CASE...]\n");
		return 2;
	}
	for (size_t i = 0; i < count; i++) {
		const bool wrong = strcmp(cases[i].name, "wrong") == 0;
		int status;

		if (!is_wanted(cases[i].name, argv + 2, argc - 2))
			continue;
		status = case_spawn(argv[0], argv[1], cases[i].name, cases[i].quirks);
		printf("%s %s (%s): %d\n", status == (wrong ? 2 : 0) ? "ok" : "not ok",
		       cases[i].name, cases[i].quirks, status);
		failed += status != (wrong ? 2 : 0);
	}
	return failed == 0 ? 0 : 1;
}
