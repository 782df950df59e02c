/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * dmabuf.c -- registrations of dma-bufs, over a driver that takes none: the buffer is mapped, and
 * the mapping registered under the addresses that the program asked for
 */
#include "support/adapter/adapter.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct dmabuf {
	struct dmabuf *next;
	struct ibv_mr *mr;
	void *map;
	size_t map_bytes;
};

static struct dmabuf *dmabufs;

static struct dmabuf *dmabuf_map(uint64_t offset, size_t length, int fd)
{
	const size_t within = offset % (size_t)sysconf(_SC_PAGESIZE);
	struct dmabuf *dmabuf = calloc(1, sizeof(*dmabuf));

	if (dmabuf == NULL)
		return NULL;
	dmabuf->map_bytes = length + within;
	dmabuf->map = mmap(NULL, dmabuf->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   (off_t)(offset - within));
	if (dmabuf->map != MAP_FAILED)
		return dmabuf;
	free(dmabuf);
	return NULL;
}

static void dmabuf_unmap(struct dmabuf *dmabuf)
{
	munmap(dmabuf->map, dmabuf->map_bytes);
	free(dmabuf);
}

static void dmabuf_list(struct dmabuf *dmabuf)
{
	ad_lock();
	dmabuf->next = dmabufs;
	dmabufs = dmabuf;
	ad_unlock();
}

static struct dmabuf *dmabuf_take(const struct ibv_mr *mr)
{
	struct dmabuf **at = &dmabufs;
	struct dmabuf *dmabuf;

	ad_lock();
	while (*at != NULL && (*at)->mr != mr)
		at = &(*at)->next;
	dmabuf = *at;
	if (dmabuf != NULL)
		*at = dmabuf->next;
	ad_unlock();
	return dmabuf;
}

/* ibv_reg_dmabuf_mr(3): iova and offset lie at one place of a page, which the kernel checks. */
AD_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					   uint64_t iova, int fd, int access)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct dmabuf *dmabuf;
	int rc;

	if (!ad_set.dmabuf)
		return ad_real.reg_dmabuf_mr(pd, offset, length, iova, fd, access);
	if (offset % page != iova % page) {
		errno = EINVAL;
		return NULL;
	}
	dmabuf = dmabuf_map(offset, length, fd);
	if (dmabuf == NULL)
		return NULL;
	dmabuf->mr = ibv_reg_mr_iova2(pd, (char *)dmabuf->map + offset % page, length, iova,
				      (unsigned)access);
	if (dmabuf->mr == NULL) {
		rc = errno;
		dmabuf_unmap(dmabuf);
		errno = rc;
		return NULL;
	}
	dmabuf_list(dmabuf);
	return dmabuf->mr;
}

int ad_dereg_mr(struct ibv_mr *mr)
{
	struct dmabuf *dmabuf = dmabuf_take(mr);
	const int rc = ad_real.dereg_mr(mr);

	if (dmabuf != NULL && rc == 0)
		dmabuf_unmap(dmabuf);
	else if (dmabuf != NULL)
		dmabuf_list(dmabuf);
	return rc;
}
