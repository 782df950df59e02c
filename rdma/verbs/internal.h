/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * internal.h -- the objects of the verbs transport, and the functions that its files share
 *
 * OWNERSHIP. The transport owns a device context (so it alone gets its async events) and its queues.
 * A connection owns its rdma_cm id or its socket, its queue pair and, on the accepting side, a
 * protection domain.
 * Queue pairs are not made by rdma_create_qp(), so that this code sets every timer and access flag
 * from the first state on.
 *
 * COMPLETIONS pass through wcs of their queue, from where poll() hands them out one by one. Freeing a
 * connection moves the completion queue into wcs, once before its queue pair is destroyed and once
 * after that, and drops that pair's completions: a later queue pair with the same number never gets
 * them, and its receives are counted (receives.c).
 *
 * WHAT A DEVICE LACKS is made up for here, so that no caller needs a second path (struct
 * ol_verbs_lacks): pieces.c for posts, receives.c for doorbells.
 */
#ifndef OL_RDMA_VERBS_INTERNAL_H
#define OL_RDMA_VERBS_INTERNAL_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma/rate.h"
#include "rdma/transport.h"
#include "rdma/verbs/addr.h"
#include "rdma/verbs/qpmap.h"
#include "rdma/verbs/timing.h"

#define ol_verbs_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define ol_verbs_container_of_const(ptr, type, member) \
	((const type *)((const char *)(ptr)-offsetof(type, member)))

enum {
	OL_VERBS_POLL_BATCH = 16, /* completions taken from the queue at once */
	OL_VERBS_LOOK_SHIFT_MAX = 10, /* 2^this polls between two looks at the file descriptors */
	OL_VERBS_HELD_MAX = 8, /* posts in one list: see OL_XPORT_MORE */
	OL_VERBS_PRIV_EVENTS = 8, /* connection events with private data a poll */
	OL_VERBS_PRIV_MAX = 256,
	/* Where the transport's own byte is; what is sent is padded up to it. */
	OL_VERBS_PRIV_CONNECT_AT = OL_XPORT_PRIV_CONNECT_MAX, /* enum ol_verbs_way */
	OL_VERBS_PRIV_REJECT_AT = OL_XPORT_PRIV_REJECT_MAX, /* enum ol_verbs_refusal */
	OL_VERBS_CM_EVENTS = OL_VERBS_PRIV_EVENTS, /* of the connection manager, handled a poll */
	OL_VERBS_SIGNALS = 8, /* posts in inflight_max that the transport itself signals */
	OL_VERBS_RECV_BATCH = 32, /* receives posted back at once */
	OL_VERBS_INLINE_FLOOR = 256, /* caps.inline_max at least: the device, or a copy, takes it */
	OL_VERBS_BOUNCES = 64, /* copies of a connection that may be in flight */
	OL_VERBS_PIECES_MAX = OL_XPORT_SEGS_MAX + 1, /* requests that one post may take */
	OL_VERBS_BELL_BYTES = 4, /* of a doorbell that is sent */
	OL_VERBS_MARKERS = 2, /* requests of the transport's own: see OL_VERBS_WR_SEQ_LEFT */
	OL_VERBS_READS_MAX = 16, /* reads in flight at the adapter, a connection */
	OL_VERBS_HOLD_MS = 100, /* see enum ol_verbs_cause */
	OL_VERBS_VICTIM_MS = 2000, /* the same of the side that refused */
	OL_VERBS_GOODBYE_MS = 500, /* at most this long for a disconnect's posts; for its answer */
	OL_VERBS_DRAIN_MS = 1000, /* flushed completions are waited for at most this long */
	OL_VERBS_CLOSE_MS = 10, /* the same when the queue pair is destroyed, in one go */
	OL_VERBS_LAST_WQE_MISSES = 3, /* then the device is taken not to tell */
	OL_VERBS_BACKLOG = 128,
	OL_VERBS_LET_GO_MS = 10000, /* for so long a dead device is looked after */
	OL_VERBS_VENDOR_RXE = 0xffffff, /* rdma_rxe's vendor_id */
	OL_VERBS_VENDOR_SIW = 0x626d74, /* siw's */
};

/*
 * wr_id of sends: slot << 48 | sequence. Two markers: LEFT completes once the peer has what was
 * posted before a disconnect (on iWARP: once that has left), MARKER ends a drain. wr_id of receives: RECV and, if a
 * queue pair has its own, which of its bells; the queue pair's number tells the connection.
 */
#define OL_VERBS_WR_SLOT_SHIFT 48
#define OL_VERBS_WR_SEQ_MASK   ((UINT64_C(1) << OL_VERBS_WR_SLOT_SHIFT) - 1)
#define OL_VERBS_WR_SEQ_MARKER OL_VERBS_WR_SEQ_MASK
#define OL_VERBS_WR_SEQ_LEFT   (OL_VERBS_WR_SEQ_MASK - 1)
#define OL_VERBS_WR_RECV       (UINT64_C(0xffff) << OL_VERBS_WR_SLOT_SHIFT)
enum {
	OL_VERBS_CONNS_LIMIT = 65535 /* slots that a wr_id can name, without that of RECV */
};

static inline bool ol_verbs_wr_is_recv(uint64_t wr_id)
{
	return wr_id >= OL_VERBS_WR_RECV;
}

enum ol_verbs_state {
	OL_VERBS_CONNECTING, /* connect(): any step before the peer's answer */
	OL_VERBS_REQUESTED, /* a peer connects; the caller must accept() or reject() */
	OL_VERBS_ACCEPTED, /* accept() was called; the peer has not confirmed it */
	OL_VERBS_UP, /* posts are allowed */
	OL_VERBS_DRAINING, /* leaving, or queue pair in error; its last completions have not come */
	OL_VERBS_DOWN, /* CONN_DOWN is delivered, or waits to be */
};

/*
 * Why a connection that was up breaks. A killed process and a refused access look alike at first:
 * the kernel takes the dead process's regions away, then sends its disconnect. So the side whose
 * access was refused waits OL_VERBS_HOLD_MS for a disconnect before it sends its own. A disconnect
 * within that time means that the peer died. The side that refused waits OL_VERBS_VICTIM_MS: a
 * peer that has no processor for so long must not take a refusal for a death.
 */
enum ol_verbs_cause {
	OL_VERBS_CAUSE_LOCAL, /* disconnect() */
	OL_VERBS_CAUSE_PEER, /* the peer's disconnect arrived */
	OL_VERBS_CAUSE_FAILED, /* silence, or an error of this side */
	OL_VERBS_CAUSE_REFUSED, /* the peer refused an access, or posts were flushed for no known
				   reason */
	OL_VERBS_CAUSE_VICTIM, /* the adapter refused the peer's access */
};

/* How a connecting end rings, and wants to be rung: both ends of a connection do it in one way. */
enum ol_verbs_way {
	OL_VERBS_WAY_IMM = 0,
	OL_VERBS_WAY_SEND = 1, /* see pieces.c */
};

/* Why the transport refuses a request, without asking its caller */
enum ol_verbs_refusal {
	OL_VERBS_REFUSAL_NONE = 0, /* it is the caller's, with the caller's private data */
	OL_VERBS_REFUSAL_FULL, /* conns_max, or no memory */
	OL_VERBS_REFUSAL_WAY, /* this end rings in another way */
	OL_VERBS_REFUSAL_PATH, /* no address of this end's port goes with the peer's: oob.c */
};

struct ol_verbs_conn;

/*
 * Who brings two ends together: rdma_cm (cm.c), or a TCP connection beside the fabric (oob.c). A
 * connection's address chooses one of them for its life. Both report through conn.c.
 */
struct ol_verbs_manager {
	/* Begin to connect; conn->priv is sent. 0 or -errno: it ends at once */
	int (*connect)(struct ol_verbs_conn *conn, union ol_verbs_addr *to);
	int (*accept)(struct ol_verbs_conn *conn, const void *priv, uint32_t priv_len);
	/* The accepting end, which has a queue pair; all 0: see struct ol_xport_ident */
	int (*acceptor)(const struct ol_verbs_conn *conn, struct ol_xport_ident *ret_ident);
	void (*reject)(struct ol_verbs_conn *conn, const void *priv, uint32_t priv_len);
	void (*disconnect)(struct ol_verbs_conn *conn); /* once; the peer may have done it before */
	/* The attributes with which a queue pair goes to state, as far as path and peer give them */
	int (*attr)(struct ol_verbs_conn *conn, enum ibv_qp_state state, struct ibv_qp_attr *attr,
		    int *mask);
	/* How it went to get ready to receive, which reaches for the peer; returns the code to give
	 * on. NULL: as it is */
	int (*tried)(struct ol_verbs_conn *conn, int rc, uint64_t took_ns);
	void (*ece_tell)(struct ol_verbs_conn *conn, const struct ibv_ece *ece);
	bool (*ece_told)(struct ol_verbs_conn *conn, struct ibv_ece *ece); /* what the peer said */
	/* Data came before the peer's last word: it is connected */
	void (*data_came)(struct ol_verbs_conn *conn);
	void (*free)(struct ol_verbs_conn *conn);
};

enum ol_verbs_pending {
	OL_VERBS_PENDING_REQUEST = 1 << 0,
	OL_VERBS_PENDING_UP = 1 << 1,
	OL_VERBS_PENDING_DOWN = 1 << 2,
};

/* One request that may be unfinished. */
struct ol_verbs_op {
	uint64_t cookie;
	uint32_t bounce_head; /* of its connection, after it */
	bool signaled; /* by the caller's wish, not by ours */
	uint8_t rest; /* requests of the same post that follow it */
	uint8_t opcode; /* enum ibv_wr_opcode: a bad completion does not tell it */
};

/* A request that was not yet handed to the adapter */
struct ol_verbs_held {
	struct ibv_send_wr wr;
	struct ibv_sge sges[OL_XPORT_SEGS_MAX];
	uint32_t bell; /* what a sent doorbell carries */
};

/*
 * Memory of one connection that this transport needs where the device lacks something. Registered
 * in the connection's domain, for this end alone.
 */
struct ol_verbs_own {
	uint8_t *memory; /* NULL: nothing is needed */
	size_t bytes;
	struct ibv_mr *mr;
	uint8_t *bounces; /* OL_VERBS_BOUNCES copies of OL_VERBS_INLINE_FLOOR bytes */
	uint32_t *bells; /* recv_depth of them: where sent doorbells land; NULL: none are sent */
};

struct ol_verbs_conn {
	struct ol_xport_conn base;
	enum ol_verbs_state state;
	/* data path */
	struct ibv_qp *qp;
	struct ol_verbs_op *ops; /* ring of ops_mask + 1; sequence & mask */
	uint64_t head; /* sequence of the next post */
	uint64_t tail; /* all before it are finished */
	uint32_t ops_mask;
	uint32_t unsignaled; /* posts since the last one that completes visibly */
	uint32_t slot; /* index in xport->slots */
	uint32_t domain; /* index of the protection domain: 0 the common one, else slot + 1 */
	uint32_t held_count;
	uint32_t bounce_head; /* copies ever made */
	uint32_t bounce_tail; /* all before it are free again */
	uint32_t bounce_seen; /* bounce_head at the last post that completes visibly */
	uint32_t recv_missing; /* receives of its own that are used up and not posted back */
	uint32_t recv_next; /* the bell of its next receive, counted on */
	bool in_holders; /* poll() must look at held */
	struct ol_verbs_conn *holders_next;
	struct ol_verbs_queue *queue; /* while it has a queue pair */
	struct ol_verbs_own own;
	/* the last held_count before head; a post more fits in any case */
	struct ol_verbs_held held[OL_VERBS_HELD_MAX + OL_VERBS_PIECES_MAX - 1];
	/* control path */
	const struct ol_verbs_manager *manager;
	struct ol_xport_seal seal; /* of what connect() sends; make NULL: none */
	struct ol_xport_ident ident;
	struct rdma_cm_id *id; /* cm.c's */
	struct ol_verbs_oob_end *oob; /* oob.c's */
	struct ibv_pd *pd; /* own; NULL: the common one */
	struct ol_verbs_conn *ready_next;
	uint64_t timer_ns; /* 0: none */
	int status; /* of CONN_DOWN */
	enum ol_verbs_cause cause; /* once DRAINING */
	unsigned pending; /* enum ol_verbs_pending */
	bool in_ready;
	bool passive;
	bool holding; /* the disconnect is held back: see enum ol_verbs_cause */
	bool leaving; /* it is held back until the peer has all posts, and the queue pair works */
	bool receives; /* the queue pair may take receives of the shared queue */
	bool stopped; /* its completions are on their way, the marker last */
	bool marker_done;
	bool last_wqe; /* it takes no receive any more: see receives.c */
	bool bad_said; /* the first bad completion was logged */
	bool cm_done; /* no event of the connection manager is awaited any more */
	bool guessed; /* its status is a guess, which a failed post corrects */
	bool disconnect_sent;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint32_t send_len; /* of priv, as long as it is to be sent */
	uint32_t priv_len; /* received */
	uint8_t priv[OL_VERBS_PRIV_MAX];
	char peer[OL_XPORT_ADDR_MAX]; /* for people */
};

/* The memory of a registration, named as posts and peers name it. */
struct ol_verbs_span {
	uint64_t iova; /* of its first byte: the address; of a dma-buf: the offset in it */
	size_t bytes;
	int dmabuf; /* the descriptor; -1: memory of this process */
};

/* This transport's definition of the opaque type; so is struct ol_xport. */
struct ol_xport_region {
	struct ol_xport *xport;
	struct ol_xport_region *next;
	struct ol_xport_region **prev_next;
	struct ol_verbs_conn *conn; /* NULL with common false: its connection is gone */
	bool common; /* for every connection: one registration a protection domain */
	unsigned access; /* enum ibv_access_flags */
	struct ol_verbs_span span;
	size_t inline_bytes; /* as span.bytes for posts that the processor copies; foreign: none */
	struct ibv_mr **mrs; /* common: by domain index, conns_max + 1 of them */
	struct ibv_mr *mr; /* not common; NULL once the connection is gone */
};

/* A registration of a region for every connection, in one connection's domain. */
struct ol_verbs_common {
	struct ol_xport_region *region;
	struct ibv_mr *mr;
};

/*
 * Registrations that enter or leave a domain. Between reg_begin() and reg_end() no other object
 * refers to them.
 */
struct ol_xport_later {
	struct ol_xport *xport;
	struct ibv_pd *pd; /* own; NULL: the common one */
	struct ibv_mr *mr; /* of the region itself */
	struct ol_verbs_span span;
	unsigned access; /* enum ol_xport_access */
	bool own_domain; /* to be made */
	uint32_t common_count;
	struct ol_verbs_common commons[]; /* for every connection, registered in pd */
};

/*
 * A completion queue and a shared receive queue, for conns_each connections. A device bounds their
 * depth, so a transport opens as many as its connections need.
 */
struct ol_verbs_queue {
	struct ibv_cq *cq;
	struct ibv_srq *srq; /* NULL: each queue pair has receives of its own */
	struct ibv_wc *wcs; /* completions not handed out yet: [wc_head, wc_count) */
	uint32_t wc_head;
	uint32_t wc_count;
	uint32_t conns; /* that use it */
	uint32_t recv_missing; /* receives used up and not posted back */
	uint32_t recv_lent; /* receives posted beyond recv_depth: see receives.c */
	uint64_t recv_since; /* receives posted since the shared queue's limit was set */
	unsigned acks; /* completion channel events not acknowledged yet */
	bool limit_due; /* few receives are left in the shared queue: poll() looks at it */
	bool notify_on; /* the completion channel will get an event, or has an unread one */
};

/* Log lines that peers can cause, by kind: rdma/rate.h */
enum ol_verbs_rate {
	OL_VERBS_RATE_ROOM, /* the device has no object left for a connection */
	OL_VERBS_RATE_DEVICE, /* a request came by another device */
	OL_VERBS_RATE_RECEIVES, /* connections that ended had receives of the shared queue */
	OL_VERBS_RATES
};

/* What the device does not do, so that it is done here; found out when the device is opened. */
struct ol_verbs_lacks {
	bool srq; /* no shared receive queue: each queue pair gets its own receives */
	bool imm; /* no write with immediate: a doorbell is a write, then a send of four bytes */
	bool gather; /* one segment a request: a post of two is two requests */
	bool scatter; /* the same of reads; an iWARP read has one target */
	bool late_posts; /* a queue pair in the error state takes no post: the marker goes before */
	uint32_t inline_granted; /* bytes that it copies at once; what is more is copied here */
};

struct ol_xport {
	/* data path */
	struct ol_verbs_queue *queues; /* queues_max of them, the first queue_count open */
	uint32_t queue_count;
	uint32_t queue_at; /* where poll() goes on */
	uint32_t recv_batch;
	struct ibv_recv_wr *recv_wrs; /* recv_batch of them, chained */
	struct ibv_sge *recv_sges; /* of these, where doorbells are sent */
	struct ol_verbs_conn **slots; /* conns_max */
	struct ol_verbs_conn *ready; /* those with pending events, in order */
	struct ol_verbs_conn **ready_tail;
	struct ol_verbs_conn *holders; /* those that may have posts held back */
	uint32_t polls_left; /* until the file descriptors are looked at */
	uint32_t look_shift; /* 2^this from look to look: see pace_adapt() */
	uint64_t look_ns; /* when they were looked at last */
	uint64_t there_ns; /* when to look whether the device is still there */
	uint64_t there_ino; /* of its place in the kernel's list when it was opened; 0: not known */
	uint32_t timer_count; /* connections with a timer */
	bool look; /* look at the file descriptors on the next poll */
	bool gave; /* the last poll returned events */
	struct ol_verbs_qpmap qpmap;
	struct ol_xport_caps caps;
	struct ol_verbs_lacks lacks;
	struct ol_xport_counts counts;
	uint32_t signal_every; /* requests */
	uint32_t pieces_max; /* requests that one post may take on this device */
	unsigned fence_flags; /* of a read that starts after earlier ones */
	/* Requests a connection may have: those of inflight_max posts, and finished ones that no
	 * completion has reported */
	uint32_t ring;
	/* control path */
	struct ol_xport_opts opts; /* defaults filled in; conns_max: what the device allows */
	struct ol_verbs_timing timing;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ol_verbs_oob *oob; /* NULL: no address needs it */
	struct ibv_context *ctx;
	struct ibv_comp_channel *comp;
	struct ibv_pd *pd; /* the common domain */
	struct ol_xport_region *regions;
	uint64_t told_ns; /* when a refusal was logged last */
	struct ol_xport_rate rates[OL_VERBS_RATES];
	uint32_t conns_asked; /* conns_max that the caller asked for */
	uint32_t conns_each; /* connections that one queue has room for */
	uint32_t queues_max;
	uint32_t cq_depth;
	uint32_t recv_depth; /* receives of a shared queue; without one, of a queue pair */
	uint32_t last_wqe_misses; /* queue pairs in a row whose LAST_WQE_REACHED did not come */
	uint8_t reads_in_max; /* reads that a peer may have in flight here */
	uint8_t reads_out_max;
	uint8_t port; /* of the device */
	bool relaxed; /* relaxed ordering is asked for, where a region allows it */
	bool pinned; /* the device may not change any more */
	atomic_bool dead; /* see ol_verbs_die(); reg_run() and drop() read it in another thread */
	int epoll_fd;
	int timer_fd;
	uint8_t privs[OL_VERBS_PRIV_EVENTS][OL_VERBS_PRIV_MAX]; /* of the last poll's events */
};

static inline struct ol_verbs_conn *ol_verbs_conn(struct ol_xport_conn *base)
{
	return ol_verbs_container_of(base, struct ol_verbs_conn, base);
}

/* There the kernel moves queue pairs, and each driver rejects with an errno of its own. */
static inline bool ol_verbs_is_iwarp(const struct ol_verbs_conn *conn)
{
	return conn->base.xport->ctx->device->transport_type == IBV_TRANSPORT_IWARP;
}

static inline struct ibv_pd *ol_verbs_conn_pd(const struct ol_verbs_conn *conn)
{
	return conn->pd != NULL ? conn->pd : conn->base.xport->pd;
}

/* queues.c: the objects of one device */

/* ol_verbs_queues_watched -- open them and add them to the epoll; on failure none is open. Any
 * former ones are forgotten, not closed */
int ol_verbs_queues_watched(struct ol_xport *xport, const char *device);
/* ol_verbs_watch -- let the epoll watch fd; 0 or -errno */
int ol_verbs_watch(const struct ol_xport *xport, int fd);
/* ol_verbs_queues_close -- close those that are open */
void ol_verbs_queues_close(struct ol_xport *xport);
/* ol_verbs_device_match -- make id's device the transport's. On failure log why, and keep the
 * present device: -EADDRNOTAVAIL (another is in use), or the error of the new queues */
int ol_verbs_device_match(struct ol_xport *xport, const struct rdma_cm_id *id);
/* ol_verbs_device_find -- open device (NULL: the first with an active port); writes why if there is
 * none */
int ol_verbs_device_find(const char *device, struct ibv_context **ret_ctx, uint8_t *ret_port,
			 char *why, size_t why_bytes);
/* ol_verbs_queue_join -- a queue with room for conn, opened if need be; 0 or -errno */
int ol_verbs_queue_join(struct ol_verbs_conn *conn);
void ol_verbs_queue_leave(struct ol_verbs_conn *conn);

/* probe.c */
/* ol_verbs_probe -- what the device grants a queue pair, and what it lacks: caps and lacks. Logs why
 * it cannot */
int ol_verbs_probe(struct ol_xport *xport, uint8_t port);

/* receives.c */
int ol_verbs_recv_wrs_create(struct ol_xport *xport);
/* ol_verbs_recvs_create -- post all of a shared queue's */
int ol_verbs_recvs_create(struct ol_xport *xport, struct ol_verbs_queue *queue);
void ol_verbs_recv_refill(struct ol_xport *xport, struct ol_verbs_queue *queue);
/* ol_verbs_recv_limit -- few are left in the shared queue */
void ol_verbs_recv_limit(struct ol_xport *xport, struct ol_verbs_queue *queue);
void ol_verbs_recv_own(struct ol_verbs_conn *conn); /* post back those of its queue pair */
void ol_verbs_wcs_forget(struct ol_verbs_queue *queue, struct ol_verbs_conn *conn, uint32_t qp_num);

/* pieces.c */
int ol_verbs_own_open(struct ol_verbs_conn *conn); /* its own memory, if it needs any */
void ol_verbs_own_close(struct ol_verbs_conn *conn);
/* ol_verbs_pieces_make -- make a post's requests out of its first, in held, if the device does not
 * take that as it is. Returns how many requests the post takes, or -EAGAIN: no copy is free */
int ol_verbs_pieces_make(struct ol_verbs_conn *conn, unsigned flags, uint32_t total);

/* cm.c */
extern const struct ol_verbs_manager ol_verbs_cm;
int ol_verbs_cm_listen(struct ol_xport *xport, const char *addr, char ret_addr[OL_XPORT_ADDR_MAX]);
void ol_verbs_cm_progress(struct ol_xport *xport);

/* oob.c */
extern const struct ol_verbs_manager ol_verbs_oob;
int ol_verbs_oob_listen(struct ol_xport *xport, const char *addr, char ret_addr[OL_XPORT_ADDR_MAX]);
bool ol_verbs_oob_listens(const struct ol_xport *xport);
/* ol_verbs_oob_fd -- readable when ol_verbs_oob_progress() has work; -1: it has none */
int ol_verbs_oob_fd(const struct ol_xport *xport);
void ol_verbs_oob_progress(struct ol_xport *xport);
void ol_verbs_oob_close(struct ol_xport *xport); /* after its connections */

/* local.c: this machine's addresses */
bool ol_verbs_local_has(const union ol_verbs_addr *addr); /* an interface has it */
/*
 * ol_verbs_local_find -- an address of the device from which `to` can be reached; `to` any address of
 * a family: one at which peers can reach the device. ret_addr has port 0. -EADDRNOTAVAIL: none, and
 * the log says the remedy
 */
int ol_verbs_local_find(struct ol_xport *xport, const union ol_verbs_addr *to,
			union ol_verbs_addr *ret_addr);
/* ol_verbs_local_outward -- an address of this machine at which others reach it, of any
 * interface that is up; any: of this family. It has port 0. -EADDRNOTAVAIL: there is none */
int ol_verbs_local_outward(const union ol_verbs_addr *any, union ol_verbs_addr *ret_addr);

/* conn.c */
/* ol_verbs_log_rated -- a line that a peer can cause; ol_verbs_rates_tick -- how many had none */
void ol_verbs_log_rated(struct ol_xport *xport, enum ol_verbs_rate kind,
			enum ol_xport_log_level level, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void ol_verbs_rates_tick(struct ol_xport *xport);
/* ol_verbs_may_tell -- true once a second: strangers must not fill the log with refusals */
bool ol_verbs_may_tell(struct ol_xport *xport);
int ol_verbs_conn_create(struct ol_xport *xport, struct ol_verbs_conn **ret_conn);
int ol_verbs_listen(struct ol_xport *xport, const char *addr, char ret_addr[OL_XPORT_ADDR_MAX]);
int ol_verbs_connect(struct ol_xport *xport, const char *addr, const void *priv, uint32_t priv_len,
		     const struct ol_xport_seal *seal, struct ol_xport_conn **ret_conn);
void ol_verbs_ident(const struct ol_xport_conn *base, struct ol_xport_ident *ret_ident);
int ol_verbs_acceptor(struct ol_xport_conn *base, struct ol_xport_ident *ret_ident);
/* ol_verbs_ident_make -- an end's GID, queue pair, and LID or 0 */
void ol_verbs_ident_make(struct ol_xport_ident *ident, const uint8_t gid[16], uint32_t number,
			 uint32_t lid);
/* ol_verbs_conn_ident -- note the connecting end's (lid: where packets go by it and it is known, else
 * 0), and seal what is to be sent */
void ol_verbs_conn_ident(struct ol_verbs_conn *conn, const uint8_t gid[16], uint32_t number,
			 uint32_t lid);
/* ol_verbs_conn_priv -- what a peer sent while connecting */
void ol_verbs_conn_priv(struct ol_verbs_conn *conn, const void *priv, uint32_t priv_len);
void ol_verbs_conn_up(struct ol_verbs_conn *conn);
/* ol_verbs_conn_refused -- the transport of the peer refuses; returns CONN_DOWN's status */
int ol_verbs_conn_refused(enum ol_verbs_refusal refusal);
/* ol_verbs_way_of -- how this end rings */
uint8_t ol_verbs_way_of(const struct ol_xport *xport);
/* ol_verbs_way_is_ours -- false: the peer rings in another way; logged */
bool ol_verbs_way_is_ours(struct ol_xport *xport, uint8_t way, const struct sockaddr *peer);
int ol_verbs_accept(struct ol_xport_conn *base, const void *priv, uint32_t priv_len);
void ol_verbs_reject(struct ol_xport_conn *base, const void *priv, uint32_t priv_len);
void ol_verbs_disconnect(struct ol_xport_conn *base);
void ol_verbs_conn_free(struct ol_xport_conn *base);
void ol_verbs_conn_pend(struct ol_verbs_conn *conn, unsigned pending);
void ol_verbs_conn_timer(struct ol_verbs_conn *conn, uint32_t after_ms); /* 0: off */
void ol_verbs_conn_expired(struct ol_verbs_conn *conn);
/* ol_verbs_conn_fail -- a connection that was never up ends */
void ol_verbs_conn_fail(struct ol_verbs_conn *conn, int status);
/* ol_verbs_conn_break -- a connection that may have posts in flight ends; any state is fine */
void ol_verbs_conn_break(struct ol_verbs_conn *conn, int status, enum ol_verbs_cause cause);
/* ol_verbs_conn_bad -- log the connection's first bad completion; what: the request, or NULL. Flushes
 * are no news */
void ol_verbs_conn_bad(struct ol_verbs_conn *conn, const struct ibv_wc *wc,
		       const struct ol_verbs_op *op);
/* ol_verbs_conn_die -- its device is dead: it ends at once, whatever its state */
void ol_verbs_conn_die(struct ol_verbs_conn *conn);
void ol_verbs_conn_disconnected(struct ol_verbs_conn *conn);
void ol_verbs_conn_marker(struct ol_verbs_conn *conn);
void ol_verbs_conn_left(struct ol_verbs_conn *conn);
/* ol_verbs_held_flush -- hand the held posts to the adapter, or break the connection */
void ol_verbs_held_flush(struct ol_verbs_conn *conn);

/* qp.c: the steps of a queue pair; after a failure the caller calls ol_verbs_qp_close() */
int ol_verbs_qp_open(struct ol_verbs_conn *conn);
int ol_verbs_qp_ready(struct ol_verbs_conn *conn);
bool ol_verbs_qp_broken(struct ol_verbs_conn *conn);
bool ol_verbs_qp_leave(struct ol_verbs_conn *conn);
void ol_verbs_qp_stop(struct ol_verbs_conn *conn);
void ol_verbs_qp_close(struct ol_verbs_conn *conn);
struct rdma_conn_param ol_verbs_qp_param(const struct ol_verbs_conn *conn, const void *priv,
					 uint32_t priv_len);

/* ece.c: options that both adapters know */
void ol_verbs_ece_offer(struct ol_verbs_conn *conn); /* before connecting */
int ol_verbs_ece_take(struct ol_verbs_conn *conn); /* what the peer said; before RTR */
void ol_verbs_ece_answer(struct ol_verbs_conn *conn); /* what was agreed on; before accepting */

/* region.c */
int ol_verbs_reg(struct ol_xport *xport, struct ol_xport_conn *base, struct ol_slab *slab,
		 size_t off, size_t bytes, unsigned access, struct ol_xport_region **ret_region);
void ol_verbs_dereg(struct ol_xport_region *region);
struct ol_xport_rkey ol_verbs_rkey(const struct ol_xport_region *region,
				   const struct ol_xport_conn *base);
void ol_verbs_regions_end(struct ol_xport *xport); /* at close: those not deregistered */
/* ol_verbs_domain_open -- an accepted connection's own protection domain, if it is to have one */
int ol_verbs_domain_open(struct ol_verbs_conn *conn);
void ol_verbs_regions_leave(struct ol_verbs_conn *conn); /* conn ends: its own and its domain's */

/* ol_verbs_region_make -- an object in the transport's list, without a registration */
struct ol_xport_region *ol_verbs_region_make(struct ol_xport *xport, struct ol_verbs_conn *conn,
					     const struct ol_verbs_span *span, unsigned access);
struct ol_verbs_span ol_verbs_span_own(const void *addr, size_t bytes);
struct ol_verbs_span ol_verbs_span_of(const struct ol_slab *slab, size_t off, size_t bytes);
unsigned ol_verbs_access_flags(const struct ol_xport *xport, unsigned access);
/* access: enum ibv_access_flags */
int ol_verbs_mr_create(const struct ol_xport *xport, struct ibv_pd *pd,
		       const struct ol_verbs_span *span, unsigned access, struct ibv_mr **ret_mr);
void ol_verbs_mr_destroy(const struct ol_xport *xport, struct ibv_mr **mr);

/* later.c: the slow parts of registering and deregistering */
int ol_verbs_reg_begin(struct ol_xport *xport, unsigned access, struct ol_xport_later **ret_later);
int ol_verbs_reg_run(struct ol_xport_later *later, struct ol_slab *slab, size_t off, size_t bytes);
int ol_verbs_reg_end(struct ol_xport_later *later, struct ol_xport_conn *base,
		     struct ol_xport_region **ret_region);
struct ol_xport_later *ol_verbs_strip(struct ol_xport_conn *base, struct ol_xport_region *region,
				      int kept);
void ol_verbs_drop(struct ol_xport_later *later);

/* held.c */
/* ol_verbs_held_post -- hand the held posts to the adapter as one list. 0, or an errno: then those
 * that the adapter did not take are still held */
int ol_verbs_held_post(struct ol_verbs_conn *conn);
void ol_verbs_holders_add(struct ol_verbs_conn *conn); /* poll() will flush it */
void ol_verbs_holders_remove(struct ol_verbs_conn *conn);

/* post.c */
int ol_verbs_post_write(struct ol_xport_conn *base, const struct ol_xport_write *write);
int ol_verbs_post_read(struct ol_xport_conn *base, const struct ol_xport_read *read);

/* poll.c */
int ol_verbs_poll(struct ol_xport *xport, struct ol_xport_event *events, int max);
int ol_verbs_event_fd(const struct ol_xport *xport);
int ol_verbs_arm(struct ol_xport *xport);

/* verbs.c */
/* ol_verbs_let_go -- called by open() and connect(), as a dead device may still be held; mostly it
 * does nothing */
void ol_verbs_let_go(void);

/* async.c */
void ol_verbs_async_progress(struct ol_xport *xport);
/* ol_verbs_there_begin -- a device was opened; notes which one it is */
void ol_verbs_there_begin(struct ol_xport *xport);
/* ol_verbs_there_look -- looks now and then whether the device is still there; if not, the transport
 * dies. Called from poll(), off its fast path */
void ol_verbs_there_look(struct ol_xport *xport, uint64_t now_ns);
/* ol_verbs_die -- the device, or a queue that all connections share, is gone for good; why: in
 * words, for the log. poll() tells the caller */
void ol_verbs_die(struct ol_xport *xport, const char *why);

/* ol_verbs_dead -- no call to the device can succeed any more */
static inline bool ol_verbs_dead(const struct ol_xport *xport)
{
	return atomic_load_explicit(&xport->dead, memory_order_relaxed);
}

/* ol_verbs_undo_level -- of the log line for an object that cannot be destroyed: no fault if its
 * device is dead, as the kernel frees it */
static inline enum ol_xport_log_level ol_verbs_undo_level(const struct ol_xport *xport)
{
	return ol_verbs_dead(xport) ? OL_XPORT_LOG_DEBUG : OL_XPORT_LOG_ERROR;
}

#endif /* OL_RDMA_VERBS_INTERNAL_H */
