/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * show.c -- what a person sees: places, lines of processes, the end; and the report as JSON
 *
 * Lines of workers' stdout go to stdout, all else to stderr.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "launch/parts.h"

enum {
	NAMES_MAX = 4096
};

void launch_note(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fputs("[launch] ", stderr);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
}

const char *launch_host_name(const struct launch *launch, uint32_t host)
{
	return launch->hosts.list[host].is_here ? "this machine" : launch->hosts.list[host].name;
}

static void name_add(char text[NAMES_MAX], const char *word)
{
	size_t len = strlen(text);

	snprintf(text + len, NAMES_MAX - len, "%s%s", len > 0 ? ", " : "", word);
}

/* "server 0.1, workers 4-7": ids of workers of one host are adjacent, until one has moved */
static void host_names(const struct launch *launch, uint32_t host, char text[NAMES_MAX])
{
	uint32_t i = launch->server_count, end = launch->worker_end;
	char word[64];

	text[0] = '\0';
	for (uint32_t at = 0; at < launch->server_count; at++) {
		if (launch->procs[at].host == host)
			name_add(text, launch->procs[at].name);
	}
	while (i < end) {
		uint32_t first = i;

		while (i < end && launch->procs[i].host == host)
			i++;
		if (i == first + 1)
			name_add(text, launch->procs[first].name);
		else if (i > first) {
			snprintf(word, sizeof(word), "workers %u-%u", launch->procs[first].place,
				 launch->procs[i - 1].place);
			name_add(text, word);
		}
		i += i == first;
	}
	for (i = end; i < launch->proc_count; i++) {
		if (launch->procs[i].host == host)
			name_add(text, launch->procs[i].name);
	}
}

static const char *s_of(uint32_t count)
{
	return count == 1 ? "" : "s";
}

void launch_show_places(const struct launch *launch)
{
	size_t width = strlen("host");
	char names[NAMES_MAX];

	for (uint32_t i = 0; i < launch->hosts.count; i++) {
		size_t len = strlen(launch_host_name(launch, i));

		width = len > width ? len : width;
	}
	launch_note("job %s: %u shard%s of %u replica%s, %u worker%s, %u host%s%s%s", launch->job,
		    launch->shape.shards, s_of(launch->shape.shards), launch->shape.replicas,
		    s_of(launch->shape.replicas), launch->shape.workers,
		    s_of(launch->shape.workers), launch->hosts.count, s_of(launch->hosts.count),
		    launch->has_chains ? "; views in " : "", launch->coordinator);
	launch_note("%-*s  %-12s  %s", (int)width, "host", "rack", "runs");
	for (uint32_t i = 0; i < launch->hosts.count; i++) {
		const struct launch_host *host = &launch->hosts.list[i];

		host_names(launch, i, names);
		launch_note("%-*s  %-12s  %s", (int)width, launch_host_name(launch, i),
			    host->rack[0] != '\0' ? host->rack : "-",
			    names[0] != '\0' ? names : "nothing");
	}
}

void launch_show_line(const struct launch_proc *proc, bool is_error, const char *text)
{
	FILE *out = is_error || proc->kind != LAUNCH_WORKER ? stderr : stdout;

	fprintf(out, "[%s] %s\n", proc->name, text);
	if (out == stdout)
		(void)fflush(out);
}

static const char *end_text(const struct launch_proc *proc, char *text, size_t text_bytes)
{
	switch (proc->life.state) {
	case LAUNCH_WAITS:
		return proc->life.starts == 0 ? "not started" : "not started again";
	case LAUNCH_STARTS:
	case LAUNCH_RUNS:
		return "no word of its end";
	case LAUNCH_DONE:
		if (proc->life.status == 0)
			return "done";
		break;
	case LAUNCH_FAILED:
		break;
	}
	return launch_status_text(proc->life.status, text, text_bytes);
}

static double seconds_of(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns && from_ns != 0 ? (double)(to_ns - from_ns) / 1e9 : 0.0;
}

static uint32_t restarts_of(const struct launch *launch)
{
	uint32_t restarts = 0;

	for (uint32_t i = 0; i < launch->proc_count; i++)
		restarts += launch->procs[i].life.starts > 1 ? launch->procs[i].life.starts - 1 : 0;
	return restarts;
}

static const char *how_text(const struct launch *launch)
{
	if (launch->exit_code != 0)
		return "failed";
	if (launch->is_preempted)
		return "preempted";
	return launch->signal != 0 ? "interrupted" : "done";
}

void launch_show_end(const struct launch *launch)
{
	size_t width = strlen("host");
	char text[64];

	for (uint32_t i = 0; i < launch->hosts.count; i++) {
		size_t len = strlen(launch_host_name(launch, i));

		width = len > width ? len : width;
	}
	launch_note("%-12s  %-*s  %6s  %8s  %s", "process", (int)width, "host", "starts", "seconds",
		    "end");
	for (uint32_t i = 0; i < launch->proc_count; i++) {
		const struct launch_proc *proc = &launch->procs[i];

		launch_note("%-12s  %-*s  %6u  %8.1f  %s", proc->name, (int)width,
			    launch_host_name(launch, proc->host), proc->life.starts,
			    seconds_of(proc->first_ns, proc->end_ns),
			    end_text(proc, text, sizeof(text)));
	}
	launch_note("%s in %.1f s; %u restart%s", how_text(launch),
		    seconds_of(launch->begin_ns, launch->end_ns), restarts_of(launch),
		    s_of(restarts_of(launch)));
}

static json_t *proc_json(const struct launch *launch, const struct launch_proc *proc)
{
	char text[64];

	return json_pack("{s:s, s:s, s:i, s:f, s:s, s:s*}", "name", proc->name, "host",
			 launch->hosts.list[proc->host].name, "starts", (int)proc->life.starts,
			 "seconds", seconds_of(proc->first_ns, proc->end_ns), "end",
			 end_text(proc, text, sizeof(text)), "address",
			 proc->address[0] != '\0' ? proc->address : NULL);
}

int launch_report(const struct launch *launch)
{
	json_t *procs = json_array(), *hosts = json_array(), *report;

	if (launch->set.json == NULL) {
		json_decref(procs);
		json_decref(hosts);
		return 0;
	}
	for (uint32_t i = 0; i < launch->proc_count; i++)
		json_array_append_new(procs, proc_json(launch, &launch->procs[i]));
	for (uint32_t i = 0; i < launch->hosts.count; i++)
		json_array_append_new(hosts, json_pack("{s:s, s:s, s:b}", "name",
						       launch->hosts.list[i].name, "rack",
						       launch->hosts.list[i].rack, "lost",
						       (int)launch->hosts.list[i].is_lost));
	report = json_pack(
		"{s:s, s:s, s:f, s:i, s:i, s:i, s:i, s:s, s:o, s:o}", "ended", how_text(launch),
		"job", launch->job, "total_s", seconds_of(launch->begin_ns, launch->end_ns),
		"restarts", (int)restarts_of(launch), "servers", (int)launch->shape.shards,
		"replicas", (int)launch->shape.replicas, "workers", (int)launch->shape.workers,
		"coordinator", launch->coordinator, "hosts", hosts, "processes", procs);
	if (report == NULL || json_dump_file(report, launch->set.json, JSON_INDENT(2)) != 0) {
		json_decref(report);
		return ol_cmd_error(OL_EXIT_FAILED, "launch", "cannot write", launch->set.json,
				    strerror(errno));
	}
	json_decref(report);
	return 0;
}
