/* SPDX-License-Identifier: BSD-3-Clause */

/* bench_idle.c -- `outlast bench idle`: processor time of a server that has a worker, no traffic */

#include <poll.h>
#include <stddef.h>

#include "base/clock.h"
#include "bench/pattern.h"
#include "outlast/bench.h"
#include "outlast/cmd.h"

enum {
	CONNECT_TIMEOUT_MS = 15000,
	SIZE_BYTES = 1 << 20,
	SETTLE_MS = 200 /* until the last spin is over */
};

struct idle_conf {
	struct bench_place place;
	double seconds;
};

static const struct ol_conf_field fields[] = {
	{ .name = "seconds",
	  .dflt = "3",
	  .help = "how long to watch",
	  .offset = offsetof(struct idle_conf, seconds),
	  .type = OL_CONF_F64,
	  .f64_min = 0.01,
	  .f64_max = 3600 },
	BENCH_PLACE_FIELDS,
};

/* Per cent of one core over the time */
static double watch(const struct bench_peer *peer, double seconds)
{
	uint64_t used_ns, start_ns;

	poll(NULL, 0, SETTLE_MS);
	used_ns = bench_peer_cpu_ns(peer);
	start_ns = ol_clock_ns();
	poll(NULL, 0, (int)(seconds * 1e3));
	return (double)(bench_peer_cpu_ns(peer) - used_ns) * 100.0 /
	       (double)(ol_clock_ns() - start_ns);
}

static int idle_run(const struct idle_conf *conf, char err[BENCH_ERR_MAX])
{
	struct bench_peer peer = { 0 };
	struct bench_client client;
	struct bench_ends ends;
	char addr[BENCH_ADDR_MAX];
	double percent;
	json_t *report;
	int rc = bench_ends_make(&conf->place, NULL, &ends, err);

	if (rc == 0)
		rc = bench_peer_start(&ends.opts, &peer);
	if (rc == 0)
		rc = bench_peer_open(&peer, SIZE_BYTES, 1, addr, err);
	if (rc == 0)
		rc = bench_client_open(&ends.opts, addr, SIZE_BYTES, 1, CONNECT_TIMEOUT_MS, &client,
				       err);
	if (rc != 0)
		goto out;
	percent = watch(&peer, conf->seconds);
	bench_ends_print(&ends, true, stdout);
	printf("idle server, one worker connected: %.3f %% of a core over %.1f s\n", percent,
	       conf->seconds);
	report = bench_report("idle", &ends, true);
	json_object_set_new(report, "seconds", json_real(conf->seconds));
	json_object_set_new(report, "percent_of_core", json_real(percent));
	rc = bench_report_write(&conf->place, report, err);
	json_decref(report);
	bench_client_close(&client);
out:
	bench_peer_stop(&peer);
	return rc;
}

int bench_idle(int argc, char **argv)
{
	static const struct ol_conf_spec spec = {
		.program = "outlast bench idle",
		.purpose = "Processor time of a server that has a worker and no traffic.",
		.examples = "  outlast bench idle --spin-us 50 --seconds 5\n",
		.fields = fields,
		.field_count = sizeof(fields) / sizeof(fields[0]),
	};
	char err[BENCH_ERR_MAX] = "";
	struct idle_conf idle;
	struct ol_conf *conf;
	int code, rc;

	if (bench_conf_load(&spec, &idle, argc, argv, &conf, &code) == 0) {
		if (!ol_conf_is_set(conf, "spin_us"))
			idle.place.spin_us = 50; /* a server's own default */
		rc = idle_run(&idle, err);
		code = rc == 0 ? OL_EXIT_OK : bench_fail("idle", rc, err);
	}
	ol_conf_destroy(conf);
	return code;
}
