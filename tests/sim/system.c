/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * system.c -- the whole system, in one thread from a seed, keeps its promises whatever fails
 *
 *	sim-system                      seeds that once failed; every mutation; SEEDS others
 *	sim-system --seed N [--trace]   one of them
 *	sim-system --seeds A..B         these; --go-on: also after a failure
 *	sim-system --mutate NAME        seeds until a mutation of the product is found
 *
 * Servers, workers, chains and the outage queue are the product's own; the transport, the
 * coordinator, the clock and memory are simulated (world/sim.h). Runs are made in a child process:
 * if that dies, its seed is known.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "sim/world/check.h"
#include "sim/world/cluster.h"
#include "sim/world/coord.h"
#include "sim/world/disk.h"
#include "sim/world/fault.h"
#include "sim/world/lasting.h"
#include "sim/world/mutate.h"
#include "sim/world/net.h"
#include "sim/world/operator.h"
#include "sim/world/sim.h"

enum {
	SEEDS = 1000, /* without arguments … */
	SEEDS_SLOW = 100, /* … and where a sanitizer watches */
	SEEDS_BLIPS = 150, /* of nothing but moments without a network */
	SEEDS_BLIPS_SLOW = 30,
	TWICE_SEEDS = 10, /* are run twice: the same seed is the same history, traced or not */
	MUTATE_SEEDS = 3000, /* within so many a mutation is to be found */
	OUTSIDE_SEEDS = 300,
	PROGRESS_SEEDS = 1000, /* between two lines */
	TAIL_LINES = 60, /* of the trace, of a run that failed */
	LINE_BYTES = 240,
	EXCUSE_RUNS = 500, /* so many show how often runs excuse themselves … */
	DOOMED_MAX = 15, /* … in 1,000: a chain was lost whole … */
	EXCUSED_MAX = 300, /* … or a push that was done need not be there */
	TEXT_BYTES = 512,
};

#define MEMORY_MAX (UINT64_C(2) << 30) /* of a child */

/* Seeds that found something, once; age: less was drawn from them then (enum cluster_age) */
static const struct {
	uint64_t seed;
	unsigned age;
} kept[] = { { 566, 1 },      { 687, 1 },      { 2292, 1 },     { 3785, 1 },     { 7035, 1 },
	     { 33, 1 },       { 61, 2 },       { 101, 2 },      { 5414, 2 },     { 26087, 3 },
	     { 13121, 4 },    { 174, 6 },      { 190, 6 },      { 210, 6 },      { 2049, 6 },
	     { 566, 9 },      { 2075760, 9 },  { 3350015, 10 }, { 3374079, 10 }, { 8003449, 12 },
	     { 9200707, 12 }, { 9300479, 12 }, { 9302015, 12 }, { 862, 12 },     { 9505308, 20 },
	     { 9437131, 20 }, { 9409958, 20 }, { 9603996, 20 }, { 317, 22 },     { 1217, 22 },
	     { 3376, 22 },    { 7659, 22 },    { 15674, 22 },   { 2501, 23 },    { 21413, 23 },
	     { 26468, 23 },   { 4444, 23 },    { 15123, 26 },   { 31929, 26 },   { 144066, 26 },
	     { 2620, 27 } };

/* What a child tells, up to its last moment */
struct report {
	uint64_t seed;
	uint64_t runs;
	uint64_t doomed; /* of these a chain was lost whole … */
	uint64_t excused; /* … and these need not have every push that was done (check_done) */
	uint64_t checks;
	uint64_t virtual_ns;
	uint64_t digest;
	bool failed;
	char failure[TEXT_BYTES];
	char scenario[TEXT_BYTES];
	char faults[TEXT_BYTES];
	uint64_t lines;
	char tail[TAIL_LINES][LINE_BYTES];
};

static struct report *report;

static void tail_add(const char *line)
{
	snprintf(report->tail[report->lines++ % TAIL_LINES], LINE_BYTES, "%s", line);
}

static void log_line(void *arg, enum ol_log_level level, const char *text)
{
	(void)arg;
	sim_say("[%s] %s", ol_log_level_str(level), text);
}

/* ---- one run ---- */

static void storm_over(void *arg, uint64_t tag)
{
	(void)arg;
	(void)tag;
	fault_end();
	lasting_begin();
	cluster_calm();
}

static void play(void)
{
	uint64_t bound_ns = sim_now() + cluster.scenario.storm_ns + cluster.scenario.heal_ns;
	uint64_t steps = 0;
	char state[TEXT_BYTES];

	while (sim_step()) {
		if (++steps % 64 != 0)
			continue;
		if (cluster_done())
			return;
		cluster.doomed = check_doom();
		if (cluster.doomed)
			return;
		if (sim_now() > bound_ns) {
			cluster_state(state, sizeof(state));
			sim_fail("check_converged", "%" PRIu64 " ms after the last fault: %s",
				 cluster.scenario.heal_ns / SIM_MS, state);
		}
	}
}

struct range {
	uint64_t first;
	uint64_t last;
	unsigned seconds; /* 0: to the last */
	bool trace;
	bool tail; /* the trace goes into the report */
	bool calm;
	bool blips; /* nothing but moments without a network */
	unsigned age;
	bool go_on; /* also behind seeds that fail, telling how far it is */
};

/* True: all is well */
static bool run_seed(uint64_t seed, bool trace, const struct range *range)
{
	report->seed = seed;
	ol_log_level_set(trace ? OL_LOG_DEBUG : OL_LOG_ERROR);
	sim_begin(seed, trace);
	net_begin();
	coord_begin();
	disk_begin();
	cluster_begin(seed, range->age);
	cluster_text(report->scenario, sizeof(report->scenario));
	sim_say("seed %" PRIu64 ": %s", seed, report->scenario);
	if (range->blips)
		fault_blips();
	else
		fault_begin(range->calm);
	if (!range->blips)
		operator_begin(seed);
	sim_at(cluster.scenario.storm_ns, storm_over, NULL, 0);
	play();
	fault_text(report->faults, sizeof(report->faults));
	report->failed = sim_failure() != NULL;
	if (report->failed)
		snprintf(report->failure, sizeof(report->failure), "%s", sim_failure());
	report->runs++;
	report->doomed += cluster.doomed;
	report->excused += cluster.excused;
	report->checks += cluster.checks;
	report->virtual_ns += sim_now() - 1000 * SIM_S;
	report->digest = sim_random() ^ sim_now();
	disk_end();
	sim_end();
	return !report->failed;
}

/* ---- many runs, in a child ---- */

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int child(const struct range *range)
{
	double end_s = now_s() + range->seconds;

	for (uint64_t seed = range->first; seed <= range->last; seed++) {
		if (!run_seed(seed, range->trace || range->tail, range))
			return 1;
		if (range->seconds != 0 && now_s() > end_s)
			break;
		if (range->go_on && seed % PROGRESS_SEEDS == 0) {
			printf("seed %" PRIu64 ": %" PRIu64 " runs so far\n", seed, report->runs);
			fflush(stdout);
		}
	}
	return 0;
}

/* 0: all is well */
static int in_child(const struct range *range)
{
	const struct rlimit limit = { .rlim_cur = MEMORY_MAX, .rlim_max = MEMORY_MAX };
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid == 0) {
		int rc;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!sim_is_slow()) /* their shadows are larger */
			setrlimit(RLIMIT_AS, &limit);
		sim_trace_to(range->tail ? tail_add : NULL);
		rc = child(range);
		fflush(stdout);
		_exit(rc);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
		return WEXITSTATUS(status);
	snprintf(report->failure, sizeof(report->failure), "the run died: %s %d",
		 WIFSIGNALED(status) ? "signal" : "exit",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return 2;
}

static void tail_show(uint64_t seed, const struct range *range)
{
	struct range again = *range;
	char failure[TEXT_BYTES];

	again.first = again.last = seed;
	again.tail = true;
	again.seconds = 0;
	memcpy(failure, report->failure, sizeof(failure));
	report->lines = 0;
	in_child(&again);
	printf("seed %" PRIu64 ": %s\n  faults: %s\n", seed, report->scenario, report->faults);
	for (uint64_t i = report->lines > TAIL_LINES ? report->lines - TAIL_LINES : 0;
	     i < report->lines; i++)
		printf("%s\n", report->tail[i % TAIL_LINES]);
	printf("seed %" PRIu64 " FAILED: %s\n", seed, failure);
}

/* 0: few enough runs end without having shown everything, of these */
static int excuses_check(uint64_t runs, uint64_t doomed, uint64_t excused)
{
	printf("%" PRIu64 " lost a whole chain (at most %u in 1,000), %" PRIu64
	       " need not have all that was done (at most %u)\n",
	       doomed, DOOMED_MAX, excused, EXCUSED_MAX);
	if (runs < EXCUSE_RUNS ||
	    (doomed * 1000 <= runs * DOOMED_MAX && excused * 1000 <= runs * EXCUSED_MAX))
		return 0;
	printf("FAILED: too many runs excuse themselves\n");
	return 1;
}

/* 0: no seed of the range failed */
static int run_range(const struct range *range)
{
	struct range rest = *range;
	double start_s = now_s();
	uint64_t runs = report->runs, doomed = report->doomed, excused = report->excused;
	uint64_t failures = 0;

	/* traced: in this process, which is good for a debugger */
	while ((range->trace ? child(&rest) : in_child(&rest)) != 0) {
		rest.first = report->seed + 1;
		failures++;
		if (range->trace)
			printf("seed %" PRIu64 " FAILED: %s\n", report->seed, report->failure);
		else
			tail_show(report->seed, range);
		if (!range->go_on || rest.first > range->last)
			break;
	}
	if (failures != 0 && !range->go_on)
		return 1;
	printf("%" PRIu64 " runs, %" PRIu64 " failed, %.1f a second; %" PRIu64
	       " checks, %.0f virtual seconds\n",
	       report->runs - runs, failures, (double)(report->runs - runs) / (now_s() - start_s),
	       report->checks, (double)report->virtual_ns / 1e9);
	return failures != 0 || excuses_check(report->runs - runs, report->doomed - doomed,
					      report->excused - excused) != 0;
}

static int run_twice(void)
{
	for (uint64_t seed = 1; seed <= TWICE_SEEDS; seed++) {
		struct range one = { .first = seed, .last = seed, .age = CLUSTER_AGE_NOW };
		uint64_t digest;

		if (run_range(&one) != 0)
			return 1;
		digest = report->digest;
		one.tail = true;
		if (run_range(&one) != 0)
			return 1;
		if (digest != report->digest) {
			printf("seed %" PRIu64 " is not the same history twice\n", seed);
			return 1;
		}
	}
	return 0;
}

/* What the product did when programs that knew nothing of it found it wrong, and what shows that:
 * it is found with this seed or a few later, and that seed is well without it. What the product
 * does otherwise moves its moments, so that one seed alone would be found no more now and then. */
static const struct {
	enum mutation mutation;
	uint64_t seed;
	unsigned age;
} outside[] = {
	{ MUTATE_SHARED_BUFFERS, 322, 12 },  { MUTATE_NO_WITHDRAW, 384, 13 },
	{ MUTATE_NEWCOMER_COUNTS, 137, 12 }, { MUTATE_ANY_MIRROR, 10, 10 },
	{ MUTATE_FORGETS, 17, 10 },          { MUTATE_SESSION_LONG, 2649, 12 },
	{ MUTATE_ADMIT_IN_LOOP, 335, 10 },   { MUTATE_ADMIT_IN_LOOP, 532, 12 },
	{ MUTATE_ONE_NUMBERING, 2481, 15 },
};

/* Where the search begins for what one seed in a thousand finds; and the age, where what it takes is rarer
 * still in all that is drawn now */
static const struct {
	uint64_t after;
	unsigned age; /* 0: now */
} searches[MUTATE_COUNT] = {
	[MUTATE_NO_PIN] = { 2340, 0 },
	[MUTATE_NO_BLOCK_CRC] = { 1510, 0 },
	[MUTATE_ONE_NUMBERING] = { 4765, 0 },
	[MUTATE_NEWCOMER_COUNTS] = { 90, 0 },
	[MUTATE_SHARED_BUFFERS] = { 450, 0 },
	[MUTATE_NO_WITHDRAW] = { 310, 0 },
	[MUTATE_SESSION_LONG] = { 880, 12 },
	[MUTATE_SESSION_FOR_EVER] = { 9060, 0 },
	[MUTATE_NO_PLACE] = { 4870, CLUSTER_AGE_DECIDED },
	[MUTATE_OLDER_EPOCH] = { 10440, 0 },
	[MUTATE_NO_FENCE] = { 7200, 0 },
	[MUTATE_ORDER_BLIND] = { 2680, CLUSTER_AGE_ORDERS },
	[MUTATE_NO_CRC] = { 740, 0 },
	[MUTATE_EARLY_TAIL] = { 340, 0 },
	[MUTATE_BOTH_COPIES] = { 1020, 0 },
	[MUTATE_ANSWERS_OVER] = { 8880, CLUSTER_AGE_ORDERS },
	[MUTATE_NO_ORPHANS] = { 2770, 0 },
	[MUTATE_FIRST_SHARD_FIRST] = { 16560, 0 },
	[MUTATE_LEFT_COUNTS] = { 8940, CLUSTER_AGE_DELTAS },
	[MUTATE_NO_INTRODUCTION] = { 3370, CLUSTER_AGE_DELTAS },
	[MUTATE_LENDS_ALL] = { 710, 0 },
	[MUTATE_LENDS_ANY] = { 860, 0 },
	[MUTATE_CARRIED_DIES] = { 2770, 0 },
};

/* 0: it was found */
static int run_mutation(enum mutation mutation)
{
	const unsigned age = searches[mutation].age;
	struct range range = { .first = searches[mutation].after + 1,
			       .last = searches[mutation].after + MUTATE_SEEDS,
			       .blips = mutate_needs_blips(mutation),
			       .age = age != 0 ? age : CLUSTER_AGE_NOW };

	mutate_set(mutation);
	if (in_child(&range) == 0) {
		printf("%-16s not found in %u seeds\n", mutate_name(mutation), MUTATE_SEEDS);
		return 1;
	}
	printf("%-16s found with seed %" PRIu64 ": %.160s\n", mutate_name(mutation), report->seed,
	       report->failure);
	mutate_set(MUTATE_NOTHING);
	return 0;
}

/* 0: with each fault its seed fails, and without it is well */
static int run_outside(void)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(outside) / sizeof(outside[0]); i++) {
		struct range one = { .first = outside[i].seed,
				     .last = outside[i].seed + OUTSIDE_SEEDS,
				     .age = outside[i].age };

		mutate_set(outside[i].mutation);
		if (in_child(&one) == 0) {
			printf("%s is not found with seed %" PRIu64 " or %d later\n",
			       mutate_name(outside[i].mutation), outside[i].seed, OUTSIDE_SEEDS);
			rc = 1;
		}
		mutate_set(MUTATE_NOTHING);
		one.first = one.last = report->seed;
		rc |= run_range(&one);
	}
	return rc;
}

static int run_mutations(const char *name)
{
	int rc = 0;

	for (unsigned i = MUTATE_NOTHING + 1; i < MUTATE_COUNT; i++) {
		if (strcmp(name, "all") == 0 || strcmp(name, mutate_name(i)) == 0)
			rc |= run_mutation((enum mutation)i);
	}
	return rc;
}

static int usage(void)
{
	fprintf(stderr, "usage: sim-system [--seed N | --seeds A..B] [--trace] [--calm|--blips] "
			"[--age N] [--go-on] [--mutate NAME|all] [--seconds N]\n");
	return 2;
}

static int run_blips(void)
{
	struct range blips = {
		.first = 1,
		.last = sim_is_slow() ? SEEDS_BLIPS_SLOW : SEEDS_BLIPS,
		.blips = true,
		.age = CLUSTER_AGE_NOW,
	};

	return run_range(&blips);
}

static int run_kept(void)
{
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		struct range one = { .first = kept[i].seed,
				     .last = kept[i].seed,
				     .age = kept[i].age };

		if (run_range(&one) != 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct range range = { .first = 1,
			       .last = sim_is_slow() ? SEEDS_SLOW : SEEDS,
			       .age = CLUSTER_AGE_NOW };
	const char *mutate = NULL;
	bool chosen = false, timed = false;

	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (report == MAP_FAILED)
		return 1;
	ol_log_sink_set(log_line, NULL);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--trace") == 0) {
			range.trace = true;
		} else if (strcmp(argv[i], "--calm") == 0) {
			range.calm = true;
		} else if (strcmp(argv[i], "--blips") == 0) {
			range.blips = true;
		} else if (strcmp(argv[i], "--go-on") == 0) {
			range.go_on = true;
		} else if (strcmp(argv[i], "--age") == 0 && i + 1 < argc) {
			range.age = (unsigned)strtoul(argv[++i], NULL, 10);
		} else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			range.first = range.last = strtoull(argv[++i], NULL, 10);
			chosen = true;
		} else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc &&
			   sscanf(argv[++i], "%" SCNu64 "..%" SCNu64, &range.first, &range.last) ==
				   2) {
			chosen = true;
		} else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
			range.seconds = (unsigned)strtoul(argv[++i], NULL, 10);
			timed = true;
		} else if (strcmp(argv[i], "--mutate") == 0 && i + 1 < argc) {
			mutate = argv[++i];
		} else {
			return usage();
		}
	}
	if (mutate != NULL && strcmp(mutate, "all") == 0)
		return run_mutations(mutate);
	if (mutate != NULL) {
		if (mutate_find(mutate) == MUTATE_COUNT)
			return usage();
		if (!chosen)
			return run_mutations(mutate);
		mutate_set(mutate_find(mutate));
	}
	if (timed && !chosen)
		range.last = UINT64_MAX;
	if (timed || chosen)
		return run_range(&range);
	/* what is found does not depend on how it is compiled: once is enough */
	return run_kept() != 0 || run_twice() != 0 || run_blips() != 0 ||
	       (!sim_is_slow() && (run_outside() != 0 || run_mutations("all") != 0)) ||
	       run_range(&range) != 0;
}
