/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * logs.h -- where the program's lines go: to stderr as text, or to the journal with fields
 *
 * In the journal a line has the fields MESSAGE, PRIORITY and SYSLOG_IDENTIFIER; those of a server also
 * OUTLAST_SHARD, OUTLAST_EPOCH and OUTLAST_VERSION. The protocol is the journal's native one, a datagram a
 * line: no library is needed. A line that the journal does not take at once goes to stderr.
 */
#ifndef CMD_LOGS_H
#define CMD_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "outlast.h"

#define OL_JOURNAL_SOCKET "/run/systemd/journal/socket"

enum ol_log_format {
	OL_LOG_FORMAT_AUTO, /* JOURNAL if stderr leads there, else SHORT */
	OL_LOG_FORMAT_SHORT, /* the time, level and text of a message; other lines as they are */
	OL_LOG_FORMAT_FULL, /* date, host, process id, level and text */
	OL_LOG_FORMAT_JOURNAL
};

extern const struct ol_conf_choice ol_log_formats[]; /* auto is the first */
#define OL_LOG_FORMATS_HELP \
	"auto: journal if stderr is systemd's journal, else short; short: the time and the level " \
	"of a message; full: each line with date, host and process id, for a file; journal: with " \
	"fields, of a server OUTLAST_SHARD, OUTLAST_EPOCH and OUTLAST_VERSION"

/* ol_logs_set -- from now on; SHORT before the first call. Before any thread is started */
void ol_logs_set(enum ol_log_format format);

/* ol_logs_journal -- the journal's socket is at this path from now on; for tests */
void ol_logs_journal(const char *path);

/* ol_logs_server -- what the fields of a server's lines say from now on; any thread. Epoch 0: it has none yet, and no
 * version */
void ol_logs_server(uint32_t shard, uint32_t epoch, uint64_t version);

/*
 * ol_logs_say -- a line of the program itself, without a newline: in the format SHORT on stderr as it stands
 */
void ol_logs_say(enum ol_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif /* CMD_LOGS_H */
