/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * bench_rejoin.c -- `outlast bench rejoin`: a lost server comes back while pushes go on
 *
 * One worker pushes, waits until that is committed, and pulls, over and over. A server is killed,
 * stays away for --down, and is started again, empty. Times are counted from its start:
 *
 *	up        it listens (its memory is there, it offers itself)
 *	joining   it is in the view, behind the tail, and begins to read the tail's weights
 *	read      it has read them (its own word: how long that took)
 *	replica   a view has it as a full replica again: the tail
 *
 * Rates are gradients a second: before the loss; while one replica is missing; from the start of
 * the new server until it is a replica; after that. The longest gap is between two commits.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "bench/chain.h"
#include "bench/pattern.h"
#include "outlast/bench.h"
#include "outlast/cmd.h"

enum {
	WINDOW = 4,
	MEND_MS = 120000,
	CONNECT_TIMEOUT_MS = 60000,
};

struct rejoin_conf {
	struct bench_chain_conf chain;
	const char *size;
	uint32_t replicas;
	uint32_t kills;
	double seconds;
	uint64_t down_ns;
	int place; /* enum place */
};

enum place {
	PLACE_HEAD,
	PLACE_MIDDLE,
	PLACE_TAIL
};

#define AT(member) .offset = offsetof(struct rejoin_conf, member)

static const struct ol_conf_choice places[] = {
	{ "head", PLACE_HEAD }, { "middle", PLACE_MIDDLE }, { "tail", PLACE_TAIL }, { NULL, 0 }
};

static const struct ol_conf_field fields[] = {
	{ .help = "what", .type = OL_CONF_GROUP },
	{ .name = "size",
	  .dflt = "3M,256M",
	  .help = "bytes of the model: one, or a list (-s)",
	  AT(size),
	  .type = OL_CONF_STR },
	{ .name = "replicas",
	  .dflt = "3",
	  .help = "servers of the chain",
	  AT(replicas),
	  .type = OL_CONF_U32,
	  .min = 2,
	  .max = OL_CHAIN_MAX },
	{ .name = "kills",
	  .dflt = "3",
	  .help = "how often, for each size",
	  AT(kills),
	  .type = OL_CONF_U32,
	  .min = 1,
	  .max = 10000 },
	{ .name = "target",
	  .dflt = "middle",
	  .help = "who is lost, by its role at that moment; it comes back as the tail",
	  AT(place),
	  .type = OL_CONF_CHOICE,
	  .choices = places },
	{ .name = "down",
	  .dflt = "2s",
	  .help = "how long it stays away",
	  AT(down_ns),
	  .type = OL_CONF_DURATION },
	{ .name = "seconds",
	  .dflt = "3",
	  .help = "over which the rate before, and after, is taken",
	  AT(seconds),
	  .type = OL_CONF_F64,
	  .f64_min = 0.01,
	  .f64_max = 3600 },
	BENCH_CHAIN_FIELDS_OF("false", "5000"),
	BENCH_PLACE_FIELDS_OF("none", "50"),
};

struct rejoin {
	struct rejoin_conf conf;
	struct bench_sizes sizes;
	struct bench_ends ends;
	int cpus[OL_CHAIN_MAX];
	struct bench_chain chain;
	struct bench_client client;
	json_t *report;
	unsigned unasked;
	char err[BENCH_ERR_MAX];
};

/* Gradients over a stretch of time */
struct stretch {
	uint64_t from_ns;
	uint64_t to_ns; /* the last commit */
	uint64_t grads;
	uint64_t gap_ns; /* longest between two commits */
};

/* A gradient committed, and its weights pulled */
static int turn(struct rejoin *r, struct stretch *s)
{
	int rc = bench_push_step(&r->client);
	uint64_t now_ns = ol_clock_ns();

	if (rc == 0)
		rc = bench_pull_step(&r->client);
	if (now_ns - s->to_ns > s->gap_ns)
		s->gap_ns = now_ns - s->to_ns;
	s->to_ns = now_ns;
	s->grads++;
	return rc;
}

static struct stretch begin(void)
{
	uint64_t now_ns = ol_clock_ns();

	return (struct stretch){ .from_ns = now_ns, .to_ns = now_ns };
}

static int turns(struct rejoin *r, uint64_t ns, struct stretch *ret_stretch)
{
	struct stretch s = begin();
	int rc = 0;

	while (rc == 0 && s.to_ns - s.from_ns < ns)
		rc = turn(r, &s);
	*ret_stretch = s;
	return rc;
}

static double rate(const struct stretch *s)
{
	return s->to_ns > s->from_ns ? (double)s->grads * 1e9 / (double)(s->to_ns - s->from_ns)
				     : 0.0;
}

/* What is measured of one loss and return */
struct back {
	struct stretch before;
	struct stretch missing; /* one replica */
	struct stretch joining; /* the new one is brought up to date */
	struct stretch after;
	uint64_t start_ns;
	uint64_t up_ns;
	uint64_t joining_ns;
	uint64_t replica_ns;
	uint64_t read_ns; /* how long */
	uint64_t read_bytes;
};

static int victim_of(const struct rejoin *r)
{
	struct ol_chain_info info = bench_chain_info(&r->chain);
	uint32_t place = 0;

	if (r->conf.place == PLACE_TAIL)
		place = info.count - 1;
	else if (r->conf.place == PLACE_MIDDLE)
		place = info.count / 2;
	return bench_chain_at(&r->chain, &info, place);
}

/* A thread that has the keeper start a server; meanwhile nobody else talks to that */
struct starting {
	struct rejoin *r;
	uint32_t index;
	int rc;
	_Atomic uint64_t up_ns; /* 0: not yet */
};

static void *start_run(void *arg)
{
	struct starting *starting = arg;

	starting->rc =
		bench_chain_server_start(&starting->r->chain, starting->index, starting->r->err);
	atomic_store(&starting->up_ns, ol_clock_ns());
	return NULL;
}

/* Pushing on until the server that is being started is a replica. Looked at once a gradient. */
static int push_on(struct rejoin *r, struct starting *starting, struct back *back)
{
	uint64_t bound_ns = back->start_ns + MEND_MS * OL_NS_PER_MS;
	int rc = 0;

	while (rc == 0 && back->replica_ns == 0) {
		struct ol_chain_info info = bench_chain_info(&r->chain);

		if (info.joining != 0 && back->joining_ns == 0)
			back->joining_ns = ol_clock_ns();
		if (info.count == r->conf.replicas)
			back->replica_ns = ol_clock_ns();
		else if (ol_clock_ns() >= bound_ns ||
			 (atomic_load(&starting->up_ns) != 0 && starting->rc != 0))
			rc = OL_E_NO_SERVER;
		if (rc == 0)
			rc = turn(r, &back->joining);
	}
	return rc;
}

static int come_back(struct rejoin *r, uint32_t index, struct back *back)
{
	struct starting starting = { .r = r, .index = index };
	pthread_t thread;
	int rc;

	back->joining = begin();
	back->start_ns = back->joining.from_ns;
	rc = -pthread_create(&thread, NULL, start_run, &starting);
	if (rc != 0)
		return rc;
	rc = push_on(r, &starting, back);
	pthread_join(thread, NULL);
	back->up_ns = atomic_load(&starting.up_ns);
	return starting.rc != 0 ? starting.rc : rc;
}

static int back_run(struct rejoin *r, struct back *back)
{
	uint64_t ns = (uint64_t)(r->conf.seconds * 1e9);
	struct ol_server_stat stat;
	int victim, rc = turns(r, ns, &back->before);

	if (rc != 0)
		return rc;
	victim = victim_of(r);
	if (victim < 0) {
		snprintf(r->err, sizeof(r->err), "a server was lost that nobody had killed");
		return OL_E_NO_SERVER;
	}
	kill(r->chain.servers[victim].pid, SIGKILL);
	rc = turns(r, r->conf.down_ns, &back->missing);
	if (rc == 0)
		rc = bench_chain_server_reap(&r->chain, (uint32_t)victim);
	if (rc == 0)
		rc = come_back(r, (uint32_t)victim, back);
	if (rc == 0)
		rc = turns(r, ns, &back->after);
	if (rc == 0)
		rc = bench_chain_server_stat(&r->chain, (uint32_t)victim, &stat);
	if (rc != 0)
		return rc;
	back->read_ns = stat.resync_ns;
	back->read_bytes = stat.resync_bytes;
	if (back->joining_ns == 0) /* between two looks */
		back->joining_ns = back->replica_ns;
	return 0;
}

static double ms(uint64_t from_ns, uint64_t to_ns)
{
	return (double)(to_ns - from_ns) / 1e6;
}

static void note(struct rejoin *r, uint64_t bytes, const struct back *b)
{
	double before = rate(&b->before), during = rate(&b->joining);

	printf(" %-10llu %-10.1f %-11.1f %-10.1f %-12.1f %-13.1f %-13.1f %-13.1f %-12.1f %-10.3f "
	       "%.1f\n",
	       (unsigned long long)bytes, ms(b->start_ns, b->up_ns), ms(b->start_ns, b->joining_ns),
	       (double)b->read_ns / 1e6, ms(b->start_ns, b->replica_ns), before, rate(&b->missing),
	       during, rate(&b->after), during / before, (double)b->joining.gap_ns / 1e6);
	fflush(stdout);
	json_array_append_new(
		json_object_get(r->report, "results"),
		json_pack("{s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
			  "bytes", (json_int_t)bytes, "up_ms", ms(b->start_ns, b->up_ns),
			  "joining_ms", ms(b->start_ns, b->joining_ns), "read_ms",
			  (double)b->read_ns / 1e6, "read_bytes", (json_int_t)b->read_bytes,
			  "replica_ms", ms(b->start_ns, b->replica_ns), "rate_before", before,
			  "rate_missing", rate(&b->missing), "rate_joining", during, "rate_after",
			  rate(&b->after), "joining_to_before", during / before, "gap_joining_ms",
			  (double)b->joining.gap_ns / 1e6, "gap_before_ms",
			  (double)b->before.gap_ns / 1e6));
}

static int size_run(struct rejoin *r, uint64_t bytes)
{
	uint32_t window = bench_window(WINDOW, bytes);
	struct bench_peer_opts opts;
	int rc = bench_chain_open(&r->chain, r->conf.replicas, bytes, window, r->err);

	if (rc != 0)
		return rc;
	opts = bench_chain_opts(&r->chain);
	rc = bench_client_open(&opts, NULL, bytes, window, CONNECT_TIMEOUT_MS, &r->client, r->err);
	for (uint32_t i = 0; i < r->conf.kills && rc == 0; i++) {
		struct back back = { 0 };

		rc = back_run(r, &back);
		if (rc == 0)
			note(r, bytes, &back);
	}
	bench_client_close(&r->client);
	bench_chain_close(&r->chain);
	return rc;
}

static void head_print(const struct rejoin *r)
{
	printf("# outlast bench rejoin: %s of %u servers is killed, and started again, empty, "
	       "%.1f s later\n",
	       places[r->conf.place].name, r->conf.replicas, (double)r->conf.down_ns / 1e9);
	bench_chain_print(&r->ends, r->cpus, r->conf.replicas, &r->chain);
	printf("# times from its start: up, joining, replica again; read: how long its weights "
	       "took. Gradients a second, each\n# committed and pulled by one worker: before, one "
	       "replica missing, joining, after\n"
	       " #bytes     up[ms]     joining[ms] read[ms]   replica[ms]  before[1/s]   "
	       "missing[1/s]  joining[1/s]  after[1/s]   joining/before  longest gap[ms]\n");
	fflush(stdout);
}

static int rejoin_run(struct rejoin *r)
{
	int rc = bench_chain_ends(&r->conf.chain, &r->ends, r->cpus, r->err);

	if (rc == 0)
		rc = bench_chain_start(&r->ends.opts, r->cpus, &r->chain, r->err);
	if (rc != 0)
		return rc;
	r->report = bench_chain_report("rejoin", &r->ends, r->cpus, &r->chain);
	json_object_set_new(r->report, "replicas", json_integer(r->conf.replicas));
	json_object_set_new(r->report, "target", json_string(places[r->conf.place].name));
	json_object_set_new(r->report, "down_s", json_real((double)r->conf.down_ns / 1e9));
	json_object_set_new(r->report, "results", json_array());
	head_print(r);
	for (unsigned i = 0; i < r->sizes.count && rc == 0; i++)
		rc = size_run(r, r->sizes.bytes[i]);
	if (rc == 0)
		rc = bench_report_write(&r->conf.chain.place, r->report, r->err);
	json_decref(r->report);
	bench_chain_stop(&r->chain);
	return rc;
}

static int conf_check(struct rejoin *r, struct ol_conf *conf)
{
	if (bench_sizes_parse(r->conf.size, &r->sizes, r->err, sizeof(r->err)) != 0)
		return ol_conf_fail(conf, "size", r->err);
	if (r->conf.place == PLACE_MIDDLE && r->conf.replicas < 3)
		return ol_conf_fail(conf, "target", "needs --replicas 3 or more to have a middle");
	return 0;
}

int bench_rejoin(int argc, char **argv)
{
	static const struct ol_conf_spec spec = {
		.program = "outlast bench rejoin",
		.purpose = "A lost server of a chain comes back while pushes go on: how long it "
			   "takes, and what the pushes pay.",
		.examples = "  outlast bench rejoin --size 3M,256M --kills 3\n"
			    "  outlast bench rejoin --size 3M --target tail --down 500ms\n",
		.fields = fields,
		.field_count = sizeof(fields) / sizeof(fields[0]),
	};
	static struct rejoin r;
	struct ol_conf *conf;
	int code, rc;

	if (bench_conf_load(&spec, &r.conf, argc, argv, &conf, &code) == 0) {
		if (conf_check(&r, conf) != 0) {
			fprintf(stderr, "%s\n", ol_conf_error(conf));
			code = OL_EXIT_USAGE;
		} else {
			rc = rejoin_run(&r);
			code = rc == 0 ? OL_EXIT_OK : bench_fail("rejoin", rc, r.err);
		}
	}
	ol_conf_destroy(conf);
	return code;
}
