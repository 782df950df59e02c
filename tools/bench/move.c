/* SPDX-License-Identifier: BSD-3-Clause */

/* move.c -- `outlast bench push` and `pull`: latency and bandwidth by size */

#include "base/clock.h"
#include "bench/alternate.h"
#include "bench/baseline.h"
#include "bench/bench.h"

enum {
	SAMPLES_MAX = 4 << 20, /* for one size, if time bounds the run */
	ROUNDS = 20, /* blocks of each arm */
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
	int gradient_format; /* enum ol_format */
	uint32_t window;
	bool all;
	bool baseline;
	bool fill;
};

static const struct ol_conf_choice modes[] = { { "lat", MODE_LAT }, { "bw", MODE_BW }, { 0 } };

static const struct ol_conf_field fields[] = {
	OL_ROW_GROUP("what"),
	OL_ROW_STR(move_conf, size, "64,4K,64K,1M,16M",
		   "bytes of gradient or weights: one, a list, or a range 8..64M (-s)"),
	OL_ROW_BOOL(move_conf, all, "false", "every power of two from 8 bytes to 64 MiB (-a)"),
	OL_ROW_CHOICE(move_conf, mode, "lat", modes, "lat: one at a time; bw: --window at a time"),
	OL_ROW_U32(move_conf, window, "16", 1, BENCH_WINDOW_MAX,
		   "bw: pushes outstanding; less where slots would take more than 256 MiB"),
	OL_ROW_U64(move_conf, iters, "0", 0, 1 << 28,
		   "timed messages of each size; 0: as many as --seconds allow (-n)"),
	OL_ROW_F64(move_conf, seconds, "1", 0.001, 86400,
		   "time for each size, and as much again for a baseline"),
	OL_ROW_U64(move_conf, warmup, "1000", 0, 1 << 28,
		   "messages before, not timed; at most a quarter of --seconds"),
	OL_ROW_BOOL(move_conf, baseline, "false",
		    "lat: in turns with a plain pass w - lr g (push), or memcpy (pull)"),
	OL_ROW_BOOL(move_conf, fill, "false",
		    "push: write the gradient anew before each, inside the time"),
	OL_ROW_CHOICE(move_conf, gradient_format, "fp32", ol_formats, "push: " OL_FORMATS_HELP),
	OL_ROW_STR(move_conf, raw, NULL, "write every time to this file: bytes, nanoseconds"),
	BENCH_PLACE_FIELDS,
	OL_ROW_STR(move_conf, listen, NULL,
		   "be the server end: serve the sizes one after the other here"),
	OL_ROW_STR(move_conf, connect, NULL,
		   "be the client end: of a server end that has the same sizes"),
};

/* State of one measurement */
struct move {
	struct bench_run run;
	struct move_conf conf;
	const char *name; /* "push" or "pull" */
	bool push;
};

static struct move push_move = { .name = "push", .push = true };
static struct move pull_move = { .name = "pull", .push = false };

static struct move *move_of(struct bench_run *run)
{
	return run == &push_move.run ? &push_move : &pull_move;
}

static void note(struct bench_run *run, uint64_t bytes, uint32_t window, json_t *figures)
{
	json_object_set_new(figures, "bytes", json_integer((json_int_t)bytes));
	json_object_set_new(figures, "window", json_integer(window));
	json_object_set_new(figures, "zero_copy", json_boolean(run->client.info.zero_copy));
	json_array_append_new(json_object_get(run->report, "results"), figures);
}

static int raw_write(FILE *raw, uint64_t bytes, const struct bench_samples *samples)
{
	char prefix[32];

	if (raw == NULL)
		return 0;
	snprintf(prefix, sizeof(prefix), "%llu ", (unsigned long long)bytes);
	return bench_samples_write(samples, raw, prefix);
}

/* Report a baseline beside our figures; both ran in turns */
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
	json_object_set_new(figures, "baseline", bench_summary_json(&theirs));
	json_object_set_new(figures, "baseline_is", json_string(base->name));
	json_object_set_new(figures, "ratio", json_real(ratio));
	json_object_set_new(figures, "ratio_of_minima", json_real(ratio_min));
}

static int lat_run(struct move *move, uint64_t bytes)
{
	struct bench_client *client = &move->run.client;
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
		rc = raw_write(move->run.raw, bytes, &arms[0].samples);
	if (rc == 0) {
		bench_summary_make(&arms[0].samples, &summary);
		bench_table_lat_row(stdout, bytes, &summary);
		figures = bench_summary_json(&summary);
		if (conf->baseline)
			baseline_note(&summary, &arms[1], figures);
		note(&move->run, bytes, 1, figures);
	}
	bench_samples_fini(&arms[0].samples);
	bench_samples_fini(&arms[1].samples);
	bench_baseline_fini(&baseline);
	return rc;
}

static int bw_run(struct move *move, uint64_t bytes)
{
	struct bench_client *client = &move->run.client;
	const struct move_conf *conf = &move->conf;
	struct bench_flow flow = { .push = move->push,
				   .iters = conf->iters,
				   .ns = (uint64_t)(conf->seconds * 1e9),
				   .warmup = conf->warmup,
				   .window = move->push ? client->info.window : 1 };
	struct bench_samples samples;
	struct bench_rate rate;
	size_t stretch;
	int rc = bench_samples_init(&samples, conf->iters != 0 ? (size_t)conf->iters : SAMPLES_MAX);

	if (rc == 0)
		rc = bench_flow_run(client, &flow, &samples);
	if (rc == 0)
		rc = raw_write(move->run.raw, bytes, &samples);
	if (rc == 0) {
		stretch = samples.count / PEAK_SHARE;
		bench_rate_make(&samples, stretch > flow.window ? stretch : flow.window, &rate);
		bench_table_bw_row(stdout, bytes, &rate);
		note(&move->run, bytes, flow.window, bench_rate_json(bytes, &rate));
	}
	bench_samples_fini(&samples);
	return rc;
}

static int size_run(struct bench_run *run, uint64_t bytes)
{
	struct move *move = move_of(run);
	bool bw = move->conf.mode == MODE_BW;
	int rc = bench_servers_open(run, 0, bytes, bw ? bench_window(move->conf.window, bytes) : 1);

	if (rc != 0)
		return rc;
	run->client.fill = move->conf.fill;
	return bench_servers_close(run, bw ? bw_run(move, bytes) : lat_run(move, bytes));
}

static void begin(struct bench_run *run)
{
	const struct move *move = move_of(run);
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
	bench_ends_print(run);
	printf("# warm-up: %llu messages a size, not counted; no other sample is left out\n",
	       (unsigned long long)conf->warmup);
	if (conf->mode == MODE_LAT)
		bench_table_lat_head(stdout);
	else
		bench_table_bw_head(stdout);
	json_object_update_new(run->report, json_pack("{s:s, s:b, s:I, s:[]}", "mode",
						      conf->mode == MODE_BW ? "bw" : "lat", "fill",
						      (int)conf->fill, "warmup",
						      (json_int_t)conf->warmup, "results"));
}

static int check(struct bench_run *run, struct ol_conf *conf)
{
	const struct move *move = move_of(run);
	const struct move_conf *c = &move->conf;

	if (c->listen != NULL && c->connect != NULL)
		return ol_conf_fail(conf, "connect", "is not for the end that has --listen");
	if (c->baseline && c->mode == MODE_BW)
		return ol_conf_fail(conf, "baseline", "is for --mode lat");
	if (c->fill && !move->push)
		return ol_conf_fail(conf, "fill", "is for push");
	if (c->gradient_format != OL_FORMAT_FP32 && !move->push)
		return ol_conf_fail(conf, "gradient_format", "is for push");
	run->gradient_format = (uint32_t)c->gradient_format;
	if (c->all && ol_conf_is_set(conf, "size"))
		return ol_conf_fail(conf, "all", "is not for use with --size");
	run->remote = c->listen != NULL ? c->listen : c->connect;
	run->raw_path = c->raw;
	if (c->listen != NULL)
		run->serve_window = c->mode == MODE_BW ? c->window : 1;
	return bench_sizes_take(run, conf, c->all ? "8..64M" : c->size);
}

#define MOVE_MEASURE(move) \
	.fields = OL_FIELDS(fields), .conf = &(move).conf, .run = &(move).run, .check = check, \
	.begin = begin, .size = size_run

const struct bench_measure bench_push = {
	.name = "push",
	.summary = "a gradient, until it is known to be applied",
	.purpose = "Latency or bandwidth of pushing a gradient, until it is known to be applied.",
	.examples = "  outlast bench push --size 64,4K,16M --baseline\n"
		    "  outlast bench push --mode bw --window 16 --size 64K\n",
	MOVE_MEASURE(push_move),
};

const struct bench_measure bench_pull = {
	.name = "pull",
	.summary = "the weights, until they are whole here",
	.purpose = "Latency or bandwidth of pulling the weights, until they are whole.",
	.examples = "  outlast bench pull --size 64,16M --baseline\n"
		    "  outlast bench pull -a --transport verbs --address 10.0.0.1\n",
	MOVE_MEASURE(pull_move),
};
