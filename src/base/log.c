/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * log.c -- threshold, sink, and the line on stderr
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	STAMP_MAX = 48 /* bytes of time and level before the text */
};

atomic_int ol_log_max = OL_LOG_INFO;

static void sink_stderr(void *ctx, enum ol_log_level level, const char *text);

/*
 * A thread that writes a line reads log_sink and log_ctx under the lock, and holds it while the
 * sink runs. So after a change no thread is in the former sink. Readers go first, which is glibc's
 * default, so a sink that logs does not wait for itself.
 */
static pthread_rwlock_t log_lock = PTHREAD_RWLOCK_INITIALIZER;
static _Thread_local unsigned log_depth; /* how often this thread holds it: a sink may log */
static pthread_mutex_t time_lock = PTHREAD_MUTEX_INITIALIZER;
static ol_log_fn log_sink = sink_stderr;
static void *log_ctx;

/* During a fork no thread changes the sink or is in localtime_r() */
static void before_fork(void)
{
	pthread_rwlock_rdlock(&log_lock);
	pthread_mutex_lock(&time_lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&time_lock);
	pthread_rwlock_unlock(&log_lock);
}

/* The parent's other threads do not exist here: drop the locks that they hold, keep this thread's */
static void in_child(void)
{
	pthread_mutex_unlock(&time_lock);
	pthread_rwlock_unlock(&log_lock);
	log_lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
	for (unsigned i = 0; i < log_depth; i++)
		pthread_rwlock_rdlock(&log_lock);
}

/* Registered before the program's own handlers, so that those run while no lock is held */
__attribute__((constructor)) static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, in_parent, in_child); /* fails only if memory is short */
}

void ol_log_level_set(enum ol_log_level level)
{
	atomic_store_explicit(&ol_log_max, (int)level, memory_order_relaxed);
}

enum ol_log_level ol_log_level_get(void)
{
	return (enum ol_log_level)atomic_load_explicit(&ol_log_max, memory_order_relaxed);
}

const char *ol_log_level_str(enum ol_log_level level)
{
	switch (level) {
	case OL_LOG_ERROR:
		return "error";
	case OL_LOG_WARN:
		return "warn";
	case OL_LOG_INFO:
		return "info";
	case OL_LOG_DEBUG:
		return "debug";
	}
	return "?";
}

int ol_log_level_parse(const char *text, enum ol_log_level *ret_level)
{
	for (int i = OL_LOG_ERROR; i <= OL_LOG_DEBUG; i++) {
		if (strcmp(text, ol_log_level_str((enum ol_log_level)i)) == 0) {
			*ret_level = (enum ol_log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void ol_log_sink_set(ol_log_fn sink, void *ctx)
{
	pthread_rwlock_wrlock(&log_lock);
	log_sink = sink != NULL ? sink : sink_stderr;
	log_ctx = ctx;
	pthread_rwlock_unlock(&log_lock);
}

int ol_log_set(ol_log_fn sink, enum ol_log_level level, void *ctx)
{
	if ((unsigned)level > OL_LOG_DEBUG)
		return -EINVAL;
	ol_log_sink_set(sink, ctx);
	ol_log_level_set(level);
	return 0;
}

/*
 * A write to a pipe without a reader, or to a file at its size limit, raises a signal that ends the
 * process. So the thread blocks the signal and consumes it: only the line is lost.
 */
static void write_unsignalled(const char *out, size_t len)
{
	const struct timespec now = { 0 };
	sigset_t raised, before, pending;

	sigemptyset(&raised);
	sigaddset(&raised, SIGPIPE);
	sigaddset(&raised, SIGXFSZ);
	sigpending(&pending); /* these stay pending for the caller */
	pthread_sigmask(SIG_BLOCK, &raised, &before);
	if (write(STDERR_FILENO, out, len) < 0) {
		if (sigismember(&pending, SIGPIPE) == 1)
			sigdelset(&raised, SIGPIPE);
		if (sigismember(&pending, SIGXFSZ) == 1)
			sigdelset(&raised, SIGXFSZ);
		(void)sigtimedwait(&raised, NULL, &now);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/*
 * A process inherits stderr, so it is not close-on-exec; all that the library opens is. If stderr
 * is closed, a connection may become descriptor 2: no line must go there.
 */
static bool stderr_is_there(void)
{
	int flags = fcntl(STDERR_FILENO, F_GETFD);

	return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

/* One write() a line, so that lines of several processes do not mix. */
static void sink_stderr(void *ctx, enum ol_log_level level, const char *text)
{
	char out[STAMP_MAX + OL_LOG_LINE_MAX];
	struct timespec now;
	struct tm local;
	int len;

	(void)ctx;
	if (!stderr_is_there())
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	pthread_mutex_lock(&time_lock);
	localtime_r(&now.tv_sec,
		    &local); /* takes a lock of the C library, which a fork must not copy */
	pthread_mutex_unlock(&time_lock);
	len = snprintf(out, sizeof(out), "%02d:%02d:%02d.%03ld %-5s %s\n", local.tm_hour,
		       local.tm_min, local.tm_sec, now.tv_nsec / 1000000, ol_log_level_str(level),
		       text);
	if (len < 0)
		return;
	if ((size_t)len >= sizeof(out))
		len = (int)sizeof(out) - 1;
	write_unsignalled(out, (size_t)len);
}

void ol_log_write(enum ol_log_level level, const char *format, ...)
{
	int saved = errno;
	char text[OL_LOG_LINE_MAX];
	va_list args;

	va_start(args, format);
	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	va_end(args);
	pthread_rwlock_rdlock(&log_lock);
	log_depth++;
	log_sink(log_ctx, level, text);
	log_depth--;
	pthread_rwlock_unlock(&log_lock);
	errno = saved;
}
