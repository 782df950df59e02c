/* SPDX-License-Identifier: BSD-3-Clause */

/* liar.c -- connections, memory, events and the clock of liar.h */

#include "fuzz/liar.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "base/clock.h"
#include "fuzz/liar_wrap.h"

enum {
	EVENTS_MAX = 512,
	READS_MAX = 64,
	SCRATCH_BYTES = 1 << 18,
	INLINE_MAX = 256,
	POLL_NS = 1000000, /* that a poll takes */
	LOOK_NS = 50,
	IDLE_NS = 200000000, /* that one takes when the input is over: everything times out */
};

struct ol_xport_region {
	struct ol_slab *slab;
	const struct ol_xport_conn *conn; /* NULL: of every connection */
	size_t off;
	size_t bytes;
	unsigned access;
	uint32_t number;
	struct ol_xport_region *next;
};

struct ol_xport {
	bool listens;
};

struct queued {
	struct ol_xport_event event;
	uint8_t priv[LIAR_PRIV_MAX];
};

struct liar liar;

static struct {
	bool active;
	struct ol_xport *xport;
	struct ol_xport_region *regions;
	uint32_t region_count; /* ever */
	struct queued queue[EVENTS_MAX];
	unsigned first;
	unsigned count;
	uint8_t privs[EVENTS_MAX][LIAR_PRIV_MAX]; /* given with the last poll */
	struct {
		struct liar_conn *conn;
		struct ol_xport_read read;
	} reads[READS_MAX];
	unsigned read_count;
	unsigned slab_count;
	uint64_t random;
	uint8_t scratch[SCRATCH_BYTES];
} net;

/* ---- the input ---- */

uint8_t liar_byte(void)
{
	if (liar.left == 0)
		return 0;
	liar.left--;
	return *liar.at++;
}

uint32_t liar_u32(void)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < 4; i++)
		value |= (uint32_t)liar_byte() << (8 * i);
	return value;
}

size_t liar_bytes(void *out, size_t max)
{
	size_t count = liar_byte();

	if (count > max)
		count = max;
	if (count > liar.left)
		count = liar.left;
	memset(out, 0, max);
	if (count > 0)
		memcpy(out, liar.at, count);
	liar.at += count;
	liar.left -= count;
	return count;
}

void liar_patch(void *record, size_t bytes)
{
	uint8_t *at = record;

	for (unsigned count = liar_byte() & 7; count > 0; count--) {
		size_t off = liar_byte() % bytes;

		at[off] = liar_byte();
	}
}

/* ---- events ---- */

static void add(struct liar_conn *conn, enum ol_xport_event_type type, int status, uint64_t cookie,
		uint32_t imm, const void *priv, size_t priv_bytes)
{
	struct queued *queued = &net.queue[(net.first + net.count) % EVENTS_MAX];

	if (net.count == EVENTS_MAX)
		return; /* nothing is sure of its end any more: as good as a connection that
			 hangs */
	net.count++;
	*queued = (struct queued){ .event = { .type = type,
					      .status = status,
					      .imm = imm,
					      .priv_len = (uint32_t)priv_bytes,
					      .conn = &conn->base,
					      .cookie = cookie } };
	if (priv_bytes > 0)
		memcpy(queued->priv, priv, priv_bytes);
}

static void forget(const struct liar_conn *conn)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < net.count; i++) {
		struct queued *queued = &net.queue[(net.first + i) % EVENTS_MAX];

		if (queued->event.conn != &conn->base)
			net.queue[(net.first + kept++) % EVENTS_MAX] = *queued;
	}
	net.count = kept;
	kept = 0;
	for (unsigned i = 0; i < net.read_count; i++) {
		if (net.reads[i].conn != conn)
			net.reads[kept++] = net.reads[i];
	}
	net.read_count = kept;
}

static void take(struct ol_xport_event *ret_event, uint8_t *priv)
{
	const struct queued *queued = &net.queue[net.first];

	*ret_event = queued->event;
	memcpy(priv, queued->priv, sizeof(queued->priv));
	ret_event->priv = priv;
	net.first = (net.first + 1) % EVENTS_MAX;
	net.count--;
}

bool liar_next(struct ol_xport_event *ret_event)
{
	if (net.count == 0)
		return false;
	take(ret_event, net.privs[0]);
	return true;
}

/* What was posted on a connection that ends is reported before its end. */
void liar_down(struct liar_conn *conn, int status, const void *priv, size_t priv_bytes)
{
	if (conn->state == LIAR_DOWN)
		return;
	for (unsigned i = 0; i < net.read_count; i++) {
		if (net.reads[i].conn == conn)
			add(conn, OL_XPORT_DONE, -ECONNABORTED, net.reads[i].read.cookie, 0, NULL,
			    0);
		net.reads[i].conn = net.reads[i].conn == conn ? NULL : net.reads[i].conn;
	}
	add(conn, OL_XPORT_CONN_DOWN, status, 0, 0, priv, priv_bytes);
	conn->state = LIAR_DOWN;
}

void liar_up(struct liar_conn *conn, const void *priv, size_t priv_bytes)
{
	conn->state = LIAR_UP;
	add(conn, OL_XPORT_CONN_UP, 0, 0, 0, priv, priv_bytes);
}

void liar_bell(struct liar_conn *conn, enum ol_bell bell, uint32_t arg)
{
	if (conn->state == LIAR_UP)
		add(conn, OL_XPORT_DOORBELL_RUNG, 0, 0, ol_bell_make(bell, arg), NULL, 0);
}

/* ---- memory ---- */

struct liar_conn *liar_pick(unsigned number)
{
	unsigned count = 0;

	for (struct liar_conn *conn = liar.conns; conn != NULL; conn = conn->next)
		count++;
	if (count == 0)
		return NULL;
	number %= count;
	for (struct liar_conn *conn = liar.conns; conn != NULL; conn = conn->next) {
		if (number-- == 0)
			return conn;
	}
	return NULL;
}

void liar_land(const struct liar_conn *conn, uint64_t off, const void *bytes, size_t count)
{
	for (struct ol_xport_region *at = net.regions; at != NULL; at = at->next) {
		if (at->conn != &conn->base || (at->access & OL_XPORT_ACCESS_PEER_WRITE) == 0)
			continue;
		if (conn->state != LIAR_UP || off >= at->bytes)
			return;
		if (count > at->bytes - off)
			count = at->bytes - off;
		memcpy((uint8_t *)at->slab->addr + at->off + off, bytes, count);
		return;
	}
}

static int region_reg(struct ol_xport *xport, struct ol_xport_conn *conn, struct ol_slab *slab,
		      size_t off, size_t bytes, unsigned access,
		      struct ol_xport_region **ret_region)
{
	struct ol_xport_region *region = calloc(1, sizeof(*region));

	(void)xport;
	must(region != NULL && bytes > 0 && off <= slab->bytes && bytes <= slab->bytes - off);
	*region = (struct ol_xport_region){ .slab = slab,
					    .conn = conn,
					    .off = off,
					    .bytes = bytes,
					    .access = access,
					    .number = ++net.region_count,
					    .next = net.regions };
	net.regions = region;
	*ret_region = region;
	return 0;
}

static void region_dereg(struct ol_xport_region *region)
{
	struct ol_xport_region **at = &net.regions;

	while (*at != region) {
		must(*at != NULL);
		at = &(*at)->next;
	}
	*at = region->next;
	free(region);
}

static struct ol_xport_rkey region_rkey(const struct ol_xport_region *region,
					const struct ol_xport_conn *conn)
{
	(void)conn;
	return (struct ol_xport_rkey){ .bytes = region->bytes, .rkey = region->number };
}

int __wrap_ol_slab_create(size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab)
{
	struct ol_slab *slab = calloc(1, sizeof(*slab));

	(void)flags;
	must(slab != NULL && bytes > 0);
	slab->bytes = ol_round_up(bytes, OL_PAGE_BYTES);
	slab->addr = aligned_alloc(OL_PAGE_BYTES, slab->bytes);
	must(slab->addr != NULL);
	memset(slab->addr, 0, slab->bytes);
	slab->fd = -1;
	slab->node = node;
	net.slab_count++;
	*ret_slab = slab;
	return 0;
}

int __wrap_ol_slab_map(size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab)
{
	return __wrap_ol_slab_create(bytes, node, flags, ret_slab);
}

int __wrap_ol_slab_touch(struct ol_slab *slab, size_t off, size_t bytes)
{
	must(off + bytes <= slab->bytes);
	return 0;
}

/* Whoever has one does its work by hand */
int __wrap_ol_thread_start(void *(*run)(void *), void *arg, pthread_t *ret_thread)
{
	(void)run;
	(void)arg;
	*ret_thread = 0;
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret_value)
{
	(void)ret_value;
	return thread == 0 ? 0 : -1;
}

void __wrap_ol_slab_destroy(struct ol_slab *slab)
{
	if (slab == NULL)
		return;
	for (struct ol_xport_region *at = net.regions; at != NULL; at = at->next)
		must(at->slab != slab);
	free(slab->addr);
	free(slab);
	net.slab_count--;
}

/* ---- connections ---- */

static struct liar_conn *conn_new(enum liar_state state)
{
	struct liar_conn *conn = calloc(1, sizeof(*conn));

	must(conn != NULL);
	conn->state = state;
	conn->next = liar.conns;
	conn->base.xport = net.xport;
	liar.conns = conn;
	return conn;
}

static struct liar_conn *of(struct ol_xport_conn *base)
{
	return (struct liar_conn *)base;
}

static void conn_free(struct ol_xport_conn *base)
{
	struct liar_conn **at = &liar.conns;

	forget(of(base));
	while (*at != of(base)) {
		must(*at != NULL);
		at = &(*at)->next;
	}
	*at = of(base)->next;
	free(of(base));
}

void liar_ask_raw(const void *priv, size_t priv_bytes)
{
	struct liar_conn *conn = conn_new(LIAR_ASKS);

	add(conn, OL_XPORT_CONN_REQUEST, 0, 0, 0, priv, priv_bytes);
}

/* All connections have the same: the liar is at both ends of none. */
static const struct ol_xport_ident nobody;

static void conn_ident(const struct ol_xport_conn *conn, struct ol_xport_ident *ret_ident)
{
	(void)conn;
	*ret_ident = nobody;
}

static int conn_connect(struct ol_xport *xport, const char *addr, const void *priv,
			uint32_t priv_len, const struct ol_xport_seal *seal,
			struct ol_xport_conn **ret_conn)
{
	uint8_t said[OL_XPORT_PRIV_CONNECT_MAX];
	struct liar_conn *conn;

	(void)xport;
	must(priv_len <= OL_XPORT_PRIV_CONNECT_MAX);
	conn = conn_new(LIAR_CALLS);
	memcpy(said, priv, priv_len);
	if (seal != NULL)
		seal->make(seal->arg, &nobody, said, priv_len);
	must(ol_wire_connect_decode(said, priv_len, &conn->call) == 0);
	must(strlen(addr) < sizeof(conn->addr));
	memcpy(conn->addr, addr, strlen(addr));
	*ret_conn = &conn->base;
	return 0;
}

static int conn_accept(struct ol_xport_conn *base, const void *priv, uint32_t priv_len)
{
	struct ol_wire_accept accept;

	must(of(base)->state == LIAR_ASKS);
	must(ol_wire_accept_decode(priv, priv_len, &accept) == 0);
	of(base)->state = LIAR_UP;
	add(of(base), OL_XPORT_CONN_UP, 0, 0, 0, NULL, 0);
	return 0;
}

static void conn_reject(struct ol_xport_conn *base, const void *priv, uint32_t priv_len)
{
	struct ol_wire_reject reject;

	must(of(base)->state == LIAR_ASKS);
	must(ol_wire_reject_decode(priv, priv_len, &reject) == 0);
	if (reject.code == OL_REJECT_CHALLENGE) {
		memcpy(liar.m, reject.nonce, sizeof(liar.m));
		liar.made_ns = reject.made_ns;
	}
	conn_free(base);
}

static void conn_disconnect(struct ol_xport_conn *base)
{
	liar_down(of(base), 0, NULL, 0);
}

static int no_map(struct ol_xport_conn *conn, struct ol_xport_rkey src, uint64_t off, size_t bytes,
		  void *at)
{
	return ol_xport_no_map(conn, src, off, bytes, at);
}

/* ---- posts ---- */

/* The segments of a post must be memory that is registered, or, inline, any. Their length. */
static size_t segs_check(const struct ol_xport_seg *segs, unsigned count, bool loose)
{
	size_t total = 0;

	must(count <= OL_XPORT_SEGS_MAX);
	for (unsigned i = 0; i < count; i++) {
		const struct ol_xport_region *at = net.regions;

		total += segs[i].bytes;
		if (loose && segs[i].region == NULL)
			continue;
		while (at != segs[i].region) {
			must(at != NULL);
			at = at->next;
		}
		must(at != NULL && segs[i].off <= at->bytes &&
		     segs[i].bytes <= at->bytes - segs[i].off);
	}
	return total;
}

static uint8_t *seg_at(const struct ol_xport_seg *seg)
{
	if (seg->region == NULL)
		return (uint8_t *)(uintptr_t)seg->off;
	return (uint8_t *)seg->region->slab->addr + seg->region->off + seg->off;
}

static int post_write(struct ol_xport_conn *base, const struct ol_xport_write *write)
{
	bool is_inline = (write->flags & OL_XPORT_INLINE) != 0;
	struct liar_conn *conn = of(base);
	size_t total = segs_check(write->segs, write->seg_count, is_inline), at = 0;

	must(total <= SCRATCH_BYTES && (!is_inline || total <= INLINE_MAX));
	if (conn->state != LIAR_UP)
		return -ENOTCONN;
	if (liar.refuse > 0) {
		liar.refuse--;
		return -EAGAIN;
	}
	for (unsigned i = 0; i < write->seg_count; i++) {
		memcpy(net.scratch + at, seg_at(&write->segs[i]), write->segs[i].bytes);
		at += write->segs[i].bytes;
	}
	if ((write->flags & OL_XPORT_DOORBELL) != 0) {
		conn->imm = write->imm;
		conn->last_bytes = total < LIAR_LAST_MAX ? total : LIAR_LAST_MAX;
		memcpy(conn->last, net.scratch + total - conn->last_bytes, conn->last_bytes);
	}
	if ((write->flags & OL_XPORT_SIGNALED) != 0)
		add(conn, OL_XPORT_DONE, 0, write->cookie, 0, NULL, 0);
	if (total > 0 &&
	    (write->dst_off > write->dst.bytes || total > write->dst.bytes - write->dst_off))
		liar_down(conn, -EACCES, NULL, 0);
	return 0;
}

static int post_read(struct ol_xport_conn *base, const struct ol_xport_read *read)
{
	size_t total = segs_check(read->segs, read->seg_count, false);

	must(total > 0);
	if (of(base)->state != LIAR_UP)
		return -ENOTCONN;
	if (liar.refuse > 0 || net.read_count == READS_MAX) {
		liar.refuse -= liar.refuse > 0;
		return -EAGAIN;
	}
	net.reads[net.read_count].conn = of(base);
	net.reads[net.read_count++].read = *read;
	return 0;
}

void liar_serve(void)
{
	struct liar_conn *conn = net.reads[0].conn;
	struct ol_xport_read read = net.reads[0].read;
	size_t total = 0;

	if (net.read_count == 0)
		return;
	memmove(&net.reads[0], &net.reads[1], --net.read_count * sizeof(net.reads[0]));
	if (conn == NULL)
		return;
	for (unsigned i = 0; i < read.seg_count; i++)
		total += read.segs[i].bytes;
	if (read.src_off > read.src.bytes || total > read.src.bytes - read.src_off ||
	    read.src_off > LIAR_FAR_BYTES || total > LIAR_FAR_BYTES - read.src_off) {
		add(conn, OL_XPORT_DONE, -EACCES, read.cookie, 0, NULL, 0);
		liar_down(conn, -EACCES, NULL, 0);
		return;
	}
	for (unsigned i = 0; i < read.seg_count; i++) {
		memcpy(seg_at(&read.segs[i]), liar.far + read.src_off, read.segs[i].bytes);
		read.src_off += read.segs[i].bytes;
	}
	if ((read.flags & OL_XPORT_SIGNALED) != 0)
		add(conn, OL_XPORT_DONE, 0, read.cookie, 0, NULL, 0);
}

/* ---- the transport ---- */

static int xport_open(const struct ol_xport_opts *opts, struct ol_xport **ret_xport)
{
	(void)opts;
	must(net.xport == NULL);
	net.xport = calloc(1, sizeof(*net.xport));
	must(net.xport != NULL);
	*ret_xport = net.xport;
	return 0;
}

static void xport_close(struct ol_xport *xport)
{
	while (liar.conns != NULL)
		conn_free(&liar.conns->base);
	free(xport);
	net.xport = NULL;
}

static void xport_query(const struct ol_xport *xport, struct ol_xport_caps *ret_caps)
{
	(void)xport;
	*ret_caps = (struct ol_xport_caps){ .inline_max = INLINE_MAX,
					    .inflight_max = 256,
					    .fence_keeps = liar.keeps,
					    .write_max = SCRATCH_BYTES,
					    .numa_node = OL_SLAB_NODE_ANY };
}

static int xport_listen(struct ol_xport *xport, const char *addr, char ret_addr[OL_XPORT_ADDR_MAX])
{
	must(strlen(addr) < OL_XPORT_ADDR_MAX);
	memcpy(ret_addr, addr, strlen(addr) + 1);
	xport->listens = true;
	return 0;
}

static int xport_poll(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	int count = 0;

	(void)xport;
	liar.now_ns += liar.left > 0 ? POLL_NS : IDLE_NS;
	if (net.count == 0 && liar.turn != NULL)
		liar.turn();
	while (count < max && net.count > 0) {
		take(&events[count], net.privs[count]);
		count++;
	}
	return count;
}

static int xport_event_fd(const struct ol_xport *xport)
{
	(void)xport;
	return -1;
}

static int xport_arm(struct ol_xport *xport)
{
	(void)xport;
	return 1; /* poll instead: there is always more to say */
}

static const struct ol_xport_ops ops = {
	.size = sizeof(ops),
	.name = "shm",
	.open = xport_open,
	.close = xport_close,
	.query = xport_query,
	.counts = ol_xport_no_counts,
	.reg = region_reg,
	.dereg = region_dereg,
	.rkey = region_rkey,
	.reg_begin = ol_xport_no_reg_begin,
	.reg_run = ol_xport_no_reg_run,
	.reg_end = ol_xport_no_reg_end,
	.strip = ol_xport_no_strip,
	.drop = ol_xport_no_drop,
	.listen = xport_listen,
	.connect = conn_connect,
	.ident = conn_ident,
	.acceptor = ol_xport_no_acceptor,
	.accept = conn_accept,
	.reject = conn_reject,
	.disconnect = conn_disconnect,
	.conn_free = conn_free,
	.map = no_map,
	.post_write = post_write,
	.post_read = post_read,
	.poll = xport_poll,
	.event_fd = xport_event_fd,
	.arm = xport_arm,
};

const struct ol_xport_ops *__wrap_ol_xport_find(const char *name)
{
	(void)name;
	return &ops;
}

/* ---- the system ---- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	if (!net.active)
		return __real_clock_gettime(clock, ret_time);
	liar.now_ns += LOOK_NS;
	ret_time->tv_sec = (time_t)(liar.now_ns / OL_NS_PER_S);
	ret_time->tv_nsec = (long)(liar.now_ns % OL_NS_PER_S);
	return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags)
{
	if (!net.active)
		return __real_getrandom(bytes, count, flags);
	for (size_t i = 0; i < count; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(++net.random * 37);
	return (ssize_t)count;
}

/* Who waits for a file waits for a coordinator, which says all it has to say at once. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (!net.active)
		return __real_poll(fds, count, timeout_ms);
	liar.now_ns += IDLE_NS;
	return 0;
}

void liar_begin(const uint8_t *data, size_t bytes)
{
	memset(&liar, 0, sizeof(liar));
	liar.at = data;
	liar.left = bytes;
	liar.now_ns = OL_NS_PER_S;
	net.first = net.count = 0;
	net.read_count = 0;
	net.region_count = 0;
	net.random = 0;
	net.active = true;
}

void liar_end(void)
{
	net.active = false;
	must(net.xport == NULL && net.regions == NULL && net.slab_count == 0 && liar.conns == NULL);
}
