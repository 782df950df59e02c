/* SPDX-License-Identifier: BSD-3-Clause */

/* net.c -- ends of connections: connecting, events, the end */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/net.h"
#include "sim/world/rival.h"
#include "sim/world/wrap.h"

enum {
	GARBAGE_BYTES = 17, /* behind what a peer said, as on verbs */
	QUIET_MAX = 1000, /* polls in a row that give nothing, more than before any sleep */
};

static struct {
	struct ol_xport *all;
	bool cut[SIM_PLACES_MAX][SIM_PLACES_MAX];
	bool lost[SIM_PLACES_MAX];
	unsigned ends;
} net;

void net_begin(void)
{
	memset(&net, 0, sizeof(net));
	net_flow_begin();
	net_memory_begin();
}

uint64_t net_delay(void)
{
	uint64_t usual = sim_nature.net_ns;

	if (sim_ppm(sim_nature.net_slow_ppm))
		return sim_between(usual, 100 * usual);
	return sim_between(usual / 4, usual);
}

/* ---- who reaches whom ---- */

uint32_t net_place(const struct net_end *end)
{
	return sim_process_place(end->xport->process);
}

bool net_is_cut(uint32_t a, uint32_t b)
{
	return net.cut[a][b] || net.lost[a] || net.lost[b];
}

bool net_path(const struct net_end *end)
{
	return !net_is_cut(net_place(end), net_place(end->peer));
}

bool net_path_back(const struct net_end *end)
{
	return !net_is_cut(net_place(end->peer), net_place(end));
}

void net_resume(void)
{
	for (struct ol_xport *xport = net.all; xport != NULL; xport = xport->next) {
		for (struct net_end *end = xport->ends; end != NULL; end = end->next)
			net_pump(end);
	}
}

void net_cut(uint32_t a, uint32_t b, bool cut)
{
	net.cut[a][b] = cut;
	if (!cut)
		net_resume();
}

void net_host_lost(uint32_t place, bool lost)
{
	net.lost[place] = lost;
	if (!lost)
		net_resume();
}

void net_heal(void)
{
	memset(net.cut, 0, sizeof(net.cut));
	memset(net.lost, 0, sizeof(net.lost));
	net_resume();
}

/* An address may move to another host while somebody still listens at the first */
static bool net_listens(const char *addr, uint32_t place)
{
	for (const struct ol_xport *xport = net.all; xport != NULL; xport = xport->next) {
		if (xport->open && strcmp(xport->addr, addr) == 0 &&
		    sim_process_place(xport->process) == place)
			return true;
	}
	return false;
}

struct ol_xport *net_listener(const char *addr)
{
	for (struct ol_xport *xport = net.all; xport != NULL; xport = xport->next) {
		if (xport->open && strcmp(xport->addr, addr) == 0)
			return xport;
	}
	return NULL;
}

/* ---- events ---- */

void net_event_add(struct net_end *end, enum ol_xport_event_type type, int status, uint32_t imm,
		   uint64_t cookie, const void *priv, uint32_t priv_len)
{
	struct ol_xport *xport = end->xport;
	struct net_event *event;

	if (end->gone || !xport->open)
		return;
	event = __real_calloc(1, sizeof(*event));
	if (event == NULL)
		abort();
	event->event = (struct ol_xport_event){ .type = type,
						.status = status,
						.imm = imm,
						.cookie = cookie,
						.conn = &end->conn->base };
	event->end = end;
	if (priv_len > 0) {
		memcpy(event->priv, priv, priv_len);
		event->priv_len = priv_len + GARBAGE_BYTES;
		for (uint32_t i = priv_len; i < event->priv_len; i++)
			event->priv[i] = (uint8_t)sim_random();
	}
	if (xport->last != NULL)
		xport->last->next = event;
	else
		xport->first = event;
	xport->last = event;
	if (++xport->event_count > NET_EVENTS_MAX)
		sim_fail("check_bounded", "%s has %u events that it has not polled",
			 sim_process_name(xport->process), xport->event_count);
	if (!xport->armed)
		return;
	*sim_fd_count(xport->fd) = 1;
	sim_fd_wake(xport->fd);
}

/* No event of this end, or of nobody any more, is to come */
static void events_drop(struct ol_xport *xport, const struct net_end *end)
{
	struct net_event **at = &xport->first;

	xport->last = NULL;
	while (*at != NULL) {
		struct net_event *event = *at;

		if (end == NULL || event->end == end) {
			*at = event->next;
			xport->event_count--;
			__real_free(event);
		} else {
			xport->last = event;
			at = &event->next;
		}
	}
}

static void privs_free(struct ol_xport *xport)
{
	while (xport->priv_count > 0)
		__real_free(xport->privs[--xport->priv_count]);
}

static int net_poll(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	int count = 0;

	xport->armed = false;
	*sim_fd_count(xport->fd) = 0;
	privs_free(xport);
	if (xport->first == NULL) {
		if (++xport->quiet % QUIET_MAX == 0) /* it spins: others have processors too */
			sim_pause(SIM_US);
		return 0;
	}
	xport->quiet = 0;
	sim_preempt(sim_nature.preempt_ppm);
	if (max > 64)
		max = 64;
	if (sim_ppm(200000))
		max = 1 + (int)sim_below((uint32_t)max);
	while (count < max && xport->first != NULL) {
		struct net_event *event = xport->first;

		events[count] = event->event;
		if (event->priv_len > 0) {
			uint8_t *priv = __real_malloc(event->priv_len);

			memcpy(priv, event->priv, event->priv_len);
			events[count].priv = xport->privs[xport->priv_count++] = priv;
			events[count].priv_len = event->priv_len;
		}
		if (event->event.type == OL_XPORT_DOORBELL_RUNG)
			event->end->bells--;
		xport->first = event->next;
		if (xport->first == NULL)
			xport->last = NULL;
		xport->event_count--;
		__real_free(event);
		count++;
	}
	return count;
}

static int net_event_fd(const struct ol_xport *xport)
{
	return xport->fd;
}

static int net_arm(struct ol_xport *xport)
{
	xport->quiet = 0;
	xport->arms++;
	if (xport->first != NULL || sim_ppm(5000))
		return 1;
	xport->armed = true;
	return 0;
}

/* ---- ends ---- */

static struct net_end *end_make(struct ol_xport *xport, enum net_state state)
{
	struct net_end *end = sim_alloc(sizeof(*end));

	end->conn = __real_calloc(1, sizeof(*end->conn));
	if (end->conn == NULL)
		abort();
	end->conn->base.xport = xport;
	end->conn->end = end;
	end->xport = xport;
	end->state = state;
	end->number = ++net.ends;
	end->lands_late = sim_ppm(300000);
	end->next = xport->ends;
	xport->ends = end;
	xport->conns++;
	return end;
}

void net_end_down(struct net_end *end, int status, const void *priv, uint32_t priv_len)
{
	if (end->gone || end->state == NET_DOWN)
		return;
	sim_say("end %u of %s is down: %d", end->number, sim_process_name(end->xport->process),
		status);
	net_flush(end, status != 0 ? status : -ECONNABORTED);
	end->state = NET_DOWN;
	net_event_add(end, OL_XPORT_CONN_DOWN, status, 0, 0, priv, priv_len);
}

static void heard(void *arg, uint64_t tag)
{
	struct net_end *end = arg;

	(void)tag;
	if (!end->gone && (end->state == NET_UP || end->state == NET_ANSWERED) &&
	    net_path_back(end))
		net_end_down(end, 0, NULL, 0);
}

void net_end_tell(struct net_end *end)
{
	uint64_t delay_ns = net_delay();

	if (end->told || end->peer == NULL)
		return;
	end->told = true;
	if (sim_ppm(sim_nature.late_down_ppm))
		delay_ns += sim_between(0, sim_nature.late_down_ns);
	if (!end->silent)
		sim_at(delay_ns, heard, end->peer, 0);
}

void net_end_leave(struct net_end *end, bool tell)
{
	if (end->gone)
		return;
	if (end->xport->open)
		events_drop(end->xport, end);
	end->silent = !tell;
	net_flush(end, 0);
	end->gone = true;
	__real_free(end->conn);
	end->conn = NULL;
	end->xport->conns--;
	if (!tell)
		end->told = true;
	net_pump(end);
}

static void net_conn_free(struct ol_xport_conn *conn)
{
	struct net_end *end = ((struct net_conn *)conn)->end;

	sim_say("frees end %u", end->number);
	net_end_leave(end, true);
}

static void net_disconnect(struct ol_xport_conn *conn)
{
	struct net_end *end = ((struct net_conn *)conn)->end;

	net_end_tell(end);
	net_end_down(end, 0, NULL, 0);
}

/* ---- beginning ---- */

static void answered(void *arg, uint64_t tag)
{
	struct net_end *end = arg, *peer = end->peer;

	(void)tag;
	if (end->gone || end->state != NET_CALLS || peer->gone || !net_path_back(end))
		return;
	if (peer->state == NET_DOWN)
		return;
	end->state = NET_UP;
	sim_say("end %u of %s is up with end %u of %s", end->number,
		sim_process_name(end->xport->process), peer->number,
		sim_process_name(peer->xport->process));
	net_event_add(end, OL_XPORT_CONN_UP, 0, 0, 0, peer->priv, peer->priv_len);
}

/* The acceptor knows that its answer has arrived */
static void agreed(void *arg, uint64_t tag)
{
	struct net_end *end = arg;

	(void)tag;
	if (end->gone || end->state != NET_ANSWERED || end->peer->state != NET_UP ||
	    end->peer->gone || !net_path_back(end))
		return;
	end->state = NET_UP;
	net_event_add(end, OL_XPORT_CONN_UP, 0, 0, 0, NULL, 0);
}

static void answer_late(void *arg, uint64_t tag)
{
	struct net_end *end = arg;

	(void)tag;
	if (!end->gone && end->state == NET_ANSWERED)
		net_end_down(end, -ETIMEDOUT, NULL, 0);
}

static void call_late(void *arg, uint64_t tag)
{
	struct net_end *end = arg;

	(void)tag;
	if (!end->gone && end->state == NET_CALLS)
		net_end_down(end, -ETIMEDOUT, NULL, 0);
}

static void turned_away(void *arg, uint64_t tag)
{
	struct net_end *end = arg;
	const struct net_end *peer = end->peer;

	(void)tag;
	if (end->gone || end->state != NET_CALLS)
		return;
	if (peer != NULL && net_path_back(end))
		net_end_down(end, -ECONNREFUSED, peer->priv, peer->priv_len);
	else if (peer == NULL)
		net_end_down(end, -ECONNREFUSED, NULL, 0);
}

/* Who listens there; NULL: nobody does */
static struct ol_xport *net_callee(const struct net_end *end)
{
	struct ol_xport *old = rival_called(end->xport->process, end->addr);

	return old != NULL ? old : net_listener(end->addr);
}

static void called(void *arg, uint64_t tag)
{
	struct net_end *end = arg, *peer;
	struct ol_xport *listener = net_callee(end);

	(void)tag;
	if (end->gone || end->state != NET_CALLS)
		return;
	if (listener == NULL) {
		unsigned place = SIM_PLACES_MAX;

		/* a host that is lost says nothing; one that lives says that nobody listens */
		if (sscanf(end->addr, "@sim-%u", &place) == 1 && place < SIM_PLACES_MAX &&
		    net_is_cut(net_place(end), place))
			return;
		sim_at(net_delay(), turned_away, end, 0);
		return;
	}
	if (net_is_cut(net_place(end), sim_process_place(listener->process)))
		return;
	if (listener->conns >= listener->opts.conns_max) {
		sim_at(net_delay(), turned_away, end, 0);
		return;
	}
	peer = end_make(listener, NET_ASKED);
	peer->peer = end;
	end->peer = peer;
	net_event_add(peer, OL_XPORT_CONN_REQUEST, 0, 0, 0, end->priv, end->priv_len);
}

/* A call has a number of its own, which both ends see. */
static void net_ident(const struct ol_xport_conn *conn, struct ol_xport_ident *ret_ident)
{
	const struct net_end *end = ((const struct net_conn *)conn)->end;
	const uint32_t number = end->caller ? end->number : end->peer->number;

	memset(ret_ident, 0, sizeof(*ret_ident));
	memcpy(ret_ident->bytes, &number, sizeof(number));
}

static int net_acceptor(struct ol_xport_conn *conn, struct ol_xport_ident *ret_ident)
{
	const struct net_end *end = ((struct net_conn *)conn)->end;
	const uint32_t number = end->caller ? end->peer->number : end->number;

	memset(ret_ident, 0, sizeof(*ret_ident));
	memcpy(ret_ident->bytes, &number, sizeof(number));
	return 0;
}

static int net_connect(struct ol_xport *xport, const char *addr, const void *priv,
		       uint32_t priv_len, const struct ol_xport_seal *seal,
		       struct ol_xport_conn **ret_conn)
{
	struct ol_xport_ident ident;
	struct net_end *end;

	if (xport->conns >= xport->opts.conns_max)
		return -EAGAIN;
	if (sim_ppm(sim_nature.again_ppm / 4) && net_listener(addr) == NULL)
		return -ECONNREFUSED;
	end = end_make(xport, NET_CALLS);
	end->caller = true;
	snprintf(end->addr, sizeof(end->addr), "%s", addr);
	memcpy(end->priv, priv, priv_len);
	end->priv_len = priv_len;
	if (seal != NULL) {
		net_ident(&end->conn->base, &ident);
		seal->make(seal->arg, &ident, end->priv, priv_len);
	}
	sim_say("end %u calls %s", end->number, addr);
	sim_at(net_delay(), called, end, 0);
	sim_at(xport->opts.connect_timeout_ms * SIM_MS, call_late, end, 0);
	*ret_conn = &end->conn->base;
	return 0;
}

static int net_accept(struct ol_xport_conn *conn, const void *priv, uint32_t priv_len)
{
	struct net_end *end = ((struct net_conn *)conn)->end;

	if (end->state != NET_ASKED)
		return -ENOTCONN;
	if (end->peer->gone && sim_ppm(500000))
		return -ENOTCONN;
	memcpy(end->priv, priv, priv_len);
	end->priv_len = priv_len;
	end->state = NET_ANSWERED;
	sim_at(net_delay(), answered, end->peer, 0);
	sim_at(3 * net_delay() + 100 * SIM_US, agreed, end, 0);
	sim_at(end->xport->opts.connect_timeout_ms * SIM_MS, answer_late, end, 0);
	return 0;
}

static void net_reject(struct ol_xport_conn *conn, const void *priv, uint32_t priv_len)
{
	struct net_end *end = ((struct net_conn *)conn)->end;

	memcpy(end->priv, priv, priv_len);
	end->priv_len = priv_len;
	sim_at(net_delay(), turned_away, end->peer, 0);
	net_end_leave(end, true);
}

/* ---- transports ---- */

static int net_open(const struct ol_xport_opts *opts, struct ol_xport **ret_xport)
{
	struct ol_xport *xport = sim_alloc(sizeof(*xport));

	xport->process = sim_process_self();
	xport->opts = *opts;
	if (xport->opts.inflight_max == 0)
		xport->opts.inflight_max = 256;
	if (xport->opts.doorbells_max == 0)
		xport->opts.doorbells_max = 64;
	if (xport->opts.conns_max == 0)
		xport->opts.conns_max = 128;
	if (xport->opts.retry_timeout_ms == 0)
		xport->opts.retry_timeout_ms = 500;
	if (xport->opts.connect_timeout_ms == 0)
		xport->opts.connect_timeout_ms = 3000;
	xport->fd = sim_fd_open();
	xport->open = true;
	xport->next = net.all;
	net.all = xport;
	*ret_xport = xport;
	return 0;
}

static void xport_end(struct ol_xport *xport, bool tell)
{
	for (struct net_end *end = xport->ends; end != NULL; end = end->next)
		net_end_leave(end, tell);
	events_drop(xport, NULL);
	privs_free(xport);
	xport->open = false;
}

static void net_close(struct ol_xport *xport)
{
	xport_end(xport, true);
	if (xport->regions != NULL)
		sim_fail("check_misuse", "a transport is closed that has regions");
	sim_fd_close(xport->fd);
}

void net_process_gone(const struct sim_process *process, bool host)
{
	for (struct ol_xport *xport = net.all; xport != NULL; xport = xport->next) {
		if (xport->open && xport->process == process)
			xport_end(xport, !host);
	}
	net_slabs_gone(process);
}

void net_adapter_fails(const struct sim_process *process)
{
	for (struct ol_xport *xport = net.all; xport != NULL; xport = xport->next) {
		for (struct net_end *end = xport->ends; end != NULL && xport->process == process;
		     end = end->next) {
			if (!xport->open || end->gone || end->state == NET_DOWN ||
			    end->state == NET_ASKED)
				continue;
			net_end_tell(end);
			net_end_down(end, -EIO, NULL, 0);
		}
	}
}

static void net_query(const struct ol_xport *xport, struct ol_xport_caps *ret_caps)
{
	*ret_caps = (struct ol_xport_caps){ .inline_max = NET_INLINE_MAX,
					    .inflight_max = xport->opts.inflight_max,
					    .fence_keeps = sim_nature.fence_keeps,
					    .write_max = UINT32_MAX,
					    .numa_node = OL_SLAB_NODE_ANY };
}

static int net_listen(struct ol_xport *xport, const char *addr, char ret_addr[OL_XPORT_ADDR_MAX])
{
	if (net_listens(addr, sim_process_place(xport->process)))
		return -EADDRINUSE;
	snprintf(xport->addr, sizeof(xport->addr), "%s", addr);
	memcpy(ret_addr, xport->addr, OL_XPORT_ADDR_MAX);
	return 0;
}

const struct ol_xport_ops net_ops = {
	.size = sizeof(struct ol_xport_ops),
	.name = "sim",
	.open = net_open,
	.close = net_close,
	.query = net_query,
	.counts = ol_xport_no_counts,
	.reg = net_reg,
	.dereg = net_dereg,
	.rkey = net_rkey,
	.reg_begin = ol_xport_no_reg_begin,
	.reg_run = ol_xport_no_reg_run,
	.reg_end = ol_xport_no_reg_end,
	.strip = ol_xport_no_strip,
	.drop = ol_xport_no_drop,
	.listen = net_listen,
	.connect = net_connect,
	.ident = net_ident,
	.acceptor = net_acceptor,
	.accept = net_accept,
	.reject = net_reject,
	.disconnect = net_disconnect,
	.conn_free = net_conn_free,
	.map = ol_xport_no_map,
	.post_write = net_post_write,
	.post_read = net_post_read,
	.poll = net_poll,
	.event_fd = net_event_fd,
	.arm = net_arm,
};

WRAP(const struct ol_xport_ops *, ol_xport_find, const char *name);

const struct ol_xport_ops *__wrap_ol_xport_find(const char *name)
{
	return strcmp(name, "sim") == 0 ? &net_ops : __real_ol_xport_find(name);
}
