/* SPDX-License-Identifier: BSD-3-Clause */

/* files.c -- calls on files, which abort: views of an ensemble are not in files */

#include <stdlib.h>

#include "sim/world/disk.h"

int64_t disk_read(int fd, void *bytes, size_t count)
{
	(void)fd;
	(void)bytes;
	(void)count;
	abort();
}

int64_t disk_write(int fd, const void *bytes, size_t count)
{
	(void)fd;
	(void)bytes;
	(void)count;
	abort();
}

void disk_close(int fd)
{
	(void)fd;
	abort();
}

int disk_fcntl(int fd, int command, void *arg)
{
	(void)fd;
	(void)command;
	(void)arg;
	abort();
}
