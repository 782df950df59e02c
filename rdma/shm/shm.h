/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * shm.h -- the objects of the shared-memory transport, and the functions that its files share
 *
 * An xport owns its connections (the array conns) and its regions (the list regions). A
 * connection owns its socket, its control segment and its mappings of the peer's regions.
 */
#ifndef OL_RDMA_SHM_SHM_H
#define OL_RDMA_SHM_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "rdma/rate.h"
#include "rdma/shm/msg.h"
#include "rdma/shm/ring.h"
#include "rdma/transport.h"

enum {
	OL_SHM_INLINE_MAX = 256, /* bytes that post.c copies without a call */
	OL_SHM_WRITE_MAX = 1 << 30,
	OL_SHM_GREETINGS_MAX = 32, /* sockets that have not sent hello, beside conns_max */
	OL_SHM_INFLIGHT_LIMIT = 1 << 16,
	OL_SHM_CONNS_LIMIT = 1 << 14,
	/* regions that a peer may announce on one connection, each of which takes a descriptor: one
	 * that this end has connected to; one that connects */
	OL_SHM_PEER_REGIONS_MAX = 4096,
	OL_SHM_CALLER_REGIONS_MAX = 64,
	OL_SHM_OUT_MAX = 1024, /* messages waiting for a peer that does not read its socket */
	OL_SHM_POLLS_MAX = 256, /* polls between two looks at the sockets, when polls are quick */
	OL_SHM_DIAL_RETRY_MS = 1, /* a listener whose backlog is full is tried again after this */
	OL_SHM_BACKLOG = 128,
};

struct ol_shm_xport;

enum ol_shm_state {
	OL_SHM_GREETING, /* accepted socket without a hello: the caller does not know of it */
	OL_SHM_REQUESTED, /* the hello is here: accept() or reject() is due */
	OL_SHM_ACCEPTED, /* accept is sent: the connector's confirm is due */
	OL_SHM_DIALING, /* the listener's backlog is full: connect() is tried again */
	OL_SHM_CONNECTING, /* hello is sent: accept or reject is due */
	OL_SHM_UP,
	OL_SHM_DOWN, /* CONN_DOWN is due or delivered */
};

/* Events of a connection that wait for poll(), delivered in this order. */
enum {
	OL_SHM_DUE_REQUEST = 1 << 0,
	OL_SHM_DUE_UP = 1 << 1,
	OL_SHM_DUE_DOWN = 1 << 2,
};

/* A region that the peer announced. One cache line: posts look it up by rkey. */
struct ol_shm_peer_region {
	uint32_t rkey; /* 0: empty entry */
	uint32_t access;
	uint64_t addr;
	uint64_t bytes;
	uint8_t *base; /* where the region begins in our mapping */
	void *map; /* page-aligned mapping around it */
	size_t map_bytes;
	uint64_t fd_off; /* of the region in the slab */
	int fd; /* the peer's slab: read-only if it gave no right to write */
};

/* A connection's mappings of its peer's regions, which any thread may unmap. */
struct ol_xport_later {
	struct ol_shm_peer_region *peers;
	uint32_t peer_mask;
};

struct ol_shm_done {
	uint64_t cookie;
	int status;
};

/* A message that the socket did not take yet; owns its descriptors. */
struct ol_shm_out {
	struct ol_shm_out *next;
	struct ol_shm_msg msg;
	int fds[OL_SHM_MSG_FDS_MAX];
	unsigned fd_count;
};

struct ol_shm_conn {
	struct ol_xport_conn base;

	/* Read by an idle poll. */
	struct ol_shm_rx rx;
	uint32_t done_head; /* completions made, modulo 2^32 */
	uint32_t done_tail; /* completions delivered */
	uint32_t due; /* OL_SHM_DUE_* */
	enum ol_shm_state state;

	/* Read by a post. */
	struct ol_shm_tx tx;
	struct ol_shm_peer_region *peers; /* open addressing by rkey, peer_mask + 1 entries */
	uint32_t peer_mask;
	uint32_t peer_count;
	struct ol_shm_done *dones; /* ring of xport->done_mask + 1 */
	uint64_t id; /* never reused: regions name their connection by it */

	/* Control path. */
	struct ol_shm_xport *xport;
	uint32_t index; /* in xport->conns */
	uint32_t drain; /* DOWN: doorbells still to deliver, at most */
	int down_status;
	const char *down_why; /* logged with CONN_DOWN, as a post does not log; NULL: nothing */
	int sock;
	bool announcing; /* regions registered from now on are announced at once */
	bool out_armed; /* the epoll watches for room in the socket */
	void *ctrl; /* the control segment */
	size_t ctrl_bytes;
	uint32_t peer_capacity; /* REQUESTED: of the ring that the peer consumes */
	uint64_t deadline_ns; /* of the state; 0: none */
	uint64_t retry_ns; /* DIALING: when to try again; 0: not tried yet */
	struct ol_shm_out *out_head;
	struct ol_shm_out **out_end;
	unsigned out_count;
	struct ol_shm_conn *dead_next;
	struct sockaddr_un peer; /* connecting side */
	socklen_t peer_bytes;
	struct ol_xport_seal seal; /* connecting side; make NULL: none */
	struct ol_xport_ident ident;
	char name[48]; /* for people: "conn 7 with pid 123" */
	uint32_t priv_len;
	uint8_t priv[OL_XPORT_PRIV_ACCEPT_MAX]; /* before UP: our hello's, then the peer's */
};

struct ol_shm_region {
	struct ol_shm_xport *xport;
	uint8_t *addr;
	uint64_t bytes;
	uint64_t conn_id; /* 0: every connection */
	uint32_t rkey;
	unsigned access;
	uint64_t fd_off;
	int share_fd; /* what peers get; -1: local only */
	bool share_owned; /* share_fd is ours to close, not the slab's own */
	struct ol_shm_region *next;
	struct ol_shm_region **prev_next;
};

/* Log lines that peers can cause, by kind: rdma/rate.h */
enum ol_shm_rare_kind {
	OL_SHM_RARE_USER, /* a peer of another user */
	OL_SHM_RARE_DESCRIPTORS, /* no descriptor is left for a peer */
	OL_SHM_RARE_PLACES, /* no connection is left for one */
	OL_SHM_RARE_PROTOCOL, /* a message that cannot be used */
	OL_SHM_RARE_SILENT, /* no message came in time */
	OL_SHM_RARE_DEAF, /* announced regions are not read */
	OL_SHM_RARE_RULE, /* a rule of the memory that both share was broken */
	OL_SHM_RARES
};

struct ol_shm_xport {
	/* What poll() looks at. */
	struct ol_shm_conn **conns;
	uint32_t conn_count;
	uint32_t cursor; /* where the next poll begins, so that nobody starves */
	uint32_t polls_left; /* until the sockets are looked at */
	bool armed;
	bool gave; /* the last poll returned events */
	uint32_t sleep; /* number of the last sleep */
	struct ol_shm_conn *dead; /* freed, kept until the next poll: events may name them */

	struct ol_xport_counts counts; /* conns: not kept here */
	uint32_t polls_between;
	uint32_t inflight_max;
	uint32_t done_mask;
	uint32_t capacity; /* of the rings that we consume */
	uint32_t greetings; /* connections in GREETING */
	uint64_t progress_ns; /* when the sockets were last looked at */
	uint64_t timer_ns; /* what timer_fd is set to; 0: nothing */
	uint64_t conn_id;
	struct ol_shm_region *regions;
	uint32_t rkey_first;
	uint32_t rkey_next;
	int epoll_fd;
	int timer_fd;
	struct ol_xport_rate rare[OL_SHM_RARES];
	int spare_fd; /* closed for a moment, to refuse a peer when descriptors have run out */
	int listen_fd;
	struct sockaddr_un listen_addr;
	dev_t listen_dev; /* of the socket file, to remove only our own */
	ino_t listen_ino;
	struct ol_xport_opts opts;
};

/* The opaque types of transport.h are ours where we made them. */
static inline struct ol_shm_xport *ol_shm_xport(struct ol_xport *xport)
{
	return (void *)xport;
}

static inline const struct ol_shm_xport *ol_shm_xport_const(const struct ol_xport *xport)
{
	return (const void *)xport;
}

static inline const struct ol_shm_region *ol_shm_region(const struct ol_xport_region *region)
{
	return (const void *)region;
}

static inline struct ol_shm_conn *ol_shm_conn(struct ol_xport_conn *conn)
{
	return (struct ol_shm_conn *)(void *)((char *)conn - offsetof(struct ol_shm_conn, base));
}

/* base.c */
/* ol_shm_log_rare -- what peers can cause as often as they like: a warning, at most some a second */
void ol_shm_log_rare(struct ol_shm_xport *xport, enum ol_shm_rare_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* ol_shm_rare_tick -- log how many had no line of their own */
void ol_shm_rare_tick(struct ol_shm_xport *xport, uint64_t now_ns);
/* ol_shm_timer_update -- have the event fd become readable at the next deadline */
void ol_shm_timer_update(struct ol_shm_xport *xport);
/* ol_shm_kick -- wake a caller that has armed: an event came about by our own hand */
void ol_shm_kick(struct ol_shm_xport *xport);
/* ol_shm_watch -- let the epoll watch fd for owner */
int ol_shm_watch(struct ol_shm_xport *xport, int fd, uint32_t epoll_events, void *owner);
void ol_shm_close_fd(int *fd);

/* segment.c */
int ol_shm_segment_create(struct ol_shm_conn *conn, uint32_t own_capacity, uint32_t peer_capacity,
			  int *ret_fd);
int ol_shm_segment_attach(struct ol_shm_conn *conn, int fd, uint32_t own_capacity,
			  uint32_t peer_capacity);
void ol_shm_segment_detach(struct ol_shm_conn *conn);
/* ol_shm_rx_quiet -- rx of a connection that has no ring, or none any more */
void ol_shm_rx_quiet(struct ol_shm_conn *conn);
/* ol_shm_rx_attach -- begin to see the peer's doorbells */
void ol_shm_rx_attach(struct ol_shm_conn *conn);
/*
 * ol_shm_fd_check -- fd, from a peer, is shared memory of at least bytes. It cannot shrink under us, and
 * its pages can always be had. ret_page: its page size
 */
int ol_shm_fd_check(int fd, uint64_t bytes, size_t *ret_page);

/* sock.c */
int ol_shm_addr_parse(const char *text, struct sockaddr_un *ret_addr, socklen_t *ret_bytes);
/* ol_shm_peer_check -- 0 if the process behind sock has our user id or is root */
int ol_shm_peer_check(int sock, pid_t *ret_pid, uid_t *ret_uid);
/* ol_shm_send -- now or later; fds stay the caller's. Errors: -ENOBUFS, -ENOMEM, -EMFILE */
int ol_shm_send(struct ol_shm_conn *conn, const struct ol_shm_msg *msg, const int *fds,
		unsigned fd_count);
/* ol_shm_wake -- let the peer's socket be readable; never waits */
void ol_shm_wake(const struct ol_shm_conn *conn);
/* ol_shm_flush -- send what waited, now that the socket has room */
void ol_shm_flush(struct ol_shm_conn *conn);
void ol_shm_out_drop(struct ol_shm_conn *conn);
/*
 * ol_shm_recv -- one whole, sound message; its descriptors are the caller's
 *
 * Errors: -EAGAIN nothing there, -ECONNRESET the peer is gone, -EPROTO not a message of ours
 */
int ol_shm_recv(int sock, struct ol_shm_msg *ret_msg, int ret_fds[OL_SHM_MSG_FDS_MAX]);

/* listen.c */
int ol_shm_listen(struct ol_xport *xport, const char *addr, char ret_addr[OL_XPORT_ADDR_MAX]);
void ol_shm_listen_close(struct ol_shm_xport *xport);
/* ol_shm_listen_ready -- take in who waits at the listener */
void ol_shm_listen_ready(struct ol_shm_xport *xport);

/* conn.c */
int ol_shm_conn_create(struct ol_shm_xport *xport, enum ol_shm_state state,
		       struct ol_shm_conn **ret_conn);
void ol_shm_conn_destroy(struct ol_shm_conn *conn);
void ol_shm_dead_free(struct ol_shm_xport *xport);
/* ol_shm_conn_raise -- an event of conn is due */
void ol_shm_conn_raise(struct ol_shm_conn *conn, uint32_t due);
/*
 * ol_shm_conn_down -- end conn with status and tell the peer. CONN_DOWN is due; a conn that the
 * caller does not know of is destroyed instead
 */
void ol_shm_conn_down(struct ol_shm_conn *conn, int status);
/* ol_shm_conn_deadline -- of the present state, in ms from now; 0: none */
void ol_shm_conn_deadline(struct ol_shm_conn *conn, uint32_t timeout_ms);
void ol_shm_conn_name(struct ol_shm_conn *conn, pid_t pid);
void ol_shm_disconnect(struct ol_xport_conn *conn);
void ol_shm_conn_free(struct ol_xport_conn *conn);

/* shake.c */
int ol_shm_connect(struct ol_xport *xport, const char *addr, const void *priv, uint32_t priv_len,
		   const struct ol_xport_seal *seal, struct ol_xport_conn **ret_conn);
void ol_shm_ident(const struct ol_xport_conn *base, struct ol_xport_ident *ret_ident);
/* ol_shm_ident_note -- keep the socket's name: this end's, or that of the peer that came */
void ol_shm_ident_note(struct ol_shm_conn *conn, bool peers);
int ol_shm_accept(struct ol_xport_conn *conn, const void *priv, uint32_t priv_len);
void ol_shm_reject(struct ol_xport_conn *conn, const void *priv, uint32_t priv_len);
/* ol_shm_dial -- try connect() once more */
void ol_shm_dial(struct ol_shm_conn *conn);
/* ol_shm_conn_read -- handle the peer's messages; conn may be down or destroyed afterwards */
void ol_shm_conn_read(struct ol_shm_conn *conn);

/* region.c */
int ol_shm_reg(struct ol_xport *xport, struct ol_xport_conn *conn, struct ol_slab *slab, size_t off,
	       size_t bytes, unsigned access, struct ol_xport_region **ret_region);
void ol_shm_dereg(struct ol_xport_region *region);
struct ol_xport_rkey ol_shm_rkey(const struct ol_xport_region *region,
				 const struct ol_xport_conn *conn);
/* ol_shm_regions_orphan -- xport closes: regions that the caller forgot can be deregistered later
 */
void ol_shm_regions_orphan(struct ol_shm_xport *xport);
/* ol_shm_announce_all -- tell the peer of every region it may reach, and of later ones */
int ol_shm_announce_all(struct ol_shm_conn *conn);

/* peers.c */
/* ol_shm_peer_add -- a region announced by the peer; takes fd. Errors: -EPROTO, -ENOMEM ... */
int ol_shm_peer_add(struct ol_shm_conn *conn, const struct ol_shm_msg *msg, int fd);
void ol_shm_peer_remove(struct ol_shm_conn *conn, uint32_t rkey);
void ol_shm_peers_free(struct ol_shm_conn *conn);
struct ol_xport_later *ol_shm_strip(struct ol_xport_conn *base, struct ol_xport_region *region,
				    int kept);
void ol_shm_drop(struct ol_xport_later *later);

/* ol_shm_peer_find -- the entry of rkey; NULL if it was not announced */
static inline const struct ol_shm_peer_region *ol_shm_peer_find(const struct ol_shm_conn *conn,
								uint32_t rkey)
{
	uint32_t i = rkey & conn->peer_mask;

	while (conn->peers[i].rkey != rkey) {
		if (conn->peers[i].rkey == 0)
			return NULL;
		i = (i + 1) & conn->peer_mask;
	}
	return rkey != 0 ? &conn->peers[i] : NULL;
}

/* post.c */
int ol_shm_post_write(struct ol_xport_conn *conn, const struct ol_xport_write *write);
int ol_shm_map(struct ol_xport_conn *conn, struct ol_xport_rkey src, uint64_t off, size_t bytes,
	       void *at);
int ol_shm_post_read(struct ol_xport_conn *conn, const struct ol_xport_read *read);

/* poll.c */
int ol_shm_poll(struct ol_xport *xport, struct ol_xport_event *events, int max);
int ol_shm_event_fd(const struct ol_xport *xport);
int ol_shm_arm(struct ol_xport *xport);

#endif /* OL_RDMA_SHM_SHM_H */
