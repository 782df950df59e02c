/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * cluster.h -- a job in a simulated world: its servers, its workers, and their supervisor
 *
 * Push i of worker w adds 1 to one float of every shard, worker_mark(), and to nothing else: the
 * weights show which pushes have taken effect, and how often. Or, in an exact scenario, gradients
 * are made from the weights, and each version has one right content, computed beforehand.
 */
#ifndef OL_TESTS_SIM_WORLD_CLUSTER_H
#define OL_TESTS_SIM_WORLD_CLUSTER_H

#include "outlast.h"
#include "outlast_server.h"
#include "sim/world/sim.h"

enum {
	CLUSTER_SHARDS_FEW = 3, /* but now and then many, of one server each */
	CLUSTER_SHARDS_MAX = 64,
	CLUSTER_SERVERS_MAX = 4, /* of a shard, one of them to spare */
	CLUSTER_RIVALS_MAX = 8, /* of servers that stood still */
	CLUSTER_SLOTS_MAX = CLUSTER_SHARDS_MAX + CLUSTER_RIVALS_MAX,
	CLUSTER_WORKERS_FEW = 3, /* but now and then a crowd, where each pushes little */
	CLUSTER_WORKERS_MAX = 200,
	CLUSTER_PUSHES_MANY = 64, /* of a worker, those that came too late for a step included */
	CLUSTER_PUSHES_FEW = 5, /* of one in a crowd */
	CLUSTER_VERSIONS_MAX = CLUSTER_WORKERS_MAX * CLUSTER_PUSHES_FEW + 2,
	CLUSTER_OPEN_MS = 1500, /* until an observer gives up its open; a worker: or longer */
	CLUSTER_BLOCKS_MAX = 24, /* of a running checkpoint */
	CLUSTER_TRIES_MAX = 1024, /* the same, where steps are taken back and made again */
};

/* What is drawn from a seed has grown. An older run is what it ever was: what came later is drawn
 * after all else, or not at all. */
enum cluster_age {
	CLUSTER_AGE_PLAIN = 1,
	CLUSTER_AGE_DISKS, /* checkpoints, optimizers, observers; memory, adapters and clocks
			    fail */
	CLUSTER_AGE_POLICIES, /* steps that wait for some, bounded staleness, running checkpoints */
	CLUSTER_AGE_FAULTS, /* cuts longer than sessions, views served late, small rings, writes
			       that are lost or go astray */
	CLUSTER_AGE_LASTING, /* one fault that nobody repairs */
	CLUSTER_AGE_ENDS, /* synchronous workers that go on in an outage, hold their window, and end
			     as a program does */
	CLUSTER_AGE_LARGE, /* memory takes time to be made and given back, and a turn of a server
			      ends after few gradients, as if slots and gradients were large */
	CLUSTER_AGE_MIRRORS, /* servers that do not wait for ever for workers that die and return */
	CLUSTER_AGE_APART, /* synchronous workers that wait while servers of several shards go back
			      in history, each by itself */
	CLUSTER_AGE_CROWDS, /* now and then many workers or many shards; servers that are not told
			       how many workers there are; worker ids that return to chains of exact
			       steps and to servers that go back */
	CLUSTER_AGE_RETURNS, /* worker ids that return to chains that may be founded anew, and to
				servers that take the freshest of mirror and file and wait for
				ever */
	CLUSTER_AGE_PLACES, /* synchronous workers whose gradients take as long as an outage, and
			       that go on in it: what it leaves behind meets fresh gradients */
	CLUSTER_AGE_PARTS, /* now and then gradients so long that they are sent in parts */
	CLUSTER_AGE_QUORUM, /* steps of a quorum and a grace, late gradients that are of the next
			       step; exact steps are weighted, and means as well as sums */
	CLUSTER_AGE_RULES, /* now and then workers that change the rule */
	CLUSTER_AGE_FORMATS, /* now and then gradients of other formats than fp32 */
	CLUSTER_AGE_SPANS, /* now and then workers that push and pull spans of shards */
	CLUSTER_AGE_INIT, /* now and then servers that begin with the first weights of worker 0 */
	CLUSTER_AGE_ORDERS, /* now and then an operator who has replicas join and leave */
	CLUSTER_AGE_BESIDE, /* now and then checkpoints beside a chain */
	CLUSTER_AGE_BETWEEN, /* workers that die between their pushes to two shards, and return, where
				steps are exact */
	CLUSTER_AGE_DECIDED, /* now and then several shards whose steps shard 0 decides */
	CLUSTER_AGE_DELTAS, /* half of the running checkpoints are of int8 deltas */
	CLUSTER_AGE_SELDOM, /* workers that pull seldom, beside running checkpoints: these are newer */
	CLUSTER_AGE_CARRIED, /* several shards whose late gradients are of a later step */
	CLUSTER_AGE_WHOLE, /* … and workers that go on in an outage of one of them */
	CLUSTER_AGE_CHOSEN, /* of one shard late ones, now and then, where DBW or AdaSync chooses k */
	CLUSTER_AGE_NOW = CLUSTER_AGE_CHOSEN
};

/* What is never repaired (lasting.h) */
enum lasting {
	LASTING_NOTHING,
	LASTING_DEATH, /* of a replica */
	LASTING_POWER, /* of a replica with its host, which tells nobody */
	LASTING_CUT, /* between two servers of a shard */
	LASTING_CUT_COORD, /* between a server and the coordinator */
	LASTING_WORKER_DEATH,
	LASTING_WORKER_CUT, /* between a worker and a server */
};

struct scenario {
	bool chain; /* with a coordinator; else one server a shard, that is started again */
	bool refound;
	bool sync;
	bool exact;
	bool workers_die;
	bool between; /* … also between their pushes to two shards */
	unsigned age; /* enum cluster_age */
	bool plain; /* of CLUSTER_AGE_PLAIN */
	enum lasting lasting;
	bool rivals; /* of a server by itself that stands still */
	bool lags; /* followers of the coordination service do, now and then */
	bool long_cuts; /* longer than leases and sessions */
	bool mirrors; /* a server restores from them, and does not wait for ever (mirrors.h) … */
	uint32_t restore_ms; /* … but so long … */
	bool restore_all; /* … for as many as there are, if it knows how many … */
	bool restore_first; /* … also when the job begins */
	bool newcomer; /* the last worker is late */
	bool spans; /* workers push and pull some shards at a time, each at its own */
	bool returns; /* worker ids do, to servers that restore from mirrors and wait for ever:
			 of who lives nothing is lost */
	uint32_t ring_slots; /* of a replica; 0: as many as its memory has room for */
	bool saved; /* servers write checkpoints … */
	bool by_each; /* … of a chain each replica does; else its tail */
	bool back; /* … and begin with them, whatever newer weights workers have */
	bool observed; /* somebody looks on */
	bool reads; /* … at weights too */
	enum ol_optimizer optimizer;
	bool ssp; /* in place of async */
	uint32_t staleness;
	enum ol_wait wait; /* sync */
	uint32_t wait_k;
	uint32_t grace_ms;
	enum ol_late late;
	uint32_t late_steps;
	bool running; /* checkpoints are */
	bool holds; /* a worker pushes on while it waits for a push: its window fills up */
	bool ends; /* workers make steps of the job, and withdraw what is held behind its last */
	enum ol_selection selection;
	double fraction;
	bool deltas; /* of int8 */
	bool seldom; /* workers pull so */
	uint64_t blocks[CLUSTER_BLOCKS_MAX];
	uint32_t block_count; /* 0: as the library has it */
	uint32_t save_steps;
	uint32_t save_ms;
	uint32_t save_keep;
	uint32_t shards;
	uint32_t replicas;
	uint32_t servers; /* of a shard */
	uint32_t every;
	uint32_t workers;
	uint32_t window;
	uint32_t pushes; /* of a worker */
	uint32_t lease_ms;
	uint32_t turn_pushes; /* gradients, until a turn of a server ends; 0: as many as the product
				 says */
	uint32_t heartbeat_ms;
	uint32_t retry_ms;
	enum ol_outage outage;
	enum ol_queue queue;
	uint32_t parts_floats; /* more than a shard has else: gradients come in parts; 0: none */
	uint64_t compute_ns; /* of a worker, for one gradient */
	uint64_t storm_ns; /* how long there are faults */
	uint64_t heal_ns; /* within so long after them all is done */
};

struct server_slot {
	uint32_t shard;
	uint32_t index;
	uint32_t place;
	uint32_t home; /* whose address and folder it has: its own place, or that of the one
			before */
	uint32_t life;
	bool lost; /* for good */
	bool retired; /* another has its place (rival.h) */
	bool stands_still; /* for long enough that it gets a rival */
	bool frozen; /* its clock stood still when it did */
	bool woken; /* it stood still, has a rival, and goes on */
	bool dreamt; /* its host was suspended in this life, and its clock did not tell */
	uint64_t committed; /* at the last look */
	unsigned arms; /* of its transport, when it was woken */
	uint64_t stopped_ns;
	uint64_t opened_ns; /* of its host's clock */
	struct sim_process *process;
	struct ol_server *server; /* NULL: it is not open */
	bool told; /* to end */
	bool anew; /* no checkpoint is whole: the next life begins with the first weights */
	char addr[OL_ADDR_MAX];
	uint64_t hashed; /* version + 1 that was looked at last */
	uint64_t agreed; /* versions up to here were compared with what others had */
	uint64_t hashes[CLUSTER_VERSIONS_MAX]; /* of the last versions */
};

struct push {
	bool begun;
	bool done;
	uint64_t span; /* a bit a shard: it was pushed there */
	uint32_t missed; /* a bit a shard: a server began there without it */
	bool local; /* was queued: it may be one of many in a delta */
	int status;
	struct ol_op op;
};

struct worker_slot {
	uint32_t index;
	uint32_t place;
	uint32_t life;
	struct sim_process *process;
	struct ol_worker *worker;
	uint32_t next; /* push */
	uint32_t first; /* push of this life */
	uint32_t made[CLUSTER_SHARDS_MAX]; /* pushes of this life, at each shard */
	uint32_t steps; /* that it took part in */
	bool short_of; /* memory: this life of it is over */
	uint32_t pushing; /* 1: its next one is not yet with the library */
	bool finished;
	bool joined; /* a push of this life has been applied */
	bool withdrew; /* what a server held, at least once */
	bool unqueued; /* a queue had no memory for a gradient, at least once */
	bool lost; /* for good: it need not finish */
	struct ol_op flush;
	struct push pushes[CLUSTER_TRIES_MAX];
	struct ol_op pull;
	uint64_t versions[CLUSTER_SHARDS_MAX]; /* pulled last … */
	uint32_t histories[CLUSTER_SHARDS_MAX]; /* … of this history */
	uint64_t applied[CLUSTER_SHARDS_MAX]; /* gradients of its own in them */
	/* mirrors.h: */
	uint64_t told[CLUSTER_SHARDS_MAX]; /* which history it is in */
	uint64_t had[CLUSTER_SHARDS_MAX]; /* pushes of this life that are in what it pulled of
					   that */
	bool counted[CLUSTER_SHARDS_MAX]; /* it has counted some as lost */
	uint64_t grads[CLUSTER_SHARDS_MAX]; /* of earlier lives, for a mutation */
	uint64_t pulls;
	uint64_t help_ns; /* when it may push for others' sake again … */
	uint64_t help_pause_ns; /* … and how long not, after that */
};

/* Who looks on: an observer of counters, or of weights too */
struct observer_slot {
	uint32_t place;
	uint32_t life;
	struct sim_process *process;
	struct ol_server_stat seen[CLUSTER_SHARDS_MAX]; /* last, by this connection */
	uint64_t looks;
};

struct cluster {
	struct scenario scenario;
	struct observer_slot observer;
	struct server_slot servers[CLUSTER_SLOTS_MAX];
	uint32_t server_count;
	uint32_t next_place; /* that nobody is at */
	struct worker_slot *workers;
	bool calm; /* there are no faults any more */
	bool agreed; /* workers have finished, replicas are alike: workers may leave */
	bool closing; /* they have: servers are stopped */
	bool doomed; /* more has died than a chain can lose */
	bool excused; /* some push that was done need not be in the weights (check_finished) */
	bool host_dies; /* the process that is being killed goes with its host */
	uint64_t calm_ns;
	bool enough; /* a worker cannot go on: the others stop too */
	uint32_t ids; /* of workers: below this */
	uint32_t pushes_max; /* floats of a shard that are a worker's own */
	uint32_t params;
	uint64_t checks;
};

extern struct cluster cluster;

/* cluster_inits -- servers are given no weights: those of worker 0 are the first. They wait for all
 * workers, and some for ever. Where mirrors die with their workers, or files are damaged, a server may find
 * nothing, and then it waits for a person */
static inline bool cluster_inits(void)
{
	const struct scenario *scenario = &cluster.scenario;

	return scenario->age >= CLUSTER_AGE_INIT && scenario->lease_ms % 7 == 0 &&
	       !(scenario->mirrors && scenario->workers_die) && !scenario->back &&
	       scenario->lasting != LASTING_WORKER_DEATH && scenario->lasting != LASTING_WORKER_CUT;
}

/* cluster_begin -- draw a scenario, start everybody; age: enum cluster_age */
void cluster_begin(uint64_t seed, unsigned age);
/* cluster_waits -- a push may wait for others': all go on until none does */
bool cluster_waits(void);
/* cluster_text -- what is played, in one line */
void cluster_text(char *text, size_t bytes);
/* cluster_calm -- faults have ended */
void cluster_calm(void);
/* cluster_done -- everybody has left */
bool cluster_done(void);
/* cluster_state -- who is where, for a run that does not end */
void cluster_state(char *text, size_t bytes);

/* cluster_rival -- another server begins in the place of this one; NULL: there is no room for it */
struct server_slot *cluster_rival(struct server_slot *slot);
/* cluster_servers -- addresses in the order of shards, as a worker is given them */
void cluster_servers(char *text, size_t bytes);
/* cluster_params_count -- of all shards, as the scenario is now */
void cluster_params_count(void);
/* cluster_compute_draw -- so long a gradient that pushes are made while there are faults */
void cluster_compute_draw(struct scenario *scenario);
uint64_t cluster_len(uint32_t shard);
uint64_t cluster_first(uint32_t shard);

/* worker.c */
void worker_main(void *arg);
/* observer.c */
void observer_main(void *arg);
/* worker_mark -- the float of every shard to which push i of worker w adds 1 */
uint64_t worker_mark(uint32_t w, uint32_t i);
/* worker_weight -- of what worker w pushes as its i-th, in an exact scenario; 0: none */
float worker_weight(uint32_t w, uint32_t i);
/* worker_may_withdraw -- what it was told is applied, and a server lost, is lost for good if it withdraws it */
bool worker_may_withdraw(const struct worker_slot *slot);
/* worker_gradient -- what worker w pushes as its i-th; weights: of an exact scenario */
void worker_gradient(uint32_t w, uint32_t i, const float *weights, float *grad);

#endif /* OL_TESTS_SIM_WORLD_CLUSTER_H */
