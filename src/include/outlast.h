/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outlast.h -- public interface of the RDMA parameter server (worker side)
 *
 * The parameters of a job are one flat vector of float32, cut into shards. A worker talks to the
 * server of every shard; the library splits gradients and joins weights.
 *
 * HANDLES AND OPS. A struct ol_worker is a handle: it lives from open() to close() and belongs to
 * the thread that opened or adopted it. In another thread every call fails with OL_E_THREAD and
 * changes nothing (calls that return no int return 0 or NULL; ol_worker_close() logs it). A struct
 * ol_op is a request: the caller supplies its memory and lends it to the library from the call that
 * starts it until the op is done. When ol_worker_wait() has returned in the handle's thread, the op
 * is done, whatever the call returned: no op stays lent after a wait.
 *
 * LENT MEMORY. A gradient buffer is lent by the library: ol_grad_acquire() gives it to the caller,
 * ol_push() gives it back. Where the server is on this machine it is the server's own landing
 * slot, elsewhere registered memory: a gradient computed in place is pushed without a copy.
 *
 * FORKS. A child of a fork() inherits no descriptor and no memory of its parent's handles, so it
 * keeps no connection alive when the parent dies. In the child, calls with such a handle fail as in
 * another thread; ol_worker_close() does nothing. Buffers and weights are not mapped in the child:
 * reading them may end it with SIGSEGV. A child may open handles of its own. What stays open in it
 * are eventfds, two a handle at most, and what a coordinator has open; neither keeps a peer alive.
 *
 * ERRORS. A function that returns int returns 0 (or a count) on success and a negative code on
 * failure: a negated errno value, or one of the OL_E_* codes below. On failure the call has written
 * nothing named ret_* and started no op. No call ever ends the process, if its pointers are valid:
 * NULL is so only where it says so.
 *
 * SIZES. A program may be older or newer than the library that it runs with. A struct that may grow
 * travels with the size that the program's compiler knows. The inline functions pass this size to
 * the functions whose names end in _sized; a binding of another language calls those with the size
 * of its own struct. The library reads and writes nothing behind that size. A field that an older
 * program's struct lacks has its default. A field of a newer program's struct that the library does
 * not know is 0 in results. In options it must be 0, otherwise the call fails. New fields go at the
 * end. A struct that is passed without its size, as struct ol_op, never changes.
 */
#ifndef OUTLAST_H
#define OUTLAST_H

#include <stddef.h>
#include <stdint.h>

#include "outlast_counters.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OL_API __attribute__((visibility("default")))

/* The version of this header. It stands here only: the build reads it from these lines. */
#define OL_VERSION_MAJOR                     1
#define OL_VERSION_MINOR                     0
#define OL_VERSION_PATCH                     0
#define OL_VERSION_NUMBER                    (OL_VERSION_MAJOR * 1000000 + OL_VERSION_MINOR * 1000 + OL_VERSION_PATCH)
#define OL_VERSION_STRING                    OL_VERSION_JOIN(OL_VERSION_MAJOR, OL_VERSION_MINOR, OL_VERSION_PATCH)
#define OL_VERSION_JOIN(major, minor, patch) OL_VERSION_TEXT(major, minor, patch)
#define OL_VERSION_TEXT(major, minor, patch) #major "." #minor "." #patch

/*
 * ol_version -- the version of the library in use: "1.0.0", a constant string
 *
 * ret_number, if not NULL, receives the same as one number. A program compares both with
 * OL_VERSION_STRING and OL_VERSION_NUMBER, the version that it was compiled with.
 *
 * Threading: any thread, any time
 */
OL_API const char *ol_version(uint32_t *ret_number);

/* Codes for which errno has no value. All are below every -errno. */
#define OL_STATUS_MAP(X) \
	X(EPOCH, -1001, "message carries an old epoch; connect again") \
	X(GEOMETRY, -1002, "worker and server disagree on the geometry of the job") \
	X(WIRE, -1003, "peer sent a malformed or unsupported message") \
	X(AUTH, -1004, \
	  "the peer does not know this job key; give both ends the job's key, or credentials made from it") \
	X(WORKER_ID, -1005, "worker id is already connected, or not below the server's limit") \
	X(FULL, -1006, "server holds as many connections as its settings allow") \
	X(NONFINITE, -1007, "gradient holds a NaN or an infinity; it was not applied") \
	X(LATE, -1008, "gradient came too late for its step; the policy dropped it") \
	X(TORN, -1009, "weights kept changing while they were read; raise the pull retries") \
	X(NO_SERVER, -1010, "server of a shard is not reachable") \
	X(LOST, -1011, "gradient is lost: its server came back with older weights") \
	X(FENCED, -1012, \
	  "server stood still for longer than its lease; another may have taken over") \
	X(NO_CHECKPOINT, -1013, "this shard has no whole checkpoint") \
	X(RESOURCES, -1014, \
	  "server lacks memory or descriptors for a connection; its log says which") \
	X(THREAD, -1015, \
	  "handle belongs to another thread (ol_worker_adopt() moves it), or to the parent of a fork") \
	X(DEVICE, -1016, \
	  "this process's RDMA device was reset, taken away or broke; what used it opens it anew") \
	X(HISTORY, -1017, \
	  "a server came back with older weights than this reader has, and the job has not come as far again")

enum ol_status {
#define X(name, value, text) OL_E_##name = (value),
	OL_STATUS_MAP(X)
#undef X
};

/* ol_strerror -- a constant string for any code this library returns; never NULL */
OL_API const char *ol_strerror(int code);

enum ol_log_level {
	OL_LOG_ERROR, /* a promise cannot be kept */
	OL_LOG_WARN, /* the job goes on, but a person should look */
	OL_LOG_INFO, /* for a person who watches the job */
	OL_LOG_DEBUG, /* for a person who looks for a fault */
};

/* Receives one log line. The text holds no time, no level and no newline, and is valid during the
   call only. */
typedef void (*ol_log_fn)(void *ctx, enum ol_log_level level, const char *text);

/*
 * ol_log_set -- from now on pass log lines up to `level` to sink, with ctx
 *
 * With sink NULL, lines go to stderr, each with the time and the level. This is the state before
 * the first call, with OL_LOG_INFO. All workers and servers of the process share sink and level.
 * Nothing else in the library writes to stdout or stderr.
 *
 * A descriptor 2 that is closed, or close-on-exec, is no stderr: then lines are lost. All that the
 * library opens is close-on-exec, so in a program that has closed its stderr no line goes into a
 * connection. libzookeeper's connection is not: with a coordinator zk: keep descriptor 2 open.
 *
 * Any thread of the library, and any thread of the caller that uses a handle, may call the sink;
 * several may do so at once. The sink may change errno. It must not use a handle, end its thread or
 * leave by longjmp().
 *
 * Blocks:    until no thread is in the former sink; it is not called again, its ctx can be freed.
 *            A child of a fork waits only for what it does itself, not for its parent's threads
 * Threading: any thread, any time, but not from a sink
 * Errors:    -EINVAL (no such level; nothing changes)
 */
OL_API int ol_log_set(ol_log_fn sink, enum ol_log_level level, void *ctx);

struct ol_worker;

/* What a worker does while the server of a shard is gone. */
enum ol_outage {
	OL_OUTAGE_END, /* ops end with OL_E_NO_SERVER; then the handle can only be closed */
	OL_OUTAGE_WAIT, /* ops wait until the server is back; lost gradients are pushed again */
	OL_OUTAGE_CONTINUE, /* pulls give the last weights, pushes are queued; no op waits. Of several shards whose
			       steps are not of all workers, that is so for all as long as one is gone */
};

/* OL_OUTAGE_CONTINUE: how gradients wait for their server. */
enum ol_queue {
	OL_QUEUE_FOLD, /* summed: any number in the memory of one gradient */
	OL_QUEUE_DROP_OLDEST, /* at most queue_max; then the oldest is dropped and counted */
	OL_QUEUE_WAIT, /* at most queue_max; then a push waits for the server */
};

enum ol_observer {
	OL_OBSERVER_NO,
	/* ol_pull() and ol_stat(). What it pulled, and what ol_newest() said, may be newer than the
	   mirror of every worker. If a server is then restored from a mirror, both go back. */
	OL_OBSERVER_READS,
	OL_OBSERVER_COUNTERS, /* ol_stat() only, without memory for weights. Takes one address, of a
				 server of any shard, anywhere in a chain; calls name it shard 0. */
};

/* Settings of an adapter that the library chooses well by itself */
enum ol_choice {
	OL_CHOICE_AUTO, /* where it helps */
	OL_CHOICE_ON,
	OL_CHOICE_OFF
};

/*
 * How a worker's gradients travel to the servers. There they are fp32 again: weights, sums of several
 * gradients, entries of a chain and the optimizer's state are fp32 always.
 */
enum ol_format {
	OL_FORMAT_FP32, /* 4 bytes an element: as it is */
	OL_FORMAT_BF16, /* 2 bytes: rounded to 8 bits of fraction */
	OL_FORMAT_FP16, /* 2 bytes: rounded to 11 bits; what rounds to 65,536 or more is an infinity,
			   as its step sees it: OL_E_NONFINITE */
	/* 1 byte, and 4 for 256: rounded to 1/127 of the largest of 256 elements. What a gradient
	   lacks for it is added to the worker's next one, through any outage; it is lost with the
	   worker, and with a gradient that is dropped or lost. */
	OL_FORMAT_INT8,
};

/* Set by ol_worker_opts_init(); overwrite the fields you care about. */
struct ol_worker_opts {
	size_t size; /* sizeof(struct ol_worker_opts) as the caller compiled it */
	/* Addresses of shard 0, 1 …, separated by commas, as the servers say them: "10.0.0.1:7471,…",
	   "oob:192.168.0.1:7471,…" (connections made over TCP), "@name,…" (shm). If a server may
	   come back at another address, that follows the first one after a "|". */
	const char *servers;
	const char *transport; /* "verbs" or "shm"; NULL: shm if an address starts with / or @ */
	/* RDMA device to leave by; NULL: the one on the route to the server. "a,b", up to 8: shard k
	   by device k modulo their number, and by another while that one fails */
	const char *device;
	/* Secret that both ends of a job share: text of 128 bits or more (32 hexadecimal digits, 22
	   letters and digits, or 16 bytes; `outlast keygen`), or -EINVAL. NULL or "": none, and
	   whoever reaches a server can join */
	const char *job_key;
	uint32_t worker; /* this worker's id, from 0; unique in the job */
	uint32_t observer; /* enum ol_observer: an observer has no id and cannot push */
	uint64_t param_count; /* floats in the caller's model; 0: as many as the servers have */
	uint32_t window; /* gradient buffers wanted, at most the servers' limit; 0: that limit */
	uint32_t connect_timeout_ms; /* until ol_worker_open() gives up; default 10 s */
	uint32_t op_timeout_ms; /* until a call that waits gives up; default 30 s; 0: 49 days */
	/* Verbs: silence until a connection with traffic is down; an adapter may take four times as
	   long. Default 8 s, so that a network that is away for a few seconds ends no connection. A
	   process that dies ends its connections at once all the same; a host that dies is noticed
	   by lease_ms. */
	uint32_t retry_timeout_ms;
	uint32_t spin_us; /* how long a wait spins before it sleeps; default 50 */
	uint32_t pull_retries_max; /* torn reads until OL_E_TORN; default 100 */
	enum ol_outage outage; /* default END */
	uint32_t outage_timeout_ms; /* until an outage ends as with END; default 60 s; 0: never */
	uint32_t lease_ms; /* a server whose heartbeat stands still for this time is lost; WAIT and
			      CONTINUE only. Default 5 s; at least 4 times the servers' heartbeat_ms;
			      0: never */
	enum ol_queue queue; /* CONTINUE; default FOLD */
	uint32_t queue_max; /* gradients in a shard's queue, unless it folds them; default 64 */
	uint32_t local_progress; /* CONTINUE, 1: during an outage ol_weights() follows this worker's
				    own gradients, if the job's rule is plain SGD. 0: the weights
				    stay as pulled. */
	uint32_t mirror_state; /* 1: pulls also bring the optimizer's state, for a server that comes
				  back empty */
	/*
	 * The coordinator of a job with chains: "dir:PATH", a folder of this machine and user, or
	 * "zk:HOST:PORT,…[/CHROOT][?auth=FILE]" (ZooKeeper; FILE has a line user:password). Then
	 * servers must be NULL and outage WAIT or CONTINUE. The worker pushes to the head and pulls
	 * from the tail of each shard's chain, and follows its view.
	 */
	const char *coordinator;
	const char *job; /* the job's name at the coordinator; NULL: "outlast" */
	uint32_t spin_yield; /* 1: a spinning thread yields its processor: for machines on which
				more processes spin than there are processors */
	/* The caller's eventfd or signalfd, or -1. When it becomes readable, ol_worker_open() ends
	   with -ECANCELED and says so in err. The library reads nothing from it. */
	int cancel_fd;
	uint32_t relaxed_ordering; /* enum ol_choice; verbs: of memory that no word is polled in */
	uint32_t huge_pages; /* enum ol_choice; AUTO: if there are any; ON: and say so if not */
	/* Verbs, as the InfiniBand specification numbers it. 0: chosen by the library, the first
	   four from retry_timeout_ms; doctor prints them */
	uint32_t ack_timeout; /* acknowledge timer 4.096 us * 2^this; 1 … 31 */
	uint32_t retries; /* after that timer, until the connection is down; 1 … 6 */
	uint32_t rnr_timer; /* code of the receiver-not-ready timer; 1 … 31 */
	uint32_t rnr_retries; /* after that timer; 1 … 6 */
	uint32_t traffic_class; /* RoCE: DSCP * 4 + ECN, 1 … 255; 0: the system's */
	uint32_t path_mtu; /* bytes, 256 … 4096; 0, or if the path has less: the path's */
	uint32_t gradient_format; /* enum ol_format; default FP32. Others take one pass over the
				     gradient in each push, and memory of the worker's own: gradient
				     buffers of fp32 that are no landing slots, and for INT8 one
				     gradient more */
	uint32_t own_buffers; /* 1: gradient buffers are this process's own memory until the handle
				 is closed, so that they can be page-locked for an accelerator. On
				 shm they are else landing slots, which are other memory after a
				 server's death. 0 or 1 */
	uint32_t
		weights_format; /* enum ol_format; FP32, the default, or BF16: an observer that reads
				    weights reads them rounded to bf16, half as many bytes; its
				    ol_weights() are floats all the same. Servers that do not hold
				    them (weights_bf16) are refused with OL_E_GEOMETRY */
	/*
	 * The job's first weights, for servers that wait for those of worker 0 (init_worker of struct
	 * ol_server_opts): param_count floats, and what they are (outlast_tensor.h; NULL: nobody
	 * says). They are offered by worker 0 alone, to all servers; other workers may give them too,
	 * and so may a worker 0 of a job that has weights: those of the job hold then. Copied by
	 * ol_worker_open(); the copy is kept until the first pull, for a server that dies before.
	 * NULL: none
	 */
	const float *init;
	const char *init_tensors;
};

/* ol_worker_opts_init -- every option at its default: the caller sets servers, and what is to differ */
OL_API void ol_worker_opts_init_sized(struct ol_worker_opts *opts, size_t opts_bytes);
static inline void ol_worker_opts_init(struct ol_worker_opts *opts)
{
	ol_worker_opts_init_sized(opts, sizeof(*opts));
}

/* Who holds a key or a credential */
enum ol_holder {
	OL_HOLDER_JOB, /* servers and launchers: every role */
	OL_HOLDER_WORKER, /* one worker: pushes, pulls and looks as that one */
	OL_HOLDER_OBSERVER, /* looks */
};

enum {
	OL_CREDENTIAL_MAX = 192 /* bytes of a credential with its end */
};

/*
 * ol_credential -- derive a credential, which takes the job key's place in options and key files
 *
 * key: the job's, or the credential of its servers. OL_HOLDER_JOB: the servers' credential, out of
 * which the job key cannot be found. worker: its id; of the others 0. No other key can be found out
 * of a worker's or an observer's.
 *
 * Blocks:    no
 * Threading: any
 * Errors:    -EINVAL (no key, or a damaged credential), -EPERM (the key is a worker's or an
 *            observer's), -EIO (the crypto library fails)
 */
OL_API int ol_credential(const char *key, enum ol_holder holder, uint32_t worker,
			 char ret_text[OL_CREDENTIAL_MAX]);

/*
 * ol_worker_open -- connect to the server of every shard
 *
 * err, if not NULL, receives one line that says what failed, at which server, and what to do.
 *
 * Blocks:    until all servers are connected or one refuses, cancel_fd is readable, or
 *            connect_timeout_ms is over; an unreachable server is tried again until then, and so
 *            is one that has not proved to have the job key: it may be anybody
 * Threading: the handle belongs to the calling thread
 * Errors:    OL_E_NO_SERVER, OL_E_AUTH, OL_E_WORKER_ID, OL_E_GEOMETRY, OL_E_FULL, OL_E_WIRE,
 *            OL_E_RESOURCES, -ECANCELED, -ENODEV (no such transport or device here), -EINVAL,
 *            -EOPNOTSUPP (a coordinator zk:, and a library that was built without ZooKeeper); and
 *            at a limit of this process -ENOMEM, -EMFILE, -EFBIG (RLIMIT_FSIZE: shared memory
 *            counts)
 */
OL_API int ol_worker_open(const struct ol_worker_opts *opts, struct ol_worker **ret_worker,
			  char *err, size_t err_bytes);

/*
 * ol_worker_adopt -- the handle belongs to the calling thread from now on
 *
 * For a program that opens a handle in one thread and uses it in another. The caller makes sure
 * that the former thread is in no call with the handle and makes none afterwards: nothing checks
 * it, and a call that is under way may crash.
 *
 * Threading: any thread. Errors: OL_E_THREAD (in a child of a fork)
 */
OL_API int ol_worker_adopt(struct ol_worker *worker);

/* ol_worker_close -- disconnect and free; every op not done ends with -ECANCELED; NULL is fine */
OL_API void ol_worker_close(struct ol_worker *worker);

enum ol_consistency {
	OL_CONSISTENCY_ASYNC = 1, /* every gradient is a step */
	OL_CONSISTENCY_SYNC, /* a step is the mean (or sum) of one gradient of every worker, or of
				as many workers as the server waits for (enum ol_wait) */
	OL_CONSISTENCY_SSP, /* every gradient is a step, but a worker more than `staleness` steps
			       ahead of the slowest waits */
};

/* The job's properties, as the servers report them. */
struct ol_job_info {
	uint64_t param_count;
	uint64_t version; /* newest that this worker knows of, of the shard furthest behind */
	uint32_t shard_count;
	uint32_t window; /* gradient buffers */
	uint32_t workers_max;
	uint32_t epoch;
	enum ol_consistency consistency;
	uint32_t zero_copy; /* 1: a gradient buffer is the server's landing slot itself */
	const char *transport;
};

/* ol_worker_info -- the job and its geometry, and how this worker is connected; never blocks */
OL_API void ol_worker_info_sized(const struct ol_worker *worker, struct ol_job_info *ret_info,
				 size_t info_bytes);
static inline void ol_worker_info(const struct ol_worker *worker, struct ol_job_info *ret_info)
{
	ol_worker_info_sized(worker, ret_info, sizeof(*ret_info));
}

/* What a caller can wait for. */
enum ol_level {
	OL_LEVEL_APPLIED, /* in the servers' weights, or dropped by policy: status says which */
	OL_LEVEL_PLACED, /* the gradient has left this process; nothing is promised */
	/* Applied by every replica of the shard's chain: survives the loss of all but one of them.
	   The same as APPLIED without a chain. -EINVAL with periodic replication, which commits
	   nothing. */
	OL_LEVEL_COMMITTED,
};

/* One push or pull in flight. Zero it before first use; reuse it once done. Its size is fixed. */
struct ol_op {
	void *user; /* the caller's; the library never looks */
	enum ol_level level; /* in, push: when it is done */
	int status; /* out: 0 or a negative code, valid once done */
	uint64_t version; /* out: version that the push made, or that the pull read */
	uint64_t age_ns; /* out, pull: time since the oldest shard of these weights was read; 0: all
			    were read just now */
	uint8_t local; /* out: 1: a server is gone (OL_OUTAGE_CONTINUE). A pull gave the last
			  weights of its shard; a push is kept or queued until the server is
			  back. */
	uint8_t done; /* out: set last */
	uint64_t reserved[6];
};

/* Describes a gradient; travels in its header. */
struct ol_push_info {
	uint64_t base_version; /* of the weights it was computed at, as ol_weights() returned it */
	float loss; /* mean over its samples */
	uint32_t samples;
	/* How much the gradient counts beside others of its step: tokens, or samples, that it was
	   computed from; 1e-18 … 1e18. With SYNC a step is the mean sum(w g) / sum(w) over its
	   gradients, or sum(w g) where the job's rule sums. If all weights are equal, the mean is
	   bit for bit that of no weights. A step of one gradient is that gradient, times its weight
	   only where the rule sums: so it is with ASYNC and SSP. 0: 1 */
	float weight;
	uint32_t reserved; /* 0 */
	/* If not NULL: the versions in place of base_version, one for each shard that is pushed, in
	 * their order, as ol_shard_info() (outlast_span.h) told them when the gradient was begun. They are exact where
	 * one number is not: two pulls of spans may leave the same base_version, and other shards.
	 * They never age. Read in the call only. */
	const uint64_t *base_versions;
	/* The version that the job ends with: a server that has it makes no step of this gradient, and
	   drops it as late. So gradients too late for the last step make no other. 0: no end */
	uint64_t last_version;
};

/*
 * ol_grad_acquire -- borrow a gradient buffer of param_count floats; waits until one is free
 *
 * The buffer holds old data: write all of it. It is aligned to at least 64 bytes.
 *
 * If only newer weights free a buffer, this call pulls: ol_weights() changes, and base versions age
 * as with any pull. So call ol_weights() after it, and borrow one buffer at a time. ol_push() takes
 * a buffer from this call without -EAGAIN or -ENOBUFS, unless another buffer is pushed first.
 *
 * With OL_OUTAGE_WAIT and OL_OUTAGE_CONTINUE a pushed gradient keeps its buffer until a pull has
 * brought weights that contain it: if the server dies before, the gradient is pushed again.
 *
 * A push that has ended with OL_E_LATE or OL_E_LOST keeps its buffer while a server still holds its
 * part of it for other workers. If such pushes hold all buffers and the caller waits for no other
 * push, this call withdraws them (ol_withdraw()): otherwise workers could wait for each other. With
 * OL_OUTAGE_CONTINUE it lends one more buffer instead.
 *
 * With SYNC and OL_OUTAGE_CONTINUE, while every server holds a gradient that an outage left behind,
 * this call waits for a step, and pulls.
 *
 * Blocks:    until a buffer is free, or op_timeout_ms
 * Errors:    -ETIMEDOUT (a pull may still be in flight: ol_weights() then changes in a later call),
 *            -EBUSY (the caller holds all buffers; with CONTINUE all but one), OL_E_TORN, -EPERM
 *            (an observer), OL_E_NO_SERVER
 */
OL_API int ol_grad_acquire(struct ol_worker *worker, float **ret_grad);

/*
 * ol_grad_try_acquire -- as ol_grad_acquire(), without waiting or pulling
 *
 * Blocks:    never
 * Errors:    -EAGAIN (no buffer is free yet, or a step must be made first: poll, then retry),
 *            -ENOBUFS (pull first: the weights in this process lack a gradient of this worker),
 *            -EPERM, OL_E_NO_SERVER
 */
OL_API int ol_grad_try_acquire(struct ol_worker *worker, float **ret_grad);

/* ol_grad_release -- give a lent buffer back unpushed; -EINVAL (not lent), -EAGAIN (poll first) */
OL_API int ol_grad_release(struct ol_worker *worker, float *grad);

/*
 * ol_grad_ready -- a hint that the floats of a lent buffer from `first` on will not change any more
 *
 * Backpropagation finishes the last layer first. While the caller computes the rest, the library
 * sends the ready part, and the server may apply it to weights that no reader sees yet. It takes
 * effect only with ol_push(). `first` goes down from call to call. With another gradient_format than
 * FP32 nothing is sent before ol_push().
 *
 * Blocks:    never
 * Errors:    -EINVAL (not a lent buffer), OL_E_NO_SERVER
 */
OL_API int ol_grad_ready(struct ol_worker *worker, float *grad, uint64_t first);

/*
 * ol_push -- add a gradient, taking the buffer back
 *
 * With op->level OL_LEVEL_APPLIED the push is done when every shard has resolved it. Then its
 * buffer can be lent again, and version is the newest of the first shard. Its status is 0, or
 * OL_E_NONFINITE if the gradient holds a NaN or an infinity anywhere: then all shards drop it. A
 * pull that starts later sees the gradient. OL_E_LATE ends the push at once: one shard dropped and
 * counted its part. With SYNC a shard drops a gradient that was computed at weights older than the
 * step's, and the second one of a worker for a step (with OL_LATE_NEXT it holds them for later
 * steps). So a worker that pulls before each gradient meets OL_E_LATE only if steps wait for fewer
 * than all, by ol_withdraw(), after an outage that filled an OL_QUEUE_WAIT queue, or where its last
 * process has pushed already (OL_PULL_EVEN). Other shards may have applied their parts, or may hold
 * them for workers that wait for this one there; they own the buffer until they have resolved it.
 *
 * While a server is gone: with WAIT the push is done when the server is back and has applied it.
 * With CONTINUE it is done at once, with status 0 and op->local 1: the gradient is queued, or kept
 * to be pushed again, and ol_link_get_stat() counts what becomes of it. A server may come back with
 * weights older than this worker's (from a checkpoint). Then pushes in flight to it end with
 * OL_E_LOST at once; with WAIT, so do those that it had applied. Other shards may still hold them, for
 * workers that wait for this one at that server; they own the buffer until they have resolved it.
 *
 * With CONTINUE and SYNC, what an outage left behind is this worker's one gradient of a step: the
 * whole queue, summed up, with the gradient that is pushed next. A gradient that was computed
 * without it waits in the queue, and ends with op->local 1, too. So a job ends at a version, not
 * after a count of gradients.
 *
 * info->base_version is the version, as ol_weights() returned it, of the weights that the gradient
 * was computed at: those of the last pull or of the one before, or 0 before any pull. If both pulls
 * gave that version, it is taken as the last one's: info->base_versions tells them apart.
 *
 * Blocks:    never
 * Threading: the worker's thread only
 * Errors:    after each of these the buffer stays lent: -EINVAL (not a lent buffer, a version
 *            older than the last two pulls, no such op->level, an impossible weight, or a newer program's *info that
 *            holds what this library does not know), -EAGAIN (CONTINUE: a queue is full: poll, then retry),
 *            -ENOBUFS (CONTINUE: a queue is full, and only a pull makes room), -EOVERFLOW (this
 *            handle has used all 2^40 - 2 push numbers: open another); OL_E_NO_SERVER
 */
OL_API int ol_push_sized(struct ol_worker *worker, float *grad, const struct ol_push_info *info,
			 size_t info_bytes, struct ol_op *op);
static inline int ol_push(struct ol_worker *worker, float *grad, const struct ol_push_info *info,
			  struct ol_op *op)
{
	return ol_push_sized(worker, grad, info, sizeof(*info), op);
}

enum ol_pull_flags {
	OL_PULL_NEWEST = 1 << 0, /* first ask the servers for the newest version: one more round
				    trip */
	OL_PULL_FORWARD = 1 << 1, /* no weights older than those of the last pull, or than a version
				     that an observer has waited for: if a server came back with
				     such, the pull ends with OL_E_HISTORY, and ol_weights() stays */
	/* Of several shards of a synchronous job one version, that of the shard furthest behind; one
	 * more round trip. It is for a worker whose last process may have died between its pushes to
	 * two shards: then one is a step ahead. Such a worker gives it until its first push is applied.
	 * The pull waits for what this worker has on its way, but not for what an outage has queued.
	 * The gradient then completes the step, and is late where the dead one's was taken.
	 * The weights may be older than those of a pull without the flag. They are never without a
	 * gradient that this process knows as applied: where a shard would have to give such weights,
	 * or has the version no more, each is read at its newest, and the log says so.
	 * The flag does nothing while a server is gone and outage is CONTINUE. */
	OL_PULL_EVEN = 1 << 2,
};

/*
 * ol_pull -- read the weights of all shards into the local mirror
 *
 * The weights are never older than the newest version that this worker was told of (but for
 * OL_PULL_EVEN); an observer of a synchronous job gets one version of all shards, an older one if a server came back with that and
 * the others have it (three versions are kept). No server's CPU takes part. Two mirrors take turns:
 * weights from ol_weights() stay valid until the pull after the next one starts. One pull at a time.
 *
 * While a server is gone: with WAIT the pull is done when the server is back and has applied again the
 * gradients that had been applied. The pull does not wait for pushes that have ended with
 * OL_E_LATE or OL_E_LOST: it withdraws them as ol_grad_acquire() does. With CONTINUE the pull is
 * done at once, op->local is 1, and the weights of that server's shard are the last ones pulled.
 *
 * Blocks:    never
 * Errors:    -EBUSY (a pull is in flight), -EPERM (OL_OBSERVER_COUNTERS), -EINVAL (no such
 *            flag), OL_E_NO_SERVER; as status: OL_E_TORN, OL_E_HISTORY
 */
OL_API int ol_pull(struct ol_worker *worker, unsigned flags, struct ol_op *op);

/*
 * ol_newest -- the newest version that the servers are known to have, of the shard furthest behind
 *
 * Also asks them again, one-sidedly; the answer comes with a later ol_worker_poll(). A caller that
 * computes a gradient in pieces, and calls both functions between them, learns early that the
 * gradient will be late, and may start over. ol_shard_info() (outlast_span.h) has it of each shard.
 *
 * Blocks: never
 */
OL_API uint64_t ol_newest(struct ol_worker *worker);

/*
 * ol_wait_version -- wait until the servers have published `version` or a later one, of all shards
 *
 * For a reader that acts on some versions only: every hundredth, or the next one. It asks by
 * reading one line of each server's memory; no server's CPU takes part. The time between two
 * questions follows the job's steps: an eighth of the time since the last new version or of the
 * last step, whichever is longer, from 0.2 to 50 ms. So it is late by an eighth of a step at most,
 * asks about 8 times a step, and 20 times a second while no step is made. While the version is
 * several steps away, it asks as often as versions come, at least 20 times a second.
 *
 * An observer's wait never goes back: it lasts until the servers have come as far as the newest
 * version that this handle has pulled or waited for. If a server came back with older weights, and
 * the job has not come that far again by timeout_ms, it ends with OL_E_HISTORY. Such a reader waits
 * on; or it opens another handle, and begins with the weights that there are. A worker waits for
 * `version` alone, as its own gradients bring the job on.
 *
 * After it, ol_pull() with OL_PULL_NEWEST and OL_PULL_FORWARD reads that version or a later one; or
 * it ends with OL_E_HISTORY, if a server was lost in between and came back with older weights.
 *
 * Blocks:    until then, while a server is gone too (WAIT, CONTINUE), or timeout_ms; 0: for one
 *            answer, if there are servers
 * Threading: the worker's thread only
 * Returns:   0; -ETIMEDOUT (not yet), OL_E_HISTORY, OL_E_NO_SERVER, -EINVAL (no such version: it is
 *            2^56 or above)
 */
OL_API int ol_wait_version(struct ol_worker *worker, uint64_t version, uint32_t timeout_ms);

/*
 * ol_weights -- the last whole weights pulled, param_count floats; NULL before the first pull
 *
 * With local progress, during an outage: these weights, moved on by each gradient pushed since. The
 * version stays that of the pull.
 */
OL_API const float *ol_weights(const struct ol_worker *worker, uint64_t *ret_version);

/*
 * ol_applied -- number of the last push of `worker_id` that the weights of ol_weights() contain, on
 * shard `shard`; 0 if none. Each process of a worker counts its pushes from 1.
 */
OL_API uint64_t ol_applied(const struct ol_worker *worker, uint32_t shard, uint32_t worker_id);

/* ol_applied_grads -- the same as a number of gradients, of all processes of that id. One push may
 * hold many gradients that waited in a queue. */
OL_API uint64_t ol_applied_grads(const struct ol_worker *worker, uint32_t shard,
				 uint32_t worker_id);

/*
 * ol_flush -- done when every server is connected, and every gradient pushed before is resolved:
 * applied, dropped or lost
 *
 * Give lent buffers back first: a queue is sent through buffers. To free one, a flush may pull:
 * ol_weights() changes, and base versions age as with any pull. After a flush, the applied
 * gradients are in the servers' weights, and in this worker's mirror once it has pulled. A worker that
 * closes takes its mirror with it: if the servers may die, stay until another worker has pulled.
 *
 * Blocks: never. Errors: -EBUSY (one is in flight), OL_E_NO_SERVER
 */
OL_API int ol_flush(struct ol_worker *worker, struct ol_op *op);

/*
 * ol_withdraw -- this worker's pushed gradients stop waiting for gradients of other workers
 *
 * A synchronous step waits for a gradient of each worker; a staleness bound waits for the slowest
 * worker. A server that holds a gradient of this worker for either reason drops it and counts it as
 * late; with a staleness bound and several shards it takes effect, as other shards have it in force. A gradient
 * that is already part of a step takes effect. Gradients pushed afterwards are
 * held again. Steps wait for this worker as before.
 *
 * Use it at the end of a job. The workers go on until ol_newest() reports the job's last version
 * for every shard and no server is gone. A gradient that a server still holds then belongs to a
 * step that nobody needs. Call it while a push or the last ol_flush() waits, and repeat it until
 * that is done: a server that came back does not know of an earlier call.
 *
 * Blocks: never. Errors: -EPERM (an observer), OL_E_NO_SERVER
 */
OL_API int ol_withdraw(struct ol_worker *worker);

/*
 * ol_worker_redirect -- the server of a shard is at addr from now on
 *
 * The connection to the former address is fenced at once, even if the server there still answers.
 * addr is one server of the options' list: an address, or several with "|" between, all of the
 * transport that the worker has. Otherwise nothing changes, and a line in the log says why. After
 * outage_timeout_ms it is too late: OL_E_NO_SERVER, and nothing changes.
 *
 * Blocks: never. Errors: -EINVAL (shard, addr), -EPERM (OL_OUTAGE_END, a coordinator),
 * OL_E_NO_SERVER
 */
OL_API int ol_worker_redirect(struct ol_worker *worker, uint32_t shard, const char *addr);

/*
 * What became of a worker's gradients at one shard, and of its connection. Each gradient is counted
 * in one field only: pushed = applied + nonfinite + late + queue_dropped + lost + pending.
 */
struct ol_link_stat {
	uint64_t pushed;
	uint64_t applied; /* in the weights of the present server */
	uint64_t nonfinite; /* dropped by the server, as ol_push() says */
	uint64_t late;
	uint64_t queue_dropped; /* by OL_QUEUE_DROP_OLDEST */
	uint64_t lost; /* were applied, or in flight, when a server came back without them */
	uint64_t pending;
	uint64_t queued; /* of those pending: in the queue, unknown to any server */
	uint64_t queued_total; /* ever put into the queue */
	uint64_t resent; /* pushed again to a server that came back without them */
	uint64_t queue_bytes; /* memory of the queue now */
	uint64_t down_ns; /* when the last outage began, CLOCK_MONOTONIC; 0: none yet */
	uint64_t up_ns; /* when the last outage ended; 0: none has */
	uint32_t outages; /* with OL_OUTAGE_END 0, as down: the first loss ends the handle */
	uint32_t down; /* 1: an outage now */
	int reason; /* of the last outage: 0 (the server left or died) or a code */
	uint32_t epoch; /* of the server, the last known */
};

/* ol_link_get_stat -- what became of gradients and connection at a shard; -EINVAL: no such shard */
OL_API int ol_link_get_stat_sized(const struct ol_worker *worker, uint32_t shard,
				  struct ol_link_stat *ret_stat, size_t stat_bytes);
static inline int ol_link_get_stat(const struct ol_worker *worker, uint32_t shard,
				   struct ol_link_stat *ret_stat)
{
	return ol_link_get_stat_sized(worker, shard, ret_stat, sizeof(*ret_stat));
}

/* ol_link_get_times -- how long pushes and pulls took at a shard; -EINVAL: no such shard */
OL_API int ol_link_get_times_sized(const struct ol_worker *worker, uint32_t shard,
				   struct ol_link_times *ret_times, size_t times_bytes);
static inline int ol_link_get_times(const struct ol_worker *worker, uint32_t shard,
				    struct ol_link_times *ret_times)
{
	return ol_link_get_times_sized(worker, shard, ret_times, sizeof(*ret_times));
}

/* ol_worker_poll -- make progress without waiting; returns how many ops it completed */
OL_API int ol_worker_poll(struct ol_worker *worker);

/*
 * ol_worker_wait -- poll until op is done; spins first, then sleeps
 *
 * A wait that gives up detaches the op: it is done, with the status that is returned, and the
 * library does not touch it again. The work itself goes on. A push keeps its number and its buffer
 * and takes effect once; ol_link_get_stat() counts what becomes of it. A pull ends in a later call,
 * which changes ol_weights(); a pull started meanwhile begins after it. A flush is forgotten.
 *
 * An op that no call has started is not done: the wait lasts until op_timeout_ms. A signal does not
 * end a wait. A binding whose language handles signals between calls uses short ol_worker_wait_for().
 *
 * With OL_OUTAGE_CONTINUE, while no buffer is lent and the queue can be sent only after a pull,
 * this call pulls: ol_weights() changes, and base versions age as with any pull.
 *
 * Blocks:    until done, or op_timeout_ms
 * Returns:   op->status; -ETIMEDOUT if the wait gave up
 */
OL_API int ol_worker_wait(struct ol_worker *worker, struct ol_op *op);

/*
 * ol_worker_wait_for -- as ol_worker_wait(), but a wait that gives up leaves the op in flight
 *
 * For a caller that has other work to do between waits.
 *
 * Blocks:    until done, or timeout_ms
 * Returns:   op->status; -EAGAIN if it is not done yet (its memory is still lent)
 */
OL_API int ol_worker_wait_for(struct ol_worker *worker, struct ol_op *op, uint32_t timeout_ms);

/*
 * ol_stat -- read a server's counters with one RDMA read
 *
 * Blocks: for a round trip, at most op_timeout_ms; spins first, then sleeps.
 * Errors: -EINVAL (no such shard), OL_E_NO_SERVER, -ETIMEDOUT
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
