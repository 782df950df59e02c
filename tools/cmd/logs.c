/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * logs.c -- lines as text with date, host and process id; lines for the journal
 */
#include "cmd/logs.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

enum {
	FIELDS_MAX = 320, /* of a line's fields but MESSAGE */
	HOST_MAX = 65,
	DATE_MAX = 32,
	ZONE_MAX = 8
};

const struct ol_conf_choice ol_log_formats[] = {
	{ "auto", OL_LOG_FORMAT_AUTO },
	{ "short", OL_LOG_FORMAT_SHORT },
	{ "full", OL_LOG_FORMAT_FULL },
	{ "journal", OL_LOG_FORMAT_JOURNAL },
	{ NULL, 0 },
};

/* The log's sink, as it is in force. Set before there are threads, but for the fields. */
static struct {
	enum ol_log_format format; /* AUTO: no call has been made, and it is SHORT */
	int fd; /* of the journal */
	struct sockaddr_un to;
	_Atomic bool is_server;
	_Atomic uint32_t shard, epoch;
	_Atomic uint64_t version;
} logs = { .fd = -1, .to = { .sun_family = AF_UNIX, .sun_path = OL_JOURNAL_SOCKET } };

/* JOURNAL_STREAM names the file that a service's output was connected to: it may lead elsewhere since */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uint64_t device, inode;
	struct stat stat;

	return stream != NULL && sscanf(stream, "%" SCNu64 ":%" SCNu64, &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &stat) == 0 && stat.st_dev == (dev_t)device &&
	       stat.st_ino == (ino_t)inode;
}

static int priority_of(enum ol_log_level level)
{
	switch (level) {
	case OL_LOG_ERROR:
		return 3;
	case OL_LOG_WARN:
		return 4;
	case OL_LOG_INFO:
		return 6;
	case OL_LOG_DEBUG:
		return 7;
	}
	return 6;
}

static void text_put(const char *text, size_t bytes)
{
	if (write(STDERR_FILENO, text, bytes) < 0)
		return; /* there is no place to say so */
}

/* MESSAGE in the form that bears any byte: its name, its length, itself */
static bool journal_put(enum ol_log_level level, const char *text)
{
	char fields[FIELDS_MAX];
	const uint64_t bytes = htole64(strlen(text));
	struct iovec parts[] = {
		{ .iov_base = fields },
		{ .iov_base = (void *)(uintptr_t) "MESSAGE\n", .iov_len = strlen("MESSAGE\n") },
		{ .iov_base = (void *)(uintptr_t)&bytes, .iov_len = sizeof(bytes) },
		{ .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) },
		{ .iov_base = (void *)(uintptr_t) "\n", .iov_len = 1 },
	};
	const struct msghdr message = {
		.msg_name = &logs.to,
		.msg_namelen = sizeof(logs.to),
		.msg_iov = parts,
		.msg_iovlen = sizeof(parts) / sizeof(parts[0]),
	};
	int len = snprintf(fields, sizeof(fields), "PRIORITY=%d\nSYSLOG_IDENTIFIER=outlast\n",
			   priority_of(level));

	if (atomic_load(&logs.is_server))
		len += snprintf(fields + len, sizeof(fields) - (size_t)len,
				"OUTLAST_SHARD=%" PRIu32 "\n", atomic_load(&logs.shard));
	if (atomic_load(&logs.epoch) != 0)
		len += snprintf(fields + len, sizeof(fields) - (size_t)len,
				"OUTLAST_EPOCH=%" PRIu32 "\nOUTLAST_VERSION=%" PRIu64 "\n",
				atomic_load(&logs.epoch), atomic_load(&logs.version));
	parts[0].iov_len = (size_t)len;
	return sendmsg(logs.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/* In one write, so that lines of several processes do not mix */
static void full_put(enum ol_log_level level, const char *text)
{
	char host[HOST_MAX] = "", date[DATE_MAX] = "", zone[ZONE_MAX] = "", *line;
	struct timespec now;
	struct tm local;

	clock_gettime(CLOCK_REALTIME, &now);
	if (localtime_r(&now.tv_sec, &local) != NULL) {
		(void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &local);
		(void)strftime(zone, sizeof(zone), "%z", &local);
	}
	(void)gethostname(host, sizeof(host) - 1);
	if (asprintf(&line, "%s.%03ld%s %s outlast[%d]: %-5s %s\n", date, now.tv_nsec / 1000000,
		     zone, host, (int)getpid(), ol_log_level_str(level), text) < 0)
		return;
	text_put(line, strlen(line));
	free(line);
}

static void line_put(enum ol_log_level level, const char *text)
{
	if (logs.format == OL_LOG_FORMAT_FULL)
		full_put(level, text);
	else if (logs.format != OL_LOG_FORMAT_JOURNAL || !journal_put(level, text))
		fprintf(stderr, "%s\n", text);
}

static void sink(void *ctx, enum ol_log_level level, const char *text)
{
	(void)ctx;
	line_put(level, text);
}

static void journal_open(void)
{
	if (logs.fd < 0)
		logs.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

void ol_logs_journal(const char *path)
{
	snprintf(logs.to.sun_path, sizeof(logs.to.sun_path), "%s", path);
}

void ol_logs_set(enum ol_log_format format)
{
	if (format == OL_LOG_FORMAT_AUTO)
		format = stderr_is_journal() ? OL_LOG_FORMAT_JOURNAL : OL_LOG_FORMAT_SHORT;
	if (format == OL_LOG_FORMAT_JOURNAL)
		journal_open();
	logs.format = format;
	ol_log_sink_set(format == OL_LOG_FORMAT_SHORT ? NULL : sink, NULL);
}

void ol_logs_server(uint32_t shard, uint32_t epoch, uint64_t version)
{
	atomic_store(&logs.shard, shard);
	atomic_store(&logs.epoch, epoch);
	atomic_store(&logs.version, version);
	atomic_store(&logs.is_server, true);
}

void ol_logs_say(enum ol_log_level level, const char *format, ...)
{
	int saved = errno;
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) >= 0) {
		line_put(level, text);
		free(text);
	}
	va_end(args);
	errno = saved;
}
