/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * bare.h -- two queue pairs of one process by bare verbs, connected to each other
 *
 * For what is to be seen without our code. What cannot be done ends the program, with its line.
 */
#ifndef OL_TESTS_SUPPORT_BARE_H
#define OL_TESTS_SUPPORT_BARE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	BARE_BUFFER = 1 << 18,
	BARE_DEPTH = 64,
	BARE_WAIT_MS = 5000,
};

/* Two queue pairs, each the other's peer, with one buffer; the second has a shared receive queue if there is one. */
struct bare_pair {
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

uint64_t bare_now_ms(void);
struct ibv_context *bare_device_open(void);
struct ibv_qp *bare_qp_create(struct bare_pair *pair, unsigned index, uint32_t inline_bytes,
			      uint32_t sges);
int bare_qp_rts(struct ibv_qp *qp, uint8_t reads);
void bare_qp_rtr(struct ibv_qp *qp, uint32_t to);
void bare_queues_open(struct bare_pair *pair);
void bare_pair_open(struct bare_pair *pair, uint32_t inline_bytes);
/* Lets the first write bytes from one place of the buffer to another. */
int bare_write_post(struct bare_pair *pair, enum ibv_wr_opcode opcode, unsigned flags,
		    uint32_t from, uint32_t to, uint32_t bytes);
bool bare_completion_wait(struct ibv_cq *cq, struct ibv_wc *wc, uint64_t wait_ms);
void bare_written(struct bare_pair *pair, uint64_t wr_id);
void bare_receive_post(struct bare_pair *pair);
/* Waits for an event of the descriptor by epoll, as the product does. */
bool bare_readable(int fd, int wait_ms);
/* The event that comes within so long; -1: none. */
int bare_async_next(struct ibv_context *ctx, uint64_t wait_ms);
void bare_to_error(struct ibv_qp *qp);

#endif /* OL_TESTS_SUPPORT_BARE_H */
