/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * fail.h -- calls of the system and of libraries that fail on demand
 *
 * The linker sends the calls below to wrap.c and wrap_verbs.c (-Wl,--wrap; CMake takes the list from
 * there). A fault is a call and one way to fail. While armed, each call counts once for every fault
 * that it has, and the n-th of one fault fails.
 *
 * Calls inside of shared libraries (libc, libibverbs …) are not caught: their failure counts as a
 * fault of the call into the library.
 *
 * Not here, as they fail only by a mistake of ours: close, munmap, timerfd_settime, epoll_ctl for
 * descriptors in the epoll, a mutex, a condition, a semaphore.
 */
#ifndef OL_TESTS_NTH_FRAME_FAIL_H
#define OL_TESTS_NTH_FRAME_FAIL_H

#include <errno.h>
#include <stdbool.h>

/* In place of an errno: the call does half of what it was asked for; or it has codes of its own */
enum {
	FAIL_SHORT = -1,
	FAIL_OWN = -2,
};

/* name of the fault, call, errno; often: 1 if it is called as often as something happens */
#define FAIL_MAP(X) \
	X(MALLOC, "malloc", ENOMEM, 0) \
	X(CALLOC, "calloc", ENOMEM, 0) \
	X(REALLOC, "realloc", ENOMEM, 0) \
	X(REALLOCARRAY, "reallocarray", ENOMEM, 0) \
	X(ALIGNED_ALLOC, "aligned_alloc", ENOMEM, 0) \
	X(STRDUP, "strdup", ENOMEM, 0) \
	X(STRNDUP, "strndup", ENOMEM, 0) \
	X(ASPRINTF, "asprintf", ENOMEM, 0) \
	X(VASPRINTF, "vasprintf", ENOMEM, 0) \
	X(MMAP, "mmap", ENOMEM, 0) \
	X(MADVISE, "madvise", ENOMEM, 0) \
	X(MEMFD_CREATE, "memfd_create", EMFILE, 0) \
	X(FTRUNCATE, "ftruncate", ENOSPC, 0) \
	X(FALLOCATE, "fallocate", ENOSPC, 0) \
	X(FCNTL, "fcntl", EMFILE, 0) \
	X(FSTAT, "fstat", EIO, 0) \
	X(LSTAT, "lstat", EACCES, 0) \
	X(ACCESS, "faccessat", EACCES, 0) \
	X(OPEN, "open", EMFILE, 0) \
	X(OPENAT, "openat", EMFILE, 0) \
	X(FOPEN, "fopen", EMFILE, 0) \
	X(FDOPENDIR, "fdopendir", ENOMEM, 0) \
	X(OPENDIR, "opendir", EMFILE, 0) \
	X(READDIR, "readdir", EIO, 0) \
	X(FREAD, "fread", EIO, 0) \
	X(FGETS, "fgets", EIO, 1) \
	X(FWRITE, "fwrite", ENOSPC, 0) \
	X(FCLOSE, "fclose", ENOSPC, 0) \
	X(READ, "read", EIO, 1) \
	X(READ_EINTR, "read", EINTR, 1) \
	X(WRITE, "write", ENOSPC, 1) \
	X(WRITE_EINTR, "write", EINTR, 1) \
	X(WRITE_SHORT, "write", FAIL_SHORT, 1) \
	X(PWRITE, "pwrite", ENOSPC, 0) \
	X(PWRITE_EINTR, "pwrite", EINTR, 0) \
	X(PWRITE_SHORT, "pwrite", FAIL_SHORT, 0) \
	X(PREAD, "pread", EIO, 0) \
	X(PREAD_EINTR, "pread", EINTR, 0) \
	X(PREAD_SHORT, "pread", FAIL_SHORT, 0) \
	X(FSYNC, "fsync", EIO, 0) \
	X(FSYNC_EINTR, "fsync", EINTR, 0) \
	X(RENAMEAT, "renameat", EIO, 0) \
	X(RENAME, "rename", EIO, 0) \
	X(UNLINK, "unlink", EACCES, 0) \
	X(UNLINKAT, "unlinkat", EACCES, 0) \
	X(MKDIR, "mkdir", EACCES, 0) \
	X(FLOCK, "flock", EINTR, 0) \
	X(INOTIFY_INIT, "inotify_init1", EMFILE, 0) \
	X(INOTIFY_WATCH, "inotify_add_watch", ENOSPC, 0) \
	X(LINKAT, "linkat", ENOSPC, 0) \
	X(MKDIRAT, "mkdirat", ENOSPC, 0) \
	X(CLOSE_RANGE, "close_range", ENOMEM, 0) \
	X(SOCKET, "socket", EMFILE, 0) \
	X(BIND, "bind", ENOMEM, 0) \
	X(LISTEN, "listen", EADDRINUSE, 0) \
	X(GETSOCKNAME, "getsockname", ENOBUFS, 0) \
	X(GETSOCKOPT, "getsockopt", ENOBUFS, 0) \
	X(SETSOCKOPT, "setsockopt", ENOBUFS, 0) \
	X(GETADDRINFO, "getaddrinfo", FAIL_OWN, 0) \
	X(GETIFADDRS, "getifaddrs", ENOMEM, 0) \
	X(ACCEPT, "accept4", EMFILE, 1) \
	X(ACCEPT_ENOMEM, "accept4", ENOMEM, 1) \
	X(ACCEPT_ECONNABORTED, "accept4", ECONNABORTED, 1) \
	X(CONNECT, "connect", ECONNREFUSED, 0) \
	X(CONNECT_EINTR, "connect", EINTR, 0) \
	X(CONNECT_EAGAIN, "connect", EAGAIN, 0) \
	X(SENDMSG, "sendmsg", ENOBUFS, 1) \
	X(SENDMSG_ENOMEM, "sendmsg", ENOMEM, 1) \
	X(SENDMSG_EINTR, "sendmsg", EINTR, 1) \
	X(RECVMSG, "recvmsg", ENOMEM, 1) \
	X(RECVMSG_EINTR, "recvmsg", EINTR, 1) \
	X(SEND, "send", EPIPE, 1) \
	X(SEND_EINTR, "send", EINTR, 1) \
	X(SEND_SHORT, "send", FAIL_SHORT, 1) \
	X(RECV, "recv", ECONNRESET, 1) \
	X(RECV_EINTR, "recv", EINTR, 1) \
	X(RECV_SHORT, "recv", FAIL_SHORT, 1) \
	X(EPOLL_CREATE1, "epoll_create1", EMFILE, 0) \
	X(EPOLL_CTL, "epoll_ctl", ENOMEM, 0) \
	X(EPOLL_WAIT, "epoll_wait", EINTR, 1) \
	X(POLL, "poll", EINTR, 1) \
	X(PPOLL, "ppoll", EINTR, 1) \
	X(EVENTFD, "eventfd", EMFILE, 0) \
	X(TIMERFD_CREATE, "timerfd_create", EMFILE, 0) \
	X(SIGNALFD, "signalfd", EMFILE, 0) \
	X(PIPE, "pipe", EMFILE, 0) \
	X(SOCKETPAIR, "socketpair", EMFILE, 0) \
	X(GETRANDOM, "getrandom", ENOSYS, 0) \
	X(PTHREAD_CREATE, "pthread_create", EAGAIN, 0) \
	X(HMAC, "HMAC", FAIL_OWN, 0) \
	X(EVP_DIGEST, "EVP_Digest", FAIL_OWN, 0) \
	X(INFLATE_INIT, "inflateInit2", FAIL_OWN, 0) \
	X(IBV_GET_DEVICE_LIST, "ibv_get_device_list", ENOMEM, 0) \
	X(IBV_OPEN_DEVICE, "ibv_open_device", EMFILE, 0) \
	X(IBV_QUERY_DEVICE, "ibv_query_device", EIO, 0) \
	X(IBV_QUERY_PORT, "ibv_query_port", EIO, 0) \
	X(IBV_QUERY_QP, "ibv_query_qp", EIO, 0) \
	X(IBV_ALLOC_PD, "ibv_alloc_pd", ENOMEM, 0) \
	X(IBV_REG_MR, "ibv_reg_mr", ENOMEM, 0) \
	X(IBV_CREATE_COMP_CHANNEL, "ibv_create_comp_channel", EMFILE, 0) \
	X(IBV_CREATE_CQ, "ibv_create_cq", ENOMEM, 0) \
	X(IBV_CREATE_SRQ, "ibv_create_srq", ENOMEM, 0) \
	X(IBV_CREATE_QP, "ibv_create_qp", ENOMEM, 0) \
	X(IBV_MODIFY_QP, "ibv_modify_qp", EINVAL, 0) \
	X(IBV_POST_SRQ_RECV, "ibv_post_srq_recv", ENOMEM, 1) \
	X(IBV_POST_SEND, "ibv_post_send", ENOMEM, 1) \
	X(IBV_REQ_NOTIFY_CQ, "ibv_req_notify_cq", EIO, 1) \
	X(RDMA_CREATE_EVENT_CHANNEL, "rdma_create_event_channel", EMFILE, 0) \
	X(RDMA_CREATE_ID, "rdma_create_id", ENOMEM, 0) \
	X(RDMA_BIND_ADDR, "rdma_bind_addr", EADDRNOTAVAIL, 0) \
	X(RDMA_LISTEN, "rdma_listen", EADDRINUSE, 0) \
	X(RDMA_RESOLVE_ADDR, "rdma_resolve_addr", EADDRNOTAVAIL, 0) \
	X(RDMA_RESOLVE_ROUTE, "rdma_resolve_route", ENOMEM, 0) \
	X(RDMA_INIT_QP_ATTR, "rdma_init_qp_attr", ENOMEM, 0) \
	X(RDMA_CONNECT, "rdma_connect", ENOMEM, 0) \
	X(RDMA_ACCEPT, "rdma_accept", ENOMEM, 0) \
	X(RDMA_ESTABLISH, "rdma_establish", ENOMEM, 0) \
	X(RDMA_REJECT, "rdma_reject", ENOMEM, 0) \
	X(RDMA_DISCONNECT, "rdma_disconnect", EINVAL, 0) \
	X(RDMA_GET_CM_EVENT, "rdma_get_cm_event", ENOMEM, 1)

enum fail_fault {
#define X(name, call, error, often) FAIL_##name,
	FAIL_MAP(X)
#undef X
	FAIL_FAULTS
};

/* What a run saw. */
struct fail_seen {
	unsigned counts[FAIL_FAULTS]; /* calls while armed */
	bool failed; /* one was made to fail */
};

/* fail_arm -- count from now on, in all threads; the n-th of fault fails (n 0: none), and with
 * `all` each after it */
void fail_arm(enum fail_fault fault, unsigned n, bool all);
/* fail_disarm -- no longer; what was seen. No other thread may be in a call still. */
struct fail_seen fail_disarm(void);

const char *fail_call(enum fail_fault fault);
/* fail_how -- "ENOMEM", "short" … */
const char *fail_how(enum fail_fault fault);
bool fail_often(enum fail_fault fault);

/* fail_now -- for wraps: true if this call must fail so; errno is set then */
bool fail_now(enum fail_fault fault);

#endif /* OL_TESTS_NTH_FRAME_FAIL_H */
