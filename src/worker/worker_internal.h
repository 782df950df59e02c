/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * worker_internal.h -- the parts of one worker: a link to each shard's servers, gradient buffers,
 * the mirror
 *
 * Driven by events and the time (link.c, push.c, pull.c); waiting is in poll.c alone.
 *
 *	memory                  owner                   lent to
 *	gradient buffer i       the library             the caller, acquire() to push(); then the
 *	                                                servers, until all have acknowledged slot i
 *	buffer of the queues    the library             shard k of it is the server's of shard k,
 *	                                                each for itself
 *	mirror 0, 1             the library             the NIC while a pull is in flight (one of
 *	                                                them); the caller reads the other, and so
 *	                                                does a server that came back empty
 *	ack page of a link      its server writes       the library reads; a new one each connection
 */
#ifndef OL_WORKER_WORKER_INTERNAL_H
#define OL_WORKER_WORKER_INTERNAL_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/owner.h"
#include "link/dial.h"
#include "outlast.h"
#include "rdma/transport.h"
#include "replication/coord/coord.h"
#include "wire/wire.h"

enum {
	OL_CHUNK_BYTES = 1 << 20, /* longest single write or read of a gradient or weights */
	OL_MIRRORS = 2,
	OL_ERR_MAX = 384,
	OL_SHORT_MS = 1000, /* so long a server may be short of memory before an open fails */
	/* So long the id may be taken, or the proof be refused, before an open fails. A server keeps
	 * the connection of a worker that died in the handshake for connect_timeout_ms, which is 3 s.
	 */
	OL_BUSY_MS = 4000,
	OL_ADDRS_MAX = 512, /* of one server: text with "|" between */
};

/* A delta: gradients of one shard that were summed up. */
struct ol_queued {
	float *sum; /* shard_len floats; kept for the next one */
	struct ol_push_hdr hdr; /* what it will be pushed with */
};

struct ol_queue_state {
	struct ol_queued *deltas; /* a ring */
	uint32_t size;
	uint32_t head;
	uint32_t count;
};

/* What a connection has come to that is not its own affair; link.c acts on it */
enum ol_peer_end {
	OL_PEER_GOES_ON,
	OL_PEER_LOST, /* it was live, or nearly, and is no more */
	OL_PEER_FAILED /* for good */
};

/* The connection with one server of a shard. WELCOME: it has come, and waits for the reader's, or for a
 * view. */
struct ol_peer {
	struct ol_link *link;
	enum ol_wire_role role;
	struct ol_dial dial;
	enum ol_peer_end end;
	int end_status;
	char end_why[160]; /* empty: the status says it */
	uint64_t member; /* which server process it must be; 0: whichever is there */
	uint32_t since; /* epoch of the view that gave the server its part */
	bool told_off; /* its welcome was refused, and that was logged */
	uint64_t strangers_told; /* who answered in its place and was logged, since it was live */
	char addrs[OL_ADDRS_MAX]; /* of the server, with "|" between; dial.addr is one of them */
	uint64_t short_ns; /* when the server first lacked memory for it; 0: it never did */
	uint64_t busy_ns; /* when its id, or every place, first was taken; 0: it never was */

	uint64_t incarnation; /* of the server's process */
	uint32_t epoch; /* of its welcome … */
	uint64_t resolved_seq; /* … and the last push of this id that it spoke of */
	struct ol_xport_region *share_region; /* the mirrors, for the server to read */

	uint64_t heard_ns; /* first time since its last event that a wait found nothing; 0: not
			    yet */
	bool probing;
};

enum ol_link_state {
	OL_LINK_DOWN, /* a server that is needed is not there */
	OL_LINK_LIVE, /* may push and pull */
	OL_LINK_FAILED, /* status says why; nothing more will come */
};

/* The servers of a shard that a worker talks to. */
enum {
	OL_HEAD, /* pushes go there; pulls too, unless … */
	OL_TAIL, /* … they go here */
	OL_PEERS
};

enum ol_read_state {
	OL_READ_NONE, /* nothing wanted */
	OL_READ_NEWEST, /* version line wanted, to learn where the newest weights are */
	OL_READ_NEWEST_POSTED,
	OL_READ_DATA, /* applied table and weights, read_off of them posted */
	OL_READ_CHECK, /* all data posted, version line wanted */
	OL_READ_CHECK_POSTED,
	OL_READ_DONE,
};

/* One shard's side of the worker. */
struct ol_link {
	struct ol_worker *worker;
	uint32_t index; /* shard */
	enum ol_link_state state;
	int status; /* of a failed link */
	struct ol_peer peers[OL_PEERS];
	struct ol_peer *reader; /* the one of them that is read from */

	/* Of the chain, as the newest view says */
	uint32_t view_epoch;
	uint32_t founded;
	uint64_t chain_history; /* of the view: versions of two are never compared */
	uint64_t chain_origin; /* of the view: epochs of two are never compared; 0: no view yet */
	bool forgotten; /* by whoever holds the views; was told of */
	bool strict; /* what is acknowledged is committed: no server goes back behind it */

	struct ol_geometry geo; /* param_count 0: not known yet */
	uint32_t epoch; /* newest known */
	uint32_t history; /* orders mirrors: (history, version). Epoch of the server read from; of a
			     chain, of its founding: versions do not go back between views */
	uint64_t identity; /* of that history: of the server process that began it; of a chain, of
			      its founding */
	float lr; /* of plain SGD; 0: another rule */
	bool nonfinite; /* gradients may hold a NaN or an infinity */

	uint64_t seq; /* last used */
	struct ol_link_stat stat; /* applied: in the server's weights, as it said */
	struct ol_queue_state queue;
	bool went_back; /* the reader's welcome was of older weights than the mirror's: what is not
			   in them is lost */
	uint32_t went_back_to; /* history of that welcome */
	bool mirror_gone; /* the last weights are of a history that was given up: not to be
			   offered */
	uint64_t inherited_seq; /* pushes up to here that are open went to a head before this one;
				   0: there are none */
	uint64_t gone_seq; /* newest push that was told to be applied and is kept no more: the
			      mirror has it. 0: there is none */
	uint64_t told_seq; /* newest push that the reader has spoken of */
	uint64_t catch_up_seq; /* what is to be pushed again up to here is not yet resolved; 0: it
				  is */
	uint64_t version; /* newest known … */
	uint32_t snapshot; /* … and where it lies */

	bool withdrew; /* the head was told so, and nothing was pushed since … */
	bool withdraw_due; /* … or will be, once all that was pushed before is posted */

	/* Gradient buffers whose write is not yet wholly posted, oldest first */
	uint32_t send_queue[OL_SLOTS_MAX];
	uint32_t send_head;
	uint32_t send_count;

	enum ol_read_state read_state;
	uint64_t read_off; /* bytes of applied table and weights posted */
	uint64_t read_version; /* wanted … */
	uint32_t read_snapshot; /* … from here */
	uint32_t read_retries;
	bool read_local; /* this shard's server is gone: the last weights will do */
	bool pinned;
	bool asking; /* for ol_newest(): a read of the version line is under way */
};

/* A gradient buffer: slot i of every shard. */
enum ol_grad_state {
	OL_GRAD_FREE,
	OL_GRAD_LENT, /* the caller computes in it */
	OL_GRAD_PUSHED, /* waits for acks, or to be in a mirror */
};

struct ol_grad {
	enum ol_grad_state state;
	float *data;
	struct ol_op *op; /* NULL once it is done */
	/* Bit i is of shard i */
	uint64_t open; /* not resolved: not sent, or sent and not answered */
	uint64_t acks_due; /* of these, sent */
	uint64_t unplaced; /* of these, not locally complete */
	uint64_t kept; /* applied, but in no mirror of this worker yet */
	uint64_t reopened; /* of what is open, once told to be applied: by a server that lost it */
	bool adrift; /* a shard has dropped its part, or its server is gone: nobody waits for the
			rest */
	bool is_void; /* it holds a NaN or an infinity: all shards drop it */
	uint64_t looked; /* floats from here on were looked at */
	uint32_t generation; /* of its pushes: tells completions of the last one from those of
			      this */
	int status; /* worst so far */
	uint64_t version; /* newest known of the first shard when that resolved it */
	/* Gradients go out from their end to their beginning, as backpropagation makes them. */
	uint64_t left[OL_SHARDS_MAX]; /* bytes of each shard not yet posted, from its start */
	uint8_t parts[OL_SHARDS_MAX]; /* OL_BELL_PART rung since the last ack */
};

struct ol_mirror {
	float *weights; /* param_count and padding */
	uint8_t *applied[OL_SHARDS_MAX];
	float *state[OL_SHARDS_MAX]; /* optimizer's; NULL: not mirrored */
	uint64_t versions[OL_SHARDS_MAX];
	uint64_t read_ns[OL_SHARDS_MAX]; /* when it was read */
	uint32_t histories[OL_SHARDS_MAX]; /* link->history of what was read … */
	uint64_t identities[OL_SHARDS_MAX]; /* … and link->identity */
	uint64_t version; /* of the shard furthest behind */
	bool whole;
};

struct ol_worker {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_xport_caps caps;
	struct ol_inbox inbox;
	struct ol_dialer dialer; /* of all its connections */
	struct ol_worker_opts opts;
	char *job_key; /* own copy */
	char err[OL_ERR_MAX]; /* why opening failed */

	struct ol_coord *coord; /* NULL: there are no chains */
	uint64_t coord_generation; /* of views, as last looked at */
	int wake_fd; /* readable when there is more to look at; -1: without coord */

	uint32_t link_count;
	struct ol_link *links;
	bool started; /* all links were live once: memory is there, outages are lived through */
	struct ol_owner owner;
	uint64_t now_ns; /* as of the last poll; kept up with WAIT and CONTINUE only */

	uint32_t tag; /* of this process, in the numbers of its pushes: wire/seq.h */
	uint32_t window;
	uint32_t slots; /* window; with CONTINUE one more, through which queues leave */
	bool zero_copy;
	struct ol_grad grads[OL_SLOTS_MAX];
	struct ol_grad
		extra; /* of no slot: goes into queues, where servers that are gone hold all */
	void *grad_range; /* reserved addresses, zero-copy */
	size_t grad_range_bytes;
	struct ol_slab *grad_slab; /* or memory of our own */
	struct ol_xport_region *grad_region;

	/* Registered: push headers [window][links], version lines [links] of pulls and [links] of
	   ol_newest(), a board for stat */
	struct ol_slab *work_slab;
	struct ol_xport_region *work_region;

	struct ol_slab *mirror_slab;
	struct ol_xport_region *mirror_region;
	struct ol_mirror mirrors[OL_MIRRORS];
	uint32_t mirror; /* the one that the caller reads, if it is whole */
	struct ol_op *pull_op; /* in flight, or NULL */
	int pull_status; /* of the shards that are done */
	struct ol_op *flush_op; /* in flight, or NULL */
	struct ol_op own_pull; /* the library's, where only a pull helps or its caller left … */
	struct ol_op *next_pull; /* … and the caller's, which begins when that has ended … */
	unsigned next_pull_flags; /* … with these */
	float *local; /* local progress: weights that follow the own gradients … */
	bool local_valid; /* … since a server went away */

	uint32_t stat_generation;
	bool stat_done;
	int stat_status;
	int completed; /* ops done since the last poll() returned */
};

/* ol_worker_is_mine -- the calling thread opened it: any other may not even read it */
static inline bool ol_worker_is_mine(const struct ol_worker *worker)
{
	return ol_owner_is_me(&worker->owner);
}

/* What a local completion is about: the cookie of a post. */
enum ol_cookie {
	OL_COOKIE_PLACED = 1, /* arg: ol_placed_arg() */
	OL_COOKIE_READ, /* of link->read_state */
	OL_COOKIE_NEWEST, /* ol_newest() has an answer */
	OL_COOKIE_STAT, /* arg: stat_generation */
	OL_COOKIE_PROBE, /* the server is reachable */
	OL_COOKIE_BEAT, /* its heartbeat was read */
};

static inline uint64_t ol_cookie_make(enum ol_cookie kind, uint32_t arg)
{
	return (uint64_t)kind << 32 | arg;
}

/* A gradient buffer and 24 bits of its generation */
static inline uint32_t ol_placed_arg(uint32_t index, uint32_t generation)
{
	return index << 24 | (generation & 0xffffff);
}

/* link.c: what spans the connections of a shard */
/* ol_links_make -- so many, which ol_link_free() takes as they are; -ENOMEM */
int ol_links_make(struct ol_worker *worker, uint32_t count);
void ol_link_on_event(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns);
/* ol_link_tick -- connect again when it is time */
void ol_link_tick(struct ol_link *link, uint64_t now_ns);
/* ol_link_start -- knock at the server */
void ol_link_start(struct ol_peer *peer, uint64_t now_ns);
/* ol_link_watch -- look whether the servers' heartbeats go on */
void ol_link_watch(struct ol_link *link, uint64_t now_ns);
/* ol_link_act_on_ends -- do what the ends of its connections ask for */
void ol_link_act_on_ends(struct ol_link *link, uint64_t now_ns);
/* ol_link_leave -- the server has no part in this shard any more: fence it off */
void ol_link_leave(struct ol_peer *peer, uint64_t now_ns);
/* ol_link_review_welcomes -- a view came in: welcomes that waited for it may count now */
void ol_link_review_welcomes(struct ol_link *link, uint64_t now_ns);
/* ol_link_move -- let go of the server, whatever it does, and look for it at its new addrs */
void ol_link_move(struct ol_link *link, uint64_t now_ns);
void ol_link_free(struct ol_link *link);

/* ol_link_learn_version -- which version is newest, and where it lies */
static inline void ol_link_learn_version(struct ol_link *link, uint64_t version, uint32_t snapshot)
{
	if (version < link->version || snapshot >= OL_SNAPSHOTS)
		return;
	link->version = version;
	link->snapshot = snapshot;
}

static inline struct ol_peer *ol_link_head(struct ol_link *link)
{
	return &link->peers[OL_HEAD];
}

/* ol_link_pushes -- what is pushed goes out now */
static inline bool ol_link_pushes(const struct ol_link *link)
{
	return link->peers[OL_HEAD].dial.state == OL_DIAL_LIVE;
}

/* peer.c: the handshake of one connection, and whether the other end still lives */
/* ol_peer_dialer -- what its connections have in common, once there is a transport */
void ol_peer_dialer(struct ol_worker *worker);
/* ol_peer_start -- knock */
void ol_peer_start(struct ol_peer *peer, uint64_t now_ns);
/* ol_peer_drop -- free the connection, and fence its server out */
void ol_peer_drop(struct ol_peer *peer);
/* ol_peer_retry -- drop, and knock again after a while */
void ol_peer_retry(struct ol_peer *peer, uint64_t now_ns);
/* ol_peer_on_stranger -- what answers is no server of this job: FAILED at first open; later the
 * server may come back to its address, and the worker tries again. why: NULL: status's */
void ol_peer_on_stranger(struct ol_peer *peer, int status, const char *why, uint64_t now_ns);
/* ol_peer_at_once -- no while, unless that is what ended the last one before anything came of it */
void ol_peer_at_once(struct ol_peer *peer, uint64_t now_ns);
void ol_peer_tick(struct ol_peer *peer, uint64_t now_ns);
void ol_peer_on_up(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns);
/* ol_peer_on_down -- true: it was a step of the handshake; false: a session has ended */
bool ol_peer_on_down(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns);
/* ol_peer_break -- a post failed as no retry can mend: LOST, from the next poll on */
void ol_peer_break(struct ol_peer *peer, int status);
/* ol_peer_watch -- LOST if the server's heartbeat stands still */
void ol_peer_watch(struct ol_peer *peer, uint64_t now_ns);
void ol_peer_on_beat(struct ol_peer *peer, int status, uint64_t now_ns);
/* ol_peer_probe -- nothing was heard for long: see whether the server is still there */
void ol_peer_probe(struct ol_peer *peer, uint64_t now_ns);

/* memory.c */
int ol_worker_memory_start(struct ol_worker *worker);
void ol_worker_memory_free(struct ol_worker *worker);
struct ol_push_hdr *ol_worker_hdr(struct ol_worker *worker, uint32_t grad, uint32_t link);
struct ol_version_line *ol_worker_line(struct ol_worker *worker, uint32_t link);
struct ol_board *ol_worker_board(struct ol_worker *worker);
/* ol_worker_beat -- where a peer's heartbeat is read to */
_Atomic uint64_t *ol_worker_beat(const struct ol_peer *peer);
/* ol_worker_remap -- zero-copy: the new server's slots take the place of the old one's, contents
 * kept */
int ol_worker_remap(struct ol_link *link);
/* ol_worker_mirrored -- bytes of a shard's content that are mirrored */
uint64_t ol_worker_mirrored(const struct ol_link *link);
/* ol_worker_flat_bytes -- of a buffer for all parameters */
uint64_t ol_worker_flat_bytes(const struct ol_worker *worker);
/* ol_worker_finite -- floats `first` up to `end` of a gradient hold no NaN and no infinity */
bool ol_worker_finite(const float *grad, uint64_t first, uint64_t end);
/* ol_worker_work_off -- where such a thing lies in work_region */
uint64_t ol_worker_work_off(const struct ol_worker *worker, const void *at);

/* push.c */
void ol_push_progress(struct ol_link *link);
void ol_push_on_placed(struct ol_link *link, uint32_t arg, int status);
void ol_push_on_ack(struct ol_peer *peer, uint32_t slot);
void ol_push_fail(struct ol_worker *worker, int status);
/* ol_push_detach -- a push that ends with op ends without it, and is counted */
void ol_push_detach(struct ol_worker *worker, const struct ol_op *op);
/* ol_push_to -- number a buffer for one server, and send it when its turn comes */
void ol_push_to(struct ol_link *link, uint32_t index, const struct ol_push_hdr *hdr);
struct ol_grad *ol_push_buffer(struct ol_worker *worker);
/* ol_push_buffers -- 0: one can be taken; else whether time gives one (-EAGAIN) or a pull alone
 * (-ENOBUFS). With CONTINUE one is held back for the time of an outage, so that training never
 * waits for a buffer then. */
int ol_push_buffers(const struct ol_worker *worker);
/* ol_push_window_is_held -- END and WAIT: servers hold gradients of this worker for other workers, and its
 * caller waits for none of them */
bool ol_push_window_is_held(const struct ol_worker *worker);

/*
 * ol_link_readable -- pulls see all that this worker was told is applied: not while what was pushed
 * again to a server that came back without it is on its way
 */
static inline bool ol_link_readable(const struct ol_link *link)
{
	return link->reader->dial.state == OL_DIAL_LIVE && link->catch_up_seq == 0;
}

/* ol_worker_queues -- gradients may wait in a queue, and leave through a slot of its own */
static inline bool ol_worker_queues(const struct ol_worker *worker)
{
	return worker->opts.outage == OL_OUTAGE_CONTINUE && !worker->opts.observer;
}

/* ol_link_usable -- and nobody is gone */
static inline bool ol_link_usable(const struct ol_link *link)
{
	return link->state == OL_LINK_LIVE && link->catch_up_seq == 0;
}

/* route.c: servers by views */
/* ol_route_open -- reach the coordinator, wait for a view of every shard, make the links; addr: of
 * one of the servers */
int ol_route_open(struct ol_worker *worker, char addr[OL_ENDPOINT_MAX]);
void ol_route_close(struct ol_worker *worker);
/* ol_route_look -- connect as the newest views say; cheap when nothing has changed */
void ol_route_look(struct ol_worker *worker);
/* ol_route_woken -- take note that wake_fd was readable */
void ol_route_woken(struct ol_worker *worker);

/* keep.c: what was pushed and could be lost */
void ol_keep_resolved(struct ol_link *link, struct ol_grad *grad, int status);
void ol_keep_settle(struct ol_worker *worker, struct ol_grad *grad);
/* ol_keep_on_outage -- a server is gone: with CONTINUE nobody waits for what is with it */
void ol_keep_on_outage(struct ol_link *link);
/* ol_keep_on_head_down -- the connection that pushes took is gone */
void ol_keep_on_head_down(struct ol_link *link);
/* ol_keep_on_reader_up -- the weights that are read contain this: what was waiting for it is
 * done */
void ol_keep_on_reader_up(struct ol_link *link, const struct ol_applied *resolved);
/* ol_keep_on_commit -- the tail acknowledged seq: older ones that it knows nothing of are
 * dropped */
void ol_keep_on_commit(struct ol_link *link, uint64_t seq);
/* ol_keep_on_head_up -- after the reader: the head knows all pushes up to this one; the rest is
 * pushed again. 0, or why the link cannot be used */
int ol_keep_on_head_up(struct ol_link *link, uint64_t resolved_seq);
void ol_keep_on_pull(struct ol_worker *worker);

/* queue.c: gradients that wait for their server */
/* ol_queue_room -- every shard's queue takes one more delta */
bool ol_queue_room(struct ol_worker *worker);
/* ol_queue_put -- true: shard link->index of a gradient is in the queue now */
bool ol_queue_put(struct ol_link *link, const float *grad, const struct ol_push_hdr *hdr);
/* ol_queue_oldest -- what leaves next, as long as nothing is put; there is one */
const struct ol_queued *ol_queue_oldest(const struct ol_link *link);
/* ol_queue_shift -- it has left */
void ol_queue_shift(struct ol_link *link);
/* ol_queue_needs_pull -- what is queued leaves only behind a pull */
bool ol_queue_needs_pull(const struct ol_worker *worker);
void ol_queue_free(struct ol_link *link);

/* outage.c: what only an outage, or its end, makes necessary */
/* ol_outage_on_catch_up -- a pull waits for what is pushed again to a server that came back without
 * it: where that is adrift, it is withdrawn */
void ol_outage_on_catch_up(struct ol_worker *worker);
void ol_outage_replay(struct ol_link *link);
/* ol_outage_pull -- pull, if that alone helps and no caller computes at weights that would go */
void ol_outage_pull(struct ol_worker *worker);
void ol_outage_flush(struct ol_worker *worker);

/* pull.c */
void ol_pull_progress(struct ol_link *link);
void ol_pull_on_read(struct ol_link *link, int status);
void ol_pull_on_newest(struct ol_link *link, int status);
void ol_pull_fail(struct ol_worker *worker, int status);
/* ol_pull_detach -- a pull that is under way becomes the library's; one that would follow is off */
void ol_pull_detach(struct ol_worker *worker, const struct ol_op *op);
void ol_pull_on_down(struct ol_link *link);
void ol_pull_on_up(struct ol_link *link);
/* ol_pull_unpin -- take away the pin of a pull that has ended, if it could not be done then */
void ol_pull_unpin(struct ol_link *link);

/* ol_applied_of -- a worker's entry of a mirror's table */
static inline struct ol_applied ol_applied_of(const uint8_t *table, uint32_t worker_id)
{
	const void *entries = table + sizeof(struct ol_snapshot_head);

	return ((const struct ol_applied *)entries)[worker_id];
}

/* ol_worker_now -- the time */
static inline uint64_t ol_worker_now(struct ol_worker *worker)
{
	worker->now_ns = ol_clock_ns();
	return worker->now_ns;
}

/* ol_op_done -- the caller's poll counts it */
static inline void ol_op_done(struct ol_worker *worker, struct ol_op *op, int status,
			      uint64_t version)
{
	op->status = status;
	op->version = version;
	op->done = 1;
	if (op != &worker->own_pull)
		worker->completed++;
}

/* poll.c */
/* ol_worker_sleep -- until an event or max_ns */
int ol_worker_sleep(struct ol_worker *worker, uint64_t max_ns);

#endif /* OL_WORKER_WORKER_INTERNAL_H */
