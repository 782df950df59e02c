/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * settings.h -- settings that several subcommands share
 *
 * A subcommand's table is made of groups. A group is a struct that is a member of the subcommand's
 * own struct, and rows whose offsets count from its beginning. So `train` can pass a whole group on
 * to the processes it starts.
 */
#ifndef CMD_SETTINGS_H
#define CMD_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "cmd/consistency.h"
#include "cmd/schedule.h"
#include "outlast_server.h"

enum {
	OL_VALUE_MAX = 8192, /* of a setting that is passed on */
	OL_ARGS_MAX = 96
};

struct ol_ckpt_set;

struct ol_rows {
	const struct ol_conf_field *fields;
	size_t count;
};

#define OL_ROWS(array) \
	{ \
		(array), sizeof(array) / sizeof((array)[0]) \
	}

/* Model and data: they fix the geometry of the job and the initial weights. */
struct ol_set_model {
	const char *model;
	const char *dataset;
	uint64_t seed;
	bool final_relu;
};

extern const struct ol_rows ol_rows_model;

/* How gradients become steps: the servers' side. */
struct ol_set_rule {
	const char *consistency;
	struct ol_consistency_set how; /* parsed by ol_settings_rule_check() */
	double lr;
	double momentum;
	double beta1;
	double beta2;
	double epsilon;
	double weight_decay;
	const char *schedule;
	struct ol_schedule_set rates; /* parsed by ol_settings_rule_check() */
	double clip_value;
	double clip_norm;
	uint32_t groups;
	int optimizer; /* enum ol_optimizer */
	int reduce; /* 1: sum */
	int nonfinite; /* 1: apply */
	int isolation; /* 1: one domain of the job */
	uint32_t threads; /* of a server */
};

extern const struct ol_rows ol_rows_rule;
extern const struct ol_conf_choice ol_optimizers[];

/* How a process reaches the others. */
struct ol_set_link {
	const char *device;
	uint32_t window;
	uint32_t spin_us;
	int log; /* enum ol_log_level */
	int log_format; /* enum ol_log_format */
};

extern const struct ol_rows ol_rows_link;

/* What verbs asks of an adapter and of memory for it: as in struct ol_worker_opts. The rows follow those of the link. */
struct ol_set_wire {
	uint32_t retry_timeout_ms;
	uint32_t ack_timeout;
	uint32_t retries;
	uint32_t rnr_timer;
	uint32_t rnr_retries;
	uint32_t traffic_class;
	int path_mtu; /* bytes; 0: the path's */
	int relaxed_ordering, huge_pages; /* enum ol_choice */
};

extern const struct ol_rows ol_rows_wire;

/* OL_SETTINGS_WIRE -- into a server's or a worker's options */
#define OL_SETTINGS_WIRE(set, opts) \
	do { \
		(opts)->retry_timeout_ms = (set)->retry_timeout_ms; \
		(opts)->ack_timeout = (set)->ack_timeout; \
		(opts)->retries = (set)->retries; \
		(opts)->rnr_timer = (set)->rnr_timer; \
		(opts)->rnr_retries = (set)->rnr_retries; \
		(opts)->traffic_class = (set)->traffic_class; \
		(opts)->path_mtu = (uint32_t)(set)->path_mtu; \
		(opts)->relaxed_ordering = (uint32_t)(set)->relaxed_ordering; \
		(opts)->huge_pages = (uint32_t)(set)->huge_pages; \
	} while (0)

extern const struct ol_conf_choice ol_log_levels[];

struct ol_set_transport {
	int transport; /* enum ol_transport_choice */
};

enum ol_transport_choice {
	OL_TRANSPORT_AUTO, /* shm if an address starts with / or @ */
	OL_TRANSPORT_SHM,
	OL_TRANSPORT_VERBS
};

extern const struct ol_conf_choice ol_transports[]; /* auto is the first */
extern const struct ol_rows ol_rows_transport; /* default: auto */

/* ol_transport_name -- the library's name for it; NULL: auto */
const char *ol_transport_name(int choice);

/* Checkpoints, and what a restarted server does with them: the servers' side. */
struct ol_set_durable {
	const char *checkpoint; /* durable.h */
	double replay_clip;
	int durability; /* enum ol_durability */
	int restore; /* enum ol_restore; its row is the subcommand's own */
	int replay; /* enum ol_replay */
};

enum ol_durability {
	OL_DURABILITY_NONE,
	OL_DURABILITY_CHECKPOINT,
	OL_DURABILITY_CHAIN /* replicas of each server */
};

extern const struct ol_rows ol_rows_durable;
extern const struct ol_rows ol_rows_restore_first; /* of a server: default none */
extern const struct ol_rows ol_rows_restore_again; /* of a server that `train` restarts */

/* What a worker does while a server is gone. */
struct ol_set_outage {
	double outage_timeout; /* seconds; 0: never */
	int outage; /* enum ol_outage */
	int queue; /* enum ol_queue */
	uint32_t queue_max;
	bool local_progress;
	bool mirror_state;
};

extern const struct ol_rows ol_rows_outage;

/* How a worker's gradients travel. */
struct ol_set_format {
	int gradient_format; /* enum ol_format */
};

extern const struct ol_rows ol_rows_format;
extern const struct ol_conf_choice ol_formats[];
#define OL_FORMATS_HELP \
	"elements of gradients on the way to the servers: fp32; bf16, fp16: half the bytes; int8: " \
	"a quarter, what it rounds off goes into the next push"

/* How long a worker's gradients take, and what it does with a late one. */
struct ol_set_late {
	const char *delay; /* delay.h */
	int on_late; /* enum ol_on_late */
};

extern const struct ol_rows ol_rows_late;

/* After how much silence a server counts as gone: the same value on both sides. */
struct ol_set_lease {
	uint32_t lease_ms;
};

extern const struct ol_rows ol_rows_lease;

/* Where the views of chains live. */
struct ol_set_coord {
	const char *coordinator; /* NULL: there are no chains */
	const char *job;
};

extern const struct ol_rows ol_rows_coord;

/* The chain of each shard: the servers' side. */
struct ol_set_chain {
	uint32_t replicas;
	uint32_t replicate_every; /* 0: strict */
};

extern const struct ol_rows ol_rows_chain;

struct ol_settings {
	const char *cmd; /* subcommand */
	const char *addresses; /* its setting that OUTLAST_JOB gives; NULL: it connects to no job */
	struct ol_conf_spec spec; /* the caller fills in texts; fields are set by add() */
	struct ol_conf_field fields[OL_CONF_FIELDS_MAX];
	size_t count;
	struct ol_conf *conf;
};

/* ol_settings_add -- add the rows of a group that lies at `base` in the subcommand's struct */
void ol_settings_add(struct ol_settings *settings, struct ol_rows rows, size_t base);

/*
 * ol_settings_load -- read them all into target
 *
 * OUTLAST_JOB is the name of a job (--job), or where the job is, as outlast launch says it and Python takes it:
 * addresses of its servers, or a coordinator, where OUTLAST_JOB_NAME is its name. No name has a colon, a slash or an @.
 * Of the second kind it goes before nothing that was given.
 *
 * Returns true if the subcommand is to go on. Otherwise help or the error has been printed and
 * *ret_exit is the exit code. Either way ol_settings_fini() ends it.
 */
bool ol_settings_load(struct ol_settings *settings, void *target, int argc, char **argv,
		      int *ret_exit);

/* ol_settings_fail -- print that a value does not fit the others; returns OL_EXIT_USAGE */
int ol_settings_fail(struct ol_settings *settings, const char *name, const char *why);

/* ol_settings_fini -- every string that target points to is gone */
void ol_settings_fini(struct ol_settings *settings);

/* ol_settings_source -- where its value is from: ol_conf_source(); "": no such setting */
const char *ol_settings_source(const struct ol_settings *settings, const char *name, char *buf,
			       size_t buf_bytes);

/* ol_settings_text -- the value of a setting as text, cut to fit; "": no such setting */
const char *ol_settings_text(const struct ol_settings *settings, const char *name, char *buf,
			     size_t buf_bytes);

/*
 * ol_settings_durable_check -- check the group; prints a fault, returns an exit code
 *
 * *ret_ckpt holds --checkpoint; a folder may be missing from it.
 */
int ol_settings_durable_check(struct ol_settings *settings, const struct ol_set_durable *set,
			      struct ol_ckpt_set *ret_ckpt);

/* ol_settings_outage -- set the worker's options from the groups */
void ol_settings_outage(const struct ol_set_outage *set, const struct ol_set_lease *lease,
			struct ol_worker_opts *opts);

/*
 * ol_settings_rule_check -- check the group for so many workers and servers (shards); sets set->how
 *
 * Prints a fault, returns an exit code.
 */
int ol_settings_rule_check(struct ol_settings *settings, struct ol_set_rule *set, uint32_t workers,
			   uint32_t servers);

/* ol_settings_rule -- the update rule of a group */
struct ol_update_rule ol_settings_rule(const struct ol_set_rule *set);
/* ol_settings_schedule -- what of the rule may change while the job runs */
void ol_settings_schedule(const struct ol_set_rule *set, struct ol_server_opts *opts);

/* A command line in the making; owns its words. */
struct ol_args {
	char *words[OL_ARGS_MAX + 1]; /* NULL behind the last */
	size_t count;
	bool failed; /* no memory, or too many */
};

void ol_args_add(struct ol_args *args, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ol_args_add_rows -- "--name=value" for every row of a group, as it is in force */
void ol_args_add_rows(struct ol_args *args, const struct ol_settings *settings,
		      struct ol_rows rows);
void ol_args_free(struct ol_args *args);

#endif /* CMD_SETTINGS_H */
