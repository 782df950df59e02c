/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * lines.h -- lines out of a descriptor that is read as it comes, and JSON lines into one
 */
#ifndef LAUNCH_LINES_H
#define LAUNCH_LINES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	LAUNCH_SAID_MAX =
		8192, /* bytes of a line that a process says; a longer one is cut in pieces */
	LAUNCH_MESSAGE_MAX = 1 << 20 /* of a message between launcher and agent */
};

struct launch_lines {
	char *bytes;
	size_t max; /* a longer line comes in pieces */
	size_t from, count; /* what is not taken yet lies between */
	int fd; /* -1: its end was read */
	bool breaks_at_cr; /* a carriage return ends a line, too: progress bars */
};

/* launch_lines_init -- takes fd, which is made not to block; -ENOMEM */
int launch_lines_init(struct launch_lines *lines, int fd, size_t max);
void launch_lines_fini(struct launch_lines *lines);

/* launch_lines_read -- false: nothing is there now; call launch_lines_take() until NULL in between */
bool launch_lines_read(struct launch_lines *lines);

/* launch_lines_take -- the next whole line without its end, valid until the next call; behind the end of the
 * input also what has no line end. NULL: none */
char *launch_lines_take(struct launch_lines *lines);

/* launch_say -- one object as a line; blocks; releases the object. Errors: -errno */
int launch_say(int fd, json_t *object);

/* launch_text -- of any bytes; what is not UTF-8 becomes '?' */
json_t *launch_text(char *bytes);

#endif /* LAUNCH_LINES_H */
