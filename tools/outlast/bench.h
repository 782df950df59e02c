/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * bench.h -- what the measurements of `outlast bench` share: where, with what, and the report
 */
#ifndef OUTLAST_BENCH_H
#define OUTLAST_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/conf.h"
#include "bench/chain.h"
#include "bench/peer.h"
#include "bench/pin.h"

enum bench_transport {
	BENCH_TRANSPORT_AUTO, /* shm unless an address says otherwise */
	BENCH_TRANSPORT_SHM,
	BENCH_TRANSPORT_VERBS,
};

/* Settings of every measurement; first member of each program's own struct. */
struct bench_place {
	int transport; /* enum bench_transport */
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
	{ .help = "where", .type = OL_CONF_GROUP }, \
		{ .name = "transport", \
		  .dflt = "auto", \
		  .help = "auto is shm, unless an address is one of verbs", \
		  .offset = offsetof(struct bench_place, transport), \
		  .type = OL_CONF_CHOICE, \
		  .choices = bench_transports }, \
		{ .name = "address", \
		  .help = "both ends here: the RDMA interface's address (verbs)", \
		  .offset = offsetof(struct bench_place, address), \
		  .type = OL_CONF_STR }, \
		{ .name = "device", \
		  .help = "RDMA device; the one that has the address", \
		  .offset = offsetof(struct bench_place, device), \
		  .type = OL_CONF_STR }, \
		{ .name = "job_key", \
		  .help = "secret that both ends share", \
		  .offset = offsetof(struct bench_place, job_key), \
		  .type = OL_CONF_STR, \
		  .secret = true }, \
		{ .name = "pin", \
		  .dflt = (pin_dflt), \
		  .help = "processors: auto (two cores), none, or CLIENT,SERVER", \
		  .offset = offsetof(struct bench_place, pin), \
		  .type = OL_CONF_STR }, \
		{ .name = "spin_us", \
		  .dflt = (spin_dflt), \
		  .help = "both ends: how long a wait spins before it sleeps; 0 sleeps at once", \
		  .offset = offsetof(struct bench_place, spin_us), \
		  .type = OL_CONF_U32 }, \
		{ .name = "shared_domain", \
		  .dflt = "false", \
		  .help = "one protection domain for all connections (verbs)", \
		  .offset = offsetof(struct bench_place, shared_domain), \
		  .type = OL_CONF_BOOL }, \
	{ \
		.name = "json", .help = "write all figures and the environment to this file", \
		.offset = offsetof(struct bench_place, json), .type = OL_CONF_STR \
	}

extern const struct ol_conf_choice bench_transports[];

/*
 * bench_conf_load -- defaults, file, environment, command line; argv[0] is the measurement
 *
 * Takes perftest's short options too: -s -a -n -d. Returns 0, or -1 with the exit code in *ret_exit
 * (help has been printed, or the error). *ret_conf is to be destroyed either way.
 */
int bench_conf_load(const struct ol_conf_spec *spec, void *target, int argc, char **argv,
		    struct ol_conf **ret_conf, int *ret_exit);

/* Both ends as the settings want them. */
struct bench_ends {
	struct bench_peer_opts opts; /* opts.cpu: the server's */
	struct bench_pins pins;
	int cpus; /* that this process might use before it was pinned */
	char listen[BENCH_ADDR_MAX];
};

/*
 * bench_ends_make -- transport, addresses, processors; pins this process to the client's
 *
 * remote: the address of the other end or to listen at, NULL: both ends are here.
 * Errors: a negative code with a line in err
 */
int bench_ends_make(const struct bench_place *place, const char *remote, struct bench_ends *ends,
		    char err[BENCH_ERR_MAX]);

/* bench_ends_print -- a line on transport, processors and spinning, for people */
void bench_ends_print(const struct bench_ends *ends, bool local, FILE *out);

/* bench_report -- begin a report: measurement, environment, ends; NULL: no memory */
json_t *bench_report(const char *measurement, const struct bench_ends *ends, bool local);

/* bench_report_write -- to the file named in the settings, if one is; 0 or -errno, err on it */
int bench_report_write(const struct bench_place *place, const json_t *report,
		       char err[BENCH_ERR_MAX]);

/* bench_fail -- the error line; the exit code for rc */
int bench_fail(const char *measurement, int rc, const char *err);

/* Settings of the measurements of chains; first member of each program's own struct. */
struct bench_chain_conf {
	struct bench_place place;
	const char *coordinator;
	uint32_t lease_ms;
	bool yield;
};

/* Rows of the settings. Where failure is measured, and not speed, nothing is pinned and waits are
 * as servers wait by themselves: BENCH_PLACE_FIELDS_OF("none", "50"), no yield. */
#define BENCH_CHAIN_FIELDS_OF(yield_dflt, lease_dflt) \
	{ .help = "chain", .type = OL_CONF_GROUP }, \
		{ .name = "coordinator", \
		  .help = "dir:PATH or zk:HOST:PORT,...; without it views are in a folder of its own", \
		  .offset = offsetof(struct bench_chain_conf, coordinator), \
		  .type = OL_CONF_STR }, \
		{ .name = "yield", \
		  .dflt = (yield_dflt), \
		  .help = "who spins lets others of its processor go first", \
		  .offset = offsetof(struct bench_chain_conf, yield), \
		  .type = OL_CONF_BOOL }, \
	{ \
		.name = "lease_ms", .dflt = (lease_dflt), \
		.help = "silence after which a server is taken for dead; heartbeats are 5 times as " \
			"often, and at least every 50 ms", \
		.offset = offsetof(struct bench_chain_conf, lease_ms), .type = OL_CONF_U32, \
		.min = 10, .max = 60000 \
	}

/* bench_chain_ends -- as bench_ends_make(), and in cpus the processor of each server */
int bench_chain_ends(const struct bench_chain_conf *conf, struct bench_ends *ends,
		     int cpus[OL_CHAIN_MAX], char err[BENCH_ERR_MAX]);

/* bench_chain_print, bench_chain_report -- as bench_ends_print(), bench_report() */
void bench_chain_print(const struct bench_ends *ends, const int cpus[OL_CHAIN_MAX],
		       uint32_t replicas, const struct bench_chain *chain);
json_t *bench_chain_report(const char *measurement, const struct bench_ends *ends,
			   const int cpus[OL_CHAIN_MAX], const struct bench_chain *chain);

/*
 * bench_chain_mend -- start again whoever is gone, until the chain is whole
 *
 * meanwhile is called again and again; 0, or what ends this. unasked counts those that nobody had
 * reaped: they ended by themselves.
 */
int bench_chain_mend(struct bench_chain *chain, int (*meanwhile)(void *arg), void *arg,
		     uint32_t timeout_ms, unsigned *unasked, char err[BENCH_ERR_MAX]);

/* The measurements: argv[0] is their name; an exit code */
int bench_push(int argc, char **argv);
int bench_pull(int argc, char **argv);
int bench_train(int argc, char **argv);
int bench_commit(int argc, char **argv);
int bench_failover(int argc, char **argv);
int bench_rejoin(int argc, char **argv);
int bench_idle(int argc, char **argv);

#endif /* OUTLAST_BENCH_H */
