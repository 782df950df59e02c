/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outlast_server.h -- embedding interface: the server of one shard inside this process
 *
 * ERRORS, FORKS and SIZES are as in outlast.h. One thread at a time may use a server; it need not
 * be the thread that opened it. While a thread is in ol_server_run(), other threads may call only
 * ol_server_stop(), ol_server_addr() and ol_server_get_stat().
 */
#ifndef OUTLAST_SERVER_H
#define OUTLAST_SERVER_H

#include "outlast.h"
#include "outlast_rule.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ol_server;

/* One line each, once: name, number, word in settings and logs, vectors of state. */
#define OL_OPTIMIZER_MAP(X) \
	X(SGD, 1, "sgd", 0) \
	X(MOMENTUM, 2, "momentum", 1) /* heavy ball: u = mu u + g; w -= lr u */ \
	X(NESTEROV, 3, "nesterov", 1) /* u = mu u + g; w -= lr (g + mu u) */ \
	X(ADAM, 4, "adam", 2) /* Kingma and Ba 2015; weight decay is added to the gradient */ \
	X(ADAMW, 5, "adamw", 2) /* Loshchilov and Hutter 2019: weight decay is decoupled */

enum ol_optimizer {
#define X(name, value, word, vectors) OL_OPTIMIZER_##name = (value),
	OL_OPTIMIZER_MAP(X)
#undef X
};

/* How a server turns gradients into weights. Optimizer, sum and allow_nonfinite are constant for a
 * job; the numbers are those that it begins with (outlast_rule.h). Its size is fixed. */
struct ol_update_rule {
	enum ol_optimizer optimizer;
	float lr;
	float momentum; /* mu */
	float beta1;
	float beta2;
	float epsilon;
	float weight_decay;
	uint32_t sum; /* sync: 1 applies the sum of the workers' gradients, 0 their mean */
	uint32_t allow_nonfinite; /* 0: a gradient with a NaN or infinity is dropped and counted */
};

/* Where a starting server takes its weights from. */
enum ol_restore {
	OL_RESTORE_NONE, /* the server begins the job with the weights given to ol_server_open() */
	OL_RESTORE_CHECKPOINT, /* the newest whole checkpoint */
	OL_RESTORE_MIRROR, /* the newest mirror of the workers that connect */
	OL_RESTORE_FRESHEST, /* the newer of checkpoint and mirror; where blocks of a running checkpoint are older, what
				lacks fewer gradients (src/checkpoint/README.md). Where a checkpoint is there that cannot be
				used, and no mirror, the server ends: it does not begin anew over it */
	OL_RESTORE_CHAIN, /* not an option: a replica that joined reports it; its predecessor */
};

/*
 * SYNC: how many gradients a step waits for. Later gradients are dropped and counted, or as
 * enum ol_late says. One line each: the name, and the name of its policy inside the library.
 */
#define OL_WAIT_MAP(X) \
	X(ALL, all) /* one of every worker: the run is a function of its seed */ \
	X(FIXED, fixed) /* the first k */ \
	X(DBW, dbw) /* the k with the largest gain a second (Xu, Neglia, Sebastianelli 2020) */ \
	X(DBW_BLIND, dbw_blind) /* the k with the most gradients a second */ \
	X(ADASYNC, adasync) /* k grows as the loss falls (Dutta, Wang, Joshi 2021) */ \
	X(QUORUM, quorum) /* at least k, and those that come within grace_ms of the k-th */

enum ol_wait {
#define X(name, id) OL_WAIT_##name,
	OL_WAIT_MAP(X)
#undef X
};

/* SYNC, all but ALL: what becomes of a gradient that comes too late for its step. */
enum ol_late {
	OL_LATE_DROP, /* it is dropped and counted */
	/* It is a gradient of the next step, with its weight. A worker gives one gradient to a step:
	   the next one waits in its landing slot for the step after it */
	OL_LATE_NEXT,
	/* The same, and it counts less: multiplied by 1 / (1 + a) in the step's sum or mean, a being the steps
	   made since the weights that it was computed at */
	OL_LATE_AGED,
};

/* Which replicas of a chain write its checkpoints, of committed versions */
enum ol_checkpoint_by {
	OL_CHECKPOINT_BY_TAIL, /* the tail: one file of each version */
	/* each full replica, into a folder of its own. Who founds the chain anew has what is in its own */
	OL_CHECKPOINT_BY_EACH,
};

/* What a checkpoint saves. All but FULL write into one running checkpoint. */
enum ol_selection {
	OL_SELECT_FULL, /* everything, into a new file */
	OL_SELECT_PRIORITY, /* the blocks that moved most since they were saved */
	OL_SELECT_ROUND_ROBIN, /* the next blocks in order */
	OL_SELECT_RANDOM, /* random blocks */
};

/*
 * How a delta that a worker summed during an outage becomes a step: the factor on the sum of its m
 * gradients. The published rule (SUM) over-steps late in training.
 */
enum ol_replay {
	OL_REPLAY_EACH, /* 1: as m steps from the same point */
	OL_REPLAY_MEAN, /* 1/m: one step. After local progress: the mean of the workers' paths */
	OL_REPLAY_SUM, /* published: 1 up to 50 gradients; above that, learning rate 1e-3 */
	OL_REPLAY_CLIP, /* 1, with the norm of the sum at most replay_clip (Pascanu 2013) */
	OL_REPLAY_STALENESS, /* gradient i at 1/(its age) (Zhang 2016): H(m)/m, reduced by the steps
			      made since */
};

/* Set by ol_server_opts_init(); overwrite the fields you care about. A field whose comment names no
 * default is 0, or NULL. */
struct ol_server_opts {
	size_t size; /* sizeof(struct ol_server_opts) as the caller compiled it */
	/* verbs "host:port" (port 0: any), or "oob:host:port": connections are made over TCP, by
	   any network, where the fabric has no IP addresses; shm a path or "@name"; default
	   "@outlast" */
	const char *listen;
	const char *transport; /* "verbs" or "shm"; NULL: shm if listen starts with / or @ */
	/* RDMA device; a listener on 0.0.0.0 is at its address. "a,b": the shard's number says with
	   which to begin; the first that is there and has the address is taken. NULL: the one that
	   has the address */
	const char *device;
	const char *job_key; /* as in struct ol_worker_opts */
	uint64_t param_count; /* of the whole job */
	uint32_t shard; /* the shard that this server holds */
	uint32_t shard_count; /* shards of the job; default 1 */
	uint32_t epoch; /* give a higher one at each start; a restore raises it above the epoch of
			 the weights that it finds; below 2147483647; default 1 */
	enum ol_consistency consistency; /* default ASYNC */
	uint32_t workers; /* sync: workers that make a step; default 1 */
	uint32_t workers_max; /* ids below this may connect; default 8 */
	uint32_t observers_max; /* readers without an id; default 8 */
	uint32_t window; /* landing slots a worker; default 2 */
	struct ol_update_rule rule; /* default SGD with lr 0.01. For other optimizers: momentum 0.9,
				       beta1 0.9, beta2 0.999, epsilon 1e-8, weight_decay 0 */
	uint32_t shared_domain; /* 1: one protection domain a job instead of one a worker */
	uint32_t spin_us; /* how long the loop spins before it sleeps; default 50 */
	uint32_t heartbeat_ms; /* longest time between two heartbeats; default 50 */
	uint32_t retry_timeout_ms; /* as in struct ol_worker_opts; default 8 s */
	uint32_t pin_timeout_ms; /* how long overtaken readers can delay a step; default 2 s */
	uint32_t lease_ms; /* if the loop stood still for longer, ol_server_run() ends with
			      OL_E_FENCED: workers may have gone to another server. Default 5 s;
			      0: never */
	enum ol_restore restore; /* default NONE */
	/* MIRROR: the job's workers have the ids below this, and the server waits for all of them
	   before it takes a mirror. 0: not known; the server waits for the workers that the newest
	   mirror counts, and for ids below `workers` if that is above 1. */
	uint32_t restore_workers;
	/* How long the server waits after the last such worker connected. Keep it below the
	   workers' connect_timeout_ms: otherwise a lone worker gives up first, and the server waits
	   again when the worker returns. Default 3 s. */
	uint32_t restore_wait_ms;
	enum ol_replay replay; /* default MEAN */
	float replay_clip; /* CLIP; default 1 */
	const char *checkpoint_dir; /* NULL: no checkpoints */
	uint64_t checkpoint_steps; /* versions between two checkpoints; 0: not by version */
	uint32_t checkpoint_ms; /* time between two checkpoints; 0: not by time */
	uint32_t checkpoint_keep; /* number of checkpoints kept, the newest; default 3 */
	uint64_t job_id; /* a checkpoint of another job is refused */
	/* The server is a replica of a chain: as in struct ol_worker_opts. NULL: a server without
	   replicas. A chain has full checkpoints only; the folder may be one that all replicas
	   share. With `refound` a job outlives all its replicas by them. */
	const char *coordinator;
	const char *job; /* NULL: "outlast" */
	uint32_t replicas; /* wanted in the chain, 1 … 8; a new chain starts when all have come;
			      default 3 */
	uint32_t replicate_every; /* 0: strict. N: the published design: copies the state every N
				     versions, without waiting. A head that dies loses up to N
				     versions; more, if N versions come faster than a copy or than
				     a new successor */
	uint32_t
		rank; /* of the servers that wait, the one with the lowest rank becomes head, unless another
			  one restores a newer checkpoint; the one with the lowest joins first */
	uint32_t coordinator_timeout_ms; /* until ol_server_open() gives up reaching it;
					    default 10 s */
	/*
	 * What happens when a chain has lost all its replicas. 0: the chain waits for ever, as no
	 * other server has the committed state; a server that cannot reach the coordinator goes on
	 * serving. 1: a new server founds the chain anew, from the weights that `restore` finds;
	 * and a server ends with OL_E_FENCED when its ZooKeeper session may have ended: after 3
	 * times lease_ms, at least a second, without an answer. In a folder a server stays
	 * registered as long as its process lives.
	 */
	uint32_t refound;
	uint32_t spin_yield; /* as in struct ol_worker_opts */
	/* SYNC; workers is then the n of all. With several shards the server of shard 0 decides which
	   gradients make a step, unless that is one of ALL, and workers carry its decision to the
	   others: a gradient is in all shards or in none, whoever dies; a worker that dies together with
	   a server, or a chain's replica, that alone had its gradient is the exception, which is
	   counted (restored_lost). Their workers push no spans, and with outage CONTINUE a server that
	   is gone is as if all were: the parts of a gradient stay together. SSP of several shards: who
	   is ahead waits at shard 0, and what it withdraws takes effect there; what waits there is lost
	   with its worker, while other shards have it, as of ASYNC. */
	enum ol_wait wait; /* default ALL */
	uint32_t wait_k; /* FIXED; ADASYNC: of the first step; QUORUM: no step has fewer, however
			    few workers there are */
	uint32_t staleness; /* SSP: gradients that a worker may be ahead of the slowest */
	enum ol_selection selection; /* default FULL */
	double fraction; /* r: a running checkpoint saves this part every r * checkpoint_steps;
			    default 1 */
	/* A running checkpoint's blocks: floats of each, in order, over the job's whole vector. A
	   block that crosses a shard's end is cut there. NULL: blocks of OL_BLOCK_FLOATS. */
	const uint64_t *blocks;
	uint32_t block_count;
	uint64_t
		restore_version; /* CHECKPOINT, FRESHEST: the newest full one that is not newer than this; 0: any */
	/* As in struct ol_worker_opts, while ol_server_open() waits for the coordinator. Default
	   -1. */
	int cancel_fd;
	/* Threads that update weights, with that of ol_server_run(); 1 … 64. The weights do not
	   depend on it. Its other threads run on processors that ol_server_open() may use, and that
	   are of the adapter's NUMA node if that is known. Default 1 */
	uint32_t threads;
	uint32_t relaxed_ordering, huge_pages; /* as in struct ol_worker_opts */
	/* Bytes of the slots of all workers that are connected. A worker whose slots do not fit is
	   refused with OL_E_FULL, and told this limit. 0: no limit. Default 0 */
	uint64_t slot_memory_max;
	/* Verbs: as in struct ol_worker_opts */
	uint32_t ack_timeout;
	uint32_t retries;
	uint32_t rnr_timer;
	uint32_t rnr_retries;
	uint32_t traffic_class;
	uint32_t path_mtu;
	/* The rule that the job begins with, beside `rule`: outlast_rule.h. Workers may
	   change it while the job runs (ol_rule_set()) */
	uint32_t rule_groups; /* groups that there is room for; default 4 */
	enum ol_schedule schedule; /* default CONSTANT */
	uint64_t warmup; /* steps */
	uint64_t schedule_length; /* steps */
	float warmup_from;
	float lr_floor;
	float lr_gamma; /* default 0.1 */
	uint32_t lr_power; /* default 1 */
	float clip_value;
	float clip_norm;
	/* QUORUM: a step waits so long for more gradients after its wait_k-th has come, or until all
	   workers that are connected have given one */
	uint32_t grace_ms;
	enum ol_late late; /* default DROP; the same for all shards */
	uint32_t
		late_steps; /* NEXT, AGED: a gradient of weights that are older by more steps than this is
				dropped all the same; 0: however old */
	/* What the job's parameters are (outlast_tensor.h), the same at all its servers; copied. A
	   checkpoint with another table is not restored. NULL: nobody says; then a server that restores
	   has that of the checkpoint folder */
	const char *tensors;
	/* 1: snapshots hold the weights as bf16, too, for observers with weights_format BF16: half
	   as many bytes a read. Each update then writes 2 bytes a parameter more, and a server has 6
	   bytes a parameter more memory. The same at all servers of a job */
	uint32_t weights_bf16;
	/* 1: the first weights are those that worker 0 offers (`init` of struct ol_worker_opts), and so
	   is the table of tensors: all servers of the job alike. Until then, whatever `restore` says,
	   nothing is published, and whoever connects waits. A mirror of a worker that was in the job
	   goes before them, and so does a checkpoint that `restore` names. With restore NONE the
	   server waits for restore_workers, or for ids below `workers` if that is above 1, for
	   restore_wait_ms at most. With another one it waits for so long if it does not know how many
	   workers there are */
	uint32_t init_worker;
	uint32_t
		tensors_room; /* bytes that each snapshot has for the table of tensors; 0: as many as
				  `tensors` takes, or 65536 with init_worker */
	enum ol_checkpoint_by checkpoint_by; /* default TAIL */
	/* What a server reads back of a running checkpoint goes on by its last pace, up to the version of
	   the checkpoint's table: a block's weights become z + h (z - z'), z and z' its two copies, h the
	   versions since z by those between them, and at most this; 0 to 1. A guess, which the job
	   corrects as it trains. Optimizer state stays as it was saved. Default 0: weights are as they
	   were saved */
	double extrapolate;
	/* enum ol_format, of a running checkpoint: FP32, the default, or INT8: blocks are saved as int8
	   deltas to what was saved before, optimizer state as bf16, so that as many bytes save 1.5 to 3
	   times as many blocks; a third of the bytes is of blocks as they are, each in turn. What is read
	   back is what the deltas said, and what they lacked is part of the next ones. The file is
	   four to five times the shard, at most eight (with 4 bytes a block, and a quarter of a
	   MiB), and there are two while it is made anew */
	uint32_t checkpoint_format;
};

enum {
	OL_BLOCK_FLOATS = 1024
};

/* ol_server_opts_init -- every option at its default: the caller sets what is to differ */
OL_API void ol_server_opts_init_sized(struct ol_server_opts *opts, size_t opts_bytes);
static inline void ol_server_opts_init(struct ol_server_opts *opts)
{
	ol_server_opts_init_sized(opts, sizeof(*opts));
}

/*
 * ol_server_opts_wire -- fill in the timers that a server with these options asks of an adapter:
 * ack_timeout, retries, rnr_timer and rnr_retries, where they are 0
 *
 * Errors:    -EINVAL (a value is out of range; nothing changes)
 */
OL_API int ol_server_opts_wire_sized(struct ol_server_opts *opts, size_t opts_bytes);
static inline int ol_server_opts_wire(struct ol_server_opts *opts)
{
	return ol_server_opts_wire_sized(opts, sizeof(*opts));
}

/* ol_shard_span -- the floats of the job's vector that a shard holds: whole pieces of 1,024, and the last shard
 * what is left; -EINVAL if any shard would be empty */
OL_API int ol_shard_span(uint64_t param_count, uint32_t shard_count, uint32_t shard,
			 uint64_t *ret_first, uint64_t *ret_count);

/*
 * ol_server_open -- allocate, register, listen
 *
 * weights: the initial values of this shard (ol_shard_span() floats), copied. They are version 0. A
 * restore that finds nothing falls back to them, with a warning. NULL: zeros. A server that restores from
 * mirrors lets workers in at once, and serves them when it has its weights.
 *
 * Blocks:    while it clears and registers memory, reads a checkpoint, reaches a coordinator
 * Errors:    -EADDRINUSE (another server listens there), -ENODEV, -ENOMEM, -EINVAL, -ECANCELED,
 *            OL_E_NO_CHECKPOINT (OL_RESTORE_CHECKPOINT found files, but no whole one), errors of
 *            the checkpoint folder or of the coordinator; with a line in err
 */
OL_API int ol_server_open(const struct ol_server_opts *opts, const float *weights,
			  struct ol_server **ret_server, char *err, size_t err_bytes);

/* ol_server_addr -- the address that workers connect to; valid until close */
OL_API const char *ol_server_addr(const struct ol_server *server);

/* ol_server_memory -- one line about the server's memory: size, pages, node, cost of isolation */
OL_API void ol_server_memory(const struct ol_server *server, char *text, size_t text_bytes);

/*
 * ol_server_run -- serve until ol_server_stop(), or until an operator takes the server out of its chain
 *
 * Returns 0; OL_E_FENCED (lease_ms); OL_E_DEVICE (its RDMA device was reset or taken away: open
 * another server, whatever the device is like by then); OL_E_NO_CHECKPOINT, OL_E_GEOMETRY
 * (OL_RESTORE_FRESHEST: see there); OL_E_THREAD (another thread is in it, or this is a child of a
 * fork); or the code of a failure that ended the loop
 */
OL_API int ol_server_run(struct ol_server *server);

/* ol_server_stop -- make ol_server_run() return; from any thread or signal handler. Does nothing in
 * a child of a fork. */
OL_API void ol_server_stop(struct ol_server *server);

/* ol_server_get_stat -- the counters, as ol_stat() reads them; from any thread */
OL_API void ol_server_get_stat_sized(const struct ol_server *server,
				     struct ol_server_stat *ret_stat, size_t stat_bytes);
static inline void ol_server_get_stat(const struct ol_server *server,
				      struct ol_server_stat *ret_stat)
{
	ol_server_get_stat_sized(server, ret_stat, sizeof(*ret_stat));
}

/* Bytes that a server of a job takes. All but the last are registered for RDMA. */
struct ol_server_sizes {
	uint64_t snapshots; /* board and snapshots: peers read them */
	uint64_t slots; /* the landing slots of one worker, which writes them … */
	uint64_t slot; /* … and of one slot: a worker with OL_OUTAGE_CONTINUE has one more */
	uint64_t ring; /* a replica's entries; 0: the job has no coordinator */
	uint64_t checkpoint; /* a full checkpoint of the shard, in its folder */
};

/* ol_server_sizes -- what ol_server_open() would take with these options; nothing is opened but, for a
 * restore, the folder of checkpoints, whose table of tensors has its room. Never waits for a peer; from any
 * thread. Errors: -EINVAL (an option), OL_E_GEOMETRY (no such shard) */
OL_API int ol_server_sizes_sized(const struct ol_server_opts *opts,
				 struct ol_server_sizes *ret_sizes, size_t sizes_bytes);
static inline int ol_server_sizes(const struct ol_server_opts *opts,
				  struct ol_server_sizes *ret_sizes)
{
	return ol_server_sizes_sized(opts, ret_sizes, sizeof(*ret_sizes));
}

/* ol_server_close -- end all connections and free; NULL is fine. While a thread is in
 * ol_server_run(), it only logs an error: the server stays open. */
OL_API void ol_server_close(struct ol_server *server);

/*
 * A relay: it reads a job's weights as an observer, and serves them to observers of its own, which
 * cost the job's servers nothing. Readers open a worker with OL_OBSERVER_READS at its addresses, and
 * see the versions, the epoch and the history of the job. It lets in no worker.
 *
 * What it serves never goes back. While the job's servers are gone it goes on serving the last
 * version; if they come back with older weights, it does so until the job has come further.
 *
 * A reader of a relay trusts it as it would trust a server: an observer's credential lets its holder
 * play the server to other observers (SECURITY.md).
 */
struct ol_relay;

struct ol_relay_stat {
	uint64_t version; /* that it serves, of the shard furthest behind */
	uint64_t pulls; /* of whole weights, from the job */
	uint64_t outages; /* times that a server of the job was lost */
	uint32_t down; /* 1: one is gone now */
	uint32_t shard_count;
	uint64_t heartbeat; /* goes up several times a second, or once in pin_timeout_ms */
};

/*
 * ol_relay_open -- connect to a job, read its weights, listen for readers
 *
 * job: as ol_worker_open() takes them, for an observer; observer, outage and outage_timeout_ms are
 * set by this call: a relay waits for the job's servers for ever. readers: as ol_server_open() takes
 * them, of which these count: listen, transport, device, observers_max, pin_timeout_ms, spin_us,
 * spin_yield, heartbeat_ms, retry_timeout_ms, threads, memory and verbs. listen has an address for
 * each shard, with commas between; or one, "@name" or a path, to which shard K above 0 appends "-K".
 * Both sides have the key of job: the job's, the servers' credential, or an observer's; with the
 * last, readers need an observer's credential or the job's key. pause_ms: between two reads of
 * weights, at least.
 *
 * Memory: three times the weights for readers, and twice for what is read.
 *
 * Blocks:    until the job's servers are connected and read, or job's connect_timeout_ms
 * Threading: ol_relay_run() may be called in another thread
 * Errors:    as ol_worker_open() and ol_server_open(), with a line in err
 */
OL_API int ol_relay_open(const struct ol_worker_opts *job, const struct ol_server_opts *readers,
			 uint32_t pause_ms, struct ol_relay **ret_relay, char *err,
			 size_t err_bytes);

/* ol_relay_addrs -- the addresses that readers connect to, shard 0 first; valid until close */
OL_API const char *ol_relay_addrs(const struct ol_relay *relay);

/*
 * ol_relay_run -- serve until ol_relay_stop()
 *
 * Returns 0; OL_E_THREAD (another thread is in it, or this is a child of a fork); or the code of a
 * failure that ended it
 */
OL_API int ol_relay_run(struct ol_relay *relay);

/* ol_relay_stop -- make ol_relay_run() return; from any thread or signal handler */
OL_API void ol_relay_stop(struct ol_relay *relay);

/* ol_relay_get_stat -- the relay's counters; from any thread */
OL_API void ol_relay_get_stat_sized(const struct ol_relay *relay, struct ol_relay_stat *ret_stat,
				    size_t stat_bytes);
static inline void ol_relay_get_stat(const struct ol_relay *relay, struct ol_relay_stat *ret_stat)
{
	ol_relay_get_stat_sized(relay, ret_stat, sizeof(*ret_stat));
}

/* ol_relay_close -- end all connections and free; NULL is fine. While a thread is in ol_relay_run(),
 * it only logs an error */
OL_API void ol_relay_close(struct ol_relay *relay);

enum {
	OL_CHAIN_MAX = 8, /* replicas */
	OL_ADDR_MAX = 128
};

/* One shard's chain, as its coordinator knows it. */
struct ol_chain_info {
	uint32_t epoch; /* 0: no view yet */
	uint32_t founded; /* epoch in which the chain's history began */
	uint32_t shard_count;
	uint32_t wanted; /* replicas */
	uint32_t every; /* replicate_every; 0: strict */
	uint32_t count; /* full replicas, head first */
	uint32_t joining; /* 1: one more replica is joining, behind the full ones */
	uint32_t waiting; /* servers that are registered but not in the view */
	uint32_t connected; /* 0: the coordinator cannot be reached, and this info may be old */
	uint32_t gone; /* full replicas without a session. If all are gone the chain waits for
			  them, unless a server may found it anew. */
	uint64_t ids[OL_CHAIN_MAX];
	char addrs[OL_CHAIN_MAX][OL_ADDR_MAX];
};

/* A handle that reads views. A child of a fork must not use its parent's. */
struct ol_chains;

/*
 * ol_chains_open -- watch the chains of a job without taking part in them
 *
 * Blocks: until the coordinator answers, or timeout_ms.
 * Errors: -ETIMEDOUT, -ENOENT (folder), -EACCES (another job key), -EPERM, -EINVAL, -ENOMEM, -EOPNOTSUPP
 * (zk:, and a library that was built without ZooKeeper); with a line in err
 */
OL_API int ol_chains_open(const char *coordinator, const char *job, const char *job_key,
			  uint32_t shard_count, uint32_t timeout_ms, struct ol_chains **ret_chains,
			  char *err, size_t err_bytes);

/* ol_chains_get -- the chain of a shard; never blocks. Errors: -EINVAL (no such shard) */
OL_API int ol_chains_get_sized(struct ol_chains *chains, uint32_t shard,
			       struct ol_chain_info *ret_info, size_t info_bytes);
static inline int ol_chains_get(struct ol_chains *chains, uint32_t shard,
				struct ol_chain_info *ret_info)
{
	return ol_chains_get_sized(chains, shard, ret_info, sizeof(*ret_info));
}
/* ol_chains_close -- stop watching and free; NULL is fine */
OL_API void ol_chains_close(struct ol_chains *chains);

/* One shard's checkpoint, read by a program that need not be a server. It belongs to one thread. */
struct ol_checkpoint;

/* What its file says. */
struct ol_checkpoint_info {
	uint64_t job_id;
	uint64_t version;
	uint64_t param_count; /* of the job */
	uint64_t shard_first; /* where the shard begins in the job's vector */
	uint64_t shard_len; /* floats of the shard */
	uint32_t epoch;
	uint32_t shard_count; /* of the job */
};

/*
 * ol_checkpoint_open -- read the newest whole checkpoint of a shard, which is checked as by a server
 * that restores
 *
 * Only full checkpoints: a running one takes its job's blocks to put it together. job_id 0: there
 * must be those of one job only.
 *
 * Blocks: while it reads.
 * Errors: -ENOENT (none of this shard and job), -EINVAL (of several jobs), OL_E_NO_CHECKPOINT (none
 * is whole), -ENOMEM, errors of the folder or the file; with a line in err
 */
OL_API int ol_checkpoint_open(const char *dir, uint64_t job_id, uint32_t shard,
			      struct ol_checkpoint **ret_checkpoint, char *err, size_t err_bytes);
/* ol_checkpoint_info -- what the checkpoint's file says */
OL_API void ol_checkpoint_info_sized(const struct ol_checkpoint *checkpoint,
				     struct ol_checkpoint_info *ret_info, size_t info_bytes);
static inline void ol_checkpoint_info(const struct ol_checkpoint *checkpoint,
				      struct ol_checkpoint_info *ret_info)
{
	ol_checkpoint_info_sized(checkpoint, ret_info, sizeof(*ret_info));
}

/* ol_checkpoint_weights -- the weights of the shard; valid until close */
OL_API const float *ol_checkpoint_weights(const struct ol_checkpoint *checkpoint);

/* ol_checkpoint_tensors -- the job's table of tensors (outlast_tensor.h), valid until close; NULL: it
 * has none */
OL_API const char *ol_checkpoint_tensors(const struct ol_checkpoint *checkpoint);

/* ol_checkpoint_close -- free it; NULL is fine */
OL_API void ol_checkpoint_close(struct ol_checkpoint *checkpoint);

/*
 * Full checkpoints of all shards of a job, written by a program that is no server, for servers that
 * begin with them (OL_RESTORE_CHECKPOINT): with these weights, and an optimizer whose state is zero. It
 * belongs to one thread.
 */
struct ol_checkpoints;

/*
 * ol_checkpoints_open -- begin to write into a folder, which is made if need be
 *
 * opts: as the job's servers will have them, of which these count: checkpoint_dir, job_id, param_count,
 * shard_count, rule.optimizer, rule.allow_nonfinite, tensors. version: of the weights. over: 0: a
 * folder with checkpoints is refused; 1: they stay, and the new ones are newer: their epoch is above
 * those of all that are there. A folder with another job's is refused either way. A server that still saves there is kept from it, as by one that
 * takes its place.
 *
 * Errors: -EEXIST (over is 0), -EINVAL (an option; another job's folder), -EOVERFLOW (no epoch is left), -EBUSY (a server stands still in
 * the middle of a write), -ENOMEM, errors of the folder; with a line in err
 */
OL_API int ol_checkpoints_open(const struct ol_server_opts *opts, uint64_t version, uint32_t over,
			       struct ol_checkpoints **ret_set, char *err, size_t err_bytes);

/*
 * ol_checkpoints_add -- write the next shard's, shard 0 first; it has no name before the commit
 *
 * weights: ol_shard_span() floats.
 *
 * Blocks: until they are durable.
 * Errors: -EBADMSG (a weight is a NaN or an infinity), -EINVAL (all are there), OL_E_FENCED (a server
 * has begun there), -ENOMEM, errors of the file; with a line in err
 */
OL_API int ol_checkpoints_add(struct ol_checkpoints *set, const float *weights, char *err,
			      size_t err_bytes);

/*
 * ol_checkpoints_commit -- give all their names; after an error none has one
 *
 * A process that is killed before leaves none, one that is killed in the middle may leave some: write
 * them again, with over 1.
 *
 * Blocks: until the names are durable.
 * Errors: -EINVAL (a shard is missing), OL_E_FENCED, errors of the folder; with a line in err
 */
OL_API int ol_checkpoints_commit(struct ol_checkpoints *set, char *err, size_t err_bytes);

/* ol_checkpoints_close -- free it, and remove what was not committed; NULL is fine */
OL_API void ol_checkpoints_close(struct ol_checkpoints *set);

#ifdef __cplusplus
}
#endif

#endif /* OUTLAST_SERVER_H */
