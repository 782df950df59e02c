/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * parts.h -- the parts of `outlast train`, from the lowest to the highest: README.md
 *
 * One thread, one struct train. Processes are started by posix_spawn(), which copies no memory: so
 * they may be started while the observer has a transport open.
 */
#ifndef TRAIN_PARTS_H
#define TRAIN_PARTS_H

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/folder.h"
#include "cmd/delay.h"
#include "cmd/durable.h"
#include "cmd/job.h"
#include "cmd/kill.h"
#include "cmd/proc.h"
#include "cmd/settings.h"
#include "outlast.h"
#include "outlast_server.h"

enum {
	TRAIN_WORKERS_MAX = 64,
	TRAIN_SERVERS_MAX = 16, /* shards */
	TRAIN_HOLDERS_MAX = TRAIN_SERVERS_MAX * OL_CHAIN_MAX, /* processes that hold them */
	TRAIN_ADDR_MAX = 256,
	TRAIN_MEMORY_MAX = 256,
	TRAIN_RESTARTS_MAX = 1000,
	TRAIN_SURVIVED_MS = 500, /* who was woken up and is there after it was not missed */
	TRAIN_OUTAGES_MAX = OL_KILLS_MAX + TRAIN_RESTARTS_MAX
};

/* Who goes back to a checkpoint when a server is lost */
enum train_recovery {
	TRAIN_RECOVERY_PARTIAL, /* the one that takes its place */
	TRAIN_RECOVERY_FULL /* all of them, to the same version */
};

struct train_set {
	const char *address;
	const char *json;
	const char *kill;
	const char *timeline;
	uint64_t steps;
	uint64_t eval_every;
	double seconds;
	double epochs;
	double eval_seconds;
	double pace; /* of each worker */
	uint32_t workers;
	uint32_t servers; /* shards */
	const char *coordinator; /* NULL: our own */
	uint32_t batch;
	uint32_t restarts;
	uint32_t timeline_ms;
	bool resume;
	int recovery; /* enum train_recovery */
	int transport; /* enum ol_transport_choice, never auto */
	struct ol_set_model model;
	struct ol_set_rule rule;
	struct ol_set_durable durable;
	struct ol_set_chain chain;
	struct ol_set_late late;
	struct ol_set_outage outage;
	struct ol_set_lease lease;
	struct ol_set_link link;
};

enum train_outage_state {
	TRAIN_OUTAGE_OPEN, /* the process is missed, or its replacement has not shown its worth */
	TRAIN_OUTAGE_OVER, /* a server's gradient was applied again; a worker was ready again */
	TRAIN_OUTAGE_SURVIVED /* a stopped server was woken up before anyone missed it */
};

/* A process that was lost, or stopped, and what came of it. Times are of CLOCK_MONOTONIC. */
struct train_outage {
	char target[24]; /* "server0"; of a chain "head0" */
	enum train_outage_state state;
	bool server; /* else a worker */
	bool fenced; /* STOP: the old one ended by itself */
	uint32_t index;
	const struct ol_kill *kill; /* NULL: nobody asked for it */
	uint64_t version; /* when it was lost */
	uint64_t killed_ns;
	/* 0: not so far, as the next two. By the first worker; of a chain: its view has changed */
	uint64_t detected_ns;
	uint64_t ready_ns; /* whoever took its place had its weights */
	uint64_t first_applied_ns;
	uint64_t replica; /* of a chain: id of the one that was lost, */
	uint32_t epoch; /* and epoch of the view it was in; */
	uint32_t next_epoch; /* of the first without it, */
	uint64_t base_version; /* what the tail had committed when it entered that; */
	bool based; /* this is known; */
	uint64_t whole_ns; /* when the chain was as long again as it is to be; 0: not yet */
	char from[16]; /* where these weights came from; "": not known */
	uint64_t restored_version;
	double loss_before; /* NAN: not known */
	double accuracy_before;
	double loss_after;
	double accuracy_after;
	uint64_t lost_at; /* gradients that the job had lost when it began … */
	uint64_t lost; /* … and that it lost in it */
};

enum train_life_state {
	TRAIN_LIVES, /* nobody has done anything to the process, or it waits for its next start */
	TRAIN_KILLED, /* it ends by what was done to it, or may: its end is no surprise */
	TRAIN_STOPPED /* it stands still, until it is woken up */
};

/* What a process can go through. */
struct train_life {
	enum train_life_state state;
	bool wants_wake; /* once its replacement is there */
	bool rolled; /* it goes back with the others, until it has its weights */
	uint64_t wake_ns; /* 0: not at a certain time */
	uint64_t start_ns; /* start it again then; 0: it is there */
	uint64_t retry_ns; /* until then a start that fails is tried again */
	struct train_outage *outage; /* it is in; NULL: none */
};

enum train_server_state {
	TRAIN_SERVER_STARTS, /* the process is there, or is not */
	TRAIN_SERVER_LISTENS, /* its address is known */
	TRAIN_SERVER_WHOLE /* it has its weights */
};

struct train_server {
	enum train_server_state state;
	struct ol_proc proc;
	struct ol_proc old; /* stopped, replaced; it is to end by itself once it is woken up */
	struct train_life life;
	uint64_t restored_ns; /* since then it has its weights */
	uint64_t hangs_ns; /* silent since then, it was killed as one that hangs */
	uint32_t shard;
	uint32_t place; /* among those of its shard, from 0 */
	uint32_t starts; /* how often it was started */
	uint32_t epoch;
	uint32_t first_epoch;
	uint64_t replica; /* its id in the chain; 0: not known */
	uint32_t role; /* there, as it said last: enum ol_replica_role */
	bool member; /* it has been in a view */
	uint64_t out_ns; /* a member is in the view no more, since then; 0: it is */
	char addr[TRAIN_ADDR_MAX];
	char memory[TRAIN_MEMORY_MAX];
	struct ol_server_stat stat; /* of the process now */
	struct ol_server_stat past; /* sums of those before */
	uint64_t resyncs; /* by them: how often one was brought up to date */
	struct train_outage *woken; /* of `old` */
};

/* What became of the gradients of one process, as it said last. */
struct train_count {
	uint64_t computed;
	uint64_t pushed;
	uint64_t applied;
	uint64_t dropped_nonfinite;
	uint64_t dropped_late;
	uint64_t queue_dropped;
	uint64_t lost;
	uint64_t pending;
	uint64_t queued; /* now: no server knows them */
	uint64_t queued_total;
	uint64_t resent;
	uint64_t queue_bytes;
	uint64_t queue_bytes_max;
	uint64_t interrupted;
	uint64_t before_computed;
	uint64_t outage_computed;
	double before_s;
	double outage_s;
};

enum train_worker_state {
	TRAIN_WORKER_STARTS, /* it is not connected yet */
	TRAIN_WORKER_WORKS, /* it waits for "go", or computes */
	TRAIN_WORKER_FINISHED, /* it has computed all it was to, and stays for the others */
	TRAIN_WORKER_DIED /* for good: before it was done, or with an error */
};

struct train_worker {
	enum train_worker_state state;
	struct ol_proc proc;
	struct train_life life;
	uint64_t unsettled; /* bit i: what waited for shard i's server is not resolved */
	uint32_t epochs[TRAIN_SERVERS_MAX]; /* of servers that it has found again */
	uint64_t ready_ns; /* it had found all that there were */
	char waits[64]; /* for what, in words; "": it does not wait */
	uint64_t barren; /* steps that made no version */
	uint64_t heard_ns; /* when it said something last */
	bool silent; /* it was said that it says nothing */
	struct train_count now;
	struct train_count past; /* of the processes before */
	json_t *done; /* its figures, or NULL */
};

/* What the servers' boards say, put together. Counts are those of shard 0. */
struct train_stat {
	uint64_t version; /* of the shard furthest behind */
	uint64_t applied;
	uint64_t dropped_nonfinite;
	uint64_t dropped_late;
	uint64_t staleness_sum;
	uint32_t wait_for; /* gradients that the next step waits for; 0: not known */
	float loss;
};

/* An evaluation: weights of the observer's that are to be, or are being looked at */
struct train_eval {
	const float *weights; /* NULL: none */
	uint64_t version;
	double t_s;
	struct train_outage *before; /* it is that of the weights lost then, … */
	struct train_outage *after; /* … or of those after it; NULL: neither */
};

/* One worker at one shard, from both ends */
struct train_account {
	uint64_t base;
	uint64_t applied; /* says the worker */
	uint64_t contained; /* in the final weights */
};

enum train_phase {
	TRAIN_STARTING, /* a process that fails ends the job with that process's exit code */
	TRAIN_RUNNING, /* "go" has been said; who is lost is started again */
	TRAIN_LEAVING, /* all have finished and are told to leave; who is thrown back says so, and
			  it is RUNNING again */
	TRAIN_ENDING /* workers are gone: the last weights are looked at, servers may go */
};

/* Lines for people on stderr */
struct train_screen {
	bool tty;
	bool line_open; /* a progress line without its newline is on it */
	uint64_t shown_ns; /* when a progress line was shown last */
};

/* Full recovery: all servers end, to be started again from one version. */
struct train_roll {
	bool on;
	uint64_t bound; /* that is not above this */
	uint64_t version; /* where all began last, … */
	uint32_t epochs[TRAIN_SERVERS_MAX]; /* … each with this epoch */
};

/* Whether anything moves */
struct train_still {
	uint64_t steps; /* marks that change once anything has moved, … */
	uint64_t lives;
	uint64_t moved_ns; /* … as last then */
	uint64_t stuck_ns; /* since then who has not finished waits for who has; 0: not so */
	bool said; /* for whom the job waits, since the last gradient */
};

/* Evaluations, one after the other */
struct train_evals {
	struct ol_eval eval;
	struct train_eval now;
	struct train_eval then; /* pulled while another was looked at */
	bool pulled; /* a pull was tried since `now` was begun */
	uint64_t next; /* version */
	uint64_t next_ns;
	json_t *list; /* of all */
	/* Of the last one; accuracy is below 0 before there is one. Who is no classifier has another
	   score in its place: job->traits->score_name. */
	double accuracy;
	double loss;
};

/* Gradients computed, a second, of late */
struct train_rate {
	double per_s;
	uint64_t computed;
};

/* The final weights, and what is said of them */
struct train_last {
	bool known; /* they were pulled, and the rest is of them */
	bool accounted; /* both ends of every worker agree, or there was nothing to compare */
	uint64_t version;
	char sha256[OL_SHA256_HEX_BYTES];
	uint64_t contained[TRAIN_SERVERS_MAX][TRAIN_WORKERS_MAX]; /* gradients */
	struct learn_figure figures[LEARN_FIGURES_MAX];
	size_t figure_count;
};

/* Where each shard has a chain: its views, and what servers and workers are told of them */
struct train_chain {
	struct ol_folder own; /* of views; none: --coordinator was given */
	struct ol_chains *views;
	struct ol_chain_info last[TRAIN_SERVERS_MAX]; /* at the end of training */
	char addr[TRAIN_ADDR_MAX];
	char job[48];
};

struct train {
	struct ol_settings settings;
	struct train_set set;
	struct ol_kills kills;
	bool fired[OL_KILLS_MAX];
	struct ol_ckpt_set ckpt;
	bool folder_own; /* the folder of checkpoints is ours to remove */
	int folder_fd; /* of that folder, locked; -1: none */
	struct ol_job *job;
	char key[OL_JOB_KEY_BYTES];
	char tag[9]; /* of names that no other run has */
	enum train_phase phase;
	uint64_t
		stop_ns; /* workers have been told to stop, or one is held, since then; 0: not so */
	uint64_t quit_ns; /* workers have been told to quit, since then; 0: not so */
	int signal_fd;
	int signal; /* that ends the job early; 0: none */
	uint64_t signal_ns; /* when it came */
	int exit_code; /* of the first failure */
	unsigned died; /* workers, for good */
	unsigned restarts; /* of processes that nobody killed on purpose */
	uint64_t stop_at; /* a sync job's last step, once it is decided; 0: steps */
	uint64_t steps; /* updates wanted; 0: until the time is over */

	struct train_server servers[TRAIN_HOLDERS_MAX]; /* shard by shard */
	struct train_chain *chain; /* NULL: a shard has one server */
	struct ol_server_stat tails[TRAIN_SERVERS_MAX]; /* of chains */
	struct train_worker workers[TRAIN_WORKERS_MAX];
	struct train_outage outages[TRAIN_OUTAGES_MAX];
	unsigned outage_count;
	struct ol_worker *observer;
	struct ol_op pull;

	uint64_t begin_ns; /* of the program */
	uint64_t go_ns; /* of training */
	uint64_t end_ns; /* of training */
	struct train_stat stat;
	uint64_t stat_ns;
	struct train_rate rate;
	struct train_screen screen;
	struct train_roll roll;
	struct train_still still;
	struct train_evals evals;
	struct train_timeline *timeline; /* NULL: none is wanted */

	uint64_t version_first; /* of --resume, as the next: before this run */
	uint64_t contained_first[TRAIN_WORKERS_MAX]; /* gradients */
	struct train_last last;
};

/* train_goes -- training is under way */
static inline bool train_goes(const struct train *train)
{
	return train->phase == TRAIN_RUNNING || train->phase == TRAIN_LEAVING;
}

static inline bool train_is_sync(const struct train *train)
{
	return train->set.rule.how.consistency == OL_CONSISTENCY_SYNC;
}

/*
 * train_by_version -- its steps are the job's, whoever makes them: where workers wait for each
 * other those who are done would hold up the one that was killed, and has its own left. But each
 * worker of an additive model has samples that no other has.
 */
static inline bool train_by_version(const struct train *train)
{
	return train->set.rule.how.consistency != OL_CONSISTENCY_ASYNC &&
	       !train->job->traits->additive;
}

/* train_needs_all -- a step takes one gradient of every worker */
static inline bool train_needs_all(const struct train *train)
{
	return ol_consistency_all(&train->set.rule.how);
}

/* train_k_varies -- how many gradients a step takes is not what the number of workers says */
static inline bool train_k_varies(const struct train *train)
{
	return ol_consistency_backup(&train->set.rule.how);
}

/* train_replicas -- servers that each shard is to have */
static inline uint32_t train_replicas(const struct train *train)
{
	return train->set.durable.durability == OL_DURABILITY_CHAIN ? train->set.chain.replicas : 1;
}

/* train_recovers_all -- a server that is lost takes all others back with it */
static inline bool train_recovers_all(const struct train *train)
{
	return train->set.recovery == TRAIN_RECOVERY_FULL;
}

/* train_holders -- server processes, of all shards */
static inline uint32_t train_holders(const struct train *train)
{
	return train->set.servers * train_replicas(train);
}

/* train_number -- as JSON has it: null for what is not known, or not finite */
static inline json_t *train_number(bool known, double value)
{
	return known && isfinite(value) ? json_real(value) : json_null();
}

/* say.c: a line for people on stderr, after the progress line */

void train_say(struct train_screen *screen, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void train_line_close(struct train_screen *screen);

/* crew.c */

bool train_workers_gone(const struct train *train);

/* train_fail -- the first failure decides the exit code; workers are told to quit */
void train_fail(struct train *train, int exit_code);

/* train_quit -- as far as workers go; the exit code stays as it is */
void train_quit(struct train *train);

/* train_settled -- no worker has gradients left that waited for a shard's server */
bool train_settled(const struct train *train, uint32_t shard);

/* train_wake -- what is stopped goes on; of a server it may be found that it was missed */
void train_wake(struct train_server *server, uint64_t now_ns);

/* account.c */

/* train_count_take -- a worker's figures out of what it said */
void train_count_take(struct train_worker *worker, const json_t *message);

/* train_count_close -- its process is gone: the next one begins at 0 */
void train_count_close(struct train_worker *worker);

/* train_counts -- of all workers, past ones too */
struct train_count train_counts(const struct train *train);

/* train_contained_take -- what the weights that the observer pulled last contain of every worker */
void train_contained_take(struct train *train);

/* train_contained -- gradients of a worker in the final weights, in the shard with least of them */
uint64_t train_contained(const struct train *train, uint32_t worker);

/* train_accounts_check -- true if both ends agree; says what does not */
bool train_accounts_check(struct train *train);

/* train_counters_take -- a replica says how it fares */
void train_counters_take(struct train_server *server, const json_t *message);

/* train_past_add -- a server has gone: what its counters said last */
void train_past_add(struct train_server *server);

/* train_checkpoints_take -- a server has ended in order: it knows of its last checkpoint */
void train_checkpoints_take(struct train_server *server, const json_t *message);

/* train_total -- over the servers that held a shard */
struct ol_server_stat train_total(const struct train_server *server);
/* train_totals -- of all servers */
struct ol_server_stat train_totals(const struct train *train);

/* train_stat_read -- counters now; what cannot be read stays as it was */
void train_stat_read(struct train *train);

/* train_shard_down -- true if its server is gone or has no weights; since when: 0: not known */
bool train_shard_down(const struct train *train, uint32_t shard, uint64_t *ret_since_ns);

/* train_shards_down -- shards without a server that has weights */
unsigned train_shards_down(const struct train *train);

/* eval.c */

/*
 * train_pull -- pull the newest weights and have them evaluated, now or after those at hand
 *
 * false: not now; two are being looked at, or a server is gone
 */
bool train_pull(struct train *train, struct train_outage *before, struct train_outage *after);

/* train_eval_piece -- some samples of the evaluation at hand */
void train_eval_piece(struct train *train);

/* train_eval_tick -- a piece of the evaluation at hand, or the next one if it is due */
void train_eval_tick(struct train *train);

/* train_eval_fresh -- drop what is at hand, pull the newest weights and begin with them; a code */
int train_eval_fresh(struct train *train);

static inline bool train_evaluating(const struct train *train)
{
	return train->evals.now.weights != NULL;
}

/* model.c */

/* train_model_check -- settings that the model needs: set if the user says nothing; an exit code */
int train_model_check(struct train *train);
/* train_model_look -- figures of the final weights */
void train_model_look(struct train *train, const float *weights);
void train_model_show(const struct train *train);
/* train_model_json -- "score_name", "test_score", "figures", "planted" */
json_t *train_model_json(const struct train *train);

/* chain.c */

/* train_chain_check -- settings of chains that cannot be; 0 or an exit code, after saying why */
int train_chain_check(struct train *train);

/*
 * train_chain_open -- a coordinator of our own, or reach the one given; look at its views
 *
 * 0 or an exit code, after saying why. Nothing if durability is not chain.
 */
int train_chain_open(struct train *train);
void train_chain_close(struct train *train);

/* train_chain_lacking -- shards whose chain lacks replicas; said, if that is wanted */
unsigned train_chain_lacking(struct train *train, bool say);

/* train_chain_target -- who is to be lost now; NULL: nobody is there who could be */
struct train_server *train_chain_target(struct train *train, const struct ol_kill *kill);

/* train_chain_lost -- outage: of a server of a chain, just opened; kill NULL: it died unasked */
void train_chain_lost(struct train *train, struct train_server *server,
		      struct train_outage *outage);

/* train_chain_tick -- what became of those that were lost; while training */
void train_chain_tick(struct train *train);

/* train_chain_lacks -- a chain that lost a server has no new view yet, or nothing committed in it */
bool train_chain_lacks(const struct train *train, bool commit);

/* train_chain_back -- a server has weights; message: where they are from, or NULL */
void train_chain_back(struct train *train, struct train_server *server, const json_t *message);

/* train_chain_goes_on -- another server of the same shard lives */
bool train_chain_goes_on(const struct train *train, const struct train_server *server);

/* train_chain_info -- the last that is known of a shard's view; all 0 without chains */
struct ol_chain_info train_chain_info(const struct train *train, uint32_t shard);

/* train_chain_keep -- what the report says of views is that of now: servers are about to end */
void train_chain_keep(struct train *train);

/* train_chain_json -- members of the report; NULL: no memory */
json_t *train_chain_json(const struct train *train);

/* recover.c */

/* train_recover_check -- settings that do not go with it; 0 or an exit code, after saying why */
int train_recover_check(struct train *train);

/* train_recover_begin -- kill all; they are started from a version up to bound that all have */
void train_recover_begin(struct train *train, uint64_t bound);

/* train_recover_older -- one has begun at an older version: its file is damaged */
void train_recover_older(struct train *train, uint64_t version);

/* train_recover_sweep -- remove what is older than the last versions that all have, as many as
 * keep= */
void train_recover_sweep(struct train *train);
/* train_recover_tick -- once all have ended: which version */
void train_recover_tick(struct train *train);

/*
 * train_recover_resumes -- the first servers are to begin at one version
 * train_recover_resume -- which that is; an exit code
 * train_recover_further -- all have their weights: true if all are to be started once more, since
 * one had to begin at an older version. False: no, or *ret_rc is an exit code
 */
bool train_recover_resumes(const struct train *train);
int train_recover_resume(struct train *train);
bool train_recover_further(struct train *train, int *ret_rc);

/* train_recover_source -- where a server that is started again takes its weights from */
enum ol_restore train_recover_source(const struct train *train);

/* spawn.c; 0 or an exit code, after saying why */

/* train_server_start -- the one of its epoch; elsewhere: not where the one before listened */
int train_server_start(struct train *train, uint32_t index, enum ol_restore restore,
		       bool elsewhere);
int train_worker_start(struct train *train, uint32_t index);

/* train_addresses -- of the servers, one a shard */
const char *train_addresses(const struct train *train,
			    char list[TRAIN_SERVERS_MAX * TRAIN_ADDR_MAX]);

/* outage.c */

/* train_outages_tick -- kill, wake, start again, and look at what comes of it; while training */
void train_outages_tick(struct train *train);

/* train_outages_wait_ms -- for how long nothing of that is due, at most limit_ms */
int train_outages_wait_ms(const struct train *train, int limit_ms);

/* train_server_lost, train_worker_lost -- its process has ended; true: it is started again */
bool train_server_lost(struct train *train, struct train_server *server);
bool train_worker_lost(struct train *train, struct train_worker *worker);

/* train_server_down -- a worker noticed at at_ns that the server of a shard is gone */
void train_server_down(struct train *train, uint32_t shard, uint64_t at_ns);

/* train_server_listens, train_server_restored, train_worker_back -- who is started again is
 * there */
void train_server_listens(struct train *train, struct train_server *server, const char *addr);
void train_server_restored(struct train *train, struct train_server *server, const json_t *message);
void train_worker_back(struct train *train, struct train_worker *worker);

/* train_old_ended -- a server that was stopped and replaced */
void train_old_ended(struct train *train, struct train_server *server);

/* train_outages_close -- at the end of the job */
void train_outages_close(struct train *train);

/* figures.c */

/* Counts of the whole job, from those who know them. */
struct train_figures {
	uint64_t computed;
	uint64_t applied;
	uint64_t dropped; /* by a policy: not finite, late, out of a queue */
	uint64_t unresolved; /* computed, and never answered */
	uint64_t version;
	uint64_t replayed;
	double wall_s; /* first worker's start to last worker's end */
	double rate; /* computed, a second */
	double rate_applied;
	double staleness;
	double k_mean; /* gradients a step; NAN: there was none */
	double rate_before; /* gradients a second until the first outage; NAN: there was none */
	double rate_outage; /* while a server was missing */
	unsigned kills;
	unsigned recoveries;
	bool anew; /* the optimizer's moments were lost */
	struct train_count count;
};

struct train_figures train_figures(const struct train *train);
double train_staleness(const struct train_stat *stat);
double train_k_mean(const struct train *train);

/* train_from_str -- where a server's weights came from, for people */
const char *train_from_str(const struct train_outage *outage);
const char *train_ended_str(const struct train *train);

/* json.c -- NULL: no memory */
json_t *train_json(const struct train *train, const struct train_figures *figures);

/* report.c */

void train_show_start(const struct train *train);
void train_show_progress(struct train *train, uint64_t now_ns);

/* train_report -- summary on stdout, JSON; 0 or an exit code */
int train_report(struct train *train);

/* timeline.c */

/* train_timeline_open -- the file with its first line; 0 or an exit code */
int train_timeline_open(struct train *train);

/* train_timeline_tick -- a row if one is due, or now is the end */
void train_timeline_tick(struct train *train, bool end);

/* train_timeline_wait_ms -- until the next row, at most limit_ms */
int train_timeline_wait_ms(const struct train *train, int limit_ms);
void train_timeline_close(struct train *train);

/* watch.c */

/* train_turn -- wait up to timeout_ms for messages, signals and ends of processes; act on them */
void train_turn(struct train *train, int timeout_ms);

/* train_go -- tell every worker its share; sets go_ns */
void train_go(struct train *train);

/* train_stop -- training ends as soon as no worker has to wait for another; may be called again */
void train_stop(struct train *train);

/*
 * train_stuck_look -- where workers wait for each other, and those who have finished are missed:
 * these make one gradient more
 */
void train_stuck_look(struct train *train);

/* train_tick -- what is due while workers train */
void train_tick(struct train *train);

/* train_end_check -- tell everyone to leave if everyone has finished */
void train_end_check(struct train *train);

/* train_version_wanted -- the last that a synchronous job is to reach; 0: any will do */
uint64_t train_version_wanted(const struct train *train);

/* stall.c */

/*
 * train_stall_look -- while nothing moves: say once for whom the job waits; once a signal has come,
 * wake who is stopped, and see that the job ends
 */
void train_stall_look(struct train *train);

/* train_silence_look -- say so if a worker says nothing; while stopping, kill it */
void train_silence_look(struct train *train);

/* check.c */

/* train_check -- the settings make a job; what it is made of is there. An exit code, said why */
int train_check(struct train *train);
void train_check_fini(struct train *train);

/* start.c; 0 or an exit code, after saying why */
int train_servers_start(struct train *train);
int train_workers_start(struct train *train);
int train_observer_open(struct train *train);

#endif /* TRAIN_PARTS_H */
