/* SPDX-License-Identifier: BSD-3-Clause */

/* bench_move.c -- `outlast bench push` and `pull`: latency and bandwidth by size */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/alternate.h"
#include "bench/baseline.h"
#include "bench/pattern.h"
#include "bench/table.h"
#include "outlast/bench.h"
#include "outlast/cmd.h"

enum {
	SAMPLES_MAX = 4 << 20, /* of a size, when time bounds the run */
	ROUNDS = 20, /* blocks of each arm */
	CONNECT_TIMEOUT_MS = 15000,
	PEAK_SHARE = 20, /* the peak is over a stretch of 1/20 of all messages … */
};

enum mode {
	MODE_LAT,
	MODE_BW,
};

struct move_conf {
	struct bench_place place;
	const char *size;
	const char *listen;
	const char *connect;
	const char *raw;
	uint64_t iters;
	uint64_t warmup;
	double seconds;
	int mode;
	uint32_t window;
	bool all;
	bool baseline;
	bool fill;
};

static const struct ol_conf_choice modes[] = { { "lat", MODE_LAT }, { "bw", MODE_BW }, { 0 } };

#define AT(member) .offset = offsetof(struct move_conf, member)

static const struct ol_conf_field fields[] = {
	{ .help = "what", .type = OL_CONF_GROUP },
	{ .name = "size",
	  .dflt = "64,4K,64K,1M,16M",
	  .help = "bytes of gradient or weights: one, a list, or a range 8..64M (-s)",
	  AT(size),
	  .type = OL_CONF_STR },
	{ .name = "all",
	  .dflt = "false",
	  .help = "every power of two from 8 bytes to 64 MiB (-a)",
	  AT(all),
	  .type = OL_CONF_BOOL },
	{ .name = "mode",
	  .dflt = "lat",
	  .help = "lat: one at a time; bw: --window at a time",
	  AT(mode),
	  .type = OL_CONF_CHOICE,
	  .choices = modes },
	{ .name = "window",
	  .dflt = "16",
	  .help = "bw: pushes outstanding; less where slots would take more than 256 MiB",
	  AT(window),
	  .type = OL_CONF_U32,
	  .min = 1,
	  .max = BENCH_WINDOW_MAX },
	{ .name = "iters",
	  .dflt = "0",
	  .help = "timed messages of each size; 0: as many as --seconds allow (-n)",
	  AT(iters),
	  .type = OL_CONF_U64,
	  .max = 1 << 28 },
	{ .name = "seconds",
	  .dflt = "1",
	  .help = "time for each size, and as much again for a baseline",
	  AT(seconds),
	  .type = OL_CONF_F64,
	  .f64_min = 0.001,
	  .f64_max = 86400 },
	{ .name = "warmup",
	  .dflt = "1000",
	  .help = "messages before, not timed; at most a quarter of --seconds",
	  AT(warmup),
	  .type = OL_CONF_U64,
	  .max = 1 << 28 },
	{ .name = "baseline",
	  .dflt = "false",
	  .help = "lat: in turns with a plain pass w - lr g (push), or memcpy (pull)",
	  AT(baseline),
	  .type = OL_CONF_BOOL },
	{ .name = "fill",
	  .dflt = "false",
	  .help = "push: write the gradient anew before each, inside the time",
	  AT(fill),
	  .type = OL_CONF_BOOL },
	{ .name = "raw",
	  .help = "write every time to this file: bytes, nanoseconds",
	  AT(raw),
	  .type = OL_CONF_STR },
	BENCH_PLACE_FIELDS,
	{ .name = "listen",
	  .help = "be the server end: serve the sizes one after the other here",
	  AT(listen),
	  .type = OL_CONF_STR },
	{ .name = "connect",
	  .help = "be the client end: of a server end that has the same sizes",
	  AT(connect),
	  .type = OL_CONF_STR },
};

/* One measurement under way. */
struct move {
	const char *name; /* "push" or "pull" */
	bool push;
	struct move_conf conf;
	struct bench_sizes sizes;
	struct bench_ends ends;
	struct bench_peer peer; /* pid 0: the other end is elsewhere */
	json_t *report;
	FILE *raw;
	char err[BENCH_ERR_MAX];
};

static void note(struct move *move, uint64_t bytes, const struct bench_client *client,
		 uint32_t window, json_t *figures)
{
	json_t *results = json_object_get(move->report, "results");

	if (figures == NULL)
		return;
	json_object_set_new(figures, "bytes", json_integer((json_int_t)bytes));
	json_object_set_new(figures, "window", json_integer(window));
	json_object_set_new(figures, "zero_copy", json_boolean(client->info.zero_copy));
	json_array_append_new(results, figures);
}

static int raw_write(struct move *move, uint64_t bytes, const struct bench_samples *samples)
{
	char prefix[32];

	if (move->raw == NULL)
		return 0;
	snprintf(prefix, sizeof(prefix), "%llu ", (unsigned long long)bytes);
	return bench_samples_write(samples, move->raw, prefix);
}

/* The line and the JSON of a baseline beside ours; both ran in turns */
static void baseline_note(const struct bench_summary *ours, struct bench_arm *base, json_t *figures)
{
	struct bench_summary theirs;
	double ratio, ratio_min;

	bench_summary_make(&base->samples, &theirs);
	ratio = (double)ours->p50 / (double)(theirs.p50 > 0 ? theirs.p50 : 1);
	ratio_min = (double)ours->min / (double)(theirs.min > 0 ? theirs.min : 1);
	printf("#          %-10llu %-14.2f %-14.2f %-16.2f %s alone; we take %.2f times its "
	       "typical, %.2f times its least\n",
	       (unsigned long long)theirs.count, (double)theirs.min / 1e3, (double)theirs.max / 1e3,
	       (double)theirs.p50 / 1e3, base->name, ratio, ratio_min);
	fflush(stdout);
	if (figures == NULL)
		return;
	json_object_set_new(figures, "baseline", bench_summary_json(&theirs));
	json_object_set_new(figures, "baseline_is", json_string(base->name));
	json_object_set_new(figures, "ratio", json_real(ratio));
	json_object_set_new(figures, "ratio_of_minima", json_real(ratio_min));
}

static int lat_run(struct move *move, uint64_t bytes, struct bench_client *client)
{
	const struct move_conf *conf = &move->conf;
	struct bench_plan plan = { .iters = conf->iters,
				   .ns = (uint64_t)(conf->seconds * 1e9),
				   .warmup = conf->warmup,
				   .rounds = ROUNDS,
				   .samples_max = SAMPLES_MAX };
	struct bench_baseline baseline = { 0 };
	struct bench_arm arms[2] = {
		{ .name = move->name,
		  .step = move->push ? bench_push_step : bench_pull_step,
		  .arg = client },
		{ .name = move->push ? "w - lr g" : "memcpy",
		  .step = move->push ? bench_baseline_pass : bench_baseline_copy,
		  .arg = &baseline },
	};
	struct bench_summary summary;
	json_t *figures;
	int rc = 0;

	if (conf->baseline)
		rc = bench_baseline_init(&baseline, bytes);
	if (rc == 0)
		rc = bench_alternate(arms, conf->baseline ? 2 : 1, &plan);
	if (rc == 0)
		rc = raw_write(move, bytes, &arms[0].samples);
	if (rc == 0) {
		bench_summary_make(&arms[0].samples, &summary);
		bench_table_lat_row(stdout, bytes, &summary);
		figures = bench_summary_json(&summary);
		if (conf->baseline)
			baseline_note(&summary, &arms[1], figures);
		note(move, bytes, client, 1, figures);
	}
	bench_samples_fini(&arms[0].samples);
	bench_samples_fini(&arms[1].samples);
	bench_baseline_fini(&baseline);
	return rc;
}

static int bw_run(struct move *move, uint64_t bytes, struct bench_client *client)
{
	const struct move_conf *conf = &move->conf;
	struct bench_flow flow = { .iters = conf->iters,
				   .ns = (uint64_t)(conf->seconds * 1e9),
				   .warmup = conf->warmup,
				   .window = move->push ? client->info.window : 1 };
	struct bench_samples samples;
	struct bench_rate rate;
	size_t stretch;
	int rc = bench_samples_init(&samples, conf->iters != 0 ? (size_t)conf->iters : SAMPLES_MAX);

	if (rc == 0)
		rc = move->push ? bench_push_flow(client, &flow, &samples)
				: bench_pull_flow(client, &flow, &samples);
	if (rc == 0)
		rc = raw_write(move, bytes, &samples);
	if (rc == 0) {
		stretch = samples.count / PEAK_SHARE;
		bench_rate_make(&samples, stretch > flow.window ? stretch : flow.window, &rate);
		bench_table_bw_row(stdout, bytes, &rate);
		note(move, bytes, client, flow.window, bench_rate_json(bytes, &rate));
	}
	bench_samples_fini(&samples);
	return rc;
}

static int size_run(struct move *move, uint64_t bytes)
{
	bool bw = move->conf.mode == MODE_BW;
	uint32_t window = bw ? bench_window(move->conf.window, bytes) : 1;
	struct bench_client client;
	char addr[BENCH_ADDR_MAX];
	int rc = 0, closed;

	snprintf(addr, sizeof(addr), "%s", move->ends.opts.listen);
	if (move->peer.pid > 0)
		rc = bench_peer_open(&move->peer, bytes, window, addr, move->err);
	if (rc != 0)
		return rc;
	rc = bench_client_open(&move->ends.opts, addr, bytes, window, CONNECT_TIMEOUT_MS, &client,
			       move->err);
	if (rc == 0) {
		client.fill = move->conf.fill;
		rc = bw ? bw_run(move, bytes, &client) : lat_run(move, bytes, &client);
		bench_client_close(&client);
	}
	if (move->peer.pid > 0) {
		closed = bench_peer_close(&move->peer);
		rc = rc != 0 ? rc : closed;
	}
	return rc;
}

static void head_print(const struct move *move)
{
	const struct move_conf *conf = &move->conf;

	printf("# outlast bench %s: %s\n", move->name,
	       move->push
		       ? "from acquiring the gradient buffer until its worker knows it applied"
		       : "from the call until the weights of one version are whole in the mirror");
	printf("# full round trips, never halved; the clock is read once a message, inside the "
	       "time\n");
	if (move->push)
		printf("# the payload is %s\n",
		       conf->fill ? "written anew each time, inside the time"
				  : "in the lent buffer already (--fill writes it each time)");
	bench_ends_print(&move->ends, move->peer.pid > 0, stdout);
	printf("# warm-up: %llu messages a size, not counted; no other sample is left out\n",
	       (unsigned long long)conf->warmup);
	if (conf->mode == MODE_LAT)
		bench_table_lat_head(stdout);
	else
		bench_table_bw_head(stdout);
}

static int sizes_run(struct move *move)
{
	int rc = 0;

	move->report = bench_report(move->name, &move->ends, move->peer.pid > 0);
	if (move->report == NULL)
		return -ENOMEM;
	json_object_set_new(move->report, "mode",
			    json_string(move->conf.mode == MODE_BW ? "bw" : "lat"));
	json_object_set_new(move->report, "fill", json_boolean(move->conf.fill));
	json_object_set_new(move->report, "warmup", json_integer((json_int_t)move->conf.warmup));
	json_object_set_new(move->report, "results", json_array());
	head_print(move);
	for (unsigned i = 0; i < move->sizes.count && rc == 0; i++)
		rc = size_run(move, move->sizes.bytes[i]);
	if (rc == 0)
		rc = bench_report_write(&move->conf.place, move->report, move->err);
	json_decref(move->report);
	return rc;
}

static int client_run(struct move *move)
{
	int rc = 0;

	if (move->conf.connect == NULL)
		rc = bench_peer_start(&move->ends.opts, &move->peer);
	if (rc != 0)
		return rc;
	if (move->conf.raw != NULL) {
		move->raw = fopen(move->conf.raw, "we");
		if (move->raw == NULL) {
			rc = -errno;
			snprintf(move->err, sizeof(move->err), "cannot write %.150s: %s",
				 move->conf.raw, ol_strerror(rc));
			rc = -EIO; /* -ENOENT would be an address's folder */
		}
	}
	if (rc == 0)
		rc = sizes_run(move);
	if (move->raw != NULL && fclose(move->raw) != 0 && rc == 0)
		rc = -errno;
	bench_peer_stop(&move->peer);
	return rc;
}

/* What settings must be beside each other */
static int conf_check(struct move *move, struct ol_conf *conf)
{
	struct move_conf *c = &move->conf;

	if (c->listen != NULL && c->connect != NULL)
		return ol_conf_fail(conf, "connect", "is not for the end that has --listen");
	if (c->baseline && c->mode == MODE_BW)
		return ol_conf_fail(conf, "baseline", "is for --mode lat");
	if (c->fill && !move->push)
		return ol_conf_fail(conf, "fill", "is for push");
	if (c->all && ol_conf_is_set(conf, "size"))
		return ol_conf_fail(conf, "all", "is not for use with --size");
	if (bench_sizes_parse(c->all ? "8..64M" : c->size, &move->sizes, move->err,
			      sizeof(move->err)) != 0)
		return ol_conf_fail(conf, "size", move->err);
	return 0;
}

static int move_run(struct move *move, const struct ol_conf_spec *spec, int argc, char **argv)
{
	const char *remote;
	struct ol_conf *conf;
	int code, rc;

	if (bench_conf_load(spec, &move->conf, argc, argv, &conf, &code) != 0)
		goto out;
	if (conf_check(move, conf) != 0) {
		fprintf(stderr, "%s\n", ol_conf_error(conf));
		code = OL_EXIT_USAGE;
		goto out;
	}
	remote = move->conf.listen != NULL ? move->conf.listen : move->conf.connect;
	rc = bench_ends_make(&move->conf.place, remote, &move->ends, move->err);
	if (rc == 0 && move->conf.listen != NULL)
		rc = bench_peer_serve_all(&move->ends.opts, &move->sizes,
					  move->conf.mode == MODE_BW ? move->conf.window : 1,
					  move->err);
	else if (rc == 0)
		rc = client_run(move);
	code = rc == 0 ? OL_EXIT_OK : bench_fail(move->name, rc, move->err);
out:
	ol_conf_destroy(conf);
	return code;
}

int bench_push(int argc, char **argv)
{
	static const struct ol_conf_spec spec = {
		.program = "outlast bench push",
		.purpose = "Latency or bandwidth of pushing a gradient, until it is known to be "
			   "applied.",
		.examples = "  outlast bench push --size 64,4K,16M --baseline\n"
			    "  outlast bench push --mode bw --window 16 --size 64K\n",
		.fields = fields,
		.field_count = sizeof(fields) / sizeof(fields[0]),
	};
	static struct move move = { .name = "push", .push = true };

	return move_run(&move, &spec, argc, argv);
}

int bench_pull(int argc, char **argv)
{
	static const struct ol_conf_spec spec = {
		.program = "outlast bench pull",
		.purpose = "Latency or bandwidth of pulling the weights, until they are whole.",
		.examples = "  outlast bench pull --size 64,16M --baseline\n"
			    "  outlast bench pull -a --transport verbs --address 10.0.0.1\n",
		.fields = fields,
		.field_count = sizeof(fields) / sizeof(fields[0]),
	};
	static struct move move = { .name = "pull", .push = false };

	return move_run(&move, &spec, argc, argv);
}
