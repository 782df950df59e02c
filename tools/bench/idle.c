/* SPDX-License-Identifier: BSD-3-Clause */

/* idle.c -- `outlast bench idle`: processor time of a server that has a worker, no traffic */

#include <poll.h>
#include <stddef.h>

#include "base/clock.h"
#include "bench/bench.h"

enum {
	SIZE_BYTES = 1 << 20,
	SETTLE_MS = 200 /* until the last spin is over */
};

struct idle_conf {
	struct bench_place place;
	double seconds;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_F64(idle_conf, seconds, "3", 0.01, 3600, "how long to watch"),
	BENCH_PLACE_FIELDS_OF("auto", "50"), /* a server's default spin */
};

/* Per cent of one core over the time; 0 if the system does not say */
static double watch(pid_t pid, double seconds)
{
	struct ol_usage before = { 0 }, after = { 0 };
	uint64_t start_ns;

	poll(NULL, 0, SETTLE_MS);
	(void)ol_usage_read(pid, &before);
	start_ns = ol_clock_ns();
	poll(NULL, 0, (int)(seconds * 1e3));
	(void)ol_usage_read(pid, &after);
	return (double)(after.cpu_ns - before.cpu_ns) * 100.0 / (double)(ol_clock_ns() - start_ns);
}

static struct idle {
	struct bench_run run;
	struct idle_conf conf;
} idle;

static int size_run(struct bench_run *run, uint64_t bytes)
{
	double percent;
	int rc = bench_servers_open(run, 0, bytes, 1);

	if (rc != 0)
		return rc;
	percent = watch(run->chain.servers[0].proc.pid, idle.conf.seconds);
	bench_ends_print(run);
	printf("idle server, one worker connected: %.3f %% of a core over %.1f s\n", percent,
	       idle.conf.seconds);
	json_object_update_new(run->report, json_pack("{s:f, s:f}", "seconds", idle.conf.seconds,
						      "percent_of_core", percent));
	return bench_servers_close(run, 0);
}

static int check(struct bench_run *run, struct ol_conf *conf)
{
	(void)conf;
	run->sizes = (struct bench_sizes){ .count = 1, .bytes = { SIZE_BYTES } };
	return 0;
}

const struct bench_measure bench_idle = {
	.name = "idle",
	.summary = "what a server without traffic costs",
	.purpose = "Processor time of a server that has a worker and no traffic.",
	.examples = "  outlast bench idle --spin-us 50 --seconds 5\n",
	.fields = OL_FIELDS(fields),
	.conf = &idle.conf,
	.run = &idle.run,
	.check = check,
	.size = size_run,
};
