/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chk.c -- where a build checks the sizes of buffers (_FORTIFY_SOURCE), glibc's headers turn a call of
 * poll() into one of __poll_chk(), which a test that stands in for poll() would never see
 *
 * ol_wraps() in CMakeLists.txt sends those here, and from here they go on by their own names. A name
 * that a test replaces, that has such a twin, and that is missing here, ends the linker's run.
 */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t bytes);
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t bytes)
{
	(void)bytes;
	return poll(fds, count, timeout);
}

int __wrap___ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		       const sigset_t *mask, size_t bytes);
int __wrap___ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		       const sigset_t *mask, size_t bytes)
{
	(void)bytes;
	return ppoll(fds, count, timeout, mask);
}

ssize_t __wrap___read_chk(int fd, void *into, size_t bytes, size_t room);
ssize_t __wrap___read_chk(int fd, void *into, size_t bytes, size_t room)
{
	(void)room;
	return read(fd, into, bytes);
}

ssize_t __wrap___pread_chk(int fd, void *into, size_t bytes, off_t off, size_t room);
ssize_t __wrap___pread_chk(int fd, void *into, size_t bytes, off_t off, size_t room)
{
	(void)room;
	return pread(fd, into, bytes, off);
}

ssize_t __wrap___recv_chk(int fd, void *into, size_t bytes, size_t room, int flags);
ssize_t __wrap___recv_chk(int fd, void *into, size_t bytes, size_t room, int flags)
{
	(void)room;
	return recv(fd, into, bytes, flags);
}

size_t __wrap___fread_chk(void *into, size_t room, size_t bytes, size_t count, FILE *file);
size_t __wrap___fread_chk(void *into, size_t room, size_t bytes, size_t count, FILE *file)
{
	(void)room;
	return fread(into, bytes, count, file);
}

int __wrap___vasprintf_chk(char **text, int flag, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));
int __wrap___vasprintf_chk(char **text, int flag, const char *format, va_list args)
{
	(void)flag;
	return vasprintf(text, format, args);
}

int __wrap___asprintf_chk(char **text, int flag, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int __wrap___asprintf_chk(char **text, int flag, const char *format, ...)
{
	va_list args;
	int rc;

	(void)flag;
	va_start(args, format);
	rc = vasprintf(text, format, args);
	va_end(args);
	return rc;
}
