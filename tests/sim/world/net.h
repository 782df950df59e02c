/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * net.h -- the transport "sim": the promises of rdma/transport.h, and no more
 *
 * A connection has two ends; each has a queue of operations in flight to the other. The adapter
 * works on them while no process runs: a write lands in pieces, in any order, from its source
 * memory or, if it was reported done before, from a copy. A read is served in pieces that are copied
 * at different times. Operations that a peer posted before it died, was stopped or freed its end may
 * still land. Posts detect cut links and dead hosts, after retry_timeout_ms.
 *
 *	net.c       ends: connecting, events, the end of a connection
 *	flow.c      operations in flight
 *	memory.c    slabs, regions, keys
 */
#ifndef OL_TESTS_SIM_WORLD_NET_H
#define OL_TESTS_SIM_WORLD_NET_H

#include "rdma/transport.h"
#include "sim/world/sim.h"

enum {
	NET_PIECES_MAX = 6,
	NET_INLINE_MAX = 256,
	NET_EVENTS_MAX = 65536 /* that nobody has polled, of one process */
};

struct net_slab {
	struct ol_slab *slab;
	uint8_t *memory; /* page-aligned; NULL: destroyed */
	uint8_t *block; /* that it lies in */
	size_t bytes;
	struct sim_process *process;
	unsigned regions;
	bool touched; /* it is large: what is done to it takes time */
	struct net_slab *next;
};

struct ol_xport_region {
	struct ol_xport *xport;
	struct net_slab *slab;
	struct net_end *end; /* of whose connection; NULL: of every */
	size_t off;
	size_t bytes;
	unsigned access;
	bool live;
	struct ol_xport_region *next; /* of its transport */
};

/* A key is good at one end, or, of a region of every connection, at ends that called. */
struct net_key {
	struct ol_xport_region *region;
	struct net_end *end;
	uint32_t number;
	struct net_key *next; /* of its transport */
};

enum net_state {
	NET_CALLS, /* waits for an answer */
	NET_ASKED, /* a request that was not answered yet */
	NET_ANSWERED, /* accepted; the caller does not know it yet */
	NET_UP,
	NET_DOWN, /* its end is among the events, or was */
};

/* A write or a read on its way. */
struct net_op {
	struct net_end *end; /* that posted it */
	struct net_op *next;
	bool is_read;
	bool bell;
	bool signaled;
	bool after_reads;
	bool started;
	bool landed; /* nothing of it is to come */
	bool dropped; /* nothing more of it may happen */
	bool listed; /* still in the queue of its end */
	uint32_t imm;
	uint64_t cookie;
	struct ol_xport_seg segs[OL_XPORT_SEGS_MAX];
	unsigned seg_count;
	uint32_t bytes;
	struct ol_xport_rkey remote;
	uint64_t remote_off;
	uint8_t *copy; /* of what is written; NULL: it is still where it was posted from */
	struct net_slab *slab; /* at the other end, once the key was looked at … */
	size_t slab_off;
	unsigned piece_count;
	unsigned pieces_left;
	uint32_t cuts[NET_PIECES_MAX + 1];
	unsigned events; /* that are under way for it */
};

/* What the application holds. Freed with conn_free(): what touches it then is found out. */
struct net_conn {
	struct ol_xport_conn base;
	struct net_end *end;
};

struct net_end {
	struct net_conn *conn; /* NULL: freed, or its process is dead */
	struct ol_xport *xport;
	struct net_end *peer; /* NULL: nobody has heard of the call yet */
	enum net_state state;
	bool caller;
	bool gone; /* freed, or its process is dead: it takes nothing and says nothing any more */
	bool silent; /* its host is dead: nobody is told */
	bool lands_late; /* after its CONN_DOWN writes may land, until it is freed */
	bool told; /* that the other end is gone */
	struct net_op *first; /* posted, not complete … */
	struct net_op *last;
	struct net_op *next_op; /* … and not started */
	struct net_op *landing; /* a write that is: what follows waits for it */
	unsigned reads; /* started, not served */
	unsigned posted; /* not complete */
	unsigned bells; /* rung here, not polled */
	bool completing;
	bool mute; /* nothing that it posts is ever reported done, until it breaks */
	bool stalled;
	uint64_t stalls; /* which one: a timer of an older one means nothing */
	char addr[OL_XPORT_ADDR_MAX]; /* that is called */
	uint32_t priv_len;
	uint8_t priv[OL_XPORT_PRIV_ACCEPT_MAX];
	struct net_end *next; /* of its transport */
	unsigned number; /* for the trace */
};

struct net_event {
	struct ol_xport_event event;
	struct net_end *end;
	struct net_event *next;
	uint32_t priv_len;
	uint8_t priv[OL_XPORT_PRIV_ACCEPT_MAX + 64];
};

struct ol_xport {
	struct sim_process *process;
	struct ol_xport_opts opts;
	bool open;
	char addr[OL_XPORT_ADDR_MAX]; /* it listens at; "": it does not */
	struct net_end *ends;
	unsigned conns;
	struct ol_xport_region *regions;
	struct net_key *keys;
	struct net_event *first;
	struct net_event *last;
	unsigned event_count;
	unsigned arms; /* how often it was about to sleep */
	int fd;
	bool armed;
	unsigned quiet; /* polls in a row that gave nothing */
	uint8_t *privs[64]; /* given with the last poll */
	unsigned priv_count;
	struct ol_xport *next; /* of all */
};

extern const struct ol_xport_ops net_ops;

/* net_begin -- no transport, no cut */
void net_begin(void);
/* net_cut -- nothing goes from host a to host b, or (cut false) again */
void net_cut(uint32_t a, uint32_t b, bool cut);
bool net_is_cut(uint32_t a, uint32_t b);
/* net_heal -- everything goes everywhere */
void net_heal(void);
/* net_process_gone -- killed (host: with its host, which tells nobody) or ended */
void net_process_gone(const struct sim_process *process, bool host);
/* net_host_lost -- until it is back nobody answers there */
void net_host_lost(uint32_t place, bool lost);
/* net_adapter_fails -- every connection of a process breaks, and peers hear of it in time */
void net_adapter_fails(const struct sim_process *process);
/* net_heal_all_ends -- look again at what could not go on */
void net_resume(void);
uint64_t net_delay(void);
struct ol_xport *net_listener(const char *addr);
uint32_t net_place(const struct net_end *end);
/* net_path -- what this end sends arrives */
bool net_path(const struct net_end *end);
bool net_path_back(const struct net_end *end);
void net_event_add(struct net_end *end, enum ol_xport_event_type type, int status, uint32_t imm,
		   uint64_t cookie, const void *priv, uint32_t priv_len);
/* net_end_down -- this end has ended: what was posted fails, then CONN_DOWN */
void net_end_down(struct net_end *end, int status, const void *priv, uint32_t priv_len);
/* net_end_leave -- freed, or its process died: what it may still write goes on */
void net_end_leave(struct net_end *end, bool tell);
/* net_end_tell -- the other end hears, some time, that this one is gone */
void net_end_tell(struct net_end *end);

/* flow.c */
int net_post_write(struct ol_xport_conn *conn, const struct ol_xport_write *write);
int net_post_read(struct ol_xport_conn *conn, const struct ol_xport_read *read);
/* net_pump -- start what can be started, complete what can be completed */
void net_pump(struct net_end *end);
/* net_flush -- every operation fails; reported, if `report` is not 0, with that and then
 * -ECONNABORTED. What has been handed to the network may still land. */
void net_flush(struct net_end *end, int report);
void net_flow_begin(void);

/* memory.c */
void net_memory_begin(void);
int net_reg(struct ol_xport *xport, struct ol_xport_conn *conn, struct ol_slab *slab, size_t off,
	    size_t bytes, unsigned access, struct ol_xport_region **ret_region);
void net_dereg(struct ol_xport_region *region);
struct ol_xport_rkey net_rkey(const struct ol_xport_region *region,
			      const struct ol_xport_conn *conn);
/* net_find -- what a key leads to at an end; NULL: nothing that may be reached so */
struct ol_xport_region *net_find(const struct net_end *end, struct ol_xport_rkey key, uint64_t off,
				 uint64_t bytes, unsigned access);
void net_slabs_gone(const struct sim_process *process);

#endif /* OL_TESTS_SIM_WORLD_NET_H */
