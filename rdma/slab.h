/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * slab.h -- memory fit to be registered: a memfd mapping, on huge pages when there are any
 *
 * A slab is the unit of sharing on shm (its memfd is what a peer maps), and the unit of fencing:
 * memory that another peer must not reach lives in another slab. Zeroed and touched at creation,
 * so that registration does not pay for page faults and nothing faults in the data path. Touching
 * takes as long as the memory is large: ol_slab_map() leaves it to another thread.
 *
 * Threading: a slab belongs to one thread at a time; its memory is anybody's. ol_slab_touch() may
 * run beside who writes the memory.
 */
#ifndef OL_RDMA_SLAB_H
#define OL_RDMA_SLAB_H

#include <stdbool.h>
#include <stddef.h>

enum ol_slab_pages {
	OL_SLAB_PAGES_SMALL, /* base pages */
	OL_SLAB_PAGES_THP, /* base pages, transparent huge pages asked for */
	OL_SLAB_PAGES_HUGE, /* MFD_HUGETLB */
};

enum {
	OL_SLAB_NODE_ANY = -1,
	OL_SLAB_PIECE_BYTES = 2 << 20, /* touched, or unmapped, at once */
};

struct ol_slab {
	void *addr; /* page-aligned; huge-page-aligned when pages is HUGE */
	size_t bytes; /* what was asked for, rounded up to the page size */
	int fd; /* the memfd behind addr; owned by the slab */
	int node; /* NUMA node it was placed on, or OL_SLAB_NODE_ANY */
	enum ol_slab_pages pages; /* what it got: for the start line and doctor */
};

/*
 * ol_slab_create -- bytes of zeroed memory, on NUMA node `node` where libnuma can place it
 *
 * Tries explicit huge pages when bytes >= one huge page and want_huge is set, falls back to base
 * pages (with transparent huge pages asked for), and says in `pages` what it got.
 *
 * Blocks:    for as long as clearing the memory takes
 * Errors:    -ENOMEM, -EINVAL (bytes 0), -EFBIG (ol_memfd_grow()), another negative errno of
 *            memfd_create() or mmap()
 */
int ol_slab_create(size_t bytes, int node, bool want_huge, struct ol_slab **ret_slab);

/*
 * ol_slab_map -- as ol_slab_create() on base pages, but the pages come when they are first used
 *
 * Blocks: for no longer than its system calls, however large it is. Errors: as above
 */
int ol_slab_map(size_t bytes, int node, struct ol_slab **ret_slab);

/*
 * ol_slab_touch -- have these pages now: a lack of memory is a code here, and would be a signal
 * later
 *
 * What lies there stays. The memory map of the process, which all its threads share, is held for
 * one piece of OL_SLAB_PIECE_BYTES at a time. off: a multiple of the page. Errors: -ENOMEM
 */
int ol_slab_touch(struct ol_slab *slab, size_t off, size_t bytes);

/* ol_slab_destroy -- unmap and close; NULL is allowed. Regions on it must be gone (dereg first). */
void ol_slab_destroy(struct ol_slab *slab);

/* ol_slab_unmap -- in pieces, as each holds up all that maps memory in this process */
void ol_slab_unmap(void *addr, size_t bytes);

/*
 * ol_memfd_grow -- give the empty memfd `fd` its size
 *
 * A memfd is a file to the kernel. To grow a file beyond RLIMIT_FSIZE raises SIGXFSZ, which ends
 * the process; so the limit is looked at first, and is -EFBIG here. Else 0, or a negative errno.
 */
int ol_memfd_grow(int fd, size_t bytes);

/* ol_slab_pages_str -- "4 KiB pages", "transparent huge pages", "2 MiB pages": for people */
const char *ol_slab_pages_str(const struct ol_slab *slab);

#endif /* OL_RDMA_SLAB_H */
