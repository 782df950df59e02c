/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * worker_internal.h -- the parts of one worker: a link to each shard's servers, gradient buffers,
 * the mirror
 *
 * Events and the time drive link.c, push.c and pull.c. Only poll.c waits, and at open open.c and
 * route.c.
 *
 *	memory                  owner                   lent to
 *	gradient buffer i       the library             the caller, acquire() to push(); then the
 *	                                                servers, until all have acknowledged slot i
 *	buffer of the queues    the library             part k of it to the server of shard k, each
 *	                                                part by itself
 *	mirror 0, 1             the library             the NIC while a pull is in flight (one of
 *	                                                them); the caller reads the other, and so
 *	                                                does a server that came back empty
 *	ack page of a link      its server writes       the library reads; a new one each connection
 */
#ifndef OL_WORKER_WORKER_INTERNAL_H
#define OL_WORKER_WORKER_INTERNAL_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/log_rate.h"
#include "base/owner.h"
#include "base/rails.h"
#include "link/dial.h"
#include "outlast.h"
#include "rdma/transport.h"
#include "replication/coord/coord.h"
#include "wire/format.h"
#include "wire/rule.h"
#include "wire/wire.h"
#include "worker/carry.h"
#include "worker/even.h"
#include "worker/times.h"

enum {
	OL_CHUNK_BYTES = 1 << 20, /* longest single write or read of a gradient or weights */
	OL_MIRRORS = 2,
	OL_ERR_MAX = 384,
	OL_SHORT_MS = 1000, /* an open fails if a server lacks memory for longer */
	/* An open fails if the id is taken, or the proof refused, for longer. A server keeps the
	 * connection of a worker that died in its handshake for connect_timeout_ms: 3 s. */
	OL_BUSY_MS = 4000,
	OL_ADDRS_MAX = 512, /* of one server: text with "|" between */
};

/* A delta: gradients of one shard that were summed up. */
struct ol_queued {
	float *sum; /* shard_len floats, and behind them room for a rule; kept for the next one */
	struct ol_push_hdr hdr; /* what it will be pushed with */
	struct ol_rule *rule; /* that it brings, if its header says so */
	uint32_t rule_serial;
};

struct ol_queue_state {
	struct ol_queued *deltas; /* a ring */
	uint32_t size;
	uint32_t head;
	uint32_t count;
};

/* The end of a connection, which concerns its whole link; link.c acts on it */
enum ol_peer_end {
	OL_PEER_GOES_ON,
	OL_PEER_LOST, /* it was live, or nearly, and broke */
	OL_PEER_FAILED /* for good */
};

/* The connection to one server of a shard. State WELCOME: the server's welcome has come, and waits
 * for the reader's welcome or for a view. */
struct ol_peer {
	struct ol_link *link;
	struct ol_rail *rail; /* that it is dialled by, or was last */
	const struct ol_rail *rail_told; /* that it was last live by; NULL: none */
	uint32_t rail_fails; /* rail.c: ends that a rail may have caused */
	enum ol_wire_role role;
	struct ol_dial dial;
	enum ol_peer_end end;
	int end_status;
	char end_why[160]; /* empty: the status says it */
	uint64_t member; /* id of the server process that it must be; 0: any */
	uint32_t since; /* epoch of the view that gave the server its role */
	struct ol_log_rate said; /* log lines that whoever answers at its address causes */
	bool told_off; /* its welcome was refused, and the refusal was logged */
	uint64_t strangers_told; /* kinds of strangers at its address that were logged since it was
				    live, as a mask */
	char addrs[OL_ADDRS_MAX]; /* of the server, with "|" between; dial.addr is one of them */
	char refusal[OL_REJECT_TEXT_MAX]; /* why the last attempt was turned away; empty: it was
					     not, or there was no answer */
	int refusal_status;
	uint64_t short_ns; /* when the server first lacked memory for it; 0: it never did */
	uint64_t busy_ns; /* when its id, or every place, was first taken; 0: it never was */

	struct ol_xport_region *share_region; /* the mirrors, if this connection has its own */
	uint64_t incarnation; /* of the server's process */
	uint32_t epoch; /* of its welcome */
	uint64_t resolved_seq; /* newest push of this id that its welcome named */
	bool hello_due; /* accepted; the hello waits for other shards' servers (init.c) */

	bool pin_told; /* the server looks at its pin, until its next ack (struct ol_pin) */
	uint64_t heard_ns; /* first time after its last event that a wait found no event; 0: not
			    yet */
	bool probing;
};

enum ol_link_state {
	OL_LINK_DOWN, /* a server that the link needs is not connected */
	OL_LINK_LIVE, /* may push and pull */
	OL_LINK_FAILED, /* for good; status has the reason */
};

/* The servers of a shard that a worker is connected to. */
enum {
	OL_HEAD, /* takes pushes, and pulls if there is no OL_TAIL */
	OL_TAIL, /* takes pulls */
	OL_PEERS
};

enum ol_read_state {
	OL_READ_NONE, /* no read */
	OL_READ_NEWEST, /* the version line must be read, to find the newest weights */
	OL_READ_NEWEST_POSTED,
	OL_READ_KNOWN, /* an even pull: it has been read, and those of other shards have not */
	OL_READ_DATA, /* applied table and weights are being read: read_off bytes are posted */
	OL_READ_CHECK, /* all data is posted; the version line must be read again */
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
	struct ol_peer *reader; /* the peer that pulls read from */

	/* The chain, by the newest view */
	uint32_t view_epoch;
	uint32_t founded;
	uint64_t chain_history; /* versions of two histories are never compared */
	uint64_t chain_origin; /* epochs of two origins are never compared; 0: no view yet */
	bool forgotten; /* the coordinator lost this chain, and that was logged */
	bool strict; /* acknowledged means committed: no server goes back behind it */

	struct ol_geometry geo; /* param_count 0: not known yet */
	uint64_t init_said; /* by its reader's last accept, of the job's first weights … */
	bool init_known; /* … if there was one */
	bool init_told; /* that its server has no weights */
	struct ol_slab *init_slab; /* first weights of the shard, as a mirror; NULL: none */
	uint32_t epoch; /* newest known */
	uint32_t history; /* orders mirrors: (history, version). Epoch of the server that is read
			     from; in a chain the epoch of its founding, as versions do not go back
			     between views */
	uint64_t identity; /* of that history: id of the server process that began it; in a chain,
			      of its founding */
	float lr; /* of plain SGD; 0: another rule */
	bool nonfinite; /* gradients may hold a NaN or an infinity */
	uint64_t payload_bytes; /* of a gradient's part at this shard, in its format … */
	uint64_t payload_off; /* … behind those of the shards before */
	uint64_t part_bytes; /* of OL_PART_FLOATS, likewise */

	uint64_t seq; /* last used */
	struct ol_link_times times;
	struct ol_link_stat stat; /* applied: in the server's weights, as it reported */
	struct ol_queue_state queue;
	bool went_back; /* the reader's welcome was of older weights than the mirror's: gradients
			   that they lack are lost */
	uint32_t went_back_to; /* history of that welcome */
	bool mirror_gone; /* the last weights are of a history that was given up: never offered */
	uint64_t inherited_seq; /* open pushes up to here went to an earlier head; 0: none did */
	uint64_t gone_seq; /* newest push known as applied and no longer kept: the mirror has it.
			      0: none */
	uint64_t told_seq; /* newest push that the reader has named */
	uint64_t catch_up_seq; /* pushes up to here are being pushed again, and not yet resolved;
				  0: none are */
	bool reads_wait; /* one of them was applied before: weights without it must not be read */
	uint64_t version; /* newest known */
	uint32_t snapshot; /* that it lies in */
	uint64_t
		own_version; /* a gradient that was computed at older weights than this is late, by an
				 outage: see ol_outage_queues() */

	/* Serials of rules (worker->rule_serial): the newest that the server has, and that is on its
	   way or there. So one push alone brings a rule, as a repeat could undo another worker's */
	uint32_t rule_told, rule_sent;
	uint64_t rule_seq; /* the push that brought what it was told */
	bool withdrew; /* the head was told of a withdrawal, and nothing was pushed since */
	bool withdraw_due; /* the head must be told, once all earlier pushes are posted */

	/* Gradient buffers whose write is not completely posted, oldest first */
	uint32_t send_queue[OL_SLOTS_MAX];
	uint32_t send_head;
	uint32_t send_count;

	enum ol_read_state read_state;
	uint64_t read_off; /* bytes of applied table and weights posted */
	uint64_t read_version; /* that is being read */
	uint32_t read_snapshot; /* that it lies in */
	uint32_t read_retries;
	uint16_t *read_bf16; /* weights are read into here, and become floats when they are whole;
				NULL: they are read as floats */
	uint64_t read_took_ns; /* of a pull that is timed, once this shard is read */
	bool read_local; /* this shard's server is gone: the pull gives the last weights */
	bool pinned;
	bool asking; /* for ol_newest(): a read of the version line is in flight */

	struct ol_carried carried; /* where shard 0 decides the steps */
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
	uint64_t span; /* shards that were pushed */
	uint64_t open; /* not resolved: not sent, or sent and not answered */
	uint64_t acks_due; /* open ones that were sent */
	/* sent ones that have not left this process; where shard 0 decides, those that others have not said to
	   have */
	uint64_t unplaced;
	uint64_t kept; /* applied, but in no mirror of this worker yet */
	uint64_t reopened; /* open ones that were applied by a server, which then lost them */
	bool dropped; /* shard 0 decides the steps, and has dropped it … */
	uint64_t drop_due; /* … which these shards are to be told */
	bool adrift; /* a shard has dropped its part, or its server is gone: no op waits for the
			other parts */
	bool is_void; /* it holds a NaN or an infinity: all shards drop it */
	uint64_t timed; /* open ones whose time counts: from */
	uint64_t begun_ns; /* … when it was pushed; 0: none */
	uint64_t looked; /* floats from here on were checked for NaN and infinity */
	uint32_t generation; /* of its pushes: distinguishes completions of this push from those of
			      the one before */
	int status; /* worst so far */
	uint64_t version; /* newest known of the first shard of its span when that resolved it */
	/* Gradients are sent from their end to their beginning, as backpropagation makes them. */
	uint64_t left[OL_SHARDS_MAX]; /* bytes of each shard not yet posted, from its start */
	uint8_t parts[OL_SHARDS_MAX]; /* OL_BELL_PART rung since the last ack */
	uint32_t rule_serials[OL_SHARDS_MAX]; /* of the rule that the push brings */
};

struct ol_mirror {
	float *weights; /* param_count and padding */
	uint8_t *applied[OL_SHARDS_MAX];
	float *state[OL_SHARDS_MAX]; /* optimizer's; NULL: not mirrored */
	uint64_t versions[OL_SHARDS_MAX];
	uint64_t read_ns[OL_SHARDS_MAX]; /* when it was read */
	uint32_t histories[OL_SHARDS_MAX]; /* link->history at that time */
	uint64_t identities[OL_SHARDS_MAX]; /* link->identity at that time */
	uint64_t intact; /* bit i: shard i is what the four above say, and not written over */
	uint64_t version; /* of the shard furthest behind */
	bool whole;
	bool uneven; /* it was to be of one version (even.c): whole pushes are of the oldest */
};

/* After the death of a device: when another is opened */
struct ol_reopen {
	uint64_t lost_ns; /* when the last one died */
	uint64_t due_ns; /* the next attempt */
	uint64_t wait_ns; /* back-off */
	uint64_t opened_ns; /* when one was opened again; 0: never */
	bool quiet; /* the transport's log lines say nothing new */
};

/* How fast new versions come, as far as waits for one have seen */
struct ol_pace {
	uint64_t version; /* newest seen */
	uint64_t since_ns; /* when that was first seen; 0: none yet */
	uint64_t step_ns; /* a version, between the last two seen */
	uint64_t handed; /* an observer's: it was told of this version, or pulled it */
	bool told; /* the log says that a server came back with older weights */
};

/* A device that connections leave by, and what is registered there */
struct ol_rail {
	struct ol_worker *worker;
	const char *device; /* NULL: the one on the route to the server */
	struct ol_xport *xport; /* NULL: its device died, and no other is open yet (rail.c) */
	struct ol_reopen reopen;
	struct ol_dialer dialer; /* of all its connections */
	struct ol_xport_region *grad_region; /* of slabs of the worker */
	struct ol_xport_region *work_region;
	struct ol_xport_region *mirror_region;
};

struct ol_worker {
	const struct ol_xport_ops *ops;
	uint32_t rail_count;
	struct ol_rail rails[OL_RAILS_MAX];
	struct ol_rails rail_names; /* count 0: one rail, without a name */
	struct ol_xport_caps caps; /* of the first rail that was opened; inline_max: of all */
	bool caps_known;
	struct ol_inbox inbox;
	struct ol_worker_opts opts;
	char *job_key; /* own copy */
	uint32_t observer_id; /* whose key an observer has: a worker's id, or OL_NOBODY */
	char err[OL_ERR_MAX]; /* why opening failed */

	struct ol_coord *coord; /* NULL: no chains */
	uint64_t coord_generation; /* of views, as last read */
	int wake_fd; /* readable when views may have changed; -1: without coord */

	uint32_t link_count;
	struct ol_link *links;
	bool started; /* all links were live once: memory is allocated, outages are tolerated */
	struct ol_owner owner;
	uint64_t now_ns; /* as of the last poll; kept up with WAIT and CONTINUE only */

	uint64_t init; /* digest of the first weights that it has for its servers; 0: it has none */

	uint32_t tag; /* of this process, in the numbers of its pushes: wire/seq.h */
	uint32_t window;
	uint32_t slots; /* window; with CONTINUE one more, through which queues are sent */
	bool zero_copy;
	struct ol_grad grads[OL_SLOTS_MAX];
	struct ol_grad extra; /* has no slot: goes into queues when lost servers hold all slots */
	bool wants_buffer; /* the caller asked for a buffer last, and there was none */
	void *grad_range; /* zero-copy: reserved addresses */
	size_t grad_range_bytes;
	struct ol_slab *grad_slab; /* otherwise: memory of the worker's own; of a format that is not
				      fp32: the payloads [slots], each shard's behind the other's */
	uint64_t payloads_bytes; /* of a gradient, all shards */
	struct ol_slab *plain_slab; /* then: the gradient buffers [slots] … */
	float *residual; /* … and what pushed gradients lack: param_count floats; NULL: nothing */

	/* Registered: push headers [slots][links], version lines [links] of pulls and [links] of
	   ol_newest(), a board for stat, rules [slots][links] */
	struct ol_slab *work_slab;

	struct ol_slab *mirror_slab;
	struct ol_mirror mirrors[OL_MIRRORS];
	uint32_t mirror; /* the one that the caller reads, if it is whole */
	struct ol_op *pull_op; /* in flight, or NULL */
	uint64_t
		pull_span; /* shards that it reads, a bit each; of the others the last weights stay */
	int pull_status; /* of the shards that are done */
	uint64_t pull_begun_ns; /* 0: it is not timed */
	bool pull_forward; /* it must not go back: OL_PULL_FORWARD */
	enum ol_even pull_even;
	bool pull_missed; /* a shard has its version no more: all are asked again … */
	uint32_t pull_retries; /* … and have been so often */
	struct ol_op *flush_op; /* in flight, or NULL */
	struct ol_op own_pull; /* the library's: only a pull helps, or a caller's wait timed out */
	struct ol_op *next_pull; /* the caller's, which begins when own_pull has ended */
	unsigned next_pull_flags;
	uint64_t next_pull_span;
	float *local; /* local progress: weights that follow this worker's gradients */
	uint64_t
		local_moved; /* shards of it that have followed a gradient since they were pulled, a
				 bit each; 0: the mirror goes */

	struct ol_rule rule; /* that the caller wants: ol_rule_set() */
	uint32_t rule_serial; /* counts its changes; 0: none */
	uint64_t rule_bytes; /* room for one, in work_slab */

	struct ol_carry carry; /* where shard 0 decides the steps … */
	bool introduced; /* … and pushes may go there … */
	bool queues_whole; /* … and queues had room for the gradient whose parts are put there */
	uint64_t even_ns; /* when a pull asks shards that are behind again; 0: at once */
	uint64_t
		even_end_ns; /* an observer waits for a shard that is far behind until then; 0: it does not */

	struct ol_sampler push_sampler, pull_sampler;
	struct ol_pace pace;
	uint32_t stat_generation;
	bool stat_done;
	int stat_status;
	int completed; /* ops done since the last poll() returned */
};

/* ol_worker_is_mine -- the worker belongs to the calling thread: others may not even read it */
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
	OL_COOKIE_TABLE, /* arg: carry.number */
	OL_COOKIE_CARRIED, /* the same */
	OL_COOKIE_LINE, /* a shard says whether it knows shard 0 */
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

/* rail.c: the transports of all connections */
/* ol_rails_open -- 0 if one can be opened */
int ol_rails_open(struct ol_worker *worker);
/* ol_rail_lost -- poll() said that the device is dead: close the transport, and open another soon.
 * 0; or OL_E_DEVICE, while the worker is being opened */
int ol_rail_lost(struct ol_rail *rail);
/* ol_rail_lost_early -- say in err that the device died while the worker was being opened:
 * OL_E_DEVICE */
int ol_rail_lost_early(struct ol_worker *worker);
/* ol_rail_tick -- without a transport: open one when it is time */
void ol_rail_tick(struct ol_rail *rail);
/* ol_rail_choose -- the one for the next attempt; NULL: none is open */
struct ol_rail *ol_rail_choose(const struct ol_peer *peer);
/* ol_rail_on_attempt, ol_rail_on_lost, ol_rail_on_live -- an attempt has ended; a connection has
 * that was more; it is of use */
void ol_rail_on_attempt(struct ol_peer *peer, int status);
void ol_rail_on_lost(struct ol_peer *peer, int status);
void ol_rail_on_live(struct ol_peer *peer);

/* link.c: one shard, with its connections */
/* ol_links_make -- count links, which ol_link_free() frees; -ENOMEM */
int ol_links_make(struct ol_worker *worker, uint32_t count);
void ol_link_on_event(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns);
/* ol_link_tick -- connect again when it is time */
void ol_link_tick(struct ol_link *link, uint64_t now_ns);
/* ol_link_start -- knock at the server */
void ol_link_start(struct ol_peer *peer, uint64_t now_ns);
/* ol_link_watch -- look whether the servers' heartbeats go on */
void ol_link_watch(struct ol_link *link, uint64_t now_ns);
/* ol_link_act_on_ends -- handle the noted ends of its connections (enum ol_peer_end) */
void ol_link_end_noted(struct ol_link *link, uint64_t now_ns);
static inline void ol_link_act_on_ends(struct ol_link *link, uint64_t now_ns)
{
	if (link->peers[OL_HEAD].end != OL_PEER_GOES_ON ||
	    link->peers[OL_TAIL].end != OL_PEER_GOES_ON)
		ol_link_end_noted(link, now_ns);
}
/* ol_link_leave -- the server has no role in this shard any more: fence it off */
void ol_link_leave(struct ol_peer *peer, uint64_t now_ns);
/* ol_link_review_welcomes -- a view came in: accept welcomes that waited for it */
void ol_link_review_welcomes(struct ol_link *link, uint64_t now_ns);
/* ol_link_lose_rail -- its transport is about to be closed: drop what is left of connections */
void ol_link_lose_rail(struct ol_link *link, const struct ol_rail *rail, uint64_t now_ns);
/* ol_link_dial_now -- there is a transport again: knock at the servers without back-off */
void ol_link_dial_now(struct ol_link *link, uint64_t now_ns);
/* ol_link_move -- fence the server off, even if it answers, and dial its new addrs */
void ol_link_move(struct ol_link *link, uint64_t now_ns);
void ol_link_free(struct ol_link *link);

/* ol_link_learn_version -- take note of a version and its snapshot, if it is the newest */
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

/* ol_link_pushes -- pushes can be sent now */
static inline bool ol_link_pushes(const struct ol_link *link)
{
	return link->peers[OL_HEAD].dial.state == OL_DIAL_LIVE;
}

/* peer.c: one connection: its handshake, and the watch on the other end */
/* ol_peer_dialer -- set up a rail's dialer, once the transport is open */
void ol_peer_dialer(struct ol_rail *rail);
/* ol_peer_addrs -- how many addresses its server has */
uint32_t ol_peer_addrs(const struct ol_peer *peer);
/* ol_peer_start -- knock */
void ol_peer_start(struct ol_peer *peer, uint64_t now_ns);
/* ol_peer_drop -- free the connection, and fence its server out */
void ol_peer_drop(struct ol_peer *peer);
/* ol_peer_retry -- drop, and knock again after the back-off */
void ol_peer_retry(struct ol_peer *peer, uint64_t now_ns);
/* ol_peer_on_stranger -- the peer is no server of this job. proved: it has the job's key; then at
 * first open: FAILED. Else the worker tries again, as the server may come back to its address.
 * why NULL: the status's text */
void ol_peer_on_stranger(struct ol_peer *peer, int status, const char *why, bool proved,
			 uint64_t now_ns);
/* ol_peer_at_once -- knock again without back-off, unless the last attempt did so and failed */
void ol_peer_at_once(struct ol_peer *peer, uint64_t now_ns);
void ol_peer_tick(struct ol_peer *peer, uint64_t now_ns);
void ol_peer_on_up(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns);
/* ol_peer_on_down -- true: it was a step of the handshake; false: a session has ended */
bool ol_peer_on_down(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns);
/* ol_peer_break -- a post failed with an error that no retry helps: LOST, from the next poll on */
void ol_peer_break(struct ol_peer *peer, int status);
/* ol_peer_watch -- LOST if the server's heartbeat stands still */
void ol_peer_watch(struct ol_peer *peer, uint64_t now_ns);
void ol_peer_on_beat(struct ol_peer *peer, int status, uint64_t now_ns);
/* ol_peer_probe -- after a long silence: write a word to the server to see if it lives */
void ol_peer_probe(struct ol_peer *peer, uint64_t now_ns);

/* init.c: the job's first weights, of worker 0 */
/* ol_init_open -- check the first weights of the options; 0, or -EINVAL with a line in worker->err */
int ol_init_open(struct ol_worker *worker);
/* ol_init_waits -- this peer's hello is to wait: which servers have weights is not known yet */
bool ol_init_waits(const struct ol_peer *peer);
/* ol_init_fault -- why this peer's server cannot take the first weights; NULL: it can, or needs none */
const char *ol_init_fault(const struct ol_peer *peer, char *why, size_t why_bytes);
/* ol_init_offer -- keep a copy, and offer it to a server that waits for it. 0, or a code */
int ol_init_offer(struct ol_peer *peer, struct ol_hello *hello);
/* ol_init_tell -- say why the worker waits, once it has waited for a while */
void ol_init_tell(struct ol_peer *peer, uint64_t now_ns);
/* ol_init_free -- no server will want this shard's any more; it has no connection that is not live */
void ol_init_free(struct ol_link *link);
/* ol_init_on_pull -- the worker has a whole mirror */
static inline void ol_init_on_pull(struct ol_worker *worker)
{
	for (uint32_t i = 0; worker->init != 0 && i < worker->link_count; i++)
		ol_init_free(&worker->links[i]);
	worker->init = 0;
}

/* memory.c */
int ol_worker_memory_start(struct ol_worker *worker);
void ol_worker_memory_free(struct ol_worker *worker);
/* ol_worker_memory_reg -- register what is not registered, for all connections of a rail. Its device
 * is to be settled: it is named, or a connection is up */
int ol_worker_memory_reg(struct ol_rail *rail);
/* ol_worker_memory_dereg -- the transport is about to be closed; the memory stays */
void ol_worker_memory_dereg(struct ol_rail *rail);
static inline struct ol_push_hdr *ol_worker_hdr(struct ol_worker *worker, uint32_t grad,
						uint32_t link)
{
	struct ol_push_hdr *hdrs = worker->work_slab->addr;

	return &hdrs[grad * worker->link_count + link];
}
struct ol_version_line *ol_worker_line(struct ol_worker *worker, uint32_t link);
/* ol_worker_rule -- where the rule lies that the push in a slot brings to a shard */
struct ol_rule *ol_worker_rule(struct ol_worker *worker, uint32_t grad, uint32_t link);
struct ol_board *ol_worker_board(struct ol_worker *worker);
/* ol_worker_beat -- the word that a peer's heartbeat is read into */
_Atomic uint64_t *ol_worker_beat(const struct ol_peer *peer);
/* ol_worker_remap -- zero-copy: the new server's slots take the place of the old one's, contents
 * kept */
int ol_worker_remap(struct ol_link *link);
/* ol_worker_mirrored -- bytes of a shard's content that are mirrored */
uint64_t ol_worker_mirrored(const struct ol_link *link);
/* ol_worker_read -- bytes that a pull reads of a shard */
uint64_t ol_worker_read(const struct ol_link *link);
/* ol_worker_flat_bytes -- of a buffer for all parameters */
uint64_t ol_worker_flat_bytes(const struct ol_worker *worker);
/* ol_worker_finite -- floats `first` up to `end` of a gradient hold no NaN and no infinity, nor what
 * becomes one on the way */
bool ol_worker_finite(const struct ol_worker *worker, const float *grad, uint64_t first,
		      uint64_t end);
/* ol_worker_payload_off -- where the payload of a buffer's part at one shard lies in a grad_region */
uint64_t ol_worker_payload_off(const struct ol_link *link, uint32_t index);
/* ol_worker_encode -- make that payload of the buffer, in a format that is not fp32 */
void ol_worker_encode(struct ol_link *link, uint32_t index);
static inline bool ol_worker_encodes(const struct ol_worker *worker)
{
	return worker->opts.gradient_format != OL_FORMAT_FP32;
}
/* ol_worker_work_off -- offset of one of these in a work_region */
static inline uint64_t ol_worker_work_off(const struct ol_worker *worker, const void *at)
{
	return (uint64_t)((const uint8_t *)at - (const uint8_t *)worker->work_slab->addr);
}

/* push.c */
void ol_push_progress(struct ol_link *link);
void ol_push_on_placed(struct ol_link *link, uint32_t arg, int status);
void ol_push_on_ack(struct ol_peer *peer, uint32_t slot);
void ol_push_on_held(struct ol_peer *peer, uint32_t arg);
void ol_push_fail(struct ol_worker *worker, int status);
/* ol_push_detach -- the push of op goes on without op, and is counted */
void ol_push_detach(struct ol_worker *worker, const struct ol_op *op);
/* ol_push_to -- number a buffer for one server, and send it when its turn comes */
void ol_push_to(struct ol_link *link, uint32_t index, const struct ol_push_hdr *hdr);
struct ol_grad *ol_push_buffer(struct ol_worker *worker);
/* ol_push_lend -- ol_grad_try_acquire(); not paced: whether or not a step has a place for the
 * gradient */
int ol_push_lend(struct ol_worker *worker, bool paced, float **ret_grad);
/* ol_push_buffers -- 0: a buffer is free; -EAGAIN: time frees one; -ENOBUFS: only a pull does. With
 * CONTINUE one buffer is held back for an outage, so that training never waits for a buffer
 * then. */
int ol_push_buffers(const struct ol_worker *worker);
/* ol_push_window_is_held -- END and WAIT: servers hold gradients of this worker for other workers,
 * and the caller waits for none of these pushes */
bool ol_push_window_is_held(const struct ol_worker *worker);

/*
 * ol_link_readable -- pulls see every gradient that this worker knows as applied; false while such
 * ones are pushed again to a server that came back without them
 */
static inline bool ol_link_readable(const struct ol_link *link)
{
	return link->reader->dial.state == OL_DIAL_LIVE && !link->reads_wait;
}

/* ol_worker_all -- every shard, a bit each */
static inline uint64_t ol_worker_all(const struct ol_worker *worker)
{
	return UINT64_MAX >> (OL_SHARDS_MAX - worker->link_count);
}

/* ol_link_is_in -- the link's shard is one of the span */
static inline bool ol_link_is_in(const struct ol_link *link, uint64_t span)
{
	return (span >> link->index & 1) != 0;
}

/* ol_worker_queues -- gradients may wait in a queue, which is sent through a slot of its own */
static inline bool ol_worker_queues(const struct ol_worker *worker)
{
	return worker->opts.outage == OL_OUTAGE_CONTINUE && !worker->opts.observer;
}

/* ol_link_usable -- all servers of the shard are connected, and have what was pushed again to them */
static inline bool ol_link_usable(const struct ol_link *link)
{
	return link->state == OL_LINK_LIVE && link->catch_up_seq == 0;
}

/* route.c: servers by views */
/* ol_route_open -- reach the coordinator, wait for a view of every shard, make the links; addr
 * receives the address of one server */
int ol_route_open(struct ol_worker *worker, char addr[OL_ENDPOINT_MAX]);
void ol_route_close(struct ol_worker *worker);
/* ol_route_look -- connect as the newest views say; cheap when nothing has changed */
void ol_route_look(struct ol_worker *worker);
/* ol_route_woken -- take note that wake_fd was readable */
void ol_route_woken(struct ol_worker *worker);

/* rule.c: what changes the rule */
/* ol_rule_attach -- a new push brings the rule, unless the shard's server has it */
void ol_rule_attach(struct ol_link *link, struct ol_push_hdr *hdr);
/* ol_rule_place -- this rule goes with the push in slot `index` */
void ol_rule_place(struct ol_link *link, uint32_t index, const struct ol_rule *rule,
		   uint32_t serial);
/* ol_rule_post -- write it behind the header's place, before the header; 0, or the post's error */
int ol_rule_post(struct ol_link *link, uint32_t index);
/* ol_rule_resolved -- the push in slot `index`, which brings a rule, has ended */
void ol_rule_resolved(struct ol_link *link, uint32_t index, int status);
/* ol_rule_dropped -- what had the newest rule is dropped here */
void ol_rule_dropped(struct ol_link *link);
/* ol_rule_on_loss -- a server is back whose weights have pushes of this worker up to own_seq */
void ol_rule_on_loss(struct ol_link *link, uint64_t own_seq);
/* ol_rule_is_old -- a newer rule than that of a delta is there, or goes before it */
bool ol_rule_is_old(const struct ol_link *link, uint32_t serial);
/* ol_rule_follow -- a shard's local weights follow its gradient; both are the whole vector's */
void ol_rule_follow(const struct ol_link *link, float *weights, const float *grad);

/* keep.c: pushed gradients that could still be lost */
void ol_keep_resolved(struct ol_link *link, struct ol_grad *grad, int status);
void ol_keep_settle(struct ol_worker *worker, struct ol_grad *grad);
/* ol_keep_is_left -- an outage left this push behind: it was queued, or no op waits for it, or this
 * shard's server had applied and lost it */
bool ol_keep_is_left(const struct ol_link *link, const struct ol_grad *grad);
/* ol_keep_on_outage -- a server is lost: with CONTINUE its pushes end their ops */
void ol_keep_on_outage(struct ol_link *link);
/* ol_keep_on_head_down -- the connection that carried pushes is gone */
void ol_keep_on_head_down(struct ol_link *link);
/* ol_keep_on_reader_up -- the reader's weights contain these gradients: pushes that waited for that
 * are done */
void ol_keep_on_reader_up(struct ol_link *link, const struct ol_applied *resolved);
/* ol_keep_on_commit -- the tail acknowledged seq: older pushes that it did not acknowledge were
 * dropped */
void ol_keep_on_commit(struct ol_link *link, uint64_t seq);
/* ol_keep_on_head_up -- called after the reader's: the head knows all pushes up to resolved_seq;
 * later ones are pushed again. 0, or the code of why the link cannot be used */
int ol_keep_on_head_up(struct ol_link *link, uint64_t resolved_seq);
/* ol_keep_on_pull -- the mirror has new weights of the shards that were read. What the others have is
 * no news, and may be of a history that was given up: a push that was made again since is kept */
void ol_keep_on_pull(struct ol_worker *worker, uint64_t read);

/* carry.c: decisions of shard 0 about steps */
/* ol_worker_decided -- shard 0 decides the job's steps, and this worker carries its decisions */
static inline bool ol_worker_decided(const struct ol_worker *worker)
{
	return worker->links[0].geo.decided != 0 && worker->opts.observer == 0;
}

/* queue.c: gradients that wait for their server */
/* ol_queue_room -- the queue of every shard of the span takes one more delta */
bool ol_queue_room(struct ol_worker *worker, uint64_t span);
/* ol_queue_put -- put shard link->index of a gradient into the queue; false: it is full */
bool ol_queue_put(struct ol_link *link, const float *grad, const struct ol_push_hdr *hdr);
/* ol_queue_oldest -- the delta to send next, valid until the next put; the queue is not empty */
const struct ol_queued *ol_queue_oldest(const struct ol_link *link);
/* ol_queue_shift -- remove the oldest, as it was sent */
void ol_queue_shift(struct ol_link *link);
/* ol_queue_merge -- sum all deltas up in the oldest */
void ol_queue_merge(struct ol_link *link);
/* ol_queue_needs_pull -- the queue can be sent only after a pull */
bool ol_queue_needs_pull(const struct ol_worker *worker);
void ol_queue_free(struct ol_link *link);

/* outage.c: the work of an outage and of its end */
/* ol_outage_paces -- with CONTINUE and synchronous steps: a worker has one gradient in a step */
bool ol_outage_paces(const struct ol_worker *worker);
/* ol_outage_queues -- with CONTINUE: a gradient computed at this version of the shard goes into the
 * shard's queue, as its server is gone, or has no place for it in a synchronous step */
bool ol_outage_queues(const struct ol_link *link, uint64_t base_version);
/* ol_outage_is_whole -- where the parts of a gradient stay together: all servers are there. Elsewhere it is true */
bool ol_outage_is_whole(const struct ol_worker *worker);
/* ol_outage_pace -- before a buffer is lent: 0, or -EAGAIN or -ENOBUFS (pull first) while a new
 * gradient would only come into queues */
int ol_outage_pace(const struct ol_worker *worker);
/* ol_outage_on_catch_up -- a pull waits for gradients that are pushed again; withdraw those that no
 * op waits for (adrift) */
void ol_outage_on_catch_up(struct ol_worker *worker);
void ol_outage_replay(struct ol_link *link);
/* ol_outage_pull -- pull, if only a pull helps and no buffer is lent, whose weights would go */
void ol_outage_pull(struct ol_worker *worker);
void ol_outage_flush(struct ol_worker *worker);

/* span.c: which shards, and which versions of them */
/* ol_worker_span -- the shards that these floats are, a bit each; 0: they are not whole shards */
uint64_t ol_worker_span(const struct ol_worker *worker, uint64_t first, uint64_t count);
/* ol_base_find -- which weights a push of this span was computed at: the mirror that has them; NULL:
 * the push says its versions itself. False: there is no such version, or no weights of it in this
 * process */
bool ol_base_find(const struct ol_worker *worker, const struct ol_push_info *info, uint64_t span,
		  const struct ol_mirror **ret_mirror);
/* ol_base_of -- the version of the `nth` shard of the span, which is shard k of the job */
static inline uint64_t ol_base_of(const struct ol_push_info *info, const struct ol_mirror *mirror,
				  uint32_t nth, uint32_t k)
{
	if (mirror != NULL)
		return mirror->uneven ? mirror->version : mirror->versions[k];
	return info->base_versions != NULL ? info->base_versions[nth] : info->base_version;
}

/* pull.c */
void ol_pull_progress(struct ol_link *link);
/* ol_pull_read_at -- read a version from the beginning, which lies in this snapshot */
void ol_pull_read_at(struct ol_link *link, uint64_t version, uint32_t snapshot);
/* ol_pull_pin -- the version that is being read is not to be overwritten */
void ol_pull_pin(struct ol_link *link);
/* ol_pull_check -- the pull ends when every shard of its span is read or given up. So no read of an old
 * pull is in flight during a new one, except on a link that is gone */
void ol_pull_check(struct ol_worker *worker);
/* ol_line_read -- the words of a version line, each read once: published, begins, ends */
void ol_line_read(const struct ol_version_line *line, uint64_t words[1 + 2 * OL_SNAPSHOTS]);
/* ol_line_learn -- take the newest version from these words. False: they are not of one moment, and the next
 * read must not rely on them, as it would wait for ever for a version that does not exist */
bool ol_line_learn(struct ol_link *link, const uint64_t *words);
void ol_pull_on_read(struct ol_link *link, int status);
void ol_pull_on_newest(struct ol_link *link, int status);
void ol_pull_fail(struct ol_worker *worker, int status);
/* ol_pull_detach -- a pull in flight becomes the library's own; one that waits behind it is
 * cancelled */
void ol_pull_detach(struct ol_worker *worker, const struct ol_op *op);
void ol_pull_on_down(struct ol_link *link);
void ol_pull_on_up(struct ol_link *link);
/* ol_pull_on_ack -- an ack has come on this connection: its server may have stopped looking at the
 * pin */
void ol_pull_on_ack(struct ol_peer *peer);
/* ol_pull_unpin -- remove the pin of an ended pull, if that failed when the pull ended */
void ol_pull_unpin(struct ol_link *link);

/* ol_worker_now -- read the clock into worker->now_ns */
static inline uint64_t ol_worker_now(struct ol_worker *worker)
{
	worker->now_ns = ol_clock_ns();
	return worker->now_ns;
}

/* ol_op_done -- end an op; the next ol_worker_poll() counts it */
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
/* ol_worker_look -- polls that see connections that broke, too, which others may see only later; 0 or an
 * error of the transport */
int ol_worker_look(struct ol_worker *worker);

/* ol_worker_sleep -- until an event or max_ns */
int ol_worker_sleep(struct ol_worker *worker, uint64_t max_ns);

#endif /* OL_WORKER_WORKER_INTERNAL_H */
