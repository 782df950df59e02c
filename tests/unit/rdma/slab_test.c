/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * slab_test.c -- slabs are zeroed, touched, sealed against shrinking, and leave nothing behind
 */
#include "rdma/slab.h"

#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/wrap.h"
#include "unit/rdma/fds.h"

static unsigned unmaps;

WRAP(int, munmap, void *addr, size_t bytes)
{
	unmaps++;
	return __real_munmap(addr, bytes);
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void zero_bytes_are_refused(void **state)
{
	struct ol_slab *slab = (void *)0x1;

	(void)state;
	assert_int_equal(ol_slab_create(0, OL_SLAB_NODE_ANY, true, &slab), -EINVAL);
	assert_ptr_equal(slab, (void *)0x1);
}

static void more_than_the_machine_has_is_refused_and_leaks_nothing(void **state)
{
	const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2, (size_t)1 << 50 };
	unsigned before = fds_count();
	struct ol_slab *slab = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(ol_slab_create(sizes[i], OL_SLAB_NODE_ANY, false, &slab), -ENOMEM);
		assert_int_equal(ol_slab_create(sizes[i], OL_SLAB_NODE_ANY, true, &slab), -ENOMEM);
	}
	assert_null(slab);
	assert_int_equal(fds_count(), before);
}

static void without_a_descriptor_left_creation_fails_cleanly(void **state)
{
	struct ol_slab *slab = NULL;
	struct rlimit saved;

	(void)state;
	fds_limit(0, &saved);
	assert_int_equal(ol_slab_create(4096, OL_SLAB_NODE_ANY, true, &slab), -EMFILE);
	fds_unlimit(&saved);
	assert_null(slab);
}

static void bytes_are_rounded_up_and_all_are_zero_and_present(void **state)
{
	unsigned char *vec;
	struct ol_slab *slab;
	size_t pages;
	size_t i;

	(void)state;
	assert_int_equal(ol_slab_create(3 * page_bytes() + 1, OL_SLAB_NODE_ANY, false, &slab), 0);
	assert_int_equal(slab->bytes, 4 * page_bytes());
	assert_int_equal((uintptr_t)slab->addr % page_bytes(), 0);
	for (i = 0; i < slab->bytes; i++)
		assert_int_equal(((const uint8_t *)slab->addr)[i], 0);
	pages = slab->bytes / page_bytes();
	vec = calloc(pages, 1);
	assert_int_equal(mincore(slab->addr, slab->bytes, vec), 0);
	for (i = 0; i < pages; i++)
		assert_int_equal(vec[i] & 1, 1);
	free(vec);
	ol_slab_destroy(slab);
}

static void nobody_can_shrink_or_grow_it(void **state)
{
	struct ol_slab *slab;

	(void)state;
	assert_int_equal(ol_slab_create(page_bytes(), OL_SLAB_NODE_ANY, false, &slab), 0);
	assert_int_equal(ftruncate(slab->fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(slab->fd, 1 << 20), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(slab->fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	ol_slab_destroy(slab);
}

static void its_descriptor_is_the_same_memory_and_closes_on_exec(void **state)
{
	struct ol_slab *slab;
	uint64_t word = 0;

	(void)state;
	assert_int_equal(ol_slab_create(page_bytes(), OL_SLAB_NODE_ANY, false, &slab), 0);
	memcpy((char *)slab->addr + 128, "outlast!", 8);
	assert_int_equal(pread(slab->fd, &word, 8, 128), 8);
	assert_memory_equal(&word, "outlast!", 8);
	assert_int_equal(fcntl(slab->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	ol_slab_destroy(slab);
}

static void memory_that_peers_map_is_never_on_reserved_huge_pages(void **state)
{
	struct ol_slab *slab;

	(void)state;
	assert_int_equal(ol_slab_create(4 << 20, OL_SLAB_NODE_ANY, true, &slab), 0);
	assert_int_not_equal(slab->pages, OL_SLAB_PAGES_HUGE); /* peers may punch holes into it */
	assert_int_equal(slab->bytes, 4 << 20);
	((uint8_t *)slab->addr)[slab->bytes - 1] = 1;
	ol_slab_destroy(slab);
}

/* KiB of transparent huge pages among those of the slab; -1: the kernel does not tell */
static long huge_kib(const struct ol_slab *slab)
{
	const uintptr_t first = (uintptr_t)slab->addr, end = first + slab->bytes;
	FILE *file = fopen("/proc/self/smaps", "re");
	uintptr_t from = 0, to = 0;
	long kib = -1, some;
	char line[256];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL) {
		char *dash = NULL;
		const uintptr_t at = strtoul(line, &dash, 16);

		if (*dash == '-') {
			from = at;
			to = strtoul(dash + 1, NULL, 16);
		} else if (from < end && to > first &&
			   sscanf(line, "AnonHugePages: %ld", &some) == 1) {
			kib = (kib < 0 ? 0 : kib) + some;
		}
	}
	fclose(file);
	return kib;
}

static void without_peers_that_map_it_it_is_anonymous_and_on_huge_pages(void **state)
{
	const unsigned flags[] = { OL_SLAB_APART, OL_SLAB_APART | OL_SLAB_HUGE };
	const unsigned fds = fds_count();

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const bool huge = (flags[i] & OL_SLAB_HUGE) != 0;
		struct ol_slab *slab;

		assert_int_equal(ol_slab_create(8 << 20, OL_SLAB_NODE_ANY, flags[i], &slab), 0);
		assert_int_equal(slab->fd, -1);
		assert_int_equal(fds_count(), fds);
		assert_int_equal(((const uint8_t *)slab->addr)[slab->bytes - 1], 0);
		if (!huge)
			assert_int_equal(slab->pages, OL_SLAB_PAGES_SMALL);
		if (slab->pages == OL_SLAB_PAGES_THP)
			assert_int_equal(huge_kib(slab), 8 << 10);
		else if (slab->pages == OL_SLAB_PAGES_SMALL)
			assert_true(huge_kib(slab) <= 0);
		if (huge && slab->pages == OL_SLAB_PAGES_SMALL)
			print_message("skip: this kernel has no huge pages\n");
		ol_slab_destroy(slab);
	}
}

static void what_another_thread_touches_is_on_huge_pages_too(void **state)
{
	struct ol_slab *slab;

	(void)state;
	assert_int_equal(
		ol_slab_map(5 << 20, OL_SLAB_NODE_ANY, OL_SLAB_APART | OL_SLAB_HUGE, &slab), 0);
	for (size_t off = 0; off < slab->bytes; off += OL_SLAB_PIECE_BYTES) {
		const size_t left = slab->bytes - off;

		assert_int_equal(
			ol_slab_touch(slab, off,
				      left < OL_SLAB_PIECE_BYTES ? left : OL_SLAB_PIECE_BYTES),
			0);
	}
	if (slab->pages == OL_SLAB_PAGES_THP)
		assert_true(huge_kib(slab) >= 4 << 10);
	ol_slab_destroy(slab);
}

static void a_small_slab_does_not_take_a_huge_page(void **state)
{
	struct ol_slab *slab;

	(void)state;
	assert_int_equal(ol_slab_create(page_bytes(), OL_SLAB_NODE_ANY, true, &slab), 0);
	assert_int_not_equal(slab->pages, OL_SLAB_PAGES_HUGE);
	assert_int_equal(slab->bytes, page_bytes());
	ol_slab_destroy(slab);
}

static void it_says_on_which_node_it_was_placed(void **state)
{
	const int nodes[] = { -1, 0, 1000, 1 << 20 };
	struct ol_slab *slab;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		assert_int_equal(ol_slab_create(page_bytes(), nodes[i], false, &slab), 0);
		if (nodes[i] == 0 && numa_available() >= 0)
			assert_int_equal(slab->node, 0);
		else
			assert_int_equal(slab->node, OL_SLAB_NODE_ANY);
		ol_slab_destroy(slab);
	}
}

static void destroy_gives_everything_back(void **state)
{
	unsigned before = fds_count();
	struct ol_slab *slab;
	unsigned i;

	(void)state;
	for (i = 0; i < 100; i++) {
		assert_int_equal(ol_slab_create(1 << 20, OL_SLAB_NODE_ANY, i % 2 == 0, &slab), 0);
		ol_slab_destroy(slab);
	}
	ol_slab_destroy(NULL);
	assert_int_equal(fds_count(), before);
}

static void a_limit_on_file_sizes_is_a_code_and_no_signal(void **state)
{
	struct rlimit before, limit;
	unsigned fds = fds_count();
	struct ol_slab *slab = (void *)0x1;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ .rlim_cur = page_bytes(), .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(ol_slab_create(page_bytes() + 1, OL_SLAB_NODE_ANY, false, &slab), -EFBIG);
	assert_int_equal(ol_slab_create(8 << 20, OL_SLAB_NODE_ANY, true, &slab), -EFBIG);
	assert_ptr_equal(slab, (void *)0x1);
	assert_int_equal(fds_count(), fds);
	assert_int_equal(ol_slab_create(page_bytes(), OL_SLAB_NODE_ANY, false, &slab), 0);
	ol_slab_destroy(slab);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static void every_kind_of_page_has_a_text(void **state)
{
	struct ol_slab *slab;

	(void)state;
	assert_int_equal(ol_slab_create(page_bytes(), OL_SLAB_NODE_ANY, false, &slab), 0);
	slab->pages = OL_SLAB_PAGES_SMALL;
	assert_non_null(strstr(ol_slab_pages_str(slab), "pages"));
	slab->pages = OL_SLAB_PAGES_THP;
	assert_string_equal(ol_slab_pages_str(slab), "transparent huge pages");
	slab->pages = OL_SLAB_PAGES_HUGE;
	assert_non_null(strstr(ol_slab_pages_str(slab), "pages"));
	slab->pages = OL_SLAB_PAGES_FOREIGN;
	assert_string_equal(ol_slab_pages_str(slab), "pages of a dma-buf");
	ol_slab_destroy(slab);
}

/* A memfd stands for the dma-buf: until it is registered there is no difference. */
static void a_foreign_slab_has_no_address_and_a_descriptor_of_its_own(void **state)
{
	const int fd = memfd_create("foreign", MFD_CLOEXEC);
	const unsigned fds = fds_count();
	struct ol_slab *slab;
	uint8_t byte = 0;

	(void)state;
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(pwrite(fd, "x", 1, 4100), 1);
	assert_int_equal(ol_slab_from_dmabuf(fd, 4100, 4092, &slab), 0);
	close(fd);
	assert_true(ol_slab_is_foreign(slab));
	assert_null(slab->addr);
	assert_int_equal(slab->bytes, 4092);
	assert_int_equal(slab->node, OL_SLAB_NODE_ANY);
	assert_int_equal(fcntl(slab->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(pread(slab->fd, &byte, 1, (off_t)slab->fd_off), 1);
	assert_int_equal(byte, 'x');
	assert_int_equal(ol_slab_touch(slab, 0, slab->bytes), 0);
	ol_slab_near(slab);
	assert_int_equal(fds_count(), fds);
	ol_slab_destroy(slab);
	assert_int_equal(fds_count(), fds - 1);
}

static void a_foreign_slab_lies_within_its_dmabuf(void **state)
{
	const int fd = memfd_create("foreign", MFD_CLOEXEC);
	const unsigned fds = fds_count();
	struct ol_slab *slab = NULL;
	int pair[2];

	(void)state;
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(ol_slab_from_dmabuf(fd, 0, 0, &slab), -EINVAL);
	assert_int_equal(ol_slab_from_dmabuf(fd, 0, 8193, &slab), -EINVAL);
	assert_int_equal(ol_slab_from_dmabuf(fd, 8192, 1, &slab), -EINVAL);
	assert_int_equal(ol_slab_from_dmabuf(fd, UINT64_MAX, 2, &slab), -EINVAL);
	assert_int_equal(ol_slab_from_dmabuf(fd, 1, SIZE_MAX, &slab), -EINVAL);
	assert_int_equal(ol_slab_from_dmabuf(-1, 0, 1, &slab), -EBADF);
	assert_int_equal(pipe(pair), 0);
	assert_int_equal(ol_slab_from_dmabuf(pair[0], 0, 1, &slab), -ESPIPE);
	close(pair[0]);
	close(pair[1]);
	assert_null(slab);
	assert_int_equal(fds_count(), fds);
	close(fd);
}

static void without_a_descriptor_left_there_is_no_foreign_slab(void **state)
{
	const int fd = memfd_create("foreign", MFD_CLOEXEC);
	struct ol_slab *slab = NULL;
	struct rlimit saved;

	(void)state;
	assert_int_equal(ftruncate(fd, 8192), 0);
	fds_limit(0, &saved);
	assert_int_equal(ol_slab_from_dmabuf(fd, 0, 8192, &slab), -EMFILE);
	fds_unlimit(&saved);
	assert_null(slab);
	close(fd);
}

/* Found by counting system calls: half a million for a liar's TB, which took a server's loop ten seconds */
static void a_sparse_terabyte_is_unmapped_in_few_calls(void **state)
{
	const size_t sizes[] = { 4 * OL_SLAB_PIECE_BYTES + 1, (size_t)1 << 40 };
	const unsigned calls[] = { 5, 16384 };
	uint8_t *map;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		map = mmap(NULL, sizes[i], PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			   -1, 0);
		assert_ptr_not_equal(map, MAP_FAILED);
		unmaps = 0;
		ol_slab_unmap(map, sizes[i]);
		assert_in_range(unmaps, 1, calls[i]);
		for (size_t at = 0; at < sizes[i]; at += sizes[i] / 4)
			assert_int_equal(msync(map + at / page_bytes() * page_bytes(), 1, MS_ASYNC),
					 -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zero_bytes_are_refused),
		cmocka_unit_test(more_than_the_machine_has_is_refused_and_leaks_nothing),
		cmocka_unit_test(without_a_descriptor_left_creation_fails_cleanly),
		cmocka_unit_test(bytes_are_rounded_up_and_all_are_zero_and_present),
		cmocka_unit_test(nobody_can_shrink_or_grow_it),
		cmocka_unit_test(its_descriptor_is_the_same_memory_and_closes_on_exec),
		cmocka_unit_test(memory_that_peers_map_is_never_on_reserved_huge_pages),
		cmocka_unit_test(without_peers_that_map_it_it_is_anonymous_and_on_huge_pages),
		cmocka_unit_test(what_another_thread_touches_is_on_huge_pages_too),
		cmocka_unit_test(a_small_slab_does_not_take_a_huge_page),
		cmocka_unit_test(it_says_on_which_node_it_was_placed),
		cmocka_unit_test(a_sparse_terabyte_is_unmapped_in_few_calls),
		cmocka_unit_test(destroy_gives_everything_back),
		cmocka_unit_test(a_limit_on_file_sizes_is_a_code_and_no_signal),
		cmocka_unit_test(every_kind_of_page_has_a_text),
		cmocka_unit_test(a_foreign_slab_has_no_address_and_a_descriptor_of_its_own),
		cmocka_unit_test(a_foreign_slab_lies_within_its_dmabuf),
		cmocka_unit_test(without_a_descriptor_left_there_is_no_foreign_slab),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
