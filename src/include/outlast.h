/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outlast.h -- public interface of the RDMA parameter server (worker side)
 *
 * The parameters of a job are one flat vector of float32, cut into shards; a worker talks to the
 * server of every shard, and the library splits and joins.
 *
 * HANDLES AND OPS. A struct ol_worker is a handle: it lives from open() to close() and belongs to
 * the thread that opened or adopted it. In another thread every call fails with OL_E_THREAD and
 * changes nothing (calls that return no int return 0 or NULL; ol_worker_close() logs it). A struct
 * ol_op is a request: the caller supplies its memory and lends it to the library from the call that
 * starts it until it is done. After ol_worker_wait() in its own thread an op is done, whatever that
 * returned: nothing that was waited for stays lent.
 *
 * LENT MEMORY. A gradient buffer is lent by the library: ol_grad_acquire() gives it to the caller,
 * ol_push() gives it back. Where the server is on this machine it is the server's own landing
 * slot, elsewhere registered memory: a gradient computed in place is pushed without a copy.
 *
 * FORKS. A child of a fork() has nothing of its parent's handles: no descriptor, no memory. So it
 * keeps nothing of them alive when its parent dies. Calls with such a handle fail as in another
 * thread; ol_worker_close() does nothing. Buffers and weights are not mapped there: to read them
 * may end the child with SIGSEGV. A child may open handles of its own.
 *
 * ERRORS. A function that returns int returns 0 (or a count) on success and a negative code on
 * failure: a negated errno value, or one of the OL_E_* codes below. On failure, nothing named
 * ret_* has been written, and no op has been started. No call ever ends the process.
 *
 * SIZES. A program may be older or newer than the library that it runs with. A struct that may grow
 * travels with the size that the program's compiler knows: the inline functions pass it on to the
 * functions that end in _sized, which a binding of another language calls with the size of its own
 * struct. The library reads and writes nothing behind that size. What an older program's struct
 * lacks has its default. Of a newer program's struct, what the library does not know is 0 in
 * results, and must be 0 in what the program gives: otherwise the call fails. New fields go at the
 * end. A struct that goes without its size, as struct ol_op, never changes.
 */
#ifndef OUTLAST_H
#define OUTLAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OL_API __attribute__((visibility("default")))

/* The version that this header is of. It stands here only: the build reads it from these lines. */
#define OL_VERSION_MAJOR                     0
#define OL_VERSION_MINOR                     1
#define OL_VERSION_PATCH                     0
#define OL_VERSION_NUMBER                    (OL_VERSION_MAJOR * 1000000 + OL_VERSION_MINOR * 1000 + OL_VERSION_PATCH)
#define OL_VERSION_STRING                    OL_VERSION_JOIN(OL_VERSION_MAJOR, OL_VERSION_MINOR, OL_VERSION_PATCH)
#define OL_VERSION_JOIN(major, minor, patch) OL_VERSION_TEXT(major, minor, patch)
#define OL_VERSION_TEXT(major, minor, patch) #major "." #minor "." #patch

/*
 * ol_version -- the version of the library that runs: "0.1.0", a constant string
 *
 * ret_number, if not NULL, receives the same as one number. A program compares both with
 * OL_VERSION_STRING and OL_VERSION_NUMBER, the version that it was compiled with.
 *
 * Threading: any thread, any time
 */
OL_API const char *ol_version(uint32_t *ret_number);

/* Codes that errno has no word for. They start below every -errno. One line each, once. */
#define OL_STATUS_MAP(X) \
	X(EPOCH, -1001, "message carries an old epoch; connect again") \
	X(GEOMETRY, -1002, "worker and server disagree on the geometry of the job") \
	X(WIRE, -1003, "peer sent a malformed or unsupported message") \
	X(AUTH, -1004, "job key is not the peer's; give both ends the same key") \
	X(WORKER_ID, -1005, "worker id is already connected, or not below the server's limit") \
	X(FULL, -1006, "server holds as many connections as its settings allow") \
	X(NONFINITE, -1007, "gradient holds a NaN or an infinity; it was not applied") \
	X(LATE, -1008, "gradient came too late for its step; the policy dropped it") \
	X(TORN, -1009, "weights kept changing while they were read; raise the pull retries") \
	X(NO_SERVER, -1010, "server of a shard is not reachable") \
	X(LOST, -1011, "gradient is lost: its server came back with older weights") \
	X(FENCED, -1012, \
	  "server stood still for longer than its lease; others may have taken over") \
	X(NO_CHECKPOINT, -1013, "no whole checkpoint of this shard is there") \
	X(RESOURCES, -1014, \
	  "server lacks memory or descriptors for a connection; its log says which") \
	X(THREAD, -1015, \
	  "handle belongs to another thread (ol_worker_adopt() moves it), or to the parent of a fork")

enum ol_status {
#define X(name, value, text) OL_E_##name = (value),
	OL_STATUS_MAP(X)
#undef X
};

/* ol_strerror -- a constant string for any code this library returns; never NULL */
OL_API const char *ol_strerror(int code);

enum ol_log_level {
	OL_LOG_ERROR, /* something that was promised will not happen */
	OL_LOG_WARN, /* it goes on, but somebody should look */
	OL_LOG_INFO, /* what a person who watches wants to know */
	OL_LOG_DEBUG, /* what a person who searches wants to know */
};

/* Receives one log line: no time, no level in the text, no newline; text is valid in the call. */
typedef void (*ol_log_fn)(void *ctx, enum ol_log_level level, const char *text);

/*
 * ol_log_set -- give log lines up to `level` to sink, with ctx, from now on
 *
 * sink NULL: lines go to stderr again, each with the time and the level. So they do, at
 * OL_LOG_INFO, until the first call. Sink and level are the process's: all workers and servers in
 * it share them. Nothing else of the library writes to stdout or stderr.
 *
 * Any thread of the library or of the caller's that uses a handle may call the sink, several at
 * once. The sink may use errno. It must not use a handle, end its thread or leave by longjmp().
 *
 * Blocks:    until no thread is in the former sink, which is not called again: its ctx can be freed
 * Threading: any thread, any time, but not from a sink
 * Errors:    -EINVAL (no such level; nothing changes)
 */
OL_API int ol_log_set(ol_log_fn sink, enum ol_log_level level, void *ctx);

struct ol_worker;

/* What a worker does while the server of a shard is gone. */
enum ol_outage {
	OL_OUTAGE_END, /* ops end with OL_E_NO_SERVER; the handle is good for closing only */
	OL_OUTAGE_WAIT, /* ops wait until the server is back; what was lost is pushed again */
	OL_OUTAGE_CONTINUE, /* pulls give the last weights, pushes are queued; nothing waits */
};

/* OL_OUTAGE_CONTINUE: how gradients wait for their server. */
enum ol_queue {
	OL_QUEUE_FOLD, /* summed up: the memory of one gradient, however many */
	OL_QUEUE_DROP_OLDEST, /* queue_max of them; the oldest makes room, and is counted */
	OL_QUEUE_WAIT, /* queue_max of them; then a push waits for the server */
};

enum ol_observer {
	OL_OBSERVER_NO,
	OL_OBSERVER_READS, /* ol_pull() and ol_stat() */
	OL_OBSERVER_COUNTERS, /* ol_stat() only, without memory for weights. One address: that may
				 be a server of any shard, anywhere in a chain; it is shard 0. */
};

/* Set by ol_worker_opts_init(); overwrite the fields you care about. */
struct ol_worker_opts {
	size_t size; /* sizeof(struct ol_worker_opts) as the caller compiled it */
	/* Addresses of shard 0, 1 … with commas between: "10.0.0.1:7471,…". Where a server may come
	   back elsewhere, its other addresses follow behind a "|". */
	const char *servers;
	const char *transport; /* "verbs" or "shm"; NULL: shm if an address starts with / or @ */
	const char *device; /* RDMA device; NULL: the one that the route takes */
	const char *job_key; /* secret that both ends of a job share; NULL or "": none */
	uint32_t worker; /* this worker's id, from 0; unique in the job */
	uint32_t observer; /* enum ol_observer: has no id and cannot push */
	uint64_t param_count; /* floats the caller's model has; 0: whatever the servers say */
	uint32_t window; /* gradient buffers wanted; the servers' limit caps it; 0: that limit */
	uint32_t connect_timeout_ms; /* until ol_worker_open() gives up */
	uint32_t op_timeout_ms; /* until a call that waits gives up; 0: 49 days */
	uint32_t retry_timeout_ms; /* silence of a server until its connection is down */
	uint32_t spin_us; /* how long a wait spins before it sleeps */
	uint32_t pull_retries_max; /* torn reads until a pull fails with OL_E_TORN */
	enum ol_outage outage;
	uint32_t outage_timeout_ms; /* until an outage ends as with OL_OUTAGE_END; 0: never */
	uint32_t lease_ms; /* a server whose heartbeat stands still for so long is gone; WAIT and
			      CONTINUE only */
	enum ol_queue queue; /* CONTINUE */
	uint32_t queue_max; /* gradients that a shard's queue holds, unless they are folded */
	uint32_t local_progress; /* CONTINUE, 1: during an outage ol_weights() follows the own
				    gradients, if the job's rule is plain SGD. 0: they stay as they
				    were pulled. */
	uint32_t mirror_state; /* 1: pulls bring the optimizer's state too, for a server that comes
				  back empty */
	/*
	 * Where chains are: "dir:PATH", a folder of this machine and user, or "zk:HOST:PORT,…"
	 * (ZooKeeper). servers is then NULL, and outage WAIT or CONTINUE: the worker
	 * pushes to the head and pulls from the tail of each shard's chain, and follows its view.
	 */
	const char *coordinator;
	const char *job; /* name of the job there; NULL: "outlast" */
	uint32_t spin_yield; /* 1: while it spins it lets others of its processor go first: for more
				processes that spin than processors */
	/* A descriptor of the caller's, an eventfd or a signalfd: when it becomes readable,
	   ol_worker_open() ends with -ECANCELED. Nothing is read from it. -1: none */
	int cancel_fd;
};

OL_API void ol_worker_opts_init_sized(struct ol_worker_opts *opts, size_t opts_bytes);
static inline void ol_worker_opts_init(struct ol_worker_opts *opts)
{
	ol_worker_opts_init_sized(opts, sizeof(*opts));
}

/*
 * ol_worker_open -- connect to the server of every shard
 *
 * err, if not NULL, receives one line that says what failed, which server, and what to do.
 *
 * Blocks:    until all are connected, or one refuses, or connect_timeout_ms, or cancel_fd is
 *            readable; a server that is not there yet is tried again until then
 * Threading: the handle belongs to the calling thread
 * Errors:    OL_E_NO_SERVER, OL_E_AUTH, OL_E_WORKER_ID, OL_E_GEOMETRY, OL_E_FULL, OL_E_WIRE,
 *            OL_E_RESOURCES, -ECANCELED, -ENODEV (no such transport or device here), -EINVAL, and
 *            what this process lacks: -ENOMEM, -EMFILE, -EFBIG (RLIMIT_FSIZE: shared memory counts)
 */
OL_API int ol_worker_open(const struct ol_worker_opts *opts, struct ol_worker **ret_worker,
			  char *err, size_t err_bytes);

/*
 * ol_worker_adopt -- the handle belongs to the calling thread from now on
 *
 * For who opens it in one thread and uses it in another. The caller makes sure that the thread it
 * belonged to is in no call and makes none afterwards.
 *
 * Threading: any thread. Errors: OL_E_THREAD (in a child of a fork)
 */
OL_API int ol_worker_adopt(struct ol_worker *worker);

/* ol_worker_close -- say goodbye and free; every op not done ends with -ECANCELED; NULL is fine */
OL_API void ol_worker_close(struct ol_worker *worker);

enum ol_consistency {
	OL_CONSISTENCY_ASYNC = 1, /* every gradient is a step */
	OL_CONSISTENCY_SYNC, /* a step is the mean (or sum) of one gradient of every worker, or of
				as many as a server waits for (enum ol_wait) */
	OL_CONSISTENCY_SSP, /* every gradient is a step, but a worker more than `staleness` steps
			       ahead of the slowest waits */
};

/* What a job looks like, as the servers told it. */
struct ol_job_info {
	uint64_t param_count;
	uint64_t version; /* newest that this worker knows of, on the shard furthest behind */
	uint32_t shard_count;
	uint32_t window; /* gradient buffers */
	uint32_t workers_max;
	uint32_t epoch;
	enum ol_consistency consistency;
	uint32_t zero_copy; /* 1: a gradient buffer is the server's landing slot itself */
	const char *transport;
};

OL_API void ol_worker_info_sized(const struct ol_worker *worker, struct ol_job_info *ret_info,
				 size_t info_bytes);
static inline void ol_worker_info(const struct ol_worker *worker, struct ol_job_info *ret_info)
{
	ol_worker_info_sized(worker, ret_info, sizeof(*ret_info));
}

/* What a caller can wait for. */
enum ol_level {
	OL_LEVEL_APPLIED, /* in the servers' weights, or dropped by policy: status says which */
	OL_LEVEL_PLACED, /* it has left this process; nothing is promised */
	/* Applied by every replica of its shard's chain: it survives the loss of all but one. Where
	   there is no chain, as APPLIED; -EINVAL with periodic replication, which promises
	   nothing. */
	OL_LEVEL_COMMITTED,
};

/* One push or pull in flight. Zero it before first use; reuse it once done. Its size is fixed. */
struct ol_op {
	void *user; /* the caller's; the library never looks */
	enum ol_level level; /* in, push: when it is done */
	int status; /* out: 0 or a negative code, valid once done */
	uint64_t version; /* out: version that the push made, or that the pull read */
	uint64_t age_ns; /* out, pull: since the oldest shard of these weights was read; 0: just
			  now */
	uint8_t local; /* out: 1: a server is gone (OL_OUTAGE_CONTINUE). A pull gave the last
			  weights of its shard; a push is kept or queued until it is back. */
	uint8_t done; /* out: set last */
	uint64_t reserved[6];
};

/* What a worker says of a gradient; travels in its header. */
struct ol_push_info {
	uint64_t base_version; /* as ol_weights() said of the weights it was computed at */
	float loss; /* mean over its samples */
	uint32_t samples;
};

/*
 * ol_grad_acquire -- borrow a gradient buffer of param_count floats, waiting for one if it must
 *
 * The content is whatever was there: write all of it. Aligned to 64 bytes at least.
 *
 * Where only newer weights free a buffer it pulls: ol_weights() changes, and base versions age as
 * with any pull. So call ol_weights() after it, and have one buffer lent at a time. A buffer that
 * it lends ol_push() takes without -EAGAIN or -ENOBUFS, unless another one is pushed first.
 *
 * With OL_OUTAGE_WAIT and OL_OUTAGE_CONTINUE a pushed gradient keeps its buffer until a pull has
 * brought weights that contain it: should the server die before, it is pushed again.
 *
 * A push that has ended with OL_E_LATE or OL_E_LOST keeps its buffer while a server still holds its
 * part of it for other workers. Where such pushes hold all buffers and the caller waits for no
 * other push, this call withdraws them (ol_withdraw()): else workers could wait for each other.
 * With OL_OUTAGE_CONTINUE it lends a buffer more instead.
 *
 * Blocks:    until a buffer is free, or op_timeout_ms
 * Errors:    -ETIMEDOUT (a pull may still be on its way: ol_weights() then changes in a later
 *            call), -EBUSY (the caller holds all of them; with CONTINUE one fewer than the window),
 *            OL_E_TORN, -EPERM (an observer), OL_E_NO_SERVER
 */
OL_API int ol_grad_acquire(struct ol_worker *worker, float **ret_grad);

/*
 * ol_grad_try_acquire -- as ol_grad_acquire(), without waiting or pulling
 *
 * Blocks:    never
 * Errors:    -EAGAIN (window full, and time frees a buffer: poll, then retry), -ENOBUFS (only a
 *            pull does: one holds a gradient that its server alone knows), -EPERM, OL_E_NO_SERVER
 */
OL_API int ol_grad_try_acquire(struct ol_worker *worker, float **ret_grad);

/* ol_grad_release -- give a lent buffer back unpushed; -EINVAL (not lent), -EAGAIN (poll first) */
OL_API int ol_grad_release(struct ol_worker *worker, float *grad);

/*
 * ol_grad_ready -- a hint: the floats of a lent buffer from `first` on will not change any more
 *
 * Backpropagation finishes the last layer first. What is said to be ready is sent, and may be
 * applied where nobody sees it, while the rest is computed; it takes effect with ol_push() only.
 * `first` goes down from call to call.
 *
 * Blocks:    never
 * Errors:    -EINVAL (not a buffer that is lent), OL_E_NO_SERVER
 */
OL_API int ol_grad_ready(struct ol_worker *worker, float *grad, uint64_t first);

/*
 * ol_push -- add a gradient, taking the buffer back
 *
 * With op->level OL_LEVEL_APPLIED it is done when every shard has resolved it, and the buffer can
 * be lent again: status is 0, or OL_E_NONFINITE when a NaN or an infinity dropped it (at all
 * shards, wherever it is), and version is the newest of the first shard then. A pull that starts
 * later sees it. OL_E_LATE ends it at once: a shard dropped, and counted, its part; others may have
 * applied theirs, or still hold it for workers that wait for this one there. The buffer is theirs
 * until they have resolved it.
 *
 * While a server is gone: with WAIT it is done when that is back and has applied it; with CONTINUE
 * it is done at once, with status 0 and op->local 1: it is queued, or kept to be pushed again, and
 * what becomes of it ol_link_get_stat() counts. A server that comes back with weights older than
 * this worker's (from a checkpoint) ends what was on its way to it with OL_E_LOST, at once, and
 * with WAIT what it had applied: other shards may still hold it, for workers that wait for this one
 * at that server. The buffer is theirs until they have resolved it.
 *
 * info->base_version is what ol_weights() said of the weights that the gradient was computed at:
 * of the last pull or the one before, or 0 before any.
 *
 * Blocks:    never
 * Threading: the worker's thread only
 * Errors:    -EINVAL (not a buffer that is lent, or weights that are gone; it stays lent), -EAGAIN
 *            (CONTINUE: no room in a queue, it stays lent: poll, then retry), -ENOBUFS (the same,
 *            but only a pull makes room), -EOVERFLOW (2^40 - 1 pushes of this handle, all there are
 *            numbers for: open it anew), OL_E_NO_SERVER
 */
OL_API int ol_push_sized(struct ol_worker *worker, float *grad, const struct ol_push_info *info,
			 size_t info_bytes, struct ol_op *op);
static inline int ol_push(struct ol_worker *worker, float *grad, const struct ol_push_info *info,
			  struct ol_op *op)
{
	return ol_push_sized(worker, grad, info, sizeof(*info), op);
}

enum ol_pull_flags {
	OL_PULL_NEWEST = 1 << 0, /* ask the servers which version is newest first: one more trip */
};

/*
 * ol_pull -- read the weights of all shards into the local mirror
 *
 * Never older than a version that this worker was told of. No CPU of a server takes part. The
 * mirror is double-buffered: the weights that ol_weights() gave stay valid until the pull after
 * the next one starts. One pull at a time.
 *
 * While a server is gone: with WAIT it is done when that is back, and has applied what is pushed
 * again to it (it waits for no push that has ended with OL_E_LATE or OL_E_LOST: these are withdrawn
 * as by ol_grad_acquire()); with CONTINUE it is done at once, op->local is 1, and the weights of
 * that server's shard are the last ones.
 *
 * Blocks:    never
 * Errors:    -EBUSY (a pull is in flight), -EPERM (OL_OBSERVER_COUNTERS), OL_E_NO_SERVER; as
 *            status: OL_E_TORN
 */
OL_API int ol_pull(struct ol_worker *worker, unsigned flags, struct ol_op *op);

/*
 * ol_newest -- the newest version that the servers are known to have, of the shard furthest behind
 *
 * Also asks them again, one-sidedly; the answer comes with a later ol_worker_poll(). Who computes a
 * gradient in pieces and calls both between them learns soon that it will be late, and may begin
 * anew.
 *
 * Blocks: never
 */
OL_API uint64_t ol_newest(struct ol_worker *worker);

/*
 * ol_weights -- the last whole weights pulled, param_count floats; NULL before the first pull
 *
 * With local progress, during an outage: these, moved on by each gradient pushed since; the version
 * stays that of the pull.
 */
OL_API const float *ol_weights(const struct ol_worker *worker, uint64_t *ret_version);

/*
 * ol_applied -- the last push of `worker_id` that the weights of ol_weights() contain, on shard
 * `shard`: 1, 2, 3 … of the process that made it; 0 if none
 */
OL_API uint64_t ol_applied(const struct ol_worker *worker, uint32_t shard, uint32_t worker_id);

/* ol_applied_grads -- how many gradients of all processes of that id: a queue may push many as
 * one */
OL_API uint64_t ol_applied_grads(const struct ol_worker *worker, uint32_t shard,
				 uint32_t worker_id);

/*
 * ol_flush -- done once every server is there, and every gradient pushed before is resolved:
 * applied, dropped or lost
 *
 * Give lent buffers back first: a queue leaves through buffers. It pulls if it must to get some:
 * ol_weights() changes, and base versions age as with any pull. What is applied is known to the
 * servers, and to this worker's mirror once it has pulled: a worker that closes takes its mirror
 * with it, so stay until another has pulled, if the servers may die.
 *
 * Blocks: never. Errors: -EBUSY (one is in flight), OL_E_NO_SERVER
 */
OL_API int ol_flush(struct ol_worker *worker, struct ol_op *op);

/*
 * ol_withdraw -- what was pushed waits for no gradient of other workers
 *
 * A synchronous step waits for a gradient of each worker, and a bound of staleness for the slowest.
 * A server that holds a gradient for such a step drops it, and counts it as late; what is part of a
 * step already takes effect. What is pushed afterwards is held again. Steps wait for this worker as
 * before.
 *
 * It is for the end of a job: its workers go on until the version that it ends with is in
 * ol_newest(), of every shard and with none of them gone; what is held then is for a step that
 * nobody wants. Say it while a push or the last ol_flush() waits, and again until that is done: a
 * server that comes back has not heard it.
 *
 * Blocks: never. Errors: -EPERM (an observer), OL_E_NO_SERVER
 */
OL_API int ol_withdraw(struct ol_worker *worker);

/*
 * ol_worker_redirect -- the server of a shard is at addr from now on
 *
 * The connection to where it was is fenced off at once, whether that still answers or not.
 *
 * Blocks: never. Errors: -EINVAL (shard, address too long), -EPERM (OL_OUTAGE_END)
 */
OL_API int ol_worker_redirect(struct ol_worker *worker, uint32_t shard, const char *addr);

/*
 * What became of a worker's gradients at one shard, and of its connection. A gradient is in one
 * place only: pushed = applied + nonfinite + late + queue_dropped + lost + pending.
 */
struct ol_link_stat {
	uint64_t pushed;
	uint64_t applied; /* in weights of the server that is there now */
	uint64_t nonfinite; /* dropped by the server, as ol_push() says */
	uint64_t late;
	uint64_t queue_dropped; /* by OL_QUEUE_DROP_OLDEST */
	uint64_t lost; /* were applied, or on their way, when a server came back without them */
	uint64_t pending;
	uint64_t queued; /* of those pending: in the queue, no server knows them */
	uint64_t queued_total; /* ever */
	uint64_t resent; /* pushed again to a server that came back without them */
	uint64_t queue_bytes; /* memory of the queue now */
	uint64_t down_ns; /* when the last outage began, CLOCK_MONOTONIC; 0: none yet */
	uint64_t up_ns; /* when the last outage ended; 0: none has */
	uint32_t outages;
	uint32_t down; /* 1: there is one now */
	int reason; /* of the last: 0 (the server left or died) or a code */
	uint32_t epoch; /* of the server, the last known */
};

/* ol_link_get_stat -- -EINVAL: no such shard */
OL_API int ol_link_get_stat_sized(const struct ol_worker *worker, uint32_t shard,
				  struct ol_link_stat *ret_stat, size_t stat_bytes);
static inline int ol_link_get_stat(const struct ol_worker *worker, uint32_t shard,
				   struct ol_link_stat *ret_stat)
{
	return ol_link_get_stat_sized(worker, shard, ret_stat, sizeof(*ret_stat));
}

/* ol_worker_poll -- make progress without waiting; returns how many ops it completed */
OL_API int ol_worker_poll(struct ol_worker *worker);

/*
 * ol_worker_wait -- poll until op is done, spinning first and sleeping then
 *
 * A wait that gives up takes the op back: it is done, with the status that is returned, and the
 * library does not touch it again. What it was for goes on. A push keeps its number and its buffer,
 * takes effect once, and ol_link_get_stat() counts what becomes of it. A pull ends in a later call,
 * which changes ol_weights(); one that is asked for meanwhile begins then. A flush is forgotten.
 *
 * With OL_OUTAGE_CONTINUE, while no buffer is lent, it pulls where a queue leaves only behind a
 * pull: ol_weights() changes, and base versions age as with any pull.
 *
 * Blocks:    until done, or op_timeout_ms
 * Returns:   op->status; -ETIMEDOUT if the wait gave up
 */
OL_API int ol_worker_wait(struct ol_worker *worker, struct ol_op *op);

/*
 * ol_worker_wait_for -- as ol_worker_wait(), but a wait that gives up leaves the op in flight
 *
 * For a caller that looks after something else from time to time and waits again.
 *
 * Blocks:    until done, or timeout_ms
 * Returns:   op->status; -EAGAIN if it is not done yet (its memory is still lent)
 */
OL_API int ol_worker_wait_for(struct ol_worker *worker, struct ol_op *op, uint32_t timeout_ms);

/* What a server is in its shard's chain. */
enum ol_replica_role {
	OL_REPLICA_NONE, /* there is no chain, or it is in none yet */
	OL_REPLICA_JOINING, /* being brought up to date */
	OL_REPLICA_HEAD, /* orders pushes */
	OL_REPLICA_MIDDLE,
	OL_REPLICA_TAIL, /* commits, answers pulls */
	OL_REPLICA_ONLY, /* head and tail at once */
};

/* Counters of one shard's server, read from its memory: its CPU takes no part. */
struct ol_server_stat {
	uint64_t version;
	uint64_t heartbeat; /* goes up while the server's loop turns */
	uint64_t applied; /* gradients that took effect */
	uint64_t dropped_nonfinite;
	uint64_t dropped_late;
	uint64_t duplicates; /* pushed again and recognised */
	uint64_t staleness_sum; /* over applied gradients: version at apply - base version */
	uint64_t samples;
	uint64_t bytes_in;
	uint64_t refused; /* handshakes */
	uint64_t violations; /* sessions ended because the peer broke a rule */
	uint64_t replayed; /* of those applied: had waited in a queue */
	uint64_t restored_version; /* it began with these weights … */
	uint64_t restored_lost; /* … which lack so many pushes that workers were told are applied */
	uint64_t ready_ns; /* … at this time, CLOCK_MONOTONIC of its host */
	uint64_t first_applied_ns; /* first gradient that it applied itself; 0: none yet */
	uint64_t checkpoints; /* written */
	uint64_t checkpoints_failed;
	uint64_t checkpoints_skipped; /* due while the one before was being written */
	uint64_t checkpoint_version; /* of the last one written */
	uint64_t checkpoint_bytes; /* written in all */
	uint32_t restored_from; /* enum ol_restore: CHECKPOINT, MIRROR, or NONE (first weights) */
	uint32_t epoch;
	uint32_t workers; /* connected now */
	/* Of a chain; all 0 where there is none. Entries are numbered as versions are. */
	uint64_t replica; /* id of this server process */
	uint64_t received; /* newest entry in its ring: of a head, ordered */
	uint64_t committed; /* newest entry that it knows the tail has */
	uint64_t forwarded; /* entries handed to successors, repeats included … */
	uint64_t forwarded_bytes; /* … and the bytes of them */
	uint64_t resent; /* of these: again, to a new successor */
	uint64_t resync_bytes; /* read from its predecessor when it joined */
	uint64_t resync_ns; /* how long that took, until it had caught up; 0: it did not join */
	uint64_t views; /* adopted */
	uint64_t
		suspicions; /* of a neighbour: its connection broke, or its heartbeat stood still */
	uint32_t role; /* enum ol_replica_role */
	uint32_t ring_slots;
	uint32_t ring_used;
	float loss; /* of recent gradients, exponentially averaged over 32 */
	/* Of a chain, CLOCK_MONOTONIC of its host; 0: never. When it last … */
	uint64_t proposed_ns; /* … first asked for another view than the one in force */
	uint64_t adopted_ns; /* … adopted a view */
	uint64_t linked_ns; /* … got a successor that takes entries */
	uint32_t wait_for; /* gradients that the next step waits for; async, ssp: 1 */
	uint64_t turn_max_ns; /* longest turn of its loop, without sleep: nobody was served so
			       long */
	uint64_t sent_away; /* peers that were told to come back: their memory was not ready */
};

/*
 * ol_stat -- read a server's counters with one RDMA read
 *
 * Blocks: for a round trip, or op_timeout_ms, spinning first and sleeping then. Errors: -EINVAL (no
 * such shard), OL_E_NO_SERVER, -ETIMEDOUT
 */
OL_API int ol_stat_sized(struct ol_worker *worker, uint32_t shard, struct ol_server_stat *ret_stat,
			 size_t stat_bytes);
static inline int ol_stat(struct ol_worker *worker, uint32_t shard, struct ol_server_stat *ret_stat)
{
	return ol_stat_sized(worker, shard, ret_stat, sizeof(*ret_stat));
}

#ifdef __cplusplus
}
#endif

#endif /* OUTLAST_H */
