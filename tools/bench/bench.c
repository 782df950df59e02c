/* SPDX-License-Identifier: BSD-3-Clause */

/* bench.c -- `outlast bench`: finds the measurement; code that all of them share */

#include "bench/bench.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "bench/host.h"
#include "cmd/cmd.h"

enum {
	CONNECT_MS = 15000, /* until a server counts as not there … */
	CHAIN_CONNECT_MS = 60000, /* … or a chain */
	LOOK_MS = 1, /* at a chain that mends */
	LEFT_POLL_MS = 50 /* how often a server end looks whether its worker left */
};

static const struct bench_measure *const measures[] = { &bench_push,     &bench_pull,
							&bench_train,    &bench_commit,
							&bench_failover, &bench_rejoin,
							&bench_idle };

enum {
	MEASURES = sizeof(measures) / sizeof(measures[0])
};

static void usage(FILE *out)
{
	fprintf(out, "usage: outlast bench MEASUREMENT [OPTION...]\n\n"
		     "Measures on this machine, or between two (--listen, --connect).\n\n"
		     "measurements:\n");
	for (size_t i = 0; i < MEASURES; i++)
		fprintf(out, "  %-8s %s\n", measures[i]->name, measures[i]->summary);
	fprintf(out, "\nEach takes --help.\n\nexamples:\n"
		     "  outlast bench push --size 64,4K --baseline\n"
		     "  outlast bench pull -a --json pull.json\n"
		     "  outlast bench push --mode bw --window 16 --size 1M\n"
		     "  outlast bench train --model cnn --batch 32\n"
		     "  outlast bench commit --replicas 1,2,3 --size 64,4K --baseline\n"
		     "  outlast bench failover --kills 100 --target head\n");
}

void bench_long_options(int argc, char **argv)
{
	static char size[] = "--size", all[] = "--all", iters[] = "--iters", device[] = "--device";
	static char help[] = "--help";
	static char *const options[] = {
		['s'] = size, ['a'] = all, ['n'] = iters, ['d'] = device, ['h'] = help, ['z'] = NULL
	};

	for (int i = 1; i < argc; i++) {
		unsigned letter = argv[i][0] == '-' ? (unsigned char)argv[i][1] : 0;

		if (letter >= 'a' && letter <= 'z' && argv[i][2] == '\0' && options[letter] != NULL)
			argv[i] = options[letter];
	}
}

static bool is_shm_address(const char *address)
{
	return address[0] == '/' || address[0] == '@';
}

static int addresses_make(const struct bench_place *place, const char *remote,
			  struct bench_ends *ends, char err[BENCH_ERR_MAX])
{
	const char *given = remote != NULL ? remote : place->address;
	bool verbs =
		place->transport == OL_TRANSPORT_VERBS ||
		(place->transport == OL_TRANSPORT_AUTO && given != NULL && !is_shm_address(given));
	const size_t oob = given != NULL && strncmp(given, "oob:", 4) == 0 ? 4 : 0;
	const char *port = given != NULL && strchr(given + oob, ':') == NULL ? ":0" : "";

	ends->opts.transport = verbs ? "verbs" : "shm";
	if (given == NULL && verbs) {
		snprintf(err, BENCH_ERR_MAX,
			 "verbs needs --address: that of an RDMA device's interface; outlast "
			 "doctor lists them");
		return -EINVAL;
	}
	if (given == NULL)
		snprintf(ends->listen, sizeof(ends->listen), "@outlast-bench-%d", (int)getpid());
	else
		snprintf(ends->listen, sizeof(ends->listen), "%.100s%s", given, verbs ? port : "");
	ends->opts.listen = ends->listen;
	return 0;
}

/* Transport, addresses, processors; pins this process to the client's */
static int ends_make(struct bench_run *run)
{
	const struct bench_place *place = run->place;
	struct bench_ends *ends = &run->ends;
	char *err = run->err;
	int rc;

	*ends = (struct bench_ends){ .opts = { .device = place->device,
					       .job_key = place->job_key,
					       .spin_us = place->spin_us,
					       .gradient_format = run->gradient_format,
					       .shared_domain = place->shared_domain,
					       .weights = run->weights,
					       .lr = run->weights != NULL ? run->lr : 1e-9f } };
	ends->cpus = bench_cpus_allowed();
	rc = addresses_make(place, run->remote, ends, err);
	if (rc == 0)
		rc = bench_pins_choose(place->pin, &ends->opts.pins, err, BENCH_ERR_MAX);
	if (rc != 0)
		return rc;
	rc = bench_pin(ends->opts.pins.client);
	if (rc != 0)
		snprintf(err, BENCH_ERR_MAX, "cannot pin to cpu %d: %s", ends->opts.pins.client,
			 ol_strerror(rc));
	return rc;
}

static void waits_print(const struct bench_ends *ends)
{
	if (ends->opts.spin_us == 0)
		printf("waits sleep at once\n");
	else
		printf("waits spin for %u us before they sleep%s\n", ends->opts.spin_us,
		       ends->opts.spin_yield ? ", and yield meanwhile" : "");
}

void bench_ends_print(const struct bench_run *run)
{
	const struct bench_ends *ends = &run->ends;
	const struct bench_pins *pins = &ends->opts.pins;
	bool local = run->remote == NULL;

	printf("# transport %s, %s; ", ends->opts.transport,
	       local ? "both ends on this machine" : "the other end elsewhere");
	if (pins->client == BENCH_CPU_ANY)
		printf("nothing pinned; ");
	else if (local)
		printf("client on cpu %d, server on cpu %d; ", pins->client, pins->server);
	else
		printf("client on cpu %d; ", pins->client);
	waits_print(ends);
	if (ends->cpus < 2 && local && ends->opts.spin_us > 0)
		printf("# one processor for two spinning ends: expect scheduler ticks in every "
		       "figure\n");
}

const struct ol_conf_choice bench_roles[] = { { "head", BENCH_ROLE_HEAD },
					      { "middle", BENCH_ROLE_MIDDLE },
					      { "tail", BENCH_ROLE_TAIL },
					      { NULL, 0 } };

int bench_role_check(struct ol_conf *conf, int role, uint32_t replicas)
{
	if (role != BENCH_ROLE_MIDDLE || replicas >= 3)
		return 0;
	return ol_conf_fail(conf, "target", "needs --replicas 3 or more to have a middle");
}

int bench_role_server(const struct bench_run *run, const struct ol_chain_info *info, int role)
{
	uint32_t place = 0;

	if (role == BENCH_ROLE_TAIL)
		place = info->count - 1;
	else if (role == BENCH_ROLE_MIDDLE)
		place = info->count / 2;
	return bench_chain_at(&run->chain, info, place);
}

static void chain_ends(struct bench_run *run, const struct bench_chain_conf *conf)
{
	struct bench_ends *ends = &run->ends;

	for (unsigned i = 0; i < OL_CHAIN_MAX; i++) {
		if (ends->opts.pins.client == BENCH_CPU_ANY)
			run->cpus[i] = BENCH_CPU_ANY;
		else if (strcmp(conf->place.pin, "auto") != 0)
			run->cpus[i] = ends->opts.pins.server;
		else if (run->threads)
			run->cpus[i] = run->cpus[0];
	}
	ends->opts.coordinator = conf->coordinator;
	ends->opts.lease_ms = conf->lease_ms;
	ends->opts.spin_yield = conf->yield;
}

void bench_chain_print(const struct bench_run *run, uint32_t replicas)
{
	const struct bench_ends *ends = &run->ends;

	printf("# transport %s, all on this machine, %d processors; ", ends->opts.transport,
	       ends->cpus);
	if (ends->opts.pins.client == BENCH_CPU_ANY) {
		printf("nothing pinned; ");
	} else {
		printf("worker on cpu %d, servers on cpu", ends->opts.pins.client);
		for (uint32_t i = 0; i < replicas; i++)
			printf(" %d", run->cpus[i]);
		printf("; ");
	}
	waits_print(ends);
	printf("# coordinator %s%s; lease %u ms\n", run->chain.coordinator,
	       ends->opts.coordinator == NULL ? ", a folder of its own" : "", ends->opts.lease_ms);
	if (ends->opts.spin_us > 0 && !ends->opts.spin_yield && (uint32_t)ends->cpus <= replicas)
		printf("# fewer processors than processes that spin: those that wait take them from "
		       "those that work\n");
}

static void chain_report(struct bench_run *run)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < OL_CHAIN_MAX; i++)
		json_array_append_new(list, json_integer(run->cpus[i]));
	json_object_update_new(run->report,
			       json_pack("{s:o, s:s, s:I, s:b}", "server_cpus", list, "coordinator",
					 run->chain.coordinator, "lease_ms",
					 (json_int_t)run->ends.opts.lease_ms, "spin_yield",
					 (int)run->ends.opts.spin_yield));
}

/* Restart lost servers, also those that could not keep their lease and ended without a kill */
static int revive(struct bench_run *run)
{
	struct bench_chain *chain = &run->chain;

	for (uint32_t i = 0; i < chain->opts.replicas; i++) {
		int rc;

		if (!bench_chain_server_gone(chain, i))
			continue;
		run->unasked += chain->servers[i].proc.pid != 0;
		ol_proc_fini(&chain->servers[i].proc);
		rc = bench_chain_server_start(chain, i, run->err);
		if (rc == 0)
			rc = bench_chain_server_ready(chain, i, true, run->err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int bench_chain_mend(struct bench_run *run, int (*meanwhile)(void *arg), void *arg,
		     uint32_t timeout_ms)
{
	uint64_t bound_ns = ol_clock_ns() + timeout_ms * OL_NS_PER_MS;

	for (;;) {
		int rc = revive(run);

		if (rc == 0 && bench_chain_whole(&run->chain))
			return 0;
		if (rc == 0)
			rc = meanwhile(arg);
		if (rc != 0)
			return rc;
		if (ol_clock_ns() >= bound_ns) {
			snprintf(run->err, BENCH_ERR_MAX,
				 "the chain did not become whole again within %u ms", timeout_ms);
			return OL_E_NO_SERVER;
		}
		poll(NULL, 0, LOOK_MS);
	}
}

static int report_begin(const struct bench_measure *measure, struct bench_run *run)
{
	const struct bench_ends *ends = &run->ends;
	bool local = run->remote == NULL;

	run->report = json_pack("{s:s, s:o, s:s, s:b, s:i, s:I, s:{s:i, s:i}, s:s*}", "measurement",
				measure->name, "environment", bench_env_json(), "transport",
				ends->opts.transport, "local", (int)local, "cpus_allowed",
				ends->cpus, "spin_us", (json_int_t)ends->opts.spin_us, "pinned",
				"client", ends->opts.pins.client, "server", ends->opts.pins.server,
				"device", ends->opts.device);
	if (run->report != NULL && measure->chain)
		chain_report(run);
	return run->report != NULL ? 0 : -ENOMEM;
}

static int report_write(struct bench_run *run)
{
	const char *path = run->place->json;

	errno = 0;
	if (path == NULL || json_dump_file(run->report, path, JSON_INDENT(1)) == 0)
		return 0;
	snprintf(run->err, BENCH_ERR_MAX, "cannot write %.150s: %s", path,
		 errno != 0 ? strerror(errno) : "no memory");
	return errno != 0 ? -EIO : -ENOMEM; /* -ENOENT means the folder of an address */
}

static int raw_open(struct bench_run *run)
{
	if (run->raw_path != NULL)
		run->raw = fopen(run->raw_path, "we");
	if (run->raw_path == NULL || run->raw != NULL)
		return 0;
	snprintf(run->err, BENCH_ERR_MAX, "cannot write %.150s: %s", run->raw_path,
		 ol_strerror(-errno));
	return -EIO; /* -ENOENT means the folder of an address */
}

int bench_sizes_take(struct bench_run *run, struct ol_conf *conf, const char *text)
{
	if (bench_sizes_parse(text, &run->sizes, run->err, sizeof(run->err)) == 0)
		return 0;
	return ol_conf_fail(conf, "size", run->err);
}

int bench_servers_open(struct bench_run *run, uint32_t replicas, uint64_t bytes, uint32_t window)
{
	struct bench_opts opts = run->ends.opts;
	const char *addr = replicas == 0 ? opts.listen : NULL;
	uint32_t connect_ms = replicas > 0 ? CHAIN_CONNECT_MS : CONNECT_MS;
	int rc = 0;

	run->client.worker = NULL;
	if (run->remote == NULL) {
		rc = bench_chain_open(&run->chain, replicas, bytes, window, run->err);
		opts = bench_chain_opts(&run->chain);
		addr = replicas == 0 ? run->chain.servers[0].addr : NULL;
	}
	if (rc != 0)
		return rc;
	if (run->weights != NULL)
		rc = bench_client_connect(&opts, addr, bytes, window, connect_ms, &run->client,
					  run->err);
	else
		rc = bench_client_open(&opts, addr, bytes, window, connect_ms, &run->client,
				       run->err);
	return rc == 0 ? 0 : bench_servers_close(run, rc);
}

int bench_servers_close(struct bench_run *run, int rc)
{
	char err[BENCH_ERR_MAX];

	bench_client_close(&run->client);
	if (run->remote != NULL || bench_chain_close(&run->chain, err) == 0 || rc != 0)
		return rc;
	snprintf(run->err, sizeof(run->err), "%s", err);
	run->exit_code = OL_EXIT_CHILD;
	return OL_E_NO_SERVER;
}

static int sizes_run(const struct bench_measure *measure, struct bench_run *run)
{
	int rc = report_begin(measure, run);

	if (rc == 0 && measure->begin != NULL)
		measure->begin(run);
	fflush(stdout);
	for (unsigned i = 0; i < run->sizes.count && rc == 0; i++)
		rc = measure->size(run, run->sizes.bytes[i]);
	if (rc == 0 && measure->end != NULL)
		measure->end(run);
	if (rc == 0)
		rc = report_write(run);
	json_decref(run->report);
	return rc;
}

/* The server's end of a run on two machines: one geometry after another, each until its worker has
 * come and left; one line a size on stdout */
static int serve_all(struct bench_run *run)
{
	struct bench_chain *chain = &run->chain;
	int rc = 0;

	for (unsigned i = 0; i < run->sizes.count && rc == 0; i++) {
		uint64_t bytes = run->sizes.bytes[i];
		struct ol_server_stat stat = { 0 };
		char text[BENCH_SIZE_TEXT_MAX];

		rc = bench_chain_open(chain, 0, bytes, bench_window(run->serve_window, bytes),
				      run->err);
		if (rc != 0)
			return rc;
		bench_size_format(bytes, text);
		printf("serving %s at %s\n", text, chain->servers[0].addr);
		fflush(stdout);
		do {
			(void)poll(NULL, 0, LEFT_POLL_MS);
			rc = bench_chain_server_stat(chain, 0, &stat);
		} while (rc == 0 && (stat.applied == 0 || stat.workers > 0));
		rc = bench_chain_close(chain, run->err);
	}
	return rc;
}

/* Where the processes that hold the weights are */
static int servers_start(const struct bench_measure *measure, struct bench_run *run)
{
	int rc;

	for (unsigned i = 0; i < OL_CHAIN_MAX;
	     i++) /* of those allowed before this process is pinned */
		run->cpus[i] = bench_pin_nth(i + 1);
	rc = ends_make(run);
	if (rc == 0 && measure->chain)
		chain_ends(run, measure->conf);
	if (rc == 0)
		rc = bench_chain_start(&run->ends.opts, measure->chain ? run->cpus : NULL,
				       &run->chain, run->err);
	run->chain.threads = run->threads;
	return rc;
}

static int measure_run(const struct bench_measure *measure, struct bench_run *run)
{
	int rc = measure->prepare != NULL ? measure->prepare(run) : 0;

	if (rc == 0)
		rc = servers_start(measure, run);
	if (rc == 0)
		rc = raw_open(run);
	if (rc == 0)
		rc = run->serve_window != 0 ? serve_all(run) : sizes_run(measure, run);
	if (run->raw != NULL && fclose(run->raw) != 0 && rc == 0)
		rc = -errno;
	bench_chain_stop(&run->chain);
	return rc;
}

/* The error line; the exit code */
static int fail(const char *name, const struct bench_run *run, int rc)
{
	int code = ol_cmd_error(ol_cmd_exit_of(rc), name,
				run->err[0] != '\0' ? run->err : ol_strerror(rc), NULL,
				ol_cmd_remedy(rc));

	return run->exit_code != 0 ? run->exit_code : code;
}

static int measure_main(const struct bench_measure *measure, int argc, char **argv)
{
	char program[64];
	struct ol_settings settings = { .cmd = program + strlen("outlast "),
					.spec = { .program = program,
						  .purpose = measure->purpose,
						  .examples = measure->examples } };
	struct bench_run *run = measure->run;
	int code, rc;

	snprintf(program, sizeof(program), "outlast bench %s", measure->name);
	run->place = measure->conf;
	bench_long_options(argc, argv);
	ol_settings_add(&settings, (struct ol_rows){ measure->fields, measure->field_count }, 0);
	if (ol_settings_load(&settings, measure->conf, argc, argv, &code)) {
		if (measure->check != NULL && measure->check(run, settings.conf) != 0) {
			fprintf(stderr, "%s\n", ol_conf_error(settings.conf));
			code = OL_EXIT_USAGE;
		} else {
			rc = measure_run(measure, run);
			code = rc == 0 ? OL_EXIT_OK : fail(settings.cmd, run, rc);
		}
		if (measure->fini != NULL)
			measure->fini(run);
	}
	ol_settings_fini(&settings);
	return code;
}

int cmd_bench(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return OL_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		usage(stdout);
		return OL_EXIT_OK;
	}
	ol_log_level_set(OL_LOG_WARN);
	if (strcmp(argv[1], "server") == 0)
		return bench_server(argc - 1, argv + 1);
	for (size_t i = 0; i < MEASURES; i++) {
		if (strcmp(argv[1], measures[i]->name) == 0)
			return measure_main(measures[i], argc - 1, argv + 1);
	}
	return ol_cmd_error(OL_EXIT_USAGE, "bench", "no such measurement", argv[1],
			    "outlast bench --help lists them");
}
