/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_fuzz.c -- whatever private data, events of the connection manager and messages over TCP a peer
 * brings about, the verbs transport keeps its promises about events, hands on what the peer sent as it
 * was sent, asks the adapter for nothing beyond its limits, and keeps no queue pair, id or descriptor
 *
 * Adapter and manager are made up: verbs_kernel.h. The manager tells of an id only what a kernel could
 * tell of it then. The first byte: iWARP, InfiniBand or RoCE, and which manager listens. The rest is a
 * script of the peer, of time, and of the program.
 */
#include "fuzz/verbs_kernel.h"

/* ---- the peer, by the manager ---- */

static void tell(struct id *ours, enum rdma_cm_event_type type, int status)
{
	uint8_t *priv = fuzz.privs[fuzz.priv_at++ % IDS_MAX];
	struct rdma_conn_param *param;

	if (machine.cm_count - machine.cm_first >= IDS_MAX / 2 || machine.cm_count == EVENTS_MAX)
		return;
	happens(ours->id, type);
	machine.cm[machine.cm_count - 1].status = status;
	param = &machine.cm[machine.cm_count - 1].param.conn;
	ours->priv_len = (uint8_t)take(ours->priv, byte());
	memcpy(priv, ours->priv, ours->priv_len);
	param->private_data = ours->priv_len != 0 ? priv : NULL;
	param->private_data_len = ours->priv_len;
	param->responder_resources = ours->resources;
	param->initiator_depth = ours->depth;
	param->qp_num = ours->qp_num;
}

static void cm_request(void)
{
	struct rdma_cm_id *id;
	struct id *ours;

	if (machine.listener == NULL || id_find(machine.listener) == NULL ||
	    __wrap_rdma_create_id(&machine.channel, &id, NULL, RDMA_PS_TCP) != 0)
		return;
	ours = id_find(id);
	ours->stage = ASKS;
	ours->resources = byte();
	ours->depth = byte();
	ours->qp_num = byte() + 1u;
	id->verbs = &machine.watched[byte() == 255 ? B : A];
	id->route.addr.dst_addr.sa_family = (byte() & 1) != 0 ? AF_INET6 : AF_INET;
	gid_fill(id->route.addr.addr.ibaddr.dgid.raw, HOST + 1);
	tell(ours, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (machine.cm_count == 0 || machine.cm[machine.cm_count - 1].id != id)
		(void)__wrap_rdma_destroy_id(id); /* the kernel's queue is full */
}

/* Which events may come of an id, by its stage; none of them twice in a row is promised */
static bool may_come(enum stage stage, enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return stage == CALLS && !fuzz.iwarp;
	case RDMA_CM_EVENT_ESTABLISHED:
		return stage == ANSWERED || (stage == CALLS && fuzz.iwarp);
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return stage == CALLS || stage == ANSWERED || stage == ASKS;
	case RDMA_CM_EVENT_DISCONNECTED:
		return stage == ANSWERED || stage == MADE || stage == ASKS;
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return stage != FRESH;
	case RDMA_CM_EVENT_ADDR_RESOLVED: /* the machine tells them itself */
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		break;
	}
	return false;
}

/* An event of an id: of a REJECTED, half of the time, that the peer's program did it */
static void cm_event(void)
{
	struct id *ours = &fuzz.ids[byte() % IDS_MAX];
	enum rdma_cm_event_type type = (enum rdma_cm_event_type)(byte() & 15);
	uint8_t status = byte();

	if (ours->id == NULL || ours->id == machine.listener || !may_come(ours->stage, type))
		return;
	tell(ours, type, (status & 1) != 0 ? 28 : -(int)status);
	if (type == RDMA_CM_EVENT_ESTABLISHED)
		ours->stage = MADE;
}

/* It writes before its last word arrives, or no receive of its queue pair is left to take. */
static void data_comes(void)
{
	uint8_t how = byte();
	const struct conn *ours = &fuzz.conns[how % CONNS_MAX];
	struct ibv_qp *qp = ours->conn != NULL ? ol_verbs_conn(ours->conn)->qp : NULL;

	if (qp == NULL || machine.async_told)
		return;
	machine.async = (struct ibv_async_event){
		.event_type = (how & 8) != 0 ? IBV_EVENT_QP_LAST_WQE_REACHED : IBV_EVENT_COMM_EST,
		.element.qp = qp,
	};
	machine.async_told = true;
	fd_raise(machine.ctx.async_fd);
}

/* ---- the peer, by TCP ---- */

static struct sock *sock_free(void)
{
	for (unsigned i = 0; i < SOCKS_MAX; i++) {
		if (fuzz.socks[i].fd < 0)
			return &fuzz.socks[i];
	}
	return NULL;
}

static void knock(void)
{
	struct sock *sock = sock_free();

	if (sock == NULL || !fuzz.oob || fuzz.hello_count == HELLOS_MAX)
		return;
	sock->fd = __real_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(sock->fd >= 0);
	sock->hello = fuzz.hellos[fuzz.hello_count++];
	sock->said = 0;
	if (__real_connect(sock->fd, (const void *)&fuzz.own_name, fuzz.own_bytes) != 0)
		must(errno == EAGAIN);
}

/* Where the transport calls */
static void peer_accept(void)
{
	struct sock *sock = sock_free();

	if (sock == NULL)
		return;
	sock->fd = accept4(fuzz.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	sock->hello = NULL;
}

static void say(struct sock *sock, const void *bytes, size_t count)
{
	ssize_t sent;

	if (sock->fd < 0)
		return;
	sent = send(sock->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
	for (ssize_t i = 0; i < sent && sock->hello != NULL; i++) {
		if (sock->said < sizeof(struct oob_msg))
			sock->hello[sock->said++] = ((const uint8_t *)bytes)[i];
	}
}

static void message(void)
{
	struct sock *sock = &fuzz.socks[byte() % SOCKS_MAX];
	uint8_t how = byte();
	struct oob_msg msg = { .magic = htole32(OOB_MAGIC),
			       .version = OOB_VERSION,
			       .kind = how & 7,
			       .way = OL_VERBS_WAY_IMM,
			       .qp_num = htole32(byte() + 1u),
			       .psn = htole32(5),
			       .lid = htole16(LID + 1),
			       .link_layer = fuzz.infiniband ? IBV_LINK_LAYER_INFINIBAND
							     : IBV_LINK_LAYER_ETHERNET,
			       .gid_type = fuzz.infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2,
			       .mtu = IBV_MTU_4096,
			       .reads_in = 4,
			       .reads_out = 4 };

	gid_fill(msg.gid, HOST + 1 + (how >> 5));
	msg.priv_len = (uint8_t)take(msg.priv, byte());
	for (unsigned count = byte() & 3; count > 0; count--) {
		size_t off = byte() % offsetof(struct oob_msg, priv);

		((uint8_t *)&msg)[off] = byte();
	}
	say(sock, &msg, (how & 8) != 0 ? byte() : sizeof(msg));
}

static void raw(void)
{
	uint8_t bytes[UINT8_MAX];
	struct sock *sock = &fuzz.socks[byte() % SOCKS_MAX];
	size_t count = take(bytes, byte());

	say(sock, bytes, count);
}

/* Take what the transport said: it is well made */
static void hear(void)
{
	struct sock *sock = &fuzz.socks[byte() % SOCKS_MAX];
	struct oob_msg msg;
	uint8_t gid[16];

	if (sock->fd < 0 || recv(sock->fd, &msg, sizeof(msg), MSG_DONTWAIT) != (ssize_t)sizeof(msg))
		return;
	must(le32toh(msg.magic) == OOB_MAGIC && msg.version == OOB_VERSION);
	must(msg.kind >= OOB_HELLO && msg.kind <= OOB_CONFIRM);
	must((msg.kind == OOB_HELLO) <= (sock->hello == NULL));
	must(msg.kind != OOB_HELLO || msg.priv_len == sizeof(struct ol_xport_ident));
	if (msg.kind != OOB_HELLO && msg.kind != OOB_ANSWER)
		return;
	must(le32toh(msg.qp_num) <= OOB_PSN_MASK && le32toh(msg.psn) <= OOB_PSN_MASK);
	must(msg.reads_in >= 1 && msg.reads_in <= READS_MAX && msg.reads_out >= 1 &&
	     msg.reads_out <= READS_MAX && msg.mtu == IBV_MTU_1024);
	gid_fill(gid, HOST);
	must(memcmp(msg.gid, gid, sizeof(gid)) == 0 || msg.gid[0] == 0xfe);
}

static void hang_up(void)
{
	struct sock *sock = &fuzz.socks[byte() % SOCKS_MAX];

	if (sock->fd >= 0)
		close(sock->fd);
	sock->fd = -1;
}

/* ---- the program ---- */

static struct conn *conn_find(const struct ol_xport_conn *conn)
{
	for (unsigned i = 0; i < CONNS_MAX; i++) {
		if (fuzz.conns[i].conn == conn)
			return &fuzz.conns[i];
	}
	return NULL;
}

/* What a request says is what the peer sent, and its end is where the peer is. */
static void request_check(const struct ol_xport_event *event)
{
	const struct ol_verbs_conn *conn = ol_verbs_conn(event->conn);
	const struct id *ours;
	struct ol_xport_ident ident;
	bool found = false;
	uint32_t number;

	must(event->priv_len <= OL_XPORT_PRIV_CONNECT_MAX);
	X->ident(event->conn, &ident);
	memcpy(&number, ident.bytes + 16, sizeof(number));
	number = ntohl(number);
	if (conn->id != NULL) {
		ours = id_find(conn->id);
		must(ours != NULL);
		must(fuzz.iwarp ? number == 0 : number == ours->qp_num);
		return;
	}
	for (unsigned i = 0; i < fuzz.hello_count && !found; i++) {
		struct oob_msg msg;

		memcpy(&msg, fuzz.hellos[i], sizeof(msg));
		found = msg.kind == OOB_HELLO && msg.priv_len == event->priv_len &&
			le32toh(msg.qp_num) == number &&
			memcmp(msg.priv, event->priv, msg.priv_len) == 0 &&
			memcmp(msg.gid, ident.bytes, sizeof(msg.gid)) == 0;
	}
	must(found);
}

static void forget(struct conn *ours)
{
	X->conn_free(ours->conn);
	*ours = (struct conn){ .conn = NULL };
}

static void decide(struct conn *ours, uint8_t how)
{
	static const uint8_t priv[OL_XPORT_PRIV_ACCEPT_MAX] = { 'y', 'e', 's' };

	ours->waits = false;
	if ((how & 1) == 0) {
		X->reject(ours->conn, priv, how >> 1);
		*ours = (struct conn){ .conn = NULL };
	} else if (X->accept(ours->conn, priv, how >> 1) != 0) {
		forget(ours);
	}
}

static void on_request(const struct ol_xport_event *event)
{
	struct conn *ours = conn_find(NULL);

	request_check(event);
	must(ours != NULL && conn_find(event->conn) == NULL);
	*ours = (struct conn){ .conn = event->conn, .waits = true };
	if ((byte() & 3) != 0)
		decide(ours, byte());
}

/* The statuses that transport.h names, and a reason only where the peer's program gave one */
static void down_check(const struct ol_xport_event *event)
{
	static const int all[] = { 0,          -ECONNREFUSED, -EUSERS, -EOPNOTSUPP, -EHOSTUNREACH,
				   -ETIMEDOUT, -EACCES,       -EMFILE, -EIO };
	bool known = false;

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		known = known || event->status == all[i];
	must(known);
	must(event->priv_len <= OL_XPORT_PRIV_REJECT_MAX);
	must(event->priv_len == 0 || event->status == -ECONNREFUSED);
}

static void on_event(const struct ol_xport_event *event)
{
	struct conn *ours = conn_find(event->conn);

	if (event->type == OL_XPORT_CONN_REQUEST) {
		on_request(event);
		return;
	}
	must(ours != NULL);
	must(event->type == OL_XPORT_CONN_UP || event->type == OL_XPORT_CONN_DOWN);
	if (event->type == OL_XPORT_CONN_UP) {
		must(!ours->up && !ours->waits && event->priv_len <= UINT8_MAX);
		ours->up = true;
		return;
	}
	down_check(event);
	forget(ours);
}

static void look(void)
{
	struct ol_xport_event events[POLL_MAX];
	int count;

	(void)X->arm(fuzz.xport); /* the next poll looks at the descriptors */
	count = X->poll(fuzz.xport, events, 1 + byte() % POLL_MAX);
	must(count >= 0);
	for (int i = 0; i < count; i++) {
		/* an event of a connection that the program has just freed is no event */
		if (events[i].type == OL_XPORT_CONN_REQUEST || conn_find(events[i].conn) != NULL)
			on_event(&events[i]);
	}
}

static void seal_make(void *arg, const struct ol_xport_ident *ident, void *priv, uint32_t priv_len)
{
	(void)arg;
	must(priv_len == sizeof(ident->bytes));
	memcpy(priv, ident->bytes, sizeof(ident->bytes));
}

static void call(void)
{
	static const uint8_t empty[sizeof(struct ol_xport_ident)];
	const struct ol_xport_seal seal = { .make = seal_make };
	struct conn *ours = conn_find(NULL);
	const char *addr = (byte() & 1) != 0 ? "oob:10.0.0.2:1" : "10.0.0.2:1";

	if (ours != NULL &&
	    X->connect(fuzz.xport, addr, empty, sizeof(empty), &seal, &ours->conn) != 0)
		ours->conn = NULL;
}

static void answer(void)
{
	struct conn *ours = &fuzz.conns[byte() % CONNS_MAX];

	if (ours->conn != NULL && ours->waits)
		decide(ours, byte());
}

static void drop(void)
{
	struct conn *ours = &fuzz.conns[byte() % CONNS_MAX];

	if (ours->conn == NULL)
		return;
	if ((byte() & 1) != 0) {
		ours->waits = false;
		X->disconnect(ours->conn);
	} else {
		forget(ours);
	}
}

static void time_passes(void)
{
	fuzz.now_ns += (uint64_t)byte() * 100000000;
}

/* ---- both ---- */

static int unix_listener(struct sockaddr_un *ret_name, socklen_t *ret_bytes)
{
	static const sa_family_t family = AF_UNIX;
	int fd = __real_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*ret_bytes = sizeof(*ret_name);
	must(fd >= 0 && __real_bind(fd, (const void *)&family, sizeof(family)) == 0 &&
	     listen(fd, SOCKS_MAX) == 0 &&
	     __real_getsockname(fd, (void *)ret_name, ret_bytes) == 0);
	return fd;
}

static void xport_log(void *arg, enum ol_xport_log_level level, const char *text)
{
	(void)level;
	log_drop(arg, OL_LOG_INFO, text);
}

static void begin(void)
{
	uint8_t how = byte();
	char addr[OL_XPORT_ADDR_MAX];
	struct ol_xport_opts opts;

	fuzz.now_ns = UINT64_C(1000000000000);
	fuzz.infiniband = (how & 3) == 1;
	fuzz.iwarp = (how & 3) == 2;
	fuzz.oob = (how & 4) != 0 && !fuzz.iwarp;
	memset(&machine, 0, sizeof(machine));
	for (int i = 0; i < DEVICES; i++) {
		machine.devices[i].name[0] = (char)('a' + i);
		machine.devices[i].transport_type =
			fuzz.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
		machine.list[i] = &machine.devices[i];
		machine.watched[i].device = &machine.devices[i];
	}
	for (unsigned i = 0; i < SOCKS_MAX; i++)
		fuzz.socks[i].fd = -1;
	fuzz.listener = unix_listener(&fuzz.peer_name, &fuzz.peer_bytes);
	ol_xport_opts_init(&opts);
	opts.conns_max = CONNS_MAX;
	opts.inflight_max = 16;
	opts.doorbells_max = 16;
	opts.log = xport_log;
	must(X->open(&opts, &fuzz.xport) == 0);
	must(X->listen(fuzz.xport, fuzz.oob ? "oob:10.0.0.1:1" : "10.0.0.1:1", addr) == 0);
}

static void end(void)
{
	struct ol_xport_counts counts;

	for (unsigned i = 0; i < CONNS_MAX; i++) {
		if (fuzz.conns[i].conn != NULL)
			forget(&fuzz.conns[i]);
	}
	X->counts(fuzz.xport, &counts);
	must(counts.regions == 0 && counts.conns <= CONNS_MAX);
	X->close(fuzz.xport);
	for (unsigned i = 0; i < SOCKS_MAX; i++) {
		if (fuzz.socks[i].fd >= 0)
			close(fuzz.socks[i].fd);
	}
	close(fuzz.listener);
	/* ids of requests that nobody has heard of */
	for (unsigned i = 0; i < IDS_MAX; i++) {
		if (fuzz.ids[i].id != NULL) {
			must(fuzz.ids[i].stage == ASKS);
			(void)__wrap_rdma_destroy_id(fuzz.ids[i].id);
		}
	}
	must(machine.things == 0);
}

static void step(void)
{
	static void (*const steps[])(void) = { look,        cm_request, cm_event, knock,
					       message,     raw,        hear,     hang_up,
					       peer_accept, call,       answer,   drop,
					       time_passes, look,       message,  data_comes };

	steps[byte() % (sizeof(steps) / sizeof(steps[0]))]();
}

/* The lowest descriptor that is free: as before, if none was kept */
static int lowest_fd(void)
{
	int fd = dup(STDERR_FILENO);

	must(fd >= 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	int lowest = lowest_fd();

	if (bytes > INPUT_MAX)
		return 0;
	memset(&fuzz, 0, sizeof(fuzz));
	fuzz.at = data;
	fuzz.left = bytes;
	begin();
	while (fuzz.left > 0)
		step();
	look();
	end();
	fuzz.now_ns = 0;
	must(lowest_fd() == lowest);
	return 0;
}
