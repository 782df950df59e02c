/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * oob.h -- the messages of connections that are made over TCP, and what oob.c and oob_path.c share
 */
#ifndef OL_RDMA_VERBS_OOB_H
#define OL_RDMA_VERBS_OOB_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "rdma/verbs/internal.h"

#define OOB_MAGIC UINT32_C(0x424f4c4f) /* "OLOB" in memory */

enum {
	OOB_VERSION = 1,
	OOB_PSN_MASK = 0xffffff,
	OOB_REACHED_MAX = 64, /* peers that are remembered */
	OOB_NEEDS_GRH = 1 << 0, /* a flag of HELLO and ANSWER */
};

enum oob_kind {
	OOB_HELLO = 1,
	OOB_ANSWER,
	OOB_REJECT,
	OOB_CONFIRM,
};

/* Little-endian, as it crosses the wire; GIDs are in network order. */
struct oob_msg {
	uint32_t magic;
	uint8_t version;
	uint8_t kind; /* enum oob_kind */
	uint8_t way; /* enum ol_verbs_way */
	uint8_t refusal; /* enum ol_verbs_refusal, of a REJECT */
	uint32_t qp_num;
	uint32_t psn;
	uint16_t lid;
	uint8_t link_layer;
	uint8_t gid_type; /* enum ibv_gid_type */
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t reads_in; /* that this end serves at once */
	uint8_t reads_out;
	uint8_t priv_len;
	uint8_t gid[16];
	uint32_t ece_vendor;
	uint32_t ece_options;
	uint32_t flags; /* OOB_NEEDS_GRH */
	uint8_t priv[256];
};
static_assert(sizeof(struct oob_msg) == 308, "no padding");
static_assert(OL_XPORT_PRIV_CONNECT_MAX < 256 && OL_XPORT_PRIV_ACCEPT_MAX < 256 &&
		      OL_XPORT_PRIV_REJECT_MAX < 256,
	      "priv_len and priv hold any");

/* One socket: of a connection, or of a stranger at the door. */
struct ol_verbs_oob_end {
	int fd;
	struct ol_verbs_conn *conn; /* NULL: at the door */
	struct ol_verbs_oob_end *next; /* at the door, in order of arrival */
	bool linking; /* connect() of the socket is not finished */
	bool confirmed; /* CONFIRM came */
	bool watched; /* the epoll has it: its end is not known yet */
	uint32_t got; /* bytes of in */
	struct oob_msg in;
	struct oob_msg peer; /* the peer's HELLO or ANSWER */
	struct ibv_gid_entry gid; /* of this end */
	struct ibv_port_attr port;
	uint32_t psn;
	struct ibv_ece ece; /* that this end tells */
};

struct ol_verbs_oob {
	int epoll_fd;
	int listen_fd; /* -1: none */
	int spare_fd; /* given up for a moment when no descriptor is left; -1: none */
	struct ol_verbs_oob_end *doors;
	uint32_t door_count;
	uint64_t slow_ns; /* when a path cost much time in vain; 0: never */
	uint8_t reached[OOB_REACHED_MAX][16]; /* GIDs, a ring */
	uint32_t reached_count;
};

/* oob_path.c */

/* ol_verbs_oob_locate -- the end of the fabric that this socket's connection has here: its port, GID and
 * first sequence number. like: the peer's GID, of whose kind it must be; NULL: any. -EHOSTUNREACH: the
 * port has none that fits */
int ol_verbs_oob_locate(struct ol_verbs_oob_end *end, const struct ibv_gid_entry *like);
/* ol_verbs_oob_attr, ol_verbs_oob_tried -- see struct ol_verbs_manager */
int ol_verbs_oob_attr(struct ol_verbs_conn *conn, enum ibv_qp_state state, struct ibv_qp_attr *attr,
		      int *mask);
int ol_verbs_oob_tried(struct ol_verbs_conn *conn, int rc, uint64_t took_ns);

#endif /* OL_RDMA_VERBS_OOB_H */
