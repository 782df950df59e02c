/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * slab.h -- memory fit to be registered, on huge pages when there are any
 *
 * A slab is the unit of sharing on shm (a peer maps its memfd; where no peer does, it is anonymous
 * memory, which gets transparent huge pages more often), and the unit of fencing: memory
 * that a peer must not reach lies in another slab. It is zeroed and touched at creation, so that
 * neither registration nor the data path takes page faults. Touching takes time in proportion to
 * the size: ol_slab_map() leaves it to another thread.
 *
 * A slab may be foreign: memory behind a dma-buf, a graphics processor's for example. It has no
 * address here, so no code of this process can read or write it by mistake.
 *
 * Threading: a slab belongs to one thread at a time; any thread may use its memory. ol_slab_touch()
 * may run while other threads write the memory.
 */
#ifndef OL_RDMA_SLAB_H
#define OL_RDMA_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ol_slab_pages {
	OL_SLAB_PAGES_SMALL, /* base pages */
	OL_SLAB_PAGES_THP, /* base pages, transparent huge pages asked for */
	OL_SLAB_PAGES_HUGE, /* reserved ones: MAP_HUGETLB; no peer maps them */
	OL_SLAB_PAGES_FOREIGN, /* those of a dma-buf: ol_slab_from_dmabuf() */
};

enum ol_slab_flags {
	OL_SLAB_HUGE = 1 << 0, /* on huge pages, if there are any and it is as large as one */
	OL_SLAB_APART = 1 << 1, /* no peer maps it: no memfd */
};

enum {
	OL_SLAB_NODE_ANY = -1,
	OL_SLAB_PIECE_BYTES = 2 << 20, /* touched, or unmapped, at once */
};

struct ol_slab {
	void *addr; /* page-aligned; huge-page-aligned when pages is HUGE. FOREIGN: NULL */
	size_t bytes; /* as asked for, rounded up to the page size. FOREIGN: as asked for */
	int fd; /* the memfd behind addr, or the dma-buf; owned by the slab. APART: -1 */
	uint64_t fd_off; /* FOREIGN: where the slab begins in the dma-buf */
	unsigned flags; /* enum ol_slab_flags, as asked for */
	int node; /* NUMA node it was placed on, or OL_SLAB_NODE_ANY */
	enum ol_slab_pages pages; /* kind in use: for the start line and doctor */
};

/*
 * ol_slab_create -- bytes of zeroed memory, on NUMA node `node` where libnuma can place it
 *
 * HUGE: transparent huge pages are asked for; APART, reserved ones are tried first if bytes >= one
 * huge page. `pages` tells the result.
 *
 * Blocks:    for as long as clearing the memory takes
 * Errors:    -ENOMEM, -EINVAL (bytes 0), -EFBIG (ol_memfd_grow()), another negative errno of
 *            memfd_create() or mmap()
 */
int ol_slab_create(size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab);

/*
 * ol_slab_map -- as ol_slab_create(), but a page is made when it is first used
 *
 * Blocks: only for its system calls, whatever the size. Errors: as above
 */
int ol_slab_map(size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab);

/*
 * ol_slab_from_dmabuf -- a foreign slab: bytes at off of the dma-buf `fd`, which its exporter has
 * made (cuMemGetHandleForAddressRange(), hsa_amd_portable_export_dmabuf(), /dev/udmabuf)
 *
 * The slab has a descriptor of its own, so the caller may close fd. The memory lives until slab and
 * regions are gone. That fd is a dma-buf is checked by the kernel when the slab is registered.
 *
 * Blocks: no. Errors: -EINVAL (bytes 0, or beyond the dma-buf's end), -ENOMEM, another negative
 * errno of lseek() or fcntl()
 */
int ol_slab_from_dmabuf(int fd, uint64_t off, size_t bytes, struct ol_slab **ret_slab);

static inline bool ol_slab_is_foreign(const struct ol_slab *slab)
{
	return slab->pages == OL_SLAB_PAGES_FOREIGN;
}

/*
 * ol_slab_touch -- make these pages now: a lack of memory is an error here, and would be a signal
 * later
 *
 * Their contents stay. The call locks the memory map, which all threads of the process share, for
 * one piece of OL_SLAB_PIECE_BYTES at a time. off: a multiple of the page. A foreign slab's pages
 * are its exporter's: nothing happens. Errors: -ENOMEM
 */
int ol_slab_touch(struct ol_slab *slab, size_t off, size_t bytes);

/*
 * ol_slab_seal -- what processes that get its descriptor may do with it, once and for all
 *
 * Call it before the descriptor is shared. others_write false: what is mapped already stays writable,
 * here; nobody can map it for writing any more or write() to it, however the descriptor is opened again.
 * Returns 0, also if others may write already. Errors: -EINVAL (others_write after a call without
 * it; memory without a descriptor; a kernel before 5.1).
 */
int ol_slab_seal(const struct ol_slab *slab, bool others_write);

/* ol_slab_destroy -- unmap and close; NULL is allowed. Regions on it must be gone (dereg first). */
void ol_slab_destroy(struct ol_slab *slab);

/* ol_slab_near -- let the calling thread run only on processors of the slab's NUMA node, among those that it
 * may run on now. If there are none, or slab is NULL or its node is not known, nothing changes. */
void ol_slab_near(const struct ol_slab *slab);

/* ol_slab_unmap -- in pieces, as each delays all threads of this process that map memory */
void ol_slab_unmap(void *addr, size_t bytes);

/*
 * ol_memfd_grow -- give the empty memfd `fd` its size
 *
 * A memfd is a file to the kernel. Growing a file beyond RLIMIT_FSIZE raises SIGXFSZ, which ends
 * the process; so this function checks the limit first, and returns -EFBIG. Else 0, or a negative
 * errno.
 */
int ol_memfd_grow(int fd, size_t bytes);

/* ol_slab_huge_any -- some huge pages may be had: reserved ones are free, or transparent ones are on */
bool ol_slab_huge_any(bool apart);

/* ol_slab_pages_str -- "4 KiB pages", "transparent huge pages", "2 MiB pages": for people */
const char *ol_slab_pages_str(const struct ol_slab *slab);

#endif /* OL_RDMA_SLAB_H */
