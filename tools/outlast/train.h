/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train.h -- the parts of `outlast train`
 *
 *	train.c          settings, the course of a job from start to end
 *	train_start.c    processes up, the observer connected
 *	train_watch.c    what happens meanwhile: messages, deaths, signals, progress, evaluation,
 *stop train_report.c   start block, progress line, summary, JSON
 *
 * One thread, one struct train. Processes are all started before the observer opens a transport:
 * a process that holds one must not fork.
 */
#ifndef OUTLAST_TRAIN_H
#define OUTLAST_TRAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "outlast.h"
#include "outlast/job.h"
#include "outlast/proc.h"
#include "outlast/settings.h"

enum {
	TRAIN_WORKERS_MAX = 64,
	TRAIN_SERVERS_MAX = 16,
	TRAIN_ADDR_MAX = 256,
	TRAIN_MEMORY_MAX = 256
};

struct train_set {
	const char *address;
	const char *json;
	uint64_t steps;
	uint64_t eval_every;
	double seconds;
	double epochs;
	uint32_t workers;
	uint32_t servers;
	uint32_t batch;
	int transport; /* enum ol_transport_choice, never auto */
	struct ol_set_model model;
	struct ol_set_rule rule;
	struct ol_set_link link;
};

struct train_server {
	struct ol_proc proc;
	bool ready;
	char addr[TRAIN_ADDR_MAX];
	char memory[TRAIN_MEMORY_MAX];
};

struct train_worker {
	struct ol_proc proc;
	bool ready; /* connected, waits for "go" */
	bool died; /* before it was done, or with an error */
	uint64_t computed; /* as it said last */
	json_t *done; /* its figures, or NULL */
};

/* What the servers' boards say, put together. Counts are those of shard 0. */
struct train_stat {
	uint64_t version; /* of the shard furthest behind */
	uint64_t applied;
	uint64_t dropped_nonfinite;
	uint64_t dropped_late;
	uint64_t staleness_sum;
	float loss;
};

enum train_phase {
	TRAIN_STARTING, /* a process that fails ends the job with that process's exit code */
	TRAIN_RUNNING, /* "go" has been said; ends when every worker has ended */
	TRAIN_ENDING, /* workers are gone, servers may go */
};

struct train {
	struct ol_settings settings;
	struct train_set set;
	struct ol_job *job;
	char key[OL_JOB_KEY_BYTES];
	enum train_phase phase;
	int signal_fd;
	int signal; /* that ends the job early; 0: none */
	int exit_code; /* of the first failure */
	unsigned died; /* workers */
	bool stopping; /* workers have been told, or one is being held */
	bool killed; /* workers have been told to quit */
	uint64_t quit_ns; /* when */
	uint64_t steps; /* updates wanted; 0: until the time is over */

	struct train_server servers[TRAIN_SERVERS_MAX];
	struct train_worker workers[TRAIN_WORKERS_MAX];
	struct ol_worker *observer;
	struct ol_op pull;

	uint64_t begin_ns; /* of the program */
	uint64_t go_ns; /* of training */
	uint64_t end_ns; /* of training */
	struct train_stat stat;
	uint64_t stat_ns;
	double rate; /* gradients a second of late */
	uint64_t shown_ns;
	bool tty;
	bool line_open; /* a progress line without its newline is on the screen */

	struct ol_eval eval;
	bool evaluating;
	uint64_t eval_version;
	uint64_t eval_next; /* version */
	double eval_t_s;
	json_t *evals; /* time line */
	double accuracy; /* of the last evaluation; below 0: none yet */
	double loss;

	bool final; /* the three below are of the final weights */
	uint64_t final_version;
	char sha256[OL_SHA256_HEX_BYTES];
};

static inline bool train_is_sync(const struct train *train)
{
	return train->set.rule.consistency == OL_CONSISTENCY_SYNC;
}

/* train_start.c; 0 or an exit code, after saying why */
int train_servers_start(struct train *train);
int train_workers_start(struct train *train);
int train_observer_open(struct train *train);

/* train_watch.c */

/* train_turn -- wait up to timeout_ms for messages, signals and ends of processes; act on them */
void train_turn(struct train *train, int timeout_ms);

/* train_fail -- the first failure decides the exit code; workers are told to quit */
void train_fail(struct train *train, int exit_code);

/* train_go -- tell every worker its share; sets go_ns */
void train_go(struct train *train);

/* train_stop -- training ends as soon as no worker has to wait for another; may be called again */
void train_stop(struct train *train);

/* train_tick -- counters, progress, evaluation while workers train */
void train_tick(struct train *train);

/* train_stat_read -- counters now; what cannot be read stays as it was */
void train_stat_read(struct train *train);

/* train_evaluate -- pull the newest weights, evaluate them whole; 0 or a code */
int train_evaluate(struct train *train);

bool train_workers_gone(const struct train *train);

/* train_report.c */
void train_show_start(const struct train *train);
void train_show_progress(struct train *train, uint64_t now_ns);

/* train_say -- a line for people on stderr, after the progress line */
void train_say(struct train *train, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* train_report -- summary on stdout, JSON; 0 or an exit code */
int train_report(struct train *train);

#endif /* OUTLAST_TRAIN_H */
