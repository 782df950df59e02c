/* SPDX-License-Identifier: BSD-3-Clause */

/* lab.c -- the shared folder of a lab's hosts, and its faults */

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/lab.h"

static void lab_path(char path[256], const char *name)
{
	snprintf(path, 256, "%s/%s", getenv("OL_OUT"), name);
}

bool lab_exists(const char *name)
{
	char path[256];

	lab_path(path, name);
	return access(path, F_OK) == 0;
}

void lab_write(const char *name, const char *text)
{
	char path[256], temporary[280];
	FILE *file;

	lab_path(path, name);
	snprintf(temporary, sizeof(temporary), "%s.new-%s", path, getenv("OL_HOST"));
	file = fopen(temporary, "w");
	check(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
	check_ok(rename(temporary, path));
}

bool lab_read(const char *name, char *text, size_t bytes)
{
	char path[256];
	FILE *file;
	size_t got;

	lab_path(path, name);
	file = fopen(path, "r");
	if (file == NULL)
		return false;
	got = fread(text, 1, bytes - 1, file);
	text[got] = '\0';
	fclose(file);
	return true;
}

uint64_t lab_fault(const char *verb, unsigned host)
{
	static unsigned count;
	char line[64], name[32], answer[16] = "";
	int fd = open("/run/outlast-lab/ctl", O_WRONLY | O_CLOEXEC);

	check(fd >= 0);
	snprintf(line, sizeof(line), "%s %u %d.%u\n", verb, host, (int)getpid(), count);
	snprintf(name, sizeof(name), ".lab/done.%d.%u", (int)getpid(), count++);
	check_eq(write(fd, line, strlen(line)), strlen(line));
	close(fd);
	while (!lab_read(name, answer, sizeof(answer)) || answer[0] == '\0')
		sched_yield();
	check_msg(strncmp(answer, "ok", 2) == 0, "the lab: %s %u: %s", verb, host, answer);
	return ol_clock_ns();
}
