/* SPDX-License-Identifier: BSD-3-Clause */

/* bench.c -- `outlast bench`: which measurement; what all of them share */

#include "outlast/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "bench/env.h"
#include "outlast/cmd.h"

enum {
	ARGS_MAX = 128
};

const struct ol_conf_choice bench_transports[] = { { "auto", BENCH_TRANSPORT_AUTO },
						   { "shm", BENCH_TRANSPORT_SHM },
						   { "verbs", BENCH_TRANSPORT_VERBS },
						   { NULL, 0 } };

static const struct ol_cmd measurements[] = {
	{ "push", "a gradient, until it is known to be applied", bench_push },
	{ "pull", "the weights, until they are whole here", bench_pull },
	{ "train", "gradients a second of one worker, through a server and without", bench_train },
	{ "commit", "a gradient, until every replica of a chain has it", bench_commit },
	{ "failover", "servers of a chain are lost: until pushes are committed again",
	  bench_failover },
	{ "rejoin", "a lost server comes back: until it is a replica again, and what that costs",
	  bench_rejoin },
	{ "idle", "what a server without traffic costs", bench_idle },
};

enum {
	MEASUREMENT_COUNT = sizeof(measurements) / sizeof(measurements[0])
};

static void usage(FILE *out)
{
	fprintf(out, "usage: outlast bench MEASUREMENT [OPTION...]\n\n"
		     "Measures on this machine, or between two (--listen, --connect).\n\n"
		     "measurements:\n");
	for (size_t i = 0; i < MEASUREMENT_COUNT; i++)
		fprintf(out, "  %-8s %s\n", measurements[i].name, measurements[i].summary);
	fprintf(out, "\nEach takes --help.\n\nexamples:\n"
		     "  outlast bench push --size 64,4K --baseline\n"
		     "  outlast bench pull -a --json pull.json\n"
		     "  outlast bench push --mode bw --window 16 --size 1M\n"
		     "  outlast bench train --model cnn --batch 32\n"
		     "  outlast bench commit --replicas 1,2,3 --size 64,4K --baseline\n"
		     "  outlast bench failover --kills 100 --target head\n");
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
	for (size_t i = 0; i < MEASUREMENT_COUNT; i++) {
		if (strcmp(argv[1], measurements[i].name) == 0)
			return measurements[i].run(argc - 1, argv + 1);
	}
	return ol_cmd_error(OL_EXIT_USAGE, "bench", "no such measurement", argv[1],
			    "outlast bench --help lists them");
}

/* The long option that a short one of perftest means */
static char *long_option(char *word)
{
	static char size[] = "--size", all[] = "--all", iters[] = "--iters", device[] = "--device";
	static char help[] = "--help";

	if (word[0] != '-' || word[1] == '\0' || word[2] != '\0')
		return word;
	switch (word[1]) {
	case 's':
		return size;
	case 'a':
		return all;
	case 'n':
		return iters;
	case 'd':
		return device;
	case 'h':
		return help;
	default:
		return word;
	}
}

int bench_conf_load(const struct ol_conf_spec *spec, void *target, int argc, char **argv,
		    struct ol_conf **ret_conf, int *ret_exit)
{
	char *words[ARGS_MAX];
	int rc;

	*ret_conf = NULL;
	*ret_exit = OL_EXIT_USAGE;
	if (argc > ARGS_MAX) {
		fprintf(stderr, "%s: more than %d words\n", spec->program, ARGS_MAX);
		return -1;
	}
	for (int i = 0; i < argc; i++)
		words[i] = long_option(argv[i]);
	rc = ol_conf_create(spec, target, ret_conf);
	if (rc != 0) {
		fprintf(stderr, "%s: settings: %s\n", spec->program, ol_strerror(rc));
		*ret_exit = ol_cmd_exit_of(rc);
		return -1;
	}
	rc = ol_conf_load(*ret_conf, argc, words);
	if (rc == 0)
		return 0;
	if (rc == 1) {
		ol_conf_print_help(*ret_conf, stdout);
		*ret_exit = OL_EXIT_OK;
	} else {
		fprintf(stderr, "%s\n", ol_conf_error(*ret_conf));
	}
	return -1;
}

static bool is_shm_address(const char *address)
{
	return address[0] == '/' || address[0] == '@';
}

static int addresses_make(const struct bench_place *place, const char *remote,
			  struct bench_ends *ends, char err[BENCH_ERR_MAX])
{
	const char *given = remote != NULL ? remote : place->address;
	bool verbs = place->transport == BENCH_TRANSPORT_VERBS ||
		     (place->transport == BENCH_TRANSPORT_AUTO && given != NULL &&
		      !is_shm_address(given));
	const char *port = given != NULL && strchr(given, ':') == NULL ? ":0" : "";

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

int bench_ends_make(const struct bench_place *place, const char *remote, struct bench_ends *ends,
		    char err[BENCH_ERR_MAX])
{
	int rc;

	*ends = (struct bench_ends){ .opts = { .device = place->device,
					       .job_key = place->job_key,
					       .spin_us = place->spin_us,
					       .shared_domain = place->shared_domain,
					       .lr = 1e-9f } };
	ends->cpus = bench_cpus_allowed();
	rc = addresses_make(place, remote, ends, err);
	if (rc == 0)
		rc = bench_pins_choose(place->pin, &ends->pins, err, BENCH_ERR_MAX);
	if (rc != 0)
		return rc;
	ends->opts.cpu = ends->pins.server;
	rc = bench_pin(ends->pins.client);
	if (rc != 0)
		snprintf(err, BENCH_ERR_MAX, "cannot pin to cpu %d: %s", ends->pins.client,
			 ol_strerror(rc));
	return rc;
}

void bench_ends_print(const struct bench_ends *ends, bool local, FILE *out)
{
	const struct bench_pins *pins = &ends->pins;

	fprintf(out, "# transport %s, %s; ", ends->opts.transport,
		local ? "both ends on this machine" : "the other end elsewhere");
	if (pins->client == BENCH_CPU_ANY)
		fprintf(out, "nothing pinned; ");
	else if (local)
		fprintf(out, "client on cpu %d, server on cpu %d; ", pins->client, pins->server);
	else
		fprintf(out, "client on cpu %d; ", pins->client);
	if (ends->opts.spin_us == 0)
		fprintf(out, "waits sleep at once\n");
	else
		fprintf(out, "waits spin for %u us before they sleep\n", ends->opts.spin_us);
	if (ends->cpus < 2 && local && ends->opts.spin_us > 0)
		fprintf(out, "# one processor for two spinning ends: expect scheduler ticks in "
			     "every figure\n");
}

json_t *bench_report(const char *measurement, const struct bench_ends *ends, bool local)
{
	json_t *report = json_pack("{s:s, s:o, s:s, s:b, s:i, s:I, s:{s:i, s:i}}", "measurement",
				   measurement, "environment", bench_env_json(), "transport",
				   ends->opts.transport, "local", local, "cpus_allowed", ends->cpus,
				   "spin_us", (json_int_t)ends->opts.spin_us, "pinned", "client",
				   ends->pins.client, "server", ends->pins.server);

	if (report != NULL && ends->opts.device != NULL)
		json_object_set_new(report, "device", json_string(ends->opts.device));
	return report;
}

int bench_report_write(const struct bench_place *place, const json_t *report,
		       char err[BENCH_ERR_MAX])
{
	if (place->json == NULL)
		return 0;
	errno = 0;
	if (report != NULL && json_dump_file(report, place->json, JSON_INDENT(1)) == 0)
		return 0;
	snprintf(err, BENCH_ERR_MAX, "cannot write %.150s: %s", place->json,
		 errno != 0 ? strerror(errno) : "no memory");
	return errno != 0 ? -EIO : -ENOMEM; /* -ENOENT would be an address's folder */
}

int bench_fail(const char *measurement, int rc, const char *err)
{
	char name[32];

	snprintf(name, sizeof(name), "bench %s", measurement);
	return ol_cmd_error(ol_cmd_exit_of(rc), name, err[0] != '\0' ? err : ol_strerror(rc), NULL,
			    ol_cmd_remedy(rc));
}
