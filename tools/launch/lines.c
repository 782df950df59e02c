/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * lines.c -- what launcher, agents and processes say, line by line
 */
#include "launch/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int launch_lines_init(struct launch_lines *lines, int fd, size_t max)
{
	*lines = (struct launch_lines){ .bytes = malloc(max + 1), .max = max, .fd = fd };
	if (lines->bytes == NULL)
		return -ENOMEM;
	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return 0;
}

void launch_lines_fini(struct launch_lines *lines)
{
	if (lines->fd >= 0)
		close(lines->fd);
	free(lines->bytes);
	*lines = (struct launch_lines){ .fd = -1 };
}

bool launch_lines_read(struct launch_lines *lines)
{
	ssize_t got;

	if (lines->fd < 0)
		return false;
	if (lines->from > 0)
		memmove(lines->bytes, lines->bytes + lines->from, lines->count - lines->from);
	lines->count -= lines->from;
	lines->from = 0;
	got = read(lines->fd, lines->bytes + lines->count, lines->max - lines->count);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0) {
		close(lines->fd);
		lines->fd = -1;
		return true; /* what is left is a line */
	}
	lines->count += (size_t)got;
	return true;
}

static size_t line_end(const struct launch_lines *lines)
{
	size_t at = lines->from;

	while (at < lines->count && lines->bytes[at] != '\n' &&
	       !(lines->breaks_at_cr && lines->bytes[at] == '\r'))
		at++;
	return at;
}

char *launch_lines_take(struct launch_lines *lines)
{
	size_t end = line_end(lines);
	char *line = lines->bytes + lines->from;
	bool is_whole = end < lines->count;

	if (!is_whole && (lines->from == lines->count ||
			  (lines->fd >= 0 && lines->count - lines->from < lines->max)))
		return NULL;
	lines->bytes[end] = '\0'; /* there is a byte more than max */
	lines->from = is_whole ? end + 1 : end;
	return line;
}

int launch_say(int fd, json_t *object)
{
	char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
	size_t bytes = text != NULL ? strlen(text) : 0, left = bytes;
	const char *at = text;
	int rc = text != NULL ? 0 : -ENOMEM;

	json_decref(object);
	if (rc == 0)
		text[left++] = '\n'; /* in the place of its end */
	while (rc == 0 && left > 0) {
		ssize_t put = write(fd, at, left);

		if (put < 0 && errno == EAGAIN) {
			struct pollfd room = { .fd = fd, .events = POLLOUT };

			(void)poll(&room, 1, -1);
		} else if (put < 0 && errno != EINTR) {
			rc = -errno;
		}
		at += put > 0 ? put : 0;
		left -= put > 0 ? (size_t)put : 0;
	}
	if (text != NULL)
		explicit_bzero(text, bytes); /* an order may have the key */
	free(text);
	return rc;
}

json_t *launch_text(char *bytes)
{
	json_t *text = json_string(bytes);

	if (text != NULL)
		return text;
	for (char *at = bytes; *at != '\0'; at++) {
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	}
	return json_string(bytes);
}
