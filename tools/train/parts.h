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
#include "cmd/key.h"
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
	TRAIN_SURVIVED_MS = 500, /* a woken process that still runs after this was not missed */
	TRAIN_OUTAGES_MAX = OL_KILLS_MAX + TRAIN_RESTARTS_MAX
};

/* Which servers go back to a checkpoint when one is lost */
enum train_recovery {
	TRAIN_RECOVERY_PARTIAL, /* its replacement alone */
	TRAIN_RECOVERY_FULL /* all of them, to the same version */
};

struct train_set {
	const char *address;
	const char *json;
	const char *save;
	const char *kill;
	const char *timeline;
	uint64_t steps;
	uint64_t eval_every;
	double seconds;
	double epochs;
	double eval_seconds;
	double pace; /* of each worker */
	bool force; /* save: replaces a file that is there */
	uint32_t workers;
	uint32_t servers; /* shards */
	const char *coordinator; /* NULL: our own */
	uint32_t batch;
	uint32_t restarts;
	uint32_t timeline_ms;
	bool resume;
	bool check;
	int recovery; /* enum train_recovery */
	int transport; /* enum ol_transport_choice, never auto */
	struct ol_set_model model;
	struct ol_set_rule rule;
	struct ol_set_durable durable;
	struct ol_set_chain chain;
	struct ol_set_late late;
	struct ol_set_outage outage;
	struct ol_set_lease lease;
	struct ol_set_format format;
	struct ol_set_link link;
	struct ol_set_wire wire;
};

enum train_outage_state {
	TRAIN_OUTAGE_OPEN, /* the process is missing, or its replacement does not work yet */
	TRAIN_OUTAGE_OVER, /* a server has applied a gradient again; a worker was ready again */
	TRAIN_OUTAGE_SURVIVED /* a stopped server was woken up before it was missed */
};

/* The course of an outage: a process was lost, or stopped. Times are of CLOCK_MONOTONIC. */
struct train_outage {
	char target[24]; /* "server0"; of a chain "head0" */
	enum train_outage_state state;
	bool server; /* else a worker */
	bool fenced; /* STOP: the old one ended by itself */
	uint32_t index;
	const struct ol_kill *kill; /* NULL: not by --kill */
	uint64_t version; /* when it was lost */
	uint64_t killed_ns;
	/* This and the next two: 0 until it happens. Detected by the first worker; in a chain: its
	 * view has changed */
	uint64_t detected_ns;
	uint64_t ready_ns; /* the replacement had its weights */
	uint64_t first_applied_ns;
	uint64_t replica; /* in a chain: id of the lost one, */
	uint32_t epoch; /* and epoch of its last view; */
	uint32_t founded; /* in which the history of that view began; 0: not known; */
	uint32_t next_epoch; /* epoch of the first view without it, */
	uint64_t base_version; /* the tail's committed version when it adopted that view; */
	bool based; /* base_version is known; */
	uint64_t committed; /* a version committed in it, at first_applied_ns; */
	bool anew; /* all replicas were lost: the chain began anew, with what `from` says; */
	bool told; /* a line says how it went on; */
	uint64_t whole_ns; /* when the chain had its full length again; 0: not yet */
	char from[16]; /* where these weights came from; "": not known */
	uint64_t restored_version;
	bool expects; /* what these weights would cost was known: */
	uint64_t expected; /* so many gradients */
	double loss_before; /* NAN: not known */
	double accuracy_before;
	double loss_after;
	double accuracy_after;
	uint64_t lost_at; /* of a server: gradients that its shard had lost when it began … */
	uint64_t lost; /* … and that it lost in it */
};

enum train_life_state {
	TRAIN_LIVES, /* not killed or stopped; or waits for its next start */
	TRAIN_KILLED, /* killed, or woken up late: its end is expected */
	TRAIN_STOPPED /* stopped, until it is woken up */
};

/* Faults and restarts of a process */
struct train_life {
	enum train_life_state state;
	bool wants_wake; /* once its replacement is there */
	bool rolled; /* it goes back with the others, until it has its weights */
	uint64_t wake_ns; /* 0: at no fixed time */
	uint64_t start_ns; /* when to start it again; 0: no start is due */
	uint64_t retry_ns; /* until when a failed start is tried again */
	bool device_gone; /* it ended for want of its device, which may be away for a while */
	bool elsewhere; /* and it cannot listen where it did: that device is not back */
	struct train_outage *outage; /* present one; NULL: none */
};

enum train_server_state {
	TRAIN_SERVER_STARTS, /* it does not listen yet, or has no process */
	TRAIN_SERVER_LISTENS, /* its address is known */
	TRAIN_SERVER_WHOLE /* it has its weights */
};

struct train_server {
	enum train_server_state state;
	struct ol_proc proc;
	struct ol_proc old; /* stopped and replaced; must end by itself once it is woken up */
	struct train_life life;
	uint64_t restored_ns; /* since when it has its weights */
	uint64_t hangs_ns; /* since when it was silent, when it was killed for hanging */
	uint32_t shard;
	uint32_t place; /* among those of its shard, from 0 */
	uint32_t starts; /* how often it was started */
	uint32_t epoch;
	uint32_t first_epoch;
	uint64_t replica; /* its id in the chain; 0: not known */
	uint32_t role; /* in the chain, by its last report: enum ol_replica_role */
	bool member; /* it has been in a view */
	uint64_t out_ns; /* since when a member is out of the view; 0: it is in it */
	char addr[TRAIN_ADDR_MAX];
	char memory[TRAIN_MEMORY_MAX];
	struct ol_server_stat stat; /* of the present process */
	struct ol_server_stat past; /* sums of former processes */
	uint64_t began; /* gradients in the weights that the present process began with, */
	uint64_t past_began; /* and the sum of former ones: `applied` has them, too */
	uint64_t resyncs; /* of all: how often one was brought up to date */
	struct train_outage *woken; /* of `old` */
};

/* Counts of one process's gradients, by its last report */
struct train_count {
	uint64_t computed;
	uint64_t pushed;
	uint64_t applied;
	uint64_t dropped_nonfinite;
	uint64_t dropped_late;
	uint64_t queue_dropped;
	uint64_t lost;
	uint64_t pending;
	uint64_t queued; /* at present: no server knows them */
	uint64_t queued_total;
	uint64_t resent;
	uint64_t queue_bytes;
	uint64_t queue_bytes_max;
	uint64_t interrupted;
	uint64_t before_computed;
	uint64_t outage_computed;
	double before_s;
	double outage_s;
	uint64_t shard_lost[TRAIN_SERVERS_MAX]; /* a gradient may be lost in several shards */
};

enum train_worker_state {
	TRAIN_WORKER_STARTS, /* it is not connected yet */
	TRAIN_WORKER_WORKS, /* it waits for "go", or computes */
	TRAIN_WORKER_FINISHED, /* it has computed its share, and stays for the others */
	TRAIN_WORKER_DIED /* for good: before it was done, or with an error */
};

struct train_worker {
	enum train_worker_state state;
	struct ol_proc proc;
	struct train_life life;
	uint64_t unsettled; /* bit i: its queue for shard i is not resolved */
	uint32_t epochs[TRAIN_SERVERS_MAX]; /* of servers that it has found again */
	uint64_t ready_ns; /* when it had found all servers */
	char waits[64]; /* what it waits for, in words; "": it does not wait */
	uint64_t barren; /* steps that made no version */
	uint64_t heard_ns; /* of its last report */
	bool silent; /* a line says that it does not report */
	struct train_count now;
	struct train_count past; /* of former processes */
	json_t *done; /* its figures, or NULL */
};

/* A summary of the servers' boards. Counts are those of shard 0. */
struct train_stat {
	uint64_t version; /* of the shard furthest behind */
	uint64_t applied;
	uint64_t dropped_nonfinite;
	uint64_t dropped_late;
	uint64_t carried;
	uint64_t staleness_sum; /* of the gradients that these processes applied themselves: */
	uint64_t counted; /* so many */
	uint32_t wait_for; /* gradients that the next step waits for; 0: not known */
	float loss;
	uint64_t read_ns; /* when this was read */
};

/* An evaluation, pending or in progress, of weights of the observer */
struct train_eval {
	const float *weights; /* NULL: none */
	uint64_t version;
	double t_s;
	struct train_outage *before; /* the outage that lost these weights, … */
	struct train_outage *after; /* … or after which they are; NULL: neither */
};

/* One worker at one shard, from both ends */
struct train_account {
	uint64_t base;
	uint64_t applied; /* by the worker's report */
	uint64_t contained; /* in the final weights */
};

enum train_phase {
	TRAIN_STARTING, /* a process that fails ends the job with its exit code */
	TRAIN_RUNNING, /* "go" was ordered; lost processes are restarted */
	TRAIN_LEAVING, /* all have finished and are told to leave; if a worker reports that it was
			  rolled back, it is RUNNING again */
	TRAIN_ENDING /* workers are gone: the last weights are evaluated, servers may end */
};

/* Lines for people on stderr */
struct train_screen {
	bool tty;
	bool line_open; /* it shows a progress line without its newline */
	uint64_t shown_ns; /* of the last progress line */
};

/* Full recovery: all servers end, and are restarted from one version. */
struct train_roll {
	bool on;
	uint64_t bound; /* largest version to restart from */
	uint64_t version; /* of the last common start, … */
	uint32_t epochs[TRAIN_SERVERS_MAX]; /* … each with this epoch */
};

/* Whether the job makes progress */
struct train_still {
	uint64_t steps; /* marks that change with any progress, … */
	uint64_t lives;
	uint64_t moved_ns; /* … and when they last did */
	uint64_t stuck_ns; /* since when unfinished workers wait for finished ones; 0: none do */
	bool said; /* a line since the last gradient says what the job waits for */
};

/* Evaluations, one after the other */
struct train_evals {
	struct ol_eval eval;
	struct train_eval now;
	struct train_eval then; /* pulled during another evaluation */
	bool pulled; /* a pull was tried since `now` was begun */
	uint64_t next; /* version */
	uint64_t next_ns;
	json_t *list; /* of all */
	/* Of the last one; accuracy is below 0 before there is one. Models that are no classifiers
	   have another score in its place: job->traits->score_name. */
	double accuracy;
	double loss;
};

/* The recent rate of computed gradients */
struct train_rate {
	double per_s;
	uint64_t computed;
};

/* The final weights, and figures about them */
struct train_last {
	bool known; /* they were pulled; the other members are of them */
	bool accounted; /* the counts of worker and weights agree, or cannot be compared */
	uint64_t version;
	char sha256[OL_SHA256_HEX_BYTES];
	uint64_t contained[TRAIN_SERVERS_MAX][TRAIN_WORKERS_MAX]; /* gradients */
	struct learn_figure figures[LEARN_FIGURES_MAX];
	size_t figure_count;
};

/* If each shard has a chain: its views, and the coordinator for servers and workers */
struct train_chain {
	struct ol_folder own; /* of views; none: --coordinator was given */
	struct ol_chains *views;
	struct ol_chain_info last[TRAIN_SERVERS_MAX]; /* at the end of training */
	uint32_t gone
		[TRAIN_SERVERS_MAX]; /* a line says that all replicas of this history are lost */
	char addr[TRAIN_ADDR_MAX];
	char job[48];
};

struct train {
	struct ol_settings settings;
	struct train_set set;
	struct ol_kills kills;
	bool fired[OL_KILLS_MAX];
	struct ol_ckpt_set ckpt;
	bool folder_own; /* this process made the checkpoint folder, and removes it */
	bool folder_new; /* that of --checkpoint was not there before */
	int folder_fd; /* of that folder, locked; -1: none */
	struct ol_job *job;
	char key[OL_JOB_KEY_MAX];
	char tag[9]; /* for names that no other run has */
	enum train_phase phase;
	uint64_t stop_ns; /* since when workers are told to stop, or one is held; 0: they are not */
	uint64_t quit_ns; /* since when workers are told to quit; 0: they are not */
	int signal_fd;
	int signal; /* that ends the job early; 0: none */
	uint64_t signal_ns; /* when it came */
	int exit_code; /* of the first failure */
	unsigned died; /* workers, for good */
	unsigned restarts; /* of processes that died without --kill */
	uint64_t stop_at; /* a sync job's last step, once it is decided; 0: steps */
	uint64_t steps; /* updates wanted; 0: until the time is over */

	struct train_server servers[TRAIN_HOLDERS_MAX]; /* shard by shard */
	struct train_chain *chain; /* NULL: a shard has one server */
	struct ol_server_stat tails[TRAIN_SERVERS_MAX]; /* of chains */
	struct train_worker workers[TRAIN_WORKERS_MAX];
	struct train_outage outages[TRAIN_OUTAGES_MAX];
	unsigned outage_count;
	double applied_rate; /* gradients a second until the first server was lost; 0: not known */
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
	struct train_timeline *timeline; /* NULL: none */

	uint64_t version_first; /* with --resume, this and the next: before this run */
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
 * train_by_version -- all workers share the job's steps. If workers wait for each other and each
 * had its own number of steps, finished workers would delay one that was killed and has steps left.
 * But each worker of an additive model has samples that no other has.
 */
static inline bool train_by_version(const struct train *train)
{
	return train->set.rule.how.consistency != OL_CONSISTENCY_ASYNC &&
	       !train->job->traits->additive;
}

/* train_replicas -- servers that each shard is to have */
static inline uint32_t train_replicas(const struct train *train)
{
	return train->set.durable.durability == OL_DURABILITY_CHAIN ? train->set.chain.replicas : 1;
}

/* train_saves -- servers write checkpoints */
static inline bool train_saves(const struct train *train)
{
	return train->set.durable.durability == OL_DURABILITY_CHECKPOINT ||
	       (train->set.durable.durability == OL_DURABILITY_CHAIN &&
		train->set.durable.checkpoint != NULL);
}

/* train_recovers_all -- when a server is lost, all others go back with it */
static inline bool train_recovers_all(const struct train *train)
{
	return train->set.recovery == TRAIN_RECOVERY_FULL;
}

/* train_holders -- server processes, of all shards */
static inline uint32_t train_holders(const struct train *train)
{
	return train->set.servers * train_replicas(train);
}

/* train_number -- a JSON number; null for a value that is not known, or not finite */
static inline json_t *train_number(bool known, double value)
{
	return known && isfinite(value) ? json_real(value) : json_null();
}

/* say.c: print a line on stderr, after the progress line */

void train_say(struct train_screen *screen, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void train_line_close(struct train_screen *screen);

/* crew.c */

bool train_workers_gone(const struct train *train);

/* train_fail -- the first failure decides the exit code; workers are told to quit */
void train_fail(struct train *train, int exit_code);

/* train_quit -- tell workers to quit; the exit code stays */
void train_quit(struct train *train);

/* train_settled -- no worker has gradients left that waited for a shard's server */
bool train_settled(const struct train *train, uint32_t shard);

/* train_lease_over_ns -- when a server that was stopped in this outage has stood still for longer than
 * its lease, by its own clock too */
uint64_t train_lease_over_ns(const struct train *train, const struct train_outage *outage);
/* train_wake -- wake a stopped server, and expect its end, in case it was missed */
void train_wake(struct train_server *server, uint64_t now_ns);

/* account.c */

/* train_count_take -- read a worker's counts from its report */
void train_count_take(struct train_worker *worker, const json_t *message);

/* train_count_close -- its process is gone: the next one begins at 0 */
void train_count_close(struct train_worker *worker);

/* train_counts -- of all workers, former processes included */
struct train_count train_counts(const struct train *train);

/*
 * train_computed -- gradients that a worker has computed: by its reports, and at least as many as were applied, dropped
 * or lost. A process that is killed has reported some of its last ones to nobody.
 */
uint64_t train_computed(const struct train *train, uint32_t worker);

/* train_contained_take -- count every worker's gradients in the weights that the observer pulled */
void train_contained_take(struct train *train);

/* train_contained -- gradients of a worker in the final weights, in the shard with the fewest */
uint64_t train_contained(const struct train *train, uint32_t worker);

/* train_source_take -- read what a server that was lost begins with; train_from_str -- that in words */
void train_source_take(struct train_outage *outage, const json_t *message);
const char *train_from_str(const struct train_outage *outage);
/* train_cost_expect -- how many gradients these weights are expected to cost; a lower bound where the number of
 * gradients in a step is chosen as the job runs */
void train_cost_expect(const struct train *train, struct train_outage *outage,
		       const json_t *message);
/* train_expected_s -- the same in seconds, at the rate of applied gradients before the first loss; NAN: not known */
static inline double train_expected_s(const struct train *train, const struct train_outage *outage)
{
	if (outage->expects && outage->expected == 0)
		return 0.0;
	return outage->expects && train->applied_rate > 0.0
		       ? (double)outage->expected / train->applied_rate
		       : (double)NAN;
}

/* train_accounts_check -- true if both ends agree; prints differences */
bool train_accounts_check(struct train *train);

/* train_counters_take -- read a replica's report */
void train_counters_take(struct train_server *server, const json_t *message);

/* train_past_add -- a server has ended: add its last counters to the past */
void train_past_add(struct train_server *server);

/* train_began_take -- read how many gradients are in the weights that a server begins with */
void train_began_take(struct train_server *server, const json_t *message);

/* train_checkpoints_take -- read the report of a server that ends in order on its checkpoints */
void train_checkpoints_take(struct train_server *server, const json_t *message);

/* train_total -- the sum over the processes of a server */
struct ol_server_stat train_total(const struct train_server *server);
/* train_totals -- of all servers */
struct ol_server_stat train_totals(const struct train *train);

/* train_stat_read -- read the counters; those that cannot be read stay */
void train_stat_read(struct train *train);

/* train_shard_down -- true if its server is gone or has no weights; *ret_since_ns 0: not known */
bool train_shard_down(const struct train *train, uint32_t shard, uint64_t *ret_since_ns);

/* train_shards_down -- shards without a server that has weights */
unsigned train_shards_down(const struct train *train);

/* eval.c */

/*
 * train_pull -- pull the newest weights for an evaluation, now or after the present one
 *
 * false: not now; two are pulled already, or a server is gone
 */
bool train_pull(struct train *train, struct train_outage *before, struct train_outage *after);

/* train_eval_piece -- evaluate some samples of the present evaluation */
void train_eval_piece(struct train *train);

/* train_eval_tick -- a piece of the present evaluation, or the next one if it is due */
void train_eval_tick(struct train *train);

/* train_eval_fresh -- drop the present one, pull the newest weights and begin with them; a code */
int train_eval_fresh(struct train *train);

static inline bool train_evaluating(const struct train *train)
{
	return train->evals.now.weights != NULL;
}

/* model.c */

/* train_model_check -- set settings that the model needs, unless the user has; an exit code */
int train_model_check(struct train *train);
/*
 * save.c: --save
 *
 * train_save_check -- may the file be written? 0, or an exit code
 * train_save -- write the final weights, of train->last.version; fails the job if it cannot
 */
int train_save_check(struct train *train);
void train_save(struct train *train, const float *weights);

/* train_model_look -- figures of the final weights */
void train_model_look(struct train *train, const float *weights);
void train_model_show(const struct train *train);
/* train_model_json -- "score_name", "test_score", "figures", "planted" */
json_t *train_model_json(const struct train *train);

/* chain.c */

/* train_chain_check -- check the settings of chains; 0 or an exit code, after an error line */
int train_chain_check(struct train *train);

/*
 * train_chain_open -- make a coordinator, or reach the given one; watch its views
 *
 * 0 or an exit code, after an error line. No effect if durability is not chain.
 */
int train_chain_open(struct train *train);
void train_chain_close(struct train *train);

/* train_chain_lacking -- how many chains lack replicas; say: print it */
unsigned train_chain_lacking(struct train *train, bool say);

/* train_chain_target -- the server that a kill hits now; NULL: none has the role */
struct train_server *train_chain_target(struct train *train, const struct ol_kill *kill);

/* train_chain_lost -- fill in a new outage of a server of a chain */
void train_chain_lost(struct train *train, struct train_server *server,
		      struct train_outage *outage);

/* train_chain_tick -- follow the outages of chains, during training */
void train_chain_tick(struct train *train);

/* train_chain_lacks -- a chain that lost a server has no new view yet, or (commit) has not committed
 * in it */
bool train_chain_lacks(const struct train *train, bool commit);

/* train_chain_back -- a server has weights; message: its report on their source, or NULL */
void train_chain_back(struct train *train, struct train_server *server, const json_t *message);

/* train_chain_goes_on -- another server of the same shard lives */
bool train_chain_goes_on(const struct train *train, const struct train_server *server);

/* train_chain_keep -- keep the present views for the report, as servers are about to end */
void train_chain_keep(struct train *train);

/* train_chain_json -- members of the report; NULL: no memory */
json_t *train_chain_json(const struct train *train);

/* recover.c */

/* train_recover_check -- check the settings for it; 0 or an exit code, after an error line */
int train_recover_check(struct train *train);

/* train_recover_begin -- kill all servers; they restart from a version up to bound that all have */
void train_recover_begin(struct train *train, uint64_t bound);

/* train_recover_older -- a server has begun at an older version, as its file is damaged */
void train_recover_older(struct train *train, uint64_t version);

/* train_recover_sweep -- keep the last `keep=` versions that all shards have, and remove older ones */
void train_recover_sweep(struct train *train);
/* train_recover_tick -- once all have ended: find the version, and restart them */
void train_recover_tick(struct train *train);

/*
 * train_recover_resumes -- true if the first servers must begin at one version
 * train_recover_resume -- find that version; an exit code
 * train_recover_further -- all have their weights: true if all must be started again, as one began
 * at an older version. False: no, or *ret_rc is an exit code
 */
bool train_recover_resumes(const struct train *train);
/* train_recover_chooses -- true while a server that starts is to begin at roll.version */
bool train_recover_chooses(const struct train *train);
int train_recover_resume(struct train *train);
bool train_recover_further(struct train *train, int *ret_rc);

/* train_recover_source -- the source of a restarted server's weights */
enum ol_restore train_recover_source(const struct train *train);

/* spawn.c; 0 or an exit code, after an error line */

/* train_server_start -- start it with its epoch; elsewhere: not at the last one's address */
int train_server_start(struct train *train, uint32_t index, enum ol_restore restore,
		       bool elsewhere);
int train_worker_start(struct train *train, uint32_t index);

/* train_addresses -- of the servers, one a shard */
const char *train_addresses(const struct train *train,
			    char list[TRAIN_SERVERS_MAX * TRAIN_ADDR_MAX]);

/* outage.c */

/* train_outages_tick -- kill, wake, restart, and follow the outages; during training */
void train_outages_tick(struct train *train);

/* train_outages_wait_ms -- time until the next of these is due, at most limit_ms */
int train_outages_wait_ms(const struct train *train, int limit_ms);

/* train_server_lost, train_worker_lost -- its process has ended; true: it is started again */
bool train_server_lost(struct train *train, struct train_server *server);
bool train_worker_lost(struct train *train, struct train_worker *worker);

/* train_server_down -- a worker noticed at at_ns that the server of a shard is gone */
void train_server_down(struct train *train, uint32_t shard, uint64_t at_ns);

/* train_server_listens, train_server_restored, train_worker_back -- reports of a restarted process
 */
void train_server_listens(struct train *train, struct train_server *server, const char *addr);
void train_server_restored(struct train *train, struct train_server *server, const json_t *message);
void train_worker_back(struct train *train, struct train_worker *worker);

/* train_old_ended -- a server that was stopped and replaced has ended */
void train_old_ended(struct train *train, struct train_server *server);

/* train_outages_close -- at the end of the job */
void train_outages_close(struct train *train);

/* figures.c */

/* Counts of the whole job, from workers, servers and weights */
struct train_figures {
	uint64_t computed; /* = applied + dropped + count.lost + given_up */
	uint64_t applied;
	uint64_t dropped; /* not finite, late, or dropped from a queue */
	uint64_t given_up; /* computed, and never answered */
	bool more_lost; /* there may be: workers died that knew what a server came back without */
	uint64_t version;
	uint64_t replayed;
	double wall_s; /* first worker's start to last worker's end */
	double rate; /* computed, a second */
	double rate_applied;
	double staleness;
	double k_mean; /* gradients a step; NAN: there was none */
	double rate_before; /* gradients a second until the first outage; NAN: there was none */
	double rate_outage; /* while a server was missing; NAN: too few were due to say */
	unsigned kills;
	unsigned recoveries;
	bool anew; /* the optimizer's moments were lost */
	struct train_count count;
};

struct train_figures train_figures(const struct train *train);
double train_staleness(const struct train_stat *stat);
double train_k_mean(const struct train *train);

const char *train_ended_str(const struct train *train);

/* json.c -- NULL: no memory */
json_t *train_json(const struct train *train, const struct train_figures *figures);

/* report.c */

void train_show_start(const struct train *train);
void train_show_progress(struct train *train, uint64_t now_ns);

/* train_report -- summary on stdout, JSON; 0 or an exit code */
int train_report(struct train *train);

/* timeline.c */

/* train_timeline_open -- open the file, and write its first line; 0 or an exit code */
int train_timeline_open(struct train *train);

/* train_timeline_tick -- write a row if one is due, or at the end */
void train_timeline_tick(struct train *train, bool end);

/* train_timeline_wait_ms -- time until the next row, at most limit_ms */
int train_timeline_wait_ms(const struct train *train, int limit_ms);
void train_timeline_close(struct train *train);

/* watch.c */

/* train_turn -- wait up to timeout_ms for messages, signals and ends of processes; act on them */
void train_turn(struct train *train, int timeout_ms);

/* train_go -- tell every worker its share; sets go_ns */
void train_go(struct train *train);

/* train_stop -- end the training at a point where no worker waits for another; may be repeated */
void train_stop(struct train *train);

/*
 * train_stuck_look -- if unfinished workers wait for finished ones, these compute one more gradient
 */
void train_stuck_look(struct train *train);

/* train_tick -- do the work that is due during training */
void train_tick(struct train *train);

/* train_end_check -- tell all workers to leave if all have finished */
void train_end_check(struct train *train);

/* train_version_wanted -- the version that a synchronous job must reach; 0: any */
uint64_t train_version_wanted(const struct train *train);

/* stall.c */

/*
 * train_stall_look -- in a stall: say once what the job waits for; after a signal, wake stopped
 * processes, and make the job end
 */
void train_stall_look(struct train *train);

/* train_silence_look -- say so if a worker does not report; while stopping, kill it */
void train_silence_look(struct train *train);

/* check.c */

/* train_check -- check the settings and open the job's parts. An exit code, after an error line */
int train_check(struct train *train);
void train_check_fini(struct train *train);

/* start.c; 0 or an exit code, after an error line */
int train_servers_start(struct train *train);
int train_workers_start(struct train *train);
int train_observer_open(struct train *train);

#endif /* TRAIN_PARTS_H */
