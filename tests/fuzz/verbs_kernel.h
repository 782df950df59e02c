/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_kernel.h -- the machine of unit/rdma/verbs_machine.h for verbs_fuzz.c: what the product asks of the
 * system, the adapter and the connection manager, and what each of them would refuse
 *
 * Its time is the script's. Sockets of TCP are local ones; this machine is 10.0.0.1, the peer 10.0.0.2.
 */
#ifndef OL_TESTS_FUZZ_VERBS_KERNEL_H
#define OL_TESTS_FUZZ_VERBS_KERNEL_H

#include <endian.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "rdma/verbs/oob.h"
#include "support/fuzz.h"
#include "support/wrap.h"
#include "unit/rdma/verbs_machine.h"

enum {
	CONNS_MAX = 4,
	IDS_MAX = 8,
	SOCKS_MAX = 3,
	HELLOS_MAX = 64,
	POLL_MAX = 8,
	SENDS_MAX = 16,
	INPUT_MAX = 2048,
	READS_MAX = 16, /* of the machine's device */
	GIDS = 3,
	LID = 7,
	HOST = 0x0a000001, /* 10.0.0.1 */
};

#define X (&ol_xport_verbs)

/* What a kernel may tell of an id */
enum stage {
	FRESH, /* a listener, or its address and route are looked for */
	CALLS, /* the peer is asked */
	ASKS, /* a request of the peer */
	ANSWERED, /* it was accepted */
	MADE,
};

struct id {
	struct rdma_cm_id *id; /* NULL: no such */
	enum stage stage;
	uint8_t resources, depth; /* of a request: what the peer asks for */
	uint32_t qp_num;
	uint8_t priv_len;
	uint8_t priv[UINT8_MAX];
};

struct sock {
	int fd; /* -1: closed */
	uint8_t *hello; /* its first bytes; NULL: it was called */
	size_t said;
};

struct conn {
	struct ol_xport_conn *conn; /* NULL: no such */
	bool waits; /* for the program to accept or reject it */
	bool up;
};

static struct {
	const uint8_t *at; /* the input */
	size_t left;
	uint64_t now_ns;
	bool iwarp, infiniband, oob;
	struct ol_xport *xport;
	struct conn conns[CONNS_MAX];
	struct id ids[IDS_MAX];
	struct sock socks[SOCKS_MAX];
	uint8_t hellos[HELLOS_MAX][sizeof(struct oob_msg)];
	unsigned hello_count;
	int listener; /* the peer's */
	struct sockaddr_un peer_name, own_name;
	socklen_t peer_bytes, own_bytes;
	uint64_t sent[SENDS_MAX]; /* requests of queue pairs, without a completion yet */
	uint32_t sent_by[SENDS_MAX];
	unsigned sent_count;
	uint8_t privs[IDS_MAX][UINT8_MAX]; /* of events that were not taken yet */
	unsigned priv_at;
} fuzz;

static uint8_t byte(void)
{
	if (fuzz.left == 0)
		return 0;
	fuzz.left--;
	return *fuzz.at++;
}

static size_t take(void *to, size_t bytes)
{
	if (bytes > fuzz.left)
		bytes = fuzz.left;
	if (bytes > 0)
		memcpy(to, fuzz.at, bytes);
	fuzz.at += bytes;
	fuzz.left -= bytes;
	return bytes;
}

/* ---- the system ---- */

WRAP(int, clock_gettime, clockid_t clock, struct timespec *ret_time)
{
	if (fuzz.now_ns == 0) /* libFuzzer's own */
		return __real_clock_gettime(clock, ret_time);
	fuzz.now_ns += 1000;
	ret_time->tv_sec = (time_t)(fuzz.now_ns / 1000000000);
	ret_time->tv_nsec = (long)(fuzz.now_ns % 1000000000);
	return 0;
}

WRAP(int, ppoll, struct pollfd *fds, nfds_t count, const struct timespec *wait,
     const sigset_t *signals)
{
	(void)fds;
	(void)count;
	(void)wait;
	(void)signals;
	fuzz.now_ns += UINT64_C(100000000);
	return 0;
}

WRAP(int, socket, int family, int type, int protocol)
{
	return __real_socket(family == AF_INET ? AF_UNIX : family, type, protocol);
}

WRAP(int, bind, int fd, const struct sockaddr *addr, socklen_t bytes)
{
	static const sa_family_t family = AF_UNIX; /* without a name: the kernel gives one */
	int rc;

	if (addr->sa_family != AF_INET)
		return __real_bind(fd, addr, bytes);
	rc = __real_bind(fd, (const void *)&family, sizeof(family));
	fuzz.own_bytes = sizeof(fuzz.own_name);
	return rc != 0 ? rc : getsockname(fd, (void *)&fuzz.own_name, &fuzz.own_bytes);
}

WRAP(int, connect, int fd, const struct sockaddr *addr, socklen_t bytes)
{
	if (addr->sa_family != AF_INET)
		return __real_connect(fd, addr, bytes);
	return __real_connect(fd, (const void *)&fuzz.peer_name, fuzz.peer_bytes);
}

static int host_is(struct sockaddr *ret_addr, socklen_t *ret_bytes, uint32_t host)
{
	const struct sockaddr_in in = { .sin_family = AF_INET,
					.sin_port = htons(1),
					.sin_addr.s_addr = htonl(host) };

	must(*ret_bytes >= sizeof(in));
	memcpy(ret_addr, &in, sizeof(in));
	*ret_bytes = sizeof(in);
	return 0;
}

WRAP(int, getsockname, int fd, struct sockaddr *ret_addr, socklen_t *ret_bytes)
{
	if (ret_addr == (void *)&fuzz.own_name || ret_addr == (void *)&fuzz.peer_name)
		return __real_getsockname(fd, ret_addr, ret_bytes);
	return host_is(ret_addr, ret_bytes, HOST);
}

WRAP(int, getpeername, int fd, struct sockaddr *ret_addr, socklen_t *ret_bytes)
{
	(void)fd;
	return host_is(ret_addr, ret_bytes, HOST + 1);
}

/* ---- the adapter ---- */

WRAP(int, ibv_query_port, struct ibv_context *ctx, uint8_t port,
     struct _compat_ibv_port_attr *compat)
{
	const struct ibv_port_attr attr = {
		.state = IBV_PORT_ACTIVE,
		.active_mtu = IBV_MTU_1024,
		.max_msg_sz = 1 << 30,
		.gid_tbl_len = GIDS,
		.lid = LID,
		.link_layer = fuzz.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET,
	};

	(void)ctx;
	must(port == 1);
	memcpy(compat, &attr, sizeof(attr));
	return 0;
}

/* IPv4 by both versions of RoCE, and a link-local address; of InfiniBand the first alone counts */
static void gid_fill(uint8_t gid[16], uint32_t host)
{
	const uint32_t wire = htonl(host);

	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &wire, sizeof(wire));
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *ret_entry, uint32_t flags, size_t bytes)
{
	(void)ctx;
	(void)flags;
	must(port == 1 && index < GIDS && bytes == sizeof(*ret_entry));
	*ret_entry = (struct ibv_gid_entry){ .gid_index = index, .port_num = port };
	ret_entry->gid_type = fuzz.infiniband ? IBV_GID_TYPE_IB
			      : index == 0    ? IBV_GID_TYPE_ROCE_V1
					      : IBV_GID_TYPE_ROCE_V2;
	gid_fill(ret_entry->gid.raw, HOST);
	if (index == 2) {
		memset(ret_entry->gid.raw, 0, 16);
		ret_entry->gid.raw[0] = 0xfe;
		ret_entry->gid.raw[1] = 0x80;
		ret_entry->gid.raw[15] = 1;
	}
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	(void)qp;
	(void)mask;
	(void)init;
	attr->qp_state = machine.in_error ? IBV_QPS_ERR : IBV_QPS_RTS;
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	must(ece->vendor_id != 0);
	return (byte() & 1) != 0 ? EINVAL : 0;
}

WRAP(int, ibv_query_ece, struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	*ece = (struct ibv_ece){ .vendor_id = 1, .options = 2 };
	return (byte() & 1) != 0 ? EOPNOTSUPP : 0;
}

/* What a device would refuse, or take for something else */
WRAP(int, ibv_modify_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	must(qp != NULL);
	must((mask & IBV_QP_DEST_QPN) == 0 || attr->dest_qp_num <= OOB_PSN_MASK);
	must((mask & IBV_QP_RQ_PSN) == 0 || attr->rq_psn <= OOB_PSN_MASK);
	must((mask & IBV_QP_SQ_PSN) == 0 || attr->sq_psn <= OOB_PSN_MASK);
	must((mask & IBV_QP_PATH_MTU) == 0 ||
	     (attr->path_mtu >= IBV_MTU_256 && attr->path_mtu <= IBV_MTU_1024));
	must((mask & IBV_QP_MAX_DEST_RD_ATOMIC) == 0 || attr->max_dest_rd_atomic <= READS_MAX);
	must((mask & IBV_QP_MAX_QP_RD_ATOMIC) == 0 || attr->max_rd_atomic <= READS_MAX);
	must((mask & IBV_QP_AV) == 0 ||
	     (attr->ah_attr.port_num == 1 && attr->ah_attr.grh.sgid_index < GIDS));
	if ((mask & IBV_QP_AV) != 0 && (byte() & 7) == 7) { /* nobody has this address */
		fuzz.now_ns += UINT64_C(500000000);
		return ETIMEDOUT;
	}
	return __real_ibv_modify_qp(qp, attr, mask);
}

static int sends_take(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **ret_bad)
{
	(void)ret_bad;
	for (; wr != NULL && fuzz.sent_count < SENDS_MAX; wr = wr->next) {
		fuzz.sent[fuzz.sent_count] = wr->wr_id;
		fuzz.sent_by[fuzz.sent_count++] = qp->qp_num;
	}
	return 0;
}

static void sent_drop(unsigned first, unsigned count)
{
	fuzz.sent_count -= count;
	memmove(&fuzz.sent[first], &fuzz.sent[first + count],
		(fuzz.sent_count - first) * sizeof(fuzz.sent[0]));
	memmove(&fuzz.sent_by[first], &fuzz.sent_by[first + count],
		(fuzz.sent_count - first) * sizeof(fuzz.sent_by[0]));
}

static int completions_give(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
	unsigned given = 0;

	(void)cq;
	for (; given < (unsigned)count && given < fuzz.sent_count; given++)
		wcs[given] =
			(struct ibv_wc){ .wr_id = fuzz.sent[given], .qp_num = fuzz.sent_by[given] };
	sent_drop(0, given);
	return (int)given;
}

/* Its completions go with it, and what is told of it. */
WRAP(int, ibv_destroy_qp, struct ibv_qp *qp)
{
	for (unsigned i = fuzz.sent_count; i-- > 0;) {
		if (fuzz.sent_by[i] == qp->qp_num)
			sent_drop(i, 1);
	}
	machine.async_told = machine.async_told && machine.async.element.qp != qp;
	return __real_ibv_destroy_qp(qp);
}

WRAP(struct ibv_context *, ibv_open_device, struct ibv_device *device)
{
	struct ibv_context *ctx = __real_ibv_open_device(device);

	ctx->ops.post_send = sends_take;
	ctx->ops.poll_cq = completions_give;
	return ctx;
}

/* ---- the manager ---- */

static struct id *id_find(const struct rdma_cm_id *id)
{
	for (unsigned i = 0; i < IDS_MAX; i++) {
		if (fuzz.ids[i].id == id)
			return &fuzz.ids[i];
	}
	return NULL;
}

WRAP(int, rdma_create_id, struct rdma_event_channel *channel, struct rdma_cm_id **ret_id,
     void *context, enum rdma_port_space space)
{
	struct id *free_id = id_find(NULL);

	if (free_id == NULL) {
		errno = ENOMEM;
		return -1;
	}
	must(__real_rdma_create_id(channel, ret_id, context, space) == 0);
	(*ret_id)->route.addr.dst_addr.sa_family = AF_INET;
	*free_id = (struct id){ .id = *ret_id };
	return 0;
}

/* No event of it comes afterwards. */
WRAP(int, rdma_destroy_id, struct rdma_cm_id *id)
{
	struct id *ours = id_find(id);
	unsigned kept = machine.cm_first;

	must(ours != NULL);
	ours->id = NULL;
	for (unsigned i = machine.cm_first; i < machine.cm_count; i++) {
		if (machine.cm[i].id != id)
			machine.cm[kept++] = machine.cm[i];
	}
	machine.cm_count = kept;
	return __real_rdma_destroy_id(id);
}

WRAP(int, rdma_get_cm_event, struct rdma_event_channel *channel, struct rdma_cm_event **ret_event)
{
	if (machine.cm_first == machine.cm_count)
		machine.cm_first = machine.cm_count = 0;
	return __real_rdma_get_cm_event(channel, ret_event);
}

WRAP(int, rdma_connect, struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct ol_xport_ident ident;
	const uint8_t *priv = param->private_data;

	id_find(id)->stage = CALLS;
	must(param->private_data_len == OL_VERBS_PRIV_CONNECT_AT + 1);
	must(priv[OL_VERBS_PRIV_CONNECT_AT] == OL_VERBS_WAY_IMM);
	must(param->responder_resources <= READS_MAX && param->initiator_depth <= READS_MAX);
	X->ident(&((struct ol_verbs_conn *)id->context)->base, &ident);
	must(memcmp(priv, ident.bytes, sizeof(ident.bytes)) == 0);
	return 0;
}

WRAP(int, rdma_accept, struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct id *ours = id_find(id);

	must(ours->stage == ASKS && param->private_data_len <= OL_XPORT_PRIV_ACCEPT_MAX);
	must(param->responder_resources <= READS_MAX && param->initiator_depth <= READS_MAX);
	must(param->responder_resources <= ours->resources);
	must(param->initiator_depth <= ours->depth);
	ours->stage = ANSWERED;
	return 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
	must(id_find(id)->stage == CALLS);
	id_find(id)->stage = MADE;
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *priv, uint8_t priv_len)
{
	must(id_find(id) != NULL && priv_len <= OL_VERBS_PRIV_REJECT_AT + 1);
	must(priv_len == 0 || priv != NULL);
	return 0;
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	must(id_find(id) != NULL && event == IBV_EVENT_COMM_EST);
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes)
{
	must(id_find(id) != NULL && value != NULL);
	(void)level;
	(void)name;
	(void)bytes;
	return 0;
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	must(id_find(id) != NULL && ece != NULL);
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	must(id_find(id) != NULL);
	*ece = (struct ibv_ece){ .vendor_id = byte() & 1, .options = 3 };
	return 0;
}

/* The kernel's path to whom the request came from: by its GID, but within a subnet of InfiniBand */
WRAP(int, rdma_init_qp_attr, struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *ret_mask)
{
	must(id_find(id) != NULL);
	*ret_mask = IBV_QP_STATE;
	if (attr->qp_state != IBV_QPS_RTR)
		return 0;
	*ret_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN;
	attr->ah_attr.port_num = 1;
	attr->ah_attr.is_global = !fuzz.infiniband;
	gid_fill(attr->ah_attr.grh.dgid.raw, HOST + 1);
	attr->path_mtu = IBV_MTU_1024;
	attr->dest_qp_num = id_find(id)->qp_num;
	return 0;
}

#endif /* OL_TESTS_FUZZ_VERBS_KERNEL_H */
