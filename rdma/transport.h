/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * transport.h -- what the rest of the code may assume about moving bytes
 *
 * A transport gives reliable, ordered, one-sided access to a peer's memory. It knows regions,
 * connections and completions; it does not know parameters, shards or chains.
 *
 * THE PROMISES, which tests/conformance checks on every transport:
 *
 *  1. When a doorbell rings, every write posted before it on that connection is there, whole.
 *     Before that nothing is promised: neither an order of writes (adapters that place data out of
 *     order do not keep one), nor of bytes within a write unless caps.write_in_order. Even an
 *     aligned 8-byte word that changes meanwhile may be read or written in parts (soft adapters
 *     copy bytes): a reader that needs it whole checks it. A word that is looked at without a
 *     doorbell is written by one write at a time, and its reader bears with an old value.
 *  2. A write with OL_XPORT_DOORBELL raises OL_XPORT_DOORBELL_RUNG at the peer once that write
 *     is readable there, too: one for each, in the order posted. So no code polls a payload's last
 *     byte.
 *  3. OL_XPORT_DONE frees the local buffer of a write. It does not mean that the peer's CPU can
 *     see the data: only an answer from the peer means that.
 *  4. -EAGAIN from a post is back-pressure (caps.inflight_max, a full queue) and the only
 *     retryable error; after it, poll. A post that failed has posted nothing. The other errors are
 *     -EINVAL (what the caller can know: own segments, lengths, flags) and -ENOTCONN.
 *  5. OL_XPORT_CONN_UP comes before a connection's first doorbell, and doorbells rung before a
 *     disconnect before its OL_XPORT_CONN_DOWN. After OL_XPORT_CONN_DOWN no event of that
 *     connection follows, and every signaled op has been reported once, failed or not. The
 *     connection is then freed with conn_free().
 *  6. Data-path calls never block, allocate, lock or log (on shm the first post to a region maps
 *     it). Control-path calls may do all four.
 *  7. After conn_free() and dereg() return, no write under the old key can reach memory that
 *     is still read: this is the fence. On verbs the queue pair is destroyed and the region
 *     deregistered; the slab stays usable (caps.fence_keeps). On shm a mapping cannot be revoked,
 *     so the slab must not be read again (destroy it): a late write goes to memory that is not
 *     read. A read that the peer posts later fails.
 *  8. A peer can reach only what was registered for its connection (or for every connection),
 *     only with the rights given. A violation ends that connection, with an error at the
 *     violator, and changes nothing.
 *  9. A read with OL_XPORT_AFTER_READS starts once earlier reads of the connection are done. A
 *     read may overtake the writes posted before it, until the peer has answered to them.
 * 10. A transport whose device dies is dead for good, and says so: every connection ends with
 *     OL_XPORT_CONN_DOWN, and once all of these are polled, poll() returns -ENODEV. From the death
 *     on, posts fail with -ENOTCONN, and calls that need the device with -ENODEV. conn_free(),
 *     reject(), dereg(), strip(), drop() and close() work as ever, and wait for nothing. The caller
 *     closes the transport and opens another. A device dies on verbs only: it was reset, taken away,
 *     or a queue that all connections share broke.
 *
 * Threading: a transport, its connections and its regions belong to one thread; only reg_run() and
 * drop() may be called by another.
 * A child of a fork cannot use the transports of its parent (rdma/fds.h): it opens its own.
 */
#ifndef OL_RDMA_TRANSPORT_H
#define OL_RDMA_TRANSPORT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma/slab.h"

struct ol_xport;
struct ol_xport_conn;
struct ol_xport_region;
struct ol_xport_later; /* work that takes long if memory is large: see reg_begin and strip */

enum {
	/* Bytes that travel with connecting: rdma_cm's limits, less a byte of the transport's own */
	OL_XPORT_PRIV_CONNECT_MAX = 55,
	OL_XPORT_PRIV_ACCEPT_MAX = 196,
	OL_XPORT_PRIV_REJECT_MAX = 147,
	OL_XPORT_SEGS_MAX = 2,
	OL_XPORT_ADDR_MAX = 128, /* text of an address, with its end */
};

/* What a peer needs in order to reach a region. Travels on the wire: see wire/wire.h. */
struct ol_xport_rkey {
	uint64_t addr;
	uint64_t bytes;
	uint32_t rkey;
};

/*
 * An end of a connection, as both ends see it. The connecting one: of verbs the GID that its packets
 * come from and its queue pair's number, on iWARP its IP address and port; of shm its socket's name,
 * which the kernel gives. No two connections that live have the same, and whoever connects in
 * another's place has another one. The accepting one: of verbs the GID and the queue pair that the
 * connecting end's packets go to; on iWARP and of shm all 0, as it is who was connected to.
 */
struct ol_xport_ident {
	uint8_t bytes[24];
};

/* Finishes what travels with connecting, once the connection's ident is known */
struct ol_xport_seal {
	void (*make)(void *arg, const struct ol_xport_ident *ident, void *priv, uint32_t priv_len);
	void *arg;
};

enum ol_xport_log_level {
	OL_XPORT_LOG_ERROR,
	OL_XPORT_LOG_WARN,
	OL_XPORT_LOG_INFO,
	OL_XPORT_LOG_DEBUG,
};

enum ol_xport_choice {
	OL_XPORT_AUTO, /* where it helps */
	OL_XPORT_ON,
	OL_XPORT_OFF,
};

/*
 * What verbs asks of an adapter, as the InfiniBand specification numbers it; other transports
 * ignore it. 0: chosen by the transport.
 */
struct ol_xport_wire {
	uint32_t ack_timeout; /* acknowledge timer 4.096 us * 2^this, 1 to 31 */
	uint32_t retries; /* after that timer, 1 to 6: some adapters take 7 for "for ever" */
	uint32_t rnr_timer; /* code of the receiver-not-ready timer, 1 to 31 */
	uint32_t rnr_retries; /* after that timer, 1 to 6 */
	uint32_t traffic_class; /* of RoCE: DSCP * 4 + ECN, 1 to 255; 0: the system's */
	uint32_t path_mtu; /* bytes: 256, 512, 1024, 2048 or 4096; the path's if that is less */
};

/* ol_xport_wire_fill -- what verbs takes for the timers that are 0; -EINVAL: a value is impossible */
int ol_xport_wire_fill(uint32_t retry_timeout_ms, struct ol_xport_wire *wire);

/* Set by ol_xport_opts_init(); overwrite the fields you care about. 0: the default, which the
 * comment names last. */
struct ol_xport_opts {
	const char *device; /* verbs: device name; NULL: the device that has the address */
	uint32_t inflight_max; /* ops of a connection posted and not completed, signaled or not; 256
				*/
	/*
	 * Doorbells of a connection that may be unpolled here; 64. Beyond that the peer gets
	 * -EAGAIN or waits at its adapter: the callers must agree on a bound.
	 */
	uint32_t doorbells_max;
	uint32_t conns_max; /* connections this transport will hold; 128 */
	/* Silence of a peer until its connection is down, with posts in flight; 8000. An adapter may
	 * take up to four times as long. Verbs: what follows takes its place, where it is not 0. */
	uint32_t retry_timeout_ms;
	uint32_t connect_timeout_ms; /* until a connect fails with -ETIMEDOUT; 3000 */
	int shared_domain; /* 1: one protection domain for all connections (isolation = job) */
	/* verbs: PCIe relaxed ordering for regions that allow it; AUTO: unless the device is a
	 * soft one, which has no PCIe */
	enum ol_xport_choice relaxed_ordering;
	/* caps.slab_flags; AUTO: if there are any; ON: the same, and a log line if there are none */
	enum ol_xport_choice huge_pages;
	/* Called for diagnostics, control path only; text has no newline. NULL: silence. */
	void (*log)(void *log_arg, enum ol_xport_log_level level, const char *text);
	void *log_arg;
	struct ol_xport_wire wire;
};

struct ol_xport_caps {
	uint32_t inline_max; /* bytes a post copies at once, so the buffer is free on return */
	uint32_t inflight_max;
	uint32_t
		conns_max; /* connections that it can hold, if that may be fewer than were asked for;
			       0: as many */
	uint32_t write_in_order; /* 1: bytes of one write become visible in address order */
	uint32_t fence_keeps; /* 1: a slab can still be used after its writer was fenced off */
	uint64_t write_max; /* bytes of the longest single write or read */
	int numa_node; /* of the adapter, or OL_SLAB_NODE_ANY */
	unsigned slab_flags; /* enum ol_slab_flags: of slabs for large regions */
	/*
	 * 1: whoever connects is given what peers may reach of the regions for every connection,
	 * before it has proved who it is, and it takes a descriptor of it (shm). Then large or
	 * private memory is registered for one connection, which is quick.
	 */
	uint32_t announces;
	/* 1: reg() takes foreign memory; the device's driver was asked at open. 0: it does not, on
	 * shm and rdma_rxe among others */
	uint32_t foreign;
};

/* What a transport holds now, and what it has done since it was opened. The owner's thread counts. */
struct ol_xport_counts {
	uint64_t conns; /* connections, whatever their state */
	uint64_t regions; /* registered; one of every connection is counted once */
	uint64_t region_bytes;
	uint64_t writes; /* posted, those that ring included */
	uint64_t write_bytes;
	uint64_t doorbells; /* rung at peers */
	uint64_t reads;
	uint64_t read_bytes;
	uint64_t rung; /* doorbells of peers that were polled */
	uint64_t busy; /* posts that ended in -EAGAIN */
};

/* The forms of an address, for error texts. @NAME is an abstract socket. */
#define OL_XPORT_ADDR_HELP \
	"shm takes @NAME or a path with a /, verbs takes HOST:PORT or " \
	"oob:HOST:PORT"

enum ol_xport_access {
	OL_XPORT_ACCESS_LOCAL = 0, /* source of writes, target of reads */
	OL_XPORT_ACCESS_PEER_READ = 1 << 0,
	OL_XPORT_ACCESS_PEER_WRITE = 1 << 1,
	/*
	 * What lands here is looked at only after a doorbell, or after the DONE of the read that
	 * brought it: no word here is polled. The adapter may then write it in any order
	 * (opts.relaxed_ordering).
	 */
	OL_XPORT_ACCESS_RELAXED = 1 << 2,
};

enum ol_xport_event_type {
	OL_XPORT_DONE, /* a signaled write or read of cookie is finished */
	OL_XPORT_DOORBELL_RUNG, /* imm: the peer's value; what it wrote before is readable */
	OL_XPORT_CONN_REQUEST, /* a peer connects: accept() or reject(); priv: its private data */
	OL_XPORT_CONN_UP, /* priv: the acceptor's private data (connecting side) */
	OL_XPORT_CONN_DOWN, /* final; status: the reason; priv: the rejecting peer's private data */
};

struct ol_xport_event {
	enum ol_xport_event_type type;
	/*
	 * 0 or a negative code. DONE: -ECONNABORTED flushed, -EACCES the peer refused the access,
	 * -ETIMEDOUT the peer is silent, -EIO other. CONN_DOWN: 0 the peer disconnected, or died
	 * and its kernel reported it, -ECONNREFUSED no listener, or rejected (priv_len > 0: with a
	 * reason), -EUSERS the peer holds as many connections as it can, -EOPNOTSUPP its adapter
	 * and this one ring in different ways, -EHOSTUNREACH, -ETIMEDOUT, -EACCES this side or the
	 * peer broke a rule, -EMFILE this process has no descriptor left, -ENODEV
	 * the device of this side is dead, -EIO.
	 */
	int status;
	uint32_t imm;
	uint32_t priv_len;
	struct ol_xport_conn *conn;
	uint64_t cookie; /* as given to the post */
	/* Valid until the next poll. On verbs priv_len may include padding: carry a length. */
	const uint8_t *priv;
};

enum ol_xport_post_flags {
	OL_XPORT_SIGNALED = 1 << 0, /* report the end of this op with OL_XPORT_DONE */
	OL_XPORT_INLINE = 1 << 1, /* total length <= caps.inline_max; the buffers are free on return
				     and region may be NULL with off an address */
	OL_XPORT_DOORBELL = 1 << 2, /* writes: ring the peer with imm when it has all landed */
	OL_XPORT_AFTER_READS = 1 << 3, /* reads: start once earlier reads are done */
	/*
	 * Another post on this connection follows at once. This post may wait for that one, or for
	 * the next poll, whichever comes first. It is accepted now and keeps its order and its
	 * DONE; if it cannot be handed over later, the connection breaks.
	 */
	OL_XPORT_MORE = 1 << 4,
};

/* A piece of local memory: bytes at off of region (or at address off, inline without a region). */
struct ol_xport_seg {
	const struct ol_xport_region *region;
	uint64_t off;
	uint32_t bytes;
};

/* One write: the segments land one behind the other at dst_off of dst. seg_count 0: bell only. */
struct ol_xport_write {
	struct ol_xport_seg segs[OL_XPORT_SEGS_MAX];
	unsigned seg_count;
	unsigned flags;
	uint32_t imm;
	struct ol_xport_rkey dst;
	uint64_t dst_off;
	uint64_t cookie;
};

/* One read: contiguous bytes at src_off of src, scattered over the segments one after the other. */
struct ol_xport_read {
	struct ol_xport_seg segs[OL_XPORT_SEGS_MAX];
	unsigned seg_count; /* at least 1 */
	unsigned flags;
	struct ol_xport_rkey src;
	uint64_t src_off;
	uint64_t cookie;
};

/* One table per transport. Every member is set; unsupported ones point at ol_xport_no_*(). */
struct ol_xport_ops {
	size_t size; /* sizeof(struct ol_xport_ops) */
	const char *name;

	/* Control path: may block for as long as the system calls do, allocate and log. */
	int (*open)(const struct ol_xport_opts *opts, struct ol_xport **ret_xport);
	/* close -- ends remaining connections and the listener; regions must be deregistered */
	void (*close)(struct ol_xport *xport);
	void (*query)(const struct ol_xport *xport, struct ol_xport_caps *ret_caps);
	/* counts -- quick; in the owner's thread */
	void (*counts)(const struct ol_xport *xport, struct ol_xport_counts *ret_counts);
	/*
	 * present -- 0 if it can be opened here, with this device (NULL: any); else -ENODEV. why:
	 * what was found or what is missing, one line
	 */
	int (*present)(const char *device, char *why, size_t why_bytes);

	/*
	 * reg -- make bytes at off of slab usable in posts and, as access says, by peers
	 *
	 * conn NULL: for every connection. Otherwise for that connection only (it may still be a
	 * request that is not accepted); such a region must be deregistered after conn_free() or
	 * before it, either is allowed.
	 *
	 * A foreign slab (ol_slab_from_dmabuf()) is registered for this end alone: source of writes,
	 * target of reads, never inline. With a right of a peer it is -EINVAL, as promise 1 is one
	 * about this machine's processor: nothing orders a peer's writes to a device's memory
	 * before what that device does after a doorbell. For the same reason DONE of a read says
	 * that the adapter has sent the bytes; how a device's work sees them, its driver says.
	 *
	 * Errors: -ENOMEM (the locked-memory limit: the log says how to raise it), -EINVAL,
	 * -EOPNOTSUPP (foreign memory where caps.foreign is 0: copy through a slab of the host).
	 * After an error all is as before
	 */
	int (*reg)(struct ol_xport *xport, struct ol_xport_conn *conn, struct ol_slab *slab,
		   size_t off, size_t bytes, unsigned access, struct ol_xport_region **ret_region);
	void (*dereg)(struct ol_xport_region *region);
	/*
	 * rkey -- the key with which the peer of conn reaches region; valid on that connection
	 * only, as on verbs every protection domain has keys of its own. conn NULL: for connections
	 * that connect() makes, and with shared_domain for every connection.
	 */
	struct ol_xport_rkey (*rkey)(const struct ol_xport_region *region,
				     const struct ol_xport_conn *conn);

	/*
	 * To register large memory takes long, and so does to deregister it. If the owner's thread
	 * must not stand still for that time, another thread does the long part.
	 *
	 * reg_begin -- announce a request's first region; in the owner's thread. Errors:
	 * -EOPNOTSUPP (reg() is quick here, call it), -ENOMEM
	 *
	 * reg_run -- register; in any thread, once. No peer can reach the memory yet. Errors: as
	 * reg()
	 *
	 * reg_end -- after reg_run() returned 0: give the region to conn, a request that has no
	 * region yet; the request may have come after reg_begin(). The result is as of reg(), and
	 * later is used up. In the owner's thread. After an error, or instead of this: drop()
	 *
	 * From reg_begin() to reg_end() or drop(), do not register or deregister regions for every
	 * connection.
	 */
	int (*reg_begin)(struct ol_xport *xport, unsigned access,
			 struct ol_xport_later **ret_later);
	int (*reg_run)(struct ol_xport_later *later, struct ol_slab *slab, size_t off,
		       size_t bytes);
	int (*reg_end)(struct ol_xport_later *later, struct ol_xport_conn *conn,
		       struct ol_xport_region **ret_region);
	/*
	 * strip -- detach from conn and region the resources that take long to free; NULL: none
	 *
	 * conn_free() and dereg() must follow at once; they are quick then. After conn_free() the
	 * fence holds, as every remaining key belongs to a domain without a queue pair. kept: the
	 * slab will still be read, so with shared domains drop() must not be the one that revokes
	 * the key of region.
	 */
	struct ol_xport_later *(*strip)(struct ol_xport_conn *conn, struct ol_xport_region *region,
					int kept);
	/* drop -- free what later still holds; in any thread, before close(). Afterwards the slab
	 * may be destroyed. */
	void (*drop)(struct ol_xport_later *later);

	/*
	 * listen -- at an address (OL_XPORT_ADDR_HELP); port 0: any free
	 * ret_addr: the address for connect(). Errors: -EINVAL (not an address of this transport),
	 * -EADDRINUSE, -EADDRNOTAVAIL, -ENOENT (shm: the path's folder), -ENODEV.
	 */
	int (*listen)(struct ol_xport *xport, const char *addr, char ret_addr[OL_XPORT_ADDR_MAX]);
	/*
	 * connect -- begin; ends in CONN_UP or CONN_DOWN. Never waits for the peer. priv is copied.
	 * seal: called once for the copy before it is sent, in this call or in a poll() before the
	 * connection's end; NULL: priv is sent as it is.
	 * Errors: -EINVAL (not an address of this transport), -ENODEV (it is dead)
	 */
	int (*connect)(struct ol_xport *xport, const char *addr, const void *priv,
		       uint32_t priv_len, const struct ol_xport_seal *seal,
		       struct ol_xport_conn **ret_conn);
	/* ident -- of the connecting end; of a request, and at the connecting end once it is UP */
	void (*ident)(const struct ol_xport_conn *conn, struct ol_xport_ident *ret_ident);
	/* acceptor -- ident of the accepting end; of a request, and at the connecting end once it is
	 * UP. A request's connection is prepared for it, as far as accept() would: 0, or as accept() */
	int (*acceptor)(struct ol_xport_conn *conn, struct ol_xport_ident *ret_ident);
	/* accept -- answer a request; CONN_UP follows when the peer can be written to.
	 * -ECONNABORTED: the peer is gone. Or 0, and CONN_DOWN follows */
	int (*accept)(struct ol_xport_conn *conn, const void *priv, uint32_t priv_len);
	/* reject -- refuse a request; no event follows; the call frees conn */
	void (*reject)(struct ol_xport_conn *conn, const void *priv, uint32_t priv_len);
	/* disconnect -- CONN_DOWN follows here and at the peer; posts fail from now on */
	void (*disconnect)(struct ol_xport_conn *conn);
	/* conn_free -- at any time; no event of conn follows; fences its peer off (promise 7). What
	 * was posted and has not arrived may be lost: see disconnect */
	void (*conn_free)(struct ol_xport_conn *conn);

	/*
	 * map -- peer memory as local memory: shm only, -EOPNOTSUPP elsewhere. at: page-aligned
	 * address in a range that the caller has reserved; the mapping replaces the former one. off
	 * is page-aligned. The memory stays mapped after the connection's end, until the caller
	 * unmaps it.
	 */
	int (*map)(struct ol_xport_conn *conn, struct ol_xport_rkey src, uint64_t off, size_t bytes,
		   void *at);

	/* Data path: never blocks, allocates, locks or logs. */
	int (*post_write)(struct ol_xport_conn *conn, const struct ol_xport_write *write);
	int (*post_read)(struct ol_xport_conn *conn, const struct ol_xport_read *read);
	/* poll -- up to max events; 0: nothing happened. Also makes connections progress. -ENODEV:
	 * the device is dead (promise 10), and no event is left */
	int (*poll)(struct ol_xport *xport, struct ol_xport_event *events, int max);

	/*
	 * Sleeping: call arm(). 0: event_fd() becomes readable on the next event, and the caller
	 * may wait for that. 1: events may have come already, or the transport is dead: poll instead.
	 * A poll disarms.
	 */
	int (*event_fd)(const struct ol_xport *xport);
	int (*arm)(struct ol_xport *xport);
};

/* For transports: count a post that ended in rc */
static inline int ol_xport_count_write(struct ol_xport_counts *counts,
				       const struct ol_xport_write *write, int rc)
{
	if (rc != 0) {
		counts->busy += rc == -EAGAIN;
		return rc;
	}
	counts->writes++;
	for (unsigned i = 0; i < write->seg_count; i++)
		counts->write_bytes += write->segs[i].bytes;
	counts->doorbells += (write->flags & OL_XPORT_DOORBELL) != 0;
	return 0;
}

static inline int ol_xport_count_read(struct ol_xport_counts *counts,
				      const struct ol_xport_read *read, int rc)
{
	if (rc != 0) {
		counts->busy += rc == -EAGAIN;
		return rc;
	}
	counts->reads++;
	for (unsigned i = 0; i < read->seg_count; i++)
		counts->read_bytes += read->segs[i].bytes;
	return 0;
}

/* Every transport there is: one line each, once. */
#define OL_XPORT_MAP(X) \
	X(ol_xport_shm) \
	X(ol_xport_verbs)

#define X(ops) extern const struct ol_xport_ops ops;
OL_XPORT_MAP(X)
#undef X

/* First member of every transport's own connection: the part that a caller may use. */
struct ol_xport_conn {
	struct ol_xport *xport;
	void *user; /* the caller's; the transport never looks */
};

/*
 * ol_xport_forget -- after conn_free() in the middle of a batch of events: make those of conn that
 * are still to come harmless (DONE, without a connection)
 */
static inline void ol_xport_forget(struct ol_xport_event *events, int count,
				   const struct ol_xport_conn *conn)
{
	for (int i = 0; i < count; i++) {
		if (events[i].conn == conn)
			events[i] = (struct ol_xport_event){ .type = OL_XPORT_DONE };
	}
}

void ol_xport_opts_init(struct ol_xport_opts *opts);

/* ol_xport_find -- the table of that name; NULL if there is no such transport */
const struct ol_xport_ops *ol_xport_find(const char *name);
/* ol_xport_name -- name; NULL: shm if addr starts with / or @, else verbs */
const char *ol_xport_name(const char *name, const char *addr);

/* ol_xport_present -- 0 if the transport can be opened here, or -ENODEV and such, with why */
int ol_xport_present(const char *name, const char *device, char *why, size_t why_bytes);

/* ol_xport_reg_valid -- false: what reg() refuses with -EINVAL on every transport */
bool ol_xport_reg_valid(const struct ol_slab *slab, size_t off, size_t bytes, unsigned access);

/* ol_xport_log -- a diagnostic of a transport, to the log of its opener, if there is one */
void ol_xport_log(const struct ol_xport_opts *opts, enum ol_xport_log_level level,
		  const char *format, ...) __attribute__((format(printf, 3, 4)));
/* ol_xport_slab_flags -- of large slabs, as opts says; apart: peers do not map them */
unsigned ol_xport_slab_flags(const struct ol_xport_opts *opts, bool apart);
/* ol_xport_now_ns -- CLOCK_MONOTONIC */
uint64_t ol_xport_now_ns(void);

/* Stubs for functions that a transport does not support */
void ol_xport_no_counts(const struct ol_xport *xport, struct ol_xport_counts *ret_counts);
/* the accepting end is who was connected to: all 0 */
int ol_xport_no_acceptor(struct ol_xport_conn *conn, struct ol_xport_ident *ret_ident);
int ol_xport_no_map(struct ol_xport_conn *conn, struct ol_xport_rkey src, uint64_t off,
		    size_t bytes, void *at);

int ol_xport_no_reg_begin(struct ol_xport *xport, unsigned access,
			  struct ol_xport_later **ret_later);
int ol_xport_no_reg_run(struct ol_xport_later *later, struct ol_slab *slab, size_t off,
			size_t bytes);
int ol_xport_no_reg_end(struct ol_xport_later *later, struct ol_xport_conn *conn,
			struct ol_xport_region **ret_region);
struct ol_xport_later *ol_xport_no_strip(struct ol_xport_conn *conn, struct ol_xport_region *region,
					 int kept);
void ol_xport_no_drop(struct ol_xport_later *later);

#endif /* OL_RDMA_TRANSPORT_H */
