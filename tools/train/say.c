/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * say.c -- lines for people on stderr, beside the progress line
 */
#include <stdarg.h>
#include <stdio.h>

#include "train/parts.h"

void train_line_close(struct train_screen *screen)
{
	if (screen->line_open)
		fputc('\n', stderr);
	screen->line_open = false;
}

void train_say(struct train_screen *screen, const char *format, ...)
{
	va_list list;

	train_line_close(screen);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
}
