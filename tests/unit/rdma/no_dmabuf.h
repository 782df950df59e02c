/* SPDX-License-Identifier: BSD-3-Clause */

/* no_dmabuf.h -- for a test that replaces libibverbs: a driver that takes no dma-buf, as rdma_rxe */
#ifndef UNIT_RDMA_NO_DMABUF_H
#define UNIT_RDMA_NO_DMABUF_H

#include <errno.h>
#include <infiniband/verbs.h>

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	(void)pd;
	(void)offset;
	(void)length;
	(void)iova;
	(void)fd;
	(void)access;
	errno = EOPNOTSUPP;
	return NULL;
}

#endif /* UNIT_RDMA_NO_DMABUF_H */
