/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shm_seal_test.c -- a peer that may only read a region cannot write a byte of it, whatever it does
 * with the descriptor that it got
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/memfd.h>
#include <sys/mman.h>

#include "support/check.h"
#include "unit/rdma/shm_util.h"

enum {
	BYTES = 3 * 4096,
	VALUE = 0x5a,
};

/* What the liar holds: the descriptor that came with the region, and a connection */
static int region_fd(struct end *a)
{
	struct ol_shm_msg msg = raw_msg(OL_SHM_MSG_HELLO);
	int fds[PACKET_TAKES_MAX];
	int sock = raw_socket(a->addr);
	int fd = -1;

	msg.capacity = 64;
	raw_say(sock, &msg, NULL, 0);
	a->conn = want(a, NULL, OL_XPORT_CONN_REQUEST).conn;
	check_ok(X->accept(a->conn, NULL, 0));
	do {
		assert_true(raw_hear(sock, a, &msg, fds));
		if (msg.type == OL_SHM_MSG_REGION)
			fd = fds[0];
	} while (msg.type != OL_SHM_MSG_ACCEPT);
	close(fds[0]);
	close(sock);
	assert_true(fd >= 0);
	return fd;
}

static void is_refused(int rc, int error)
{
	assert_int_equal(rc, -1);
	assert_int_equal(errno, error);
}

static void all_is_refused(int fd)
{
	void *map;

	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_equal(map, MAP_FAILED);
	assert_true(errno == EPERM || errno == EACCES);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_true(errno == EPERM || errno == EBADF);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	assert_true(errno == EPERM || errno == EBADF);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_true(errno == EPERM || errno == EINVAL);
	assert_int_equal(ftruncate(fd, 2 * BYTES), -1);
	is_refused(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
	map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	is_refused(mprotect(map, BYTES, PROT_READ | PROT_WRITE), EACCES);
	is_refused(madvise(map, BYTES, MADV_REMOVE), EACCES);
	munmap(map, BYTES);
}

static void what_peers_only_read_nobody_else_writes(void **state)
{
	struct end a;
	struct mem mem;
	char path[32];
	int again;
	int fd;

	(void)state;
	end_open(&a, NULL);
	end_listen(&a);
	mem_open(&mem, &a, NULL, BYTES, OL_XPORT_ACCESS_PEER_READ);
	memset(mem.p, VALUE, BYTES);
	fd = region_fd(&a);
	all_is_refused(fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC); /* a memfd's mode lets its user do that */
	if (again >= 0)
		all_is_refused(again);
	for (unsigned i = 0; i < BYTES; i++)
		assert_int_equal(((uint8_t *)mem.p)[i], VALUE);
	memset(mem.p, VALUE + 1, BYTES); /* its owner does */
	assert_int_equal(pread(fd, path, 1, BYTES - 1), 1);
	assert_int_equal(path[0], VALUE + 1);
	close(fd);
	if (again >= 0)
		close(again);
	X->conn_free(a.conn);
	mem_close(&mem);
	end_close(&a);
}

static void memory_that_peers_only_read_is_not_given_for_writing_later(void **state)
{
	struct ol_xport_region *region;
	struct end a;
	struct mem mem;

	(void)state;
	end_open(&a, NULL);
	mem_open(&mem, &a, NULL, BYTES, OL_XPORT_ACCESS_PEER_READ);
	assert_int_equal(X->reg(a.xport, NULL, mem.slab, 0, 4096, RW, &region), -EINVAL);
	assert_int_equal(
		X->reg(a.xport, NULL, mem.slab, 0, 4096, OL_XPORT_ACCESS_PEER_READ, &region), 0);
	X->dereg(region);
	mem_close(&mem);
	mem_open(&mem, &a, NULL, BYTES, RW); /* who may write may read, too */
	check_ok(X->reg(a.xport, NULL, mem.slab, 0, 4096, OL_XPORT_ACCESS_PEER_READ, &region));
	assert_int_not_equal(fcntl(mem.slab->fd, F_GET_SEALS) & F_SEAL_SEAL, 0);
	X->dereg(region);
	mem_close(&mem);
	end_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_peers_only_read_nobody_else_writes),
		cmocka_unit_test(memory_that_peers_only_read_is_not_given_for_writing_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
