/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * wrap.c -- wraps every call of fail.h, except those of verbs, and lets it fail in its turn
 *
 * CMake makes --wrap=NAME of every line that begins with WRAP.
 */

#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "nth/frame/fail.h"
#include "support/wrap.h"

WRAP(void *, malloc, size_t bytes)
{
	if (fail_now(FAIL_MALLOC))
		return NULL;
	return __real_malloc(bytes);
}

WRAP(void *, calloc, size_t count, size_t bytes)
{
	if (fail_now(FAIL_CALLOC))
		return NULL;
	return __real_calloc(count, bytes);
}

WRAP(void *, realloc, void *at, size_t bytes)
{
	if (fail_now(FAIL_REALLOC))
		return NULL;
	return __real_realloc(at, bytes);
}

WRAP(void *, reallocarray, void *at, size_t count, size_t bytes)
{
	if (fail_now(FAIL_REALLOCARRAY))
		return NULL;
	return __real_reallocarray(at, count, bytes);
}

WRAP(void *, aligned_alloc, size_t align, size_t bytes)
{
	if (fail_now(FAIL_ALIGNED_ALLOC))
		return NULL;
	return __real_aligned_alloc(align, bytes);
}

WRAP(char *, strdup, const char *text)
{
	if (fail_now(FAIL_STRDUP))
		return NULL;
	return __real_strdup(text);
}

WRAP(char *, strndup, const char *text, size_t max)
{
	if (fail_now(FAIL_STRNDUP))
		return NULL;
	return __real_strndup(text, max);
}

WRAP(int, vasprintf, char **ret_text, const char *format, va_list args)
{
	if (fail_now(FAIL_VASPRINTF))
		return -1;
	return __real_vasprintf(ret_text, format, args);
}

WRAP(int, asprintf, char **ret_text, const char *format, ...)
{
	va_list args;
	int rc;

	if (fail_now(FAIL_ASPRINTF))
		return -1;
	va_start(args, format);
	rc = __real_vasprintf(ret_text, format, args);
	va_end(args);
	return rc;
}

WRAP(void *, mmap, void *at, size_t bytes, int prot, int flags, int fd, off_t off)
{
	if (fail_now(FAIL_MMAP))
		return MAP_FAILED;
	return __real_mmap(at, bytes, prot, flags, fd, off);
}

WRAP(int, madvise, void *at, size_t bytes, int advice)
{
	if (fail_now(FAIL_MADVISE))
		return -1;
	return __real_madvise(at, bytes, advice);
}

WRAP(int, memfd_create, const char *name, unsigned flags)
{
	if (fail_now(FAIL_MEMFD_CREATE))
		return -1;
	return __real_memfd_create(name, flags);
}

WRAP(int, ftruncate, int fd, off_t bytes)
{
	if (fail_now(FAIL_FTRUNCATE))
		return -1;
	return __real_ftruncate(fd, bytes);
}

WRAP(int, fallocate, int fd, int mode, off_t off, off_t bytes)
{
	if (fail_now(FAIL_FALLOCATE))
		return -1;
	return __real_fallocate(fd, mode, off, bytes);
}

/* The commands that need memory, a descriptor, or something of a file. */
WRAP(int, fcntl, int fd, int command, ...)
{
	va_list args;
	void *arg;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	if ((command == F_DUPFD_CLOEXEC || command == F_ADD_SEALS || command == F_OFD_SETLK ||
	     command == F_OFD_GETLK) &&
	    fail_now(FAIL_FCNTL))
		return -1;
	return __real_fcntl(fd, command, arg);
}

WRAP(int, fstat, int fd, struct stat *stat)
{
	if (fail_now(FAIL_FSTAT))
		return -1;
	return __real_fstat(fd, stat);
}

WRAP(int, lstat, const char *path, struct stat *stat)
{
	if (fail_now(FAIL_LSTAT))
		return -1;
	return __real_lstat(path, stat);
}

WRAP(int, faccessat, int dir_fd, const char *path, int mode, int flags)
{
	if (fail_now(FAIL_ACCESS))
		return -1;
	return __real_faccessat(dir_fd, path, mode, flags);
}

/* mode -- what follows the flags of an open that may make a file */
static mode_t mode_of(int flags, va_list args)
{
	return (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
}

WRAP(int, open, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return fail_now(FAIL_OPEN) ? -1 : __real_open(path, flags, mode);
}

WRAP(int, openat, int dir_fd, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return fail_now(FAIL_OPENAT) ? -1 : __real_openat(dir_fd, path, flags, mode);
}

WRAP(FILE *, fopen, const char *path, const char *mode)
{
	if (fail_now(FAIL_FOPEN))
		return NULL;
	return __real_fopen(path, mode);
}

WRAP(DIR *, fdopendir, int fd)
{
	if (fail_now(FAIL_FDOPENDIR))
		return NULL;
	return __real_fdopendir(fd);
}

WRAP(DIR *, opendir, const char *path)
{
	if (fail_now(FAIL_OPENDIR))
		return NULL;
	return __real_opendir(path);
}

WRAP(struct dirent *, readdir, DIR *stream)
{
	if (fail_now(FAIL_READDIR))
		return NULL;
	return __real_readdir(stream);
}

/* read_error -- the mark that ferror() tells: nobody writes to a stream that is read */
static void read_error(FILE *stream)
{
	(void)fputc(0, stream);
	errno = EIO;
}

WRAP(size_t, fread, void *at, size_t bytes, size_t count, FILE *stream)
{
	if (!fail_now(FAIL_FREAD))
		return __real_fread(at, bytes, count, stream);
	read_error(stream);
	return 0;
}

WRAP(char *, fgets, char *line, int bytes, FILE *stream)
{
	if (!fail_now(FAIL_FGETS))
		return __real_fgets(line, bytes, stream);
	read_error(stream);
	return NULL;
}

WRAP(size_t, fwrite, const void *at, size_t bytes, size_t count, FILE *stream)
{
	if (fail_now(FAIL_FWRITE))
		return 0;
	return __real_fwrite(at, bytes, count, stream);
}

/* Closed all the same, as by the real one. */
WRAP(int, fclose, FILE *stream)
{
	bool fails = fail_now(FAIL_FCLOSE);
	int rc = __real_fclose(stream);

	if (!fails)
		return rc;
	errno = ENOSPC;
	return EOF;
}

WRAP(ssize_t, read, int fd, void *at, size_t bytes)
{
	if (fail_now(FAIL_READ) || fail_now(FAIL_READ_EINTR))
		return -1;
	return __real_read(fd, at, bytes);
}

/* An eventfd takes all 8 bytes or none. */
WRAP(ssize_t, write, int fd, const void *at, size_t bytes)
{
	if (fail_now(FAIL_WRITE) || fail_now(FAIL_WRITE_EINTR))
		return -1;
	if (bytes > 8 && fail_now(FAIL_WRITE_SHORT))
		bytes /= 2;
	return __real_write(fd, at, bytes);
}

WRAP(ssize_t, pwrite, int fd, const void *at, size_t bytes, off_t off)
{
	if (fail_now(FAIL_PWRITE) || fail_now(FAIL_PWRITE_EINTR))
		return -1;
	if (bytes > 8 && fail_now(FAIL_PWRITE_SHORT))
		bytes /= 2;
	return __real_pwrite(fd, at, bytes, off);
}

WRAP(ssize_t, pread, int fd, void *at, size_t bytes, off_t off)
{
	if (fail_now(FAIL_PREAD) || fail_now(FAIL_PREAD_EINTR))
		return -1;
	if (bytes > 1 && fail_now(FAIL_PREAD_SHORT))
		bytes /= 2;
	return __real_pread(fd, at, bytes, off);
}

WRAP(int, fsync, int fd)
{
	if (fail_now(FAIL_FSYNC) || fail_now(FAIL_FSYNC_EINTR))
		return -1;
	return __real_fsync(fd);
}

WRAP(int, renameat, int from_fd, const char *from, int to_fd, const char *to)
{
	if (fail_now(FAIL_RENAMEAT))
		return -1;
	return __real_renameat(from_fd, from, to_fd, to);
}

WRAP(int, rename, const char *from, const char *to)
{
	if (fail_now(FAIL_RENAME))
		return -1;
	return __real_rename(from, to);
}

WRAP(int, unlink, const char *path)
{
	if (fail_now(FAIL_UNLINK))
		return -1;
	return __real_unlink(path);
}

WRAP(int, unlinkat, int dir_fd, const char *path, int flags)
{
	if (fail_now(FAIL_UNLINKAT))
		return -1;
	return __real_unlinkat(dir_fd, path, flags);
}

WRAP(int, mkdir, const char *path, mode_t mode)
{
	if (fail_now(FAIL_MKDIR))
		return -1;
	return __real_mkdir(path, mode);
}

WRAP(int, inotify_init1, int flags)
{
	if (fail_now(FAIL_INOTIFY_INIT))
		return -1;
	return __real_inotify_init1(flags);
}

WRAP(int, inotify_add_watch, int fd, const char *path, uint32_t mask)
{
	if (fail_now(FAIL_INOTIFY_WATCH))
		return -1;
	return __real_inotify_add_watch(fd, path, mask);
}

WRAP(int, linkat, int from_fd, const char *from, int to_fd, const char *to, int flags)
{
	if (fail_now(FAIL_LINKAT))
		return -1;
	return __real_linkat(from_fd, from, to_fd, to, flags);
}

WRAP(int, mkdirat, int dir_fd, const char *path, mode_t mode)
{
	if (fail_now(FAIL_MKDIRAT))
		return -1;
	return __real_mkdirat(dir_fd, path, mode);
}

WRAP(int, close_range, unsigned first, unsigned last, int flags)
{
	if (fail_now(FAIL_CLOSE_RANGE))
		return -1;
	return __real_close_range(first, last, flags);
}

WRAP(int, flock, int fd, int operation)
{
	if (fail_now(FAIL_FLOCK))
		return -1;
	return __real_flock(fd, operation);
}

WRAP(int, socket, int family, int type, int protocol)
{
	if (fail_now(FAIL_SOCKET))
		return -1;
	return __real_socket(family, type, protocol);
}

WRAP(int, bind, int fd, const struct sockaddr *at, socklen_t bytes)
{
	if (fail_now(FAIL_BIND))
		return -1;
	return __real_bind(fd, at, bytes);
}

WRAP(int, listen, int fd, int backlog)
{
	if (fail_now(FAIL_LISTEN))
		return -1;
	return __real_listen(fd, backlog);
}

WRAP(int, getsockname, int fd, struct sockaddr *at, socklen_t *bytes)
{
	if (fail_now(FAIL_GETSOCKNAME))
		return -1;
	return __real_getsockname(fd, at, bytes);
}

WRAP(int, getsockopt, int fd, int level, int option, void *at, socklen_t *bytes)
{
	if (fail_now(FAIL_GETSOCKOPT))
		return -1;
	return __real_getsockopt(fd, level, option, at, bytes);
}

WRAP(int, setsockopt, int fd, int level, int option, const void *at, socklen_t bytes)
{
	if (fail_now(FAIL_SETSOCKOPT))
		return -1;
	return __real_setsockopt(fd, level, option, at, bytes);
}

WRAP(int, getaddrinfo, const char *host, const char *port, const struct addrinfo *hints,
     struct addrinfo **ret_list)
{
	if (fail_now(FAIL_GETADDRINFO))
		return EAI_MEMORY;
	return __real_getaddrinfo(host, port, hints, ret_list);
}

WRAP(int, getifaddrs, struct ifaddrs **ret_list)
{
	if (fail_now(FAIL_GETIFADDRS))
		return -1;
	return __real_getifaddrs(ret_list);
}

WRAP(int, accept4, int fd, struct sockaddr *at, socklen_t *bytes, int flags)
{
	if (fail_now(FAIL_ACCEPT) || fail_now(FAIL_ACCEPT_ENOMEM) ||
	    fail_now(FAIL_ACCEPT_ECONNABORTED))
		return -1;
	return __real_accept4(fd, at, bytes, flags);
}

WRAP(int, connect, int fd, const struct sockaddr *at, socklen_t bytes)
{
	if (fail_now(FAIL_CONNECT) || fail_now(FAIL_CONNECT_EINTR) || fail_now(FAIL_CONNECT_EAGAIN))
		return -1;
	return __real_connect(fd, at, bytes);
}

WRAP(ssize_t, sendmsg, int fd, const struct msghdr *msg, int flags)
{
	if (fail_now(FAIL_SENDMSG) || fail_now(FAIL_SENDMSG_ENOMEM) || fail_now(FAIL_SENDMSG_EINTR))
		return -1;
	return __real_sendmsg(fd, msg, flags);
}

WRAP(ssize_t, recvmsg, int fd, struct msghdr *msg, int flags)
{
	if (fail_now(FAIL_RECVMSG) || fail_now(FAIL_RECVMSG_EINTR))
		return -1;
	return __real_recvmsg(fd, msg, flags);
}

WRAP(ssize_t, send, int fd, const void *at, size_t bytes, int flags)
{
	if (fail_now(FAIL_SEND) || fail_now(FAIL_SEND_EINTR))
		return -1;
	if (bytes > 1 && fail_now(FAIL_SEND_SHORT))
		bytes /= 2;
	return __real_send(fd, at, bytes, flags);
}

WRAP(ssize_t, recv, int fd, void *at, size_t bytes, int flags)
{
	if (fail_now(FAIL_RECV) || fail_now(FAIL_RECV_EINTR))
		return -1;
	if (bytes > 1 && fail_now(FAIL_RECV_SHORT))
		bytes /= 2;
	return __real_recv(fd, at, bytes, flags);
}

WRAP(int, epoll_create1, int flags)
{
	if (fail_now(FAIL_EPOLL_CREATE1))
		return -1;
	return __real_epoll_create1(flags);
}

WRAP(int, epoll_ctl, int epoll_fd, int operation, int fd, struct epoll_event *event)
{
	if (operation == EPOLL_CTL_ADD && fail_now(FAIL_EPOLL_CTL))
		return -1;
	return __real_epoll_ctl(epoll_fd, operation, fd, event);
}

WRAP(int, epoll_wait, int fd, struct epoll_event *events, int max, int timeout_ms)
{
	if (fail_now(FAIL_EPOLL_WAIT))
		return -1;
	return __real_epoll_wait(fd, events, max, timeout_ms);
}

WRAP(int, poll, struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (fail_now(FAIL_POLL))
		return -1;
	return __real_poll(fds, count, timeout_ms);
}

WRAP(int, ppoll, struct pollfd *fds, nfds_t count, const struct timespec *timeout,
     const sigset_t *mask)
{
	if (fail_now(FAIL_PPOLL))
		return -1;
	return __real_ppoll(fds, count, timeout, mask);
}

WRAP(int, eventfd, unsigned count, int flags)
{
	if (fail_now(FAIL_EVENTFD))
		return -1;
	return __real_eventfd(count, flags);
}

WRAP(int, timerfd_create, clockid_t clock, int flags)
{
	if (fail_now(FAIL_TIMERFD_CREATE))
		return -1;
	return __real_timerfd_create(clock, flags);
}

WRAP(int, signalfd, int fd, const sigset_t *mask, int flags)
{
	if (fail_now(FAIL_SIGNALFD))
		return -1;
	return __real_signalfd(fd, mask, flags);
}

WRAP(int, pipe, int fds[2])
{
	if (fail_now(FAIL_PIPE))
		return -1;
	return __real_pipe(fds);
}

WRAP(int, socketpair, int family, int type, int protocol, int fds[2])
{
	if (fail_now(FAIL_SOCKETPAIR))
		return -1;
	return __real_socketpair(family, type, protocol, fds);
}

WRAP(ssize_t, getrandom, void *at, size_t bytes, unsigned flags)
{
	if (fail_now(FAIL_GETRANDOM))
		return -1;
	return __real_getrandom(at, bytes, flags);
}

WRAP(int, pthread_create, pthread_t *ret_thread, const pthread_attr_t *attr, void *(*fn)(void *),
     void *arg)
{
	if (fail_now(FAIL_PTHREAD_CREATE))
		return EAGAIN;
	return __real_pthread_create(ret_thread, attr, fn, arg);
}

WRAP(unsigned char *, HMAC, const EVP_MD *md, const void *key, int key_bytes,
     const unsigned char *at, size_t bytes, unsigned char *ret_mac, unsigned *ret_bytes)
{
	if (fail_now(FAIL_HMAC))
		return NULL;
	return __real_HMAC(md, key, key_bytes, at, bytes, ret_mac, ret_bytes);
}

WRAP(int, EVP_Digest, const void *at, size_t bytes, unsigned char *ret_digest, unsigned *ret_bytes,
     const EVP_MD *md, ENGINE *engine)
{
	if (fail_now(FAIL_EVP_DIGEST))
		return 0;
	return __real_EVP_Digest(at, bytes, ret_digest, ret_bytes, md, engine);
}

WRAP(int, inflateInit2_, z_streamp stream, int bits, const char *version, int bytes)
{
	if (fail_now(FAIL_INFLATE_INIT))
		return Z_MEM_ERROR;
	return __real_inflateInit2_(stream, bits, version, bytes);
}
