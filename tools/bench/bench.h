/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * bench.h -- shared by the measurements of `outlast bench`: settings, both ends, the report
 */
#ifndef BENCH_H
#define BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/conf.h"
#include "bench/chain.h"
#include "bench/host.h"
#include "bench/pattern.h"
#include "bench/size.h"
#include "cmd/settings.h"

/* Settings of every measurement; first member of each program's own struct. */
struct bench_place {
	int transport; /* enum ol_transport_choice */
	const char *address;
	const char *device;
	const char *job_key;
	const char *pin;
	const char *json;
	uint32_t spin_us;
	bool shared_domain;
};

/* The rows for it, whose offsets count from the beginning. */
#define BENCH_PLACE_FIELDS BENCH_PLACE_FIELDS_OF("auto", "1000000")
#define BENCH_PLACE_FIELDS_OF(pin_dflt, spin_dflt) \
	OL_ROW_GROUP("where"), \
		OL_ROW_CHOICE(bench_place, transport, "auto", ol_transports, \
			      "auto is shm, unless an address is one of verbs"), \
		OL_ROW_STR(bench_place, address, NULL, \
			   "both ends here: the RDMA interface's address (verbs)"), \
		OL_ROW_STR(bench_place, device, NULL, \
			   "RDMA device; the one that has the address"), \
		OL_ROW_SECRET(bench_place, job_key, "secret that both ends share"), \
		OL_ROW_STR(bench_place, pin, pin_dflt, \
			   "processors: auto (two cores), none, or CLIENT,SERVER"), \
		OL_ROW_U32(bench_place, spin_us, spin_dflt, 0, 0, \
			   "both ends: how long a wait spins before it sleeps; 0 sleeps at once"), \
		OL_ROW_BOOL(bench_place, shared_domain, "false", \
			    "one protection domain for all connections (verbs)"), \
		OL_ROW_STR(bench_place, json, NULL, \
			   "write all figures and the environment to this file")

/* bench_long_options -- perftest's short options -s -a -n -d, and -h, become long ones */
void bench_long_options(int argc, char **argv);

/* Both ends, by the settings */
struct bench_ends {
	struct bench_opts opts;
	int cpus; /* how many this process could use before it was pinned */
	char listen[BENCH_ADDR_MAX];
};

/*
 * State of a measurement that runs; first member of its own struct. Its check() and prepare() set
 * the first part, bench.c the rest.
 */
struct bench_run {
	struct bench_sizes sizes; /* size() is called for each */
	const char *remote; /* the client's or the server's end is elsewhere; NULL: both are here */
	const char *raw_path; /* NULL: no file of all times is wanted */
	const char *weights; /* file of the first ones, nothing is pushed before size(); NULL: all
				1 */
	float lr;
	uint32_t gradient_format; /* enum ol_format */
	uint32_t serve_window; /* this is the server's end; 0: it is not */
	bool threads; /* servers of a chain share a process */
	int exit_code; /* of a failure so far; 0: by its error code */

	const struct bench_place *place;
	struct bench_ends ends;
	int cpus[OL_CHAIN_MAX]; /* of a chain's servers */
	struct bench_chain chain; /* unless the other end is elsewhere */
	unsigned unasked; /* servers of a chain that ended without a kill */
	struct bench_client client; /* between bench_servers_open() and bench_servers_close() */
	json_t *report;
	FILE *raw;
	char err[BENCH_ERR_MAX];
};

/*
 * A measurement, a row of the table in bench.c. Functions return 0, or a code, perhaps with a line
 * in run->err; NULL: no work.
 */
struct bench_measure {
	const char *name;
	const char *summary; /* a line of `outlast bench --help` */
	const char *purpose; /* first lines of its own --help */
	const char *examples;
	const struct ol_conf_field *fields;
	size_t field_count;
	void *conf; /* begins with a struct bench_place, or a struct bench_chain_conf */
	struct bench_run *run; /* the beginning of its own struct */
	bool chain; /* it needs a chain of servers; else one server */
	int (*check)(struct bench_run *run, struct ol_conf *conf); /* do settings fit? */
	int (*prepare)(struct bench_run *run); /* before anything is started or pinned */
	void (*begin)(struct bench_run *run); /* the head of stdout and report */
	int (*size)(struct bench_run *run, uint64_t bytes);
	void (*end)(struct bench_run *run); /* the figures of all sizes */
	void (*fini)(struct bench_run *run);
};

/* bench_server -- `outlast bench server`, which measurements start; an exit code */
int bench_server(int argc, char **argv);

extern const struct bench_measure bench_push, bench_pull, bench_train, bench_commit, bench_failover,
	bench_rejoin, bench_idle;

/* bench_sizes_take -- the value of --size into run->sizes; 0, or as ol_conf_fail() */
int bench_sizes_take(struct bench_run *run, struct ol_conf *conf, const char *text);

/*
 * bench_servers_open -- open a chain of replicas, or with 0 a single server, and run->client
 * bench_servers_close -- end both; returns rc
 */
int bench_servers_open(struct bench_run *run, uint32_t replicas, uint64_t bytes, uint32_t window);
int bench_servers_close(struct bench_run *run, int rc);

/* bench_ends_print -- print a line on transport, processors and spinning */
void bench_ends_print(const struct bench_run *run);

/* Settings of the measurements of chains; first member of each program's own struct. */
struct bench_chain_conf {
	struct bench_place place;
	const char *coordinator;
	uint32_t lease_ms;
	bool yield;
};

/* Rows of the settings. Measurements of failures, not of speed, pin no thread and keep the servers'
 * default waits: BENCH_PLACE_FIELDS_OF("none", "50"), no yield. */
#define BENCH_CHAIN_FIELDS_OF(yield_dflt, lease_dflt) \
	OL_ROW_GROUP("chain"), \
		OL_ROW_STR( \
			bench_chain_conf, coordinator, NULL, \
			"dir:PATH or zk:HOST:PORT,...; without it views are in a folder of its own"), \
		OL_ROW_BOOL(bench_chain_conf, yield, yield_dflt, \
			    "who spins lets others of its processor go first"), \
		OL_ROW_U32(bench_chain_conf, lease_ms, lease_dflt, 10, 60000, \
			   "silence after which a server is taken for dead; heartbeats are 5 " \
			   "times as often, and at least every 50 ms")

/* Role of the lost server in the chain at that moment */
enum bench_role {
	BENCH_ROLE_HEAD,
	BENCH_ROLE_MIDDLE,
	BENCH_ROLE_TAIL
};

extern const struct ol_conf_choice bench_roles[];

/* bench_role_check -- a middle needs three replicas; 0, or as ol_conf_fail() */
int bench_role_check(struct ol_conf *conf, int role, uint32_t replicas);

/* bench_role_server -- the server with this role now; -1: none of ours */
int bench_role_server(const struct bench_run *run, const struct ol_chain_info *info, int role);

/* bench_chain_print -- as bench_ends_print() for a chain */
void bench_chain_print(const struct bench_run *run, uint32_t replicas);

/*
 * bench_chain_mend -- restart lost servers until the chain is whole
 *
 * It calls meanwhile() over and over; a return other than 0 ends it. run->unasked counts servers
 * that ended without being reaped.
 */
int bench_chain_mend(struct bench_run *run, int (*meanwhile)(void *arg), void *arg,
		     uint32_t timeout_ms);

#endif /* BENCH_H */
