/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * slab.c -- memory fit to be registered: a sealed memfd or anonymous, placed, touched, on huge pages if
 * any
 */
#include "rdma/slab.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <numa.h>
#include <numaif.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "rdma/fds.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
	NODE_WORD_BITS = 8 * sizeof(unsigned long),
	NODE_WORDS = 1024 / NODE_WORD_BITS, /* the kernel's largest MAX_NUMNODES */
	UNMAP_PIECES_MAX = 16384, /* 32 GiB */
};

int ol_memfd_grow(int fd, size_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    bytes > limit.rlim_cur)
		return -EFBIG;
	return ftruncate(fd, (off_t)bytes) == 0 ? 0 : -errno;
}

/* True if the kernel gives transparent huge pages to memory of this kind that asks for them */
static bool thp_on(bool apart)
{
	FILE *file = fopen(apart ? "/sys/kernel/mm/transparent_hugepage/enabled"
				 : "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
			   "re");
	char line[128] = "";
	bool on;

	if (file == NULL)
		return false;
	on = fgets(line, sizeof(line), file) != NULL && strstr(line, "[never]") == NULL &&
	     strstr(line, "[deny]") == NULL;
	fclose(file);
	return on;
}

/* slab_place -- prefer node for the pages of slab; not an error where that cannot be done */
static void slab_place(struct ol_slab *slab, int node)
{
	unsigned long mask[NODE_WORDS] = { 0 };

	slab->node = OL_SLAB_NODE_ANY;
	if (node < 0 || node >= NODE_WORDS * NODE_WORD_BITS || numa_available() < 0)
		return;
	mask[node / NODE_WORD_BITS] = 1UL << (node % NODE_WORD_BITS);
	if (mbind(slab->addr, slab->bytes, MPOL_PREFERRED, mask, NODE_WORDS * NODE_WORD_BITS + 1,
		  0) == 0)
		slab->node = node;
}

void ol_slab_near(const struct ol_slab *slab)
{
	struct bitmask *have, *node;
	unsigned both = 0;

	if (slab == NULL || slab->node < 0 || numa_available() < 0)
		return;
	have = numa_allocate_cpumask();
	node = numa_allocate_cpumask();
	if (numa_sched_getaffinity(0, have) >= 0 && numa_node_to_cpus(slab->node, node) == 0) {
		for (unsigned i = 0; i < have->size; i++) {
			if (!numa_bitmask_isbitset(have, i))
				continue;
			if (numa_bitmask_isbitset(node, i))
				both++;
			else
				numa_bitmask_clearbit(have, i);
		}
		if (both > 0)
			(void)numa_sched_setaffinity(0, have);
	}
	numa_free_cpumask(have);
	numa_free_cpumask(node);
}

/* touch_old -- for kernels before 5.14: content stays, even if it is written meanwhile */
static int touch_old(struct ol_slab *slab, size_t off, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (slab->fd >= 0 && fallocate(slab->fd, 0, (off_t)off, (off_t)bytes) != 0)
		return errno == ENOSPC ? -ENOMEM : -errno;
	for (size_t at = off; at < off + bytes; at += page)
		__atomic_fetch_or((uint8_t *)slab->addr + at, 0, __ATOMIC_RELAXED);
	return 0;
}

int ol_slab_touch(struct ol_slab *slab, size_t off, size_t bytes)
{
	size_t piece;

	if (ol_slab_is_foreign(slab))
		return 0;
	for (; bytes > 0; off += piece, bytes -= piece) {
		piece = bytes < OL_SLAB_PIECE_BYTES ? bytes : OL_SLAB_PIECE_BYTES;
		if (madvise((uint8_t *)slab->addr + off, piece, MADV_POPULATE_WRITE) == 0)
			continue;
		if (errno != EINVAL)
			return -ENOMEM;
		if (touch_old(slab, off, piece) != 0)
			return -ENOMEM;
	}
	return 0;
}

void ol_slab_unmap(void *addr, size_t bytes)
{
	size_t most = OL_SLAB_PIECE_BYTES, piece;
	uint8_t *at = addr;

	/* Memory of so many pieces is a peer's, and sparse: a liar's TB must not take a second for each. */
	while (bytes / most > UNMAP_PIECES_MAX)
		most *= 2;
	for (size_t left = bytes; left > 0; at += piece, left -= piece) {
		piece = left < most ? left : most;
		if (munmap(at, piece) != 0) { /* its huge pages are larger */
			munmap(at, left);
			break;
		}
	}
}

/* meminfo_number -- the number behind a word of /proc/meminfo; 0 if it is not there */
static size_t meminfo_number(const char *word)
{
	size_t number = 0;
	char line[128];
	FILE *file;

	file = fopen("/proc/meminfo", "re");
	if (file == NULL)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, word, strlen(word)) == 0)
			number = strtoul(line + strlen(word), NULL, 10);
	}
	fclose(file);
	return number;
}

/* huge_page_bytes -- the system's default huge page; 0 if it has none */
static size_t huge_page_bytes(void)
{
	return meminfo_number("Hugepagesize:") * 1024;
}

bool ol_slab_huge_any(bool apart)
{
	return thp_on(apart) || meminfo_number("HugePages_Free:") > 0;
}

/* slab_settle -- the pages of a slab that has its addresses */
static int slab_settle(struct ol_slab *slab, int node, bool touch)
{
	const bool apart = (slab->flags & OL_SLAB_APART) != 0;
	int rc;

	ol_fds_unshare(slab->addr, slab->bytes);
	if (slab->pages == OL_SLAB_PAGES_SMALL && (slab->flags & OL_SLAB_HUGE) != 0 &&
	    thp_on(apart) && madvise(slab->addr, slab->bytes, MADV_HUGEPAGE) == 0)
		slab->pages = OL_SLAB_PAGES_THP;
	if (apart && (slab->flags & OL_SLAB_HUGE) == 0)
		(void)madvise(slab->addr, slab->bytes, MADV_NOHUGEPAGE);
	slab_place(slab, node);
	rc = touch ? ol_slab_touch(slab, 0, slab->bytes) : 0;
	if (rc != 0)
		ol_slab_unmap(slab->addr, slab->bytes);
	return rc;
}

/* Addresses for bytes, at a multiple of align; NULL: none */
static void *map_aligned(size_t bytes, size_t align)
{
	uint8_t *all, *at;

	all = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		return NULL;
	at = all + (align - (uintptr_t)all % align) % align;
	if (at != all)
		munmap(all, (size_t)(at - all));
	munmap(at + bytes, align - (size_t)(at - all));
	return at;
}

/* apart_fill -- anonymous memory, of one kind of page; on a huge page's boundary, so that
 * transparent ones fit */
static int apart_fill(struct ol_slab *slab, size_t bytes, int node, size_t huge_bytes, bool touch)
{
	const size_t page = huge_bytes != 0 ? huge_bytes : (size_t)sysconf(_SC_PAGESIZE);
	const size_t align = huge_page_bytes();

	slab->fd = -1;
	slab->bytes = (bytes + page - 1) & ~(page - 1);
	slab->pages = huge_bytes != 0 ? OL_SLAB_PAGES_HUGE : OL_SLAB_PAGES_SMALL;
	if (huge_bytes != 0)
		slab->addr = mmap(NULL, slab->bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	else
		slab->addr = map_aligned(slab->bytes,
					 slab->bytes >= align && align > page ? align : page);
	if (slab->addr == MAP_FAILED || slab->addr == NULL)
		return -ENOMEM;
	return slab_settle(slab, node, touch);
}

/*
 * slab_fill -- give slab its memory, which peers may map
 *
 * Never reserved huge pages: a peer that may write them may punch holes into them, and if there are
 * none left when this process touches one again, a signal ends it.
 */
static int slab_fill(struct ol_slab *slab, size_t bytes, int node, bool touch)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int rc;

	slab->fd = ol_fds_add(memfd_create("outlast-slab", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (slab->fd < 0)
		return -errno;
	slab->bytes = (bytes + page - 1) & ~(page - 1);
	slab->pages = OL_SLAB_PAGES_SMALL;
	rc = ol_memfd_grow(slab->fd, slab->bytes);
	if (rc != 0)
		goto err_fd;
	if (fcntl(slab->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
		rc = -errno;
		goto err_fd;
	}
	slab->addr = mmap(NULL, slab->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, slab->fd, 0);
	if (slab->addr == MAP_FAILED) {
		rc = -errno;
		goto err_fd;
	}
	rc = slab_settle(slab, node, touch);
	if (rc != 0)
		goto err_fd;
	return 0;

err_fd:
	ol_fds_close(slab->fd);
	return rc;
}

/* beyond_ram -- more than the machine's memory: refused before the kernel kills a process for it */
static bool beyond_ram(size_t bytes)
{
	struct sysinfo info;

	return sysinfo(&info) == 0 && bytes / info.mem_unit >= info.totalram;
}

static int slab_make(size_t bytes, int node, unsigned flags, bool touch, struct ol_slab **ret_slab)
{
	const bool apart = (flags & OL_SLAB_APART) != 0;
	size_t huge_bytes = 0;
	struct ol_slab *slab;
	int rc = -ENOMEM;

	if (bytes == 0)
		return -EINVAL;
	if (beyond_ram(bytes))
		return -ENOMEM;
	slab = calloc(1, sizeof(*slab));
	if (slab == NULL)
		return -ENOMEM;
	slab->flags = flags;
	if ((flags & OL_SLAB_HUGE) != 0 && apart)
		huge_bytes = huge_page_bytes();
	if (huge_bytes != 0 && bytes >= huge_bytes)
		rc = apart_fill(slab, bytes, node, huge_bytes, touch);
	if (rc != 0)
		rc = apart ? apart_fill(slab, bytes, node, 0, touch)
			   : slab_fill(slab, bytes, node, touch);
	if (rc != 0) {
		free(slab);
		return rc;
	}
	*ret_slab = slab;
	return 0;
}

int ol_slab_create(size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab)
{
	return slab_make(bytes, node, flags, true, ret_slab);
}

int ol_slab_map(size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab)
{
	return slab_make(bytes, node, flags, false, ret_slab);
}

int ol_slab_from_dmabuf(int fd, uint64_t off, size_t bytes, struct ol_slab **ret_slab)
{
	const off_t whole = lseek(fd, 0, SEEK_END);
	struct ol_slab *slab;
	int rc;

	if (whole < 0)
		return -errno;
	if (bytes == 0 || off > (uint64_t)whole || bytes > (uint64_t)whole - off)
		return -EINVAL;
	slab = calloc(1, sizeof(*slab));
	if (slab == NULL)
		return -ENOMEM;
	*slab = (struct ol_slab){
		.bytes = bytes,
		.fd = ol_fds_add(fcntl(fd, F_DUPFD_CLOEXEC, 0)),
		.fd_off = off,
		.node = OL_SLAB_NODE_ANY,
		.pages = OL_SLAB_PAGES_FOREIGN,
	};
	if (slab->fd < 0) {
		rc = -errno;
		free(slab);
		return rc;
	}
	*ret_slab = slab;
	return 0;
}

int ol_slab_seal(const struct ol_slab *slab, bool others_write)
{
	const int seals = fcntl(slab->fd, F_GET_SEALS);

	if (seals < 0)
		return -EINVAL;
	if ((seals & F_SEAL_SEAL) != 0)
		return others_write && (seals & F_SEAL_FUTURE_WRITE) != 0 ? -EINVAL : 0;
	return fcntl(slab->fd, F_ADD_SEALS,
		     F_SEAL_SEAL | (others_write ? 0 : F_SEAL_FUTURE_WRITE)) == 0
		       ? 0
		       : -errno;
}

void ol_slab_destroy(struct ol_slab *slab)
{
	if (slab == NULL)
		return;
	if (slab->addr != NULL)
		ol_slab_unmap(slab->addr, slab->bytes);
	if (slab->fd >= 0)
		ol_fds_close(slab->fd);
	free(slab);
}

const char *ol_slab_pages_str(const struct ol_slab *slab)
{
	struct stat st = { .st_blksize = 0 };

	switch (slab->pages) {
	case OL_SLAB_PAGES_SMALL:
		return sysconf(_SC_PAGESIZE) == 4096 ? "4 KiB pages" : "base pages";
	case OL_SLAB_PAGES_THP:
		return "transparent huge pages";
	case OL_SLAB_PAGES_HUGE:
		if (slab->fd < 0 || fstat(slab->fd, &st) != 0)
			st.st_blksize = (blksize_t)huge_page_bytes();
		if (st.st_blksize == 2 << 20)
			return "2 MiB pages";
		if (st.st_blksize == 1 << 30)
			return "1 GiB pages";
		return "huge pages";
	case OL_SLAB_PAGES_FOREIGN:
		return "pages of a dma-buf";
	}
	return "unknown pages";
}
