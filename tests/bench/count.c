/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * count.c -- what one push, one pull and one commit cost, counted: instructions, posts, cache lines
 *
 *	bench-count [--ops N] [--case NAME] [--functions N] [--limits FILE] [--json FILE]
 *	            [--transport NAME --listen ADDR]
 *
 * A worker and its servers are coroutines of one thread, over the transport itself: who finds no event
 * hands on to the next. So the count is the same in every run: nobody waits, and only polls that gave
 * an event are counted. The clock is another one, of 40 ns a look; the update rules are those for any
 * processor. Each figure is the median over --ops operations, so what happens now and then (a look at
 * sockets, a heartbeat) is not in it.
 */

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/folder.h"
#include "bench/host.h"
#include "outlast.h"
#include "outlast_server.h"
#include "rdma/transport.h"
#include "store/kernels.h"
#include "support/steps.h"
#include "support/wrap.h"

enum {
	SERVERS_MAX = 3,
	SIDES_MAX = 1 + SERVERS_MAX, /* the worker is side 0 */
	OPS_MAX = 10000,
	WARMUP = 32, /* operations that are not counted */
	STACK_BYTES = 1 << 20,
	LOOK_NS = 40, /* a look at the clock */
	SPIN_US = 1000 * 1000 * 1000, /* nobody sleeps */
	PAUSE_MS = 1,
	ROUNDS_MAX = 10000, /* of all sides without an event: something is stuck */
	LINE = 64
};

/* What an operation costs one side */
enum figure {
	INSTRUCTIONS,
	CALLS, /* of the system */
	LOOKS, /* at the clock */
	WRITES, /* posted */
	READS,
	BELLS, /* writes that ring */
	EVENTS, /* taken: bells and completions */
	LINES, /* of cache, that it writes for a peer or reads of one */
	FIGURES
};

static const char *const figure_names[FIGURES] = { "instructions", "calls", "looks",  "writes",
						   "reads",        "bells", "events", "lines" };

struct job {
	const char *name;
	uint64_t bytes;
	uint32_t replicas; /* 0: a server without a chain */
	bool pulls;
};

static const struct job jobs[] = {
	{ .name = "push", .bytes = 64 },
	{ .name = "push-4K", .bytes = 4096 },
	{ .name = "pull", .bytes = 64, .pulls = true },
	{ .name = "commit-1", .bytes = 64, .replicas = 1 },
	{ .name = "commit-2", .bytes = 64, .replicas = 2 },
	{ .name = "commit-3", .bytes = 64, .replicas = 3 },
};

enum {
	JOBS = sizeof(jobs) / sizeof(jobs[0])
};

static struct {
	unsigned ops;
	unsigned functions;
	const char *only;
	const char *limits;
	const char *json;
	const char *transport;
	const char *listen;
} set = { .ops = 11, .transport = "shm", .listen = "@" };

struct side {
	ucontext_t context;
	struct ol_server *server;
	void *stack;
	bool ended;
	uint64_t sum[FIGURES]; /* of the operation under way */
	uint32_t samples[FIGURES][OPS_MAX];
};

static struct side sides[SIDES_MAX];
static unsigned side_count, now; /* which one runs */
static bool counting;
static bool moved; /* an event was taken */
static struct steps steps; /* since count_on() */
static const struct ol_xport_ops *real;
static struct ol_xport_ops wrapped;
static uint64_t shim
	[FIGURES]; /* instructions that this program's own functions leave in a count: a look's, a post's,
				  a poll's */
static uint64_t clock_ns; /* 0: the system's clock is good enough yet */
static pthread_t thread;

static void count_on(void)
{
	if (!counting)
		return;
	steps = (struct steps){ 0 };
	steps_start(&steps);
}

/* Give up what was counted since, or add it to the side */
static void count_off(bool keep)
{
	if (!counting)
		return;
	steps_stop();
	if (!keep)
		return;
	steps_keep();
	sides[now].sum[INSTRUCTIONS] += steps.instructions;
	sides[now].sum[CALLS] += steps.calls;
}

static void add(enum figure figure, uint64_t by)
{
	if (counting)
		sides[now].sum[figure] += by;
}

/* Let the next side run that has not ended */
static void hand_on(void)
{
	const unsigned from = now;

	do {
		now = (now + 1) % side_count;
	} while (sides[now].ended);
	if (now != from)
		swapcontext(&sides[from].context, &sides[now].context);
}

WRAP(int, clock_gettime, clockid_t id, struct timespec *ret_now)
{
	if (clock_ns == 0 || !pthread_equal(pthread_self(), thread))
		return __real_clock_gettime(id, ret_now);
	count_off(true);
	add(LOOKS, 1);
	sides[now].sum[INSTRUCTIONS] -= shim[LOOKS];
	clock_ns += LOOK_NS;
	ret_now->tv_sec = (time_t)(clock_ns / 1000000000);
	ret_now->tv_nsec = (long)(clock_ns % 1000000000);
	count_on();
	return 0;
}

WRAP(const struct ol_kernels *, ol_kernels_best, void)
{
	return ol_kernels_at(0);
}

static uint64_t lines_of(uint64_t addr, uint64_t bytes)
{
	return bytes == 0 ? 0 : (addr % LINE + bytes + LINE - 1) / LINE;
}

static uint64_t bytes_of(const struct ol_xport_seg *segs, unsigned count)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += segs[i].bytes;
	return bytes;
}

static int no_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	(void)conn;
	(void)write;
	return 0;
}

static int no_read(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	(void)conn;
	(void)read;
	return 0;
}

static int one_event(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	(void)xport;
	(void)events;
	(void)max;
	return 1;
}

static int write_count(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	const bool rings = (write->flags & OL_XPORT_DOORBELL) != 0;

	count_off(true);
	add(WRITES, 1);
	sides[now].sum[INSTRUCTIONS] -= shim[WRITES];
	add(BELLS, rings);
	add(LINES, rings + lines_of(write->dst.addr + write->dst_off,
				    bytes_of(write->segs, write->seg_count)));
	count_on();
	return real->post_write(conn, write);
}

static int read_count(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	count_off(true);
	add(READS, 1);
	sides[now].sum[INSTRUCTIONS] -= shim[READS];
	add(LINES, lines_of(read->src.addr + read->src_off, bytes_of(read->segs, read->seg_count)));
	count_on();
	return real->post_read(conn, read);
}

static int poll_count(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	int count;

	count_off(true);
	for (unsigned rounds = 0;; rounds++) {
		count_on();
		count = real->poll(xport, events, max);
		count_off(count != 0);
		if (count != 0)
			break;
		hand_on();
		if (!counting)
			return 0;
		if (rounds > SIDES_MAX) /* an adapter is at work; each poll takes long to count */
			(void)poll(NULL, 0, PAUSE_MS);
		if (rounds == ROUNDS_MAX) {
			fprintf(stderr, "bench-count: an operation does not end\n");
			exit(1);
		}
	}
	moved = true;
	if (count > 0)
		add(EVENTS, (uint64_t)count);
	sides[now].sum[INSTRUCTIONS] -= shim[EVENTS];
	count_on();
	return count;
}

static uint64_t shim_of(void (*call)(void))
{
	sides[now].sum[INSTRUCTIONS] = 0;
	counting = true;
	count_on();
	call();
	count_off(true);
	counting = false;
	return sides[now].sum[INSTRUCTIONS];
}

static void call_nothing(void)
{
}

static void call_clock(void)
{
	struct timespec ignored;

	clock_gettime(CLOCK_MONOTONIC, &ignored);
}

static void call_write(void)
{
	static const struct ol_xport_write write;

	write_count(NULL, &write);
}

static void call_read(void)
{
	static const struct ol_xport_read read;

	read_count(NULL, &read);
}

static void call_poll(void)
{
	poll_count(NULL, NULL, 1);
}

/* What this program's own functions add, beside a call that does nothing */
static void shim_measure(void)
{
	static const struct ol_xport_ops nothing = { .post_write = no_write,
						     .post_read = no_read,
						     .poll = one_event };
	uint64_t bare = shim_of(call_nothing);

	real = &nothing;
	clock_ns = 1;
	shim[LOOKS] = shim_of(call_clock) - bare;
	shim[WRITES] = shim_of(call_write) - bare;
	shim[READS] = shim_of(call_read) - bare;
	shim[EVENTS] = shim_of(call_poll) - bare;
	clock_ns = 0;
}

WRAP(const struct ol_xport_ops *, ol_xport_find, const char *name)
{
	real = __real_ol_xport_find(name);
	if (real == NULL)
		return NULL;
	wrapped = *real;
	wrapped.post_write = write_count;
	wrapped.post_read = read_count;
	wrapped.poll = poll_count;
	return &wrapped;
}

static void serve(void)
{
	struct side *side = &sides[now];
	int rc = ol_server_run(side->server);

	if (rc != 0)
		fprintf(stderr, "bench-count: a server ends: %s\n", ol_strerror(rc));
	side->ended = true;
	for (;;)
		hand_on();
}

static int fail(const char *what)
{
	fprintf(stderr, "bench-count: %s\n", what);
	return -EIO;
}

/* One server of the job, as the next side */
static int server_start(const struct job *job, const char *coordinator)
{
	struct side *side = &sides[side_count];
	struct ol_server_opts opts;
	float weights[4096 / sizeof(float)] = { 0 };
	char err[256];

	ol_server_opts_init(&opts);
	opts.listen = set.listen;
	opts.transport = set.transport;
	opts.param_count = job->bytes / sizeof(float);
	opts.spin_us = SPIN_US;
	opts.lease_ms = 0; /* it stands still while others run */
	if (job->replicas > 0) {
		opts.coordinator = coordinator;
		opts.replicas = job->replicas;
		opts.rank = side_count - 1;
		opts.lease_ms = 60000;
	}
	if (ol_server_open(&opts, weights, &side->server, err, sizeof(err)) != 0)
		return fail(err);
	side->stack = malloc(STACK_BYTES);
	if (side->stack == NULL || getcontext(&side->context) != 0)
		return fail("no memory for a stack");
	side->context.uc_stack.ss_sp = side->stack;
	side->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&side->context, serve, 0);
	side_count++;
	return 0;
}

static void servers_stop(void)
{
	bool left = true;

	for (unsigned i = 1; i < side_count; i++)
		ol_server_stop(sides[i].server);
	while (left) {
		hand_on();
		left = false;
		for (unsigned i = 1; i < side_count; i++)
			left = left || !sides[i].ended;
	}
	for (unsigned i = 1; i < side_count; i++) {
		ol_server_close(sides[i].server);
		free(sides[i].stack);
	}
}

/* The worker, once all servers are in the chain */
static int worker_start(const struct job *job, const char *coordinator,
			struct ol_worker **ret_worker)
{
	struct ol_worker_opts opts;
	struct ol_chain_info info = { 0 };
	struct ol_chains *views = NULL;
	char err[256];

	ol_worker_opts_init(&opts);
	opts.transport = set.transport;
	opts.spin_us = SPIN_US;
	if (job->replicas == 0) {
		opts.servers = ol_server_addr(sides[1].server);
	} else {
		opts.coordinator = coordinator;
		opts.outage = OL_OUTAGE_WAIT;
		opts.lease_ms = 60000;
		if (ol_chains_open(coordinator, NULL, NULL, 1, 10000, &views, err, sizeof(err)) !=
		    0)
			return fail(err);
		while (info.count != job->replicas || info.joining != 0) {
			hand_on();
			(void)poll(NULL, 0, PAUSE_MS);
			(void)ol_chains_get(views, 0, &info);
		}
		ol_chains_close(views);
	}
	return ol_worker_open(&opts, ret_worker, err, sizeof(err)) == 0 ? 0 : fail(err);
}

static int operate(struct ol_worker *worker, const struct job *job)
{
	struct ol_op op = { .level = job->replicas > 0 ? OL_LEVEL_COMMITTED : OL_LEVEL_APPLIED };
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	const float *weights;
	float *grad;
	int rc;

	if (job->pulls) {
		rc = ol_pull(worker, 0, &op);
		return rc != 0 ? rc : ol_worker_wait(worker, &op);
	}
	rc = ol_grad_acquire(worker, &grad);
	if (rc != 0)
		return rc;
	weights = ol_weights(worker, &info.base_version);
	grad[0] = weights != NULL ? weights[0] : 1.0f;
	rc = ol_push(worker, grad, &info, &op);
	return rc != 0 ? rc : ol_worker_wait(worker, &op);
}

/* Until no side finds an event */
static void settle(void)
{
	do {
		moved = false;
		for (unsigned i = 0; i < 3; i++)
			hand_on();
	} while (moved);
}

static int count_one(struct ol_worker *worker, const struct job *job, unsigned index)
{
	struct ol_op op = { 0 };
	int rc;

	for (unsigned i = 0; i < side_count; i++)
		memset(sides[i].sum, 0, sizeof(sides[i].sum));
	counting = index < OPS_MAX;
	count_on();
	rc = operate(worker, job);
	count_off(true);
	settle();
	counting = false;
	for (unsigned i = 0; i < side_count && index < OPS_MAX; i++)
		for (unsigned k = 0; k < FIGURES; k++)
			sides[i].samples[k][index] = (uint32_t)sides[i].sum[k];
	/* a worker that waits for lost servers keeps a gradient until it has weights with it */
	if (rc == 0 && job->replicas > 0)
		rc = ol_pull(worker, 0, &op);
	if (rc == 0 && job->replicas > 0)
		rc = ol_worker_wait(worker, &op);
	return rc;
}

static int job_run(const struct job *job)
{
	struct ol_worker *worker = NULL;
	struct ol_folder folder = { .fd = -1 };
	char coordinator[OL_FOLDER_MAX + 8];
	int rc = 0;

	side_count = 1;
	clock_ns = 0;
	for (unsigned i = 0; i < SIDES_MAX; i++)
		sides[i].ended = false;
	if (job->replicas > 0)
		rc = ol_folder_make(&folder, "outlast-count-");
	snprintf(coordinator, sizeof(coordinator), "dir:%s", folder.path);
	for (uint32_t i = 0; rc == 0 && i < (job->replicas > 0 ? job->replicas : 1); i++)
		rc = server_start(job, coordinator);
	if (rc == 0)
		rc = worker_start(job, coordinator, &worker);
	if (rc == 0) {
		struct timespec start;

		__real_clock_gettime(CLOCK_MONOTONIC, &start);
		clock_ns = (uint64_t)start.tv_sec * 1000000000 + (uint64_t)start.tv_nsec;
	}
	for (unsigned i = 0; rc == 0 && i < WARMUP; i++)
		rc = count_one(worker, job, OPS_MAX);
	steps_note(set.functions > 0);
	for (unsigned i = 0; rc == 0 && i < set.ops; i++)
		rc = count_one(worker, job, i);
	steps_note(false);
	ol_worker_close(worker);
	clock_ns = 0;
	servers_stop();
	ol_folder_drop(&folder);
	return rc;
}

static int upwards(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint32_t median(struct side *side, enum figure figure)
{
	qsort(side->samples[figure], set.ops, sizeof(side->samples[figure][0]), upwards);
	return side->samples[figure][set.ops / 2];
}

static const char *side_name(const struct job *job, unsigned index)
{
	static const char *const of_chain[] = { "head", "middle", "tail" };

	if (index == 0)
		return "worker";
	if (job->replicas < 2)
		return "server";
	return index == job->replicas ? "tail" : of_chain[index - 1];
}

/* The most instructions that a file of limits allows; 0: it does not say */
static unsigned long limit_of(const char *job, const char *side)
{
	FILE *file = fopen(set.limits, "re");
	char line[128], name[32], of[32];
	unsigned long found = 0, limit;

	if (file == NULL)
		return 0;
	while (found == 0 && fgets(line, sizeof(line), file) != NULL) {
		if (sscanf(line, "%31s %31s %lu", name, of, &limit) == 3 &&
		    strcmp(name, job) == 0 && strcmp(of, side) == 0)
			found = limit;
	}
	fclose(file);
	return found;
}

/* False: more instructions than the limit */
static bool limit_keep(const struct job *job, const char *side, uint32_t instructions)
{
	unsigned long limit;

	if (set.limits == NULL)
		return true;
	limit = limit_of(job->name, side);
	if (limit == 0) {
		fprintf(stderr, "bench-count: %s: no limit for %s %s\n", set.limits, job->name,
			side);
		return false;
	}
	if (instructions <= limit)
		return true;
	fprintf(stderr,
		"bench-count: %s %s: %u instructions, and %s allows %lu: look at --functions 30, or "
		"raise the limit with the reason in the commit\n",
		job->name, side, instructions, set.limits, limit);
	return false;
}

/* Print one job's rows; false: a limit is broken */
static bool rows_print(const struct job *job, json_t *rows)
{
	bool good = true;

	for (unsigned i = 0; i < side_count; i++) {
		const char *side = side_name(job, i);
		json_t *row = json_pack("{s:s, s:s, s:I}", "job", job->name, "side", side, "bytes",
					(json_int_t)job->bytes);

		printf("%-9s %-7s", job->name, side);
		for (unsigned k = 0; k < FIGURES; k++) {
			uint32_t value = median(&sides[i], (enum figure)k);

			printf(" %*u", k == 0 ? 12 : 6, value);
			json_object_set_new(row, figure_names[k], json_integer(value));
			if (k == INSTRUCTIONS)
				good = limit_keep(job, side, value) && good;
		}
		printf("\n");
		json_array_append_new(rows, row);
	}
	if (set.functions > 0)
		steps_print(stdout, set.functions, set.ops);
	fflush(stdout);
	return good;
}

static int set_take(int argc, char **argv)
{
	static const struct option options[] = { { "ops", required_argument, NULL, 'n' },
						 { "case", required_argument, NULL, 'c' },
						 { "functions", required_argument, NULL, 'f' },
						 { "limits", required_argument, NULL, 'l' },
						 { "json", required_argument, NULL, 'j' },
						 { "transport", required_argument, NULL, 't' },
						 { "listen", required_argument, NULL, 'a' },
						 { NULL, 0, NULL, 0 } };
	const char **texts[] = { ['c'] = &set.only,
				 ['l'] = &set.limits,
				 ['j'] = &set.json,
				 ['a'] = &set.listen,
				 ['t'] = &set.transport };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return 2;
		if (option == 'n')
			set.ops = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 'f')
			set.functions = (unsigned)strtoul(optarg, NULL, 10);
		else
			*texts[option] = optarg;
	}
	if (set.ops >= 1 && set.ops <= OPS_MAX && optind == argc)
		return 0;
	fprintf(stderr, "bench-count: --ops is 1 to %d, and there are no other words\n", OPS_MAX);
	return 2;
}

int main(int argc, char **argv)
{
	json_t *report = json_object(), *rows = json_array();
	int rc = set_take(argc, argv);

	if (rc == 0 && !steps_open()) {
		printf("bench-count: this processor does not trap after each instruction\n");
		rc = 77;
	}
	if (rc == 0) {
		thread = pthread_self();
		shim_measure();
		(void)ol_log_set(NULL, OL_LOG_WARN, NULL);
		printf("# of one operation, over %s, median of %u\n%-9s %-7s %12s", set.transport,
		       set.ops, "job", "side", figure_names[0]);
		for (unsigned k = 1; k < FIGURES; k++)
			printf(" %6s", figure_names[k]);
		printf("\n");
		json_object_set_new(report, "environment", bench_env_json());
	}
	for (unsigned i = 0; (rc == 0 || rc == 1) && i < JOBS; i++) {
		if (set.only != NULL && strcmp(set.only, jobs[i].name) != 0)
			continue;
		if (job_run(&jobs[i]) != 0 || !rows_print(&jobs[i], rows))
			rc = 1;
	}
	json_object_set_new(report, "rows", rows);
	if (rc == 0 && set.json != NULL && json_dump_file(report, set.json, JSON_INDENT(1)) != 0)
		rc = 1;
	json_decref(report);
	return rc;
}
