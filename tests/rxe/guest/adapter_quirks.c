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
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/bare.h"
#include "support/check.h"

enum {
	TRIES = 300,
};

/* How many receives are told after their queue pair is gone */
static int told_after_end(void)
{
	struct ibv_wc wc;
	struct bare_pair pair;

	bare_pair_open(&pair, 0);
	bare_receive_post(&pair);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	bare_written(&pair, 0);
	check(ibv_destroy_qp(pair.qps[1]) == 0);
	return ibv_poll_cq(pair.cqs[1], 1, &wc);
}

static void none_case(void)
{
	check(told_after_end() == 1);
}

static void clean_case(void)
{
	check(told_after_end() == 0);
}

static void last_wqe_now_case(void)
{
	struct bare_pair pair;

	bare_pair_open(&pair, 0);
	bare_to_error(pair.qps[1]);
	check(bare_async_next(pair.ctx, BARE_WAIT_MS) == IBV_EVENT_QP_LAST_WQE_REACHED);
	check(bare_async_next(pair.ctx, 50) == -1);
	bare_to_error(pair.qps[0]); /* it has no shared queue */
	check(bare_async_next(pair.ctx, 50) == -1);
	check(ibv_destroy_qp(pair.qps[1]) == 0);
}

static void last_wqe_late_case(void)
{
	struct bare_pair pair;
	uint64_t began_ms;

	bare_pair_open(&pair, 0);
	began_ms = bare_now_ms();
	bare_to_error(pair.qps[1]);
	check(bare_async_next(pair.ctx, 100) == -1);
	check(bare_async_next(pair.ctx, BARE_WAIT_MS) == IBV_EVENT_QP_LAST_WQE_REACHED);
	check(bare_now_ms() - began_ms >= 200);
}

static void last_wqe_never_case(void)
{
	struct bare_pair pair;

	bare_pair_open(&pair, 0);
	bare_to_error(pair.qps[1]);
	check(bare_async_next(pair.ctx, 500) == -1);
}

static void inline_is(uint32_t bytes)
{
	struct bare_pair pair;

	bare_pair_open(&pair, 256);
	check(pair.inline_max == bytes);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE | IBV_SEND_SIGNALED, 0, 0,
			      bytes + 1) == EINVAL);
	if (bytes == 0)
		return;
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE | IBV_SEND_SIGNALED, 0, 0,
			      bytes) == 0);
	bare_written(&pair, 0);
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
	struct bare_pair pair;

	bare_queues_open(&pair);
	errno = 0;
	check(bare_qp_create(&pair, 0, 102, 1) == NULL && errno == EINVAL);
	check(bare_qp_create(&pair, 0, 101, 1) != NULL && pair.inline_max == 101);
}

static void no_srq_case(void)
{
	struct ibv_device_attr attr;
	struct bare_pair pair;

	bare_queues_open(&pair);
	check(pair.srq == NULL && errno != 0);
	check(ibv_query_device(pair.ctx, &attr) == 0 && attr.max_srq == 0 && attr.max_srq_wr == 0);
}

static void srq_case(void)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1001, .max_sge = 1 } };
	struct ibv_device_attr attr;
	struct bare_pair pair;

	bare_queues_open(&pair);
	check(ibv_query_device(pair.ctx, &attr) == 0 && attr.max_srq_wr == 1000);
	check(ibv_create_srq(pair.pd, &srq) == NULL && errno == EINVAL);
	srq.attr.max_wr = 1000;
	check(ibv_create_srq(pair.pd, &srq) != NULL);
}

static void sge_case(void)
{
	struct ibv_device_attr attr;
	struct bare_pair pair;

	bare_queues_open(&pair);
	check(ibv_query_device(pair.ctx, &attr) == 0 && attr.max_sge == 2);
	check(bare_qp_create(&pair, 0, 0, 3) == NULL && errno == EINVAL);
	check(bare_qp_create(&pair, 0, 0, 2) != NULL);
}

static void sge_read_case(void)
{
	struct ibv_device_attr attr;
	struct bare_pair pair;
	struct ibv_sge sges[2];
	struct ibv_send_wr wr = { .sg_list = sges, .num_sge = 2, .opcode = IBV_WR_RDMA_READ };
	struct ibv_send_wr *bad = NULL;

	bare_pair_open(&pair, 0);
	check(ibv_query_device(pair.ctx, &attr) == 0 && attr.max_sge_rd == 1 && attr.max_sge > 1);
	for (unsigned i = 0; i < 2; i++)
		sges[i] = (struct ibv_sge){ .addr = (uintptr_t)pair.buffer + 64 * i,
					    .length = 64,
					    .lkey = pair.mr->lkey };
	wr.wr.rdma.remote_addr = (uintptr_t)pair.buffer + BARE_BUFFER / 2;
	wr.wr.rdma.rkey = pair.mr->rkey;
	check(ibv_post_send(pair.qps[0], &wr, &bad) == EINVAL && bad == &wr);
	wr.num_sge = 1;
	check(ibv_post_send(pair.qps[0], &wr, &bad) == 0);
}

static void rd_atomic_case(void)
{
	struct ibv_device_attr attr;
	struct bare_pair pair;

	bare_queues_open(&pair);
	check(ibv_query_device(pair.ctx, &attr) == 0 && attr.max_qp_rd_atom == 1 &&
	      attr.max_qp_init_rd_atom == 1);
	pair.qps[0] = bare_qp_create(&pair, 0, 0, 1);
	check(pair.qps[0] != NULL);
	bare_qp_rtr(pair.qps[0], pair.qps[0]->qp_num);
	check(bare_qp_rts(pair.qps[0], 2) == EINVAL);
	check(bare_qp_rts(pair.qps[0], 1) == 0);
}

static void fatal_case(void)
{
	struct bare_pair pair;
	struct ibv_wc wc;

	bare_pair_open(&pair, 0);
	for (unsigned i = 0; i < 3; i++)
		check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, i, 0, 8) == 0);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 3, 0, 8) == EIO);
	check(bare_async_next(pair.ctx, BARE_WAIT_MS) == IBV_EVENT_DEVICE_FATAL);
	check(!bare_completion_wait(pair.cqs[0], &wc, 100));
	check(ibv_reg_mr(pair.pd, pair.buffer, 8, 0) == NULL && errno == EIO);
	check(ibv_destroy_qp(pair.qps[0]) == 0 && ibv_destroy_qp(pair.qps[1]) == 0);
	bare_pair_open(&pair, 0); /* after the reset */
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 5, 0, 8) == 0);
	bare_written(&pair, 5);
}

static void no_imm_case(void)
{
	struct bare_pair pair;

	bare_pair_open(&pair, 0);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, 0, 0, 8) ==
	      EINVAL);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	bare_written(&pair, 0);
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
	struct bare_pair pair;

	bare_pair_open(&pair, 0);
	words = (uint64_t *)(void *)pair.buffer;
	watch.ends[0] = (_Atomic uint64_t *)(void *)(pair.buffer + BARE_BUFFER / 2);
	watch.ends[1] = watch.ends[0] + BYTES / 8 - 1;
	check(pthread_create(&thread, NULL, watch_run, &watch) == 0);
	for (uint64_t round = 1; round < TRIES && atomic_load(&watch.late_first) == 0; round++) {
		atomic_store(&watch.round, round);
		for (unsigned i = 0; i < BYTES / 8; i++)
			words[i] = round;
		check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, BYTES) ==
		      0);
		bare_written(&pair, 0);
		check(memcmp(pair.buffer, pair.buffer + BARE_BUFFER / 2, BYTES) == 0);
	}
	atomic_store(&watch.round, UINT64_MAX);
	pthread_join(thread, NULL);
	check(atomic_load(&watch.late_first) > 0);
}

/* Writes 1 to 4 to one word; returns what stays. The last goes as opcode says. */
static uint64_t four_write(struct bare_pair *pair, enum ibv_wr_opcode last)
{
	uint64_t word;

	for (uint64_t i = 0; i < 4; i++) {
		word = i + 1;
		memcpy(pair->buffer + 8 * i, &word, 8);
		check(bare_write_post(pair, i == 3 ? last : IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED,
				      8 * (uint32_t)i, 0, 8) == 0);
	}
	for (uint64_t i = 0; i < 4; i++)
		bare_written(pair, 8 * i);
	memcpy(&word, pair->buffer + BARE_BUFFER / 2, 8);
	return word;
}

/* A word is written, then read back into another place. Returns what was read. */
static uint64_t read_behind(struct bare_pair *pair, uint64_t word)
{
	const uint32_t back = 1024;

	memcpy(pair->buffer, &word, 8);
	check(bare_write_post(pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	check(bare_write_post(pair, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, back, 0, 8) == 0);
	bare_written(pair, 0); /* completions keep the order of requests */
	bare_written(pair, back);
	memcpy(&word, pair->buffer + back, 8);
	return word;
}

static void ooo_case(void)
{
	struct bare_pair pair;
	unsigned others = 0;

	bare_pair_open(&pair, 64);
	read_behind(&pair, 10);
	check(read_behind(&pair, 11) == 10);
	for (unsigned i = 0; i < 50; i++)
		others += four_write(&pair, IBV_WR_RDMA_WRITE) != 4;
	check(others > 10);
	for (unsigned i = 0; i < 50; i++) {
		bare_receive_post(&pair);
		check(four_write(&pair, IBV_WR_RDMA_WRITE_WITH_IMM) == 4);
	}
}

/* What is posted last is sent by a poll, and flushed by an error before it. */
static void unsent_case(void)
{
	struct bare_pair pair;
	struct ibv_wc wc;

	bare_pair_open(&pair, 64);
	bare_receive_post(&pair);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	check(bare_completion_wait(pair.cqs[1], &wc, BARE_WAIT_MS));
	bare_written(&pair, 0);
	bare_receive_post(&pair);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	bare_to_error(pair.qps[0]);
	check(bare_completion_wait(pair.cqs[0], &wc, BARE_WAIT_MS));
	check_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	check(!bare_completion_wait(pair.cqs[1], &wc, 100));
}

static void delay_case(void)
{
	struct ibv_cq *cq;
	void *context;
	struct bare_pair pair;
	struct ibv_wc wc;
	uint64_t began_ms;

	bare_pair_open(&pair, 0);
	began_ms = bare_now_ms();
	check(ibv_req_notify_cq(pair.cqs[0], 0) == 0);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	check(!bare_completion_wait(pair.cqs[0], &wc, 50));
	do {
		check(bare_readable(pair.channel->fd, BARE_WAIT_MS));
	} while (ibv_get_cq_event(pair.channel, &cq, &context) != 0);
	check(bare_now_ms() - began_ms >= 100 && cq == pair.cqs[0]);
	ibv_ack_cq_events(cq, 1);
	check(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	check(ibv_destroy_qp(pair.qps[0]) == 0 && ibv_destroy_cq(cq) == 0);
}

static void reg_case(void)
{
	struct bare_pair pair;
	uint8_t *more = aligned_alloc(4096, 1 << 20);

	bare_queues_open(&pair);
	check(ibv_reg_mr(pair.pd, more, 1 << 19, IBV_ACCESS_LOCAL_WRITE) != NULL);
	check(ibv_reg_mr(pair.pd, more, (1 << 19) + 1, IBV_ACCESS_LOCAL_WRITE) == NULL &&
	      errno == ENOMEM);
	free(more);
}

static void mr_case(void)
{
	struct bare_pair pair;
	struct ibv_mr *mr;

	bare_queues_open(&pair);
	mr = ibv_reg_mr(pair.pd, pair.buffer, 8, IBV_ACCESS_LOCAL_WRITE);
	check(mr != NULL);
	check(ibv_reg_mr(pair.pd, pair.buffer, 8, IBV_ACCESS_LOCAL_WRITE) == NULL &&
	      errno == ENOMEM);
	check(ibv_dereg_mr(mr) == 0);
	check(ibv_reg_mr(pair.pd, pair.buffer, 8, IBV_ACCESS_LOCAL_WRITE) != NULL);
}

/* What is behind the descriptor is written to and from, under the addresses asked for. */
static void dmabuf_case(void)
{
	const uint64_t iova = (UINT64_C(1) << 40) + 8;
	const int fd = memfd_create("dmabuf", MFD_CLOEXEC);
	struct bare_pair pair;
	struct ibv_sge sge = { .addr = iova + 16, .length = 8 };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct ibv_mr *mr;

	bare_pair_open(&pair, 0);
	check(ibv_reg_dmabuf_mr(pair.pd, 0, 4096, 0, -1, 0) == NULL && errno == EBADF);
	check(fd >= 0 && ftruncate(fd, 8192) == 0 && pwrite(fd, "outlast!", 8, 4096 + 24) == 8);
	check(ibv_reg_dmabuf_mr(pair.pd, 4096, 64, iova, fd, 0) == NULL && errno == EINVAL);
	mr = ibv_reg_dmabuf_mr(pair.pd, 4096 + 8, 64, iova, fd, IBV_ACCESS_LOCAL_WRITE);
	check(mr != NULL && close(fd) == 0);
	sge.lkey = mr->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)pair.buffer + BARE_BUFFER / 2;
	wr.wr.rdma.rkey = pair.mr->rkey;
	check(ibv_post_send(pair.qps[0], &wr, &bad) == 0);
	bare_written(&pair, 0);
	check(memcmp(pair.buffer + BARE_BUFFER / 2, "outlast!", 8) == 0);
	check(ibv_dereg_mr(mr) == 0);
}

static void no_dmabuf_case(void)
{
	struct bare_pair pair;

	bare_queues_open(&pair);
	check(ibv_reg_dmabuf_mr(pair.pd, 0, 4096, 0, -1, 0) == NULL && errno == EOPNOTSUPP);
}

static void port_case(void)
{
	struct ibv_context *ctx = bare_device_open();
	struct ibv_port_attr attr;

	check(fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	check(ibv_query_port(ctx, 1, &attr) == 0 && attr.state == IBV_PORT_ACTIVE);
	check(bare_async_next(ctx, BARE_WAIT_MS) == IBV_EVENT_PORT_ERR);
	check(ibv_query_port(ctx, 1, &attr) == 0 && attr.state == IBV_PORT_DOWN);
	check(bare_async_next(ctx, BARE_WAIT_MS) == IBV_EVENT_PORT_ACTIVE);
	check(ibv_query_port(ctx, 1, &attr) == 0 && attr.state == IBV_PORT_ACTIVE);
	check(ibv_close_device(ctx) == 0);
}

static void migrate_case(void)
{
	struct bare_pair pair;

	bare_pair_open(&pair, 0);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	check(bare_async_next(pair.ctx, 50) == -1);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	check(bare_async_next(pair.ctx, BARE_WAIT_MS) == IBV_EVENT_PATH_MIG);
	check(ibv_destroy_qp(pair.qps[0]) == 0);
}

static void ece_case(void)
{
	struct ibv_ece offer = { 0 };
	struct ibv_ece foreign = { .vendor_id = 1, .options = 1 };
	struct bare_pair pair;

	bare_queues_open(&pair);
	pair.qps[0] = bare_qp_create(&pair, 0, 0, 1);
	check(pair.qps[0] != NULL);
	check(ibv_query_ece(pair.qps[0], &offer) == 0 && offer.vendor_id != 0);
	check(offer.options != 0);
	check(ibv_set_ece(pair.qps[0], &foreign) == EINVAL);
	offer.options = 1;
	check(ibv_set_ece(pair.qps[0], &offer) == 0);
	check(ibv_query_ece(pair.qps[0], &offer) == 0 && offer.options == 1);
}

/* A listener and one that connects to it, on one channel */
struct cm {
	struct bare_pair pair;
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
		check(errno == EAGAIN && bare_readable(cm->channel->fd, BARE_WAIT_MS));
	type = event->event;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		cm->passive = event->id;
	*status = event->status;
	check(rdma_ack_cm_event(event) == 0);
	return type;
}

static void cm_open(struct cm *cm)
{
	const char *text = getenv("OL_ADDR");

	bare_queues_open(&cm->pair);
	cm->channel = rdma_create_event_channel();
	check(text != NULL && cm->channel != NULL);
	check(fcntl(cm->channel->fd, F_SETFL, O_NONBLOCK) == 0);
	cm->address = (struct sockaddr_in){ .sin_family = AF_INET };
	check(inet_pton(AF_INET, text, &cm->address.sin_addr) == 1);
	check(rdma_create_id(cm->channel, &cm->listener, NULL, RDMA_PS_TCP) == 0);
	check(rdma_bind_addr(cm->listener, (struct sockaddr *)&cm->address) == 0);
	check(rdma_listen(cm->listener, 8) == 0);
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

	check(rdma_create_id(cm->channel, &cm->active, NULL, RDMA_PS_TCP) == 0);
	check(rdma_resolve_addr(cm->active, NULL, (struct sockaddr *)&cm->address, BARE_WAIT_MS) ==
	      0);
	check(cm_next(cm, &status) == RDMA_CM_EVENT_ADDR_RESOLVED);
	check(rdma_resolve_route(cm->active, BARE_WAIT_MS) == 0);
	check(cm_next(cm, &status) == RDMA_CM_EVENT_ROUTE_RESOLVED);
	cm->pair.qps[0] = ibv_create_qp(cm->pair.pd, &attr);
	check(cm->pair.qps[0] != NULL);
	check(rdma_init_qp_attr(cm->active, &init, &mask) == 0);
	check(ibv_modify_qp(cm->pair.qps[0], &init, mask) == 0);
	param.qp_num = cm->pair.qps[0]->qp_num;
	check(rdma_connect(cm->active, &param) == 0);
}

static void cm_accept(struct cm *cm)
{
	struct rdma_conn_param param = { .retry_count = 6, .rnr_retry_count = 6 };
	struct ibv_qp_init_attr attr = { .send_cq = cm->pair.cqs[1],
					 .recv_cq = cm->pair.cqs[1],
					 .qp_type = IBV_QPT_RC,
					 .cap = { 4, 4, 1, 1, 0 } };

	check(rdma_create_qp(cm->passive, NULL, &attr) == 0 || errno != 0);
	check(cm->passive->qp != NULL);
	check(rdma_accept(cm->passive, &param) == 0);
}

static void established_case(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct cm cm;
	int status;

	cm_open(&cm);
	cm_connect(&cm);
	check(cm_next(&cm, &status) == RDMA_CM_EVENT_CONNECT_REQUEST);
	cm.pair.cqs[1] = ibv_create_cq(cm.passive->verbs, 16, NULL, NULL, 0);
	check(cm.pair.cqs[1] != NULL);
	cm_accept(&cm);
	check(cm_next(&cm, &status) == RDMA_CM_EVENT_ESTABLISHED);
	check(ibv_query_qp(cm.pair.qps[0], &attr, IBV_QP_STATE, &init) == 0);
	check(attr.qp_state == IBV_QPS_RTS);
	check(cm_next(&cm, &status) == RDMA_CM_EVENT_ESTABLISHED);
}

static void stale_case(void)
{
	const uint64_t began_ms = bare_now_ms();
	struct cm cm;
	int status;

	cm_open(&cm);
	for (;;) {
		cm_connect(&cm);
		if (cm_next(&cm, &status) != RDMA_CM_EVENT_REJECTED)
			break;
		check(status == 10);
		check(ibv_destroy_qp(cm.pair.qps[0]) == 0 && rdma_destroy_id(cm.active) == 0);
	}
	check(cm.passive != NULL && bare_now_ms() - began_ms >= 300);
}

static void removed_case(void)
{
	struct bare_pair pair;
	struct cm cm;
	int status;

	cm_open(&cm);
	bare_pair_open(&pair, 0);
	check(bare_write_post(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 8) == 0);
	check(cm_next(&cm, &status) == RDMA_CM_EVENT_DEVICE_REMOVAL);
	check(bare_async_next(pair.ctx, BARE_WAIT_MS) == IBV_EVENT_DEVICE_FATAL);
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
	{ "sge-read", "sge-read=1", sge_read_case },
	{ "rdatomic", "rdatomic=1", rd_atomic_case },
	{ "fatal", "fatal=3", fatal_case },
	{ "noimm", "noimm", no_imm_case },
	{ "pieces", "pieces", pieces_case },
	{ "ooo", "ooo", ooo_case },
	{ "ooo-pieces", "ooo,pieces,clean", ooo_case },
	{ "unsent", "unsent", unsent_case },
	{ "unsent-pieces", "unsent,pieces,ooo,clean", unsent_case },
	{ "delay", "delay=100", delay_case },
	{ "established", "established", established_case },
	{ "ece", "ece", ece_case },
	{ "stale", "stale=300", stale_case },
	{ "removed", "removed=1", removed_case },
	{ "reg", "reg=524288", reg_case },
	{ "mr", "mr=2", mr_case },
	{ "dmabuf", "dmabuf", dmabuf_case },
	{ "no-dmabuf", "rxe", no_dmabuf_case },
	{ "port", "port=100", port_case },
	{ "migrate", "migrate=2", migrate_case },
	{ "wrong", "clean,no-such-word", none_case },
};

/* The same program once more, with the library; returns its exit status. */
static int case_spawn(char *self, const char *library, const char *name, const char *quirks)
{
	int status = -1;
	const pid_t pid = fork();

	check(pid >= 0);
	if (pid == 0) {
		setenv("LD_PRELOAD", library, 1);
		setenv("OL_ADAPTER", quirks, 1);
		setenv("OL_ADAPTER_CASE", name, 1);
		execl(self, self, library, (char *)NULL);
		_exit(127);
	}
	check(waitpid(pid, &status, 0) == pid);
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
