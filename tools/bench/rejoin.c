/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rejoin.c -- `outlast bench rejoin`: a lost server comes back while pushes go on
 *
 * One worker pushes, waits until the push is committed, and pulls, over and over. A server is
 * killed, stays away for --down, and is started again, empty. Times count from its start:
 *
 *	up        it listens (its memory is ready, it is registered)
 *	joining   it is in the view, behind the tail, and begins to read the tail's weights
 *	read      it has read them (as it reports: how long that took)
 *	replica   a view has it as a full replica again: the tail
 *
 * Rates are gradients a second: before the loss; while one replica is missing; from the start of
 * the new server until it is a replica; after that. The longest gap is between two commits.
 */

#include <errno.h>
#include <signal.h>

#include "base/clock.h"
#include "bench/bench.h"

enum {
	WINDOW = 4,
	MEND_MS = 120000,
};

struct rejoin_conf {
	struct bench_chain_conf chain;
	const char *size;
	uint32_t replicas;
	uint32_t kills;
	double seconds;
	uint64_t down; /* ns */
	int target; /* enum bench_role */
};

static const struct ol_conf_field fields[] = {
	OL_ROW_GROUP("what"),
	OL_ROW_STR(rejoin_conf, size, "3M,256M", "bytes of the model: one, or a list (-s)"),
	OL_ROW_U32(rejoin_conf, replicas, "3", 2, OL_CHAIN_MAX, "servers of the chain"),
	OL_ROW_U32(rejoin_conf, kills, "3", 1, 10000, "how often, for each size"),
	OL_ROW_CHOICE(rejoin_conf, target, "middle", bench_roles,
		      "who is lost, by its role at that moment; it comes back as the tail"),
	OL_ROW_DURATION(rejoin_conf, down, "2s", 0, 0, "how long it stays away"),
	OL_ROW_F64(rejoin_conf, seconds, "3", 0.01, 3600,
		   "over which the rate before, and after, is taken"),
	BENCH_CHAIN_FIELDS_OF("false", "5000"),
	BENCH_PLACE_FIELDS_OF("none", "50"),
};

static struct rejoin {
	struct bench_run run;
	struct rejoin_conf conf;
} rejoin;

/* Gradients over a stretch of time */
struct stretch {
	uint64_t from_ns;
	uint64_t to_ns; /* the last commit */
	uint64_t grads;
	uint64_t gap_ns; /* longest between two commits */
};

/* Commit a gradient, and pull the weights */
static int turn(struct bench_run *run, struct stretch *s)
{
	int rc = bench_push_step(&run->client);
	uint64_t now_ns = ol_clock_ns();

	if (rc == 0)
		rc = bench_pull_step(&run->client);
	if (now_ns - s->to_ns > s->gap_ns)
		s->gap_ns = now_ns - s->to_ns;
	s->to_ns = now_ns;
	s->grads++;
	return rc;
}

static struct stretch stretch_begin(void)
{
	uint64_t now_ns = ol_clock_ns();

	return (struct stretch){ .from_ns = now_ns, .to_ns = now_ns };
}

static int turns(struct bench_run *run, uint64_t ns, struct stretch *ret_stretch)
{
	struct stretch s = stretch_begin();
	int rc = 0;

	while (rc == 0 && s.to_ns - s.from_ns < ns)
		rc = turn(run, &s);
	*ret_stretch = s;
	return rc;
}

static double rate(const struct stretch *s)
{
	return s->to_ns > s->from_ns ? (double)s->grads * 1e9 / (double)(s->to_ns - s->from_ns)
				     : 0.0;
}

/* The measurements of one loss and return */
struct back {
	struct stretch before;
	struct stretch missing; /* one replica is missing */
	struct stretch joining; /* the new replica is brought up to date */
	struct stretch after;
	uint64_t start_ns;
	uint64_t up_ns;
	uint64_t joining_ns;
	uint64_t replica_ns;
	uint64_t read_ns; /* how long */
	uint64_t read_bytes;
};

/* Push until the server that is being started is a replica. Its state is read once a gradient. */
static int push_on(struct bench_run *run, uint32_t index, struct back *back)
{
	uint64_t bound_ns = back->start_ns + MEND_MS * OL_NS_PER_MS;
	int rc = 0;

	while (rc == 0 && back->replica_ns == 0) {
		struct ol_chain_info info = bench_chain_info(&run->chain);

		rc = bench_chain_server_ready(&run->chain, index, false, run->err);
		rc = rc == -EAGAIN ? 0 : rc;
		if (info.joining != 0 && back->joining_ns == 0)
			back->joining_ns = ol_clock_ns();
		if (info.count == rejoin.conf.replicas)
			back->replica_ns = ol_clock_ns();
		else if (rc == 0 && ol_clock_ns() >= bound_ns)
			rc = OL_E_NO_SERVER;
		if (rc == 0)
			rc = turn(run, &back->joining);
	}
	return rc != 0 ? rc : bench_chain_server_ready(&run->chain, index, true, run->err);
}

static int come_back(struct bench_run *run, uint32_t index, struct back *back)
{
	int rc;

	ol_proc_fini(&run->chain.servers[index].proc);
	back->start_ns = ol_clock_ns();
	rc = bench_chain_server_start(&run->chain, index, run->err);
	back->joining = stretch_begin();
	if (rc == 0)
		rc = push_on(run, index, back);
	back->up_ns = run->chain.servers[index].ready_ns;
	return rc;
}

static int back_run(struct bench_run *run, struct back *back)
{
	uint64_t ns = (uint64_t)(rejoin.conf.seconds * 1e9);
	struct ol_chain_info info;
	struct ol_server_stat stat;
	int victim, rc = turns(run, ns, &back->before);

	if (rc != 0)
		return rc;
	info = bench_chain_info(&run->chain);
	victim = bench_role_server(run, &info, rejoin.conf.target);
	if (victim < 0) {
		snprintf(run->err, sizeof(run->err), "a server was lost that nobody had killed");
		return OL_E_NO_SERVER;
	}
	ol_proc_kill(&run->chain.servers[victim].proc, SIGKILL);
	rc = turns(run, rejoin.conf.down, &back->missing);
	if (rc == 0)
		rc = come_back(run, (uint32_t)victim, back);
	if (rc == 0)
		rc = turns(run, ns, &back->after);
	if (rc == 0)
		rc = bench_chain_server_stat(&run->chain, (uint32_t)victim, &stat);
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

static void note(struct bench_run *run, uint64_t bytes, const struct back *b)
{
	double before = rate(&b->before), during = rate(&b->joining);

	printf(" %-10llu %-10.1f %-11.1f %-10.1f %-12.1f %-13.1f %-13.1f %-13.1f %-12.1f %-10.3f "
	       "%.1f\n",
	       (unsigned long long)bytes, ms(b->start_ns, b->up_ns), ms(b->start_ns, b->joining_ns),
	       (double)b->read_ns / 1e6, ms(b->start_ns, b->replica_ns), before, rate(&b->missing),
	       during, rate(&b->after), during / before, (double)b->joining.gap_ns / 1e6);
	fflush(stdout);
	json_array_append_new(
		json_object_get(run->report, "results"),
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

static int size_run(struct bench_run *run, uint64_t bytes)
{
	int rc = bench_servers_open(run, rejoin.conf.replicas, bytes, bench_window(WINDOW, bytes));

	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < rejoin.conf.kills && rc == 0; i++) {
		struct back back = { 0 };

		rc = back_run(run, &back);
		if (rc == 0)
			note(run, bytes, &back);
	}
	return bench_servers_close(run, rc);
}

static void begin(struct bench_run *run)
{
	const char *role = bench_roles[rejoin.conf.target].name;
	double down_s = (double)rejoin.conf.down / 1e9;

	printf("# outlast bench rejoin: %s of %u servers is killed, and started again, empty, "
	       "%.1f s later\n",
	       role, rejoin.conf.replicas, down_s);
	bench_chain_print(run, rejoin.conf.replicas);
	printf("# times from its start: up, joining, replica again; read: how long its weights "
	       "took. Gradients a second, each\n# committed and pulled by one worker: before, one "
	       "replica missing, joining, after\n"
	       " #bytes     up[ms]     joining[ms] read[ms]   replica[ms]  before[1/s]   "
	       "missing[1/s]  joining[1/s]  after[1/s]   joining/before  longest gap[ms]\n");
	json_object_update_new(run->report, json_pack("{s:I, s:s, s:f, s:[]}", "replicas",
						      (json_int_t)rejoin.conf.replicas, "target",
						      role, "down_s", down_s, "results"));
}

static int check(struct bench_run *run, struct ol_conf *conf)
{
	int rc = bench_sizes_take(run, conf, rejoin.conf.size);

	return rc != 0 ? rc : bench_role_check(conf, rejoin.conf.target, rejoin.conf.replicas);
}

const struct bench_measure bench_rejoin = {
	.name = "rejoin",
	.summary = "a lost server comes back: until it is a replica again, and what that costs",
	.purpose = "A lost server of a chain comes back while pushes go on: how long it takes, and "
		   "what the pushes pay.",
	.examples = "  outlast bench rejoin --size 3M,256M --kills 3\n"
		    "  outlast bench rejoin --size 3M --target tail --down 500ms\n",
	.fields = OL_FIELDS(fields),
	.conf = &rejoin.conf,
	.run = &rejoin.run,
	.chain = true,
	.check = check,
	.begin = begin,
	.size = size_run,
};
