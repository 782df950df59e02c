/* SPDX-License-Identifier: BSD-3-Clause */

/* bare.c -- two queue pairs, their queues, and waiting for what comes of them */
#include "support/bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "support/check.h"

uint64_t bare_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct ibv_context *bare_device_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;

	check(list != NULL && list[0] != NULL);
	ctx = ibv_open_device(list[0]);
	check(ctx != NULL);
	ibv_free_device_list(list);
	return ctx;
}

struct ibv_qp *bare_qp_create(struct bare_pair *pair, unsigned index, uint32_t inline_bytes,
			      uint32_t sges)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = pair->cqs[index],
		.recv_cq = pair->cqs[index],
		.srq = index == 1 ? pair->srq : NULL,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = BARE_DEPTH,
			 .max_recv_wr = BARE_DEPTH,
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
	check(ibv_query_gid(ctx, 1, 0, gid) == 0);
	return 0;
}

int bare_qp_rts(struct ibv_qp *qp, uint8_t reads)
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

void bare_qp_rtr(struct ibv_qp *qp, uint32_t to)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags =
					    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

	check(ibv_modify_qp(qp, &attr,
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
	check(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER) == 0);
}

void bare_queues_open(struct bare_pair *pair)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = BARE_DEPTH, .max_sge = 1 } };

	pair->ctx = bare_device_open();
	pair->pd = ibv_alloc_pd(pair->ctx);
	pair->channel = ibv_create_comp_channel(pair->ctx);
	check(pair->pd != NULL && pair->channel != NULL);
	check(fcntl(pair->channel->fd, F_SETFL, O_NONBLOCK) == 0);
	check(fcntl(pair->ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	for (unsigned i = 0; i < 2; i++) {
		pair->cqs[i] = ibv_create_cq(pair->ctx, 4 * BARE_DEPTH, NULL, pair->channel, 0);
		check(pair->cqs[i] != NULL);
	}
	pair->srq = ibv_create_srq(pair->pd, &srq);
	pair->buffer = aligned_alloc(4096, BARE_BUFFER);
	check(pair->buffer != NULL);
	memset(pair->buffer, 0, BARE_BUFFER);
	pair->mr = ibv_reg_mr(pair->pd, pair->buffer, BARE_BUFFER,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ);
	check(pair->mr != NULL);
}

void bare_pair_open(struct bare_pair *pair, uint32_t inline_bytes)
{
	bare_queues_open(pair);
	for (unsigned i = 0; i < 2; i++) {
		pair->qps[i] = bare_qp_create(pair, i, inline_bytes, 1);
		check(pair->qps[i] != NULL);
	}
	for (unsigned i = 0; i < 2; i++) {
		bare_qp_rtr(pair->qps[i], pair->qps[1 - i]->qp_num);
		check(bare_qp_rts(pair->qps[i], 1) == 0);
	}
}

int bare_write_post(struct bare_pair *pair, enum ibv_wr_opcode opcode, unsigned flags,
		    uint32_t from, uint32_t to, uint32_t bytes)
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

	wr.wr.rdma.remote_addr = (uintptr_t)pair->buffer + BARE_BUFFER / 2 + to;
	wr.wr.rdma.rkey = pair->mr->rkey;
	return ibv_post_send(pair->qps[0], &wr, &bad);
}

bool bare_completion_wait(struct ibv_cq *cq, struct ibv_wc *wc, uint64_t wait_ms)
{
	const uint64_t until_ms = bare_now_ms() + wait_ms;
	int count;

	do {
		count = ibv_poll_cq(cq, 1, wc);
		check(count >= 0);
	} while (count == 0 && bare_now_ms() < until_ms);
	return count == 1;
}

void bare_written(struct bare_pair *pair, uint64_t wr_id)
{
	struct ibv_wc wc;

	check(bare_completion_wait(pair->cqs[0], &wc, BARE_WAIT_MS));
	check(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id);
}

void bare_receive_post(struct bare_pair *pair)
{
	struct ibv_recv_wr wr = { .wr_id = 99 };
	struct ibv_recv_wr *bad = NULL;

	check(ibv_post_srq_recv(pair->srq, &wr, &bad) == 0);
}

bool bare_readable(int fd, int wait_ms)
{
	struct epoll_event event = { .events = EPOLLIN };
	const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int count;

	check(epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
	count = epoll_wait(epoll_fd, &event, 1, wait_ms);
	close(epoll_fd);
	return count > 0;
}

int bare_async_next(struct ibv_context *ctx, uint64_t wait_ms)
{
	const uint64_t until_ms = bare_now_ms() + wait_ms;
	struct ibv_async_event event;
	uint64_t left_ms;

	for (;;) {
		if (ibv_get_async_event(ctx, &event) == 0) {
			ibv_ack_async_event(&event);
			return (int)event.event_type;
		}
		left_ms = until_ms - bare_now_ms();
		if (left_ms > wait_ms || left_ms == 0)
			return -1;
		bare_readable(ctx->async_fd, (int)left_ms);
	}
}

void bare_to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	check(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
}
