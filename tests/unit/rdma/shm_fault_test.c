/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shm_fault_test.c -- whichever allocation or system call fails, the transport returns an error or
 * ends a connection, and frees everything
 *
 * The functions below replace the C library's in the whole program. Each counts its calls, and lets
 * one fail. A sanitizer brings its own allocator: then only system calls fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "unit/rdma/shm_util.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ALLOCATOR_IS_FOREIGN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOCATOR_IS_FOREIGN 1
#endif

static bool counting;
static unsigned calls;
static unsigned fail_at; /* 0: none */

/* turn -- this call is the one to fail */
static bool turn(int error)
{
	if (!counting || ++calls != fail_at)
		return false;
	errno = error;
	return true;
}

#ifndef ALLOCATOR_IS_FOREIGN
void *__libc_calloc(size_t count, size_t bytes); /* NOLINT: the C library's own */

void *calloc(size_t count, size_t bytes)
{
	return turn(ENOMEM) ? NULL : __libc_calloc(count, bytes);
}
#endif

int eventfd(unsigned count, int flags)
{
	return turn(EMFILE) ? -1 : (int)syscall(SYS_eventfd2, count, flags);
}

int memfd_create(const char *name, unsigned flags)
{
	return turn(ENFILE) ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}

int epoll_create1(int flags)
{
	return turn(EMFILE) ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

int epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
	return turn(ENOSPC) ? -1 : (int)syscall(SYS_epoll_ctl, epoll_fd, op, fd, event);
}

int timerfd_create(int clock, int flags)
{
	return turn(EMFILE) ? -1 : (int)syscall(SYS_timerfd_create, clock, flags);
}

int socket(int domain, int type, int protocol)
{
	return turn(ENOBUFS) ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}

int listen(int sock, int backlog)
{
	return turn(EADDRINUSE) ? -1 : (int)syscall(SYS_listen, sock, backlog);
}

int accept4(int sock, __SOCKADDR_ARG addr, socklen_t *restrict bytes, int flags)
{
	return turn(EMFILE) ? -1 : (int)syscall(SYS_accept4, sock, addr.__sockaddr__, bytes, flags);
}

int ftruncate(int fd, off_t bytes)
{
	return turn(ENOSPC) ? -1 : (int)syscall(SYS_ftruncate, fd, bytes);
}

int fallocate(int fd, int mode, off_t off, off_t bytes)
{
	return turn(ENOSPC) ? -1 : (int)syscall(SYS_fallocate, fd, mode, off, bytes);
}

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t off)
{
	if (turn(ENOMEM))
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, off);
}

/* mappings -- of memfds, in this process */
static unsigned mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned count = 0;
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL)
		count += strstr(line, "/memfd:outlast") != NULL;
	fclose(file);
	return count;
}

/* A life of two ends: what there is of it so far. */
struct life {
	struct ol_xport *a;
	struct ol_xport *b;
	struct ol_slab *slab;
	struct ol_xport_region *regions[2];
	struct ol_xport_conn *a_conn;
	struct ol_xport_conn *b_conn;
	unsigned ups;
	bool down;
};

/* take_in -- the events of one end */
static void take_in(struct life *life, struct ol_xport *xport)
{
	struct ol_xport_event event;

	while (X->poll(xport, &event, 1) > 0) {
		life->ups += event.type == OL_XPORT_CONN_UP;
		life->down |= event.type == OL_XPORT_CONN_DOWN;
		if (event.type != OL_XPORT_CONN_REQUEST)
			continue;
		life->a_conn = event.conn;
		if (X->accept(event.conn, NULL, 0) == 0)
			continue;
		X->reject(event.conn, NULL, 0);
		life->a_conn = NULL;
	}
}

/* live -- true if it got to the end; whatever fails, it ends in time */
static bool live(struct life *life)
{
	uint64_t until = test_now_ms() + WAIT_S * 1000;
	struct ol_xport_opts opts;
	char addr[OL_XPORT_ADDR_MAX];

	ol_xport_opts_init(&opts);
	opts.connect_timeout_ms = 50;
	if (X->open(&opts, &life->a) != 0 || X->open(&opts, &life->b) != 0 ||
	    X->listen(life->a, "@", addr) != 0 ||
	    ol_slab_create(16384, OL_SLAB_NODE_ANY, false, &life->slab) != 0 ||
	    X->reg(life->a, NULL, life->slab, 0, 8192, RW, &life->regions[0]) != 0 ||
	    X->reg(life->b, NULL, life->slab, 8192, 8192, OL_XPORT_ACCESS_PEER_READ,
		   &life->regions[1]) != 0 ||
	    X->connect(life->b, addr, NULL, 0, NULL, &life->b_conn) != 0)
		return false;
	while (life->ups < 2 && !life->down) {
		assert_true(test_now_ms() < until);
		take_in(life, life->a);
		take_in(life, life->b);
	}
	if (life->down)
		return false;
	return put(life->b_conn, X->rkey(life->regions[0], NULL), 0, "x", 1) == 0 &&
	       *(const char *)life->slab->addr == 'x';
}

static void bury(struct life *life)
{
	if (life->b_conn != NULL)
		X->conn_free(life->b_conn);
	X->dereg(life->regions[0]);
	X->dereg(life->regions[1]);
	if (life->b != NULL)
		X->close(life->b);
	if (life->a != NULL)
		X->close(life->a);
	ol_slab_destroy(life->slab);
}

static void whatever_fails_everything_is_given_back(void **state)
{
	unsigned before = fds_count();
	struct life life;
	bool whole;

	(void)state;
	assert_int_equal(mappings(), 0);
	for (fail_at = 1; fail_at < 1000; fail_at++) {
		life = (struct life){ .a = NULL };
		calls = 0;
		counting = true;
		whole = live(&life);
		bury(&life);
		counting = false;
		assert_int_equal(fds_count(), before);
		assert_int_equal(mappings(), 0);
		if (calls < fail_at) /* nothing failed: every call has had its turn */
			break;
	}
	assert_true(whole);
	assert_true(fail_at > 20);
	print_message("%u calls failed in turn\n", fail_at - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_fails_everything_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
